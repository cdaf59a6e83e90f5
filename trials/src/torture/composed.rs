//! Operations of several words or several steps, as subjects of torture: changes of distant words, the list
//! with visitors, the work server.
//!
//! *Interface*: [`all`].

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use lab::general_list::{self, List};
use lab::mcas::{self, Cell, Change};
use lab::work_server::WorkServer;
use sync::{Once, Stack, stack};

use super::subject::Subject;

/// All of them.
pub fn all() -> [&'static dyn Subject; 3] {
    [&WORDS, &VISITED, &SERVER]
}

/// Parties of the changes: every torturer, and those that stand still.
const PARTIES: usize = 32;

/// Of three distant words two are changed at a time, so that their sum stays.
struct Words {
    domain: mcas::Domain<PARTIES, 2>,
    cells: [Cell; 3],
}

static WORDS: Words = Words {
    domain: mcas::Domain::new(),
    cells: [Cell::new(0), Cell::new(0), Cell::new(0)],
};

impl Subject for Words {
    fn name(&self) -> &'static str {
        "several words at once"
    }

    fn operate(&self, _: usize, round: u64) {
        let Some(mut party) = self.domain.join() else {
            return;
        };
        let [up, down] = [0, 1].map(|i| &self.cells[(round + i) as usize % 3]);
        loop {
            let [above, below] = [up, down].map(|cell| party.read(cell));
            let changes =
                [(up, above, 1), (down, below, u64::MAX)].map(|(cell, old, add)| Change {
                    cell,
                    old,
                    new: old.wrapping_add(add),
                });
            // SAFETY: the cells are static, and only this domain changes them.
            if unsafe { party.change(&changes) } {
                return;
            }
        }
    }

    fn settle(&self) {
        let sum = self.cells.iter().map(|cell| self.domain.read(cell));
        assert_eq!(sum.fold(0, u64::wrapping_add), 0, "the sum of three words");
    }
}

/// A node, and its place among the free ones.
#[repr(C)]
struct Item {
    node: general_list::Node,
    free: stack::Node,
}

const ITEMS: usize = 16;

/// Nodes are put behind others and taken out again, by visitors who may stop on them.
struct Visited {
    list: Once<List>,
    free: Stack,
    items: [Item; ITEMS],
}

static VISITED: Visited = Visited {
    list: Once::new(),
    free: Stack::new(),
    items: [const {
        Item {
            node: general_list::Node::new(),
            free: stack::Node::new(),
        }
    }; ITEMS],
};

/// A node is out of the list and everybody has left it.
fn freed(node: NonNull<general_list::Node>) {
    // SAFETY: every node of the list is the first field of a static item.
    let item: &Item = unsafe { node.cast().as_ref() };
    // SAFETY: given back once for each time it was inserted, so it is in no stack.
    unsafe { VISITED.free.push(NonNull::from(&item.free)) };
}

impl Visited {
    /// A free item's node.
    fn take(&self) -> Option<NonNull<general_list::Node>> {
        let link = self.free.pop()?;
        let offset = core::mem::offset_of!(Item, free);
        // SAFETY: the link is a field of a static item.
        Some(unsafe { link.byte_sub(offset) }.cast())
    }
}

impl Subject for Visited {
    fn name(&self) -> &'static str {
        "list with visitors"
    }

    fn operate(&self, _: usize, round: u64) {
        let Some(list) = self.list.get() else { return };
        let walk = |steps: u64| {
            let mut cursor = list.cursor();
            for _ in 0..steps {
                if cursor.advance().is_none() {
                    break;
                }
            }
            cursor
        };
        if let Some(node) = self.take() {
            // SAFETY: a free node, and not inserted where the node to stand on was gone; the head never is.
            let behind = |steps| unsafe { walk(steps).insert_after(node) };
            assert!(behind(round % 3).or_else(|_| behind(0)).is_ok());
        }
        walk(1 + round % 4).remove();
    }

    fn settle(&self) {
        let Some(list) = self.list.get() else {
            for item in &self.items {
                // SAFETY: static, and in no stack yet.
                unsafe { self.free.push(NonNull::from(&item.free)) };
            }
            let _ = self.list.set(List::new(freed));
            return;
        };
        let mut cursor = list.cursor();
        while cursor.advance().is_some() {
            cursor.remove();
        }
        drop(cursor);
        list.sweep();
        assert!(list.is_empty(), "nodes left in the list with visitors");
        let nodes: [_; ITEMS] = core::array::from_fn(|_| self.take());
        assert!(
            self.free.is_empty() && nodes.iter().all(Option::is_some),
            "nodes lost"
        );
        nodes.into_iter().flatten().for_each(freed);
    }
}

/// Everybody adds one, or leaves it to be added.
struct Server {
    server: WorkServer<u64>,
    asked: AtomicU64,
}

static SERVER: Server = Server {
    server: WorkServer::new(0, WorkServer::serve),
    asked: AtomicU64::new(0),
};

impl Subject for Server {
    fn name(&self) -> &'static str {
        "work server"
    }

    fn operate(&self, _: usize, _: u64) {
        self.server.invoke(|sum| *sum += 1);
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    fn settle(&self) {
        let done = self.server.try_invoke(|sum| *sum).ok();
        assert_eq!(done, Some(self.asked.load(Ordering::Relaxed)), "work done");
    }
}
