//! The single server: every operation on an object runs in one thread, its owner's. Kept for comparison.
//!
//! *Interface*: [`SingleServer::request`] from any thread; [`SingleServer::serve`] from the owner, whenever
//! it runs.
//!
//! Source: Massalin and Pu's scheme in the form that Fiasco first had (Hohmuth and Härtig 2001, section 4.4):
//! a stack instead of a queue of requests, so the most urgent is served first, and requesters that lend their
//! time to the owner until they are served. Each operation costs a switch to the owner and back (their table
//! 2: 607 cycles against 245 of the helping lock), which is why [`crate::helping`] replaced it; the kernel
//! does not use it.
//!
//! Progress: as the helping lock: the owner runs whenever a requester would. Memory order: the exchange that
//! publishes a request releases it to the owner, the store of `done` releases the result.

use core::ptr;
use sync::callout;
use sync::primitive::UnsafeCell;
use sync::primitive::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::primitive::constructor;

struct Request<T> {
    next: AtomicUsize,
    requester: usize,
    done: AtomicBool,
    /// The work: a function that knows the type of its argument.
    run: unsafe fn(*mut (), &mut T),
    work: *mut (),
}

/// An object and its owner.
pub struct SingleServer<T> {
    requests: AtomicUsize,
    owner: AtomicUsize,
    data: UnsafeCell<T>,
}

// SAFETY: only the owner touches the data.
unsafe impl<T: Send> Sync for SingleServer<T> {}
// SAFETY: it owns its data.
unsafe impl<T: Send> Send for SingleServer<T> {}

impl<T> SingleServer<T> {
    constructor! {
        /// An object that the thread with the handle `owner` serves.
        pub fn new(data: T, owner: usize) -> SingleServer<T> {
            SingleServer {
                requests: AtomicUsize::new(0),
                owner: AtomicUsize::new(owner),
                data: UnsafeCell::new(data),
            }
        }
    }

    /// Has the owner do `work`, lending it time until it is done.
    pub fn request<R: Send, F: FnOnce(&mut T) -> R + Send>(&self, work: F) -> R {
        struct Work<F, R>(Option<F>, Option<R>);
        /// # Safety
        /// `at` is a `Work<F, R>` that no other party touches.
        unsafe fn run<T, R, F: FnOnce(&mut T) -> R>(at: *mut (), data: &mut T) {
            // SAFETY: the caller's promise.
            let work = unsafe { &mut *at.cast::<Work<F, R>>() };
            work.1 = work.0.take().map(|f| f(data));
        }
        let mut work: Work<F, R> = Work(Some(work), None);
        let c = callout::get();
        let request = Request::<T> {
            next: AtomicUsize::new(0),
            requester: (c.current)(),
            done: AtomicBool::new(false),
            run: run::<T, R, F>,
            work: ptr::from_mut(&mut work).cast(),
        };
        let address = ptr::from_ref(&request).expose_provenance();
        let mut old = self.requests.load(Ordering::Relaxed);
        loop {
            request.next.store(old, Ordering::Relaxed);
            match self.requests.compare_exchange_weak(
                old,
                address,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        let owner = self.owner.load(Ordering::Relaxed);
        (c.resume)(owner);
        while !request.done.load(Ordering::Acquire) {
            if !(c.donate)(owner) {
                // It runs on another CPU. The token comes with the result.
                (c.suspend)();
            }
        }
        match work.1 {
            Some(result) => result,
            None => unreachable!("a request is done after it ran"),
        }
    }

    /// Serves the requests, the latest first; returns their number.
    ///
    /// # Safety
    /// Only the owner calls this, and not from within work.
    pub unsafe fn serve(&self) -> usize {
        let mut served = 0;
        let mut top = self.requests.load(Ordering::Acquire);
        while top != 0 {
            // SAFETY: a requester waits for its request to be done, and only we take requests off.
            let request = unsafe { &*ptr::with_exposed_provenance::<Request<T>>(top) };
            let next = request.next.load(Ordering::Relaxed);
            if let Err(now) =
                self.requests
                    .compare_exchange(top, next, Ordering::AcqRel, Ordering::Acquire)
            {
                top = now;
                continue;
            }
            // SAFETY: we are the owner; the requester does not touch its work until it is done.
            self.data
                .with_mut(|data| unsafe { (request.run)(request.work, &mut *data) });
            let requester = request.requester;
            // The last access: the requester continues, and its request ends.
            request.done.store(true, Ordering::Release);
            (callout::get().resume)(requester);
            served += 1;
            top = self.requests.load(Ordering::Acquire);
        }
        served
    }
}
