//! The running process: the questions of files, pipes and sockets about their caller, without knowing
//! processes.
//!
//! *Interface*: [`cred`], [`number`], [`limit`], [`is_dying`] and [`send_signal`] are about the running
//! thread's process; a room above links them once ([`link`]). Where no process runs (at boot, in a thread of
//! the kernel, before [`link`]) the caller has no rights, and no limits, and no signals are sent. Work of the
//! kernel's own that needs rights says so: it passes [`Cred::root`], or asks for [`cred_or_kernel`].
//!
//! Source: dissertation, section 4.1.3 (callouts, and the default actions of unconnected ones).

use alloc::sync::Arc;

use sync::Once;

use crate::Cred;

/// The callouts, all about the running thread. `None`: no process runs.
pub struct Callouts {
    /// The identity of its process.
    pub cred: fn() -> Option<Arc<Cred>>,
    /// For generated code: the offset of a word in what the running thread's owner word leads to, and, from
    /// where that word leads to, the offset of a word with the address of [`Callouts::cred`]'s identity.
    pub cred_at: [i32; 2],
    /// The number of its process.
    pub number: fn() -> Option<i32>,
    /// The soft limit `RLIMIT_…` of its process.
    pub limit: fn(usize) -> Option<u64>,
    /// Whether it is to end as soon as it gets to user mode.
    pub is_dying: fn() -> bool,
    /// Sends it a signal of the kernel's. One that cannot be told is not.
    pub tell: fn(i32),
    /// Gives up what is kept only because it may serve again, and counts for a user meanwhile.
    pub let_go: fn(),
}

static LINKED: Once<&Callouts> = Once::new();

/// Links the callouts, at boot; the first call counts.
pub fn link(callouts: &'static Callouts) {
    let _first = LINKED.set(callouts);
}

/// The identity of the running process, if one runs.
#[inline]
pub fn try_cred() -> Option<Arc<Cred>> {
    LINKED.get().and_then(|linked| (linked.cred)())
}

/// The identity of the running process; one without rights, if none runs.
#[inline]
pub fn cred() -> Arc<Cred> {
    try_cred().unwrap_or_else(|| Cred::nobody().sealed())
}

/// The identity of the running process; the superuser's, if none runs: for what the kernel does at boot and
/// in its threads, where nothing that a user chose decides what is done.
#[inline]
pub fn cred_or_kernel() -> Arc<Cred> {
    try_cred().unwrap_or_else(|| Cred::root().sealed())
}

/// [`Callouts::cred_at`], once it is linked.
pub fn cred_at() -> Option<[i32; 2]> {
    LINKED.get().map(|linked| linked.cred_at)
}

/// The number of the running process, 0 if none runs.
pub fn number() -> i32 {
    LINKED
        .get()
        .and_then(|linked| (linked.number)())
        .unwrap_or(0)
}

/// The soft limit `which` (`RLIMIT_…`) of the running process, all ones if none runs.
pub fn limit(which: usize) -> u64 {
    let limit = LINKED.get().and_then(|linked| (linked.limit)(which));
    limit.unwrap_or(u64::MAX)
}

/// Whether the running thread is to end as soon as it gets to user mode. A long call checks this at
/// intervals, if it does not sleep where a signal would end it.
pub fn is_dying() -> bool {
    LINKED.get().is_some_and(|linked| (linked.is_dying)())
}

/// Sends the running thread `signo`, as the kernel does. No monitor is held.
pub fn send_signal(signo: i32) {
    if let Some(linked) = LINKED.get() {
        (linked.tell)(signo);
    }
}

/// Gives up what counts for users only because it waits to serve again. Thread context.
pub(crate) fn let_go() {
    if let Some(linked) = LINKED.get() {
        (linked.let_go)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capability;
    use crate::capability::CapSet;

    #[test]
    fn without_a_process_nobody_has_rights() {
        assert!(try_cred().is_none());
        let cred = cred();
        assert_ne!(cred.fsuid, 0);
        assert_ne!(cred.euid, 0);
        assert_eq!(cred.caps.permitted, CapSet::NONE);
        assert_eq!(cred.caps.effective, CapSet::NONE);
        assert!(cred.need(Capability::SysAdmin).is_err());
        assert!(cred_or_kernel().has(Capability::SysAdmin));
    }
}
