//! A device's registers in memory: volatile accesses that cannot leave them.
//!
//! *Interface*: [`Registers::of_device`] for where a device says that they are, [`Registers::map`] for
//! physical addresses; [`Registers::read`] and [`Registers::write`] of 1, 2 or 4 bytes. As on a bus, what
//! lies outside reads as all ones and takes no writes. [`Registers::part`] cuts; [`Registers::address`] is
//! for generated code.
//!
//! *Unsafe*: registers that stay mapped.

use crate::error::DeviceError;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
use machine::boot;
use sync::Monitor;

/// A stretch of registers, which stays mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    at: usize,
    len: usize,
}

/// Where devices said that their registers are, and where these are mapped: a device that comes again where
/// one was has what that had.
static KNOWN: Monitor<Vec<(u64, Registers)>> = Monitor::new(Vec::new());

/// The sizes of an access.
pub trait Word: Copy {
    /// The value of an unanswered read.
    const ONES: Self;
    #[doc(hidden)]
    unsafe fn load(at: usize) -> Self;
    #[doc(hidden)]
    unsafe fn store(at: usize, value: Self);
}

macro_rules! word {
    ($($word:ty: $atomic:ty),*) => {$(
        impl Word for $word {
            const ONES: Self = <$word>::MAX;
            unsafe fn load(at: usize) -> Self {
                let word: *const $atomic = core::ptr::with_exposed_provenance(at);
                // SAFETY: the caller's promise. A device may change the word at any time, as another
                // processor might.
                unsafe { (*word).load(Ordering::Acquire) }
            }
            unsafe fn store(at: usize, value: Self) {
                let word: *const $atomic = core::ptr::with_exposed_provenance(at);
                // SAFETY: the caller's promise.
                unsafe { (*word).store(value, Ordering::Release) }
            }
        }
    )*};
}

word!(u8: AtomicU8, u16: AtomicU16, u32: AtomicU32);

impl Registers {
    /// No registers.
    pub const NONE: Registers = Registers { at: 0, len: 0 };

    /// Maps `len` bytes at physical address `physical`, for ever. None: no room, or no memory.
    pub fn map(physical: u64, len: usize) -> Option<Registers> {
        let at = vm::mmio::map(physical, len)?.expose_provenance();
        Some(Registers { at, len })
    }

    /// The `len` bytes at physical address `physical`, where a device says that its registers are.
    ///
    /// # Errors
    /// [`DeviceError::Place`] when there is memory, [`DeviceError::Fit`] when they cannot be mapped.
    pub fn of_device(physical: u64, len: usize) -> Result<Registers, DeviceError> {
        let end = physical.checked_add(len as u64).ok_or(DeviceError::Place)?;
        let covers = |region: &boot::MemoryRegion| {
            region.kind == boot::MemoryKind::Usable
                && (region.start as u64) < end
                && physical < region.end() as u64
        };
        if end > 1 << 52 || boot::info().memory.iter().any(covers) {
            return Err(DeviceError::Place);
        }
        // Bound: a look at the registers that are mapped, and the mapping of 256 pages.
        let mut known = KNOWN.lock();
        let same = |(at, registers): &&(u64, Registers)| *at == physical && registers.len == len;
        if let Some((_, registers)) = known.iter().find(same) {
            return Ok(*registers);
        }
        let registers = Registers::map(physical, len).ok_or(DeviceError::Fit)?;
        // Not noted, they are mapped a second time.
        if known.try_reserve(1).is_ok() {
            known.push((physical, registers));
        }
        Ok(registers)
    }

    /// Those of a model, for tests.
    #[cfg(test)]
    pub fn model(memory: &'static mut [u32]) -> Registers {
        Registers {
            at: memory.as_mut_ptr().expose_provenance(),
            len: size_of_val(memory),
        }
    }

    /// Those that lie in near memory, for tests.
    #[cfg(test)]
    pub fn of_block(block: &quaject::near_memory::NearBlock) -> Registers {
        Registers {
            at: block.at().as_ptr().expose_provenance(),
            len: block.len(),
        }
    }

    /// The `len` bytes from `offset` on, if they are all there.
    pub fn part(self, offset: usize, len: usize) -> Option<Registers> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then_some(Registers {
            at: self.at + offset,
            len,
        })
    }

    /// How many bytes there are.
    pub fn len(self) -> usize {
        self.len
    }

    /// The address of a register of `len` bytes, for generated code: sign-extended from 32 bits.
    pub fn address(self, offset: usize, len: usize) -> Option<i32> {
        let at = self.part(offset, len)?.at;
        let near = at as i32;
        (near as isize as usize == at).then_some(near)
    }

    fn holds<W: Word>(self, offset: usize) -> Option<usize> {
        let at = self.part(offset, size_of::<W>())?.at;
        at.is_multiple_of(size_of::<W>()).then_some(at)
    }

    /// Reads a register.
    pub fn read<W: Word>(self, offset: usize) -> W {
        match self.holds::<W>(offset) {
            // SAFETY: within what was mapped, which stays, and aligned.
            Some(at) => unsafe { W::load(at) },
            None => W::ONES,
        }
    }

    /// Writes a register.
    pub fn write<W: Word>(self, offset: usize, value: W) {
        if let Some(at) = self.holds::<W>(offset) {
            // SAFETY: as above.
            unsafe { W::store(at, value) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_touched() {
        let all = Registers::model(Box::leak(Box::new([0x1111_2222; 4])));
        let middle = all.part(4, 8).unwrap();
        assert_eq!(middle.read::<u16>(2), 0x1111);
        middle.write::<u32>(4, 7);
        assert_eq!(all.read::<u32>(8), 7);
        middle.write::<u32>(8, 7);
        middle.write::<u16>(1, 7);
        assert_eq!(
            (all.read::<u32>(12), all.read::<u32>(4)),
            (0x1111_2222, 0x1111_2222)
        );
        assert_eq!(middle.read::<u32>(8), u32::MAX);
        assert_eq!(middle.read::<u32>(usize::MAX), u32::MAX);
        assert!(all.part(8, 9).is_none() && all.part(usize::MAX, 2).is_none());
        assert_eq!(Registers::NONE.read::<u8>(0), 0xff);
    }
}
