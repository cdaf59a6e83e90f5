//! The local APIC: one-shot timer and interrupts between processors.
//!
//! *Interface*: [`timer_arm_ns`], [`ipi`], [`eoi`], [`eoi_address`]. Registers are in memory
//! (xAPIC), uncached. The timer interrupts at [`TIMER_VECTOR`].

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use abi::layout::MMIO;

/// Vector of the timer interrupt.
pub const TIMER_VECTOR: u8 = 0xf0;
/// Vector of spurious interrupts: nothing is done, nothing acknowledged.
pub const SPURIOUS_VECTOR: u8 = 0xff;

/// Where the registers are mapped.
pub const REGISTERS: usize = MMIO;

const ID: usize = 0x20;
const EOI: usize = 0xb0;
const SPURIOUS: usize = 0xf0;
const COMMAND: usize = 0x300;
const COMMAND_HIGH: usize = 0x310;
const LVT_TIMER: usize = 0x320;
const LVT_LINT0: usize = 0x350;
const LVT_LINT1: usize = 0x360;
const LVT_ERROR: usize = 0x370;
const TIMER_INITIAL: usize = 0x380;
const TIMER_CURRENT: usize = 0x390;
const TIMER_DIVIDE: usize = 0x3e0;
const TASK_PRIORITY: usize = 0x80;

const MASKED: u32 = 1 << 16;
const ENABLE: u32 = 1 << 8;
const DIVIDE_BY_1: u32 = 0b1011;
/// Processors of this century need no more than a moment between INIT and the start-up command.
const INIT_DELAY_US: u64 = 10;
const START_DELAY_US: u64 = 50;
const PENDING: u32 = 1 << 12;

/// Timer ticks in 2^32 ns.
static TICKS: AtomicU64 = AtomicU64::new(1 << 32);
/// Clock rate in kHz, for the log.
static KHZ: AtomicU32 = AtomicU32::new(0);

fn read(register: usize) -> u32 {
    // SAFETY: the page is mapped at boot; reads of these registers have no side effects.
    unsafe { ((REGISTERS + register) as *const u32).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: the page is mapped at boot; the callers below write what the manual prescribes.
    unsafe { ((REGISTERS + register) as *mut u32).write_volatile(value) }
}

/// This CPU's identifier.
pub fn id() -> u32 {
    read(ID) >> 24
}

/// Interrupts this CPU in `ns` nanoseconds, once; replaces what was armed before. Longer than about four
/// seconds is cut to that: whoever armed it looks at the clock and arms again. Zero fires at once.
pub fn timer_arm_ns(ns: u64) {
    write(TIMER_INITIAL, timer_ticks(ns));
}

/// Ticks for the timer's word that are `ns` nanoseconds: at least one, and at most as many as it can hold.
pub fn timer_ticks(ns: u64) -> u32 {
    match ns.checked_mul(timer_rate()) {
        // An odd number: zero would stop the timer.
        Some(product) => (product >> 32) as u32 | 1,
        None => u32::MAX,
    }
}

/// Timer ticks in 2^32 ns, after they were measured.
pub fn timer_rate() -> u64 {
    TICKS.load(Ordering::Relaxed)
}

/// The word in which generated code stores ticks (32 bits) to have this CPU's timer fire once.
pub const fn timer_address() -> usize {
    REGISTERS + TIMER_INITIAL
}

/// Acknowledges the interrupt being handled. Handlers set with [`crate::irq::set_handler`] need not.
#[inline(always)]
pub fn eoi() {
    write(EOI, 0);
}

/// Where generated handlers store a zero to acknowledge.
pub const fn eoi_address() -> usize {
    REGISTERS + EOI
}

/// Interrupts CPU number `cpu` at `vector`.
pub fn ipi(cpu: usize, vector: u8) {
    let target = crate::cpu::cpu(cpu).apic_id.load(Ordering::Relaxed);
    send(target, u32::from(vector));
}

/// Stops all other CPUs with an NMI (the panic report): one by one, and only those that have come up. The
/// controller's own "all but self" would also reach one that is still on its way up and has no table of
/// interrupts. The hardware says which CPU this one is: the panic may be that its stack belongs to another.
pub(crate) fn nmi_all_but_self() {
    // Bound: two register writes, for each CPU where all others are meant, after the local APIC has taken the
    // previous command: hardware, microseconds.
    let state = crate::cpu::irq_save();
    let own = id();
    let others = crate::cpu::online().map(|cpu| cpu.apic_id.load(Ordering::Relaxed));
    for other in others.filter(|other| *other != own) {
        send(other, 0b100 << 8);
    }
    crate::cpu::irq_restore(state);
}

/// INIT, then the start-up command for code at physical `page` (below 1 MiB).
pub(crate) fn start(apic_id: u32, page: usize, delay_us: fn(u64)) {
    send(apic_id, 0b101 << 8 | 1 << 14);
    delay_us(INIT_DELAY_US);
    for _ in 0..2 {
        send(apic_id, 0b110 << 8 | 1 << 14 | (page >> 12) as u32);
        delay_us(START_DELAY_US);
    }
}

fn send(target: u32, command: u32) {
    // The two halves must not be torn apart by an interrupt that sends as well.
    let state = crate::cpu::irq_save();
    while read(COMMAND) & PENDING != 0 {
        // Bound: two register writes, after the local APIC has taken the previous command: hardware,
        // microseconds.
        core::hint::spin_loop();
    }
    write(COMMAND_HIGH, target << 24);
    write(COMMAND, command);
    crate::cpu::irq_restore(state);
}

/// The timer's clock rate in kHz, as measured at boot.
pub fn timer_khz() -> u32 {
    KHZ.load(Ordering::Relaxed)
}

pub(crate) fn init_this_cpu() {
    const MSR_APIC_BASE: u32 = 0x1b;
    // SAFETY: every x86-64 has the register; this turns the APIC on in xAPIC mode where it is.
    unsafe {
        let base = crate::cpu::rdmsr(MSR_APIC_BASE);
        crate::cpu::wrmsr(MSR_APIC_BASE, base & !(1 << 10) | 1 << 11);
    }
    write(TASK_PRIORITY, 0);
    write(LVT_LINT0, MASKED);
    write(LVT_LINT1, 0b100 << 8); // NMI
    write(LVT_ERROR, MASKED);
    write(TIMER_DIVIDE, DIVIDE_BY_1);
    write(LVT_TIMER, u32::from(TIMER_VECTOR));
    write(TIMER_INITIAL, 0);
    write(SPURIOUS, ENABLE | u32::from(SPURIOUS_VECTOR));
}

/// Lets the timer run masked; [`measured`] reads it.
pub(crate) fn start_measuring() {
    write(TIMER_DIVIDE, DIVIDE_BY_1);
    write(LVT_TIMER, MASKED);
    write(TIMER_INITIAL, u32::MAX);
}

/// Ticks since [`start_measuring`].
pub(crate) fn measured() -> u32 {
    u32::MAX - read(TIMER_CURRENT)
}

/// `ticks` were counted in `ns`.
pub(crate) fn calibrated(ticks: u32, ns: u64) {
    write(TIMER_INITIAL, 0);
    let rate = (u64::from(ticks) << 32) / ns.max(1);
    TICKS.store(rate.max(1), Ordering::Relaxed);
    KHZ.store(
        (u64::from(ticks) * 1_000_000 / ns.max(1)) as u32,
        Ordering::Relaxed,
    );
}
