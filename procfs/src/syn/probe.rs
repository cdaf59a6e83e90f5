//! `/syn/probes`: measuring the traffic of open descriptors.
//!
//! *Interface.* Writing `PID FD` puts probes around the routines of that descriptor, in every process that
//! has it; `PID FD off` takes them away. Reading gives a line for each call of each probed descriptor:
//! process, descriptor, call, calls begun, calls that returned from the routine (the others left for the slow
//! path), mean cycles of those, path; of the processes that the reader may look into.
//!
//! Source: dissertation, table 4.3 (Probe).

use abi::errno::{Errno, Result};
use core::fmt::Write;

use super::code::CALLS;
use super::descriptors;
use account::Capability;
use file::OpenFile;
use file::fdtable::{FdTable, replug_everywhere};
use file::fs::pseudofs::{TextOut, TextPiece};
use process::tree;

/// The text from place `from` on.
pub fn show(from: u64, piece: &mut TextPiece) -> Result<()> {
    // `TextOut` notes by itself that memory is out, here and below.
    let head = |out: &mut TextOut| {
        let _ = writeln!(
            out,
            "{:>6} {:>4} {:<6} {:>10} {:>10} {:>12} path",
            "pid", "fd", "call", "begun", "returned", "cycles/each"
        );
    };
    descriptors::show(from, piece, &head, &|of| of.probes().is_some(), &lines)
}

fn lines(pid: i32, fd: i32, of: &OpenFile, _: &FdTable, out: &mut TextOut) {
    let Some(probes) = of.probes() else {
        return;
    };
    let Ok(path) = of.path() else {
        return out.lack();
    };
    for (call, seen) in CALLS.iter().zip(probes.show()) {
        let mean = seen.cycles.checked_div(seen.ended).unwrap_or(0);
        let _ = writeln!(
            out,
            "{pid:>6} {fd:>4} {call:<6} {:>10} {:>10} {mean:>12} {path}",
            seen.calls, seen.ended,
        );
    }
}

/// Takes one command. EPERM, EINVAL, ESRCH, EBADF.
pub fn set(text: &str) -> Result<()> {
    account::caller::cred().need(Capability::SysAdmin)?;
    let mut words = text.split_ascii_whitespace();
    let mut number = || words.next()?.parse::<i32>().ok();
    let (Some(pid), Some(fd)) = (number(), number()) else {
        return Err(Errno::EINVAL);
    };
    let on = match words.next() {
        None => true,
        Some("off") => false,
        Some(_) => return Err(Errno::EINVAL),
    };
    let process = tree::find(pid).ok_or(Errno::ESRCH)?;
    let of = process.files.get().visit().get(fd)?;
    of.set_probed(on)?;
    replug_everywhere(&of);
    Ok(())
}
