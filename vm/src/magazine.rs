//! A magazine: things freed lately on one CPU, in front of what all CPUs share (slabs, the bitmap of frames).
//!
//! *Interface*: [`Magazine::pop`], [`Magazine::push`] (refused when full), [`Magazine::len`]; several at a
//! time by [`Magazine::push_chain`] and [`Magazine::drain`].
//!
//! A stack of objects by number, linked through a word of each. The shared allocator counts these objects as
//! allocated. Every CPU has its own magazine, so that what it frees it gets again while its caches still have
//! it; but a thread that has gone to another CPU meanwhile, or one that collects from all when memory is
//! short, may use it too. The
//! head carries a tag that every change increments, so that a link which was read while another took the
//! object never gets in (the A-B-A problem; dissertation, 5.2.1).
//!
//! Progress: lock-free.

use crate::primitive::atomic::{AtomicU32, AtomicU64, Ordering};

/// The stack; zero when empty. Bits 0–26: number of the top object plus one, zero when empty; 27–33: how
/// many; 34–63: tag.
pub(crate) struct Magazine(pub(crate) AtomicU64);

const NUMBER: u64 = (1 << 27) - 1;
const ONE: u64 = 1 << 27;
const COUNT: u64 = 0x7f << 27;
const TAG: u64 = 1 << 34;

impl Magazine {
    /// How many are in.
    pub(crate) fn len(&self) -> usize {
        ((self.0.load(Ordering::Relaxed) & COUNT) / ONE) as usize
    }

    /// Takes the number of an object. `link` finds the first word of an object by its number.
    #[inline]
    pub(crate) fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let number = ((head & NUMBER) as u32).checked_sub(1)?;
            let below = u64::from(link(number).load(Ordering::Relaxed)) & NUMBER;
            let new = ((head & !NUMBER).wrapping_add(TAG - ONE)) | below;
            match self
                .0
                .compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
    }

    /// Takes all. The number of the first, whose word has that of the next plus one, and so on to a zero.
    pub(crate) fn drain(&self) -> Option<u32> {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let number = ((head & NUMBER) as u32).checked_sub(1)?;
            let new = (head & !(NUMBER | COUNT)).wrapping_add(TAG);
            match self
                .0
                .compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
    }

    /// Puts an object in; `false` when `depth`, at most 127, are in already.
    #[inline]
    pub(crate) fn push(&self, depth: u64, number: u32, link: &AtomicU32) -> bool {
        self.push_chain(depth, number, link, 1)
    }

    /// Puts `count` objects in, of which `number` is the first and `link` the last one's word; each of the
    /// others' has the number of the next plus one. `false` when there are more than `depth` then, at most
    /// 127.
    #[inline]
    pub(crate) fn push_chain(&self, depth: u64, number: u32, link: &AtomicU32, count: u64) -> bool {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            if head & COUNT > (depth - count) * ONE {
                return false;
            }
            link.store((head & NUMBER) as u32, Ordering::Relaxed);
            let new = ((head & !NUMBER).wrapping_add(TAG + count * ONE))
                | u64::from(number.wrapping_add(1));
            match self
                .0
                .compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }
}
