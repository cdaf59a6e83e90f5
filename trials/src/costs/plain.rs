//! The structures of table 5.1 without any synchronization, as a C programmer would write them.
//!
//! *Interface*: [`List`], [`Ring`], [`Array`], and [`Shared`], a place for one that the caller promises to
//! keep to itself.

use core::cell::UnsafeCell;

/// A value that its users keep apart by other means: by being alone, or by a lock.
pub struct Shared<T>(UnsafeCell<T>);

// SAFETY: `with` is unsafe, its callers keep apart.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The value.
    pub const fn new(value: T) -> Shared<T> {
        Shared(UnsafeCell::new(value))
    }

    /// Works on the value.
    ///
    /// # Safety
    /// Nobody else does at the same time.
    #[inline(always)]
    pub unsafe fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller's promise.
        work(unsafe { &mut *self.0.get() })
    }
}

/// A node of [`List`].
pub struct Node {
    next: Option<&'static Shared<Node>>,
}

impl Node {
    /// A node in no list.
    pub const fn new() -> Node {
        Node { next: None }
    }
}

/// A singly linked list.
pub struct List {
    head: Option<&'static Shared<Node>>,
}

impl List {
    /// An empty list.
    pub const fn new() -> List {
        List { head: None }
    }

    /// Puts a node in front.
    #[inline(always)]
    pub fn insert(&mut self, node: &'static Shared<Node>) {
        // SAFETY: who has the list has its nodes.
        unsafe { node.with(|node| node.next = self.head) };
        self.head = Some(node);
    }

    /// Takes the first node.
    #[inline(always)]
    pub fn delete(&mut self) -> Option<&'static Shared<Node>> {
        let first = self.head?;
        // SAFETY: as above.
        self.head = unsafe { first.with(|node| node.next) };
        Some(first)
    }
}

/// Places in the bounded structures.
pub const PLACES: usize = 8;

/// A circular queue.
pub struct Ring {
    words: [u64; PLACES],
    head: usize,
    tail: usize,
}

impl Ring {
    /// An empty queue.
    pub const fn new() -> Ring {
        Ring {
            words: [0; PLACES],
            head: 0,
            tail: 0,
        }
    }

    /// Puts a word at the end; false when the queue is full.
    #[inline(always)]
    pub fn insert(&mut self, word: u64) -> bool {
        if self.head.wrapping_sub(self.tail) == PLACES {
            return false;
        }
        self.words[self.head % PLACES] = word;
        self.head = self.head.wrapping_add(1);
        true
    }

    /// Takes the word at the front.
    #[inline(always)]
    pub fn delete(&mut self) -> Option<u64> {
        if self.head == self.tail {
            return None;
        }
        let word = self.words[self.tail % PLACES];
        self.tail = self.tail.wrapping_add(1);
        Some(word)
    }
}

/// A stack on an array.
pub struct Array {
    words: [u32; PLACES],
    top: usize,
}

impl Array {
    /// An empty stack.
    pub const fn new() -> Array {
        Array {
            words: [0; PLACES],
            top: 0,
        }
    }

    /// Puts a word on top; false when the stack is full.
    #[inline(always)]
    pub fn push(&mut self, word: u32) -> bool {
        let Some(place) = self.words.get_mut(self.top) else {
            return false;
        };
        *place = word;
        self.top += 1;
        true
    }

    /// Takes the word on top.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<u32> {
        self.top = self.top.checked_sub(1)?;
        self.words.get(self.top).copied()
    }
}
