//! Directory entries in the format of `getdents64`.
//!
//! *Interface*: [`DirentBuf`] lays out what it is handed, as far as there is room.

use abi::errno::Result;
use abi::linux::DIRENT64_NAME;
use alloc::vec::Vec;
use vm::fallible::try_reserve;

use super::dentry::few;
use super::inode::{DirEntry, DirSink};

/// Bytes of the name in the third word, behind the record's length and the kind of file.
const FIRST: usize = 3 * 8 - DIRENT64_NAME;
/// Bits of the third word before the name.
const BEFORE: usize = 8 * (8 - FIRST);

/// Records, one behind the other; each is a number of words.
pub struct DirentBuf {
    words: Vec<u64>,
    /// Words that there is room for.
    left: usize,
    refused: bool,
}

impl DirentBuf {
    /// No records, with room for `bytes`. ENOMEM.
    pub fn with_room(bytes: usize) -> Result<DirentBuf> {
        let left = bytes / 8;
        let mut words = Vec::new();
        try_reserve(&mut words, left)?;
        Ok(DirentBuf {
            words,
            left,
            refused: false,
        })
    }

    /// Whether there was an entry for which there was no room.
    pub fn refused(&self) -> bool {
        self.refused
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// Lays out an entry, or answers `false`: no room.
    #[expect(clippy::disallowed_methods, reason = "room was made for all")]
    #[inline(always)]
    pub fn put(&mut self, entry: &DirEntry) -> bool {
        let name = entry.name;
        // A name's length is a small number.
        let count = name.len().wrapping_add(DIRENT64_NAME + 1 + 7) / 8;
        let Some(left) = self.left.checked_sub(count) else {
            self.refused = true;
            return false;
        };
        self.left = left;
        // The first bytes in the lower end of a word, the last in the upper end of another.
        let (first, last) = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => {
                let all = few(name);
                (
                    all,
                    all << ((8 * 8_u32.wrapping_sub(name.len() as u32)) & 63),
                )
            }
        };
        let head = (count as u64) << 3 | u64::from(entry.kind) << 16;
        let third = head | first << BEFORE;
        self.words
            .extend_from_slice(&[entry.ino, entry.next, third]);
        let Some(rest) = name.get(FIRST..) else {
            return true;
        };
        let (whole, ending) = rest.as_chunks::<8>();
        for word in whole {
            self.words.push(u64::from_le_bytes(*word));
        }
        // The rest, fewer than eight bytes, and zeros.
        self.words
            .push(last >> (56 - 8 * (ending.len() as u32 & 7)) >> 8);
        true
    }
}

impl DirSink for DirentBuf {
    fn entry(&mut self, entry: DirEntry<'_>) -> bool {
        self.put(&entry)
    }

    fn records(&mut self) -> Option<&mut DirentBuf> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_what_linux_says() {
        let text = b"abcdefghijklmnopqrstuvwxyz";
        for len in 1..=text.len() {
            let name = &text[..len];
            let length = (DIRENT64_NAME + len + 1).next_multiple_of(8);
            let entry = || DirEntry {
                ino: 0x0102_0304_0506_0708,
                next: 77,
                kind: 8,
                name,
            };
            let mut wanted = Vec::new();
            wanted.extend(0x0102_0304_0506_0708_u64.to_le_bytes());
            wanted.extend(77_u64.to_le_bytes());
            wanted.extend((length as u16).to_le_bytes());
            wanted.push(8);
            wanted.extend(name);
            wanted.resize(length, 0);
            let mut records = DirentBuf::with_room(2 * length + 7).unwrap();
            assert!(records.entry(entry()) && records.put(&entry()));
            assert!(!records.refused() && !records.put(&entry()));
            assert_eq!(records.bytes(), [&wanted[..], &wanted].concat());
            let mut small = DirentBuf::with_room(length - 1).unwrap();
            assert!(!small.entry(entry()) && small.refused());
        }
    }
}
