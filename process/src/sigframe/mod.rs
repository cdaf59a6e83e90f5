//! The signal frame: what a handler finds on the program's stack.
//!
//! *Interface*: `push` builds it and `pop` reads it back, in plain Rust; [`writer`] has generated code that
//! writes it faster where nothing is unusual. [`altstack_report`] and [`change`] are about the alternate
//! stack. Nothing here looks at other signals.

mod plain;
pub mod writer;

pub(crate) use plain::{INFO, RED_ZONE, RFLAGS_CLEARED, UC, framed, pop, push, saved};
pub use plain::{altstack_report, change};
