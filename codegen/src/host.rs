//! A code space for the host: one memory file mapped twice, so that tests run what they generate.
//!
//! *Interface*: [`link`] once per test (repeating is harmless); [`Low`] puts data where a sign-extended
//! 32-bit address reaches it, as the kernel's heap is. Compiled for this crate's tests and under the feature
//! `host`.
//!
//! The grace period is trivial only while no other thread runs a routine that a test drops: [`hold`]
//! postpones it, as the kernel's epochs do, until the returned guard is dropped.

use core::ops::{Deref, DerefMut, Range};
use core::ptr::{self, NonNull};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::space::{CodeSpace, Opened, PAGE};

/// Size of the host's window, in bytes.
const WINDOW: usize = 16 << 20;

struct HostSpace {
    exec: usize,
    alias: usize,
    /// Pages that `commit` still grants; `usize::MAX` for all.
    budget: Mutex<usize>,
    retired: Mutex<Retired>,
}

#[derive(Default)]
struct Retired {
    holders: usize,
    waiting: Vec<(fn(usize), usize)>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Bound: host tests only.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// SAFETY: both mappings are made once and kept; exec pages are readable and executable, alias pages writable,
// and they are the same memory. `retire` calls back when no test holds the grace period open.
unsafe impl CodeSpace for HostSpace {
    fn window(&self) -> Range<usize> {
        self.exec..self.exec + WINDOW
    }
    fn commit(&self, _exec: usize) -> bool {
        let mut budget = lock(&self.budget);
        if *budget == 0 {
            return false;
        }
        if *budget != usize::MAX {
            *budget -= 1;
        }
        true
    }
    fn decommit(&self, _exec: usize) -> bool {
        true
    }
    unsafe fn open(&self, exec: usize, _len: usize) -> Opened {
        Opened {
            at: ptr::with_exposed_provenance_mut(exec - self.exec + self.alias),
            keys: [0; 2],
        }
    }
    unsafe fn close(&self, _opened: Opened) {}
    fn serialize(&self) {}
    fn retire(&self, f: fn(usize), arg: usize) {
        let mut retired = lock(&self.retired);
        if retired.holders > 0 {
            retired.waiting.push((f, arg));
        } else {
            drop(retired);
            f(arg);
        }
    }
}

static SPACE: OnceLock<HostSpace> = OnceLock::new();

fn map(at: usize, len: usize, prot: i32, flags: i32, fd: i32) -> Option<usize> {
    // SAFETY: a fresh mapping; with a wished-for address, MAP_FIXED_NOREPLACE touches no other one.
    let got = unsafe { libc::mmap(ptr::without_provenance_mut(at), len, prot, flags, fd, 0) };
    if got == libc::MAP_FAILED {
        return None;
    }
    let got = got.expose_provenance();
    if at != 0 && got != at {
        // SAFETY: the mapping that was just made elsewhere.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(got), len) };
        return None;
    }
    Some(got)
}

fn space() -> &'static HostSpace {
    SPACE.get_or_init(|| {
        // SAFETY: a new memory file of a fixed size.
        let fd = unsafe {
            let fd = libc::memfd_create(c"code".as_ptr(), libc::MFD_CLOEXEC);
            assert!(
                fd >= 0 && libc::ftruncate(fd, WINDOW as libc::off_t) == 0,
                "no memory file for code"
            );
            fd
        };
        let alias = map(
            0,
            WINDOW,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
        )
        .expect("no alias mapping");
        // Within 2 GiB of this program's text, so that `call rel32` reaches Rust functions as it does in the
        // kernel.
        let text = (space as fn() -> &'static HostSpace as usize) & !(PAGE - 1);
        let near = |step: usize| [text.wrapping_sub(step << 24), text.wrapping_add(step << 24)];
        let exec = (1..100)
            .flat_map(near)
            .find_map(|at| {
                map(
                    at,
                    WINDOW,
                    libc::PROT_READ | libc::PROT_EXEC,
                    libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE,
                    fd,
                )
            })
            .expect("no exec mapping near the program");
        HostSpace {
            exec,
            alias,
            budget: Mutex::new(usize::MAX),
            retired: Mutex::default(),
        }
    })
}

/// Lend the host's code space to the synthesizer.
pub fn link() {
    crate::link(space());
}

/// Let `commit` grant `pages` more pages, or all with `usize::MAX`: to test running out of code space.
pub fn set_budget(pages: usize) {
    *lock(&space().budget) = pages;
}

/// Keeps grace periods from ending, as a CPU inside a routine would.
pub struct Hold(());

/// Postpone every grace period until the guard is dropped.
pub fn hold() -> Hold {
    lock(&space().retired).holders += 1;
    Hold(())
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut retired = lock(&space().retired);
        retired.holders -= 1;
        if retired.holders == 0 {
            let waiting = core::mem::take(&mut retired.waiting);
            drop(retired);
            waiting.into_iter().for_each(|(f, arg)| f(arg));
        }
    }
}

/// A box in the low 2 GiB, whose address a generated instruction can hold in a sign-extended 32-bit field.
/// Page-granular: for tests.
pub struct Low<T>(NonNull<T>);

impl<T> Low<T> {
    const LEN: usize = if size_of::<T>() == 0 {
        PAGE
    } else {
        size_of::<T>().next_multiple_of(PAGE)
    };

    /// Move `value` there.
    pub fn new(value: T) -> Low<T> {
        const { assert!(align_of::<T>() <= PAGE) };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
        let at = map(0, Self::LEN, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
            .expect("no low memory");
        let at: *mut T = ptr::with_exposed_provenance_mut(at);
        // SAFETY: fresh, large and aligned enough.
        unsafe { at.write(value) };
        Low(NonNull::new(at).expect("mapped at 0"))
    }

    /// Makes it machine code: it can be executed, and no longer written.
    pub fn into_code(self) -> Low<T> {
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: owned, and the caller's `DerefMut` ends here: what writes it afterwards faults.
        let changed = unsafe { libc::mprotect(self.0.as_ptr().cast(), Self::LEN, prot) };
        assert_eq!(changed, 0, "no executable low memory");
        self
    }

    /// The address for an instruction field.
    pub fn address(&self) -> i32 {
        self.0.as_ptr().expose_provenance() as i32
    }
}

// SAFETY: a `Low<T>` owns its `T` as a `Box<T>` does.
unsafe impl<T: Send> Send for Low<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Low<T> {}

impl<T> Deref for Low<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: owned and initialized.
        unsafe { self.0.as_ref() }
    }
}

impl<T> DerefMut for Low<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: owned and initialized.
        unsafe { self.0.as_mut() }
    }
}

impl<T> Drop for Low<T> {
    fn drop(&mut self) {
        // SAFETY: owned; mapped with this length by `new`.
        unsafe {
            self.0.drop_in_place();
            libc::munmap(self.0.as_ptr().cast(), Self::LEN);
        }
    }
}
