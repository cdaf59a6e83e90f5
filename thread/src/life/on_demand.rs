//! A thread of the kernel that is made when there is first work for it, and sleeps while there is none.
//!
//! *Interface*: an [`OnDemand`] is a static. [`OnDemand::rouse`] makes the thread or wakes it; the thread
//! itself sleeps in [`OnDemand::wait`].

use crate::life::spawn::spawn;
use crate::running::pending_work::safe_point;
use crate::tte::NoMemory;
use core::sync::atomic::{AtomicBool, Ordering};
use sync::WaitList;

/// One such thread.
pub struct OnDemand {
    name: &'static [u8],
    body: fn(usize),
    /// It is there, or is being made.
    made: AtomicBool,
    /// It waits here.
    work: WaitList,
}

impl OnDemand {
    /// The thread is called `name` and runs `body`, which never returns.
    pub const fn new(name: &'static [u8], body: fn(usize)) -> OnDemand {
        OnDemand {
            name,
            body,
            made: AtomicBool::new(false),
            work: WaitList::new(),
        }
    }

    /// There is work, or is soon.
    ///
    /// # Errors
    /// No memory for the thread; the next call tries again.
    pub fn rouse(&self) -> Result<(), NoMemory> {
        if !self.made.load(Ordering::Relaxed) && !self.made.swap(true, Ordering::SeqCst) {
            spawn(self.name, self.body, 0).inspect_err(|_| {
                self.made.store(false, Ordering::SeqCst);
            })?;
        }
        self.work.wake_all();
        Ok(())
    }

    /// In the thread: sleeps until `work` finds some.
    pub fn wait<T>(&self, mut work: impl FnMut() -> Option<T>) -> T {
        self.work.wait_until(|| {
            safe_point();
            work()
        })
    }
}
