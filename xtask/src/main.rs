//! Entry point of `cargo xtask`.
//!
//! *Interface*: `run` and `image` are answered here. The package `checks` answers `check`, `calls` and
//! `lists`, and the package `suites` answers `test`, `fuzz`, `ltp`, `bench` and `plot`. Each is built when
//! one of its commands is first asked for, so that nobody waits for it who only boots the kernel.

use std::ffi::OsString;
use std::process::Stdio;
use xtask::failure::{Context, Failure, HOST, Result, USAGE};
use xtask::{command_line, host, image, run};

const HELP: &str = "\
usage: cargo xtask COMMAND

  run [options] [-- CMD ARG...]   boot to a shell on this terminal, or run one command in the guest
  test [options] [NAME...]        host tests, model checks, guest tests: all that CI runs
  fuzz [options]                  random sequences of calls on one machine
  ltp [options] [CASE...]         cases of the Linux Test Project, here or on Linux
  bench [NAME...] [--json FILE]   Synthesis beside Debian's Linux, instructions per operation
  check                           format, clippy, layers, unsafe, documentation
  plot TRACE|feeds|loop           pictures of quanta, fills and CPU time over time
  calls [--write]                 the table of Linux's calls, by the sources
  lists [--write]                 the tables of locks and of unsafe, by the sources
  image [options]                 kernel and root archive to boot elsewhere, in build/image

`cargo xtask COMMAND --help` tells more.
";

/// The commands of other packages.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("checks", &["check", "calls", "lists"]),
    ("suites", &["test", "fuzz", "ltp", "bench", "plot"]),
];

fn main() {
    command_line(|| {
        let mut arguments = std::env::args_os().skip(1);
        let Some(command) = arguments.next() else {
            return Err(Failure::new(
                USAGE,
                "no command given; try `cargo xtask --help`",
            ));
        };
        let rest = arguments.collect();
        match command.to_string_lossy().as_ref() {
            "run" => run::main(rest),
            "image" => image::main(rest),
            "help" | "--help" | "-h" => {
                print!("{HELP}");
                Ok(0)
            }
            name => match ELSEWHERE.iter().find(|(_, names)| names.contains(&name)) {
                Some((package, _)) => hand_over(package, name, &rest),
                None => Err(Failure::new(
                    USAGE,
                    format!("unknown command `{name}`; try `cargo xtask --help`"),
                )),
            },
        }
    })
}

/// Builds a package if it has changed, and runs a command of it in the place of this program.
fn hand_over(package: &str, command: &str, rest: &[OsString]) -> Result<i32> {
    use std::os::unix::process::CommandExt;
    let built = host::telling(&format!("building the {package}"), || {
        host::tool("build", package).stdin(Stdio::null()).status()
    });
    if !built.context("cannot start cargo")?.success() {
        return Err(Failure::new(HOST, format!("the {package} do not build")));
    }
    let mut run = host::tool("run", package);
    let failure = run.args(["--", command]).args(rest).exec();
    Err(failure).context("cannot start cargo")
}
