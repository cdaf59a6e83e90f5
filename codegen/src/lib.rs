//! The synthesizer: drafts, routines and the code space (dissertation, chapter 3).
//!
//! *Interface*
//! - [`Draft`]: code being written. The `dynasm!` macro (re-exported) emits into it; generators are Rust
//!   functions over `&mut Draft` that call smaller generators (section 3.1).
//! - [`Template`]: a routine assembled once, with holes; making one more is a copy and a patch.
//! - [`Draft::seal`] and [`Template::instantiate`] give [`Sealed`] bytes in the code space; [`Routine::from`]
//!   turns them into a typed, counted handle. That constructor is the one unsafe step: it states the calling
//!   contract.
//! - [`CodeSpace`] is lent by the room above: addresses, a writable alias, the grace period. [`link`] binds
//!   it.
//! - [`fixup`], [`image_at`], [`for_each`], [`disassemble`], [`stats`]: seeing what was generated.
//! - [`idioms`]: the three methods of section 3.2 as idioms.
//! - [`fault_injection`]: deliberate lack of room, for tests.
//! - [`harden`]: the mitigations in generated code, chosen once at boot.
//!
//! An assembler line needs `use codegen::{dynasm, Draft}` and `; .arch x64` as its first directive.
#![cfg_attr(not(any(test, feature = "host")), no_std)]

extern crate alloc;

mod block_bitmap;
mod free_runs;
mod holding_tank;
mod primitive;

mod block_alloc;
mod draft;
mod draft_buffers;
pub mod fault_injection;
pub mod harden;
mod hole;
pub mod idioms;
mod image;
mod listing;
mod reg;
mod registry;
mod routine;
mod space;
mod template;

#[cfg(any(test, feature = "host"))]
pub mod host;

pub use draft::{Absolute, Draft, Label, Mark};
pub use draft_buffers::trim;
pub use dynasm::dynasm;
pub use hole::Hole;
pub use image::{Class, ImageInfo, Name, for_each_class};
pub use listing::{disassemble, disassemble_bytes};
pub use registry::{Stats, fixup, for_each, for_each_from, image_at, slack, stats};
pub use routine::{Routine, Sealed};
pub use space::{BLOCK, CodeSpace, Opened, OutOfCode, PAGE, link};
pub use template::Template;
