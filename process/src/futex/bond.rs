//! Who waits for whose lock: what binds a waiter to the owner of a priority-inheritance futex, and an owner's
//! end.
//!
//! *Interface*: each [`Party`] has a [`Part`]; a [`Bond`] stands in the bucket of a lock for each that waits
//! for it. Who comes to wait makes its bond first, and enters it only when [`Part::may_own`] holds of the
//! owner behind that; [`Part::end`] changes the owner's stage first, and looks for bonds behind that. So one
//! of the two sees the other, and no bond to an owner that has ended stays in a bucket. Buckets are their
//! holder's; a bond is made, passed on and dropped under its bucket.
//!
//! Progress: wait-free. Model: `tests/bond_model.rs`.

use crate::primitive::{AtomicI32, AtomicU32, Ordering, in_order};
use alloc::sync::Arc;

/// One that may own locks and wait for them.
pub(crate) trait Party {
    /// Its part in that.
    fn part(&self) -> &Part;
    /// Its number.
    fn number(&self) -> i32;
}

/// What each party has.
pub(crate) struct Part {
    /// Those who wait for a lock of its.
    waiters: AtomicU32,
    stage: AtomicU32,
    /// The number of the owner it waits for; 0: none.
    waits_for: AtomicI32,
}

/// It may own locks.
pub(crate) const ALIVE: u32 = 0;
/// It is about to say in the words of its robust list that it ended.
pub(crate) const ENDING: u32 = 1;
/// It has said so, and looks for who waits.
pub(crate) const ENDED: u32 = 2;

impl Default for Part {
    fn default() -> Part {
        Part {
            waiters: AtomicU32::new(0),
            stage: AtomicU32::new(ALIVE),
            waits_for: AtomicI32::new(0),
        }
    }
}

impl Part {
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

    /// It takes no more lock: from here on those who want one of its wait until it has said what became of
    /// that.
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

/// Somebody waits for a lock of an owner's.
pub(crate) struct Bond<P: Party> {
    pub owner: Arc<P>,
    pub waiter: Arc<P>,
}

impl<P: Party> Bond<P> {
    /// `waiter` waits for `owner`.
    pub fn new(owner: Arc<P>, waiter: Arc<P>) -> Bond<P> {
        owner.part().waiters.fetch_add(1, Ordering::SeqCst);
        let number = owner.number();
        waiter.part().waits_for.store(number, Ordering::SeqCst);
        Bond { owner, waiter }
    }

    /// The lock is another's now. The former owner's count is for who has let go of the bucket.
    pub fn pass(&mut self, to: &Arc<P>) -> Arc<P> {
        to.part().waiters.fetch_add(1, Ordering::SeqCst);
        let number = to.number();
        self.waiter.part().waits_for.store(number, Ordering::SeqCst);
        self.owner.part().waiters.fetch_sub(1, Ordering::SeqCst);
        core::mem::replace(&mut self.owner, to.clone())
    }
}

impl<P: Party> Drop for Bond<P> {
    fn drop(&mut self) {
        self.waiter.part().waits_for.store(0, Ordering::SeqCst);
        self.owner.part().waiters.fetch_sub(1, Ordering::SeqCst);
    }
}
