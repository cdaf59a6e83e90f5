//! Credentials: the user and group identities of a process.
//!
//! *Interface*: [`Cred`] is a value; a change makes a new one and publishes it
//! ([`Shared`](super::Shared)), so that a check sees one consistent set.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;

use super::user::User;

/// Identities. The groups are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// Real user.
    pub uid: u32,
    /// Effective user.
    pub euid: u32,
    /// Saved user.
    pub suid: u32,
    /// User for file access.
    pub fsuid: u32,
    /// Real group.
    pub gid: u32,
    /// Effective group.
    pub egid: u32,
    /// Saved group.
    pub sgid: u32,
    /// Group for file access.
    pub fsgid: u32,
    /// Supplementary groups, sorted.
    pub groups: Arc<[u32]>,
    /// What the real user holds; whoever changes that one publishes with [`Cred::with_user`].
    pub user: Arc<User>,
}

impl Cred {
    /// The superuser, without supplementary groups.
    pub fn root() -> Cred {
        Cred {
            uid: 0,
            euid: 0,
            suid: 0,
            fsuid: 0,
            gid: 0,
            egid: 0,
            sgid: 0,
            fsgid: 0,
            groups: Arc::new([]),
            user: User::root(),
        }
    }

    /// May this identity do what only the superuser may?
    pub fn privileged(&self) -> bool {
        self.euid == 0
    }

    /// These identities with the record of their real user. ENOMEM.
    pub fn with_user(mut self) -> Result<Cred> {
        if self.user.uid() != self.uid {
            self.user = User::of(self.uid)?;
        }
        Ok(self)
    }

    /// Is `gid` the group for file access or a supplementary one?
    pub fn in_group(&self, gid: u32) -> bool {
        self.fsgid == gid || self.groups.binary_search(&gid).is_ok()
    }

    /// `setuid`. EPERM.
    pub fn setuid(&mut self, uid: u32) -> Result<()> {
        if self.privileged() {
            (self.uid, self.suid) = (uid, uid);
        } else if uid != self.uid && uid != self.suid {
            return Err(Errno::EPERM);
        }
        (self.euid, self.fsuid) = (uid, uid);
        Ok(())
    }

    /// `setgid`. EPERM.
    pub fn setgid(&mut self, gid: u32) -> Result<()> {
        if self.privileged() {
            (self.gid, self.sgid) = (gid, gid);
        } else if gid != self.gid && gid != self.sgid {
            return Err(Errno::EPERM);
        }
        (self.egid, self.fsgid) = (gid, gid);
        Ok(())
    }

    /// `setresuid`; `u32::MAX` leaves a field alone. EPERM.
    pub fn setresuid(&mut self, real: u32, effective: u32, saved: u32) -> Result<()> {
        let may = |id: u32| {
            id == u32::MAX || self.privileged() || [self.uid, self.euid, self.suid].contains(&id)
        };
        if !(may(real) && may(effective) && may(saved)) {
            return Err(Errno::EPERM);
        }
        replace(&mut self.uid, real);
        replace(&mut self.euid, effective);
        replace(&mut self.suid, saved);
        self.fsuid = self.euid;
        Ok(())
    }

    /// `setresgid`; `u32::MAX` leaves a field alone. EPERM.
    pub fn setresgid(&mut self, real: u32, effective: u32, saved: u32) -> Result<()> {
        let may = |id: u32| {
            id == u32::MAX || self.privileged() || [self.gid, self.egid, self.sgid].contains(&id)
        };
        if !(may(real) && may(effective) && may(saved)) {
            return Err(Errno::EPERM);
        }
        replace(&mut self.gid, real);
        replace(&mut self.egid, effective);
        replace(&mut self.sgid, saved);
        self.fsgid = self.egid;
        Ok(())
    }

    /// `setreuid`; `u32::MAX` leaves a field alone. EPERM.
    pub fn setreuid(&mut self, real: u32, effective: u32) -> Result<()> {
        let old = self.uid;
        if !self.privileged()
            && ((real != u32::MAX && real != self.uid && real != self.euid)
                || (effective != u32::MAX
                    && ![self.uid, self.euid, self.suid].contains(&effective)))
        {
            return Err(Errno::EPERM);
        }
        replace(&mut self.uid, real);
        replace(&mut self.euid, effective);
        if real != u32::MAX || (effective != u32::MAX && effective != old) {
            self.suid = self.euid;
        }
        self.fsuid = self.euid;
        Ok(())
    }

    /// `setregid`; `u32::MAX` leaves a field alone. EPERM.
    pub fn setregid(&mut self, real: u32, effective: u32) -> Result<()> {
        let old = self.gid;
        if !self.privileged()
            && ((real != u32::MAX && real != self.gid && real != self.egid)
                || (effective != u32::MAX
                    && ![self.gid, self.egid, self.sgid].contains(&effective)))
        {
            return Err(Errno::EPERM);
        }
        replace(&mut self.gid, real);
        replace(&mut self.egid, effective);
        if real != u32::MAX || (effective != u32::MAX && effective != old) {
            self.sgid = self.egid;
        }
        self.fsgid = self.egid;
        Ok(())
    }
}

fn replace(field: &mut u32, id: u32) {
    if id != u32::MAX {
        *field = id;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_user_only_exchanges_its_own_identities() {
        let mut cred = Cred::root();
        cred.setresuid(1000, 1000, 0).unwrap();
        assert_eq!(cred.setuid(5), Err(Errno::EPERM));
        cred.setuid(0).unwrap();
        assert_eq!((cred.uid, cred.euid), (1000, 0));
        cred.setuid(1000).unwrap();
        assert_eq!(cred.setresuid(0, u32::MAX, u32::MAX), Err(Errno::EPERM));
    }

    #[test]
    fn setreuid_saves_the_new_effective_user() {
        let mut cred = Cred::root();
        cred.setreuid(u32::MAX, 7).unwrap();
        assert_eq!((cred.uid, cred.euid, cred.suid), (0, 7, 7));
        assert!(!cred.privileged());
        cred.setreuid(7, 0).unwrap();
    }
}
