//! An `inotify` instance: a queue of events of files, and who waits for them.
//!
//! *Interface*: [`InotifyInstance::push`] queues an event, [`InotifyInstance::take`] is a read.
//!
//! An event equal to the last unread event is merged with it. With too many unread events, or without memory,
//! one event reports that others are lost.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use codegen::fault_injection::refused;
use core::sync::atomic::{AtomicI32, Ordering};
use sync::ready_list::ReadyMember;
use sync::{Monitor, WaitList};

use super::limits;
use crate::io::IoBuf;
use account::quota;
use account::user::Charge;
use vm::fallible::{try_arc, try_copy};

/// Bytes of an event's head.
const HEAD: usize = size_of::<InotifyEvent>();
/// Bytes of an event in the queue, about, without its name.
const QUEUED_BYTES: u64 = 64;

/// An instance.
pub struct InotifyInstance {
    queue: Monitor<Events>,
    pub(crate) readers: WaitList,
    /// The number of the latest mark.
    latest: AtomicI32,
    /// Noted at each event, which then has no reader (`F_NOTIFY`).
    teller: Option<Arc<ReadyMember>>,
}

struct Events {
    events: VecDeque<Event>,
    /// Bytes to read.
    bytes: usize,
    /// The loss of events is already reported to the reader.
    lost: bool,
    /// The unread events, charged to the creator of the instance.
    charge: Charge,
}

#[derive(PartialEq, Eq)]
struct Event {
    wd: i32,
    mask: u32,
    cookie: u32,
    name: Vec<u8>,
}

impl Event {
    /// Bytes of the name as it is read: with a NUL, and up to a multiple of the head.
    fn name_room(&self) -> usize {
        match self.name.len() {
            0 => 0,
            len => (len + 1).next_multiple_of(HEAD),
        }
    }

    fn cost(&self) -> u64 {
        QUEUED_BYTES + self.name.len() as u64
    }
}

impl InotifyInstance {
    /// A new instance without events. ENOMEM.
    pub fn new() -> Result<Arc<InotifyInstance>> {
        Self::with(None)
    }

    /// An instance without a reader: `member` is noted at each event. ENOMEM.
    pub fn telling(member: &Arc<ReadyMember>) -> Result<Arc<InotifyInstance>> {
        Self::with(Some(member.clone()))
    }

    fn with(teller: Option<Arc<ReadyMember>>) -> Result<Arc<InotifyInstance>> {
        try_arc(InotifyInstance {
            queue: Monitor::new(Events {
                events: VecDeque::new(),
                bytes: 0,
                lost: false,
                charge: quota::bytes(0).ok_or(Errno::ENOMEM)?,
            }),
            readers: WaitList::new(),
            latest: AtomicI32::new(0),
            teller,
        })
    }

    /// A number for a mark that `is_taken` denies.
    pub fn next_number(&self, is_taken: impl Fn(i32) -> bool) -> i32 {
        loop {
            let next = |latest| Some(if latest == i32::MAX { 1 } else { latest + 1 });
            let updated = self
                .latest
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            let wd = updated.ok().and_then(next).unwrap_or(1);
            if !is_taken(wd) {
                return wd;
            }
        }
    }

    /// Queues an event, and wakes the waiters.
    pub fn push(&self, wd: i32, mask: u32, cookie: u32, name: &[u8]) {
        if let Some(member) = &self.teller {
            if mask & IN_ALL_EVENTS != 0 {
                member.note();
            }
            return;
        }
        // Bound: one event, its name copied.
        let mut queue = self.queue.lock();
        let same = |last: &Event| {
            last.wd == wd && last.mask == mask && last.name == name && mask & IN_IGNORED == 0
        };
        if queue.events.back().is_some_and(same) {
            return;
        }
        if !queue.add(wd, mask, cookie, name) {
            queue.lost = true;
        }
        drop(queue);
        self.readers.wake_all();
    }

    /// Bytes that wait to be read.
    pub fn bytes(&self) -> usize {
        let queue = self.queue.lock();
        queue.bytes + if queue.lost { HEAD } else { 0 }
    }

    /// Moves events into `buf`: how many bytes. EINVAL without room for the first.
    pub fn take(&self, buf: &mut IoBuf) -> Result<usize> {
        let mut done = 0;
        loop {
            let mut queue = self.queue.lock();
            let Some(size) = queue.first_size() else {
                return Ok(done);
            };
            if size > buf.remaining() {
                return if done == 0 {
                    Err(Errno::EINVAL)
                } else {
                    Ok(done)
                };
            }
            let Some(event) = queue.first() else {
                return Ok(done);
            };
            drop(queue);
            let head = InotifyEvent {
                wd: event.wd,
                mask: event.mask,
                cookie: event.cookie,
                len: event.name_room() as u32,
            };
            let zeros = event.name_room() - event.name.len();
            let told = buf.put(bytemuck::bytes_of(&head));
            let told = told.and_then(|_| {
                if event.name.is_empty() {
                    Ok(0)
                } else {
                    buf.put(&event.name)
                }
            });
            let told = told.and_then(|_| buf.put_zeros(zeros));
            match told {
                Ok(_) => done += HEAD + event.name_room(),
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Events {
    /// Whether there was room.
    #[expect(clippy::disallowed_methods, reason = "room may be refused")]
    fn add(&mut self, wd: i32, mask: u32, cookie: u32, name: &[u8]) -> bool {
        if self.lost || self.events.len() >= limits::QUEUED.load(Ordering::Relaxed) {
            return false;
        }
        let Ok(name) = try_copy(name) else {
            return false;
        };
        let event = Event {
            wd,
            mask,
            cookie,
            name,
        };
        if refused() || self.events.try_reserve(1).is_err() {
            return false;
        }
        if !self.charge.grow(event.cost(), quota::bytes_max()) {
            return false;
        }
        self.bytes += HEAD + event.name_room();
        self.events.push_back(event);
        true
    }

    /// Bytes in which [`Events::first`] is read. (Taken and put back it might need memory that there is not.)
    fn first_size(&self) -> Option<usize> {
        let size = |event: &Event| HEAD + event.name_room();
        let oldest = self.events.front().map(size);
        oldest.or_else(|| self.lost.then_some(HEAD))
    }

    /// Takes the oldest; after all that there was room for, that others were lost.
    fn first(&mut self) -> Option<Event> {
        let Some(event) = self.events.pop_front() else {
            return core::mem::take(&mut self.lost).then(|| Event {
                wd: -1,
                mask: IN_Q_OVERFLOW,
                cookie: 0,
                name: Vec::new(),
            });
        };
        self.bytes -= HEAD + event.name_room();
        self.charge.shrink(event.cost());
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
        Some(event)
    }
}
