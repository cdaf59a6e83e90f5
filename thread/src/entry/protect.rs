//! Protected calls: the kernel calls a procedure in user mode, and gets control back when it returns.
//!
//! *Interface*: `call` redirects the running thread's return to user mode into a procedure;
//! [`protected_return`] is its end, which the room above sees as an instruction fetch at
//! [`PROTECTED_RETURN`]; [`forget`] drops the interrupted state (exec).
//!
//! The call happens at a crossing, where the kernel stack holds only the trap frame. The frame and the vector
//! registers are saved in the thread's entry, out of the program's reach, and the procedure gets a return
//! address on its stack that no program can map. Returning there is an exception, which brings the thread
//! back into supervisor mode and restores the saved state. So a procedure may change every register.
//! Procedures nest, up to [`DEPTH`].
//! Source: dissertation, section 4.3.1.

use crate::native::job;
use crate::switch::lazy_fpu;
use crate::tte::flags::CALL;
use crate::tte::interrupted::Interrupted;
use crate::tte::{Tte, current};
use abi::layout::{PROTECTED_RETURN, USER_END};
use codegen::fault_injection::refused;
use core::sync::atomic::Ordering;
use machine::trap::{TrapFrame, USER_CS, USER_SS, VECTOR_TAIL};

/// Most procedures of one thread that may be interrupted by further ones.
pub const DEPTH: usize = 16;
/// Below the user's stack pointer, the ABI's red zone.
const RED_ZONE: u64 = 128;
/// Trap, direction and resume flags: clear when a procedure starts.
const RFLAGS_CLEARED: u64 = 1 << 8 | 1 << 10 | 1 << 16;

/// How a procedure's return was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Return {
    /// The thread continues where it was interrupted.
    Resumed,
    /// It was the thread's first procedure: the thread has to end.
    Ended,
    /// No procedure was active.
    Stray,
}

/// Whether one more procedure may interrupt the running thread, which this is.
pub(crate) fn has_room(me: &Tte) -> bool {
    // SAFETY: the thread itself, and no other touches `calls`.
    unsafe { me.parts() }.calls.len() < DEPTH
}

/// Makes the running thread call `address` before it continues with `frame`. False: its stack cannot be
/// written, or memory is short. Interrupts on; there is room.
#[expect(
    clippy::disallowed_methods,
    reason = "room is made, which may be refused"
)]
pub(crate) fn call(frame: &mut TrapFrame, me: &Tte, address: usize) -> bool {
    // As a function finds it: aligned before the return address was pushed.
    let rsp = (frame.rsp.wrapping_sub(RED_ZONE) & !15).wrapping_sub(8);
    // SAFETY: as in `has_room`.
    let calls = &mut unsafe { me.parts() }.calls;
    if address >= USER_END || refused() || calls.try_reserve(1).is_err() {
        return false;
    }
    let Ok(fp) = lazy_fpu::inherited(me, None) else {
        return false;
    };
    if vm::user::put(rsp as usize, &PROTECTED_RETURN).is_err() {
        return false;
    }
    calls.push(Interrupted { frame: *frame, fp });
    *frame = TrapFrame {
        rip: address as u64,
        rsp,
        rflags: frame.rflags & !RFLAGS_CLEARED,
        cs: USER_CS,
        ss: USER_SS,
        vector: VECTOR_TAIL,
        ..*frame
    };
    true
}

/// A procedure has returned: restores the interrupted state. Interrupts on.
pub fn protected_return(frame: &mut TrapFrame) -> Return {
    let me = current();
    if !has_room(me) {
        me.state.fetch_or(CALL, Ordering::AcqRel);
    }
    // SAFETY: as in `call`.
    match unsafe { me.parts() }.calls.pop() {
        Some(interrupted) => {
            *frame = interrupted.frame;
            lazy_fpu::reinstate(interrupted.fp);
            Return::Resumed
        }
        None if me.ends.load(Ordering::Relaxed) => Return::Ended,
        None => Return::Stray,
    }
}

/// Whether the running thread, which this is, runs a procedure that the kernel called.
pub(crate) fn is_called(me: &Tte) -> bool {
    // SAFETY: as in `call`.
    !unsafe { me.parts() }.calls.is_empty()
}

/// The running thread has another program: nothing of the old one is called or returned to any more, and its
/// signal table is empty.
pub fn forget() {
    let me = current();
    // SAFETY: as in `call`.
    unsafe { me.parts() }.calls.clear();
    me.ends.store(false, Ordering::Relaxed);
    job::forget(me);
    me.signals.reset();
}
