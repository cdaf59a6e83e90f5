//! The notification of a queue's first message: by a signal, or by a message to a socket on which a thread of
//! the C library waits.
//!
//! *Interface*: [`QueueNotify::new`] is of the running process; [`QueueNotify::ring`] and
//! [`QueueNotify::remove`] are its two ends.
//!
//! A process that executes another program meanwhile gets no notification.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::{Arc, Weak};
use vm::AddressSpace;

use crate::process::{Process, Task};
use crate::signal;
use file::close_cleanup::CloseCleanup;
use file::socket::{Socket, netlink};

/// Bytes of a message to such a socket.
pub const COOKIE: usize = 32;

/// Last of these bytes: a message came, or the registration was removed.
const WOKEN: u8 = 1;
const REMOVED: u8 = 2;

/// The kind of notification.
pub enum NotifyKind {
    /// None, but no other process can register.
    Silent,
    /// By a signal with a value.
    Signal(i32, u64),
    /// By these bytes to this socket.
    Socket(Arc<Socket>, [u8; COOKIE]),
}

/// The registered process and the kind of notification.
pub struct QueueNotify {
    owner: Weak<Process>,
    /// The program that ran at the registration.
    space: Weak<AddressSpace>,
    way: NotifyKind,
    _tie: CloseCleanup,
}

impl QueueNotify {
    /// For the running process.
    pub fn new(way: NotifyKind) -> QueueNotify {
        let process = Process::current();
        let space = process.space();
        QueueNotify {
            owner: Arc::downgrade(&process),
            space: space.map_or_else(Weak::new, |space| Arc::downgrade(&space)),
            way,
            _tie: CloseCleanup::new(),
        }
    }

    /// Its kind and its signal, as the file tells them.
    pub fn shown(&self) -> (i32, i32) {
        match self.way {
            NotifyKind::Silent => (SIGEV_NONE, 0),
            NotifyKind::Signal(signo, _) => (SIGEV_SIGNAL, signo),
            NotifyKind::Socket(..) => (SIGEV_THREAD, 0),
        }
    }

    /// Whether it is of `process`.
    pub fn is_of(&self, process: &Process) -> bool {
        core::ptr::eq(self.owner.as_ptr(), process)
    }

    /// Its process.
    pub fn owner(&self) -> Weak<Process> {
        self.owner.clone()
    }

    /// A message came.
    pub fn ring(self) {
        match &self.way {
            NotifyKind::Silent => {}
            NotifyKind::Signal(signo, value) => self.by_signal(*signo, *value),
            NotifyKind::Socket(socket, cookie) => pass(socket, cookie, WOKEN),
        }
    }

    fn by_signal(&self, signo: i32, value: u64) {
        let Some(owner) = self.owner.upgrade() else {
            return;
        };
        let same = owner
            .space()
            .is_some_and(|space| core::ptr::eq(self.space.as_ptr(), &*space));
        if !same || signo == 0 {
            return;
        }
        let (pid, uid) =
            Task::here(|task| (task.process.pid, task.cred.get().uid)).unwrap_or_default();
        let mut info = Siginfo::sent(signo, SI_MESGQ, pid, uid);
        info.fields[1] = value;
        // With too many waiting already this one is lost, as on Linux.
        let _ = signal::send(&owner, None, info);
    }

    /// Removes the registration.
    pub fn remove(self) {
        if let NotifyKind::Socket(socket, cookie) = &self.way {
            pass(socket, cookie, REMOVED);
        }
    }
}

/// Whether this process has not ended.
pub fn is_there(process: &Weak<Process>) -> bool {
    process.upgrade().is_some_and(|one| !one.is_zombie())
}

fn pass(socket: &Socket, cookie: &[u8; COOKIE], last: u8) {
    let mut bytes = *cookie;
    if let Some(byte) = bytes.last_mut() {
        *byte = last;
    }
    netlink::pass(socket, &bytes);
}

/// The socket behind descriptor number `fd` of the running process, ready for the notification. EBADF,
/// ENOTSOCK, EINVAL, ENOMEM.
pub fn listener(fd: i32) -> Result<Arc<Socket>> {
    let of = Process::current().files.get().opened(fd)?;
    let socket = Socket::of(&of)?;
    if socket.family.number() != AF_NETLINK {
        return Err(Errno::EINVAL);
    }
    netlink::enlist(socket)?;
    Ok(socket.clone())
}
