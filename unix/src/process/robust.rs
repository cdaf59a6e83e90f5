//! Robust futexes: locks that a thread held when it ended are marked and one waiter is woken.
//!
//! *Interface*: [`release`]. Everything in the list is the program's own and may lie: each step is a checked copy, and the
//! length is bounded.
//!
//! Source: the `set_robust_list` contract as documented for user programs.

use core::sync::atomic::Ordering;

use abi::linux::*;
use vm::user;

use super::Task;
use crate::call::futex;

/// The most entries that are followed.
const ENTRIES_MAX: usize = 2048;

/// Releases the locks on the ending `task`'s robust list. The task's space is still active.
pub(crate) fn release(task: &Task) {
    let head = task.robust_list.swap(0, Ordering::Relaxed);
    if head != 0 {
        let _ = walk(task, head);
    }
}

fn walk(task: &Task, at: usize) -> abi::Result<()> {
    let head: RobustListHead = user::get(at)?;
    let lock = |entry: u64| (entry & !1).wrapping_add(head.futex_offset as u64) as usize;
    let mut entry = head.next;
    for _ in 0..ENTRIES_MAX {
        if entry & !1 == at as u64 {
            break;
        }
        let next: u64 = user::get((entry & !1) as usize)?;
        if entry != head.list_op_pending {
            abandon(task, lock(entry))?;
        }
        entry = next;
    }
    if head.list_op_pending != 0 {
        abandon(task, lock(head.list_op_pending))?;
    }
    Ok(())
}

/// Marks one lock word if `task` holds it.
fn abandon(task: &Task, address: usize) -> abi::Result<()> {
    if !address.is_multiple_of(4) {
        return Ok(());
    }
    let mut word: u32 = user::get(address)?;
    loop {
        if word & FUTEX_TID_MASK != task.tid as u32 {
            return Ok(());
        }
        let dead = word & FUTEX_WAITERS | FUTEX_OWNER_DIED;
        let seen = futex::exchange_user(address, word, dead)?;
        if seen == word {
            break;
        }
        word = seen;
    }
    if word & FUTEX_WAITERS != 0 {
        futex::wake_user(&task.process, address, 1);
    }
    Ok(())
}
