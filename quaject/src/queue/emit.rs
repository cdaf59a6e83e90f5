//! The generators of `Q_put` and `Q_get`.
//!
//! A place of a queue with one producer is a byte; with many producers and one consumer a byte and a mark that it is filled; with many of both a
//! byte and a round, changed together.

use super::{Parties, Spec, Words};
use crate::interfacer::{Callentry, place};
use crate::near::Block;
use crate::regs::Regs;
use crate::seam::{Unmade, near};
use codegen::methods::Reg;
use codegen::{Draft, dynasm};
use core::mem::offset_of;

/// What put and get change at most.
pub const CHANGES: Regs = Regs::of(&[Reg::Rax, Reg::Rcx, Reg::Rdx, Reg::R8, Reg::R9]);

/// Size of a place in bytes.
pub fn place_size(spec: Spec) -> usize {
    match (spec.producers, spec.consumers) {
        (Parties::One, _) => 1,
        (Parties::Many, Parties::One) => 2,
        (Parties::Many, Parties::Many) => 8,
    }
}

/// Makes the queue's memory that of an empty queue. Nobody else uses it.
pub fn clear(spec: Spec, block: &Block) {
    // SAFETY: the block is that large, and nobody else uses it.
    unsafe { block.at().as_ptr().write_bytes(0, block.len()) };
    if place_size(spec) == 8 {
        for round in 0..spec.size {
            // SAFETY: the places follow the words; each is eight bytes, aligned.
            unsafe {
                let places = block.at().add(size_of::<Words>()).cast::<u64>();
                places.add(round).write((round as u64) << 8);
            }
        }
    }
}

/// The addresses and constants of one queue.
pub struct Places {
    spec: Spec,
    head: i32,
    tail: i32,
    put_failed: i32,
    get_failed: i32,
    places: i32,
    size: i32,
    mask: i32,
}

impl Places {
    pub fn new(spec: Spec, block: &Block) -> Result<Places, Unmade> {
        // The last byte must be near as well, so that sums below stay so.
        let last = block.at().as_ptr().wrapping_add(block.len());
        near(last)?;
        let base = near(block.at().as_ptr())? as i32;
        let tail = base + offset_of!(Words, tail) as i32;
        Ok(Places {
            spec,
            head: base + offset_of!(Words, head) as i32,
            put_failed: base + offset_of!(Words, put_failed) as i32,
            tail: tail + offset_of!(super::TailWords, tail) as i32,
            get_failed: tail + offset_of!(super::TailWords, get_failed) as i32,
            places: base + size_of::<Words>() as i32,
            size: spec.size as i32,
            mask: spec.size as i32 - 1,
        })
    }

    /// The lock prefix, where another CPU could come between. One CPU cannot come between its own instructions' halves.
    fn lock(&self, d: &mut Draft) {
        if self.spec.several_cpus {
            d.push(0xf0);
        }
    }
}

/// Emits `Q_put`: byte in dil, 1 in eax. Returns which callbacks stand in-line: `Q_full`, `Q_empty+1`.
pub fn put(
    d: &mut Draft,
    at: &Places,
    full: Option<&dyn Callentry>,
    not_empty: Option<&dyn Callentry>,
) -> [bool; 2] {
    let (head, tail, places) = (at.head, at.tail, at.places);
    dynasm!(d ; .arch x64 ; retry:);
    match (at.spec.producers, at.spec.consumers) {
        (Parties::One, _) => {
            dynasm!(d ; .arch x64
                ; mov rax, [head]
                ; mov rcx, rax
                ; sub rcx, [tail]
                ; cmp rcx, at.size
                ; jae >failing
                ; and eax, at.mask
                ; mov [rax + places], dil
            );
            // Also orders the look at `get_failed` after it.
            at.lock(d);
            dynasm!(d ; .arch x64 ; inc QWORD [head]);
        }
        (Parties::Many, Parties::One) => {
            dynasm!(d ; .arch x64
                ; mov rax, [head]
                ; again:
                ; mov rcx, rax
                ; sub rcx, [tail]
                ; cmp rcx, at.size
                ; jb >room
                // More than full: head is older than tail. Just full: if head is still the same.
                ; mov rcx, rax
                ; mov rax, [head]
                ; cmp rax, rcx
                ; jne <again
                ; jmp >failing
                ; room:
                ; lea rcx, [rax + 1]
            );
            at.lock(d);
            dynasm!(d ; .arch x64
                ; cmpxchg [head], rcx
                ; jne <again
                ; and eax, at.mask
                ; movzx ecx, dil
                ; or ecx, 0x100
                // An exchange, which orders the look at `get_failed` after it.
                ; xchg [rax * 2 + places], cx
            );
        }
        (Parties::Many, Parties::Many) => {
            dynasm!(d ; .arch x64
                ; again:
                ; mov rax, [head]
                ; mov ecx, eax
                ; and ecx, at.mask
                ; mov rdx, [rcx * 8 + places]
                ; mov r8, rdx
                ; shr r8, 8
                ; sub r8, rax
                ; js >failing
                ; jnz >pass
                ; lea r8, [rax + 1]
                ; shl r8, 8
                ; mov r8b, dil
                ; xchg rax, rdx
            );
            at.lock(d);
            dynasm!(d ; .arch x64
                ; cmpxchg [rcx * 8 + places], r8
                ; jne <again
                ; mov rax, rdx
                ; lea r8, [rdx + 1]
            );
            at.lock(d);
            dynasm!(d ; .arch x64
                ; cmpxchg [head], r8
                ; jmp >in_it
                ; pass:
                ; lea r8, [rax + 1]
            );
            at.lock(d);
            dynasm!(d ; .arch x64 ; cmpxchg [head], r8 ; jmp <again ; in_it:);
        }
    }
    Ending {
        other_failed: at.get_failed,
        came: (not_empty, Regs::NONE),
        own_failed: at.put_failed,
        fails: (full, Regs::of(&[Reg::Rdi])),
        done: Some(1),
        failed: 0,
    }
    .emit(d)
}

/// Emits `Q_get`: byte in eax. Returns which callbacks stand in-line: `Q_empty`, `Q_full-1`.
pub fn get(
    d: &mut Draft,
    at: &Places,
    empty: Option<&dyn Callentry>,
    not_full: Option<&dyn Callentry>,
) -> [bool; 2] {
    let (head, tail, places) = (at.head, at.tail, at.places);
    dynasm!(d ; .arch x64 ; retry:);
    match (at.spec.producers, at.spec.consumers) {
        (Parties::One, Parties::One) => {
            dynasm!(d ; .arch x64
                ; mov rax, [tail]
                ; cmp rax, [head]
                ; je >failing
                ; and eax, at.mask
                ; movzx eax, BYTE [rax + places]
            );
            at.lock(d);
            dynasm!(d ; .arch x64 ; inc QWORD [tail]);
        }
        (Parties::One, Parties::Many) => {
            dynasm!(d ; .arch x64
                ; mov rax, [tail]
                ; again:
                ; cmp rax, [head]
                ; je >failing
                ; mov ecx, eax
                ; and ecx, at.mask
                ; movzx edx, BYTE [rcx + places]
                ; lea rcx, [rax + 1]
            );
            at.lock(d);
            dynasm!(d ; .arch x64 ; cmpxchg [tail], rcx ; jne <again ; mov eax, edx);
        }
        (Parties::Many, Parties::One) => {
            dynasm!(d ; .arch x64
                ; mov rax, [tail]
                ; and eax, at.mask
                ; movzx ecx, WORD [rax * 2 + places]
                ; test ecx, ecx
                ; jz >failing
                ; mov WORD [rax * 2 + places], 0
            );
            at.lock(d);
            dynasm!(d ; .arch x64 ; inc QWORD [tail] ; movzx eax, cl);
        }
        (Parties::Many, Parties::Many) => {
            dynasm!(d ; .arch x64
                ; again:
                ; mov rax, [tail]
                ; mov ecx, eax
                ; and ecx, at.mask
                ; mov rdx, [rcx * 8 + places]
                ; mov r9, rdx
                ; mov r8, rdx
                ; shr r8, 8
                ; sub r8, rax
                ; dec r8
                ; js >failing
                ; jnz >pass
                ; lea r8, [rax + at.size]
                ; shl r8, 8
                ; xchg rax, rdx
            );
            at.lock(d);
            dynasm!(d ; .arch x64
                ; cmpxchg [rcx * 8 + places], r8
                ; jne <again
                ; mov rax, rdx
                ; lea r8, [rdx + 1]
            );
            at.lock(d);
            dynasm!(d ; .arch x64
                ; cmpxchg [tail], r8
                ; movzx eax, r9b
                ; jmp >out_of_it
                ; pass:
                ; lea r8, [rax + 1]
            );
            at.lock(d);
            dynasm!(d ; .arch x64 ; cmpxchg [tail], r8 ; jmp <again ; out_of_it:);
        }
    }
    Ending {
        other_failed: at.put_failed,
        came: (not_full, Regs::of(&[Reg::Rax])),
        own_failed: at.get_failed,
        fails: (empty, Regs::NONE),
        done: None,
        failed: -1,
    }
    .emit(d)
}

/// What comes after the byte has been moved, and where nothing could be: the same for both ends.
struct Ending<'a> {
    /// The word in which the other end says that it failed.
    other_failed: i32,
    /// The callback for then, and what it must leave alone.
    came: (Option<&'a dyn Callentry>, Regs),
    /// The word in which this end says that it failed.
    own_failed: i32,
    /// The callback for then, which may wait and try again, and what it must leave alone.
    fails: (Option<&'a dyn Callentry>, Regs),
    /// The result of success, where it is not in eax already.
    done: Option<i32>,
    /// The result of failure without a callback.
    failed: i32,
}

impl Ending<'_> {
    /// At the label `retry` the attempt begins; where it finds no place it goes to the label `failing`. Returns which callbacks stand in-line:
    /// `fails`, `came`.
    fn emit(self, d: &mut Draft) -> [bool; 2] {
        let (came, kept) = self.came;
        if came.is_some() {
            dynasm!(d ; .arch x64 ; cmp DWORD [self.other_failed], 0 ; jne >came);
        }
        dynasm!(d ; .arch x64 ; done:);
        if let Some(result) = self.done {
            dynasm!(d ; .arch x64 ; mov eax, result);
        }
        dynasm!(d ; .arch x64 ; ret);
        let came = came.is_some_and(|target| {
            dynasm!(d ; .arch x64
                ; came:
                ; xor ecx, ecx
                ; xchg [self.other_failed], ecx
                ; test ecx, ecx
                ; jz <done
            );
            let in_line = place(d, target, kept, &[]);
            dynasm!(d ; .arch x64 ; jmp <done);
            in_line
        });
        // The first failure only says so and looks again: what the other end did before that is seen now, what it does later tells.
        dynasm!(d ; .arch x64
            ; failing:
            ; mov eax, 1
            ; xchg [self.own_failed], eax
            ; test eax, eax
            ; jz <retry
        );
        let (fails, kept) = self.fails;
        let fails = match fails {
            Some(target) => {
                let in_line = place(d, target, kept, &[]);
                dynasm!(d ; .arch x64 ; jmp <retry);
                in_line
            }
            None => {
                match self.failed {
                    0 => dynasm!(d ; .arch x64 ; xor eax, eax ; ret),
                    result => dynasm!(d ; .arch x64 ; mov rax, result ; ret),
                }
                false
            }
        };
        [fails, came]
    }
}
