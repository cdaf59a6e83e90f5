//! The inactive list of pipes: closed pipes wait, with queue and code, for the next `pipe`.
//!
//! *Interface*: [`Parking`], a part of each pipe; [`Parking::park`] and [`Parking::gone`] record the fate of
//! one of its two ends, [`take`] returns a waiting pair, [`clear`] frees them all.
//!
//! An end that is closed by its only holder parks in its pipe; when the other has parked too, the pair goes
//! to the list. An end that is freed in another way (a table with several threads, which frees after a grace
//! period) frees the parked end too. Which of two ends is the second one is decided by one addition.
//! Lock-free; parking may be done with interrupts off.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use quaject::inactive::{Inactive, InactiveSlot};

use super::Pipe;
use crate::fs::file::OpenFile;

/// Pairs that may wait. Each keeps a queue of the usual size, so that all take half a megabyte.
const PAIRS: usize = 8;

/// Pipes both of whose ends are parked in them.
static INACTIVE: Inactive<Arc<Pipe>, PAIRS> = Inactive::new(|pipe| pipe.parking.let_go());

/// The fate of an end, summed over both.
const PARKED: u32 = 1;
const GONE: u32 = 1 << 8;

/// The closed ends of one pipe.
#[derive(Default)]
pub(super) struct Parking {
    /// By [`Parking::READING`] and [`Parking::WRITING`].
    ends: [InactiveSlot<Arc<OpenFile>>; 2],
    fates: AtomicU32,
}

impl Parking {
    pub(super) const READING: usize = 0;
    pub(super) const WRITING: usize = 1;

    /// Whether it is of use to park an end: the other may still be parked too, and the list has room.
    pub(super) fn is_open(&self) -> bool {
        self.fates.load(Ordering::Relaxed) < GONE && INACTIVE.has_room()
    }

    /// The end `side` of `pipe`, whose parking this is, was closed by its only holder and may serve again.
    pub(super) fn park(&self, pipe: &Arc<Pipe>, side: usize, of: Arc<OpenFile>) {
        // An end is closed once, so its place is free.
        let parked = self.ends[side].put(of);
        debug_assert!(parked.is_ok());
        match self.fates.fetch_add(PARKED, Ordering::AcqRel) {
            0 => {}
            PARKED => {
                pipe.first.rest();
                INACTIVE.put(pipe.clone());
            }
            // The other went another way.
            _ => self.let_go(),
        }
    }

    /// An end is gone for good.
    pub(super) fn gone(&self) {
        if self.fates.fetch_add(GONE, Ordering::AcqRel) == PARKED {
            self.let_go();
        }
    }

    fn let_go(&self) {
        for end in &self.ends {
            drop(end.take());
        }
    }
}

/// A pair that waited: reading end, writing end, of a pipe for which `ready` was called. No other reference
/// exists.
#[inline]
pub(super) fn take(ready: impl FnOnce(&Pipe)) -> Option<(Arc<OpenFile>, Arc<OpenFile>)> {
    let pipe = INACTIVE.take()?;
    ready(&pipe);
    let [reading, writing] = &pipe.parking.ends;
    let ends = (reading.take()?, writing.take()?);
    pipe.parking.fates.store(0, Ordering::Relaxed);
    Some(ends)
}

/// Lets all that wait go.
pub(super) fn clear() {
    INACTIVE.clear();
}
