//! The kernel's own checks, on the real machine, in place of the first process.
//!
//! *Interface*: [`run_if_asked`]: with the word `selfcheck` on the command line each room's checks run, and
//! the machine ends with status 0; a check that fails is a panic (docs/run-contract.md).

use machine::{boot, log, power};

/// Runs the checks and ends the machine, if the command line asks for it.
pub fn run_if_asked() {
    let asked = boot::info()
        .cmdline
        .split_ascii_whitespace()
        .any(|word| word == "selfcheck");
    if !asked {
        return;
    }
    machine::selfcheck::run();
    vm::selfcheck::run();
    log!("all checks passed");
    power::report("exit 0");
    power::off()
}
