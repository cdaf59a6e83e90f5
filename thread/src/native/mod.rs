//! Native operations: what one thread does to another.
//!
//! *Interface*: [`ops`] has the operations, [`direct`] those that a program has straight out of the
//! dispatcher.

pub mod direct;
pub mod ops;
