//! A poll set: one thread's entries in the wait lists of several parties; `poll` and `select` sleep on it.
//!
//! *Interface*: [`PollSet::begin`] names the party in whose lists [`PollSet::watch`] then enrols. Then check
//! the party's condition. When no condition holds, call [`PollSet::sleep`], and visit the parties whose lists
//! were woken with [`PollSet::next`]; each of them is watched again before its condition is checked. The
//! places of the others stay unchanged.
//!
//! Source: dissertation, section 4.1.4; the rule of enrolling first is that of [`crate::wait`].

use crate::callout;
use crate::wait::{WaitList, WaitNode};
use alloc::vec::Vec;

/// The running thread's places.
pub struct PollSet<'a> {
    places: Vec<Place<'a>>,
    party: usize,
    /// Where the party's places begin.
    at: usize,
    /// There was no memory for a place.
    short: bool,
}

struct Place<'a> {
    node: WaitNode,
    list: &'a WaitList,
    party: usize,
}

impl<'a> PollSet<'a> {
    /// Watches nothing yet.
    pub const fn new() -> Self {
        PollSet {
            places: Vec::new(),
            party: 0,
            at: 0,
            short: false,
        }
    }

    /// The next lists belong to `party`, none of whose lists was watched before.
    pub fn begin(&mut self, party: usize) {
        (self.party, self.at) = (party, self.places.len());
    }

    /// Enrols the running thread in `list`, unless it is already there.
    pub fn watch(&mut self, list: &'a WaitList) {
        let party = self.party;
        let mine = |place: &&Place| place.party == party && core::ptr::eq(place.list, list);
        if let Some(place) = self.places[self.at..].iter().find(mine) {
            self.short |= !place.node.is_queued() && !list.enroll(&place.node);
            return;
        }
        if self.places.try_reserve(1).is_err() {
            self.short = true;
            return;
        }
        let node = WaitNode::new();
        self.short |= !list.enroll(&node);
        self.places.push(Place { node, list, party });
    }

    /// Whether there was no memory for a place: then nothing may wake the thread.
    pub fn is_short(&self) -> bool {
        self.short
    }

    /// The next party with a woken list, among the places from `from` on; `from` is then behind its places.
    /// The next lists to be watched are that party's.
    pub fn next(&mut self, from: &mut usize) -> Option<usize> {
        let woken = |place: &Place| !place.node.is_queued();
        let found = *from + self.places.get(*from..)?.iter().position(woken)?;
        let party = self.places[found].party;
        let same = |place: &&Place| place.party == party;
        let before = self.places[..found].iter().rev().take_while(same).count();
        let behind = self.places[found..].iter().take_while(same).count();
        *from = found + behind;
        // A late place is behind the places of all parties, not beside its party's first.
        let first = found - before;
        let late = first > 0 && self.places[first - 1].party > party;
        self.at = match late {
            true => self
                .places
                .iter()
                .position(|place| same(&place))
                .unwrap_or(first),
            false => first,
        };
        self.party = party;
        Some(party)
    }

    /// Sleeps until a watched list is woken or something else resumes the thread.
    pub fn sleep(&self) {
        if self.places.iter().all(|place| place.node.is_queued()) {
            (callout::get().suspend)();
        }
    }
}

impl Default for PollSet<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for PollSet<'_> {
    fn drop(&mut self) {
        for place in &self.places {
            place.list.leave(&place.node);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_those_that_were_woken_are_gone_through_and_stand_again() {
        let lists = [(); 5].map(|()| WaitList::new());
        let mut watch = PollSet::new();
        for (party, own) in [&lists[..2], &lists[2..3], &lists[3..]].iter().enumerate() {
            watch.begin(party);
            own.iter().for_each(|list| watch.watch(list));
        }
        assert_eq!(watch.next(&mut 0), None);
        lists[1].wake_all();
        lists[4].wake_one();
        let mut from = 0;
        assert_eq!(watch.next(&mut from), Some(0));
        lists[..2].iter().for_each(|list| watch.watch(list));
        assert_eq!(watch.next(&mut from), Some(2));
        lists[3..].iter().for_each(|list| watch.watch(list));
        assert_eq!(watch.next(&mut from), None);
        assert_eq!(watch.next(&mut 0), None);
        assert_eq!((watch.places.len(), watch.is_short()), (5, false));
        assert!(lists.iter().all(WaitList::has_waiters));
        drop(watch);
        assert!(!lists.iter().any(WaitList::has_waiters));
    }

    #[test]
    fn a_list_that_a_party_has_only_now_is_watched_too() {
        let lists = [(); 3].map(|()| WaitList::new());
        let mut watch = PollSet::new();
        watch.begin(0);
        watch.watch(&lists[0]);
        watch.begin(1);
        watch.watch(&lists[1]);
        lists[0].wake_all();
        let mut from = 0;
        assert_eq!(watch.next(&mut from), Some(0));
        watch.watch(&lists[0]);
        watch.watch(&lists[2]);
        watch.watch(&lists[2]);
        assert_eq!(watch.places.len(), 3);
        lists[2].wake_all();
        assert_eq!(watch.next(&mut from), Some(0));
        watch.watch(&lists[0]);
        watch.watch(&lists[2]);
        assert_eq!(watch.places.len(), 3);
        assert!(lists.iter().all(WaitList::has_waiters));
    }
}
