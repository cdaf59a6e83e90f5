//! `cargo xtask check`: format, lints, layers, sources, documentation.
//!
//! *Interface*: `main`. Every step runs; the status is 0 only when none failed.

use crate::{callers, calls, documents, folders, frames, fuzzed, kinds, layers, lists, sources};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;
use xtask::failure::{Context, Failure, HOST, Result, USAGE};
use xtask::host;

const HELP: &str = "\
usage: cargo xtask check [--quick] [STEP...]

Format, clippy for host and kernel, layers between the rooms, first lines and `unsafe` in the sources, what has no caller, the lists
of locks and of `unsafe`, the kinds of calls, the fuzzer's list of calls, the table of calls, the files, names and commands
that documents name, large stack frames of the kernel, documentation. With names of these steps (`cargo xtask check lists`): only those. --quick leaves out what takes long: the stack
frames, for which the kernel is built as users have it, clippy for the kernel, and documentation.
";

/// A named step: what is wrong, one line each.
type Step = (&'static str, fn() -> Result<Vec<String>>);

const STEPS: &[Step] = &[
    ("format", format),
    ("layers", layering),
    ("sources", source_rules),
    ("callers", callers),
    ("lists", lists::faults),
    ("kinds", kinds_of_calls),
    ("mutants", mutants),
    ("fuzzed", fuzzed_calls),
    ("calls", calls::faults),
    ("documents", documented),
    ("frames", large_frames),
    ("clippy for the host", clippy_host),
    ("clippy for the kernel", clippy_kernel),
    ("documentation", documentation),
];

/// The checks that take long.
const SLOW: &[&str] = &["frames", "clippy for the kernel", "documentation"];

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let mut words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return Ok(0);
    }
    let all = words.len();
    words.retain(|word| word != "--quick");
    let quick = words.len() < all;
    if let Some(word) = words
        .iter()
        .find(|word| !STEPS.iter().any(|(name, _)| name == *word))
    {
        return Err(Failure::new(USAGE, format!("no step is named `{word}`")));
    }
    let asked = |name: &str| match words.is_empty() {
        true => !quick || !SLOW.contains(&name),
        false => words.iter().any(|word| word == name),
    };
    host::need(&[host::GIT])?;
    host::need_target()?;
    let (mut passed, mut failed) = (0, 0);
    for (name, step) in STEPS.iter().filter(|(name, _)| asked(name)) {
        let start = Instant::now();
        let faults = step()?;
        println!(
            "check {name}: {}, {:.1} s",
            if faults.is_empty() { "ok" } else { "FAILED" },
            start.elapsed().as_secs_f64()
        );
        for fault in &faults {
            println!("  {fault}");
        }
        failed += usize::from(!faults.is_empty());
        passed += usize::from(faults.is_empty());
    }
    println!("check: {passed} passed, {failed} failed");
    Ok(i32::from(failed > 0))
}

/// Runs cargo; its errors are the faults.
fn cargo(words: &[&str], variables: &[(&str, &str)]) -> Result<Vec<String>> {
    let mut command = host::cargo();
    command.args(words).envs(variables.iter().copied());
    let output = command.output().context("cannot start cargo")?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    Ok(lines(&output))
}

/// The lines that a command printed.
fn lines(output: &Output) -> Vec<String> {
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(str::to_owned)
        .collect()
}

/// The texts of tests/mutants against the source: the suites plant them, and so know.
fn mutants() -> Result<Vec<String>> {
    let mut command = host::tool("run", "suites");
    let output = command
        .args(["--", "mutants"])
        .output()
        .context("cannot start cargo")?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    Ok(lines(&output))
}

/// The list of what calls make against their sources.
fn kinds_of_calls() -> Result<Vec<String>> {
    let read = |path: &str| {
        let path = host::project().join(path);
        std::fs::read_to_string(&path).context(path.display())
    };
    let mut calls = Vec::new();
    let mut folders = vec![host::project().join("linux/src/call")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).context(folder.display())? {
            let path = entry.context(folder.display())?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                calls.push(std::fs::read_to_string(&path).context(path.display())?);
            }
        }
    }
    Ok(kinds::faults(
        &read("tests/kinds.txt")?,
        &calls,
        &read("user/tests/hogs.c")?,
    ))
}

/// The functions of the kernel that take much of a stack. They say something in its own profile only.
fn large_frames() -> Result<Vec<String>> {
    const OTHER_PROFILE: &str = "CARGO_PROFILE_KERNEL_";
    if std::env::vars().any(|(name, _)| name.starts_with(OTHER_PROFILE)) {
        println!("check frames: left out, since {OTHER_PROFILE}* changes the kernel's profile");
        return Ok(Vec::new());
    }
    let kernel = xtask::kernel::build(xtask::kernel::Profile::Kernel)?;
    let kernel = std::fs::read(&kernel).context(kernel.display())?;
    frames::faults(&kernel)
}

fn format() -> Result<Vec<String>> {
    cargo(&["fmt", "--all", "--check"], &[])
}

fn clippy_host() -> Result<Vec<String>> {
    cargo(
        &[
            "clippy",
            "--quiet",
            "--workspace",
            "--exclude",
            "kernel",
            "--exclude",
            "trials",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )
}

/// Rooms that ask for memory only where the answer may be no: `clippy.toml` names what they do not call.
const FALLIBLE: &[&str] = &[
    "quaject", "vm", "thread", "account", "file", "process", "tty", "procfs", "sound", "linux",
];
const FALLIBLE_LINTS: &[&str] = &["clippy::disallowed_methods", "clippy::disallowed_macros"];

/// Rooms in which programs decide: an error is a value there, and nothing panics.
const WITHOUT_PANIC: &[&str] = &[
    "account", "file", "process", "tty", "procfs", "sound", "linux",
];
const WITHOUT_PANIC_LINTS: &[&str] = &[
    "clippy::unwrap_used",
    "clippy::expect_used",
    "clippy::panic",
    "clippy::unreachable",
    "clippy::todo",
    "clippy::unimplemented",
];

/// The lints of some rooms only, and the rooms.
const STRICT: &[(&[&str], &[&str])] = &[
    (FALLIBLE, FALLIBLE_LINTS),
    (WITHOUT_PANIC, WITHOUT_PANIC_LINTS),
];

/// All lints in one pass, since each pass compiles every room: what a lint says of a room that it is not for
/// is left out afterwards.
fn clippy_kernel() -> Result<Vec<String>> {
    let mut command = host::cargo();
    command.args([
        "clippy",
        "--quiet",
        "--release",
        "--target",
        host::KERNEL_TARGET,
        "--message-format=json",
        "--keep-going",
        "--workspace",
    ]);
    for package in ["xtask", "checks", "suites", "music"] {
        command.args(["--exclude", package]);
    }
    command.arg("--");
    for lint in STRICT.iter().flat_map(|(_, lints)| *lints) {
        command.args(["-W", lint]);
    }
    let output = command.output().context("cannot start cargo")?;
    let mut faults: Vec<_> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter_map(|message| lint_fault(&message))
        .collect();
    if faults.is_empty() && !output.status.success() {
        faults = String::from_utf8_lossy(&output.stderr)
            .lines()
            .map(str::to_owned)
            .collect();
    }
    Ok(faults)
}

/// The fault that one of cargo's messages tells of, as the compiler words it.
fn lint_fault(message: &serde_json::Value) -> Option<String> {
    let room = message["target"]["name"].as_str()?;
    let found = &message["message"];
    let rendered = found["rendered"].as_str()?;
    let concerned = match found["code"]["code"].as_str() {
        Some(lint) => STRICT
            .iter()
            .filter(|(_, lints)| lints.contains(&lint))
            .all(|(rooms, _)| rooms.contains(&room)),
        // The number of warnings is one, too.
        None => found["level"] == "error",
    };
    concerned.then(|| rendered.to_owned())
}

fn documentation() -> Result<Vec<String>> {
    let words = [
        "doc",
        "--quiet",
        "--workspace",
        "--no-deps",
        "--keep-going",
        "--document-private-items",
        "--exclude",
        "kernel",
        "--exclude",
        "trials",
    ];
    // The documentation is for who works on the source, and has the private items.
    cargo(
        &words,
        &[(
            "RUSTDOCFLAGS",
            "-D warnings -A rustdoc::private_intra_doc_links",
        )],
    )
}

fn layering() -> Result<Vec<String>> {
    let text = host::command_output(host::cargo().args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
    ]))?;
    let metadata = serde_json::from_str(&text).context("cargo metadata")?;
    let mut sources = BTreeMap::<String, String>::new();
    let mut texts = Vec::new();
    let files = host::command_output(Command::new("git").args(["ls-files", "*.rs"]))?;
    for path in files.lines() {
        // A package within a folder has its own name.
        let inner = path
            .strip_prefix("user/")
            .or_else(|| {
                path.strip_prefix("xtask/")
                    .filter(|rest| !rest.starts_with("src/"))
            })
            .unwrap_or(path);
        if let (Some((room, _)), Ok(text)) = (
            inner.split_once('/'),
            std::fs::read_to_string(host::project().join(path)),
        ) {
            sources.entry(room.to_owned()).or_default().push_str(&text);
            texts.push((path.to_owned(), text));
        }
    }
    let mut faults = layers::upward(&metadata);
    faults.extend(layers::unused(&metadata, &sources));
    faults.extend(folders::faults(&texts).map_err(|error| Failure::new(HOST, error))?);
    Ok(faults)
}

fn callers() -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let files = host::command_output(Command::new("git").args(["ls-files", "*.rs"]))?;
    for path in files.lines() {
        if let Ok(text) = std::fs::read_to_string(host::project().join(path)) {
            texts.push((path.to_owned(), text));
        }
    }
    callers::faults(&texts).map_err(|error| Failure::new(HOST, error))
}

fn source_rules() -> Result<Vec<String>> {
    let project = host::project();
    let mut faults = Vec::new();
    let files = host::command_output(Command::new("git").args(["ls-files"]))?;
    for path in files
        .lines()
        .filter(|path| Path::new(path).extension().is_some())
    {
        // A file that is deleted but not yet committed.
        if let Ok(text) = std::fs::read_to_string(project.join(path)) {
            faults.extend(sources::faults(path, &text));
        }
    }
    Ok(faults)
}

fn documented() -> Result<Vec<String>> {
    documents::faults(STEPS.iter().map(|(name, _)| (*name).to_owned()).collect())
}

fn fuzzed_calls() -> Result<Vec<String>> {
    let project = host::project();
    let table = std::fs::read_to_string(project.join(fuzzed::TABLE)).unwrap_or_default();
    let mut answered = std::collections::BTreeSet::new();
    let files = host::command_output(Command::new("git").args(["ls-files", "*.rs"]))?;
    for path in files.lines().filter(|path| path.starts_with(fuzzed::CALLS)) {
        if let Ok(text) = std::fs::read_to_string(project.join(path)) {
            answered.extend(fuzzed::answered(&text));
        }
    }
    if answered.is_empty() {
        return Ok(vec![format!("{} has no calls", fuzzed::CALLS)]);
    }
    Ok(fuzzed::faults(&answered, &fuzzed::known(&table)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_lint_of_some_rooms_concerns_only_them() {
        let message = |room: &str, lint: &str| {
            json!({
                "target": {"name": room},
                "message": {"rendered": "a fault", "code": {"code": lint}}
            })
        };
        let fault = |room, lint| lint_fault(&message(room, lint)).is_some();
        assert!(fault("file", "clippy::unwrap_used"));
        assert!(!fault("vm", "clippy::unwrap_used"));
        assert!(fault("vm", "clippy::disallowed_methods"));
        assert!(!fault("sync", "clippy::disallowed_methods"));
        assert!(fault("sync", "clippy::needless_return"));
        let without_lint = |level: &str| {
            json!({
                "target": {"name": "sync"},
                "message": {"rendered": "a fault", "code": null, "level": level}
            })
        };
        assert!(lint_fault(&without_lint("error")).is_some());
        assert!(lint_fault(&without_lint("warning")).is_none());
        assert!(lint_fault(&json!({"reason": "build-finished", "success": true})).is_none());
    }
}
