//! The filters of an open file: quajects that its bytes pass on their way in and out.
//!
//! *Interface*: [`OpenFile::insert_filter`] and [`OpenFile::remove_filter`] ([`crate::fdtable`]);
//! [`OpenFile::passage`] is what a
//! call's buffer is taken [through](IoBuf::through), and [`OpenFile::passed_late`] is for a read that had
//! begun before there was a filter.
//!
//! The routines of `read`, and of `write` to a pipe, have the filters in them, in line
//! ([`quaject::filtered`]). All other calls of a description with filters are made plainly, and the
//! loop that its bytes pass is generated ([`quaject::stream`]). A description without costs nothing: the
//! plain calls see a filter where they look at the access mode. From the return of an insertion or removal
//! on, all bytes that calls begin to move pass the filters that there are then; a call in progress may finish
//! as it began, but what a waiting read is given passes, too.
//!
//! *Rights*. Filters act for processes that the party which inserted the first one may control, by the rule
//! of `ptrace`; other processes that have the description see the bytes as they are. So nobody deceives a
//! process with more rights by a descriptor that he passes to it.
//!
//! Source: dissertation, sections 4.1.3 and 4.1.4.
//!
//! *Unsafe*: the running thread's stack base, and the stream of a routine that has just ended.

use abi::errno::{Errno, Result};
use abi::nr;
use account::{Capability, Cred, caller};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use codegen::{Draft, dynasm};
use machine::clock::now_ns;
use machine::cpu::StackBase;
use machine::irqs_off::IrqsOff;
use quaject::Sharing;
use quaject::by_name;
use quaject::class::{Header, Ref, create};
use quaject::composed::Composed;
use quaject::filter::rate::Rate;
use quaject::filtered::{Filtered, Late, Moves};
pub use quaject::stream::Direction;
use quaject::stream::Stream;
use sync::{Monitor, WaitList};
use thread::deadline::Deadline;
use thread::frameless;
use vm::fallible::{placed, try_push};

use super::{ASIDE, DescRoutine, DescRoutines, FILTERED, OpenFile};
use crate::io::{FilterPath, IoBuf};
use crate::routine_env;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering;

/// The state of a description that has had a filter.
pub(crate) struct Filters {
    pub(crate) stream: Ref<Stream>,
    /// The routines with the filters in them that were made.
    composed: Monitor<Vec<Arc<Composed>>>,
    /// The identity that inserted the first one; none while there is no filter.
    pub(crate) owner: Monitor<Inserter>,
    /// Known from elsewhere, so that the description does not wait for another use.
    _known: Weak<OpenFile>,
}

/// The party that inserted the first filter.
pub(crate) struct Inserter(pub Option<Arc<Cred>>);

/// Emits: rax = the address of the caller's identity.
fn identity(d: &mut Draft) {
    let [place, cred] = caller::cred_at().unwrap_or_default();
    let last = StackBase::SLOT as i32 - 1;
    let thread = at_base(StackBase::TTE);
    dynasm!(d ; .arch x64
        ; mov rax, rsp
        ; or rax, last
        ; mov rax, [rax + thread]
        ; mov rax, [rax + thread::OWNER_OFFSET as i32]
        ; mov rax, [rax + place]
        ; mov rax, [rax + cred]
    );
}

/// Offset of a field of the running stack's base from the last byte of the stack's slot.
const fn at_base(field: usize) -> i32 {
    field as i32 + 1 - StackBase::SIZE as i32
}

/// Words of the stack's base that lead from [`late`] to [`pass_late`]: the stream's place, and a [`Late`].
const PLACE: usize = 1;
const LATE: usize = 3;

/// Emits the end of a `read` whose last bytes have not passed ([`Filtered::late`]).
fn late(d: &mut Draft, stream: &Ref<Stream>) {
    let last = StackBase::SLOT as i32 - 1;
    let scratch = at_base(offset_of!(StackBase, scratch));
    let place = ptr::from_ref(stream).expose_provenance() as i64;
    dynasm!(d ; .arch x64
        ; push rcx
        ; mov rcx, rsp
        ; or rcx, last
        ; mov [rcx + scratch + 8 * LATE as i32], rax
        ; mov rax, QWORD place
        ; mov [rcx + scratch + 8 * PLACE as i32], rax
        ; pop rcx
        ; mov rax, QWORD frameless::call_word(nr::READ, pass_late)
    );
    d.jmp_abs(frameless::entry());
}

/// The running thread's `read` has brought bytes to `to`, the last of which have not passed. They pass now;
/// the count of all.
extern "sysv64" fn pass_late(
    _: usize,
    to: usize,
    _: usize,
    _: usize,
    _: usize,
    _: usize,
    mut off: IrqsOff,
) -> isize {
    let base = thread::current().stack_top();
    // SAFETY: the running thread's stack ends in its base, and stays.
    let scratch = unsafe { &(*ptr::with_exposed_provenance::<StackBase>(base)).scratch };
    let [place, late] = [PLACE, LATE].map(|word| scratch[word].load(Ordering::Relaxed));
    // SAFETY: of the routine that has led here, which keeps it; interrupts have been off since.
    let stream = unsafe { &*ptr::with_exposed_provenance::<Ref<Stream>>(place as usize) }.clone();
    let Late { all, rest, passed } = Late::new(late);
    off.with_interrupts(|| {
        let passage = FilterPath {
            stream: &stream,
            course: Direction::Incoming,
        };
        // Memory that is not there any more, or may not be written: nobody gets what has come there.
        let _seen = pass_rest(passage, to.wrapping_add(all - rest), rest, passed);
        drop(stream);
    });
    all as isize
}

/// Has the `rest` bytes at `at` pass; the first has become `passed` already, if that is there. EFAULT.
fn pass_rest(passage: FilterPath, at: usize, rest: usize, passed: Option<u8>) -> Result<()> {
    let done = usize::from(passed.is_some());
    if let Some(byte) = passed {
        IoBuf::user(at, done)?.put(&[byte])?;
    }
    let (at, rest) = (at.wrapping_add(done), rest.saturating_sub(done));
    pass_there(passage, rest, || IoBuf::user(at, rest))
}

/// Has `count` bytes pass that a buffer holds which `buffer` makes. EFAULT.
fn pass_there<'a>(
    passage: FilterPath,
    count: usize,
    buffer: impl Fn() -> Result<IoBuf<'a>>,
) -> Result<()> {
    let (mut from, mut to) = (buffer()?, buffer()?);
    let mut bytes = [0; 256];
    while from.done() < count {
        let piece = bytes.len().min(count - from.done());
        let got = from.take(&mut bytes[..piece])?;
        passage.stream.run(passage.course, &mut bytes[..got]);
        to.put(&bytes[..got])?;
    }
    Ok(())
}

/// Nobody wakes it: its sleepers wait for a time.
static WAITING: WaitList = WaitList::new();

/// Whether `mine` may control processes of `its`.
pub(crate) fn controls(mine: &Cred, its: &Cred) -> bool {
    mine.has(Capability::SysPtrace)
        || its.is_only(mine.uid, mine.gid) && mine.caps.permitted.contains(its.caps.permitted)
}

impl OpenFile {
    /// Whether its bytes pass filters.
    #[inline]
    pub(super) fn is_filtered(&self) -> bool {
        self.is_apart(FILTERED)
    }

    /// Those of a description that has some.
    pub(crate) fn filters(&self) -> Option<&Filters> {
        let cell = self.code.cells.there().filter(|_| self.is_filtered())?;
        cell.filters.get()
    }

    /// Those of a description that is to have some: none yet, if it never had any. ENOMEM.
    pub(crate) fn make_filters(self: &Arc<Self>) -> Result<&Filters> {
        let cell = self.code.cells.get();
        if cell.filters.get().is_none() {
            let stream = create::<Stream>(()).map_err(|_| Errno::ENOMEM)?;
            // A faster thread has made the same.
            let _same = cell.filters.set(Filters {
                stream,
                composed: Monitor::new(Vec::new()),
                owner: Monitor::new(Inserter(None)),
                _known: Arc::downgrade(self),
            });
        }
        cell.filters.get().ok_or(Errno::ENOMEM)
    }

    /// Says whether all its calls look for filters. Takes effect when the tables are plugged again.
    pub(crate) fn set_filtered(&self, on: bool) {
        self.set_apart(FILTERED, on);
        if on {
            self.flags.fetch_or(ASIDE, Ordering::SeqCst);
        } else {
            self.flags.fetch_and(!ASIDE, Ordering::SeqCst);
        }
    }

    /// Routines in the place of `made`, for `sharing`, which have the filters in them. None where there
    /// cannot be one: the call is made plainly.
    pub(super) fn with_filters(&self, made: DescRoutines, sharing: Sharing) -> DescRoutines {
        let DescRoutines { read, write, lseek } = made;
        DescRoutines {
            read: read.and_then(|own| {
                let moves = Moves::By(self.moves_out(&own, sharing)?);
                self.filtered(own, moves)
            }),
            write: write.and_then(|own| {
                let (pipe, sharing) = self.file.writes_into(sharing)?;
                self.filtered(own, Moves::Into(pipe.clone(), sharing))
            }),
            lseek,
        }
    }

    /// The routine that moves bytes for a filtered `read`: `own`, or with several CPUs the same once more,
    /// with another way out.
    fn moves_out(&self, own: &DescRoutine, sharing: Sharing) -> Option<DescRoutine> {
        if !routine_env::get().ok()?.several_cpus() {
            return Some(own.clone());
        }
        let way = routine_env::way_back().ok()?;
        let made = self.file.synthesize_against(self, sharing, way.env());
        made.ok()?.read
    }

    fn filtered(&self, own: DescRoutine, moves: Moves) -> Option<DescRoutine> {
        let (filters, env) = (self.filters()?, routine_env::get().ok()?);
        caller::cred_at()?;
        let (name, number) = match moves.course() {
            Direction::Incoming => ("filtered read", nr::READ),
            Direction::Outgoing => ("filtered write", nr::WRITE),
        };
        let composed = Composed::new(name, number, env).ok()?;
        let recipe = Filtered {
            stream: filters.stream.clone(),
            own,
            moves,
            identity,
            late,
            env,
        };
        let recipe = placed(|| recipe);
        composed.follow(Some(recipe)).ok()?;
        let routine = composed.routine().clone();
        // Bound: a few routines of one description.
        try_push(&mut filters.composed.lock(), composed).ok()?;
        Some(routine)
    }

    /// The routine of a relay of [`OpenFile::with_filters`], to look at.
    pub fn behind(&self, relay: usize) -> Option<DescRoutine> {
        // Bound: a few routines of one description.
        let composed = self.filters()?.composed.lock();
        let found = composed.iter().find(|c| c.routine().entry() == relay)?;
        found.plugged()
    }

    /// The filters that the bytes of a call of the running process pass; None when none acts for it. Waits
    /// until they may. EAGAIN, ERESTARTSYS, ENOMEM.
    pub fn passage(&self, course: Direction) -> Result<Option<FilterPath<'_>>> {
        let Some(passage) = self.acting(course) else {
            return Ok(None);
        };
        self.wait_for_turn(course)?;
        Ok(Some(passage))
    }

    /// The filters that act for the running process.
    fn acting(&self, course: Direction) -> Option<FilterPath<'_>> {
        let filters = self.filters()?;
        // Bound: as where a filter comes: making the routines of a stream, and a look at all tables with two
        // grace periods; only users of a description that has filters.
        let owner = filters.owner.lock();
        let acts = (owner.0.as_ref()).is_some_and(|owner| controls(owner, &caller::cred()));
        let stream = &*filters.stream;
        acts.then_some(FilterPath { stream, course })
    }

    /// Waits as long as the limits of the rate on this way say.
    fn wait_for_turn(&self, course: Direction) -> Result<()> {
        loop {
            let mut due = 0;
            self.each_filter(course, |header| {
                if let Some(rate) = Ref::<Rate>::known(header) {
                    due = due.max(rate.due_ns(now_ns()));
                }
            });
            if due == 0 {
                return Ok(());
            }
            if self.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            let deadline = Deadline::after_ns(due);
            let _alarm = deadline.alarm()?;
            WAITING
                .wait_interruptible(|| deadline.has_passed().then_some(()))
                .map_err(|_| Errno::ERESTARTSYS)?;
        }
    }

    /// A read that looked for no filter has filled `count` bytes of user memory, and meanwhile there are
    /// filters: the bytes pass them now. `buffer` makes a buffer of that memory.
    pub fn passed_late<'a>(&'a self, count: usize, buffer: impl Fn() -> Result<IoBuf<'a>>) {
        if let Some(passage) = self.acting(Direction::Incoming) {
            // Memory that another thread takes away meanwhile: nobody sees what is there.
            let _seen = pass_there(passage, count, buffer);
        }
    }

    /// Calls `f` with each filter of this way, in the order in which bytes pass.
    pub fn each_filter(&self, course: Direction, f: impl FnMut(&'static Header)) {
        if let Some(filters) = self.filters() {
            by_name::along(filters.stream.header(), course.port(), f);
        }
    }
}
