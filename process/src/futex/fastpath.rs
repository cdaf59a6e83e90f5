//! The futex fast path, without a trap frame: `FUTEX_WAIT` without a timeout and `FUTEX_WAKE`, both of
//! private memory, and the C library's wait for the end of a thread.
//!
//! *Interface*: [`init`] generates the routine once, [`entry`] is for dispatchers; [`lend`] for calls on the
//! general path.
//!
//! The routine checks the command and calls one of two functions here through the thread room's stub, from
//! which a thread may sleep ([`thread::frameless`]). Interrupts are off, and nothing but the sleep itself may
//! wait: a held or full bucket, a word on a missing page, and a waiter that a waker still uses lead to the
//! general call in [`super`].
//!
//! A waiter is one object for the life of its thread. It is free when no other reference to it exists: then
//! no list and no waker has it.
//!
//! Source: dissertation, section 3.3.2 (a thread that blocks has saved what it needs already).

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering, fence};

use abi::errno::Errno;
use abi::linux::{
    FUTEX_BITSET_MATCH_ANY, FUTEX_CLOCK_REALTIME, FUTEX_PRIVATE_FLAG, FUTEX_WAIT,
    FUTEX_WAIT_BITSET, FUTEX_WAKE,
};
use abi::nr;
use codegen::{Class, Draft, OutOfCode, dynasm};
use machine::irqs_off::{IrqsOff, irqs_off};
use thread::flags::INTERRUPTS;
use thread::frameless::{FramelessFn, NOT_HANDLED, call_word, sleep};
use vm::user;

use super::{FutexKey, Role, Standing, TABLE, withdraw};
use crate::process::Task;
use crate::process::waiter::Waiter;
use file::routine_env::keep;

static ENTRY: AtomicUsize = AtomicUsize::new(0);
static CLASS: Class = Class::new("procedure");

/// Longer chains are handled only with interrupts on.
const FEW: usize = 16;

/// The entry, after [`init`].
pub fn entry() -> usize {
    ENTRY.load(Ordering::Relaxed)
}

/// Generates the routine, once.
pub fn init() -> Result<(), OutOfCode> {
    let slow = machine::trap::syscall_slow();
    const WAIT: i32 = (FUTEX_WAIT | FUTEX_PRIVATE_FLAG) as i32;
    const WAKE: i32 = (FUTEX_WAKE | FUTEX_PRIVATE_FLAG) as i32;
    /// As the C library waits for the end of a thread.
    const END: i32 = (FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME) as i32;
    let [wait, wake, wait_for_end] =
        [wait as FramelessFn, wake, wait_for_end].map(|function| call_word(nr::FUTEX, function));
    let mut draft = Draft::new(&CLASS, "futex");
    let d = &mut draft;
    let [leave, waits, others] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        ; cmp esi, WAIT ; je =>waits ; cmp esi, WAKE ; jne =>others
        ; mov rax, QWORD wake
    );
    d.jmp_abs(thread::frameless::entry());
    dynasm!(d ; .arch x64
        ; =>waits ; test r10, r10 ; jnz =>leave
        ; mov rax, QWORD wait
    );
    d.jmp_abs(thread::frameless::entry());
    dynasm!(d ; .arch x64
        ; =>others ; cmp esi, END ; jne =>leave ; test r10, r10 ; jnz =>leave
        ; mov rax, QWORD wait_for_end
    );
    d.jmp_abs(thread::frameless::entry());
    dynasm!(d ; .arch x64 ; =>leave ; mov eax, nr::FUTEX as i32);
    d.jmp_abs(slow);
    ENTRY.store(keep(draft)?, Ordering::Relaxed);
    Ok(())
}

/// The running thread may use `waiter`, which is plain, for its next waits.
#[inline]
pub(super) fn lend(waiter: &Arc<Waiter>) {
    Task::here(|task| {
        if task.waiter.get().is_none() {
            // Another cannot have been faster: this is the thread itself.
            let _ = task.waiter.set(waiter.clone());
        }
    });
}

/// The key of `address` as private memory, if that can be one.
#[inline(always)]
fn key(root: u64, address: usize) -> Option<FutexKey> {
    fits(address).then_some(FutexKey::Private(root, address))
}

/// The key of `address` as memory that may be shared and is not.
#[inline(always)]
fn unshared(root: u64, address: usize) -> Option<FutexKey> {
    fits(address).then_some(FutexKey::Unshared(root, address))
}

#[inline(always)]
fn fits(address: usize) -> bool {
    address.is_multiple_of(4) && user::check(address, 4).is_ok()
}

/// 0, EAGAIN, or [`NOT_HANDLED`].
extern "sysv64" fn wait(
    address: usize,
    _command: usize,
    expected: usize,
    _until: usize,
    _other: usize,
    _bits: usize,
    mut off: IrqsOff,
) -> isize {
    Task::with_space(|task, space| {
        let key = key(space.root(), address)?;
        wait_as(task, key, address, expected as u32, &mut off)
    })
    .flatten()
    .unwrap_or(NOT_HANDLED)
}

#[inline(always)]
fn wait_as(
    task: &Task,
    key: FutexKey,
    address: usize,
    expected: u32,
    off: &mut IrqsOff,
) -> Option<isize> {
    let waiter = task.waiter.get()?;
    if Arc::strong_count(waiter) != 1 {
        return None;
    }
    // Ordered after the last waker's accesses.
    fence(Ordering::Acquire);
    let bucket = key.bucket();
    // Bound: one word of the program, if its page is there, and a place in a chain; interrupts are off.
    let mut list = TABLE[bucket].try_lock()?;
    if user::get::<u32>(address).ok()? != expected {
        return Some(Errno::EAGAIN.to_rax() as isize);
    }
    if list.len() == list.capacity() {
        return None;
    }
    waiter.bucket.store(bucket, Ordering::Relaxed);
    waiter.woken.store(false, Ordering::Relaxed);
    #[expect(clippy::disallowed_methods, reason = "there is room")]
    list.push(Standing {
        key,
        role: Role::Plain,
        waiter: waiter.clone(),
    });
    drop(list);
    let mut over = true;
    while !waiter.is_woken() {
        if task.thread.flags() & INTERRUPTS != 0 {
            // Woken at the last moment counts: a wake-up must not be swallowed.
            over = off.with_interrupts(|| withdraw(waiter).is_none());
            break;
        }
        sleep(&task.thread, off);
    }
    over.then_some(0)
}

/// For memory that may be shared, but mostly is not. As [`wait`].
extern "sysv64" fn wait_for_end(
    address: usize,
    _command: usize,
    expected: usize,
    _until: usize,
    _other: usize,
    bits: usize,
    mut off: IrqsOff,
) -> isize {
    if bits as u32 != FUTEX_BITSET_MATCH_ANY {
        return NOT_HANDLED;
    }
    Task::with_space(|task, space| {
        let key = unshared(space.root(), address)?;
        if space.is_shared_now(address)? {
            return None;
        }
        wait_as(task, key, address, expected as u32, &mut off)
    })
    .flatten()
    .unwrap_or(NOT_HANDLED)
}

/// Wakes the longest waiter on `address` of the running program, by the key for memory that may be shared, if
/// this is possible at once. False: nothing has been done.
pub(super) fn wake_at_once(address: usize) -> bool {
    // Bound: up to 16 waiters of one chain.
    irqs_off(|_off| {
        let woken = Task::with_space(|_, space| {
            let key = unshared(space.root(), address)?;
            match space.is_shared_now(address)? {
                true => None,
                false => wake_few(key, 1),
            }
        });
        woken.flatten().is_some()
    })
}

/// How many were woken, EINVAL, or [`NOT_HANDLED`].
extern "sysv64" fn wake(
    address: usize,
    _command: usize,
    count: usize,
    _more: usize,
    _other: usize,
    _bits: usize,
    _off: IrqsOff,
) -> isize {
    let wake = |root| wake_few(key(root, address)?, count as i32);
    Task::with_space(|_, space| wake(space.root()))
        .flatten()
        .unwrap_or(NOT_HANDLED)
}

#[inline(always)]
fn wake_few(key: FutexKey, count: i32) -> Option<isize> {
    // Bound: up to 16 waiters of one chain; interrupts are off.
    let mut list = TABLE[key.bucket()].try_lock()?;
    if list.len() > FEW {
        return None;
    }
    let (mut at, mut woken) = (0, 0);
    while woken < count.max(1) as isize
        && let Some(entry) = list.get(at)
    {
        if entry.key != key {
            at += 1;
        } else if matches!(entry.role, Role::Plain) {
            woken += 1;
            // This drops the last count if the thread has ended since. A plain waiter refers to no task and
            // has no destructor: only one small object is freed, for which the heap never waits.
            let waiter = match list.len() {
                all if all == at + 1 => list.pop()?.waiter,
                _ => list.remove(at).waiter,
            };
            debug_assert!(waiter.task.is_none());
            waiter.release();
        } else {
            return Some(Errno::EINVAL.to_rax() as isize);
        }
    }
    Some(woken)
}
