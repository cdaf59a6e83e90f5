//! Tests of threads: the room's own suite, the variants of the switch.
//!
//! *Interface*: `suite`, `torture`, `floating`, `stopper`.

use super::guest::{own_suite, with};
use super::kit::Kit;
use super::tap::Check;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// `selftest=thread` in place of the first program.
pub fn suite(kit: &Kit) -> Vec<Check> {
    let run = |cpus| {
        let mut machine = with(kit, &format!("threads-{cpus}"), cpus, 128);
        let name = format!("{cpus} CPUs");
        own_suite(kit, &name, &mut machine, "selftest=thread", 3 * MINUTE)
    };
    [1, 2, 4, 8].map(run).into()
}

/// `selftest=torture` in place of the first program.
pub fn torture(kit: &Kit) -> Vec<Check> {
    let run = |cpus| {
        let mut machine = with(kit, &format!("torture-{cpus}"), cpus, 128);
        if kit.long {
            machine.append.push_str(" thorough");
        }
        let name = format!("{cpus} CPUs");
        own_suite(kit, &name, &mut machine, "selftest=torture", 20 * MINUTE)
    };
    // More than the host has processors take minutes, and find no more in one run.
    let cpus: &[u32] = if kit.long { &[1, 2, 4, 8] } else { &[1, 4] };
    cpus.iter().copied().map(run).collect()
}

/// The features of a processor decide which switch code a thread gets; each of these processors leads to
/// another variant.
const PROCESSORS: &[(&str, &str)] = &[
    ("all features", "max"),
    ("a plain x86-64", "qemu64"),
    ("no XSAVE", "max,-xsave"),
    ("no XSAVEOPT", "max,-xsaveopt"),
    ("no FSGSBASE", "max,-fsgsbase"),
    ("neither XSAVE nor FSGSBASE", "max,-xsave,-fsgsbase"),
    ("no SMAP", "max,-smap"),
];

/// Registers survive switches between processes and threads on each of these processors.
pub fn floating(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for (at, (about, processor)) in PROCESSORS.iter().enumerate() {
        for cpus in [1, 2] {
            let mut machine = with(kit, &format!("floating-{at}-{cpus}"), cpus, 128);
            machine.extra.extend(["-cpu".into(), (*processor).into()]);
            let words = ["/tests/floating-glibc", "200"];
            for mut check in kit.says_ok(&machine, &words, MINUTE) {
                check.name = format!("{about}, {cpus} CPUs");
                checks.push(check);
            }
        }
    }
    checks
}

/// Random threads are stopped for a second at a time, or shorter in a short run; the machine goes on.
pub fn stopper(kit: &Kit) -> Vec<Check> {
    let (seconds, hold_ms) = if kit.long {
        ("600", "1000")
    } else {
        ("8", "100")
    };
    let words = ["/tests/stopper-glibc", seconds, hold_ms];
    let run = |cpus| {
        let machine = with(kit, &format!("stopper-{cpus}"), cpus, 128);
        kit.says_ok(&machine, &words, 15 * MINUTE)
    };
    [1, 4].into_iter().flat_map(run).collect()
}
