//! The questions of files about other processes, beyond those about the caller (`account::caller`).
//!
//! *Interface*: the functions here; the process room links them once ([`link`]). Before that, and where no
//! process runs, there is none.
//!
//! Source: dissertation, section 4.1.3 (callouts, and the default actions of unconnected ones).

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use sync::{Once, WaitList};
use vm::AddressSpace;

use crate::file::told::Hearer;
use crate::files::Files;
use crate::fs::FsContext;

/// A receiver of signals.
pub trait Arrivals: Send + Sync {
    /// Woken when one comes.
    fn arrivals(&self) -> &WaitList;
}

/// A possible receiver, or none.
pub type Found = Option<Arc<dyn Hearer>>;
/// Is called with a table.
pub type EachTable<'a> = &'a mut dyn FnMut(Arc<Files>);
/// Is called with a space.
pub type EachSpace<'a> = &'a mut dyn FnMut(&AddressSpace);

/// The callouts.
pub struct Callouts {
    /// The descriptor table of the running process.
    pub table: fn() -> Option<Arc<Files>>,
    /// Its root and working directory.
    pub context: fn() -> Option<Arc<FsContext>>,
    /// Itself, as one that is sent signals.
    pub arrivals: fn() -> Option<Arc<dyn Arrivals>>,
    /// Whether there is a process of this number.
    pub exists: fn(i32) -> bool,
    /// Finds the receiver by `F_OWNER_…` and a number; none for number 0. ESRCH, EINVAL, ENOMEM.
    pub hearer: fn(i32, i32) -> Result<Found>,
    /// Calls a function with the descriptor table of each process.
    pub each_table: fn(EachTable),
    /// Calls a function with the space of each process that has one.
    pub each_space: fn(EachSpace),
}

static LINKED: Once<&Callouts> = Once::new();

/// Links the callouts, at boot; the first call counts.
pub fn link(callouts: &'static Callouts) {
    let _first = LINKED.set(callouts);
}

/// The descriptor table of the running process. ESRCH.
pub fn table() -> Result<Arc<Files>> {
    let table = LINKED.get().and_then(|linked| (linked.table)());
    table.ok_or(Errno::ESRCH)
}

/// Root, working directory and mask of the running process. ESRCH.
pub fn context() -> Result<Arc<FsContext>> {
    let context = LINKED.get().and_then(|linked| (linked.context)());
    context.ok_or(Errno::ESRCH)
}

/// The running process, as one that is sent signals.
pub fn arrivals() -> Option<Arc<dyn Arrivals>> {
    LINKED.get().and_then(|linked| (linked.arrivals)())
}

/// Whether there is a process `pid`.
pub fn exists(pid: i32) -> bool {
    LINKED.get().is_some_and(|linked| (linked.exists)(pid))
}

/// Finds the receiver by `kind` (`F_OWNER_…`) and `number`; none for number 0. ESRCH, EINVAL, ENOMEM.
pub fn hearer(kind: i32, number: i32) -> Result<Found> {
    match LINKED.get() {
        Some(linked) => (linked.hearer)(kind, number),
        None => Ok(None),
    }
}

/// Calls `f` with the descriptor table of each process. May sleep.
pub fn each_table(f: EachTable) {
    if let Some(linked) = LINKED.get() {
        (linked.each_table)(f);
    }
}

/// Calls `f` with the space of each process that has one. May sleep.
pub fn each_space(f: EachSpace) {
    if let Some(linked) = LINKED.get() {
        (linked.each_space)(f);
    }
}
