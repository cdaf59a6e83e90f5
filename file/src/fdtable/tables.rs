//! The descriptor tables that there are: callouts.
//!
//! *Interface*: [`own`], [`each`]; the process room links them once ([`link`]). Before that, and where no
//! process runs, there is none.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use sync::Once;

use super::FdTable;

/// Is called with a table.
pub type EachTable<'a> = &'a mut dyn FnMut(Arc<FdTable>);

/// The callouts.
pub struct Tables {
    /// The descriptor table of the running process.
    pub own: fn() -> Option<Arc<FdTable>>,
    /// Calls a function with the descriptor table of each process, of some more than once.
    pub each: fn(EachTable),
}

static LINKED: Once<&Tables> = Once::new();

/// Links the callouts, at boot; the first call counts.
pub fn link(tables: &'static Tables) {
    let _first = LINKED.set(tables);
}

/// The descriptor table of the running process. ESRCH.
pub fn own() -> Result<Arc<FdTable>> {
    let table = LINKED.get().and_then(|linked| (linked.own)());
    table.ok_or(Errno::ESRCH)
}

/// Calls `f` with the descriptor table of each process, of some more than once. May sleep.
pub fn each(f: EachTable) {
    if let Some(linked) = LINKED.get() {
        (linked.each)(f);
    }
}
