//! Asking another CPU once for what may be asked many times before it gets to it.
//!
//! *Interface*: [`Asked::ask`] by who has something for the CPU, after that can be seen; [`Asked::hear`] in the CPU's interrupt, before it looks.
//!
//! An interrupt costs its sender more than anything else here does, and one that is on its way stands for all that are asked for until it is handled. A CPU of a virtual machine may be away
//! for many milliseconds, and would be asked hundreds of times.
//!
//! The CPU counts its interrupts. Who sends one notes after that what the count was before; while the count is still the same, that interrupt has not been handled. A note says that one *has* been
//! sent, so nobody relies on an interrupt that somebody else has yet to send, and may never get to; one that is late says less than is so, and costs an interrupt.
//!
//! Progress: wait-free. Memory order: who has something stores it before a fence and looks at the count after it, the interrupt counts before a fence and looks after it: either the first
//! finds that it is counted, or the second finds what is there.

use crate::primitive::{AtomicU64, Ordering, constructor, fence};

/// What is on its way to one CPU.
#[repr(align(64))]
pub(crate) struct Asked {
    /// Interrupts that the CPU has begun to handle.
    heard: AtomicU64,
    /// That count at some moment before the last one was sent of which somebody has said so.
    sent: AtomicU64,
}

impl Asked {
    constructor! {
        /// Nothing.
        pub fn new() -> Asked {
            Asked {
                heard: AtomicU64::new(0),
                sent: AtomicU64::new(u64::MAX),
            }
        }
    }

    /// Interrupts the CPU by `interrupt`, unless that has been done and not been heard.
    pub(crate) fn ask(&self, interrupt: impl FnOnce()) {
        fence(Ordering::SeqCst);
        let heard = self.heard.load(Ordering::Relaxed);
        if self.sent.load(Ordering::Relaxed) != heard {
            interrupt();
            self.sent.store(heard, Ordering::Release);
        }
    }

    /// The interrupt has come. What was stored before any asking until now is seen from here on.
    pub(crate) fn hear(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}
