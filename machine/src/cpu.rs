//! The processors: their per-CPU data, and how running code finds its own.
//!
//! *Interface*: [`this_cpu`], [`cpu`], [`online`], [`StackBase`], [`irq_save`]/[`irq_restore`]. The kernel
//! never uses GS: every kernel stack ends in a [`StackBase`], found from the stack pointer alone
//! (docs/architecture.md). The CPU under a thread can change whenever interrupts are on.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::tss::{GDT_WORDS, Tss};

/// As many processors as the machine room brings up.
pub const MAX_CPUS: usize = 8;

/// One processor's data. Generated code addresses the fields by absolute address ([`Cpu::address`] of
/// [`cpu`] plus the offset constants), so the layout is C's.
#[repr(C, align(64))]
pub struct Cpu {
    /// Entry of the running thread's dispatcher; the `syscall` entry stub jumps through this word.
    pub dispatcher: AtomicUsize,
    /// The running thread's table entry.
    pub current: AtomicUsize,
    /// Not zero: the running thread should give way at the next chance.
    pub need_resched: AtomicU32,
    /// The number of this CPU: 0 is the boot CPU.
    pub id: AtomicU32,
    /// Its local APIC's identifier.
    pub apic_id: AtomicU32,
    /// It has come up and takes interrupts.
    pub online: AtomicBool,
    /// Whether an interrupt is being handled, what was put to its end included.
    pub(crate) handling: AtomicBool,
    /// A word for the thread room (its per-CPU block).
    pub thread: AtomicUsize,
    /// Table entry of the thread whose state the vector registers hold; 0 when nobody may count on finding
    /// them again, though the running thread has its own there; [`Cpu::FP_TRAPPED`] while CR0.TS is set and
    /// floating-point instructions trap.
    pub fp_owner: AtomicUsize,
    /// Physical address of the top page table that this CPU has, or is about to have, in CR3; zero before the
    /// first load counts as the kernel's. Code that loads CR3 stores the value here first (`vm::tlb`).
    pub root: AtomicUsize,
    /// Interrupts of the timer that its own code has counted.
    pub quanta: AtomicU64,
    /// Where the generated or assembled one-instruction `syscall` entry of this CPU is.
    pub syscall_entry: AtomicUsize,
    /// The user's stack pointer, while the entry of `syscall` changes stacks itself (`entry_mitigations.rs`).
    pub(crate) user_rsp: AtomicU64,
    /// The contents of SPEC_CTRL in the kernel, and in user mode (`mitigate`).
    pub spec_running: AtomicU32,
    /// As above.
    pub spec_resting: AtomicU32,
    /// The address of its gate, and that of its way out by `sysretq`, where tables are isolated
    /// (`trap/pti.rs`); otherwise 0.
    pub(crate) gate: AtomicUsize,
    /// As above.
    pub(crate) sysret: AtomicUsize,
    /// Task state: stack pointers that the processor itself loads, or where tables are isolated the gates'
    /// inner code.
    pub tss: UnsafeCell<Tss>,
    /// Segment descriptors.
    pub(crate) gdt: UnsafeCell<[u64; GDT_WORDS]>,
    /// Where this CPU writes what is read-only.
    pub(crate) patch: Patch,
}

// SAFETY: everything but `tss` and `gdt` is atomic; those two are written only by their own CPU with
// interrupts off, or before it starts.
unsafe impl Sync for Cpu {}

impl Cpu {
    /// Offset of [`Cpu::dispatcher`].
    pub const DISPATCHER: usize = offset_of!(Cpu, dispatcher);
    /// Offset of [`Cpu::current`].
    pub const CURRENT: usize = offset_of!(Cpu, current);
    /// Offset of the kernel stack pointer that an interrupt from user mode starts with. Not 8-aligned.
    pub const RSP0: usize = offset_of!(Cpu, tss) + offset_of!(Tss, rsp0);
    /// Offset of [`Cpu::need_resched`] (32 bits).
    pub const NEED_RESCHED: usize = offset_of!(Cpu, need_resched);
    /// Offset of [`Cpu::quanta`].
    pub const QUANTA: usize = offset_of!(Cpu, quanta);
    /// Offset of [`Cpu::thread`].
    pub const THREAD: usize = offset_of!(Cpu, thread);
    /// Offset of [`Cpu::fp_owner`].
    pub const FP_OWNER: usize = offset_of!(Cpu, fp_owner);
    /// [`Cpu::fp_owner`] while floating-point instructions trap: the number whose signed difference to any
    /// kernel address overflows, so that one comparison with a thread's entry tells the three cases apart.
    pub const FP_TRAPPED: usize = isize::MAX as usize;
    /// Offset of [`Cpu::root`].
    pub const ROOT: usize = offset_of!(Cpu, root);
    /// Offset of [`Cpu::user_rsp`].
    pub(crate) const USER_RSP: usize = offset_of!(Cpu, user_rsp);
    /// Offset of [`Cpu::spec_running`] (32 bits).
    pub const SPEC_RUNNING: usize = offset_of!(Cpu, spec_running);
    /// Offset of [`Cpu::spec_resting`] (32 bits).
    pub const SPEC_RESTING: usize = offset_of!(Cpu, spec_resting);
    /// Offset of the gate's address.
    pub(crate) const GATE: usize = offset_of!(Cpu, gate);
    /// Offset of [`Cpu::id`] (32 bits).
    pub const ID: usize = offset_of!(Cpu, id);

    const fn new() -> Self {
        Cpu {
            dispatcher: AtomicUsize::new(0),
            current: AtomicUsize::new(0),
            need_resched: AtomicU32::new(0),
            id: AtomicU32::new(0),
            apic_id: AtomicU32::new(0),
            online: AtomicBool::new(false),
            thread: AtomicUsize::new(0),
            fp_owner: AtomicUsize::new(Cpu::FP_TRAPPED),
            root: AtomicUsize::new(0),
            quanta: AtomicU64::new(0),
            handling: AtomicBool::new(false),
            syscall_entry: AtomicUsize::new(0),
            user_rsp: AtomicU64::new(0),
            spec_running: AtomicU32::new(0),
            spec_resting: AtomicU32::new(0),
            gate: AtomicUsize::new(0),
            sysret: AtomicUsize::new(0),
            tss: UnsafeCell::new(Tss::new()),
            gdt: UnsafeCell::new([0; GDT_WORDS]),
            patch: Patch::new(),
        }
    }

    /// Number of this CPU.
    pub fn number(&self) -> usize {
        self.id.load(Ordering::Relaxed) as usize
    }

    /// Whether this CPU, which is the caller's, handles an interrupt: a handler linked by `irq::set_handler`
    /// runs, or what [`Cpu::prolong`] was told of.
    pub fn handles_interrupt(&self) -> bool {
        self.handling.load(Ordering::Relaxed)
    }

    /// Makes `rest` part of the interrupt that this CPU, which is the caller's, has just handled: others that
    /// come inside are no quiescent points. With interrupts off.
    pub fn prolong(&self, rest: impl FnOnce()) {
        self.handles(rest);
    }

    /// This CPU, which is the caller's, does `work` for an interrupt from user mode. With interrupts off.
    #[inline(always)]
    pub fn handles(&self, work: impl FnOnce()) {
        self.handling.store(true, Ordering::Relaxed);
        work();
        self.handling.store(false, Ordering::Relaxed);
    }

    /// Address of the structure, for generated code: within the top 2 GiB.
    pub fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// Sets the stack that interrupts from user mode and the next `syscall_slow` start on.
    ///
    /// # Safety
    /// Called by this CPU with interrupts off; `top` is the address of a [`StackBase`] (the stack grows down
    /// from it).
    pub unsafe fn set_rsp0(&self, top: usize) {
        // SAFETY: only this CPU writes its own TSS, and interrupts are off.
        unsafe {
            (&raw mut (*self.tss.get()).rsp0).write_unaligned(top as u64);
        }
    }
}

pub(crate) static CPUS: [Cpu; MAX_CPUS] = [const { Cpu::new() }; MAX_CPUS];
static PRESENT: AtomicUsize = AtomicUsize::new(1);
static ONLINE: AtomicUsize = AtomicUsize::new(1);

/// The 64 bytes at the upper end of every kernel stack.
#[repr(C)]
pub struct StackBase {
    /// The CPU this stack runs on now; whoever switches to the stack stores it.
    pub cpu: AtomicPtr<Cpu>,
    /// The thread this stack belongs to; null on boot and interrupt stacks.
    pub tte: AtomicUsize,
    /// The user's stack pointer, stored by the dispatcher before it changes stacks.
    pub user_rsp: AtomicU64,
    /// Entry of the thread's vector for the page faults of its program ([`crate::trap::FaultVector`]).
    pub fault: AtomicUsize,
    /// For generated code.
    pub scratch: [AtomicU64; 4],
}

impl StackBase {
    /// Size in bytes; also its alignment.
    pub const SIZE: usize = size_of::<StackBase>();
    /// Stacks lie in slots of this size and alignment.
    pub const SLOT: usize = abi::layout::STACK_SLOT;
    /// Offset of [`StackBase::cpu`].
    pub const CPU: usize = offset_of!(StackBase, cpu);
    /// Offset of [`StackBase::tte`].
    pub const TTE: usize = offset_of!(StackBase, tte);
    /// Offset of [`StackBase::fault`].
    pub const FAULT: usize = offset_of!(StackBase, fault);
    /// Offset of [`StackBase::user_rsp`].
    pub const USER_RSP: usize = offset_of!(StackBase, user_rsp);

    /// Address of the base of the stack that `rsp` points into.
    pub const fn address_of(rsp: usize) -> usize {
        (rsp | (Self::SLOT - 1)) - (Self::SIZE - 1)
    }

    /// The base of the running stack.
    #[cfg(target_os = "none")]
    #[inline(always)]
    pub fn here() -> &'static StackBase {
        let base: usize;
        // SAFETY: reads the stack pointer; every kernel stack ends in a `StackBase`. No function changes its
        // stack, so one reading is as good as the next.
        unsafe {
            core::arch::asm!("mov {0}, rsp", "or {0}, {mask}", "sub {0}, {less}", out(reg) base,
                mask = const Self::SLOT - 1, less = const Self::SIZE - 1,
                options(pure, nomem, nostack));
            &*(base as *const StackBase)
        }
    }
}

const _: () = assert!(StackBase::SIZE == 64);

/// One processor's window for writing what is read-only.
pub(crate) struct Patch {
    /// The words of its leaf table.
    pub leaves: AtomicPtr<AtomicU64>,
    /// The first address that they map.
    pub base: AtomicUsize,
    /// Where it opens next: a number that nobody else knows.
    pub place: AtomicU64,
    /// The rights of a page of data.
    pub flags: AtomicU64,
}

impl Patch {
    pub const fn new() -> Patch {
        Patch {
            leaves: AtomicPtr::new(core::ptr::null_mut()),
            base: AtomicUsize::new(0),
            place: AtomicU64::new(0),
            flags: AtomicU64::new(0),
        }
    }
}

/// The running CPU. Meaningful only while interrupts are off, or as a hint.
#[inline(always)]
pub fn this_cpu() -> &'static Cpu {
    #[cfg(target_os = "none")]
    {
        // SAFETY: whoever switched to this stack stored a pointer to one of `CPUS`.
        unsafe { &*StackBase::here().cpu.load(Ordering::Relaxed) }
    }
    #[cfg(not(target_os = "none"))]
    {
        &CPUS[0]
    }
}

/// CPU number `i`; `i < MAX_CPUS`.
pub fn cpu(i: usize) -> &'static Cpu {
    &CPUS[i]
}

/// Number of CPUs that the firmware names (at most [`MAX_CPUS`]).
pub fn present() -> usize {
    PRESENT.load(Ordering::Relaxed)
}

/// Number of CPUs that are up; they are numbered from 0 without gaps.
pub fn cpus() -> usize {
    ONLINE.load(Ordering::Acquire)
}

/// The CPUs that are up.
pub fn online() -> impl Iterator<Item = &'static Cpu> {
    CPUS[..cpus()].iter()
}

/// Turns interrupts off; returns what [`irq_restore`] needs (the interrupt flag as it was).
#[inline(always)]
pub fn irq_save() -> usize {
    #[cfg(target_os = "none")]
    {
        let flags: usize;
        // SAFETY: interrupts off is always allowed in the kernel. Not `nomem`: what follows must not move up.
        // Bound: the three functions themselves, one of which ends a pause that takes waiting interrupts; the
        // fourth stops the CPU for good.
        unsafe { core::arch::asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        flags & IF
    }
    #[cfg(not(target_os = "none"))]
    0
}

/// Restores the interrupt state that [`irq_save`] returned.
#[inline(always)]
pub fn irq_restore(state: usize) {
    if state & IF != 0 {
        irq_enable();
    }
}

/// Turns interrupts on.
#[inline(always)]
pub fn irq_enable() {
    #[cfg(target_os = "none")]
    // SAFETY: the caller is outside every interrupts-off section. Not `nomem`: what precedes must not move
    // down.
    unsafe {
        core::arch::asm!("sti")
    };
}

/// Turns interrupts off.
#[inline(always)]
pub fn irq_disable() {
    #[cfg(target_os = "none")]
    // SAFETY: always allowed in the kernel.
    unsafe {
        core::arch::asm!("cli")
    };
}

/// With interrupts off: takes those that wait, and turns them off again.
#[inline(always)]
pub fn irq_window() {
    #[cfg(target_os = "none")]
    // SAFETY: the caller is at the end of what had to be done with interrupts off. They come after the
    // instruction behind `sti`. Not `nomem`: a handler may change anything.
    unsafe {
        core::arch::asm!("sti", "nop", "cli")
    };
}

/// Whether interrupts are on.
#[inline(always)]
pub fn irq_enabled() -> bool {
    // Bound: three instructions: asks whether interrupts are on.
    let state = irq_save();
    irq_restore(state);
    state & IF != 0
}

const IF: usize = 1 << 9;

/// Called with interrupts off: turns them on and sleeps until one comes, in one step; returns with interrupts
/// on.
#[inline(always)]
pub fn wait_for_interrupt() {
    #[cfg(target_os = "none")]
    // SAFETY: `sti` takes effect after `hlt` has begun, so no interrupt is lost between the two.
    unsafe {
        core::arch::asm!("sti", "hlt")
    };
}

/// Stops this CPU for good.
#[cfg(target_os = "none")]
pub fn halt() -> ! {
    loop {
        // SAFETY: nothing runs here any more.
        unsafe { core::arch::asm!("cli", "hlt") };
    }
}

/// On a host, ends the test.
#[cfg(not(target_os = "none"))]
pub fn halt() -> ! {
    panic!("halt")
}

/// Reads a model-specific register.
///
/// # Safety
/// The processor has the register.
pub unsafe fn rdmsr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Writes a model-specific register.
///
/// # Safety
/// The processor has the register, and the value keeps the kernel sound.
pub unsafe fn wrmsr(register: u32, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!("wrmsr", in("ecx") register, in("eax") value as u32,
            in("edx") (value >> 32) as u32, options(nostack, preserves_flags));
    }
}

/// The bases of the running program's FS and GS segments, as this CPU has them: the program may have changed
/// them itself.
pub fn segment_bases() -> [u64; 2] {
    #[cfg(target_os = "none")]
    if crate::features::get().fsgsbase() {
        let (fs, gs);
        // SAFETY: the processor has the instructions, which CR4 permits (`segments`).
        unsafe {
            core::arch::asm!("rdfsbase {}", "rdgsbase {}", out(reg) fs, out(reg) gs,
                options(nomem, nostack, preserves_flags));
        }
        return [fs, gs];
    }
    // SAFETY: every x86-64 has the registers.
    [MSR_FS_BASE, MSR_GS_BASE].map(|register| unsafe { rdmsr(register) })
}

/// Extended features: no-execute, `syscall`.
pub(crate) const MSR_EFER: u32 = 0xc000_0080;
/// MSR of the user's FS base (thread-local storage).
pub const MSR_FS_BASE: u32 = 0xc000_0100;
/// MSR of the GS base: the user's alone.
pub const MSR_GS_BASE: u32 = 0xc000_0101;

pub(crate) fn set_present(apic_ids: &[u32]) {
    for (i, (cpu, &apic_id)) in CPUS.iter().zip(apic_ids).enumerate() {
        cpu.id.store(i as u32, Ordering::Relaxed);
        cpu.apic_id.store(apic_id, Ordering::Relaxed);
    }
    PRESENT.store(apic_ids.len().clamp(1, MAX_CPUS), Ordering::Relaxed);
}

pub(crate) fn came_up(cpu: &Cpu) {
    cpu.online.store(true, Ordering::Release);
    sync::epoch::idle_exit(cpu.number());
    ONLINE.fetch_max(cpu.number() + 1, Ordering::AcqRel);
}
