//! What a process holds of the machine's memory, in frames: its pages with their tables, and what the kernel keeps for it.
//!
//! *Interface*: [`weight`]. It is asked only when one is chosen to end, so nothing is counted before: descriptions say themselves what goes with them
//! ([`File::weight`](crate::file::File::weight)), and one that several descriptors share counts in parts.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::layout::PAGE;

use crate::process::Process;

/// Frames of a thread: its stack, what is promised to it, its entry and its code.
const PER_THREAD: usize = 10;

/// Frames that `process` holds. Allocates nothing; may sleep for a grace period.
pub(crate) fn weight(process: &Arc<Process>) -> usize {
    if process.is_zombie() {
        return 0;
    }
    let space = process.space();
    let (pages, areas) = space.map_or((0, 0), |space| {
        (space.resident() + space.tables_held(), space.areas_bytes())
    });
    let files = process.files.get();
    let mut bytes = areas + files.weight();
    files.visit().for_each(|_, of, _| {
        let slots = of.slots.load(Ordering::Relaxed).max(1) as usize;
        bytes += of.file().weight(of) / slots;
    });
    let threads = process.threads.lock().len();
    pages + threads * PER_THREAD + bytes / PAGE
}
