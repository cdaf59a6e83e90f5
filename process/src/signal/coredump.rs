//! Core dumps: the state of a process when a signal ended it.
//!
//! *Interface*: [`end`] instead of an ordinary end by a signal that leaves a core; [`join`] by its other
//! threads, which wait until it is written; [`wanted`]; the pattern of names, [`pattern`] and
//! [`set_pattern`].
//!
//! The thread that takes the signal ends the process first, so that all others come to the crossing into user
//! mode, where they save their registers and wait. Then it writes the file with the identity of the process:
//! into its working directory, with its rights, up to its `RLIMIT_CORE`. Memory is written as it is; absent
//! pages stay holes.
//!
//! Source: `elf_core_dump` as core(5) and elf(5) describe its result.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::*;
use machine::trap::TrapFrame;
use sync::Monitor;

use super::coredump_format::{self, CoreNote, CoreSegment};
use super::ptrace_stop;
use crate::process::access::is_dumpable;
use crate::process::hostname::{NodeOrDomain, name};
use crate::process::signals::bit;
use crate::process::signals::core_state::{CoreRegisters, CoreState, ThreadRegisters};
use crate::process::{AUX, Process, Program, Task};
use file::OpenFile;
use file::fs::remove::remove;
use file::fs::walk::{WalkContext, walk};
use file::fs::{Attr, FileKind, open};
use file::io::IoBuf;
use vm::fallible::{try_box, try_extend, try_filled, try_push, try_text};

/// Signals that leave a core by default.
const LEAVE_CORES: u64 = bit(SIGQUIT)
    | bit(SIGILL)
    | bit(SIGTRAP)
    | bit(SIGABRT)
    | bit(SIGFPE)
    | bit(SIGSEGV)
    | bit(SIGBUS)
    | bit(SIGSYS)
    | bit(SIGXCPU)
    | bit(SIGXFSZ);
/// A shorter core is useless.
const LEAST: u64 = PAGE as u64;
/// The longest pattern, and the longest name that one makes.
const PATTERN_MAX: usize = 127;
/// Private memory of no file.
const PRIVATE: u32 = 1;
/// Shared memory of no file.
const SHARED: u32 = 1 << 1;
/// Private and shared memory of files.
const PRIVATE_FILES: u32 = 1 << 2;
const SHARED_FILES: u32 = 1 << 3;
/// First pages of programs.
const HEADERS: u32 = 1 << 4;

static PATTERN: Monitor<Vec<u8>> = Monitor::new(Vec::new());
/// Whether a name without `%p` gets the number of the process.
pub static USES_PID: AtomicBool = AtomicBool::new(false);

/// The pattern of core file names.
#[expect(clippy::disallowed_methods, reason = "127 bytes at most")]
pub fn pattern() -> Vec<u8> {
    // Bound: 127 bytes.
    let set = PATTERN.lock();
    if set.is_empty() {
        b"core".to_vec()
    } else {
        set.clone()
    }
}

/// Changes it. EINVAL: it is too long, or a program is to have them.
#[expect(clippy::disallowed_methods, reason = "127 bytes at most")]
pub fn set_pattern(text: &str) -> Result<()> {
    let text = text.split('\n').next().unwrap_or_default();
    if text.len() > PATTERN_MAX || text.starts_with('|') {
        return Err(Errno::EINVAL);
    }
    *PATTERN.lock() = text.as_bytes().to_vec();
    Ok(())
}

impl ThreadRegisters {
    /// That of the running thread. ENOMEM.
    fn of(task: &Task, trap: &TrapFrame) -> Result<Box<ThreadRegisters>> {
        let usage = task.usage();
        let mut stand = try_box(ThreadRegisters {
            tid: task.tid,
            registers: ptrace_stop::shown(task, trap),
            vectors: [0; crate::fp::IMAGE_MAX],
            pending: task.waiting.get(),
            blocked: task.blocked(),
            user_ns: usage.user_ns,
            system_ns: usage.system_ns,
        })?;
        crate::fp::snapshot(&mut stand.vectors);
        crate::fp::note_components(&mut stand.vectors);
        Ok(stand)
    }
}

/// Whether `process` leaves a core when `signo` ends it.
pub(super) fn wanted(process: &Process, signo: i32) -> bool {
    if bit(signo) & LEAVE_CORES == 0 {
        return false;
    }
    // Bound: one limit.
    let room = process.limits.lock().cur(RLIMIT_CORE);
    room >= LEAST && is_dumpable(process)
}

/// Ends the process of `task`, the running one, by the signal of `info`. The status with which its threads
/// end.
#[cold]
pub(super) fn end(process: &Arc<Process>, task: &Task, trap: &TrapFrame, info: &Siginfo) -> i32 {
    let status = status_signaled(info.signo);
    let core_state = &process.core_state;
    if !wanted(process, info.signo) {
        return process.end(status);
    }
    if core_state.open.swap(true, Ordering::SeqCst) {
        let status = process.end(status);
        join(task, trap);
        return status;
    }
    // Bound: a few words; one thread's registers are added.
    *core_state.registers.lock() = CoreRegisters::default();
    let decided = process.end_first(status);
    if let Err(other) = decided {
        release(core_state);
        return other;
    }
    core_state.changed.wait_until(|| {
        let waiting = core_state.registers.lock().waiting;
        (waiting + 1 >= process.thread_count()).then_some(())
    });
    let written = write(process, task, trap, info);
    release(core_state);
    if written.is_ok() {
        process.signals.add_to_end(STATUS_CORE);
        return status | STATUS_CORE;
    }
    status
}

impl Process {
    /// Whether a core of it is being written.
    pub fn is_dumping(&self) -> bool {
        self.core_state.open.load(Ordering::SeqCst)
    }
}

/// Releases the waiting threads.
fn release(core_state: &CoreState) {
    {
        let mut registers = core_state.registers.lock();
        registers.done = true;
        registers.list = Vec::new();
    }
    core_state.open.store(false, Ordering::SeqCst);
    core_state.changed.wake_all();
}

/// The process of `task`, the running one, ends: waits if a core is written.
#[inline]
pub(super) fn join(task: &Task, trap: &TrapFrame) {
    if task.process.core_state.open.load(Ordering::SeqCst) {
        stand_still(task, trap);
    }
}

#[cold]
#[inline(never)]
fn stand_still(task: &Task, trap: &TrapFrame) {
    let core_state = &task.process.core_state;
    let stand = ThreadRegisters::of(task, trap);
    {
        let mut registers = core_state.registers.lock();
        if registers.done {
            return;
        }
        registers.waiting += 1;
        if let Ok(stand) = stand {
            // A thread less in the core.
            let _no_memory = try_push(&mut registers.list, *stand);
        }
    }
    core_state.changed.wake_all();
    core_state
        .changed
        .wait_until(|| core_state.registers.lock().done.then_some(()));
}

/// The program's path, or nothing.
fn path_of(program: &Program) -> Result<String> {
    match &program.place {
        Some(place) => place.display_path(),
        None => Ok(String::new()),
    }
}

/// Appends a path, or a name, as one component, which is not empty and leads to no other directory. ENOMEM.
fn flat(to: &mut Vec<u8>, path: &[u8]) -> Result<()> {
    let path: &[u8] = match path {
        b"" | b"." => b"!",
        b".." => b"!.",
        path => path,
    };
    path.iter().try_for_each(|&byte| {
        let byte = if byte == b'/' { b'!' } else { byte };
        try_push(to, byte)
    })
}

/// The name of the core of `process`. ENOMEM.
fn file_name(process: &Process, tid: i32, signo: i32) -> Result<Vec<u8>> {
    let program = process.program();
    let cred = process.cred_here();
    let pattern = pattern();
    let mut name_of = Vec::new();
    let mut has_pid = false;
    let mut letters = pattern.iter();
    while let Some(&letter) = letters.next() {
        if letter != b'%' {
            try_push(&mut name_of, letter)?;
            continue;
        }
        let number = match letters.next() {
            None => break,
            Some(b'%') => {
                try_push(&mut name_of, b'%')?;
                continue;
            }
            Some(b'h') => {
                flat(&mut name_of, &name(NodeOrDomain::Host))?;
                continue;
            }
            Some(b'e') => {
                flat(&mut name_of, program.comm.as_bytes())?;
                continue;
            }
            Some(b'f') => {
                let path = path_of(&program)?;
                let last = path.rsplit('/').next().unwrap_or_default();
                try_extend(&mut name_of, last.as_bytes())?;
                continue;
            }
            Some(b'E') => {
                flat(&mut name_of, path_of(&program)?.as_bytes())?;
                continue;
            }
            Some(b'p' | b'P') => {
                has_pid = true;
                process.pid as u64
            }
            Some(b'i' | b'I') => tid as u64,
            Some(b'u') => cred.uid.into(),
            Some(b'g') => cred.gid.into(),
            Some(b'd') => 1,
            Some(b's') => signo as u64,
            Some(b't') => machine::clock::real_ns() / NSEC_PER_SEC,
            Some(b'c') => process.limits.lock().cur(RLIMIT_CORE),
            // An unknown specifier stands for nothing.
            Some(_) => continue,
        };
        try_extend(&mut name_of, try_text(format_args!("{number}"))?.as_bytes())?;
    }
    if !has_pid && USES_PID.load(Ordering::Relaxed) {
        let number = try_text(format_args!(".{}", process.pid))?;
        try_extend(&mut name_of, number.as_bytes())?;
    }
    Ok(name_of)
}

/// A new file for the core, in place of an old one, owned by the process's user.
fn create(process: &Process, path: &[u8]) -> Result<Arc<OpenFile>> {
    let cred = process.cred_here();
    let context = process.fs.get();
    let view = WalkContext::new(context.root(), &cred, context.umask());
    if let Ok(target) = walk(&view, context.cwd(), path, false) {
        // A file that may not go stays, and the open finds it.
        let _old = remove(&cred, target);
    }
    let flags = O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW;
    let of = open::open(&view, context.cwd(), path, flags, 0o600)?;
    let attr: Attr = of.inode().ok_or(Errno::EINVAL)?.attr();
    if attr.kind() != FileKind::Regular || attr.uid != cred.fsuid {
        return Err(Errno::EPERM);
    }
    Ok(of)
}

/// The file while it is written.
struct Out<'a> {
    of: &'a OpenFile,
    at: u64,
    most: u64,
}

impl Out<'_> {
    /// Writes at the end. EFBIG: the process may not have a longer core.
    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        let end = self.at.saturating_add(bytes.len() as u64);
        if end > self.most {
            return Err(Errno::EFBIG);
        }
        while !bytes.is_empty() {
            let mut buffer = IoBuf::drain(bytes);
            let count = self.of.file().write_at(self.of, self.at, &mut buffer)?;
            if count == 0 {
                return Err(Errno::EIO);
            }
            self.at += count as u64;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Leaves a hole.
    fn skip(&mut self, count: u64) -> Result<()> {
        self.at = self.at.saturating_add(count);
        if self.at > self.most {
            return Err(Errno::EFBIG);
        }
        Ok(())
    }
}

/// Writes the core. An error when no core was written; a truncated core is no error.
fn write(process: &Arc<Process>, task: &Task, trap: &TrapFrame, info: &Siginfo) -> Result<()> {
    let space = process.space().ok_or(Errno::ESRCH)?;
    let own = ThreadRegisters::of(task, trap)?;
    let filter = process.core_state.filter.load(Ordering::Relaxed);
    let mut segments: Vec<CoreSegment> = Vec::new();
    let mut files = coredump_format::CoreFiles::default();
    let mut lack = Ok(());
    space.for_each_area_with_pages(0, |area, pages| {
        let length = area.end - area.start;
        let kind = match (&area.pager, area.shared) {
            (None, false) => PRIVATE,
            (None, true) => SHARED,
            // Memory without a name is a file's as well.
            (Some(file), true) if file.path.as_str().starts_with("/dev/zero") => SHARED,
            (Some(_), true) => SHARED_FILES,
            (Some(_), false) => PRIVATE_FILES,
        };
        let own = area.pager.is_some() && !area.shared && pages.own != 0;
        let kept = if area.wishes.concealed {
            0
        } else if filter & kind != 0 || own && filter & PRIVATE != 0 {
            length
        } else if kind == PRIVATE_FILES && filter & HEADERS != 0 && area.offset == 0 {
            PAGE
        } else {
            0
        };
        let segment = CoreSegment {
            start: area.start,
            length,
            kept,
            prot: area.prot,
            of_file: area.pager.is_some(),
        };
        lack = try_push(&mut segments, segment).map_err(|_| Errno::ENOMEM);
        if let (Ok(()), Some(file)) = (lack, &area.pager) {
            lack = files.add(area.start, area.end, area.offset, file.path.as_str());
        }
        lack.is_ok()
    });
    lack?;

    let mut notes: Vec<u8> = Vec::new();
    // Bound: exchanging one list.
    let registers = core::mem::take(&mut process.core_state.registers.lock().list);
    coredump_format::thread_status(&mut notes, process, &own, info)?;
    coredump_format::process_info(&mut notes, process, &space)?;
    CoreNote::of(NT_SIGINFO).put(&mut notes, bytemuck::bytes_of(info))?;
    let program = process.program();
    let mut aux = [0; 16 * AUX];
    if program.aux.len() == aux.len() && space.read_at(program.aux.start, &mut aux).is_ok() {
        CoreNote::of(NT_AUXV).put(&mut notes, &aux)?;
    }
    files.put(&mut notes)?;
    coredump_format::vectors(&mut notes, &own)?;
    for stand in &registers {
        coredump_format::thread_status(&mut notes, process, stand, info)?;
        coredump_format::vectors(&mut notes, stand)?;
    }

    let path = file_name(process, task.tid, info.signo)?;
    let of = create(process, &path)?;
    let mut out = Out {
        of: &of,
        at: 0,
        most: process.limits.lock().cur(RLIMIT_CORE),
    };
    // From here on there is a core, however much of it.
    let _cut = contents(&mut out, &space, &segments, &notes);
    if let Some(inode) = of.inode() {
        // A file that ends with a hole keeps its length.
        let length = out.at.min(out.most);
        if inode.attr().size < length {
            let _ = inode.truncate(length);
        }
    }
    Ok(())
}

fn contents(
    out: &mut Out,
    space: &vm::AddressSpace,
    segments: &[CoreSegment],
    notes: &[u8],
) -> Result<()> {
    let headers = coredump_format::headers(segments, notes.len())?;
    out.put(&headers)?;
    out.put(notes)?;
    let aligned = out.at.next_multiple_of(PAGE as u64);
    out.skip(aligned - out.at)?;
    /// Pages that are looked for at a time.
    const AT_A_TIME: usize = 512;
    let mut present = [false; AT_A_TIME];
    let mut page = try_filled(0, PAGE)?;
    for segment in segments {
        let end = segment.start + segment.kept;
        for first in (segment.start..end).step_by(AT_A_TIME * PAGE) {
            let count = AT_A_TIME.min((end - first) / PAGE);
            let present = &mut present[..count];
            space.present_in(first, present);
            for (at, there) in (first..).step_by(PAGE).zip(&*present) {
                let wanted = *there || segment.of_file;
                if wanted && space.read_at(at, &mut page).is_ok() {
                    out.put(&page)?;
                } else {
                    out.skip(PAGE as u64)?;
                }
            }
        }
    }
    Ok(())
}
