//! The entries of one directory in memory.
//!
//! *Interface.* Found by name, and listed for `readdir` in order of creation: an entry's place in that order ([`FIRST`] and up)
//! never changes, so a reader loses and repeats nothing while others create and remove.
//!
//! Names are kept in a tree by their hash, whose keys are compared faster than names. Two names with one hash stand at
//! successive keys, as in a table with linear probing.

use abi::errno::{Errno, Result};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use super::MemNode;
use sync::Monitor;
use vm::fallible::{try_insert, try_slice};

/// Place of the first real entry; 0 and 1 are `.` and `..`.
pub const FIRST: u64 = 2;

/// A directory's entries.
pub struct Dir {
    by_hash: BTreeMap<u64, Entry>,
    by_place: BTreeMap<u64, Arc<[u8]>>,
    next: u64,
    /// The next that is taken apart, where this one is to be.
    behind: Option<Arc<MemNode>>,
    /// It was removed: nothing can be made in it any more.
    pub dead: bool,
}

struct Entry {
    name: Arc<[u8]>,
    place: u64,
    node: Arc<MemNode>,
}

/// A key for `name`, eight bytes at a step.
fn hash(name: &[u8]) -> u64 {
    let mix = |h: u64, word: u64| (h.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let (words, rest) = name.as_chunks::<8>();
    let mut h = name.len() as u64;
    for word in words {
        h = mix(h, u64::from_le_bytes(*word));
    }
    rest.iter().fold(h, |h, byte| mix(h, u64::from(*byte)))
}

impl Dir {
    /// An empty directory.
    pub const fn new() -> Dir {
        Dir {
            by_hash: BTreeMap::new(),
            by_place: BTreeMap::new(),
            next: FIRST,
            behind: None,
            dead: false,
        }
    }

    /// The key that `name` stands at, or else the first free one that it could stand at.
    fn key(&self, name: &[u8]) -> core::result::Result<u64, u64> {
        let mut key = hash(name);
        loop {
            match self.by_hash.get(&key) {
                Some(entry) if *entry.name == *name => return Ok(key),
                Some(_) => key = key.wrapping_add(1),
                None => return Err(key),
            }
        }
    }

    /// The node called `name`.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<MemNode>> {
        let mut key = hash(name);
        loop {
            let entry = self.by_hash.get(&key)?;
            if *entry.name == *name {
                return Some(&entry.node);
            }
            key = key.wrapping_add(1);
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Adds an entry; `EEXIST`, and `ENOENT` in a removed directory. ENOMEM.
    pub fn add(&mut self, name: &[u8], node: Arc<MemNode>) -> Result<()> {
        if self.dead {
            return Err(Errno::ENOENT);
        }
        let Err(key) = self.key(name) else {
            return Err(Errno::EEXIST);
        };
        let name = try_slice(name)?;
        let place = self.next;
        try_insert(&mut self.by_place, place, name.clone())?;
        let entry = Entry { name, place, node };
        if let Err(e) = try_insert(&mut self.by_hash, key, entry) {
            self.by_place.remove(&place);
            return Err(e);
        }
        self.next += 1;
        Ok(())
    }

    /// Removes an entry.
    pub fn remove(&mut self, name: &[u8]) -> Option<Arc<MemNode>> {
        let mut key = self.key(name).ok()?;
        let entry = self.by_hash.remove(&key)?;
        self.by_place.remove(&entry.place);
        // Whoever stood behind it because the key was taken moves up.
        loop {
            key = key.wrapping_add(1);
            match self.by_hash.remove(&key) {
                Some(behind) => {
                    let to = self.key(&behind.name).unwrap_or_else(|free| free);
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "as many as there were: a node at most, of what each thread was promised"
                    )]
                    self.by_hash.insert(to, behind);
                }
                None => return Some(entry.node),
            }
        }
    }

    /// Puts `node` in the place of what `name` named, which it returns.
    pub fn replace(&mut self, name: &[u8], node: Arc<MemNode>) -> Option<Arc<MemNode>> {
        let key = self.key(name).ok()?;
        let entry = self.by_hash.get_mut(&key)?;
        Some(core::mem::replace(&mut entry.node, node))
    }

    /// The entries from place `from` on.
    pub fn from(&self, from: u64) -> impl Iterator<Item = (u64, &[u8], &Arc<MemNode>)> {
        self.by_place
            .range(from..)
            .filter_map(|(place, name)| self.get(name).map(|node| (*place, &**name, node)))
    }

    /// Takes all entries out, and lets go of those that are not directories with entries themselves. Returns the chain of those that are, each of which has the next behind it. Needs no memory.
    pub fn take_apart(&mut self) -> Option<Arc<MemNode>> {
        let mut chain = self.behind.take();
        self.by_place.clear();
        while let Some((_, Entry { node, .. })) = self.by_hash.pop_first() {
            // What others have too goes when they let go of it.
            let inner = node.dir().ok().filter(|_| Arc::strong_count(&node) == 1);
            let goes_on = inner.and_then(Monitor::try_lock).is_some_and(|mut inner| {
                if !inner.is_empty() {
                    inner.behind = chain.take();
                }
                !inner.is_empty()
            });
            if goes_on {
                chain = Some(node);
            }
        }
        chain
    }
}

impl Default for Dir {
    fn default() -> Dir {
        Dir::new()
    }
}
