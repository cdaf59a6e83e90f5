//! Every structure under loom: all interleavings of a few operations, all values that the memory model
//! allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p sync --release --test models`
//! Each model says how many executions that were (`--nocapture`).
#![cfg(loom)]

mod cached_word;
mod hash_table;
mod journal;
#[allow(dead_code)] // `lab` needs the rest
mod kit;
mod locks;
mod ready_list;
mod seqlock_ring;
mod sequencer;
mod stacks;
mod words;

use kit::{SIGNALLED, beside, free, leak, link_threads, model};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use sync::cas2::AtomicPair;
use sync::{ArrayStack, Monitor, Once, Stack, ValueStack, WaitList, WaitNode, epoch, stack};

#[test]
fn cas2_changes_both_words_or_none() {
    model(3, || {
        let pair = Arc::new(AtomicPair::new(0, 0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let pair = pair.clone();
                thread::spawn(move || {
                    let mut old = pair.load();
                    while let Err(now) = pair.compare_exchange(old, (old.0 + 1, old.1 + 2)) {
                        old = now;
                    }
                })
            })
            .collect();
        let (low, high) = pair.load();
        assert_eq!(2 * low, high);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(pair.load(), (2, 4));
    });
}

#[test]
fn stack_loses_and_doubles_nothing() {
    model(3, || {
        let stack = Arc::new(Stack::new());
        let nodes: Vec<_> = (0..3).map(|_| leak(stack::Node::new())).collect();
        // SAFETY: nodes live until the end of the model.
        unsafe { nodes[..2].iter().for_each(|n| stack.push(*n)) };
        let other = {
            let stack = stack.clone();
            // Pops, and pushes again: ABA for whoever is between load and exchange.
            thread::spawn(move || {
                let a = stack.pop();
                let b = stack.pop();
                // SAFETY: as above.
                a.into_iter().for_each(|n| unsafe { stack.push(n) });
                b.map(|n| n.as_ptr().addr())
            })
        };
        let mine = stack.pop().map(|n| n.as_ptr().addr());
        let theirs = other.join().unwrap();
        let mut all: Vec<_> = stack
            .take_all()
            .map(|n| n.as_ptr().addr())
            .chain(mine)
            .chain(theirs)
            .collect();
        all.sort_unstable();
        let mut expected: Vec<_> = nodes[..2].iter().map(|n| n.as_ptr().addr()).collect();
        expected.sort_unstable();
        assert_eq!(all, expected);
        nodes.into_iter().for_each(free);
    });
}

#[test]
fn array_stack_loses_and_doubles_nothing() {
    model(3, || {
        let stack: Arc<ArrayStack<u32, 2>> = Arc::new(ArrayStack::new());
        stack.push(1).unwrap();
        let other = {
            let stack = stack.clone();
            thread::spawn(move || {
                let popped = stack.pop();
                (popped, stack.push(2).is_ok())
            })
        };
        let pushed = stack.push(3).is_ok();
        let mine = stack.pop();
        let (theirs, also) = other.join().unwrap();
        assert!(pushed && also);
        let mut all: Vec<_> = mine.into_iter().chain(theirs).collect();
        all.extend(std::iter::from_fn(|| stack.pop()));
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

/// A push on top of a value is stopped, while the others take the value, put another in its place and one on
/// top of that.
#[test]
fn array_stack_keeps_what_is_below() {
    model(3, || {
        let stack: Arc<ArrayStack<u32, 3>> = Arc::new(ArrayStack::new());
        stack.push(1).unwrap();
        let other = {
            let stack = stack.clone();
            thread::spawn(move || stack.push(2).is_ok())
        };
        let popped = stack.pop();
        let pushed = stack.push(3).is_ok() && stack.push(4).is_ok();
        assert!(other.join().unwrap() && pushed);
        let left: Vec<_> = std::iter::from_fn(|| stack.pop()).collect();
        let good: &[&[u32]] = match popped {
            Some(1) => &[&[2, 4, 3], &[4, 2, 3], &[4, 3, 2]],
            Some(2) => &[&[4, 3, 1]],
            _ => &[],
        };
        assert!(good.contains(&&left[..]), "{popped:?}, then {left:?}");
    });
}

/// While one operation is under way the same top comes back, with another value in its cell: only the number
/// of pushes tells.
#[test]
fn array_stack_tells_tops_apart() {
    type Shared = Arc<ArrayStack<u32, 3>>;
    fn put(stack: &Shared, value: u32) {
        stack.push(value).unwrap();
    }
    fn drain(stack: &Shared) -> Vec<u32> {
        std::iter::from_fn(|| stack.pop()).collect()
    }
    /// `before`, then `other` beside `here`; all values that came out, sorted.
    fn values(
        before: fn(&Shared),
        other: fn(&Shared) -> Option<u32>,
        here: fn(&Shared) -> Vec<u32>,
    ) -> Vec<u32> {
        let stack: Shared = Arc::new(ArrayStack::new());
        before(&stack);
        let other = {
            let stack = stack.clone();
            thread::spawn(move || other(&stack))
        };
        let mut all = here(&stack);
        all.extend(other.join().unwrap());
        all.extend(drain(&stack));
        all.sort_unstable();
        all
    }
    // A push upon a value that is not in its cell.
    model(2, move || {
        let all = values(
            |stack| put(stack, 1),
            |stack| {
                put(stack, 2);
                None
            },
            |stack| {
                let mut popped: Vec<_> = stack.pop().into_iter().collect();
                put(stack, 3);
                put(stack, 4);
                popped.extend(stack.pop());
                popped.extend(stack.pop());
                put(stack, 1);
                popped
            },
        );
        assert_eq!(all, [1, 1, 2, 3, 4]);
    });
    // A pop of a value that is in its cell.
    model(2, move || {
        let all = values(
            |stack| {
                put(stack, 1);
                put(stack, 9);
                assert_eq!(stack.pop(), Some(9));
            },
            |stack| stack.pop(),
            |stack| {
                let mut popped: Vec<_> = stack.pop().into_iter().collect();
                put(stack, 3);
                put(stack, 9);
                popped.extend(stack.pop());
                popped
            },
        );
        assert_eq!(all, [1, 3, 9]);
    });
}

#[test]
fn value_stack_owns_places() {
    model(3, || {
        let stack: Arc<ValueStack<Box<u32>, 3>> = Arc::new(ValueStack::new());
        stack.push(Box::new(1)).unwrap();
        let other = {
            let stack = stack.clone();
            thread::spawn(move || {
                let popped = stack.pop();
                (popped, stack.push(Box::new(2)).is_ok())
            })
        };
        let pushed = stack.push(Box::new(3)).is_ok();
        let mine = stack.pop();
        let (theirs, also) = other.join().unwrap();
        assert!(pushed && also);
        let mut all: Vec<_> = mine.into_iter().chain(theirs).collect();
        all.extend(std::iter::from_fn(|| stack.pop()));
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3].map(Box::new));
    });
}

#[test]
fn once_is_written_once_and_read_whole() {
    model(3, || {
        let once = Arc::new(Once::new());
        let writers: Vec<_> = (0..2)
            .map(|n| {
                let once = once.clone();
                thread::spawn(move || once.set(Box::new(n)).is_ok() as usize)
            })
            .collect();
        let early = once.get().map(|n| **n);
        let wins: usize = writers.into_iter().map(|w| w.join().unwrap()).sum();
        assert_eq!(wins, 1);
        assert!(early.is_none_or(|n| n == **once.get().unwrap()));
    });
}

#[test]
fn no_wake_up_is_lost() {
    link_threads();
    model(3, || {
        let list = Arc::new(WaitList::new());
        let word = Arc::new(AtomicUsize::new(0));
        let waiter = {
            let (list, word) = (list.clone(), word.clone());
            thread::spawn(move || {
                list.wait_until(|| (word.load(Ordering::Relaxed) != 0).then_some(()))
            })
        };
        word.store(1, Ordering::Relaxed);
        list.wake_all();
        waiter.join().unwrap();
        assert!(!list.has_waiters());
    });
}

#[test]
fn no_wake_up_is_lost_between_wakers() {
    link_threads();
    model(2, || {
        let list = Arc::new(WaitList::new());
        let words = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        // Each waits for its own word; a waker of one may hold the list when the other's comes.
        let waiter = {
            let (list, words) = (list.clone(), words.clone());
            thread::spawn(move || {
                list.wait_until(|| (words[0].load(Ordering::Acquire) != 0).then_some(()))
            })
        };
        let waker = {
            let (list, words) = (list.clone(), words.clone());
            thread::spawn(move || {
                words[0].store(1, Ordering::Release);
                list.wake_all();
            })
        };
        words[1].store(1, Ordering::Release);
        list.wake_one();
        waiter.join().unwrap();
        waker.join().unwrap();
    });
}

#[test]
fn no_wake_up_is_lost_by_one_of_two_waiters() {
    link_threads();
    model(2, || {
        let list = Arc::new(WaitList::new());
        let ready = Arc::new(AtomicUsize::new(0));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let (list, ready) = (list.clone(), ready.clone());
                thread::spawn(move || {
                    list.wait_until(|| (ready.load(Ordering::Acquire) != 0).then_some(()))
                })
            })
            .collect();
        // While one waker chooses among them, another comes for all.
        let chooser = {
            let list = list.clone();
            thread::spawn(move || list.wake_one())
        };
        ready.store(1, Ordering::Release);
        list.wake_all();
        chooser.join().unwrap();
        waiters.into_iter().for_each(|w| w.join().unwrap());
    });
}

/// Of two waiters one gives up for a signal: a wake-up that chose it is not lost, whoever takes what there
/// is.
#[test]
fn a_wake_up_of_one_who_is_interrupted_is_not_lost() {
    link_threads();
    model(2, || {
        let list = Arc::new(WaitList::new());
        let permits = Arc::new(AtomicUsize::new(0));
        let take = |permits: &AtomicUsize| {
            let taken = permits.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed);
            taken.ok().map(drop)
        };
        let interrupted = {
            let (list, permits) = (list.clone(), permits.clone());
            thread::spawn(move || {
                SIGNALLED.with(|it| it.set(true));
                list.wait_interruptible(|| take(&permits)).is_ok()
            })
        };
        let patient = {
            let (list, permits) = (list.clone(), permits.clone());
            thread::spawn(move || list.wait_until(|| take(&permits)))
        };
        let give = || {
            permits.store(1, Ordering::Release);
            list.wake_one();
        };
        give();
        if interrupted.join().unwrap() {
            give();
        }
        patient.join().unwrap();
    });
}

/// Two waiters, and two wakers of one each: nobody's wake-up goes to somebody who has another's.
#[test]
fn two_wakers_of_one_wake_two() {
    link_threads();
    model(2, || {
        let list = Arc::new(WaitList::new());
        let permits = Arc::new(AtomicUsize::new(0));
        let take = |permits: &AtomicUsize| {
            let there = permits.load(Ordering::Acquire);
            let taken = there > 0
                && permits
                    .compare_exchange(there, there - 1, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            // A thread that lost a permit to the other checks again before it sleeps.
            (taken || there > 1).then_some(taken)
        };
        let wait = move |list: &WaitList, permits: &AtomicUsize| {
            while !list.wait_until(|| take(permits)) {}
        };
        let give = |list: &WaitList, permits: &AtomicUsize| {
            permits.fetch_add(1, Ordering::AcqRel);
            list.wake_one();
        };
        let others = [0, 1].map(|role| {
            let (list, permits) = (list.clone(), permits.clone());
            thread::spawn(move || match role {
                0 => wait(&list, &permits),
                _ => give(&list, &permits),
            })
        });
        give(&list, &permits);
        wait(&list, &permits);
        others.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(permits.load(Ordering::Relaxed), 0);
        assert!(!list.has_waiters());
    });
}

/// One leaves while another is woken: the wake-up goes to who stays.
#[test]
fn a_wake_up_does_not_go_to_who_leaves() {
    link_threads();
    model(3, || {
        let list = Arc::new(WaitList::new());
        let word = Arc::new(AtomicUsize::new(0));
        let leaver = {
            let list = list.clone();
            thread::spawn(move || {
                let node = WaitNode::new();
                assert!(list.enroll(&node));
                list.leave(&node);
                // It may have been chosen, so it passes the wake-up on, as one does who has no use for it.
                list.wake_one();
            })
        };
        let waiter = {
            let (list, word) = (list.clone(), word.clone());
            thread::spawn(move || {
                list.wait_until(|| (word.load(Ordering::Acquire) != 0).then_some(()))
            })
        };
        word.store(1, Ordering::Release);
        list.wake_one();
        leaver.join().unwrap();
        waiter.join().unwrap();
    });
}

#[test]
fn a_monitor_excludes_and_wakes() {
    link_threads();
    model(2, || {
        let monitor = Arc::new(Monitor::new(loom::cell::UnsafeCell::new(0)));
        let add = |monitor: &Monitor<loom::cell::UnsafeCell<i32>>| {
            // SAFETY: the guard excludes others, which loom checks.
            monitor.lock().with_mut(|n| unsafe { *n += 1 });
        };
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let monitor = monitor.clone();
                thread::spawn(move || add(&monitor))
            })
            .collect();
        add(&monitor);
        threads.into_iter().for_each(|t| t.join().unwrap());
        // SAFETY: as above.
        monitor.lock().with(|n| assert_eq!(unsafe { *n }, 3));
    });
}

/// A reader on CPU 1 follows a pointer; the value behind is freed after its grace period only.
#[test]
fn a_grace_period_waits_for_readers() {
    use std::sync::atomic::AtomicUsize as Plain;
    static FREED: Plain = Plain::new(0);
    fn freed(_: usize) {
        FREED.store(1, std::sync::atomic::Ordering::SeqCst);
    }
    link_threads();
    for starts_idle in [false, true] {
        model(3, move || {
            FREED.store(0, std::sync::atomic::Ordering::SeqCst);
            let domain: Arc<epoch::Domain<2>> = Arc::new(epoch::Domain::new());
            let published = Arc::new(AtomicUsize::new(1));
            domain.idle_exit(0);
            if !starts_idle {
                domain.idle_exit(1);
            }
            let reader = {
                let (domain, published) = (domain.clone(), published.clone());
                thread::spawn(move || {
                    if starts_idle {
                        domain.idle_exit(1);
                    } else {
                        domain.quiescent(1);
                    }
                    if published.load(Ordering::Relaxed) == 1 {
                        // A switch to the other CPU, in which it may free.
                        thread::yield_now();
                        published.load(Ordering::Relaxed);
                        assert_eq!(
                            FREED.load(std::sync::atomic::Ordering::SeqCst),
                            0,
                            "freed under a reader"
                        );
                    }
                    domain.idle_enter(1);
                })
            };
            published.store(0, Ordering::Relaxed);
            domain.retire(freed, 0);
            reader.join().unwrap();
            domain.collect();
            assert_eq!(FREED.load(std::sync::atomic::Ordering::SeqCst), 1);
        });
    }
}
