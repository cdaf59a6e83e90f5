//! The timers of a process, and the clocks that they follow.
//!
//! *Interface*: [`ProcessTimers`], a [`Timer`] each, with its [`TimerClock`], its [`ArmedAlarm`] while it is
//! armed, and how it tells ([`Notify`]). The room's part `time` sets them, and `signal` makes signals of
//! those that have rung.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use account::user::Charge;
use sync::Monitor;
use thread::clock;

/// A clock of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerClock {
    /// Since 1970.
    Real,
    /// Atomic time: the same without leap seconds.
    Atomic,
    /// Since the machine started.
    Monotonic,
    /// CPU time.
    Cpu(CpuClock),
}

/// The process or thread, by number, and the kind of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuClock {
    pub(crate) who: i32,
    pub(crate) of_thread: bool,
    /// The program's own time only.
    pub(crate) user: bool,
    /// To the nanosecond.
    pub(crate) exact: bool,
}

/// Something that will happen at a moment, unless dropped before.
pub(crate) struct ArmedAlarm {
    id: clock::AlarmId,
    at_ns: u64,
}

impl ArmedAlarm {
    /// Alarm `id`, which has been set for `at_ns` nanoseconds.
    #[inline(always)]
    pub(crate) fn set(id: clock::AlarmId, at_ns: u64) -> ArmedAlarm {
        ArmedAlarm { id, at_ns }
    }

    /// It has happened.
    pub(crate) fn forget(self) {
        core::mem::forget(self);
    }

    /// Its moment, nanoseconds.
    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns
    }
}

impl Drop for ArmedAlarm {
    fn drop(&mut self) {
        // An alarm that rings meanwhile finds its timer disarmed, or not yet expired.
        clock::cancel(self.id);
    }
}

/// How a timer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The signal, 0 for none.
    pub signo: i32,
    /// The value for `si_value`.
    pub value: u64,
    /// The thread that gets it, 0 for the process.
    pub tid: i32,
}

/// A timer of `create`, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PosixTimer {
    /// How it tells.
    pub notify: Notify,
    /// The requested `CLOCK_…`.
    pub clock: i32,
}

pub(crate) struct Timer {
    /// The `TimerId` (`time/timer_interrupt.rs`) of its alarms.
    pub(crate) timer_id: usize,
    pub(crate) clock: TimerClock,
    /// The number of the clock that was asked for.
    pub(crate) named: i32,
    /// The clock of `expires`: a relative expiration is not adjusted when the real-time clock is set.
    pub(crate) base: TimerClock,
    pub(crate) notify: Notify,
    /// When it expires next, or when it did if its signal waits, on `base`; 0: disarmed.
    pub(crate) expires: u64,
    pub(crate) interval: u64,
    /// The overrun of the signal that was taken last.
    pub(crate) overrun: u64,
    pub(crate) posix: bool,
    /// Of `create`, on the monotonic clock.
    pub(crate) plain: bool,
    /// None of its process's timers that may still have a signal waiting has this number, and no signal of
    /// this one waits that was sent before it was set.
    pub(crate) life: u32,
    /// Its signal waits to be taken.
    pub(crate) waiting: bool,
    pub(crate) alarm: Option<ArmedAlarm>,
    /// The charge to the creating user, for the signal that it sends.
    pub(crate) _charge: Option<Charge>,
}

/// The fixed ones: `ITIMER_REAL`, `ITIMER_VIRTUAL`, `ITIMER_PROF`, and that of the limit of CPU time.
pub const FIXED: usize = LIMIT + 1;
/// That one, which is never armed as others are: `signal/rlimit_cpu.rs` rings it.
pub(crate) const LIMIT: usize = 3;
/// The most timers of one process.
pub(crate) const TIMERS_MAX: usize = FIXED + 32;

/// The right to make signals of a process's timers.
#[derive(Default)]
pub(crate) struct ExpiryTurn;

/// The bit of [`ProcessTimers::rung`] that is set while a thread makes signals of those that have rung:
/// another thread that checks the process's signals meanwhile waits for it.
pub(crate) const UNSETTLED: u64 = 1 << 63;
const _: () = assert!(TIMERS_MAX < 63);

/// The timers of one process.
#[derive(Default)]
pub struct ProcessTimers {
    pub(crate) table: Monitor<Vec<Option<Timer>>>,
    /// The timers that have rung since the last check, a bit each, and [`UNSETTLED`].
    pub(crate) rung: AtomicU64,
    pub(crate) settling: Monitor<ExpiryTurn>,
}

/// Offset of the word of those that have rung, for generated code.
pub(crate) const RUNG: usize = core::mem::offset_of!(ProcessTimers, rung);

impl ProcessTimers {
    /// Timer `index` has rung. From anywhere.
    pub(crate) fn note(&self, index: usize) {
        self.rung.fetch_or(1 << index, Ordering::SeqCst);
    }

    /// Whether one has rung whose signal does not wait yet.
    #[inline(always)]
    pub(crate) fn have_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst) != 0
    }
}
