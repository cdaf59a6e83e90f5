//! Random sequences of calls, made by `user/fuzz.c`: as a user, as root, on one CPU and on four.
//!
//! *Interface*: `run`. First the sequences in `tests/fuzz`, which did harm once or reached something; then random ones, for as long as one likes
//! (`--long --minutes N`). A long run says which part of the emulator was executed, and makes what failed as small as it can.

mod coverage;
mod smaller;

use super::guest::with;
use super::kit::{Kit, Ran};
use super::tap::Check;
use crate::host;
use crate::machine::{Machine, Status};
use coverage::Trace;
use std::path::PathBuf;
use std::time::Duration;

const PROGRAM: &str = "/tests/fuzz-musl";
/// Where the kept sequences are, in the project.
const KEPT: &str = "tests/fuzz";
/// Seconds of each of the four runs in a short test.
const SHORT: u64 = 15;
/// Minutes on one CPU, and as many on four, in a long one that is told nothing else.
const LONG: u64 = 20;

/// A kind of run.
struct Part {
    cpus: u32,
    /// `user` or `root`: what the program calls the arrangements.
    who: &'static str,
    seed: u64,
}

const PARTS: &[Part] = &[
    Part {
        cpus: 1,
        who: "user",
        seed: 1,
    },
    Part {
        cpus: 1,
        who: "root",
        seed: 2,
    },
    Part {
        cpus: 4,
        who: "user",
        seed: 3,
    },
    Part {
        cpus: 4,
        who: "root",
        seed: 4,
    },
];

/// The kept sequences, and random ones.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut checks = vec![kept(kit, 1), kept(kit, 4)];
    checks.extend(PARTS.iter().map(|part| random(kit, part)));
    checks
}

/// A machine for the fuzzer. Its console is a terminal, which the sequences reach.
fn machine(kit: &Kit, name: &str, cpus: u32) -> Machine {
    let mut machine = with(kit, name, cpus, 128);
    machine.append = "console=tty rows=24 cols=80".into();
    machine
}

fn log_of(name: &str) -> String {
    let log = host::build_dir("test").map(|dir| dir.join(format!("{name}.log")));
    let bytes = log.ok().and_then(|log| std::fs::read(log).ok());
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

/// What the program last said of itself in the log, which the terminal's noise does not reach.
fn said<'a>(log: &'a str, word: &str) -> Vec<&'a str> {
    let after = |line: &'a str| line.split_once(word).map(|(_, rest)| rest.trim());
    log.lines().filter_map(after).collect()
}

/// Why a run is no success; what was under way when it ended.
fn verdict(ran: &Ran, log: &str) -> Option<String> {
    let good = ran.outcome.status == Status::Exit(0) && !said(log, "fuzz ok:").is_empty();
    (!good).then(|| {
        format!(
            "{:?} {} | {} | under way: {}",
            ran.outcome.status,
            said(log, "fuzz bad:").join("; "),
            ran.outcome
                .report
                .lines()
                .take(12)
                .collect::<Vec<_>>()
                .join(" | "),
            under_way(log).join(" ")
        )
    })
}

/// The last sequence that each worker began.
fn under_way(log: &str) -> Vec<String> {
    let mut last: [Option<&str>; 8] = [None; 8];
    for begun in said(log, "fuzz ") {
        let Some((worker, id)) = begun.split_once(' ') else {
            continue;
        };
        if let Some(slot) = worker.parse::<usize>().ok().and_then(|at| last.get_mut(at)) {
            *slot = Some(id);
        }
    }
    last.into_iter().flatten().map(str::to_owned).collect()
}

/// Replays what `tests/fuzz` has.
fn kept(kit: &Kit, cpus: u32) -> Check {
    let name = format!("fuzz-kept-{cpus}");
    let listing = std::fs::read_dir(host::project().join(KEPT));
    let names = listing.into_iter().flatten().flatten();
    let mut files: Vec<_> = names
        .map(|file| format!("/tests/fuzz/{}", file.file_name().to_string_lossy()))
        .collect();
    files.sort();
    let mut words = vec![PROGRAM, "replay"];
    words.extend(files.iter().map(String::as_str));
    let limit = Duration::from_secs(120);
    let why = match kit.boot(&machine(kit, &name, cpus), &words, Vec::new(), limit) {
        Err(failure) => Some(failure.message),
        Ok(ran) => verdict(&ran, &log_of(&name)),
    };
    Check::new(name, why.is_none(), why.unwrap_or_default())
}

fn random(kit: &Kit, part: &Part) -> Check {
    let name = format!("fuzz-{}-{}", part.who, part.cpus);
    let minutes = kit.minutes.or(kit.long.then_some(LONG));
    let seconds = minutes.map_or(SHORT, |minutes| minutes * 30);
    // A long run begins elsewhere each time.
    let seed = match minutes {
        Some(_) => part.seed + u64::from(std::process::id()) * 1000,
        None => part.seed,
    };
    let mut machine = machine(kit, &name, part.cpus);
    let trace = minutes.and_then(|_| Trace::start(&mut machine, &name).ok());
    let (seconds_word, seed_word) = (seconds.to_string(), seed.to_string());
    let words = [PROGRAM, "run", &seconds_word, &seed_word, "3", part.who];
    let limit = Duration::from_secs(seconds * 2 + 120);
    let why = match kit.boot(&machine, &words, Vec::new(), limit) {
        Err(failure) => Some(failure.message),
        Ok(ran) => verdict(&ran, &log_of(&name)),
    };
    let log = log_of(&name);
    if let Some(figures) = said(&log, "fuzz seed ").last() {
        println!("{name}: seed {figures}");
    }
    if let Some(trace) = trace {
        println!("{name}: {}", trace.report(kit.symbols()));
    }
    let mut why = why;
    if let (Some(why), Some(_)) = (&mut why, minutes)
        && let Some(file) = smaller::search(kit, part.cpus, part.who, &under_way(&log))
    {
        why.push_str(&format!(" | again by {}", file.display()));
    }
    Check::new(name, why.is_none(), why.unwrap_or_default())
}

/// A file that a test writes.
fn scratch(name: &str) -> crate::failure::Result<PathBuf> {
    Ok(host::build_dir("test")?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_what_was_under_way() {
        let log = "[  1.0] fuzz 0 ab.1\n[ 1.1] fuzz 1 cd\nfuzz 0 ef.2.3\nfuzz bad: guard: x\nfuzz seed 7: 3 rounds\n";
        assert_eq!(under_way(log), ["ef.2.3", "cd"]);
        assert_eq!(said(log, "fuzz bad:"), ["guard: x"]);
    }
}
