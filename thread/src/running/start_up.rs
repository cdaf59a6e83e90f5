//! Bringing the room up on each CPU.
//!
//! *Interface*: [`init`], [`init_cpu`], [`idle`]; [`stats`] for listings.
//!
//! The boot code becomes its CPU's idle thread, on its present stack: from then on it has an entry, may use
//! monitors, and may start others; `suspend` there runs others or halts, and returns spuriously. When boot is
//! done, it calls [`idle`].

use crate::running::callouts;
use crate::running::kick;
use crate::running::local::{Local, local};
use crate::switch::speculation;
use crate::switch::turn;
use crate::switch::yielding;
use crate::switch::{Keys, Kind, SwitchCode};
use crate::time::{tick, timer};
use crate::tte::flags;
use crate::tte::{NoMemory, QUANTUM_NS, Thread, activate};
use core::sync::atomic::Ordering;
use machine::cpu::{Cpu, StackBase, this_cpu};

/// Brings the room up on the boot CPU. Once, with interrupts off, after `vm::init`.
///
/// # Errors
/// No memory.
pub fn init() -> Result<(), NoMemory> {
    yielding::init();
    kick::init();
    speculation::init()?;
    machine::irq::set_handler(machine::irq::TIMER_VECTOR, timer::fired);
    init_cpu()?;
    tick::install()?;
    callouts::link();
    Ok(())
}

/// Brings the room up on this CPU. With interrupts off, after `vm::init_cpu`.
///
/// # Errors
/// No memory.
pub fn init_cpu() -> Result<(), NoMemory> {
    let cpu = this_cpu();
    let local = local(cpu.number());
    // This comes first: the next steps may wake a thread of another CPU that was waiting for a monitor.
    cpu.thread
        .store(core::ptr::from_ref(local) as usize, Ordering::Relaxed);
    local
        .seen
        .store(sync::epoch::words(cpu.number())[1], Ordering::Relaxed);
    let thread = adopt(cpu)?;
    let turn = turn::synthesize(&local.ring, cpu.number() as u64)?;
    local.ring.turn.store(turn.entry(), Ordering::Relaxed);
    // The CPU's for ever.
    core::mem::forget(turn);
    core::mem::forget(crate::time::clock::quaject::CLASS.tally());
    local.ring.idle.store(thread.as_ptr(), Ordering::Relaxed);
    local.ring.mend(&thread);
    core::mem::forget(thread);
    Ok(())
}

/// An entry for what runs here already, on the stack it has.
fn adopt(cpu: &Cpu) -> Result<Thread, NoMemory> {
    let thread = activate()?;
    thread.set_quantum_ns(QUANTUM_NS);
    let mut name = *b"idle0";
    name[4] += cpu.number() as u8;
    thread.set_name(&name);
    let top = stack_top();
    thread.stack_top.store(top, Ordering::Relaxed);
    thread
        .root
        .store(machine::paging::kernel_root() as u64, Ordering::Relaxed);
    thread.cpu.store(cpu.number() as u32, Ordering::Relaxed);
    thread.pinned.store(true, Ordering::Relaxed);
    let now = machine::clock::tsc();
    thread.time.store(now.wrapping_neg(), Ordering::Relaxed);
    thread.in_at.store(now, Ordering::Relaxed);
    let keys = Keys {
        tte: thread.address(),
        stack_top: top,
        fp_area: 0,
    };
    let code = SwitchCode::synthesize(Kind::KERNEL, &keys, thread.serial())?;
    thread.publish(Kind::KERNEL, &code);
    // SAFETY: no other party knows the thread yet.
    unsafe { thread.parts() }.switch = Some(code);
    thread
        .state
        .fetch_and(!(flags::NEW | flags::ASLEEP), Ordering::AcqRel);
    cpu.current.store(thread.address(), Ordering::Relaxed);
    become_current(&thread);
    Ok(thread)
}

#[cfg(target_os = "none")]
fn stack_top() -> usize {
    core::ptr::from_ref(StackBase::here()) as usize
}

#[cfg(target_os = "none")]
fn become_current(thread: &Thread) {
    StackBase::here()
        .tte
        .store(thread.address(), Ordering::Relaxed);
}

#[cfg(not(target_os = "none"))]
fn stack_top() -> usize {
    StackBase::SLOT - StackBase::SIZE
}

#[cfg(not(target_os = "none"))]
fn become_current(_: &Thread) {}

/// The rest of the boot thread's life: the CPU's idle thread. Turns interrupts on.
pub fn idle() -> ! {
    crate::running::idle::run()
}

/// The data of one CPU in a listing.
#[derive(Clone, Copy, Debug)]
pub struct CpuStats {
    /// Ready threads, the running one and those on the shelf included.
    pub ready: u32,
    /// Bit for each level with ready threads.
    pub populated: u32,
    /// Threads taken from other CPUs' shelves so far.
    pub stolen: u32,
    /// Serial number of the idle thread.
    pub idle: u64,
}

/// The state of CPU number `cpu`, which is online.
pub fn stats(cpu: usize) -> CpuStats {
    let local: &Local = local(cpu);
    // SAFETY: null before the CPU is up, an entry afterwards.
    let idle = unsafe { local.ring.idle.load(Ordering::Relaxed).as_ref() };
    CpuStats {
        ready: local.ring.all_ready(),
        populated: local.ring.populated.load(Ordering::Relaxed),
        stolen: local.stolen.load(Ordering::Relaxed),
        idle: idle.map_or(0, |tte| tte.serial()),
    }
}

/// Threads that are ready on all CPUs, running ones included.
pub(crate) fn ready() -> u32 {
    let all = 0..machine::cpu::cpus();
    all.map(|cpu| local(cpu).ring.all_ready()).sum()
}
