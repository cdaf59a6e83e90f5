//! Fault injection: of the questions whether there is room, the n-th is answered with no.
//!
//! *Interface*: [`arm`], [`disarm`], [`counts`]. All requests that may be refused for want of memory ask
//! [`Frames::admits`](super::Frames::admits) first, or, if it is small and may use what is kept,
//! [`codegen::fault_injection`], so these questions are all the places where one can be. While this is armed
//! the floor that frames are compared with is out of reach, so that every question comes to the cold path and
//! is counted there; otherwise it costs nothing.

use super::global;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Which questions are answered with no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The first, counted from 1; with 0 they are only counted.
    pub first: u64,
    /// Then every so many; 0 for no further one.
    pub every: u64,
}

impl FaultPlan {
    /// Is question number `asked` answered with no?
    fn refuses(self, asked: u64) -> bool {
        let Some(after) = asked.checked_sub(self.first) else {
            return false;
        };
        self.first != 0 && (after == 0 || after.checked_rem(self.every) == Some(0))
    }
}

/// How many questions there were since [`arm`], and how many were answered with no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of the affected threads.
    pub asked: u64,
    /// Of them, refused on purpose.
    pub refused: u64,
}

static ARMED: AtomicBool = AtomicBool::new(false);
static FIRST: AtomicU64 = AtomicU64::new(0);
static EVERY: AtomicU64 = AtomicU64::new(0);
static ASKED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);
/// Whether the running thread is meant: a `fn() -> bool`.
static MEANT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// From now on the questions of those threads for which `meant` says true are counted, and those that `plan`
/// names refused. `meant` is called with interrupts on or off.
pub fn arm(plan: FaultPlan, meant: fn() -> bool) {
    disarm();
    FIRST.store(plan.first, Ordering::Relaxed);
    EVERY.store(plan.every, Ordering::Relaxed);
    ASKED.store(0, Ordering::Relaxed);
    REFUSED.store(0, Ordering::Relaxed);
    MEANT.store(meant as *mut (), Ordering::Release);
    if !ARMED.swap(true, Ordering::AcqRel) {
        global().raise_floor();
        codegen::fault_injection::link(refuses);
    }
}

/// No question is refused on purpose any more.
pub fn disarm() {
    if ARMED.swap(false, Ordering::AcqRel) {
        codegen::fault_injection::unlink();
        global().lower_floor();
    }
}

/// Whether questions are counted at present.
pub fn is_armed() -> bool {
    ARMED.load(Ordering::Relaxed)
}

/// The counts since [`arm`].
pub fn counts() -> Counts {
    Counts {
        asked: ASKED.load(Ordering::Relaxed),
        refused: REFUSED.load(Ordering::Relaxed),
    }
}

/// A question is asked while this is armed: is it to be refused?
pub(super) fn refuses() -> bool {
    let meant = MEANT.load(Ordering::Acquire);
    if meant.is_null() {
        return false;
    }
    // SAFETY: the word is null, or was made from a `fn() -> bool` by `arm`.
    let meant: fn() -> bool = unsafe { core::mem::transmute(meant) };
    if !meant() {
        return false;
    }
    let plan = FaultPlan {
        first: FIRST.load(Ordering::Relaxed),
        every: EVERY.load(Ordering::Relaxed),
    };
    let refused = plan.refuses(ASKED.fetch_add(1, Ordering::Relaxed) + 1);
    if refused {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_names_the_questions() {
        let refused = |first, every| {
            let plan = FaultPlan { first, every };
            (1..12)
                .filter(|&asked| plan.refuses(asked))
                .collect::<Vec<u64>>()
        };
        assert_eq!(refused(0, 3), []);
        assert_eq!(refused(4, 0), [4]);
        assert_eq!(refused(2, 4), [2, 6, 10]);
    }
}
