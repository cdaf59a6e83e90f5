//! Threads of the host as the kernel's: a handle and a token each.

use std::sync::Once;
use std::thread::{self, Thread};
use sync::callout::{self, Callouts};

thread_local! {
    /// Leaked: a waker may hold it after the thread is gone, as with type-stable thread table entries.
    static ME: &'static Thread = Box::leak(Box::new(thread::current()));
}

static CALLOUTS: Callouts = Callouts {
    current: || ME.with(|me| std::ptr::from_ref(*me).expose_provenance()),
    suspend: thread::park,
    resume: |handle| {
        // SAFETY: `current` gave it, and leaked it.
        unsafe { &*std::ptr::with_exposed_provenance::<Thread>(handle) }.unpark();
    },
    yield_now: thread::yield_now,
    ..callout::DEFAULT
};

/// Links them.
pub fn link() {
    static LINK: Once = Once::new();
    LINK.call_once(|| callout::link(&CALLOUTS));
}
