//! The routine behind `read` where each is a message.
//!
//! An empty queue is waited for, or left to the slow exit, as is one that has ended, also with something in it: there may be more to say than bytes.

use super::message::{HEADER, MESSAGES};
use super::ring::{Index, Ring};
use super::{Patience, PipeCore, offset};
use crate::emit;
use crate::guard::Flag;
use crate::seam::{DescFn, Seam, Sharing, Unmade, VARIANTS, Variant, near, templates};
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Draft, Hole, Routine, Template, dynasm};

static CLASS: Class = Class::new("message receive");

static TEMPLATES: [Template<6>; VARIANTS] = templates!(&CLASS, usual);

fn usual<const V: usize>(d: &mut Draft, holes: &[Hole; 6]) {
    generate(d, Variant::new(V), MESSAGES, holes);
}

/// The routine behind `read` of messages.
///
/// # Errors
/// [`Unmade`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `queue` stays in place until a grace period after the last handle to the routine is gone. An exclusive routine is plugged only
/// where one thread reaches the reading end.
pub unsafe fn synthesize_receive(
    queue: &PipeCore,
    seam: &Seam,
    sharing: Sharing,
    patience: Patience,
) -> Result<Routine<DescFn>, Unmade> {
    let variant = seam.variant(sharing);
    let values = [
        near(queue)?,
        near(queue.buffer.as_ptr())?,
        seam.slow() as i64,
        seam.space_came.entry() as i64,
        seam.wake_next.entry() as i64,
        match patience {
            Patience::Patient => seam.wait_for_data(),
            Patience::Impatient => seam.impatient_read.entry(),
        } as i64,
    ];
    let sealed = if queue.size == MESSAGES {
        TEMPLATES[variant.index()].instantiate("read", 0, &values)?
    } else {
        let mut draft = Draft::new(&CLASS, "read");
        generate(&mut draft, variant, queue.size, &values.map(Hole::value));
        draft.seal()?
    };
    // SAFETY: the code below keeps the contract of a descriptor routine, on the caller's promise about `queue`.
    Ok(unsafe { Routine::from(sealed) })
}

fn generate(d: &mut Draft, v: Variant, size: usize, holes: &[Hole; 6]) {
    let &[core, ring, slow, space_came, wake_next, nothing] = holes;
    let [head, tail, ended, flags, monitor] = [
        offset::HEAD,
        offset::TAIL,
        offset::ENDED,
        offset::FOR_READER_FLAGS,
        offset::READING,
    ]
    .map(|field| core.imm32() + field);
    let ring = Ring {
        counter: tail,
        bytes: ring.imm32(),
        size: size as i32,
    };
    if !v.takes_monitor() {
        d.spare(wake_next);
    }
    let (size, mask, word) = (ring.size, ring.size - 1, HEADER as i32);
    let waited = Flag::Waited.bit();
    let [leave, unlock, fault, wake, empty] = core::array::from_fn(|_| d.label());

    emit::look(d, v, monitor, leave);
    dynasm!(d ; .arch x64
        ; test rsi, rsi
        ; js =>leave
        ; test rdx, rdx
        ; jz =>leave
        ; cmp BYTE [ended], 0
        ; jne =>leave
        ; push rcx
    );
    clamp(d, Reg::Rsi);
    emit::enter(d, v, monitor, leave);
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
        ; cmp eax, size
    );
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; ja >wrap);
    d.fault_begin();
    emit::copy_edx(d);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; copied:);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rcx);
    ring.publish_message(d, v);
    dynasm!(d ; .arch x64 ; mov eax, edx ; pop rdi ; pop rsi ; pop rdx);
    emit::give(d, v, monitor, wake_next);
    // The guard's calm word is negative, so its flags are cleared bits.
    dynasm!(d ; .arch x64
        ; pop rcx
        ; test BYTE [flags], waited
        ; jz =>wake
        ; ret
        ; =>wake
        ; push rax
        ; mov rax, core.imm32()
        ; call extern space_came
        ; pop rax
        ; ret
    );

    dynasm!(d ; .arch x64 ; wrap:);
    d.fault_begin();
    ring.copy_round(d, Index::Esi, word);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; jmp <copied ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rax ; pop rdi ; pop rsi ; pop rdx ; =>unlock);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::READ, slow);
    dynasm!(d ; .arch x64 ; =>empty);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; mov rax, core.imm32() + offset::SLEEP);
    d.jmp_abs(nothing);
}
