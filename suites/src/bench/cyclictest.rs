//! `cargo xtask bench cyclictest`: Debian's cyclictest beside Linux and PREEMPT_RT.
//!
//! *Interface*: `main`. The machine is that of `lateness`: QEMU under `-icount shift=4,sleep=off` with one
//! CPU, 62.5 million instructions a second of guest time. The program is Debian's, unmodified; beside it one
//! process computes and one forks.

use super::columns::Columns;
use super::guest::{self, Kernel};
use super::realtime::{self, failures, runs};
use super::{histogram, results};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::failure::{Context, Failure, Result, USAGE};
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench cyclictest [NAME...] [--seconds N | --long] [--only synthesis] [--json FILE] [--write]

Runs cyclictest of Debian's package rt-tests on Debian's Linux, its PREEMPT_RT kernel and Synthesis, beside programs that
compute and fork, with intervals of 1 ms and of 250 µs, with SCHED_FIFO and without a priority: fifo-1000, fifo-250, other-1000,
other-250, all or those named. One instruction is 16 ns of guest time.

  --seconds N         guest time of each (60)
  --long              600 seconds
  --only synthesis    leave the others out
  --json FILE         write the rows
  --write             write docs/results.md: from 60 seconds on, with all runs and kernels
";

/// An instruction takes 2 to the power of this many nanoseconds.
const SHIFT: u32 = 4;
const SECONDS: u32 = 60;
const LONG: u32 = 600;
/// The runs of `tests/bench/cyclictest.sh`.
const KINDS: [&str; 4] = ["fifo-1000", "fifo-250", "other-1000", "other-250"];

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    let (mut seconds, mut json, mut alone, mut names) = (SECONDS, None, false, Vec::new());
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => seconds = guest::number(&mut parser, "seconds", 1..=100_000)?,
            Long("long") => seconds = LONG,
            Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Long("only") => alone = guest::only_synthesis(&mut parser)?,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => {
                let name = name.to_string_lossy().into_owned();
                if !KINDS.contains(&name.as_str()) {
                    return Err(Failure::new(USAGE, format!("no run is named {name}")));
                }
                names.push(name);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    results::whole(write, seconds >= SECONDS && !alone && names.is_empty())?;
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("conduct", &compile::GLIBC)?;
    let kernels = guest::in_real_time(alone)?;
    let printed = guest::side_by_side(&kernels, |kernel| run(kernel, &program, &names, seconds))?;
    let (mut table, mut texts, mut said) = (Columns::default(), Vec::new(), String::new());
    for (kernel, printed) in kernels.iter().zip(&printed) {
        let text = told(printed, seconds);
        table.add(kernel.name(), &text);
        texts.push(text);
        let path = host::build_dir("bench")?.join(format!("cyclictest-{}.txt", kernel.name()));
        std::fs::write(&path, printed).context(path.display())?;
        for line in failures(printed) {
            writeln!(said, "* {}: {line}", kernel.name()).expect("a string");
        }
    }
    print!("{}", table.text());
    for (kernel, text) in kernels.iter().zip(&texts) {
        println!("{}:\n{}", kernel.name(), histogram::text(text));
    }
    print!("{said}");
    if let Some(path) = json {
        std::fs::write(&path, table.json()).context(format!("cannot write {}", path.display()))?;
    }
    if write {
        results::put(
            "cyclictest",
            &report(seconds, &table, &kernels, &texts, &said)?,
        )?;
    }
    Ok(i32::from(said.contains(Kernel::Synthesis.name())))
}

/// The script's output on `kernel`.
fn run(kernel: &Kernel, program: &Path, names: &[String], seconds: u32) -> Result<String> {
    eprintln!(
        "xtask: cyclictest on {} {}, {seconds} s of guest time each",
        kernel.name(),
        kernel.version()
    );
    let count = if names.is_empty() {
        KINDS.len()
    } else {
        names.len()
    } as u64;
    // A host with nothing else to do needs one to two seconds for one of guest time.
    let limit = Duration::from_secs(300 + count * 15 * u64::from(seconds));
    let mut words = vec!["/bench/cyclictest.sh".to_owned(), seconds.to_string()];
    words.extend(names.iter().cloned());
    kernel.run_in(realtime::root()?, program, &words, limit, |machine| {
        machine.icount = Some(SHIFT);
        guest::steady(machine);
    })
}

/// The rows and the histogram's cells of what the script printed.
fn told(printed: &str, seconds: u32) -> String {
    let mut out = String::new();
    for (name, lines) in runs(printed) {
        let Some(result) = Latencies::read(&lines) else {
            continue;
        };
        let interval: u64 = name
            .rsplit('-')
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(1);
        let cycles = u64::from(seconds) * 1_000_000 / interval;
        for (op, unit, value) in [
            ("cycles", "count", result.total),
            ("missed", "count", cycles.saturating_sub(result.total)),
            ("minimum", "µs", result.minimum),
            ("average", "µs", result.average),
            ("p99", "µs", result.percentile(9900)),
            ("p99.99", "µs", result.percentile(9999)),
            ("maximum", "µs", result.maximum),
        ] {
            writeln!(out, "row cyclictest-{name} {op} {unit} {value}").expect("a string");
        }
        for (from, count) in result.doubling() {
            writeln!(out, "hist {name} {} {count}", from * 1000).expect("a string");
        }
    }
    out
}

/// The result of one run.
#[derive(Default, PartialEq, Debug)]
struct Latencies {
    /// Microseconds and how often.
    cells: Vec<(u64, u64)>,
    /// How often it was more than the histogram has.
    beyond: u64,
    total: u64,
    minimum: u64,
    average: u64,
    maximum: u64,
}

impl Latencies {
    /// Of what the program prints with `--histogram`; none when its end is missing.
    fn read(lines: &[&str]) -> Option<Self> {
        let mut read = Self::default();
        let mut ended = false;
        for line in lines {
            if let Some(rest) = line.strip_prefix("# ") {
                let Some((what, value)) = rest.split_once(':') else {
                    continue;
                };
                let value = value.split_whitespace().next();
                let Some(value) = value.and_then(|value| value.parse().ok()) else {
                    continue;
                };
                match what {
                    "Total" => read.total = value,
                    "Min Latencies" => read.minimum = value,
                    "Avg Latencies" => read.average = value,
                    "Max Latencies" => {
                        read.maximum = value;
                        ended = true;
                    }
                    "Histogram Overflows" => read.beyond = value,
                    _ => {}
                }
            } else if let Some((at, count)) = line.split_once([' ', '\t'])
                && let (Ok(at), Ok(count)) = (at.parse(), count.trim().parse())
                && count > 0
            {
                read.cells.push((at, count));
            }
        }
        read.total += read.beyond;
        ended.then_some(read)
    }

    /// The latency that so many of ten thousand cycles do not exceed.
    fn percentile(&self, of_10000: u64) -> u64 {
        let below = self.total * of_10000 / 10_000;
        let mut seen = 0;
        let reached = self.cells.iter().find(|(_, count)| {
            seen += count;
            seen > below
        });
        reached.map_or(self.maximum, |(at, _)| *at)
    }

    /// Cells that double: from 0, 1, 2, 4 µs and so on.
    fn doubling(&self) -> Vec<(u64, u64)> {
        let mut cells: Vec<(u64, u64)> = Vec::new();
        let beyond = (self.beyond > 0).then_some((self.maximum, self.beyond));
        for (at, count) in self.cells.iter().copied().chain(beyond) {
            let from = at.checked_ilog2().map_or(0, |log| 1 << log);
            match cells.last_mut() {
                Some((last, sum)) if *last == from => *sum += count,
                _ => cells.push((from, count)),
            }
        }
        cells
    }
}

fn report(
    seconds: u32,
    table: &Columns,
    kernels: &[Kernel],
    texts: &[String],
    said: &str,
) -> Result<String> {
    let versions: Vec<String> = kernels
        .iter()
        .map(|kernel| format!("{} {}", kernel.name(), kernel.version()))
        .collect();
    let mut out = format!(
        "## cyclictest\n\n\
         `cargo xtask bench cyclictest --seconds {seconds}`: cyclictest of Debian's package rt-tests, unmodified, {seconds} seconds of guest time each, {}, one CPU, \
         `-icount shift={SHIFT},sleep=off`: 62.5 million instructions a second, 16 ns each. Beside it a shell computes and another forks and execs (`tests/bench/cyclictest.sh`). \
         *fifo*: with `SCHED_FIFO` at priority 90, *other*: without a priority; intervals of 1000 and 250 µs. *Missed* are cycles that never ran, because the one \
         before was late by more than an interval. Kernels: {}.\n{}",
        results::qemu()?,
        versions.join(", "),
        table.markdown()
    );
    out += "\n### latency, histogram (number of cycles)\n\n";
    let names: Vec<_> = kernels.iter().map(Kernel::name).collect();
    out += &histogram::markdown("run", &KINDS, &names, texts);
    if !said.is_empty() {
        write!(out, "\n{said}").expect("a string");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "run fifo-250\n# /dev/cpu_dma_latency set to 0us\n# Histogram\n000002 000010\n000003\t000005\n000009 000001\n\
        # Min Latencies: 00002\n# Avg Latencies: 00003\n# Max Latencies: 30000\n# Histogram Overflows: 00002\n# Histogram Overflow at cycle number:\n# Thread 0: 00001 00002\n\
        # Total: 000000016\nrun other-250\n000001 000001\n";

    #[test]
    fn a_run_that_did_not_end_has_no_rows() {
        let text = told(PRINTED, 1);
        assert!(!text.contains("other-250"), "{text}");
        for line in [
            "row cyclictest-fifo-250 cycles count 18",
            "row cyclictest-fifo-250 missed count 3982",
            "row cyclictest-fifo-250 average µs 3",
            "row cyclictest-fifo-250 p99 µs 30000",
            "row cyclictest-fifo-250 maximum µs 30000",
            "hist fifo-250 2000 15",
            "hist fifo-250 8000 1",
            "hist fifo-250 16384000 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn percentiles_are_cells() {
        let latencies = Latencies {
            cells: vec![(2, 9900), (3, 99), (7, 1)],
            total: 10_000,
            maximum: 7,
            ..Latencies::default()
        };
        let points = [5000, 9900, 9999].map(|point| latencies.percentile(point));
        assert_eq!(points, [2, 3, 7]);
    }
}
