//! The thread that sleeps straight out of a reading routine.
//!
//! *Interface*: an object with such a routine has a [`Sleeper`]: a place for one thread. A routine that finds
//! nothing jumps to the code behind [`RoutineEnv::waiting`](crate::kit::routine_env::RoutineEnv::waiting)
//! with the address of the `Sleeper`, whose first word is a [`Sleep`]; that function answers by
//! [`Sleeper::claim`]. The party that has put something in calls [`Sleeper::wake`] afterwards.
//!
//! No wake-up is lost: both exchange the word with the thread, the sleeper before it looks, the waker after
//! it has published. Whichever exchange comes second knows of the first (modelled below).

use crate::primitive::{AtomicBool, AtomicUsize, Ordering};
use core::mem::offset_of;

/// The function that the code behind [`RoutineEnv::waiting`](crate::kit::routine_env::RoutineEnv::waiting)
/// calls, with interrupts off, to have the running thread woken when something may have come. Its arguments
/// are the address of the [`Sleeper`], and the running thread as the callouts name it. It returns
/// [`Sleep::LEAVE`], [`Sleep::AGAIN`] or [`Sleep::SUSPEND`].
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Sleep(pub extern "sysv64" fn(usize, usize) -> usize);

impl Sleep {
    /// The call goes to the slow exit.
    pub const LEAVE: usize = 0;
    /// The call starts again at once.
    pub const AGAIN: usize = 1;
    /// The thread consumes its token, or sleeps until there is one; then the call starts again. The object
    /// may have been freed by then.
    pub const SUSPEND: usize = 2;
}

/// Offset in a [`Sleeper`] of the word that is not zero while a thread sleeps, for generated code.
pub(crate) const THREAD: usize = offset_of!(Sleeper, thread);

/// The place of one thread.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Sleeper {
    /// First, since its address is that of the whole.
    sleep: Sleep,
    /// As the callouts name it; 0 for none.
    thread: AtomicUsize,
    /// Nobody may sleep: a reader may want `EAGAIN` instead.
    impatient: AtomicBool,
}

impl Sleeper {
    /// An empty place; `sleep` finds its object by the `Sleeper`'s address.
    #[cfg(not(loom))]
    pub const fn new(sleep: Sleep) -> Self {
        Self {
            sleep,
            thread: AtomicUsize::new(0),
            impatient: AtomicBool::new(false),
        }
    }

    /// An empty place.
    #[cfg(loom)]
    pub fn new(sleep: Sleep) -> Self {
        Self {
            sleep,
            thread: AtomicUsize::new(0),
            impatient: AtomicBool::new(false),
        }
    }

    /// As new. Only the caller can reach the object.
    pub fn renew(&self) {
        self.thread.store(0, Ordering::Relaxed);
        self.impatient.store(false, Ordering::Relaxed);
    }

    /// Whether threads may sleep.
    pub fn is_patient(&self) -> bool {
        !self.impatient.load(Ordering::SeqCst)
    }

    /// Says whether threads may sleep.
    pub fn set_patient(&self, patient: bool) {
        self.impatient.store(!patient, Ordering::SeqCst);
    }

    /// The answer of a [`Sleep`] for the thread `me`: takes the place, then calls `look`, which gives the
    /// answer for a thread that has it. Left to the slow exit when another thread has the place.
    #[inline]
    pub fn claim(&self, me: usize, look: impl FnOnce() -> usize) -> usize {
        if !self.is_patient() {
            return Sleep::LEAVE;
        }
        let exchange = |from| {
            self.thread
                .compare_exchange(from, me, Ordering::SeqCst, Ordering::Relaxed)
        };
        match exchange(0) {
            Ok(_) => look(),
            // The thread was woken by something else before. Exchanged once more, for its order.
            Err(before) if before == me => match exchange(me) {
                Ok(_) => look(),
                Err(_) => Sleep::AGAIN,
            },
            Err(_) => Sleep::LEAVE,
        }
    }

    /// Wakes the thread, if there is one. After the publication of what it waits for; from anywhere.
    #[inline]
    pub fn wake(&self) {
        let thread = self.thread.swap(0, Ordering::SeqCst);
        if thread != 0 {
            (sync::callout::get().resume)(thread);
        }
    }
}

#[cfg(test)]
impl Sleeper {
    /// Calls the function as the code behind `RoutineEnv::waiting` does.
    pub fn sleep(&self, me: usize) -> usize {
        (self.sleep.0)(core::ptr::from_ref(self).expose_provenance(), me)
    }

    /// The thread in the place.
    pub fn thread(&self) -> usize {
        self.thread.load(Ordering::SeqCst)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::{Sleep, Sleeper};
    use crate::catalogue::pipe::model::link;
    use crate::primitive::{AtomicUsize, Ordering};
    use loom::sync::Arc;

    extern "sysv64" fn none(_: usize, _: usize) -> usize {
        Sleep::LEAVE
    }

    /// A place, and the number of things that were published.
    fn object() -> Arc<(Sleeper, AtomicUsize)> {
        link();
        Arc::new((Sleeper::new(Sleep(none)), AtomicUsize::new(0)))
    }

    fn claim(object: &(Sleeper, AtomicUsize), me: usize) -> usize {
        object
            .0
            .claim(me, || match object.1.load(Ordering::Relaxed) {
                0 => Sleep::SUSPEND,
                _ => Sleep::AGAIN,
            })
    }

    fn publish(object: &Arc<(Sleeper, AtomicUsize)>) -> loom::thread::JoinHandle<()> {
        let object = object.clone();
        loom::thread::spawn(move || {
            object.1.store(1, Ordering::Relaxed);
            object.0.wake();
        })
    }

    #[test]
    fn a_sleeper_is_woken_by_what_is_published() {
        loom::model(|| {
            let object = object();
            let publisher = publish(&object);
            let answer = claim(&object, 1);
            publisher.join().unwrap();
            assert!(answer == Sleep::AGAIN || object.0.thread() == 0);
        });
    }

    #[test]
    fn so_is_one_that_something_else_had_woken() {
        loom::model(|| {
            let object = object();
            assert_eq!(claim(&object, 1), Sleep::SUSPEND);
            let publisher = publish(&object);
            let answer = claim(&object, 1);
            publisher.join().unwrap();
            assert!(answer == Sleep::AGAIN || object.0.thread() == 0);
        });
    }

    #[test]
    fn one_of_two_has_the_place() {
        loom::model(|| {
            let object = object();
            let other = {
                let object = object.clone();
                loom::thread::spawn(move || claim(&object, 2))
            };
            let answers = [claim(&object, 1), other.join().unwrap()];
            assert!(answers.contains(&Sleep::SUSPEND) && answers.contains(&Sleep::LEAVE));
            assert_eq!(
                object.0.thread(),
                if answers[0] == Sleep::SUSPEND { 1 } else { 2 }
            );
        });
    }
}
