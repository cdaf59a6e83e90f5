//! The ring that a thread is in.
//!
//! *Interface*: [`Membership`]. [`Membership::is_of`] tells the ring's own CPU, with interrupts off, for
//! certain whether the thread is in its ring; every other answer may be out of date at once.
//!
//! One word says both that the thread is in a ring and in which. Two words, "in a ring" and "its home is this
//! CPU", would not do: a thread that leaves another CPU's ring on its way to this one may be seen in a ring
//! first and here afterwards, though it is in no ring yet (`tests/membership_model.rs`).

use crate::primitive::{AtomicU8, Ordering, constructor};

/// A CPU's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring(u8);

impl Ring {
    /// The ring of CPU number `cpu`.
    pub const fn of_cpu(cpu: usize) -> Ring {
        Ring(cpu as u8 + 1)
    }
}

/// The ring that a thread is in, or none.
pub(crate) struct Membership(AtomicU8);

impl Membership {
    constructor! {
        /// In none.
        pub fn none() -> Membership {
            Membership(AtomicU8::new(0))
        }
    }

    /// Whether it is in a ring.
    #[inline(always)]
    pub(crate) fn is_some(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Which it is in.
    #[inline(always)]
    pub(crate) fn ring(&self) -> Option<Ring> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            ring => Some(Ring(ring)),
        }
    }

    /// Whether it is in `ring`.
    #[inline(always)]
    pub(crate) fn is_of(&self, ring: Ring) -> bool {
        self.0.load(Ordering::Acquire) == ring.0
    }

    /// The thread, whose home the ring's CPU is, goes into `ring`: its home is stored before this, for those
    /// who look at both from elsewhere. By the ring's CPU.
    #[inline(always)]
    pub(crate) fn enter(&self, ring: Ring) {
        self.0.store(ring.0, Ordering::Release);
    }

    /// It leaves its ring. By the ring's CPU.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
