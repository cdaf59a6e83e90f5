//! Visiting all processes while processes begin and end.
//!
//! *Interface*: [`each()`] visits every process of a kind, [`each_or_again`] some of them more than once,
//! [`any`] asks whether there is one, [`from`] is one pass in the order of the numbers, for listings.
//!
//! No list of all processes is made: it could be longer than a page when there is no memory. A pass follows
//! the bitmap of numbers (`pid_alloc.rs`) and is repeated while processes have arrived during it;
//! `pid_map.rs` says why no process is missed then.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::pid_alloc::{self, NUMBERS_MAX};
use super::{Process, index};

/// The most passes of one visit. A further pass finds a process only if its parent brought it behind the
/// pass and ended in front of it, and the same happened in every pass before.
const PASSES: usize = 64;

/// One pass over the processes, zombies included, in the order of their numbers.
fn processes() -> impl Iterator<Item = Arc<Process>> {
    pid_alloc::taken_from(0).filter_map(index::any)
}

/// One pass over the processes whose numbers are `first` or more, in the order of their numbers.
pub fn from(first: u64) -> impl Iterator<Item = Arc<Process>> {
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    pid_alloc::taken_from(first).filter_map(index::any)
}

/// Whether `is_meant` holds for a process. Every process that exists throughout the call is looked at, some
/// of them more than once.
pub fn any(mut is_meant: impl FnMut(&Arc<Process>) -> bool) -> bool {
    for _ in 0..PASSES {
        let arrivals = index::arrivals();
        if processes().any(|process| is_meant(&process)) {
            return true;
        }
        if index::arrivals() == arrivals {
            break;
        }
    }
    false
}

/// Calls `f` once with each process for which `is_meant` holds, and returns how many there were. Processes
/// that begin during the call are visited, too; a process that has to take a signal which `f` sent makes no
/// child before it takes the signal. Of two processes that have had one number, the later one is left out:
/// all other numbers have been given out between them.
pub fn each(is_meant: impl Fn(&Process) -> bool, mut f: impl FnMut(&Arc<Process>)) -> usize {
    let mut census = Census::new();
    let mut count = 0;
    for _ in 0..PASSES {
        let (arrivals, known) = (index::arrivals(), count);
        for process in processes() {
            if is_meant(&process) && census.note(process.pid) {
                count += 1;
                f(&process);
            }
        }
        if count == known && index::arrivals() == arrivals {
            break;
        }
    }
    count
}

/// Calls `f` with each process. Processes that begin during the call are visited, too, and then others again:
/// no memory is needed to know them.
pub fn each_or_again(mut f: impl FnMut(&Arc<Process>)) {
    any(|process| {
        f(process);
        false
    });
}

/// Words of a [`Census`] in a page.
const CENSUS_WORDS: usize = abi::layout::PAGE / size_of::<u64>();
const CENSUS_PAGES: usize = (NUMBERS_MAX as usize).div_ceil(64 * CENSUS_WORDS);

/// The numbers that a visit has seen, one bit each. Each part is at most a page long: the kernel keeps pages
/// for such needs and waits for one, but may refuse anything longer.
struct Census([Vec<u64>; CENSUS_PAGES]);

impl Census {
    /// No number has been seen.
    fn new() -> Census {
        let words = NUMBERS_MAX as usize / 64;
        Census(core::array::from_fn(|page| {
            let rest = words - page * CENSUS_WORDS;
            #[expect(
                clippy::disallowed_macros,
                reason = "a page, which the kernel keeps for such"
            )]
            let part = alloc::vec![0; rest.min(CENSUS_WORDS)];
            part
        }))
    }

    /// Notes `number`. Returns whether the number is new.
    fn note(&mut self, number: i32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        let part = self.0.get_mut(word / CENSUS_WORDS);
        let Some(word) = part.and_then(|part| part.get_mut(word % CENSUS_WORDS)) else {
            return false;
        };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}
