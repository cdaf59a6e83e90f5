//! `cargo xtask bench scaling`: throughput of independent pipes, forks and file reads with 1, 2, 4 and 8 CPUs.
//!
//! *Interface*: `main`. The machine is QEMU with a host thread for each CPU, so the figures are times and depend on the host, whose speed changes from
//! second to second. So there are many short rounds: in each, both kernels boot with every number of CPUs, in every other round the other way round, and what is
//! reported as a multiple is the median of the rounds' own multiples. What the host allows is measured too: two machines with one CPU each, side by side. With each goes
//! how much processor time QEMU got.
//!
//! Each machine has room for the most CPUs, so that all are emulated alike: for a machine that cannot have a second one QEMU leaves out what makes an atomic
//! instruction atomic, and the comparison would be of two emulators.
//!
//! The program is position-independent, so that where it lies differs from boot to boot. QEMU remembers translations of addresses in a table that one
//! number of a page leads to; two pages that are used in turn and share their place there cost many times more. With a program at a fixed address
//! the figures would be those of one such chance: its buffer beside the pages of one CPU's pipe, say, but not of the other's.

use super::columns::Columns;
use super::guest::{self, Kernel};
use super::{linux, results};
use crate::failure::{Context, Result};
use crate::machine::{Accel, Log};
use crate::{compile, host};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HELP: &str = "\
usage: cargo xtask bench scaling [--short] [--only synthesis] [--json FILE]

Boots Debian's Linux and Synthesis in turn with 1, 2, 4 and 8 CPUs under multi-threaded emulation, with as many independent
processes as CPUs at each kind of work, and two machines with one CPU each side by side. Medians of several rounds with their spread,
in operations a second of the host's time. Needs a quiet host with two processors; writes docs/results.md.

  --short             one round, a check and no result (docs/results.md is not written then)
  --only synthesis    leave the other out (docs/results.md is not written then)
  --json FILE         write the rows
";

const CPUS: [u32; 4] = [1, 2, 4, 8];
const KINDS: [&str; 3] = ["pipes", "forks", "reads"];
const ROUNDS: usize = 15;
/// Samples of each kind in a boot, and how long each is, milliseconds.
const SAMPLES: (u32, u32) = (1, 300);
const LIMIT: Duration = Duration::from_secs(300);

/// What a boot's figures are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// One machine with so many CPUs.
    Cpus(u32),
    /// Two machines with one CPU each, at the same time; their figures together.
    TwoMachines,
}

const SETTINGS: [Setting; CPUS.len() + 1] = [
    Setting::Cpus(CPUS[0]),
    Setting::TwoMachines,
    Setting::Cpus(CPUS[1]),
    Setting::Cpus(CPUS[2]),
    Setting::Cpus(CPUS[3]),
];

impl Setting {
    fn name(self) -> String {
        match self {
            Setting::Cpus(cpus) => format!("{cpus}_CPUs"),
            Setting::TwoMachines => "2_machines".into(),
        }
    }
}

/// The median of each kind's samples in each round, by setting.
type Rounds = Vec<[[f64; KINDS.len()]; SETTINGS.len()]>;

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
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
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("scaling", &compile::GLIBC_PIE)?;
    let mut kernels = Vec::new();
    if !alone {
        kernels.push(Kernel::peer("Linux", &linux::CLOUD)?);
    }
    kernels.push(Kernel::Synthesis);
    let mut figures: Vec<Rounds> = vec![Vec::new(); kernels.len()];
    let mut shares = vec![[0.0; SETTINGS.len()]; kernels.len()];
    for round in 1..=rounds {
        eprintln!("xtask: scaling, round {round} of {rounds}");
        for figures in &mut figures {
            figures.push([[0.0; KINDS.len()]; SETTINGS.len()]);
        }
        for (of, kernel) in kernels.iter().enumerate() {
            for step in 0..SETTINGS.len() {
                let at = match round % 2 {
                    0 => SETTINGS.len() - 1 - step,
                    _ => step,
                };
                let start = (Instant::now(), children_seconds());
                figures[of][round - 1][at] = measure(kernel, &program, SETTINGS[at])?;
                let spent = children_seconds() - start.1;
                shares[of][at] += spent / start.0.elapsed().as_secs_f64() / rounds as f64;
            }
        }
    }
    let mut table = Columns::default();
    for (kernel, rounds) in kernels.iter().zip(&figures) {
        table.add(
            kernel.name(),
            &format!("{}{}", rows(rounds), relative(rounds)),
        );
    }
    let shares = said(&kernels, &shares);
    print!("{}{shares}", table.text());
    if let Some(path) = json {
        std::fs::write(&path, table.json()).context(format!("cannot write {}", path.display()))?;
    }
    if rounds == ROUNDS && !alone {
        results::put("scaling", &report(&table, &kernels, &shares)?)?;
    }
    Ok(0)
}

/// One boot, or two at once: the median of each kind's samples, operations a second.
fn measure(kernel: &Kernel, program: &Path, setting: Setting) -> Result<[f64; KINDS.len()]> {
    let run = |cpus: u32, log: &str| -> Result<[f64; KINDS.len()]> {
        let words = [
            cpus.to_string(),
            SAMPLES.1.to_string(),
            SAMPLES.0.to_string(),
        ];
        let log = host::build_dir("bench")?.join(log);
        let printed = kernel.run(program, &words, LIMIT, |machine| {
            machine.cpus = cpus;
            machine.room = CPUS[CPUS.len() - 1];
            machine.accel = Accel::Tcg;
            machine.log = Log::File(log.clone());
        })?;
        Ok(KINDS.map(|kind| median(&mut samples(&printed, kind))))
    };
    match setting {
        Setting::Cpus(cpus) => run(cpus, "scaling.log"),
        Setting::TwoMachines => std::thread::scope(|scope| {
            let other = scope.spawn(|| run(1, "scaling-2.log"));
            let first = run(1, "scaling.log")?;
            let second = match other.join() {
                Ok(second) => second?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            Ok(std::array::from_fn(|kind| first[kind] + second[kind]))
        }),
    }
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

/// How much processor time each machine got.
fn said(kernels: &[Kernel], shares: &[[f64; SETTINGS.len()]]) -> String {
    let mut out = String::new();
    for (kernel, shares) in kernels.iter().zip(shares) {
        for (setting, share) in SETTINGS.into_iter().zip(shares) {
            let (name, setting) = (kernel.name(), setting.name().replace('_', " "));
            writeln!(out, "{name} with {setting}: {share:.2} host processors").expect("a string");
        }
    }
    out
}

/// Processor time of the children that have ended, seconds.
fn children_seconds() -> f64 {
    // Fields 16 and 17 of the process's own line, in hundredths; the name before may hold blanks.
    let line = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = line
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|word| word.parse().ok())
        .collect();
    fields.iter().sum::<f64>() / 100.0
}

/// Median, least and most of the rounds, as rows.
fn rows(rounds: &Rounds) -> String {
    let mut out = String::new();
    for (kind, name) in KINDS.into_iter().enumerate() {
        for (at, setting) in SETTINGS.into_iter().enumerate() {
            let mut of: Vec<f64> = rounds.iter().map(|round| round[at][kind]).collect();
            let middle = median(&mut of);
            let ends = (of.first(), of.last());
            let (least, most) = (ends.0.unwrap_or(&0.0), ends.1.unwrap_or(&0.0));
            for (word, value) in [("median", &middle), ("least", least), ("most", most)] {
                let setting = setting.name();
                writeln!(out, "row scaling-{name} {setting}_{word} ops/s {value:.0}")
                    .expect("a string");
            }
        }
    }
    out
}

/// The medians of the rounds' multiples of what one CPU did in the same round.
fn relative(rounds: &Rounds) -> String {
    let mut out = String::new();
    for (kind, name) in KINDS.into_iter().enumerate() {
        for (at, setting) in SETTINGS.into_iter().enumerate().skip(1) {
            let multiple = |round: &[[f64; KINDS.len()]; SETTINGS.len()]| {
                (round[0][kind] > 0.0).then(|| round[at][kind] / round[0][kind])
            };
            let mut of: Vec<f64> = rounds.iter().filter_map(multiple).collect();
            let (value, setting) = (median(&mut of), setting.name());
            writeln!(out, "row scaling-{name} {setting}_over_1 times {value:.2}")
                .expect("a string");
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
         `cargo xtask bench scaling`: {ROUNDS} rounds, in each of which both kernels boot with every number of CPUs, one round up and the next down; {}, multi-threaded emulation on a host with {} processors, so more CPUs than \
         that can gain nothing. Every machine has room for {} CPUs, so that QEMU emulates atomic instructions alike in all. As many processes as CPUs, each with its own pipe, children or file (`user/scaling.c`). *2 machines*: two with one CPU each, side by side, which is \
         what the host allows. *over 1*: the median of the rounds' own multiples. Kernels: {}.\n{}\n\
         Processor time that the host gave each machine, boot included:\n\n{}",
        results::qemu()?,
        std::thread::available_parallelism().map_or(1, usize::from),
        CPUS[CPUS.len() - 1],
        versions.join(", "),
        table.markdown(),
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
        // The host is half as fast in the second round: the multiples do not notice.
        let round = |one: f64| {
            let mut round = [[0.0; KINDS.len()]; SETTINGS.len()];
            round[0][0] = one;
            round[2][0] = one * 1.75;
            round
        };
        let rounds = vec![round(10.0), round(5.0), round(20.0)];
        let rows = rows(&rounds);
        assert!(
            rows.contains("row scaling-pipes 1_CPUs_median ops/s 10\n"),
            "{rows}"
        );
        assert!(
            rows.contains("row scaling-pipes 1_CPUs_most ops/s 20\n"),
            "{rows}"
        );
        let relative = relative(&rounds);
        assert!(
            relative.contains("row scaling-pipes 2_CPUs_over_1 times 1.75\n"),
            "{relative}"
        );
    }
}
