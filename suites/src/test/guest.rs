//! Guest tests that are more than a command of the table (`table.rs`).
//!
//! *Interface*: [`with`] describes a machine, [`own_suite`] runs a suite of the kernel's own; the others are
//! tests, each of which boots one machine or a few, and gives its checks.

use super::faults;
use super::kit::Kit;
use super::tap::Check;
use std::time::Duration;
use xtask::machine::{Chipset, Machine, Status};
use xtask::rootfs::Root;

const MINUTE: Duration = Duration::from_secs(60);

/// A machine with so many CPUs and so much memory.
pub fn with(kit: &Kit, name: &str, cpus: u32, mebibytes: u64) -> Machine {
    let mut machine = kit.machine(name);
    machine.cpus = cpus;
    machine.memory = mebibytes << 20;
    machine
}

/// Each kind of object until the kernel says no.
pub fn scarce(kit: &Kit) -> Vec<Check> {
    let sizes: &[u64] = if kit.long { &[24, 64, 256] } else { &[64] };
    let mut checks = Vec::new();
    for (&mebibytes, cpus) in sizes.iter().flat_map(|size| [(size, 1), (size, 4)]) {
        let machine = with(kit, &format!("scarce-{mebibytes}m-{cpus}"), cpus, mebibytes);
        checks.extend(kit.tap(&machine, &["/tests/scarce-glibc"], 5 * MINUTE));
    }
    checks
}

/// The kernel's own memory: rights and aliases in all page tables, and the addresses drawn at boot.
pub fn survey(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in [1, 4] {
        let name = format!("survey-{cpus}");
        let mut machine = with(kit, &name, cpus, 128);
        checks.extend(kit.tap(&machine, &["/tests/survey-glibc"], 2 * MINUTE));
        checks.push(own_suite(kit, &name, &mut machine, "selfcheck", MINUTE));
        // The same where programs run on tables of their own.
        let name = format!("survey-isolated-{cpus}");
        let mut machine = with(kit, &name, cpus, 128);
        machine.append.push_str(" mitigations=all");
        checks.extend(kit.tap(&machine, &["/tests/survey-glibc"], 2 * MINUTE));
        checks.push(own_suite(kit, &name, &mut machine, "selfcheck", MINUTE));
    }
    checks.extend(lots(kit));
    checks
}

/// The line of `/syn/rights` that begins with `image`, of a machine with `words` on the command
/// line.
fn addresses(kit: &Kit, name: &str, words: &str) -> Vec<String> {
    let mut machine = with(kit, name, 1, 64);
    machine.append.push_str(words);
    let command = ["/bin/sh", "-c", "grep ^image /syn/rights"];
    let ran = kit.boot(&machine, &command, Vec::new(), MINUTE);
    let text = ran.map_or(String::new(), |ran| ran.text());
    text.trim().split(", ").map(str::to_owned).collect()
}

/// The addresses drawn at random at boot differ from one boot to the next, but not with `nokaslr`.
fn lots(kit: &Kit) -> Vec<Check> {
    let boots: Vec<_> = (0..3)
        .map(|i| addresses(kit, &format!("lots-{i}"), ""))
        .collect();
    let fixed = [0, 1].map(|i| addresses(kit, &format!("fixed-{i}"), " nokaslr"));
    let mut checks = vec![Check::new(
        "nokaslr",
        fixed[0] == fixed[1] && fixed[0].len() == 4,
        format!("{fixed:?}"),
    )];
    for (i, what) in ["image", "memory", "code", "stacks"].iter().enumerate() {
        let seen: Vec<_> = boots.iter().filter_map(|boot| boot.get(i)).collect();
        // Three draws of the same place by chance: once in a hundred thousand boots at least.
        let differ = seen.len() == 3
            && seen.iter().all(|place| place.starts_with(what))
            && seen.iter().any(|place| *place != seen[0]);
        checks.push(Check::new(*what, differ, format!("{seen:?}")));
    }
    checks
}

/// A mixed load again and again.
pub fn load(kit: &Kit) -> Vec<Check> {
    let rounds = if kit.long { "200" } else { "25" };
    kit.says_ok(
        &with(kit, "load", 4, 256),
        &["/tests/load-glibc", rounds, "4"],
        20 * MINUTE,
    )
}

/// Copies of a program with random faults.
pub fn corrupt(kit: &Kit) -> Vec<Check> {
    let copies = if kit.long { "2000" } else { "200" };
    let words = ["/tests/corrupt-glibc", "/tests/hello-musl", copies, "7"];
    kit.says_ok(&with(kit, "corrupt", 2, 64), &words, 10 * MINUTE)
}

/// Boots with a word on the kernel's command line that makes it run a suite of its own in place of the first
/// program.
pub fn own_suite(
    kit: &Kit,
    name: &str,
    machine: &mut Machine,
    word: &str,
    limit: Duration,
) -> Check {
    if kit.leaves_out(machine) {
        return Check::passed(name, 0);
    }
    machine.append.push(' ');
    machine.append.push_str(word);
    match kit.boot_suite(machine, limit) {
        Err(failure) => Check::hindered(name, failure),
        Ok(ran) => {
            let good = ran.outcome.status == Status::Exit(0);
            kit.note(good);
            Check::new(name, good, ran.told())
        }
    }
}

/// `user/tests/page-cache.c` in 64 MiB, on the kernel that has its file system.
pub fn kept(kit: &Kit) -> Vec<Check> {
    let steps = if kit.long { "20000" } else { "1500" };
    let words = ["/tests/page-cache-glibc", steps];
    let run = |cpus| {
        let mut machine = with(kit, &format!("page-cache-{cpus}"), cpus, 64);
        if kit.leaves_out(&machine) {
            return Vec::new();
        }
        let tap = |kit: &Kit, machine: &mut Machine| kit.tap(machine, &words, 10 * MINUTE);
        kit.on_suites(&mut machine, tap)
            .unwrap_or_else(|failure| vec![Check::hindered("page-cache", failure)])
    };
    [1, 4].into_iter().flat_map(run).collect()
}

/// The kernel's checks of its own memory, pages that are taken from other CPUs, faults of forks.
pub fn memory(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for mebibytes in [16, 128] {
        let name = format!("selfcheck-{mebibytes}m");
        let mut machine = with(kit, &name, 1, mebibytes);
        checks.push(own_suite(kit, &name, &mut machine, "selfcheck", MINUTE));
    }
    for cpus in [1, 2, 4] {
        let machine = with(kit, &format!("revoke-{cpus}"), cpus, 128);
        checks.extend(kit.says_ok(&machine, &["/tests/revoke-glibc", "1000"], 2 * MINUTE));
        let machine = with(kit, &format!("pages-{cpus}"), cpus, 128);
        let rounds = if kit.long { "400000" } else { "20000" };
        let words = ["/tests/pages-glibc", rounds, "forks"];
        checks.extend(kit.says_ok(&machine, &words, 10 * MINUTE));
    }
    checks.extend(faults::of_forks(kit));
    checks
}

/// The measurement of `cargo xtask bench lateness`, short. Under icount it is the same on every host.
pub fn lateness(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in ["signal", "sleep"] {
        let mut machine = with(kit, &format!("lateness-{kind}"), 1, 256);
        machine.icount = Some(4);
        let words = ["/tests/lateness-glibc", "2", kind];
        checks.push(match kit.boot(&machine, &words, Vec::new(), 5 * MINUTE) {
            Err(failure) => Check::hindered(kind, failure),
            Ok(ran) => {
                let text = ran.text();
                let says = |row: &str| text.lines().any(|line| line.ends_with(row));
                let good = ran.outcome.status == Status::Exit(0)
                    && says("samples count 8000")
                    && says("missed_instants count 0")
                    && says(" 0 early")
                    && !text.contains("fail ");
                Check::new(kind, good, ran.told())
            }
        });
    }
    checks
}

/// A greeting from machines of each kind.
pub fn boots(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut greet = |name: &str, machine: &Machine| {
        let words = [
            "/bin/sh",
            "-c",
            "echo hi | cat; grep -c ^processor /proc/cpuinfo; exit 7",
        ];
        // The small root, as a user has it: 16 MiB must be enough for that.
        let ran = Root::new(None)
            .and_then(|root| kit.boot_root(root, machine, &words, Vec::new(), MINUTE));
        let check = match ran {
            Err(failure) => Check::hindered(name, failure),
            Ok(ran) => {
                let good = ran.text() == format!("hi\n{}\n", machine.cpus)
                    && ran.stderr.is_empty()
                    && ran.outcome.status == Status::Exit(7);
                Check::new(name, good, ran.told())
            }
        };
        checks.push(check);
    };
    for cpus in [1, 2, 3, 8] {
        greet(
            &format!("{cpus} CPUs"),
            &with(kit, &format!("boots-{cpus}"), cpus, 128),
        );
    }
    for mebibytes in [16, 17, 64, 1024, 4096] {
        greet(
            &format!("{mebibytes} MiB"),
            &with(kit, &format!("boots-{mebibytes}m"), 1, mebibytes),
        );
    }
    let mut machine = with(kit, "boots-microvm", 1, 128);
    machine.chipset = Chipset::Microvm;
    greet("microvm", &machine);
    machine.cpus = 4;
    greet("microvm, 4 CPUs", &machine);
    let mut machine = with(kit, "boots-icount", 1, 128);
    machine.icount = Some(0);
    greet("icount", &machine);
    checks
}
