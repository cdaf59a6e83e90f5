//! A process's threads, for those who may wait for nobody: interrupt handlers look here for one that would take a signal.
//!
//! *Interface*: [`Roll::enter`] and [`Roll::leave`] by the holder of the process's thread monitor; [`Roll::find`] from anywhere with interrupts off.
//!
//! A chain of tasks, the first thread in front. An entry is published by one store and unlinked by one; it keeps its link, so who stands on it goes
//! on. Who has left it waits for a grace period before the task may be freed ([`super::exit`]), if the process ever had a timer: nobody
//! else looks. Progress: looking is wait-free.
//! Source: dissertation, section 5.2.3 (one process changes a list while others walk it).

use core::sync::atomic::{AtomicPtr, Ordering};

use super::Task;

/// The chain's head.
#[derive(Default)]
pub(crate) struct Roll(AtomicPtr<Task>);

/// A task's link in it.
#[derive(Default)]
pub(crate) struct Link(AtomicPtr<Task>);

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

impl Roll {
    /// Makes `task` visible. The caller holds the monitor of the process's threads, and has the task leave before it is freed.
    pub(crate) fn enter(&self, task: &Task) {
        // SAFETY: the first of the chain is there as long as the monitor is held.
        let link = match unsafe { self.0.load(Ordering::Relaxed).as_ref() } {
            Some(first) => &first.link.0,
            None => &self.0,
        };
        task.link
            .0
            .store(link.load(Ordering::Relaxed), Ordering::Relaxed);
        link.store(core::ptr::from_ref(task).cast_mut(), Ordering::Release);
    }

    /// Takes `task` out, if it is there. The caller holds the monitor of the process's threads.
    pub(crate) fn leave(&self, task: &Task) {
        let mut link = &self.0;
        loop {
            let at = link.load(Ordering::Relaxed);
            // SAFETY: who is in the chain leaves it under the monitor, which is held.
            let Some(other) = (unsafe { at.as_ref() }) else {
                return;
            };
            if core::ptr::eq(other, task) {
                link.store(task.link.0.load(Ordering::Relaxed), Ordering::Release);
                return;
            }
            link = &other.link.0;
        }
    }

    /// What `look` says of the first task of which it says anything; looks at `most` of them.
    ///
    /// # Safety
    /// Interrupts are off until this returns, and whoever leaves waits for a grace period before it frees its task.
    pub(crate) unsafe fn find<R>(
        &self,
        most: usize,
        mut look: impl FnMut(&Task) -> Option<R>,
    ) -> Found<R> {
        let mut at = self.0.load(Ordering::Acquire);
        for _ in 0..most {
            // SAFETY: what a link leads to is freed after a grace period only, the caller says.
            let Some(task) = (unsafe { at.as_ref() }) else {
                return Found::No;
            };
            if let Some(found) = look(task) {
                return Found::Yes(found);
            }
            at = task.link.0.load(Ordering::Acquire);
        }
        if at.is_null() {
            Found::No
        } else {
            Found::Perhaps
        }
    }
}
