//! Segment descriptors, task state and control registers of one CPU.
//!
//! *Interface*: `init_this_cpu` on each CPU as it comes up. Selectors are Linux's, so that what a program
//! sees of them is what it expects. Double fault, NMI, machine check and debug exceptions have stacks of
//! their own (IST).

/// Words in a descriptor table: null, unused, kernel code and data, user 32-bit code (unused), user data,
/// user code, unused, task state (two words).
pub(crate) const GDT_WORDS: usize = 10;

/// The 64-bit task state segment.
#[repr(C, packed(4))]
#[allow(missing_docs)]
pub struct Tss {
    reserved0: u32,
    pub rsp0: u64,
    pub rsp1: u64,
    pub rsp2: u64,
    reserved1: u64,
    pub ist: [u64; 7],
    reserved2: u64,
    reserved3: u16,
    pub io_map: u16,
}

const _: () = assert!(size_of::<Tss>() == 104);

impl Tss {
    pub(crate) const fn new() -> Self {
        Tss {
            reserved0: 0,
            rsp0: 0,
            rsp1: 0,
            rsp2: 0,
            reserved1: 0,
            ist: [0; 7],
            reserved2: 0,
            reserved3: 0,
            // Beyond the limit: user mode has no port.
            io_map: size_of::<Tss>() as u16,
        }
    }
}

#[cfg(target_os = "none")]
pub(crate) use bare::*;

#[cfg(target_os = "none")]
mod bare {
    use super::*;
    use crate::cpu::{self, Cpu};
    use crate::features;
    use crate::mitigate::measures;
    use crate::paging::{self, MachineStack};
    use crate::trap::{self, KERNEL_CS, USER_CS, isolated};
    use core::arch::asm;
    use core::cell::UnsafeCell;
    use core::sync::atomic::Ordering;

    const TSS_SELECTOR: u16 = 0x40;
    const CODE: u64 = 0x00af_9a00_0000_ffff;
    const DATA: u64 = 0x00cf_9200_0000_ffff;
    const RING3: u64 = 3 << 45;

    const MSR_EFER: u32 = 0xc000_0080;
    const MSR_STAR: u32 = 0xc000_0081;
    const MSR_LSTAR: u32 = 0xc000_0082;
    const MSR_SFMASK: u32 = 0xc000_0084;
    const EFER_SCE: u64 = 1;

    /// A gate of the interrupt descriptor table.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Gate([u64; 2]);

    impl Gate {
        const fn new(entry: usize, ist: u8, ring: u64) -> Gate {
            let entry = entry as u64;
            Gate([
                entry & 0xffff
                    | KERNEL_CS << 16
                    | (ist as u64) << 32
                    | (0x8e | ring << 5) << 40
                    | (entry >> 16 & 0xffff) << 48,
                entry >> 32,
            ])
        }

        fn entry(self) -> usize {
            let [low, high] = self.0;
            (low & 0xffff | (low >> 48) << 16 | high << 32) as usize
        }
    }

    #[repr(align(4096))]
    struct Idt(UnsafeCell<[Gate; 256]>);
    // SAFETY: written at boot, and later one gate at a time by `set_gate`, which orders the two halves.
    unsafe impl Sync for Idt {}
    static IDT: Idt = Idt(UnsafeCell::new([Gate([0; 2]); 256]));

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
            return isolated::link(vector, if entry == stub { 0 } else { entry });
        }
        write_gate(vector, Gate::new(entry, 0, 0));
    }

    /// Where the gate of an interrupt vector leads, if not to its assembled stub.
    pub(crate) fn entry_of(vector: u8) -> Option<usize> {
        if measures().isolate_tables() {
            return isolated::linked(vector);
        }
        // SAFETY: one of the 256 gates, whose lower half, which alone changes, is one aligned word.
        let gate = unsafe {
            IDT.0
                .get()
                .cast::<Gate>()
                .add(usize::from(vector))
                .read_volatile()
        };
        let entry = gate.entry();
        (entry != trap::stub(vector)).then_some(entry)
    }

    fn write_gate(vector: u8, gate: Gate) {
        // SAFETY: one of the 256 gates in the table's page; the upper half never changes once set (every
        // entry is in the top 2 GiB), and the lower is one aligned store.
        paging::patch(gates().start, |page| unsafe {
            let slot = page.cast::<u64>().add(2 * vector as usize);
            slot.add(1).write_volatile(gate.0[1]);
            slot.write_volatile(gate.0[0]);
        });
    }

    /// The physical addresses of the interrupt descriptor table, whose page is read-only once there are
    /// tables.
    pub(crate) fn gates() -> core::ops::Range<usize> {
        let start = IDT.0.get() as usize - paging::window(0);
        start..start + size_of::<Idt>()
    }

    /// Fills the table that all CPUs share.
    pub(crate) fn init_gates() {
        for vector in 0..=255u8 {
            let (ist, ring) = match u64::from(vector) {
                trap::exception::DOUBLE_FAULT => (MachineStack::DoubleFault as u8, 0),
                trap::exception::NMI => (MachineStack::Nmi as u8, 0),
                trap::exception::MACHINE_CHECK => (MachineStack::MachineCheck as u8, 0),
                trap::exception::DEBUG => (MachineStack::Debug as u8, 0),
                trap::exception::BREAKPOINT | trap::exception::OVERFLOW => (0, 3),
                _ => (0, 0),
            };
            write_gate(vector, Gate::new(trap::stub(vector), ist, ring));
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
            cpu::wrmsr(MSR_SFMASK, trap::SFMASK);
            cpu::wrmsr(MSR_EFER, cpu::rdmsr(MSR_EFER) | EFER_SCE);
            cpu.dispatcher
                .store(trap::no_dispatcher(), Ordering::Relaxed);
            set_syscall_entry(cpu, trap::static_syscall_entry(cpu.number()));
        }
        crate::fpu::init_this_cpu();
        crate::mitigate::init_this_cpu();
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
                cpu::wrmsr(MSR_LSTAR, isolated::syscall_entry(cpu.number()) as u64);
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
            let mut table = IDT.0.get() as usize;
            let (mut at, mut gdt) = (tss as u64, cpu.gdt.get());
            if measures().isolate_tables() {
                let page = isolated::prepare(cpu);
                (at, gdt) = (page.tss.get() as u64, page.gdt.get());
                table = isolated::alias(table);
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
                ss = in(reg) trap::KERNEL_SS,
                zero = in(reg) 0u64,
                scratch = out(reg) _,
            );
            let pointer = Pointer {
                limit: size_of::<[Gate; 256]>() as u16 - 1,
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
}
