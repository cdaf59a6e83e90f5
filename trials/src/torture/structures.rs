//! The structures of `sync` as subjects of torture, and a spin lock as the control that must not pass.
//!
//! *Interface*: [`all`], [`SPIN_LOCK`].

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use lab::queue::{linked, mpmc, mpsc, spmc, spsc};
use lab::{List, list};
use sync::cas2::AtomicPair;
use sync::{ArrayStack, Once, Stack, ValueStack, stack};

use super::subject::{Subject, Tally};

/// Places in the bounded structures: few, so that full and empty are met often.
const PLACES: usize = 8;

/// All structures.
pub fn all() -> [&'static dyn Subject; 10] {
    [
        &STACK,
        &ARRAY_STACK,
        &VALUE_STACK,
        &LIST,
        &LINKED,
        &SPSC,
        &SPMC,
        &MPSC,
        &MPMC,
        &PAIR,
    ]
}

/// A value that no other round of the same test gives.
fn value(role: usize, round: u64) -> u64 {
    round << 8 | role as u64 | 0x80
}

/// Nodes go from one stack to another and back.
struct Stacks {
    from: Stack,
    to: Stack,
    nodes: [stack::Node; PLACES],
    filled: AtomicBool,
}

static STACK: Stacks = Stacks {
    from: Stack::new(),
    to: Stack::new(),
    nodes: [const { stack::Node::new() }; PLACES],
    filled: AtomicBool::new(false),
};

impl Subject for Stacks {
    fn name(&self) -> &'static str {
        "stack of nodes"
    }

    fn operate(&self, _: usize, round: u64) {
        let (from, to) = match round % 2 {
            0 => (&self.from, &self.to),
            _ => (&self.to, &self.from),
        };
        if let Some(node) = from.pop() {
            // SAFETY: the nodes are static, and a popped one is ours.
            unsafe { to.push(node) };
        }
    }

    fn settle(&self) {
        let nodes = self.from.take_all().chain(self.to.take_all()).count();
        let expected = if self.filled.swap(true, Ordering::Relaxed) {
            PLACES
        } else {
            0
        };
        assert_eq!(nodes, expected, "nodes of the stacks");
        for node in &self.nodes {
            // SAFETY: the nodes are static, and all were just taken.
            unsafe { self.from.push(NonNull::from(node)) };
        }
    }
}

/// Everyone puts a number and takes one.
struct Arrays {
    stack: ArrayStack<u32, PLACES>,
    tally: Tally,
}

static ARRAY_STACK: Arrays = Arrays {
    stack: ArrayStack::new(),
    tally: Tally::new(),
};

impl Subject for Arrays {
    fn name(&self) -> &'static str {
        "stack on an array"
    }

    fn operate(&self, role: usize, round: u64) {
        let value = value(role, round) as u32;
        if self.stack.push(value).is_ok() {
            self.tally.entered(value.into());
        }
        if !round.is_multiple_of(3)
            && let Some(value) = self.stack.pop()
        {
            self.tally.left(value.into());
        }
    }

    fn settle(&self) {
        while let Some(value) = self.stack.pop() {
            self.tally.left(value.into());
        }
        self.tally.check(self.name());
    }
}

/// As [`Arrays`], with whole words.
struct Values {
    stack: ValueStack<u64, PLACES>,
    tally: Tally,
}

static VALUE_STACK: Values = Values {
    stack: ValueStack::new(),
    tally: Tally::new(),
};

impl Subject for Values {
    fn name(&self) -> &'static str {
        "stack of values"
    }

    fn operate(&self, role: usize, round: u64) {
        let value = value(role, round);
        if self.stack.push(value).is_ok() {
            self.tally.entered(value);
        }
        if !round.is_multiple_of(3)
            && let Some(value) = self.stack.pop()
        {
            self.tally.left(value);
        }
    }

    fn settle(&self) {
        while let Some(value) = self.stack.pop() {
            self.tally.left(value);
        }
        self.tally.check(self.name());
    }
}

/// Nodes are inserted at both ends and removed from wherever they are. None is used twice before all threads
/// have ended, which is the grace period.
struct Lists {
    list: List,
    nodes: [list::Node; LIST_NODES],
    next: AtomicUsize,
    inserted: AtomicUsize,
    removed: AtomicUsize,
}

const LIST_NODES: usize = 4096;

static LIST: Lists = Lists {
    list: List::new(),
    nodes: [const { list::Node::new() }; LIST_NODES],
    next: AtomicUsize::new(0),
    inserted: AtomicUsize::new(0),
    removed: AtomicUsize::new(0),
};

impl Subject for Lists {
    fn name(&self) -> &'static str {
        "list"
    }

    fn operate(&self, _: usize, round: u64) {
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(node) = self.nodes.get(mine) else {
            return;
        };
        // SAFETY: a static node that nobody had, and the grace period lasts as long as the test.
        unsafe {
            match round % 2 {
                0 => self.list.insert(NonNull::from(node)),
                _ => self.list.append(NonNull::from(node)),
            }
        }
        self.inserted.fetch_add(1, Ordering::Relaxed);
        // SAFETY: within the grace period, and the node it finds was inserted.
        let removed = unsafe {
            let victim = self.list.iter().nth((round % 3) as usize);
            victim.is_some_and(|node| self.list.remove(NonNull::from(node)))
        };
        if removed {
            self.removed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn settle(&self) {
        // SAFETY: nobody else is there.
        unsafe {
            while let Some(node) = self.list.iter().next() {
                assert!(self.list.remove(NonNull::from(node)));
                self.removed.fetch_add(1, Ordering::Relaxed);
            }
        }
        assert!(self.list.is_empty());
        assert_eq!(
            self.inserted.swap(0, Ordering::Relaxed),
            self.removed.swap(0, Ordering::Relaxed),
            "nodes of the list"
        );
        self.next.store(0, Ordering::Relaxed);
    }
}

/// The queue of nodes; everyone takes one word and puts it back.
struct Linked {
    queue: Once<linked::Queue<u64>>,
    nodes: [linked::Node; PLACES + 1],
}

static LINKED: Linked = Linked {
    queue: Once::new(),
    nodes: [const { linked::Node::new() }; PLACES + 1],
};

impl Linked {
    fn queue(&self) -> &linked::Queue<u64> {
        if self.queue.get().is_none() {
            // SAFETY: static nodes, each in one place. Only `settle` gets here, before the others start.
            let queue = unsafe { linked::Queue::new(NonNull::from(&self.nodes[0])) };
            for (i, node) in self.nodes.iter().enumerate().skip(1) {
                // SAFETY: as above.
                unsafe { queue.put(NonNull::from(node), i as u64) };
            }
            assert!(self.queue.set(queue).is_ok());
        }
        self.queue.get().expect("just set")
    }
}

impl Subject for Linked {
    fn name(&self) -> &'static str {
        "queue of nodes"
    }

    fn operate(&self, _: usize, _: u64) {
        let queue = self.queue();
        if let Some((word, node)) = queue.get() {
            // SAFETY: the node that `get` gave is ours.
            unsafe { queue.put(node, word) };
        }
    }

    fn settle(&self) {
        let queue = self.queue();
        let mut seen = 0u64;
        for _ in 0..PLACES {
            let (word, node) = queue.get().expect("a word was lost");
            seen |= 1 << word;
            // SAFETY: as in `operate`.
            unsafe { queue.put(node, word) };
        }
        assert_eq!(seen, (1 << (PLACES + 1)) - 2, "words of the queue of nodes");
    }
}

/// A queue of numbers; who may be on its sides is the difference between the kinds.
struct Queues<Q> {
    name: &'static str,
    queue: Q,
    /// Whether only one thread may put, or take.
    alone: [bool; 2],
    tally: Tally,
}

trait Numbers: Sync {
    /// # Safety
    /// As the queue's own.
    unsafe fn put(&self, value: u64) -> bool;
    /// # Safety
    /// As the queue's own.
    unsafe fn get(&self) -> Option<u64>;
}

macro_rules! numbers {
    ($($kind:ident)*) => { $(
        impl Numbers for $kind::Queue<u64, PLACES> {
            #[allow(unused_unsafe)] // not every queue asks for a promise
            unsafe fn put(&self, value: u64) -> bool {
                // SAFETY: the caller's promise.
                unsafe { $kind::Queue::put(self, value) }.is_ok()
            }
            #[allow(unused_unsafe)] // not every queue asks for a promise
            unsafe fn get(&self) -> Option<u64> {
                // SAFETY: the caller's promise.
                unsafe { $kind::Queue::get(self) }
            }
        }
    )* };
}
numbers!(spsc spmc mpsc mpmc);

impl<Q: Numbers> Subject for Queues<Q> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn roles(&self) -> usize {
        2
    }

    fn alone(&self, role: usize) -> bool {
        self.alone[role]
    }

    fn operate(&self, role: usize, round: u64) {
        if role == 0 {
            let value = value(role, round);
            // SAFETY: the harness keeps to `alone`.
            if unsafe { self.queue.put(value) } {
                self.tally.entered(value);
            }
        // SAFETY: as above.
        } else if let Some(value) = unsafe { self.queue.get() } {
            self.tally.left(value);
        }
    }

    fn settle(&self) {
        // SAFETY: nobody else is there.
        while let Some(value) = unsafe { self.queue.get() } {
            self.tally.left(value);
        }
        self.tally.check(self.name);
        // Half full, so that those who take find something.
        for _ in 0..PLACES / 2 {
            self.operate(0, 0);
        }
    }
}

static SPSC: Queues<spsc::Queue<u64, PLACES>> = Queues {
    name: "queue, one to one",
    queue: spsc::Queue::new(),
    alone: [true, true],
    tally: Tally::new(),
};

static SPMC: Queues<spmc::Queue<u64, PLACES>> = Queues {
    name: "queue, one to many",
    queue: spmc::Queue::new(),
    alone: [true, false],
    tally: Tally::new(),
};

static MPSC: Queues<mpsc::Queue<u64, PLACES>> = Queues {
    name: "queue, many to one",
    queue: mpsc::Queue::new(),
    alone: [false, true],
    tally: Tally::new(),
};

static MPMC: Queues<mpmc::Queue<u64, PLACES>> = Queues {
    name: "queue, many to many",
    queue: mpmc::Queue::new(),
    alone: [false, false],
    tally: Tally::new(),
};

/// Two words that change together.
struct Pairs {
    pair: AtomicPair,
    changes: AtomicU64,
}

static PAIR: Pairs = Pairs {
    pair: AtomicPair::new(0, 0),
    changes: AtomicU64::new(0),
};

impl Subject for Pairs {
    fn name(&self) -> &'static str {
        "two adjacent words"
    }

    fn operate(&self, _: usize, _: u64) {
        let mut old = self.pair.load();
        while let Err(now) = self.pair.compare_exchange(old, (old.0 + 1, old.1 + 2)) {
            old = now;
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn settle(&self) {
        let changes = self.changes.load(Ordering::Relaxed);
        assert_eq!(self.pair.load(), (changes, 2 * changes), "the two words");
    }
}

/// The control: whoever stops with the lock stops everyone.
pub struct SpinLock {
    held: AtomicBool,
    count: UnsafeCell<u64>,
    operations: AtomicU64,
}

// SAFETY: `count` is touched only with `held` set by oneself, or when nobody else is there.
unsafe impl Sync for SpinLock {}

/// See [`SpinLock`].
pub static SPIN_LOCK: SpinLock = SpinLock {
    held: AtomicBool::new(false),
    count: UnsafeCell::new(0),
    operations: AtomicU64::new(0),
};

impl Subject for SpinLock {
    fn name(&self) -> &'static str {
        "spin lock"
    }

    fn operate(&self, _: usize, _: u64) {
        while self.held.swap(true, Ordering::Acquire) {
            thread::yield_now();
        }
        // SAFETY: the lock is held.
        unsafe { *self.count.get() += 1 };
        self.held.store(false, Ordering::Release);
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    fn settle(&self) {
        // SAFETY: nobody else is there.
        let count = unsafe { *self.count.get() };
        assert_eq!(
            count,
            self.operations.load(Ordering::Relaxed),
            "count under the lock"
        );
    }
}
