//! Tap: something is done for each byte that passes. With a [`Gauge`](crate::gauge) linked it counts the
//! bytes.
//!
//! *Interface*: callout `each` (signature `Event`), besides those of every filter; its value is the gauge's.

use super::{Treatment, filter};
use crate::catalogue::gauge::Gauge;
use crate::kit::assembly::Assembly;
use crate::kit::class::{Header, Ref};
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use crate::kit::signature::Event;
use codegen::idioms::Reg;

/// The filter's treatment.
pub struct Notes;

filter! {
    /// Does something for each byte that passes
    Tap = "Tap", Notes, spec (), make |()| Ok::<_, RoutineError>(Notes),
    callout EACH: Event = "each" ("nothing")
}

impl Treatment for Notes {
    const THROUGH: u16 = 1 << EACH.number();

    fn note(&self, a: &mut Assembly, header: &'static Header) -> Result<(), RoutineError> {
        if let Some(link) = a.use_link(header, EACH.number()) {
            a.place(link, Regs::of(&[Reg::Rdi]), None, &[]);
        }
        Ok(())
    }

    /// The count of the gauge to which `each` leads.
    fn value(&self, header: &'static Header) -> u64 {
        let target = header.wiring().get(EACH.number());
        let owner = target.and_then(|target| target.owner());
        owner
            .and_then(Ref::<Gauge>::known)
            .map_or(0, |gauge| gauge.read())
    }
}
