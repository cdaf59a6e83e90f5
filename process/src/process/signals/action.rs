//! The signal actions of a process.
//!
//! *Interface*: [`SignalActions`], shared between processes by `CLONE_SIGHAND`.

use abi::linux::*;
use alloc::sync::Arc;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sync::Monitor;

use super::set::{DefaultAction, IGNORED, bit, default_action};
use vm::fallible::placed;

/// The 64 actions, with masks of ignored and handled signals, which are read without a monitor.
pub struct SignalActions {
    table: Monitor<[Sigaction; 64]>,
    /// Odd while an action changes, and another afterwards: for readers without the monitor.
    version: AtomicU32,
    ignored: AtomicU64,
}

/// The flags that an action keeps. A program finds out by the others that they mean nothing.
pub const FLAGS: u64 = SA_NOCLDSTOP
    | SA_NOCLDWAIT
    | SA_SIGINFO
    | SA_EXPOSE_TAGBITS
    | SA_RESTORER
    | SA_ONSTACK
    | SA_RESTART
    | SA_NODEFER
    | SA_RESETHAND;

/// Places in [`SignalActions`], for generated code: the monitor's word, the table, the set of ignored
/// signals, and the version.
pub(crate) const WORD: usize = offset_of!(SignalActions, table) + Monitor::<[Sigaction; 64]>::WORD;
pub(crate) const TABLE: usize = offset_of!(SignalActions, table) + Monitor::<[Sigaction; 64]>::DATA;
pub(crate) const IGNORES: usize = offset_of!(SignalActions, ignored);
pub(crate) const VERSION: usize = offset_of!(SignalActions, version);

impl Default for SignalActions {
    #[inline]
    fn default() -> Self {
        SignalActions {
            table: Monitor::new([Sigaction::default(); 64]),
            version: AtomicU32::new(0),
            ignored: AtomicU64::new(IGNORED),
        }
    }
}

/// Is a signal with action `handler` dropped when it arrives?
fn dropped(signo: i32, handler: u64) -> bool {
    handler == SIG_IGN || (handler == SIG_DFL && default_action(signo) == DefaultAction::Ignore)
}

/// Calls `act` with the index of each signal of `set` in a table.
fn each(set: u64, mut act: impl FnMut(usize)) {
    let mut rest = set;
    while rest != 0 {
        act(rest.trailing_zeros() as usize);
        rest &= rest.wrapping_sub(1);
    }
}

impl SignalActions {
    /// A copy for a forked child.
    pub fn fork_copy(&self) -> Arc<SignalActions> {
        // Bound: 64 actions of one process.
        let table = self.table.lock();
        Self::with(&table, self.ignored())
    }

    /// A copy of `table`. Not inline: as an argument, the table is known to be elsewhere than what is made,
    /// and is copied once.
    #[inline(never)]
    fn with(table: &[Sigaction; 64], ignored: u64) -> Arc<SignalActions> {
        placed(|| SignalActions {
            table: Monitor::new(*table),
            version: AtomicU32::new(0),
            ignored: AtomicU64::new(ignored),
        })
    }

    /// A copy in which every handler is back to the default.
    pub fn exec_copy(&self) -> Arc<SignalActions> {
        let copy = placed(SignalActions::default);
        copy.begin_program(self);
        copy
    }

    /// Makes these new default actions those of a program that `exec` begins: signals that `old` ignores stay
    /// ignored.
    pub fn begin_program(&self, old: &SignalActions) {
        let ignored = old.told_to_ignore();
        if ignored != 0 {
            let mut table = self.table.lock();
            each(ignored, |index| table[index].handler = SIG_IGN);
            self.ignored.fetch_or(ignored, Ordering::Relaxed);
        }
    }

    /// The signals that are ignored explicitly.
    fn told_to_ignore(&self) -> u64 {
        let table = self.table.lock();
        let mut told = 0;
        // The others are handled, or end the process.
        each(self.ignored(), |index| {
            if table[index].handler == SIG_IGN {
                told |= 1 << index;
            }
        });
        told
    }

    /// The action of `signo`, a valid number.
    pub fn get(&self, signo: i32) -> Sigaction {
        self.table.lock()[signo as usize - 1]
    }

    /// Replaces the action of `signo`, a valid number; returns the old.
    pub fn set(&self, signo: i32, action: Sigaction) -> Sigaction {
        let mut table = self.table.lock();
        self.version.fetch_add(1, Ordering::AcqRel);
        let old = core::mem::replace(&mut table[signo as usize - 1], action);
        self.version.fetch_add(1, Ordering::Release);
        if dropped(signo, action.handler) {
            self.ignored.fetch_or(bit(signo), Ordering::Relaxed);
        } else {
            self.ignored.fetch_and(!bit(signo), Ordering::Relaxed);
        }
        old
    }

    /// Wakes the next thread that waits for the table, which generated code has released.
    pub(crate) extern "sysv64" fn wake_next(&self) {
        self.table.raw().wake_next();
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
        let actions = SignalActions::default();
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
