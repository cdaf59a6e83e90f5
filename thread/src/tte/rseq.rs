//! Restartable sequences: before it returns to user mode, a thread that has them checks whether it was
//! interrupted in one.
//!
//! *Interface*: [`note`] by code that lets others run or moves the thread to another CPU, [`take`] by the
//! thread at its check; `Tte::enable_rseq` and its neighbours for the room above, which does the actual
//! check.
//!
//! A thread without sequences pays a load and a branch when it is preempted and when it moves to another CPU;
//! the switch pays nothing. The mark is set before others run, and after the thread's CPU has changed. The
//! check takes the mark before it reads the CPU's number. So an outdated number is always written again.
//! Generated routines run with interrupts off, and a thread that sleeps from one checks its marks before it
//! makes the call again, so the number is right after each call.
//!
//! Progress: wait-free except for one exchange of the state word.

use super::flags::SEQUENCE;
use crate::primitive::{AtomicU32, Ordering};

/// Sets `marks`, which are [`SEQUENCE`] for a thread that has sequences and else nothing, in its `state`.
#[inline(always)]
pub(crate) fn note(marks: &AtomicU32, state: &AtomicU32) {
    let marks = marks.load(Ordering::Relaxed);
    if marks != 0 {
        state.fetch_or(marks, Ordering::AcqRel);
    }
}

/// Takes the mark: changes before it was set are visible from here on.
pub(crate) fn take(state: &AtomicU32) {
    state.fetch_and(!SEQUENCE, Ordering::AcqRel);
}
