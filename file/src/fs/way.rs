//! Following a path without a lock.
//!
//! *Interface*: [`inode`] of a path, and [`waiting`], a description that waits for its next open; [`find`]
//! goes from entry to entry ([`super::entry`]) with interrupts off and returns the target of a path through
//! directories only, each with the right to search it; [`Access`] is the word of an inode's access rights.
//! The other cases (a missing name, a symbolic link on the way, `..`, a right that a list decides, a file
//! system without an entry table) have no result here: the walk ([`super::walk`](mod@super::walk)) resolves
//! the path, or returns the error.
//!
//! Source: dissertation, 7.3.1: 70 % of `open` is finding the name.

use abi::linux::{O_RDONLY, O_RDWR, O_WRONLY, S_IFDIR};
use alloc::sync::Arc;

use super::attr::Kind;
use super::context::FsContext;
use super::entry::component;
use super::inode::Inode;
use super::names::{self, reading};
use super::perm::{self, Bits};
use super::place::{MS_NODEV, MS_RDONLY, Mount, Place, on_top};
use crate::file::OpenFile;
use account::Cred;

/// Permission bits, owner and group in one word, as far as they decide alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u64);

/// Bits of [`Access`]: twelve of permission, nineteen of the group, and above them the owner.
const PERMISSIONS: u64 = 0o7777;
const GROUP_AT: u32 = 12;
const GROUPS: u64 = (1 << 19) - 1;
const UNKNOWN: u64 = 1 << 31;
const OWNER_AT: u32 = 32;

impl Access {
    /// The word does not decide.
    pub const UNKNOWN: Access = Access(UNKNOWN);

    /// For a file with these bits; `listed`: and with an access control list.
    pub fn new(bits: Bits, listed: bool) -> Access {
        let group = u64::from(bits.gid);
        if listed || group > GROUPS {
            return Access::UNKNOWN;
        }
        let mode = u64::from(bits.mode) & PERMISSIONS;
        Access(mode | group << GROUP_AT | u64::from(bits.uid) << OWNER_AT)
    }

    /// The word that was published.
    pub fn of_word(word: u64) -> Access {
        Access(word)
    }

    /// To be published.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Whether all users, or `cred`, have the rights `want` to a file of this `kind` (`S_IFDIR`…). False when
    /// the word does not decide.
    #[inline]
    pub fn lets(self, cred: &Cred, kind: u32, want: u32) -> bool {
        let all = want | want << 3 | want << 6;
        if self.0 & UNKNOWN != 0 {
            return false;
        }
        if self.0 as u32 & all == all {
            return true;
        }
        let bits = Bits {
            mode: self.0 as u32 & PERMISSIONS as u32 | kind,
            uid: (self.0 >> OWNER_AT) as u32,
            gid: (self.0 >> GROUP_AT & GROUPS) as u32,
        };
        perm::check(cred, bits, None, want).is_ok()
    }
}

/// Where a path leads.
pub struct Found<'a> {
    /// The mount.
    pub mount: &'a Arc<Mount>,
    /// The inode.
    pub inode: &'a Arc<dyn Inode>,
}

/// Where `path` leads from `start`, which is the root for a path that begins there, for `cred`. A symbolic
/// link as last component has no answer if `follow`.
///
/// # Safety
/// Interrupts are off for as long as the answer is used.
#[inline]
pub unsafe fn find<'a>(
    start: &'a Place,
    path: &[u8],
    cred: &Cred,
    follow: bool,
) -> Option<Found<'a>> {
    let (mut mount, mut inode) = (&start.mount, &start.inode);
    let mut at = 0;
    loop {
        while path.get(at) == Some(&b'/') {
            at += 1;
        }
        if at == path.len() {
            // It was all slashes, or ends in one.
            return None;
        }
        let (hash, end) = component(path, at);
        let name = path.get(at..end)?;
        let names = inode.entries()?;
        if !inode.access().lets(cred, S_IFDIR, perm::EXEC) {
            return None;
        }
        // SAFETY: as the caller promises.
        let entry = unsafe { names.find(hash, |entry| entry.is(name)) }?;
        inode = &entry.inode;
        if mount.covers_some() {
            // SAFETY: as the caller promises.
            (mount, inode) = unsafe { on_top(mount, inode) }?;
        }
        if end == path.len() {
            let leads_on = follow && entry.kind == Kind::Symlink;
            return (!leads_on).then_some(Found { mount, inode });
        }
        if entry.kind != Kind::Directory {
            return None;
        }
        at = end;
    }
}

/// The inode that `path` leads to for `cred`, whose root and working directory are those of `context`; no
/// answer where [`find`] has none.
pub fn inode(
    context: &FsContext,
    path: &[u8],
    cred: &Cred,
    follow: bool,
) -> Option<Arc<dyn Inode>> {
    let absolute = path.first() == Some(&b'/');
    // SAFETY: a read section has interrupts off, and the answer is counted in it.
    reading(|| unsafe {
        let found = find(context.start(absolute), path, cred, follow)?;
        Some(found.inode.clone())
    })
}

/// A waiting description of the file that `path` leads to, opened with access mode `mode`, if `cred` may open
/// it so.
///
/// # Safety
/// Interrupts are off.
#[inline]
pub unsafe fn waiting(
    context: &FsContext,
    path: &[u8],
    cred: &Cred,
    mode: u32,
) -> Option<Arc<OpenFile>> {
    let want = match mode {
        O_RDONLY => perm::READ,
        O_WRONLY => perm::WRITE,
        O_RDWR => perm::READ | perm::WRITE,
        _ => return None,
    };
    let absolute = path.first() == Some(&b'/');
    // SAFETY: as the caller promises.
    let found = unsafe { find(context.start(absolute), path, cred, true) }?;
    let restricted = found.mount.flags() & (MS_RDONLY | MS_NODEV) != 0;
    if restricted || !found.inode.access().lets(cred, 0, want) {
        return None;
    }
    let of = found.inode.inactive()?.take(mode)?;
    let here = |place: &Place| Arc::ptr_eq(&place.mount, found.mount);
    if !of.place().is_some_and(here) {
        names::wait_again(of);
        return None;
    }
    Some(of)
}

/// As [`waiting`], from where interrupts are on.
pub fn waiting_description(
    context: &FsContext,
    path: &[u8],
    cred: &Cred,
    mode: u32,
) -> Option<Arc<OpenFile>> {
    // SAFETY: a read section has interrupts off.
    reading(|| unsafe { waiting(context, path, cred, mode) })
}
