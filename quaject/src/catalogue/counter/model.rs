//! Loom models: no thread sleeps while there is a count to take.

use super::CounterCore;
use crate::catalogue::pipe::model::link;
use crate::kit::sleeper::Sleep;
use loom::sync::Arc;

#[test]
fn a_sleeper_is_woken_by_what_is_added() {
    loom::model(|| {
        link();
        let counter = Arc::new(CounterCore::new(0, false));
        let adder = {
            let counter = counter.clone();
            loom::thread::spawn(move || assert!(counter.add(2)))
        };
        let answer = counter.sleeper.sleep(1);
        adder.join().unwrap();
        assert!(answer == Sleep::AGAIN || counter.sleeper.thread() == 0);
        assert_eq!(counter.take(), Some(2));
    });
}

#[test]
fn two_takers_of_one_take_each_once() {
    loom::model(|| {
        link();
        let counter = Arc::new(CounterCore::new(1, true));
        let others = [0, 1].map(|more| {
            let counter = counter.clone();
            loom::thread::spawn(move || {
                assert!(counter.add(more));
                counter.take().unwrap_or(0)
            })
        });
        let taken: u64 = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_eq!(taken + counter.count(), 2);
    });
}
