//! Suites that run in the guest in place of the first program: `selftest=ROOM` on the kernel command line.
//!
//! *Interface*: [`run_if_asked`]. A suite that does not hold panics.

use machine::{boot, log, power};

/// Runs the suite that is asked for, and powers off.
pub fn run_if_asked() {
    let asked = boot::info()
        .cmdline
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("selftest="));
    if let Some(room) = asked {
        run(room);
    }
}

fn run(room: &str) -> ! {
    let status = match room {
        "thread" => {
            thread::selftest::run();
            0
        }
        "costs" => {
            crate::costs::run();
            0
        }
        "samples" => {
            crate::costs::rates();
            0
        }
        "torture" => {
            crate::torture::run();
            0
        }
        _ => {
            log!("no suite {room}");
            2
        }
    };
    power::report(if status == 0 { "exit 0" } else { "exit 2" });
    power::off()
}
