//! Another ring in the place of a pipe's: a pipe that gets another size.
//!
//! *Interface*: [`PipeCore::succeed`] makes a queue of another size, [`PipeCore::hand_over`] moves the bytes
//! there and retires the old one; [`PipeCore::is_retired`] says so.
//!
//! The size is a constant of the routines, and there may be tables with old ones that nobody knows. So the
//! old queue stays, empty, as what they were made for: its writers find the guard raised, its readers
//! nothing, and both take the slow exit for ever. Who waits does so in the lists of the first queue, whatever
//! has come in its place.

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

    /// Whether another queue is in the place of this one. Who has an end and finds it so goes there.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// Moves all bytes to `to`, which nobody else knows yet, has `publish` make it known, and retires this
    /// queue. False, and nothing changed, when they are too many. Sleeps while others have an end. No
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
        to.set_patient(!self.impatient.load(Ordering::SeqCst));
        to.set_writers(!self.ended.load(Ordering::SeqCst));
        to.set_readers(!self.for_writer.is_raised(Flag::Closed));
        // Who watches does not enrol again for this.
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
