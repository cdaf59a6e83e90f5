//! Loom models: one page of a file with a backing is filled, written, stored and removed, each by a different
//! thread.
//!
//! The monitors of the owner (`table`, and `storing`) are loom's; a grace period waits until all threads
//! inside a routine have left. A freed frame holds [`GONE`].

use super::slot::Slot;
use crate::primitive::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};

const GONE: u64 = 999;

struct World {
    page: AtomicU64,
    for_writing: AtomicU64,
    frames: [AtomicU64; 4],
    backing: AtomicU64,
    table: Mutex<Table>,
    storing: Mutex<()>,
    /// So many are inside a routine.
    inside: AtomicU64,
}

#[derive(Default)]
struct Table {
    /// Of the page that is there, beside the file's own.
    shares: usize,
    filling: bool,
    /// Frames that were used.
    used: usize,
}

impl World {
    fn new(value: u64) -> Arc<World> {
        Arc::new(World {
            page: AtomicU64::new(0),
            for_writing: AtomicU64::new(0),
            frames: core::array::from_fn(|_| AtomicU64::new(GONE)),
            backing: AtomicU64::new(value),
            table: Mutex::new(Table::default()),
            storing: Mutex::new(()),
            inside: AtomicU64::new(0),
        })
    }

    fn slot(&self) -> Slot<'_> {
        Slot::new(&self.page, &self.for_writing)
    }

    fn frame(&self, address: u64) -> &AtomicU64 {
        &self.frames[address as usize - 1]
    }

    fn grace_period(&self) {
        fence(Ordering::SeqCst);
        while self.inside.load(Ordering::Acquire) != 0 {
            loom::thread::yield_now();
        }
    }

    /// The work of a generated routine between the stub and its return.
    fn routine<R>(&self, act: impl FnOnce() -> R) -> R {
        self.inside.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let result = act();
        self.inside.fetch_sub(1, Ordering::Release);
        result
    }

    /// By a routine, or by the call behind its slow exit.
    fn write(&self, value: u64) {
        let done = self.routine(|| {
            let address = self.for_writing.load(Ordering::Acquire);
            if address != 0 {
                self.frame(address).store(value, Ordering::Relaxed);
            }
            address != 0
        });
        if !done {
            let address = self.share();
            self.frame(address).store(value, Ordering::Relaxed);
            let mut table = self.table.lock().unwrap();
            assert_eq!(
                self.slot().page(),
                address,
                "who has a share keeps the page"
            );
            self.slot().mark();
            table.shares -= 1;
        }
    }

    /// A share of the page, which is filled if it is not there.
    fn share(&self) -> u64 {
        loop {
            let mut table = self.table.lock().unwrap();
            if self.slot().page() != 0 {
                table.shares += 1;
                return self.slot().page();
            }
            if table.filling {
                drop(table);
                loom::thread::yield_now();
                continue;
            }
            table.filling = true;
            drop(table);
            let value = self.backing.load(Ordering::Acquire);
            let mut table = self.table.lock().unwrap();
            table.filling = false;
            if self.slot().page() == 0 {
                self.put(&mut table, value);
            }
        }
    }

    fn put(&self, table: &mut Table, value: u64) {
        table.used += 1;
        self.frame(table.used as u64)
            .store(value, Ordering::Relaxed);
        self.slot().put(table.used as u64);
    }

    /// A whole page is written, so nothing is filled.
    fn write_whole(&self, value: u64) {
        let mut table = self.table.lock().unwrap();
        if self.slot().page() == 0 {
            self.put(&mut table, value);
            self.slot().mark();
            return;
        }
        drop(table);
        self.write(value);
    }

    fn read(&self) -> u64 {
        let there = self.routine(|| {
            let address = self.page.load(Ordering::Acquire);
            (address != 0).then(|| self.frame(address).load(Ordering::Relaxed))
        });
        there.unwrap_or_else(|| {
            let address = self.share();
            let value = self.frame(address).load(Ordering::Relaxed);
            self.table.lock().unwrap().shares -= 1;
            value
        })
    }

    fn flush(&self) {
        let _turn = self.storing.lock().unwrap();
        let table = self.table.lock().unwrap();
        let dirty = self.slot().clean();
        let address = self.slot().page();
        drop(table);
        if dirty {
            self.grace_period();
            let value = self.frame(address).load(Ordering::Relaxed);
            self.backing.store(value, Ordering::Release);
        }
    }

    fn evict(&self) {
        let _turn = self.storing.lock().unwrap();
        let table = self.table.lock().unwrap();
        let spare = table.shares == 0 && !table.filling;
        let address = if spare { self.slot().take() } else { 0 };
        drop(table);
        if address != 0 {
            self.grace_period();
            self.frame(address).store(GONE, Ordering::Relaxed);
        }
    }
}

#[test]
fn what_is_written_while_the_page_is_stored_and_taken_away_is_not_lost() {
    loom::model(|| {
        let world = World::new(1);
        world.write(2);
        let other = {
            let world = world.clone();
            loom::thread::spawn(move || {
                world.flush();
                world.evict();
            })
        };
        world.write(3);
        assert_eq!(world.read(), 3);
        other.join().unwrap();
        world.flush();
        assert_eq!(world.backing.load(Ordering::Acquire), 3);
    });
}

#[test]
fn an_answer_older_than_a_store_does_not_come_back_as_the_page() {
    loom::model(|| {
        let world = World::new(1);
        let reader = {
            let world = world.clone();
            loom::thread::spawn(move || world.read())
        };
        world.write_whole(2);
        world.flush();
        world.evict();
        let seen = reader.join().unwrap();
        assert!(seen == 1 || seen == 2, "{seen}");
        assert_eq!(world.read(), 2);
    });
}
