//! The one door: `cargo xtask`.
//!
//! *Interface*: `run`, `test`, `fuzz`, `ltp`, `bench`, `plot`, `check`, `calls`, `lists`, `image`; each a
//! module with one public `main`, which takes the rest of the command line and returns the exit status.

mod alternatives;
mod bench;
mod check;
mod compile;
mod cpio;
mod debian;
mod failure;
mod host;
mod image;
mod kernel;
mod machine;
mod options;
mod plot;
mod program;
mod qmp;
mod rootfs;
mod run;
mod stream;
mod suites;
mod symbols;
mod tar;
mod terminal;
mod test;
mod wav;

use failure::{Failure, Result, USAGE};

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

fn dispatch() -> Result<i32> {
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
        "bench" => bench::main(rest),
        "test" => test::main(rest),
        "check" => check::main(rest),
        "calls" => check::calls::main(rest),
        "lists" => check::lists::main(rest),
        "image" => image::main(rest),
        "plot" => plot::main(rest),
        "fuzz" => test::fuzz(rest),
        "ltp" => test::ltp(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(0)
        }
        other => Err(Failure::new(
            USAGE,
            format!("unknown command `{other}`; try `cargo xtask --help`"),
        )),
    }
}

/// The status of a program that the signal of a pipe without a reader ended.
const NO_READER: i32 = 128 + 13;

/// A reader that has gone (`cargo xtask test --list | head -1`) needs no report of a panic: the command ends.
fn end_quietly_without_a_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default();
        if text.starts_with("failed printing to stdout") && text.contains("Broken pipe") {
            std::process::exit(NO_READER);
        }
        usual(info);
    }));
}

fn main() {
    end_quietly_without_a_reader();
    let status = dispatch().unwrap_or_else(|failure| {
        eprintln!("xtask: {}", failure.message);
        failure.status
    });
    std::process::exit(status);
}
