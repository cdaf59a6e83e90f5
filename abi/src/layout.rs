//! Where things lie in the address space: the contract of docs/architecture.md.
//!
//! *Interface*: constants only; sizes in bytes, addresses canonical.

/// Bytes in a page.
pub const PAGE: usize = 4096;
/// log2 of [`PAGE`].
pub const PAGE_SHIFT: usize = 12;

/// First address that no user mapping may reach; the last page below the
/// canonical hole stays empty, so that no `syscall` can end at the hole.
pub const USER_END: usize = 0x0000_7fff_ffff_f000;
/// Lowest address a user mapping may take: page zero faults, always.
pub const USER_START: usize = 0x1_0000;

/// All physical memory: writable, never executable, large pages.
pub const PHYS_MAP: usize = 0xffff_8000_0000_0000;

/// Physical 0–1 GiB again: kernel image with its own rights, the rest writable and
/// never executable. The heap lives here.
pub const WINDOW: usize = 0xffff_ffff_8000_0000;
/// Length of [`WINDOW`].
pub const WINDOW_LEN: usize = 1 << 30;
/// Where the kernel image is linked.
pub const KERNEL: usize = WINDOW + (1 << 20);

/// Nothing is ever mapped from here on, as far as the largest array of a file's pages would reach (128 MiB):
/// routines that must not use an array any more find this address instead, and fault.
pub const NOWHERE: usize = 0xffff_fd00_0000_0000;

/// Generated code: readable and executable; a page of it is writable only in [`PATCHES`], while it is
/// written.
pub const CODE: usize = 0xffff_ffff_c000_0000;
/// Length of [`CODE`].
pub const CODE_LEN: usize = 256 << 20;

/// Kernel stacks, in slots of [`STACK_SLOT`].
pub const STACKS: usize = 0xffff_ffff_d000_0000;
/// Length of [`STACKS`].
pub const STACKS_LEN: usize = 512 << 20;
/// One slot: the lower half unmapped, the upper half a stack.
pub const STACK_SLOT: usize = 32 << 10;
/// The mapped upper half of a slot.
pub const STACK_SIZE: usize = STACK_SLOT / 2;

/// The first slots hold the boot and interrupt stacks of every CPU (`machine` maps them).
pub const MACHINE_STACK_SLOTS: usize = 40;

/// Device registers, uncached.
pub const MMIO: usize = 0xffff_ffff_f000_0000;
/// Length of [`MMIO`].
pub const MMIO_LEN: usize = 128 << 20;
/// The first bytes of [`MMIO`] are the interrupt controllers (`machine` maps them).
pub const MACHINE_MMIO_LEN: usize = 64 << 10;

/// Where each CPU sees, writable, the one page of code that it is writing.
pub const PATCHES: usize = MMIO + MMIO_LEN;
/// Length of a CPU's part of [`PATCHES`]: as many pages as a leaf table has entries.
pub const PATCH_LEN: usize = 2 << 20;

/// Where the gates are that a program's own tables map, if tables are isolated: the image once more, at a
/// fixed place, those few pages of it.
pub const GATE: usize = PATCHES + 8 * PATCH_LEN;
/// Length of [`GATE`]: the image is not longer.
pub const GATE_LEN: usize = 64 << 20;

/// Tables of the kernel whose pages have memory when they are first needed.
pub const SPARSE: usize = GATE + GATE_LEN;
/// Length of [`SPARSE`].
pub const SPARSE_LEN: usize = 32 << 20;

/// Where a procedure that the kernel has called in user mode returns to: never mapped, so that the fetch is
/// an exception.
pub const PROTECTED_RETURN: usize = 0xffff_ffff_ffff_f000;

/// Highest address of a new program's stack.
pub const USER_STACK_TOP: usize = 0x0000_7fff_ff00_0000;
/// Reserved for the stack of the first thread; pages appear when touched.
pub const USER_STACK_LEN: usize = 8 << 20;
/// Where mappings without an address go, growing downwards from here.
pub const USER_MMAP_TOP: usize = 0x0000_7fff_0000_0000;
/// Where position-independent programs are loaded.
pub const USER_PIE_BASE: usize = 0x0000_5555_5555_4000;

/// `address` rounded down to a page.
pub const fn page_floor(address: usize) -> usize {
    address & !(PAGE - 1)
}

/// `address` rounded up to a page; `None` past the top of the address space.
pub const fn page_ceil(address: usize) -> Option<usize> {
    match address.checked_add(PAGE - 1) {
        Some(end) => Some(end & !(PAGE - 1)),
        None => None,
    }
}

/// Bytes of memory that do for a root archive of `len` bytes: its files, what is known of each page, and the
/// kernel with a first program.
pub const fn memory_for_root(len: usize) -> usize {
    len.saturating_add(len / 16).saturating_add(14 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_overlap() {
        let regions = [
            (WINDOW, WINDOW_LEN),
            (CODE, CODE_LEN),
            (STACKS, STACKS_LEN),
            (MMIO, MMIO_LEN),
            (PATCHES, 8 * PATCH_LEN),
            (GATE, GATE_LEN),
            (SPARSE, SPARSE_LEN),
        ];
        for pair in regions.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0);
        }
        assert!(
            SPARSE
                .checked_add(SPARSE_LEN)
                .is_some_and(|end| end < PROTECTED_RETURN)
        );
        const {
            assert!(USER_STACK_TOP < USER_END);
            assert!(USER_MMAP_TOP < USER_STACK_TOP - USER_STACK_LEN);
        }
    }

    #[test]
    fn rounding() {
        assert_eq!(page_floor(0x1fff), 0x1000);
        assert_eq!(page_ceil(0x1001), Some(0x2000));
        assert_eq!(page_ceil(usize::MAX), None);
    }
}
