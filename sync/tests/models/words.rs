//! Models of what is left for who is at it.

use crate::model;
use loom::sync::Arc;
use loom::thread;

#[test]
fn what_is_left_is_done_once_and_by_one_at_a_time() {
    use loom::cell::Cell as Unshared;
    struct Left {
        batch: sync::Combiner,
        done: Unshared<u64>,
    }
    // SAFETY: `done` belongs to who is at it; loom's cell would tell if two were.
    unsafe impl Sync for Left {}
    model(3, || {
        let left = Arc::new(Left {
            batch: sync::Combiner::new(),
            done: Unshared::new(0),
        });
        let leave = |left: &Left, number| {
            left.batch.leave(number, |pieces| {
                assert_eq!(left.done.get() & pieces, 0);
                left.done.set(left.done.get() | pieces);
            });
        };
        let others: Vec<_> = [1, 2]
            .map(|number| {
                let left = left.clone();
                thread::spawn(move || leave(&left, number))
            })
            .into();
        leave(&left, 0);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(left.done.get(), 0b111);
    });
}
