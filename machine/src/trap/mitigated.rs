//! Variants of `trap.rs`'s entries with speculation mitigations: IBRS set and predictors cleared after the
//! registers are saved, IBRS cleared before they are restored, and the buffers cleared at the very end, or
//! all left to `pti.rs`.
//!
//! *Interface*: the entries that `trap.rs` chooses where `guarded()` says so. Nobody runs ahead past the
//! question whether it was user mode: an `lfence` or the write to the register itself is between.

use super::{USER_CS, USER_SS, VECTOR_SYSCALL, VECTOR_TAIL};
use crate::cpu::{Cpu, StackBase};
use crate::mitigate::{IBPB, PRED_CMD, SELECTOR, SPEC_CTRL};
use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::AtomicU32;

/// Whether IBRS is set and cleared here.
pub(super) static BY_ENTRY: AtomicU32 = AtomicU32::new(0);

/// Whether predictors forget here.
pub(super) static BARRIER: AtomicU32 = AtomicU32::new(0);

/// Of a saved frame.
const CS: usize = offset_of!(super::TrapFrame, cs);

stubs!("guarded_stubs", common, debug_entry, common);

unsafe extern "C" {
    pub(super) fn guarded_stubs();
}

/// Writes a word of the CPU into SPEC_CTRL where that is asked for and the frame is of user mode. Changes
/// rax, rcx, rdx, flags.
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

/// The body of an entry with what [`write_if_user!`] names, which writes this word of the CPU.
macro_rules! guarded_asm {
    ($word:expr, [$($template:expr),* $(,)?], $($operands:tt)*) => {
        naked_asm!(
            $($template,)*
            cs = const CS,
            by_entry = sym BY_ENTRY,
            mask = const StackBase::SLOT - 1,
            less = const StackBase::SIZE - 1,
            cpu = const StackBase::CPU,
            word = const $word,
            register = const SPEC_CTRL,
            $($operands)*
        )
    };
}

/// The rest of an entry, behind what `first` pushes: tells Rust.
macro_rules! entered {
    ([$($first:expr),* $(,)?], $tell:path, $($operands:tt)*) => {
        guarded_asm!(
            Cpu::SPEC_RUNNING,
            [
                $($first,)*
                save!(),
                clac!(),
                "cld",
                enter_if_user!(),
                "mov rdi, rsp",
                "call {tell}",
                "jmp {leave}",
            ],
            barrier = sym BARRIER,
            command = const PRED_CMD,
            forget = const IBPB,
            tell = sym $tell,
            leave = sym leave,
            $($operands)*
        )
    };
}

/// As the entry of this name in `trap.rs`.
#[unsafe(naked)]
unsafe extern "C" fn debug_entry() {
    begin_debug!(common)
}

#[unsafe(naked)]
pub(super) unsafe extern "C" fn common() {
    entered!([], super::bare::trap,)
}

/// As `trap_leave`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave() {
    guarded_asm!(
        Cpu::SPEC_RESTING,
        [
            write_if_user!("2"),
            restore!(),
            "cmp dword ptr [{isolated}], 0",
            "jne {isolated_end}",
            "test byte ptr [rsp + {cs} - {vector}], 3",
            "jz 3f",
            "verw word ptr [{selector}]",
            "3: jmp {end}",
        ],
        selector = sym SELECTOR,
        vector = const offset_of!(super::TrapFrame, vector),
        isolated = sym super::pti::ISOLATED,
        isolated_end = sym super::pti::end,
        end = sym super::bare::trap_end,
    )
}

/// As `syscall_slow_entry`. The entry of `syscall` has set IBRS.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn syscall_slow_entry() {
    guarded_asm!(
        Cpu::SPEC_RESTING,
        [
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
        ],
        user_rsp = const StackBase::USER_RSP,
        ss = const USER_SS,
        user_cs = const USER_CS,
        vector = const VECTOR_SYSCALL,
        selector = sym SELECTOR,
        isolated = sym super::pti::ISOLATED,
        isolated_sysret = sym super::pti::sysret_slow,
        syscall = sym super::bare::syscall,
        leave = sym leave,
    )
}

/// As `irq_tail_entry`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn irq_tail_entry() {
    entered!(
        ["push 0", "push {vector}"],
        super::bare::irq_tail_body,
        vector = const VECTOR_TAIL,
    )
}
