//! Calls about processes: making, ending, waiting, groups, identities, limits, usage.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use machine::irqs_off::IrqsOff;

use abi::errno::{Errno, Result};
use abi::layout::USER_END;
use abi::linux::*;
use abi::nr;
use machine::trap::TrapFrame;
use thread::frameless::{NOT_HANDLED, call_handler};
use vm::user;

use super::{Args, Framed, Handler};
use account::{Capability, Cred};
use process::exec;
use process::fork::{self, CloneSpec};
use process::pidfd;
use process::signal::rlimit_cpu;
use process::wait::{WaitFor, wait};
use process::{Process, Task, access, exit, how_ended, tree};
use vm::fallible::try_arc;

/// See [`super::FRAMED`].
pub const FRAMED: &[(usize, Framed)] = &[
    (nr::FORK, |_, frame| {
        fork_with(
            frame,
            CloneSpec {
                exit_signal: SIGCHLD,
                ..CloneSpec::default()
            },
        )
    }),
    (nr::VFORK, |_, frame| {
        fork_with(
            frame,
            CloneSpec {
                flags: CLONE_VM | CLONE_VFORK,
                exit_signal: SIGCHLD,
                ..CloneSpec::default()
            },
        )
    }),
    (nr::CLONE, clone),
    (nr::CLONE3, clone3),
    (nr::EXECVE, |a, frame| {
        let [path, argv, envp, ..] = a.arg;
        exec::execve(frame, AT_FDCWD, path, argv, envp, 0)
    }),
    (nr::EXECVEAT, |a, frame| {
        let ([_, path, argv, envp, ..], dirfd, flags) = (a.arg, a.int(0), a.int(4));
        exec::execve(frame, dirfd, path, argv, envp, flags)
    }),
    (nr::EXIT, |a, frame| {
        let status = status_exited(a.int(0));
        exit::leave(frame, status)
    }),
    (nr::EXIT_GROUP, |a, frame| {
        let status = status_exited(a.int(0));
        exit::exit_group(frame, status)
    }),
];

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::WAIT4, wait4),
    (nr::WAITID, waitid),
    (nr::GETPID, |_| Ok(Task::current().process.pid as usize)),
    (nr::GETPPID, |_| Ok(Task::current().process.ppid() as usize)),
    (nr::GETTID, |_| Ok(Task::current().tid as usize)),
    (nr::SETPGID, setpgid),
    (nr::GETPGID, |a| match process_or_self(a.int(0))?.pgrp() {
        // It has been waited for since it was found.
        0 => Err(Errno::ESRCH),
        group => Ok(group as usize),
    }),
    (nr::GETPGRP, |_| Ok(Task::current().process.pgrp() as usize)),
    (nr::SETSID, |_| {
        Ok(tree::new_session(&Process::current())? as usize)
    }),
    (
        nr::GETSID,
        |a| Ok(process_or_self(a.int(0))?.sid() as usize),
    ),
    (nr::GETUID, |_| Ok(account::caller::cred().uid as usize)),
    (nr::GETEUID, |_| Ok(account::caller::cred().euid as usize)),
    (nr::GETGID, |_| Ok(account::caller::cred().gid as usize)),
    (nr::GETEGID, |_| Ok(account::caller::cred().egid as usize)),
    (nr::SETUID, |a| change_cred(|c| c.setuid(a.uint(0)))),
    (nr::SETGID, |a| change_cred(|c| c.setgid(a.uint(0)))),
    (nr::SETREUID, |a| {
        change_cred(|c| c.setreuid(a.uint(0), a.uint(1)))
    }),
    (nr::SETREGID, |a| {
        change_cred(|c| c.setregid(a.uint(0), a.uint(1)))
    }),
    (nr::SETRESUID, |a| {
        change_cred(|c| c.setresuid(a.uint(0), a.uint(1), a.uint(2)))
    }),
    (nr::SETRESGID, |a| {
        change_cred(|c| c.setresgid(a.uint(0), a.uint(1), a.uint(2)))
    }),
    (nr::GETRESUID, |a| {
        let c = account::caller::cred();
        put_three(a, [c.uid, c.euid, c.suid])
    }),
    (nr::GETRESGID, |a| {
        let c = account::caller::cred();
        put_three(a, [c.gid, c.egid, c.sgid])
    }),
    (nr::SETFSUID, |a| {
        let uid = a.uint(0);
        Task::current().change_cred(|c| Ok(c.setfsuid(uid) as usize))
    }),
    (nr::SETFSGID, |a| {
        let gid = a.uint(0);
        Task::current().change_cred(|c| Ok(c.setfsgid(gid) as usize))
    }),
    (nr::GETGROUPS, getgroups),
    (nr::SETGROUPS, setgroups),
    (nr::GETRLIMIT, |a| {
        prlimit(&Process::current(), a.uint(0), 0, a.word(1))
    }),
    (nr::SETRLIMIT, |a| {
        prlimit(&Process::current(), a.uint(0), a.word(1), 0)
    }),
    (nr::PRLIMIT64, |a| {
        let process = process_or_self(a.int(0))?;
        prlimit(&process, a.uint(1), a.word(2), a.word(3))
    }),
    (nr::GETRUSAGE, getrusage),
    (nr::TIMES, times),
    (nr::SET_TID_ADDRESS, |a| {
        let task = Task::current();
        task.clear_child_tid.store(a.word(0), Ordering::Relaxed);
        Ok(task.tid as usize)
    }),
    (nr::UNSHARE, unshare),
    // There are no namespaces, so no descriptor leads to one.
    (nr::SETNS, |a| {
        Process::current().files.get().get(a.int(0))?;
        Err(Errno::EINVAL)
    }),
];

fn process_or_self(pid: i32) -> Result<Arc<Process>> {
    if pid == 0 {
        return Ok(Process::current());
    }
    tree::find(pid).ok_or(Errno::ESRCH)
}

fn fork_with(frame: &mut TrapFrame, spec: CloneSpec) -> Result<usize> {
    fork::make(frame, spec).map(|pid| pid as usize)
}

fn clone(a: &mut Args, frame: &mut TrapFrame) -> Result<usize> {
    let flags = a.word(0) as u64 & 0xffff_ffff;
    let spec = CloneSpec {
        flags: flags & !CSIGNAL,
        exit_signal: (flags & CSIGNAL) as i32,
        stack: a.word(1) as u64,
        parent_tid: a.word(2),
        child_tid: a.word(3),
        tls: a.word(4) as u64,
        pidfd: a.word(2),
        procedure: None,
        group: 0,
    };
    // One place is for both.
    if flags & CLONE_PIDFD != 0 && flags & CLONE_PARENT_SETTID != 0 {
        return Err(Errno::EINVAL);
    }
    fork_with(frame, spec)
}

fn clone3(a: &mut Args, frame: &mut TrapFrame) -> Result<usize> {
    let spec = clone3_spec(a.word(0), a.word(1))?;
    fork_with(frame, spec)
}

/// `clone3` of a thread by an untraced thread, without the other work of a call by trap frame.
pub(super) extern "sysv64" fn clone3_frameless(frame: &TrapFrame, mut off: IrqsOff) -> isize {
    let made = Task::with_space(|task, space| {
        if task.trace.is_traced() {
            return NOT_HANDLED;
        }
        call_handler(&mut off, || {
            let spec = clone3_spec(frame.rdi as usize, frame.rsi as usize)?;
            if spec.flags & (CLONE_THREAD | CLONE_VFORK) != CLONE_THREAD {
                // The slow path makes it.
                return Err(Errno::ERESTARTNOINTR);
            }
            fork::make_thread(task, space, frame, &spec).map(|number| number as usize)
        })
    });
    made.unwrap_or(NOT_HANDLED)
}

/// The order to `clone3` in `size` bytes at `address`. E2BIG, EINVAL, EFAULT.
#[inline(always)]
fn clone3_spec(address: usize, size: usize) -> Result<CloneSpec> {
    const SMALLEST: usize = 64;
    if size > abi::layout::PAGE {
        return Err(Errno::E2BIG);
    }
    if size < SMALLEST {
        return Err(Errno::EINVAL);
    }
    let mut args = CloneArgs::default();
    let bytes = bytemuck::bytes_of_mut(&mut args);
    let known = size.min(bytes.len());
    user::copy_in(&mut bytes[..known], address)?;
    for at in known..size {
        if user::get::<u8>(address.wrapping_add(at))? != 0 {
            return Err(Errno::E2BIG);
        }
    }
    // The lower half is the flags of `clone`. The flag of a namespace of time is a bit of the signal's
    // number.
    const KNOWN: u64 = u32::MAX as u64 | CLONE_CLEAR_SIGHAND | CLONE_INTO_CGROUP;
    let end = args.stack.checked_add(args.stack_size);
    if args.flags & !KNOWN != 0
        || args.flags & (CSIGNAL | CLONE_DETACHED | CLONE_NEWTIME) != 0
        || args.exit_signal > SIGMAX as u64
        || (args.flags & (CLONE_THREAD | CLONE_PARENT) != 0 && args.exit_signal != 0)
        || end.is_none_or(|end| end > USER_END as u64)
        || (args.flags & (CLONE_PIDFD | CLONE_PARENT_SETTID) == CLONE_PIDFD | CLONE_PARENT_SETTID
            && args.pidfd == args.parent_tid)
        || args.set_tid_size != 0
        || (args.stack == 0) != (args.stack_size == 0)
    {
        return Err(Errno::EINVAL);
    }
    Ok(CloneSpec {
        flags: args.flags,
        exit_signal: args.exit_signal as i32,
        stack: args.stack.wrapping_add(args.stack_size),
        tls: args.tls,
        parent_tid: args.parent_tid as usize,
        child_tid: args.child_tid as usize,
        pidfd: args.pidfd as usize,
        procedure: None,
        group: match args.flags & CLONE_INTO_CGROUP {
            0 => 0,
            _ => group_for_child(args.cgroup, size)?,
        },
    })
}

/// The control group whose directory is open as `fd`, named in an order of `size` bytes. EINVAL, EBADF,
/// ENOENT, EACCES.
#[cold]
fn group_for_child(fd: u64, size: usize) -> Result<u32> {
    let fd = i32::try_from(fd).map_err(|_| Errno::EINVAL)?;
    if size < core::mem::size_of::<CloneArgs>() {
        return Err(Errno::EINVAL);
    }
    procfs::cgroupfs::for_child(&*Process::current().files.get().get(fd)?)
}

fn wait4(a: &mut Args) -> Result<usize> {
    let process = Process::current();
    let which = match a.int(0) {
        -1 => WaitFor::Any,
        0 => WaitFor::Group(process.pgrp()),
        i32::MIN => return Err(Errno::ESRCH),
        pid if pid < 0 => WaitFor::Group(-pid),
        pid => WaitFor::Pid(pid),
    };
    let options = a.uint(2);
    if options & !(WNOHANG | WUNTRACED | WCONTINUED | WNOTHREAD | WALL | WCLONE) != 0 {
        return Err(Errno::EINVAL);
    }
    let Some(report) = wait(&process, which, options | WEXITED)? else {
        return Ok(0);
    };
    if a.word(1) != 0 {
        user::put(a.word(1), &report.status)?;
    }
    if a.word(3) != 0 {
        user::put(a.word(3), &report.usage.rusage())?;
    }
    Ok(report.pid as usize)
}

fn waitid(a: &mut Args) -> Result<usize> {
    let process = Process::current();
    let id = a.int(1);
    let file = match a.uint(0) {
        P_PIDFD if id >= 0 => Some(process.files.get().get(id)?),
        _ => None,
    };
    let which = match a.uint(0) {
        P_PIDFD if let Some(of) = &file => WaitFor::This(pidfd::of(of)?),
        P_ALL => WaitFor::Any,
        P_PID if id > 0 => WaitFor::Pid(id),
        P_PGID if id >= 0 => WaitFor::Group(if id == 0 { process.pgrp() } else { id }),
        _ => return Err(Errno::EINVAL),
    };
    let options = a.uint(3);
    let kinds = WEXITED | WSTOPPED | WCONTINUED;
    if options & kinds == 0
        || options & !(kinds | WNOHANG | WNOWAIT | WNOTHREAD | WALL | WCLONE) != 0
    {
        return Err(Errno::EINVAL);
    }
    // A file that does not wait looks once, and says so.
    let hasty = file.as_ref().is_some_and(|of| of.nonblocking()) && options & WNOHANG == 0;
    let report = wait(&process, which, options | if hasty { WNOHANG } else { 0 })?;
    if hasty && report.is_none() {
        return Err(Errno::EAGAIN);
    }
    let info = report.as_ref().map_or(Siginfo::default(), |report| {
        let (code, status) = decode(report.status);
        Siginfo::child(code, report.pid, report.uid, status, 0, 0)
    });
    if a.word(2) != 0 {
        user::put(a.word(2), &info)?;
    }
    if let Some(report) = report.filter(|_| a.word(4) != 0) {
        user::put(a.word(4), &report.usage.rusage())?;
    }
    Ok(0)
}

/// A `wait` status as `siginfo` has it: the code and the bare value.
fn decode(status: i32) -> (i32, i32) {
    match status {
        STATUS_CONTINUED => (CLD_CONTINUED, SIGCONT),
        s if s & 0xff == 0x7f => (CLD_STOPPED, s >> 8),
        s => how_ended(s),
    }
}

fn setpgid(a: &mut Args) -> Result<usize> {
    let (pid, pgrp) = (a.int(0), a.int(1));
    if pid < 0 || pgrp < 0 {
        return Err(Errno::EINVAL);
    }
    tree::set_group(&Process::current(), pid, pgrp)?;
    Ok(0)
}

fn change_cred(change: impl Fn(&mut Cred) -> Result<()>) -> Result<usize> {
    Task::current().change_cred(change).map(|()| 0)
}

fn put_three(a: &Args, ids: [u32; 3]) -> Result<usize> {
    for (i, id) in ids.iter().enumerate() {
        user::put(a.word(i), id)?;
    }
    Ok(0)
}

const GROUPS_MAX: usize = 65536;

fn getgroups(a: &mut Args) -> Result<usize> {
    let groups = account::caller::cred().groups.clone();
    let room = usize::try_from(a.int(0)).map_err(|_| Errno::EINVAL)?;
    if room != 0 {
        if room < groups.len() {
            return Err(Errno::EINVAL);
        }
        user::copy_out(a.word(1), bytemuck::cast_slice(&groups))?;
    }
    Ok(groups.len())
}

fn setgroups(a: &mut Args) -> Result<usize> {
    let count = a.uint(0) as usize;
    account::caller::cred().need(Capability::Setgid)?;
    if count > GROUPS_MAX {
        return Err(Errno::EINVAL);
    }
    let mut groups: Vec<u32> = user::array(a.word(1), count)?;
    groups.sort_unstable();
    let groups = try_arc(groups)?;
    change_cred(|c| c.setgroups(groups.clone()))
}

fn prlimit(process: &Arc<Process>, resource: u32, new: usize, old: usize) -> Result<usize> {
    let resource = resource as usize;
    access::may_limit(process)?;
    let raises = account::caller::cred().has(Capability::SysResource);
    let new = if new != 0 {
        Some(user::get::<Rlimit>(new)?)
    } else {
        None
    };
    let before = {
        // Bound: a few words of one process.
        let mut limits = process.limits.lock();
        let before = limits.get(resource)?;
        if let Some(new) = new {
            limits.set(resource, new, raises)?;
        }
        before
    };
    match (resource, new) {
        (RLIMIT_NOFILE, Some(new)) => process.files.get().set_limit(new.cur as usize),
        (RLIMIT_CPU, Some(_)) => rlimit_cpu::watch(process),
        (RLIMIT_FSIZE, Some(new)) if new.cur != RLIM_INFINITY => {
            process.files.get().bound_files();
        }
        _ => {}
    }
    if old != 0 {
        user::put(old, &before)?;
    }
    Ok(0)
}

fn getrusage(a: &mut Args) -> Result<usize> {
    let task = Task::current();
    let usage = match a.int(0) {
        RUSAGE_SELF => task.process.usage(),
        RUSAGE_CHILDREN => task.process.children_usage(),
        RUSAGE_THREAD => task.usage(),
        _ => return Err(Errno::EINVAL),
    };
    user::put(a.word(1), &usage.rusage())?;
    Ok(0)
}

fn times(a: &mut Args) -> Result<usize> {
    const TICK: u64 = NSEC_PER_SEC / CLK_TCK;
    let process = Process::current();
    if a.word(0) != 0 {
        let [own, children] = [process.usage(), process.children_usage()];
        let tms = Tms {
            utime: (own.user_ns / TICK) as i64,
            stime: (own.system_ns / TICK) as i64,
            cutime: (children.user_ns / TICK) as i64,
            cstime: (children.system_ns / TICK) as i64,
        };
        user::put(a.word(0), &tms)?;
    }
    Ok((machine::clock::now_ns() / TICK) as usize)
}

/// Of what can be unshared, a process of one thread shares nothing but its descriptors and its place in the
/// file system.
fn unshare(a: &mut Args) -> Result<usize> {
    let flags = a.word(0) as u64;
    let process = Process::current();
    let alone = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM;
    if flags & !(fork::NAMESPACES | alone | CLONE_FILES | CLONE_FS | CLONE_SYSVSEM) != 0
        || flags & alone != 0 && process.thread_count() > 1
    {
        return Err(Errno::EINVAL);
    }
    fork::no_namespaces(flags)?;
    if flags & CLONE_FS != 0 {
        process.fs.set(process.fs.get().fork_copy()).leave();
    }
    if flags & CLONE_SYSVSEM != 0 {
        process::ipc::semaphore::undo(&process);
    }
    if flags & CLONE_FILES != 0 {
        process::dispatch::unshare_files(&process)?;
    }
    Ok(0)
}
