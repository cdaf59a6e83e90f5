//! The copy that `fork` makes: areas are copied, pages are shared until written.
//!
//! *Interface*: [`AddressSpace::fork`].
//! One pass over the entries that exist; each private page that was writable stops being so on both sides.

use super::{AddressSpace, Inner};
use crate::memory::Memory;
use crate::table::{WRITE, each_set, frame_of, index};
use abi::errno::Errno;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

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
            let private = area.private();
            let (mut failed, mut copied) = (false, 0);
            tables.each_leaf_table(*start, area.end, |base, words| {
                let mut theirs = None;
                each_set(words, |i, word, mut entry| {
                    if theirs.is_none() {
                        theirs = child_tables.leaf_table_or_make(base);
                    }
                    let Some(theirs) = theirs else {
                        failed = true;
                        return;
                    };
                    if private && entry & WRITE != 0 {
                        entry &= !WRITE;
                        word.store(entry, Ordering::Relaxed);
                        lost_write = true;
                    }
                    frames.share(frame_of(entry));
                    theirs[index(base, 1) + i].store(entry, Ordering::Relaxed);
                    copied += 1;
                });
            });
            copy.resident += copied;
            if failed {
                return Err(Errno::ENOMEM);
            }
        }
        Ok(lost_write)
    }
}
