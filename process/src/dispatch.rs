//! Threads for tasks: each with a dispatcher that is generated for it.
//!
//! *Interface*: [`cached`] has user-defined call numbers (cached operations); [`user_thread`] makes a task's
//! thread; [`unshare_files`] and [`files_moved`] give threads a new dispatcher when their descriptor table
//! changes; [`enter_space`], [`leave_space`]; [`link`] at boot.
//!
//! A dispatcher directly answers the numbers of process, thread and parent; the word that it reads is in the
//! [`Process`], which lives as long as its threads. Each further leaf would cost a `fork` some ten
//! instructions.
//!
//! Source: dissertation, section 3.3.4; docs/architecture.md, "Entering the kernel".
//!
//! *Unsafe*: changing the thread's address space.

use abi::errno::{Errno, Result};
use abi::{native, nr};
use codegen::Draft;
use core::sync::atomic::{AtomicBool, Ordering, fence};
use machine::trap::TrapFrame;
use sync::{Once, epoch};
use thread::dispatch::{DispatchPlan, Kpt, Leaf, Leaves, OwnCalls, Spec};
use thread::jump_words::JumpWord;
use thread::{Body, Thread};
use vm::AddressSpace;

use crate::memory;
use crate::process::arc_swap::Displaced;
use crate::process::cached_operations::{CachedOperations, of as of_program};
use crate::process::{Process, Task, tree};
use file::fdtable::{FdTable, KptView};

pub mod cached;

fn no_memory<E>(_: E) -> Errno {
    Errno::ENOMEM
}

/// The calls that a program's dispatcher answers; their values are in [`describe`].
struct Answered;

impl Leaves for Answered {
    const LEAVES: &'static [(u32, Leaf)] = &[
        (nr::GETPID as u32, Leaf::Value),
        (nr::SCHED_YIELD as u32, Leaf::Yield),
        (nr::GETTID as u32, Leaf::Value),
        (nr::GETPPID as u32, Leaf::Word),
        (nr::OPEN as u32, Leaf::Routine),
        (nr::OPENAT as u32, Leaf::Routine),
        (nr::CLOSE as u32, Leaf::Routine),
        (native::CALL as u32, Leaf::Routine),
        (nr::FUTEX as u32, Leaf::Routine),
        (nr::FSTAT as u32, Leaf::Slot),
    ];
    const END: u32 = nr::COUNT as u32;

    fn of_slot() -> usize {
        ENTRIES.get().copied().unwrap_or_default().fstat
    }
}

const _: () = assert!(thread::dispatch::SLOTS == file::fdtable::SLOTS);
const _: () = assert!(thread::dispatch::MAX_OWN == native::CACHED_MOST);

static PLAN: DispatchPlan = DispatchPlan::of::<Answered>();

/// Entries of procedures that every dispatcher calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entries {
    /// `open`.
    pub open: usize,
    /// `openat`.
    pub openat: usize,
    /// `close`.
    pub close: usize,
    /// `fstat`, which gets in rax what is in the descriptor's slot.
    pub fstat: usize,
}

static ENTRIES: Once<Entries> = Once::new();

/// The procedures that every dispatcher calls, by their calls, and the code by which they leave; 0 for one
/// that is not linked.
pub fn procedures() -> [JumpWord; 7] {
    let hot = ENTRIES.get().copied().unwrap_or_default();
    [
        ("open", hot.open),
        ("openat", hot.openat),
        ("close", hot.close),
        ("fstat", hot.fstat),
        ("futex", crate::futex::fastpath::entry()),
        ("native call", thread::direct::entry()),
        ("way out", thread::dispatch::way_out_entry()),
    ]
}

/// The word of the kernel's command line that asks for [`GENERAL`].
const WITHOUT: &str = "routines=off";

/// Whether all calls are made by the general path, as a traced thread's are: to compare generated routines
/// with it in one kernel.
static GENERAL: AtomicBool = AtomicBool::new(false);

/// Links them, once, before the first thread of a program.
pub fn link(entries: Entries) {
    let _again = ENTRIES.set(entries);
    let mut words = machine::boot::info().cmdline.split_ascii_whitespace();
    GENERAL.store(words.any(|word| word == WITHOUT), Ordering::Relaxed);
}

/// Calls `make` with the description of the dispatcher of thread `tid` of `process`, whose descriptor table
/// is `files`, and whose program has calls of its `own`.
fn describe<R>(
    process: &Process,
    tid: i32,
    files: Option<KptView>,
    own: Option<OwnCalls>,
    make: impl FnOnce(&Spec) -> R,
) -> R {
    let hot = ENTRIES.get().copied().unwrap_or_default();
    let values = [
        process.pid as usize,
        tid as usize,
        core::ptr::from_ref(&process.ppid) as usize,
        hot.open,
        hot.openat,
        hot.close,
        thread::direct::entry(),
        crate::futex::fastpath::entry(),
    ];
    let kpt = files.map_or(Kpt::NONE, |view| Kpt {
        read: view.read as usize,
        write: view.write as usize,
        lseek: view.lseek as usize,
        n: view.len as u32,
        slots: view.slots as usize,
    });
    make(&Spec {
        kpt,
        plan: &PLAN,
        values: &values,
        own,
    })
}

/// A thread, not started, that will run in `space` from `frame` once `change` has changed its copy. It has
/// the running thread's name, and with `inherit` its floating-point state. ENOMEM.
#[inline]
pub fn user_thread(
    frame: &TrapFrame,
    change: &dyn Fn(&mut TrapFrame),
    space: &AddressSpace,
    fs_base: u64,
    inherit: bool,
) -> Result<Thread> {
    thread::create(&thread::Spec {
        name: None,
        root: space.root(),
        faults: memory::fault::vector,
        fs_base,
        inherit,
        ..thread::Spec::new(&[], Body::User(frame, change))
    })
    .map_err(no_memory)
}

/// Gives `task` the dispatcher that it should have now. ENOMEM: it keeps the old one.
pub(crate) fn renew(task: &Task) -> Result<()> {
    // A change of its tracer comes before this. A thread that is starting checks its tracer when it settles
    // in.
    fence(Ordering::SeqCst);
    with_table(&task.process, |_, view| follow(task, view))
}

/// Calls `step` with the table of `process` and the location of its arrays: neither changes meanwhile, and no
/// other thread gives the threads dispatchers, except those that settle in.
fn with_table<R>(process: &Process, step: impl FnOnce(&FdTable, KptView) -> R) -> R {
    loop {
        let files = process.files.get();
        let _held = files.hold();
        if process.files.is(&files) {
            return step(&files, files.kpt());
        }
    }
}

/// Gives the threads of `process`, whose program's own calls have changed, the dispatchers that they should
/// have now. ENOMEM: some keep the old ones.
pub(crate) fn renew_all(process: &Process) -> Result<()> {
    fence(Ordering::SeqCst);
    with_table(process, |_, view| {
        let mut result = Ok(());
        process.each_thread(|task| {
            result = follow(task, view);
            result.is_ok()
        });
        result
    })
}

/// The running task makes call `number`: it gets its own dispatcher if it has made so many.
#[inline]
pub fn settle(task: &Task, number: usize) {
    if task.thread.is_beginning() && task.thread.has_begun() {
        settle_in(task, number);
    }
}

/// The running task has made call `number` and may make more: it gets its own dispatcher, unless the call
/// ends the thread or its program. A thread that makes only such calls, like many a fork's child, needs none.
#[cold]
fn settle_in(task: &Task, number: usize) {
    const LAST: &[usize] = &[nr::EXIT, nr::EXIT_GROUP, nr::EXECVE, nr::EXECVEAT];
    if LAST.contains(&number) {
        return;
    }
    // From here on a thread that moves the table, or traces this thread, gives it a new dispatcher.
    task.thread.end_beginning();
    fence(Ordering::SeqCst);
    let mut again = false;
    loop {
        let files = task.process.files.get();
        let (view, traced) = (files.kpt(), task.trace.is_traced());
        let own = of_program(&task.process);
        if give(task, Some(view), traced, own.as_deref()).is_err() {
            // Without memory it keeps its initial dispatcher, which uses no table, but never a dispatcher for
            // a former table.
            if again {
                abandon(task);
            }
            return;
        }
        let same_table = task.process.files.get().kpt() == view;
        if same_table && task.trace.is_traced() == traced && of_program(&task.process) == own {
            return;
        }
        again = true;
    }
}

/// The table of `task` is at `files` now. ENOMEM.
fn follow(task: &Task, files: KptView) -> Result<()> {
    if task.thread.is_beginning() && !task.trace.is_traced() {
        // It uses none yet. (Its initial dispatcher answers some calls without a check for a tracer.)
        return Ok(());
    }
    redirect(task, Some(files))
}

/// Gives `task` a dispatcher for a table at `files`. ENOMEM: it keeps the old one.
fn redirect(task: &Task, files: Option<KptView>) -> Result<()> {
    let own = of_program(&task.process);
    give(task, files, task.trace.is_traced(), own.as_deref())
}

/// Generates the dispatcher of `task` for a table at `files`; for a traced task, one that answers no call
/// itself, since the tracer wants to see every call, and so for all with [`WITHOUT`]. ENOMEM: it keeps the
/// old one.
fn give(
    task: &Task,
    files: Option<KptView>,
    traced: bool,
    cached: Option<&CachedOperations>,
) -> Result<()> {
    if traced || GENERAL.load(Ordering::Relaxed) {
        return task.thread.set_slow_dispatcher().map_err(no_memory);
    }
    match cached {
        None => describe(&task.process, task.tid, files, None, |spec| {
            task.thread.set_dispatcher(spec)
        })
        .map_err(no_memory),
        Some(cached) => give_own(task, files, cached),
    }
}

/// The same, with the calls of its program's own in front.
#[cold]
#[inline(never)]
fn give_own(task: &Task, files: Option<KptView>, cached: &CachedOperations) -> Result<()> {
    let places = cached.places();
    let taken = (0..).zip(places).filter(|(_, place)| place.is_some());
    let mut numbers = [0; native::CACHED_MOST];
    let mut count = 0;
    for (number, (place, _)) in numbers.iter_mut().zip(taken) {
        *number = native::CACHED as u32 + place;
        count += 1;
    }
    let emit = |d: &mut Draft, number: u32| {
        let place = (number as usize).checked_sub(native::CACHED);
        if let Some(of) = place.and_then(|place| *places.get(place)?) {
            cached::emit(d, of, files.as_ref());
        }
    };
    let numbers = numbers.get(..count).unwrap_or_default();
    let own = (count > 0).then_some(OwnCalls {
        numbers,
        emit: &emit,
    });
    describe(&task.process, task.tid, files, own, |spec| {
        task.thread.set_dispatcher(spec)
    })
    .map_err(no_memory)
}

/// The arrays of `files` have moved to `view`; see [`file::fdtable::OnTableMoved`].
pub fn files_moved(files: &FdTable, view: KptView) {
    tree::each(
        |process| core::ptr::eq(&*process.files.get(), files),
        |process| redirect_all(process, view),
    );
}

/// The table of `process` is at `view`, and its holder keeps it from moving.
fn redirect_all(process: &Process, view: KptView) {
    process.each_thread(|task| {
        must_redirect(task, view);
        true
    });
}

/// A dispatcher must not go on using arrays that are about to be freed: without memory for a new one, the
/// process ends, but not before it has one that uses no arrays at all.
fn must_redirect(task: &Task, view: KptView) {
    if follow(task, view).is_err() {
        abandon(task);
    }
}

/// Ends the process of `task`, and gives `task` a dispatcher that uses no arrays.
fn abandon(task: &Task) {
    task.process
        .end(abi::linux::status_signaled(abi::linux::SIGKILL));
    while redirect(task, None).is_err() {
        thread::yield_now();
    }
}

/// Gives `process` a descriptor table of its own. ENOMEM.
pub fn unshare_files(process: &Process) -> Result<()> {
    let (given_up, users) = with_table(process, |old, view| exchange_files(process, old, view))?;
    let old = given_up.get();
    if users > 1 {
        // Another CPU may be about to use a dispatcher of the old one, where everything may close now.
        // Bound: a grace period, asleep: where a thread among several leaves a table, or finds no memory for
        // that.
        epoch::synchronize();
    }
    for _ in 0..users {
        old.leave();
    }
    Ok(())
}

/// Replaces `old`, the table of `process`, by a copy, and returns how many threads must leave `old`. The
/// caller holds `old`, whose arrays are at `view`. When it returns no dispatcher uses these arrays. ENOMEM.
fn exchange_files(
    process: &Process,
    old: &FdTable,
    view: KptView,
) -> Result<(Displaced<FdTable>, usize)> {
    let new = old.fork_copy()?;
    let mut failed = None;
    process.each_thread(|task| {
        failed = follow(task, new.kpt()).err().map(|error| (task.tid, error));
        failed.is_none()
    });
    if let Some((tid, error)) = failed {
        process.each_thread(|task| {
            let follows = task.tid < tid;
            if follows {
                must_redirect(task, view);
            }
            follows
        });
        // Some may be at work in the copy, which goes with this.
        epoch::synchronize();
        return Err(error);
    }
    // A thread that leaves or joins the process records under the same monitor which table it leaves or uses.
    // Bound: **linear**: the threads of one process; nothing sleeps inside.
    let threads = process.threads.lock();
    let users = threads.len();
    if users > 1 {
        // The others may be at work in the old one, and another may be on its way to the new one.
        old.never_alone();
        new.never_alone();
        new.admit(users - 1);
    }
    let given_up = process.files.exchange(new.clone());
    drop(threads);
    new.catch_up();
    if users > 1 {
        // Those that have come or settled in since the first look. The new table may be growing already. If
        // another thread has put a further one in its place, it has redirected all.
        fence(Ordering::SeqCst);
        let _held = new.hold();
        if process.files.is(&new) {
            redirect_all(process, new.kpt());
        }
    }
    Ok((given_up, users))
}

/// The running thread, of `process`, continues in the space that this has, if it has one.
pub(crate) fn enter_space(process: &Process) {
    if let Some(space) = process.space() {
        // SAFETY: the root is a space's, which the process holds until its threads have left.
        unsafe { thread::current().set_space(space.root()) };
    }
}

/// The running thread continues in the kernel's own space.
pub(crate) fn leave_space() {
    // SAFETY: the kernel's own root lives for ever.
    unsafe { thread::current().set_space(0) };
}
