//! The alarm heap against a sorted list, in simulated time.

use super::*;

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
                    assert!(slots.slot(key.slot).unwrap().cancel(key.generation));
                }
                assert!(!heap.remove(key), "twice");
            }
            _ => {
                now += random(&mut seed) % 300;
                let mut last = 0;
                while let Some(due) = heap.due(now) {
                    let place = model
                        .iter()
                        .position(|m| m.1 == due.argument)
                        .expect("cancelled, or called twice");
                    let (at, _, key) = model.swap_remove(place);
                    assert!(at <= now && at >= last);
                    last = at;
                    assert!(!slots.slot(key.slot).unwrap().cancel(key.generation));
                }
                assert!(model.iter().all(|m| m.0 > now));
            }
        }
    }
}

#[test]
fn full_of_cancelled_alarms_is_swept() {
    let slots = Slots::new();
    let mut heap = AlarmHeap::new(&slots);
    let keys: Vec<Key> = (0..CHUNK * CHUNKS)
        .map(|i| heap.add(i as u64, nothing, i).unwrap())
        .collect();
    assert!(heap.add(0, nothing, 0).is_none());
    for key in &keys[..CHUNK * CHUNKS - 1] {
        assert!(slots.slot(key.slot).unwrap().cancel(key.generation));
    }
    let key = heap.add(7, nothing, 1).unwrap();
    assert_eq!(heap.len(), 2);
    assert!(heap.remove(key));
    assert_eq!(heap.due(u64::MAX - 1).unwrap().argument, CHUNK * CHUNKS - 1);
    assert_eq!(heap.next_ns(), u64::MAX);
}
