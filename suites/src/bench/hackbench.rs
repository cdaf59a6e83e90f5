//! `cargo xtask bench hackbench`: Debian's hackbench beside Linux.
//!
//! *Interface*: `main`. Groups of twenty senders and twenty receivers, processes or threads, each sender with
//! a socket or pipe to each receiver. The program is Debian's, and tells its time, which is counted in
//! instructions.

use super::guest::{self, Kernel};
use super::realtime::{self, failures, runs};
use super::table::{self, Row};
use super::{LIMIT, counting, linux, results};
use lexopt::prelude::*;
use std::ffi::OsString;
use xtask::failure::{Failure, HOST, Result};
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench hackbench [--groups N] [--loops N] [--write]

Runs hackbench of Debian's package rt-tests on Debian's Linux and on Synthesis: groups of 20 senders and 20 receivers, as
processes and as threads, over sockets and over pipes. Time is counted in instructions. Fails when a run fails on Synthesis.

  --groups N    groups (10)
  --loops N     messages of 100 bytes from each sender to each receiver (100)
  --write       write docs/results.md: with the usual numbers
";

const GROUPS: u32 = 10;
const LOOPS: u32 = 100;

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    let (mut groups, mut loops) = (GROUPS, LOOPS);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("groups") => groups = guest::number(&mut parser, "groups", 1..=100)?,
            Long("loops") => loops = guest::number(&mut parser, "loops", 1..=100_000)?,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    results::whole(write, (groups, loops) == (GROUPS, LOOPS))?;
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("conduct", &compile::GLIBC)?;
    let kernels = [Kernel::peer("Linux", &linux::CLOUD)?, Kernel::Synthesis];
    let words = [
        "/bench/hackbench.sh".into(),
        groups.to_string(),
        loops.to_string(),
    ];
    let texts = guest::side_by_side(&kernels, |kernel| {
        eprintln!("xtask: hackbench on {} {}", kernel.name(), kernel.version());
        kernel.run_in(realtime::root()?, &program, &words, LIMIT * 3, |machine| {
            counting(machine);
            guest::steady(machine);
        })
    })?;
    let mut said = String::new();
    for (kernel, text) in kernels.iter().zip(&texts) {
        for line in failures(text) {
            said += &format!("* {}: {line}\n", kernel.name());
        }
    }
    let rows = match texts.as_slice() {
        [peer, own] => table::merge(&told(peer), &told(own)),
        _ => return Err(Failure::new(HOST, "two kernels print two texts")),
    };
    print!("{}{said}", table::text(&rows));
    if write {
        results::put("hackbench", &report(&rows, &kernels, &said)?)?;
    }
    let missing = rows.iter().any(|row| row.synthesis.is_none());
    Ok(i32::from(rows.is_empty() || missing))
}

/// The rows of what the script printed: `Time: SECONDS` of each run.
fn told(printed: &str) -> String {
    let mut rows = String::new();
    for (name, lines) in runs(printed) {
        let time = lines.iter().find_map(|line| line.strip_prefix("Time: "));
        if let Some(seconds) = time.and_then(|time| time.trim().parse::<f64>().ok()) {
            rows += &format!("row hackbench {name} ms {}\n", seconds * 1000.0);
        }
    }
    rows
}

fn report(rows: &[Row], kernels: &[Kernel], said: &str) -> Result<String> {
    let version = kernels.first().map_or_else(String::new, Kernel::version);
    let tasks = GROUPS * 40;
    let mut out = format!(
        "## hackbench\n\n\
         `cargo xtask bench hackbench`: hackbench of Debian's package rt-tests, unmodified, on Linux {version} with `mitigations=off` and on \
         Synthesis; {}, one CPU, `-icount shift=0,sleep=off`. {GROUPS} groups of 20 senders and 20 receivers ({tasks} processes or threads), \
         {LOOPS} messages of 100 bytes from each sender to each receiver of its group. The program's own time, a million instructions a millisecond. \
         `bench wakeups` measures as schbench does, which is in no package of Debian 12.\n\n\
         | tasks, channels | Linux, ms | Synthesis, ms | times faster |\n| --- | ---: | ---: | ---: |\n",
        results::qemu()?
    );
    for row in rows {
        let (peer, own) = (table::figure(row.linux), table::figure(row.synthesis));
        let name = row.op.replace('_', ", ");
        out += &format!("| {name} | {peer} | {own} | {} |\n", table::ratio(row));
    }
    if !said.is_empty() {
        out += &format!("\n{said}");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_time_has_no_row() {
        let printed = "run process_pipe\nRunning in process mode\nTime: 0.250\nrun thread_pipe\nfailed thread_pipe 1\n";
        assert_eq!(told(printed), "row hackbench process_pipe ms 250\n");
    }
}
