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
mod hang_watchdog;
mod host_tests;
mod kit;
mod ltp;
mod mitigations;
mod models;
mod music;
pub mod mutants;
mod order;
mod packages;
mod players;
mod posixfiles;
mod reach;
mod refused;
mod removal;
mod runtimes;
mod schedule;
mod session;
mod shares;
mod sounds;
mod stamps;
mod table;
mod tap;
mod threads;

pub use fuzz::main as fuzz;
pub use kit::Kit;
use lexopt::prelude::*;
pub use ltp::main as ltp;
use mutants::Choice;
use reach::Reach;
use schedule::Kernels;
use std::ffi::OsString;
pub use table::TESTS;
pub use tap::Check;
use xtask::failure::{Failure, Result, USAGE};

const HELP: &str = "\
usage: cargo xtask test [--long [--minutes N]] [--only check|host|mutants|models|miri|guest] [--quick|--optimized]
                        [--since REV] [NAME...]
       cargo xtask test --mutants [--tenth SEED | --slice | NAME...]

Runs everything that CI runs, or the named guest tests: on a kernel that is built quickly, but for those that
count the instructions of the one that users have.
Model checks, Miri and the quick mutants are left out for rooms that are as they were when they passed
(tests/passed.txt), but with --only or --long.

  --long       repeats what is random or racy as often as a release wants it (200 rounds of load, twenty
               minutes of random calls on 1 CPU and on 4, or --minutes), and runs what takes long
  --quick      without names: what a change breaks at once, in minutes; with names: the quick kernel for all
  --optimized  the kernel that users have for all
  --since REV  only what the changes since a revision of git reach
  --list       the guest tests
  --mutants    plant small bugs in a copy of the source, and see whether the suites notice: all of
               tests/mutants, or those whose names begin with a NAME (minutes); with --tenth a tenth that
               depends on SEED, which --long adds with a new seed; with --slice the fixed few of
               tests/mutants/slice, by tests on the host alone
";

/// The parts of a run that `--only` names.
const PARTS: &[&str] = &["check", "host", "mutants", "models", "miri", "guest"];

/// The words of the command line.
#[derive(Clone, Default)]
pub struct Wishes {
    /// The named guest tests; none: all.
    pub names: Vec<String>,
    /// One of [`PARTS`].
    pub only: Option<String>,
    /// `--long`.
    pub long: bool,
    /// `--minutes`.
    pub minutes: Option<u64>,
    /// `--quick`.
    pub quick: bool,
    /// `--optimized`.
    pub optimized: bool,
    /// `--since`, or everything.
    pub reach: Reach,
}

impl Wishes {
    /// Whether this part is to run.
    pub fn wants(&self, part: &str) -> bool {
        let slow = ["mutants", "models", "miri"].contains(&part);
        self.names.is_empty()
            && match &self.only {
                Some(only) => only == part,
                None => !(slow && self.quick),
            }
    }
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let mut wishes = Wishes::default();
    let (mut planted, mut slice, mut seed) = (false, false, None);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("long") => wishes.long = true,
            Long("quick") => wishes.quick = true,
            Long("optimized") => wishes.optimized = true,
            Long("since") => {
                wishes.reach = Reach::since(&parser.value()?.to_string_lossy())?;
            }
            Long("mutants") => planted = true,
            Long("slice") => slice = true,
            Long("tenth") => seed = Some(parser.value()?.parse()?),
            Long("minutes") => wishes.minutes = Some(parser.value()?.parse()?),
            Long("only") => {
                let part = parser.value()?.to_string_lossy().into_owned();
                if !PARTS.contains(&part.as_str()) {
                    return Err(Failure::new(
                        USAGE,
                        format!("--only {part}: one of {}", PARTS.join(", ")),
                    ));
                }
                wishes.only = Some(part);
            }
            Long("list") => {
                for test in TESTS {
                    println!("{:<20} {}", test.name, test.about);
                }
                return Ok(0);
            }
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => wishes.names.push(name.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().into()),
        }
    }
    if wishes.quick && wishes.optimized {
        return Err(Failure::new(USAGE, "--quick and --optimized: one of them"));
    }
    if (slice || seed.is_some()) && !planted {
        let why = "--slice and --tenth belong to --mutants";
        return Err(Failure::new(USAGE, why));
    }
    if planted {
        let choice = match (slice, seed) {
            (true, _) => Choice::Slice(mutants::rooms_of_slice()?),
            (false, Some(seed)) => Choice::Tenth(seed),
            (false, None) => Choice::Named(wishes.names),
        };
        return mutants::main(&choice);
    }
    let is_known = |name: &&String| TESTS.iter().any(|test| test.name == **name);
    if let Some(name) = wishes.names.iter().find(|name| !is_known(name)) {
        return Err(Failure::new(
            USAGE,
            format!("no guest test is named {name}; see --list"),
        ));
    }
    let totals = schedule::run(&wishes, &Kernels::new(&wishes));
    totals.tell();
    Ok(totals.status())
}
