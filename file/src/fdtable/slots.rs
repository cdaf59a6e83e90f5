//! The file of each descriptor, and the free descriptors.
//!
//! *Interface*. A [`FdSlot`] belongs to one descriptor: its slot, one word, is primary; everything else is
//! derived from that word. [`Slots::lowest`] finds the lowest free descriptor, [`Slots::in_use`] the others.
//!
//! A slot holds a count of an open file, made a pointer, with the close-on-exec flag in its lowest bit; 0 is
//! a free descriptor. An open exchanges 0 for a file; `dup2` and `close` exchange the current value. Beside
//! the slots a map has a bit for each slot that is not free, 32 to a [`CachedWord`] word.
//!
//! Slots never move: they are in chunks of 64, the first with the table. Chunks are in blocks of 64, so a
//! table of up to 4096 pays nothing for the structures of a larger one.
//!
//! *The lowest free descriptor* is searched in the map's first word, and then from the hint `low`, below
//! which all are taken. A search that passes full words raises the hint. Freeing a descriptor lowers it, and
//! always changes a tag, so that an older search cannot raise it.
//!
//! *Unsafe*: counted pointers in slots, in chunks that stay.

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use codegen::fault_injection::refused;
use codegen::harden::hardening;
use codegen::{Draft, Label, dynasm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use sync::CachedWord;

use super::MAX_CAPACITY;
use crate::fs::file::OpenFile;

/// Descriptors of a chunk.
pub(super) const CHUNK: usize = 64;
/// The flag in a slot.
pub(super) const CLOEXEC: usize = 1;
const _: () = assert!(align_of::<OpenFile>() > CLOEXEC);

struct Chunk {
    maps: [CachedWord; 2],
    slots: [AtomicUsize; CHUNK],
}

impl Chunk {
    const fn new() -> Chunk {
        Chunk {
            maps: [const { CachedWord::new(0) }; 2],
            slots: [const { AtomicUsize::new(0) }; CHUNK],
        }
    }
}

/// Chunks of a block.
const BLOCK: usize = 64;
type Block = [AtomicPtr<Chunk>; BLOCK];
/// All blocks; the first of them is beside the table.
type Blocks = [AtomicPtr<Block>; MAX_CAPACITY / CHUNK / BLOCK];

/// Bits for rows that may be fresh.
const ROWS: usize = u64::BITS as usize;

/// Bits of a map's word.
const WORD: usize = 32;

/// The approximate size of a descriptor here, in bytes.
pub(super) const EACH: usize = size_of::<Chunk>() / CHUNK + 1;

/// The slots of a table.
pub(super) struct Slots {
    first: Chunk,
    /// Leads to the other chunks of the first block.
    near: AtomicPtr<Block>,
    far: AtomicPtr<Blocks>,
    /// All descriptors in words of the map below the number in the lower half are taken, except in the first
    /// word. The upper half is a tag.
    pub(super) low: AtomicU64,
    /// Rows in which something may have been put by a thread that was the table's only one, since
    /// [`Slots::take_fresh`]: a bit for each row of [`CHUNK`] and those that are a multiple of 64 rows from
    /// it.
    fresh: AtomicU64,
}

/// Where the first slot is in [`Slots`], bytes.
pub(super) const FIRST: usize = offset_of!(Slots, first) + offset_of!(Chunk, slots);

/// One descriptor's slot, and its bit in the map.
pub(super) struct FdSlot<'a> {
    pub slot: &'a AtomicUsize,
    map: &'a CachedWord,
    bit: u32,
}

impl FdSlot<'_> {
    /// The file here: a table with users gives up counts a grace period after taking them out.
    ///
    /// # Safety
    /// Interrupts are off for as long as the file is used, or no other thread knows the table.
    #[inline]
    pub unsafe fn file(&self) -> Option<&OpenFile> {
        let file = (self.slot.load(Ordering::Acquire) & !CLOEXEC) as *const OpenFile;
        // SAFETY: a slot that is not 0 holds a count, which stays by the caller's promise.
        unsafe { file.as_ref() }
    }

    /// Whether it refers to `of`.
    pub fn holds(&self, of: &OpenFile) -> bool {
        self.slot.load(Ordering::Acquire) & !CLOEXEC == core::ptr::from_ref(of).addr()
    }

    /// Notes in the map whether the slot is free, which is returned: then [`Slots::freed`] must be called.
    #[must_use]
    pub fn note(&self) -> bool {
        let mut free = false;
        self.map.merge(|map| {
            free = self.slot.load(Ordering::Acquire) == 0;
            match free {
                true => map & !self.bit,
                false => map | self.bit,
            }
        });
        free
    }

    /// The same by a plain store, for a thread that is alone.
    #[inline(always)]
    pub fn set(&self, used: bool) {
        let map = self.map.get();
        let map = if used {
            map | self.bit
        } else {
            map & !self.bit
        };
        self.map.set(map.into());
    }
}

/// Emits the way from the address of a table's slots, in rax, to that of the description behind edi, into
/// rax; to `none` where there is none, or the descriptor is beyond the first block. Changes rcx.
pub(super) fn emit(d: &mut Draft, none: Label) {
    let slots = offset_of!(Chunk, slots) as i32;
    let first = offset_of!(Slots, first) as i32 + slots;
    let near = offset_of!(Slots, near) as i32;
    let masked = hardening().masks();
    let mask = |d: &mut Draft, bound: usize| {
        if masked {
            dynasm!(d ; .arch x64 ; and ecx, bound as i32 - 1);
        }
    };
    dynasm!(d ; .arch x64 ; mov ecx, edi ; cmp ecx, CHUNK as i32 ; jae >beyond);
    mask(d, CHUNK);
    dynasm!(d ; .arch x64
        ; mov rax, [rax + rcx * 8 + first]
        ; found:
        ; and rax, !(CLOEXEC as i32)
        ; jz =>none
        ; jmp >there
        ; beyond:
        ; cmp ecx, (CHUNK * BLOCK) as i32
        ; jae =>none
    );
    mask(d, CHUNK * BLOCK);
    dynasm!(d ; .arch x64
        ; mov rax, [rax + near]
        ; test rax, rax
        ; jz =>none
        ; shr ecx, CHUNK.trailing_zeros() as i8
        ; mov rax, [rax + rcx * 8]
        ; test rax, rax
        ; jz =>none
        ; mov ecx, edi
        ; and ecx, CHUNK as i32 - 1
        ; mov rax, [rax + rcx * 8 + slots]
        ; jmp <found
        ; there:
    );
}

impl Slots {
    /// All free, with room for [`CHUNK`].
    pub const fn new() -> Slots {
        Slots {
            first: Chunk::new(),
            near: AtomicPtr::new(core::ptr::null_mut()),
            far: AtomicPtr::new(core::ptr::null_mut()),
            low: AtomicU64::new(0),
            fresh: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    fn chunk(&self, number: usize) -> Option<&Chunk> {
        if number == 0 {
            return Some(&self.first);
        }
        let block = if number < BLOCK {
            &self.near
        } else {
            // SAFETY: a chunk stays as long as the table.
            unsafe { self.far.load(Ordering::Acquire).as_ref() }?.get(number / BLOCK)?
        };
        // SAFETY: as above.
        let block = unsafe { block.load(Ordering::Acquire).as_ref() }?;
        // SAFETY: as above.
        unsafe { block[number % BLOCK].load(Ordering::Acquire).as_ref() }
    }

    #[inline(always)]
    fn map(&self, number: usize) -> Option<&CachedWord> {
        Some(&self.chunk(number / 2)?.maps[number % 2])
    }

    /// The slots of the first descriptors, which stay as long as the table.
    pub fn first(&self) -> &[AtomicUsize; CHUNK] {
        &self.first.slots
    }

    /// The slots of the descriptors from `number * CHUNK` on, if there is room for them.
    #[inline(always)]
    pub fn row(&self, number: usize) -> Option<&[AtomicUsize; CHUNK]> {
        Some(&self.chunk(number)?.slots)
    }

    /// The place of `fd`, if there is room for it.
    #[inline(always)]
    pub fn place(&self, fd: usize) -> Option<FdSlot<'_>> {
        let chunk = self.chunk(fd / CHUNK)?;
        Some(FdSlot {
            slot: &chunk.slots[fd % CHUNK],
            map: &chunk.maps[fd % CHUNK / WORD],
            bit: 1 << (fd % WORD),
        })
    }

    /// The lowest free descriptor from `from` on, which may be the first without room.
    #[inline(always)]
    pub fn lowest(&self, from: usize) -> usize {
        let few = self.first.maps[0].get();
        if from == 0 && few != u32::MAX {
            return few.trailing_ones() as usize;
        }
        let low = self.low.load(Ordering::Acquire);
        let full = low as u32 as usize;
        let from = from.max(full * WORD);
        let mut number = from / WORD;
        let Some(map) = self.map(number) else {
            return from;
        };
        let skipped = (1 << (from % WORD)) - 1;
        let mut taken = map.get() | skipped;
        if taken == u32::MAX {
            while taken == u32::MAX {
                number += 1;
                match self.map(number) {
                    Some(map) => taken = map.get(),
                    None => taken = 0,
                }
            }
            if from == full * WORD {
                self.raise(low, number);
            }
        }
        number * WORD + taken.trailing_ones() as usize
    }

    /// All below word `number` are taken, according to the caller, which has read `low` before.
    #[cold]
    pub(super) fn raise(&self, low: u64, number: usize) {
        let raised = low & !u64::from(u32::MAX) | number as u64;
        // Something was freed meanwhile, or another has raised it: the next one looks again.
        let _ = (self.low).compare_exchange(low, raised, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The map says that `fd` is free, which it may not have been before.
    pub fn freed(&self, fd: usize) {
        let lower = |low: u64| {
            let tag = (low >> 32) as u32;
            let number = (low as u32).min((fd / WORD) as u32);
            Some(u64::from(tag.wrapping_add(1)) << 32 | u64::from(number))
        };
        let _always = (self.low).fetch_update(Ordering::AcqRel, Ordering::Acquire, lower);
    }

    /// The same by a plain store, for a thread that is alone.
    #[inline(always)]
    pub fn freed_alone(&self, fd: usize) {
        if fd < WORD {
            // That word is always looked at.
            return;
        }
        let number = (fd / WORD) as u64;
        if number < self.low.load(Ordering::Relaxed) & u64::from(u32::MAX) {
            self.low.store(number, Ordering::Release);
        }
    }

    /// The only thread of the table has put something at `fd`.
    #[inline(always)]
    pub fn note_fresh(&self, fd: usize) {
        let fresh = self.fresh.load(Ordering::Relaxed) | 1 << (fd / CHUNK % ROWS);
        self.fresh.store(fresh, Ordering::Relaxed);
    }

    /// The same beside visitors.
    pub fn note_fresh_beside(&self, fd: usize) {
        (self.fresh).fetch_or(1 << (fd / CHUNK % ROWS), Ordering::Relaxed);
    }

    /// The rows that were noted so since the last time. For the only thread.
    #[inline]
    pub fn take_fresh(&self) -> u64 {
        let rows = self.fresh.load(Ordering::Relaxed);
        if rows != 0 {
            self.fresh.store(0, Ordering::Relaxed);
        }
        rows
    }

    /// The descriptors in use in `rows`, as [`Slots::take_fresh`] gave them.
    pub fn in_use_in(&self, rows: u64) -> impl Iterator<Item = usize> {
        let noted = (0..ROWS).filter(move |row| rows >> row & 1 != 0);
        let alike = |row: usize| (row..).step_by(ROWS);
        let chunks = move |row| alike(row).map_while(|row| Some((row, self.chunk(row)?)));
        noted.flat_map(chunks).flat_map(|(row, chunk)| {
            let [low, high] = &chunk.maps;
            let used = u64::from(low.get()) | u64::from(high.get()) << WORD;
            (0..CHUNK).filter_map(move |at| (used >> at & 1 != 0).then_some(row * CHUNK + at))
        })
    }

    /// The descriptors in use, in order. A descriptor that is opened or closed meanwhile may be among them or
    /// not.
    pub fn in_use(&self) -> impl Iterator<Item = usize> {
        self.in_use_from(0)
    }

    /// Those of them from `from` on.
    pub fn in_use_from(&self, from: usize) -> impl Iterator<Item = usize> {
        self.in_use_between(from, MAX_CAPACITY)
    }

    /// Those of them from `from` on and below `end`; no word behind `end` is looked at.
    pub fn in_use_between(&self, from: usize, end: usize) -> impl Iterator<Item = usize> {
        let mut number = from / WORD;
        let mut bits = self.map(number).map_or(0, CachedWord::get) & u32::MAX << (from % WORD);
        let next = move || {
            while bits == 0 {
                number += 1;
                if number * WORD >= end {
                    return None;
                }
                bits = self.map(number)?.get();
            }
            let bit = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some(number * WORD + bit)
        };
        core::iter::from_fn(next).take_while(move |fd| *fd < end)
    }

    /// The descriptors that refer to `of`.
    pub fn holding<'a>(&'a self, of: &'a OpenFile) -> impl Iterator<Item = usize> + 'a {
        let address = core::ptr::from_ref(of).addr();
        let is_of = move |slot: &AtomicUsize| slot.load(Ordering::Acquire) & !CLOEXEC == address;
        let rows = (0..).map_while(|number| Some((number, self.row(number)?)));
        rows.flat_map(move |(number, row)| {
            let mut from = 0;
            core::iter::from_fn(move || {
                let at = from + row[from..].iter().position(is_of)?;
                from = at + 1;
                Some(number * CHUNK + at)
            })
        })
    }

    /// Every place there is room for.
    pub fn places(&self) -> impl Iterator<Item = (usize, FdSlot<'_>)> {
        (0..MAX_CAPACITY).map_while(|fd| Some((fd, self.place(fd)?)))
    }

    /// Makes room for descriptors below `capacity`. One at a time. ENOMEM: some of it may have been made.
    pub fn reserve(&self, capacity: usize) -> Result<()> {
        for number in 1..capacity.div_ceil(CHUNK) {
            let block = if number < BLOCK {
                &self.near
            } else {
                let far = made(&self.far, || {
                    [const { AtomicPtr::new(core::ptr::null_mut()) }; _]
                })?;
                far.get(number / BLOCK).ok_or(Errno::EMFILE)?
            };
            let block = made(block, || {
                [const { AtomicPtr::new(core::ptr::null_mut()) }; _]
            })?;
            made(&block[number % BLOCK], Chunk::new)?;
        }
        Ok(())
    }
}

/// The target of `place`, made if there is none. One thread at a time; it stays as long as the table. ENOMEM.
fn made<T>(place: &AtomicPtr<T>, new: impl FnOnce() -> T) -> Result<&T> {
    let mut there = place.load(Ordering::Acquire);
    if there.is_null() {
        there = Box::into_raw(make(new)?);
        place.store(there, Ordering::Release);
    }
    // SAFETY: it is of a box, and stays.
    Ok(unsafe { &*there })
}

/// A box, or ENOMEM.
#[expect(
    clippy::disallowed_methods,
    reason = "room may be refused, and is exact"
)]
fn make<T>(value: impl FnOnce() -> T) -> Result<Box<T>> {
    let mut place = alloc::vec::Vec::new();
    if refused() || place.try_reserve_exact(1).is_err() {
        return Err(Errno::ENOMEM);
    }
    place.push(value());
    let one = Box::into_raw(place.into_boxed_slice()).cast::<T>();
    // SAFETY: a slice of one is laid out as the one.
    Ok(unsafe { Box::from_raw(one) })
}

/// The target of `place`, to be freed. # Safety [`made`] put it there, and no other party has the table.
unsafe fn unmade<T>(place: &mut AtomicPtr<T>) -> Option<Box<T>> {
    let there = core::mem::take(place.get_mut());
    // SAFETY: `made` made it of a box, and by contract no party uses it.
    (!there.is_null()).then(|| unsafe { Box::from_raw(there) })
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: no other party has the table.
        let mut far = unsafe { unmade(&mut self.far) };
        let far = far.iter_mut().flat_map(|far| far.iter_mut());
        for block in core::iter::once(&mut self.near).chain(far) {
            // SAFETY: as above.
            let mut block = unsafe { unmade(block) };
            for chunk in block.iter_mut().flat_map(|block| block.iter_mut()) {
                // SAFETY: as above.
                drop(unsafe { unmade(chunk) });
            }
        }
    }
}
