//! The channels that a thread moves data through, and the need that they show.
//!
//! *Interface*: [`Flows`], of each task; [`update`] at the return to user mode, when the scheduler
//! ([`thread::demand`]) requests it; [`find`] for `/syn`. A closed channel is not kept: its memory was
//! charged to its creator.
//!
//! A thread's channels are those of its process's first [`LOOKED_AT`] descriptors. The reader of a full
//! channel, and the writer of an empty one, need to run; the opposite holds for an empty input and a full
//! output. A process with both ends of a channel gains nothing by filling it. A channel counts as long as the
//! thread's side of it moves: one that is only kept full shows no need.
//! Source: dissertation, sections 6.3.1 and 6.3.4.

use abi::Result;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use feedback::quantum::{NEED, need as of_fill};
use file::gauge::{DeviceNearness, Flow, Gauge};
use sync::Monitor;
use thread::OnDemand;
use thread::demand::DemandQuery;
use thread::record::{self, Fill};
use vm::fallible::try_push;

use super::Task;

/// Descriptors that are looked at, from 0 on.
const LOOKED_AT: usize = 32;
/// Channels that are kept.
const CHANNELS: usize = record::CHANNELS;
/// Quanta for which a channel that stands still counts, and for which one that was just found does.
const PATIENCE: u8 = 32;
const TRIAL: u8 = 4;

/// How long a channel counts as one that leads to a device, from the last time that a thread at one of its
/// ends was seen to move a device's data, nanoseconds. A stream whose devices have gone is back in this time.
const NEAR_NS: u64 = 200_000_000;
/// Time between two spreadings of that, and the time after which no more device's data are expected,
/// nanoseconds.
const SPREAD_NS: u64 = 50_000_000;
const ASLEEP_NS: u64 = 1_000_000_000;
/// Stages that learn it in one spreading at least.
const STAGES: usize = 8;
/// Looks at a channel where nothing passes until it counts as still there.
const QUIET: u8 = 2 * STAGES as u8;

/// Which side of a channel a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelSide {
    /// It takes out.
    Reads,
    /// It puts in.
    Writes,
}

/// A channel of a thread.
pub struct FlowChannel {
    gauge: Weak<dyn Gauge>,
    side: ChannelSide,
    /// The count at the thread's side when it was looked at last.
    passed: u64,
    /// Quanta since something has passed there.
    still: u8,
    /// The same for [`spread`], and its looks instead of quanta.
    seen: u64,
    quiet: u8,
}

/// The state of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelState {
    /// The thread's side.
    pub side: ChannelSide,
    /// Bytes in it.
    pub held: usize,
    /// Bytes that it has room for.
    pub size: usize,
    /// Bytes that have ever passed at that side; the count wraps around.
    pub passed: u64,
    /// As [`Gauge::xruns`].
    pub xruns: Option<u64>,
}

/// A task's channels.
#[derive(Default)]
pub struct Flows {
    channels: Monitor<Vec<FlowChannel>>,
}

impl FlowChannel {
    fn new(gauge: &Arc<dyn Gauge>, side: ChannelSide) -> FlowChannel {
        let passed = side.of(gauge.flow());
        FlowChannel {
            gauge: Arc::downgrade(gauge),
            side,
            passed,
            still: PATIENCE - TRIAL,
            seen: passed,
            quiet: QUIET,
        }
    }

    /// Whether both are the same side of the same channel.
    fn is(&self, other: &FlowChannel) -> bool {
        self.side == other.side && Weak::ptr_eq(&self.gauge, &other.gauge)
    }

    /// A quantum has passed: the need that it shows, if it is still there and moves.
    fn need(&mut self) -> Option<i32> {
        let gauge = self.gauge.upgrade()?;
        let flow = gauge.flow();
        let passed = self.side.of(flow);
        self.still = match passed == self.passed {
            true => self.still.saturating_add(1),
            false => 0,
        };
        self.passed = passed;
        if self.still >= PATIENCE {
            return None;
        }
        let need = of_fill(flow.held(), gauge.size());
        Some(match self.side {
            // The rest of a stream is not input that drains: it is to be done as fast as before.
            ChannelSide::Reads if gauge.is_ended() => need.max(0),
            ChannelSide::Reads => need,
            ChannelSide::Writes => -need,
        })
    }

    /// Looks whether something has passed since the last look.
    fn look(&mut self) {
        if let Some(gauge) = self.gauge.upgrade() {
            let passed = self.side.of(gauge.flow());
            self.quiet = match passed == self.seen {
                true => self.quiet.saturating_add(1),
                false => 0,
            };
            self.seen = passed;
        }
    }

    /// Its state; none of a channel that has gone.
    pub fn shown(&self) -> Option<ChannelState> {
        let gauge = self.gauge.upgrade()?;
        let flow = gauge.flow();
        Some(ChannelState {
            side: self.side,
            held: flow.held(),
            size: gauge.size(),
            passed: self.side.of(flow),
            xruns: gauge.xruns(),
        })
    }
}

impl ChannelSide {
    fn of(self, flow: Flow) -> u64 {
        match self {
            ChannelSide::Reads => flow.got,
            ChannelSide::Writes => flow.put,
        }
    }
}

impl Flows {
    /// Puts `found` in place of the channels, which it returns. Those that are among both go on as before.
    fn exchange(&self, mut found: Vec<FlowChannel>) -> Vec<FlowChannel> {
        // Bound: exchanging at most eight channels.
        let mut channels = self.channels.lock();
        for old in channels.iter() {
            let mut found = found.iter_mut();
            if let Some(same) = found.find(|new| new.is(old)) {
                (same.passed, same.still) = (old.passed, old.still);
                (same.seen, same.quiet) = (old.seen, old.quiet);
            }
        }
        core::mem::replace(&mut *channels, found)
    }

    /// Shows the channels, unless the thread is looking at them just now.
    pub fn show(&self, show: impl FnMut(&FlowChannel)) {
        if let Some(channels) = self.channels.try_lock() {
            channels.iter().for_each(show);
        }
    }
}

/// Updates the channels of the running `task` or its need, if the scheduler has requested it. In thread
/// context with interrupts on.
pub fn update(task: &Task) {
    match task.thread.question() {
        None => {}
        Some(DemandQuery::Channels) => {
            // Without memory there are none until it looks again.
            let found = find(task).unwrap_or_default();
            let count = found.len() as u32;
            let before = task.flows.exchange(found);
            task.thread.set_channels(count, machine::clock::now_ns());
            let mut need = None;
            if before.is_empty() && count > 0 {
                // Their need counts from this turn on, not from the next.
                need = answer(task);
            }
            drop(before);
            record(task, need);
        }
        Some(DemandQuery::Need) => record(task, answer(task)),
    }
}

/// The need of the running `task`, which has its turn by it.
fn answer(task: &Task) -> Option<i32> {
    let (need, of_device) = {
        // Bound: a look at at most eight channels.
        let mut channels = task.flows.channels.lock();
        let need = sum(&mut channels);
        let moving = |channel: &FlowChannel| channel.still < PATIENCE;
        let near = lead(&channels, machine::clock::now_ns(), moving);
        (need, need.is_some() && near != Near::No)
    };
    if of_device {
        begin();
    }
    task.thread.set_need(need, of_device);
    need
}

/// The outcome of [`lead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Near {
    /// No device is near.
    No,
    /// One is, and all of the channels were known to lead to it for as long.
    Known,
    /// One is, for longer than a channel knew.
    New,
}

/// Whether the data of one of the channels that are `moving` are a device's, or on the way to or from one;
/// then those of all are.
fn lead(channels: &[FlowChannel], now: u64, moving: impl Fn(&FlowChannel) -> bool) -> Near {
    let moving = || channels.iter().filter(|channel| moving(channel));
    // The latest of all: a stream without a device does not renew its own.
    let mut latest = 0;
    for gauge in moving().filter_map(|channel| channel.gauge.upgrade()) {
        latest = latest.max(match gauge.place() {
            DeviceNearness::Device => {
                SEEN_NS.store(now, Ordering::Relaxed);
                now + NEAR_NS
            }
            DeviceNearness::Among(until) => until.load(Ordering::Relaxed),
        });
    }
    if latest <= now {
        return Near::No;
    }
    let mut near = Near::Known;
    for gauge in moving().filter_map(|channel| channel.gauge.upgrade()) {
        if let DeviceNearness::Among(until) = gauge.place()
            && until.fetch_max(latest, Ordering::Relaxed) < latest
        {
            near = Near::New;
        }
    }
    near
}

/// When a device's data were last seen to move, nanoseconds of the Clock.
static SEEN_NS: AtomicU64 = AtomicU64::new(0);
/// The thread that spreads this.
static THREAD: OnDemand = OnDemand::new(b"streams", run);

/// Has a thread tell the streams that lead to devices: a stage that always blocks before its quantum ends
/// answers for nothing, and the stages beyond it would not know. Without memory for the thread they learn it
/// later.
fn begin() {
    let _later = THREAD.rouse();
}

fn run(_: usize) {
    loop {
        THREAD.wait(|| {
            let seen = SEEN_NS.load(Ordering::Relaxed);
            (machine::clock::now_ns().saturating_sub(seen) < ASLEEP_NS).then_some(())
        });
        for _ in 0..STAGES {
            if !spread(machine::clock::now_ns()) {
                break;
            }
        }
        let next = machine::clock::now_ns() + SPREAD_NS;
        if thread::clock::sleep_until(next).is_err() {
            thread::yield_now();
        }
    }
}

/// Has every thread's channels lead to devices as far as one of them does. Whether one has learnt it.
fn spread(now: u64) -> bool {
    let mut news = false;
    for process in super::tree::from(0) {
        process.each_thread(|task| {
            // Bound: a thread of its own; at most eight channels, else the thread is passed over.
            if let Some(mut channels) = task.flows.channels.try_lock() {
                channels.iter_mut().for_each(FlowChannel::look);
                news |= lead(&channels, now, |channel| channel.quiet < QUIET) == Near::New;
            }
            true
        });
    }
    news
}

/// Notes the quantum of the running `task`, if the recorder is on.
fn record(task: &Task, need: Option<i32>) {
    if !record::is_on() {
        return;
    }
    let mut fills = [Fill::default(); record::CHANNELS];
    let mut places = fills.iter_mut();
    task.flows.show(|channel| {
        if let (Some(shown), Some(place)) = (channel.shown(), places.next()) {
            let small = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
            *place = Fill {
                writes: shown.side == ChannelSide::Writes,
                held: small(shown.held),
                size: small(shown.size),
            };
        }
    });
    record::quantum(&task.thread, need, &fills);
}

/// The channels by which `task` would be paced from now on, anew from its process's descriptors. ENOMEM.
pub fn find(task: &Task) -> Result<Vec<FlowChannel>> {
    let files = task.process.files.get();
    let mut found: Vec<FlowChannel> = Vec::new();
    for fd in files.in_use_below(LOOKED_AT) {
        let Ok(of) = files.get(fd) else { continue };
        let gauges = of.file().gauges(&of);
        for (gauge, side) in [
            (gauges.input, ChannelSide::Reads),
            (gauges.output, ChannelSide::Writes),
        ] {
            let Some(gauge) = gauge else { continue };
            let new = FlowChannel::new(&gauge, side);
            if found.len() < CHANNELS && !found.iter().any(|other| other.is(&new)) {
                try_push(&mut found, new)?;
            }
        }
    }
    Ok(found)
}

/// The need that all of them show.
fn sum(channels: &mut [FlowChannel]) -> Option<i32> {
    let needs = channels.iter_mut().filter_map(FlowChannel::need);
    let sum = needs.reduce(|sum, need| sum + need)?;
    Some(sum.clamp(-NEED, NEED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    #[derive(Default)]
    struct Counts {
        put: AtomicU64,
        got: AtomicU64,
        until: AtomicU64,
        ended: AtomicBool,
    }

    impl Gauge for Counts {
        fn flow(&self) -> Flow {
            Flow {
                put: self.put.load(Ordering::Relaxed),
                got: self.got.load(Ordering::Relaxed),
            }
        }
        fn size(&self) -> usize {
            100
        }

        fn place(&self) -> DeviceNearness<'_> {
            DeviceNearness::Among(&self.until)
        }

        fn xruns(&self) -> Option<u64> {
            Some(7)
        }

        fn is_ended(&self) -> bool {
            self.ended.load(Ordering::Relaxed)
        }
    }

    fn channel(of: &Arc<Counts>, side: ChannelSide) -> FlowChannel {
        let gauge: Arc<dyn Gauge> = of.clone();
        FlowChannel::new(&gauge, side)
    }

    #[test]
    fn a_full_input_and_an_empty_output_need_the_most() {
        let (input, output) = (Arc::new(Counts::default()), Arc::new(Counts::default()));
        let mut channels = [
            channel(&input, ChannelSide::Reads),
            channel(&output, ChannelSide::Writes),
        ];
        input.put.store(110, Ordering::Relaxed);
        input.got.store(10, Ordering::Relaxed);
        assert_eq!(sum(&mut channels), Some(NEED));
        input.got.store(110, Ordering::Relaxed);
        output.put.store(100, Ordering::Relaxed);
        assert_eq!(sum(&mut channels), Some(-NEED));
        output.got.store(100, Ordering::Relaxed);
        assert_eq!(sum(&mut channels), Some(0));
    }

    #[test]
    fn the_rest_of_a_stream_is_no_input_that_drains() {
        let input = Arc::new(Counts::default());
        let mut channels = [channel(&input, ChannelSide::Reads)];
        let mut need = |put: u64, got: u64| {
            input.put.store(put, Ordering::Relaxed);
            input.got.store(got, Ordering::Relaxed);
            sum(&mut channels)
        };
        assert!(need(100, 90) < Some(0));
        input.ended.store(true, Ordering::Relaxed);
        assert_eq!(need(100, 95), Some(0));
        assert_eq!(
            need(195, 95),
            Some(NEED),
            "a full one needs as much as before"
        );
    }

    #[test]
    fn a_device_reaches_as_far_as_its_data() {
        struct Speaker(Counts);
        impl Gauge for Speaker {
            fn flow(&self) -> Flow {
                self.0.flow()
            }
            fn size(&self) -> usize {
                100
            }
            fn place(&self) -> DeviceNearness<'_> {
                DeviceNearness::Device
            }
        }
        let speaker: Arc<dyn Gauge> = Arc::new(Speaker(Counts::default()));
        let [near, far, other] = [(); 3].map(|()| Arc::new(Counts::default()));
        let first = [
            channel(&near, ChannelSide::Reads),
            FlowChannel::new(&speaker, ChannelSide::Writes),
        ];
        let second = [
            channel(&far, ChannelSide::Reads),
            channel(&near, ChannelSide::Writes),
        ];
        let third = [channel(&other, ChannelSide::Reads)];
        let leads = |channels: &[FlowChannel], now| lead(channels, now, |_| true) != Near::No;
        let each = |now| [&first[..], &second, &third].map(|channels| leads(channels, now));
        assert_eq!(each(1000), [true, true, false]);
        assert!(far.until.load(Ordering::Relaxed) > 1000);
        // Threads beyond the device's own do not keep each other.
        assert!((0..4).all(|n| leads(&second, 1000 + n * NEAR_NS / 4)));
        assert!(!leads(&second, 1000 + NEAR_NS));
        assert_eq!(each(1001 + NEAR_NS), [true, true, false]);
    }

    #[test]
    fn a_channel_shows_its_state() {
        let output = Arc::new(Counts::default());
        output.put.store(110, Ordering::Relaxed);
        output.got.store(10, Ordering::Relaxed);
        let channel = channel(&output, ChannelSide::Writes);
        let shown = ChannelState {
            side: ChannelSide::Writes,
            held: 100,
            size: 100,
            passed: 110,
            xruns: Some(7),
        };
        assert_eq!(channel.shown(), Some(shown));
        drop(output);
        assert_eq!(channel.shown(), None);
    }

    #[test]
    fn both_ends_of_one_channel_need_nothing() {
        let both = Arc::new(Counts::default());
        let mut channels = [
            channel(&both, ChannelSide::Reads),
            channel(&both, ChannelSide::Writes),
        ];
        for put in [10, 50, 100] {
            both.put.store(put, Ordering::Relaxed);
            both.got.store(1, Ordering::Relaxed);
            assert_eq!(sum(&mut channels), Some(0));
        }
    }

    #[test]
    fn a_channel_that_stands_still_counts_for_a_while() {
        let input = Arc::new(Counts::default());
        let mut channels = [channel(&input, ChannelSide::Reads)];
        input.put.store(100, Ordering::Relaxed);
        let counts_for = |channels: &mut [FlowChannel], quanta| {
            for _ in 1..quanta {
                assert_eq!(sum(channels), Some(NEED));
            }
            for _ in 0..1000 {
                assert_eq!(sum(channels), None);
            }
        };
        counts_for(&mut channels, TRIAL);
        input.got.store(1, Ordering::Relaxed);
        input.put.store(101, Ordering::Relaxed);
        assert_eq!(sum(&mut channels), Some(NEED));
        counts_for(&mut channels, PATIENCE);
        assert_eq!(sum(&mut []), None);
    }
}
