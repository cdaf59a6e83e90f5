//! The step of an idle thread, whose life is in `life/start_up.rs`.
//!
//! *Interface*: [`wait`] is the step; [`has_work`] says whether there is any; [`awake`] ends idleness.
//!
//! An idle CPU takes threads from all steal queues (`balance`). When they are empty it sets its bit in
//! `IDLE`, searches once more, and halts. The next CPU that puts a thread in a steal queue interrupts it: one
//! interrupt, to one CPU, which wakes the next if there are more threads.
//!
//! A halted CPU is not announced to `sync::epoch` as idle, because an interrupt handler there reads shared
//! memory before it could announce the end of idleness. So an interrupt ends a grace period there too. An
//! idle thread does not run callbacks of a grace period either: if it were preempted in the middle, it might
//! not get the CPU back for an unlimited time, with all the callbacks that it has taken (`life/grace.rs`).
//! Source: dissertation, section 5.3.1.

use crate::balance;
use crate::balance::cpu_time_sampling;
use crate::ring::idle_cpus::IDLE;
use crate::ring::per_cpu::PerCpu;
use crate::running::handover::{receive, switch};
use crate::tte::Tte;
use machine::cpu::{Cpu, cpus, irq_disable};

/// Runs others, or halts until an interrupt. With interrupts off, also on return.
pub(crate) fn wait(cpu: &Cpu, local: &PerCpu, me: &Tte) {
    if has_work(cpu, local, me) {
        balance::pass_on();
        cpu_time_sampling::begin(local);
        return switch(cpu, me);
    }
    if cpus() > 1 {
        IDLE.announce(cpu.number());
        if balance::steal(cpu, local, me) {
            awake(cpu);
            balance::pass_on();
            cpu_time_sampling::begin(local);
            return switch(cpu, me);
        }
    }
    machine::cpu::wait_for_interrupt();
    // Bound: a word of the idle CPUs, then a look at ring and inbox, or halt.
    irq_disable();
    awake(cpu);
}

/// Whether a thread is ready here, if necessary after taking one from a steal queue.
pub(crate) fn has_work(cpu: &Cpu, local: &PerCpu, me: &Tte) -> bool {
    receive(local, me);
    local.ring.ready() > 0 || balance::steal(cpu, local, me)
}

/// The CPU will run something: it wants nothing any more.
pub(crate) fn awake(cpu: &Cpu) {
    // Another CPU may have come up since this one announced that it is idle.
    if IDLE.any() {
        IDLE.withdraw(cpu.number());
    }
}
