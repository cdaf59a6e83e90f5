//! Measurements that are possible from inside only: `selftest=costs` on the kernel command line.
//!
//! *Interface*: [`run`], and [`rates`] at another speed. Each result is a line of the kernel's log, `cost
//! SECTION|OPERATION|COLUMN=NUMBER|…`, which `cargo xtask bench` reads (docs/run-contract.md).

mod chaining;
pub mod interrupts;
mod locks;
mod plain;
mod structures;
mod switches;

use core::fmt;
use machine::log;

/// Measures everything.
pub fn run() {
    crate::torture::step::link();
    structures::measure();
    locks::measure();
    switches::measure();
    chaining::measure();
    interrupts::measure();
}

/// Measures how many interrupts a CPU can take in a second.
pub fn rates() {
    interrupts::rates();
}

/// One line: an operation's numbers by column.
fn report(section: &str, operation: &str, columns: &[(&str, u64)]) {
    struct Columns<'a>(&'a [(&'a str, u64)]);
    impl fmt::Display for Columns<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let mut columns = self.0.iter();
            columns.try_for_each(|(name, number)| write!(f, "|{name}={number}"))
        }
    }
    log!("cost {section}|{operation}{}", Columns(columns));
}
