//! The console at boot: which lines there are, how they are cooked, and what device numbers stand for them.
//!
//! *Interface*: [`start`] once, with the mode that the kernel's command line asks for; [`for_first_process`] for what the first
//! process gets of it.

use abi::errno::{Errno, Result};
use abi::linux::{O_RDONLY, O_RDWR, O_WRONLY, Winsize, makedev};
use alloc::sync::Arc;
use device::serial::{COM1, COM2, Source, Unusable};
use sync::Once;

use super::{ControllingTty, StreamFile, TtyFile, console, notice, start_console};
use crate::file::{File, OpenFile};
use crate::fs::walk::{View, walk};
use crate::fs::{How, dev, place};
use crate::init::Console;
use crate::process::{Cred, Process, Terminal};
use abi::linux::O_NOCTTY;

/// How the console line behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As a terminal of this size.
    Terminal(Winsize),
    /// As two byte streams, with a third for errors on the second line.
    Stream,
}

static MODE: Once<Mode> = Once::new();

const TTY: u32 = 5;
const SERIAL: u32 = 4;
const FIRST_SERIAL: u32 = 64;

fn device_error(error: Unusable) -> Errno {
    match error {
        Unusable::Absent => Errno::ENXIO,
        Unusable::Resources => Errno::ENOMEM,
    }
}

/// Starts the lines and their pumps, and registers `/dev/console`, `/dev/tty` and `/dev/ttyS0`. ENXIO without a first
/// line, ENOMEM.
pub fn start(mode: Mode) -> Result<()> {
    let _again = MODE.set(mode);
    for line in [&COM1, &COM2] {
        match line.start() {
            Err(Unusable::Absent) if core::ptr::eq(line, &COM2) => continue,
            started => started.map_err(device_error)?,
        }
        line.enable(Source::Receive).map_err(device_error)?;
        line.enable(Source::Transmit).map_err(device_error)?;
    }
    if let Mode::Terminal(size) = mode {
        start_console(&COM1, makedev(SERIAL, FIRST_SERIAL), size)?;
    }
    super::start_pump(b"notices", |_| notice::pump())?;
    dev::register(TTY, 1..=1, open_console);
    dev::register(SERIAL, FIRST_SERIAL..=FIRST_SERIAL, open_console);
    dev::register(TTY, 0..=0, |_, how| {
        Ok(how.finish(Arc::new(TtyFile::new(ControllingTty::find()?))))
    });
    Ok(())
}

/// The behaviour of the console line.
fn console_file() -> Arc<dyn File> {
    match console() {
        Some(tty) => Arc::new(TtyFile::new(tty)),
        None => Arc::new(StreamFile::new(&COM1)),
    }
}

fn open_console(_rdev: u64, how: How) -> Result<Arc<OpenFile>> {
    if how.flags & O_NOCTTY == 0
        && let Some(tty) = console()
        && Process::current().session.get().terminal().is_none()
    {
        // Only a session leader without a terminal gets one by opening it; for others this is no error.
        let _not_a_leader = tty.adopt(false);
    }
    Ok(OpenFile::console(console_file(), how, console().is_some()))
}

/// What the first process gets.
pub fn for_first_process() -> Console {
    Console {
        files: first_files(),
        terminal: console().map(|tty| tty as Arc<dyn Terminal>),
        drain,
    }
}

/// A description of the console under its name, if the tree of names has it.
fn on_console(flags: u32) -> Arc<OpenFile> {
    let cred = Cred::root();
    let place = place::root().and_then(|root| {
        let view = View {
            root: root.clone(),
            cred: &cred,
        };
        walk(&view, root, b"/dev/console", true).ok()?.place
    });
    OpenFile::at(console_file(), How { flags, place })
}

fn first_files() -> [Arc<OpenFile>; 3] {
    match MODE.get() {
        Some(Mode::Terminal(_)) => {
            let of = on_console(O_RDWR);
            [of.clone(), of.clone(), of]
        }
        _ => [
            on_console(O_RDONLY),
            on_console(O_WRONLY),
            OpenFile::new(Arc::new(StreamFile::new(&COM2)), O_WRONLY),
        ],
    }
}

/// Waits until everything written to the lines is out: before power goes off.
fn drain() {
    COM1.wait_drained();
    COM2.wait_drained();
}
