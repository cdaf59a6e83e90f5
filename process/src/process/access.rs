//! The one rule of access: who may look into another process, or steer it.
//!
//! *Interface*: [`may`] asks; [`with`] and [`space`] do something while the answer holds, for an `exec` that
//! gives the process more rights waits meanwhile ([`Rights`]). A [`Wish`] is Linux's mode. [`set_dumpable`]
//! and [`is_dumpable`] say whether what a process has in memory may be seen by who has the same identity.
//! [`scope`] is Yama's: whom the same user may trace. Who asks about himself is always answered yes.
//!
//! Users of this rule: `ptrace`, the native operations on other processes, `/proc/PID`, `/syn/code/PID`,
//! robust lists. Limits, priorities and signals have rules of their own on Linux, by users alone:
//! [`may_limit`], [`may_schedule`], [`crate::signal::may_signal`].
//!
//! Source: `ptrace_may_access` as ptrace(2) describes it.

use abi::errno::{Errno, Result};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, Ordering};
use vm::AddressSpace;

use super::{Process, Task, tree};
use account::Cred;
use account::capability::Capability;

/// Held while somebody is let at a process, and by `exec` while the process gets other rights.
pub struct Rights;

/// What somebody wants of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To look by way of the file system: the caller's identity for files counts, and what it may now.
    See,
    /// To look by a call: the caller's real identity counts, and what it might.
    Ask,
    /// To change what it does.
    Steer,
}

/// Whom a process lets trace itself besides its ancestors, where the scope asks.
#[derive(Clone, Default)]
pub enum Ptracer {
    /// Nobody.
    #[default]
    Nobody,
    /// This process and what descends from it.
    One(Weak<Process>),
    /// Everybody of the same identity.
    Anybody,
}

/// Yama's scope: 0 the same user, 1 descendants only, 2 only who has `CAP_SYS_PTRACE`, 3 nobody, for ever.
static SCOPE: AtomicU32 = AtomicU32::new(0);
const DESCENDANTS: u32 = 1;
const CAPABLE: u32 = 2;
const NEVER: u32 = 3;

/// The scope.
pub fn scope() -> u32 {
    SCOPE.load(Ordering::Relaxed)
}

/// Sets the scope. EPERM, EINVAL.
pub fn set_scope(new: u32) -> Result<()> {
    Process::current().cred.get().need(Capability::SysPtrace)?;
    if new > NEVER {
        return Err(Errno::EINVAL);
    }
    let change = |old| (old != NEVER || new == NEVER).then_some(new);
    let changed = SCOPE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    changed.map(drop).map_err(|_| Errno::EINVAL)
}

/// How one identity stands to another.
#[derive(Clone, Copy)]
struct Standing {
    /// It may trace everybody.
    able: bool,
    /// All of the other's identity is its own, and the other may no more. Not asked of who is able.
    same: bool,
}

impl Standing {
    /// How `mine` stands to `its`.
    fn between(mine: &Cred, its: &Cred, wish: Wish) -> Standing {
        let (uid, gid, caps) = match wish {
            Wish::See => (mine.fsuid, mine.fsgid, mine.caps.effective),
            Wish::Ask | Wish::Steer => (mine.uid, mine.gid, mine.caps.permitted),
        };
        let able = mine.has(Capability::SysPtrace);
        let same = !able && its.is_only(uid, gid) && caps.contains(its.caps.permitted);
        Standing { able, same }
    }

    /// What identities and memory say.
    fn allows(self, is_dumpable: impl FnOnce() -> bool) -> bool {
        self.able || (self.same && is_dumpable())
    }
}

/// Whether the scope lets `caller`, which is `able` to trace everybody or not, steer `process`.
fn in_scope(caller: &Arc<Process>, able: bool, process: &Process) -> bool {
    match scope() {
        0 => true,
        NEVER => false,
        CAPABLE => able,
        _ => {
            able || descends(process.pid, caller)
                || process
                    .threads
                    .lock()
                    .iter()
                    .any(|t| t.trace.tracer() == caller.pid)
                || match process.let_trace() {
                    Ptracer::Nobody => false,
                    Ptracer::Anybody => true,
                    Ptracer::One(one) => one
                        .upgrade()
                        .is_some_and(|one| !one.is_zombie() && descends(caller.pid, &one)),
                }
        }
    }
}

impl Process {
    fn let_trace(&self) -> Ptracer {
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

/// Whether what `process` has in memory may be seen by who has the same identity; a process without memory
/// has nothing to hide.
pub fn is_dumpable(process: &Process) -> bool {
    process
        .space
        .with(|space| space.is_none_or(|space| space.mark() == DUMPABLE))
}

/// The mark of a space whose process is dumpable.
pub const DUMPABLE: u32 = 1;

/// Says whether `process`, and whoever shares its memory, is dumpable.
pub fn set_dumpable(process: &Process, dumpable: bool) {
    if let Some(space) = process.space() {
        space.set_mark(if dumpable { DUMPABLE } else { 0 });
    }
}

/// May the calling process do to `process` what it wishes? EPERM. The answer holds only as long as `process`
/// executes no program: [`with`] keeps it from that.
pub fn may(process: &Process, wish: Wish) -> Result<()> {
    match Task::here(|task| lets(&task.process, process, wish)) {
        Some(true) => Ok(()),
        _ => Err(Errno::EPERM),
    }
}

/// Whether `caller` may do to `process` what it wishes.
fn lets(caller: &Arc<Process>, process: &Process, wish: Wish) -> bool {
    if core::ptr::eq(&**caller, process) {
        return true;
    }
    let between = |mine: &Cred, its: &Cred| Standing::between(mine, its, wish);
    let standing = caller.cred.beside(&process.cred, between);
    // Dumpable or not is asked after the credentials: a change of them makes it undumpable before it shows.
    standing.allows(|| is_dumpable(process))
        && (wish != Wish::Steer || in_scope(caller, standing.able, process))
}

/// Does `act` if the calling process [`may`], before `process` can become a program with more rights. EPERM.
pub fn with<R>(process: &Process, wish: Wish, act: impl FnOnce() -> R) -> Result<R> {
    let _rights = process.rights.lock();
    may(process, wish)?;
    Ok(act())
}

/// The memory of `process`, for who may see it; none has a process that has ended. EPERM.
pub fn space(process: &Process, wish: Wish) -> Result<Option<Arc<AddressSpace>>> {
    with(process, wish, || process.space())
}

/// A process as the program that it was when somebody who might looked first. What it becomes by executing
/// another is not seen by way of this.
pub struct Sight {
    process: Arc<Process>,
    /// Nothing, of a process that had ended. It does not keep the memory.
    space: Weak<AddressSpace>,
}

impl Sight {
    /// A look at `process`. EPERM.
    pub fn of(process: &Arc<Process>, wish: Wish) -> Result<Sight> {
        let space = space(process, wish)?;
        Ok(Sight {
            process: process.clone(),
            space: space.map_or_else(Weak::new, |space| Arc::downgrade(&space)),
        })
    }

    /// Its memory, if that is still there.
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        self.space.upgrade()
    }

    /// What `look` finds as long as it is that program.
    pub fn with<R>(&self, look: impl FnOnce(&Arc<Process>) -> R) -> Option<R> {
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
    let (its, mine) = (child.cred.get(), parent.cred.get());
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
    let (mine, its) = (caller.cred.get(), process.cred.get());
    if core::ptr::eq(&*caller, process)
        || its.is_only(mine.uid, mine.gid)
        || mine.has(Capability::SysResource)
    {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// May the calling process say when the threads of `process` run? EPERM.
pub fn may_schedule(process: &Process) -> Result<()> {
    let (mine, its) = (Process::current().cred.get(), process.cred.get());
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

    fn allows(mine: &Cred, its: &Cred, dumpable: bool, wish: Wish) -> bool {
        Standing::between(mine, its, wish).allows(|| dumpable)
    }

    #[test]
    fn all_users_and_groups_have_to_be_the_callers() {
        let me = Cred::ordinary(7, 8);
        for wish in [Wish::See, Wish::Ask, Wish::Steer] {
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
        assert!(!allows(&me, &Cred::ordinary(7, 8), false, Wish::See));
    }

    #[test]
    fn nor_what_has_more_capabilities() {
        let (me, mut its) = (Cred::ordinary(7, 8), Cred::ordinary(7, 8));
        its.caps.permitted = account::capability::Set::of(&[Capability::Kill]);
        assert!(!allows(&me, &its, true, Wish::Ask));
        let mut equal = me.clone();
        equal.caps.permitted = its.caps.permitted;
        assert!(allows(&equal, &its, true, Wish::Ask));
        // What might be made effective does not count for files.
        assert!(!allows(&equal, &its, true, Wish::See));
    }

    #[test]
    fn by_way_of_files_the_user_for_files_counts() {
        let mut me = Cred::ordinary(7, 8);
        me.fsuid = 9;
        assert!(!allows(&me, &Cred::ordinary(7, 8), true, Wish::See));
        assert!(allows(&me, &Cred::ordinary(7, 8), true, Wish::Steer));
    }
}
