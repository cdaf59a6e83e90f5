//! Table 3.4: interrupts of a sound device that has a sample at each, handled by generated code, by an
//! assembler's best, and by Rust; and as many of them in a second as there are samples.
//!
//! *Interface*: [`measure`], on a machine with one CPU that counts instructions; [`rates`], on one that
//! executes 62.5 million instructions in a second (`-icount shift=4`). The device is a word in memory for
//! each source, which stands for the source's register. In [`measure`] it interrupts by the instruction
//! `int`, which counts as one; in [`rates`] the PC's timer interrupts in its place.
//! Source: dissertation, section 3.3.3, figures 3.5 to 3.7 and table 3.4.
//!
//! *Unsafe*: safety contracts of a handler that does nothing, and of the routine that interrupts.

mod assembler;
mod generated;
mod plain;
pub mod timer;

use core::sync::atomic::{AtomicU64, Ordering};

use alloc::format;
use codegen::{Class, Draft, Routine, dynasm};
use machine::clock::{now_ns, tsc};
use machine::{irq, log};

use super::report;

/// The sources that can be active: a disc, and a converter.
const SOURCES: usize = 2;
/// Bytes of a source's buffer, and of a sample of two sides.
const BUFFER: usize = 4096;
const SAMPLE: usize = 4;

/// One way to handle the interrupts.
trait Way {
    /// Its column.
    fn name(&self) -> &'static str;
    /// Has so many sources active, and handles the interrupts of the returned vector. None: no room.
    fn activate(&mut self, sources: usize) -> Option<u8>;
    /// Samples that the first source has brought.
    fn samples(&self) -> u64;
}

/// The calling contract of a routine that interrupts.
type Raise = extern "sysv64" fn();

static CODE: Class = Class::new("trial");

/// A routine that interrupts at `vector`, or, without one, does nothing in its place.
fn raise(vector: Option<u8>) -> Option<Routine<Raise>> {
    let mut draft = Draft::new(&CODE, "raise");
    let d = &mut draft;
    match vector {
        Some(vector) => dynasm!(d ; .arch x64 ; int BYTE vector as i8),
        None => dynasm!(d ; .arch x64 ; nop),
    }
    dynasm!(d ; .arch x64 ; ret);
    // SAFETY: it changes no register; the handlers at the vectors change none.
    Some(unsafe { Routine::from(draft.seal().ok()?) })
}

/// The instructions of the least of many calls. Not inlined, so that both calls of it read the clock alike.
#[inline(never)]
fn least(routine: &Routine<Raise>) -> u64 {
    let once = || {
        let from = tsc();
        routine.function()();
        tsc() - from
    };
    (0..100).map(|_| once()).min().unwrap_or(0)
}

/// Instructions of a handler, from its first to its return.
fn handler(vector: u8) -> Option<u64> {
    let (with, without) = (raise(Some(vector))?, raise(None)?);
    Some(least(&with).saturating_sub(least(&without)))
}

/// A handler that tells the controller and returns.
fn null() -> Option<u64> {
    let vector = irq::alloc_vector()?;
    let mut draft = Draft::new(&CODE, "null");
    let d = &mut draft;
    dynasm!(d ; .arch x64 ; mov DWORD [irq::eoi_address() as i32], 0 ; iretq);
    // SAFETY: it is never called, and kept until the vector is quiet again.
    let image: Routine<unsafe extern "C" fn()> = unsafe { Routine::from(draft.seal().ok()?) };
    // SAFETY: such a handler; the interrupts of `int` are not the controller's.
    unsafe { irq::set_image(vector, image.entry()) };
    let cost = handler(vector);
    irq::free_vector(vector);
    cost
}

/// Reports one row for each number of active sources.
pub fn measure() {
    const SECTION: &str = "table 3.4";
    let (Some(null), Some(mut generated)) = (null(), generated::Generated::new()) else {
        return;
    };
    let ways: [&mut dyn Way; 4] = [
        &mut generated,
        &mut assembler::Assembler::default(),
        &mut plain::Plain::called(),
        &mut plain::Plain::with_all_registers(),
    ];
    let mut rows = [[("", 0); 4]; SOURCES + 1];
    for (column, way) in ways.into_iter().enumerate() {
        for (sources, row) in rows.iter_mut().enumerate() {
            let cost = way.activate(sources).and_then(handler).unwrap_or(0);
            row[column] = (way.name(), cost);
        }
    }
    report(
        SECTION,
        "null_interrupt",
        &rows[0].map(|(name, _)| (name, null)),
    );
    for (name, row) in ["no_source", "one_source", "two_sources"]
        .into_iter()
        .zip(rows)
    {
        report(SECTION, name, &row);
    }
}

/// Rounds of a loop that a CPU finishes in a second of the clock.
fn rounds() -> u64 {
    const SECOND: u64 = 1_000_000_000;
    static TURNS: AtomicU64 = AtomicU64::new(0);
    let (end, mut rounds) = (now_ns() + SECOND, 0);
    while now_ns() < end {
        for _ in 0..100 {
            TURNS.store(rounds, Ordering::Relaxed);
        }
        rounds += 1;
    }
    rounds
}

/// Reports what is left of a CPU beside so many interrupts in a second, one active source at each.
pub fn rates() {
    /// Instructions in a second.
    const SPEED: u64 = 62_500_000;
    let Some(mut generated) = generated::Generated::new() else {
        return;
    };
    let ways: [(&str, &mut dyn Way); 2] = [
        ("generated", &mut generated),
        (
            "rust_all_registers",
            &mut plain::Plain::with_all_registers(),
        ),
    ];
    let alone = rounds();
    for (name, way) in ways {
        let Some(vector) = way.activate(1) else {
            return;
        };
        for wanted in [44_100, 176_400] {
            let before = way.samples();
            let set = timer::start(vector, wanted);
            let beside = rounds();
            timer::stop();
            let taken = way.samples() - before;
            let left = beside.min(alone);
            let share = (alone - left) * 1000 / alone.max(1);
            let each = (alone - left) * SPEED / alone.max(1) / taken.max(1);
            log!("samples {name}: {alone} rounds alone, {beside} beside {taken} interrupts");
            let columns = [
                ("set", set),
                ("taken in a second", taken),
                ("instructions each", each),
                ("CPU, per mille", share),
            ];
            report("samples", &format!("{name}_{wanted}"), &columns);
        }
    }
}
