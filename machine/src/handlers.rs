//! The handlers in Rust of interrupt vectors, and how often each vector has come.
//!
//! *Interface*: [`set`]; the trap's entry calls [`dispatch`]. Counts by [`count_on`] and [`count`];
//! [`timer_taken`] for who handles the timer by itself. `irq.rs` is what the rest of the kernel uses.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::apic::{SPURIOUS_VECTOR, TIMER_VECTOR, eoi};
use crate::cpu::{self, Cpu, MAX_CPUS};
use crate::trap_frame::TrapFrame;

/// A handler in Rust: runs with interrupts off; the controller is told after it returns.
pub type Handler = fn(&mut TrapFrame);

static HANDLERS: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];
/// By CPU, then by vector.
static COUNTS: [[AtomicU64; 256]; MAX_CPUS] =
    [const { [const { AtomicU64::new(0) }; 256] }; MAX_CPUS];

/// Links `handler` to `vector`, in place of what was there; none: an interrupt is acknowledged and forgotten.
pub(crate) fn set(vector: u8, handler: Option<Handler>) {
    let handler = handler.map_or(0, |handler| handler as usize);
    HANDLERS[usize::from(vector)].store(handler, Ordering::Release);
}

/// An interrupt that CPU number `cpu`, the running one, has taken.
pub(crate) fn dispatch(cpu: usize, frame: &mut TrapFrame) {
    let vector = frame.vector as usize & 0xff;
    COUNTS[cpu][vector].fetch_add(1, Ordering::Relaxed);
    let handler = HANDLERS[vector].load(Ordering::Acquire);
    if handler != 0 {
        // SAFETY: only `set` stores here, and it takes a `Handler`.
        let handler = unsafe { core::mem::transmute::<usize, Handler>(handler) };
        handler(frame);
    }
    if vector != SPURIOUS_VECTOR as usize {
        eoi();
    }
}

/// Interrupts taken at `vector` through [`dispatch`] by CPU number `cpu`, since boot; at the timer's also
/// the others.
pub fn count_on(cpu: usize, vector: u8) -> u64 {
    let Some(counts) = COUNTS.get(cpu) else {
        return 0;
    };
    let quanta = match vector {
        TIMER_VECTOR => cpu::cpu(cpu).quanta.load(Ordering::Relaxed),
        _ => 0,
    };
    counts[vector as usize].load(Ordering::Relaxed) + quanta
}

/// The same by all.
pub fn count(vector: u8) -> u64 {
    (0..MAX_CPUS).map(|cpu| count_on(cpu, vector)).sum()
}

/// The timer's interrupt, which `cpu`, the running one, has handled by code of its own: counts and
/// acknowledges it. With interrupts off.
#[inline]
pub fn timer_taken(cpu: &Cpu) {
    let taken = cpu.quanta.load(Ordering::Relaxed);
    cpu.quanta.store(taken.wrapping_add(1), Ordering::Relaxed);
    eoi();
}
