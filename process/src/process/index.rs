//! Processes and threads by number, found without a lock: who looks one up, or sends a signal, waits for nobody.
//!
//! *Interface*: [`find`], [`find_task`] and [`any`] from any thread, [`with`] from interrupts; [`announce`], [`show`], [`add_thread`] and [`remove`] by who owns the number;
//! [`arrivals`] and [`arrive`] for who goes through all numbers (`register.rs` says how).
//!
//! An entry holds its process or task weakly: living ones are held by their threads, zombies by their parent. It is given up a grace period after it was taken out; that
//! frees memory and runs no process's destructor. Progress: looking is wait-free but for the count of a handle, which is lock-free.

use alloc::sync::{Arc, Weak};
use core::mem::ManuallyDrop;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64};

use machine::cpu::{irq_restore, irq_save};
use sync::epoch;

use super::register::{HIDDEN, Register, THREAD};
use super::reserve::NUMBERS_MAX;
use super::{Process, Task};

const COUNT: usize = NUMBERS_MAX as usize;

static REGISTER: Register<COUNT> = Register::over(
    [const { AtomicPtr::new(null_mut()) }; COUNT],
    AtomicU64::new(0),
);

/// A count on `thing` as an entry has it.
fn entry<T>(thing: &Arc<T>) -> *mut () {
    const { assert!(align_of::<T>() > THREAD | HIDDEN) };
    Arc::downgrade(thing).into_raw().cast_mut().cast()
}

/// Whoever goes through all numbers finds `process` from now on.
pub(crate) fn announce(process: &Arc<Process>) {
    REGISTER.announce(process.pid, entry(process));
}

/// All find `process`, which was announced.
pub(crate) fn show(process: &Process) {
    REGISTER.show(process.pid);
}

/// All find `task`, a thread other than the first of its process.
pub(crate) fn add_thread(task: &Arc<Task>) {
    REGISTER.put_thread(task.tid, entry(task));
}

/// Nobody finds what has `number`, if anything has, from now on. Thread context.
pub(crate) fn remove(number: i32) {
    fn give_up<T>(entry: usize) {
        // SAFETY: `entry` made it from a count, and it was taken out, once.
        drop(unsafe { Weak::from_raw(core::ptr::with_exposed_provenance::<T>(entry)) });
    }
    let (thing, bits) = REGISTER.take(number);
    if thing.is_null() {
        return;
    }
    let give_up = match bits & THREAD {
        0 => give_up::<Process>,
        _ => give_up::<Task>,
    };
    epoch::retire(give_up, thing.expose_provenance());
}

/// A process's having come somewhere else is an arrival, too.
pub(crate) fn arrive() {
    REGISTER.arrive();
}

/// How many processes have arrived so far.
pub(crate) fn arrivals() -> u64 {
    REGISTER.arrivals()
}

/// A count on what `entry` names, unless it is gone.
///
/// # Safety
/// `entry` was found in the register since interrupts were switched off, and names a `T`.
unsafe fn counted<T>(entry: *mut ()) -> Option<Arc<T>> {
    // SAFETY: the entry's own count is given up after a grace period only, and stays the entry's.
    let weak = unsafe { Weak::from_raw(entry.cast_const().cast::<T>()) };
    ManuallyDrop::new(weak).upgrade()
}

/// The process with number `pid`, if `seen` says so of its bits.
fn process(pid: i32, seen: impl Fn(usize) -> bool) -> Option<Arc<Process>> {
    let irq = irq_save();
    let (thing, bits) = REGISTER.get(pid);
    let there = !thing.is_null() && seen(bits);
    // SAFETY: interrupts are off; `seen` refuses threads.
    let found = there.then(|| unsafe { counted(thing) }).flatten();
    irq_restore(irq);
    found
}

/// The process with number `pid`.
pub(crate) fn find(pid: i32) -> Option<Arc<Process>> {
    process(pid, |bits| bits == 0)
}

/// The same, or one that has been announced.
pub(crate) fn any(pid: i32) -> Option<Arc<Process>> {
    process(pid, |bits| bits & THREAD == 0)
}

/// The thread with number `tid`, of whatever process.
pub(crate) fn find_task(tid: i32) -> Option<Arc<Task>> {
    let irq = irq_save();
    let (thing, bits) = REGISTER.get(tid);
    let further = !thing.is_null() && bits == THREAD;
    // SAFETY: interrupts are off, and this is a thread's.
    let found = further.then(|| unsafe { counted(thing) });
    irq_restore(irq);
    match found {
        Some(task) => task,
        None => find(tid)?.task(tid),
    }
}

/// Calls `look` with the process with number `pid`, if there is one, without counting.
///
/// # Safety
/// Interrupts are off until this returns, and the process, if there is one, will not be freed before they are on again: a part of it that `look`
/// may see waits for a grace period first.
pub(crate) unsafe fn with<R>(pid: i32, look: impl FnOnce(&Process) -> R) -> Option<R> {
    let (thing, bits) = REGISTER.get(pid);
    let there = !thing.is_null() && bits == 0;
    // SAFETY: the entry's own count keeps the memory, the caller what is in it.
    there.then(|| look(unsafe { &*thing.cast::<Process>() }))
}
