//! Models of claims on a ring.

use crate::model;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use sync::sequencer::{Sequencer, claim, claim_at};

const SIZE: usize = 4;

#[derive(Default)]
struct Ring {
    head: AtomicU64,
    tail: AtomicU64,
    claims: Sequencer,
    places: [UnsafeCell<u8>; SIZE],
}

impl Ring {
    fn fill(&self, first: u64, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            // SAFETY: the claim gave the place to this thread, and loom checks it.
            self.places[(first as usize + n) % SIZE].with_mut(|place| unsafe { *place = *byte });
        }
        self.claims.publish(first, bytes.len());
    }

    /// All of `bytes`.
    fn put(&self, bytes: &[u8]) {
        let (first, count) = claim(&self.head, &self.tail, SIZE, bytes.len()).unwrap();
        assert_eq!(count, bytes.len());
        self.fill(first, bytes);
    }

    fn get(&self) -> Option<u8> {
        let tail = self.tail.load(Ordering::Relaxed);
        (self.claims.published() != tail).then(|| {
            // SAFETY: the place was published, there is one consumer, and loom checks it.
            let byte = self.places[tail as usize % SIZE].with(|place| unsafe { *place });
            self.tail.store(tail + 1, Ordering::Release);
            byte
        })
    }
}

/// Two claim, fill and publish at once, one of them twice its bytes; the consumer sees each claim whole.
#[test]
fn claims_stay_whole_and_are_all_shown() {
    model(3, || {
        let ring = Arc::new(Ring::default());
        let producers: Vec<_> = [&[1, 2][..], &[3]]
            .into_iter()
            .map(|bytes| {
                let ring = ring.clone();
                thread::spawn(move || ring.put(bytes))
            })
            .collect();
        let mut got: Vec<u8> = (0..2).filter_map(|_| ring.get()).collect();
        producers.into_iter().for_each(|t| t.join().unwrap());
        got.extend(std::iter::from_fn(|| ring.get()));
        assert!(got == [1, 2, 3] || got == [3, 1, 2], "{got:?}");
    });
}

/// A place is claimed again when the consumer has passed it, while another claim is under way.
#[test]
fn a_place_is_used_again() {
    model(2, || {
        let ring = Arc::new(Ring::default());
        ring.put(&[1, 2, 3]);
        assert_eq!((ring.get(), ring.get()), (Some(1), Some(2)));
        let producers: Vec<_> = [&[4][..], &[5, 6]]
            .into_iter()
            .map(|bytes| {
                let ring = ring.clone();
                thread::spawn(move || ring.put(bytes))
            })
            .collect();
        let mut got: Vec<u8> = ring.get().into_iter().collect();
        producers.into_iter().for_each(|t| t.join().unwrap());
        got.extend(std::iter::from_fn(|| ring.get()));
        assert!(got == [3, 4, 5, 6] || got == [3, 5, 6, 4], "{got:?}");
    });
}

/// A producer that has looked at the ring claims only places that nobody has claimed since.
#[test]
fn a_claim_at_a_position_is_the_next_or_none() {
    model(3, || {
        let ring = Arc::new(Ring::default());
        let other = {
            let ring = ring.clone();
            thread::spawn(move || ring.put(&[9]))
        };
        let at = ring.head.load(Ordering::Relaxed);
        let claimed = claim_at(&ring.head, &ring.tail, SIZE, at, 2);
        if claimed {
            ring.fill(at, &[1, 2]);
        }
        other.join().unwrap();
        let got: Vec<u8> = std::iter::from_fn(|| ring.get()).collect();
        match (claimed, at) {
            (true, 0) => assert_eq!(got, [1, 2, 9]),
            (true, _) => assert_eq!(got, [9, 1, 2]),
            (false, _) => assert_eq!(got, [9]),
        }
    });
}
