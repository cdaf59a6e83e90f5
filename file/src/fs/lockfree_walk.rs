//! The lock-free path walk: follows a path from directory entry to directory entry without a lock.
//!
//! *Interface*: [`find`] goes from entry to entry ([`super::dentry`]) with interrupts off and answers where a
//! path leads that goes by directories alone, each with the right to search it, or that it leads nowhere;
//! [`FoundPath::waiting`] is a description of that file that waits for its next open; [`AccessWord`] is the
//! word by which an inode shows who may do what. All else (a long path, a symbolic link on the way, `..`, a
//! right that a list decides, a file system whose entries are not kept) has no answer here: the walk
//! ([`super::walk`](mod@super::walk)) finds it, or says what is wrong.
//!
//! Source: dissertation, 7.3.1: 70 % of `open` is finding the name.
//!
//! *Unsafe*: entries, inodes and mounts that live until a grace period.

use abi::linux::{O_RDONLY, O_RDWR, O_WRONLY, S_IFDIR, S_ISVTX};
use alloc::sync::Arc;
use core::ptr;
use machine::irqs_off::{IrqsOff, irqs_off};

use super::attr::{FileKind, ModeBits};
use super::context::FsContext;
use super::dentry::{Dentry, component};
use super::inactive::Inactive;
use super::inode::Inode;
use super::mount::{MS_NODEV, MS_RDONLY, Mount, VfsPath, on_top};
use super::parent_cache::{self, Directory, Search};
use super::path_cache::{self, KEY_WORDS, PathKey};
use super::perm;
use super::published::Published;
use crate::fs::file::OpenFile;
use account::Cred;

/// Permission bits, owner and group in one word, as far as they decide alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessWord(u64);

/// Bits of [`AccessWord`]: twelve of permission, nineteen of the group, and above them the owner.
const PERMISSIONS: u64 = 0o7777;
const GROUP_AT: u32 = 12;
const GROUPS: u64 = (1 << 19) - 1;
const UNKNOWN: u64 = 1 << 31;
const OWNER_AT: u32 = 32;

impl AccessWord {
    /// The word does not decide.
    pub const UNKNOWN: AccessWord = AccessWord(UNKNOWN);

    /// For a file with these bits; `listed`: and with an access control list.
    pub fn new(bits: ModeBits, listed: bool) -> AccessWord {
        let group = u64::from(bits.gid);
        if listed || group > GROUPS {
            return AccessWord::UNKNOWN;
        }
        let mode = u64::from(bits.mode) & PERMISSIONS;
        AccessWord(mode | group << GROUP_AT | u64::from(bits.uid) << OWNER_AT)
    }

    /// The word that was published.
    pub fn of_word(word: u64) -> AccessWord {
        AccessWord(word)
    }

    /// To be published.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Whether all users, or `cred`, have the rights `want` to a file of this `kind` (`S_IFDIR`…). False when
    /// the word does not decide.
    #[inline]
    pub fn lets(self, cred: &Cred, kind: u32, want: u32) -> bool {
        let owners = want << 6;
        let all = want | want << 3 | owners;
        let has = |bits: u32| self.0 as u32 & (bits | UNKNOWN as u32) == bits;
        // Most files are opened, and most directories changed, by their owner.
        has(all) || has(owners) && self.owner() == cred.fsuid || self.lets_some(cred, kind, want)
    }

    #[inline(never)]
    fn lets_some(self, cred: &Cred, kind: u32, want: u32) -> bool {
        if self.0 & UNKNOWN != 0 {
            return false;
        }
        let bits = ModeBits {
            mode: self.0 as u32 & PERMISSIONS as u32 | kind,
            uid: self.owner(),
            gid: (self.0 >> GROUP_AT & GROUPS) as u32,
        };
        perm::check(cred, bits, None, want).is_ok()
    }
}

impl AccessWord {
    /// The owner, if the word is known.
    #[inline]
    fn owner(self) -> u32 {
        (self.0 >> OWNER_AT) as u32
    }

    /// Whether the word says that `user` is the owner.
    #[inline]
    fn is_owned_by(self, user: u32) -> bool {
        self.0 & UNKNOWN == 0 && self.owner() == user
    }

    /// Whether `cred`, which may change this directory, may remove the name of a `victim` there: from one
    /// with the sticky bit only the owners of directory and file do. Not, when the words do not decide.
    #[inline]
    pub fn lets_remove(self, cred: &Cred, victim: impl FnOnce() -> AccessWord) -> bool {
        self.0 & (UNKNOWN | u64::from(S_ISVTX)) == 0
            || self.is_owned_by(cred.fsuid)
            || victim().is_owned_by(cred.fsuid)
    }
}

/// Where a path leads.
pub struct FoundPath<'a> {
    /// The mount.
    pub mount: &'a Mount,
    /// The inode.
    pub inode: &'a Arc<dyn Inode>,
    /// The part that the inode shows.
    pub shown: &'a Published,
}

/// The answer about a path.
pub enum WalkResult<'a> {
    /// It leads there.
    Leads(FoundPath<'a>),
    /// It leads to nothing: a name of it is not in its directory.
    Nothing,
    /// It goes on behind what was looked at.
    Longer,
    /// The walk has to say.
    Unknown,
}

/// A path, with zeros behind it.
#[derive(Clone, Copy)]
pub struct PaddedPath<'a> {
    /// Its bytes, and a word of zeros.
    bytes: &'a [u8],
    /// A longer text is no whole path.
    longest: usize,
}

impl<'a> PaddedPath<'a> {
    /// Of `key`, which is a path if there is a zero in it.
    #[inline(always)]
    pub fn of(key: &'a PathKey) -> PaddedPath<'a> {
        PaddedPath {
            bytes: key.padded(),
            longest: 8 * KEY_WORDS - 1,
        }
    }

    /// Of the bytes before the first zero of `path`, which ends in eight of them.
    pub fn with_zeros(path: &'a [u8]) -> Option<PaddedPath<'a>> {
        (path.last_chunk() == Some(&[0; 8])).then_some(PaddedPath {
            bytes: path,
            longest: path.len(),
        })
    }

    #[inline(always)]
    fn is_absolute(self) -> bool {
        self.bytes.first() == Some(&b'/')
    }
}

/// Where `path` leads, from the root directory or the working directory of `context`, for `cred`. A symbolic
/// link as last component is left to the walk if `follow`.
#[inline(always)]
pub fn find<'a>(
    context: &'a FsContext,
    path: PaddedPath,
    cred: &Cred,
    follow: bool,
    off: &'a IrqsOff,
) -> WalkResult<'a> {
    let start = context.start(path.is_absolute(), off);
    find_from(start, path, cred, follow, off)
}

/// As [`find`], from `start`, which is the root directory for a path that begins there.
#[inline(always)]
pub fn find_from<'a>(
    start: &'a VfsPath,
    path: PaddedPath,
    cred: &Cred,
    follow: bool,
    off: &'a IrqsOff,
) -> WalkResult<'a> {
    let Some(first) = Directory::of(start) else {
        return WalkResult::Unknown;
    };
    let at = usize::from(path.is_absolute());
    follow_from((first, at), path, cred, follow, |_, _| (), off)
}

/// As [`find_from`], from a directory, of what `path` has from a byte on. Shows `last` the directory in which
/// the last name is, and how many bytes of the path lead there.
#[inline(always)]
fn follow_from<'a>(
    (first, mut at): (Directory<'a>, usize),
    path: PaddedPath,
    cred: &Cred,
    follow: bool,
    last: impl FnOnce(Directory<'a>, usize),
    off: &'a IrqsOff,
) -> WalkResult<'a> {
    let PaddedPath { bytes, longest } = path;
    let Directory {
        mut mount,
        mut inode,
        mut shown,
    } = first;
    loop {
        let Some((hash, end)) = component(bytes, at) else {
            return WalkResult::Longer;
        };
        let length = end.wrapping_sub(at);
        if length == 0 {
            if bytes.get(at) == Some(&b'/') {
                at += 1;
                continue;
            }
            // It is empty, or ends in a slash.
            return WalkResult::Unknown;
        }
        // SAFETY: a directory's table stays as long as its inode.
        let Some(names) = (unsafe { shown.names().as_ref() }) else {
            return WalkResult::Unknown;
        };
        if !shown.access().lets(cred, S_IFDIR, perm::EXEC) {
            return WalkResult::Unknown;
        }
        let called_so = |entry: &Dentry| entry.is_piece(bytes, at, length);
        // SAFETY: interrupts are off as long as the entry is used, whose lifetime is that of `off`.
        let Some(entry) = (unsafe { names.find(hash, called_so) }) else {
            // No directory has `.` and `..` among its entries.
            return match bytes.get(at) {
                _ if end > longest => WalkResult::Longer,
                Some(b'.') => WalkResult::Unknown,
                _ => WalkResult::Nothing,
            };
        };
        let Some(next) = entry.published() else {
            return WalkResult::Unknown;
        };
        let directory = Directory {
            mount,
            inode,
            shown,
        };
        (inode, shown) = (&entry.inode, next);
        if shown.is_covered() {
            let Some(top) = on_top(mount, inode, shown, off) else {
                return WalkResult::Unknown;
            };
            (mount, inode, shown) = top;
        }
        if bytes.get(end) != Some(&b'/') {
            if end > longest {
                return WalkResult::Longer;
            }
            if follow && entry.kind == FileKind::Symlink {
                return WalkResult::Unknown;
            }
            last(directory, at);
            return WalkResult::Leads(FoundPath {
                mount,
                inode,
                shown,
            });
        }
        // A file has no entries, which is seen then.
        at = end.wrapping_add(1);
    }
}

/// The inode that `path` leads to for `cred`, whose root and working directory are those of `context`; no
/// answer where [`find`] knows none.
pub fn inode(
    context: &FsContext,
    path: PaddedPath,
    cred: &Cred,
    follow: bool,
) -> Option<Arc<dyn Inode>> {
    // Bound: one path, at most 4096 bytes, a probe a component.
    irqs_off(|off| match find(context, path, cred, follow, off) {
        WalkResult::Leads(found) => Some(found.inode.clone()),
        _ => None,
    })
}

/// The file that `path` leads to, if `cred` may open it with access mode `mode` and its mount forbids
/// nothing. A path that begins with the directory of the last one is followed from there
/// ([`super::parent_cache`]).
#[inline(always)]
pub fn reached<'a>(
    context: &'a FsContext,
    path: PaddedPath,
    cred: &Cred,
    mode: u32,
    off: &'a IrqsOff,
) -> Option<FoundPath<'a>> {
    const WANTED: [u32; 3] = [perm::READ, perm::WRITE, perm::READ | perm::WRITE];
    const { assert!(O_RDONLY == 0 && O_WRONLY == 1 && O_RDWR == 2) };
    let want = *WANTED.get(mode as usize)?;
    let start = context.start(path.is_absolute(), off);
    let beginning = Directory::of(start)?;
    let search = Search::from(start, beginning.shown, cred.who());
    // SAFETY: the context has the starting directory.
    let recent = unsafe { parent_cache::find(search, path.bytes, off) };
    let from = recent.unwrap_or((beginning, usize::from(path.is_absolute())));
    let note = |directory: Directory<'a>, at| {
        // The starting directory is the context's, and not remembered.
        if !ptr::eq(directory.inode, from.0.inode)
            && let Some(path) = path.bytes.get(..at)
        {
            parent_cache::note(search, path, directory);
        }
    };
    let answer = follow_from(from, path, cred, true, note, off);
    let WalkResult::Leads(found) = answer else {
        return None;
    };
    let restricted = found.mount.flags() & (MS_RDONLY | MS_NODEV) != 0;
    (!restricted && found.shown.access().lets(cred, 0, want)).then_some(found)
}

impl FoundPath<'_> {
    /// Its inactive list, if it has one.
    #[inline(always)]
    pub fn list(&self) -> Option<&Inactive> {
        // SAFETY: it is a part of the inode.
        unsafe { self.shown.list().as_ref() }
    }

    /// A description of it, opened with access mode `mode`, that waits in `list`, its inactive list.
    #[inline(always)]
    pub fn waiting(&self, list: &Inactive, mode: u32) -> Option<Arc<OpenFile>> {
        let of = list.take(mode)?;
        let here = |place: &VfsPath| ptr::eq(&*place.mount, self.mount);
        if !of.place().is_some_and(here) {
            path_cache::wait_again(of);
            return None;
        }
        Some(of)
    }
}

/// A waiting description of the file that `path` leads to, opened with access mode `mode`, if `cred` may open
/// it so. From where interrupts are on.
pub fn inactive_description(
    context: &FsContext,
    path: PaddedPath,
    cred: &Cred,
    mode: u32,
) -> Option<Arc<OpenFile>> {
    irqs_off(|off| {
        let found = reached(context, path, cred, mode, off)?;
        found.waiting(found.list()?, mode)
    })
}
