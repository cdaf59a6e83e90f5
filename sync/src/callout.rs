//! The operations on threads and CPUs that `sync` needs, as callouts that a higher room links at boot.
//!
//! *Interface*: [`link`] once; before that the default actions hold, which are those of a machine with one
//! thread: `suspend` returns at once (a caller must always check its condition again), `resume` does nothing.
//! Source: dissertation, section 4.1.3 (default actions of unconnected callouts).

use core::sync::atomic::{AtomicPtr, Ordering};

/// The callouts. All are called in thread context except `resume`, `soon`, `cpu`, `irq_save` and
/// `irq_restore`, which an interrupt handler may cause as well.
pub struct Callouts {
    /// A handle of the running thread, valid as an argument of `resume` for ever
    /// (thread table entries are type-stable; a stale one causes a spurious wake-up at worst).
    pub current: fn() -> usize,
    /// Consumes the running thread's token, or sleeps until there is one. May return spuriously.
    pub suspend: fn(),
    /// Gives a thread its token and wakes it if it sleeps.
    pub resume: fn(usize),
    /// Whether a signal or kill waits for the running thread.
    pub interrupted: fn() -> bool,
    /// Lets other ready threads run.
    pub yield_now: fn(),
    /// Number of the running CPU. Stable only while interrupts are off.
    pub cpu: fn() -> usize,
    /// Turns interrupts off; returns what `irq_restore` needs.
    pub irq_save: fn() -> usize,
    /// Restores the interrupt state that `irq_save` returned.
    pub irq_restore: fn(usize),
    /// Makes another CPU, by its number, pass a quiescent point soon (an interrupt).
    pub nudge: fn(usize),
    /// Whether the running thread has turns of its own. An idle thread has none, and work that it has begun
    /// may wait for an unlimited time, so it does only what it must.
    pub has_turns: fn() -> bool,
    /// The first callback waits for a grace period: some thread must soon call `epoch::synchronize`. Also
    /// from interrupt handlers.
    pub soon: fn(),
    /// Lends the running thread's time to another: that one runs here, in the caller's place, until it gives
    /// the CPU up or the caller's turn comes again. False when it cannot run here now: it sleeps, or is
    /// another CPU's, where it runs or is asked to run next.
    pub donate: fn(usize) -> bool,
    /// Whether this thread runs on another CPU at this moment.
    pub runs_elsewhere: fn(usize) -> bool,
    /// The handle of the thread whose kernel stack contains, or contained, this address; 0 when it is not in
    /// a thread's stack.
    pub thread_of_stack: fn(usize) -> usize,
}

#[cfg(any(test, loom))]
fn relax() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

#[cfg(not(any(test, loom)))]
fn relax() {
    core::hint::spin_loop();
}

/// The default actions.
pub const DEFAULT: Callouts = Callouts {
    current: || 0,
    suspend: relax,
    resume: |_| {},
    interrupted: || false,
    yield_now: relax,
    cpu: || 0,
    irq_save: || 0,
    irq_restore: |_| {},
    nudge: |_| {},
    has_turns: || true,
    soon: || {},
    donate: |_| false,
    runs_elsewhere: |_| false,
    thread_of_stack: |_| 0,
};

static UNLINKED: Callouts = DEFAULT;

static LINKED: AtomicPtr<Callouts> = AtomicPtr::new((&raw const UNLINKED).cast_mut());

/// Links the callouts. Later calls replace earlier ones; a caller that is under way may still use the old.
pub fn link(callouts: &'static Callouts) {
    LINKED.store(core::ptr::from_ref(callouts).cast_mut(), Ordering::Release);
}

/// The linked callouts, or the default actions.
#[inline]
pub fn get() -> &'static Callouts {
    // SAFETY: it begins with a static's address, and only `link` stores here, which takes a `&'static`.
    unsafe { &*LINKED.load(Ordering::Acquire) }
}

/// Runs `f` with interrupts off on this CPU.
pub fn without_interrupts<R>(f: impl FnOnce() -> R) -> R {
    let c = get();
    let state = (c.irq_save)();
    let result = f();
    (c.irq_restore)(state);
    result
}
