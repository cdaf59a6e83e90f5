//! Which functions of the kernel a run reached: QEMU notes each block of code that it translates.
//!
//! *Interface*: `Trace::start` asks a machine for the notes; `report` compares them with the symbol table, room by room.

use super::scratch;
use crate::failure::{Context, Result};
use crate::machine::Machine;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// The kernel's image, in QEMU's words.
const IMAGE: &str = "0xffffffff80100000..0xffffffff80ffffff";
/// The rooms whose functions are counted.
const ROOMS: &[&str] = &["unix", "vm", "thread", "quaject"];

/// Notes under way.
pub struct Trace {
    notes: PathBuf,
    unreached: PathBuf,
}

impl Trace {
    /// Lets `machine` note what it translates of the kernel.
    pub fn start(machine: &mut Machine, name: &str) -> Result<Self> {
        let notes = scratch(&format!("{name}.blocks"))?;
        let words = ["-d", "in_asm,nochain", "-dfilter", IMAGE, "-D"];
        machine.extra.extend(words.map(Into::into));
        machine.extra.push(notes.clone().into());
        // Where the symbol table says.
        machine.append.push_str(" nokaslr");
        Ok(Self {
            notes,
            unreached: scratch(&format!("{name}.unreached"))?,
        })
    }

    /// How many of the functions of each room were executed; the others' names go into a file.
    pub fn report(self, symbols: &[u8]) -> String {
        match self.reached() {
            Err(failure) => failure.message,
            Ok(reached) => {
                let (text, unreached) = summary(symbols, &reached);
                // Without the file the figures still stand.
                let _ = std::fs::write(&self.unreached, unreached);
                let _ = std::fs::remove_file(&self.notes);
                format!("{text} (others: {})", self.unreached.display())
            }
        }
    }

    fn reached(&self) -> Result<BTreeSet<u64>> {
        let file = std::fs::File::open(&self.notes).context(self.notes.display())?;
        let lines = BufReader::new(file).lines().map_while(|line| line.ok());
        Ok(lines.filter_map(|line| address(&line)).collect())
    }
}

/// The address that a line of the notes begins with.
fn address(line: &str) -> Option<u64> {
    let (number, _) = line.strip_prefix("0x")?.split_once(':')?;
    u64::from_str_radix(number, 16).ok()
}

/// The room of a function: that of its crate, or of the type whose method it is.
fn room(name: &str) -> &str {
    let name = name.trim_start_matches(['<', '&']);
    name.split("::").next().unwrap_or_default()
}

fn summary(symbols: &[u8], reached: &BTreeSet<u64>) -> (String, String) {
    let text = String::from_utf8_lossy(symbols);
    let table: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let (address, name) = line.split_once(' ')?;
            Some((u64::from_str_radix(address, 16).ok()?, name))
        })
        .collect();
    let (mut told, mut others) = (Vec::new(), String::new());
    for wanted in ROOMS {
        let (mut all, mut executed) = (0, 0);
        for (at, (start, name)) in table.iter().enumerate() {
            if room(name) != *wanted {
                continue;
            }
            let end = table.get(at + 1).map_or(u64::MAX, |next| next.0);
            all += 1;
            if reached.range(*start..end).next().is_some() {
                executed += 1;
            } else {
                others.push_str(name);
                others.push('\n');
            }
        }
        told.push(format!("{wanted} {executed} of {all} functions executed"));
    }
    (told.join(", "), others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_reached_by_any_of_its_instructions() {
        let symbols =
            b"0000000000000010 unix::a\n0000000000000020 <unix::B as C>::b\n0000000000000030 vm::c\n";
        let notes = ["IN: ", "0x00000018:  90  nop", "0x30:  c3  ret"];
        let reached = notes.iter().filter_map(|line| address(line)).collect();
        let (told, others) = summary(symbols, &reached);
        assert!(
            told.starts_with("unix 1 of 2 functions executed, vm 1 of 1"),
            "{told}"
        );
        assert_eq!(others, "<unix::B as C>::b\n");
    }
}
