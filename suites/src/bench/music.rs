//! `cargo xtask bench music`: pipelines of the programs of sound, beside Linux.
//!
//! *Interface*: `main`. `user/bench/pipelines.c` runs them as a shell does, with the same static binary in
//! both.

use super::guest::Kernel;
use super::{LIMIT, counting, linux, results, table, wants_help};
use std::ffi::OsString;
use xtask::failure::Result;
use xtask::rootfs::Root;
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench music [--write]

Instructions of pipelines of the programs of sound (docs/music.md) for each block of 64 frames, on Debian's Linux
and on Synthesis. With --write docs/results.md gets the table.
";

/// Runs the command; fails when a pipeline is dearer than on Linux, or does not run.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    if wants_help(words, HELP)? {
        return Ok(0);
    }
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("pipelines", &compile::GLIBC)?;
    let music = compile::music()?;
    let run = |kernel: &Kernel| -> Result<String> {
        eprintln!("xtask: measuring {}", kernel.name());
        let mut root = Root::new(None)?;
        root.music(&music)?;
        let text = kernel.run_in(root, &program, &[], LIMIT, counting)?;
        for line in text.lines().filter(|line| line.starts_with("fail ")) {
            eprintln!("xtask: {}: {line}", kernel.name());
        }
        Ok(text)
    };
    let peer = run(&Kernel::peer("Linux", &linux::CLOUD)?)?;
    let rows = table::merge(&peer, &run(&Kernel::Synthesis)?);
    print!("{}", table::text(&rows));
    let mut text = String::from(ABOUT);
    for row in &rows {
        let (peer, own) = (table::figure(row.linux), table::figure(row.synthesis));
        let ratio = table::ratio(row);
        text += &format!(
            "| {} | {peer} | {own} | {ratio} |\n",
            row.op.replace('_', " ")
        );
    }
    if write {
        results::put("music", &text)?;
    }
    let dearer = rows
        .iter()
        .any(|row| row.ratio().is_none_or(|ratio| ratio < 1.0));
    Ok(i32::from(rows.is_empty() || dearer))
}

const ABOUT: &str = "\
## Pipelines of sound

`cargo xtask bench music`: instructions for each block of 64 frames (1.45 ms of sound) that goes through five
programs and the four pipes between them, programs and kernel together, on one CPU. *five that pass on*:
`delay 0` five times, which is reading and writing alone; *five filters*: `delay 5 | echoes 30 | lowpass 3000 |
highpass 100 | reverb`. The same static binary ran in both.

| pipeline | Linux | Synthesis | times fewer |
| --- | ---: | ---: | ---: |
";
