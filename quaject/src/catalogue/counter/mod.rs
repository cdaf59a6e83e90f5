//! A counter of events, and the generators of the routines that take from it and add to it.
//!
//! *Interface*: [`CounterCore`] is the data; [`reader`] and [`writer`] make the descriptor routines,
//! [`CounterCore::take`] and [`CounterCore::add`] are their reference implementations. The slow exit of a
//! routine uses these, and [`CounterCore::wait_for_count`] and [`CounterCore::wait_for_room`] sleep.
//!
//! The whole state is one word, so neither end needs a monitor: each read is followed by one exchange. A
//! thread that adds checks afterwards for waiters, and a waiter announces itself before it reads the count.
//!
//! Source: dissertation, sections 3.3.1 (one word instead of a lock) and 4.1.3; the semantics are those of
//! Linux's `eventfd`.
//!
//! *Unsafe*: routines that keep what they name; callbacks get the counter's address.

mod routine;

use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError};
use crate::kit::sleeper::{Sleep, Sleeper};
use crate::primitive::{AtomicU64, Ordering, in_order};
use alloc::sync::Arc;
use codegen::Routine;
use sync::{Interrupted, WaitList};

#[cfg(not(loom))]
mod quaject {
    use crate::kit::signature::Event;

    crate::quaject! {
        /// Counts events: added numbers, until they are taken
        presence Counter = "Counter" {
            callentry { TAKE = "take", ADD = "add" }
            callback {
                NONE: Event = "none" ("sleep, or leave by the slow exit"),
                SOME: Event = "none+1" ("wake takers"),
                FULL: Event = "full" ("leave by the slow exit"),
                ROOM: Event = "full-1" ("wake adders"),
            }
        }
    }
}

/// The most that a counter holds.
pub const MOST: u64 = u64::MAX - 1;

/// Bytes of a number of events in user memory.
pub const BYTES: usize = 8;

/// A counter.
#[repr(C, align(64))]
pub struct CounterCore {
    count: AtomicU64,
    /// The thread that sleeps straight out of the taking routine. Others wait in `takers`.
    sleeper: Sleeper,
    /// Threads, and pollers, that wait for a count.
    takers: WaitList,
    /// Those that wait for room.
    adders: WaitList,
    /// The least and the most, which never change.
    bounds: [AtomicU64; 2],
    /// Each takes one.
    single: bool,
    #[cfg(not(loom))]
    _tally: crate::kit::class::Tally,
}

/// The routine behind `read` of a counter that it keeps alive.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
pub fn reader(
    counter: &Arc<CounterCore>,
    env: &RoutineEnv,
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: the image keeps the counter whose words it names.
    Ok(unsafe { routine::synthesize_take(counter, env)? }.keeping(counter.clone()))
}

/// The routine behind `write` to a counter that it keeps alive.
///
/// # Errors
/// [`RoutineError`].
pub fn writer(
    counter: &Arc<CounterCore>,
    env: &RoutineEnv,
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: as above.
    Ok(unsafe { routine::synthesize_add(counter, env)? }.keeping(counter.clone()))
}

impl CounterCore {
    /// A counter that begins with `count`. If it is `single`, one is taken at a time, and else all.
    pub fn new(count: u64, single: bool) -> CounterCore {
        CounterCore {
            count: AtomicU64::new(count),
            sleeper: Sleeper::new(Sleep(Self::sleep_for_count)),
            takers: WaitList::new(),
            adders: WaitList::new(),
            bounds: [AtomicU64::new(0), AtomicU64::new(MOST)],
            single,
            #[cfg(not(loom))]
            _tally: quaject::CLASS.tally(),
        }
    }

    /// The current count.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// For a [look](crate::kit::readiness), two words that differ while there is something.
    pub fn something(&self) -> (&AtomicU64, &AtomicU64) {
        (&self.count, &self.bounds[0])
    }

    /// For a look, two words that differ while there is room.
    pub fn room(&self) -> (&AtomicU64, &AtomicU64) {
        (&self.count, &self.bounds[1])
    }

    /// Says whether takers want to wait. Otherwise routines that find nothing leave by the slow exit.
    pub fn set_patient(&self, patient: bool) {
        self.sleeper.set_patient(patient);
    }

    /// Takes the whole count, or one; `None` when the count is 0. Wakes threads that wait for room.
    pub fn take(&self) -> Option<u64> {
        let mut count = self.count.load(Ordering::SeqCst);
        loop {
            let taken = if self.single { count.min(1) } else { count };
            if taken == 0 {
                return None;
            }
            match self.exchange(count, count - taken) {
                Ok(()) => {
                    self.wake_adders();
                    return Some(taken);
                }
                Err(now) => count = now,
            }
        }
    }

    /// Adds `more`, and wakes threads that wait for a count; false when there is no room. From anywhere.
    pub fn add(&self, more: u64) -> bool {
        let mut count = self.count.load(Ordering::SeqCst);
        loop {
            let Some(sum) = count.checked_add(more).filter(|&sum| sum <= MOST) else {
                return false;
            };
            match self.exchange(count, sum) {
                Ok(()) => {
                    self.wake_takers();
                    return true;
                }
                Err(now) => count = now,
            }
        }
    }

    /// Replaces the count by `count`, and returns the old count. Wakes no thread.
    pub fn replace(&self, count: u64) -> u64 {
        self.count.swap(count, Ordering::SeqCst)
    }

    fn exchange(&self, from: u64, to: u64) -> Result<(), u64> {
        self.count
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)?;
        // A waiter announced itself before it read the earlier count.
        in_order();
        Ok(())
    }

    /// Wakes all threads that wait for a count.
    pub fn wake_takers(&self) {
        self.sleeper.wake();
        if self.takers.has_waiters() {
            self.takers.wake_all();
        }
    }

    /// Wakes all threads that wait for room.
    pub fn wake_adders(&self) {
        if self.adders.has_waiters() {
            self.adders.wake_all();
        }
    }

    /// For a poller: the list to watch for a count.
    pub fn expect_count(&self) -> &WaitList {
        &self.takers
    }

    /// For a poller: the list to watch for room.
    pub fn expect_room(&self) -> &WaitList {
        &self.adders
    }

    /// Sleeps until there is something to take.
    ///
    /// # Errors
    /// [`Interrupted`] when a signal came first.
    pub fn wait_for_count(&self) -> Result<(), Interrupted> {
        self.takers
            .wait_interruptible(|| (self.count() != 0).then_some(()))
    }

    /// Sleeps until there is room for `more`.
    ///
    /// # Errors
    /// [`Interrupted`] when a signal came first.
    pub fn wait_for_room(&self, more: u64) -> Result<(), Interrupted> {
        self.adders
            .wait_interruptible(|| (self.count() <= MOST - more.min(MOST)).then_some(()))
    }

    /// The taking routine found nothing. Left to the slow exit when another has the place.
    extern "sysv64" fn sleep_for_count(sleeper: usize, me: usize) -> usize {
        // SAFETY: routines pass the sleeper of the counter that they were generated for, and until the
        // thread sleeps nothing can free it.
        let counter = unsafe { &*((sleeper - offset::SLEEPER as usize) as *const CounterCore) };
        counter.sleeper.claim(me, || match counter.count() {
            0 => Sleep::SUSPEND,
            _ => Sleep::AGAIN,
        })
    }

    /// Callback of the adding routine: a number was added while a thread waited. Interrupts are off.
    pub(crate) extern "sysv64" fn some_came(counter: usize) {
        // SAFETY: routines pass the address of the counter that they were generated for, and it outlives
        // them.
        let counter = unsafe { &*(counter as *const CounterCore) };
        counter.sleeper.wake();
        if counter.takers.has_waiters() {
            counter.takers.wake_all_briefly();
        }
    }

    /// Callback of the taking routine: a thread waits for room.
    pub(crate) extern "sysv64" fn room_came(counter: usize) {
        // SAFETY: as above.
        unsafe { &*(counter as *const CounterCore) }.wake_adders();
    }
}

/// Offsets in a [`CounterCore`] of the words that routines name.
mod offset {
    use super::CounterCore;
    use core::mem::offset_of;

    pub const COUNT: i32 = offset_of!(CounterCore, count) as i32;
    pub const SLEEPER: i32 = offset_of!(CounterCore, sleeper) as i32;
    /// Not zero while a thread sleeps.
    pub const SLEEPING: i32 = SLEEPER + crate::kit::sleeper::THREAD as i32;
    /// The first word of a list is zero while it has no waiter.
    pub const TAKERS: i32 = offset_of!(CounterCore, takers) as i32;
    pub const ADDERS: i32 = offset_of!(CounterCore, adders) as i32;
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
