//! The twins of `trap.rs`'s entries where a crossing has more to do: IBRS set and predictors cleared after the registers are saved, IBRS cleared before they are restored, and the
//! buffers cleared at the very end, or all left to `isolated.rs`.
//!
//! *Interface*: the entries that `trap.rs` chooses where `guarded()` says so. Nobody runs ahead past the question whether it was user mode: an `lfence` or the write to the
//! register itself is between.

use super::{RFLAGS_TF, USER_CS, USER_SS, VECTOR_SYSCALL, VECTOR_TAIL, exception};
use crate::cpu::{Cpu, StackBase};
use crate::guard::SELECTOR;
use crate::mitigate::{IBPB, PRED_CMD, SPEC_CTRL};
use core::arch::{global_asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;

/// Whether IBRS is set and cleared here.
pub(super) static BY_ENTRY: AtomicU32 = AtomicU32::new(0);

/// Whether predictors forget here.
pub(super) static BARRIER: AtomicU32 = AtomicU32::new(0);

/// Of a saved frame.
const CS: usize = offset_of!(super::TrapFrame, cs);

// As `trap_stubs`, to the other common part.
global_asm!(
    ".pushsection .text.trap,\"ax\"",
    ".balign 16",
    ".global guarded_stubs",
    ".type guarded_stubs, @function",
    "guarded_stubs:",
    ".set vector, 0",
    ".rept 256",
    ".balign 16",
    ".if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)",
    ".else",
    "pushq $0",
    ".endif",
    "pushq $vector",
    ".if vector == {debug}",
    "jmp {debug_entry}",
    ".else",
    "jmp {common}",
    ".endif",
    ".set vector, vector + 1",
    ".endr",
    ".popsection",
    common = sym common,
    debug = const exception::DEBUG,
    debug_entry = sym debug_entry,
    options(att_syntax),
);

unsafe extern "C" {
    pub(super) fn guarded_stubs();
}

/// Writes a word of the CPU into SPEC_CTRL where that is asked for and the frame is of user mode. Changes rax, rcx, rdx, flags.
macro_rules! write_if_user {
    ($done:literal) => {
        concat!(
            "test byte ptr [rsp + {cs}], 3\njz ",
            $done,
            "f\ncmp dword ptr [{by_entry}], 0\nje ",
            $done,
            "f\nmov rax, rsp\nor rax, {mask}\nmov rax, [rax - {less} + {cpu}]\n\
             mov eax, [rax + {word}]\nmov ecx, {register}\nxor edx, edx\nwrmsr\n",
            $done,
            ": lfence"
        )
    };
}

/// The entry's part of it, and IBPB.
macro_rules! enter_if_user {
    () => {
        concat!(
            write_if_user!("2"),
            "\ntest byte ptr [rsp + {cs}], 3\njz 2f\ncmp dword ptr [{barrier}], 0\nje 2f\n\
             mov ecx, {command}\nmov eax, {forget}\nxor edx, edx\nwrmsr\n\
             2: lfence"
        )
    };
}

/// As its twin.
#[unsafe(naked)]
unsafe extern "C" fn debug_entry() {
    naked_asm!(
        begin_debug!(),
        mask = const StackBase::SLOT - 1,
        less = const StackBase::SIZE - 1,
        cpu = const StackBase::CPU,
        rsp0 = const Cpu::RSP0,
        tf = const RFLAGS_TF,
        nothing = const crate::debug::NOTHING,
        common = sym common,
    )
}

#[unsafe(naked)]
pub(super) unsafe extern "C" fn common() {
    naked_asm!(
        save!(),
        clac!(),
        "cld",
        enter_if_user!(),
        "mov rdi, rsp",
        "call {trap}",
        "jmp {leave}",
        cs = const CS,
        by_entry = sym BY_ENTRY,
        barrier = sym BARRIER,
        command = const PRED_CMD,
        forget = const IBPB,
        mask = const StackBase::SLOT - 1,
        less = const StackBase::SIZE - 1,
        cpu = const StackBase::CPU,
        word = const Cpu::SPEC_RUNNING,
        register = const SPEC_CTRL,
        trap = sym super::bare::trap,
        leave = sym leave,
    )
}

/// As `trap_leave`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave() {
    naked_asm!(
        write_if_user!("2"),
        restore!(),
        "cmp dword ptr [{isolated}], 0",
        "jne {isolated_end}",
        "test byte ptr [rsp + {cs} - {vector}], 3",
        "jz 3f",
        "verw word ptr [{selector}]",
        "3: jmp {end}",
        cs = const CS,
        by_entry = sym BY_ENTRY,
        mask = const StackBase::SLOT - 1,
        less = const StackBase::SIZE - 1,
        cpu = const StackBase::CPU,
        word = const Cpu::SPEC_RESTING,
        register = const SPEC_CTRL,
        selector = sym SELECTOR,
        vector = const offset_of!(super::TrapFrame, vector),
        isolated = sym super::isolated::ISOLATED,
        isolated_end = sym super::isolated::end,
        end = sym super::bare::trap_end,
    )
}

/// As `syscall_slow_entry`. The entry of `syscall` has set IBRS.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn syscall_slow_entry() {
    naked_asm!(
        "or rsp, {mask}",
        "sub rsp, {less}",
        "push {ss}",
        "push qword ptr [rsp + 8 + {user_rsp}]",
        "push r11",
        "push {user_cs}",
        "push rcx",
        "push rax",
        "push {vector}",
        save!(),
        "mov rdi, rsp",
        "call {syscall}",
        "test al, al",
        "jz {leave}",
        write_if_user!("2"),
        restore!(),
        "cmp dword ptr [{isolated}], 0",
        "jne {isolated_sysret}",
        "mov rsp, [rsp + 40]",
        "verw word ptr [{selector}]",
        "sysretq",
        mask = const StackBase::SLOT - 1,
        less = const StackBase::SIZE - 1,
        user_rsp = const StackBase::USER_RSP,
        ss = const USER_SS,
        user_cs = const USER_CS,
        vector = const VECTOR_SYSCALL,
        cs = const CS,
        by_entry = sym BY_ENTRY,
        cpu = const StackBase::CPU,
        word = const Cpu::SPEC_RESTING,
        register = const SPEC_CTRL,
        selector = sym SELECTOR,
        isolated = sym super::isolated::ISOLATED,
        isolated_sysret = sym super::isolated::sysret_slow,
        syscall = sym super::bare::syscall,
        leave = sym leave,
    )
}

/// As `irq_tail_entry`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn irq_tail_entry() {
    naked_asm!(
        "push 0",
        "push {vector}",
        save!(),
        clac!(),
        "cld",
        enter_if_user!(),
        "mov rdi, rsp",
        "call {tail}",
        "jmp {leave}",
        vector = const VECTOR_TAIL,
        cs = const CS,
        by_entry = sym BY_ENTRY,
        barrier = sym BARRIER,
        command = const PRED_CMD,
        forget = const IBPB,
        mask = const StackBase::SLOT - 1,
        less = const StackBase::SIZE - 1,
        cpu = const StackBase::CPU,
        word = const Cpu::SPEC_RUNNING,
        register = const SPEC_CTRL,
        tail = sym super::bare::irq_tail_body,
        leave = sym leave,
    )
}
