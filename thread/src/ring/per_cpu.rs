//! The room's per-CPU data.
//!
//! *Interface*: [`PerCpu`]; [`here`] gives the running CPU's parts, with interrupts off; [`stats`] for
//! listings.

use crate::alarm::{AlarmHeap, Slots};
use crate::ring::chain::Chain;
use crate::ring::granularity::Granularity;
use crate::ring::ready::ReadyRing;
use crate::tte::Tte;
use crate::tte::samples::Samples;
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use machine::cpu::{Cpu, MAX_CPUS, cpus, this_cpu};
use machine::trap::TrapFrame;

/// The timer keeps no quanta: at most one thread is ready.
pub(crate) const STILL: u8 = 0;
/// The timer keeps quanta.
pub(crate) const TICKING: u8 = 1;
/// It does, and a whole quantum has passed in which threads only woke each other: the next thread that one of
/// them wakes goes to the back, behind the waiting threads.
pub(crate) const OVERDUE: u8 = 2;

/// The most times that the time to the next look at a quantum is doubled.
pub(crate) const PATIENCE: u8 = 2;

/// One CPU's scheduling state. Other CPUs write `inbox`, `run_next` and the `alarms`' cancel words, and take
/// from the ring's steal queue.
#[repr(C, align(64))]
pub(crate) struct PerCpu {
    pub ring: ReadyRing,
    /// Threads that other CPUs made ready here.
    pub inbox: AtomicPtr<Tte>,
    /// Ended threads whose stacks must be freed.
    pub zombies: AtomicPtr<Tte>,
    /// When the timer fires next, `u64::MAX` for never, nanoseconds.
    pub armed_ns: AtomicU64,
    /// No alarm and no sample is due before this time, nanoseconds; it may be too early.
    pub soonest_ns: AtomicU64,
    /// When the timer looks at a quantum next, nanoseconds.
    pub look_ns: AtomicU64,
    /// How many times over the next quantum is doubled before the timer looks, 0 to [`PATIENCE`].
    pub patience: AtomicU8,
    /// Whether the timer keeps quanta: [`STILL`], [`TICKING`] or [`OVERDUE`].
    pub ticking: AtomicU8,
    /// How many quanta make a turn.
    pub granularity: Granularity,
    /// The time since which no quantum has ended here and no thread was sent to the back, nanoseconds.
    pub turn_ns: AtomicU64,
    /// When a thread that is not urgent had a turn last, as far as the timer has seen, nanoseconds.
    pub passed_ns: AtomicU64,
    /// The timer's handler is at work: the end of the interrupt looks for what it has woken.
    pub in_timer: AtomicBool,
    /// The frame of the program that the timer has interrupted, while its handler calls alarms; null for
    /// none.
    pub program: AtomicPtr<TrapFrame>,
    /// When the timer interrupted that program, nanoseconds.
    pub interrupted_ns: AtomicU64,
    /// When this CPU compares its number of threads with the others' next, and when it gave one away or was
    /// given one, nanoseconds.
    pub level_ns: AtomicU64,
    pub gave_ns: AtomicU64,
    /// The thread that another CPU wants to run here next, and the level of its waiter; 0 for none.
    pub run_next: AtomicUsize,
    /// When the next sample is taken, nanoseconds; `u64::MAX` on an idle CPU.
    pub sample_ns: AtomicU64,
    /// Time-stamp count at the last sample.
    pub sampled_at: AtomicU64,
    /// The results of samples on this CPU.
    pub samples: Samples,
    /// Address of the CPU's word for quiescent points.
    pub seen: AtomicUsize,
    /// Threads taken from other CPUs' steal queues.
    pub stolen: AtomicU32,
    /// Procedures for the end of the interrupt.
    pub chain: Chain,
    /// Alarms that are due wait in the chain.
    pub alarms_chained: AtomicBool,
    alarms: UnsafeCell<AlarmHeap<'static>>,
}

// SAFETY: `alarms` is reached through `PerCpu::alarms` alone, which has the discipline; the rest is atomic.
unsafe impl Sync for PerCpu {}

impl PerCpu {
    /// CPU number `cpu`'s.
    const fn new(cpu: usize) -> Self {
        PerCpu {
            ring: ReadyRing::new(cpu),
            inbox: AtomicPtr::new(null_mut()),
            zombies: AtomicPtr::new(null_mut()),
            armed_ns: AtomicU64::new(u64::MAX),
            soonest_ns: AtomicU64::new(0),
            look_ns: AtomicU64::new(0),
            patience: AtomicU8::new(0),
            ticking: AtomicU8::new(STILL),
            granularity: Granularity::new(),
            turn_ns: AtomicU64::new(0),
            passed_ns: AtomicU64::new(0),
            in_timer: AtomicBool::new(false),
            program: AtomicPtr::new(null_mut()),
            interrupted_ns: AtomicU64::new(0),
            level_ns: AtomicU64::new(0),
            gave_ns: AtomicU64::new(0),
            run_next: AtomicUsize::new(0),
            sample_ns: AtomicU64::new(u64::MAX),
            sampled_at: AtomicU64::new(0),
            samples: Samples::new(),
            seen: AtomicUsize::new(0),
            stolen: AtomicU32::new(0),
            chain: Chain::new(),
            alarms_chained: AtomicBool::new(false),
            alarms: UnsafeCell::new(AlarmHeap::new(&SLOTS[cpu])),
        }
    }

    /// The alarm heap.
    ///
    /// # Safety
    /// On this CPU with interrupts off; one borrow at a time.
    #[expect(clippy::mut_from_ref, reason = "per-CPU data, see Safety")]
    pub unsafe fn alarms(&self) -> &mut AlarmHeap<'static> {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.alarms.get() }
    }
}

static SLOTS: [Slots; MAX_CPUS] = [const { Slots::new() }; MAX_CPUS];

static LOCALS: [PerCpu; MAX_CPUS] = [
    PerCpu::new(0),
    PerCpu::new(1),
    PerCpu::new(2),
    PerCpu::new(3),
    PerCpu::new(4),
    PerCpu::new(5),
    PerCpu::new(6),
    PerCpu::new(7),
];

/// The alarm slots of CPU number `cpu`, for cancelling. `None` for a number that is no CPU.
pub(crate) fn slots(cpu: usize) -> Option<&'static Slots> {
    SLOTS.get(cpu)
}

/// The state of CPU number `cpu`.
pub(crate) fn local(cpu: usize) -> &'static PerCpu {
    &LOCALS[cpu]
}

/// The running CPU, its state, and the thread that it runs. With interrupts off.
#[inline(always)]
pub(crate) fn here() -> (&'static Cpu, &'static PerCpu, &'static Tte) {
    let cpu = this_cpu();
    // SAFETY: `start_up` stored this CPU's `PerCpu` before the CPU started.
    let local = unsafe { &*(cpu.thread.load(Ordering::Relaxed) as *const PerCpu) };
    (cpu, local, running(cpu))
}

/// The thread that `cpu` runs, which is this CPU. With interrupts off.
#[inline(always)]
pub(crate) fn running(cpu: &Cpu) -> &'static Tte {
    // SAFETY: `start_up` stored this CPU's idle thread before the CPU started, and switches store their own.
    unsafe { &*(cpu.current.load(Ordering::Relaxed) as *const Tte) }
}

/// The data of one CPU in a listing.
#[derive(Clone, Copy, Debug)]
pub struct CpuStats {
    /// Ready threads, the running one and those in the steal queue included.
    pub ready: u32,
    /// Bit for each level with ready threads.
    pub populated: u32,
    /// Threads taken from other CPUs' steal queues so far.
    pub stolen: u32,
    /// Serial number of the idle thread.
    pub idle: u64,
}

/// The state of CPU number `cpu`, which is online.
pub fn stats(cpu: usize) -> CpuStats {
    let local: &PerCpu = local(cpu);
    // SAFETY: null before the CPU is up, an entry afterwards.
    let idle = unsafe { local.ring.idle.load(Ordering::Relaxed).as_ref() };
    CpuStats {
        ready: local.ring.all_ready(),
        populated: local.ring.populated.load(Ordering::Relaxed),
        stolen: local.stolen.load(Ordering::Relaxed),
        idle: idle.map_or(0, |tte| tte.serial()),
    }
}

impl Tte {
    /// Whether this is the idle thread of its processor.
    pub fn is_idle(&self) -> bool {
        self.is_kernel() && stats(self.cpu()).idle == self.serial()
    }
}

/// Threads that are ready on all CPUs, running ones included.
pub(crate) fn all_ready() -> u32 {
    let all = 0..cpus();
    all.map(|cpu| local(cpu).ring.all_ready()).sum()
}
