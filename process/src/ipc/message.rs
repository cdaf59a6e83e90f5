//! Message queues.
//!
//! *Interface*: [`QUEUES`]; [`MessageQueue::new`], [`send`], [`receive`], [`stat`]; [`limits`] for
//! `/proc/sys/kernel`.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use codegen::fault_injection::refused;
use core::sync::atomic::Ordering;
use sync::{Monitor, WaitList};

use super::{IpcEntry, IpcNamespace, seconds};
use account::quota;
use account::user::Charge;

/// All queues.
pub static QUEUES: IpcNamespace<MessageQueue> = IpcNamespace::new(32000);

/// The limits, which can be set.
pub mod limits {
    use core::sync::atomic::AtomicUsize;

    /// Bytes of one message (`msgmax`).
    pub static MESSAGE: AtomicUsize = AtomicUsize::new(8192);
    /// Bytes of a new queue (`msgmnb`).
    pub static QUEUE: AtomicUsize = AtomicUsize::new(16384);
}

/// Bytes that a message takes beside its text, about.
const HEAD: u64 = 64;

/// One queue.
pub struct MessageQueue {
    waiting: Monitor<Letters>,
    came: WaitList,
    went: WaitList,
}

struct Letters {
    messages: VecDeque<Message>,
    bytes: u64,
    most: u64,
    stime: i64,
    rtime: i64,
    ctime: i64,
    lspid: i32,
    lrpid: i32,
}

/// One message.
pub struct Message {
    /// Its type, at least 1.
    pub kind: i64,
    /// Its text.
    pub text: Vec<u8>,
    /// The sender's charge; none for a copy.
    charge: Option<Charge>,
}

impl MessageQueue {
    /// An empty queue.
    pub fn new() -> MessageQueue {
        MessageQueue {
            waiting: Monitor::new(Letters {
                messages: VecDeque::new(),
                bytes: 0,
                most: limits::QUEUE.load(Ordering::Relaxed) as u64,
                stime: 0,
                rtime: 0,
                ctime: seconds(),
                lspid: 0,
                lrpid: 0,
            }),
            came: WaitList::new(),
            went: WaitList::new(),
        }
    }

    /// It can no longer be found.
    pub fn wake_all(&self) {
        self.came.wake_all();
        self.went.wake_all();
    }

    /// Its owner or mode has changed, and as many bytes may wait.
    pub fn change(&self, most: u64) {
        // Bound: a few words.
        let mut waiting = self.waiting.lock();
        (waiting.most, waiting.ctime) = (most, seconds());
        drop(waiting);
        self.wake_all();
    }
}

impl Default for MessageQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Message {
    /// A message of the running process's user. ENOMEM.
    pub fn new(kind: i64, text: Vec<u8>) -> Result<Message> {
        let charge = quota::bytes(HEAD + text.len() as u64).ok_or(Errno::ENOMEM)?;
        Ok(Message {
            kind,
            text,
            charge: Some(charge),
        })
    }
}

/// The data for `IPC_STAT`.
pub fn stat(entry: &IpcEntry<MessageQueue>) -> MsqidDs {
    let perm = entry.perm();
    // Bound: a few words.
    let waiting = entry.object.waiting.lock();
    MsqidDs {
        perm,
        stime: waiting.stime,
        rtime: waiting.rtime,
        ctime: waiting.ctime,
        cbytes: waiting.bytes,
        qnum: waiting.messages.len() as u64,
        qbytes: waiting.most,
        lspid: waiting.lspid,
        lrpid: waiting.lrpid,
        ..MsqidDs::default()
    }
}

/// Puts `message` into the queue, for process `pid`, as soon as there is room. EAGAIN, EIDRM, EINTR, ENOMEM.
#[expect(clippy::disallowed_methods, reason = "room may be refused")]
pub fn send(entry: &IpcEntry<MessageQueue>, pid: i32, message: Message, flags: u32) -> Result<()> {
    let queue = &entry.object;
    let length = message.text.len() as u64;
    let mut message = Some(message);
    let attempt = || {
        if entry.is_removed() {
            return Some(Err(Errno::EIDRM));
        }
        // Bound: **linear** in the messages of one queue.
        let mut waiting = queue.waiting.lock();
        let room = waiting.bytes + length <= waiting.most
            && (waiting.messages.len() as u64) < waiting.most;
        if !room {
            return (flags & IPC_NOWAIT != 0).then_some(Err(Errno::EAGAIN));
        }
        if refused() || waiting.messages.try_reserve(1).is_err() {
            return Some(Err(Errno::ENOMEM));
        }
        waiting.messages.extend(message.take());
        waiting.bytes += length;
        (waiting.stime, waiting.lspid) = (seconds(), pid);
        Some(Ok(()))
    };
    let sent = queue.went.wait_interruptible(attempt);
    sent.map_err(|_| Errno::EINTR)??;
    queue.came.wake_all();
    Ok(())
}

/// Which message `wanted` and `flags` mean.
fn choose(messages: &VecDeque<Message>, wanted: i64, flags: u32) -> Option<usize> {
    if flags & MSG_COPY != 0 {
        let place = usize::try_from(wanted).ok()?;
        return (place < messages.len()).then_some(place);
    }
    match wanted {
        0 => (!messages.is_empty()).then_some(0),
        1.. if flags & MSG_EXCEPT != 0 => messages.iter().position(|one| one.kind != wanted),
        1.. => messages.iter().position(|one| one.kind == wanted),
        _ => {
            let highest = wanted.unsigned_abs().min(i64::MAX as u64) as i64;
            let kinds = messages.iter().enumerate().map(|(at, one)| (one.kind, at));
            let lowest = kinds.filter(|&(kind, _)| kind <= highest).min();
            lowest.map(|(_, at)| at)
        }
    }
}

/// Takes a message that `wanted` and `flags` mean, for process `pid`, of at most `room` bytes. E2BIG, ENOMSG,
/// EIDRM, EINTR, ENOMEM.
pub fn receive(
    entry: &IpcEntry<MessageQueue>,
    pid: i32,
    room: usize,
    wanted: i64,
    flags: u32,
) -> Result<Message> {
    let queue = &entry.object;
    let attempt = || {
        if entry.is_removed() {
            return Some(Err(Errno::EIDRM));
        }
        let mut waiting = queue.waiting.lock();
        let Some(place) = choose(&waiting.messages, wanted, flags) else {
            return (flags & IPC_NOWAIT != 0).then_some(Err(Errno::ENOMSG));
        };
        let message = waiting.messages.get(place)?;
        if message.text.len() > room && flags & MSG_NOERROR == 0 {
            return Some(Err(Errno::E2BIG));
        }
        if flags & MSG_COPY != 0 {
            let copy = vm::fallible::try_copy(&message.text);
            let kind = message.kind;
            return Some(copy.map(|text| Message {
                kind,
                text,
                charge: None,
            }));
        }
        let message = waiting.messages.remove(place)?;
        waiting.bytes -= message.text.len() as u64;
        (waiting.rtime, waiting.lrpid) = (seconds(), pid);
        Some(Ok(message))
    };
    let received = queue.came.wait_interruptible(attempt);
    let mut message = received.map_err(|_| Errno::EINTR)??;
    message.charge = None;
    queue.went.wake_all();
    Ok(message)
}
