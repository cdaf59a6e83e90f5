//! The resources that each user holds: one counted record for each user id.
//!
//! *Interface*: [`User::of`] finds or makes the record of an id, which lives as long as a credential or a
//! [`Charge`] names it; a [`Cred`](crate::Cred) has that of its real user. [`User::charge`] counts something
//! for it, up to a bound, until the charge is dropped. [`share`] is what one user may have of a total, so
//! that the superuser finds room.
//!
//! An object that is charged to a user contains the charge: the count falls whenever the object is freed.
//! Counting takes no memory.
//! Progress: counting is lock-free; finding a record takes one monitor, when a process changes its user.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use abi::errno::Result;
use sync::Monitor;
use vm::fallible::try_insert_at;

/// The superuser.
const ROOT: u32 = 0;

/// The counted resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Resource {
    /// Processes and threads.
    Tasks,
    /// Pages that may not leave memory.
    LockedPages,
    /// Signals that wait with data, and timers that send them.
    Signals,
    /// Bytes of message queues.
    QueueBytes,
    /// Record locks.
    Locks,
    /// Pages of pipes' buffers.
    PipePages,
    /// Open file descriptions.
    Descriptions,
    /// Timers that are files: each may have an alarm.
    TimerFds,
    /// Instances of inotify.
    Instances,
    /// Their marks.
    Watches,
    /// Bytes of messages between sockets.
    Messages,
    /// Descriptors on their way in them.
    Flying,
    /// Pseudo-terminals.
    Terminals,
    /// Bytes of large descriptor tables.
    Tables,
    /// Bytes of other kernel memory.
    Bytes,
}

/// How many kinds there are.
const KINDS: usize = Resource::Bytes as usize + 1;

/// One user.
#[derive(Debug)]
pub struct User {
    uid: u32,
    counts: [AtomicU64; KINDS],
}

impl PartialEq for User {
    fn eq(&self, other: &User) -> bool {
        self.uid == other.uid
    }
}

impl Eq for User {}

/// The records that there are, by rising id; an unused record is freed when another comes.
static USERS: Monitor<Vec<(u32, Weak<User>)>> = Monitor::new(Vec::new());

impl User {
    /// The record of user `uid`. ENOMEM.
    pub fn of(uid: u32) -> Result<Arc<User>> {
        // Bound: **linear** in the users that have processes or hold something; when a process changes its
        // real user.
        let mut users = USERS.lock();
        let found = users.binary_search_by_key(&uid, |user| user.0);
        if let Ok(at) = found
            && let Some(user) = users[at].1.upgrade()
        {
            return Ok(user);
        }
        users.retain(|user| user.1.strong_count() != 0);
        let user = Arc::new(User {
            uid,
            counts: [const { AtomicU64::new(0) }; KINDS],
        });
        let at = users.partition_point(|user| user.0 < uid);
        try_insert_at(&mut users, at, (uid, Arc::downgrade(&user)))?;
        Ok(user)
    }

    /// The superuser's record, which is there from boot on.
    #[expect(
        clippy::unreachable,
        reason = "a record that exists is found without memory"
    )]
    pub fn root() -> Arc<User> {
        match User::of(ROOT) {
            Ok(user) => user,
            Err(_) => unreachable!("the first process keeps the superuser's record"),
        }
    }

    /// Its id.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// How much of `what` it holds.
    pub fn holds(&self, what: Resource) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }

    /// Counts `amount` more of `what` until the charge is dropped. `None`: it would hold more than `most`.
    #[inline]
    pub fn charge(self: &Arc<User>, what: Resource, amount: u64, most: u64) -> Option<Charge> {
        let mut charge = Charge {
            user: self.clone(),
            what,
            amount: 0,
        };
        charge.grow(amount, most).then_some(charge)
    }

    fn add(&self, what: Resource, amount: u64, most: u64) -> bool {
        let count = &self.counts[what as usize];
        let more = |now: u64| now.checked_add(amount).filter(|&then| then <= most);
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }
}

/// The part of `total` that one user may hold: a sixteenth is left to the superuser.
pub fn share(total: u64) -> u64 {
    total - total / 16
}

/// Something that a user holds, as long as this is kept.
#[derive(Debug)]
pub struct Charge {
    user: Arc<User>,
    what: Resource,
    amount: u64,
}

impl Charge {
    /// Its user.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Counts `amount` more. `false`, and nothing changes: the user would hold more than `most`.
    #[inline]
    pub fn grow(&mut self, amount: u64, most: u64) -> bool {
        let grown = self.user.add(self.what, amount, most);
        if grown {
            self.amount += amount;
        }
        grown
    }

    /// Gives back `amount` of it, or all if that is less.
    pub fn shrink(&mut self, amount: u64) {
        let amount = amount.min(self.amount);
        self.user.counts[self.what as usize].fetch_sub(amount, Ordering::Relaxed);
        self.amount -= amount;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_holds_no_more_than_the_bound_and_gives_everything_back() {
        let user = User::of(70_001).unwrap();
        let mut first = user.charge(Resource::Locks, 3, 5).unwrap();
        assert!(user.charge(Resource::Locks, 3, 5).is_none());
        assert!(first.grow(2, 5) && !first.grow(1, 5) && !first.grow(u64::MAX, u64::MAX));
        first.shrink(4);
        assert_eq!(
            (user.holds(Resource::Locks), user.holds(Resource::Tasks)),
            (1, 0)
        );
        drop(first);
        assert_eq!(user.holds(Resource::Locks), 0);
    }

    #[test]
    fn a_record_is_one_while_it_is_named_and_goes_after() {
        let user = User::of(70_002).unwrap();
        let charge = user.charge(Resource::Tasks, 1, 1).unwrap();
        drop(user);
        assert_eq!(User::of(70_002).unwrap().holds(Resource::Tasks), 1);
        drop(charge);
        for uid in 80_000..80_100 {
            User::of(uid).unwrap();
        }
        assert!(USERS.lock().iter().filter(|user| user.0 >= 80_000).count() <= 1);
        assert!(USERS.lock().is_sorted_by_key(|user| user.0));
    }
}
