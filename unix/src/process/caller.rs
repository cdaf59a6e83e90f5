//! What files, pipes and sockets ask about the process that calls them (`account::caller`).
//!
//! *Interface*: [`link`], once at boot.

use abi::linux::{SI_KERNEL, Siginfo};
use account::caller::{self, Callouts};

use super::Task;
use crate::signal;

static CALLOUTS: Callouts = Callouts {
    cred: || Task::here(|task| task.process.cred.get()),
    number: || Task::here(|task| task.process.pid),
    limit: |which| Task::here(|task| task.process.limits.lock().cur(which)),
    is_dying: || {
        Task::here(|task| task.process.signals.is_ending() || task.thread.is_killed())
            .unwrap_or(false)
    },
    tell: |signo| {
        let info = Siginfo::sent(signo, SI_KERNEL, 0, 0);
        Task::here(|task| {
            let _untold = signal::send(&task.process, Some(task), info);
        });
    },
    let_go: crate::pipe::give_up_waiting,
};

/// Links the callouts.
pub fn link() {
    caller::link(&CALLOUTS);
}
