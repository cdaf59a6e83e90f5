//! Restartable sequences: a thread that has them looks, before it is in user mode again, whether it was
//! interrupted in one.
//!
//! *Interface*: [`note`] by what lets others run or takes the thread to another CPU, [`take`] by the thread
//! when it looks; `Tte::watch_sequences` and its neighbours for the room above, whose it is what there is to
//! look at.
//!
//! A thread that has none costs a load and a branch where it is preempted, and where it goes to another CPU;
//! nothing in the switch. The mark is set before others run, and after the thread's CPU is another one; who
//! looks takes it before it reads which that is. So a number that has become wrong is always told once more.
//! Generated routines run without interrupts, and a thread that sleeps out of one looks at its marks before
//! it makes the call again: so the number is right after each call.
//!
//! Progress: wait-free but for one exchange of the state word.

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

/// Takes the mark: what was so before it was set is seen from here on.
pub(crate) fn take(state: &AtomicU32) {
    state.fetch_and(!SEQUENCE, Ordering::AcqRel);
}
