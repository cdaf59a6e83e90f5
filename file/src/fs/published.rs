//! The part of an inode that readers see without a lock: access rights, directory entries, mounts, and
//! the attributes of `stat`. A sequence lock guards it.
//!
//! *Interface*: [`Published`] is a part of the inode, which writes it: [`Published::publish`] all that
//! changes with its attributes, [`Published::note_times`] and [`Published::note_links`] a part.
//! [`super::lockfree_walk`] reads it, and generated code copies the attributes to a program as they lie here,
//! by the offsets in [`COPIED`]. That code takes [`VERSION`] before and after: an odd one, or another
//! afterwards, says that somebody changed them meanwhile, and a word other than 0 behind [`TOUCHED`] that
//! they must be made first.
//!
//! Progress: reading is wait-free, writing the straight line of who holds the inode's attributes.
//! Source: publication by version numbers (Lamport 1977; Linux calls it a sequence lock).
//!
//! *Unsafe*: words by address: one that says what must be made first; as generated code copies them, in a
//! test.

use abi::linux::Stat;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use sync::HashTable;

use super::attr::{BLOCK_SIZE, FileTime};
use super::dentry::Dentry;
use super::inactive::Inactive;
use super::lockfree_walk::AccessWord;
use super::meta::Meta;
use super::mount::Mount;

/// The part that an inode shows.
#[repr(C)]
pub struct Published {
    /// [`AccessWord`].
    access: AtomicU64,
    /// The entries, of a directory.
    names: AtomicPtr<HashTable<Dentry>>,
    /// Mounts on it.
    covered: AtomicU32,
    /// Odd while the words behind it are changed.
    version: AtomicU32,
    /// Addresses of words: the size in bytes, the memory in use in units of 512 bytes, and one that is 0
    /// while the words here are all there is to say.
    size: AtomicUsize,
    blocks: AtomicUsize,
    touched: AtomicUsize,
    /// As in `struct stat`.
    words: Words,
    /// The last mount on it.
    top: AtomicPtr<Mount>,
    /// The inactive list of its descriptions.
    list: AtomicPtr<Inactive>,
}

/// Words of `struct stat`.
#[repr(C)]
#[derive(Default)]
struct Words {
    dev: AtomicU64,
    ino: AtomicU64,
    nlink: AtomicU64,
    mode_and_uid: AtomicU64,
    gid: AtomicU64,
    rdev: AtomicU64,
    times: [AtomicU64; 6],
}

/// Where the version is in a [`Published`].
pub const VERSION: usize = offset_of!(Published, version);
/// Where the address of the word is that must be 0.
pub const TOUCHED: usize = offset_of!(Published, touched);

const fn word(within: usize, stat: usize) -> (usize, usize) {
    (offset_of!(Published, words) + within, stat)
}

/// Words to be copied: where they are in a [`Published`], and where in a [`Stat`].
pub const COPIED: [(usize, usize); 12] = [
    word(offset_of!(Words, dev), offset_of!(Stat, dev)),
    word(offset_of!(Words, ino), offset_of!(Stat, ino)),
    word(offset_of!(Words, nlink), offset_of!(Stat, nlink)),
    word(offset_of!(Words, mode_and_uid), offset_of!(Stat, mode)),
    word(offset_of!(Words, gid), offset_of!(Stat, gid)),
    word(offset_of!(Words, rdev), offset_of!(Stat, rdev)),
    word(offset_of!(Words, times), offset_of!(Stat, atime)),
    word(offset_of!(Words, times) + 8, offset_of!(Stat, atime_nsec)),
    word(offset_of!(Words, times) + 16, offset_of!(Stat, mtime)),
    word(offset_of!(Words, times) + 24, offset_of!(Stat, mtime_nsec)),
    word(offset_of!(Words, times) + 32, offset_of!(Stat, ctime)),
    word(offset_of!(Words, times) + 40, offset_of!(Stat, ctime_nsec)),
];
/// The same of words that are found by an address in a [`Published`].
pub const FOUND: [(usize, usize); 2] = [
    (offset_of!(Published, size), offset_of!(Stat, size)),
    (offset_of!(Published, blocks), offset_of!(Stat, blocks)),
];
/// Words that are always the same: where in a [`Stat`], and what.
pub const CONSTANT: [(usize, i32); 4] = [
    (offset_of!(Stat, blksize), BLOCK_SIZE as i32),
    (offset_of!(Stat, unused), 0),
    (offset_of!(Stat, unused) + 8, 0),
    (offset_of!(Stat, unused) + 16, 0),
];
// Every byte of a `Stat` is in one of them.
const _: () = assert!(8 * (COPIED.len() + FOUND.len() + CONSTANT.len()) == size_of::<Stat>());

/// A word that is 0, and one that is not.
static NOTHING: AtomicU64 = AtomicU64::new(0);
static SOMETHING: AtomicU32 = AtomicU32::new(1);

/// Where the rest of what an inode shows is, which stays as long as the inode.
#[derive(Default)]
pub struct PublishedParts<'a> {
    /// The size in bytes; none for 0.
    pub size: Option<&'a AtomicU64>,
    /// The memory in use, in units of 512 bytes; none for 0.
    pub blocks: Option<&'a AtomicU64>,
    /// A word that is 0 while all is as it is shown.
    pub touched: Option<&'a AtomicU32>,
    /// The entries.
    pub names: Option<&'a HashTable<Dentry>>,
    /// The inactive list of its descriptions.
    pub list: Option<&'a Inactive>,
}

impl Published {
    /// Device and number of the inode, which no other ever has.
    #[inline]
    pub fn id(&self) -> (u64, u64) {
        let Words { dev, ino, .. } = &self.words;
        (dev.load(Ordering::Relaxed), ino.load(Ordering::Relaxed))
    }

    /// Whether the inode has a name.
    #[inline]
    pub fn has_name(&self) -> bool {
        self.words.nlink.load(Ordering::Acquire) != 0
    }

    /// Of inode `ino` of file system `dev`, which is device `rdev` if it is one. Its attributes are not
    /// shown before [`Published::settle`].
    pub fn new(dev: u64, ino: u64, rdev: u64, meta: &Meta) -> Published {
        let nothing = ptr::from_ref(&NOTHING).expose_provenance();
        let shown = Published {
            access: AtomicU64::new(0),
            names: AtomicPtr::new(ptr::null_mut()),
            covered: AtomicU32::new(0),
            version: AtomicU32::new(0),
            size: AtomicUsize::new(nothing),
            blocks: AtomicUsize::new(nothing),
            touched: AtomicUsize::new(ptr::from_ref(&SOMETHING).expose_provenance()),
            words: Words {
                dev: AtomicU64::new(dev),
                ino: AtomicU64::new(ino),
                rdev: AtomicU64::new(rdev),
                ..Words::default()
            },
            top: AtomicPtr::new(ptr::null_mut()),
            list: AtomicPtr::new(ptr::null_mut()),
        };
        shown.publish(meta);
        shown
    }

    /// Says where the rest is. From here on attributes are shown.
    pub fn settle(&self, rest: PublishedParts) {
        if let Some(size) = rest.size {
            let at = ptr::from_ref(size).expose_provenance();
            self.size.store(at, Ordering::Relaxed);
        }
        if let Some(blocks) = rest.blocks {
            let at = ptr::from_ref(blocks).expose_provenance();
            self.blocks.store(at, Ordering::Relaxed);
        }
        if let Some(names) = rest.names {
            let at = ptr::from_ref(names).cast_mut();
            self.names.store(at, Ordering::Relaxed);
        }
        if let Some(list) = rest.list {
            let at = ptr::from_ref(list).cast_mut();
            self.list.store(at, Ordering::Relaxed);
        }
        let touched = match rest.touched {
            Some(touched) => ptr::from_ref(touched).expose_provenance(),
            None => ptr::from_ref(&NOTHING).expose_provenance(),
        };
        self.touched.store(touched, Ordering::Release);
    }

    /// Changes words; the caller holds the inode's attributes.
    #[inline(always)]
    fn change(&self, change: impl FnOnce(&Words)) {
        let version = self.version.load(Ordering::Relaxed).wrapping_add(1);
        self.version.store(version, Ordering::Relaxed);
        fence(Ordering::Release);
        change(&self.words);
        self.version
            .store(version.wrapping_add(1), Ordering::Release);
    }

    /// Shows what `meta`, which the caller holds, says.
    pub fn publish(&self, meta: &Meta) {
        self.change(|words| {
            let mode_and_uid = u64::from(meta.mode) | u64::from(meta.uid) << 32;
            words.mode_and_uid.store(mode_and_uid, Ordering::Relaxed);
            words.gid.store(u64::from(meta.gid), Ordering::Relaxed);
            words.nlink.store(u64::from(meta.nlink), Ordering::Relaxed);
            words.put_time(0, meta.atime);
            words.put_time(1, meta.mtime);
            words.put_time(2, meta.ctime);
        });
        self.access.store(meta.access().word(), Ordering::Release);
    }

    /// Shows the times of change that `meta`, which the caller holds, says.
    #[inline]
    pub fn note_times(&self, meta: &Meta) {
        self.change(|words| {
            words.put_time(1, meta.mtime);
            words.put_time(2, meta.ctime);
        });
    }

    /// Shows the number of names that `meta`, which the caller holds, says, and when it changed.
    #[inline]
    pub fn note_links(&self, meta: &Meta) {
        self.change(|words| {
            words.nlink.store(u64::from(meta.nlink), Ordering::Relaxed);
            words.put_time(2, meta.ctime);
        });
    }

    /// Whether the attributes must be made first.
    #[inline]
    pub fn is_touched(&self) -> bool {
        let touched =
            ptr::with_exposed_provenance::<AtomicU32>(self.touched.load(Ordering::Acquire));
        // SAFETY: a static word, or a part of the inode that this is a part of.
        unsafe { &*touched }.load(Ordering::Relaxed) != 0
    }

    /// Access rights.
    #[inline]
    pub fn access(&self) -> AccessWord {
        AccessWord::of_word(self.access.load(Ordering::Acquire))
    }

    /// The entries, of a directory: they stay as long as the inode.
    #[inline]
    pub(super) fn names(&self) -> *const HashTable<Dentry> {
        self.names.load(Ordering::Acquire)
    }

    /// The inactive list of its descriptions: it stays as long as the inode.
    #[inline]
    pub(super) fn list(&self) -> *const Inactive {
        self.list.load(Ordering::Acquire)
    }

    /// Whether something is mounted on it.
    #[inline]
    pub fn is_covered(&self) -> bool {
        self.covered.load(Ordering::Acquire) != 0
    }

    /// The last mount on it, or none while it cannot be told: it stays while interrupts are off.
    #[inline]
    pub(super) fn top(&self) -> *const Mount {
        self.top.load(Ordering::Acquire)
    }

    /// Shows `top`. A mount that is shown goes a grace period after it is no more.
    pub(super) fn set_top(&self, top: Option<&Mount>) {
        let top = top.map_or(ptr::null(), ptr::from_ref);
        self.top.store(top.cast_mut(), Ordering::Release);
    }

    /// One more is, or one fewer.
    pub fn cover(&self, more: bool) {
        match more {
            true => self.covered.fetch_add(1, Ordering::AcqRel),
            false => self.covered.fetch_sub(1, Ordering::AcqRel),
        };
    }
}

impl Words {
    #[inline(always)]
    fn put_time(&self, which: usize, time: FileTime) {
        self.times[2 * which].store(time.sec as u64, Ordering::Relaxed);
        self.times[2 * which + 1].store(u64::from(time.nsec), Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Published {
    /// The values that generated code copies; None where it would leave.
    pub fn copied(&self) -> Option<Stat> {
        let at = |address: usize| {
            // SAFETY: words of this, and of what it leads to, which stay as long as the inode; a word of
            // four bytes is read as such.
            unsafe { &*ptr::with_exposed_provenance::<AtomicU64>(address) }
        };
        let touched = self.touched.load(Ordering::Acquire);
        // SAFETY: as above.
        let touched = unsafe { &*ptr::with_exposed_provenance::<AtomicU32>(touched) };
        let version = self.version.load(Ordering::Acquire);
        if !version.is_multiple_of(2) || touched.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let base = ptr::from_ref(self).expose_provenance();
        let mut words = [0_u64; size_of::<Stat>() / 8];
        for (from, to) in COPIED {
            words[to / 8] = at(base + from).load(Ordering::Relaxed);
        }
        for (from, to) in FOUND {
            let found = at(base + from).load(Ordering::Relaxed) as usize;
            words[to / 8] = at(found).load(Ordering::Relaxed);
        }
        for (to, value) in CONSTANT {
            words[to / 8] = value as u64;
        }
        (self.version.load(Ordering::Acquire) == version).then(|| bytemuck::cast(words))
    }
}
