//! The addresses at which the kernel's own page tables show memory, stacks and the image.
//!
//! *Interface*: [`kernel_root`] for `vm` to copy the upper half from; [`phys_to_virt`], [`window`],
//! [`machine_stack`]. The upper half has two root entries ([`root_slots`]), shared by every address space and
//! never changed; below them `vm` extends [`abi::layout::CODE`], `STACKS` and `MMIO` in place. Read-only
//! pages and generated code are written at what [`open_patch`] opens alone. `boot_page_tables.rs` builds the
//! tables at boot. Source: docs/architecture.md, "Addresses".

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

/// The entry of a second root's upper half; 0 where tables are not isolated.
pub(crate) static GATE_ENTRY: AtomicU64 = AtomicU64::new(0);

/// All that a program's own root has of the upper half: the entry that leads to the gates. `None`: tables are
/// not isolated, and there are no second roots.
pub fn gate_entry() -> Option<(usize, u64)> {
    match GATE_ENTRY.load(Ordering::Relaxed) {
        0 => None,
        entry => Some((GATE >> 39 & 511, entry)),
    }
}

/// Where all memory is mapped: [`PHYS_MAP`] until `randomize`.
pub(crate) static MAP: AtomicUsize = AtomicUsize::new(PHYS_MAP);

/// The slot of `STACKS` that the machine's own stacks begin at.
pub(crate) static FIRST_STACK: AtomicUsize = AtomicUsize::new(0);

/// The kernel's own root table.
pub(crate) static ROOT: AtomicUsize = AtomicUsize::new(0);

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

/// A page that is open for one processor to write it.
pub struct OpenPatch {
    /// Where the page is writable.
    pub at: *mut u8,
    /// The word that maps it there.
    pub word: *const AtomicU64,
    /// The state from [`crate::cpu::irq_save`].
    pub interrupts: usize,
}

/// On a host there are no page tables to open.
///
/// # Safety
/// There is no machine, and it panics.
#[cfg(not(target_os = "none"))]
pub unsafe fn open_patch(_page: usize) -> OpenPatch {
    unreachable!("no machine")
}

/// As [`open_patch`].
///
/// # Safety
/// As there.
#[cfg(not(target_os = "none"))]
pub unsafe fn close_patch(_open: OpenPatch) {
    unreachable!("no machine")
}

#[cfg(target_os = "none")]
mod bare {
    use super::*;
    use crate::{cpu, features};
    use abi::layout::{PATCH_LEN, PATCHES};
    use core::arch::asm;

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

    /// Where the image begins.
    #[inline]
    pub fn image_address() -> usize {
        &raw const __image_start as usize
    }

    /// The accesses that the processor that runs this forbids.
    pub fn guards() -> Guards {
        let (cr0, cr4): (u64, u64);
        // SAFETY: reads registers.
        let efer = unsafe {
            asm!("mov {}, cr0", "mov {}, cr4", out(reg) cr0, out(reg) cr4, options(nomem, nostack, preserves_flags));
            cpu::rdmsr(cpu::MSR_EFER)
        };
        Guards {
            write_protect: cr0 >> 16 & 1 != 0,
            no_execute: efer >> 11 & 1 != 0,
            smep: cr4 >> 20 & 1 != 0,
            smap: cr4 >> 21 & 1 != 0,
            umip: cr4 >> 11 & 1 != 0,
        }
    }

    /// The window of CPU number `cpu`: the words of its leaf table, where it opens first, and the rights
    /// there.
    pub(crate) fn set_patch(cpu: usize, leaves: *mut AtomicU64, place: u64, flags: u64) {
        let own = &cpu::cpu(cpu).patch;
        own.leaves.store(leaves, Ordering::Relaxed);
        own.base.store(PATCHES + cpu * PATCH_LEN, Ordering::Relaxed);
        own.place.store(place, Ordering::Relaxed);
        own.flags.store(flags, Ordering::Relaxed);
    }

    /// Opens the page at physical `page`, which nothing else maps with the right to write, for this
    /// processor, at another place each time.
    ///
    /// # Safety
    /// The caller may write the page, which stays where it is, and closes it soon: interrupts are off until
    /// then. It opens no other one meanwhile.
    #[inline]
    pub unsafe fn open_patch(page: usize) -> OpenPatch {
        const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
        // Bound: the writing of at most one page: a copy, a fill, or the fields of a template.
        let interrupts = cpu::irq_save();
        let own = &cpu::this_cpu().patch;
        // Only this processor changes it, with interrupts off.
        let place = own.place.load(Ordering::Relaxed);
        own.place
            .store(place.wrapping_mul(MULTIPLIER) | 1, Ordering::Relaxed);
        let slot = (place >> 55) as usize;
        // SAFETY: `build` made the table of 512 words, which stays, before there was anything to write.
        let word = unsafe { &*own.leaves.load(Ordering::Relaxed).add(slot) };
        let flags = own.flags.load(Ordering::Relaxed);
        word.store(page as u64 | flags, Ordering::Relaxed);
        let at = own.base.load(Ordering::Relaxed).wrapping_add(slot * PAGE);
        OpenPatch {
            at: at as *mut u8,
            word,
            interrupts,
        }
    }

    /// Closes what [`open_patch`] opened.
    ///
    /// # Safety
    /// It did just now, on this processor, and the caller writes there no more.
    #[inline]
    pub unsafe fn close_patch(open: OpenPatch) {
        // SAFETY: a word of the table that `build` made.
        unsafe { (*open.word).store(0, Ordering::Relaxed) };
        // SAFETY: forgetting is always allowed. Nobody else has looked at this address.
        unsafe { asm!("invlpg [{}]", in(reg) open.at, options(nostack, preserves_flags)) };
        cpu::irq_restore(open.interrupts);
    }

    /// Lets `write` write the page at physical `page`, which nothing else maps with the right to write: it is
    /// given an address at which the page is writable meanwhile, on this processor, at another place each
    /// time. Interrupts are off in `write`, which is short.
    pub fn patch<R>(page: usize, write: impl FnOnce(*mut u8) -> R) -> R {
        // SAFETY: `write` is over when it is closed.
        unsafe {
            let open = open_patch(page);
            let result = write(open.at);
            close_patch(open);
            result
        }
    }

    /// The bit of EFER that turns no-execute on, where the processor has it.
    pub(crate) fn efer_no_execute() -> usize {
        usize::from(features::get().nx()) << 11
    }
}
