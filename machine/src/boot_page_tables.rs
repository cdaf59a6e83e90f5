//! The kernel's own page tables: built at boot, at addresses that KASLR draws by lot.
//!
//! *Interface*: [`randomize`], then [`build`], once each by the boot CPU. `paging.rs` says where things are
//! from then on. Kernel text is readable and executable, its constants and the interrupt descriptor table
//! readable, everything else writable and never executable; no other address leads to text, constants or
//! table with the right to write.
//! Source: docs/architecture.md, "Addresses".

use core::arch::asm;
use core::sync::atomic::Ordering;

use abi::layout::{
    GATE, MMIO, PAGE, PATCH_LEN, PATCHES, STACK_SIZE, STACK_SLOT, STACKS_LEN, page_ceil, page_floor,
};

use crate::boot::{self, EarlyFrames, MemoryRegion};
use crate::cpu::{self, MSR_EFER, StackBase};
use crate::paging::bits::*;
use crate::paging::{
    self, FIRST_STACK, GATE_ENTRY, MAP, MachineStack, ROOT, SLEEP_REGISTER_PAGE, efer_no_execute,
    image, kernel_root, machine_stack, phys_to_virt, window, window_len,
};
use crate::trap::pti;
use crate::{apic, features, idt, ioapic, mitigate, power, random};

const LARGE_PAGE: usize = 2 << 20;
const HUGE_PAGE: usize = 1 << 30;

struct Tables<'a> {
    root: usize,
    frames: &'a mut EarlyFrames,
    no_execute: u64,
}

impl Tables<'_> {
    fn entry(&mut self, address: usize, level: u32) -> *mut u64 {
        let mut table = self.root;
        let mut at = 3;
        loop {
            let index = address >> (12 + 9 * at) & 511;
            let entry = (phys_to_virt(table) as *mut u64).wrapping_add(index);
            if at == level {
                return entry;
            }
            // SAFETY: `table` is one of the tables being built, in the direct map.
            unsafe {
                if *entry & PRESENT == 0 {
                    *entry = self.frames.frame() as u64 | PRESENT | WRITE | ACCESSED;
                }
                table = (*entry & ADDRESS) as usize;
            }
            at -= 1;
        }
    }

    /// Maps the small pages of the large one at `physical` from `address` on, each with its `rights`.
    fn map_small(&mut self, address: usize, physical: usize, rights: impl Fn(&Self, usize) -> u64) {
        let mut entry = self.entry(address, 0);
        for at in (physical..physical + LARGE_PAGE).step_by(PAGE) {
            let rights = rights(self, at) | PRESENT | ACCESSED | DIRTY;
            // SAFETY: the large page begins where a table does, and there are as many small ones in it as
            // slots in that.
            unsafe { *entry = at as u64 | rights };
            entry = entry.wrapping_add(1);
        }
    }

    fn map(&mut self, address: usize, physical: usize, level: u32, flags: u64) {
        let large = if level > 0 { LARGE } else { 0 };
        let entry = self.entry(address, level);
        // SAFETY: `entry` returns a valid slot of the tables being built.
        unsafe { *entry = physical as u64 | flags | large | PRESENT | ACCESSED | DIRTY };
    }

    fn data(&self) -> u64 {
        WRITE | GLOBAL | self.no_execute
    }

    /// Whether the page at `at` holds something that is only read.
    fn is_constant(at: usize) -> bool {
        let [start, _, constants, _] = image();
        let gates = idt::place();
        (start..constants).contains(&at) || (gates.start..gates.end).contains(&at)
    }

    /// The rights to the page at `at` by any address but that of the image itself.
    fn aside(&self, at: usize) -> u64 {
        if Self::is_constant(at) {
            GLOBAL | self.no_execute
        } else {
            self.data()
        }
    }

    fn map_direct(&mut self, region: &MemoryRegion) {
        let data = self.data();
        let [start, .., end] = image();
        let mut at = region.start & !(LARGE_PAGE - 1);
        while at < region.end() {
            let image_in = |len| at < end && start < at + len;
            let whole = at.is_multiple_of(HUGE_PAGE) && at + HUGE_PAGE <= region.end();
            if whole && features::get().gb_pages() && !image_in(HUGE_PAGE) {
                self.map(phys_to_virt(at), at, 2, data);
                at += HUGE_PAGE;
                continue;
            }
            if image_in(LARGE_PAGE) {
                self.map_small(phys_to_virt(at), at, Self::aside);
            } else {
                self.map(phys_to_virt(at), at, 1, data);
            }
            at += LARGE_PAGE;
        }
    }

    fn map_window(&mut self, top: usize) {
        let data = self.data();
        let [start, text, _, end] = image();
        let small_end = end.next_multiple_of(LARGE_PAGE);
        for at in (0..small_end).step_by(LARGE_PAGE) {
            self.map_small(window(at), at, |tables, at| match at {
                _ if (start..text).contains(&at) => GLOBAL,
                _ => tables.aside(at),
            });
        }
        for at in (small_end..top.min(window_len())).step_by(LARGE_PAGE) {
            self.map(window(at), at, 1, data);
        }
    }

    fn map_stacks(&mut self, cpus: usize) {
        let data = self.data();
        for cpu in 0..cpus {
            for stack in MachineStack::ALL {
                // Interrupt stacks carry at most the panic report.
                let size = if stack == MachineStack::Boot {
                    STACK_SIZE
                } else {
                    STACK_SIZE / 2
                };
                let base = machine_stack(cpu, stack);
                let end = base + StackBase::SIZE;
                for at in (end - size..end).step_by(PAGE) {
                    let frame = self.frames.frame();
                    self.map(at, frame, 0, data);
                    if at + PAGE == end {
                        let base = phys_to_virt(frame) + PAGE - StackBase::SIZE;
                        // SAFETY: the frame has just been taken, and ends in the base.
                        let base = unsafe { &*(base as *const StackBase) };
                        base.cpu.store(
                            core::ptr::from_ref(cpu::cpu(cpu)).cast_mut(),
                            Ordering::Relaxed,
                        );
                        let fault = crate::trap::no_program as *const () as usize;
                        base.fault.store(fault, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    /// The leaf table of each processor's part of `PATCHES`.
    fn make_patches(&mut self, cpus: usize) {
        for cpu in 0..cpus {
            let first = self.entry(PATCHES + cpu * PATCH_LEN, 0);
            let flags = self.data() | PRESENT | ACCESSED | DIRTY;
            paging::set_patch(cpu, first.cast(), random::u64(), flags);
        }
    }

    /// The gates, which a root of programs has too: builds its upper half.
    fn map_gates(&mut self) {
        let data_only = self.no_execute;
        let kernel = self.root;
        let second = self.frames.frame();
        for part in pti::pages() {
            let execute = if part.execute { 0 } else { data_only };
            self.map(part.address, part.physical, 0, part.rights | execute);
            if part.both {
                self.root = second;
                self.map(part.address, part.physical, 0, part.rights | execute);
                self.root = kernel;
            }
        }
        self.root = second;
        // SAFETY: the entry is that of a table being built.
        let entry = unsafe { *self.entry(GATE, 3) };
        self.root = kernel;
        GATE_ENTRY.store(entry, Ordering::Relaxed);
    }

    fn map_device(&mut self, address: usize, physical: usize) {
        let flags = self.data() | NO_CACHE | WRITE_THROUGH;
        self.map(address, physical, 0, flags);
    }
}

/// Draws by lot where all memory is mapped and where stacks begin, unless the command line says
/// `nokaslr`. On the temporary tables, which then have memory there as well; whoever has an address in
/// the map asks for it again.
pub(crate) fn randomize() {
    const GIB: usize = 1 << 30;
    unsafe extern "C" {
        static mut boot_pml4: [u64; 512];
        static mut boot_pdpt_low: [u64; 512];
        static mut boot_pdpt_map: [u64; 512];
    }
    let mut words = boot::info().cmdline.split_ascii_whitespace();
    if words.any(|word| word == "nokaslr") {
        return;
    }
    let lot = random::u64() as usize;
    FIRST_STACK.store(lot % (STACKS_LEN / STACK_SLOT), Ordering::Relaxed);
    let memory = boot::memory().iter().filter(|r| r.kind.is_memory());
    let top = memory.map(MemoryRegion::end).max().unwrap_or(0);
    // The temporary tables show four.
    let needed = top.div_ceil(GIB).max(4);
    let Some(room) = 512usize.checked_sub(needed) else {
        return;
    };
    let slot = 256 + (lot >> 16) % 255;
    let first = (lot >> 32) % (room + 1);
    // SAFETY: the boot CPU alone runs, on these tables; the entries are not in use yet, or lead to the
    // same memory as before.
    unsafe {
        boot_pdpt_map[first..first + 4].copy_from_slice(&boot_pdpt_low[..4]);
        let table = &raw const boot_pdpt_map as usize - window(0);
        boot_pml4[slot] = (table as u64) | PRESENT | WRITE;
        asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack));
    }
    let top_half = usize::MAX << 47;
    MAP.store(top_half | slot << 39 | first << 30, Ordering::Relaxed);
}

/// Builds the kernel's page tables with frames from `frames` and loads them. The temporary tables, which
/// cover 4 GiB at `PHYS_MAP`, are in force until then.
pub(crate) fn build(frames: &mut EarlyFrames, local_apic: usize, io_apics: &[usize]) {
    let root = frames.frame();
    let no_execute = if features::get().nx() { NO_EXECUTE } else { 0 };
    let mut tables = Tables {
        root,
        frames,
        no_execute,
    };
    let mut top = 0;
    for region in boot::memory() {
        if region.kind.is_memory() {
            tables.map_direct(region);
            if region.kind == boot::MemoryKind::Usable {
                top = top.max(region.end());
            }
        }
    }
    // The first MiB: trampoline, firmware tables.
    tables.map_direct(&MemoryRegion {
        start: 0,
        len: 1 << 20,
        kind: boot::MemoryKind::Reserved,
    });
    tables.map_window(top);
    tables.map_stacks(cpu::present());
    tables.make_patches(cpu::present());
    if mitigate::measures().isolate_tables() {
        tables.map_gates();
    }
    tables.map_device(MMIO, page_floor(local_apic));
    for (i, &registers) in io_apics.iter().enumerate() {
        tables.map_device(ioapic::registers(i), page_floor(registers));
    }
    if let Some(register) = power::sleep_register() {
        tables.map_device(SLEEP_REGISTER_PAGE, page_floor(register));
    }
    ROOT.store(root, Ordering::Relaxed);
    debug_assert!(apic::REGISTERS == MMIO && page_ceil(top).is_some());
    load_kernel_root();
}

fn load_kernel_root() {
    // SAFETY: the bit is one that the processor has; the tables map everything the kernel uses, this
    // code and stack included.
    unsafe {
        cpu::wrmsr(MSR_EFER, cpu::rdmsr(MSR_EFER) | efer_no_execute() as u64);
        asm!("mov cr3, {}", in(reg) kernel_root(), options(nostack));
    }
}
