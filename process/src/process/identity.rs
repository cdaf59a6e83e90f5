//! The identity of a thread, and how it changes.
//!
//! *Interface*: each thread has its own, as on Linux; [`Task::change_cred`] replaces the running thread's.
//! [`Process::cred_here`] is the caller's; [`Process::cred`] is that of the first thread, by which others
//! judge the process.

use core::sync::atomic::Ordering;

use abi::errno::Result;
use account::Cred;
use alloc::sync::Arc;

use super::{Process, Task, access};

impl Process {
    /// The identity of the running thread, if it is one of this process, else that of its first thread.
    pub fn cred_here(&self) -> Arc<Cred> {
        let own = |task: &Arc<Task>| {
            let here = core::ptr::eq(&*task.process, self);
            here.then(|| task.cred.get())
        };
        Task::here(own).flatten().unwrap_or_else(|| self.cred.get())
    }
}

impl Task {
    /// Replaces the credentials of the thread, which is the running one, by the result of `change`. Returns
    /// its answer.
    pub fn change_cred<R>(&self, change: impl Fn(&mut Cred) -> Result<R>) -> Result<R> {
        let old = self.cred.get();
        let mut new = Cred::clone(&old);
        let answer = change(&mut new)?;
        if new == *old {
            return Ok(answer);
        }
        // Before they become visible: a process that may access the new credentials must not read memory that
        // the old ones left.
        if new.departs_from(&old) {
            access::set_dumpable(&self.process, false);
            self.death_signal.store(0, Ordering::Relaxed);
        }
        self.take_on(new.with_user()?.sealed());
        Ok(answer)
    }

    /// The thread, which is the running one, has the credentials `cred` from now on; those of the first
    /// thread are what others see of the process.
    fn take_on(&self, cred: Arc<Cred>) {
        if self.process.first_tid.load(Ordering::Relaxed) == self.tid {
            drop(self.process.cred.set(cred.clone()));
        }
        drop(self.cred.set(cred));
    }
}
