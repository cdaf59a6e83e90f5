//! The copy that `fork` makes: areas are copied, pages are shared until written.
//!
//! *Interface*: [`AddressSpace::fork`].
//! One pass over the entries that exist; each private page that was writable stops being so on both sides.

use super::{AddressSpace, Inner};
use crate::frame::Frames;
use crate::memory::Memory;
use crate::table::{WRITE, any_set, frame_of, index};
use abi::errno::Errno;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

impl<M: Memory> AddressSpace<M> {
    /// A copy, as `fork` makes it: private pages are shared until one side writes. Error: `ENOMEM`.
    pub fn fork(&self) -> Result<Arc<Self>, Errno> {
        self.admit()?;
        let mut child = Self::new_in(self.memory)?;
        let Some(copy) = Arc::get_mut(&mut child) else {
            return Err(Errno::ENOMEM);
        };
        let inner = self.inner.lock();
        let lost_write = self.copy_into(&inner, copy);
        // Also when it failed half-way: some entries have lost their right to write.
        if !matches!(lost_write, Ok(false)) {
            self.memory.forget(self.root, 0, usize::MAX);
        }
        drop(inner);
        lost_write.map(|_| child)
    }

    /// Copies areas and entries; answers whether an entry of this space has lost its right to write.
    fn copy_into(&self, inner: &Inner, child: &mut Self) -> Result<bool, Errno> {
        let frames = self.memory.frames();
        let (tables, child_tables) = (self.tables(), child.tables());
        let copy = child.inner.get_mut();
        // Areas first: whatever pages the child gets are freed by way of them.
        copy.areas = inner.areas.try_clone()?;
        (copy.size, copy.brk_start, copy.brk) = (inner.size, inner.brk_start, inner.brk);
        let mut lost_write = false;
        for (start, area) in inner.areas.all() {
            let strip = if area.private() { WRITE } else { 0 };
            let mut failed = false;
            tables.each_leaf_table(*start, area.end, |base, words| {
                if !any_set(words) {
                    return;
                }
                let Some(theirs) = child_tables.leaf_table_or_make(base) else {
                    failed = true;
                    return;
                };
                let first = index(base, 1);
                let theirs = &theirs[first..first + words.len()];
                let (copied, lost) = share_entries(frames, words, theirs, strip);
                copy.resident += copied;
                lost_write |= lost;
            });
            if failed {
                return Err(Errno::ENOMEM);
            }
        }
        Ok(lost_write)
    }
}

/// Copies the entries `mine` to the empty `theirs`, without the bit `strip` on either side; each frame gets another owner. Answers
/// how many there were, and whether one of them had the bit.
#[inline]
fn share_entries(
    frames: &Frames,
    mine: &[AtomicU64],
    theirs: &[AtomicU64],
    strip: u64,
) -> (usize, bool) {
    let (mut copied, mut lost) = (0, false);
    let mut share = |mine: &AtomicU64, theirs: &AtomicU64| {
        let mut entry = mine.load(Ordering::Relaxed);
        if entry == 0 {
            return;
        }
        if entry & strip != 0 {
            entry &= !strip;
            mine.store(entry, Ordering::Relaxed);
            lost = true;
        }
        frames.share(frame_of(entry));
        theirs.store(entry, Ordering::Relaxed);
        copied += 1;
    };
    // Most entries are empty or most are not: eight at a time.
    let (my_parts, my_rest) = mine.as_chunks::<8>();
    let (their_parts, their_rest) = theirs.as_chunks::<8>();
    for (mine, theirs) in my_parts.iter().zip(their_parts) {
        if mine
            .iter()
            .fold(0, |any, word| any | word.load(Ordering::Relaxed))
            != 0
        {
            for i in 0..8 {
                share(&mine[i], &theirs[i]);
            }
        }
    }
    for (mine, theirs) in my_rest.iter().zip(their_rest) {
        share(mine, theirs);
    }
    (copied, lost)
}
