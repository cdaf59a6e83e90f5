//! Treiber's stack of nodes, with a tag against ABA.
//!
//! *Interface*: [`Stack::push`] and [`Stack::pop`] from anywhere, handlers included; [`Stack::take_all`]. Nodes are the caller's and intrusive:
//! their memory must stay readable as nodes (type-stable) while anyone may be in `pop`, even after they were popped.
//!
//! Source: insert and delete at the head of a list (dissertation, figures 5.4 and 5.8), which is Treiber's stack (IBM RJ 5118, 1986). Where the
//! figure compares head and second node at once (CAS2), here the head has a tag beside it that every `pop` increments. (A `push` needs none: it is right to link
//! the new node before whatever is on top, and what pops see of pushes is the top itself.)
//!
//! Progress: lock-free; a failed exchange means another succeeded. Memory order: `push` releases the node's contents with the exchange that
//! publishes it, `pop` acquires them with the exchange that takes it. `next` is atomic because `pop` may read that of a node
//! that was taken meanwhile; the value is discarded then, since the tag has changed.

use crate::cas2::Pair;
use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::primitive::constructor;
use core::ptr::{self, NonNull};

/// The link inside an element. Put it first in a `repr(C)` structure, or find the element by its offset.
pub struct Node {
    next: AtomicU64,
}

impl Node {
    constructor! {
        /// A node in no stack.
        pub fn new() -> Node {
            Node { next: AtomicU64::new(0) }
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

/// A last-in, first-out collection of nodes.
pub struct Stack {
    /// Low: address of the top node or 0. High: number of nodes taken so far.
    head: Pair,
}

impl Stack {
    constructor! {
        /// An empty stack.
        pub fn new() -> Stack {
            Stack { head: Pair::new(0, 0) }
        }
    }

    /// Put `node` on top.
    ///
    /// # Safety
    /// The node is in no stack, is given up to this one until a `pop` or `take_all` returns it, and stays readable as a [`Node`] as long as the stack is in use.
    pub unsafe fn push(&self, node: NonNull<Node>) {
        let address = node.as_ptr().expose_provenance() as u64;
        let mut top = self.head.low();
        loop {
            // SAFETY: the node is ours until the exchange succeeds.
            unsafe { node.as_ref() }.next.store(top, Ordering::Relaxed);
            match self.head.compare_exchange_low(top, address) {
                Ok(()) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Take the top node.
    pub fn pop(&self) -> Option<NonNull<Node>> {
        let mut old = self.head.read();
        loop {
            let top = NonNull::new(ptr::with_exposed_provenance_mut::<Node>(old.0 as usize))?;
            // SAFETY: it was a node of this stack, so it stays readable.
            let next = unsafe { top.as_ref() }.next.load(Ordering::Relaxed);
            match self
                .head
                .compare_exchange(old, (next, old.1.wrapping_add(1)))
            {
                Ok(()) => return Some(top),
                Err(now) => old = now,
            }
        }
    }

    /// Take every node at once; the iterator goes from the top down. What is left of it when dropped is lost to the stack.
    pub fn take_all(&self) -> Chain {
        let mut old = self.head.read();
        while let Err(now) = self.head.compare_exchange(old, (0, old.1.wrapping_add(1))) {
            old = now;
        }
        Chain { next: old.0 }
    }

    /// Whether there was no node at this instant.
    pub fn is_empty(&self) -> bool {
        self.head.low() == 0
    }
}

impl Default for Stack {
    fn default() -> Self {
        Self::new()
    }
}

/// The nodes that [`Stack::take_all`] took.
pub struct Chain {
    next: u64,
}

impl Iterator for Chain {
    type Item = NonNull<Node>;
    fn next(&mut self) -> Option<NonNull<Node>> {
        let node = NonNull::new(ptr::with_exposed_provenance_mut::<Node>(self.next as usize))?;
        // SAFETY: taken off the stack, and not handed out yet, so ours.
        self.next = unsafe { node.as_ref() }.next.load(Ordering::Relaxed);
        Some(node)
    }
}
