//! `Tte`: the thread table entry, in type-stable memory, counted.
//!
//! *Interface*: [`Thread`] is a counted handle of a [`Tte`]; [`current`] the running thread; [`for_each`]
//! visits every thread that has not ended.
//!
//! An entry's memory never becomes anything else: entries come from an inactive list and go back to it, so a
//! stale address (in a wait list, an alarm) reaches a thread, at worst another thread, which gets an extra
//! token. The words that generated code touches come first; their offsets are computed, never typed in.
//! Progress: taking and returning an entry are lock-free; `for_each` is wait-free except for its closure.
//! Source: dissertation, sections 3.3.2 (figure 3.4), 4.3 and 5.3.1.

pub(crate) mod budget;
pub(crate) mod code;
pub(crate) mod cpu_time;
pub(crate) mod debug_registers;
pub mod flags;
pub(crate) mod fpu_save_area;
mod inactive;
pub(crate) mod interrupted;
pub(crate) mod job;
pub(crate) mod load;
pub mod membership;
pub(crate) mod resources;
pub(crate) mod rseq;
pub(crate) mod samples;
pub mod signal;
pub mod token;

use crate::tte::budget::{Budget, Terms};
use crate::tte::code::{Dispatcher, SwitchKind};
use crate::tte::cpu_time::used;
use crate::tte::debug_registers::DebugRegisters;
use crate::tte::load::SavedLoad;
use crate::tte::membership::Membership;
use crate::tte::resources::Resources;
use crate::tte::samples::Samples;
use crate::tte::signal::Signals;
use core::cell::UnsafeCell;
use core::ops::Deref;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use machine::clock::{span_ns, tsc};
use machine::cpu::{StackBase, cpus};
use sync::Monitor;
use sync::stack::Node;

/// Longest name of a thread, in bytes.
pub const NAME_LEN: usize = 16;
/// Number of scheduling levels; level 0 gets every second turn.
pub const LEVELS: usize = 8;
/// The level of threads with a real-time policy, beyond those of the table: while it has a thread, the turn
/// routine gives the others no turn.
pub const URGENT: u8 = 15;
/// The CPUs of a thread that may run anywhere.
pub(crate) const ANYWHERE: u32 = u32::MAX;
/// The channels of a thread of which it is not known.
pub(crate) const UNKNOWN: u32 = u32::MAX;
/// Bits of a handle that say where in the table the entry is.
const INDEX_BITS: u32 = 14;
/// A new thread's quantum, nanoseconds.
pub const QUANTUM_NS: u64 = 400_000;

/// The data part of the thread quaject.
#[repr(C, align(64))]
pub struct Tte {
    // The words for a switch, in one cache line. The target of `sw_out`: the next thread's `sw_in` or
    // `sw_in_mm`, or the CPU's turn routine.
    pub(crate) link: AtomicUsize,
    /// Stack pointer while switched out.
    pub(crate) rsp: AtomicU64,
    /// Time-stamp counts run so far; while the thread runs, minus the count at its switch-in.
    pub(crate) time: AtomicU64,
    /// Time-stamp count at the last switch-in.
    pub(crate) in_at: AtomicU64,
    /// Base of the user's FS segment, while the thread does not run.
    pub(crate) fs_base: AtomicU64,
    /// Entry of the thread's dispatcher.
    pub(crate) dispatch: AtomicUsize,
    /// Physical address of the page-table root.
    pub(crate) root: AtomicU64,
    /// Entry of the thread's `sw_out`.
    pub(crate) sw_out: AtomicUsize,
    /// Base of the user's GS segment, while the thread does not run.
    pub(crate) gs_base: AtomicU64,

    // The words for the ring and the state protocol.
    pub(crate) sw_in: AtomicUsize,
    pub(crate) sw_in_mm: AtomicUsize,
    /// The dispatcher's target for a `sched_yield`.
    pub(crate) yielding: AtomicUsize,
    pub(crate) state: AtomicU32,
    pub(crate) level: AtomicU8,
    pub(crate) on_ring: Membership,
    pub(crate) next: AtomicPtr<Tte>,
    pub(crate) prev: AtomicPtr<Tte>,
    /// Number of the CPU whose ring the thread belongs to; changed by [`Tte::move_to`].
    pub(crate) cpu: AtomicU32,
    pub(crate) pinned: AtomicBool,
    /// The CPUs on which it may run, a bit each (`policy/affinity.rs`).
    pub(crate) allowed: AtomicU32,
    /// [`SwitchKind`] of its switch code, as bits.
    pub(crate) kind: AtomicU8,
    pub(crate) wanted_level: AtomicU8,
    /// Whether an urgent thread takes turns with those of its urgency.
    pub(crate) takes_turns: AtomicBool,
    /// It was given another level or priority, and has not gone there yet.
    pub(crate) is_raised: AtomicBool,
    /// Chain of threads on their way to another CPU.
    pub(crate) inbox_next: AtomicPtr<Tte>,
    /// The CPU to which a waker wants to move it, plus one; 0 for none. Written by the waker, read by its
    /// home CPU.
    pub(crate) invited: AtomicU8,

    /// The CPU where it is better off, plus one; 0 for none (`policy/affinity.rs`).
    pub(crate) wish: AtomicU8,

    /// Where the dispatcher starts a `read` again.
    pub(crate) read_again: AtomicUsize,

    /// How urgent a thread with a real-time policy is: its priority, 1 to 99, or with a budget the complement
    /// of its deadline.
    pub(crate) urgency: AtomicU64,
    /// Its promise of time in each period.
    pub(crate) budget: Budget,

    // Words that only the thread itself, its creator and the thread that frees it touch.
    /// Bits of [`crate::speculation::SpeculationControl`], with [`SwitchKind::ASKED`].
    pub(crate) speculation: AtomicU32,
    /// The mark that it gets when it is interrupted: `flags::SEQUENCE` if it has restartable sequences, else
    /// none.
    pub(crate) sequences: AtomicU32,
    /// Its debug registers.
    pub(crate) watched: DebugRegisters,
    /// Length of its turns.
    pub(crate) quantum_ns: AtomicU64,
    /// The same while its channels show no need.
    pub(crate) own_ns: AtomicU64,
    /// A quantum of which no more than an eighth is left, in counts of the time-stamp counter, times
    /// [`WHOLE`](feedback::granularity::WHOLE); out of reach for a thread with channels, whose quanta are not
    /// for the timer's handler alone.
    pub(crate) used_up: AtomicU64,
    /// When a turn is looked at first, from its beginning.
    pub(crate) look_ns: AtomicU64,
    /// The same in the timer's ticks; 0 until it is first set.
    pub(crate) look_timer: AtomicU32,
    /// Channels that it moves data through, or that this is not known (`demand.rs`).
    pub(crate) channels: AtomicU32,
    /// Whether it is to answer for them before it is in user mode again.
    pub(crate) is_asked: AtomicBool,
    /// Its settled share ([`feedback::QuantumLoop`]).
    pub(crate) share: AtomicU32,
    /// When it last looked for its channels.
    pub(crate) channels_ns: AtomicU64,
    /// Address of its area for restartable sequences; 0 without.
    pub(crate) sequence_area: AtomicUsize,
    /// Address of the stack base, the end of the kernel stack.
    pub(crate) stack_top: AtomicUsize,
    pub(crate) events: AtomicU64,
    pub(crate) awaited: AtomicU64,
    pub(crate) owner: AtomicUsize,
    pub(crate) switches: AtomicU64,
    /// Those of them in which it would have gone on.
    pub(crate) preempted: AtomicU64,
    /// Further ones: ends of its quantum that the timer's own code has counted.
    pub(crate) quanta: AtomicU64,
    /// The results of samples. Only its CPU writes them.
    pub(crate) samples: Samples,
    pub(crate) nice: AtomicBool,
    /// Its part of a CPU, while others on other CPUs wake it.
    pub(crate) load: SavedLoad,
    pub(crate) count: AtomicU32,
    node: Node,
    serial: AtomicU64,
    /// The entry's place in the table, for ever.
    index: AtomicU32,
    /// Whether the thread ends when its first procedure returns.
    pub(crate) ends: AtomicBool,
    /// Calls until the thread gives up the dispatcher that it began with; 0: it has.
    pub(crate) beginning: AtomicU8,
    tag: AtomicU64,
    name: [AtomicU64; NAME_LEN / 8],
    pub(crate) signals: Signals,
    pub(crate) dispatcher: Monitor<Option<Dispatcher>>,
    parts: UnsafeCell<Resources>,
}

// SAFETY: every shared field is atomic; `parts` has the discipline stated on `Resources`.
unsafe impl Sync for Tte {}
// SAFETY: as above.
unsafe impl Send for Tte {}

impl Tte {
    fn new() -> Self {
        Tte {
            link: AtomicUsize::new(0),
            rsp: AtomicU64::new(0),
            time: AtomicU64::new(0),
            in_at: AtomicU64::new(0),
            fs_base: AtomicU64::new(0),
            dispatch: AtomicUsize::new(0),
            sw_in: AtomicUsize::new(0),
            sw_in_mm: AtomicUsize::new(0),
            yielding: AtomicUsize::new(0),
            sw_out: AtomicUsize::new(0),
            gs_base: AtomicU64::new(0),
            state: AtomicU32::new(flags::DEAD),
            level: AtomicU8::new(0),
            on_ring: Membership::none(),
            next: AtomicPtr::new(null_mut()),
            prev: AtomicPtr::new(null_mut()),
            root: AtomicU64::new(0),
            cpu: AtomicU32::new(0),
            pinned: AtomicBool::new(false),
            allowed: AtomicU32::new(ANYWHERE),
            kind: AtomicU8::new(0),
            wanted_level: AtomicU8::new(0),
            urgency: AtomicU64::new(0),
            budget: Budget::new(),
            takes_turns: AtomicBool::new(false),
            is_raised: AtomicBool::new(false),
            inbox_next: AtomicPtr::new(null_mut()),
            invited: AtomicU8::new(0),
            wish: AtomicU8::new(0),
            read_again: AtomicUsize::new(0),
            speculation: AtomicU32::new(0),
            sequences: AtomicU32::new(0),
            watched: DebugRegisters::new(),
            quantum_ns: AtomicU64::new(QUANTUM_NS),
            own_ns: AtomicU64::new(QUANTUM_NS),
            used_up: AtomicU64::new(0),
            look_ns: AtomicU64::new(QUANTUM_NS),
            look_timer: AtomicU32::new(0),
            channels: AtomicU32::new(0),
            is_asked: AtomicBool::new(false),
            share: AtomicU32::new(0),
            channels_ns: AtomicU64::new(0),
            sequence_area: AtomicUsize::new(0),
            stack_top: AtomicUsize::new(0),
            events: AtomicU64::new(0),
            awaited: AtomicU64::new(0),
            owner: AtomicUsize::new(0),
            switches: AtomicU64::new(0),
            preempted: AtomicU64::new(0),
            quanta: AtomicU64::new(0),
            samples: Samples::new(),
            nice: AtomicBool::new(false),
            load: SavedLoad::new(),
            count: AtomicU32::new(0),
            node: Node::new(),
            serial: AtomicU64::new(0),
            index: AtomicU32::new(0),
            ends: AtomicBool::new(false),
            beginning: AtomicU8::new(0),
            tag: AtomicU64::new(0),
            name: [const { AtomicU64::new(0) }; NAME_LEN / 8],
            signals: Signals::new(),
            dispatcher: Monitor::new(None),
            parts: UnsafeCell::new(Resources::none()),
        }
    }

    /// A counted handle to this thread. The caller got `self` from a handle, or is this thread.
    pub fn handle(&self) -> Thread {
        self.count.fetch_add(1, Ordering::Relaxed);
        Thread(NonNull::from(self))
    }

    /// The count that a started thread has of itself. For its undertaker, once.
    pub(crate) fn own_count(&self) -> Thread {
        Thread(NonNull::from(self))
    }

    /// The address, as the `sync` callouts and alarms carry it.
    pub fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// The state word; bits in [`crate::flags`].
    pub fn flags(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// A number that no other thread ever had.
    pub fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// The number by which programs name the thread: its serial number, and its place in the table so that
    /// [`by_handle`] looks at one entry.
    pub fn handle_number(&self) -> u64 {
        self.serial() << INDEX_BITS | u64::from(self.index.load(Ordering::Relaxed))
    }

    /// The number of its entry in the table, by which [`for_each`] goes.
    pub fn index(&self) -> u32 {
        self.index.load(Ordering::Relaxed)
    }

    /// A word that the room above gives threads, 0 for none. Threads with the same upper half may use every
    /// operation on each other.
    pub fn tag(&self) -> u64 {
        self.tag.load(Ordering::Acquire)
    }

    /// Sets the tag.
    pub fn set_tag(&self, tag: u64) {
        self.tag.store(tag, Ordering::Release);
    }

    /// The thread ends when the procedure that it begins with returns to `PROTECTED_RETURN`. Before `start`.
    pub fn end_with_procedure(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Level in the ready rings, 0 to 7, or [`URGENT`].
    pub fn level(&self) -> u8 {
        self.wanted_level.load(Ordering::Relaxed)
    }

    /// Number of the CPU whose ring the thread belongs to.
    pub fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed) as usize
    }

    /// Quantum, nanoseconds.
    pub fn quantum_ns(&self) -> u64 {
        self.quantum_ns.load(Ordering::Relaxed)
    }

    /// The word that the room above keeps here (its own thread record).
    #[inline]
    pub fn owner(&self) -> usize {
        self.owner.load(Ordering::Acquire)
    }

    /// Sets the owner word.
    pub fn set_owner(&self, owner: usize) {
        self.owner.store(owner, Ordering::Release);
    }

    /// Whether the thread never enters user mode.
    pub fn is_kernel(&self) -> bool {
        !self.kind().contains(SwitchKind::USER)
    }

    /// The entry of the thread's signal table for `number`.
    pub fn procedure(&self, number: usize) -> Option<crate::tte::signal::Procedure> {
        self.signals.get(number)
    }

    /// Whether the thread's switch code carries vector registers.
    pub fn uses_fp(&self) -> bool {
        self.kind().contains(SwitchKind::FP)
    }

    pub(crate) fn kind(&self) -> SwitchKind {
        SwitchKind::from_bits(self.kind.load(Ordering::Relaxed))
    }

    /// Makes CPU number `cpu` the thread's home. The caller alone may put the thread into a ring, and it is
    /// switched out, on a stack that it has.
    pub(crate) fn move_to(&self, cpu: usize) {
        let former = self.cpu();
        if former != cpu {
            // Its registers are in its save area; that CPU's copy will be out of date when the thread comes
            // back. Only that CPU itself makes a thread the owner, so either this store or the CPU's own is
            // right.
            let _ = machine::cpu::cpu(former).fp_owner.compare_exchange(
                self.address(),
                0,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            self.cpu.store(cpu as u32, Ordering::Relaxed);
            self.note_rseq();
            self.is_in_place();
        }
        // SAFETY: the stack that the thread was made with ends in its base, and stays as long as the thread.
        let base = unsafe { &*(self.stack_top() as *const StackBase) };
        base.cpu.store(
            core::ptr::from_ref(machine::cpu::cpu(cpu)).cast_mut(),
            Ordering::Relaxed,
        );
    }

    /// Whether the thread has a real-time policy.
    pub fn is_urgent(&self) -> bool {
        self.wanted_level.load(Ordering::Relaxed) == URGENT
    }

    /// Whether the thread may run on CPU number `cpu`.
    #[inline]
    pub(crate) fn may_run_on(&self, cpu: usize) -> bool {
        self.allowed.load(Ordering::Relaxed) >> cpu & 1 != 0
    }

    /// Whether there is another CPU than `cpu` for it.
    pub(crate) fn may_leave(&self, cpu: usize) -> bool {
        let others = ((1 << cpus()) - 1) & !(1 << cpu);
        self.allowed.load(Ordering::Relaxed) & others != 0
    }

    /// Whether the thread is on a CPU on which it may run; it is marked otherwise. After a change of either:
    /// of two that change both at once, the later one sees the thread's new place.
    pub(crate) fn is_in_place(&self) -> bool {
        fence(Ordering::SeqCst);
        let right = self.may_run_on(self.cpu());
        if !right {
            self.state.fetch_or(flags::SEQUENCE, Ordering::AcqRel);
        }
        right
    }

    /// The running thread, which this is, has restartable sequences from now on, named in the program's
    /// memory at `area`, and is to look before it is in user mode again.
    pub fn enable_rseq(&self, area: usize) {
        self.sequence_area.store(area, Ordering::Relaxed);
        self.sequences.store(flags::SEQUENCE, Ordering::Relaxed);
        self.note_rseq();
    }

    /// It has none any more.
    pub fn disable_rseq(&self) {
        self.sequence_area.store(0, Ordering::Relaxed);
        self.sequences.store(0, Ordering::Relaxed);
        self.take_rseq();
    }

    /// So has `child`, which has not started.
    pub fn inherit_rseq(&self, child: &Tte) {
        let area = self.sequence_area.load(Ordering::Relaxed);
        child.sequence_area.store(area, Ordering::Relaxed);
        child
            .sequences
            .store(self.sequences.load(Ordering::Relaxed), Ordering::Relaxed);
        child.note_rseq();
    }

    /// If it has some, it is to look before it is in user mode again.
    #[inline(always)]
    pub fn note_rseq(&self) {
        rseq::note(&self.sequences, &self.state);
    }

    /// The running thread is about to look.
    pub fn take_rseq(&self) {
        rseq::take(&self.state);
    }

    /// Whether the thread still has the dispatcher that it began with, which answers nothing itself and uses
    /// no table.
    pub fn is_beginning(&self) -> bool {
        self.beginning.load(Ordering::Acquire) != 0
    }

    /// End of the kernel stack: the address of its stack base.
    pub fn stack_top(&self) -> usize {
        self.stack_top.load(Ordering::Relaxed)
    }

    /// CPU time so far, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        span_ns(self.ran())
    }

    /// CPU time so far, in counts of the time-stamp counter.
    pub(crate) fn ran(&self) -> u64 {
        used(|| self.time.load(Ordering::Relaxed), tsc)
    }

    /// How often the thread has blocked or been preempted by Rust code.
    pub fn switches(&self) -> u64 {
        self.switches.load(Ordering::Relaxed) + self.quanta.load(Ordering::Relaxed)
    }

    /// How many of these it did not ask for, or asked for by giving way.
    pub fn preempted(&self) -> u64 {
        self.preempted.load(Ordering::Relaxed) + self.quanta.load(Ordering::Relaxed)
    }

    /// Copies the name into `buffer`; returns it without the padding.
    pub fn name<'a>(&self, buffer: &'a mut [u8; NAME_LEN]) -> &'a str {
        for (bytes, word) in buffer.chunks_exact_mut(8).zip(&self.name) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        let len = buffer.iter().position(|b| *b == 0).unwrap_or(NAME_LEN);
        match core::str::from_utf8(&buffer[..len]) {
            Ok(name) => name,
            Err(error) => core::str::from_utf8(&buffer[..error.valid_up_to()]).unwrap_or(""),
        }
    }

    /// Sets the name, cut to 15 bytes.
    pub fn set_name(&self, name: &[u8]) {
        let mut padded = [0u8; NAME_LEN];
        let len = name.len().min(NAME_LEN - 1);
        padded[..len].copy_from_slice(&name[..len]);
        for (bytes, word) in padded.chunks_exact(8).zip(&self.name) {
            let mut value = [0; 8];
            value.copy_from_slice(bytes);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
    }

    /// Takes the name that `other` has.
    pub(crate) fn take_name(&self, other: &Tte) {
        for (word, theirs) in self.name.iter().zip(&other.name) {
            word.store(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Whether two references mean the same thread.
    #[inline]
    pub(crate) fn is(&self, other: &Tte) -> bool {
        core::ptr::eq(self, other)
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut Tte {
        core::ptr::from_ref(self).cast_mut()
    }

    /// The thread's own parts.
    ///
    /// # Safety
    /// The caller is this thread with interrupts off, or has it alone (see [`Resources`]).
    #[expect(clippy::mut_from_ref, reason = "the discipline is on Parts")]
    pub(crate) unsafe fn parts(&self) -> &mut Resources {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.parts.get() }
    }
}

/// A counted handle of a thread. The entry stays this thread's for as long as there is one.
pub struct Thread(NonNull<Tte>);

// SAFETY: `Tte` is Sync and Send, and the count is atomic.
unsafe impl Send for Thread {}
// SAFETY: as above.
unsafe impl Sync for Thread {}

impl Deref for Thread {
    type Target = Tte;
    fn deref(&self) -> &Tte {
        // SAFETY: entries are never unmapped, and the count keeps this one.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Thread {
    fn clone(&self) -> Self {
        self.handle()
    }
}

impl Thread {
    /// Gives up the count of a thread that owns nothing any more; what is left if it was the last.
    #[inline]
    pub(crate) fn give_up(self) -> Option<FreeEntry> {
        let thread = core::mem::ManuallyDrop::new(self);
        // Not `then_some`: remains that are made and dropped would go to the inactive list.
        (thread.count.fetch_sub(1, Ordering::AcqRel) == 1).then(|| FreeEntry(thread.0))
    }
}

/// An entry that no party has and that is not in the inactive list, where it goes when this is dropped.
#[must_use]
pub(crate) struct FreeEntry(NonNull<Tte>);

impl FreeEntry {
    /// It becomes a thread again: as [`activate`].
    #[inline]
    pub(crate) fn again(self) -> Thread {
        let remains = core::mem::ManuallyDrop::new(self);
        // SAFETY: entries are never unmapped.
        let tte = unsafe { remains.0.as_ref() };
        tte.promise_nothing();
        // SAFETY: no party has it.
        unsafe { tte.parts() }.wait();
        renew(tte)
    }
}

impl Drop for FreeEntry {
    fn drop(&mut self) {
        // SAFETY: entries are never unmapped.
        inactive::put(unsafe { self.0.as_ref() });
    }
}

impl Thread {
    /// The end of the last handle.
    #[inline(never)]
    fn retire(&self) {
        // Only a thread that never started has any left.
        // SAFETY: the last count is gone, so no other party can reach it.
        unsafe { resources::dismantle(self) };
        // SAFETY: entries are never unmapped.
        inactive::put(unsafe { self.0.as_ref() });
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.retire();
        }
    }
}

impl PartialEq for Thread {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Thread {}

impl core::fmt::Debug for Thread {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut name = [0; NAME_LEN];
        write!(
            f,
            "thread {} {:?} {:#x}",
            self.serial(),
            self.name(&mut name),
            self.flags()
        )
    }
}

/// There was no memory (entry, stack, or code space) for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMemory;

impl From<codegen::OutOfCode> for NoMemory {
    fn from(_: codegen::OutOfCode) -> Self {
        NoMemory
    }
}

/// Takes an inactive entry, or makes more. It comes with count 1 and state NEW and ASLEEP, everything else as
/// after creation.
#[inline]
pub(crate) fn activate() -> Result<Thread, NoMemory> {
    inactive::take().map(renew).ok_or(NoMemory)
}

/// Makes a thread of an entry that no party has.
fn renew(tte: &Tte) -> Thread {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    for word in [&tte.fs_base, &tte.gs_base, &tte.time, &tte.in_at] {
        word.store(0, Ordering::Relaxed);
    }
    for word in [&tte.events, &tte.awaited] {
        word.store(0, Ordering::Relaxed);
    }
    let switches = tte.switches();
    for count in [&tte.switches, &tte.preempted, &tte.quanta] {
        count.store(0, Ordering::Relaxed);
    }
    // Behind them, so that no reader counts them twice.
    FORMER_SWITCHES.fetch_add(switches, Ordering::Release);
    tte.samples.reset();
    tte.watched.reset();
    tte.nice.store(false, Ordering::Relaxed);
    for word in [&tte.owner, &tte.dispatch, &tte.link] {
        word.store(0, Ordering::Relaxed);
    }
    tte.tag.store(0, Ordering::Relaxed);
    tte.ends.store(false, Ordering::Relaxed);
    tte.beginning.store(0, Ordering::Relaxed);
    tte.sequences.store(0, Ordering::Relaxed);
    tte.pinned.store(false, Ordering::Relaxed);
    tte.allowed.store(ANYWHERE, Ordering::Relaxed);
    tte.urgency.store(0, Ordering::Relaxed);
    if tte.budget.is_set() {
        tte.budget.begin(Terms::default());
    }
    tte.takes_turns.store(false, Ordering::Relaxed);
    tte.is_raised.store(false, Ordering::Relaxed);
    tte.on_ring.leave();
    tte.channels.store(UNKNOWN, Ordering::Relaxed);
    tte.used_up.store(u64::MAX, Ordering::Relaxed);
    tte.is_asked.store(false, Ordering::Relaxed);
    tte.sequence_area.store(0, Ordering::Relaxed);
    tte.signals.reset();
    tte.serial
        .store(SERIAL.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    tte.state
        .store(flags::NEW | flags::ASLEEP, Ordering::Release);
    tte.count.store(1, Ordering::Release);
    Thread(NonNull::from(tte))
}

/// Visits every thread that is not inactive, in the order of the table. New ones and ended ones may or may
/// not be seen.
pub fn for_each(mut visit: impl FnMut(&Thread)) {
    inactive::for_each_entry(&mut |tte| {
        if let Some(thread) = hold_on(tte) {
            visit(&thread);
        }
    });
}

/// [`Tte::switches`] of threads whose entries have become other threads since.
static FORMER_SWITCHES: AtomicU64 = AtomicU64::new(0);

/// [`Tte::switches`] of all threads, ended ones included. It never becomes less.
pub fn all_switches() -> u64 {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let mut all = FORMER_SWITCHES.load(Ordering::Acquire);
    inactive::for_each_entry(&mut |tte| all += tte.switches());
    // An entry may have become another thread between the two.
    TOLD.fetch_max(all, Ordering::Relaxed).max(all)
}

/// The thread with this [`Tte::handle_number`], if it has not ended. Lock-free; from anywhere.
#[inline]
pub fn by_handle(handle: u64) -> Option<Thread> {
    let index = (handle & ((1 << INDEX_BITS) - 1)) as usize;
    let thread = hold_on(inactive::entry(index)?)?;
    (thread.serial() == handle >> INDEX_BITS && thread.flags() & flags::DEAD == 0).then_some(thread)
}

/// A handle of the thread that has this entry, if one has.
#[inline]
fn hold_on(tte: &Tte) -> Option<Thread> {
    let mut count = tte.count.load(Ordering::Relaxed);
    while count != 0 {
        match tte
            .count
            .compare_exchange_weak(count, count + 1, Ordering::AcqRel, Ordering::Relaxed)
        {
            Ok(_) => return Some(Thread(NonNull::from(tte))),
            Err(now) => count = now,
        }
    }
    None
}

/// The running thread's entry.
#[inline(always)]
pub fn current() -> &'static Tte {
    match current_opt() {
        Some(tte) => tte,
        None => panic!("no thread runs here"),
    }
}

/// The running thread's entry; `None` on a stack that is no thread's (early boot, NMI, double fault).
#[inline(always)]
pub fn current_opt() -> Option<&'static Tte> {
    #[cfg(target_os = "none")]
    {
        let base = machine::cpu::StackBase::here();
        // SAFETY: a stack base holds null or the address of an entry, and those are never unmapped.
        unsafe { (base.tte.load(Ordering::Relaxed) as *const Tte).as_ref() }
    }
    #[cfg(not(target_os = "none"))]
    None
}

/// For tests: an entry outside the table, in low memory.
#[cfg(test)]
pub(crate) fn detached() -> codegen::host::Low<Tte> {
    codegen::host::Low::new(Tte::new())
}
