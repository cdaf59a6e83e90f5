//! `AlarmHeap`: one CPU's alarms, soonest first.
//!
//! *Interface*: [`AlarmHeap::add`], [`AlarmHeap::due`], [`AlarmHeap::next_ns`] on the owning CPU with
//! interrupts off; [`Slot::cancel`] from anywhere.
//!
//! A binary heap of (time, slot). Slots are type-stable and carry a generation, so an old [`Key`] finds
//! nothing. A cancel from another CPU marks the slot and puts it on a list; the alarm has no further effect.
//! At each [`AlarmHeap::add`] the owner removes two listed alarms from the heap, and only then are their
//! slots free. The owner of the heap cancels at once with [`AlarmHeap::remove`].
//!
//! Slots and places of the heap come by the page ([`Chunk`]), found through a table of two levels that has
//! room for more alarms than memory has for what sets them. So there is no other limit, and nothing is ever
//! moved to make room. A CPU keeps the pages that it has had. Every operation is bounded: O(log n), and a new
//! page is written at most once an [`AlarmHeap::add`]. Progress: cancelling is lock-free, the rest wait-free.

use super::primitive::{
    ALARM_CHUNK as CHUNK, ALARM_FAN as FAN, ALARM_NODES as NODES, AtomicPtr, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, constructor,
};
use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use core::ptr::{self, null_mut};

const FREE: u64 = 0;
const ARMED: u64 = 1;
const CANCELLED: u64 = 2;
const STATE_BITS: u32 = 2;

const OUT: u32 = u32::MAX;
/// The end of the list.
pub(crate) const NONE: u32 = u32::MAX;

/// The action of an alarm at its time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// Calls the procedure with its argument.
    Call(fn(usize), usize),
    /// Nothing: it was cancelled.
    Nothing,
}

/// Names one alarm of a CPU for ever: the slot and its generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub slot: u32,
    pub generation: u64,
}

/// Names one alarm of any CPU for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlarmId {
    pub(crate) cpu: u32,
    pub(crate) key: Key,
}

pub(crate) struct Slot {
    /// Generation and state.
    state: AtomicU64,
    /// Position in the heap; [`OUT`] when it has been removed and is still on the list of cancelled alarms.
    place: AtomicU32,
    /// The next on that list, [`NONE`] at its end.
    next: AtomicU32,
    /// The next on the list of free slots, null at its end.
    behind: AtomicPtr<Slot>,
    /// Its number.
    index: u32,
    call: AtomicUsize,
    argument: AtomicUsize,
}

impl Slot {
    fn free(index: u32) -> Slot {
        Slot {
            state: AtomicU64::new(FREE),
            place: AtomicU32::new(0),
            next: AtomicU32::new(NONE),
            behind: AtomicPtr::new(null_mut()),
            index,
            call: AtomicUsize::new(0),
            argument: AtomicUsize::new(0),
        }
    }

    /// Silences the alarm `generation` if it has not been called yet.
    fn cancel(&self, generation: u64) -> bool {
        self.step(
            generation << STATE_BITS | ARMED,
            generation << STATE_BITS | CANCELLED,
        )
    }

    fn step(&self, from: u64, to: u64) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    fn generation(&self) -> u64 {
        self.state.load(Ordering::Relaxed) >> STATE_BITS
    }
}

/// A place of the heap, the owner's alone.
struct Entry {
    at_ns: AtomicU64,
    slot: AtomicPtr<Slot>,
}

/// As many slots as places of the heap: a page of them.
pub(crate) struct Chunk {
    slots: [Slot; CHUNK],
    heap: [Entry; CHUNK],
}

/// A part of the table of chunks.
pub(crate) struct Node([AtomicPtr<Chunk>; FAN]);

/// Room for [`CHUNK`] more alarms, and for the table of them.
pub(crate) struct Room {
    chunk: Box<Chunk>,
    node: Box<Node>,
}

impl Room {
    /// `None`: no memory.
    pub fn new() -> Option<Room> {
        let chunk = Chunk::new()?;
        Some(Room {
            chunk,
            node: Node::new()?,
        })
    }
}

/// Memory for a `T`, which `write` fills.
fn made<T>(write: impl FnOnce(*mut T)) -> Option<Box<T>> {
    if codegen::fault_injection::refused() {
        return None;
    }
    // SAFETY: its size is not zero.
    let memory = unsafe { alloc(Layout::new::<T>()) }.cast::<T>();
    if memory.is_null() {
        return None;
    }
    write(memory);
    // SAFETY: it came from the allocator of boxes, for this type, and `write` has filled it.
    Some(unsafe { Box::from_raw(memory) })
}

impl Chunk {
    fn new() -> Option<Box<Chunk>> {
        made(|chunk: *mut Chunk| {
            for place in 0..CHUNK {
                // SAFETY: inside the fresh allocation.
                unsafe {
                    (&raw mut (*chunk).slots[place]).write(Slot::free(place as u32));
                    (&raw mut (*chunk).heap[place]).write(Entry {
                        at_ns: AtomicU64::new(0),
                        slot: AtomicPtr::new(null_mut()),
                    });
                }
            }
        })
    }
}

impl Node {
    fn new() -> Option<Box<Node>> {
        made(|node: *mut Node| {
            for place in 0..FAN {
                // SAFETY: inside the fresh allocation.
                unsafe { (&raw mut (*node).0[place]).write(AtomicPtr::new(null_mut())) };
            }
        })
    }
}

/// A CPU's slots, which every CPU may look at.
pub(crate) struct Slots {
    pub(crate) nodes: [AtomicPtr<Node>; NODES],
    /// The list of those that were cancelled from elsewhere; each is pushed once for each time that it is
    /// cancelled, and in use until it is taken from here.
    pub(crate) cancelled: AtomicU32,
}

impl Slots {
    constructor! {
        /// No slots.
        pub fn new() -> Self {
            Slots {
                nodes: [const { AtomicPtr::new(null_mut()) }; NODES],
                cancelled: AtomicU32::new(NONE),
            }
        }
    }

    /// Silences the alarm `key` if it has not been called yet. Any CPU.
    pub fn cancel(&self, key: Key) -> bool {
        let Some(slot) = self.slot(key.slot) else {
            return false;
        };
        if !slot.cancel(key.generation) {
            return false;
        }
        let mut head = self.cancelled.load(Ordering::Relaxed);
        loop {
            slot.next.store(head, Ordering::Relaxed);
            match self.cancelled.compare_exchange_weak(
                head,
                key.slot,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }

    /// Chunk number `number`. `None` for one that is not there.
    fn chunk(&self, number: usize) -> Option<&Chunk> {
        let node = self.nodes.get(number / FAN)?.load(Ordering::Acquire);
        // SAFETY: published nodes and chunks are never freed.
        let chunk = unsafe { node.as_ref() }?.0[number % FAN].load(Ordering::Acquire);
        // SAFETY: as above.
        unsafe { chunk.as_ref() }
    }

    /// Slot number `index`. `None` for a number that never was.
    fn slot(&self, index: u32) -> Option<&Slot> {
        let chunk = self.chunk(index as usize / CHUNK)?;
        Some(&chunk.slots[index as usize % CHUNK])
    }

    fn known(&self, index: u32) -> &Slot {
        match self.slot(index) {
            Some(slot) => slot,
            None => unreachable!("listed numbers are those of slots"),
        }
    }
}

/// The times and which slots are free: the owner's part.
pub(crate) struct AlarmHeap<'a> {
    slots: &'a Slots,
    /// The first chunk, if there is any: most often all alarms are there.
    first: Option<&'a Chunk>,
    /// Alarms in the heap.
    count: usize,
    /// The list of free slots.
    free: Option<&'a Slot>,
    /// Chunks.
    used: usize,
    /// Alarms taken from the list of cancelled alarms that are not out of the heap yet.
    cancelled: u32,
}

impl<'a> AlarmHeap<'a> {
    pub const fn new(slots: &'a Slots) -> Self {
        AlarmHeap {
            slots,
            first: None,
            count: 0,
            free: None,
            used: 0,
            cancelled: NONE,
        }
    }

    /// Calls `call(argument)` at `at_ns`. `None`: no memory; [`AlarmHeap::accept`] brings some.
    #[inline(always)]
    pub fn add(&mut self, at_ns: u64, call: fn(usize), argument: usize) -> Option<Key> {
        // Two for each that comes, so that the silent ones get fewer.
        if self.cancelled != NONE || self.slots.cancelled.load(Ordering::Relaxed) != NONE {
            for _ in 0..2 {
                self.reclaim();
            }
        }
        if self.free.is_none() {
            self.grow()?;
        }
        let slot = self.free?;
        // SAFETY: slots are never freed.
        self.free = unsafe { slot.behind.load(Ordering::Relaxed).as_ref() };
        slot.call.store(call as usize, Ordering::Relaxed);
        slot.argument.store(argument, Ordering::Relaxed);
        let generation = slot.generation();
        slot.state
            .store(generation << STATE_BITS | ARMED, Ordering::Release);
        let last = self.count;
        self.count += 1;
        match last {
            0 => self.put(0, at_ns, slot),
            _ => self.rise(last, at_ns, slot),
        }
        Some(Key {
            slot: slot.index,
            generation,
        })
    }

    /// Takes the alarm out. False: it has been called, or was cancelled.
    pub fn remove(&mut self, key: Key) -> bool {
        let Some(slot) = self.slots.slot(key.slot) else {
            return false;
        };
        if !slot.cancel(key.generation) {
            return false;
        }
        let place = slot.place.load(Ordering::Relaxed) as usize;
        self.take_out(place, slot);
        self.give_back(slot, key.generation);
        true
    }

    /// When [`AlarmHeap::due`] has something next, `u64::MAX` for never.
    pub fn next_ns(&self) -> u64 {
        match self.count {
            0 => u64::MAX,
            _ => self.entry(0).at_ns.load(Ordering::Relaxed),
        }
    }

    /// Takes one alarm whose time has come.
    #[inline(always)]
    pub fn due(&mut self, now_ns: u64) -> Option<Due> {
        if self.next_ns() > now_ns || self.count == 0 {
            return None;
        }
        let (_, slot) = self.at(0);
        self.take_out(0, slot);
        let generation = slot.generation();
        // From here on a canceller comes too late.
        let mine = slot.step(
            generation << STATE_BITS | ARMED,
            generation << STATE_BITS | FREE,
        );
        if !mine {
            // Its slot is on the list of the cancelled, or about to be.
            return Some(Due::Nothing);
        }
        let call = slot.call.load(Ordering::Relaxed);
        let argument = slot.argument.load(Ordering::Relaxed);
        self.give_back(slot, generation);
        // SAFETY: `add` stored a `fn(usize)` here.
        let call = unsafe { core::mem::transmute::<usize, fn(usize)>(call) };
        Some(Due::Call(call, argument))
    }

    /// Slots, free and in use.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.used * CHUNK
    }

    /// Alarms in the heap, cancelled ones included.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Takes the entry at `place`, that of `slot`, out of the heap; the slot stays in use.
    #[inline(always)]
    fn take_out(&mut self, place: usize, slot: &Slot) {
        slot.place.store(OUT, Ordering::Relaxed);
        self.count -= 1;
        if place != self.count {
            self.close(place);
        }
    }

    /// Puts the last entry at `place`, whose own is gone, and then where it belongs.
    #[inline(never)]
    fn close(&mut self, place: usize) {
        let (at_ns, slot) = self.at(self.count);
        let place = self.sink(place, at_ns);
        self.rise(place, at_ns, slot);
    }

    /// `slot` is free. It was in use as `generation`.
    fn give_back(&mut self, slot: &'a Slot, generation: u64) {
        slot.state.store(
            generation.wrapping_add(1) << STATE_BITS | FREE,
            Ordering::Release,
        );
        let behind = self
            .free
            .map_or(null_mut(), |free| ptr::from_ref(free).cast_mut());
        slot.behind.store(behind, Ordering::Relaxed);
        self.free = Some(slot);
    }

    /// Frees the slot of one alarm that was cancelled from elsewhere, if there is one.
    #[cold]
    #[inline(never)]
    fn reclaim(&mut self) {
        if self.cancelled == NONE {
            if self.slots.cancelled.load(Ordering::Relaxed) == NONE {
                return;
            }
            self.cancelled = self.slots.cancelled.swap(NONE, Ordering::Acquire);
        }
        let index = self.cancelled;
        let slot = self.slots.known(index);
        self.cancelled = slot.next.load(Ordering::Relaxed);
        let place = slot.place.load(Ordering::Relaxed);
        if place != OUT {
            self.take_out(place as usize, slot);
        }
        self.give_back(slot, slot.generation());
    }

    /// Makes free slots, if there are none.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> Option<()> {
        let chunk = Chunk::new()?;
        let node = match self.used % FAN {
            0 => Some(Node::new()?),
            _ => None,
        };
        self.extend(chunk, node);
        self.free.map(|_| ())
    }

    /// More free slots, by `room`, if there are none; else it is given back.
    #[cold]
    pub fn accept(&mut self, room: Room) -> Option<Room> {
        if self.free.is_some() {
            return Some(room);
        }
        self.extend(room.chunk, Some(room.node));
        None
    }

    /// The slots of `chunk` are free; `node` is for the table, if that has no place.
    fn extend(&mut self, chunk: Box<Chunk>, node: Option<Box<Node>>) {
        let Some(place) = self.slots.nodes.get(self.used / FAN) else {
            // More than memory has room for.
            return;
        };
        if let Some(node) = node
            && self.used.is_multiple_of(FAN)
        {
            place.store(Box::into_raw(node), Ordering::Release);
        }
        // SAFETY: it was made before the first of its chunks, and is never freed.
        let Some(node) = (unsafe { place.load(Ordering::Relaxed).as_ref() }) else {
            return;
        };
        let mut chunk = chunk;
        for slot in &mut chunk.slots {
            slot.index += (self.used * CHUNK) as u32;
        }
        let chunk: &'a Chunk = Box::leak(chunk);
        let mut behind = null_mut();
        for slot in chunk.slots.iter().rev() {
            slot.behind.store(behind, Ordering::Relaxed);
            behind = ptr::from_ref(slot).cast_mut();
        }
        self.free = chunk.slots.first();
        self.first = self.first.or(Some(chunk));
        node.0[self.used % FAN].store(ptr::from_ref(chunk).cast_mut(), Ordering::Release);
        self.used += 1;
    }

    /// Place number `place` of the heap, which is one.
    #[inline(always)]
    fn entry(&self, place: usize) -> &'a Entry {
        match self.first {
            Some(first) if place < CHUNK => &first.heap[place],
            _ => self.far(place),
        }
    }

    #[inline(never)]
    fn far(&self, place: usize) -> &'a Entry {
        match self.slots.chunk(place / CHUNK) {
            Some(chunk) => &chunk.heap[place % CHUNK],
            None => unreachable!("there are as many places as slots"),
        }
    }

    /// The alarm at `place`, below the count.
    #[inline(always)]
    fn at(&self, place: usize) -> (u64, &'a Slot) {
        let entry = self.entry(place);
        let slot = entry.slot.load(Ordering::Relaxed);
        // SAFETY: a slot that was put there, and slots are never freed.
        (entry.at_ns.load(Ordering::Relaxed), unsafe { &*slot })
    }

    #[inline(always)]
    fn put(&self, place: usize, at_ns: u64, slot: &Slot) {
        let entry = self.entry(place);
        entry.at_ns.store(at_ns, Ordering::Relaxed);
        (entry.slot).store(ptr::from_ref(slot).cast_mut(), Ordering::Relaxed);
        slot.place.store(place as u32, Ordering::Relaxed);
    }

    /// Puts an alarm at `place`, which is empty, or above it.
    #[inline(never)]
    fn rise(&self, mut place: usize, at_ns: u64, slot: &Slot) {
        while place > 0 {
            let above = (place - 1) / 2;
            let (above_ns, other) = self.at(above);
            if above_ns <= at_ns {
                break;
            }
            self.put(place, above_ns, other);
            place = above;
        }
        self.put(place, at_ns, slot);
    }

    /// Moves up what is earlier than `at_ns` below `place`, which is empty; the place that is empty then.
    fn sink(&self, mut place: usize, at_ns: u64) -> usize {
        loop {
            let mut below = 2 * place + 1;
            if below >= self.count {
                return place;
            }
            let mut least = self.at(below);
            if below + 1 < self.count {
                let other = self.at(below + 1);
                if other.0 < least.0 {
                    (below, least) = (below + 1, other);
                }
            }
            if at_ns <= least.0 {
                return place;
            }
            self.put(place, least.0, least.1);
            place = below;
        }
    }
}
