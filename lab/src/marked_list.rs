//! The list whose nodes have one visitor at a time: the marker instead of the counter.
//!
//! *Interface*: [`List::enter`] goes to the first node without a visitor, [`Visit::next`] to the next one;
//! [`List::insert`] puts a node in front, [`Node::kill`] lets the next passing visitor remove it when it is
//! free. Visits happen inside a grace period ([`sync::epoch`]), as a dispatcher's are, which runs with
//! interrupts off.
//!
//! Source: dissertation, the end of section 5.2.3: where only one party visits a node at a time, a binary
//! marker is enough; a party that finds it set skips the node and tries the next; and section 5.3: a killed
//! node is marked, and the next party that comes to it takes it out. The figure's `CAS2` sets the mark of the
//! node while the link leads to it. Here the mark is *in that link*, one word, so a plain exchange does both.
//! A link also says when its own node is deleted, and then never changes again (Harris 2001); it is not
//! deleted while its mark is set. A leaving visitor follows the links from where it came in: new nodes may be
//! in between, and then the mark has moved with the link.
//!
//! Progress: lock-free; no party waits for a visitor. Memory order: a visitor's stores are released with its
//! mark, and acquired by the next.

use core::ptr::{self, NonNull};
use sync::primitive::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::primitive::constructor;

/// In a link: the node that it leads to is being visited.
const VISITED: usize = 1;
/// In a link: the node that it is in was taken out.
const FROZEN: usize = 2;
const BITS: usize = VISITED | FROZEN;

/// The link inside an element. Put it first in a `repr(C)` structure.
#[repr(C, align(8))]
pub struct Node {
    next: AtomicUsize,
    killed: AtomicBool,
}

impl Node {
    constructor! {
        /// A node in no list.
        pub fn new() -> Node {
            Node { next: AtomicUsize::new(0), killed: AtomicBool::new(false) }
        }
    }

    /// Has the node taken out of its list: no visit begins any more, and the next passing visitor unlinks it
    /// when neither it nor its successor has a visitor.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
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
    out: fn(NonNull<Node>),
}

/// # Safety
/// `link` is that of a node which was linked within this grace period.
unsafe fn node<'a>(link: usize) -> Option<&'a Node> {
    // SAFETY: the caller's promise; the address was exposed when the node was inserted.
    unsafe { ptr::with_exposed_provenance::<Node>(link & !BITS).as_ref() }
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
        /// An empty list. `out` is called once for each killed node that has been unlinked; a grace period
        /// later the node may be used again.
        pub fn new(out: fn(NonNull<Node>)) -> List {
            List { head: Node::new(), out }
        }
    }

    /// Put `new` in front.
    ///
    /// # Safety
    /// `new` is in no list, and was in none since the last grace period began; it does not move until a grace
    /// period after `out` was called for it.
    pub unsafe fn insert(&self, new: NonNull<Node>) {
        let address = new.as_ptr().expose_provenance();
        // SAFETY: ours until the exchange succeeds.
        let node = unsafe { new.as_ref() };
        node.killed.store(false, Ordering::Relaxed);
        let mut first = self.head.next.load(Ordering::Relaxed);
        loop {
            // With the mark of the first node's visitor, which finds it by following the links.
            node.next.store(first, Ordering::Relaxed);
            match self.head.next.compare_exchange_weak(
                first,
                address,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Visit the first node that can be.
    ///
    /// # Safety
    /// The caller stays inside a grace period until the visit ends.
    pub unsafe fn enter(&self) -> Option<Visit<'_>> {
        // SAFETY: the caller's promise.
        unsafe { self.enter_behind(&self.head) }
    }

    /// Visit the first node behind `from` that can be.
    ///
    /// # Safety
    /// As [`enter`](Self::enter), and `from` was linked within this grace period.
    unsafe fn enter_behind<'a>(&'a self, from: &'a Node) -> Option<Visit<'a>> {
        let mut before = from;
        loop {
            let link = before.next.load(Ordering::Acquire);
            // SAFETY: linked within this grace period.
            let at = unsafe { node(link) }?;
            // No visitor enters by the link of a node that is being removed, but the link can be followed.
            if link & (VISITED | FROZEN) != 0 {
                before = at;
                continue;
            }
            if at.killed.load(Ordering::Acquire) {
                let after = at.next.load(Ordering::Acquire);
                if after & VISITED != 0 {
                    // Its successor's visitor will look for its mark here.
                    before = at;
                    continue;
                }
                let frozen = at.next.compare_exchange(
                    after,
                    after | FROZEN,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                // A failure of the second exchange means that another party unlinked it, or entered it before
                // it was killed.
                if frozen.is_ok()
                    && before
                        .next
                        .compare_exchange(
                            link,
                            after & !FROZEN,
                            Ordering::AcqRel,
                            Ordering::Relaxed,
                        )
                        .is_ok()
                {
                    (self.out)(whole(at));
                }
                continue;
            }
            if before
                .next
                .compare_exchange(link, link | VISITED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Some(Visit {
                    list: self,
                    before,
                    at,
                });
            }
        }
    }
}

/// A visit of a node.
pub struct Visit<'a> {
    list: &'a List,
    /// The mark was set in this node's link.
    before: &'a Node,
    at: &'a Node,
}

impl<'a> Visit<'a> {
    /// The node.
    pub fn node(&self) -> &'a Node {
        self.at
    }

    /// The node, as a pointer that may be cast to the element around it; good as long as the visit.
    pub fn pointer(&self) -> NonNull<Node> {
        whole(self.at)
    }

    /// Leave it, and visit the next one that can be. If this one was just killed, the one behind it may be
    /// passed over.
    pub fn next(self) -> Option<Visit<'a>> {
        let (list, at) = (self.list, self.at);
        // The next is entered first: so this node cannot be taken out in between.
        // SAFETY: the visit's caller stays inside the grace period, and the node was linked in it.
        unsafe { list.enter_behind(at) }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let goal = ptr::from_ref(self.at).addr();
        let mut before = self.before;
        loop {
            let link = before.next.load(Ordering::Acquire);
            if link & !BITS == goal {
                if before
                    .next
                    .compare_exchange(link, link & !VISITED, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    return;
                }
            } else {
                // SAFETY: nodes that came between are linked, or were within this grace period; they lead to
                // `at`, since a link with the mark is not frozen.
                match unsafe { node(link) } {
                    Some(further) => before = further,
                    None => return,
                }
            }
        }
    }
}
