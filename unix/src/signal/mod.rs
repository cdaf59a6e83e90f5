//! Signals: sending, waiting, and the frames that handlers run on.

pub mod action;
pub mod pending;
pub mod set;
