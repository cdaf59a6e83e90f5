//! The parent cache: the directory in which a CPU has last made, removed or opened a name. A path that
//! begins as the last one did is followed from there.
//!
//! *Interface*: [`find`] the directory that a path begins with, [`note`] one that was found step by step.
//!
//! Programs make, open and remove many files of one directory in turn. An entry holds for an identity, from
//! the same starting directory, and as long as the path cache's generation is the one from before the
//! directory was looked for ([`super::path_cache`]): then no directory has been removed, moved or covered
//! since, and no right to search one has changed. So nothing is counted for it: a directory or a mount that
//! goes is freed a grace period after the generation has changed.
//!
//! Progress: wait-free. An entry is its CPU's: no other reads or writes it, and since interrupts are off in
//! [`find`] and [`note`], the thread that does stays there and no second one comes between. So there is
//! nothing for a model of several threads. A version number tells when somebody else changed it meanwhile,
//! which happens only where a test's threads are one CPU.
//!
//! *Unsafe*: directories and mounts that live until a grace period after the generation has changed.

use alloc::sync::Arc;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use machine::cpu::{MAX_CPUS, this_cpu};
use machine::irqs_off::IrqsOff;

use super::dentry::word as word_of;
use super::inode::Inode;
use super::mount::{Mount, VfsPath};
use super::path_cache;
use super::published::Published;
use account::{CredId, NOBODY};

/// Words of a beginning that is short enough.
const WORDS: usize = 6;
const WORD: usize = size_of::<u64>();

/// A directory on the way of a path.
#[derive(Clone, Copy)]
pub(super) struct Directory<'a> {
    /// The mount.
    pub mount: &'a Mount,
    /// The inode.
    pub inode: &'a Arc<dyn Inode>,
    /// The part that the inode shows.
    pub shown: &'a Published,
}

/// Where and by whom a directory is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Search {
    /// Device and number of the starting directory, and the address of its mount.
    start: (u64, u64, usize),
    who: CredId,
    generation: u64,
}

impl<'a> Directory<'a> {
    /// `place`, if it shows something.
    #[inline]
    pub fn of(place: &'a VfsPath) -> Option<Directory<'a>> {
        Some(Directory {
            mount: &place.mount,
            inode: &place.inode,
            shown: place.shows()?,
        })
    }
}

impl Search {
    /// One that begins now, from `start`, which shows `shown`.
    #[inline]
    pub fn from(start: &VfsPath, shown: &Published, who: CredId) -> Search {
        let (dev, ino) = shown.id();
        Search {
            start: (dev, ino, ptr::from_ref(&*start.mount).addr()),
            who,
            generation: path_cache::generation(),
        }
    }
}

/// The memory of one CPU.
struct Recent {
    /// Odd while the words behind it are changed.
    version: AtomicU32,
    /// Bytes of the beginning, the slash at its end included; 0: nothing is remembered.
    length: AtomicUsize,
    /// The beginning, and zeros.
    path: [AtomicU64; WORDS],
    dev: AtomicU64,
    ino: AtomicU64,
    start: AtomicUsize,
    who: AtomicU64,
    generation: AtomicU64,
    mount: AtomicPtr<Mount>,
    inode: AtomicPtr<Arc<dyn Inode>>,
    shown: AtomicPtr<Published>,
}

static RECENT: [Recent; MAX_CPUS] = [const { Recent::new() }; MAX_CPUS];

/// The directory that `path` begins with, and how many bytes of the path lead there, the slash included.
///
/// # Safety
/// The starting directory is there.
#[inline]
pub(super) unsafe fn find<'a>(
    search: Search,
    path: &[u8],
    _off: &'a IrqsOff,
) -> Option<(Directory<'a>, usize)> {
    let recent = &RECENT[this_cpu().number()];
    let version = recent.version.load(Ordering::Acquire);
    let length = recent.length.load(Ordering::Relaxed);
    if length == 0 || recent.search() != search || !recent.begins(path, length) {
        return None;
    }
    let mount = recent.mount.load(Ordering::Relaxed);
    let inode = recent.inode.load(Ordering::Relaxed);
    let shown = recent.shown.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    if version & 1 != 0 || recent.version.load(Ordering::Relaxed) != version {
        return None;
    }
    // SAFETY: they were found since the generation began that still holds, so they are there, and stay for a
    // grace period after it ends, which does not end here while interrupts are off.
    let directory = unsafe {
        Directory {
            mount: &*mount,
            inode: &*inode,
            shown: &*shown,
        }
    };
    Some((directory, length))
}

/// `search` has found that `path`, which is a beginning that ends in a slash, leads to `directory`: which is
/// an entry's, or the root of a mount.
#[inline(never)]
pub(super) fn note(search: Search, path: &[u8], directory: Directory<'_>) {
    let recent = &RECENT[this_cpu().number()];
    let version = recent.version.load(Ordering::Relaxed);
    let begun = || {
        let next = version.wrapping_add(1);
        recent
            .version
            .compare_exchange(version, next, Ordering::Acquire, Ordering::Relaxed)
    };
    if path.len() > WORDS * WORD || search.who == NOBODY || version & 1 != 0 || begun().is_err() {
        return;
    }
    fence(Ordering::Release);
    for (at, word) in recent.path.iter().enumerate() {
        word.store(word_of(path, at * WORD), Ordering::Relaxed);
    }
    let Search {
        start: (dev, ino, start),
        who,
        generation,
    } = search;
    recent.length.store(path.len(), Ordering::Relaxed);
    recent.dev.store(dev, Ordering::Relaxed);
    recent.ino.store(ino, Ordering::Relaxed);
    recent.start.store(start, Ordering::Relaxed);
    recent.who.store(who, Ordering::Relaxed);
    recent.generation.store(generation, Ordering::Relaxed);
    let mount = ptr::from_ref(directory.mount).cast_mut();
    recent.mount.store(mount, Ordering::Relaxed);
    let inode = ptr::from_ref(directory.inode).cast_mut();
    recent.inode.store(inode, Ordering::Relaxed);
    let shown = ptr::from_ref(directory.shown).cast_mut();
    recent.shown.store(shown, Ordering::Relaxed);
    recent
        .version
        .store(version.wrapping_add(2), Ordering::Release);
}

impl Recent {
    const fn new() -> Recent {
        Recent {
            version: AtomicU32::new(0),
            length: AtomicUsize::new(0),
            path: [const { AtomicU64::new(0) }; WORDS],
            dev: AtomicU64::new(0),
            ino: AtomicU64::new(0),
            start: AtomicUsize::new(0),
            who: AtomicU64::new(NOBODY),
            generation: AtomicU64::new(0),
            mount: AtomicPtr::new(ptr::null_mut()),
            inode: AtomicPtr::new(ptr::null_mut()),
            shown: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The search that found it.
    #[inline(always)]
    fn search(&self) -> Search {
        Search {
            start: (
                self.dev.load(Ordering::Relaxed),
                self.ino.load(Ordering::Relaxed),
                self.start.load(Ordering::Relaxed),
            ),
            who: self.who.load(Ordering::Relaxed),
            generation: self.generation.load(Ordering::Relaxed),
        }
    }

    /// Whether `path` has its beginning, which is `length` bytes long.
    #[inline(always)]
    fn begins(&self, path: &[u8], length: usize) -> bool {
        let (words, _) = path.as_chunks::<WORD>();
        let mut left = length;
        for (word, ours) in words.iter().zip(&self.path) {
            let differs = u64::from_le_bytes(*word) ^ ours.load(Ordering::Relaxed);
            if left <= WORD {
                // The last bytes are in the lower end.
                return differs << (8 * (WORD - left)) == 0;
            }
            if differs != 0 {
                return false;
            }
            left -= WORD;
        }
        false
    }
}
