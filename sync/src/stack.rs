//! Treiber's stack of nodes, with a tag against ABA.
//!
//! *Interface*: [`Stack::push`] and [`Stack::pop`] from anywhere, handlers included; [`Stack::take_all`].
//! Nodes are the caller's and intrusive: their memory must stay readable as nodes (type-stable) while anyone
//! may be in `pop`, even after they were popped.
//!
//! Source: insert and delete at the head of a list (dissertation, figures 5.4 and 5.8), which is Treiber's
//! stack (IBM RJ 5118, 1986). Where the figure compares head and second node at once (CAS2), here the head's
//! word holds the top node and a tag that every `pop` increments, so each operation is one exchange of one
//! word. (A `push` needs no new tag: linking the new node before the current top is always right, and pops
//! see only the top itself of a push.)
//!
//! Why the tag is wide enough: in the kernel all data lies in the top two gigabytes, so a node is 28 bits and
//! the tag 36. A `pop` would be misled only if, between its load and its exchange, others popped a multiple
//! of 2³⁶ nodes (minutes of nothing else), and the same node was on top again with another behind it. On a
//! host nodes may have any address and 20 bits are left: enough for tests and benchmarks. A node out of reach
//! causes a panic.
//!
//! Progress: lock-free; a failed exchange means another succeeded. Memory order: `push` releases the node's
//! contents with the exchange that publishes it, `pop` acquires them with the exchange that takes it; both
//! are full barriers on this machine. `next` is atomic because `pop` may read the link of a node that was
//! taken meanwhile; the value is discarded then, since the tag has changed.

use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::primitive::constructor;
use core::ptr::{self, NonNull};

/// How nodes are numbered: address minus `ORIGIN`, in units of 8 bytes, in `BITS` bits; 0 is none.
const KERNEL: bool = cfg!(target_os = "none");
const ORIGIN: usize = if KERNEL { 0xffff_ffff_8000_0000 } else { 0 };
const BITS: u32 = if KERNEL { 28 } else { 44 };
const NODE: u64 = (1 << BITS) - 1;
const TAG: u64 = 1 << BITS;

/// The number of a node that is given to a stack.
fn number(node: NonNull<Node>) -> u64 {
    let number = node.as_ptr().expose_provenance().wrapping_sub(ORIGIN) as u64 >> 3;
    assert!(number & !NODE == 0, "a node out of the stack's reach");
    number
}

/// The node of a number that [`number`] gave.
fn node(number: u64) -> Option<NonNull<Node>> {
    let address = ((number as usize) << 3).wrapping_add(ORIGIN);
    if number == 0 {
        return None;
    }
    NonNull::new(ptr::with_exposed_provenance_mut(address))
}

/// The link inside an element. Put it first in a `repr(C)` structure, or find the element by its offset.
#[repr(align(8))]
pub struct Node {
    /// Number of the next node or 0.
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
    /// The top node's number or 0; above it, the number of nodes taken so far.
    head: AtomicU64,
}

impl Stack {
    constructor! {
        /// An empty stack.
        pub fn new() -> Stack {
            Stack { head: AtomicU64::new(0) }
        }
    }

    /// Put `node` on top.
    ///
    /// # Panics
    /// When the kernel's node does not lie in the top two gigabytes.
    ///
    /// # Safety
    /// The node is in no stack, is given up to this one until a `pop` or `take_all` returns it, and stays
    /// readable as a [`Node`] as long as the stack is in use.
    #[inline]
    pub unsafe fn push(&self, node: NonNull<Node>) {
        let number = number(node);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node is ours until the exchange succeeds.
            unsafe { node.as_ref() }
                .next
                .store(head & NODE, Ordering::Relaxed);
            match self.replace(head, head & !NODE | number) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Take the top node.
    #[inline]
    pub fn pop(&self) -> Option<NonNull<Node>> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let top = node(head & NODE)?;
            // SAFETY: it was a node of this stack, so it stays readable.
            let next = unsafe { top.as_ref() }.next.load(Ordering::Relaxed);
            match self.replace(head, (head & !NODE).wrapping_add(TAG) | next) {
                Ok(_) => return Some(top),
                Err(now) => head = now,
            }
        }
    }

    /// Take every node at once; the iterator goes from the top down. Nodes that are left when it is dropped
    /// are lost to the stack.
    pub fn take_all(&self) -> Chain {
        let mut head = self.head.load(Ordering::Relaxed);
        while let Err(now) = self.replace(head, (head & !NODE).wrapping_add(TAG)) {
            head = now;
        }
        Chain { next: head & NODE }
    }

    #[inline]
    fn replace(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.head
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Whether there was no node at this instant.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Acquire) & NODE == 0
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
        let node = node(self.next)?;
        // SAFETY: taken off the stack, and not handed out yet, so ours.
        self.next = unsafe { node.as_ref() }.next.load(Ordering::Relaxed);
        Some(node)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A party that read the top before it was taken and put back, with another node behind it, fails.
    #[test]
    fn a_top_that_has_been_away_is_another() {
        let stack = Stack::new();
        let nodes = [(); 3].map(|()| Node::new());
        let [a, b, c] = nodes.each_ref().map(NonNull::from);
        // SAFETY: the nodes outlive the stack's use, and each is pushed only when it is in no stack.
        unsafe {
            stack.push(b);
            stack.push(a);
            let seen = stack.head.load(Ordering::Relaxed);
            assert_eq!((stack.pop(), stack.pop()), (Some(a), Some(b)));
            stack.push(c);
            stack.push(a);
            assert!(stack.replace(seen, number(b)).is_err());
            assert!(stack.take_all().eq([a, c]));
            assert!(stack.is_empty());
        }
    }
}
