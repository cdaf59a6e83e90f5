//! Filters: a stream of frames becomes another.
//!
//! *Interface*: [`Filter`] for those that give a frame for a frame; [`oversample`] gives four.

pub mod delay;
pub mod echoes;
pub mod oversample;
pub mod pass;
pub mod reverb;

use crate::frame::Frame;

/// A filter that gives one frame for each.
pub trait Filter {
    /// The frame that comes out as `frame` goes in.
    fn next(&mut self, frame: Frame) -> Frame;

    /// After the end of the input: a further frame, or none when nothing sounds any more.
    fn tail(&mut self) -> Option<Frame> {
        None
    }
}
