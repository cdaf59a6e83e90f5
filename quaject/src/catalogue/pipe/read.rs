//! The routine behind `read` from a pipe.
//!
//! One byte takes a short path; other counts take the general path, which returns the available data, wraps
//! around, and wakes a waiting writer after it has published. An empty pipe takes the slow exit.
//!
//! *Unsafe*: safety contract of the routine.

use super::end::{End, Kind, reading};
use super::ring::Index;
use super::{Patience, PipeCore, RING};
use crate::kit::emit;
use crate::kit::guard::Flag;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, templates};
use crate::kit::variant::Variant;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Routine, dynasm};

static CLASS: Class = Class::new("pipe read");

static READ: Kind<6> = Kind {
    class: &CLASS,
    call: "read",
    usual: RING,
    templates: templates!(&CLASS, usual),
    generate,
};

fn usual(d: &mut Draft, holes: &[Hole; 6], variant: u8) {
    generate(d, Variant::new(variant), RING, holes);
}

/// The routine behind `read` for a pipe.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `pipe` stays in place until a grace period after the last handle to the routine is gone. An exclusive
/// routine is plugged only where one thread reaches the reading end.
pub unsafe fn synthesize_read(
    pipe: &PipeCore,
    env: &RoutineEnv,
    sharing: Sharing,
    patience: Patience,
) -> Result<Routine<DescFn>, RoutineError> {
    let sealed = READ.seal(pipe, env, sharing, reading(pipe, env, patience)?)?;
    // SAFETY: the code below keeps the contract of a descriptor routine, on the caller's promise about
    // `pipe`.
    Ok(unsafe { Routine::from(sealed) })
}

fn generate(d: &mut Draft, v: Variant, size: usize, holes: &[Hole; 6]) {
    let end = End::reading(d, v, size, 0, holes);
    let (ring, head, tail, guard) = (end.ring, end.head, end.tail, end.guard);
    let [byte_fault, empty] = core::array::from_fn(|_| d.label());

    if !v.takes_monitor() {
        dynasm!(d ; .arch x64 ; cmp rdx, BYTE 1 ; jne >general);
        end.look(d);
        // Bytes there less one, or less than nothing when the guard is raised; or the sign of a kernel
        // address.
        dynasm!(d ; .arch x64
            ; mov rax, [head]
            ; sub rax, [tail]
            ; add rax, [guard]
            ; or rax, rsi
            ; js >general
        );
        clamp(d, Reg::Rsi);
        ring.load_index(d, Index::Eax);
        dynasm!(d ; .arch x64 ; movzx eax, BYTE [rax + ring.bytes]);
        emit::open_user(d, v.guarded_user);
        d.fault_begin();
        dynasm!(d ; .arch x64 ; mov [rsi], al);
        d.fault_end(byte_fault);
        emit::close_user(d, v.guarded_user);
        ring.publish(d, v);
        dynasm!(d ; .arch x64 ; mov eax, edx);
        if v.several_cpus {
            dynasm!(d ; .arch x64 ; test BYTE [end.flags], Flag::Waited.bit() ; jz =>end.wake);
        }
        dynasm!(d ; .arch x64 ; ret ; general:);
    }

    end.look(d);
    dynasm!(d ; .arch x64 ; test rsi, rsi ; js =>end.leave ; push rcx);
    clamp(d, Reg::Rsi);
    end.enter(d);
    dynasm!(d ; .arch x64
        ; mov rax, [head]
        ; sub rax, [tail]
        ; je =>empty
        ; push rdx
        ; push rsi
        ; push rdi
        ; cmp rdx, rax
        ; cmova rdx, rax
        ; mov rdi, rsi
    );
    ring.load_index(d, Index::Esi);
    dynasm!(d ; .arch x64 ; lea eax, [rsi + rdx] ; add rsi, ring.bytes ; cmp eax, ring.size);
    end.copy(d);
    ring.publish(d, v);
    end.has_read(d);

    end.copy_round(d);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi ; pop rdx);
    end.ways_out(d, abi::nr::READ);
    // Nothing there: wait, unless nothing was asked for.
    dynasm!(d ; .arch x64 ; =>empty ; test rdx, rdx ; jz =>end.unlock);
    end.wait(d, holes[5]);
    dynasm!(d ; .arch x64 ; =>byte_fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; jmp =>end.leave);
}
