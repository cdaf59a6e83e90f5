//! Restartable sequences: the abort of one in which a thread was interrupted.
//!
//! *Interface*: [`look`] before user code runs, when the thread has the mark (`thread::flags::SEQUENCE`), and
//! before the frame of a signal handler. The area that a thread has registered is in `process/rseq.rs`.
//!
//! A sequence is described by the program: its start, its length, its abort address, and a signature before
//! that address. All of this may be wrong: each step is a checked copy, and an invalid description gives
//! SIGSEGV.

use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::layout::USER_END;
use abi::linux::*;
use machine::trap::TrapFrame;
use vm::user;

use super::{deliver, force};
use crate::process::Task;

/// The running `task`, which continues at `frame`, was interrupted or will handle signal `signo`: aborts a
/// sequence that it is in, and writes its CPU's number into its area. In thread context with interrupts on.
#[cold]
pub fn look(frame: &mut TrapFrame, task: &Task, signo: i32) {
    let own = &task.rseq;
    // From here on what happens is a reason to look again.
    task.thread.take_rseq();
    own.seen.store(task.thread.switches(), Ordering::Relaxed);
    let area = own.area.load(Ordering::Relaxed);
    if area == 0 {
        return;
    }
    let cpu = |()| user::put(area, &[task.thread.cpu() as u32; 2]);
    if interrupt(frame, area, own.signature.load(Ordering::Relaxed))
        .and_then(cpu)
        .is_err()
    {
        if signo == SIGSEGV {
            // Its handler would be the next to be interrupted so.
            let actions = task.process.signals.actions.get();
            actions.set(SIGSEGV, Sigaction::default());
        }
        force(Siginfo {
            signo: SIGSEGV,
            code: SI_KERNEL,
            ..Siginfo::default()
        });
    }
}

/// Aborts the sequence that `area` names, if `frame` is in it, and forgets it. EINVAL, EFAULT for what does
/// not hold.
fn interrupt(frame: &mut TrapFrame, area: usize, signature: u32) -> Result<()> {
    let found: RseqArea = user::get(area)?;
    if found.sequence == 0 {
        return Ok(());
    }
    let at = usize::try_from(found.sequence).map_err(|_| Errno::EINVAL)?;
    if at >= USER_END {
        return Err(Errno::EINVAL);
    }
    let sequence: RseqCs = user::get(at)?;
    let before = holds(&sequence, USER_END as u64)?;
    if user::get::<u32>(before as usize)? != signature {
        return Err(Errno::EINVAL);
    }
    let within = is_within(frame.rip, &sequence);
    if within && (sequence.flags | found.flags) != 0 {
        return Err(Errno::EINVAL);
    }
    user::put(area + RSEQ_SEQUENCE, &0u64)?;
    if within {
        if frame.is_syscall() {
            deliver::restart_quietly(frame);
            frame.vector = machine::trap::VECTOR_TAIL;
        }
        frame.rip = sequence.abort;
    }
    Ok(())
}

/// Whether a description may be one, in memory that ends at `end`: the address of its signature. EINVAL,
/// EFAULT.
fn holds(sequence: &RseqCs, end: u64) -> Result<u64> {
    let RseqCs {
        version,
        start,
        length,
        abort,
        ..
    } = *sequence;
    let after = start.checked_add(length).ok_or(Errno::EINVAL)?;
    let is_outside = abort.wrapping_sub(start) >= length;
    if version != 0 || start >= end || after >= end || abort >= end || !is_outside {
        return Err(Errno::EINVAL);
    }
    abort
        .checked_sub(size_of::<u32>() as u64)
        .ok_or(Errno::EFAULT)
}

fn is_within(rip: u64, sequence: &RseqCs) -> bool {
    rip.wrapping_sub(sequence.start) < sequence.length
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 0x1_0000;

    fn sequence(start: u64, length: u64, abort: u64) -> RseqCs {
        RseqCs {
            version: 0,
            flags: 0,
            start,
            length,
            abort,
        }
    }

    #[test]
    fn a_description_stays_within_memory_and_goes_on_outside_itself() {
        assert_eq!(holds(&sequence(0x100, 0x10, 0x200), END), Ok(0x1fc));
        assert_eq!(holds(&sequence(0x100, 0x10, 0x110), END), Ok(0x10c));
        for (start, length, abort) in [
            (0x100, 0x10, 0x100),
            (0x100, 0x10, 0x10f),
            (END, 1, 0x100),
            (END - 1, 1, 0x100),
            (0x100, 0x10, END),
            (0x100, END, 0x80),
            (0x100, u64::MAX - 0x80, 0x80),
            (0x100, u64::MAX, 0x80),
        ] {
            assert_eq!(
                holds(&sequence(start, length, abort), END),
                Err(Errno::EINVAL)
            );
        }
        let mut later = sequence(0x100, 0x10, 0x200);
        later.version = 1;
        assert_eq!(holds(&later, END), Err(Errno::EINVAL));
        assert_eq!(holds(&sequence(0x100, 0x10, 3), END), Err(Errno::EFAULT));
    }

    #[test]
    fn a_sequence_ends_before_what_comes_behind_it() {
        let sequence = sequence(0x100, 0x10, 0x200);
        let within = [0xff, 0x100, 0x10f, 0x110].map(|rip| is_within(rip, &sequence));
        assert_eq!(within, [false, true, true, false]);
    }
}
