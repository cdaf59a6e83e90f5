//! Tests of what is done about speculation: the choice by processor and word, the code that it leads to, and the usual suites under all of it.
//!
//! *Interface*: `run`. QEMU's software emulation speculates nothing and ignores what is written to the registers that it lacks, so that every mechanism can be executed;
//! that each holds on silicon no test here can show.

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Words, a processor of QEMU's, and what the script is told of it.
const CHOICES: &[(&str, &str, &str)] = &[
    ("off", "max", "amd"),
    ("auto", "max", "amd"),
    ("all", "max", "amd"),
    ("auto", "EPYC-Rome", "amd"),
    ("off", "Skylake-Server", "intel"),
    ("auto", "Skylake-Server", "intel"),
    ("all", "Haswell,-smap", "intel"),
];

/// Programs that must not notice, with the number of CPUs.
const PROGRAMS: &[(&str, u32)] = &[
    ("calls", 1),
    ("calls", 4),
    ("jobs", 4),
    ("trace", 1),
    ("threads", 4),
    ("speculation", 1),
    ("speculation", 4),
];

/// Processors whose switch code differs.
const SWITCHING: &[&str] = &["max", "qemu64", "max,-xsave,-fsgsbase", "max,-smap"];

/// The suite.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut add = |about: String, more: Vec<Check>| {
        for mut check in more {
            check.name = format!("{about}: {}", check.name);
            checks.push(check);
        }
    };
    let machine = |name: String, cpus, word: &str| {
        let mut machine = with(kit, &format!("mitigations-{name}"), cpus, 128);
        machine.append.push_str(&format!(" mitigations={word}"));
        machine
    };
    for (at, (word, processor, kind)) in CHOICES.iter().enumerate() {
        let mut machine = machine(format!("choice-{at}"), 2, word);
        machine.extra.extend(["-cpu".into(), (*processor).into()]);
        let words = ["/bin/sh", "/tests/mitigations.sh", word, kind];
        add(
            format!("{word}, {processor}"),
            kit.tap(&machine, &words, MINUTE),
        );
    }
    for (program, cpus) in PROGRAMS {
        let machine = machine(format!("{program}-{cpus}"), *cpus, "all");
        let path = format!("/tests/{program}-glibc");
        add(
            format!("all, {program}, {cpus} CPUs"),
            kit.tap(&machine, &[&path], 5 * MINUTE),
        );
    }
    for (at, processor) in SWITCHING.iter().enumerate() {
        let mut machine = machine(format!("floating-{at}"), 2, "all");
        machine.extra.extend(["-cpu".into(), (*processor).into()]);
        let words = ["/tests/floating-glibc", "200"];
        add(
            format!("all, {processor}"),
            kit.says_ok(&machine, &words, MINUTE),
        );
    }
    checks
}
