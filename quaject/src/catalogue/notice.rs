//! Notice: tells a thread that something has happened, as a callback of another quaject says it.
//!
//! *Interface*: callentry `tell` (signature `Event`) for `Q_full-1` and `Q_empty+1`, or for a
//! [`Tap`](crate::filter::tap)'s `each`; callentry `give_up` (signature `Retry`) for `Q_full` and `Q_empty`:
//! it tells, and the attempt that has failed returns to its caller. How a thread is told is the business of
//! the room that makes one.
//!
//! Source: dissertation, section 4.1.4 and figure 4.3: callbacks that "function, in effect, like interrupts
//! that signal events".
//!
//! *Unsafe*: callentries pass the notice that they keep.

use crate::kit::class::{Header, OutOfMemory, Ref};
use crate::kit::interfacer::{Callentry, Target};
use crate::kit::regs::Regs;
use alloc::sync::Arc;

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
            TELL => Some(Arc::new(Telling(notice.clone(), &"tell"))),
            GIVE_UP => Some(Arc::new(Telling(notice.clone(), &"give_up"))),
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
struct Telling(Ref<Notice>, &'static &'static str);

extern "sysv64" fn tell_it(notice: *const Notice) -> usize {
    // SAFETY: the callentry passes the notice that it keeps.
    unsafe { &*notice }.tell();
    0
}

impl Callentry for Telling {
    fn name(&self) -> &'static &'static str {
        self.1
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.0.header())
    }
    fn changes(&self) -> Regs {
        Regs::SYSV
    }
    fn entry(&self) -> usize {
        tell_it as *const () as usize
    }
    fn this(&self) -> Option<usize> {
        Some(core::ptr::from_ref(&*self.0).expose_provenance())
    }
    fn is_compiled(&self) -> bool {
        true
    }
}
