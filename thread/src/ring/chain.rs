//! Procedure chaining: a procedure runs at the end of the interrupt that this CPU is handling.
//!
//! *Interface*: [`chain`], from handlers and from anywhere else with interrupts on or off; the gate calls
//! `run` at the end of each interrupt.
//!
//! Two handlers that would interfere with each other are not separated by a lock: the second one's work is
//! done after the first. A CPU's chain is a fixed array that only this CPU touches, with interrupts off. At
//! the end of the outermost interrupt its procedures run in order, each with interrupts off and with
//! interrupts on before it, before the CPU returns to the interrupted code or switches. An interrupt that
//! comes in between adds to the same chain and leaves running the chain to the interrupt below. So a handler
//! with much work does a little and chains the rest. For `sync::epoch` all of this is one interrupt: a
//! chained procedure may read whatever its handler could read.
//!
//! The dissertation changes the return address on the stack; here all interrupts leave through one piece of
//! code, which checks one word.
//! Progress: wait-free. Source: Massalin and Pu, "Threads and Input/Output in the Synthesis Kernel", sections
//! 3.1 and 4.4; dissertation, section 5.3.2.

use crate::ring::per_cpu::{PerCpu, here};
use crate::ring::reschedule_ipi;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use machine::cpu::{irq_restore, irq_save, irq_window};

/// Procedures that a chain has room for.
pub const LINKS: usize = 64;

/// The chain has no room for one more procedure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// In [`Chain::state`]: its procedures are being run.
const RUNNING: u32 = 1 << 31;

/// One CPU's chain. On that CPU, with interrupts off.
pub(crate) struct Chain {
    links: [(AtomicUsize, AtomicUsize); LINKS],
    /// Index of the first procedure.
    first: AtomicU32,
    /// How many there are, and [`RUNNING`].
    state: AtomicU32,
}

impl Chain {
    pub const fn new() -> Self {
        Chain {
            links: [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; LINKS],
            first: AtomicU32::new(0),
            state: AtomicU32::new(0),
        }
    }

    /// Whether nothing is chained and nothing chained runs.
    #[inline(always)]
    pub fn is_still(&self) -> bool {
        self.state.load(Ordering::Relaxed) == 0
    }

    /// A number that grows with each procedure that is chained in the current handler, and else only when the
    /// chain is run.
    #[inline(always)]
    pub fn mark(&self) -> u32 {
        self.state.load(Ordering::Relaxed)
    }

    fn is_running(&self) -> bool {
        self.state.load(Ordering::Relaxed) & RUNNING != 0
    }

    fn put(&self, procedure: fn(usize), argument: usize) -> Result<(), Full> {
        let state = self.state.load(Ordering::Relaxed);
        let count = state & !RUNNING;
        if count as usize == LINKS {
            return Err(Full);
        }
        let at = self.first.load(Ordering::Relaxed).wrapping_add(count) as usize % LINKS;
        self.links[at]
            .0
            .store(procedure as usize, Ordering::Relaxed);
        self.links[at].1.store(argument, Ordering::Relaxed);
        // There is room, so the count does not reach the mark.
        self.state.store(state.wrapping_add(1), Ordering::Relaxed);
        Ok(())
    }

    fn take(&self) -> Option<(fn(usize), usize)> {
        let state = self.state.load(Ordering::Relaxed);
        if state & !RUNNING == 0 {
            return None;
        }
        let first = self.first.load(Ordering::Relaxed);
        let (procedure, argument) = &self.links[first as usize % LINKS];
        self.first.store(first.wrapping_add(1), Ordering::Relaxed);
        self.state.store(state.wrapping_sub(1), Ordering::Relaxed);
        // SAFETY: `put` stored a `fn(usize)`.
        let procedure =
            unsafe { core::mem::transmute::<usize, fn(usize)>(procedure.load(Ordering::Relaxed)) };
        Some((procedure, argument.load(Ordering::Relaxed)))
    }

    /// Runs the chained procedures in order. At the end of an interrupt; interrupts are off at entry and
    /// return, and on in between.
    #[cold]
    #[inline(never)]
    pub fn run(&self) {
        if self.is_running() {
            return;
        }
        self.state.fetch_or(RUNNING, Ordering::Relaxed);
        while self.state.load(Ordering::Relaxed) != RUNNING {
            irq_window();
            if let Some((procedure, argument)) = self.take() {
                procedure(argument);
            }
        }
        self.state.store(0, Ordering::Relaxed);
    }

    /// Whether an interrupt ends inside the chain of another interrupt, which continues the chain and then
    /// chooses the next thread.
    #[inline(always)]
    pub fn is_below(&self) -> bool {
        self.is_running()
    }
}

/// Calls `procedure(argument)`, with interrupts off, at the end of the interrupt that this CPU is handling:
/// after the procedures chained before it, and before any interrupted or woken thread continues. Outside an
/// interrupt it is called at once if interrupts are on, and otherwise by an interrupt as soon as they are. It
/// may resume threads, set alarms and chain, but not sleep.
///
/// # Errors
/// [`LINKS`] procedures are chained here already.
pub fn chain(procedure: fn(usize), argument: usize) -> Result<(), Full> {
    // Bound: a few words; outside an interrupt the procedure itself.
    let irq = irq_save();
    if irq != 0 {
        procedure(argument);
        irq_restore(irq);
        return Ok(());
    }
    let (cpu, local, _): (_, &PerCpu, _) = here();
    local.chain.put(procedure, argument)?;
    if !cpu.handles_interrupt() {
        reschedule_ipi::send(cpu.number());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::RefCell;

    thread_local! { static CALLED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) }; }

    fn called(argument: usize) {
        CALLED.with_borrow_mut(|c| c.push(argument));
    }

    #[test]
    fn procedures_run_in_order_and_once() {
        let chain = Chain::new();
        assert!(chain.is_still());
        for round in 0..5 {
            CALLED.with_borrow_mut(Vec::clear);
            for i in 0..LINKS - round {
                assert_eq!(chain.put(called, i), Ok(()));
            }
            assert!(!chain.is_still());
            chain.run();
            assert!(chain.is_still());
            assert!(CALLED.with_borrow(|c| c.iter().copied().eq(0..LINKS - round)));
        }
    }

    #[test]
    fn a_full_chain_refuses() {
        let chain = Chain::new();
        for i in 0..LINKS {
            assert_eq!(chain.put(called, i), Ok(()));
        }
        assert_eq!(chain.put(called, LINKS), Err(Full));
        assert!(chain.take().is_some());
        assert_eq!(chain.put(called, LINKS), Ok(()));
        assert_eq!(chain.put(called, LINKS), Err(Full));
    }

    static NESTED: Chain = Chain::new();

    /// The behaviour of an interrupt inside the chain: it chains and does not run the chain.
    fn interrupted(argument: usize) {
        NESTED.put(called, argument + 1).unwrap();
        assert!(NESTED.is_below());
        NESTED.run();
        called(argument);
    }

    #[test]
    fn a_chain_is_not_run_inside_itself() {
        CALLED.with_borrow_mut(Vec::clear);
        NESTED.put(interrupted, 1).unwrap();
        NESTED.put(interrupted, 5).unwrap();
        NESTED.run();
        assert!(NESTED.is_still());
        assert!(CALLED.with_borrow(|c| *c == [1, 5, 2, 6]));
    }
}
