//! Permission bits: what a credential may do to a file.
//!
//! *Interface.* [`may`] is the check; root reads and writes everything, searches every directory and executes what anybody may.

use abi::errno::{Errno, Result};
use abi::linux::{S_IFDIR, S_IFMT};

use super::attr::Attr;
use crate::process::Cred;

/// Permission to read, as a bit of [`may`].
pub const READ: u32 = 4;
/// Permission to write.
pub const WRITE: u32 = 2;
/// Permission to execute a file or search a directory.
pub const EXEC: u32 = 1;

/// Whether `cred` is the owner of a file, or root.
pub fn owns(cred: &Cred, attr: &Attr) -> bool {
    cred.fsuid == 0 || cred.fsuid == attr.uid
}

/// What permission depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Bits {
    /// Those of `attr`.
    pub fn of(attr: &Attr) -> Bits {
        Bits {
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
        }
    }
}

/// Checks permission bits: `EACCES` unless every bit of `want` ([`READ`], [`WRITE`], [`EXEC`]) is granted.
pub fn may(cred: &Cred, attr: &Attr, want: u32) -> Result<()> {
    check(cred, Bits::of(attr), want)
}

/// As [`may`].
pub fn check(cred: &Cred, bits: Bits, want: u32) -> Result<()> {
    let granted = if cred.fsuid == 0 {
        let executable = bits.mode & S_IFMT == S_IFDIR || bits.mode & 0o111 != 0;
        READ | WRITE | if executable { EXEC } else { 0 }
    } else if cred.fsuid == bits.uid {
        bits.mode >> 6 & 7
    } else if cred.in_group(bits.gid) {
        bits.mode >> 3 & 7
    } else {
        bits.mode & 7
    };
    if want & !granted == 0 {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(mode: u32, uid: u32, gid: u32) -> Attr {
        Attr {
            mode,
            uid,
            gid,
            ..Attr::default()
        }
    }

    fn user(uid: u32, gid: u32) -> Cred {
        Cred {
            fsuid: uid,
            fsgid: gid,
            groups: alloc::sync::Arc::new([50]),
            ..Cred::root()
        }
    }

    #[test]
    fn the_first_class_that_matches_decides() {
        let u = user(7, 8);
        assert_eq!(may(&u, &attr(0o100077, 7, 8), READ), Err(Errno::EACCES));
        assert_eq!(may(&u, &attr(0o100407, 9, 8), READ), Err(Errno::EACCES));
        assert!(may(&u, &attr(0o100040, 9, 50), READ).is_ok());
        assert!(may(&u, &attr(0o100005, 9, 9), READ | EXEC).is_ok());
    }

    #[test]
    fn root_executes_only_what_somebody_may() {
        let r = Cred::root();
        assert!(may(&r, &attr(0o100000, 1, 1), READ | WRITE).is_ok());
        assert_eq!(may(&r, &attr(0o100666, 1, 1), EXEC), Err(Errno::EACCES));
        assert!(may(&r, &attr(0o100010, 1, 1), EXEC).is_ok());
        assert!(may(&r, &attr(0o040000, 1, 1), EXEC).is_ok());
    }
}
