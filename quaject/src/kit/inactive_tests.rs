//! An object that waits is taken once, let go when there is no room, and given up when memory is short.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts itself in a counter while it exists.
struct Thing(&'static AtomicUsize);

impl Thing {
    fn new(there: &'static AtomicUsize) -> Box<Thing> {
        there.fetch_add(1, Ordering::Relaxed);
        Box::new(Thing(there))
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn as_many_wait_as_there_is_room_for() {
    static THERE: AtomicUsize = AtomicUsize::new(0);
    static LIST: Inactive<Box<Thing>, 3> = Inactive::new(drop);
    assert!(LIST.take().is_none());
    for _ in 0..5 {
        LIST.put(Thing::new(&THERE));
    }
    assert_eq!(THERE.load(Ordering::Relaxed), 3);
    assert!(!LIST.has_room());
    let taken = LIST.take().unwrap();
    assert!(LIST.has_room());
    assert!(reclaim() >= 2);
    assert_eq!(THERE.load(Ordering::Relaxed), 1, "one was taken");
    assert!(LIST.take().is_none());
    drop(taken);
}

#[test]
fn a_place_has_one() {
    let place = InactiveSlot::new();
    let (first, second) = (Arc::new(1), Arc::new(2));
    assert!(place.take().is_none());
    assert!(place.put(first.clone()).is_ok());
    assert_eq!(place.put(second), Err(Arc::new(2)));
    assert_eq!(Arc::strong_count(&first), 2);
    assert_eq!(place.take(), Some(first.clone()));
    assert!(place.put(first.clone()).is_ok());
    drop(place);
    assert_eq!(Arc::strong_count(&first), 1);
}

/// Several threads take, use and put; each object has one user at a time, and none is lost or freed twice.
#[test]
fn an_object_is_one_thread_s_at_a_time() {
    static THERE: AtomicUsize = AtomicUsize::new(0);
    static LIST: Inactive<Box<(Thing, u64)>, 2> = Inactive::new(drop);
    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 20_000 };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut object = LIST
                        .take()
                        .unwrap_or_else(|| Box::new((*Thing::new(&THERE), 0)));
                    object.1 += 1;
                    LIST.put(object);
                }
            });
        }
    });
    assert!(THERE.load(Ordering::Relaxed) <= 2);
    LIST.clear();
    // Another test may be letting go of everything.
    while THERE.load(Ordering::Relaxed) != 0 {
        std::thread::yield_now();
    }
}
