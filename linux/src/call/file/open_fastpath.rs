//! The fast path of `open` and `close`: procedures that a dispatcher calls with interrupts off.
//!
//! *Interface.* [`init`] generates them once, and links them to dispatchers. They keep the contract of a
//! descriptor routine (docs/architecture.md): they change rax alone, and return or leave, after which the
//! call is made from its start, without a trap frame too ([`open_frameless`]).
//!
//! Each is a generated stub around a short Rust function. The stub of an open checks the flags, copies the
//! path (after a fault it leaves, so nothing here sleeps) and saves what Rust may change; the function
//! returns a descriptor, or [`SLOW_PATH`] when anything at all is not as in the usual case: the path leads by
//! more than directories of files in memory, a monitor is taken, a lock or a time is to be noted, somebody
//! watches files. It returns no error.
//!
//! Source: dissertation, 7.3.1 (what `open` costs) and 4.1.2 (the inactive list).
//!
//! *Unsafe*: slots of the running thread's table, by plain stores.

use abi::linux::{AT_FDCWD, O_ACCMODE, O_CLOEXEC, O_CREAT, O_LARGEFILE};
use abi::nr;
use alloc::sync::Arc;
use codegen::{Class, Draft, Label, OutOfCode, dynasm};
use quaject::UserAccess;
use thread::frameless::call_word;

use super::open::{PLAIN, may_reopen, truncates};
use super::open_frameless;
use super::stat_fastpath;
use super::stub::{ROOM, copy_key, restore, save};
use account::NOBODY;
use file::fs::context::one_root;
use file::fs::file::OpenFile;
use file::fs::lockfree_walk::{self, PaddedPath};
use file::fs::path_cache::{self, PathKey};
use file::routine_env::keep;
use machine::irqs_off::IrqsOff;
use process::Task;
use process::dispatch::{self, Entries};

static CLASS: Class = Class::new("procedure");

/// Generates the procedures. `slow`: the slow exit.
pub fn init(conv: UserAccess, slow: usize) -> Result<(), OutOfCode> {
    dispatch::link(Entries {
        open: make_open(conv, false)?,
        openat: make_open(conv, true)?,
        close: make_close()?,
        fstat: stat_fastpath::make_fstat(slow, conv)?,
    });
    Ok(())
}

/// The result of the functions when the call is to be made on the slow path.
const SLOW_PATH: isize = -1;

fn make_open(conv: UserAccess, at: bool) -> Result<usize, OutOfCode> {
    let (name, rest) = if at {
        ("openat", call_word(nr::OPENAT, open_frameless::openat))
    } else {
        ("open", call_word(nr::OPEN, open_frameless::open))
    };
    let mut draft = Draft::new(&CLASS, name);
    let d = &mut draft;
    let [leave, fault] = core::array::from_fn(|_| d.label());
    if at {
        dynasm!(d ; .arch x64 ; cmp edi, AT_FDCWD ; jne =>leave ; test edx, !PLAIN as i32 ; jnz =>leave
            ; test rsi, rsi ; js =>leave);
    } else {
        dynasm!(d ; .arch x64 ; test esi, !PLAIN as i32 ; jnz =>leave ; test rdi, rdi ; js =>leave);
    }
    save(d);
    dynasm!(d ; .arch x64 ; sub rsp, ROOM);
    if at {
        dynasm!(d ; .arch x64 ; mov rdi, rsi ; mov esi, edx);
    }
    copy_key(d, conv, fault);
    dynasm!(d ; .arch x64 ; mov rdi, rsp);
    d.call_abs(open as *const () as usize);
    dynasm!(d ; .arch x64 ; add rsp, ROOM);
    restore(d);
    dynasm!(d ; .arch x64 ; test rax, rax ; js =>leave ; ret ; =>fault);
    if conv == UserAccess::Kernel {
        dynasm!(d ; .arch x64 ; clac);
    }
    dynasm!(d ; .arch x64 ; add rsp, ROOM);
    restore(d);
    leave_frameless(d, leave, rest);
    keep(draft)
}

/// The function that `rest` names does the calls that are not answered here.
fn leave_frameless(d: &mut Draft, leave: Label, rest: i64) {
    dynasm!(d ; .arch x64 ; =>leave ; mov rax, QWORD rest);
    d.jmp_abs(thread::frameless::entry());
}

fn make_close() -> Result<usize, OutOfCode> {
    let mut draft = Draft::new(&CLASS, "close");
    let d = &mut draft;
    let leave = d.label();
    save(d);
    dynasm!(d ; .arch x64 ; sub rsp, 8);
    d.call_abs(close as *const () as usize);
    dynasm!(d ; .arch x64 ; add rsp, 8);
    restore(d);
    dynasm!(d ; .arch x64 ; test rax, rax ; js =>leave ; ret);
    leave_frameless(d, leave, call_word(nr::CLOSE, open_frameless::close));
    keep(draft)
}

/// `key` holds the path's first bytes. A descriptor, or [`SLOW_PATH`].
extern "sysv64" fn open(key: &mut PathKey, flags: u32, off: IrqsOff) -> isize {
    let open = |task: &Arc<Task>| {
        let process = &task.process;
        let who = task.cred.peek(&off).who();
        let start = if key.absolute() && one_root() {
            Some(0)
        } else {
            process.fs.peek(&off).key()
        };
        let mode = flags & O_ACCMODE;
        let learnt = match start {
            Some(start) if who != NOBODY => path_cache::open_now(key, start, mode, who, &off),
            _ => None,
        };
        match learnt {
            Some(of) => install(task, again(of, flags)?, flags, &off),
            // The function that makes a missing file looks for it.
            None if flags & O_CREAT != 0 => None,
            None => open_by_entries(task, key, flags, &off),
        }
    };
    Task::here(open).flatten().unwrap_or(SLOW_PATH)
}

/// As [`open`], of a path that has not been learnt: from entry to entry. Never in line, so that [`open`]
/// keeps no registers for it.
#[inline(never)]
fn open_by_entries(task: &Arc<Task>, key: &PathKey, flags: u32, off: &IrqsOff) -> Option<isize> {
    if path_cache::is_repeated(key) {
        // Where it is made from its start it is learnt.
        return None;
    }
    let process = &task.process;
    let (cred, context) = (task.cred.peek(off), process.fs.peek(off));
    let mode = flags & O_ACCMODE;
    let found = lockfree_walk::reached(context, PaddedPath::of(key), cred, mode, off)?;
    let list = found.list()?;
    let of = match found.waiting(list, mode) {
        Some(of) => again(of, flags)?,
        None => found.described(list, flags)?,
    };
    path_cache::note(key);
    install(task, of, flags, off)
}

/// `of`, which waited, made ready for another open. `None`: it waits again, for the slow way to find.
#[inline(always)]
fn again(of: Arc<OpenFile>, flags: u32) -> Option<Arc<OpenFile>> {
    if !may_reopen(&of, flags) || truncates(&of, flags) {
        path_cache::wait_again(of);
        return None;
    }
    of.reopen(flags | O_LARGEFILE);
    Some(of)
}

/// The descriptor of `of`, which is ready. `None`: it waits, for the slow way to find.
#[inline(always)]
fn install(task: &Arc<Task>, of: Arc<OpenFile>, flags: u32, off: &IrqsOff) -> Option<isize> {
    let files = task.process.files.peek(off);
    // SAFETY: the table is the running thread's.
    let installed = unsafe { files.install_now(of, flags & O_CLOEXEC != 0, off) };
    match installed {
        Ok(fd) => Some(fd as isize),
        Err(of) => {
            // The table must grow or is taken.
            path_cache::wait_again(of);
            None
        }
    }
}

/// 0, or [`SLOW_PATH`].
extern "sysv64" fn close(fd: i32, off: IrqsOff) -> isize {
    let closed = Task::here(|task| {
        let files = task.process.files.peek(&off);
        // SAFETY: the table is the running thread's.
        unsafe { files.close_now(fd, &off) }
    });
    match closed.flatten() {
        Some(()) => 0,
        None => SLOW_PATH,
    }
}
