//! Calls about who runs when: priorities, affinity, policies.
//!
//! Threads are paced by the data they move, not by priorities; what these calls set is remembered and reported.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use vm::user;

use super::{Args, Handler};
use crate::process::{Capability, Process, Task, access, tree};
use crate::signal;

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::SCHED_YIELD, |_| {
        (sync::callout::get().yield_now)();
        Ok(0)
    }),
    (nr::GETPRIORITY, getpriority),
    (nr::SETPRIORITY, setpriority),
    (nr::SCHED_GETAFFINITY, sched_getaffinity),
    (nr::SCHED_SETAFFINITY, sched_setaffinity),
    (nr::SCHED_GETSCHEDULER, |a| {
        task_or_self(a.int(0)).map(|_| SCHED_OTHER as usize)
    }),
    (nr::SCHED_SETSCHEDULER, |a| {
        set_policy(a.int(0), a.int(1), a.word(2))
    }),
    (nr::SCHED_GETPARAM, |a| {
        task_or_self(a.int(0))?;
        user::put(a.word(1), &0i32).map(|()| 0)
    }),
    (nr::SCHED_SETPARAM, |a| {
        set_policy(a.int(0), SCHED_OTHER, a.word(1))
    }),
    (nr::SCHED_GET_PRIORITY_MAX, |a| priority_bound(a.int(0), 99)),
    (nr::SCHED_GET_PRIORITY_MIN, |a| priority_bound(a.int(0), 1)),
    (nr::SCHED_RR_GET_INTERVAL, |a| {
        let task = task_or_self(a.int(0))?;
        user::put(a.word(1), &Timespec::from_ns(task.thread.quantum_ns())).map(|()| 0)
    }),
    (nr::GETCPU, getcpu),
];

fn task_or_self(tid: i32) -> Result<Arc<Task>> {
    match tid {
        0 => Ok(Task::current()),
        tid if tid < 0 => Err(Errno::EINVAL),
        tid => tree::find_task(tid).ok_or(Errno::ESRCH),
    }
}

/// Calls `f` with the processes that `which` and `who` name. ESRCH: there is none.
fn each_named(a: &Args, mut f: impl FnMut(&Arc<Process>)) -> Result<()> {
    let caller = Process::current();
    let who = a.int(1);
    let count = match a.int(0) {
        PRIO_PROCESS if who == 0 => {
            f(&caller);
            1
        }
        PRIO_PROCESS => {
            let task = tree::find_task(who);
            task.iter().for_each(|task| f(&task.process));
            usize::from(task.is_some())
        }
        PRIO_PGRP => {
            let pgrp = if who == 0 { caller.pgrp() } else { who };
            signal::each_of_group(pgrp, f)
        }
        PRIO_USER => {
            let uid = if who == 0 {
                caller.cred.get().uid
            } else {
                who as u32
            };
            tree::each(|process| process.cred.get().uid == uid, f)
        }
        _ => return Err(Errno::EINVAL),
    };
    if count == 0 {
        Err(Errno::ESRCH)
    } else {
        Ok(())
    }
}

fn getpriority(a: &mut Args) -> Result<usize> {
    let mut lowest = i32::MAX;
    each_named(a, |process| lowest = lowest.min(process.nice()))?;
    Ok((20 - lowest) as usize)
}

fn setpriority(a: &mut Args) -> Result<usize> {
    let nice = a.int(2).clamp(-20, 19);
    // The others of those that are named are changed even so.
    let mut outcome = Ok(0);
    each_named(a, |process| {
        if let Err(error) = set_nice(process, nice) {
            outcome = Err(error);
        }
    })?;
    outcome
}

/// EPERM, EACCES.
fn set_nice(process: &Process, nice: i32) -> Result<()> {
    access::may_schedule(process)?;
    if nice < process.nice() && !may_hurry(process, nice) {
        return Err(Errno::EACCES);
    }
    process.nice.store(nice, Ordering::Relaxed);
    Ok(())
}

/// Whether `process` may be made as little nice as `nice`: its limit counts from 20 down.
fn may_hurry(process: &Process, nice: i32) -> bool {
    let limit = process.limits.lock().cur(RLIMIT_NICE);
    (20 - nice) as u64 <= limit || Process::current().cred.get().has(Capability::SysNice)
}

fn cpu_mask() -> u64 {
    (1 << machine::cpu::cpus()) - 1
}

fn sched_getaffinity(a: &mut Args) -> Result<usize> {
    task_or_self(a.int(0))?;
    let mask = cpu_mask().to_le_bytes();
    let room = a.uint(1) as usize;
    if room < mask.len() || !room.is_multiple_of(mask.len()) {
        return Err(Errno::EINVAL);
    }
    user::copy_out(a.word(2), &mask)?;
    Ok(mask.len())
}

fn sched_setaffinity(a: &mut Args) -> Result<usize> {
    let task = task_or_self(a.int(0))?;
    let mut mask = [0; 8];
    let len = (a.uint(1) as usize).min(mask.len());
    user::copy_in(&mut mask[..len], a.word(2))?;
    access::may_schedule(&task.process)?;
    if u64::from_le_bytes(mask) & cpu_mask() == 0 {
        Err(Errno::EINVAL)
    } else {
        Ok(0)
    }
}

fn set_policy(tid: i32, policy: i32, param: usize) -> Result<usize> {
    let process = task_or_self(tid)?.process.clone();
    let priority: i32 = user::get(param)?;
    match policy {
        SCHED_OTHER | SCHED_BATCH | SCHED_IDLE if priority == 0 => {}
        SCHED_FIFO | SCHED_RR if (1..=99).contains(&priority) => {
            let limit = process.limits.lock().cur(RLIMIT_RTPRIO);
            if priority as u64 > limit {
                Process::current().cred.get().need(Capability::SysNice)?;
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    access::may_schedule(&process).map(|()| 0)
}

fn priority_bound(policy: i32, real_time: usize) -> Result<usize> {
    match policy {
        SCHED_FIFO | SCHED_RR => Ok(real_time),
        SCHED_OTHER | SCHED_BATCH | SCHED_IDLE => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

fn getcpu(a: &mut Args) -> Result<usize> {
    let cpu = machine::cpu::this_cpu().number() as u32;
    for (address, value) in [(a.word(0), cpu), (a.word(1), 0)] {
        if address != 0 {
            user::put(address, &value)?;
        }
    }
    Ok(0)
}
