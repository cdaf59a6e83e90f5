//! The loop of a quantum in simulated pipelines.

use super::*;

#[test]
fn a_channel_shows_its_fill() {
    assert_eq!(need(0, 100), -NEED);
    assert_eq!(need(50, 100), 0);
    assert_eq!(need(100, 100), NEED);
    assert_eq!(need(1000, 100), NEED);
    assert_eq!(need(7, 0), 0);
    assert_eq!(need(usize::MAX, usize::MAX), NEED);
}

#[test]
fn answers_stay_within_their_bounds() {
    let mut seed = 3u64;
    let mut share = Share::new();
    for _ in 0..1_000_000 {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let quantum = match seed >> 60 {
            0 => share.rest(),
            1 => share.next(i32::MIN),
            2 => share.next(i32::MAX),
            _ => share.next((seed >> 33) as i32 % 600 - 300),
        };
        assert!((LEAST..=MOST).contains(&quantum));
        assert!((LEAST..=MOST).contains(&share.settled()));
        assert_eq!(Share::of(share.settled()), share);
    }
}

#[test]
fn a_full_input_counts_at_once_and_a_still_one_no_more() {
    let mut share = Share::new();
    assert!(share.next(NEED) >= 2 * ONE);
    assert!((0..3).map(|_| share.next(NEED)).last() >= Some(MOST * 9 / 10));
    assert!((0..60).map(|_| share.rest()).last() <= Some(ONE * 11 / 10));
    assert_eq!((0..100_000).map(|_| share.rest()).last(), Some(ONE));
    let mut share = Share::new();
    assert_eq!((0..10).map(|_| share.next(-NEED)).last(), Some(LEAST));
    assert_eq!((0..100_000).map(|_| share.rest()).last(), Some(ONE));
}

/// A pipeline on one CPU, beside `hogs` threads that only compute: the first stage's input comes from a
/// device, at `rate` units for each nanosecond, and is lost when there is no room; each stage takes `cost`
/// nanoseconds for a unit.
struct Pipeline {
    rate: f64,
    costs: Vec<f64>,
    hogs: usize,
    size: f64,
    fills: Vec<f64>,
    shares: Vec<Share>,
    quanta: Vec<u32>,
    now: f64,
    lost: f64,
    done: f64,
    /// Quantum ends, which are the loop's events, over all stages.
    looks: u64,
    /// Whether the loop is closed.
    fed: bool,
}

const QUANTUM: f64 = 400_000.0;

impl Pipeline {
    fn new(rate: f64, costs: &[f64], hogs: usize, size: f64, fed: bool) -> Pipeline {
        Pipeline {
            rate,
            costs: costs.to_vec(),
            hogs,
            size,
            fills: vec![0.0; costs.len()],
            shares: vec![Share::new(); costs.len()],
            quanta: vec![ONE; costs.len()],
            now: 0.0,
            lost: 0.0,
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
    fn round(&mut self) {
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
        }
    }

    /// Lets `events` of the loop pass, or as many rounds.
    fn look(&mut self, events: u64) {
        let before = self.looks;
        for _ in 0..events {
            if self.looks < before + events {
                self.round();
            }
        }
    }

    /// Lets `rounds` pass; the units that were done in each nanosecond.
    fn run(&mut self, rounds: usize) -> f64 {
        let (before, began) = (self.done, self.now);
        for _ in 0..rounds {
            self.round();
        }
        (self.done - before) / (self.now - began)
    }
}

#[test]
fn a_stage_gets_the_time_that_its_input_needs() {
    // The stage needs 45 % of the CPU; beside three others that compute, it would get 25 %.
    for size in [65_536.0, 4_000_000.0] {
        let rate = 0.01;
        let mut open = Pipeline::new(rate, &[45.0], 3, size, false);
        open.run(200);
        assert!(open.run(1000) < rate * 0.6);
        let mut fed = Pipeline::new(rate, &[45.0], 3, size, true);
        fed.look(50);
        let lost = fed.lost;
        assert!(fed.run(1000) > rate * 0.9);
        assert!(fed.lost - lost < 0.1 * rate * fed.now, "{size}");
    }
}

#[test]
fn a_step_of_load_is_followed() {
    let rate = 0.01;
    let mut fed = Pipeline::new(rate, &[40.0], 1, 65_536.0, true);
    fed.run(500);
    fed.hogs = 4;
    fed.look(50);
    assert!(fed.run(500) > rate * 0.9);
    fed.hogs = 1;
    fed.run(500);
    assert!(fed.run(100) > rate * 0.98);
}

#[test]
fn a_chain_of_twenty_runs_at_the_rate_of_its_device() {
    // Any stage may be the dear one, and needs 35 % of the CPU; the others together 19 %.
    for dear in [0, 7, 19] {
        let mut costs = vec![1.0; 20];
        costs[dear] = 35.0;
        let rate = 0.01;
        let mut open = Pipeline::new(rate, &costs, 4, 131_072.0, false);
        open.run(300);
        let before = open.run(300);
        let mut fed = Pipeline::new(rate, &costs, 4, 131_072.0, true);
        fed.run(300);
        let after = fed.run(300);
        assert!(
            after > rate * 0.9,
            "{dear}: {after} of {rate}, {before} without"
        );
        assert!(before < rate * 0.75, "{dear}: {before}");
    }
}

#[test]
fn a_ramp_is_followed_and_jitter_changes_little() {
    let mut fed = Pipeline::new(0.002, &[50.0], 3, 65_536.0, true);
    let mut seed = 5u64;
    fed.run(100);
    for step in 0..800 {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let jitter = 0.75 + ((seed >> 40) % 1000) as f64 / 2000.0;
        fed.rate = (0.002 + 0.000008 * f64::from(step)) * jitter;
        fed.round();
    }
    let (lost, began) = (fed.lost, fed.now);
    fed.rate = 0.0084;
    fed.run(400);
    assert!(fed.lost - lost < 0.1 * 0.0084 * (fed.now - began));
}

#[test]
fn it_stays_where_it_is_for_ever() {
    let mut fed = Pipeline::new(0.01, &[40.0], 2, 65_536.0, true);
    fed.run(1000);
    let mut least = f64::MAX;
    for _ in 0..1000 {
        least = least.min(fed.run(1000));
    }
    assert!(least > 0.0095, "{least}");
}

#[test]
fn those_beside_wait_no_longer_than_the_bound() {
    // A stream that could use everything, beside threads that compute.
    for hogs in 1..50 {
        let mut fed = Pipeline::new(10.0, &[5.0], hogs, 1e6, true);
        fed.run(100);
        let began = fed.now;
        fed.round();
        let round = fed.now - began;
        assert!(round <= QUANTUM * (hogs as f64 + f64::from(MOST / ONE)) + 1.0);
    }
}
