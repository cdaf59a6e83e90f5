//! The guest tests by name, and the machines that each boots.
//!
//! *Interface*: [`TESTS`] is the table, [`Test::run`] gives the checks of a row. [`QUICK`] are the tests of
//! the quick part; [`OPTIMIZED`] those that need the kernel as users have it.

mod rows;

use super::guest;
use super::kit::Kit;
use super::tap::Check;
pub use rows::TESTS;
use std::time::Duration;
use xtask::failure::{Failure, HOST};

/// One guest test.
pub struct Test {
    /// The name in `cargo xtask test NAME`.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    how: How,
}

/// How a test is run.
enum How {
    /// Programs that report by the Test Anything Protocol, on machines.
    Boots(&'static [Boot]),
    /// By a function.
    Own(fn(&Kit) -> Vec<Check>),
}

/// A command that reports by the Test Anything Protocol, and the machines that run it.
#[derive(Clone, Copy)]
struct Boot {
    /// The beginning of the machines' names; the number of CPUs follows.
    name: &'static str,
    command: &'static [&'static str],
    cpus: &'static [u32],
    mebibytes: u64,
    icount: Option<u32>,
    words: &'static str,
}

/// The usual machines: one CPU and four, 128 MiB.
const fn boot(name: &'static str, command: &'static [&'static str]) -> Boot {
    Boot {
        name,
        command,
        cpus: &[1, 4],
        mebibytes: 128,
        icount: None,
        words: "",
    }
}

/// A command that runs as an ordinary user: two CPUs, 256 MiB.
const fn as_user(name: &'static str, command: &'static [&'static str]) -> Boot {
    boot(name, command).cpus(&[2]).mebibytes(256)
}

impl Boot {
    /// On machines with so many CPUs.
    const fn cpus(self, cpus: &'static [u32]) -> Self {
        Self { cpus, ..self }
    }

    /// With so much memory.
    const fn mebibytes(self, mebibytes: u64) -> Self {
        Self { mebibytes, ..self }
    }

    /// On one CPU, where an instruction takes a nanosecond: every run is the same on every host.
    const fn by_instructions(self) -> Self {
        Self {
            icount: Some(0),
            cpus: &[1],
            ..self
        }
    }

    /// With more words on the kernel's command line.
    const fn words(self, words: &'static str) -> Self {
        Self { words, ..self }
    }

    /// Boots the machines; the checks of the command on each.
    fn run(&self, kit: &Kit) -> Vec<Check> {
        let on = |(at, &cpus): (usize, &u32)| {
            let name = format!("{}-{cpus}", self.name);
            let mut machine = guest::with(kit, &name, cpus, self.mebibytes);
            machine.icount = self.icount;
            machine.append.push_str(self.words);
            // The order shows on any machine; where time goes by instructions, notes would change the counts.
            let notes = at == 0 && self.icount.is_none();
            match kit.noting().filter(|_| notes) {
                None => kit.tap(&machine, self.command, LIMIT),
                Some(Err(why)) => {
                    let failure = Failure::new(HOST, why);
                    vec![Check::hindered("the order of monitors", failure)]
                }
                Some(Ok(noting)) => noting.run(&mut machine, |kit, machine| {
                    kit.tap(machine, self.command, LIMIT)
                }),
            }
        };
        self.cpus.iter().enumerate().flat_map(on).collect()
    }
}

/// The processor time that a machine may take, at most.
const LIMIT: Duration = Duration::from_secs(600);

/// The commands of the table that do not count instructions: the beginning of their machines' names, the
/// command, and the memory in MiB.
pub fn uncounted_commands() -> impl Iterator<Item = (&'static str, &'static [&'static str], u64)> {
    let boots = TESTS.iter().filter_map(|test| match test.how {
        How::Boots(boots) => Some(boots),
        How::Own(_) => None,
    });
    let any = boots.flatten().filter(|boot| boot.icount.is_none());
    any.map(|boot| (boot.name, boot.command, boot.mebibytes))
}

/// The commands of the table, each with the name of its test. A test that is a function has an empty one.
pub fn commands() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    TESTS.iter().flat_map(|test| {
        let boots = match test.how {
            How::Boots(boots) => boots,
            How::Own(_) => &[],
        };
        let own = boots.is_empty().then_some((test.name, &[][..]));
        own.into_iter()
            .chain(boots.iter().map(|boot| (test.name, boot.command)))
    })
}

impl Test {
    /// Boots the test's machines; its checks.
    pub fn run(&self, kit: &Kit) -> Vec<Check> {
        match self.how {
            How::Boots(boots) => boots.iter().flat_map(|boot| boot.run(kit)).collect(),
            How::Own(run) => run(kit),
        }
    }

    /// Whether the kernel must be the one that users have.
    pub fn is_optimized(&self) -> bool {
        OPTIMIZED.contains(&self.name)
    }
}

/// A little of everything, in a minute: what a change breaks at once.
pub const QUICK: &[&str] = &[
    "streams",
    "cli",
    "calls",
    "calls-files",
    "calls-signals",
    "calls-waits",
    "jobs",
    "mappings",
    "sockets",
    "epolls",
    "ptys",
    "shell",
];

/// The tests on the kernel as users have it: those that count its instructions or look at its text, and a
/// little of everything else.
pub const OPTIMIZED: &[&str] = &[
    "switches",
    "lateness",
    "streams",
    "calls-smp",
    "shell-smp",
    "boots",
    "leaks",
];
