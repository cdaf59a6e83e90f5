//! The routine behind `write` to a pipe.
//!
//! One byte goes straight through; everything else through the general part, which copies eight bytes at a time, wraps
//! around, and wakes a waiting reader after it published. What does not fit whole is left to the slow exit.

use super::ring::{Index, Ring};
use super::{PipeCore, RING, offset};
use crate::emit;
use crate::guard::Flag;
use crate::seam::{DescFn, Seam, Sharing, Unmade, VARIANTS, Variant, near, templates};
use codegen::harden::clamp;
use codegen::methods::Reg;
use codegen::{Class, Draft, Hole, Routine, Template, dynasm};

static CLASS: Class = Class::new("pipe write");

static TEMPLATES: [Template<5>; VARIANTS] = templates!(&CLASS, usual);

fn usual<const V: usize>(d: &mut Draft, holes: &[Hole; 5]) {
    generate(d, Variant::new(V), RING, holes);
}

/// The routine behind `write` for a pipe.
///
/// # Errors
/// [`Unmade`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `pipe` stays in place until a grace period after the last handle to the routine is gone. An exclusive routine is plugged only
/// where one thread reaches the writing end.
pub unsafe fn synthesize_write(
    pipe: &PipeCore,
    seam: &Seam,
    sharing: Sharing,
) -> Result<Routine<DescFn>, Unmade> {
    let variant = seam.variant(sharing);
    let values = [
        near(pipe)?,
        near(pipe.buffer.as_ptr())?,
        seam.slow() as i64,
        seam.data_came.entry() as i64,
        seam.wake_next.entry() as i64,
    ];
    let sealed = if pipe.size == RING {
        TEMPLATES[variant.index()].instantiate("write", 0, &values)?
    } else {
        let mut draft = Draft::new(&CLASS, "write");
        generate(&mut draft, variant, pipe.size, &values.map(Hole::value));
        draft.seal()?
    };
    // SAFETY: the code below keeps the contract of a descriptor routine, on the caller's promise about `pipe`.
    Ok(unsafe { Routine::from(sealed) })
}

fn generate(d: &mut Draft, v: Variant, size: usize, holes: &[Hole; 5]) {
    let &[core, ring, slow, data_came, wake_next] = holes;
    let [head, tail, guard, flags, monitor] = [
        offset::HEAD,
        offset::TAIL,
        offset::FOR_WRITER,
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
    let size = ring.size;
    let (waited, closed) = (Flag::Waited.bit(), Flag::Closed.bit());
    let [leave, unlock, byte_fault, fault, wake] = core::array::from_fn(|_| d.label());

    if !v.takes_monitor() {
        dynasm!(d ; .arch x64 ; cmp rdx, BYTE 1 ; jne >general);
        emit::look(d, v, monitor, leave);
        // Free places less one, or less than nothing when the guard is raised; or the sign of a kernel address.
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
            dynasm!(d ; .arch x64 ; test BYTE [flags], waited ; jnz =>wake);
        }
        dynasm!(d ; .arch x64 ; mov eax, edx ; ret ; general:);
    }

    emit::look(d, v, monitor, leave);
    dynasm!(d ; .arch x64 ; push rcx);
    emit::enter(d, v, monitor, leave);
    // With the end, so that no other queue comes into the place of this one in between.
    dynasm!(d ; .arch x64 ; test BYTE [flags], closed ; jnz =>unlock);
    // Places left after this write; the sign also catches a count or an address with the top bit.
    dynasm!(d ; .arch x64
        ; mov rax, [tail]
        ; sub rax, [head]
        ; add rax, size
        ; sub rax, rdx
        ; or rax, rdx
        ; or rax, rsi
        ; js =>unlock
        ; push rsi
        ; push rdi
    );
    clamp(d, Reg::Rsi);
    ring.load_index(d, Index::Edi);
    dynasm!(d ; .arch x64 ; lea eax, [rdi + rdx] ; add rdi, ring.bytes ; cmp eax, size);
    emit::open_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; ja >wrap);
    d.fault_begin();
    emit::copy_edx(d);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; copied:);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi);
    ring.publish(d, v);
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
    ring.copy_round(d, Index::Edi, 0);
    d.fault_end(fault);
    dynasm!(d ; .arch x64 ; jmp <copied ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi ; =>unlock);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, abi::nr::WRITE, slow);
    dynasm!(d ; .arch x64 ; =>byte_fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; mov edx, 1 ; jmp =>leave);
}
