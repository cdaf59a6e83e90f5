//! The code of a mixing routine.
//!
//! *Interface*: [`mix`] emits it, for the voices of one moment. The block's address is in rsi and its bytes
//! are in rdx; the number of bytes comes out in rax.
//!
//! Two frames are added at once, as four lanes of one register: the low 15 bits of each lane are added, the
//! highest by exclusive or. Only where a lane has overflowed, which is seldom, the limits are put in.
//! General registers are used and no vectors: an interrupt handler would have to save those.

use super::voice::{At, FRAMES, Voice};
use crate::kit::assembly::{Assembly, Link};
use crate::kit::class::Ref;
use crate::kit::regs::Regs;
use crate::kit::routine_env::RoutineError;
use codegen::idioms::Reg;
use codegen::{Label, dynasm};

/// The registers that it changes: without a voice, with one, and with several.
pub const SILENT: Regs = Regs::of(&[Reg::Rax, Reg::Rcx, Reg::Rdx, Reg::Rdi]);
/// With one.
pub const ALONE: Regs = Regs::of(&[Reg::Rax, Reg::Rcx, Reg::Rdx, Reg::Rsi, Reg::Rdi]);
/// With several.
pub const SEVERAL: Regs = Regs::SYSV;

/// The block's address and its frames, kept from voice to voice.
const KEPT: Regs = Regs::of(&[Reg::R8, Reg::R9]);

/// Emits the routine's body.
///
/// # Errors
/// [`RoutineError`].
pub fn mix(a: &mut Assembly, voices: &[Ref<Voice>]) -> Result<(), RoutineError> {
    dynasm!(a ; .arch x64 ; mov rdi, rsi ; shr edx, 2 ; cld);
    let alone = voices.len() <= 1 && voices.iter().all(|voice| !voice.is_staged());
    if !alone {
        dynasm!(a ; .arch x64 ; mov r8, rdi ; mov r9d, edx);
    }
    if voices.is_empty() {
        dynasm!(a ; .arch x64 ; mov ecx, edx ; xor eax, eax ; rep stosd);
    }
    // The addition of frames at full volume stands once, behind the rest.
    let add = a.label();
    let mut adds = false;
    for (place, voice) in voices.iter().enumerate() {
        let at = voice.at()?;
        if place > 0 {
            dynasm!(a ; .arch x64 ; mov rdi, r8 ; mov edx, r9d);
        }
        let (first, full) = (place == 0, at.volume == Voice::FULL);
        let link = match voice.is_staged() {
            true => a.use_link(voice.header(), FRAMES.number()),
            false => None,
        };
        let move_frames = match (first, full) {
            (true, true) => None,
            (false, true) => {
                adds = true;
                Some(add)
            }
            _ => Some(scaled(a, at.volume, first)),
        };
        one(a, at, first, link, move_frames);
    }
    if adds {
        a.cold(|a| addition(a, add));
    }
    match alone {
        true => dynasm!(a ; .arch x64 ; lea eax, [rdx * 4]),
        false => dynasm!(a ; .arch x64 ; lea eax, [r9 * 4]),
    }
    Ok(())
}

/// The frames at rsi, ecx of them, go to rdi: copied, or by a subroutine.
fn pass(a: &mut Assembly, by: Option<Label>) {
    match by {
        None => dynasm!(a ; .arch x64 ; rep movsd),
        Some(by) => dynasm!(a ; .arch x64 ; push rax ; call =>by ; pop rax),
    }
}

/// One voice: the block at rdi of edx frames. Keeps edx.
fn one(a: &mut Assembly, at: At, first: bool, link: Option<Link>, by: Option<Label>) {
    let q = at.ring;
    let [waits, short, take, wraps, done] = core::array::from_fn(|_| a.label());
    dynasm!(a ; .arch x64
        ; mov rax, [q.published]
        ; sub rax, [q.tail]
        ; shr rax, 2
        ; cmp eax, [at.threshold]
        ; jb =>waits
        ; and DWORD [at.threshold], 0
    );
    if let Some(link) = link {
        // The link fills a block of its own.
        dynasm!(a ; .arch x64 ; lea edx, [r9 * 4] ; mov rsi, at.block);
        a.place(link, KEPT, None, &[]);
        dynasm!(a ; .arch x64 ; mov rdi, r8 ; mov edx, r9d ; shr rax, 2);
    }
    dynasm!(a ; .arch x64
        ; cmp rax, rdx
        ; jb =>short
        ; mov eax, edx
        ; =>take
    );
    if link.is_some() {
        dynasm!(a ; .arch x64 ; mov rsi, at.block ; mov ecx, eax);
        pass(a, by);
    } else {
        dynasm!(a ; .arch x64
            ; mov esi, [q.tail]
            ; and esi, q.size - 1
            ; mov ecx, q.size
            ; sub ecx, esi
            ; shr ecx, 2
            ; add rsi, q.bytes
            ; cmp ecx, eax
            ; jb =>wraps
            ; mov ecx, eax
        );
        let over = a.label();
        pass(a, by);
        dynasm!(a ; .arch x64
            ; =>over
            ; shl rax, 2
            ; add [q.tail], rax
        );
        a.cold(|a| {
            dynasm!(a ; .arch x64 ; =>wraps ; push rax ; sub eax, ecx);
            pass(a, by);
            dynasm!(a ; .arch x64 ; mov ecx, eax ; mov rsi, q.bytes);
            pass(a, by);
            dynasm!(a ; .arch x64 ; pop rax ; jmp =>over);
        });
    }
    a.bind(done);
    a.cold(|a| {
        let [counted, quiet] = core::array::from_fn(|_| a.label());
        dynasm!(a ; .arch x64
            ; =>short
            ; cmp DWORD [at.ends], 0
            ; jne =>counted
            ; inc DWORD [at.dry]
            ; =>counted
            ; mov ecx, [at.start]
            ; mov [at.threshold], ecx
            ; mov ecx, [at.patient]
            ; mov [at.patience], ecx
        );
        if first {
            clear(a);
        }
        dynasm!(a ; .arch x64
            ; jmp =>take
            ; =>waits
        );
        if first {
            clear(a);
        }
        dynasm!(a ; .arch x64
            ; test eax, eax
            ; jz =>done
            ; cmp DWORD [at.patience], 0
            ; je =>quiet
            ; dec DWORD [at.patience]
            ; jmp =>done
            ; =>quiet
            ; mov DWORD [at.threshold], 1
            ; jmp =>done
        );
    });
}

/// Clears the block at rdi of edx frames. Keeps rax and rdi.
fn clear(a: &mut Assembly) {
    dynasm!(a ; .arch x64
        ; push rax
        ; push rdi
        ; mov ecx, edx
        ; xor eax, eax
        ; rep stosd
        ; pop rdi
        ; pop rax
    );
}

/// The subroutine that adds ecx frames at rsi to those at rdi, and moves both behind them. Keeps rdx and the
/// registers that hold no frame.
fn addition(a: &mut Assembly, begin: Label) {
    let [pair, more, stored, last, end, over, single] = core::array::from_fn(|_| a.label());
    dynasm!(a ; .arch x64
        ; =>begin
        ; push rdx
        ; push rbx
        ; push rbp
        ; mov r10, QWORD 0x7fff_7fff_7fff_7fff
        ; mov r11, QWORD 0x8000_8000_8000_8000u64 as i64
        ; sub ecx, 2
        ; jb =>last
        ; =>pair
        ; mov rax, [rsi]
        ; mov rdx, [rdi]
    );
    lanes(a);
    dynasm!(a ; .arch x64
        ; jnz =>over
        ; =>stored
        ; mov [rdi], rbx
        ; =>more
        ; add rsi, 8
        ; add rdi, 8
        ; sub ecx, 2
        ; jae =>pair
        ; =>last
        ; add ecx, 2
        ; jz =>end
        ; mov eax, [rsi]
        ; mov edx, [rdi]
    );
    lanes(a);
    dynasm!(a ; .arch x64 ; jz =>single);
    limits(a);
    dynasm!(a ; .arch x64
        ; =>single
        ; mov [rdi], ebx
        ; add rsi, 4
        ; add rdi, 4
        ; =>end
        ; pop rbp
        ; pop rbx
        ; pop rdx
        ; ret
        ; =>over
    );
    limits(a);
    dynasm!(a ; .arch x64 ; jmp =>stored);
}

/// The lanes of rax and rdx are added into rbx. Not zero: the lanes of which the highest bit is set in rax
/// and r11 are beyond the limit, and rdx is what was in it, exclusive or the sum.
fn lanes(a: &mut Assembly) {
    dynasm!(a ; .arch x64
        ; mov rbx, rax
        ; mov rbp, rdx
        ; and rbx, r10
        ; and rbp, r10
        ; add rbx, rbp
        ; mov rbp, rax
        ; xor rbp, rdx
        ; and rbp, r11
        ; xor rbx, rbp
        ; xor rax, rbx
        ; xor rdx, rbx
        ; and rax, rdx
        ; test rax, r11
    );
}

/// After [`lanes`]: puts the limits into the lanes that are beyond them. A lane whose terms were negative
/// has the lower one. Changes rax, rdx and rbp.
fn limits(a: &mut Assembly) {
    dynasm!(a ; .arch x64
        ; and rax, r11
        ; shr rax, 15
        ; mov rbp, rax
        ; shl rax, 16
        ; sub rax, rbp
        ; xor rdx, rbx
        ; and rdx, r11
        ; shr rdx, 15
        ; add rdx, r10
        ; and rdx, rax
        ; not rax
        ; and rbx, rax
        ; or rbx, rdx
    );
}

/// A subroutine as [`addition`], for frames at `volume`; the `first` voice's are not added to anything. Its
/// label.
fn scaled(a: &mut Assembly, volume: u16, first: bool) -> Label {
    let [begin, next, fits, end] = core::array::from_fn(|_| a.label());
    a.cold(|a| {
        dynasm!(a ; .arch x64
            ; =>begin
            ; push rdx
            ; add ecx, ecx
            ; jz =>end
            ; =>next
            ; movsx eax, WORD [rsi]
            ; imul eax, eax, i32::from(volume)
            ; sar eax, 8
        );
        if !first {
            dynasm!(a ; .arch x64 ; movsx edx, WORD [rdi] ; add eax, edx);
        }
        dynasm!(a ; .arch x64
            ; movsx edx, ax
            ; cmp edx, eax
            ; je =>fits
            ; sar eax, 31
            ; xor eax, 0x7fff
            ; =>fits
            ; mov [rdi], ax
            ; add rsi, 2
            ; add rdi, 2
            ; dec ecx
            ; jnz =>next
            ; =>end
            ; pop rdx
            ; ret
        );
    });
    begin
}
