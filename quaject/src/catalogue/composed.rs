//! A descriptor routine that is composed: it stands behind a relay, is made by a recipe, and is made anew
//! when a link in it changes.
//!
//! *Interface*: [`Composed::new`]; [`Composed::follow`] makes it by another [`Recipe`], or by none: the slow
//! exit. The interfacer has it made anew under all who have its object open ([`crate::interfacer::link`]).
//! When there is no room for code calls take the slow exit.
//!
//! Source: dissertation, sections 3.2.2 and 4.1.3; replugging after Pu et al. 1995 (seed 003).

use crate::catalogue::relay::Relay;
use crate::kit::assembly::{Made, Registration};
use crate::kit::class::{Holder, Remake};
use crate::kit::seam::{DescFn, Seam, Unmade};
use alloc::sync::{Arc, Weak};
use codegen::Routine;
use sync::Monitor;

/// How a routine is made.
pub trait Recipe: Send + Sync {
    /// Makes the routine that `holder` will publish.
    ///
    /// # Errors
    /// [`Unmade`].
    fn make(&self, holder: Holder) -> Result<Made<DescFn>, Unmade>;
}

#[derive(Default)]
struct Followed {
    recipe: Option<Arc<dyn Recipe>>,
    /// Of the routine that is plugged.
    known: Option<Registration>,
}

/// One such routine.
pub struct Composed {
    own: Weak<Composed>,
    relay: Relay,
    followed: Monitor<Followed>,
}

impl Composed {
    /// A relay called `name` for call number `number`, with nothing behind it.
    ///
    /// # Errors
    /// [`Unmade`].
    pub fn new(name: &'static str, number: usize, seam: &Seam) -> Result<Arc<Composed>, Unmade> {
        let relay = Relay::new(name, number, seam)?;
        Ok(Arc::new_cyclic(|own| Composed {
            own: own.clone(),
            relay,
            followed: Monitor::new(Followed::default()),
        }))
    }

    /// Makes the routine by `recipe`, or none. Calls that begin after this go there.
    ///
    /// # Errors
    /// [`Unmade`]; calls then take the slow exit.
    pub fn follow(&self, recipe: Option<Arc<dyn Recipe>>) -> Result<(), Unmade> {
        self.change(|followed| core::mem::replace(&mut followed.recipe, recipe))
    }

    fn change(
        &self,
        how: impl FnOnce(&mut Followed) -> Option<Arc<dyn Recipe>>,
    ) -> Result<(), Unmade> {
        // Bound: generating one routine; only threads that change it, or a link in it.
        let mut followed = self.followed.lock();
        let replaced = how(&mut followed);
        let made = followed
            .recipe
            .as_ref()
            .map(|recipe| recipe.make(Holder::Other(self.own.clone())))
            .transpose();
        let (made, result) = match made {
            Ok(made) => (made, Ok(())),
            Err(unmade) => (None, Err(unmade)),
        };
        let (routine, known) = made.unzip();
        self.relay.plug(routine);
        let old = core::mem::replace(&mut followed.known, known);
        // The things that it names may take monitors of their own when they go.
        drop(followed);
        drop((old, replaced));
        result
    }

    /// The routine for the tables.
    pub fn routine(&self) -> &Routine<DescFn> {
        self.relay.routine()
    }

    /// The plugged routine, to look at.
    pub fn plugged(&self) -> Option<Routine<DescFn>> {
        self.relay.plugged()
    }
}

impl Remake for Composed {
    fn remake(&self) -> Result<(), Unmade> {
        self.change(|_| None)
    }
}
