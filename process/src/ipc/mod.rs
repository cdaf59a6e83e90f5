//! System V IPC: objects with numbers instead of descriptors, which outlive their creators.
//!
//! *Interface*: a [`IpcNamespace`] for each kind has its objects by number and by key; [`IpcEntry`] is one
//! with its [`Permissions`]. [`memory`], [`semaphore`] and [`message`] are the kinds. [`mqueue`] has POSIX's
//! message queues, which have names and descriptors.
//!
//! A number is a place in the table and, above that, how often places have come round, so that a number of
//! before names nothing. Monitors: the table's, then that of one entry's permissions; an object's own is not
//! taken with either.

pub mod memory;
pub mod message;
pub mod mqueue;
pub mod semaphore;

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use sync::Monitor;

use account::quota;
use account::user::Charge;
use account::{Capability, Cred};
use vm::fallible::{try_arc, try_push};

/// Bits of a number that are the place.
const PLACE_BITS: u32 = 15;

/// Bytes of an entry, about.
const ENTRY_BYTES: u64 = 512;

/// The permissions of an object.
#[derive(Clone, Copy)]
pub struct Permissions {
    uid: u32,
    gid: u32,
    cuid: u32,
    cgid: u32,
    mode: u32,
}

impl Permissions {
    /// EACCES unless `cred` may do all that the bits of `flags` (0444, 0222) say.
    fn allows(&self, cred: &Cred, flags: u32) -> Result<()> {
        let wanted = (flags >> 6 | flags >> 3 | flags) & 7;
        let granted = if [self.uid, self.cuid].contains(&cred.euid) {
            self.mode >> 6
        } else if cred.in_group(self.gid) || cred.in_group(self.cgid) {
            self.mode >> 3
        } else {
            self.mode
        };
        if wanted & !granted == 0 || cred.has(Capability::IpcOwner) {
            Ok(())
        } else {
            Err(Errno::EACCES)
        }
    }
}

/// An object with its number.
pub struct IpcEntry<T> {
    /// The number.
    pub id: i32,
    /// Its key; 0: it is found only by its number.
    key: AtomicI32,
    perm: Monitor<Permissions>,
    removed: AtomicBool,
    /// The object.
    pub object: T,
    _charge: Charge,
}

/// All objects of a kind.
pub struct IpcNamespace<T> {
    slots: Monitor<Slots<T>>,
    /// As many may be there.
    pub most: AtomicUsize,
    /// The number that the next object shall have, once, if its place is free; else one behind. -1: any.
    pub next: AtomicI32,
}

struct Slots<T> {
    entries: Vec<Option<Arc<IpcEntry<T>>>>,
    count: usize,
    round: u16,
    /// The place taken last.
    last: Option<usize>,
}

/// Seconds since 1970.
pub fn seconds() -> i64 {
    (machine::clock::real_ns() / NSEC_PER_SEC) as i64
}

impl<T> IpcNamespace<T> {
    const fn new(most: usize) -> IpcNamespace<T> {
        IpcNamespace {
            slots: Monitor::new(Slots {
                entries: Vec::new(),
                count: 0,
                round: 0,
                last: None,
            }),
            most: AtomicUsize::new(most),
            next: AtomicI32::new(-1),
        }
    }

    /// The number of the object with `key`, if `fits` it and `cred` may have it as `flags` say; else `make`
    /// makes one. ENOENT, EEXIST, EACCES, ENOSPC, ENOMEM.
    pub fn get(
        &self,
        key: i32,
        flags: u32,
        cred: &Cred,
        fits: impl Fn(&T) -> Result<()>,
        make: impl Fn() -> Result<T>,
    ) -> Result<Arc<IpcEntry<T>>> {
        let mut made = None;
        loop {
            // Bound: **global**: **linear** in the objects of one kind, when one is found by its key, made,
            // or shown.
            let mut slots = self.slots.lock();
            let same = |entry: &&Arc<IpcEntry<T>>| {
                key != IPC_PRIVATE && entry.key.load(Ordering::Relaxed) == key
            };
            if let Some(entry) = slots.entries.iter().flatten().find(same) {
                if flags & (IPC_CREAT | IPC_EXCL) == IPC_CREAT | IPC_EXCL {
                    return Err(Errno::EEXIST);
                }
                fits(&entry.object)?;
                entry.may(cred, flags)?;
                return Ok(entry.clone());
            }
            if key != IPC_PRIVATE && flags & IPC_CREAT == 0 {
                return Err(Errno::ENOENT);
            }
            if slots.count >= self.most.load(Ordering::Relaxed) {
                return Err(Errno::ENOSPC);
            }
            let Some((object, charge)) = made.take() else {
                drop(slots);
                let charge = quota::bytes(ENTRY_BYTES).ok_or(Errno::ENOSPC)?;
                made = Some((make()?, charge));
                continue;
            };
            let perm = Permissions {
                uid: cred.euid,
                gid: cred.egid,
                cuid: cred.euid,
                cgid: cred.egid,
                mode: flags & 0o777,
            };
            return slots.add(&self.next, |id| IpcEntry {
                id,
                key: AtomicI32::new(key),
                perm: Monitor::new(perm),
                removed: AtomicBool::new(false),
                object,
                _charge: charge,
            });
        }
    }

    /// The object with number `id`. EINVAL.
    pub fn find(&self, id: i32) -> Result<Arc<IpcEntry<T>>> {
        let entry = self.at(id)?;
        if entry.id == id {
            Ok(entry)
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// The object with number `id`, without waiting: `None` also while the table is held.
    pub fn find_now(&self, id: i32) -> Option<Arc<IpcEntry<T>>> {
        let place = usize::try_from(id).ok()? & ((1 << PLACE_BITS) - 1);
        // Bound: one place of the table; interrupts are off.
        let slots = self.slots.try_lock()?;
        let entry = slots.entries.get(place)?.as_ref()?;
        (entry.id == id).then(|| entry.clone())
    }

    /// The object in place `place`; a number that is or was an object's stands for its place. EINVAL.
    pub fn at(&self, place: i32) -> Result<Arc<IpcEntry<T>>> {
        let place = usize::try_from(place).map_err(|_| Errno::EINVAL)? & ((1 << PLACE_BITS) - 1);
        let slots = self.slots.lock();
        let entry = slots.entries.get(place).and_then(Option::as_ref);
        entry.cloned().ok_or(Errno::EINVAL)
    }

    /// The first object in place `place` or behind, with its place.
    pub fn from(&self, place: u64) -> Option<(u64, Arc<IpcEntry<T>>)> {
        let slots = self.slots.lock();
        let first = usize::try_from(place).ok()?;
        let rest = slots.entries.iter().enumerate().skip(first);
        let mut there = rest.filter_map(|(place, entry)| Some((place as u64, entry.clone()?)));
        there.next()
    }

    /// All objects, as found in a single pass.
    pub fn all(&self) -> impl Iterator<Item = Arc<IpcEntry<T>>> {
        let mut next = 0;
        core::iter::from_fn(move || {
            let (place, entry) = self.from(next)?;
            next = place + 1;
            Some(entry)
        })
    }

    /// How many there are, and the highest place in use.
    pub fn usage(&self) -> (usize, usize) {
        let slots = self.slots.lock();
        let last = slots.entries.iter().rposition(Option::is_some);
        (slots.count, last.unwrap_or(0))
    }

    /// Nothing has the number of `entry` any more; whether it had.
    pub fn remove(&self, entry: &IpcEntry<T>) -> bool {
        let place = entry.id as usize & ((1 << PLACE_BITS) - 1);
        let mut slots = self.slots.lock();
        let there = slots.entries.get_mut(place);
        let there = there.filter(|slot| slot.as_ref().is_some_and(|one| one.id == entry.id));
        let Some(gone) = there.and_then(Option::take) else {
            return false;
        };
        slots.count -= 1;
        drop(slots);
        gone.removed.store(true, Ordering::SeqCst);
        drop(gone);
        true
    }
}

impl<T> Slots<T> {
    fn add(
        &mut self,
        next: &AtomicI32,
        make: impl FnOnce(i32) -> IpcEntry<T>,
    ) -> Result<Arc<IpcEntry<T>>> {
        let asked = u32::try_from(next.load(Ordering::Relaxed)).ok();
        let first = asked.map_or(0, |id| id as usize & ((1 << PLACE_BITS) - 1));
        let mut behind = self.entries.iter().enumerate().skip(first);
        let free = behind.find_map(|(place, entry)| entry.is_none().then_some(place));
        let place = free.unwrap_or(self.entries.len().max(first));
        if place >> PLACE_BITS != 0 {
            return Err(Errno::ENOSPC);
        }
        while place >= self.entries.len() {
            try_push(&mut self.entries, None)?;
        }
        let round = match asked {
            Some(id) => (id >> PLACE_BITS) as u16,
            None => {
                let again = self.last.is_some_and(|last| place <= last);
                self.round.wrapping_add(u16::from(again))
            }
        };
        let id = (u32::from(round) << PLACE_BITS | place as u32) & i32::MAX as u32;
        let entry = try_arc(make(id as i32))?;
        if asked.is_some() {
            next.store(-1, Ordering::Relaxed);
        } else {
            (self.round, self.last) = (round, Some(place));
        }
        self.count += 1;
        if let Some(slot) = self.entries.get_mut(place) {
            *slot = Some(entry.clone());
        }
        Ok(entry)
    }
}

impl<T> IpcEntry<T> {
    /// EACCES unless `cred` may do all that the bits of `flags` (0444, 0222) say.
    pub fn may(&self, cred: &Cred, flags: u32) -> Result<()> {
        // Bound: a few words.
        let perm = *self.perm.lock();
        perm.allows(cred, flags)
    }

    /// Whether `cred` may, without waiting: also `false` while the permissions are held.
    pub fn may_now(&self, cred: &Cred, flags: u32) -> bool {
        let perm = self.perm.try_lock().map(|perm| *perm);
        perm.is_some_and(|perm| perm.allows(cred, flags).is_ok())
    }

    /// EPERM unless `cred` is its owner or maker, or may administrate.
    pub fn owned_by(&self, cred: &Cred) -> Result<()> {
        let perm = *self.perm.lock();
        if [perm.uid, perm.cuid].contains(&cred.euid) {
            return Ok(());
        }
        cred.need(Capability::SysAdmin)
    }

    /// Whether its number is free again.
    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::SeqCst)
    }

    /// From now on it is found by its number alone.
    pub fn hide(&self) {
        self.key.store(IPC_PRIVATE, Ordering::Relaxed);
    }

    /// Takes owner and mode from `new`.
    pub fn set_perm(&self, new: &IpcPerm) -> Result<()> {
        if new.uid == u32::MAX || new.gid == u32::MAX {
            return Err(Errno::EINVAL);
        }
        let mut perm = self.perm.lock();
        (perm.uid, perm.gid) = (new.uid, new.gid);
        perm.mode = new.mode & 0o777;
        Ok(())
    }

    /// Its permissions as programs see them.
    pub fn perm(&self) -> IpcPerm {
        let perm = *self.perm.lock();
        IpcPerm {
            key: self.key.load(Ordering::Relaxed),
            uid: perm.uid,
            gid: perm.gid,
            cuid: perm.cuid,
            cgid: perm.cgid,
            mode: perm.mode,
            seq: (self.id >> PLACE_BITS) as u16,
            ..IpcPerm::default()
        }
    }
}
