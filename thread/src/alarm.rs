//! `AlarmHeap`: one CPU's alarms, soonest first.
//!
//! *Interface*: [`AlarmHeap::add`], [`AlarmHeap::due`], [`AlarmHeap::next_ns`] on the owning CPU with
//! interrupts off; [`Slot::cancel`] from anywhere.
//!
//! A binary heap of (time, slot). Slots are type-stable and carry a generation, so an old [`Key`] finds
//! nothing. A cancel from another CPU marks the slot and puts it on a list; the alarm has no further effect.
//! At each [`AlarmHeap::add`] the owner removes two listed alarms from the heap, and only then are their
//! slots free. The owner of the heap cancels at once with [`AlarmHeap::remove`]. Every operation is bounded:
//! O(log n), n ≤ 64 × 64. Progress: cancelling is lock-free, the rest wait-free.

use super::primitive::{
    ALARM_CHUNK as CHUNK, ALARM_CHUNKS as CHUNKS, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, constructor,
};
use alloc::alloc::{Layout, alloc};
use alloc::vec::Vec;
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

/// A CPU's slots, which every CPU may look at.
pub(crate) struct Slots {
    pub(crate) chunks: [AtomicPtr<Slot>; CHUNKS],
    /// The list of those that were cancelled from elsewhere; each is pushed once for each time that it is
    /// cancelled, and in use until it is taken from here.
    pub(crate) cancelled: AtomicU32,
}

impl Slots {
    constructor! {
        /// No slots.
        pub fn new() -> Self {
            Slots {
                chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
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

    /// Slot number `index`. `None` for a number that never was.
    fn slot(&self, index: u32) -> Option<&Slot> {
        let chunk = self
            .chunks
            .get(index as usize / CHUNK)?
            .load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: published chunks hold `CHUNK` slots and are never freed.
        Some(unsafe { &*chunk.add(index as usize % CHUNK) })
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
    heap: Vec<(u64, &'a Slot)>,
    /// The list of free slots.
    free: Option<&'a Slot>,
    used: usize,
    /// Alarms taken from the list of cancelled alarms that are not out of the heap yet.
    cancelled: u32,
}

impl<'a> AlarmHeap<'a> {
    pub const fn new(slots: &'a Slots) -> Self {
        AlarmHeap {
            slots,
            heap: Vec::new(),
            free: None,
            used: 0,
            cancelled: NONE,
        }
    }

    /// Calls `call(argument)` at `at_ns`. `None`: no memory, or 4096 alarms.
    #[inline(always)]
    pub fn add(&mut self, at_ns: u64, call: fn(usize), argument: usize) -> Option<Key> {
        // Two for each that comes, so that the silent ones get fewer.
        if self.cancelled != NONE || self.slots.cancelled.load(Ordering::Relaxed) != NONE {
            for _ in 0..2 {
                self.reclaim();
            }
        }
        if self.free.is_none() && !self.grow() {
            return None;
        }
        let slot = self.free?;
        // SAFETY: slots are never freed.
        self.free = unsafe { slot.behind.load(Ordering::Relaxed).as_ref() };
        slot.call.store(call as usize, Ordering::Relaxed);
        slot.argument.store(argument, Ordering::Relaxed);
        let generation = slot.generation();
        slot.state
            .store(generation << STATE_BITS | ARMED, Ordering::Release);
        #[expect(clippy::disallowed_methods, reason = "`grow` made room")]
        self.heap.push((at_ns, slot));
        match self.heap.len() - 1 {
            0 => slot.place.store(0, Ordering::Relaxed),
            last => self.rise(last),
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
        self.heap.first().map_or(u64::MAX, |e| e.0)
    }

    /// Takes one alarm whose time has come.
    #[inline(always)]
    pub fn due(&mut self, now_ns: u64) -> Option<Due> {
        let &(at_ns, slot) = self.heap.first()?;
        if at_ns > now_ns {
            return None;
        }
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

    /// Alarms in the heap, cancelled ones included.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Takes the entry at `place`, that of `slot`, out of the heap; the slot stays in use.
    #[inline(always)]
    fn take_out(&mut self, place: usize, slot: &Slot) {
        slot.place.store(OUT, Ordering::Relaxed);
        if place + 1 == self.heap.len() {
            self.heap.pop();
        } else {
            self.close(place);
        }
    }

    /// Takes the entry at `place` out, which is not the last.
    #[inline(never)]
    fn close(&mut self, place: usize) {
        self.heap.swap_remove(place);
        self.sink(place);
        self.rise(place);
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
    #[expect(
        clippy::disallowed_methods,
        reason = "room is made, which may be refused"
    )]
    fn grow(&mut self) -> bool {
        if self.used == CHUNKS {
            return false;
        }
        // Room for every slot there will be, so that nothing allocates later.
        let all = (self.used + 1) * CHUNK;
        if codegen::fault_injection::refused()
            || self.heap.try_reserve(all - self.heap.len()).is_err()
        {
            return false;
        }
        let Ok(layout) = Layout::array::<Slot>(CHUNK) else {
            return false;
        };
        // SAFETY: the size is not zero.
        let chunk = unsafe { alloc(layout) }.cast::<Slot>();
        if chunk.is_null() {
            return false;
        }
        let first = (self.used * CHUNK) as u32;
        for i in 0..CHUNK {
            let behind = match i + 1 {
                CHUNK => null_mut(),
                // SAFETY: inside the fresh allocation.
                next => unsafe { chunk.add(next) },
            };
            // SAFETY: inside the fresh allocation.
            unsafe {
                chunk.add(i).write(Slot {
                    state: AtomicU64::new(FREE),
                    place: AtomicU32::new(0),
                    next: AtomicU32::new(NONE),
                    behind: AtomicPtr::new(behind),
                    index: first + i as u32,
                    call: AtomicUsize::new(0),
                    argument: AtomicUsize::new(0),
                });
            }
        }
        // SAFETY: the first of those that were just made, which are never freed.
        self.free = Some(unsafe { &*chunk });
        self.slots.chunks[self.used].store(chunk, Ordering::Release);
        self.used += 1;
        true
    }

    fn note(&self, place: usize) {
        let slot = self.heap[place].1;
        slot.place.store(place as u32, Ordering::Relaxed);
    }

    #[inline(never)]
    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above].0 <= self.heap[place].0 {
                break;
            }
            self.heap.swap(above, place);
            self.note(place);
            place = above;
        }
        self.note(place);
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let mut below = 2 * place + 1;
            if below >= self.heap.len() {
                break;
            }
            if below + 1 < self.heap.len() && self.heap[below + 1].0 < self.heap[below].0 {
                below += 1;
            }
            if self.heap[place].0 <= self.heap[below].0 {
                break;
            }
            self.heap.swap(place, below);
            self.note(place);
            place = below;
        }
        self.note(place);
    }
}
