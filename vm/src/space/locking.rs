//! The three ways to what a space knows: pinned, with its monitor held, and changing it.
//!
//! *Interface*: [`AddressSpace::pass`] and [`AddressSpace::wait`] run a part of a fault while the areas stand
//! still, without the monitor and with it; [`AddressSpace::held`] holds the monitor, so that the areas stand
//! still; [`AddressSpace::change`] excludes all others, including pinned faults. See
//! [`FaultGate`](super::fault_gate::FaultGate).

use super::rss::UNDER_MONITOR;
use super::{AddressSpace, Inner, Machine};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;

/// The argument of a part that needs unchanging areas.
pub(super) struct PinnedView<'a> {
    pub(super) inner: &'a Inner,
    /// Changes of the space so far.
    pub(super) changes: u64,
    /// Where it counts the pages that it adds.
    pub(super) tally: usize,
}

impl<M: Machine> AddressSpace<M> {
    /// Runs `part` pinned while the areas do not change, if this CPU has the space and no change is in
    /// progress. The work of `part` is bounded.
    #[inline(always)]
    pub(super) fn pass<R>(&self, part: impl FnOnce(PinnedView) -> R) -> Option<R> {
        let passed = self.memory.pinned(self.root, |tally| {
            let changes = self.gate.pass()?;
            // SAFETY: no change goes on before this pinned part has ended, and only a change has it mutable.
            let inner = unsafe { &*self.inner.get() };
            Some(part(PinnedView {
                inner,
                changes,
                tally,
            }))
        });
        passed.flatten()
    }

    /// As [`pass`](Self::pass), with the monitor held: for a fault that may not pass.
    pub(super) fn wait<R>(&self, part: impl FnOnce(PinnedView) -> R) -> R {
        let held = self.held();
        self.gate.waited();
        part(PinnedView {
            inner: &held,
            changes: self.gate.changes(),
            tally: UNDER_MONITOR,
        })
    }

    /// Holds the monitor. Faults may go on meanwhile: they add pages and exchange those that are not
    /// writable.
    #[inline]
    pub(super) fn held(&self) -> LockedSpace<'_, M> {
        LockedSpace {
            space: self,
            // Bound: **linear**: a change goes through the pages of its range (`fork`: of the whole space),
            // interrupts on; a fault that may not pass: one page, a frame filled by zeroing or copying;
            // access from outside: a page at a time.
            _monitor: self.monitor.lock(),
        }
    }

    /// Holds the monitor, with exclusive access to areas and entries.
    #[inline]
    pub(super) fn change(&self) -> SpaceChange<'_, M> {
        self.held().change()
    }
}

/// The monitor of a space is held: its areas stand still.
pub(super) struct LockedSpace<'a, M: Machine> {
    space: &'a AddressSpace<M>,
    _monitor: sync::monitor::Guard<'a, ()>,
}

impl<'a, M: Machine> LockedSpace<'a, M> {
    /// Begins a change.
    #[inline]
    pub(super) fn change(self) -> SpaceChange<'a, M> {
        let space = self.space;
        let was_open = space.gate.close();
        let elsewhere = space.memory.is_elsewhere(space.root);
        if was_open && elsewhere {
            space.memory.await_pinned(space.root);
        }
        SpaceChange {
            held: self,
            elsewhere,
        }
    }
}

impl<M: Machine> Deref for LockedSpace<'_, M> {
    type Target = Inner;

    #[inline]
    fn deref(&self) -> &Inner {
        // SAFETY: only a change has it mutable, and that would hold the monitor.
        unsafe { &*self.space.inner.get() }
    }
}

/// A change of a space is in progress: no other thread reads its areas or touches its entries.
pub(super) struct SpaceChange<'a, M: Machine> {
    held: LockedSpace<'a, M>,
    /// Another CPU has the space.
    elsewhere: bool,
}

impl<M: Machine> Deref for SpaceChange<'_, M> {
    type Target = Inner;

    #[inline]
    fn deref(&self) -> &Inner {
        &self.held
    }
}

impl<M: Machine> DerefMut for SpaceChange<'_, M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Inner {
        // SAFETY: the monitor is held, the gate was closed, and all earlier passers are out again.
        unsafe { &mut *self.held.space.inner.get() }
    }
}

impl<M: Machine> Drop for SpaceChange<'_, M> {
    #[inline]
    fn drop(&mut self) {
        let bytes = self.areas.bytes();
        self.held.space.areas_bytes.store(bytes, Ordering::Relaxed);
        if !self.elsewhere {
            self.held.space.gate.open();
        }
    }
}
