//! Robust futexes: locks that a thread held when it ended are marked and one waiter is woken.
//!
//! *Interface*: [`release`]. The list is the program's own data and may be wrong: each step is a checked
//! copy, and the length is bounded.
//!
//! Source: the `set_robust_list` contract as documented for user programs.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::Errno;
use abi::linux::*;
use vm::user;

use super::{exchange_user, pi, wake_user};
use crate::process::Task;

/// The most entries that are followed.
const ENTRIES_MAX: usize = 2048;

/// Releases the locks of the ending `task`, whose space is still active: those on its robust list, and those
/// for which others wait in the kernel. `goes_on`: it continues with another program.
#[inline(always)]
pub(crate) fn release(task: &Arc<Task>, goes_on: bool) {
    let at = task.robust_list.swap(0, Ordering::Relaxed);
    if at != 0 {
        pi::ending(task);
        if let Ok(head) = user::get::<RobustListHead>(at)
            && (head.next & !1 != at as u64 || head.list_op_pending != 0)
        {
            let _ = walk(task, at, &head);
        }
    }
    pi::ended(task, goes_on);
}

/// A lock on the list.
#[derive(Clone, Copy)]
struct Lock {
    address: usize,
    /// Its waiters are the kernel's to see to ([`pi`]).
    pi: bool,
    /// It was about to be taken or given up.
    pending: bool,
}

/// Releases the locks on the list at `at`, which begins with `head`.
#[inline(never)]
fn walk(task: &Task, at: usize, head: &RobustListHead) -> abi::Result<()> {
    let lock = |entry: u64| Lock {
        address: (entry & !1).wrapping_add(head.futex_offset as u64) as usize,
        pi: entry & 1 != 0,
        pending: entry == head.list_op_pending,
    };
    let mut entry = head.next;
    for _ in 0..ENTRIES_MAX {
        if entry & !1 == at as u64 {
            break;
        }
        // Read before the lock gets an owner.
        let next = user::get::<u64>((entry & !1) as usize);
        if entry & !1 != head.list_op_pending & !1 {
            abandon(task, lock(entry))?;
        }
        entry = next?;
    }
    if head.list_op_pending != 0 {
        abandon(task, lock(head.list_op_pending))?;
    }
    Ok(())
}

/// Marks one lock word if `task` holds it.
fn abandon(task: &Task, lock: Lock) -> abi::Result<()> {
    let address = lock.address;
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    let mut word: u32 = user::get(address)?;
    loop {
        let owner = word & FUTEX_TID_MASK;
        if lock.pending && !lock.pi && owner == 0 {
            // It was released, and perhaps no waiter was woken.
            wake_user(address);
            return Ok(());
        }
        if owner != task.tid as u32 {
            return Ok(());
        }
        let dead = word & FUTEX_WAITERS | FUTEX_OWNER_DIED;
        let seen = exchange_user(address, word, dead)?;
        if seen == word {
            break;
        }
        word = seen;
    }
    if !lock.pi && word & FUTEX_WAITERS != 0 {
        wake_user(address);
    }
    Ok(())
}
