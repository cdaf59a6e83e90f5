//! Slabs: pages of objects of one size, each with its own free list in one atomic word.
//!
//! *Interface*: [`Heap::alloc`], [`Heap::free`], [`Heap::trim`], [`Heap::stats`].
//!
//! A slab's word (layout below) holds the first free object, how many are free, the size class, whether the
//! slab is on its class's list, and a tag that every change increments. Free objects are linked by their
//! numbers, in their own first bytes. The words lie outside the pages and are never used for anything else,
//! so a late compare-and-swap on a page that has long been given back fails by its tag.
//!
//! A class's list is a stack of slabs that may have free objects. A party that finds the top slab exhausted
//! takes it off; the next party that frees into it puts it back. `Listed` passes between them: a slab is on
//! the list, or held by one party that will put it back or clear the bit, exactly when the bit is set.
//! [`Heap::trim`] takes whole lists and gives the pages back whose objects are all free. In front of the
//! slabs of a class stands a [`Magazine`] for each CPU. An empty one is filled with several objects of a slab
//! at a time; a full one gives all its objects back, those of one slab that follow each other at a time.
//!
//! Progress: lock-free. Source: M. Michael, *Scalable Lock-Free Dynamic Memory Allocation*, PLDI 2004 (the
//! anchor word; no descriptors, no per-CPU heaps here); tags: dissertation, 5.2.1.

use crate::boot_cell::BootCell;
use crate::frame::{Frame, PhysMemory};
use crate::magazine::Magazine;
use abi::layout::{PAGE, WINDOW_LEN};
use core::alloc::Layout;
use core::mem::size_of;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use machine::cpu::{MAX_CPUS, this_cpu};

/// Object sizes. All are multiples of 16; every power of two up to the largest is among them.
const SIZES: [usize; 21] = [
    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 816, 1024, 1360,
    2048,
];

/// The largest object in a slab.
const LARGEST: usize = SIZES[SIZES.len() - 1];

/// Class of each size, by size rounded up in units of 16.
const CLASS_OF: [u8; LARGEST / 16 + 1] = {
    let mut table = [0; LARGEST / 16 + 1];
    let mut class = 0;
    let mut i = 0;
    while i < table.len() {
        if i * 16 > SIZES[class] {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// A slab's word: bits 0–8 first free object, 9–17 number of free objects, 18–22 class, 23 listed, 24–63 tag.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    const LISTED: u64 = 1 << 23;
    const TAG: u64 = 1 << 24;
    /// Class of a page that is no slab.
    const NONE: usize = 31;

    fn first(self) -> usize {
        (self.0 & 0x1ff) as usize
    }

    fn free(self) -> usize {
        (self.0 >> 9 & 0x1ff) as usize
    }

    fn class(self) -> usize {
        (self.0 >> 18 & 31) as usize
    }

    fn listed(self) -> bool {
        self.0 & Word::LISTED != 0
    }

    /// The word that follows this one.
    fn next(self, first: usize, free: usize, class: usize, listed: bool) -> u64 {
        let tag = (self.0 & !(Word::TAG - 1)).wrapping_add(Word::TAG);
        let listed = if listed { Word::LISTED } else { 0 };
        tag | listed | (class as u64) << 18 | (free as u64) << 9 | (first as u64 & 0x1ff)
    }
}

/// Counts of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes that callers hold now, each object with the size of its class.
    pub used: usize,
    /// Bytes of frames that the heap holds.
    pub held: usize,
}

/// A size class. A line each, so that classes do not disturb each other.
#[repr(align(64))]
struct Class {
    /// The slabs: tag in the upper 32 bits; frame number plus one in the lower, zero when empty.
    list: AtomicU64,
}

/// Objects in a full magazine.
const DEPTH: u64 = 32;
/// Objects that are taken from a slab at a time: one for who asks, and the others for the magazine.
const REFILL: usize = 8;

/// Objects of one slab that are linked by their indices and given back together.
struct Run {
    frame: usize,
    /// Index of the first.
    first: usize,
    /// The last, whose link is still to be made.
    last: *mut u8,
    count: usize,
}

/// A CPU's magazines, one a class.
#[repr(align(64))]
struct Near([Magazine; SIZES.len()]);

/// Words of slabs in a page.
const WORDS_A_PAGE: usize = PAGE / size_of::<AtomicU64>();
/// Words with a bit for each page of words of slabs, below 1 GiB.
const BACKED: usize = WINDOW_LEN / PAGE / WORDS_A_PAGE / 64;

/// The table of the slabs' words.
struct Words {
    start: *const AtomicU64,
    count: usize,
    /// Makes the page of the table at an address, of zeros. `false`: no memory.
    back: fn(usize) -> bool,
}

// SAFETY: the words are atomic.
unsafe impl Sync for Words {}

/// A heap in `memory`.
pub(crate) struct Heap<M: PhysMemory> {
    memory: M,
    classes: [Class; SIZES.len()],
    near: [Near; MAX_CPUS],
    /// One word for each frame below 1 GiB, zero at first. A page of them is there from when one of its
    /// frames first became a slab.
    words: BootCell<Words>,
    /// A bit for each page of words that is there.
    backed: [AtomicU64; BACKED],
    /// Bytes that have left the slabs and runs: objects of callers, and objects in magazines.
    out: AtomicUsize,
    held: AtomicUsize,
}

impl<M: PhysMemory> Heap<M> {
    /// A heap without metadata, which gives out nothing small.
    pub(crate) const fn new(memory: M) -> Self {
        Heap {
            memory,
            classes: [const {
                Class {
                    list: AtomicU64::new(0),
                }
            }; SIZES.len()],
            near: [const { Near([const { Magazine(AtomicU64::new(0)) }; SIZES.len()]) }; MAX_CPUS],
            words: BootCell::new(Words {
                start: core::ptr::null(),
                count: 0,
                back: |_| false,
            }),
            backed: [const { AtomicU64::new(0) }; BACKED],
            out: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
        }
    }

    /// Bytes of metadata for `frames` frames below 1 GiB.
    pub(crate) const fn metadata_bytes(frames: usize) -> usize {
        frames * size_of::<AtomicU64>()
    }

    /// Gives the heap its metadata.
    ///
    /// # Safety
    /// Nobody else uses the heap yet. `metadata` has room for [`Heap::metadata_bytes`] of `frames` bytes and
    /// is the heap's for ever. A page of it can be used, and is of zeros, after `back` has answered `true`
    /// for its address.
    pub(crate) unsafe fn install(&self, metadata: *mut u8, frames: usize, back: fn(usize) -> bool) {
        assert!(frames <= BACKED * 64 * WORDS_A_PAGE, "more than 1 GiB");
        let words = Words {
            start: metadata.cast(),
            count: frames,
            back,
        };
        // SAFETY: the caller's promise.
        unsafe { self.words.set(words) };
    }

    /// Makes sure that the word of `frame` is there. `false`: no memory.
    #[inline]
    fn has_word(&self, frame: usize) -> bool {
        let page = frame / WORDS_A_PAGE;
        let bits = &self.backed[page / 64];
        bits.load(Ordering::Acquire) & 1 << (page % 64) != 0 || self.back(page, bits)
    }

    #[cold]
    fn back(&self, page: usize, bits: &AtomicU64) -> bool {
        let words = self.words.get();
        let there = (words.back)(words.start.addr() + page * PAGE);
        if there {
            bits.fetch_or(1 << (page % 64), Ordering::Release);
        }
        there
    }

    /// The class for a layout; `None`: a run of frames.
    #[inline]
    fn class_of(layout: Layout) -> Option<usize> {
        let size = if layout.align() <= 16 {
            layout.size()
        } else {
            // Objects of a power of two lie at multiples of it.
            layout.size().max(layout.align()).next_power_of_two()
        };
        (size <= LARGEST).then(|| CLASS_OF[size.div_ceil(16)] as usize)
    }

    /// Frames of a run, and their alignment in frames.
    fn run_of(layout: Layout) -> (usize, usize) {
        (layout.size().div_ceil(PAGE), (layout.align() / PAGE).max(1))
    }

    /// An object of `layout`, with whatever content. `None`: out of memory.
    #[inline]
    pub(crate) fn alloc(&self, layout: Layout) -> Option<*mut u8> {
        match Self::class_of(layout) {
            Some(class) => match self.near(class).pop(|number| self.first_word(number)) {
                Some(number) => Some(self.numbered(number)),
                None => self.take(class),
            },
            None => self.take_run(layout),
        }
    }

    /// This CPU's magazine of a class; another's does as well if the thread moves meanwhile.
    #[inline]
    fn near(&self, class: usize) -> &Magazine {
        &self.near[this_cpu().number()].0[class]
    }

    /// Gives an object back.
    ///
    /// # Safety
    /// `alloc` gave it for this layout, and nobody uses it any more.
    #[inline]
    pub(crate) unsafe fn free(&self, object: *mut u8, layout: Layout) {
        match Self::class_of(layout) {
            Some(class) => {
                let number = self.number_of(object);
                let link = self.first_word(number);
                if !self.near(class).push(DEPTH, number, link) {
                    self.unload(class, number);
                }
            }
            None => self.give_run(object, layout),
        }
    }

    /// Can an object of layout `old` serve as one of `new`, which has the same alignment? Then it does from
    /// now on.
    pub(crate) fn resize_in_place(&self, old: Layout, new: Layout) -> bool {
        match (Self::class_of(old), Self::class_of(new)) {
            (Some(a), Some(b)) => a == b,
            (None, None) => Self::run_of(old) == Self::run_of(new),
            _ => false,
        }
    }

    #[cold]
    fn take_run(&self, layout: Layout) -> Option<*mut u8> {
        let (count, align) = Self::run_of(layout);
        let frames = self.memory.frames();
        // Allocations larger than a page do not use the reserve: their callers can fail.
        if count > 1 && !frames.admits(count) {
            return None;
        }
        let first = frames.alloc_run(count, align)?;
        self.held.fetch_add(count * PAGE, Ordering::Relaxed);
        self.out.fetch_add(count * PAGE, Ordering::Relaxed);
        Some(self.memory.window(first))
    }

    /// The number of an object: its distance from the start of the window in units of 16 bytes.
    #[inline]
    fn number_of(&self, object: *mut u8) -> u32 {
        let start = self.memory.window(Frame(0)) as usize;
        ((object as usize).wrapping_sub(start) / 16) as u32
    }

    #[inline]
    fn numbered(&self, number: u32) -> *mut u8 {
        self.memory
            .window(Frame(0))
            .wrapping_add(number as usize * 16)
    }

    /// The first word of a numbered object, which links it in a magazine.
    #[inline]
    fn first_word(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the window maps all memory below 1 GiB for ever; a racing reader throws away what it read.
        unsafe { &*self.numbered(number).cast::<AtomicU32>() }
    }

    #[cold]
    fn give_run(&self, object: *mut u8, layout: Layout) {
        let (count, _) = Self::run_of(layout);
        let first = self.memory.frame_at(object);
        self.memory.frames().free_run(first, count);
        self.held.fetch_sub(count * PAGE, Ordering::Relaxed);
        self.out.fetch_sub(count * PAGE, Ordering::Relaxed);
    }

    /// The word of a frame that is a slab, or was one.
    #[inline]
    fn word(&self, frame: usize) -> &AtomicU64 {
        let words = self.words.get();
        assert!(frame < words.count);
        // SAFETY: the number is one of the table's, and `grow` has seen to it that the word is there before
        // the frame became a slab.
        unsafe { &*words.start.add(frame) }
    }

    /// The address of object `index` in the slab `frame` of `class`.
    #[inline]
    fn object(&self, frame: usize, class: usize, index: usize) -> *mut u8 {
        self.memory
            .window(Frame(frame as u32))
            .wrapping_add(index * SIZES[class])
    }

    /// The first bytes of a free object: the number of the next.
    #[inline]
    fn link(&self, object: *mut u8) -> &AtomicU16 {
        // SAFETY: the window maps every frame below 1 GiB for ever. A racing reader of an object in use, or
        // of a page that is no slab any more, throws away what it read, since the slab's tag has changed.
        unsafe { &*object.cast::<AtomicU16>() }
    }

    /// Takes an object of `class` from a slab, and some more for this CPU's magazine, which is empty.
    #[cold]
    #[inline(never)]
    fn take(&self, class: usize) -> Option<*mut u8> {
        let list = &self.classes[class].list;
        let mut head = list.load(Ordering::Acquire);
        while let Some(frame) = (head as u32).checked_sub(1) {
            let frame = frame as usize;
            let word = self.word(frame);
            let seen = Word(word.load(Ordering::Acquire));
            if seen.class() == class {
                if seen.free() != 0 {
                    let mut taken = [0; REFILL];
                    let mut count = 0;
                    let mut next = seen.first();
                    // A racing reader may find something that is no number.
                    while count < REFILL.min(seen.free()) && next < PAGE / SIZES[class] {
                        let object = self.object(frame, class, next);
                        taken[count] = self.number_of(object);
                        count += 1;
                        next = self.link(object).load(Ordering::Relaxed) as usize;
                    }
                    let new = seen.next(next, seen.free() - count, class, seen.listed());
                    if word
                        .compare_exchange_weak(seen.0, new, Ordering::AcqRel, Ordering::Relaxed)
                        .is_ok()
                    {
                        self.out.fetch_add(count * SIZES[class], Ordering::Relaxed);
                        let [first, others @ ..] = &taken;
                        self.load(class, &others[..count - 1]);
                        return Some(self.numbered(*first));
                    }
                } else {
                    self.unlist(class, head, frame);
                }
            }
            head = list.load(Ordering::Acquire);
        }
        self.grow(class)
    }

    /// Puts objects that were taken into this CPU's magazine.
    fn load(&self, class: usize, numbers: &[u32]) {
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
            return;
        };
        for (number, next) in numbers.iter().zip(&numbers[1..]) {
            self.first_word(*number).store(next + 1, Ordering::Relaxed);
        }
        let (magazine, link) = (self.near(class), self.first_word(*last));
        if !magazine.push_chain(DEPTH, *first, link, numbers.len() as u64) {
            // Somebody else has filled it meanwhile.
            for number in numbers {
                self.give(class, self.numbered(*number));
            }
        }
    }

    /// Gives all of a full magazine back to their slabs, and puts the object `number` in.
    #[cold]
    #[inline(never)]
    fn unload(&self, class: usize, number: u32) {
        let mut next = self.near(class).drain();
        let mut run: Option<Run> = None;
        while let Some(number) = next {
            next = self
                .first_word(number)
                .load(Ordering::Relaxed)
                .checked_sub(1);
            let object = self.numbered(number);
            let frame = self.memory.frame_at(object).index();
            let index = (object as usize % PAGE) / SIZES[class];
            match &mut run {
                Some(run) if run.frame == frame => {
                    self.link(object).store(run.first as u16, Ordering::Relaxed);
                    (run.first, run.count) = (index, run.count + 1);
                }
                run => {
                    let new = Run {
                        frame,
                        first: index,
                        last: object,
                        count: 1,
                    };
                    if let Some(old) = run.replace(new) {
                        self.give_back(class, old);
                    }
                }
            }
        }
        if let Some(run) = run {
            self.give_back(class, run);
        }
        if !self
            .near(class)
            .push(DEPTH, number, self.first_word(number))
        {
            self.give(class, self.numbered(number));
        }
    }

    /// Gives an object of `class` back to its slab.
    fn give(&self, class: usize, object: *mut u8) {
        let run = Run {
            frame: self.memory.frame_at(object).index(),
            first: (object as usize % PAGE) / SIZES[class],
            last: object,
            count: 1,
        };
        self.give_back(class, run);
    }

    /// Gives objects of `class` back to their slab.
    fn give_back(&self, class: usize, run: Run) {
        let Run {
            frame,
            first,
            last,
            count,
        } = run;
        self.out.fetch_sub(count * SIZES[class], Ordering::Relaxed);
        let word = self.word(frame);
        let mut seen = Word(word.load(Ordering::Relaxed));
        loop {
            debug_assert!(
                seen.class() == class,
                "object of another class, or given twice"
            );
            self.link(last)
                .store(seen.first() as u16, Ordering::Relaxed);
            let new = seen.next(first, seen.free() + count, class, true);
            match word.compare_exchange_weak(seen.0, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = Word(now),
            }
        }
        if !seen.listed() {
            self.push(class, frame);
        }
    }

    /// Puts a slab, whose bit is set and which nobody else holds, on its class's list.
    fn push(&self, class: usize, frame: usize) {
        let list = &self.classes[class].list;
        let link = self.memory.frames().word(Frame(frame as u32));
        let mut head = list.load(Ordering::Relaxed);
        loop {
            link.store(head as u32, Ordering::Relaxed);
            let new = tagged(head, frame as u32 + 1);
            match list.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the slab `frame`, which was seen exhausted, off the top of the list.
    #[cold]
    fn unlist(&self, class: usize, head: u64, frame: usize) {
        let below = self
            .memory
            .frames()
            .word(Frame(frame as u32))
            .load(Ordering::Relaxed);
        let list = &self.classes[class].list;
        if list
            .compare_exchange(
                head,
                tagged(head, below),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_err()
        {
            return;
        }
        // It is in our hands now: clear the bit, or put it back if an object was freed into it.
        let word = self.word(frame);
        let mut seen = Word(word.load(Ordering::Acquire));
        while seen.free() == 0 {
            let new = seen.next(seen.first(), 0, class, false);
            match word.compare_exchange_weak(seen.0, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = Word(now),
            }
        }
        self.push(class, frame);
    }

    /// A new slab; its first object is the caller's.
    #[cold]
    fn grow(&self, class: usize) -> Option<*mut u8> {
        let taken = self.memory.frames().alloc_low()?;
        let frame = taken.index();
        if !self.has_word(frame) {
            self.memory.frames().release(taken);
            return None;
        }
        self.held.fetch_add(PAGE, Ordering::Relaxed);
        let count = PAGE / SIZES[class];
        for index in 1..count {
            self.link(self.object(frame, class, index))
                .store(index as u16 + 1, Ordering::Relaxed);
        }
        self.out.fetch_add(SIZES[class], Ordering::Relaxed);
        // Late-comers may still try the old word, and fail by its tag.
        let word = self.word(frame);
        let seen = Word(word.load(Ordering::Relaxed));
        word.store(seen.next(1, count - 1, class, true), Ordering::Release);
        self.push(class, frame);
        Some(self.object(frame, class, 0))
    }

    /// Gives pages without objects back to the frame allocator. Answers how many.
    pub(crate) fn trim(&self) -> usize {
        let mut given = 0;
        for (class, Class { list }) in self.classes.iter().enumerate() {
            for Near(magazines) in &self.near {
                while let Some(number) = magazines[class].pop(|number| self.first_word(number)) {
                    self.give(class, self.numbered(number));
                }
            }
            let mut head = list.load(Ordering::Acquire);
            while let Err(now) = list.compare_exchange_weak(
                head,
                tagged(head, 0),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                head = now;
            }
            let mut next = head as u32;
            while let Some(frame) = next.checked_sub(1) {
                let frame = frame as usize;
                next = self
                    .memory
                    .frames()
                    .word(Frame(frame as u32))
                    .load(Ordering::Relaxed);
                if self.retire(class, frame) {
                    given += 1;
                } else {
                    self.push(class, frame);
                }
            }
        }
        given
    }

    /// Gives the page of a slab back, which is in the caller's hands, if all its objects are free.
    fn retire(&self, class: usize, frame: usize) -> bool {
        let word = self.word(frame);
        let mut seen = Word(word.load(Ordering::Acquire));
        while seen.free() == PAGE / SIZES[class] {
            let new = seen.next(0, 0, Word::NONE, false);
            match word.compare_exchange_weak(seen.0, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let frame = Frame(frame as u32);
                    self.memory.frames().word(frame).store(0, Ordering::Relaxed);
                    self.held.fetch_sub(PAGE, Ordering::Relaxed);
                    self.memory.frames().release(frame);
                    return true;
                }
                Err(now) => seen = Word(now),
            }
        }
        false
    }

    /// Bytes of pages that no object has; what waits in magazines counts as objects.
    pub(crate) fn slack(&self) -> usize {
        let held = self.held.load(Ordering::Relaxed);
        held.saturating_sub(self.out.load(Ordering::Relaxed))
    }

    /// Counts of bytes.
    pub(crate) fn stats(&self) -> Stats {
        let waiting = |Near(magazines): &Near| {
            let sizes = magazines.iter().zip(SIZES);
            sizes
                .map(|(magazine, size)| magazine.len() * size)
                .sum::<usize>()
        };
        let waiting: usize = self.near.iter().map(waiting).sum();
        Stats {
            used: self.out.load(Ordering::Relaxed).saturating_sub(waiting),
            held: self.held.load(Ordering::Relaxed),
        }
    }
}

/// `low` with the tag of `head`, incremented.
#[inline]
fn tagged(head: u64, low: u32) -> u64 {
    ((head >> 32).wrapping_add(1)) << 32 | u64::from(low)
}
