//! Grace periods: memory that other CPUs may still be reading or executing is freed when each has moved on.
//!
//! *Interface*: unpublish first, then [`retire`]. The callback runs, in the context of some thread, once
//! every CPU that is online has passed a quiescent point ([`quiescent`]) since. Readers are code that
//! runs with interrupts off and never sleeps, above all generated routines; they need to do nothing.
//! An idle CPU ([`idle_enter`]) counts as quiescent for as long as it is idle. A CPU that leaves idleness
//! publishes that before it reads anything.
//!
//! A caller of `retire` is in thread context, outside every image, and so at a quiescent point itself: on one CPU the callback runs before
//! `retire` returns.
//!
//! Progress: `quiescent` is wait-free; `retire` is lock-free, and never waits for a grace period.
//!
//! Source: the dissertation frees a routine when its count reaches zero (section 3.4.2), which on one 68030 needs no
//! more; with several CPUs this is quiescent-state-based reclamation (McKenney and Slingwine, 1998).

use crate::callout;
use alloc::alloc::Layout;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// As many CPUs as can be online.
pub const MAX_CPUS: usize = 64;

const OFFLINE: u64 = u64::MAX;

#[repr(align(64))]
struct Seen(AtomicU64);

static EPOCH: AtomicU64 = AtomicU64::new(1);
static SEEN: [Seen; MAX_CPUS] = [const { Seen(AtomicU64::new(OFFLINE)) }; MAX_CPUS];
static PENDING: AtomicPtr<Retired> = AtomicPtr::new(core::ptr::null_mut());
static WAITING: AtomicUsize = AtomicUsize::new(0);

struct Retired {
    next: *mut Retired,
    epoch: u64,
    callback: fn(usize),
    argument: usize,
}

/// Notes that CPU `cpu` is at a point where it reads nothing that could have been unpublished before.
pub fn quiescent(cpu: usize) {
    SEEN[cpu]
        .0
        .store(EPOCH.load(Ordering::SeqCst), Ordering::Release);
}

/// CPU `cpu` goes idle; it counts as quiescent until [`idle_exit`].
pub fn idle_enter(cpu: usize) {
    SEEN[cpu].0.store(OFFLINE, Ordering::Release);
}

/// CPU `cpu` is about to run again (also: comes online).
pub fn idle_exit(cpu: usize) {
    SEEN[cpu]
        .0
        .store(EPOCH.load(Ordering::SeqCst), Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// How many callbacks wait for their grace period.
pub fn pending() -> usize {
    WAITING.load(Ordering::Relaxed)
}

/// Calls `callback(argument)` after a grace period. Thread context only. When there is no memory
/// for the note, waits for the grace period here instead.
pub fn retire(callback: fn(usize), argument: usize) {
    let epoch = EPOCH.fetch_add(1, Ordering::SeqCst) + 1;
    callout::without_interrupts(|| {
        let cpu = (callout::get().cpu)();
        if SEEN[cpu].0.load(Ordering::Relaxed) != OFFLINE {
            quiescent(cpu);
        }
    });
    if oldest_seen() >= epoch {
        return callback(argument);
    }
    // SAFETY: the layout has a size greater than zero.
    let node = unsafe { alloc::alloc::alloc(Layout::new::<Retired>()) }.cast::<Retired>();
    if node.is_null() {
        wait_for(epoch);
        return callback(argument);
    }
    // SAFETY: fresh memory of the right layout.
    unsafe {
        node.write(Retired {
            next: core::ptr::null_mut(),
            epoch,
            callback,
            argument,
        });
    }
    WAITING.fetch_add(1, Ordering::Relaxed);
    push(node, node);
    collect();
}

/// Runs the callbacks whose grace period is over. Thread context only; cheap when there is nothing to do.
pub fn collect() {
    if PENDING.load(Ordering::Relaxed).is_null() {
        return;
    }
    let mut chain = PENDING.swap(core::ptr::null_mut(), Ordering::AcqRel);
    let oldest = oldest_seen();
    let (mut young, mut young_last) = (core::ptr::null_mut::<Retired>(), core::ptr::null_mut());
    let mut ripe = core::ptr::null_mut::<Retired>();
    while !chain.is_null() {
        let node = chain;
        // SAFETY: the chain is ours alone since the swap.
        unsafe {
            chain = (*node).next;
            if (*node).epoch <= oldest {
                (*node).next = ripe;
                ripe = node;
            } else {
                if young.is_null() {
                    young_last = node;
                }
                (*node).next = young;
                young = node;
            }
        }
    }
    if !young.is_null() {
        push(young, young_last);
    }
    while !ripe.is_null() {
        // SAFETY: as above; the node was allocated by `retire` with this layout.
        unsafe {
            let Retired {
                next,
                callback,
                argument,
                ..
            } = ripe.read();
            alloc::alloc::dealloc(ripe.cast(), Layout::new::<Retired>());
            ripe = next;
            WAITING.fetch_sub(1, Ordering::Relaxed);
            callback(argument);
        }
    }
}

/// Waits until a grace period has passed and everything retired before the call is freed. Thread context only.
pub fn synchronize() {
    wait_for(EPOCH.fetch_add(1, Ordering::SeqCst) + 1);
    collect();
}

fn wait_for(epoch: u64) {
    let c = callout::get();
    loop {
        callout::without_interrupts(|| {
            let cpu = (c.cpu)();
            if SEEN[cpu].0.load(Ordering::Relaxed) != OFFLINE {
                quiescent(cpu);
            }
        });
        if oldest_seen() >= epoch {
            return;
        }
        (c.nudge)();
        (c.yield_now)();
    }
}

fn oldest_seen() -> u64 {
    fence(Ordering::SeqCst);
    SEEN.iter()
        .map(|seen| seen.0.load(Ordering::Acquire))
        .min()
        .unwrap_or(OFFLINE)
}

fn push(first: *mut Retired, last: *mut Retired) {
    let mut head = PENDING.load(Ordering::Relaxed);
    loop {
        // SAFETY: the chain is ours until the exchange succeeds.
        unsafe { (*last).next = head };
        match PENDING.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    static RAN: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn a_callback_waits_for_every_online_cpu() {
        idle_exit(3);
        retire(
            |argument| {
                RAN.fetch_add(argument, Ordering::SeqCst);
            },
            5,
        );
        collect();
        assert_eq!(RAN.load(Ordering::SeqCst), 0);
        assert_eq!(pending(), 1);
        quiescent(3);
        collect();
        assert_eq!(RAN.load(Ordering::SeqCst), 5);
        idle_enter(3);
        retire(
            |argument| {
                RAN.fetch_add(argument, Ordering::SeqCst);
            },
            1,
        );
        assert_eq!(RAN.load(Ordering::SeqCst), 6);
        assert_eq!(pending(), 0);
    }
}
