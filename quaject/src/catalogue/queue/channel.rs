//! A queue of strings between threads or handlers, with a wait list at each end.
//!
//! *Interface*: [`Channel::new`]; [`Channel::write`] and [`Channel::read`] for who comes in Rust;
//! descriptors have generated routines ([`RawReadRecipe`](super::RawReadRecipe),
//! `cook_tty_out::TtyWriteRecipe`) which wake the same lists. Neither waits.
//!
//! Threads that wait for room are woken when half of the queue is free, so a large write does not wake for
//! each byte that is read.
//!
//! Source: dissertation, sections 1.3.1 (a tty's queues), 4.1.1.

use super::{ByteQueue, Parties, Spec};
use crate::kit::class::{Ref, create};
use crate::kit::routine_env::RoutineError;
use sync::WaitList;

/// One channel.
pub struct Channel {
    queue: Ref<ByteQueue>,
    pub(crate) arrived: WaitList,
    pub(crate) drained: WaitList,
    size: usize,
}

impl Channel {
    /// An empty one of `size` bytes, a power of two, for so many at its ends.
    ///
    /// # Errors
    /// [`RoutineError`].
    pub fn new(
        producers: Parties,
        consumers: Parties,
        size: usize,
        several_cpus: bool,
    ) -> Result<Channel, RoutineError> {
        Ok(Channel {
            queue: create::<ByteQueue>(Spec {
                producers,
                consumers,
                size,
                several_cpus,
                strings: true,
            })?,
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

    /// Puts what fits of `bytes`, or of at most 8 (an escape sequence, an expansion) all or none, and wakes
    /// readers; returns how many those are.
    pub fn write(&self, bytes: &[u8]) -> usize {
        let count = match bytes.len() {
            few if few <= 8 => few * usize::from(self.queue.write_whole(None, bytes)),
            _ => self.queue.write(bytes),
        };
        self.arrived.wake_all();
        count
    }

    /// Moves the available bytes into `into`; returns their number. Wakes writers when half is free.
    pub fn read(&self, into: &mut [u8]) -> usize {
        let count = self.queue.read(into);
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
