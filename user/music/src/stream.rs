//! Streams of frames: blocks in, blocks out.
//!
//! *Interface*: [`Input::block`] gives what one read brings, at most a block, so that a stream that comes
//! slowly is passed on at once; [`Input::whole`] waits for a whole block. [`Output::block`] writes at once:
//! no frame waits in a buffer of this program. A frame that the end of the stream cuts is left out.

use crate::frame::{self, BYTES, Frame};
use std::io::{self, ErrorKind, Read, Write};

/// Frames from a file.
pub struct Input<R> {
    from: R,
    /// Room for a block.
    bytes: Vec<u8>,
    /// How much of that is a begun frame.
    begun: usize,
}

impl<R: Read> Input<R> {
    /// Blocks of at most `frames`, which is not 0, from a file.
    pub fn new(from: R, frames: usize) -> Self {
        Self {
            from,
            bytes: vec![0; frames.max(1) * BYTES],
            begun: 0,
        }
    }

    /// Replaces the contents of `block` by the next frames; at the end there are none.
    ///
    /// # Errors
    /// Those of the file.
    pub fn block(&mut self, block: &mut Vec<Frame>) -> io::Result<()> {
        block.clear();
        self.more(block)
    }

    /// The same, and waits for a whole block. Only at the end it is smaller.
    ///
    /// # Errors
    /// Those of the file.
    pub fn whole(&mut self, block: &mut Vec<Frame>) -> io::Result<()> {
        block.clear();
        let all = self.bytes.len();
        let mut filled = self.begun;
        while filled < all {
            match self.read(filled)? {
                0 => break,
                count => filled += count,
            }
        }
        self.take(filled, block);
        Ok(())
    }

    fn more(&mut self, block: &mut Vec<Frame>) -> io::Result<()> {
        while block.is_empty() {
            let count = self.read(self.begun)?;
            if count == 0 {
                break;
            }
            self.take(self.begun + count, block);
        }
        Ok(())
    }

    /// Decodes the frames of the first `filled` bytes and keeps the rest.
    fn take(&mut self, filled: usize, block: &mut Vec<Frame>) {
        let even = filled - filled % BYTES;
        frame::decode(&self.bytes[..even], block);
        self.bytes.copy_within(even..filled, 0);
        self.begun = filled - even;
    }

    fn read(&mut self, at: usize) -> io::Result<usize> {
        loop {
            match self.from.read(&mut self.bytes[at..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

/// Frames into a file.
pub struct Output<W> {
    to: W,
    bytes: Vec<u8>,
}

impl<W: Write> Output<W> {
    /// Into a file.
    pub const fn new(to: W) -> Self {
        Self {
            to,
            bytes: Vec::new(),
        }
    }

    /// The file.
    pub const fn file(&self) -> &W {
        &self.to
    }

    /// Writes all of `block`.
    ///
    /// # Errors
    /// Those of the file.
    pub fn block(&mut self, block: &[Frame]) -> io::Result<()> {
        self.bytes.clear();
        frame::encode(block, &mut self.bytes);
        self.to.write_all(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives so many bytes at a time, and is interrupted before each.
    struct Slow {
        bytes: Vec<u8>,
        at: usize,
        step: usize,
        interrupted: bool,
    }

    impl Read for Slow {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.interrupted = !self.interrupted;
            if self.interrupted {
                return Err(ErrorKind::Interrupted.into());
            }
            let count = self.step.min(to.len()).min(self.bytes.len() - self.at);
            to[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
            self.at += count;
            Ok(count)
        }
    }

    fn read(step: usize, whole: bool, cut: usize) -> (Vec<Frame>, Vec<usize>) {
        let frames: Vec<Frame> = (0..100).map(|n| [n, -n]).collect();
        let mut bytes = Vec::new();
        frame::encode(&frames, &mut bytes);
        bytes.truncate(400 - cut);
        let slow = Slow {
            bytes,
            at: 0,
            step,
            interrupted: false,
        };
        let mut input = Input::new(slow, 16);
        let (mut all, mut sizes, mut block) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            if whole {
                input.whole(&mut block).unwrap();
            } else {
                input.block(&mut block).unwrap();
            }
            if block.is_empty() {
                break;
            }
            sizes.push(block.len());
            all.extend_from_slice(&block);
        }
        assert_eq!(all, frames[..all.len()]);
        (all, sizes)
    }

    #[test]
    fn frames_come_through_whatever_a_read_brings() {
        for step in [1, 3, 4, 7, 63, 64, 1000] {
            for cut in 0..4 {
                let whole_frames = if cut == 0 { 100 } else { 99 };
                assert_eq!(read(step, false, cut).0.len(), whole_frames);
                let (all, sizes) = read(step, true, cut);
                assert_eq!(all.len(), whole_frames);
                assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == 16));
            }
        }
    }

    #[test]
    fn what_has_come_is_not_held_back() {
        assert_eq!(read(8, false, 0).1, [2; 50]);
        assert_eq!(read(6, false, 0).1[..4], [1, 2, 1, 2]);
    }

    #[test]
    fn blocks_are_written_at_once() {
        let mut bytes = Vec::new();
        let mut output = Output::new(&mut bytes);
        output.block(&[[1, 2]]).unwrap();
        output.block(&[[3, 4]]).unwrap();
        assert_eq!(bytes, [1, 0, 2, 0, 3, 0, 4, 0]);
    }
}
