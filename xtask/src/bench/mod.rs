//! `cargo xtask bench`: Synthesis beside Debian's Linux, the same binary on the same machine.
//!
//! *Interface*: `main`. The machine is QEMU under `-icount shift=0,sleep=off` with one CPU: one
//! instruction is one nanosecond of guest time, and two runs give the same count.

mod inside;
mod linux;
mod table;

use crate::failure::{Context, Failure, HOST, Result, USAGE};
use crate::machine::{Kept, Log, Machine, Running, Status, Streams};
use crate::rootfs::Root;
use crate::{compile, host, kernel};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::Row;

const HELP: &str = "\
usage: cargo xtask bench [NAME...] [--json FILE]

Boots Debian's Linux 6.1 and Synthesis in turn with the same static program and prints instructions per
operation, all or those named. Without names docs/results.md is written too.

  --json FILE    write the rows as {\"rows\": [{\"section\", \"op\", \"unit\", \"linux\", \"synthesis\", \"ratio\"}, ...]}
  --only linux|synthesis|host   leave the others out (docs/results.md is not written then)
";

/// Memory of the measured machine.
const MEMORY: u64 = 256 << 20;
/// One boot and all operations take half a minute under icount.
const LIMIT: Duration = Duration::from_secs(600);

/// Which parts to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Linux,
    Synthesis,
    Host,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Result<i32> {
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
    let asked = |part| only.is_none_or(|only| only == part);
    host::need(&[host::QEMU, host::BUSYBOX, host::GCC])?;
    let program = compile::program("bench", &compile::GLIBC)?;
    let mut version = String::from("not measured");
    let linux = if asked(Part::Linux) {
        let image = linux::kernel()?;
        version = linux::version(&image);
        eprintln!("xtask: measuring Linux {version}");
        on_linux(&image, &program, &names)?
    } else {
        String::new()
    };
    let synthesis = if asked(Part::Synthesis) {
        eprintln!("xtask: measuring Synthesis");
        on_synthesis(&program, &names)?
    } else {
        String::new()
    };
    let inside = if asked(Part::Synthesis) && names.is_empty() {
        inside::measure()?
    } else {
        Vec::new()
    };
    let mut rows = table::merge(&linux, &synthesis);
    rows.extend(inside::rows(&inside));
    if asked(Part::Host) && names.is_empty() {
        rows.extend(on_host()?);
    }
    for (kernel, text) in [("Linux", &linux), ("Synthesis", &synthesis)] {
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
    if names.is_empty() && only.is_none() {
        write_results(&rows, &inside, &version)?;
    }
    Ok(0)
}

fn base_root(program: &Path) -> Result<Root> {
    let mut root = Root::new(None)?;
    root.add(&format!("{}:/bin/bench", program.display()))?;
    Ok(root)
}

fn machine(kernel: &Path, log: &str) -> Result<Machine> {
    let mut machine = Machine::new(kernel);
    machine.icount = true;
    machine.memory = MEMORY;
    machine.log = Log::File(host::build_dir("bench")?.join(log));
    Ok(machine)
}

/// Boots with no input, keeping what is printed.
fn start(machine: &Machine, root: &[u8], output: Kept) -> Result<Running> {
    let streams = Streams {
        input: Box::new(std::io::empty()),
        output: Box::new(output),
        error: Box::new(std::io::stderr()),
        terminal: false,
    };
    Running::start(machine, root, streams)
}

/// Boots, waits, and gives what was printed.
fn boot(machine: &Machine, root: &[u8], name: &str) -> Result<String> {
    let output = Kept::default();
    let outcome = start(machine, root, output.clone())?.wait(Some(LIMIT));
    let text = String::from_utf8_lossy(&output.bytes()).into_owned();
    match outcome.status {
        Status::Exit(0) => Ok(text),
        status => {
            eprint!("{text}{}", outcome.report);
            Err(Failure::new(
                HOST,
                format!("{name} did not finish the measurement: {status:?}"),
            ))
        }
    }
}

fn on_linux(image: &Path, program: &Path, names: &[String]) -> Result<String> {
    let mut root = base_root(program)?;
    root.add(&format!("{}:/init", program.display()))?;
    let mut machine = machine(image, "linux.log")?;
    machine.append = format!(
        "console=ttyS0 quiet mitigations=off MEMORY_KIB={} -- {}",
        MEMORY >> 10,
        names.join(" ")
    );
    boot(&machine, &root.finish(Vec::new(), &[], &[]), "Linux")
}

fn on_synthesis(program: &Path, names: &[String]) -> Result<String> {
    let built = kernel::build()?;
    let mut machine = machine(&built, "synthesis.log")?;
    machine.append = crate::run::boot_words(false);
    let mut command = vec!["/bin/bench".to_owned()];
    command.extend(names.iter().cloned());
    let environment = [format!("MEMORY_KIB={}", MEMORY >> 10)];
    boot(
        &machine,
        &base_root(program)?.finish(kernel::symbols(&built)?, &command, &environment),
        "Synthesis",
    )
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

/// Writes `docs/results.md`, keeping what a person wrote below the mark.
fn write_results(rows: &[Row], inside: &[inside::Cost], version: &str) -> Result<()> {
    const MARK: &str = "<!-- below this line: written by hand, kept by `cargo xtask bench` -->";
    let path = host::project().join("docs/results.md");
    let kept = std::fs::read_to_string(&path)
        .ok()
        .and_then(|old| old.split_once(MARK).map(|(_, kept)| kept.to_owned()))
        .unwrap_or_else(|| "\n".into());
    let qemu =
        host::command_output(std::process::Command::new(host::QEMU.program).arg("--version"))?;
    let qemu = qemu.lines().next().unwrap_or_default();
    let text = format!(
        "# Results\n\nWritten by `cargo xtask bench`; do not edit above the mark at the end.\n\n\
         Both kernels ran the same static C program (`user/bench.c`) on the same machine: {qemu}, q35, one CPU, {} MiB, \
         `-icount shift=0,sleep=off -cpu max,-erms,-fsrm`. One instruction is one nanosecond of guest time there, so the \
         figures are instructions per operation, user part and kernel part together, and two runs give the same figure. \
         Linux is Debian's cloud kernel {version} with `mitigations=off`. Files are on tmpfs there and in memory here. \
         *Ratio* is Linux over Synthesis: how many times fewer instructions.\n{}{}\n{MARK}{kept}",
        MEMORY >> 20,
        table::markdown(rows),
        inside::markdown(inside),
    );
    std::fs::write(&path, text).context(format!("cannot write {}", path.display()))?;
    write_readme(rows)
}

/// Puts the figures that matter most into the README.
fn write_readme(rows: &[Row]) -> Result<()> {
    const BEGIN: &str = "<!-- table: written by `cargo xtask bench` -->\n";
    const END: &str = "<!-- end of table -->";
    let path = host::project().join("README.md");
    let old = std::fs::read_to_string(&path).context("cannot read README.md")?;
    let Some((before, rest)) = old.split_once(BEGIN) else {
        return Ok(());
    };
    let Some((_, after)) = rest.split_once(END) else {
        return Ok(());
    };
    let text = format!("{before}{BEGIN}{}{END}{after}", table::short(rows));
    std::fs::write(&path, text).context("cannot write README.md")
}
