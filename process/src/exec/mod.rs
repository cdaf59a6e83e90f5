//! Running a program: from a path to the first user instruction.
//!
//! *Interface*: [`execve`] is the call; [`prepare`] makes a program's memory without touching the caller's,
//! [`begin`] is for the first process. Everything that can fail happens in `prepare`, so a failed call leaves
//! the caller unchanged.

pub mod elf;
pub mod load;
pub mod script;
pub mod stack;

use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::layout::{PAGE, USER_STACK_TOP};
use abi::linux::*;
use machine::trap::{RFLAGS_IF, TrapFrame, USER_CS, USER_SS, VECTOR_TAIL};
use vm::{AddressSpace, Prot, user};

use crate::dispatch;
use crate::futex::robust;
use crate::process::arc_swap::{ArcSwap, Displaced};
use crate::process::signals::SignalActions;
use crate::process::{Process, Program, Task, access};
use crate::ptrace;
use account::Cred;
use account::cred::{ExecCred, ExecUnsafe};
use file::fs::VfsPath;
use load::{Executable, ImageRole, LoadedProgram, load};
use stack::{ArgStrings, STRING_MAX};
use thread::UserBase;
use vm::fallible::{try_arc, try_copy, try_placed, try_string, try_text};

/// How deep scripts may be interpreted by scripts.
const SCRIPT_DEPTH: usize = 4;
/// The most stack that a program with more rights than its caller begins with.
const SECURE_STACK: u64 = 8 << 20;
/// Pages over which the top of the stack, and the start of the heap, are spread.
const SPREAD_PAGES: u64 = 1 << 11;

/// A program that is ready to run.
pub struct PreparedExec {
    space: Arc<AddressSpace>,
    entry: usize,
    sp: usize,
    program: Arc<Program>,
    /// The signals' actions, still to be filled in.
    actions: Arc<SignalActions>,
    /// Its credentials, and that it is to be secure.
    executing: ExecCred,
    /// The grounds that they follow from.
    grounds: Grounds,
    /// Whether processes with the same identity may read its memory.
    dumpable: bool,
    /// Flags of the caller's personality that it begins without.
    cleared: u32,
}

/// Flags that no program begins with: its file's headers say which memory is executable.
const CLEARED_ALWAYS: u32 = READ_IMPLIES_EXEC;
/// Flags that a program with new rights does not begin with (Linux: `PER_CLEAR_ON_SETID`).
const CLEARED_WITH_RIGHTS: u32 =
    READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT | MMAP_PAGE_ZERO;

/// The conditions, besides the file, for a program's rights.
struct Grounds {
    cred: Arc<Cred>,
    doubt: ExecUnsafe,
}

impl Grounds {
    /// The present conditions of `process`; they may change until its rights are held.
    fn of(process: &Process) -> Grounds {
        let traced = || Task::here(|task| task.trace.is_in_doubt()).unwrap_or(false);
        let bound = |task: &Arc<Task>| task.no_new_privileges.load(Ordering::Relaxed);
        Grounds {
            cred: process.cred_here(),
            doubt: ExecUnsafe {
                shared: process.fs.get().is_shared(),
                no_new_privileges: Task::here(bound).unwrap_or(false),
                traced: traced(),
            },
        }
    }

    fn hold(&self, now: &Grounds) -> bool {
        Arc::ptr_eq(&self.cred, &now.cred) && self.doubt == now.doubt
    }
}

/// `execve` and `execveat`; the user's registers are `frame`.
pub fn execve(
    frame: &mut TrapFrame,
    dirfd: i32,
    path: usize,
    argv: usize,
    envp: usize,
    flags: i32,
) -> Result<usize> {
    if flags & !(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    let task = Task::current();
    let process = task.process.clone();
    let path = user::cstr(path, PATH_MAX)?;
    let mut had_threads = false;
    loop {
        let source = find(&process, dirfd, &path, flags)?;
        let prepared = prepare(&process, source, strings(argv)?, strings(envp)?)?;
        had_threads |= end_other_threads(&process)?;
        if !prepared.space.is_within(&process.bounds()) {
            // The errors that Linux detects after the point of no return.
            process.end(status_signaled(SIGSEGV));
            return Err(Errno::ENOMEM);
        }
        if commit(&task, prepared, had_threads, frame)? {
            break;
        }
    }
    ptrace::executed(&task);
    Ok(0)
}

fn find(process: &Process, dirfd: i32, path: &[u8], flags: i32) -> Result<Executable> {
    let cred = process.cred_here();
    let relative = path.first() != Some(&b'/');
    let start = if dirfd == AT_FDCWD || !relative {
        process.fs.get().cwd()
    } else {
        let of = process.files.get().get(dirfd)?;
        of.place().cloned().ok_or(if path.is_empty() {
            Errno::EACCES
        } else {
            Errno::ENOTDIR
        })?
    };
    if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        let name = try_text(format_args!("/dev/fd/{dirfd}"))?;
        return Executable::at(&cred, start, name.as_bytes());
    }
    Executable::open(process, start, path, flags & AT_SYMLINK_NOFOLLOW == 0)
}

/// The strings whose addresses are at `vector`, up to a null. EFAULT, E2BIG.
fn strings(vector: usize) -> Result<ArgStrings> {
    let mut strings = ArgStrings::default();
    if vector == 0 {
        return Ok(strings);
    }
    for i in 0.. {
        let at: usize = user::get(vector.wrapping_add(8 * i))?;
        if at == 0 {
            break;
        }
        let string = user::cstr(at, STRING_MAX).map_err(|e| {
            if e == Errno::ENAMETOOLONG {
                Errno::E2BIG
            } else {
                e
            }
        })?;
        strings.push(&string)?;
    }
    Ok(strings)
}

/// Makes the memory of the program in `source`, or of the interpreter that it names, for `process`.
pub fn prepare(
    process: &Process,
    mut source: Executable,
    mut argv: ArgStrings,
    envp: ArgStrings,
) -> Result<PreparedExec> {
    let execfn = try_copy(&source.path)?;
    if argv.count == 0 {
        argv.push(b"")?;
    }
    let mut depth = 0;
    while source.head.starts_with(b"#!") {
        let (interpreter, argument) = script::parse(&source.head).ok_or(Errno::ENOEXEC)?;
        if depth == SCRIPT_DEPTH {
            return Err(Errno::ELOOP);
        }
        depth += 1;
        let mut longer = ArgStrings::default();
        longer.push(interpreter)?;
        if let Some(argument) = argument {
            longer.push(argument)?;
        }
        longer.push(&source.path)?;
        for string in argv.iter().skip(1) {
            longer.push(string)?;
        }
        let cwd = process.fs.get().cwd();
        source = Executable::open(process, cwd, interpreter, true)?;
        argv = longer;
    }
    let image = source.image()?;
    let space = AddressSpace::new()?;
    let grounds = Grounds::of(process);
    let own = &grounds.cred;
    let mut readable = source.may_be_read(own);
    let (user, group) = set_ids(&source);
    let granted = source.capabilities()?;
    let executing = own.executing(user, group, granted, grounds.doubt);
    let cleared = match &executing {
        Ok(executing) if !executing.guarded => CLEARED_ALWAYS,
        _ => CLEARED_WITH_RIGHTS,
    };
    let personality = process.personality.load(Ordering::Relaxed) & !cleared;
    let main = load(&space, &source, &image, ImageRole::Program, personality)?;
    let gains = user.or(group).is_some() || granted.is_some();
    if gains && (source.has_changed() || source.capabilities()? != granted) {
        return Err(Errno::ETXTBSY);
    }
    let start = match image.interpreter {
        None => None,
        Some((offset, length)) => {
            let path = source.interpreter(offset, length)?;
            let cwd = process.fs.get().cwd();
            let loader = Executable::open(process, cwd, &path, true)?;
            readable &= loader.may_be_read(own);
            let loader_image = loader.image()?;
            if !loader_image.relocatable {
                return Err(Errno::ENOEXEC);
            }
            Some(load(
                &space,
                &loader,
                &loader_image,
                ImageRole::Interpreter,
                personality,
            )?)
        }
    };
    space.set_brk_start(
        main.end + load::spread(personality, SPREAD_PAGES),
        main.data,
    );
    if let Some(running) = source.take_running() {
        space.keep(try_arc(running)?);
    }
    let executing = executing?;
    let plain = own.uid == own.euid && own.gid == own.egid;
    let dumpable = readable && plain && !executing.cred.departs_from(own);
    let placed = build_stack(
        process,
        &space,
        &main,
        start.as_ref(),
        &image,
        &argv,
        &envp,
        &execfn,
        &executing,
        personality,
    )?;
    let program = Program {
        place: source.place().cloned(),
        stack: placed.sp,
        arguments: placed.arguments,
        environment: placed.environment,
        aux: placed.aux,
        comm: short_name(&execfn)?,
        cached: None,
    };
    let entry = start.as_ref().map_or(main.entry, |loader| loader.entry);
    Ok(PreparedExec {
        space,
        entry,
        sp: placed.sp,
        program: try_arc(program)?,
        actions: try_placed(SignalActions::default)?,
        executing,
        grounds,
        dumpable,
        cleared,
    })
}

/// The user and the group that the file's set-id bits give.
fn set_ids(source: &Executable) -> (Option<u32>, Option<u32>) {
    if source.place().is_none_or(VfsPath::is_nosuid) {
        return (None, None);
    }
    let set_uid = source.mode & S_ISUID != 0;
    // Without group execution the bit means mandatory locking.
    let set_gid = source.mode & (S_ISGID | 0o010) == S_ISGID | 0o010;
    (set_uid.then_some(source.uid), set_gid.then_some(source.gid))
}

#[expect(
    clippy::too_many_arguments,
    reason = "each is one line of the auxiliary vector or the stack"
)]
// On a frame of its own: `prepare` has much on its stack without it.
#[inline(never)]
fn build_stack(
    process: &Process,
    space: &AddressSpace,
    main: &LoadedProgram,
    loader: Option<&LoadedProgram>,
    image: &elf::ElfImage,
    argv: &ArgStrings,
    envp: &ArgStrings,
    execfn: &[u8],
    executing: &ExecCred,
    personality: u32,
) -> Result<stack::StackImage> {
    let (cred, secure) = (&executing.cred, executing.secure);
    // Bound: a few words of one process.
    let limit = process.limits.lock().cur(RLIMIT_STACK);
    let limit = if secure {
        limit.min(SECURE_STACK)
    } else {
        limit
    };
    let length = limit.clamp(128 << 10, 64 << 20) as usize / PAGE * PAGE;
    let top = USER_STACK_TOP - load::spread(personality, SPREAD_PAGES);
    let prot = if image.executable_stack {
        Prot::RW.or(Prot::EXEC)
    } else {
        Prot::RW
    };
    space.map_stack(top, length, prot)?;
    let mut random = [0; 16];
    machine::random::fill(&mut random);
    let fsgsbase = u64::from(machine::features::get().fsgsbase());
    let aux = |placed: stack::AuxAddresses| {
        [
            (AT_HWCAP, u64::from(machine::features::cpuid(1, 0)[3])),
            (AT_HWCAP2, HWCAP2_FSGSBASE * fsgsbase),
            (AT_PAGESZ, PAGE as u64),
            (AT_CLKTCK, CLK_TCK),
            (AT_PHDR, main.phdr as u64),
            (AT_PHENT, 56),
            (AT_PHNUM, image.phnum as u64),
            (AT_BASE, loader.map_or(0, |loader| loader.bias) as u64),
            (AT_FLAGS, 0),
            (AT_ENTRY, main.entry as u64),
            (AT_UID, cred.uid.into()),
            (AT_EUID, cred.euid.into()),
            (AT_GID, cred.gid.into()),
            (AT_EGID, cred.egid.into()),
            (AT_SECURE, secure.into()),
            (AT_RANDOM, placed.random),
            (AT_EXECFN, placed.execfn),
            (AT_PLATFORM, placed.platform),
            (
                AT_MINSIGSTKSZ,
                MINSIGSTKSZ + machine::fpu::area_size() as u64,
            ),
            (AT_NULL, 0),
        ]
    };
    let made = stack::image(top, argv, envp, execfn, random, aux)?;
    let room = length.min(process.bounds().size);
    if top - made.sp > room / 4 * 3 {
        return Err(Errno::E2BIG);
    }
    space
        .write_at(made.sp, &made.bytes)
        .map_err(|_| Errno::ENOMEM)?;
    Ok(made)
}

/// The last component, cut to 15 bytes.
fn short_name(path: &[u8]) -> Result<String> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    try_string(&name[..name.len().min(15)])
}

/// Ends the other threads of `process` and waits until they are gone; whether there were any. EAGAIN: another
/// is doing the same, or the process ends.
fn end_other_threads(process: &Arc<Process>) -> Result<bool> {
    // Bound: **linear**: the threads of one process; nothing sleeps inside.
    if process.threads.lock().len() == 1 {
        return Ok(false);
    }
    let (_, first) = process.signals.begin_end(status_signaled(SIGKILL));
    if !first {
        return Err(Errno::EAGAIN);
    }
    let me = Task::current().tid;
    for task in process.threads.lock().iter().filter(|task| task.tid != me) {
        task.attend();
        task.thread.release();
    }
    process
        .child_wait
        .wait_until(|| (process.threads.lock().len() == 1).then_some(()));
    process.signals.cancel_end();
    Ok(true)
}

/// Makes the running task the prepared program. Fails only while nothing has changed; after that nothing is
/// allocated. `false`: nothing has changed, because the conditions of the program's rights no longer hold.
/// ENOMEM; a process that has already ended its other threads for this ends then.
fn commit(
    task: &Arc<Task>,
    prepared: PreparedExec,
    had_threads: bool,
    frame: &mut TrapFrame,
) -> Result<bool> {
    let process = &task.process;
    if process.files.get().is_shared() {
        let unshared = dispatch::unshare_files(process);
        if unshared.is_err() && had_threads {
            process.end(status_signaled(SIGKILL));
        }
        unshared?;
    }
    let most = process.most_resident();
    robust::release(task, true);
    let Some(old) = exchange(task, &prepared) else {
        return Ok(false);
    };
    // Bound: a few words.
    process.usage.lock().memory_goes(most);
    drop(old.creds.map(|cred| cred.map(Displaced::get)));
    let had_own_calls = old.program.cached.is_some();
    drop((old.space, old.program));
    // Before its children can see a descriptor close: from here on it is another program.
    process.images.fetch_add(1, Ordering::Relaxed);
    process.exit_signal.store(SIGCHLD, Ordering::Relaxed);
    process.files.get().close_on_exec();
    // Not before: nobody else gets what it has just closed.
    access::set_dumpable(process, prepared.dumpable);
    process.vfork_gate.open();
    prepared
        .actions
        .begin_program(&process.signals.actions.get());
    process.signals.actions.set(prepared.actions.clone());
    process.timers.delete_created(task);
    // Bound: three words of the thread’s own.
    *task.altstack.lock() = Sigaltstack {
        flags: SS_DISABLE,
        ..Sigaltstack::default()
    };
    task.clear_child_tid.store(0, Ordering::Relaxed);
    task.rseq.forget(task);
    task.thread.look_up_channels();
    task.thread.set_name(prepared.program.comm.as_bytes());
    thread::lazy_fpu::forget();
    thread::speculation::executed();
    let thread = thread::current();
    thread.set_fs_base(UserBase::default());
    thread.set_gs_base(UserBase::default());
    if had_own_calls {
        // Without memory the numbers remain, and lead to descriptors of this program, as any number does.
        let _ = dispatch::renew(task);
    }
    *frame = begin(&prepared);
    Ok(true)
}

/// The remains of a program that another replaces.
struct Old {
    space: Option<Arc<AddressSpace>>,
    program: Arc<Program>,
    /// The thread's and the process's; most programs change nothing.
    creds: [Option<Displaced<Cred>>; 2],
}

/// Memory, name and rights of the process of `task`, whose running thread that is, alone, become those of the
/// program at one instant for all processes with access to it: an access that was permitted before has no
/// effect afterwards. Returns the old ones, which are dropped when no monitor is held; `None` when the
/// conditions of the rights no longer hold.
fn exchange(task: &Task, prepared: &PreparedExec) -> Option<Old> {
    let process = &task.process;
    // Bound: memory, credentials and pending procedures of one process are exchanged.
    let _rights = process.rights.lock();
    let (grounds, cred) = (&prepared.grounds, &prepared.executing.cred);
    if !grounds.hold(&Grounds::of(process)) {
        return None;
    }
    if prepared.executing.secure || cred.departs_from(&grounds.cred) {
        task.death_signal.store(0, Ordering::Relaxed);
    }
    if prepared.executing.secure {
        process.limits.lock().lower(RLIMIT_STACK, SECURE_STACK);
    }
    process.barriers.store(0, Ordering::Relaxed);
    (process.personality).fetch_and(!prepared.cleared, Ordering::Relaxed);
    // As long as it has the descriptors of the program before, both programs have to be dumpable.
    if prepared.dumpable && access::is_dumpable(process) {
        prepared.space.set_mark(access::DUMPABLE);
    }
    let space = process.space.set(Some(prepared.space.clone()));
    dispatch::enter_space(process);
    thread::forget_procedures();
    let new = prepared.program.clone();
    // It is what others see of the process from now on.
    process.first_tid.store(task.tid, Ordering::Relaxed);
    let differs = |place: &ArcSwap<Cred>| (!place.is(cred)).then(|| place.exchange(cred.clone()));
    Some(Old {
        space,
        // Bound: exchanging one counted handle.
        program: core::mem::replace(&mut *process.program.lock(), new),
        creds: [&task.cred, &process.cred].map(differs),
    })
}

/// Names.
pub fn become_program(task: &Task, prepared: &PreparedExec) {
    task.thread.set_name(prepared.program.comm.as_bytes());
    // Bound: copying or exchanging one counted handle.
    *task.process.program.lock() = prepared.program.clone();
    access::set_dumpable(&task.process, prepared.dumpable);
    task.process.barriers.store(0, Ordering::Relaxed);
}

impl PreparedExec {
    /// Its memory.
    pub fn space(&self) -> &Arc<AddressSpace> {
        &self.space
    }
}

/// The registers with which a program starts.
pub fn begin(prepared: &PreparedExec) -> TrapFrame {
    TrapFrame {
        vector: VECTOR_TAIL,
        rip: prepared.entry as u64,
        rsp: prepared.sp as u64,
        rflags: RFLAGS_IF | 2,
        cs: USER_CS,
        ss: USER_SS,
        ..TrapFrame::default()
    }
}
