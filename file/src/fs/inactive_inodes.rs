//! The inodes with inactive descriptions: the last inodes that were opened more than once. Their closed
//! descriptions wait, with their code, for the next open.
//!
//! *Interface*: [`keep`] after an open by a walk; [`let_go`] of one, [`let_go_below`] of those in a
//! directory, [`purge`] of all. There are at most [`MOST`]; a new one replaces the oldest.
//!
//! Source: dissertation, 4.1.2: quajects that were destroyed wait in an inactive list, so that creating one
//! is cheap.

use alloc::sync::Arc;
use sync::Monitor;

use super::inactive::Inactive;
use super::inode::Inode;
use super::published::Published;

/// As many inodes.
const MOST: usize = 512;
/// Places at which an open that must not wait looks for a free one.
const FEW: usize = 16;
/// Places whose bits are in one word of [`Ring::taken`].
const GROUP: usize = u64::BITS as usize;
const _: () = assert!(MOST.is_multiple_of(GROUP));

struct Ring {
    inodes: [Option<Arc<dyn Inode>>; MOST],
    /// A bit for each place that is taken.
    taken: [u64; MOST / GROUP],
    /// The place for the next.
    next: usize,
}

static RING: Monitor<Ring> = Monitor::new(Ring {
    inodes: [const { None }; MOST],
    taken: [0; MOST / GROUP],
    next: 0,
});

impl Ring {
    /// Puts `inode` at `place`, and returns what was there.
    #[inline(always)]
    fn put(&mut self, place: usize, inode: Option<Arc<dyn Inode>>) -> Option<Arc<dyn Inode>> {
        let bit = 1 << (place % GROUP);
        let taken = &mut self.taken[place / GROUP];
        match inode {
            Some(_) => *taken |= bit,
            None => *taken &= !bit,
        }
        core::mem::replace(&mut self.inodes[place], inode)
    }

    /// The first place from `from` on that is taken.
    fn first_from(&self, from: usize) -> Option<usize> {
        let (group, at) = (from / GROUP, from % GROUP);
        let words = self.taken.iter().enumerate().skip(group);
        let from_there = |(number, word): (usize, &u64)| match number == group {
            true => (number, *word & u64::MAX << at),
            false => (number, *word),
        };
        let mut some = words.map(from_there).filter(|(_, word)| *word != 0);
        let (number, word) = some.next()?;
        Some(number * GROUP + word.trailing_zeros() as usize)
    }
}

/// `inode` was opened the ordinary way. At the second time its descriptions may wait from then on.
pub fn keep(inode: &Arc<dyn Inode>) {
    let Some(inactive) = inode.inactive() else {
        return;
    };
    if !inactive.opened_again() || inactive.place().is_some() {
        return;
    }
    // Bound: **global**: a few words; taken by the second open of a file by a walk, by the removal of one
    // that was opened twice; the first of 512 places that is taken, by a bit each, where many are let go.
    let mut ring = RING.lock();
    if inactive.place().is_some() {
        return;
    }
    let place = ring.next;
    ring.next = (place + 1) % MOST;
    inactive.set_sched_class(Some(place));
    inactive.admit();
    let old = ring.put(place, Some(inode.clone()));
    if let Some(inactive) = old.as_ref().and_then(|old| old.inactive()) {
        inactive.set_sched_class(None);
    }
    drop(ring);
    expel(old);
}

/// As [`keep`], with interrupts off, of an inode with the inactive list `inactive`, which shows
/// `shown`. False where that would take longer: the
/// ordinary way does it then.
#[inline]
pub(super) fn keep_now(inode: &Arc<dyn Inode>, inactive: &Inactive, shown: &Published) -> bool {
    if !inactive.opened_again() || inactive.place().is_some() {
        return true;
    }
    // Bound: **global**: never waits; a few words, by the second open of a file with interrupts off.
    let Some(mut ring) = RING.try_lock() else {
        return false;
    };
    if inactive.place().is_some() {
        return false;
    }
    let mut place = ring.next % MOST;
    if ring.inodes[place].is_some() {
        // One that is kept goes the ordinary way only.
        let Some(free) = free_behind(&ring) else {
            return false;
        };
        place = free;
    }
    inactive.set_sched_class(Some(place));
    inactive.admit();
    let _nothing = ring.put(place, Some(inode.clone()));
    if shown.has_name() {
        ring.next = (place + 1) % MOST;
        return true;
    }
    // Its last name was taken away before it was here.
    let _inode = ring.put(place, None);
    inactive.set_sched_class(None);
    inactive.expel();
    false
}

/// A free place that is not far behind the next.
#[cold]
fn free_behind(ring: &Ring) -> Option<usize> {
    let behind = (1..FEW).map(|more| (ring.next + more) % MOST);
    behind
        .into_iter()
        .find(|place| ring.inodes[*place].is_none())
}

/// Nothing of it waits any more; the monitor is free.
fn expel(inode: Option<Arc<dyn Inode>>) {
    if let Some(inactive) = inode.as_ref().and_then(|inode| inode.inactive()) {
        inactive.expel();
    }
}

/// Descriptions of `inode` wait no longer.
pub fn let_go(inode: &dyn Inode) {
    let Some(inactive) = inode.inactive() else {
        return;
    };
    if inactive.place().is_none() {
        return;
    }
    let mut ring = RING.lock();
    // None if it was dropped meanwhile; its place changes only under the monitor.
    let old = inactive.place().and_then(|place| ring.put(place, None));
    inactive.set_sched_class(None);
    drop(ring);
    expel(old);
}

/// Descriptions of files in `directory` wait no longer. Whether any may have.
pub(super) fn let_go_below(directory: &dyn Inode) -> bool {
    let (mut from, mut any) = (0, false);
    loop {
        let ring = RING.lock();
        let Some(place) = ring.first_from(from) else {
            return any;
        };
        from = place + 1;
        // A file's own monitors come before this one, so it is asked when that is free.
        let inode = ring.inodes[place].clone();
        drop(ring);
        if let Some(inode) = inode.filter(|inode| inode.is_in(directory)) {
            let_go(&*inode);
            any = true;
        }
    }
}

/// Nothing waits any more.
pub fn purge() {
    let mut from = 0;
    loop {
        let mut ring = RING.lock();
        let Some(place) = ring.first_from(from) else {
            return;
        };
        from = place + 1;
        let old = ring.put(place, None);
        if let Some(inactive) = old.as_ref().and_then(|old| old.inactive()) {
            inactive.set_sched_class(None);
        }
        drop(ring);
        expel(old);
    }
}
