//! The token protocol: `suspend` takes a token or sleeps, `resume` gives one; nothing is lost in between.
//!
//! *Interface*: transitions of the state word alone, each one atomic step; the callers in
//! `running::block` move the thread in and out of the ready ring as the outcome says.
//! Progress: `take` is wait-free, `give`, `start` and `take_or_sleep` are lock-free; a failed exchange means
//! that another party's succeeded.
//! Source: dissertation, section 5.3.2 and figure 5.10; Hohmuth and Härtig 2001, figures 2 and 3.

use super::flags::{ASLEEP, DEAD, GO, HELD, NEW, PENDING, POKED, STEP, STOPME, STOPPED, TOKEN};
use crate::primitive::{AtomicU32, Ordering};

/// The outcome of [`take_or_sleep`].
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Taken {
    /// There was a token, and it is consumed: go on.
    Token,
    /// The thread is now marked asleep: leave the ring and switch.
    Sleeps,
    /// There are procedures to run first; the thread is marked as going to sleep after them.
    Work,
}

/// The outcome of [`give`] and [`start`].
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

/// The running thread, an idle one, which is never marked asleep, consumes its token if it has one. A party
/// that gives it one interrupts its CPU afterwards: with interrupts off from here to the halt, the thread
/// does not miss that interrupt.
pub fn take(state: &AtomicU32) -> bool {
    state.fetch_and(!TOKEN, Ordering::AcqRel) & TOKEN != 0
}

/// The frequent case of [`give`]: wakes the thread if it is asleep, and then only the caller has to put it
/// into a ring. Otherwise it does nothing.
#[inline]
pub fn rouse(state: &AtomicU32) -> bool {
    let mut now = state.load(Ordering::Relaxed);
    while now & (ASLEEP | NEW | DEAD) == ASLEEP {
        let next = now & !ASLEEP;
        match state.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(seen) => now = seen,
        }
    }
    false
}

/// Gives the token, and any `extra` flags with it. A thread that has not started, or has ended, just keeps
/// the bits.
#[inline]
pub fn give(state: &AtomicU32, extra: u32) -> Given {
    let mut now = state.load(Ordering::Relaxed);
    loop {
        let (next, given) = if now & (ASLEEP | NEW | DEAD) == ASLEEP {
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

/// Figure 5.10's suspend: from now on the thread waits at its next crossing. Forgets a release that came
/// before.
pub fn hold(state: &AtomicU32) {
    let mut now = state.load(Ordering::Relaxed);
    while let Err(seen) =
        state.compare_exchange_weak(now, (now | HELD) & !GO, Ordering::AcqRel, Ordering::Relaxed)
    {
        now = seen;
    }
}

/// The running thread suspends itself, unless a release came before. Whether it is held now.
pub fn hold_self(state: &AtomicU32) -> bool {
    let mut now = state.load(Ordering::Relaxed);
    loop {
        let next = if now & GO != 0 { now & !GO } else { now | HELD };
        match state.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return now & GO == 0,
            Err(seen) => now = seen,
        }
    }
}

/// Figure 5.10's resume, from the stopped state too. A thread that already waits is woken in the same step; a
/// thread that is about to wait finds a token; a thread without marks remembers the release.
pub fn release(state: &AtomicU32) -> Given {
    let mut now = state.load(Ordering::Relaxed);
    loop {
        let mut free = now & !(HELD | STOPME);
        if now & STEP != 0 {
            free |= GO;
        }
        let (next, given) = if now & (STOPPED | ASLEEP) == STOPPED | ASLEEP {
            (free & !ASLEEP, Given::Wake)
        } else if now & STOPPED != 0 {
            (free | TOKEN, Given::Token)
        } else if now & (HELD | STOPME | STEP) != 0 {
            (free, Given::Token)
        } else {
            (free | GO, Given::Token)
        };
        match state.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return given,
            Err(seen) => now = seen,
        }
    }
}

/// A stopped thread is to execute one instruction. False: it has not stopped, or a step is under way (the
/// advisory lock of section 5.3.2).
pub fn begin_step(state: &AtomicU32) -> bool {
    let mut now = state.load(Ordering::Relaxed);
    loop {
        if now & (STOPPED | STOPME) != STOPPED | STOPME || now & STEP != 0 {
            return false;
        }
        let next = (now | STEP) & !(STOPME | GO);
        match state.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(seen) => now = seen,
        }
    }
}

/// The running thread has executed it: it stops again, unless it was released meanwhile.
pub fn end_step(state: &AtomicU32) {
    let mut now = state.load(Ordering::Relaxed);
    loop {
        let next = match now & GO {
            0 => now & !STEP | STOPME,
            _ => now & !(STEP | GO),
        };
        match state.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(seen) => now = seen,
        }
    }
}
