//! The notes of a draft until it is sealed: its bytes, and lists of what they wait for.
//!
//! *Interface*: a [`ByteBuffer`] takes bytes, a [`FallibleVec`] anything else; both say false when there is
//! no memory for more. [`take`] gives a new draft the [`DraftBuffers`] of one before, empty, and [`keep`]
//! keeps their memory for the next. So a generator asks the heap for nothing, however long its lists grow.
//! One set is kept; [`trim`] frees it when memory is short.
//!
//! Progress: nobody waits. Drafts that find nothing kept begin with notes of their own.

use crate::fault_injection::refused;
use crate::image::Fault;
use crate::space;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A branch or address field and what it is relative to.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    /// Offset of the field.
    pub at: u32,
    /// The place that a relative value counts from: so many bytes further.
    pub gap: u8,
    /// dynasm's description: bits 0–1 log2 of the size, bits 6–7 what is relative to what.
    pub kind: u8,
}

impl Field {
    #[inline(always)]
    pub fn size(self) -> usize {
        1 << (self.kind & 3)
    }
    #[inline(always)]
    pub fn relation(self) -> u8 {
        self.kind >> 6
    }
    /// Offset that a relative value counts from.
    #[inline(always)]
    pub fn from(self) -> u32 {
        self.at.wrapping_add(u32::from(self.gap))
    }
}

/// A field that a place in the draft fills, once all is written.
#[derive(Clone, Copy)]
pub(crate) struct Reference {
    pub field: Field,
    /// The place, or a dynamic label.
    pub target: u32,
    pub addend: i32,
}

/// A field whose local or global label is not bound yet.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub field: Field,
    pub global: bool,
    pub name: &'static str,
    pub addend: i32,
}

/// A field that depends on the final address: an absolute target seen relatively, or a place in the draft
/// seen absolutely.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    pub at: u32,
    pub size: u8,
    /// Subtract (true) or add (false) the image's entry.
    pub subtract: bool,
    pub value: i64,
}

/// One field that a hole fills.
#[derive(Clone, Copy)]
pub(crate) struct HoleUse {
    pub at: u32,
    /// For a branch: the offset that it counts from.
    pub from: u32,
    pub hole: u8,
    pub size: u8,
    pub branch: bool,
    pub addend: i32,
}

impl HoleUse {
    /// The code has moved to the places that `to` says.
    pub fn move_by(&mut self, to: impl Fn(u32) -> u32) {
        [self.at, self.from] = [self.at, self.from].map(to);
    }
    pub fn imm32(at: u32, hole: u8, addend: i64) -> HoleUse {
        HoleUse {
            at,
            from: 0,
            hole,
            size: 4,
            branch: false,
            addend: addend as i32,
        }
    }
    pub fn imm64(at: u32, hole: u8, addend: i64) -> HoleUse {
        HoleUse {
            at,
            from: 0,
            hole,
            size: 8,
            branch: false,
            addend: addend as i32,
        }
    }
    pub fn rel32(at: u32, from: u32, hole: u8, addend: i64) -> HoleUse {
        HoleUse {
            at,
            from,
            hole,
            size: 4,
            branch: true,
            addend: addend as i32,
        }
    }
}

/// Bytes of a section for which the first emission asks the heap: more than most routines need.
const FIRST: usize = 512;
/// Larger sections are not kept.
const MOST: usize = 4096;

/// Bytes in a row: a vector that is appended to in few instructions.
pub(crate) struct ByteBuffer {
    start: *mut u8,
    next: *mut u8,
    end: *mut u8,
}

// SAFETY: the memory is the section's alone.
unsafe impl Send for ByteBuffer {}
// SAFETY: as above; it is changed by a unique reference only.
unsafe impl Sync for ByteBuffer {}

impl ByteBuffer {
    pub const fn new() -> ByteBuffer {
        ByteBuffer {
            start: ptr::dangling_mut(),
            next: ptr::dangling_mut(),
            end: ptr::dangling_mut(),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.next.addr().wrapping_sub(self.start.addr())
    }

    fn capacity(&self) -> usize {
        self.end.addr().wrapping_sub(self.start.addr())
    }

    /// Appends. False, and no change, when the heap is empty.
    #[inline]
    #[must_use]
    pub fn extend(&mut self, bytes: &[u8]) -> bool {
        let n = bytes.len();
        if self.end.addr().wrapping_sub(self.next.addr()) < n && !self.grow(n) {
            return false;
        }
        // SAFETY: there is room for `n` more bytes, and the memory is nobody else's.
        unsafe {
            self.next.copy_from_nonoverlapping(bytes.as_ptr(), n);
            self.next = self.next.add(n);
        }
        true
    }

    #[cold]
    fn grow(&mut self, n: usize) -> bool {
        let wish = if self.capacity() == 0 { FIRST } else { 0 };
        let mut bytes = self.leave();
        let enough = !refused() && bytes.try_reserve(n.max(wish)).is_ok();
        let mut bytes = ManuallyDrop::new(bytes);
        self.start = bytes.as_mut_ptr();
        // SAFETY: so much is in the vector, and so large is its memory.
        unsafe {
            self.next = self.start.add(bytes.len());
            self.end = self.start.add(bytes.capacity());
        }
        enough
    }

    /// The bytes, as a vector; the section is empty afterwards.
    fn leave(&mut self) -> Vec<u8> {
        let (len, capacity) = (self.len(), self.capacity());
        let start = self.start;
        [self.start, self.next, self.end] = [ptr::dangling_mut(); 3];
        // SAFETY: start, length and capacity are those of a vector whose memory is the section's; without
        // capacity the pointer is the dangling one.
        unsafe { Vec::from_raw_parts(start, len, capacity) }
    }

    #[cold]
    fn free(&mut self) {
        drop(self.leave());
    }

    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            // SAFETY: not beyond what is there.
            self.next = unsafe { self.start.add(len) };
        }
    }
}

impl Deref for ByteBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are there, initialized.
        unsafe { core::slice::from_raw_parts(self.start, self.len()) }
    }
}

impl DerefMut for ByteBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.len()) }
    }
}

impl Drop for ByteBuffer {
    #[inline]
    fn drop(&mut self) {
        // Most have none: a draft keeps its sections' memory for the next one.
        if self.capacity() != 0 {
            self.free();
        }
    }
}

/// A list that says when there is no memory for another element.
pub(crate) struct FallibleVec<T>(Vec<T>);

impl<T> FallibleVec<T> {
    const fn new() -> Self {
        FallibleVec(Vec::new())
    }

    /// Whether another element fits without the heap.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.0.len() != self.0.capacity()
    }

    /// Appends. False, and no change, when the heap is empty.
    #[inline]
    #[must_use]
    pub fn push(&mut self, value: T) -> bool {
        let len = self.0.len();
        if len == self.0.capacity() {
            return self.push_more(value);
        }
        // SAFETY: there is room for one more element.
        unsafe {
            self.0.as_mut_ptr().add(len).write(value);
            self.0.set_len(len.wrapping_add(1));
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn push_more(&mut self, value: T) -> bool {
        let room = !refused() && self.0.try_reserve(1).is_ok();
        if room {
            self.0.push(value);
        }
        room
    }

    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// Takes out element `at`; the last one takes its place.
    pub fn swap_remove(&mut self, at: usize) -> T {
        self.0.swap_remove(at)
    }
}

impl<T> Deref for FallibleVec<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for FallibleVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// The notes of one draft.
pub(crate) struct DraftBuffers {
    /// The sections' memory while no draft has it.
    kept: [ByteBuffer; 2],
    /// Where each dynamic label is bound.
    pub labels: FallibleVec<u32>,
    /// Fields whose place is known when all is written.
    pub later: FallibleVec<Reference>,
    /// Fields whose local or global label is not bound yet.
    pub waiting: FallibleVec<Waiting>,
    /// Definitions of local labels, latest last.
    pub locals: FallibleVec<(&'static str, u32)>,
    pub globals: FallibleVec<(&'static str, u32)>,
    pub placed: FallibleVec<Placed>,
    /// `fixup` is a dynamic label's number until the draft is finished.
    pub faults: FallibleVec<Fault>,
    pub holes: FallibleVec<HoleUse>,
}

impl DraftBuffers {
    /// Empty ones.
    pub const fn new() -> DraftBuffers {
        DraftBuffers {
            kept: [const { ByteBuffer::new() }; 2],
            labels: FallibleVec::new(),
            later: FallibleVec::new(),
            waiting: FallibleVec::new(),
            locals: FallibleVec::new(),
            globals: FallibleVec::new(),
            placed: FallibleVec::new(),
            faults: FallibleVec::new(),
            holes: FallibleVec::new(),
        }
    }

    fn clear(&mut self) {
        self.labels.truncate(0);
        self.later.truncate(0);
        self.waiting.truncate(0);
        self.locals.truncate(0);
        self.globals.truncate(0);
        self.placed.truncate(0);
        self.faults.truncate(0);
        self.holes.truncate(0);
    }
}

/// The set that is kept, from a box.
static KEPT: AtomicPtr<DraftBuffers> = AtomicPtr::new(ptr::null_mut());

/// Empty sections and notes, if some are kept; else sections without memory.
#[inline]
pub(crate) fn take() -> (ByteBuffer, ByteBuffer, Option<Box<DraftBuffers>>) {
    let kept = KEPT.swap(ptr::null_mut(), Ordering::Acquire);
    if kept.is_null() {
        return (ByteBuffer::new(), ByteBuffer::new(), None);
    }
    // SAFETY: `keep` put it there from a box, and the exchange made it ours.
    let mut notes = unsafe { Box::from_raw(kept) };
    let [code, other] = core::mem::replace(&mut notes.kept, [const { ByteBuffer::new() }; 2]);
    (code, other, Some(notes))
}

/// Keeps the memory of `notes` and of the sections, which have none afterwards, for the next draft; unless
/// there is some already.
pub(crate) fn keep(mut notes: Box<DraftBuffers>, code: &mut ByteBuffer, other: &mut ByteBuffer) {
    if code.capacity().max(other.capacity()) > MOST {
        return;
    }
    notes.clear();
    for (kept, section) in notes.kept.iter_mut().zip([code, other]) {
        section.truncate(0);
        core::mem::swap(kept, section);
    }
    let new = Box::into_raw(notes);
    let (set, fetch) = (Ordering::Release, Ordering::Relaxed);
    if KEPT
        .compare_exchange(ptr::null_mut(), new, set, fetch)
        .is_err()
    {
        // SAFETY: from the box above, and nobody has seen it.
        drop(unsafe { Box::from_raw(new) });
    }
}

fn strip() {
    drop(take());
}

/// Give the memory of empty pages back to the room below the code space, and that which is kept for the next
/// draft to the heap; how many pages went. For memory pressure and leak checks.
pub fn trim() -> usize {
    strip();
    space::linked().map_or(0, crate::block_alloc::trim)
}
