//! The calls by number: one table, put together at compile time from one list a family.
//!
//! *Interface*: [`init`] once at boot; [`dispatch`] answers a call; [`Args`] is what a handler sees,
//! [`Handler`] what it is. A family (a file beside this one) exports `CALLS: &[(usize, Handler)]` and is
//! named in [`FAMILIES`]. A number without a handler answers ENOSYS and is counted by number
//! ([`texts::unknown`]). Handlers run in process context with interrupts on and may sleep; an interrupted one
//! returns one of the `ERESTART…` values and `signal` decides between a restart and EINTR.
//!
//! Source: dissertation, section 4.2 (the UNIX emulator as a table of kernel calls); the fast calls
//! never get here, they end in the thread's own dispatcher.

pub mod file;

pub mod adjust;
pub mod capability;
pub mod epoll;
pub mod event;
pub mod futex;
pub mod ipc;
pub mod log;
pub mod memory;
pub mod misc;
pub mod mqueue;
pub mod native;
pub(crate) mod outright;
pub mod pipe;
pub mod poll;
pub mod prctl;
pub mod process;
pub mod ptrace;
pub mod remote;
pub mod rseq;
pub mod schedule;
pub mod signal;
pub mod socket;
pub mod speculation;
pub mod time;
mod zone;

use abi::errno::{Errno, Result};
use abi::nr;
use machine::trap::TrapFrame;

use ::file::seam;
use ::process::Task;
use ::process::futex::short;
use ::process::memory::admission;
use codegen::OutOfCode;
use texts::unknown;

/// One call under way: its number and its arguments as the user gave them.
pub struct Args<'a> {
    /// The number, from rax.
    pub nr: usize,
    /// The arguments: rdi, rsi, rdx, r10, r8, r9.
    pub arg: [usize; 6],
    /// The user's registers. A call that replaces them (`execve`, `rt_sigreturn`) changes the vector, too.
    pub frame: &'a mut TrapFrame,
}

impl<'a> Args<'a> {
    /// The call that `frame` describes.
    pub fn new(frame: &'a mut TrapFrame) -> Args<'a> {
        let words = [
            frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9,
        ];
        Args {
            nr: frame.error as usize,
            arg: words.map(|word| word as usize),
            frame,
        }
    }

    /// Argument `i` as a C `int` (the upper half is ignored, as by Linux).
    pub fn int(&self, i: usize) -> i32 {
        self.arg[i] as i32
    }

    /// Argument `i` as a C `unsigned int`.
    pub fn uint(&self, i: usize) -> u32 {
        self.arg[i] as u32
    }

    /// Argument `i` as a C `long`.
    pub fn long(&self, i: usize) -> i64 {
        self.arg[i] as i64
    }

    /// Argument `i` as a size in bytes, or an unchecked user address.
    pub fn word(&self, i: usize) -> usize {
        self.arg[i]
    }
}

/// Generates the procedures that answer calls without a trap frame. Once, after [`seam::init`], before the
/// first thread of a program. ENOMEM without room for code.
// On a frame of its own: one step of bringing up is not to lie above the next on the stack.
#[inline(never)]
pub fn init() -> Result<()> {
    let conv = seam::get()?.conv();
    let made = file::hot::init(conv)
        .and_then(|()| short::init())
        .and_then(|()| ::process::signal::writer::init())
        .and_then(|()| outright::init(conv));
    made.map_err(|OutOfCode| Errno::ENOMEM)
}

/// Answers one call: a value for rax, or an error number.
pub type Handler = fn(&mut Args) -> Result<usize>;

/// The lists that make up the table. A number may occur once.
const FAMILIES: &[&[(usize, Handler)]] = &[
    file::attr::CALLS,
    file::control::CALLS,
    file::dirents::CALLS,
    file::handle::CALLS,
    file::io::CALLS,
    file::mount::CALLS,
    file::names::CALLS,
    file::open::CALLS,
    file::splice::CALLS,
    file::stat::CALLS,
    file::xattr::CALLS,
    adjust::CALLS,
    capability::CALLS,
    epoll::CALLS,
    event::CALLS,
    futex::CALLS,
    ipc::CALLS,
    memory::CALLS,
    log::CALLS,
    misc::CALLS,
    mqueue::CALLS,
    pipe::CALLS,
    poll::CALLS,
    prctl::CALLS,
    process::CALLS,
    ptrace::CALLS,
    remote::CALLS,
    rseq::CALLS,
    schedule::CALLS,
    signal::CALLS,
    socket::CALLS,
    time::CALLS,
];

static TABLE: [Option<Handler>; nr::COUNT] = {
    let mut table = [None; nr::COUNT];
    let mut family = 0;
    while family < FAMILIES.len() {
        let calls = FAMILIES[family];
        let mut i = 0;
        while i < calls.len() {
            let (number, handler) = calls[i];
            let slot: &mut Option<Handler> = &mut table[number];
            assert!(slot.is_none(), "two handlers for one call");
            *slot = Some(handler);
            i += 1;
        }
        family += 1;
    }
    table
};

/// Answers the call in `args`. ENOSYS, counted, when it has no handler; ENOMEM when memory is short and the
/// call is not one that needs none.
pub fn dispatch(args: &mut Args) -> Result<usize> {
    if !vm::frame::admits(admission::ROOM) {
        admission::admit(args.nr)?;
    }
    match TABLE.get(args.nr) {
        Some(Some(handler)) => handler(args),
        Some(None) => {
            if unknown::count(args.nr) {
                tell_of(args.nr);
            }
            Err(Errno::ENOSYS)
        }
        None if args.nr == abi::native::CALL => native::dispatch(args),
        None if native::is_cached(args.nr) => native::by_own_number(args),
        None => Err(Errno::ENOSYS),
    }
}

/// Names a call without a handler in the log, and the program that tried it first.
#[cold]
fn tell_of(number: usize) {
    let name = nr::name(number);
    Task::here(|task| {
        let program = task.process.program();
        let comm = program.comm.escape_debug();
        machine::log!("{comm} wants the call {name}, which is not there");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_calls_are_counted_by_number() {
        for number in [335, 335, 335, usize::MAX] {
            let mut frame = TrapFrame {
                error: number as u64,
                ..TrapFrame::default()
            };
            assert_eq!(dispatch(&mut Args::new(&mut frame)), Err(Errno::ENOSYS));
        }
        assert!(unknown::each().any(|entry| entry == (335, 3)));
    }
}
