//! Processes: their threads, memory, signals, time and programs.
//!
//! *Interface*: [`mod@process`], whose items are also here, is the record of processes and their threads;
//! [`fork`], [`exit`], [`wait`] and [`ptrace`] are their life, [`cgroup`] their control groups; [`signal`],
//! [`time`] and [`futex`] connect them, [`exec`] loads a program into a process, and [`ipc`] is System V and
//! POSIX IPC. [`sigframe`] writes what a signal's handler finds, [`dispatch`] makes the code that answers a
//! thread's calls, [`fp`] shows its vector registers, and [`memory`] chooses the process to end when memory
//! runs out.
//!
//! Nothing here knows the calls by number, or terminals.
#![cfg_attr(not(test), no_std)]
// Every action of a program is answered by a value, never by a panic.

extern crate alloc;

pub mod callouts;
pub mod cgroup;
mod deferred_timers;
pub mod dispatch;
pub mod exec;
pub mod exit;
pub mod fork;
pub mod fp;
pub mod futex;
pub mod generated_calls;
pub mod generated_signal;
pub mod ipc;
pub mod memory;
pub mod pidfd;
mod primitive;
pub mod process;
pub mod ptrace;
pub mod sigframe;
pub mod signal;
mod smap;
pub mod time;
pub mod user_quajects;
pub mod wait;

pub use process::*;
