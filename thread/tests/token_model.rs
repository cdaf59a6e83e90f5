//! Every interleaving of the token protocol, checked with loom: no wake-up is lost, and a sleeper is put back
//! exactly once.

#[allow(dead_code)]
#[path = "../src/tte/flags.rs"]
mod flags;
mod primitive {
    pub use loom::sync::atomic::{AtomicU32, Ordering};
}
#[allow(dead_code)]
#[path = "../src/tte/token.rs"]
mod token;

use flags::{ASLEEP, GO, HELD, NEW, PENDING, POKED, STEP, STOPME, STOPPED, TOKEN};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;
use token::{
    Given, Taken, begin_step, end_step, give, hold, hold_self, poke, release, rouse, start, take,
    take_or_sleep,
};

/// All interleavings with at most two preemptions.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// As `resume` does it: the frequent case first.
fn resume(state: &AtomicU32) -> bool {
    rouse(state) || give(state, 0) == Given::Wake
}

/// The sleeper takes or sleeps once; `wakers` give a token each. Each result `Wake` counts.
fn sleeper_and_wakers(wakers: usize) {
    check(move || {
        let state = Arc::new(AtomicU32::new(0));
        let wakes = Arc::new(AtomicU32::new(0));
        let condition = Arc::new(AtomicBool::new(false));
        let handles: Vec<_> = (0..wakers)
            .map(|_| {
                let (state, wakes, condition) = (state.clone(), wakes.clone(), condition.clone());
                thread::spawn(move || {
                    condition.store(true, Ordering::Release);
                    if resume(&state) {
                        wakes.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        // As `wait_until`: look, then suspend, until the condition holds.
        let mut slept = 0;
        while !condition.load(Ordering::Acquire) {
            if take_or_sleep(&state) == Taken::Sleeps {
                slept = 1;
                break;
            }
        }
        for handle in handles {
            handle.join().unwrap();
        }
        let state = state.load(Ordering::Relaxed);
        assert_eq!(
            wakes.load(Ordering::Relaxed),
            slept,
            "put back exactly once"
        );
        assert_eq!(state & ASLEEP, 0, "nobody sleeps on a given token");
    });
}

#[test]
fn one_waker() {
    sleeper_and_wakers(1);
}

#[test]
fn two_wakers() {
    sleeper_and_wakers(2);
}

#[test]
fn a_poke_does_not_end_a_sleep_and_loses_no_token() {
    check(|| {
        let state = Arc::new(AtomicU32::new(0));
        let wakes = Arc::new(AtomicU32::new(0));
        let spawn = |f: fn(&AtomicU32) -> Given| {
            let (state, wakes) = (state.clone(), wakes.clone());
            thread::spawn(move || {
                if f(&state) == Given::Wake {
                    wakes.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let poker = spawn(poke);
        let waker = spawn(|state| match resume(state) {
            true => Given::Wake,
            false => Given::Token,
        });
        let taken = take_or_sleep(&state);
        let sleeps = taken == Taken::Sleeps;
        poker.join().unwrap();
        waker.join().unwrap();
        let now = state.load(Ordering::Relaxed);
        assert_eq!(now & PENDING, PENDING);
        if sleeps {
            assert_eq!(wakes.load(Ordering::Relaxed), 1);
            if now & POKED != 0 {
                // Woken for the procedure alone: going back to sleep finds the token.
                assert_eq!(now & TOKEN, TOKEN);
                assert_eq!(take_or_sleep(&state), Taken::Token);
            }
        } else if taken == Taken::Work {
            assert_eq!(now & (POKED | TOKEN), POKED | TOKEN);
            assert_eq!(wakes.load(Ordering::Relaxed), 0);
        } else {
            assert_eq!(wakes.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn a_new_thread_is_started_once_and_tokens_do_not_start_it() {
    check(|| {
        let state = Arc::new(AtomicU32::new(NEW | ASLEEP));
        let starts = Arc::new(AtomicU32::new(0));
        let handles: Vec<_> = (0..2)
            .map(|i| {
                let (state, starts) = (state.clone(), starts.clone());
                thread::spawn(move || {
                    let given = if i == 0 {
                        start(&state)
                    } else {
                        give(&state, 0)
                    };
                    if given == Given::Wake {
                        starts.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        let now = state.load(Ordering::Relaxed);
        assert_eq!(now & (NEW | ASLEEP), 0);
        assert_eq!(now & TOKEN, TOKEN);
    });
}

/// A held thread that is about to rest, and several releases: it never stays at rest, and is woken at most
/// once.
fn rest_and_releases(releasers: usize) {
    check(move || {
        let state = Arc::new(AtomicU32::new(0));
        hold(&state);
        let wakes = Arc::new(AtomicU32::new(0));
        let handles: Vec<_> = (0..releasers)
            .map(|_| {
                let (state, wakes) = (state.clone(), wakes.clone());
                thread::spawn(move || {
                    if release(&state) == Given::Wake {
                        wakes.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        state.fetch_or(STOPPED, Ordering::AcqRel);
        let mut slept = false;
        while !slept && state.load(Ordering::Acquire) & HELD != 0 {
            slept = take_or_sleep(&state) == Taken::Sleeps;
        }
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(wakes.load(Ordering::Relaxed), u32::from(slept));
        assert_eq!(state.load(Ordering::Relaxed) & (HELD | ASLEEP), 0);
    });
}

#[test]
fn a_release_is_not_lost_on_the_way_to_rest() {
    rest_and_releases(1);
}

#[test]
fn two_releases_wake_once() {
    rest_and_releases(2);
}

#[test]
fn a_release_that_comes_first_ends_the_next_suspension_of_itself() {
    check(|| {
        let state = Arc::new(AtomicU32::new(0));
        let other = {
            let state = state.clone();
            thread::spawn(move || release(&state))
        };
        let held = hold_self(&state);
        other.join().unwrap();
        let now = state.load(Ordering::Relaxed);
        assert_eq!(
            now & HELD,
            0,
            "held after the release (it was held: {held})"
        );
        assert_eq!(now & GO, 0, "the release counted twice");
    });
}

#[test]
fn a_release_during_a_step_is_not_lost() {
    check(|| {
        let state = Arc::new(AtomicU32::new(STOPPED | STOPME));
        assert!(begin_step(&state));
        assert!(!begin_step(&state), "the advisory lock");
        let other = {
            let state = state.clone();
            thread::spawn(move || release(&state))
        };
        end_step(&state);
        other.join().unwrap();
        let now = state.load(Ordering::Relaxed);
        assert_eq!(now & (STOPME | STEP | GO), 0);
    });
}

/// An idle thread is never marked asleep. Its CPU halts with an interrupt that has come by then, or comes
/// later, ending the halt.
#[test]
fn an_idle_thread_does_not_sleep_through_its_token() {
    check(|| {
        let state = Arc::new(AtomicU32::new(0));
        let condition = Arc::new(AtomicBool::new(false));
        let interrupts = Arc::new(AtomicU32::new(0));
        let waker = {
            let (state, condition, interrupts) =
                (state.clone(), condition.clone(), interrupts.clone());
            thread::spawn(move || {
                condition.store(true, Ordering::Release);
                assert_eq!(give(&state, 0), Given::Token);
                interrupts.fetch_add(1, Ordering::Relaxed);
            })
        };
        while !condition.load(Ordering::Acquire) {
            if !take(&state) {
                while interrupts.load(Ordering::Relaxed) == 0 {
                    thread::yield_now();
                }
            }
        }
        waker.join().unwrap();
    });
}
