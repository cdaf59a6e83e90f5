//! The granularity of a CPU's time, the quanta in a turn: how often over threads that only compute have their
//! quanta in one turn.
//!
//! *Interface*: [`times`], of the number of threads that share a CPU.
//!
//! A short turn serves somebody who waits: a stream whose data move, a thread that has just begun. Threads
//! that only compute are served by none; each turn's end costs them the caches, and without process-context
//! identifiers the whole translation buffer. So they have several quanta in a row, all of them equally many,
//! as long as a round takes no longer than [`ROUND`] quanta. From that number of threads on, the granularity
//! is one quantum, as it is wherever data move.

/// The most quanta of a round of turns that are longer than one quantum.
pub const ROUND: u32 = 32;
/// The most quanta of one turn.
pub const MOST: u32 = 4;
/// A number that every granularity divides.
pub const WHOLE: u32 = 12;

/// The quanta that each of `ready` threads that only compute has in one turn, 1 to [`MOST`].
pub fn times(ready: u32) -> u32 {
    (ROUND / ready.max(1)).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_bounded_and_the_grain_becomes_one_quantum() {
        for ready in 0..1000 {
            let times = times(ready);
            assert!((1..=MOST).contains(&times));
            assert_eq!(WHOLE % times, 0);
            assert!(times == 1 || times * ready <= ROUND, "{ready}");
        }
        assert_eq!([2, 8, 10, 16, 17, 32, 50].map(times), [4, 4, 3, 2, 1, 1, 1]);
    }
}
