//! Page faults of programs.
//!
//! *Interface*: [`vector`] is the vector of each thread that has a program ([`FaultVector`]): the part of a
//! fault that needs nobody else, with interrupts off and without a trap frame. [`Answer`] says what is left.
//! [`resolve`] is a whole fault, of a program or of the kernel's copies on its behalf.

use core::sync::atomic::Ordering;
use machine::cpu::{irq_disable, irq_enable};
use machine::trap::FaultVector;
use vm::space::{FaultError, First};
use vm::{Access, AddressSpace};

use crate::process::Task;

/// Bits of the processor's error code.
const WRITE: u64 = 1 << 1;
const FETCH: u64 = 1 << 4;

/// The part of a fault that a thread's vector leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Answer {
    /// Nothing: the program goes on.
    Done = 0,
    /// The fault, to [`resolve`].
    All = 1,
    /// A signal: the area does not allow the access.
    Refused = 2,
    /// A look at what is asked of the thread: interrupts have been on.
    Seen = 3,
}

impl Answer {
    /// By its number, which [`vector`] has answered.
    pub fn of(number: usize) -> Answer {
        match number {
            0 => Answer::Done,
            2 => Answer::Refused,
            3 => Answer::Seen,
            _ => Answer::All,
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
    let first = |task: &Task, space: &AddressSpace| {
        let answer = match space.first_fault(address, access(error)) {
            First::Done => Answer::Done,
            First::Refused => return Answer::Refused,
            First::More => return Answer::All,
            First::Exchanged(former) => {
                irq_enable();
                space.let_go(former);
                task.rseq.after_fault(task);
                // Bound: the way back to user mode.
                irq_disable();
                Answer::Seen
            }
        };
        count(task);
        answer
    };
    Task::with_space(first).unwrap_or(Answer::All) as usize
}

#[inline]
fn count(task: &Task) {
    let faults = &task.faults;
    faults.store(faults.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Makes the page at `address` ready for the running thread's `access`. Thread context, interrupts on.
///
/// # Errors
/// [`FaultError`].
pub fn resolve(address: usize, access: Access) -> Result<(), FaultError> {
    let fault = |task: &Task, space: &AddressSpace| {
        let outcome = space.fault(address, access);
        if outcome.is_ok() {
            count(task);
            task.rseq.after_fault(task);
        }
        outcome
    };
    Task::with_space(fault).unwrap_or(Err(FaultError::NotMapped))
}
