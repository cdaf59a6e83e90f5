//! Affinity: the CPUs on which a thread may run.
//!
//! *Interface*: [`Tte::set_allowed`] and [`Tte::move_soon`] from any thread, at any time; [`apply_affinity`]
//! by the thread itself before it enters user mode; [`Tte::may_run_on`] and [`Tte::may_leave`] for the
//! balancing.
//!
//! The switch and the rings know nothing of it. Balancing gives a thread to no CPU on which it may not run.
//! A thread that is on such a CPU all the same, because its CPUs were set while it was there, is marked as
//! one with restartable sequences is, and moves itself at its next return to user mode: it sleeps, and an
//! alarm of its CPU sends it to another one. Only a CPU that has switched a thread out may send it away.

use crate::clock;
use crate::ring::inbox::send_home;
use crate::ring::per_cpu::{here, local};
use crate::ring::reschedule_ipi;
use crate::running::block;
use crate::tte::flags::SEQUENCE;
use crate::tte::{Tte, current, token};
use core::sync::atomic::Ordering;
use machine::clock::now_ns;
use machine::cpu::{cpus, irq_disable, irq_enable};

impl Tte {
    /// The thread may run on the CPUs of `mask`, a bit for each, of which at least one is up. It leaves any
    /// other before it is in user mode again.
    pub fn set_allowed(&self, mask: u32) {
        self.allowed.store(mask, Ordering::Relaxed);
        if !self.is_in_place() && self.on_ring.is_some() {
            reschedule_ipi::send(self.cpu());
        }
    }

    /// The thread is better off on CPU number `cpu`: it goes there before it is next in user mode, if it may
    /// run there.
    pub fn move_soon(&self, cpu: usize) {
        if cpu < cpus() {
            self.wish.store(cpu as u8 + 1, Ordering::Relaxed);
            self.state.fetch_or(SEQUENCE, Ordering::AcqRel);
        }
    }

    /// Where it is better off, if it may run there.
    fn wished(&self) -> Option<usize> {
        let cpu = usize::from(self.wish.load(Ordering::Relaxed)).checked_sub(1)?;
        self.may_run_on(cpu).then_some(cpu)
    }
}

/// The running thread moves to a CPU on which it may run, if it is on another one. With interrupts on.
pub fn apply_affinity() {
    // Bound: a look at the CPU’s number; setting one alarm and going to sleep.
    irq_disable();
    loop {
        let (cpu, _, me) = here();
        let stays = me.wished().is_none_or(|there| there == cpu.number());
        if stays && me.may_run_on(cpu.number()) || destination(me).is_none() {
            break;
        }
        // Interrupts are off, so that the alarm finds it asleep. Without memory for an alarm it stays for
        // now.
        let Ok(alarm) = clock::alarm(now_ns(), depart, me.address()) else {
            break;
        };
        block::suspend();
        clock::cancel(alarm);
        irq_disable();
    }
    current().wish.store(0, Ordering::Relaxed);
    irq_enable();
}

/// Of the CPUs on which the thread may run the one that it wishes, or else the one with the fewest ready
/// threads.
fn destination(tte: &Tte) -> Option<usize> {
    let least = || {
        (0..cpus())
            .filter(|&cpu| tte.may_run_on(cpu))
            .min_by_key(|&cpu| local(cpu).ring.all_ready())
    };
    tte.wished().or_else(least)
}

/// Sends the thread with this address, asleep in [`apply_affinity`], to a CPU on which it may run. Called by
/// the alarm on the CPU that has switched it out.
fn depart(address: usize) {
    // SAFETY: the address of an entry, which is never unmapped.
    let tte = unsafe { &*(address as *const Tte) };
    if !token::rouse(&tte.state) {
        return block::resume(tte);
    }
    let (cpu, _, _) = here();
    match destination(tte) {
        Some(there) if tte.cpu() == cpu.number() && there != cpu.number() => {
            tte.move_to(there);
            send_home(tte);
        }
        _ => block::wake(tte),
    }
}
