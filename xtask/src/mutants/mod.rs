//! `cargo xtask test --mutants`: small bugs are planted in a copy of the source, and the suites have to notice.
//!
//! *Interface*: `main` runs those that are named, or all; `faults` is what `cargo xtask check mutants` shows.

mod copy;
mod list;

use crate::failure::{Context, Failure, HOST, Result, USAGE};
use crate::test::{Check, Kit, TESTS};
use copy::Copy;
use list::Mutant;
use std::collections::{BTreeSet, VecDeque};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Machines at a time.
const WORKERS: usize = 2;
/// Seconds that the tests of a room may take on the host.
const HOST_LIMIT: &str = "300";

/// What the list has that the source has not.
pub fn faults() -> Result<Vec<String>> {
    Ok(list::faults(&list::read()?, &suites()))
}

fn suites() -> Vec<&'static str> {
    TESTS.iter().map(|test| test.name).collect()
}

/// Plants those mutants that are named, by name or the beginning of one, or all, and tells who was caught by what.
pub fn main(names: &[String]) -> Result<i32> {
    let all = list::read()?;
    if let Some(fault) = list::faults(&all, &suites()).first() {
        return Err(Failure::new(USAGE, fault.clone()));
    }
    // Numbers are places in the whole list, so that a part of it needs no other build.
    let numbered: Vec<_> = (1..).zip(&all).collect();
    let wanted = |mutant: &Mutant| {
        names.is_empty()
            || names
                .iter()
                .any(|name| mutant.name.starts_with(name.as_str()))
    };
    let chosen: Vec<_> = numbered
        .iter()
        .copied()
        .filter(|(_, mutant)| wanted(mutant))
        .collect();
    if chosen.is_empty() {
        return Err(Failure::new(USAGE, "no mutant has such a name"));
    }
    let switched: Vec<_> = numbered
        .iter()
        .copied()
        .filter(|(_, mutant)| !mutant.built)
        .collect();
    let mut copy = Copy::new("source")?;
    copy.plant(&switched)?;
    copy.write()?;
    let laboratory = Laboratory {
        copy,
        kit: Kit::new(false, None)?,
        kernel: OnceLock::new(),
    };
    if !laboratory.is_sound(&chosen) {
        return Ok(1);
    }
    let report = laboratory.all(&chosen);
    Ok(report.tell())
}

/// Where mutants are looked at.
struct Laboratory {
    copy: Copy,
    kit: Kit,
    kernel: OnceLock<std::result::Result<Kit, String>>,
}

/// What became of a mutant.
struct Outcome<'m> {
    mutant: &'m Mutant,
    /// The suite and the check that noticed; or why the host could not look.
    caught: Result<Option<(String, String)>>,
}

impl Laboratory {
    /// The kit with the kernel that has all mutants, built when it is first needed.
    fn switched(&self) -> Result<&Kit> {
        let make = || {
            let kernel = self.copy.kernel().map_err(|failure| failure.message)?;
            self.kit
                .with_kernel(kernel)
                .map_err(|failure| failure.message)
        };
        let kit = self.kernel.get_or_init(make).as_ref();
        kit.map_err(|message| Failure::new(HOST, message.clone()))
    }

    /// Without any mutant the suites pass: else it would say nothing that they fail with one.
    fn is_sound(&self, chosen: &[(usize, &Mutant)]) -> bool {
        let suites: BTreeSet<_> = chosen
            .iter()
            .flat_map(|(_, mutant)| &mutant.suites)
            .collect();
        let queue = Mutex::new(suites.into_iter().collect::<VecDeque<_>>());
        let failed = Mutex::new(Vec::new());
        in_parallel(|| {
            while let Some(suite) = next(&queue) {
                let noticed = self
                    .run(suite, 0)
                    .unwrap_or_else(|failure| Some(failure.message));
                println!(
                    "without: {suite}{}",
                    noticed.as_ref().map_or("", |_| " FAILED")
                );
                if let Some(what) = noticed {
                    failed
                        .lock()
                        .expect("no panic while held")
                        .push(format!("{suite}: {what}"));
                }
            }
        });
        let failed = failed.into_inner().expect("no panic while held");
        for failure in &failed {
            println!("  {failure}");
        }
        if !failed.is_empty() {
            println!("\n0 passed, {} failed", failed.len());
        }
        failed.is_empty()
    }

    /// Runs a suite with mutant `number`; what failed.
    ///
    /// # Errors
    /// The host could not do it: that says nothing.
    fn run(&self, suite: &str, number: usize) -> Result<Option<String>> {
        match suite.strip_prefix("host:") {
            Some(room) => self.on_host(room, number),
            None => in_guest(&self.switched()?.mutated(number), suite),
        }
    }

    /// The first of its suites that notices a mutant, and what it notices.
    fn catch(&self, number: usize, mutant: &Mutant) -> Result<Option<(String, String)>> {
        for suite in &mutant.suites {
            if let Some(what) = self.run(suite, number)? {
                return Ok(Some((suite.clone(), what)));
            }
        }
        Ok(None)
    }

    /// The tests of `room` on the host.
    fn on_host(&self, room: &str, number: usize) -> Result<Option<String>> {
        let mut build = self.copy.cargo()?;
        build.args(["test", "--quiet", "--no-run", "--package", room]);
        let built = build
            .stdin(Stdio::null())
            .output()
            .context("cannot start cargo")?;
        if !built.status.success() {
            return Ok(Some(String::from_utf8_lossy(&built.stderr).into_owned()));
        }
        let tests = self.copy.cargo()?;
        let mut command = Command::new("timeout");
        command.arg(HOST_LIMIT).arg(tests.get_program());
        command.args(["test", "--quiet", "--package", room]);
        command.current_dir(tests.get_current_dir().unwrap_or(std::path::Path::new(".")));
        command.envs(
            tests
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command
            .env("MUTANT", number.to_string())
            .stdin(Stdio::null());
        let output = command.output().context("cannot start cargo")?;
        if output.status.success() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let test = text
            .lines()
            .find_map(|line| line.strip_prefix("---- ")?.split(' ').next());
        Ok(Some(test.unwrap_or("it does not end").to_owned()))
    }

    /// One that cannot be switched: a kernel of its own.
    fn built(&self, mutant: &Mutant) -> Result<Option<(String, String)>> {
        let mut copy = Copy::new("one")?;
        copy.plant_one(mutant)?;
        copy.write()?;
        let kit = self.kit.with_kernel(copy.kernel()?)?;
        for suite in &mutant.suites {
            if let Some(what) = in_guest(&kit.mutated(0), suite)? {
                return Ok(Some((suite.clone(), what)));
            }
        }
        Ok(None)
    }

    fn all<'m>(&self, chosen: &[(usize, &'m Mutant)]) -> Report<'m> {
        let queue = Mutex::new(chosen.iter().copied().collect::<VecDeque<_>>());
        let report = Mutex::new(Report::default());
        // Copies of one mutant are built one after the other.
        let building = Mutex::new(());
        in_parallel(|| {
            while let Some((number, mutant)) = next(&queue) {
                let start = Instant::now();
                let caught = if mutant.built {
                    let _one = building.lock().expect("no panic while held");
                    self.built(mutant)
                } else {
                    self.catch(number, mutant)
                };
                let seconds = start.elapsed().as_secs_f64();
                let outcome = Outcome { mutant, caught };
                println!(
                    "mutant {:<28} {seconds:>5.1} s  {}",
                    mutant.name,
                    outcome.text()
                );
                report.lock().expect("no panic while held").0.push(outcome);
            }
        });
        report.into_inner().expect("no panic while held")
    }
}

/// Runs one guest suite until its first failure; what that was.
fn in_guest(kit: &Kit, suite: &str) -> Result<Option<String>> {
    let Some(test) = TESTS.iter().find(|test| test.name == suite) else {
        return Ok(None);
    };
    let checks: Vec<Check> = (test.run)(kit);
    let Some(failed) = checks.into_iter().find(|check| !check.good) else {
        return Ok(None);
    };
    let mut text = format!("{} {}", failed.name, failed.detail);
    if kit.is_hindered() {
        return Err(Failure::new(HOST, text));
    }
    if let Some((at, _)) = text.char_indices().nth(120) {
        text.truncate(at);
    }
    Ok(Some(text))
}

fn next<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    queue.lock().expect("no panic while held").pop_front()
}

fn in_parallel(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(&work);
        }
    });
}

impl Outcome<'_> {
    fn text(&self) -> String {
        match (&self.caught, &self.mutant.excuse) {
            (Err(failure), _) => format!("NOT RUN: {}", failure.message),
            (Ok(Some((suite, what))), _) => format!("caught by {suite}: {what}"),
            (Ok(None), Some(excuse)) => format!("survived: {excuse}"),
            (Ok(None), None) => "SURVIVED".into(),
        }
    }
}

#[derive(Default)]
struct Report<'m>(Vec<Outcome<'m>>);

impl Report<'_> {
    /// Prints who caught how many, who survived, and the totals; gives the exit status.
    fn tell(&self) -> i32 {
        let mut suites = std::collections::BTreeMap::<_, usize>::new();
        let caught = |outcome: &&Outcome| matches!(outcome.caught, Ok(Some(_)));
        for outcome in &self.0 {
            if let Ok(Some((suite, _))) = &outcome.caught {
                *suites.entry(suite).or_default() += 1;
            }
        }
        println!();
        for (suite, count) in suites {
            println!("{count:>4} caught by {suite}");
        }
        let survived: Vec<_> = self.0.iter().filter(|outcome| !caught(outcome)).collect();
        for outcome in &survived {
            println!(
                "  {} {}: {}",
                outcome.mutant.file,
                outcome.mutant.name,
                outcome.text()
            );
        }
        let excused =
            |outcome: &&&Outcome| outcome.caught.is_ok() && outcome.mutant.excuse.is_some();
        let explained = survived.iter().filter(excused).count();
        println!(
            "{} mutants: {} caught, {} survived, {explained} of them explained",
            self.0.len(),
            self.0.len() - survived.len(),
            survived.len(),
        );
        let failed = survived.len() - explained;
        println!("\n{} passed, {failed} failed", self.0.len() - failed);
        i32::from(failed > 0)
    }
}
