//! The native calls: thread operations between any two threads that the caller may name.
//!
//! *Interface*: [`dispatch`] answers [`abi::native::CALL`]; the operations on quajects are in [`quajects`].
//! [`thread::direct`] has answered the frequent operations within one process before.
//!
//! Rights: a thread may use every operation on the threads of its own process, and on those of another
//! process if `ptrace`'s rule permits ([`access`]). The kernel's own threads need `CAP_SYS_ADMIN`, and allow
//! only suspend, stop, resume and state. Idle threads cannot be stopped: their processor would be.
//! Source: dissertation, section 4.3.2.

#![deny(clippy::arithmetic_side_effects)]

pub mod quajects;

use alloc::sync::Arc;

use abi::errno::{Errno, Result};
use abi::layout::{PROTECTED_RETURN, USER_END};
use abi::linux::*;
use abi::native;
use thread::thread_quaject::{ThreadControl, ThreadQuaject};
use thread::{Mode, Procedure, Thread};
use vm::user;

use super::Args;
use account::Capability;
use machine::trap::TrapFrame;
use process::access::{self, PtraceMode};
use process::dispatch::cached;
use process::fork::{self, CloneSpec};
use process::{Process, Task, tree};

/// The parts of its process that a native thread shares: everything.
const SHARED: u64 =
    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

/// Answers one native call: operation in the first argument.
#[inline]
pub fn dispatch(a: &mut Args, frame: &mut TrapFrame) -> Result<usize> {
    match a.word(0) {
        operation if names_a_thread(operation) => {
            on_thread(operation, a.arg[1] as u64, [a.word(2), a.word(3)])
        }
        _ => others(a, frame),
    }
}

/// Whether it is one of the operations of [`operate`].
fn names_a_thread(operation: usize) -> bool {
    (native::DESTROY..=native::STATE).contains(&operation) && operation != native::WAIT
}

#[inline(never)]
fn others(a: &mut Args, frame: &mut TrapFrame) -> Result<usize> {
    match a.word(0) {
        native::HANDLE => handle_of(a.int(1)).map(|handle| handle as usize),
        native::CREATE => create(a, frame),
        native::WAIT => wait(a.word(2)),
        native::NOTICE => notice(a),
        native::THREAD => thread_quaject(a),
        native::JOB => job(a),
        native::STRIP => match thread::job::strip() {
            Some(estimate) => Ok(estimate as usize),
            None => Err(Errno::EINVAL),
        },
        operation if quajects::answers(operation) => quajects::operate(operation, a),
        // The thread that it would name is looked for first.
        operation => on_thread(operation, a.arg[1] as u64, [0, 0]),
    }
}

/// Whether `number` is one that a program can have for a call of its own.
pub fn is_cached(number: usize) -> bool {
    (native::CACHED..native::CACHED + native::CACHED_MOST).contains(&number)
}

/// The call that the program has this number for, for a thread whose dispatcher does not know it.
#[cold]
pub fn by_own_number(a: &mut Args, frame: &mut TrapFrame) -> Result<usize> {
    let process = Process::current();
    let of = cached::find(&process, a.nr).ok_or(Errno::ENOSYS)?;
    // From here on it is that call, also where it is interrupted and starts again.
    match of.callentry() {
        None => {
            frame.error = of.operation.into();
            frame.rdi = of.fd.into();
        }
        Some(number) => {
            frame.error = native::CALL as u64;
            frame.rdi = native::INVOKE as u64;
            frame.rsi = of.fd.into();
            frame.rdx = number as u64;
        }
    }
    drop(process);
    super::dispatch(&mut Args::new(frame), frame)
}

fn handle_of(tid: i32) -> Result<u64> {
    if tid == 0 {
        return Ok(thread::current().handle_number());
    }
    let task = tree::find_task(tid).ok_or(Errno::ESRCH)?;
    Ok(task.thread.handle_number())
}

/// The event of a `wait` or `notify`.
fn event(number: usize) -> Result<u32> {
    match number {
        number if number < native::EVENTS => Ok(number as u32),
        _ => Err(Errno::EINVAL),
    }
}

fn wait(number: usize) -> Result<usize> {
    match thread::wait_interruptible(event(number)?) {
        true => Ok(0),
        false => Err(Errno::ERESTARTSYS),
    }
}

/// Work until a deadline. EFAULT, EINVAL, ENOMEM.
fn job(a: &Args) -> Result<usize> {
    let (strips, deadline_ns) = (a.word(1) as u64, a.word(2) as u64);
    if strips == 0 {
        thread::job::give_up();
        return Ok(0);
    }
    let procedure = user_procedure(a.word(3))?;
    if deadline_ns <= machine::clock::now_ns() {
        return Err(Errno::EINVAL);
    }
    let declared = thread::job::declare(strips, deadline_ns, procedure);
    declared.map(|()| 0).map_err(|_| Errno::ENOMEM)
}

/// Makes a quaject that tells a thread of an event. The errors of `notify`, and of making one.
fn notice(a: &Args) -> Result<usize> {
    let event = event(a.word(2))?;
    let target = named(a.arg[1] as u64)?;
    permit(&target, native::NOTIFY)?;
    quajects::notice(target.handle_number(), event)
}

/// Makes a quaject whose callentries are the operations on a thread. EINVAL, ESRCH, and the errors of making
/// one.
fn thread_quaject(a: &Args) -> Result<usize> {
    let number = event(a.word(2))?;
    let steered = ThreadQuaject {
        thread: named(a.arg[1] as u64)?.handle_number(),
        number,
        how: &STEERING,
    };
    quajects::of_thread(steered)
}

/// The operations on a thread by a quaject: those of the calls, with the same rights.
static STEERING: ThreadControl = ThreadControl {
    act: |steered, operation, argument| {
        if operation == native::WAIT {
            let own = steered.thread == thread::current().handle_number();
            return if own {
                wait(steered.number as usize)
            } else {
                Err(Errno::EINVAL)
            };
        }
        let number = steered.number as usize;
        let arguments = match operation {
            native::INTERRUPT => [argument, 0],
            _ => [number, argument],
        };
        on_thread(operation, steered.thread, arguments)
    },
    may: |steered, operation| permit(&named(steered.thread)?, operation),
};

/// The thread with this handle; 0: the running one. ESRCH.
#[inline(always)]
fn named(handle: u64) -> Result<Thread> {
    match handle {
        0 => Ok(thread::current().handle()),
        handle => thread::by_handle(handle).ok_or(Errno::ESRCH),
    }
}

#[inline(never)]
fn on_thread(operation: usize, handle: u64, [first, second]: [usize; 2]) -> Result<usize> {
    let target = named(handle)?;
    match permission(&target, operation)? {
        None => operate(operation, &target, first, second),
        Some((process, wish)) => access::with(&process, wish, || {
            operate(operation, &target, first, second)
        })?,
    }
}

#[inline(never)]
fn operate(operation: usize, target: &Thread, first: usize, second: usize) -> Result<usize> {
    match operation {
        native::DESTROY => target.kill(),
        native::SUSPEND if target.address() == thread::current().address() => thread::hold_self(),
        native::SUSPEND => target.hold(),
        native::RESUME => target.release(),
        native::STOP => target.stop(),
        native::STEP => return target.step().then_some(0).ok_or(Errno::EBUSY),
        native::INTERRUPT => {
            let procedure = user_procedure(first)?;
            target.interrupt(procedure).map_err(|_| Errno::EAGAIN)?;
        }
        native::SIGNAL => {
            let procedure = target.procedure(first).ok_or(Errno::EINVAL)?;
            target.interrupt(procedure).map_err(|_| Errno::EAGAIN)?;
        }
        native::SETSIGNAL => {
            let procedure = match second {
                0 => None,
                address => Some(user_procedure(address)?),
            };
            let set = target.set_signal(first, procedure);
            set.map_err(|_| Errno::EINVAL)?;
        }
        native::NOTIFY => target.notify(event(first)?),
        native::STATE => return Ok(target.shown_state() as usize),
        _ => return Err(Errno::ENOSYS),
    }
    Ok(0)
}

/// A user's procedure runs in user mode, nowhere else.
fn user_procedure(address: usize) -> Result<Procedure> {
    if address == 0 || address >= USER_END {
        return Err(Errno::EFAULT);
    }
    let mode = Mode::User;
    Ok(Procedure { address, mode })
}

/// EPERM, ESRCH unless the running task may do `operation` to `target`.
fn permit(target: &Thread, operation: usize) -> Result<()> {
    match permission(target, operation)? {
        None => Ok(()),
        Some((process, wish)) => access::with(&process, wish, || ()),
    }
}

/// The process whose rule of access decides whether the running task may do `operation` to `target`, and what
/// it is asked; none if the task may. EPERM, ESRCH.
#[inline(always)]
fn permission(target: &Thread, operation: usize) -> Result<Option<(Arc<Process>, PtraceMode)>> {
    let pid = (target.tag() >> 32) as i32;
    if Task::here(|task| task.process.pid) == Some(pid) {
        return Ok(None);
    }
    if pid == 0 {
        return of_kernel(target, operation).map(|()| None);
    }
    let process = tree::find(pid).ok_or(Errno::ESRCH)?;
    let wish = match operation {
        native::STATE => PtraceMode::Ask,
        _ => PtraceMode::Steer,
    };
    Ok(Some((process, wish)))
}

/// The same for a thread of the kernel.
#[cold]
#[inline(never)]
fn of_kernel(target: &Thread, operation: usize) -> Result<()> {
    let caller = Process::current();
    let mild = [native::SUSPEND, native::RESUME, native::STOP, native::STATE];
    let able = caller.cred_here().has(Capability::SysAdmin);
    if able && mild.contains(&operation) && !target.is_idle() {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Makes a thread of the caller's process. EINVAL, EFAULT, EAGAIN, ENOMEM.
fn create(a: &Args, frame: &mut TrapFrame) -> Result<usize> {
    let (entry, stack, argument, tls) = (a.word(1), a.word(2), a.word(3), a.word(4));
    let options = a.word(5);
    if options & !native::CREATE_SUSPENDED != 0 {
        return Err(Errno::EINVAL);
    }
    if entry == 0 || entry >= USER_END {
        return Err(Errno::EFAULT);
    }
    // As after a call: aligned before the return address.
    let rsp = (stack & !15).wrapping_sub(8);
    user::put(rsp, &PROTECTED_RETURN)?;
    let mut spec = CloneSpec {
        flags: SHARED,
        stack: rsp as u64,
        procedure: Some((entry as u64, argument as u64)),
        ..CloneSpec::default()
    };
    if tls != 0 {
        spec.flags |= CLONE_SETTLS;
        spec.tls = tls as u64;
    }
    let child: Arc<Task> = fork::prepare(frame, &spec)?;
    child.thread.end_with_procedure();
    if options & native::CREATE_SUSPENDED != 0 {
        child.thread.hold();
    }
    let handle = child.thread.handle_number();
    thread::start(&child.thread);
    Ok(handle as usize)
}
