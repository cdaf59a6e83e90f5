//! The general list: insertion and deletion anywhere, and visitors that may stay for any time.
//!
//! *Interface*: [`List::cursor`] walks; [`Cursor::advance`] visits the next node, [`Cursor::insert_after`]
//! and [`Cursor::remove`] change the list at the cursor. All of these work from anywhere, handlers included.
//! Nodes are the caller's and intrusive; `free` of [`List::new`] gets each node back when it is out of the
//! list and the last visitor has left it.
//!
//! Source: general linked lists (dissertation, section 5.2.3, figure 5.7): visiting a node counts it, leaving
//! discounts it, a deleted node is safe until its count is zero, and its link still leads back to the list.
//! Deletion has two steps: mark the node and leave it; a later visitor on the node before, if that is not
//! marked itself, unlinks it. The figure's `CAS2` compares the link and the count of the node that it leads
//! to, two distant words. Here the visitors that came by a link are counted *beside the link*, so one
//! exchange of adjacent words does the same (split counts, as in the atomic shared pointers of C++);
//! departures are counted in the node, and when a link is changed its count moves there too. The node's own
//! deletion mark is in its link (Harris 2001), so nothing can be linked behind a deleted node unnoticed.
//!
//! If no visitor sleeps on a node, [`crate::list`] is cheaper: its visitors count nothing, a grace period
//! covers them. Here nothing waits for a grace period, and a visitor that stops for ever keeps only its node
//! and the deleted nodes behind it.
//!
//! Progress: lock-free; an exchange fails because another visit, insertion or deletion succeeded. Memory
//! order: every link is an exchange of pairs, a full barrier; each departure's release of the count is
//! acquired by the party that finds it zero.
//!
//! Counts: a node may be pointed to by up to 4095 links at once (its predecessor and deleted nodes that still
//! have visitors), and be left 2⁵² times between two changes of its predecessor.

use core::ptr::{self, NonNull};
use sync::cas2::Pair;
use sync::primitive::atomic::{AtomicU64, Ordering};
use sync::primitive::constructor;

/// In a link: *this* node is deleted.
const DELETED: u64 = 1;
/// The value that a link to a node adds to its count.
const LINK: u64 = 1 << 52;

/// The link inside an element. Put it first in a `repr(C)` structure.
#[repr(C, align(16))]
pub struct Node {
    /// Low: address of the next node or 0, with [`DELETED`]. High: how many came to the next node by this
    /// link.
    next: Pair,
    /// [`LINK`] for each link to this node, plus the visitors that came by former links, minus all that left.
    count: AtomicU64,
}

impl Node {
    constructor! {
        /// A node in no list.
        pub fn new() -> Node {
            Node { next: Pair::new(0, 0), count: AtomicU64::new(0) }
        }
    }

    /// Whether the node was deleted.
    pub fn is_removed(&self) -> bool {
        self.next.load().0 & DELETED != 0
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

/// The node to insert behind was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed;

/// Nodes in an order.
pub struct List {
    /// Before the first; never deleted.
    head: Node,
    free: fn(NonNull<Node>),
}

/// # Safety
/// `address` is 0 or that of a node which the caller has counted or holds by a link.
unsafe fn node<'a>(address: u64) -> Option<&'a Node> {
    // SAFETY: the caller's promise; the address was exposed when the node was inserted.
    unsafe { ptr::with_exposed_provenance::<Node>(address as usize).as_ref() }
}

/// A pointer that may be cast to the element around the node: with the provenance that was exposed when it
/// was inserted.
fn whole(node: &Node) -> NonNull<Node> {
    let at = ptr::with_exposed_provenance_mut(ptr::from_ref(node).addr());
    // SAFETY: the address of a reference is not null.
    unsafe { NonNull::new_unchecked(at) }
}

impl List {
    constructor! {
        /// An empty list. `free` gets back each removed node once, wherever the last one leaves it: it must
        /// not wait.
        pub fn new(free: fn(NonNull<Node>)) -> List {
            List { head: Node::new(), free }
        }
    }

    /// A visitor, standing before the first node.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            list: self,
            here: NonNull::from(&self.head),
        }
    }

    /// Visits the node that `from`'s link leads to: counts the visit. The caller is on `from`.
    fn visit<'a>(&self, from: &'a Node) -> Option<&'a Node> {
        let mut old = from.next.load();
        loop {
            let address = old.0 & !DELETED;
            if address == 0 {
                return None;
            }
            match from.next.compare_exchange(old, (old.0, old.1 + 1)) {
                // SAFETY: the link led there when we were counted.
                Ok(()) => return unsafe { node(address) },
                Err(now) => old = now,
            }
        }
    }

    /// Leave a node that was visited, which may end it: so a pointer, not a reference.
    fn leave(&self, at: NonNull<Node>) {
        if at != NonNull::from(&self.head) {
            self.add(at, 1u64.wrapping_neg());
        }
    }

    /// Add to a node's count; when it becomes zero the node has no visitor and no link leads to it: frees the
    /// node, and drops its own link.
    fn add(&self, mut at: NonNull<Node>, mut amount: u64) {
        loop {
            // SAFETY: counted, by the caller or by the link of the node before.
            let node = unsafe { at.as_ref() };
            let count = node.count.fetch_add(amount, Ordering::AcqRel);
            if count.wrapping_add(amount) != 0 {
                return;
            }
            let (next, came) = node.next.load();
            (self.free)(at);
            let next = ptr::with_exposed_provenance_mut((next & !DELETED) as usize);
            let Some(further) = NonNull::new(next) else {
                return;
            };
            at = further;
            amount = came.wrapping_sub(LINK);
        }
    }

    /// Unlink `gone`, which is deleted, from behind `before`; the caller is on both. Afterwards `before` does
    /// not lead there, or is deleted itself.
    fn unlink(&self, before: &Node, gone: &Node) {
        let after = self.visit(gone);
        if let Some(after) = after {
            self.add(whole(after), LINK);
        }
        let address = after.map_or(0, |after| ptr::from_ref(after).addr() as u64);
        let mut old = before.next.load();
        loop {
            if old.0 != ptr::from_ref(gone).addr() as u64 {
                if let Some(after) = after {
                    self.add(whole(after), LINK.wrapping_neg());
                }
                break;
            }
            match before.next.compare_exchange(old, (address, 0)) {
                Ok(()) => {
                    self.add(whole(gone), old.1.wrapping_sub(LINK));
                    break;
                }
                Err(now) => old = now,
            }
        }
        if let Some(after) = after {
            self.leave(whole(after));
        }
    }

    /// Unlink every deleted node, except behind one that is just being deleted.
    pub fn sweep(&self) {
        let mut cursor = self.cursor();
        while cursor.advance().is_some() {}
    }

    /// Whether no node was linked at this instant.
    pub fn is_empty(&self) -> bool {
        self.head.next.load().0 == 0
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let mut cursor = self.cursor();
        while cursor.advance().is_some() {
            cursor.remove();
        }
        drop(cursor);
        self.sweep();
    }
}

/// A visitor. It is before the first node, or on a node, which stays until the visitor moves on.
pub struct Cursor<'a> {
    list: &'a List,
    /// Visited, or the list's head.
    here: NonNull<Node>,
}

impl<'a> Cursor<'a> {
    /// Go on to the next node that is not deleted, unlinking deleted ones on the way. None at the end; then
    /// the cursor stays on the last.
    pub fn advance(&mut self) -> Option<&Node> {
        loop {
            let next = self.list.visit(self.here())?;
            if !next.is_removed() {
                self.go(whole(next));
                return Some(self.here());
            }
            if self.here().is_removed() {
                // Nothing can be unlinked from behind a deleted node; its way leads back to the list.
                self.go(whole(next));
            } else {
                self.list.unlink(self.here(), next);
                self.list.leave(whole(next));
            }
        }
    }

    fn here(&self) -> &Node {
        // SAFETY: visited, so it stays; or the head.
        unsafe { self.here.as_ref() }
    }

    fn go(&mut self, next: NonNull<Node>) {
        self.list.leave(self.here);
        self.here = next;
    }

    /// The node it is on; none before the first.
    pub fn node(&self) -> Option<&Node> {
        (self.here != NonNull::from(&self.list.head)).then(|| self.here())
    }

    /// The node it is on, as a pointer that may be cast to the element around it; valid as long as the cursor
    /// stays.
    pub fn pointer(&self) -> Option<NonNull<Node>> {
        self.node().map(|_| self.here)
    }

    /// Inserts `new` behind the node it is on (or as the first).
    ///
    /// # Errors
    /// [`Removed`], when that node was deleted.
    ///
    /// # Safety
    /// `new` is in no list and has no visitor: it is fresh, or was given back. From now on it belongs to the
    /// list, and does not move until it is given back.
    pub unsafe fn insert_after(&self, new: NonNull<Node>) -> Result<(), Removed> {
        let address = new.as_ptr().expose_provenance() as u64;
        // SAFETY: ours until the exchange succeeds.
        let node = unsafe { new.as_ref() };
        node.count.store(LINK, Ordering::Relaxed);
        let mut old = self.here().next.load();
        while old.0 & DELETED == 0 {
            // The link moves into the new node with the count of all visitors that came by it. SAFETY: as
            // above.
            unsafe { node.next.set(old) };
            match self.here().next.compare_exchange(old, (address, 0)) {
                Ok(()) => return Ok(()),
                Err(now) => old = now,
            }
        }
        Err(Removed)
    }

    /// Deletes the node it is on: true when no other visitor did. The next visitor unlinks the node, and it
    /// is given back when all visitors have left it.
    pub fn remove(&mut self) -> bool {
        if self.node().is_none() {
            return false;
        }
        let mut old = self.here().next.load();
        while old.0 & DELETED == 0 {
            match self
                .here()
                .next
                .compare_exchange(old, (old.0 | DELETED, old.1))
            {
                Ok(()) => return true,
                Err(now) => old = now,
            }
        }
        false
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        self.list.leave(self.here);
    }
}
