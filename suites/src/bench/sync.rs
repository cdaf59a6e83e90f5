//! `cargo xtask bench sync`: the structures that wait for no lock, natively, beside locks and other queues;
//! and generated queues beside their twins.
//!
//! *Interface*: `main`. The benchmarks of `lab` and `quaject` print a JSON object a line.

use super::results;
use super::table::{self, Row};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::host;

const HELP: &str = "\
usage: cargo xtask bench sync [--json FILE] [--write]

Measures on this host: stacks, lists, queues and locks of `sync` and `lab` beside parking_lot, a spin lock, rtrb and crossbeam-queue, with 1, 2 and 4
threads and with interference, and generated queues beside their twins. Takes a minute or two.

  --json FILE    write the rows
  --write        write docs/results.md
";

const TEXT: &str = "\
Natively, on the processor that ran `cargo xtask bench sync`: nanoseconds per operation, the lower quartile of samples that alternate between the two; the unit says how far \
above it the upper quartile is (peer, ours), which is large where the host was busy or threads had to be scheduled. *Ratio* is peer over ours: the median of the ratios of neighbouring samples. \
A number behind the name is how many threads did it at the same time, `interference` that as many busy threads as processors ran beside. \
The locks mask no interrupts, as a kernel's would have to.";

/// The benchmarks: package, name, and what else cargo must know.
const BENCHES: &[(&str, &str, &[&str])] = &[
    ("lab", "host", &[]),
    ("quaject", "queues", &["--features", "host"]),
];

/// The project's claims: operation, and the least ratio. Operations that are not here have no claim;
/// `docs/sync.md` says what cannot be faster and why.
const CLAIMS: &[(&str, f64)] = &[
    ("counter/parking_lot", 1.0),
    ("monitor/parking_lot", 1.0),
    ("helping lock/parking_lot", 1.0),
    ("stack of nodes push+pop/parking_lot", 1.0),
    ("list insert+delete/parking_lot", 1.0),
    ("queue 1:1 put+get/parking_lot", 1.0),
    ("queue 1:n put+get/parking_lot", 1.0),
    ("queue n:1 put+get/parking_lot", 1.0),
    ("queue n:n put+get/parking_lot", 1.0),
    ("stack in an array push+pop/parking_lot", 1.0),
    ("counter/spin lock", 1.0),
    ("queue 1:1 put+get/spin lock", 1.0),
    ("queue 1:n put+get/spin lock", 1.0),
    ("queue 1:1 put+get/rtrb", 1.0),
    ("queue 1:1 from thread to thread/rtrb", 1.0),
    ("queue 1:1 bursts there and back/rtrb", 1.0),
    ("queue of nodes put+get/crossbeam SegQueue", 1.0),
    ("queue 1:1 generated/twin", 1.0),
    ("queue 1:1 one CPU generated/twin", 1.0),
    ("queue n:1 generated/twin", 1.0),
    ("queue n:1 one CPU generated/twin", 1.3),
    ("queue 1:n generated/twin", 1.0),
    ("queue 1:n one CPU generated/twin", 1.3),
    ("queue n:n generated/twin", 1.0),
    ("queue n:n one CPU generated/twin", 1.3),
];

/// The outcome of the claims. A ratio counts as it is printed, with two digits.
fn claims(rows: &[Row]) -> String {
    let mut text = String::from(
        "### claims\n\nThe claims of the project, and the ratios that this run measured.\n\n\
         | operation | ratio claimed | measured | holds |\n| --- | ---: | ---: | --- |\n",
    );
    for (op, least) in CLAIMS {
        let ratio = rows
            .iter()
            .find(|row| row.op == *op)
            .and_then(Row::ratio)
            .map(|ratio| (ratio * 100.0).round() / 100.0);
        let (measured, holds) = match ratio {
            Some(ratio) => (
                format!("{ratio:.2}"),
                if ratio >= *least { "yes" } else { "**no**" },
            ),
            None => ("–".to_owned(), "not measured"),
        };
        text += &format!("| {op} | ≥ {least:.1} | {measured} | {holds} |\n");
    }
    text
}

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    let mut json = None;
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for (package, bench, more) in BENCHES {
        eprintln!("xtask: measuring {package} on the host");
        let mut command = host::cargo();
        command.args(["bench", "--quiet", "--package", package, "--bench", bench]);
        command.args(*more).args(["--", "--json"]);
        let text = host::command_output(&mut command)?;
        let before = rows.len();
        rows.extend(text.lines().filter_map(table::parse_host));
        if rows.len() == before {
            return Err(Failure::new(
                HOST,
                format!("the benchmark of {package} printed no row"),
            ));
        }
    }
    print!("{}", table::text(&rows));
    if let Some(path) = json {
        std::fs::write(&path, table::json(&rows))
            .context(format!("cannot write {}", path.display()))?;
    }
    if write {
        let table = table::markdown(&rows);
        let text = format!("{}\n\n{TEXT}\n\n{}", table.trim(), claims(&rows));
        results::put("sync", &text)?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_judged_by_its_row() {
        let row = |op: &str, peer, ours| Row {
            section: "host-sync".to_owned(),
            op: op.to_owned(),
            unit: "ns".to_owned(),
            linux: Some(peer),
            synthesis: Some(ours),
            paired: None,
            mitigated: None,
        };
        let rows = [
            row("queue 1:n one CPU generated/twin", 3.0, 2.0),
            row("queue n:n one CPU generated/twin", 2.4, 2.0),
        ];
        let text = claims(&rows);
        assert!(text.contains("| queue 1:n one CPU generated/twin | ≥ 1.3 | 1.50 | yes |"));
        assert!(text.contains("| queue n:n one CPU generated/twin | ≥ 1.3 | 1.20 | **no** |"));
        assert!(text.contains("| counter/parking_lot | ≥ 1.0 | – | not measured |"));
    }
}
