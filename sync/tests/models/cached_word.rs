//! Models of derived words, as descriptor tables use them: code that follows from what a number refers to and
//! from whether that is shared.

use crate::{beside, link_threads, model};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;
use sync::{CachedWord, epoch};

/// The file that a number refers to (0: none), whether file 1 is shared, the code at the number, and a second
/// place for it.
struct Number {
    slot: AtomicUsize,
    shared: AtomicUsize,
    code: CachedWord,
    moved: AtomicUsize,
    later: CachedWord,
}

const EXCLUSIVE: u32 = 100;

fn number() -> Arc<Number> {
    Arc::new(Number {
        slot: AtomicUsize::new(0),
        shared: AtomicUsize::new(0),
        code: CachedWord::new(0),
        moved: AtomicUsize::new(0),
        later: CachedWord::new(0),
    })
}

impl Number {
    fn follow(&self) -> u32 {
        match self.slot.load(Ordering::Acquire) {
            0 => 0,
            file if self.shared.load(Ordering::Acquire) == 0 => EXCLUSIVE + file as u32,
            file => file as u32,
        }
    }

    /// The steps after a change.
    fn publish(&self) {
        CachedWord::refresh([&self.code], || [self.follow()]);
        if self.moved.load(Ordering::Acquire) != 0 {
            CachedWord::refresh([&self.later], || [self.follow()]);
        }
    }

    fn claim(&self, file: usize) -> bool {
        let claimed = self
            .slot
            .compare_exchange(0, file, Ordering::AcqRel, Ordering::Acquire);
        if claimed.is_ok() {
            self.publish();
        }
        claimed.is_ok()
    }

    /// `close` with 0, `dup2` with another.
    fn exchange(&self, file: usize) -> usize {
        let old = self.slot.swap(file, Ordering::AcqRel);
        self.publish();
        old
    }
}

#[test]
fn code_is_that_of_the_last_to_be_there() {
    model(3, || {
        let n = number();
        assert!(n.claim(1));
        let others = [0, 2].map(|file| beside(&n, move |n| n.exchange(file)));
        let mine = n.claim(3);
        let mut gone: Vec<_> = others.map(|other| other.join().unwrap()).into();
        gone.push(n.slot.load(Ordering::Relaxed));
        gone.sort();
        // Nothing is lost and nothing doubled.
        let files = if mine {
            vec![0, 1, 2, 3]
        } else {
            vec![0, 1, 2]
        };
        gone.dedup();
        gone.retain(|file| *file != 0);
        assert_eq!(gone, files[1..]);
        assert_eq!(n.code.get(), n.follow());
    });
}

/// The control: without a tag, one that looked before a change writes what was.
#[test]
#[should_panic = "stale"]
fn without_a_tag_code_of_a_closed_file_stays() {
    model(2, || {
        let n = number();
        let code = Arc::new(AtomicU64::new(0));
        let publish = |n: &Number, code: &AtomicU64| {
            fence(Ordering::SeqCst);
            let mut seen = code.load(Ordering::Acquire);
            while let Err(now) =
                code.compare_exchange(seen, n.follow().into(), Ordering::AcqRel, Ordering::Acquire)
            {
                seen = now;
            }
        };
        let other = {
            let (n, code) = (n.clone(), code.clone());
            thread::spawn(move || {
                n.slot.store(1, Ordering::Release);
                publish(&n, &code);
            })
        };
        if n.slot.swap(0, Ordering::AcqRel) == 1 {
            publish(&n, &code);
            // There and back: what the other saw stands there again.
            assert!(
                n.slot.load(Ordering::Relaxed) != 0 || code.load(Ordering::Relaxed) == 0,
                "stale"
            );
        }
        other.join().unwrap();
        let (now, follows) = (code.load(Ordering::Relaxed), n.follow());
        assert!(now == u64::from(follows), "stale");
    });
}

/// A thread that marks a file as shared and then searches for it leaves no exclusive code behind, although an
/// installing thread may have decided before.
#[test]
fn sharing_and_publishing_exclusive_code() {
    model(3, || {
        let n = number();
        let owner = beside(&n, move |n| {
            n.claim(1);
            n.exchange(2);
            n.exchange(1);
        });
        n.shared.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if n.slot.load(Ordering::Acquire) != 0 {
            n.publish();
        }
        assert!(n.code.get() < EXCLUSIVE, "entered by two");
        owner.join().unwrap();
        assert_eq!(n.code.get(), n.slot.load(Ordering::Relaxed) as u32);
    });
}

/// One number's bit beside another's in one word.
#[test]
fn parts_of_one_word_follow_each_their_own() {
    model(3, || {
        let slots = Arc::new([AtomicUsize::new(0), AtomicUsize::new(1)]);
        let map = Arc::new(CachedWord::new(2));
        let publish = |slots: &[AtomicUsize; 2], map: &CachedWord, fd: usize| {
            map.merge(|map| map & !(1 << fd) | (slots[fd].load(Ordering::Acquire) as u32) << fd);
        };
        let others = [(0, 1), (1, 0)].map(|(fd, to)| {
            let (slots, map) = (slots.clone(), map.clone());
            thread::spawn(move || {
                slots[fd].swap(to, Ordering::AcqRel);
                publish(&slots, &map, fd);
            })
        });
        slots[0].swap(0, Ordering::AcqRel);
        publish(&slots, &map, 0);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(map.get(), slots[0].load(Ordering::Relaxed) as u32);
    });
}

/// Larger arrays: made known before they are filled, so that a change misses neither the old nor the new.
#[test]
fn arrays_that_move_miss_no_change() {
    model(3, || {
        let n = number();
        assert!(n.claim(1));
        let other = beside(&n, move |n| n.exchange(2));
        n.moved.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        CachedWord::refresh([&n.later], || [n.follow()]);
        other.join().unwrap();
        assert_eq!((n.code.get(), n.later.get()), (102, 102));
    });
}

/// The one thread of a table closes, and frees at once because it is alone; a visitor comes and counts what
/// it finds. With `wait` it lets a grace period pass before it looks.
fn visit(wait: bool) {
    const USER: usize = 1;
    const VISITOR: usize = 256;
    struct Table {
        domain: epoch::Domain<2>,
        company: AtomicUsize,
        slot: AtomicUsize,
        file: UnsafeCell<u32>,
    }
    link_threads();
    model(3, move || {
        let table = Arc::new(Table {
            domain: epoch::Domain::new(),
            company: AtomicUsize::new(USER),
            slot: AtomicUsize::new(1),
            file: UnsafeCell::new(1),
        });
        table.domain.idle_exit(0);
        table.domain.idle_exit(1);
        let owner = beside(&table, move |table| {
            // Interrupts are off.
            let alone = table.company.load(Ordering::Acquire) == USER;
            table.slot.store(0, Ordering::Release);
            if alone {
                // SAFETY: that nobody else is there is what loom checks.
                table.file.with_mut(|file| unsafe { *file = 0 });
            }
            // And on again.
            table.domain.quiescent(1);
            table.domain.idle_enter(1);
        });
        table.company.fetch_add(VISITOR, Ordering::SeqCst);
        if wait {
            table.domain.synchronize();
        }
        if table.slot.load(Ordering::Acquire) == 1 {
            // SAFETY: as above.
            table
                .file
                .with(|file| assert_eq!(unsafe { *file }, 1, "counted what is freed"));
        }
        table.company.fetch_sub(VISITOR, Ordering::AcqRel);
        owner.join().unwrap();
    });
}

#[test]
fn a_visitor_counts_nothing_that_is_freed() {
    visit(true);
}

/// The control.
#[test]
#[should_panic]
fn a_visitor_that_does_not_wait_does() {
    visit(false);
}
