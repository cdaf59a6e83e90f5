//! The resources of a thread besides its entry: stack, code, save area. Some stay with the entry for the next
//! thread.
//!
//! *Interface*: [`Parts`]; [`dismantle`] at the end of a thread, [`give_up_waiting`] when memory is short.

use super::area::FpArea;
use super::code::{Dispatcher, SwitchCode};
use super::interrupted::Interrupted;
use super::job::Job;
use super::{Tte, for_each_waiting};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The resources of a thread besides its entry. Accessed by the thread itself with interrupts off, by its
/// creator before `start`, and by the thread that frees it after its end.
pub(crate) struct Parts {
    pub stack: Option<vm::stack::KStack>,
    pub switch: Option<SwitchCode>,
    /// The dispatcher of the thread's beginning.
    pub starter: Option<Dispatcher>,
    /// Whether stack and code wait for the next thread.
    pub parked: bool,
    pub fp: Option<FpArea>,
    pub tally: Option<::quaject::class::Tally>,
    /// The states that user procedures have interrupted, the latest last. Only for the thread itself.
    pub calls: Vec<Interrupted>,
    /// The job that it has declared. Only for the thread itself.
    pub job: Option<Job>,
}

impl Parts {
    pub const fn none() -> Parts {
        Parts {
            stack: None,
            switch: None,
            starter: None,
            parked: false,
            fp: None,
            tally: None,
            calls: Vec::new(),
            job: None,
        }
    }

    /// They wait with their entry no more. Whether they did.
    pub fn leave(&mut self) -> bool {
        let parked = core::mem::take(&mut self.parked);
        if parked {
            PARKED.fetch_sub(1, Ordering::Relaxed);
        }
        parked
    }
}

/// Most entries that keep a stack and its code while they wait in the inactive list.
const PARKED_MOST: usize = 16;
/// How many do.
static PARKED: AtomicUsize = AtomicUsize::new(0);

/// Frees what a thread owns besides its entry; for a few threads, stack, save area, switch code and initial
/// dispatcher stay with the entry for the next thread. The next thread overwrites the whole area before it
/// runs, or frees it.
///
/// # Safety
/// The thread does not run and never will again, and only the caller can reach it.
#[inline]
pub(crate) unsafe fn dismantle(tte: &Tte) {
    // SAFETY: the caller's promise.
    let parts = unsafe { tte.parts() };
    drop(parts.tally.take());
    debug_assert!(parts.job.is_none(), "the alarm of its job would come");
    if parts.calls.capacity() != 0 {
        drop(core::mem::take(&mut parts.calls));
    }
    if !parts.parked && parts.stack.is_some() {
        parts.parked = PARKED.fetch_add(1, Ordering::Relaxed) < PARKED_MOST;
        if !parts.parked {
            PARKED.fetch_sub(1, Ordering::Relaxed);
            strip(parts);
        }
    }
    // A thread that still has the initial dispatcher has had no other.
    if !tte.is_beginning() {
        drop_dispatcher(tte);
    }
}

/// Frees the stacks, save areas and code that entries keep for the next threads.
pub fn give_up_waiting() {
    for_each_waiting(|tte| {
        // SAFETY: nobody else can reach an entry that waits.
        let parts = unsafe { tte.parts() };
        if parts.leave() {
            strip(parts);
        }
    });
}

/// Frees the parts that do not stay with their entry.
#[cold]
fn strip(parts: &mut Parts) {
    parts.switch = None;
    parts.fp = None;
    parts.starter = None;
    if let Some(stack) = parts.stack.take() {
        vm::stack::free(stack);
    }
}

#[inline(never)]
fn drop_dispatcher(tte: &Tte) {
    // Bound: generating one dispatcher (15 000 instructions); only the thread itself and a thread that
    // changes its table.
    let dispatcher = tte.dispatcher.lock().take();
    drop(dispatcher);
}
