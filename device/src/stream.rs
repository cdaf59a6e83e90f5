//! A stream of bytes to and from outside, over any device: two queues, and their waiters.
//!
//! *Interface*: a [`Stream`] has a queue for readers and one for writers, whose `read` and `write` never
//! wait; descriptor routines move bytes straight to or from their places.

use core::sync::atomic::{AtomicU64, Ordering};

use quaject::class::Ref;
use quaject::queue::ByteQueue;
use sync::WaitList;

/// Where [`Waiters`]' end stands while it is not known.
const NO_END: u64 = u64::MAX;

/// The waiters of a stream, and its ends.
pub struct Waiters {
    pub(crate) arrived: WaitList,
    pub(crate) drained: WaitList,
    end: AtomicU64,
}

impl Waiters {
    /// None, for a stream without an end.
    pub const fn new() -> Waiters {
        Waiters {
            arrived: WaitList::new(),
            drained: WaitList::new(),
            end: AtomicU64::new(NO_END),
        }
    }
}

impl Default for Waiters {
    fn default() -> Self {
        Self::new()
    }
}

/// A stream.
pub trait Stream: Sync {
    /// Its waiters.
    fn waiters(&self) -> &Waiters;

    /// The queue of what has arrived; none before the direction is open.
    fn arriving(&self) -> Option<&Ref<ByteQueue>>;

    /// The queue of what is to go out.
    fn leaving(&self) -> Option<&Ref<ByteQueue>>;

    /// Waits until everything written is out.
    fn wait_drained(&'static self);

    /// Whether the device is there no more, or makes no sense any more.
    fn is_gone(&self) -> bool {
        false
    }

    /// Woken when bytes arrive, and when the end becomes known.
    fn arrived(&self) -> &WaitList {
        &self.waiters().arrived
    }

    /// Woken when the output queue has room again: when it is half empty.
    fn drained(&self) -> &WaitList {
        &self.waiters().drained
    }

    /// Bytes that have arrived and wait.
    fn waiting(&self) -> usize {
        self.arriving().map_or(0, |queue| queue.len())
    }

    /// Bytes that the device has not been given yet.
    fn unsent(&self) -> usize {
        self.leaving().map_or(0, |queue| queue.len())
    }

    /// The input ends after `total` bytes, counted from the first that ever arrived.
    fn set_end(&self, total: u64) {
        self.waiters().end.store(total, Ordering::Release);
        self.waiters().arrived.wake_all();
    }

    /// Whether everything up to the announced end has been received.
    fn at_end(&self) -> bool {
        let received = self.arriving().map_or(0, |queue| queue.taken());
        received >= self.waiters().end.load(Ordering::Acquire)
    }
}
