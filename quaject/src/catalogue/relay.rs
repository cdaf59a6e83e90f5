//! A relay: a trampoline, by which a descriptor routine is replaced under all its descriptors at once.
//!
//! *Interface*: [`Relay::routine`] goes into any number of kernel procedure tables; [`Relay::plug`] changes
//! its target with one store. An empty relay takes the slow exit.
//!
//! The routine in the tables is one jump through a word beside the code, like an entry of a procedure linkage
//! table: a change of an invariant of the installed code publishes one word, without knowing which processes
//! have the object open. The old routine is retired: no thread sleeps inside a descriptor routine, so a grace
//! period is enough. A [`Plug`](crate::plug::Plug) is for routines in which a thread may sleep.
//!
//! Source: dissertation, section 3.2.3; quasi-invariants after Pu et al. 1995.
//!
//! *Unsafe*: the word in its block; safety contract of the relay.

use crate::kit::emit;
use crate::kit::near_memory::NearBlock;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, near};
use alloc::sync::Arc;
use codegen::idioms::jump_through;
use codegen::{Class, Draft, Hole, Routine};
use core::sync::atomic::{AtomicUsize, Ordering};
use sync::Monitor;

static CLASS: Class = Class::new("relay");

/// One such routine.
pub struct Relay {
    /// Holds the word.
    block: Arc<NearBlock>,
    /// Entry of the part that takes the slow exit.
    slow: usize,
    routine: Routine<DescFn>,
    plugged: Monitor<Option<Routine<DescFn>>>,
}

impl Relay {
    /// A relay called `name` for call number `number` (`read` or `write`), with nothing plugged.
    ///
    /// # Errors
    /// [`RoutineError`].
    pub fn new(name: &'static str, number: usize, env: &RoutineEnv) -> Result<Relay, RoutineError> {
        let block = NearBlock::new(size_of::<AtomicUsize>()).ok_or(RoutineError::OutOfMemory)?;
        let block = Arc::new(block);
        let mut draft = Draft::new(&CLASS, name);
        jump_through(&mut draft, near(block.at().as_ptr())? as i32);
        let jump = draft.len();
        emit::leave_slowly(&mut draft, number, Hole::value(env.slow() as i64));
        // SAFETY: it continues in a descriptor routine, or takes the slow exit, and keeps the word that it
        // jumps through.
        let routine = unsafe { Routine::from(draft.seal()?) }.keeping(block.clone());
        let relay = Relay {
            block,
            slow: routine.entry() + jump,
            routine,
            plugged: Monitor::new(None),
        };
        relay.word().store(relay.slow, Ordering::Release);
        Ok(relay)
    }

    fn word(&self) -> &AtomicUsize {
        // SAFETY: the block holds the word, zeroed and aligned.
        unsafe { self.block.at().cast::<AtomicUsize>().as_ref() }
    }

    /// The routine for the tables.
    pub fn routine(&self) -> &Routine<DescFn> {
        &self.routine
    }

    /// Plugs `routine`; none: the slow exit. Calls that begin after this go there. Sleeps while another
    /// plugs.
    pub fn plug(&self, routine: Option<Routine<DescFn>>) {
        // Bound: one word and a counted handle; only threads that plug or list.
        let mut plugged = self.plugged.lock();
        let entry = routine.as_ref().map_or(self.slow, Routine::entry);
        self.word().store(entry, Ordering::SeqCst);
        let old = core::mem::replace(&mut *plugged, routine);
        // Its routine may take monitors when it is dropped.
        drop(plugged);
        drop(old);
    }

    /// The installed routine, for listings.
    pub fn plugged(&self) -> Option<Routine<DescFn>> {
        self.plugged.lock().clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::catalogue::constant::constant;
    use crate::catalogue::testing::{Ended, call, env};
    use crate::kit::routine_env::UserAccess;

    #[test]
    fn what_is_plugged_is_called_and_nothing_is_the_slow_exit() {
        let env = env(1, UserAccess::Kernel);
        let relay = Relay::new("test", abi::nr::WRITE, &env).unwrap();
        let arguments = [1, 2, 3];
        let table = relay.routine().clone();
        assert_eq!(call(&table, arguments), Ended::Slowly(abi::nr::WRITE));
        for value in [7, 8] {
            relay.plug(Some(constant("answer", value).unwrap()));
            assert_eq!(call(&table, arguments), Ended::With(value));
        }
        relay.plug(None);
        assert_eq!(call(&table, arguments), Ended::Slowly(abi::nr::WRITE));
    }
}
