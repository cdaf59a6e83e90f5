//! Queue: implements FIFO queues of bytes, in four kinds for one or many producers and consumers.
//!
//! *Interface* (table 4.2): callentries `Q_put` ([`ByteQueue::put`]) and `Q_get` ([`ByteQueue::get`]) return
//! synchronously when they succeed. Otherwise control goes through a callback: `Q_full`, `Q_empty`; and
//! `Q_full-1`, `Q_empty+1` notify a party that failed when it may try again. The links decide the effect:
//! `Q_full` linked to a thread's suspend makes a blocking channel (figure 4.2), left at its default, which
//! returns to the caller, it makes a non-blocking one (figure 4.3). When `Q_full` or `Q_empty` falls through,
//! the operation is tried again.
//!
//! Strings of bytes go in and out at once through [`ByteQueue::write`] and [`ByteQueue::read`] of a queue
//! that is made for them. Where many put strings, each string stays whole: on one CPU nothing comes between,
//! with interrupts off; on several a producer claims its places first (figure 2 of the 1989 paper,
//! `sync::sequencer`). Where many get strings, each copies what is there and then moves the tail, if no other
//! consumer has moved it.
//!
//! Callbacks are linked before the parties begin: a party that is inside uses the old links until it leaves.
//!
//! Put and get are generated for the queue's kind, size, place, links and number of CPUs. The algorithms are
//! those of `lab::queue`, which are their reference implementations in plain Rust.
//!
//! Source: dissertation, sections 4.1.1, 4.1.4 and 5.2.2; Massalin and Pu 1989, figures 1 and 2.
//!
//! *Unsafe*: words in a near block; safety contracts of `Q_put` and `Q_get`.

mod channel;
mod emit;
mod frame;
mod many;
mod receive;
mod string;

pub use channel::Channel;
pub(crate) use frame::Frame;
pub(crate) use receive::KEPT;
pub use receive::{RawReadRecipe, Wakes, receive};
pub use string::Layout;

use crate::kit::assembly::{Assembly, Continuation, Made, Mover, Published, Registration};
use crate::kit::class::{Header, Holder, OutOfMemory, Ref};
use crate::kit::interfacer::{Callentry, Entry, Target};
use crate::kit::near_memory::NearBlock;
use crate::kit::regs::Regs;
use crate::kit::routine_env::{RoutineError, templates};
use crate::kit::signature::{Event, Get, Put, Retry, Write};
use alloc::sync::Arc;
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Routine, Template, dynasm};
use core::sync::atomic::{AtomicU64, Ordering};
use sync::sequencer::Sequencer;

/// The contract of `Q_put`: a byte; 1 when it is in, what `Q_full` returned otherwise.
pub type PutFn = extern "sysv64" fn(byte: u8) -> isize;
/// The contract of `Q_get`: the byte, or what `Q_empty` returned otherwise.
pub type GetFn = extern "sysv64" fn() -> isize;

/// How many there are at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parties {
    /// One thread or handler at a time.
    One,
    /// Any number, handlers included.
    Many,
}

/// Where the claims of a queue of `size` bytes lie in its block, behind the places.
fn sequencer_at(size: usize) -> usize {
    (size_of::<Words>() + size).next_multiple_of(align_of::<Sequencer>())
}

/// The description from which a queue is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The producers.
    pub producers: Parties,
    /// The consumers.
    pub consumers: Parties,
    /// Bytes that it holds, a power of two from 2 to 65536.
    pub size: usize,
    /// Whether the parties may run on several CPUs at once.
    pub several_cpus: bool,
    /// Whether strings go in and out, too: then the places are plain bytes side by side.
    pub strings: bool,
}

impl Spec {
    /// Whether producers claim their places before they fill them.
    fn is_claimed(self) -> bool {
        self.strings && self.several_cpus && self.producers == Parties::Many
    }
}

/// The words of a queue, in front of its places. Producers' and consumers' words lie on lines of their own,
/// as do those that are seldom written.
#[repr(C, align(64))]
struct Words {
    head: AtomicU64,
    /// The value of `tail` that producers on several CPUs last saw, or an older one, so that they need not
    /// read `tail` each time.
    seen_tail: AtomicU64,
    tail: TailWords,
    failed: FailedWords,
}

#[repr(C, align(64))]
struct TailWords {
    tail: AtomicU64,
    /// The value of `head` that the single consumer of strings last saw.
    seen_head: AtomicU64,
}

#[repr(C, align(64))]
struct FailedWords {
    put: AtomicU64,
    get: AtomicU64,
}

/// One queue.
pub struct ByteQueue {
    header: &'static Header,
    spec: Spec,
    /// Where in the block the word lies that the consumers of strings read as the head: 0 where it is the
    /// head.
    published_at: usize,
    block: NearBlock,
    put: Published<PutFn>,
    get: Published<GetFn>,
}

crate::quaject! {
    /// Implements FIFO queues
    class ByteQueue = "Queue", spec Spec, error RoutineError {
        callentry { Q_PUT: Put = "Q_put", Q_GET: Get = "Q_get" }
        callback {
            Q_FULL: Retry = "Q_full" ("return 0 to the caller"),
            Q_FULL_1: Event = "Q_full-1" ("nothing"),
            Q_EMPTY: Retry = "Q_empty" ("return -1 to the caller"),
            Q_EMPTY_1: Event = "Q_empty+1" ("nothing"),
        }
    }
    make ByteQueue::new;
    renew ByteQueue::renew;
    remake ByteQueue::remake;
    callentry |queue: &Ref<ByteQueue>, number| match number {
        Q_PUT => Some(end(queue, false)),
        Q_GET => Some(end(queue, true)),
        _ => None,
    };
}

impl From<OutOfMemory> for RoutineError {
    fn from(_: OutOfMemory) -> RoutineError {
        RoutineError::OutOfMemory
    }
}

static PUT: Class = Class::new("Q_put");
static GET: Class = Class::new("Q_get");

impl ByteQueue {
    fn new(spec: Spec, header: &'static Header) -> Result<ByteQueue, RoutineError> {
        let possible = spec.size.is_power_of_two() && (2..=65536).contains(&spec.size);
        if !possible {
            return Err(RoutineError::BadSpec);
        }
        let len = emit::block_size(spec);
        let block = NearBlock::new(len).ok_or(RoutineError::OutOfMemory)?;
        // SAFETY: a new block of that length.
        unsafe { emit::clear(spec, &block) };
        let put = Published::new(generate_put(spec, &block, header)?);
        let get = Published::new(generate_get(spec, &block, header)?);
        Ok(ByteQueue {
            header,
            spec,
            published_at: emit::published_at(spec),
            block,
            put,
            get,
        })
    }

    /// The same kind of queue again keeps its memory and its code.
    fn renew(&mut self, spec: Spec, header: &'static Header) -> Result<(), RoutineError> {
        if self.spec != spec {
            *self = Self::new(spec, header)?;
            return Ok(());
        }
        // SAFETY: the block was made for this kind; an inactive queue that is renewed has no users.
        unsafe { emit::clear(spec, &self.block) };
        Ok(())
    }

    fn remake(&self, port: usize) -> Result<(), RoutineError> {
        if [Q_FULL.number(), Q_EMPTY_1.number()].contains(&port) {
            let put = generate_put(self.spec, &self.block, self.header)?;
            self.put.publish(put);
        } else {
            let get = generate_get(self.spec, &self.block, self.header)?;
            self.get.publish(get);
        }
        Ok(())
    }

    fn words(&self) -> &Words {
        // SAFETY: the block begins with the words, zeroed, and is aligned to a line.
        unsafe { self.block.at().cast::<Words>().as_ref() }
    }

    /// Callentry `Q_put`: 1 when the byte is in the queue, else the result of `Q_full`.
    ///
    /// With one producer, the caller is the only producer at this time.
    pub fn put(&self, byte: u8) -> isize {
        self.put.call(|put| put(byte))
    }

    /// Callentry `Q_get`: a byte, or the result of `Q_empty`: nothing, by default.
    ///
    /// With one consumer, the caller is the only consumer at this time.
    pub fn get(&self) -> Option<u8> {
        u8::try_from(self.get.call(|get| get())).ok()
    }

    /// Bytes in the queue at this instant, as far as one can tell: those that can be got.
    #[inline]
    pub fn len(&self) -> usize {
        let words = self.words();
        let tail = self.reached(words.tail.tail.load(Ordering::Acquire), 1);
        let head = self.reached(self.published().load(Ordering::Acquire), 0);
        // A position that follows its place's flag may be behind the other.
        (head.wrapping_sub(tail) as i64).clamp(0, self.spec.size as i64) as usize
    }

    /// The actual position, when a word says `position`: with many parties at both ends the word is a hint,
    /// and the rounds of the places decide. `limit` is the largest difference between a place's round and its
    /// position while no party has passed it.
    #[inline]
    fn reached(&self, position: u64, limit: i64) -> u64 {
        match (self.spec.producers, self.spec.consumers) {
            (Parties::Many, Parties::Many) if !self.spec.strings => {
                self.reached_by_rounds(position, limit)
            }
            _ => position,
        }
    }

    #[inline(never)]
    fn reached_by_rounds(&self, mut position: u64, limit: i64) -> u64 {
        if emit::place_size(self.spec) != 8 {
            return position;
        }
        let size = self.spec.size as u64;
        loop {
            let place = size_of::<Words>() + 8 * (position & (size - 1)) as usize;
            // SAFETY: the places follow the words; each is eight bytes, aligned.
            let place = unsafe { self.block.at().add(place).cast::<AtomicU64>().as_ref() };
            let beyond = (place.load(Ordering::Acquire) >> 8).wrapping_sub(position) as i64;
            if beyond <= limit {
                return position;
            }
            position += (beyond - size as i64).max(1) as u64;
        }
    }

    /// Whether there was none at this instant.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The word that the consumers of strings read as the head.
    #[inline(always)]
    fn published(&self) -> &AtomicU64 {
        // SAFETY: the word is the head, with which the block begins, or that of the claims in it.
        unsafe { self.block.at().add(self.published_at).cast().as_ref() }
    }

    /// Whether the producers of strings claim their places, once they know how many.
    pub(crate) fn is_claimed(&self) -> bool {
        self.published_at != 0
    }

    /// The producers and the consumers.
    pub(crate) fn parties(&self) -> (Parties, Parties) {
        (self.spec.producers, self.spec.consumers)
    }

    /// The generated `Q_put` and `Q_get`, to look at.
    pub fn routines(&self) -> (Routine<PutFn>, Routine<GetFn>) {
        (self.put.plugged(), self.get.plugged())
    }
}

/// Callentry `Q_put` of `queue` for the callout of another.
pub fn q_put(queue: &Ref<ByteQueue>) -> Entry<Put> {
    // SAFETY: it takes the byte or does not, and keeps the queue.
    unsafe { Entry::new(end(queue, false)) }
}

/// Callentry `Q_get` of `queue` for the callout of another.
pub fn q_get(queue: &Ref<ByteQueue>) -> Entry<Get> {
    // SAFETY: a byte comes out or none, and it keeps the queue.
    unsafe { Entry::new(end(queue, true)) }
}

fn end(queue: &Ref<ByteQueue>, get: bool) -> Target {
    let queue = queue.clone();
    Arc::new(End { queue, get })
}

/// One of the two callentries.
struct End {
    queue: Ref<ByteQueue>,
    get: bool,
}

impl End {
    /// Whether there is one party at this end.
    fn is_alone(&self) -> bool {
        let Spec {
            producers,
            consumers,
            ..
        } = self.queue.spec;
        let parties = if self.get { consumers } else { producers };
        parties == Parties::One
    }
}

impl Callentry for End {
    fn name(&self) -> &'static &'static str {
        if self.get { &"Q_get" } else { &"Q_put" }
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.queue.header())
    }
    fn through(&self) -> u16 {
        if self.get {
            1 << Q_EMPTY.number() | 1 << Q_FULL_1.number()
        } else {
            1 << Q_FULL.number() | 1 << Q_EMPTY_1.number()
        }
    }
    fn changes(&self) -> Regs {
        emit::changes(self.queue.spec)
    }
    fn emit(&self, a: &mut Assembly, way: Continuation) -> bool {
        let queue = &*self.queue;
        let Ok(at) = emit::Places::new(queue.spec, &queue.block) else {
            return false;
        };
        if self.get {
            emit::get(a, &at, Some(queue.header), way);
        } else {
            emit::put(a, &at, Some(queue.header), way);
        }
        true
    }
    fn emit_around(&self, a: &mut Assembly, way: Continuation, mover: &dyn Mover) -> bool {
        let queue = &*self.queue;
        match queue.layout() {
            Ok(q) if mover.stretch().is_some() && self.is_alone() => {
                let many = if self.get { many::get } else { many::put };
                many(a, queue, &q, way, mover);
                true
            }
            _ => false,
        }
    }
    fn entry(&self) -> usize {
        if self.get {
            self.queue.get.entry()
        } else {
            self.queue.put.entry()
        }
    }
    // Through the word, because the queue may be linked anew at any time.
    fn call(&self, d: &mut Draft) {
        if self.get {
            self.queue.get.emit_call(d);
        } else {
            self.queue.put.emit_call(d);
        }
    }
}

/// Callentry `Q_put` of `queue` for strings, all or nothing where the caller moves the bytes itself; else
/// what fits. `Q_full` is not called.
pub fn q_put_string(queue: &Ref<ByteQueue>) -> Entry<Write> {
    let queue = queue.clone();
    // SAFETY: it takes bytes from memory, and keeps the queue.
    unsafe { Entry::new(Arc::new(StringEnd(queue))) }
}

/// The callentry for strings.
struct StringEnd(Ref<ByteQueue>);

extern "sysv64" fn put_string(queue: *const ByteQueue, bytes: *mut u8, count: usize) -> usize {
    // SAFETY: the callentry passes the queue that it keeps, and its caller so many bytes.
    unsafe { (*queue).write(core::slice::from_raw_parts(bytes, count)) }
}

impl Callentry for StringEnd {
    fn name(&self) -> &'static &'static str {
        match self.0.parties() {
            (Parties::One, Parties::One) => &"Q_put, SP-SC",
            (Parties::Many, Parties::One) => &"Q_put, MP-SC",
            (Parties::One, Parties::Many) => &"Q_put, SP-MC",
            (Parties::Many, Parties::Many) => &"Q_put, MP-MC",
        }
    }
    fn owner(&self) -> Option<&'static Header> {
        Some(self.0.header())
    }
    fn through(&self) -> u16 {
        1 << Q_EMPTY_1.number()
    }
    // A string is the caller's registers, which are saved inside.
    fn changes(&self) -> Regs {
        Regs::of(&[Reg::Rax, Reg::Rcx])
    }
    fn emit_around(&self, a: &mut Assembly, way: Continuation, mover: &dyn Mover) -> bool {
        let queue = &*self.0;
        match queue.layout() {
            Ok(q) if mover.stretch().is_none() => {
                many::put(a, queue, &q, way, mover);
                true
            }
            _ => false,
        }
    }
    fn entry(&self) -> usize {
        put_string as *const () as usize
    }
    fn this(&self) -> Option<usize> {
        Some(core::ptr::from_ref(&*self.0).expose_provenance())
    }
    fn is_compiled(&self) -> bool {
        true
    }
}

/// Templates of ends without links, by [`variant`].
static PUTS: [Template<2>; 8] = templates!(&PUT, put_template);
static GETS: [Template<2>; 8] = templates!(&GET, get_template);

/// The number of its kind. None for a queue of strings that is none of them: on several CPUs, or with many
/// producers.
fn variant(spec: Spec) -> Option<usize> {
    let many = |parties| usize::from(parties == Parties::Many);
    let kind = many(spec.producers) | many(spec.consumers) << 1;
    let odd = spec.strings && (spec.several_cpus || spec.producers == Parties::Many);
    (!odd).then_some(kind | usize::from(spec.several_cpus) << 2)
}

/// The places of a queue of the kind `variant` in a block at `base`, of `size` bytes.
fn places(variant: u8, base: Hole, size: Hole) -> emit::Places {
    let parties = |bit| match variant & bit {
        0 => Parties::One,
        _ => Parties::Many,
    };
    let spec = Spec {
        producers: parties(1),
        consumers: parties(2),
        size: 0,
        several_cpus: variant & 4 != 0,
        strings: false,
    };
    emit::Places::from(spec, base.imm32(), size.imm32())
}

fn put_template(d: &mut Draft, &[base, size]: &[Hole; 2], variant: u8) {
    Assembly::over(d, |a| put_alone(a, &places(variant, base, size), None));
}

fn get_template(d: &mut Draft, &[base, size]: &[Hole; 2], variant: u8) {
    Assembly::over(d, |a| get_alone(a, &places(variant, base, size), None));
}

/// A routine of an end that has no link at `ports`, by its template. None: it has, or there is no template.
fn by_template<F>(
    templates: &[Template<2>; 8],
    spec: Spec,
    block: &NearBlock,
    header: &Header,
    ports: [usize; 2],
) -> Result<Option<Made<F>>, RoutineError> {
    let Some(variant) = variant(spec).filter(|_| !header.is_linked(&ports)) else {
        return Ok(None);
    };
    let values = [i64::from(emit::base(block)?), spec.size as i64];
    let sealed = templates[variant].instantiate(kind_name(spec), 0, &values)?;
    // SAFETY: as in `generate_put` and `generate_get`, whose code it is.
    Ok(Some((
        unsafe { Routine::from(sealed) },
        Registration::default(),
    )))
}

fn generate_put(
    spec: Spec,
    block: &NearBlock,
    header: &'static Header,
) -> Result<Made<PutFn>, RoutineError> {
    let ports = [Q_FULL.number(), Q_EMPTY_1.number()];
    if let Some(made) = by_template(&PUTS, spec, block, header, ports)? {
        return Ok(made);
    }
    let at = emit::Places::new(spec, block)?;
    let mut a = Assembly::new(&PUT, kind_name(spec), Some(Holder::Member(header)));
    put_alone(&mut a, &at, Some(header));
    // SAFETY: the code keeps the System V convention, and its queue outlives the plug that holds the routine.
    unsafe { a.seal(None) }
}

fn put_alone(a: &mut Assembly, at: &emit::Places, header: Option<&'static Header>) {
    let no = a.label();
    let live = Regs::NONE;
    emit::put(a, at, header, Continuation { no, live });
    dynasm!(a ; .arch x64 ; mov eax, 1 ; ret);
    a.cold(|a| dynasm!(a ; .arch x64 ; =>no ; xor eax, eax ; ret));
}

fn generate_get(
    spec: Spec,
    block: &NearBlock,
    header: &'static Header,
) -> Result<Made<GetFn>, RoutineError> {
    let ports = [Q_EMPTY.number(), Q_FULL_1.number()];
    if let Some(made) = by_template(&GETS, spec, block, header, ports)? {
        return Ok(made);
    }
    let at = emit::Places::new(spec, block)?;
    let mut a = Assembly::new(&GET, kind_name(spec), Some(Holder::Member(header)));
    get_alone(&mut a, &at, Some(header));
    // SAFETY: as above.
    unsafe { a.seal(None) }
}

fn get_alone(a: &mut Assembly, at: &emit::Places, header: Option<&'static Header>) {
    let no = a.label();
    let live = Regs::NONE;
    emit::get(a, at, header, Continuation { no, live });
    dynasm!(a ; .arch x64 ; ret);
    a.cold(|a| dynasm!(a ; .arch x64 ; =>no ; mov rax, -1 ; ret));
}

fn kind_name(spec: Spec) -> &'static str {
    match (spec.producers, spec.consumers) {
        (Parties::One, Parties::One) => "SP-SC",
        (Parties::Many, Parties::One) => "MP-SC",
        (Parties::One, Parties::Many) => "SP-MC",
        (Parties::Many, Parties::Many) => "MP-MC",
    }
}

#[cfg(all(test, not(loom), target_os = "linux"))]
mod races;
#[cfg(all(test, not(loom)))]
mod tests;
