//! What each descriptor refers to, and which are free.
//!
//! *Interface*. A [`Place`] is one descriptor's: its slot, one word, is the truth about it; everything else follows from that word. [`Slots::lowest`] finds the
//! lowest free one, [`Slots::in_use`] the others.
//!
//! A slot holds a count of an open file, made a pointer, with the close-on-exec flag in its lowest bit; 0 is a free descriptor. To open is to exchange 0 for a file,
//! `dup2` and `close` exchange what is there, whatever it is. Beside them a map has a bit for each slot that is not free, 32 to a [`Derived`] word.
//!
//! Slots never move: they are in chunks of 64, the first with the table.

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use codegen::refusal::refused;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use sync::Derived;

use super::MAX_CAPACITY;
use crate::file::OpenFile;

/// Descriptors of a chunk.
pub(super) const CHUNK: usize = 64;
/// The flag in a slot.
pub(super) const CLOEXEC: usize = 1;
const _: () = assert!(align_of::<OpenFile>() > CLOEXEC);

struct Chunk {
    maps: [Derived; 2],
    slots: [AtomicUsize; CHUNK],
}

impl Chunk {
    const fn new() -> Chunk {
        Chunk {
            maps: [const { Derived::new(0) }; 2],
            slots: [const { AtomicUsize::new(0) }; CHUNK],
        }
    }
}

/// The chunks after the first.
type More = [AtomicPtr<Chunk>; MORE];
const MORE: usize = MAX_CAPACITY / CHUNK - 1;

/// The slots of a table.
pub(super) struct Slots {
    first: Chunk,
    more: AtomicPtr<More>,
}

/// One descriptor's slot, and its bit in the map.
pub(super) struct Place<'a> {
    pub slot: &'a AtomicUsize,
    map: &'a Derived,
    bit: u32,
}

impl Place<'_> {
    /// The file here, which stays for as long as interrupts are off: a table with company gives up counts a grace period after taking them out.
    #[inline]
    pub fn file(&self) -> Option<&OpenFile> {
        let file = (self.slot.load(Ordering::Acquire) & !CLOEXEC) as *const OpenFile;
        // SAFETY: a slot that is not 0 holds a count; see above.
        unsafe { file.as_ref() }
    }

    /// Whether it refers to `of`.
    pub fn holds(&self, of: &OpenFile) -> bool {
        self.slot.load(Ordering::Acquire) & !CLOEXEC == core::ptr::from_ref(of).addr()
    }

    /// Notes in the map whether the slot is free.
    pub fn note(&self) {
        self.map
            .merge(|map| match self.slot.load(Ordering::Acquire) {
                0 => map & !self.bit,
                _ => map | self.bit,
            });
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

impl Slots {
    /// All free, with room for [`CHUNK`].
    pub const fn new() -> Slots {
        Slots {
            first: Chunk::new(),
            more: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    #[inline(always)]
    fn chunk(&self, number: usize) -> Option<&Chunk> {
        if number == 0 {
            return Some(&self.first);
        }
        // SAFETY: what was put here stays as long as the table.
        let more = unsafe { self.more.load(Ordering::Acquire).as_ref() }?;
        // SAFETY: as above.
        unsafe { more.get(number - 1)?.load(Ordering::Acquire).as_ref() }
    }

    #[inline(always)]
    fn map(&self, number: usize) -> Option<&Derived> {
        Some(&self.chunk(number / 2)?.maps[number % 2])
    }

    /// The slots of the descriptors from `number * CHUNK` on, if there is room for them.
    #[inline(always)]
    pub fn row(&self, number: usize) -> Option<&[AtomicUsize; CHUNK]> {
        Some(&self.chunk(number)?.slots)
    }

    /// The place of `fd`, if there is room for it.
    #[inline(always)]
    pub fn place(&self, fd: usize) -> Option<Place<'_>> {
        let chunk = self.chunk(fd / CHUNK)?;
        Some(Place {
            slot: &chunk.slots[fd % CHUNK],
            map: &chunk.maps[fd % CHUNK / 32],
            bit: 1 << (fd % 32),
        })
    }

    /// The lowest free descriptor from `from` on, which may be the first without room.
    #[inline(always)]
    pub fn lowest(&self, from: usize) -> usize {
        let mut number = from / 32;
        let Some(map) = self.map(number) else {
            return from;
        };
        let mut taken = map.get() | ((1 << (from % 32)) - 1);
        while taken == u32::MAX {
            number += 1;
            match self.map(number) {
                Some(map) => taken = map.get(),
                None => break,
            }
        }
        match taken {
            u32::MAX => number * 32,
            _ => number * 32 + taken.trailing_ones() as usize,
        }
    }

    /// The descriptors in use, in order. One that is opened or closed meanwhile may be among them or not.
    pub fn in_use(&self) -> impl Iterator<Item = usize> {
        self.in_use_from(0)
    }

    /// Those of them from `from` on.
    pub fn in_use_from(&self, from: usize) -> impl Iterator<Item = usize> {
        let mut number = from / 32;
        let mut bits = self.map(number).map_or(0, Derived::get) & u32::MAX << (from % 32);
        core::iter::from_fn(move || {
            while bits == 0 {
                number += 1;
                bits = self.map(number)?.get();
            }
            let bit = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some(number * 32 + bit)
        })
    }

    /// Every place there is room for.
    pub fn places(&self) -> impl Iterator<Item = (usize, Place<'_>)> {
        (0..MAX_CAPACITY).map_while(|fd| Some((fd, self.place(fd)?)))
    }

    /// Makes room for descriptors below `capacity`. One at a time. ENOMEM: some of it may have been made.
    pub fn reserve(&self, capacity: usize) -> Result<()> {
        for number in 1..capacity.div_ceil(CHUNK) {
            let mut more = self.more.load(Ordering::Acquire);
            if more.is_null() {
                let made: Box<More> =
                    make(|| [const { AtomicPtr::new(core::ptr::null_mut()) }; MORE])?;
                more = Box::into_raw(made);
                self.more.store(more, Ordering::Release);
            }
            // SAFETY: what was put here stays as long as the table.
            let chunk = &unsafe { &*more }[number - 1];
            if chunk.load(Ordering::Acquire).is_null() {
                chunk.store(Box::into_raw(make(Chunk::new)?), Ordering::Release);
            }
        }
        Ok(())
    }
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

impl Drop for Slots {
    fn drop(&mut self) {
        let more = *self.more.get_mut();
        if more.is_null() {
            return;
        }
        // SAFETY: `reserve` made them of boxes, and nobody else has the table.
        let mut more = unsafe { Box::from_raw(more) };
        for chunk in more.iter_mut().map(|chunk| *chunk.get_mut()) {
            if !chunk.is_null() {
                // SAFETY: as above.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}
