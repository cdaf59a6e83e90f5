//! Futexes: sleeping on a word of user memory.
//!
//! *Interface*: the calls; [`wake_user`] and [`exchange_user`] for the end of a thread.
//!
//! Waiters hang on buckets by a hash of their key: the space and the address for private memory, the physical
//! address for memory that may be shared. The word is compared under the bucket's monitor, which every waker takes, so no wake-up is lost.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use machine::clock::now_ns;
use sync::{Monitor, WaitList};
use vm::user;

use super::{Args, Handler};
use crate::memory::fallible::{try_box, try_reserve_kept};
use crate::process::access::{self, Wish};
use crate::process::{Process, Task, tree};
use crate::time::{Clock, Ended, wait_deadline};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::FUTEX, futex),
    (nr::SET_ROBUST_LIST, set_robust_list),
    (nr::GET_ROBUST_LIST, get_robust_list),
];

/// What a waiter waits on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// An address in a space, which is named by its page table.
    Private(u64, usize),
    /// A byte of an object that several have mapped.
    Shared((u64, u64), u64),
}

struct Waiter {
    bitset: u32,
    woken: AtomicBool,
    /// The bucket it is in now; a requeue changes it.
    bucket: AtomicUsize,
    list: WaitList,
}

type Bucket = Monitor<Vec<(Key, Arc<Waiter>)>>;

const BUCKETS: usize = 64;
static TABLE: [Bucket; BUCKETS] = [const { Monitor::new(Vec::new()) }; BUCKETS];

fn bucket_of(key: Key) -> usize {
    let word = match key {
        Key::Private(root, address) => root ^ address as u64,
        Key::Shared((device, number), byte) => device ^ number.rotate_left(40) ^ byte,
    };
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

/// The key of `address` in the running program. EINVAL (unaligned), EFAULT.
fn key(process: &Process, address: usize, private: bool) -> Result<Key> {
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    user::check(address, 4)?;
    let space = process.space().ok_or(Errno::EFAULT)?;
    if !private {
        // Where no page can be, nobody waits.
        user::get::<u32>(address)?;
        if let Some((object, byte)) = space.shared_place(address) {
            return Ok(Key::Shared(object, byte));
        }
    }
    Ok(Key::Private(space.root(), address))
}

fn futex(a: &mut Args) -> Result<usize> {
    let op = a.uint(1);
    let process = Process::current();
    let private = op & FUTEX_PRIVATE_FLAG != 0;
    let address = a.word(0);
    let command = op & FUTEX_CMD_MASK;
    match command {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => {
            let bitset = if command == FUTEX_WAIT {
                FUTEX_BITSET_MATCH_ANY
            } else {
                a.uint(5)
            };
            let deadline = deadline(a.word(3), command == FUTEX_WAIT, op)?;
            wait(&process, address, private, a.uint(2), bitset, deadline)
        }
        FUTEX_WAKE => wake(
            key(&process, address, private)?,
            a.int(2),
            FUTEX_BITSET_MATCH_ANY,
        ),
        FUTEX_WAKE_BITSET => wake(key(&process, address, private)?, a.int(2), a.uint(5)),
        FUTEX_REQUEUE | FUTEX_CMP_REQUEUE => {
            let from = key(&process, address, private)?;
            let to = key(&process, a.word(4), private)?;
            let expected = (command == FUTEX_CMP_REQUEUE).then_some((address, a.uint(5)));
            requeue(from, to, a.int(2), a.int(3), expected)
        }
        FUTEX_WAKE_OP => {
            let first = key(&process, address, private)?;
            let second = key(&process, a.word(4), private)?;
            let also = operate(a.word(4), a.uint(5))?;
            let woken = wake(first, a.int(2), FUTEX_BITSET_MATCH_ANY)?;
            let more = if also {
                wake(second, a.int(3), FUTEX_BITSET_MATCH_ANY)?
            } else {
                0
            };
            Ok(woken + more)
        }
        _ => Err(Errno::ENOSYS),
    }
}

fn deadline(at: usize, relative: bool, op: u32) -> Result<Option<u64>> {
    if at == 0 {
        return Ok(None);
    }
    let time = user::get::<Timespec>(at)?.to_ns().ok_or(Errno::EINVAL)?;
    Ok(Some(if relative {
        now_ns().saturating_add(time)
    } else if op & FUTEX_CLOCK_REALTIME != 0 {
        Clock::Real.deadline(time)?
    } else {
        time
    }))
}

/// Sleeps while the word is `expected`, until woken. EAGAIN, ETIMEDOUT, EFAULT.
fn wait(
    process: &Process,
    address: usize,
    private: bool,
    expected: u32,
    bitset: u32,
    deadline: Option<u64>,
) -> Result<usize> {
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    let key = key(process, address, private)?;
    let index = bucket_of(key);
    let waiter = Arc::new(Waiter {
        bitset,
        woken: AtomicBool::new(false),
        bucket: AtomicUsize::new(index),
        list: WaitList::new(),
    });
    {
        let mut bucket = TABLE[index].lock();
        if user::get::<u32>(address)? != expected {
            return Err(Errno::EAGAIN);
        }
        if try_reserve_kept(&mut bucket, 1).is_err() {
            drop(bucket);
            return Err(without_place(deadline));
        }
        #[expect(clippy::disallowed_methods, reason = "room was made above")]
        bucket.push((key, waiter.clone()));
    }
    let woken = || waiter.woken.load(Ordering::SeqCst).then_some(());
    let outcome = wait_deadline(&waiter.list, deadline, woken);
    if outcome.is_err() {
        withdraw(&waiter);
    }
    match outcome {
        // Woken at the last moment counts: a wake-up must not be swallowed.
        _ if waiter.woken.load(Ordering::SeqCst) => Ok(0),
        Ok(()) => Ok(0),
        Err(Ended::TimedOut) => Err(Errno::ETIMEDOUT),
        Err(Ended::Interrupted) if deadline.is_none() => Err(Errno::ERESTARTSYS),
        Err(Ended::Interrupted) => {
            let go_on = move || {
                let process = Process::current();
                wait(&process, address, private, expected, bitset, deadline)
            };
            let go_on = try_box(go_on).map_err(|_| Errno::EINTR)?;
            *Task::current().restart.lock() = Some(go_on);
            Err(Errno::ERESTART_RESTARTBLOCK)
        }
    }
}

/// There is no memory for a place in the list: the caller has to look at its word again. Programs are ready for that, and end themselves for any other answer.
#[cold]
fn without_place(deadline: Option<u64>) -> Errno {
    thread::yield_now();
    if deadline.is_some_and(|at| now_ns() >= at) {
        Errno::ETIMEDOUT
    } else {
        Errno::EAGAIN
    }
}

/// Takes a waiter out of whatever bucket it is in.
fn withdraw(waiter: &Arc<Waiter>) {
    loop {
        let index = waiter.bucket.load(Ordering::Acquire);
        let mut bucket = TABLE[index].lock();
        if waiter.bucket.load(Ordering::Acquire) == index {
            bucket.retain(|(_, other)| !Arc::ptr_eq(other, waiter));
            return;
        }
    }
}

fn release(waiter: &Waiter) {
    waiter.woken.store(true, Ordering::SeqCst);
    waiter.list.wake_all();
}

/// Wakes up to `count` waiters of `key` whose bitset meets `bitset`.
fn wake(key: Key, count: i32, bitset: u32) -> Result<usize> {
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    let mut left = count.max(1);
    let mut woken = 0;
    TABLE[bucket_of(key)].lock().retain(|(other, waiter)| {
        if left == 0 || *other != key || waiter.bitset & bitset == 0 {
            return true;
        }
        left -= 1;
        woken += 1;
        release(waiter);
        false
    });
    Ok(woken)
}

/// Wakes up to `count` waiters of `from` and moves up to `move_count` more to `to`. EAGAIN when the word is not as expected.
fn requeue(
    from: Key,
    to: Key,
    count: i32,
    move_count: i32,
    expected: Option<(usize, u32)>,
) -> Result<usize> {
    if count < 0 || move_count < 0 {
        return Err(Errno::EINVAL);
    }
    let (source, target) = (bucket_of(from), bucket_of(to));
    // Two buckets are taken in order of their index.
    let (mut first, mut second) = if source == target {
        (TABLE[source].lock(), None)
    } else {
        let low = TABLE[source.min(target)].lock();
        (low, Some(TABLE[source.max(target)].lock()))
    };
    if let Some((address, value)) = expected
        && user::get::<u32>(address)? != value
    {
        return Err(Errno::EAGAIN);
    }
    let (source_list, mut target_list) = match &mut second {
        Some(second) if source > target => (&mut **second, Some(&mut *first)),
        Some(second) => (&mut *first, Some(&mut **second)),
        None => (&mut *first, None),
    };
    let (mut wakes, mut moves) = (count, move_count);
    source_list.retain_mut(|(other, waiter)| {
        if *other != from {
            return true;
        }
        if wakes > 0 {
            wakes -= 1;
            release(waiter);
            return false;
        }
        if moves == 0 {
            return true;
        }
        let Some(list) = &mut target_list else {
            moves -= 1;
            *other = to;
            return true;
        };
        let has_room = try_reserve_kept(list, 1).is_ok();
        if has_room {
            moves -= 1;
            waiter.bucket.store(target, Ordering::Release);
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            list.push((to, waiter.clone()));
        }
        !has_room
    });
    // Both counts may be the largest.
    Ok(((count - wakes) + (move_count - moves)) as usize)
}

/// The operation and comparison of `FUTEX_WAKE_OP` on the word at `address`; whether the comparison held.
fn operate(address: usize, encoded: u32) -> Result<bool> {
    let sign_extended = |field: u32| ((field << 20) as i32 >> 20) as u32;
    let operand = sign_extended(encoded >> 12 & 0xfff);
    let comparand = sign_extended(encoded & 0xfff);
    let operand = if encoded >> 31 != 0 {
        1u32.wrapping_shl(operand)
    } else {
        operand
    };
    let mut old: u32 = user::get(address)?;
    loop {
        let new = match encoded >> 28 & 7 {
            0 => operand,
            1 => old.wrapping_add(operand),
            2 => old | operand,
            3 => old & !operand,
            4 => old ^ operand,
            _ => return Err(Errno::ENOSYS),
        };
        let seen = exchange_user(address, old, new)?;
        if seen == old {
            break;
        }
        old = seen;
    }
    let (old, comparand) = (old as i32, comparand as i32);
    Ok(match encoded >> 24 & 15 {
        0 => old == comparand,
        1 => old != comparand,
        2 => old < comparand,
        3 => old <= comparand,
        4 => old > comparand,
        5 => old >= comparand,
        _ => return Err(Errno::ENOSYS),
    })
}

/// Compare-and-exchange on a word of the running program; returns what was there. EFAULT.
pub(crate) fn exchange_user(address: usize, expected: u32, new: u32) -> Result<u32> {
    user::check(address, 4)?;
    machine::user::compare_exchange(address, expected, new).map_err(|_| Errno::EFAULT)
}

/// Wakes up to `count` waiters on `address` of `process`, private or shared.
pub(crate) fn wake_user(process: &Process, address: usize, count: i32) {
    for private in [true, false] {
        if let Ok(key) = key(process, address, private) {
            // Nobody may be waiting.
            let _ = wake(key, count, FUTEX_BITSET_MATCH_ANY);
        }
    }
}

fn set_robust_list(a: &mut Args) -> Result<usize> {
    if a.word(1) != size_of::<RobustListHead>() {
        return Err(Errno::EINVAL);
    }
    Task::current()
        .robust_list
        .store(a.word(0), Ordering::Relaxed);
    Ok(0)
}

fn get_robust_list(a: &mut Args) -> Result<usize> {
    let task = match a.int(0) {
        0 => Some(Task::current()),
        tid => tree::find_task(tid),
    };
    let process = match &task {
        Some(task) => task.process.clone(),
        // The first process runs no code, and a zombie none any more.
        None => tree::find(a.int(0)).ok_or(Errno::ESRCH)?,
    };
    access::may(&process, Wish::Ask)?;
    let list = task.map_or(0, |task| task.robust_list.load(Ordering::Relaxed));
    user::put(a.word(1), &(list as u64))?;
    user::put(a.word(2), &(size_of::<RobustListHead>() as u64))?;
    Ok(0)
}
