//! `cargo xtask bench sync`: the structures that wait for no lock, natively, beside locks and other queues; and generated queues beside their twins.
//!
//! *Interface*: `main`. The benchmarks of `sync` and `quaject` print a JSON object a line.

use super::results;
use super::table::{self, Row};
use crate::failure::{Context, Failure, HOST, Result};
use crate::host;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

const HELP: &str = "\
usage: cargo xtask bench sync [--json FILE]

Measures on this host: stacks, lists, queues and locks of `sync` beside parking_lot, a spin lock, rtrb and crossbeam-queue, with 1, 2 and 4
threads and with interference, and generated queues beside their twins. Takes a minute or two; writes docs/results.md.

  --json FILE    write the rows
";

const TEXT: &str = "\
Natively, on the processor that ran `cargo xtask bench sync`: nanoseconds per operation, the lower quartile of samples that alternate between the two; the unit says how far \
above it the upper quartile is (peer, ours), which is large where the host was busy or threads had to be scheduled. *Ratio* is peer over ours. \
A number behind the name is how many threads did it at the same time, `interference` that as many busy threads as processors ran beside. \
The locks mask no interrupts, as a kernel's would have to.";

/// The benchmarks: package, name, and what else cargo must know.
const BENCHES: &[(&str, &str, &[&str])] = &[
    ("sync", "host", &[]),
    ("quaject", "queues", &["--features", "host"]),
];

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
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
    results::put(
        "sync",
        &format!("{}\n\n{TEXT}\n", table::markdown(&rows).trim()),
    )?;
    Ok(0)
}
