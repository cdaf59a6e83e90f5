//! The pipe inside a named pipe.
//!
//! *Interface.* A fifo node has a [`FifoSlot`]; the first open fills it with a pipe, and every open opens an
//! end of that (waiting for the other end as fifo(7) says). The pipe and its contents are freed with the last
//! end.

use abi::errno::{Errno, Result};
use abi::linux::{O_ACCMODE, O_NONBLOCK, O_RDONLY, O_WRONLY};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;
use sync::Monitor;

use super::Pipe;
use crate::fs::OpenRequest;
use crate::fs::file::OpenFile;

/// A fifo node's reference to its pipe.
pub struct FifoSlot(Monitor<Option<Weak<Pipe>>>);

impl FifoSlot {
    /// A fifo that was never opened.
    pub fn new() -> FifoSlot {
        FifoSlot(Monitor::new(None))
    }

    /// Opens an end.
    pub fn open(&self, how: OpenRequest) -> Result<Arc<OpenFile>> {
        // Bound: copying or making one pipe.
        let mut slot = self.0.lock();
        let fifo = match slot.as_ref().and_then(Weak::upgrade) {
            Some(fifo) => fifo,
            None => {
                let fifo = Pipe::new(true, false)?;
                *slot = Some(Arc::downgrade(&fifo));
                fifo
            }
        };
        drop(slot);
        fifo.open(how)
    }
}

impl Default for FifoSlot {
    fn default() -> Self {
        Self::new()
    }
}

impl Pipe {
    /// Opens the end or ends that `how.flags` ask for: waits for the other end, or `ENXIO` for a non-blocking
    /// writer without readers.
    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        let nonblocking = how.flags & O_NONBLOCK != 0;
        let access = how.flags & O_ACCMODE;
        if access == O_ACCMODE {
            return Err(Errno::EINVAL);
        }
        if access == O_WRONLY && nonblocking && self.no_reader() {
            return Err(Errno::ENXIO);
        }
        // Read before this end becomes visible: an opener of the other end is either counted later or met
        // now, even when it has closed again before this thread checks.
        let other = usize::from(access == O_RDONLY);
        let before = self.opened[other].load(Ordering::SeqCst);
        let met = match access {
            O_RDONLY => !self.no_writer(),
            O_WRONLY => !self.no_reader(),
            _ => true,
        };
        let end = self.end(how.flags);
        if nonblocking {
            self.now().set_patient(false);
        }
        if !nonblocking && !met {
            let came = || self.opened[other].load(Ordering::SeqCst) != before;
            let waited = self.openers.wait_interruptible(|| came().then_some(()));
            if waited.is_err() {
                end.leave();
                return Err(Errno::ERESTARTSYS);
            }
        }
        Ok(how.finish(Arc::new(end)))
    }
}
