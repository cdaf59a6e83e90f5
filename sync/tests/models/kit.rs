//! The parts that the models are made of.
//!
//! *Interface*: [`model`] tries all interleavings; [`link_threads`] gives loom's threads as the kernel's;
//! [`beside`], [`leak`], [`free`]; [`Count`] is touched by one at a time, or loom tells.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use std::ptr::NonNull;
use sync::callout::{self, Callouts};

/// All interleavings with at most `preemptions` forced switches (`LOOM_MAX_PREEMPTIONS` overrides).
pub fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 20_000;
    let executions = Counter::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = executions.clone();
    builder.check(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        f();
    });
    println!(
        "model {}: {} executions",
        std::thread::current().name().unwrap_or("?"),
        executions.load(std::sync::atomic::Ordering::Relaxed)
    );
}

pub type Counter = std::sync::Arc<std::sync::atomic::AtomicUsize>;

pub fn leak<T>(value: T) -> NonNull<T> {
    NonNull::from(Box::leak(Box::new(value)))
}

/// Drops a leaked value.
pub fn free<T>(at: NonNull<T>) {
    // SAFETY: the tests free what they leaked, once, when all threads have ended.
    drop(unsafe { Box::from_raw(at.as_ptr()) });
}

/// Lets another thread do something with what is shared.
pub fn beside<T: 'static, R: 'static>(
    shared: &Arc<T>,
    act: impl FnOnce(&T) -> R + 'static,
) -> thread::JoinHandle<R> {
    let shared = shared.clone();
    thread::spawn(move || act(&shared))
}

loom::thread_local! {
    /// A signal waits for this thread.
    pub static SIGNALLED: core::cell::Cell<bool> = core::cell::Cell::new(false);
}

/// Threads with a token each, as the thread room provides.
pub fn link_threads() {
    fn current() -> usize {
        loom::thread_local! {
            static ME: core::cell::Cell<usize> = core::cell::Cell::new(0);
        }
        ME.with(|me| {
            if me.get() == 0 {
                // Leaked: a waker may hold it after the thread is gone, as with type-stable thread table
                // entries.
                me.set(Box::leak(Box::new(thread::current())) as *const thread::Thread as usize);
            }
            me.get()
        })
    }
    fn resume(thread: usize) {
        // SAFETY: leaked by `current`.
        unsafe { &*(thread as *const thread::Thread) }.unpark();
    }
    static CALLOUTS: Callouts = Callouts {
        current,
        suspend: thread::park,
        resume,
        interrupted: || SIGNALLED.with(core::cell::Cell::get),
        yield_now: thread::yield_now,
        cpu: || 0,
        irq_save: || 0,
        irq_restore: |_| {},
        ..callout::DEFAULT
    };
    callout::link(&CALLOUTS);
}

/// Something that loom sees being touched by two at once.
pub struct Count(UnsafeCell<usize>);

// SAFETY: that one at a time touches it is what the models are about; loom checks it.
unsafe impl Sync for Count {}
// SAFETY: as above.
unsafe impl Send for Count {}

impl Count {
    pub fn new() -> Count {
        Count(UnsafeCell::new(0))
    }
    pub fn add(&self) {
        // SAFETY: as above.
        self.0.with_mut(|n| unsafe { *n += 1 });
    }
    pub fn get(&self) -> usize {
        // SAFETY: as above.
        self.0.with(|n| unsafe { *n })
    }
}
