//! Strings of bytes in and out of a queue that is made for them ([`super::Spec::strings`]), and the addresses
//! of its parts.
//!
//! *Interface*: [`ByteQueue::write`] and [`ByteQueue::read`] are `Q_put` and `Q_get` for many bytes at once,
//! for ends with one party; they go along the same callbacks. [`ByteQueue::layout`] gives the addresses to
//! generators that look at the queue: whether it is worth waking somebody, what a device may be lent.
//!
//! Source: dissertation, section 4.1.4, footnote 2 (a ByteQueue "that has a string-oriented interface to
//! reduce looping").

use super::{ByteQueue, FailedWords, TailWords, Words};
use crate::kit::assembly::Ring;
use crate::kit::interfacer::call_event;
use crate::kit::seam::{Unmade, near};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// The addresses of a queue's parts, for generated code: sign-extended 32-bit addresses. Positions count
/// bytes for ever and are taken modulo the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes ever put: 64 bits, moved by the producer after the byte.
    pub head: i32,
    /// Bytes ever got: 64 bits, moved by the consumer after it has the byte.
    pub tail: i32,
    /// 64 bits, 1 after a failed put: the next get sends a notification (`Q_full-1`).
    pub put_failed: i32,
    /// 64 bits, 1 after a failed get: the next put sends a notification (`Q_empty+1`).
    pub get_failed: i32,
    /// The first place.
    pub bytes: i32,
    /// Places, a power of two.
    pub size: i32,
}

impl Layout {
    /// The ring alone.
    pub(crate) fn ring(&self) -> Ring {
        Ring {
            head: self.head,
            tail: self.tail,
            bytes: self.bytes,
            size: self.size,
        }
    }
}

impl ByteQueue {
    /// The addresses of this queue's parts.
    ///
    /// # Errors
    /// [`Unmade::OutOfReach`], and [`Unmade::BadSpec`] for a queue that is not made for strings.
    pub fn layout(&self) -> Result<Layout, Unmade> {
        if !self.spec.strings {
            return Err(Unmade::BadSpec);
        }
        let start = self.block.at().as_ptr();
        near(start.wrapping_add(self.block.len()))?;
        let base = near(start)? as i32;
        let tail = base + offset_of!(Words, tail) as i32;
        let failed = base + offset_of!(Words, failed) as i32;
        Ok(Layout {
            head: base + offset_of!(Words, head) as i32,
            tail: tail + offset_of!(TailWords, tail) as i32,
            put_failed: failed + offset_of!(FailedWords, put) as i32,
            get_failed: failed + offset_of!(FailedWords, get) as i32,
            bytes: base + size_of::<Words>() as i32,
            size: self.spec.size as i32,
        })
    }

    #[inline(always)]
    fn place(&self, position: u64) -> *mut u8 {
        assert!(self.spec.strings, "places of one byte");
        let index = position as usize & (self.spec.size - 1);
        self.block
            .at()
            .as_ptr()
            .wrapping_add(size_of::<Words>() + index)
    }

    /// How many of `count` bytes from `position` on lie before the ring's end.
    fn straight(&self, position: u64, count: usize) -> usize {
        count.min(self.spec.size - (position as usize & (self.spec.size - 1)))
    }

    /// Bytes that fit at this instant, as far as one can tell.
    pub fn room(&self) -> usize {
        self.spec.size - self.len()
    }

    /// Bytes ever got: how far the consumer is.
    pub fn taken(&self) -> u64 {
        self.words().tail.tail.load(Ordering::Acquire)
    }

    /// Callentry `Q_put` for a string: puts as many of `bytes` as fit and returns how many. If some do not
    /// fit, `Q_full-1` will notify; `Q_full` is not called. The caller is the only producer at this time;
    /// thread context.
    pub fn write(&self, bytes: &[u8]) -> usize {
        let words = self.words();
        let mut done = 0;
        loop {
            let head = words.head.load(Ordering::Relaxed);
            let count = self.room().min(bytes.len() - done);
            let first = self.straight(head, count);
            let piece = &bytes[done..done + count];
            let [one, two] = [&piece[..first], &piece[first..]];
            // SAFETY: the places are free, and the consumer does not read them before the head has moved.
            unsafe {
                copy(one.as_ptr(), self.place(head), one.len());
                copy(two.as_ptr(), self.place(head + first as u64), two.len());
            }
            words.head.store(head + count as u64, Ordering::Release);
            done += count;
            if done == bytes.len() || failed_again(&words.failed.put) {
                break;
            }
        }
        if done > 0 && told(&words.failed.get) {
            call_event(self.header, super::Q_EMPTY_1.number());
        }
        done
    }

    /// Callentry `Q_get` for a string: moves the available bytes into `into` and returns their number. If
    /// there are none, `Q_empty+1` will notify; `Q_empty` is not called. The caller is the only consumer at
    /// this time; thread context.
    pub fn read(&self, into: &mut [u8]) -> usize {
        let words = self.words();
        loop {
            let tail = words.tail.tail.load(Ordering::Relaxed);
            let count = self.len().min(into.len());
            if count == 0 {
                if into.is_empty() || failed_again(&words.failed.get) {
                    return 0;
                }
                continue;
            }
            let first = self.straight(tail, count);
            let (one, two) = into[..count].split_at_mut(first);
            // SAFETY: the places were published by the producer, which does not write them before the tail
            // has moved.
            unsafe {
                copy(self.place(tail), one.as_mut_ptr(), one.len());
                copy(self.place(tail + first as u64), two.as_mut_ptr(), two.len());
            }
            words
                .tail
                .tail
                .store(tail + count as u64, Ordering::Release);
            if told(&words.failed.put) {
                call_event(self.header, super::Q_FULL_1.number());
            }
            return count;
        }
    }

    /// The last bytes that were put, the newest first, got or not: at most as many as the queue has places.
    /// For the producer.
    pub fn recent(&self) -> impl Iterator<Item = u8> + '_ {
        let head = self.words().head.load(Ordering::Relaxed);
        let oldest = head.saturating_sub(self.spec.size as u64);
        (oldest..head).rev().map(|position| {
            // SAFETY: written by this end, which alone writes places.
            unsafe { self.place(position).read() }
        })
    }
}

/// Copies `count` bytes, of which there is often one, and in the second part none.
///
/// # Safety
/// As that of `copy_to_nonoverlapping`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match count {
            0 => {}
            1 => *to = *from,
            _ => from.copy_to_nonoverlapping(to, count),
        }
    }
}

/// Notes that the operation failed; returns whether that was noted before. The first failure checks again:
/// earlier changes are seen then, and later changes send a notification.
fn failed_again(word: &AtomicU64) -> bool {
    word.swap(1, Ordering::SeqCst) != 0
}

/// After a publication: whether the other side has failed before it, and must be notified.
fn told(word: &AtomicU64) -> bool {
    fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::SeqCst) != 0
}
