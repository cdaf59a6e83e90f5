//! The state word of a thread: one atomic word that carries the token, the marks and every transition.
//!
//! *Interface*: constants; [`crate::token`] holds the protocol, `Tte::flags` reads the word.
//! Source: dissertation, section 5.3.2, figure 5.10 (STOPME, STOPPED), and "marked killed".

/// Is to stop at its next return to user mode (a kernel thread: at its next safe point).
pub const STOPME: u32 = 1 << 0;
/// Is to end at its next return to user mode.
pub const KILLED: u32 = 1 << 1;
/// Something waits to be looked at before the thread returns to user mode; ends interruptible sleeps.
pub const SIGNAL: u32 = 1 << 2;
/// There are supervisor procedures on the thread's signal stack: it runs them before it sleeps.
pub const PENDING: u32 = 1 << 3;
/// There are user procedures on it: they are called at the next return to user mode.
pub const CALL: u32 = 1 << 4;
/// Suspended by a `hold`: waits at its next return to user mode, and runs interrupt procedures only,
/// until it is released.
pub const HELD: u32 = 1 << 5;
/// A single-step is under way (the advisory lock of section 5.3.2).
pub const STEP: u32 = 1 << 6;
/// It may have been interrupted in a restartable sequence, or runs on another CPU than before.
pub const SEQUENCE: u32 = 1 << 7;
/// Sleeps, in no ring; the party that clears this bit puts the thread back.
pub const ASLEEP: u32 = 1 << 8;
/// Created, never started; tokens do not start it, only `start` does.
pub const NEW: u32 = 1 << 9;
/// Has stopped, or waits to be released.
pub const STOPPED: u32 = 1 << 10;
/// A `release` came first: the next suspension of itself ends at once.
pub const GO: u32 = 1 << 11;
/// Was woken, or kept from sleeping, only to run supervisor procedures; goes to sleep after them.
pub const POKED: u32 = 1 << 12;
/// Has ended; its stack waits for the next thread to free it.
pub const DEAD: u32 = 1 << 13;

/// The token is here: the next `suspend` takes it and does not sleep.
pub const TOKEN: u32 = 1 << 14;

/// Any of these sends a thread that is about to enter user mode through its slow path. They are the lowest
/// bits: one constant is both this mask and all components of the vector registers in `switch`.
pub const ATTENTION: u32 = STOPME | KILLED | SIGNAL | PENDING | CALL | STEP | HELD | SEQUENCE;
/// Any of these ends an interruptible sleep.
pub const INTERRUPTS: u32 = KILLED | SIGNAL;
