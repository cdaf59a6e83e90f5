//! The thread list of a process, for callers that may not wait: an interrupt handler searches here for a
//! thread that would take a signal.
//!
//! *Interface*: [`ThreadList::enter`] and [`ThreadList::leave`] by the holder of the process's thread
//! monitor; [`ThreadList::watch`] before interrupts are made to look, and [`ThreadList::find`] in these
//! interrupts; [`ThreadList::is_watched`] after a task has left.
//!
//! The thread list is a chain of tasks, the first thread in front. One store publishes a task and one store
//! unlinks it. A task that was unlinked keeps its link, so a reader on the task can continue. After a task
//! has left, its owner checks whether an interrupt may be reading, and if so waits for a grace period before
//! it frees the task. Code that makes interrupts search announces that first, once; a full fence on both
//! sides lets one side see the other. So a process without timers pays nothing.
//!
//! Progress: looking is wait-free.
//! Source: dissertation, section 5.2.3 (one process changes a list while others walk it).
//!
//! *Unsafe*: tasks that live until a grace period.

use alloc::vec::Vec;
use core::ops::Deref;
use core::ptr::null_mut;
use machine::irqs_off::IrqsOff;

use crate::primitive::{AtomicPtr, AtomicU8, Ordering, fence};

/// An element of a thread list.
pub(crate) trait ListedThread: Sized {
    /// Its link.
    fn link(&self) -> &ThreadLink<Self>;
}

/// The links that each task of the chain has.
pub(crate) struct ThreadLink<T> {
    next: AtomicPtr<T>,
    /// The task before it, for changes of the chain: null for the first.
    before: AtomicPtr<T>,
}

/// Offset of the next task in a link, for generated code.
pub(crate) const NEXT: usize = core::mem::offset_of!(ThreadLink<()>, next);
/// Offset of the first task in a thread list.
pub(crate) const FIRST: usize = core::mem::offset_of!(ThreadList<()>, first);

impl<T> Default for ThreadLink<T> {
    fn default() -> Self {
        ThreadLink {
            next: AtomicPtr::new(null_mut()),
            before: AtomicPtr::new(null_mut()),
        }
    }
}

/// Nobody has said that interrupts look.
const UNSAID: u8 = 0;
/// It was said, and who leaves may not have seen it yet.
const SAID: u8 = 1;
/// All who leave from here on see it, and who finds this needs no fence.
const SEEN: u8 = 2;

/// The chain.
pub(crate) struct ThreadList<T> {
    first: AtomicPtr<T>,
    /// Whether interrupts may look: [`UNSAID`], [`SAID`] or [`SEEN`].
    watched: AtomicU8,
}

impl<T> Default for ThreadList<T> {
    fn default() -> Self {
        ThreadList {
            first: AtomicPtr::new(null_mut()),
            watched: AtomicU8::new(UNSAID),
        }
    }
}

/// The answer of [`ThreadList::find`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundThread<R> {
    /// A task was found.
    Yes(R),
    /// There is none.
    No,
    /// None of the tasks that were looked at, but there are more.
    Perhaps,
}

impl<T: ListedThread> ThreadList<T> {
    /// Adds `task` to the process's threads, whose monitor is held, and makes it visible. They keep it until
    /// [`ThreadList::leave`] takes it out of both.
    pub(crate) fn enter<H: Deref<Target = T>>(&self, threads: &mut Vec<H>, task: H) {
        self.link(&task);
        #[expect(clippy::disallowed_methods, reason = "`seats` or `admit` made room")]
        threads.push(task);
    }

    fn link(&self, task: &T) {
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

    /// Takes the one at `seat` out of the process's threads, whose monitor is held and where the last one
    /// takes its seat. It has to be kept for a grace period if interrupts may have looked.
    pub(crate) fn leave<H: Deref<Target = T>>(&self, threads: &mut Vec<H>, seat: usize) -> H {
        let task = threads.swap_remove(seat);
        self.unlink(&task);
        task
    }

    fn unlink(&self, task: &T) {
        let next = task.link().next.load(Ordering::Relaxed);
        let before = task.link().before.load(Ordering::Relaxed);
        // SAFETY: a task leaves the chain only under the monitor, which is held.
        let link = match unsafe { before.as_ref() } {
            Some(before) => &before.link().next,
            None => &self.first,
        };
        Self::put_behind(next, before);
        link.store(next, Ordering::Release);
    }

    /// Places `task`, if there is one, behind `before`.
    fn put_behind(task: *mut T, before: *mut T) {
        // SAFETY: as in `leave`.
        if let Some(task) = unsafe { task.as_ref() } {
            task.link().before.store(before, Ordering::Relaxed);
        }
    }

    /// From here on interrupts may look.
    #[inline]
    pub(crate) fn watch(&self) {
        if self.watched.load(Ordering::Acquire) != SEEN {
            self.begin_watch();
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_watch(&self) {
        self.watched.store(SAID, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.watched.store(SEEN, Ordering::Release);
    }

    /// Whether an interrupt may stand on a task that has left: the task is then freed only after a grace
    /// period.
    pub(crate) fn is_watched(&self) -> bool {
        fence(Ordering::SeqCst);
        self.watched.load(Ordering::Relaxed) != UNSAID
    }

    /// Whether `task` is on it, the only one, and the caller.
    #[inline]
    pub(crate) fn has_only(&self, task: &T) -> bool {
        core::ptr::eq(self.first.load(Ordering::Acquire), task)
            && task.link().next.load(Ordering::Acquire).is_null()
    }

    /// The answer of `look` for the first task for which it has one. Looks at `most` tasks.
    ///
    /// # Safety
    /// [`ThreadList::watch`] was called before what made the caller look.
    pub(crate) unsafe fn find<R>(
        &self,
        most: usize,
        mut look: impl FnMut(&T) -> Option<R>,
        _off: &IrqsOff,
    ) -> FoundThread<R> {
        let mut at = self.first.load(Ordering::Acquire);
        for _ in 0..most {
            // SAFETY: the thread list is watched, so a task that a link leads to is freed only after a grace
            // period.
            let Some(task) = (unsafe { at.as_ref() }) else {
                return FoundThread::No;
            };
            if let Some(found) = look(task) {
                return FoundThread::Yes(found);
            }
            at = task.link().next.load(Ordering::Acquire);
        }
        if at.is_null() {
            FoundThread::No
        } else {
            FoundThread::Perhaps
        }
    }
}
