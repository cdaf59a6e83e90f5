//! A call with one segment by the routine of the call with a buffer: `readv` by that of `read`, `writev` by
//! that of `write`.
//!
//! *Interface*: `KIND`, for [`CallAdapter::segments`]. More or fewer segments than one, and a fault at the
//! segment, take the slow exit.
//!
//! The inner routine's slow exit finds on the stack what the code in front of it has put there, since a
//! routine leaves at the depth at which it was entered. It waits for nothing: an empty pipe is left to the
//! slow exit, too.

use super::{CallAdapter, Inner, Kind};
use crate::kit::emit;
use crate::kit::routine_env::UserAccess;
use abi::nr;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, dynasm};

static CLASS: Class = Class::new("segment");

pub(super) static KIND: Kind = Kind {
    class: &CLASS,
    calls: ["readv", "writev"],
    // On the stack: where the inner routine would have returned to, and rsi. One segment: rdx was 1.
    back: |d| dynasm!(d ; .arch x64 ; add rsp, 8 ; pop rsi ; mov edx, 1 ; add eax, MORE as i32),
    front,
};

/// From the number of a call with a buffer to that of the call with segments.
const MORE: usize = nr::READV - nr::READ;
const _: () = assert!(nr::WRITEV - nr::WRITE == MORE);

fn front(d: &mut Draft, around: &CallAdapter, inner: &Inner) {
    let number = inner.number;
    let guarded = around.env.conv() == UserAccess::Kernel;
    let [leave, fault] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        ; cmp rdx, 1
        ; jne =>leave
        ; test rsi, rsi
        ; js =>leave
        ; push rsi
    );
    clamp(d, Reg::Rsi);
    emit::open_user(d, guarded);
    d.fault_begin();
    dynasm!(d ; .arch x64 ; mov rdx, [rsi + 8] ; mov rsi, [rsi]);
    d.fault_end(fault);
    emit::close_user(d, guarded);
    match inner.plain {
        Some(inner) => d.call_abs(inner.entry()),
        None => dynasm!(d ; .arch x64 ; pop rsi ; mov edx, 1 ; jmp =>leave),
    }
    dynasm!(d ; .arch x64 ; pop rsi ; mov edx, 1 ; ret ; =>fault);
    emit::close_user(d, guarded);
    dynasm!(d ; .arch x64 ; pop rsi ; mov edx, 1 ; =>leave);
    emit::leave_slowly(d, number + MORE, Hole::value(around.slow as i64));
}

#[cfg(all(test, not(loom)))]
#[path = "iovec_tests.rs"]
mod tests;
