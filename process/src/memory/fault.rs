//! The entry of page faults of programs: what the processor calls, and the decision between a page and a
//! signal. `vm/src/space/fault.rs` maps the page.
//!
//! *Interface*: [`vector`] is the vector of each thread that has a program ([`FaultVector`]): the part of a
//! fault that needs nobody else, with interrupts off and without a trap frame. [`FaultRest`] says what is
//! left. [`resolve`] is a whole fault, of a program or of the kernel's copies on its behalf, or the rest of
//! one.

use core::sync::atomic::Ordering;
use machine::cpu::{irq_disable, irq_enable};
use machine::trap::FaultVector;
use vm::space::{Begun, FaultError, First};
use vm::{Access, AddressSpace};

use crate::process::Task;

/// In the processor's error code: the page is there, and the access is refused.
pub const PRESENT: u64 = 1 << 0;
/// Other bits of it.
const WRITE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const FETCH: u64 = 1 << 4;

/// The part of a fault that a thread's vector leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultRest {
    /// Nothing: the program goes on.
    Done,
    /// A look at what is asked of the thread: interrupts have been on.
    Seen,
    /// A signal: the area does not allow the access.
    Refused,
    /// More of the fault, to [`resolve`].
    More(Begun),
}

impl FaultRest {
    /// By its number, which [`vector`] has answered.
    pub fn of(number: usize) -> FaultRest {
        match number {
            0 => FaultRest::Done,
            1 => FaultRest::Seen,
            2 => FaultRest::Refused,
            3 => FaultRest::More(Begun::Outside),
            4 => FaultRest::More(Begun::Shared),
            _ => FaultRest::More(Begun::Nothing),
        }
    }

    /// Its number.
    fn number(self) -> usize {
        match self {
            FaultRest::Done => 0,
            FaultRest::Seen => 1,
            FaultRest::Refused => 2,
            FaultRest::More(Begun::Outside) => 3,
            FaultRest::More(Begun::Shared) => 4,
            FaultRest::More(Begun::Nothing) => 5,
        }
    }
}

/// The access that the processor's error code tells.
pub fn access(error: u64) -> Access {
    if error & FETCH != 0 {
        Access::Execute
    } else if error & WRITE != 0 {
        Access::Write
    } else {
        Access::Read
    }
}

const _: FaultVector = vector;

/// The running thread's program has met a page that is not there, or not as it needs it.
pub extern "sysv64" fn vector(address: usize, error: u64) -> usize {
    if error & (PRESENT | USER) == PRESENT {
        // The processor itself, in the middle of an instruction of the program, may not use a page that is
        // there: no page that is made ready would help.
        return FaultRest::Refused.number();
    }
    let first = |task: &Task, space: &AddressSpace| {
        let answer = match space.first_fault(address, access(error)) {
            First::Done => FaultRest::Done,
            First::Refused => return FaultRest::Refused,
            First::More(begun) => return FaultRest::More(begun),
            First::Exchanged(former) => {
                irq_enable();
                space.let_go(former);
                task.rseq.after_fault(task);
                // Bound: the way back to user mode.
                irq_disable();
                FaultRest::Seen
            }
        };
        count(task);
        answer
    };
    let answer = Task::with_space(first);
    answer.unwrap_or(FaultRest::More(Begun::Nothing)).number()
}

#[inline]
fn count(task: &Task) {
    let faults = &task.faults;
    faults.store(faults.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Makes the page at `address` ready for the running thread's `access`, for which so much has `begun`. Thread
/// context, interrupts on.
///
/// # Errors
/// [`FaultError`].
pub fn resolve(address: usize, access: Access, begun: Begun) -> Result<(), FaultError> {
    let fault = |task: &Task, space: &AddressSpace| {
        let outcome = space.rest_of_fault(address, access, begun);
        if outcome.is_ok() {
            count(task);
            task.rseq.after_fault(task);
        }
        outcome
    };
    Task::with_space(fault).unwrap_or(Err(FaultError::NotMapped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_by_its_number_and_only_the_first_is_zero() {
        for begun in [Begun::Nothing, Begun::Outside, Begun::Shared] {
            let answer = FaultRest::More(begun);
            assert_eq!(FaultRest::of(answer.number()), answer);
        }
        for answer in [FaultRest::Done, FaultRest::Seen, FaultRest::Refused] {
            assert_eq!(FaultRest::of(answer.number()), answer);
            assert_eq!(answer.number() == 0, answer == FaultRest::Done);
        }
        assert_eq!(FaultRest::of(99), FaultRest::More(Begun::Nothing));
    }
}
