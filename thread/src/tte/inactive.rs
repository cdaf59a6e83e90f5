//! The entries' memory: those that are inactive, and the chunks that entries come in.
//!
//! *Interface*: [`take`] and [`put`] for the handles of `tte`; [`entry`] and [`for_each_entry`] find entries,
//! in use or not.
//!
//! Progress: lock-free. Source: dissertation, section 4.1.2.

use super::{INDEX_BITS, Tte};
use core::mem::offset_of;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};
use quaject::inactive::Inactive;
use sync::stack::{Node, Stack};

const CHUNK: usize = 16;
const CHUNKS: usize = (1 << INDEX_BITS) / CHUNK;

/// Entries that keep stack and code while they wait, at most.
const SPARES: usize = 16;
/// Those that do.
static SPARE: Inactive<&'static Tte, SPARES> = Inactive::new(let_go);
/// The others.
static BARE: Stack = Stack::new();
static TABLE: [AtomicPtr<Tte>; CHUNKS] = [const { AtomicPtr::new(null_mut()) }; CHUNKS];

pub(super) fn put(tte: &'static Tte) {
    // It may have been promised something while it ended.
    tte.promise_nothing();
    // SAFETY: the last count is gone, so no other party can reach it.
    if unsafe { tte.parts() }.wait() {
        SPARE.put(tte);
    } else {
        put_bare(tte);
    }
}

fn put_bare(tte: &'static Tte) {
    // SAFETY: the last count is gone, so no other party can reach it; entries are never unmapped.
    unsafe { BARE.push(NonNull::from(&tte.node)) };
}

/// Frees what the entry keeps for the next thread.
fn let_go(tte: &'static Tte) {
    // SAFETY: it was taken off the list, so no other party can reach it.
    unsafe { tte.parts() }.strip();
    put_bare(tte);
}

/// The entry of a node that was taken off the stack.
fn of(node: NonNull<Node>) -> &'static Tte {
    // SAFETY: the stack holds the `node` fields of entries, and entries are never unmapped.
    unsafe { &*node.as_ptr().byte_sub(offset_of!(Tte, node)).cast::<Tte>() }
}

fn pop() -> Option<&'static Tte> {
    BARE.pop().map(of)
}

#[inline]
pub(super) fn take() -> Option<&'static Tte> {
    SPARE.take().or_else(pop).or_else(more)
}

/// An entry of a new chunk, whose other entries go onto the list; or one from the list, if another thread
/// was faster.
#[cold]
fn more() -> Option<&'static Tte> {
    loop {
        if let Some(tte) = pop() {
            return Some(tte);
        }
        let place = TABLE
            .iter()
            .position(|p| p.load(Ordering::Acquire).is_null())?;
        let layout = core::alloc::Layout::array::<Tte>(CHUNK).ok()?;
        if codegen::fault_injection::refused() {
            return None;
        }
        // SAFETY: the layout's size is not zero.
        let chunk = unsafe { alloc::alloc::alloc(layout) }.cast::<Tte>();
        if chunk.is_null() {
            return None;
        }
        for i in 0..CHUNK {
            // SAFETY: inside the fresh allocation.
            unsafe { chunk.add(i).write(Tte::new()) };
            // SAFETY: just written, and no other party knows it.
            let index = unsafe { &(*chunk.add(i)).index };
            index.store((place * CHUNK + i) as u32, Ordering::Relaxed);
        }
        if TABLE[place]
            .compare_exchange(null_mut(), chunk, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            // Another thread put its chunk there; its entries are on the list by now or soon.
            // SAFETY: ours, unpublished, and no entry in it owns anything.
            unsafe { alloc::alloc::dealloc(chunk.cast(), layout) };
            continue;
        }
        for i in (1..CHUNK).rev() {
            // SAFETY: inside the published chunk.
            put(unsafe { &*chunk.add(i) });
        }
        // SAFETY: as above; this one was not put on the list.
        return Some(unsafe { &*chunk });
    }
}

/// The entry at `index`, if there is memory for it yet.
#[inline]
pub(super) fn entry(index: usize) -> Option<&'static Tte> {
    let chunk = TABLE.get(index / CHUNK)?.load(Ordering::Acquire);
    if chunk.is_null() {
        return None;
    }
    // SAFETY: inside a published chunk.
    Some(unsafe { &*chunk.add(index % CHUNK) })
}

pub(super) fn for_each_entry(visit: &mut dyn FnMut(&'static Tte)) {
    for place in &TABLE {
        let chunk = place.load(Ordering::Acquire);
        if chunk.is_null() {
            return;
        }
        for i in 0..CHUNK {
            // SAFETY: inside a published chunk.
            visit(unsafe { &*chunk.add(i) });
        }
    }
}
