//! The loop of a quantum in simulated pipelines.

#[path = "common/pipeline.rs"]
#[allow(dead_code, reason = "the example needs the rest")]
mod pipeline;

use feedback::quantum::{MOST, ONE};
use pipeline::{Pipeline, QUANTUM};

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
