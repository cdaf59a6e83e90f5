//! Threads: table entries, generated switches, executable ready rings (dissertation, 3.3.2, 4.3, 5.3).
//!
//! *Interface*
//! - boot: [`init`] on the boot CPU once memory and code space work, [`init_cpu`] on each other one; then [`idle()`];
//! - life: [`create`], [`start`], [`spawn()`], [`exit`]; [`Tte`] and its handle [`Thread`]; [`current`], [`for_each`];
//! - blocking: [`suspend`], [`resume`], [`yield_now`];
//! - one thread on another: the methods of [`Tte`] in [`ops`]: hold, release, stop, step, interrupt, signal, notify, alert, kill; [`wait`];
//!   [`by_handle`] finds a thread that a program names, [`direct`] does what is frequent straight out of the dispatcher;
//! - from the kernel into user mode and back: [`protected_return`];
//! - crossings: [`irq_exit`] is the machine's callout; the room above calls [`before_user`], [`debug_trap`] and
//!   [`no_fpu`] from its own;
//! - [`chain`]: procedures put to the end of the interrupt that is being handled;
//! - [`speculation`]: what a thread asks of the processor for itself; [`grace`]: the thread that ends grace periods;
//! - [`clock`]: alarms and sleeping; [`deadline`]: how long a thread is willing to wait; [`fp`]: floating point; [`dispatch`]: a thread's own system-call entry.
//!
//! Nothing here knows processes, files or signals of Linux: a thread has one owner word.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]

extern crate alloc;

mod alarm;
#[cfg(test)]
mod alarm_tests;
mod asked;
mod average;
mod balance;
mod block;
mod callouts;
pub mod chain;
pub mod clock;
pub mod deadline;
pub mod direct;
pub mod dispatch;
mod donate;
pub mod flags;
pub mod fp;
mod gate;
pub mod grace;
mod idle;
mod kick;
mod local;
pub mod ops;
pub mod outright;
mod primitive;
mod protect;
pub mod ready;
pub mod sample;
#[cfg(target_os = "none")]
mod saved;
pub mod selftest;
mod sequence;
pub mod shelf;
pub mod signal;
mod spawn;
pub mod speculation;
mod start_up;
pub mod switch;
mod timer;
pub mod token;
mod tte;
mod turn;
mod waiting;
pub mod watch;
mod yielding;

pub use block::{resume, resume_address, start, suspend, yield_now};
pub use fp::no_fpu;
pub use gate::{before_user, debug_trap, irq_exit};
pub use ops::{EVENTS, find, hold_self, safe_point, wait, wait_interruptible};
pub use protect::{Return, forget as forget_procedures, protected_return};
pub use signal::{Mode, Procedure, Refused};
pub use spawn::{Body, Spec, bury, create, exit, spawn};
pub use start_up::{CpuStats, idle, init, init_cpu, stats};
/// Offset in a thread table entry of its owner word ([`Tte::owner`](tte::Tte::owner)), for generated code.
pub const OWNER_OFFSET: usize = core::mem::offset_of!(tte::Tte, owner);
pub use tte::{
    LEVELS, NAME_LEN, NoMemory, QUANTUM_NS, Thread, Tte, by_handle, current, current_opt,
    entry_bytes, for_each,
};
pub use waiting::entry as wait_exit;
