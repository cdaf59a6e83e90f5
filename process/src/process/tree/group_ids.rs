//! The numbers of process groups and sessions, with the number of their members.
//!
//! *Interface*: [`GroupIds::found_session`] and [`GroupIds::found`] for a leader; [`GroupIds::enter`] and
//! [`GroupIds::join`] for a process that joins an existing group; [`GroupIds::leave`]; [`GroupIds::members`],
//! [`GroupIds::session`] and [`GroupIds::is_taken`] for readers. No process or thread gets a number that is
//! in use as a name (`pid_alloc.rs`).
//!
//! Each number has one word: how many processes are in the group of that name, zombies included; the session
//! of that group; and how many groups are in the session of that name. So the first member joins and the last
//! member leaves by a single exchange, and the answer to "is there such a group?" is exact. A new group is
//! counted in its session before it exists, and that count is given up after the group has ended: a session
//! lasts as long as any of its groups.
//!
//! Progress: lock-free; an exchange fails only when another process joined or left.
//! Source: reference counts as dissertation, section 3.4.2; a word changed by compare-and-swap as section
//! 5.2.

use super::words::NumberTable;
use crate::primitive::{AtomicU64, Ordering};

/// One member of the group.
const MEMBER: u64 = 1;
const MEMBERS: u64 = 0xffff;
/// One group of the session.
const GROUP: u64 = 1 << 16;
const GROUPS: u64 = 0xffff << 16;
/// The lowest bit of the number of the group's session.
const SESSION: u32 = 32;

/// The names that `W` has words for: at most 65 536; there are never more than 65 535 processes.
pub(crate) struct GroupIds<W>(W);

impl<W> GroupIds<W> {
    /// Names over `words`, which are all 0: there are no groups.
    pub(crate) const fn over(words: W) -> Self {
        GroupIds(words)
    }

    /// The words.
    pub(crate) fn words(&self) -> &W {
        &self.0
    }
}

impl<W: NumberTable<AtomicU64>> GroupIds<W> {
    /// The word of `number`; 0 if `number` is out of range.
    fn look(&self, number: i32) -> u64 {
        let word = self.0.word(number);
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Replaces the word of `number` by the result of `step`, and returns the word from before. `None` if
    /// `step` refuses, or `number` is out of range.
    fn change(&self, number: i32, step: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        let word = self.0.word(number)?;
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

    /// A process joins `group`, in which another process stays meanwhile.
    pub(crate) fn join(&self, group: i32) {
        self.add(group, MEMBER);
    }

    /// A process joins group `group` of session `session`; `false` if there is no such group.
    pub(crate) fn enter(&self, group: i32, session: i32) -> bool {
        let theirs = |word| word & MEMBERS != 0 && word >> SESSION == session as u64;
        self.change(group, |word| theirs(word).then_some(word + MEMBER))
            .is_some()
    }

    /// The process with number `group` joins the group of that name, and founds the group if there is none.
    /// Meanwhile the process is in another group of session `session`, or has been forgotten and leaves again
    /// at once. `false`: the name belongs to another session.
    pub(crate) fn found(&self, group: i32, session: i32) -> bool {
        let new = MEMBER | (session as u64) << SESSION;
        while !self.enter(group, session) {
            if self.members(group) != 0 || self.0.word(group).is_none() {
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

    /// The process with this number founds a session and a group of that name; `false` if either exists.
    pub(crate) fn found_session(&self, number: i32) -> bool {
        let new = MEMBER | GROUP | (number as u64) << SESSION;
        self.change(number, |word| (word == 0).then_some(new))
            .is_some()
    }

    /// A member of `group` leaves it.
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
        if let Some(word) = self.0.word(number) {
            word.fetch_add(what, Ordering::AcqRel);
        }
    }

    fn subtract_group(&self, session: i32) {
        if let Some(word) = self.0.word(session) {
            word.fetch_sub(GROUP, Ordering::AcqRel);
        }
    }
}
