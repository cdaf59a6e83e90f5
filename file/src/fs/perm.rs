//! Permission bits: the rights of a credential to a file.
//!
//! *Interface.* [`check`] is the only check, by bits and access control list; with the capability a caller
//! reads and writes everything, searches every directory and executes every file that has an execute bit.
//! `Inode::permits` calls it for files; [`may`] is for objects without an inode.

use abi::errno::{Errno, Result};
use abi::linux::{S_IFDIR, S_IFMT};

use super::acl::Acl;
use super::attr::{Attr, ModeBits};
use account::{Capability, Cred};

/// Permission to read, as a bit of [`may`].
pub const READ: u32 = 4;
/// Permission to write.
pub const WRITE: u32 = 2;
/// Permission to execute a file or search a directory.
pub const EXEC: u32 = 1;

/// Whether `cred` is the owner of a file, or counts as that of all.
pub fn owns(cred: &Cred, attr: &Attr) -> bool {
    cred.fsuid == attr.uid || cred.has(Capability::Fowner)
}

/// Whether `cred` may give a file of group `gid` the set-group-ID bit, or leave it.
pub fn keeps_group(cred: &Cred, gid: u32) -> bool {
    cred.in_group(gid) || cred.has(Capability::Fsetid)
}

/// Checks permission bits: `EACCES` unless every bit of `want` ([`READ`], [`WRITE`], [`EXEC`]) is granted.
pub fn may(cred: &Cred, attr: &Attr, want: u32) -> Result<()> {
    check(cred, ModeBits::of(attr), None, want)
}

/// As [`may`], of a file that may have an access control list.
pub fn check(cred: &Cred, bits: ModeBits, list: Option<&Acl>, want: u32) -> Result<()> {
    let class = |shift: u32| want & !(bits.mode >> shift) & 7 == 0;
    // A list whose mask lets nothing through counts for nothing, as on Linux.
    let list = list.filter(|_| bits.mode & 0o070 != 0);
    let granted = match list {
        _ if cred.fsuid == bits.uid => class(6),
        Some(list) => list.grants(cred, bits, want),
        None if cred.in_group(bits.gid) => class(3),
        None => class(0),
    };
    if granted || passes(cred, bits.mode, want) {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// Whether a capability permits `cred` what the bits do not.
fn passes(cred: &Cred, mode: u32, want: u32) -> bool {
    let directory = mode & S_IFMT == S_IFDIR;
    let only_looks = want == READ || (directory && want & WRITE == 0);
    let executable = directory || mode & 0o111 != 0;
    (only_looks && cred.has(Capability::DacReadSearch))
        || ((want & EXEC == 0 || executable) && cred.has(Capability::DacOverride))
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
        let mut user = Cred::ordinary(uid, gid);
        user.groups = alloc::sync::Arc::new([50].to_vec());
        user
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
    fn the_owner_and_who_has_the_right_pass_a_list() {
        let bytes = [
            [2, 0, 0, 0].as_slice(),
            &[1, 0, 6, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 9, 0, 0, 0],
            &[4, 0, 6, 0, 0, 0, 0, 0],
            &[16, 0, 6, 0, 0, 0, 0, 0],
            &[32, 0, 4, 0, 0, 0, 0, 0],
        ];
        let list = Acl::from_bytes(&bytes.concat()).unwrap();
        let asked = |cred: &Cred, mode, want| {
            let bits = ModeBits::of(&attr(mode, 7, 8));
            check(cred, bits, list.as_ref(), want)
        };
        assert!(asked(&user(7, 1), 0o100664, READ | WRITE).is_ok());
        assert_eq!(asked(&user(9, 8), 0o100664, READ), Err(Errno::EACCES));
        assert!(asked(&user(1, 8), 0o100664, WRITE).is_ok());
        assert!(asked(&Cred::root(), 0o100664, WRITE).is_ok());
        // The mask lets nothing through: the bits decide.
        assert!(asked(&user(9, 1), 0o100604, READ).is_ok());
    }

    #[test]
    fn who_may_read_everything_searches_and_reads() {
        let mut u = user(7, 8);
        u.caps.effective = account::capability::CapSet::of(&[Capability::DacReadSearch]);
        assert!(may(&u, &attr(0o100000, 9, 9), READ).is_ok());
        assert!(may(&u, &attr(0o040000, 9, 9), READ | EXEC).is_ok());
        assert_eq!(may(&u, &attr(0o040000, 9, 9), WRITE), Err(Errno::EACCES));
        assert_eq!(may(&u, &attr(0o100100, 9, 9), EXEC), Err(Errno::EACCES));
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
