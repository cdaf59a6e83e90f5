//! The OOM score of a process: the memory that it holds, in frames: its pages with their tables, and the
//! kernel's memory for it.
//!
//! *Interface*: [`weight`]; [`points`] and [`share`], which decide the process to end. They are computed only
//! for that choice, so nothing is counted before: descriptions report the memory that belongs to them
//! ([`File::weight`](file::File::weight)), and a description with several descriptors counts in parts.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::layout::PAGE;
use vm::frame;

use crate::process::Process;

/// A process with this `oom_score_adj` is spared.
pub const SPARED: i32 = -1000;

/// Frames of a thread: its stack, its promised frames, its entry and its code.
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
    // Bound: a number, for each process when one is chosen to end.
    let threads = process.threads.lock().len();
    pages + threads * PER_THREAD + bytes / PAGE
}

/// The points of `process`: its [`weight`], changed by a thousandth of all memory for each point of its
/// `oom_score_adj`. None for a process that is spared, or holds nothing.
pub fn points(process: &Arc<Process>) -> Option<isize> {
    let (by, weight) = (adjustment(process)?, weight(process) as isize);
    (weight > 0).then_some(weight + by)
}

/// Its contribution to its parent's points: no more than it holds.
pub(crate) fn share(process: &Arc<Process>) -> isize {
    let lighter = |by: isize| weight(process) as isize + by.min(0);
    adjustment(process).map_or(0, |by| lighter(by).max(0))
}

/// `oom_score_adj` in frames, if the process is not spared.
fn adjustment(process: &Process) -> Option<isize> {
    let thousandths = process.oom_score_adj.load(Ordering::Relaxed);
    (thousandths != SPARED).then(|| thousandths as isize * frame::total() as isize / 1000)
}
