//! Tap: something is done for each byte that passes. With a [`Gauge`](crate::gauge) linked it counts the
//! bytes.
//!
//! *Interface*: callout `each` (signature `Event`), besides those of every filter; [`counted`] finds the gauge.

use super::{Treatment, filter};
use crate::catalogue::gauge::Gauge;
use crate::kit::assembly::Assembly;
use crate::kit::class::{Header, Ref};
use crate::kit::regs::Regs;
use crate::kit::seam::Unmade;
use crate::kit::signature::Event;
use codegen::methods::Reg;

/// What the filter does.
pub struct Notes;

filter! {
    /// Does something for each byte that passes
    Tap = "Tap", Notes, spec (), make |()| Ok::<_, Unmade>(Notes),
    callout EACH: Event = "each" ("nothing")
}

impl Treatment for Notes {
    const THROUGH: u16 = 1 << EACH.number();

    fn note(&self, a: &mut Assembly, header: &'static Header) -> Result<(), Unmade> {
        if let Some(link) = a.consult(header, EACH.number()) {
            a.place(link, Regs::of(&[Reg::Rdi]), None, &[]);
        }
        Ok(())
    }
}

/// What the gauge has counted to which the tap with this header leads; None without one.
pub fn counted(tap: &'static Header) -> Option<u64> {
    let owner = tap.wiring().get(EACH.number())?.owner()?;
    Ref::<Gauge>::known(owner).map(|gauge| gauge.read())
}
