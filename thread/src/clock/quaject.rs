//! The Clock as a class: each member has one alarm, and rings when that comes.
//!
//! *Interface*: [`make`] makes one by name. Callentries `gettime`, `alarm` (at a time), `after` (so much
//! later) and `cancel`; the last has the signature `Event`, so that another's callback may cancel the alarm.
//! Callouts `rang` (`Event`) and `to` (`Put`: the clock's byte), which the timer's interrupt calls, first the
//! one and then the other; so neither may lead to a callentry that may wait. Times are nanoseconds, as of
//! [`now_ns`].
//!
//! The alarms are those of the CPUs' heaps (`crate::alarm`), and `pending.rs` says which of them rings. An
//! alarm finds a [`Bell`], which lives until a grace period has passed after its clock was given up.
//!
//! Source: dissertation, table 4.3 and figure 3.8.

use super::{AlarmId, alarm, cancel};
use crate::alarm::Key;
use crate::clock::pending::{Alarms, NoRoom, Pending};
use ::quaject::RoutineError;
use ::quaject::assembly::{Assembly, Made, Published};
use ::quaject::by_name::Quaject;
use ::quaject::class::{Header, Holder, Ref, create};
use ::quaject::compiled::callentry;
use ::quaject::interfacer::Target;
use ::quaject::maker::{self, Callable, Unable};
use ::quaject::regs::Regs;
use ::quaject::signature::{Event, Put};
use abi::errno::Errno;
use alloc::boxed::Box;
use alloc::sync::Arc;
use codegen::idioms::Reg;
use codegen::{Class, Routine, dynasm};
use core::any::Any;
use core::ptr::NonNull;
use machine::clock::now_ns;
use vm::fallible::try_box;

/// The contract of the routine: a byte.
type RingFn = extern "sysv64" fn(byte: usize);

/// One clock.
pub struct Clock {
    header: &'static Header,
    bell: NonNull<Bell>,
}

// SAFETY: the bell is shared, and freed when neither the clock nor an alarm can reach it.
unsafe impl Send for Clock {}
// SAFETY: as above.
unsafe impl Sync for Clock {}

/// The part of a clock that its alarms find.
struct Bell {
    pending: Pending,
    byte: u8,
    ring: Published<RingFn>,
}

::quaject::quaject! {
    /// The system clock
    class Clock = "Clock", spec u8, error RoutineError {
        callentry { GETTIME = "gettime", ALARM = "alarm", AFTER = "after", CANCEL: Event = "cancel" }
        callout { RANG: Event = "rang" ("nothing"), TO: Put = "to" ("throw the byte away") }
    }
    make Clock::new;
    idle |clock: &mut Clock| clock.bell().pending.end(&Heaps(clock.bell));
    remake |clock: &Clock, _| {
        clock.bell().ring.publish(generate(clock.header)?);
        Ok(())
    };
    callentry |clock: &Ref<Clock>, number| -> Option<Target> {
        match number {
            // It goes on to no port: but clocks that cancel each other would keep each other for ever.
            CANCEL => Some(callentry(clock, &"cancel", THROUGH, cancel_it)),
            _ => None,
        }
    };
}

/// The ports that come behind a clock in a chain, a bit each.
const THROUGH: u16 = 1 << RANG.number() | 1 << TO.number();

static CODE: Class = Class::new("clock rang");

/// Makes a clock by name: `number` is the byte that it puts; `paid` is kept with it.
///
/// # Errors
/// EINVAL: not a byte. ENOMEM.
pub fn make(number: u64, paid: Arc<dyn Any + Send + Sync>) -> Result<maker::Made, Errno> {
    let byte = u8::try_from(number).map_err(|_| Errno::EINVAL)?;
    let clock = create::<Clock>(byte).map_err(|_| Errno::ENOMEM)?;
    Ok(maker::Made::of(Called(clock), paid))
}

impl Clock {
    fn new(byte: u8, header: &'static Header) -> Result<Clock, RoutineError> {
        header.hurries();
        let ring = Published::new(generate(header)?);
        let pending = Pending::new();
        let bell = try_box(Bell {
            pending,
            byte,
            ring,
        });
        let bell = NonNull::from(Box::leak(bell.map_err(|_| RoutineError::OutOfMemory)?));
        Ok(Clock { header, bell })
    }

    fn bell(&self) -> &Bell {
        // SAFETY: it lives as long as the clock, and longer.
        unsafe { self.bell.as_ref() }
    }

    /// Callentry `alarm`: it rings at `at_ns`, and not when it was to ring before; whether it was. When that
    /// time has passed it rings at once.
    fn alarm(&self, at_ns: u64) -> Result<u64, Unable> {
        let set = self.bell().pending.set(at_ns, &Heaps(self.bell));
        set.map(u64::from)
            .map_err(|NoRoom| Unable::Refused(Errno::ENOMEM))
    }

    /// Callentry `cancel`: whether it was to ring, and does not now.
    fn cancel(&self) -> bool {
        self.bell().pending.cancel()
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.bell().pending.end(&Heaps(self.bell));
        // An alarm that is being called just now finds that it is not to ring, or rings; with interrupts off.
        sync::epoch::retire(free, self.bell.expose_provenance().get());
    }
}

/// After a grace period: no alarm of the bell is left.
fn free(bell: usize) {
    // SAFETY: the address of a leaked box, which is given up once.
    drop(unsafe { Box::from_raw(core::ptr::with_exposed_provenance_mut::<Bell>(bell)) });
}

/// The alarms of the CPUs' heaps, for this bell.
struct Heaps(NonNull<Bell>);

/// A name of an alarm: its CPU, its slot, and its generation and one more.
const SLOT_BITS: u32 = 12;
const CPU_BITS: u32 = 6;
const LOW_BITS: u32 = SLOT_BITS + CPU_BITS;

impl Alarms for Heaps {
    fn set(&self, at_ns: u64) -> Option<u64> {
        let id = alarm(at_ns, ring, self.0.expose_provenance().get()).ok()?;
        let name = name_of(id);
        if name.is_none() {
            cancel(id);
        }
        name
    }

    fn cancel(&self, alarm: u64) {
        cancel(named(alarm));
    }
}

/// None: a slot was used for more alarms than there are names.
fn name_of(id: AlarmId) -> Option<u64> {
    let generation = id.key.generation.checked_add(1)?;
    let low = id.key.slot << CPU_BITS | id.cpu;
    let fits = id.key.slot < 1 << SLOT_BITS
        && id.cpu < 1 << CPU_BITS
        && generation >> (64 - LOW_BITS) == 0;
    fits.then_some(generation << LOW_BITS | u64::from(low))
}

fn named(name: u64) -> AlarmId {
    AlarmId {
        cpu: name as u32 & ((1 << CPU_BITS) - 1),
        key: Key {
            slot: name as u32 >> CPU_BITS & ((1 << SLOT_BITS) - 1),
            generation: (name >> LOW_BITS).wrapping_sub(1),
        },
    }
}

/// An alarm has come. With interrupts off.
fn ring(bell: usize) {
    // SAFETY: bells are freed a grace period after their alarms were cancelled, and none passes in here.
    let bell = unsafe { &*core::ptr::with_exposed_provenance::<Bell>(bell) };
    if bell.pending.rings(now_ns()) {
        bell.ring.call(|ring| ring(usize::from(bell.byte)));
        // Another may wait for the byte.
        maker::CALLED.wake_all();
    }
}

// A draft is large, and so has a frame of its own.
#[inline(never)]
fn generate(header: &'static Header) -> Result<Made<RingFn>, RoutineError> {
    let mut a = Assembly::new(&CODE, "rang", Some(Holder::Member(header)));
    if let Some(link) = a.use_link(header, RANG.number()) {
        a.place(link, Regs::of(&[Reg::Rdi]), None, &[]);
    }
    if let Some(link) = a.use_link(header, TO.number()) {
        dynasm!(a ; .arch x64 ; mov esi, edi);
        a.place(link, Regs::NONE, None, &[]);
    }
    dynasm!(a ; .arch x64 ; ret);
    // SAFETY: it keeps the System V convention.
    unsafe { a.seal(None) }
}

/// A clock that is called by number.
struct Called(Ref<Clock>);

impl Quaject for Called {
    fn header(&self) -> &'static Header {
        self.0.header()
    }
    fn target(&self, number: usize) -> Option<Target> {
        self.0.target(number)
    }
}

impl Callable for Called {
    fn call(&self, number: usize, argument: u64) -> Result<u64, Unable> {
        match number {
            GETTIME => Ok(now_ns()),
            ALARM => self.0.alarm(argument),
            AFTER => self.0.alarm(now_ns().saturating_add(argument)),
            CANCEL => Ok(u64::from(self.0.cancel())),
            _ => Err(Unable::NoSuchCallentry),
        }
    }
    fn by_descriptor(
        &self,
        number: usize,
    ) -> Option<Result<Routine<::quaject::DescFn>, RoutineError>> {
        // The longest is an alarm that is set: O(log n) of the CPU's.
        (number <= CANCEL).then(|| maker::around(self, number))
    }
    fn code(&self) -> [usize; 2] {
        [self.0.bell().ring.entry(), 0]
    }
}

/// Callentry `cancel` for another's callback.
extern "sysv64" fn cancel_it(clock: &Clock) -> usize {
    clock.cancel();
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_has_its_name_back() {
        let id = |cpu, slot, generation| AlarmId {
            cpu,
            key: Key { slot, generation },
        };
        let last = (1 << (64 - LOW_BITS)) - 2;
        for alarm in [id(0, 0, 0), id(7, 4095, 9), id(63, 1, last)] {
            let name = name_of(alarm).unwrap();
            assert_ne!(name, 0);
            assert_eq!(named(name), alarm);
        }
        assert_eq!(name_of(id(0, 0, last + 1)), None);
        assert_eq!(name_of(id(0, 4096, 0)), None);
        assert_eq!(name_of(id(64, 0, 0)), None);
    }
}
