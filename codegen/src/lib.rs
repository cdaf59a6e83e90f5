//! The synthesizer: drafts, routines and the code space (dissertation, chapter 3).
//!
//! *Interface*
//! - [`Draft`]: code being written. The `dynasm!` macro (re-exported) emits into it; generators are Rust functions over
//!   `&mut Draft` that call smaller generators (section 3.1).
//! - [`Template`]: a routine assembled once, with holes; making one more is a copy and a patch.
//! - [`Draft::seal`] and [`Template::instantiate`] give [`Sealed`] bytes in the code space; [`Routine::from`] turns them
//!   into a typed, counted handle. That constructor is the one unsafe step: it states the calling contract.
//! - [`CodeSpace`] is what the room above lends: addresses, a writable alias, the grace period. [`link`] binds it.
//! - [`fixup`], [`image_at`], [`for_each`], [`disassemble`], [`stats`]: seeing what was generated.
//! - [`methods`]: the three methods of section 3.2 as idioms.
//!
//! An assembler line needs `use codegen::{dynasm, Draft}` and `; .arch x64` as its first directive.
#![cfg_attr(not(any(test, loom, feature = "host")), no_std)]
#![cfg_attr(loom, allow(dead_code, reason = "models use what they check"))]

extern crate alloc;

// loom checks the structures that have no statics; the rest of the room is built around them.
mod limbo;
mod page_map;
mod primitive;

#[cfg(not(loom))]
mod blocks;
#[cfg(not(loom))]
mod draft;
#[cfg(not(loom))]
mod few;
#[cfg(not(loom))]
mod image;
#[cfg(not(loom))]
mod listing;
#[cfg(not(loom))]
pub mod methods;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod routine;
#[cfg(not(loom))]
mod space;
#[cfg(not(loom))]
mod template;

#[cfg(all(not(loom), any(test, feature = "host")))]
pub mod host;

#[cfg(not(loom))]
pub use draft::{Absolute, Draft, Label, Mark};
pub use dynasm::dynasm;
#[cfg(not(loom))]
pub use image::{Class, ImageInfo, Name};
#[cfg(not(loom))]
pub use listing::{disassemble, disassemble_bytes};
#[cfg(not(loom))]
pub use registry::{Stats, fixup, for_each, image_at, stats};
#[cfg(not(loom))]
pub use routine::{Routine, Sealed};
#[cfg(not(loom))]
pub use space::{BLOCK, CodeSpace, OutOfCode, PAGE, link, trim};
#[cfg(not(loom))]
pub use template::{Hole, Template};
