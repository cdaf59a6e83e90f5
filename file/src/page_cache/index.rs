//! The cached files of all file systems: found when they are reopened, and shrunk when memory is short.
//!
//! *Interface*: [`find`] by file system and number; [`forget`] a deleted file; [`evict`] takes clean pages
//! from files in turn, and [`make_room`] also dirty ones if necessary; [`flush_all`] stores all dirty pages.
//!
//! Eviction goes round: a file that was used since the last time keeps its pages once.

use abi::errno::Result;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::Monitor;

use super::{CachedFile, EvictScope};
use vm::fallible::try_insert;

/// File system and number.
type Id = (u64, u64);

/// A file system that there is not, for files that are gone.
const NOWHERE: u64 = u64::MAX;

struct Index {
    files: BTreeMap<Id, Arc<CachedFile>>,
    /// Where eviction continues.
    hand: Id,
}

static INDEX: Monitor<Index> = Monitor::new(Index {
    files: BTreeMap::new(),
    hand: (0, 0),
});

/// The pages of file `id`; those that `make` makes if there are none. ENOMEM.
pub fn find(id: Id, make: impl FnOnce() -> Result<Arc<CachedFile>>) -> Result<Arc<CachedFile>> {
    // Bound: a look in the tree of cached files.
    if let Some(file) = INDEX.lock().files.get(&id) {
        return Ok(file.clone());
    }
    let new = make()?;
    let mut index = INDEX.lock();
    if let Some(file) = index.files.get(&id).cloned() {
        drop(index);
        return Ok(file);
    }
    try_insert(&mut index.files, id, new.clone())?;
    Ok(new)
}

/// The pages of file `id`, if it was opened before.
pub fn known(id: Id) -> Option<Arc<CachedFile>> {
    INDEX.lock().files.get(&id).cloned()
}

/// File `id` has no name any more: its number may be reused. Open descriptions still have its pages, which
/// can be evicted.
pub fn forget(id: Id) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut index = INDEX.lock();
    let gone = index.files.remove(&id);
    let kept = gone.as_ref().filter(|file| Arc::strong_count(file) > 1);
    // Without memory for that it keeps its pages until it is closed.
    let _refused = kept.map(|file| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        try_insert(&mut index.files, (NOWHERE, number), file.clone())
    });
    drop(index);
    drop(gone);
}

/// The next file behind `hand`, going round, and its number.
fn next(files: &BTreeMap<Id, Arc<CachedFile>>, hand: Id) -> Option<(Id, Arc<CachedFile>)> {
    let (dev, number) = hand;
    let behind = files.range((dev, number.saturating_add(1))..).next();
    let (id, file) = behind.or_else(|| files.first_key_value())?;
    Some((*id, file.clone()))
}

/// Takes pages away, about `most`: clean ones, then clean ones that programs have mapped and do not use, then
/// those that are stored for that, then mapped ones that are used. How many. As [`evict`].
pub fn make_room(most: usize) -> usize {
    // A page that was used is left alone once.
    for reach in [EvictScope::Unmapped, EvictScope::Unused, EvictScope::Unused] {
        let count = evict(most, reach);
        if count > 0 {
            return count;
        }
    }
    if super::dirty() > 0 {
        flush_all(None);
        let count = evict(most, EvictScope::Unmapped);
        if count > 0 {
            return count;
        }
    }
    evict(most, EvictScope::Mapped)
}

/// Takes clean pages away as far as `reach` says, until `most` have gone or all files were looked at twice.
/// How many. Thread context, without a monitor of a cached file's table.
pub fn evict(most: usize, reach: EvictScope) -> usize {
    let mut rounds = 2 * INDEX.lock().files.len();
    let mut count = 0;
    while count < most && rounds > 0 {
        rounds -= 1;
        let mut index = INDEX.lock();
        let Some((id, file)) = next(&index.files, index.hand) else {
            break;
        };
        index.hand = id;
        drop(index);
        if !file.used.swap(false, Ordering::Relaxed) {
            count += file.evict(most - count, reach);
            drop_if_idle(id, file);
        }
    }
    count
}

/// An unused file without pages is removed from the index.
fn drop_if_idle(id: Id, file: Arc<CachedFile>) {
    let mut index = INDEX.lock();
    // The index has one count, and this another.
    let alone = Arc::strong_count(&file) == 2;
    let idle = alone && (file.resident() == 0 || id.0 == NOWHERE);
    let gone = idle.then(|| index.files.remove(&id)).flatten();
    drop(index);
    drop((gone, file));
}

/// Stores the dirty pages of all files of file system `dev`, or of all file systems; only of files that are
/// dirty when it begins.
pub fn flush_all(dev: Option<u64>) {
    each(dev, |file| {
        if file.is_dirty() {
            file.flush();
        }
    });
}

/// Calls `f` with each file of file system `dev`, or of all, with nothing held.
pub fn each(dev: Option<u64>, mut f: impl FnMut(&Arc<CachedFile>)) {
    let mut from = (dev.unwrap_or(0), 0);
    loop {
        let index = INDEX.lock();
        let Some((id, file)) = index.files.range(from..).next() else {
            return;
        };
        let (id, file) = (*id, file.clone());
        drop(index);
        if dev.is_some_and(|dev| id.0 != dev) {
            return;
        }
        f(&file);
        let Some(behind) = id.1.checked_add(1) else {
            return;
        };
        from = (id.0, behind);
    }
}

/// Pages of all files, and how many of them are dirty.
pub fn counts() -> (usize, usize) {
    let mut pages = 0;
    each(None, |file| pages += file.resident());
    (pages, super::dirty())
}
