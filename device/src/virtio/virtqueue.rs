//! The split virtqueue: descriptors, what the driver makes available, what the device has used.
//!
//! *Interface*: [`Virtqueue`] owns its memory. Its addresses go to the device ([`Virtqueue::descriptors`],
//! ...) and into generated code ([`Virtqueue::words`]); the reference implementation of that code is
//! [`Virtqueue::give`] and [`Virtqueue::take`], for queues that are seldom used.
//!
//! Buffers are of the kernel's heap, which is contiguous in physical memory as it is in the window:
//! [`physical`].
//! Source: Virtual I/O Device (VIRTIO) Version 1.2, section 2.7.
//!
//! *Unsafe*: the words of the ring; filling a buffer.

pub use crate::dma::{near, physical};
use codegen::{Draft, Label, dynasm};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use quaject::near_memory::NearBlock;

/// Bytes of a descriptor.
const DESCRIPTOR: usize = 16;
/// Its flag: another belongs to it, behind it.
const NEXT: u16 = 1;
/// Its flag: the device writes.
pub const WRITES: u16 = 2;

/// Fills `buffer`, which no device has, with `bytes`, as many as fit; says how many these are.
pub fn fill(buffer: &mut NearBlock, bytes: impl Iterator<Item = u8>) -> u32 {
    let mut len = 0;
    for byte in bytes.take(buffer.len()) {
        // SAFETY: within the block, which no other code writes.
        unsafe { buffer.at().add(len).write(byte) };
        len += 1;
    }
    len as u32
}

/// Part of a handler: jumps to `wake` if the device has used more than `taken` counts, which is allocated
/// like the ring, so near as that is. `used` is [`VirtqueueWords::used`]. Changes ax and flags.
pub fn look_for_used(d: &mut Draft, used: i32, taken: &AtomicU16, wake: Label) {
    let taken = near(taken.as_ptr().expose_provenance()).unwrap_or(used);
    dynasm!(d ; .arch x64 ; mov ax, [used] ; cmp ax, [taken] ; jne =>wake);
}

/// One ring.
pub struct Virtqueue {
    block: NearBlock,
    size: u16,
}

/// Where its parts lie, for generated code: sign-extended 32-bit addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtqueueWords {
    /// The first descriptor: address (64 bits), length (32), flags and next (16 each).
    pub descriptors: i32,
    /// How many buffers were ever made available (16 bits).
    pub available: i32,
    /// How many were ever used (16 bits).
    pub used: i32,
    /// The first record of use: number (32 bits), bytes written (32).
    pub records: i32,
}

impl Virtqueue {
    /// A ring of `size` descriptors, a power of two. None: no memory.
    pub fn new(size: u16) -> Option<Virtqueue> {
        let block = size
            .is_power_of_two()
            .then(|| NearBlock::new(Self::len(size)))??;
        Some(Virtqueue { block, size })
    }

    const fn available_at(size: u16) -> usize {
        DESCRIPTOR * size as usize
    }

    const fn used_at(size: u16) -> usize {
        (Self::available_at(size) + 6 + 2 * size as usize).next_multiple_of(4)
    }

    const fn len(size: u16) -> usize {
        Self::used_at(size) + 6 + 8 * size as usize
    }

    /// How many descriptors there are.
    pub fn size(&self) -> u16 {
        self.size
    }

    fn base(&self) -> usize {
        self.block.at().as_ptr().expose_provenance()
    }

    /// Physical address of the descriptors.
    pub fn descriptors(&self) -> u64 {
        physical(self.base())
    }

    /// Physical address of what the driver writes.
    pub fn available(&self) -> u64 {
        physical(self.base() + Self::available_at(self.size))
    }

    /// Physical address of what the device writes.
    pub fn used(&self) -> u64 {
        physical(self.base() + Self::used_at(self.size))
    }

    /// Its parts for generated code. None: not near.
    pub fn words(&self) -> Option<VirtqueueWords> {
        near(self.base() + self.block.len())?;
        let base = near(self.base())?;
        let used = base + Self::used_at(self.size) as i32;
        Some(VirtqueueWords {
            descriptors: base,
            available: base + Self::available_at(self.size) as i32 + 2,
            used: used + 2,
            records: used + 4,
        })
    }

    fn at<T>(&self, offset: usize) -> &T {
        debug_assert!(offset + size_of::<T>() <= self.block.len());
        // SAFETY: the callers below name places of a ring of `size` descriptors, all of whose words are plain
        // atomic numbers, aligned.
        unsafe { self.block.at().add(offset).cast::<T>().as_ref() }
    }

    /// Says once and for all in which direction descriptor `number` goes.
    pub fn set_flags(&self, number: u16, flags: u16) {
        let number = usize::from(number & (self.size - 1));
        self.at::<AtomicU16>(number * DESCRIPTOR + 12)
            .store(flags, Ordering::Relaxed);
    }

    /// Says once and for all that the device reads descriptor `number` and then writes to the one behind it:
    /// a question and its answer.
    pub fn pair(&self, number: u16) {
        let first = usize::from(number & (self.size - 1));
        self.set_flags(number, NEXT);
        let next = number.wrapping_add(1) & (self.size - 1);
        self.at::<AtomicU16>(first * DESCRIPTOR + 14)
            .store(next, Ordering::Relaxed);
        self.set_flags(next, WRITES);
    }

    /// Lets descriptor `number` name `len` bytes at physical address `physical`.
    pub fn place(&self, number: u16, physical: u64, len: u32) {
        let at = usize::from(number & (self.size - 1)) * DESCRIPTOR;
        self.at::<AtomicU64>(at).store(physical, Ordering::Relaxed);
        self.at::<AtomicU32>(at + 8).store(len, Ordering::Relaxed);
    }

    /// Makes descriptor `number`, of `len` bytes at physical address `physical`, available.
    pub fn give(&self, number: u16, physical: u64, len: u32) {
        self.place(number, physical, len);
        self.offer(number);
    }

    /// Makes descriptor `number` available as it is. One at a time.
    pub fn offer(&self, number: u16) {
        let number = number & (self.size - 1);
        let list = Self::available_at(self.size);
        let index = self.at::<AtomicU16>(list + 2);
        let given = index.load(Ordering::Relaxed);
        let slot = usize::from(given & (self.size - 1));
        self.at::<AtomicU16>(list + 4 + 2 * slot)
            .store(number, Ordering::Relaxed);
        index.store(given.wrapping_add(1), Ordering::Release);
    }

    /// The device's answer for a buffer: its number, and how many bytes it has written, if it has used
    /// more than `taken`, which then counts one more. A number beyond the ring is none of ours: None for the
    /// length.
    pub fn take(&self, taken: &mut u16) -> Option<(u16, Option<u32>)> {
        let list = Self::used_at(self.size);
        if self.at::<AtomicU16>(list + 2).load(Ordering::Acquire) == *taken {
            return None;
        }
        let slot = usize::from(*taken & (self.size - 1));
        *taken = taken.wrapping_add(1);
        let record = list + 4 + 8 * slot;
        let number = self.at::<AtomicU32>(record).load(Ordering::Relaxed);
        let len = self.at::<AtomicU32>(record + 4).load(Ordering::Relaxed);
        let known = number < u32::from(self.size);
        Some((number as u16 & (self.size - 1), known.then_some(len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_as_the_standard_wants() {
        for size in [1, 2, 32, 256] {
            let ring = Virtqueue::new(size).unwrap();
            assert!(ring.descriptors().is_multiple_of(16));
            assert_eq!(ring.available() - ring.descriptors(), 16 * u64::from(size));
            assert!(ring.used().is_multiple_of(4));
            assert!(ring.used() >= ring.available() + 6 + 2 * u64::from(size));
            let words = ring.words().unwrap();
            let offset = (words.used - words.descriptors) as u64;
            assert_eq!(ring.descriptors() + offset, ring.used() + 2);
        }
        assert!(Virtqueue::new(3).is_none() && Virtqueue::new(0).is_none());
    }

    #[test]
    fn a_device_that_lies_is_not_believed() {
        let ring = Virtqueue::new(4).unwrap();
        let mut taken = 0;
        assert!(ring.take(&mut taken).is_none());
        ring.give(5, 0x1234, 9);
        let list = Virtqueue::available_at(4);
        assert_eq!(ring.at::<AtomicU16>(list + 4).load(Ordering::Relaxed), 1);
        let used = Virtqueue::used_at(4);
        for (number, len, expected) in [
            (1, 9, (1, Some(9))),
            (4, 1, (0, None)),
            (u32::MAX, 1, (3, None)),
        ] {
            let slot = used + 4 + 8 * usize::from(taken & 3);
            ring.at::<AtomicU32>(slot).store(number, Ordering::Relaxed);
            ring.at::<AtomicU32>(slot + 4).store(len, Ordering::Relaxed);
            ring.at::<AtomicU16>(used + 2)
                .fetch_add(1, Ordering::Release);
            assert_eq!(ring.take(&mut taken), Some(expected));
            assert_eq!(ring.take(&mut taken), None);
        }
    }
}
