//! The kernel's own page tables, as built at boot.
//!
//! *Interface*: [`kernel_root`] for `vm` to copy the upper half from; [`phys_to_virt`], [`window`],
//! [`machine_stack`]. The upper half has two root entries ([`root_slots`]), shared by every address space and
//! never changed; below them `vm` extends [`abi::layout::CODE`], `STACKS` and `MMIO` in place. Kernel text is
//! readable and executable, its constants and the interrupt descriptor table readable, everything else
//! writable and never executable; no other address leads to text, constants or table with the right to write.
//! Read-only pages and generated code are written by [`patch`] alone.
//! Source: docs/architecture.md, "Addresses".

use abi::layout::{GATE, PAGE, PHYS_MAP, STACK_SLOT, STACKS, STACKS_LEN, WINDOW, WINDOW_LEN};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::cpu::StackBase;

/// Page-table entry bits (AMD64 Architecture Programmer's Manual, volume 2, section 5.4).
pub mod bits {
    /// The entry maps something.
    pub const PRESENT: u64 = 1;
    /// Writable.
    pub const WRITE: u64 = 1 << 1;
    /// Accessible to programs.
    pub const USER: u64 = 1 << 2;
    /// Write-through.
    pub const WRITE_THROUGH: u64 = 1 << 3;
    /// Not cached.
    pub const NO_CACHE: u64 = 1 << 4;
    /// Has been accessed. Always set here, so that the CPU never writes a table by itself.
    pub const ACCESSED: u64 = 1 << 5;
    /// Has been written. Always set here, for the same reason.
    pub const DIRTY: u64 = 1 << 6;
    /// A large page (levels 2 and 3).
    pub const LARGE: u64 = 1 << 7;
    /// Stays when CR3 is loaded (with CR4.PGE).
    pub const GLOBAL: u64 = 1 << 8;
    /// Never executable.
    pub const NO_EXECUTE: u64 = 1 << 63;
    /// The frame's or table's address.
    pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
}

/// The root entries of the upper half: that of the map of all memory, and the top 512 GiB.
pub fn root_slots() -> [usize; 2] {
    [phys_to_virt(0) >> 39 & 511, 511]
}

/// Memory ends below this power of two: bits above it in an entry that maps nothing keep a processor with the
/// L1TF defect from what the entry names.
pub const ADDRESS_BITS: u32 = 43;

/// Where in a root the physical address of the space's second one is, for tables that are isolated: an entry
/// that maps nothing, with bits above [`ADDRESS_BITS`].
pub fn second_at() -> usize {
    let first = if root_slots()[0] == 256 { 257 } else { 256 };
    8 * first
}

/// The physical address of the second root of the space with `root`; 0: it has none.
///
/// # Safety
/// `root` is a top table.
pub unsafe fn second_root(root: usize) -> usize {
    let word = phys_to_virt(root + second_at()) as *const AtomicUsize;
    // SAFETY: the caller's promise; the direct map covers it.
    unsafe { (*word).load(Ordering::Relaxed) & ((1 << ADDRESS_BITS) - 1) }
}

/// The entry of a second root's upper half and its index; 0 where tables are not isolated.
static GATE_ENTRY: AtomicU64 = AtomicU64::new(0);

/// All that a program's own root has of the upper half: the entry that leads to the gates. `None`: tables are
/// not isolated, and there are no second roots.
pub fn gate_entry() -> Option<(usize, u64)> {
    match GATE_ENTRY.load(Ordering::Relaxed) {
        0 => None,
        entry => Some((GATE >> 39 & 511, entry)),
    }
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

/// Where all memory is mapped: [`PHYS_MAP`] until `randomize`.
static MAP: AtomicUsize = AtomicUsize::new(PHYS_MAP);

/// The slot of `STACKS` that the machine's own stacks begin at.
static FIRST_STACK: AtomicUsize = AtomicUsize::new(0);

static ROOT: AtomicUsize = AtomicUsize::new(0);

/// Physical address of the kernel's own root table: upper half only.
pub fn kernel_root() -> usize {
    ROOT.load(Ordering::Relaxed)
}

/// Whether addresses are drawn by lot.
pub fn randomized() -> bool {
    MAP.load(Ordering::Relaxed) != PHYS_MAP
}

/// The address in the direct map of physical `address`.
#[inline]
pub fn phys_to_virt(address: usize) -> usize {
    // All memory is mapped from there on, and the map does not wrap.
    MAP.load(Ordering::Relaxed).wrapping_add(address)
}

/// The address in the window of physical `address`, which must be below 1 GiB.
#[inline]
pub fn window(address: usize) -> usize {
    debug_assert!(address < window_len());
    #[cfg(target_os = "none")]
    {
        // The linker's word for it, which has moved with the image: never below where it was linked.
        image_address().wrapping_sub(IMAGE).wrapping_add(address)
    }
    #[cfg(not(target_os = "none"))]
    {
        WINDOW + address
    }
}

/// Where the image lies in memory.
const IMAGE: usize = abi::layout::KERNEL - WINDOW;

/// How far the window has moved up from where it is linked (`slide`).
#[inline]
pub fn distance() -> usize {
    window(0) - WINDOW
}

/// The bytes of memory that the window shows at most.
#[inline]
pub fn window_len() -> usize {
    #[cfg(target_os = "none")]
    {
        WINDOW_LEN - (image_address() - abi::layout::KERNEL)
    }
    #[cfg(not(target_os = "none"))]
    {
        WINDOW_LEN
    }
}

/// The stacks that every CPU has from boot on. The numbers of all but the first are their IST numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum MachineStack {
    /// Runs `kernel_main` or the entry of `start_others`.
    Boot = 0,
    /// For double faults.
    DoubleFault = 1,
    /// For NMIs.
    Nmi = 2,
    /// For machine checks.
    MachineCheck = 3,
    /// Where debug exceptions begin: they come at any instruction of the kernel's, also before it has a
    /// stack.
    Debug = 4,
}

impl MachineStack {
    /// All of them.
    pub const ALL: [MachineStack; 5] = [
        MachineStack::Boot,
        MachineStack::DoubleFault,
        MachineStack::Nmi,
        MachineStack::MachineCheck,
        MachineStack::Debug,
    ];

    /// Those that interrupts begin on.
    pub(crate) fn of_interrupts() -> impl Iterator<Item = MachineStack> {
        Self::ALL
            .into_iter()
            .filter(|stack| *stack != MachineStack::Boot)
    }
}

/// Address of the [`StackBase`] of a machine stack of CPU number `cpu`; the stack grows down from it.
pub fn machine_stack(cpu: usize, stack: MachineStack) -> usize {
    stack_slot(cpu * MachineStack::ALL.len() + stack as usize) + STACK_SLOT - StackBase::SIZE
}

/// The address of the `number`th slot for stacks. The machine's come first; where the first lies is drawn by
/// lot, and behind the last slot of the region comes its first.
pub fn stack_slot(number: usize) -> usize {
    let slot = (FIRST_STACK.load(Ordering::Relaxed) + number) % (STACKS_LEN / STACK_SLOT);
    STACKS + slot * STACK_SLOT
}

/// Where the page of the firmware's sleep register is mapped, on machines that have one in memory.
pub(crate) const SLEEP_REGISTER_PAGE: usize = abi::layout::MMIO + 15 * PAGE;

const _: () =
    assert!(SLEEP_REGISTER_PAGE + PAGE == abi::layout::MMIO + abi::layout::MACHINE_MMIO_LEN);
const _: () =
    assert!(crate::cpu::MAX_CPUS * MachineStack::ALL.len() <= abi::layout::MACHINE_STACK_SLOTS);
const _: () = assert!(WINDOW & (PAGE - 1) == 0);

#[cfg(target_os = "none")]
pub use bare::*;

/// The accesses that this processor forbids, by its control registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guards {
    /// The kernel cannot write what is read-only (CR0.WP).
    pub write_protect: bool,
    /// No-execute (EFER.NXE).
    pub no_execute: bool,
    /// The kernel does not execute programs' pages (CR4.SMEP).
    pub smep: bool,
    /// The kernel reaches programs' pages between `stac` and `clac` only (CR4.SMAP).
    pub smap: bool,
    /// Programs do not read descriptor table registers (CR4.UMIP).
    pub umip: bool,
}

impl Guards {
    /// Names of those that are on.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            ("wp", self.write_protect),
            ("nx", self.no_execute),
            ("smep", self.smep),
            ("smap", self.smap),
            ("umip", self.umip),
        ]
        .into_iter()
        .filter_map(|(name, on)| on.then_some(name))
    }
}

/// On a host there are no gates.
#[cfg(not(target_os = "none"))]
pub fn gate_pages() -> impl Iterator<Item = GatePage> {
    core::iter::empty()
}

/// On a host there is no image.
#[cfg(not(target_os = "none"))]
pub fn image_address() -> usize {
    0
}

/// A host forbids what it likes.
#[cfg(not(target_os = "none"))]
pub fn guards() -> Guards {
    Guards {
        write_protect: true,
        no_execute: true,
        smep: true,
        smap: true,
        umip: true,
    }
}

/// On a host there are no page tables to open.
#[cfg(not(target_os = "none"))]
pub fn patch<R>(_page: usize, _write: impl FnOnce(*mut u8) -> R) -> R {
    unreachable!("no machine")
}

#[cfg(target_os = "none")]
mod bare {
    use super::*;
    use crate::boot::{self, Region};
    use crate::trap::isolated;
    use crate::{apic, cpu, features, ioapic, mitigate, power, random, segments};
    use abi::layout::{MMIO, PATCH_LEN, PATCHES, STACK_SIZE, page_ceil, page_floor};
    use bits::*;
    use core::arch::asm;
    use core::sync::atomic::AtomicPtr;

    const LARGE_PAGE: usize = 2 << 20;
    const HUGE_PAGE: usize = 1 << 30;
    const MSR_EFER: u32 = 0xc000_0080;

    unsafe extern "C" {
        static __image_start: [u8; 0];
        static __text_end: [u8; 0];
        static __rodata_end: [u8; 0];
        static __image_end: [u8; 0];
    }

    /// The physical addresses that bound the image's parts: start, end of text, end of constants, end.
    pub(crate) fn image() -> [usize; 4] {
        [
            &raw const __image_start,
            &raw const __text_end,
            &raw const __rodata_end,
            &raw const __image_end,
        ]
        .map(|symbol| symbol as usize - window(0))
    }

    /// The pages that programs' own roots map of the kernel.
    pub fn gate_pages() -> impl Iterator<Item = GatePage> {
        isolated::pages()
            .filter(|part| part.both)
            .map(|part| GatePage {
                address: part.address,
                physical: part.physical as u64,
                write: part.rights & WRITE != 0,
                execute: part.execute,
            })
    }

    /// Where the image begins.
    #[inline]
    pub fn image_address() -> usize {
        &raw const __image_start as usize
    }

    /// Hands out zeroed frames from the memory after the image, before there is a frame allocator.
    pub(crate) struct EarlyFrames {
        pub next: usize,
        pub end: usize,
    }

    impl EarlyFrames {
        fn frame(&mut self) -> usize {
            assert!(
                self.next + PAGE <= self.end,
                "not enough memory for the first page tables"
            );
            let frame = self.next;
            self.next += PAGE;
            // SAFETY: the frame is usable memory that nobody has; the direct map covers it.
            unsafe { (phys_to_virt(frame) as *mut u8).write_bytes(0, PAGE) };
            frame
        }
    }

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
        fn map_small(
            &mut self,
            address: usize,
            physical: usize,
            rights: impl Fn(&Self, usize) -> u64,
        ) {
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
            let gates = segments::gates();
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

        fn map_direct(&mut self, region: &Region) {
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
                        }
                    }
                }
            }
        }

        /// The leaf table of each processor's part of `PATCHES`.
        fn make_patches(&mut self, cpus: usize) {
            for (cpu, patch) in PATCH.iter().enumerate().take(cpus) {
                let first = self.entry(PATCHES + cpu * PATCH_LEN, 0);
                patch.leaves.store(first.cast(), Ordering::Relaxed);
                patch.place.store(random::u64(), Ordering::Relaxed);
                let flags = self.data() | PRESENT | ACCESSED | DIRTY;
                patch.flags.store(flags, Ordering::Relaxed);
            }
        }

        /// The gates, which a root of programs has too: builds its upper half.
        fn map_gates(&mut self) {
            let data_only = self.no_execute;
            let kernel = self.root;
            let second = self.frames.frame();
            for part in isolated::pages() {
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

    /// The accesses that the processor that runs this forbids.
    pub fn guards() -> Guards {
        let (cr0, cr4): (u64, u64);
        // SAFETY: reads registers.
        let efer = unsafe {
            asm!("mov {}, cr0", "mov {}, cr4", out(reg) cr0, out(reg) cr4, options(nomem, nostack, preserves_flags));
            cpu::rdmsr(MSR_EFER)
        };
        Guards {
            write_protect: cr0 >> 16 & 1 != 0,
            no_execute: efer >> 11 & 1 != 0,
            smep: cr4 >> 20 & 1 != 0,
            smap: cr4 >> 21 & 1 != 0,
            umip: cr4 >> 11 & 1 != 0,
        }
    }

    /// One processor's window for writing what is read-only.
    struct Patch {
        /// The words of its leaf table.
        leaves: AtomicPtr<AtomicU64>,
        /// Where it opens next: a number that nobody else knows.
        place: AtomicU64,
        /// The rights of a page of data.
        flags: AtomicU64,
    }

    static PATCH: [Patch; cpu::MAX_CPUS] = [const {
        Patch {
            leaves: AtomicPtr::new(core::ptr::null_mut()),
            place: AtomicU64::new(0),
            flags: AtomicU64::new(0),
        }
    }; cpu::MAX_CPUS];

    /// Lets `write` write the page at physical `page`, which nothing else maps with the right to write: it is
    /// given an address at which the page is writable meanwhile, on this processor, at another place each
    /// time. Interrupts are off in `write`, which is short.
    pub fn patch<R>(page: usize, write: impl FnOnce(*mut u8) -> R) -> R {
        const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
        // Bound: the writing of at most one page: a copy, a fill, or the fields of a template.
        let state = cpu::irq_save();
        let number = cpu::this_cpu().number();
        let own = &PATCH[number];
        // Only this processor changes it, with interrupts off.
        let place = own.place.load(Ordering::Relaxed);
        own.place
            .store(place.wrapping_mul(MULTIPLIER) | 1, Ordering::Relaxed);
        let slot = (place >> 55) as usize;
        // SAFETY: `build` made the table of 512 words, which stays, before there was anything to write.
        let word = unsafe { &*own.leaves.load(Ordering::Relaxed).add(slot) };
        let flags = own.flags.load(Ordering::Relaxed);
        word.store(page as u64 | flags, Ordering::Relaxed);
        let at = PATCHES + number * PATCH_LEN + slot * PAGE;
        let result = write(at as *mut u8);
        word.store(0, Ordering::Relaxed);
        // SAFETY: forgetting is always allowed. Nobody else has looked at this address.
        unsafe { asm!("invlpg [{}]", in(reg) at, options(nostack, preserves_flags)) };
        cpu::irq_restore(state);
        result
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
        let top = memory.map(Region::end).max().unwrap_or(0);
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
                if region.kind == boot::Kind::Usable {
                    top = top.max(region.end());
                }
            }
        }
        // The first MiB: trampoline, firmware tables.
        tables.map_direct(&Region {
            start: 0,
            len: 1 << 20,
            kind: boot::Kind::Reserved,
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

    /// The bit of EFER that turns no-execute on, where the processor has it.
    pub(crate) fn efer_no_execute() -> usize {
        usize::from(features::get().nx()) << 11
    }

    fn load_kernel_root() {
        // SAFETY: the bit is one that the processor has; the tables map everything the kernel uses, this
        // code and stack included.
        unsafe {
            cpu::wrmsr(MSR_EFER, cpu::rdmsr(MSR_EFER) | efer_no_execute() as u64);
            asm!("mov cr3, {}", in(reg) kernel_root(), options(nostack));
        }
    }
}
