//! Slots of wait lists, one for each wait: type-stable memory, so a waker may read one that its owner has
//! left.
//!
//! *Interface*: [`take`] and [`give`], from anywhere; [`WaitSlot`] and the phases of its state word.
//!
//! A place never becomes anything else. Its state word counts its uses, so an exchange on it succeeds only in
//! the use that was read.
//! Progress: lock-free; `take` allocates memory when all places are in use.
//! Source: dissertation, section 5.2.1 (nodes that stay nodes).

use crate::primitive::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::primitive::constructor;

/// Phases of a place, in the low bits of its state word.
pub(crate) const PHASES: u64 = 0b111;
/// Set through a life in which the owner is a callback and not a thread.
pub(crate) const CALLS: u64 = 0b1000;
/// Set during a use in which the owner is one of several callbacks of which one is enough. The number of the
/// use is above this bit.
pub(crate) const ONE_OF: u64 = 0b1_0000;
/// The kinds of owner.
pub(crate) const KINDS: u64 = CALLS | ONE_OF;
/// In no list.
pub(crate) const OFF: u64 = 0;
/// In a list, and its owner waits.
pub(crate) const QUEUED: u64 = 1;
/// A waker has chosen it, and gives its owner the token next.
pub(crate) const TAKEN: u64 = 2;
/// Its owner has the token, or was called; it is to be taken off the list.
pub(crate) const WOKEN: u64 = 3;
/// Its owner does not need it any more: the party that takes it off the list gives it back.
pub(crate) const LEFT: u64 = 4;

/// A place.
#[repr(C)]
pub(crate) struct WaitSlot {
    #[cfg(not(loom))]
    free: crate::stack::Node,
    /// Address of the place that was enrolled before, or 0.
    pub(crate) next: AtomicU64,
    /// Handle of the thread that waits, or address of the callback.
    pub(crate) owner: AtomicUsize,
    /// Life and phase.
    pub(crate) state: AtomicU64,
    /// How many places there are in the list up to this one; while it is changed, nearly.
    pub(crate) length: AtomicUsize,
}

impl WaitSlot {
    constructor! {
        fn new() -> WaitSlot {
            WaitSlot {
                #[cfg(not(loom))]
                free: crate::stack::Node::new(),
                next: AtomicU64::new(0),
                owner: AtomicUsize::new(0),
                state: AtomicU64::new(OFF),
                length: AtomicUsize::new(0),
            }
        }
    }

    /// As the words of a list have it.
    pub(crate) fn address(&'static self) -> u64 {
        core::ptr::from_ref(self).expose_provenance() as u64
    }

    /// The place at an address that a list's word had; `None` for 0.
    pub(crate) fn at(address: u64) -> Option<&'static WaitSlot> {
        // SAFETY: lists' words hold 0 or what `address` gave, and places are for ever.
        unsafe { core::ptr::with_exposed_provenance::<WaitSlot>(address as usize).as_ref() }
    }

    /// Begins a life in which it is `owner`'s, who waits: the state. Only the caller has the place.
    pub(crate) fn begin(&self, owner: usize, kind: u64) -> u64 {
        let life = ((self.state.load(Ordering::Relaxed) | PHASES | KINDS) + 1) | kind | QUEUED;
        // A party that reads this owner sees that the earlier life has ended.
        self.owner.store(owner, Ordering::Release);
        self.state.store(life, Ordering::Release);
        life
    }

    /// Moves from phase to phase in the life that `state` is of: true when it was this call that did it.
    pub(crate) fn advance(&self, state: u64, phase: u64) -> bool {
        let next = state & !PHASES | phase;
        self.state
            .compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(not(loom))]
mod pool {
    use super::*;
    use crate::stack::{Node, Stack};
    use core::ptr::NonNull;

    /// Enough for a small machine; more come from the heap, and stay.
    static FIRST: [WaitSlot; 64] = [const { WaitSlot::new() }; 64];
    static USED: AtomicUsize = AtomicUsize::new(0);
    static FREE: Stack = Stack::new();
    /// Places that are asked of the heap at once.
    const MORE: usize = 32;

    /// A free place; `None` when there is no memory for more.
    pub(crate) fn take() -> Option<&'static WaitSlot> {
        if let Some(node) = FREE.pop() {
            // SAFETY: the stack holds places by their first field, and places are for ever.
            return Some(unsafe { node.cast::<WaitSlot>().as_ref() });
        }
        if USED.load(Ordering::Relaxed) < FIRST.len()
            && let Some(place) = FIRST.get(USED.fetch_add(1, Ordering::Relaxed))
        {
            return Some(place);
        }
        let layout = core::alloc::Layout::new::<[WaitSlot; MORE]>();
        // SAFETY: the layout's size is not zero.
        let memory = NonNull::new(unsafe { alloc::alloc::alloc(layout) })?.cast::<WaitSlot>();
        for i in 0..MORE {
            // SAFETY: inside the fresh memory, which is never given back.
            let place = unsafe {
                let at = memory.add(i);
                at.write(WaitSlot::new());
                at.as_ref()
            };
            if i > 0 {
                give(place);
            }
        }
        // SAFETY: written above, and not given to the stack.
        Some(unsafe { memory.as_ref() })
    }

    /// Back to the free places.
    pub(crate) fn give(place: &'static WaitSlot) {
        // SAFETY: the caller has it alone, and places are for ever.
        unsafe { FREE.push(NonNull::from(place).cast::<Node>()) };
    }
}

/// Models end and forget their memory, so they use each place once.
#[cfg(loom)]
mod pool {
    use super::*;

    pub(crate) fn take() -> Option<&'static WaitSlot> {
        Some(alloc::boxed::Box::leak(alloc::boxed::Box::new(
            WaitSlot::new(),
        )))
    }

    pub(crate) fn give(_: &'static WaitSlot) {}
}

pub(crate) use pool::{give, take};
