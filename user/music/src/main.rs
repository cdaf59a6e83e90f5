//! One binary for all programs of sound: `music NAME [WORD...]`, or a link to it with the name of a program.
//!
//! *Interface*: statuses: 0; 1 when a stream or a device fails; 2 for a wrong word; 141 when nobody reads the
//! output any more, as a shell says of a program that SIGPIPE ended.

fn main() -> std::process::ExitCode {
    music::programs::main(std::env::args_os().collect())
}
