//! The generators of `Q_put` and `Q_get`.
//!
//! A place of a queue with one producer is a byte; with one producer and one consumer on two CPUs, and with
//! many producers and one consumer, a byte and a mark that it is filled; with many of both a byte and a round
//! that change together; then head and tail are hints, as in `lab::queue::mpmc`.
//!
//! On one CPU, marks would save nothing: reading the other end's position moves no cache line there. Queues
//! for strings have no marks either: their bytes are adjacent, to be copied eight at a time, and a position
//! moves once for all of them. A byte that many producers put among strings is a string of one.
//!
//! The gain is in the code that is not emitted. A byte's publication is a locked instruction only if a
//! callback is linked for which the other end may be waiting: the lock orders the publication before the
//! check whether the other end has failed. Without a link there is nothing to check, and an ordinary store
//! publishes. On several CPUs an end reads the other's position only when the last value that it saw is not
//! enough.
//!
//! An end addresses its own position relative to rip (`[extern …]`). Some processors (AMD's family 26)
//! forward a stored word to the next load at no cost if both address it in the same way, by an unchanged
//! register or relative to rip. With an absolute address they do not, and a position's increment takes four
//! to six cycles instead of one.
//!
//! *Unsafe*: clearing the places.

use super::string::put_one;
use super::{
    FailedWords, Parties, Q_EMPTY, Q_EMPTY_1, Q_FULL, Q_FULL_1, Spec, TailWords, Words,
    sequencer_at,
};
use crate::kit::assembly::{Assembly, Continuation, Link};
use crate::kit::class::Header;
use crate::kit::near_memory::NearBlock;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{RoutineError, near};
use codegen::idioms::Reg;
use codegen::{Draft, Label, dynasm};
use core::mem::offset_of;
use sync::sequencer::{self, Sequencer};

/// The registers that put and get change at most, without those of their callbacks, which their places save.
pub fn changes(spec: Spec) -> Regs {
    match (spec.producers, spec.consumers) {
        _ if spec.strings => Regs::of(&[Reg::Rax, Reg::Rcx, Reg::Rdx]),
        (Parties::Many, Parties::Many) => {
            Regs::of(&[Reg::Rax, Reg::Rcx, Reg::Rdx, Reg::R8, Reg::R9])
        }
        _ => Regs::of(&[Reg::Rax, Reg::Rcx, Reg::Rdx]),
    }
}

/// Whether each place says by itself if it is filled, in a queue of one and one.
fn is_marked(spec: Spec) -> bool {
    let one_each = (spec.producers, spec.consumers) == (Parties::One, Parties::One);
    one_each && spec.several_cpus && !spec.strings
}

/// Size of a place in bytes.
pub fn place_size(spec: Spec) -> usize {
    match (spec.producers, spec.consumers) {
        _ if spec.strings => 1,
        _ if is_marked(spec) => 2,
        (Parties::One, _) => 1,
        (Parties::Many, Parties::One) => 2,
        (Parties::Many, Parties::Many) => 8,
    }
}

/// Where in the block the word lies that consumers read as the head.
pub fn published_at(spec: Spec) -> usize {
    match spec.is_claimed() {
        true => sequencer_at(spec.size) + sequencer::PUBLISHED,
        false => offset_of!(Words, head),
    }
}

/// Size of the block of a queue.
pub fn block_size(spec: Spec) -> usize {
    if spec.is_claimed() {
        sequencer_at(spec.size) + size_of::<Sequencer>()
    } else {
        size_of::<Words>() + spec.size * place_size(spec)
    }
}

/// Initializes the memory to an empty queue.
///
/// # Safety
/// The block has [`block_size`] bytes, and no other party uses it meanwhile.
pub unsafe fn clear(spec: Spec, block: &NearBlock) {
    // SAFETY: the block is that large, and no other party uses it, by the caller's promise.
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

/// The address of `block`, all of which generated code reaches.
///
/// # Errors
/// [`RoutineError::OutOfReach`].
pub fn base(block: &NearBlock) -> Result<i32, RoutineError> {
    // The last byte must be near as well, so that sums stay so.
    near(block.at().as_ptr().wrapping_add(block.len()))?;
    Ok(near(block.at().as_ptr())? as i32)
}

/// The addresses and constants of one queue.
pub struct Places {
    spec: Spec,
    base: i32,
    head: i32,
    /// The word that the consumers read as the head.
    published: i32,
    seen_tail: i32,
    tail: i32,
    seen_head: i32,
    put_failed: i32,
    get_failed: i32,
    places: i32,
    size: i32,
    mask: i32,
}

impl Places {
    pub fn new(spec: Spec, block: &NearBlock) -> Result<Places, RoutineError> {
        let base = base(block)?;
        Ok(Places {
            published: base + published_at(spec) as i32,
            ..Self::from(spec, base, spec.size as i32)
        })
    }

    /// Of a queue in a block at `base`, of `size` places, either of which may be a hole of a template.
    pub fn from(spec: Spec, base: i32, size: i32) -> Places {
        let tail = base + offset_of!(Words, tail) as i32;
        let failed = base + offset_of!(Words, failed) as i32;
        Places {
            spec,
            base,
            head: base + offset_of!(Words, head) as i32,
            published: base + offset_of!(Words, head) as i32,
            seen_tail: base + offset_of!(Words, seen_tail) as i32,
            tail: tail + offset_of!(TailWords, tail) as i32,
            seen_head: tail + offset_of!(TailWords, seen_head) as i32,
            put_failed: failed + offset_of!(FailedWords, put) as i32,
            get_failed: failed + offset_of!(FailedWords, get) as i32,
            places: base + size_of::<Words>() as i32,
            size,
            mask: size - 1,
        }
    }

    /// The lock prefix, where another CPU could come between. One CPU cannot come between its own
    /// instructions' halves.
    fn lock(&self, d: &mut Draft) {
        if self.spec.several_cpus {
            d.push(0xf0);
        }
    }

    /// Whether what publishes must be seen by other CPUs before the next look: there is a callback, and so a
    /// look.
    fn ordered(&self, callback: Option<Link>) -> bool {
        self.spec.several_cpus && callback.is_some()
    }

    /// Moves a position that this end alone writes.
    fn publish(&self, d: &mut Draft, position: i32, ordered: bool) {
        if ordered {
            self.lock(d);
        }
        dynasm!(d ; .arch x64 ; inc QWORD [extern position]);
    }

    /// Sets the mark of place rdx to `mark`, 0 or 1, after the access to its byte. May change ecx.
    fn mark(&self, d: &mut Draft, mark: i8, ordered: bool) {
        let marks = self.places + 1;
        if ordered {
            dynasm!(d ; .arch x64 ; mov ecx, i32::from(mark) ; xchg [rdx * 2 + marks], cl);
        } else {
            dynasm!(d ; .arch x64 ; mov BYTE [rdx * 2 + marks], mark);
        }
    }
}

/// Emits `Q_put`: byte in dil; `way.no` when `Q_full` is not linked or gives up. Without a header nothing is
/// linked.
pub fn put(a: &mut Assembly, at: &Places, header: Option<&'static Header>, way: Continuation) {
    let (head, tail, places) = (at.head, at.tail, at.places);
    let full = header.and_then(|header| a.use_link(header, Q_FULL.number()));
    let not_empty = header.and_then(|header| a.use_link(header, Q_EMPTY_1.number()));
    let d = &mut **a;
    let [retry, failing, again, room, look, pass] = core::array::from_fn(|_| d.label());
    let ordered = at.ordered(not_empty);
    dynasm!(d ; .arch x64 ; =>retry);
    match (at.spec.producers, at.spec.consumers) {
        (Parties::Many, _) if at.spec.strings => at.put_by_call(a, failing),
        _ if is_marked(at.spec) => {
            dynasm!(d ; .arch x64
                ; mov rdx, [extern head]
                ; and edx, at.mask
                ; cmp BYTE [rdx * 2 + places + 1], 0
                ; jne =>failing
                ; mov [rdx * 2 + places], dil
            );
            at.mark(d, 1, ordered);
            at.publish(d, head, false);
        }
        (Parties::One, _) => {
            dynasm!(d ; .arch x64 ; mov rax, [extern head] ; mov rcx, rax);
            at.find_room(d, look, failing);
            dynasm!(d ; .arch x64
                ; =>room
                ; and eax, at.mask
                ; mov [rax + places], dil
            );
            at.publish(d, head, ordered);
        }
        (Parties::Many, Parties::One) => {
            dynasm!(d ; .arch x64 ; mov rax, [extern head] ; =>again ; mov rcx, rax);
            at.find_room(d, look, look);
            dynasm!(d ; .arch x64 ; =>room ; lea rcx, [rax + 1]);
            at.lock(d);
            dynasm!(d ; .arch x64
                ; cmpxchg [extern head], rcx
                ; jne =>again
                ; and eax, at.mask
                ; movzx ecx, dil
                ; or ecx, 0x100
            );
            if ordered {
                dynasm!(d ; .arch x64 ; xchg [rax * 2 + places], cx);
            } else {
                dynasm!(d ; .arch x64 ; mov [rax * 2 + places], cx);
            }
        }
        (Parties::Many, Parties::Many) => {
            dynasm!(d ; .arch x64
                ; mov rax, [extern head]
                ; =>again
                ; mov ecx, eax
                ; and ecx, at.mask
                ; mov rdx, [rcx * 8 + places]
                ; mov r8, rdx
                ; shr r8, 8
                ; sub r8, rax
                ; js =>failing
                ; jnz =>pass
                ; lea r9, [rax + 1]
                ; mov r8, r9
                ; shl r8, 8
                ; mov r8b, dil
                ; xchg rax, rdx
            );
            // Also orders the look at `get_failed` after it.
            at.lock(d);
            dynasm!(d ; .arch x64
                ; cmpxchg [rcx * 8 + places], r8
                ; mov rax, rdx
                ; jne =>again
                ; mov [extern head], r9
            );
        }
    }
    let ending = Ending {
        retry,
        failing,
        other_failed: at.get_failed,
        came: (not_empty, Regs::NONE),
        own_failed: at.put_failed,
        fails: (full, Regs::of(&[Reg::Rdi])),
    };
    ending.emit(a, way);
    a.cold(|d| match (at.spec.producers, at.spec.consumers) {
        (Parties::Many, _) if at.spec.strings => {}
        (Parties::Many, Parties::Many) => at.pass(d, pass, again),
        _ if is_marked(at.spec) => {}
        (producers, _) => {
            let several = at.spec.several_cpus;
            if several {
                dynasm!(d ; .arch x64
                    ; =>look
                    ; mov rdx, [tail]
                    ; mov [at.seen_tail], rdx
                    ; mov rcx, rax
                    ; sub rcx, rdx
                    ; cmp rcx, at.size
                    ; jb =>room
                );
            }
            if producers == Parties::Many {
                if !several {
                    dynasm!(d ; .arch x64 ; =>look);
                }
                // More than full: head is older than tail. Just full: if head is still the same.
                dynasm!(d ; .arch x64
                    ; mov rcx, rax
                    ; mov rax, [extern head]
                    ; cmp rax, rcx
                    ; jne =>again
                );
            }
            if several || producers == Parties::Many {
                dynasm!(d ; .arch x64 ; jmp =>failing);
            }
        }
    });
}

/// Emits `Q_get`: byte in eax; `way.no` when `Q_empty` is not linked or gives up. Without a header nothing is
/// linked.
pub fn get(a: &mut Assembly, at: &Places, header: Option<&'static Header>, way: Continuation) {
    let (head, tail, places) = (at.published, at.tail, at.places);
    let empty = header.and_then(|header| a.use_link(header, Q_EMPTY.number()));
    let not_full = header.and_then(|header| a.use_link(header, Q_FULL_1.number()));
    let d = &mut **a;
    let [retry, failing, again, there, look, pass] = core::array::from_fn(|_| d.label());
    let ordered = at.ordered(not_full);
    // The places of strings are the same for any number of producers.
    let parties = match at.spec.strings {
        true => (Parties::One, at.spec.consumers),
        false => (at.spec.producers, at.spec.consumers),
    };
    let looks = at.spec.strings && at.spec.several_cpus && parties == (Parties::One, Parties::One);
    dynasm!(d ; .arch x64 ; =>retry);
    match parties {
        _ if is_marked(at.spec) => {
            dynasm!(d ; .arch x64
                ; mov rdx, [extern tail]
                ; and edx, at.mask
                ; cmp BYTE [rdx * 2 + places + 1], 0
                ; je =>failing
                ; movzx eax, BYTE [rdx * 2 + places]
            );
            at.mark(d, 0, ordered);
            at.publish(d, tail, false);
        }
        (Parties::One, Parties::One) => {
            dynasm!(d ; .arch x64 ; mov rax, [extern tail]);
            if looks {
                // Strings may have gone further than this routine ever looked.
                dynasm!(d ; .arch x64
                    ; mov rcx, [at.seen_head]
                    ; sub rcx, rax
                    ; jle =>look
                );
            } else {
                dynasm!(d ; .arch x64 ; cmp rax, [head] ; je =>failing);
            }
            dynasm!(d ; .arch x64
                ; =>there
                ; and eax, at.mask
                ; movzx eax, BYTE [rax + places]
            );
            at.publish(d, tail, ordered);
        }
        (Parties::One, Parties::Many) => {
            dynasm!(d ; .arch x64
                ; mov rax, [extern tail]
                ; =>again
                ; cmp rax, [head]
                ; je =>failing
                ; mov ecx, eax
                ; and ecx, at.mask
                ; movzx edx, BYTE [rcx + places]
                ; lea rcx, [rax + 1]
            );
            at.lock(d);
            dynasm!(d ; .arch x64 ; cmpxchg [extern tail], rcx ; jne =>again ; mov eax, edx);
        }
        (Parties::Many, Parties::One) => {
            dynasm!(d ; .arch x64
                ; mov rax, [extern tail]
                ; and eax, at.mask
                ; movzx ecx, WORD [rax * 2 + places]
                ; test ecx, ecx
                ; jz =>failing
                ; mov WORD [rax * 2 + places], 0
            );
            at.publish(d, tail, ordered);
            dynasm!(d ; .arch x64 ; movzx eax, cl);
        }
        (Parties::Many, Parties::Many) => {
            dynasm!(d ; .arch x64
                ; mov rax, [extern tail]
                ; =>again
                ; mov ecx, eax
                ; and ecx, at.mask
                ; mov rdx, [rcx * 8 + places]
                ; mov r8, rdx
                ; shr r8, 8
                ; sub r8, rax
                ; dec r8
                ; js =>failing
                ; jnz =>pass
                ; lea r8, [rax + at.size]
                ; shl r8, 8
                ; lea r9, [rax + 1]
                ; xchg rax, rdx
            );
            // Also orders the look at `put_failed` after it.
            at.lock(d);
            dynasm!(d ; .arch x64
                ; cmpxchg [rcx * 8 + places], r8
                ; xchg rax, rdx
                ; jne =>again
                ; mov [extern tail], r9
                ; movzx eax, dl
            );
        }
    }
    let ending = Ending {
        retry,
        failing,
        other_failed: at.put_failed,
        came: (not_full, Regs::of(&[Reg::Rax])),
        own_failed: at.get_failed,
        fails: (empty, Regs::NONE),
    };
    ending.emit(a, way);
    a.cold(|d| match parties {
        (Parties::Many, Parties::Many) => at.pass(d, pass, again),
        _ if looks => dynasm!(d ; .arch x64
            ; =>look
            ; mov rcx, [head]
            ; mov [at.seen_head], rcx
            ; cmp rcx, rax
            ; jne =>there
            ; jmp =>failing
        ),
        _ => {}
    });
}

impl Places {
    /// A byte among strings of many producers, which is a string of one: byte in dil, to `failing` when there
    /// is no room. Changes rax.
    fn put_by_call(&self, a: &mut Assembly, failing: Label) {
        let saved = Regs::SYSV.without(Regs::of(&[Reg::Rax]));
        let claimed = i32::from(self.spec.is_claimed());
        saved.save(a);
        dynasm!(a ; .arch x64
            ; movzx esi, dil
            ; mov rdi, self.base
            ; mov edx, self.size
            ; mov ecx, claimed
        );
        a.call_compiled(put_one as *const () as usize, Regs::NONE);
        saved.restore(a);
        dynasm!(a ; .arch x64 ; test eax, eax ; jz =>failing);
    }

    /// With the position to fill in rcx: continues when there is room; goes to `look` when the last seen
    /// position of the other end does not show room, and to `full` when the queue is known to be full.
    fn find_room(&self, d: &mut Draft, look: Label, full: Label) {
        let (tail, none) = if self.spec.several_cpus {
            (self.seen_tail, look)
        } else {
            (self.tail, full)
        };
        dynasm!(d ; .arch x64 ; sub rcx, [tail] ; cmp rcx, self.size ; jae =>none);
    }

    /// When position rax has been passed, and its place's round is r8 beyond: continues at the next position,
    /// or at the position that the round shows (a hint may be very old).
    fn pass(&self, d: &mut Draft, pass: Label, again: Label) {
        dynasm!(d ; .arch x64
            ; =>pass
            ; sub r8, self.size
            ; mov ecx, 1
            ; cmp r8, rcx
            ; cmovl r8, rcx
            ; add rax, r8
            ; jmp =>again
        );
    }
}

/// The code after a byte was moved, and where none could be: the same for both ends.
pub struct Ending {
    /// Where an attempt begins.
    pub retry: Label,
    /// Where an attempt that finds no place goes to.
    pub failing: Label,
    /// The word in which the other end says that it failed.
    pub other_failed: i32,
    /// The callback for then, and what it must leave alone.
    pub came: (Option<Link>, Regs),
    /// The word in which this end says that it failed.
    pub own_failed: i32,
    /// The callback for then, which may wait and try again, and what it must leave alone.
    pub fails: (Option<Link>, Regs),
}

impl Ending {
    /// Falls through when the byte has been moved.
    pub fn emit(self, a: &mut Assembly, way: Continuation) {
        if let (Some(link), kept) = self.came {
            let [came, done] = core::array::from_fn(|_| a.label());
            dynasm!(a ; .arch x64
                ; cmp DWORD [self.other_failed], 0
                ; jne =>came
                ; =>done
            );
            a.cold(|a| {
                dynasm!(a ; .arch x64
                    ; =>came
                    ; xor ecx, ecx
                    ; xchg [self.other_failed], ecx
                    ; test ecx, ecx
                    ; jz =>done
                );
                a.place(link, way.live | kept, None, &[]);
                dynasm!(a ; .arch x64 ; jmp =>done);
            });
        }
        // The first failure only says so and looks again: what the other end did before that is seen now,
        // what it does later tells. A callback that gives up has stopped something, which the other end
        // starts again when it is told: so that is said anew, with 2, and looked after.
        a.cold(|a| {
            dynasm!(a ; .arch x64
                ; =>self.failing
                ; mov eax, 1
                ; xchg [self.own_failed], eax
                ; test eax, eax
                ; jz =>self.retry
            );
            let (fails, kept) = self.fails;
            match fails {
                Some(link) => {
                    let given_up = a.label();
                    dynasm!(a ; .arch x64 ; cmp eax, 2 ; je =>way.no);
                    a.place(link, way.live | kept, Some(given_up), &[]);
                    dynasm!(a ; .arch x64
                        ; jmp =>self.retry
                        ; =>given_up
                        ; mov eax, 2
                        ; xchg [self.own_failed], eax
                        ; jmp =>self.retry
                    );
                }
                None => dynasm!(a ; .arch x64 ; jmp =>way.no),
            }
        });
    }
}
