//! From the boot memory map to an allocator of frames and a heap.
//!
//! *Interface*: [`memory`], once.

use crate::frame::{Frame, Frames, Kernel, PhysMemory, uninitialized};
use crate::heap;
use crate::sparse;
use abi::layout::{PAGE, WINDOW_LEN};
use machine::boot::MemoryRegion;

/// Places the metadata, and hands out the rest of the free regions.
///
/// # Safety
/// On the boot CPU, once, before the first allocation.
pub(crate) unsafe fn memory() {
    let info = machine::boot::info();
    let regions = info.regions;
    let ends = regions.iter().map(MemoryRegion::end);
    // The initrd's frames come later.
    let frames = ends.fold(info.initrd_phys + info.initrd.len(), usize::max) / PAGE;
    let frame_bytes = Frames::metadata_bytes(frames).next_multiple_of(64);
    let low = frames.min(WINDOW_LEN / PAGE);
    let bytes = frame_bytes.next_multiple_of(PAGE);
    let home = regions
        .iter()
        .position(|region| region.len >= bytes)
        .unwrap_or_else(|| panic!("no room for the metadata of {frames} frames"));
    let metadata = Kernel.virt(regions[home].start as u64);
    let allocator = uninitialized();
    // SAFETY: the range is free memory, large enough, taken out of the regions below; there are no
    // allocations yet.
    unsafe {
        allocator.install(metadata, frames);
        for (i, region) in regions.iter().enumerate() {
            let taken = if i == home { bytes } else { 0 };
            let first = Frame::containing((region.start + taken) as u64);
            allocator.add(first, Frame::containing(region.end() as u64));
        }
        let unused = machine::entry_mitigations::unused();
        allocator.add(
            Frame::containing(unused.start as u64),
            Frame::containing(unused.end as u64),
        );
        let words = sparse::reserve(heap::metadata_bytes(low));
        let words = words.unwrap_or_else(|| panic!("no addresses for the heap's words"));
        heap::install(core::ptr::with_exposed_provenance_mut(words), low);
    }
}
