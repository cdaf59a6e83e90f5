//! Where code goes: blocks of 64 bytes in committed pages.
//!
//! *Interface*: [`allocate`], [`free`], [`trim`]; [`place`] and [`unplace`] for the registry; [`at`] to find
//! a record by address.
//!
//! A page has 64 blocks, so one word is its map and one compare-and-swap takes a run of them; an image larger
//! than a page takes whole fresh pages. 64 pages make a chunk, whose records are allocated when its first
//! page is. Progress: lock-free. A failed compare-and-swap means another one succeeded; nobody waits for
//! anybody. Memory order: `Acquire` on taking bits pairs with `Release` on giving them back, so the former
//! owner's stores are over before the next one's begin.

use alloc::boxed::Box;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::block_bitmap::{BlockBitmap, run, run_of_zeros};
use crate::fault_injection::refused;
use crate::free_runs::{FreeRuns, Pages};
use crate::holding_tank::TankLink;
use crate::image::{Image, TANK};
use crate::space::{BLOCK, Lent, OutOfCode, PAGE};

/// Blocks in a page, pages in a chunk: the bits of a word.
const BITS: usize = 64;
const CHUNK: usize = BITS * PAGE;
/// Enough for 256 MiB of code.
const CHUNKS: usize = 1024;

/// Which image begins at each block of a page.
#[repr(C)]
struct Slots {
    limbo: TankLink,
    image: [AtomicPtr<Image>; BITS],
}

struct Chunk {
    /// Pages that have memory behind them, or are being given or refused it.
    claimed: AtomicU64,
    /// Per page: blocks taken. All ones while the page has no memory.
    used: [BlockBitmap; BITS],
    /// Its pages by what room they have.
    by_run: Pages,
    /// Per page: blocks at which an image begins (or a further page of a large one).
    starts: [AtomicU64; BITS],
    slots: [AtomicPtr<Slots>; BITS],
}

static CHUNK_TABLE: [AtomicPtr<Chunk>; CHUNKS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
/// Page (in the window) to look at first. It may have more room than it is entered with.
static HINT: AtomicUsize = AtomicUsize::new(0);
/// The other pages by what room they have.
static RUNS: FreeRuns<CHUNKS> = FreeRuns::new();
/// One more than the highest page ever committed.
static TOP: AtomicUsize = AtomicUsize::new(0);
/// Bytes in taken blocks, and in committed pages.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static COMMITTED: AtomicUsize = AtomicUsize::new(0);

/// Bytes in taken blocks.
pub(crate) fn taken_bytes() -> usize {
    TAKEN.load(Ordering::Relaxed)
}

/// Bytes in pages with memory behind them.
pub(crate) fn committed_bytes() -> usize {
    COMMITTED.load(Ordering::Relaxed)
}

fn chunk(index: usize) -> Option<&'static Chunk> {
    let at = CHUNK_TABLE.get(index)?.load(Ordering::Acquire);
    // SAFETY: chunks are never freed once published.
    unsafe { at.as_ref() }
}

fn chunk_or_new(index: usize) -> Option<&'static Chunk> {
    if let Some(found) = chunk(index) {
        return Some(found);
    }
    let place = CHUNK_TABLE.get(index)?;
    let new = try_box(Chunk {
        claimed: AtomicU64::new(0),
        used: [const { BlockBitmap::new() }; BITS],
        by_run: Pages::new(),
        starts: [const { AtomicU64::new(0) }; BITS],
        slots: [const { AtomicPtr::new(ptr::null_mut()) }; BITS],
    })?;
    let new = Box::into_raw(new);
    match place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: just published, never freed.
        Ok(_) => Some(unsafe { &*new }),
        Err(other) => {
            // SAFETY: ours was never published; the other one is never freed.
            unsafe {
                drop(Box::from_raw(new));
                Some(&*other)
            }
        }
    }
}

/// A box, or `None` when the heap is empty.
pub(crate) fn try_box<T>(value: T) -> Option<Box<T>> {
    try_box_with(|| value)
}

/// A box of what `make` gives, or `None`, and it is not asked, when the heap is empty.
#[inline(always)]
pub(crate) fn try_box_with<T>(make: impl FnOnce() -> T) -> Option<Box<T>> {
    const { assert!(size_of::<T>() != 0) };
    // SAFETY: the layout has a size; the memory is fresh, aligned and written before the box is made.
    unsafe {
        if refused() {
            return None;
        }
        let at = alloc::alloc::alloc(core::alloc::Layout::new::<T>()).cast::<T>();
        if at.is_null() {
            return None;
        }
        at.write(make());
        Some(Box::from_raw(at))
    }
}

fn blocks_of(len: usize) -> usize {
    // No image is so long that this wraps.
    len.wrapping_add(BLOCK - 1) / BLOCK
}

/// Room for `len` bytes (at least 1); the exec address. Contents unspecified until written.
#[inline]
pub(crate) fn allocate(space: &Lent, len: usize) -> Result<usize, OutOfCode> {
    if refused() {
        return Err(OutOfCode);
    }
    let n = blocks_of(len);
    // The page that had room last, or gave some back, nearly always has room.
    let near = if n <= BITS {
        in_page(HINT.load(Ordering::Relaxed), n)
    } else {
        None
    };
    let offset = match near {
        Some(offset) => offset,
        None => elsewhere(space, n)?,
    };
    TAKEN.fetch_add(n.wrapping_mul(BLOCK), Ordering::Relaxed);
    Ok(space.start.wrapping_add(offset))
}

/// `n` blocks of a page; offset in the window.
#[inline]
fn in_page(page: usize, n: usize) -> Option<usize> {
    let block = chunk(page / BITS)?.used[page % BITS].take(n)?;
    // The window is not so large that this wraps.
    Some(
        page.wrapping_mul(PAGE)
            .wrapping_add(block.wrapping_mul(BLOCK)),
    )
}

/// Room for `n` blocks in another page than that which had some last; offset in the window.
#[cold]
#[inline(never)]
fn elsewhere(space: &Lent, n: usize) -> Result<usize, OutOfCode> {
    if n <= BITS {
        small(space, n)
    } else {
        Ok(fresh_pages(space, n.div_ceil(BITS))? * PAGE)
    }
}

fn small(space: &Lent, n: usize) -> Result<usize, OutOfCode> {
    let pages = |index| Some(&chunk(index)?.by_run);
    while let Some(found) = RUNS.find(n, pages) {
        if let Some(offset) = in_page(found.page, n) {
            look_first_at(found.page);
            return Ok(offset);
        }
        if let Some(chunk) = chunk(found.page / BITS) {
            let used = &chunk.used[found.page % BITS];
            RUNS.correct(&chunk.by_run, found, || used.longest());
        }
    }
    // Nothing free: one more page, of which the first blocks are ours before others see it.
    let page = claim(space, 1)?;
    commit(space, page, run(n))?;
    look_first_at(page);
    Ok(page * PAGE)
}

/// Images look for room in `page` first. The page that they looked at before is entered with what it has.
fn look_first_at(page: usize) {
    let former = HINT.swap(page, Ordering::AcqRel);
    if former != page {
        has_room(former);
    }
}

/// Enters `page` with the room that it has.
fn has_room(page: usize) {
    if let Some(chunk) = chunk(page / BITS) {
        let used = &chunk.used[page % BITS];
        RUNS.note(&chunk.by_run, page, || used.longest());
    }
}

/// Whole pages for a large image; the first page.
fn fresh_pages(space: &Lent, pages: usize) -> Result<usize, OutOfCode> {
    let first = claim(space, pages)?;
    for page in first..first + pages {
        if commit(space, page, !0).is_err() {
            for done in first..page {
                if let Some(chunk) = chunk(done / BITS) {
                    chunk.used[done % BITS].open(0);
                }
            }
            for undone in page + 1..first + pages {
                unclaim(undone);
            }
            return Err(OutOfCode);
        }
    }
    Ok(first)
}

/// Claim a run of pages that have no memory yet, within one chunk.
fn claim(space: &Lent, pages: usize) -> Result<usize, OutOfCode> {
    if pages > BITS {
        return Err(OutOfCode);
    }
    let limit = (space.end - space.start) / PAGE;
    for index in 0..CHUNKS.min(limit.div_ceil(BITS)) {
        let chunk = chunk_or_new(index).ok_or(OutOfCode)?;
        let beyond = limit - index * BITS;
        let outside = if beyond >= BITS { 0 } else { !0u64 << beyond };
        let mut seen = chunk.claimed.load(Ordering::Relaxed);
        while let Some(mask) = run_of_zeros(seen | outside, pages) {
            match chunk.claimed.compare_exchange_weak(
                seen,
                seen | mask,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(index * BITS + mask.trailing_zeros() as usize),
                Err(now) => seen = now,
            }
        }
    }
    Err(OutOfCode)
}

fn unclaim(page: usize) {
    if let Some(chunk) = chunk(page / BITS) {
        chunk
            .claimed
            .fetch_and(!(1 << (page % BITS)), Ordering::AcqRel);
    }
}

/// Memory behind a claimed page; `used` are the blocks taken from the start. On failure the claim is given
/// up.
fn commit(space: &Lent, page: usize, used: u64) -> Result<(), OutOfCode> {
    let exec = space.start + page * PAGE;
    let (Some(chunk), Some(slots)) = (
        chunk(page / BITS),
        try_box(Slots {
            limbo: TankLink::new(drop_slots),
            image: [const { AtomicPtr::new(ptr::null_mut()) }; BITS],
        }),
    ) else {
        unclaim(page);
        return Err(OutOfCode);
    };
    if !space.commit(exec) {
        unclaim(page);
        return Err(OutOfCode);
    }
    fill(space, exec, PAGE);
    chunk.slots[page % BITS].store(Box::into_raw(slots), Ordering::Release);
    COMMITTED.fetch_add(PAGE, Ordering::Relaxed);
    chunk.used[page % BITS].open(used);
    TOP.fetch_max(page + 1, Ordering::AcqRel);
    Ok(())
}

/// Frees the slots of a page that was given back.
unsafe fn drop_slots(limbo: *mut TankLink) {
    // SAFETY: `limbo` is the first field of a boxed `Slots` (`repr(C)`), given up by `trim`.
    drop(unsafe { Box::from_raw(limbo.cast::<Slots>()) });
}

/// Breakpoints over `len` bytes within one page: a stray jump traps.
fn fill(space: &Lent, exec: usize, len: usize) {
    // SAFETY: the page is committed and these blocks are ours alone.
    unsafe { space.write(exec, len, |bytes| bytes.fill(0xcc)) };
}

/// Give the room of an image back. No CPU may be able to run it any more.
pub(crate) fn free(space: &Lent, exec: usize, len: usize) {
    let n = blocks_of(len);
    let offset = exec - space.start;
    let (page, block) = (offset / PAGE, offset % PAGE / BLOCK);
    if n <= BITS {
        fill(space, exec, n * BLOCK);
        let mask = run(n) << block;
        if let Some(chunk) = chunk(page / BITS) {
            chunk.used[page % BITS].give(mask);
        }
        has_room(page);
    } else {
        for page in page..page + len.div_ceil(PAGE) {
            fill(space, space.start + page * PAGE, PAGE);
            if let Some(chunk) = chunk(page / BITS) {
                chunk.used[page % BITS].give(!0);
            }
            has_room(page);
        }
    }
    TAKEN.fetch_sub(n * BLOCK, Ordering::Relaxed);
    if page < HINT.load(Ordering::Relaxed) {
        look_first_at(page);
    }
}

/// Give empty pages back; how many went.
pub(crate) fn trim(space: &Lent) -> usize {
    let mut gone = 0;
    for page in 0..TOP.load(Ordering::Acquire) {
        let Some(chunk) = chunk(page / BITS) else {
            continue;
        };
        // Closing makes the page ours, if it was empty.
        if !chunk.used[page % BITS].close() {
            continue;
        }
        if !space.decommit(space.start + page * PAGE) {
            chunk.used[page % BITS].open(0);
            continue;
        }
        let slots = chunk.slots[page % BITS].swap(ptr::null_mut(), Ordering::SeqCst);
        COMMITTED.fetch_sub(PAGE, Ordering::Relaxed);
        unclaim(page);
        gone += 1;
        // SAFETY: unlinked by the swap, made by `commit` from a box.
        unsafe { TANK.free(slots.cast()) };
    }
    gone
}

/// The page records of an exec address, with its block.
fn find(space: &Lent, exec: usize) -> Option<(&'static Chunk, usize, usize)> {
    let offset = exec.wrapping_sub(space.start);
    if offset >= space.end.wrapping_sub(space.start) {
        return None;
    }
    Some((
        chunk(offset / CHUNK)?,
        offset / PAGE % BITS,
        offset % PAGE / BLOCK,
    ))
}

/// Every first block of an image and of each further page of it.
fn each_start(entry: usize, len: usize, mut f: impl FnMut(usize)) {
    f(entry);
    if blocks_of(len) > BITS {
        (1..len.div_ceil(PAGE)).for_each(|page| f(entry + page * PAGE));
    }
}

/// Make an image findable by address. Its room is taken and its bytes are written.
pub(crate) fn place(space: &Lent, image: *mut Image, entry: usize, len: usize) {
    each_start(entry, len, |at| {
        let Some((chunk, page, block)) = find(space, at) else {
            return;
        };
        // SAFETY: the page has taken blocks, so its slots stay until `unplace` and `free`.
        if let Some(slots) = unsafe { chunk.slots[page].load(Ordering::Acquire).as_ref() } {
            slots.image[block].store(image, Ordering::Release);
            chunk.starts[page].fetch_or(1 << block, Ordering::Release);
        }
    });
}

/// Undo [`place`]: readers that enter from now on do not find the image.
pub(crate) fn unplace(space: &Lent, entry: usize, len: usize) {
    each_start(entry, len, |at| {
        let Some((chunk, page, block)) = find(space, at) else {
            return;
        };
        chunk.starts[page].fetch_and(!(1 << block), Ordering::SeqCst);
        // SAFETY: as in `place`.
        if let Some(slots) = unsafe { chunk.slots[page].load(Ordering::Acquire).as_ref() } {
            slots.image[block].store(ptr::null_mut(), Ordering::SeqCst);
        }
    });
}

/// The image whose first block is the last one at or before `exec` in its page. The pointer is good while the
/// caller is a [`Reader`](crate::holding_tank::Reader) or knows that the image lives; whether `exec` is
/// within its length is for the caller to see.
pub(crate) fn at(space: &Lent, exec: usize) -> *mut Image {
    let Some((chunk, page, block)) = find(space, exec) else {
        return ptr::null_mut();
    };
    let before = chunk.starts[page].load(Ordering::SeqCst) & (!0u64 >> (63 - block));
    if before == 0 {
        return ptr::null_mut();
    }
    // SAFETY: slots are freed through the holding tank, and pages with live images keep theirs.
    match unsafe { chunk.slots[page].load(Ordering::SeqCst).as_ref() } {
        Some(slots) => slots.image[63 - before.leading_zeros() as usize].load(Ordering::SeqCst),
        None => ptr::null_mut(),
    }
}

/// Every image that begins at `from` or above, in address order, as found by a reader; once per image, until
/// `f` answers `false`.
pub(crate) fn walk(space: &Lent, from: usize, mut f: impl FnMut(*mut Image) -> bool) {
    let base = space.start;
    let first = from.saturating_sub(base) / PAGE;
    for page in first..TOP.load(Ordering::Acquire) {
        let Some(chunk) = chunk(page / BITS) else {
            continue;
        };
        let mut starts = chunk.starts[page % BITS].load(Ordering::SeqCst);
        while starts != 0 {
            let block = starts.trailing_zeros() as usize;
            starts &= starts - 1;
            let exec = base + page * PAGE + block * BLOCK;
            let image = at(space, exec);
            // SAFETY: the caller is a reader.
            let begins = !image.is_null() && unsafe { (*image).entry } == exec;
            if begins && exec >= from && !f(image) {
                return;
            }
        }
    }
}
