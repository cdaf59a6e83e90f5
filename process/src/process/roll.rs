//! A process's threads, for those who may wait for nobody: interrupt handlers look here for one that would take a signal.
//!
//! *Interface*: [`Roll::enter`] and [`Roll::leave`] by the holder of the process's thread monitor; [`Roll::watch`] by who is about to make interrupts look, and
//! [`Roll::find`] by these; [`Roll::is_watched`] by who has left.
//!
//! A chain of tasks, the first thread in front. An entry is published by one store and unlinked by one, found by its own link; it keeps that, so who stands on it goes
//! on. Who has left it asks whether anybody may look, and then waits for a grace period before it frees the task. Who makes others look says so
//! first; a full fence on both sides lets one see the other. So a process that never has a timer pays nothing.
//! Progress: looking is wait-free.
//! Source: dissertation, section 5.2.3 (one process changes a list while others walk it).

use core::ptr::null_mut;

use crate::primitive::{AtomicBool, AtomicPtr, Ordering, fence};

/// What can be on a roll.
pub(crate) trait Enrolled: Sized {
    /// Its link.
    fn link(&self) -> &Link<Self>;
}

/// What a task has of the chain.
pub(crate) struct Link<T> {
    next: AtomicPtr<T>,
    /// The one before it, for those who change the chain: null for the first.
    before: AtomicPtr<T>,
}

impl<T> Default for Link<T> {
    fn default() -> Self {
        Link {
            next: AtomicPtr::new(null_mut()),
            before: AtomicPtr::new(null_mut()),
        }
    }
}

/// The chain.
pub(crate) struct Roll<T> {
    first: AtomicPtr<T>,
    watched: AtomicBool,
}

impl<T> Default for Roll<T> {
    fn default() -> Self {
        Roll {
            first: AtomicPtr::new(null_mut()),
            watched: AtomicBool::new(false),
        }
    }
}

/// What [`Roll::find`] has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<R> {
    /// One that was looked for.
    Yes(R),
    /// There is none.
    No,
    /// None among those that were looked at, but there are more.
    Perhaps,
}

impl<T: Enrolled> Roll<T> {
    /// Makes `task` visible. The caller holds the monitor of the process's threads, and has the task leave before it is freed.
    pub(crate) fn enter(&self, task: &T) {
        let first = self.first.load(Ordering::Relaxed);
        // SAFETY: the first of the chain is there as long as the monitor is held.
        let link = match unsafe { first.as_ref() } {
            Some(first) => &first.link().next,
            None => &self.first,
        };
        let next = link.load(Ordering::Relaxed);
        task.link().next.store(next, Ordering::Relaxed);
        Self::put_behind(next, core::ptr::from_ref(task).cast_mut());
        task.link().before.store(first, Ordering::Relaxed);
        link.store(core::ptr::from_ref(task).cast_mut(), Ordering::Release);
    }

    /// Takes `task` out. The caller holds the monitor of the process's threads, under which it has entered.
    pub(crate) fn leave(&self, task: &T) {
        let next = task.link().next.load(Ordering::Relaxed);
        let before = task.link().before.load(Ordering::Relaxed);
        // SAFETY: who is in the chain leaves it under the monitor, which is held.
        let link = match unsafe { before.as_ref() } {
            Some(before) => &before.link().next,
            None => &self.first,
        };
        Self::put_behind(next, before);
        link.store(next, Ordering::Release);
    }

    /// `task`, if there is one, comes to stand behind `before`.
    fn put_behind(task: *mut T, before: *mut T) {
        // SAFETY: as in `leave`.
        if let Some(task) = unsafe { task.as_ref() } {
            task.link().before.store(before, Ordering::Relaxed);
        }
    }

    /// From here on interrupts may look.
    pub(crate) fn watch(&self) {
        if !self.watched.load(Ordering::Relaxed) {
            self.watched.store(true, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Whether an interrupt may stand on what has left before: then it is freed after a grace period only.
    pub(crate) fn is_watched(&self) -> bool {
        fence(Ordering::SeqCst);
        self.watched.load(Ordering::Relaxed)
    }

    /// What `look` says of the first task of which it says anything; looks at `most` of them.
    ///
    /// # Safety
    /// Interrupts are off until this returns, and [`Roll::watch`] was called before what made the caller look.
    pub(crate) unsafe fn find<R>(
        &self,
        most: usize,
        mut look: impl FnMut(&T) -> Option<R>,
    ) -> Found<R> {
        let mut at = self.first.load(Ordering::Acquire);
        for _ in 0..most {
            // SAFETY: what a link leads to is freed after a grace period only, since somebody watches.
            let Some(task) = (unsafe { at.as_ref() }) else {
                return Found::No;
            };
            if let Some(found) = look(task) {
                return Found::Yes(found);
            }
            at = task.link().next.load(Ordering::Acquire);
        }
        if at.is_null() {
            Found::No
        } else {
            Found::Perhaps
        }
    }
}
