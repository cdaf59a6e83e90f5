//! The four kinds of queue, and one of nodes (dissertation, section 5.2.2; Massalin and Pu 1989, section
//! 3.2).
//!
//! *Interface*: pick the one for the number of producers and consumers; the fewer, the cheaper.
//!
//! | | one consumer | many consumers |
//! | --- | --- | --- |
//! | one producer | [`spsc`], any type, wait-free | [`spmc`], words, put wait-free, get lock-free |
//! | many producers | [`mpsc`], any type, lock-free | [`mpmc`], words, lock-free |
//!
//! [`linked`] has no bound. None of them waits: `put` gives the value back when the queue is full, `get`
//! returns nothing when it is empty. Capacities are powers of two. Positions count up for ever and wrap with
//! the word, so a position never means two things at once.

pub mod linked;
pub mod mpmc;
pub mod mpsc;
mod slots;
pub mod spmc;
pub mod spsc;
