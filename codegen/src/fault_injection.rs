//! Fault injection: who may answer that there is no room asks here whether to.
//!
//! *Interface*: [`link`] and [`unlink`] by the room that plans them; [`refused`] before each allocation whose
//! failure is a value. Unlinked, it is a load and a comparison.

use core::sync::atomic::{AtomicPtr, Ordering};

/// The deciding function: a `fn() -> bool`.
static ASK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// From now on `ask` says of each question whether it is refused. It is called with interrupts on or off.
pub fn link(ask: fn() -> bool) {
    ASK.store(ask as *mut (), Ordering::Release);
}

/// Nothing is refused on purpose any more.
pub fn unlink() {
    ASK.store(core::ptr::null_mut(), Ordering::Release);
}

/// Whether the running thread is to be told that there is no room.
#[inline]
pub fn refused() -> bool {
    let ask = ASK.load(Ordering::Relaxed);
    !ask.is_null() && asked(ask)
}

#[cold]
fn asked(ask: *mut ()) -> bool {
    // SAFETY: not null, so `link` made it from a `fn() -> bool`.
    let ask: fn() -> bool = unsafe { core::mem::transmute(ask) };
    ask()
}
