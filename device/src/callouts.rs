//! The operations of the rooms beside this one, linked at boot.
//!
//! *Interface*: [`link`], and [`get`] for the rest of the room. Source: dissertation, section 4.1.3.

use sync::Once;

/// The requests of drivers to the threads' room.
pub struct Callouts {
    /// Has a procedure called at the end of the interrupt that is being handled. False: there is no room for
    /// one more.
    pub chain: fn(fn(usize), usize) -> bool,
    /// Has a procedure called in the timer's interrupt of this CPU, at a moment of the machine's clock,
    /// nanoseconds. False: no memory.
    pub alarm: fn(u64, fn(usize), usize) -> bool,
}

static CALLOUTS: Once<&'static Callouts> = Once::new();

/// Links the callouts, once, at boot. Before that nothing is chained, and no alarm is set.
pub fn link(callouts: &'static Callouts) {
    let _again = CALLOUTS.set(callouts);
}

/// The callouts, once they are linked.
pub(crate) fn get() -> Option<&'static Callouts> {
    CALLOUTS.get().copied()
}
