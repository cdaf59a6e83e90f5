//! `cargo xtask test --mutants`: small bugs are planted in a copy of the source, and the suites have to
//! notice.
//!
//! *Interface*: `main` runs those of a [`Choice`]; [`rooms_of_slice`] are the rooms that a quick one asks;
//! `show_faults` is what `cargo xtask check mutants` shows.

mod copy;
mod list;
mod on_host;
mod room_source;

use super::{Check, Kit, TESTS};
use copy::Copy;
use list::Mutant;
use on_host::{HostTests, Kind, Seen, parts};
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
    faults.extend(list::shares(&all));
    faults.extend(list::slice_faults(&all));
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

/// Which mutants are looked at.
pub enum Choice {
    /// Those that are named, by name or the beginning of one; without a name all.
    Named(Vec<String>),
    /// A tenth, another for each seed.
    Tenth(u64),
    /// The fixed few of `tests/mutants/slice`, by what runs on the host: those that ask one of these rooms.
    Slice(BTreeSet<String>),
}

/// The rooms that the quick slice asks.
pub fn rooms_of_slice() -> Result<BTreeSet<String>> {
    let all = list::read()?;
    let slice = list::slice(&all)?;
    let chosen = all.iter().filter(|mutant| slice.contains(&mutant.name));
    Ok(chosen.flat_map(rooms_asked).map(str::to_owned).collect())
}

/// The rooms whose tests on the host, or models, a mutant asks.
fn rooms_asked(mutant: &Mutant) -> impl Iterator<Item = &str> {
    let on_host = mutant.suites.iter().filter_map(|suite| Kind::of(suite));
    on_host.map(|(_, tests)| parts(tests).0)
}

impl Choice {
    /// Those of `all` that are chosen, with their numbers, and only the suites that are to be asked.
    fn of(&self, all: &[Mutant]) -> Result<Vec<(usize, Mutant)>> {
        let slice = match self {
            Choice::Slice(_) => list::slice(all)?,
            _ => BTreeSet::new(),
        };
        let wanted = |mutant: &Mutant| match self {
            Choice::Named(names) => {
                let begins = |name: &String| mutant.name.starts_with(name.as_str());
                names.is_empty() || names.iter().any(begins)
            }
            Choice::Tenth(seed) => scattered(&mutant.name, *seed).is_multiple_of(10),
            Choice::Slice(rooms) => {
                slice.contains(&mutant.name) && rooms_asked(mutant).any(|room| rooms.contains(room))
            }
        };
        let mut chosen: Vec<_> = (1..).zip(all.iter().cloned()).collect();
        chosen.retain(|(_, mutant)| wanted(mutant));
        if matches!(self, Choice::Slice(_)) {
            for (_, mutant) in &mut chosen {
                mutant.suites.retain(|suite| Kind::of(suite).is_some());
            }
        }
        Ok(chosen)
    }
}

/// A number that depends on all of `name` and `seed`.
fn scattered(name: &str, seed: u64) -> u64 {
    // FNV-1a, and its upper bits, which depend on all bytes.
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, step) >> 32
}

/// Plants the chosen mutants, and tells who was caught by what.
pub fn main(choice: &Choice) -> Result<i32> {
    let all = list::read()?;
    if let Choice::Tenth(seed) = choice {
        println!("mutants: the tenth of seed {seed}");
    }
    if let Some(fault) = list::faults(&all, &suites()).first() {
        return Err(Failure::new(USAGE, fault.clone()));
    }
    let chosen = choice.of(&all)?;
    let chosen: Vec<_> = (chosen.iter().map(|(number, mutant)| (*number, mutant))).collect();
    if chosen.is_empty() {
        return Err(Failure::new(USAGE, "no mutant has such a name"));
    }
    let mut copy = Copy::new("source")?;
    copy.plant(&switched(&all))?;
    copy.write()?;
    let laboratory = Laboratory {
        copy,
        kernel: OnceLock::new(),
        host: HostTests::default(),
        sound: Mutex::default(),
    };
    laboratory.prepare(&chosen);
    let report = laboratory.all(&chosen);
    Ok(report.tell())
}

/// Where mutants are looked at.
struct Laboratory {
    copy: Copy,
    kernel: OnceLock<std::result::Result<Kit, String>>,
    host: HostTests,
    /// Whether a suite passes without any mutant, once it was asked.
    sound: Mutex<BTreeMap<String, Arc<OnceLock<bool>>>>,
}

/// How it went with a mutant that was looked at.
enum End {
    /// The suite and the check that noticed.
    Caught(String, String),
    /// Its place was reached, and nobody noticed.
    Survived,
    /// No suite came to its place.
    NotReached,
}

/// The outcome of a mutant.
struct Outcome<'m> {
    mutant: &'m Mutant,
    /// How it went; or why the host could not look.
    end: Result<End>,
}

impl Laboratory {
    /// The kit with the kernel that has all mutants, built when it is first needed.
    fn switched(&self) -> Result<&Kit> {
        let make = || {
            let kit = Kit::with_suites(|| self.copy.kernel(), Profile::Quick);
            kit.map_err(|failure| failure.message)
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
        let suites = chosen.iter().flat_map(|(_, mutant)| &mutant.suites);
        self.host.expect(suites.map(String::as_str));
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
                let noticed = self.run(suite, 0).map(|seen| seen.failed);
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

    /// Runs a suite with mutant `number`; what failed, and whether the mutant was reached.
    ///
    /// # Errors
    /// The host could not do it: that says nothing.
    fn run(&self, suite: &str, number: usize) -> Result<Seen> {
        match Kind::of(suite) {
            Some((kind, tests)) => self.host.run(&self.copy, kind, tests, number),
            None => in_guest(self.switched()?, suite, number),
        }
    }

    /// The first of its suites that notices a mutant, and what it notices.
    fn catch(&self, number: usize, mutant: &Mutant) -> Result<End> {
        let (mut unsound, mut reached) = (None, false);
        for suite in &mutant.suites {
            if !self.is_sound(suite) {
                unsound = Some(suite);
                continue;
            }
            let seen = self.run(suite, number)?;
            match seen.failed {
                Some(what) if seen.reached => return Ok(End::Caught(suite.clone(), what)),
                Some(what) => {
                    let why = format!("{suite} failed, though the mutant was not reached: {what}");
                    return Err(Failure::new(HOST, why));
                }
                None => reached |= seen.reached,
            }
        }
        match unsound {
            Some(suite) => {
                let why = format!("{suite} fails without it, too");
                Err(Failure::new(HOST, why))
            }
            None if reached => Ok(End::Survived),
            None => Ok(End::NotReached),
        }
    }

    /// One that cannot be switched: a kernel of its own.
    fn built(&self, mutant: &Mutant) -> Result<End> {
        let mut copy = Copy::new("one")?;
        copy.plant_one(mutant)?;
        copy.write()?;
        let kit = self.switched()?.with_kernel(copy.kernel()?, true)?;
        for suite in &mutant.suites {
            if let Some(what) = in_guest(&kit, suite, 0)?.failed {
                return Ok(End::Caught(suite.clone(), what));
            }
        }
        Ok(End::Survived)
    }

    fn all<'m>(&self, chosen: &[(usize, &'m Mutant)]) -> Report<'m> {
        let queue = Mutex::new(chosen.iter().copied().collect::<VecDeque<_>>());
        let report = Mutex::new(Report::default());
        // Copies of one mutant are built one after the other.
        let building = Mutex::new(());
        in_parallel(|| {
            while let Some((number, mutant)) = next(&queue) {
                let start = Instant::now();
                let end = if mutant.built {
                    let _one = building.lock().expect("no panic while held");
                    self.built(mutant)
                } else {
                    self.catch(number, mutant)
                };
                let seconds = start.elapsed().as_secs_f64();
                let outcome = Outcome { mutant, end };
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
fn in_guest(kit: &Kit, suite: &str, number: usize) -> Result<Seen> {
    let (name, part) = parts(suite);
    let kit = &kit.mutated(number, part);
    let test = TESTS.iter().find(|test| test.name == name);
    let checks: Vec<Check> = test.map_or(Vec::new(), |test| test.run(kit));
    if checks.iter().all(|check| check.count == 0) {
        return Err(Failure::new(HOST, format!("{suite}: nothing is run")));
    }
    let reached = kit.has_reached();
    let told = |check: &Check| format!("{} {}", check.name, check.detail);
    let bad = checks.iter().find(|check| !check.good);
    let failed = checks.iter().find(|check| check.has_failed());
    match (failed, bad) {
        // Other failures may be its consequence.
        (_, Some(check)) if kit.is_hindered() => Err(Failure::new(HOST, told(check))),
        (None, Some(check)) => Err(Failure::new(HOST, told(check))),
        (None, None) => Ok(Seen {
            failed: None,
            reached,
        }),
        (Some(check), _) => {
            let mut text = told(check);
            if let Some((at, _)) = text.char_indices().nth(120) {
                text.truncate(at);
            }
            Ok(Seen {
                failed: Some(text),
                reached,
            })
        }
    }
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
        match (&self.end, &self.mutant.excuse) {
            (Err(failure), _) => format!("NOT RUN: {}", failure.message),
            (Ok(End::Caught(suite, what)), _) => format!("caught by {suite}: {what}"),
            (Ok(_), Some(excuse)) if self.is_explained() => format!("survived: {excuse}"),
            (Ok(End::Survived), _) => "SURVIVED".into(),
            (Ok(End::NotReached), _) => "NOT REACHED by any of its suites".into(),
        }
    }

    fn is_caught(&self) -> bool {
        matches!(self.end, Ok(End::Caught(..)))
    }

    /// Whether it survived and the list says why: of one that was not reached, that it cannot be.
    fn is_explained(&self) -> bool {
        match self.end {
            Ok(End::Survived) => self.mutant.excuse.is_some(),
            Ok(End::NotReached) => self.mutant.is_out_of_reach(),
            _ => false,
        }
    }
}

#[derive(Default)]
struct Report<'m>(Vec<Outcome<'m>>);

impl Report<'_> {
    /// Prints who caught how many, who survived, and the totals; gives the exit status.
    fn tell(&self) -> i32 {
        let mut suites = BTreeMap::<_, usize>::new();
        for outcome in &self.0 {
            if let Ok(End::Caught(suite, _)) = &outcome.end {
                *suites.entry(suite).or_default() += 1;
            }
        }
        println!();
        for (suite, count) in suites {
            println!("{count:>4} caught by {suite}");
        }
        let missed: Vec<_> = (self.0.iter())
            .filter(|outcome| !outcome.is_caught())
            .collect();
        for outcome in &missed {
            println!(
                "  {} {}: {}",
                outcome.mutant.file,
                outcome.mutant.name,
                outcome.text()
            );
        }
        let lost = missed.iter().filter(|outcome| outcome.end.is_err());
        let lost = lost.count();
        let explained = missed.iter().filter(|outcome| outcome.is_explained());
        let explained = explained.count();
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
