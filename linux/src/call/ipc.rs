//! The calls of System V IPC.
//!
//! *Interface*: [`CALLS`]; [`semop_frameless`] and [`semtimedop_frameless`] are made without a trap frame.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::*;
use abi::nr;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytemuck::Zeroable;
use core::sync::atomic::Ordering;
use machine::clock::now_ns;
use machine::irqs_off::IrqsOff;
use thread::frameless::NOT_HANDLED;
use vm::space::Placement;
use vm::{Prot, user};

use super::{Args, Handler};
use account::{Capability, Cred};
use process::ipc::memory::{self, SEGMENTS, ShmSegment};
use process::ipc::message::{self, Message, MessageQueue, QUEUES};
use process::ipc::semaphore::{self, SETS, SemaphoreSet};
use process::ipc::{IpcEntry, IpcNamespace};
use process::{Process, Task};
use vm::fallible::try_filled;

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::SHMGET, shmget),
    (nr::SHMAT, shmat),
    (nr::SHMDT, |a| {
        let process = Process::current();
        let space = process.space().ok_or(Errno::EINVAL)?;
        if !a.word(0).is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        memory::detach(&space, process.pid, a.word(0)).map(|()| 0)
    }),
    (nr::SHMCTL, shmctl),
    (nr::SEMGET, semget),
    (nr::SEMOP, |a| semop(a, None)),
    (nr::SEMTIMEDOP, semtimedop),
    (nr::SEMCTL, semctl),
    (nr::MSGGET, |a| {
        let process = Process::current();
        let cred = process.cred_here();
        let make = || Ok(MessageQueue::new());
        let entry = QUEUES.get(a.int(0), a.uint(1), &cred, |_| Ok(()), make)?;
        Ok(entry.id as usize)
    }),
    (nr::MSGSND, msgsnd),
    (nr::MSGRCV, msgrcv),
    (nr::MSGCTL, msgctl),
];

/// The bits for reading and for writing.
const READ: u32 = 0o444;
const WRITE: u32 = 0o222;

/// The values of an object that a `*_STAT` asks for, by number or place, whether `cred` must have the right
/// to read it, and the call's answer.
fn asked<T>(
    all: &IpcNamespace<T>,
    id: i32,
    command: i32,
    (stat, any): (i32, i32),
    cred: &Cred,
) -> Result<Option<(Arc<IpcEntry<T>>, usize)>> {
    let found = match command {
        IPC_STAT => (all.find(id)?, 0),
        _ if command == stat || command == any => {
            let entry = all.at(id)?;
            let answer = entry.id as usize;
            (entry, answer)
        }
        _ => return Ok(None),
    };
    if command != any {
        found.0.may(cred, READ)?;
    }
    Ok(Some(found))
}

fn shmget(a: &mut Args) -> Result<usize> {
    let (key, bytes, flags) = (a.int(0), a.word(1) as u64, a.uint(2));
    let process = Process::current();
    let cred = process.cred_here();
    if flags & SHM_HUGETLB != 0 && flags & IPC_CREAT != 0 {
        return Err(Errno::EINVAL);
    }
    let fits = |segment: &ShmSegment| match bytes <= segment.bytes {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    };
    let make = || {
        if bytes == 0 || bytes > memory::BYTES_MAX {
            return Err(Errno::EINVAL);
        }
        ShmSegment::new(bytes, key, process.pid, &cred)
    };
    let entry = SEGMENTS.get(key, flags, &cred, fits, make)?;
    memory::find(entry.id).map(|entry| entry.id as usize)
}

fn shmat(a: &mut Args) -> Result<usize> {
    let (id, mut address, flags) = (a.int(0), a.word(1), a.uint(2));
    let process = Process::current();
    let entry = memory::find(id)?;
    if !address.is_multiple_of(PAGE) {
        if flags & SHM_RND == 0 {
            return Err(Errno::EINVAL);
        }
        address -= address % PAGE;
    }
    if address == 0 && flags & SHM_REMAP != 0 {
        return Err(Errno::EINVAL);
    }
    let place = match address {
        0 => Placement::Anywhere,
        _ if flags & SHM_REMAP != 0 => Placement::Fixed(address),
        _ => Placement::FixedNoReplace(address),
    };
    let mut prot = Prot::READ;
    let mut wanted = READ;
    if flags & SHM_RDONLY == 0 {
        prot = Prot::RW;
        wanted |= WRITE;
    }
    if flags & SHM_EXEC != 0 {
        prot = prot.or(Prot::EXEC);
        wanted |= 0o111;
    }
    entry.may(&process.cred_here(), wanted)?;
    let space = process.space().ok_or(Errno::EINVAL)?;
    memory::attach(&entry, &space, process.pid, place, prot)
}

fn shmctl(a: &mut Args) -> Result<usize> {
    let (id, command, at) = (a.int(0), a.int(1), a.word(2));
    let process = Process::current();
    let cred = process.cred_here();
    if command < 0 || id < 0 {
        return Err(Errno::EINVAL);
    }
    let (count, highest) = SEGMENTS.usage();
    match command {
        IPC_INFO => {
            let info = Shminfo {
                shmmax: memory::BYTES_MAX,
                shmmin: 1,
                shmmni: SEGMENTS.most.load(Ordering::Relaxed) as u64,
                shmseg: SEGMENTS.most.load(Ordering::Relaxed) as u64,
                shmall: memory::BYTES_MAX,
                ..Shminfo::default()
            };
            user::put(at, &info)?;
            return Ok(highest);
        }
        SHM_INFO => {
            let info = ShmInfo {
                used_ids: count as i32,
                shm_tot: memory::pages_of_all(),
                ..ShmInfo::default()
            };
            user::put(at, &info)?;
            return Ok(highest);
        }
        _ => {}
    }
    if let Some((entry, answer)) = asked(&SEGMENTS, id, command, (SHM_STAT, SHM_STAT_ANY), &cred)? {
        let entry = memory::find(entry.id)?;
        user::put(at, &memory::stat(&entry))?;
        return Ok(answer);
    }
    match command {
        IPC_SET => {
            let new: ShmidDs = user::get(at)?;
            let entry = memory::find(id)?;
            entry.owned_by(&cred)?;
            entry.set_perm(&new.perm)?;
            entry.object.changed();
        }
        IPC_RMID => {
            let entry = memory::find(id)?;
            entry.owned_by(&cred)?;
            memory::doom(&entry);
        }
        SHM_LOCK | SHM_UNLOCK => {
            let entry = memory::find(id)?;
            if !cred.has(Capability::IpcLock) {
                entry.owned_by(&cred)?;
                // Bound: one limit.
                let limit = process.limits.lock().cur(RLIMIT_MEMLOCK);
                if command == SHM_LOCK && limit == 0 {
                    return Err(Errno::EPERM);
                }
            }
            entry.object.set_locked(command == SHM_LOCK);
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

fn semget(a: &mut Args) -> Result<usize> {
    let (key, count, flags) = (a.int(0), a.int(1), a.uint(2));
    let cred = account::caller::cred();
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    if count > semaphore::PER_SET {
        return Err(Errno::EINVAL);
    }
    let fits = |set: &SemaphoreSet| match count <= set.count {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    };
    let make = || match count {
        0 => Err(Errno::EINVAL),
        count => SemaphoreSet::new(count),
    };
    let entry = SETS.get(key, flags, &cred, fits, make)?;
    Ok(entry.id as usize)
}

fn semtimedop(a: &mut Args) -> Result<usize> {
    if a.word(3) == 0 {
        return semop(a, None);
    }
    let timeout: Timespec = user::get(a.word(3))?;
    let timeout = timeout.to_ns().ok_or(Errno::EINVAL)?;
    semop(a, Some(now_ns().saturating_add(timeout)))
}

/// So many operations are done without a trap frame.
const FEW: usize = 4;

/// `semop` of a few operations.
pub(super) extern "sysv64" fn semop_frameless(
    id: usize,
    operations: usize,
    count: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    let mut room = [Sembuf::zeroed(); FEW];
    let few = room.get_mut(..count as u32 as usize);
    let done = few.filter(|few| !few.is_empty()).and_then(|few| {
        user::copy_in(bytemuck::cast_slice_mut(few), operations).ok()?;
        Task::here(|task| semaphore::operate_briefly(task, id as i32, few, &mut off)).flatten()
    });
    match done {
        Some(Ok(())) => 0,
        Some(Err(error)) => error.to_rax() as isize,
        None => NOT_HANDLED,
    }
}

/// `semtimedop` of a few operations, without a time.
pub(super) extern "sysv64" fn semtimedop_frameless(
    id: usize,
    operations: usize,
    count: usize,
    time: usize,
    _other: usize,
    _last: usize,
    off: IrqsOff,
) -> isize {
    match time {
        0 => semop_frameless(id, operations, count, 0, 0, 0, off),
        _ => NOT_HANDLED,
    }
}

fn semop(a: &mut Args, deadline: Option<u64>) -> Result<usize> {
    let count = a.uint(2) as usize;
    if count == 0 || a.int(0) < 0 {
        return Err(Errno::EINVAL);
    }
    if count > semaphore::PER_CALL {
        return Err(Errno::E2BIG);
    }
    let operations: Vec<Sembuf> = user::array(a.word(1), count)?;
    let process = Process::current();
    let entry = SETS.find(a.int(0))?;
    let past = |operation: &Sembuf| usize::from(operation.num) >= entry.object.count;
    if operations.iter().any(past) {
        return Err(Errno::EFBIG);
    }
    let changes = operations.iter().any(|operation| operation.op != 0);
    let wanted = if changes { WRITE } else { READ };
    entry.may(&process.cred_here(), wanted)?;
    semaphore::operate(&entry, &process, &operations, deadline).map(|()| 0)
}

/// The answer to `IPC_INFO` and `SEM_INFO`.
fn seminfo(command: i32, count: usize) -> Seminfo {
    const ALL: i32 = 1_024_000_000;
    let all = || SETS.all().map(|entry| entry.object.count as i32).sum();
    let (semusz, semaem) = match command {
        SEM_INFO => (count as i32, all()),
        _ => (20, semaphore::VALUE_MAX),
    };
    Seminfo {
        semmap: ALL,
        semmni: SETS.most.load(Ordering::Relaxed) as i32,
        semmns: ALL,
        semmnu: ALL,
        semmsl: semaphore::PER_SET as i32,
        semopm: semaphore::PER_CALL as i32,
        semume: semaphore::PER_CALL as i32,
        semusz,
        semvmx: semaphore::VALUE_MAX,
        semaem,
    }
}

fn semctl(a: &mut Args) -> Result<usize> {
    let (id, number, command, at) = (a.int(0), a.int(1), a.int(2), a.word(3));
    let process = Process::current();
    let cred = process.cred_here();
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let (count, highest) = SETS.usage();
    if command == IPC_INFO || command == SEM_INFO {
        user::put(at, &seminfo(command, count))?;
        return Ok(highest);
    }
    if let Some((entry, answer)) = asked(&SETS, id, command, (SEM_STAT, SEM_STAT_ANY), &cred)? {
        user::put(at, &semaphore::stat(&entry))?;
        return Ok(answer);
    }
    let entry = SETS.find(id)?;
    let set = &entry.object;
    let about = |which: usize| -> Result<usize> {
        entry.may(&cred, READ)?;
        let number = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
        let all = set.about(number)?;
        Ok(all.get(which).copied().unwrap_or(0) as usize)
    };
    match command {
        GETVAL => return about(0),
        GETPID => return about(1),
        GETNCNT => return about(2),
        GETZCNT => return about(3),
        GETALL => {
            entry.may(&cred, READ)?;
            user::copy_out(at, bytemuck::cast_slice(&set.all()?))?;
        }
        SETVAL => {
            if !(0..=semaphore::VALUE_MAX).contains(&(at as i32)) {
                return Err(Errno::ERANGE);
            }
            entry.may(&cred, WRITE)?;
            let number = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
            set.set(number, at as i32, process.pid)?;
        }
        SETALL => {
            entry.may(&cred, WRITE)?;
            let new: Vec<u16> = user::array(at, set.count)?;
            set.set_all(&new, process.pid)?;
        }
        IPC_SET => {
            let new: SemidDs = user::get(at)?;
            entry.owned_by(&cred)?;
            entry.set_perm(&new.perm)?;
            set.touch();
        }
        IPC_RMID => {
            entry.owned_by(&cred)?;
            SETS.remove(&entry);
            set.wake_all();
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

fn msgsnd(a: &mut Args) -> Result<usize> {
    let (id, at, length, flags) = (a.int(0), a.word(1), a.word(2), a.uint(3));
    let kind: i64 = user::get(at)?;
    let most = message::limits::MESSAGE.load(Ordering::Relaxed);
    if length > most || id < 0 || kind < 1 {
        return Err(Errno::EINVAL);
    }
    let mut text = try_filled(0, length)?;
    user::copy_in(&mut text, at.wrapping_add(size_of::<i64>()))?;
    let process = Process::current();
    let entry = QUEUES.find(id)?;
    entry.may(&process.cred_here(), WRITE)?;
    message::send(&entry, process.pid, Message::new(kind, text)?, flags).map(|()| 0)
}

fn msgrcv(a: &mut Args) -> Result<usize> {
    let (id, at, length, wanted, flags) = (a.int(0), a.word(1), a.long(2), a.long(3), a.uint(4));
    let room = usize::try_from(length).map_err(|_| Errno::EINVAL)?;
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    if flags & MSG_COPY != 0 && (flags & MSG_EXCEPT != 0 || flags & IPC_NOWAIT == 0) {
        return Err(Errno::EINVAL);
    }
    let process = Process::current();
    let entry = QUEUES.find(id)?;
    entry.may(&process.cred_here(), READ)?;
    let message = message::receive(&entry, process.pid, room, wanted, flags)?;
    let text = message.text.get(..room).unwrap_or(&message.text);
    user::put(at, &message.kind)?;
    user::copy_out(at.wrapping_add(size_of::<i64>()), text)?;
    Ok(text.len())
}

/// The answer to `IPC_INFO` and `MSG_INFO`.
fn msginfo(command: i32, count: usize) -> Msginfo {
    let most = message::limits::QUEUE.load(Ordering::Relaxed) as i32;
    let mut info = Msginfo {
        msgmax: message::limits::MESSAGE.load(Ordering::Relaxed) as i32,
        msgmnb: most,
        msgmni: QUEUES.most.load(Ordering::Relaxed) as i32,
        msgssz: 16,
        msgtql: most,
        msgseg: u16::MAX,
        ..Msginfo::default()
    };
    if command == MSG_INFO {
        info.msgpool = count as i32;
        for entry in QUEUES.all() {
            let one = message::stat(&entry);
            info.msgmap += one.qnum as i32;
            info.msgtql = info.msgtql.wrapping_add(one.cbytes as i32);
        }
        info.msgtql = info.msgtql.wrapping_sub(most);
    } else {
        info.msgpool = QUEUES.most.load(Ordering::Relaxed) as i32 * (most / 1024);
        info.msgmap = most;
    }
    info
}

fn msgctl(a: &mut Args) -> Result<usize> {
    let (id, command, at) = (a.int(0), a.int(1), a.word(2));
    let process = Process::current();
    let cred = process.cred_here();
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL);
    }
    let (count, highest) = QUEUES.usage();
    if command == IPC_INFO || command == MSG_INFO {
        user::put(at, &msginfo(command, count))?;
        return Ok(highest);
    }
    if let Some((entry, answer)) = asked(&QUEUES, id, command, (MSG_STAT, MSG_STAT_ANY), &cred)? {
        user::put(at, &message::stat(&entry))?;
        return Ok(answer);
    }
    match command {
        IPC_SET => {
            let new: MsqidDs = user::get(at)?;
            let entry = QUEUES.find(id)?;
            entry.owned_by(&cred)?;
            let most = message::limits::QUEUE.load(Ordering::Relaxed) as u64;
            if new.qbytes > most {
                cred.need(Capability::SysResource)?;
            }
            entry.set_perm(&new.perm)?;
            entry.object.change(new.qbytes);
        }
        IPC_RMID => {
            let entry = QUEUES.find(id)?;
            entry.owned_by(&cred)?;
            QUEUES.remove(&entry);
            entry.object.wake_all();
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}
