//! The queue of nodes: no bound, many producers, many consumers.
//!
//! *Interface*: [`Queue::put`] a word with a node to carry it; [`Queue::get`] gives the word and a node that
//! is free again (not the same one). Nodes are type-stable: they stay readable as nodes as long as the queue
//! is in use.
//!
//! Source: a list with insertion at its tail and deletion at its head (dissertation, section 5.2.1), by
//! Michael and Scott, *Simple, fast, and practical non-blocking and blocking concurrent queue algorithms*
//! (PODC 1996). Head, tail and every link have a tag beside the address, so a reused node is not mistaken.
//!
//! Progress: lock-free; a lagging tail is moved by any party that finds it. Memory order: every link is an
//! exchange of pairs, a full barrier; the word is atomic because a consumer may read the word of a node that
//! was taken meanwhile, and then discards it.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use sync::cas2::AtomicPair;
use sync::primitive::atomic::{AtomicU64, Ordering};
use sync::primitive::constructor;
use sync::word::Word;

/// Carries one word.
pub struct Node {
    /// Low: address of the next node or 0. High: changes.
    next: AtomicPair,
    word: AtomicU64,
}

impl Node {
    constructor! {
        /// A node in no queue.
        pub fn new() -> Node {
            Node { next: AtomicPair::new(0, 0), word: AtomicU64::new(0) }
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

/// Words on their way from anyone to anyone.
pub struct Queue<T: Word> {
    head: AtomicPair,
    tail: AtomicPair,
    values: PhantomData<T>,
}

/// # Safety
/// `address` is that of a node in use.
unsafe fn node<'a>(address: u64) -> &'a Node {
    // SAFETY: the caller's promise; the address was exposed when the node was given.
    unsafe { &*ptr::with_exposed_provenance(address as usize) }
}

impl<T: Word> Queue<T> {
    /// An empty queue around one spare node.
    ///
    /// # Safety
    /// `spare` and every node of later [`put`](Queue::put)s stay readable as nodes as long as the queue is in
    /// use, and are in one place at a time.
    pub unsafe fn new(spare: NonNull<Node>) -> Queue<T> {
        let address = spare.as_ptr().expose_provenance() as u64;
        // SAFETY: given to us.
        unsafe { end(node(address)) };
        Queue {
            head: AtomicPair::new(address, 0),
            tail: AtomicPair::new(address, 0),
            values: PhantomData,
        }
    }

    /// Put `value` at the end, carried by `carrier`.
    ///
    /// # Safety
    /// `carrier` is in no queue; see [`new`](Queue::new).
    pub unsafe fn put(&self, carrier: NonNull<Node>, value: T) {
        let address = carrier.as_ptr().expose_provenance() as u64;
        // SAFETY: given to us.
        let new = unsafe { node(address) };
        new.word.store(value.into_word(), Ordering::Relaxed);
        end(new);
        loop {
            let tail = self.tail.read();
            // SAFETY: a node of this queue.
            let last = unsafe { node(tail.0) };
            let next = last.next.read();
            if self.tail.read() != tail {
                continue;
            }
            if next.0 != 0 {
                let _ = self
                    .tail
                    .compare_exchange(tail, (next.0, tail.1.wrapping_add(1)));
            } else if last
                .next
                .compare_exchange(next, (address, next.1.wrapping_add(1)))
                .is_ok()
            {
                let _ = self
                    .tail
                    .compare_exchange(tail, (address, tail.1.wrapping_add(1)));
                return;
            }
        }
    }

    /// Take the value at the front, and a node that is free again.
    pub fn get(&self) -> Option<(T, NonNull<Node>)> {
        loop {
            let head = self.head.read();
            let tail = self.tail.read();
            // SAFETY: a node of this queue.
            let next = unsafe { node(head.0) }.next.read();
            if self.head.read() != head {
                continue;
            }
            if next.0 == 0 {
                return None;
            }
            if head.0 == tail.0 {
                let _ = self
                    .tail
                    .compare_exchange(tail, (next.0, tail.1.wrapping_add(1)));
                continue;
            }
            // SAFETY: as above.
            let word = unsafe { node(next.0) }.word.load(Ordering::Relaxed);
            if self
                .head
                .compare_exchange(head, (next.0, head.1.wrapping_add(1)))
                .is_ok()
            {
                let free = NonNull::new(ptr::with_exposed_provenance_mut(head.0 as usize))?;
                // SAFETY: the head had not changed, so `next` carried a value of `put` and we alone took it.
                return Some((unsafe { T::from_word(word) }, free));
            }
        }
    }

    /// The node that an empty queue keeps, when the queue is given up.
    pub fn into_spare(self) -> Option<NonNull<Node>> {
        NonNull::new(ptr::with_exposed_provenance_mut(
            self.head.read().0 as usize,
        ))
    }
}

/// Makes a node the last one of the queue that it will be in. Its number of changes grows: a party that
/// remembers its former use notices this by head or tail, which have moved, and its exchange fails.
fn end(node: &Node) {
    let old = node.next.read();
    node.next.renew((0, old.1.wrapping_add(1)));
}
