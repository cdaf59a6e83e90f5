//! Capture: the ring of frames of one that records.
//!
//! *Interface*: an [`Capture`] ("Recorder") is made over a [`Channel`], whose readers may have generated
//! routines; a callentry can be linked between the splitter and the ring ([`PUT_FRAMES`]).
//!
//! *Unsafe*: the word in a near block.

#[cfg(test)]
use super::FRAME;
use crate::kit::class::Header;
use crate::kit::near_memory::NearBlock;
use crate::kit::routine_env::{RoutineError, near};
use crate::kit::signature::Write;
use crate::queue::Channel;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// One that records.
pub struct Capture {
    header: &'static Header,
    channel: Arc<Channel>,
    /// Blocks that were lost.
    lost: NearBlock,
}

crate::quaject! {
    /// Records frames
    class Capture = "Recorder", spec Arc<Channel>, error RoutineError {
        callout { PUT_FRAMES: Write = "put_frames" ("into its ring") }
    }
    make Capture::new;
}

impl Capture {
    fn new(channel: Arc<Channel>, header: &'static Header) -> Result<Capture, RoutineError> {
        let lost = NearBlock::new(size_of::<AtomicU64>()).ok_or(RoutineError::OutOfMemory)?;
        Ok(Capture {
            header,
            channel,
            lost,
        })
    }

    /// Its ring.
    pub fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Sign-extended address of the word that counts lost blocks.
    pub(super) fn lost_at(&self) -> Result<i32, RoutineError> {
        Ok(near(self.lost.at().as_ptr())? as i32)
    }

    /// Blocks that were lost.
    pub fn lost(&self) -> u64 {
        // SAFETY: the block holds one zeroed word.
        unsafe { self.lost.at().cast::<AtomicU64>().as_ref() }.load(Ordering::Relaxed)
    }

    /// Whether its frames go by a link.
    pub(super) fn is_staged(&self) -> bool {
        self.header.is_linked(&[PUT_FRAMES.number()])
    }

    /// Reference implementation of its part of the routine: takes a block, or loses it.
    #[cfg(test)]
    pub(super) fn hear(&self, block: &[[i16; 2]]) -> bool {
        let queue = self.channel.queue();
        let fits = queue.room() >= block.len() * FRAME;
        if fits {
            for sample in block.iter().flatten() {
                queue.write(&sample.to_le_bytes());
            }
        }
        fits
    }
}
