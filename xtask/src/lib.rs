//! The tools of the command line: everything between the source and a running machine.
//!
//! *Interface*: [`run::main`] and [`image::main`] are commands. The other modules serve these, the checks and
//! the suites: [`host`] has what is needed of the host, [`kernel`] and [`compile`] build, [`rootfs`] makes a
//! root archive, [`machine`] describes and boots a machine.

pub mod alternatives;
pub mod compile;
mod cpio;
pub mod debian;
pub mod failure;
pub mod host;
pub mod image;
pub mod kernel;
pub mod machine;
mod options;
pub mod processor_time;
mod program;
pub mod rootfs;
pub mod run;
pub mod stream;
mod symbols;
mod tar;
mod terminal;
mod wav;

/// The status of a program that the signal of a pipe without a reader ended.
const NO_READER: i32 = 128 + 13;

/// Runs a command line's `work` and ends the process with its status; a failure is one line on standard
/// error. When the reader of standard output has gone (`cargo xtask test --list | head -1`), the command ends
/// without the report of a panic.
pub fn command_line(work: impl FnOnce() -> failure::Result<i32>) -> ! {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default();
        if text.starts_with("failed printing to stdout") && text.contains("Broken pipe") {
            std::process::exit(NO_READER);
        }
        usual(info);
    }));
    let status = work().unwrap_or_else(|failure| {
        eprintln!("xtask: {}", failure.message);
        failure.status
    });
    std::process::exit(status)
}
