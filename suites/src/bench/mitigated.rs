//! `cargo xtask bench mitigations`: what it costs to close what processors leak by speculation, beside Linux
//! with its own defaults.
//!
//! *Interface*: `main`. Each kernel is measured with `mitigations=off`, as everywhere else, and with
//! everything on: Synthesis with `mitigations=all`, Linux with what it chooses itself. Without names the
//! block `mitigations` of docs/results.md is written.

use super::columns::Columns;
use super::guest::Kernel;
use super::{LIMIT, counting, linux, results};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt::Write;
use xtask::failure::{Failure, Result, USAGE};
use xtask::machine::Machine;
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench mitigations [NAME...]

Instructions per operation, all or those named, on Linux and Synthesis, without mitigations and with: Synthesis with
mitigations=all, Linux with its own defaults. Without names docs/results.md gets the table.
";

/// Runs the command; fails when Synthesis with everything on is behind Linux where it is ahead without.
pub fn main(words: Vec<OsString>) -> Result<i32> {
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
    let mut columns = Columns::default();
    let mut texts = Vec::new();
    for (kernel, word, column) in [
        (&peer, "", "Linux, off"),
        (&Kernel::Synthesis, "", "Synthesis, off"),
        (&peer, "mitigations=auto", "Linux, its own"),
        (&Kernel::Synthesis, "mitigations=all", "Synthesis, all"),
    ] {
        eprintln!("xtask: measuring {column}");
        let describe = |machine: &mut Machine| {
            counting(machine);
            if !word.is_empty() {
                machine.append = machine.append.replace("mitigations=off", word);
            }
        };
        let text = kernel.run(&program, &names, LIMIT, describe)?;
        columns.add(column, &text);
        texts.push(text);
    }
    print!("{}", columns.text());
    let [linux, synthesis, linux_on, synthesis_on] = &texts[..] else {
        unreachable!("four were measured")
    };
    let (off, on) = (
        super::table::merge(linux, synthesis),
        super::table::merge(linux_on, synthesis_on),
    );
    if let Some(name) = names
        .iter()
        .find(|name| !on.iter().any(|row| row.op == **name))
    {
        return Err(Failure::new(USAGE, format!("no operation is named {name}")));
    }
    if names.is_empty() {
        let mut text = format!(
            "## mitigations\n\nInstructions per operation, without mitigations and with all that the processor can execute (Synthesis, `mitigations=all`) or that Linux {} \
             chooses for it (`mitigations=auto`). `-cpu max` of QEMU claims to be a processor without Meltdown and MDS, so Linux chooses little there. An instruction is \
             one here, a `wrmsr` or `verw` too, which on silicon takes a hundred times as long as another.\n",
            peer.version()
        );
        write!(text, "{}", columns.markdown()).expect("a string");
        results::put("mitigations", &text)?;
    }
    // The check of the clock is no contest.
    let ahead = |row: &&super::table::Row| {
        row.unit == "instructions" && row.ratio().is_some_and(|ratio| ratio > 1.0)
    };
    let mut behind = 0;
    for row in off.iter().filter(ahead) {
        if let Some(now) = on
            .iter()
            .find(|now| now.op == row.op && now.section == row.section)
            && !ahead(&now)
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
