//! System V semaphores: sets of counters, `semop` and `semctl`.
//!
//! *Interface*: [`SETS`]; [`SemaphoreSet::new`], [`operate`] for `semop`, [`operate_briefly`] for a few
//! operations without a trap frame, the parts of `semctl`, [`undo`] when a process ends.
//!
//! A caller that cannot proceed sleeps until the set changes, and then tries all operations again. Each set
//! keeps the undo values of each process by the process's address, which stays unique until they are undone.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use machine::clock::real_ns;
use machine::irqs_off::IrqsOff;
use sync::{Monitor, WaitList, WaitNode};
use thread::flags::INTERRUPTS;
use thread::frameless::sleep;

use super::{IpcEntry, IpcNamespace, seconds};
use crate::process::{Process, Task};
use crate::time::{WaitEnded, wait_deadline};
use account::user::Charge;
use account::{Cred, quota};
use vm::fallible::{try_filled, try_push};

/// All sets.
pub static SETS: IpcNamespace<SemaphoreSet> = IpcNamespace::new(32000);

/// The most semaphores of a set.
pub const PER_SET: usize = 32000;
/// The most operations of one call.
pub const PER_CALL: usize = 500;
/// The highest value.
pub const VALUE_MAX: i32 = 32767;

/// One set.
pub struct SemaphoreSet {
    /// How many semaphores it has.
    pub count: usize,
    values: Monitor<Values>,
    changed: WaitList,
    /// The thread that waits in a brief call while nobody else does in one, or 0: as `resume` takes it.
    brief: AtomicUsize,
    _charge: Charge,
}

struct Values {
    each: Vec<Semaphore>,
    undo: Vec<Undo>,
    /// In nanoseconds since 1970; 0: never.
    otime_ns: u64,
    ctime: i64,
}

#[derive(Clone, Copy, Default)]
struct Semaphore {
    value: u16,
    pid: i32,
    /// The numbers of waiters for an increase, and for zero.
    waiting: [u32; 2],
}

/// The undo values of one process.
struct Undo {
    owner: usize,
    adjust: Vec<i16>,
}

/// Which of the two kinds of waiting.
const MORE: usize = 0;
const ZERO: usize = 1;

/// The result of an attempt.
enum Tried {
    Done,
    Failed(Errno),
    /// It waits for this semaphore, in this way.
    Blocked(usize, usize),
}

/// The reason why an attempt cannot proceed: the semaphore it waits for, and how.
type Blocked = (usize, usize);

impl SemaphoreSet {
    /// `count` semaphores that are zero. ENOMEM, ENOSPC.
    pub fn new(count: usize) -> Result<SemaphoreSet> {
        let charge = quota::bytes((count * size_of::<Semaphore>()) as u64);
        Ok(SemaphoreSet {
            count,
            values: Monitor::new(Values {
                each: try_filled(Semaphore::default(), count)?,
                undo: Vec::new(),
                otime_ns: 0,
                ctime: seconds(),
            }),
            changed: WaitList::new(),
            brief: AtomicUsize::new(0),
            _charge: charge.ok_or(Errno::ENOSPC)?,
        })
    }

    /// It can no longer be found.
    pub fn wake_all(&self) {
        // It is set by a holder of the values, so whoever has changed them since finds it.
        if self.brief.load(Ordering::SeqCst) != 0 {
            let waiter = self.brief.swap(0, Ordering::SeqCst);
            (sync::callout::get().resume)(waiter);
        }
        self.changed.wake_all();
    }

    /// Its owner or mode has changed.
    pub fn touch(&self) {
        // Bound: the semaphores of one set, at most 32,000; **linear** in the processes that undo something
        // there.
        self.values.lock().ctime = seconds();
    }

    /// The values. ENOMEM.
    pub fn all(&self) -> Result<Vec<u16>> {
        let mut values = try_filled(0, self.count)?;
        let held = self.values.lock();
        for (value, semaphore) in values.iter_mut().zip(&held.each) {
            *value = semaphore.value;
        }
        Ok(values)
    }

    /// Gives them these values, by process `pid`. ERANGE.
    pub fn set_all(&self, new: &[u16], pid: i32) -> Result<()> {
        if new.iter().any(|&value| i32::from(value) > VALUE_MAX) {
            return Err(Errno::ERANGE);
        }
        let mut held = self.values.lock();
        for (semaphore, &value) in held.each.iter_mut().zip(new) {
            (semaphore.value, semaphore.pid) = (value, pid);
        }
        held.undo.clear();
        held.ctime = seconds();
        drop(held);
        self.wake_all();
        Ok(())
    }

    /// Gives semaphore `number` a value, by process `pid`. EINVAL, ERANGE.
    pub fn set(&self, number: usize, value: i32, pid: i32) -> Result<()> {
        let mut held = self.values.lock();
        let semaphore = held.each.get_mut(number).ok_or(Errno::EINVAL)?;
        if !(0..=VALUE_MAX).contains(&value) {
            return Err(Errno::ERANGE);
        }
        (semaphore.value, semaphore.pid) = (value as u16, pid);
        for undo in &mut held.undo {
            if let Some(adjust) = undo.adjust.get_mut(number) {
                *adjust = 0;
            }
        }
        held.ctime = seconds();
        drop(held);
        self.wake_all();
        Ok(())
    }

    /// The data of semaphore `number` for `semctl`: value, last process, waiters for an increase, waiters for
    /// zero. EINVAL.
    pub fn about(&self, number: usize) -> Result<[i32; 4]> {
        let held = self.values.lock();
        let one = held.each.get(number).ok_or(Errno::EINVAL)?;
        let [more, zero] = one.waiting.map(|count| count as i32);
        Ok([i32::from(one.value), one.pid, more, zero])
    }
}

/// The data for `IPC_STAT`.
pub fn stat(entry: &IpcEntry<SemaphoreSet>) -> SemidDs {
    let perm = entry.perm();
    // Bound: a few words.
    let held = entry.object.values.lock();
    SemidDs {
        perm,
        otime: (held.otime_ns / NSEC_PER_SEC) as i64,
        ctime: held.ctime,
        nsems: entry.object.count as u64,
        ..SemidDs::default()
    }
}

impl Values {
    /// Does all of `operations` for `owner`, or none. EAGAIN for an operation that must not wait, ERANGE; the
    /// inner error tells what it waits for.
    fn attempt(
        &mut self,
        operations: &[Sembuf],
        owner: usize,
        pid: i32,
    ) -> Result<core::result::Result<(), Blocked>> {
        let mut done = 0;
        let outcome = loop {
            let Some(&operation) = operations.get(done) else {
                break Ok(Ok(()));
            };
            match self.one(operation, owner) {
                Ok(Ok(())) => done += 1,
                other => break other,
            }
        };
        if !matches!(outcome, Ok(Ok(()))) {
            for &operation in operations[..done].iter().rev() {
                self.shift(operation, owner, -1);
            }
            return outcome;
        }
        for operation in operations {
            if let Some(semaphore) = self.each.get_mut(usize::from(operation.num)) {
                semaphore.pid = pid;
            }
        }
        self.otime_ns = real_ns();
        Ok(Ok(()))
    }

    fn one(
        &mut self,
        operation: Sembuf,
        owner: usize,
    ) -> Result<core::result::Result<(), Blocked>> {
        let number = usize::from(operation.num);
        let flags = operation.flags as u16 as u32;
        let value = self.each.get(number).ok_or(Errno::EFBIG)?.value;
        let then = i32::from(value) + i32::from(operation.op);
        let blocked = match operation.op {
            0 if value != 0 => Some(ZERO),
            _ if then < 0 => Some(MORE),
            _ => None,
        };
        if let Some(kind) = blocked {
            return if flags & IPC_NOWAIT != 0 {
                Err(Errno::EAGAIN)
            } else {
                Ok(Err((number, kind)))
            };
        }
        if then > VALUE_MAX {
            return Err(Errno::ERANGE);
        }
        if flags & SEM_UNDO != 0 {
            let undo = self.undo.iter().find(|undo| undo.owner == owner);
            let adjust = undo.and_then(|undo| undo.adjust.get(number)).copied();
            let adjust = i32::from(adjust.unwrap_or(0)) - i32::from(operation.op);
            if !(-VALUE_MAX - 1..=VALUE_MAX).contains(&adjust) {
                return Err(Errno::ERANGE);
            }
        }
        self.shift(operation, owner, 1);
        Ok(Ok(()))
    }

    /// Does one operation that is possible, or (`sign` -1) takes it back.
    fn shift(&mut self, operation: Sembuf, owner: usize, sign: i32) {
        let number = usize::from(operation.num);
        let by = sign * i32::from(operation.op);
        if let Some(semaphore) = self.each.get_mut(number) {
            semaphore.value = (i32::from(semaphore.value) + by) as u16;
        }
        if operation.flags as u16 as u32 & SEM_UNDO == 0 {
            return;
        }
        let undo = self.undo.iter_mut().find(|undo| undo.owner == owner);
        if let Some(adjust) = undo.and_then(|undo| undo.adjust.get_mut(number)) {
            *adjust = (i32::from(*adjust) - by) as i16;
        }
    }

    /// As [`attempt`](Self::attempt), of a few operations on semaphores that there are, of which none is to
    /// be undone.
    #[inline(always)]
    fn attempt_briefly(&mut self, operations: &[Sembuf], pid: i32) -> Tried {
        let each = self.each.as_mut_slice();
        for (done, operation) in operations.iter().enumerate() {
            let by = i32::from(operation.op);
            let Some(semaphore) = each.get_mut(usize::from(operation.num)) else {
                return Tried::Failed(Errno::EFBIG);
            };
            let then = i32::from(semaphore.value) + by;
            let waits = if by == 0 { then != 0 } else { then < 0 };
            if !waits && then <= VALUE_MAX {
                semaphore.value = then as u16;
                continue;
            }
            for before in &operations[..done] {
                if let Some(semaphore) = each.get_mut(usize::from(before.num)) {
                    semaphore.value = (i32::from(semaphore.value) - i32::from(before.op)) as u16;
                }
            }
            return match () {
                () if !waits => Tried::Failed(Errno::ERANGE),
                () if operation.flags as u16 as u32 & IPC_NOWAIT != 0 => {
                    Tried::Failed(Errno::EAGAIN)
                }
                () => Tried::Blocked(
                    usize::from(operation.num),
                    if by == 0 { ZERO } else { MORE },
                ),
            };
        }
        for operation in operations {
            if let Some(semaphore) = each.get_mut(usize::from(operation.num)) {
                semaphore.pid = pid;
            }
        }
        self.otime_ns = real_ns();
        Tried::Done
    }

    /// There is a place for what `owner` is to have undone. ENOMEM.
    fn make_undo(&mut self, owner: usize) -> Result<()> {
        if self.undo.iter().all(|undo| undo.owner != owner) {
            let adjust = try_filled(0, self.each.len())?;
            try_push(&mut self.undo, Undo { owner, adjust })?;
        }
        Ok(())
    }

    fn wait(&mut self, blocked: Option<Blocked>, by: i32) {
        if let Some((number, kind)) = blocked
            && let Some(semaphore) = self.each.get_mut(number)
            && let Some(waiting) = semaphore.waiting.get_mut(kind)
        {
            *waiting = waiting.saturating_add_signed(by);
        }
    }
}

/// Does all of `operations` at once, as soon as that is possible: before `deadline`. EAGAIN, EFBIG, ERANGE,
/// EIDRM, EINTR, ENOMEM.
pub fn operate(
    entry: &IpcEntry<SemaphoreSet>,
    process: &Arc<Process>,
    operations: &[Sembuf],
    deadline: Option<u64>,
) -> Result<()> {
    let set = &entry.object;
    let owner = Arc::as_ptr(process).addr();
    if operations
        .iter()
        .any(|operation| usize::from(operation.num) >= set.count)
    {
        return Err(Errno::EFBIG);
    }
    let undoes = |operation: &Sembuf| operation.flags as u16 as u32 & SEM_UNDO != 0;
    if operations.iter().any(undoes) {
        process.undoes.store(true, Ordering::Relaxed);
        // Bound: one call's operations, at most 500; and the semaphores of one set, at most 32,000;
        // **linear** in the processes that undo something there.
        let mut held = set.values.lock();
        held.make_undo(owner)?;
    }
    let mut blocked = None;
    let waited = wait_deadline(&set.changed, deadline, || {
        let mut held = set.values.lock();
        held.wait(blocked.take(), -1);
        if entry.is_removed() {
            return Some(Err(Errno::EIDRM));
        }
        match held.attempt(operations, owner, process.pid) {
            Ok(Err(by)) => {
                blocked = Some(by);
                held.wait(blocked, 1);
                None
            }
            Ok(Ok(())) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    });
    let mut held = set.values.lock();
    held.wait(blocked.take(), -1);
    drop(held);
    let outcome = match waited {
        Ok(outcome) => outcome,
        Err(WaitEnded::TimedOut) => Err(Errno::EAGAIN),
        Err(WaitEnded::Interrupted) => Err(Errno::EINTR),
    };
    if outcome.is_ok() && operations.iter().any(|operation| operation.op != 0) {
        set.wake_all();
    }
    outcome
}

/// As [`operate`] by the running thread, `task`, on the set with number `id`, for ever. `None`: nothing was
/// done; the call is to be made by [`operate`], which also tells errors of arguments and rights.
pub fn operate_briefly(
    task: &Task,
    id: i32,
    operations: &[Sembuf],
    off: &mut IrqsOff,
) -> Option<Result<()>> {
    let entry = SETS.find_now(id)?;
    let outcome = operate_now(task, &entry, operations, off);
    // It may be the last count.
    off.with_interrupts(|| drop(entry));
    outcome
}

fn operate_now(
    task: &Task,
    entry: &IpcEntry<SemaphoreSet>,
    operations: &[Sembuf],
    off: &mut IrqsOff,
) -> Option<Result<()>> {
    let set = &entry.object;
    let mut changes = false;
    for operation in operations {
        let undoes = operation.flags as u16 as u32 & SEM_UNDO != 0;
        if undoes || usize::from(operation.num) >= set.count {
            return None;
        }
        changes |= operation.op != 0;
    }
    let process = &task.process;
    let wanted = if changes { 0o222 } else { 0o444 };
    let may = |cred: &Cred| entry.may_now(cred, wanted);
    if !task.cred.beside(&process.files, |cred, _| may(cred)) {
        return None;
    }
    // Bound: at most 4 operations of one call; interrupts are off.
    let mut held = set.values.try_lock()?;
    let mut node = None;
    let me = task.thread.address();
    let outcome = loop {
        if entry.is_removed() {
            break Some(Err(Errno::EIDRM));
        }
        let blocked = match held.attempt_briefly(operations, process.pid) {
            Tried::Done => break Some(Ok(())),
            Tried::Failed(error) => break Some(Err(error)),
            Tried::Blocked(number, kind) => (number, kind),
        };
        // The first waits in the word, others in the list: before the values may change.
        let alone = match set.brief.load(Ordering::SeqCst) {
            0 => set
                .brief
                .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok(),
            waiter => waiter == me,
        };
        let enrolled = alone || {
            let node = node.get_or_insert_with(WaitNode::new);
            node.is_queued() || set.changed.enroll(node)
        };
        if !enrolled || task.thread.flags() & INTERRUPTS != 0 {
            break None;
        }
        held.wait(Some(blocked), 1);
        drop(held);
        sleep(&task.thread, off);
        held = match set.values.try_lock() {
            Some(held) => held,
            None => off.with_interrupts(|| set.values.lock()),
        };
        held.wait(Some(blocked), -1);
    };
    drop(held);
    if set.brief.load(Ordering::SeqCst) == me {
        let _taken = set
            .brief
            .compare_exchange(me, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
    if let Some(node) = &node {
        set.changed.leave(node);
    }
    if changes && outcome == Some(Ok(())) {
        set.wake_all();
    }
    outcome
}

/// Undoes what `process`, which ends or is to have nothing undone any more, has asked for.
pub fn undo(process: &Process) {
    if !process.undoes.swap(false, Ordering::Relaxed) {
        return;
    }
    let owner = core::ptr::from_ref(process).addr();
    for entry in SETS.all() {
        let set = &entry.object;
        let mut held = set.values.lock();
        let Some(place) = held.undo.iter().position(|undo| undo.owner == owner) else {
            continue;
        };
        let undo = held.undo.swap_remove(place);
        for (semaphore, &adjust) in held.each.iter_mut().zip(&undo.adjust) {
            if adjust != 0 {
                let value = i32::from(semaphore.value) + i32::from(adjust);
                semaphore.value = value.clamp(0, VALUE_MAX) as u16;
                semaphore.pid = process.pid;
            }
        }
        held.otime_ns = real_ns();
        drop(held);
        drop(undo);
        set.wake_all();
    }
}
