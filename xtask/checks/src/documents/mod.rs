//! The documents tell the truth: the files, names, commands and suites in them exist.
//!
//! *Interface*: `faults` of README.md and all chapters of docs. A path in backquotes or a link leads to a
//! file or folder (`paths`), a heading that a link or a quotation names stands in its chapter; a name in
//! backquotes occurs in the code of some source, or in the list of words from outside, which has no word too
//! many (`names`); a command line is one that the tool takes (`commands`); a suite in the table of promises
//! is a guest test.

mod commands;
mod markdown;
mod names;
mod paths;

use commands::{Door, TOOL};
use markdown::{Document, Piece, anchor};
use names::Names;
use paths::Tree;
use std::collections::BTreeMap;
use std::process::Command;
use xtask::failure::{Context, Result};
use xtask::host;

/// Words that documents have from elsewhere: Linux, the C library, other programs.
const OUTSIDE: &str = "docs/outside-words.txt";

/// The files of the check itself, which have wrong names on purpose.
const ITSELF: &str = "xtask/checks/src/documents/";

/// The checks, whose tests name chapters that are not there.
const CHECKS: &str = "xtask/checks/src/";

/// The chapter with the table of promises, and its heading.
const PROMISES: (&str, &str) = ("docs/xtask.md", "Promises and their suites");

/// Languages of blocks whose words are names.
const LANGUAGES: &[&str] = &["rust", "c"];

/// Lines for what is not so. `steps` are the names of the steps of `check`.
///
/// # Errors
/// Host failure when a file cannot be read or the tool does not tell what it takes.
pub fn faults(steps: Vec<String>) -> Result<Vec<String>> {
    let project = host::project();
    let listed =
        host::command_output(Command::new("git").args(["ls-files"]).current_dir(&project))?;
    let mut texts = BTreeMap::new();
    for path in listed.lines() {
        // Files that are deleted but not committed, and those that are no text, say nothing.
        if let Ok(text) = std::fs::read_to_string(project.join(path)) {
            texts.insert(path, text);
        }
    }
    // The door's program stands beside this one; it asks the other packages.
    let own = std::env::current_exe().context("this program")?;
    let door = Door::open(
        |words| host::command_output(Command::new(own.with_file_name("xtask")).args(words)),
        steps,
    )?;
    let outside = texts.get(OUTSIDE).map_or("", |text| text);
    let sources = texts.iter().filter(|(path, _)| {
        !path.ends_with(".md") && **path != OUTSIDE && !path.starts_with(ITSELF)
    });
    let known = Known {
        tree: Tree::of(texts.keys().copied()),
        names: Names::of(sources.map(|(path, text)| (*path, &**text)), outside),
        door,
        documents: texts
            .iter()
            .filter(|(path, _)| is_document(path))
            .map(|(path, text)| (*path, Document::read(text)))
            .collect(),
    };
    let mut faults = Vec::new();
    for (path, document) in &known.documents {
        faults.extend(known.faults(path, document, &texts[path]));
    }
    for (path, text) in texts
        .iter()
        .filter(|(path, _)| path.ends_with(".rs") && !path.starts_with(CHECKS))
    {
        faults.extend(known.chapters(path, text));
    }
    faults.extend(known.names.unused(outside, OUTSIDE));
    Ok(faults)
}

/// Whether a file is for readers.
fn is_document(path: &str) -> bool {
    let chapter = path
        .strip_prefix("docs/")
        .and_then(|name| name.strip_suffix(".md"));
    path == "README.md" || chapter.is_some()
}

/// The tree and the tool, with which documents are compared.
struct Known<'a> {
    tree: Tree,
    names: Names,
    door: Door,
    documents: BTreeMap<&'a str, Document>,
}

impl Known<'_> {
    /// The faults of one document.
    fn faults(&self, path: &str, document: &Document, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let mut add =
            |piece: &Piece, fault: String| faults.push(format!("{path}:{}: {fault}", piece.line));
        let (mut before, mut paragraph) = (None, 0);
        for span in &document.spans {
            if span.paragraph != paragraph {
                (before, paragraph) = (None, span.paragraph);
            }
            if self.tree.is_path(&span.text) {
                match self.tree.find(&span.text, path, before) {
                    Ok(found) => before = Some(found),
                    Err(fault) => add(span, fault),
                }
                continue;
            }
            for fault in self.span(&span.text) {
                add(span, fault);
            }
        }
        for link in &document.links {
            if let Some(fault) = self.link(path, &link.text) {
                add(link, fault);
            }
        }
        for (language, line) in &document.block {
            let mut wrong = self.commands(&line.text);
            if LANGUAGES.contains(&&**language) {
                let code = line.text.split("//").next().unwrap_or_default();
                let code = code.split("/*").next().unwrap_or_default();
                wrong.extend(self.names.missing(&format!("{code} ")));
            }
            wrong.into_iter().for_each(|fault| add(line, fault));
        }
        if path == PROMISES.0 {
            for (heading, row) in document
                .rows
                .iter()
                .filter(|(heading, _)| heading == PROMISES.1)
            {
                debug_assert_eq!(heading, PROMISES.1);
                self.suites(&row.text)
                    .into_iter()
                    .for_each(|fault| add(row, fault));
            }
        }
        faults.extend(self.chapters(path, text));
        faults
    }

    /// The faults of what stands between backquotes and is no path.
    fn span(&self, text: &str) -> Vec<String> {
        if text.contains(TOOL) {
            return self.commands(text);
        }
        if self.door.is_short(text) {
            return self
                .door
                .faults(text, |word| self.names.missing(word).is_empty());
        }
        if self.door.suite(text) {
            return Vec::new();
        }
        self.names.missing(text)
    }

    /// The faults of the tool's command lines in a text.
    fn commands(&self, text: &str) -> Vec<String> {
        let is_name = |word: &str| self.names.missing(word).is_empty();
        let lines = text.split(TOOL).skip(1);
        lines
            .flat_map(|line| self.door.faults(line, is_name))
            .collect()
    }

    /// The fault of a link.
    fn link(&self, from: &str, target: &str) -> Option<String> {
        if target.contains("://") {
            return None;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = match file {
            "" => from.to_owned(),
            _ => joined(folder, file),
        };
        if !self.tree.has(&path) {
            return Some(format!("a link leads to {path}, which is not there"));
        }
        let there = |document: &Document| {
            document
                .headings
                .iter()
                .any(|other| anchor(other) == heading)
        };
        let missing = !heading.is_empty() && !self.documents.get(&*path).is_some_and(there);
        missing
            .then(|| format!("a link leads to the heading `{heading}` of {path}, which it has not"))
    }

    /// The faults of chapters that a text names, and of their headings in quotation marks behind.
    fn chapters(&self, path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        for (at, _) in text.match_indices("docs/") {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_ascii_alphanumeric() || "/_-.".contains(c)) {
                continue;
            }
            let rest = &text[at..];
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/_-.".contains(c)));
            let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
            let Some(document) = name.ends_with(".md").then(|| self.documents.get(name)) else {
                continue;
            };
            let line = text[..at].matches('\n').count() + 1;
            let Some(document) = document else {
                faults.push(format!("{path}:{line}: {name} is not there"));
                continue;
            };
            // `docs/vm.md, "Sparse tables"`, perhaps over the end of a line of comment.
            let behind = rest[name.len()..].trim_start_matches(['`', ')']);
            let Some(quoted) = behind.strip_prefix(',') else {
                continue;
            };
            let quoted = quoted.trim_start_matches([' ', '\n', '/', '!', '*']);
            let Some((heading, _)) = quoted
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'))
            else {
                continue;
            };
            let lines = heading
                .lines()
                .map(|line| line.trim().trim_start_matches(['/', '!', '*']).trim());
            let heading = lines.collect::<Vec<_>>().join(" ");
            if !document.has(&heading) {
                faults.push(format!(
                    "{path}:{line}: {name} has no heading \"{heading}\""
                ));
            }
        }
        faults
    }

    /// The suites in the last cell of a row of the table of promises.
    fn suites(&self, row: &str) -> Vec<String> {
        let cells = row.trim_end().trim_end_matches('|').replace("\\|", "/");
        let last = cells.rsplit('|').next().unwrap_or_default();
        let spans = last.split('`').skip(1).step_by(2);
        let words = spans.filter(|span| !span.contains([' ', '/', '.']) && !span.starts_with('-'));
        let unknown = words.filter(|word| !self.door.suite(word) && *word != "bench");
        unknown
            .map(|word| format!("no suite is named `{word}`"))
            .collect()
    }
}

/// A relative path seen from a folder.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." => {
                parts.pop();
            }
            "." | "" => {}
            other => parts.push(other),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known<'a>(texts: &[(&'a str, &str)]) -> Known<'a> {
        let ask = |words: &[&str]| {
            Ok(match words {
                ["--help"] => "usage:\n  test [NAME]  all\n",
                ["test", "--list"] => "calls  all\n",
                _ => "usage: cargo xtask test [--quick]\n",
            }
            .to_owned())
        };
        Known {
            tree: Tree::of(texts.iter().map(|(path, _)| *path)),
            names: Names::of([("vm/src/space.rs", "struct Space;")].into_iter(), ""),
            door: Door::open(ask, Vec::new()).unwrap(),
            documents: texts
                .iter()
                .map(|(path, text)| (*path, Document::read(text)))
                .collect(),
        }
    }

    fn told(texts: &[(&str, &str)]) -> Vec<String> {
        let known = known(texts);
        let documents = texts.iter().filter(|(path, _)| is_document(path));
        documents
            .flat_map(|(path, text)| known.faults(path, &known.documents[path], text))
            .collect()
    }

    #[test]
    fn what_is_so_has_no_faults() {
        let good = "# Memory\nSee `space.rs`, `Space`, [this](../README.md#a-b), `cargo xtask test --quick calls`, \
                    docs/vm.md, \"Memory\".\n";
        let promises = "## Promises and their suites\n| a | b |\n| --- | --- |\n| x `none` | `calls`, `test --quick` |\n";
        let texts = [
            ("README.md", "## A `b`\n[vm](docs/vm.md)"),
            ("docs/vm.md", good),
            ("docs/xtask.md", promises),
            ("vm/src/space.rs", ""),
        ];
        assert_eq!(
            told(&texts),
            ["docs/xtask.md:4: `none` is not in the sources"]
        );
    }

    #[test]
    fn what_is_not_so_is_told_with_its_line() {
        let bad = "# Memory\n\n`spaces.rs` and `Spaces`\n[x](none.md) [y](vm.md#none)\n\n\
                   ```\n$ cargo xtask test --slow\n```\ndocs/none.md; docs/vm.md,\n\"None\"\n";
        let promises = "## Promises and their suites\n| a | `called` |\n";
        let texts = [
            ("docs/vm.md", bad),
            ("docs/xtask.md", promises),
            ("vm/src/space.rs", ""),
        ];
        assert_eq!(
            told(&texts),
            [
                "docs/vm.md:3: `spaces.rs` is not there",
                "docs/vm.md:3: `Spaces` is not in the sources",
                "docs/vm.md:4: a link leads to docs/none.md, which is not there",
                "docs/vm.md:4: a link leads to the heading `none` of docs/vm.md, which it has not",
                "docs/vm.md:7: `cargo xtask test` has no option `--slow`",
                "docs/vm.md:9: docs/none.md is not there",
                "docs/vm.md:9: docs/vm.md has no heading \"None\"",
                "docs/xtask.md:2: `called` is not in the sources",
                "docs/xtask.md:2: no suite is named `called`",
            ]
        );
    }
}
