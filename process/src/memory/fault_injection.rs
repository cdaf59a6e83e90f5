//! Fault injection: allocations of chosen processes are made to fail.
//!
//! *Interface*: [`start`] reads the word `fail=N[,EVERY]` of the kernel's command line; [`show`] and [`set`]
//! are `/syn/fail`, where root writes `N EVERY SESSION`: of the requests for room by processes of that
//! session (0: of all) the N-th is refused, and then each EVERY-th; `off` ends it. With N of 0 they are only
//! counted. EVERY must be larger than the number of requests of one step: a page fault or a first use of
//! vector registers is repeated until it succeeds.

use core::fmt::Write;
use core::sync::atomic::{AtomicI32, Ordering};

use abi::errno::{Errno, Result};
use account::Cred;
use alloc::sync::Arc;
use vm::frame::fault_injection::{self, FaultPlan};

use crate::process::Task;
use file::fs::pseudofs::TextOut;

/// The session whose requests are affected; 0: every process.
static SESSION: AtomicI32 = AtomicI32::new(0);

/// Whether the running thread is affected: a thread of the session, never a kernel thread.
fn meant() -> bool {
    let session = SESSION.load(Ordering::Relaxed);
    Task::here(|task| session == 0 || task.process.sid() == session).unwrap_or(false)
}

/// Applies the setting of the command line.
pub(crate) fn start(line: &str) {
    let word = line.split_ascii_whitespace();
    let asked = word.filter_map(|word| word.strip_prefix("fail=")).next();
    if let Some(plan) = asked.and_then(parse) {
        fault_injection::arm(plan, meant);
    }
}

/// `N` or `N,EVERY`.
fn parse(text: &str) -> Option<FaultPlan> {
    let (first, every) = text.split_once(',').unwrap_or((text, "0"));
    Some(FaultPlan {
        first: first.parse().ok()?,
        every: every.parse().ok()?,
    })
}

/// How many questions there were, and how many were refused.
pub fn show(out: &mut TextOut) -> Result<()> {
    let counts = fault_injection::counts();
    // Writing to a string does not fail.
    let _ = writeln!(out, "asked {} refused {}", counts.asked, counts.refused);
    Ok(())
}

/// Handles a write to `/syn/fail`. EINVAL.
pub fn set(_opener: &Arc<Cred>, text: &str) -> Result<()> {
    if text.trim() == "off" {
        fault_injection::disarm();
        return Ok(());
    }
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u32>);
    let mut next = || numbers.next()?.ok();
    let (first, every, session) = (next(), next(), next());
    let (Some(first), Some(every), Some(session), None) = (first, every, session, numbers.next())
    else {
        return Err(Errno::EINVAL);
    };
    SESSION.store(session.cast_signed(), Ordering::Relaxed);
    let plan = FaultPlan {
        first: first.into(),
        every: every.into(),
    };
    fault_injection::arm(plan, meant);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_names_a_plan() {
        assert_eq!(parse("7"), Some(FaultPlan { first: 7, every: 0 }));
        assert_eq!(
            parse("7,100"),
            Some(FaultPlan {
                first: 7,
                every: 100
            })
        );
        assert_eq!(parse("x"), None);
        let opener = Cred::root().sealed();
        for request in ["1 2", "1 2 3 4", "1 2 3 x", "off 1", ""] {
            assert_eq!(set(&opener, request), Err(Errno::EINVAL), "{request}");
        }
    }
}
