//! The rule of access: whether a process may inspect or control another.
//!
//! *Interface*: [`may`] decides; [`with`] and [`space`] act while the decision holds, since an `exec` that
//! gives the process more rights waits meanwhile ([`CredGuard`]). A [`PtraceMode`] is Linux's mode.
//! [`set_dumpable`] and [`is_dumpable`] control whether processes with the same identity may read a process's
//! memory. [`scope`] is Yama's rule for tracing by the same user. A process may always access itself.
//!
//! Users of this rule: `ptrace`, the native operations on other processes, `/proc/PID`, `/syn/code/PID`,
//! robust lists. Limits, priorities and signals have their own rules on Linux, based only on users:
//! [`may_limit`], [`may_schedule`], [`crate::signal::may_signal`].
//!
//! Source: `ptrace_may_access` as ptrace(2) describes it.

use abi::errno::{Errno, Result};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, Ordering};
use vm::AddressSpace;

use super::{ArcSwap, Process, Task, tree};
use account::Cred;
use account::caller;
use account::capability::Capability;

/// Held during a permitted access to a process, and by `exec` while the process's rights change.
pub struct CredGuard;

/// The kind of access to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PtraceMode {
    /// To inspect through the file system: the caller's file-system ids and effective capabilities count.
    See,
    /// To inspect by a call: the caller's real ids and permitted capabilities count.
    Ask,
    /// To control it.
    Steer,
}

/// The process that may trace this one besides its ancestors, where the scope requires permission.
#[derive(Clone, Default)]
pub enum AllowedTracer {
    /// None.
    #[default]
    Nobody,
    /// This process and what descends from it.
    One(Weak<Process>),
    /// Every process of the same identity.
    Anybody,
}

/// Yama's scope: 0 the same user, 1 descendants only, 2 only with `CAP_SYS_PTRACE`, 3 none, for ever.
static SCOPE: AtomicU32 = AtomicU32::new(0);
const DESCENDANTS: u32 = 1;
const CAPABLE: u32 = 2;
const NEVER: u32 = 3;

/// The scope.
pub fn scope() -> u32 {
    SCOPE.load(Ordering::Relaxed)
}

/// Sets the scope, with the rights of `cred`. EPERM, EINVAL.
pub fn set_scope(cred: &Cred, new: u32) -> Result<()> {
    cred.need(Capability::SysPtrace)?;
    if new > NEVER {
        return Err(Errno::EINVAL);
    }
    let change = |old| (old != NEVER || new == NEVER).then_some(new);
    let changed = SCOPE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    changed.map(drop).map_err(|_| Errno::EINVAL)
}

/// The relation of one identity to another.
#[derive(Clone, Copy)]
struct Standing {
    /// It may trace every process.
    able: bool,
    /// All of the other's ids equal its own, and the other has no more capabilities. Not computed for an
    /// identity that may trace all.
    same: bool,
}

impl Standing {
    /// The relation of `mine` to `its`.
    fn between(mine: &Cred, its: &Cred, wish: PtraceMode) -> Standing {
        let (uid, gid, caps) = match wish {
            PtraceMode::See => (mine.fsuid, mine.fsgid, mine.caps.effective),
            PtraceMode::Ask | PtraceMode::Steer => (mine.uid, mine.gid, mine.caps.permitted),
        };
        let able = mine.has(Capability::SysPtrace);
        let same = !able && its.is_only(uid, gid) && caps.contains(its.caps.permitted);
        Standing { able, same }
    }

    /// The decision by identities and memory.
    fn allows(self, is_dumpable: impl FnOnce() -> bool) -> bool {
        self.able || (self.same && is_dumpable())
    }
}

/// Whether the scope lets `caller`, which is `able` to trace every process or not, control `process`.
fn in_scope(caller: &Arc<Process>, able: bool, process: &Process) -> bool {
    match scope() {
        0 => true,
        NEVER => false,
        CAPABLE => able,
        _ => {
            able || descends(process.pid, caller)
                || process
                    .threads
                    // Bound: **linear**: the threads of one process; nothing sleeps inside.
                    .lock()
                    .iter()
                    .any(|t| t.trace.tracer() == caller.pid)
                || match process.let_trace() {
                    AllowedTracer::Nobody => false,
                    AllowedTracer::Anybody => true,
                    AllowedTracer::One(one) => one
                        .upgrade()
                        .is_some_and(|one| !one.is_zombie() && descends(caller.pid, &one)),
                }
        }
    }
}

impl Process {
    fn let_trace(&self) -> AllowedTracer {
        // Bound: one counted handle.
        self.ptracer.lock().clone()
    }
}

/// Whether process `pid` is `ancestor`, or a child of one that descends from it.
fn descends(pid: i32, ancestor: &Process) -> bool {
    let mut at = pid;
    while at != ancestor.pid {
        match tree::find(at) {
            Some(process) if process.ppid() != 0 => at = process.ppid(),
            _ => return false,
        }
    }
    true
}

/// Whether what `process` has in memory may be read by processes of the same identity; a process without
/// memory has nothing to hide.
pub fn is_dumpable(process: &Process) -> bool {
    process
        .space
        .with(|space| space.is_none_or(|space| space.mark() == DUMPABLE))
}

/// The mark of a space whose process is dumpable.
pub const DUMPABLE: u32 = 1;

/// Sets whether `process`, and every process that shares its memory, is dumpable.
pub fn set_dumpable(process: &Process, dumpable: bool) {
    if let Some(space) = process.space() {
        space.set_mark(if dumpable { DUMPABLE } else { 0 });
    }
}

/// May the calling process access `process` as it wishes? EPERM. The answer holds only until `process`
/// executes a program, which [`with`] prevents.
pub fn may(process: &Process, wish: PtraceMode) -> Result<()> {
    match Task::here(|task| lets(task, process, &process.cred, wish)) {
        Some(true) => Ok(()),
        _ => Err(Errno::EPERM),
    }
}

/// Whether `task` may access `process`, with a thread that has the credentials `its`, as it wishes.
fn lets(task: &Task, process: &Process, its: &ArcSwap<Cred>, wish: PtraceMode) -> bool {
    let caller = &task.process;
    if core::ptr::eq(&**caller, process) {
        return true;
    }
    let between = |mine: &Cred, its: &Cred| Standing::between(mine, its, wish);
    let standing = task.cred.beside(its, between);
    // Dumpable or not is asked after the credentials: a change of them makes it undumpable before it shows.
    standing.allows(|| is_dumpable(process))
        && (wish != PtraceMode::Steer || in_scope(caller, standing.able, process))
}

/// Does `act` if the calling process [`may`], before `process` can become a program with more rights. EPERM.
pub fn with<R>(process: &Process, wish: PtraceMode, act: impl FnOnce() -> R) -> Result<R> {
    // Bound: one native operation, or beginning to trace, or a look: at a descriptor table a grace period may
    // be inside.
    let _rights = process.rights.lock();
    may(process, wish)?;
    Ok(act())
}

/// As [`with`], for a request that is written to a text which `opener` opened: its rights count and not those
/// of the writing process, not even to itself, since that may be a program with more rights, which writes
/// what it was told. The scope is asked about both. EPERM.
pub fn with_opener<R>(
    opener: &Cred,
    process: &Process,
    wish: PtraceMode,
    act: impl FnOnce() -> R,
) -> Result<R> {
    // Bound: as in `with`.
    let _rights = process.rights.lock();
    let permitted = Task::here(|task| {
        let standing = (process.cred).with(|its| Standing::between(opener, its, wish));
        standing.allows(|| is_dumpable(process))
            && (wish != PtraceMode::Steer || in_scope(&task.process, standing.able, process))
    });
    match permitted {
        Some(true) => Ok(act()),
        _ => Err(Errno::EPERM),
    }
}

/// As [`with`], of one thread, `task`.
pub fn with_thread<R>(task: &Task, wish: PtraceMode, act: impl FnOnce() -> R) -> Result<R> {
    with(&task.process, wish, || {
        match Task::here(|caller| lets(caller, &task.process, &task.cred, wish)) {
            Some(true) => Ok(act()),
            _ => Err(Errno::EPERM),
        }
    })?
}

/// The memory of `process`, for a permitted caller; an ended process has none. EPERM.
pub fn space(process: &Process, wish: PtraceMode) -> Result<Option<Arc<AddressSpace>>> {
    with(process, wish, || process.space())
}

/// A process together with the program that it ran when a permitted caller first inspected it. A program that
/// it executes later cannot be inspected through this.
pub struct AccessSnapshot {
    process: Arc<Process>,
    /// Nothing, of a process that had ended. It does not keep the memory.
    space: Weak<AddressSpace>,
}

impl AccessSnapshot {
    /// A look at `process`. EPERM.
    pub fn of(process: &Arc<Process>, wish: PtraceMode) -> Result<AccessSnapshot> {
        let space = space(process, wish)?;
        Ok(AccessSnapshot {
            process: process.clone(),
            space: space.map_or_else(Weak::new, |space| Arc::downgrade(&space)),
        })
    }

    /// Its memory, if that is still there.
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        self.space.upgrade()
    }

    /// The result of `look` as long as it runs that program.
    pub fn with<R>(&self, look: impl FnOnce(&Arc<Process>) -> R) -> Option<R> {
        // Bound: one look, one native operation, or beginning to trace, or a look: at a descriptor table a
        // grace period may be inside.
        let _rights = self.process.rights.lock();
        let (then, now) = (self.space.upgrade()?, self.process.space()?);
        Arc::ptr_eq(&then, &now).then(|| look(&self.process))
    }
}

/// The user and the group that own what `/proc` shows of `process`: its own, or the superuser's if it is not
/// dumpable.
pub fn owner_of(process: &Process) -> (u32, u32) {
    let owner = process.cred.with(|cred| (cred.euid, cred.egid));
    if is_dumpable(process) { owner } else { (0, 0) }
}

/// May the running process let its parent trace it? EPERM.
pub fn may_be_traced(child: &Process, parent: &Process) -> Result<()> {
    let (its, mine) = (child.cred_here(), parent.cred.get());
    let able = mine.has(Capability::SysPtrace);
    let scope = scope();
    if (able || mine.caps.permitted.contains(its.caps.permitted))
        && (scope <= DESCENDANTS || (scope == CAPABLE && able))
    {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// May the calling process see and set the limits of `process`? EPERM.
pub fn may_limit(process: &Process) -> Result<()> {
    let caller = Process::current();
    let (mine, its) = (caller.cred_here(), process.cred.get());
    if core::ptr::eq(&*caller, process)
        || its.is_only(mine.uid, mine.gid)
        || mine.has(Capability::SysResource)
    {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// May the running thread say when a thread with credentials `its` runs? EPERM.
pub fn may_schedule(its: &Cred) -> Result<()> {
    let mine = caller::cred();
    let same = [its.uid, its.euid].contains(&mine.euid);
    let no_more = mine.caps.permitted.contains(its.caps.permitted);
    if mine.has(Capability::SysNice) || (same && no_more) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(mine: &Cred, its: &Cred, dumpable: bool, wish: PtraceMode) -> bool {
        Standing::between(mine, its, wish).allows(|| dumpable)
    }

    #[test]
    fn all_users_and_groups_have_to_be_the_callers() {
        let me = Cred::ordinary(7, 8);
        for wish in [PtraceMode::See, PtraceMode::Ask, PtraceMode::Steer] {
            assert!(allows(&me, &Cred::ordinary(7, 8), true, wish));
            for field in 0..6 {
                let mut its = Cred::ordinary(7, 8);
                let ids = [
                    &mut its.uid,
                    &mut its.euid,
                    &mut its.suid,
                    &mut its.gid,
                    &mut its.egid,
                    &mut its.sgid,
                ];
                *ids.into_iter().nth(field).unwrap() = 0;
                assert!(!allows(&me, &its, true, wish), "{wish:?} {field}");
                assert!(allows(&Cred::root(), &its, false, wish));
            }
        }
    }

    #[test]
    fn not_what_was_something_else_before() {
        let me = Cred::ordinary(7, 8);
        assert!(!allows(&me, &Cred::ordinary(7, 8), false, PtraceMode::See));
    }

    #[test]
    fn nor_what_has_more_capabilities() {
        let (me, mut its) = (Cred::ordinary(7, 8), Cred::ordinary(7, 8));
        its.caps.permitted = account::capability::CapSet::of(&[Capability::Kill]);
        assert!(!allows(&me, &its, true, PtraceMode::Ask));
        let mut equal = me.clone();
        equal.caps.permitted = its.caps.permitted;
        assert!(allows(&equal, &its, true, PtraceMode::Ask));
        // Permitted but not effective capabilities do not count for files.
        assert!(!allows(&equal, &its, true, PtraceMode::See));
    }

    #[test]
    fn by_way_of_files_the_user_for_files_counts() {
        let mut me = Cred::ordinary(7, 8);
        me.fsuid = 9;
        assert!(!allows(&me, &Cred::ordinary(7, 8), true, PtraceMode::See));
        assert!(allows(&me, &Cred::ordinary(7, 8), true, PtraceMode::Steer));
    }
}
