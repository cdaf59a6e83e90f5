//! Which part of the kernel a run reached: QEMU notes each block of code that it translates.
//!
//! *Interface*: `Trace::start` asks a machine for the notes; `read` gives what was `Reached`; `report`
//! compares that with the kernel's file, room by room. With marks (`user/tests/fuzz.c`) it says, too, whose
//! step reached a block first.

use super::image::{Function, Image};
use super::scratch;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use xtask::failure::{Context, Result};
use xtask::machine::Machine;

/// The addresses that QEMU notes: the kernel's image, and the program's marks.
const RANGES: &str = "0xffffffff80100000..0xffffffff80ffffff,0x2000000000..0x20000fffff";
const MARKS: u64 = 0x20_0000_0000;
/// Marks of a sequence: one for each step; the last is its begin.
const MARKS_EACH: u64 = 64;
/// The rooms that are counted.
const ROOMS: &[&str] = &[
    "linux", "procfs", "tty", "process", "file", "vm", "thread", "quaject",
];

/// Notes under way.
pub struct Trace {
    notes: PathBuf,
}

/// The step: the number of the sequence in the log, and of the step in it (63: before the first).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark {
    /// Sequence, counted from 0.
    pub sequence: usize,
    /// Step.
    pub step: usize,
}

/// The instructions that were reached, and by which step first; none before the first mark.
#[derive(Default)]
pub struct Reached(BTreeMap<u64, Option<Mark>>);

impl Trace {
    /// Lets `machine` note what it translates of the kernel.
    pub fn start(machine: &mut Machine, name: &str) -> Result<Self> {
        let notes = scratch(&format!("{name}.blocks"))?;
        let words = ["-d", "in_asm", "-dfilter", RANGES, "-D"];
        machine.extra.extend(words.map(Into::into));
        machine.extra.push(notes.clone().into());
        // Where the kernel's file says.
        machine.append.push_str(" nokaslr");
        Ok(Self { notes })
    }

    /// The code that was reached. The notes are gone then.
    pub fn read(self) -> Result<Reached> {
        let file = std::fs::File::open(&self.notes).context(self.notes.display())?;
        let lines = BufReader::new(file).lines().map_while(|line| line.ok());
        let reached = Reached::of(lines);
        let _ = std::fs::remove_file(&self.notes);
        Ok(reached)
    }
}

/// The address that a line of the notes begins with.
fn address(line: &str) -> Option<u64> {
    let (number, _) = line.strip_prefix("0x")?.split_once(':')?;
    u64::from_str_radix(number, 16).ok()
}

impl Reached {
    fn of(lines: impl Iterator<Item = String>) -> Self {
        let (mut reached, mut mark) = (BTreeMap::new(), None);
        for at in lines.filter_map(|line| address(&line)) {
            if at >> 32 == MARKS >> 32 {
                let number = at - MARKS;
                mark = Some(Mark {
                    sequence: (number / MARKS_EACH) as usize,
                    step: (number % MARKS_EACH) as usize,
                });
            } else {
                reached.entry(at).or_insert(mark);
            }
        }
        Self(reached)
    }

    /// Whether a block was.
    pub fn has(&self, block: u64) -> bool {
        self.0.contains_key(&block)
    }

    /// Adds what another run reached.
    pub fn join(&mut self, other: Self) {
        for (at, mark) in other.0 {
            self.0.entry(at).or_insert(mark);
        }
    }

    /// How many blocks of the rooms each step was the first to reach.
    pub fn gains(&self, image: &Image) -> BTreeMap<Mark, usize> {
        let mut gains = BTreeMap::new();
        for block in counted(image).flat_map(|function| &function.blocks) {
            if let Some(Some(mark)) = self.0.get(block) {
                *gains.entry(*mark).or_default() += 1;
            }
        }
        gains
    }

    /// How many blocks of the rooms were reached in all.
    pub fn blocks(&self, image: &Image) -> usize {
        let blocks = counted(image).flat_map(|function| &function.blocks);
        blocks.filter(|block| self.has(**block)).count()
    }
}

fn counted(image: &Image) -> impl Iterator<Item = &Function> {
    let functions = image.functions.iter();
    functions.filter(|function| ROOMS.contains(&function.room()))
}

/// How many functions and blocks of each room were reached; what was not goes into `others`.
pub fn report(image: &Image, reached: &Reached, others: &Path) -> Result<String> {
    let (told, missing) = summary(image, reached);
    std::fs::write(others, missing).context(others.display())?;
    Ok(format!("{told} (the others: {})", others.display()))
}

fn summary(image: &Image, reached: &Reached) -> (String, String) {
    let (mut told, mut missing) = (Vec::new(), String::new());
    for room in ROOMS {
        let (mut functions, mut entered, mut blocks, mut executed) = (0, 0, 0, 0);
        for function in image.functions.iter().filter(|f| f.room() == *room) {
            let here = function.blocks.iter().filter(|at| reached.has(**at));
            let (here, all) = (here.count(), function.blocks.len());
            functions += 1;
            entered += usize::from(here > 0);
            blocks += all;
            executed += here;
            if here < all {
                // Writing to a string does not fail.
                let _ = writeln!(missing, "{here:4} of {all:4} {}", function.name);
            }
        }
        told.push(format!(
            "{room} {entered} of {functions} functions, {executed} of {blocks} blocks"
        ));
    }
    (told.join("; "), missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_reached_by_any_of_its_blocks() {
        let function = |name: &str, blocks: &[u64]| Function {
            name: name.into(),
            blocks: blocks.to_vec(),
        };
        let image = Image {
            functions: vec![
                function("linux::a", &[0x10, 0x18, 0x1c]),
                function("<linux::B as C>::b", &[0x20]),
                function("vm::c", &[0x30]),
            ],
        };
        let notes = [
            "IN: ",
            "0x00000018:  90  nop",
            "0x2000000041:  c3  ret",
            "0x30:  c3  ret",
        ];
        let reached = Reached::of(notes.iter().map(|line| (*line).to_owned()));
        let (told, others) = summary(&image, &reached);
        assert!(
            told.starts_with("linux 1 of 2 functions, 1 of 4 blocks; ")
                && told.contains("vm 1 of 1 functions, 1 of 1 blocks"),
            "{told}"
        );
        assert_eq!(
            others,
            "   1 of    3 linux::a\n   0 of    1 <linux::B as C>::b\n"
        );
        let mark = Mark {
            sequence: 1,
            step: 1,
        };
        assert_eq!(reached.gains(&image), [(mark, 1)].into());
        assert_eq!(reached.blocks(&image), 2);
    }
}
