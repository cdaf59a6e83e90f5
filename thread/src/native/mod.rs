//! Native operations of one thread on another.
//!
//! *Interface*: [`ops`] has the operations, [`direct`] those that the dispatcher answers directly.

pub mod direct;
pub mod ops;
