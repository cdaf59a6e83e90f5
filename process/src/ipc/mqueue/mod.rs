//! POSIX message queues: messages by priority, under names in a file system of their own.
//!
//! *Interface*: [`PosixQueue::post`] and [`PosixQueue::take_first`]; [`names`] finds, makes and removes;
//! [`notice`] is the notification of a queue's first message; [`of`] finds the queue behind a description.
//! [`limits`] are for `/proc/sys/fs/mqueue`.
//!
//! Threads that wait for a message or for room are in the queue's own lists, so later threads are served
//! later: a sender hands its message to a waiting receiver, and a receiver moves a waiting sender's message
//! into the queue. The number of threads in `take_first` always equals the sum of `receivers` and `handed`.
//!
//! Source: mq_overview(7).

mod file;
pub mod names;
pub mod notice;

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use codegen::fault_injection::refused;
use core::sync::atomic::{AtomicBool, Ordering};
use sync::{Monitor, WaitList};

pub use file::of;
use notice::QueueNotify;

use crate::process::Process;
use crate::time::{WaitEnded, wait_deadline};
use ::file::fs::now;
use ::file::fs::ownership::Ownership;
use account::quota;
use account::user::Charge;
use account::{Capability, Cred};

/// The limits, which can be set.
pub mod limits {
    use core::sync::atomic::AtomicUsize;

    /// Queues that there may be (`queues_max`).
    pub static QUEUES: AtomicUsize = AtomicUsize::new(256);
    /// Messages of a queue (`msg_max`).
    pub static MESSAGES: AtomicUsize = AtomicUsize::new(10);
    /// Bytes of a message (`msgsize_max`).
    pub static BYTES: AtomicUsize = AtomicUsize::new(8192);
    /// Messages of a queue without an explicit number (`msg_default`).
    pub static MESSAGES_DEFAULT: AtomicUsize = AtomicUsize::new(10);
    /// Bytes of a message there (`msgsize_default`).
    pub static BYTES_DEFAULT: AtomicUsize = AtomicUsize::new(8192);

    /// No queue has more messages.
    pub const MESSAGES_HARD: usize = 65536;
    /// No message has more bytes.
    pub const BYTES_HARD: usize = 16 << 20;
}

/// Bytes that a message counts beside its text, and so for its place in the order, as on Linux.
const HEAD: u64 = 48;

/// One queue.
pub struct PosixQueue {
    /// Number of its inode.
    ino: u64,
    /// As many messages go in.
    most: usize,
    /// Bytes of the longest.
    size: usize,
    node: Monitor<Ownership>,
    state: Monitor<Contents>,
    /// There is a message.
    came: WaitList,
    /// There is room.
    went: WaitList,
    /// It has a name.
    named: AtomicBool,
    /// The creator's charge for the queue's full capacity.
    _charge: Charge,
}

#[derive(Default)]
struct Contents {
    /// By falling priority; of one priority the oldest first.
    messages: VecDeque<Message>,
    /// Bytes of all messages.
    bytes: u64,
    /// Threads that wait for a message and have none yet.
    receivers: usize,
    /// The messages handed to receivers. There is room for as many as wait.
    handed: VecDeque<Message>,
    /// The messages that wait for room, oldest first, with their senders' tickets.
    senders: VecDeque<(u64, Message)>,
    ticket: u64,
    notice: Option<QueueNotify>,
}

/// One message.
pub struct Message {
    /// Its priority.
    pub priority: u32,
    /// Its text.
    pub text: Vec<u8>,
    /// The sender's charge.
    _charge: Charge,
}

impl Message {
    /// A message of the running process's user. ENOMEM.
    pub fn new(priority: u32, text: Vec<u8>) -> Result<Message> {
        let charge = quota::bytes(HEAD + text.len() as u64).ok_or(Errno::ENOMEM)?;
        Ok(Message {
            priority,
            text,
            _charge: charge,
        })
    }
}

/// Room for one more in `list`. ENOMEM.
#[expect(clippy::disallowed_methods, reason = "room may be refused")]
fn room<T>(list: &mut VecDeque<T>, more: usize) -> Result<()> {
    if refused() || list.try_reserve(more).is_err() {
        return Err(Errno::ENOMEM);
    }
    Ok(())
}

impl Contents {
    /// Puts `message` in its place, for which there is room.
    #[expect(clippy::disallowed_methods, reason = "there is room")]
    fn sort_in(&mut self, message: Message) {
        let before = |other: &Message| other.priority >= message.priority;
        let place = self.messages.partition_point(before);
        self.bytes += message.text.len() as u64;
        self.messages.insert(place, message);
    }

    /// Hands `message` to a waiting receiver, if there is one.
    #[expect(clippy::disallowed_methods, reason = "there is room")]
    fn hand(&mut self, message: Message) {
        self.receivers -= 1;
        self.handed.push_back(message);
    }

    /// Keeps `message` until there is room, under the ticket that is answered. ENOMEM.
    #[expect(clippy::disallowed_methods, reason = "there is room")]
    fn keep(&mut self, message: Message) -> Result<u64> {
        room(&mut self.senders, 1)?;
        let ticket = self.ticket;
        self.ticket += 1;
        self.senders.push_back((ticket, message));
        Ok(ticket)
    }
}

fn interrupted(ended: WaitEnded) -> Errno {
    match ended {
        WaitEnded::TimedOut => Errno::ETIMEDOUT,
        WaitEnded::Interrupted => Errno::ERESTARTSYS,
    }
}

impl PosixQueue {
    /// A queue with number `ino` for `cred`, with the numbers of `wanted` or the defaults. EINVAL; EMFILE:
    /// `RLIMIT_MSGQUEUE`.
    fn new(ino: u64, mode: u32, cred: &Cred, wanted: Option<&MqAttr>) -> Result<PosixQueue> {
        let get = |at: &core::sync::atomic::AtomicUsize| at.load(Ordering::Relaxed);
        let (most_max, size_max) = (get(&limits::MESSAGES), get(&limits::BYTES));
        let (most, size) = match wanted {
            None => (
                most_max.min(get(&limits::MESSAGES_DEFAULT)),
                size_max.min(get(&limits::BYTES_DEFAULT)),
            ),
            Some(attr) => {
                let bounds = match cred.has(Capability::SysResource) {
                    true => (limits::MESSAGES_HARD, limits::BYTES_HARD),
                    false => (most_max, size_max),
                };
                let number = |wanted: i64, most: usize| {
                    let number = usize::try_from(wanted).ok();
                    number.filter(|number| (1..=most).contains(number))
                };
                let most = number(attr.maxmsg, bounds.0).ok_or(Errno::EINVAL)?;
                let size = number(attr.msgsize, bounds.1).ok_or(Errno::EINVAL)?;
                (most, size)
            }
        };
        let heads = HEAD * (most + most.min(MQ_PRIO_MAX as usize)) as u64;
        let charge = quota::queue(most as u64 * size as u64 + heads)?;
        Ok(PosixQueue {
            ino,
            most,
            size,
            node: Monitor::new(Ownership::new(S_IFREG | mode, cred.fsuid, cred.fsgid)),
            state: Monitor::default(),
            came: WaitList::new(),
            went: WaitList::new(),
            named: AtomicBool::new(true),
            _charge: charge,
        })
    }

    /// Bytes of the longest message.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The result of `mq_getattr`, except for the flags of the description.
    pub fn attr(&self) -> MqAttr {
        MqAttr {
            maxmsg: self.most as i64,
            msgsize: self.size as i64,
            // Bound: **linear** in the messages of one queue, at most 65,536 (10 unless root says otherwise),
            // half of which are moved up, and in the senders that wait there.
            curmsgs: self.state.lock().messages.len() as i64,
            ..MqAttr::default()
        }
    }

    /// Something was asked or changed.
    pub fn touch(&self, modified: bool) {
        let now = now();
        // Bound: a few words.
        let mut node = self.node.lock();
        (node.atime, node.ctime) = (now, now);
        if modified {
            node.mtime = now;
        }
    }

    /// Puts `message` into the queue as soon as there is room: before `deadline`. EAGAIN, ETIMEDOUT,
    /// ERESTARTSYS, ENOMEM.
    pub fn post(&self, message: Message, waits: bool, deadline: Option<u64>) -> Result<()> {
        let mut state = self.state.lock();
        if state.messages.len() < self.most {
            let mut told = None;
            if state.receivers > 0 {
                state.hand(message);
            } else {
                room(&mut state.messages, 1)?;
                state.sort_in(message);
                if state.messages.len() == 1 {
                    told = state.notice.take();
                }
            }
            drop(state);
            if let Some(notice) = told {
                notice.ring();
            }
            self.touch(true);
            self.came.wake_all();
            return Ok(());
        }
        if !waits {
            return Err(Errno::EAGAIN);
        }
        let ticket = state.keep(message)?;
        drop(state);
        let place = |state: &Contents| state.senders.iter().position(|one| one.0 == ticket);
        let waited = wait_deadline(&self.went, deadline, || {
            let state = self.state.lock();
            place(&state).is_none().then_some(())
        });
        let Err(ended) = waited else {
            return Ok(());
        };
        let mut state = self.state.lock();
        let Some(at) = place(&state) else {
            return Ok(());
        };
        let unsent = state.senders.remove(at);
        drop(state);
        drop(unsent);
        Err(interrupted(ended))
    }

    /// Takes the first message, as soon as there is one: before `deadline`. EAGAIN, ETIMEDOUT, ERESTARTSYS,
    /// ENOMEM.
    pub fn take_first(&self, waits: bool, deadline: Option<u64>) -> Result<Message> {
        let mut state = self.state.lock();
        if let Some(message) = state.messages.pop_front() {
            state.bytes -= message.text.len() as u64;
            if let Some((_, waiting)) = state.senders.pop_front() {
                // In the place of the one that was taken.
                state.sort_in(waiting);
            }
            drop(state);
            self.touch(true);
            self.went.wake_all();
            return Ok(message);
        }
        if !waits {
            return Err(Errno::EAGAIN);
        }
        let waiting = state.receivers + 1;
        room(&mut state.handed, waiting)?;
        state.receivers = waiting;
        drop(state);
        let waited = wait_deadline(&self.came, deadline, || {
            let mut state = self.state.lock();
            state.handed.pop_front()
        });
        let ended = match waited {
            Ok(message) => return Ok(message),
            Err(ended) => ended,
        };
        let mut state = self.state.lock();
        match state.handed.pop_front() {
            Some(message) => Ok(message),
            None => {
                state.receivers -= 1;
                Err(interrupted(ended))
            }
        }
    }

    /// Registers the running process for a notification of the next message that comes to the empty queue.
    /// EBUSY.
    pub fn notify(&self, notice: QueueNotify) -> Result<()> {
        let owner = |state: &Contents| state.notice.as_ref().map(QueueNotify::owner);
        let before = owner(&self.state.lock());
        // Looked at without the monitor: a process may end with this count of it.
        if before.as_ref().is_some_and(notice::is_there) {
            return Err(Errno::EBUSY);
        }
        let mut state = self.state.lock();
        if owner(&state).is_some_and(|now| !before.is_some_and(|one| one.ptr_eq(&now))) {
            return Err(Errno::EBUSY);
        }
        let old = state.notice.replace(notice);
        drop(state);
        drop(old);
        self.touch(false);
        Ok(())
    }

    /// Removes the registration of `process`.
    pub fn forget(&self, process: &Process) {
        let mut state = self.state.lock();
        let gone = match &state.notice {
            Some(notice) if notice.is_of(process) => state.notice.take(),
            _ => None,
        };
        drop(state);
        if let Some(notice) = gone {
            notice.remove();
            self.touch(false);
        }
    }
}
