//! The entries of one directory in memory.
//!
//! *Interface.* Names in byte order for look-up, and in order of creation for `readdir`: an entry's place in that order
//! ([`FIRST`] and up) never changes, so a reader loses and repeats nothing while others create and remove.

use abi::errno::{Errno, Result};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::MemNode;

/// Place of the first real entry; 0 and 1 are `.` and `..`.
pub const FIRST: u64 = 2;

/// A directory's entries.
pub struct Dir {
    by_name: BTreeMap<Arc<[u8]>, Entry>,
    by_place: BTreeMap<u64, Arc<[u8]>>,
    next: u64,
    /// It was removed: nothing can be made in it any more.
    pub dead: bool,
}

struct Entry {
    place: u64,
    node: Arc<MemNode>,
}

impl Dir {
    /// An empty directory.
    pub const fn new() -> Dir {
        Dir {
            by_name: BTreeMap::new(),
            by_place: BTreeMap::new(),
            next: FIRST,
            dead: false,
        }
    }

    /// The node called `name`.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<MemNode>> {
        self.by_name.get(name).map(|e| &e.node)
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Adds an entry; `EEXIST`, and `ENOENT` in a removed directory.
    pub fn add(&mut self, name: &[u8], node: Arc<MemNode>) -> Result<()> {
        if self.dead {
            return Err(Errno::ENOENT);
        }
        if self.by_name.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let name: Arc<[u8]> = name.into();
        let place = self.next;
        self.next += 1;
        self.by_place.insert(place, name.clone());
        self.by_name.insert(name, Entry { place, node });
        Ok(())
    }

    /// Removes an entry.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<MemNode>> {
        let entry = self.by_name.remove(name)?;
        self.by_place.remove(&entry.place);
        Some(entry.node)
    }

    /// Puts `node` in the place of what `name` named, which it returns.
    pub fn replace(&mut self, name: &[u8], node: Arc<MemNode>) -> Option<Arc<MemNode>> {
        let entry = self.by_name.get_mut(name)?;
        Some(core::mem::replace(&mut entry.node, node))
    }

    /// The entries from place `from` on.
    pub fn from(&self, from: u64) -> impl Iterator<Item = (u64, &[u8], &Arc<MemNode>)> {
        self.by_place
            .range(from..)
            .filter_map(|(place, name)| self.get(name).map(|node| (*place, &**name, node)))
    }

    /// Takes any one entry out, to take a tree apart without recursion.
    pub fn pop(&mut self) -> Option<Arc<MemNode>> {
        self.by_place.clear();
        self.by_name.pop_first().map(|(_, e)| e.node)
    }
}

impl Default for Dir {
    fn default() -> Dir {
        Dir::new()
    }
}
