//! The generators of `Q_put` and `Q_get` for many bytes at once: a caller that stands around them moves the
//! bytes itself, straight to or from the queue's places.
//!
//! *Interface*: [`put`] and [`get`] emit the queue's part for a [`Mover`], which is the caller's. A mover of
//! user memory moves all or nothing into the queue, or what is there out of it. A mover of a stretch moves
//! bytes that lie side by side, at most so many; it stands alone at its end.
//!
//! A routine that moves strings has interrupts off. On one CPU that is enough, however many there are at an
//! end. On several, one of many producers first brings its string to a stretch of its stack, under its rule,
//! where its memory may still be missing; then it knows the length, claims so many places at once, fills them
//! and publishes them (`sync::sequencer`). One of many consumers copies first and then moves the tail from
//! where it was; if another has moved it, it begins again.
//!
//! Strings fail without `Q_full` and `Q_empty`, as `ByteQueue::write` and `ByteQueue::read` do; a stretch of
//! one byte goes along them like any `Q_put`.
//!
//! Source: dissertation, section 4.1.4, footnote 2 (a ByteQueue "that has a string-oriented interface to
//! reduce looping"), and section 3.2.2.
//!
//! *Unsafe*: claims by their address.

use super::emit::Ending;
use super::{ByteQueue, Layout, Parties, Q_EMPTY, Q_EMPTY_1, Q_FULL, Q_FULL_1};
use crate::kit::assembly::{Assembly, Continuation, Mover};
use crate::kit::emit;
use crate::kit::regs::Regs;
use codegen::dynasm;
use codegen::idioms::Reg;
use sync::Sequencer;

/// The user's registers, which a string's put and get save themselves.
const STRING: Regs = Regs::of(&[Reg::Rdx, Reg::Rsi, Reg::Rdi]);

/// Moves a position on by the register `by`; where there are several CPUs that also orders the look
/// at what the other end has noted.
#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
fn publish(a: &mut Assembly, queue: &ByteQueue, position: i32, by: Reg) {
    if queue.spec.several_cpus {
        a.push(0xf0);
    }
    let by = by as u8;
    dynasm!(a ; .arch x64 ; add [position], Rq(by));
}

/// After a publication: the callback of the other end's failure, if it is linked.
fn tell(a: &mut Assembly, queue: &ByteQueue, port: usize, failed: i32, live: Regs) {
    let Some(link) = a.use_link(queue.header, port) else {
        return;
    };
    let [came, done] = core::array::from_fn(|_| a.label());
    dynasm!(a ; .arch x64 ; cmp DWORD [failed], 0 ; jne =>came ; =>done);
    a.cold(|a| {
        dynasm!(a ; .arch x64
            ; =>came
            ; xor ecx, ecx
            ; xchg [failed], ecx
            ; test ecx, ecx
            ; jz =>done
        );
        a.place(link, live, None, &[]);
        dynasm!(a ; .arch x64 ; jmp =>done);
    });
}

/// Emits `Q_put` for `mover`. Changes rax, rcx and what the mover changes.
///
/// A string: rdx bytes from rsi on, all of them or `way.no`.
pub fn put(a: &mut Assembly, queue: &ByteQueue, q: &Layout, way: Continuation, mover: &dyn Mover) {
    match mover.stretch() {
        Some(count) => put_stretch(a, queue, q, way, mover, count),
        None if queue.spec.is_claimed() => put_claimed(a, queue, q, way, mover),
        None => put_string(a, queue, q, way, mover),
    }
}

fn put_string(
    a: &mut Assembly,
    queue: &ByteQueue,
    q: &Layout,
    way: Continuation,
    mover: &dyn Mover,
) {
    let undo = a.label();
    dynasm!(a ; .arch x64 ; mov rax, [q.tail] ; sub rax, [q.head] ; add rax, q.size);
    mover.compare_room(a);
    dynasm!(a ; .arch x64
        ; jb =>way.no
        ; push rsi
        ; push rdi
        ; push rdx
        ; mov edi, [q.head]
    );
    mover.emit(a, &q.ring(), undo);
    publish(a, queue, q.head, Reg::Rdi);
    tell(
        a,
        queue,
        Q_EMPTY_1.number(),
        q.get_failed,
        way.live - STRING,
    );
    dynasm!(a ; .arch x64 ; pop rdx ; pop rdi ; pop rsi);
    a.cold(|a| {
        dynasm!(a ; .arch x64 ; =>undo ; pop rdx ; pop rdi ; pop rsi ; jmp =>way.no);
    });
}

/// Bytes on the stack of a producer, between its memory and the ring.
const BESIDE: i32 = 4096;

fn put_claimed(
    a: &mut Assembly,
    queue: &ByteQueue,
    q: &Layout,
    way: Continuation,
    mover: &dyn Mover,
) {
    let [undo, again, around, filled, late, noted, over] = core::array::from_fn(|_| a.label());
    dynasm!(a ; .arch x64
        ; cmp rdx, BESIDE / mover.growth()
        ; ja =>way.no
        ; push rsi
        ; push rdi
        ; push rdx
        ; sub rsp, BESIDE
        ; mov rdi, rsp
    );
    mover.emit_beside(a, undo);
    // rdx = how many places the string fills.
    dynasm!(a ; .arch x64
        ; mov rdx, rdi
        ; sub rdx, rsp
        ; mov rax, [q.head]
        ; =>again
        ; mov rcx, rax
        ; sub rcx, [q.tail]
        ; add rcx, rdx
        ; cmp rcx, q.size
        ; ja =>undo
        ; lea rcx, [rax + rdx]
        ; lock cmpxchg [q.head], rcx
        ; jne =>again
        ; mov rsi, rsp
        ; push rax
        ; and eax, q.size - 1
        ; lea rdi, [rax + q.bytes]
        ; mov ecx, q.size
        ; sub ecx, eax
        ; cmp ecx, edx
        ; jb =>around
    );
    emit::copy_edx(a);
    dynasm!(a ; .arch x64
        ; =>filled
        ; pop rax
        ; lea rcx, [rax + rdx]
        ; cmp [q.published], rax
        ; jne =>late
        ; xchg [q.published], rcx
        ; cmp QWORD [q.noted], 0
        ; jne =>noted
        ; =>over
    );
    tell(
        a,
        queue,
        Q_EMPTY_1.number(),
        q.get_failed,
        way.live - STRING,
    );
    dynasm!(a ; .arch x64 ; add rsp, BESIDE ; pop rdx ; pop rdi ; pop rsi);
    let kept = Regs::SYSV
        .without(STRING)
        .without(Regs::of(&[Reg::Rax, Reg::Rcx]));
    let claims = i64::from(q.claims);
    a.cold(|a| {
        // Past the ring's end, ecx bytes before it.
        dynasm!(a ; .arch x64 ; =>around ; sub edx, ecx);
        emit::copy_ecx(a);
        dynasm!(a ; .arch x64 ; mov rdi, q.bytes);
        emit::copy_edx(a);
        dynasm!(a ; .arch x64
            ; lea rdx, [rsp + 8]
            ; sub rsi, rdx
            ; mov rdx, rsi
            ; jmp =>filled
            // An older claim has not been published: from rax on, rdx places.
            ; =>late
            ; mov rsi, rax
            ; mov rdi, QWORD claims
        );
        a.call_compiled(publish_claim as *const () as usize, kept);
        dynasm!(a ; .arch x64 ; jmp =>over ; =>noted ; mov rdi, QWORD claims);
        a.call_compiled(go_on as *const () as usize, kept);
        dynasm!(a ; .arch x64
            ; jmp =>over
            ; =>undo
            ; add rsp, BESIDE
            ; pop rdx
            ; pop rdi
            ; pop rsi
            ; jmp =>way.no
        );
    });
}

extern "sysv64" fn publish_claim(claims: *const Sequencer, first: u64, count: usize) {
    // SAFETY: the code passes the claims of the queue that it puts into.
    unsafe { &*claims }.publish(first, count);
}

extern "sysv64" fn go_on(claims: *const Sequencer) {
    // SAFETY: as above.
    unsafe { &*claims }.go_on();
}

fn put_stretch(
    a: &mut Assembly,
    queue: &ByteQueue,
    q: &Layout,
    way: Continuation,
    mover: &dyn Mover,
    count: i32,
) {
    let [retry, failing] = core::array::from_fn(|_| a.label());
    let one = count == 1;
    let none = if one { failing } else { way.no };
    dynasm!(a ; .arch x64
        ; =>retry
        ; mov rcx, [q.head]
        ; mov rax, rcx
        ; sub rax, [q.tail]
        ; cmp rax, q.size - count
        ; ja =>none
        ; and ecx, q.size - 1
    );
    if !one {
        dynasm!(a ; .arch x64 ; cmp ecx, q.size - count ; ja =>none);
    }
    mover.emit(a, &q.ring(), none);
    let came = a.use_link(queue.header, Q_EMPTY_1.number());
    if queue.spec.several_cpus && came.is_some() {
        a.push(0xf0);
    }
    dynasm!(a ; .arch x64 ; add QWORD [q.head], count);
    let fails = one.then(|| a.use_link(queue.header, Q_FULL.number()));
    if one || came.is_some() {
        let ending = Ending {
            retry,
            failing,
            other_failed: q.get_failed,
            came: (came, Regs::NONE),
            own_failed: q.put_failed,
            fails: (fails.flatten(), Regs::NONE),
        };
        ending.emit(a, way);
    }
}

/// Emits `Q_get` for `mover`. Changes rax, rcx, for a stretch rdx, and what the mover changes.
///
/// A string: what is there, at most rdx bytes, to rsi; rax says how many. A stretch: rax says how many.
pub fn get(a: &mut Assembly, queue: &ByteQueue, q: &Layout, way: Continuation, mover: &dyn Mover) {
    match mover.stretch() {
        Some(most) => get_stretch(a, queue, q, way, mover, most),
        None => get_string(a, queue, q, way, mover),
    }
}

fn get_string(
    a: &mut Assembly,
    queue: &ByteQueue,
    q: &Layout,
    way: Continuation,
    mover: &dyn Mover,
) {
    let races = queue.spec.several_cpus && queue.spec.consumers == Parties::Many;
    let [again, undo, lost] = core::array::from_fn(|_| a.label());
    dynasm!(a ; .arch x64
        ; =>again
        ; mov rcx, [q.tail]
        ; mov rax, [q.published]
        ; sub rax, rcx
        ; je =>way.no
    );
    if races {
        // Another consumer has gone on between the two looks.
        dynasm!(a ; .arch x64 ; cmp rax, q.size ; ja =>again);
    }
    dynasm!(a ; .arch x64
        ; test rdx, rdx
        ; jz =>way.no
        ; push rdx
        ; push rsi
        ; push rdi
        ; mov rdi, rcx
        ; cmp rdx, rax
        ; cmova rdx, rax
    );
    if q.size > emit::MOST {
        // The rest with the next call: interrupts are off meanwhile.
        dynasm!(a ; .arch x64 ; mov eax, emit::MOST ; cmp rdx, rax ; cmova rdx, rax);
    }
    if races {
        dynasm!(a ; .arch x64 ; push rcx);
        mover.emit(a, &q.ring(), undo);
        dynasm!(a ; .arch x64
            ; pop rax
            ; lea rcx, [rax + rdx]
            ; lock cmpxchg [q.tail], rcx
            ; jne =>lost
        );
    } else {
        mover.emit(a, &q.ring(), undo);
        publish(a, queue, q.tail, Reg::Rdx);
    }
    dynasm!(a ; .arch x64 ; mov rax, rdx);
    let live = (way.live - STRING) | Regs::of(&[Reg::Rax]);
    tell(a, queue, Q_FULL_1.number(), q.put_failed, live);
    dynasm!(a ; .arch x64 ; pop rdi ; pop rsi ; pop rdx);
    a.cold(|a| {
        if races {
            dynasm!(a ; .arch x64
                ; =>lost
                ; pop rdi
                ; pop rsi
                ; pop rdx
                ; jmp =>again
                ; =>undo
                ; pop rcx
            );
        } else {
            a.bind(undo);
        }
        dynasm!(a ; .arch x64 ; pop rdi ; pop rsi ; pop rdx ; jmp =>way.no);
    });
}

fn get_stretch(
    a: &mut Assembly,
    queue: &ByteQueue,
    q: &Layout,
    way: Continuation,
    mover: &dyn Mover,
    most: i32,
) {
    let [retry, failing] = core::array::from_fn(|_| a.label());
    // An end that has failed and was not told since fails again.
    dynasm!(a ; .arch x64
        ; cmp QWORD [q.get_failed], 0
        ; jne =>way.no
        ; =>retry
        ; mov rcx, [q.tail]
        ; mov rax, [q.published]
        ; sub rax, rcx
        ; jz =>failing
        // As many as there are, as lie before the ring's end, and as the caller allows.
        ; and ecx, q.size - 1
        ; mov edx, q.size
        ; sub edx, ecx
        ; cmp eax, edx
        ; cmova eax, edx
        ; mov edx, most
        ; cmp eax, edx
        ; cmova eax, edx
    );
    mover.emit(a, &q.ring(), way.no);
    let came = a.use_link(queue.header, Q_FULL_1.number());
    if queue.spec.several_cpus && came.is_some() {
        a.push(0xf0);
    }
    dynasm!(a ; .arch x64 ; add [q.tail], rax);
    let fails = a.use_link(queue.header, Q_EMPTY.number());
    let ending = Ending {
        retry,
        failing,
        other_failed: q.put_failed,
        came: (came, Regs::of(&[Reg::Rax])),
        own_failed: q.get_failed,
        fails: (fails, Regs::NONE),
    };
    ending.emit(a, way);
}
