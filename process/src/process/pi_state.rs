//! The PI state of a priority-inheritance futex: which waiter depends on which owner, and what happens
//! when an owner ends.
//!
//! *Interface*: each [`PiParty`] has a [`PiPart`]; a [`PiState`] is in the bucket of a lock for each of its
//! waiters. A new waiter makes its bond first, and enters it only if [`PiPart::may_own`] of the owner then
//! holds; [`PiPart::end`] changes the owner's stage first, and then searches for bonds. So one of the two
//! sees the other, and no bond to an ended owner stays in a bucket. A bond is made, passed on and dropped
//! while its bucket is held.
//!
//! Progress: wait-free. Model: `tests/pi_state_model.rs`.

use crate::primitive::{AtomicI32, AtomicU32, Ordering, in_order};
use alloc::sync::Arc;

/// A party that may own locks and wait for them.
pub(crate) trait PiParty {
    /// Its part in that.
    fn part(&self) -> &PiPart;
    /// Its number.
    fn number(&self) -> i32;
}

/// The data of each party.
pub(crate) struct PiPart {
    /// The waiters for its locks.
    waiters: AtomicU32,
    stage: AtomicU32,
    /// The number of the owner it waits for; 0: none.
    waits_for: AtomicI32,
}

/// It may own locks.
pub(crate) const ALIVE: u32 = 0;
/// It is about to say in the words of its robust list that it ended.
pub(crate) const ENDING: u32 = 1;
/// It has announced its end, and searches for waiters.
pub(crate) const ENDED: u32 = 2;

impl Default for PiPart {
    fn default() -> PiPart {
        PiPart {
            waiters: AtomicU32::new(0),
            stage: AtomicU32::new(ALIVE),
            waits_for: AtomicI32::new(0),
        }
    }
}

impl PiPart {
    /// How far its end has come.
    pub fn stage(&self) -> u32 {
        self.stage.load(Ordering::SeqCst)
    }

    /// Whether a bond to it that has just been made may be entered.
    pub fn may_own(&self) -> bool {
        in_order();
        self.stage() == ALIVE
    }

    /// The number of the owner that it waits for; 0: none.
    pub fn waits_for(&self) -> i32 {
        self.waits_for.load(Ordering::SeqCst)
    }

    /// It takes no more locks: from here on threads that want one of its locks wait until it has released or
    /// passed it.
    pub fn begin_end(&self) {
        self.stage.store(ENDING, Ordering::SeqCst);
    }

    /// It has said so: if there are bonds to it, `leave` takes them all out of the buckets. With `goes_on` it
    /// may own locks again.
    pub fn end(&self, goes_on: bool, leave: impl FnOnce()) {
        self.stage.store(ENDED, Ordering::SeqCst);
        in_order();
        if self.waiters.load(Ordering::SeqCst) != 0 {
            leave();
        }
        if goes_on {
            self.stage.store(ALIVE, Ordering::SeqCst);
        }
    }
}

/// A thread waits for a lock of an owner.
pub(crate) struct PiState<P: PiParty> {
    pub owner: Arc<P>,
    pub waiter: Arc<P>,
}

impl<P: PiParty> PiState<P> {
    /// `waiter` waits for `owner`.
    pub fn new(owner: Arc<P>, waiter: Arc<P>) -> PiState<P> {
        owner.part().waiters.fetch_add(1, Ordering::SeqCst);
        let number = owner.number();
        waiter.part().waits_for.store(number, Ordering::SeqCst);
        PiState { owner, waiter }
    }

    /// The lock has a new owner. The caller drops the former owner's count after it has released the bucket.
    pub fn pass(&mut self, to: &Arc<P>) -> Arc<P> {
        to.part().waiters.fetch_add(1, Ordering::SeqCst);
        let number = to.number();
        self.waiter.part().waits_for.store(number, Ordering::SeqCst);
        self.owner.part().waiters.fetch_sub(1, Ordering::SeqCst);
        core::mem::replace(&mut self.owner, to.clone())
    }
}

impl<P: PiParty> Drop for PiState<P> {
    fn drop(&mut self) {
        self.waiter.part().waits_for.store(0, Ordering::SeqCst);
        self.owner.part().waiters.fetch_sub(1, Ordering::SeqCst);
    }
}
