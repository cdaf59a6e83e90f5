//! Native operations of one thread on another.
//!
//! *Interface*: [`ops`] has the operations, [`direct`] those that the dispatcher answers directly; [`job`]
//! tells a thread that it will miss a deadline; [`quaject`] has the operations as callentries.

pub mod direct;
pub mod job;
pub mod ops;
pub mod quaject;
