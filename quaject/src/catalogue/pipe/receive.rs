//! The routine behind `read` of messages.
//!
//! For an empty queue it waits, or takes the slow exit. An ended queue takes the slow exit even with messages
//! in it, since there may be more to report than bytes. The routine behind `recvfrom` with an address also
//! tells the sender, who is the same for all messages of a queue: its name is a constant of the code.
//!
//! *Unsafe*: safety contract of the routine.

use super::end::{End, Kind, reading};
use super::framing::{HEADER, MESSAGES};
use super::ring::Index;
use super::{Patience, PipeCore, offset};
use crate::kit::emit;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, templates};
use crate::kit::variant::Variant;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Routine, dynasm};

static CLASS: Class = Class::new("message receive");

static RECEIVE: Kind<6> = Kind {
    class: &CLASS,
    call: "read",
    usual: MESSAGES,
    templates: templates!(&CLASS, usual),
    generate,
};

fn usual(d: &mut Draft, holes: &[Hole; 6], variant: u8) {
    generate(d, Variant::new(variant), MESSAGES, holes);
}

/// The bytes of a sender's name that a routine can tell.
pub const NAME: usize = 16;

/// The routine behind `read` of messages.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `queue` stays in place until a grace period after the last handle to the routine is gone. An exclusive
/// routine is plugged only where one thread reaches the reading end.
pub unsafe fn synthesize_receive(
    queue: &PipeCore,
    env: &RoutineEnv,
    sharing: Sharing,
    patience: Patience,
) -> Result<Routine<DescFn>, RoutineError> {
    let sealed = RECEIVE.seal(queue, env, sharing, reading(queue, env, patience)?)?;
    // SAFETY: the code below keeps the contract of a descriptor routine, on the caller's promise about
    // `queue`.
    Ok(unsafe { Routine::from(sealed) })
}

/// The routine behind `recvfrom` of messages that all come from `name`: where that is wanted is in r8, and in
/// r9 the address of the room for it. Less room takes the slow exit.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the call to the slow exit.
///
/// # Safety
/// As for [`synthesize_receive`].
pub unsafe fn synthesize_receive_from(
    queue: &PipeCore,
    env: &RoutineEnv,
    sharing: Sharing,
    patience: Patience,
    name: [u8; NAME],
) -> Result<Routine<DescFn>, RoutineError> {
    let holes = reading(queue, env, patience)?.map(Hole::value);
    let mut draft = Draft::new(&CLASS, "recvfrom");
    let variant = env.variant(sharing);
    generate_for(&mut draft, variant, queue.size, &holes, Some(name));
    // SAFETY: the code keeps the contract of a descriptor routine, on the caller's promise about `queue`.
    Ok(unsafe { Routine::from(draft.seal()?) })
}

fn generate(d: &mut Draft, v: Variant, size: usize, holes: &[Hole; 6]) {
    generate_for(d, v, size, holes, None);
}

fn generate_for(
    d: &mut Draft,
    v: Variant,
    size: usize,
    holes: &[Hole; 6],
    name: Option<[u8; NAME]>,
) {
    let word = HEADER as i32;
    let end = End::reading(d, v, size, word, holes);
    let (ring, head, tail) = (end.ring, end.head, end.tail);
    let (ended, mask) = (end.field(offset::ENDED), ring.size - 1);
    let empty = d.label();

    end.look(d);
    dynasm!(d ; .arch x64
        ; test rsi, rsi
        ; js =>end.leave
        ; test rdx, rdx
        ; jz =>end.leave
        ; cmp BYTE [ended], 0
        ; jne =>end.leave
    );
    if name.is_some() {
        dynasm!(d ; .arch x64
            ; test r8, r8
            ; js =>end.leave
            ; test r9, r9
            ; js =>end.leave
        );
        clamp(d, Reg::R8);
        clamp(d, Reg::R9);
    }
    dynasm!(d ; .arch x64 ; push rcx);
    clamp(d, Reg::Rsi);
    end.enter(d);
    dynasm!(d ; .arch x64
        ; mov rax, [head]
        ; sub rax, [tail]
        ; je =>empty
        ; push rdx
        ; push rsi
        ; push rdi
        ; mov rdi, rsi
    );
    ring.load_index(d, Index::Esi);
    dynasm!(d ; .arch x64
        ; mov rax, [rsi + ring.bytes]
        ; push rax
        ; cmp rdx, rax
        ; cmova rdx, rax
        ; add esi, word
        ; and esi, mask
        ; lea eax, [rsi + rdx]
        ; add rsi, ring.bytes
        ; cmp eax, ring.size
    );
    end.copy(d);
    if let Some(name) = name {
        tell_name(d, &end, name);
    }
    dynasm!(d ; .arch x64 ; pop rcx);
    ring.publish_message(d, v);
    end.has_read(d);

    end.copy_round(d);
    dynasm!(d ; .arch x64 ; pop rax ; pop rdi ; pop rsi ; pop rdx);
    end.ways_out(d, abi::nr::READ);
    dynasm!(d ; .arch x64 ; =>empty);
    end.wait(d, holes[5]);
}

/// Writes `name` to r8 and its length to r9, before the message is taken: a fault leaves it there, as a fault
/// of the copy does. Changes rcx.
fn tell_name(d: &mut Draft, end: &End, name: [u8; NAME]) {
    let [first, second] = [0, 8].map(|at| {
        let word: [u8; 8] = core::array::from_fn(|byte| name[at + byte]);
        i64::from_le_bytes(word)
    });
    emit::open_user(d, end.v.guarded_user);
    d.fault_begin();
    dynasm!(d ; .arch x64
        ; cmp DWORD [r9], NAME as i32
        ; jl =>end.fault
        ; mov rcx, QWORD first
        ; mov [r8], rcx
        ; mov rcx, QWORD second
        ; mov [r8 + 8], rcx
        ; mov DWORD [r9], NAME as i32
    );
    d.fault_end(end.fault);
    emit::close_user(d, end.v.guarded_user);
}
