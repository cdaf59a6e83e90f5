//! The dispatcher that a thread has: at its beginning one that answers nothing, later its own.
//!
//! *Interface*: [`begin`] for a new thread; `Tte::set_dispatcher` and `Tte::set_slow_dispatcher`;
//! `Tte::has_begun` and `Tte::end_beginning` at its calls.

use super::{DispatchPlan, Kpt, NoLeaves, Spec, rest};
use crate::ring::per_cpu::here;
use crate::tte::code::Dispatcher;
use crate::tte::resources::Resources;
use crate::tte::{NoMemory, Thread, Tte};
use core::sync::atomic::Ordering;
use machine::cpu::{irq_restore, irq_save};

/// With so many calls a thread has shown that a dispatcher of its own will pay.
const CALLS: u8 = 8;

/// A new thread's initial dispatcher, which answers no call itself. It depends only on the stack, so it is
/// kept with the stack for the next thread. The thread's own dispatcher is made when the thread turns out to
/// need it (section 5.3.3: a thread begins with what it shares).
pub(crate) fn begin(thread: &Thread, parts: &mut Resources) -> Result<(), NoMemory> {
    let starter = match &mut parts.starter {
        Some(starter) => starter,
        none => none.insert(Dispatcher::synthesize(thread, &SLOW, rest())?),
    };
    thread.dispatch.store(starter.entry(), Ordering::Release);
    thread
        .read_again
        .store(starter.read_again(), Ordering::Release);
    thread.beginning.store(CALLS, Ordering::Release);
    Ok(())
}

static ALL_SLOW: DispatchPlan = DispatchPlan::of::<NoLeaves>();
/// A dispatcher that answers nothing itself.
const SLOW: Spec = Spec {
    kpt: Kpt::NONE,
    plan: &ALL_SLOW,
    values: &[],
    own: None,
};

impl Tte {
    /// Gives the thread a new dispatcher. Another CPU that runs the thread takes it up at its next interrupt,
    /// which this sends, or crossing; until then the old one answers. Thread context.
    ///
    /// # Errors
    /// No memory: the old one stays.
    pub fn set_dispatcher(&self, spec: &Spec) -> Result<(), NoMemory> {
        self.answer_by(Dispatcher::synthesize(self, spec, rest())?);
        Ok(())
    }

    fn answer_by(&self, dispatcher: Dispatcher) {
        // Bound: generating one dispatcher (15 000 instructions); only the thread itself and a thread that
        // changes its table.
        let mut slot = self.dispatcher.lock();
        self.dispatch.store(dispatcher.entry(), Ordering::Release);
        self.read_again
            .store(dispatcher.read_again(), Ordering::Release);
        self.beginning.store(0, Ordering::Release);
        let former = slot.replace(dispatcher);
        // Bound: a few words of entry and CPU.
        let irq = irq_save();
        let (cpu, _, me) = here();
        if me.is(self) {
            cpu.dispatcher
                .store(self.dispatch.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        irq_restore(irq);
        self.nudge();
        drop(slot);
        drop(former);
    }

    /// The running thread, which this is, makes a call: whether it has made so many that it should get a
    /// dispatcher of its own.
    pub fn has_begun(&self) -> bool {
        let left = self.beginning.load(Ordering::Relaxed).saturating_sub(1);
        if left != 0 {
            self.beginning.store(left, Ordering::Relaxed);
        }
        left == 0
    }

    /// The running thread, which this is, is about to get a dispatcher of its own.
    pub fn end_beginning(&self) {
        self.beginning.store(0, Ordering::SeqCst);
    }

    /// Gives the thread a dispatcher that takes all calls the slow way.
    ///
    /// # Errors
    /// No memory: the old one stays.
    pub fn set_slow_dispatcher(&self) -> Result<(), NoMemory> {
        let slow = machine::trap::syscall_slow();
        self.answer_by(Dispatcher::synthesize(self, &SLOW, slow)?);
        Ok(())
    }
}
