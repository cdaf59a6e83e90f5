//! The routine behind `write` where each is a message.
//!
//! What does not fit, is empty or too long is left to the slow exit.

use super::message::{HEADER, LONGEST, MESSAGES};
use super::ring::{Index, Ring};
use super::{PipeCore, offset};
use crate::emit;
use crate::guard::Flag;
use crate::seam::{DescFn, Seam, Sharing, Unmade, VARIANTS, Variant, near, templates};
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Draft, Hole, Routine, Template, dynasm};

static CLASS: Class = Class::new("message send");

static TEMPLATES: [Template<5>; VARIANTS] = templates!(&CLASS, usual);

fn usual<const V: usize>(d: &mut Draft, holes: &[Hole; 5]) {
    generate(d, Variant::new(V), MESSAGES, holes);
}

/// The routine behind `write` of messages.
///
/// # Errors
/// [`Unmade`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `queue` stays in place until a grace period after the last handle to the routine is gone. An exclusive routine is plugged only
/// where one thread reaches the writing end.
pub unsafe fn synthesize_send(
    queue: &PipeCore,
    seam: &Seam,
    sharing: Sharing,
) -> Result<Routine<DescFn>, Unmade> {
    let variant = seam.variant(sharing);
    let values = [
        near(queue)?,
        near(queue.buffer.as_ptr())?,
        seam.slow() as i64,
        seam.data_came.entry() as i64,
        seam.wake_next.entry() as i64,
    ];
    let sealed = if queue.size == MESSAGES {
        TEMPLATES[variant.index()].instantiate("write", 0, &values)?
    } else {
        let mut draft = Draft::new(&CLASS, "write");
        generate(&mut draft, variant, queue.size, &values.map(Hole::value));
        draft.seal()?
    };
    // SAFETY: the code below keeps the contract of a descriptor routine, on the caller's promise about `queue`.
    Ok(unsafe { Routine::from(sealed) })
}

fn generate(d: &mut Draft, v: Variant, size: usize, holes: &[Hole; 5]) {
    let &[core, ring, slow, data_came, wake_next] = holes;
    let [head, tail, flags, monitor] = [
        offset::HEAD,
        offset::TAIL,
        offset::FOR_WRITER_FLAGS,
        offset::WRITING,
    ]
    .map(|field| core.imm32() + field);
    let ring = Ring {
        counter: head,
        bytes: ring.imm32(),
        size: size as i32,
    };
    if !v.takes_monitor() {
        d.spare(wake_next);
    }
    let (size, mask) = (ring.size, ring.size - 1);
    let (word, longest) = (HEADER as i32, LONGEST as i32 - 1);
    let (waited, closed) = (Flag::Waited.bit(), Flag::Closed.bit());
    let [leave, unlock, fault, wake] = core::array::from_fn(|_| d.label());

    emit::look(d, v, monitor, leave);
    dynasm!(d ; .arch x64 ; test BYTE [flags], closed ; jnz =>leave ; push rcx);
    emit::enter(d, v, monitor, leave);
    // An empty one is as long as can be here. Then the places left after it and its length, if it needs as many as it can; the sign also catches an address with the top bit.
    dynasm!(d ; .arch x64
        ; lea rax, [rdx - 1]
        ; cmp rax, longest
        ; ja =>unlock
        ; mov rax, [tail]
        ; sub rax, [head]
        ; add rax, size - 2 * word + 1
        ; sub rax, rdx
        ; or rax, rsi
        ; js =>unlock
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
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; ja >wrap);
    d.fault_begin();
    emit::copy_edx(d);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; copied:);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi ; mov ecx, edx);
    ring.publish_message(d, v);
    dynasm!(d ; .arch x64 ; mov eax, edx);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64
        ; pop rcx
        ; test BYTE [flags], waited
        ; jnz =>wake
        ; ret
        ; =>wake
        ; push rdx
        ; mov rax, core.imm32()
        ; call extern data_came
        ; pop rax
        ; ret
    );

    dynasm!(d ; .arch x64 ; wrap:);
    d.fault_begin();
    ring.copy_round(d, Index::Edi, word);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; jmp <copied ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi ; =>unlock);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::WRITE, slow);
}
