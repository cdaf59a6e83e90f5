//! The routine behind `read` of messages.
//!
//! For an empty queue it waits, or takes the slow exit. An ended queue takes the slow exit even with messages
//! in it, since there may be more to report than bytes.

use super::end::{End, Kind, reading};
use super::message::{HEADER, MESSAGES};
use super::ring::Index;
use super::{Patience, PipeCore, offset};
use crate::kit::seam::{DescFn, Seam, Sharing, Unmade, Variant, templates};
use codegen::harden::clamp;
use codegen::methods::Reg;
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

/// The routine behind `read` of messages.
///
/// # Errors
/// [`Unmade`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `queue` stays in place until a grace period after the last handle to the routine is gone. An exclusive
/// routine is plugged only where one thread reaches the reading end.
pub unsafe fn synthesize_receive(
    queue: &PipeCore,
    seam: &Seam,
    sharing: Sharing,
    patience: Patience,
) -> Result<Routine<DescFn>, Unmade> {
    let sealed = RECEIVE.seal(queue, seam, sharing, reading(queue, seam, patience)?)?;
    // SAFETY: the code below keeps the contract of a descriptor routine, on the caller's promise about
    // `queue`.
    Ok(unsafe { Routine::from(sealed) })
}

fn generate(d: &mut Draft, v: Variant, size: usize, holes: &[Hole; 6]) {
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
        ; push rcx
    );
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
    dynasm!(d ; .arch x64 ; pop rcx);
    ring.publish_message(d, v);
    end.has_read(d);

    end.copy_round(d);
    dynasm!(d ; .arch x64 ; pop rax ; pop rdi ; pop rsi ; pop rdx);
    end.ways_out(d, abi::nr::READ);
    dynasm!(d ; .arch x64 ; =>empty);
    end.wait(d, holes[5]);
}
