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
//! that is made for them.
//!
//! Callbacks are linked before the parties begin: a party that is inside uses the old links until it leaves.
//!
//! Put and get are generated for the queue's kind, size, place, links and number of CPUs. The algorithms are
//! those of `lab::queue`, which are their twins.
//!
//! Source: dissertation, sections 4.1.1, 4.1.4 and 5.2.2.

mod channel;
mod emit;
mod receive;
mod string;
mod told;

pub use channel::Channel;
pub use receive::{receive, receiver, synthesize_receive};
pub use string::Layout;
pub use told::Told;

use crate::kit::class::{OutOfMemory, Ref};
use crate::kit::interfacer::{Callentry, Linkable};
use crate::kit::near::Block;
use crate::kit::plug::Plug;
use crate::kit::regs::Regs;
use crate::kit::seam::Unmade;
use alloc::sync::Arc;
use codegen::{Class, Draft, Routine};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::Monitor;

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
    /// Whether strings go in and out, too: then there is one party at each end, and the places are plain
    /// bytes side by side.
    pub strings: bool,
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

/// The target of a callback; None for its default action.
pub type Target = Option<Arc<dyn Callentry>>;

/// The four callbacks.
#[derive(Default, Clone)]
struct Links {
    full: Target,
    full_1: Target,
    empty: Target,
    empty_1: Target,
}

/// One queue.
pub struct ByteQueue {
    spec: Spec,
    block: Block,
    links: Monitor<Links>,
    /// A callback's target is inlined into the code.
    was_linked: AtomicBool,
    put: Plug<PutFn>,
    get: Plug<GetFn>,
}

crate::quaject! {
    /// Implements FIFO queues
    class ByteQueue = "Queue", spec Spec, error Unmade {
        callentry { Q_PUT = "Q_put", Q_GET = "Q_get" }
        callback {
            Q_FULL = "Q_full" ("return 0 to the caller"),
            Q_FULL_1 = "Q_full-1" ("nothing"),
            Q_EMPTY = "Q_empty" ("return -1 to the caller"),
            Q_EMPTY_1 = "Q_empty+1" ("nothing"),
        }
    }
    make ByteQueue::new;
    renew |queue: &mut ByteQueue, spec| queue.renew(spec);
    idle |queue: &mut ByteQueue| *queue.links.lock() = Links::default();
}

impl From<OutOfMemory> for Unmade {
    fn from(_: OutOfMemory) -> Unmade {
        Unmade::OutOfMemory
    }
}

static PUT: Class = Class::new("Q_put");
static GET: Class = Class::new("Q_get");

impl ByteQueue {
    fn new(spec: Spec) -> Result<ByteQueue, Unmade> {
        let one_each = (spec.producers, spec.consumers) == (Parties::One, Parties::One);
        let possible = spec.size.is_power_of_two() && (2..=65536).contains(&spec.size);
        if !possible || spec.strings && !one_each {
            return Err(Unmade::BadSpec);
        }
        let len = size_of::<Words>() + spec.size * emit::place_size(spec);
        let block = Block::new(len).ok_or(Unmade::OutOfMemory)?;
        emit::clear(spec, &block);
        let links = Links::default();
        let put = generate_put(spec, &block, &links)?.0;
        let get = generate_get(spec, &block, &links)?.0;
        Ok(ByteQueue {
            spec,
            block,
            links: Monitor::new(links),
            was_linked: AtomicBool::new(false),
            put: Plug::new(put),
            get: Plug::new(get),
        })
    }

    /// The same kind of queue again keeps its memory, and its code where nothing was linked.
    fn renew(&mut self, spec: Spec) -> Result<(), Unmade> {
        if self.spec != spec {
            *self = Self::new(spec)?;
            return Ok(());
        }
        emit::clear(spec, &self.block);
        if self.was_linked.swap(false, Ordering::Relaxed) {
            let links = Links::default();
            self.put = Plug::new(generate_put(spec, &self.block, &links)?.0);
            self.get = Plug::new(generate_get(spec, &self.block, &links)?.0);
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

    /// Bytes in the queue at this instant, as far as one can tell.
    pub fn len(&self) -> usize {
        let words = self.words();
        let tail = self.reached(words.tail.tail.load(Ordering::Acquire), 1);
        let head = self.reached(words.head.load(Ordering::Acquire), 0);
        // A position that follows its place's flag may be behind the other.
        (head.wrapping_sub(tail) as i64).clamp(0, self.spec.size as i64) as usize
    }

    /// The actual position, when a word says `position`: with many parties at both ends the word is a hint,
    /// and the rounds of the places decide. `limit` is the largest difference between a place's round and its
    /// position while no party has passed it.
    fn reached(&self, mut position: u64, limit: i64) -> u64 {
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

    /// The generated `Q_put` and `Q_get`, to look at.
    pub fn routines(&self) -> (Routine<PutFn>, Routine<GetFn>) {
        (self.put.plugged(), self.get.plugged())
    }
}

/// Callentry `Q_put` of `queue` for the callout of another, which gives the byte in dil.
pub fn q_put(queue: &Ref<ByteQueue>) -> Arc<dyn Callentry> {
    Arc::new(Through {
        queue: queue.clone(),
        name: &"Q_put",
        get: false,
    })
}

/// Callentry `Q_get` of `queue` for the callout of another, which gets the byte in eax.
pub fn q_get(queue: &Ref<ByteQueue>) -> Arc<dyn Callentry> {
    Arc::new(Through {
        queue: queue.clone(),
        name: &"Q_get",
        get: true,
    })
}

/// A callentry that is reached through the plug's word, because the queue may be linked anew at any time.
struct Through {
    queue: Ref<ByteQueue>,
    name: &'static &'static str,
    get: bool,
}

impl Callentry for Through {
    fn name(&self) -> &'static &'static str {
        self.name
    }
    fn owner(&self) -> u32 {
        self.queue.header().number()
    }
    fn changes(&self) -> Regs {
        // The callbacks' code saves the registers that it changes.
        emit::CHANGES
    }
    fn emit(&self, d: &mut Draft) -> bool {
        if self.get {
            self.queue.get.emit_call(d);
        } else {
            self.queue.put.emit_call(d);
        }
        true
    }
    fn entry(&self) -> usize {
        if self.get {
            self.queue.get.entry()
        } else {
            self.queue.put.entry()
        }
    }
}

impl Linkable for ByteQueue {
    fn relink(&self, port: usize, target: Target) -> Result<bool, Unmade> {
        let mut links = self.links.lock();
        let mut new = links.clone();
        let (slot, in_put) = match port {
            Q_FULL => (&mut new.full, true),
            Q_FULL_1 => (&mut new.full_1, false),
            Q_EMPTY => (&mut new.empty, false),
            Q_EMPTY_1 => (&mut new.empty_1, true),
            _ => return Err(Unmade::BadSpec),
        };
        *slot = target;
        self.was_linked.store(true, Ordering::Relaxed);
        let in_line = if in_put {
            let (routine, in_line) = generate_put(self.spec, &self.block, &new)?;
            self.put.replug(routine);
            in_line[usize::from(port == Q_EMPTY_1)]
        } else {
            let (routine, in_line) = generate_get(self.spec, &self.block, &new)?;
            self.get.replug(routine);
            in_line[usize::from(port == Q_FULL_1)]
        };
        let old = core::mem::replace(&mut *links, new);
        // A linked object may take its own monitors when it is dropped.
        drop(links);
        drop(old);
        Ok(in_line)
    }
}

type Made<F> = Result<(Routine<F>, [bool; 2]), Unmade>;

fn generate_put(spec: Spec, block: &Block, links: &Links) -> Made<PutFn> {
    let at = emit::Places::new(spec, block)?;
    let mut draft = Draft::new(&PUT, kind_name(spec));
    let in_line = emit::put(
        &mut draft,
        &at,
        links.full.as_deref(),
        links.empty_1.as_deref(),
    );
    // SAFETY: the code keeps the System V convention, and its queue outlives the plug that holds the routine.
    Ok((unsafe { Routine::from(draft.seal()?) }, in_line))
}

fn generate_get(spec: Spec, block: &Block, links: &Links) -> Made<GetFn> {
    let at = emit::Places::new(spec, block)?;
    let mut draft = Draft::new(&GET, kind_name(spec));
    let in_line = emit::get(
        &mut draft,
        &at,
        links.empty.as_deref(),
        links.full_1.as_deref(),
    );
    // SAFETY: as above.
    Ok((unsafe { Routine::from(draft.seal()?) }, in_line))
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
