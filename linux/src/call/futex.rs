//! The calls about futexes.
//!
//! *Interface*: [`CALLS`]. [`process::futex`] does their work.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use machine::clock::now_ns;
use vm::user;

use super::{Args, Handler};
use process::access::{self, PtraceMode};
use process::futex::{FutexKey, exchange_user, pi, requeue, wait, waitv, wake};
use process::time::TimerClock;
use process::{Task, tree};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::FUTEX, futex),
    (nr::FUTEX_WAITV, futex_waitv),
    (nr::SET_ROBUST_LIST, set_robust_list),
    (nr::GET_ROBUST_LIST, get_robust_list),
];

/// Commands whose fourth argument is a time.
const TIMED: &[u32] = &[
    FUTEX_WAIT,
    FUTEX_WAIT_BITSET,
    FUTEX_LOCK_PI,
    FUTEX_LOCK_PI2,
    FUTEX_WAIT_REQUEUE_PI,
];

/// Commands that may say which clock they mean.
const OF_A_CLOCK: &[u32] = &[FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_LOCK_PI2];

fn futex(a: &mut Args) -> Result<usize> {
    let op = a.uint(1);
    let private = op & FUTEX_PRIVATE_FLAG != 0;
    let real = op & FUTEX_CLOCK_REALTIME != 0;
    let (address, other) = (a.word(0), a.word(4));
    let command = op & FUTEX_CMD_MASK;
    let deadline = match a.word(3) {
        at @ 1.. if TIMED.contains(&command) => Some(deadline(at, command, real)?),
        _ => None,
    };
    if real && !OF_A_CLOCK.contains(&command) {
        return Err(Errno::ENOSYS);
    }
    let all = FUTEX_BITSET_MATCH_ANY;
    match command {
        FUTEX_WAIT => wait(address, private, a.uint(2), all, deadline),
        FUTEX_WAIT_BITSET => wait(address, private, a.uint(2), a.uint(5), deadline),
        FUTEX_WAKE => wake(FutexKey::of(address, private)?, a.int(2), all),
        FUTEX_WAKE_BITSET if a.uint(5) == 0 => Err(Errno::EINVAL),
        FUTEX_WAKE_BITSET => wake(FutexKey::of(address, private)?, a.int(2), a.uint(5)),
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => {
            let from = FutexKey::of(address, private)?;
            let to = FutexKey::of(other, private)?;
            let expected = (command == FUTEX_CMP_REQUEUE).then_some((address, a.uint(5)));
            requeue(from, to, a.int(2), a.int(3), expected)
        }
        FUTEX_WAKE_OP => {
            let first = FutexKey::of(address, private)?;
            let second = FutexKey::of(other, private)?;
            let also = operate(other, a.uint(5))?;
            let woken = wake(first, a.int(2), all)?;
            let more = if also {
                wake(second, a.int(3), all)?
            } else {
                0
            };
            Ok(woken + more)
        }
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => pi::lock(address, private, deadline, false),
        FUTEX_TRYLOCK_PI => pi::lock(address, private, None, true),
        FUTEX_UNLOCK_PI => pi::unlock(address, private),
        FUTEX_WAIT_REQUEUE_PI => pi::wait_requeue(address, other, private, a.uint(2), deadline),
        FUTEX_CMP_REQUEUE_PI => pi::requeue(address, other, private, a.int(2), a.int(3), a.uint(5)),
        _ => Err(Errno::ENOSYS),
    }
}

/// The time at `at` on the monotonic clock. EFAULT, EINVAL.
fn deadline(at: usize, command: u32, real: bool) -> Result<u64> {
    let time = user::get::<Timespec>(at)?.to_ns().ok_or(Errno::EINVAL)?;
    match command {
        FUTEX_WAIT => Ok(now_ns().saturating_add(time)),
        _ if real || command == FUTEX_LOCK_PI => TimerClock::Real.deadline(time),
        _ => Ok(time),
    }
}

/// As many words may be waited for at once.
const WORDS: usize = 128;

fn futex_waitv(a: &mut Args) -> Result<usize> {
    let count = a.uint(1) as usize;
    if a.uint(2) != 0 || a.word(0) == 0 || !(1..=WORDS).contains(&count) {
        return Err(Errno::EINVAL);
    }
    let deadline = match a.word(3) {
        0 => None,
        at => {
            let clock = match a.int(4) {
                CLOCK_REALTIME => TimerClock::Real,
                CLOCK_MONOTONIC => TimerClock::Monotonic,
                _ => return Err(Errno::EINVAL),
            };
            let time = user::get::<Timespec>(at)?.to_ns().ok_or(Errno::EINVAL)?;
            Some(clock.deadline(time)?)
        }
    };
    let words: Vec<FutexWaitv> = user::array(a.word(0), count)?;
    waitv::wait(&words, deadline)
}

/// The operation and comparison of `FUTEX_WAKE_OP` on the word at `address`; whether the comparison held.
fn operate(address: usize, encoded: u32) -> Result<bool> {
    let sign_extended = |field: u32| ((field << 20) as i32 >> 20) as u32;
    let operand = sign_extended(encoded >> 12 & 0xfff);
    let comparand = sign_extended(encoded & 0xfff);
    let operand = if encoded >> 31 != 0 {
        1u32.wrapping_shl(operand)
    } else {
        operand
    };
    let mut old: u32 = user::get(address)?;
    loop {
        let new = match encoded >> 28 & 7 {
            0 => operand,
            1 => old.wrapping_add(operand),
            2 => old | operand,
            3 => old & !operand,
            4 => old ^ operand,
            _ => return Err(Errno::ENOSYS),
        };
        let seen = exchange_user(address, old, new)?;
        if seen == old {
            break;
        }
        old = seen;
    }
    let (old, comparand) = (old as i32, comparand as i32);
    Ok(match encoded >> 24 & 15 {
        0 => old == comparand,
        1 => old != comparand,
        2 => old < comparand,
        3 => old <= comparand,
        4 => old > comparand,
        5 => old >= comparand,
        _ => return Err(Errno::ENOSYS),
    })
}

fn set_robust_list(a: &mut Args) -> Result<usize> {
    if a.word(1) != size_of::<RobustListHead>() {
        return Err(Errno::EINVAL);
    }
    Task::current()
        .robust_list
        .store(a.word(0), Ordering::Relaxed);
    Ok(0)
}

fn get_robust_list(a: &mut Args) -> Result<usize> {
    let task = match a.int(0) {
        0 => Some(Task::current()),
        tid => tree::find_task(tid),
    };
    let process = match &task {
        Some(task) => task.process.clone(),
        // The first process runs no code, and a zombie none any more.
        None => tree::find(a.int(0)).ok_or(Errno::ESRCH)?,
    };
    access::may(&process, PtraceMode::Ask)?;
    let list = task.map_or(0, |task| task.robust_list.load(Ordering::Relaxed));
    user::put(a.word(1), &(list as u64))?;
    user::put(a.word(2), &(size_of::<RobustListHead>() as u64))?;
    Ok(0)
}
