//! `cargo xtask bench mitigations`: whether Synthesis stays ahead when it closes what processors leak by
//! speculation, beside Linux with its own defaults.
//!
//! *Interface*: `main`; `set` gives a machine a word for its mitigations. The figures are those of
//! `cargo xtask bench`, which prints and writes them.

use super::guest::Kernel;
use super::{counting, linux, measured, table};
use lexopt::prelude::*;
use std::ffi::OsString;
use xtask::compile;
use xtask::failure::{Failure, Result, USAGE};
use xtask::host;
use xtask::machine::Machine;

const HELP: &str = "\
usage: cargo xtask bench mitigations [NAME...]

Instructions per operation, all or those named, on Linux and Synthesis, without mitigations and with: Synthesis with
mitigations=auto and =all, Linux with its own defaults. Fails when Synthesis with all is behind Linux with its own
where it is ahead without. `cargo xtask bench --write` writes these figures.
";

/// The machine on which instructions are counted, with this word for its mitigations.
pub fn set(machine: &mut Machine, word: &str) {
    counting(machine);
    let word = format!("mitigations={word}");
    machine.append = machine.append.replace("mitigations=off", &word);
}

/// Runs the command; fails when Synthesis with everything on is behind Linux where it is ahead without.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    super::results::whole(write, false)?;
    let mut names = Vec::new();
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => names.push(name.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().into()),
        }
    }
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("bench", &compile::GLIBC)?;
    let peer = Kernel::peer("Linux", &linux::CLOUD)?;
    let of = |kernel: &Kernel, word| measured(kernel, &program, &names, word);
    let mut rows = table::merge(&of(&peer, "off")?, &of(&Kernel::Synthesis, "off")?);
    let (auto, all) = (
        of(&Kernel::Synthesis, "auto")?,
        of(&Kernel::Synthesis, "all")?,
    );
    table::add_mitigated(&mut rows, &of(&peer, "auto")?, &auto, &all);
    print!("{}", table::text(&rows));
    if let Some(name) = names
        .iter()
        .find(|name| !rows.iter().any(|row| row.op == **name))
    {
        return Err(Failure::new(USAGE, format!("no operation is named {name}")));
    }
    // The check of the clock is no contest.
    let contest = |row: &&table::Row| {
        row.unit == "instructions" && row.ratio().is_some_and(|ratio| ratio > 1.0)
    };
    let mut behind = 0;
    for row in rows.iter().filter(contest) {
        let with = row.mitigated.unwrap_or_default();
        // As before, an operation that only one of the kernels has with mitigations is behind, too.
        let there = with.linux.or(with.all).is_some();
        if there
            && with
                .linux
                .zip(with.all)
                .is_none_or(|(linux, all)| linux <= all)
        {
            eprintln!(
                "xtask: ahead without mitigations and not with them: {} {}",
                row.section, row.op
            );
            behind += 1;
        }
    }
    Ok(i32::from(behind > 0))
}
