//! The routines that were generated for one open file description, by their assumptions.
//!
//! *Interface*: [`VariantRoutines`] keeps a set for each [`Variant`]. A routine stays as long as the
//! description: tables of other processes may lead to it at any time, and changing flags back finds it again.
//! [`Cells`] has those of one description, and no memory before the first is asked for. [`Probes`] are the
//! measuring quajects around the routines of a probed description.
//!
//! Source: quasi-invariants after Pu et al. 1995; dissertation, table 4.3 (Probe).
//!
//! *Unsafe*: safety contract of a probed routine; what a description's routines are kept in, made once.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use quaject::class::{Ref, create};
use quaject::probe::{Probe, Shown, probe};
use quaject::{DescFn, RoutineError};
use sync::{Monitor, Once};

use super::filters::Filters;
use super::{DescRoutine, DescRoutines};

/// The assumptions of a description's routines besides its sharing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Variant {
    /// `O_APPEND` is set.
    pub append: bool,
    /// The routines are measured.
    pub probed: bool,
    /// Reads and writes are reported to watchers.
    pub tells: bool,
    /// The bytes pass filters.
    pub filtered: bool,
    /// [`File::stage`](super::File::stage).
    pub stage: u8,
}

/// Sets of routines, the first one without further memory.
#[derive(Default)]
pub(super) struct VariantRoutines {
    first: Option<(Variant, DescRoutines)>,
    more: Vec<(Variant, DescRoutines)>,
}

impl VariantRoutines {
    /// The set for `variant`, which `make` makes when it is not there.
    #[expect(
        clippy::disallowed_methods,
        reason = "of the few variants that there are"
    )]
    pub fn get_or_make(
        &mut self,
        variant: Variant,
        make: impl FnOnce() -> DescRoutines,
    ) -> &DescRoutines {
        let known = |(of, _): &(Variant, DescRoutines)| *of == variant;
        if self.first.is_none() || self.first.as_ref().is_some_and(known) {
            return &self.first.get_or_insert_with(|| (variant, make())).1;
        }
        let at = self.more.iter().position(known).unwrap_or_else(|| {
            self.more.push((variant, make()));
            self.more.len() - 1
        });
        &self.more[at].1
    }
}

/// The routines of one description.
#[derive(Default)]
pub(super) struct Cell {
    /// For one thread.
    pub exclusive: Monitor<VariantRoutines>,
    /// For many.
    pub shared: Monitor<VariantRoutines>,
    pub probes: Once<Probes>,
    pub filters: Once<Filters>,
}

/// The same, once somebody has asked for it.
pub(super) struct Cells(AtomicPtr<Cell>);

impl Cells {
    /// Nobody has asked yet.
    pub const fn new() -> Cells {
        Cells(AtomicPtr::new(ptr::null_mut()))
    }

    /// The routines, if any were made.
    #[inline]
    pub fn there(&self) -> Option<&Cell> {
        // SAFETY: null, or from a box that stays as long as this.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The same, made if it is not there.
    pub fn get(&self) -> &Cell {
        if let Some(there) = self.there() {
            return there;
        }
        let new = Box::into_raw(Box::<Cell>::default());
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        let at = match self.0.compare_exchange(ptr::null_mut(), new, set, fetch) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: from a box that stays as long as this.
        unsafe { &*at }
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        let at = *self.0.get_mut();
        if !at.is_null() {
            // SAFETY: `get` made it of a box, and nobody can ask any more.
            drop(unsafe { Box::from_raw(at) });
        }
    }
}

/// The probes of one description: `read`, `write`, `lseek`.
pub struct Probes([Ref<Probe>; 3]);

impl Probes {
    pub(super) fn new(several_cpus: bool) -> Result<Probes, RoutineError> {
        let one = || create::<Probe>(several_cpus);
        Ok(Probes([one()?, one()?, one()?]))
    }

    /// Their measurements of `read`, `write` and `lseek`.
    pub fn show(&self) -> [Shown; 3] {
        [0, 1, 2].map(|call: usize| self.0[call].show())
    }

    /// The same routines with the probes around them; without room for code, the routines themselves.
    pub(super) fn around(&self, routines: DescRoutines) -> DescRoutines {
        let [read, write, lseek] = &self.0;
        DescRoutines {
            read: routines.read.map(|routine| measured(read, routine)),
            write: routines.write.map(|routine| measured(write, routine)),
            lseek: routines.lseek.map(|routine| measured(lseek, routine)),
        }
    }
}

fn measured(by: &Ref<Probe>, routine: DescRoutine) -> DescRoutine {
    // SAFETY: a descriptor routine takes its arguments in rdi, rsi and rdx and returns in rax; the result
    // keeps probe and routine.
    match unsafe { probe::<DescFn>(by, &routine) } {
        Ok(made) => made.keeping(Arc::new((by.clone(), routine))),
        Err(_) => routine,
    }
}
