//! Threads: table entries, generated switches, executable ready rings (dissertation, 3.3.2, 4.3, 5.3).
//!
//! *Interface*
//! - boot: [`init`] on the boot CPU once memory and code space work; then [`idle()`] on each;
//! - life: [`create`], [`start`], [`spawn()`], [`exit`]; [`Tte`] and its handle [`Thread`]; [`current`],
//!   [`for_each`];
//! - blocking: [`suspend`], [`resume`], [`yield_now`];
//! - one thread on another: the methods of [`Tte`] in [`ops`]: hold, release, stop, step, interrupt, signal,
//!   notify, alert, kill; [`wait`]; [`by_handle`] finds a thread that a program names, [`direct`] does the
//!   frequent operations directly from the dispatcher, [`thread_quaject`] has them as callentries;
//! - from the kernel into user mode and back: [`protected_return`];
//! - crossings: [`irq_exit`] is the machine's callout; the room above calls [`before_user`], [`debug_trap`]
//!   and [`no_fpu`] from its own;
//! - [`chain`]: procedures that run at the end of the current interrupt;
//! - [`speculation`]: a thread's own speculation controls; [`grace`]: the thread that ends grace periods
//!   (RCU-like);
//! - [`demand`]: quanta by the fill of channels, [`record`]: the latest of them; [`clock`]: alarms and
//!   sleeping; [`deadline`]: the time limit of a thread's wait; [`lazy_fpu`]: floating point; [`dispatch`]: a
//!   thread's own system-call entry.
//!
//! Nothing here knows processes, files or Linux signals: a thread has one owner word.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod alarm;
#[cfg(test)]
mod alarm_tests;
mod balance;
pub mod clock;
pub mod dispatch;
mod entry;
mod life;
mod native;
mod policy;
mod primitive;
mod ring;
mod running;
pub mod selftest;
pub mod switch;
mod time;
mod tte;

pub use balance::cpu_time_sampling;
pub use clock::deadline;
pub use entry::{frameless, jump_words};
pub use life::grace;
pub use native::{direct, job, ops, quaject as thread_quaject};
pub use ring::{chain, ready, steal_queue};
pub use switch::{hw_breakpoints, lazy_fpu, speculation};
pub use time::{demand, record};
pub use tte::{flags, signal, token};

pub use entry::exit_to_user::{before_user, debug_trap, irq_exit};
pub use entry::protect::{Return, forget as forget_procedures, protected_return};
pub use life::on_demand::OnDemand;
pub use life::spawn::{Body, Spec, UserBase, bury, create, exit, spawn};
pub use life::start_up::{idle, init};
pub use native::ops::{EVENTS, find, hold_self, wait, wait_interruptible};
pub use policy::real_time::{SchedClass, apply_policy, give_up_turn};
pub use ring::per_cpu::{CpuStats, stats};
pub use running::block::{resume, resume_address, start, suspend, yield_now};
pub use running::pending_work::safe_point;
pub use switch::lazy_fpu::no_fpu;
pub use tte::budget::{Busy, Terms};
pub use tte::signal::{Mode, Procedure, Refused};
/// Offset in a thread table entry of its owner word ([`Tte::owner`](tte::Tte::owner)), for generated code.
pub const OWNER_OFFSET: usize = core::mem::offset_of!(tte::Tte, owner);
pub use entry::blocking_read::entry as wait_exit;
pub use entry::blocking_read::named_entry as wait_exit_named;
/// Offset of the number of the CPU that the thread is on, 32 bits.
pub const CPU_OFFSET: usize = core::mem::offset_of!(tte::Tte, cpu);
/// Offset of the count of its switches ([`Tte::switches`](tte::Tte::switches)).
pub const SWITCHES_OFFSET: usize = core::mem::offset_of!(tte::Tte, switches);
/// Offset of the word that is [`flags::SEQUENCE`] of a thread that has restartable sequences and has looked
/// at them, 32 bits.
pub const SEQUENCES_OFFSET: usize = core::mem::offset_of!(tte::Tte, sequences);
/// Offset of the state word, bits in [`flags`], 32 bits.
pub const STATE_OFFSET: usize = core::mem::offset_of!(tte::Tte, state);
/// Offset of the byte in which [`KIND_FP`] says that the thread has vector registers.
pub const KIND_OFFSET: usize = core::mem::offset_of!(tte::Tte, kind);
/// See [`KIND_OFFSET`].
pub const KIND_FP: u8 = tte::code::SwitchKind::FP.bits();
/// Offset of the address of a thread's area for restartable sequences.
pub const SEQUENCE_AREA_OFFSET: usize = core::mem::offset_of!(tte::Tte, sequence_area);
pub use tte::{
    LEVELS, NAME_LEN, NoMemory, QUANTUM_NS, Thread, Tte, all_switches, by_handle, current,
    current_opt, for_each,
};
