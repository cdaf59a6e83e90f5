//! The delay element: the same stream, later.
//!
//! *Interface*: [`Delay`] is a [`Filter`]. Silence comes first, and all of the input comes
//! out.

use super::Filter;
use crate::frame::{Frame, SILENCE};
use std::collections::VecDeque;

/// A delay of a fixed number of frames.
pub struct Delay {
    held: VecDeque<Frame>,
}

impl Delay {
    /// A delay of `frames`.
    pub fn new(frames: usize) -> Self {
        Self {
            held: std::iter::repeat_n(SILENCE, frames).collect(),
        }
    }
}

impl Filter for Delay {
    fn next(&mut self, frame: Frame) -> Frame {
        self.held.push_back(frame);
        self.held.pop_front().unwrap_or(frame)
    }

    fn tail(&mut self) -> Option<Frame> {
        self.held.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_comes_so_much_later() {
        for frames in [0, 1, 7, 100] {
            let mut delay = Delay::new(frames);
            let input: Vec<Frame> = (1..60).map(|n| [n, -n]).collect();
            let mut output: Vec<Frame> = input.iter().map(|frame| delay.next(*frame)).collect();
            output.extend(std::iter::from_fn(|| delay.tail()));
            assert_eq!(output[..frames], vec![SILENCE; frames]);
            assert_eq!(output[frames..], input);
        }
    }
}
