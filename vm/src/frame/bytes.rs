//! The only access to the bytes of a frame for the rooms above.
//!
//! *Interface*: [`FrameRef::bytes`] gives a [`FrameBytes`], a range inside one frame; it is read, written,
//! cleared and copied to and from the running program. A range that does not lie inside the frame is `EIO`,
//! before anything is touched: a wrong number ends a call and never runs through the map of all memory. No
//! room above forms a pointer from a frame.
//!
//! Others (mappings, generated routines, other CPUs) may change the bytes meanwhile, as with every file:
//! nothing here makes a reference to them.

use super::raw::inside;
use super::{FrameRef, Kernel, PhysMemory};
use abi::errno::{Errno, Result};
use core::marker::PhantomData;
use core::ops::Range;

/// A range of bytes inside one frame, whose share the owner keeps meanwhile.
pub struct FrameBytes<'a> {
    start: *mut u8,
    len: usize,
    owner: PhantomData<&'a FrameRef>,
}

impl FrameRef {
    /// The bytes of `range`, counted from the frame's first. `EIO` when they do not lie inside it.
    pub fn bytes(&self, range: Range<usize>) -> Result<FrameBytes<'_>> {
        let len = range.end.checked_sub(range.start).ok_or(Errno::EIO)?;
        Ok(FrameBytes {
            start: inside(Kernel.at(self.frame()), range.start, len)?,
            len,
            owner: PhantomData,
        })
    }
}

impl FrameBytes<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// None.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The place of `count` bytes from `at` on.
    fn part(&self, at: usize, count: usize) -> Result<*mut u8> {
        match at.checked_add(count) {
            Some(end) if end <= self.len => Ok(self.start.wrapping_add(at)),
            _ => Err(Errno::EIO),
        }
    }

    /// Clears all.
    pub fn zero(&self) {
        // SAFETY: the range lies inside a frame that its owner keeps.
        unsafe { self.start.write_bytes(0, self.len) }
    }

    /// Fills `into` from byte `at` on.
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<()> {
        let from = self.part(at, into.len())?;
        // SAFETY: `part` has looked; no Rust slice lies in a frame that has an owner.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(from, into.len()) };
        Ok(())
    }

    /// Stores `from` at byte `at`.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<()> {
        let to = self.part(at, from.len())?;
        // SAFETY: as in `read`.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Stores `from`, which is as long; the two may be the same bytes.
    pub fn copy_from(&self, from: &FrameBytes<'_>) -> Result<()> {
        if from.len != self.len {
            return Err(Errno::EIO);
        }
        // SAFETY: both lie inside frames that their owners keep, and are equally long.
        unsafe { self.start.copy_from(from.start, self.len) };
        Ok(())
    }

    /// Copies `count` bytes from byte `at` on to the program's `address`. `EFAULT`: some may have been
    /// copied.
    pub fn to_user(&self, at: usize, address: usize, count: usize) -> Result<()> {
        let from = self.part(at, count)?;
        // SAFETY: `part` has looked.
        unsafe { machine::user::copy_out(address, from, count) }.map_err(|()| Errno::EFAULT)
    }

    /// Copies `count` bytes from the program's `address` to byte `at`. `EFAULT`: some may have been copied.
    pub fn from_user(&self, at: usize, address: usize, count: usize) -> Result<()> {
        let to = self.part(at, count)?;
        // SAFETY: `part` has looked.
        unsafe { machine::user::copy_in(to, address, count) }.map_err(|()| Errno::EFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::alloc_zeroed;
    use super::*;
    use abi::layout::PAGE;

    fn page() -> FrameRef {
        FrameRef::own(alloc_zeroed().unwrap())
    }

    #[test]
    fn ranges_lie_inside_one_frame() {
        let page = page();
        let is = |range: Range<usize>| page.bytes(range).map(|bytes| bytes.len());
        assert_eq!(is(0..PAGE), Ok(PAGE));
        assert_eq!(is(PAGE..PAGE), Ok(0));
        assert_eq!(is(0..PAGE + 1), Err(Errno::EIO));
        #[expect(clippy::reversed_empty_ranges, reason = "a wrong number")]
        let reversed = is(100..1);
        assert_eq!(reversed, Err(Errno::EIO));
        assert_eq!(is(0..usize::MAX), Err(Errno::EIO));
        assert_eq!(is(usize::MAX..usize::MAX), Err(Errno::EIO));
    }

    #[test]
    fn bytes_go_where_they_belong_and_no_further() {
        let (a, b) = (page(), page());
        let all = a.bytes(0..PAGE).unwrap();
        all.write(10, b"hello").unwrap();
        assert_eq!(all.write(PAGE - 4, b"hello"), Err(Errno::EIO));
        assert_eq!(all.write(usize::MAX, b"hello"), Err(Errno::EIO));
        let other = b.bytes(3..8).unwrap();
        assert_eq!(other.copy_from(&all), Err(Errno::EIO));
        other.copy_from(&a.bytes(10..15).unwrap()).unwrap();
        let mut seen = [0; 7];
        b.bytes(2..9).unwrap().read(0, &mut seen).unwrap();
        assert_eq!(&seen, b"\0hello\0");
        a.bytes(11..14).unwrap().zero();
        let mut seen = [0; 5];
        all.read(10, &mut seen).unwrap();
        assert_eq!(&seen, b"h\0\0\0o");
        assert_eq!(all.read(PAGE - 4, &mut seen), Err(Errno::EIO));
        let mut to = [0u8; 5];
        let at = to.as_mut_ptr() as usize;
        assert_eq!(all.to_user(PAGE - 4, at, 5), Err(Errno::EIO));
        assert_eq!(all.to_user(10, at, 5), Ok(()));
        assert_eq!(&to, b"h\0\0\0o");
        assert_eq!(all.from_user(PAGE - 5, at, 5), Ok(()));
        assert_eq!(all.from_user(PAGE - 4, at, 5), Err(Errno::EIO));
    }
}
