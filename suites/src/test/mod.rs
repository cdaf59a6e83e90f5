//! `cargo xtask test`: host tests of every room, model checks, Miri, and tests in the guest.
//!
//! *Interface*: `main`. The last line is `N passed, N failed`; the status is 0 only when none failed.

mod balloon;
mod chains;
mod cli;
mod devices;
mod dropouts;
mod evidence;
mod exhaust;
mod faults;
mod floods;
mod fuzz;
mod guest;
mod host_tests;
mod hush;
mod kit;
mod ltp;
mod mitigations;
mod music;
pub mod mutants;
mod order;
mod players;
mod posixfiles;
mod refused;
mod removal;
mod runtimes;
mod session;
mod shares;
mod sounds;
mod stamps;
mod tap;
mod threads;

pub use fuzz::main as fuzz;
pub use guest::TESTS;
pub use kit::Kit;
use kit::Spent;
use lexopt::prelude::*;
pub use ltp::main as ltp;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::sync::Mutex;
use std::time::Instant;
pub use tap::Check;
use xtask::failure::{Failure, Result, USAGE};
use xtask::kernel::Profile;

const HELP: &str = "\
usage: cargo xtask test [--long [--minutes N]] [--only host|models|miri|guest] [--quick] [NAME...]
       cargo xtask test --mutants [NAME...]

Runs everything that CI runs, or the named guest tests. --long repeats what is random or racy as often as
a release wants it (200 rounds of load, twenty minutes of random calls on 1 CPU and on 4, or --minutes).
Model checks and Miri are left out for rooms that have not changed since they passed here, but with
--only or --long.

  --quick      a kernel that is built quickly; without names: host tests and a few guest tests
  --list       the guest tests
  --mutants    plant small bugs in a copy of the source, and see whether the suites notice: all of
               tests/mutants, or those whose names begin with a NAME (minutes)
";

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let (mut names, mut only, mut long, mut planted) = (Vec::new(), None, false, false);
    let (mut minutes, mut quick) = (None, false);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("long") => long = true,
            Long("quick") => quick = true,
            Long("mutants") => planted = true,
            Long("minutes") => minutes = Some(parser.value()?.parse()?),
            Long("only") => {
                let part = parser.value()?.to_string_lossy().into_owned();
                if !["host", "models", "miri", "guest"].contains(&part.as_str()) {
                    return Err(Failure::new(
                        USAGE,
                        format!("--only {part}: host, models, miri or guest"),
                    ));
                }
                only = Some(part);
            }
            Long("list") => {
                for test in guest::TESTS {
                    println!("{:<20} {}", test.name, test.about);
                }
                return Ok(0);
            }
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => names.push(name.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().into()),
        }
    }
    if planted {
        return mutants::main(&names);
    }
    if let Some(name) = names
        .iter()
        .find(|name| !guest::TESTS.iter().any(|test| test.name == **name))
    {
        return Err(Failure::new(
            USAGE,
            format!("no guest test is named {name}; see --list"),
        ));
    }
    let named = !names.is_empty();
    let asked = |part: &str| !named && only.as_deref().is_none_or(|only| only == part);
    // The slow parts are in the quick run only by name.
    let slow = |part: &str| asked(part) && (!quick || only.is_some());
    let again = long || only.is_some();
    let mut totals = Totals::default();
    if asked("host") {
        totals.add("host", host_tests::rooms()?);
    }
    if slow("host") {
        totals.add("host", host_tests::hardened()?);
    }
    if slow("models") {
        totals.add("models", host_tests::models(again)?);
    }
    if slow("miri") {
        totals.add("miri", host_tests::miri(again)?);
    }
    if asked("guest") || named {
        let kit = Kit::new(Profile::quick(quick), long, minutes)?;
        if quick && !named {
            names.extend(guest::QUICK.iter().map(|name| (*name).to_owned()));
        }
        for (name, checks) in guests(&kit, &names) {
            totals.add(&name, checks);
        }
    }
    if !totals.failures.is_empty() {
        println!("\nfailed:");
        for failure in &totals.failures {
            println!("  {failure}");
        }
    }
    println!("\n{} passed, {} failed", totals.passed, totals.failed);
    Ok(i32::from(totals.failed > 0 || totals.passed == 0))
}

#[derive(Default)]
struct Totals {
    passed: usize,
    failed: usize,
    failures: Vec<String>,
}

impl Totals {
    fn add(&mut self, group: &str, checks: Vec<Check>) {
        for check in checks {
            if check.good {
                self.passed += check.count;
            } else {
                self.failed += check.count;
                self.failures
                    .push(format!("{group}: {} {}", check.name, check.detail));
            }
        }
    }
}

/// Runs the guest tests, as many at once as there are processors.
fn guests(kit: &Kit, names: &[String]) -> Vec<(String, Vec<Check>)> {
    let wanted = guest::TESTS
        .iter()
        .filter(|test| names.is_empty() || names.iter().any(|name| name == test.name));
    let queue = Mutex::new(wanted.collect::<VecDeque<_>>());
    let results = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(4);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic while held").pop_front();
                    let Some(test) = next else { return };
                    let start = Instant::now();
                    let checks = (test.run)(kit);
                    let spent = Spent::take();
                    let failed: Vec<_> = checks.iter().filter(|check| !check.good).collect();
                    let mut results = results.lock().expect("no panic while held");
                    println!(
                        "guest {:<20} {:>4} checks, {} failed, {:.1} s; {:.1} s of processors in {} machines",
                        test.name,
                        checks.iter().map(|check| check.count).sum::<usize>(),
                        failed.len(),
                        start.elapsed().as_secs_f64(),
                        spent.seconds,
                        spent.machines
                    );
                    for check in failed {
                        println!("    FAILED {} {}", check.name, check.detail);
                    }
                    results.push((format!("guest {}", test.name), checks));
                }
            });
        }
    });
    results.into_inner().expect("no panic while held")
}
