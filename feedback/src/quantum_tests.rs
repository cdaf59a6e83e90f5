//! The loop of a quantum in itself.

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
    let mut share = QuantumLoop::new();
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
        assert_eq!(QuantumLoop::of(share.settled()), share);
    }
}

#[test]
fn a_full_input_counts_at_once_and_a_still_one_no_more() {
    let mut share = QuantumLoop::new();
    assert!(share.next(NEED) >= 2 * ONE);
    assert!((0..3).map(|_| share.next(NEED)).last() >= Some(MOST * 9 / 10));
    assert!((0..60).map(|_| share.rest()).last() <= Some(ONE * 11 / 10));
    assert_eq!((0..100_000).map(|_| share.rest()).last(), Some(ONE));
    let mut share = QuantumLoop::new();
    assert_eq!((0..10).map(|_| share.next(-NEED)).last(), Some(LEAST));
    assert_eq!((0..100_000).map(|_| share.rest()).last(), Some(ONE));
}

/// As much as all others together, between four and sixteen times its own.
#[test]
fn a_devices_stream_may_have_half_of_the_cpu() {
    assert_eq!([0, 1, 2, 5].map(most_of), [MOST; 4]);
    assert_eq!(most_of(10), 9 * ONE);
    assert_eq!([17, 24, u32::MAX].map(most_of), [FARTHEST; 3]);
    let mut share = QuantumLoop::new();
    let turns: Vec<u32> = (0..50)
        .map(|_| share.next_within(NEED, most_of(10)))
        .collect();
    assert!(turns.iter().all(|&turn| turn <= 9 * ONE));
    assert_eq!(turns[49], 9 * ONE);
    // Back among others it has no more than they.
    assert!(share.next(NEED) <= MOST);
}
