//! A failing sequence made small: steps are left out as long as it fails without them.
//!
//! *Interface*: `search` tries the sequences that were under way, one by one, and gives a file for `tests/fuzz`.

use super::super::kit::Kit;
use super::{PROGRAM, log_of, machine, scratch, verdict};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Boots that the search may take.
const BOOTS: usize = 60;

struct Search<'a> {
    kit: &'a Kit,
    cpus: u32,
    boots: usize,
}

/// The first of `ids` that fails by itself, as small as could be found. None: it takes more than one to fail, or a rare moment.
pub fn search(kit: &Kit, cpus: u32, who: &str, ids: &[String]) -> Option<PathBuf> {
    let mut search = Search {
        kit,
        cpus,
        boots: 0,
    };
    for id in ids {
        // Only to print it: the program makes no call of the sequence then.
        let shown = Command::new(kit.program_path("fuzz-musl"))
            .args(["show", who, id])
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
        let name = format!("fuzz-smaller-{}", self.cpus);
        let machine = machine(self.kit, &name, self.cpus);
        let words = [PROGRAM, "replay", "/tests/sequence.txt"];
        let ran = scratch("sequence.txt").and_then(|file| {
            let text = lines.join("\n") + "\n";
            std::fs::write(&file, text).map_err(|error| {
                crate::failure::Failure::new(crate::failure::HOST, error.to_string())
            })?;
            let mut root = self.kit.root(&machine, &words)?;
            root.add(&format!("{}:/tests/sequence.txt", file.display()))?;
            let limit = Duration::from_secs(60);
            self.kit
                .boot_root(root, &machine, &words, Vec::new(), limit)
        });
        ran.is_ok_and(|ran| verdict(&ran, &log_of(&name)).is_some())
    }

    /// Halves first, then single steps. The first line says in which world. A step that is left out becomes one that does nothing, so that
    /// results keep their numbers.
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
