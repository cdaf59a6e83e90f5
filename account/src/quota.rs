//! The resource limits of one user, and the exemptions.
//!
//! *Interface*: [`pipe`], [`watch`], [`pty`] count one thing more for the running thread's user, [`task`] for
//! another's, until the charge is dropped; [`admit_description`] says whether there may be another open file;
//! [`retry_after_reclaim`] releases unused objects before a refusal. Bounds are parts of memory. The
//! superuser, and processes with `CAP_SYS_RESOURCE` or `CAP_SYS_ADMIN`, are counted and not refused: the rest
//! of the machine is left to them.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::{RLIMIT_MSGQUEUE, RLIMIT_NOFILE};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use sync::epoch;

use crate::user::{self, Charge, Resource, User};
use crate::{Capability, Cred, caller};

/// The user who is charged.
struct Payer {
    cred: Arc<Cred>,
    exempt: bool,
}

impl Payer {
    /// The running thread's user; the superuser for what the kernel itself makes.
    fn current() -> Payer {
        Payer::of(caller::cred_or_kernel())
    }

    fn of(cred: Arc<Cred>) -> Payer {
        let exempt = Payer::exempt(&cred);
        Payer { cred, exempt }
    }

    fn exempt(cred: &Cred) -> bool {
        cred.user.uid() == 0 || cred.has(Capability::SysResource) || cred.has(Capability::SysAdmin)
    }

    fn user(&self) -> &Arc<User> {
        &self.cred.user
    }

    fn charge(&self, what: Resource, amount: u64, most: u64) -> Option<Charge> {
        let most = if self.exempt { u64::MAX } else { most };
        retry_after_reclaim(|| self.user().charge(what, amount, most))
    }
}

/// The result of `take`. Before that is nothing, what counts only because somebody may still look at it, or
/// because it waits to serve again, is given up. Thread context.
pub fn retry_after_reclaim<R>(mut take: impl FnMut() -> Option<R>) -> Option<R> {
    take().or_else(|| {
        caller::let_go();
        if epoch::pending() > 0 {
            // Bound: a grace period, asleep, before something is refused for a bound.
            epoch::synchronize();
        }
        take()
    })
}

/// Pages of memory.
fn pages() -> u64 {
    vm::frame::total() as u64
}

/// One process or thread more for the user of `cred`, whose processes may be `most`, and whether it may have
/// one of the last numbers. EAGAIN: `RLIMIT_NPROC`.
#[inline]
pub fn task(cred: &Arc<Cred>, most: u64) -> Result<(Charge, bool)> {
    let exempt = Payer::exempt(cred);
    let most = if exempt { u64::MAX } else { most };
    let charge = (cred.user.charge(Resource::Tasks, 1, most))
        .or_else(|| retry_after_reclaim(|| cred.user.charge(Resource::Tasks, 1, most)));
    Ok((charge.ok_or(Errno::EAGAIN)?, exempt))
}

/// How many of `most` process numbers an exempt or other user may take.
pub fn numbers(most: usize, exempt: bool) -> usize {
    if exempt {
        most
    } else {
        user::share(most as u64) as usize
    }
}

/// The bounds of pipes that root may set.
pub mod pipes {
    use core::sync::atomic::AtomicUsize;

    /// Pages of all pipes of a user beyond which each gets two, and none may grow
    /// (`/proc/sys/fs/pipe-user-pages-soft`); 0: no bound.
    pub static SOFT: AtomicUsize = AtomicUsize::new(16384);

    /// Pages beyond which there are no more (`/proc/sys/fs/pipe-user-pages-hard`); 0: no bound.
    pub static HARD: AtomicUsize = AtomicUsize::new(0);
}

/// Pages that a user's pipes may take in the two ranges: a sixteenth of memory or what root has set, and an
/// eighth.
fn pipe_pages() -> (u64, u64) {
    let bound = |set: &AtomicUsize, most: u64| match set.load(Ordering::Relaxed) as u64 {
        0 => most,
        set => most.min(set),
    };
    let hard = bound(&pipes::HARD, pages() / 8);
    (bound(&pipes::SOFT, pages() / 16).min(hard), hard)
}

/// A pipe's queue: of `large` pages as long as the user's pipes are in the first range, of `small` ones in
/// the second. The pages. ENFILE.
pub fn pipe(large: u64, small: u64) -> Result<(Charge, u64)> {
    let payer = Payer::current();
    let (soft, hard) = pipe_pages();
    let charge = |pages: u64, most: u64| {
        let charge = payer.charge(Resource::PipePages, pages, most)?;
        Some((charge, pages))
    };
    charge(large, soft)
        .or_else(|| charge(small, hard))
        .ok_or(Errno::ENFILE)
}

/// Another queue of `pages` pages for a pipe, which `grows`. EPERM beyond the first range; one that shrinks
/// is given its own in the second. ENOMEM.
pub fn pipe_size(pages: u64, grows: bool) -> Result<Charge> {
    let (soft, hard) = pipe_pages();
    let charge =
        Payer::current().charge(Resource::PipePages, pages, if grows { soft } else { hard });
    charge.ok_or(if grows { Errno::EPERM } else { Errno::ENOMEM })
}

/// The queue of one direction of a connected socket: of `large` pages as long as the user's queues and pipes
/// take less than a sixteenth of memory, of `small` ones then, up to an eighth. The pages. ENOBUFS.
pub fn channel(large: u64, small: u64) -> Result<(Charge, u64)> {
    let payer = Payer::current();
    // For the exempt too: with thousands of connections large ones would take all there is.
    let few = payer.user().holds(Resource::PipePages) + large <= pages() / 16;
    let wanted = if few && vm::frame::admits(64 * large as usize) {
        large
    } else {
        small
    };
    let charge = payer.charge(Resource::PipePages, wanted, pages() / 8);
    Ok((charge.ok_or(Errno::ENOBUFS)?, wanted))
}

/// A message of `bytes` bytes between sockets: a user's may take a sixteenth of memory. ENOBUFS.
pub fn message(bytes: u64) -> Result<Charge> {
    let most = pages() * PAGE as u64 / 16;
    let charge = Payer::current().charge(Resource::Messages, bytes, most);
    charge.ok_or(Errno::ENOBUFS)
}

/// `count` descriptors in messages: as many as a process of the user may have. ETOOMANYREFS.
pub fn in_flight(count: u64) -> Result<Charge> {
    // One message more is let past, as on Linux.
    let most = caller::limit(RLIMIT_NOFILE).saturating_add(count);
    let charge = Payer::current().charge(Resource::Flying, count, most);
    charge.ok_or(Errno::ETOOMANYREFS)
}

/// An epoll instance's interest in a descriptor: a user's may take a twenty-fifth of memory. ENOSPC, ENOMEM.
pub fn watch() -> Result<Charge> {
    /// The memory of one, about, with its part of the tree.
    const BYTES: u64 = 384;
    /// Frames that are left for what the tree itself takes.
    const ROOM: usize = 32;
    let charge = bytes(BYTES).ok_or(Errno::ENOSPC)?;
    if vm::frame::admits(ROOM) {
        Ok(charge)
    } else {
        Err(Errno::ENOMEM)
    }
}

/// A descriptor table that takes `bytes`, for which `paid` was paid before: a user's large ones may take an
/// eighth of memory. ENOMEM.
pub fn table(paid: &mut Option<Charge>, bytes: u64) -> Result<()> {
    let most = pages() * PAGE as u64 / 8;
    let before = paid.as_ref().map_or(0, Charge::amount);
    let more = bytes.saturating_sub(before);
    if !vm::frame::admits((more as usize).div_ceil(PAGE)) {
        return Err(Errno::ENOMEM);
    }
    let Some(charge) = paid else {
        let charge = Payer::current().charge(Resource::Tables, bytes, most);
        *paid = Some(charge.ok_or(Errno::ENOMEM)?);
        return Ok(());
    };
    let most = if Payer::current().exempt {
        u64::MAX
    } else {
        most
    };
    retry_after_reclaim(|| charge.grow(more, most).then_some(())).ok_or(Errno::ENOMEM)
}

/// An instance of inotify: a user, the superuser too, may have `most`. EMFILE.
pub fn instance(most: u64) -> Result<Charge> {
    let payer = Payer::current();
    retry_after_reclaim(|| payer.user().charge(Resource::Instances, 1, most)).ok_or(Errno::EMFILE)
}

/// A mark of such an instance: a user may have `most`, and those may take a twenty-fifth of memory. ENOSPC,
/// ENOMEM.
pub fn mark(most: u64) -> Result<Charge> {
    /// The memory of one, about, with its parts of two trees.
    const BYTES: u64 = 384;
    /// Frames that are left for what the trees themselves take.
    const ROOM: usize = 32;
    let payer = Payer::current();
    let most = most.min(bytes_max() / BYTES);
    let charge = retry_after_reclaim(|| payer.user().charge(Resource::Watches, 1, most))
        .ok_or(Errno::ENOSPC)?;
    if vm::frame::admits(ROOM) {
        Ok(charge)
    } else {
        Err(Errno::ENOMEM)
    }
}

/// Bytes of kernel memory that one user's messages and events may take.
pub fn bytes_max() -> u64 {
    pages() * PAGE as u64 / 25
}

/// `bytes` of kernel memory for the running thread's user. `None`: that would be more than [`bytes_max`].
pub fn bytes(bytes: u64) -> Option<Charge> {
    Payer::current().charge(Resource::Bytes, bytes, bytes_max())
}

/// `bytes` of kernel memory for the user of `cred`. `None`: that would be more than [`bytes_max`].
pub fn bytes_for(cred: Arc<Cred>, bytes: u64) -> Option<Charge> {
    Payer::of(cred).charge(Resource::Bytes, bytes, bytes_max())
}

/// A queue of POSIX's that may come to hold `bytes`: as much as `RLIMIT_MSGQUEUE` says of all the user's, the
/// superuser's too. EMFILE.
pub fn queue(bytes: u64) -> Result<Charge> {
    let most = caller::limit(RLIMIT_MSGQUEUE);
    let payer = Payer::current();
    retry_after_reclaim(|| payer.user().charge(Resource::QueueBytes, bytes, most))
        .ok_or(Errno::EMFILE)
}

/// One whom somebody of `cred` traces, until its end has been asked for: a user's may take a twenty-fifth of
/// memory, with other things. ENOMEM.
pub fn tracee(cred: Arc<Cred>) -> Result<Charge> {
    /// The memory of one in the tracer's list, about, which may have twice the room it needs.
    const BYTES: u64 = 128;
    bytes_for(cred, BYTES).ok_or(Errno::ENOMEM)
}

/// A timer that is a file: a user may have as many as leave alarms for others. ENFILE.
pub fn timerfd() -> Result<Charge> {
    /// A quarter of the alarms of one CPU.
    const MOST: u64 = 1024;
    Payer::current()
        .charge(Resource::TimerFds, 1, MOST)
        .ok_or(Errno::ENFILE)
}

/// A pseudo-terminal: a user's may take an eighth of memory. ENOSPC, ENOMEM.
pub fn pty() -> Result<Charge> {
    /// Frames of one, about: its buffers, and the code of both sides.
    const FRAMES: u64 = 10;
    let most = pages() / 8 / FRAMES;
    let charge = Payer::current().charge(Resource::Terminals, 1, most);
    let charge = charge.ok_or(Errno::ENOSPC)?;
    if vm::frame::admits(2 * FRAMES as usize) {
        Ok(charge)
    } else {
        Err(Errno::ENOMEM)
    }
}

/// Pseudo-terminals that there may be on the machine (`/proc/sys/kernel/pty/max`).
pub const PTYS: usize = 4096;

/// Pseudo-terminals that there are.
static TERMINALS: AtomicUsize = AtomicUsize::new(0);

/// How many pseudo-terminals there are (`/proc/sys/kernel/pty/nr`).
pub fn ptys() -> usize {
    TERMINALS.load(Ordering::Relaxed)
}

/// There is one more.
pub fn pty_made() {
    TERMINALS.fetch_add(1, Ordering::Relaxed);
}

/// There is one less.
pub fn pty_gone() {
    TERMINALS.fetch_sub(1, Ordering::Relaxed);
}

/// Open file descriptions that there are.
static DESCRIPTIONS: AtomicUsize = AtomicUsize::new(0);

/// How many there may be before only the exempt get more: a sixteenth of memory, at a kilobyte each
/// (`/proc/sys/fs/file-max`).
#[inline]
pub fn descriptions_max() -> usize {
    match MOST.load(Ordering::Relaxed) {
        0 => count_descriptions(),
        most => most,
    }
}

static MOST: AtomicUsize = AtomicUsize::new(0);

#[cold]
fn count_descriptions() -> usize {
    let most = (pages() as usize * PAGE / 16 / 1024).max(1024);
    MOST.store(most, Ordering::Relaxed);
    most
}

/// There is a description more.
pub fn description_made() {
    DESCRIPTIONS.fetch_add(1, Ordering::Relaxed);
}

/// There is one less.
pub fn description_gone() {
    DESCRIPTIONS.fetch_sub(1, Ordering::Relaxed);
}

/// Whether a new description may be given a descriptor, whose ever it is. Must not sleep.
#[inline]
pub fn has_description() -> bool {
    DESCRIPTIONS.load(Ordering::Relaxed) < descriptions_max()
}

/// Whether a new description may be given a descriptor. ENFILE.
#[inline]
pub fn admit_description() -> Result<()> {
    let room = || (DESCRIPTIONS.load(Ordering::Relaxed) <= descriptions_max()).then_some(());
    if room().is_some() || Payer::current().exempt {
        Ok(())
    } else {
        retry_after_reclaim(room).ok_or(Errno::ENFILE)
    }
}
