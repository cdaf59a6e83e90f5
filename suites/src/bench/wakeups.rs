//! `cargo xtask bench wakeups`: how soon woken threads run, by schbench's method, beside Linux.
//!
//! *Interface*: `main`. Messengers wake workers by futexes, and each worker's request is a sleep and some
//! products of matrices (`user/bench/wakeups.c`). Time is counted in instructions, one a nanosecond.
//!
//! Source: the methodology of schbench's README; Debian 12 has no package of it.

use super::guest::{self, Kernel};
use super::table::{self, Row};
use super::{LIMIT, counting, linux, results};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::failure::{Context, Failure, Result, USAGE};
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench wakeups [NAME...] [--seconds N] [--only synthesis] [--json FILE] [--write]

Measures by schbench's method on Debian's Linux and on Synthesis, with a program of our own: messengers wake workers by futexes,
and a worker's request is a sleep and a product of matrices. Prints latencies of wake-ups and requests, and requests a second, of the
settings light, full, crowded and locked, all or those named. Time is counted in instructions.

  --seconds N         guest time of each setting (10)
  --only synthesis    leave Linux out
  --json FILE         write the rows
  --write             write docs/results.md: with the usual time, all settings and both kernels

Fails when a figure is missing on Synthesis.
";

/// Guest time of each setting, if nothing else is said.
const SECONDS: u32 = 10;

/// The threads of a run and their requests.
struct Setting {
    name: &'static str,
    messengers: u32,
    /// Of each messenger.
    workers: u32,
    /// Sleep at the begin of a request.
    think_us: u32,
    /// Products of matrices in a request.
    rounds: u32,
    /// Whether they are made under a mutex of the CPU.
    locked: bool,
    about: &'static str,
}

const SETTINGS: [Setting; 4] = [
    Setting {
        name: "light",
        messengers: 2,
        workers: 4,
        think_us: 2000,
        rounds: 1,
        locked: true,
        about: "the CPU is mostly idle",
    },
    Setting {
        name: "full",
        messengers: 2,
        workers: 4,
        think_us: 100,
        rounds: 5,
        locked: false,
        about: "eight threads want more than the CPU has, for less than a quantum each time",
    },
    Setting {
        name: "crowded",
        messengers: 2,
        workers: 16,
        think_us: 100,
        rounds: 25,
        locked: false,
        about: "32 threads want it, for longer than a quantum each time",
    },
    Setting {
        name: "locked",
        messengers: 2,
        workers: 16,
        think_us: 100,
        rounds: 25,
        locked: true,
        about: "as crowded, with the lock that schbench takes by default",
    },
];

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    let (mut seconds, mut json, mut alone, mut names) = (SECONDS, None, false, Vec::new());
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seconds") => seconds = guest::number(&mut parser, "seconds", 1..=1000)?,
            Long("only") => alone = guest::only_synthesis(&mut parser)?,
            Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => {
                let name = name.to_string_lossy().into_owned();
                if !SETTINGS.iter().any(|setting| setting.name == name) {
                    return Err(Failure::new(USAGE, format!("no setting is named {name}")));
                }
                names.push(name);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    results::whole(write, seconds == SECONDS && !alone && names.is_empty())?;
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("wakeups", &compile::GLIBC)?;
    let mut kernels = vec![Kernel::Synthesis];
    if !alone {
        kernels.push(Kernel::peer("Linux", &linux::CLOUD)?);
    }
    let chosen: Vec<&Setting> = SETTINGS
        .iter()
        .filter(|setting| names.is_empty() || names.iter().any(|name| name == setting.name))
        .collect();
    let texts = guest::side_by_side(&kernels, |kernel| run(kernel, &program, &chosen, seconds))?;
    let peer = texts.get(1).map_or("", String::as_str);
    let rows = rows(peer, texts.first().map_or("", String::as_str));
    print!("{}", table::text(&rows));
    if let Some(path) = json {
        std::fs::write(&path, table::json(&rows))
            .context(format!("cannot write {}", path.display()))?;
    }
    if write {
        let version = kernels.get(1).map_or_else(String::new, Kernel::version);
        results::put("wakeups", &report(&rows, &version)?)?;
    }
    let missing = rows.iter().any(|row| row.synthesis.is_none());
    Ok(i32::from(rows.is_empty() || missing))
}

/// The rows of all settings on `kernel`.
fn run(kernel: &Kernel, program: &Path, chosen: &[&Setting], seconds: u32) -> Result<String> {
    let mut all = String::new();
    for setting in chosen {
        eprintln!(
            "xtask: {} {}: {}, {seconds} s of guest time",
            kernel.name(),
            kernel.version(),
            setting.name
        );
        let words = [
            setting.messengers,
            setting.workers,
            setting.think_us,
            setting.rounds,
            u32::from(setting.locked),
            seconds * 1000,
        ]
        .map(|word| word.to_string());
        // A busy second is a thousand million instructions.
        let limit = LIMIT + Duration::from_secs(60 * u64::from(seconds));
        let text = kernel.run(program, &words, limit, |machine| {
            counting(machine);
            guest::steady(machine);
        })?;
        for line in text.lines().filter(|line| line.starts_with("fail ")) {
            eprintln!("xtask: {}: {}: {line}", kernel.name(), setting.name);
        }
        all += &told(setting.name, &text);
    }
    Ok(all)
}

/// The rows that the program printed in the setting `name`, with microseconds for nanoseconds; none if it did
/// not come to its end.
fn told(name: &str, printed: &str) -> String {
    let mut out = String::new();
    if !printed.lines().any(|line| line.trim_end() == "end") {
        return out;
    }
    for (section, op, unit, value) in printed.lines().filter_map(table::parse) {
        let (unit, value) = match unit.as_str() {
            "ns" => ("µs", value / 1000.0),
            other => (other, value),
        };
        writeln!(out, "row {section}-{name} {op} {unit} {value}").expect("a string");
    }
    out
}

/// Both kernels' rows; the ratio is how many times better we are, of requests a second too.
fn rows(linux: &str, synthesis: &str) -> Vec<Row> {
    let mut rows = table::merge(linux, synthesis);
    for row in rows.iter_mut().filter(|row| row.unit == "/s") {
        row.paired = row
            .synthesis
            .zip(row.linux.filter(|linux| *linux > 0.0))
            .map(|(own, linux)| own / linux);
    }
    rows
}

fn report(rows: &[Row], version: &str) -> Result<String> {
    let mut out = format!(
        "## Wake-ups, by schbench's method\n\n\
         `cargo xtask bench wakeups`: `user/bench/wakeups.c`, one static program, on Linux {version} with `mitigations=off` and on Synthesis; {}, one CPU, \
         `-icount shift=0,sleep=off`, {SECONDS} seconds of guest time each after half a second to warm up; an instruction takes a nanosecond. Each worker \
         waits on a futex of its own; its messenger takes the list of those that wait, reads the clock and wakes them. *Wakeup* is the time from there until the worker \
         runs, *request* the time from then of a sleep and a number of products of two matrices of 16 by 16. *Turn* is the time from the end of a request to the end of the same \
         worker's next, since a thread that need not wait when it is woken may have to wait in its request. Linux makes a sleep up to 50 µs longer (its timer slack), Synthesis does not.\n",
        results::qemu()?
    );
    for setting in &SETTINGS {
        let section = format!("wakeups-{}", setting.name);
        let lock = if setting.locked {
            " under the CPU's mutex"
        } else {
            ""
        };
        writeln!(
            out,
            "\n### {section}\n\n{} messengers with {} workers each; {} µs of sleep and {} × the product{lock}: {}.\n\n\
             | | unit | Linux | Synthesis | times better |\n| --- | --- | ---: | ---: | ---: |",
            setting.messengers, setting.workers, setting.think_us, setting.rounds, setting.about
        )
        .expect("a string");
        for row in rows.iter().filter(|row| row.section == section) {
            let (peer, own) = (table::figure(row.linux), table::figure(row.synthesis));
            let name = row.op.replace('_', ", ");
            let ratio = table::ratio(row);
            writeln!(out, "| {name} | {} | {peer} | {own} | {ratio} |", row.unit)
                .expect("a string");
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str =
        "noise\nrow wakeups wakeup_p50 ns 2500\r\nrow wakeups requests /s 400.50\nend\r\n";

    #[test]
    fn rows_belong_to_their_setting() {
        assert_eq!(
            told("light", PRINTED),
            "row wakeups-light wakeup_p50 µs 2.5\nrow wakeups-light requests /s 400.5\n"
        );
    }

    #[test]
    fn a_run_that_did_not_end_has_no_rows() {
        let cut = PRINTED.trim_end().trim_end_matches("end");
        assert_eq!(told("light", cut), "");
    }

    #[test]
    fn fewer_microseconds_and_more_requests_are_better() {
        let linux = "row a wakeup_p50 µs 9\nrow a requests /s 100\n";
        let rows = rows(linux, "row a wakeup_p50 µs 3\nrow a requests /s 150\n");
        let ratios: Vec<_> = rows.iter().map(Row::ratio).collect();
        assert_eq!(ratios, [Some(3.0), Some(1.5)]);
    }

    #[test]
    fn the_report_has_each_setting_once() {
        let linux = "row wakeups-light wakeup_p50 µs 9\n";
        let rows = rows(linux, "row wakeups-light wakeup_p50 µs 3\n");
        let text = report(&rows, "6.1").expect("QEMU tells its version");
        assert!(
            text.contains("| wakeup, p50 | µs | 9 | 3 | 3.00 |"),
            "{text}"
        );
        for setting in &SETTINGS {
            assert_eq!(
                text.matches(&format!("### wakeups-{}\n", setting.name))
                    .count(),
                1
            );
        }
    }
}
