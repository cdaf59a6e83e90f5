//! Compare-and-swap of several distant words.
//!
//! *Interface*: a [`Cell`] holds one word; [`Domain::join`] makes the caller a [`Party`]; [`Party::change`]
//! changes up to `K` cells if all hold what is expected; [`Domain::read`] reads one. Every party has one
//! operation at a time: a thread, or a CPU's interrupt handlers (which then need a party each level).
//!
//! Source: the dissertation's `CAS2` (figure 5.3), for more words and for a machine without it. Guerraoui,
//! Kogan, Marathe, Zablotchi, *Efficient multi-word compare and swap* (DISC 2020): claim the words in the
//! order of their addresses, and decide by one exchange on the operation's status; a party that meets a claim
//! of an undecided operation first completes that operation. Nothing is released: a word names the operation
//! that claimed it last, whose descriptor has its value, until the next operation claims it. So k words take
//! k + 1 exchanges of 8 bytes, and no algorithm does with fewer. Theirs are reclaimed by epochs; here nothing
//! is allocated: a party has a ring of `RING` descriptors, reused under the next number, and a reader of one
//! checks the number afterwards (Arbel-Raviv and Brown, *Reuse, don't recycle*, DISC 2017). So no party waits
//! for a grace period, and an interrupt handler may do all of it.
//!
//! A cell is two adjacent words, the *name of the last operation* and beside it a value. A claim exchanges
//! the name alone. Before a descriptor is used again its party *settles* the cells that still name its
//! operation: it writes the value beside the name and marks that [`DONE`], in one exchange of both. Words
//! that are changed again within `RING` operations of the party never need it; all others one exchange more
//! each.
//!
//! Why a late helper does no harm. A party that claims a cell for an operation has seen it with the name of
//! another, decided operation, and its own operation undecided after that; the claim expects that name. Names
//! do not come back: each claims a cell at most once, and is marked `DONE` at most once. So when an operation
//! *succeeded*, all its claims are through, and late ones expect what is gone. When it *failed*, one may come
//! late, and then stands for the value that was there. That is right while the descriptor says so; and after
//! that it is the value beside the name, because before its descriptor is used again its party settles what
//! its cells name, whoever that was: then a late claim finds the name it expects gone, or it expected that
//! name with `DONE`, and the value beside is the one.
//!
//! Progress: `change` and `read` are lock-free (a `read` tries again only when the cell changed); helping
//! does not nest; settling is one attempt a cell. Memory order: exchanges of cells are full barriers; a
//! descriptor is written between two stores of its status, the second released, and copied between two loads
//! of it. A party that settles must not see as undecided what a helper of its operation saw decided before
//! that operation was: hence the sequentially consistent statuses, which cost nothing on this machine, where
//! loads come in the order of the program.

use core::ptr;
use sync::cas2::AtomicPair;
use sync::primitive::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// In a name: the value is beside it, and the descriptor is not needed any more.
const DONE: u64 = 1;
/// In a name: which of the operation's words.
const ENTRY_BITS: u32 = 4;
const ENTRY_SHIFT: u32 = 1;
const PARTY_BITS: u32 = 8;
const PARTY_SHIFT: u32 = ENTRY_SHIFT + ENTRY_BITS;
/// Above it, the number of the operation among those of its party.
const NUMBER_SHIFT: u32 = PARTY_SHIFT + PARTY_BITS;
/// Party and number.
const OPERATION: u64 = !((1 << PARTY_SHIFT) - 1);

/// Of a status: the lower two bits; the number of the operation is above.
const WRITING: u64 = 0;
const UNDECIDED: u64 = 1;
const SUCCEEDED: u64 = 2;
const FAILED: u64 = 3;

/// A word that takes part in changes of several.
pub struct Cell {
    /// Low: with [`DONE`], the value. High: name of the last operation that claimed the cell.
    pair: AtomicPair,
}

impl Cell {
    sync::primitive::constructor! {
        /// A cell holding `value`.
        pub fn new(value: u64) -> Cell {
            Cell { pair: AtomicPair::new(value, DONE) }
        }
    }
}

/// One word of an operation.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// Where.
    pub cell: &'a Cell,
    /// The value that it must hold.
    pub old: u64,
    /// The value that it then holds.
    pub new: u64,
}

struct Entry {
    cell: AtomicUsize,
    old: AtomicU64,
    new: AtomicU64,
}

impl Entry {
    sync::primitive::constructor! {
        fn new() -> Entry {
            Entry { cell: AtomicUsize::new(0), old: AtomicU64::new(0), new: AtomicU64::new(0) }
        }
    }
}

#[repr(align(64))]
struct Descriptor<const K: usize> {
    /// Number of the operation, and what is decided.
    status: AtomicU64,
    length: AtomicUsize,
    entries: [Entry; K],
}

impl<const K: usize> Descriptor<K> {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Descriptor {
            status: AtomicU64::new(0),
            length: AtomicUsize::new(0),
            entries: [const { Entry::new() }; K],
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Descriptor {
            status: AtomicU64::new(0),
            length: AtomicUsize::new(0),
            entries: core::array::from_fn(|_| Entry::new()),
        }
    }

    /// Puts the operation `number` up for all to complete. Its party, when nobody needs the one that was
    /// there.
    fn publish(&self, number: u64, changes: &[&Change<'_>]) {
        self.status.store(number << 2 | WRITING, Ordering::Relaxed);
        // A reader of one of the new entries also sees the new number.
        fence(Ordering::Release);
        self.length.store(changes.len(), Ordering::Relaxed);
        for (at, change) in self.entries.iter().zip(changes) {
            at.cell.store(address(change.cell), Ordering::Relaxed);
            at.old.store(change.old, Ordering::Relaxed);
            at.new.store(change.new, Ordering::Relaxed);
        }
        self.status
            .store(number << 2 | UNDECIDED, Ordering::Release);
    }

    /// Nobody needs it any more.
    fn retire(&self) {
        let number = self.status.load(Ordering::Relaxed) >> 2;
        self.status.store(number << 2 | WRITING, Ordering::Relaxed);
        fence(Ordering::Release);
        self.length.store(0, Ordering::Relaxed);
    }

    /// Decides the operation `number`, if nobody did; whether it is as `outcome` says now.
    fn decide(&self, number: u64, outcome: u64) -> bool {
        let decided = number << 2 | outcome;
        match self.status.compare_exchange(
            number << 2 | UNDECIDED,
            decided,
            Ordering::SeqCst,
            Ordering::SeqCst,
        ) {
            Ok(_) => true,
            Err(now) => now == decided,
        }
    }
}

/// An entry copied out of a descriptor.
#[derive(Clone, Copy)]
struct Copied {
    cell: usize,
    old: u64,
}

/// An operation, as copied.
#[derive(Clone, Copy)]
struct Operation<const K: usize> {
    name: u64,
    length: usize,
    entries: [Copied; K],
}

impl<const K: usize> Operation<K> {
    fn entries(&self) -> &[Copied] {
        &self.entries[..self.length]
    }
}

/// The contents of a cell.
#[derive(Clone, Copy)]
struct Content {
    value: u64,
    /// Claimed, and nothing has come of it yet.
    undecided: bool,
}

impl Content {
    fn decided(value: u64) -> Content {
        Content {
            value,
            undecided: false,
        }
    }
}

/// The outcome of an attempt to complete an operation.
enum Attempt {
    Decided,
    /// Another operation holds a cell.
    Behind(u64),
}

/// Up to `PARTIES` (at most 256) that change up to `K` cells (at most 16) at once; a party's descriptors come
/// round after `RING` operations.
pub struct Domain<const PARTIES: usize, const K: usize, const RING: usize = 8> {
    /// Number of each party's last operation, above whether somebody is the party.
    taken: [AtomicU64; PARTIES],
    rings: [[Descriptor<K>; RING]; PARTIES],
}

impl<const PARTIES: usize, const K: usize, const RING: usize> Domain<PARTIES, K, RING> {
    /// Without parties.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(PARTIES > 0 && PARTIES <= 1 << PARTY_BITS) };
        const { assert!(K > 0 && K <= 1 << ENTRY_BITS && RING > 0) };
        Domain {
            taken: [const { AtomicU64::new(0) }; PARTIES],
            rings: [const { [const { Descriptor::new() }; RING] }; PARTIES],
        }
    }

    /// Without parties.
    #[cfg(loom)]
    pub fn new() -> Self {
        Domain {
            taken: core::array::from_fn(|_| AtomicU64::new(0)),
            rings: core::array::from_fn(|_| core::array::from_fn(|_| Descriptor::new())),
        }
    }

    /// Takes part, as one of those that change cells of this domain. None: all places are taken.
    pub fn join(&self) -> Option<Party<'_, PARTIES, K, RING>> {
        self.taken.iter().enumerate().find_map(|(index, taken)| {
            let free = taken.load(Ordering::Relaxed) & !1;
            taken
                .compare_exchange(free, free | 1, Ordering::Acquire, Ordering::Relaxed)
                .ok()?;
            Some(Party {
                domain: self,
                index,
                number: free >> 1,
            })
        })
    }

    /// The value of a cell that only parties of this domain change.
    #[inline]
    pub fn read(&self, cell: &Cell) -> u64 {
        self.look(&cell.pair).1.value
    }

    fn descriptor(&self, name: u64) -> &Descriptor<K> {
        let party = (name >> PARTY_SHIFT) as usize & ((1 << PARTY_BITS) - 1);
        &self.rings[party][number(name) as usize % RING]
    }

    /// The name that a cell has, and what it holds while it does so.
    #[inline]
    fn look(&self, pair: &AtomicPair) -> (u64, Content) {
        let mut name = pair.high();
        loop {
            if name & DONE == 0
                && let Some(content) = self.explain(name)
            {
                return (name, content);
            }
            // The value is beside it, also if this is the late claim of an operation that failed.
            let (value, now) = pair.read();
            if now == name {
                return (name, Content::decided(value));
            }
            name = now;
        }
    }

    /// The contents of a cell with this name, unless its operation is over.
    #[inline]
    fn explain(&self, name: u64) -> Option<Content> {
        let descriptor = self.descriptor(name);
        let number = number(name);
        let status = descriptor.status.load(Ordering::SeqCst);
        if status >> 2 != number || status & 3 == WRITING {
            return None;
        }
        let entry = &descriptor.entries[entry(name) % K];
        // Both, so that the loads need not wait for the status.
        let old = entry.old.load(Ordering::Relaxed);
        let new = entry.new.load(Ordering::Relaxed);
        let content = Content {
            value: if status & 3 == SUCCEEDED { new } else { old },
            undecided: status & 3 == UNDECIDED,
        };
        fence(Ordering::Acquire);
        (descriptor.status.load(Ordering::Relaxed) >> 2 == number).then_some(content)
    }

    /// The operation with this name, unless it is over.
    fn copy(&self, name: u64) -> Option<Operation<K>> {
        let descriptor = self.descriptor(name);
        let valid = |status: u64| status >> 2 == number(name) && status & 3 != WRITING;
        if !valid(descriptor.status.load(Ordering::SeqCst)) {
            return None;
        }
        let operation = Operation {
            name: name & OPERATION,
            length: descriptor.length.load(Ordering::Relaxed).min(K),
            entries: core::array::from_fn(|n| Copied {
                cell: descriptor.entries[n].cell.load(Ordering::Relaxed),
                old: descriptor.entries[n].old.load(Ordering::Relaxed),
            }),
        };
        fence(Ordering::Acquire);
        valid(descriptor.status.load(Ordering::Relaxed)).then_some(operation)
    }

    /// Completes the operation `name`, or the one that is in its way. Cells are claimed in the order of their
    /// addresses, so that goes on only upwards: no circle, and no recursion.
    #[cold]
    fn clear(&self, mut name: u64) {
        while let Some(other) = self.copy(name) {
            match self.attempt(&other) {
                Attempt::Behind(next) => name = next,
                Attempt::Decided => return,
            }
        }
    }

    #[inline]
    fn attempt(&self, operation: &Operation<K>) -> Attempt {
        let name = operation.name;
        let status = &self.descriptor(name).status;
        let undecided = number(name) << 2 | UNDECIDED;
        let mut outcome = SUCCEEDED;
        'cells: for (at, entry) in (0..).zip(operation.entries()) {
            // SAFETY: an operation's cells stay cells until its party has left and nobody helps it.
            let pair = unsafe { &cell(entry.cell).pair };
            loop {
                let (seen, content) = self.look(pair);
                // After having seen the cell: if the operation is undecided now, it is not late.
                if status.load(Ordering::SeqCst) != undecided {
                    return Attempt::Decided;
                }
                if seen & OPERATION == name {
                    continue 'cells;
                }
                if content.undecided {
                    return Attempt::Behind(seen);
                }
                if content.value != entry.old {
                    outcome = FAILED;
                    break 'cells;
                }
                let claim = name | at << ENTRY_SHIFT;
                if pair.compare_exchange_high(seen, claim).is_ok() {
                    continue 'cells;
                }
            }
        }
        self.descriptor(name).decide(number(name), outcome);
        Attempt::Decided
    }

    /// The name of a decided operation under which the cell holds `value`; none when it holds another.
    #[inline]
    fn free(&self, pair: &AtomicPair, value: u64) -> Option<u64> {
        loop {
            let (seen, content) = self.look(pair);
            if content.value != value {
                return None;
            }
            if !content.undecided {
                return Some(seen);
            }
            self.clear(seen);
        }
    }

    /// Makes a descriptor of the caller's one that no cell needs, nor a helper that is still on its way.
    #[inline]
    fn settle(&self, party: usize, descriptor: &Descriptor<K>) {
        let status = descriptor.status.load(Ordering::SeqCst);
        let name = name(party, status >> 2);
        let length = descriptor.length.load(Ordering::Relaxed).min(K);
        for entry in &descriptor.entries[..length] {
            // SAFETY: as in `attempt`; without a length there was no operation, or its cells are settled.
            let pair = unsafe { &cell(entry.cell.load(Ordering::Relaxed)).pair };
            if status & 3 != SUCCEEDED {
                // A helper may be about to put this name in the place of another.
                self.finish(pair);
                continue;
            }
            let (beside, seen) = pair.guess();
            if seen & (OPERATION | DONE) == name {
                // Failing means that another operation claimed it.
                let new = entry.new.load(Ordering::Relaxed);
                let _ = pair.compare_exchange((beside, seen), (new, seen | DONE));
            }
        }
    }

    /// Puts the value of a decided operation that has the cell beside the name.
    #[cold]
    fn finish(&self, pair: &AtomicPair) {
        let beside = pair.low();
        let (seen, content) = self.look(pair);
        if seen & DONE == 0 && !content.undecided {
            // The word beside a name changes only when the name is marked. So failing means that the name
            // which the caller saw is gone.
            let _ = pair.compare_exchange((beside, seen), (content.value, seen | DONE));
        }
    }
}

impl<const PARTIES: usize, const K: usize, const RING: usize> Default for Domain<PARTIES, K, RING> {
    fn default() -> Self {
        Self::new()
    }
}

fn name(party: usize, number: u64) -> u64 {
    number << NUMBER_SHIFT | (party as u64) << PARTY_SHIFT
}

fn number(name: u64) -> u64 {
    name >> NUMBER_SHIFT
}

fn entry(name: u64) -> usize {
    (name >> ENTRY_SHIFT) as usize & ((1 << ENTRY_BITS) - 1)
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
pub struct Party<'a, const PARTIES: usize, const K: usize, const RING: usize = 8> {
    domain: &'a Domain<PARTIES, K, RING>,
    index: usize,
    /// Of its last operation.
    number: u64,
}

impl<const PARTIES: usize, const K: usize, const RING: usize> Party<'_, PARTIES, K, RING> {
    /// If every cell holds its `old`, they all get their `new` at one instant, and it is true.
    ///
    /// # Panics
    /// With more than `K` changes, or one cell named twice.
    ///
    /// # Safety
    /// The cells are changed by parties of this domain only, and stay where they are, as cells, until this
    /// party has left (is dropped) and no operation of others that began before is under way: a helper may
    /// come late.
    #[inline]
    pub unsafe fn change(&mut self, changes: &[Change<'_>]) -> bool {
        assert!(
            changes.len() <= K,
            "more cells than a descriptor has room for"
        );
        let Some(first) = changes.first() else {
            return true;
        };
        // By address.
        let mut sorted = [first; K];
        for (length, change) in changes.iter().enumerate().skip(1) {
            let mut at = length;
            while at > 0 && address(sorted[at - 1].cell) >= address(change.cell) {
                assert!(
                    !ptr::eq(sorted[at - 1].cell, change.cell),
                    "a cell named twice"
                );
                sorted[at] = sorted[at - 1];
                at -= 1;
            }
            sorted[at] = change;
        }
        let sorted = &sorted[..changes.len()];
        let name = name(self.index, self.number + 1);
        let descriptor = self.domain.descriptor(name);
        // First, because it may change names.
        self.domain.settle(self.index, descriptor);
        // All cells are looked at before the first exchange, which has to wait for the loads before it.
        let mut seen = [0; K];
        for (seen, change) in seen.iter_mut().zip(sorted) {
            let Some(name) = self.domain.free(&change.cell.pair, change.old) else {
                return false;
            };
            *seen = name;
        }
        self.number += 1;
        descriptor.publish(self.number, sorted);
        // Nobody knew of the operation when the cells were seen, so it was undecided, and these claims are as
        // good as a helper's.
        let mut claimed = 0;
        for (at, change) in sorted.iter().enumerate() {
            let claim = name | (at as u64) << ENTRY_SHIFT;
            let pair = &change.cell.pair;
            if pair.compare_exchange_high(seen[at], claim).is_err() {
                break;
            }
            claimed += 1;
        }
        if claimed == sorted.len() {
            return descriptor.decide(self.number, SUCCEEDED);
        }
        self.complete(name)
    }

    /// Completes its operation `name` among others; whether it succeeded.
    #[cold]
    fn complete(&self, name: u64) -> bool {
        loop {
            // Nobody else puts another operation into this descriptor.
            match self.domain.descriptor(name).status.load(Ordering::SeqCst) & 3 {
                UNDECIDED => self.domain.clear(name),
                outcome => return outcome == SUCCEEDED,
            }
        }
    }

    /// As [`Domain::read`].
    #[inline]
    pub fn read(&self, cell: &Cell) -> u64 {
        self.domain.read(cell)
    }
}

impl<const PARTIES: usize, const K: usize, const RING: usize> Drop for Party<'_, PARTIES, K, RING> {
    /// Leaves; no cell names an operation of this party as one whose descriptor it needs.
    fn drop(&mut self) {
        for descriptor in &self.domain.rings[self.index] {
            self.domain.settle(self.index, descriptor);
            descriptor.retire();
        }
        self.domain.taken[self.index].store(self.number << 1, Ordering::Release);
    }
}
