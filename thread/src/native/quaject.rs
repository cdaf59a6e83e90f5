//! The Thread as a class: each member names one thread, whose operations are its callentries.
//!
//! *Interface*: [`make`] for those who make quajects by name. A member is for a thread and a number: `signal`
//! and `setsignal` are about the entry of that number in the thread's signal table, `wait` and `notify` about
//! the event of that number. `interrupt` and `setsignal` have a procedure as argument, the others none. The
//! work of a call, and whether the caller may make it, is the business of the room that makes a member
//! ([`ThreadControl`]): it is asked at each call, so a member gives no rights.
//!
//! `signal` and `notify` have the signature `Event`: another's callback may be linked to them, such as a
//! clock's `rang`. Then there is no caller to be asked; so the linking thread is asked, and no other
//! callentry can be linked to: a thread's program has filled its table, and the next program begins with an
//! empty one.
//!
//! A member keeps nothing of its thread. When that has ended, a call gives ESRCH and a link does nothing.
//!
//! Source: dissertation, sections 4.3.2 and 3.3.4.

use crate::tte::by_handle;
use ::quaject::by_name::Quaject;
use ::quaject::class::{Header, OutOfMemory, Ref, create};
use ::quaject::compiled::callentry;
use ::quaject::interfacer::Target;
use ::quaject::maker::{Callable, Made, Unable};
use ::quaject::signature::Event;
use abi::errno::Errno;
use abi::native;
use alloc::sync::Arc;
use core::any::Any;

/// A thread's handle as a quaject.
#[derive(Clone, Copy, Debug)]
pub struct ThreadQuaject {
    /// The thread's handle.
    pub thread: u64,
    /// The number of an entry of its signal table, and of an event.
    pub number: u32,
    /// How it is steered.
    pub how: &'static ThreadControl,
}

/// The operations that `abi::native` numbers, for the running thread.
#[derive(Debug)]
pub struct ThreadControl {
    /// Does one, with its argument, if the running thread may.
    pub act: fn(ThreadQuaject, operation: usize, argument: usize) -> Result<usize, Errno>,
    /// Whether the running thread may.
    pub may: fn(ThreadQuaject, operation: usize) -> Result<(), Errno>,
}

::quaject::quaject! {
    /// Implements threads
    class ThreadQuaject = "Thread", spec ThreadQuaject, error OutOfMemory {
        callentry {
            SUSPEND = "suspend", RESUME = "resume", STOP = "stop", STEP = "step", INTERRUPT = "interrupt",
            SIGNAL: Event = "signal", SETSIGNAL = "setsignal", WAIT = "wait", NOTIFY: Event = "notify",
            STATE = "state", DESTROY = "destroy",
        }
    }
    make |spec, _| Ok(spec);
    callentry |thread: &Ref<ThreadQuaject>, number| -> Option<Target> {
        match number {
            SIGNAL => Some(callentry(thread, &"signal", 0, signal)),
            NOTIFY => Some(callentry(thread, &"notify", 0, notify)),
            _ => None,
        }
    };
}

/// Operations, by the numbers of their callentries.
const OPERATIONS: [usize; 11] = [
    native::SUSPEND,
    native::RESUME,
    native::STOP,
    native::STEP,
    native::INTERRUPT,
    native::SIGNAL,
    native::SETSIGNAL,
    native::WAIT,
    native::NOTIFY,
    native::STATE,
    native::DESTROY,
];

const _: () =
    assert!(OPERATIONS[SIGNAL] == native::SIGNAL && OPERATIONS[DESTROY] == native::DESTROY);

/// Makes one; `paid` is kept with it.
///
/// # Errors
/// ENOMEM.
pub fn make(spec: ThreadQuaject, paid: Arc<dyn Any + Send + Sync>) -> Result<Made, Errno> {
    let made = create::<ThreadQuaject>(spec).map_err(|OutOfMemory| Errno::ENOMEM)?;
    Ok(Made::of(Called(made), paid))
}

/// A member that is called by number.
struct Called(Ref<ThreadQuaject>);

impl Quaject for Called {
    fn header(&self) -> &'static Header {
        self.0.header()
    }
    fn target(&self, number: usize) -> Option<Target> {
        self.0.target(number)
    }
}

impl Callable for Called {
    fn call(&self, number: usize, argument: u64) -> Result<u64, Unable> {
        let operation = OPERATIONS.get(number).ok_or(Unable::NoSuchCallentry)?;
        let done = (self.0.how.act)(*self.0, *operation, argument as usize);
        done.map(|result| result as u64).map_err(Unable::Refused)
    }
    fn may_be_linked(&self, number: usize) -> Result<(), Errno> {
        let operation = OPERATIONS.get(number).ok_or(Errno::ENOENT)?;
        (self.0.how.may)(*self.0, *operation)
    }
}

extern "sysv64" fn signal(told: &ThreadQuaject) -> usize {
    if let Some(thread) = by_handle(told.thread) {
        // Without such an entry, or with too many procedures pending, nothing happens.
        let _ = thread.signal(told.number as usize);
    }
    0
}

extern "sysv64" fn notify(told: &ThreadQuaject) -> usize {
    if let Some(thread) = by_handle(told.thread) {
        thread.notify(told.number);
    }
    0
}
