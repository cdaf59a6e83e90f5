//! Switch: directs control to one of several callentries, as the C statement does.
//!
//! *Interface*: callentry `select` ([`Switch::select`]) takes a number; callouts `0` to `7` are the cases. A
//! number without a linked case goes to the default action and returns false. The cases are a chain of
//! comparisons, with their code inlined where it fits: the switch is generated again when a case is linked.
//!
//! Source: Massalin and Pu 1989, section 2.3 (switches direct interrupts to the appropriate service
//! routines).
//!
//! *Unsafe*: safety contract of `select`.

use crate::kit::assembly::{Assembly, Made, Published};
use crate::kit::class::{Header, Holder, Port};
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use crate::kit::signature::Event;
use codegen::{Class, dynasm};

/// Cases of a switch.
pub const CASES: usize = 8;

/// The contract of `select`: the number; whether there was such a case.
type SelectFn = extern "sysv64" fn(case: u32) -> bool;

/// One switch.
pub struct Switch {
    header: &'static Header,
    select: Published<SelectFn>,
}

crate::quaject! {
    /// Directs control to one of several callentries
    class Switch = "Switch", spec (), error RoutineError {
        callentry { SELECT = "select" }
        callout {
            CASE_0: Event = "0" ("return false"), CASE_1: Event = "1" ("return false"),
            CASE_2: Event = "2" ("return false"), CASE_3: Event = "3" ("return false"),
            CASE_4: Event = "4" ("return false"), CASE_5: Event = "5" ("return false"),
            CASE_6: Event = "6" ("return false"), CASE_7: Event = "7" ("return false"),
        }
    }
    make |(), header| {
        let select = Published::new(generate(header)?);
        Ok(Switch { header, select })
    };
    remake |switch: &Switch, _| {
        switch.select.publish(generate(switch.header)?);
        Ok(())
    };
}

/// The cases by number.
pub const BY_NUMBER: [Port<Switch, Event>; CASES] = [
    CASE_0, CASE_1, CASE_2, CASE_3, CASE_4, CASE_5, CASE_6, CASE_7,
];

static CODE: Class = Class::new("switch select");

impl Switch {
    /// Callentry `select`: goes to case number `case`. False when nothing is linked there.
    pub fn select(&self, case: u32) -> bool {
        self.select.call(|select| select(case))
    }
}

fn generate(header: &'static Header) -> Result<Made<SelectFn>, RoutineError> {
    let mut a = Assembly::new(&CODE, "select", Some(Holder::Member(header)));
    for (number, case) in (0..).zip(BY_NUMBER) {
        let Some(link) = a.use_link(header, case.number()) else {
            continue;
        };
        let next = a.label();
        dynasm!(a ; .arch x64 ; cmp edi, number ; jne =>next);
        a.place(link, Regs::NONE, None, &[]);
        dynasm!(a ; .arch x64 ; mov eax, 1 ; ret ; =>next);
    }
    dynasm!(a ; .arch x64 ; xor eax, eax ; ret);
    // SAFETY: it keeps the System V convention, as callentries that change no more than that do.
    unsafe { a.seal(None) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::gauge::{self, Gauge};
    use crate::kit::class::create;
    use crate::kit::interfacer::{Function, link, unlink};
    use core::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn each_number_goes_its_way() {
        codegen::host::link();
        static CALLED: AtomicUsize = AtomicUsize::new(0);
        extern "sysv64" fn service(with: usize) {
            CALLED.store(with, Ordering::Relaxed);
        }
        let switch = create::<Switch>(()).unwrap();
        let gauge = create::<Gauge>(false).unwrap();
        assert!(!switch.select(3));
        assert!(link(&switch, CASE_3, gauge::count(&gauge)).unwrap());
        assert!(!link(&switch, CASE_5, Function::event(&"service", service, 55)).unwrap());
        assert!(switch.select(3) && switch.select(3) && switch.select(5));
        assert!(!switch.select(4) && !switch.select(u32::MAX));
        assert_eq!((gauge.read(), CALLED.load(Ordering::Relaxed)), (2, 55));
        unlink(&switch, CASE_3).unwrap();
        assert!(!switch.select(3) && switch.select(5));
        assert_eq!(gauge.read(), 2);
    }
}
