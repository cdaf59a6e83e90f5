//! The order in which a test run does its parts: the host's and the guests' side by side.
//!
//! *Interface*: [`run`] does all that is wanted, with a worker for each processor; [`Totals`] has the result.
//! The first worker begins with the host's part (checks, host tests, models, Miri), the others with guest
//! tests, so one compiles while another's guests run. A worker that has done its own part helps with the
//! other.

use super::kit::{Kit, Spent};
use super::table::{QUICK, TESTS, Test};
use super::tap::Check;
use super::{Wishes, host_tests};
use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;
use xtask::failure::{Failure, HOST};
use xtask::kernel::Profile;

/// The most tests at a time: more would have too little of a machine's memory.
const MOST: usize = 4;

/// Does what is wanted; gives the totals.
pub fn run(wishes: &Wishes, kernels: &Kernels) -> Totals {
    let host = Mutex::new(host_tests::parts(wishes));
    let guests = Mutex::new(guest_tests(wishes));
    let totals = Mutex::new(Totals::default());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for worker in 0..workers.min(MOST) {
            let (host, guests, totals) = (&host, &guests, &totals);
            scope.spawn(move || {
                let part = || pop(host).map(|part| in_host(part, totals));
                let test = || pop(guests).map(|test| in_guest(test, wishes, kernels, totals));
                match worker {
                    0 => while part().or_else(test).is_some() {},
                    _ => while test().or_else(part).is_some() {},
                }
            });
        }
    });
    totals.into_inner().expect("no panic while held")
}

fn pop<T>(queue: &Mutex<VecDeque<T>>) -> Option<T> {
    queue.lock().expect("no panic while held").pop_front()
}

/// The guest tests that are wanted.
fn guest_tests(wishes: &Wishes) -> VecDeque<&'static Test> {
    let wanted = |test: &&Test| match wishes.names.as_slice() {
        [] if wishes.quick => wishes.wants("guest") && QUICK.contains(&test.name),
        [] => wishes.wants("guest"),
        names => names.iter().any(|name| name == test.name),
    };
    let reached = |test: &&Test| wishes.reach.has(test);
    TESTS.iter().filter(wanted).filter(reached).collect()
}

/// Runs a part of the host's.
fn in_host(part: host_tests::Part, totals: &Mutex<Totals>) {
    let start = Instant::now();
    let checks =
        (part.run)().unwrap_or_else(|failure| vec![Check::hindered(part.name.as_str(), failure)]);
    println!("{:<26} {}", part.name, summary(&checks, start));
    let mut totals = totals.lock().expect("no panic while held");
    totals.add(&part.name, checks);
}

/// Runs a guest test.
fn in_guest(test: &Test, wishes: &Wishes, kernels: &Kernels, totals: &Mutex<Totals>) {
    let (checks, start) = match kernels.of(test) {
        Ok(kit) => {
            let start = Instant::now();
            (test.run(kit), start)
        }
        Err(why) => (
            vec![Check::hindered("the kernel", Failure::new(HOST, why))],
            Instant::now(),
        ),
    };
    let spent = Spent::take();
    let mut totals = totals.lock().expect("no panic while held");
    println!(
        "guest {:<20} {}; {:.1} s of processors in {} machines",
        test.name,
        summary(&checks, start),
        spent.seconds,
        spent.machines
    );
    let failed: Vec<_> = checks.iter().filter(|check| !check.good).collect();
    for check in &failed {
        println!("    FAILED {} {}", told(check), check.detail);
    }
    if !failed.is_empty() {
        println!("    again: {}", again(test, wishes));
    }
    totals.add(&format!("guest {}", test.name), checks);
}

fn summary(checks: &[Check], start: Instant) -> String {
    let count =
        |checks: &mut dyn Iterator<Item = &Check>| checks.map(|check| check.count).sum::<usize>();
    format!(
        "{:>5} checks, {} failed, {:.1} s",
        count(&mut checks.iter()),
        count(&mut checks.iter().filter(|check| !check.good)),
        start.elapsed().as_secs_f64()
    )
}

/// The command that repeats a test.
fn again(test: &Test, wishes: &Wishes) -> String {
    let mut words = vec!["cargo xtask test"];
    for (word, wanted) in [
        ("--long", wishes.long),
        ("--quick", wishes.quick),
        ("--optimized", wishes.optimized),
    ] {
        if wanted {
            words.push(word);
        }
    }
    words.push(test.name);
    words.join(" ")
}

/// The kernels of a run, each built when a test needs it first.
pub struct Kernels {
    wishes: Wishes,
    quick: OnceLock<std::result::Result<Kit, String>>,
    optimized: OnceLock<std::result::Result<Kit, String>>,
}

impl Kernels {
    /// For a run with these wishes.
    pub fn new(wishes: &Wishes) -> Kernels {
        Kernels {
            wishes: wishes.clone(),
            quick: OnceLock::new(),
            optimized: OnceLock::new(),
        }
    }

    /// The kit with the kernel that `test` needs, or why there is none.
    fn of(&self, test: &Test) -> std::result::Result<&Kit, String> {
        let wishes = &self.wishes;
        let optimized = wishes.optimized || (test.is_optimized() && !wishes.quick);
        let (place, profile) = match optimized {
            true => (&self.optimized, Profile::Kernel),
            false => (&self.quick, Profile::Quick),
        };
        let make = || {
            let kit = Kit::new(profile, wishes.long, wishes.minutes);
            // A run of named tests waits for no second kernel.
            let notes = wishes.names.is_empty() && !optimized && !wishes.quick;
            kit.map(|kit| if notes { kit.that_notes_order() } else { kit })
                .map_err(|failure| failure.message)
        };
        place.get_or_init(make).as_ref().map_err(Clone::clone)
    }
}

/// The name of a bad check, and whose fault it is.
fn told(check: &Check) -> String {
    let whose = if check.hindered { "the host: " } else { "" };
    format!("{whose}{}", check.name)
}

/// The result of a run.
#[derive(Default)]
pub struct Totals {
    passed: usize,
    failed: usize,
    /// Those of the failed that say nothing, since the host could not do its part.
    hindered: usize,
    failures: Vec<String>,
}

impl Totals {
    fn add(&mut self, group: &str, checks: Vec<Check>) {
        for check in checks {
            if check.good {
                self.passed += check.count;
            } else {
                self.failed += check.count;
                self.hindered += usize::from(check.hindered) * check.count;
                self.failures
                    .push(format!("{group}: {} {}", told(&check), check.detail));
            }
        }
    }

    /// Prints what failed, and the totals in the last line.
    pub fn tell(&self) {
        if !self.failures.is_empty() {
            println!("\nfailed:");
            for failure in &self.failures {
                println!("  {failure}");
            }
        }
        if self.hindered > 0 {
            println!("\n{} of the failures are the host's", self.hindered);
        }
        println!("\n{} passed, {} failed", self.passed, self.failed);
    }

    /// 0 when something passed and nothing failed.
    pub fn status(&self) -> i32 {
        i32::from(self.failed > 0 || self.passed == 0)
    }
}
