//! The alarm heap against a sorted list, in simulated time.

use crate::alarm::*;
use crate::primitive::{ALARM_CHUNK as CHUNK, Ordering};

/// Chunks of alarms that a test sets: more than a part of the table has.
const CHUNKS: usize = if cfg!(miri) { 4 } else { 600 };

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 11
}

fn nothing(_: usize) {}

#[test]
fn alarms_come_in_order_and_cancelled_ones_never() {
    let slots = Slots::new();
    let mut heap = AlarmHeap::new(&slots);
    let mut model: Vec<(u64, usize, Key)> = Vec::new();
    let (mut seed, mut now, mut serial) = (0x9e37_79b9_7f4a_7c15, 0, 0);
    for _ in 0..20_000 {
        match random(&mut seed) % 5 {
            0 | 1 => {
                let at = now + random(&mut seed) % 1000;
                let key = heap.add(at, nothing, serial).unwrap();
                model.push((at, serial, key));
                serial += 1;
            }
            2 if !model.is_empty() => {
                let place = random(&mut seed) as usize % model.len();
                let (_, _, key) = model.swap_remove(place);
                // On the owning CPU, or as another CPU would.
                if random(&mut seed).is_multiple_of(2) {
                    assert!(heap.remove(key));
                } else {
                    assert!(slots.cancel(key));
                }
                assert!(!heap.remove(key), "twice");
            }
            _ => {
                now += random(&mut seed) % 300;
                let mut last = 0;
                while let Some(due) = heap.due(now) {
                    let Due::Call(_, argument) = due else {
                        continue;
                    };
                    let place = model
                        .iter()
                        .position(|m| m.1 == argument)
                        .expect("cancelled, or called twice");
                    let (at, _, key) = model.swap_remove(place);
                    assert!(at <= now && at >= last);
                    last = at;
                    assert!(!slots.cancel(key));
                }
                assert!(model.iter().all(|m| m.0 > now));
            }
        }
    }
}

#[test]
fn an_alarm_that_its_own_cpu_takes_out_leaves_its_place() {
    let slots = Slots::new();
    let mut heap = AlarmHeap::new(&slots);
    for at in 0..2 * CHUNK * CHUNKS {
        let key = heap.add(at as u64, nothing, at).expect("a place");
        assert!(heap.remove(key));
    }
    assert_eq!(heap.len(), 0);
    // One place is enough for them.
    let keys = [heap.add(1, nothing, 1), heap.add(2, nothing, 2)];
    assert_eq!(keys.map(|key| key.unwrap().slot), [0, 1]);
}

#[test]
fn a_heap_full_of_cancelled_alarms_has_room() {
    let slots = Slots::new();
    let mut heap = AlarmHeap::new(&slots);
    let all = CHUNK * CHUNKS;
    let keys: Vec<Key> = (0..all)
        .map(|i| heap.add(i as u64, nothing, i).unwrap())
        .collect();
    for key in &keys[..all - 1] {
        assert!(slots.cancel(*key));
        assert!(!slots.cancel(*key), "twice");
    }
    assert_eq!(heap.len(), all);
    // Each that comes takes two that are silent out.
    let later: Vec<Key> = (0..all / 2)
        .map(|i| heap.add((all + i) as u64, nothing, 1).unwrap())
        .collect();
    assert!(heap.len() <= all / 2 + 1);
    for key in later {
        assert!(heap.remove(key));
    }
    let called: Vec<usize> = core::iter::from_fn(|| heap.due(u64::MAX - 1))
        .filter_map(|due| match due {
            Due::Call(_, argument) => Some(argument),
            Due::Nothing => None,
        })
        .collect();
    assert_eq!(called, [all - 1]);
    assert_eq!(heap.next_ns(), u64::MAX);
}

/// Cancellers elsewhere against the owner: each alarm is called or cancelled, never both, and no slot is
/// lost.
#[test]
fn cancelling_from_elsewhere() {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;
    static SLOTS: Slots = Slots::new();
    let rounds = if cfg!(miri) { 200 } else { 50_000 };
    let cancelled: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
    let mut heap = AlarmHeap::new(&SLOTS);
    let mut called = 0;
    let (senders, cancellers): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (sender, keys) = channel::<Key>();
            let canceller = std::thread::spawn(move || {
                for key in keys {
                    cancelled.fetch_add(usize::from(SLOTS.cancel(key)), Ordering::Relaxed);
                }
            });
            (sender, canceller)
        })
        .unzip();
    for now in 0..rounds {
        let key = heap.add(now as u64 + 10, nothing, now).unwrap();
        for sender in &senders {
            sender.send(key).unwrap();
        }
        while let Some(due) = heap.due(now as u64) {
            called += usize::from(matches!(due, Due::Call(..)));
        }
    }
    drop(senders);
    for canceller in cancellers {
        canceller.join().unwrap();
    }
    while let Some(due) = heap.due(u64::MAX - 1) {
        called += usize::from(matches!(due, Due::Call(..)));
    }
    assert_eq!(called + cancelled.load(Ordering::Relaxed), rounds);
    // A slot that was lost would make room for more necessary.
    let room = heap.room();
    for i in 0..room {
        assert!(heap.add(1, nothing, i).is_some());
    }
    assert_eq!(heap.room(), room, "a slot is lost");
}
