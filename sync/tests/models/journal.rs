//! Models of a journal: records that many write, and that are overwritten.

use crate::model;
use loom::sync::Arc;
use loom::thread;
use sync::Journal;
use sync::journal::Look;

/// Room for one record of a few bytes, and a part of the next.
type Ring = Journal<8>;

/// The number and bytes of the records from `at` on, in one round.
fn records(ring: &Ring, at: &mut u64) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        let mut bytes = [0; 8];
        match ring.read(*at, &mut bytes) {
            Look::Record(record) => {
                assert_eq!(record.stamp, u64::from(bytes[0]), "of one record");
                found.push((record.number, bytes[..record.length].to_vec()));
                *at = record.next;
            }
            Look::Nothing => return found,
            Look::Gone => {
                let next = ring.first(*at);
                assert!(next > *at, "a reader that was overtaken goes on");
                *at = next;
            }
        }
    }
}

fn put(ring: &Ring, bytes: &[u8]) {
    ring.put(0, u64::from(bytes[0]), bytes);
}

/// Two write at once while a third reads: the records are whole, in the order of their numbers, and the last
/// one is there.
#[test]
fn records_are_whole_and_in_order() {
    model(2, || {
        let ring = Arc::new(Ring::new());
        let writers = [&[1, 1][..], &[2, 2, 2, 2, 2]].map(|bytes| {
            let ring = ring.clone();
            thread::spawn(move || put(&ring, bytes))
        });
        let mut at = 0;
        let mut found = records(&ring, &mut at);
        writers.into_iter().for_each(|t| t.join().unwrap());
        found.extend(records(&ring, &mut at));
        assert!(found.iter().all(|(_, b)| *b == [1, 1] || *b == [2; 5]));
        let numbers: Vec<_> = found.iter().map(|(number, _)| *number).collect();
        assert!(numbers == [0, 1] || numbers == [1], "{numbers:?}");
    });
}

/// A reader in the middle of a record is overtaken.
#[test]
fn what_is_overwritten_meanwhile_is_gone() {
    model(3, || {
        let ring = Arc::new(Ring::new());
        put(&ring, &[1, 1]);
        let writer = {
            let ring = ring.clone();
            thread::spawn(move || put(&ring, &[2; 5]))
        };
        let mut at = 0;
        let mut found = records(&ring, &mut at);
        writer.join().unwrap();
        found.extend(records(&ring, &mut at));
        let old = (0, vec![1, 1]);
        let new = (1, vec![2; 5]);
        assert!(found == [old, new.clone()] || found == [new], "{found:?}");
    });
}
