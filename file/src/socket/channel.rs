//! Data in transit to one socket: bytes in the queue of a pipe, and records behind them.
//!
//! *Interface*: a [`Channel`] is a socket's inbox. [`Queues`] are the pipe queues of two stream sockets.
//! Records are put in with [`Channel::push`] and taken with [`Channel::take`]; a reader holds the channel's
//! turn ([`Channel::reading`], or the reading end of the queue). [`Outbox`] counts a socket's sent but unread
//! data.
//!
//! Bytes of a stream are in the queue, which comes first, or in records, behind them. As long as there is a
//! record, or each message has credentials, or an end is shut, the queue is *barred*: to its routines it
//! appears to have no reader and no writer, so a write, and a read that finds it empty, take the plain paths.
//! A reader checks for records before it checks the queue: while there is a record, no new write to the queue
//! has begun. A record that is being read counts until all of it has been read.
//!
//! Messages of one sender may go by a queue too ([`Channel::lay`]), in the same way, until it is *retired*:
//! from then on there are records only.
//!
//! Monitors: with a channel's records held nothing is allocated, dropped or copied from a program.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use quaject::pipe::{MESSAGES, PipeCore, RING};
use sync::monitor::RawMonitor;
use sync::{Monitor, Once, WaitList};

use super::inactive;
use super::record::Record;
use super::{Socket, SocketType, WaitLimit};
use crate::poll::{PollTable, READS};
use account::quota;
use account::user::Charge;
use vm::fallible::roomy;

/// Bytes of the queue of a stream while there are few sockets, and while there are many.
const LARGE: usize = RING;
const SMALL: usize = 2 * PAGE;

/// A socket's sent but unread data.
pub struct Outbox {
    used: AtomicUsize,
    /// Woken when it shrinks.
    pub space: WaitList,
    /// The target of a stream's bytes: waiters for room there wait for this too.
    queue: Once<Arc<PipeCore>>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Default for Channel {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbox {
    /// Nothing was sent.
    pub fn new() -> Outbox {
        Outbox {
            used: AtomicUsize::new(0),
            space: WaitList::new(),
            queue: Once::new(),
        }
    }

    /// Bytes that were sent and not read.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// Counts `bytes` more.
    pub fn add(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Counts `bytes` less.
    pub fn remove(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the waiters for room.
    pub fn wake(&self) {
        if self.space.has_waiters() {
            self.space.wake_all();
        }
        if let Some(queue) = self.queue.get() {
            queue.wake_writers();
        }
    }
}

/// Records in order.
pub struct Records {
    /// The first one, of which a part has been read.
    hand: Option<Record>,
    list: VecDeque<Record>,
}

impl Records {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.hand.iter().chain(&self.list)
    }
}

/// The queue of a stream, and its charge.
struct Queue {
    /// Until it is given up.
    core: Option<Arc<PipeCore>>,
    _charge: Charge,
}

impl Drop for Queue {
    fn drop(&mut self) {
        if let Some(core) = self.core.take().filter(|core| core.size() == LARGE) {
            inactive::park(core);
        }
    }
}

/// Data in transit to one socket.
pub struct Channel {
    queue: Once<Queue>,
    records: Monitor<Records>,
    /// Records, one that is being read included.
    pending: AtomicUsize,
    /// Bytes in them.
    bytes: AtomicUsize,
    /// Nothing more comes.
    shut: AtomicBool,
    /// Nothing that comes is waited for.
    deaf: AtomicBool,
    /// Each message has credentials.
    marked: AtomicBool,
    /// The sender has gone and not read everything.
    reset: AtomicBool,
    /// The readers' turn where there is no queue.
    turn: RawMonitor,
    /// The waiters for data.
    readers: WaitList,
    /// The waiters for room for a record.
    pub room: WaitList,
    impatient: AtomicBool,
    /// Messages go by the queue no more.
    retired: AtomicBool,
}

/// The right to read.
pub struct Reading<'a>(&'a Channel);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.turn.unlock();
    }
}

/// The queues of a new connection.
pub(super) struct Queues(Option<[Queue; 2]>);

impl Queues {
    /// For sockets of `kind`: none but for streams. ENOBUFS, ENOMEM.
    pub fn new(kind: SocketType) -> Result<Queues> {
        Ok(Queues(match kind {
            SocketType::Stream => Some([Queue::new()?, Queue::new()?]),
            _ => None,
        }))
    }

    /// Gives each of two sockets one as its inbox. No other thread connects them.
    pub fn lay(self, one: &Socket, other: &Socket) {
        let Some(queues) = self.0 else {
            return;
        };
        for ((to, from), queue) in [(one, other), (other, one)].into_iter().zip(queues) {
            if let Some(core) = &queue.core {
                core.set_patient(!to.inbox.impatient.load(Ordering::SeqCst));
                let _none = from.outbox.queue.set(core.clone());
            }
            let _none = to.inbox.queue.set(queue);
        }
    }
}

impl Queue {
    fn new() -> Result<Queue> {
        Self::of(LARGE, SMALL)
    }

    fn of(large: usize, small: usize) -> Result<Queue> {
        let (charge, pages) = quota::channel((large / PAGE) as u64, (small / PAGE) as u64)?;
        let size = pages as usize * PAGE;
        let waiting = if size == LARGE {
            inactive::take()
        } else {
            None
        };
        let core = match waiting {
            Some(core) => core,
            None => PipeCore::new(size).ok_or(Errno::ENOMEM)?.into(),
        };
        Ok(Queue {
            core: Some(core),
            _charge: charge,
        })
    }
}

/// Pollers that send to a channel, by the channel's address. Static, since a poller waits there without a
/// reference to its target.
static SENDERS: [WaitList; 64] = [const { WaitList::new() }; 64];

impl Channel {
    /// An empty one, without a queue.
    pub fn new() -> Channel {
        Channel {
            queue: Once::new(),
            records: Monitor::new(Records {
                hand: None,
                list: VecDeque::new(),
            }),
            pending: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            shut: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            marked: AtomicBool::new(false),
            reset: AtomicBool::new(false),
            turn: RawMonitor::new(),
            readers: WaitList::new(),
            room: WaitList::new(),
            impatient: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        }
    }

    /// Messages go by a queue from now on, if there is memory for one and it has none and is not retired.
    /// Whether they do. No other thread makes the queue.
    pub fn lay(&self) -> bool {
        if self.is_retired() {
            return false;
        }
        if self.queue().is_none() {
            let Ok(queue) = Queue::of(MESSAGES, MESSAGES) else {
                return false;
            };
            let _none = self.queue.set(queue);
            self.set_patient(!self.impatient.load(Ordering::SeqCst));
            // Bound: one message; when the list grows, moving it; a look for garbage, all of one socket’s.
            let records = self.records.lock();
            self.follow();
            drop(records);
        }
        true
    }

    /// Messages go by the queue no more, for ever: its routines leave everything to the plain paths.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
        if let Some(queue) = self.queue() {
            queue.set_readers(false);
            queue.set_writers(false);
        }
    }

    /// Whether they never will.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// The queue of a connected stream, or of messages.
    pub fn queue(&self) -> Option<&Arc<PipeCore>> {
        self.queue.get().and_then(|queue| queue.core.as_ref())
    }

    /// Readers may sleep in their routine.
    pub fn set_patient(&self, patient: bool) {
        self.impatient.store(!patient, Ordering::SeqCst);
        if let Some(queue) = self.queue() {
            queue.set_patient(patient);
        }
    }

    /// Sets the state that the queue's routines see. The records are held, so the last setting is based on
    /// the full state.
    fn follow(&self) {
        let Some(queue) = self.queue() else {
            return;
        };
        let open = self.pending.load(Ordering::SeqCst) == 0
            && !self.is_shut()
            && !self.marked.load(Ordering::SeqCst);
        queue.set_readers(open);
        queue.set_writers(open && !self.deaf.load(Ordering::SeqCst));
        // Checked last: retiring first sets this, and then closes the queue.
        if self.is_retired() {
            self.retire();
        }
    }

    /// Nothing that comes is waited for, though it may come.
    pub fn set_deaf(&self) {
        let records = self.records.lock();
        self.deaf.store(true, Ordering::SeqCst);
        self.follow();
        drop(records);
        self.wake_readers();
    }

    /// Whether bytes must come in records, or not at all.
    pub fn is_barred(&self) -> bool {
        self.pending.load(Ordering::SeqCst) != 0 || self.marked.load(Ordering::SeqCst)
    }

    /// Nothing more comes.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
        let records = self.records.lock();
        self.follow();
        drop(records);
        self.wake_readers();
        if let Some(queue) = self.queue() {
            queue.wake_writers();
        }
        self.room.wake_all();
    }

    /// Whether nothing more comes.
    pub fn is_shut(&self) -> bool {
        self.shut.load(Ordering::SeqCst)
    }

    /// Each message has credentials, or not.
    pub fn set_marked(&self, marked: bool) {
        let records = self.records.lock();
        self.marked.store(marked, Ordering::SeqCst);
        self.follow();
        drop(records);
    }

    /// Whether each message has credentials.
    pub fn is_marked(&self) -> bool {
        self.marked.load(Ordering::SeqCst)
    }

    /// The sender has closed with unread data.
    pub fn reset(&self) {
        self.reset.store(true, Ordering::SeqCst);
    }

    /// Whether that has yet to be reported.
    pub fn is_reset(&self) -> bool {
        self.reset.load(Ordering::SeqCst)
    }

    /// The same, and it is reported.
    pub fn take_reset(&self) -> bool {
        self.is_reset() && self.reset.swap(false, Ordering::SeqCst)
    }

    /// Records that there are.
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

    /// Whether there is something to read.
    pub fn has_data(&self) -> bool {
        self.pending() != 0 || self.queue().is_some_and(|queue| queue.available() != 0)
    }

    /// Bytes that can be read.
    pub fn available(&self) -> usize {
        let queued = self.queue().map_or(0, |queue| queue.available());
        self.bytes.load(Ordering::SeqCst) + queued
    }

    /// Bytes of the first record.
    pub fn first_length(&self) -> usize {
        if let Some(length) = self.queue().and_then(|queue| queue.first_message()) {
            return length;
        }
        self.look(|records| records.iter().next().map_or(0, Record::left))
    }

    /// Puts `record` behind the others. EPIPE: nothing more may come; ENOMEM.
    pub fn push(&self, record: Record) -> Result<()> {
        let mut records = roomy(&self.records, |records| &mut records.list, 1)?;
        if self.is_shut() {
            drop(records);
            return Err(Errno::EPIPE);
        }
        self.bytes.fetch_add(record.left(), Ordering::SeqCst);
        self.pending.fetch_add(1, Ordering::SeqCst);
        #[expect(clippy::disallowed_methods, reason = "there is room")]
        records.list.push_back(record);
        self.follow();
        drop(records);
        self.wake_readers();
        Ok(())
    }

    /// Takes the first record. The taker, which holds the turn, then calls [`Channel::done`] or
    /// [`Channel::put_back`].
    pub fn take(&self) -> Option<Record> {
        let mut records = self.records.lock();
        records.hand.take().or_else(|| records.list.pop_front())
    }

    /// `bytes` of a record that was taken were read.
    pub fn count_read(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// A record that was taken is read, of which `left` bytes were not.
    pub fn done(&self, left: usize) {
        self.count_read(left);
        let records = self.records.lock();
        self.pending.fetch_sub(1, Ordering::SeqCst);
        self.follow();
        drop(records);
        for list in [&self.room, self.senders()] {
            if list.has_waiters() {
                list.wake_all();
            }
        }
    }

    /// Wakes the pollers that send here after a record was read. Other channels may have the same list: a
    /// woken poller checks again.
    pub fn senders(&self) -> &'static WaitList {
        let at = core::ptr::from_ref(self).addr() / size_of::<Self>();
        &SENDERS[at % SENDERS.len()]
    }

    /// A record that was taken is the first one again.
    pub fn put_back(&self, record: Record) {
        let mut records = self.records.lock();
        records.hand = Some(record);
    }

    /// Drops everything that will not be read.
    pub fn clear(&self) {
        while let Some(record) = self.take() {
            let left = record.left();
            self.done(left);
            drop(record);
        }
    }

    /// Looks at all records.
    pub fn look<R>(&self, look: impl FnOnce(&Records) -> R) -> R {
        look(&self.records.lock())
    }

    /// Changes each record, but for its bytes.
    pub fn change(&self, mut change: impl FnMut(&mut Record)) {
        let mut records = self.records.lock();
        let Records { hand, list } = &mut *records;
        hand.iter_mut().chain(list).for_each(&mut change);
    }

    /// The turn to read records where there is no queue.
    pub fn reading(&self) -> Reading<'_> {
        // Bound: copying one message, at most 208 KiB; a page fault may sleep inside.
        self.turn.lock();
        Reading(self)
    }

    /// Wakes the waiters for data.
    pub fn wake_readers(&self) {
        if let Some(queue) = self.queue() {
            queue.wake_readers();
        }
        if self.readers.has_waiters() {
            self.readers.wake_all();
        }
    }

    /// Sleeps until `ready`, which new data or an end makes true. Returns the result of
    /// [`WaitLimit::wait_by`].
    pub fn wait(&self, patience: &WaitLimit, ready: impl Fn() -> bool) -> Result<()> {
        match self.queue() {
            Some(queue) => patience.wait_by(ready, |done| queue.wait_for_data(done)),
            // With a queue it is waited elsewhere.
            None => patience.wait(&self.readers, || ready() || self.queue().is_some()),
        }
    }

    /// Sleeps until `ready`, which room in the queue makes true.
    pub fn wait_for_room(&self, patience: &WaitLimit, ready: impl Fn() -> bool) -> Result<()> {
        match self.queue() {
            // More than there ever is: the condition alone decides.
            Some(queue) => patience.wait_by(ready, |done| queue.wait_for_space(usize::MAX, done)),
            None => patience.wait(&self.room, ready),
        }
    }

    /// Lets a poller be woken by new data.
    pub fn expect_data<'a>(&'a self, table: &mut PollTable<'a>) {
        match self.queue() {
            Some(queue) => queue.expect_data(|list| table.watch_for(READS, list)),
            None => table.watch_for(READS, &self.readers),
        }
    }
}
