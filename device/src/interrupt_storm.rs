//! Interrupt storms: sources of interrupts are watched, and polled while they flood.
//!
//! *Interface*: [`WatchedSource::open`] gives a source a place among those that are watched, and the gauge
//! that its handler counts with; [`WatchedSource::begin`] tells the vector. [`watch`] is called from the
//! timer's interrupt of the first CPU, where all devices interrupt, a hundred times a second while that CPU
//! is not idle. [`source_report`] is for listings.
//!
//! A source whose interrupts take more of the CPU than it may have ([`feedback::interrupt_storm`]) is masked,
//! and its handler is called by an alarm instead, by the instruction `int`: so the handler is the same,
//! counts, and wakes whom it wakes. The time of each such call is measured, and the loop makes the interval
//! to the next from it. From time to time the source is unmasked for a moment, to see whether the flood has
//! ended. The path of an interrupt has no instruction more than before: the gauge counts anyway.
//!
//! Masked are an entry of a device's table (it keeps the interrupt), or an input of the I/O APIC. That one
//! forgets an edge that comes meanwhile; so the handler is called once more behind each unmasking. Bytes wait
//! in the device, or with the sender, as far as the device holds it back.
//!
//! All of this runs with interrupts off on the first CPU. The places are never freed, and a device that comes
//! back has the one that it had; without one a source is not watched. A place's generation tells an alarm
//! that its source has gone.
//!
//! Source: dissertation, sections 6.2.2 (interval locked loops) and 3.3.3.
//!
//! *Unsafe*: safety contract of the routine that calls a handler.

use crate::callouts;
use crate::registers::Registers;
use codegen::{Class, Draft, Routine, dynasm};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use feedback::interrupt_storm::{SHORTEST_NS, Step, StormLoop, WORDS};
use machine::clock::now_ns;
use machine::irq;
use quaject::class::{Ref, create};
use quaject::gauge::Gauge;
use sync::Once;

static CLASS: Class = Class::new("device.poll");

/// Sources that are watched, at most.
const PLACES: usize = 32;
/// A look at a CPU that was idle before says nothing about the present, nanoseconds.
const OLD_NS: u64 = 50_000_000;
/// Between polls at most, nanoseconds, of a source that says nothing else.
pub const LONGEST_NS: u64 = 10_000_000;

/// How a source is kept from interrupting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Not at all: it is only watched.
    None,
    /// At the I/O APIC's input with this global number.
    Line(u32),
    /// At this entry of a device's table (MSI-X).
    Entry(Registers),
}

impl Mask {
    /// Masks it, or lets it interrupt again. False: not now.
    fn hold(self, held: bool) -> bool {
        match self {
            Mask::None => false,
            Mask::Line(line) => irq::hold(line, held),
            Mask::Entry(entry) => {
                crate::pci::hold(entry, held);
                true
            }
        }
    }
}

/// The states of a source.
const BY_ITSELF: u32 = 0;
const POLLED: u32 = 1;
const TRIED: u32 = 2;

/// One place. The words are written by the first CPU with interrupts off, and while nobody has the place.
struct Place {
    mask: Once<Mask>,
    gauge: Once<Ref<Gauge>>,
    /// Somebody has it.
    taken: AtomicU32,
    /// 0: nothing interrupts there.
    vector: AtomicU32,
    generation: AtomicU32,
    state: AtomicU32,
    longest_ns: AtomicU64,
    /// The loop.
    words: [AtomicU64; WORDS],
    /// Count and time of the last look.
    seen: AtomicU64,
    looked_ns: AtomicU64,
    /// When the alarm is due that is set.
    due_ns: AtomicU64,
    /// Interrupts that the last look found, and the nanoseconds in which they came.
    came: AtomicU64,
    over_ns: AtomicU64,
    polls: AtomicU64,
    floods: AtomicU64,
}

static PLACE: [Place; PLACES] = [const { Place::new() }; PLACES];
/// The places with a vector, a bit each.
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// Calls a vector's handler. It keeps all registers.
type Raise = extern "sysv64" fn();

/// By vector.
static RAISE: [Once<Routine<Raise>>; 256] = [const { Once::new() }; 256];

/// A source's place.
pub struct WatchedSource(&'static Place);

/// The knowledge about a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceReport {
    /// Interrupts in a second, at the last look.
    pub rate: u64,
    /// Believed cost of one, nanoseconds.
    pub cost_ns: u64,
    /// Between polls, nanoseconds; 0: it interrupts by itself.
    pub interval_ns: u64,
    /// Polls since boot.
    pub polls: u64,
    /// How often it was found to flood, or measured.
    pub floods: u64,
}

/// The record of the source at `vector`, if it is watched; for listings.
pub fn source_report(vector: u8) -> Option<SourceReport> {
    let is_there = |place: &&Place| place.vector.load(Ordering::Relaxed) == u32::from(vector);
    let place = PLACE.iter().find(is_there)?;
    let flood = place.flood();
    Some(SourceReport {
        rate: place.rate(),
        cost_ns: flood.cost_ns(),
        interval_ns: flood.interval_ns(),
        polls: place.polls.load(Ordering::Relaxed),
        floods: place.floods.load(Ordering::Relaxed),
    })
}

/// Looks at all sources that interrupt by themselves. In the first CPU's timer interrupt at `now`.
pub fn watch(now: u64) {
    let mut left = WATCHED.load(Ordering::Acquire);
    while left != 0 {
        let index = left.trailing_zeros() as usize;
        left &= left - 1;
        let place = &PLACE[index];
        if place.state.load(Ordering::Relaxed) == BY_ITSELF && !place.is_still(now) {
            place.look(index, now);
        }
    }
}

impl WatchedSource {
    /// A place for a source that is masked by `mask`. None: all are taken, or no memory.
    pub fn open(mask: Mask) -> Option<WatchedSource> {
        let has = |place: &&Place| place.mask.get() == Some(&mask) && place.take();
        let fresh = |place: &&Place| place.mask.get().is_none() && place.take_fresh(mask);
        let place = PLACE
            .iter()
            .find(has)
            .or_else(|| PLACE.iter().find(fresh))?;
        let watch = WatchedSource(place);
        if place.gauge.get().is_none() {
            let gauge = create::<Gauge>(false).ok()?;
            let _only = place.gauge.set(gauge);
        }
        place.gauge.get()?.take();
        Some(watch)
    }

    /// The gauge that the source's handler is to count with.
    pub fn gauge(&self) -> Option<&'static Ref<Gauge>> {
        self.0.gauge.get()
    }

    /// The source interrupts at `vector` from now on. It is polled at least each `longest_ns`.
    pub fn begin(&self, vector: u8, longest_ns: u64) {
        let place = self.0;
        let words = StormLoop::new().words();
        place
            .words
            .iter()
            .zip(words)
            .for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        place.state.store(BY_ITSELF, Ordering::Relaxed);
        place.longest_ns.store(longest_ns, Ordering::Relaxed);
        place.looked_ns.store(0, Ordering::Relaxed);
        place.seen.store(place.count(), Ordering::Relaxed);
        for word in [&place.came, &place.polls, &place.floods] {
            word.store(0, Ordering::Relaxed);
        }
        if raise(vector).is_some() {
            place.vector.store(u32::from(vector), Ordering::Release);
            WATCHED.fetch_or(place.bit(), Ordering::Release);
        }
    }

    /// The source interrupts no more.
    pub fn end(&self) {
        let place = self.0;
        WATCHED.fetch_and(!place.bit(), Ordering::SeqCst);
        place.vector.store(0, Ordering::SeqCst);
        place.generation.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for WatchedSource {
    fn drop(&mut self) {
        self.end();
        self.0.taken.store(0, Ordering::Release);
    }
}

/// The routine that calls the handler of `vector`; made in thread context, at the first time.
fn raise(vector: u8) -> Option<&'static Routine<Raise>> {
    let place = &RAISE[usize::from(vector)];
    if place.get().is_none() {
        let mut draft = Draft::new(&CLASS, ("int", u64::from(vector)));
        let d = &mut draft;
        dynasm!(d ; .arch x64 ; int BYTE vector as i8 ; ret);
        // SAFETY: the handlers of a vector keep all registers, and acknowledging when the controller has
        // delivered nothing does nothing.
        let routine = unsafe { Routine::from(draft.seal().ok()?) };
        // Another may have been first.
        let _same = place.set(routine);
    }
    place.get()
}

impl Place {
    const fn new() -> Place {
        Place {
            mask: Once::new(),
            gauge: Once::new(),
            taken: AtomicU32::new(0),
            vector: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            state: AtomicU32::new(BY_ITSELF),
            longest_ns: AtomicU64::new(LONGEST_NS),
            words: [const { AtomicU64::new(0) }; WORDS],
            seen: AtomicU64::new(0),
            looked_ns: AtomicU64::new(0),
            due_ns: AtomicU64::new(0),
            came: AtomicU64::new(0),
            over_ns: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            floods: AtomicU64::new(0),
        }
    }

    fn take(&self) -> bool {
        self.taken.swap(1, Ordering::AcqRel) == 0
    }

    fn take_fresh(&self, mask: Mask) -> bool {
        if !self.take() {
            return false;
        }
        let mine = self.mask.set(mask).is_ok() || self.mask.get() == Some(&mask);
        if !mine {
            self.taken.store(0, Ordering::Release);
        }
        mine
    }

    /// Whether it is polled, or tried.
    fn is_met(&self) -> bool {
        self.state.load(Ordering::Relaxed) != BY_ITSELF && self.vector.load(Ordering::Relaxed) != 0
    }

    fn flood(&self) -> StormLoop {
        StormLoop::of(core::array::from_fn(|i| {
            self.words[i].load(Ordering::Relaxed)
        }))
    }

    /// The answer of the loop, which is kept.
    fn ask<T>(&self, question: impl FnOnce(&mut StormLoop) -> T) -> T {
        let mut flood = self.flood();
        let answer = question(&mut flood);
        let words = self.words.iter().zip(flood.words());
        words.for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        answer
    }

    fn count(&self) -> u64 {
        self.gauge.get().map_or(0, |gauge| gauge.read())
    }

    fn mask(&self) -> Mask {
        self.mask.get().copied().unwrap_or(Mask::None)
    }

    /// Its bit in [`WATCHED`].
    fn bit(&self) -> u32 {
        let own = |place: &Place| core::ptr::eq(place, self);
        PLACE.iter().position(own).map_or(0, |index| 1 << index)
    }

    /// Whether no interrupt has come since the last look, which most sources need no more than; it is `now`.
    fn is_still(&self, now: u64) -> bool {
        let still = self.count() == self.seen.load(Ordering::Relaxed);
        if still {
            self.looked_ns.store(now, Ordering::Relaxed);
            self.came.store(0, Ordering::Relaxed);
        }
        still
    }

    /// Interrupts since the last look, and the time of it; it is `now`.
    fn since(&self, now: u64) -> (u64, u64) {
        let count = self.count();
        let came = count.wrapping_sub(self.seen.load(Ordering::Relaxed));
        let elapsed = now.saturating_sub(self.looked_ns.load(Ordering::Relaxed));
        self.seen.store(count, Ordering::Relaxed);
        self.looked_ns.store(now, Ordering::Relaxed);
        self.came.store(came, Ordering::Relaxed);
        self.over_ns.store(elapsed, Ordering::Relaxed);
        (came, elapsed)
    }

    /// Interrupts in a second, at the last look.
    fn rate(&self) -> u64 {
        let came = self.came.load(Ordering::Relaxed);
        let rate = came
            .saturating_mul(1_000_000_000)
            .checked_div(self.over_ns.load(Ordering::Relaxed));
        rate.unwrap_or(0)
    }

    fn look(&self, index: usize, now: u64) {
        let (came, elapsed) = self.since(now);
        if elapsed > OLD_NS || self.mask() == Mask::None {
            return;
        }
        let longest = self.longest_ns.load(Ordering::Relaxed);
        let Some(after) = self.ask(|flood| flood.watch(came, elapsed, longest)) else {
            return;
        };
        if !self.mask().hold(true) {
            return self.leave();
        }
        self.floods.fetch_add(1, Ordering::Relaxed);
        let generation = self.generation.load(Ordering::Relaxed) as usize;
        self.go(POLLED, generation << 8 | index, now + after);
    }

    /// Goes on at `at_ns`, in this state; `argument` is the alarm's.
    fn go(&self, state: u32, argument: usize, at_ns: u64) {
        self.state.store(state, Ordering::Relaxed);
        self.due_ns.store(at_ns, Ordering::Relaxed);
        if !callouts::get().is_some_and(|c| (c.alarm)(at_ns, due, argument)) {
            // Without memory for an alarm it interrupts as before.
            self.release();
        }
    }

    /// It interrupts by itself again.
    fn release(&self) {
        self.mask().hold(false);
        self.call();
        self.state.store(BY_ITSELF, Ordering::Relaxed);
        self.leave();
    }

    /// The loop begins anew with what it believes of the cost.
    fn leave(&self) {
        self.ask(|flood| flood.leave());
    }

    /// Calls the handler; how long that took, nanoseconds.
    fn call(&self) -> u64 {
        let vector = self.vector.load(Ordering::Relaxed) as usize;
        let Some(routine) = RAISE.get(vector).and_then(Once::get) else {
            return 0;
        };
        let from = now_ns();
        routine.function()();
        now_ns().saturating_sub(from)
    }

    /// It is time for the next poll, or for a trial's end.
    fn proceed(&self, argument: usize) {
        let tried = self.state.load(Ordering::Relaxed) == TRIED;
        let step = if tried {
            let (came, elapsed) = self.since(now_ns());
            self.ask(|flood| flood.tried(came, elapsed))
        } else {
            let took = self.call();
            self.polls.fetch_add(1, Ordering::Relaxed);
            let sources = PLACE.iter().filter(|place| place.is_met()).count() as u64;
            let longest = self.longest_ns.load(Ordering::Relaxed);
            let whole = now_ns().saturating_sub(self.due_ns.load(Ordering::Relaxed));
            self.ask(|flood| flood.polled(took, whole, sources, longest))
        };
        match step {
            Step::Poll(after) => {
                // Where it cannot be masked just now, the next look masks it.
                if tried && !self.mask().hold(true) {
                    return self.release();
                }
                self.go(POLLED, argument, now_ns() + after);
            }
            Step::Try(_) if !self.mask().hold(false) => {
                self.go(POLLED, argument, now_ns() + SHORTEST_NS);
            }
            Step::Try(length) => {
                self.call();
                self.since(now_ns());
                self.go(TRIED, argument, now_ns() + length);
            }
            Step::Leave => {
                self.state.store(BY_ITSELF, Ordering::Relaxed);
            }
        }
    }
}

/// The place of an alarm's argument, unless its source has gone.
fn place(argument: usize) -> Option<&'static Place> {
    let (generation, index) = (argument >> 8, argument & 0xff);
    let place = PLACE.get(index)?;
    let same = place.generation.load(Ordering::SeqCst) as usize == generation;
    (same && place.is_met()).then_some(place)
}

/// An alarm. The work is done at the end of the interrupt, when the timer's is acknowledged.
fn due(argument: usize) {
    let chained = callouts::get().is_some_and(|c| (c.chain)(proceed, argument));
    if !chained && let Some(place) = place(argument) {
        let state = place.state.load(Ordering::Relaxed);
        place.go(state, argument, now_ns() + SHORTEST_NS);
    }
}

fn proceed(argument: usize) {
    if let Some(place) = place(argument) {
        place.proceed(argument);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_comes_back_has_its_place() {
        codegen::host::link();
        let first = WatchedSource::open(Mask::Line(1000)).unwrap();
        first.gauge().unwrap().count();
        let other = WatchedSource::open(Mask::Line(1001)).unwrap();
        let place = first.0;
        assert!(!core::ptr::eq(place, other.0));
        assert_eq!(other.0.mask(), Mask::Line(1001));
        drop(first);
        let again = WatchedSource::open(Mask::Line(1000)).unwrap();
        assert!(core::ptr::eq(place, again.0));
        assert_eq!(again.gauge().unwrap().read(), 0);
        // Two that are masked alike have two.
        let second = WatchedSource::open(Mask::Line(1000)).unwrap();
        assert!(!core::ptr::eq(again.0, second.0));
    }

    #[test]
    fn an_alarm_of_a_source_that_has_gone_finds_none() {
        codegen::host::link();
        let watch = WatchedSource::open(Mask::Line(2000)).unwrap();
        watch.begin(0x99, LONGEST_NS);
        assert_eq!(
            source_report(0x99).map(|report| report.interval_ns),
            Some(0)
        );
        let index = PLACE
            .iter()
            .position(|place| core::ptr::eq(place, watch.0))
            .unwrap();
        let argument = (watch.0.generation.load(Ordering::Relaxed) as usize) << 8 | index;
        // It interrupts by itself.
        assert!(place(argument).is_none());
        watch.0.state.store(POLLED, Ordering::Relaxed);
        assert!(place(argument).is_some());
        watch.end();
        assert!(place(argument).is_none() && source_report(0x99).is_none());
        // Not even when the next one is polled.
        watch.begin(0x99, LONGEST_NS);
        watch.0.state.store(POLLED, Ordering::Relaxed);
        assert!(place(argument).is_none());
    }

    /// A source at `vector` that has interrupted `count` times since 0 and is looked at `now`; nothing masks
    /// it on the host, so that it interrupts by itself after that.
    fn looked(mask: Mask, vector: u8, count: u64, now: u64) -> StormLoop {
        let watch = WatchedSource::open(mask).unwrap();
        watch.begin(vector, LONGEST_NS);
        (0..count).for_each(|_| watch.gauge().unwrap().count());
        watch.0.look(0, now);
        watch.0.flood()
    }

    #[test]
    fn a_look_asks_the_loop_about_what_is_new_and_can_be_masked() {
        codegen::host::link();
        let mut asked = StormLoop::new();
        assert!(asked.watch(100, 1_000_000, LONGEST_NS).is_some());
        asked.leave();
        assert_ne!(asked, StormLoop::new());
        assert_eq!(looked(Mask::Line(3000), 0x9a, 100, 1_000_000), asked);
        // Not what is only watched, nor what an idle CPU has not looked at for long.
        assert_eq!(looked(Mask::None, 0x9b, 100, 1_000_000), StormLoop::new());
        let many = 100 * (OLD_NS / 1_000_000 + 1);
        assert_eq!(looked(Mask::Line(3001), 0x9c, many, OLD_NS), asked);
        assert_eq!(
            looked(Mask::Line(3002), 0x9d, many, OLD_NS + 1),
            StormLoop::new()
        );
        // The next source at this place begins anew.
        assert_eq!(
            looked(Mask::Line(3000), 0x9a, 0, 1_000_000),
            StormLoop::new()
        );
    }

    #[test]
    fn counts_and_times_are_those_since_the_last_look() {
        codegen::host::link();
        let watch = WatchedSource::open(Mask::Line(4000)).unwrap();
        watch.begin(0x9e, LONGEST_NS);
        let (place, gauge) = (watch.0, watch.gauge().unwrap());
        let bit = place.bit();
        assert_ne!(WATCHED.load(Ordering::Relaxed) & bit, 0);
        assert!(place.is_still(1_000));
        gauge.count();
        assert!(!place.is_still(2_000));
        assert_eq!(place.since(3_000), (1, 2_000));
        assert_eq!(source_report(0x9e).unwrap().rate, 500_000);
        gauge.count();
        gauge.count();
        assert_eq!(place.since(4_000), (2, 1_000));
        assert!(place.is_still(9_000));
        assert_eq!(source_report(0x9e).unwrap().rate, 0);
        gauge.count();
        assert_eq!(place.since(10_000), (1, 1_000));
        watch.end();
        assert_eq!(WATCHED.load(Ordering::Relaxed) & bit, 0);
    }
}
