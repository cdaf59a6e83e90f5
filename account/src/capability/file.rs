//! Capabilities of a program's file, as the extended attribute `security.capability` says them
//! (capabilities(7), "File capabilities").
//!
//! *Interface*: [`FileCaps::from_bytes`] for `exec`; [`check`] at setting the attribute, [`shown`] at reading
//! it.

use abi::errno::{Errno, Result};
use alloc::vec::Vec;

use super::CapSet;

/// The attribute.
pub const NAME: &[u8] = b"security.capability";

const REVISION: u32 = 0xff00_0000;
const REVISION_1: u32 = 0x0100_0000;
const REVISION_2: u32 = 0x0200_0000;
const REVISION_3: u32 = 0x0300_0000;
const EFFECTIVE: u32 = 1;
/// Bytes of each.
const SIZE_1: usize = 12;
const SIZE_2: usize = 20;
const SIZE_3: usize = 24;

/// The capabilities that a file grants at execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCaps {
    /// Granted to all users, within the bounding set.
    pub permitted: CapSet,
    /// Granted to processes that have them inheritable.
    pub inheritable: CapSet,
    /// Granted capabilities are effective at once.
    pub effective: bool,
}

/// The word at `index`.
fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.get(index).map(|word| u32::from_le_bytes(*word))
}

impl FileCaps {
    /// The grants of `bytes`: none if they are for another user namespace. EINVAL.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<FileCaps>> {
        let at = |index| word(bytes, index).ok_or(Errno::EINVAL);
        let magic = at(0)?;
        let (high, root) = match (magic & REVISION, bytes.len()) {
            (REVISION_1, SIZE_1) => ([0, 0], 0),
            (REVISION_2, SIZE_2) => ([at(3)?, at(4)?], 0),
            (REVISION_3, SIZE_3) => ([at(3)?, at(4)?], at(5)?),
            _ => return Err(Errno::EINVAL),
        };
        if root != 0 {
            return Ok(None);
        }
        let set = |low: u32, high: u32| CapSet::from_bits(u64::from(high) << 32 | u64::from(low));
        Ok(Some(FileCaps {
            permitted: set(at(1)?, high[0]),
            inheritable: set(at(2)?, high[1]),
            effective: magic & EFFECTIVE != 0,
        }))
    }
}

/// EINVAL for values that cannot be set.
pub fn check(bytes: &[u8]) -> Result<()> {
    let revision = word(bytes, 0).map(|magic| magic & REVISION);
    match (revision, bytes.len()) {
        (Some(REVISION_2), SIZE_2) => Ok(()),
        (Some(REVISION_3), SIZE_3) if word(bytes, 5) != Some(u32::MAX) => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// The bytes to show for `bytes`: those of the one user namespace that there is as revision 2.
pub fn shown(bytes: Vec<u8>) -> Vec<u8> {
    let mut bytes = bytes;
    let revision = word(&bytes, 0).map(|magic| magic & REVISION);
    if (revision, bytes.len(), word(&bytes, 5)) == (Some(REVISION_3), SIZE_3, Some(0)) {
        bytes.truncate(SIZE_2);
        if let Some(last) = bytes.get_mut(3) {
            *last = (REVISION_2 >> 24) as u8;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn each_revision_is_read() {
        let two = bytes(&[0x0200_0001, 0x400, 0x8, 1 << 6, 0]);
        let caps = FileCaps::from_bytes(&two).unwrap().unwrap();
        assert_eq!(caps.permitted.bits(), 0x40_0000_0400);
        assert_eq!((caps.inheritable.bits(), caps.effective), (8, true));
        let one = bytes(&[0x0100_0000, 0x400, 0x8]);
        let caps = FileCaps::from_bytes(&one).unwrap().unwrap();
        assert_eq!((caps.permitted.bits(), caps.effective), (0x400, false));
        let three = bytes(&[0x0300_0000, 0x400, 0, 0, 0, 0]);
        assert!(FileCaps::from_bytes(&three).unwrap().is_some());
        let other = bytes(&[0x0300_0000, 0x400, 0, 0, 0, 7]);
        assert_eq!(FileCaps::from_bytes(&other), Ok(None));
        for wrong in [&two[..19], &one[..8], &bytes(&[0x0400_0000; 5])] {
            assert_eq!(FileCaps::from_bytes(wrong), Err(Errno::EINVAL));
        }
    }

    #[test]
    fn the_first_revision_is_not_set_any_more_and_the_third_shown_as_the_second() {
        assert_eq!(check(&bytes(&[0x0200_0001, 1, 0, 0, 0])), Ok(()));
        assert_eq!(check(&bytes(&[0x0300_0001, 1, 0, 0, 0, 5])), Ok(()));
        for wrong in [
            bytes(&[0x0100_0001, 1, 0]),
            bytes(&[0x0300_0001, 1, 0, 0, 0]),
            bytes(&[0x0200_0001, 1, 0, 0, 0, 0]),
            bytes(&[0x0300_0001, 1, 0, 0, 0, u32::MAX]),
            Vec::new(),
        ] {
            assert_eq!(check(&wrong), Err(Errno::EINVAL));
        }
        let shown_as = shown(bytes(&[0x0300_0001, 1, 0, 0, 0, 0]));
        assert_eq!(shown_as, bytes(&[0x0200_0001, 1, 0, 0, 0]));
        let other = bytes(&[0x0300_0001, 1, 0, 0, 0, 5]);
        assert_eq!(shown(other.clone()), other);
    }
}
