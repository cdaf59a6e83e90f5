//! The kit: classes, the creator and interfacer of their quajects, and the common code of all generators of
//! routines.
//!
//! *Interface*: each module's first lines. Nothing here knows a quaject of the catalogue.

#[cfg(not(loom))]
pub mod assembly;
#[cfg(not(loom))]
pub mod by_name;
pub(crate) mod call_adapter;
pub mod callback;
#[cfg(not(loom))]
pub mod class;
#[cfg(not(loom))]
pub mod compiled;
#[cfg(not(loom))]
mod declare;
pub(crate) mod emit;
pub mod guard;
#[cfg(not(loom))]
pub mod inactive;
#[cfg(not(loom))]
pub mod inline_map;
#[cfg(not(loom))]
pub mod inlining;
#[cfg(not(loom))]
pub mod interfacer;
#[cfg(not(loom))]
pub mod near_memory;
pub mod plug;
pub mod readiness;
pub mod regs;
pub(crate) mod routine_env;
#[cfg(not(loom))]
pub mod signature;
pub(crate) mod sleeper;
pub(crate) mod variant;
#[cfg_attr(loom, allow(dead_code, reason = "the model needs a part of it"))]
pub(crate) mod wiring;
