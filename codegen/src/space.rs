//! The code space as the room above lends it.
//!
//! *Interface*: implement [`CodeSpace`], hand it to [`link`] once. Until then every seal reports
//! [`OutOfCode`].
//!
//! No page is ever writable and executable: routines run at their *exec* address and are written through an
//! *alias*, a second mapping of the same frame that is there while they are written ([`CodeSpace::open`]).
//! Only code is placed in these pages; data that code reads lives elsewhere, since a store into a line (under
//! software emulation: a page) that is being executed costs ten times the store.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, Range};
use core::sync::atomic::{AtomicU8, Ordering};

/// Granularity of allocation, in bytes: one cache line, so that no two images share one.
pub const BLOCK: usize = 64;

/// Granularity in which the code space grows and shrinks, in bytes.
pub const PAGE: usize = 4096;

/// No address, frame or heap is left for more code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfCode;

impl fmt::Display for OutOfCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of code space")
    }
}

/// Memory for code, a way to write it, and the grace period after which it may be written again.
///
/// # Safety
/// The implementor promises that `window` never changes and is page-aligned; that between a successful
/// `commit` and the `decommit` of a page its bytes can be executed and read at the exec address, [`PAGE`]
/// bytes on from an aligned address, and that `open` shows the same bytes; that it is nobody else's; and
/// that `retire` calls back only after every CPU has passed a serializing instruction outside generated code.
pub unsafe trait CodeSpace: Sync {
    /// Exec addresses that code may take: page-aligned, at most 256 MiB.
    fn window(&self) -> Range<usize>;
    /// Put memory behind one page of the window. False when there is none.
    fn commit(&self, exec: usize) -> bool;
    /// Take the memory of an unused page back. False keeps the page committed. After true, the page's next
    /// `commit` must not leave any CPU with the former translation.
    fn decommit(&self, exec: usize) -> bool;
    /// Opens an alias of the `len` bytes that run at `exec`, within one page, for this CPU to write them.
    ///
    /// # Safety
    /// The page is committed, the bytes are the caller's alone, and soon it closes what it opened: meanwhile
    /// it neither sleeps nor opens other code.
    unsafe fn open(&self, exec: usize, len: usize) -> Opened;
    /// Takes the alias away again.
    ///
    /// # Safety
    /// `open` gave it just now, and the caller writes there no more.
    unsafe fn close(&self, opened: Opened);
    /// Serialize this CPU after writing code through the alias, before running it.
    fn serialize(&self);
    /// Call `f(arg)` when no CPU can be running or have prefetched what it could when this was called.
    fn retire(&self, f: fn(usize), arg: usize);
}

/// Bytes of code that can be written.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// The first one's alias.
    pub at: *mut u8,
    /// For closing.
    pub keys: [usize; 2],
}

/// A space that was lent, with its window.
pub(crate) struct Lent {
    space: &'static dyn CodeSpace,
    pub start: usize,
    pub end: usize,
}

impl Lent {
    /// Has `write` write the `len` bytes of code at `exec`, within one page, through an alias that is there
    /// meanwhile. `write` is short, and neither sleeps nor writes other code.
    ///
    /// # Safety
    /// The page is committed, and the bytes are the caller's alone.
    #[inline(always)]
    pub unsafe fn write(&self, exec: usize, len: usize, write: impl FnOnce(&mut [u8])) {
        // SAFETY: the caller's promise, for the bytes that the alias shows until it is closed below.
        unsafe {
            let opened = self.space.open(exec, len);
            write(core::slice::from_raw_parts_mut(opened.at, len));
            self.space.close(opened);
        }
    }
}

impl Deref for Lent {
    type Target = dyn CodeSpace;
    fn deref(&self) -> &Self::Target {
        self.space
    }
}

struct Linked {
    space: UnsafeCell<Option<Lent>>,
    /// 0 empty, 1 being written, 2 readable for ever.
    state: AtomicU8,
}

// SAFETY: `space` is written by the one caller that moved `state` from 0 to 1 and read only after it became
// 2.
unsafe impl Sync for Linked {}

static LINKED: Linked = Linked {
    space: UnsafeCell::new(None),
    state: AtomicU8::new(0),
};

/// Lend the code space. Once, at boot; false (and no effect) when one was already linked.
pub fn link(space: &'static dyn CodeSpace) -> bool {
    if LINKED
        .state
        .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        return false;
    }
    let Range { start, end } = space.window();
    // SAFETY: this caller moved `state` from 0 to 1; no one reads before it is 2.
    unsafe { *LINKED.space.get() = Some(Lent { space, start, end }) };
    LINKED.state.store(2, Ordering::Release);
    true
}

/// The linked space, if any.
#[inline]
pub(crate) fn linked() -> Option<&'static Lent> {
    if LINKED.state.load(Ordering::Acquire) != 2 {
        return None;
    }
    // SAFETY: state 2 means written and never written again.
    unsafe { (*LINKED.space.get()).as_ref() }
}
