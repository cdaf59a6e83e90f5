//! `cargo xtask test --mutants`: small bugs are planted in a copy of the source, and the suites have to
//! notice.
//!
//! *Interface*: `main` runs those that are named, or all; `show_faults` is what `cargo xtask check mutants`
//! shows.

mod copy;
mod list;
mod on_host;

use super::{Check, Kit, TESTS};
use copy::Copy;
use list::Mutant;
use on_host::{HostTests, parts};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;
use xtask::failure::{Failure, HOST, Result, USAGE};
use xtask::kernel::Profile;

/// Machines at a time.
const WORKERS: usize = 2;

/// The texts of the list that the source has not, or has twice in one place.
fn faults() -> Result<Vec<String>> {
    let all = list::read()?;
    let mut faults = list::faults(&all, &suites());
    if faults.is_empty() {
        let planted = Copy::new("source")?.plant(&switched(&all));
        faults.extend(planted.err().map(|failure| failure.message));
    }
    Ok(faults)
}

/// Prints [`faults`]; the status is 0 only when there are none.
pub fn show_faults() -> Result<i32> {
    let faults = faults()?;
    for fault in &faults {
        println!("{fault}");
    }
    Ok(i32::from(!faults.is_empty()))
}

/// Those that go into one copy of the source, by their places in the whole list: a part of it needs no other
/// build.
fn switched(all: &[Mutant]) -> Vec<(usize, &Mutant)> {
    (1..).zip(all).filter(|(_, mutant)| !mutant.built).collect()
}

fn suites() -> Vec<&'static str> {
    TESTS.iter().map(|test| test.name).collect()
}

/// Plants those mutants that are named, by name or the beginning of one, or all, and tells who was caught by
/// what.
pub fn main(names: &[String]) -> Result<i32> {
    let all = list::read()?;
    if let Some(fault) = list::faults(&all, &suites()).first() {
        return Err(Failure::new(USAGE, fault.clone()));
    }
    let wanted = |mutant: &Mutant| {
        names.is_empty()
            || names
                .iter()
                .any(|name| mutant.name.starts_with(name.as_str()))
    };
    let chosen: Vec<_> = (1..)
        .zip(&all)
        .filter(|(_, mutant)| wanted(mutant))
        .collect();
    if chosen.is_empty() {
        return Err(Failure::new(USAGE, "no mutant has such a name"));
    }
    let mut copy = Copy::new("source")?;
    copy.plant(&switched(&all))?;
    copy.write()?;
    let laboratory = Laboratory {
        copy,
        kit: Kit::new(Profile::Quick, false, None)?,
        kernel: OnceLock::new(),
        host: HostTests::default(),
        sound: Mutex::default(),
    };
    // Before anything is asked that would need it.
    laboratory.switched()?;
    laboratory.prepare(&chosen);
    let report = laboratory.all(&chosen);
    Ok(report.tell())
}

/// Where mutants are looked at.
struct Laboratory {
    copy: Copy,
    kit: Kit,
    kernel: OnceLock<std::result::Result<Kit, String>>,
    host: HostTests,
    /// Whether a suite passes without any mutant, once it was asked.
    sound: Mutex<BTreeMap<String, Arc<OnceLock<bool>>>>,
}

/// The outcome of a mutant.
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
                .with_kernel(kernel, true)
                .map_err(|failure| failure.message)
        };
        let kit = self.kernel.get_or_init(make).as_ref();
        kit.map_err(|message| Failure::new(HOST, message.clone()))
    }

    /// Looks at the suites that are asked first, so that nobody waits for one later.
    fn prepare(&self, chosen: &[(usize, &Mutant)]) {
        let first: BTreeSet<_> = chosen
            .iter()
            .filter(|(_, mutant)| !mutant.built)
            .filter_map(|(_, mutant)| mutant.suites.first())
            .collect();
        let queue = Mutex::new(first.into_iter().collect::<VecDeque<_>>());
        in_parallel(|| {
            while let Some(suite) = next(&queue) {
                self.is_sound(suite);
            }
        });
    }

    /// Without any mutant a suite passes: else it would say nothing that it fails with one. It has a second
    /// try.
    fn is_sound(&self, suite: &str) -> bool {
        let known = {
            let mut sound = self.sound.lock().expect("no panic while held");
            sound.entry(suite.to_owned()).or_default().clone()
        };
        *known.get_or_init(|| {
            (0..2).any(|_| {
                let start = Instant::now();
                let noticed = self.run(suite, 0);
                let fault = noticed.unwrap_or_else(|failure| Some(failure.message));
                println!(
                    "without {suite:<27} {:>5.1} s  {}",
                    start.elapsed().as_secs_f64(),
                    fault.as_deref().map_or("passes", |_| "FAILED: ")
                );
                if let Some(fault) = &fault {
                    println!("  {fault}");
                }
                fault.is_none()
            })
        })
    }

    /// Runs a suite with mutant `number`; what failed.
    ///
    /// # Errors
    /// The host could not do it: that says nothing.
    fn run(&self, suite: &str, number: usize) -> Result<Option<String>> {
        match suite.strip_prefix("host:") {
            Some(room) => self.host.run(&self.copy, room, number),
            None => in_guest(self.switched()?, suite, number),
        }
    }

    /// The first of its suites that notices a mutant, and what it notices.
    fn catch(&self, number: usize, mutant: &Mutant) -> Result<Option<(String, String)>> {
        let mut unsound = None;
        for suite in &mutant.suites {
            if !self.is_sound(suite) {
                unsound = Some(suite);
            } else if let Some(what) = self.run(suite, number)? {
                return Ok(Some((suite.clone(), what)));
            }
        }
        let fault = |suite| Failure::new(HOST, format!("{suite} fails without it, too"));
        unsound.map_or(Ok(None), |suite| Err(fault(suite)))
    }

    /// One that cannot be switched: a kernel of its own.
    fn built(&self, mutant: &Mutant) -> Result<Option<(String, String)>> {
        let mut copy = Copy::new("one")?;
        copy.plant_one(mutant)?;
        copy.write()?;
        let kit = self.kit.with_kernel(copy.kernel()?, true)?;
        for suite in &mutant.suites {
            if let Some(what) = in_guest(&kit, suite, 0)? {
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

/// Runs one guest suite, or `SUITE:PART` its machines with `PART` in their names, until its first failure;
/// what that was.
fn in_guest(kit: &Kit, suite: &str, number: usize) -> Result<Option<String>> {
    let (name, part) = parts(suite);
    let kit = &kit.mutated(number, part);
    let test = TESTS.iter().find(|test| test.name == name);
    let checks: Vec<Check> = test.map_or(Vec::new(), |test| test.run(kit));
    if checks.iter().all(|check| check.count == 0) {
        return Err(Failure::new(HOST, format!("{suite}: nothing is run")));
    }
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
        let mut suites = BTreeMap::<_, usize>::new();
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
        let missed: Vec<_> = self.0.iter().filter(|outcome| !caught(outcome)).collect();
        for outcome in &missed {
            println!(
                "  {} {}: {}",
                outcome.mutant.file,
                outcome.mutant.name,
                outcome.text()
            );
        }
        let lost = missed.iter().filter(|outcome| outcome.caught.is_err());
        let lost = lost.count();
        let excused =
            |outcome: &&&Outcome| outcome.caught.is_ok() && outcome.mutant.excuse.is_some();
        let explained = missed.iter().filter(excused).count();
        println!(
            "{} mutants: {} caught, {} survived, {explained} of them explained, {} not run",
            self.0.len(),
            self.0.len() - missed.len(),
            missed.len() - lost,
            lost,
        );
        let failed = missed.len() - explained;
        println!("\n{} passed, {failed} failed", self.0.len() - failed);
        i32::from(failed > 0)
    }
}
