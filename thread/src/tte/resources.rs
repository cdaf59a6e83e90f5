//! The resources of a thread besides its entry: stack, code, save area. Some stay with the entry for the next
//! thread.
//!
//! *Interface*: [`Resources`]; [`dismantle`] at the end of a thread, [`Resources::strip`] of one whose parts
//! are not to wait.

use super::Tte;
use super::code::{Dispatcher, SwitchCode};
use super::fpu_save_area::FpuSaveArea;
use super::interrupted::Interrupted;
use super::job::Job;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The resources of a thread besides its entry. Accessed by the thread itself with interrupts off, by its
/// creator before `start`, and by the thread that frees it after its end.
pub(crate) struct Resources {
    pub stack: Option<vm::stack::KStack>,
    pub switch: Option<SwitchCode>,
    /// The dispatcher of the thread's beginning.
    pub starter: Option<Dispatcher>,
    /// Whether it is one of those [`HELD`].
    held: bool,
    pub fp: Option<FpuSaveArea>,
    /// Stays with the other parts.
    pub tally: Option<::quaject::class::Tally>,
    /// The states that user procedures have interrupted, the latest last. Only for the thread itself.
    pub calls: Vec<Interrupted>,
    /// The job that it has declared. Only for the thread itself.
    pub job: Option<Job>,
}

impl Resources {
    pub const fn none() -> Resources {
        Resources {
            stack: None,
            switch: None,
            starter: None,
            held: false,
            fp: None,
            tally: None,
            calls: Vec::new(),
            job: None,
        }
    }

    /// They stay with an entry to which others still have handles, if those are not too many.
    #[cold]
    fn hold(&mut self) {
        if !self.held {
            self.held = HELD.fetch_add(1, Ordering::Relaxed) < HELD_MOST;
            if !self.held {
                HELD.fetch_sub(1, Ordering::Relaxed);
                self.strip();
            }
        }
    }

    /// Nobody has a handle to the entry any more. Whether there is a stack.
    #[inline]
    pub fn wait(&mut self) -> bool {
        if self.held {
            self.held = false;
            HELD.fetch_sub(1, Ordering::Relaxed);
        }
        self.stack.is_some()
    }

    /// Frees those that would stay with their entry.
    #[cold]
    pub fn strip(&mut self) {
        self.switch = None;
        self.fp = None;
        self.starter = None;
        self.tally = None;
        if let Some(stack) = self.stack.take() {
            vm::stack::free(stack);
        }
    }
}

/// Ended threads to which there are handles, and whose parts wait for the end of these, at most: nobody knows
/// how long that is.
const HELD_MOST: usize = 16;
/// How many there are.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Frees what a thread owns besides its entry; stack, save area, switch code and initial dispatcher stay with
/// the entry for the next thread. The next thread overwrites the whole area before it runs, or frees it.
///
/// # Safety
/// The thread does not run and never will again, and only the caller can reach it.
#[inline]
pub(crate) unsafe fn dismantle(tte: &Tte) {
    // SAFETY: the caller's promise.
    let parts = unsafe { tte.parts() };
    debug_assert!(parts.job.is_none(), "the alarm of its job would come");
    if parts.calls.capacity() != 0 {
        drop(core::mem::take(&mut parts.calls));
    }
    if let Some(tally) = &parts.tally {
        tally.rest();
    }
    if tte.count.load(Ordering::Relaxed) > 1 {
        parts.hold();
    }
    // A thread that still has the initial dispatcher has had no other.
    if !tte.is_beginning() {
        drop_dispatcher(tte);
    }
}

#[inline(never)]
fn drop_dispatcher(tte: &Tte) {
    // Bound: generating one dispatcher (15 000 instructions); only the thread itself and a thread that
    // changes its table.
    let dispatcher = tte.dispatcher.lock().take();
    drop(dispatcher);
}
