//! The virtio balloon: memory that the host asks back, and gives again.
//!
//! *Interface*: [`start`]; [`give_back`] when memory is short. The thread of devices ([`crate::attend`])
//! follows the size that the host asks for: it takes free frames, as many as leave programs and kernel some,
//! and tells the host their numbers; the host takes their memory away. Frames that the host gives again are
//! free again. Asked for statistics it says how much memory there is, and how much is free.
//!
//! A request names [`BATCH`] frames at most, and one is on its way at a time: the thread goes on when the
//! host has answered, and waits for nothing. Numbers of the frames that the host has are kept in pages, one
//! for 1,024 of them.
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 5.5.

use super::interrupts::QueueInterrupts;
use super::transport::{Doorbell, Transport};
use super::virtqueue::{Virtqueue, fill, physical};
use crate::Unusable;
use crate::deferred_work::{DeferredWork, WorkRequest, wake};
use abi::layout::PAGE;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use quaject::near_memory::NearBlock;
use sync::Monitor;
use vm::fallible::{try_arc, try_box, try_push};
use vm::frame::{self, Frame};

/// Frames of one request.
const BATCH: usize = 256;
/// Frames whose numbers are in one page.
const PAGE_OF: usize = 1024;
/// Of all frames this part stays free for programs and kernel, beyond what the kernel keeps for itself.
const LEFT: usize = 16;

/// Features: the host asks for statistics; its frames may be taken back when memory is short.
const STATISTICS: u64 = 1 << 1;
const IN_NEED: u64 = 1 << 2;

/// Registers of the kind: frames that the host asks for, frames that it has.
const ASKED: usize = 0;
const HAS: usize = 4;

/// Numbers of the queues.
const TAKES: u16 = 0;
const GIVES: u16 = 1;
const TELLS: u16 = 2;

/// Statistics: a number of 16 bits that says which, and one of 64.
const STATISTIC: usize = 10;
const FREE: u16 = 4;
const TOTAL: u16 = 5;
const AVAILABLE: u16 = 6;

/// A queue of one buffer.
struct Lane {
    ring: Virtqueue,
    bell: Doorbell,
    buffer: NearBlock,
    taken: u16,
}

impl Lane {
    fn new(transport: &Transport, queue: u16, vector: u16, len: usize) -> Result<Lane, Unusable> {
        let ring = Virtqueue::new(1).ok_or(Unusable::Resources)?;
        ring.set_flags(0, 0);
        Ok(Lane {
            bell: transport.set_queue(queue, &ring, vector)?,
            ring,
            buffer: NearBlock::new(len).ok_or(Unusable::Resources)?,
            taken: 0,
        })
    }

    /// Sends `bytes`, when the device is done with what was sent last.
    fn send(&mut self, bytes: impl Iterator<Item = u8>) {
        let len = fill(&mut self.buffer, bytes);
        let at = physical(self.buffer.at().as_ptr().expose_provenance());
        self.ring.give(0, at, len);
        self.bell.ring();
    }

    /// Whether the device is done with what was sent last.
    fn is_done(&mut self) -> bool {
        self.ring.take(&mut self.taken).is_some()
    }
}

/// Numbers of frames, the last in first out.
#[derive(Default)]
struct Frames {
    pages: Vec<Box<[u32; PAGE_OF]>>,
    count: usize,
}

impl Frames {
    /// False: no memory.
    fn push(&mut self, frame: Frame) -> bool {
        let (page, place) = (self.count / PAGE_OF, self.count % PAGE_OF);
        if page == self.pages.len() {
            let Ok(new) = try_box([0; PAGE_OF]) else {
                return false;
            };
            if try_push(&mut self.pages, new).is_err() {
                return false;
            }
        }
        self.pages[page][place] = frame.0;
        self.count += 1;
        true
    }

    fn pop(&mut self) -> Option<Frame> {
        self.count = self.count.checked_sub(1)?;
        let (page, place) = (self.count / PAGE_OF, self.count % PAGE_OF);
        let frame = Frame(self.pages[page][place]);
        self.pages.truncate(self.count.div_ceil(PAGE_OF));
        Some(frame)
    }

    /// The last `count`.
    fn last(&self, count: usize) -> impl Iterator<Item = u32> {
        (self.count - count.min(self.count)..self.count)
            .map(|at| self.pages[at / PAGE_OF][at % PAGE_OF])
    }
}

/// The request on its way.
enum Request {
    None,
    /// The host is told of so many frames that it gets, the last of [`Work::held`].
    Taking,
    /// The host is told of frames that are ours again.
    Giving,
}

struct Work {
    takes: Lane,
    gives: Lane,
    tells: Option<Lane>,
    held: Frames,
    request: Request,
}

/// The device.
struct Balloon {
    transport: Transport,
    work: Monitor<Work>,
    in_need: bool,
    gone: AtomicBool,
}

/// The machine's, for [`give_back`].
static BALLOON: Monitor<Option<Arc<Balloon>>> = Monitor::new(None);

/// Frames that the host has.
static HELD: AtomicU32 = AtomicU32::new(0);

/// How many frames the host has.
pub fn held() -> usize {
    HELD.load(Ordering::Relaxed) as usize
}

/// Starts the device behind `transport`.
///
/// # Errors
/// [`Unusable`].
pub fn start(
    transport: &Transport,
    ways: &mut QueueInterrupts,
) -> Result<Arc<dyn DeferredWork>, Unusable> {
    // Bound: one count.
    if BALLOON.lock().is_some() {
        return Err(Unusable::Resources);
    }
    let agreed = transport.negotiate(STATISTICS | IN_NEED)?;
    ways.open(transport, 1)?;
    let (interrupt, vector, asks) = ways.interrupt("virtio-balloon", 0)?;
    transport.set_config_vector(vector);
    let lane = |queue, len| Lane::new(transport, queue, vector, len);
    let work = Work {
        takes: lane(TAKES, 4 * BATCH)?,
        gives: lane(GIVES, 4 * BATCH)?,
        tells: match agreed & STATISTICS {
            0 => None,
            _ => Some(lane(TELLS, 3 * STATISTIC)?),
        },
        held: Frames::default(),
        request: Request::None,
    };
    interrupt.add(WorkRequest::new()?, asks)?;
    transport.go();
    let balloon = try_arc(Balloon {
        transport: *transport,
        work: Monitor::new(work),
        in_need: agreed & IN_NEED != 0,
        gone: AtomicBool::new(false),
    });
    let balloon = balloon.map_err(|_| Unusable::Resources)?;
    // Bound: a request of 256 frames.
    let mut work = balloon.work.lock();
    if let Some(tells) = &mut work.tells {
        tells.send(statistics());
    }
    drop(work);
    *BALLOON.lock() = Some(balloon.clone());
    // It may ask for something already.
    wake();
    Ok(balloon)
}

/// The statistics of memory, as the device wants them.
fn statistics() -> impl Iterator<Item = u8> {
    let stats = frame::stats();
    let bytes = |frames: usize| (frames * PAGE) as u64;
    let each = [
        (FREE, bytes(stats.free)),
        (TOTAL, bytes(stats.total)),
        (AVAILABLE, bytes(stats.free)),
    ];
    each.into_iter()
        .flat_map(|(tag, value)| tag.to_le_bytes().into_iter().chain(value.to_le_bytes()))
}

/// Memory is short: frames that the host has are ours again, if that was agreed; as many as one request
/// names, and none while another is on its way.
pub fn give_back() {
    let Some(balloon) = BALLOON.lock().clone() else {
        return;
    };
    if balloon.in_need && !balloon.gone.load(Ordering::Acquire) {
        let mut work = balloon.work.lock();
        balloon.finish(&mut work);
        if matches!(work.request, Request::None) {
            balloon.give(&mut work, BATCH);
        }
    }
}

impl Balloon {
    /// Looks whether the host has answered.
    fn finish(&self, work: &mut Work) {
        let done = match work.request {
            Request::None => false,
            Request::Taking => work.takes.is_done(),
            Request::Giving => work.gives.is_done(),
        };
        if done {
            work.request = Request::None;
        }
    }

    fn note(&self, work: &Work) {
        HELD.store(work.held.count as u32, Ordering::Relaxed);
        self.transport.set_config(HAS, work.held.count as u32);
    }

    /// Frames go to the host, `most` at most; false: none that can be spared.
    fn take(&self, work: &mut Work, most: usize) -> bool {
        let spared = frame::total() / LEFT;
        let mut count = 0;
        while count < most.min(BATCH) && frame::has_room(spared) {
            let Some(frame) = frame::alloc_user() else {
                break;
            };
            if !work.held.push(frame) {
                frame::release(frame);
                break;
            }
            count += 1;
        }
        if count > 0 {
            work.takes
                .send(work.held.last(count).flat_map(u32::to_le_bytes));
            work.request = Request::Taking;
            self.note(work);
        }
        count > 0
    }

    /// Frames are ours again, `most` at most: the host, which need not be asked, is told.
    fn give(&self, work: &mut Work, most: usize) {
        let count = most.min(BATCH).min(work.held.count);
        if count > 0 {
            work.gives
                .send(work.held.last(count).flat_map(u32::to_le_bytes));
            work.request = Request::Giving;
            for _ in 0..count {
                if let Some(frame) = work.held.pop() {
                    frame::release(frame);
                }
            }
            self.note(work);
        }
    }
}

impl DeferredWork for Balloon {
    fn remove(&self) {
        self.gone.store(true, Ordering::Release);
        *BALLOON.lock() = None;
    }

    fn attend(&self) {
        if self.gone.load(Ordering::Acquire) {
            return;
        }
        // Bound: a request of 256 frames; when the device was taken away, giving back all that it had.
        let mut work = self.work.lock();
        if let Some(tells) = &mut work.tells
            && tells.is_done()
        {
            tells.send(statistics());
        }
        self.finish(&mut work);
        if !matches!(work.request, Request::None) {
            return;
        }
        let asked = self.transport.config(ASKED) as usize;
        let has = work.held.count;
        match asked.cmp(&has) {
            core::cmp::Ordering::Greater => {
                self.take(&mut work, asked - has);
            }
            core::cmp::Ordering::Less => self.give(&mut work, has - asked),
            core::cmp::Ordering::Equal => {}
        }
    }
}

/// The device has stopped, and takes no memory away any more: all that it had is there again when it is
/// touched.
impl Drop for Balloon {
    fn drop(&mut self) {
        let mut work = self.work.lock();
        while let Some(frame) = work.held.pop() {
            frame::release(frame);
        }
        HELD.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_in_the_other_order() {
        let mut frames = Frames::default();
        let most = 3 * PAGE_OF as u32 + 7;
        assert!((0..most).all(|number| frames.push(Frame(number))));
        assert_eq!(frames.pages.len(), 4);
        assert_eq!(
            frames.last(3).collect::<Vec<_>>(),
            [most - 3, most - 2, most - 1]
        );
        assert_eq!(frames.last(usize::MAX).count(), most as usize);
        for number in (0..most).rev() {
            assert_eq!(frames.pop(), Some(Frame(number)));
        }
        assert!(frames.pop().is_none() && frames.pages.is_empty());
    }
}
