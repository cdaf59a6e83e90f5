//! Models of the table that is looked through while it changes.

use crate::{link_threads, model};
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicUsize, Ordering};
use sync::hash_table::{Cell, Cells, Filling, Hashed, Removed};
use sync::{HashTable, epoch};

/// Names with one hash; it is noted which were freed.
struct Name(usize);

static FREED: AtomicUsize = AtomicUsize::new(0);

impl Hashed for Name {
    fn hash(&self) -> u64 {
        3
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        FREED.fetch_or(1 << self.0, Ordering::SeqCst);
    }
}

/// Its one writer's hold on the table.
struct Writer(Arc<HashTable<Name>>, Filling);

impl Writer {
    fn add(&mut self, name: usize) {
        let room = |cells: &mut Vec<Cell<Name>>, count| {
            cells.reserve_exact(count);
            Ok::<_, std::convert::Infallible>(())
        };
        let boxed = |cells: Cells<Name>| Ok(Box::new(cells));
        // SAFETY: one writer, one filling.
        let added = unsafe { self.0.add(&mut self.1, Box::new(Name(name)), room, boxed) };
        drop(added);
    }

    fn take(&mut self, name: usize) -> Removed<Name> {
        // SAFETY: one writer, one filling.
        unsafe { self.0.take(&mut self.1, 3, |there| there.0 == name) }
    }
}

/// A reader on CPU 1 finds what is there all the time, and what it has found is not freed under it, while
/// names come and go and the table grows.
#[test]
fn a_table_is_looked_through_while_it_changes() {
    link_threads();
    model(3, || {
        FREED.store(0, Ordering::SeqCst);
        epoch::idle_exit(0);
        epoch::idle_exit(1);
        let table = Arc::new(HashTable::new());
        let mut writer = Writer(table.clone(), Filling::new());
        writer.add(0);
        writer.add(1);
        let reader = thread::spawn(move || {
            for name in [1, 0] {
                // SAFETY: this CPU passes no quiescent point meanwhile.
                let found = unsafe { table.find(3, |there| there.0 == name) };
                assert!(name == 0 || found.is_some(), "not found while it was there");
                if found.is_some() {
                    thread::yield_now();
                    let freed = FREED.load(Ordering::SeqCst);
                    assert_eq!(freed & 1 << name, 0, "freed under a reader");
                }
            }
            drop(table);
            epoch::idle_enter(1);
        });
        drop(writer.take(0));
        // The table has four places: one of these finds no room.
        for name in 2..5 {
            writer.add(name);
        }
        reader.join().unwrap();
        epoch::synchronize();
        assert_eq!(FREED.load(Ordering::SeqCst), 1);
        epoch::idle_enter(0);
    });
    // The last table went with its names.
    assert_eq!(FREED.load(Ordering::SeqCst), 0b11111);
}
