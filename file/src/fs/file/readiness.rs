//! The readiness check of an open file: one word leads to the code that finds the events that hold now.
//!
//! *Interface*: [`OpenFile::ready_events`], [`OpenFile::ready_events_now`] for callers that may not sleep,
//! and [`OpenFile::ready_events_weakly`] for those that may not even count it; a kind of file gives its
//! routine by [`super::File::synthesize_ready_check`].
//!
//! The first check asks the file, and so does every check of a file without a routine. The second check makes
//! the routine: a descriptor that is checked twice is usually checked many times.
//!
//! Source: dissertation, section 4.1.2 (code is made for objects in use) and 4.1.3 (an unlinked callout has a
//! default action).
//!
//! *Unsafe*: calling what the word holds, with the address of a description that is borrowed; two words of
//! one that may be ending, whose memory is kept.

use abi::layout::{CODE, CODE_LEN};
use abi::linux::{O_PATH, POLLNVAL};
use alloc::sync::Weak;
use codegen::{Draft, Label, Routine, dynasm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering, fence};
use machine::irqs_off::IrqsOff;
use quaject::readiness::ReadinessFn;
use sync::Once;

use super::OpenFile;
use crate::poll;

/// A generated look.
pub type ReadinessRoutine = Routine<ReadinessFn>;

/// The check of a description.
pub(super) struct Readiness {
    entry: AtomicPtr<()>,
    made: Once<ReadinessRoutine>,
}

/// All events.
const ANY: u32 = !0;

fn file<'a>(of: usize) -> &'a OpenFile {
    // SAFETY: `look` passes the address of a description that its caller borrows until this returns.
    unsafe { &*core::ptr::with_exposed_provenance(of) }
}

extern "sysv64" fn none(_of: usize) -> u32 {
    POLLNVAL
}

extern "sysv64" fn plain(of: usize) -> u32 {
    let of = file(of);
    of.file().poll(of, ANY, None)
}

/// Of a file that is always ready.
extern "sysv64" fn always(_of: usize) -> u32 {
    poll::events(true, true)
}

extern "sysv64" fn first(of: usize) -> u32 {
    if file(of).flags() & O_PATH != 0 {
        file(of).look.lead(none);
        return none(of);
    }
    if file(of).file().is_always_ready() {
        file(of).look.lead(always);
        return always(of);
    }
    file(of).look.lead(second);
    plain(of)
}

extern "sysv64" fn second(of: usize) -> u32 {
    file(of).make_look();
    plain(of)
}

impl Readiness {
    pub fn new() -> Readiness {
        Readiness {
            entry: AtomicPtr::new(first as ReadinessFn as *mut ()),
            made: Once::new(),
        }
    }

    /// Whether no routine was made.
    pub fn is_plain(&self) -> bool {
        self.made.get().is_none()
    }

    fn lead(&self, to: ReadinessFn) {
        self.entry.store(to as *mut (), Ordering::Release);
    }
}

/// Emits the way from a description, whose address is in rax, to the entry of its routine, into rax; to
/// `none` while it has none. The routine changes rax, rcx and rdx.
pub fn emit(d: &mut Draft, none: Label) {
    let entry = (offset_of!(OpenFile, look) + offset_of!(Readiness, entry)) as i32;
    // Generated code lies above the kernel's text.
    dynasm!(d ; .arch x64 ; mov rax, [rax + entry] ; cmp rax, CODE as i32 ; jb =>none);
}

/// Emits the test whether the file of a description, whose address is in rax, is always ready; to `other` if
/// that is not known.
pub fn emit_always(d: &mut Draft, other: Label) {
    let entry = (offset_of!(OpenFile, look) + offset_of!(Readiness, entry)) as i32;
    // The image is within the reach of 32 bits.
    let always = always as ReadinessFn as usize as i32;
    dynasm!(d ; .arch x64 ; cmp QWORD [rax + entry], always ; jne =>other);
}

impl OpenFile {
    /// All events that hold now, wanted or not; POLLNVAL for an `O_PATH` description. May sleep.
    #[inline(always)]
    pub fn ready_events(&self) -> u32 {
        let entry = self.look.entry.load(Ordering::Acquire);
        // SAFETY: the word holds one of the functions here, or the entry of a routine that is kept beside it.
        let look: ReadinessFn = unsafe { core::mem::transmute(entry) };
        look(core::ptr::from_ref(self).expose_provenance())
    }

    /// Whether a look has found before that it can always be read and written: a look finds nothing else.
    #[inline(always)]
    pub fn is_always_ready(&self) -> bool {
        self.look.entry.load(Ordering::Acquire) == always as ReadinessFn as *mut ()
    }

    /// As [`OpenFile::ready_events`], if that is a routine, which does not sleep.
    #[inline(always)]
    pub fn ready_events_now(&self) -> Option<u32> {
        let entry = self.look.entry.load(Ordering::Acquire);
        if entry.addr().wrapping_sub(CODE) >= CODE_LEN {
            return None;
        }
        // SAFETY: it is the entry of a routine that is kept beside the word.
        let look: ReadinessFn = unsafe { core::mem::transmute(entry) };
        Some(look(core::ptr::from_ref(self).expose_provenance()))
    }

    /// As [`OpenFile::ready_events_now`], also for a file that is always ready.
    #[inline(always)]
    pub fn ready_events_by_routine(&self) -> Option<u32> {
        match self.is_always_ready() {
            true => Some(poll::events(true, true)),
            false => self.ready_events_now(),
        }
    }

    /// The routine behind [`OpenFile::ready_events`], valid while interrupts stay off; nothing if there is
    /// none, or the description is closed.
    #[inline(always)]
    pub fn ready_events_weakly<'o>(
        of: &Weak<OpenFile>,
        _off: &'o IrqsOff,
    ) -> Option<impl Fn() -> u32 + Copy + use<'o>> {
        if of.strong_count() == 0 {
            return None;
        }
        let of = of.as_ptr();
        // SAFETY: the weak count keeps the memory. If the description ends meanwhile, these words stay as
        // they are: nothing is done to an atomic word at its end.
        let (entry, closed) = unsafe { (&(*of).look.entry, &(*of).closed) };
        let entry = entry.load(Ordering::Acquire);
        if entry.addr().wrapping_sub(CODE) >= CODE_LEN || closed.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: it is the entry of a routine that was kept beside the word when the description was there,
        // which was with interrupts off: so code and object stay meanwhile.
        let look: ReadinessFn = unsafe { core::mem::transmute(entry) };
        Some(move || look(0))
    }

    /// Has the routine made, if the file has one and there is room for it.
    #[cold]
    fn make_look(&self) {
        let stage = self.file.stage();
        let Ok(Some(made)) = self.file.synthesize_ready_check(self) else {
            return self.look.lead(plain);
        };
        // A faster thread has made the same.
        if self.look.made.set(made).is_ok()
            && let Some(made) = self.look.made.get()
        {
            self.look.lead(made.function());
            fence(Ordering::SeqCst);
            if self.file.stage() != stage {
                self.look.lead(plain);
            }
        }
    }

    /// The routine's assumptions have changed, and [`File::stage`](super::File::stage) with them: from now on
    /// the file is asked.
    pub(crate) fn use_plain_check(&self) {
        fence(Ordering::SeqCst);
        self.look.lead(plain);
    }
}
