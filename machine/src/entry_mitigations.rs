//! Entry mitigations: what speculation adds to the ways between user mode and the kernel.
//!
//! *Interface*: generators emit [`enter_kernel`], [`leave_kernel`] and [`clear_buffers`], [`enter_interrupt`]
//! and [`leave_interrupt`] at the places that their names say, and so nothing where nothing is asked for
//! (`mitigate`). [`enters_on_kernel_stack`] says what dispatchers find. The entries of traps and slow calls
//! have assembly versions that do the same (`trap/mitigated.rs`).
//!
//! IBRS is set by the first instructions behind `syscall` or a gate, before any indirect branch, and cleared
//! by the last ones: all of the kernel runs under it, compiled code, which has no retpolines, too. The values
//! for the register are words of each CPU, since a thread may ask for more (`thread::speculation`).
//! Source: Intel, "Speculative Execution Side Channel Mitigations", "Microarchitectural Data Sampling".

use core::sync::atomic::Ordering;

use codegen::{Draft, dynasm, harden};

use crate::cpu::{Cpu, StackBase};
use crate::mitigate::{IBPB, PRED_CMD, SELECTOR, SPEC_CTRL, measures};

/// Whether the entry of `syscall` changes stacks itself: dispatchers are entered at their stack's base, the
/// user's stack pointer stored there. A retpoline needs a stack, and so does who sets a register of the
/// machine.
pub fn enters_on_kernel_stack() -> bool {
    measures().ibrs_by_entry()
        || measures().retpolines()
        || measures().ibpb_by_entry()
        || measures().isolate_tables()
}

/// Address of the selector for VERW.
pub(crate) fn selector() -> usize {
    SELECTOR.as_ptr() as usize
}

/// The entry of `syscall` on `cpu`, up to the jump through its dispatcher: on the kernel stack, with IBRS
/// set. Changes no register but rsp.
pub(crate) fn enter_kernel(d: &mut Draft, cpu: &Cpu) {
    let at = |offset: usize| (cpu.address() + offset) as i32;
    // The gate has done it otherwise.
    if !measures().isolate_tables() {
        dynasm!(d ; .arch x64
        ; mov [at(Cpu::USER_RSP)], rsp
        ; mov rsp, [at(Cpu::RSP0)]
        ; push QWORD [at(Cpu::USER_RSP)]
        ; pop QWORD [rsp + StackBase::USER_RSP as i32]
        );
    }
    if !writes_by_entry() {
        return;
    }
    dynasm!(d ; .arch x64 ; push rax ; push rcx ; push rdx);
    if measures().ibrs_by_entry() {
        dynasm!(d ; .arch x64 ; mov eax, [at(Cpu::SPEC_RUNNING)]);
        write(d);
    }
    forget_branches(d);
    dynasm!(d ; .arch x64 ; pop rdx ; pop rcx ; pop rax);
}

/// Before `sysretq`, with rsp at the stack's base: clears IBRS. Changes nothing else.
pub fn leave_kernel(d: &mut Draft) {
    if measures().ibrs_by_entry() {
        dynasm!(d ; .arch x64
            ; push rax
            ; push rcx
            ; push rdx
            ; mov rax, [rsp + 24 + StackBase::CPU as i32]
            ; mov eax, [rax + Cpu::SPEC_RESTING as i32]
        );
        write(d);
        dynasm!(d ; .arch x64 ; pop rdx ; pop rcx ; pop rax);
    }
}

/// Where tables are isolated, behind [`leave_kernel`], with rsp at the stack's base: the rest of the way to
/// user mode, by the gate. Returns whether it is there.
pub fn sysret_by_gate(d: &mut Draft) -> bool {
    #[cfg(target_os = "none")]
    if measures().isolate_tables() {
        d.jmp_abs(crate::trap::pti::sysret as *const () as usize);
        return true;
    }
    let _ = d;
    false
}

/// On the CPU at rdi: loads the root in rcx, and says so as [`enter_root`] does. Changes rdx, r8.
pub fn load_root(d: &mut Draft) {
    #[cfg(target_os = "none")]
    if measures().isolate_tables() {
        use crate::paging::{ADDRESS_BITS, phys_to_virt, second_at};
        use crate::trap::pti::{KERNEL_ROOT, USER_ROOT};
        dynasm!(d ; .arch x64
            ; mov rdx, QWORD phys_to_virt(second_at()) as i64
            ; mov rdx, [rdx + rcx]
            ; shl rdx, 64 - ADDRESS_BITS as i8
            ; shr rdx, 64 - ADDRESS_BITS as i8
            ; mov r8, [rdi + Cpu::GATE as i32]
            ; mov [r8 + KERNEL_ROOT as i32], rcx
            ; mov [r8 + USER_ROOT as i32], rdx
        );
    }
    dynasm!(d ; .arch x64 ; mov [rdi + Cpu::ROOT as i32], rcx ; mov cr3, rcx);
}

/// Notes that `cpu`, which is the caller's, is about to load `root`. With interrupts off.
///
/// # Safety
/// `root` is the physical address of a top table that stays while it is loaded.
pub unsafe fn enter_root(cpu: &Cpu, root: usize) {
    cpu.root.store(root, Ordering::Relaxed);
    #[cfg(target_os = "none")]
    if measures().isolate_tables() {
        // SAFETY: a root is a table of 512 words, in the map of all memory, by the caller's promise.
        let second = unsafe { crate::paging::second_root(root) };
        crate::trap::pti::enter_root(cpu, root, second);
    }
}

/// The last thing before `sysretq` or `iretq` to user mode. Changes flags.
pub fn clear_buffers(d: &mut Draft) {
    if measures().verw() {
        // verw [selector]
        d.extend(&[0x0f, 0x00, 0x2c, 0x25]);
        d.push_i32(selector() as i32);
    }
}

/// The first thing in a generated interrupt handler: sets IBRS when it comes from user mode. Changes nothing
/// else.
pub fn enter_interrupt(d: &mut Draft) {
    if writes_by_entry() {
        if_from_user(d, |d| {
            write_word(d, Cpu::SPEC_RUNNING as i32);
            forget_branches(d);
        });
    }
}

/// Its end: `iretq`, and what comes before.
pub fn leave_interrupt(d: &mut Draft) {
    if measures().ibrs_by_entry() {
        if_from_user(d, |d| write_word(d, Cpu::SPEC_RESTING as i32));
    }
    #[cfg(target_os = "none")]
    if measures().isolate_tables() {
        dynasm!(d ; .arch x64 ; push 0 ; push 0);
        return d.jmp_abs(crate::trap::pti::end as *const () as usize);
    }
    clear_buffers(d);
    dynasm!(d ; .arch x64 ; iretq);
}

/// Whether an entry from user mode writes registers of the machine.
fn writes_by_entry() -> bool {
    measures().ibrs_by_entry() || measures().ibpb_by_entry()
}

/// Does `what` where the frame on the stack is of user mode; it may change rax, rcx and rdx. Nobody runs
/// ahead past the question.
fn if_from_user(d: &mut Draft, what: impl FnOnce(&mut Draft)) {
    let kernel = d.label();
    dynasm!(d ; .arch x64
        ; push rax
        ; push rcx
        ; push rdx
        ; test BYTE [rsp + 24 + 8], 3
        ; jz =>kernel
    );
    what(d);
    dynasm!(d ; .arch x64
        ; =>kernel
        ; lfence
        ; pop rdx
        ; pop rcx
        ; pop rax
    );
}

/// Writes the word at `offset` of the stack's CPU into the register, where IBRS changes by entry.
fn write_word(d: &mut Draft, offset: i32) {
    if measures().ibrs_by_entry() {
        dynasm!(d ; .arch x64
            ; mov rax, rsp
            ; or rax, StackBase::SLOT as i32 - 1
            ; mov rax, [rax - (StackBase::SIZE as i32 - 1) + StackBase::CPU as i32]
            ; mov eax, [rax + offset]
        );
        write(d);
    }
}

/// Writes eax into SPEC_CTRL. Changes rcx, rdx.
fn write(d: &mut Draft) {
    dynasm!(d ; .arch x64 ; mov ecx, SPEC_CTRL as i32 ; xor edx, edx ; wrmsr);
}

/// IBPB, where each entry wants it. Changes rax, rcx, rdx.
fn forget_branches(d: &mut Draft) {
    if measures().ibpb_by_entry() {
        dynasm!(d ; .arch x64
            ; mov ecx, PRED_CMD as i32
            ; mov eax, IBPB as i32
            ; xor edx, edx
            ; wrmsr
        );
    }
}

/// The jump through the word at `word`, as the entry of `syscall` ends.
pub(crate) fn jump_through(d: &mut Draft, word: i32) {
    harden::jump(
        d,
        |d| dynasm!(d ; .arch x64 ; jmp QWORD [word]),
        |d| dynasm!(d ; .arch x64 ; push QWORD [word]),
    );
}

/// A page that programs' own roots map of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatePage {
    /// Its address.
    pub address: usize,
    /// Its physical address.
    pub physical: u64,
    /// It can be written.
    pub write: bool,
    /// It can be executed.
    pub execute: bool,
}

/// Physical addresses of pages of the image that nobody uses on this machine, from boot on.
#[cfg(target_os = "none")]
pub fn unused() -> core::ops::Range<usize> {
    crate::trap::pti::unused()
}

/// The pages that programs' own roots map of the kernel.
#[cfg(target_os = "none")]
pub fn gate_pages() -> impl Iterator<Item = GatePage> {
    crate::trap::pti::pages()
        .filter(|part| part.both)
        .map(|part| GatePage {
            address: part.address,
            physical: part.physical as u64,
            write: part.rights & crate::paging::bits::WRITE != 0,
            execute: part.execute,
        })
}

/// On a host there are no gates.
#[cfg(not(target_os = "none"))]
pub fn gate_pages() -> impl Iterator<Item = GatePage> {
    core::iter::empty()
}
