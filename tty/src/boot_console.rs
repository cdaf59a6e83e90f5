//! The console: its serial lines, how they are cooked, and what device numbers stand for them.
//!
//! *Interface*: [`start`] once, with the mode that the kernel's command line asks for; [`mount()`] when there
//! is a root; [`for_first_process`] for what the first process gets of it.

use abi::errno::{Errno, Result};
use abi::linux::{O_RDONLY, O_RDWR, O_WRONLY, Winsize, makedev};
use alloc::sync::Arc;
use device::Unusable;
use device::registry;
use device::serial::{self, Serial, Source};
use device::stream::Stream;
use device::virtio::console as ports;
use device::virtio::zero_copy::QueueDirection;
use quaject::class::Ref;
use quaject::queue::{ByteQueue, Parties};
use sync::Once;

use super::{
    ControllingTty, StreamFile, TtyFile, console, devpts, host_notices, pty, pty_master,
    start_console,
};
use abi::linux::O_NOCTTY;
use account::Cred;
use file::fs::walk::{WalkContext, walk};
use file::fs::{OpenRequest, VfsPath, dev, mount};
use file::{File, OpenFile};
use process::{Process, Terminal};
use vm::fallible::try_arc;

/// How the console line behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleMode {
    /// As a terminal of this size.
    Terminal(Winsize),
    /// As two byte streams, with a third for errors on the second line.
    Stream,
}

const TTY: u32 = 5;
const SERIAL: u32 = 4;
const FIRST_SERIAL: u32 = 64;

/// The line of the console, and the one beside it for errors and notices.
const CONSOLE_LINE: &str = "com1";
const SIDE_LINE: &str = "com2";

/// The ports of the virtio console that carry the first process's streams where a host connects them.
const PORTS: [(&str, QueueDirection); 3] = [
    ("stdin", QueueDirection::In),
    ("stdout", QueueDirection::Out),
    ("stderr", QueueDirection::Out),
];

/// The streams of the first process, where the console is no terminal.
struct Streams {
    input: &'static dyn Stream,
    /// Reads the input and writes the output.
    console: Arc<StreamFile>,
    errors: Arc<StreamFile>,
    /// Over ports.
    by_ports: bool,
}

static STREAMS: Once<Streams> = Once::new();

/// The lines as boot found them.
struct Lines {
    console: &'static Serial,
    /// None on a machine with one line.
    side: Option<&'static Serial>,
}

/// The first process's input, output and errors.
pub struct Console {
    /// Its first three descriptors.
    pub files: [Arc<OpenFile>; 3],
    /// The terminal that its session is to have.
    pub terminal: Option<Arc<dyn Terminal>>,
    /// Waits until everything written is out.
    pub drain: fn(),
}

/// Where notices from the host come in.
static NOTICES: Once<&'static Ref<ByteQueue>> = Once::new();

fn device_error(error: Unusable) -> Errno {
    match error {
        Unusable::Absent => Errno::ENXIO,
        Unusable::DeviceError(_) => Errno::EIO,
        Unusable::Resources => Errno::ENOMEM,
    }
}

/// Starts the serial lines that there are, and both their sources. A terminal's line is read by its pump,
/// and the line beside it by that of notices; any threads may read a stream.
fn start_lines(mode: ConsoleMode) -> core::result::Result<(), Unusable> {
    for line in serial::LINES {
        let readers = match mode {
            ConsoleMode::Stream => Parties::Many,
            ConsoleMode::Terminal(_) => Parties::One,
        };
        match device::start_line(line, readers) {
            Err(Unusable::Absent) => continue,
            started => started?,
        }
        line.enable(Source::Receive)?;
        line.enable(Source::Transmit)?;
    }
    Ok(())
}

/// The streams that the host has connected to ports, if it has connected all. EIO, ENOMEM.
fn open_ports() -> Result<Option<[&'static dyn Stream; 3]>> {
    let found = PORTS.map(|(name, _)| registry::port(name));
    let [Some(input), Some(output), Some(errors)] = found else {
        return Ok(None);
    };
    let all = [input, output, errors];
    for (port, (_, way)) in all.into_iter().zip(PORTS) {
        ports::open(port, way).map_err(device_error)?;
    }
    Ok(Some(all.map(|port| port as &dyn Stream)))
}

/// Opens the streams: ports where they are, else the lines.
#[inline(never)]
fn start_streams(lines: &Lines) -> Result<()> {
    let by_ports = open_ports()?;
    let [input, output, errors] = by_ports.unwrap_or([
        lines.console,
        lines.console,
        lines.side.unwrap_or(lines.console),
    ]);
    let _again = STREAMS.set(Streams {
        input,
        console: try_arc(StreamFile::new(input, output)?)?,
        errors: try_arc(StreamFile::new(errors, errors)?)?,
        by_ports: by_ports.is_some(),
    });
    if by_ports.is_some() {
        super::start_pump(b"ports", |_| follow_ports())?;
    }
    Ok(())
}

/// Follows the host's changes of the ports that are in use, until it takes all away.
fn follow_ports() {
    let (Some(changes), Some(streams)) = (ports::changes(), STREAMS.get()) else {
        return;
    };
    while !ports::is_gone() {
        changes.wait_until(|| {
            thread::safe_point();
            ports::pending().then_some(())
        });
        ports::attend();
        streams.console.follow();
        streams.errors.follow();
    }
    // It may have gone while the others were followed.
    streams.console.follow();
    streams.errors.follow();
}

/// Whether the first process's streams go over ports: then its input is expected there.
pub fn streams_by_ports() -> bool {
    STREAMS.get().is_some_and(|streams| streams.by_ports)
}

/// Starts the lines and their pumps, and registers `/dev/console`, `/dev/tty` and `/dev/ttyS0`. ENXIO without
/// a console line, ENOMEM.
// On a frame of its own: one step of bringing up is not to lie above the next on the stack.
#[inline(never)]
pub fn start(mode: ConsoleMode) -> Result<()> {
    start_lines(mode).map_err(device_error)?;
    let lines = Lines {
        console: registry::serial(CONSOLE_LINE).ok_or(Errno::ENXIO)?,
        side: registry::serial(SIDE_LINE),
    };
    match mode {
        ConsoleMode::Terminal(size) => {
            start_console(lines.console, makedev(SERIAL, FIRST_SERIAL), size)?;
        }
        ConsoleMode::Stream => start_streams(&lines)?,
    }
    let notices = lines.side.map(host_notices::open).transpose()?;
    if let Some(notices) = notices {
        let _again = NOTICES.set(notices);
        super::start_pump(b"notices", |_| {
            if let Some(side) = NOTICES.get() {
                host_notices::pump(side, STREAMS.get().map(|streams| streams.input));
            }
        })?;
    }
    dev::register(TTY, 1..=1, open_console);
    dev::register(SERIAL, FIRST_SERIAL..=FIRST_SERIAL, open_console);
    dev::register(TTY, 0..=0, |_, how| {
        TtyFile::open(&ControllingTty::find()?, how, false)
    });
    let (major, minor) = super::PTMX;
    dev::register(major, minor..=minor, |_, how| pty_master::open(how));
    dev::register(pty::MAJOR, 0..=pty::MOST as u32 - 1, devpts::open_by_number);
    Ok(())
}

/// Mounts the names of pseudo-terminals at `/dev/pts`, below `root`.
pub fn mount(root: &VfsPath) -> Result<()> {
    let cred = Cred::root();
    let view = WalkContext::new(root.clone(), &cred, 0);
    let at = walk(&view, root.clone(), b"/dev/pts", true)?.place;
    let fs = devpts::file_system();
    let top = fs.root();
    let at = at.ok_or(Errno::ENOENT)?;
    mount::mount(fs, top, Some(at), "devpts".into(), 0).map(drop)
}

/// The behaviour of the console line. ENXIO before [`start`].
fn console_file() -> Result<Arc<dyn File>> {
    Ok(match console() {
        Some(tty) => Arc::new(TtyFile::new(tty)),
        None => STREAMS.get().ok_or(Errno::ENXIO)?.console.clone(),
    })
}

fn open_console(_rdev: u64, how: OpenRequest) -> Result<Arc<OpenFile>> {
    if how.flags & O_NOCTTY == 0
        && let Some(tty) = console()
        && Process::current().session.get().terminal().is_none()
    {
        // Only a session leader without a terminal gets one by opening it; for others this is no error.
        let _not_a_leader = tty.adopt(false);
    }
    Ok(OpenFile::console(console_file()?, how, console().is_some()))
}

/// The console of the first process. ENXIO before [`start`].
pub fn for_first_process() -> Result<Console> {
    Ok(Console {
        files: first_files()?,
        terminal: console().map(|tty| tty as Arc<dyn Terminal>),
        drain,
    })
}

/// A description of the console under its name, if the tree of names has it.
fn on_console(flags: u32) -> Result<Arc<OpenFile>> {
    let cred = Cred::root();
    let place = mount::root().and_then(|root| {
        let view = WalkContext::new(root.clone(), &cred, 0);
        walk(&view, root, b"/dev/console", true).ok()?.place
    });
    Ok(OpenFile::at(console_file()?, OpenRequest { flags, place }))
}

fn first_files() -> Result<[Arc<OpenFile>; 3]> {
    let Some(streams) = STREAMS.get() else {
        let of = on_console(O_RDWR)?;
        return Ok([of.clone(), of.clone(), of]);
    };
    Ok([
        on_console(O_RDONLY)?,
        on_console(O_WRONLY)?,
        OpenFile::new(streams.errors.clone(), O_WRONLY),
    ])
}

/// Waits until everything written to the lines is out: before power goes off.
fn drain() {
    registry::for_each(|_, device| {
        if let Some(stream) = device.stream() {
            stream.wait_drained();
        }
    });
}
