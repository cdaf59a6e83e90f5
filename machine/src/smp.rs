//! Starting the other processors: INIT, start-up, and the way from real mode to Rust.
//!
//! *Interface*: [`start_others`]. One at a time: the trampoline page and its parameters are shared.

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::cpu;
use crate::paging::{self, MachineStack, machine_stack, phys_to_virt};
use crate::{apic, clock, features, log, tsc_sync};

/// Physical page of the trampoline: below 1 MiB, page-aligned, outside everything the firmware uses on a PC.
const TRAMPOLINE: usize = 0x8000;

// Position-independent apart from TRAMPOLINE: copied there, entered in real mode with CS = TRAMPOLINE >> 4.
global_asm!(
    r#"
    .pushsection .rodata.trampoline, "a"
    .balign 16
    .global trampoline_start
    trampoline_start:
    .code16
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    movl $0x620, %eax
    movl %eax, %cr4
    movl trampoline_root - trampoline_start, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl $0x80010033, %eax
    movl %eax, %cr0
    lgdtl trampoline_gdt_pointer - trampoline_start
    ljmpl $0x10, $({at} + 1f - trampoline_start)
    .code64
    1:
    movl $0x18, %eax
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %fs
    movl %eax, %gs
    movq {at} + trampoline_entry - trampoline_start, %rax
    movq {at} + trampoline_stack - trampoline_start, %rdi
    jmp *%rax
    .balign 8
    trampoline_gdt:
    .quad 0, 0, 0x00af9a000000ffff, 0x00cf92000000ffff
    trampoline_gdt_pointer:
    .word . - trampoline_gdt - 1
    .long {at} + trampoline_gdt - trampoline_start
    .balign 8
    .global trampoline_root
    trampoline_root: .quad 0
    .global trampoline_entry
    trampoline_entry: .quad 0
    .global trampoline_stack
    trampoline_stack: .quad 0
    .global trampoline_end
    trampoline_end:
    .popsection
    "#,
    at = const TRAMPOLINE,
    options(att_syntax),
);

unsafe extern "C" {
    static trampoline_start: [u8; 0];
    static trampoline_end: [u8; 0];
    static trampoline_root: [u8; 0];
    static trampoline_entry: [u8; 0];
    static trampoline_stack: [u8; 0];
    static boot_pml4: [u8; 0];
}

static ENTRY: AtomicUsize = AtomicUsize::new(0);

/// Starts every other processor that the firmware names. Each gets its own stacks and tables, then runs
/// `entry` on its boot stack with interrupts off; `entry` must not return. Returns when all are up; a
/// processor that does not answer within ten seconds is left out and logged.
pub fn start_others(entry: fn() -> !) {
    ROOT.store(paging::kernel_root(), Ordering::Release);
    EFER.store(paging::efer_no_execute(), Ordering::Release);
    ENTRY.store(entry as usize, Ordering::Release);
    for i in 1..cpu::present() {
        let cpu = cpu::cpu(i);
        prepare(machine_stack(i, MachineStack::Boot));
        AWAITED.store(i, Ordering::Release);
        apic::start(
            cpu.apic_id.load(Ordering::Relaxed),
            TRAMPOLINE,
            clock::delay_us,
        );
        let apic_id = cpu.apic_id.load(Ordering::Relaxed);
        // Numbers have no gaps: where one is left out, those behind it stay asleep as well.
        if !wait_for_decision() && decide(i) {
            log!("cpu {i} (apic {apic_id}) does not answer");
            return;
        }
        match tsc_sync::lead(ticks(SLACK_NS), ticks(LIMIT_NS)) {
            Ok(0) => {}
            Ok(by) => log!("cpu {i} (apic {apic_id}): its time stamp counter was moved by {by}"),
            Err(stays) => {
                log!(
                    "cpu {i} (apic {apic_id}) is not used: its time stamp counter differs, {stays:?}"
                );
                return;
            }
        }
        // It is on its way.
        while !cpu.online.load(Ordering::Acquire) {
            // Bound: boot only: ten seconds, then the CPU counts as absent; one that has begun to come up is
            // waited for.
            core::hint::spin_loop();
        }
    }
}

/// The number of the CPU that is awaited. The party that changes it to 0 decides: the starting CPU, that it
/// comes up; the boot CPU, that it is too late.
static AWAITED: AtomicUsize = AtomicUsize::new(0);

fn decide(number: usize) -> bool {
    AWAITED
        .compare_exchange(number, 0, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

/// A processor that runs comes up, and answers, within microseconds; a virtual one when the host lets it.
const LIMIT_NS: u64 = 10_000_000_000;
/// A thread needs longer to go to another CPU.
const SLACK_NS: u64 = 1000;

/// So many nanoseconds in ticks of the time stamp counter.
fn ticks(ns: u64) -> u64 {
    ns * clock::tsc_khz() / 1_000_000
}

/// Sets the time stamp counter of this CPU back by so many ticks.
fn set_back(by: i64) {
    const COUNTER: u32 = 0x10;
    const ADJUSTMENT: u32 = 0x3b;
    // SAFETY: the second register is there, as CPUID says, and the first on every x86-64. The machine's clock
    // is what follows from the counter, and this CPU has not read it yet.
    unsafe {
        if features::get().tsc_adjust() {
            let adjustment = cpu::rdmsr(ADJUSTMENT).wrapping_sub(by.cast_unsigned());
            cpu::wrmsr(ADJUSTMENT, adjustment);
        } else {
            cpu::wrmsr(COUNTER, clock::tsc().wrapping_sub(by.cast_unsigned()));
        }
    }
}

fn wait_for_decision() -> bool {
    let end = clock::now_ns() + LIMIT_NS;
    while AWAITED.load(Ordering::Acquire) != 0 {
        if clock::now_ns() > end {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}

/// Copies the trampoline and its parameters into place.
fn prepare(stack: usize) {
    let start = &raw const trampoline_start as usize;
    let place = phys_to_virt(TRAMPOLINE);
    // SAFETY: the page is in the firmware's memory, which no frame allocator has; the symbols bound the code.
    unsafe {
        let len = &raw const trampoline_end as usize - start;
        (place as *mut u8).copy_from(start as *const u8, len);
        let set = |symbol: usize, value: usize| {
            ((place + (symbol - start)) as *mut usize).write_volatile(value);
        };
        set(
            &raw const trampoline_root as usize,
            &raw const boot_pml4 as usize - paging::window(0),
        );
        set(
            &raw const trampoline_entry as usize,
            arrive as *const () as usize,
        );
        set(&raw const trampoline_stack as usize, stack);
    }
}

/// First Rust on another CPU, without a stack yet: the temporary tables do not map it.
#[unsafe(naked)]
unsafe extern "C" fn arrive() -> ! {
    core::arch::naked_asm!(
        // The final tables use no-execute, which must be on before they are.
        "mov ecx, 0xc0000080",
        "rdmsr",
        "or eax, [rip + {efer}]",
        "wrmsr",
        "mov rax, [rip + {root}]",
        "mov cr3, rax",
        "mov rsp, rdi",
        "xor ebp, ebp",
        "call {up}",
        "ud2",
        efer = sym EFER,
        root = sym ROOT,
        up = sym up,
    )
}

static EFER: AtomicUsize = AtomicUsize::new(0);
static ROOT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn up() -> ! {
    if !decide(cpu::this_cpu().number()) || !tsc_sync::follow(set_back) {
        cpu::halt()
    }
    crate::segments::init_this_cpu();
    apic::init_this_cpu();
    cpu::came_up(cpu::this_cpu());
    let entry = ENTRY.load(Ordering::Acquire);
    // SAFETY: `start_others` stored a `fn() -> !` before it woke this CPU.
    let entry = unsafe { core::mem::transmute::<usize, fn() -> !>(entry) };
    entry()
}
