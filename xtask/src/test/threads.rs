//! Tests of threads: the room's own suite, the variants of the switch.
//!
//! *Interface*: `suite`, `floating`.

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use crate::machine::Status;
use crate::rootfs::Root;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// `selftest=thread` in place of the first program.
pub fn suite(kit: &Kit) -> Vec<Check> {
    let run = |cpus| {
        let name = format!("{cpus} CPUs");
        let mut machine = with(kit, &format!("threads-{cpus}"), cpus, 128);
        machine.append.push_str(" selftest=thread");
        let ran = Root::new(None)
            .and_then(|root| kit.boot_root(root, &machine, &["/bin/true"], Vec::new(), 3 * MINUTE));
        match ran {
            Err(failure) => Check::new(&name, false, failure.message),
            Ok(ran) => Check::new(&name, ran.outcome.status == Status::Exit(0), ran.told()),
        }
    };
    [1, 2, 4, 8].map(run).into()
}

/// What a processor has decides which switch code a thread gets; each of these leads to another variant.
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
