//! A pipeline on one CPU beside threads that compute, simulated.
//!
//! *Interface*: [`Pipeline`]; [`Pipeline::round`] gives each thread its turn.

use feedback::quantum::{ONE, QuantumLoop, need};

/// A thread's own quantum, nanoseconds.
pub const QUANTUM: f64 = 400_000.0;

/// The first stage's input comes from a device, at `rate` units for each nanosecond, and is lost when there
/// is no room; each stage takes `cost` nanoseconds for a unit.
pub struct Pipeline {
    /// Units that the device brings in a nanosecond.
    pub rate: f64,
    /// Threads beside it that only compute.
    pub hogs: usize,
    /// Nanoseconds since the beginning.
    pub now: f64,
    /// Units that were lost.
    pub lost: f64,
    costs: Vec<f64>,
    size: f64,
    fills: Vec<f64>,
    shares: Vec<QuantumLoop>,
    quanta: Vec<u32>,
    used: Vec<f64>,
    done: f64,
    /// Quantum ends, which are the loop's events, over all stages.
    looks: u64,
    /// Whether the loop is closed.
    fed: bool,
}

/// A stage as it begins a turn.
pub struct Stage {
    /// The next quantum, nanoseconds.
    pub quantum: f64,
    /// The quantum about which the loop moves, a part of the own one.
    pub settled: f64,
    /// Nanoseconds that it has used.
    pub used: f64,
    /// Fill of its input, and of its output if it has one.
    pub fills: (f64, Option<f64>),
}

impl Pipeline {
    /// One with stages of these costs, and channels for `size` units between them.
    pub fn new(rate: f64, costs: &[f64], hogs: usize, size: f64, fed: bool) -> Pipeline {
        Pipeline {
            rate,
            hogs,
            now: 0.0,
            lost: 0.0,
            costs: costs.to_vec(),
            size,
            fills: vec![0.0; costs.len()],
            shares: vec![QuantumLoop::new(); costs.len()],
            quanta: vec![ONE; costs.len()],
            used: vec![0.0; costs.len()],
            done: 0.0,
            looks: 0,
            fed,
        }
    }

    fn pass(&mut self, time: f64) {
        self.now += time;
        self.fills[0] += time * self.rate;
        if self.fills[0] > self.size {
            self.lost += self.fills[0] - self.size;
            self.fills[0] = self.size;
        }
    }

    /// Each thread has its turn.
    pub fn round(&mut self) {
        self.round_with(|_, _, _| {});
    }

    /// The same; `see` sees the time, and each stage by its number after its turn.
    pub fn round_with(&mut self, mut see: impl FnMut(f64, usize, Stage)) {
        for _ in 0..self.hogs {
            self.pass(QUANTUM);
        }
        for n in 0..self.costs.len() {
            let quantum = QUANTUM * f64::from(self.quanta[n]) / f64::from(ONE);
            let room = match self.fills.get(n + 1) {
                Some(fill) => self.size - fill,
                None => f64::INFINITY,
            };
            let can = self.fills[n].min(room);
            let units = (quantum / self.costs[n]).min(can);
            self.pass(units * self.costs[n]);
            self.used[n] += units * self.costs[n];
            self.fills[n] -= units;
            match self.fills.get_mut(n + 1) {
                Some(fill) => *fill += units,
                None => self.done += units,
            }
            // One that blocks does not come to its quantum's end.
            if self.fed && units < can {
                let input = need(self.fills[n] as usize, self.size as usize);
                let output = match self.fills.get(n + 1) {
                    Some(fill) => -need(*fill as usize, self.size as usize),
                    None => 0,
                };
                self.quanta[n] = self.shares[n].next(input + output);
                self.looks += 1;
            }
            let output = self.fills.get(n + 1).map(|fill| fill / self.size);
            let stage = Stage {
                quantum: QUANTUM * f64::from(self.quanta[n]) / f64::from(ONE),
                settled: f64::from(self.shares[n].settled()) / f64::from(ONE),
                used: self.used[n],
                fills: (self.fills[n] / self.size, output),
            };
            see(self.now, n, stage);
        }
    }

    /// Lets `events` of the loop pass, or as many rounds.
    pub fn look(&mut self, events: u64) {
        let before = self.looks;
        for _ in 0..events {
            if self.looks < before + events {
                self.round();
            }
        }
    }

    /// Lets `rounds` pass; the units that were done in each nanosecond.
    pub fn run(&mut self, rounds: usize) -> f64 {
        let (before, began) = (self.done, self.now);
        for _ in 0..rounds {
            self.round();
        }
        (self.done - before) / (self.now - began)
    }
}
