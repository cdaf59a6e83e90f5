//! `/syn/probes`: measuring the traffic of open descriptors.
//!
//! *Interface.* Writing `PID FD` puts probes around the routines of that descriptor, in every process that has it; `PID FD off` takes them away. Reading gives a
//! line for each call of each probed descriptor: process, descriptor, call, calls begun, calls that returned from the routine (the others left for the
//! slow path), mean cycles of those, path.
//!
//! Source: dissertation, table 4.3 (Probe).

use abi::errno::{Errno, Result};
use alloc::string::String;
use core::fmt::Write;

use crate::files::replug_everywhere;
use crate::process::tree;

/// The text.
pub fn show(out: &mut String) -> Result<()> {
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        out,
        "{:>6} {:>4} {:<6} {:>10} {:>10} {:>12} path",
        "pid", "fd", "call", "begun", "returned", "cycles/each"
    );
    for process in tree::all() {
        process.files.get().visit().for_each(|fd, of, _| {
            let Some(probes) = of.probes() else { return };
            for (call, seen) in ["read", "write", "lseek"].iter().zip(probes.show()) {
                let mean = seen.cycles.checked_div(seen.ended).unwrap_or(0);
                let _ = writeln!(
                    out,
                    "{:>6} {fd:>4} {call:<6} {:>10} {:>10} {mean:>12} {}",
                    process.pid,
                    seen.calls,
                    seen.ended,
                    of.path()
                );
            }
        });
    }
    Ok(())
}

/// Takes one command. EINVAL, ESRCH, EBADF.
pub fn set(text: &str) -> Result<()> {
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
