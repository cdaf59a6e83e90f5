//! Threads of the host as the kernel's: a handle and a token each.

use std::sync::{Mutex, Once};
use std::thread::{self, Thread};
use sync::callout::{self, Callouts};

/// All that ever were: a waker may hold one after the thread is gone, as with type-stable thread table
/// entries.
static ALL: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());

thread_local! {
    static ME: &'static Thread = {
        let me: &'static Thread = Box::leak(Box::new(thread::current()));
        ALL.lock().expect("nobody panics with it").push(me);
        me
    };
}

/// The callouts that `link` links.
pub static CALLOUTS: Callouts = Callouts {
    current: || ME.with(|me| std::ptr::from_ref(*me).expose_provenance()),
    suspend: thread::park,
    resume: |handle| {
        // A thread that waits since before these were linked has 0, and looks again by itself.
        if handle != 0 {
            // SAFETY: `current` gave it, and it stays.
            unsafe { &*std::ptr::with_exposed_provenance::<Thread>(handle) }.unpark();
        }
    },
    yield_now: thread::yield_now,
    ..callout::DEFAULT
};

/// Links them.
pub fn link() {
    static LINK: Once = Once::new();
    LINK.call_once(|| callout::link(&CALLOUTS));
}
