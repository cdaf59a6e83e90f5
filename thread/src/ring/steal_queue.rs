//! `StealQueue`: ready threads that any CPU may steal, and `IdleCpus`: the idle CPUs that want some.
//!
//! *Interface*: the steal queue's own CPU, with interrupts off, calls [`StealQueue::put`],
//! [`StealQueue::is_used`] and [`StealQueue::take_here`]; any CPU calls [`StealQueue::take`] and
//! [`StealQueue::take_thread`]. An idle CPU calls [`IdleCpus::announce`], searches every steal queue once
//! more, and only then halts. After putting a thread on a steal queue, a CPU calls [`IdleCpus::claim`] and
//! interrupts the CPU that it gets.
//!
//! A thread's place in the steal queue is the mark of section 5.3.1. The thread is completely switched out
//! and in no ring. The exchange of the place with null gives the thread to the taker, and only the taker may
//! put it into a ring. Nothing else of the steal queue's CPU is touched, so that CPU need not help, answer,
//! or even run.
//!
//! Progress: `put` is wait-free; `take` is lock-free: a failed exchange means that another CPU got the
//! thread; `claim` is lock-free. A place holds only a thread's address, so a thread that was taken and put
//! back meanwhile is equivalent to one that stayed: ABA does no harm. Memory order: `put` releases what the
//! steal queue's CPU wrote (the thread's registers above all), the exchange acquires it. There is a full
//! fence between `put` and the check of the idle CPUs, and between `announce` and the search of the steal
//! queues, so one of the two sees the other (`tests/steal_queue_model.rs`). Source: dissertation, section
//! 5.3.1 (marking a thread by compare-and-swap before it is dispatched).

use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering, constructor, fence};
use core::ptr::null_mut;

/// One CPU's steal queue of up to `N` (at most 32) things of type-stable memory.
#[repr(align(64))]
pub struct StealQueue<T, const N: usize> {
    /// The threads in the steal queue; null in an empty place.
    pub(crate) places: [AtomicPtr<T>; N],
    /// For each place, when it was last filled, in puts.
    pub(crate) filled: [AtomicU64; N],
    /// Puts so far. The steal queue's CPU alone.
    pub(crate) puts: AtomicU64,
    /// Bit for each place that was filled and not yet seen empty. The steal queue's CPU alone.
    pub(crate) used: AtomicU32,
}

impl<T, const N: usize> StealQueue<T, N> {
    constructor! {
        /// An empty one.
        pub fn empty() -> Self {
            StealQueue {
                places: [const { AtomicPtr::new(null_mut()) }; N],
                filled: [const { AtomicU64::new(0) }; N],
                puts: AtomicU64::new(0),
                used: AtomicU32::new(0),
            }
        }
    }

    /// Puts something there that is in no ring; false when there is no room. In the steal queue's own CPU,
    /// interrupts off.
    pub fn put(&self, thing: *mut T) -> bool {
        self.sweep();
        let used = self.used.load(Ordering::Relaxed);
        let place = (!used).trailing_zeros() as usize;
        if place >= N {
            return false;
        }
        let puts = self.puts.load(Ordering::Relaxed);
        self.puts.store(puts.wrapping_add(1), Ordering::Relaxed);
        self.filled[place].store(puts, Ordering::Relaxed);
        self.used.store(used | 1 << place, Ordering::Relaxed);
        self.places[place].store(thing, Ordering::Release);
        true
    }

    /// Whether something may be there: false is certain. In the steal queue's own CPU, interrupts off.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed) != 0
    }

    /// Whether there is no room. In the steal queue's own CPU, interrupts off.
    pub fn is_full(&self) -> bool {
        self.sweep();
        self.used.load(Ordering::Relaxed).trailing_ones() as usize >= N
    }

    /// Forgets the places that others have emptied; whether any is left. In the steal queue's own CPU,
    /// interrupts off.
    pub fn sweep(&self) -> bool {
        let mut used = self.used.load(Ordering::Relaxed);
        let mut left = used;
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.places[place].load(Ordering::Relaxed).is_null() {
                used &= !(1 << place);
            }
        }
        self.used.store(used, Ordering::Relaxed);
        used != 0
    }

    /// Takes, of the threads with the lowest `rank`, the one that has been there longest. From any CPU. A
    /// thread that `rank` reads may already belong to another CPU, so the rank may express only a preference.
    pub fn take(&self, rank: impl Fn(*mut T) -> Option<u8>) -> Option<*mut T> {
        self.take_among(u32::MAX >> (32 - N), rank)
    }

    /// As [`StealQueue::take`], in the steal queue's own CPU with interrupts off: looks only where something
    /// may be.
    pub fn take_here(&self, rank: impl Fn(*mut T) -> Option<u8>) -> Option<*mut T> {
        let taken = self.take_among(self.used.load(Ordering::Relaxed), rank);
        self.sweep();
        taken
    }

    fn take_among(&self, places: u32, rank: impl Fn(*mut T) -> Option<u8>) -> Option<*mut T> {
        loop {
            let mut left = places;
            let mut best: Option<((u8, u64), usize, *mut T)> = None;
            while left != 0 {
                let place = left.trailing_zeros() as usize;
                left &= left - 1;
                let thing = self.places[place].load(Ordering::Acquire);
                if thing.is_null() {
                    continue;
                }
                let Some(rank) = rank(thing) else { continue };
                let key = (rank, self.filled[place].load(Ordering::Relaxed));
                if best.is_none_or(|(lowest, _, _)| key < lowest) {
                    best = Some((key, place, thing));
                }
            }
            let (_, place, thing) = best?;
            if self.take_from(place, thing) {
                return Some(thing);
            }
        }
    }

    /// Takes `thing` if it is there. From any CPU.
    pub fn take_thread(&self, thing: *mut T) -> bool {
        let holds =
            |&place: &usize| core::ptr::eq(self.places[place].load(Ordering::Relaxed), thing);
        (0..N)
            .filter(holds)
            .any(|place| self.take_from(place, thing))
    }

    /// Calls `f` with what is there. It may belong to another CPU meanwhile.
    pub fn each(&self, mut f: impl FnMut(*mut T)) {
        for place in &self.places {
            let thing = place.load(Ordering::Acquire);
            if !thing.is_null() {
                f(thing);
            }
        }
    }

    /// The approximate number of threads in the steal queue.
    pub fn len(&self) -> usize {
        let filled = |place: &&AtomicPtr<T>| !place.load(Ordering::Relaxed).is_null();
        self.places.iter().filter(filled).count()
    }

    /// Whether the steal queue is empty, approximately.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take_from(&self, place: usize, thing: *mut T) -> bool {
        self.places[place]
            .compare_exchange(thing, null_mut(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// The CPUs that want work, a bit each.
pub struct IdleCpus(pub(crate) AtomicU32);

impl IdleCpus {
    /// CPU number `cpu` has found nothing. It looks once more after this, and may halt then.
    pub fn announce(&self, cpu: usize) {
        self.0.fetch_or(1 << cpu, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// It wants nothing any more.
    pub fn withdraw(&self, cpu: usize) {
        self.0.fetch_and(!(1 << cpu), Ordering::SeqCst);
    }

    /// Whether any wants work, about.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// After a thread was put in a steal queue: claims an idle CPU, one `among` those where the thread may
    /// run. It no longer counts as idle, and the caller must interrupt it.
    pub fn claim(&self, among: u32) -> Option<usize> {
        fence(Ordering::SeqCst);
        let mut idle = self.0.load(Ordering::Relaxed);
        while idle & among != 0 {
            let one = idle & among & (idle & among).wrapping_neg();
            match self.0.compare_exchange_weak(
                idle,
                idle & !one,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(one.trailing_zeros() as usize),
                Err(now) => idle = now,
            }
        }
        None
    }
}
