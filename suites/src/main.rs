//! The suites: everything that boots a machine to learn something about the kernel.
//!
//! *Interface*: `cargo xtask test`, `fuzz`, `ltp`, `bench` and `plot`; each is a module with one public
//! `main`, which takes the rest of the command line and returns the exit status. `mutants` shows the texts of
//! tests/mutants that the source lacks, for `cargo xtask check mutants`.

mod bench;
mod foreign;
mod plot;
mod qmp;
mod test;

use xtask::command_line;
use xtask::failure::{Failure, USAGE};

fn main() {
    command_line(|| {
        let mut arguments = std::env::args_os().skip(1);
        let command = arguments.next().unwrap_or_default();
        let rest = arguments.collect();
        match command.to_string_lossy().as_ref() {
            "test" => test::main(rest),
            "fuzz" => test::fuzz(rest),
            "ltp" => test::ltp(rest),
            "bench" => bench::main(rest),
            "plot" => plot::main(rest),
            "mutants" => test::mutants::show_faults(),
            other => Err(Failure::new(
                USAGE,
                format!("`{other}` is no command of the suites; try `cargo xtask --help`"),
            )),
        }
    })
}
