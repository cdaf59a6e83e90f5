//! The work server: a caller does its work itself, or leaves it to the active worker if there is one.
//!
//! *Interface*: [`WorkServer::try_invoke`] when idle; [`WorkServer::submit`] a request in any case, from
//! anywhere, handlers included; [`WorkServer::serve`] for the server thread that [`WorkServer::new`]'s `hire`
//! starts. [`WorkServer::invoke`] is `submit` of a closure.
//!
//! Source: dissertation, section 5.1.4, the last of the five points: a busy flag; a caller that finds it set
//! enqueues the work; a worker that finishes and finds more work hires a server, which lives until there is
//! none. Idle, busy and the chain of requests are one word here, so a worker cannot leave while another
//! caller is enqueuing.
//!
//! Progress: lock-free: every caller does its work or leaves it within a few steps; left work waits for the
//! active worker. Memory order: every change of the word is acquire and release, so each piece of work sees
//! the earlier ones.

use alloc::boxed::Box;
use core::ptr::{self, NonNull};
use sync::primitive::UnsafeCell;
use sync::primitive::atomic::{AtomicUsize, Ordering};
use sync::primitive::constructor;

const IDLE: usize = 0;
const BUSY: usize = 1;

/// Work to be done. Put it first in a `repr(C)` structure that holds the data of the work.
pub struct Request<T> {
    /// The request before this one, or [`BUSY`].
    next: AtomicUsize,
    /// Does it. The request is given back to it: it may free it, or tell its owner that it is done.
    run: unsafe fn(NonNull<Request<T>>, &mut T),
}

impl<T> Request<T> {
    /// A request that `run` serves.
    pub fn new(run: unsafe fn(NonNull<Request<T>>, &mut T)) -> Self {
        Request {
            next: AtomicUsize::new(0),
            run,
        }
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done here.
    Done,
    /// The worker will do it later.
    Queued,
}

/// Data and the work on it.
pub struct WorkServer<T: 'static> {
    /// [`IDLE`], [`BUSY`], or the address of the latest request (while a worker is busy).
    state: AtomicUsize,
    hire: fn(&WorkServer<T>),
    data: UnsafeCell<T>,
}

// SAFETY: only the party that moved the word from IDLE touches the data, until it moves it back.
unsafe impl<T: Send> Sync for WorkServer<T> {}
// SAFETY: it owns its data.
unsafe impl<T: Send> Send for WorkServer<T> {}

impl<T> WorkServer<T> {
    constructor! {
        /// Idle. `hire` sees to it that some thread calls [`serve`](WorkServer::serve) soon, or calls it
        /// itself.
        pub fn new(data: T, hire: fn(&WorkServer<T>)) -> WorkServer<T> {
            WorkServer { state: AtomicUsize::new(IDLE), hire, data: UnsafeCell::new(data) }
        }
    }

    /// Does `work` here if no worker is busy; gives it back otherwise.
    ///
    /// # Errors
    /// `work`, when a worker is busy.
    pub fn try_invoke<R, F: FnOnce(&mut T) -> R>(&self, work: F) -> Result<R, F> {
        if self
            .state
            .compare_exchange(IDLE, BUSY, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return Err(work);
        }
        // SAFETY: we moved the word from IDLE.
        let result = self.data.with_mut(|data| work(unsafe { &mut *data }));
        self.leave();
        Ok(result)
    }

    /// Does the request here if no worker is busy, else leaves it.
    ///
    /// # Safety
    /// The request is in no chain, and is the server's until its `run` is called.
    pub unsafe fn submit(&self, request: NonNull<Request<T>>) -> Outcome {
        let address = request.as_ptr().expose_provenance();
        let mut old = self.state.load(Ordering::Relaxed);
        loop {
            // SAFETY: ours until the exchange succeeds.
            unsafe { request.as_ref() }
                .next
                .store(old, Ordering::Relaxed);
            let new = if old == IDLE { BUSY } else { address };
            match self
                .state
                .compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(IDLE) => break,
                Ok(_) => return Outcome::Queued,
                Err(now) => old = now,
            }
        }
        // SAFETY: we moved the word from IDLE, and the request is in no chain.
        unsafe { self.run(request) };
        self.leave();
        Outcome::Done
    }

    /// Does `work` here if no worker is busy, else leaves it, which needs memory.
    pub fn invoke(&self, work: impl FnOnce(&mut T) + Send + 'static) -> Outcome {
        match self.try_invoke(work) {
            Ok(()) => Outcome::Done,
            Err(work) => {
                let boxed = Box::new(Closure {
                    request: Request::new(run_closure::<T>),
                    work: Box::new(work),
                });
                // SAFETY: a fresh box, which `run_closure` takes back.
                unsafe { self.submit(NonNull::from(Box::leak(boxed)).cast()) }
            }
        }
    }

    /// Does the work that was left, until there is none; for the thread that `hire` found, once for each call
    /// of `hire`.
    pub fn serve(&self) {
        loop {
            let chain = self.state.swap(BUSY, Ordering::AcqRel);
            self.run_chain(chain);
            if self
                .state
                .compare_exchange(BUSY, IDLE, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }

    /// After own work: idle, or a server takes over.
    fn leave(&self) {
        if self
            .state
            .compare_exchange(BUSY, IDLE, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            (self.hire)(self);
        }
    }

    /// # Safety
    /// The caller is the busy one, and the request its own.
    unsafe fn run(&self, request: NonNull<Request<T>>) {
        // SAFETY: the caller's promise.
        let run = unsafe { request.as_ref() }.run;
        // SAFETY: as above; only the busy one touches the data.
        self.data
            .with_mut(|data| unsafe { run(request, &mut *data) });
    }

    /// Runs a chain that was taken whole, the oldest first.
    fn run_chain(&self, mut chain: usize) {
        let request = |address: usize| NonNull::new(ptr::with_exposed_provenance_mut(address));
        let mut oldest = BUSY;
        while chain != BUSY {
            let Some(at) = request(chain) else { break };
            // SAFETY: taken off the word by the busy one; the requests are ours.
            let at: &Request<T> = unsafe { at.as_ref() };
            let next = at.next.load(Ordering::Relaxed);
            at.next.store(oldest, Ordering::Relaxed);
            oldest = chain;
            chain = next;
        }
        while oldest != BUSY {
            let Some(at) = request(oldest) else { break };
            // SAFETY: as above; not touched after it has run.
            unsafe {
                let at: NonNull<Request<T>> = at;
                oldest = at.as_ref().next.load(Ordering::Relaxed);
                self.run(at);
            }
        }
    }

    /// Takes the data out again.
    pub fn into_inner(self) -> T {
        self.data.into_inner()
    }
}

#[repr(C)]
struct Closure<T> {
    request: Request<T>,
    work: Box<dyn FnOnce(&mut T) + Send>,
}

/// # Safety
/// The request is the first field of a leaked [`Closure`].
unsafe fn run_closure<T>(request: NonNull<Request<T>>, data: &mut T) {
    // SAFETY: the caller's promise.
    let closure = unsafe { Box::from_raw(request.cast::<Closure<T>>().as_ptr()) };
    (closure.work)(data);
}
