//! The entries of one directory in memory.
//!
//! *Interface.* [`Directory`]: [`names`](Directory::names) finds an entry without a lock; [`Directory::lock`]
//! gives [`Names`], by which they are changed, and listed for `readdir` in order of creation: an entry's
//! place in that order ([`FIRST`] and up) never changes, so a reader loses and repeats nothing while others
//! create and remove.
//!
//! An entry that leaves a directory is handed to the caller, to be dropped when no monitor is held: it goes a
//! grace period later.
//!
//! *Unsafe*: a table that the monitor's holder alone changes.

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use super::TmpInode;
use super::dir_order::DirOrder;
use crate::fs::dentry::{Dentry, hash};
use crate::fs::inode::Inode;
use sync::hash_table::{Contents, Filling, Removed};
use sync::{Guard, HashTable, Monitor};
use vm::fallible::{try_box, try_reserve, try_slice};

/// Place of the first real entry; 0 and 1 are `.` and `..`.
pub const FIRST: u64 = 2;

/// A directory's entries.
pub struct Directory {
    names: HashTable<Dentry>,
    /// Its size for `stat`; changed with the entries.
    size: AtomicU64,
    dir: Monitor<Dir>,
}

/// Bytes that `stat` reports for a directory, for each entry.
const ENTRY_SIZE: u64 = 20;

/// The size of a directory with so many entries, and the two that each has.
fn size_of_entries(count: usize) -> u64 {
    (count as u64 + 2) * ENTRY_SIZE
}

/// The data for changes of a directory.
pub struct Dir {
    filling: Filling,
    by_place: DirOrder<Standing>,
    next: u64,
    /// It was removed: nothing can be made in it any more.
    dead: bool,
}

/// An entry of the table.
#[derive(Clone, Copy)]
struct Standing(NonNull<Dentry>);

// SAFETY: it stands for a shared reference.
unsafe impl Send for Standing {}

/// A directory, locked against other changes.
pub struct Names<'a> {
    names: &'a HashTable<Dentry>,
    size: &'a AtomicU64,
    dir: Guard<'a, Dir>,
}

impl Directory {
    /// An empty directory.
    pub fn new() -> Directory {
        Directory {
            names: HashTable::new(),
            size: AtomicU64::new(size_of_entries(0)),
            dir: Monitor::new(Dir {
                filling: Filling::new(),
                by_place: DirOrder::new(),
                next: FIRST,
                dead: false,
            }),
        }
    }

    /// Its entries, for readers without a lock.
    #[inline]
    pub fn names(&self) -> &HashTable<Dentry> {
        &self.names
    }

    /// Its size for `stat`.
    pub fn size(&self) -> &AtomicU64 {
        &self.size
    }

    /// Keeps others from changing it.
    pub fn lock(&self) -> Names<'_> {
        Names {
            names: &self.names,
            size: &self.size,
            // Bound: one directory: a look-up, an entry more or less, **linear** for a larger table, for
            // closing holes in the order and for listing; nobody takes it to find a name on the way of a
            // path.
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
        self.find_hashed(hash(name), name)
    }

    /// As [`Names::find`], by the hash of `name`.
    fn find_hashed(&self, hash: u64, name: &[u8]) -> Option<&Dentry> {
        // SAFETY: the monitor is held, and the table changes only under it.
        unsafe { self.names.find(hash, |entry| entry.is(name)) }
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
    pub fn add(
        &mut self,
        name: &[u8],
        node: Arc<TmpInode>,
    ) -> Result<(Arc<[u8]>, Removed<Dentry>)> {
        if self.dir.dead {
            return Err(Errno::ENOENT);
        }
        let hash = hash(name);
        if self.find_hashed(hash, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let name = try_slice(name)?;
        let dir = &mut *self.dir;
        let place = dir.next;
        let entry = try_box(Dentry::hashed(hash, name.clone(), place, node))?;
        dir.by_place.push(place, Standing(NonNull::from(&*entry)))?;
        // SAFETY: the monitor is held, and the filling is this table's.
        let added = unsafe {
            self.names
                .add(&mut dir.filling, entry, try_reserve, try_box)
        };
        if added.is_err() {
            dir.by_place.take(place);
        }
        let left = added?;
        dir.next += 1;
        let size = size_of_entries(dir.filling.entries());
        self.size.store(size, Ordering::Relaxed);
        Ok((name, left))
    }

    /// Takes the entry `name` out if it `may` go.
    pub fn remove(&mut self, name: &[u8], may: impl Fn(&Dentry) -> bool) -> Removed<Dentry> {
        let dir = &mut *self.dir;
        // SAFETY: the monitor is held, and the filling is this table's.
        let left = unsafe {
            self.names.take(&mut dir.filling, hash(name), |entry| {
                entry.is(name) && may(entry)
            })
        };
        if let Some(entry) = left.get() {
            dir.by_place.take(entry.place);
            let size = size_of_entries(dir.filling.entries());
            self.size.store(size, Ordering::Relaxed);
        }
        left
    }

    /// An entry for `node` that is to take the place of what `name` names. ENOENT, ENOMEM.
    pub fn prepare(&self, name: &[u8], node: Arc<TmpInode>) -> Result<Box<Dentry>> {
        let old = self.find(name).ok_or(Errno::ENOENT)?;
        try_box(Dentry::new(old.name.clone(), old.place, node))
    }

    /// Inserts the prepared entry, if its name still exists. Returns the removed objects.
    pub fn replace(&mut self, entry: Box<Dentry>) -> Removed<Dentry> {
        let name = entry.name.clone();
        let (place, new) = (entry.place, Standing(NonNull::from(&*entry)));
        // SAFETY: the monitor is held.
        let left = unsafe { self.names.replace(entry, |entry| entry.is(&name)) };
        match left.get() {
            Some(old) if old.place == place => self.dir.by_place.replace(place, new),
            // It was prepared for another, and is not listed.
            Some(old) => self.dir.by_place.take(old.place),
            None => {}
        }
        left
    }

    /// The entries from place `from` on.
    #[inline]
    pub fn from(&self, from: u64) -> impl Iterator<Item = &Dentry> {
        // SAFETY: what is in the order is in the table, and the monitor is held, without which nothing
        // leaves either.
        self.dir
            .by_place
            .from(from)
            .map(|entry| unsafe { entry.0.as_ref() })
    }
}

impl Default for Directory {
    fn default() -> Directory {
        Directory::new()
    }
}
