//! The tree of processes: numbers, parents and children, groups.
//!
//! *Interface*: [`find`], [`all`], [`group`]; changes are made by fork, exit, wait and the
//! group calls under the one monitor, which is first in the lock order.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::monitor::Monitor;

use super::Process;

/// All processes by number, zombies included.
pub(crate) struct Tree {
    pub(crate) processes: BTreeMap<i32, Arc<Process>>,
}

pub(crate) static TREE: Monitor<Tree> = Monitor::new(Tree {
    processes: BTreeMap::new(),
});

/// The process with number `pid`.
pub fn find(pid: i32) -> Option<Arc<Process>> {
    TREE.lock().processes.get(&pid).cloned()
}

/// All processes at this instant, in order of their numbers.
pub fn all() -> Vec<Arc<Process>> {
    TREE.lock().processes.values().cloned().collect()
}

/// The members of process group `pgrp`.
pub fn group(pgrp: i32) -> Vec<Arc<Process>> {
    TREE.lock()
        .processes
        .values()
        .filter(|process| process.pgrp() == pgrp)
        .cloned()
        .collect()
}
