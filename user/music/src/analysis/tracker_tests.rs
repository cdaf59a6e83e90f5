//! The tracker with generated music.

use super::*;
use crate::frame::RATE;
use crate::sources::rhythm::{Rhythm, Score};

/// Plays so many seconds: the beats that the tracker tells, with its tempo then, and those of the music.
fn follow(score: Score, seconds: u32) -> (Vec<(u64, f64)>, Vec<u64>) {
    let mut rhythm = Rhythm::new(RATE, score);
    // As fast as this, half of the beat would do as well.
    let low = if score.tempo > 130.0 { 100.0 } else { 60.0 };
    let mut tracker = Tracker::new(RATE, low, 180.0);
    let mut beats = Vec::new();
    for n in 0..u64::from(seconds * RATE) {
        let part = tracker.next(rhythm.frame());
        if part.is_some_and(|part| part.number == 0) {
            let interval = tracker.interval_ns().unwrap();
            beats.push((n, 60e9 / interval as f64));
        }
    }
    (beats, rhythm.beats().to_vec())
}

fn seconds(frames: u64) -> f64 {
    frames as f64 / f64::from(RATE)
}

/// Every tempo after `from` seconds is right within 2 %.
fn right(score: Score, told: &[(u64, f64)], from: f64) {
    let late: Vec<_> = told.iter().filter(|(at, _)| seconds(*at) > from).collect();
    assert!(!late.is_empty(), "{score:?}: nothing told");
    for (at, tempo) in late {
        let expected = score.at(seconds(*at));
        assert!(
            (tempo / expected - 1.0).abs() < 0.02,
            "{score:?} at {}: {tempo} for {expected}",
            seconds(*at)
        );
    }
}

#[test]
fn the_tempo_of_noisy_music_is_found() {
    for (seed, tempo) in [
        (1, 72.0),
        (2, 90.0),
        (3, 104.5),
        (4, 120.0),
        (5, 138.0),
        (6, 160.0),
    ] {
        let score = Score {
            noise: 3.0,
            jitter: 0.004,
            seed,
            ..Score::steady(tempo)
        };
        let (told, _) = follow(score, 20);
        right(score, &told, 6.0);
        let first = told.first().map_or(99.0, |(at, _)| seconds(*at));
        assert!(first < 5.0, "{tempo}: first at {first}");
        // No beat is told twice or left out.
        let expected = (14.0 * tempo / 60.0) as usize;
        let count = told.iter().filter(|(at, _)| seconds(*at) > 6.0).count();
        assert!(
            count.abs_diff(expected) <= 1,
            "{tempo}: {count} of {expected}"
        );
    }
}

#[test]
fn beats_are_where_those_of_the_music_are() {
    for (seed, tempo) in [(7, 88.0), (8, 117.0), (9, 150.0)] {
        let score = Score {
            noise: 2.0,
            seed,
            ..Score::steady(tempo)
        };
        let (told, beats) = follow(score, 20);
        for (at, _) in told.iter().filter(|(at, _)| seconds(*at) > 6.0) {
            let off = beats.iter().map(|beat| beat.abs_diff(*at)).min().unwrap();
            assert!(off <= 88, "{tempo}: {off} frames off at {}", seconds(*at));
        }
    }
}

#[test]
fn a_change_of_tempo_is_followed() {
    for (before, later, during) in [(100.0, 120.0, 0.0), (130.0, 96.0, 0.0), (90.0, 126.0, 20.0)] {
        let score = Score {
            later,
            from: 10.0,
            during,
            noise: 2.0,
            jitter: 0.003,
            ..Score::steady(before)
        };
        let (told, _) = follow(score, 40);
        let early: Vec<_> = told
            .iter()
            .filter(|(at, _)| seconds(*at) < 10.0)
            .copied()
            .collect();
        right(score, &early, 6.0);
        // While the tempo rises the loop is a little behind.
        right(score, &told, 16.0 + during);
        for (at, tempo) in told.iter().filter(|(at, _)| seconds(*at) > 16.0) {
            let expected = score.at(seconds(*at));
            assert!(
                (tempo / expected - 1.0).abs() < 0.05,
                "{tempo} for {expected}"
            );
        }
    }
}

#[test]
fn silence_and_noise_have_no_beat() {
    let mut tracker = Tracker::new(RATE, 60.0, 180.0);
    let mut random = crate::sources::tone::Random::new(4);
    let mut parts = 0;
    for n in 0..20 * RATE {
        let x = if n < 10 * RATE {
            0.0
        } else {
            random.wave() * 9000.0
        };
        parts += u32::from(tracker.next([x as i16; 2]).is_some());
    }
    assert_eq!(parts, 0);
}

#[test]
fn it_goes_on_through_a_pause_and_then_lets_go() {
    let mut rhythm = Rhythm::new(RATE, Score::steady(120.0));
    let mut tracker = Tracker::new(RATE, 60.0, 180.0);
    for _ in 0..10 * RATE {
        tracker.next(rhythm.frame());
    }
    let mut beats = Vec::new();
    for n in 0..8 * RATE {
        if tracker.next([0, 0]).is_some_and(|part| part.number == 0) {
            beats.push(n);
        }
    }
    assert!((4..=8).contains(&beats.len()), "{beats:?}");
    assert!(tracker.interval_ns().is_none());
}
