//! Capabilities: the single rights that user 0 has all of.
//!
//! *Interface*: [`Capability`] names one, [`CapSet`] is some of them, [`Capabilities`] the five sets and the
//! secure bits of one identity, with the transformations of capabilities(7). Nothing here looks beyond its
//! arguments. [`Cred`](crate::Cred) says what a change of users and an `exec` do. [`mod@file`] are those of a
//! program's file.

pub mod file;

use abi::errno::{Errno, Result};
use abi::linux::{
    SECBIT_KEEP_CAPS, SECBIT_KEEP_CAPS_LOCKED, SECBIT_NO_CAP_AMBIENT_RAISE, SECBIT_NO_SETUID_FIXUP,
    SECBIT_NOROOT, SECURE_ALL_BITS, SECURE_ALL_LOCKS,
};
use core::ops::{BitAnd, BitOr};

use file::FileCaps;

/// A right, by its number on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of capabilities(7)")]
pub enum Capability {
    Chown = 0,
    DacOverride = 1,
    DacReadSearch = 2,
    Fowner = 3,
    Fsetid = 4,
    Kill = 5,
    Setgid = 6,
    Setuid = 7,
    Setpcap = 8,
    LinuxImmutable = 9,
    NetBindService = 10,
    NetAdmin = 12,
    NetRaw = 13,
    IpcLock = 14,
    IpcOwner = 15,
    SysChroot = 18,
    SysPtrace = 19,
    SysAdmin = 21,
    SysBoot = 22,
    SysNice = 23,
    SysResource = 24,
    SysTime = 25,
    SysTtyConfig = 26,
    Mknod = 27,
    Lease = 28,
    AuditControl = 30,
    Setfcap = 31,
    MacOverride = 32,
    Syslog = 34,
    WakeAlarm = 35,
    CheckpointRestore = 40,
}

/// How many there are.
const COUNT: u32 = 41;

/// Some capabilities, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapSet(u64);

impl CapSet {
    /// None.
    pub const NONE: CapSet = CapSet(0);
    /// All.
    pub const ALL: CapSet = CapSet((1 << COUNT) - 1);
    /// Those that follow the user for file access.
    const FILES: CapSet = CapSet::of(&[
        Capability::Chown,
        Capability::DacOverride,
        Capability::DacReadSearch,
        Capability::Fowner,
        Capability::Fsetid,
        Capability::LinuxImmutable,
        Capability::Mknod,
        Capability::MacOverride,
    ]);

    /// These.
    pub const fn of(some: &[Capability]) -> CapSet {
        let mut bits = 0;
        let mut at = 0;
        while at < some.len() {
            bits |= 1 << some[at] as u8;
            at += 1;
        }
        CapSet(bits)
    }

    /// Those of `bits` that exist.
    pub const fn from_bits(bits: u64) -> CapSet {
        CapSet(bits & Self::ALL.0)
    }

    /// The one with this number. `None`: there is none.
    pub fn numbered(number: usize) -> Option<CapSet> {
        (number < COUNT as usize).then(|| CapSet(1 << number))
    }

    /// A bit for each.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: CapSet) -> bool {
        other.0 & !self.0 == 0
    }

    /// These without `other`.
    pub const fn without(self, other: CapSet) -> CapSet {
        CapSet(self.0 & !other.0)
    }
}

impl BitOr for CapSet {
    type Output = CapSet;

    fn bitor(self, other: CapSet) -> CapSet {
        CapSet(self.0 | other.0)
    }
}

impl BitAnd for CapSet {
    type Output = CapSet;

    fn bitand(self, other: CapSet) -> CapSet {
        CapSet(self.0 & other.0)
    }
}

/// The capabilities that one identity has, may get, and passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The capabilities that may be made effective.
    pub permitted: CapSet,
    /// The capabilities that checks use.
    pub effective: CapSet,
    /// The capabilities that `exec` keeps by user 0's rules.
    pub inheritable: CapSet,
    /// The upper bound of an `exec`'s capabilities.
    pub bounding: CapSet,
    /// The capabilities that `exec` keeps for users other than 0.
    pub ambient: CapSet,
    /// `SECBIT_…`.
    pub securebits: u32,
}

impl Capabilities {
    /// Those of user 0.
    pub const fn root() -> Capabilities {
        Capabilities {
            permitted: CapSet::ALL,
            effective: CapSet::ALL,
            ..Capabilities::user()
        }
    }

    /// The empty sets.
    pub const fn user() -> Capabilities {
        Capabilities {
            permitted: CapSet::NONE,
            effective: CapSet::NONE,
            inheritable: CapSet::NONE,
            bounding: CapSet::ALL,
            ambient: CapSet::NONE,
            securebits: 0,
        }
    }

    fn has_bit(&self, bit: u32) -> bool {
        self.securebits & bit != 0
    }

    /// The users (real, effective, saved) have changed.
    pub fn follow_users(&mut self, old: [u32; 3], new: [u32; 3]) {
        if self.has_bit(SECBIT_NO_SETUID_FIXUP) {
            return;
        }
        if old.contains(&0) && !new.contains(&0) {
            if !self.has_bit(SECBIT_KEEP_CAPS) {
                (self.permitted, self.effective) = (CapSet::NONE, CapSet::NONE);
            }
            self.ambient = CapSet::NONE;
        }
        match (old[1], new[1]) {
            (0, new) if new != 0 => self.effective = CapSet::NONE,
            (old, 0) if old != 0 => self.effective = self.permitted,
            _ => {}
        }
    }

    /// The user for file access has changed, by itself.
    pub fn follow_file_user(&mut self, old: u32, new: u32) {
        if self.has_bit(SECBIT_NO_SETUID_FIXUP) {
            return;
        }
        match (old, new) {
            (0, new) if new != 0 => self.effective = self.effective.without(CapSet::FILES),
            (old, 0) if old != 0 => {
                self.effective = self.effective | (self.permitted & CapSet::FILES)
            }
            _ => {}
        }
    }

    /// The capabilities that count for access(2).
    pub fn of_real_user(&self, uid: u32) -> CapSet {
        match self.has_bit(SECBIT_NO_SETUID_FIXUP) {
            true => self.effective,
            false if uid == 0 => self.permitted,
            false => CapSet::NONE,
        }
    }

    /// `capset`. EPERM.
    pub fn set(&mut self, effective: CapSet, permitted: CapSet, inheritable: CapSet) -> Result<()> {
        let capped = !self.effective.contains(CapSet::of(&[Capability::Setpcap]));
        if (capped && !(self.inheritable | self.permitted).contains(inheritable))
            || !(self.inheritable | self.bounding).contains(inheritable)
            || !self.permitted.contains(permitted)
            || !permitted.contains(effective)
        {
            return Err(Errno::EPERM);
        }
        (self.effective, self.permitted, self.inheritable) = (effective, permitted, inheritable);
        self.ambient = self.ambient & permitted & inheritable;
        Ok(())
    }

    /// EPERM without the right to change what is handed on.
    fn may_set(&self) -> Result<()> {
        match self.effective.contains(CapSet::of(&[Capability::Setpcap])) {
            true => Ok(()),
            false => Err(Errno::EPERM),
        }
    }

    /// Takes capability `number` out of the bounding set. EPERM, EINVAL.
    pub fn drop_bounding(&mut self, number: usize) -> Result<()> {
        self.may_set()?;
        let one = CapSet::numbered(number).ok_or(Errno::EINVAL)?;
        self.bounding = self.bounding.without(one);
        Ok(())
    }

    /// Sets the secure bits. EPERM.
    pub fn set_securebits(&mut self, new: u32) -> Result<()> {
        let locks = self.securebits & SECURE_ALL_LOCKS;
        if (locks >> 1) & (self.securebits ^ new) != 0
            || locks & !new != 0
            || new & !(SECURE_ALL_BITS | SECURE_ALL_LOCKS) != 0
        {
            return Err(Errno::EPERM);
        }
        self.may_set()?;
        self.securebits = new;
        Ok(())
    }

    /// Whether a change of users keeps the permitted ones. EPERM: that is locked.
    pub fn keep(&mut self, keep: bool) -> Result<()> {
        if self.has_bit(SECBIT_KEEP_CAPS_LOCKED) {
            return Err(Errno::EPERM);
        }
        self.securebits &= !SECBIT_KEEP_CAPS;
        if keep {
            self.securebits |= SECBIT_KEEP_CAPS;
        }
        Ok(())
    }

    /// Puts `one` into the ambient set, or takes it out. EPERM.
    pub fn set_ambient(&mut self, one: CapSet, raise: bool) -> Result<()> {
        if !raise {
            self.ambient = self.ambient.without(one);
            return Ok(());
        }
        if self.has_bit(SECBIT_NO_CAP_AMBIENT_RAISE)
            || !(self.permitted & self.inheritable).contains(one)
        {
            return Err(Errno::EPERM);
        }
        self.ambient = self.ambient | one;
        Ok(())
    }

    /// The permitted set of a program, before anything is taken back, and whether that counts at once: by
    /// its file's capabilities, and by user 0's rules if the real or the effective user is that. Of a
    /// set-user-ID program of user 0 that has capabilities others get those alone. EPERM: the file wants to
    /// have more in effect than it can get.
    pub(super) fn for_program(
        &self,
        uid: u32,
        euid: u32,
        file: Option<FileCaps>,
    ) -> Result<(CapSet, bool)> {
        let (mut permitted, mut counts) = (CapSet::NONE, false);
        if let Some(file) = file {
            permitted = (self.bounding & file.permitted) | (self.inheritable & file.inheritable);
            counts = file.effective;
            if counts && !permitted.contains(file.permitted) {
                return Err(Errno::EPERM);
            }
        }
        let privileged = !self.has_bit(SECBIT_NOROOT) && (uid == 0 || euid == 0);
        if privileged && (uid == 0 || file.is_none()) {
            permitted = self.bounding | self.inheritable;
            counts |= euid == 0;
        }
        Ok((permitted, counts))
    }

    /// A program gets `permitted`, effective if `counts`; what is ambient stays unless `forget`.
    pub(super) fn execute(&mut self, permitted: CapSet, counts: bool, forget: bool) {
        if forget {
            self.ambient = CapSet::NONE;
        }
        self.permitted = permitted | self.ambient;
        self.effective = if counts { self.permitted } else { self.ambient };
        self.securebits &= !SECBIT_KEEP_CAPS;
    }
}

#[cfg(test)]
#[path = "capability_tests.rs"]
mod tests;
