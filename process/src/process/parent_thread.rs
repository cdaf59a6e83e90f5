//! Which of its parent's threads a child belongs to: the one that made it (`__WNOTHREAD`), whose end it hears
//! of (`PR_SET_PDEATHSIG`).
//!
//! *Interface*: [`Process::parent_tid`] changes with the parent's children held; [`Task::leave_children`]
//! gives a thread's children to another thread; [`tell_of_end`] sends a child what it asked for.

use abi::linux::{SI_USER, SIGMAX, Siginfo};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use super::{Process, Task};

impl Process {
    /// A thread of it that has children from now on: its number, 0 if there is no thread.
    pub(crate) fn heir(&self) -> i32 {
        // Bound: **linear**: the threads of one process; nothing sleeps inside.
        let threads = self.threads.lock();
        // A thread that leaves the others looks after that whether it has children.
        threads.first().map_or(0, |heir| {
            heir.has_children.store(true, Ordering::Relaxed);
            heir.tid
        })
    }

    /// The next of its children that belongs to its thread `tid`, from place `at` on, belongs to another now.
    fn pass_on(&self, tid: i32, at: &mut usize) -> Option<Arc<Process>> {
        // Bound: **linear**: the caller’s children.
        let children = self.children.lock();
        let own = |child: &Arc<Process>| child.parent_tid.load(Ordering::Relaxed) == tid;
        let place = match children.iter().skip(*at).position(own) {
            Some(place) => place + *at,
            // Some may have gone meanwhile, and the others have moved up.
            None => children.iter().position(own)?,
        };
        *at = place + 1;
        let child = children.get(place)?;
        child.parent_tid.store(self.heir(), Ordering::Relaxed);
        Some(child.clone())
    }
}

impl Task {
    /// It has left its process's threads and is not the last: its children belong to another thread from now
    /// on, and hear of its end through `send`.
    pub(crate) fn leave_children(&self, send: impl Fn(&Arc<Process>, &Siginfo)) {
        if !self.has_children.load(Ordering::Relaxed) {
            return;
        }
        let mut at = 0;
        while let Some(child) = self.process.pass_on(self.tid, &mut at) {
            tell_of_end(&self.process, &child, &send);
        }
    }
}

/// `child` hears of the end of its parent's thread through `send`: once for each of its threads that asked.
pub(crate) fn tell_of_end(
    parent: &Process,
    child: &Arc<Process>,
    send: impl Fn(&Arc<Process>, &Siginfo),
) {
    child.each_thread(|task| {
        let signo = task.death_signal.load(Ordering::Relaxed);
        if (1..=SIGMAX).contains(&signo) {
            let uid = parent.cred_here().uid;
            send(child, &Siginfo::sent(signo, SI_USER, parent.pid, uid));
        }
        true
    });
}
