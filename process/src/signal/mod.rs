//! Signals: sending, waiting, and the frames that handlers run on.
//!
//! *Interface*: [`send()`] to a process or one thread, [`send_group`]; [`force`] for faults; [`deliver::run`]
//! on the way to user mode. The record of a process has those that wait ([`crate::process::signals`]).
//! Interrupt handlers may only note a signal ([`crate::deferred_timers`]), which the thread of [`start`]
//! sends.
//!
//! A signal is *pending* on a process or a thread until a thread that does not block it is about to run user
//! code, and is delivered then. The thread's attention flag says that there may be something to deliver.

pub mod coredump;
mod coredump_format;
pub mod deliver;
pub mod ptrace_stop;
pub mod rlimit_cpu;
pub mod rseq;
mod send;
mod sender;
mod signal_receiver;
pub mod signalfd;
mod take;
mod timer_signals;

pub(crate) use send::queue;
pub use send::{blocked_or_ignored, each_of_group, force, may_signal, send, send_group};
pub use sender::start;
pub(crate) use signal_receiver::by_kind as receiver_by_kind;
pub use timer_signals::settle;
