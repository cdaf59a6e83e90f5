//! The entries of one directory in memory.
//!
//! *Interface.* [`Directory`]: [`names`](Directory::names) finds an entry without a lock; [`Directory::lock`]
//! gives [`Names`], by which they are changed, and listed for `readdir` in order of creation: an entry's
//! place in that order ([`FIRST`] and up) never changes, so a reader loses and repeats nothing while others
//! create and remove.
//!
//! What leaves a directory is handed to the caller, to be dropped when no monitor is held: it goes a grace
//! period later.

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::MemNode;
use crate::fs::entry::{Dentry, hash};
use crate::fs::inode::Inode;
use sync::table::{Contents, Filling, Left};
use sync::{Guard, Monitor, Table};
use vm::fallible::{try_box, try_insert, try_reserve, try_slice};

/// Place of the first real entry; 0 and 1 are `.` and `..`.
pub const FIRST: u64 = 2;

/// A directory's entries.
pub struct Directory {
    names: Table<Dentry>,
    dir: Monitor<Dir>,
}

/// The data for changes of a directory.
pub struct Dir {
    filling: Filling,
    by_place: BTreeMap<u64, Arc<[u8]>>,
    next: u64,
    /// It was removed: nothing can be made in it any more.
    dead: bool,
}

/// A directory, locked against other changes.
pub struct Names<'a> {
    names: &'a Table<Dentry>,
    dir: Guard<'a, Dir>,
}

impl Directory {
    /// An empty directory.
    pub fn new() -> Directory {
        Directory {
            names: Table::new(),
            dir: Monitor::new(Dir {
                filling: Filling::new(),
                by_place: BTreeMap::new(),
                next: FIRST,
                dead: false,
            }),
        }
    }

    /// Its entries, for readers without a lock.
    #[inline]
    pub fn names(&self) -> &Table<Dentry> {
        &self.names
    }

    /// Keeps others from changing it.
    pub fn lock(&self) -> Names<'_> {
        Names {
            names: &self.names,
            dir: self.dir.lock(),
        }
    }

    /// Its entries, when it goes.
    pub fn contents(&mut self) -> Contents<Dentry> {
        self.names.contents()
    }
}

impl Names<'_> {
    fn find(&self, name: &[u8]) -> Option<&Dentry> {
        // SAFETY: the monitor is held, and the table changes only under it.
        unsafe { self.names.find(hash(name), |entry| entry.is(name)) }
    }

    /// The node called `name`.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<dyn Inode>> {
        self.find(name).map(|entry| &entry.inode)
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        self.dir.dead
    }

    /// It is removed.
    pub fn end(&mut self) {
        self.dir.dead = true;
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.dir.filling.entries()
    }

    /// Adds an entry; returns its name, and the removed objects. `EEXIST`, and `ENOENT` in a removed
    /// directory. ENOMEM.
    pub fn add(&mut self, name: &[u8], node: Arc<MemNode>) -> Result<(Arc<[u8]>, Left<Dentry>)> {
        if self.dir.dead {
            return Err(Errno::ENOENT);
        }
        if self.find(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let name = try_slice(name)?;
        let dir = &mut *self.dir;
        let place = dir.next;
        let entry = try_box(Dentry::new(name.clone(), place, node))?;
        try_insert(&mut dir.by_place, place, name.clone())?;
        // SAFETY: the monitor is held, and the filling is this table's.
        let added = unsafe {
            self.names
                .add(&mut dir.filling, entry, try_reserve, try_box)
        };
        if added.is_err() {
            dir.by_place.remove(&place);
        }
        let left = added?;
        dir.next += 1;
        Ok((name, left))
    }

    /// Takes the entry `name` out.
    pub fn remove(&mut self, name: &[u8]) -> Left<Dentry> {
        let dir = &mut *self.dir;
        // SAFETY: the monitor is held, and the filling is this table's.
        let left = unsafe {
            self.names
                .take(&mut dir.filling, hash(name), |entry| entry.is(name))
        };
        if let Some(entry) = left.get() {
            dir.by_place.remove(&entry.place);
        }
        left
    }

    /// An entry for `node` that is to take the place of what `name` names. ENOENT, ENOMEM.
    pub fn prepare(&self, name: &[u8], node: Arc<MemNode>) -> Result<Box<Dentry>> {
        let old = self.find(name).ok_or(Errno::ENOENT)?;
        try_box(Dentry::new(old.name.clone(), old.place, node))
    }

    /// Inserts the prepared entry, if its name still exists. Returns the removed objects.
    pub fn replace(&mut self, entry: Box<Dentry>) -> Left<Dentry> {
        let name = entry.name.clone();
        // SAFETY: the monitor is held.
        unsafe { self.names.replace(entry, |entry| entry.is(&name)) }
    }

    /// The entries from place `from` on.
    pub fn from(&self, from: u64) -> impl Iterator<Item = (u64, &[u8], &Dentry)> {
        self.dir
            .by_place
            .range(from..)
            .filter_map(|(place, name)| self.find(name).map(|entry| (*place, &**name, entry)))
    }
}

impl Default for Directory {
    fn default() -> Directory {
        Directory::new()
    }
}
