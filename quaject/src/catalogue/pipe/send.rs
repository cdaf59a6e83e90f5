//! The routine behind `write` of messages.
//!
//! A message that does not fit, is empty or too long takes the slow exit.
//!
//! *Unsafe*: safety contract of the routine.

use super::PipeCore;
use super::end::{End, Kind, writing};
use super::framing::{HEADER, LONGEST, MESSAGES};
use super::ring::Index;
use crate::kit::guard::Flag;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, templates};
use crate::kit::variant::Variant;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Routine, dynasm};

static CLASS: Class = Class::new("message send");

static SEND: Kind<5> = Kind {
    class: &CLASS,
    call: "write",
    usual: MESSAGES,
    templates: templates!(&CLASS, usual),
    generate,
};

fn usual(d: &mut Draft, holes: &[Hole; 5], variant: u8) {
    generate(d, Variant::new(variant), MESSAGES, holes);
}

/// The routine behind `write` of messages.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `queue` stays in place until a grace period after the last handle to the routine is gone. An exclusive
/// routine is plugged only where one thread reaches the writing end.
pub unsafe fn synthesize_send(
    queue: &PipeCore,
    env: &RoutineEnv,
    sharing: Sharing,
) -> Result<Routine<DescFn>, RoutineError> {
    let sealed = SEND.seal(queue, env, sharing, writing(queue, env)?)?;
    // SAFETY: the code below keeps the contract of a descriptor routine, on the caller's promise about
    // `queue`.
    Ok(unsafe { Routine::from(sealed) })
}

fn generate(d: &mut Draft, v: Variant, size: usize, holes: &[Hole; 5]) {
    let (word, longest) = (HEADER as i32, LONGEST as i32 - 1);
    let end = End::writing(d, v, size, word, holes);
    let (ring, head, tail, flags) = (end.ring, end.head, end.tail, end.flags);
    let (size, mask) = (ring.size, ring.size - 1);

    end.look(d);
    dynasm!(d ; .arch x64 ; test BYTE [flags], Flag::Closed.bit() ; jnz =>end.leave ; push rcx);
    end.enter(d);
    // An empty one is as long as can be here. Then the places left after it and its length, if it needs as
    // many as it can; the sign also catches an address with the top bit.
    dynasm!(d ; .arch x64
        ; lea rax, [rdx - 1]
        ; cmp rax, longest
        ; ja =>end.unlock
        ; mov rax, [tail]
        ; sub rax, [head]
        ; add rax, size - 2 * word + 1
        ; sub rax, rdx
        ; or rax, rsi
        ; js =>end.unlock
        ; push rsi
        ; push rdi
    );
    clamp(d, Reg::Rsi);
    ring.load_index(d, Index::Edi);
    dynasm!(d ; .arch x64
        ; mov [rdi + ring.bytes], rdx
        ; add edi, word
        ; and edi, mask
        ; lea eax, [rdi + rdx]
        ; add rdi, ring.bytes
        ; cmp eax, size
    );
    end.copy(d);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi ; mov ecx, edx);
    ring.publish_message(d, v);
    end.has_written(d);

    end.copy_round(d);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi);
    end.ways_out(d, abi::nr::WRITE);
}
