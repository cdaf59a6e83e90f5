//! Numbers as names of process groups and sessions: how many members each has.
//!
//! *Interface*: [`Names::found_session`] and [`Names::found`] for a leader; [`Names::enter`] and [`Names::join`] for who comes to a group that there is; [`Names::leave`];
//! [`Names::members`], [`Names::session`] and [`Names::is_taken`] look. No process or thread gets a number that is a name (`reserve.rs`).
//!
//! One word a number: how many processes are in the group of that name, zombies included, and of which session it is; how many groups are in the session of that name. So
//! the first member that comes and the last one that goes are single exchanges, and whoever asks whether there is such a group has an exact answer. A group that comes into being counts in its
//! session before, and one that has ended gives that up after: the session lasts as long as any group of it.
//!
//! Progress: lock-free; an exchange that fails means that another came or went.
//! Source: reference counts as dissertation, section 3.4.2; a word changed by compare-and-swap as section 5.2.

use crate::primitive::{AtomicU64, Ordering};

/// One member of the group.
const MEMBER: u64 = 1;
const MEMBERS: u64 = 0xffff;
/// One group of the session.
const GROUP: u64 = 1 << 16;
const GROUPS: u64 = 0xffff << 16;
/// Where the number of the group's session stands.
const SESSION: u32 = 32;

/// The names below `COUNT`, which is at most 65 536; more processes than 65 535 cannot be.
pub(crate) struct Names<const COUNT: usize>([AtomicU64; COUNT]);

impl<const COUNT: usize> Names<COUNT> {
    /// Over `words`, all 0: no groups.
    pub(crate) const fn over(words: [AtomicU64; COUNT]) -> Self {
        Names(words)
    }

    /// 0 for what is no number.
    fn look(&self, number: i32) -> u64 {
        let word = self.0.get(number as usize);
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Changes the word of `number` to what `step` makes of it; answers what it was, or `None` when that refuses, and for what is no number.
    fn change(&self, number: i32, step: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        let word = self.0.get(number as usize)?;
        word.fetch_update(Ordering::AcqRel, Ordering::Acquire, step)
            .ok()
    }

    /// How many processes are in group `group`.
    pub(crate) fn members(&self, group: i32) -> usize {
        (self.look(group) & MEMBERS) as usize
    }

    /// The session that group `group` is in, if there is such a group.
    pub(crate) fn session(&self, group: i32) -> Option<i32> {
        let word = self.look(group);
        (word & MEMBERS != 0).then_some((word >> SESSION) as i32)
    }

    /// Whether a group or session has this name.
    pub(crate) fn is_taken(&self, number: i32) -> bool {
        self.look(number) != 0
    }

    /// A process comes to the group of another, which stays there meanwhile.
    pub(crate) fn join(&self, group: i32) {
        self.add(group, MEMBER);
    }

    /// A process comes to group `group` of session `session`; `false` if there is none.
    pub(crate) fn enter(&self, group: i32, session: i32) -> bool {
        let theirs = |word| word & MEMBERS != 0 && word >> SESSION == session as u64;
        self.change(group, |word| theirs(word).then_some(word + MEMBER))
            .is_some()
    }

    /// The process whose number `group` is comes to the group of that name, which it founds unless there is one. It is in another group of session `session` meanwhile, or has been forgotten and leaves again at once. `false`: the
    /// name is another session's.
    pub(crate) fn found(&self, group: i32, session: i32) -> bool {
        let new = MEMBER | (session as u64) << SESSION;
        while !self.enter(group, session) {
            if self.members(group) != 0 || self.0.get(group as usize).is_none() {
                return false;
            }
            self.add(session, GROUP);
            let founded = self.change(group, |word| (word & MEMBERS == 0).then_some(word | new));
            if founded.is_some() {
                return true;
            }
            self.subtract_group(session);
        }
        true
    }

    /// The process with this number founds a session and a group of that name; `false` if there is one of either.
    pub(crate) fn found_session(&self, number: i32) -> bool {
        let new = MEMBER | GROUP | (number as u64) << SESSION;
        self.change(number, |word| (word == 0).then_some(new))
            .is_some()
    }

    /// A process leaves group `group`, in which it was.
    pub(crate) fn leave(&self, group: i32) {
        let last = |word| word & MEMBERS == MEMBER;
        let left = self.change(group, |word| {
            Some(match last(word) {
                true => word & GROUPS,
                false => word - MEMBER,
            })
        });
        if let Some(before) = left.filter(|&word| last(word)) {
            self.subtract_group((before >> SESSION) as i32);
        }
    }

    fn add(&self, number: i32, what: u64) {
        if let Some(word) = self.0.get(number as usize) {
            word.fetch_add(what, Ordering::AcqRel);
        }
    }

    fn subtract_group(&self, session: i32) {
        if let Some(word) = self.0.get(session as usize) {
            word.fetch_sub(GROUP, Ordering::AcqRel);
        }
    }
}
