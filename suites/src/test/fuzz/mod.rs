//! Random sequences of calls, made by `user/tests/fuzz.c`: as a user, as root, on one CPU and on four.
//!
//! *Interface*: `run` is the suite: first the sequences in `tests/fuzz`, which did harm once or reached
//! something; then random ones, for as long as one likes (`--long --minutes N`). `main` is
//! `cargo xtask fuzz`: one machine as one wants it. A long run says which part of the emulator was executed,
//! and makes what failed as small as it can.

mod choose;
mod coverage;
mod image;
mod smaller;

use super::guest::with;
use super::kit::Kit;
use super::tap::Check;
use coverage::{Reached, Trace};
use image::Image;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use xtask::failure::{Failure, Result, USAGE};
use xtask::host;
use xtask::kernel::Profile;
use xtask::machine::{Machine, Outcome, Status};

const HELP: &str = "\
usage: cargo xtask fuzz [--cpus N] [--as user|root|all] [--seconds N] [--seed N] [--workers N]
                        [--icount] [--blind] [--no-coverage]
       cargo xtask fuzz --replay FILE...
       cargo xtask fuzz --choose [--seconds N] [--seed N]

Makes random sequences of calls on one machine, and says whether anything was harmed and which part of the
kernel was executed; what was not is in build/test/fuzz-*.unreached.

  --cpus N       processors (1)
  --as WHO       whose processes: an ordinary user's (user), root's, also beside a user's (root), or all
  --seconds N    by the machine's clock (60)
  --seed N       another for other sequences (1)
  --workers N    sequences at a time (3)
  --icount       on one processor, what happens repeats exactly; a second then takes about five
  --blind        what brought new answers is not changed further
  --no-coverage  faster
  --replay       the sequences in these files, in place of random ones
  --choose       make tests/fuzz/corpus.txt anew: the fewest sequences that reach most
";

const PROGRAM: &str = "/tests/fuzz-musl";
/// Where the kept sequences are, in the project and, below the root, in the guest.
const KEPT: &str = "tests/fuzz";
/// Seconds of each of the four runs in a short test.
const SHORT: u64 = 8;
/// Minutes on one CPU, and as many on four, in a long one that is told nothing else.
const LONG: u64 = 20;

/// One machine's work.
#[derive(Clone)]
struct Run {
    /// Of its files in `build/test`.
    name: String,
    cpus: u32,
    icount: bool,
    /// `user`, `root` or `all`: what the program calls the arrangements.
    who: String,
    seconds: u64,
    seed: u64,
    workers: u32,
    blind: bool,
    marks: bool,
    coverage: bool,
    /// Sequences to replay, files of the host; none: random ones.
    files: Vec<PathBuf>,
}

impl Run {
    fn new(name: &str, cpus: u32) -> Self {
        Self {
            name: name.into(),
            cpus,
            icount: cpus == 1,
            who: "user".into(),
            seconds: 60,
            seed: 1,
            workers: 3,
            blind: false,
            marks: false,
            coverage: false,
            files: Vec::new(),
        }
    }
}

/// The outcome.
struct Done {
    /// Why it is no success.
    why: Option<String>,
    /// The program's own figures.
    figures: Option<String>,
    /// The sequences, in the order in which they began.
    begun: Vec<String>,
    /// The last that each worker began.
    under_way: Vec<String>,
    /// With the code of the kernel that ran.
    reached: Option<(Reached, Image)>,
}

/// The kept sequences' files on the host, in order.
fn kept_files() -> Result<Vec<PathBuf>> {
    let listing = std::fs::read_dir(host::project().join(KEPT));
    let files = listing.into_iter().flatten().flatten();
    let mut files: Vec<_> = files.map(|file| file.path()).collect();
    files.sort();
    Ok(files)
}

/// Where a file is in the guest.
fn in_guest(file: &std::path::Path) -> String {
    let name = file.file_name().unwrap_or_default();
    format!("/{KEPT}/{}", name.to_string_lossy())
}

/// The program's words.
fn arguments(run: &Run) -> Vec<String> {
    let mut words = vec![PROGRAM.to_owned()];
    if run.files.is_empty() {
        let (seconds, seed) = (run.seconds.to_string(), run.seed.to_string());
        words.extend(["run".into(), seconds, seed, run.workers.to_string()]);
        words.push(run.who.clone());
    } else {
        words.push("replay".into());
    }
    let flag = |on: bool, word: &str| on.then(|| word.to_owned());
    words.extend(flag(run.marks, "marks"));
    words.extend(flag(run.blind, "blind"));
    let kept = kept_files().unwrap_or_default();
    let files = if run.files.is_empty() {
        &kept
    } else {
        &run.files
    };
    words.extend(files.iter().map(|file| in_guest(file)));
    words
}

/// Boots a machine and lets it work.
fn perform(kit: &Kit, run: &Run) -> Done {
    let mut machine = machine(kit, &run.name, run.cpus);
    if run.icount {
        machine.icount = Some(0);
        // The machine's random numbers are the same each time.
        machine.extra.extend(["-seed".into(), "1".into()]);
    }
    let trace = run.coverage.then(|| {
        // The file may be another when the machine has ended.
        let image = Image::of(kit.kernel())?;
        Ok((Trace::start(&mut machine, &run.name)?, image))
    });
    let trace = trace.and_then(|trace: Result<_>| trace.ok());
    let words = arguments(run);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    // A second of counted instructions takes longer.
    let factor = if run.icount { 20 } else { 3 };
    let limit = Duration::from_secs(run.seconds * factor + 120);
    let booted = kit.root(&words).and_then(|mut root| {
        for file in &run.files {
            root.add(&format!("{}:{}", file.display(), in_guest(file)))?;
        }
        kit.boot_root(root, &machine, &words, Vec::new(), limit)
    });
    let log = machine.log.text();
    let reached = trace.and_then(|(trace, image)| Some((trace.read().ok()?, image)));
    Done {
        why: match booted {
            Err(failure) => Some(failure.message),
            Ok(ran) => verdict(&ran.outcome, &log),
        },
        figures: said(&log, "fuzz seed ").last().map(|&text| text.into()),
        begun: begun(&log).map(|(_, id)| id.to_owned()).collect(),
        under_way: under_way(&log),
        reached,
    }
}

/// The kept sequences, and random ones: on one CPU and on four, as a user and as root.
pub fn run(kit: &Kit) -> Vec<Check> {
    let mut checks = Vec::new();
    for cpus in [1, 4] {
        let kept = Run {
            icount: false,
            files: kept_files().unwrap_or_default(),
            ..Run::new(&format!("fuzz-kept-{cpus}"), cpus)
        };
        checks.push(check(&kept.name, perform(kit, &kept).why));
    }
    let minutes = kit.minutes.or(kit.long.then_some(LONG));
    for (at, (cpus, who)) in [(1, "user"), (1, "root"), (4, "user"), (4, "root")]
        .into_iter()
        .enumerate()
    {
        // A long run begins elsewhere each time.
        let other = minutes.map_or(0, |_| u64::from(std::process::id()) * 1000);
        let run = Run {
            who: who.into(),
            icount: false,
            seconds: minutes.map_or(SHORT, |minutes| minutes * 30),
            seed: at as u64 + 1 + other,
            coverage: minutes.is_some(),
            ..Run::new(&format!("fuzz-{who}-{cpus}"), cpus)
        };
        let mut done = perform(kit, &run);
        tell(&run, &done);
        if let (Some(why), Some(_)) = (&mut done.why, minutes)
            && let Some(file) = smaller::search(kit, &run, &done.under_way)
        {
            why.push_str(&format!(" | again by {}", file.display()));
        }
        checks.push(check(&run.name, done.why));
    }
    checks
}

fn check(name: &str, why: Option<String>) -> Check {
    Check::new(name, why.is_none(), why.unwrap_or_default())
}

/// Prints the figures of a run.
fn tell(run: &Run, done: &Done) {
    if let Some(figures) = &done.figures {
        println!("{}: seed {figures}", run.name);
    }
    if let Some((reached, image)) = &done.reached {
        let told = scratch(&format!("{}.unreached", run.name))
            .and_then(|others| coverage::report(image, reached, &others));
        println!(
            "{}: {}",
            run.name,
            told.unwrap_or_else(|failure| failure.message)
        );
    }
}

/// `cargo xtask fuzz`.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let mut run = Run {
        coverage: true,
        icount: false,
        ..Run::new("fuzz", 1)
    };
    let (mut replay, mut choose) = (false, false);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("cpus") => run.cpus = parser.value()?.parse()?,
            Long("as") => run.who = parser.value()?.string()?,
            Long("seconds") => run.seconds = parser.value()?.parse()?,
            Long("seed") => run.seed = parser.value()?.parse()?,
            Long("workers") => run.workers = parser.value()?.parse()?,
            Long("icount") => run.icount = true,
            Long("blind") => run.blind = true,
            Long("no-coverage") => run.coverage = false,
            Long("replay") => replay = true,
            Long("choose") => choose = true,
            Value(file) if replay => run.files.push(PathBuf::from(file)),
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let known = ["user", "root", "all"].contains(&run.who.as_str());
    let fits = (1..=8).contains(&run.cpus) && (!run.icount || run.cpus == 1);
    if !known || !fits || replay == run.files.is_empty() {
        return Err(Failure::new(USAGE, "see `cargo xtask fuzz --help`"));
    }
    // Several may run at a time.
    run.name = format!("fuzz-{}-{}-{}", run.who, run.cpus, run.seed);
    let kit = Kit::new(Profile::Kernel, false, None)?;
    if choose {
        choose::choose(&kit, run.seconds, run.seed)?;
        return Ok(0);
    }
    let done = perform(&kit, &run);
    tell(&run, &done);
    Ok(match done.why {
        None => 0,
        Some(why) => {
            println!("failed: {why}");
            1
        }
    })
}

/// A machine for the fuzzer. Its console is a terminal, which the sequences reach.
fn machine(kit: &Kit, name: &str, cpus: u32) -> Machine {
    let mut machine = with(kit, name, cpus, 128);
    machine.append = "console=tty rows=24 cols=80".into();
    machine
}

/// The last line of the program about itself in the log, which the terminal's noise does not reach.
fn said<'a>(log: &'a str, word: &str) -> Vec<&'a str> {
    let after = |line: &'a str| line.split_once(word).map(|(_, rest)| rest.trim());
    log.lines().filter_map(after).collect()
}

/// Why a run is no success; what was under way when it ended.
fn verdict(outcome: &Outcome, log: &str) -> Option<String> {
    let good = outcome.status == Status::Exit(0) && !said(log, "fuzz ok:").is_empty();
    (!good).then(|| {
        format!(
            "{:?} {} | {} | under way: {}",
            outcome.status,
            said(log, "fuzz bad:").join("; "),
            outcome
                .report
                .lines()
                .take(12)
                .collect::<Vec<_>>()
                .join(" | "),
            under_way(log).join(" ")
        )
    })
}

/// Workers and the sequences that they began.
fn begun(log: &str) -> impl Iterator<Item = (usize, &str)> {
    let begun = said(log, "fuzz ").into_iter();
    begun.filter_map(|text| {
        let (worker, id) = text.split_once(' ')?;
        Some((worker.parse().ok()?, id))
    })
}

/// The last sequence that each worker began.
fn under_way(log: &str) -> Vec<String> {
    let mut last: [Option<&str>; 8] = [None; 8];
    for (worker, id) in begun(log) {
        if let Some(slot) = last.get_mut(worker) {
            *slot = Some(id);
        }
    }
    last.into_iter().flatten().map(str::to_owned).collect()
}

/// A file that a test writes.
fn scratch(name: &str) -> Result<PathBuf> {
    Ok(host::build_dir("test")?.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_what_was_under_way() {
        let log = "[  1.0] fuzz 0 ab.1\n[ 1.1] fuzz 1 cd\nfuzz 0 ef.2.3\nfuzz bad: guard: x\nfuzz seed 7: 3 rounds\n";
        assert_eq!(under_way(log), ["ef.2.3", "cd"]);
        assert_eq!(said(log, "fuzz bad:"), ["guard: x"]);
    }
}
