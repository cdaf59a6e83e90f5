//! The extended attributes of one file in memory: values by name, and two access control lists.
//!
//! *Interface*: [`XattrSet`] is stored with the file's other attributes. A [`XattrValue`] or [`StoredAcl`] is
//! allocated, copied and charged before the attributes are locked. It counts as kernel memory of its creator
//! ([`quota::bytes`]).

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::fs::acl::Acl;
use account::quota;
use account::user::Charge;
use vm::fallible::{try_box, try_copy, try_insert};

pub use account::capability::file::NAME as CAPABILITY;

/// The approximate overhead of an attribute.
const OVERHEAD: usize = 128;

/// All of one file's.
#[derive(Default)]
pub struct XattrSet {
    /// The access list.
    pub access: Option<StoredAcl>,
    /// The default list for files in it.
    pub default: Option<StoredAcl>,
    /// All others.
    pub values: BTreeMap<Vec<u8>, XattrValue>,
}

/// The value of an attribute.
pub struct XattrValue {
    bytes: Vec<u8>,
    _charge: Charge,
}

/// An access control list.
pub struct StoredAcl {
    /// The list itself.
    pub acl: Acl,
    _charge: Charge,
}

/// `bytes` bytes of the running process's user. ENOSPC.
fn charge(bytes: usize) -> Result<Charge> {
    let bytes = bytes.saturating_add(OVERHEAD) as u64;
    quota::bytes(bytes).ok_or(Errno::ENOSPC)
}

/// Whether there are attributes of the class of `name`: `security`, `trusted` and `user`. EOPNOTSUPP, EINVAL
/// for a class alone.
pub fn known(name: &[u8]) -> Result<()> {
    let classes = [&b"security."[..], b"trusted.", b"user."];
    let class = classes.iter().find(|class| name.starts_with(class));
    match class {
        None => Err(Errno::EOPNOTSUPP),
        Some(class) if class.len() == name.len() => Err(Errno::EINVAL),
        Some(_) => Ok(()),
    }
}

impl XattrValue {
    /// `bytes` for attribute `name`. ENOSPC, ENOMEM.
    pub fn new(name: &[u8], bytes: &[u8]) -> Result<XattrValue> {
        let _charge = charge(name.len().saturating_add(bytes.len()))?;
        let bytes = try_copy(bytes)?;
        Ok(XattrValue { bytes, _charge })
    }

    /// A copy of the bytes. ENOMEM.
    pub fn copy(&self) -> Result<Vec<u8>> {
        try_copy(&self.bytes)
    }
}

impl StoredAcl {
    /// `acl`, paid for. ENOSPC.
    pub fn new(acl: Acl) -> Result<StoredAcl> {
        let _charge = charge(acl.size())?;
        Ok(StoredAcl { acl, _charge })
    }
}

impl XattrSet {
    /// The initial attributes of a new file with these lists, access and default. ENOSPC, ENOMEM.
    pub fn inherited([access, default]: [Option<Acl>; 2]) -> Result<Option<Box<XattrSet>>> {
        if access.is_none() && default.is_none() {
            return Ok(None);
        }
        let extra = XattrSet {
            access: access.map(StoredAcl::new).transpose()?,
            default: default.map(StoredAcl::new).transpose()?,
            values: BTreeMap::new(),
        };
        try_box(extra).map(Some)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.access.is_none() && self.default.is_none() && self.values.is_empty()
    }

    /// Gives attribute `name` the value `new`; the old one. ENOMEM.
    pub fn put(&mut self, name: &[u8], new: XattrValue) -> Result<Option<XattrValue>> {
        match self.values.get_mut(name) {
            Some(value) => Ok(Some(core::mem::replace(value, new))),
            None => try_insert(&mut self.values, try_copy(name)?, new),
        }
    }
}
