//! Models of a ring of the last records.

use crate::model;
use loom::sync::Arc;
use loom::thread;
use sync::SeqlockRing;
use sync::seqlock_ring::Place;

/// A place is written again while a reader is between any two loads.
#[test]
fn a_record_is_read_whole_or_not_at_all() {
    model(3, || {
        let ring: Arc<SeqlockRing<2>> =
            Arc::new(SeqlockRing::new((0..2).map(|_| Place::default()).collect()));
        ring.put(&[1, 1]);
        let writer = {
            let ring = ring.clone();
            thread::spawn(move || (2..4).for_each(|n| ring.put(&[n, n])))
        };
        for number in 0..3 {
            if let Some(record) = ring.get(number) {
                assert_eq!(record, [number + 1; 2]);
            }
        }
        writer.join().unwrap();
        assert_eq!(ring.numbers(), 1..3);
        assert_eq!(
            [0, 1, 2].map(|n| ring.get(n)),
            [None, Some([2, 2]), Some([3, 3])]
        );
    });
}
