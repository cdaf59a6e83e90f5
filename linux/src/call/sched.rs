//! Scheduling calls: niceness, affinity, policies, priorities of input and output.
//!
//! Threads are paced by the data that they move, around a quantum of their own, which niceness and policy set
//! ([`process::sched_params`]). All settings are reported by Linux's rules.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::*;
use abi::nr;
use vm::user;

use super::{Args, Handler};
use account::Capability;
use process::sched_params::{SchedParams, SchedPolicy};
use process::sched_target::SchedTarget;
use process::signal;
use process::{Process, Task, access, tree};
use thread::Terms;

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::SCHED_YIELD, |_| {
        thread::give_up_turn();
        (sync::callout::get().yield_now)();
        Ok(0)
    }),
    (nr::GETPRIORITY, getpriority),
    (nr::SETPRIORITY, setpriority),
    (nr::SCHED_GETAFFINITY, sched_getaffinity),
    (nr::SCHED_SETAFFINITY, sched_setaffinity),
    (nr::SCHED_GETSCHEDULER, |a| {
        let policy = settings(&task_or_self(a.int(0))?)?.policy();
        let reset = if policy.reset { SCHED_RESET_ON_FORK } else { 0 };
        Ok((policy.kind | reset) as usize)
    }),
    (nr::SCHED_SETSCHEDULER, |a| match a.int(1) {
        ..0 => Err(Errno::EINVAL),
        policy => set_scheduler(a.int(0), Some(policy), a.word(2)),
    }),
    (nr::SCHED_GETPARAM, |a| {
        if a.word(1) == 0 {
            return Err(Errno::EINVAL);
        }
        let priority = settings(&task_or_self(a.int(0))?)?.policy().priority;
        user::put(a.word(1), &priority).map(|()| 0)
    }),
    (nr::SCHED_SETPARAM, |a| {
        set_scheduler(a.int(0), None, a.word(1))
    }),
    (nr::SCHED_SETATTR, sched_setattr),
    (nr::SCHED_GETATTR, sched_getattr),
    (nr::SCHED_GET_PRIORITY_MAX, |a| priority_bound(a.int(0), 99)),
    (nr::SCHED_GET_PRIORITY_MIN, |a| priority_bound(a.int(0), 1)),
    (nr::SCHED_RR_GET_INTERVAL, |a| {
        let target = task_or_self(a.int(0))?;
        let interval = match settings(&target)?.policy().kind {
            // Nobody of the same priority takes the CPU from it.
            SCHED_FIFO | SCHED_DEADLINE => 0,
            _ => target.quantum_ns(),
        };
        user::put(a.word(1), &Timespec::from_ns(interval)).map(|()| 0)
    }),
    (nr::GETCPU, getcpu),
    (nr::IOPRIO_GET, ioprio_get),
    (nr::IOPRIO_SET, ioprio_set),
];

fn task_or_self(tid: i32) -> Result<SchedTarget> {
    match tid {
        tid if tid < 0 => Err(Errno::EINVAL),
        tid => named(tid),
    }
}

/// The thread with this number, the running one for 0. ESRCH.
fn named(tid: i32) -> Result<SchedTarget> {
    match tid {
        0 => Ok(SchedTarget::Thread(Task::current())),
        tid => SchedTarget::find(tid).ok_or(Errno::ESRCH),
    }
}

/// The settings of `target`. ESRCH: it has gone meanwhile.
fn settings(target: &SchedTarget) -> Result<&SchedParams> {
    target.sched().ok_or(Errno::ESRCH)
}

/// The meaning of a number in a call that may be for several threads.
#[derive(Clone, Copy)]
enum Who {
    Thread(i32),
    Group(i32),
    User(u32),
}

/// Calls `f` with the threads that are meant. ESRCH: there is none.
fn each_named(who: Who, mut f: impl FnMut(&SchedTarget)) -> Result<()> {
    let mut found = false;
    let mut all_of = |process: &Arc<Process>, meant: &dyn Fn(&SchedTarget) -> bool| {
        let mut tell = |target: &SchedTarget| {
            if meant(target) {
                found = true;
                f(target);
            }
        };
        process.each_thread(|task| {
            tell(&SchedTarget::Thread(task.clone()));
            true
        });
        if process.ended_sched().is_some() {
            tell(&SchedTarget::Ended(process.clone()));
        }
    };
    let all = |_: &SchedTarget| true;
    match who {
        Who::Thread(tid) => {
            f(&named(tid)?);
            found = true;
        }
        Who::Group(0) => {
            signal::each_of_group(Process::current().pgrp(), |process| all_of(process, &all));
        }
        Who::Group(pgrp) => {
            signal::each_of_group(pgrp, |process| all_of(process, &all));
        }
        Who::User(uid) => {
            let uid = match uid {
                0 => account::caller::cred().uid,
                uid => uid,
            };
            let meant = |target: &SchedTarget| target.cred().uid == uid;
            tree::each(|_| true, |process| all_of(process, &meant));
        }
    }
    found.then_some(()).ok_or(Errno::ESRCH)
}

/// The threads of `getpriority` and `setpriority`.
fn by_priority(a: &Args) -> Result<Who> {
    Ok(match a.int(0) {
        PRIO_PROCESS => Who::Thread(a.int(1)),
        PRIO_PGRP => Who::Group(a.int(1)),
        PRIO_USER => Who::User(a.uint(1)),
        _ => return Err(Errno::EINVAL),
    })
}

fn getpriority(a: &mut Args) -> Result<usize> {
    let mut lowest = i32::MAX;
    each_named(by_priority(a)?, |target| {
        lowest = lowest.min(target.sched().map_or(i32::MAX, SchedParams::nice));
    })?;
    if lowest == i32::MAX {
        return Err(Errno::ESRCH);
    }
    Ok((20 - lowest) as usize)
}

fn setpriority(a: &mut Args) -> Result<usize> {
    let nice = a.int(2).clamp(-20, 19);
    // The others of those that are named are changed even so.
    let mut outcome = Ok(0);
    each_named(by_priority(a)?, |task| {
        if let Err(error) = set_nice(task, nice) {
            outcome = Err(error);
        }
    })?;
    outcome
}

/// EPERM, EACCES.
fn set_nice(target: &SchedTarget, nice: i32) -> Result<()> {
    access::may_schedule(&target.cred())?;
    if nice < settings(target)?.nice() && !may_hurry(target, nice) {
        return Err(Errno::EACCES);
    }
    target.set_nice(nice);
    Ok(())
}

/// Whether `target` may be made as little nice as `nice`: its limit counts from 20 down.
fn may_hurry(target: &SchedTarget, nice: i32) -> bool {
    // Bound: a few words of one process.
    let limit = target.process().limits.lock().cur(RLIMIT_NICE);
    (20 - nice) as u64 <= limit || account::caller::cred().has(Capability::SysNice)
}

fn cpu_mask() -> u64 {
    (1 << machine::cpu::cpus()) - 1
}

fn sched_getaffinity(a: &mut Args) -> Result<usize> {
    let room = a.uint(1) as usize;
    if room < size_of::<u64>() || !room.is_multiple_of(size_of::<u64>()) {
        return Err(Errno::EINVAL);
    }
    let mask = settings(&named(a.int(0))?)?.allowed() & cpu_mask();
    user::put(a.word(2), &mask)?;
    Ok(size_of::<u64>())
}

fn sched_setaffinity(a: &mut Args) -> Result<usize> {
    let mut mask = [0; 8];
    let len = (a.uint(1) as usize).min(mask.len());
    user::copy_in(&mut mask[..len], a.word(2))?;
    let target = named(a.int(0))?;
    access::may_schedule(&target.cred())?;
    let mask = u64::from_le_bytes(mask) & cpu_mask();
    if mask == 0 {
        return Err(Errno::EINVAL);
    }
    target.set_allowed(mask, cpu_mask()).map(|()| 0)
}

/// `sched_setscheduler` and, without a policy, `sched_setparam`.
fn set_scheduler(tid: i32, kind: Option<i32>, param: usize) -> Result<usize> {
    if param == 0 || tid < 0 {
        return Err(Errno::EINVAL);
    }
    let priority: i32 = user::get(param)?;
    let target = task_or_self(tid)?;
    let sched = settings(&target)?;
    let policy = match kind {
        None => SchedPolicy {
            priority,
            terms: Terms::default(),
            ..sched.policy()
        },
        Some(kind) => SchedPolicy {
            kind: kind & !SCHED_RESET_ON_FORK,
            priority,
            reset: kind & SCHED_RESET_ON_FORK != 0,
            ..SchedPolicy::default()
        },
    };
    set_policy(&target, policy, sched.nice(), false)
}

/// Whether a thread can be promised this.
fn are_possible(terms: Terms) -> bool {
    const LEAST_NS: u64 = 1024;
    /// 100 µs to 4.2 s, as on Linux.
    const PERIODS_NS: core::ops::RangeInclusive<u64> = 100_000..=(1 << 22) * 1000;
    terms.runtime_ns >= LEAST_NS
        && terms.runtime_ns <= terms.deadline_ns
        && terms.deadline_ns <= terms.period_ns
        && PERIODS_NS.contains(&terms.period_ns)
}

/// Gives `task` another policy and niceness, or looks only whether it may be done and `keep`s both. EINVAL,
/// EPERM; EBUSY: no processor can promise so much time in every period.
fn set_policy(target: &SchedTarget, new: SchedPolicy, nice: i32, keep: bool) -> Result<usize> {
    let sched = settings(target)?;
    let old = sched.policy();
    let real_time = SchedPolicy::is_real_time(new.kind);
    match new.kind {
        SCHED_OTHER | SCHED_BATCH | SCHED_IDLE if new.priority == 0 => {}
        SCHED_DEADLINE if new.priority == 0 && are_possible(new.terms) => {}
        SCHED_FIFO | SCHED_RR if (1..=99).contains(&new.priority) => {}
        _ => return Err(Errno::EINVAL),
    }
    let same = {
        let (mine, its) = (account::caller::cred(), target.cred());
        [its.uid, its.euid].contains(&mine.euid)
    };
    let most = target.process().limits.lock().cur(RLIMIT_RTPRIO);
    let hurries = real_time
        && (new.kind != old.kind && most == 0
            || new.priority > old.priority && new.priority as u64 > most);
    let needs = !same
        || hurries
        || new.kind == SCHED_DEADLINE
        || !real_time && nice < sched.nice() && !may_hurry(target, nice)
        || old.kind == SCHED_IDLE && new.kind != SCHED_IDLE && !may_hurry(target, sched.nice())
        || old.reset && !new.reset;
    if needs {
        account::caller::cred().need(Capability::SysNice)?;
    }
    // It has to run where there is room.
    if new.kind == SCHED_DEADLINE && sched.allowed() & cpu_mask() != cpu_mask() {
        return Err(Errno::EPERM);
    }
    let reset = new.reset;
    let new = if keep {
        SchedPolicy { reset, ..old }
    } else {
        new
    };
    target.set_policy(new)?;
    if !real_time && !keep {
        target.set_nice(nice);
    }
    Ok(0)
}

/// The flags that go with SCHED_DEADLINE.
const OPTIONS: u64 = SCHED_FLAG_RECLAIM | SCHED_FLAG_DL_OVERRUN;
/// Size of the first form of [`SchedAttr`].
const ATTR_FIRST: usize = 48;

fn sched_setattr(a: &mut Args) -> Result<usize> {
    const CLAMPS: u64 = SCHED_FLAG_UTIL_CLAMP_MIN | SCHED_FLAG_UTIL_CLAMP_MAX;
    const ALL: u64 = SCHED_FLAG_RESET_ON_FORK
        | OPTIONS
        | SCHED_FLAG_KEEP_POLICY
        | SCHED_FLAG_KEEP_PARAMS
        | CLAMPS;
    let (tid, at) = (a.int(0), a.word(1));
    if at == 0 || tid < 0 || a.uint(2) != 0 {
        return Err(Errno::EINVAL);
    }
    let size = match user::get::<u32>(at)? as usize {
        0 => ATTR_FIRST,
        size if (ATTR_FIRST..=PAGE).contains(&size) => size,
        _ => {
            user::put(at, &(size_of::<SchedAttr>() as u32))?;
            return Err(Errno::E2BIG);
        }
    };
    let mut attr = SchedAttr::default();
    let bytes = bytemuck::bytes_of_mut(&mut attr);
    let known = size.min(bytes.len());
    user::copy_in(&mut bytes[..known], at)?;
    for beyond in known..size {
        if user::get::<u8>(at.wrapping_add(beyond))? != 0 {
            user::put(at, &(size_of::<SchedAttr>() as u32))?;
            return Err(Errno::E2BIG);
        }
    }
    if attr.policy as i32 > SCHED_DEADLINE || (attr.policy as i32) < 0 {
        return Err(Errno::EINVAL);
    }
    let target = named(tid)?;
    let sched = settings(&target)?;
    let old = sched.policy();
    if attr.flags & !ALL != 0 {
        return Err(Errno::EINVAL);
    }
    if attr.flags & CLAMPS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let mut new = SchedPolicy {
        kind: attr.policy as i32,
        priority: i32::try_from(attr.priority).map_err(|_| Errno::EINVAL)?,
        reset: attr.flags & SCHED_FLAG_RESET_ON_FORK != 0,
        ..SchedPolicy::default()
    };
    let mut nice = attr.nice.clamp(-20, 19);
    if attr.flags & SCHED_FLAG_KEEP_POLICY != 0 {
        (new.kind, new.reset) = (old.kind, old.reset);
    }
    if new.kind == SCHED_DEADLINE {
        new.options = attr.flags & OPTIONS;
        new.terms = Terms {
            runtime_ns: attr.runtime,
            deadline_ns: attr.deadline,
            period_ns: match attr.period {
                0 => attr.deadline,
                period => period,
            },
        };
    }
    let keep = attr.flags & SCHED_FLAG_KEEP_PARAMS != 0;
    if keep {
        (new.priority, nice) = (old.priority, sched.nice());
        if old.kind == SCHED_DEADLINE {
            new.terms = old.terms;
        }
    }
    set_policy(&target, new, nice, keep)
}

fn sched_getattr(a: &mut Args) -> Result<usize> {
    let (tid, at, size) = (a.int(0), a.word(1), a.uint(2) as usize);
    if at == 0 || tid < 0 || !(ATTR_FIRST..=PAGE).contains(&size) || a.uint(3) != 0 {
        return Err(Errno::EINVAL);
    }
    let target = named(tid)?;
    let sched = settings(&target)?;
    let policy = sched.policy();
    let known = size.min(size_of::<SchedAttr>());
    let attr = SchedAttr {
        size: known as u32,
        policy: policy.kind as u32,
        flags: (u64::from(policy.reset) * SCHED_FLAG_RESET_ON_FORK) | policy.options,
        nice: match policy.rank() {
            0 => sched.nice(),
            _ => 0,
        },
        priority: policy.priority as u32,
        runtime: policy.terms.runtime_ns,
        deadline: policy.terms.deadline_ns,
        period: policy.terms.period_ns,
        ..SchedAttr::default()
    };
    user::copy_out(at, &bytemuck::bytes_of(&attr)[..known])?;
    Ok(0)
}

fn priority_bound(policy: i32, real_time: usize) -> Result<usize> {
    match policy {
        SCHED_FIFO | SCHED_RR => Ok(real_time),
        SCHED_OTHER | SCHED_BATCH | SCHED_IDLE | SCHED_DEADLINE => Ok(0),
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

/// Classes of input and output, which stand above these bits.
const IO_CLASS: u32 = 13;
const IO_NONE: u32 = 0;
const IO_REAL_TIME: u32 = 1;
const IO_BEST_EFFORT: u32 = 2;
const IO_IDLE: u32 = 3;

/// The threads of `ioprio_get` and `ioprio_set`.
fn by_io(a: &Args) -> Result<Who> {
    Ok(match a.int(0) {
        1 => Who::Thread(a.int(1)),
        2 => Who::Group(a.int(1)),
        3 => Who::User(a.uint(1)),
        _ => return Err(Errno::EINVAL),
    })
}

fn ioprio_get(a: &mut Args) -> Result<usize> {
    let who = by_io(a)?;
    // Of several the most urgent; who has set none is treated by its niceness then.
    let one = matches!(who, Who::Thread(_));
    let mut best = u32::MAX;
    each_named(who, |target| {
        let Some(sched) = target.sched() else {
            return;
        };
        let set = sched.io.load(Ordering::Relaxed);
        let own = if !one && set >> IO_CLASS == IO_NONE {
            (IO_BEST_EFFORT << IO_CLASS) | ((sched.nice() + 20) as u32 / 5)
        } else {
            set
        };
        best = best.min(own);
    })?;
    Ok(best as usize)
}

fn ioprio_set(a: &mut Args) -> Result<usize> {
    let new = a.uint(2);
    let level = new & ((1 << IO_CLASS) - 1);
    match new >> IO_CLASS {
        IO_REAL_TIME => {
            let cred = account::caller::cred();
            if !cred.has(Capability::SysAdmin) {
                cred.need(Capability::SysNice)?;
            }
            if level >= 8 {
                return Err(Errno::EINVAL);
            }
        }
        IO_BEST_EFFORT if level < 8 => {}
        IO_IDLE => {}
        IO_NONE if level == 0 => {}
        _ => return Err(Errno::EINVAL),
    }
    let mine = account::caller::cred();
    let mut outcome = Ok(0);
    each_named(by_io(a)?, |target| {
        let its = target.cred().uid;
        if [mine.uid, mine.euid].contains(&its) || mine.has(Capability::SysNice) {
            if let Some(sched) = target.sched() {
                sched.io.store(new, Ordering::Relaxed);
            }
        } else {
            outcome = Err(Errno::EPERM);
        }
    })?;
    outcome
}
