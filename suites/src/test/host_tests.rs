//! Host tests of the rooms and the model checks of the concurrent structures, by `cargo test`.
//!
//! *Interface*: `rooms`, `hardened`, `models`, `miri`; the last two leave out what has not changed since it
//! passed, unless told to do it `again`. Their totals come from the lines that `cargo test` prints.

use super::stamps;
use super::tap::Check;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use xtask::failure::{Context, Result};
use xtask::host;

/// `cargo test` of every room but the kernel itself, which runs on the bare machine only.
pub fn rooms() -> Result<Vec<Check>> {
    let mut command = host::cargo();
    command.args([
        "test",
        "--workspace",
        "--exclude",
        "kernel",
        "--exclude",
        "trials",
        "--no-fail-fast",
    ]);
    run("host", &mut command)
}

/// The generated routines against their plain twins once more, hardened against speculation
/// (`codegen::harden`).
pub fn hardened() -> Result<Vec<Check>> {
    let mut command = host::cargo();
    command.args(["test", "--no-fail-fast", "--package", "quaject"]);
    command.env("HARDENING", "all");
    run("hardened", &mut command)
}

/// The rooms with models, and which of their tests those are.
const MODELS: &[(&str, &[&str])] = &[
    ("sync", &["--lib", "--test", "models"]),
    ("lab", &["--test", "models"]),
    ("codegen", &["--test", "models"]),
    ("quaject", &[]),
];

/// The concurrent structures under loom, which tries all interleavings.
pub fn models(again: bool) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for (room, which) in MODELS {
        checks.extend(stamps::unless_passed("models", room, again, || {
            of_room(room, which)
        })?);
    }
    Ok(checks)
}

fn of_room(room: &str, which: &[&str]) -> Result<Vec<Check>> {
    let mut command = host::cargo();
    command.args(["test", "--release", "--no-fail-fast", "--package", room]);
    command.args(which);
    command
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", host::project().join("target/loom"));
    run("models", &mut command)
}

/// `scripts/miri.sh` could not get what it needs.
const MISSING: i32 = 75;

/// The tests of `sync` and `lab` under Miri, which knows what the language forbids. Where it cannot be had
/// that is said, and nothing counts as passed.
pub fn miri(again: bool) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for room in ["sync", "lab"] {
        checks.extend(stamps::unless_passed("miri", room, again, || {
            under_miri(room)
        })?);
    }
    Ok(checks)
}

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
