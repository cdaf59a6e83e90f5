//! The loop that meets an interrupt storm: a source that would take more of a CPU than it may is polled, at
//! intervals that follow what a poll costs.
//!
//! *Interface*: [`StormLoop::watch`], from time to time while the source interrupts by itself: None, or it is
//! to be polled from now on. Then [`StormLoop::polled`] after each poll, and [`StormLoop::tried`] after each
//! trial, answer with the next [`Step`]: a poll, a trial in which the source interrupts by itself, or the
//! end. Times are nanoseconds. [`StormLoop::words`] and [`StormLoop::of`] are for whoever keeps a loop in
//! words.
//!
//! An interval locked loop (section 6.2.2): measured is what a poll costs, adjusted the interval between
//! polls, so that their quotient is the source's part of the CPU. The cost is filtered; the interval goes a
//! quarter of the way at each poll. A poll costs something by itself and more for each thing that has come
//! since the last one, up to what the device keeps: an increasing, concave function of the interval. So
//! the loop has one point of rest, and goes there without swinging; `docs/feedback.md` has the argument.
//!
//! Nobody knows what a source would do if it were let, while it is polled. So it is tried, seldom while the
//! flood lasts. The cost of one interrupt is known from polls only, and that grows old: each look at a busy
//! source believes a little more, until the source is polled a few times for a measurement.

/// A source may have one of so many parts of a CPU.
pub const PART: u64 = 8;
/// All sources that are polled may have one of so many parts together.
pub const ALL: u64 = 4;
/// The cost of an interrupt as long as nothing is known.
pub const UNKNOWN_NS: u64 = 100_000;
/// The shortest interval between polls.
pub const SHORTEST_NS: u64 = 50_000;
/// The longest trial; the shortest is a tenth.
pub const TRIAL_NS: u64 = 10_000_000;
/// From the beginning, or from a trial that found the flood, to the next trial, at first.
pub const PATIENCE_NS: u64 = 5_000_000;
/// At most.
pub const MOST_PATIENCE_NS: u64 = 640_000_000;

/// Fraction bits of the filtered cost, which is also the filter's shift.
const FILTER: u32 = 3;
/// The interval's gain at each poll, as a right shift.
const GAIN: u32 = 2;
/// The believed cost grows by this part of itself at each look, as a right shift.
const DOUBT: u32 = 6;
/// Words of a loop.
pub const WORDS: usize = 5;
/// Longer than any cost is believed to be.
const LONGEST_COST_NS: u64 = 10_000_000;

/// A source's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StormLoop {
    /// The filtered cost of an interrupt, with `FILTER` fraction bits.
    cost: u64,
    /// The same of a poll, with the timer's interrupt that brings it.
    whole: u64,
    /// Between two polls; 0 while the source interrupts by itself.
    interval: u64,
    /// Time in polls until the next trial.
    until: u64,
    /// The same after the next trial that finds the flood.
    patience: u64,
}

/// The filtered cost after one more measurement.
fn filtered(cost: u64, took: u64) -> u64 {
    // A poll that takes much longer than ever shows a host that had something else to do.
    let most = (cost >> FILTER)
        .saturating_mul(4)
        .clamp(1000, LONGEST_COST_NS);
    cost - (cost >> FILTER) + took.min(most)
}

/// The next thing to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Poll after so long.
    Poll(u64),
    /// Let the source interrupt for so long, and see how often it does.
    Try(u64),
    /// Let it interrupt.
    Leave,
}

impl Default for StormLoop {
    fn default() -> StormLoop {
        StormLoop::new()
    }
}

impl StormLoop {
    /// A source that interrupts, and of which nothing is known.
    pub const fn new() -> StormLoop {
        StormLoop {
            cost: UNKNOWN_NS << FILTER,
            whole: UNKNOWN_NS << FILTER,
            interval: 0,
            until: 0,
            patience: PATIENCE_NS,
        }
    }

    /// The loop that [`StormLoop::words`] has told.
    pub const fn of([cost, whole, interval, until, patience]: [u64; WORDS]) -> StormLoop {
        StormLoop {
            cost,
            whole,
            interval,
            until,
            patience,
        }
    }

    /// All that there is to keep.
    pub const fn words(self) -> [u64; WORDS] {
        [
            self.cost,
            self.whole,
            self.interval,
            self.until,
            self.patience,
        ]
    }

    /// The believed cost of an interrupt.
    pub const fn cost_ns(self) -> u64 {
        self.cost >> FILTER
    }

    /// Between two polls; 0: the source interrupts by itself.
    pub const fn interval_ns(self) -> u64 {
        self.interval
    }

    /// Whether `count` interrupts in `elapsed` are more than one of `parts` of a CPU.
    const fn is_more(self, count: u64, elapsed: u64, parts: u64) -> bool {
        count.saturating_mul(self.cost_ns()).saturating_mul(parts) > elapsed
    }

    /// The source, which interrupts by itself, has done so `count` times in `elapsed`: None, or after how
    /// long it is to be polled first.
    pub fn watch(&mut self, count: u64, elapsed: u64, longest: u64) -> Option<u64> {
        if self.is_more(count, elapsed, PART) {
            self.until = self.patience;
            self.interval = self.goal(1, longest);
            return Some(self.interval);
        }
        let unknown = UNKNOWN_NS << FILTER;
        if self.cost < unknown && count.saturating_mul(UNKNOWN_NS * PART) > elapsed {
            self.cost = (self.cost + (self.cost >> DOUBT) + 1).min(unknown);
        }
        None
    }

    /// The interval at which polls of the present whole cost take their part, when so many sources are
    /// polled.
    fn goal(self, sources: u64, longest: u64) -> u64 {
        let parts = PART.max(ALL.saturating_mul(sources));
        let goal = (self.whole >> FILTER).saturating_mul(parts);
        goal.clamp(SHORTEST_NS, longest.max(SHORTEST_NS))
    }

    /// A poll has taken `took`, and `whole` with all that it has brought with it. So many `sources` are
    /// polled, this one among them, and this one at least each `longest`.
    pub fn polled(&mut self, took: u64, whole: u64, sources: u64, longest: u64) -> Step {
        self.cost = filtered(self.cost, took);
        self.whole = filtered(self.whole, whole.max(took));
        let goal = self.goal(sources, longest);
        let passed = self.interval;
        self.interval = if goal >= passed {
            passed + ((goal - passed) >> GAIN)
        } else {
            passed - ((passed - goal) >> GAIN)
        };
        if self.until > passed {
            self.until -= passed;
            return Step::Poll(self.interval);
        }
        Step::Try(
            self.cost_ns()
                .saturating_mul(8)
                .clamp(TRIAL_NS / 10, TRIAL_NS),
        )
    }

    /// In a trial of `elapsed` the source has interrupted `count` times. It leaves polling at half of what
    /// brings it there.
    pub fn tried(&mut self, count: u64, elapsed: u64) -> Step {
        if self.is_more(count, elapsed, 2 * PART) {
            self.patience = self.patience.saturating_mul(2).min(MOST_PATIENCE_NS);
            self.until = self.patience;
            return Step::Poll(self.interval.max(SHORTEST_NS));
        }
        // One that comes and goes is tried less often than a new one.
        self.patience = (self.patience / 2).max(PATIENCE_NS);
        self.leave();
        Step::Leave
    }

    /// The source interrupts by itself again, whatever the reason.
    pub fn leave(&mut self) {
        self.interval = 0;
    }
}

#[cfg(test)]
#[path = "interrupt_storm_tests.rs"]
mod tests;
