//! The catalogue: the quajects, a file or folder each, and the generators of the routines behind descriptors.
//!
//! *Interface*: docs/quaject.md, "Catalogue", lists the modules and what each is for; [`CALLBACKS`] for the
//! maker of a [`RoutineEnv`](crate::RoutineEnv).

use crate::kit::routine_env::Callbacks;

#[cfg(not(loom))]
pub mod buffer_in;
#[cfg(not(loom))]
pub mod buffer_out;
#[cfg(all(test, not(loom)))]
mod chain_tests;
#[cfg(not(loom))]
pub mod composed;
pub mod constant;
#[cfg(not(loom))]
pub mod cook_tty_in;
#[cfg(not(loom))]
pub mod cook_tty_out;
pub mod counter;
#[cfg(not(loom))]
pub mod filter;
#[cfg(not(loom))]
pub mod filtered;
pub mod fsmap;
#[cfg(not(loom))]
pub mod gauge;
#[cfg(not(loom))]
pub mod join;
#[cfg(not(loom))]
pub mod maker;
#[cfg(not(loom))]
pub mod mix;
#[cfg(not(loom))]
pub mod notice;
pub mod pipe;
#[cfg(not(loom))]
pub mod probe;
#[cfg(not(loom))]
pub mod pump;
#[cfg(not(loom))]
pub mod queue;
#[cfg(not(loom))]
pub mod relay;
#[cfg(not(loom))]
pub mod resample;
#[cfg(not(loom))]
pub mod serializer;
#[cfg(not(loom))]
pub mod stream;
#[cfg(not(loom))]
pub mod switch;
pub mod symtab;
#[cfg(all(test, not(loom)))]
pub(crate) mod testing;

/// The procedures that the catalogue's routines call to wake threads.
pub const CALLBACKS: Callbacks = Callbacks {
    data_came: pipe::PipeCore::data_came,
    space_came: pipe::PipeCore::space_came,
    some_came: counter::CounterCore::some_came,
    room_came: counter::CounterCore::room_came,
};
