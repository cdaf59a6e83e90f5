//! The behaviour of the structures, one operation at a time.
//!
//! *Interface*: [`Seq`] for stacks, queues and lists; [`Cells`] for words that change together; [`Counter`]
//! for what a lock guards.

use crate::checker::Spec;

/// A row of numbers. Queues are put to at the back and taken from at the front; stacks have their top in
/// front.
pub struct Seq {
    /// How many fit.
    pub capacity: usize,
    /// How many places those that are half-way may keep: so much earlier it may be full.
    pub slack: usize,
}

impl Seq {
    /// One that is never full.
    pub const ENDLESS: Seq = Seq {
        capacity: usize::MAX,
        slack: 0,
    };
}

/// An operation on a [`Seq`].
#[derive(Debug)]
pub enum On {
    /// These, in this order, at the back; whether they were put.
    Back(Vec<u64>, bool),
    /// One in front; whether it was put.
    Front(u64, bool),
    /// The value that was taken from the front.
    Take(Option<u64>),
    /// All, from the front.
    TakeAll(Vec<u64>),
    /// Removal of one wherever it is; whether it was there.
    Remove(u64, bool),
    /// All that is there, left where it is.
    Contents(Vec<u64>),
}

impl Spec for Seq {
    type State = Vec<u64>;
    type Call = On;

    fn step(&self, state: &Vec<u64>, call: &On) -> Option<Vec<u64>> {
        let mut next = state.clone();
        let room = |n: usize| state.len() + n <= self.capacity;
        let full = |n: usize| state.len() + n + self.slack > self.capacity;
        let good = match call {
            On::Back(values, true) => {
                next.extend(values);
                room(values.len())
            }
            On::Back(values, false) => full(values.len()),
            On::Front(value, true) => {
                next.insert(0, *value);
                room(1)
            }
            On::Front(_, false) => full(1),
            On::Take(None) => state.is_empty(),
            On::Take(Some(value)) => {
                let good = state.first() == Some(value);
                if good {
                    next.remove(0);
                }
                good
            }
            On::TakeAll(values) => {
                next.clear();
                state == values
            }
            On::Remove(value, was) => {
                next.retain(|n| n != value);
                (next.len() < state.len()) == *was
            }
            On::Contents(values) => state == values,
        };
        good.then_some(next)
    }
}

/// A few words.
pub struct Cells;

/// An operation on [`Cells`].
#[derive(Debug)]
pub enum OnCells {
    /// The word at the index, and what it held.
    Read(usize, u64),
    /// Index, old and new of each; whether they were changed.
    Change(Vec<(usize, u64, u64)>, bool),
}

impl Spec for Cells {
    type State = [u64; 3];
    type Call = OnCells;

    fn step(&self, state: &[u64; 3], call: &OnCells) -> Option<[u64; 3]> {
        let mut next = *state;
        let good = match call {
            OnCells::Read(at, value) => state[*at] == *value,
            OnCells::Change(changes, changed) => {
                let fits = changes.iter().all(|(at, old, _)| state[*at] == *old);
                if fits {
                    changes.iter().for_each(|(at, _, new)| next[*at] = *new);
                }
                fits == *changed
            }
        };
        good.then_some(next)
    }
}

/// A number that is incremented; each call is what it was before.
pub struct Counter;

impl Spec for Counter {
    type State = u64;
    type Call = u64;

    fn step(&self, state: &u64, before: &u64) -> Option<u64> {
        (state == before).then_some(state + 1)
    }
}
