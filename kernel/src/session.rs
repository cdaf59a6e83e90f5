//! The part of boot that may wait, and so has a thread: console, root file system, first program.
//!
//! *Interface*: [`spawn`]; [`needed`] for what cannot be done without: the machine ends with a report that names it.

use abi::errno::Result;
use abi::linux::Winsize;
use machine::{boot, cpu, log};
use unix::tty::Mode;

/// Starts the thread.
pub fn spawn() {
    needed(thread::spawn(b"boot", run, 0), "memory for the boot thread");
}

/// What `result` holds; without it the machine ends with a report.
pub fn needed<T, E>(result: core::result::Result<T, E>, what: &str) -> T {
    match result {
        Ok(value) => value,
        Err(_) => panic!("the kernel cannot start: no {what}"),
    }
}

fn run(_: usize) {
    if let Some(room) = crate::selftest::requested() {
        crate::selftest::run(room);
    }
    if let Err(error) = bring_up() {
        panic!("the first program cannot be started: {error}");
    }
    crate::provoke::run_if_asked();
}

fn bring_up() -> Result<()> {
    let info = boot::info();
    unix::seam::init(cpu::cpus())?; // what descriptor routines are generated against
    unix::tty::start(console_mode(info.cmdline))?; // serial lines and terminal
    let root = unix::fs::boot::init(info.initrd)?; // names and files
    release_initrd(); // its files are copied
    let frames = vm::frame::stats();
    log!("up: {} processors, {frames:?}", cpu::cpus());
    unix::init::start(root, unix::tty::for_first_process()?) // and go
}

/// Gives the archive's memory to the allocator, except for the symbol table at its head, which the panic report reads.
fn release_initrd() {
    let free = boot::release_initrd(machine::symbols::bytes());
    // SAFETY: the archive was the boot loader's, nobody reads it any more, and the allocator knows of its frames.
    unsafe { vm::frame::add_late(free.start..free.end()) };
}

/// The words of the command line that docs/run-contract.md names.
fn console_mode(line: &str) -> Mode {
    let value = |key: &str| {
        line.split_ascii_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    };
    let number = |key, default| value(key).and_then(|n| n.parse().ok()).unwrap_or(default);
    match value("console") {
        Some("stream") => Mode::Stream,
        _ => Mode::Terminal(Winsize {
            row: number("rows", 24),
            col: number("cols", 80),
            ..Winsize::default()
        }),
    }
}
