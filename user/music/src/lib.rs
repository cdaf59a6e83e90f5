//! Programs for streams of sound: filters, generators, analysis, the rhythm tracker and the drummer
//! (dissertation, sections 6.3.1 to 6.3.3).
//!
//! *Interface*: [`frame`] has samples, [`stream`] reads and writes them; [`filters`] change a stream,
//! [`analysis`] describes one, [`sources`] make one; [`drummer`] adds drums to one; [`programs`] is the
//! command line. All arithmetic is exact or in an order that the source gives, and functions such as the sine
//! come from `libm` and not from a C library: a program's output is the same on every machine.

pub mod analysis;
pub mod drummer;
pub mod filters;
pub mod frame;
pub mod programs;
pub mod sources;
pub mod stream;
