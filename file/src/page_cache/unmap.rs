//! Unmapping the pages of a truncated file.
//!
//! *Interface.* [`forget_beyond`]. There is no list of a file's mappings: truncating a mapped file is rare
//! enough to search every process.

use abi::layout::PAGE;
use vm::AddressSpace;

use crate::callout;

/// So many areas at a time.
const PIECE: usize = 32;

/// Every mapping of the file `id` (device, inode) forgets its pages from byte `from` on, copies of them too;
/// a later access asks the pager, and is answered by SIGBUS.
pub fn forget_beyond(id: (u64, u64), from: u64) {
    let from = from.next_multiple_of(PAGE as u64);
    callout::each_space(&mut |space| forget_in(space, id, from));
}

/// The same in one space, a few areas at a time: there may be many, and no memory for a list of them.
fn forget_in(space: &AddressSpace, id: (u64, u64), from: u64) {
    let mut last = 0;
    loop {
        let mut found = 0;
        let mut ranges = [(0, 0); PIECE];
        space.for_each_area(|area| {
            let same = |p: &vm::space::PagerInfo| (p.device, p.inode) == id;
            if area.end <= last || !area.pager.as_ref().is_some_and(same) {
                return;
            }
            let skipped = usize::try_from(from.saturating_sub(area.offset)).unwrap_or(usize::MAX);
            let length = area.end - area.start;
            if skipped < length
                && let Some(place) = ranges.get_mut(found)
            {
                *place = (area.start + skipped, length - skipped);
                found += 1;
            }
        });
        for &(start, length) in ranges.iter().take(found) {
            // Unmapped meanwhile: nothing left to forget.
            let _ = space.discard(start, length);
            last = start + length;
        }
        if found < PIECE {
            return;
        }
    }
}
