//! `Pending`: the one time at which a clock is to ring, which any threads set and cancel while it may ring.
//!
//! *Interface*: [`Pending::set`], [`Pending::cancel`], [`Pending::rings`] for an alarm's procedure,
//! [`Pending::end`]. The alarms themselves are the [`Alarms`]'s.
//!
//! The word with the time decides: the party that takes the time out of it rings, or has cancelled it. An
//! alarm of a heap only makes somebody look, so one that comes too early, or for a time that was replaced,
//! does no harm. A clock has at most one, beside those that are being set: a party that sets one cancels the
//! one before, and then looks whether its time is still the one that is wanted. A cancelled time leaves its
//! alarm in the heap, until that comes or the next is set.
//! Progress: setting is lock-free, the rest wait-free.

use super::primitive::{AtomicU64, Ordering, constructor};

/// No time.
const NEVER: u64 = u64::MAX;
/// No alarm.
const NONE: u64 = 0;

/// Where alarms are set.
pub(crate) trait Alarms {
    /// Sets one; its name, which is not 0. None: there is no room.
    fn set(&self, at_ns: u64) -> Option<u64>;
    /// Cancels one, which may have come.
    fn cancel(&self, alarm: u64);
}

/// No room for an alarm.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// The time of one clock.
pub(crate) struct Pending {
    /// When it is to ring, or [`NEVER`].
    due_ns: AtomicU64,
    /// The alarm that was set last, or [`NONE`].
    alarm: AtomicU64,
}

impl Pending {
    constructor! {
        /// It is not to ring.
        pub fn new() -> Self {
            Pending {
                due_ns: AtomicU64::new(NEVER),
                alarm: AtomicU64::new(NONE),
            }
        }
    }

    /// It is to ring at `at_ns`, and not when it was to ring before; whether it was. After an error it is not
    /// to ring.
    pub fn set(&self, at_ns: u64, alarms: &impl Alarms) -> Result<bool, NoRoom> {
        let mut at_ns = at_ns.min(NEVER - 1);
        let before = self.due_ns.swap(at_ns, Ordering::SeqCst);
        loop {
            let Some(alarm) = alarms.set(at_ns) else {
                // Unless somebody else has set another time meanwhile, who then sets its alarm.
                let _ =
                    self.due_ns
                        .compare_exchange(at_ns, NEVER, Ordering::SeqCst, Ordering::SeqCst);
                return Err(NoRoom);
            };
            let old = self.alarm.swap(alarm, Ordering::SeqCst);
            if old != NONE {
                alarms.cancel(old);
            }
            // The alarm that was cancelled may have been that of a later time.
            match self.due_ns.load(Ordering::SeqCst) {
                NEVER => break,
                due_ns if due_ns == at_ns => break,
                due_ns => at_ns = due_ns,
            }
        }
        Ok(before != NEVER)
    }

    /// It is not to ring; whether it was to.
    pub fn cancel(&self) -> bool {
        self.due_ns.swap(NEVER, Ordering::SeqCst) != NEVER
    }

    /// It is `now_ns`, and an alarm has come: whether the caller is to ring.
    pub fn rings(&self, now_ns: u64) -> bool {
        let mut due_ns = self.due_ns.load(Ordering::SeqCst);
        while due_ns <= now_ns {
            let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
            match self.due_ns.compare_exchange(due_ns, NEVER, set, fetch) {
                Ok(_) => return true,
                Err(now) => due_ns = now,
            }
        }
        false
    }

    /// It is not to ring, and no alarm is left but one that has come. Nobody sets it meanwhile.
    pub fn end(&self, alarms: &impl Alarms) {
        self.cancel();
        let alarm = self.alarm.swap(NONE, Ordering::SeqCst);
        if alarm != NONE {
            alarms.cancel(alarm);
        }
    }
}
