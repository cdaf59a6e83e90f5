//! The init process: the first process with code. When it ends, the machine ends.
//!
//! *Interface*: [`set_first`] says which it is, [`first`] asks; [`ended`] for each process that has;
//! [`power_off`] ends the machine, after the procedure linked by [`link_drain`] has sent all output.

use core::sync::atomic::{AtomicI32, Ordering};

use machine::power;
use sync::Once;

use super::Process;

static FIRST: AtomicI32 = AtomicI32::new(0);
static DRAIN: Once<fn()> = Once::new();

/// Links what waits until everything written is out, at boot.
pub fn link_drain(drain: fn()) {
    let _again = DRAIN.set(drain);
}

/// The machine lives as long as the process with this number.
pub fn set_first(number: i32) {
    FIRST.store(number, Ordering::Relaxed);
}

/// The number of the first process with code, with which the machine ends; 0 before there is one.
pub fn first() -> i32 {
    FIRST.load(Ordering::Relaxed)
}

/// A process has ended; with the first one, the machine does.
pub fn ended(process: &Process, status: i32) {
    if process.pid == first() {
        let code = if status & 0x7f == 0 {
            status >> 8 & 0xff
        } else {
            128 + (status & 0x7f)
        };
        power_off(code);
    }
}

/// Reports `code` to the host once everything written is out, files that are kept elsewhere included, and
/// ends the machine.
pub fn power_off(code: i32) -> ! {
    file::page_cache::index::flush_all(None);
    if let Some(drain) = DRAIN.get() {
        drain();
    }
    #[cfg(order)]
    sync::lockdep::pairs(|held, taken| machine::log!("order: {held} | {taken}"));
    power::report(
        vm::fallible::try_text(format_args!("exit {code}"))
            .as_deref()
            .unwrap_or("exit 125"),
    );
    power::off()
}
