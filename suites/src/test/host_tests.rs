//! The part of a test run that needs no guest: the checks of the source, the rooms' tests, and the model
//! checks of the concurrent structures, by `cargo test`.
//!
//! *Interface*: [`parts`]. Model checks and Miri leave out rooms that have not changed since they passed,
//! but in a long run, or when only they are asked for. Totals come from the lines that `cargo test` prints.

use super::models::{LOOM, MODELS};
use super::mutants::{self, Choice};
use super::tap::Check;
use super::{Wishes, stamps};
use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use xtask::failure::{Context, Result};
use xtask::host;

/// A part of a test run that needs no guest.
pub struct Part {
    /// In front of its lines.
    pub name: String,
    /// Does it.
    pub run: Box<dyn FnOnce() -> Result<Vec<Check>> + Send>,
}

/// The parts that are wanted, in order.
pub fn parts(wishes: &Wishes) -> VecDeque<Part> {
    let mut parts = VecDeque::new();
    let mut add = |name: String, run: Box<dyn FnOnce() -> Result<Vec<Check>> + Send>| {
        parts.push_back(Part { name, run });
    };
    let (quick, long) = (wishes.quick, wishes.long);
    let again = long || wishes.only.is_some();
    if wishes.wants("check") {
        add("check".into(), Box::new(move || check(quick)));
    }
    if wishes.wants("host") {
        let reached = wishes.reach.rooms().cloned();
        add("host".into(), Box::new(move || rooms(long, reached)));
        if !quick {
            add("hardened".into(), Box::new(hardened));
        }
    }
    if long && wishes.names.is_empty() && wishes.only.is_none() {
        add("mutants".into(), Box::new(tenth));
    }
    for (kind, room, run) in models(long) {
        if wishes.wants(kind) {
            let checks = move || stamps::unless_passed(kind, room, again, run);
            add(format!("{kind} {room}"), Box::new(checks));
        }
    }
    parts
}

/// A tenth of the mutants, another each time.
fn tenth() -> Result<Vec<Check>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = now.map_or(0, |since| since.as_secs());
    let status = mutants::main(&Choice::Tenth(seed))?;
    let name = "a tenth of the mutants";
    Ok(vec![Check::new(name, status == 0, format!("seed {seed}"))])
}

/// `cargo xtask check`; each of its steps is a check.
fn check(quick: bool) -> Result<Vec<Check>> {
    let own = std::env::current_exe().context("this program")?;
    let mut command = Command::new(own.with_file_name("xtask"));
    command.arg("check").args(quick.then_some("--quick"));
    let output = command
        .current_dir(host::project())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start the check")?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let step = |line: &str| {
        let (name, end) = line.strip_prefix("check ")?.rsplit_once(": ")?;
        Some(Check::new(name, end == "ok", "see above"))
    };
    let mut checks: Vec<_> = text.lines().filter_map(step).collect();
    let silent = checks.is_empty() || !output.status.success();
    if silent && checks.iter().all(|check| check.good) {
        checks.push(Check::new("check", false, output.status.to_string()));
    }
    Ok(checks)
}

/// `cargo test` of every room but the kernel itself, which runs on the bare machine only; of `lab`, which the
/// product does not link, in a long run.
fn rooms(long: bool, reached: Option<BTreeSet<String>>) -> Result<Vec<Check>> {
    let mut left_out = vec!["kernel", "trials"];
    if !long {
        left_out.push(LAB);
    }
    let mut command = host::cargo();
    command.args(["test", "--no-fail-fast"]);
    match reached {
        None => {
            command.arg("--workspace");
            for room in left_out {
                command.args(["--exclude", room]);
            }
        }
        Some(mut rooms) => {
            rooms.retain(|room| !left_out.contains(&room.as_str()));
            if rooms.is_empty() {
                return Ok(Vec::new());
            }
            for room in &rooms {
                command.args(["--package", room]);
            }
        }
    }
    run("host", &mut command)
}

/// The generated routines against their plain twins once more, hardened against speculation
/// (`codegen::harden`).
fn hardened() -> Result<Vec<Check>> {
    let mut command = host::cargo();
    command.args(["test", "--no-fail-fast", "--package", "quaject"]);
    command.env("HARDENING", "all");
    run("hardened", &mut command)
}

/// The work on one room.
type OfRoom = Box<dyn FnOnce() -> Result<Vec<Check>> + Send>;

/// The rooms with models under loom, which tries all interleavings, with the tests that those are; and the
/// rooms whose tests run under Miri, which knows what the language forbids.
fn models(long: bool) -> Vec<(&'static str, &'static str, OfRoom)> {
    let mut all: Vec<(_, _, OfRoom)> = Vec::new();
    for &(room, which) in MODELS {
        all.push(("models", room, Box::new(move || under_loom(room, which))));
    }
    for room in ["sync", LAB] {
        all.push(("miri", room, Box::new(move || under_miri(room))));
    }
    all.retain(|(_, room, _)| long || *room != LAB);
    all
}

/// The algorithms that the product does not link.
const LAB: &str = "lab";

fn under_loom(room: &str, which: &[&str]) -> Result<Vec<Check>> {
    let mut command = host::cargo();
    command.args(["test", "--release", "--no-fail-fast", "--package", room]);
    command.args(which);
    command
        .env(LOOM.0, LOOM.1)
        .env("CARGO_TARGET_DIR", host::project().join("target/loom"));
    run("models", &mut command)
}

/// `scripts/miri.sh` could not get what it needs.
const MISSING: i32 = 75;

/// Where Miri cannot be had that is said, and nothing counts as passed.
fn under_miri(room: &str) -> Result<Vec<Check>> {
    let mut command = Command::new(host::project().join("scripts/miri.sh"));
    command.env("MIRI_PACKAGES", room);
    for name in ["RUSTFLAGS", "RUSTC", "RUSTDOC", "CARGO", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    let (checks, status) = run_counting("miri", &mut command)?;
    if status == Some(MISSING) {
        println!("miri: SKIPPED, not passed: it is not installed and cannot be fetched");
        return Ok(Vec::new());
    }
    Ok(checks)
}

fn run(name: &str, command: &mut Command) -> Result<Vec<Check>> {
    Ok(run_counting(name, command)?.0)
}

/// Runs it; its checks, and its exit status.
fn run_counting(name: &str, command: &mut Command) -> Result<(Vec<Check>, Option<i32>)> {
    println!("{name}: {command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .context("cannot start cargo")?;
    let lines = BufReader::new(child.stdout.take().expect("it was piped")).lines();
    let mut checks = Vec::new();
    for line in lines.map_while(std::result::Result::ok) {
        if let Some((passed, failed)) = totals(&line) {
            checks.push(Check::passed(name, passed));
            println!("{name}: {passed} passed, {failed} failed");
        } else if let Some(test) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            checks.push(Check::new(test, false, ""));
        } else if !line.ends_with("... ok")
            && !line.trim().is_empty()
            && !line.starts_with("running ")
        {
            println!("  {line}");
        }
    }
    let status = child.wait().context("cargo test")?;
    if !status.success() && checks.iter().all(|check| check.good) {
        checks.push(Check::new("cargo test", false, status.to_string()));
    }
    Ok((checks, status.code()))
}

/// The numbers in `test result: ok. 11 passed; 0 failed; ...`.
fn totals(line: &str) -> Option<(usize, usize)> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut numbers = rest.split(';').map(|part| {
        part.split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
    });
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read() {
        let line = "test result: FAILED. 11 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(totals(line), Some((11, 2)));
        assert_eq!(totals("running 3 tests"), None);
    }
}
