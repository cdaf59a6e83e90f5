//! Replacing a pipe's ring: a pipe that gets another size.
//!
//! *Interface*: [`PipeCore::succeed`] makes a queue of another size, [`PipeCore::hand_over`] moves the bytes
//! there and retires the old one; [`PipeCore::is_retired`] says so.
//!
//! The size is a constant of the routines, and unknown tables may still have old routines. So the old queue
//! stays, empty, for these routines: its writers find the guard raised, its readers find nothing, and both
//! take the slow exit for ever. Threads always wait in the lists of the first queue.

use super::PipeCore;
use crate::kit::guard::Flag;
use crate::primitive::Ordering;
use alloc::boxed::Box;
use alloc::sync::Arc;

impl PipeCore {
    /// The queue whose lists are used.
    pub(super) fn home(&self) -> &PipeCore {
        self.home.as_deref().unwrap_or(self)
    }

    /// A queue of `size` bytes that may take the place of this one. None as for [`PipeCore::new`].
    pub fn succeed(self: &Arc<Self>, size: usize) -> Option<Box<PipeCore>> {
        let mut next = PipeCore::new(size)?;
        next.home = Some(self.home.as_ref().unwrap_or(self).clone());
        Some(next)
    }

    /// Whether another queue has replaced this one. The holder of an end then uses that queue.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// Moves all bytes to `to`, which no other party knows yet, calls `publish` to make it known, and retires
    /// this queue. False, and nothing changed, when they are too many. Sleeps while others have an end. No
    /// exclusive routine of this queue may run or come to run.
    pub fn hand_over(&self, to: &PipeCore, publish: impl FnOnce()) -> bool {
        let mut from = self.read_end();
        let rest = self.write_end();
        if from.available() > to.size {
            return false;
        }
        let mut into = to.write_end();
        for piece in from.pieces() {
            into.put(piece);
        }
        drop(into);
        to.set_patient(self.sleeper.is_patient());
        to.set_writers(!self.ended.load(Ordering::SeqCst));
        to.set_readers(!self.for_writer.is_raised(Flag::Closed));
        // A watching thread does not enrol again for this.
        to.for_writer.raise(Flag::Waited);
        to.tail.for_reader.raise(Flag::Waited);
        publish();
        self.retired.store(true, Ordering::SeqCst);
        self.set_readers(false);
        self.set_writers(false);
        self.set_patient(false);
        from.consume(from.available());
        drop(rest);
        drop(from);
        self.wake_readers();
        self.wake_writers();
        true
    }
}
