//! The recorder: the latest quanta that were handed out, and why they are as long as they are.
//!
//! *Interface*: [`begin`] and [`end`]; [`quantum`] notes one, [`event`] gives one back. The events that a CPU
//! has noted since [`begin`] have the numbers from [`since`] on; [`numbers`] are those that are still kept.
//!
//! While the recorder is off it costs the timer's handler and a switch nothing: Rust does not even see the
//! end of a quantum of a thread without channels. While it is on, each quantum ends in Rust (`demand.rs`),
//! and is noted. A thread that blocks before that has no event. Each CPU has a ring of [`SIZE`] events, which
//! forgets the oldest. The rings are made when the recorder is first on, and stay.

use crate::tte::{NAME_LEN, Tte, for_each};
use abi::errno::Result;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use machine::clock::now_ns;
use machine::cpu::{MAX_CPUS, irq_restore, irq_save, present, this_cpu};
use sync::seqlock_ring::Place;
use sync::{Once, SeqlockRing};
use vm::fallible::{try_push, try_reserve};

/// Events that are kept for each CPU.
pub const SIZE: usize = 2048;
/// Channels of a thread that an event has.
pub const CHANNELS: usize = 8;
const WORDS: usize = 5 + NAME_LEN / 8 + CHANNELS;

/// A thread's channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Whether the thread puts into it, or takes out.
    pub writes: bool,
    /// Bytes in it, at most 2³¹ − 1.
    pub held: u32,
    /// Bytes that it has room for.
    pub size: u32,
}

/// A quantum that was handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// When, by the Clock.
    pub at_ns: u64,
    /// The thread's tag ([`Tte::tag`]).
    pub tag: u64,
    /// The CPU time that it has used so far.
    pub used_ns: u64,
    /// Its own quantum.
    pub own_ns: u32,
    /// The quantum.
    pub quantum_ns: u32,
    /// The quantum about which the loop moves, in hundredths of its own.
    pub settled_percent: u32,
    /// The need that its channels show, if something moves in them.
    pub need: Option<i16>,
    /// Its name, padded with zeros.
    pub name: [u8; NAME_LEN],
    /// Its channels; those with room for nothing are none.
    pub fills: [Fill; CHANNELS],
}

/// Stands for no need.
const NO_NEED: i16 = i16::MIN;

impl Fill {
    fn word(self) -> u64 {
        let held = u64::from(self.held & (u32::MAX >> 1));
        u64::from(self.writes) << 63 | held << 32 | u64::from(self.size)
    }

    fn of(word: u64) -> Fill {
        Fill {
            writes: word >> 63 != 0,
            held: (word >> 32) as u32 & (u32::MAX >> 1),
            size: word as u32,
        }
    }
}

impl Event {
    fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let (need, name) = (self.need.unwrap_or(NO_NEED), self.name.as_chunks().0);
        words[0] = self.at_ns;
        words[1] = self.tag;
        words[2] = self.used_ns;
        words[3] = u64::from(self.own_ns) << 32 | u64::from(self.quantum_ns);
        words[4] = u64::from(self.settled_percent) << 32 | u64::from(need.cast_unsigned());
        let rest = name.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let rest = rest.chain(self.fills.iter().map(|fill| fill.word()));
        words[5..]
            .iter_mut()
            .zip(rest)
            .for_each(|(word, value)| *word = value);
        words
    }

    fn of(words: &[u64; WORDS]) -> Event {
        let (names, fills) = words[5..].split_at(NAME_LEN / 8);
        let need = (words[4] as u16).cast_signed();
        let mut event = Event {
            at_ns: words[0],
            tag: words[1],
            used_ns: words[2],
            own_ns: (words[3] >> 32) as u32,
            quantum_ns: words[3] as u32,
            settled_percent: (words[4] >> 32) as u32,
            need: (need != NO_NEED).then_some(need),
            ..Event::default()
        };
        for (bytes, word) in event.name.chunks_exact_mut(8).zip(names) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        for (fill, word) in event.fills.iter_mut().zip(fills) {
            *fill = Fill::of(*word);
        }
        event
    }
}

static ON: AtomicBool = AtomicBool::new(false);
static RINGS: Once<Vec<SeqlockRing<WORDS>>> = Once::new();
static SINCE: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

fn ring(cpu: usize) -> Option<&'static SeqlockRing<WORDS>> {
    RINGS.get()?.get(cpu)
}

/// Whether the recorder is on.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Turns the recorder on; earlier events are forgotten. ENOMEM.
pub fn begin() -> Result<()> {
    if RINGS.get().is_none() {
        let mut rings = Vec::new();
        for _ in 0..present() {
            let mut places: Vec<Place<WORDS>> = Vec::new();
            try_reserve(&mut places, SIZE)?;
            for _ in 0..SIZE {
                try_push(&mut places, Place::default())?;
            }
            try_push(&mut rings, SeqlockRing::new(places))?;
        }
        // Those of another caller serve as well.
        let _ = RINGS.set(rings);
    }
    for (cpu, since) in SINCE.iter().enumerate() {
        since.store(
            ring(cpu).map_or(0, |ring| ring.numbers().end),
            Ordering::Relaxed,
        );
    }
    ON.store(true, Ordering::Relaxed);
    // The timer's handler leaves the end of their quanta to Rust from now on.
    for_each(|thread| thread.look_up_channels());
    Ok(())
}

/// Turns the recorder off. Its events can still be read.
pub fn end() {
    ON.store(false, Ordering::Relaxed);
    for_each(|thread| thread.look_up_channels());
}

/// `me`, which runs, has its next quantum, if the recorder is on: because of the `need` that `fills` show.
pub fn quantum(me: &Tte, need: Option<i32>, fills: &[Fill]) {
    if !is_on() {
        return;
    }
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let mut event = Event {
        at_ns: now_ns(),
        tag: me.tag(),
        used_ns: me.cpu_ns(),
        own_ns: small(me.own_quantum_ns()),
        quantum_ns: small(me.turn_ns()),
        settled_percent: me.share_percent(),
        need: need.and_then(|need| i16::try_from(need).ok()),
        ..Event::default()
    };
    me.name(&mut event.name);
    for (place, fill) in event.fills.iter_mut().zip(fills) {
        *place = *fill;
    }
    let words = event.words();
    // Bound: sixteen stores into a ring of events.
    let state = irq_save();
    // A CPU's ring is written here alone, with interrupts off.
    if let Some(ring) = ring(this_cpu().number()) {
        ring.put(&words);
    }
    irq_restore(state);
}

/// The number of the first event that `cpu` has noted since [`begin`].
pub fn since(cpu: usize) -> u64 {
    SINCE
        .get(cpu)
        .map_or(0, |since| since.load(Ordering::Relaxed))
}

/// The numbers of the events that `cpu` has noted and not forgotten.
pub fn numbers(cpu: usize) -> Range<u64> {
    let kept = ring(cpu).map_or(0..0, SeqlockRing::numbers);
    kept.start.max(since(cpu))..kept.end
}

/// Event number `number` of `cpu`, if it is still kept.
pub fn event(cpu: usize, number: u64) -> Option<Event> {
    Some(Event::of(&ring(cpu)?.get(number)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_back_as_it_was() {
        let fill = |n: u32| Fill {
            writes: n & 1 != 0,
            held: n * 1000,
            size: u32::MAX - n,
        };
        let full = Event {
            at_ns: u64::MAX,
            tag: 7 << 32 | 8,
            used_ns: 9,
            own_ns: 400_000,
            quantum_ns: u32::MAX,
            settled_percent: 392,
            need: Some(-256),
            name: *b"0123456789abcde\0",
            fills: core::array::from_fn(|n| fill(n as u32)),
        };
        for event in [
            full,
            Event::default(),
            Event {
                need: Some(0),
                ..full
            },
        ] {
            assert_eq!(Event::of(&event.words()), event);
        }
        assert_eq!(
            Fill::of(
                Fill {
                    writes: true,
                    held: u32::MAX,
                    size: 1
                }
                .word()
            )
            .held,
            u32::MAX >> 1
        );
    }
}
