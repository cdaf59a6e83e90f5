//! The calls by number: one table, put together at compile time from one list a family.
//!
//! *Interface*: [`slow_exit`] and [`init`] once at boot; [`dispatch`] answers a call; [`Args`] is what a
//! handler sees, [`Handler`] what it is. A family (a file beside this one) exports `CALLS: &[(usize,
//! Handler)]` and is named in [`FAMILIES`]; calls that need the user's registers are in its `FRAMED`. A call
//! that does not is made without a trap frame, by [`call_without_frame`]. A number without a handler answers
//! ENOSYS and is counted by number ([`procfs::nosys`]). Handlers run in process context with interrupts on
//! and may sleep; an interrupted one returns one of the `ERESTART…` values and `signal` decides between a
//! restart and EINTR.
//!
//! Source: dissertation, section 4.2 (the UNIX emulator as a table of kernel calls); the fast calls
//! never get here, they end in the thread's own dispatcher.

pub mod file;

pub mod adjtimex;
pub mod capability;
pub mod epoll;
pub mod event;
pub(crate) mod frameless;
pub mod futex;
pub mod ipc;
pub mod memory;
pub mod misc;
pub mod mqueue;
pub mod native;
pub mod pipe;
pub mod poll;
pub mod prctl;
pub mod process;
pub mod process_vm;
pub mod ptrace;
pub mod rseq;
pub mod sched;
pub mod signal;
pub mod socket;
pub mod speculation;
pub mod syslog;
pub mod time;
mod timezone;

use abi::errno::{Errno, Result};
use abi::nr;
use machine::irqs_off::IrqsOff;
use machine::trap::TrapFrame;

use ::file::routine_env;
use ::process::Task;
use ::process::futex::fastpath;
use ::process::memory::admission;
use codegen::OutOfCode;
use procfs::nosys;

/// One call under way: its number and its arguments as the user gave them.
pub struct Args {
    /// The number, from rax.
    pub nr: usize,
    /// The arguments: rdi, rsi, rdx, r10, r8, r9.
    pub arg: [usize; 6],
}

impl Args {
    /// The call that `frame` describes.
    pub fn new(frame: &TrapFrame) -> Args {
        let words = [
            frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9,
        ];
        Args {
            nr: frame.error as usize,
            arg: words.map(|word| word as usize),
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

/// The slow exit of descriptor routines: entered as the machine's slow entry is, it makes the call by
/// [`call_without_frame`] where that may be. Once, before [`routine_env::init`]. ENOMEM without room for
/// code.
#[inline(never)]
pub fn slow_exit() -> Result<usize> {
    frameless::make_exit().map_err(|OutOfCode| Errno::ENOMEM)
}

/// Generates the procedures that answer calls without a trap frame. Once, after [`routine_env::init`], before
/// the first thread of a program. ENOMEM without room for code.
// On a frame of its own: one step of bringing up is not to lie above the next on the stack.
#[inline(never)]
pub fn init() -> Result<()> {
    let (conv, slow) = (routine_env::get()?.conv(), routine_env::get()?.slow());
    let made = file::open_fastpath::init(conv, slow)
        .and_then(|()| fastpath::init())
        .and_then(|()| ::process::sigframe::writer::init())
        .and_then(|()| frameless::init(conv));
    made.map_err(|OutOfCode| Errno::ENOMEM)
}

/// Answers one call: a value for rax, or an error number.
pub type Handler = fn(&mut Args) -> Result<usize>;

/// The same for a call that needs the user's registers. One that replaces them (`execve`, `rt_sigreturn`)
/// changes the vector, too.
pub type Framed = fn(&mut Args, &mut TrapFrame) -> Result<usize>;

/// How a call is answered.
#[derive(Clone, Copy)]
enum Answer {
    Absent,
    By(Handler),
    Framed(Framed),
}

/// The lists that make up the table. A number may occur once.
const FAMILIES: &[&[(usize, Handler)]] = &[
    file::attr::CALLS,
    file::fcntl::CALLS,
    file::dirents::CALLS,
    file::handle::CALLS,
    file::io::CALLS,
    file::mount::CALLS,
    file::namei::CALLS,
    file::open::CALLS,
    file::splice::CALLS,
    file::stat::CALLS,
    file::xattr::CALLS,
    adjtimex::CALLS,
    capability::CALLS,
    epoll::CALLS,
    event::CALLS,
    futex::CALLS,
    ipc::CALLS,
    memory::CALLS,
    syslog::CALLS,
    misc::CALLS,
    mqueue::CALLS,
    pipe::CALLS,
    poll::CALLS,
    prctl::CALLS,
    process::CALLS,
    ptrace::CALLS,
    process_vm::CALLS,
    rseq::CALLS,
    sched::CALLS,
    signal::CALLS,
    socket::CALLS,
    time::CALLS,
];

/// The lists of calls that need the user's registers.
const FRAMED: &[&[(usize, Framed)]] = &[process::FRAMED, signal::FRAMED];

static TABLE: [Answer; nr::COUNT] = {
    let mut table = [Answer::Absent; nr::COUNT];
    let mut family = 0;
    while family < FAMILIES.len() {
        let calls = FAMILIES[family];
        let mut i = 0;
        while i < calls.len() {
            let (number, handler) = calls[i];
            put(&mut table[number], Answer::By(handler));
            i += 1;
        }
        family += 1;
    }
    let mut family = 0;
    while family < FRAMED.len() {
        let calls = FRAMED[family];
        let mut i = 0;
        while i < calls.len() {
            let (number, handler) = calls[i];
            put(&mut table[number], Answer::Framed(handler));
            i += 1;
        }
        family += 1;
    }
    table
};

const fn put(slot: &mut Answer, answer: Answer) {
    assert!(matches!(slot, Answer::Absent), "two handlers for one call");
    *slot = answer;
}

/// Answers the call in `args`, whose user's registers are in `frame`. ENOSYS, counted, when it has no
/// handler; ENOMEM when memory is short and the call is not one that needs none.
pub fn dispatch(args: &mut Args, frame: &mut TrapFrame) -> Result<usize> {
    admit(args.nr)?;
    match TABLE.get(args.nr) {
        Some(Answer::By(handler)) => handler(args),
        Some(Answer::Framed(handler)) => handler(args, frame),
        Some(Answer::Absent) => {
            if nosys::count(args.nr) {
                tell_of(args.nr);
            }
            Err(Errno::ENOSYS)
        }
        None if args.nr == abi::native::CALL => native::dispatch(args, frame),
        None if native::is_cached(args.nr) => native::by_own_number(args, frame),
        None => Err(Errno::ENOSYS),
    }
}

#[inline]
fn admit(number: usize) -> Result<()> {
    if !vm::frame::admits(admission::ROOM) {
        admission::admit(number)?;
    }
    Ok(())
}

/// Calls without need of the user's registers that are nevertheless made with a trap frame: those that
/// may wait for a time. An interrupted call starts again with a frame (`thread::frameless`), and would
/// wait again for all of it; and those that replace the signal mask while they wait.
const WAITING: &[usize] = &[
    nr::CLOCK_NANOSLEEP,
    nr::CONNECT,
    nr::EPOLL_PWAIT2,
    nr::FUTEX_WAITV,
    nr::MQ_TIMEDRECEIVE,
    nr::MQ_TIMEDSEND,
    nr::NANOSLEEP,
    nr::PAUSE,
    nr::PPOLL,
    nr::RECVMMSG,
    nr::RESTART_SYSCALL,
    nr::RT_SIGSUSPEND,
];

/// The numbers of the calls that [`call_without_frame`] answers.
pub(crate) fn plain() -> impl Iterator<Item = usize> {
    let is_plain = |(number, answer): (usize, &Answer)| {
        (matches!(answer, Answer::By(_)) && !WAITING.contains(&number)).then_some(number)
    };
    TABLE.iter().enumerate().filter_map(is_plain)
}

/// Answers a call by its handler, without a trap frame: what `linux::trap` does for the others.
pub(crate) extern "sysv64" fn call_without_frame(
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
    mut off: IrqsOff,
) -> isize {
    let mut args = Args {
        nr: thread::frameless::number(),
        arg: [first, second, third, fourth, fifth, sixth],
    };
    thread::frameless::call_handler(&mut off, || {
        Task::here(|task| ::process::dispatch::settle(task, args.nr));
        admit(args.nr)?;
        match TABLE.get(args.nr) {
            Some(Answer::By(handler)) => handler(&mut args),
            _ => Err(Errno::ENOSYS),
        }
    })
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
            let mut args = Args::new(&frame);
            assert_eq!(dispatch(&mut args, &mut frame), Err(Errno::ENOSYS));
        }
        assert!(nosys::each().any(|entry| entry == (335, 3)));
    }
}
