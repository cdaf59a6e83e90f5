//! Access control lists (POSIX 1003.1e, draft 17; acl(5)), as values.
//!
//! *Interface*: [`Acl::from_bytes`] and [`Acl::to_bytes`] are Linux's form as an extended attribute;
//! [`Acl::check`] checks that a list is valid. [`Acl::grants`] decides, [`Acl::mode`] gives the permission
//! bits, [`Acl::follow`] applies a `chmod`, and [`Acl::for_new`] derives a new file's list from a directory's
//! default. All functions depend only on their arguments.

use abi::errno::{Errno, Result};
use alloc::vec::Vec;

use super::attr::ModeBits;
use account::Cred;
use vm::fallible::{try_copy, try_extend, try_push, try_reserve};

/// Which of a file's two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclKind {
    /// The access list.
    Access,
    /// A directory's default list for new files.
    Default,
}

impl AclKind {
    /// Its extended attribute.
    pub const fn name(self) -> &'static [u8] {
        match self {
            AclKind::Access => b"system.posix_acl_access",
            AclKind::Default => b"system.posix_acl_default",
        }
    }

    /// The list of attribute `name`.
    pub fn named(name: &[u8]) -> Option<AclKind> {
        [AclKind::Access, AclKind::Default]
            .into_iter()
            .find(|which| which.name() == name)
    }
}

const VERSION: u32 = 2;
const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHER: u16 = 32;
/// Bytes of the head, and of an entry.
const HEAD: usize = 4;
const ENTRY: usize = 8;

/// The rights of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    perm: u16,
    /// The user or group, of those that name one.
    id: u32,
}

/// A list: owner, named users, group, named groups, mask, others, in this order.
#[derive(Debug, PartialEq, Eq)]
pub struct Acl {
    entries: Vec<Entry>,
}

impl Acl {
    /// The list that `bytes` are; `None` for an empty one. EINVAL, EOPNOTSUPP for another version, ENOMEM.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Acl>> {
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or(Errno::EINVAL)?;
        if head != VERSION.to_le_bytes() {
            return Err(Errno::EOPNOTSUPP);
        }
        let (all, odd) = rest.as_chunks::<ENTRY>();
        if !odd.is_empty() {
            return Err(Errno::EINVAL);
        }
        if all.is_empty() {
            return Ok(None);
        }
        let mut entries = Vec::new();
        try_reserve(&mut entries, all.len())?;
        for [t0, t1, p0, p1, id @ ..] in all {
            let entry = Entry {
                tag: u16::from_le_bytes([*t0, *t1]),
                perm: u16::from_le_bytes([*p0, *p1]),
                id: u32::from_le_bytes(*id),
            };
            let named = matches!(entry.tag, USER | GROUP);
            let known = named || matches!(entry.tag, USER_OBJ | GROUP_OBJ | MASK | OTHER);
            if !known || (named && entry.id == u32::MAX) {
                return Err(Errno::EINVAL);
            }
            try_push(&mut entries, entry)?;
        }
        Ok(Some(Acl { entries }))
    }

    /// The list in Linux's form. ENOMEM.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        try_reserve(&mut bytes, self.size())?;
        try_extend(&mut bytes, &VERSION.to_le_bytes())?;
        for entry in &self.entries {
            let id = match entry.tag {
                USER | GROUP => entry.id,
                _ => u32::MAX,
            };
            try_extend(&mut bytes, &entry.tag.to_le_bytes())?;
            try_extend(&mut bytes, &entry.perm.to_le_bytes())?;
            try_extend(&mut bytes, &id.to_le_bytes())?;
        }
        Ok(bytes)
    }

    /// Bytes of Linux's form, which are about those of this one.
    pub fn size(&self) -> usize {
        self.entries
            .len()
            .saturating_mul(ENTRY)
            .saturating_add(HEAD)
    }

    /// A copy. ENOMEM.
    pub fn copy(&self) -> Result<Acl> {
        let entries = try_copy(&self.entries)?;
        Ok(Acl { entries })
    }

    /// EINVAL unless the classes come in order, owner, group and others once each, and a mask if there is a
    /// named entry.
    pub fn check(&self) -> Result<()> {
        let mut last = 0;
        let mut named = false;
        let mut seen = 0;
        for entry in &self.entries {
            let again = entry.tag == last && !matches!(entry.tag, USER | GROUP);
            if entry.perm > 7 || entry.tag < last || again {
                return Err(Errno::EINVAL);
            }
            named |= matches!(entry.tag, USER | GROUP);
            seen |= entry.tag;
            last = entry.tag;
        }
        let all = USER_OBJ | GROUP_OBJ | OTHER;
        if seen & all != all || (named && seen & MASK == 0) {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }

    fn of(&self, tag: u16) -> Option<u32> {
        let entry = self.entries.iter().find(|entry| entry.tag == tag)?;
        Some(u32::from(entry.perm))
    }

    /// The nine permission bits that it says, and whether those say all of it.
    pub fn mode(&self) -> (u32, bool) {
        let bits = |tag| self.of(tag).unwrap_or(0);
        let mask = self.of(MASK);
        let group = mask.unwrap_or_else(|| bits(GROUP_OBJ));
        let plain = mask.is_none() && self.entries.len() <= 3;
        (bits(USER_OBJ) << 6 | group << 3 | bits(OTHER), plain)
    }

    fn set(&mut self, tag: u16, perm: u32) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.tag == tag);
        let found = entry.is_some();
        if let Some(entry) = entry {
            entry.perm = (perm & 7) as u16;
        }
        found
    }

    /// Makes it say what `mode` does: the group's bits are the mask's where there is one.
    pub fn follow(&mut self, mode: u32) {
        self.set(USER_OBJ, mode >> 6);
        if !self.set(MASK, mode >> 3) {
            self.set(GROUP_OBJ, mode >> 3);
        }
        self.set(OTHER, mode);
    }

    /// A new file's mode and list from `mode` and this default; no list if the mode expresses all of it.
    /// ENOMEM.
    pub fn for_new(&self, mode: u32) -> Result<(u32, Option<Acl>)> {
        let (most, plain) = self.mode();
        let mode = mode & (most | !0o777);
        if plain {
            return Ok((mode, None));
        }
        let mut own = self.copy()?;
        own.follow(mode);
        Ok((mode, Some(own)))
    }

    /// Whether the list of a file with `bits` grants `cred` all of `want`, which is not the owner.
    pub fn grants(&self, cred: &Cred, bits: ModeBits, want: u32) -> bool {
        let mask = self.of(MASK).unwrap_or(7);
        let enough = |perm: u16| want & !u32::from(perm) == 0;
        let mut in_group = false;
        for entry in &self.entries {
            let names = match entry.tag {
                USER => entry.id == cred.fsuid,
                GROUP_OBJ => cred.in_group(bits.gid),
                GROUP => cred.in_group(entry.id),
                OTHER => return !in_group && enough(entry.perm),
                _ => false,
            };
            in_group |= names;
            // One of several matching groups that grants all is enough; a user's own entry decides.
            if names && (entry.tag == USER || enough(entry.perm)) {
                return enough(entry.perm) && want & !mask == 0;
            }
        }
        false
    }
}

#[cfg(test)]
#[path = "acl_tests.rs"]
mod tests;
