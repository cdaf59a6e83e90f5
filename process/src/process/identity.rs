//! A process's identity, and how it changes.
//!
//! *Interface*: [`Process::change_cred`] replaces the [`Cred`] by a new one, and repeats the change if
//! another thread was faster: no change is lost.

use core::sync::atomic::Ordering;

use abi::errno::Result;
use account::Cred;

use super::{Process, Task, access};

impl Process {
    /// Replaces the credentials by the result of `change`. Returns its answer.
    pub fn change_cred<R>(&self, change: impl Fn(&mut Cred) -> Result<R>) -> Result<R> {
        loop {
            let old = self.cred.get();
            let mut new = Cred::clone(&old);
            let answer = change(&mut new)?;
            if new == *old {
                return Ok(answer);
            }
            // Before they become visible: a process that may access the new credentials must not read memory
            // that the old ones left.
            if new.departs_from(&old) {
                access::set_dumpable(self, false);
                Task::here(|task| task.death_signal.store(0, Ordering::Relaxed));
            }
            if self.cred.replace(&old, new.with_user()?.sealed()) {
                return Ok(answer);
            }
        }
    }
}
