//! The ways into the kernel and out of it: calls directly from dispatchers, the timer's interrupt, the ends
//! of interrupts, procedures in user mode.
//!
//! *Interface*: calls by [`frameless`] and, for a read that has to wait, [`blocking_read`]; the timer's
//! interrupt by [`tick`] (generated) and [`timer`] (Rust); [`exit_to_user`] has the ends of interrupts and
//! the return to user mode, [`protect`] calls of user procedures, and [`jump_words`] the entries for
//! listings.

pub(crate) mod blocking_read;
pub(crate) mod exit_to_user;
pub mod frameless;
pub mod jump_words;
pub(crate) mod protect;
pub(crate) mod tick;
pub(crate) mod timer;
