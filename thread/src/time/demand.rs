//! A thread's share of its CPU follows the data in its channels.
//!
//! *Interface*: [`Tte::set_quantum_ns`] sets a thread's own quantum, [`Tte::weigh`] adapts it. [`used_up`] is
//! called at the end of a quantum, with interrupts off. A thread that moves data, or of which nobody knows
//! yet whether it does, is flagged; `process` reports the fill of its channels at its next return to user
//! mode: [`Tte::question`], [`Tte::set_channels`], [`Tte::set_need`].
//!
//! The loop ([`feedback::quantum`]) runs where time is handed out: at the beginning of the turn of a thread
//! that moves data and has used up the one before. A thread that blocks before that has what it needs. A
//! thread without channels has its own quantum always, and the timer's generated handler hands it out alone
//! (`entry/tick.rs`). A thread that is found running by a sample looks for its channels again from time to
//! time.
//! Source: dissertation, section 6.3.1; Massalin and Pu 1989, section 4.4.

use crate::ring::granularity;
use crate::ring::per_cpu::local;
use crate::time::record;
use crate::tte::code::SwitchKind;
use crate::tte::cpu_time::ns_to_ticks;
use crate::tte::flags::SEQUENCE;
use crate::tte::{QUANTUM_NS, Tte, UNKNOWN};
use core::sync::atomic::Ordering;
use feedback::granularity::WHOLE;
use feedback::quantum::{MOST, NEED, ONE, QuantumLoop, most_of};

/// The shortest quantum, nanoseconds.
const SHORTEST_NS: u64 = 50_000;

/// The need from which on a thread is served by short turns. A request that lies in a channel shows less.
const STIRRING: u32 = NEED.unsigned_abs() / 4;

/// How long a running thread's channels are believed to be the same, nanoseconds: of a thread that has some,
/// and of one that has none.
const BELIEVED_NS: u64 = 20_000_000;
const NONE_BELIEVED_NS: u64 = 200_000_000;

/// The question that a thread answers before it is in user mode again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandQuery {
    /// Which channels it has.
    Channels,
    /// The need that they show.
    Need,
}

impl Tte {
    /// Sets the thread's own quantum, nanoseconds (at least 50 µs); its turns follow from the next one on.
    pub fn set_quantum_ns(&self, quantum_ns: u64) {
        let quantum_ns = quantum_ns.max(SHORTEST_NS);
        self.own_ns.store(quantum_ns, Ordering::Relaxed);
        self.share.store(ONE, Ordering::Relaxed);
        self.hand_out(quantum_ns);
    }

    /// Makes the thread's own quantum longer or shorter, nanoseconds; its share of that, by its channels,
    /// stays.
    pub fn weigh(&self, own_ns: u64) {
        let own_ns = own_ns.max(SHORTEST_NS);
        if self.own_ns.swap(own_ns, Ordering::Relaxed) != own_ns {
            let share = u64::from(self.share.load(Ordering::Relaxed));
            self.hand_out((own_ns * share / u64::from(ONE)).max(SHORTEST_NS));
        }
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

    /// Has the timer's handler hand out the thread's time alone, or never: it compares this word only. Never,
    /// while quanta are recorded.
    pub(crate) fn tell_handler(&self) {
        let used_up = match self.channels.load(Ordering::Relaxed) {
            0 if !self.is_urgent() && !record::is_on() => {
                let ticks = ns_to_ticks(self.quantum_ns());
                (ticks - ticks / 8) * u64::from(WHOLE)
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
        self.know_channels(count.min(UNKNOWN - 1));
        if count == 0 {
            self.share.store(ONE, Ordering::Relaxed);
            self.hand_out(self.own_quantum_ns());
        }
    }

    /// Channels that it has found; 0 while it has not looked.
    pub fn channels(&self) -> u32 {
        match self.channels.load(Ordering::Relaxed) {
            UNKNOWN => 0,
            count => count,
        }
    }

    /// The turn about which the loop moves, in hundredths of its own quantum.
    pub fn share_percent(&self) -> u32 {
        self.share.load(Ordering::Relaxed) * 100 / ONE
    }

    /// The question to the running thread, once.
    pub fn question(&self) -> Option<DemandQuery> {
        if !self.is_asked.swap(false, Ordering::Relaxed) {
            return None;
        }
        Some(match self.channels.load(Ordering::Relaxed) {
            UNKNOWN => DemandQuery::Channels,
            _ => DemandQuery::Need,
        })
    }

    /// The need of the running thread, −[`NEED`] to `NEED`; none if nothing moves in
    /// its channels: how long its turn is, which has begun. `of_device`: its data are a device's.
    pub fn set_need(&self, need: Option<i32>, of_device: bool) {
        let mut share = QuantumLoop::of(self.share.load(Ordering::Relaxed));
        let local = local(self.cpu());
        let most = match of_device {
            true => most_of(local.ring.all_ready()),
            false => MOST,
        };
        if of_device || need.is_some_and(|need| need.unsigned_abs() >= STIRRING) {
            granularity::stir(local);
        }
        let next = match need {
            Some(need) => share.next_within(need, most),
            None => share.rest(),
        };
        if need.is_none() && next == ONE {
            // Nothing moves: the short way again, until it next looks for its channels.
            self.know_channels(0);
        }
        self.share.store(share.settled(), Ordering::Relaxed);
        let quantum = self.own_quantum_ns() * u64::from(next) / u64::from(ONE);
        self.hand_out(quantum.max(SHORTEST_NS));
    }
}

/// `me` was found running by a sample.
pub(crate) fn sampled(me: &Tte, now: u64) {
    if me.is_urgent() {
        return;
    }
    let looked = me.channels_ns.load(Ordering::Relaxed);
    let believed = match me.channels.load(Ordering::Relaxed) {
        0 => NONE_BELIEVED_NS,
        _ => BELIEVED_NS,
    };
    if now.saturating_sub(looked) >= believed {
        me.look_up_channels();
        ask(me);
    }
}

/// Asks `me`, which runs, if it has a user mode to enter.
fn ask(me: &Tte) {
    if SwitchKind::from_bits(me.kind.load(Ordering::Relaxed)).contains(SwitchKind::USER) {
        me.is_asked.store(true, Ordering::Relaxed);
        me.state.fetch_or(SEQUENCE, Ordering::AcqRel);
    } else {
        me.know_channels(0);
    }
}

/// `me`, which runs, has used up its quantum, and another thread is ready.
pub(crate) fn used_up(me: &Tte) {
    match me.channels.load(Ordering::Relaxed) {
        0 => record::quantum(me, None, &[]),
        _ => ask(me),
    }
}
