//! The inactive list of pipes: closed pipes wait, with queue and code, for the next `pipe`.
//!
//! *Interface*: [`Parking`], a part of each pipe; [`Parking::park`] and [`Parking::gone`] record the fate of
//! one of its two ends, [`take`] returns a waiting pair, [`clear`] frees them all.
//!
//! An end that is closed by its only holder parks in its pipe; when the other has parked too, the pair goes
//! to the list. An end that is freed in another way (a table with several threads, which frees after a grace
//! period) frees the parked end too. Which of two ends is the second one is decided by one addition.
//! Lock-free; parking may be done with interrupts off.
//!
//! Source: dissertation, 4.1.2: quajects that were destroyed wait in an inactive list, so that creating one
//! is cheap.
//!
//! *Unsafe*: counted pointers in atomic slots.

use alloc::sync::Arc;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use sync::ValueStack;

use super::Pipe;
use crate::fs::file::OpenFile;

/// Pairs that may wait. Each keeps a queue of the usual size, so that all take half a megabyte.
const PAIRS: usize = 8;

/// Addresses of pipes both of whose ends are parked in them, which keeps them.
static INACTIVE: ValueStack<usize, PAIRS> = ValueStack::new();

/// The fate of an end, summed over both.
const PARKED: u32 = 1;
const GONE: u32 = 1 << 8;

/// The closed ends of one pipe.
#[derive(Default)]
pub(super) struct Parking {
    /// By [`Parking::READING`] and [`Parking::WRITING`].
    ends: [AtomicPtr<OpenFile>; 2],
    fates: AtomicU32,
}

impl Parking {
    pub(super) const READING: usize = 0;
    pub(super) const WRITING: usize = 1;

    /// Whether it is of use to park an end: the other may still be parked too, and the list has room.
    pub(super) fn is_open(&self) -> bool {
        self.fates.load(Ordering::Relaxed) < GONE && INACTIVE.len() < PAIRS
    }

    /// The end `side` of `pipe`, whose parking this is, was closed by its only holder and may serve again.
    pub(super) fn park(&self, pipe: &Arc<Pipe>, side: usize, of: Arc<OpenFile>) {
        self.ends[side].store(Arc::into_raw(of).cast_mut(), Ordering::Release);
        match self.fates.fetch_add(PARKED, Ordering::AcqRel) {
            0 => {}
            PARKED => {
                if INACTIVE.push(Arc::as_ptr(pipe).addr()).is_err() {
                    self.let_go();
                }
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
        for side in [Self::READING, Self::WRITING] {
            drop(self.end(side));
        }
    }

    /// Takes the end that is parked as `side`.
    fn end(&self, side: usize) -> Option<Arc<OpenFile>> {
        let raw = self.ends[side].swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: a pointer in a slot came from `Arc::into_raw`, and the exchange made its one count ours.
        (!raw.is_null()).then(|| unsafe { Arc::from_raw(raw) })
    }
}

/// A pair that waited: reading end, writing end, of a pipe for which `ready` was called. No other reference
/// exists.
#[inline]
pub(super) fn take(ready: impl FnOnce(&Pipe)) -> Option<(Arc<OpenFile>, Arc<OpenFile>)> {
    let pipe = INACTIVE.pop()? as *const Pipe;
    // SAFETY: pushed by `park`; the two ends that are parked in it keep it, and only the party that popped it
    // takes them.
    let pipe = unsafe { &*pipe };
    ready(pipe);
    let parking = &pipe.parking;
    let reading = parking.end(Parking::READING)?;
    let writing = parking.end(Parking::WRITING)?;
    parking.fates.store(0, Ordering::Relaxed);
    Some((reading, writing))
}

/// Lets all that wait go.
pub(super) fn clear() {
    while take(|_| ()).is_some() {}
}
