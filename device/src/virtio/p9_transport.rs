//! The 9P transport over virtio, to a directory of the host's: questions to its file server, and answers,
//! several on their way at a time.
//!
//! *Interface*: [`start`]; a [`P9Transport`] is found by its [name](P9Transport::name). [`P9Transport::turn`]
//! gives a place for a question and its answer; [`P9Request::question`] is where it is written,
//! [`P9Request::ask`] sends it and sleeps until there is an [`P9Reply`], [`P9Request::tell`] sends it and
//! does not wait. The room above defines the messages (9P2000.L).
//!
//! Each place has memory of its own, which it gets when it is first used, and a pair of descriptors: one that
//! the device reads, one that it writes. So callers share the word of free places, taken by exchange, and the
//! ring's positions: a caller that finds another at the ring leaves its request to that one
//! ([`sync::Combiner`]). No thread waits for another but for the last free place. Some places are kept for
//! [`Use::Page`]: their holders wait only for the host, so a fault on a page of a shared file is served even
//! while the holders of all other places wait for such faults.
//!
//! The device is believed no number: an answer is for a question that is on its way, and no longer than its
//! memory. A caller that gives up leaves its place to the device, and the handler frees it.
//! Source: the standard reserves the device's number and says no more (Virtual I/O Device (VIRTIO) Version
//! 1.2, section 5); its one queue and its name are as in Linux's `include/uapi/linux/virtio_9p.h`.
//!
//! *Unsafe*: the memory of a place, for the thread that has it.

use super::interrupts::QueueInterrupts;
use super::transport::{Doorbell, NO_VECTOR, Transport};
use super::virtqueue::{Virtqueue, look_for_used, physical};
use crate::Unusable;
use crate::deferred_work::DeferredWork;
use crate::interrupt::Source;
use crate::pci::DeviceError;
use alloc::string::String;
use alloc::sync::Arc;
use codegen::{Draft, Label};
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};
use machine::cpu::{irq_restore, irq_save};
use quaject::assembly::Assembly;
use quaject::near_memory::NearBlock;
use sync::{Combiner, Once, WaitList};
use vm::fallible::try_arc;

/// Places for questions.
const PLACES: u32 = 32;
/// Of these, for [`Use::Page`].
const FOR_PAGES: u32 = 8;
const ALL: u64 = (1 << PLACES) - 1;
const OF_CALLS: u64 = (1 << (PLACES - FOR_PAGES)) - 1;

/// Bytes of the larger part of a place: the longest message.
pub const LONG: usize = 64 << 10;
/// Bytes of the smaller part.
pub const SHORT: usize = 1 << 10;

/// The prefix of these devices' names.
pub const PREFIX: &str = "9p/";

/// States of a place: idle; a request is in flight; the caller gave up waiting. From [`CAME`] on, the
/// answer's length on top of that.
const IDLE: u32 = 0;
const ASKED: u32 = 1;
const ABANDONED: u32 = 2;
const CAME: u32 = 4;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A call, which may touch a program's memory while it has its place.
    Call,
    /// A page, or whatever waits for nothing else.
    Page,
    /// As a page; and the caller does not give up, since the data to store would be lost.
    Store,
}

/// Which of a question and its answer is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    /// The question may have [`LONG`] bytes, the answer [`SHORT`].
    Question,
    /// The other way round.
    Reply,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum P9Error {
    /// The device is not there any more, or makes no sense.
    Gone,
    /// No memory for the messages.
    Memory,
    /// The caller has given up.
    GivenUp,
}

/// One place.
struct Place {
    memory: Once<NearBlock>,
    state: AtomicU32,
    answered: WaitList,
}

/// The device.
pub struct P9Transport {
    name: String,
    ring: Virtqueue,
    bell: Doorbell,
    /// Address of the word that counts what the device has used.
    used: i32,
    taken: AtomicU16,
    places: [Place; PLACES as usize],
    /// A bit for each that is free.
    free: AtomicU64,
    freed: WaitList,
    asking: Combiner,
    gone: AtomicBool,
}

/// The name that the host has for it, behind [`PREFIX`].
fn tag(transport: &Transport) -> Result<String, Unusable> {
    /// More is no name.
    const MOST: u16 = 64;
    let low = transport.config_byte(0);
    let len = u16::from_le_bytes([low, transport.config_byte(1)]);
    if len == 0 || len > MOST {
        return Err(DeviceError::Fit.into());
    }
    let mut name = String::from(PREFIX);
    for at in 0..usize::from(len) {
        match transport.config_byte(2 + at) {
            0 => break,
            byte if byte.is_ascii_graphic() => name.push(char::from(byte)),
            _ => return Err(DeviceError::Fit.into()),
        }
    }
    Ok(name)
}

/// Starts the device behind `transport`, unless `is_taken` says that another one has its name.
///
/// # Errors
/// [`Unusable`].
pub fn start(
    transport: &Transport,
    ways: &mut QueueInterrupts,
    is_taken: fn(&str) -> bool,
) -> Result<Arc<P9Transport>, Unusable> {
    const MOUNT_TAG: u64 = 1;
    if transport.negotiate(MOUNT_TAG)? & MOUNT_TAG == 0 {
        return Err(DeviceError::Fit.into());
    }
    let name = tag(transport)?;
    if is_taken(&name) {
        return Err(DeviceError::Fit.into());
    }
    ways.open(transport, 1)?;
    let (interrupt, vector, asks) = ways.interrupt("virtio-9p", 0)?;
    transport.set_config_vector(NO_VECTOR);
    let ring = Virtqueue::new(2 * PLACES as u16).ok_or(Unusable::Resources)?;
    (0..PLACES as u16).for_each(|place| ring.pair(2 * place));
    let share = P9Transport {
        bell: transport.set_queue(0, &ring, vector)?,
        used: ring.words().ok_or(Unusable::Resources)?.used,
        ring,
        taken: AtomicU16::new(0),
        places: core::array::from_fn(|_| Place {
            memory: Once::new(),
            state: AtomicU32::new(IDLE),
            answered: WaitList::new(),
        }),
        free: AtomicU64::new(ALL),
        freed: WaitList::new(),
        asking: Combiner::new(),
        gone: AtomicBool::new(false),
        name,
    };
    let share = try_arc(share).map_err(|_| Unusable::Resources)?;
    interrupt.add(share.clone(), asks)?;
    transport.go();
    Ok(share)
}

impl DeferredWork for P9Transport {
    fn remove(&self) {
        self.gone.store(true, Ordering::SeqCst);
        self.freed.wake_all();
        for place in &self.places {
            place.answered.wake_all();
        }
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

impl P9Transport {
    /// The name that the host has for it, behind [`PREFIX`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the device is there no more.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    fn place(&self, number: u32) -> &Place {
        &self.places[(number % PLACES) as usize]
    }

    /// A free place, if there is one: for a call none of those that are kept for pages.
    fn take(&self, what: Use) -> Option<u32> {
        let mut chosen = None;
        let choose = |free: u64| {
            let mine = match what {
                Use::Call => free & OF_CALLS,
                Use::Page | Use::Store => free,
            };
            // Highest first for a page, so that it takes a call's place last; lowest first for a call, so
            // that few have memory.
            let bit = match what {
                _ if mine == 0 => return None,
                Use::Call => mine.trailing_zeros(),
                Use::Page | Use::Store => mine.ilog2(),
            };
            chosen = Some(bit);
            Some(free & !(1 << bit))
        };
        let took = (self.free).fetch_update(Ordering::AcqRel, Ordering::Acquire, choose);
        took.ok().and(chosen)
    }

    fn give(&self, number: u32) {
        self.place(number).state.store(IDLE, Ordering::Relaxed);
        self.free.fetch_or(1 << number, Ordering::AcqRel);
        // The woken thread may not be the one that waits for a page, so all are woken.
        self.freed.wake_all();
    }

    /// A place for a question; waits until one is free, unless `give_up` says at a signal that it is in vain.
    ///
    /// # Errors
    /// [`P9Error`].
    pub fn turn(self: &Arc<Self>, what: Use, give_up: fn() -> bool) -> Result<P9Request, P9Error> {
        let number = self
            .freed
            .wait_unless(give_up, || match self.is_gone() {
                true => Some(Err(P9Error::Gone)),
                false => self.take(what).map(Ok),
            })
            .map_err(|_| P9Error::GivenUp)??;
        P9Request::at(self, number)
    }

    /// The same at once, or not at all. Anywhere but in an interrupt handler.
    pub fn try_turn(self: &Arc<Self>) -> Option<P9Request> {
        match self.is_gone() {
            true => None,
            false => P9Request::at(self, self.take(Use::Call)?).ok(),
        }
    }

    /// Makes the question at `number` available to the device.
    fn send(&self, number: u32) {
        // Bound: as many stores as questions were left to be sent, 32 at most, and one register.
        let state = irq_save();
        self.asking.leave(number, |pieces| {
            for number in (0..PLACES).filter(|number| pieces & 1 << number != 0) {
                self.ring.offer(2 * number as u16);
            }
            self.bell.ring();
        });
        irq_restore(state);
    }
}

impl Place {
    fn base(&self) -> usize {
        let block = self.memory.get();
        block.map_or(0, |block| block.at().as_ptr().expose_provenance())
    }
}

/// A place for a question.
pub struct P9Request {
    share: Arc<P9Transport>,
    number: u32,
    /// It is with the device, which gives it back.
    left: bool,
}

impl P9Request {
    fn at(share: &Arc<P9Transport>, number: u32) -> Result<P9Request, P9Error> {
        let turn = P9Request {
            share: share.clone(),
            number,
            left: false,
        };
        let place = share.place(number);
        if place.memory.get().is_none() {
            let block = NearBlock::new(LONG + SHORT).ok_or(P9Error::Memory)?;
            // The caller owns the place, so there is no race.
            let _ours = place.memory.set(block);
        }
        Ok(turn)
    }

    /// The tag of its answer.
    pub fn tag(&self) -> u16 {
        self.number as u16
    }

    /// Where the question is to be.
    pub fn question(&mut self, long: Long) -> &mut [u8] {
        let (offset, len) = match long {
            Long::Question => (0, LONG),
            Long::Reply => (LONG, SHORT),
        };
        self.share.place(self.number).part(offset, len)
    }

    fn send(&self, len: usize, long: Long) {
        let (question, answer) = match long {
            Long::Question => (0..LONG, LONG..LONG + SHORT),
            Long::Reply => (LONG..LONG + SHORT, 0..LONG),
        };
        let place = self.share.place(self.number);
        let first = 2 * self.number as u16;
        let at = |offset| physical(place.base() + offset);
        let ring = &self.share.ring;
        ring.place(first, at(question.start), len.min(question.len()) as u32);
        ring.place(first + 1, at(answer.start), answer.len() as u32);
        self.share.send(self.number);
    }

    /// Sends the question, of `len` bytes, and sleeps until its answer is there, unless `give_up` says at a
    /// signal that it is in vain.
    ///
    /// # Errors
    /// [`P9Error`].
    pub fn ask(
        mut self,
        len: usize,
        long: Long,
        give_up: fn() -> bool,
    ) -> Result<P9Reply, P9Error> {
        let place = self.share.place(self.number);
        place.state.store(ASKED, Ordering::Release);
        // From now on it is the device's, until its answer.
        self.left = true;
        self.send(len, long);
        let came = || {
            let state = place.state.load(Ordering::Acquire);
            match state >= CAME {
                true => Some(Ok((state - CAME) as usize)),
                false => self.share.is_gone().then_some(Err(P9Error::Gone)),
            }
        };
        let waited = place.answered.wait_unless(give_up, came);
        let result = waited.unwrap_or(Err(P9Error::GivenUp));
        if result.is_err()
            && (place.state)
                .compare_exchange(ASKED, ABANDONED, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        {
            return Err(result.err().unwrap_or(P9Error::Gone));
        }
        // It has come, if only just now.
        self.left = false;
        let len = result?;
        let (offset, most) = match long {
            Long::Question => (LONG, SHORT),
            Long::Reply => (0, LONG),
        };
        Ok(P9Reply {
            turn: self,
            offset,
            len: len.min(most),
        })
    }

    /// Sends the question, of `len` bytes, whatever is answered.
    pub fn tell(mut self, len: usize, long: Long) {
        let place = self.share.place(self.number);
        place.state.store(ABANDONED, Ordering::Release);
        self.left = true;
        self.send(len, long);
    }
}

impl Drop for P9Request {
    fn drop(&mut self) {
        if !self.left {
            self.share.give(self.number);
        }
    }
}

/// An answer; its place is free when it is dropped.
pub struct P9Reply {
    turn: P9Request,
    offset: usize,
    len: usize,
}

impl P9Reply {
    /// The device's answer.
    pub fn bytes(&self) -> &[u8] {
        let place = self.turn.share.place(self.turn.number);
        place.part(self.offset, self.len)
    }
}

impl Place {
    /// Part of its memory, for the holder of the place.
    #[expect(clippy::mut_from_ref, reason = "one thread has the place")]
    fn part(&self, offset: usize, len: usize) -> &mut [u8] {
        let Some(block) = self.memory.get() else {
            return &mut [];
        };
        let offset = offset.min(block.len());
        let len = len.min(block.len() - offset);
        // SAFETY: within the block, which stays. The thread that has the place is alone with it: the device
        // has not got the question yet, or is done with it; were it not, the bytes would be any.
        unsafe { core::slice::from_raw_parts_mut(block.at().as_ptr().add(offset), len) }
    }
}

impl Source for P9Transport {
    fn emit(&self, _: &mut Assembly) {}

    fn look(&self, d: &mut Draft, wake: Label) {
        look_for_used(d, self.used, &self.taken, wake);
    }

    /// Delivers answers to their waiting callers, and frees places without one.
    fn wake(&self) {
        let mut taken = self.taken.load(Ordering::Relaxed);
        // A device that says that it has answered more than there are questions is heard again at its next
        // interrupt.
        for _ in 0..2 * PLACES {
            let Some((first, len)) = self.ring.take(&mut taken) else {
                break;
            };
            self.taken.store(taken, Ordering::Relaxed);
            let number = u32::from(first / 2);
            let (Some(len), true) = (len, first.is_multiple_of(2)) else {
                continue;
            };
            let place = self.place(number);
            let came = CAME + len.min(LONG as u32);
            let became = |to| {
                move |state| match state {
                    ASKED => Some(to),
                    ABANDONED => Some(IDLE),
                    _ => None,
                }
            };
            match (place.state).fetch_update(Ordering::AcqRel, Ordering::Acquire, became(came)) {
                Ok(ASKED) => {
                    place.answered.wake_all();
                }
                Ok(_) => self.give(number),
                Err(_) => {}
            }
        }
    }
}
