//! The callouts of the lower rooms about processes: about the caller (`account::caller`), and about other
//! processes, their tables and their directories ([`file::callout`]).
//!
//! *Interface*: [`link`], once at boot.

use abi::linux::{SI_USER, Siginfo};
use account::Cred;
use account::caller::{self, Callouts};
use sync::WaitList;

use crate::process::{CRED_PLACE, Process, Task, tree};
use crate::signal;
use file::arc_swap::ArcSwap;
use file::callout::{self, SignalArrivals};
use file::fdtable::tables::{self, Tables};
use file::fs::context;

static CALLOUTS: Callouts = Callouts {
    cred: || Task::here(|task| task.cred.get()),
    cred_at: [CRED_PLACE as i32, ArcSwap::<Cred>::WORD as i32],
    number: || Task::here(|task| task.process.pid),
    // Bound: one limit, before anything is held.
    limit: |which| Task::here(|task| task.process.limits.lock().cur(which)),
    is_dying: || {
        Task::here(|task| task.process.signals.is_ending() || task.thread.is_killed())
            .unwrap_or(false)
    },
    tell: |signo| {
        Task::here(|task| {
            // As if the thread had sent it itself.
            let (pid, uid) = (task.process.pid, task.cred.get().uid);
            let info = Siginfo::sent(signo, SI_USER, pid, uid);
            let _untold = signal::send(&task.process, Some(task), info);
        });
    },
    let_go: file::socket::free_inactive,
};

static OF_FILES: callout::Callouts = callout::Callouts {
    arrivals: || Task::here(|task| task.process.clone() as _),
    exists: |pid| tree::find(pid).is_some(),
    signal_receiver: signal::receiver_by_kind,
    each_space: |f| {
        let with_space = |process: &Process| process.space().is_some();
        tree::each(with_space, |process| {
            if let Some(space) = process.space() {
                f(&space);
            }
        });
    },
};

static TABLES: Tables = Tables {
    own: || Task::here(|task| task.process.files.get()),
    each: |f| {
        tree::each_or_again(|process| f(process.files.get()));
    },
};

impl SignalArrivals for Process {
    fn arrivals(&self) -> &WaitList {
        self.signals.arrivals()
    }
}

/// Links the callouts.
pub fn link() {
    caller::link(&CALLOUTS);
    callout::link(&OF_FILES);
    tables::link(&TABLES);
    context::link(|| Task::here(|task| task.process.fs.get()));
}
