//! A slab: objects by number, each of which keeps its number while it exists.
//!
//! *Interface*: [`Slab::next`] and [`Slab::put`], [`Slab::get_mut`], [`Slab::remove`].
//!
//! An access takes the same time however many there are. Free numbers form a chain.

use abi::errno::Result;
use alloc::vec::Vec;

use vm::fallible::try_push;

/// The entries.
pub(super) struct Slab<T> {
    all: Vec<Slot<T>>,
    /// The first free one, as long as it is one of them.
    free: usize,
}

enum Slot<T> {
    Used(T),
    /// The next free one.
    Free(usize),
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Slab {
            all: Vec::new(),
            free: 0,
        }
    }

    /// The number that the next one gets. ENOMEM.
    pub(super) fn next(&mut self) -> Result<usize> {
        if self.free == self.all.len() {
            try_push(&mut self.all, Slot::Free(self.free + 1))?;
        }
        Ok(self.free)
    }

    /// Adds one at the number from `next`, unless that is taken.
    pub(super) fn put(&mut self, number: usize, value: T) {
        if let Some(slot) = self.all.get_mut(number)
            && let Slot::Free(next) = *slot
            && number == self.free
        {
            self.free = next;
            *slot = Slot::Used(value);
        }
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&T> {
        match self.all.get(number)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        match self.all.get_mut(number)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn remove(&mut self, number: usize) -> Option<T> {
        let slot = self.all.get_mut(number)?;
        if let Slot::Free(_) = slot {
            return None;
        }
        let was = core::mem::replace(slot, Slot::Free(self.free));
        self.free = number;
        match was {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(slots: &mut Slab<char>, value: char) -> usize {
        let number = slots.next().unwrap();
        slots.put(number, value);
        number
    }

    #[test]
    fn a_number_is_free_again_when_what_it_stood_for_is_gone() {
        let mut slots = Slab::new();
        let numbers = ['a', 'b', 'c'].map(|value| add(&mut slots, value));
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(
            (slots.remove(0), slots.remove(2), slots.remove(2)),
            (Some('a'), Some('c'), None)
        );
        assert_eq!(
            (slots.get(0), slots.get(1), slots.get(7)),
            (None, Some(&'b'), None)
        );
        assert_eq!(
            ['d', 'e', 'f'].map(|value| add(&mut slots, value)),
            [2, 0, 3]
        );
        slots.put(1, 'x');
        assert_eq!(slots.get_mut(1), Some(&mut 'b'));
    }
}
