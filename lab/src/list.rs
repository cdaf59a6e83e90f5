//! A list with insertion at both ends and deletion anywhere.
//!
//! *Interface*: [`List::insert`], [`List::append`], [`List::remove`], [`List::iter`]. Nodes are the caller's
//! and intrusive. A removed node is unlinked when `remove` returns, and may be freed or inserted again a
//! grace period later ([`sync::epoch`]): others may still be visiting it.
//!
//! Source: general linked lists (dissertation, section 5.2.3): deletion in two steps, first mark the node,
//! then let the next visitor unlink it while the node before is not marked itself. The mark is the low bit of
//! the node's own link, so a node cannot be linked behind a deleted node unnoticed: Harris, *A pragmatic
//! implementation of non-blocking linked lists* (DISC 2001). Where the dissertation counts visitors, readers
//! here are covered by the grace period.
//!
//! Progress: lock-free. Memory order: a link is published with release and followed with acquire.

use core::ptr::{self, NonNull};
use sync::primitive::atomic::{AtomicUsize, Ordering};
use sync::primitive::constructor;

const MARK: usize = 1;

/// The link inside an element. Put it first in a `repr(C)` structure, or find the element by its offset.
#[repr(align(8))]
pub struct Node {
    /// Address of the next node or 0; the low bit says that *this* node is deleted.
    next: AtomicUsize,
}

impl Node {
    constructor! {
        /// A node in no list.
        pub fn new() -> Node {
            Node { next: AtomicUsize::new(0) }
        }
    }

    /// Whether the node was deleted.
    pub fn is_removed(&self) -> bool {
        self.next.load(Ordering::Acquire) & MARK != 0
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

/// Nodes in an order.
pub struct List {
    head: Node,
}

/// # Safety
/// `address` is 0 or that of a node that was in the list within this grace period.
unsafe fn node<'a>(address: usize) -> Option<&'a Node> {
    // SAFETY: the caller's promise; the address was exposed when the node was inserted.
    unsafe { ptr::with_exposed_provenance::<Node>(address).as_ref() }
}

impl List {
    constructor! {
        /// An empty list.
        pub fn new() -> List {
            List { head: Node::new() }
        }
    }

    /// Put `new` in front.
    ///
    /// # Safety
    /// `new` is in no list, and was in none since the last grace period began; from now until a grace period
    /// after its `remove` it stays where it is.
    pub unsafe fn insert(&self, new: NonNull<Node>) {
        let address = new.as_ptr().expose_provenance();
        let mut first = self.head.next.load(Ordering::Relaxed);
        loop {
            // SAFETY: ours until the exchange succeeds.
            unsafe { new.as_ref() }.next.store(first, Ordering::Relaxed);
            match self.head.next.compare_exchange_weak(
                first,
                address,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Put `new` at the end.
    ///
    /// # Safety
    /// As [`insert`](List::insert); the caller is inside a grace period (see [`sync::epoch`]), as a reader
    /// is.
    pub unsafe fn append(&self, new: NonNull<Node>) {
        let address = new.as_ptr().expose_provenance();
        // SAFETY: ours until the exchange succeeds.
        unsafe { new.as_ref() }.next.store(0, Ordering::Relaxed);
        'again: loop {
            let mut last = &self.head;
            loop {
                let next = last.next.load(Ordering::Acquire);
                if next & MARK != 0 {
                    // The end is deleted: unlink it first, nothing may be hung behind it.
                    self.sweep(0);
                    continue 'again;
                }
                // SAFETY: a node of the list, and we are inside a grace period.
                match unsafe { node(next) } {
                    Some(further) => last = further,
                    None => break,
                }
            }
            if last
                .next
                .compare_exchange(0, address, Ordering::Release, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }

    /// Deletes `old`: false when another thread did. When true, `old` is out of the list, and the caller may
    /// free it after a grace period.
    ///
    /// # Safety
    /// `old` was inserted into this list; the caller is inside a grace period.
    pub unsafe fn remove(&self, old: NonNull<Node>) -> bool {
        // SAFETY: in the list, or deleted within this grace period.
        let was = unsafe { old.as_ref() }
            .next
            .fetch_or(MARK, Ordering::AcqRel);
        if was & MARK != 0 {
            return false;
        }
        self.sweep(old.as_ptr().addr());
        true
    }

    /// Unlink every marked node on the way to the end; in any case return only when `goal` is not linked.
    fn sweep(&self, goal: usize) {
        'again: loop {
            let mut before = &self.head;
            let mut here = before.next.load(Ordering::Acquire);
            // SAFETY: the callers are inside a grace period.
            while let Some(at) = unsafe { node(here & !MARK) } {
                let next = at.next.load(Ordering::Acquire);
                if next & MARK == 0 {
                    before = at;
                    here = next;
                    continue;
                }
                let rest = next & !MARK;
                // Fails when `before` was itself deleted, or something came between.
                if before
                    .next
                    .compare_exchange(here, rest, Ordering::AcqRel, Ordering::Acquire)
                    .is_err()
                {
                    continue 'again;
                }
                if here == goal {
                    return;
                }
                here = rest;
            }
            return;
        }
    }

    /// The nodes that are not deleted, from the front. Insertions and deletions meanwhile may or may not be
    /// seen.
    ///
    /// # Safety
    /// The caller stays inside a grace period while the iterator lives.
    pub unsafe fn iter(&self) -> Iter<'_> {
        Iter { at: &self.head }
    }

    /// Whether no node was linked at this instant.
    pub fn is_empty(&self) -> bool {
        self.head.next.load(Ordering::Acquire) == 0
    }
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

/// See [`List::iter`].
pub struct Iter<'a> {
    at: &'a Node,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Node;
    fn next(&mut self) -> Option<&'a Node> {
        loop {
            let next = self.at.next.load(Ordering::Acquire) & !MARK;
            // SAFETY: linked within this grace period, as `iter`'s caller promised to stay in.
            self.at = unsafe { node(next) }?;
            if !self.at.is_removed() {
                return Some(self.at);
            }
        }
    }
}
