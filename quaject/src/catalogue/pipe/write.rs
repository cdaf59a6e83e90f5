//! The routine behind `write` to a pipe.
//!
//! One byte takes a short path; other counts take the general path, which copies eight bytes at a time, wraps
//! around, and wakes a waiting reader after it has published. A write that does not fit completely takes the
//! slow exit. [`emit_passing`] is the general path with filters between the copy and the publication.
//!
//! *Unsafe*: safety contract of the routine.

use super::end::{End, Kind, writing};
use super::ring::Index;
use super::{PipeCore, RING};
#[cfg(not(loom))]
use crate::kit::assembly::Assembly;
use crate::kit::emit;
use crate::kit::guard::Flag;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, templates};
use crate::kit::variant::Variant;
#[cfg(not(loom))]
use codegen::Label;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Routine, dynasm};

static CLASS: Class = Class::new("pipe write");

static WRITE: Kind<5> = Kind {
    class: &CLASS,
    call: "write",
    usual: RING,
    templates: templates!(&CLASS, usual),
    generate,
};

fn usual(d: &mut Draft, holes: &[Hole; 5], variant: u8) {
    generate(d, Variant::new(variant), RING, holes);
}

/// The routine behind `write` for a pipe.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `pipe` stays in place until a grace period after the last handle to the routine is gone. An exclusive
/// routine is plugged only where one thread reaches the writing end.
pub unsafe fn synthesize_write(
    pipe: &PipeCore,
    env: &RoutineEnv,
    sharing: Sharing,
) -> Result<Routine<DescFn>, RoutineError> {
    let sealed = WRITE.seal(pipe, env, sharing, writing(pipe, env)?)?;
    // SAFETY: the code below keeps the contract of a descriptor routine, on the caller's promise about
    // `pipe`.
    Ok(unsafe { Routine::from(sealed) })
}

fn generate(d: &mut Draft, v: Variant, size: usize, holes: &[Hole; 5]) {
    let end = End::writing(d, v, size, 0, holes);
    let (ring, head, tail, guard, flags) = (end.ring, end.head, end.tail, end.guard, end.flags);
    let byte_fault = d.label();

    if !v.takes_monitor() {
        dynasm!(d ; .arch x64 ; cmp rdx, BYTE 1 ; jne >general);
        end.look(d);
        // Free places less one, or less than nothing when the guard is raised; or the sign of a kernel
        // address.
        dynasm!(d ; .arch x64
            ; mov rax, [tail]
            ; sub rax, [head]
            ; add rax, [guard]
            ; or rax, rsi
            ; js >general
        );
        clamp(d, Reg::Rsi);
        emit::open_user(d, v.guarded_user);
        d.fault_begin();
        dynasm!(d ; .arch x64 ; movzx edx, BYTE [rsi]);
        d.fault_end(byte_fault);
        emit::close_user(d, v.guarded_user);
        ring.load_index(d, Index::Eax);
        dynasm!(d ; .arch x64 ; mov [rax + ring.bytes], dl ; mov edx, 1);
        ring.publish(d, v);
        if v.several_cpus {
            dynasm!(d ; .arch x64 ; test BYTE [flags], Flag::Waited.bit() ; jnz =>end.wake);
        }
        dynasm!(d ; .arch x64 ; mov eax, edx ; ret ; general:);
    }

    copy_in(d, &end);
    publish(d, &end);
    dynasm!(d ; .arch x64 ; =>byte_fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; mov edx, 1 ; jmp =>end.leave);
}

/// Takes the end, and copies rdx bytes to the places behind the head; no reader sees them yet. On the stack
/// are rcx, rsi and rdi, which may be changed.
fn copy_in(d: &mut Draft, end: &End) {
    let (ring, head, tail, flags) = (end.ring, end.head, end.tail, end.flags);
    end.look(d);
    dynasm!(d ; .arch x64 ; push rcx);
    end.enter(d);
    // With the end, so that no other queue comes into the place of this one in between.
    dynasm!(d ; .arch x64 ; test BYTE [flags], Flag::Closed.bit() ; jnz =>end.unlock);
    // Places left after this write; the sign also catches a count or an address with the top bit.
    dynasm!(d ; .arch x64
        ; mov rax, [tail]
        ; sub rax, [head]
        ; add rax, ring.size
        ; sub rax, rdx
        ; or rax, rdx
        ; or rax, rsi
        ; js =>end.unlock
        ; push rsi
        ; push rdi
    );
    clamp(d, Reg::Rsi);
    ring.load_index(d, Index::Edi);
    dynasm!(d ; .arch x64 ; lea eax, [rdi + rdx] ; add rdi, ring.bytes ; cmp eax, ring.size);
    end.copy(d);
}

/// Behind [`copy_in`]: shows the bytes to readers, gives the end back and returns. The ways out follow.
fn publish(d: &mut Draft, end: &End) {
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi);
    end.ring.publish(d, end.v);
    end.has_written(d);
    end.copy_round(d);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi);
    end.ways_out(d, abi::nr::WRITE);
}

/// Emits the routine behind `write` to a pipe whose bytes pass before a reader sees them: where `pass` is
/// placed, rdx bytes lie in the ring from its head on, the end is held, no page fault can follow, and rax,
/// rcx, rsi and rdi may be changed. The slow exit is at `leave`. The image is to keep the pipe.
///
/// # Errors
/// [`RoutineError`].
#[cfg(not(loom))]
pub(crate) fn emit_passing(
    a: &mut Assembly,
    (pipe, sharing): (&PipeCore, Sharing),
    env: &RoutineEnv,
    leave: Label,
    pass: impl FnOnce(&mut Assembly),
) -> Result<(), RoutineError> {
    let holes = writing(pipe, env)?.map(Hole::value);
    let mut end = End::writing(a, env.variant(sharing), pipe.size, 0, &holes);
    end.leave = leave;
    copy_in(a, &end);
    pass(a);
    publish(a, &end);
    Ok(())
}
