//! Inodes whose closed descriptions wait, with their code, for the next open: the last ones that were opened
//! more than once.
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
use super::shown::Shown;

/// As many inodes.
const MOST: usize = 512;
/// Places at which an open that must not wait looks for a free one, and that are looked at in one go.
const FEW: usize = 16;
const _: () = assert!(MOST.is_multiple_of(FEW));

struct Ring {
    inodes: [Option<Arc<dyn Inode>>; MOST],
    /// The place for the next.
    next: usize,
}

static RING: Monitor<Ring> = Monitor::new(Ring {
    inodes: [const { None }; MOST],
    next: 0,
});

/// `inode` was opened the ordinary way. At the second time its descriptions may wait from then on.
pub fn keep(inode: &Arc<dyn Inode>) {
    let Some(inactive) = inode.inactive() else {
        return;
    };
    if !inactive.opened_again() || inactive.place().is_some() {
        return;
    }
    // Bound: **global**: a few words; taken by the second open of a file by a walk, by the removal of one
    // that was opened twice; a look at 512 places for each, where all are let go.
    let mut ring = RING.lock();
    if inactive.place().is_some() {
        return;
    }
    let place = ring.next;
    ring.next = (place + 1) % MOST;
    inactive.set_place(Some(place));
    inactive.admit();
    let old = ring.inodes[place].replace(inode.clone());
    if let Some(inactive) = old.as_ref().and_then(|old| old.inactive()) {
        inactive.set_place(None);
    }
    drop(ring);
    expel(old);
}

/// As [`keep`], with interrupts off, of an inode with the inactive list `inactive`, which shows
/// `shown`. False where that would take longer: the
/// ordinary way does it then.
#[inline]
pub(super) fn keep_now(inode: &Arc<dyn Inode>, inactive: &Inactive, shown: &Shown) -> bool {
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
    inactive.set_place(Some(place));
    inactive.admit();
    ring.inodes[place] = Some(inode.clone());
    if shown.has_name() {
        ring.next = (place + 1) % MOST;
        return true;
    }
    // Its last name was taken away before it was here.
    ring.inodes[place] = None;
    inactive.set_place(None);
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
    let old = inactive.place().and_then(|place| ring.inodes[place].take());
    inactive.set_place(None);
    drop(ring);
    expel(old);
}

/// Descriptions of files in `directory` wait no longer. Whether any may have.
pub(super) fn let_go_below(directory: &dyn Inode) -> bool {
    let (mut first, mut any) = (0, false);
    loop {
        let ring = RING.lock();
        let (pieces, _) = ring.inodes[first..].as_chunks::<FEW>();
        let is_empty = |piece: &&[Option<_>; FEW]| piece.iter().all(Option::is_none);
        let passed = pieces.iter().take_while(is_empty).count();
        let Some(some) = pieces.get(passed) else {
            return any;
        };
        first += (passed + 1) * FEW;
        // A file's own monitors come before this one, so it is asked when that is free.
        let some = some.clone();
        drop(ring);
        for inode in some.iter().flatten().filter(|inode| inode.is_in(directory)) {
            let_go(&**inode);
            any = true;
        }
    }
}

/// Nothing waits any more.
pub fn purge() {
    let mut place = 0;
    loop {
        let mut ring = RING.lock();
        let rest = &ring.inodes[place..];
        let Some(next) = rest.iter().position(Option::is_some) else {
            return;
        };
        place += next;
        let old = ring.inodes[place].take();
        if let Some(inactive) = old.as_ref().and_then(|old| old.inactive()) {
            inactive.set_place(None);
        }
        drop(ring);
        expel(old);
    }
}
