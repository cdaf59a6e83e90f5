//! The kernel's table of symbols as it lies in memory: packed, since it stays there for a panic report.
//!
//! *Interface*: [`Table::over`] bytes that the host tool has made (`xtask/src/symbols.rs`), [`Table::find`].
//! Bytes that are no such table find nothing.
//!
//! Numbers are little-endian. Three numbers of four bytes: how many blocks there are, how many bytes of
//! texts, and where the blocks begin, counted from the table's first byte. Then the *texts*: 257 numbers of
//! two bytes, where the text of each code begins, and the texts. A code is a byte of a packed name. Then
//! for each block its first address, and where it begins after the place of the first: four bytes each.
//! Addresses count from the image's first byte.
//!
//! A block is a series of symbols: the distance from the address before (seven bits a byte, lowest first, the
//! uppermost bit is set in all but the last), how many bytes the name has in common with the one before, how
//! many codes follow, and these. The first of a block has the distance 0 from its block's address and nothing
//! in common.
//! Source: front coding, and pairs of bytes that become one byte (P. Gage, *A New Algorithm for Data
//! Compression*, 1994).

/// The longest name.
pub const NAME_MAX: usize = 255;
/// Numbers in front of the texts.
pub const HEAD: usize = 12;
/// Codes, each a byte.
pub const CODES: usize = 256;

/// A symbol's name.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    len: usize,
}

impl Name {
    /// The name; an empty one if it is no text.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// A table in bytes.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    starts: &'a [u8],
    texts: &'a [u8],
    index: &'a [u8],
    blocks: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let (bytes, _) = bytes.get(at..)?.split_first_chunk()?;
    Some(u32::from_le_bytes(*bytes) as usize)
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    let (bytes, _) = bytes.get(at..)?.split_first_chunk()?;
    Some(u16::from_le_bytes(*bytes).into())
}

impl<'a> Table<'a> {
    /// The table that `bytes` are.
    pub fn over(bytes: &'a [u8]) -> Option<Self> {
        let (count, len, blocks) = (word(bytes, 0)?, word(bytes, 4)?, word(bytes, 8)?);
        let (starts, rest) = bytes.get(HEAD..)?.split_at_checked(2 * (CODES + 1))?;
        let (texts, rest) = rest.split_at_checked(len)?;
        Some(Table {
            starts,
            texts,
            index: rest.get(..count.checked_mul(8)?)?,
            blocks: bytes.get(blocks..)?,
        })
    }

    /// The text of a code.
    fn text(&self, code: u8) -> Option<&'a [u8]> {
        let at = 2 * usize::from(code);
        self.texts
            .get(half(self.starts, at)?..half(self.starts, at + 2)?)
    }

    /// First address and place of a block.
    fn block(&self, at: usize) -> Option<(usize, usize)> {
        Some((word(self.index, 8 * at)?, word(self.index, 8 * at + 4)?))
    }

    /// The last symbol that is not above `address`, and the distance from it.
    pub fn find(&self, address: usize) -> Option<(Name, usize)> {
        let (mut low, mut high) = (0, self.index.len() / 8);
        while low < high {
            let middle = low.midpoint(high);
            if self.block(middle)?.0 <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let (mut at, start) = self.block(low.checked_sub(1)?)?;
        let end = self.block(low).map_or(self.blocks.len(), |(_, next)| next);
        let mut bytes = self.blocks.get(start..end)?.iter().copied();
        let mut name = Name {
            bytes: [0; NAME_MAX],
            len: 0,
        };
        let mut found = None;
        while let Some(next) = self.next(&mut bytes, &mut at, &mut name) {
            if at > address {
                break;
            }
            found = Some((next, address - at));
        }
        found
    }

    /// The next symbol of a block: moves `at` to its address, and makes its name of that of the one before.
    fn next(
        &self,
        bytes: &mut impl Iterator<Item = u8>,
        at: &mut usize,
        name: &mut Name,
    ) -> Option<Name> {
        let (mut distance, mut shift) = (0, 0);
        loop {
            let byte = bytes.next()?;
            distance |= usize::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        *at = at.checked_add(distance)?;
        name.len = name.len.min(bytes.next()?.into());
        for _ in 0..bytes.next()? {
            let text = self.text(bytes.next()?)?;
            let end = name.len + text.len();
            name.bytes.get_mut(name.len..end)?.copy_from_slice(text);
            name.len = end;
        }
        Some(*name)
    }
}
