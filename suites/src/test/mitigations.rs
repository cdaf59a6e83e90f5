//! Tests of what is done about speculation: the choice by processor and word, the code that it leads to, the
//! usual suites under all of it, and what the processor's tables map while a program runs.
//!
//! *Interface*: `run`. QEMU's software emulation speculates nothing and ignores what is written to the
//! registers that it lacks, so that every mechanism can be executed; that each holds on silicon no test here
//! can show.

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use crate::qmp::{Answer, CONT, Monitor, STOP};
use std::time::Duration;
use xtask::failure::{Failure, HOST, Result};
use xtask::machine::Machine;

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
    for word in ["off", "all"] {
        let mut machine = machine(format!("mapped-{word}"), 1, word);
        machine.still = true;
        let mapped = while_a_program_runs(kit, &machine);
        let good = |lines: &[String]| match word {
            "off" => lines.iter().any(|line| !is_gate(line)),
            _ => !lines.is_empty() && lines.iter().all(|line| is_gate(line)),
        };
        let (good, told) = match mapped {
            Ok(lines) => (good(&lines), lines.join(" | ")),
            Err(failure) => (false, failure.message),
        };
        kit.note(good);
        let name = format!("{word}: what is mapped of the kernel while a program runs");
        checks.push(Check::new(name, good, told));
    }
    checks
}

/// `abi::layout::GATE` and its length.
const GATES: std::ops::Range<usize> = 0xffff_ffff_f900_0000..0xffff_ffff_fd00_0000;

/// Whether a line of the emulator's list of mappings is of the gates ([`GATES`]).
fn is_gate(line: &str) -> bool {
    let start = line
        .get(..16)
        .and_then(|at| usize::from_str_radix(at, 16).ok());
    start.is_some_and(|at| GATES.contains(&at))
}

/// The mappings of the upper half, by the emulator's word, in the tables that the processor has while a
/// program computes, after interrupts that come at any place.
fn while_a_program_runs(kit: &Kit, machine: &Machine) -> Result<Vec<String>> {
    const SLICE: Duration = Duration::from_millis(20);
    const INTERRUPTS: usize = 60;
    // In the kernel now and then, too.
    let mut running = kit.start(
        machine,
        &["/bin/sh", "-c", "while :; do echo; done >/dev/null"],
    )?;
    let socket = running.monitor().expect("it was asked for");
    let mut monitor = Monitor::greet(socket, MINUTE)?;
    let mut interrupts = 0;
    for _ in 0..1000 {
        for command in [CONT, STOP] {
            monitor.send(command)?;
            if monitor.answer()? == Answer::Ended {
                return Err(Failure::new(HOST, "the machine ended"));
            }
            if command == CONT {
                std::thread::sleep(SLICE);
            }
        }
        // A program that computes is seldom not in user mode; before there is one nobody is.
        let of_program = monitor.ask("info registers")?.contains("CPL=3");
        if interrupts == INTERRUPTS && of_program {
            let text = monitor.ask("info mem")?;
            let upper = text.lines().filter(|line| line.starts_with("ffff"));
            return Ok(upper.map(str::to_owned).collect());
        }
        if interrupts < INTERRUPTS && (of_program || interrupts > 0) {
            monitor.ask("nmi")?;
            interrupts += 1;
        }
    }
    Err(Failure::new(HOST, "no program came to run"))
}
