//! Shares of the frames of pages in a row, as far as there are any.
//!
//! *Interface*: a [`FrameBatch`] owns them; whoever has the frames puts shares into its [`BatchSlots`]. A
//! share that is not taken out is given back with the row.
//!
//! Beside a [`FrameRef`] a place is a single word, and what all have in common is looked for once: a fault
//! brings many pages along, at a few instructions each.

use super::{Frame, FrameRef, Frames};

/// A share in each of `N` places, or none.
pub struct FrameBatch<const N: usize> {
    frames: &'static Frames,
    /// The frame's number plus one; 0: none.
    numbers: [u32; N],
}

/// Places of a row, to be filled or emptied.
pub struct BatchSlots<'a> {
    frames: &'static Frames,
    numbers: &'a mut [u32],
}

impl<const N: usize> FrameBatch<N> {
    /// A row of nothing, for frames of `frames`.
    pub fn new(frames: &'static Frames) -> Self {
        FrameBatch {
            frames,
            numbers: [0; N],
        }
    }

    /// The first `count` places, or all if that is more.
    #[inline]
    pub fn first(&mut self, count: usize) -> BatchSlots<'_> {
        BatchSlots {
            frames: self.frames,
            numbers: &mut self.numbers[..count.min(N)],
        }
    }

    /// Whether no place has a share.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.numbers.iter().fold(0, |any, number| any | number) == 0
    }

    /// Takes the share out of place `at`.
    #[inline]
    pub fn take(&mut self, at: usize) -> Option<Frame> {
        let number = core::mem::take(self.numbers.get_mut(at)?);
        number.checked_sub(1).map(Frame)
    }
}

impl<const N: usize> Drop for FrameBatch<N> {
    #[inline]
    fn drop(&mut self) {
        // As a rule all are taken.
        if self.is_empty() {
            return;
        }
        let left = self
            .numbers
            .iter()
            .filter_map(|number| number.checked_sub(1));
        self.frames.release_each(left.map(Frame));
    }
}

impl<'a> BatchSlots<'a> {
    /// How many places these are.
    #[inline]
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Those from place `at` on.
    #[inline]
    pub fn from(self, at: usize) -> BatchSlots<'a> {
        BatchSlots {
            frames: self.frames,
            numbers: self.numbers.get_mut(at..).unwrap_or_default(),
        }
    }

    /// Puts a new share of each of `frames`, which have another owner, into the places in turn, all empty.
    #[inline]
    pub fn share(&mut self, frames: impl Iterator<Item = Option<Frame>>) {
        let counts = self.frames.counts();
        for (place, frame) in self.numbers.iter_mut().zip(frames) {
            if let Some(frame) = frame {
                counts.share(frame);
                *place = frame.0.wrapping_add(1);
            }
        }
    }

    /// Puts the share `frame` into the empty place `at`.
    pub fn put(&mut self, at: usize, frame: FrameRef) {
        if let Some(place) = self.numbers.get_mut(at) {
            *place = frame.into_frame().0.wrapping_add(1);
        }
    }

    /// Offers the share in each place to the element of `takers` beside it, and answers how many `takes`
    /// took.
    #[inline(always)]
    pub fn offer<T>(
        &mut self,
        takers: impl Iterator<Item = T>,
        mut takes: impl FnMut(T, Frame) -> bool,
    ) -> usize {
        let mut taken = 0usize;
        for (place, taker) in self.numbers.iter_mut().zip(takers) {
            if let Some(number) = place.checked_sub(1)
                && takes(taker, Frame(number))
            {
                *place = 0;
                taken = taken.wrapping_add(1);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_goes_with_the_row() {
        let frames = super::super::global();
        let all = [(); 4].map(|()| super::super::alloc_user().unwrap());
        let others = || all.map(|frame| frames.others(frame));
        let mut row = FrameBatch::<8>::new(frames);
        row.first(3).share(all.iter().map(|frame| Some(*frame)));
        row.first(8).from(4).put(1, FrameRef::share(all[3]));
        assert_eq!(others(), [1; 4]);
        assert_eq!((row.take(1), row.take(1)), (Some(all[1]), None));
        let mut seen = Vec::new();
        let taken = row.first(8).offer(0.., |at, frame| {
            seen.push((at, frame));
            at == 2
        });
        assert_eq!((taken, row.take(2)), (1, None));
        assert_eq!(seen, [(0, all[0]), (2, all[2]), (5, all[3])]);
        drop(row);
        assert_eq!(others(), [0, 1, 1, 0]);
        frames.release_each([all[1], all[2]].into_iter().chain(all));
    }
}
