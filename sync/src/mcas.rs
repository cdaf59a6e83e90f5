//! Compare-and-swap of several distant words.
//!
//! *Interface*: a [`Cell`] holds one word; [`Domain::join`] makes the caller a [`Party`]; [`Party::change`] changes up to `K` cells if all hold what is expected;
//! [`Domain::read`] reads one. Every party has one operation at a time: a thread, or a CPU's interrupt handlers (which then need a party each level).
//!
//! Source: the dissertation's `CAS2` (figure 5.3), for more words and for a machine without it. Harris, Fraser and Pratt, *A practical multi-word compare-and-swap operation*
//! (DISC 2002): claim the words in the order of their addresses, decide by one exchange on the operation's status, release them; whoever meets a claim of an undecided operation
//! completes that one first. Two differences. Each word has the *name of the last operation* beside it, and the two change by one [`Pair`] exchange: a helper that comes late
//! expects a name that is no more, so the inner double compare of the original (RDCSS, two exchanges a word) is not needed. And operations are not allocated: a
//! party's one descriptor is used again and again under the next number, and who reads it looks at the number afterwards (Arbel-Raviv and Brown, *Reuse, don't
//! recycle*, DISC 2017). So nothing has to be reclaimed, nobody waits for a grace period, and an interrupt handler may do it all.
//! Guerraoui and others, *Efficient multi-word compare and swap* (DISC 2020) need k + 1 exchanges against 2k + 1 here, because they leave their descriptors
//! in the words, and pay with reclamation by epochs.
//!
//! Why a name beside a word never comes twice: an operation claims a cell only while it is undecided, after having seen the cell free; it is decided before any of its cells is
//! released. So each operation claims a cell at most once, and then releases it at most once. A late helper of an operation that *failed* may still claim
//! a cell that had not changed since; then the claim stands for the old value, and whoever meets it releases it so.
//!
//! Progress: `change` and `read` are lock-free (a `read` tries again only when the cell changed); helping does not nest. Memory order: exchanges of pairs are full barriers;
//! a descriptor is written between two stores of its status, the second released, and copied between two acquiring loads of it.

use crate::cas2::Pair;
use crate::primitive::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use core::ptr;

/// In a name: the operation holds the cell.
const CLAIMED: u64 = 1;
const PARTY_BITS: u32 = 8;
const NUMBER_SHIFT: u32 = 1 + PARTY_BITS;

/// Of a status: the lower two bits; the number of the operation is above.
const WRITING: u64 = 0;
const UNDECIDED: u64 = 1;
const SUCCEEDED: u64 = 2;
const FAILED: u64 = 3;

/// A word that takes part in changes of several.
pub struct Cell {
    /// Low: the value (of an undecided operation, the old one). High: name of the last operation, with [`CLAIMED`].
    pair: Pair,
}

impl Cell {
    crate::primitive::constructor! {
        /// A cell holding `value`.
        pub fn new(value: u64) -> Cell {
            Cell { pair: Pair::new(value, 0) }
        }
    }
}

/// One word of an operation.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// Where.
    pub cell: &'a Cell,
    /// What it must hold.
    pub old: u64,
    /// What it then holds.
    pub new: u64,
}

struct Entry {
    cell: AtomicUsize,
    old: AtomicU64,
    new: AtomicU64,
}

#[repr(align(64))]
struct Descriptor<const K: usize> {
    /// Number of the operation, and what is decided.
    status: AtomicU64,
    taken: AtomicU64,
    length: AtomicUsize,
    entries: [Entry; K],
}

/// An entry copied out of a descriptor.
#[derive(Clone, Copy)]
struct Copied {
    cell: usize,
    old: u64,
    new: u64,
}

/// An operation by name, as copied.
#[derive(Clone, Copy)]
struct Operation<const K: usize> {
    party: usize,
    number: u64,
    length: usize,
    entries: [Copied; K],
}

impl<const K: usize> Operation<K> {
    fn name(&self) -> u64 {
        self.number << NUMBER_SHIFT | (self.party as u64) << 1
    }
}

/// What came of an attempt to complete an operation.
enum Attempt {
    Decided,
    /// Another operation holds a cell.
    Behind(u64),
}

/// Up to `PARTIES` (at most 256) that change up to `K` cells at once.
pub struct Domain<const PARTIES: usize, const K: usize> {
    descriptors: [Descriptor<K>; PARTIES],
}

impl<const PARTIES: usize, const K: usize> Domain<PARTIES, K> {
    /// Without parties.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(PARTIES > 0 && PARTIES <= 1 << PARTY_BITS && K > 0) };
        Domain {
            descriptors: [const {
                Descriptor {
                    status: AtomicU64::new(0),
                    taken: AtomicU64::new(0),
                    length: AtomicUsize::new(0),
                    entries: [const {
                        Entry {
                            cell: AtomicUsize::new(0),
                            old: AtomicU64::new(0),
                            new: AtomicU64::new(0),
                        }
                    }; K],
                }
            }; PARTIES],
        }
    }

    /// Without parties.
    #[cfg(loom)]
    pub fn new() -> Self {
        Domain {
            descriptors: core::array::from_fn(|_| Descriptor {
                status: AtomicU64::new(0),
                taken: AtomicU64::new(0),
                length: AtomicUsize::new(0),
                entries: core::array::from_fn(|_| Entry {
                    cell: AtomicUsize::new(0),
                    old: AtomicU64::new(0),
                    new: AtomicU64::new(0),
                }),
            }),
        }
    }

    /// Takes part, as one of those that change cells of this domain. None: all places are taken.
    pub fn join(&self) -> Option<Party<'_, PARTIES, K>> {
        let index = self.descriptors.iter().position(|descriptor| {
            descriptor
                .taken
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        })?;
        Some(Party {
            domain: self,
            index,
        })
    }

    /// The value of a cell that only parties of this domain change.
    pub fn read(&self, cell: &Cell) -> u64 {
        let mut seen = cell.pair.read();
        loop {
            let (value, name) = seen;
            if name & CLAIMED == 0 {
                return value;
            }
            let status = self.status(name);
            if status == name >> NUMBER_SHIFT << 2 | SUCCEEDED
                && let Some(operation) = self.copy(name)
                && let Some(entry) = operation.entries[..operation.length]
                    .iter()
                    .find(|entry| entry.cell == address(cell))
            {
                return entry.new;
            }
            if status & 3 == UNDECIDED && status >> 2 == name >> NUMBER_SHIFT {
                // Held, and nothing has come of it yet.
                return value;
            }
            // Failed, or over: then the owner has released all its cells, or this is the claim of a late helper of one that failed.
            let now = cell.pair.read();
            if now == seen && status != name >> NUMBER_SHIFT << 2 | SUCCEEDED {
                return value;
            }
            seen = now;
        }
    }

    fn status(&self, name: u64) -> u64 {
        self.descriptors[party(name)].status.load(Ordering::Acquire)
    }

    /// The operation with this name, unless it is over.
    fn copy(&self, name: u64) -> Option<Operation<K>> {
        let descriptor = &self.descriptors[party(name)];
        let number = name >> NUMBER_SHIFT;
        let valid = |status: u64| status >> 2 == number && status & 3 != WRITING;
        if !valid(descriptor.status.load(Ordering::Acquire)) {
            return None;
        }
        let operation = Operation {
            party: party(name),
            number,
            length: descriptor.length.load(Ordering::Relaxed).min(K),
            entries: core::array::from_fn(|n| Copied {
                cell: descriptor.entries[n].cell.load(Ordering::Relaxed),
                old: descriptor.entries[n].old.load(Ordering::Relaxed),
                new: descriptor.entries[n].new.load(Ordering::Relaxed),
            }),
        };
        fence(Ordering::Acquire);
        valid(descriptor.status.load(Ordering::Relaxed)).then_some(operation)
    }

    /// Completes `operation`, and before it those that are in its way; whether it succeeded, if it is not over already.
    fn complete(&self, operation: &Operation<K>) -> Option<bool> {
        loop {
            match self.attempt(operation) {
                Attempt::Decided => break,
                Attempt::Behind(name) => self.clear(name),
            }
        }
        let status = self.status(operation.name());
        (status >> 2 == operation.number).then(|| {
            self.release(operation, status & 3 == SUCCEEDED);
            status & 3 == SUCCEEDED
        })
    }

    /// Completes the operation `name`, or the one that is in its way. Cells are claimed in the order of their addresses, so that goes on only upwards: no circle, and no recursion.
    fn clear(&self, mut name: u64) {
        while let Some(other) = self.copy(name) {
            match self.attempt(&other) {
                Attempt::Behind(next) => name = next,
                Attempt::Decided => {
                    let status = self.status(name);
                    if status >> 2 == other.number {
                        self.release(&other, status & 3 == SUCCEEDED);
                    }
                    return;
                }
            }
        }
    }

    fn attempt(&self, operation: &Operation<K>) -> Attempt {
        let name = operation.name();
        let status = &self.descriptors[operation.party].status;
        let undecided = operation.number << 2 | UNDECIDED;
        let mut outcome = SUCCEEDED;
        'cells: for entry in &operation.entries[..operation.length] {
            // SAFETY: an operation's cells stay cells as long as the domain is in use.
            let pair = unsafe { &cell(entry.cell).pair };
            let mut seen = pair.read();
            loop {
                if seen.1 == name | CLAIMED {
                    continue 'cells;
                }
                // After having seen the cell: if the operation is undecided now, the cell was not released by it.
                if status.load(Ordering::Acquire) != undecided {
                    return Attempt::Decided;
                }
                if seen.1 & CLAIMED != 0 {
                    if self.copy(seen.1).is_some() {
                        return Attempt::Behind(seen.1);
                    }
                    // Over: a late claim, which stands for the old value (or the exchange fails).
                    let free = (seen.0, seen.1 & !CLAIMED);
                    seen = match pair.compare_exchange(seen, free) {
                        Ok(()) => free,
                        Err(now) => now,
                    };
                    continue;
                }
                if seen.0 != entry.old {
                    outcome = FAILED;
                    break 'cells;
                }
                match pair.compare_exchange(seen, (seen.0, name | CLAIMED)) {
                    Ok(()) => continue 'cells,
                    Err(now) => seen = now,
                }
            }
        }
        // Failing means somebody else decided it.
        let _ = status.compare_exchange(
            undecided,
            operation.number << 2 | outcome,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        Attempt::Decided
    }

    /// Writes the outcome into every cell that a decided operation holds.
    fn release(&self, operation: &Operation<K>, succeeded: bool) {
        let name = operation.name();
        for entry in &operation.entries[..operation.length] {
            // SAFETY: as in `attempt`.
            let pair = unsafe { &cell(entry.cell).pair };
            let value = if succeeded { entry.new } else { entry.old };
            // Failing means it does not hold the cell, or no more.
            let _ = pair.compare_exchange((entry.old, name | CLAIMED), (value, name));
        }
    }
}

impl<const PARTIES: usize, const K: usize> Default for Domain<PARTIES, K> {
    fn default() -> Self {
        Self::new()
    }
}

fn party(name: u64) -> usize {
    (name >> 1) as usize & ((1 << PARTY_BITS) - 1)
}

fn address(cell: &Cell) -> usize {
    ptr::from_ref(cell).expose_provenance()
}

/// # Safety
/// `address` is that of a cell.
unsafe fn cell<'a>(address: usize) -> &'a Cell {
    // SAFETY: the caller's promise; exposed when the operation was written.
    unsafe { &*ptr::with_exposed_provenance(address) }
}

/// One that changes cells. It has one operation at a time, hence `&mut`.
pub struct Party<'a, const PARTIES: usize, const K: usize> {
    domain: &'a Domain<PARTIES, K>,
    index: usize,
}

impl<const PARTIES: usize, const K: usize> Party<'_, PARTIES, K> {
    /// If every cell holds its `old`, they all get their `new` at one instant, and it is true.
    ///
    /// # Panics
    /// With more than `K` changes, or one cell named twice.
    ///
    /// # Safety
    /// The cells are changed by parties of this domain only, and stay where they are, as cells, as long as the domain is in use: a helper may come late.
    pub unsafe fn change(&mut self, changes: &[Change<'_>]) -> bool {
        assert!(
            changes.len() <= K,
            "more cells than a descriptor has room for"
        );
        let descriptor = &self.domain.descriptors[self.index];
        let number = (descriptor.status.load(Ordering::Relaxed) >> 2) + 1;
        let mut operation = Operation {
            party: self.index,
            number,
            length: changes.len(),
            entries: [Copied {
                cell: 0,
                old: 0,
                new: 0,
            }; K],
        };
        for (entry, change) in operation.entries.iter_mut().zip(changes) {
            *entry = Copied {
                cell: address(change.cell),
                old: change.old,
                new: change.new,
            };
        }
        let entries = &mut operation.entries[..changes.len()];
        entries.sort_unstable_by_key(|entry| entry.cell);
        assert!(
            entries.windows(2).all(|two| two[0].cell != two[1].cell),
            "a cell named twice"
        );
        descriptor
            .status
            .store(number << 2 | WRITING, Ordering::Relaxed);
        // Who sees one of the new entries sees the new number too.
        fence(Ordering::Release);
        descriptor.length.store(changes.len(), Ordering::Relaxed);
        for (at, entry) in descriptor.entries.iter().zip(&operation.entries) {
            at.cell.store(entry.cell, Ordering::Relaxed);
            at.old.store(entry.old, Ordering::Relaxed);
            at.new.store(entry.new, Ordering::Relaxed);
        }
        descriptor
            .status
            .store(number << 2 | UNDECIDED, Ordering::Release);
        // Nobody else begins an operation in this descriptor, so it is not over before we say so.
        self.domain.complete(&operation).unwrap_or(false)
    }

    /// As [`Domain::read`].
    pub fn read(&self, cell: &Cell) -> u64 {
        self.domain.read(cell)
    }
}

impl<const PARTIES: usize, const K: usize> Drop for Party<'_, PARTIES, K> {
    fn drop(&mut self) {
        self.domain.descriptors[self.index]
            .taken
            .store(0, Ordering::Release);
    }
}
