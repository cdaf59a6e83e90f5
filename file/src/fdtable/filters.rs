//! Filters come to an open file and go from it: then all tables get other routines.
//!
//! *Interface*: [`OpenFile::insert_filter`] and [`OpenFile::remove_filter`]. Between these,
//! [`crate::fs::file::filters`] has the bytes pass.

use abi::errno::{Errno, Result};
use account::Cred;
use alloc::sync::Arc;
use quaject::by_name::{self, Quaject};
use sync::epoch;

use super::replug_everywhere;
use crate::fs::file::OpenFile;
use crate::fs::file::filters::{Direction, Filters, Inserter, controls};

impl OpenFile {
    /// Puts `filter` of `user` in front of those that there are on this way. EBADF: not open for that. EPERM:
    /// filters of another user. The errors of [`by_name::insert`]. May sleep for a grace period.
    pub fn insert_filter(
        self: &Arc<Self>,
        user: &Arc<Cred>,
        direction: Direction,
        filter: &dyn Quaject,
    ) -> Result<()> {
        let open = match direction {
            Direction::Incoming => self.readable(),
            Direction::Outgoing => self.writable(),
        };
        if !open {
            return Err(Errno::EBADF);
        }
        let filters = self.make_filters()?;
        // Bound: making the routines of a stream, and a look at all tables with two grace periods; only users
        // of a description that has filters.
        let mut owner = filters.owner.lock();
        match &owner.0 {
            Some(owner) if !controls(user, owner) => return Err(Errno::EPERM),
            Some(_) => {}
            None => {
                if controls(user, user) {
                    filters.stream.act_for(Arc::as_ptr(user).addr());
                }
                owner.0 = Some(user.clone());
                self.stand_aside(true);
            }
        }
        let inserted = by_name::insert(&filters.stream, direction.name(), filter);
        self.leave_alone(filters, &mut owner);
        inserted.map_err(Errno::from)
    }

    /// For `user`, takes the filter number `which`, or without a number all, out of this way. ENOENT: it is
    /// not there. EPERM, ENOMEM. May sleep for a grace period.
    pub fn remove_filter(
        self: &Arc<Self>,
        user: &Cred,
        direction: Direction,
        which: Option<u32>,
    ) -> Result<()> {
        let filters = self.filters().ok_or(Errno::ENOENT)?;
        let mut owner = filters.owner.lock();
        match &owner.0 {
            Some(owner) if controls(user, owner) => {}
            Some(_) => return Err(Errno::EPERM),
            None => return Err(Errno::ENOENT),
        }
        let name = direction.name();
        let removed = match which {
            Some(which) => by_name::remove(&filters.stream, name, which),
            None => by_name::unlink_by_name(&filters.stream, name),
        };
        self.leave_alone(filters, &mut owner);
        removed.map_err(Errno::from)
    }

    /// Plain routines again, if no filter is left.
    fn leave_alone(self: &Arc<Self>, filters: &Filters, owner: &mut Inserter) {
        let link = |direction: Direction| filters.stream.header().link(direction.port());
        if link(Direction::Incoming).is_none() && link(Direction::Outgoing).is_none() {
            filters.stream.act_for(0);
            owner.0 = None;
            self.stand_aside(false);
        }
    }

    /// Has all its calls look for filters from the return on, or none.
    fn stand_aside(self: &Arc<Self>, on: bool) {
        self.set_filtered(on);
        replug_everywhere(self);
        // No thread is in a routine that it has left behind.
        // Bound: a grace period, asleep, after the first filter and after the last.
        epoch::synchronize();
    }
}
