//! The monitor building block: lets several participants use an end that is made for one, in turns.
//!
//! *Interface*: [`Serializer::hold`] is for a participant in Rust whose operation is not the target. Callout
//! `target` is the guarded callentry; callentry `enter` ([`Serializer::enter`]) has its convention for one
//! argument and result (the argument in rdi, or behind `this`), and sleeps while another is inside. Takes one
//! compare-and-swap and one exchange without contention.
//!
//! Source: Massalin and Pu 1989, sections 2.3 and 5.2 (a monitor is attached to the end with multiple
//! participants); the word is `sync::Monitor`'s.

use crate::kit::class::Ref;
use crate::kit::interfacer::{Callentry, Linkable, place};
use crate::kit::near::Block;
use crate::kit::plug::Plug;
use crate::kit::regs::Regs;
use crate::kit::seam::{Unmade, near};
use alloc::sync::Arc;
use codegen::{Class, Draft, Routine, dynasm};
use sync::Monitor;
use sync::monitor::{CONTENDED, RawMonitor};

/// The contract of `enter`: that of the target, for one argument and one result.
type EnterFn = extern "sysv64" fn(argument: usize) -> usize;

/// One serializer.
pub struct Serializer {
    block: Block,
    target: Monitor<Option<Arc<dyn Callentry>>>,
    enter: Plug<EnterFn>,
}

crate::quaject! {
    /// Serializes the participants at an end that is made for one
    class Serializer = "Monitor", spec (), error Unmade {
        callentry { ENTER = "enter" }
        callout { TARGET = "target" ("return 0") }
    }
    make |()| {
        let block = Block::new(size_of::<RawMonitor>()).ok_or(Unmade::OutOfMemory)?;
        // SAFETY: the block is large and aligned enough, and no other party has it.
        unsafe { block.at().cast::<RawMonitor>().write(RawMonitor::new()) };
        let enter = Plug::new(generate(&block, None)?.0);
        Ok(Serializer { block, target: Monitor::new(None), enter })
    };
}

static CODE: Class = Class::new("monitor enter");

impl Serializer {
    /// Callentry `enter`.
    pub fn enter(&self, argument: usize) -> usize {
        self.enter.call(|enter| enter(argument))
    }

    pub(crate) fn monitor(&self) -> &RawMonitor {
        // SAFETY: the block was made to hold the monitor.
        unsafe { self.block.at().cast::<RawMonitor>().as_ref() }
    }

    /// Takes the turn, sleeping while another is inside, until the result is dropped.
    pub fn hold(&self) -> Held<'_> {
        self.monitor().lock();
        Held(self)
    }
}

/// A turn that was taken with [`Serializer::hold`].
pub struct Held<'a>(&'a Serializer);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.monitor().unlock();
    }
}

/// Callentry `enter` of `serializer` for the callout of another, which gives the argument.
pub fn enter(serializer: &Ref<Serializer>) -> Arc<dyn Callentry> {
    Arc::new(Enter(serializer.clone()))
}

struct Enter(Ref<Serializer>);

extern "sysv64" fn enter_it(serializer: *const Serializer, argument: usize) -> usize {
    // SAFETY: the callentry passes the serializer that it keeps.
    unsafe { &*serializer }.enter(argument)
}

impl Callentry for Enter {
    fn name(&self) -> &'static &'static str {
        &"enter"
    }
    fn owner(&self) -> u32 {
        self.0.header().number()
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    // Through Rust, since the target may sleep.
    fn entry(&self) -> usize {
        enter_it as *const () as usize
    }
    fn this(&self) -> Option<usize> {
        Some(core::ptr::from_ref(&*self.0).expose_provenance())
    }
    fn is_compiled(&self) -> bool {
        true
    }
}

impl Linkable for Serializer {
    fn relink(&self, port: usize, target: Option<Arc<dyn Callentry>>) -> Result<bool, Unmade> {
        if port != TARGET {
            return Err(Unmade::BadSpec);
        }
        let mut linked = self.target.lock();
        let (routine, in_line) = generate(&self.block, target.as_deref())?;
        self.enter.replug(routine);
        let old = core::mem::replace(&mut *linked, target);
        // A linked object may take its own monitors when it is dropped.
        drop(linked);
        drop(old);
        Ok(in_line)
    }
}

extern "sysv64" fn wait(monitor: *const RawMonitor) {
    // SAFETY: the code passes the monitor of its own quaject.
    unsafe { &*monitor }.lock_for_code();
}

extern "sysv64" fn wake(monitor: *const RawMonitor) {
    // SAFETY: as above.
    unsafe { &*monitor }.wake_next();
}

fn generate(
    block: &Block,
    target: Option<&dyn Callentry>,
) -> Result<(Routine<EnterFn>, bool), Unmade> {
    let word = near(block.at().as_ptr())? as i32;
    let mut draft = Draft::new(&CODE, "enter");
    let d = &mut draft;
    let mut in_line = false;
    // The push also aligns the stack for the calls below.
    dynasm!(d ; .arch x64
        ; push rdi
        ; xor eax, eax
        ; mov ecx, 1
        ; lock cmpxchg [word], ecx
        ; jne >busy
        ; inside:
        ; mov rdi, [rsp]
        ; mov rsi, rdi
        ; xor eax, eax
    );
    if let Some(target) = target {
        in_line = place(d, target, Regs::NONE, &[]);
    }
    dynasm!(d ; .arch x64
        ; xor ecx, ecx
        ; xchg [word], ecx
        ; test ecx, CONTENDED as i32
        ; jne >wanted
        ; out_of_it:
        ; pop rdi
        ; ret
        ; busy:
        ; mov rdi, word
    );
    d.call_abs(wait as *const () as usize);
    dynasm!(d ; .arch x64 ; jmp <inside ; wanted: ; mov [rsp], rax ; mov rdi, word);
    d.call_abs(wake as *const () as usize);
    dynasm!(d ; .arch x64 ; mov rax, [rsp] ; jmp <out_of_it);
    // SAFETY: it keeps the System V convention, and the block is kept beside the plug.
    Ok((unsafe { Routine::from(draft.seal()?) }, in_line))
}

#[cfg(all(test, not(loom)))]
#[path = "serializer_tests.rs"]
mod tests;
