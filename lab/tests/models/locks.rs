//! Models of what serializes: helping lock, semaphore, monitor with conditions, work server, single server.

use crate::kit::Count;
use crate::{link_threads, model};
use lab::helping::Switch;
use lab::single_server::SingleServer;
use lab::work_server::{Outcome, Request};
use lab::{BinarySemaphore, Helping, HelpingLock, WorkServer};
use loom::sync::Arc;
use loom::thread;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_helping_lock_excludes_and_is_passed_on() {
    link_threads();
    model(3, || {
        let both = Arc::new((HelpingLock::new(), Count::new()));
        let add = |both: &(HelpingLock, Count), switch| {
            both.0.lock();
            both.1.add();
            both.0.unlock(switch);
        };
        let threads: Vec<_> = [Switch::Next, Switch::Scheduler]
            .into_iter()
            .map(|switch| {
                let both = both.clone();
                thread::spawn(move || add(&both, switch))
            })
            .collect();
        add(&both, Switch::Stay);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(!both.0.is_held() && both.0.try_lock());
        assert!(!both.0.try_lock());
        assert_eq!(both.1.get(), 3);
    });
}

#[test]
fn a_helping_monitor_waits_for_its_condition() {
    link_threads();
    model(3, || {
        let both = Arc::new((Helping::new(0), BinarySemaphore::new(false)));
        let consumer = {
            let both = both.clone();
            thread::spawn(move || {
                let mut inside = both.0.enter();
                while *inside == 0 {
                    inside = Helping::wait(inside, &both.1);
                }
                *inside
            })
        };
        *both.0.enter() = 7;
        both.1.up();
        assert_eq!(consumer.join().unwrap(), 7);
        assert!(both.0.try_enter().is_some());
    });
}

#[test]
fn a_binary_semaphore_lets_one_in() {
    link_threads();
    model(3, || {
        let both = Arc::new((BinarySemaphore::new(true), Count::new()));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let both = both.clone();
                thread::spawn(move || {
                    both.0.down();
                    both.1.add();
                    both.0.up();
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(both.1.get(), 2);
        assert!(both.0.try_down() && !both.0.try_down());
    });
}

/// A request that counts how often it was done.
#[repr(C)]
struct Work {
    request: Request<Count>,
    done: AtomicUsize,
}

/// # Safety
/// The request is the first field of a `Work`.
unsafe fn run(request: NonNull<Request<Count>>, data: &mut Count) {
    data.add();
    // SAFETY: the caller's promise.
    unsafe { request.cast::<Work>().as_ref() }
        .done
        .fetch_add(1, Ordering::Relaxed);
}

#[test]
fn work_is_done_once_by_whoever_is_there() {
    model(3, || {
        let server = Arc::new(WorkServer::new(Count::new(), WorkServer::serve));
        let work: Vec<_> = (0..3)
            .map(|_| {
                crate::leak(Work {
                    request: Request::new(run),
                    done: AtomicUsize::new(0),
                })
            })
            .collect();
        let threads: Vec<_> = work[..2]
            .iter()
            .map(|work| {
                let (server, work) = (server.clone(), sync::Handle(*work));
                thread::spawn(move || {
                    let work = work;
                    // SAFETY: the work lives until the end of the model, and is submitted once.
                    unsafe { server.submit(work.0.cast()) }
                })
            })
            .collect();
        // SAFETY: as above.
        let mine = unsafe { server.submit(work[2].cast()) };
        let outcomes: Vec<_> = threads
            .into_iter()
            .map(|t| t.join().unwrap())
            .chain([mine])
            .collect();
        assert!(outcomes.contains(&Outcome::Done));
        // Nothing is left when all have returned.
        assert_eq!(server.try_invoke(|count| count.get()).ok(), Some(3));
        for work in work {
            // SAFETY: it lives.
            assert_eq!(unsafe { work.as_ref() }.done.load(Ordering::Relaxed), 1);
            crate::free(work);
        }
    });
}

#[test]
fn closures_are_done_in_order_of_one_thread() {
    model(3, || {
        let server = Arc::new(WorkServer::new(Vec::new(), WorkServer::serve));
        let other = {
            let server = server.clone();
            thread::spawn(move || {
                server.invoke(|list: &mut Vec<u32>| list.push(1));
                server.invoke(|list| list.push(2));
            })
        };
        server.invoke(|list| list.push(3));
        other.join().unwrap();
        let server = Arc::try_unwrap(server).ok().unwrap();
        let list = server.into_inner();
        assert!(
            [[1, 2, 3], [1, 3, 2], [3, 1, 2]].contains(&[list[0], list[1], list[2]]),
            "{list:?}"
        );
    });
}

#[test]
fn a_single_server_does_what_is_requested() {
    link_threads();
    model(3, || {
        let server = Arc::new(SingleServer::new(0, (sync::callout::get().current)()));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let server = server.clone();
                thread::spawn(move || {
                    server.request(|n| {
                        *n += 1;
                        *n
                    })
                })
            })
            .collect();
        let mut served = 0;
        while served < 2 {
            // SAFETY: this thread is the owner.
            match unsafe { server.serve() } {
                0 => thread::park(),
                n => served += n,
            }
        }
        let mut results: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        results.sort_unstable();
        assert_eq!(results, [1, 2]);
    });
}
