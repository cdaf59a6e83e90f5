//! Strings of bytes in and out of a queue that is made for them ([`super::Spec::strings`]), and the addresses
//! of its parts.
//!
//! *Interface*: [`ByteQueue::write`] and [`ByteQueue::read`] are `Q_put` and `Q_get` for many bytes at once;
//! they go along the same callbacks. [`ByteQueue::write_whole`] puts all or nothing, if asked only where
//! [`ByteQueue::settled`] has said, so that its caller knows what stands before it. [`ByteQueue::layout`]
//! gives the addresses to generators that look at the queue: whether it is worth waking somebody, what a
//! device may be lent.
//!
//! Source: dissertation, section 4.1.4, footnote 2 (a ByteQueue "that has a string-oriented interface to
//! reduce looping").
//!
//! *Unsafe*: places between the two positions, or that were claimed; words and claims in a near block.

use super::{ByteQueue, FailedWords, Parties, TailWords, Words, sequencer_at};
use crate::kit::assembly::Ring;
use crate::kit::interfacer::call_event;
use crate::kit::routine_env::{RoutineError, near};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use sync::callout::without_interrupts;
use sync::sequencer::{self, Sequencer, claim, claim_at};

/// The addresses of a queue's parts, for generated code: sign-extended 32-bit addresses. Positions count
/// bytes for ever and are taken modulo the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes ever put: 64 bits, moved by the producer after the byte, or before it to claim the place.
    pub head: i32,
    /// The word that consumers read for the head: bytes ever put that can be got, 64 bits.
    pub published: i32,
    /// The number of notes about claims, 64 bits; 0 where no places are claimed.
    pub(crate) noted: i32,
    /// The claims; 0 where no places are claimed.
    pub(crate) claims: i32,
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
    /// [`RoutineError::OutOfReach`], and [`RoutineError::BadSpec`] for a queue that is not made for strings.
    pub fn layout(&self) -> Result<Layout, RoutineError> {
        if !self.spec.strings {
            return Err(RoutineError::BadSpec);
        }
        let start = self.block.at().as_ptr();
        near(start.wrapping_add(self.block.len()))?;
        let base = near(start)? as i32;
        let head = base + offset_of!(Words, head) as i32;
        let claims = match self.spec.is_claimed() {
            true => base + sequencer_at(self.spec.size) as i32,
            false => 0,
        };
        let (published, noted) = match claims {
            0 => (head, 0),
            claims => (
                claims + sequencer::PUBLISHED as i32,
                claims + sequencer::NOTED as i32,
            ),
        };
        let tail = base + offset_of!(Words, tail) as i32;
        let failed = base + offset_of!(Words, failed) as i32;
        Ok(Layout {
            head,
            published,
            noted,
            claims,
            tail: tail + offset_of!(TailWords, tail) as i32,
            put_failed: failed + offset_of!(FailedWords, put) as i32,
            get_failed: failed + offset_of!(FailedWords, get) as i32,
            bytes: base + size_of::<Words>() as i32,
            size: self.spec.size as i32,
        })
    }

    /// The words and the places.
    #[inline(always)]
    fn places(&self) -> Strings<'_> {
        assert!(self.spec.strings, "places of one byte");
        let (base, size) = (self.block.at().as_ptr(), self.spec.size);
        // SAFETY: the block is that of a queue of this kind, and lives as long as it.
        unsafe { Strings::at(base, size, self.is_claimed()) }
    }

    /// Bytes that fit at this instant, as far as one can tell.
    pub fn room(&self) -> usize {
        let words = self.words();
        let tail = words.tail.tail.load(Ordering::Acquire);
        let used = words.head.load(Ordering::Acquire).wrapping_sub(tail);
        self.spec.size - (used as usize).min(self.spec.size)
    }

    /// Bytes ever got: how far the consumer is.
    pub fn taken(&self) -> u64 {
        self.words().tail.tail.load(Ordering::Acquire)
    }

    /// Callentry `Q_put` for a string: puts as many of `bytes` as fit, next to each other, and returns how
    /// many. If some do not fit, `Q_full-1` will notify; `Q_full` is not called. With one producer, the
    /// caller is the only producer at this time. Thread context.
    pub fn write(&self, bytes: &[u8]) -> usize {
        let (places, words) = (self.places(), self.words());
        let mut done = 0;
        loop {
            done += match self.spec.producers {
                Parties::One => places.append(&bytes[done..]),
                Parties::Many => places.add(&bytes[done..]),
            };
            if done == bytes.len() || failed_again(&words.failed.put) {
                break;
            }
        }
        self.tell_of(done);
        done
    }

    /// As [`write`](Self::write), all of `bytes` or nothing, and nothing is noted of a failure. `at`: only at
    /// this position, which [`settled`](Self::settled) has given.
    pub fn write_whole(&self, at: Option<u64>, bytes: &[u8]) -> bool {
        let done = bytes.is_empty() || self.places().add_whole(at, bytes);
        if done {
            self.tell_of(bytes.len());
        }
        done
    }

    #[inline(always)]
    fn tell_of(&self, count: usize) {
        if count > 0 && told(&self.words().failed.get) {
            call_event(self.header, super::Q_EMPTY_1.number());
        }
    }

    /// The position where the next byte goes. None: a string before it is still being put.
    pub fn settled(&self) -> Option<u64> {
        let head = self.words().head.load(Ordering::Acquire);
        (self.published().load(Ordering::Acquire) == head).then_some(head)
    }

    /// Callentry `Q_get` for a string: moves the available bytes into `into` and returns their number. If
    /// there are none, `Q_empty+1` will notify; `Q_empty` is not called. With one consumer, the caller is the
    /// only consumer at this time. Thread context.
    pub fn read(&self, into: &mut [u8]) -> usize {
        let (places, words) = (self.places(), self.words());
        loop {
            let tail = words.tail.tail.load(Ordering::Acquire);
            let count = match self.published().load(Ordering::Acquire).wrapping_sub(tail) {
                beyond if beyond > self.spec.size as u64 => continue,
                count => (count as usize).min(into.len()),
            };
            if count == 0 {
                if into.is_empty() || failed_again(&words.failed.get) {
                    return 0;
                }
                continue;
            }
            let got = match self.spec.consumers {
                Parties::One => places.remove(tail, &mut into[..count]),
                Parties::Many => places.remove_if_first(tail, &mut into[..count]),
            };
            if !got {
                continue;
            }
            if told(&words.failed.put) {
                call_event(self.header, super::Q_FULL_1.number());
            }
            return count;
        }
    }

    /// The byte that the consumer gets next, which stays. With one consumer, the caller is the only consumer
    /// at this time.
    pub fn next(&self) -> Option<u8> {
        let tail = self.words().tail.tail.load(Ordering::Acquire);
        (self.published().load(Ordering::Acquire) != tail).then(|| self.places().look(tail))
    }

    /// The last bytes that were put before position `head`, the newest first, got or not: at most as many as
    /// the queue has places. Those that another producer has put meanwhile may stand among them: then
    /// [`settled`](Self::settled) has another position.
    pub fn recent(&self, head: u64) -> impl Iterator<Item = u8> + '_ {
        let places = self.places();
        let oldest = head.saturating_sub(self.spec.size as u64);
        (oldest..head)
            .rev()
            .map(move |position| places.look(position))
    }
}

/// A queue's parts for strings.
#[derive(Clone, Copy)]
struct Strings<'a> {
    words: &'a Words,
    claims: Option<&'a Sequencer>,
    places: *mut u8,
    size: usize,
}

impl<'a> Strings<'a> {
    /// Those in the block at `base` of a queue of `size` bytes.
    ///
    /// # Safety
    /// It is the block of such a queue, for `'a`.
    #[inline(always)]
    unsafe fn at(base: *mut u8, size: usize, claimed: bool) -> Strings<'a> {
        let places = base.wrapping_add(size_of::<Words>());
        let claims = claimed.then(|| base.wrapping_add(sequencer_at(size)));
        Strings {
            // SAFETY: the block begins with the words; the claims lie behind the places, aligned.
            words: unsafe { &*base.cast::<Words>() },
            // SAFETY: as above.
            claims: claims.map(|claims| unsafe { &*claims.cast::<Sequencer>() }),
            places,
            size,
        }
    }

    #[inline(always)]
    fn place(self, position: u64) -> *mut u8 {
        self.places
            .wrapping_add(position as usize & (self.size - 1))
    }

    /// How many of `count` bytes from `position` on lie before the ring's end.
    fn straight(self, position: u64, count: usize) -> usize {
        count.min(self.size - (position as usize & (self.size - 1)))
    }

    /// Whichever byte is at `position` now.
    fn look(self, position: u64) -> u8 {
        // SAFETY: the place is one of the block's; who writes it meanwhile writes a byte.
        unsafe { AtomicU8::from_ptr(self.place(position)) }.load(Ordering::Relaxed)
    }

    /// # Safety
    /// The places from `head` on are the caller's, and so many.
    unsafe fn fill(self, head: u64, bytes: &[u8]) {
        let (one, two) = bytes.split_at(self.straight(head, bytes.len()));
        // SAFETY: the caller's promise.
        unsafe {
            copy(one.as_ptr(), self.place(head), one.len());
            copy(two.as_ptr(), self.place(head + one.len() as u64), two.len());
        }
    }

    /// The bytes that fit of `bytes`, from the only producer.
    #[inline(always)]
    fn append(self, bytes: &[u8]) -> usize {
        let head = self.words.head.load(Ordering::Relaxed);
        let used = head.wrapping_sub(self.words.tail.tail.load(Ordering::Acquire)) as usize;
        let count = bytes.len().min(self.size - used.min(self.size));
        // SAFETY: the places are free, and the consumer does not read them before the head has moved.
        unsafe { self.fill(head, &bytes[..count]) };
        let behind = head.wrapping_add(count as u64);
        self.words.head.store(behind, Ordering::Release);
        count
    }

    /// The bytes that fit of `bytes`, from one of many. A claim is short, since it delays what is behind it.
    #[inline(always)]
    fn add(self, bytes: &[u8]) -> usize {
        // Bound: a copy of at most what fits into the queue, 32 KiB; callers bring a page, a terminal 16 KiB.
        without_interrupts(|| {
            let Some(claims) = self.claims else {
                return self.append(bytes);
            };
            let (head, tail) = (&self.words.head, &self.words.tail.tail);
            let Some((first, count)) = claim(head, tail, self.size, bytes.len()) else {
                return 0;
            };
            // SAFETY: the claim gave these places to this party.
            unsafe { self.fill(first, &bytes[..count]) };
            claims.publish(first, count);
            count
        })
    }

    /// All of `bytes`, at position `at` if there is one.
    fn add_whole(self, at: Option<u64>, bytes: &[u8]) -> bool {
        let (head, tail) = (&self.words.head, &self.words.tail.tail);
        without_interrupts(|| {
            loop {
                let first = at.unwrap_or_else(|| head.load(Ordering::Relaxed));
                let Some(claims) = self.claims else {
                    let used = first.wrapping_sub(tail.load(Ordering::Acquire)) as usize;
                    let fits = first == head.load(Ordering::Relaxed)
                        && bytes.len() <= self.size - used.min(self.size);
                    return fits && self.append(bytes) == bytes.len();
                };
                if claim_at(head, tail, self.size, first, bytes.len()) {
                    // SAFETY: as in `add`.
                    unsafe { self.fill(first, bytes) };
                    claims.publish(first, bytes.len());
                    return true;
                }
                if at.is_some() || head.load(Ordering::Relaxed) == first {
                    return false;
                }
            }
        })
    }

    /// Moves the bytes from position `tail` on into `into`, for the only consumer.
    #[inline(always)]
    fn remove(self, tail: u64, into: &mut [u8]) -> bool {
        let (one, two) = into.split_at_mut(self.straight(tail, into.len()));
        // SAFETY: the places were published by the producer, which does not write them before the tail has
        // moved.
        unsafe {
            copy(self.place(tail), one.as_mut_ptr(), one.len());
            copy(
                self.place(tail + one.len() as u64),
                two.as_mut_ptr(),
                two.len(),
            );
        }
        let behind = tail.wrapping_add(into.len() as u64);
        self.words.tail.tail.store(behind, Ordering::Release);
        true
    }

    /// The same for one of many; whether no other has moved the tail, so that these were the bytes.
    fn remove_if_first(self, tail: u64, into: &mut [u8]) -> bool {
        let positions = tail..;
        for (position, byte) in positions.zip(into.iter_mut()) {
            *byte = self.look(position);
        }
        let behind = tail.wrapping_add(into.len() as u64);
        let word = &self.words.tail.tail;
        word.compare_exchange(tail, behind, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }
}

/// One byte into the block at `base` of a queue of many producers and `size` bytes; whether there was room.
pub(super) extern "sysv64" fn put_one(
    base: *mut u8,
    byte: u8,
    size: usize,
    claimed: usize,
) -> usize {
    // SAFETY: the generated code of that queue passes what it was made for.
    unsafe { Strings::at(base, size, claimed != 0) }.add(&[byte])
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
