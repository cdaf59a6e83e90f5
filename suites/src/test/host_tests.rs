//! The part of a test run that needs no guest: the checks of the source, the rooms' tests, and the model
//! checks of the concurrent structures, by `cargo test`.
//!
//! *Interface*: [`parts`]; [`test_program`] reads what cargo says of a program. Model checks and Miri leave
//! out rooms that have not changed since they passed, but in a long run, or when only they are asked for.
//! Totals come from the lines that `cargo test` prints.

use super::Wishes;
use super::models::{self, MODELS};
use super::mutants::{self, Choice};
use super::stamps::{self, Stamp};
use super::tap::Check;
use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
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
        let generate = |rooms: &BTreeSet<_>| GENERATE.iter().any(|room| rooms.contains(*room));
        let hardens = !quick && reached.as_ref().is_none_or(generate);
        add("host".into(), Box::new(move || rooms(long, reached)));
        if hardens {
            add("hardened".into(), Box::new(move || hardened(long)));
        }
    }
    if wishes.wants("mutants") {
        add("mutants".into(), Box::new(move || slice(again)));
    }
    if long && wishes.names.is_empty() && wishes.only.is_none() {
        add("more mutants".into(), Box::new(tenth));
    }
    for (kind, room, run) in of_rooms(long) {
        if wishes.wants(kind) {
            let checks = move || stamps::unless_passed(kind, room, again, run);
            add(format!("{kind} {room}"), Box::new(checks));
        }
    }
    parts
}

/// The quick slice of the mutants, as far as it asks rooms that have changed.
fn slice(again: bool) -> Result<Vec<Check>> {
    let mut stamps = Vec::new();
    for room in mutants::rooms_of_slice()? {
        stamps.extend(Stamp::unless_passed("mutants", &room, again)?);
    }
    if stamps.is_empty() {
        return Ok(Vec::new());
    }
    let rooms = stamps.iter().map(|stamp| stamp.room.clone()).collect();
    let status = mutants::main(&Choice::Slice(rooms))?;
    if status == 0 {
        stamps.into_iter().try_for_each(Stamp::pass)?;
    }
    let name = "the slice of the mutants";
    Ok(vec![Check::new(name, status == 0, "see above")])
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
        Some(Check::new(name, end.starts_with("ok, "), "see above"))
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
    let mut command = host::cargo();
    command.args(["test", "--no-fail-fast"]);
    match reached {
        None => all_rooms(&mut command, long),
        Some(mut rooms) => {
            rooms.retain(|room| !left_out(long).any(|name| name == room));
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

/// The rooms without host tests, or whose tests belong to a long run.
fn left_out(long: bool) -> impl Iterator<Item = &'static str> {
    let lab = (!long).then_some(LAB);
    ["kernel", "trials"].into_iter().chain(lab)
}

/// All rooms that have host tests: a build of a part of them would choose other features.
fn all_rooms(command: &mut Command, long: bool) {
    command.arg("--workspace");
    for room in left_out(long) {
        command.args(["--exclude", room]);
    }
}

/// The rooms that generate code.
const GENERATE: &[&str] = &["codegen", "quaject", "thread", "device"];

/// The generated routines against their plain twins once more, hardened against speculation
/// (`codegen::harden`): the programs of the host's tests, in another environment.
fn hardened(long: bool) -> Result<Vec<Check>> {
    let mut build = host::cargo();
    build.args(["test", "--quiet", "--no-run", "--message-format=json"]);
    all_rooms(&mut build, long);
    let output = build.stderr(Stdio::inherit()).output();
    let output = output.context("cannot start cargo")?;
    let programs: Vec<_> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(|message| test_program(&message))
        .filter(|(folder, _)| GENERATE.iter().any(|room| folder.ends_with(room)))
        .collect();
    let mut checks = Vec::new();
    for (folder, program) in &programs {
        let mut command = Command::new(program);
        command.current_dir(folder).env("HARDENING", "all");
        if !long {
            // Stops between two instructions are the same, and take most of the time.
            command.args(["--skip", "races::"]);
        }
        checks.extend(run("hardened", &mut command)?);
    }
    if checks.is_empty() || !output.status.success() {
        checks.push(Check::new("hardened", false, output.status.to_string()));
    }
    Ok(checks)
}

/// The folder of a package, and a program of its tests, of which one of cargo's messages tells.
pub fn test_program(message: &serde_json::Value) -> Option<(PathBuf, PathBuf)> {
    let is_test = message["profile"]["test"].as_bool()?;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some((folder.to_owned(), program.into()))
}

/// The work on one room.
type OfRoom = Box<dyn FnOnce() -> Result<Vec<Check>> + Send>;

/// The rooms with models under loom, which tries all interleavings, with the tests that those are; and the
/// rooms whose tests run under Miri, which knows what the language forbids.
fn of_rooms(long: bool) -> Vec<(&'static str, &'static str, OfRoom)> {
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
    run("models", &mut models::command(room, which))
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

    #[test]
    fn programs_of_tests_are_found() {
        let message = |test: bool| {
            serde_json::json!({
                "manifest_path": "/home/codegen/Cargo.toml",
                "profile": {"test": test},
                "executable": "/home/target/debug/deps/codegen-1",
            })
        };
        let found = (
            "/home/codegen".into(),
            "/home/target/debug/deps/codegen-1".into(),
        );
        assert_eq!(test_program(&message(true)), Some(found));
        assert_eq!(test_program(&message(false)), None);
    }
}
