//! `cargo xtask bench interrupts`: handlers of a sound device that interrupts for each sample, table 3.4, and
//! what is left of a CPU beside 44,100 and 176,400 of such interrupts in a second.
//!
//! *Interface*: `main`. The kernel with suites measures itself (`trials/src/costs/interrupts`), first as for
//! the other tables, then on a machine that executes 62.5 million instructions in a second.
//! Source: dissertation, section 3.3.3.

use super::inside::{self, Known};
use super::{results, wants_help};
use std::ffi::OsString;
use xtask::failure::Result;
use xtask::host;

const HELP: &str = "\
usage: cargo xtask bench interrupts [--write]

Instructions of an interrupt's handler, generated, by an assembler and in Rust, and the share of a CPU that 44,100 and
176,400 interrupts in a second take. With --write docs/results.md gets the tables.
";

const TABLES: [Known; 2] = [
    Known {
        section: "table 3.4",
        about: "Instructions of the handler of a device with a sample at each interrupt, from its first instruction to its return, for \
            so many active sources: generated for exactly these; the best of an assembler's, with a test for each source; in Rust, \
            with the registers saved that a call may change; and in Rust behind the entry that saves all registers and may switch threads at its end. \
            All of them count the interrupt, put a sample of four bytes into a buffer, tell the interrupt controller, and look for waiting threads; the null \
            interrupt's only tells the controller. \
            The device's registers are words in memory, and the instruction `int` interrupts. Beside them the dissertation's microseconds on a 68030 at 25 MHz.",
        compared: ("assembler", "generated"),
        columns: &["code-synth, µs", "assembler, µs", "C, µs", "C & UNIX, µs"],
        figures: &[
            ("null_interrupt", &["2.0", "2.0", "2.0", "2.0"]),
            ("no_source", &["–", "–", "–", "–"]),
            ("one_source", &["3.7", "6.0", "9.7", "17.1"]),
            ("two_sources", &["5.1", "7.7", "11.3", "18.9"]),
        ],
    },
    Known {
        section: "samples",
        about: "Interrupts in a second, with one active source, on a machine with 62.5 million instructions in a second (`-icount shift=4`). The PC's timer \
            takes the place of a device that interrupts for each sample; QEMU's cards have none such. *Set* is the timer's rate, the first one that is not \
            below 44,100 or 176,400. Interrupts that come while one is waiting already are not taken. The share of the CPU is what a loop loses beside them.",
        compared: ("", "instructions each"),
        columns: &[],
        figures: &[],
    },
];

/// Runs the command; fails when samples are lost, or 44,100 of them take a tenth of the CPU.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    if wants_help(words, HELP)? {
        return Ok(0);
    }
    host::need(&[host::QEMU, host::BUSYBOX])?;
    let mut costs = inside::asked("costs", 0)?;
    costs.extend(inside::asked("samples", 4)?);
    let text = inside::tables(&TABLES, &costs);
    print!("{text}");
    if write {
        results::put("interrupts", &text)?;
    }
    let rates: Vec<_> = costs.iter().filter(|cost| cost.is_of("samples")).collect();
    let lost = rates.iter().any(|cost| {
        let [set, taken] =
            ["set", "taken in a second"].map(|name| cost.column(name).unwrap_or(0.0));
        taken < set * 0.999
    });
    let share = rates.iter().find(|cost| cost.is_called("generated_44100"));
    let share = share.and_then(|cost| cost.column("CPU, per mille"));
    let good = !lost && share.is_some_and(|share| share < 100.0);
    if !good {
        eprintln!("xtask: interrupts are lost, or 44,100 take a tenth of the CPU");
    }
    Ok(i32::from(!good))
}
