//! The routine behind `read` from a pipe.
//!
//! One byte goes straight through; everything else through the general part, which gives what is there, wraps around, and wakes a waiting
//! writer after it published. An empty pipe is left to the slow exit.

use super::ring::{Index, Ring};
use super::{Patience, PipeCore, RING, offset};
use crate::emit;
use crate::guard::Flag;
use crate::seam::{DescFn, Seam, Sharing, Unmade, VARIANTS, Variant, near, templates};
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Draft, Hole, Routine, Template, dynasm};

static CLASS: Class = Class::new("pipe read");

static TEMPLATES: [Template<6>; VARIANTS] = templates!(&CLASS, usual);

fn usual<const V: usize>(d: &mut Draft, holes: &[Hole; 6]) {
    generate(d, Variant::new(V), RING, holes);
}

/// The routine behind `read` for a pipe.
///
/// # Errors
/// [`Unmade`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `pipe` stays in place until a grace period after the last handle to the routine is gone. An exclusive routine is plugged only
/// where one thread reaches the reading end.
pub unsafe fn synthesize_read(
    pipe: &PipeCore,
    seam: &Seam,
    sharing: Sharing,
    patience: Patience,
) -> Result<Routine<DescFn>, Unmade> {
    let variant = seam.variant(sharing);
    let values = [
        near(pipe)?,
        near(pipe.buffer.as_ptr())?,
        seam.slow() as i64,
        seam.space_came.entry() as i64,
        seam.wake_next.entry() as i64,
        match patience {
            Patience::Patient => seam.wait_for_data(),
            Patience::Impatient => seam.impatient_read.entry(),
        } as i64,
    ];
    let sealed = if pipe.size == RING {
        TEMPLATES[variant.index()].instantiate("read", 0, &values)?
    } else {
        let mut draft = Draft::new(&CLASS, "read");
        generate(&mut draft, variant, pipe.size, &values.map(Hole::value));
        draft.seal()?
    };
    // SAFETY: the code below keeps the contract of a descriptor routine, on the caller's promise about `pipe`.
    Ok(unsafe { Routine::from(sealed) })
}

fn generate(d: &mut Draft, v: Variant, size: usize, holes: &[Hole; 6]) {
    let &[core, ring, slow, space_came, wake_next, nothing] = holes;
    let [head, tail, guard, flags, monitor] = [
        offset::HEAD,
        offset::TAIL,
        offset::FOR_READER,
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
    let waited = Flag::Waited.bit();
    let [leave, unlock, byte_fault, fault, wake, empty] = core::array::from_fn(|_| d.label());

    if !v.takes_monitor() {
        dynasm!(d ; .arch x64 ; cmp rdx, BYTE 1 ; jne >general);
        emit::look(d, v, monitor, leave);
        // Bytes there less one, or less than nothing when the guard is raised; or the sign of a kernel address.
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
            dynasm!(d ; .arch x64 ; test BYTE [flags], waited ; jz =>wake);
        }
        dynasm!(d ; .arch x64 ; ret ; general:);
    }

    emit::look(d, v, monitor, leave);
    dynasm!(d ; .arch x64 ; test rsi, rsi ; js =>leave ; push rcx);
    clamp(d, Reg::Rsi);
    emit::enter(d, v, monitor, leave);
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
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; ja >wrap);
    d.fault_begin();
    emit::copy_edx(d);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; copied:);
    emit::close_user(d, v.guarded_user);
    ring.publish(d, v);
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
    ring.copy_round(d, Index::Esi, 0);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; jmp <copied ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi ; pop rdx ; =>unlock);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::READ, slow);
    // Nothing there: wait, unless nothing was asked for.
    dynasm!(d ; .arch x64 ; =>empty ; test rdx, rdx ; jz =>unlock);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; mov rax, core.imm32() + offset::SLEEP);
    d.jmp_abs(nothing);
    dynasm!(d ; .arch x64 ; =>byte_fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; jmp =>leave);
}
