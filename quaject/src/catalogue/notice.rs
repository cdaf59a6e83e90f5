//! Notice: tells a thread that something has happened, as a callback of another quaject says it.
//!
//! *Interface*: callentry `tell` (signature `Event`) for `Q_full-1` and `Q_empty+1`, or for a
//! [`Tap`](crate::filter::tap)'s `each`; callentry `give_up` (signature `Retry`) for `Q_full` and `Q_empty`:
//! it tells, and the attempt that has failed returns to its caller. How a thread is told is the business of
//! the room that makes one.
//!
//! Source: dissertation, section 4.1.4 and figure 4.3: callbacks that "function, in effect, like interrupts
//! that signal events".

use crate::kit::class::{OutOfMemory, Ref};
use crate::kit::compiled::callentry;
use crate::kit::interfacer::Target;

/// Tells a thread, named by its handle, of an event.
pub type TellFn = fn(thread: u64, event: u32);

/// One notice.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    /// How.
    pub how: TellFn,
    /// The thread's handle.
    pub thread: u64,
    /// The event.
    pub event: u32,
}

crate::quaject! {
    /// Tells a thread of an event
    class Notice = "Notice", spec Notice, error OutOfMemory {
        callentry { TELL: crate::signature::Event = "tell", GIVE_UP: crate::signature::Retry = "give_up" }
    }
    make |spec, _| Ok(spec);
    callentry |notice: &Ref<Notice>, number| -> Option<Target> {
        match number {
            TELL => Some(callentry(notice, &"tell", 0, tell)),
            GIVE_UP => Some(callentry(notice, &"give_up", 0, tell)),
            _ => None,
        }
    };
}

impl Notice {
    /// Callentry `tell`.
    pub fn tell(&self) {
        (self.how)(self.thread, self.event);
    }
}

/// Both callentries: one has no result, and the other that the attempt is given up.
extern "sysv64" fn tell(notice: &Notice) -> usize {
    notice.tell();
    0
}
