//! The I/O APICs: where device interrupts enter.
//!
//! *Interface*: `configure` with what the firmware says, then `isa`, `route`, `mask`, `hold`.

use abi::layout::{MMIO, PAGE};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// As many controllers as are used.
pub(crate) const MAX: usize = 8;

const REDIRECTION: u32 = 0x10;
const MASKED: u32 = 1 << 16;
const LOW_ACTIVE: u32 = 1 << 13;
const LEVEL: u32 = 1 << 15;
/// In `ISA`: the firmware said so.
const NAMED: u32 = 1 << 31;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static FIRST_GSI: [AtomicU32; MAX] = [const { AtomicU32::new(0) }; MAX];
/// For each ISA interrupt: NAMED, the two mode bits, and the global number.
static ISA: [AtomicU32; 16] = [const { AtomicU32::new(0) }; 16];

/// Address of controller `i`'s registers: the page after the local APIC's, and so on.
pub(crate) const fn registers(i: usize) -> usize {
    MMIO + PAGE * (1 + i)
}

/// A controller whose first input is `first_gsi`; its registers are mapped at [`registers`] of the returned
/// number.
pub(crate) fn add(first_gsi: u32) -> Option<usize> {
    let i = COUNT.load(Ordering::Relaxed);
    FIRST_GSI.get(i)?.store(first_gsi, Ordering::Relaxed);
    COUNT.store(i + 1, Ordering::Relaxed);
    Some(i)
}

/// The firmware's override for ISA interrupt `irq`: its global number and MPS INTI flags.
pub(crate) fn override_isa(irq: u8, gsi: u32, flags: u16) {
    let low = if flags & 3 == 3 { LOW_ACTIVE } else { 0 };
    let level = if flags >> 2 & 3 == 3 { LEVEL } else { 0 };
    if let Some(entry) = ISA.get(irq as usize) {
        entry.store(NAMED | low | level | gsi & 0xfff, Ordering::Relaxed);
    }
}

pub(crate) fn isa(irq: u8) -> u32 {
    match ISA.get(irq as usize).map(|e| e.load(Ordering::Relaxed)) {
        Some(entry) if entry & NAMED != 0 => entry & 0xfff,
        _ => u32::from(irq),
    }
}

fn select(i: usize, register: u32) -> *mut u32 {
    // SAFETY: the page of a controller that `add` counted is mapped.
    unsafe {
        (registers(i) as *mut u32).write_volatile(register);
        (registers(i) as *mut u32).add(4)
    }
}

/// A register is selected, and then read or written: that is one party's until it is done.
static SELECTED: AtomicBool = AtomicBool::new(false);

/// Does `access` with interrupts off, when no other CPU selects a register. None: one does just now.
fn try_alone<T>(access: impl FnOnce() -> T) -> Option<T> {
    // Bound: at most four register accesses; at boot, when a line is routed, and when one that floods is
    // masked.
    let state = crate::cpu::irq_save();
    let mine = !SELECTED.swap(true, Ordering::Acquire);
    let answer = mine.then(access);
    if mine {
        SELECTED.store(false, Ordering::Release);
    }
    crate::cpu::irq_restore(state);
    answer
}

/// The same, as soon as no other does: each holds the registers for a few accesses, with interrupts off.
fn alone<T>(access: impl Fn() -> T) -> T {
    loop {
        if let Some(answer) = try_alone(&access) {
            return answer;
        }
        // Bound: another CPU’s at most four register accesses, with interrupts off; at boot and when a line
        // is routed.
        core::hint::spin_loop();
    }
}

fn read(i: usize, register: u32) -> u32 {
    // SAFETY: as in `select`.
    alone(|| unsafe { select(i, register).read_volatile() })
}

fn write(i: usize, register: u32, value: u32) {
    // SAFETY: as in `select`.
    alone(|| unsafe { select(i, register).write_volatile(value) });
}

fn inputs(i: usize) -> u32 {
    (read(i, 1) >> 16 & 0xff) + 1
}

fn find(gsi: u32) -> Option<(usize, u32)> {
    (0..COUNT.load(Ordering::Relaxed)).find_map(|i| {
        let input = gsi.checked_sub(FIRST_GSI[i].load(Ordering::Relaxed))?;
        (input < inputs(i)).then_some((i, input))
    })
}

pub(crate) fn route(gsi: u32, vector: u8, cpu: usize) -> bool {
    let Some((i, input)) = find(gsi) else {
        return false;
    };
    let named = ISA
        .iter()
        .map(|e| e.load(Ordering::Relaxed))
        .find(|e| e & NAMED != 0 && e & 0xfff == gsi);
    // Without an override an ISA interrupt is edge, high; anything above is PCI: level, low.
    let mode = match named {
        Some(entry) => entry & (LOW_ACTIVE | LEVEL),
        None if gsi < 16 => 0,
        None => LOW_ACTIVE | LEVEL,
    };
    let target = crate::cpu::cpu(cpu).apic_id.load(Ordering::Relaxed);
    write(i, REDIRECTION + 2 * input, MASKED);
    write(i, REDIRECTION + 2 * input + 1, target << 24);
    write(i, REDIRECTION + 2 * input, mode | u32::from(vector));
    true
}

pub(crate) fn mask(gsi: u32) {
    if let Some((i, input)) = find(gsi) {
        write(i, REDIRECTION + 2 * input, MASKED);
    }
}

/// Masks input `gsi`, or unmasks it with its mode and target as they are. A level is then served; an edge
/// that came meanwhile is not. False: another CPU is at the registers just now, or no controller has it.
pub(crate) fn hold(gsi: u32, held: bool) -> bool {
    let change = || {
        let first = |i: &usize| FIRST_GSI[*i].load(Ordering::Relaxed);
        let below = |i: &usize| first(i) <= gsi;
        let found = (0..COUNT.load(Ordering::Relaxed))
            .filter(below)
            .max_by_key(first);
        let Some(i) = found else { return false };
        let register = REDIRECTION + 2 * (gsi - first(&i));
        // SAFETY: as in `select`; a controller's further inputs read as nothing and take no writes.
        unsafe {
            let now = select(i, register).read_volatile();
            let next = if held { now | MASKED } else { now & !MASKED };
            select(i, register).write_volatile(next);
        }
        true
    };
    try_alone(change).unwrap_or(false)
}

/// Masks every input.
pub(crate) fn init() {
    for i in 0..COUNT.load(Ordering::Relaxed) {
        for input in 0..inputs(i) {
            write(i, REDIRECTION + 2 * input, MASKED);
        }
    }
}
