//! `cargo xtask bench general`: generated routines beside the general path of the same kernel, and after how
//! many calls generating one has paid.
//!
//! *Interface*: `main`. The kernel runs twice, once as always and once with `routines=off`, where each call
//! takes the general path, written in Rust. The costs of generating are those of the same run.
//! Source: Pu and others 1995, table 2 (specialized and general read in one kernel).

use super::guest::Kernel;
use super::table::{self, Row, figure};
use super::{LIMIT, counting, results, wants_help};
use std::ffi::OsString;
use std::fmt::Write;
use xtask::failure::Result;
use xtask::machine::Machine;
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench general [--write]

Instructions of calls by their generated routines and by the general path of the same kernel, what generating the
routine costs, and after how many calls that is paid. With --write docs/results.md gets the table.
";

/// The word of the kernel's command line for the general path (docs/run-contract.md).
const WITHOUT: &str = "routines=off";

/// An operation, and the routines that answer its calls, by the names of their costs.
const ROWS: [(&str, &[&str]); 11] = [
    ("file_read_1", &["file_read"]),
    ("file_read_8192", &["file_read", "file_lseek"]),
    ("file_read_65536", &["file_read", "file_lseek"]),
    ("file_write_1", &["file_write"]),
    ("lseek", &["file_lseek"]),
    ("pipe_1", &["pipe_read", "pipe_write"]),
    ("pipe_4096", &["pipe_read", "pipe_write"]),
    ("socketpair_1", &["pipe_read", "pipe_write"]),
    ("null_write_1", &["constant"]),
    ("null_read_1", &["constant"]),
    ("pread_1", &["segment"]),
];

/// Operations while an assumption of their routines does not hold, and events that change one: which guard it
/// is about, in the words of docs/quaject.md.
const GUARDS: [(&str, &str); 7] = [
    (
        "shared_read_1",
        "`file_read_1` of a description that two processes have: looks at the monitor",
    ),
    (
        "shared_pipe_1",
        "`pipe_1` with ends that two processes have: the same, at both ends",
    ),
    (
        "resized_pipe_1",
        "`pipe_1` after F_SETPIPE_SZ: through a relay, by routines for that size",
    ),
    (
        "pipe_nonblock",
        "the change of a flag: another routine is plugged",
    ),
    (
        "dup_close",
        "a second descriptor comes and goes: the guard of sharing, not triggered",
    ),
    (
        "dup_read_close",
        "the same with a read before and after the close: shared routines, then its own again",
    ),
    (
        "tty_settings",
        "a change of a terminal's settings, there and back: the former routines are plugged again",
    ),
];

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    if wants_help(words, HELP)? {
        return Ok(0);
    }
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("bench", &compile::GLIBC)?;
    let guards = GUARDS.iter().map(|guard| guard.0.to_owned());
    let names: Vec<String> = ROWS
        .iter()
        .map(|row| row.0.to_owned())
        .chain(guards)
        .collect();
    let run = |names: &[String], without: bool| {
        Kernel::Synthesis.run(&program, names, LIMIT, |machine: &mut Machine| {
            counting(machine);
            if without {
                machine.append = format!("{} {WITHOUT}", machine.append);
            }
        })
    };
    eprintln!("xtask: measuring generated routines");
    let specialized = run(&[], false)?;
    eprintln!("xtask: measuring the general path");
    let general = run(&names, true)?;
    let rows = table::merge(&general, &specialized);
    let text = format!("{}{ABOUT_GUARDS}{}", lines(&rows), guards_of(&rows));
    print!("{text}");
    if write {
        results::put("general", &format!("{ABOUT}{text}"))?;
    }
    let behind = |row: &Row| !row.ratio().is_some_and(|ratio| ratio > 1.0);
    let measured = |name: &str| rows.iter().find(|row| row.op == name);
    let slower = ROWS
        .iter()
        .filter(|(name, made)| !made.is_empty() && measured(name).is_none_or(behind));
    Ok(i32::from(
        slower
            .inspect(|row| eprintln!("xtask: not cheaper by its routine: {}", row.0))
            .count()
            > 0,
    ))
}

const ABOUT: &str = "\
## Generated routines beside the general path

`cargo xtask bench general`: instructions of an operation, program and entry included, in one kernel: by the generated
routines, and with `routines=off` by the general path, which is written in Rust. *Generated* is the cost of
generating the routines that the operation uses, *paid after* the number of operations after which this cost is less
than what the routines save.

";

const ABOUT_GUARDS: &str = "

### Guards

The assumptions of these routines, and the events that change one (quasi-invariants and their guards in Pu and others
1995). There: 11 cycles for a guard that is not triggered, 535 for replugging, 355 more for an `open` that checks its
eight invariants, of 5,582. Here a routine's guards are words that it adds or compares anyway.

";

/// The table of guards.
fn guards_of(rows: &[Row]) -> String {
    let mut out = String::from(
        "| event or operation | general | generated code | about |\n| --- | ---: | ---: | --- |\n",
    );
    for (name, about) in GUARDS {
        if let Some(row) = rows.iter().find(|row| row.op == name) {
            writeln!(
                out,
                "| {name} | {} | {} | {about} |",
                figure(row.linux),
                figure(row.synthesis)
            )
            .expect("a string");
        }
    }
    out
}

/// The table.
fn lines(rows: &[Row]) -> String {
    let mut out = String::from(
        "| operation | general | generated code | ratio | generated | paid after |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (name, routines) in ROWS {
        let Some(row) = rows.iter().find(|row| row.op == name) else {
            continue;
        };
        let of = |routine: &&str| {
            let mut made = rows.iter().filter(|row| row.section == "generate");
            made.find(|cost| cost.op == **routine)?.synthesis
        };
        let made: Option<f64> = routines.iter().map(of).sum();
        let made = made.filter(|cost| *cost > 0.0);
        let saved = row
            .linux
            .zip(row.synthesis)
            .map(|(general, ours)| general - ours);
        let paid = made.zip(saved.filter(|saved| *saved > 0.0));
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} |",
            figure(row.linux),
            figure(row.synthesis),
            table::ratio(row),
            figure(made),
            figure(paid.map(|(made, saved)| (made / saved).ceil())),
        )
        .expect("a string");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_routine_is_paid_when_it_has_saved_its_cost() {
        let rows = table::merge(
            "row calls file_read_1 instructions 440\nrow calls lseek instructions 900\n\
             row guards dup_close instructions 700\n",
            "row calls file_read_1 instructions 40\nrow calls lseek instructions 1800\n\
             row guards dup_close instructions 300\n\
             row generate file_read instructions 862\n",
        );
        let text = lines(&rows);
        assert!(
            text.contains("| file_read_1 | 440 | 40 | 11.0 | 862 | 3 |"),
            "{text}"
        );
        assert!(
            text.contains("| lseek | 900 | 1 800 | 0.50 | – | – |"),
            "{text}"
        );
        let text = guards_of(&rows);
        assert!(text.contains("| dup_close | 700 | 300 | "), "{text}");
    }
}
