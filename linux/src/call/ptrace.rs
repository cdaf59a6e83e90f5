//! `ptrace`: a debugger's calls.
//!
//! *Interface*: see [`super::FAMILIES`]. [`access`] decides the right to trace. Built on the native stop and
//! resume; see [`process::ptrace`].

#![deny(clippy::arithmetic_side_effects)]

use alloc::sync::Arc;

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use vm::{AddressSpace, user};

use super::{Args, Handler};
use process::access::{self, PtraceMode};
use process::fp;
use process::ptrace;
use process::tracee::{PtraceState, ResumeMode};
use process::{Process, Task, remote_write, tree};
use process::{signal, signals};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[(nr::PTRACE, ptrace)];

/// The options that do what they say.
const OPTIONS: u64 = PTRACE_O_TRACESYSGOOD
    | PTRACE_O_TRACEFORK
    | PTRACE_O_TRACEVFORK
    | PTRACE_O_TRACECLONE
    | PTRACE_O_TRACEEXEC
    | PTRACE_O_TRACEVFORKDONE
    | PTRACE_O_TRACEEXIT
    | PTRACE_O_TRACESECCOMP
    | PTRACE_O_EXITKILL;
/// Offsets in `struct user` of the debug registers, and of its end.
const DEBUG: usize = 848;
const USER: usize = 928;
const WORD: usize = 8;

fn ptrace(a: &mut Args) -> Result<usize> {
    let (tid, address, data) = (a.int(1), a.word(2), a.word(3));
    match a.word(0) as u64 {
        PTRACE_TRACEME => {
            let task = Task::current();
            let parent = tree::find(task.process.ppid()).ok_or(Errno::EPERM)?;
            access::may_be_traced(&task.process, &parent)?;
            match ptrace::begin(&parent, &task, false, 0) {
                // The parent ends: nobody traces it, which is no error.
                Err(Errno::ESRCH) => {}
                done => {
                    done?;
                    ptrace::begun(&parent, &task)?;
                }
            }
        }
        PTRACE_ATTACH => {
            let task = attach(tid, false, 0)?;
            let stop = Siginfo::sent(SIGSTOP, SI_USER, Process::current().pid, 0);
            signal::send(&task.process, Some(&task), stop)?;
        }
        // Bits that are no option have another error here.
        PTRACE_SEIZE => match options(data) {
            Ok(options) if address == 0 => drop(attach(tid, true, options)?),
            _ => return Err(Errno::EIO),
        },
        request => return on(request, &ptrace::traced(tid)?, address, data),
    }
    Ok(0)
}

fn options(data: usize) -> Result<u64> {
    match data as u64 {
        options if options & !OPTIONS == 0 => Ok(options),
        _ => Err(Errno::EINVAL),
    }
}

fn attach(tid: i32, seized: bool, options: u64) -> Result<Arc<Task>> {
    let caller = Process::current();
    let task = tree::find_task(tid).ok_or(Errno::ESRCH)?;
    if core::ptr::eq(&*caller, &*task.process) {
        return Err(Errno::EPERM);
    }
    let begin = || ptrace::begin(&caller, &task, seized, options);
    access::with_thread(&task, PtraceMode::Steer, begin)??;
    ptrace::begun(&caller, &task)?;
    Ok(task)
}

/// A request on a traced thread. ESRCH: it does not wait.
fn on(request: u64, task: &Arc<Task>, address: usize, data: usize) -> Result<usize> {
    match request {
        PTRACE_KILL => {
            let kill = Siginfo::sent(SIGKILL, SI_USER, Process::current().pid, 0);
            signal::send(&task.process, None, kill)?;
        }
        PTRACE_INTERRUPT => ptrace::interrupt(task)?,
        PTRACE_LISTEN => ptrace::listen(task)?,
        PTRACE_CONT => ptrace::resume(task, ResumeMode::Freely, signal_number(data)?)?,
        PTRACE_SYSCALL => ptrace::resume(task, ResumeMode::ToCall, signal_number(data)?)?,
        PTRACE_SINGLESTEP => ptrace::resume(task, ResumeMode::OneStep, signal_number(data)?)?,
        PTRACE_SYSEMU => ptrace::resume(task, ResumeMode::PastCall, signal_number(data)?)?,
        PTRACE_SYSEMU_SINGLESTEP => {
            ptrace::resume(task, ResumeMode::OneStepPastCall, signal_number(data)?)?;
        }
        PTRACE_DETACH => ptrace::detach(task, signal_number(data)?)?,
        PTRACE_SETOPTIONS => {
            let options = options(data)?;
            ptrace::halted(task, |state| state.options = options)?;
        }
        PTRACE_GETREGS => {
            let registers = ptrace::halted(task, |state| state.registers)?;
            user::put(data, &registers)?;
        }
        PTRACE_SETREGS => {
            let registers: UserRegs = user::get(data)?;
            ptrace::halted(task, |state| state.registers = registers)?;
        }
        PTRACE_GETREGSET => return register_set(task, address, data, false),
        PTRACE_SETREGSET => return register_set(task, address, data, true),
        PTRACE_GETSIGINFO => {
            let info = ptrace::halted(task, |state| (!state.joins).then_some(state.info))?;
            user::put(data, &info.ok_or(Errno::EINVAL)?)?;
        }
        PTRACE_SETSIGINFO => {
            let info: Siginfo = user::get(data)?;
            ptrace::halted(task, |state| match state.joins {
                true => Err(Errno::EINVAL),
                false => {
                    state.info = info;
                    Ok(())
                }
            })??;
        }
        PTRACE_PEEKSIGINFO => return peek_signals(task, address, data),
        PTRACE_GETEVENTMSG => {
            let message = ptrace::halted(task, |state| state.message)?;
            user::put(data, &message)?;
        }
        PTRACE_GETSIGMASK => {
            if address != WORD {
                return Err(Errno::EINVAL);
            }
            let mask = ptrace::halted(task, |state| state.blocked)?;
            user::put(data, &mask)?;
        }
        PTRACE_SETSIGMASK => {
            if address != WORD {
                return Err(Errno::EINVAL);
            }
            let mask: u64 = user::get(data)?;
            ptrace::halted(task, |state| {
                state.blocked = mask & !signals::set::UNBLOCKABLE;
                state.mask_is_new = true;
            })?;
        }
        PTRACE_GET_SYSCALL_INFO => {
            let (info, len) = ptrace::halted(task, |state| syscall_info(state))?;
            let bytes = bytemuck::bytes_of(&info);
            let some = bytes.get(..len.min(address)).ok_or(Errno::EFAULT)?;
            user::copy_out(data, some)?;
            return Ok(len);
        }
        PTRACE_GET_RSEQ_CONFIGURATION => {
            let (area, signature) = ptrace::halted(task, |_| task.rseq.shown())?;
            let found = RseqConfiguration {
                area: area as u64,
                size: RSEQ_SIZE as u32,
                signature,
                ..RseqConfiguration::default()
            };
            let bytes = bytemuck::bytes_of(&found);
            user::copy_out(data, bytes.get(..address).unwrap_or(bytes))?;
            return Ok(bytes.len());
        }
        PTRACE_ARCH_PRCTL => segment_base(task, data, address)?,
        PTRACE_GETFPREGS => {
            let count = fp::image_bytes().1;
            let image = ptrace::halted(task, |state| state.vectors.0)?;
            user::copy_out(data, &image[..count])?;
        }
        PTRACE_SETFPREGS => {
            let count = fp::image_bytes().1;
            set_vectors(task, data, count)?;
        }
        PTRACE_PEEKUSER => {
            let word = match register(address)? {
                Some(at) => ptrace::halted(task, |state| words(&mut state.registers)[at])?,
                None => ptrace::halted(task, |state| {
                    debug(address).map_or(0, |at| state.debug.get(at))
                })?,
            };
            user::put(data, &word)?;
        }
        PTRACE_POKEUSER => match register(address)? {
            Some(at) => {
                ptrace::halted(task, |state| words(&mut state.registers)[at] = data as u64)?;
            }
            None => {
                let at = debug(address).ok_or(Errno::EIO)?;
                ptrace::halted(task, |state| {
                    state.debug.set(at, data as u64)?;
                    state.debug_is_new = true;
                    Ok::<(), Errno>(())
                })??;
            }
        },
        PTRACE_PEEKTEXT | PTRACE_PEEKDATA => {
            let mut word = [0; WORD];
            let space = space(task)?;
            space.peek_at(address, &mut word).map_err(|_| Errno::EIO)?;
            user::put(data, &word)?;
        }
        PTRACE_POKETEXT | PTRACE_POKEDATA => {
            remote_write::write(&*space(task)?, address, &data.to_ne_bytes())?
        }
        _ => return Err(Errno::EIO),
    }
    Ok(0)
}

/// Signals that wait, as the words at `what` ask for them, into the array at `to`. How many.
fn peek_signals(task: &Task, what: usize, to: usize) -> Result<usize> {
    let what: PeekSiginfo = user::get(what)?;
    let count = usize::try_from(what.count).map_err(|_| Errno::EINVAL)?;
    if what.flags & !PTRACE_PEEKSIGINFO_SHARED != 0 {
        return Err(Errno::EINVAL);
    }
    ptrace::halted(task, |_| ())?;
    let shared = what.flags & PTRACE_PEEKSIGINFO_SHARED != 0;
    for done in 0..count {
        let place = (what.from as usize).saturating_add(done);
        let info = match shared {
            true => task.process.signals.peek(place),
            // Bound: one entry of a thread's waiting signals.
            false => task.pending.lock().peek(place),
        };
        let Some(info) = info else {
            return Ok(done);
        };
        let at = to.wrapping_add(done.wrapping_mul(size_of::<Siginfo>()));
        match user::put(at, &info) {
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
            Ok(()) if account::caller::is_dying() => return Err(Errno::EINTR),
            Ok(()) => {}
        }
    }
    Ok(count)
}

/// `arch_prctl` for another thread.
fn segment_base(task: &Task, option: usize, address: usize) -> Result<()> {
    let put = |base: u64| user::put(address, &base);
    match option as i32 {
        ARCH_SET_FS | ARCH_SET_GS if address >= abi::layout::USER_END => Err(Errno::EPERM),
        ARCH_SET_FS => ptrace::halted(task, |state| state.registers.fs_base = address as u64),
        ARCH_SET_GS => ptrace::halted(task, |state| state.registers.gs_base = address as u64),
        ARCH_GET_FS => put(ptrace::halted(task, |state| state.registers.fs_base)?),
        ARCH_GET_GS => put(ptrace::halted(task, |state| state.registers.gs_base)?),
        _ => Err(Errno::EINVAL),
    }
}

fn signal_number(data: usize) -> Result<i32> {
    match data as i32 {
        0 => Ok(0),
        signo if signals::valid(signo) => Ok(signo),
        _ => Err(Errno::EIO),
    }
}

/// The memory of a thread that waits. EIO: it is not for this tracer's eyes, since the thread has executed
/// something that it may not read.
fn space(task: &Task) -> Result<Arc<AddressSpace>> {
    let able = ptrace::halted(task, |state| state.able)?;
    // Bound: copying one counted handle.
    let _rights = task.process.rights.lock();
    if !able && !access::is_dumpable(&task.process) {
        return Err(Errno::EIO);
    }
    task.process.space().ok_or(Errno::ESRCH)
}

fn words(registers: &mut UserRegs) -> &mut [u64] {
    bytemuck::cast_slice_mut(core::slice::from_mut(registers))
}

/// The index of the register at `offset` of `struct user`; none of what is no general register. EIO.
fn register(offset: usize) -> Result<Option<usize>> {
    if !offset.is_multiple_of(WORD) || offset >= USER {
        return Err(Errno::EIO);
    }
    Ok((offset < size_of::<UserRegs>()).then_some(offset / WORD))
}

/// The number of the debug register there.
fn debug(offset: usize) -> Option<usize> {
    Some(offset.checked_sub(DEBUG)? / WORD).filter(|at| *at < 8)
}

/// The facts of the call where a thread waits, and how many bytes of it.
fn syscall_info(state: &PtraceState) -> (SyscallInfo, usize) {
    let r = &state.registers;
    let failed = (-4095..0).contains(&(r.rax as i64));
    let mut info = SyscallInfo {
        op: state.call,
        arch: AUDIT_ARCH_X86_64,
        ip: r.rip,
        sp: r.rsp,
        ..SyscallInfo::default()
    };
    let head = core::mem::offset_of!(SyscallInfo, number);
    let len = match state.call {
        SYSCALL_INFO_ENTRY => {
            info.number = r.orig_rax;
            info.args = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9];
            size_of::<SyscallInfo>()
        }
        SYSCALL_INFO_EXIT => {
            info.number = r.rax;
            info.args[0] = u64::from(failed);
            core::mem::offset_of!(SyscallInfo, args).saturating_add(1)
        }
        _ => head,
    };
    (info, len)
}

/// `count` bytes of vector registers from user address `from`.
fn set_vectors(task: &Task, from: usize, count: usize) -> Result<()> {
    let mut image = ptrace::halted(task, |state| state.vectors.0)?;
    let some = image.get_mut(..count).ok_or(Errno::EINVAL)?;
    user::copy_in(some, from)?;
    ptrace::halted(task, |state| {
        state.vectors.0 = image;
        state.vectors_are_new = true;
    })
}

/// Vector registers by an `iovec` at `data`: `all` of them.
fn vector_set(task: &Task, data: usize, set: bool, all: bool) -> Result<usize> {
    let mut part: Iovec = user::get(data)?;
    let (whole, legacy) = fp::image_bytes();
    let size = if all { whole } else { legacy };
    if !part.len.is_multiple_of(WORD as u64) {
        return Err(Errno::EINVAL);
    }
    let count = size.min(part.len as usize);
    if set {
        if count < size {
            return Err(Errno::EFAULT);
        }
        set_vectors(task, part.base as usize, size)?;
    } else {
        let mut image = ptrace::halted(task, |state| state.vectors.0)?;
        fp::note_components(&mut image);
        user::copy_out(part.base as usize, &image[..count])?;
    }
    part.len = count as u64;
    user::put(data, &part)?;
    Ok(0)
}

/// A set of registers by an `iovec` at `data`.
fn register_set(task: &Task, kind: usize, data: usize, set: bool) -> Result<usize> {
    match kind {
        NT_PRSTATUS => {}
        NT_PRFPREG => return vector_set(task, data, set, false),
        NT_X86_XSTATE => return vector_set(task, data, set, true),
        _ => return Err(Errno::EINVAL),
    }
    let mut part: Iovec = user::get(data)?;
    if !part.len.is_multiple_of(WORD as u64) {
        return Err(Errno::EINVAL);
    }
    let mut registers = ptrace::halted(task, |state| state.registers)?;
    let bytes = bytemuck::bytes_of_mut(&mut registers);
    let count = bytes.len().min(part.len as usize);
    if set {
        user::copy_in(&mut bytes[..count], part.base as usize)?;
        ptrace::halted(task, |state| state.registers = registers)?;
    } else {
        user::copy_out(part.base as usize, &bytes[..count])?;
    }
    part.len = count as u64;
    user::put(data, &part)?;
    Ok(0)
}
