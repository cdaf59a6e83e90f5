//! The kit: classes, the creator and interfacer of their quajects, and the common code of all generators of
//! routines.
//!
//! *Interface*: `declare` and `class` define classes and create members, `inactive` keeps unused ones;
//! `interfacer` links members, with `wiring` (records of links), `by_name` (links that programs ask for),
//! `signature` (types of links) and `inlining` (in line or called). `assembly` puts routines together against
//! a `routine_env`, with `emit` (common code), `regs` (saved registers), `compiled` (callentries in Rust),
//! `callback`, `call_adapter` (routines around routines) and `variant`. `guard` and `plug` are for code that
//! is replaced, `readiness` and `sleeper` for waiting; `near_memory` is memory that code reaches,
//! `inline_map` says whose code stands where. Nothing here knows a quaject of the catalogue.

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
