//! A descriptor routine that is composed: it stands behind a relay, is made by a recipe, and is made anew
//! when a link in it changes.
//!
//! *Interface*: [`Composed::new`]; [`Composed::follow`] makes it by another [`Recipe`], or by none: the slow
//! exit. The interfacer has it made anew under all who have its object open ([`crate::interfacer::link`]).
//! When there is no room for code calls take the slow exit.
//!
//! A routine's assumptions often change between two states: a shell has a terminal in its own mode
//! while it reads a line, and in the usual one while a program runs. So the routine before the present
//! one is kept, and plugged again when the same is asked for ([`Recipe::version`]); a change of a link
//! in either ends that.
//!
//! Source: dissertation, sections 3.2.2 and 4.1.3; replugging after Pu et al. 1995.

use crate::catalogue::relay::Relay;
use crate::kit::assembly::{Made, Registration};
use crate::kit::class::{Holder, Remake};
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError};
use alloc::sync::{Arc, Weak};
use codegen::Routine;
use sync::Monitor;

/// How a routine is made.
pub trait Recipe: Send + Sync {
    /// Makes the routine that `holder` will publish.
    ///
    /// # Errors
    /// [`RoutineError`].
    fn make(&self, holder: Holder) -> Result<Made<DescFn>, RoutineError>;

    /// A number that is equal for two recipes of one [`Composed`] that make equal code while no link changes.
    /// None for a recipe that cannot say: it is always followed.
    fn version(&self) -> Option<u32> {
        None
    }
}

#[derive(Default)]
struct Followed {
    recipe: Option<Arc<dyn Recipe>>,
    /// Of the routine that is plugged.
    known: Option<Registration>,
    /// The routine that was plugged before.
    former: Option<Former>,
}

/// A routine that may be plugged again.
struct Former {
    recipe: Arc<dyn Recipe>,
    routine: Routine<DescFn>,
    known: Registration,
}

/// Whether both make equal code.
fn agree(one: &dyn Recipe, other: &dyn Recipe) -> bool {
    one.version().is_some() && one.version() == other.version()
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
    /// [`RoutineError`].
    pub fn new(
        name: &'static str,
        number: usize,
        env: &RoutineEnv,
    ) -> Result<Arc<Composed>, RoutineError> {
        let relay = Relay::new(name, number, env)?;
        Ok(Arc::new_cyclic(|own| Composed {
            own: own.clone(),
            relay,
            followed: Monitor::new(Followed::default()),
        }))
    }

    /// Makes the routine by `recipe`, or none. Calls that begin after this go there.
    ///
    /// # Errors
    /// [`RoutineError`]; calls then take the slow exit.
    pub fn follow(&self, recipe: Option<Arc<dyn Recipe>>) -> Result<(), RoutineError> {
        // Bound: generating one routine; only threads that change it, or a link in it.
        let mut followed = self.followed.lock();
        let is_plugged = match (&followed.recipe, &recipe) {
            (Some(present), Some(recipe)) => {
                followed.known.is_some() && agree(&**present, &**recipe)
            }
            (None, None) => true,
            _ => false,
        };
        if is_plugged {
            return Ok(());
        }
        let is_former = |former: &mut Former| {
            recipe
                .as_ref()
                .is_some_and(|recipe| agree(&*former.recipe, &**recipe))
        };
        let again = followed.former.take_if(is_former);
        let present = followed.known.take().zip(followed.recipe.take());
        let present = present.zip(self.relay.plugged());
        let present = present.map(|((known, recipe), routine)| Former {
            recipe,
            routine,
            known,
        });
        let gone = match present {
            Some(present) if present.recipe.version().is_some() => followed.former.replace(present),
            present => present,
        };
        followed.recipe = recipe;
        let result = match again {
            Some(Former { routine, known, .. }) => {
                self.relay.plug(Some(routine));
                followed.known = Some(known);
                Ok(())
            }
            None => self.make(&mut followed),
        };
        // The things that they name may take monitors of their own when they go.
        drop(followed);
        drop(gone);
        result
    }

    /// Plugs the routine that the recipe makes. Nothing is known of another one.
    fn make(&self, followed: &mut Followed) -> Result<(), RoutineError> {
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
        followed.known = known;
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
    fn remake(&self) -> Result<(), RoutineError> {
        // Bound: generating one routine; only threads that change it, or a link in it.
        let mut followed = self.followed.lock();
        let old = (followed.known.take(), followed.former.take());
        let result = self.make(&mut followed);
        // The things that they name may take monitors of their own when they go.
        drop(followed);
        drop(old);
        result
    }
}
