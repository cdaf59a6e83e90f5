//! The facts about each routine in the code space: name, class, owner, place, fault table, reference
//! count.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::holding_tank::{HoldingTank, TankLink};

/// The walkers over records, and the records that wait for them.
pub(crate) static TANK: HoldingTank = HoldingTank::new();

/// A source of routines: one per generator. Declared as a `static`; counts what it made and what that cost.
///
/// Classes are found by [`for_each_class`] from the first routine on.
pub struct Class {
    /// Name as listings show it, for instance `pipe.read`.
    pub name: &'static str,
    /// Routines made since boot in the upper 40 bits, those that exist in the lower 24: one locked
    /// instruction counts both.
    counts: AtomicU64,
    /// Time-stamp counts spent on routines from the start of their draft, or the copy of their template,
    /// until they could be run.
    ticks: AtomicU64,
    next: AtomicPtr<Class>,
    known: AtomicBool,
}

static CLASSES: AtomicPtr<Class> = AtomicPtr::new(core::ptr::null_mut());

/// Visits every class that has made a routine, the newest first. Lock-free.
pub fn for_each_class(mut visit: impl FnMut(&'static Class)) {
    let mut at = CLASSES.load(Ordering::Acquire);
    // SAFETY: only `'static` classes are linked, and a link is never changed again.
    while let Some(class) = unsafe { at.as_ref() } {
        visit(class);
        at = class.next.load(Ordering::Acquire);
    }
}

/// The time-stamp counter, where there is one.
pub(crate) fn now() -> u64 {
    #[cfg(not(any(miri, loom)))]
    // SAFETY: every x86-64 has it, and the kernel does not forbid it to itself.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(any(miri, loom))]
    0
}

const MADE_ONE: u64 = 1 << 24;

impl Class {
    /// A class with nothing made yet.
    pub const fn new(name: &'static str) -> Class {
        Class {
            name,
            counts: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
            next: AtomicPtr::new(core::ptr::null_mut()),
            known: AtomicBool::new(false),
        }
    }

    /// Routines that exist now.
    pub fn live(&self) -> usize {
        (self.counts.load(Ordering::Relaxed) % MADE_ONE) as usize
    }

    /// Routines generated since boot.
    pub fn made(&self) -> u64 {
        self.counts.load(Ordering::Relaxed) / MADE_ONE
    }

    /// Time-stamp counts that making one routine took on average; 0 before the first.
    pub fn mean_ticks(&self) -> u64 {
        self.ticks
            .load(Ordering::Relaxed)
            .checked_div(self.made())
            .unwrap_or(0)
    }

    /// Counts a routine whose making began at `began`.
    pub(crate) fn count_in(&'static self, began: u64) {
        self.counts.fetch_add(MADE_ONE + 1, Ordering::Relaxed);
        self.ticks
            .fetch_add(now().wrapping_sub(began), Ordering::Relaxed);
        if !self.known.load(Ordering::Relaxed) && !self.known.swap(true, Ordering::Relaxed) {
            self.make_known();
        }
    }

    #[cold]
    fn make_known(&'static self) {
        let this = core::ptr::from_ref(self).cast_mut();
        let mut head = CLASSES.load(Ordering::Relaxed);
        loop {
            self.next.store(head, Ordering::Relaxed);
            match CLASSES.compare_exchange_weak(head, this, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }

    pub(crate) fn count_out(&self) {
        self.counts.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The name of one routine: a fixed text and, where there are many, a number. Formatted only when somebody
/// looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The words.
    pub text: &'static str,
    /// The number; `u64::MAX` for none.
    pub number: u64,
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Name {
        Name {
            text,
            number: u64::MAX,
        }
    }
}

impl From<(&'static str, u64)> for Name {
    fn from((text, number): (&'static str, u64)) -> Name {
        Name { text, number }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.number == u64::MAX {
            f.write_str(self.text)
        } else {
            write!(f, "{}#{}", self.text, self.number)
        }
    }
}

/// Instructions `start..end` (offsets in the image) whose page faults resume at `fixup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub start: u32,
    pub end: u32,
    pub fixup: u32,
}

/// A fault table: most have one entry or none, those of templates are shared.
pub(crate) enum Faults {
    None,
    One(Fault),
    Owned(Box<[Fault]>),
    Shared(&'static [Fault]),
}

impl Faults {
    pub fn as_slice(&self) -> &[Fault] {
        match self {
            Faults::None => &[],
            Faults::One(one) => core::slice::from_ref(one),
            Faults::Owned(all) => all,
            Faults::Shared(all) => all,
        }
    }
}

/// The record of one routine. Reached from [`Sealed`](crate::Sealed) and [`Routine`](crate::Routine) by
/// pointer and from an address through [`registry`](crate::registry). Freed through
/// [`limbo`](crate::holding_tank).
#[repr(C)]
pub(crate) struct Image {
    /// First field: the node in the holding tank.
    pub limbo: TankLink,
    pub entry: usize,
    pub len: u32,
    pub count: AtomicU32,
    pub owner: AtomicU64,
    pub class: &'static Class,
    pub name: Name,
    pub faults: Faults,
    /// The objects that the code names, kept until nobody can run it any more. Written before the image is
    /// handed out, then only dropped.
    pub keep: UnsafeCell<Option<Arc<dyn Any + Send + Sync>>>,
}

impl Image {
    /// The code, for as long as the caller's count keeps it.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: code is readable at its exec address and not written while the image lives.
        unsafe { core::slice::from_raw_parts(self.entry as *const u8, self.len as usize) }
    }

    pub fn info(&self) -> ImageInfo {
        ImageInfo {
            entry: self.entry,
            len: self.len as usize,
            class: self.class.name,
            name: self.name,
            owner: self.owner.load(Ordering::Relaxed),
            references: self.count.load(Ordering::Relaxed) as usize,
        }
    }
}

/// A copy of what is known about one routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageInfo {
    /// Exec address of the first byte.
    pub entry: usize,
    /// Length of the code in bytes.
    pub len: usize,
    /// Name of the class it was generated from.
    pub class: &'static str,
    /// Its own name.
    pub name: Name,
    /// Its owner, given by the generator's caller (a process or thread number); 0 for the kernel.
    pub owner: u64,
    /// Handles that keep it; 0 while it waits for its grace period.
    pub references: usize,
}
