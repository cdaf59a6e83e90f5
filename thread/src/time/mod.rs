//! Time: the quantum timer, alarms, sleeping and deadlines; the thread that ends grace periods.
//!
//! *Interface*: of each file.

pub mod clock;
pub mod deadline;
pub mod demand;
pub mod grace;
pub(crate) mod grain;
pub(crate) mod pending;
pub mod record;
pub(crate) mod tick;
pub(crate) mod timer;

// The model of clocks puts loom's beside them.
use crate::primitive;
