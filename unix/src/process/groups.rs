//! Who is in which process group and session, so that nobody looks through all processes for them.
//!
//! *Interface*: [`Groups::enter`] and [`Groups::leave`] for a process; [`Groups::members`] of a group. As long as a
//! group or a session has a number, that is reserved (`reserve.rs`). The caller holds the tree's monitor. Costs go with the members of the one group.

use alloc::vec::Vec;

use super::numbers::Numbers;
use super::reserve;

/// The members of groups and sessions, zombies included, by number.
pub(crate) struct Groups {
    groups: Numbers<Vec<i32>>,
    /// How many members each session has.
    sessions: Numbers<u32>,
}

impl Groups {
    pub(crate) const fn new() -> Groups {
        Groups {
            groups: Numbers::new(),
            sessions: Numbers::new(),
        }
    }

    /// Process `pid` is in group `group` and session `session` from now on.
    pub(crate) fn enter(&mut self, pid: i32, group: i32, session: i32) {
        match self.groups.get_mut(group) {
            Some(members) => members.push(pid),
            None => {
                self.groups.put(group, Vec::from([pid]));
                reserve::name(group);
            }
        }
        match self.sessions.get_mut(session) {
            Some(count) => *count += 1,
            None => {
                self.sessions.put(session, 1);
                reserve::name(session);
            }
        }
    }

    /// Process `pid` is no longer in group `group` and session `session`.
    pub(crate) fn leave(&mut self, pid: i32, group: i32, session: i32) {
        if let Some(members) = self.groups.get_mut(group)
            && let Some(place) = members.iter().position(|&member| member == pid)
        {
            members.remove(place);
            if members.is_empty() {
                self.groups.free(group);
                self.unname(group);
            }
        }
        if let Some(count) = self.sessions.get_mut(session) {
            *count -= 1;
            if *count == 0 {
                self.sessions.free(session);
                self.unname(session);
            }
        }
    }

    /// The members of `group`, those that came first before the others.
    pub(crate) fn members(&self, group: i32) -> &[i32] {
        self.groups.get(group).map_or(&[], Vec::as_slice)
    }

    /// Whether `number` is a group's or a session's.
    fn is_named(&self, number: i32) -> bool {
        self.groups.is_taken(number) || self.sessions.is_taken(number)
    }

    /// A group or session has ended: others may have its number unless the other of the two still does.
    fn unname(&self, number: i32) {
        if !self.is_named(number) {
            reserve::unname(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_lasts_as_long_as_its_last_member() {
        let mut groups = Groups::new();
        groups.enter(5, 5, 2);
        groups.enter(6, 5, 2);
        groups.enter(7, 7, 2);
        assert_eq!(groups.members(5), [5, 6]);
        groups.leave(5, 5, 2);
        assert_eq!(groups.members(5), [6]);
        assert!(groups.is_named(5) && groups.is_named(2) && !groups.is_named(6));
        groups.leave(6, 5, 2);
        assert!(groups.members(5).is_empty() && !groups.is_named(5));
        assert!(groups.is_named(2));
        groups.leave(7, 7, 2);
        assert!(!groups.is_named(2) && !groups.is_named(7));
    }

    #[test]
    fn who_is_in_no_group_leaves_none() {
        let mut groups = Groups::new();
        groups.enter(5, 5, 5);
        groups.leave(6, 5, 9);
        groups.leave(6, -1, -1);
        assert_eq!(groups.members(5), [5]);
        assert!(groups.members(-1).is_empty() && !groups.is_named(i32::MIN));
    }
}
