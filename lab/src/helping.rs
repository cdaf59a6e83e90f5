//! A lock whose contenders help its holder out of the critical section.
//!
//! *Interface*: [`Helping<T>`] guards data; [`HelpingLock`] is the same without data. [`HelpingLock::unlock`]
//! takes the switch hint. Thread context only, and a holder must not sleep: it leaves first.
//!
//! Source: Hohmuth and Härtig 2001, section 3.3 (helper stack, donation), section 4.3 (switch hint). Their
//! count of the locks that a thread holds serves the deletion of threads; here each thread ends by itself,
//! and never inside a lock. A contender puts itself on top of the *helper stack* and lends its time to the
//! holder ([`Callouts::donate`](sync::callout::Callouts::donate)) until it finds itself the owner; a leaving
//! holder passes lock and CPU to the top. That is priority inheritance: running the helper runs the holder.
//! It is a stack because with strict priorities the last contender is the most urgent. Owner and top of the
//! stack are adjacent words and change together when there is a stack. The owner's word says whether there is
//! one ([`HELPED`]), so an uncontended user changes only that word, with two locked instructions and no
//! callout (`holder`). Only the owner pops, so a node on the stack stays there until its turn, and the stack
//! needs no tag.
//!
//! Progress: blocking in the strict sense, and wait-free in Fiasco's: the holder runs whenever a contender
//! would, so no thread waits longer than the critical sections before its own. A contender that finds the
//! holder running on another CPU sleeps until the lock is passed to it. If that holder is then preempted, it
//! gets no help until the next contender comes: with several CPUs the bound is the holder's own share of its
//! CPU. With a stack, an early contender can be overtaken repeatedly by equals; use it where contention is
//! rare or priorities are intended.
//! Memory order: every change of the pair is a full barrier; one owner's writes happen before the next
//! owner's exchange or load.

use core::ops::{Deref, DerefMut};
use core::ptr;
use sync::callout;
use sync::cas2::AtomicPair;
use sync::lock_owner;
use sync::primitive::UnsafeCell;
use sync::primitive::atomic::{AtomicU64, Ordering};
use sync::primitive::constructor;

/// In the owner's word: the lock has an owner.
const HELD: u64 = 1;
/// In the owner's word: the helper stack is not empty, so its top is not 0.
const HELPED: u64 = 2;

/// A contender's place on the helper stack; lives on its own stack until it owns the lock.
struct Helper {
    /// The owner's word when this thread is the owner.
    owner: u64,
    /// Handle of the thread.
    thread: usize,
    next: AtomicU64,
}

/// The thread that gets the CPU after an unlock that found contenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// The next owner, at once.
    Next,
    /// The unlocking thread; the next owner runs when its turn comes.
    Stay,
    /// This thread, such as the one that was locked and has been made ready.
    To(usize),
    /// The thread that the scheduler prefers.
    Scheduler,
}

/// The lock: an owner and its helpers.
pub struct HelpingLock {
    /// Low: 0, or the owner's [`mark`](sync::lock_owner::mark), with [`HELD`] and perhaps [`HELPED`]. High:
    /// address of the top [`Helper`] or 0; not 0 only with `HELPED`.
    state: AtomicPair,
}

/// The pair for an owner and the rest of the stack.
fn state(owner: u64, top: u64) -> (u64, u64) {
    (owner | if top == 0 { 0 } else { HELPED }, top)
}

impl HelpingLock {
    constructor! {
        /// A free lock.
        pub fn new() -> HelpingLock {
            HelpingLock { state: AtomicPair::new(0, 0) }
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.take(lock_owner::mark::<HELD>())
    }

    /// Takes the lock, helping its holder.
    #[inline]
    pub fn lock(&self) {
        self.enter();
    }

    /// As [`lock`](HelpingLock::lock); the owner's word.
    #[inline]
    fn enter(&self) -> u64 {
        let me = lock_owner::mark::<HELD>();
        if !self.take(me) {
            self.contend(me);
        }
        me
    }

    /// Makes `me` the owner if there is none; then there are no helpers either.
    #[inline]
    fn take(&self, me: u64) -> bool {
        self.state.compare_exchange_low(0, me).is_ok()
    }

    #[cold]
    fn contend(&self, me: u64) {
        let c = callout::get();
        let helper = Helper {
            owner: me,
            thread: (c.current)(),
            next: AtomicU64::new(0),
        };
        let address = ptr::from_ref(&helper).expose_provenance() as u64;
        let mut old = self.state.load();
        loop {
            debug_assert!(
                old.0 == 0 || lock_owner::thread(old.0) != helper.thread || helper.thread == 0,
                "the owner locks again"
            );
            helper.next.store(old.1, Ordering::Relaxed);
            let new = if old.0 == 0 {
                (me, 0)
            } else {
                state(old.0, address)
            };
            match self.state.compare_exchange(old, new) {
                Ok(()) if old.0 == 0 => return,
                Ok(()) => break,
                Err(now) => old = now,
            }
        }
        loop {
            let owner = self.state.low();
            if owner & !HELPED == me {
                return;
            }
            if !(c.donate)(lock_owner::thread(owner)) {
                // It runs on another CPU. The token comes with the lock.
                (c.suspend)();
            }
        }
    }

    /// Gives the lock to the top of the helper stack, or frees it. Only the owner may call this.
    #[inline]
    pub fn unlock(&self, switch: Switch) {
        // Only the owner changes the owner's word, except for the mark that others set in it.
        self.leave(self.state.low() & !HELPED, switch);
    }

    /// As [`unlock`](HelpingLock::unlock), for a caller that still has the owner's word and need not read it.
    #[inline]
    fn leave(&self, me: u64, switch: Switch) {
        debug_assert!(me & HELD != 0, "unlocked without a lock");
        let free = self.state.compare_exchange_low(me, 0).is_ok();
        let next = if free { None } else { Some(self.pass_on()) };
        // Whether it runs here or elsewhere is the same to us.
        match (switch, next) {
            (Switch::To(thread), _) | (Switch::Next, Some(thread)) => {
                _ = (callout::get().donate)(thread);
            }
            (Switch::Scheduler, Some(_)) => (callout::get().yield_now)(),
            (Switch::Stay, _) | (_, None) => {}
        }
    }

    /// Makes the top of the helper stack the owner; its handle.
    #[cold]
    fn pass_on(&self) -> usize {
        let mut old = self.state.load();
        loop {
            // SAFETY: the word says that the stack has a node, which stays while this thread owns the lock:
            // only the owner takes nodes off.
            let top = unsafe { &*ptr::with_exposed_provenance::<Helper>(old.1 as usize) };
            let next = top.thread;
            let new = state(top.owner, top.next.load(Ordering::Relaxed));
            match self.state.compare_exchange(old, new) {
                Ok(()) => {
                    (callout::get().resume)(next);
                    return next;
                }
                Err(now) => old = now,
            }
        }
    }
}

impl Default for HelpingLock {
    fn default() -> Self {
        Self::new()
    }
}

/// Data that one thread at a time may touch, with help.
pub struct Helping<T> {
    lock: HelpingLock,
    data: UnsafeCell<T>,
}

// SAFETY: the data is reached only by the lock's owner.
unsafe impl<T: Send> Sync for Helping<T> {}
// SAFETY: it owns its data.
unsafe impl<T: Send> Send for Helping<T> {}

impl<T> Helping<T> {
    constructor! {
        /// Free data.
        pub fn new(data: T) -> Helping<T> {
            Helping { lock: HelpingLock::new(), data: UnsafeCell::new(data) }
        }
    }

    /// Enters, helping the holder.
    #[inline]
    pub fn enter(&self) -> Inside<'_, T> {
        let owner = self.lock.enter();
        Inside {
            monitor: self,
            owner,
        }
    }
}

/// Being inside; dropping it leaves, and gives the CPU to the next owner.
pub struct Inside<'a, T> {
    monitor: &'a Helping<T>,
    /// The owner's word while this guard exists.
    owner: u64,
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this thread owns the lock.
        self.monitor.data.with(|data| unsafe { &*data })
    }
}

impl<T> DerefMut for Inside<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` makes this borrow the only one.
        self.monitor.data.with_mut(|data| unsafe { &mut *data })
    }
}

impl<T> Drop for Inside<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.monitor.lock.leave(self.owner, Switch::Next);
    }
}
