//! An owner of one share of a frame.
//!
//! *Interface*: [`FrameRef`]: `clone` shares, `drop` releases.

use super::{Frame, Frames};

/// One share of a frame, given back when dropped.
pub struct FrameRef {
    frame: Frame,
    frames: &'static Frames,
}

impl FrameRef {
    /// Takes over a share that the caller owns, of a frame of the machine's memory.
    pub fn own(frame: Frame) -> Self {
        FrameRef {
            frame,
            frames: super::global(),
        }
    }

    /// Takes over a share that the caller owns, of a frame of `frames`.
    pub fn own_in(frames: &'static Frames, frame: Frame) -> Self {
        FrameRef { frame, frames }
    }

    /// A new share of `frame`, which has another owner.
    pub fn share(frame: Frame) -> Self {
        super::share(frame);
        Self::own(frame)
    }

    /// The frame.
    pub fn frame(&self) -> Frame {
        self.frame
    }

    /// Gives the share to the caller.
    pub fn into_frame(self) -> Frame {
        let frame = self.frame;
        core::mem::forget(self);
        frame
    }
}

impl Clone for FrameRef {
    fn clone(&self) -> Self {
        self.frames.share(self.frame);
        FrameRef {
            frame: self.frame,
            frames: self.frames,
        }
    }
}

impl Drop for FrameRef {
    fn drop(&mut self) {
        self.frames.release(self.frame);
    }
}
