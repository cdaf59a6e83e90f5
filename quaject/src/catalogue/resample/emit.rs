//! The code of a resampler.
//!
//! *Interface*: [`convert`] emits the routine. It is entered with the place of the frames that come in rdi,
//! their number in rsi, the place of those that go in rdx and their number in rcx; the numbers that were
//! taken and put come out in rax and rdx.
//!
//! Both samples of a frame are multiplied by the same coefficient, so that one is loaded, and interpolated,
//! once for two products. Sums have 64 bits; no input can make one overflow.

use super::format::{Where, load, store};
use super::table::{BETWEEN, Coefficient, ONE, UNROLLED};
use super::{At, PAST, Spec};
use codegen::{Draft, dynasm};

/// Emits the routine for `spec`; `laws` are the tables of the two formats.
pub(super) fn convert(d: &mut Draft, spec: Spec, at: At, laws: [Where; 2]) {
    match at.taps {
        0 => plain(d, spec, laws),
        _ => filtered(d, spec, at, laws),
    }
}

/// The routine for equal rates.
fn plain(d: &mut Draft, spec: Spec, laws: [Where; 2]) {
    let [next, end] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        ; mov r8, rdx
        ; cmp rsi, rcx
        ; cmova rsi, rcx
        ; mov r9, rsi
        ; test r9, r9
        ; jz =>end
        ; =>next
    );
    load(d, spec.from, laws[0]);
    store(d, spec.to, laws[1]);
    dynasm!(d ; .arch x64
        ; add rdi, spec.from.bytes() as i32
        ; add r8, spec.to.bytes() as i32
        ; dec r9
        ; jnz =>next
        ; =>end
        ; mov rax, rsi
        ; mov rdx, rsi
        ; ret
    );
}

/// The routine with the filter. r10 is the time of the next frame that goes, r11 the place of the oldest
/// frame.
fn filtered(d: &mut Draft, spec: Spec, at: At, laws: [Where; 2]) {
    let [take, no_wrap, due, end] = core::array::from_fn(|_| d.label());
    let past = at.taps * PAST as i32;
    dynasm!(d ; .arch x64
        ; push rbx
        ; push rbp
        ; push r12
        ; push r13
        ; push r14
        ; push rsi
        ; push rcx
        ; mov r8, rdx
        ; mov r9, rcx
        ; mov r10, [at.phase]
        ; mov r11, [at.oldest]
        ; =>take
        ; mov rax, r10
        ; shr rax, 32
        ; jz =>due
        ; sub rsi, 1
        ; jb =>end
    );
    load(d, spec.from, laws[0]);
    dynasm!(d ; .arch x64
        ; movsxd rax, eax
        ; movsxd rcx, ecx
        ; mov [r11 + at.past], rax
        ; mov [r11 + (at.past + 8)], rcx
        ; mov [r11 + (at.past + past)], rax
        ; mov [r11 + (at.past + past + 8)], rcx
        ; add rdi, spec.from.bytes() as i32
        ; add r11d, PAST as i32
        ; cmp r11d, past
        ; jb =>no_wrap
        ; xor r11d, r11d
        ; =>no_wrap
        ; mov eax, 1
        ; shl rax, 32
        ; sub r10, rax
        ; jmp =>take
        ; =>due
        ; test r9, r9
        ; jz =>end
    );
    sums(d, at);
    rounded(d);
    store(d, spec.to, laws[1]);
    dynasm!(d ; .arch x64
        ; add r8, spec.to.bytes() as i32
        ; dec r9
        ; add r10, [at.step]
        ; jmp =>take
        ; =>end
        ; mov [at.phase], r10
        ; mov [at.oldest], r11
        ; pop rdx
        ; sub rdx, r9
        ; pop rax
        ; xor ecx, ecx
        ; cmp rsi, -1 // none was left when one was to be taken
        ; cmove rsi, rcx
        ; sub rax, rsi
        ; pop r14
        ; pop r13
        ; pop r12
        ; pop rbp
        ; pop rbx
        ; ret
    );
}

/// The sums of the products for the time r10, into r12 and r13.
fn sums(d: &mut Draft, at: At) {
    let next = d.label();
    let row = at.taps * size_of::<Coefficient>() as i32;
    dynasm!(d ; .arch x64
        ; mov ebx, r10d
        ; shr ebx, BETWEEN as i8
        ; imul ebx, ebx, row
        ; add rbx, at.table
        ; lea rdx, [r11 + at.past]
        ; mov ebp, r10d
        ; and ebp, (1 << BETWEEN) - 1
        ; xor r12d, r12d
        ; xor r13d, r13d
        ; mov r14d, at.taps / UNROLLED as i32
        ; =>next
    );
    for tap in 0..UNROLLED as i32 {
        let coefficient = tap * size_of::<Coefficient>() as i32;
        let frame = tap * PAST as i32;
        dynasm!(d ; .arch x64 ; movsxd rax, DWORD [rbx + coefficient]);
        if !at.exact {
            dynasm!(d ; .arch x64
                ; movsxd rcx, DWORD [rbx + (coefficient + 4)]
                ; imul rcx, rbp
                ; sar rcx, BETWEEN as i8
                ; add rax, rcx
            );
        }
        dynasm!(d ; .arch x64
            ; mov rcx, rax
            ; imul rax, [rdx + frame]
            ; imul rcx, [rdx + (frame + 8)]
            ; add r12, rax
            ; add r13, rcx
        );
    }
    dynasm!(d ; .arch x64
        ; add rbx, (UNROLLED * size_of::<Coefficient>()) as i32
        ; add rdx, (UNROLLED * PAST) as i32
        ; dec r14d
        ; jnz =>next
    );
}

/// The sums in r12 and r13 become samples in eax and ecx.
fn rounded(d: &mut Draft) {
    let [left, right] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        ; lea rax, [r12 + (1 << (ONE - 1))]
        ; lea rcx, [r13 + (1 << (ONE - 1))]
        ; sar rax, ONE as i8
        ; sar rcx, ONE as i8
        ; movsx rdx, ax
        ; cmp rdx, rax
        ; je =>left
        ; sar rax, 63
        ; xor eax, 0x7fff
        ; =>left
        ; movsx rdx, cx
        ; cmp rdx, rcx
        ; je =>right
        ; sar rcx, 63
        ; xor ecx, 0x7fff
        ; =>right
    );
}
