//! Calls about signals.

#![deny(clippy::arithmetic_side_effects)]

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use machine::clock::now_ns;
use machine::trap::TrapFrame;
use sync::WaitList;
use vm::user;

use super::{Args, Framed, Handler};
use file::fs::pseudofs;
use process::pidfd;
use process::sigframe;
use process::signal::deliver::{raise, set_blocked, sigreturn_slow};
use process::signal::{self, may_signal};
use process::signals::action::FLAGS;
use process::signals::set::UNBLOCKABLE;
use process::signals::{bit, valid};
use process::time::{WaitEnded, wait_deadline};
use process::{Process, Task, tree};

/// See [`super::FRAMED`].
pub const FRAMED: &[(usize, Framed)] = &[
    (nr::RT_SIGRETURN, rt_sigreturn),
    (nr::SIGALTSTACK, sigaltstack),
    (nr::KILL, kill),
    (nr::TKILL, |a, frame| {
        let (tid, signo) = (a.int(0), a.int(1));
        tgkill(frame, None, tid, signo)
    }),
    (nr::TGKILL, |a, frame| {
        let (pid, tid, signo) = (a.int(0), a.int(1), a.int(2));
        tgkill(frame, Some(pid), tid, signo)
    }),
];

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::RT_SIGACTION, rt_sigaction),
    (nr::RT_SIGPROCMASK, rt_sigprocmask),
    (nr::RT_SIGPENDING, rt_sigpending),
    (nr::RT_SIGSUSPEND, rt_sigsuspend),
    (nr::RT_SIGTIMEDWAIT, rt_sigtimedwait),
    (nr::RT_SIGQUEUEINFO, |a| {
        queue(a, a.int(0), 0, a.int(1), a.word(2))
    }),
    (nr::RT_TGSIGQUEUEINFO, |a| {
        queue(a, a.int(0), a.int(1), a.int(2), a.word(3))
    }),
    (nr::PIDFD_SEND_SIGNAL, pidfd_send_signal),
    (nr::PAUSE, |_| {
        sleep();
        Err(Errno::ERESTARTNOHAND)
    }),
    (nr::RESTART_SYSCALL, |_| {
        // Bound: a few words of the thread’s own.
        let restart = Task::current().restart.lock().take();
        restart.map_or(Err(Errno::EINTR), |go_on| go_on())
    }),
];

const SIGSET_BYTES: usize = 8;

fn check_size(size: usize) -> Result<()> {
    if size == SIGSET_BYTES {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

fn rt_sigaction(a: &mut Args) -> Result<usize> {
    let words = (a.int(0), a.word(1), a.word(2), a.word(3));
    Task::here(|task| change_action(&task.process, words)).unwrap_or(Err(Errno::ENOSYS))
}

/// Replaces the action of signal `signo` by that at `new`, writes the one from before to `old`; 0 stands for
/// none. EINVAL, EFAULT.
fn change_action(
    process: &Arc<Process>,
    (signo, new, old, size): (i32, usize, usize, usize),
) -> Result<usize> {
    check_size(size)?;
    if !valid(signo) || (new != 0 && bit(signo) & UNBLOCKABLE != 0) {
        return Err(Errno::EINVAL);
    }
    let actions = &process.signals.actions;
    let before = if new != 0 {
        let mut action: Sigaction = user::get(new)?;
        action.mask &= !UNBLOCKABLE;
        action.flags &= FLAGS;
        // Timers that have expired so far meet the old action.
        signal::settle(process);
        let (before, ignored) = actions.with(|actions| {
            let before = actions.set(signo, action);
            (before, actions.ignored())
        });
        if ignored & bit(signo) != 0 {
            process.signals.forget(process, bit(signo));
        }
        before
    } else {
        actions.with(|actions| actions.get(signo))
    };
    if old != 0 {
        user::put(old, &before)?;
    }
    Ok(0)
}

/// The mask that `how` makes of the one from before and `set`. EINVAL.
fn masked(how: i32, before: u64, set: u64) -> Result<u64> {
    match how {
        SIG_BLOCK => Ok(before | set),
        SIG_UNBLOCK => Ok(before & !set),
        SIG_SETMASK => Ok(set),
        _ => Err(Errno::EINVAL),
    }
}

fn rt_sigprocmask(a: &mut Args) -> Result<usize> {
    check_size(a.word(3))?;
    let task = Task::current();
    let before = task.blocked();
    if a.word(1) != 0 {
        let set: u64 = user::get(a.word(1))?;
        set_blocked(&task, masked(a.int(0), before, set)?);
    }
    if a.word(2) != 0 {
        user::put(a.word(2), &before)?;
    }
    Ok(0)
}

fn rt_sigpending(a: &mut Args) -> Result<usize> {
    if a.word(1) > SIGSET_BYTES {
        return Err(Errno::EINVAL);
    }
    let task = Task::current();
    let pending = task.pending_here() & task.blocked();
    user::copy_out(a.word(0), &pending.to_le_bytes()[..a.word(1)])?;
    Ok(0)
}

/// Replaces the mask until the running call has ended and its handlers have run (`sigsuspend`, `ppoll`,
/// `pselect6`): `at` is the user's mask, 0 for none. EFAULT, EINVAL.
pub fn with_mask(at: usize, size: usize) -> Result<()> {
    if at == 0 {
        return Ok(());
    }
    check_size(size)?;
    let mask: u64 = user::get(at)?;
    let task = Task::current();
    task.saved_mask.store(task.blocked(), Ordering::Relaxed);
    task.mask_is_saved.store(true, Ordering::Relaxed);
    set_blocked(&task, mask);
    Ok(())
}

/// Puts back the mask that [`with_mask`] replaced, when no handler is going to run on the way out.
pub fn end_mask() {
    let task = Task::current();
    if task.mask_is_saved.swap(false, Ordering::Relaxed) {
        set_blocked(&task, task.saved_mask.load(Ordering::Relaxed));
    }
}

/// Sleeps until a signal arrives.
fn sleep() {
    let nobody = WaitList::new();
    // The only way out is an interruption.
    let _ = nobody.wait_interruptible(|| None::<core::convert::Infallible>);
}

fn rt_sigsuspend(a: &mut Args) -> Result<usize> {
    if a.word(0) == 0 {
        return Err(Errno::EFAULT);
    }
    with_mask(a.word(0), a.word(1))?;
    sleep();
    Err(Errno::ERESTARTNOHAND)
}

fn rt_sigtimedwait(a: &mut Args) -> Result<usize> {
    check_size(a.word(3))?;
    let set: u64 = user::get::<u64>(a.word(0))? & !UNBLOCKABLE;
    let timeout = if a.word(2) != 0 {
        let timeout: Timespec = user::get(a.word(2))?;
        Some(timeout.to_ns().ok_or(Errno::EINVAL)?)
    } else {
        None
    };
    let task = Task::current();
    let process = task.process.clone();
    task.awaited.store(set, Ordering::SeqCst);
    let nobody = WaitList::new();
    let take = || {
        let mut info = Siginfo::default();
        process.signals.take(&task, set, &mut info).then_some(info)
    };
    let taken = match timeout {
        // A question only, which sets no alarm.
        Some(0) => Err(WaitEnded::TimedOut),
        timeout => {
            let deadline = timeout.map(|timeout| now_ns().saturating_add(timeout));
            loop {
                match wait_deadline(&nobody, deadline, take) {
                    Err(WaitEnded::Interrupted) if !signal::deliver::has_pending(&task) => {}
                    ended => break ended,
                }
            }
        }
    };
    // One that came behind the last look ends the wait as any other does.
    let taken = taken.or_else(|ended| take().ok_or(ended));
    task.awaited.store(0, Ordering::SeqCst);
    // One that it took leaves others that were left to it as well.
    let left = process.pending() & set & task.blocked.load(Ordering::SeqCst);
    process.signals.leave_to_others(&process, left);
    let info = match taken {
        Ok(info) => info,
        Err(WaitEnded::TimedOut) => return Err(Errno::EAGAIN),
        Err(WaitEnded::Interrupted) => return Err(Errno::EINTR),
    };
    if a.word(1) != 0 {
        user::put(a.word(1), &info)?;
    }
    Ok(info.signo as usize)
}

fn rt_sigreturn(_: &mut Args, registers: &mut TrapFrame) -> Result<usize> {
    let task = Task::current();
    if sigreturn_slow(registers, &task).is_err() {
        let info = Siginfo {
            signo: SIGSEGV,
            code: SI_KERNEL,
            ..Siginfo::default()
        };
        signal::force(info);
    }
    Ok(registers.rax as usize)
}

fn sigaltstack(a: &mut Args, registers: &mut TrapFrame) -> Result<usize> {
    let task = Task::current();
    // Bound: three words of the thread’s own.
    let before = *task.altstack.lock();
    if a.word(0) != 0 {
        let new: Sigaltstack = user::get(a.word(0))?;
        sigframe::change(&mut task.altstack.lock(), &new, registers.rsp)?;
    }
    if a.word(1) != 0 {
        user::put(
            a.word(1),
            &sigframe::altstack_report(&before, registers.rsp),
        )?;
    }
    Ok(0)
}

/// Sends `info` to `process` or its thread `to` if the caller may. Signal 0 only asks.
fn send_checked(process: &Arc<Process>, to: Option<&Arc<Task>>, info: Siginfo) -> Result<()> {
    if !Task::here(|task| Arc::ptr_eq(&task.process, process)).unwrap_or(false) {
        let caller = Process::current();
        let receiver = match to {
            Some(task) => task.cred.get(),
            None => process.cred.get(),
        };
        if !may_signal(&caller, process, &receiver, info.signo) {
            return Err(Errno::EPERM);
        }
    }
    if info.signo == 0 {
        Ok(())
    } else {
        signal::send(process, to, info)
    }
}

fn own_info(signo: i32, code: i32) -> Siginfo {
    let who = |task: &Arc<Task>| (task.process.pid, task.cred.with(|cred| cred.uid));
    let (pid, uid) = Task::here(who).unwrap_or_default();
    Siginfo::sent(signo, code, pid, uid)
}

/// The process that `pid` names, be it by one of its threads.
fn named(pid: i32) -> Option<Arc<Process>> {
    let of_thread = || tree::find_task(pid).map(|task| task.process.clone());
    tree::find(pid).or_else(of_thread)
}

fn kill(a: &mut Args, frame: &mut TrapFrame) -> Result<usize> {
    let (pid, signo) = (a.int(0), a.int(1));
    if signo != 0 && !valid(signo) {
        return Err(Errno::EINVAL);
    }
    let info = own_info(signo, SI_USER);
    // Nobody else can take it.
    let alone = |task: &Arc<Task>| task.process.pid == pid && task.process.thread_count() == 1;
    if raised(frame, &info, alone) {
        return Ok(0);
    }
    let caller = Process::current();
    let mut outcome = Err(Errno::ESRCH);
    let mut to = |process: &Arc<Process>| match send_checked(process, None, info) {
        Ok(()) => outcome = Ok(0),
        Err(error) if outcome.is_err() => outcome = Err(error),
        Err(_) => {}
    };
    match pid {
        i32::MIN => return Err(Errno::ESRCH),
        -1 => {
            let others = |process: &Process| ![tree::INIT, caller.pid].contains(&process.pid);
            tree::each(others, to);
        }
        0 => drop(signal::each_of_group(caller.pgrp(), to)),
        pid if pid < 0 => drop(signal::each_of_group(pid.wrapping_neg(), to)),
        pid => named(pid).iter().for_each(&mut to),
    }
    outcome
}

/// Whether the running task, if it is `meant`, goes on in its handler for `info`, which it has sent.
fn raised(frame: &mut TrapFrame, info: &Siginfo, meant: impl FnOnce(&Arc<Task>) -> bool) -> bool {
    let raise = |task: &Arc<Task>| info.signo != 0 && meant(task) && raise(frame, task, info);
    Task::here(raise) == Some(true)
}

fn tgkill(frame: &mut TrapFrame, pid: Option<i32>, tid: i32, signo: i32) -> Result<usize> {
    if tid <= 0 || pid.is_some_and(|pid| pid <= 0) || (signo != 0 && !valid(signo)) {
        return Err(Errno::EINVAL);
    }
    let info = own_info(signo, SI_TKILL);
    let is_in = |task: &Arc<Task>| pid.is_none_or(|pid| pid == task.process.pid);
    if raised(frame, &info, |task| task.tid == tid && is_in(task)) {
        return Ok(0);
    }
    let tell = |task: &Arc<Task>| {
        if !is_in(task) {
            return Err(Errno::ESRCH);
        }
        send_checked(&task.process, Some(task), info)?;
        Ok(0)
    };
    // The target of `raise` is the caller, so no look-up is needed.
    let own = Task::here(|task| (task.tid == tid).then(|| tell(task)));
    match own.flatten() {
        Some(told) => told,
        None => tell(&tree::find_task(tid).ok_or(Errno::ESRCH)?),
    }
}

/// `sigqueue` and its kin: `tid` 0 means the process.
fn queue(_: &Args, pid: i32, tid: i32, signo: i32, info: usize) -> Result<usize> {
    let mut info: Siginfo = user::get(info)?;
    info.signo = signo;
    let caller = Process::current();
    // Only the kernel may claim to be the kernel or `kill`.
    if (info.code >= 0 || info.code == SI_TKILL) && pid != caller.pid {
        return Err(Errno::EPERM);
    }
    if signo != 0 && !valid(signo) {
        return Err(Errno::EINVAL);
    }
    if tid == 0 {
        let process = named(pid).ok_or(Errno::ESRCH)?;
        send_checked(&process, None, info)?;
    } else {
        let task = tree::find_task(tid).filter(|task| task.process.pid == pid);
        let task = task.ok_or(Errno::ESRCH)?;
        send_checked(&task.process, Some(&task), info)?;
    }
    Ok(0)
}

fn pidfd_send_signal(a: &mut Args) -> Result<usize> {
    let (signo, at) = (a.int(1), a.word(2));
    if a.uint(3) != 0 {
        return Err(Errno::EINVAL);
    }
    let caller = Process::current();
    let of = caller.files.get().get(a.int(0))?;
    // A process's directory does as well as its descriptor.
    let process = match pseudofs::whose(&of) {
        Some(process) => process,
        None => pidfd::of(&of)?.clone(),
    };
    let info = if at == 0 {
        own_info(signo, SI_USER)
    } else {
        let info: Siginfo = user::get(at)?;
        if info.signo != signo {
            return Err(Errno::EINVAL);
        }
        if (info.code >= 0 || info.code == SI_TKILL) && !Arc::ptr_eq(&process, &caller) {
            return Err(Errno::EPERM);
        }
        info
    };
    if process.is_gone() {
        return Err(Errno::ESRCH);
    }
    if signo != 0 && !valid(signo) {
        return Err(Errno::EINVAL);
    }
    send_checked(&process, None, info)?;
    Ok(0)
}
