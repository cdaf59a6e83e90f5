//! The boot thread: the part of boot that may sleep. It makes the console, the root file system and the
//! first program.
//!
//! *Interface*: [`spawn`]; [`root_fits`] before there is an allocator; [`needed`] for what cannot be done
//! without: the machine ends with a report that names it.

use abi::errno::{Errno, Result};
use abi::layout::{PAGE, memory_for_root};
use abi::linux::Winsize;
use machine::boot::{BootInfo, MemoryRegion};
use machine::{boot, cpu, log};
use sync::Once;
use tty::ConsoleMode;

use crate::Suites;

/// Starts the thread.
pub fn spawn(suites: &'static Suites) {
    // Set once: only the boot processor comes here.
    let _first = SUITES.set(suites);
    needed(thread::spawn(b"boot", run, 0), "memory for the boot thread");
}

static SUITES: Once<&Suites> = Once::new();

/// The value in `result`; without it the machine ends with a report.
pub fn needed<T, E>(result: core::result::Result<T, E>, what: &str) -> T {
    match result {
        Ok(value) => value,
        Err(_) => panic!("the kernel cannot start: no {what}"),
    }
}

fn run(_: usize) {
    if let Some(suites) = SUITES.get() {
        (suites.threaded)();
    }
    if let Err(error) = bring_up() {
        panic!("the first program cannot be started: {error}");
    }
    crate::provoke::run_if_asked();
}

fn bring_up() -> Result<()> {
    let info = boot::info();
    let mut archive = Archive::of(&info);
    if vm::frame::stats().free * PAGE < LEAST {
        does_not_fit(archive.left.len);
    }
    let slow = linux::call::slow_exit()?; // where generated code leaves a call to Rust
    file::routine_env::init(cpu::cpus(), slow)?; // what descriptor routines are generated against
    linux::call::init()?; // and calls without a trap frame
    device::callouts::link(&CALLOUTS); // what handlers leave for the end of an interrupt, or for later
    thread::cpu_time_sampling::watch_with(device::interrupt_storm::watch); // and how often they are called
    device::start(); // what is on the bus
    follow_devices()?; // and what comes and goes there
    tty::start(console_mode(info.cmdline))?; // serial lines and terminal
    sound::init()?; // those that play and record
    let root = match linux::rootfs::init(info.initrd, &mut |part| archive.done_with(part)) {
        Err(Errno::ENOSPC | Errno::ENOMEM) => does_not_fit(archive.left.len),
        root => root?, // names and files
    };
    tty::mount(&root)?; // and terminals' names
    file::p9::mount_all(&root); // and directories of the host
    if let Some(suites) = SUITES.get() {
        (suites.with_files)(); // and a file system of the trials
    }
    archive.release_below(usize::MAX);
    file::tmpfs::limit(); // what they may grow to
    let frames = vm::frame::stats();
    log!("up: {} processors, {frames:?}", cpu::cpus());
    linux::init::start(root, tty::for_first_process()?) // and go
}

/// The thread of devices, where any may change.
fn follow_devices() -> Result<()> {
    if !device::may_change() {
        return Ok(());
    }
    let follow = |_| loop {
        device::changes().wait_until(|| {
            thread::safe_point();
            device::pending().then_some(())
        });
        device::attend();
    };
    (thread::spawn(b"devices", follow, 0).map(drop)).map_err(|_| Errno::ENOMEM)
}

static CALLOUTS: device::callouts::Callouts = device::callouts::Callouts {
    chain: |procedure, argument| thread::chain::chain(procedure, argument).is_ok(),
    alarm: |at_ns, procedure, argument| thread::clock::alarm(at_ns, procedure, argument).is_ok(),
};

/// The root archive, whose memory goes to the allocator piece by piece while its files are made: all but the
/// symbol table at its head, which the panic report reads.
struct Archive {
    bytes: &'static [u8],
    phys: usize,
    /// The part that has not gone yet.
    left: MemoryRegion,
}

impl Archive {
    fn of(info: &BootInfo) -> Archive {
        Archive {
            bytes: info.initrd,
            phys: info.initrd_phys,
            left: boot::release_initrd(machine::symbols::bytes()),
        }
    }

    /// Nobody will read `part`, nor what is before it, any more.
    fn done_with(&mut self, part: &'static [u8]) {
        let passed = part
            .as_ptr_range()
            .end
            .addr()
            .saturating_sub(self.bytes.as_ptr().addr());
        self.release_below((self.phys + passed.min(self.bytes.len())) & !(PAGE - 1));
    }

    fn release_below(&mut self, end: usize) {
        let (start, end) = (self.left.start, end.min(self.left.end()));
        if end > start {
            self.left.start = end;
            self.left.len -= end - start;
            // SAFETY: the archive was the boot loader's, nobody reads this part any more, the allocator knows
            // of its frames, and `left` begins behind it now.
            unsafe { vm::frame::add_late(start..end) };
        }
    }
}

/// Ends the machine with a line that says what would do, when the root archive leaves no memory to begin
/// with. There need be no heap yet.
pub fn root_fits() {
    let info = boot::info();
    let free: usize = info.regions.iter().map(|region| region.len).sum();
    if free < LEAST {
        does_not_fit(info.initrd.len());
    }
}

/// `left` bytes of the archive are neither files nor free memory yet.
fn does_not_fit(left: usize) -> ! {
    let info = boot::info();
    let usable = (info.memory.iter()).filter(|region| region.kind == boot::MemoryKind::Usable);
    let has: usize = usable.map(|region| region.len).sum();
    let archive = info.initrd.len();
    let enough = memory_for_root(archive).max(has + left);
    log!(
        "the root archive of {} MiB does not fit into {} MiB of memory: {} MiB would do",
        archive.div_ceil(MIB),
        has / MIB,
        enough.div_ceil(MIB),
    );
    machine::power::report("exit 125");
    machine::power::off()
}

const MIB: usize = 1 << 20;
/// The memory that must be free beside the archive before anything begins.
const LEAST: usize = 3 * MIB;

/// The words of the command line that docs/run-contract.md names.
fn console_mode(line: &str) -> ConsoleMode {
    let value = |key: &str| {
        line.split_ascii_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    };
    let number = |key, default| value(key).and_then(|n| n.parse().ok()).unwrap_or(default);
    match value("console") {
        Some("stream") => ConsoleMode::Stream,
        _ => ConsoleMode::Terminal(Winsize {
            row: number("rows", 24),
            col: number("cols", 80),
            ..Winsize::default()
        }),
    }
}
