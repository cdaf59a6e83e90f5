//! What files ask about processes, without knowing them, beyond what everybody may ask about the caller
//! (`account::caller`).
//!
//! *Interface*: the functions here; the room of processes links them once ([`link`]). Before, and where no
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

/// One that is sent signals.
pub trait Arrivals: Send + Sync {
    /// Woken when one comes.
    fn arrivals(&self) -> &WaitList;
}

/// Somebody who can be told, or nobody.
pub type Found = Option<Arc<dyn Hearer>>;
/// Is called with a table.
pub type EachTable<'a> = &'a mut dyn FnMut(Arc<Files>);
/// Is called with a space.
pub type EachSpace<'a> = &'a mut dyn FnMut(&AddressSpace);

/// The callouts.
pub struct Callouts {
    /// The descriptor table of the running process.
    pub table: fn() -> Option<Arc<Files>>,
    /// Where it stands in the tree of names.
    pub context: fn() -> Option<Arc<FsContext>>,
    /// Itself, as one that is sent signals.
    pub arrivals: fn() -> Option<Arc<dyn Arrivals>>,
    /// Whether there is a process of this number.
    pub exists: fn(i32) -> bool,
    /// Whom `F_OWNER_…` and a number name; nobody for number 0. ESRCH, EINVAL, ENOMEM.
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

/// Whom `kind` (`F_OWNER_…`) and `number` name; nobody for number 0. ESRCH, EINVAL, ENOMEM.
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
