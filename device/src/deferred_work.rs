//! Deferred work of drivers in thread context (a bottom half).
//!
//! *Interface*: a driver's start gives a [`DeferredWork`], the server of the device. Where a device needs a
//! thread, its interrupt has [`WorkRequest`] for a source, or calls [`wake`]: the thread that waits at
//! [`changes`] while nothing is [`pending`] then runs the deferred work of all servers
//! ([`DeferredWork::attend`]).

use crate::Unusable;
use crate::interrupt::{Source, later};
use alloc::sync::Arc;
use codegen::{Draft, Label, dynasm};
use core::sync::atomic::{AtomicBool, Ordering};
use quaject::assembly::Assembly;
use quaject::near_memory::NearBlock;
use sync::WaitList;
use vm::fallible::try_arc;

/// The server of a device.
pub trait DeferredWork: Send + Sync {
    /// The device goes, or is gone: from now on nothing is asked of it. Waiting and new callers get an error.
    fn remove(&self);

    /// Does what the device wants of a thread, after [`wake`].
    fn attend(&self) {}

    /// Its name among the devices ([`crate::registry`]), if it has one.
    fn name(&self) -> Option<&str> {
        None
    }
}

/// Something has happened that a thread must see to.
static NEWS: AtomicBool = AtomicBool::new(false);
static CHANGES: WaitList = WaitList::new();

/// Has the thread look soon. From anywhere.
pub fn wake() {
    NEWS.store(true, Ordering::Release);
    CHANGES.wake_all();
}

/// The thread looks now: what happens from here on is news again.
pub fn heard() {
    NEWS.store(false, Ordering::SeqCst);
}

/// Woken when something is [`pending`].
pub fn changes() -> &'static WaitList {
    &CHANGES
}

/// Whether something has happened that the thread sees to.
pub fn pending() -> bool {
    NEWS.load(Ordering::Acquire)
}

/// The source of interrupts of what wants nothing but that thread.
pub struct WorkRequest {
    /// In near memory: the device has asked since the thread was woken.
    asked: NearBlock,
}

impl WorkRequest {
    /// A source.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn new() -> Result<Arc<WorkRequest>, Unusable> {
        let asked = NearBlock::new(4).ok_or(Unusable::Resources)?;
        try_arc(WorkRequest { asked }).map_err(|_| Unusable::Resources)
    }

    fn at(&self) -> i32 {
        self.asked.at().as_ptr().expose_provenance() as i32
    }
}

impl Source for WorkRequest {
    fn emit(&self, a: &mut Assembly) {
        dynasm!(a ; .arch x64 ; mov DWORD [self.at()], 1);
    }

    fn look(&self, d: &mut Draft, wake: Label) {
        // Taken back before the thread looks: what is asked from here on is another time.
        let nothing = d.label();
        dynasm!(d ; .arch x64
            ; cmp DWORD [self.at()], 0
            ; je =>nothing
            ; mov DWORD [self.at()], 0
            ; jmp =>wake
            ; =>nothing
        );
    }

    fn wake(&self) {
        later(|_| wake(), 0);
    }
}
