//! What a process does on each signal.
//!
//! *Interface*: [`Actions`], shared between processes by `CLONE_SIGHAND`.

use abi::linux::*;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::Monitor;

use super::set::{DefaultAction, bit, default_action};

/// The 64 actions, with masks of who is ignored and who has a handler that need no monitor.
pub struct Actions {
    table: Monitor<[Sigaction; 64]>,
    ignored: AtomicU64,
}

impl Default for Actions {
    fn default() -> Self {
        Self::from_table([Sigaction::default(); 64])
    }
}

/// Is a signal with action `handler` dropped when it arrives?
fn dropped(signo: i32, handler: u64) -> bool {
    handler == SIG_IGN || (handler == SIG_DFL && default_action(signo) == DefaultAction::Ignore)
}

/// The signals that `table` drops when they arrive.
fn ignored_by(table: &[Sigaction; 64]) -> u64 {
    let dropped = |(signo, action): (i32, &Sigaction)| {
        if dropped(signo, action.handler) {
            bit(signo)
        } else {
            0
        }
    };
    (1..).zip(table).map(dropped).fold(0, |all, bit| all | bit)
}

impl Actions {
    fn from_table(table: [Sigaction; 64]) -> Actions {
        Actions {
            ignored: AtomicU64::new(ignored_by(&table)),
            table: Monitor::new(table),
        }
    }

    /// A copy for a forked child.
    pub fn fork_copy(&self) -> Arc<Actions> {
        Arc::new(Actions {
            table: Monitor::new(*self.table.lock()),
            ignored: AtomicU64::new(self.ignored()),
        })
    }

    /// A copy in which every handler is back to the default.
    pub fn exec_copy(&self) -> Arc<Actions> {
        let copy = Arc::<Actions>::default();
        copy.begin_program(self);
        copy
    }

    /// These, which nobody uses yet, become those of a program that `exec` begins: as `old`, but every handler is back to the default.
    pub fn begin_program(&self, old: &Actions) {
        let mut table = *old.table.lock();
        for action in &mut table {
            let handler = if action.handler == SIG_IGN {
                SIG_IGN
            } else {
                SIG_DFL
            };
            *action = Sigaction {
                handler,
                ..Sigaction::default()
            };
        }
        self.ignored.store(ignored_by(&table), Ordering::Relaxed);
        *self.table.lock() = table;
    }

    /// The action of `signo`, a valid number.
    pub fn get(&self, signo: i32) -> Sigaction {
        self.table.lock()[signo as usize - 1]
    }

    /// Replaces the action of `signo`, a valid number; returns the old.
    pub fn set(&self, signo: i32, action: Sigaction) -> Sigaction {
        let mut table = self.table.lock();
        let old = core::mem::replace(&mut table[signo as usize - 1], action);
        if dropped(signo, action.handler) {
            self.ignored.fetch_or(bit(signo), Ordering::Relaxed);
        } else {
            self.ignored.fetch_and(!bit(signo), Ordering::Relaxed);
        }
        old
    }

    /// The signals that are dropped when they arrive unblocked.
    pub fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// The signals that have a handler.
    pub fn caught(&self) -> u64 {
        let table = self.table.lock();
        (1..).zip(table.iter()).fold(0, |set, (signo, action)| {
            if action.handler > SIG_IGN {
                set | bit(signo)
            } else {
                set
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exec_keeps_ignored_signals_and_forgets_handlers() {
        let actions = Actions::default();
        actions.set(
            SIGINT,
            Sigaction {
                handler: SIG_IGN,
                ..Default::default()
            },
        );
        actions.set(
            SIGTERM,
            Sigaction {
                handler: 0x1234,
                flags: SA_RESTART,
                ..Default::default()
            },
        );
        actions.set(
            SIGCHLD,
            Sigaction {
                handler: 0x1234,
                ..Default::default()
            },
        );
        assert_eq!(
            actions.ignored() & (bit(SIGCHLD) | bit(SIGINT)),
            bit(SIGINT)
        );
        assert_eq!(actions.caught(), bit(SIGTERM) | bit(SIGCHLD));
        let copy = actions.exec_copy();
        assert_eq!(copy.get(SIGINT).handler, SIG_IGN);
        assert_eq!(copy.get(SIGTERM), Sigaction::default());
        assert_eq!(copy.caught(), 0);
        assert_ne!(copy.ignored() & bit(SIGCHLD), 0);
    }
}
