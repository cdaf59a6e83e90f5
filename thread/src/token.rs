//! The token protocol: `suspend` takes a token or sleeps, `resume` gives one; nothing is lost in between.
//!
//! *Interface*: transitions of the state word alone, each one atomic step; the callers in
//! [`crate::block`] move the thread in and out of the ready ring as the outcome says.
//! Progress: `give` and `start` are lock-free, `take_or_sleep` too; a failed exchange means that another party's succeeded.
//! Source: dissertation, section 5.3.2 and figure 5.10; Hohmuth and Härtig 2001, figures 2 and 3.

use crate::flags::{ASLEEP, DEAD, NEW, PENDING, POKED, TOKEN};
use crate::primitive::{AtomicU32, Ordering};

/// What [`take_or_sleep`] did.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Taken {
    /// There was a token, and it is consumed: go on.
    Token,
    /// The thread is now marked asleep: leave the ring and switch.
    Sleeps,
    /// There are procedures to run first; the thread is marked as going to sleep after them.
    Work,
}

/// What [`give`] and [`start`] did.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Given {
    /// The thread had not slept; it will find the token.
    Token,
    /// The thread was asleep and the caller, alone, has to put it into a ring.
    Wake,
}

/// The running thread consumes its token, or marks itself asleep, unless there is work to do first.
#[inline]
pub fn take_or_sleep(state: &AtomicU32) -> Taken {
    let mut now = state.load(Ordering::Relaxed);
    loop {
        let (next, taken) = if now & TOKEN != 0 {
            (now & !TOKEN, Taken::Token)
        } else if now & PENDING != 0 {
            (now | POKED, Taken::Work)
        } else {
            (now | ASLEEP, Taken::Sleeps)
        };
        match state.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return taken,
            Err(seen) => now = seen,
        }
    }
}

/// Gives the token, and any `extra` flags with it. A thread that has not started, or has ended, just keeps the bits.
#[inline]
pub fn give(state: &AtomicU32, extra: u32) -> Given {
    let mut now = state.load(Ordering::Relaxed);
    loop {
        let (next, given) = if now & ASLEEP != 0 && now & (NEW | DEAD) == 0 {
            ((now & !ASLEEP) | extra, Given::Wake)
        } else {
            (now | TOKEN | extra, Given::Token)
        };
        match state.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return given,
            Err(seen) => now = seen,
        }
    }
}

/// Starts a new thread. `Token` means that it had been started before.
pub fn start(state: &AtomicU32) -> Given {
    let mut now = state.load(Ordering::Relaxed);
    loop {
        if now & NEW == 0 {
            return Given::Token;
        }
        match state.compare_exchange_weak(
            now,
            now & !(NEW | ASLEEP),
            Ordering::AcqRel,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Given::Wake,
            Err(seen) => now = seen,
        }
    }
}

/// Marks supervisor procedures as pending and wakes the thread for them alone: its sleep is not over.
pub fn poke(state: &AtomicU32) -> Given {
    let mut now = state.load(Ordering::Relaxed);
    loop {
        let (next, given) = if now & ASLEEP != 0 && now & (NEW | DEAD) == 0 {
            ((now & !ASLEEP) | PENDING | POKED, Given::Wake)
        } else {
            (now | PENDING, Given::Token)
        };
        match state.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return given,
            Err(seen) => now = seen,
        }
    }
}
