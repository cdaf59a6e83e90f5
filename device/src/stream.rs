//! A stream of bytes to and from outside, whatever device carries it: two queues, and who waits at them.
//!
//! *Interface*: a [`Stream`] has an [`End`] for those who read and one for those who write; descriptor routines take an end's monitor themselves, everybody else uses [`End::receive`] and [`End::send`], which never wait.

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

/// A stream.
pub trait Stream: Sync {
    /// Where bytes come in, if they do.
    fn input(&'static self) -> Option<End>;

    /// Where they go out.
    fn output(&'static self) -> Option<End>;

    /// Woken when bytes arrive, and when the end becomes known.
    fn arrived(&self) -> &WaitList;

    /// Woken when the output queue has room again: when it is half empty.
    fn drained(&self) -> &WaitList;

    /// The input ends after `total` bytes, counted from the first that ever arrived.
    fn set_end(&self, total: u64);

    /// Whether everything up to the announced end has been received.
    fn at_end(&self) -> bool;

    /// Whether the device is there no more, or makes no sense any more.
    fn is_gone(&self) -> bool {
        false
    }

    /// Waits until everything written is out.
    fn wait_drained(&'static self);
}
