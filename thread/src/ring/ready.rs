//! `ReadyRing`: one CPU's run queue, rings of ready threads: eight levels, each an executable circular list.
//!
//! *Interface*: [`ReadyRing::insert`], [`ReadyRing::remove`], [`ReadyRing::is_alone`]; the running thread is
//! an argument, and stays in its ring while it runs. Called on the ring's own CPU with interrupts off,
//! nowhere else.
//!
//! A thread's `link` word holds the code address to which its `sw_out` jumps. Two invariants:
//! - in a ring, `link` is the next thread's `sw_in` (`sw_in_mm` if the next thread has another address
//!   space), or the CPU's turn routine;
//! - the *running* thread's `link` is right for this moment: the turn routine when several levels are
//!   populated, the next thread directly when one is, the idle thread when none is. (The idle thread's is
//!   right after the first insertion; before that it halts and does not switch.)
//!
//! So insertion and removal update at most three words, a switch searches nothing, and no list is walked when
//! the number of populated levels changes: when one level is left, the turn routine corrects each `link` that
//! still leads to it as it is used.
//!
//! Threads with a real-time policy are in a ring of their own, in order of urgency, and outside the turn
//! table (below): as long as there is one, all links lead to the turn routine, which runs the first. A turn
//! in which the others are to run is marked by the timer (`policy/real_time.rs`).
//!
//! A thread that has waited long is in the ring's *steal queue* instead, from where any CPU may take it
//! (`steal_queue.rs`, `balance`). A level that runs empty takes one back.
//! Source: dissertation, sections 3.3.2 (figure 3.4) and 5.3.1 (levels, and the table 0,1,0,2,0,1,0,3).

use crate::ring::steal_queue::StealQueue;
use crate::ring::{budget, idle_cpus};
use crate::tte::flags::ASLEEP;
use crate::tte::membership::Ring;
use crate::tte::{LEVELS, Tte, URGENT};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, fence};

/// Which end of its level a thread joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Next to run: a thread that was unblocked.
    Front,
    /// Last: a new thread.
    Back,
}

/// Turns in the policy table.
pub const TURNS: usize = 256;

/// The policy: 0, 1, 0, 2, 0, 1, 0, 3, …: entry `i`, counted from 1, is the number of zero bits that `i` ends
/// in.
const fn policy() -> [u8; TURNS] {
    let mut table = [LEVELS as u8 - 1; TURNS];
    let mut i = 1;
    while i < TURNS {
        let level = (i as u32).trailing_zeros() as usize;
        table[i] = if level < LEVELS { level } else { LEVELS - 1 } as u8;
        i += 1;
    }
    table
}

/// Places for levels.
pub(crate) const RINGS: usize = 16;
/// Set in `populated` while there is an urgent thread: never one bit alone, so that every link leads
/// to the turn routine.
const URGENT_BITS: u32 = 1 << URGENT | 1 << 31;
/// The levels of the table.
const USUAL: u32 = (1 << LEVELS) - 1;

/// The order of levels: the lower, the better.
pub(crate) fn order(level: u8) -> u8 {
    level.wrapping_add(1) % RINGS as u8
}

/// Threads that a steal queue has room for; more stay in their rings.
pub const SHELF: usize = 16;

/// One CPU's ready rings.
#[repr(C, align(64))]
pub struct ReadyRing {
    /// The next thread of each level except the running thread's; null for an empty level.
    /// Of the urgent ones, in order of urgency, the first, though it may be the running thread.
    pub(crate) heads: [AtomicPtr<Tte>; RINGS],
    /// Bit for each level with a thread.
    pub(crate) populated: AtomicU32,
    /// Turns already given, in units of the table.
    pub(crate) counter: AtomicU32,
    /// Distance to the next turn that could belong to a populated level.
    pub(crate) stride: AtomicU32,
    /// Ready threads, the running one included, the idle thread not.
    pub(crate) ready: AtomicU32,
    /// Entry of the CPU's turn routine.
    pub(crate) turn: AtomicUsize,
    /// The CPU's idle thread.
    pub(crate) idle: AtomicPtr<Tte>,
    pub(crate) table: [u8; TURNS],
    /// The next turn is not for urgent threads. The turn routine takes it back.
    pub(crate) pass: AtomicBool,
    /// Its threads are members of this.
    pub(crate) ring: Ring,
    /// The waiting threads that other CPUs may take.
    pub(crate) steal_queue: StealQueue<Tte, SHELF>,
}

impl ReadyRing {
    /// Empty rings of CPU number `cpu`; `turn` and `idle` are set before the first use.
    pub const fn new(cpu: usize) -> Self {
        ReadyRing {
            heads: [const { AtomicPtr::new(null_mut()) }; RINGS],
            populated: AtomicU32::new(0),
            counter: AtomicU32::new(0),
            stride: AtomicU32::new(1),
            ready: AtomicU32::new(0),
            turn: AtomicUsize::new(0),
            idle: AtomicPtr::new(null_mut()),
            table: policy(),
            pass: AtomicBool::new(false),
            ring: Ring::of_cpu(cpu),
            steal_queue: StealQueue::empty(),
        }
    }

    /// Number of ready threads, the running one included. Any CPU may ask.
    pub fn ready(&self) -> u32 {
        self.ready.load(Relaxed)
    }

    /// Those in the steal queue too, approximately. Any CPU may ask.
    pub fn all_ready(&self) -> u32 {
        self.ready() + self.steal_queue.len() as u32
    }

    /// Whether a switch from `current` would lead back to it.
    #[inline]
    pub fn is_alone(&self, current: &Tte) -> bool {
        self.ready() <= 1 && current.on_ring.is_some()
    }

    /// The thread behind `current` in its level, if it is in one.
    pub fn after(&self, current: &Tte) -> Option<&Tte> {
        if !current.on_ring.is_some() {
            return None;
        }
        // SAFETY: ring pointers lead to entries, which are never unmapped.
        unsafe { current.next.load(Relaxed).as_ref() }
    }

    /// The frequent case of [`ReadyRing::insert`] at the front: one level is populated, the running thread's
    /// and `tte`'s own. False, and nothing done, in any other case.
    #[inline(always)]
    pub fn insert_next(&self, current: &Tte, tte: &Tte) -> bool {
        let Some((level, ring)) = self.common_level(current, tte) else {
            return false;
        };
        // SAFETY: ring pointers lead to entries, which are never unmapped.
        let next = unsafe { &*current.next.load(Relaxed) };
        self.insert_between((current, tte, next), level, ring);
        true
    }

    /// The same for the back.
    #[inline(always)]
    pub fn insert_last(&self, current: &Tte, tte: &Tte) -> bool {
        let Some((level, ring)) = self.common_level(current, tte) else {
            return false;
        };
        // SAFETY: as above.
        let previous = unsafe { &*current.prev.load(Relaxed) };
        self.insert_between((previous, tte, current), level, ring);
        true
    }

    /// The running thread's level, if that is the one level that is populated, and `tte`'s own; and its ring,
    /// which is this one.
    #[inline(always)]
    fn common_level(&self, current: &Tte, tte: &Tte) -> Option<(u8, Ring)> {
        let populated = self.populated.load(Relaxed);
        let level = current.level.load(Relaxed);
        let ring = current.on_ring.ring()?;
        let common =
            populated & populated.wrapping_sub(1) == 0 && tte.wanted_level.load(Relaxed) == level;
        common.then_some((level, ring))
    }

    /// Puts `tte` between two neighbours of `level`, the one that is populated, so that links lead from
    /// thread to thread.
    #[inline(always)]
    fn insert_between(&self, (previous, tte, next): (&Tte, &Tte, &Tte), level: u8, ring: Ring) {
        tte.level.store(level, Relaxed);
        tte.on_ring.enter(ring);
        tte.next.store(next.as_ptr(), Relaxed);
        tte.prev.store(previous.as_ptr(), Relaxed);
        next.prev.store(tte.as_ptr(), Relaxed);
        previous.next.store(tte.as_ptr(), Relaxed);
        previous.link.store(entry(previous, tte), Relaxed);
        tte.link.store(entry(tte, next), Relaxed);
        self.ready
            .store(self.ready.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Puts `tte`, which is in no ring and has switch code, into its level.
    pub fn insert(&self, current: &Tte, tte: &Tte, end: End) {
        self.insert_at(current, tte, tte.wanted_level.load(Relaxed), end);
    }

    /// Lends `tte`, which is in a ring and does not run, a level until it next comes out of its ring: it is
    /// the next there.
    pub fn raise(&self, current: &Tte, tte: &Tte, level: u8) {
        self.remove(current, tte);
        self.insert_at(current, tte, level, End::Front);
    }

    #[inline]
    fn insert_at(&self, current: &Tte, tte: &Tte, level: u8, end: End) {
        if level == URGENT {
            return self.insert_urgent(current, tte);
        }
        let level = level as usize % LEVELS;
        tte.level.store(level as u8, Relaxed);
        let own_level = holds(current, level);
        let head = self.heads[level].load(Relaxed);
        let next = if own_level {
            current.next.load(Relaxed)
        } else {
            head
        };
        tte.on_ring.enter(self.ring);
        self.ready
            .store(self.ready.load(Relaxed).wrapping_add(1), Relaxed);
        if next.is_null() {
            tte.next.store(tte.as_ptr(), Relaxed);
            tte.prev.store(tte.as_ptr(), Relaxed);
            self.heads[level].store(tte.as_ptr(), Relaxed);
            self.populate(self.populated.load(Relaxed) | 1 << level);
        } else {
            let before = match end {
                End::Back if own_level => current,
                // SAFETY: ring pointers lead to entries, which are never unmapped.
                _ => unsafe { &*next },
            };
            if end == End::Front && !own_level {
                self.heads[level].store(tte.as_ptr(), Relaxed);
            }
            // SAFETY: as above.
            let previous = unsafe { &*before.prev.load(Relaxed) };
            tte.next.store(before.as_ptr(), Relaxed);
            tte.prev.store(previous.as_ptr(), Relaxed);
            previous.next.store(tte.as_ptr(), Relaxed);
            before.prev.store(tte.as_ptr(), Relaxed);
            previous.link.store(entry(previous, tte), Relaxed);
        }
        // SAFETY: as above.
        tte.link
            .store(entry(tte, unsafe { &*tte.next.load(Relaxed) }), Relaxed);
        self.mend(current);
    }

    /// Makes `tte`, which is in a ring, the one that the running thread's switch leads to, in the running
    /// thread's level: that level is lent to it until it next comes out of its ring. The running thread is in
    /// a ring too, and is another.
    pub fn hand_over(&self, current: &Tte, tte: &Tte) {
        self.remove(current, tte);
        let next = current.next.load(Relaxed);
        // SAFETY: ring pointers lead to entries, which are never unmapped.
        let next = unsafe { &*next };
        tte.level.store(current.level.load(Relaxed), Relaxed);
        tte.on_ring.enter(self.ring);
        tte.next.store(next.as_ptr(), Relaxed);
        tte.prev.store(current.as_ptr(), Relaxed);
        next.prev.store(tte.as_ptr(), Relaxed);
        current.next.store(tte.as_ptr(), Relaxed);
        self.ready
            .store(self.ready.load(Relaxed).wrapping_add(1), Relaxed);
        // With `tte` in its place, so that its link is right for the moment when it runs.
        self.mend(tte);
        current.link.store(entry(current, tte), Relaxed);
    }

    /// The frequent case of [`ReadyRing::remove`] of the running thread: others are in its level. False, and
    /// nothing done, in any other case.
    #[inline(always)]
    pub fn leave(&self, current: &Tte) -> bool {
        let next = current.next.load(Relaxed);
        let level = current.level.load(Relaxed);
        if next == current.as_ptr() || level == URGENT {
            return false;
        }
        let level = level as usize % LEVELS;
        // SAFETY: ring pointers lead to entries, which are never unmapped.
        let (previous, next) = unsafe { (&*current.prev.load(Relaxed), &*next) };
        current.on_ring.leave();
        self.ready
            .store(self.ready.load(Relaxed).wrapping_sub(1), Relaxed);
        previous.next.store(next.as_ptr(), Relaxed);
        next.prev.store(previous.as_ptr(), Relaxed);
        previous.link.store(entry(previous, next), Relaxed);
        // Its own link leads on already.
        self.heads[level].store(next.as_ptr(), Relaxed);
        true
    }

    /// Takes `tte` (the running thread or another one) out of its ring.
    #[inline(always)]
    pub fn remove(&self, current: &Tte, tte: &Tte) {
        let level = tte.level.load(Relaxed);
        if level == URGENT {
            return self.remove_urgent(current, tte);
        }
        let level = level as usize % LEVELS;
        let next = tte.next.load(Relaxed);
        tte.on_ring.leave();
        self.ready
            .store(self.ready.load(Relaxed).wrapping_sub(1), Relaxed);
        if next == tte.as_ptr() {
            self.heads[level].store(null_mut(), Relaxed);
            self.populate(self.populated.load(Relaxed) & !(1 << level));
            if self.steal_queue.is_used() {
                self.refill(current, level);
            }
        } else {
            // SAFETY: ring pointers lead to entries, which are never unmapped.
            let (previous, next) = unsafe { (&*tte.prev.load(Relaxed), &*next) };
            previous.next.store(next.as_ptr(), Relaxed);
            next.prev.store(previous.as_ptr(), Relaxed);
            previous.link.store(entry(previous, next), Relaxed);
            if current.is(tte) {
                // Its own link leads on already.
                self.heads[level].store(next.as_ptr(), Relaxed);
                return;
            }
            if self.heads[level].load(Relaxed) == tte.as_ptr() {
                self.heads[level].store(next.as_ptr(), Relaxed);
            }
        }
        self.mend(current);
    }

    /// Puts an urgent thread behind all of its urgency; one that has spent its budget among the usual ones.
    #[cold]
    #[inline(never)]
    fn insert_urgent(&self, current: &Tte, tte: &Tte) {
        /// How many are passed by, at most.
        const LOOKED: usize = 64;
        if tte.budget.is_set() && !budget::admits(tte) {
            return self.insert_at(current, tte, 0, End::Back);
        }
        tte.level.store(URGENT, Relaxed);
        tte.on_ring.enter(self.ring);
        self.ready
            .store(self.ready.load(Relaxed).wrapping_add(1), Relaxed);
        tte.link.store(self.turn.load(Relaxed), Relaxed);
        let head = &self.heads[URGENT as usize];
        let first = head.load(Relaxed);
        if first.is_null() {
            tte.next.store(tte.as_ptr(), Relaxed);
            tte.prev.store(tte.as_ptr(), Relaxed);
            head.store(tte.as_ptr(), Relaxed);
            self.populate(self.populated.load(Relaxed) | URGENT_BITS);
        } else {
            let own = tte.urgency.load(Relaxed);
            let (mut at, mut is_first) = (first, true);
            for _ in 0..LOOKED {
                // SAFETY: ring pointers lead to entries, which are never unmapped.
                let other = unsafe { &*at };
                if other.urgency.load(Relaxed) < own {
                    break;
                }
                (at, is_first) = (other.next.load(Relaxed), false);
                if at == first {
                    break;
                }
            }
            if is_first {
                head.store(tte.as_ptr(), Relaxed);
            }
            // SAFETY: as above.
            let next = unsafe { &*at };
            // SAFETY: as above.
            let previous = unsafe { &*next.prev.load(Relaxed) };
            tte.next.store(next.as_ptr(), Relaxed);
            tte.prev.store(previous.as_ptr(), Relaxed);
            previous.next.store(tte.as_ptr(), Relaxed);
            next.prev.store(tte.as_ptr(), Relaxed);
        }
        self.mend(current);
        budget::watch(self);
    }

    #[cold]
    #[inline(never)]
    fn remove_urgent(&self, current: &Tte, tte: &Tte) {
        let head = &self.heads[URGENT as usize];
        let next = tte.next.load(Relaxed);
        tte.on_ring.leave();
        self.ready
            .store(self.ready.load(Relaxed).wrapping_sub(1), Relaxed);
        if next == tte.as_ptr() {
            head.store(null_mut(), Relaxed);
            self.populate(self.populated.load(Relaxed) & !URGENT_BITS);
            if self.steal_queue.is_used() {
                self.refill(current, URGENT as usize);
            }
        } else {
            // SAFETY: ring pointers lead to entries, which are never unmapped.
            let (previous, next) = unsafe { (&*tte.prev.load(Relaxed), &*next) };
            previous.next.store(next.as_ptr(), Relaxed);
            next.prev.store(previous.as_ptr(), Relaxed);
            if head.load(Relaxed) == tte.as_ptr() {
                head.store(next.as_ptr(), Relaxed);
            }
        }
        if tte.state.load(Relaxed) & ASLEEP != 0 {
            tte.budget.sleeps();
        }
        self.mend(current);
        budget::watch(self);
    }

    /// Whether no thread but perhaps the running one is in the ring or in the steal queue, and none is
    /// urgent.
    #[inline(always)]
    pub fn is_calm(&self) -> bool {
        self.ready() < 2
            && !self.steal_queue.is_used()
            && self.heads[URGENT as usize].load(Relaxed).is_null()
    }

    /// Whether an urgent thread is to run before `current`, the running one.
    pub fn urges(&self, current: &Tte) -> bool {
        // SAFETY: null, or an entry, which is never unmapped.
        let first = unsafe { self.heads[URGENT as usize].load(Relaxed).as_ref() };
        first.is_some_and(|first| self.precedes(current, first))
    }

    /// Whether `tte`, an urgent thread, is to run before `current`, the running one.
    pub fn precedes(&self, current: &Tte, tte: &Tte) -> bool {
        !holds(current, URGENT as usize)
            || tte.urgency.load(Relaxed) > current.urgency.load(Relaxed)
    }

    /// Whether `tte`, an urgent thread that is in no ring, would be the next to run.
    pub fn is_next(&self, current: &Tte, tte: &Tte) -> bool {
        self.precedes(current, tte) && self.urgency() < tte.urgency.load(Relaxed)
    }

    /// The urgency of the first urgent thread, 0 without one. Any CPU may ask.
    pub fn urgency(&self) -> u64 {
        // SAFETY: null, or an entry, which is never unmapped.
        let first = unsafe { self.heads[URGENT as usize].load(Relaxed).as_ref() };
        first.map_or(0, |first| first.urgency.load(Relaxed))
    }

    /// Whether threads of the table's levels are in the ring.
    pub fn has_usual(&self) -> bool {
        self.populated.load(Relaxed) & USUAL != 0
    }

    /// Whether an urgent thread is ready.
    pub fn has_urgent(&self) -> bool {
        self.populated.load(Relaxed) & URGENT_BITS != 0
    }

    /// Puts an urgent thread, which is in the ring, behind those of its priority. Whether another one is the
    /// first now.
    pub fn rotate(&self, current: &Tte, tte: &Tte) -> bool {
        self.remove_urgent(current, tte);
        self.insert_urgent(current, tte);
        self.heads[URGENT as usize].load(Relaxed) != tte.as_ptr()
    }

    /// After `tte`'s switch code or address space changed: mends the link that leads to it, and its own.
    pub fn replug(&self, current: &Tte, tte: &Tte) {
        // Links of urgent threads lead to the turn routine.
        if tte.on_ring.is_some() && tte.level.load(Relaxed) != URGENT {
            // SAFETY: ring pointers lead to entries, which are never unmapped.
            let (previous, next) = unsafe { (&*tte.prev.load(Relaxed), &*tte.next.load(Relaxed)) };
            previous.link.store(entry(previous, tte), Relaxed);
            if !current.is(tte) {
                tte.link.store(entry(tte, next), Relaxed);
            }
        }
        self.mend(current);
    }

    /// Makes the running thread's link right for this moment.
    #[inline]
    pub fn mend(&self, current: &Tte) {
        let populated = self.populated.load(Relaxed);
        let link = if populated & populated.wrapping_sub(1) != 0 {
            self.turn.load(Relaxed)
        } else {
            let next = if current.on_ring.is_some() {
                current.next.load(Relaxed)
            } else if populated != 0 {
                self.heads[populated.trailing_zeros() as usize % LEVELS].load(Relaxed)
            } else {
                self.idle.load(Relaxed)
            };
            // SAFETY: heads of populated levels, ring pointers and `idle` lead to entries.
            entry(current, unsafe { &*next })
        };
        current.link.store(link, Relaxed);
    }

    /// A ready thread that others may have: not urgent, not running, not pinned, `waited` long, and the
    /// longest in line of the most patient level. The next in line of each level stays unless `all` may go.
    pub fn spare(
        &self,
        current: &Tte,
        all: bool,
        waited: impl Fn(&Tte) -> bool,
    ) -> Option<&'static Tte> {
        /// How far a line is looked along.
        const LOOKED: usize = 8;
        let mut populated = self.populated.load(Relaxed) & USUAL;
        while populated != 0 {
            let level = (31 - populated.leading_zeros()) as usize;
            populated &= !(1 << level);
            // The line ends where it began, or with the running thread.
            let own_level = holds(current, level);
            let (first, end) = if own_level {
                (current.next.load(Relaxed), current.as_ptr())
            } else {
                let head = self.heads[level].load(Relaxed);
                (head, head)
            };
            let mut at = first;
            for place in 0..LOOKED {
                if core::ptr::eq(at, end) && (own_level || place > 0) {
                    break;
                }
                // SAFETY: ring pointers lead to entries, which are never unmapped.
                let tte = unsafe { &*at };
                if (all || place > 0) && !tte.pinned.load(Relaxed) && waited(tte) {
                    return Some(tte);
                }
                at = tte.next.load(Relaxed);
            }
        }
        None
    }

    /// An urgent thread that waits, and that others may have. The next in line stays unless `all` may go.
    pub fn spare_urgent(&self, current: &Tte, all: bool) -> Option<&'static Tte> {
        let first = self.heads[URGENT as usize].load(Relaxed);
        // SAFETY: ring pointers lead to entries, which are never unmapped.
        let entry = |at: *mut Tte| unsafe { at.as_ref() };
        let second = entry(first)?.next.load(Relaxed);
        [second, first].into_iter().filter_map(entry).find(|tte| {
            let may_go = all || second != first;
            may_go && !tte.is(current) && !tte.pinned.load(Relaxed) && tte.is_urgent()
        })
    }

    /// Takes back from the steal queue the thread that has been there longest, of any level, to the end of
    /// its level's line: at the front it would repeatedly pass threads that have never left the ring. False
    /// when the steal queue was empty.
    pub fn take_back(&self, current: &Tte) -> bool {
        self.join(current, self.steal_queue.take_here(|_| Some(0)), End::Back)
    }

    /// Puts a thread that the caller has taken from a steal queue, if it has, into its level.
    pub fn join(&self, current: &Tte, taken: Option<*mut Tte>, end: End) -> bool {
        let Some(tte) = taken else { return false };
        // SAFETY: steal queues hold entries, which are never unmapped.
        self.insert(current, unsafe { &*tte }, end);
        // A party that marks the thread after this sees its CPU; an earlier mark is seen by the thread.
        fence(SeqCst);
        true
    }

    /// `level` has run empty while there may be threads in the steal queue: one of that level takes its
    /// place, or any thread when all levels are empty.
    #[cold]
    #[inline(never)]
    fn refill(&self, current: &Tte, level: usize) {
        // SAFETY: the steal queue holds entries, which are never unmapped.
        let its = |tte: *mut Tte| unsafe { (*tte).wanted_level.load(Relaxed) as usize == level };
        let taken = self.steal_queue.take_here(|tte| its(tte).then_some(0));
        if !self.join(current, taken, End::Back) && self.populated.load(Relaxed) == 0 {
            self.join(current, self.steal_queue.take_here(rank), End::Back);
        }
        idle_cpus::left(self);
    }

    #[inline(never)]
    fn populate(&self, populated: u32) {
        let stride = match populated & USUAL {
            0 => 1,
            usual => usual & usual.wrapping_neg(),
        };
        self.populated.store(populated, Relaxed);
        self.stride.store(stride, Relaxed);
        // The lowest populated level's turns are the odd multiples of the stride.
        self.counter
            .store(self.counter.load(Relaxed) & !(stride - 1), Relaxed);
    }
}

/// How urgent a thread in a steal queue is: its level's place.
pub(crate) fn rank(tte: *mut Tte) -> Option<u8> {
    // SAFETY: steal queues hold entries, which are never unmapped.
    Some(order(unsafe { (*tte).wanted_level.load(Relaxed) }))
}

/// The target of `from`'s `sw_out` that makes `to` run.
#[inline]
fn entry(from: &Tte, to: &Tte) -> usize {
    if from.root.load(Relaxed) == to.root.load(Relaxed) {
        to.sw_in.load(Relaxed)
    } else {
        to.sw_in_mm.load(Relaxed)
    }
}

#[inline]
fn holds(current: &Tte, level: usize) -> bool {
    current.on_ring.is_some() && current.level.load(Relaxed) as usize == level
}

#[cfg(test)]
#[path = "ready_tests.rs"]
mod tests;
