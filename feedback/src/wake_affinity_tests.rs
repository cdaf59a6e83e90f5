//! A pair of threads on two CPUs in simulated time.

use super::*;

const MS: u64 = 1_000_000;
const QUANTUM: u64 = 400_000;

/// A producer that computes for a while, tells its consumer, and waits for the rest of its period; the
/// consumer computes for a while then.
#[derive(Clone, Copy, Debug)]
struct Pipeline {
    period: u64,
    produces: u64,
    consumes: u64,
}

/// How it went: joinings and partings, and the time that they were together.
#[derive(Debug, Default)]
struct Went {
    joinings: u32,
    together: u64,
    behind: u64,
}

/// Runs it for `length`, a step at a time; `at` gives the pipeline of a moment.
fn run(length: u64, at: impl Fn(u64) -> Pipeline) -> Went {
    const STEP: u64 = 50_000;
    let (mut producer, mut consumer) = (ThreadLoad::new(), ThreadLoad::new());
    let (mut ran, mut due, mut left) = ([0u64; 2], 0, [0u64; 2]);
    let (mut together, mut waited) = (true, 0);
    let mut went = Went::default();
    let mut now = 0;
    while now < length {
        now += STEP;
        let pipeline = at(now);
        if now >= due {
            due += pipeline.period;
            left[0] += pipeline.produces;
        }
        let busy = left.map(|left| left > 0);
        if together && busy[0] && busy[1] {
            // One of the two runs, and the other waits: an idle CPU takes it after a quantum.
            let runs = usize::from((now / QUANTUM).is_multiple_of(2));
            ran[runs] += STEP;
            left[runs] = left[runs].saturating_sub(STEP);
            waited += STEP;
            if waited > QUANTUM {
                (together, waited) = (false, 0);
            }
        } else {
            waited = 0;
            for i in 0..2 {
                if busy[i] {
                    ran[i] += STEP;
                    left[i] = left[i].saturating_sub(STEP);
                }
            }
        }
        if busy[0] && left[0] == 0 {
            let asleep = left[1] == 0;
            left[1] += pipeline.consumes;
            if asleep && !together {
                producer.look(now, ran[0]);
                if consumer.look(now, ran[1]) && consumer.joins(producer, now) {
                    together = true;
                    went.joinings += 1;
                }
            }
        }
        went.together += if together { STEP } else { 0 };
        went.behind = went.behind.max(left[1]);
    }
    went
}

fn steady(produces: u64, consumes: u64) -> Went {
    run(5_000 * MS, |_| Pipeline {
        period: MS,
        produces,
        consumes,
    })
}

#[test]
fn a_light_pipeline_ends_on_one_cpu() {
    for (produces, consumes) in [(50_000, 50_000), (100_000, 600_000), (400_000, 300_000)] {
        let went = steady(produces, consumes);
        assert!(
            went.together > 4_500 * MS,
            "{produces} {consumes}: {went:?}"
        );
        assert!(went.joinings <= 3, "{produces} {consumes}: {went:?}");
    }
}

#[test]
fn a_heavy_pipeline_has_two() {
    for (produces, consumes) in [(900_000, 900_000), (600_000, 800_000), (950_000, 300_000)] {
        let went = steady(produces, consumes);
        assert!(went.together < 100 * MS, "{produces} {consumes}: {went:?}");
        assert!(went.behind < 3 * MS, "{produces} {consumes}: {went:?}");
    }
}

#[test]
fn a_load_that_changes_is_followed() {
    let heavy = Pipeline {
        period: MS,
        produces: 900_000,
        consumes: 900_000,
    };
    let light = Pipeline {
        period: MS,
        produces: 200_000,
        consumes: 200_000,
    };
    let went = run(6_000 * MS, |now| {
        if (now / (1_500 * MS)).is_multiple_of(2) {
            heavy
        } else {
            light
        }
    });
    assert!((2..=8).contains(&went.joinings), "{went:?}");
    assert!(
        went.together > 2_500 * MS && went.together < 3_200 * MS,
        "{went:?}"
    );
}

#[test]
fn a_pair_whose_parts_come_at_the_same_time_does_not_swing() {
    // Half of a CPU in all, but in pieces of many quanta that overlap.
    let went = run(20_000 * MS, |_| Pipeline {
        period: 20 * MS,
        produces: 8 * MS,
        consumes: 6 * MS,
    });
    // The consumer's work ends before the producer's next begins: they stay.
    assert!(went.joinings <= 2, "{went:?}");
    let went = run(20_000 * MS, |_| Pipeline {
        period: 20 * MS,
        produces: 5 * MS,
        consumes: 17 * MS,
    });
    assert!(went.joinings <= 12, "{went:?}");
}

#[test]
fn what_is_old_says_nothing() {
    let mut load = ThreadLoad::new();
    load.look(MS, 0);
    for n in 1..50 {
        load.look(n * 10 * MS, n * MS);
    }
    assert!(load.part() < WHOLE / 8, "{}", load.part());
    assert!(!load.look(2_000 * MS, 60 * MS));
    assert_eq!(load.part(), WHOLE);
}

#[test]
fn each_parting_doubles_the_patience() {
    let idle = ThreadLoad {
        part: 0,
        ..ThreadLoad::new()
    };
    let mut load = idle;
    let mut now = MS;
    let mut took = Vec::new();
    for _ in 0..8 {
        let from = now;
        while !load.joins(idle, now) {
            now += WINDOW_NS;
        }
        took.push((now - from) / WINDOW_NS);
        now += WINDOW_NS;
    }
    assert!(took.windows(2).all(|two| two[1] >= two[0]), "{took:?}");
    assert!(took[7] >= MOST_PATIENCE - 2, "{took:?}");
    now += LASTING_NS;
    load.joins(idle, now);
    assert_eq!(u64::from(load.patience), PATIENCE);
}

#[test]
fn a_look_is_not_so_soon_after_the_last_one() {
    let mut load = ThreadLoad::new();
    assert!(!load.look(1_000 * MS, 0));
    assert!(load.look(1_000 * MS + WINDOW_NS, MS));
    let before = load;
    assert!(!load.look(1_000 * MS + 2 * WINDOW_NS - 1, 2 * MS));
    assert_eq!(load, before);
}

#[test]
fn a_pair_fits_at_looks_one_after_the_other() {
    let light = ThreadLoad {
        part: 0,
        ..ThreadLoad::new()
    };
    let mut load = light;
    let mut at = |waker| load.joins(waker, MS);
    for _ in 1..PATIENCE {
        assert!(!at(light));
    }
    assert!(!at(ThreadLoad::new()));
    for _ in 1..PATIENCE {
        assert!(!at(light));
    }
    assert!(at(light));
}

#[test]
fn a_parting_counts_once_and_the_looks_before_a_joining_no_more() {
    let light = ThreadLoad {
        part: 0,
        ..ThreadLoad::new()
    };
    let mut load = light;
    let mut looks = || (1..1000).find(|_| load.joins(light, 10 * MS)).unwrap();
    assert_eq!([looks(), looks(), looks()], [4, 8, 16]);
}

#[test]
fn any_words_are_survived() {
    for first in [0, 1, u64::MAX] {
        for word in [0, 1, u64::MAX] {
            let mut load = ThreadLoad::of([first, word, word, word]);
            load.look(word, first);
            load.joins(load, word);
            assert_eq!(ThreadLoad::of(load.words()), load);
        }
    }
    assert_eq!(ThreadLoad::of([0; WORDS]), ThreadLoad::new());
}
