//! Pending signals: a mask, and their `siginfo` in order.
//!
//! *Interface*: [`PendingSignals::add`], [`PendingSignals::take`], [`PendingSignals::remove`];
//! [`PendingMask::get`] returns the set of pending signals. A standard signal is pending at most once; a
//! real-time signal as often as it was sent, in order; a timer's signal once for each timer.
//!
//! Each [`PendingSignals`] is under a monitor, and beside the monitor is a [`PendingMask`], which its methods
//! get and which any thread may read. So a mere check for pending signals takes no monitor. A sender adds to
//! the mask and then checks whether a thread takes the signal ([`Task::takes`](crate::process::Task)); a
//! thread that unblocks the signal, or waits for it, records that and then checks the mask. All four accesses
//! are sequentially consistent: either the sender finds the thread willing and alerts it, or the thread finds
//! the signal. The converse holds for a thread that stops taking signals: a sender that still found it
//! willing has added to the mask before. On the way to user mode a thread clears its attention mark before it
//! checks, and a sender sets that mark after the signal mask. Both change one word, so the thread that
//! cleared the mark sees the signals for which it was set, and a later mark stays.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::linux::{SI_USER, SIGRTMIN, Siginfo};
use alloc::collections::VecDeque;
use codegen::fault_injection::refused;

use super::set::{SYNCHRONOUS, bit};
use account::user::Charge;

/// The most entries of one queue, whatever the limits say.
const QUEUE_MAX: usize = 1024;

/// An expiration of a timer that must be signalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerExpiry {
    /// The timer's place among those of its process, below 64.
    pub index: u8,
    /// The timer's name, [`LIFE_BITS`] of them.
    pub life: u32,
    /// Its signal waits beside another with its number; else one of both is enough.
    pub apart: bool,
}

/// The origin of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalOrigin {
    /// It was sent.
    Sent,
    /// From a timer, which continues when the signal is taken.
    Timer(TimerExpiry),
}

/// Bits of [`TimerExpiry::life`].
pub const LIFE_BITS: u32 = 24;
const TIMER: u32 = 1 << 31;
const APART: u32 = 1 << 30;

impl SignalOrigin {
    /// In a word that a `siginfo` has room for while it waits.
    fn word(self) -> i32 {
        let word = match self {
            SignalOrigin::Sent => 0,
            SignalOrigin::Timer(TimerExpiry { index, life, apart }) => {
                let apart = if apart { APART } else { 0 };
                TIMER | apart | u32::from(index) << LIFE_BITS | life
            }
        };
        word as i32
    }

    fn from_word(word: i32) -> SignalOrigin {
        let word = word as u32;
        if word & TIMER == 0 {
            return SignalOrigin::Sent;
        }
        SignalOrigin::Timer(TimerExpiry {
            index: (word >> LIFE_BITS & 0x3f) as u8,
            life: word & ((1 << LIFE_BITS) - 1),
            apart: word & APART != 0,
        })
    }
}

/// The outcome of adding a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// It waits.
    Waits,
    /// A signal with its number is already pending, and stands for both.
    Merged,
    /// The queue is full or memory short.
    Refused,
}

/// Which signals wait, a bit each. Changed by the holder of the [`PendingSignals`] only.
#[derive(Default)]
pub struct PendingMask(AtomicU64);

impl PendingMask {
    /// As it is at this moment.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn set(&self, mask: u64) {
        self.0.store(mask, Ordering::SeqCst);
    }
}

/// Signals that wait.
#[derive(Default)]
pub struct PendingSignals {
    queue: VecDeque<Entry>,
}

/// A pending signal.
struct Entry {
    /// With its origin in the otherwise unused padding.
    info: Siginfo,
    /// The charge to the receiving user; a timer is charged for its own signal.
    _charge: Option<Charge>,
}

/// Whether the limit of waiting signals does not matter for `info`: the kernel and `kill` say what happened,
/// `sigqueue` asks for a place of its own.
pub(crate) fn has_place(info: &Siginfo) -> bool {
    info.signo < SIGRTMIN && info.code >= 0
}

impl PendingSignals {
    /// Nothing pending.
    pub const fn new() -> PendingSignals {
        PendingSignals {
            queue: VecDeque::new(),
        }
    }

    /// Adds a signal, with `charge` if it was sent. Without a place, a real-time signal with a value is
    /// refused; other signals lose their information.
    #[expect(clippy::disallowed_methods, reason = "room may be refused")]
    pub fn add(
        &mut self,
        mask: &PendingMask,
        info: &Siginfo,
        origin: SignalOrigin,
        charge: Option<Charge>,
    ) -> AddOutcome {
        let (this, before) = (bit(info.signo), mask.get());
        let apart = matches!(origin, SignalOrigin::Timer(TimerExpiry { apart: true, .. }));
        if info.signo < SIGRTMIN && before & this != 0 && !apart {
            return AddOutcome::Merged;
        }
        let paid = charge.is_some() || origin != SignalOrigin::Sent;
        if paid && self.queue.len() < QUEUE_MAX && !refused() && self.queue.try_reserve(1).is_ok() {
            let pad0 = origin.word();
            self.queue.push_back(Entry {
                info: Siginfo { pad0, ..*info },
                _charge: charge,
            });
        } else if info.signo >= SIGRTMIN && info.code != SI_USER || origin != SignalOrigin::Sent {
            return AddOutcome::Refused;
        }
        mask.set(before | this);
        AddOutcome::Waits
    }

    /// Takes the next one out of `set`, faults first, then by rising number; `None`, and nothing in `into`,
    /// when there is none.
    pub fn take(
        &mut self,
        mask: &PendingMask,
        set: u64,
        into: &mut Siginfo,
    ) -> Option<SignalOrigin> {
        let ready = mask.get() & set;
        if ready == 0 {
            return None;
        }
        let urgent = if ready & SYNCHRONOUS != 0 {
            ready & SYNCHRONOUS
        } else {
            ready
        };
        let signo = urgent.trailing_zeros() as i32 + 1;
        let place = self
            .queue
            .iter()
            .position(|entry| entry.info.signo == signo);
        let entry = match place {
            Some(0) => self.queue.pop_front(),
            Some(at) => self.queue.remove(at),
            None => None,
        };
        match entry {
            Some(entry) => *into = entry.info,
            // It found no place when it was sent.
            None => {
                *into = Siginfo {
                    signo,
                    ..Siginfo::default()
                }
            }
        }
        let origin = SignalOrigin::from_word(core::mem::take(&mut into.pad0));
        let more = self.queue.iter().any(|entry| entry.info.signo == signo);
        if !more {
            mask.set(mask.get() & !bit(signo));
        }
        Some(origin)
    }

    /// The information of the signal at `place`, in order; none beyond the last.
    pub fn peek(&self, place: usize) -> Option<Siginfo> {
        let entry = self.queue.get(place)?;
        Some(Siginfo {
            pad0: 0,
            ..entry.info
        })
    }

    /// Drops all of `set`. Returns the timers whose signals were among them, a bit each.
    pub fn remove(&mut self, mask: &PendingMask, set: u64) -> u64 {
        let mut timers = 0;
        let before = mask.get();
        if before & set != 0 {
            mask.set(before & !set);
            self.queue.retain(|Entry { info, .. }| {
                let goes = bit(info.signo) & set != 0;
                if let SignalOrigin::Timer(expiry) = SignalOrigin::from_word(info.pad0)
                    && goes
                {
                    timers |= 1 << expiry.index;
                }
                !goes
            });
        }
        timers
    }

    /// Drops the signals of timers with numbers from `first` on: `exec` has deleted these.
    pub fn remove_timers(&mut self, mask: &PendingMask, first: u8) {
        let (mut gone, mut kept) = (0, 0);
        self.queue.retain(|Entry { info, .. }| {
            let stays = match SignalOrigin::from_word(info.pad0) {
                SignalOrigin::Timer(expiry) => expiry.index < first,
                SignalOrigin::Sent => true,
            };
            *(if stays { &mut kept } else { &mut gone }) |= bit(info.signo);
            stays
        });
        mask.set(mask.get() & !(gone & !kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::linux::*;
    use account::user::{Resource, User};

    fn info(signo: i32, code: i32) -> Siginfo {
        Siginfo {
            signo,
            code,
            ..Siginfo::default()
        }
    }

    /// Both together.
    #[derive(Default)]
    struct Waiting(PendingSignals, PendingMask);

    impl Waiting {
        fn add(&mut self, info: &Siginfo, origin: SignalOrigin) -> AddOutcome {
            let user = User::of(70_003).unwrap();
            let charge = user.charge(Resource::Signals, 1, u64::MAX);
            self.0.add(&self.1, info, origin, charge)
        }

        fn take(&mut self, set: u64, into: &mut Siginfo) -> Option<SignalOrigin> {
            self.0.take(&self.1, set, into)
        }

        fn remove(&mut self, set: u64) -> u64 {
            self.0.remove(&self.1, set)
        }

        fn mask(&self) -> u64 {
            self.1.get()
        }
    }

    fn sent(pending: &mut Waiting, info: Siginfo) -> AddOutcome {
        pending.add(&info, SignalOrigin::Sent)
    }

    fn timer(index: u8, apart: bool) -> SignalOrigin {
        SignalOrigin::Timer(TimerExpiry {
            index,
            life: 1,
            apart,
        })
    }

    fn taken(pending: &mut Waiting, set: u64) -> Option<Siginfo> {
        let mut info = Siginfo::default();
        pending.take(set, &mut info).map(|_| info)
    }

    #[test]
    fn standard_signals_wait_once_and_real_time_ones_queue() {
        let mut pending = Waiting::default();
        for code in 0..3 {
            let added = if code == 0 {
                AddOutcome::Waits
            } else {
                AddOutcome::Merged
            };
            assert_eq!(sent(&mut pending, info(SIGUSR1, code)), added);
            assert_eq!(sent(&mut pending, info(40, code)), AddOutcome::Waits);
        }
        let all = u64::MAX;
        assert_eq!(
            taken(&mut pending, all).map(|i| (i.signo, i.code)),
            Some((SIGUSR1, 0))
        );
        for code in 0..3 {
            assert_eq!(
                taken(&mut pending, all).map(|i| (i.signo, i.code)),
                Some((40, code))
            );
        }
        assert_eq!(taken(&mut pending, all), None);
        assert_eq!(pending.mask(), 0);
    }

    #[test]
    fn faults_come_first_and_masks_hold_back() {
        let mut pending = Waiting::default();
        sent(&mut pending, info(SIGHUP, 0));
        sent(&mut pending, info(SIGSEGV, 1));
        assert_eq!(taken(&mut pending, !bit(SIGSEGV)).unwrap().signo, SIGHUP);
        sent(&mut pending, info(SIGHUP, 0));
        assert_eq!(taken(&mut pending, u64::MAX).unwrap().signo, SIGSEGV);
        pending.remove(bit(SIGHUP));
        assert_eq!(taken(&mut pending, u64::MAX), None);
    }

    #[test]
    fn signals_of_deleted_timers_go_and_others_stay() {
        let mut pending = Waiting::default();
        for (signo, origin) in [
            (SIGUSR1, timer(7, true)),
            (SIGUSR2, timer(7, true)),
            (SIGUSR2, timer(3, true)),
            (SIGALRM, timer(0, false)),
            (50, SignalOrigin::Sent),
            (50, timer(9, true)),
        ] {
            pending.add(&info(signo, 0), origin);
        }
        sent(&mut pending, info(SIGTERM, 0));
        pending.0.remove_timers(&pending.1, 4);
        let left = [SIGUSR2, SIGALRM, 50, SIGTERM];
        assert_eq!(
            pending.mask(),
            left.iter().fold(0, |set, signo| set | bit(*signo))
        );
        for signo in [SIGUSR2, SIGALRM, SIGTERM, 50] {
            assert_eq!(taken(&mut pending, bit(signo)).unwrap().signo, signo);
        }
        assert_eq!(pending.mask(), 0);
    }

    #[test]
    fn a_full_queue_refuses_real_time_but_not_standard_signals() {
        let mut pending = Waiting::default();
        while sent(&mut pending, info(50, SI_QUEUE)) != AddOutcome::Refused {}
        // Losing its value does no harm.
        assert_eq!(sent(&mut pending, info(51, SI_USER)), AddOutcome::Waits);
        assert_eq!(taken(&mut pending, bit(51)).unwrap().signo, 51);
        assert_eq!(sent(&mut pending, info(SIGTERM, 0)), AddOutcome::Waits);
        assert_eq!(
            pending.add(&info(SIGALRM, 0), timer(4, true)),
            AddOutcome::Refused
        );
        assert_eq!(taken(&mut pending, bit(SIGTERM)).unwrap().signo, SIGTERM);
        let user = User::of(70_003).unwrap();
        assert_eq!(user.holds(Resource::Signals), QUEUE_MAX as u64);
        assert_eq!(pending.remove(u64::MAX), 0);
        assert_eq!(user.holds(Resource::Signals), 0);
    }

    #[test]
    fn what_is_not_paid_for_is_refused_or_loses_what_is_known() {
        let (mut pending, mask) = (PendingSignals::new(), PendingMask::default());
        let mut unpaid = |info: &Siginfo| pending.add(&mask, info, SignalOrigin::Sent, None);
        assert_eq!(unpaid(&info(50, SI_QUEUE)), AddOutcome::Refused);
        assert_eq!(unpaid(&info(51, SI_USER)), AddOutcome::Waits);
        assert_eq!(unpaid(&info(SIGUSR1, SI_QUEUE)), AddOutcome::Waits);
        let mut into = Siginfo::default();
        assert!(pending.take(&mask, u64::MAX, &mut into).is_some());
        assert_eq!((into.signo, into.code), (SIGUSR1, 0));
    }

    #[test]
    fn an_origin_fits_a_word_and_what_users_put_there_is_none() {
        for index in [0, 34, 63] {
            let life = (1 << LIFE_BITS) - 1;
            for apart in [false, true] {
                let origin = SignalOrigin::Timer(TimerExpiry { index, life, apart });
                assert_eq!(SignalOrigin::from_word(origin.word()), origin);
            }
        }
        let mut pending = Waiting::default();
        let forged = Siginfo {
            pad0: timer(3, true).word(),
            ..info(SIGUSR1, SI_TIMER)
        };
        sent(&mut pending, forged);
        let mut into = Siginfo::default();
        assert_eq!(pending.take(u64::MAX, &mut into), Some(SignalOrigin::Sent));
        assert_eq!(into.pad0, 0);
    }

    #[test]
    fn each_timer_has_its_own_entry_beside_what_was_sent() {
        let mut pending = Waiting::default();
        sent(&mut pending, info(SIGALRM, 0));
        assert_eq!(
            pending.add(&info(SIGALRM, 1), timer(0, false)),
            AddOutcome::Merged
        );
        for index in 3..5 {
            assert_eq!(
                pending.add(&info(SIGALRM, 2), timer(index, true)),
                AddOutcome::Waits
            );
        }
        assert_eq!(sent(&mut pending, info(SIGALRM, 0)), AddOutcome::Merged);
        let mut into = Siginfo::default();
        let all = u64::MAX;
        assert_eq!(pending.take(all, &mut into), Some(SignalOrigin::Sent));
        assert_eq!(pending.take(all, &mut into), Some(timer(3, true)));
        assert_eq!(pending.mask(), bit(SIGALRM));
        assert_eq!(pending.remove(bit(SIGALRM)), 1 << 4);
        assert_eq!(pending.take(all, &mut into), None);
    }
}
