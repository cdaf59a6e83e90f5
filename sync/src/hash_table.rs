//! A hash table that is read without a lock while one party at a time changes it.
//!
//! *Interface*: [`HashTable::find`] for readers; [`HashTable::add`], [`HashTable::replace`] and
//! [`HashTable::take`] for the only writer, which holds a monitor or a similar lock. Removed entries are
//! [`Removed`], which is freed a grace period after it is dropped ([`crate::epoch`]).
//!
//! Cells of one word, probed linearly from the position of the hash. An entry never moves within an array of
//! cells; a larger array is filled before it is published by one store. A reader of the old array sees its
//! contents at the time when it was replaced.
//!
//! Progress: reading is wait-free (bounded by the array), a change is the writer's own straight-line code.
//! Source: open addressing with marks for removed entries (Knuth, volume 3, section 6.4); publication by one
//! word (Massalin and Pu 1991, section 3.2).

use crate::epoch;
use crate::primitive::atomic::{AtomicPtr, Ordering};
use crate::primitive::constructor;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr;

/// The entries of a table.
pub trait Hashed {
    /// The hash by which it is found; never another.
    fn hash(&self) -> u64;
}

/// One place of a table.
pub struct Cell<T>(AtomicPtr<T>);

impl<T> Cell<T> {
    fn empty() -> Cell<T> {
        Cell(AtomicPtr::new(ptr::null_mut()))
    }
}

/// The place of a removed entry: a search continues behind it.
fn gone<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

fn is_entry<T>(at: *mut T) -> bool {
    at.addr() > 1
}

/// Fewest cells of a table with entries.
const FEWEST: usize = 4;
/// Cells at which a search looks before it calls for the others: most entries are in one of them.
const NEAR: usize = 2;
const _: () = assert!(NEAR <= FEWEST);

/// An array of cells; their number is a power of two.
pub struct Cells<T> {
    cells: Vec<Cell<T>>,
    /// In [`Contents`], the next array.
    behind: Option<Box<Cells<T>>>,
}

/// The table.
pub struct HashTable<T> {
    cells: AtomicPtr<Cells<T>>,
}

// SAFETY: entries are shared with readers, and dropped by the grace period's callback.
unsafe impl<T: Send + Sync> Send for HashTable<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for HashTable<T> {}

/// The writer's additional data.
#[derive(Default)]
pub struct Filling {
    entries: usize,
    /// Cells that are not empty: entries, and where some were.
    used: usize,
}

impl Filling {
    /// For an empty table.
    pub const fn new() -> Filling {
        Filling {
            entries: 0,
            used: 0,
        }
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.entries
    }
}

/// Objects removed from the table; readers may still use them. Drop it in thread context, with no monitor
/// held.
#[must_use = "it is to be dropped when no monitor is held"]
pub struct Removed<T: Hashed> {
    entry: *mut T,
    cells: *mut Cells<T>,
}

// SAFETY: it owns the removed objects, whose readers have the same rights as the table's.
unsafe impl<T: Hashed + Send + Sync> Send for Removed<T> {}

impl<T: Hashed> Removed<T> {
    /// Nothing yet.
    pub const fn nothing() -> Removed<T> {
        Removed {
            entry: ptr::null_mut(),
            cells: ptr::null_mut(),
        }
    }

    fn entry(entry: *mut T) -> Removed<T> {
        Removed {
            entry,
            cells: ptr::null_mut(),
        }
    }

    /// The entry.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: it is freed after this is dropped.
        unsafe { self.entry.as_ref() }
    }
}

impl<T: Hashed> Drop for Removed<T> {
    fn drop(&mut self) {
        fn free<T>(at: usize) {
            // SAFETY: both came from a box, were taken out of the table by its writer, and are retired once.
            drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<T>(at)) });
        }
        if !self.entry.is_null() {
            epoch::retire(free::<T>, self.entry.expose_provenance());
        }
        if !self.cells.is_null() {
            epoch::retire(free::<Cells<T>>, self.cells.expose_provenance());
        }
    }
}

impl<T: Hashed> HashTable<T> {
    constructor! {
        /// An empty table, which has no memory.
        pub fn new() -> Self {
            HashTable { cells: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// The entry with `hash` for which `is` is true.
    ///
    /// # Safety
    /// The reference is used only while interrupts are off, or while no party changes the table.
    #[inline(always)]
    pub unsafe fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&T> {
        // SAFETY: an array is freed a grace period after it was replaced.
        let cells = unsafe { self.cells.load(Ordering::Acquire).as_ref() }?;
        let cells = &cells.cells[..];
        for more in 0..NEAR {
            let entry = cell(cells, (hash as usize).wrapping_add(more)).load(Ordering::Acquire);
            if is_entry(entry) {
                // SAFETY: an entry is freed a grace period after it was taken out.
                let entry = unsafe { &*entry };
                if entry.hash() == hash && is(entry) {
                    return Some(entry);
                }
            } else if entry.is_null() {
                return None;
            }
        }
        // SAFETY: as the caller promises.
        unsafe { Self::find_behind(cells, hash, is) }
    }

    /// As [`HashTable::find`], but for the first [`NEAR`] cells.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn find_behind(cells: &[Cell<T>], hash: u64, is: impl Fn(&T) -> bool) -> Option<&T> {
        for more in NEAR..cells.len() {
            let entry = cell(cells, (hash as usize).wrapping_add(more)).load(Ordering::Acquire);
            if entry.is_null() {
                return None;
            }
            if is_entry(entry) {
                // SAFETY: as in `find`.
                let entry = unsafe { &*entry };
                if entry.hash() == hash && is(entry) {
                    return Some(entry);
                }
            }
        }
        None
    }

    /// Adds `entry`; the table must have no equal entry. `room` makes room for the given number of cells; its
    /// error is returned if it cannot. The caller drops the removed objects.
    ///
    /// # Safety
    /// One party at a time changes the table, and always with the same `filling`.
    pub unsafe fn add<E>(
        &self,
        filling: &mut Filling,
        entry: Box<T>,
        room: impl FnOnce(&mut Vec<Cell<T>>, usize) -> Result<(), E>,
        box_of: impl FnOnce(Cells<T>) -> Result<Box<Cells<T>>, E>,
    ) -> Result<Removed<T>, E> {
        let mut left = Removed::nothing();
        // SAFETY: only this party replaces the array.
        let mut cells = unsafe { self.cells.load(Ordering::Relaxed).as_ref() };
        let have = cells.map_or(0, |cells| cells.cells.len());
        if (filling.used + 1) * 4 > have * 3 {
            let count = ((filling.entries + 1) * 2).next_power_of_two().max(FEWEST);
            let mut larger = Vec::new();
            room(&mut larger, count)?;
            larger.extend((0..count).map(|_| Cell::empty()));
            let larger = box_of(Cells {
                cells: larger,
                behind: None,
            })?;
            for cell in cells.into_iter().flat_map(|cells| &cells.cells) {
                let old = cell.0.load(Ordering::Relaxed);
                if is_entry(old) {
                    // SAFETY: an entry of the table, which only this party takes out.
                    let hash = unsafe { &*old }.hash();
                    put(&larger.cells, hash, old);
                }
            }
            filling.used = filling.entries;
            left.cells = self.cells.swap(Box::into_raw(larger), Ordering::AcqRel);
            // SAFETY: as above.
            cells = unsafe { self.cells.load(Ordering::Relaxed).as_ref() };
        }
        if let Some(cells) = cells {
            let hash = entry.hash();
            filling.entries += 1;
            filling.used += usize::from(put(&cells.cells, hash, Box::into_raw(entry)));
        }
        Ok(left)
    }

    /// The cells, and the index of the entry with `hash` for which `is` is true.
    ///
    /// # Safety
    /// No other party changes the table meanwhile.
    unsafe fn place(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<(&[Cell<T>], usize)> {
        // SAFETY: as the caller promises.
        let cells = unsafe { self.cells.load(Ordering::Relaxed).as_ref() }?;
        let cells = &cells.cells[..];
        let mask = cells.len().wrapping_sub(1);
        let mut index = hash as usize & mask;
        for _ in 0..cells.len() {
            let entry = cells.get(index)?.0.load(Ordering::Relaxed);
            if entry.is_null() {
                return None;
            }
            // SAFETY: as the caller promises.
            if is_entry(entry) && unsafe { (*entry).hash() == hash && is(&*entry) } {
                return Some((cells, index));
            }
            index = (index + 1) & mask;
        }
        None
    }

    /// Replaces the entry with the same hash for which `is` is true by `entry`, in one step for readers.
    /// Returns the removed entry; nothing if there was none, and then `entry` is dropped.
    ///
    /// # Safety
    /// As [`HashTable::add`].
    pub unsafe fn replace(&self, entry: Box<T>, is: impl Fn(&T) -> bool) -> Removed<T> {
        // SAFETY: as the caller promises.
        let Some((cells, index)) = (unsafe { self.place(entry.hash(), is) }) else {
            return Removed::nothing();
        };
        let cell = &cells[index].0;
        Removed::entry(cell.swap(Box::into_raw(entry), Ordering::AcqRel))
    }

    /// Removes the entry with `hash` for which `is` is true, and returns it.
    ///
    /// # Safety
    /// As [`HashTable::add`].
    pub unsafe fn take(
        &self,
        filling: &mut Filling,
        hash: u64,
        is: impl Fn(&T) -> bool,
    ) -> Removed<T> {
        // SAFETY: as the caller promises.
        let Some((cells, index)) = (unsafe { self.place(hash, is) }) else {
            return Removed::nothing();
        };
        let behind = &cells[(index + 1) & (cells.len() - 1)];
        // No search needs to continue beyond an empty cell.
        let last = behind.0.load(Ordering::Relaxed).is_null();
        let mark = if last { ptr::null_mut() } else { gone() };
        filling.entries -= 1;
        filling.used -= usize::from(last);
        Removed::entry(cells[index].0.swap(mark, Ordering::AcqRel))
    }

    /// Removes all entries of a table that no other party can see.
    pub fn contents(&mut self) -> Contents<T> {
        let cells = self.cells.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: the array came from a box, and no other party can see it.
        let first = (!cells.is_null()).then(|| unsafe { Box::from_raw(cells) });
        Contents { first }
    }
}

/// The entries of tables that no other party can see any more; entries that are not taken are not freed.
pub struct Contents<T> {
    first: Option<Box<Cells<T>>>,
}

impl<T> Contents<T> {
    /// Adds the entries of another table. Needs no memory.
    pub fn join(&mut self, other: Contents<T>) {
        let mut other = other.first;
        while let Some(mut cells) = other {
            other = cells.behind.take();
            cells.behind = self.first.take();
            self.first = Some(cells);
        }
    }
}

impl<T> Iterator for Contents<T> {
    type Item = Box<T>;

    fn next(&mut self) -> Option<Box<T>> {
        loop {
            let first = self.first.as_mut()?;
            let Some(cell) = first.cells.pop() else {
                self.first = first.behind.take();
                continue;
            };
            let entry = cell.0.load(Ordering::Acquire);
            if is_entry(entry) {
                // SAFETY: it came from a box, and no other party can see it.
                return Some(unsafe { Box::from_raw(entry) });
            }
        }
    }
}

/// The cell for which `hash` stands.
#[inline(always)]
fn cell<T>(cells: &[Cell<T>], hash: usize) -> &AtomicPtr<T> {
    let index = hash & cells.len().wrapping_sub(1);
    // SAFETY: an array has cells, and their number is a power of two.
    unsafe { &cells.get_unchecked(index).0 }
}

/// Puts `entry` into the first cell that has none. Whether that was empty.
fn put<T>(cells: &[Cell<T>], hash: u64, entry: *mut T) -> bool {
    let mask = cells.len() - 1;
    let mut index = hash as usize & mask;
    loop {
        let there = cells[index].0.load(Ordering::Relaxed);
        if !is_entry(there) {
            cells[index].0.store(entry, Ordering::Release);
            return there.is_null();
        }
        index = (index + 1) & mask;
    }
}

impl<T: Hashed> Default for HashTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for HashTable<T> {
    fn drop(&mut self) {
        let cells = self.cells.load(Ordering::Acquire);
        // SAFETY: no other party can see the table any more.
        let first = (!cells.is_null()).then(|| unsafe { Box::from_raw(cells) });
        Contents { first }.for_each(drop);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::convert::Infallible;

    struct Pair(u64, usize);

    impl Hashed for Pair {
        fn hash(&self) -> u64 {
            self.0 % 7
        }
    }

    struct Numbers(HashTable<Pair>, Filling);

    impl Numbers {
        fn add(&mut self, key: u64, value: usize) {
            let room = |cells: &mut Vec<_>, count| {
                cells.reserve_exact(count);
                Ok::<_, Infallible>(())
            };
            let entry = Box::new(Pair(key, value));
            let boxed = |cells: Cells<_>| Ok(Box::new(cells));
            // SAFETY: one thread, one filling.
            unsafe { self.0.add(&mut self.1, entry, room, boxed) }
                .map_or_else(|no| match no {}, drop);
        }
        fn get(&self, key: u64) -> Option<usize> {
            // SAFETY: no party changes the table meanwhile.
            unsafe { self.0.find(key % 7, |pair| pair.0 == key) }.map(|pair| pair.1)
        }
        fn take(&mut self, key: u64) -> Option<usize> {
            // SAFETY: one thread, one filling.
            let left = unsafe { self.0.take(&mut self.1, key % 7, |pair| pair.0 == key) };
            left.get().map(|pair| pair.1)
        }
    }

    /// Against a map, with few hashes for many keys.
    #[test]
    fn entries_are_found_until_they_are_taken() {
        let mut table = Numbers(HashTable::new(), Filling::new());
        let mut model = std::collections::BTreeMap::new();
        let mut state = 1_u64;
        for step in 0..if cfg!(miri) { 400 } else { 20_000 } {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = state >> 33 & 63;
            match (state >> 60, model.contains_key(&key)) {
                (0..6, true) | (6..9, true) => assert_eq!(table.take(key), model.remove(&key)),
                (_, false) => {
                    table.add(key, step);
                    model.insert(key, step);
                }
                (_, true) => {
                    // SAFETY: one thread.
                    let old = unsafe {
                        table
                            .0
                            .replace(Box::new(Pair(key, step)), |pair| pair.0 == key)
                    };
                    assert_eq!(old.get().map(|pair| pair.1), model.insert(key, step));
                }
            }
            assert_eq!(table.1.entries(), model.len());
            (0..64).for_each(|key| assert_eq!(table.get(key), model.get(&key).copied()));
        }
        let mut left: Vec<_> = table.0.contents().map(|pair| pair.0).collect();
        left.sort_unstable();
        assert!(left.into_iter().eq(model.into_keys()));
    }
}
