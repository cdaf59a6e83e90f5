//! The frame of a descriptor routine at an end of a queue where many may be: what all such routines do around
//! the queue's string put or get.
//!
//! *Interface*: [`Frame::new`]; [`Frame::end`] last. Where nothing is on the stack a routine goes to
//! [`Frame::leave`]; where rcx is, to [`Frame::undo`]. Both take the slow exit.

use crate::kit::assembly::Assembly;
use crate::kit::emit;
use crate::kit::routine_env::{RoutineEnv, RoutineError, Sharing, near};
use crate::kit::variant::Variant;
use codegen::{Hole, Label, dynasm};
use sync::WaitList;

/// The frame of one routine.
pub(crate) struct Frame<'a> {
    env: &'a RoutineEnv,
    /// The assumptions of the routine.
    pub v: Variant,
    /// The slow exit where nothing is on the stack.
    pub leave: Label,
    /// The slow exit with rcx on the stack.
    pub undo: Label,
}

impl<'a> Frame<'a> {
    /// Of a routine of `a`.
    pub fn new(a: &mut Assembly, env: &'a RoutineEnv) -> Self {
        Frame {
            env,
            v: env.variant(Sharing::Shared),
            leave: a.label(),
            undo: a.label(),
        }
    }

    /// Wakes those who wait in `list`, if there are any and `unless` does not go to the label that it gets.
    /// rax stays.
    ///
    /// # Errors
    /// [`RoutineError`].
    pub fn wake(
        &self,
        a: &mut Assembly,
        list: &WaitList,
        unless: impl FnOnce(&mut Assembly, Label),
    ) -> Result<(), RoutineError> {
        let list = near(list)? as i32;
        let [tell, over] = core::array::from_fn(|_| a.label());
        emit::look_for_waiters(a, list, tell);
        a.bind(over);
        a.cold(|a| {
            a.bind(tell);
            unless(a, over);
            dynasm!(a ; .arch x64 ; push rax);
            emit::wake_waiters(a, list, self.env.wake_all.entry());
            dynasm!(a ; .arch x64 ; pop rax ; jmp =>over);
        });
        Ok(())
    }

    /// Returns what is in rax; the slow exits of call `number`.
    pub fn end(&self, a: &mut Assembly, number: usize) {
        dynasm!(a ; .arch x64 ; pop rcx ; ret);
        a.cold(|a| {
            dynasm!(a ; .arch x64 ; =>self.undo ; pop rcx ; =>self.leave);
            emit::leave_slowly(a, number, Hole::value(self.env.slow() as i64));
        });
    }
}
