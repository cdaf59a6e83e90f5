//! Bringing the room up.
//!
//! *Interface*: [`init`], [`idle`]; [`stats`] for listings.
//!
//! The boot code of each CPU becomes its idle thread, on its boot stack: it has an entry, may use
//! monitors, and may start others; `suspend` there runs others or halts, and returns spuriously. When
//! boot is done, it calls [`idle`]. The boot CPU makes the parts of all before another one starts, for
//! a CPU that comes up wakes threads of others before it has done anything else: those that wait until
//! it has forgotten a translation.

use crate::running::local::{Local, local};
use crate::running::{callouts, kick};
use crate::switch::{Keys, speculation, turn, yielding};
use crate::time::{tick, timer};
use crate::tte::Tte;
use crate::tte::code::{Kind, SwitchCode};
use crate::tte::{NoMemory, QUANTUM_NS, Thread, activate, flags};
use core::sync::atomic::Ordering;
use machine::cpu;
use machine::paging::{MachineStack, machine_stack};

/// Brings the room up for every CPU. Once, on the boot CPU with interrupts off, after `vm::init` and before
/// another CPU starts.
///
/// # Errors
/// No memory.
pub fn init() -> Result<(), NoMemory> {
    yielding::init();
    kick::init();
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
    let turn = turn::synthesize(&local.ring, number as u64)?;
    local.ring.turn.store(turn.entry(), Ordering::Relaxed);
    // The CPU's for ever.
    core::mem::forget(turn);
    core::mem::forget(crate::time::clock::quaject::CLASS.tally());
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
        fp_area: 0,
    };
    let code = SwitchCode::synthesize(Kind::KERNEL, &keys, thread.serial())?;
    thread.publish(Kind::KERNEL, &code);
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

impl Tte {
    /// Whether this is the idle thread of its processor.
    pub fn is_idle(&self) -> bool {
        self.is_kernel() && stats(self.cpu()).idle == self.serial()
    }
}

/// Threads that are ready on all CPUs, running ones included.
pub(crate) fn ready() -> u32 {
    let all = 0..machine::cpu::cpus();
    all.map(|cpu| local(cpu).ring.all_ready()).sum()
}
