//! Bringing the room up.
//!
//! *Interface*: [`init`], [`idle()`].
//!
//! The boot code of each CPU becomes its idle thread, on its boot stack: it has an entry, may use
//! monitors, and may start others; `suspend` there runs others or halts, and returns spuriously. When
//! boot is done, it calls [`idle()`]. The boot CPU makes the parts of all before another one starts, for
//! a CPU that comes up wakes threads of others before it has done anything else: those that wait until
//! it has forgotten a translation.

use crate::entry::{tick, timer};
use crate::life::spawn::bury;
use crate::life::{callouts, grace};
use crate::ring::per_cpu::{here, local};
use crate::ring::reschedule_ipi;
use crate::running::idle;
use crate::running::ipi_handler::on_reschedule_ipi;
use crate::switch::{Keys, pick_next, speculation, yielding};
use crate::tte::code::{SwitchCode, SwitchKind};
use crate::tte::{NoMemory, QUANTUM_NS, Thread, activate, flags};
use core::sync::atomic::Ordering;
use machine::cpu::{self, irq_disable, irq_enable};
use machine::paging::{MachineStack, machine_stack};

/// Brings the room up for every CPU. Once, on the boot CPU with interrupts off, after `vm::init` and before
/// another CPU starts.
///
/// # Errors
/// No memory.
pub fn init() -> Result<(), NoMemory> {
    yielding::init();
    reschedule_ipi::init(on_reschedule_ipi);
    speculation::init()?;
    machine::irq::set_handler(machine::irq::TIMER_VECTOR, timer::fired);
    for number in 0..cpu::present() {
        prepare(number)?;
    }
    tick::install()?;
    callouts::link();
    Ok(())
}

/// Makes the parts of CPU number `number`.
fn prepare(number: usize) -> Result<(), NoMemory> {
    let local = local(number);
    cpu::cpu(number)
        .thread
        .store(core::ptr::from_ref(local) as usize, Ordering::Relaxed);
    local
        .seen
        .store(sync::epoch::words(number)[1], Ordering::Relaxed);
    let thread = adopt(number)?;
    let turn = pick_next::synthesize(&local.ring, number as u64)?;
    local.ring.turn.store(turn.entry(), Ordering::Relaxed);
    // The CPU's for ever.
    core::mem::forget(turn);
    core::mem::forget(crate::clock::quaject::CLASS.tally());
    local.ring.idle.store(thread.as_ptr(), Ordering::Relaxed);
    local.ring.mend(&thread);
    core::mem::forget(thread);
    Ok(())
}

/// An entry for what runs on CPU number `number` from its start, on its boot stack.
fn adopt(number: usize) -> Result<Thread, NoMemory> {
    let thread = activate()?;
    thread.set_quantum_ns(QUANTUM_NS);
    let mut name = *b"idle0";
    name[4] += number as u8;
    thread.set_name(&name);
    let top = machine_stack(number, MachineStack::Boot);
    thread.stack_top.store(top, Ordering::Relaxed);
    thread
        .root
        .store(machine::paging::kernel_root() as u64, Ordering::Relaxed);
    thread.cpu.store(number as u32, Ordering::Relaxed);
    thread.pinned.store(true, Ordering::Relaxed);
    let now = machine::clock::tsc();
    thread.time.store(now.wrapping_neg(), Ordering::Relaxed);
    thread.in_at.store(now, Ordering::Relaxed);
    let keys = Keys {
        tte: thread.address(),
        stack_top: top,
        fpu_area: 0,
    };
    let code = SwitchCode::synthesize(SwitchKind::KERNEL, &keys, thread.serial())?;
    thread.publish(SwitchKind::KERNEL, &code);
    // SAFETY: no other party knows the thread yet.
    unsafe { thread.parts() }.switch = Some(code);
    thread
        .state
        .fetch_and(!(flags::NEW | flags::ASLEEP), Ordering::AcqRel);
    cpu::cpu(number)
        .current
        .store(thread.address(), Ordering::Relaxed);
    become_current(top, &thread);
    Ok(thread)
}

/// The stack whose base is at `top` is the thread's.
#[cfg(target_os = "none")]
fn become_current(top: usize, thread: &Thread) {
    // SAFETY: the base of a boot stack, which is mapped from the beginning and for ever.
    unsafe { &*(top as *const cpu::StackBase) }
        .tte
        .store(thread.address(), Ordering::Relaxed);
}

#[cfg(not(target_os = "none"))]
fn become_current(_: usize, _: &Thread) {}

/// The rest of the boot thread's life: the CPU's idle thread. Turns interrupts on.
pub fn idle() -> ! {
    if sync::epoch::pending() > 0 {
        grace::soon();
    }
    loop {
        bury();
        // Bound: a look at ring and inbox, then halt.
        irq_disable();
        let (cpu, local, me) = here();
        if !idle::has_work(cpu, local, me) {
            // One frame at a time with interrupts on, so a wake-up does not wait.
            irq_enable();
            if vm::frame::idle_zero() {
                continue;
            }
            irq_disable();
        }
        idle::wait(cpu, local, me);
        irq_enable();
    }
}
