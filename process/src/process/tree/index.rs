//! Processes and threads by number, found without a lock: a lookup or a signal never waits.
//!
//! *Interface*: [`find`], [`find_task`] and [`any`] from any thread, [`with`] from interrupts; the owner of a
//! number calls [`announce`], [`show`], [`add_thread`] and [`remove`]; a visitor of all numbers reads
//! [`arrivals`] (`pid_map.rs` says how), and [`arrive`] counts an arrival.
//!
//! An entry holds its process or task weakly: a living process is held by its threads, a zombie by its
//! parent. The entry's weak count is given up a grace period after the entry was taken out. That frees memory
//! and runs no process's destructor.
//!
//! Progress: a lookup is wait-free except for the count of the handle that it returns, which is lock-free.
//!
//! *Unsafe*: entries that live until a grace period.

use alloc::sync::{Arc, Weak};
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicPtr, AtomicU64};

use abi::errno::Result;
use machine::irqs_off::{IrqsOff, irqs_off};
use sync::epoch;
use vm::sparse::SparseTable;

use super::pid_alloc::NUMBERS_MAX;
use super::pid_map::{HIDDEN, PidMap, THREAD};
use super::{Process, Task};

static REGISTER: PidMap<SparseTable<AtomicPtr<()>, { NUMBERS_MAX as usize }>> =
    PidMap::over(SparseTable::new(), AtomicU64::new(0));

/// Gives the register its words. Once, at boot. ENOMEM.
pub(crate) fn install() -> Result<()> {
    REGISTER.words().install()
}

/// From now on `number` may have an entry. ENOMEM.
pub(crate) fn back(number: usize) -> Result<()> {
    REGISTER.words().back(number).map(drop)
}

/// A weak count on `thing`, in the form of an entry.
fn entry<T>(thing: &Arc<T>) -> *mut () {
    const { assert!(align_of::<T>() > THREAD | HIDDEN) };
    Arc::downgrade(thing).into_raw().cast_mut().cast()
}

/// From now on visitors of all numbers find `process`.
pub(crate) fn announce(process: &Arc<Process>) {
    REGISTER.announce(process.pid, entry(process));
}

/// From now on lookups find `process`, which was announced.
pub(crate) fn show(process: &Process) {
    REGISTER.show(process.pid);
}

/// From now on lookups find `task`, a thread other than the first of its process.
pub(crate) fn add_thread(task: &Arc<Task>) {
    REGISTER.put_thread(task.tid, entry(task));
}

/// Takes out the entry of `number`, if there is one. Thread context.
pub(crate) fn remove(number: i32) {
    fn give_up<T>(entry: usize) {
        // SAFETY: the word is a count that `entry` made, and it was taken out once.
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

/// Counts an arrival: a process has moved to another group or session.
pub(crate) fn arrive() {
    REGISTER.arrive();
}

/// How many arrivals there have been.
pub(crate) fn arrivals() -> u64 {
    REGISTER.arrivals()
}

/// A handle to what `entry` names, unless that has gone.
///
/// # Safety
/// `entry` was found in the register since interrupts were switched off, and names a `T`.
unsafe fn counted<T>(entry: *mut (), _off: &IrqsOff) -> Option<Arc<T>> {
    // SAFETY: the entry's weak count is given up only after a grace period; `ManuallyDrop` leaves it alone.
    let weak = unsafe { Weak::from_raw(entry.cast_const().cast::<T>()) };
    ManuallyDrop::new(weak).upgrade()
}

/// The process with number `pid`, if `seen` accepts the bits of its entry.
fn process(pid: i32, seen: impl Fn(usize) -> bool) -> Option<Arc<Process>> {
    // Bound: one load, and a count.
    irqs_off(|off| {
        let (thing, bits) = REGISTER.get(pid);
        let there = !thing.is_null() && seen(bits);
        // SAFETY: interrupts are off; `seen` refuses threads.
        there.then(|| unsafe { counted(thing, off) }).flatten()
    })
}

/// The process with number `pid`.
pub(crate) fn find(pid: i32) -> Option<Arc<Process>> {
    process(pid, |bits| bits == 0)
}

/// The process with number `pid`, even if it has only been announced.
pub(crate) fn any(pid: i32) -> Option<Arc<Process>> {
    process(pid, |bits| bits & THREAD == 0)
}

/// The thread with number `tid`, of any process.
pub(crate) fn find_task(tid: i32) -> Option<Arc<Task>> {
    let found = irqs_off(|off| {
        let (thing, bits) = REGISTER.get(tid);
        let further = !thing.is_null() && bits == THREAD;
        // SAFETY: interrupts are off, and the entry is a thread's.
        further.then(|| unsafe { counted(thing, off) })
    });
    match found {
        Some(task) => task,
        None => find(tid)?.task(tid),
    }
}

/// Calls `look` with the process with number `pid`, if there is one, without taking a count.
///
/// # Safety
/// Everything that `look` reads of the process is freed only after a grace period.
pub(crate) unsafe fn with<R>(
    pid: i32,
    look: impl FnOnce(&Process) -> R,
    _off: &IrqsOff,
) -> Option<R> {
    let (thing, bits) = REGISTER.get(pid);
    let there = !thing.is_null() && bits == 0;
    // SAFETY: the entry's weak count, which is given up a grace period after the entry, keeps the memory, and
    // the caller keeps its contents.
    there.then(|| look(unsafe { &*thing.cast::<Process>() }))
}
