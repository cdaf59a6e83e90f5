//! The holding tank, the page map and the pages by their room under loom: the room's own files, compiled with
//! loom's atomics.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p codegen --release --test models`
#![cfg(loom)]

#[allow(dead_code, reason = "models use what they check")]
#[path = "../src/block_bitmap.rs"]
mod block_bitmap;
#[allow(dead_code, reason = "models use what they check")]
#[path = "../src/free_runs.rs"]
mod free_runs;
#[path = "../src/holding_tank.rs"]
mod holding_tank;

mod primitive {
    pub(crate) use loom::sync::atomic;

    macro_rules! constructor {
        ($(#[$attribute:meta])* $visible:vis fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
            $(#[$attribute])*
            $visible fn $name($($argument: $type),*) -> $result $body
        };
    }
    pub(crate) use constructor;

    macro_rules! zeros {
        () => {
            core::array::from_fn(|_| $crate::primitive::atomic::AtomicU64::new(0))
        };
    }
    pub(crate) use zeros;
}

mod tank {
    use crate::holding_tank::{HoldingTank, TankLink};
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
    use std::ptr;

    #[repr(C)]
    struct Record {
        limbo: TankLink,
        alive: AtomicUsize,
    }

    // Freed records stay allocated, marked, so that a late reader is a failed assertion.
    unsafe fn kill(limbo: *mut TankLink) {
        // SAFETY: the first field of a leaked record.
        assert_eq!(
            unsafe { (*limbo.cast::<Record>()).alive.swap(0, Ordering::Relaxed) },
            1
        );
    }

    fn record() -> *mut Record {
        Box::into_raw(Box::new(Record {
            limbo: TankLink::new(kill),
            alive: AtomicUsize::new(1),
        }))
    }

    #[test]
    fn a_reader_sees_no_freed_record() {
        // All interleavings with at most two forced switches; without a bound there are too many.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = model.preemption_bound.or(Some(2));
        model.check(|| {
            let tank = Arc::new(HoldingTank::new());
            let records = [record(), record()];
            let links = Arc::new([AtomicPtr::new(records[0]), AtomicPtr::new(records[1])]);
            let reader = {
                let (tank, links) = (tank.clone(), links.clone());
                loom::thread::spawn(move || {
                    let inside = tank.enter();
                    for link in links.iter() {
                        let seen = link.load(Ordering::Acquire);
                        // SAFETY: leaked until the end of the model.
                        if let Some(seen) = unsafe { seen.as_ref() } {
                            loom::thread::yield_now();
                            assert_eq!(
                                seen.alive.load(Ordering::Relaxed),
                                1,
                                "freed under a reader"
                            );
                        }
                    }
                    drop(inside);
                })
            };
            let other = {
                let (tank, links) = (tank.clone(), links.clone());
                loom::thread::spawn(move || {
                    let gone = links[1].swap(ptr::null_mut(), Ordering::AcqRel);
                    // SAFETY: unlinked just now.
                    unsafe { tank.free(gone.cast()) };
                })
            };
            let gone = links[0].swap(ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: unlinked just now.
            unsafe { tank.free(gone.cast()) };
            reader.join().unwrap();
            other.join().unwrap();
            tank.drain();
            for record in records {
                // SAFETY: leaked above; everybody has ended.
                let record = unsafe { Box::from_raw(record) };
                assert_eq!(record.alive.load(Ordering::Relaxed), 0, "never freed");
            }
        });
    }
}

mod map {
    use crate::block_bitmap::{BlockBitmap, run};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    /// Takers write their blocks (which loom checks for exclusion), one closes the page when it is empty.
    #[test]
    fn a_block_has_one_owner() {
        loom::model(|| {
            let map = Arc::new(BlockBitmap::new());
            // Three blocks in use as a page: the others are taken for good.
            map.open(!0b111);
            let blocks: Arc<[UnsafeCell<u8>; 3]> =
                Arc::new(std::array::from_fn(|_| UnsafeCell::new(0)));
            let threads: Vec<_> = (1..=2)
                .map(|n| {
                    let (map, blocks) = (map.clone(), blocks.clone());
                    loom::thread::spawn(move || {
                        let Some(first) = map.take(n) else { return };
                        for block in &blocks[first..first + n] {
                            // SAFETY: taken.
                            block.with_mut(|b| unsafe { *b = n as u8 });
                        }
                        map.give(run(n) << first);
                    })
                })
                .collect();
            if let Some(first) = map.take(3) {
                for block in &blocks[first..first + 3] {
                    // SAFETY: taken.
                    block.with_mut(|b| unsafe { *b = 3 });
                }
                map.give(run(3) << first);
            }
            threads.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(map.take(3), Some(0));
        });
    }

    #[test]
    fn a_closed_page_is_nobodys() {
        loom::model(|| {
            let map = Arc::new(BlockBitmap::new());
            map.open(0);
            let other = {
                let map = map.clone();
                loom::thread::spawn(move || {
                    map.take(2).map(|first| map.give(run(2) << first)).is_some()
                })
            };
            let closed = map.close();
            if !other.join().unwrap() {
                assert!(closed);
            }
            assert_eq!(map.take(1).is_none(), closed);
        });
    }
}

mod rooms {
    use crate::free_runs::{FreeRuns, Pages};
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    struct Machine {
        runs: FreeRuns<64>,
        pages: Pages,
        length: AtomicUsize,
    }

    impl Machine {
        fn longest(&self) -> usize {
            self.length.load(Ordering::Acquire)
        }

        /// The page gets room, which it had not.
        fn give(&self, length: usize) {
            self.length.fetch_add(length, Ordering::AcqRel);
            self.runs.note(&self.pages, 0, || self.longest());
        }

        /// Looks for room once, and corrects what it finds.
        fn look(&self, n: usize) -> bool {
            let Some(found) = self
                .runs
                .find(n, |chunk| (chunk == 0).then_some(&self.pages))
            else {
                return false;
            };
            if self.longest() < n {
                self.runs.correct(&self.pages, found, || self.longest());
            }
            true
        }
    }

    /// A page that was entered with `before` and has nothing of it any more gets `given`, while another party
    /// looks for `n`. Afterwards it is found for all that it has.
    fn is_found(before: usize, corrected: bool, given: usize, n: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(move || {
            let machine = Arc::new(Machine {
                runs: FreeRuns::new(),
                pages: Pages::new(),
                length: AtomicUsize::new(0),
            });
            machine.runs.note(&machine.pages, 0, || before);
            if corrected {
                // The page's bit is gone, and those above it stand.
                machine.look(before);
            }
            let other = machine.clone();
            let looks = loom::thread::spawn(move || {
                other.look(n);
            });
            machine.give(given);
            looks.join().unwrap();
            let mut looked = 0;
            while machine.look(given) && machine.longest() < given {
                looked += 1;
            }
            assert!(looked < 3 && machine.look(given), "room that nobody finds");
        });
    }

    #[test]
    fn room_that_is_given_while_a_page_is_corrected_is_found() {
        is_found(9, false, 9, 9);
        is_found(9, false, 5, 7);
        is_found(3, false, 9, 2);
    }

    #[test]
    fn room_that_is_given_while_words_are_cleared_is_found() {
        is_found(5, true, 5, 5);
        is_found(5, true, 5, 2);
    }
}
