//! The entries of a directory in the order in which `getdents64` lists them: by rising position.
//!
//! *Interface*: [`DirOrder::push`] adds at the end, [`DirOrder::take`] and [`DirOrder::replace`] change what
//! is at a place, [`DirOrder::from`] lists from a place on.
//!
//! An array with holes, which are closed when there are more of them than values. In a directory from which
//! little was removed a value stands about as far from the first as its place says, so it is looked for
//! there, and before.

use abi::errno::Result;
use alloc::vec::Vec;
use vm::fallible::{try_push, try_reserve};

/// Fewest holes that are closed.
const FEW: usize = 16;

/// Values by rising place.
pub struct DirOrder<T> {
    slots: Vec<(u64, Option<T>)>,
    holes: usize,
}

impl<T: Copy> DirOrder<T> {
    /// Nothing.
    pub const fn new() -> DirOrder<T> {
        DirOrder {
            slots: Vec::new(),
            holes: 0,
        }
    }

    /// Adds `value` at `place`, which is behind all others. ENOMEM.
    pub fn push(&mut self, place: u64, value: T) -> Result<()> {
        debug_assert!(self.slots.last().is_none_or(|last| last.0 < place));
        try_push(&mut self.slots, (place, Some(value)))
    }

    /// Where `place` is, or what comes behind it.
    #[inline]
    fn index(&self, place: u64) -> usize {
        let Some((first, _)) = self.slots.first() else {
            return 0;
        };
        let distance = usize::try_from(place.saturating_sub(*first)).unwrap_or(usize::MAX);
        match self.slots.get(distance) {
            Some((there, _)) if *there == place => distance,
            // Places rise by one at least, so it is not farther away than that.
            there => {
                let before = there.map_or(&self.slots[..], |_| &self.slots[..distance]);
                before.partition_point(|slot| slot.0 < place)
            }
        }
    }

    fn slot(&mut self, place: u64) -> Option<&mut Option<T>> {
        let index = self.index(place);
        let (there, value) = self.slots.get_mut(index)?;
        (*there == place).then_some(value)
    }

    /// Takes out what is at `place`.
    pub fn take(&mut self, place: u64) {
        if self.slot(place).and_then(Option::take).is_none() {
            return;
        }
        self.holes += 1;
        while let Some((_, None)) = self.slots.last() {
            self.slots.pop();
            self.holes -= 1;
        }
        let values = self.slots.len() - self.holes;
        if self.holes > values.max(FEW) {
            self.slots.retain(|slot| slot.1.is_some());
            self.holes = 0;
        }
        self.give_back();
    }

    /// Puts `value` in the place of what is at `place`.
    pub fn replace(&mut self, place: u64, value: T) {
        if let Some(there) = self.slot(place) {
            *there = Some(value);
        }
    }

    /// Of much more room than it needs it gives back what it can.
    fn give_back(&mut self) {
        let (used, room) = (self.slots.len(), self.slots.capacity());
        if room <= 4 * FEW || used > room / 4 {
            return;
        }
        let mut smaller = Vec::new();
        if try_reserve(&mut smaller, 2 * used).is_ok() {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            smaller.extend_from_slice(&self.slots);
            self.slots = smaller;
        }
    }

    /// The entries from `place` on.
    #[inline]
    pub fn from(&self, place: u64) -> impl Iterator<Item = T> {
        let rest = self.slots.get(self.index(place)..).unwrap_or_default();
        rest.iter().filter_map(|slot| slot.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Against a map: mostly growing, then mostly shrinking, then emptied.
    #[test]
    fn it_lists_as_a_map_does() {
        let (mut order, mut model) = (DirOrder::new(), BTreeMap::new());
        let mut state = 7_u64;
        let mut next = 2;
        for step in 0..12_000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let drawn = state >> 33;
            let nth = drawn as usize % model.len().max(1);
            let some = model.keys().nth(nth).copied();
            match (drawn >> 20 & 7, some) {
                (0..2, Some(place)) => {
                    order.replace(place, step);
                    model.insert(place, step);
                }
                // A place that nothing may be at.
                (2, _) => {
                    let place = drawn % next;
                    order.take(place);
                    model.remove(&place);
                }
                (3..6, Some(place)) if step > 6_000 => {
                    order.take(place);
                    model.remove(&place);
                }
                _ if step < 9_000 => {
                    next += 1 + (drawn & 1);
                    order.push(next, step).unwrap();
                    model.insert(next, step);
                }
                _ => {
                    if let Some((place, _)) = model.pop_last() {
                        order.take(place);
                    }
                }
            }
            let from = drawn % (next + 3);
            assert!(
                order
                    .from(from)
                    .eq(model.range(from..).map(|(_, value)| *value))
            );
            assert!(order.holes <= model.len().max(FEW));
        }
        assert!(order.slots.capacity() <= 8 * model.len().max(8 * FEW));
        while let Some((place, _)) = model.pop_first() {
            order.take(place);
        }
        assert_eq!((order.slots.len(), order.holes), (0, 0));
        assert!(order.slots.capacity() <= 4 * FEW);
    }
}
