//! The kit: classes, the creator and interfacer of their quajects, and the common code of all generators of
//! routines.
//!
//! *Interface*: each module's first lines. Nothing here knows a quaject of the catalogue.

pub(crate) mod around;
#[cfg(not(loom))]
pub mod assembly;
pub mod callback;
#[cfg(not(loom))]
pub mod class;
#[cfg(not(loom))]
pub mod compiled;
#[cfg(not(loom))]
pub mod cost;
#[cfg(not(loom))]
mod declare;
pub(crate) mod emit;
pub mod guard;
#[cfg(not(loom))]
pub mod inactive;
#[cfg(not(loom))]
pub mod interfacer;
pub mod look;
#[cfg(not(loom))]
pub mod named;
#[cfg(not(loom))]
pub mod near;
pub mod plug;
#[cfg(not(loom))]
pub mod record;
pub mod regs;
pub(crate) mod seam;
#[cfg(not(loom))]
pub mod signature;
pub(crate) mod sleeper;
pub(crate) mod variant;
#[cfg_attr(loom, allow(dead_code, reason = "the model needs a part of it"))]
pub(crate) mod wiring;
