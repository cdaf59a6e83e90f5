//! A failing sequence made small: steps are left out as long as it fails without them.
//!
//! *Interface*: `search` tries the sequences that were under way, one by one, and gives a file for
//! `tests/fuzz`.

use super::super::kit::Kit;
use super::{Run, kept_files, perform, scratch};
use std::path::PathBuf;
use std::process::Command;
use xtask::compile;

/// Boots that the search may take.
const BOOTS: usize = 60;

struct Search<'a> {
    kit: &'a Kit,
    run: Run,
    boots: usize,
}

/// The first of `ids` that fails by itself, as small as could be found. None: it takes more than one to fail,
/// or a rare moment.
pub fn search(kit: &Kit, run: &Run, ids: &[String]) -> Option<PathBuf> {
    let file = scratch("sequence.txt").ok()?;
    let mut search = Search {
        kit,
        run: Run {
            coverage: false,
            files: vec![file],
            seconds: 20,
            name: format!("{}-smaller", run.name),
            ..run.clone()
        },
        boots: 0,
    };
    for id in ids {
        // Only to print it: the program makes no call of the sequence then.
        let shown = Command::new(compile::program("fuzz", &compile::MUSL).ok()?)
            .args(["show", &run.who])
            .args(kept_files().ok()?)
            .arg(id)
            .output()
            .ok()?;
        let text = String::from_utf8(shown.stdout).ok()?;
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        if !search.fails(&lines) {
            continue;
        }
        let small = search.smaller(lines);
        let file = scratch(&format!("fuzz-{id}.txt")).ok()?;
        std::fs::write(&file, small.join("\n") + "\n").ok()?;
        return Some(file);
    }
    None
}

impl Search<'_> {
    fn fails(&mut self, lines: &[String]) -> bool {
        self.boots += 1;
        let text = lines.join("\n") + "\n";
        let mut files = self.run.files.iter();
        let written = files.all(|file| std::fs::write(file, &text).is_ok());
        written && perform(self.kit, &self.run).why.is_some()
    }

    /// Halves first, then single steps. The first line says in which world. A step that is left out becomes
    /// one that does nothing, so that results keep their numbers.
    fn smaller(&mut self, mut lines: Vec<String>) -> Vec<String> {
        const NOTHING: &str = "A getpid";
        let mut part = lines.len() / 2;
        while part > 0 {
            let mut at = 1;
            while at < lines.len() && self.boots < BOOTS {
                let end = (at + part).min(lines.len());
                let mut fewer = lines.clone();
                fewer[at..end].fill(NOTHING.into());
                if fewer != lines && self.fails(&fewer) {
                    lines = fewer;
                }
                at = end;
            }
            part /= 2;
        }
        while lines.len() > 2 && lines.last().is_some_and(|line| line == NOTHING) {
            lines.pop();
        }
        lines
    }
}
