//! The rules of the source, and the tables that are made of it.
//!
//! *Interface*: `cargo xtask check`, `calls` and `lists`; each is a module with one public `main`, which
//! takes the rest of the command line and returns the exit status.

mod callers;
mod calls;
mod documents;
mod folders;
mod frames;
mod fuzzed;
mod kinds;
mod layers;
mod lists;
mod locks;
mod sources;
mod steps;

use xtask::command_line;
use xtask::failure::{Failure, USAGE};

fn main() {
    command_line(|| {
        let mut arguments = std::env::args_os().skip(1);
        let command = arguments.next().unwrap_or_default();
        let rest = arguments.collect();
        match command.to_string_lossy().as_ref() {
            "check" => steps::main(rest),
            "calls" => calls::main(rest),
            "lists" => lists::main(rest),
            other => Err(Failure::new(
                USAGE,
                format!("`{other}` is no command of the checks; try `cargo xtask --help`"),
            )),
        }
    })
}
