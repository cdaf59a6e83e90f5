//! Memory that a card reads and writes by itself.
//!
//! *Interface*: [`DmaMemory`] is zeroed, near, and as aligned as a card wants its lists and buffers.
//!
//! *Unsafe*: words in near blocks, which a card changes.

use crate::Unusable;
use crate::dma::{near, physical};
use core::sync::atomic::{AtomicU32, Ordering};
use quaject::near_memory::NearBlock;

/// The alignment that the card wants, in bytes.
const ALIGN: usize = 128;

/// Words for a card.
pub struct DmaMemory {
    block: NearBlock,
    /// Bytes before the first aligned one.
    skipped: usize,
    len: usize,
    /// Its sign-extended address.
    near: i32,
}

impl DmaMemory {
    /// `len` bytes, a multiple of 4.
    ///
    /// # Errors
    /// [`Unusable::Resources`].
    pub fn new(len: usize) -> Result<DmaMemory, Unusable> {
        let block = NearBlock::new(len + ALIGN).ok_or(Unusable::Resources)?;
        let begin = block.at().as_ptr().expose_provenance();
        let skipped = begin.next_multiple_of(ALIGN) - begin;
        let near = near(begin + skipped).ok_or(Unusable::Resources)?;
        Ok(DmaMemory {
            block,
            skipped,
            len,
            near,
        })
    }

    /// Its address for generated code.
    pub fn near(&self) -> i32 {
        self.near
    }

    /// Its address for the card: the lower half, and the upper one.
    pub fn halves(&self) -> [u32; 2] {
        let begin = self.block.at().as_ptr().expose_provenance() + self.skipped;
        let at = physical(begin);
        [at as u32, (at >> 32) as u32]
    }

    /// Word number `index`; beyond the last one it begins again.
    pub fn word(&self, index: usize) -> &AtomicU32 {
        let at = self.skipped + index * 4 % self.len;
        // SAFETY: a word within the block, aligned, which the card changes as another processor might.
        unsafe { self.block.at().byte_add(at).cast::<AtomicU32>().as_ref() }
    }

    /// Clears it, while no card reaches it and no handler names it.
    pub fn clear(&self) {
        for index in 0..self.len / 4 {
            self.word(index).store(0, Ordering::Relaxed);
        }
    }
}
