//! The fast path of `stat`, `lstat`, `fstat` and `newfstatat`: generated code copies what an inode
//! publishes to the program.
//!
//! *Interface*: [`make_fstat`] is the routine that dispatchers call with what is in the descriptor's slot;
//! [`make_stat`], [`make_lstat`], [`make_newfstatat`] and [`make_far_fstat`] are for what dispatchers do not
//! answer themselves. All keep the contract of a descriptor routine (docs/architecture.md).
//!
//! Each is a generated stub. Those that are given a path copy its head and call a short Rust function, which
//! goes from entry to entry ([`file::fs::lockfree_walk`]) and returns what the inode shows
//! ([`file::fs::published`]), that there is none (ENOENT), [`LONGER`] (the path is longer than the head that
//! was copied) or [`SLOW_PATH`]. Interrupts are off until all is copied, so the inode stays; a change of it
//! meanwhile, on another processor, is seen by its version. All other cases are done from their start: by the
//! function that is named when a stub is made, or on the slow path.
//!
//! Source: dissertation, 7.3.1 (what `open` costs) and section 3.2.1 (what is known is a constant).
//!
//! *Unsafe*: descriptions in the running thread's table that stay while interrupts are off.

use abi::errno::Errno;
use abi::linux::{AT_EMPTY_PATH, AT_FDCWD, AT_NO_AUTOMOUNT, AT_SYMLINK_NOFOLLOW};
use abi::nr;
use alloc::sync::Arc;
use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Label, OutOfCode, dynasm};
use file::fs::file::SHOWN;
use file::fs::lockfree_walk::{self, PaddedPath, WalkResult};
use file::fs::path_cache::PathKey;
use file::fs::published::{CONSTANT, COPIED, FOUND, Published, TOUCHED, VERSION};
use file::routine_env::keep;
use machine::irqs_off::IrqsOff;
use process::Task;
use quaject::UserAccess;
use thread::frameless::{FramelessFn, call_word};

use super::stub::{ROOM, copy_key, restore, save};

static CLASS: Class = Class::new("procedure");

/// The result of the functions when the call is to be made on the slow path.
const SLOW_PATH: isize = 0;
/// The result when the path is longer than the copied head: it is no error number of a call.
const LONGER: isize = -4095;

const NOFOLLOW: u32 = AT_SYMLINK_NOFOLLOW as u32;
const EMPTY: u32 = AT_EMPTY_PATH as u32;

/// Copies what is shown at rcx to the program's rax; changes rax, rdx and rdi. The code leaves to `out` when
/// nothing is to be copied, and to `fault` after a fault, user access open.
fn copy(d: &mut Draft, conv: UserAccess, out: Label, fault: Label) {
    clamp(d, Reg::Rax);
    dynasm!(d ; .arch x64
        ; mov edi, [rcx + VERSION as i32]
        ; test edi, 1
        ; jnz =>out
        ; mov rdx, [rcx + TOUCHED as i32]
        ; cmp DWORD [rdx], 0
        ; jne =>out
    );
    if conv == UserAccess::Kernel {
        dynasm!(d ; .arch x64 ; stac);
    }
    d.fault_begin();
    for (from, to) in COPIED {
        dynasm!(d ; .arch x64 ; mov rdx, [rcx + from as i32] ; mov [rax + to as i32], rdx);
    }
    for (from, to) in FOUND {
        dynasm!(d ; .arch x64
            ; mov rdx, [rcx + from as i32]
            ; mov rdx, [rdx]
            ; mov [rax + to as i32], rdx
        );
    }
    for (to, value) in CONSTANT {
        dynasm!(d ; .arch x64 ; mov QWORD [rax + to as i32], value);
    }
    d.fault_end(fault);
    if conv == UserAccess::Kernel {
        dynasm!(d ; .arch x64 ; clac);
    }
    dynasm!(d ; .arch x64 ; cmp edi, [rcx + VERSION as i32] ; jne =>out);
}

/// Behind a fault while user access is open.
fn shut(d: &mut Draft, conv: UserAccess, fault: Label) {
    d.bind(fault);
    if conv == UserAccess::Kernel {
        dynasm!(d ; .arch x64 ; clac);
    }
}

/// `fstat` of what is in a descriptor's slot, which is in rax.
pub(super) fn make_fstat(slow: usize, conv: UserAccess) -> Result<usize, OutOfCode> {
    let mut draft = Draft::new(&CLASS, "fstat");
    let d = &mut draft;
    let [leave, out, fault] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        // Without the flag in its lowest bit.
        ; and rax, -2
        ; jz =>leave
        ; test rsi, rsi
        ; js =>leave
        ; push rcx
        ; push rdx
        ; push rdi
        ; mov rcx, [rax + SHOWN as i32]
        ; test rcx, rcx
        ; jz =>out
        ; mov rax, rsi
    );
    copy(d, conv, out, fault);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rdx ; pop rcx ; xor eax, eax ; ret);
    shut(d, conv, fault);
    dynasm!(d ; .arch x64
        ; =>out
        ; pop rdi
        ; pop rdx
        ; pop rcx
        ; =>leave
        ; mov eax, nr::FSTAT as i32
    );
    d.jmp_abs(slow);
    keep(draft)
}

/// Where a stub finds its arguments.
enum Arguments {
    /// The path, and where to put what is said.
    Path,
    /// A directory, a path from there, where to put it, and flags.
    At,
    /// A descriptor, and where to put it.
    Descriptor,
}

/// The saved registers rsi and rdx, above the key.
const SAVED_RSI: i32 = ROOM + 40;
const SAVED_RDX: i32 = ROOM + 48;

/// A stub of call `number` around `function`. A path that the function does not know goes the slow way; a
/// path whose answer is not to be copied, or a long one, goes to `elsewhere`.
fn make(
    (name, number): (&'static str, usize),
    conv: UserAccess,
    arguments: Arguments,
    function: usize,
    elsewhere: impl FnOnce(&mut Draft),
) -> Result<usize, OutOfCode> {
    let mut draft = Draft::new(&CLASS, name);
    let d = &mut draft;
    let [leave, out, fault, refused, unknown] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64 ; test rsi, rsi ; js =>leave);
    match arguments {
        Arguments::Path => dynasm!(d ; .arch x64 ; test rdi, rdi ; js =>leave),
        Arguments::At => dynasm!(d ; .arch x64 ; test rdx, rdx ; js =>leave),
        Arguments::Descriptor => {}
    }
    save(d);
    dynasm!(d ; .arch x64 ; sub rsp, ROOM);
    let to = match arguments {
        Arguments::Path => {
            copy_key(d, conv, fault);
            dynasm!(d ; .arch x64 ; mov rdi, rsp);
            SAVED_RSI
        }
        Arguments::At => {
            dynasm!(d ; .arch x64 ; mov r8d, edi ; mov rdi, rsi);
            copy_key(d, conv, fault);
            dynasm!(d ; .arch x64 ; mov rdi, rsp ; mov esi, r8d ; mov edx, r10d);
            SAVED_RDX
        }
        Arguments::Descriptor => SAVED_RSI,
    };
    d.call_abs(function);
    dynasm!(d ; .arch x64
        ; test rax, rax
        ; jz =>unknown
        // Else an address in the kernel.
        ; cmp rax, -4096
        ; ja =>refused
        ; mov rcx, rax
        ; mov rax, [rsp + to]
    );
    copy(d, conv, out, fault);
    let done = d.label();
    dynasm!(d ; .arch x64 ; xor eax, eax ; =>done ; add rsp, ROOM);
    restore(d);
    dynasm!(d ; .arch x64
        ; ret
        ; =>refused
        ; cmp rax, LONGER as i32
        ; jne =>done
        ; jmp =>out
        ; =>unknown
        ; add rsp, ROOM
    );
    restore(d);
    dynasm!(d ; .arch x64 ; mov eax, number as i32);
    d.jmp_abs(machine::trap::syscall_slow());
    shut(d, conv, fault);
    dynasm!(d ; .arch x64 ; =>out ; add rsp, ROOM);
    restore(d);
    d.bind(leave);
    elsewhere(d);
    keep(draft)
}

/// Leads to `function`, which makes call `number` without a trap frame.
fn frameless(number: usize, function: FramelessFn) -> impl FnOnce(&mut Draft) {
    move |d| {
        dynasm!(d ; .arch x64 ; mov rax, QWORD call_word(number, function));
        d.jmp_abs(thread::frameless::entry());
    }
}

/// `stat`; `function` makes it of what is left.
pub(in crate::call) fn make_stat(
    conv: UserAccess,
    function: FramelessFn,
) -> Result<usize, OutOfCode> {
    let look = stat as *const () as usize;
    let elsewhere = frameless(nr::STAT, function);
    make(("stat", nr::STAT), conv, Arguments::Path, look, elsewhere)
}

/// `lstat`; `function` makes it of what is left.
pub(in crate::call) fn make_lstat(
    conv: UserAccess,
    function: FramelessFn,
) -> Result<usize, OutOfCode> {
    let look = lstat as *const () as usize;
    let elsewhere = frameless(nr::LSTAT, function);
    make(("lstat", nr::LSTAT), conv, Arguments::Path, look, elsewhere)
}

/// `newfstatat`; `function` makes it of what is left.
pub(in crate::call) fn make_newfstatat(
    conv: UserAccess,
    function: FramelessFn,
) -> Result<usize, OutOfCode> {
    let look = newfstatat as *const () as usize;
    let elsewhere = frameless(nr::NEWFSTATAT, function);
    make(
        ("newfstatat", nr::NEWFSTATAT),
        conv,
        Arguments::At,
        look,
        elsewhere,
    )
}

/// `fstat` of a descriptor whose slot a dispatcher does not find.
pub(in crate::call) fn make_far_fstat(conv: UserAccess) -> Result<usize, OutOfCode> {
    let look = fstat as *const () as usize;
    make(
        ("fstat", nr::FSTAT),
        conv,
        Arguments::Descriptor,
        look,
        |d| {
            dynasm!(d ; .arch x64 ; mov eax, nr::FSTAT as i32);
            d.jmp_abs(machine::trap::syscall_slow());
        },
    )
}

fn address(shown: &Published) -> isize {
    core::ptr::from_ref(shown).addr() as isize
}

/// The answer about `path` to the running thread's process.
#[inline(always)]
fn by_path(task: &Arc<Task>, path: &PathKey, follow: bool, off: &IrqsOff) -> isize {
    let process = &task.process;
    let (cred, context) = (task.cred.peek(off), process.fs.peek(off));
    said(lockfree_walk::find(
        context,
        PaddedPath::of(path),
        cred,
        follow,
        off,
    ))
}

/// The result of a function about `answer`: an address that the stub uses before it lets interrupts come.
#[inline(always)]
fn said(answer: WalkResult) -> isize {
    match answer {
        WalkResult::Leads(found) => address(found.shown),
        WalkResult::Nothing => Errno::ENOENT.to_rax() as isize,
        WalkResult::Longer => LONGER,
        WalkResult::Unknown => SLOW_PATH,
    }
}

extern "sysv64" fn stat(path: &PathKey, off: IrqsOff) -> isize {
    Task::here(|task| by_path(task, path, true, &off)).unwrap_or(SLOW_PATH)
}

extern "sysv64" fn lstat(path: &PathKey, off: IrqsOff) -> isize {
    Task::here(|task| by_path(task, path, false, &off)).unwrap_or(SLOW_PATH)
}

extern "sysv64" fn fstat(fd: i32, off: IrqsOff) -> isize {
    Task::here(|task| behind(task, fd, &off))
        .flatten()
        .unwrap_or(SLOW_PATH)
}

/// The answer about the file behind `fd`.
#[inline(always)]
fn behind(task: &Arc<Task>, fd: i32, off: &IrqsOff) -> Option<isize> {
    // SAFETY: the running thread is of the process whose table it is.
    let of = unsafe { task.process.files.peek(off).at_hand(fd, off) }?;
    Some(address(of.published()?))
}

extern "sysv64" fn newfstatat(path: &PathKey, fd: i32, flags: u32, off: IrqsOff) -> isize {
    Task::here(|task| at(task, path, fd, flags, &off))
        .flatten()
        .unwrap_or(SLOW_PATH)
}

#[inline(always)]
fn at(task: &Arc<Task>, path: &PathKey, fd: i32, flags: u32, off: &IrqsOff) -> Option<isize> {
    let follow = match flags & !(AT_NO_AUTOMOUNT as u32) {
        0 => true,
        NOFOLLOW => false,
        EMPTY if path.is_empty() => return behind(task, fd, off),
        _ => return None,
    };
    if fd == AT_FDCWD || path.absolute() {
        return Some(by_path(task, path, follow, off));
    }
    let process = &task.process;
    let cred = task.cred.peek(off);
    // SAFETY: as in `behind`.
    let of = unsafe { process.files.peek(off).at_hand(fd, off) }?;
    let answer = lockfree_walk::find_from(of.place()?, PaddedPath::of(path), cred, follow, off);
    Some(said(answer))
}
