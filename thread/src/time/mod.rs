//! CPU time as it is handed out: quanta, and a thread's share by the data in its channels.
//!
//! *Interface*: of each file.

pub mod demand;
pub(crate) mod quanta;
pub mod record;
