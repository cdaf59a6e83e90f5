//! Histories of real threads, recorded and explained.
//!
//! *Interface*: [`linearizable`] where each must have an explanation; [`histories`] gives the first that has
//! none. A thread does all by [`Thread::note`] or [`Thread::just`].

use crate::checker::{Event, Recorder, Spec, explain};
use crate::common::{
    self,
    trap::{self, Plan},
};
use std::sync::{Barrier, Mutex};

/// Threads of a history.
pub const THREADS: usize = 3;
/// Operations of each thread in a history.
pub const OPERATIONS: usize = 5;
/// Histories of a structure.
pub const ROUNDS: u64 = 60;

/// Random numbers that can be had again.
pub struct Random(u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// One thread of one round.
pub struct Thread<'a, C> {
    /// Which of them.
    pub number: usize,
    /// Its own.
    pub random: Random,
    slow: bool,
    recorder: &'a mut Recorder<C>,
}

impl<C> Thread<'_, C> {
    /// Does an operation, notes it, and gives what else came of it.
    pub fn note<R>(&mut self, operation: impl FnOnce() -> (C, R)) -> R {
        let plan = Plan::Yield(24, self.random.below(u64::MAX));
        let mut other = None;
        let slow = self.slow;
        self.recorder.note(|| {
            let (call, result) = if slow {
                trap::under(plan, operation).0
            } else {
                operation()
            };
            other = Some(result);
            call
        });
        match other {
            Some(other) => other,
            None => unreachable!("the operation ran"),
        }
    }

    pub fn just(&mut self, operation: impl FnOnce() -> C) {
        self.note(|| (operation(), ()));
    }
}

/// Records histories of what `work` does in each thread with what `make` gives, and explains each; `last`
/// looks at what is left. Gives the first that cannot be explained.
pub fn histories<S: Spec<Call: Send> + Sync, X: Sync>(
    spec: &S,
    start: &S::State,
    make: impl Fn() -> X,
    work: impl Fn(&X, &mut Thread<'_, S::Call>) + Sync,
    last: impl Fn(&X) -> Option<S::Call>,
) -> Option<Vec<Event<S::Call>>>
where
    S::State: Sync,
{
    common::threads::link();
    for round in 0..ROUNDS {
        let object = make();
        let barrier = Barrier::new(THREADS);
        let notes = Mutex::new(Vec::new());
        std::thread::scope(|s| {
            for number in 0..THREADS {
                let (object, barrier, notes, work) = (&object, &barrier, &notes, &work);
                s.spawn(move || {
                    let mut recorder = Recorder::new();
                    let mut thread = Thread {
                        number,
                        random: Random(round << 8 | number as u64),
                        slow: round % 2 == 0,
                        recorder: &mut recorder,
                    };
                    barrier.wait();
                    work(object, &mut thread);
                    notes.lock().unwrap().extend(recorder.events);
                });
            }
        });
        let mut events = notes.into_inner().unwrap();
        if let Some(call) = last(&object) {
            let mut recorder = Recorder::new();
            recorder.note(|| call);
            events.extend(recorder.events);
        }
        if explain(spec, start.clone(), &events).is_none() {
            events.sort_by_key(|event| event.begin);
            return Some(events);
        }
    }
    None
}

/// All histories can be explained.
pub fn linearizable<S: Spec<Call: Send> + Sync, X: Sync>(
    spec: &S,
    start: S::State,
    make: impl Fn() -> X,
    work: impl Fn(&X, &mut Thread<'_, S::Call>) + Sync,
    last: impl Fn(&X) -> Option<S::Call>,
) where
    S::State: Sync,
{
    if let Some(events) = histories(spec, &start, make, work, last) {
        panic!("cannot be explained: {events:#?}");
    }
}

pub fn nothing<X, C>(_: &X) -> Option<C> {
    None
}

/// A number for each operation of each thread.
pub fn value<C>(thread: &Thread<'_, C>, n: usize) -> u64 {
    (thread.number * 100 + n) as u64
}
