//! The UNIX room: trap links, root, console, first process.
//!
//! *Interface*: [`start`], on the boot processor once threads run. What follows happens in a kernel thread of its own, because it may
//! sleep.

use abi::linux::Winsize;
use machine::boot;
use unix::tty;

/// Starts the thread that brings the room up.
pub fn start() {
    thread::spawn(b"unix", run, 0).expect("memory for the first kernel thread");
}

fn run(_: usize) {
    if let Err(error) = bring_up() {
        panic!("the first process cannot start: {error}");
    }
}

fn bring_up() -> abi::Result<()> {
    unix::trap::link();
    unix::seam::init(machine::cpu::cpus())?;
    let root = unix::fs::boot::init(boot::info().initrd)?;
    tty::start(mode(boot::info().cmdline))?;
    unix::init::start(root, tty::for_first_process())
}

/// What the kernel's command line says of the console (docs/run-contract.md).
fn mode(cmdline: &str) -> tty::Mode {
    let word = |name: &str| {
        cmdline
            .split_whitespace()
            .find_map(|word| word.strip_prefix(name))
    };
    if word("console=") == Some("stream") {
        return tty::Mode::Stream;
    }
    let number = |name, usual| word(name).and_then(|n| n.parse().ok()).unwrap_or(usual);
    tty::Mode::Terminal(Winsize {
        row: number("rows=", 24),
        col: number("cols=", 80),
        ..Winsize::default()
    })
}
