//! The quajects: building blocks of the kernel, the creator and interfacer that make and connect them, and
//! the generators of the routines behind descriptors.
//!
//! *Interface*: `kit` has the creator, the interfacer and the common parts of generators, `catalogue` the
//! quajects (docs/quaject.md lists them). Knows no threads: blocking and waking are callouts that a higher
//! room links (dissertation, sections 4.1.3 and 4.1.4).
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

// Classes are statics, which loom's atomics cannot be; under loom only the parts with a model are compiled.

mod catalogue;
mod kit;
mod primitive;
#[cfg(all(test, not(loom)))]
#[path = "../../sync/tests/common/threads.rs"]
mod threads;

pub use catalogue::{CALLBACKS, constant, counter, fsmap, pipe, symtab};
#[cfg(not(loom))]
pub use catalogue::{
    buffer_in, buffer_out, composed, cook_tty_in, cook_tty_out, filter, filtered, gauge, join,
    maker, mix, notice, probe, pump, queue, relay, resample, serializer, stream, switch,
};
pub use kit::call_adapter::{CallAdapter, SocketName};
pub use kit::routine_env::{Callbacks, DescFn, RoutineEnv, RoutineError, Sharing, UserAccess};
pub use kit::sleeper::Sleep;
#[cfg(not(loom))]
pub use kit::{
    assembly, by_name, class, compiled, inactive, inline_map, inlining, interfacer, near_memory,
    signature,
};
pub use kit::{callback, guard, plug, readiness, regs};
