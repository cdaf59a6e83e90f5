//! The thread that sends the signals which interrupt handlers leave to it.
//!
//! *Interface*: [`start`] makes it. It makes signals of the timers that have rung where their interrupts
//! could not, and sends those of descriptions that are ready ([`file::fasync`]).

use file::fasync;
use sync::ready_list::ReadyList;

use super::timer_signals::settle;
use crate::deferred_timers;
use crate::process::tree;

/// The request.
enum Note {
    /// The timers of this process have rung.
    Rung(i32),
    /// Those of a process that found no place: each may be the one.
    Missed,
    /// Descriptions are ready.
    Ready,
}

fn next(ready: &ReadyList) -> Option<Note> {
    match deferred_timers::take() {
        Some(pid) => Some(Note::Rung(pid)),
        None if deferred_timers::missed() => Some(Note::Missed),
        None => (!ready.is_empty()).then_some(Note::Ready),
    }
}

/// Whether there is something to be done.
fn is_due(ready: &ReadyList) -> bool {
    deferred_timers::is_due() || !ready.is_empty()
}

fn run(_: usize) {
    let Some(ready) = fasync::ready_list() else {
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
        match note {
            // It may have ended by now.
            Note::Rung(pid) => tree::find(pid).iter().for_each(settle),
            Note::Missed => tree::each_or_again(settle),
            Note::Ready => {
                fasync::send_sigio();
            }
        }
    }
}

/// Makes the thread that sends what interrupt handlers noted. ENOMEM.
pub fn start() -> abi::Result<()> {
    fasync::start()?;
    thread::spawn(b"signals", run, 0)
        .map(drop)
        .map_err(|_| abi::Errno::ENOMEM)
}
