//! A thread's share of its CPU follows the data in its channels.
//!
//! *Interface*: [`link`], once at boot, by the room that knows channels; [`Tte::set_quantum_ns`] sets a
//! thread's own quantum, [`Tte::look_up_channels`] has it look for its channels again, which it reports by
//! [`Tte::set_channels`]; [`used_up`] is called at the end of a quantum, with interrupts off.
//!
//! The loop ([`feedback::share`]) runs where time is handed out: at the end of the quantum of a thread that
//! moves data. A thread that blocks before that has what it needs. A thread without channels has its own
//! quantum always, and the timer's generated handler hands it out alone (`tick.rs`); so does not a thread
//! with channels, or one of which nobody knows yet whether it has any. That one is marked, and looks for them
//! when it is next about to enter user mode; a thread that is found running by a sample does so again from
//! time to time.
//! Source: dissertation, section 6.3.1; Massalin and Pu 1989, section 4.4.

use crate::switch::Kind;
use crate::time::timer::ns_to_ticks;
use crate::tte::flags::SEQUENCE;
use crate::tte::{QUANTUM_NS, Tte};
use core::sync::atomic::Ordering;
use feedback::share::{ONE, Share};
use sync::Once;

/// `channels` of a thread of which it is not known.
pub(crate) const UNKNOWN: u32 = u32::MAX;
/// The same, and it is to look before it is in user mode again.
const ASKED: u32 = UNKNOWN - 1;

/// The shortest quantum, nanoseconds.
const SHORTEST_NS: u64 = 50_000;

/// How long a running thread's channels are believed to be the same, nanoseconds: of a thread that has some,
/// and of one that has none.
const BELIEVED_NS: u64 = 20_000_000;
const NONE_BELIEVED_NS: u64 = 200_000_000;

/// The need that the running thread's channels show, −[`NEED`](feedback::share::NEED) to `NEED`; none if
/// nothing has moved in them. Called in an interrupt.
pub type Need = fn() -> Option<i32>;

static NEED: Once<Need> = Once::new();

/// Links the callout.
pub fn link(need: Need) {
    let _ = NEED.set(need);
}

impl Tte {
    /// Sets the thread's own quantum, nanoseconds (at least 50 µs); its turns follow from the next one on.
    pub fn set_quantum_ns(&self, quantum_ns: u64) {
        let quantum_ns = quantum_ns.max(SHORTEST_NS);
        self.own_ns.store(quantum_ns, Ordering::Relaxed);
        self.share.store(ONE, Ordering::Relaxed);
        self.hand_out(quantum_ns);
    }

    /// The thread's own quantum, nanoseconds: that of its turns while its channels show no need.
    pub fn own_quantum_ns(&self) -> u64 {
        self.own_ns.load(Ordering::Relaxed)
    }

    /// When its turn is looked at first, from its beginning, nanoseconds: a longer quantum is looked at
    /// several times, because a thread that follows one which has blocked has no other time for its own
    /// look.
    pub(crate) fn look_ns(&self) -> u64 {
        self.look_ns.load(Ordering::Relaxed)
    }

    /// Its turns are this long from the next one on.
    fn hand_out(&self, quantum_ns: u64) {
        let set = self.look_timer.load(Ordering::Relaxed) != 0;
        if self.quantum_ns() == quantum_ns && set {
            return;
        }
        let look_ns = quantum_ns.min(QUANTUM_NS);
        self.quantum_ns.store(quantum_ns, Ordering::Relaxed);
        self.tell_handler();
        self.look_ns.store(look_ns, Ordering::Relaxed);
        self.look_timer
            .store(machine::apic::timer_ticks(look_ns), Ordering::Relaxed);
    }

    /// Has the timer's handler hand out the thread's time alone, or never: it compares this word only.
    fn tell_handler(&self) {
        let used_up = match self.channels.load(Ordering::Relaxed) {
            0 => {
                let ticks = ns_to_ticks(self.quantum_ns());
                ticks - ticks / 8
            }
            _ => u64::MAX,
        };
        self.used_up.store(used_up, Ordering::Relaxed);
    }

    fn know_channels(&self, channels: u32) {
        self.channels.store(channels, Ordering::Relaxed);
        self.tell_handler();
    }

    /// The channels may be others than before: the thread looks for them at the end of its next quantum.
    pub fn look_up_channels(&self) {
        self.know_channels(UNKNOWN);
    }

    /// The running thread has found so many channels, at time `now_ns` of the Clock.
    pub fn set_channels(&self, count: u32, now_ns: u64) {
        self.channels_ns.store(now_ns, Ordering::Relaxed);
        self.know_channels(count.min(ASKED - 1));
        if count == 0 {
            self.share.store(ONE, Ordering::Relaxed);
            self.hand_out(self.own_quantum_ns());
        }
    }

    /// Channels that it has found; 0 while it has not looked.
    pub fn channels(&self) -> u32 {
        match self.channels.load(Ordering::Relaxed) {
            UNKNOWN | ASKED => 0,
            count => count,
        }
    }

    /// The turn about which the loop moves, in hundredths of its own quantum.
    pub fn share_percent(&self) -> u32 {
        self.share.load(Ordering::Relaxed) * 100 / ONE
    }

    /// Whether it is to look for its channels now.
    pub fn is_asked_for_channels(&self) -> bool {
        self.channels.load(Ordering::Relaxed) == ASKED
    }
}

/// `me` was found running by a sample.
pub(crate) fn sampled(me: &Tte, now: u64) {
    let looked = me.channels_ns.load(Ordering::Relaxed);
    let believed = match me.channels.load(Ordering::Relaxed) {
        0 => NONE_BELIEVED_NS,
        _ => BELIEVED_NS,
    };
    if now.saturating_sub(looked) >= believed {
        ask(me);
    }
}

/// The channels of `me`, which runs, are not known: has it look for them, if it has a user mode to enter.
fn ask(me: &Tte) {
    if Kind::from_bits(me.kind.load(Ordering::Relaxed)).contains(Kind::USER) {
        me.know_channels(ASKED);
        me.state.fetch_or(SEQUENCE, Ordering::AcqRel);
    } else {
        me.know_channels(0);
    }
}

/// `me`, which runs, has used up its quantum, and another thread is ready: how long its next turn is.
pub(crate) fn used_up(me: &Tte) {
    match me.channels.load(Ordering::Relaxed) {
        0 => {}
        UNKNOWN | ASKED => ask(me),
        _ => {
            let Some(need) = NEED.get() else { return };
            let mut share = Share::of(me.share.load(Ordering::Relaxed));
            let need = need();
            let next = match need {
                Some(need) => share.next(need),
                None => share.rest(),
            };
            if need.is_none() && next == ONE {
                // Nothing moves: the short way again, until it next looks for its channels.
                me.know_channels(0);
            }
            me.share.store(share.settled(), Ordering::Relaxed);
            let quantum = me.own_quantum_ns() * u64::from(next) / u64::from(ONE);
            me.hand_out(quantum.max(SHORTEST_NS));
        }
    }
}
