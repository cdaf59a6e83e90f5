//! The changeable attributes of a file in memory.
//!
//! *Interface*: [`Meta`] is all of them, behind one monitor, so permission bits and access control list
//! always agree. [`Meta::loses`] tells whether a write must remove set-id bits or capabilities.

use abi::errno::{Errno, Result};
use abi::linux::{S_IFMT, S_ISGID, S_ISUID};
use alloc::boxed::Box;
use alloc::vec::Vec;

use super::xattrs::{CAPABILITY, StoredAcl, XattrSet, XattrValue};
use crate::fs::acl::{Acl, AclKind};
use crate::fs::attr::{FileKind, FileTime, ModeBits, SetAttr};
use crate::fs::inode::XattrFlags;
use crate::fs::lockfree_walk::AccessWord;
use crate::fs::now;
use vm::fallible::try_box;

/// Bits that a write takes away.
pub const SET_ID: u32 = S_ISUID | S_ISGID;

/// Changeable attributes.
pub struct Meta {
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: FileTime,
    pub mtime: FileTime,
    pub ctime: FileTime,
    pub btime: FileTime,
    /// Extended attributes, of a file that has any.
    pub extra: Option<Box<XattrSet>>,
}

impl Meta {
    /// Those of a file that is made `now`.
    pub fn new(mode: u32, nlink: u32, uid: u32, gid: u32, now: FileTime) -> Meta {
        Meta {
            mode,
            nlink,
            uid,
            gid,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            extra: None,
        }
    }

    /// The attributes that permission depends on, besides the list.
    pub fn bits(&self) -> ModeBits {
        ModeBits {
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
        }
    }

    /// The word that says the same, as far as it can.
    pub fn access(&self) -> AccessWord {
        AccessWord::new(self.bits(), self.access_list().is_some())
    }

    /// The access control list.
    pub fn access_list(&self) -> Option<&Acl> {
        self.extra.as_ref()?.access.as_ref().map(|list| &list.acl)
    }

    fn default_list(&self) -> Option<&Acl> {
        self.extra.as_ref()?.default.as_ref().map(|list| &list.acl)
    }

    /// The initial rights of a new file of `kind` in this directory: its mode, its access list and its
    /// default list. ENOMEM.
    pub fn for_new(
        &self,
        mode: u32,
        umask: u32,
        kind: FileKind,
    ) -> Result<(u32, [Option<Acl>; 2])> {
        let Some(default) = self.default_list().filter(|_| kind != FileKind::Symlink) else {
            return Ok((mode & !umask, [None, None]));
        };
        let (mode, own) = default.for_new(mode)?;
        let further = match kind {
            FileKind::Directory => Some(default.copy()?),
            _ => None,
        };
        Ok((mode, [own, further]))
    }

    /// Whether a write takes something away: set-id bits, or capabilities.
    pub fn loses(&self) -> bool {
        let has_some = |extra: &XattrSet| extra.values.contains_key(CAPABILITY);
        self.mode & SET_ID != 0 || self.extra.as_deref().is_some_and(has_some)
    }

    /// EAGAIN if the attributes that permission depends on have changed.
    fn still(&self, seen: ModeBits) -> Result<()> {
        if seen == self.bits() {
            Ok(())
        } else {
            Err(Errno::EAGAIN)
        }
    }

    /// Sets what `set` says; the capabilities if they go. EAGAIN.
    pub fn set(&mut self, set: &SetAttr) -> Result<Option<XattrValue>> {
        if let Some(seen) = set.seen {
            self.still(seen)?;
        }
        if let Some(mode) = set.mode {
            self.mode = self.mode & S_IFMT | mode & 0o7777;
            if let Some(list) = self.extra.as_mut().and_then(|extra| extra.access.as_mut()) {
                list.acl.follow(mode);
            }
        }
        self.uid = set.uid.unwrap_or(self.uid);
        self.gid = set.gid.unwrap_or(self.gid);
        self.atime = set.atime.unwrap_or(self.atime);
        self.mtime = set.mtime.unwrap_or(self.mtime);
        self.ctime = now();
        Ok(if set.strip { self.strip() } else { None })
    }

    /// Takes the file's capabilities away.
    pub fn strip(&mut self) -> Option<XattrValue> {
        let values = &mut self.extra.as_mut()?.values;
        let stripped = values.remove(CAPABILITY);
        self.tidy();
        stripped
    }

    /// The value of attribute `name`. ENODATA, ENOMEM.
    pub fn value(&self, name: &[u8]) -> Result<Vec<u8>> {
        let extra = self.extra.as_ref().ok_or(Errno::ENODATA)?;
        extra.values.get(name).ok_or(Errno::ENODATA)?.copy()
    }

    /// Gives attribute `name` the value `new`, or takes it away. The old one. ENODATA, EEXIST, ENOMEM.
    pub fn set_value(
        &mut self,
        name: &[u8],
        new: Option<XattrValue>,
        how: XattrFlags,
    ) -> Result<Option<XattrValue>> {
        let there = |extra: &XattrSet| extra.values.contains_key(name);
        let there = self.extra.as_deref().is_some_and(there);
        if !there && (how.replace || new.is_none()) {
            return Err(Errno::ENODATA);
        }
        if there && how.create {
            return Err(Errno::EEXIST);
        }
        let extra = self.extra()?;
        let old = match new {
            Some(new) => extra.put(name, new)?,
            None => extra.values.remove(name),
        };
        self.tidy();
        self.ctime = now();
        Ok(old)
    }

    /// Hands the names of all attributes to `each`; those of class `trusted` only if `all`.
    pub fn names(&self, all: bool, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        for which in [AclKind::Access, AclKind::Default] {
            if self.one(which).is_some() {
                each(which.name())?;
            }
        }
        let values = self.extra.iter().flat_map(|extra| extra.values.keys());
        for name in values {
            if all || !name.starts_with(b"trusted.") {
                each(name)?;
            }
        }
        Ok(())
    }

    fn one(&self, which: AclKind) -> Option<&Acl> {
        match which {
            AclKind::Access => self.access_list(),
            AclKind::Default => self.default_list(),
        }
    }

    /// A list as Linux writes it. ENODATA, ENOMEM.
    pub fn list(&self, which: AclKind) -> Result<Vec<u8>> {
        self.one(which).ok_or(Errno::ENODATA)?.to_bytes()
    }

    /// Sets the access list, and the permission bits accordingly. Returns the old list, or the new one if the
    /// bits express all of it. EAGAIN, ENOMEM.
    pub fn set_access(
        &mut self,
        list: Option<StoredAcl>,
        seen: ModeBits,
        keep_group: bool,
    ) -> Result<Option<StoredAcl>> {
        self.still(seen)?;
        let mut old = None;
        if let Some(list) = list {
            let (bits, plain) = list.acl.mode();
            let extra = self.extra()?;
            old = core::mem::replace(&mut extra.access, (!plain).then_some(list));
            self.mode = self.mode & !0o777 | bits;
        } else if let Some(extra) = &mut self.extra {
            old = extra.access.take();
        }
        if !keep_group {
            self.mode &= !S_ISGID;
        }
        self.tidy();
        self.ctime = now();
        Ok(old)
    }

    /// Sets the default list. The old one. EAGAIN, ENOMEM.
    pub fn set_default(
        &mut self,
        list: Option<StoredAcl>,
        seen: ModeBits,
    ) -> Result<Option<StoredAcl>> {
        self.still(seen)?;
        let old = match list {
            Some(list) => self.extra()?.default.replace(list),
            None => self.extra.as_mut().and_then(|extra| extra.default.take()),
        };
        self.tidy();
        self.ctime = now();
        Ok(old)
    }

    /// Room for extended attributes. ENOMEM.
    fn extra(&mut self) -> Result<&mut XattrSet> {
        match &mut self.extra {
            Some(extra) => Ok(extra),
            none => Ok(none.insert(try_box(XattrSet::default())?)),
        }
    }

    /// A file without extended attributes has no room for any.
    fn tidy(&mut self) {
        if self.extra.as_ref().is_some_and(|extra| extra.is_empty()) {
            self.extra = None;
        }
    }
}
