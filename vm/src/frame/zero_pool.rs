//! The pool of zeroed frames: a stack whose links are the frames' own share counts, so that the frames stay
//! zero.
//!
//! *Interface*: [`ZeroPool::push`], [`ZeroPool::pop`], both given the array of share counts. A frame in
//! the stock has no owner, so its count is free to be a link; `pop` makes it zero again.
//! The head carries a tag that every change increments, so that a stale link never gets in
//! (the A-B-A problem; dissertation, 5.2.1).
//!
//! Progress: lock-free.

use crate::primitive::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The stack; all zero when empty. Head: tag in the upper 32 bits, frame number plus one in the lower.
pub(crate) struct ZeroPool {
    pub(crate) head: AtomicU64,
    pub(crate) len: AtomicUsize,
}

impl ZeroPool {
    /// How many frames it holds; may be off by those under way.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn push(&self, links: &[AtomicU32], frame: u32) {
        self.len.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            links[frame as usize].store(head as u32, Ordering::Relaxed);
            let next = next_tag(head) | u64::from(frame + 1);
            match self
                .head
                .compare_exchange_weak(head, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    #[inline]
    pub(crate) fn pop(&self, links: &[AtomicU32]) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let frame = (head as u32).checked_sub(1)?;
            let link = &links[frame as usize];
            let next = next_tag(head) | u64::from(link.load(Ordering::Relaxed));
            match self
                .head
                .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    link.store(0, Ordering::Relaxed);
                    self.len.fetch_sub(1, Ordering::Relaxed);
                    return Some(frame);
                }
                Err(now) => head = now,
            }
        }
    }
}

/// The tag of `head`, incremented, in place.
#[inline]
fn next_tag(head: u64) -> u64 {
    ((head >> 32).wrapping_add(1)) << 32
}
