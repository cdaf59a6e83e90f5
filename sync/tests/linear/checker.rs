//! Whether a recorded history can be explained by operations that happen one after the other, each at an
//! instant between its call and its return.
//!
//! *Interface*: a [`Spec`] says what operations do one at a time; a [`Recorder`] for each thread notes calls
//! with stamps; [`explain`] searches.
//!
//! Source: Wing and Gong, *Testing and verifying concurrent objects* (J. Parallel Distrib. Comput. 17, 1993):
//! try as the first each operation that began before any other ended, and go on with the rest. Lowe, *Testing
//! for linearizability* (Concurrency and Computation 29, 2017): remember which sets of operations were seen
//! to lead to which state, and do not search on from those again.
//!
//! Stamps come from one counter by locked increments, so that what is ordered by them is ordered for the
//! memory as well.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

/// The object, one operation at a time.
pub trait Spec {
    /// All there is to know about it.
    type State: Clone + Eq + Hash + Debug;
    /// An operation with its arguments and its result.
    type Call: Debug + Send;
    /// The state after `call`, if it can have this result in `state`.
    fn step(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;
}

/// One operation as observed.
#[derive(Debug)]
pub struct Event<C> {
    pub call: C,
    pub begin: u64,
    pub end: u64,
}

static CLOCK: AtomicU64 = AtomicU64::new(0);

/// One thread's notes.
pub struct Recorder<C> {
    pub events: Vec<Event<C>>,
}

impl<C> Recorder<C> {
    pub fn new() -> Self {
        Recorder { events: Vec::new() }
    }

    /// Does an operation and notes it.
    pub fn note(&mut self, operation: impl FnOnce() -> C) {
        let begin = CLOCK.fetch_add(1, Ordering::SeqCst);
        let call = operation();
        let end = CLOCK.fetch_add(1, Ordering::SeqCst);
        self.events.push(Event { call, begin, end });
    }
}

/// An order of the events (by index) that explains them from `start` on.
pub fn explain<S: Spec>(
    spec: &S,
    start: S::State,
    events: &[Event<S::Call>],
) -> Option<Vec<usize>> {
    assert!(events.len() <= 64, "a set of events is a word");
    let all = u64::MAX.checked_shr(64 - events.len() as u32).unwrap_or(0);
    let mut seen = HashSet::new();
    let mut order = Vec::new();
    search(spec, start, events, all, &mut seen, &mut order).then_some(order)
}

fn search<S: Spec>(
    spec: &S,
    state: S::State,
    events: &[Event<S::Call>],
    left: u64,
    seen: &mut HashSet<(u64, S::State)>,
    order: &mut Vec<usize>,
) -> bool {
    if left == 0 {
        return true;
    }
    if !seen.insert((left, state.clone())) {
        return false;
    }
    let members = || (0..events.len()).filter(|n| left >> n & 1 == 1);
    let first_end = members().map(|n| events[n].end).min().unwrap_or(u64::MAX);
    for n in members().filter(|n| events[*n].begin < first_end) {
        if let Some(next) = spec.step(&state, &events[n].call) {
            order.push(n);
            if search(spec, next, events, left & !(1 << n), seen, order) {
                return true;
            }
            order.pop();
        }
    }
    false
}
