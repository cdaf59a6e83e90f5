//! Taking pages away from those who have a file mapped, when the file becomes shorter.
//!
//! *Interface.* [`forget_beyond`]. Nobody keeps a list of a file's mappings: truncating a mapped file is rare enough to ask every process.

use abi::layout::PAGE;
use alloc::vec::Vec;

use crate::process::tree;

/// Every mapping of the file `id` (device, inode) forgets its pages from byte `from` on, copies of them too; a later access asks the
/// pager, and is answered by SIGBUS.
pub fn forget_beyond(id: (u64, u64), from: u64) {
    let from = from.next_multiple_of(PAGE as u64);
    for process in tree::all() {
        let Some(space) = process.space() else {
            continue;
        };
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        space.for_each_area(|area| {
            let same = |p: &vm::space::PagerInfo| (p.device, p.inode) == id;
            if !area.pager.as_ref().is_some_and(same) {
                return;
            }
            let skipped = usize::try_from(from.saturating_sub(area.offset)).unwrap_or(usize::MAX);
            let length = area.end - area.start;
            if skipped < length {
                ranges.push((area.start + skipped, length - skipped));
            }
        });
        for (start, length) in ranges {
            // Unmapped meanwhile: nothing left to forget.
            let _ = space.discard(start, length);
        }
    }
}
