//! Models of words that change together.

use crate::{beside, model};
use lab::mcas::{Cell, Change, Domain, Party};
use loom::sync::Arc;
use loom::thread;

struct Words {
    /// A party's descriptor is used again at once.
    domain: Domain<3, 3, 1>,
    cells: [Cell; 3],
}

fn words() -> Arc<Words> {
    Arc::new(Words {
        domain: Domain::new(),
        cells: [Cell::new(0), Cell::new(0), Cell::new(0)],
    })
}

/// Change the cells with these numbers from `old` to `new`.
fn change(words: &Words, which: &[usize], old: u64, new: u64) -> bool {
    let changes: Vec<_> = which
        .iter()
        .map(|n| Change {
            cell: &words.cells[*n],
            old,
            new,
        })
        .collect();
    // SAFETY: cells and domain end together.
    unsafe { words.domain.join().unwrap().change(&changes) }
}

fn values(words: &Words) -> [u64; 3] {
    std::array::from_fn(|n| words.domain.read(&words.cells[n]))
}

#[test]
fn of_two_changes_of_the_same_words_one_succeeds() {
    model(3, || {
        let words = words();
        let other = beside(&words, move |words| change(&words, &[1, 0], 0, 2));
        let mine = change(&words, &[0, 1], 0, 1);
        let theirs = other.join().unwrap();
        assert!(mine != theirs);
        let new = if mine { 1 } else { 2 };
        assert_eq!(values(&words), [new, new, 0]);
    });
}

#[test]
fn changes_that_overlap_do_not_mix() {
    model(3, || {
        let words = words();
        let other = beside(&words, move |words| change(&words, &[1, 2], 0, 2));
        let mine = change(&words, &[0, 1], 0, 1);
        let theirs = other.join().unwrap();
        assert!(mine != theirs);
        assert_eq!(values(&words), if mine { [1, 1, 0] } else { [0, 2, 2] });
    });
}

#[test]
fn a_reader_sees_all_of_a_change_or_nothing() {
    model(3, || {
        let words = words();
        let writer = beside(&words, move |words| assert!(change(&words, &[0, 1], 0, 1)));
        // In the order in which the words are written back, and against it.
        let (high, low) = (
            words.domain.read(&words.cells[1]),
            words.domain.read(&words.cells[0]),
        );
        assert!(low >= high, "{low} after {high}");
        assert!(words.domain.read(&words.cells[1]) >= low);
        writer.join().unwrap();
        assert_eq!(values(&words), [1, 1, 0]);
    });
}

/// A word goes there and back while a helper of an operation that must fail is on its way.
#[test]
fn a_late_helper_changes_nothing() {
    model(1, || {
        let words = words();
        let other = beside(&words, move |words| {
            // Fails: the second cell never holds 7. Helped by who meets its claim.
            let changes = [
                Change {
                    cell: &words.cells[0],
                    old: 0,
                    new: 9,
                },
                Change {
                    cell: &words.cells[1],
                    old: 7,
                    new: 9,
                },
            ];
            // SAFETY: cells and domain end together.
            assert!(!unsafe { words.domain.join().unwrap().change(&changes) });
        });
        assert!(change(&words, &[0], 0, 1));
        assert!(change(&words, &[0], 1, 0));
        other.join().unwrap();
        assert_eq!(values(&words), [0, 0, 0]);
        assert!(change(&words, &[0, 1], 0, 5));
        assert_eq!(values(&words), [5, 5, 0]);
    });
}

/// The descriptor is used again for another word under the eyes of a reader.
#[test]
fn a_reader_knows_a_descriptor_that_was_used_again() {
    model(3, || {
        let words = words();
        let writer = beside(&words, move |words| {
            let mut party = words.domain.join().unwrap();
            for (n, new) in [(0, 1), (1, 50)] {
                let cell = &words.cells[n];
                // SAFETY: cells and domain end together.
                assert!(unsafe { party.change(&[Change { cell, old: 0, new }]) });
            }
        });
        let read = words.domain.read(&words.cells[0]);
        assert!(read <= 1, "{read}");
        writer.join().unwrap();
        assert_eq!(values(&words), [1, 50, 0]);
    });
}

/// An operation fails while a helper is about to claim its last word, and its descriptor is used again.
#[test]
fn a_late_claim_stands_for_what_was_there() {
    model(3, || {
        let domain: Arc<Domain<3, 3, 1>> = Arc::new(Domain::new());
        let cells = Arc::new([0, 0, 8, 0].map(Cell::new));
        let change = |party: &mut Party<'_, 3, 3, 1>, cells: &[Cell], old, new| {
            let changes: Vec<_> = cells.iter().map(|cell| Change { cell, old, new }).collect();
            // SAFETY: cells and domain end together.
            unsafe { party.change(&changes) }
        };
        // Stays, so that the third cell needs its descriptor.
        let mut third = domain.join().unwrap();
        assert!(change(&mut third, &cells[2..3], 8, 0));
        let other = {
            let (domain, cells) = (domain.clone(), cells.clone());
            thread::spawn(move || {
                let mut party = domain.join().unwrap();
                let all = change(&mut party, &cells[..3], 0, 9);
                assert!(change(&mut party, &cells[3..], 0, 5));
                all
            })
        };
        let mut party = domain.join().unwrap();
        if change(&mut party, &cells[1..2], 0, 7) {
            assert!(change(&mut party, &cells[1..2], 7, 0));
        }
        let one = change(&mut party, &cells[..1], 0, 1);
        let all = other.join().unwrap();
        assert!(one != all);
        let values = [0, 1, 2, 3].map(|n| domain.read(&cells[n]));
        assert_eq!(values, if all { [9, 9, 9, 5] } else { [1, 0, 0, 5] });
    });
}

#[test]
fn every_increment_of_two_words_counts() {
    model(1, || {
        let words = words();
        let add = |words: &Words| {
            let mut party = words.domain.join().unwrap();
            loop {
                let old = [party.read(&words.cells[0]), party.read(&words.cells[2])];
                let changes = [0, 1].map(|n| Change {
                    cell: &words.cells[2 * n],
                    old: old[n],
                    new: old[n] + 1,
                });
                // SAFETY: cells and domain end together.
                if unsafe { party.change(&changes) } {
                    return;
                }
            }
        };
        let threads = [(); 2].map(|()| beside(&words, add));
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(values(&words), [2, 0, 2]);
    });
}
