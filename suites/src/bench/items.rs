//! `cargo xtask bench items`: the items of a known suite that measures a kernel's latencies and bandwidths,
//! in instructions, beside Linux.
//!
//! *Interface*: `main`. The suite's source and the scripts that build and run its items are in the folder of
//! suites; without them nothing is measured. Its licence reserves its name for figures of its unchanged
//! programs, and these measure for a shorter time, so the figures are those of *items after lmbench*.

use super::guest::{self, Kernel};
use super::table::{self, Row};
use super::{counting, linux, results};
use crate::foreign;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::failure::{Context, Failure, HOST, Result};
use xtask::machine::{Kept, Log, Machine, Status};
use xtask::rootfs::Root;
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench items [--suites DIR] [--only synthesis] [--json FILE] [--write]

Runs the items after lmbench on Debian's Linux and on Synthesis, the same static programs, and prints instructions of
each and the geometric mean of those that enter the kernel. Fails when the mean or a latency is below its floor.

  --suites DIR        the folder of lmbench-*.tar.xz and lmbench/ (the variable SYNTHESIS_SUITES, or ../shared/suites)
  --only synthesis    leave the other out
  --json FILE         write the rows
  --write             write docs/results.md: with both kernels
";

const MEMORY: u64 = 512 << 20;
/// Two minutes are usual.
const LIMIT: Duration = Duration::from_secs(1800);
/// The folder in the guest.
const INSIDE: &str = "/lmb";
/// The items that the guest's script runs, of these lists.
const LISTS: [&str; 2] = ["items", "items-net"];
/// How many times fewer instructions the geometric mean and each latency must show.
const MEAN: f64 = 6.0;
const LATENCY: f64 = 2.0;

/// Runs the command.
pub fn main(words: Vec<OsString>, write: bool) -> Result<i32> {
    let (mut folder, mut alone, mut json) = (None, false, None);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("suites") => folder = Some(PathBuf::from(parser.value()?)),
            Long("only") => alone = guest::only_synthesis(&mut parser)?,
            Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let folder = foreign::folder(folder);
    if let Err(why) = foreign::archive(&folder, "lmbench") {
        println!("skipped: {why}");
        return Ok(0);
    }
    results::whole(write, !alone)?;
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC, host::XZ])?;
    let programs = built(&folder.join("lmbench"))?;
    let mut kernels = vec![Kernel::Synthesis];
    if !alone {
        kernels.insert(0, Kernel::peer("Linux", &linux::CLOUD)?);
    }
    let mut texts = measured(&kernels, &programs)?;
    let ours = texts.pop().unwrap_or_default();
    let theirs = texts.pop().unwrap_or_default();
    let rows = table::merge(&lines(&theirs), &lines(&ours));
    print!("{}", table::text(&rows));
    let (said, good) = judged(&rows);
    print!("{said}");
    if let Some(path) = json {
        std::fs::write(&path, table::json(&rows))
            .context(format!("cannot write {}", path.display()))?;
    }
    if write {
        let version = kernels.first().map_or_else(String::new, Kernel::version);
        results::put("items", &report(&rows, &version, &said))?;
    }
    Ok(i32::from(!alone && !good))
}

/// The folder of the programs, which the suite's own script builds once, and of what runs them.
fn built(scripts: &Path) -> Result<PathBuf> {
    let dir = host::build_dir("items")?;
    let programs = dir.join("bin");
    let stamp = dir.join("built");
    if !stamp.exists() {
        eprintln!("xtask: building the items after lmbench");
        let mut build = Command::new("sh");
        host::run_quietly(build.arg(scripts.join("build.sh")).arg(&dir))?;
        std::fs::write(&stamp, "").context(stamp.display())?;
    }
    let mut all = String::new();
    for list in LISTS {
        let path = scripts.join(list);
        all += &std::fs::read_to_string(&path).context(path.display())?;
    }
    let (list, script) = (programs.join("all"), programs.join("bench.sh"));
    std::fs::write(&list, all).context(list.display())?;
    std::fs::copy(scripts.join("bench.sh"), &script).context(script.display())?;
    Ok(programs)
}

/// The output of each kernel. Counts do not depend on the other machine that runs at the same time.
fn measured(kernels: &[Kernel], programs: &Path) -> Result<Vec<String>> {
    let conduct = compile::program("conduct", &compile::GLIBC)?;
    let words = [format!("{INSIDE}/bench.sh"), INSIDE.into(), "all".into()];
    let mut running = Vec::new();
    for kernel in kernels {
        let mut root = Root::new(None)?;
        root.add(&format!("{}:{INSIDE}", programs.display()))?;
        let describe = |machine: &mut Machine| {
            counting(machine);
            machine.memory = MEMORY;
        };
        let (mut machine, archive) = kernel.prepare_in(root, &conduct, &words, describe)?;
        machine.log =
            Log::File(host::build_dir("bench")?.join(format!("items-{}.log", kernel.name())));
        eprintln!("xtask: measuring {}", kernel.name());
        let output = Kept::default();
        running.push((guest::start(&machine, &archive, output.clone())?, output));
    }
    let mut texts = Vec::new();
    for ((running, output), kernel) in running.into_iter().zip(kernels) {
        let outcome = running.wait(Some(LIMIT));
        let text = String::from_utf8_lossy(&output.bytes()).into_owned();
        let path = host::build_dir("bench")?.join(format!("items-{}.txt", kernel.name()));
        std::fs::write(&path, &text).context(path.display())?;
        if outcome.status != Status::Exit(0) || !text.contains("@@ END") {
            let what = format!(
                "{} did not finish the items: {:?}, see {}",
                kernel.name(),
                outcome.status,
                path.display()
            );
            return Err(Failure::new(HOST, what));
        }
        texts.push(text);
    }
    Ok(texts)
}

/// The script's output, as lines `row SECTION OP UNIT COUNT`.
fn lines(printed: &str) -> String {
    let mut out = String::new();
    let mut item = "";
    for line in printed.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("@@ ") {
            item = name;
            continue;
        }
        for (op, unit, count) in figures(item, line) {
            writeln!(out, "row items {op} {unit} {count}").expect("a string");
        }
    }
    out
}

/// The figures in a line of an item. Times are microseconds of a machine on which an instruction is a
/// nanosecond.
fn figures(item: &str, line: &str) -> Vec<(String, &'static str, f64)> {
    const TIME: &str = "instructions";
    const KIB: &str = "instructions_per_KiB";
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| word.parse::<f64>().ok().filter(|figure| *figure > 0.0);
    let before = |unit: &str| {
        let at = words.iter().position(|word| *word == unit)?;
        number(words.get(at.checked_sub(1)?)?)
    };
    let time = |figure: f64| vec![(item.to_owned(), TIME, figure * 1e3)];
    // Megabytes of 10^6 bytes a second.
    let rate = |figure: f64| vec![(item.to_owned(), KIB, 1024.0 * 1e3 / figure)];
    if let Some(figure) = before("microseconds") {
        return time(figure);
    }
    if let Some(figure) = before("MB/sec") {
        return rate(figure);
    }
    match words[..] {
        // Size, how many, created and deleted in a second.
        [size, _, created, deleted] if item == "fs" && size.ends_with('k') => {
            let each = [("create", created), ("delete", deleted)];
            let each = each.into_iter().filter_map(|(what, in_a_second)| {
                let figure = 1e9 / number(in_a_second)?;
                Some((format!("fs_{size}_{what}"), TIME, figure))
            });
            each.collect()
        }
        [first, second] => match (number(first), number(second)) {
            (Some(_), Some(figure)) if item.starts_with("bw_") => rate(figure),
            (Some(_), Some(figure)) => time(figure),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Whether an item is the kernel's work, and not the program's alone.
fn enters(row: &&Row) -> bool {
    row.op != "procedure" && !row.op.starts_with("bw_mem")
}

/// The geometric mean and what is below its floor, in words; whether nothing is.
fn judged(rows: &[Row]) -> (String, bool) {
    let ratios: Vec<(&Row, f64)> = rows
        .iter()
        .filter(enters)
        .filter_map(|row| Some((row, row.ratio()?)))
        .collect();
    if ratios.is_empty() {
        return (String::new(), true);
    }
    let logarithms: f64 = ratios.iter().map(|(_, ratio)| ratio.ln()).sum();
    let mean = (logarithms / ratios.len() as f64).exp();
    let mut said = format!(
        "geometric mean of the {} that enter the kernel: {mean:.2} times fewer (floor {MEAN})\n",
        ratios.len()
    );
    let missing: Vec<_> = rows
        .iter()
        .filter(|row| row.synthesis.is_none())
        .map(|row| row.op.as_str())
        .collect();
    if !missing.is_empty() {
        writeln!(said, "without a figure here: {}", missing.join(", ")).expect("a string");
    }
    let slow: Vec<_> = ratios
        .iter()
        .filter(|(row, ratio)| !row.op.starts_with("bw_") && *ratio < LATENCY)
        .map(|(row, ratio)| format!("{} {ratio:.2}", row.op))
        .collect();
    if !slow.is_empty() {
        writeln!(said, "latencies below {LATENCY}: {}", slow.join(", ")).expect("a string");
    }
    let good = mean >= MEAN && slow.is_empty() && missing.is_empty();
    (said, good)
}

fn report(rows: &[Row], version: &str, said: &str) -> String {
    format!(
        "## Items after lmbench\n\n`cargo xtask bench items`: the same static programs on Linux {version} with `mitigations=off`\n\
         and on Synthesis, one CPU, {} MiB, files in memory on both, one instruction a nanosecond. The items are built\n\
         from lmbench 3 with a tenth of its measuring time, so by its licence these are not its results.\n{}\n{said}",
        MEMORY >> 20,
        table::markdown(rows).replacen("\n## items\n", "", 1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_instructions() {
        let printed = "@@ null\nSimple syscall: 0.2500 microseconds\n@@ ctx_2p_0k\n\"size=0k ovr=0.90\n2 1.50\n\
                       @@ fs\n0k\t90\t100000\t250000\n@@ bw_pipe\nPipe bandwidth: 1024.00 MB/sec\n@@ bw_file_io\n8.39 512.0\n\
                       @@ mmap_1m\n1.048576 12\n@@ sem\n## status 1\n";
        let expected = "row items null instructions 250\nrow items ctx_2p_0k instructions 1500\n\
                        row items fs_0k_create instructions 10000\nrow items fs_0k_delete instructions 4000\n\
                        row items bw_pipe instructions_per_KiB 1000\nrow items bw_file_io instructions_per_KiB 2000\n\
                        row items mmap_1m instructions 12000\n";
        assert_eq!(lines(printed), expected);
    }

    #[test]
    fn a_mean_a_slow_latency_and_one_that_failed_are_told() {
        let linux = "row items null instructions 1600\nrow items fork instructions 100\nrow items procedure instructions 9\n";
        let ours = "row items null instructions 16\nrow items procedure instructions 9\n";
        let (said, good) = judged(&table::merge(linux, ours));
        assert!(
            said.contains("of the 1 that enter the kernel: 100.00"),
            "{said}"
        );
        assert!(
            said.contains("without a figure here: fork") && !good,
            "{said}"
        );
        let slow = format!("{ours}row items fork instructions 100\n");
        let (said, good) = judged(&table::merge(linux, &slow));
        assert!(
            said.contains("latencies below 2: fork 1.00") && !good,
            "{said}"
        );
    }
}
