//! The signal frame, written by generated code from a trap frame.
//!
//! *Interface*: [`init`] generates the code, once, before the first program. [`write()`] writes a frame and
//! makes the trap frame start the handler, or leaves everything to the slow path in Rust,
//! [`push`](super::push). [`strike`] also decides on the signal of a page fault, and [`ring`] on that of a
//! timer which has interrupted the program. Their slow paths are `signal::force` and `signal::settle`, with
//! `signal::deliver::run` on the way to user mode.
//!
//! This is left to the slow paths: a thread that has no vector registers yet, or an alternate stack; a
//! restartable sequence under way; a page of the stack that is not there; and by [`strike`] and [`ring`] a
//! thread that is marked or traced, a process for which signals or timers wait, a signal that is blocked, and
//! actions without a handler, for one time, or that do not block their signal. Nothing has changed then but
//! user memory below the stack pointer.
//!
//! The code has no branch for what it writes: where everything lies is known when it is generated, and the
//! processor itself writes the vector registers. It reads an action as `generated_signal` does, without the
//! table's monitor. Source: dissertation, section 3.3.4.
//!
//! *Unsafe*: safety contracts of the two routines.

use abi::layout::USER_END;
use abi::linux::*;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Label, OutOfCode, Routine, dynasm};
use core::mem::{offset_of, size_of};
use file::arc_swap::ArcSwap;
use machine::cpu::{StackBase, irq_disable, irq_enable};
use machine::fpu;
use machine::trap::{TrapFrame, USER_CS, USER_SS, VECTOR_TAIL, exception};
use sync::{Monitor, Once};
use thread::flags::{ATTENTION, SEQUENCE};

use super::{INFO, RED_ZONE, RFLAGS_CLEARED, UC, framed};
use crate::fp;
use crate::process::signals::action::{SignalActions, TABLE, VERSION};
use crate::process::signals::{ACTIONS, WAITING};
use crate::process::timers::RUNG;
use crate::process::{Process, TRACER, Task, beside_group};
use crate::smap::{close, open};

static CLASS: Class = Class::new("signal");

/// Writes the frame for the running task, and says whether it did. With interrupts off.
type WriteFn = extern "sysv64" fn(&mut TrapFrame, &Task, &Siginfo, &Sigaction, u64) -> u32;

/// The same for a page fault: the signal, its code and the address. Two says that another signal has come for
/// the process meanwhile.
type StrikeFn = extern "sysv64" fn(&mut TrapFrame, &Task, i32, i32, usize) -> u32;

/// The same for a timer: the signal, its code, and the two words of its information.
type RingFn = extern "sysv64" fn(&mut TrapFrame, &Task, i32, i32, u64, u64) -> u32;

struct Code {
    write: Routine<WriteFn>,
    strike: Routine<StrikeFn>,
    ring: Routine<RingFn>,
}

static CODE: Once<Code> = Once::new();

/// Generates the code, where the processor writes vector registers itself.
#[inline(never)]
pub fn init() -> Result<(), OutOfCode> {
    if fp::by_processor() {
        let (write, strike) = (made("frame", emit_write)?, made("fault", emit_fault)?);
        let ring = made("timer", emit_timer)?;
        // SAFETY: the code changes the trap frame alone, reads the others, which live as long as the call,
        // and the fields that `task`, the running one, alone changes; it preserves what a function of that
        // ABI preserves. A fault at a user address returns.
        let write = unsafe { Routine::from(write) };
        // SAFETY: as above, and the mask is such a field. The process's actions live as long as its threads.
        let strike = unsafe { Routine::from(strike) };
        // SAFETY: as above.
        let ring = unsafe { Routine::from(ring) };
        let _again = CODE.set(Code {
            write,
            strike,
            ring,
        });
    }
    Ok(())
}

/// On a frame of its own, since a draft is large.
#[inline(never)]
fn made(name: &'static str, emit: fn(&mut Draft)) -> Result<codegen::Sealed, OutOfCode> {
    let mut draft = Draft::new(&CLASS, name);
    emit(&mut draft);
    draft.seal()
}

/// As [`push`](super::push) for `task`, the running one, with interrupts on. False: nothing has been done.
#[inline]
pub(crate) fn write(
    trap: &mut TrapFrame,
    task: &Task,
    info: &Siginfo,
    action: &Sigaction,
    mask: u64,
) -> bool {
    let write = |code: &Code| code.write.function()(trap, task, info, action, mask);
    // Bound: one frame and the vector registers, some 3.5 KiB at most; a page that is not there ends it.
    irq_disable();
    let written = CODE.get().map(write).unwrap_or(0);
    irq_enable();
    written != 0
}

/// The program of `task`, the running one, has caused page fault `trap` at `address`, which its space
/// refuses: if nothing else is asked of the thread, and `signo` has a handler and is not blocked, the handler
/// runs next. `None`: nothing has been done; true: another signal has come for the process meanwhile. With
/// interrupts on.
#[inline]
pub(crate) fn strike(
    trap: &mut TrapFrame,
    task: &Task,
    signo: i32,
    code: i32,
    address: usize,
) -> Option<bool> {
    let made = CODE.get()?;
    irq_disable();
    let written = made.strike.function()(trap, task, signo, code, address);
    irq_enable();
    (written != 0).then_some(written > 1)
}

/// A timer of the process of `task`, the running and only one, has interrupted its program, which has `trap`.
/// If nothing else is asked of the thread, no signal waits for it, and signal `signo`, with this code and
/// `words` of information, has a handler and is not blocked, the handler runs next. False: nothing has been
/// done. With interrupts off.
#[inline(always)]
pub(crate) fn ring(
    trap: &mut TrapFrame,
    task: &Task,
    signo: i32,
    code: i32,
    words: [u64; 2],
) -> bool {
    let Some(made) = CODE.get() else {
        return false;
    };
    let written = made.ring.function()(trap, task, signo, code, words[0], words[1]);
    if written > 1 {
        // Its sender may have found this thread willing.
        task.attend();
    }
    written != 0
}

const TTE: i32 = StackBase::TTE as i32;
const GROUP: i32 = offset_of!(Task, group_at) as i32;
const BLOCKED: i32 = offset_of!(Task, blocked) as i32;
const OWN_WAITING: i32 = offset_of!(Task, waiting) as i32;
const TRACED: i32 = (offset_of!(Task, trace) + TRACER) as i32;
const PROCESS_WAITING: i32 = beside_group(offset_of!(Process, signals) + WAITING);

/// A field of the trap frame.
macro_rules! trap {
    ($field:ident) => {
        offset_of!(TrapFrame, $field) as i32
    };
}

/// A field of an action.
macro_rules! action {
    ($field:ident) => {
        offset_of!(Sigaction, $field) as i32
    };
}

/// Places of what [`emit_strike`] has pushed. A fault has no second word.
const RESTORER: i32 = 0;
const MASK: i32 = 8;
const HANDLER: i32 = 16;
const FIRST_WORD: i32 = 24;
const CODE_OF_SIGNAL: i32 = 32;
const SECOND_WORD: i32 = 40;

/// Where what is written comes from.
#[derive(Clone, Copy, PartialEq)]
enum From {
    /// rdx: the information, rcx: the action.
    Given,
    /// edx: the signal; what has been pushed.
    Fault,
    /// As above.
    Timer,
}

/// rdi: the trap frame, rsi: the task, rdx: the information, rcx: the action, r8: the mask.
fn emit_write(d: &mut Draft) {
    let [back, shut] = core::array::from_fn(|_| d.label());
    thread_in_r9(d);
    dynasm!(d ; .arch x64
        ; mov r11, r8
        ; mov rax, QWORD USER_END as i64
        ; cmp [rcx + action!(handler)], rax
        ; jae =>back
    );
    place(d, back);
    frame(d, From::Given, shut);
    dynasm!(d ; .arch x64 ; mov eax, [rdx + offset_of!(Siginfo, signo) as i32]);
    start(d);
    dynasm!(d ; .arch x64 ; mov eax, 1 ; ret ; =>shut);
    close(d);
    dynasm!(d ; .arch x64 ; =>back ; xor eax, eax ; ret);
}

fn emit_fault(d: &mut Draft) {
    emit_strike(d, From::Fault);
}

fn emit_timer(d: &mut Draft) {
    emit_strike(d, From::Timer);
}

/// rdi: the trap frame, rsi: the task, edx: the signal, ecx: its code, r8 and r9: the words of information.
fn emit_strike(d: &mut Draft, from: From) {
    let pushed = if from == From::Timer {
        dynasm!(d ; .arch x64 ; push r9);
        SECOND_WORD + 8
    } else {
        SECOND_WORD
    };
    let [leave, back, shut] = core::array::from_fn(|_| d.label());
    let rung = beside_group(offset_of!(Process, timers) + RUNG);
    let actions =
        beside_group(offset_of!(Process, signals) + ACTIONS + ArcSwap::<SignalActions>::WORD);
    let table = |field: i32| TABLE as i32 - size_of::<Sigaction>() as i32 + field;
    thread_in_r9(d);
    dynasm!(d ; .arch x64
        ; test DWORD [r9 + thread::STATE_OFFSET as i32], (ATTENTION & !SEQUENCE) as i32
        ; jnz =>leave
        ; cmp DWORD [rsi + TRACED], 0
        ; jne =>leave
        ; mov r11, [rsi + BLOCKED]
        ; lea eax, [rdx - 1]
        ; bt r11, rax
        ; jc =>leave
        ; mov r10, [rsi + GROUP]
        ; mov rax, [r10 + rung]
        ; or rax, [r10 + PROCESS_WAITING]
    );
    if from == From::Timer {
        dynasm!(d ; .arch x64 ; or rax, [rsi + OWN_WAITING]);
    }
    dynasm!(d ; .arch x64
        ; jnz =>leave
        ; push rcx
        ; push r8
        ; mov r10, [r10 + actions]
        ; mov eax, [r10 + VERSION as i32]
        ; mov ecx, edx
        ; shl ecx, 5
        ; push QWORD [r10 + rcx + table(action!(handler))]
        ; push QWORD [r10 + rcx + table(action!(mask))]
        ; push QWORD [r10 + rcx + table(action!(restorer))]
        ; test DWORD [r10 + rcx + table(action!(flags))], (SA_RESETHAND | SA_NODEFER) as i32
        ; jnz =>back
        ; test al, 1
        ; jnz =>back
        ; cmp eax, [r10 + VERSION as i32]
        ; jne =>back
        ; mov rcx, [rsp + HANDLER]
        ; cmp rcx, SIG_IGN as i32
        ; jbe =>back
        ; mov rax, QWORD USER_END as i64
        ; cmp rcx, rax
        ; jae =>back
    );
    const { assert!(size_of::<Sigaction>() == 1 << 5) };
    place(d, back);
    frame(d, from, shut);
    dynasm!(d ; .arch x64
        ; lea eax, [rdx - 1]
        ; or r11, [rsp + MASK]
        ; bts r11, rax
        ; xchg [rsi + BLOCKED], r11
        ; mov eax, edx
    );
    start(d);
    dynasm!(d ; .arch x64
        ; mov rcx, [rsi + GROUP]
        ; xor eax, eax
        ; cmp QWORD [rcx + PROCESS_WAITING], 0
        ; setne al
        ; inc eax
        ; add rsp, pushed
        ; ret
        ; =>shut
    );
    close(d);
    dynasm!(d ; .arch x64
        ; =>back
        ; add rsp, SECOND_WORD
        ; =>leave
    );
    if from == From::Timer {
        dynasm!(d ; .arch x64 ; pop r9);
    }
    dynasm!(d ; .arch x64 ; xor eax, eax ; ret);
}

fn thread_in_r9(d: &mut Draft) {
    let (last, less) = (StackBase::SLOT as i32 - 1, StackBase::SIZE as i32 - 1);
    dynasm!(d ; .arch x64
        ; mov r9, rsp
        ; or r9, last
        ; mov r9, [r9 - less + TTE]
    );
}

/// Puts the frame's place into rax, that of the vector registers into r8, and the area of restartable
/// sequences into r9, where the thread was; rdi is the trap frame, rsi the task.
fn place(d: &mut Draft, back: Label) {
    const ALTSTACK: i32 = (offset_of!(Task, altstack) + Monitor::<Sigaltstack>::DATA) as i32;
    dynasm!(d ; .arch x64
        ; test BYTE [r9 + thread::KIND_OFFSET as i32], thread::KIND_FP as i8
        ; jz =>back
        // A stack that is disabled has no address and no size.
        ; cmp DWORD [rsi + ALTSTACK + offset_of!(Sigaltstack, flags) as i32], SS_DISABLE
        ; jne =>back
        ; mov r9, [r9 + thread::SEQUENCE_AREA_OFFSET as i32]
        ; mov rax, [rdi + trap!(rsp)]
    );
    emit_place(d, back);
    clamp(d, Reg::Rax);
    clamp(d, Reg::R8);
    clamp(d, Reg::R9);
}

/// Puts the place of a frame below the stack pointer in rax there, and that of its vector registers into r8;
/// goes to `back` if that would not be the program's.
pub(crate) fn emit_place(d: &mut Draft, back: Label) {
    dynasm!(d ; .arch x64
        ; test rax, rax
        ; js =>back
        ; lea r8, [rax - (RED_ZONE as i32 + fp::frame_bytes() as i32)]
        ; and r8, -64
        ; lea rax, [r8 - size_of::<RtSigframe>() as i32]
        ; and rax, -16
        ; sub rax, 8
        ; js =>back
    );
}

/// Writes the frame, with the mask in r11, and loads the registers with which a program starts. Leaves the
/// handler in rcx and the frame's place in r10; rax, r8 and r9 are lost.
fn frame(d: &mut Draft, from: From, shut: Label) {
    const STACK: i32 = UC + offset_of!(Ucontext, stack) as i32;
    let outside = d.label();
    open(d);
    d.fault_begin();
    dynasm!(d ; .arch x64
        ; test r9, r9
        ; jz =>outside
        ; cmp QWORD [r9 + RSEQ_SEQUENCE as i32], 0
        ; jne =>shut
        ; =>outside
    );
    let registers = [
        (trap!(r8), framed!(r8)),
        (trap!(r9), framed!(r9)),
        (trap!(r10), framed!(r10)),
        (trap!(r11), framed!(r11)),
        (trap!(r12), framed!(r12)),
        (trap!(r13), framed!(r13)),
        (trap!(r14), framed!(r14)),
        (trap!(r15), framed!(r15)),
        (trap!(rdi), framed!(rdi)),
        (trap!(rsi), framed!(rsi)),
        (trap!(rbp), framed!(rbp)),
        (trap!(rbx), framed!(rbx)),
        (trap!(rdx), framed!(rdx)),
        (trap!(rax), framed!(rax)),
        (trap!(rcx), framed!(rcx)),
        (trap!(rsp), framed!(rsp)),
        (trap!(rip), framed!(rip)),
        (trap!(rflags), framed!(eflags)),
    ];
    for (from, to) in registers {
        dynasm!(d ; .arch x64 ; mov r10, [rdi + from] ; mov [rax + to], r10);
    }
    let selectors = USER_CS as i64 | (USER_SS as i64) << 48;
    const {
        assert!(offset_of!(Sigcontext, ss) == offset_of!(Sigcontext, cs) + 6);
    };
    // The reserved words behind the registers stay as they are, as on Linux.
    zero(
        d,
        [
            UC + offset_of!(Ucontext, link) as i32,
            STACK,
            STACK + offset_of!(Sigaltstack, size) as i32,
        ]
        .into_iter(),
    );
    dynasm!(d ; .arch x64
        ; mov QWORD [rax + UC], (UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS) as i32
        ; mov QWORD [rax + STACK + offset_of!(Sigaltstack, flags) as i32], SS_DISABLE
        ; mov [rax + framed!(oldmask)], r11
        ; mov [rax + UC + offset_of!(Ucontext, sigmask) as i32], r11
        ; mov [rax + framed!(fpstate)], r8
        ; mov r10, QWORD selectors
        ; mov [rax + framed!(cs)], r10
    );
    match from {
        From::Given => given(d),
        From::Fault | From::Timer => told(d, from),
    }
    fp::emit_save(d, fpu::area_size() as i32);
    d.fault_end(shut);
    close(d);
    // eax is the mask of all.
    dynasm!(d ; .arch x64 ; xrstor64 [fp::initial_address() as i32]);
}

fn zero(d: &mut Draft, places: impl Iterator<Item = i32>) {
    for place in places {
        dynasm!(d ; .arch x64 ; mov QWORD [rax + place], 0);
    }
}

/// The information, the cause and the action, from outside. Causes are an exception's.
fn given(d: &mut Draft) {
    let without = d.label();
    for at in (0..size_of::<Siginfo>() as i32).step_by(8) {
        dynasm!(d ; .arch x64 ; mov r10, [rdx + at] ; mov [rax + INFO + at], r10);
    }
    zero(d, [framed!(err), framed!(trapno), framed!(cr2)].into_iter());
    dynasm!(d ; .arch x64
        ; mov r10, [rcx + action!(restorer)]
        ; mov [rax + offset_of!(RtSigframe, restorer) as i32], r10
        ; mov rcx, [rcx + action!(handler)]
        ; mov r9, [rdi + trap!(vector)]
        ; cmp r9, 32
        ; jae =>without
        ; mov [rax + framed!(trapno)], r9
        ; mov r10, [rdi + trap!(error)]
        ; mov [rax + framed!(err)], r10
        ; cmp r9d, exception::PAGE_FAULT as i32
        ; jne =>without
        ; mov r10, [rdx + offset_of!(Siginfo, fields) as i32]
        ; mov [rax + framed!(cr2)], r10
        ; =>without
    );
}

/// The same of a page fault or a timer, with the handler in rcx already.
fn told(d: &mut Draft, from: From) {
    let fields = INFO + offset_of!(Siginfo, fields) as i32;
    let known = if from == From::Fault { 1 } else { 2 };
    zero(d, (known..14).map(|word| fields + 8 * word));
    dynasm!(d ; .arch x64
        ; mov [rax + INFO], rdx
        ; mov r10d, [rsp + CODE_OF_SIGNAL]
        ; mov [rax + INFO + offset_of!(Siginfo, code) as i32], r10
        ; mov r10, [rsp + RESTORER]
        ; mov [rax + offset_of!(RtSigframe, restorer) as i32], r10
        ; mov r10, [rsp + FIRST_WORD]
        ; mov [rax + fields], r10
    );
    if from == From::Fault {
        dynasm!(d ; .arch x64
            ; mov [rax + framed!(cr2)], r10
            ; mov r10, [rdi + trap!(error)]
            ; mov [rax + framed!(err)], r10
            ; mov QWORD [rax + framed!(trapno)], exception::PAGE_FAULT as i32
        );
    } else {
        dynasm!(d ; .arch x64 ; mov r10, [rsp + SECOND_WORD] ; mov [rax + fields + 8], r10);
        zero(d, [framed!(err), framed!(trapno), framed!(cr2)].into_iter());
    }
}

/// Makes the trap frame start the handler in rcx, which gets the signal in rax and the frame at r10.
fn start(d: &mut Draft) {
    dynasm!(d ; .arch x64
        ; mov [rdi + trap!(rdi)], rax
        ; lea rax, [r10 + INFO]
        ; mov [rdi + trap!(rsi)], rax
        ; lea rax, [r10 + UC]
        ; mov [rdi + trap!(rdx)], rax
        ; mov QWORD [rdi + trap!(rax)], 0
        ; mov [rdi + trap!(rip)], rcx
        ; mov [rdi + trap!(rsp)], r10
        ; and QWORD [rdi + trap!(rflags)], !(RFLAGS_CLEARED as i32)
        ; mov QWORD [rdi + trap!(cs)], USER_CS as i32
        ; mov QWORD [rdi + trap!(ss)], USER_SS as i32
        ; mov QWORD [rdi + trap!(vector)], VECTOR_TAIL as i32
    );
}
