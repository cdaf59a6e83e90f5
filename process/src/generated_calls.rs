//! Calls that generated code answers: the signal mask, signal actions, the list of robust futexes,
//! restartable sequences, operations of descriptors, and `poll` and `select` of a few. The dispatcher
//! jumps here; no Rust runs.
//!
//! *Interface*: [`mask`], [`action()`], [`robust_list`], [`sequences`], [`poll`], [`select`], [`pselect`] and
//! [`operation`] emit one call each. The code is entered by a jump from a routine at any depth of the kernel
//! stack, interrupts off, with the user's registers as at the routine's entry. It answers and goes to user
//! mode, or goes to a label with all registers but rax unchanged and nothing done: there the slow path makes
//! the call from its start.
//!
//! The C library makes most of them around a thread's life. None of them can wait: what else a new mask or
//! action asks for (a signal waits, a timer has expired) is left to the slow path. The equivalent slow paths
//! in Rust are the handlers of these calls in `linux`.
//!
//! Source: dissertation, sections 3.3.4 and 4.2 (procedures by index and operation).

use abi::linux::{
    POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDBAND, POLLRDNORM, POLLWRBAND, POLLWRNORM,
    Pollfd, RSEQ_SEQUENCE, RSEQ_SIZE, RobustListHead, SIG_BLOCK, SIG_IGN, SIG_SETMASK, SIG_UNBLOCK,
    SIGKILL, SIGSTOP, Sigaction, Timespec, Timeval,
};
use codegen::harden::{self, clamp};
use codegen::idioms::Reg;
use codegen::{Draft, Label, dynasm};
use core::mem::offset_of;
use file::Operation;
use file::arc_swap::ArcSwap;
use file::fdtable::{
    FdTable, SLOTS, emit_callentry, emit_look, emit_operation, emit_ready, emit_routine, emit_row,
};
use machine::cpu::StackBase;
use sync::monitor::{CONTENDED, HELD};
use thread::dispatch::way_out;

use crate::process::rseq;
use crate::process::signals::action::{self, SignalActions};
use crate::process::signals::set::UNBLOCKABLE;
use crate::process::signals::{ProcessSignals, WAITING};
use crate::process::timers::RUNG;
use crate::process::{Process, Task, beside_group};
use crate::smap::{close, open};

pub(crate) const OWNER: i32 = thread::OWNER_OFFSET as i32;
pub(crate) const BLOCKED: i32 = offset_of!(Task, blocked) as i32;
/// The size that a signal set has here.
const SET: i32 = size_of::<u64>() as i32;

/// To the stack's base, where every exit of a routine begins.
pub(crate) fn to_base(d: &mut Draft) {
    let (last, less) = (StackBase::SLOT as i32 - 1, StackBase::SIZE as i32 - 1);
    dynasm!(d ; .arch x64 ; or rsp, last ; sub rsp, less);
}

/// Emits `access`, which reaches user memory. A fault leads to `fault`, where user access must be closed
/// again.
fn reaching(d: &mut Draft, fault: Label, access: impl FnOnce(&mut Draft)) {
    open(d);
    d.fault_begin();
    access(d);
    d.fault_end(fault);
    close(d);
}

/// `rt_sigprocmask`.
///
/// The new mask is stored before the check for pending signals, as for every change of a mask
/// ([`crate::process::signals::pending`]). If a signal is pending, the old mask is restored, and the slow
/// path makes the change again. A sender in between either has found the thread willing and has alerted it,
/// or the slow path finds the signal.
pub fn mask(d: &mut Draft, slow: Label) {
    let [leave, fault, one, unblock, set, masked, back, only_old] =
        core::array::from_fn(|_| d.label());
    let group = offset_of!(Task, group_at) as i32;
    let waiting = offset_of!(Task, waiting) as i32;
    let process_waiting = beside_group(offset_of!(Process, signals) + WAITING);
    let rung = beside_group(offset_of!(Process, timers) + RUNG);
    dynasm!(d
        ; .arch x64
        ; cmp r10, SET ; jne =>slow
        ; mov rax, rsi ; or rax, rdx ; js =>slow
    );
    to_base(d);
    // r10 is known, and so free.
    dynasm!(d
        ; .arch x64
        ; push rsi
        ; mov r10, [rsp + 8 + StackBase::TTE as i32]
        ; mov r10, [r10 + OWNER]
        ; mov rax, [r10 + BLOCKED]
        ; test rsi, rsi ; jz =>only_old
        ; cmp edi, SIG_SETMASK ; ja =>leave
    );
    clamp(d, Reg::Rsi);
    clamp(d, Reg::Rdx);
    reaching(d, fault, |d| {
        dynasm!(d ; .arch x64 ; mov rsi, [rsi] ; test rdx, rdx ; jz =>one ; mov [rdx], rax ; =>one);
    });
    const { assert!(SIG_BLOCK == 0 && SIG_UNBLOCK == 1 && SIG_SETMASK == 2) };
    dynasm!(d
        ; .arch x64
        ; cmp edi, SIG_UNBLOCK ; je =>unblock ; ja =>set
        ; or rsi, rax
        ; jmp =>set
        ; =>unblock
        ; not rsi
        ; and rsi, rax
        ; =>set
        ; and rsi, !UNBLOCKABLE as i32
        ; xchg [r10 + BLOCKED], rsi
        ; mov rax, [r10 + group]
        ; cmp QWORD [rax + rung], 0 ; jne =>back
        ; cmp QWORD [rax + process_waiting], 0 ; jne =>back
        ; cmp QWORD [r10 + waiting], 0 ; jne =>back
        ; =>masked
        ; pop rsi
        ; mov r10d, SET
        ; xor eax, eax
    );
    way_out(d);
    dynasm!(d ; .arch x64 ; =>only_old ; test rdx, rdx ; jz =>masked);
    clamp(d, Reg::Rdx);
    reaching(d, fault, |d| dynasm!(d ; .arch x64 ; mov [rdx], rax));
    dynasm!(d
        ; .arch x64
        ; jmp =>masked
        ; =>back
        ; xchg [r10 + BLOCKED], rsi
        ; jmp =>leave
        ; =>fault
    );
    close(d);
    dynasm!(d
        ; .arch x64
        ; =>leave
        ; pop rsi
        ; mov r10d, SET
        ; jmp =>slow
    );
}

/// `rt_sigaction` that installs a handler.
///
/// The old action is written to the program while the table is held, and before it is replaced: when that
/// faults, nothing has been done, and the slow path makes the call. So it does for an action that is no
/// handler, since a waiting signal may have to be forgotten then.
pub fn action(d: &mut Draft, slow: Label) {
    let [leave, fault, held, without, heard, given, wake, released] =
        core::array::from_fn(|_| d.label());
    let group = offset_of!(Task, group_at) as i32;
    let rung = beside_group(offset_of!(Process, timers) + RUNG);
    let signals = offset_of!(Process, signals) + offset_of!(ProcessSignals, actions);
    let actions = beside_group(signals + ArcSwap::<SignalActions>::WORD);
    let [word, table, ignores, version] = [
        action::WORD,
        action::TABLE,
        action::IGNORES,
        action::VERSION,
    ]
    .map(|offset| offset as i32);
    const { assert!(size_of::<Sigaction>() == 32 && offset_of!(Sigaction, mask) == 24) };
    const USED: i32 = 6 * 8;
    dynasm!(d
        ; .arch x64
        ; cmp r10, SET ; jne =>slow
        ; lea eax, [rdi - 1]
        ; cmp eax, 64 ; jae =>slow
        ; mov rax, rsi ; or rax, rdx ; js =>slow
        ; test rsi, rsi ; jz =>slow
        ; cmp edi, SIGKILL ; je =>slow
        ; cmp edi, SIGSTOP ; je =>slow
    );
    to_base(d);
    dynasm!(d
        ; .arch x64
        ; push rsi ; push rdi ; push rcx ; push rbx ; push r8 ; push r9
        ; mov r10, [rsp + USED + StackBase::TTE as i32]
        ; mov r10, [r10 + OWNER]
        ; mov r10, [r10 + group]
        ; cmp QWORD [r10 + rung], 0 ; jne =>leave
        ; mov r10, [r10 + actions]
        ; lea ecx, [rdi - 1]
        ; mov edi, ecx
        ; shl edi, 5
        ; lea rdi, [r10 + rdi + table]
    );
    clamp(d, Reg::Rsi);
    reaching(d, fault, |d| {
        dynasm!(d
            ; .arch x64
            ; mov r8, [rsi] ; mov r9, [rsi + 8] ; mov rbx, [rsi + 16] ; mov rsi, [rsi + 24]
        );
    });
    dynasm!(d
        ; .arch x64
        ; cmp r8, SIG_IGN as i32 ; jbe =>leave
        ; and rsi, !UNBLOCKABLE as i32
        ; mov eax, action::FLAGS as i32
        ; and r9, rax
        ; push rcx
        ; xor eax, eax
        ; mov ecx, HELD as i32
        ; lock cmpxchg [r10 + word], ecx
        ; pop rcx
        ; jne =>leave
        ; test rdx, rdx ; jz =>without
    );
    clamp(d, Reg::Rdx);
    open(d);
    d.fault_begin();
    for at in [0, 8, 16, 24] {
        dynasm!(d ; .arch x64 ; mov rax, [rdi + at] ; mov [rdx + at], rax);
    }
    d.fault_end(held);
    close(d);
    dynasm!(d
        ; .arch x64
        ; =>without
        ; inc DWORD [r10 + version]
        ; mov [rdi], r8 ; mov [rdi + 8], r9 ; mov [rdi + 16], rbx ; mov [rdi + 24], rsi
        ; inc DWORD [r10 + version]
        ; mov rax, [r10 + ignores]
        ; bt rax, rcx ; jnc =>heard
        ; mov eax, 1
        ; shl rax, cl
        ; not rax
        ; lock and [r10 + ignores], rax
        ; =>heard
        ; xor ecx, ecx
        ; =>released
        ; xor eax, eax
        ; xchg [r10 + word], eax
        ; test al, CONTENDED as i8 ; jnz =>wake
        ; =>given
        ; test ecx, ecx ; jnz =>leave
        ; pop r9 ; pop r8 ; pop rbx ; pop rcx ; pop rdi ; pop rsi
        ; mov r10d, SET
        ; xor eax, eax
    );
    way_out(d);
    dynasm!(d ; .arch x64 ; =>held);
    close(d);
    dynasm!(d
        ; .arch x64
        ; mov ecx, 1
        ; jmp =>released
        ; =>wake
        ; push rbp
        ; mov rbp, rsp
        ; push rcx ; push rdx ; push r11
        ; and rsp, -16
        ; mov rdi, r10
    );
    d.call_abs(SignalActions::wake_next as *const () as usize);
    dynasm!(d
        ; .arch x64
        ; mov rcx, [rbp - 8] ; mov rdx, [rbp - 16] ; mov r11, [rbp - 24]
        ; mov rsp, rbp
        ; pop rbp
        ; jmp =>given
        ; =>fault
    );
    close(d);
    dynasm!(d
        ; .arch x64
        ; =>leave
        ; pop r9 ; pop r8 ; pop rbx ; pop rcx ; pop rdi ; pop rsi
        ; mov r10d, SET
        ; jmp =>slow
    );
}

/// The operation of a descriptor by the routine that its description has for it, if it has one.
///
/// The contract is that of descriptor routines (docs/architecture.md), with r10 and what is behind it as
/// further arguments.
pub fn operation(d: &mut Draft, slow: Label, operation: Operation) {
    let none = d.label();
    to_base(d);
    dynasm!(d ; .arch x64 ; push rcx);
    table(d, 8);
    emit_operation(d, operation, none);
    dynasm!(d ; .arch x64 ; pop rcx);
    harden::call(
        d,
        |d| dynasm!(d ; .arch x64 ; call rax),
        |d| dynasm!(d ; .arch x64 ; push rax),
    );
    way_out(d);
    dynasm!(d ; .arch x64 ; =>none ; pop rcx ; jmp =>slow);
}

/// The call of a quaject's callentry ([`abi::native::INVOKE`]) by the routine that its description has for
/// it, if it has one: rsi is the descriptor, rdx the number, r10 the argument.
pub fn callentry(d: &mut Draft, slow: Label) {
    let none = d.label();
    to_base(d);
    dynasm!(d ; .arch x64 ; push rcx);
    table(d, 8);
    dynasm!(d ; .arch x64 ; mov edi, esi);
    emit_callentry(d, none);
    dynasm!(d ; .arch x64 ; pop rcx ; mov edi, abi::native::INVOKE as i32);
    harden::call(
        d,
        |d| dynasm!(d ; .arch x64 ; call rax),
        |d| dynasm!(d ; .arch x64 ; push rax),
    );
    way_out(d);
    dynasm!(d ; .arch x64 ; =>none ; pop rcx ; mov edi, abi::native::INVOKE as i32 ; jmp =>slow);
}

/// `poll` of one descriptor that is ready and has a routine which says so.
pub fn poll(d: &mut Draft, slow: Label) {
    let [leave, fault, none] = core::array::from_fn(|_| d.label());
    let [events, revents] = [offset_of!(Pollfd, events), offset_of!(Pollfd, revents)];
    let (events, revents) = (8 * events as i8, revents as i32);
    dynasm!(d
        ; .arch x64
        ; cmp esi, 1 ; jne =>slow
        ; test rdi, rdi ; js =>slow
    );
    to_base(d);
    dynasm!(d ; .arch x64 ; push rcx ; push rdx);
    clamp(d, Reg::Rdi);
    const { assert!(size_of::<Pollfd>() == 8 && offset_of!(Pollfd, fd) == 0) };
    reaching(d, fault, |d| dynasm!(d ; .arch x64 ; mov rdx, [rdi]));
    table(d, 16);
    dynasm!(d ; .arch x64 ; push rdi ; push rdx ; mov edi, edx);
    emit_look(d, none);
    harden::call(
        d,
        |d| dynasm!(d ; .arch x64 ; call rax),
        |d| dynasm!(d ; .arch x64 ; push rax),
    );
    dynasm!(d
        ; .arch x64
        ; pop rdx
        ; pop rdi
        ; shr rdx, events
        ; or edx, (POLLERR | POLLHUP | POLLNVAL) as i32
        ; and eax, edx
        ; movzx eax, ax
        ; test eax, eax ; jz =>leave
    );
    reaching(
        d,
        fault,
        |d| dynasm!(d ; .arch x64 ; mov [rdi + revents], ax),
    );
    dynasm!(d ; .arch x64 ; pop rdx ; pop rcx ; mov eax, 1);
    way_out(d);
    dynasm!(d ; .arch x64 ; =>fault);
    close(d);
    dynasm!(d
        ; .arch x64
        ; jmp =>leave
        ; =>none
        ; pop rdx
        ; pop rdi
        ; =>leave
        ; pop rdx
        ; pop rcx
        ; jmp =>slow
    );
}

/// `select` as [`pselect`].
pub fn select(d: &mut Draft, slow: Label) {
    chosen(d, slow);
}

/// `pselect6` without a mask, about one set of what can be read, or written, among the first 64 descriptors,
/// all of which are always ready or have routines that say so; and if it need not wait: one is ready, or the
/// time is none. A time that is none stays so, and is not written.
pub fn pselect(d: &mut Draft, slow: Label) {
    dynasm!(d ; .arch x64 ; test r9, r9 ; jnz =>slow);
    chosen(d, slow);
}

fn chosen(d: &mut Draft, slow: Label) {
    let [
        leave,
        fault,
        timed,
        untimed,
        reads,
        next,
        again,
        other,
        known,
        done,
    ] = core::array::from_fn(|_| d.label());
    const READS: u32 = POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR | POLLNVAL;
    const WRITES: u32 = POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR | POLLNVAL;
    const { assert!(size_of::<Timespec>() == 16 && size_of::<Timeval>() == 16) };
    // Pushed last: the events that are looked for, and above them whether there is a time.
    const KEPT: i32 = 8 * 8;
    dynasm!(d
        ; .arch x64
        ; lea eax, [rdi - 1]
        ; cmp eax, (SLOTS as i32).min(64) ; jae =>slow
        ; test r10, r10 ; jnz =>slow
        ; mov rax, rsi ; or rax, rdx ; or rax, r8 ; js =>slow
    );
    to_base(d);
    dynasm!(d
        ; .arch x64
        ; push rcx ; push rdx ; push rsi ; push rdi ; push r8 ; push r9 ; push r10 ; push r11
        ; mov r10d, READS as i32
        ; test rsi, rsi ; jnz =>reads
        ; mov rsi, rdx
        ; mov r10d, WRITES as i32
        ; xor edx, edx
        ; =>reads
        ; test rdx, rdx ; jnz =>leave
        ; test rsi, rsi ; jz =>leave
        ; test r8, r8 ; jnz =>timed
        ; =>untimed
    );
    clamp(d, Reg::Rsi);
    reaching(d, fault, |d| dynasm!(d ; .arch x64 ; mov r9, [rsi]));
    table(d, KEPT);
    emit_row(d);
    dynasm!(d
        ; .arch x64
        ; mov r11, rax
        // The word may have bits of others.
        ; mov ecx, edi
        ; neg ecx
        ; shl r9, cl
        ; shr r9, cl
        ; push r8
        ; push r10
        ; xor r8d, r8d
        ; mov r10, r9
        ; test r9, r9 ; jz =>done
        ; =>next
        ; bsf rdi, r9
        ; mov rax, [r11 + rdi * 8]
    );
    let given_up = d.label();
    emit_ready(d, other, given_up);
    dynasm!(d
        ; .arch x64
        ; =>known
        ; inc r8d
        ; =>again
        ; lea rax, [r9 - 1]
        ; and r9, rax
        ; jnz =>next
        ; =>done
        // None is ready, and there is no time that is none.
        ; mov eax, r8d
        ; or rax, [rsp + 8]
        ; jz =>given_up
        ; add rsp, 16
    );
    reaching(d, fault, |d| dynasm!(d ; .arch x64 ; mov [rsi], r10));
    dynasm!(d
        ; .arch x64
        ; mov eax, r8d
        ; pop r11 ; pop r10 ; pop r9 ; pop r8 ; pop rdi ; pop rsi ; pop rdx ; pop rcx
    );
    way_out(d);
    dynasm!(d ; .arch x64 ; =>other);
    emit_routine(d, given_up);
    harden::call(
        d,
        |d| dynasm!(d ; .arch x64 ; call rax),
        |d| dynasm!(d ; .arch x64 ; push rax),
    );
    dynasm!(d
        ; .arch x64
        ; test eax, [rsp] ; jnz =>known
        ; btr r10, rdi
        ; jmp =>again
        ; =>timed
    );
    clamp(d, Reg::R8);
    reaching(d, fault, |d| {
        dynasm!(d ; .arch x64 ; mov rax, [r8] ; or rax, [r8 + 8]);
    });
    dynasm!(d ; .arch x64 ; test rax, rax ; jz =>untimed ; jmp =>leave ; =>fault);
    close(d);
    dynasm!(d
        ; .arch x64
        ; jmp =>leave
        ; =>given_up
        ; add rsp, 16
        ; =>leave
        ; pop r11 ; pop r10 ; pop r9 ; pop r8 ; pop rdi ; pop rsi ; pop rdx ; pop rcx
        ; jmp =>slow
    );
}

/// The descriptor table of the running thread's process, into rax, where `depth` bytes are on the stack.
fn table(d: &mut Draft, depth: i32) {
    let group = offset_of!(Task, group_at) as i32;
    let files = beside_group(offset_of!(Process, files) + ArcSwap::<FdTable>::WORD);
    dynasm!(d
        ; .arch x64
        ; mov rax, [rsp + depth + StackBase::TTE as i32]
        ; mov rax, [rax + OWNER]
        ; mov rax, [rax + group]
        ; mov rax, [rax + files]
    );
}

/// `set_robust_list`.
pub fn robust_list(d: &mut Draft, slow: Label) {
    let list = offset_of!(Task, robust_list) as i32;
    dynasm!(d ; .arch x64 ; cmp rsi, size_of::<RobustListHead>() as i32 ; jne =>slow);
    to_base(d);
    dynasm!(d
        ; .arch x64
        ; mov rax, [rsp + StackBase::TTE as i32]
        ; mov rax, [rax + OWNER]
        ; mov [rax + list], rdi
        ; xor eax, eax
    );
    way_out(d);
}

/// The first registration of an area by `rseq`, if no sequence is under way.
pub fn sequences(d: &mut Draft, slow: Label) {
    let [leave, fault] = core::array::from_fn(|_| d.label());
    let own = offset_of!(Task, rseq);
    let [area, signature, seen] =
        [rseq::AREA, rseq::SIGNATURE, rseq::SEEN].map(|offset| (own + offset) as i32);
    let [cpu, switches, marks] = [
        thread::CPU_OFFSET,
        thread::SWITCHES_OFFSET,
        thread::SEQUENCES_OFFSET,
    ]
    .map(|offset| offset as i32);
    dynasm!(d
        ; .arch x64
        ; test edx, edx ; jnz =>slow
        ; cmp esi, RSEQ_SIZE as i32 ; jne =>slow
        ; test edi, RSEQ_SIZE as i32 - 1 ; jnz =>slow
        ; test rdi, rdi ; jle =>slow
    );
    to_base(d);
    dynasm!(d
        ; .arch x64
        ; push rsi
        ; push rdx
        ; mov rax, [rsp + 16 + StackBase::TTE as i32]
        ; mov rsi, [rax + OWNER]
        ; cmp QWORD [rsi + area], 0 ; jne =>leave
        ; mov edx, [rax + cpu]
    );
    clamp(d, Reg::Rdi);
    open(d);
    d.fault_begin();
    dynasm!(d
        ; .arch x64
        ; cmp QWORD [rdi + RSEQ_SEQUENCE as i32], 0 ; jne =>fault
        ; mov [rdi], edx
        ; mov [rdi + 4], edx
    );
    d.fault_end(fault);
    close(d);
    dynasm!(d
        ; .arch x64
        ; mov rdx, [rax + switches]
        ; mov [rsi + signature], r10d
        ; mov [rsi + seen], rdx
        ; mov [rsi + area], rdi
        ; mov [rax + thread::SEQUENCE_AREA_OFFSET as i32], rdi
        ; mov DWORD [rax + marks], thread::flags::SEQUENCE as i32
        ; pop rdx
        ; pop rsi
        ; xor eax, eax
    );
    way_out(d);
    dynasm!(d ; .arch x64 ; =>fault);
    close(d);
    dynasm!(d ; .arch x64 ; =>leave ; pop rdx ; pop rsi ; jmp =>slow);
}
