//! Calls on other processes: `process_vm_readv`, `process_vm_writev`, `process_madvise`, `kcmp`.
//!
//! *Interface*: [`CALLS`]. The right is decided as for `ptrace` ([`access`]).

#![deny(clippy::arithmetic_side_effects)]

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::{IOV_MAX, Iovec, MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED};
use abi::nr;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use vm::AddressSpace;

use super::{Args, Handler};
use account::Capability;
use file::OpenFile;
use file::epoll::Epoll;
use file::io::IoBuf;
use process::access::{self, PtraceMode};
use process::{Process, Task, tree};
use vm::fallible::try_filled;

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::PROCESS_VM_READV, |a| across(a, Way::Read)),
    (nr::PROCESS_VM_WRITEV, |a| across(a, Way::Write)),
    (nr::PROCESS_MADVISE, process_madvise),
    (nr::PROCESS_MRELEASE, process_mrelease),
    (nr::KCMP, kcmp),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

fn pieces(addr: usize, count: usize) -> Result<Vec<Iovec>> {
    if count > IOV_MAX as usize {
        return Err(Errno::EINVAL);
    }
    vm::user::array(addr, count)
}

/// Moves bytes between the caller's memory and another's, as far as both have it.
fn across(a: &mut Args, way: Way) -> Result<usize> {
    if a.word(5) != 0 {
        return Err(Errno::EINVAL);
    }
    let mine = pieces(a.word(1), a.word(2))?;
    let mut buf = IoBuf::scattered(&mine)?;
    if buf.remaining() == 0 {
        return Ok(0);
    }
    let its = pieces(a.word(3), a.word(4))?;
    if its.iter().any(|piece| i64::try_from(piece.len).is_err()) {
        return Err(Errno::EINVAL);
    }
    if its.iter().all(|piece| piece.len == 0) {
        return Ok(0);
    }
    let task = tree::find_task(a.int(0)).ok_or(Errno::ESRCH)?;
    let space = access::space(&task.process, PtraceMode::Steer)?.ok_or(Errno::ESRCH)?;
    let mut page = try_filled(0, PAGE)?;
    let mut total = 0usize;
    for piece in &its {
        let (mut at, mut left) = (piece.base as usize, piece.len as usize);
        while left > 0 && buf.remaining() > 0 {
            let here = PAGE.wrapping_sub(at & (PAGE.wrapping_sub(1)));
            let count = left.min(here).min(buf.remaining());
            let part = page.get_mut(..count).ok_or(Errno::EFAULT)?;
            let step = if account::caller::is_dying() {
                Err(Errno::EINTR)
            } else {
                step(&space, way, at, part, &mut buf)
            };
            match step {
                Ok(moved) => {
                    total = total.saturating_add(moved);
                    if moved < count {
                        return Ok(total);
                    }
                }
                Err(error) if total == 0 => return Err(error),
                Err(_) => return Ok(total),
            }
            at = at.wrapping_add(count);
            left = left.saturating_sub(count);
        }
    }
    Ok(total)
}

/// Advice about another's memory: taken, as far as that has it. Nothing comes of it.
fn process_madvise(a: &mut Args) -> Result<usize> {
    if a.uint(4) != 0 {
        return Err(Errno::EINVAL);
    }
    let pieces = pieces(a.word(1), a.word(2))?;
    let of = Process::current().files.get().get(a.int(0))?;
    let process = process::pidfd::of(&of)?;
    if process.is_gone() {
        return Err(Errno::ESRCH);
    }
    match a.uint(3) {
        MADV_COLD | MADV_PAGEOUT | MADV_WILLNEED => {}
        _ => return Err(Errno::EINVAL),
    }
    // Unlike the other calls this one says that it is the access that is refused.
    let space = access::space(process, PtraceMode::See).map_err(|error| match error {
        Errno::EPERM => Errno::EACCES,
        error => error,
    })?;
    let space = space.ok_or(Errno::ESRCH)?;
    let caller = Process::current();
    if !Arc::ptr_eq(&caller, process) {
        caller.cred_here().need(Capability::SysNice)?;
    }
    let mut total = 0usize;
    for piece in &pieces {
        let (at, length) = (piece.base as usize, piece.len as usize);
        let lack = if at.is_multiple_of(PAGE) {
            (length != 0 && !space.covers(at, length)).then_some(Errno::ENOMEM)
        } else {
            Some(Errno::EINVAL)
        };
        match lack {
            Some(error) if total == 0 => return Err(error),
            Some(_) => break,
            None => total = total.saturating_add(length),
        }
    }
    Ok(total)
}

/// Gives back the memory of a process that is about to end, on the caller's time. EINVAL: it goes on, or its
/// memory is still wanted.
fn process_mrelease(a: &mut Args) -> Result<usize> {
    if a.uint(1) != 0 {
        return Err(Errno::EINVAL);
    }
    let of = Process::current().files.get().get(a.int(0))?;
    let process = process::pidfd::of(&of)?;
    let space = process.space().ok_or(Errno::ESRCH)?;
    let shares = |other: &Arc<Process>| {
        let same = other.space().is_some_and(|its| Arc::ptr_eq(&its, &space));
        same && !other.signals.is_ending()
    };
    if !process.signals.is_ending() || process.is_dumping() || tree::any(shares) {
        return Err(Errno::EINVAL);
    }
    // Its threads have been told to leave; from here on none of them is in its program.
    // Bound: a grace period, asleep: each CPU’s next interrupt, switch or idle moment.
    sync::epoch::synchronize();
    space.give_up();
    Ok(0)
}

/// Moves the bytes of `part`, which lie in one page of `space`.
fn step(
    space: &AddressSpace,
    way: Way,
    at: usize,
    part: &mut [u8],
    buf: &mut IoBuf,
) -> Result<usize> {
    match way {
        Way::Read => {
            space.read_at(at, part).map_err(|_| Errno::EFAULT)?;
            buf.put(part)
        }
        Way::Write => {
            let count = buf.take(part)?;
            let some = part.get(..count).unwrap_or_default();
            space.write_at(at, some).map_err(|_| Errno::EFAULT)?;
            Ok(count)
        }
    }
}

const KCMP_FILE: i32 = 0;
const KCMP_VM: i32 = 1;
const KCMP_FILES: i32 = 2;
const KCMP_FS: i32 = 3;
const KCMP_SIGHAND: i32 = 4;
const KCMP_IO: i32 = 5;
const KCMP_SYSVSEM: i32 = 6;
const KCMP_EPOLL_TFD: i32 = 7;

/// The open file behind descriptor `fd` of `process`. EBADF.
fn file(process: &Arc<Process>, fd: usize) -> Result<Arc<OpenFile>> {
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    let files = process.files.get();
    if Arc::ptr_eq(process, &Process::current()) {
        files.get(fd)
    } else {
        files.visit().get(fd)
    }
}

/// The file that an epoll instance of `process` watches, as the slot at user address `slot` says. EFAULT,
/// EBADF, EINVAL, ENOENT.
fn watched(process: &Arc<Process>, slot: usize) -> Result<usize> {
    let [instance, fd, which]: [u32; 3] = vm::user::get(slot)?;
    let of = file(process, instance as usize)?;
    let epoll = of.file_as::<Epoll>().ok_or(Errno::EINVAL)?;
    epoll.watched(fd as usize, which as usize)
}

/// How one address stands to another without telling what they are.
fn order(one: usize, other: usize) -> usize {
    static COOKIE: AtomicU64 = AtomicU64::new(0);
    let fresh = machine::random::u64() | 1;
    // The first caller sets the value.
    let cookie = match COOKIE.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => fresh,
        Err(there) => there,
    };
    let obfuscated = |address: usize| (address as u64 ^ cookie).wrapping_mul(cookie);
    match obfuscated(one).cmp(&obfuscated(other)) {
        core::cmp::Ordering::Equal => 0,
        core::cmp::Ordering::Less => 1,
        core::cmp::Ordering::Greater => 2,
    }
}

fn kcmp(a: &mut Args) -> Result<usize> {
    let find = |tid| tree::find_task(tid).ok_or(Errno::ESRCH);
    let (one, other): (Arc<Task>, Arc<Task>) = (find(a.int(0))?, find(a.int(1))?);
    let (one, other) = (&one.process, &other.process);
    access::may(one, PtraceMode::Ask)?;
    access::may(other, PtraceMode::Ask)?;
    let (first, second) = (a.word(3), a.word(4));
    let at = |arc: &Arc<Process>| Arc::as_ptr(arc).addr();
    Ok(match a.int(2) {
        KCMP_FILE => {
            let (first, second) = (file(one, first)?, file(other, second)?);
            order(Arc::as_ptr(&first).addr(), Arc::as_ptr(&second).addr())
        }
        KCMP_EPOLL_TFD => {
            let first = file(one, first)?;
            order(Arc::as_ptr(&first).addr(), watched(other, second)?)
        }
        KCMP_VM => {
            let space = |process: &Process| process.space().map_or(0, |s| Arc::as_ptr(&s).addr());
            order(space(one), space(other))
        }
        KCMP_FILES => {
            let files = |process: &Process| Arc::as_ptr(&process.files.get()).addr();
            order(files(one), files(other))
        }
        KCMP_FS => {
            let fs = |process: &Process| Arc::as_ptr(&process.fs.get()).addr();
            order(fs(one), fs(other))
        }
        KCMP_SIGHAND => order(at(one), at(other)),
        // Nobody has anything of his own there.
        KCMP_IO | KCMP_SYSVSEM => 0,
        _ => return Err(Errno::EINVAL),
    })
}
