//! `cargo xtask bench scaling`: throughput of independent pipes, forks and file reads with 1, 2, 4 and 8 CPUs.
//!
//! *Interface*: `main`. The machine is QEMU with a host thread for each CPU, so the figures are times and depend on the host: medians with
//! their spread, the two kernels in turn. With each boot goes how much processor time QEMU got, because a host that is busy with
//! something else shows there.

use super::columns::Columns;
use super::guest::{self, Kernel};
use super::{linux, results};
use crate::failure::{Context, Result};
use crate::machine::Accel;
use crate::{compile, host};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const HELP: &str = "\
usage: cargo xtask bench scaling [--short] [--only synthesis] [--json FILE]

Boots Debian's Linux and Synthesis in turn with 1, 2, 4 and 8 CPUs under multi-threaded emulation, with as many independent
processes as CPUs at each kind of work: medians of several repeats with their spread, in operations a second of the host's time.
Needs a quiet host with two processors; writes docs/results.md.

  --short             a repeat of each, a check and no result (docs/results.md is not written then)
  --only synthesis    leave the other out (docs/results.md is not written then)
  --json FILE         write the rows
";

const CPUS: [u32; 4] = [1, 2, 4, 8];
const KINDS: [&str; 3] = ["pipes", "forks", "reads"];
const REPEATS: u32 = 7;
const LIMIT: Duration = Duration::from_secs(300);

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
    let (mut repeats, mut json, mut alone) = (REPEATS, None, false);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("short") => repeats = 1,
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
    let program = compile::program("scaling", &compile::GLIBC)?;
    let mut kernels = Vec::new();
    if !alone {
        kernels.push(Kernel::peer("Linux", &linux::CLOUD)?);
    }
    kernels.push(Kernel::Synthesis);
    let mut texts = vec![String::new(); kernels.len()];
    let mut shares = String::new();
    for cpus in CPUS {
        for (kernel, text) in kernels.iter().zip(&mut texts) {
            eprintln!("xtask: {} with {cpus} CPUs", kernel.name());
            let words = [cpus.to_string(), "1000".into(), repeats.to_string()];
            let start = (Instant::now(), children_seconds());
            let printed = kernel.run(&program, &words, LIMIT, |machine| {
                machine.cpus = cpus;
                machine.accel = Accel::Tcg;
            })?;
            let share = (children_seconds() - start.1) / start.0.elapsed().as_secs_f64();
            writeln!(
                shares,
                "{} with {cpus} CPUs: {share:.2} host processors",
                kernel.name()
            )
            .expect("a string");
            text.push_str(&rows(&printed, cpus));
        }
    }
    let mut table = Columns::default();
    for (kernel, text) in kernels.iter().zip(&texts) {
        let (first, relative) = (text.clone(), relative(text));
        table.add(kernel.name(), &format!("{first}{relative}"));
    }
    print!("{}{shares}", table.text());
    if let Some(path) = json {
        std::fs::write(&path, table.json()).context(format!("cannot write {}", path.display()))?;
    }
    if repeats == REPEATS && !alone {
        results::put("scaling", &report(&table, &kernels, &shares)?)?;
    }
    Ok(0)
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

/// Median, least and most of each kind, as rows.
fn rows(printed: &str, cpus: u32) -> String {
    let mut out = String::new();
    for kind in KINDS {
        let mut samples: Vec<f64> = printed
            .lines()
            .filter_map(|line| line.strip_prefix("sample ")?.split_once(' '))
            .filter(|(name, _)| *name == kind)
            .filter_map(|(_, figure)| figure.trim().parse().ok())
            .collect();
        samples.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (samples.first(), samples.last()) else {
            continue;
        };
        let median = samples[samples.len() / 2];
        for (name, value) in [("median", median), ("least", *least), ("most", *most)] {
            writeln!(
                out,
                "row scaling-{kind} {cpus}_CPUs_{name} ops/s {value:.0}"
            )
            .expect("a string");
        }
    }
    out
}

/// The medians as multiples of that with one CPU.
fn relative(text: &str) -> String {
    let median = |kind: &str, cpus: u32| -> Option<f64> {
        let head = format!("row scaling-{kind} {cpus}_CPUs_median ops/s ");
        text.lines()
            .find_map(|line| line.strip_prefix(&head)?.parse().ok())
    };
    let mut out = String::new();
    for kind in KINDS {
        for cpus in &CPUS[1..] {
            if let (Some(one), Some(many)) = (median(kind, 1), median(kind, *cpus))
                && one > 0.0
            {
                writeln!(
                    out,
                    "row scaling-{kind} {cpus}_CPUs_over_1 times {:.2}",
                    many / one
                )
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
         `cargo xtask bench scaling`: {REPEATS} repeats of a second each, {}, multi-threaded emulation on a host with {} processors, so more CPUs than \
         that can gain nothing. As many processes as CPUs, each with its own pipe, children or file (`user/scaling.c`). Kernels: {}.\n{}\n\
         Processor time that the host gave each machine, boot included:\n\n{}",
        results::qemu()?,
        std::thread::available_parallelism().map_or(1, usize::from),
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
        let one = rows(
            "sample pipes 10\nsample pipes 30\nsample pipes 20\nnoise\n",
            1,
        );
        assert!(one.contains("row scaling-pipes 1_CPUs_median ops/s 20\n"));
        assert!(one.contains("row scaling-pipes 1_CPUs_most ops/s 30\n"));
        let two = rows("sample pipes 35\n", 2);
        assert_eq!(
            relative(&format!("{one}{two}")),
            "row scaling-pipes 2_CPUs_over_1 times 1.75\n"
        );
    }
}
