//! `/syn/trace`: the recorder of quanta, for root.
//!
//! *Interface*: [`TraceFile`], [`set`]. Writing `on` begins to record, and forgets what there was; `off` ends
//! it. Reading gives the events of each processor up to the time when the file was opened, so a text ends
//! while events are still added. After two lines of heading each event is a line, its fields separated by
//! single blanks: time, processor, process, thread, own quantum, quantum, settled share in hundredths, need
//! (−256 to 256, or `-`), CPU time used, channels, name. Times are in nanoseconds. The channels are as in
//! `/syn/sched`, without what has passed. A line `# lost N P` says that processor P's first N events were
//! forgotten.
//!
//! Source: dissertation, section 6.3.1.

use abi::errno::{Errno, Result};
use account::Capability;
use alloc::sync::Arc;
use core::fmt::Write;

use super::sched::plain;
use file::fs::pseudofs::{TextOut, TextPiece, TextSource};
use machine::cpu::{MAX_CPUS, present};
use thread::record::{self, Event};
use vm::fallible::try_arc;

/// The text, not opened yet.
pub struct TraceFile;

/// The text of an open file: it has the events of each processor before these.
struct Opened {
    ends: [u64; MAX_CPUS],
}

/// A place of the text has the processor's number, counted from 1, above so many bits, and the number of the
/// event to come.
const NUMBER_BITS: u32 = 48;

/// Takes one command. EPERM, EINVAL, ENOMEM.
pub fn set(text: &str) -> Result<()> {
    account::caller::cred().need(Capability::SysAdmin)?;
    match text.trim() {
        "on" => record::begin(),
        "off" => {
            record::end();
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    }
}

impl TextSource for TraceFile {
    fn open(&self) -> Result<Option<Arc<dyn TextSource>>> {
        let ends = core::array::from_fn(|cpu| record::numbers(cpu).end);
        Ok(Some(try_arc(Opened { ends })?))
    }

    fn write(&self, _from: u64, _piece: &mut TextPiece) -> Result<()> {
        Ok(())
    }
}

impl TextSource for Opened {
    fn write(&self, from: u64, piece: &mut TextPiece) -> Result<()> {
        if from == 0 && !piece.record(1, head) {
            return Ok(());
        }
        let (first, number) = (from >> NUMBER_BITS, from & ((1 << NUMBER_BITS) - 1));
        for cpu in (first.saturating_sub(1) as usize)..present().min(MAX_CPUS) {
            let number = match cpu as u64 + 1 == first {
                true => number,
                false => record::since(cpu),
            };
            if !self.of_cpu(cpu, number, piece) {
                break;
            }
        }
        Ok(())
    }
}

impl Opened {
    /// The events of `cpu` from `number` on; whether the piece takes more.
    fn of_cpu(&self, cpu: usize, mut number: u64, piece: &mut TextPiece) -> bool {
        let place = |number| (cpu as u64 + 1) << NUMBER_BITS | number;
        while number < self.ends[cpu] {
            // Those before this have been overwritten, perhaps since the last record.
            let kept = record::numbers(cpu).start.min(self.ends[cpu]);
            let event = record::event(cpu, number).filter(|_| number >= kept);
            let more = match event {
                Some(event) => {
                    number += 1;
                    piece.record(place(number), |out| line(cpu, &event, out))
                }
                None => {
                    let lost = kept.saturating_sub(number).max(1);
                    number += lost;
                    piece.record(place(number), |out| {
                        let _ = writeln!(out, "# lost {lost} {cpu}");
                    })
                }
            };
            if !more {
                return false;
            }
        }
        true
    }
}

fn head(out: &mut TextOut) {
    // `TextOut` notes by itself that memory is out, here and below.
    let _ = writeln!(
        out,
        "# quanta 1 {} {} events a processor",
        if record::is_on() { "on" } else { "off" },
        record::SIZE
    );
    out.push_str("# time cpu process thread own quantum settled need used channels name\n");
}

fn line(cpu: usize, event: &Event, out: &mut TextOut) {
    let _ = write!(
        out,
        "{} {cpu} {} {} {} {} {} ",
        event.at_ns,
        event.tag >> 32,
        event.tag as u32,
        event.own_ns,
        event.quantum_ns,
        event.settled_percent,
    );
    let _ = match event.need {
        Some(need) => write!(out, "{need}"),
        None => write!(out, "-"),
    };
    let _ = write!(out, " {} ", event.used_ns);
    let mut before = "";
    for fill in event.fills.iter().filter(|fill| fill.size != 0) {
        let side = if fill.writes { 'w' } else { 'r' };
        let _ = write!(out, "{before}{side}:{}/{}", fill.held, fill.size);
        before = ",";
    }
    out.push_str(if before.is_empty() { "- " } else { " " });
    let length = event.name.iter().position(|byte| *byte == 0);
    let name = &event.name[..length.unwrap_or(event.name.len())];
    for chunk in name.utf8_chunks() {
        plain(chunk.valid(), out);
    }
    out.push('\n');
}
