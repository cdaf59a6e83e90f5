//! The monitor building block: lets several participants use an end that is made for one, in turns.
//!
//! *Interface*: [`Serializer::hold`] is for a participant in Rust whose operation is not the target. Callout
//! `target` is the guarded callentry; callentry `enter` ([`Serializer::enter`]) has its convention for one
//! argument and result (the argument in rdi, or behind `this`), and sleeps while another is inside. Takes one
//! compare-and-swap and one exchange without contention.
//!
//! Source: Massalin and Pu 1989, sections 2.3 and 5.2 (a monitor is attached to the end with multiple
//! participants); the word is `sync::Monitor`'s.
//!
//! *Unsafe*: a monitor in a near block; safety contract of `enter`.

use crate::kit::assembly::{Assembly, Continuation, Made, Published};
use crate::kit::class::{Header, Holder, Ref};
use crate::kit::interfacer::{Callentry, Entry, Target};
use crate::kit::near_memory::NearBlock;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{RoutineError, near};
use crate::kit::signature::Put;
use alloc::sync::Arc;
use codegen::idioms::{Reg, constant};
use codegen::{Class, dynasm};
use sync::monitor::{CONTENDED, RawMonitor};

/// The contract of `enter`: a byte; 0 when the target has not taken it.
type EnterFn = extern "sysv64" fn(byte: usize) -> usize;

/// One serializer.
pub struct Serializer {
    header: &'static Header,
    block: NearBlock,
    enter: Published<EnterFn>,
}

crate::quaject! {
    /// Serializes the participants at an end that is made for one
    class Serializer = "Monitor", spec (), error RoutineError {
        callentry { ENTER: Put = "enter" }
        callout { TARGET: Put = "target" ("return 0") }
    }
    make |(), header| {
        let block = NearBlock::new(size_of::<RawMonitor>()).ok_or(RoutineError::OutOfMemory)?;
        // SAFETY: the block is large and aligned enough, and no other party has it.
        unsafe { block.at().cast::<RawMonitor>().write(RawMonitor::new()) };
        let enter = Published::new(generate(&block, header)?);
        Ok(Serializer { header, block, enter })
    };
    remake |serializer: &Serializer, _| {
        serializer.enter.publish(generate(&serializer.block, serializer.header)?);
        Ok(())
    };
    callentry |serializer: &Ref<Serializer>, number| (number == ENTER).then(|| target(serializer));
}

static CODE: Class = Class::new("monitor enter");

impl Serializer {
    /// Callentry `enter`.
    pub fn enter(&self, byte: usize) -> usize {
        self.enter.call(|enter| enter(byte))
    }

    pub(crate) fn monitor(&self) -> &RawMonitor {
        // SAFETY: the block was made to hold the monitor.
        unsafe { self.block.at().cast::<RawMonitor>().as_ref() }
    }

    /// Takes the turn if nobody is inside. From anywhere.
    pub fn try_hold(&self) -> Option<Held<'_>> {
        self.monitor().try_lock().then(|| Held(self))
    }

    /// Takes the turn, sleeping while another is inside, until the result is dropped.
    pub fn hold(&self) -> Held<'_> {
        // Bound: the building block itself: what the holder does, or what is linked behind it.
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

/// Callentry `enter` of `serializer` for the callout of another. The entered call may sleep.
pub fn enter(serializer: &Ref<Serializer>) -> Entry<Put> {
    // SAFETY: it takes the byte as the target does, and keeps the serializer.
    unsafe { Entry::new(target(serializer)) }
}

fn target(serializer: &Ref<Serializer>) -> Target {
    Arc::new(Enter(serializer.clone()))
}

struct Enter(Ref<Serializer>);

extern "sysv64" fn enter_it(serializer: *const Serializer, byte: usize) -> usize {
    // SAFETY: the callentry passes the serializer that it keeps.
    unsafe { &*serializer }.enter(byte)
}

impl Callentry for Enter {
    fn name(&self) -> &'static &'static str {
        &"enter"
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.0.header())
    }
    fn through(&self) -> u16 {
        1 << TARGET.number()
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    fn emit(&self, a: &mut Assembly, way: Continuation) -> bool {
        emit(a, &self.0.block, self.0.header(), way).is_ok()
    }
    // Through Rust, since what is entered may sleep.
    fn entry(&self) -> usize {
        enter_it as *const () as usize
    }
    fn this(&self) -> Option<usize> {
        Some(core::ptr::from_ref(&*self.0).expose_provenance())
    }
    fn is_compiled(&self) -> bool {
        true
    }
    fn may_wait(&self) -> bool {
        true
    }
}

extern "sysv64" fn wait(monitor: *const RawMonitor) {
    // SAFETY: the code passes the monitor of its own quaject.
    // Bound: the building block itself: what is linked behind it.
    unsafe { &*monitor }.lock_for_code();
}

extern "sysv64" fn wake(monitor: *const RawMonitor) {
    // SAFETY: as above.
    unsafe { &*monitor }.wake_next();
}

/// Enters the target with the byte in edi and esi. Changes what a System V function may.
fn emit(
    a: &mut Assembly,
    block: &NearBlock,
    header: &'static Header,
    way: Continuation,
) -> Result<(), RoutineError> {
    let word = near(block.at().as_ptr())? as i32;
    let Some(link) = a.use_link(header, TARGET.number()) else {
        dynasm!(a ; .arch x64 ; jmp =>way.no);
        return Ok(());
    };
    let [busy, inside, refused, over] = core::array::from_fn(|_| a.label());
    dynasm!(a ; .arch x64
        ; xor eax, eax
        ; mov ecx, 1
        ; lock cmpxchg [word], ecx
        ; jne =>busy
        ; =>inside
    );
    a.place(link, Regs::NONE, Some(refused), &[]);
    leave(a, word);
    dynasm!(a ; .arch x64 ; =>over);
    a.cold(|a| {
        let argument = Regs::of(&[Reg::Rdi, Reg::Rsi]);
        a.bind(busy);
        argument.save(a);
        constant(a, Reg::Rdi, word as u64);
        a.call_compiled(wait as *const () as usize, Regs::NONE);
        argument.restore(a);
        dynasm!(a ; .arch x64 ; jmp =>inside ; =>refused);
        leave(a, word);
        dynasm!(a ; .arch x64 ; jmp =>way.no);
    });
    Ok(())
}

/// Gives the turn back. Changes what a System V function may.
fn leave(a: &mut Assembly, word: i32) {
    let [wanted, out_of_it] = core::array::from_fn(|_| a.label());
    dynasm!(a ; .arch x64
        ; xor ecx, ecx
        ; xchg [word], ecx
        ; test ecx, CONTENDED as i32
        ; jne =>wanted
        ; =>out_of_it
    );
    a.cold(|a| {
        a.bind(wanted);
        constant(a, Reg::Rdi, word as u64);
        a.call_compiled(wake as *const () as usize, Regs::NONE);
        dynasm!(a ; .arch x64 ; jmp =>out_of_it);
    });
}

fn generate(block: &NearBlock, header: &'static Header) -> Result<Made<EnterFn>, RoutineError> {
    let mut a = Assembly::new(&CODE, "enter", Some(Holder::Member(header)));
    let no = a.label();
    dynasm!(a ; .arch x64 ; mov esi, edi);
    let live = Regs::NONE;
    emit(&mut a, block, header, Continuation { no, live })?;
    dynasm!(a ; .arch x64 ; mov eax, 1 ; ret ; =>no ; xor eax, eax ; ret);
    // SAFETY: it keeps the System V convention, and the block is kept beside the plug.
    unsafe { a.seal(None) }
}

#[cfg(all(test, not(loom)))]
#[path = "serializer_tests.rs"]
mod tests;
