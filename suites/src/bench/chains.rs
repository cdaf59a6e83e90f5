//! `cargo xtask bench chains`: the same chains with links in line and with links called, in one kernel.
//!
//! *Interface*: `main`. The kernel runs as always, with `links=called`, where the same emitters make calls of
//! all links, and with `routines=off`, where a program's calls take the general path in Rust.
//! Source: dissertation, section 3.2.2 (collapsing layers).

use super::columns::Columns;
use super::guest::Kernel;
use super::{LIMIT, counting, keys, results, wants_help};
use std::ffi::OsString;
use xtask::failure::Result;
use xtask::machine::Machine;
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench chains [--write]

Instructions of chains of quajects with links in line and with links called, and by the general path of the same
kernel. With --write docs/results.md gets the table.
";

/// The columns, and the words of the kernel's command line for each (docs/run-contract.md).
const COLUMNS: [(&str, &str); 3] = [
    ("links in line", ""),
    ("links called", "links=called"),
    ("general path", "routines=off"),
];

/// Runs the command; fails when a chain is dearer in line than called.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    if wants_help(words, HELP)? {
        return Ok(0);
    }
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("layers", &compile::GLIBC)?;
    let mut columns = Columns::default();
    for (column, word) in COLUMNS {
        eprintln!("xtask: measuring {column}");
        let describe = |machine: &mut Machine| {
            counting(machine);
            machine.append = format!("{} {word}", machine.append);
        };
        let mut text = Kernel::Synthesis.run(&program, &[], LIMIT, describe)?;
        text.push_str(
            &keys::measure(&Kernel::Synthesis, describe)?.replace("row clock", "row chains"),
        );
        for line in text.lines().filter(|line| line.starts_with("fail ")) {
            eprintln!("xtask: {column}: {line}");
        }
        columns.add(column, &text);
    }
    print!("{}", columns.text());
    if write {
        results::put("chains", &format!("{ABOUT}{}", columns.markdown()))?;
    }
    let [in_line, called, _] = COLUMNS.map(|(column, _)| column);
    let dearer = ROWS.iter().filter(|name| {
        let [line, call] = [in_line, called].map(|column| columns.get(column, "chains", name));
        line.zip(call).is_none_or(|(line, call)| line > call)
    });
    Ok(i32::from(
        dearer
            .inspect(|name| eprintln!("xtask: dearer in line than called: {name}"))
            .count()
            > 0,
    ))
}

/// The chains, as `user/bench/layers.c` and `user/bench/keys.c` name them.
const ROWS: [&str; 11] = [
    "key_1",
    "write_1",
    "write_80",
    "line_8",
    "pipe_1",
    "pipe_4096",
    "file_read_1",
    "null_write_1",
    "filtered_1024",
    "pump_1",
    "key_echo",
];

const ABOUT: &str = "\
## Chains with links in line and called

`cargo xtask bench chains`: instructions of a chain, program and entry included, in one kernel: with each link in
line as far as it goes, with `links=called`, where the same emitters make a call of every link, and with
`routines=off`, where a program's calls are answered in Rust. `key_1`: a byte from a terminal's master to its reader;
`line_8`: a line of eight bytes typed there, through the editor; `write_1`, `write_80`: a terminal's output; `pipe_1`,
`pipe_4096`: both ends; `filtered_1024`: a write through three filters and a gauge; `pump_1`: a byte from a queue
through a pump, a monitor and a filter into another queue; `key_echo`: from the serial line's interrupt to the
reader, with its echo. A terminal's output has no entry of its queue that could be called, as its bytes go straight
from the program into the ring; with links called that part is a subroutine of the same image. Where the first two
columns are equal no link stands in the code: a pipe, a file and `/dev/null` are one quaject each, reached through
the table of descriptors.

";
