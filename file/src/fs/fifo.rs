//! The pipe inside a named pipe.
//!
//! *Interface.* A fifo node has a [`FifoSlot`]; the first open fills it with a [`Fifo`] from the pipe module,
//! and every open asks that to open an end (waiting for the other end as fifo(7) says). The pipe and its
//! contents are freed with the last end.

use abi::errno::Result;
use alloc::sync::{Arc, Weak};
use sync::Monitor;

use super::inode::How;
use crate::file::OpenFile;

/// A pipe that can be opened by name.
pub trait Fifo: Send + Sync {
    /// Opens the end or ends that `how.flags` ask for: waits for the other end, or `ENXIO` for a non-blocking
    /// writer without readers.
    fn open(self: Arc<Self>, how: How) -> Result<Arc<OpenFile>>;
}

/// A fifo node's reference to its pipe.
pub struct FifoSlot(Monitor<Option<Weak<dyn Fifo>>>);

impl FifoSlot {
    /// A fifo that was never opened.
    pub fn new() -> FifoSlot {
        FifoSlot(Monitor::new(None))
    }

    /// Opens an end.
    pub fn open(&self, how: How) -> Result<Arc<OpenFile>> {
        // Bound: copying or making one pipe.
        let mut slot = self.0.lock();
        let fifo = match slot.as_ref().and_then(Weak::upgrade) {
            Some(fifo) => fifo,
            None => {
                let fifo = crate::pipe::fifo()?;
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
