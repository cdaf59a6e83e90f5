//! `prctl`: what a process says of itself.
//!
//! *Interface*: see [`super::FAMILIES`].

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use vm::user;

use super::{Args, Handler, speculation};
use account::Capability;
use account::capability::CapSet;
use process::access::{self, AllowedTracer};
use process::signals::valid;
use process::{POISON_DEFAULT, Task, tree};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[(nr::PRCTL, prctl)];

/// The only way of `PR_SET_TIMING`.
const TIMING_STATISTICAL: usize = 0;
/// `PR_TSC_ENABLE`: everybody reads the time-stamp counter. There is no way to forbid it.
const TSC_ENABLED: i32 = 1;
/// The commands of `PR_MCE_KILL`.
const MCE_CLEAR: usize = 0;
const MCE_SET: usize = 1;
/// The longest name of a thread.
const NAME: usize = 15;

fn prctl(a: &mut Args) -> Result<usize> {
    let task = Task::current();
    let process = &task.process;
    match a.int(0) {
        PR_SET_PDEATHSIG => {
            let signo = a.int(1);
            if signo != 0 && !valid(signo) {
                return Err(Errno::EINVAL);
            }
            task.death_signal.store(signo, Ordering::Relaxed);
        }
        PR_GET_PDEATHSIG => {
            user::put(a.word(1), &task.death_signal.load(Ordering::Relaxed))?;
        }
        PR_GET_SPECULATION_CTRL => {
            return speculation::get(a.word(1), [a.word(2), a.word(3), a.word(4)]);
        }
        PR_SET_SPECULATION_CTRL => {
            return speculation::set(a.word(1), a.word(2), [a.word(3), a.word(4)]);
        }
        PR_GET_DUMPABLE => return Ok(access::is_dumpable(process).into()),
        PR_SET_DUMPABLE if a.word(1) <= 1 => access::set_dumpable(process, a.word(1) == 1),
        PR_SET_NAME => set_name(&task, a.word(1))?,
        PR_GET_NAME => {
            let mut buffer = [0; thread::NAME_LEN];
            let mut name = [0u8; NAME + 1];
            let text = task.thread.name(&mut buffer).as_bytes();
            name[..text.len()].copy_from_slice(text);
            user::copy_out(a.word(1), &name)?;
        }
        PR_SET_NO_NEW_PRIVS if a.word(1) == 1 && a.arg[2..5] == [0; 3] => {
            task.no_new_privileges.store(true, Ordering::Relaxed);
        }
        PR_GET_NO_NEW_PRIVS if a.arg[1..5] == [0; 4] => {
            return Ok(task.no_new_privileges.load(Ordering::Relaxed) as usize);
        }
        PR_GET_TID_ADDRESS => {
            let address = task.clear_child_tid.load(Ordering::Relaxed);
            user::put(a.word(1), &(address as u64))?;
        }
        // Bound: one counted handle.
        PR_SET_PTRACER => *process.ptracer.lock() = ptracer(a.word(1))?,
        PR_SET_TIMERSLACK => task.sched.set_slack(a.word(1) as u64),
        PR_GET_TIMERSLACK => return Ok(task.sched.slack() as usize),
        PR_SET_CHILD_SUBREAPER => process.is_reaper.store(a.word(1) != 0, Ordering::SeqCst),
        PR_GET_CHILD_SUBREAPER => {
            let reaper: i32 = process.is_reaper.load(Ordering::Relaxed).into();
            user::put(a.word(1), &reaper)?;
        }
        PR_SET_THP_DISABLE if a.arg[2..5] == [0; 3] => {
            process.huge_pages.store(a.word(1) == 0, Ordering::Relaxed);
        }
        PR_GET_THP_DISABLE if a.arg[1..5] == [0; 4] => {
            return Ok((!process.huge_pages.load(Ordering::Relaxed)).into());
        }
        PR_GET_TIMING => {}
        PR_SET_TIMING if a.word(1) == TIMING_STATISTICAL => {}
        PR_GET_TSC => user::put(a.word(1), &TSC_ENABLED)?,
        PR_SET_TSC if a.int(1) == TSC_ENABLED => {}
        PR_MCE_KILL if a.arg[3..5] == [0; 2] => match (a.word(1), a.word(2)) {
            (MCE_CLEAR, 0) => process.poison.store(POISON_DEFAULT, Ordering::Relaxed),
            (MCE_SET, when @ 0..=2) => process.poison.store(when as i32, Ordering::Relaxed),
            _ => return Err(Errno::EINVAL),
        },
        PR_MCE_KILL_GET if a.arg[1..5] == [0; 4] => {
            return Ok(process.poison.load(Ordering::Relaxed) as usize);
        }
        PR_SET_IO_FLUSHER => {
            task.cred.get().need(Capability::SysResource)?;
            if a.word(1) > 1 || a.arg[2..5] != [0; 3] {
                return Err(Errno::EINVAL);
            }
            process.flushes.store(a.word(1) == 1, Ordering::Relaxed);
        }
        PR_GET_IO_FLUSHER => {
            task.cred.get().need(Capability::SysResource)?;
            if a.arg[1..5] != [0; 4] {
                return Err(Errno::EINVAL);
            }
            return Ok(process.flushes.load(Ordering::Relaxed).into());
        }
        PR_SET_MM if a.word(4) == 0 => {
            task.cred.get().need(Capability::SysResource)?;
            return Err(Errno::EINVAL);
        }
        _ => return capabilities(&task, a),
    }
    Ok(0)
}

fn set_name(task: &Task, address: usize) -> Result<()> {
    let mut name = [0; NAME];
    let mut length = 0;
    while length < NAME {
        name[length] = user::get(address.wrapping_add(length))?;
        if name[length] == 0 {
            break;
        }
        length += 1;
    }
    task.thread.set_name(&name[..length]);
    if task.tid == task.process.pid {
        task.process.set_comm(&name[..length])?;
    }
    Ok(())
}

/// The processes that `who` stands for: none, all, or one. EINVAL.
fn ptracer(who: usize) -> Result<AllowedTracer> {
    Ok(match who {
        0 => AllowedTracer::Nobody,
        usize::MAX => AllowedTracer::Anybody,
        pid => {
            let found = i32::try_from(pid).ok().and_then(tree::find);
            AllowedTracer::One(Arc::downgrade(&found.ok_or(Errno::EINVAL)?))
        }
    })
}

/// The options that concern capabilities.
fn capabilities(task: &Task, a: &Args) -> Result<usize> {
    let caps = task.cred.with(|cred| cred.caps);
    let number = a.word(1);
    match a.int(0) {
        PR_GET_KEEPCAPS => return Ok((caps.securebits & SECBIT_KEEP_CAPS != 0).into()),
        PR_SET_KEEPCAPS if number <= 1 => task.change_cred(|c| c.caps.keep(number == 1))?,
        PR_GET_SECUREBITS => return Ok(caps.securebits as usize),
        PR_SET_SECUREBITS => {
            let bits = u32::try_from(number).map_err(|_| Errno::EPERM)?;
            task.change_cred(|c| c.caps.set_securebits(bits))?;
        }
        PR_CAPBSET_READ => {
            let one = CapSet::numbered(number).ok_or(Errno::EINVAL)?;
            return Ok(caps.bounding.contains(one).into());
        }
        PR_CAPBSET_DROP => task.change_cred(|c| c.caps.drop_bounding(number))?,
        PR_CAP_AMBIENT => return ambient(task, a),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

fn ambient(task: &Task, a: &Args) -> Result<usize> {
    let [what, number] = [a.word(1), a.word(2)];
    if a.arg[3..5] != [0; 2] {
        return Err(Errno::EINVAL);
    }
    if what == PR_CAP_AMBIENT_CLEAR_ALL && number == 0 {
        task.change_cred(|c| c.caps.set_ambient(CapSet::ALL, false))?;
        return Ok(0);
    }
    let one = CapSet::numbered(number).ok_or(Errno::EINVAL)?;
    match what {
        PR_CAP_AMBIENT_IS_SET => {
            return Ok(task.cred.with(|c| c.caps.ambient.contains(one)).into());
        }
        PR_CAP_AMBIENT_RAISE | PR_CAP_AMBIENT_LOWER => {
            let raise = what == PR_CAP_AMBIENT_RAISE;
            task.change_cred(|c| c.caps.set_ambient(one, raise))?;
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
