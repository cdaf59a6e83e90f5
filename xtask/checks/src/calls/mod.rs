//! The table of all calls in `docs/`: what the kernel does with each, flag by flag, read from its sources.
//!
//! *Interface*: `main` is `cargo xtask calls`; `faults` is the step of `check`. `linux.txt` says which names
//! Linux knows, and the syntax of the sources says which of them are done: a name that the code reached from
//! the call's handler looks at is done; one that it only knows among others is taken; what is beside a mask
//! (`flags & !(A | B) != 0`) or a `match` is refused with the error there; the rest is ignored.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write;
use std::process::Command;

use self::source::{Deeds, Names, Plain, Sources};
use xtask::failure::{Context, Failure, HOST, Result, USAGE};
use xtask::host;

const LINUX: &str = include_str!("linux.txt");
const PAGE: &str = "docs/calls.md";
const NUMBERS: &str = "abi/src/nr.rs";
const ROOMS: &[&str] = &[
    "file/src/",
    "process/src/",
    "tty/src/",
    "procfs/src/",
    "sound/src/",
    "linux/src/",
];

const HELP: &str = "\
usage: cargo xtask calls [--write]

What the kernel does with each call of Linux, flag by flag, by its sources; with --write into docs/calls.md.
";

const HEAD: &str = "\
# Linux's calls, flag by flag

The calls of Linux 6.1 on x86-64. Written by `cargo xtask calls --write` from the sources (how: `xtask/checks/src/calls`); `cargo xtask check calls` fails
when they say something else by now. *Done*: code looks at it by its name. *Taken*: accepted as one of several that are handed on together, or nothing comes of
it. An error: refused with that. *Ignored*: no code has its name, and none refuses what it does not know. *Unknown*: no code has any name of that argument. A
call that is *absent* answers ENOSYS. Differences from Linux are in [caveats.md](caveats.md).

| Number | Call | Argument | Done | Not |
| --: | --- | --- | --- | --- |
";

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words[..] {
        [] => print!("{}", page()?),
        ["--write"] => {
            let path = host::project().join(PAGE);
            std::fs::write(&path, page()?).context(path.display())?;
        }
        ["--help" | "-h"] => print!("{HELP}"),
        _ => return Err(Failure::new(USAGE, "only `--write` is known")),
    }
    Ok(0)
}

/// The faults of the page.
pub fn faults() -> Result<Vec<String>> {
    let there = std::fs::read_to_string(host::project().join(PAGE)).unwrap_or_default();
    let wanted = page()?;
    let known: BTreeSet<&str> = there.lines().collect();
    let mut faults: Vec<String> = wanted
        .lines()
        .filter(|line| !known.contains(line))
        .map(|line| format!("{PAGE} lacks: {line}"))
        .collect();
    if there != wanted {
        faults.push("write it with `cargo xtask calls --write`".to_owned());
    }
    Ok(faults)
}

fn page() -> Result<String> {
    let project = host::project();
    let read = |path: &str| std::fs::read_to_string(project.join(path)).context(path);
    let files = host::command_output(Command::new("git").args([
        "ls-files",
        "-co",
        "--exclude-standard",
        "*.rs",
    ]))?;
    let mut texts = Vec::new();
    for path in files.lines().filter(|path| {
        ROOMS.iter().any(|room| path.starts_with(room)) && !path.ends_with("tests.rs")
    }) {
        // A file that is deleted but not yet committed.
        if let Ok(text) = read(path) {
            texts.push((path.to_owned(), text));
        }
    }
    let sources = Sources::read(&texts).map_err(|error| Failure::new(HOST, error))?;
    let numbers = read(NUMBERS)?;
    let arguments = arguments(LINUX).map_err(|error| Failure::new(HOST, error))?;
    Ok(table(&numbers_and_names(&numbers), &arguments, &sources))
}

/// Each call's number and name, from `NAME = 1, "name";`.
fn numbers_and_names(text: &str) -> Vec<(usize, &str)> {
    let rows = text.lines().filter_map(|line| {
        let (_, rest) = line.trim().split_once(" = ")?;
        let (number, name) = rest.split_once(", \"")?;
        Some((number.parse().ok()?, name.strip_suffix("\";")?))
    });
    rows.collect()
}

/// An argument of a call, with the names of each thing that Linux knows, its own first.
struct Argument<'a> {
    name: &'a str,
    values: Vec<Vec<&'a str>>,
}

fn arguments(text: &str) -> std::result::Result<BTreeMap<&str, Vec<Argument<'_>>>, String> {
    let mut found: BTreeMap<&str, Vec<Argument>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let wrong = || format!("linux.txt: {line}");
        let (head, names) = line.split_once(": ").ok_or_else(wrong)?;
        let (calls, name) = head.split_once(' ').ok_or_else(wrong)?;
        for call in calls.split(',') {
            let values = names.split(' ').map(|name| name.split('=').collect());
            let values = values.collect();
            found
                .entry(call)
                .or_default()
                .push(Argument { name, values });
        }
    }
    Ok(found)
}

fn table(
    numbers: &[(usize, &str)],
    arguments: &BTreeMap<&str, Vec<Argument>>,
    sources: &Sources,
) -> String {
    let calls = sources.calls();
    let mut text = HEAD.to_owned();
    for (number, name) in numbers {
        let state = match calls.get(name) {
            None => "| | absent |",
            Some(Some(Plain::Error(error))) => {
                let _ = writeln!(text, "| {number} | `{name}` | | | {error} |");
                continue;
            }
            Some(Some(Plain::Value)) => "| | answered, nothing done |",
            Some(None) => "| done | |",
        };
        let _ = writeln!(text, "| {number} | `{name}` | {state}");
        if !state.contains("done | |") {
            continue;
        }
        let deeds = sources.deeds(name);
        for argument in arguments.get(name).into_iter().flatten() {
            let (done, not) = judge(argument, sources, &deeds);
            let _ = writeln!(text, "| | `{name}` | {} | {done} | {not} |", argument.name);
        }
    }
    text
}

/// The names that are done, and what becomes of the others.
fn judge(argument: &Argument, sources: &Sources, deeds: &Deeds) -> (String, String) {
    let all = argument.values.iter().flatten();
    let own: Names = all.map(|name| (*name).to_owned()).collect();
    // With what all others are refused.
    let limits: BTreeSet<&str> = deeds
        .limits
        .iter()
        .filter(|(known, _)| !known.is_disjoint(&own))
        .map(|(_, error)| error.as_str())
        .collect();
    let known = |name: &String| deeds.used.contains(name) || deeds.taken.contains(name);
    let rest = match limits.len() {
        0 if own.iter().any(known) => "ignored".to_owned(),
        0 => "unknown".to_owned(),
        _ => limits.into_iter().collect::<Vec<_>>().join(" or "),
    };
    let mut done = Vec::new();
    let mut others: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for names in &argument.values {
        let any = |set: &Names| names.iter().any(|name| set.contains(*name));
        let refused = names.iter().find_map(|name| deeds.refused.get(*name));
        let named = any(&deeds.taken) || rest == "ignored" || rest == "unknown";
        let what = if let Some(error) = refused {
            error
        } else if any(&deeds.used) || named && names.iter().any(|name| sources.looks_at(name)) {
            done.push(names[0]);
            continue;
        } else if any(&deeds.taken) {
            "taken"
        } else {
            &rest
        };
        others.entry(what.to_owned()).or_default().push(names[0]);
    }
    let others = others
        .iter()
        .map(|(what, names)| format!("{what}: {}", names.join(" ")));
    (done.join(" "), others.collect::<Vec<_>>().join("; "))
}
