//! `ptrace`: a debugger's calls.
//!
//! *Interface*: see [`super::FAMILIES`]. Who may trace says [`access`]. Built on the native stop and resume; see [`crate::process::trace`].

#![deny(clippy::arithmetic_side_effects)]

use alloc::sync::Arc;

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use vm::space::FaultError;
use vm::{AddressSpace, Prot, user};

use super::{Args, Handler};
use crate::process::access::{self, Wish};
use crate::process::trace::{self, How};
use crate::process::{Process, Task, tree};
use crate::signal;

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[(nr::PTRACE, ptrace)];

/// The options that do what they say.
const OPTIONS: u64 = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
const WORD: usize = 8;

fn ptrace(a: &mut Args) -> Result<usize> {
    let (tid, address, data) = (a.int(1), a.word(2), a.word(3));
    match a.word(0) as u64 {
        PTRACE_TRACEME => {
            let task = Task::current();
            let parent = tree::find(task.process.ppid()).ok_or(Errno::EPERM)?;
            access::may_be_traced(&task.process, &parent)?;
            match trace::begin(&parent, &task, false, 0) {
                // The parent ends: nobody traces it, which is no error.
                Err(Errno::ESRCH) => {}
                done => {
                    done?;
                    trace::begun(&parent, &task)?;
                }
            }
        }
        PTRACE_ATTACH => {
            let task = attach(tid, false, 0)?;
            let stop = Siginfo::sent(SIGSTOP, SI_USER, Process::current().pid, 0);
            signal::send(&task.process, Some(&task), stop)?;
        }
        PTRACE_SEIZE => drop(attach(tid, true, options(data)?)?),
        request => return on(request, &trace::traced(tid)?, address, data),
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
    let begin = || trace::begin(&caller, &task, seized, options);
    access::with(&task.process, Wish::Steer, begin)??;
    trace::begun(&caller, &task)?;
    Ok(task)
}

/// A request on a traced thread. ESRCH: it does not wait.
fn on(request: u64, task: &Arc<Task>, address: usize, data: usize) -> Result<usize> {
    match request {
        PTRACE_KILL => {
            let kill = Siginfo::sent(SIGKILL, SI_USER, Process::current().pid, 0);
            signal::send(&task.process, None, kill)?;
        }
        PTRACE_INTERRUPT => trace::interrupt(task),
        PTRACE_CONT => trace::resume(task, How::Freely, signal_number(data)?)?,
        PTRACE_SYSCALL => trace::resume(task, How::ToCall, signal_number(data)?)?,
        PTRACE_SINGLESTEP => trace::resume(task, How::OneStep, signal_number(data)?)?,
        PTRACE_DETACH => trace::detach(task, signal_number(data)?)?,
        PTRACE_SETOPTIONS => {
            let options = options(data)?;
            trace::halted(task, |state| state.options = options)?;
        }
        PTRACE_GETREGS => {
            let registers = trace::halted(task, |state| state.registers)?;
            user::put(data, &registers)?;
        }
        PTRACE_SETREGS => {
            let registers: UserRegs = user::get(data)?;
            trace::halted(task, |state| state.registers = registers)?;
        }
        PTRACE_GETREGSET => return register_set(task, address, data, false),
        PTRACE_SETREGSET => return register_set(task, address, data, true),
        PTRACE_GETSIGINFO => {
            let info = trace::halted(task, |state| state.info)?;
            user::put(data, &info)?;
        }
        PTRACE_GETEVENTMSG => {
            trace::halted(task, |_| ())?;
            user::put(data, &(task.tid as u64))?;
        }
        PTRACE_PEEKUSER => {
            let at = register(address)?;
            let word = trace::halted(task, |state| words(&mut state.registers)[at])?;
            user::put(data, &word)?;
        }
        PTRACE_POKEUSER => {
            let at = register(address)?;
            trace::halted(task, |state| words(&mut state.registers)[at] = data as u64)?;
        }
        PTRACE_PEEKTEXT | PTRACE_PEEKDATA => {
            let mut word = [0; WORD];
            let space = space(task)?;
            space.read_at(address, &mut word).map_err(|_| Errno::EIO)?;
            user::put(data, &word)?;
        }
        PTRACE_POKETEXT | PTRACE_POKEDATA => poke(&*space(task)?, address, &data.to_ne_bytes())?,
        _ => return Err(Errno::EIO),
    }
    Ok(0)
}

fn signal_number(data: usize) -> Result<i32> {
    match data as i32 {
        0 => Ok(0),
        signo if signal::valid(signo) => Ok(signo),
        _ => Err(Errno::EIO),
    }
}

/// The memory of a thread that waits. EIO: it is not for this tracer's eyes, since the thread has executed something that it may not read.
fn space(task: &Task) -> Result<Arc<AddressSpace>> {
    let able = trace::halted(task, |state| state.able)?;
    let _rights = task.process.rights.lock();
    if !able && !access::is_dumpable(&task.process) {
        return Err(Errno::EIO);
    }
    task.process.space().ok_or(Errno::ESRCH)
}

fn words(registers: &mut UserRegs) -> &mut [u64] {
    bytemuck::cast_slice_mut(core::slice::from_mut(registers))
}

/// The index of the register at `offset` of `struct user`.
fn register(offset: usize) -> Result<usize> {
    if offset.is_multiple_of(WORD) && offset < size_of::<UserRegs>() {
        Ok(offset / WORD)
    } else {
        Err(Errno::EIO)
    }
}

/// The general registers by an `iovec` at `data`.
fn register_set(task: &Task, kind: usize, data: usize, set: bool) -> Result<usize> {
    if kind != NT_PRSTATUS {
        return Err(Errno::EINVAL);
    }
    let mut part: Iovec = user::get(data)?;
    if !part.len.is_multiple_of(WORD as u64) {
        return Err(Errno::EINVAL);
    }
    let mut registers = trace::halted(task, |state| state.registers)?;
    let bytes = bytemuck::bytes_of_mut(&mut registers);
    let count = bytes.len().min(part.len as usize);
    if set {
        user::copy_in(&mut bytes[..count], part.base as usize)?;
        trace::halted(task, |state| state.registers = registers)?;
    } else {
        user::copy_out(part.base as usize, &bytes[..count])?;
    }
    part.len = count as u64;
    user::put(data, &part)?;
    Ok(0)
}

/// Writes a word; into pages that are only read or executed, too, where the process has a copy of its own then.
fn poke(space: &AddressSpace, address: usize, word: &[u8]) -> Result<()> {
    match space.write_at(address, word) {
        Ok(()) => return Ok(()),
        Err(FaultError::Protection) => {}
        Err(_) => return Err(Errno::EIO),
    }
    let first = address & !(abi::layout::PAGE - 1);
    let end = address.checked_add(WORD).and_then(abi::layout::page_ceil);
    let length = end.and_then(|end| end.checked_sub(first));
    let (end, length) = end.zip(length).ok_or(Errno::EIO)?;
    let mut prot = None;
    space.for_each_area(|area| {
        if area.start <= first && end <= area.end && !area.shared {
            prot = Some(area.prot);
        }
    });
    let prot = prot.ok_or(Errno::EIO)?;
    space.protect(first, length, prot.or(Prot::RW))?;
    let written = space.write_at(address, word);
    space.protect(first, length, prot)?;
    written.map_err(|_| Errno::EIO)
}
