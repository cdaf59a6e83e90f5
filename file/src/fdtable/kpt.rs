//! The kernel procedure table: three arrays of code addresses that dispatchers index by descriptor.
//!
//! *Interface*. [`KptView`] is a dispatcher's view of them. Each word is a [`CachedWord`]: the address's low
//! half, which a dispatcher loads with sign extension, and a tag. A word is derived from the descriptor's
//! file ([`code_of`]).
//!
//! In a table whose files are bounded (RLIMIT_FSIZE) a file that could grow beyond its bound has the slow
//! stub for `write`.
//!
//! A closed descriptor has the `bad_fd` stub, one without generated code the `slow` stub
//! ([`crate::stubs::Stubs`]), which is right for every descriptor, since it leads to the plain call.
//!
//! Source: dissertation, 4.2 (kernel procedure tables).
//!
//! *Unsafe*: the kernel procedure table as three arrays.

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use alloc::vec::Vec;
use codegen::fault_injection::refused;
use core::sync::atomic::{AtomicPtr, AtomicUsize};
use quaject::inactive::Inactive;
use sync::CachedWord;

use super::FIRST_CAPACITY;
use crate::fs::file::OpenFile;
use crate::stubs::{bad_fd, stubs};

/// The three arrays of code addresses that a thread's dispatcher indexes by descriptor; the low half of each
/// word is the address's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KptView {
    /// First word of the `read` array.
    pub read: *const u64,
    /// First word of the `write` array.
    pub write: *const u64,
    /// First word of the `lseek` array.
    pub lseek: *const u64,
    /// Words in each array; a descriptor beyond has no code.
    pub len: usize,
    /// The slots of the first [`SLOTS`] descriptors; a slot is 0, or the address of an [`OpenFile`] and a
    /// flag in its lowest bit.
    pub slots: *const usize,
}

/// Descriptors whose slots a dispatcher finds.
pub const SLOTS: usize = super::slots::CHUNK;

/// The current code for a descriptor that refers to `of`: the routines for its sharing if they were
/// generated, else the slow stubs.
#[inline]
pub(super) fn code_of(of: Option<&OpenFile>, bounded: bool) -> [usize; 3] {
    let stubs = stubs();
    let Some(of) = of else {
        return [stubs.bad_fd; 3];
    };
    let ready = of.ready_entries(of.sharing());
    let mut entries = ready.unwrap_or_else(|| slow_for(of));
    if bounded && of.writable() && of.file().is_bounded() {
        entries[1] = stubs.slow[1];
    }
    entries
}

/// The code of a descriptor that refers to `of` as long as there are no routines.
#[inline]
pub(super) fn slow_for(of: &OpenFile) -> [usize; 3] {
    let stubs = stubs();
    let [reads, writes] = of.allows();
    let or_bad = |allowed, slow| if allowed { slow } else { stubs.bad_fd };
    [
        or_bad(reads, stubs.slow[0]),
        or_bad(writes, stubs.slow[1]),
        stubs.slow[2],
    ]
}

/// The arrays of one table.
pub(super) struct Kpt {
    /// Three arrays of `len` words, one behind the other.
    words: Box<[CachedWord]>,
    len: usize,
    /// The former arrays, as long as a dispatcher may use them: changes are also written there.
    pub before: AtomicPtr<Kpt>,
}

/// Arrays of ended tables, all closed, of the length that new tables begin with.
static INACTIVE: Inactive<Box<Kpt>, 8> = Inactive::new(drop);

impl Kpt {
    /// Arrays for `len` descriptors, all closed. ENOMEM.
    pub fn new(len: usize) -> Result<Box<Kpt>> {
        if len == FIRST_CAPACITY
            && let Some(kpt) = INACTIVE.take()
        {
            return Ok(kpt);
        }
        Self::make(len)
    }

    /// The table has ended: arrays in which all descriptors are closed wait for the next one.
    pub fn give_back(self: Box<Kpt>) {
        if self.len == FIRST_CAPACITY {
            debug_assert!(self.words.iter().all(|word| word.get() == bad_fd() as u32));
            INACTIVE.put(self);
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "room may be refused, and is exact"
    )]
    fn make(len: usize) -> Result<Box<Kpt>> {
        let mut words = Vec::new();
        if refused() || words.try_reserve_exact(3 * len).is_err() {
            return Err(Errno::ENOMEM);
        }
        let bad_fd = bad_fd() as u32;
        words.resize_with(3 * len, || CachedWord::new(bad_fd));
        Ok(Box::new(Kpt {
            words: words.into_boxed_slice(),
            len,
            before: AtomicPtr::default(),
        }))
    }

    /// Descriptors that they have room for.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The dispatchers' view of them.
    pub fn view(&self, slots: &[AtomicUsize; SLOTS]) -> KptView {
        let [read, write, lseek] =
            [0, 1, 2].map(|array| self.words[array * self.len()..].as_ptr().cast::<u64>());
        KptView {
            read,
            write,
            lseek,
            len: self.len(),
            slots: slots.as_ptr().cast(),
        }
    }

    /// The words of `fd`.
    #[inline(always)]
    pub fn words(&self, fd: usize) -> [&CachedWord; 3] {
        let len = self.len;
        assert!(fd < len, "a descriptor beyond its table");
        // SAFETY: the box holds three arrays of `len` words, so that no sum of these wraps either.
        unsafe {
            [
                self.words.get_unchecked(fd),
                self.words.get_unchecked(len.wrapping_add(fd)),
                self.words
                    .get_unchecked(len.wrapping_mul(2).wrapping_add(fd)),
            ]
        }
    }

    /// Puts `entries` at `fd` by three stores: the table's thread is alone.
    #[inline(always)]
    pub fn set(&self, fd: usize, entries: [usize; 3]) {
        let [read, write, lseek] = self.words(fd);
        let [to_read, to_write, to_lseek] = entries;
        read.set(to_read as u64);
        write.set(to_write as u64);
        lseek.set(to_lseek as u64);
    }
}
