//! Switch: directs control to one of several callentries, as the C statement does.
//!
//! *Interface*: callentry `select` ([`Switch::select`]) takes a number; callouts `0` to `7` are the cases. A
//! number without a linked case goes to the default action and returns false. The cases are a chain of
//! comparisons, with their code inlined where it fits: the switch is generated again when a case is linked.
//!
//! Source: Massalin and Pu 1989, section 2.3 (switches direct interrupts to the appropriate service
//! routines).

use crate::kit::interfacer::{Callentry, Linkable, place};
use crate::kit::plug::Plug;
use crate::kit::regs::Regs;
use crate::kit::seam::Unmade;
use alloc::sync::Arc;
use codegen::{Class, Draft, Routine, dynasm};
use sync::Monitor;

/// Cases of a switch.
pub const CASES: usize = 8;

/// The contract of `select`: the number; whether there was such a case.
type SelectFn = extern "sysv64" fn(case: u32) -> bool;

type Cases = [Option<Arc<dyn Callentry>>; CASES];

/// One switch.
pub struct Switch {
    cases: Monitor<Cases>,
    select: Plug<SelectFn>,
}

crate::quaject! {
    /// Directs control to one of several callentries
    class Switch = "Switch", spec (), error Unmade {
        callentry { SELECT = "select" }
        callout {
            CASE_0 = "0" ("return false"), CASE_1 = "1" ("return false"),
            CASE_2 = "2" ("return false"), CASE_3 = "3" ("return false"),
            CASE_4 = "4" ("return false"), CASE_5 = "5" ("return false"),
            CASE_6 = "6" ("return false"), CASE_7 = "7" ("return false"),
        }
    }
    make |()| Ok(Switch {
        cases: Monitor::new(Cases::default()),
        select: Plug::new(generate(&Cases::default(), 0)?.0),
    });
}

static CODE: Class = Class::new("switch select");

impl Switch {
    /// Callentry `select`: goes to case number `case`. False when nothing is linked there.
    pub fn select(&self, case: u32) -> bool {
        self.select.call(|select| select(case))
    }
}

impl Linkable for Switch {
    fn relink(&self, port: usize, target: Option<Arc<dyn Callentry>>) -> Result<bool, Unmade> {
        let Some(case) = port.checked_sub(CASE_0).filter(|case| *case < CASES) else {
            return Err(Unmade::BadSpec);
        };
        let mut cases = self.cases.lock();
        let old = core::mem::replace(&mut cases[case], target);
        match generate(&cases, case) {
            Ok((routine, in_line)) => {
                self.select.replug(routine);
                // A linked object may take its own monitors when it is dropped.
                drop(cases);
                drop(old);
                Ok(in_line)
            }
            Err(unmade) => {
                cases[case] = old;
                Err(unmade)
            }
        }
    }
}

/// The routine, and whether case number `asked` is inlined.
fn generate(cases: &Cases, asked: usize) -> Result<(Routine<SelectFn>, bool), Unmade> {
    let mut draft = Draft::new(&CODE, "select");
    let d = &mut draft;
    let mut in_line = false;
    for (number, target) in cases.iter().enumerate() {
        let Some(target) = target else { continue };
        dynasm!(d ; .arch x64 ; cmp edi, number as i32 ; jne >next);
        let collapsed = place(d, &**target, Regs::NONE, &[]);
        in_line |= collapsed && number == asked;
        dynasm!(d ; .arch x64 ; mov eax, 1 ; ret ; next:);
    }
    dynasm!(d ; .arch x64 ; xor eax, eax ; ret);
    // SAFETY: it keeps the System V convention, as callentries that change no more than that do.
    Ok((unsafe { Routine::from(draft.seal()?) }, in_line))
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
        assert!(!link(&switch, CASE_5, Function::new(&"service", service, 55)).unwrap());
        assert!(switch.select(3) && switch.select(3) && switch.select(5));
        assert!(!switch.select(4) && !switch.select(u32::MAX));
        assert_eq!((gauge.read(), CALLED.load(Ordering::Relaxed)), (2, 55));
        unlink(&switch, CASE_3).unwrap();
        assert!(!switch.select(3) && switch.select(5));
        assert_eq!(gauge.read(), 2);
    }
}
