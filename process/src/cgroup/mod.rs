//! Control groups: the hierarchy, and what each group has of the machine.
//!
//! *Interface*: [`root`], and below it [`Cgroup::make`], [`Cgroup::remove`], [`Cgroup::child`]. A thread is
//! in one group, whose number its `sched` has; the threads of a process are together (`members.rs`). A
//! group's settings are methods of [`Cgroup`]. The file system of the groups is in a room above, which keeps
//! the owners of its files here ([`Cgroup::owner`]). `cpu_weight.rs` divides CPU time by the weights.
//!
//! All of the hierarchy is under one monitor. A process in the root group never takes it: making and ending
//! a thread look at its number, and 0 is the root's. A group is a few hundred words, charged to its maker;
//! there are at most [`MOST`] and [`DEPTH`] within each other.

mod cpu_weight;
mod members;

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use sync::{Monitor, Once};
use vm::fallible::{try_arc, try_insert_at, try_push, try_slice};

use crate::process::usage::ReportedTimes;
use account::quota;
use account::user::Charge;
use file::fs::ownership::Ownership;

pub use feedback::groups::WEIGHT;
pub use members::{enter, follow, leave, member_after, of, settle, thread_after};

/// The controller of CPU time.
pub const CPU: u32 = 1;
/// The controller of the number of threads.
pub const PIDS: u32 = 2;
/// The controllers that there are, by their names.
pub const CONTROLLERS: [(&str, u32); 2] = [("cpu", CPU), ("pids", PIDS)];
/// No limit.
pub const UNLIMITED: u32 = u32::MAX;

/// Groups that there may be.
const MOST: usize = 4096;
/// Levels below the root that there may be.
const DEPTH: u32 = 32;
/// The memory of a group with the owners of its files, about.
const BYTES: u64 = 2048;

/// A control group.
pub struct Cgroup {
    /// Its number, above that of the group that it is in; no other group ever has it. The root's is 0.
    pub id: u32,
    name: Arc<[u8]>,
    parent: Option<Arc<Cgroup>>,
    depth: u32,
    gone: AtomicBool,
    /// Threads in it, and in it and below.
    own: AtomicU32,
    held: AtomicU32,
    /// Groups directly in it, and all below.
    children: AtomicU32,
    below: AtomicU32,
    /// Controllers that the groups in it have.
    passed_on: AtomicU32,
    weight: AtomicU32,
    /// It is to be frozen, with those below.
    freezes: AtomicBool,
    most_threads: AtomicU32,
    refused: AtomicU64,
    most_depth: AtomicU32,
    most_below: AtomicU32,
    /// The time of threads that ended here or went, less the earlier time of those that came: CPU time, and
    /// the samples by which it is divided. Wraps.
    past: [AtomicU64; 3],
    told: Monitor<ReportedTimes>,
    owners: Vec<Monitor<Ownership>>,
    _charge: Option<Charge>,
}

/// All groups but the root, by rising number.
struct Hierarchy {
    groups: Vec<Arc<Cgroup>>,
    next: u32,
}

static HIERARCHY: Monitor<Hierarchy> = Monitor::new(Hierarchy {
    groups: Vec::new(),
    next: 1,
});
static ROOT: Once<Arc<Cgroup>> = Once::new();
/// Threads in groups below the root.
static COUNTED: AtomicUsize = AtomicUsize::new(0);

/// Makes the root, whose files have these `owners`; at boot, once.
pub fn found(owners: Vec<Monitor<Ownership>>) -> Result<()> {
    let root = Cgroup::new(0, try_slice(b"")?, None, owners, None);
    let _first = ROOT.set(try_arc(root)?);
    Ok(())
}

/// The root. None before it is made.
pub fn root() -> Option<Arc<Cgroup>> {
    ROOT.get().cloned()
}

impl Hierarchy {
    fn get(&self, id: u32) -> Option<&Arc<Cgroup>> {
        if id == 0 {
            return ROOT.get();
        }
        let place = self.groups.binary_search_by_key(&id, |group| group.id);
        self.groups.get(place.ok()?)
    }

    fn child(&self, above: &Cgroup, name: &[u8]) -> Option<&Arc<Cgroup>> {
        let named = |group: &&Arc<Cgroup>| group.is_in(above) && *group.name == *name;
        self.groups.iter().find(named)
    }
}

/// The CPU time of a group, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl Cgroup {
    fn new(
        id: u32,
        name: Arc<[u8]>,
        parent: Option<Arc<Cgroup>>,
        owners: Vec<Monitor<Ownership>>,
        charge: Option<Charge>,
    ) -> Cgroup {
        Cgroup {
            id,
            name,
            depth: parent.as_ref().map_or(0, |above| above.depth + 1),
            parent,
            gone: AtomicBool::new(false),
            own: AtomicU32::new(0),
            held: AtomicU32::new(0),
            children: AtomicU32::new(0),
            below: AtomicU32::new(0),
            passed_on: AtomicU32::new(0),
            weight: AtomicU32::new(WEIGHT),
            freezes: AtomicBool::new(false),
            most_threads: AtomicU32::new(UNLIMITED),
            refused: AtomicU64::new(0),
            most_depth: AtomicU32::new(UNLIMITED),
            most_below: AtomicU32::new(UNLIMITED),
            past: [const { AtomicU64::new(0) }; 3],
            told: Monitor::new(ReportedTimes::default()),
            owners,
            _charge: charge,
        }
    }

    /// Its name; empty for the root.
    pub fn name(&self) -> &Arc<[u8]> {
        &self.name
    }

    /// The group that it is in.
    pub fn parent(&self) -> Option<&Arc<Cgroup>> {
        self.parent.as_ref()
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// Whether it was removed.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// The attributes of its file number `file`, if the maker has given it so many.
    pub fn owner(&self, file: usize) -> Option<&Monitor<Ownership>> {
        self.owners.get(file)
    }

    fn is_in(&self, above: &Cgroup) -> bool {
        self.parent
            .as_ref()
            .is_some_and(|parent| parent.id == above.id)
    }

    /// It and those above it, the root last.
    fn up(&self) -> impl Iterator<Item = &Cgroup> {
        core::iter::successors(Some(self), |group| group.parent.as_deref())
    }

    /// The path from the root, `/` for the root itself. ENOMEM.
    pub fn path(&self) -> Result<Vec<u8>> {
        let mut path = Vec::new();
        for group in self.up().filter(|group| !group.is_root()) {
            for (place, byte) in core::iter::once(&b'/').chain(&*group.name).enumerate() {
                try_insert_at(&mut path, place, *byte)?;
            }
        }
        if path.is_empty() {
            try_push(&mut path, b'/')?;
        }
        Ok(path)
    }

    /// The group called `name` in it.
    pub fn child(&self, name: &[u8]) -> Option<Arc<Cgroup>> {
        // Bound: **global**: **linear** in the groups, at most 4096: a comparison of names, or a move of the
        // list.
        HIERARCHY.lock().child(self, name).cloned()
    }

    /// The group in it with the lowest number that is `from` or more.
    pub fn child_from(&self, from: u32) -> Option<Arc<Cgroup>> {
        let hierarchy = HIERARCHY.lock();
        let first = hierarchy.groups.partition_point(|group| group.id < from);
        let mut later = hierarchy.groups.iter().skip(first);
        later.find(|group| group.is_in(self)).cloned()
    }

    /// Makes a group called `name` in it, whose files have these `owners`. EEXIST, ENOENT: it was removed.
    /// EAGAIN: there are as many as may be. ENOMEM.
    pub fn make(
        self: &Arc<Cgroup>,
        name: &[u8],
        owners: Vec<Monitor<Ownership>>,
    ) -> Result<Arc<Cgroup>> {
        let charge = quota::bytes(BYTES).ok_or(Errno::ENOMEM)?;
        let name = try_slice(name)?;
        let mut hierarchy = HIERARCHY.lock();
        if self.is_gone() {
            return Err(Errno::ENOENT);
        }
        if hierarchy.child(self, &name).is_some() {
            return Err(Errno::EEXIST);
        }
        let full = |(level, above): (u32, &Cgroup)| {
            level >= above.most_depth.load(Relaxed)
                || above.below.load(Relaxed) >= above.most_below.load(Relaxed)
        };
        let (next, count) = (hierarchy.next.checked_add(1), hierarchy.groups.len());
        let next = next.ok_or(Errno::EAGAIN)?;
        if self.depth >= DEPTH || count >= MOST || (0..).zip(self.up()).any(full) {
            return Err(Errno::EAGAIN);
        }
        let id = hierarchy.next;
        let group = try_arc(Cgroup::new(
            id,
            name,
            Some(self.clone()),
            owners,
            Some(charge),
        ))?;
        try_insert_at(&mut hierarchy.groups, count, group.clone())?;
        hierarchy.next = next;
        add(&self.children, 1);
        self.up().for_each(|above| add(&above.below, 1));
        Ok(group)
    }

    /// Removes the group called `name` in it. ENOENT; EBUSY: it has processes, or groups in it.
    pub fn remove(&self, name: &[u8]) -> Result<()> {
        let mut hierarchy = HIERARCHY.lock();
        let found = hierarchy.child(self, name).ok_or(Errno::ENOENT)?;
        if found.held.load(Relaxed) > 0 || found.children.load(Relaxed) > 0 {
            return Err(Errno::EBUSY);
        }
        let id = found.id;
        let place = hierarchy.groups.binary_search_by_key(&id, |group| group.id);
        let gone = hierarchy.groups.remove(place.map_err(|_| Errno::ENOENT)?);
        gone.gone.store(true, Relaxed);
        take(&self.children, 1);
        self.up().for_each(|above| take(&above.below, 1));
        for (sum, past) in self.past.iter().zip(&gone.past) {
            sum.fetch_add(past.load(Relaxed), Relaxed);
        }
        drop(hierarchy);
        Ok(())
    }

    /// The controllers that it has.
    pub fn controllers(&self) -> u32 {
        match &self.parent {
            Some(above) => above.passed_on(),
            None => CPU | PIDS,
        }
    }

    /// Whether it has all of these controllers itself, so that files of its own set them.
    pub fn has(&self, controllers: u32) -> bool {
        !self.is_root() && self.controllers() & controllers == controllers
    }

    /// The controllers that it gives to the groups in it.
    pub fn passed_on(&self) -> u32 {
        self.passed_on.load(Relaxed)
    }

    /// Gives controllers to the groups in it, and takes others away. ENOENT: it has not got these itself;
    /// EBUSY: it has processes and so have groups in it, or a group in it gives on what is taken away;
    /// EOPNOTSUPP: it may have no processes; ENODEV: it was removed.
    pub fn pass_on(&self, given: u32, taken: u32) -> Result<()> {
        let hierarchy = HIERARCHY.lock();
        if self.is_gone() {
            return Err(Errno::ENODEV);
        }
        let (now, inside) = (self.passed_on(), || {
            hierarchy.groups.iter().filter(|group| group.is_in(self))
        });
        let (given, taken) = (given & !now, taken & now);
        if given & !self.controllers() != 0 {
            return Err(Errno::ENOENT);
        }
        if inside().any(|group| group.passed_on() & taken != 0) {
            return Err(Errno::EBUSY);
        }
        if given != 0 && !self.is_root() {
            if self.is_invalid() {
                return Err(Errno::EOPNOTSUPP);
            }
            if self.own.load(Relaxed) > 0 && self.is_populated_below() {
                return Err(Errno::EBUSY);
            }
        }
        self.passed_on.store(now & !taken | given, Relaxed);
        for group in inside() {
            if taken & CPU != 0 {
                group.weight.store(WEIGHT, Relaxed);
            }
            if taken & PIDS != 0 {
                group.most_threads.store(UNLIMITED, Relaxed);
            }
        }
        drop(hierarchy);
        cpu_weight::begin();
        Ok(())
    }

    /// Whether it or a group below has threads.
    pub fn is_populated(&self) -> bool {
        self.held.load(Relaxed) > 0
    }

    fn is_populated_below(&self) -> bool {
        self.held.load(Relaxed) > self.own.load(Relaxed)
    }

    /// Its processes compete with groups in it.
    pub fn is_mixed(&self) -> bool {
        !self.is_root() && self.own.load(Relaxed) > 0 && self.passed_on() != 0
    }

    /// It is below one whose processes do, and can have none.
    pub fn is_invalid(&self) -> bool {
        self.up().skip(1).any(Cgroup::is_mixed)
    }

    /// How many groups are directly in it.
    pub fn children(&self) -> u32 {
        self.children.load(Relaxed)
    }

    /// How many groups are below it.
    pub fn below(&self) -> u32 {
        self.below.load(Relaxed)
    }

    /// Its weight among those beside it, 1 to 10000.
    pub fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Sets it. ERANGE.
    pub fn set_weight(&self, weight: u64) -> Result<()> {
        let weight = u32::try_from(weight)
            .ok()
            .filter(|it| (1..=10_000).contains(it));
        self.weight.store(weight.ok_or(Errno::ERANGE)?, Relaxed);
        Ok(())
    }

    /// Whether it is to be frozen, by its own setting.
    pub fn freezes(&self) -> bool {
        self.freezes.load(Relaxed)
    }

    /// How many threads are in it and below.
    pub fn threads(&self) -> u32 {
        self.held.load(Relaxed)
    }

    /// How many there may be, and how often one more was refused.
    pub fn most_threads(&self) -> (u32, u64) {
        (self.most_threads.load(Relaxed), self.refused.load(Relaxed))
    }

    /// Sets how many there may be; those that there are stay.
    pub fn set_most_threads(&self, most: u32) {
        self.most_threads.store(most, Relaxed);
    }

    /// How many levels of groups may be below it, and how many groups.
    pub fn most_below(&self) -> [&AtomicU32; 2] {
        [&self.most_depth, &self.most_below]
    }

    /// The CPU time of threads in it and below, those that have ended included. ENOMEM.
    pub fn consumed(&self) -> Result<CgroupUsage> {
        let sum = members::consumed(self)?;
        // Bound: a few words.
        let [user_ns, system_ns] = self.told.lock().divide_sum(sum);
        Ok(CgroupUsage { user_ns, system_ns })
    }
}

fn add(count: &AtomicU32, amount: u32) {
    count.store(count.load(Relaxed).saturating_add(amount), Relaxed);
}

fn take(count: &AtomicU32, amount: u32) {
    count.store(count.load(Relaxed).saturating_sub(amount), Relaxed);
}
