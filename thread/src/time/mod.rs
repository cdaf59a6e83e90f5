//! CPU time as it is handed out: quanta, and a thread's share by the data in its channels.
//!
//! *Interface*: [`quanta`] enforces quanta by the timer, [`demand`] adapts a thread's share to its channels,
//! [`record`] keeps the latest quanta for `/syn/trace`.

pub mod demand;
pub(crate) mod quanta;
pub mod record;
