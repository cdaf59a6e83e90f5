//! Pending IPIs: at most one interrupt on its way to a CPU, however many requests the CPU is to look at.
//!
//! *Interface*: [`IpiPending::request`] by a sender, after its request can be seen;
//! [`IpiPending::acknowledge`] in the interrupt handler of the CPU, before the CPU looks for requests.
//!
//! An interrupt costs its sender more than anything else here, and one interrupt serves all requests made
//! before it is handled. A CPU of a virtual machine may be away for many milliseconds; without this file it
//! would be sent hundreds of interrupts meanwhile.
//!
//! The CPU counts the interrupts that it has handled. A sender notes the count from before its interrupt;
//! while the count is still the same, that interrupt has not been handled. The note is made after the
//! interrupt was sent, so no sender relies on an interrupt that another sender may never get to send. A late
//! note costs one more interrupt and does no other harm.
//!
//! Progress: wait-free.
//! Memory order: a sender stores its request before a fence and reads the count after the fence; the handler
//! counts before a fence and looks for requests after the fence. So either the sender sees the new count, or
//! the handler sees the request.

use crate::primitive::{AtomicU64, Ordering, constructor, fence};

/// The interrupts on their way to one CPU.
#[repr(align(64))]
pub(crate) struct IpiPending {
    /// How many interrupts the CPU has begun to handle.
    heard: AtomicU64,
    /// The value of `heard` from before the last noted interrupt was sent.
    sent: AtomicU64,
}

impl IpiPending {
    constructor! {
        /// No interrupt is on its way.
        pub fn new() -> IpiPending {
            IpiPending {
                heard: AtomicU64::new(0),
                sent: AtomicU64::new(u64::MAX),
            }
        }
    }

    /// Calls `interrupt`, which interrupts the CPU, unless an interrupt is on its way.
    pub(crate) fn request(&self, interrupt: impl FnOnce()) {
        fence(Ordering::SeqCst);
        let heard = self.heard.load(Ordering::Relaxed);
        if self.sent.load(Ordering::Relaxed) != heard {
            interrupt();
            self.sent.store(heard, Ordering::Release);
        }
    }

    /// The interrupt has come. From here on the CPU sees all requests whose senders have asked.
    pub(crate) fn acknowledge(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}
