//! `cargo xtask bench lateness`: how late a 250-µs timer's user-level handler runs on a busy machine.
//!
//! *Interface*: `main`. The machine is QEMU under `-icount shift=4,sleep=off` with one CPU: 62.5 million
//! instructions a second of guest time, whatever the host does. The peers are Debian's cloud kernel and its
//! PREEMPT_RT kernel.
//!
//! Source: Hohmuth and Härtig, section 5.1.

use super::columns::Columns;
use super::guest::{self, Kernel};
use super::{histogram, results};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::failure::{Context, Failure, Result, USAGE};
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench lateness [--seconds N | --long] [--kind signal|sleep] [--only synthesis] [--json FILE] [--write]

Boots Debian's Linux, its PREEMPT_RT kernel and Synthesis side by side with the same static program: a 250-µs timer whose handler is
a signal's, and then a thread's that sleeps until each instant, while processes flood the caches, fork, exec, page and do I/O.
Prints the distribution of the lateness. One instruction is 16 ns of guest time.

  --seconds N         guest time of each of the two parts (5)
  --long              600 seconds, as for a release
  --kind signal|sleep only this part
  --only synthesis    leave the others out
  --json FILE         write the rows
  --write             write docs/results.md: from 60 seconds on, with all parts and kernels
";

/// An instruction takes 2 to the power of this many nanoseconds.
const SHIFT: u32 = 4;
const LONG: u32 = 600;
/// Fewer seconds are a check and no result.
const WORTH_WRITING: u32 = 60;
/// How the handler hears of an instant.
const KINDS: [&str; 2] = ["signal", "sleep"];

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    let (mut seconds, mut json, mut alone, mut kinds) = (5, None, false, KINDS.to_vec());
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => seconds = guest::number(&mut parser, "seconds", 1..=100_000)?,
            Long("long") => seconds = LONG,
            Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Long("only") => alone = guest::only_synthesis(&mut parser)?,
            Long("kind") => {
                let word = parser.value()?.to_string_lossy().into_owned();
                kinds.retain(|kind| *kind == word);
                if kinds.is_empty() {
                    return Err(Failure::new(
                        USAGE,
                        format!("--kind {word}: signal or sleep"),
                    ));
                }
            }
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    results::whole(
        write,
        seconds >= WORTH_WRITING && !alone && kinds.len() == KINDS.len(),
    )?;
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("lateness", &compile::GLIBC)?;
    let kernels = guest::in_real_time(alone)?;
    let (mut table, mut histograms, mut versions) = (Columns::default(), Vec::new(), Vec::new());
    let texts = guest::side_by_side(&kernels, |kernel| run(kernel, &program, &kinds, seconds))?;
    for (kernel, text) in kernels.iter().zip(texts) {
        table.add(kernel.name(), &text);
        histograms.push(text);
        versions.push(format!("{} {}", kernel.name(), kernel.version()));
    }
    print!("{}", table.text());
    for (kernel, text) in kernels.iter().zip(&histograms) {
        println!("{}:\n{}", kernel.name(), histogram::text(text));
    }
    if let Some(path) = json {
        std::fs::write(&path, table.json()).context(format!("cannot write {}", path.display()))?;
    }
    if write {
        results::put(
            "lateness",
            &report(seconds, &table, &kernels, &histograms, &versions)?,
        )?;
    }
    Ok(0)
}

/// The program's output on `kernel`, of all parts.
fn run(kernel: &Kernel, program: &Path, kinds: &[&str], seconds: u32) -> Result<String> {
    // A host with nothing else to do needs one to two seconds for one of guest time.
    let limit = Duration::from_secs(300 + 10 * u64::from(seconds));
    let mut all = String::new();
    for kind in kinds {
        eprintln!(
            "xtask: {} {}: {kind}, {seconds} s of guest time",
            kernel.name(),
            kernel.version()
        );
        let words = [seconds.to_string(), (*kind).to_owned()];
        let text = kernel.run(program, &words, limit, |machine| {
            machine.icount = Some(SHIFT);
            guest::steady(machine);
        })?;
        for line in text
            .lines()
            .filter(|line| line.starts_with("fail ") || line.starts_with("note "))
        {
            eprintln!("xtask: {}: {line}", kernel.name());
        }
        all.push_str(&text);
    }
    Ok(all)
}

fn report(
    seconds: u32,
    table: &Columns,
    kernels: &[Kernel],
    texts: &[String],
    versions: &[String],
) -> Result<String> {
    let mut out = format!(
        "## Worst case: lateness of a 250-µs timer\n\n\
         `cargo xtask bench lateness --seconds {seconds}`: {seconds} seconds of guest time each, {}, one CPU, `-icount shift={SHIFT},sleep=off`: a machine of \
         62.5 million instructions a second, on which an instruction takes 16 ns. The program is `user/bench/lateness.c`: beside the timer six \
         processes and their children flood the caches, fork, exec, page and do input and output. On Linux the handler runs with `SCHED_FIFO`. \
         Kernels: {}.\n{}",
        results::qemu()?,
        versions.join(", "),
        table.markdown()
    );
    writeln!(out, "\n### lateness, histogram (number of instants)\n").expect("a string");
    let names: Vec<_> = kernels.iter().map(Kernel::name).collect();
    out.push_str(&histogram::markdown("handler", &KINDS, &names, texts));
    Ok(out)
}
