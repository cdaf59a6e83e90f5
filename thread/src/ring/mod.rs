//! Each CPU's own: its ready rings and their shelf, the chain of its interrupts, its timer and alarms, and
//! the interrupts by which other CPUs ask it for something.
//!
//! *Interface*: of each file. [`local`] has the whole of a CPU. Only that CPU uses it, with interrupts off,
//! except for the words that say otherwise.

pub(crate) mod arm;
pub(crate) mod asked;
pub(crate) mod budget;
pub mod chain;
pub(crate) mod grain;
pub(crate) mod idlers;
pub(crate) mod inbox;
pub(crate) mod kick;
pub(crate) mod local;
pub mod ready;
pub mod shelf;
