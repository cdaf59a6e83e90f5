//! Idle threads.
//!
//! *Interface*: [`run`] is the idle thread's life; [`wait`] its one step; [`awake`] ends idleness.
//!
//! A CPU that has nothing to do takes from the shelves of all (`balance.rs`), leaves its bit in `IDLE` when
//! they are empty, looks once more, and halts until somebody who leaves something on a shelf interrupts it:
//! one interrupt, to one CPU, which wakes the next if there is more.
//!
//! Halting is not announced to `sync::epoch` as idleness: an interrupt handler on a halted CPU reads shared
//! memory before anybody could announce its end. A grace period ends by an interrupt there too. Nor does an
//! idle thread run what waits for one: it may be preempted in the middle and not have the CPU again for as
//! long as one likes, with all that it has taken (`grace.rs`).
//! Source: dissertation, section 5.3.1.

use crate::balance;
use crate::balance::sample;
use crate::running::block;
use crate::running::local::{IDLE, Local, here};
use crate::running::spawn;
use crate::tte::Tte;
use machine::cpu::{Cpu, irq_disable, irq_enable};

/// The idle thread of the running CPU.
pub(crate) fn run() -> ! {
    if sync::epoch::pending() > 0 {
        crate::time::grace::soon();
    }
    loop {
        spawn::bury();
        irq_disable();
        let (cpu, local, me) = here();
        if !has_work(cpu, local, me) {
            // One frame at a time with interrupts on, so that a wake-up waits for nobody.
            irq_enable();
            if vm::frame::idle_zero() {
                continue;
            }
            irq_disable();
        }
        wait(cpu, local, me);
        irq_enable();
    }
}

/// Runs others, or halts until an interrupt. With interrupts off, also on return.
pub(crate) fn wait(cpu: &Cpu, local: &Local, me: &Tte) {
    if has_work(cpu, local, me) {
        balance::pass_on();
        sample::begin(local);
        return block::switch(cpu, me);
    }
    IDLE.announce(cpu.number());
    if balance::steal(cpu, local, me) {
        awake(cpu);
        balance::pass_on();
        sample::begin(local);
        return block::switch(cpu, me);
    }
    machine::cpu::wait_for_interrupt();
    irq_disable();
    awake(cpu);
}

/// Whether somebody is ready here, if need be by taking one from a shelf.
fn has_work(cpu: &Cpu, local: &Local, me: &Tte) -> bool {
    block::receive(local, me);
    local.ring.ready() > 0 || balance::steal(cpu, local, me)
}

/// The CPU will run something: it wants nothing any more.
pub(crate) fn awake(cpu: &Cpu) {
    IDLE.withdraw(cpu.number());
}
