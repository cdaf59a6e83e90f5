//! A queue of strings between threads, with a turn and a wait list at each end.
//!
//! *Interface*: [`Channel::new`]; [`Channel::writing`] and [`Channel::read`] for who comes in Rust;
//! descriptors have generated routines ([`Receives`](super::Receives), `cook_tty_out::Writes`) which take the
//! same turns and wake the same lists. Neither waits.
//!
//! Threads that wait for room are woken when half of the queue is free, so a large write does not wake for
//! each byte that is read.
//!
//! Source: dissertation, sections 1.3.1 (a tty's queues), 4.1.1.

use super::{ByteQueue, Parties, Spec};
use crate::kit::class::{Ref, create};
use crate::kit::seam::Unmade;
use sync::WaitList;
use sync::monitor::RawMonitor;

/// One channel.
pub struct Channel {
    queue: Ref<ByteQueue>,
    pub(crate) writing: RawMonitor,
    pub(crate) reading: RawMonitor,
    pub(crate) arrived: WaitList,
    pub(crate) drained: WaitList,
    size: usize,
}

impl Channel {
    /// An empty one of `size` bytes, a power of two.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn new(size: usize, several_cpus: bool) -> Result<Channel, Unmade> {
        let spec = Spec {
            producers: Parties::One,
            consumers: Parties::One,
            size,
            several_cpus,
            strings: true,
        };
        Ok(Channel {
            queue: create::<ByteQueue>(spec)?,
            writing: RawMonitor::new(),
            reading: RawMonitor::new(),
            arrived: WaitList::new(),
            drained: WaitList::new(),
            size,
        })
    }

    /// The queue, to look at.
    pub fn queue(&self) -> &Ref<ByteQueue> {
        &self.queue
    }

    /// Woken when bytes have come.
    pub fn arrived(&self) -> &WaitList {
        &self.arrived
    }

    /// Woken when half of the queue is free.
    pub fn drained(&self) -> &WaitList {
        &self.drained
    }

    /// Calls `f` while no other writer is there. `f` gets the newest bytes that went in, the newest first,
    /// and a function that puts as many of some bytes as fit, or of at most 8 (an escape sequence, an
    /// expansion) all or none, and returns how many. Then wakes readers.
    pub fn writing<R>(
        &self,
        f: impl FnOnce(&mut dyn Iterator<Item = u8>, &mut dyn FnMut(&[u8]) -> usize) -> R,
    ) -> R {
        let queue = &self.queue;
        self.writing.lock();
        let result = f(&mut queue.recent(), &mut |bytes| {
            if bytes.len() <= 8 && queue.room() < bytes.len() {
                return 0;
            }
            queue.write(bytes)
        });
        self.writing.unlock();
        self.arrived.wake_all();
        result
    }

    /// Moves the available bytes into `into`; returns their number. Wakes writers when half is free.
    pub fn read(&self, into: &mut [u8]) -> usize {
        self.reading.lock();
        let count = self.queue.read(into);
        self.reading.unlock();
        if self.queue.len() <= self.size / 2 {
            self.drained.wake_all();
        }
        count
    }

    /// Discards the unread bytes.
    pub fn discard(&self) {
        let mut piece = [0; 256];
        while self.read(&mut piece) > 0 {}
    }
}
