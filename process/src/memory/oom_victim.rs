//! The OOM victim: the process whose end helps most when memory is out.
//!
//! *Interface*: [`largest`] chooses a [`Victim`] by the [`points`] of `oom_score.rs`. It allocates nothing.

use alloc::sync::Arc;

use super::oom_score::{points, share, weight};
use crate::process::Process;
use crate::process::tree::{INIT, find, from};

/// A process that may end so that others have memory.
pub(crate) struct Victim {
    /// The process.
    pub(crate) process: Arc<Process>,
    /// Frames that its end gives back.
    pub(crate) pages: usize,
    /// The number of the head of its family; the victim itself may be the head.
    pub(crate) head: i32,
    /// Whether every process that could end is to be spared (`oom_score_adj`).
    pub(crate) spared: bool,
}

impl Victim {
    fn new(process: Arc<Process>, head: i32) -> Victim {
        Victim {
            pages: weight(&process),
            head,
            spared: points(&process).is_none(),
            process,
        }
    }
}

/// Half of the shares of the children of `parent`. The children of the built-in first process are no family.
fn brood(parent: &Process) -> isize {
    match parent.pid {
        INIT => 0,
        // Bound: **linear** in the children of one process.
        _ => parent.children.lock().iter().map(share).sum::<isize>() / 2,
    }
}

/// The process whose end helps most; none if all processes together hold nothing.
///
/// A process counts with its [`points`] and half of its children's [`share`]s, so that a process that
/// multiplies outweighs a larger bystander. Where the children outweigh their parent, the child with the most
/// points is chosen, and of equals the youngest. The machine ends with the process `first`: it is chosen only
/// if it holds more than all others together. A spared process is chosen only if all are spared.
pub(crate) fn largest(first: i32) -> Option<Victim> {
    let others = || from(0).filter(|process| process.pid != first);
    if let Some(first) = find(first)
        && points(&first).is_some()
        && weight(&first) > others().map(|process| weight(&process)).sum()
    {
        let head = first.pid;
        return Some(Victim::new(first, head));
    }
    let rank = |process: &Arc<Process>| {
        let own = points(process).map(|own| own + brood(process));
        (own, own.map_or_else(|| weight(process), |_| 0))
    };
    let heaviest = others().max_by_key(rank)?;
    if weight(&heaviest) == 0 {
        return None;
    }
    let head = heaviest.pid;
    let victim = match points(&heaviest) {
        Some(own) if brood(&heaviest) > own.max(0) => {
            // Bound: **linear** in the children of one process.
            let children = heaviest.children.lock();
            children.iter().max_by_key(|child| points(child))?.clone()
        }
        _ => heaviest,
    };
    Some(Victim::new(victim, head))
}
