//! Credentials: the user and group identities of a process, and its capabilities.
//!
//! *Interface*: [`Cred`] is a value; a change makes a new one, which a process publishes whole, so that a
//! check sees one consistent set. [`Cred::executing`] is what a program gets.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::capability::file::FileCaps;
use crate::capability::{CapSet, Capabilities, Capability};
use crate::user::User;

/// The path cache's key of an identity: user and group for file access in one word, or [`NOBODY`].
pub type CredId = u64;
/// An identity that the path cache has no entry for.
pub const NOBODY: CredId = u64::MAX;

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
    pub groups: Arc<Vec<u32>>,
    /// The record of the real user; a change of that user is published with [`Cred::with_user`].
    pub user: Arc<User>,
    /// Its capabilities.
    pub caps: Capabilities,
    /// The path cache's key of it. Right in what [`Cred::sealed`] made.
    who: CredId,
}

/// The capabilities that override permission bits: the path cache knows only identities that have all of them
/// or none.
const PAST_PERMISSIONS: CapSet = CapSet::of(&[Capability::DacOverride, Capability::DacReadSearch]);

/// The conditions under which an `exec` gives no rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecUnsafe {
    /// Another process shares root and working directory.
    pub shared: bool,
    /// `no_new_privs`.
    pub no_new_privileges: bool,
    /// It has a tracer that may not trace every process.
    pub traced: bool,
}

/// The initial identity of a program.
pub struct ExecCred {
    /// Its credentials.
    pub cred: Arc<Cred>,
    /// It has more rights than its caller (`AT_SECURE`).
    pub secure: bool,
    /// Its file has set-id bits that count, or would give it capabilities: it does not begin with what makes
    /// a program easier to attack (Linux: `PER_CLEAR_ON_SETID`).
    pub guarded: bool,
}

impl Cred {
    /// The superuser, without supplementary groups.
    pub fn root() -> Cred {
        Cred {
            caps: Capabilities::root(),
            ..Cred::ordinary(0, 0)
        }
    }

    /// An identity without any right, and without a record ([`Cred::with_user`]): no process and no
    /// file belongs to it.
    pub fn nobody() -> Cred {
        /// No number of a user or a group: no process and no file can have it.
        const NONE: u32 = u32::MAX;
        let mut cred = Cred::ordinary(NONE, NONE);
        cred.caps.bounding = CapSet::NONE;
        cred
    }

    /// An ordinary user without supplementary groups, and without a record ([`Cred::with_user`]).
    pub fn ordinary(uid: u32, gid: u32) -> Cred {
        Cred {
            uid,
            euid: uid,
            suid: uid,
            fsuid: uid,
            gid,
            egid: gid,
            sgid: gid,
            fsgid: gid,
            groups: Arc::default(),
            user: User::root(),
            caps: Capabilities::user(),
            who: NOBODY,
        }
    }

    /// To be published.
    pub fn sealed(mut self) -> Arc<Cred> {
        // Supplementary groups are not part of an entry of the path cache, so only an identity that overrides
        // all permission bits may have some.
        let passes = self.caps.effective & PAST_PERMISSIONS;
        let known = match self.fsuid {
            0 => passes == PAST_PERMISSIONS,
            _ => passes == CapSet::NONE && self.groups.is_empty(),
        };
        self.who = match known {
            true => u64::from(self.fsuid) << 32 | u64::from(self.fsgid),
            false => NOBODY,
        };
        Arc::new(self)
    }

    /// The path cache's key of it.
    #[inline(always)]
    pub fn who(&self) -> CredId {
        self.who
    }

    /// May it do what `right` is for?
    pub fn has(&self, right: Capability) -> bool {
        self.caps.effective.contains(CapSet::of(&[right]))
    }

    /// EPERM without `right`.
    pub fn need(&self, right: Capability) -> Result<()> {
        if self.has(right) {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
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

    fn users(&self) -> [u32; 3] {
        [self.uid, self.euid, self.suid]
    }

    fn groups_of_process(&self) -> [u32; 3] {
        [self.gid, self.egid, self.sgid]
    }

    /// Whether all of its users are `uid` and all its groups `gid`.
    pub fn is_only(&self, uid: u32, gid: u32) -> bool {
        self.users() == [uid; 3] && self.groups_of_process() == [gid; 3]
    }

    /// Whether it may do something that `old` might not, or has another face: what was secret of one of them
    /// may be so for the other.
    pub fn departs_from(&self, old: &Cred) -> bool {
        let faces = |c: &Cred| [c.euid, c.egid, c.fsuid, c.fsgid];
        faces(self) != faces(old) || !old.caps.permitted.contains(self.caps.permitted)
    }

    /// `setuid`. EPERM, EINVAL.
    pub fn setuid(&mut self, uid: u32) -> Result<()> {
        if uid == u32::MAX {
            return Err(Errno::EINVAL);
        }
        let old = self.users();
        if self.has(Capability::Setuid) {
            (self.uid, self.suid) = (uid, uid);
        } else if uid != self.uid && uid != self.suid {
            return Err(Errno::EPERM);
        }
        (self.euid, self.fsuid) = (uid, uid);
        self.caps.follow_users(old, self.users());
        Ok(())
    }

    /// `setgid`. EPERM, EINVAL.
    pub fn setgid(&mut self, gid: u32) -> Result<()> {
        if gid == u32::MAX {
            return Err(Errno::EINVAL);
        }
        if self.has(Capability::Setgid) {
            (self.gid, self.sgid) = (gid, gid);
        } else if gid != self.gid && gid != self.sgid {
            return Err(Errno::EPERM);
        }
        (self.egid, self.fsgid) = (gid, gid);
        Ok(())
    }

    /// `setresuid`; `u32::MAX` leaves a field alone. EPERM.
    pub fn setresuid(&mut self, real: u32, effective: u32, saved: u32) -> Result<()> {
        let old = self.users();
        let may = |id: u32| id == u32::MAX || self.has(Capability::Setuid) || old.contains(&id);
        if !(may(real) && may(effective) && may(saved)) {
            return Err(Errno::EPERM);
        }
        replace(&mut self.uid, real);
        replace(&mut self.euid, effective);
        replace(&mut self.suid, saved);
        self.fsuid = self.euid;
        self.caps.follow_users(old, self.users());
        Ok(())
    }

    /// `setresgid`; `u32::MAX` leaves a field alone. EPERM.
    pub fn setresgid(&mut self, real: u32, effective: u32, saved: u32) -> Result<()> {
        let old = self.groups_of_process();
        let may = |id: u32| id == u32::MAX || self.has(Capability::Setgid) || old.contains(&id);
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
        let old = self.users();
        let may = |id: u32, own: &[u32]| id == u32::MAX || own.contains(&id);
        if !(may(real, &old[..2]) && may(effective, &old)) {
            self.need(Capability::Setuid)?;
        }
        replace(&mut self.uid, real);
        replace(&mut self.euid, effective);
        if real != u32::MAX || (effective != u32::MAX && effective != old[0]) {
            self.suid = self.euid;
        }
        self.fsuid = self.euid;
        self.caps.follow_users(old, self.users());
        Ok(())
    }

    /// `setregid`; `u32::MAX` leaves a field alone. EPERM.
    pub fn setregid(&mut self, real: u32, effective: u32) -> Result<()> {
        let old = self.groups_of_process();
        let may = |id: u32, own: &[u32]| id == u32::MAX || own.contains(&id);
        if !(may(real, &old[..2]) && may(effective, &old)) {
            self.need(Capability::Setgid)?;
        }
        replace(&mut self.gid, real);
        replace(&mut self.egid, effective);
        if real != u32::MAX || (effective != u32::MAX && effective != old[0]) {
            self.sgid = self.egid;
        }
        self.fsgid = self.egid;
        Ok(())
    }

    /// `setfsuid`; nothing happens where that is not allowed. The one before.
    pub fn setfsuid(&mut self, uid: u32) -> u32 {
        let old = self.fsuid;
        let own = self.users().contains(&uid) || uid == old;
        if uid != u32::MAX && (own || self.has(Capability::Setuid)) {
            self.fsuid = uid;
            self.caps.follow_file_user(old, uid);
        }
        old
    }

    /// `setfsgid`; as [`Cred::setfsuid`].
    pub fn setfsgid(&mut self, gid: u32) -> u32 {
        let old = self.fsgid;
        let own = self.groups_of_process().contains(&gid) || gid == old;
        if gid != u32::MAX && (own || self.has(Capability::Setgid)) {
            self.fsgid = gid;
        }
        old
    }

    /// `setgroups`. EPERM, EINVAL.
    pub fn setgroups(&mut self, groups: Arc<Vec<u32>>) -> Result<()> {
        self.need(Capability::Setgid)?;
        if groups.contains(&u32::MAX) {
            return Err(Errno::EINVAL);
        }
        self.groups = groups;
        Ok(())
    }

    /// The identity with which a program begins that this one executes, whose file has set-id bits for `user`
    /// and `group`, and capabilities `file`. EPERM: it cannot get those.
    pub fn executing(
        self: &Arc<Self>,
        user: Option<u32>,
        group: Option<u32>,
        file: Option<FileCaps>,
        doubt: ExecUnsafe,
    ) -> Result<ExecCred> {
        let mut new = Cred::clone(self);
        if !doubt.no_new_privileges {
            new.euid = user.unwrap_or(self.euid);
            new.egid = group.unwrap_or(self.egid);
        }
        let (mut permitted, counts) = self.caps.for_program(new.uid, new.euid, file)?;
        let bits = !doubt.no_new_privileges && user.or(group).is_some();
        let set_id = new.euid != self.uid || new.egid != self.gid;
        let gains = !self.caps.permitted.contains(permitted);
        let suspect = doubt.shared || doubt.no_new_privileges || doubt.traced;
        if (set_id || gains) && suspect {
            // No more than it had, and maybe less.
            if !self.has(Capability::Setuid) || doubt.no_new_privileges {
                (new.euid, new.egid) = (new.uid, new.gid);
            }
            permitted = permitted & self.caps.permitted;
        }
        (new.suid, new.fsuid) = (new.euid, new.euid);
        (new.sgid, new.fsgid) = (new.egid, new.egid);
        new.caps
            .execute(permitted, counts, set_id || file.is_some());
        let more = counts || !new.caps.ambient.contains(new.caps.permitted);
        Ok(ExecCred {
            secure: set_id || (new.uid != 0 && more),
            guarded: gains || bits,
            // Most programs change nothing.
            cred: match new == **self {
                true => self.clone(),
                false => new.sealed(),
            },
        })
    }
}

fn replace(field: &mut u32, id: u32) {
    if id != u32::MAX {
        *field = id;
    }
}

#[cfg(test)]
#[path = "cred_tests.rs"]
mod tests;
