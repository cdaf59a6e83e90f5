//! The thread that sends the signals noted by interrupt handlers.
//!
//! *Interface*: [`start`] makes it. It also settles the timers that have rung where their interrupts could
//! not, and sends the signals of descriptions that are ready ([`file::told`]).

use abi::linux::{SI_KERNEL, Siginfo};
use file::told;
use sync::ready::ReadyList;

use super::expiry::settle;
use super::send::{send, send_group};
use crate::later::{self, Target};
use crate::process::tree;

/// The request.
enum Note {
    /// The noted requests.
    Taken(Target, i32),
    /// There was no room for it: all processes' timers may have rung.
    Missed,
    /// Descriptions are ready.
    Ready,
}

fn next(ready: &ReadyList) -> Option<Note> {
    match later::take() {
        Some((target, signo)) => Some(Note::Taken(target, signo)),
        None if later::missed() => Some(Note::Missed),
        None => (!ready.is_empty()).then_some(Note::Ready),
    }
}

/// Whether there is something to be done.
fn is_due(ready: &ReadyList) -> bool {
    later::is_due() || !ready.is_empty()
}

fn run(_: usize) {
    let Some(ready) = told::list() else {
        return;
    };
    loop {
        thread::safe_point();
        let Some(note) = next(ready) else {
            // This thread never gets signals.
            let _uninterrupted = ready.sleep(|| {
                thread::safe_point();
                is_due(ready)
            });
            continue;
        };
        let (target, signo) = match note {
            Note::Taken(target, signo) => (target, signo),
            Note::Missed => {
                tree::each(|_| true, settle);
                continue;
            }
            Note::Ready => {
                told::tell_ready();
                continue;
            }
        };
        let info = Siginfo {
            signo,
            code: SI_KERNEL,
            ..Siginfo::default()
        };
        // The receiver may have ended by now.
        let _ = match target {
            Target::Group(pgrp) => send_group(pgrp, info),
            Target::Timers(pid) => {
                if let Some(process) = tree::find(pid) {
                    settle(&process);
                }
                Ok(())
            }
            Target::Process(pid) => match tree::find(pid) {
                Some(process) => send(&process, None, info),
                None => Ok(()),
            },
        };
    }
}

/// Makes the thread that sends what interrupt handlers noted. ENOMEM.
pub fn start() -> abi::Result<()> {
    told::start()?;
    thread::spawn(b"signals", run, 0)
        .map(drop)
        .map_err(|_| abi::Errno::ENOMEM)
}
