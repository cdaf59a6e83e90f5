//! A device that floods: the PC's timer, which interrupts far more often than a slow machine can answer, for
//! a while, and again and again.
//!
//! *Interface*: [`begin_if_asked`]: with the word `flood=HZ` on the command line it interrupts so many times
//! in a second during every other [`PHASE_NS`], from the first program's start on. Its handler is a device's,
//! generated, and does nothing but count.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use codegen::{Draft, Label};
use device::interrupt::{Interrupt, Source};
use device::interrupt_storm::Mask;
use machine::clock::now_ns;
use machine::{boot, log};
use quaject::assembly::Assembly;

use crate::costs::interrupts::timer;

/// How long it floods, and how long it does not, nanoseconds.
const PHASE_NS: u64 = 500_000_000;

/// Does nothing.
struct Nothing;

impl Source for Nothing {
    fn emit(&self, _: &mut Assembly) {}

    fn look(&self, _: &mut Draft, _: Label) {}

    fn wake(&self) {}
}

static HERTZ: AtomicU32 = AtomicU32::new(0);
static ON: AtomicBool = AtomicBool::new(false);

/// Begins, if the command line asks for it.
pub fn begin_if_asked() {
    let asked = boot::info()
        .cmdline
        .split_ascii_whitespace()
        .find_map(|word| word.strip_prefix("flood="));
    let Some(hertz) = asked.and_then(|hertz| hertz.parse().ok()) else {
        return;
    };
    HERTZ.store(hertz, Ordering::Relaxed);
    let interrupt = Interrupt::watched("pit", Mask::Line(timer::line()));
    let Some(interrupt) = interrupt
        .ok()
        .filter(|made| made.add(Arc::new(Nothing), None).is_ok())
    else {
        return log!("flood: no room");
    };
    timer::route(interrupt.vector());
    interrupt.list();
    core::mem::forget(interrupt);
    turn(0);
}

/// The next phase. In an interrupt, but for the first time.
fn turn(_: usize) {
    if ON.fetch_xor(true, Ordering::Relaxed) {
        timer::rest();
    } else {
        timer::set(HERTZ.load(Ordering::Relaxed));
    }
    if thread::clock::alarm(now_ns() + PHASE_NS, turn, 0).is_err() {
        timer::rest();
    }
}
