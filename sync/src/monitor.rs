//! A sleeping mutex: one word to take it, a list to wait for it.
//!
//! *Interface*: [`Monitor::lock`] sleeps while another thread holds it; [`Monitor::try_lock`] never waits.
//! Thread context only; no interrupt handler takes one, but for the timer's, which may try one in a program's
//! place while that is interrupted. [`RawMonitor`] is the same without data, for
//! structures whose generated routines take the word themselves: 0 free → 1 held with one compare-and-swap,
//! and release with one exchange to 0; an old value with bit 1 set means that a thread waits and
//! [`RawMonitor::wake_next`] must be called. Every other holder has its mark in the word, above these two
//! bits.
//!
//! A thread that finds the monitor held helps first: it lends its turns and its level to the holder, as long
//! as the holder is ready and not on another CPU. It sleeps only when the holder sleeps; when the holder is
//! on another CPU (which then runs it next) and does not release the monitor within a few tests; or when the
//! holder needs more than a few turns. So a preempted holder of a low level does not delay an urgent thread:
//! priority inheritance by donation (Hohmuth and Härtig 2001, section 3.3). To be identified, the holder puts
//! an address in its own stack into the word (`holder`); 32 bits are enough, since the kernel's stacks are in
//! the top two gigabytes. Routines that take the word themselves leave no address; they are not preempted
//! while they hold it. `lab::helping` is a lock for holders that never sleep.
//!
//! Progress: blocking. It serializes parties in the sense of the *monitor* building block
//! (Massalin and Pu 1989, section 2.3), where no lock-free form is at hand.

use crate::primitive::atomic::{AtomicU32, Ordering};
use crate::wait::WaitList;
use crate::{callout, lock_owner};
use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::mem::offset_of;
use core::ops::{Deref, DerefMut};

/// Not held.
pub const FREE: u32 = 0;
/// Held, with no waiter. The bits above may identify the holder.
pub const HELD: u32 = 1;
/// Held, and there may be waiters, instead of [`HELD`].
pub const CONTENDED: u32 = 2;

/// Turns that a contender lends before it sleeps.
const TURNS: usize = 16;
/// Looks that it takes, before it sleeps, while the holder runs on another CPU. Most are about to let go,
/// sooner than a thread can go to sleep and be woken.
const LOOKS: usize = 64;

/// The word and the list. The word is first in memory.
#[repr(C)]
pub struct RawMonitor {
    /// [`FREE`]; or [`HELD`] or [`CONTENDED`], with the lower half of the holder's mark unless a routine
    /// holds it.
    word: AtomicU32,
    /// Written too: a record with several monitors is then zeroed in place, instead of put together elsewhere
    /// and copied.
    _gap: [u32; 3],
    waiters: WaitList,
}

impl RawMonitor {
    /// A free monitor.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        RawMonitor {
            word: AtomicU32::new(FREE),
            _gap: [0; 3],
            waiters: WaitList::new(),
        }
    }

    /// A free monitor.
    #[cfg(loom)]
    pub fn new() -> Self {
        RawMonitor {
            word: AtomicU32::new(FREE),
            _gap: [0; 3],
            waiters: WaitList::new(),
        }
    }

    /// The word, for generated code.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Takes the monitor if it is free.
    #[inline]
    #[cfg_attr(order, track_caller)]
    pub fn try_lock(&self) -> bool {
        let taken = self.take();
        #[cfg(order)]
        if taken {
            crate::lockdep::took(self.at(), "", false);
        }
        taken
    }

    #[inline]
    fn take(&self) -> bool {
        let me = lock_owner::mark::<{ HELD as u64 }>() as u32;
        self.word
            .compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the monitor, sleeping while another thread holds it.
    #[inline]
    #[cfg_attr(order, track_caller)]
    pub fn lock(&self) {
        self.enter();
        #[cfg(order)]
        crate::lockdep::took(self.at(), "", true);
    }

    /// As [`lock`](RawMonitor::lock), for generated code, which releases the monitor by its word, without a
    /// report.
    #[cfg_attr(order, track_caller)]
    pub fn lock_for_code(&self) {
        self.enter();
        #[cfg(order)]
        {
            crate::lockdep::took(self.at(), "", true);
            crate::lockdep::gave(self.at());
        }
    }

    #[inline]
    fn enter(&self) {
        if !self.take() {
            self.wait();
        }
    }

    #[cfg(order)]
    fn at(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    #[cold]
    fn wait(&self) {
        let c = callout::get();
        let holder = || thread(self.word.load(Ordering::Relaxed));
        for _ in 0..TURNS {
            if !(c.donate)(holder()) {
                break;
            }
            if self.take() {
                return;
            }
        }
        for _ in 0..LOOKS {
            if self.word.load(Ordering::Relaxed) == FREE && self.take() {
                return;
            }
            if !(c.runs_elsewhere)(holder()) {
                break;
            }
            // Bound: at most 64 looks, and only while the holder runs on another CPU; then the waiter sleeps.
            spin_loop();
        }
        self.waiters
            .wait_until(|| self.take_or_mark().then_some(()));
    }

    /// Takes the monitor as one for which others may wait, or marks it so.
    fn take_or_mark(&self) -> bool {
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let new = if old == FREE {
                lock_owner::mark::<{ CONTENDED as u64 }>() as u32
            } else {
                old & !HELD | CONTENDED
            };
            match self
                .word
                .compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return old == FREE,
                Err(now) => old = now,
            }
        }
    }

    /// Gives the monitor back. Only the holder may call this.
    #[inline]
    pub fn unlock(&self) {
        #[cfg(order)]
        crate::lockdep::gave(self.at());
        if self.word.swap(FREE, Ordering::Release) & CONTENDED != 0 {
            self.wake_next();
        }
    }

    /// Wakes the longest waiter, after a release that found [`CONTENDED`].
    #[cold]
    pub fn wake_next(&self) {
        self.waiters.wake_one();
    }
}

/// The thread whose mark is in the word; 0 when there is none.
fn thread(word: u32) -> usize {
    // The upper bits repeat the last one that counts.
    lock_owner::thread(word as i32 as u64)
}

impl Default for RawMonitor {
    fn default() -> Self {
        Self::new()
    }
}

/// Data that one thread at a time may touch.
pub struct Monitor<T: ?Sized> {
    raw: RawMonitor,
    data: UnsafeCell<T>,
}

impl<T> Monitor<T> {
    /// Offset of the word, for generated code, which takes and releases the monitor as [`RawMonitor`] says.
    pub const WORD: usize = offset_of!(Self, raw) + offset_of!(RawMonitor, word);
    /// Offset of the data.
    pub const DATA: usize = offset_of!(Self, data);

    /// A free monitor around `data`.
    #[cfg(not(loom))]
    pub const fn new(data: T) -> Self {
        Monitor {
            raw: RawMonitor::new(),
            data: UnsafeCell::new(data),
        }
    }

    /// A free monitor around `data`.
    #[cfg(loom)]
    pub fn new(data: T) -> Self {
        Monitor {
            raw: RawMonitor::new(),
            data: UnsafeCell::new(data),
        }
    }

    /// Takes the data out again.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

impl<T: ?Sized> Monitor<T> {
    /// Without the data, for what generated code leaves to be done.
    pub fn raw(&self) -> &RawMonitor {
        &self.raw
    }

    /// Takes the monitor, sleeping while another thread holds it.
    #[inline]
    #[cfg_attr(order, track_caller)]
    pub fn lock(&self) -> Guard<'_, T> {
        self.raw.enter();
        #[cfg(order)]
        crate::lockdep::took(self.raw.at(), core::any::type_name::<T>(), true);
        Guard { monitor: self }
    }

    /// Takes the monitor if it is free.
    #[inline]
    #[cfg_attr(order, track_caller)]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let taken = self.raw.take();
        #[cfg(order)]
        if taken {
            crate::lockdep::took(self.raw.at(), core::any::type_name::<T>(), false);
        }
        // Not `then_some`: a guard that is made and dropped would give back what another thread holds.
        taken.then(|| Guard { monitor: self })
    }

    /// The data, when the borrow already proves exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.data.get_mut()
    }
}

impl<T: Default> Default for Monitor<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

// SAFETY: the data is reached only through a guard, of which there is one at a time.
unsafe impl<T: ?Sized + Send> Send for Monitor<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Monitor<T> {}

/// Access to a monitor's data; dropping it gives the monitor back.
pub struct Guard<'a, T: ?Sized> {
    monitor: &'a Monitor<T>,
}

impl<T: ?Sized> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that this thread holds the monitor.
        unsafe { &*self.monitor.data.get() }
    }
}

impl<T: ?Sized> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` makes this borrow the only one.
        unsafe { &mut *self.monitor.data.get() }
    }
}

impl<T: ?Sized> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.monitor.raw.unlock();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn no_increment_is_lost_under_contention() {
        let total = Arc::new(Monitor::new(0u64));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let total = total.clone();
                std::thread::spawn(move || (0..1000).for_each(|_| *total.lock() += 1))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(*total.lock(), 4000);
    }

    #[test]
    fn a_held_monitor_is_not_taken_twice() {
        let monitor = Monitor::new(());
        let guard = monitor.try_lock();
        assert!(guard.is_some() && monitor.try_lock().is_none());
        assert!(monitor.try_lock().is_none());
        drop(guard);
        assert!(monitor.try_lock().is_some());
    }
}
