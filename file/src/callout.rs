//! The questions of files about other processes, beyond those about the caller (`account::caller`).
//!
//! *Interface*: the functions here; the process room links them once ([`link`]). Before that, and where no
//! process runs, there is none. Those about their tables and directories are in [`crate::fdtable::tables`]
//! and [`crate::fs::context`].
//!
//! Source: dissertation, section 4.1.3 (callouts, and the default actions of unconnected ones).

use abi::errno::Result;
use abi::linux::Siginfo;
use account::Cred;
use alloc::sync::Arc;
use sync::{Once, WaitList};
use vm::AddressSpace;

/// A receiver of signals.
pub trait SignalArrivals: Send + Sync {
    /// Woken when one comes.
    fn arrivals(&self) -> &WaitList;
}

/// A receiver of signals about open files.
pub trait SignalReceiver: Send + Sync {
    /// Kind (`F_OWNER_…`) and number, 0 for an ended receiver.
    fn number(&self) -> (i32, i32);
    /// Sends the signal of `call` to all its processes that may be signalled. May sleep.
    fn tell(&self, call: &FileSignal);
}

/// The signal to send.
pub struct FileSignal {
    /// The chosen signal; a plain SIGIO if none was chosen, or there is no room for it.
    pub info: Option<Siginfo>,
    /// The identity that set the receiver.
    pub uid: u32,
    /// The same, as it was effective.
    pub euid: u32,
}

impl FileSignal {
    /// Whether the identity that set the receiver may signal `to` (Linux: `sigio_perm`).
    pub fn may_tell(&self, to: &Cred) -> bool {
        self.euid == 0
            || [self.euid, self.uid]
                .iter()
                .any(|id| *id == to.suid || *id == to.uid)
    }
}

/// A possible receiver, or none.
pub type FoundReceiver = Option<Arc<dyn SignalReceiver>>;
/// Is called with a space.
pub type EachSpace<'a> = &'a mut dyn FnMut(&AddressSpace);

/// The callouts.
pub struct Callouts {
    /// The running process, as one that is sent signals.
    pub arrivals: fn() -> Option<Arc<dyn SignalArrivals>>,
    /// Whether there is a process of this number.
    pub exists: fn(i32) -> bool,
    /// Finds the receiver by `F_OWNER_…` and a number; none for number 0. ESRCH, EINVAL, ENOMEM.
    pub signal_receiver: fn(i32, i32) -> Result<FoundReceiver>,
    /// Calls a function with the space of each process that has one.
    pub each_space: fn(EachSpace),
}

static LINKED: Once<&Callouts> = Once::new();

/// Links the callouts, at boot; the first call counts.
pub fn link(callouts: &'static Callouts) {
    let _first = LINKED.set(callouts);
}

/// The running process, as one that is sent signals.
pub fn arrivals() -> Option<Arc<dyn SignalArrivals>> {
    LINKED.get().and_then(|linked| (linked.arrivals)())
}

/// Whether there is a process `pid`.
pub fn exists(pid: i32) -> bool {
    LINKED.get().is_some_and(|linked| (linked.exists)(pid))
}

/// Finds the receiver by `kind` (`F_OWNER_…`) and `number`; none for number 0. ESRCH, EINVAL, ENOMEM.
pub fn signal_receiver(kind: i32, number: i32) -> Result<FoundReceiver> {
    match LINKED.get() {
        Some(linked) => (linked.signal_receiver)(kind, number),
        None => Ok(None),
    }
}

/// Calls `f` with the space of each process that has one. May sleep.
pub fn each_space(f: EachSpace) {
    if let Some(linked) = LINKED.get() {
        (linked.each_space)(f);
    }
}
