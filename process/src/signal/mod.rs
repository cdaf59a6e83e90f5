//! Signals: sending, waiting, and the frames that handlers run on.
//!
//! *Interface*: [`send()`] to a process or one thread, [`send_group`], [`send_later`] for interrupt handlers;
//! [`force`] for faults; [`deliver::run`] on the way to user mode; [`ProcessSignals`] is a process's part.
//! Interrupt handlers may call only [`send_later`].
//!
//! A signal is *pending* on a process or a thread until a thread that does not block it is about to run user
//! code, and is delivered then. The thread's attention flag says that there may be something to deliver.

pub mod action;
pub mod deliver;
pub mod dump;
mod dump_file;
pub mod frame;
pub mod halt;
mod hearer;
pub(crate) mod later;
pub mod pending;
pub mod process;
pub mod send;
pub mod set;
pub mod signalfd;
pub mod writer;

pub use action::Actions;
pub(crate) use hearer::by_kind as hearer;
pub use later::{Target, send_later, start};
pub use process::{Change, ProcessSignals};
pub(crate) use send::queue;
pub use send::{blocked_or_ignored, each_of_group, force, may_signal, send, send_group};
pub use set::{bit, valid};
