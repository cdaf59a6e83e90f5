//! A list whose first `N` elements need no heap: what a draft keeps its notes in.
//!
//! *Interface*: [`Few::push`] says false when the heap is empty; everything else is a slice's.

use crate::refusal::refused;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};

/// Elements stand in `inline` until there are more than `N`, then all in `more`.
pub(crate) struct Few<T: Copy, const N: usize> {
    len: usize,
    inline: [MaybeUninit<T>; N],
    more: Vec<T>,
}

impl<T: Copy, const N: usize> Few<T, N> {
    pub const fn new() -> Self {
        Few {
            len: 0,
            inline: [const { MaybeUninit::uninit() }; N],
            more: Vec::new(),
        }
    }

    /// Append. False, and no change, when the heap is empty.
    #[inline]
    #[must_use]
    pub fn push(&mut self, value: T) -> bool {
        if self.len < N {
            self.inline[self.len].write(value);
            self.len += 1;
            return true;
        }
        self.push_more(value)
    }

    #[cold]
    fn push_more(&mut self, value: T) -> bool {
        let wanted = 1 + self.len - self.more.len();
        if refused() || self.more.try_reserve(wanted).is_err() {
            return false;
        }
        if self.more.is_empty() {
            // SAFETY: `N` elements are initialized, since more than `N` are wanted.
            self.more
                .extend(self.inline.iter().map(|e| unsafe { e.assume_init() }));
        }
        self.more.push(value);
        self.len += 1;
        true
    }

    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        if self.len > N && len <= N {
            for (to, from) in self.inline.iter_mut().zip(&self.more[..len]) {
                to.write(*from);
            }
            self.more.clear();
        } else {
            self.more.truncate(len);
        }
        self.len = len;
    }

    /// Take out element `at`; the last one takes its place.
    pub fn swap_remove(&mut self, at: usize) -> T {
        let last = self.len - 1;
        self.swap(at, last);
        let value = self[last];
        self.truncate(last);
        value
    }
}

impl<T: Copy, const N: usize> Deref for Few<T, N> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        if self.len <= N {
            // SAFETY: the first `len` are initialized.
            unsafe { core::slice::from_raw_parts(self.inline.as_ptr().cast(), self.len) }
        } else {
            &self.more
        }
    }
}

impl<T: Copy, const N: usize> DerefMut for Few<T, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if self.len <= N {
            // SAFETY: the first `len` are initialized.
            unsafe { core::slice::from_raw_parts_mut(self.inline.as_mut_ptr().cast(), self.len) }
        } else {
            &mut self.more
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn over_the_edge_and_back() {
        let mut few: Few<u32, 3> = Few::new();
        for round in 0..3 {
            for n in 0..10 {
                assert!(few.push(n));
                assert_eq!(few.len() as u32, n + 1);
            }
            assert_eq!(*few, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
            few.truncate(5);
            assert_eq!(*few, [0, 1, 2, 3, 4]);
            assert_eq!(few.swap_remove(1), 1);
            assert_eq!(*few, [0, 4, 2, 3]);
            assert_eq!(few.swap_remove(3), 3);
            assert_eq!(*few, [0, 4, 2]);
            few.truncate(round);
            few.truncate(7);
            assert_eq!(few.len(), round);
            few.truncate(0);
        }
    }
}
