//! Gauge: counts events, such as calls, arrivals and interrupts, as a basis for decisions.
//!
//! *Interface*: callentry `count` is one instruction, so it is always inlined into its caller ([`count`]);
//! [`Gauge::read`] and [`Gauge::take`] look at it.
//!
//! Source: Massalin and Pu 1989, section 2.3 (schedulers use gauges to collect data for scheduling
//! decisions).
//!
//! *Unsafe*: the word in a near block; safety contracts of `count` and of a descriptor's routines.

use crate::kit::assembly::{Assembly, Continuation};
use crate::kit::class::{Header, Ref};
use crate::kit::interfacer::{Callentry, Entry, Target};
use crate::kit::near_memory::NearBlock;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{DescFn, RoutineError, near};
use crate::kit::signature::Event;
use alloc::sync::Arc;
use codegen::{Class, Draft, Routine, dynasm};
use core::sync::atomic::{AtomicU64, Ordering};

/// One gauge.
pub struct Gauge {
    block: NearBlock,
    several_cpus: bool,
    count: Routine<extern "sysv64" fn()>,
}

crate::quaject! {
    /// Counts events
    class Gauge = "Gauge", spec bool, error RoutineError {
        callentry { COUNT: Event = "count", READ = "read", TAKE = "take" }
    }
    make |several_cpus, _| Gauge::new(several_cpus);
    callentry |gauge: &Ref<Gauge>, number| (number == COUNT).then(|| target(gauge));
}

static CODE: Class = Class::new("gauge count");
static CALLED: Class = Class::new("callentry");

impl Gauge {
    fn new(several_cpus: bool) -> Result<Gauge, RoutineError> {
        let block = NearBlock::new(size_of::<AtomicU64>()).ok_or(RoutineError::OutOfMemory)?;
        let mut draft = Draft::new(&CODE, "count");
        emit(&mut draft, &block, several_cpus)?;
        let d = &mut draft;
        dynasm!(d ; .arch x64 ; ret);
        Ok(Gauge {
            block,
            several_cpus,
            // SAFETY: it increments a word of the block, which the gauge keeps beside it.
            count: unsafe { Routine::from(draft.seal()?) },
        })
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: the block holds one zeroed word.
        unsafe { self.block.at().cast::<AtomicU64>().as_ref() }
    }

    /// Callentry `count`.
    pub fn count(&self) {
        self.count.function()();
    }

    /// Events so far.
    pub fn read(&self) -> u64 {
        self.word().load(Ordering::Relaxed)
    }

    /// Callentry `number` for a program ([`crate::maker::Made::descriptor_routine`]); None: no such.
    pub fn descriptor_routine(
        &self,
        number: usize,
    ) -> Option<Result<Routine<DescFn>, RoutineError>> {
        (number <= TAKE).then(|| self.synthesize(number))
    }

    // A draft is large, and so has a frame of its own.
    #[inline(never)]
    fn synthesize(&self, number: usize) -> Result<Routine<DescFn>, RoutineError> {
        let mut draft = Draft::new(&CALLED, "of a gauge");
        let d = &mut draft;
        let word = near(self.block.at().as_ptr())? as i32;
        match number {
            COUNT => {
                emit(d, &self.block, self.several_cpus)?;
                dynasm!(d ; .arch x64 ; xor eax, eax ; ret);
            }
            READ => dynasm!(d ; .arch x64 ; mov rax, [word] ; btr rax, 63 ; ret),
            _ => dynasm!(d ; .arch x64 ; xor eax, eax ; xchg rax, [word] ; btr rax, 63 ; ret),
        }
        // SAFETY: it reads or changes the gauge's word and rax; the caller keeps the gauge as long.
        Ok(unsafe { Routine::from(draft.seal()?) })
    }

    /// Events since the last `take`.
    pub fn take(&self) -> u64 {
        self.word().swap(0, Ordering::Relaxed)
    }
}

fn emit(d: &mut Draft, block: &NearBlock, several_cpus: bool) -> Result<(), RoutineError> {
    let word = near(block.at().as_ptr())? as i32;
    if several_cpus {
        dynasm!(d ; .arch x64 ; lock inc QWORD [word]);
    } else {
        dynasm!(d ; .arch x64 ; inc QWORD [word]);
    }
    Ok(())
}

/// Callentry `count` of `gauge`.
pub fn count(gauge: &Ref<Gauge>) -> Entry<Event> {
    // SAFETY: it changes the gauge's word and flags, and keeps the gauge.
    unsafe { Entry::new(target(gauge)) }
}

fn target(gauge: &Ref<Gauge>) -> Target {
    Arc::new(Count(gauge.clone()))
}

struct Count(Ref<Gauge>);

impl Callentry for Count {
    fn name(&self) -> &'static &'static str {
        &"count"
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.0.header())
    }
    fn changes(&self) -> Regs {
        Regs::NONE
    }
    fn changes_when_called(&self) -> Regs {
        Regs::NONE
    }
    fn emit(&self, a: &mut Assembly, _: Continuation) -> bool {
        emit(a, &self.0.block, self.0.several_cpus).is_ok()
    }
    fn entry(&self) -> usize {
        self.0.count.entry()
    }
}
