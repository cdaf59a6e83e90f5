//! Waiting for a condition: a list of sleeping threads that is taken whole.
//!
//! *Interface*: [`WaitList::wait_until`] and [`WaitList::wait_interruptible`] sleep until a closure yields;
//! [`WaitList::wake_all`] and [`WaitList::wake_one`] may be called from anywhere, interrupt handlers
//! included. [`WaitList::enroll`] and [`WaitList::leave`] let one thread wait on several lists (`poll`).
//!
//! The waker changes the condition first and wakes afterwards. No wake-up is lost: a waiter
//! enrols, looks again, and only then sleeps on its token, which a `resume` in between has already given.
//!
//! Progress: `enroll` and the wakers are lock-free (one compare-and-swap or swap on the head; taking the whole list
//! leaves no room for ABA). `leave` of a node that a waker has taken but not yet released
//! yields to that waker: it is called in thread context only.
//!
//! Source: Hohmuth and Härtig 2001, sleep and wakeup on one state word (figures 2 and 3); Treiber's stack
//! with take-all for the list.

use crate::callout;
use crate::primitive::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
use alloc::boxed::Box;
use alloc::vec::Vec;

const FREE: usize = 0;
const QUEUED: usize = 1;

/// Of [`WaitList::choosers`]: the active ones, and what one adds when it begins.
const ACTIVE: usize = 0xffff_ffff;
const BEGIN: usize = 1 << 32 | 1;

/// A sleeper's place in one list. Lives on the sleeper's stack, and must have left before it is dropped.
pub struct WaitNode {
    next: AtomicPtr<WaitNode>,
    owner: usize,
    state: AtomicUsize,
}

impl WaitNode {
    /// A node for the running thread.
    pub fn new() -> Self {
        WaitNode {
            next: AtomicPtr::new(core::ptr::null_mut()),
            owner: (callout::get().current)(),
            state: AtomicUsize::new(FREE),
        }
    }

    /// Whether no waker has taken the node since it enrolled.
    pub fn is_queued(&self) -> bool {
        self.state.load(Ordering::Acquire) == QUEUED
    }
}

impl Default for WaitNode {
    fn default() -> Self {
        Self::new()
    }
}

/// A signal or kill arrived before the condition held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

/// Threads that sleep until something changes.
pub struct WaitList {
    head: AtomicPtr<WaitNode>,
    /// How many `wake_one` have taken the list and may put nodes back (the lower half), and how many ever did.
    choosers: AtomicUsize,
    /// A waker came while they did.
    missed: AtomicU32,
}

impl WaitList {
    /// An empty list.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        WaitList {
            head: AtomicPtr::new(core::ptr::null_mut()),
            choosers: AtomicUsize::new(0),
            missed: AtomicU32::new(0),
        }
    }

    /// An empty list.
    #[cfg(loom)]
    pub fn new() -> Self {
        WaitList {
            head: AtomicPtr::new(core::ptr::null_mut()),
            choosers: AtomicUsize::new(0),
            missed: AtomicU32::new(0),
        }
    }

    /// Sleeps until `condition` yields a value. `condition` may run many times.
    pub fn wait_until<T>(&self, mut condition: impl FnMut() -> Option<T>) -> T {
        match self.wait(&mut condition, || false) {
            Ok(value) => value,
            Err(Interrupted) => unreachable!("an uninterruptible wait was interrupted"),
        }
    }

    /// Sleeps until `condition` yields a value or a signal arrives for the thread; the
    /// condition is looked at once more before giving up.
    pub fn wait_interruptible<T>(
        &self,
        mut condition: impl FnMut() -> Option<T>,
    ) -> Result<T, Interrupted> {
        self.wait(&mut condition, callout::get().interrupted)
    }

    fn wait<T>(
        &self,
        condition: &mut impl FnMut() -> Option<T>,
        give_up: impl Fn() -> bool,
    ) -> Result<T, Interrupted> {
        if let Some(value) = condition() {
            return Ok(value);
        }
        let node = WaitNode::new();
        loop {
            if !node.is_queued() {
                // SAFETY: every path out of this loop leaves the list first.
                unsafe { self.enroll(&node) };
            }
            if let Some(value) = condition() {
                self.leave(&node);
                return Ok(value);
            }
            if give_up() {
                self.leave(&node);
                return Err(Interrupted);
            }
            (callout::get().suspend)();
        }
    }

    /// Puts `node` on the list. Look at the condition after this and before `suspend`.
    ///
    /// # Safety
    /// `node` is not queued anywhere, stays where it is, and [`leave`](Self::leave) of this list is called before it is dropped.
    pub unsafe fn enroll(&self, node: &WaitNode) {
        node.state.store(QUEUED, Ordering::Relaxed);
        let this = core::ptr::from_ref(node).cast_mut();
        self.push_chain(this, &node.next);
    }

    /// Pushes a chain that starts with `first` and ends with the node whose link is `last_next`.
    fn push_chain(&self, first: *mut WaitNode, last_next: &AtomicPtr<WaitNode>) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            last_next.store(head, Ordering::Relaxed);
            match self
                .head
                .compare_exchange_weak(head, first, Ordering::SeqCst, Ordering::Relaxed)
            {
                // The enrolment comes before the look at the condition.
                Ok(_) => return fence(Ordering::SeqCst),
                Err(now) => head = now,
            }
        }
    }

    /// Takes `node` off the list if it is still there. Others on the list may wake spuriously.
    pub fn leave(&self, node: &WaitNode) {
        while node.is_queued() {
            let chain = self.head.swap(core::ptr::null_mut(), Ordering::AcqRel);
            self.release_chain(chain, node);
            if node.is_queued() {
                (callout::get().yield_now)();
            }
        }
    }

    /// Wakes every thread that was enrolled when the call began.
    pub fn wake_all(&self) {
        loop {
            let before = self.choosers.load(Ordering::Acquire);
            fence(Ordering::SeqCst);
            if !self.head.load(Ordering::Acquire).is_null() {
                let chain = self.head.swap(core::ptr::null_mut(), Ordering::AcqRel);
                self.release_chain(chain, core::ptr::null());
            }
            if before & ACTIVE == 0 && self.choosers.load(Ordering::Acquire) == before {
                return;
            }
            // A `wake_one` held nodes meanwhile and may have put them back unseen. One that still
            // does finds this note when it is done; otherwise we look again.
            self.missed.swap(1, Ordering::AcqRel);
            if self.choosers.load(Ordering::Acquire) & ACTIVE != 0
                || self.missed.swap(0, Ordering::AcqRel) == 0
            {
                return;
            }
        }
    }

    /// Wakes the thread that has waited longest, and leaves the others enrolled. (They too wake when another waker finds
    /// the list in the hands of this one: it cannot know which it missed.)
    pub fn wake_one(&self) {
        let before = self.choosers.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        if self.head.load(Ordering::Acquire).is_null() {
            if before & ACTIVE != 0 || self.choosers.load(Ordering::Acquire) != before {
                self.wake_all();
            }
            return;
        }
        self.choosers.fetch_add(BEGIN, Ordering::AcqRel);
        let chain = self.head.swap(core::ptr::null_mut(), Ordering::AcqRel);
        let mut before: *mut WaitNode = core::ptr::null_mut();
        let mut last = chain;
        while !last.is_null() {
            // SAFETY: the chain is ours alone since the swap, and a node stays valid while it is QUEUED.
            let next = unsafe { (*last).next.load(Ordering::Relaxed) };
            if next.is_null() {
                break;
            }
            before = last;
            last = next;
        }
        if !before.is_null() {
            // SAFETY: as above; `before` is the node in front of the last one.
            self.push_chain(chain, unsafe { &(*before).next });
        }
        self.release_chain_of_one(last);
        self.choosers.fetch_sub(1, Ordering::AcqRel);
        if self.missed.swap(0, Ordering::AcqRel) != 0 {
            self.wake_all();
        }
    }

    fn release_chain_of_one(&self, node: *mut WaitNode) {
        if node.is_null() {
            return;
        }
        // SAFETY: the node was taken off the list and is still QUEUED, so its owner keeps it alive.
        let owner = unsafe { (*node).owner };
        // SAFETY: as above; this store is the last access.
        unsafe { (*node).state.store(FREE, Ordering::Release) };
        (callout::get().resume)(owner);
    }

    /// Releases a chain. The owner of `mine` is the caller: it is awake, and a token would only end its next sleep early.
    fn release_chain(&self, mut chain: *mut WaitNode, mine: *const WaitNode) {
        while !chain.is_null() {
            // SAFETY: the chain is ours alone, and its nodes are QUEUED and so alive.
            let next = unsafe { (*chain).next.load(Ordering::Relaxed) };
            if core::ptr::eq(chain, mine) {
                // SAFETY: as above, and the caller keeps its own node.
                unsafe { (*chain).state.store(FREE, Ordering::Release) };
            } else {
                self.release_chain_of_one(chain);
            }
            chain = next;
        }
    }

    /// Address of the word that is zero while nobody is enrolled, for generated code.
    pub fn word_address(&self) -> usize {
        core::ptr::from_ref(&self.head) as usize
    }

    /// Whether anyone is enrolled at this instant.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        !self.head.load(Ordering::SeqCst).is_null()
    }
}

impl Default for WaitList {
    fn default() -> Self {
        Self::new()
    }
}

/// The running thread's places in several lists at once: what `poll` and `select` sleep on.
///
/// Watch first, look at every condition, then [`Watch::sleep`]; and again from the start.
pub struct Watch<'a> {
    places: Vec<(Box<WaitNode>, &'a WaitList)>,
}

impl<'a> Watch<'a> {
    /// Watches nothing yet.
    pub const fn new() -> Self {
        Watch { places: Vec::new() }
    }

    /// Enrols the running thread in `list` until the watch is cleared or dropped.
    pub fn watch(&mut self, list: &'a WaitList) {
        let node = Box::new(WaitNode::new());
        // SAFETY: the node is fresh, boxed, and leaves in `clear`, which `drop` calls. If the watch is
        // forgotten instead, the box is leaked and so stays valid.
        unsafe { list.enroll(&node) };
        self.places.push((node, list));
    }

    /// Sleeps until a watched list is woken or something else resumes the thread.
    pub fn sleep(&self) {
        if self.places.iter().all(|(node, _)| node.is_queued()) {
            (callout::get().suspend)();
        }
    }

    /// Leaves every list.
    pub fn clear(&mut self) {
        for (node, list) in self.places.drain(..) {
            list.leave(&node);
        }
    }
}

impl Default for Watch<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

// SAFETY: nodes are only reached through atomics, and their owners keep them alive while queued.
unsafe impl Send for WaitList {}
// SAFETY: as above.
unsafe impl Sync for WaitList {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_waiter_sees_the_change_that_woke_it() {
        let list = Arc::new(WaitList::new());
        let word = Arc::new(AtomicU32::new(0));
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let (list, word) = (list.clone(), word.clone());
                std::thread::spawn(move || {
                    list.wait_until(|| {
                        let seen = word.load(Ordering::SeqCst);
                        (seen != 0).then_some(seen)
                    })
                })
            })
            .collect();
        word.store(7, Ordering::SeqCst);
        list.wake_all();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), 7);
        }
        assert!(!list.has_waiters());
    }

    #[test]
    fn who_leaves_gets_no_token() {
        use crate::callout::{self, Callouts};
        use std::sync::atomic::AtomicUsize;
        const ME: usize = 9;
        static TOKENS: AtomicUsize = AtomicUsize::new(0);
        std::thread_local!(static HANDLE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
        static COUNTING: Callouts = Callouts {
            current: || HANDLE.get(),
            suspend: std::thread::yield_now,
            resume: |thread| {
                TOKENS.fetch_add(usize::from(thread == ME), Ordering::SeqCst);
            },
            interrupted: || false,
            yield_now: std::thread::yield_now,
            cpu: || 0,
            irq_save: || 0,
            irq_restore: |_| {},
            ..callout::DEFAULT
        };
        callout::link(&COUNTING);
        HANDLE.set(ME);
        let list = WaitList::new();
        let node = WaitNode::new();
        // SAFETY: the node leaves at once.
        unsafe { list.enroll(&node) };
        list.leave(&node);
        assert!(!node.is_queued());
        assert_eq!(TOKENS.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn wake_one_releases_the_oldest_and_keeps_the_rest() {
        let list = WaitList::new();
        let (a, b, c) = (WaitNode::new(), WaitNode::new(), WaitNode::new());
        // SAFETY: all three leave below.
        unsafe {
            list.enroll(&a);
            list.enroll(&b);
            list.enroll(&c);
        }
        list.wake_one();
        assert!(!a.is_queued() && b.is_queued() && c.is_queued());
        list.wake_one();
        assert!(!b.is_queued() && c.is_queued());
        list.leave(&c);
        assert!(!c.is_queued() && !list.has_waiters());
    }
}
