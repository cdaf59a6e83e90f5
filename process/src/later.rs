//! Signals from interrupt handlers: noted without a lock, sent by a kernel thread (`signal/sender.rs`).
//!
//! *Interface*: [`send_later`] from anywhere; [`take`] and [`missed`] for the thread that sends.
//!
//! The thread sleeps on the list of descriptions with readiness signals ([`file::told`]). The ring is
//! bounded; a full ring drops the signal, and a person at a terminal repeats it. Progress: lock-free; each
//! slot is claimed with one compare-and-swap and published with one store.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use file::told;

/// The receiver of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process.
    Process(i32),
    /// A process group.
    Group(i32),
    /// Not a signal: a process whose timers have rung.
    Timers(i32),
}

const SLOTS: usize = 64;
const FULL: u64 = 1 << 63;
const GROUP: u64 = 1 << 62;
const TIMERS: u64 = 1 << 61;

static RING: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// There was no room for a process whose timers have rung.
static MISSED: AtomicBool = AtomicBool::new(false);
/// Sends `signo` soon. Returns whether there was room to note it. From any context.
pub fn send_later(target: Target, signo: i32) -> bool {
    let word =
        FULL | match target {
            Target::Process(pid) => pid as u32 as u64,
            Target::Group(pgrp) => GROUP | pgrp as u32 as u64,
            Target::Timers(pid) => TIMERS | pid as u32 as u64,
        } | (signo as u64 & 0x7f) << 32;
    let start = NEXT.fetch_add(1, Ordering::Relaxed);
    let noted = (0..SLOTS).any(|i| {
        RING[(start + i) % SLOTS]
            .compare_exchange(0, word, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    });
    if !noted && matches!(target, Target::Timers(_)) {
        MISSED.store(true, Ordering::SeqCst);
    }
    if let Some(ready) = told::list() {
        ready.wake_sleeper();
    }
    noted
}

/// Takes any noted signal.
pub(crate) fn take() -> Option<(Target, i32)> {
    let word = RING
        .iter()
        .map(|slot| slot.swap(0, Ordering::AcqRel))
        .find(|&word| word != 0)?;
    let number = word as u32 as i32;
    let target = if word & GROUP != 0 {
        Target::Group(number)
    } else if word & TIMERS != 0 {
        Target::Timers(number)
    } else {
        Target::Process(number)
    };
    Some((target, (word >> 32) as i32 & 0x7f))
}

/// Whether a process whose timers have rung was not noted.
pub(crate) fn missed() -> bool {
    MISSED.load(Ordering::Relaxed) && MISSED.swap(false, Ordering::AcqRel)
}

/// Whether there is something to take.
pub(crate) fn is_due() -> bool {
    RING.iter().any(|slot| slot.load(Ordering::SeqCst) != 0) || MISSED.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_taken_once() {
        assert!(send_later(Target::Group(7), 2));
        assert!(send_later(Target::Process(-1), 64));
        assert!(send_later(Target::Timers(3), 0));
        let mut taken = [take(), take(), take()];
        taken.sort_by_key(|t| t.map(|t| t.1));
        assert_eq!(
            taken,
            [
                Some((Target::Timers(3), 0)),
                Some((Target::Group(7), 2)),
                Some((Target::Process(-1), 64))
            ]
        );
        assert_eq!(take(), None);
    }
}
