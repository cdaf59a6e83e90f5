//! The one door: `cargo xtask`.
//!
//! *Interface*: `run`, `check`, `calls`, `lists` and `image` are answered here. The package `suites` answers
//! `test`, `fuzz`, `ltp`, `bench` and `plot`; it is built when one of them is first asked for, so that nobody
//! waits for it who only boots the kernel.

use std::ffi::OsString;
use std::process::Stdio;
use xtask::failure::{Context, Failure, HOST, Result, USAGE};
use xtask::{check, command_line, host, image, run};

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

/// The commands of the package `suites`.
const SUITES: &[&str] = &["test", "fuzz", "ltp", "bench", "plot"];

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
            "check" => check::main(rest),
            "calls" => check::calls::main(rest),
            "lists" => check::lists::main(rest),
            "image" => image::main(rest),
            name if SUITES.contains(&name) => in_suites(name, &rest),
            "help" | "--help" | "-h" => {
                print!("{HELP}");
                Ok(0)
            }
            other => Err(Failure::new(
                USAGE,
                format!("unknown command `{other}`; try `cargo xtask --help`"),
            )),
        }
    })
}

/// Builds the package `suites` if it has changed, and runs a command of it in the place of this program.
fn in_suites(command: &str, rest: &[OsString]) -> Result<i32> {
    use std::os::unix::process::CommandExt;
    let built = host::telling("building the suites", || {
        host::suites(&["build"]).stdin(Stdio::null()).status()
    });
    if !built.context("cannot start cargo")?.success() {
        return Err(Failure::new(HOST, "the suites do not build"));
    }
    let failure = host::suites(&["run"])
        .args(["--", command])
        .args(rest)
        .exec();
    Err(failure).context("cannot start cargo")
}
