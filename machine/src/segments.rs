//! Segment descriptors, task state and control registers of one CPU.
//!
//! *Interface*: `init_this_cpu` on each CPU as it comes up. Selectors are Linux's, so that what a program
//! sees of them is what it expects. Double fault, NMI, machine check and debug exceptions have stacks of
//! their own (IST).

use core::arch::asm;
use core::sync::atomic::Ordering;

use crate::cpu::{self, Cpu, MSR_EFER};
use crate::idt::{self, Gate};
use crate::mitigate::measures;
use crate::paging::{self, MachineStack};
use crate::trap::{self, pti};
use crate::trap_frame::{KERNEL_CS, KERNEL_SS, SFMASK, USER_CS, exception};
use crate::tss::Tss;
use crate::{features, fpu, mitigate};

const TSS_SELECTOR: u16 = 0x40;
const CODE: u64 = 0x00af_9a00_0000_ffff;
const DATA: u64 = 0x00cf_9200_0000_ffff;
const RING3: u64 = 3 << 45;

const MSR_STAR: u32 = 0xc000_0081;
const MSR_LSTAR: u32 = 0xc000_0082;
const MSR_SFMASK: u32 = 0xc000_0084;
const EFER_SCE: u64 = 1;

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// Points the gate of an interrupt vector at `entry`. All entries lie in the same 4 GiB, so that the one
/// store that matters is a single word.
pub(crate) fn set_gate(vector: u8, entry: usize) {
    let stub = trap::stub(vector);
    if measures().isolate_tables() {
        return pti::link(vector, if entry == stub { 0 } else { entry });
    }
    idt::write(vector, Gate::new(entry, 0, 0));
}

/// Where the gate of an interrupt vector leads, if not to its assembled stub.
pub(crate) fn entry_of(vector: u8) -> Option<usize> {
    if measures().isolate_tables() {
        return pti::linked(vector);
    }
    let entry = idt::read(vector).entry();
    (entry != trap::stub(vector)).then_some(entry)
}

/// Fills the table that all CPUs share.
pub(crate) fn init_gates() {
    for vector in 0..=255u8 {
        let (ist, ring) = match u64::from(vector) {
            exception::DOUBLE_FAULT => (MachineStack::DoubleFault as u8, 0),
            exception::NMI => (MachineStack::Nmi as u8, 0),
            exception::MACHINE_CHECK => (MachineStack::MachineCheck as u8, 0),
            exception::DEBUG => (MachineStack::Debug as u8, 0),
            exception::BREAKPOINT | exception::OVERFLOW => (0, 3),
            _ => (0, 0),
        };
        idt::write(vector, Gate::new(trap::stub(vector), ist, ring));
    }
}

/// Loads this CPU's own tables, sets its control registers and its `syscall` entry.
pub(crate) fn init_this_cpu() {
    let cpu = cpu::this_cpu();
    // SAFETY: interrupts are off and only this CPU touches its own structures; every value below is what
    // the architecture chapter prescribes.
    unsafe {
        load_tables(cpu);
        set_control_registers();
        cpu::wrmsr(MSR_STAR, (USER_CS - 16) << 48 | KERNEL_CS << 32);
        cpu::wrmsr(MSR_SFMASK, SFMASK);
        cpu::wrmsr(MSR_EFER, cpu::rdmsr(MSR_EFER) | EFER_SCE);
        cpu.dispatcher
            .store(trap::no_dispatcher(), Ordering::Relaxed);
        set_syscall_entry(cpu, trap::static_syscall_entry(cpu.number()));
    }
    fpu::init_this_cpu();
    mitigate::init_this_cpu();
}

/// Sets where `syscall` enters the kernel on this CPU.
///
/// # Safety
/// Called on `cpu` with interrupts off; `entry` is code that jumps through `cpu.dispatcher`; where tables
/// are isolated it is entered on the kernel stack.
pub(crate) unsafe fn set_syscall_entry(cpu: &Cpu, entry: usize) {
    cpu.syscall_entry.store(entry, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe {
        if measures().isolate_tables() {
            cpu::wrmsr(MSR_LSTAR, pti::syscall_entry(cpu.number()) as u64);
        } else {
            cpu::wrmsr(MSR_LSTAR, entry as u64);
        }
    }
}

unsafe fn load_tables(cpu: &Cpu) {
    // SAFETY: the caller is alone with this CPU's structures.
    unsafe {
        let tss = cpu.tss.get();
        for stack in MachineStack::of_interrupts() {
            (*tss).ist[stack as usize - 1] = paging::machine_stack(cpu.number(), stack) as u64;
        }
        (*tss).rsp0 = paging::machine_stack(cpu.number(), MachineStack::Boot) as u64;
        // Where tables are isolated the processor itself uses those of the gate, and the table of gates
        // by the address there.
        let mut table = idt::address();
        let (mut at, mut gdt) = (tss as u64, cpu.gdt.get());
        if measures().isolate_tables() {
            let page = pti::prepare(cpu);
            (at, gdt) = (page.tss.get() as u64, page.gdt.get());
            table = pti::alias(table);
        }
        let gdt = &mut *gdt;
        *gdt = [
            0,
            0,
            CODE,
            DATA,
            0,
            DATA | RING3,
            CODE | RING3,
            0,
            (size_of::<Tss>() as u64 - 1)
                | (at & 0xff_ffff) << 16
                | 0x89 << 40
                | (at >> 24 & 0xff) << 56,
            at >> 32,
        ];
        let pointer = Pointer {
            limit: size_of_val(gdt) as u16 - 1,
            base: gdt.as_ptr() as u64,
        };
        asm!(
            "lgdt [{pointer}]",
            "push {cs}",
            "lea {scratch}, [rip + 2f]",
            "push {scratch}",
            "retfq",
            "2:",
            "mov ss, {ss:e}",
            "mov ds, {zero:e}",
            "mov es, {zero:e}",
            "mov fs, {zero:e}",
            "mov gs, {zero:e}",
            pointer = in(reg) &pointer,
            cs = const KERNEL_CS,
            ss = in(reg) KERNEL_SS,
            zero = in(reg) 0u64,
            scratch = out(reg) _,
        );
        let pointer = Pointer {
            limit: idt::LIMIT,
            base: table as u64,
        };
        asm!("lidt [{}]", in(reg) &pointer, options(nostack));
        asm!("ltr {:x}", in(reg) TSS_SELECTOR, options(nostack));
    }
}

unsafe fn set_control_registers() {
    const CR0: u64 = 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1; // PG WP NE ET MP PE
    let found = features::get();
    let mut cr4: u64 = 1 << 5 | 1 << 6 | 1 << 9 | 1 << 10; // PAE MCE OSFXSR OSXMMEXCPT
    for (have, bit) in [
        // PGE: nothing of the kernel is remembered where a program runs on other tables.
        (!measures().isolate_tables(), 7),
        (found.umip(), 11),
        (found.fsgsbase(), 16),
        (found.xsave(), 18),
        (found.smep(), 20),
        (found.smap(), 21),
    ] {
        cr4 |= u64::from(have) << bit;
    }
    // SAFETY: every bit is one that the processor has.
    unsafe {
        asm!("mov cr0, {}", in(reg) CR0, options(nostack));
        asm!("mov cr4, {}", in(reg) cr4, options(nostack));
    }
}
