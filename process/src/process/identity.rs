//! A process's identity, and how it changes.
//!
//! *Interface*: [`Process::change_cred`] puts a new [`Cred`] in the old one's place, if nobody has changed it
//! meanwhile: nothing is lost.

use core::sync::atomic::Ordering;

use abi::errno::Result;
use account::Cred;

use super::{Process, access};

impl Process {
    /// Puts what `change` makes of the credentials in their place. What it answers.
    pub fn change_cred<R>(&self, change: impl Fn(&mut Cred) -> Result<R>) -> Result<R> {
        loop {
            let old = self.cred.get();
            let mut new = Cred::clone(&old);
            let answer = change(&mut new)?;
            // Before anybody can see them: who may look at the new ones is not to see what the old ones left
            // in memory.
            if new.departs_from(&old) {
                access::set_dumpable(self, false);
                self.death_signal.store(0, Ordering::Relaxed);
            }
            if self.cred.replace(&old, new.with_user()?.sealed()) {
                return Ok(answer);
            }
        }
    }
}
