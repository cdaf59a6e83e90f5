//! A stream of bytes to and from outside, over any device: two queues, and their waiters.
//!
//! *Interface*: a [`Stream`] has an [`End`] for readers and one for writers; descriptor routines take an
//! end's monitor themselves, all other code uses [`End::receive`] and [`End::send`], which never wait.

use core::sync::atomic::{AtomicU64, Ordering};

use quaject::class::Ref;
use quaject::queue::ByteQueue;
use sync::WaitList;
use sync::monitor::RawMonitor;

/// One end of a stream as descriptor routines see it.
#[derive(Clone, Copy)]
pub struct End {
    /// The queue.
    pub queue: &'static Ref<ByteQueue>,
    /// Serializes the threads at the queue's end.
    pub turn: &'static RawMonitor,
}

impl End {
    /// Moves bytes that have arrived into `buffer`.
    pub fn receive(self, buffer: &mut [u8]) -> usize {
        self.turn.lock();
        let count = self.queue.read(buffer);
        self.turn.unlock();
        count
    }

    /// Puts as many of `bytes` into the queue as fit.
    pub fn send(self, bytes: &[u8]) -> usize {
        self.turn.lock();
        let count = self.queue.write(bytes);
        self.turn.unlock();
        count
    }
}

/// Where [`Waiters`]' end stands while it is not known.
const NO_END: u64 = u64::MAX;

/// The waiters of a stream, and its ends.
pub struct Waiters {
    pub(crate) arrived: WaitList,
    pub(crate) drained: WaitList,
    reading: RawMonitor,
    pub(crate) writing: RawMonitor,
    end: AtomicU64,
}

impl Waiters {
    /// None, for a stream without an end.
    pub const fn new() -> Waiters {
        Waiters {
            arrived: WaitList::new(),
            drained: WaitList::new(),
            reading: RawMonitor::new(),
            writing: RawMonitor::new(),
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

    /// Where bytes come in, if they do.
    fn input(&'static self) -> Option<End> {
        Some(End {
            queue: self.arriving()?,
            turn: &self.waiters().reading,
        })
    }

    /// Where they go out.
    fn output(&'static self) -> Option<End> {
        Some(End {
            queue: self.leaving()?,
            turn: &self.waiters().writing,
        })
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
