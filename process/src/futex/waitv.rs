//! `futex_waitv`: waiting on several futexes at once.
//!
//! *Interface*: [`wait`]. The thread is in the bucket of each futex with a separate waiter, and sleeps until
//! one of these waiters is woken.

use alloc::sync::Arc;
use alloc::vec::Vec;

use abi::errno::{Errno, Result};
use abi::linux::*;

use super::{FutexKey, Role, begin, sleep, withdraw};
use crate::process::waiter::Waiter;
use crate::time::WaitEnded;
use vm::fallible::{try_push, try_reserve};

/// Sleeps while each word is as expected, until one is woken: the index of the last that was. EINVAL, EAGAIN,
/// ETIMEDOUT, EFAULT, ENOMEM.
pub fn wait(words: &[FutexWaitv], deadline: Option<u64>) -> Result<usize> {
    let mut waiters: Vec<(Arc<Waiter>, FutexKey)> = Vec::new();
    try_reserve(&mut waiters, words.len())?;
    for word in words {
        let known = word.flags & !(FUTEX_32 | FUTEX_PRIVATE_FLAG) == 0 && word.reserved == 0;
        if !known || word.flags & FUTEX_32 == 0 {
            return Err(Errno::EINVAL);
        }
    }
    for word in words {
        let key = FutexKey::of(word.uaddr as usize, word.flags & FUTEX_PRIVATE_FLAG != 0)?;
        let waiter = Waiter::new(key, FUTEX_BITSET_MATCH_ANY, None)?;
        try_push(&mut waiters, (waiter, key))?;
    }
    for (i, (word, (waiter, key))) in words.iter().zip(&waiters).enumerate() {
        let address = word.uaddr as usize;
        let begun = begin(
            waiter,
            *key,
            Role::Plain,
            address,
            word.val as u32,
            deadline,
        );
        if let Err(error) = begun {
            // An earlier waiter may have been woken meanwhile.
            return leave(&waiters[..i]).ok_or(error);
        }
    }
    let ended = sleep(
        || waiters.iter().any(|(waiter, _)| waiter.is_woken()),
        deadline,
    );
    leave(&waiters).ok_or(match ended {
        Err(WaitEnded::TimedOut) => Errno::ETIMEDOUT,
        _ => Errno::ERESTARTSYS,
    })
}

/// Waits no more: which was woken last in their order, if any was.
fn leave(waiters: &[(Arc<Waiter>, FutexKey)]) -> Option<usize> {
    let mut woken = None;
    for (i, (waiter, _)) in waiters.iter().enumerate() {
        if withdraw(waiter).is_none() {
            woken = Some(i);
        }
    }
    woken
}
