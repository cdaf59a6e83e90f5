//! `cargo xtask bench scaling`: throughput of independent pipes, forks and file reads with 1, 2, 4 and 8
//! CPUs.
//!
//! *Interface*: `main`. The machine is QEMU with a host thread for each CPU, so the figures are times and
//! depend on the host, whose speed may change by half from second to second. So the machines of all settings
//! are booted at once and take turns of a fifth of a second (`turns`): each multiple compares figures of the
//! same seconds. The host's own limit is measured too: two machines, and eight, with one CPU each, side by
//! side. With each goes how much processor time QEMU got.
//!
//! There are several rounds, because where things lie in QEMU's table of translations differs from boot to
//! boot.
//!
//! Each machine has room for the most CPUs, so that all are emulated alike: for a machine that cannot have a
//! second one QEMU leaves out what makes an atomic instruction atomic, and the comparison would be of two
//! emulators.
//!
//! The program is position-independent, so that where it lies differs from boot to boot. QEMU remembers
//! translations of addresses in a table that one number of a page leads to; two pages that are used in turn
//! and share their place there cost many times more. With a program at a fixed address the figures would be
//! those of one such chance: its buffer beside the pages of one CPU's pipe, say, but not of the other's.

use super::columns::Columns;
use super::guest::{self, Kernel};
use super::turns::{self, Group, Trouble};
use super::{linux, results};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::machine::{Accel, Log};
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench scaling [--short] [--only synthesis] [--json FILE] [--write]

Boots Debian's Linux and Synthesis with 1, 2, 4 and 8 CPUs under multi-threaded emulation, with as many independent processes as CPUs
at each kind of work; beside them two machines, and eight, with one CPU each. All take turns of a tenth of a second, so that they have the same
host. Medians of several rounds with their spread, in operations a second of the host's time. Needs a quiet host with two processors. A machine of the other that does not end is left out of its round; one of Synthesis is a failure.

  --short             one round, a check and no result
  --only synthesis    leave the other out
  --json FILE         write the rows
  --write             write docs/results.md: with all rounds and kernels
";

const KINDS: [&str; 3] = ["pipes", "forks", "reads"];
const ROUNDS: usize = 7;
/// Samples of each kind in a boot, and how long each is, milliseconds.
const SAMPLES: (u32, u32) = (1, 1000);
/// How long a machine runs before the next has its turn.
const SLICE: Duration = Duration::from_millis(100);
/// How long the machines of a setting may run in all, others' turns not counted.
const LIMIT: Duration = Duration::from_secs(90);

/// The machines that a boot's figures are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// One machine with so many CPUs.
    Cpus(u32),
    /// So many machines with one CPU each, at the same time; their figures together.
    Machines(u32),
}

/// The first is what the others are multiples of.
const SETTINGS: [Setting; 6] = [
    Setting::Cpus(1),
    Setting::Machines(2),
    Setting::Cpus(2),
    Setting::Cpus(4),
    Setting::Machines(8),
    Setting::Cpus(8),
];

/// Further comparisons, each by its row's name.
const BEYOND: [(&str, Setting, Setting); 2] = [
    (
        "8_machines_over_2",
        Setting::Machines(8),
        Setting::Machines(2),
    ),
    ("8_CPUs_over_2", Setting::Cpus(8), Setting::Cpus(2)),
];

/// CPUs that every machine has room for.
const ROOM: u32 = 8;

impl Setting {
    fn name(self) -> String {
        match self {
            Setting::Cpus(cpus) => format!("{cpus}_CPUs"),
            Setting::Machines(count) => format!("{count}_machines"),
        }
    }

    /// How many machines, and how many CPUs each has.
    fn machines(self) -> (u32, u32) {
        match self {
            Setting::Cpus(cpus) => (1, cpus),
            Setting::Machines(count) => (count, 1),
        }
    }

    /// Whether `kernel` is measured in it. Of eight machines that boot Linux side by side the last come up
    /// when the first have ended, and have the host for themselves.
    fn suits(self, kernel: &Kernel) -> bool {
        matches!(kernel, Kernel::Synthesis) || self != Setting::Machines(8)
    }

    fn at(self) -> usize {
        let mut settings = SETTINGS.iter();
        settings
            .position(|setting| *setting == self)
            .expect("it is measured")
    }
}

/// Operations a second of each kind.
type Figures = [f64; KINDS.len()];

/// The figures of each round by setting; none where a machine was left out.
type Rounds = Vec<[Option<Figures>; SETTINGS.len()]>;

/// The figures of a kernel: its rounds, and the processor time of each setting's machines in how much time.
#[derive(Clone, Default)]
struct Known {
    rounds: Rounds,
    processor: [(f64, f64); SETTINGS.len()],
}

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    let (mut rounds, mut json, mut alone) = (ROUNDS, None, false);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("short") => rounds = 1,
            Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Long("only") => alone = guest::only_synthesis(&mut parser)?,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    results::whole(write, rounds == ROUNDS && !alone)?;
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("scaling", &compile::GLIBC_PIE)?;
    let mut kernels = Vec::new();
    if !alone {
        kernels.push(Kernel::peer("Linux", &linux::CLOUD)?);
    }
    kernels.push(Kernel::Synthesis);
    let (mut groups, mut places) = (Vec::new(), Vec::new());
    for (at, setting) in SETTINGS.into_iter().enumerate() {
        for (of, kernel) in kernels.iter().enumerate() {
            if setting.suits(kernel) {
                groups.push(group(kernel, &program, setting)?);
                places.push((at, of));
            }
        }
    }
    let mut known = vec![Known::default(); kernels.len()];
    for round in 1..=rounds {
        eprintln!("xtask: scaling, round {round} of {rounds}");
        for known in &mut known {
            known.rounds.push([None; SETTINGS.len()]);
        }
        let ended = turns::run(&groups, SLICE, LIMIT, |_| 0)?;
        for (number, ended) in ended.into_iter().enumerate() {
            let (at, of) = places[number];
            let (kernel, setting) = (&kernels[of], SETTINGS[at].name().replace('_', " "));
            match ended.printed.and_then(|printed| together(&printed)) {
                Ok(figures) => known[of].rounds[round - 1][at] = Some(figures),
                Err(Trouble { machine, what }) => {
                    let log = &groups[number].machines[machine].0.log;
                    let what = format!("{} with {setting} {what}; {log}", kernel.name());
                    match kernel {
                        Kernel::Synthesis => return Err(Failure::new(HOST, what)),
                        Kernel::Linux(..) => eprintln!("xtask: left out of this round: {what}"),
                    }
                }
            }
            known[of].processor[at].0 += ended.processor.0;
            known[of].processor[at].1 += ended.processor.1;
        }
    }
    let mut table = Columns::default();
    for (kernel, known) in kernels.iter().zip(&known) {
        let rounds = &known.rounds;
        table.add(
            kernel.name(),
            &format!("{}{}", rows(rounds), relative(rounds)),
        );
    }
    let shares = said(&kernels, &known);
    print!("{}{shares}", table.text());
    if let Some(path) = json {
        std::fs::write(&path, table.json()).context(format!("cannot write {}", path.display()))?;
    }
    if write {
        results::put("scaling", &report(&table, &kernels, &shares)?)?;
    }
    Ok(0)
}

/// The machines of a setting.
fn group(kernel: &Kernel, program: &Path, setting: Setting) -> Result<Group> {
    let (count, cpus) = setting.machines();
    let words = [cpus, SAMPLES.1, SAMPLES.0].map(|word| word.to_string());
    let (mut machine, archive) = kernel.prepare(program, &words, |machine| {
        machine.cpus = cpus;
        machine.room = ROOM;
        machine.accel = Accel::Tcg;
        machine.monitor = true;
        machine.still = true;
    })?;
    let (archive, dir) = (Rc::new(archive), host::build_dir("bench")?);
    let name = format!("scaling-{}-{}", kernel.name(), setting.name());
    let machines = (1..=count).map(|number| {
        machine.log = Log::File(dir.join(format!("{name}-{number}.log")));
        (machine.clone(), Rc::clone(&archive))
    });
    Ok(Group {
        machines: machines.collect(),
    })
}

/// The work that the machines of a setting did together, by the output of each.
fn together(printed: &[String]) -> std::result::Result<Figures, Trouble> {
    let mut sum = [0.0; KINDS.len()];
    for (machine, text) in printed.iter().enumerate() {
        for (kind, sum) in KINDS.into_iter().zip(&mut sum) {
            match samples(text, kind) {
                none if none.is_empty() => {
                    let what = format!("printed no sample of {kind}");
                    return Err(Trouble { machine, what });
                }
                mut some => *sum += median(&mut some),
            }
        }
    }
    Ok(sum)
}

/// The samples of one kind in what the program printed.
fn samples(printed: &str, kind: &str) -> Vec<f64> {
    printed
        .lines()
        .filter_map(|line| line.strip_prefix("sample ")?.split_once(' '))
        .filter(|(name, _)| *name == kind)
        .filter_map(|(_, figure)| figure.trim().parse().ok())
        .collect()
}

/// The median, 0 of nothing.
fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    match samples.len() {
        0 => 0.0,
        count => (samples[(count - 1) / 2] + samples[count / 2]) / 2.0,
    }
}

/// How much processor time each setting got, and in how many rounds it was left out.
fn said(kernels: &[Kernel], known: &[Known]) -> String {
    let mut out = String::new();
    for (kernel, known) in kernels.iter().zip(known) {
        for (at, setting) in SETTINGS.into_iter().enumerate() {
            if !setting.suits(kernel) {
                continue;
            }
            let (name, setting) = (kernel.name(), setting.name().replace('_', " "));
            let (processor, time) = known.processor[at];
            let share = processor / time.max(f64::MIN_POSITIVE);
            write!(out, "{name} with {setting}: {share:.2} host processors").expect("a string");
            match (left_out(&known.rounds, at), known.rounds.len()) {
                (0, _) => out.push('\n'),
                (out_of, all) => {
                    writeln!(out, "; left out of {out_of} of {all} rounds").expect("a string")
                }
            }
        }
    }
    out
}

/// In how many rounds a setting has no figures.
fn left_out(rounds: &Rounds, at: usize) -> usize {
    rounds.iter().filter(|round| round[at].is_none()).count()
}

/// Median, least and most of what there is; `None` of nothing.
fn spread(mut of: Vec<f64>) -> Option<[(&'static str, f64); 3]> {
    let middle = median(&mut of);
    Some([
        ("median", middle),
        ("least", *of.first()?),
        ("most", *of.last()?),
    ])
}

/// Median, least and most of the rounds, as rows.
fn rows(rounds: &Rounds) -> String {
    let mut out = String::new();
    for (kind, name) in KINDS.into_iter().enumerate() {
        for (at, setting) in SETTINGS.into_iter().enumerate() {
            let of = rounds.iter().filter_map(|round| Some(round[at]?[kind]));
            for (word, value) in spread(of.collect()).into_iter().flatten() {
                let setting = setting.name();
                writeln!(out, "row scaling-{name} {setting}_{word} ops/s {value:.0}")
                    .expect("a string");
            }
        }
    }
    out
}

/// Median, least and most of the rounds' own multiples: of one CPU, and from two on.
fn relative(rounds: &Rounds) -> String {
    let of_one = SETTINGS[1..].iter();
    let of_one =
        of_one.map(|setting| (format!("{}_over_1", setting.name()), *setting, SETTINGS[0]));
    let beyond = BEYOND
        .into_iter()
        .map(|(name, upper, lower)| (name.into(), upper, lower));
    let pairs: Vec<_> = of_one.chain(beyond).collect();
    let mut out = String::new();
    for (kind, section) in KINDS.into_iter().enumerate() {
        for (name, upper, lower) in &pairs {
            let multiple = |round: &[Option<Figures>; SETTINGS.len()]| {
                let (upper, lower) = (round[upper.at()]?[kind], round[lower.at()]?[kind]);
                (lower > 0.0).then(|| upper / lower)
            };
            let of = rounds.iter().filter_map(multiple);
            for (word, value) in spread(of.collect()).into_iter().flatten() {
                let word = match word {
                    "median" => String::new(),
                    end => format!("_{end}"),
                };
                writeln!(out, "row scaling-{section} {name}{word} times {value:.2}")
                    .expect("a string");
            }
        }
    }
    out
}

fn report(table: &Columns, kernels: &[Kernel], shares: &str) -> Result<String> {
    let versions: Vec<_> = kernels
        .iter()
        .map(|kernel| format!("{} {}", kernel.name(), kernel.version()))
        .collect();
    Ok(format!(
        "## Scaling: independent work on several CPUs\n\n\
         `cargo xtask bench scaling`: {ROUNDS} rounds; in each all machines of both kernels are booted and take turns of {} ms, standing still in between, so that all have the same host; {}, multi-threaded emulation on a host with {} processors, so more CPUs than \
         that can gain nothing. Every machine has room for {ROOM} CPUs, so that QEMU emulates atomic instructions alike in all. As many processes as CPUs, each with its own pipe, children or file (`user/bench/scaling.c`). *2 machines*, *8 machines*: with one CPU each, side by side, which is \
         what the host allows; their figures together (eight only of Synthesis, whose machines come up together). *over*: the median of the rounds' own multiples, with the least and the most. Kernels: {}.\n{}\n\
         Processor time that the host gave the machines of each setting in their turns, boot included; a machine of Linux that does not end within {} s of its turns is left out of its round, with the others of its setting:\n\n{}",
        SLICE.as_millis(),
        results::qemu()?,
        std::thread::available_parallelism().map_or(1, usize::from),
        versions.join(", "),
        table.markdown(),
        LIMIT.as_secs(),
        shares
            .lines()
            .map(|line| format!("* {line}\n"))
            .collect::<String>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_spread_and_multiples() {
        assert_eq!(
            samples(
                "sample pipes 10\nsample forks 3\nnoise\nsample pipes 20\n",
                "pipes"
            ),
            [10.0, 20.0]
        );
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0]), 2.5);
        assert_eq!(spread(Vec::new()), None);
        // The host is half as fast in the second round: the multiples do not notice. In the last the machine
        // with two CPUs was left out.
        let round = |one: f64, two: Option<f64>| {
            let mut round = [Some([one; KINDS.len()]); SETTINGS.len()];
            round[Setting::Cpus(2).at()] = two.map(|times| [one * times; KINDS.len()]);
            round
        };
        let rounds = vec![
            round(10.0, Some(1.75)),
            round(5.0, Some(1.5)),
            round(20.0, None),
        ];
        assert_eq!(left_out(&rounds, Setting::Cpus(2).at()), 1);
        assert_eq!(left_out(&rounds, 0), 0);
        let all = rows(&rounds) + &relative(&rounds);
        for row in [
            "pipes 1_CPUs_median ops/s 10",
            "pipes 1_CPUs_most ops/s 20",
            "pipes 2_CPUs_most ops/s 18",
            "forks 2_CPUs_over_1 times 1.62",
            "forks 2_CPUs_over_1_least times 1.50",
            "forks 2_CPUs_over_1_most times 1.75",
            "reads 8_CPUs_over_2 times 0.62",
            "reads 8_machines_over_2 times 1.00",
        ] {
            assert!(
                all.contains(&format!("row scaling-{row}\n")),
                "{row} in {all}"
            );
        }
    }

    #[test]
    fn machines_side_by_side_are_added_up_and_none_may_lack_a_sample() {
        let whole = "sample pipes 10\nsample forks 3\nsample reads 5\nend\n".to_owned();
        assert_eq!(
            together(&[whole.clone(), whole.clone()]),
            Ok([20.0, 6.0, 10.0])
        );
        let short = "sample pipes 10\nsample reads 5\n".to_owned();
        let trouble = together(&[whole, short]).expect_err("no forks");
        assert_eq!(trouble.machine, 1);
        assert!(trouble.what.contains("forks"), "{}", trouble.what);
    }
}
