//! The caller's process group, for generated code.
//!
//! *Interface*: [`CallerPgrp::entry`], a callentry that gives the number in eax and changes nothing else.
//! From the kernel stack to its thread, the thread's task, the task's process: a few loads, which stand in
//! the caller's place.
//!
//! Source: dissertation, section 4.1.3; docs/architecture.md, "The current CPU and thread".
//!
//! *Unsafe*: safety contract of a callentry.

use alloc::sync::Arc;
use codegen::idioms::Reg;
use codegen::{Class, Draft, OutOfCode, Routine, dynasm};
use core::mem::offset_of;
use machine::cpu::StackBase;
use quaject::assembly::{Assembly, Continuation};
use quaject::interfacer::{Callentry, Entry};
use quaject::regs::Regs;
use quaject::signature::Number;

use process::Task;

static CLASS: Class = Class::new("process group");

/// The callentry.
pub(super) struct CallerPgrp(Routine<extern "sysv64" fn()>);

impl CallerPgrp {
    /// The callentry.
    ///
    /// # Errors
    /// [`OutOfCode`].
    pub fn entry() -> Result<Entry<Number>, OutOfCode> {
        let mut draft = Draft::new(&CLASS, "group");
        emit(&mut draft);
        let d = &mut draft;
        dynasm!(d ; .arch x64 ; ret);
        // SAFETY: on the kernel stack of a task's thread it loads from that stack's base, the thread, its
        // task and the process, which are all there while the thread runs; it changes rax alone.
        let called = unsafe { Routine::from(draft.seal()?) };
        // SAFETY: a number in eax; it names nothing of its own.
        Ok(unsafe { Entry::new(Arc::new(CallerPgrp(called))) })
    }
}

fn emit(d: &mut Draft) {
    let last = StackBase::SLOT as i32 - 1;
    let thread = StackBase::TTE as i32 + 1 - StackBase::SIZE as i32;
    let task = thread::OWNER_OFFSET as i32;
    let group = offset_of!(Task, group_at) as i32;
    dynasm!(d ; .arch x64
        ; mov rax, rsp
        ; or rax, last
        ; mov rax, [rax + thread]
        ; mov rax, [rax + task]
        ; mov rax, [rax + group]
        ; mov eax, [rax]
    );
}

impl Callentry for CallerPgrp {
    fn name(&self) -> &'static &'static str {
        &"group"
    }
    fn changes(&self) -> Regs {
        Regs::of(&[Reg::Rax])
    }
    fn changes_when_called(&self) -> Regs {
        self.changes()
    }
    fn emit(&self, a: &mut Assembly, _: Continuation) -> bool {
        emit(a);
        true
    }
    fn entry(&self) -> usize {
        self.0.entry()
    }
}
