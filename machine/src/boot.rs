//! The loader's information: memory, initrd, command line.
//!
//! *Interface*: [`info`]. The loader speaks PVH (`hvm_start_info`, version 1): QEMU's `-kernel` on q35 and
//! microvm. Strings and lists are copied out of the loader's memory first; the initrd is
//! left where it is and kept out of the free regions.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The kind of a range of physical addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemoryKind {
    /// Free memory.
    Usable,
    /// Not to be touched.
    #[default]
    Reserved,
    /// Holds ACPI tables.
    Acpi,
}

impl MemoryKind {
    pub(crate) fn is_memory(self) -> bool {
        self != MemoryKind::Reserved
    }
}

/// A range of physical addresses; in [`BootInfo::regions`] page-aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryRegion {
    /// First address.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
    /// Its kind.
    pub kind: MemoryKind,
}

impl MemoryRegion {
    /// First address behind it.
    pub const fn end(&self) -> usize {
        self.start.saturating_add(self.len)
    }
}

const MAX_REGIONS: usize = 32;
const MAX_COMMAND_LINE: usize = 2048;

/// The firmware's own memory, though its map may call it free: interrupt vectors and data of real mode, the
/// word through which another processor starts, and its trampoline. Firmware that is known to write to free
/// memory later does so here.
const FIRMWARE_LEN: usize = 64 << 10;
/// From the last page that the firmware's extended data may begin in, over the screen and its own code, to
/// the end of the first MiB.
const HOLE: MemoryRegion = MemoryRegion {
    start: 0x9_f000,
    len: (1 << 20) - 0x9_f000,
    kind: MemoryKind::Reserved,
};

/// The part of the loader's information that the rest of the kernel may know.
pub struct BootInfo {
    /// Free memory: whole pages that nobody has, ascending. The firmware's part of the first MiB, the image,
    /// the initrd and what the machine room has taken are left out.
    pub regions: &'static [MemoryRegion],
    /// All memory that the firmware names, ascending, for `/proc/iomem` and the like.
    pub memory: &'static [MemoryRegion],
    /// The initial root archive; empty when there is none. Later, the part that [`release_initrd`] leaves.
    pub initrd: &'static [u8],
    /// Physical address of the archive.
    pub initrd_phys: usize,
    /// The kernel's command line.
    pub cmdline: &'static str,
    /// Physical address of the ACPI root pointer; 0: none.
    pub rsdp: usize,
}

struct State {
    memory: [MemoryRegion; MAX_REGIONS],
    memory_count: usize,
    free: [MemoryRegion; MAX_REGIONS],
    free_count: usize,
    command_line: [u8; MAX_COMMAND_LINE],
    command_line_len: usize,
    initrd: MemoryRegion,
    rsdp: usize,
}

struct Shared(UnsafeCell<State>);
// SAFETY: written by the boot CPU before any other code runs, only read afterwards.
unsafe impl Sync for Shared {}

static STATE: Shared = Shared(UnsafeCell::new(State {
    memory: [MemoryRegion {
        start: 0,
        len: 0,
        kind: MemoryKind::Reserved,
    }; MAX_REGIONS],
    memory_count: 0,
    free: [MemoryRegion {
        start: 0,
        len: 0,
        kind: MemoryKind::Reserved,
    }; MAX_REGIONS],
    free_count: 0,
    command_line: [0; MAX_COMMAND_LINE],
    command_line_len: 0,
    initrd: MemoryRegion {
        start: 0,
        len: 0,
        kind: MemoryKind::Reserved,
    },
    rsdp: 0,
}));

/// Bytes of the archive that nobody may read any more.
static RELEASED: AtomicUsize = AtomicUsize::new(0);

fn state() -> &'static State {
    // SAFETY: only read after `init` and `finish`, which nothing runs beside.
    unsafe { &*STATE.0.get() }
}

pub(crate) fn memory() -> &'static [MemoryRegion] {
    &state().memory[..state().memory_count]
}

/// The information that the loader handed over.
pub fn info() -> BootInfo {
    let state = state();
    let initrd = match state.initrd.len - RELEASED.load(Ordering::Relaxed) {
        0 => &[][..],
        // SAFETY: the loader put the archive there, `finish` keeps the memory from everybody else, and the
        // direct map covers it.
        len => unsafe {
            core::slice::from_raw_parts(
                crate::paging::phys_to_virt(state.initrd.start) as *const u8,
                len,
            )
        },
    };
    BootInfo {
        regions: &state.free[..state.free_count],
        memory: memory(),
        initrd,
        initrd_phys: state.initrd.start,
        cmdline: core::str::from_utf8(&state.command_line[..state.command_line_len]).unwrap_or(""),
        rsdp: state.rsdp,
    }
}

/// Gives up the archive, except for the first `keep` bytes. Returns its whole pages behind them: free as soon
/// as nobody reads them by what [`info`] has said before. Once.
pub fn release_initrd(keep: usize) -> MemoryRegion {
    let initrd = state().initrd;
    let start = (initrd.start + keep).next_multiple_of(PAGE);
    let end = initrd.end() & !(PAGE - 1);
    if start >= end || RELEASED.load(Ordering::Relaxed) != 0 {
        return MemoryRegion::default();
    }
    RELEASED.store(initrd.len - keep, Ordering::Relaxed);
    MemoryRegion {
        start,
        len: end - start,
        kind: MemoryKind::Usable,
    }
}

/// Free memory: `memory` without `taken`, in whole pages, ascending.
fn subtract(memory: &[MemoryRegion], taken: &[MemoryRegion], out: &mut [MemoryRegion]) -> usize {
    let mut count = 0;
    for region in memory.iter().filter(|r| r.kind == MemoryKind::Usable) {
        let mut at = region.start.next_multiple_of(PAGE);
        let end = region.end() & !(PAGE - 1);
        while at < end {
            // The taken range that covers `at`, or the nearest one above.
            let covering = taken
                .iter()
                .find(|t| t.len > 0 && t.start <= at && at < t.end());
            if let Some(covering) = covering {
                at = covering.end().next_multiple_of(PAGE);
                continue;
            }
            let stop = taken
                .iter()
                .filter(|t| t.len > 0 && t.start > at)
                .map(|t| t.start & !(PAGE - 1))
                .fold(end, usize::min);
            if stop > at && count < out.len() {
                out[count] = MemoryRegion {
                    start: at,
                    len: stop - at,
                    kind: MemoryKind::Usable,
                };
                count += 1;
            }
            at = stop.max(at + PAGE);
        }
    }
    count
}

const PAGE: usize = abi::layout::PAGE;

#[cfg(target_os = "none")]
pub(crate) use bare::*;

#[cfg(target_os = "none")]
mod bare {
    use super::*;
    use crate::paging::{self, phys_to_virt};

    /// `struct hvm_start_info` (Xen, public/arch-x86/hvm/start_info.h).
    #[repr(C)]
    struct StartInfo {
        magic: u32,
        version: u32,
        flags: u32,
        modules: u32,
        modules_at: u64,
        command_line: u64,
        rsdp: u64,
        memory_map: u64,
        memory_map_entries: u32,
        reserved: u32,
    }

    #[repr(C)]
    struct Module {
        start: u64,
        len: u64,
        command_line: u64,
        reserved: u64,
    }

    #[repr(C)]
    struct MapEntry {
        start: u64,
        len: u64,
        kind: u32,
        reserved: u32,
    }

    const MAGIC: u32 = 0x336e_c578;

    /// Command line, initrd and the end of memory, for who may keep nothing: from the loader's structures at
    /// physical `at`, which [`init`] reads in earnest later.
    ///
    /// # Safety
    /// `at` is what the loader passed, on the temporary tables.
    pub(crate) unsafe fn glance(at: usize) -> (&'static [u8], MemoryRegion, usize) {
        // SAFETY: the caller's promise; the temporary tables map 4 GiB.
        unsafe {
            let start = &*(phys_to_virt(at) as *const StartInfo);
            let mut initrd = MemoryRegion::default();
            if start.modules > 0 {
                let module = &*(phys_to_virt(start.modules_at as usize) as *const Module);
                initrd.start = module.start as usize;
                initrd.len = module.len as usize;
            }
            let mut line: &[u8] = &[];
            if start.command_line != 0 {
                let text = phys_to_virt(start.command_line as usize) as *const u8;
                let mut len = 0;
                while len < MAX_COMMAND_LINE && text.add(len).read() != 0 {
                    len += 1;
                }
                line = core::slice::from_raw_parts(text, len);
            }
            let map = phys_to_virt(start.memory_map as usize) as *const MapEntry;
            let mut top = 0;
            for i in 0..(start.memory_map_entries as usize).min(MAX_REGIONS) {
                let entry = &*map.add(i);
                if entry.kind == 1 {
                    top = top.max((entry.start + entry.len) as usize);
                }
            }
            (line, initrd, top)
        }
    }

    /// Reads the loader's structures at physical `at`.
    pub(crate) fn init(at: usize) {
        // SAFETY: the entry passes what the loader passed; the temporary tables map 4 GiB; nothing else runs.
        unsafe {
            let state = &mut *STATE.0.get();
            let start = &*(phys_to_virt(at) as *const StartInfo);
            assert!(start.magic == MAGIC, "not loaded by a PVH loader");
            state.rsdp = start.rsdp as usize;
            if start.modules > 0 {
                let module = &*(phys_to_virt(start.modules_at as usize) as *const Module);
                state.initrd.start = module.start as usize;
                state.initrd.len = module.len as usize;
            }
            if start.command_line != 0 {
                let text = phys_to_virt(start.command_line as usize) as *const u8;
                while state.command_line_len < MAX_COMMAND_LINE {
                    let byte = text.add(state.command_line_len).read();
                    if byte == 0 {
                        break;
                    }
                    state.command_line[state.command_line_len] = byte;
                    state.command_line_len += 1;
                }
            }
            assert!(
                start.version >= 1 && start.memory_map_entries > 0,
                "the loader gives no memory map"
            );
            let map = phys_to_virt(start.memory_map as usize) as *const MapEntry;
            for i in 0..(start.memory_map_entries as usize).min(MAX_REGIONS) {
                let entry = &*map.add(i);
                state.memory[i] = MemoryRegion {
                    start: entry.start as usize,
                    len: entry.len as usize,
                    kind: match entry.kind {
                        1 => MemoryKind::Usable,
                        3 | 4 => MemoryKind::Acpi,
                        _ => MemoryKind::Reserved,
                    },
                };
                state.memory_count = i + 1;
            }
            state.memory[..state.memory_count].sort_unstable_by_key(|r| r.start);
        }
    }

    /// Hands out zeroed frames from the memory after the image, before there is a frame allocator.
    pub(crate) struct EarlyFrames {
        pub next: usize,
        pub end: usize,
    }

    impl EarlyFrames {
        /// A frame of zeros.
        pub fn frame(&mut self) -> usize {
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

    /// The memory directly behind the image, for the first page tables.
    pub(crate) fn early_frames() -> EarlyFrames {
        let image = paging::image();
        let next = image[3].next_multiple_of(PAGE);
        let end = memory()
            .iter()
            .find(|r| r.kind == MemoryKind::Usable && (r.start..r.end()).contains(&next))
            .map_or(next, MemoryRegion::end);
        let initrd = state().initrd.start;
        let end = if initrd >= next { end.min(initrd) } else { end };
        EarlyFrames {
            next,
            end: end & !(PAGE - 1),
        }
    }

    /// Computes the free regions once the machine room has taken what it needs, up to `taken_end`.
    pub(crate) fn finish(taken_end: usize) {
        // SAFETY: the boot CPU alone runs.
        let state = unsafe { &mut *STATE.0.get() };
        let taken = [
            MemoryRegion {
                start: 0,
                len: FIRMWARE_LEN,
                kind: MemoryKind::Reserved,
            },
            HOLE,
            MemoryRegion {
                start: 1 << 20,
                len: taken_end - (1 << 20),
                kind: MemoryKind::Reserved,
            },
            state.initrd,
        ];
        state.free_count = subtract(&state.memory[..state.memory_count], &taken, &mut state.free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable(start: usize, end: usize) -> MemoryRegion {
        MemoryRegion {
            start,
            len: end - start,
            kind: MemoryKind::Usable,
        }
    }

    #[test]
    fn taken_ranges_are_left_out() {
        let memory = [usable(0, 0x9fc00), usable(0x10_0000, 0x100_0000)];
        let taken = [
            usable(0, 0x10_0000),
            usable(0x10_0000, 0x20_0800),
            usable(0xf0_0123, 0xf0_2345),
        ];
        let mut out = [MemoryRegion::default(); 8];
        let count = subtract(&memory, &taken, &mut out);
        assert_eq!(
            &out[..count],
            [usable(0x20_1000, 0xf0_0000), usable(0xf0_3000, 0x100_0000)]
        );
    }

    #[test]
    fn nothing_taken() {
        let mut out = [MemoryRegion::default(); 2];
        assert_eq!(subtract(&[usable(0x800, 0x3800)], &[], &mut out), 1);
        assert_eq!(out[0], usable(0x1000, 0x3000));
    }
}
