//! Models of what serializes: a monitor that is tried, notes of handlers.

use crate::kit::Count;
use crate::{link_threads, model};
use loom::sync::Arc;
use loom::thread;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use sync::epoch;

#[test]
fn a_monitor_that_is_tried_is_taken_once() {
    model(3, || {
        let both = Arc::new((sync::Monitor::new(()), Count::new()));
        let other = {
            let both = both.clone();
            thread::spawn(move || {
                let guard = both.0.try_lock();
                guard.map(|_guard| both.1.add()).is_some()
            })
        };
        let mine = {
            let guard = both.0.try_lock();
            guard.map(|_guard| both.1.add()).is_some()
        };
        let theirs = other.join().unwrap();
        assert!(mine || theirs);
        assert_eq!(both.1.get(), usize::from(mine) + usize::from(theirs));
    });
}

/// A handler on CPU 1 retires what a thread on CPU 0 may still be reading.
#[test]
fn a_handler_retires_without_memory() {
    static FREED: AtomicUsize = AtomicUsize::new(0);
    link_threads();
    model(3, || {
        FREED.store(0, Ordering::SeqCst);
        let domain: Arc<epoch::Domain<2>> = Arc::new(epoch::Domain::new());
        let published = Arc::new(loom::sync::atomic::AtomicUsize::new(1));
        domain.idle_exit(0);
        domain.idle_exit(1);
        let handler = {
            let (domain, published) = (domain.clone(), published.clone());
            thread::spawn(move || {
                published.store(0, Ordering::Release);
                let note = crate::leak(epoch::Retired::new());
                let argument = note.as_ptr().expose_provenance();
                // SAFETY: the note is freed by the callback.
                unsafe {
                    domain.retire_with(
                        note,
                        |note| {
                            FREED.fetch_add(1, Ordering::SeqCst);
                            let note = std::ptr::with_exposed_provenance_mut(note);
                            crate::free(NonNull::<epoch::Retired>::new(note).unwrap());
                        },
                        argument,
                    );
                }
                domain.quiescent(1);
                domain.collect();
            })
        };
        domain.quiescent(0);
        if published.load(Ordering::Acquire) == 1 {
            thread::yield_now();
            assert_eq!(FREED.load(Ordering::SeqCst), 0, "freed under a reader");
        }
        domain.quiescent(0);
        handler.join().unwrap();
        domain.quiescent(0);
        domain.quiescent(1);
        domain.collect();
        assert_eq!(FREED.load(Ordering::SeqCst), 1);
    });
}

/// After `synchronize`, everything that was retired before is freed, by this or another thread.
#[test]
fn a_synchronizer_waits_for_callbacks_under_way() {
    static FREED: AtomicUsize = AtomicUsize::new(0);
    fn freed(_: usize) {
        thread::yield_now();
        FREED.fetch_add(1, Ordering::SeqCst);
    }
    link_threads();
    model(3, || {
        FREED.store(0, Ordering::SeqCst);
        let domain: Arc<epoch::Domain<2>> = Arc::new(epoch::Domain::new());
        domain.idle_exit(0);
        let mut note = epoch::Retired::new();
        // SAFETY: the note stays until its callback has run.
        unsafe { domain.retire_with(NonNull::from(&mut note), freed, 0) };
        let other = {
            let domain = domain.clone();
            thread::spawn(move || domain.collect())
        };
        domain.synchronize();
        assert_eq!(FREED.load(Ordering::SeqCst), 1, "begun with, and not freed");
        other.join().unwrap();
    });
}

/// A callback may synchronize: it waits for no callback, its own least of all.
#[test]
fn a_callback_may_synchronize() {
    static FREED: AtomicUsize = AtomicUsize::new(0);
    fn synchronize(domain: usize) {
        // SAFETY: the model keeps its domain until its threads have ended.
        unsafe { &*std::ptr::with_exposed_provenance::<epoch::Domain<2>>(domain) }.synchronize();
        FREED.fetch_add(1, Ordering::SeqCst);
    }
    link_threads();
    model(3, || {
        FREED.store(0, Ordering::SeqCst);
        let domain: Arc<epoch::Domain<2>> = Arc::new(epoch::Domain::new());
        let at = std::ptr::from_ref(&*domain).expose_provenance();
        let mut notes = [epoch::Retired::new(), epoch::Retired::new()];
        for note in &mut notes {
            // SAFETY: the notes stay until both callbacks have run.
            unsafe { domain.retire_with(NonNull::from(note), synchronize, at) };
        }
        let other = {
            let domain = domain.clone();
            thread::spawn(move || domain.collect())
        };
        domain.synchronize();
        assert_eq!(FREED.load(Ordering::SeqCst), 2);
        other.join().unwrap();
    });
}
