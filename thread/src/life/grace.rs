//! The end of grace periods that nothing else ends, so no callback waits for long.
//!
//! *Interface*: [`start`] makes the thread that ends them; [`soon`] is `sync::epoch`'s callout for the first
//! waiting callback.
//!
//! A thread that retires an object sometimes also runs the callbacks of others. If no thread retires
//! anything, because the CPUs are idle or only compute, a file's pages, a pipe's queue and a user's charges
//! for them would stay allocated for an unlimited time. So the first waiting callback sets an alarm, one for
//! the machine, and the alarm wakes a thread that waits out a grace period. While any callback waits, either
//! the alarm is set or the thread is awake. Idle threads do none of this: work that an idle thread has begun
//! would wait as long as its CPU has other work.

use crate::clock::alarm;
use crate::life::spawn;
use crate::running::pending_work;
use core::sync::atomic::{AtomicBool, Ordering, fence};
use machine::clock::now_ns;
use sync::{WaitList, epoch};

use crate::tte::{NoMemory, current_opt};

/// How long something may wait before the thread is woken for it, nanoseconds.
const SOON_NS: u64 = 5_000_000;

/// The alarm is set.
static SET: AtomicBool = AtomicBool::new(false);
/// The alarm has found something.
static DUE: AtomicBool = AtomicBool::new(false);
static ENDER: WaitList = WaitList::new();

/// Makes the thread.
///
/// # Errors
/// No memory.
pub fn start() -> Result<(), NoMemory> {
    spawn::spawn(b"graces", run, 0).map(drop)
}

/// Reports that a callback waits for a grace period. From anywhere; before there are threads, an idle thread
/// asks again later.
pub(crate) fn soon() {
    if current_opt().is_none() {
        return;
    }
    // Behind the count of what waits, which the alarm looks at after it has cleared the word.
    fence(Ordering::SeqCst);
    if SET.load(Ordering::Relaxed) || SET.swap(true, Ordering::SeqCst) {
        return;
    }
    if alarm(now_ns() + SOON_NS, look, 0).is_err() {
        look(0);
    }
}

/// The alarm.
fn look(_: usize) {
    SET.store(false, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if epoch::pending() > 0 {
        DUE.store(true, Ordering::SeqCst);
        ENDER.wake_all();
    }
}

fn run(_: usize) {
    loop {
        ENDER.wait_until(|| {
            pending_work::safe_point();
            DUE.swap(false, Ordering::SeqCst).then_some(())
        });
        // Bound: a thread of its own; a grace period, asleep.
        epoch::synchronize();
        if epoch::pending() > 0 {
            soon();
        }
    }
}
