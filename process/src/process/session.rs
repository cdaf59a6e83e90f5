//! A session: process groups that share a controlling terminal.
//!
//! *Interface*: [`Session`]; [`Terminal`] is its interface to a terminal, which the terminal implements.

use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::AtomicI32;

use sync::monitor::Monitor;

/// The operations of a controlling terminal.
pub trait Terminal: Any + Send + Sync {
    /// The foreground process group, 0 for none.
    fn foreground(&self) -> i32;
    /// The leader of session `session` has ended or given the terminal up: forgets session and group if it
    /// is still that session's, which it may have been taken away from. The foreground group then, to which
    /// the caller sends the signals.
    fn release(&self, session: i32) -> Option<i32>;
    /// It is now the terminal of session `session`, with process group `foreground` in the foreground.
    fn adopted(&self, session: i32, foreground: i32);
    /// The device number, for `/proc/PID/stat`.
    fn device(&self) -> u64;
}

/// A session.
pub struct Session {
    /// Its number, that of its leader.
    pub id: i32,
    /// Its controlling terminal.
    pub terminal: Monitor<Option<Arc<dyn Terminal>>>,
    /// The foreground group at the terminal's hang-up; 0 for none.
    pub left_group: AtomicI32,
}

impl Session {
    /// A session without a terminal.
    pub fn new(id: i32) -> Arc<Session> {
        Arc::new(Session {
            id,
            terminal: Monitor::new(None),
            left_group: AtomicI32::new(0),
        })
    }

    /// The controlling terminal.
    pub fn terminal(&self) -> Option<Arc<dyn Terminal>> {
        // Bound: copying or exchanging one counted handle.
        self.terminal.lock().clone()
    }
}
