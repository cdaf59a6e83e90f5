//! Inlining: whether links stand in line or are called in generated code, where both ways are possible.
//!
//! *Interface*: [`disable_inlining`] once, before code with links is made: every link becomes a call then.
//! The emitters are the same, so that two kernels differ in nothing but the calls, with what is saved around
//! them. [`is_disabled`] is for the assembly.
//!
//! Source: dissertation, section 3.2.2 (what collapsing layers gains).

/// Has every link called that is put into code from now on.
pub fn disable_inlining() {
    chosen::set();
}

/// Whether links are called.
pub(super) fn is_disabled() -> bool {
    chosen::get()
}

#[cfg(not(test))]
mod chosen {
    use core::sync::atomic::{AtomicBool, Ordering};

    static CALLED: AtomicBool = AtomicBool::new(false);

    pub(super) fn set() {
        CALLED.store(true, Ordering::Relaxed);
    }

    pub(super) fn get() -> bool {
        CALLED.load(Ordering::Relaxed)
    }
}

/// In tests a choice of each thread, which makes its own code.
#[cfg(test)]
pub mod chosen {
    use std::cell::Cell;

    thread_local! {
        static CALLED: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn set() {
        CALLED.set(true);
    }

    pub(super) fn get() -> bool {
        CALLED.get()
    }

    /// Does `f` while links are called.
    pub fn without_inlining(f: impl FnOnce()) {
        CALLED.set(true);
        f();
        CALLED.set(false);
    }
}
