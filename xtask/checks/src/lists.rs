//! The tables in `docs/` of the places with locks and of the files with `unsafe`, by the sources.
//!
//! *Interface*: `main` is `cargo xtask lists`; `faults` is the step of `check`. Each table is what follows a
//! mark in its chapter.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::Command;

use super::{layers, locks, sources};
use xtask::failure::{Context, Failure, Result, USAGE};
use xtask::host;

const UNSAFE: &str = "docs/unsafe.md";
/// The table begins behind this line.
const MARK: &str = "<!-- written by `cargo xtask lists --write` -->\n";

const HELP: &str = "\
usage: cargo xtask lists [--write]

The places that take a lock, mask interrupts or spin, with their bounds, and the files with `unsafe`, with their reasons, as the sources say them;
with --write into docs/locks.md and docs/unsafe.md.
";

/// A chapter, its table, and faults in the sources.
type Listed = (&'static str, String, Vec<String>);

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words[..] {
        [] => all()?.iter().for_each(|(_, table, _)| print!("{table}")),
        ["--write"] => {
            for (chapter, table, _) in all()? {
                let path = host::project().join(chapter);
                let text = std::fs::read_to_string(&path).context(path.display())?;
                let (head, _) = parts(chapter, &text)?;
                std::fs::write(&path, format!("{head}{MARK}{table}")).context(path.display())?;
            }
        }
        ["--help" | "-h"] => print!("{HELP}"),
        _ => return Err(Failure::new(USAGE, "only `--write` is known")),
    }
    Ok(0)
}

/// The rows that the chapters should have or not, and the places without a bound.
pub fn faults() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (chapter, table, own) in all()? {
        let path = host::project().join(chapter);
        let text = std::fs::read_to_string(&path).context(path.display())?;
        let (_, written) = parts(chapter, &text)?;
        faults.extend(own);
        faults.extend(differences(chapter, written, &table));
    }
    if !faults.is_empty() {
        faults.push("look at each bound and reason again, then `cargo xtask lists --write`".into());
    }
    Ok(faults)
}

fn differences(chapter: &str, written: &str, table: &str) -> Vec<String> {
    let without = |a: &str, b: &str| {
        let known: Vec<&str> = b.lines().collect();
        let more = a.lines().filter(|line| !known.contains(line));
        more.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut faults = Vec::new();
    for row in without(table, written) {
        faults.push(format!("{chapter} lacks: {row}"));
    }
    for row in without(written, table) {
        faults.push(format!("{chapter} has, and the sources have not: {row}"));
    }
    faults
}

fn parts<'a>(chapter: &str, text: &'a str) -> Result<(&'a str, &'a str)> {
    let lost = || Failure::new(USAGE, format!("{chapter} has lost its mark"));
    text.split_once(MARK).ok_or_else(lost)
}

fn all() -> Result<[Listed; 2]> {
    let mut places = locks::Places::new();
    let mut reasons = Vec::new();
    let files = host::command_output(Command::new("git").args(["ls-files", "*.rs"]))?;
    for path in files.lines() {
        // A file that is deleted but not yet committed.
        if let Ok(text) = std::fs::read_to_string(host::project().join(path)) {
            places.extend(locks::places(path, &text));
            if let Some(reason) = sources::reason(&text).filter(|_| !layers::is_beside(path)) {
                reasons.push((path.to_owned(), reason));
            }
        }
    }
    reasons.sort();
    let bare = locks::faults(&places);
    Ok([
        (locks::LIST, locks::table(&places), bare),
        (UNSAFE, table(&reasons), Vec::new()),
    ])
}

/// The files with `unsafe`, a section for each room.
fn table(reasons: &[(String, String)]) -> String {
    let mut out = String::new();
    let mut last = "";
    for (path, reason) in reasons {
        let room = path.split('/').next().unwrap_or_default();
        if room != last {
            // Writing to a string does not fail.
            let _ = write!(out, "\n## {room}\n\n| file | why |\n| --- | --- |\n");
            last = room;
        }
        let _ = writeln!(out, "| `{path}` | {reason} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_room_has_its_table() {
        let reasons = [("a/b.rs", "x"), ("a/c.rs", "y"), ("d/e.rs", "z")]
            .map(|(path, reason)| (path.to_owned(), reason.to_owned()));
        let head = "| file | why |\n| --- | --- |";
        assert_eq!(
            table(&reasons),
            format!(
                "\n## a\n\n{head}\n| `a/b.rs` | x |\n| `a/c.rs` | y |\n\n## d\n\n{head}\n| `d/e.rs` | z |\n"
            )
        );
    }

    #[test]
    fn rows_that_differ_are_named() {
        let faults = differences("c", "| a |\n| b |\n", "| b |\n| d |\n");
        assert_eq!(
            faults,
            ["c lacks: | d |", "c has, and the sources have not: | a |"]
        );
    }
}
