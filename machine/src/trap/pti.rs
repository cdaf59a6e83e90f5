//! Page-table isolation (PTI): the gates, which are all of the kernel that is mapped while a program runs.
//!
//! *Interface*: what `trap.rs`, `mitigated.rs`, `segments.rs` and `boot_page_tables.rs` need where
//! `isolate_tables` is chosen: the entries, by [`stub`] and [`syscall_entry`]; the exits [`end`] and
//! [`sysret`]; [`pages`] and [`alias`] for the tables; [`link`]; [`enter_root`] for whoever loads a root.
//!
//! Each space has a second root: its lower half is that of the first, its upper half maps the gates alone, at
//! addresses that do not tell where the kernel lies (`GATE`: the image once more, only these pages of it).
//! They are three: code that is the same for all CPUs, the interrupt descriptor table, and for each CPU a
//! [`Page`] with task state, segment descriptors, the two roots and stacks of a few words.
//!
//! In: the processor starts on a gate's stack. `outer` code loads the kernel's root and goes on in the
//! `inner` code, which lies behind it and is mapped in the kernel's root only; that copies the frame to the
//! stack where it would have been without all this, and jumps to the usual entry. A frame on a gate's stack
//! is moved in this way, also that of a refused return; a frame on another stack is already in the kernel.
//! Out: registers restored, the frame copied back, the program's root loaded, `iretq` or `sysretq`. An
//! interrupt that comes at any time (NMI) has a stack of its own, notes the root that it finds and loads it
//! again.
//!
//! Without PCID each load of a root forgets all translations, none is global, and so a CPU in user mode never
//! has an old one.
//! Source: Gruss and others 2017, "KASLR is Dead: Long Live KASLR"; Linux, Documentation/arch/x86/pti.rst.

use super::{KERNEL_SS, exception};
use crate::cpu::{self, Cpu, MAX_CPUS, StackBase};
use crate::idt;
use crate::paging::{self, MachineStack, bits};
use crate::tss::{GDT_WORDS, Tss};
use abi::layout::{GATE, PAGE};
use core::arch::{global_asm, naked_asm};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The state that one CPU needs while a program's root is loaded. Its stacks are in the upper half.
#[repr(C, align(4096))]
pub(crate) struct Page {
    /// Task state that the processor uses: its stacks are this page's.
    pub tss: UnsafeCell<Tss>,
    /// Segment descriptors that it uses.
    pub gdt: UnsafeCell<[u64; GDT_WORDS]>,
    /// The root of the space that this CPU has, or is about to have.
    kernel_root: AtomicUsize,
    /// Its second one.
    user_root: AtomicUsize,
    /// The user's stack pointer, at a call's entry and exit.
    user_rsp: AtomicU64,
    /// The root that an NMI has found.
    found_root: AtomicUsize,
    /// The CPU's number.
    number: AtomicU64,
    stacks: UnsafeCell<[u64; 256]>,
}

// SAFETY: only its own CPU uses it, with interrupts off; another writes `tss` and `gdt` before that starts.
unsafe impl Sync for Page {}

static PAGES: [Page; MAX_CPUS] = [const {
    Page {
        tss: UnsafeCell::new(Tss::new()),
        gdt: UnsafeCell::new([0; GDT_WORDS]),
        kernel_root: AtomicUsize::new(0),
        user_root: AtomicUsize::new(0),
        user_rsp: AtomicU64::new(0),
        found_root: AtomicUsize::new(0),
        number: AtomicU64::new(0),
        stacks: UnsafeCell::new([0; 256]),
    }
}; MAX_CPUS];

const _: () = assert!(
    size_of::<Page>() == PAGE && offset_of!(Page, stacks) <= PAGE - MachineStack::ALL.len() * STACK
);

/// Where the stack for interrupts without one of their own begins.
const TOP: usize = PAGE;
/// Bytes of each stack.
const STACK: usize = 512;

const fn top(stack: MachineStack) -> usize {
    TOP - stack as usize * STACK
}

/// Where the interrupts with stacks of their own begin: offsets in a [`Cpu`].
const fn ist(stack: MachineStack) -> usize {
    offset_of!(Cpu, tss) + offset_of!(Tss, ist) + 8 * (stack as usize - 1)
}

/// Bytes of the code of one CPU's entry or exit.
const SLOT: usize = 64;

/// 1 where tables are isolated: for the ways out.
pub(super) static ISOLATED: AtomicU32 = AtomicU32::new(0);
/// Where a generated handler takes an interrupt, by vector; 0: the usual way.
static TARGETS: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];
/// The gates' way out, at its other address.
static EXIT: AtomicUsize = AtomicUsize::new(0);

// The outer code, mapped in both roots. It is run at another address than it is linked at, as its data is:
// distances are the same.
global_asm!(
    ".pushsection .text.gate.outer,\"ax\"",
    ".balign 4096",
    ".global gate_stubs",
    ".type gate_stubs, @function",
    "gate_stubs:",
    ".set vector, 0",
    ".rept 256",
    ".balign 16",
    ".if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30)",
    ".else",
    "pushq $0",
    ".endif",
    "pushq $vector",
    ".if vector == {nmi}",
    "jmp gate_nmi",
    ".elseif vector == {double_fault}",
    "jmp gate_double_fault",
    ".elseif vector == {machine_check}",
    "jmp gate_machine_check",
    ".elseif vector == {debug}",
    "jmp gate_debug",
    ".else",
    "jmp gate_common",
    ".endif",
    ".set vector, vector + 1",
    ".endr",

    // rax = the CPU's page, on whose stack this is; the kernel's root is loaded.
    ".macro to_kernel_root",
    "movq %rsp, %rax",
    "andq $-4096, %rax",
    "movq {kernel_root}(%rax), %rcx",
    "movq %rcx, %cr3",
    ".endm",

    "gate_common:",
    "pushq %rax",
    "pushq %rcx",
    "leaq {pages}(%rip), %rcx",
    "movq %rsp, %rax",
    "subq %rcx, %rax",
    "cmpq ${length}, %rax",
    "jae 1f",
    "to_kernel_root",
    "jmp gate_inner_user",
    "1: popq %rcx",
    "popq %rax",
    "jmp gate_inner_kernel",

    // As `debug_entry`, whatever root is loaded.
    "gate_debug:",
    "testb $3, 24(%rsp)",
    "jnz gate_common",
    "testl ${tf}, 32(%rsp)",
    "jnz 1f",
    "pushq %rax",
    "movl ${nothing}, %eax",
    "movq %rax, %dr6",
    "popq %rax",
    "addq $16, %rsp",
    "iretq",
    "1: pushq %rax",
    "pushq %rcx",
    "jmp gate_inner_step",

    "gate_nmi:",
    "pushq %rax",
    "pushq %rcx",
    "movq %rsp, %rax",
    "andq $-4096, %rax",
    "movq %cr3, %rcx",
    "movq %rcx, {found_root}(%rax)",
    "to_kernel_root",
    "jmp gate_inner_nmi",

    "gate_double_fault:",
    "pushq %rax",
    "pushq %rcx",
    "to_kernel_root",
    "jmp gate_inner_double_fault",

    "gate_machine_check:",
    "pushq %rax",
    "pushq %rcx",
    "to_kernel_root",
    "jmp gate_inner_machine_check",

    // rax = the root to load; rax and the processor's frame are on the stack.
    ".balign 16",
    ".global gate_exit",
    ".type gate_exit, @function",
    "gate_exit:",
    "movq %rax, %cr3",
    "popq %rax",
    "verw gate_selector(%rip)",
    ".global gate_iretq",
    ".type gate_iretq, @function",
    "gate_iretq:",
    "iretq",
    "gate_selector: .word {selector}",

    ".balign {slot}",
    ".global gate_syscalls",
    ".type gate_syscalls, @function",
    "gate_syscalls:",
    ".set cpu, 0",
    ".rept {count}",
    ".balign {slot}",
    "movq %rsp, {pages} + cpu * 4096 + {user_rsp}(%rip)",
    "movq {pages} + cpu * 4096 + {kernel_root}(%rip), %rsp",
    "movq %rsp, %cr3",
    "jmp gate_inner_syscalls + cpu * {slot}",
    ".set cpu, cpu + 1",
    ".endr",

    // At the base of the kernel stack.
    ".balign {slot}",
    ".global gate_sysrets",
    ".type gate_sysrets, @function",
    "gate_sysrets:",
    ".set cpu, 0",
    ".rept {count}",
    ".balign {slot}",
    "pushq {base_rsp}(%rsp)",
    "popq {pages} + cpu * 4096 + {user_rsp}(%rip)",
    "movq {pages} + cpu * 4096 + {user_root}(%rip), %rsp",
    "movq %rsp, %cr3",
    "movq {pages} + cpu * 4096 + {user_rsp}(%rip), %rsp",
    "verw gate_selector(%rip)",
    "sysretq",
    ".set cpu, cpu + 1",
    ".endr",
    ".popsection",
    nmi = const exception::NMI,
    double_fault = const exception::DOUBLE_FAULT,
    machine_check = const exception::MACHINE_CHECK,
    debug = const exception::DEBUG,
    tf = const super::RFLAGS_TF,
    nothing = const crate::debug_registers::NOTHING,
    kernel_root = const offset_of!(Page, kernel_root),
    user_root = const offset_of!(Page, user_root),
    user_rsp = const offset_of!(Page, user_rsp),
    found_root = const offset_of!(Page, found_root),
    pages = sym PAGES,
    length = const size_of_val(&PAGES),
    selector = const KERNEL_SS,
    slot = const SLOT,
    count = const MAX_CPUS,
    base_rsp = const StackBase::USER_RSP,
    options(att_syntax),
);

// The inner code, mapped in the kernel's root only, so that it may name what it likes by its address. Nobody
// guesses where its jumps go.
global_asm!(
    ".pushsection .text.gate.inner,\"ax\"",
    ".balign 4096",
    ".global gate_inner",
    ".type gate_inner, @function",
    "gate_inner:",
    // The next `ret` is guessed to go into the trap. A word is on the stack.
    ".macro trap_guess",
    "callq 11f",
    "10: pause",
    "lfence",
    "jmp 10b",
    "11:",
    ".endm",
    ".balign {slot}",
    "gate_inner_syscalls:",
    ".set cpu, 0",
    ".rept {count}",
    ".balign {slot}",
    "movq {cpus} + cpu * {size} + {rsp0}, %rsp",
    "pushq {pages} + cpu * 4096 + {user_rsp}(%rip)",
    "popq {base_rsp}(%rsp)",
    "trap_guess",
    "leaq 8(%rsp), %rsp",
    "pushq {cpus} + cpu * {size} + {entry}",
    "retq",
    ".set cpu, cpu + 1",
    ".endr",
    // rcx = where the CPU's word is that names the stack to go to.
    ".macro to_stack word",
    "imulq ${size}, {number}(%rax), %rcx",
    "movq {cpus} + \\word(%rcx), %rcx",
    ".endm",
    "gate_inner_nmi:",
    "to_stack {ist_nmi}",
    "jmp 1f",
    "gate_inner_double_fault:",
    "to_stack {ist_double_fault}",
    "jmp 1f",
    "gate_inner_machine_check:",
    "to_stack {ist_machine_check}",
    "jmp 1f",
    // The kernel's own step: back to the stack that it is on.
    "gate_inner_step:",
    "movq 56(%rsp), %rcx",
    "andq $-16, %rcx",
    "jmp 1f",
    "gate_inner_user:",
    "to_stack {rsp0}",
    "1: movq %rsp, %rax",
    "movq %rcx, %rsp",
    "pushq 64(%rax)",
    "pushq 56(%rax)",
    "pushq 48(%rax)",
    "pushq 40(%rax)",
    "pushq 32(%rax)",
    "pushq 24(%rax)",
    "pushq 16(%rax)",
    "movq (%rax), %rcx",
    "movq 8(%rax), %rax",
    // On the kernel's stack, as the usual stubs leave it.
    "gate_inner_kernel:",
    "pushq %rax",
    "movq 8(%rsp), %rax",
    "movq {targets}(, %rax, 8), %rax",
    "testq %rax, %rax",
    "jnz 2f",
    "popq %rax",
    "trap_guess",
    "movq ${common}, (%rsp)",
    "retq",
    // A generated handler: the processor's frame alone.
    "2: movq %rax, 16(%rsp)",
    "popq %rax",
    "trap_guess",
    "addq $16, %rsp",
    "retq",
    ".balign 4096",
    ".global gate_end",
    ".type gate_end, @function",
    "gate_end:",
    ".popsection",
    cpus = sym cpu::CPUS,
    pages = sym PAGES,
    targets = sym TARGETS,
    common = sym super::mitigated::common,
    size = const size_of::<Cpu>(),
    rsp0 = const Cpu::RSP0,
    entry = const offset_of!(Cpu, syscall_entry),
    ist_nmi = const ist(MachineStack::Nmi),
    ist_double_fault = const ist(MachineStack::DoubleFault),
    ist_machine_check = const ist(MachineStack::MachineCheck),
    number = const offset_of!(Page, number),
    user_rsp = const offset_of!(Page, user_rsp),
    base_rsp = const StackBase::USER_RSP,
    slot = const SLOT,
    count = const MAX_CPUS,
    options(att_syntax),
);

unsafe extern "C" {
    fn gate_stubs();
    fn gate_exit();
    fn gate_iretq();
    fn gate_syscalls();
    fn gate_sysrets();
    fn gate_inner();
    fn gate_end();
}

/// Where a page of the gates, which is at `address` in the image, is for the gates.
pub(crate) fn alias(address: usize) -> usize {
    GATE + (address - paging::image_address())
}

/// A page that the gates are made of.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// Physical address.
    pub physical: usize,
    /// Address in both roots, or the kernel's.
    pub address: usize,
    /// Its rights, of [`bits`], but for the one that forbids execution.
    pub rights: u64,
    /// Whether it is executed.
    pub execute: bool,
    /// Whether it is in both.
    pub both: bool,
}

/// The pages of the gates.
pub(crate) fn pages() -> impl Iterator<Item = Part> {
    let code = |from: unsafe extern "C" fn(), to: unsafe extern "C" fn(), both| {
        (from as usize..to as usize, 0, true, both)
    };
    let table = idt::place();
    let table = table.start + paging::window(0)..table.end + paging::window(0);
    let own = PAGES.as_ptr() as usize;
    [
        code(gate_stubs, gate_inner, true),
        code(gate_inner, gate_end, false),
        (table, 0, false, true),
        (own..own + size_of_val(&PAGES), bits::WRITE, false, true),
    ]
    .into_iter()
    .flat_map(|(range, rights, execute, both)| {
        range.step_by(PAGE).map(move |at| Part {
            physical: at - paging::window(0),
            address: alias(at),
            rights,
            execute,
            both,
        })
    })
}

/// Physical addresses of pages of the image that nobody uses: those of the CPUs, where tables are not
/// isolated.
pub(crate) fn unused() -> Range<usize> {
    let start = PAGES.as_ptr() as usize - paging::window(0);
    match ISOLATED.load(Ordering::Relaxed) {
        0 => start..start + size_of_val(&PAGES),
        _ => start..start,
    }
}

/// Chooses the ways, before any trap.
pub(super) fn init(isolated: bool) {
    ISOLATED.store(u32::from(isolated), Ordering::Relaxed);
    EXIT.store(alias(gate_exit as *const () as usize), Ordering::Relaxed);
}

/// The stub of a vector.
pub(super) fn stub(vector: u8) -> usize {
    alias(gate_stubs as *const () as usize) + 16 * vector as usize
}

/// The entry of `syscall` on CPU number `cpu`. It goes on at [`Cpu::syscall_entry`], on the kernel stack, the
/// user's stack pointer stored.
pub(crate) fn syscall_entry(cpu: usize) -> usize {
    alias(gate_syscalls as *const () as usize) + SLOT * cpu
}

/// Whether `address` is that of the `iretq` of the gates.
pub(super) fn is_iretq(address: u64) -> bool {
    address as usize == alias(gate_iretq as *const () as usize)
}

/// Has `vector` enter generated code at `entry`; 0: the usual way.
pub(crate) fn link(vector: u8, entry: usize) {
    TARGETS[vector as usize].store(entry, Ordering::Release);
}

/// The entry that [`link`] gave `vector`, if it did.
pub(crate) fn linked(vector: u8) -> Option<usize> {
    let entry = TARGETS[vector as usize].load(Ordering::Acquire);
    (entry != 0).then_some(entry)
}

/// Makes the page of `cpu` ready: the task state's stacks. Returns the page, at the gates' address.
pub(crate) fn prepare(cpu: &Cpu) -> &'static Page {
    let number = cpu.number();
    let at = alias(&raw const PAGES[number] as usize);
    // SAFETY: the tables map the page there, writable, for ever.
    let page = unsafe { &*(at as *const Page) };
    page.number.store(number as u64, Ordering::Relaxed);
    let root = paging::kernel_root();
    page.kernel_root.store(root, Ordering::Relaxed);
    page.user_root.store(root, Ordering::Relaxed);
    // SAFETY: this CPU's own, with interrupts off, before the processor uses it.
    unsafe {
        let tss = page.tss.get();
        (*tss).rsp0 = (at + TOP) as u64;
        for stack in MachineStack::of_interrupts() {
            (*tss).ist[stack as usize - 1] = (at + top(stack)) as u64;
        }
    }
    let sysret = alias(gate_sysrets as *const () as usize) + SLOT * number;
    cpu.sysret.store(sysret, Ordering::Relaxed);
    cpu.gate.store(at, Ordering::Relaxed);
    page
}

/// Offsets in a [`Page`], for generated code: the space's first root.
pub(crate) const KERNEL_ROOT: usize = offset_of!(Page, kernel_root);
/// And its second.
pub(crate) const USER_ROOT: usize = offset_of!(Page, user_root);

/// Notes that `cpu`, which is the caller's, is about to load `root`, whose second one is `second`. With
/// interrupts off.
pub(crate) fn enter_root(cpu: &Cpu, root: usize, second: usize) {
    let gate = cpu.gate.load(Ordering::Relaxed);
    if gate != 0 {
        // SAFETY: `prepare` stored the page's address.
        let page = unsafe { &*(gate as *const Page) };
        page.kernel_root.store(root, Ordering::Relaxed);
        page.user_root.store(second, Ordering::Relaxed);
    }
}

/// As the end of `trap_leave`: registers restored, the stack pointer at the vector. To user mode, or where an
/// NMI came from, by the gates.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn end() {
    naked_asm!(
        "cmp dword ptr [rsp], {nmi}",
        "je 4f",
        "test byte ptr [rsp + 24], 3",
        "jnz 3f",
        "add rsp, 16",
        "iretq",
        "3: push rax",
        "push rcx",
        "mov rax, rsp",
        "or rax, {mask}",
        "mov rax, [rax - {less} + {cpu}]",
        "mov rax, [rax + {gate}]",
        "mov rcx, [rsp + 32]\nmov [rax + {top} - 40], rcx",
        "mov rcx, [rsp + 40]\nmov [rax + {top} - 32], rcx",
        "mov rcx, [rsp + 48]\nmov [rax + {top} - 24], rcx",
        "mov rcx, [rsp + 56]\nmov [rax + {top} - 16], rcx",
        "mov rcx, [rsp + 64]\nmov [rax + {top} - 8], rcx",
        "mov rcx, [rsp + 8]\nmov [rax + {top} - 48], rcx",
        "pop rcx",
        "lea rsp, [rax + {top} - 48]",
        "mov rax, [rax + {user_root}]",
        "5: call 7f",
        "6: pause",
        "lfence",
        "jmp 6b",
        "7: lea rsp, [rsp + 8]",
        "push qword ptr [{exit}]",
        "ret",
        // The processor's frame is on the gate's stack still; rax takes the place of the error code.
        "4: push rax",
        "mov rax, rsp",
        "or rax, {mask}",
        "mov rax, [rax - {less} + {cpu}]",
        "mov rax, [rax + {gate}]",
        "pop qword ptr [rax + {top_nmi} - 48]",
        "lea rsp, [rax + {top_nmi} - 48]",
        "mov rax, [rax + {found_root}]",
        "jmp 5b",
        nmi = const exception::NMI,
        mask = const StackBase::SLOT - 1,
        less = const StackBase::SIZE - 1,
        cpu = const StackBase::CPU,
        gate = const offset_of!(Cpu, gate),
        top = const TOP,
        top_nmi = const top(MachineStack::Nmi),
        user_root = const offset_of!(Page, user_root),
        found_root = const offset_of!(Page, found_root),
        exit = sym EXIT,
    )
}

/// To user mode by `sysretq`, from the stack's base, where the user's stack pointer is; all registers as user
/// mode has them.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn sysret() {
    naked_asm!(
        "push rax",
        "push rax",
        "mov rax, [rsp + 16 + {cpu}]",
        "mov rax, [rax + {sysret}]",
        "mov [rsp + 8], rax",
        "pop rax",
        "call 3f",
        "2: pause",
        "lfence",
        "jmp 2b",
        "3: lea rsp, [rsp + 8]",
        "ret",
        cpu = const StackBase::CPU,
        sysret = const offset_of!(Cpu, sysret),
    )
}

/// As [`sysret`], from a restored frame of a slow call: the stack pointer at its vector.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn sysret_slow() {
    naked_asm!(
        "push qword ptr [rsp + 40]",
        "pop qword ptr [rsp + 56 + {user_rsp}]",
        "lea rsp, [rsp + 56]",
        "jmp {sysret}",
        user_rsp = const StackBase::USER_RSP,
        sysret = sym sysret,
    )
}
