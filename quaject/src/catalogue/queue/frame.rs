//! The frame of a descriptor routine at one end of a queue, which a monitor serializes: what all such
//! routines do around the queue's string put or get.
//!
//! *Interface*: [`Frame::new`]; [`Frame::look`] first, [`Frame::enter`] when the arguments are right and rcx
//! is on the stack, [`Frame::end`] last. Where nothing is on the stack a routine goes to [`Frame::leave`];
//! where the monitor is taken and rcx is on the stack, to [`Frame::unlock`]. Both take the slow exit.

use crate::kit::assembly::Assembly;
use crate::kit::emit;
use crate::kit::seam::{Seam, Sharing, Unmade, Variant, near};
use codegen::{Draft, Hole, Label, dynasm};
use sync::WaitList;
use sync::monitor::RawMonitor;

/// The frame of one routine.
pub(crate) struct Frame<'a> {
    seam: &'a Seam,
    /// The assumptions of the routine.
    pub v: Variant,
    word: i32,
    wake_next: Hole,
    /// The slow exit where nothing is on the stack.
    pub leave: Label,
    /// The slow exit with the monitor taken and rcx on the stack.
    pub unlock: Label,
}

impl<'a> Frame<'a> {
    /// Of a routine that `monitor` serializes.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn new(a: &mut Assembly, monitor: &RawMonitor, seam: &'a Seam) -> Result<Self, Unmade> {
        Ok(Frame {
            seam,
            v: seam.variant(Sharing::Shared),
            // The monitor's word is its first field.
            word: near(monitor)? as i32,
            wake_next: Hole::value(seam.wake_next.entry() as i64),
            leave: a.label(),
            unlock: a.label(),
        })
    }

    /// Leaves unless the monitor is free, where to see that is enough.
    pub fn look(&self, d: &mut Draft) {
        emit::look(d, self.v, self.word, self.leave);
    }

    /// Takes the monitor, where it has to be taken, or leaves.
    pub fn enter(&self, d: &mut Draft) {
        emit::enter(d, self.v, self.word, self.leave);
    }

    /// Wakes those who wait in `list`, if there are any and `unless` does not go to the label that it gets.
    /// rax stays.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn wake(
        &self,
        a: &mut Assembly,
        list: &WaitList,
        unless: impl FnOnce(&mut Assembly, Label),
    ) -> Result<(), Unmade> {
        let list = near(list)? as i32;
        let [tell, over] = core::array::from_fn(|_| a.label());
        emit::look_for_waiters(a, list, tell);
        a.bind(over);
        a.cold(|a| {
            a.bind(tell);
            unless(a, over);
            dynasm!(a ; .arch x64 ; push rax);
            emit::wake_waiters(a, list, self.seam);
            dynasm!(a ; .arch x64 ; pop rax ; jmp =>over);
        });
        Ok(())
    }

    /// Gives the monitor back and returns what is in rax; the slow exits of call `number`.
    pub fn end(&self, a: &mut Assembly, number: usize) {
        self.give(a);
        dynasm!(a ; .arch x64 ; ret);
        a.cold(|a| {
            a.bind(self.unlock);
            self.give(a);
            a.bind(self.leave);
            emit::leave_slowly(a, number, Hole::value(self.seam.slow() as i64));
        });
    }

    fn give(&self, d: &mut Draft) {
        emit::give(d, self.v, self.word, self.wake_next);
        dynasm!(d ; .arch x64 ; pop rcx);
    }
}
