//! Grace periods (RCU-like): memory that other CPUs may still be reading or executing is freed when each has
//! moved on.
//!
//! *Interface*: unpublish first, then [`retire`] (in a handler [`retire_with`]). The callback runs, in the
//! context of some thread, once every CPU that is online has passed a quiescent point ([`quiescent`]) since.
//! Readers are code that runs with interrupts off and never sleeps, above all generated routines; they need
//! to do nothing. An idle CPU ([`idle_enter`]) counts as quiescent for as long as it is idle. A CPU that
//! leaves idleness publishes that before it reads anything.
//!
//! A caller of `retire` is in thread context, outside every image, and so at a quiescent point itself: on one
//! CPU the callback runs before `retire` returns.
//!
//! When a CPU comes online while another checks whether all have moved on, either its note is seen, or it
//! sees that the object was unpublished (each publishes, passes a sequentially consistent fence, and then
//! reads).
//!
//! In interrupt handlers: reading needs nothing, since a handler runs with interrupts off, so its CPU passes
//! no quiescent point under it. Retiring is [`retire_with`]: a count and one exchange, no memory, no
//! quiescent point of the running CPU (a handler is not at one: it may have interrupted anything), no
//! callback. A handler may interrupt `retire` or `collect` on its own CPU between any two steps: the chain of
//! notes changes by single exchanges, and a handler cannot reach notes that were taken off it.
//!
//! Notes wait in one chain. `retire` scans it when a certain number of notes has joined since the last scan.
//! If few of them have become ripe, it interrupts the CPUs that delay them (a sleeping CPU passes no
//! quiescent point by itself). So the work for each note is bounded, whatever others do, and so is the number
//! of waiting notes. The first waiting note is reported to the thread room (`Callouts::soon`), which ensures
//! that it does not wait for long, however idle or busy the CPUs are.
//!
//! Progress: `quiescent` is wait-free; `retire` and `retire_with` are lock-free, and never wait for a grace
//! period (`retire` does when there is no memory at all).
//!
//! Source: the dissertation frees a routine when its count reaches zero (section 3.4.2), which on one 68030
//! needs no more; with several CPUs this is quiescent-state-based reclamation (McKenney and Slingwine, 1998).

use crate::callout;
use crate::primitive::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use crate::primitive::constructor;
use alloc::alloc::Layout;

/// As many CPUs as can be online.
pub const MAX_CPUS: usize = 64;

/// So many notes more than the last look has left, and `retire` looks again.
const BATCH: usize = 32;

/// So many threads run callbacks at a time; another that would leaves them to those.
#[cfg(not(loom))]
const COLLECTORS: usize = 16;
#[cfg(loom)]
const COLLECTORS: usize = 2;

const OFFLINE: u64 = u64::MAX;

#[repr(align(64))]
struct Seen(AtomicU64);

/// A thread's turn at the chain: from before it takes the chain off until its last callback has returned.
struct Collector {
    /// Odd during a turn; a number for each turn.
    turn: AtomicU64,
    /// The thread that has the turn; 0 between turns.
    thread: AtomicUsize,
}

impl Collector {
    constructor! {
        fn new() -> Collector {
            Collector {
                turn: AtomicU64::new(0),
                thread: AtomicUsize::new(0),
            }
        }
    }

    /// The running thread, which waits for the end of the turn, lends its own turns to the thread that has
    /// it: an urgent thread that only yielded would keep the CPU from that thread.
    fn help(&self) {
        let c = callout::get();
        if !(c.donate)(self.thread.load(Ordering::Relaxed)) {
            (c.yield_now)();
        }
    }
}

/// The data of this module's functions; the kernel has one instance.
pub struct Domain<const CPUS: usize> {
    epoch: AtomicU64,
    /// One more than the highest CPU that ever came online: the others need no check.
    top: AtomicUsize,
    seen: [Seen; CPUS],
    pending: AtomicPtr<Retired>,
    waiting: AtomicUsize,
    /// With so many notes waiting the next look is due.
    due: AtomicUsize,
    collectors: [Collector; COLLECTORS],
}

#[cfg(not(loom))]
static KERNEL: Domain<MAX_CPUS> = Domain::new();

#[cfg(loom)]
loom::lazy_static! {
    static ref KERNEL: Domain<2> = Domain::new();
}

/// The work after a grace period. Put it into the object to be freed, to retire the object without memory for
/// a note.
pub struct Retired {
    next: *mut Retired,
    epoch: u64,
    callback: fn(usize),
    argument: usize,
    /// The note was allocated here.
    ours: bool,
}

impl Retired {
    /// A note that is in no use.
    pub const fn new() -> Retired {
        Retired {
            next: core::ptr::null_mut(),
            epoch: 0,
            callback: |_| {},
            argument: 0,
            ours: false,
        }
    }
}

impl Default for Retired {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the link is followed by one party at a time: the owner, or the party that took the chain.
unsafe impl Send for Retired {}
// SAFETY: nothing can be done with a shared one.
unsafe impl Sync for Retired {}

/// Notes that CPU `cpu` is at a point where it reads nothing that could have been unpublished before.
pub fn quiescent(cpu: usize) {
    KERNEL.quiescent(cpu);
}

/// For generated code: the addresses of the epoch's number and of the word of CPU `cpu`. A move from the
/// first to the second is what [`quiescent`] does.
pub fn words(cpu: usize) -> [usize; 2] {
    [
        core::ptr::from_ref(&KERNEL.epoch) as usize,
        core::ptr::from_ref(&KERNEL.seen[cpu].0) as usize,
    ]
}

/// CPU `cpu` goes idle; it counts as quiescent until [`idle_exit`].
pub fn idle_enter(cpu: usize) {
    KERNEL.idle_enter(cpu);
}

/// CPU `cpu` is about to run again (also: comes online).
pub fn idle_exit(cpu: usize) {
    KERNEL.idle_exit(cpu);
}

/// How many callbacks have not returned yet.
pub fn pending() -> usize {
    KERNEL.waiting.load(Ordering::Acquire)
}

/// Calls `callback(argument)` after a grace period. Thread context only. When there is no memory
/// for the note, waits for the grace period here instead.
pub fn retire(callback: fn(usize), argument: usize) {
    KERNEL.retire(callback, argument);
}

/// As [`retire`], with the caller's note instead of memory, from anywhere, interrupt handlers included: the
/// callback runs later in the context of a thread that retires or collects. The note is the callee's until
/// the callback is called, which may free it.
///
/// # Safety
/// The note stays where it is, and is in no other use, until the callback is called.
pub unsafe fn retire_with(note: core::ptr::NonNull<Retired>, callback: fn(usize), argument: usize) {
    // SAFETY: the caller's promise.
    unsafe { KERNEL.retire_with(note, callback, argument) };
}

/// Waits until a grace period has passed, and frees nothing: for changes that must be over, where it does not
/// matter what was retired. Thread context only.
pub fn grace() {
    // Bound: forwards; a grace period, asleep: each CPU’s next interrupt, switch or idle moment.
    KERNEL.grace();
}

/// Waits until a grace period has passed and everything retired before the call is freed, by this or other
/// threads. Thread context only. In a callback: waits only for the grace period, and frees what no other
/// thread has started to free.
pub fn synchronize() {
    // Bound: forwards; a grace period, asleep: each CPU’s next interrupt, switch or idle moment.
    KERNEL.synchronize();
}

impl<const CPUS: usize> Domain<CPUS> {
    /// A domain in which every CPU is offline.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Domain {
            epoch: AtomicU64::new(1),
            top: AtomicUsize::new(0),
            seen: [const { Seen(AtomicU64::new(OFFLINE)) }; CPUS],
            pending: AtomicPtr::new(core::ptr::null_mut()),
            waiting: AtomicUsize::new(0),
            due: AtomicUsize::new(BATCH),
            collectors: [const { Collector::new() }; COLLECTORS],
        }
    }

    /// A domain in which every CPU is offline.
    #[cfg(loom)]
    pub fn new() -> Self {
        Domain {
            epoch: AtomicU64::new(1),
            top: AtomicUsize::new(0),
            seen: core::array::from_fn(|_| Seen(AtomicU64::new(OFFLINE))),
            pending: AtomicPtr::new(core::ptr::null_mut()),
            waiting: AtomicUsize::new(0),
            due: AtomicUsize::new(BATCH),
            collectors: core::array::from_fn(|_| Collector::new()),
        }
    }

    /// As [`quiescent`].
    pub fn quiescent(&self, cpu: usize) {
        self.seen[cpu]
            .0
            .store(self.epoch.load(Ordering::SeqCst), Ordering::Release);
    }

    /// As [`idle_enter`].
    pub fn idle_enter(&self, cpu: usize) {
        self.seen[cpu].0.store(OFFLINE, Ordering::Release);
    }

    /// As [`idle_exit`].
    pub fn idle_exit(&self, cpu: usize) {
        if self.top.load(Ordering::Relaxed) <= cpu {
            self.top.fetch_max(cpu + 1, Ordering::SeqCst);
        }
        self.seen[cpu]
            .0
            .store(self.epoch.load(Ordering::SeqCst), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The running CPU is in thread context and so at a quiescent point itself.
    fn here(&self) {
        // Bound: two words of this CPU.
        callout::without_interrupts(|| {
            let cpu = (callout::get().cpu)();
            if self.seen[cpu].0.load(Ordering::Relaxed) != OFFLINE {
                self.quiescent(cpu);
            }
        });
    }

    /// As [`retire`].
    pub fn retire(&self, callback: fn(usize), argument: usize) {
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        self.here();
        if self.oldest_seen() >= epoch {
            return callback(argument);
        }
        // SAFETY: the layout has a size greater than zero.
        let node = unsafe { alloc::alloc::alloc(Layout::new::<Retired>()) }.cast::<Retired>();
        if node.is_null() {
            self.wait_for(epoch);
            return callback(argument);
        }
        // SAFETY: fresh memory of the right layout.
        unsafe {
            node.write(Retired {
                next: core::ptr::null_mut(),
                epoch,
                callback,
                argument,
                ours: true,
            });
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        self.push(node, node);
        if waiting == 1 {
            (callout::get().soon)();
        }
        // An idle thread, which frees ended threads, leaves the callbacks to threads with turns.
        if waiting >= self.due.load(Ordering::Relaxed)
            && (callout::get().has_turns)()
            && self.collect() >= BATCH
        {
            // A CPU that has passed such a point a few notes ago will do so again.
            self.nudge(epoch.saturating_sub(BATCH as u64 / 2));
        }
    }

    /// As [`retire_with`].
    ///
    /// # Safety
    /// As there.
    pub unsafe fn retire_with(
        &self,
        note: core::ptr::NonNull<Retired>,
        callback: fn(usize),
        argument: usize,
    ) {
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        // SAFETY: the note is the caller's, and now ours.
        unsafe {
            note.write(Retired {
                next: core::ptr::null_mut(),
                epoch,
                callback,
                argument,
                ours: false,
            });
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        self.push(note.as_ptr(), note.as_ptr());
        if waiting == 1 {
            (callout::get().soon)();
        }
    }

    /// Runs the callbacks whose grace period is over; returns how many of the scanned ones still wait. Thread
    /// context only. The notes taken wait for the caller, so do not call it in a thread that others may keep
    /// from running, such as an idle thread.
    pub fn collect(&self) -> usize {
        if self.pending.load(Ordering::Relaxed).is_null() || self.in_callback() {
            return 0;
        }
        self.try_collect().unwrap_or(0)
    }

    /// As [`Domain::collect`]; `None` when so many others are at it that there is no turn.
    fn try_collect(&self) -> Option<usize> {
        let (collector, turn) = self.collectors.iter().find_map(|collector| {
            let turn = collector.turn.load(Ordering::Relaxed);
            let taken = turn % 2 == 0
                && collector
                    .turn
                    .compare_exchange(turn, turn + 1, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok();
            taken.then_some((collector, turn))
        })?;
        collector
            .thread
            .store((callout::get().current)(), Ordering::Relaxed);
        let left = self.run_ripe();
        collector.thread.store(0, Ordering::Relaxed);
        collector.turn.store(turn + 2, Ordering::Release);
        Some(left)
    }

    /// Whether the running thread is in a callback.
    fn in_callback(&self) -> bool {
        let thread = (callout::get().current)();
        let mine = |collector: &Collector| collector.thread.load(Ordering::Relaxed) == thread;
        thread != 0 && self.collectors.iter().any(mine)
    }

    /// Waits until the turns that are under way have ended.
    fn wait_for_collectors(&self) {
        fence(Ordering::SeqCst);
        for collector in &self.collectors {
            let turn = collector.turn.load(Ordering::Acquire);
            while turn % 2 == 1 && collector.turn.load(Ordering::Acquire) == turn {
                collector.help();
            }
        }
    }

    /// Takes the chain off, puts the young notes back, and runs the other callbacks. Returns the number of
    /// young notes.
    fn run_ripe(&self) -> usize {
        let mut left = 0;
        let mut chain = self.pending.swap(core::ptr::null_mut(), Ordering::AcqRel);
        let oldest = self.oldest_seen();
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
                    left += 1;
                }
            }
        }
        if !young.is_null() {
            self.push(young, young_last);
        }
        self.due.store(left + BATCH, Ordering::Relaxed);
        while !ripe.is_null() {
            // SAFETY: as above; a note of ours was allocated by `retire` with this layout, another is read
            // for the last time.
            unsafe {
                let Retired {
                    next,
                    callback,
                    argument,
                    ours,
                    ..
                } = ripe.read();
                if ours {
                    alloc::alloc::dealloc(ripe.cast(), Layout::new::<Retired>());
                }
                ripe = next;
                callback(argument);
                // Not before: a thread that finds nothing waiting assumes that it is freed.
                self.waiting.fetch_sub(1, Ordering::Release);
            }
        }
        left
    }

    /// Interrupts the other CPUs that have not seen `epoch`.
    fn nudge(&self, epoch: u64) {
        let c = callout::get();
        let here = (c.cpu)();
        for (cpu, seen) in self.seen[..self.top.load(Ordering::SeqCst)]
            .iter()
            .enumerate()
        {
            if cpu != here && seen.0.load(Ordering::Relaxed) < epoch {
                (c.nudge)(cpu);
            }
        }
    }

    /// As [`grace`].
    pub fn grace(&self) {
        self.wait_for(self.epoch.fetch_add(1, Ordering::SeqCst) + 1);
    }

    /// As [`synchronize`].
    pub fn synchronize(&self) {
        self.grace();
        if self.in_callback() {
            // Its thread has a turn, which it would wait for, and so might others for each other's.
            self.run_ripe();
            return;
        }
        // A turn that began before may put back a note that it found young; a turn that begins from here on
        // finds it ripe, and runs it.
        self.wait_for_collectors();
        while self.try_collect().is_none() {
            self.collectors.iter().for_each(Collector::help);
        }
        self.wait_for_collectors();
    }

    fn wait_for(&self, epoch: u64) {
        let c = callout::get();
        loop {
            self.here();
            if self.oldest_seen() >= epoch {
                return;
            }
            self.nudge(epoch);
            (c.yield_now)();
        }
    }

    fn oldest_seen(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.seen[..self.top.load(Ordering::SeqCst)]
            .iter()
            .map(|seen| seen.0.load(Ordering::Acquire))
            .min()
            .unwrap_or(OFFLINE)
    }

    fn push(&self, first: *mut Retired, last: *mut Retired) {
        let mut head = self.pending.load(Ordering::Relaxed);
        loop {
            // SAFETY: the chain is ours until the exchange succeeds.
            unsafe { (*last).next = head };
            match self.pending.compare_exchange_weak(
                head,
                first,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

impl<const CPUS: usize> Default for Domain<CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitive::atomic::AtomicUsize;

    static RAN: AtomicUsize = AtomicUsize::new(0);

    fn collect() {
        KERNEL.here();
        KERNEL.collect();
    }

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
        // A handler retires with a note of its own; nothing runs before a thread collects.
        idle_exit(3);
        let mut note = Retired::new();
        // SAFETY: the note is used for nothing else until the callback has run, below.
        unsafe {
            retire_with(
                core::ptr::NonNull::from(&mut note),
                |argument| {
                    RAN.fetch_add(argument, Ordering::SeqCst);
                },
                10,
            );
        }
        collect();
        assert_eq!((RAN.load(Ordering::SeqCst), pending()), (6, 1));
        quiescent(3);
        collect();
        assert_eq!((RAN.load(Ordering::SeqCst), pending()), (16, 0));
        idle_enter(3);
    }
}
