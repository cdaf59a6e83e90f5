//! `cargo xtask bench programs`: whole programs from Debian's packages, timed beside Linux.
//!
//! *Interface*: `main`. Both machines have the same memory, CPUs and root, whose files Linux has in its own
//! memory, too; in both `user/bench/conduct.c` starts `tests/bench/programs.sh`. Time is the guest's, as the
//! programs tell it or `date` does. The machines take turns (`turns`), and neither begins a program before
//! the other has ended the one before it, so that the host is the same for both, however busy it is.

use super::guest::{self, Kernel};
use super::table::{self, Row};
use super::turns::{self, Group};
use super::{linux, results};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use xtask::failure::{Context, Failure, Result, USAGE};
use xtask::machine::{Accel, Kept, Log, Machine, Status};
use xtask::rootfs::Root;
use xtask::{compile, debian, host};

const HELP: &str = "\
usage: cargo xtask bench programs [NAME...] [--rounds N] [--cpus N] [--icount] [--only synthesis] [--json FILE] [--write]

Runs redis-benchmark, pgbench -S, ab against nginx, node and tmux, from Debian's packages as they are, on Debian's Linux and on Synthesis in
the same emulated machine, and prints the median time of each, all or those named. Fails when one fails on Synthesis.

  --rounds N          how often each program runs (5)
  --cpus N            CPUs of each machine (1)
  --icount            count instructions instead, a nanosecond each: the same again on a busy host, but not what emulation costs
  --only synthesis    leave the other out
  --json FILE         write the rows
  --write             write docs/results.md and README.md: all programs, one CPU, 5 rounds or --icount
";

/// The packages whose programs `tests/bench/programs.sh` runs.
const PACKAGES: &[&str] = &[
    "redis-server",
    "redis-tools",
    "postgresql-15",
    "apache2-utils",
    "nginx",
    "nodejs",
    "tmux",
    "bsdutils",
    "ncurses-base",
    "coreutils",
    "procps",
];

const MEMORY: u64 = 1 << 30;
const ROUNDS: usize = 5;
/// How long a machine runs before the other has its turn.
const SLICE: Duration = Duration::from_millis(100);
/// How long a machine may run in all, a round and before the first; the other's turns not counted.
const LIMIT: Duration = Duration::from_secs(900);

/// A program: its name in the script, the unit that its microseconds become, by division, and how a reader
/// calls it.
const ROWS: [(&str, &str, f64, &str); 12] = [
    ("redis_unix_1", "µs", 1.0, "redis, 1 client, unix socket"),
    ("redis_unix_50", "µs", 1.0, "redis, 50 clients, unix socket"),
    ("redis_tcp_1", "µs", 1.0, "redis, 1 client, loopback"),
    ("redis_tcp_50", "µs", 1.0, "redis, 50 clients, loopback"),
    (
        "pgbench_unix_1",
        "µs",
        1.0,
        "pgbench -S, 1 client, unix socket",
    ),
    (
        "pgbench_unix_10",
        "µs",
        1.0,
        "pgbench -S, 10 clients, unix socket",
    ),
    ("pgbench_tcp_1", "µs", 1.0, "pgbench -S, 1 client, loopback"),
    ("nginx_close", "µs", 1.0, "nginx, 1 KiB, a connection each"),
    ("nginx_keep", "µs", 1.0, "nginx, 1 KiB, connections kept"),
    ("node_start", "ms", 1000.0, "node, start and end"),
    (
        "node_promises",
        "ms",
        1000.0,
        "node, 10,000 promises over a pipe",
    ),
    ("tmux_10MB", "ms", 1000.0, "tmux draws 10 MB"),
];

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    let (mut names, mut json, mut alone) = (Vec::new(), None, false);
    let (mut rounds, mut cpus, mut icount) = (ROUNDS, 1, None);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("rounds") => rounds = number(&mut parser, "rounds", 100)?,
            Long("cpus") => cpus = number(&mut parser, "cpus", 8)?,
            Long("icount") => icount = Some(0),
            Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Long("only") => alone = guest::only_synthesis(&mut parser)?,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => names.push(name.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().into()),
        }
    }
    if let Some(name) = names
        .iter()
        .find(|name| !ROWS.iter().any(|row| row.0 == **name))
    {
        return Err(Failure::new(USAGE, format!("no program is named {name}")));
    }
    let worth_writing = rounds == ROUNDS || icount.is_some();
    results::whole(
        write,
        names.is_empty() && worth_writing && cpus == 1 && !alone,
    )?;
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let mut kernels = vec![Kernel::Synthesis];
    if !alone {
        kernels.insert(0, Kernel::peer("Linux", &linux::CLOUD)?);
    }
    let mut words = vec!["/bench/programs.sh".to_owned(), rounds.to_string()];
    words.extend(names.iter().cloned());
    let mut machines = Vec::new();
    for kernel in &kernels {
        machines.push(machine(kernel, &words, (cpus as u32, icount))?);
    }
    let logs: Vec<_> = machines
        .iter()
        .map(|(machine, _)| machine.log.clone())
        .collect();
    eprintln!("xtask: programs, {rounds} rounds");
    let limit = LIMIT * (rounds as u32 + 1);
    let (mut said, mut texts) = (String::new(), Vec::new());
    let ended = match icount {
        None => in_turns(machines, limit)?,
        Some(_) => side_by_side(&machines, limit)?,
    };
    for ((kernel, (text, trouble)), log) in kernels.iter().zip(ended).zip(logs) {
        if let Some(trouble) = trouble {
            writeln!(said, "{}: {trouble}; {log}", kernel.name()).expect("a string");
        }
        texts.push(text);
    }
    for (kernel, text) in kernels.iter().zip(&texts) {
        for line in text.lines().filter(|line| line.starts_with("failed ")) {
            writeln!(said, "{}: {line}", kernel.name()).expect("a string");
        }
    }
    let ours = texts.pop().unwrap_or_default();
    let rows = rows(texts.first().map_or("", String::as_str), &ours);
    print!("{}{said}", table::text(&rows));
    if let Some(path) = json {
        std::fs::write(&path, table::json(&rows))
            .context(format!("cannot write {}", path.display()))?;
    }
    if write {
        results::put(
            "programs",
            &report(&rows, &kernels, icount.is_some(), &said)?,
        )?;
        results::put_readme("programs", &short(&rows, icount.is_some()))?;
    }
    let failed = rows.iter().any(|row| row.synthesis.is_none()) || said.contains("Synthesis");
    Ok(i32::from(failed))
}

fn number(parser: &mut lexopt::Parser, name: &str, most: usize) -> Result<usize> {
    let word = parser.value()?.to_string_lossy().into_owned();
    let number = word.parse().ok().filter(|n| (1..=most).contains(n));
    number.ok_or_else(|| Failure::new(USAGE, format!("--{name} {word}: a number from 1 to {most}")))
}

/// The output of each machine, and its failure.
type Printed = Vec<(String, Option<String>)>;

/// Each in its turn.
fn in_turns(machines: Vec<(Machine, Rc<Vec<u8>>)>, limit: Duration) -> Result<Printed> {
    let alone = |machine| Group {
        machines: vec![machine],
    };
    let groups: Vec<_> = machines.into_iter().map(alone).collect();
    let ended = turns::run(&groups, SLICE, limit, done)?.into_iter();
    let each = ended.map(|ended| {
        let trouble = ended.printed.err().map(|trouble| trouble.what);
        (ended.until.concat(), trouble)
    });
    Ok(each.collect())
}

/// Instruction counts do not depend on other machines that run at the same time.
fn side_by_side(machines: &[(Machine, Rc<Vec<u8>>)], limit: Duration) -> Result<Printed> {
    let mut running = Vec::new();
    for (machine, archive) in machines {
        let output = Kept::default();
        running.push((guest::start(machine, archive, output.clone())?, output));
    }
    let each = running.into_iter().map(|(running, output)| {
        let outcome = running.wait(Some(limit));
        let trouble = match outcome.status {
            Status::Exit(0) => None,
            status => Some(format!("ended with {status:?} {}", outcome.report.trim())),
        };
        (
            String::from_utf8_lossy(&output.bytes()).into_owned(),
            trouble,
        )
    });
    Ok(each.collect())
}

/// The machine of a kernel, with so many CPUs, counting instructions or not, and its root.
fn machine(
    kernel: &Kernel,
    words: &[String],
    (cpus, icount): (u32, Option<u32>),
) -> Result<(Machine, Rc<Vec<u8>>)> {
    let mut root = Root::new(Some(&debian::unpacked(PACKAGES)?))?;
    root.add(&format!(
        "{}:/bench",
        host::project().join("tests/bench").display()
    ))?;
    let program = compile::program("conduct", &compile::GLIBC)?;
    let (mut machine, archive) = kernel.prepare_in(root, &program, words, |machine| {
        machine.cpus = cpus;
        machine.icount = icount;
        machine.memory = MEMORY;
        machine.accel = Accel::Tcg;
        machine.monitor = icount.is_none();
        machine.still = icount.is_none();
    })?;
    let name = format!("programs-{}.log", kernel.name());
    machine.log = Log::File(host::build_dir("bench")?.join(name));
    Ok((machine, Rc::new(archive)))
}

/// How many programs have ended.
fn done(printed: &str) -> usize {
    let ends = |line: &&str| line.starts_with("sample ") || line.starts_with("failed ");
    printed.lines().filter(ends).count()
}

/// The samples of one program, microseconds.
fn samples(printed: &str, name: &str) -> Vec<f64> {
    let lines = printed.lines();
    let named = lines.filter_map(|line| line.trim().strip_prefix("sample ")?.split_once(' '));
    let named = named.filter(|(of, _)| *of == name);
    named
        .filter_map(|(_, figure)| figure.parse().ok())
        .collect()
}

fn median(mut of: Vec<f64>) -> Option<f64> {
    of.sort_by(f64::total_cmp);
    let (low, high) = (of.get(of.len().checked_sub(1)? / 2)?, of.get(of.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Medians of what was sampled, and of the rounds' own ratios.
fn rows(linux: &str, synthesis: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, unit, divisor, _) in ROWS {
        let (theirs, ours) = (samples(linux, name), samples(synthesis, name));
        if theirs.is_empty() && ours.is_empty() {
            continue;
        }
        // Rounds of which one failed have no partners.
        let paired = if theirs.len() == ours.len() {
            median(
                theirs
                    .iter()
                    .zip(&ours)
                    .map(|(theirs, ours)| theirs / ours)
                    .collect(),
            )
        } else {
            None
        };
        rows.push(Row {
            section: "programs".into(),
            op: name.into(),
            unit: unit.into(),
            linux: median(theirs).map(|time| time / divisor),
            synthesis: median(ours).map(|time| time / divisor),
            paired,
            mitigated: None,
        });
    }
    rows
}

fn report(rows: &[Row], kernels: &[Kernel], counted: bool, said: &str) -> Result<String> {
    let version = kernels.first().map_or_else(String::new, Kernel::version);
    let time = if counted {
        format!("{COUNTED}, of one request or of the whole")
    } else {
        format!(
            "Time is the guest's, of one request or of the whole: medians of {ROUNDS} rounds. Both machines take turns of {} ms, and neither begins a program \
             before the other has ended the one before it, so that both have the same host; *ratio* is the median of the rounds' own",
            SLICE.as_millis()
        )
    };
    Ok(format!(
        "## Whole programs\n\n`cargo xtask bench programs`: Debian's packages as they are, on Linux {version} with `mitigations=off` and on Synthesis; {}, one CPU, {} MiB, \
         the same root, whose files are in memory on both. {time}. Most of it is the programs' own work, the same on both.\n{}{}",
        results::qemu()?,
        MEMORY >> 20,
        table::markdown(rows).replacen("\n## programs\n", "", 1),
        said.lines()
            .map(|line| format!("\n* {line}"))
            .collect::<String>(),
    ))
}

/// The meaning of a time under `--icount`.
const COUNTED: &str = "Time is counted in instructions, each a nanosecond (`--icount`)";

/// The README's table.
fn short(rows: &[Row], counted: bool) -> String {
    let mut out = match counted {
        true => format!("{COUNTED}.\n\n"),
        false => String::new(),
    };
    out.push_str(
        "| program | unit | Linux | Synthesis | times faster |\n| --- | --- | ---: | ---: | ---: |\n",
    );
    for (name, unit, _, words) in ROWS {
        let Some(row) = rows.iter().find(|row| row.op == name) else {
            continue;
        };
        let (linux, synthesis) = (table::figure(row.linux), table::figure(row.synthesis));
        let ratio = table::ratio(row);
        writeln!(
            out,
            "| {words} | {unit} | {linux} | {synthesis} | {ratio} |"
        )
        .expect("a string");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_failed_has_no_figure() {
        let linux = "sample node_start 3000\nnoise\nsample node_start 5000\r\nsample node_start 4000\nsample tmux_10MB 9\n";
        let ours = "sample node_start 1000\nsample node_start 2500\nsample node_start 1000\nfailed tmux_10MB: no terminal\n";
        let rows = rows(linux, ours);
        assert_eq!((done(linux), done(ours)), (4, 4));
        assert_eq!((rows[0].linux, rows[0].synthesis), (Some(4.0), Some(1.0)));
        // The rounds' own are 3, 2 and 4.
        assert_eq!(rows[0].ratio(), Some(3.0));
        assert_eq!((rows[1].synthesis, rows[1].ratio()), (None, None));
        assert!(short(&rows, false).contains("| node, start and end | ms | 4 | 1 | 3.00 |"));
    }
}
