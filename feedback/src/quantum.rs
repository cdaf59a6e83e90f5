//! The loop behind a thread's quantum (dissertation, section 6.3.1): a thread whose input fills or whose
//! output drains gets a larger share of the CPU, one whose input drains or whose output fills a smaller one.
//!
//! *Interface*: [`QuantumLoop::next`] takes the *need* that the fill of the thread's channels shows, when the
//! thread has used up a quantum, and gives its next quantum; [`QuantumLoop::rest`] is for a thread whose
//! channels stand still. Both answer in parts of the thread's own quantum ([`ONE`]).
//!
//! A channel's fill is the integral of two rates, so a loop that only integrates the need swings. The quantum
//! therefore has two parts: `settled`, the integral, and the need itself, which damps. `settled` also leaks
//! towards [`ONE`]: that damps the loop where a quantum moves only a small part of a channel, and a thread
//! that needs nothing any more returns to its own quantum. Everything is relative to `settled`, so the same
//! gains serve any quantum. The bounds keep a thread from taking the CPU as a whole, and from being starved.
//! `docs/feedback.md` has the argument for stability.

/// The thread's own quantum.
pub const ONE: u32 = 4096;
/// The smallest quantum.
pub const LEAST: u32 = ONE / 4;
/// The largest quantum.
pub const MOST: u32 = ONE * 4;
/// The largest quantum of a thread in a stream that leads to a device.
pub const FARTHEST: u32 = ONE * 16;
/// The need of a thread whose input is full, and whose output, if it has any, is empty.
pub const NEED: i32 = 256;

/// The integral's gain at each look, as a right shift.
const INTEGRAL: u32 = 2;
/// The leak at each look, as a right shift.
const LEAK: u32 = 5;
/// The return to the own quantum of a thread whose channels stand still, as a right shift.
const RETURN: u32 = 3;

/// A thread's part of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantumLoop {
    settled: u32,
}

impl Default for QuantumLoop {
    fn default() -> QuantumLoop {
        QuantumLoop::new()
    }
}

impl QuantumLoop {
    /// A thread with its own quantum.
    pub const fn new() -> QuantumLoop {
        QuantumLoop { settled: ONE }
    }

    /// The share that [`QuantumLoop::settled`] has told.
    pub const fn of(settled: u32) -> QuantumLoop {
        QuantumLoop {
            settled: bounded(settled as i64, FARTHEST),
        }
    }

    /// The quantum about which the loop moves at present.
    pub const fn settled(self) -> u32 {
        self.settled
    }

    /// The thread has used up a quantum, and shows `need`, [`-NEED`](NEED) to [`NEED`]: its next quantum.
    pub const fn next(&mut self, need: i32) -> u32 {
        self.next_within(need, MOST)
    }

    /// The same with another largest quantum.
    pub const fn next_within(&mut self, need: i32, most: u32) -> u32 {
        let need = if need > NEED {
            NEED as i64
        } else if need < -NEED {
            -NEED as i64
        } else {
            need as i64
        };
        let now = self.settled as i64;
        let push = now * need / NEED as i64;
        self.settled = bounded(now + (push >> INTEGRAL) + towards_one(now, LEAK), most);
        bounded(self.settled as i64 + push, most)
    }

    /// The thread has used up a quantum, and nothing has moved in its channels: its next quantum.
    pub const fn rest(&mut self) -> u32 {
        let now = self.settled as i64;
        self.settled = bounded(now + towards_one(now, RETURN), FARTHEST);
        self.settled
    }
}

/// A step towards the thread's own quantum; not zero before it is reached.
const fn towards_one(settled: i64, shift: u32) -> i64 {
    let away = ONE as i64 - settled;
    let step = away / (1 << shift);
    if step == 0 { away.signum() } else { step }
}

const fn bounded(quantum: i64, most: u32) -> u32 {
    if quantum < LEAST as i64 {
        LEAST
    } else if quantum > most as i64 {
        most
    } else {
        quantum as u32
    }
}

/// The largest quantum of a thread that moves a device's data, when `ready` threads share the CPU: as long as
/// a round of all others, so that the stream has half of the CPU, but not less than that of any thread that
/// moves data, and at most [`FARTHEST`].
pub const fn most_of(ready: u32) -> u32 {
    let others = ready.saturating_sub(1).saturating_mul(ONE);
    if others < MOST {
        MOST
    } else if others > FARTHEST {
        FARTHEST
    } else {
        others
    }
}

/// The need that one channel shows, which has `held` of `size` bytes: at its reader. Its writer has the
/// opposite need. 0 for a channel without room.
pub const fn need(held: usize, size: usize) -> i32 {
    if size == 0 {
        return 0;
    }
    let held = if held > size { size } else { held };
    (held as u128 * 2 * NEED as u128 / size as u128) as i32 - NEED
}

#[cfg(test)]
#[path = "quantum_tests.rs"]
mod tests;
