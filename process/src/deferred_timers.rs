//! Expired timers whose signals an interrupt has left to a kernel thread (`signal/sender.rs`): a list of
//! their processes.
//!
//! *Interface*: [`defer_expiry`] from anywhere; [`take`] and [`missed`] for the thread that sends.
//!
//! The thread sleeps on the list of descriptions with readiness signals ([`file::fasync`]). There are few
//! places, since a process has one at a time as a rule: without a free one the thread looks at all processes.
//! Progress: lock-free; each place is claimed with one compare-and-swap and emptied with one exchange.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use file::fasync;

const PLACES: usize = 64;

/// Numbers of processes; 0 is a free place.
static RUNG: [AtomicI32; PLACES] = [const { AtomicI32::new(0) }; PLACES];
/// There was no place for a process.
static MISSED: AtomicBool = AtomicBool::new(false);

/// Has the thread make signals of the timers of process `pid` that have rung. From any context.
pub(crate) fn defer_expiry(pid: i32) {
    let noted = RUNG.iter().any(|place| {
        let free = place.compare_exchange(0, pid, Ordering::SeqCst, Ordering::Relaxed);
        free.is_ok()
    });
    if !noted {
        MISSED.store(true, Ordering::SeqCst);
    }
    if let Some(ready) = fasync::ready_list() {
        ready.wake_sleeper();
    }
}

/// Takes a process that has been noted.
pub(crate) fn take() -> Option<i32> {
    let mut taken = RUNG
        .iter()
        .map(|place| match place.load(Ordering::Relaxed) {
            0 => 0,
            _ => place.swap(0, Ordering::AcqRel),
        });
    taken.find(|&pid| pid != 0)
}

/// Whether a process was not noted.
pub(crate) fn missed() -> bool {
    MISSED.load(Ordering::Relaxed) && MISSED.swap(false, Ordering::AcqRel)
}

/// Whether there is something to take.
pub(crate) fn is_due() -> bool {
    RUNG.iter().any(|place| place.load(Ordering::SeqCst) != 0) || MISSED.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_taken_as_often_as_it_was_noted_and_one_without_a_place_is_missed() {
        let noted: Vec<i32> = (1..=PLACES as i32).collect();
        noted.iter().for_each(|&pid| defer_expiry(pid));
        assert!(is_due() && !missed());
        defer_expiry(7);
        assert!(missed() && !missed());
        let mut taken: Vec<i32> = core::iter::from_fn(take).collect();
        taken.sort();
        assert_eq!(taken, noted);
        assert!(!is_due());
    }
}
