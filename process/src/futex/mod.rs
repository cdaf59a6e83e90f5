//! Futexes: sleeping on a word of user memory.
//!
//! *Interface*: [`FutexKey::of`] identifies a futex; [`wait`], [`wake`], [`requeue`] for plain waiters,
//! [`pi`] for locks whose owner the kernel knows, [`waitv`] for waiting on many, [`fastpath`] for calls
//! without a trap frame. [`wake_user`] and [`exchange_user`] are for the end of a thread.
//!
//! Waiters are in buckets by a hash of their key: the space and the address for private memory, the object
//! and the byte for memory that may be shared. The word is compared under the bucket's monitor, which every
//! waker takes, so no wake-up is lost. A waiter sleeps only on its thread's token, which a waker gives after
//! it has marked the waiter as woken.

pub mod fastpath;
pub mod pi;
pub(crate) mod robust;
pub mod waitv;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::*;
use machine::clock::now_ns;
use sync::{Guard, Monitor, callout};
use vm::user;

use crate::process::Task;
use crate::process::pi_state::PiState;
use crate::process::waiter::Waiter;
use crate::time::WaitEnded;
use vm::fallible::{try_arc, try_box, try_reserve_kept};

/// The identity of a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexKey {
    /// An address in a space, which is named by its page table.
    Private(u64, usize),
    /// The same, of a call for memory that may be shared and is not: it does not meet those for private
    /// memory.
    Unshared(u64, usize),
    /// A byte of an object that several have mapped.
    Shared((u64, u64), u64),
}

impl FutexKey {
    /// The key of `address` in the running program. EINVAL (unaligned), EFAULT.
    pub fn of(address: usize, private: bool) -> Result<FutexKey> {
        if !address.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        user::check(address, 4)?;
        if !private {
            // An address without a possible page has no waiters.
            user::get::<u32>(address)?;
        }
        let key = Task::with_space(|_, space| {
            let shared = if private {
                None
            } else {
                space.shared_place(address)
            };
            match shared {
                Some((object, byte)) => FutexKey::Shared(object, byte),
                None if private => FutexKey::Private(space.root(), address),
                None => FutexKey::Unshared(space.root(), address),
            }
        });
        key.ok_or(Errno::EFAULT)
    }

    fn bucket(self) -> usize {
        let word = match self {
            FutexKey::Private(root, address) | FutexKey::Unshared(root, address) => {
                root ^ address as u64
            }
            FutexKey::Shared((device, number), byte) => device ^ number.rotate_left(40) ^ byte,
        };
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BUCKETS.ilog2())) as usize % BUCKETS
    }
}

impl Waiter {
    /// The running thread, which will wait on `key` for wakers that say a bit of `bitset`. ENOMEM.
    fn new(key: FutexKey, bitset: u32, task: Option<Arc<Task>>) -> Result<Arc<Waiter>> {
        try_arc(Waiter {
            thread: (callout::get().current)(),
            bitset,
            bucket: AtomicUsize::new(key.bucket()),
            woken: AtomicBool::new(false),
            task,
            inherits: AtomicBool::new(false),
        })
    }

    /// Ends its wait. It was taken out of its bucket, or is an heir.
    fn release(&self) {
        self.woken.store(true, Ordering::SeqCst);
        (callout::get().resume)(self.thread);
    }

    fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }
}

/// How a waiter waits.
enum Role {
    /// To be woken.
    Plain,
    /// To be moved to the lock of this key.
    Moves(FutexKey),
    /// For a lock.
    Lock(PiState<Task>),
    /// It has the lock of an owner that ended, which the word does not say yet.
    Heir,
}

/// A place in a bucket.
struct Standing {
    key: FutexKey,
    role: Role,
    waiter: Arc<Waiter>,
}

type Bucket = Monitor<Vec<Standing>>;

const BUCKETS: usize = 256;
static TABLE: [Bucket; BUCKETS] = [const { Monitor::new(Vec::new()) }; BUCKETS];

/// The bucket of one key, or those of two.
struct Buckets {
    low: Guard<'static, Vec<Standing>>,
    /// With its index.
    high: Option<(usize, Guard<'static, Vec<Standing>>)>,
}

impl Buckets {
    /// Two buckets are taken in order of their index.
    fn of(keys: [FutexKey; 2]) -> Buckets {
        let [one, other] = keys.map(FutexKey::bucket);
        // Bound: the waiters of one chain, of which there are 256; a move of waiters takes two, in order.
        let low = TABLE[one.min(other)].lock();
        let high = one.max(other);
        Buckets {
            low,
            // Bound: the waiters of one chain, of which there are 256; a move of waiters takes two, in order.
            high: (one != other).then(|| (high, TABLE[high].lock())),
        }
    }

    fn at(&mut self, bucket: usize) -> &mut Vec<Standing> {
        match &mut self.high {
            Some((index, high)) if *index == bucket => high,
            _ => &mut self.low,
        }
    }
}

/// Frees the arrays of buckets without waiters, which are otherwise kept for the next waiters.
pub(crate) fn give_up_arrays() {
    for bucket in &TABLE {
        let array = match bucket.try_lock() {
            Some(mut list) if list.is_empty() => core::mem::take(&mut *list),
            _ => continue,
        };
        // With nothing held.
        drop(array);
    }
}

/// Sleeps until `woken`, a signal, or the monotonic clock's `deadline`.
fn sleep(woken: impl Fn() -> bool, deadline: Option<u64>) -> core::result::Result<(), WaitEnded> {
    let callouts = callout::get();
    let mut alarm = None;
    loop {
        if woken() {
            return Ok(());
        }
        if (callouts.interrupted)() {
            return Err(WaitEnded::Interrupted);
        }
        if let Some(at) = deadline {
            if now_ns() >= at {
                return Err(WaitEnded::TimedOut);
            }
            if alarm.is_none() {
                alarm = thread::clock::WakeUp::at(at).ok();
            }
            if alarm.is_none() {
                // No memory for an alarm: look again and again.
                (callouts.yield_now)();
                continue;
            }
        }
        (callouts.suspend)();
    }
}

/// Puts `waiter` into `list`, the bucket of `key`. False: there is no memory.
#[must_use]
fn enter(list: &mut Vec<Standing>, key: FutexKey, role: Role, waiter: &Arc<Waiter>) -> bool {
    let room = try_reserve_kept(list, 1).is_ok();
    if room {
        #[expect(clippy::disallowed_methods, reason = "room was made above")]
        list.push(Standing {
            key,
            role,
            waiter: waiter.clone(),
        });
    }
    room
}

/// Takes a waiter out of its bucket and returns its reason for waiting. `None`: it was woken.
fn withdraw(waiter: &Arc<Waiter>) -> Option<Role> {
    loop {
        let index = waiter.bucket.load(Ordering::Acquire);
        // Bound: the waiters of one chain, of which there are 256; a move of waiters takes two, in order.
        let mut list = TABLE[index].lock();
        if waiter.bucket.load(Ordering::Acquire) == index {
            if waiter.is_woken() {
                return None;
            }
            let at = (list.iter()).position(|entry| Arc::ptr_eq(&entry.waiter, waiter))?;
            return Some(list.remove(at).role);
        }
    }
}

/// Sleeps while the word is `expected`, until woken. EINVAL, EAGAIN, ETIMEDOUT, EFAULT.
pub fn wait(
    address: usize,
    private: bool,
    expected: u32,
    bitset: u32,
    deadline: Option<u64>,
) -> Result<usize> {
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    let key = FutexKey::of(address, private)?;
    let waiter = Waiter::new(key, bitset, None).map_err(|_| without_place(deadline))?;
    if bitset == FUTEX_BITSET_MATCH_ANY {
        fastpath::lend(&waiter);
    }
    begin(&waiter, key, Role::Plain, address, expected, deadline)?;
    match sleep(|| waiter.is_woken(), deadline) {
        Ok(()) => Ok(0),
        // Woken at the last moment counts: a wake-up must not be swallowed.
        Err(_) if withdraw(&waiter).is_none() => Ok(0),
        Err(WaitEnded::TimedOut) => Err(Errno::ETIMEDOUT),
        Err(WaitEnded::Interrupted) if deadline.is_none() => Err(Errno::ERESTARTSYS),
        Err(WaitEnded::Interrupted) => {
            let go_on = move || wait(address, private, expected, bitset, deadline);
            let go_on = try_box(go_on).map_err(|_| Errno::EINTR)?;
            // Bound: a few words of the thread’s own.
            *Task::current().restart.lock() = Some(go_on);
            Err(Errno::ERESTART_RESTARTBLOCK)
        }
    }
}

/// Puts `waiter` into its bucket if the word is `expected`. EAGAIN, EFAULT; without memory the result of
/// [`without_place`].
fn begin(
    waiter: &Arc<Waiter>,
    key: FutexKey,
    role: Role,
    address: usize,
    expected: u32,
    deadline: Option<u64>,
) -> Result<()> {
    // Bound: the waiters of one chain, of which there are 256; a move of waiters takes two, in order.
    let mut list = TABLE[key.bucket()].lock();
    if user::get::<u32>(address)? != expected {
        return Err(Errno::EAGAIN);
    }
    let entered = enter(&mut list, key, role, waiter);
    drop(list);
    if entered {
        Ok(())
    } else {
        Err(without_place(deadline))
    }
}

/// There is no memory for a place in the list: the caller has to look at its word again. Programs are ready
/// for that, and end themselves for any other answer.
#[cold]
fn without_place(deadline: Option<u64>) -> Errno {
    thread::yield_now();
    if deadline.is_some_and(|at| now_ns() >= at) {
        Errno::ETIMEDOUT
    } else {
        Errno::EAGAIN
    }
}

/// Wakes up to `count` waiters of `key` whose bitset meets `bitset`. EINVAL: a waiter waits for a lock.
pub fn wake(key: FutexKey, count: i32, bitset: u32) -> Result<usize> {
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    let mut left = count.max(1);
    let mut woken = 0;
    let mut plain = true;
    TABLE[key.bucket()].lock().retain(|entry| {
        let Standing { key: other, .. } = entry;
        if left == 0 || !plain || *other != key {
            return true;
        }
        plain = matches!(entry.role, Role::Plain);
        if !plain || entry.waiter.bitset & bitset == 0 {
            return true;
        }
        left -= 1;
        woken += 1;
        entry.waiter.release();
        false
    });
    if plain { Ok(woken) } else { Err(Errno::EINVAL) }
}

/// Wakes up to `count` waiters of `from` and moves up to `move_count` more to `to`. EAGAIN when the word is
/// not as expected, EINVAL.
pub fn requeue(
    from: FutexKey,
    to: FutexKey,
    count: i32,
    move_count: i32,
    expected: Option<(usize, u32)>,
) -> Result<usize> {
    if count < 0 || move_count < 0 {
        return Err(Errno::EINVAL);
    }
    let (source, target) = (from.bucket(), to.bucket());
    let mut buckets = Buckets::of([from, to]);
    if let Some((address, value)) = expected
        && user::get::<u32>(address)? != value
    {
        return Err(Errno::EAGAIN);
    }
    let (mut wakes, mut moves, mut at) = (count, move_count, 0);
    // Waiters that were moved within one bucket are behind all others.
    let mut end = buckets.at(source).len();
    while at < end && (wakes > 0 || moves > 0) {
        let entry = &buckets.at(source)[at];
        if entry.key != from {
            at += 1;
            continue;
        }
        if !matches!(entry.role, Role::Plain) {
            return Err(Errno::EINVAL);
        }
        if wakes > 0 {
            wakes -= 1;
            buckets.at(source).remove(at).waiter.release();
        } else {
            if try_reserve_kept(buckets.at(target), 1).is_err() {
                break;
            }
            moves -= 1;
            let mut entry = buckets.at(source).remove(at);
            entry.waiter.bucket.store(target, Ordering::Release);
            entry.key = to;
            #[expect(clippy::disallowed_methods, reason = "room was made above")]
            buckets.at(target).push(entry);
        }
        end -= 1;
    }
    // Both counts may have the maximum value.
    Ok(((count - wakes) + (move_count - moves)) as usize)
}

/// Compare-and-exchange on a word of the running program; returns the old value. EFAULT.
pub fn exchange_user(address: usize, expected: u32, new: u32) -> Result<u32> {
    user::check(address, 4)?;
    machine::user::compare_exchange(address, expected, new).map_err(|_| Errno::EFAULT)
}

/// Wakes a waiter on `address` of the running program, by the key of memory that may be shared.
pub(crate) fn wake_user(address: usize) {
    if fastpath::wake_at_once(address) {
        return;
    }
    if let Ok(key) = FutexKey::of(address, false) {
        // There may be no waiter.
        let _ = wake(key, 1, FUTEX_BITSET_MATCH_ANY);
    }
}
