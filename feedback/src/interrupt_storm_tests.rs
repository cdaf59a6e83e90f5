//! The loop against a device and a CPU in simulated time.

use super::*;

const MS: u64 = 1_000_000;
/// The timer's interrupt around a poll.
const ALARM: u64 = 1_500;
/// The kernel looks at sources this often.
const LOOK: u64 = 10 * MS;

/// A device: what a look at it costs, what each event costs, and how many events it keeps.
#[derive(Clone, Copy, Debug)]
struct Device {
    base: u64,
    each: u64,
    keeps: u64,
    longest: u64,
}

/// The events of a run.
#[derive(Default, Debug)]
struct Seen {
    /// Time of the CPU that went into interrupts and polls, and the part of it in each tenth of a second.
    spent: u64,
    shares: Vec<u64>,
    /// Events taken, and events for which the device had no room.
    taken: u64,
    refused: u64,
    /// When polling began and ended.
    changes: Vec<(u64, bool)>,
    intervals: Vec<u64>,
    /// The longest that an event waited.
    waited: u64,
}

/// Runs `device` until `end`; `gap` is the time from an event at a moment to the next.
fn run(device: Device, end: u64, mut gap: impl FnMut(u64) -> u64) -> (StormLoop, Seen) {
    let (mut flood, mut seen) = (StormLoop::new(), Seen::default());
    let (mut now, mut looked, mut count, mut held) = (0u64, 0u64, 0u64, 0u64);
    let (mut event, mut oldest) = (gap(0), None::<u64>);
    // (when, whether a trial ends then)
    let mut alarm: Option<(u64, bool)> = None;
    let (mut trial_from, mut tenth, mut spent_before) = (0, 0, 0);
    while now < end {
        let masked = matches!(alarm, Some((_, false)));
        let look = looked + LOOK;
        let next = event.min(look).min(alarm.map_or(u64::MAX, |(at, _)| at));
        now = now.max(next);
        while event <= now {
            if held < device.keeps {
                held += 1;
                oldest.get_or_insert(event);
            } else {
                seen.refused += 1;
            }
            event += gap(event).max(1);
        }
        let take = |now: &mut u64, held: &mut u64, oldest: &mut Option<u64>, seen: &mut Seen| {
            let took = device.base + device.each * *held;
            if let Some(oldest) = oldest.take() {
                seen.waited = seen.waited.max(*now - oldest);
            }
            seen.taken += *held;
            *held = 0;
            *now += took;
            seen.spent += took;
            took
        };
        if !masked && held > 0 {
            take(&mut now, &mut held, &mut oldest, &mut seen);
            count += 1;
        }
        let mut step = None;
        match alarm {
            Some((at, false)) if at <= now => {
                let took = take(&mut now, &mut held, &mut oldest, &mut seen);
                seen.spent += ALARM;
                now += ALARM;
                step = Some(flood.polled(took, took + ALARM, 1, device.longest));
            }
            Some((at, true)) if at <= now => step = Some(flood.tried(count, now - trial_from)),
            _ => {}
        }
        match step {
            Some(Step::Poll(after)) => {
                assert!((SHORTEST_NS..=device.longest).contains(&after), "{after}");
                seen.intervals.push(after);
                alarm = Some((now + after, false));
            }
            Some(Step::Try(window)) => {
                (trial_from, count) = (now, 0);
                alarm = Some((now + window, true));
            }
            Some(Step::Leave) => {
                alarm = None;
                (looked, count) = (now, 0);
                seen.changes.push((now, false));
            }
            None => {}
        }
        if alarm.is_none() && now >= looked + LOOK {
            if let Some(after) = flood.watch(count, now - looked, device.longest) {
                alarm = Some((now + after, false));
                seen.changes.push((now, true));
            }
            (looked, count) = (now, 0);
        }
        if alarm.is_some() {
            looked = now;
        }
        while now >= (tenth + 1) * 100 * MS {
            tenth += 1;
            let part = (seen.spent - spent_before) * 1000 / (100 * MS);
            seen.shares.push(part);
            spent_before = seen.spent;
        }
    }
    (flood, seen)
}

const LINE: Device = Device {
    base: 2_000,
    each: 1_000,
    keeps: 16,
    longest: MS,
};
const PORT: Device = Device {
    base: 3_000,
    each: 200,
    keeps: u64::MAX,
    longest: 10 * MS,
};

#[test]
fn a_step_is_met_within_two_looks_and_holds_the_part() {
    for device in [
        LINE,
        PORT,
        Device {
            base: 90_000,
            each: 3_000,
            keeps: 32,
            ..PORT
        },
    ] {
        // As fast as the CPU can.
        let (flood, seen) = run(device, 3_000 * MS, |_| 2_000);
        assert_eq!(seen.changes.len(), 1, "{device:?}: {:?}", seen.changes);
        assert!(seen.changes[0].0 <= 2 * LOOK + MS, "{:?}", seen.changes);
        // A part for the polls; trials and the time before the first look are in the first tenths.
        let each = device.each * 100 / 2_000;
        let unbounded = if device.keeps == u64::MAX {
            each * 10
        } else {
            0
        };
        for share in &seen.shares[1..] {
            assert!(
                *share <= 1000 / PART + unbounded + 60,
                "{device:?}: {:?}",
                seen.shares
            );
        }
        assert!(flood.interval_ns() > 0);
    }
}

#[test]
fn the_interval_rests_and_does_not_swing() {
    let (_, seen) = run(LINE, 2_000 * MS, |_| 20_000);
    let last = &seen.intervals[seen.intervals.len() / 2..];
    let (least, most) = (last.iter().min().unwrap(), last.iter().max().unwrap());
    assert!(most - least <= most / 10 + 1000, "{least} to {most}");
    // From above it comes down, without a turn by more than a measurement's noise.
    let mut turns = 0;
    for three in seen.intervals[..40].windows(3) {
        let (a, b) = (
            three[1] as i64 - three[0] as i64,
            three[2] as i64 - three[1] as i64,
        );
        turns += i32::from(a.signum() * b.signum() < 0 && a.abs().min(b.abs()) > 2_000);
    }
    assert!(turns <= 2, "{:?}", &seen.intervals[..40]);
}

#[test]
fn every_cost_has_one_point_of_rest() {
    // The map of the interval is increasing and concave: from any interval and any belief it ends at the
    // same.
    for device in [
        LINE,
        PORT,
        Device { base: 500, ..LINE },
        Device {
            base: 40_000,
            each: 9_000,
            ..LINE
        },
    ] {
        for gap in [1_500u64, 10_000, 100_000, 5 * MS] {
            let rest = |cost: u64, interval: u64| {
                let mut flood = StormLoop::of([
                    cost << FILTER,
                    cost << FILTER,
                    interval,
                    u64::MAX,
                    PATIENCE_NS,
                ]);
                for _ in 0..4000 {
                    // On the average, so that no step of one event is a point of rest.
                    let came = flood.interval_ns() * device.each / gap;
                    let took = device.base + came.min(device.each.saturating_mul(device.keeps));
                    assert!(matches!(
                        flood.polled(took, took + ALARM, 1, device.longest),
                        Step::Poll(_)
                    ));
                }
                flood.interval_ns()
            };
            let ends = [
                (100, SHORTEST_NS),
                (UNKNOWN_NS, MS),
                (5 * MS, device.longest),
            ]
            .map(|(cost, interval)| rest(cost, interval));
            let spread = ends.iter().max().unwrap() - ends.iter().min().unwrap();
            assert!(
                spread <= ends[0] / 5 + 2 * gap.min(20_000),
                "{device:?} {gap}: {ends:?}"
            );
        }
    }
}

#[test]
fn what_can_be_afforded_is_left_alone() {
    // A thousand events a second that cost 3 µs each: after a measurement they interrupt by themselves.
    let (flood, seen) = run(PORT, 2_000 * MS, |_| MS);
    assert_eq!(flood.interval_ns(), 0);
    assert!(seen.changes.len() <= 2, "{:?}", seen.changes);
    // A few thousand are measured again from time to time, and briefly.
    let (_, seen) = run(PORT, 10_000 * MS, |_| 300_000);
    let polled: u64 = seen
        .changes
        .chunks(2)
        .filter_map(|pair| Some(pair.get(1)?.0 - pair[0].0))
        .sum();
    assert!(polled < 200 * MS, "{:?}", seen.changes);
    assert!(seen.changes.len() >= 4, "{:?}", seen.changes);
}

#[test]
fn keys_are_never_polled() {
    let (flood, seen) = run(
        Device {
            base: 80_000,
            ..LINE
        },
        10_000 * MS,
        |_| 20 * MS,
    );
    assert_eq!(flood.interval_ns(), 0);
    assert!(seen.changes.is_empty() && seen.waited == 0);
}

#[test]
fn a_flood_that_ends_is_left_within_its_patience() {
    for length in [20, 100, 400, 2_000, 5_000u64] {
        let (flood, seen) = run(LINE, (length + 2_000) * MS, |now| {
            if now < length * MS { 3_000 } else { 50 * MS }
        });
        assert_eq!(flood.interval_ns(), 0, "{length}");
        let (at, polling) = *seen.changes.last().unwrap();
        assert!(!polling);
        // No longer than the flood has lasted, and never longer than the patience.
        let late = at.saturating_sub(length * MS);
        assert!(
            late <= length.max(40) * MS && late <= MOST_PATIENCE_NS + 20 * MS,
            "{length}: {late}"
        );
    }
}

#[test]
fn a_flood_that_comes_and_goes() {
    for period in [7, 30, 150, 900u64] {
        let (_, seen) = run(LINE, 6_000 * MS, |now| {
            if (now / (period * MS)).is_multiple_of(2) {
                2_500
            } else {
                30 * MS
            }
        });
        let all = seen.spent * 1000 / (6_000 * MS);
        // Unmet it would have half of the CPU, for it has all of it half of the time.
        assert!(all <= 250, "{period}: {all} per mille {:?}", seen.shares);
        assert!(
            seen.waited <= LINE.longest + MS,
            "{period}: {}",
            seen.waited
        );
    }
}

#[test]
fn a_ramp_is_followed() {
    // From a thousand events in a second to half a million.
    let (_, seen) = run(LINE, 4_000 * MS, |now| MS / (1 + now / (8 * MS)));
    assert!(seen.changes.last().unwrap().1);
    for share in &seen.shares {
        assert!(*share <= 1000 / PART + 120, "{:?}", seen.shares);
    }
}

#[test]
fn nothing_that_the_device_keeps_is_lost() {
    let kept = Device {
        keeps: 1 << 40,
        ..LINE
    };
    for gap in [1_500, 10_000, 60_000, 700_000u64] {
        let (_, seen) = run(kept, 1_000 * MS, |_| gap);
        assert_eq!(seen.refused, 0);
        let came = 1_000 * MS / gap;
        // All but those of the last interval.
        assert!(
            seen.taken + 20 * MS / gap + 2 >= came,
            "{gap}: {} of {came}",
            seen.taken
        );
    }
    // A line of 11,520 bytes in a second fills its 16 places in 1.4 ms, and is polled sooner.
    let (_, seen) = run(
        Device {
            base: 20_000,
            each: 4_000,
            ..LINE
        },
        2_000 * MS,
        |_| 86_805,
    );
    assert_eq!(seen.refused, 0);
}

#[test]
fn several_sources_share() {
    let alone = StormLoop::of([9_000 << FILTER, 20_000 << FILTER, MS, u64::MAX, PATIENCE_NS]);
    let [one, two, six] = [1, 2, 6].map(|sources| {
        let mut flood = alone;
        for _ in 0..100 {
            flood.polled(9_000, 20_000, sources, 10 * MS);
        }
        flood.interval_ns()
    });
    assert_eq!((one / 1000, two / 1000), (160, 160));
    assert_eq!(six / 1000, 480);
}

/// A loop with this cost of an interrupt and of a poll, whose next trial comes never.
fn polled(cost: u64, interval: u64) -> StormLoop {
    StormLoop::of([
        cost << FILTER,
        cost << FILTER,
        interval,
        u64::MAX,
        PATIENCE_NS,
    ])
}

#[test]
fn one_poll_is_a_measurement_and_no_more() {
    // An eighth of the way, and of a host's pause no more than of four times the cost.
    let after = |took| {
        let mut flood = polled(8_000, MS);
        flood.polled(took, took, 1, 10 * MS);
        flood.cost_ns()
    };
    assert_eq!((after(8_000), after(16_000)), (8_000, 9_000));
    assert_eq!((after(9 * MS), after(32_000)), (11_000, 11_000));
}

#[test]
fn the_interval_goes_a_quarter_of_the_way() {
    let after = |cost: u64, interval| {
        let mut flood = polled(cost, interval);
        flood.polled(cost, cost, 1, 10 * MS);
        flood.interval_ns()
    };
    // The goal is 800 µs, and the longest.
    assert_eq!(
        (after(100_000, 400_000), after(100_000, 1_200_000)),
        (500_000, 1_100_000)
    );
    assert_eq!(after(9 * MS, 2 * MS), 4 * MS);
}

#[test]
fn a_trial_is_eight_costs_long_and_leaves_at_half_of_the_part() {
    let tried = |cost| {
        let mut flood = polled(cost, MS);
        flood.until = 0;
        flood.polled(cost, cost, 1, 10 * MS)
    };
    assert_eq!(tried(1_000), Step::Try(TRIAL_NS / 10));
    assert_eq!(tried(500_000), Step::Try(4 * MS));
    assert_eq!(tried(5 * MS), Step::Try(TRIAL_NS));
    // Interrupts of 10 µs: 10 in a millisecond and a half are a fifteenth, 10 in 1.7 less than a sixteenth.
    let mut flood = polled(10_000, MS);
    assert_eq!(flood.tried(10, 1_500_000), Step::Poll(MS));
    assert_eq!(flood.patience, 2 * PATIENCE_NS);
    assert_eq!(flood.tried(10, 1_500_000), Step::Poll(MS));
    assert_eq!(
        (flood.patience, flood.until),
        (4 * PATIENCE_NS, 4 * PATIENCE_NS)
    );
    assert_eq!(flood.tried(10, 1_700_000), Step::Leave);
    assert_eq!((flood.patience, flood.interval_ns()), (2 * PATIENCE_NS, 0));
    flood.patience = MOST_PATIENCE_NS;
    flood.tried(10, 1_500_000);
    assert_eq!(flood.patience, MOST_PATIENCE_NS);
}

#[test]
fn any_words_are_survived() {
    let words = [0, 1, 7, 1 << 20, u64::MAX >> 4, u64::MAX];
    for cost in words {
        for interval in words {
            for passed in words {
                let mut flood = StormLoop::of([cost, passed, interval, passed, passed]);
                flood.watch(passed, interval, cost);
                flood.polled(passed, interval, interval, cost);
                flood.tried(passed, interval);
                assert_eq!(StormLoop::of(flood.words()), flood);
            }
        }
    }
}
