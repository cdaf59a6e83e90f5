//! `cargo xtask bench`: Synthesis beside Debian's Linux, the same binary on the same machine.
//!
//! *Interface*: `main`. The machine is QEMU under `-icount shift=0,sleep=off` with one CPU: one
//! instruction is one nanosecond of guest time, and two runs give the same count.

mod aims;
mod chains;
mod columns;
mod cyclictest;
mod dropouts;
mod general;
pub mod guest;
mod hackbench;
mod histogram;
mod inside;
mod interrupts;
mod items;
mod keys;
mod lateness;
pub mod linux;
mod mitigated;
mod music;
mod programs;
mod realtime;
mod results;
mod scaling;
mod sync;
mod table;
mod turns;
mod wakeups;

use guest::Kernel;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use table::Row;
use xtask::failure::{Context, Failure, Result, USAGE};
use xtask::machine::Machine;
use xtask::{compile, host};

const HELP: &str = "\
usage: cargo xtask bench [NAME...] [--json FILE] [--write]
       cargo xtask bench lateness [--seconds N | --long] [--only synthesis] [--json FILE] [--write]
       cargo xtask bench cyclictest [NAME...] [--seconds N | --long] [--only synthesis] [--json FILE] [--write]
       cargo xtask bench dropouts [--seconds N] [--programs N]... [--only synthesis] [--write]
       cargo xtask bench hackbench [--groups N] [--loops N] [--write]
       cargo xtask bench wakeups [NAME...] [--seconds N] [--only synthesis] [--json FILE] [--write]
       cargo xtask bench scaling [--short] [--only synthesis] [--json FILE] [--write]
       cargo xtask bench programs [NAME...] [--rounds N] [--cpus N] [--only synthesis] [--json FILE] [--write]
       cargo xtask bench items [--suites DIR] [--only synthesis] [--json FILE] [--write]
       cargo xtask bench general [--write]
       cargo xtask bench chains [--write]
       cargo xtask bench interrupts [--write]
       cargo xtask bench music [--write]
       cargo xtask bench mitigations [NAME...]
       cargo xtask bench sync [--json FILE] [--write]

Boots Debian's Linux 6.1 and Synthesis in turn with the same static program and prints instructions per
operation, all or those named: without mitigations of processors' defects and with each kernel's own, on Synthesis also
with all. Fails when one is below its floor.
`lateness` measures how late a 250-µs timer's handler runs on a busy machine, beside Linux and PREEMPT_RT, `cyclictest` the same
of Debian's cyclictest; `dropouts` the gaps of a stream of sound on it; `hackbench` the time of Debian's hackbench; `wakeups` how soon woken threads run, by schbench's method; `scaling` the throughput with 1 to 8 CPUs; `programs` how long redis, postgres, nginx, node and tmux take; `items` the items after
lmbench; `general` generated routines beside the general path of the same kernel; `chains` links in line and called; `interrupts` handlers of an interrupt for each sample; `music` pipelines of the programs of sound; `mitigations` whether an operation falls behind Linux by mitigations; `sync` the structures that wait for no lock beside
locks and other queues, on this host. --help after each tells more.

  --json FILE    write the rows as {\"rows\": [{\"section\", \"op\", \"unit\", \"linux\", \"synthesis\", \"ratio\"}, ...]}
  --only linux|synthesis|host   leave the others out
  --write        write docs/results.md and the table of README.md: without names and --only. Without it no document changes;
                 each of the measurements above but `mitigations` takes it, too
";

/// One boot and all operations take half a minute under icount.
const LIMIT: Duration = Duration::from_secs(600);

/// A measurement's own command, and whether it is to write documents.
type Apart = fn(Vec<OsString>, bool) -> Result<i32>;

/// The measurements that stand apart.
const APART: [(&str, Apart); 14] = [
    ("lateness", lateness::main),
    ("dropouts", dropouts::main),
    ("cyclictest", cyclictest::main),
    ("hackbench", hackbench::main),
    ("wakeups", wakeups::main),
    ("scaling", scaling::main),
    ("programs", programs::main),
    ("items", items::main),
    ("general", general::main),
    ("chains", chains::main),
    ("interrupts", interrupts::main),
    ("music", music::main),
    ("mitigations", mitigated::main),
    ("sync", sync::main),
];

/// Which parts to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Linux,
    Synthesis,
    Host,
}

/// Runs the command.
pub fn main(mut words: Vec<OsString>) -> Result<i32> {
    let all = words.len();
    words.retain(|word| word != "--write");
    let write = words.len() < all;
    if let Some(word) = words.first()
        && let Some((_, main)) = APART.iter().find(|(name, _)| word == name)
    {
        return main(words[1..].to_vec(), write);
    }
    let (mut names, mut json, mut only) = (Vec::new(), None, None);
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("json") => json = Some(PathBuf::from(parser.value()?)),
            Long("only") => {
                only = Some(match parser.value()?.to_string_lossy().as_ref() {
                    "linux" => Part::Linux,
                    "synthesis" => Part::Synthesis,
                    "host" => Part::Host,
                    other => {
                        return Err(Failure::new(
                            USAGE,
                            format!("--only {other}: linux, synthesis or host"),
                        ));
                    }
                });
            }
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(0);
            }
            Value(name) => names.push(name.to_string_lossy().into_owned()),
            other => return Err(other.unexpected().into()),
        }
    }
    results::whole(write, names.is_empty() && only.is_none())?;
    let asked = |part| only.is_none_or(|only| only == part);
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("bench", &compile::GLIBC)?;
    let mut version = String::from("not measured");
    let [mut linux, mut linux_auto, mut synthesis, mut auto, mut all] =
        [const { String::new() }; 5];
    if asked(Part::Linux) {
        let peer = Kernel::peer("Linux", &linux::CLOUD)?;
        version = peer.version();
        linux = measured(&peer, &program, &names, "off")?;
        linux_auto = measured(&peer, &program, &names, "auto")?;
    }
    if asked(Part::Synthesis) {
        let own = |word| measured(&Kernel::Synthesis, &program, &names, word);
        (synthesis, auto, all) = (own("off")?, own("auto")?, own("all")?);
    }
    let inside = if asked(Part::Synthesis) && names.is_empty() {
        inside::measure()?
    } else {
        Vec::new()
    };
    let mut rows = table::merge(&linux, &synthesis);
    table::add_mitigated(&mut rows, &linux_auto, &auto, &all);
    rows.extend(inside::rows(&inside));
    if asked(Part::Host) && names.is_empty() {
        rows.extend(on_host()?);
    }
    let texts = [
        ("Linux", &linux),
        ("Linux, auto", &linux_auto),
        ("Synthesis", &synthesis),
        ("Synthesis, auto", &auto),
        ("Synthesis, all", &all),
    ];
    for (kernel, text) in texts {
        for line in text.lines().filter(|line| line.starts_with("fail ")) {
            eprintln!("xtask: {kernel}: {line}");
        }
    }
    if let Some(name) = names
        .iter()
        .find(|name| !rows.iter().any(|row| row.op == **name))
    {
        return Err(Failure::new(USAGE, format!("no operation is named {name}")));
    }
    print!("{}", table::text(&rows));
    if let Some(path) = json {
        std::fs::write(&path, table::json(&rows))
            .context(format!("cannot write {}", path.display()))?;
    }
    if write {
        results::write(&rows, &inside, &version)?;
    }
    let below = aims::below(&rows);
    for row in &below {
        eprintln!("xtask: below its floor: {row}");
    }
    Ok(i32::from(!below.is_empty()))
}

/// The measuring program's output on `kernel` with that word for its mitigations, with the row of a typed key
/// if that is asked for.
fn measured(
    kernel: &Kernel,
    program: &std::path::Path,
    names: &[String],
    word: &str,
) -> Result<String> {
    let name = kernel.name();
    eprintln!(
        "xtask: measuring {name}, {}, mitigations={word}",
        kernel.version()
    );
    let describe = |machine: &mut Machine| mitigated::set(machine, word);
    let mut text = String::new();
    if names.iter().any(|name| name != keys::NAME) || names.is_empty() {
        text = kernel.run(program, names, LIMIT, describe)?;
    }
    if names.iter().any(|name| name == keys::NAME) || names.is_empty() {
        text.push_str(&keys::measure(kernel, describe)?);
    }
    Ok(text)
}

/// Whether a command without words is asked for its `help`, which is printed then.
fn wants_help(words: Vec<OsString>, help: &str) -> Result<bool> {
    match lexopt::Parser::from_args(words).next()? {
        None => Ok(false),
        Some(Short('h') | Long("help")) => {
            print!("{help}");
            Ok(true)
        }
        Some(Value(word)) => Err(Failure::new(
            USAGE,
            format!("{}: no words are taken", word.to_string_lossy()),
        )),
        Some(other) => Err(other.unexpected().into()),
    }
}

/// The machine on which one instruction is one nanosecond.
fn counting(machine: &mut Machine) {
    machine.icount = Some(0);
}

/// Generated code beside compiled code, natively: the benchmark of `codegen` prints a JSON object a line.
fn on_host() -> Result<Vec<Row>> {
    eprintln!("xtask: measuring on the host");
    let mut command = host::cargo();
    command.args([
        "bench",
        "--quiet",
        "--package",
        "codegen",
        "--bench",
        "host",
        "--",
        "--json",
    ]);
    let text = host::command_output(&mut command)?;
    Ok(text.lines().filter_map(table::parse_host).collect())
}
