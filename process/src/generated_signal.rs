//! A signal that a thread sends itself, and `rt_sigreturn`, by generated code.
//!
//! *Interface*: [`kill`], [`tgkill`] and [`sigreturn`] emit one call each, in the place and by the contract
//! of [`crate::generated_calls`]: the code answers and goes to user mode, or goes to a label with nothing
//! done.
//!
//! The first two build the handler's frame on the user's stack from the registers, and the vector registers
//! are written there by the processor; signal 0 only checks permission. The third loads all registers from a
//! frame. The equivalent slow paths in Rust are
//! [`raise`](crate::signal::deliver::raise) with [`push`](crate::sigframe::push), and
//! [`sigreturn_slow`](crate::signal::deliver::sigreturn_slow). This is left to the slow paths:
//! * a thread that is marked, traced, has no vector registers yet, or an alternate stack; a process with more
//!   threads; signals or timers that wait;
//! * signals that are blocked, that cannot be, or that stop or continue; actions without a handler, those for
//!   one time, and those that do not block their signal;
//! * a restartable sequence under way; a frame that is not as it was made, except for registers and mask.
//!
//! The action is read without the table's monitor: its version is even, and the same before and after. The
//! processor neither exchanges loads nor stores with each other, so what was read between is one action.
//!
//! Interrupts are off. A page that is not there, or that another thread takes away, leads to the slow path,
//! which does everything again: until a frame has been written, nothing has changed, and a mask or registers
//! that have been loaded are loaded once more.
//! Source: dissertation, section 3.3.4.

use abi::layout::USER_END;
use abi::linux::*;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Draft, Label, dynasm};
use core::mem::{offset_of, size_of};
use file::arc_swap::ArcSwap;
use machine::cpu::StackBase;
use machine::trap::{RFLAGS_IF, RFLAGS_USER, USER_CS, USER_SS};
use machine::{entry_mitigations, fpu};
use sync::Monitor;
use thread::dispatch::way_out;
use thread::flags::ATTENTION;

use crate::fp;
use crate::generated_calls::{BLOCKED, OWNER, to_base};
use crate::process::signals::action::{SignalActions, TABLE, VERSION};
use crate::process::signals::set::{STOPPERS, UNBLOCKABLE, bit};
use crate::process::signals::{ACTIONS, WAITING};
use crate::process::timers::RUNG;
use crate::process::{FIRST_THREAD, NEXT_THREAD, Process, TRACER, Task, beside_group};
use crate::sigframe::writer::emit_place;
use crate::sigframe::{INFO, RFLAGS_CLEARED, UC, framed, saved};
use crate::smap::{close, open};
use account::cred::Cred;

const TTE: i32 = StackBase::TTE as i32;
const USER_RSP: i32 = StackBase::USER_RSP as i32;
const GROUP: i32 = offset_of!(Task, group_at) as i32;
const TRACED: i32 = (offset_of!(Task, trace) + TRACER) as i32;
const OWN_WAITING: i32 = offset_of!(Task, waiting) as i32;
const ALTSTACK: i32 = (offset_of!(Task, altstack) + Monitor::<Sigaltstack>::DATA) as i32;
const PROCESS_WAITING: i32 = beside_group(offset_of!(Process, signals) + WAITING);
const TIMERS_RUNG: i32 = beside_group(offset_of!(Process, timers) + RUNG);

/// A field of an action in a table of them.
macro_rules! action {
    ($field:ident) => {
        (TABLE + offset_of!(Sigaction, $field)) as i32
    };
}

/// By which call a signal is sent.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Kill,
    Tgkill,
}

/// `kill` of the only thread's own process.
pub fn kill(d: &mut Draft, slow: Label) {
    raise(d, slow, By::Kill);
}

/// `tgkill` of the only thread of a process by itself.
pub fn tgkill(d: &mut Draft, slow: Label) {
    raise(d, slow, By::Tgkill);
}

/// Sends this many bytes of registers to the stack: rdx, r8, r9, r10.
const KEPT: i32 = 4 * 8;
/// The action's restorer, mask and handler below them.
const ACTION: i32 = 3 * 8;

fn raise(d: &mut Draft, slow: Label, by: By) {
    if !fp::by_processor() {
        return dynasm!(d ; .arch x64 ; jmp =>slow);
    }
    let [back, drop, shut, outside, nothing] = core::array::from_fn(|_| d.label());
    let special = (UNBLOCKABLE | STOPPERS | bit(SIGCONT)) as i32;
    let area = fpu::area_size() as i32;
    to_base(d);
    dynasm!(d ; .arch x64
        ; push rdx
        ; push r8
        ; push r9
        ; push r10
        ; mov r8, [rsp + KEPT + TTE]
        ; mov r9, [r8 + OWNER]
        ; mov r10, [r9 + GROUP]
        ; cmp edi, [r10 + beside_group(offset_of!(Process, pid))]
        ; jne =>back
    );
    match by {
        By::Kill => dynasm!(d ; .arch x64
            ; test esi, esi
            ; jz =>nothing
            ; lea edx, [rsi - 1]
        ),
        By::Tgkill => dynasm!(d ; .arch x64
            ; cmp esi, [r9 + offset_of!(Task, tid) as i32]
            ; jne =>back
            ; test edx, edx
            ; jz =>nothing
            ; dec edx
        ),
    }
    dynasm!(d ; .arch x64
        ; cmp edx, 63
        ; ja =>back
        ; and edx, 63
        ; test DWORD [r8 + thread::STATE_OFFSET as i32], ATTENTION as i32
        ; jnz =>back
        ; test BYTE [r8 + thread::KIND_OFFSET as i32], thread::KIND_FP as i8
        ; jz =>back
        ; cmp DWORD [r9 + TRACED], 0
        ; jne =>back
        ; mov rax, [r10 + beside_group(offset_of!(Process, thread_list) + FIRST_THREAD)]
        ; cmp QWORD [rax + NEXT_THREAD as i32], 0
        ; jne =>back
        ; mov rax, [r10 + TIMERS_RUNG]
        ; or rax, [r10 + PROCESS_WAITING]
        ; or rax, [r9 + OWN_WAITING]
        ; or rax, [r9 + ALTSTACK + offset_of!(Sigaltstack, size) as i32]
        ; jnz =>back
        ; mov rax, [r9 + BLOCKED]
        ; or rax, special
        ; bt rax, rdx
        ; jc =>back
        ; mov r10, [r10 + beside_group(offset_of!(Process, signals) + ACTIONS + ArcSwap::<SignalActions>::WORD)]
        ; mov eax, [r10 + VERSION as i32]
        ; test al, 1
        ; jnz =>back
        ; shl edx, 5
        ; push QWORD [r10 + rdx + action!(handler)]
        ; push QWORD [r10 + rdx + action!(mask)]
        ; push QWORD [r10 + rdx + action!(restorer)]
        ; test DWORD [r10 + rdx + action!(flags)], (SA_RESETHAND | SA_NODEFER) as i32
        ; jnz =>drop
        ; shr edx, 5
        ; cmp eax, [r10 + VERSION as i32]
        ; jne =>drop
        ; cmp QWORD [rsp + 16], SIG_IGN as i32
        ; jbe =>drop
        ; mov rax, QWORD USER_END as i64
        ; cmp [rsp + 16], rax
        ; jae =>drop
        // Where the frame is.
        ; mov r10, [r8 + thread::SEQUENCE_AREA_OFFSET as i32]
        ; mov rax, [rsp + ACTION + KEPT + USER_RSP]
    );
    emit_place(d, drop);
    const { assert!(size_of::<Sigaction>() == 1 << 5) };
    clamp(d, Reg::Rax);
    clamp(d, Reg::R8);
    clamp(d, Reg::R10);
    open(d);
    d.fault_begin();
    dynasm!(d ; .arch x64
        ; test r10, r10
        ; jz =>outside
        ; cmp QWORD [r10 + RSEQ_SEQUENCE as i32], 0
        ; jne =>shut
        ; =>outside
    );
    write_frame(d, by);
    fp::emit_save(d, area);
    d.fault_end(shut);
    close(d);
    dynasm!(d ; .arch x64
        // The handler begins with the registers of a program's start; eax is the mask of all.
        ; xrstor64 [fp::initial_address() as i32]
        ; mov rax, [rsp + 8]
        ; or rax, [r9 + BLOCKED]
        ; bts rax, rdx
        ; xchg [r9 + BLOCKED], rax
        ; mov rcx, [rsp + 16]
        ; and r11, !(RFLAGS_CLEARED as i32)
        ; mov [rsp + ACTION + KEPT + USER_RSP], r10
        ; lea edi, [rdx + 1]
        ; lea rsi, [r10 + INFO]
        ; lea rdx, [r10 + UC]
        ; add rsp, ACTION
        ; pop r10
        ; pop r9
        ; pop r8
        ; add rsp, 8
        ; xor eax, eax
    );
    way_out(d);
    dynasm!(d ; .arch x64
        ; =>nothing
        ; pop r10
        ; pop r9
        ; pop r8
        ; pop rdx
        ; xor eax, eax
    );
    way_out(d);
    dynasm!(d ; .arch x64 ; =>shut);
    close(d);
    dynasm!(d ; .arch x64
        ; =>drop
        ; add rsp, ACTION
        ; =>back
        ; pop r10
        ; pop r9
        ; pop r8
        ; pop rdx
        ; jmp =>slow
    );
}

/// Writes the frame at rax, but for the vector registers, which are at r8; r9 the task, edx the signal's
/// number less one. Changes r10.
fn write_frame(d: &mut Draft, by: By) {
    let stack = offset_of!(Ucontext, stack) as i32 + UC;
    let sigmask = UC + offset_of!(Ucontext, sigmask) as i32;
    let fields = INFO + offset_of!(Siginfo, fields) as i32;
    let kept = |place: i32| ACTION + 8 * place;
    let selectors = USER_CS as i64 | (USER_SS as i64) << 48;
    const {
        assert!(offset_of!(Sigcontext, ss) == offset_of!(Sigcontext, cs) + 6);
    };
    dynasm!(d ; .arch x64
        ; mov [rax + framed!(r11)], r11
        ; mov [rax + framed!(r12)], r12
        ; mov [rax + framed!(r13)], r13
        ; mov [rax + framed!(r14)], r14
        ; mov [rax + framed!(r15)], r15
        ; mov [rax + framed!(rdi)], rdi
        ; mov [rax + framed!(rsi)], rsi
        ; mov [rax + framed!(rbp)], rbp
        ; mov [rax + framed!(rbx)], rbx
        ; mov [rax + framed!(rcx)], rcx
        ; mov [rax + framed!(rip)], rcx
        ; mov [rax + framed!(eflags)], r11
        ; mov [rax + framed!(fpstate)], r8
        ; mov r10, [rsp + kept(0)]
        ; mov [rax + framed!(r10)], r10
        ; mov r10, [rsp + kept(1)]
        ; mov [rax + framed!(r9)], r10
        ; mov r10, [rsp + kept(2)]
        ; mov [rax + framed!(r8)], r10
        ; mov r10, [rsp + kept(3)]
        ; mov [rax + framed!(rdx)], r10
        ; mov r10, [rsp + kept(4) + USER_RSP]
        ; mov [rax + framed!(rsp)], r10
        ; mov r10, [rsp]
        ; mov [rax + offset_of!(RtSigframe, restorer) as i32], r10
        ; mov r10, [r9 + BLOCKED]
        ; mov [rax + framed!(oldmask)], r10
        ; mov [rax + sigmask], r10
        ; mov r10, QWORD selectors
        ; mov [rax + framed!(cs)], r10
        ; mov r10d, [r9 + ALTSTACK + offset_of!(Sigaltstack, flags) as i32]
        ; mov [rax + stack + offset_of!(Sigaltstack, flags) as i32], r10
        ; lea r10d, [rdx + 1]
        ; mov [rax + INFO], r10
        ; mov r10, [r9 + (offset_of!(Task, cred) + ArcSwap::<Cred>::WORD) as i32]
        ; mov r10d, [r10 + offset_of!(Cred, uid) as i32]
        ; mov [rax + fields + 4], r10d
        ; mov [rax + fields], edi
        ; mov QWORD [rax + UC], (UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS) as i32
    );
    match by {
        By::Kill => dynasm!(d ; .arch x64 ; mov QWORD [rax + INFO + 8], SI_USER),
        By::Tgkill => dynasm!(d ; .arch x64
            ; mov DWORD [rax + INFO + 8], SI_TKILL
            ; mov DWORD [rax + INFO + 12], 0
        ),
    }
    let one = [
        UC + offset_of!(Ucontext, link) as i32,
        stack,
        stack + offset_of!(Sigaltstack, size) as i32,
        framed!(rax),
        framed!(err),
        framed!(trapno),
        framed!(cr2),
    ];
    let rest = (1..14).map(|word| fields + 8 * word);
    for place in one.into_iter().chain(rest) {
        dynasm!(d ; .arch x64 ; mov QWORD [rax + place], 0);
    }
}

/// `rt_sigreturn`.
pub fn sigreturn(d: &mut Draft, slow: Label) {
    if !fp::by_processor() {
        return dynasm!(d ; .arch x64 ; jmp =>slow);
    }
    let [back, shut, other] = core::array::from_fn(|_| d.label());
    let area = fpu::area_size() as i32;
    let stack = offset_of!(Ucontext, stack) as i32;
    let note = |offset: usize| (FPX_SW_OFFSET + offset) as i32;
    to_base(d);
    dynasm!(d ; .arch x64
        ; push rdx
        ; push r8
        ; push r9
        ; push r10
        ; mov r8, [rsp + KEPT + TTE]
        ; test DWORD [r8 + thread::STATE_OFFSET as i32], ATTENTION as i32
        ; jnz =>back
        ; test BYTE [r8 + thread::KIND_OFFSET as i32], thread::KIND_FP as i8
        ; jz =>back
        ; mov r9, [r8 + OWNER]
        ; mov r10, [rsp + KEPT + USER_RSP]
        ; test r10, r10
        ; js =>back
        ; mov eax, [r9 + ALTSTACK + offset_of!(Sigaltstack, flags) as i32]
        ; test al, SS_DISABLE as i8
        ; jz =>back
    );
    clamp(d, Reg::R10);
    open(d);
    d.fault_begin();
    dynasm!(d ; .arch x64
        ; cmp eax, [r10 + stack + offset_of!(Sigaltstack, flags) as i32]
        ; jne =>shut
        ; mov rdx, [r10 + saved!(fpstate)]
        ; test rdx, rdx
        ; jle =>shut
        ; test dl, 63
        ; jnz =>shut
    );
    clamp(d, Reg::Rdx);
    dynasm!(d ; .arch x64
        ; cmp DWORD [rdx + note(offset_of!(FpxSwBytes, magic1))], FP_XSTATE_MAGIC1 as i32
        ; jne =>shut
        ; cmp DWORD [rdx + note(offset_of!(FpxSwBytes, xstate_size))], area
        ; jne =>shut
        ; cmp DWORD [rdx + area], FP_XSTATE_MAGIC2 as i32
        ; jne =>shut
        // The mask's upper half may be anything.
        ; mov eax, -1
        ; xrstor64 [rdx]
        ; mov rax, [r10 + offset_of!(Ucontext, sigmask) as i32]
        ; and rax, !UNBLOCKABLE as i32
        ; xchg [r9 + BLOCKED], rax
        ; mov rdx, [r9 + GROUP]
        ; mov rax, [rdx + TIMERS_RUNG]
        ; or rax, [rdx + PROCESS_WAITING]
        ; or rax, [r9 + OWN_WAITING]
        ; jnz =>shut
        ; mov BYTE [r9 + offset_of!(Task, mask_is_saved) as i32], 0
        ; mov rax, [r10 + saved!(rip)]
        ; mov rdx, rax
        ; shr rdx, 47
        ; jnz =>shut
        ; mov rdx, [r10 + saved!(eflags)]
        ; and rdx, RFLAGS_USER as i32
        ; or rdx, (RFLAGS_IF | 2) as i32
        ; mov rdi, [r10 + saved!(rdi)]
        ; mov rsi, [r10 + saved!(rsi)]
        ; mov rbp, [r10 + saved!(rbp)]
        ; mov rbx, [r10 + saved!(rbx)]
        ; mov r8, [r10 + saved!(r8)]
        ; mov r9, [r10 + saved!(r9)]
        ; mov r12, [r10 + saved!(r12)]
        ; mov r13, [r10 + saved!(r13)]
        ; mov r14, [r10 + saved!(r14)]
        ; mov r15, [r10 + saved!(r15)]
        ; cmp rax, [r10 + saved!(rcx)]
        ; jne =>other
        ; cmp rdx, [r10 + saved!(r11)]
        ; jne =>other
        ; test edx, TRACING as i32
        ; jnz =>other
        // A system call was interrupted: these are its own values, as they were compared.
        ; mov rcx, rax
        ; mov r11, rdx
        ; mov rax, [r10 + saved!(rsp)]
        ; mov [rsp + KEPT + USER_RSP], rax
        ; mov rax, [r10 + saved!(rax)]
        ; mov rdx, [r10 + saved!(rdx)]
        ; mov r10, [r10 + saved!(r10)]
    );
    d.fault_end(shut);
    close(d);
    dynasm!(d ; .arch x64 ; add rsp, KEPT);
    way_out(d);

    dynasm!(d ; .arch x64 ; =>other);
    d.fault_begin();
    dynasm!(d ; .arch x64
        ; push USER_SS as i32
        ; push QWORD [r10 + saved!(rsp)]
        ; push rdx
        ; push USER_CS as i32
        ; push rax
        ; mov rcx, [r10 + saved!(rcx)]
        ; mov r11, [r10 + saved!(r11)]
        ; mov rax, [r10 + saved!(rax)]
        ; mov rdx, [r10 + saved!(rdx)]
        ; mov r10, [r10 + saved!(r10)]
    );
    d.fault_end(shut);
    close(d);
    entry_mitigations::leave_interrupt(d);

    // At any depth below what is kept. No interrupt comes between.
    dynasm!(d ; .arch x64 ; =>shut);
    close(d);
    to_base(d);
    dynasm!(d ; .arch x64
        ; sub rsp, KEPT
        ; =>back
        ; pop r10
        ; pop r9
        ; pop r8
        ; pop rdx
        ; jmp =>slow
    );
}

/// Flags with which no `sysretq` goes to user mode: trap, resume.
const TRACING: u64 = 1 << 8 | 1 << 16;
