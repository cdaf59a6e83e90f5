//! `Shelf`: ready threads that any CPU may take, and `Idlers`: the CPUs that want some.
//!
//! *Interface*: the shelf's own CPU, with interrupts off, calls [`Shelf::put`], [`Shelf::is_used`] and
//! [`Shelf::take_here`]; anybody calls [`Shelf::take`] and [`Shelf::take_this`]. An idle CPU calls
//! [`Idlers::announce`], looks at every shelf once more, and only then halts; who has put something on a
//! shelf calls [`Idlers::claim`] and interrupts the CPU that it gets.
//!
//! A thread's place on the shelf is the mark of section 5.3.1: it stands there whole, switched out and in no
//! ring, and the exchange of the place with null makes it the taker's, who alone may put it into a ring.
//! Nothing else of the shelf's CPU is touched, so it need not help, answer, or even run.
//!
//! Progress: `put` is wait-free; `take` is lock-free, a failed exchange means that another got the thread;
//! `claim` is lock-free. A place holds a thread and nothing but its address, so a thread that was taken and
//! put back meanwhile is as good as one that was not: ABA does no harm.
//! Memory order: `put` releases what the shelf's CPU wrote (the thread's registers above all), the exchange
//! acquires it. Between `put` and the look at the idle CPUs, and between `announce` and the look at the
//! shelves, stands a full fence each: one of the two sees the other (`tests/shelf_model.rs`).
//! Source: dissertation, section 5.3.1 (marking a thread by compare-and-swap before it is dispatched).

use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering, constructor, fence};
use core::ptr::null_mut;

/// One CPU's shelf of up to `N` (at most 32) things of type-stable memory.
#[repr(align(64))]
pub struct Shelf<T, const N: usize> {
    /// What stands there; null where nothing does.
    pub(crate) places: [AtomicPtr<T>; N],
    /// For each place, when it was last filled, in puts.
    pub(crate) filled: [AtomicU64; N],
    /// Puts so far. The shelf's CPU alone.
    pub(crate) puts: AtomicU64,
    /// Bit for each place that was filled and not yet seen empty. The shelf's CPU alone.
    pub(crate) used: AtomicU32,
}

impl<T, const N: usize> Shelf<T, N> {
    constructor! {
        /// An empty one.
        pub fn empty() -> Self {
            Shelf {
                places: [const { AtomicPtr::new(null_mut()) }; N],
                filled: [const { AtomicU64::new(0) }; N],
                puts: AtomicU64::new(0),
                used: AtomicU32::new(0),
            }
        }
    }

    /// Puts something there that is in no ring; false when there is no room. On the shelf's own CPU,
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

    /// Whether something may be there: false is certain. On the shelf's own CPU, interrupts off.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed) != 0
    }

    /// Whether there is no room. On the shelf's own CPU, interrupts off.
    pub fn is_full(&self) -> bool {
        self.sweep();
        self.used.load(Ordering::Relaxed).trailing_ones() as usize >= N
    }

    /// Forgets the places that others have emptied; whether any is left. On the shelf's own CPU, interrupts
    /// off.
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

    /// Takes, of those for which `rank` gives the lowest number, the one that has stood there longest. From
    /// any CPU. What `rank` looks at may be another CPU's already, so it decides about preference and nothing
    /// else.
    pub fn take(&self, rank: impl Fn(*mut T) -> Option<u8>) -> Option<*mut T> {
        self.take_among(u32::MAX >> (32 - N), rank)
    }

    /// As [`Shelf::take`], on the shelf's own CPU with interrupts off: looks only where something may be.
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
    pub fn take_this(&self, thing: *mut T) -> bool {
        let holds =
            |&place: &usize| core::ptr::eq(self.places[place].load(Ordering::Relaxed), thing);
        (0..N)
            .filter(holds)
            .any(|place| self.take_from(place, thing))
    }

    /// How many stand there, about.
    pub fn len(&self) -> usize {
        let filled = |place: &&AtomicPtr<T>| !place.load(Ordering::Relaxed).is_null();
        self.places.iter().filter(filled).count()
    }

    /// Whether nothing stands there, about.
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
pub struct Idlers(pub(crate) AtomicU32);

impl Idlers {
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

    /// After something was put on a shelf: one of them, which counts as idle no more and is to be interrupted
    /// by the caller.
    pub fn claim(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        let mut idle = self.0.load(Ordering::Relaxed);
        while idle != 0 {
            let rest = idle & (idle - 1);
            match self
                .0
                .compare_exchange_weak(idle, rest, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return Some(idle.trailing_zeros() as usize),
                Err(now) => idle = now,
            }
        }
        None
    }
}
