//! Calls without a trap frame, and where all others go: the table behind the dispatchers.
//!
//! *Interface*: [`init`] generates the code once, before the first thread of a program.
//!
//! The code is one for all threads: dispatchers jump here for all calls they do not handle; a thread's
//! initial dispatcher handles none. The call's number is the index in a table of code addresses. Some calls
//! have a function, which the thread room's stub calls ([`thread::frameless`]); a few have code that stands
//! here itself. All other calls that need no frame have one function in common, which calls their handlers;
//! the rest takes the slow path.
//!
//! Source: dissertation, 3.3.4 and 4.2 (procedures by index).

use abi::nr;
use codegen::harden::{self, hardening};
use codegen::{Class, Draft, Label, OutOfCode, dynasm};
use core::sync::atomic::{AtomicUsize, Ordering};
use quaject::UserAccess;
use thread::frameless::{FramedFn, FramelessFn, call_word, framed_call_word};

use super::file::{fcntl, open_frameless, stat, stat_fastpath};
use super::{epoll, ipc, memory, native, pipe, poll, process, time};
use ::process::futex::fastpath;
use ::process::{exit, generated_calls, generated_signal};
use file::Operation;
use file::routine_env::keep;

static CLASS: Class = Class::new("procedure");
static EXIT: Class = Class::new("slow exit");

/// Where each call goes, by its number. Written once, before the first thread of a program.
static WAYS: Ways = [const { AtomicUsize::new(0) }; COUNT];

/// The same for what generated code leaves to Rust: to [`super::call_without_frame`], or to the machine's
/// slow entry.
static EXITS: Ways = [const { AtomicUsize::new(0) }; COUNT];

type Ways = [AtomicUsize; COUNT];

/// More than the highest number of a call that has a way of its own: a power of two, so that a number is
/// masked by one instruction.
const COUNT: usize = (nr::CLONE3 + 1).next_power_of_two();

/// The way of a call.
#[derive(Clone, Copy)]
enum To {
    /// The code at this address.
    Code(usize),
    /// This function.
    Function(FramelessFn),
    /// The routine that the description behind the first argument has for this.
    Operation(Operation),
    /// The routine at this address, which keeps the contract of a descriptor routine.
    Routine(usize),
    /// This one, which needs all registers.
    Framed(FramedFn),
    /// The code that this emits, which leaves to the label, with the number in rax, to be made the slow way.
    Here(fn(&mut Draft, Label)),
    /// The same, which leaves to this function.
    First(fn(&mut Draft, Label), FramelessFn),
}

/// Generates the slow exit, which comes first.
#[inline(never)]
pub(crate) fn make_exit() -> core::result::Result<usize, OutOfCode> {
    for exit in &EXITS {
        exit.store(machine::trap::syscall_slow(), Ordering::Relaxed);
    }
    let call_without_frame = call_without_frame()?;
    for number in super::plain() {
        EXITS[number].store(call_without_frame, Ordering::Relaxed);
    }
    by_number(&EXIT, "slow exit", &EXITS)
}

/// Where call `number` goes when generated code leaves it to Rust, the number in rax.
fn exit(number: usize) -> usize {
    EXITS[number].load(Ordering::Relaxed)
}

/// Generates the code.
// On a frame of its own, and so is what emits: the calls are many.
#[inline(never)]
pub(crate) fn init(conv: UserAccess) -> core::result::Result<(), OutOfCode> {
    let by_path = stat_fastpath::make_stat(conv, stat::stat_frameless)?;
    let by_link = stat_fastpath::make_lstat(conv, stat::lstat_frameless)?;
    let from_there = stat_fastpath::make_newfstatat(conv, stat::newfstatat_frameless)?;
    let calls = [
        (nr::STAT, To::Routine(by_path)),
        (nr::FSTAT, To::Routine(stat_fastpath::make_far_fstat(conv)?)),
        (nr::LSTAT, To::Routine(by_link)),
        (
            nr::POLL,
            To::First(generated_calls::poll, poll::poll_frameless),
        ),
        (nr::RT_SIGACTION, To::Here(generated_calls::action)),
        (nr::RT_SIGPROCMASK, To::Here(generated_calls::mask)),
        (nr::RT_SIGRETURN, To::Here(generated_signal::sigreturn)),
        (nr::PREAD64, To::Operation(Operation::ReadAt)),
        (nr::PWRITE64, To::Operation(Operation::WriteAt)),
        (nr::READV, To::Operation(Operation::ReadSegment)),
        (nr::WRITEV, To::Operation(Operation::WriteSegment)),
        (nr::PIPE, To::Function(pipe::pipe_frameless)),
        (
            nr::SELECT,
            To::First(generated_calls::select, poll::select_frameless),
        ),
        (nr::MADVISE, To::Function(memory::madvise_frameless)),
        (nr::SENDTO, To::Operation(Operation::Send)),
        (nr::RECVFROM, To::Operation(Operation::Receive)),
        (nr::EXIT, To::Function(exit::exit_frameless)),
        (nr::KILL, To::Here(generated_signal::kill)),
        (nr::SEMOP, To::Function(ipc::semop_frameless)),
        (nr::CREAT, To::Function(open_frameless::creat)),
        (nr::FCNTL, To::Function(fcntl::fcntl_frameless)),
        (nr::FLOCK, To::Function(fcntl::flock_frameless)),
        (nr::UNLINK, To::Function(open_frameless::unlink)),
        (nr::FUTEX, To::Code(fastpath::entry())),
        (nr::SEMTIMEDOP, To::Function(ipc::semtimedop_frameless)),
        (
            nr::TIMER_SETTIME,
            To::Function(time::timer_settime_frameless),
        ),
        (
            nr::CLOCK_GETTIME,
            To::Function(time::clock_gettime_frameless),
        ),
        (nr::EPOLL_WAIT, To::Function(epoll::wait_frameless)),
        (nr::TGKILL, To::Here(generated_signal::tgkill)),
        (nr::NEWFSTATAT, To::Routine(from_there)),
        (nr::UNLINKAT, To::Function(open_frameless::unlinkat)),
        (
            nr::PSELECT6,
            To::First(generated_calls::pselect, poll::pselect6_frameless),
        ),
        (nr::SET_ROBUST_LIST, To::Here(generated_calls::robust_list)),
        (nr::EPOLL_PWAIT, To::Function(epoll::pwait_frameless)),
        (nr::PIPE2, To::Function(pipe::pipe2_frameless)),
        (nr::RSEQ, To::Here(generated_calls::sequences)),
        (nr::CLONE3, To::Framed(process::clone3_frameless)),
    ];
    let callentry = To::First(
        generated_calls::callentry,
        native::quajects::invoke_frameless,
    );
    thread::direct::link_invoke(way(abi::native::CALL, callentry)?);
    for (number, way) in WAYS.iter().enumerate() {
        way.store(exit(number), Ordering::Relaxed);
    }
    for (number, to) in calls {
        WAYS[number].store(way(number, to)?, Ordering::Relaxed);
    }
    thread::dispatch::link_rest(by_number(&CLASS, "rest", &WAYS)?);
    Ok(())
}

/// The code that makes any call of [`super::plain`], whose number is in rax.
#[inline(never)]
fn call_without_frame() -> core::result::Result<usize, OutOfCode> {
    let mut draft = Draft::new(&EXIT, "call without frame");
    let d = &mut draft;
    // As in `call_word`. The address's half is negative, so its sum takes one from the number's half.
    let function = super::call_without_frame as FramelessFn as *const () as i32;
    dynasm!(d ; .arch x64 ; inc eax ; shl rax, 32 ; add rax, function);
    d.jmp_abs(thread::frameless::entry());
    keep(draft)
}

/// The code that makes call `number` the way that `to` says.
#[inline(never)]
fn way(number: usize, to: To) -> core::result::Result<usize, OutOfCode> {
    let mut draft = Draft::new(&CLASS, "rest.way");
    let d = &mut draft;
    let slow = d.label();
    match to {
        To::Code(entry) => return Ok(entry),
        To::Function(function) => by_function(d, number, function),
        To::First(emit, function) => {
            emit(d, slow);
            d.bind(slow);
            by_function(d, number, function);
        }
        To::Framed(function) => {
            dynasm!(d ; .arch x64 ; mov rax, QWORD framed_call_word(number, function));
            d.jmp_abs(thread::frameless::framed_entry());
        }
        To::Operation(operation) => {
            generated_calls::operation(d, slow, operation);
            slowly(d, number, slow);
        }
        To::Routine(entry) => {
            d.call_abs(entry);
            thread::dispatch::way_out(d);
        }
        To::Here(emit) => {
            emit(d, slow);
            slowly(d, number, slow);
        }
    }
    keep(draft)
}

/// Generates the entry for all calls, each of which goes its way of `ways`.
fn by_number(
    class: &'static Class,
    name: &'static str,
    ways: &'static Ways,
) -> core::result::Result<usize, OutOfCode> {
    let mut draft = Draft::new(class, name);
    let d = &mut draft;
    let leave = d.label();
    // The image and what is static in it are within the reach of 32 bits.
    let ways = ways.as_ptr() as i32;
    dynasm!(d ; .arch x64 ; cmp eax, COUNT as i32 ; jae =>leave);
    if hardening().masks() {
        dynasm!(d ; .arch x64 ; and eax, COUNT as i32 - 1);
    } else {
        dynasm!(d ; .arch x64 ; mov eax, eax);
    }
    harden::jump(
        d,
        |d| dynasm!(d ; .arch x64 ; jmp QWORD [rax * 8 + ways]),
        |d| dynasm!(d ; .arch x64 ; push QWORD [rax * 8 + ways]),
    );
    d.bind(leave);
    d.jmp_abs(machine::trap::syscall_slow());
    keep(draft)
}

fn by_function(d: &mut Draft, number: usize, function: FramelessFn) {
    dynasm!(d ; .arch x64 ; mov rax, QWORD call_word(number, function));
    d.jmp_abs(thread::frameless::entry());
}

/// From `slow` on call `number` is left to Rust.
fn slowly(d: &mut Draft, number: usize, slow: Label) {
    dynasm!(d ; .arch x64 ; =>slow ; mov eax, number as i32);
    d.jmp_abs(exit(number));
}
