//! The evidence of a machine that stands still or never ends, taken before it is ended: where its processors
//! are, and all its memory in a file.
//!
//! *Interface*: [`Examiner::new`], [`Examiner::look`].
//!
//! Source: QEMU's documentation of its monitor: `info registers`, `gva2gpa`, `x`; `dump-guest-memory`.

use crate::qmp::Monitor;
use std::fmt::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use xtask::failure::Result;

/// An answer may take so long; a whole memory is written in that.
const PATIENCE: Duration = Duration::from_secs(20);
/// So often is looked where the processors are, with [`PAUSE`] between: one that is at several places
/// computes.
const LOOKS: usize = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// Callers that are named, of each processor.
const CALLERS: usize = 12;
/// Where the window on memory begins that the image is linked in (`abi::layout`).
const WINDOW: u64 = 0xffff_ffff_8000_0000;
/// The kernel's half.
const HALF: u64 = 0xffff_8000_0000_0000;

/// The means of looking.
pub struct Examiner {
    monitor: UnixStream,
    symbols: Symbols,
    core: PathBuf,
}

impl Examiner {
    /// Looks through `monitor` at a machine whose kernel has these lines `address name`; its memory goes to
    /// `core`.
    pub fn new(monitor: UnixStream, symbols: Vec<u8>, core: PathBuf) -> Examiner {
        Examiner {
            monitor,
            symbols: Symbols(symbols),
            core,
        }
    }

    /// All of it in one line.
    pub fn look(self) -> String {
        let mut told = String::new();
        if let Err(failure) = self.tell(&mut told) {
            told.push_str(&failure.message);
        }
        told
    }

    fn tell(self, told: &mut String) -> Result<()> {
        let mut monitor = Monitor::greet(self.monitor, PATIENCE)?;
        for turn in 0..LOOKS {
            let processors = processors(&monitor.ask("info registers -a")?);
            for (number, processor) in processors.iter().enumerate() {
                let place = place(&mut monitor, number, processor.rip, &self.symbols)?;
                let state = if processor.halted { " halted" } else { "" };
                write!(told, "cpu {number}{state} at {place}; ").expect("to a string");
                if turn + 1 == LOOKS && !processor.halted {
                    callers(&mut monitor, number, processor.rbp, &self.symbols, told)?;
                }
            }
            std::thread::sleep(PAUSE);
        }
        monitor.dump(&self.core)?;
        write!(told, "memory: {}", self.core.display()).expect("to a string");
        Ok(())
    }
}

/// A processor's registers, those that matter here.
#[derive(Debug, PartialEq, Eq)]
struct Processor {
    rip: u64,
    rbp: u64,
    halted: bool,
}

/// The text of `info registers -a`.
fn processors(text: &str) -> Vec<Processor> {
    let each = text.split("CPU#").skip(1);
    let value = |text: &str, name: &str| {
        let rest = text.split_once(name)?.1;
        let digits = rest.split(|at: char| !at.is_ascii_hexdigit()).next()?;
        u64::from_str_radix(digits, 16).ok()
    };
    each.filter_map(|text| {
        Some(Processor {
            rip: value(text, "RIP=")?,
            rbp: value(text, "RBP=")?,
            halted: value(text, "HLT=")? != 0,
        })
    })
    .collect()
}

/// Names an address that a processor has. The image stays in memory where it is linked, wherever it is seen.
fn place(monitor: &mut Monitor, number: usize, at: u64, symbols: &Symbols) -> Result<String> {
    if at < HALF {
        return Ok(format!("a program's {at:#x}"));
    }
    monitor.ask(&format!("cpu {number}"))?;
    let answer = monitor.ask(&format!("gva2gpa {at:#x}"))?;
    let physical = answer.trim().strip_prefix("gpa: 0x");
    let physical = physical.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let name = physical.and_then(|physical| symbols.name(WINDOW.checked_add(physical)?));
    Ok(name.unwrap_or_else(|| format!("{at:#x}")))
}

/// Adds who called, by the frames from `rbp` on.
fn callers(
    monitor: &mut Monitor,
    number: usize,
    mut rbp: u64,
    symbols: &Symbols,
    told: &mut String,
) -> Result<()> {
    for _ in 0..CALLERS {
        if rbp < HALF {
            break;
        }
        let words = words(&monitor.ask(&format!("x /2gx {rbp:#x}"))?);
        let &[next, back] = &words[..] else { break };
        let place = place(monitor, number, back, symbols)?;
        write!(told, "< {place} ").expect("to a string");
        if next <= rbp {
            break;
        }
        rbp = next;
    }
    Ok(())
}

/// The words of memory that `x` shows.
fn words(text: &str) -> Vec<u64> {
    let each = text.split_whitespace();
    each.filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        .collect()
}

/// Lines `address name` of the kernel's functions, sorted.
struct Symbols(Vec<u8>);

impl Symbols {
    /// The function that `at` is in, and how far.
    fn name(&self, at: u64) -> Option<String> {
        let text = std::str::from_utf8(&self.0).ok()?;
        let each = text.lines().filter_map(|line| {
            let (address, name) = line.split_once(' ')?;
            Some((u64::from_str_radix(address, 16).ok()?, name))
        });
        let (mut found, mut beyond) = (None, false);
        for (address, name) in each {
            beyond = address > at;
            if beyond {
                break;
            }
            found = Some(format!("{name}+{:#x}", at - address));
        }
        // Behind the last one is what is no code.
        found.filter(|_| beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_read_for_each_processor() {
        let text = "\nCPU#0\nRAX=00 RBX=01\nRSI=0 RDI=0 RBP=ffff800000001000 RSP=5\r\nRIP=ffffffff80100010 RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\nCPU#1\nRBP=0 RIP=10 RFL=0 HLT=0\n";
        let [first, second] = &processors(text)[..] else {
            panic!("two processors")
        };
        assert_eq!(first.rip, 0xffff_ffff_8010_0010);
        assert_eq!(first.rbp, 0xffff_8000_0000_1000);
        assert!(first.halted && !second.halted);
    }

    #[test]
    fn an_address_has_the_name_before_it() {
        let symbols =
            Symbols(b"0000000000001000 a\n0000000000001010 b\n0000000000001100 c\n".into());
        assert_eq!(symbols.name(0xfff), None);
        assert_eq!(symbols.name(0x1018).as_deref(), Some("b+0x8"));
        assert_eq!(symbols.name(0x1200), None);
    }

    #[test]
    fn words_of_memory() {
        let text = "ffff800000001000: 0x0000000000000010 0xffffffff80100010\r\n";
        assert_eq!(words(text), [0x10, 0xffff_ffff_8010_0010]);
    }
}
