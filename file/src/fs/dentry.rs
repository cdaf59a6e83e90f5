//! A directory entry: a name in a directory, and the inode that it leads to.
//!
//! *Interface*: [`Dentry`], which never changes; [`hash`] of a name, and [`component`] for following a path.
//! The names of a file system with its entries in a [`sync::HashTable`], which [`Inode::published`] shows,
//! are found without a lock ([`super::lockfree_walk`]).
//!
//! *Unsafe*: a part of the inode that the entry keeps.

use alloc::sync::Arc;
use core::ptr::NonNull;
use sync::hash_table::Hashed;

use super::attr::FileKind;
use super::inode::Inode;
use super::published::Published;

/// An entry.
pub struct Dentry {
    hash: u64,
    /// The name.
    pub name: Arc<[u8]>,
    /// Its place in the order of creation.
    pub place: u64,
    /// The kind of file.
    pub kind: FileKind,
    /// The number of what it leads to.
    pub ino: u64,
    /// Its inode.
    pub inode: Arc<dyn Inode>,
    /// The part that the inode shows.
    shown: Option<NonNull<Published>>,
}

// SAFETY: all fields but `shown` are `Send` and `Sync` themselves; `shown` points to a part of the inode, and
// is.
unsafe impl Send for Dentry {}
// SAFETY: as above.
unsafe impl Sync for Dentry {}

impl Dentry {
    /// An entry for `inode`.
    pub fn new(name: Arc<[u8]>, place: u64, inode: Arc<dyn Inode>) -> Dentry {
        Dentry::hashed(hash(&name), name, place, inode)
    }

    /// As [`Dentry::new`], with the `hash` of `name`.
    pub fn hashed(hash: u64, name: Arc<[u8]>, place: u64, inode: Arc<dyn Inode>) -> Dentry {
        Dentry {
            hash,
            name,
            place,
            kind: inode.kind(),
            ino: inode.id().1,
            shown: inode.published().map(NonNull::from),
            inode,
        }
    }

    /// The part that the inode shows.
    #[inline]
    pub fn published(&self) -> Option<&Published> {
        // SAFETY: it is a part of the inode, always the same, and the entry keeps that.
        self.shown.map(|shown| unsafe { shown.as_ref() })
    }

    /// Whether it, which has the hash of `name`, is called so.
    #[inline]
    pub fn is(&self, name: &[u8]) -> bool {
        self.is_piece(name, 0, name.len())
    }

    /// Whether it, which has the hash of the `length` bytes of `path` from `at` on, is called so. Of a name
    /// of one word the hash is another for each, so nothing more is looked at.
    #[inline(always)]
    pub fn is_piece(&self, path: &[u8], at: usize, length: usize) -> bool {
        self.name.len() == length
            && match length {
                0..=8 => true,
                9..=16 => ends_are_same(&self.name, path, at),
                _ => same(&self.name, path, at),
            }
    }
}

impl Hashed for Dentry {
    #[inline]
    fn hash(&self) -> u64 {
        self.hash
    }
}

/// Whether `path` has at `at` the first eight bytes of `name`, and the last eight where these end.
#[inline(always)]
fn ends_are_same(name: &[u8], path: &[u8], at: usize) -> bool {
    let Some(last) = at
        .checked_add(name.len())
        .and_then(|end| load(path, end.wrapping_sub(8)))
    else {
        return false;
    };
    name.last_chunk().map(|bytes| u64::from_le_bytes(*bytes)) == Some(last)
        && name.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) == load(path, at)
}

/// Whether `path` has at `at` the bytes of `name`, which are more than eight.
#[inline(never)]
fn same(name: &[u8], path: &[u8], at: usize) -> bool {
    let Some(piece) = path.get(at..).and_then(|rest| rest.get(..name.len())) else {
        return false;
    };
    let mut words = name.as_chunks::<8>().0.iter().zip(piece.as_chunks::<8>().0);
    // The last bytes first: names differ at their ends.
    name.last_chunk::<8>() == piece.last_chunk() && words.all(|(a, b)| a == b)
}

/// For one `hash` another number for each word: rotations, odd factors and shifts that are added can be
/// undone.
#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    // A product's upper bits depend on all of its factors' bits; the lower ones are to do so, too.
    mixed ^ mixed >> 32
}

/// Eight bytes of `path` from `at` on; zeros behind its end.
#[inline]
pub(super) fn word(path: &[u8], at: usize) -> u64 {
    let load = |at: usize| {
        let eight = path.get(at..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*eight))
    };
    if let Some(word) = load(at) {
        return word;
    }
    let Some(count) = path.len().checked_sub(at).filter(|count| *count > 0) else {
        return 0;
    };
    // The last bytes in the upper end of a word, those before them below.
    let ending = match path.len().checked_sub(8).and_then(load) {
        Some(ending) => ending,
        None => few(path) << ((8 * (8 - path.len() as u32)) & 63),
    };
    ending >> ((8 * (8 - count as u32)) & 63)
}

/// Fewer than eight bytes, and zeros behind them.
#[inline]
pub(super) fn few(bytes: &[u8]) -> u64 {
    let up = |by: usize| 8 * (bytes.len() - by) as u32;
    // Bytes in the middle are in both halves.
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first))
            | u64::from(u32::from_le_bytes(*last)) << up(4);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<2>(), bytes.last_chunk::<2>()) {
        return u64::from(u16::from_le_bytes(*first))
            | u64::from(u16::from_le_bytes(*last)) << up(2);
    }
    bytes.first().copied().map_or(0, u64::from)
}

/// A name's hash, eight bytes at a step.
pub fn hash(name: &[u8]) -> u64 {
    let mut hash = 0;
    let mut at = 0;
    while at < name.len() {
        hash = mix(hash, word(name, at));
        at += 8;
    }
    hash
}

const LOW: u64 = 0x0101_0101_0101_0101;

/// A bit for the first byte of `word` that is zero or a slash; those above it mean nothing.
#[inline(always)]
fn ends(word: u64) -> u64 {
    const SLASHES: u64 = LOW * b'/' as u64;
    let zeros = |word: u64| word.wrapping_sub(LOW) & !word & LOW << 7;
    zeros(word) | zeros(word ^ SLASHES)
}

/// The bytes of `word` below the first bit of `ends`.
#[inline(always)]
fn below(word: u64, ends: u64) -> u64 {
    word & (ends & ends.wrapping_neg()).wrapping_sub(1) >> 7
}

#[inline(always)]
fn load(path: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*path.get(at..)?.first_chunk::<8>()?))
}

/// The hash of the name in `path` that begins at `at` and ends before a slash or a zero, and where it ends:
/// at `at` if there is none. None if no word of the path has its end.
#[inline(always)]
pub fn component(path: &[u8], at: usize) -> Option<(u64, usize)> {
    let (mut hash, mut at, mut word) = (0, at, load(path, at)?);
    let mut end = ends(word);
    if end == 0 {
        // Most names have at most sixteen bytes.
        (hash, at) = (mix(0, word), at.wrapping_add(8));
        word = load(path, at)?;
        end = ends(word);
        if end == 0 {
            return longer(path, at, hash, word);
        }
    }
    let rest = below(word, end);
    if rest != 0 {
        hash = mix(hash, rest);
    }
    Some((hash, at.wrapping_add(end.trailing_zeros() as usize / 8)))
}

/// As [`component`], of a name with the `hash` of all before `at`, where `word` is, which goes on behind it.
#[inline(never)]
fn longer(path: &[u8], at: usize, hash: u64, word: u64) -> Option<(u64, usize)> {
    let (mut hash, mut at) = (mix(hash, word), at);
    loop {
        at += 8;
        let word = load(path, at)?;
        let ends = ends(word);
        if ends == 0 {
            hash = mix(hash, word);
            continue;
        }
        let rest = below(word, ends);
        if rest != 0 {
            hash = mix(hash, rest);
        }
        return Some((hash, at + ends.trailing_zeros() as usize / 8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_length_are_told_apart() {
        for len in 9..40 {
            let name: Vec<u8> = (0..len).map(|i| b'a' + i % 26).collect();
            assert!(same(&name, &name.clone(), 0));
            assert!(same(&name, &[b"/x", &name[..], b"yz"].concat(), 2));
            assert!(!same(&name, &name[1..], 0));
            for at in 0..name.len() {
                let mut other = name.clone();
                other[at] = b'_';
                assert!(!same(&name, &other, 0), "{len} {at}");
            }
        }
    }

    /// A name of one word is told by its hash.
    #[test]
    fn a_hash_says_which_word_it_was() {
        let undone = |hash: u64| {
            let product = hash ^ hash >> 32;
            let factor = 0x517c_c1b7_2722_0a95_u64;
            // Each step doubles the bits that are right.
            let inverse = (0..6).fold(1_u64, |inverse, _| {
                inverse.wrapping_mul(2_u64.wrapping_sub(factor.wrapping_mul(inverse)))
            });
            product.wrapping_mul(inverse)
        };
        for name in ["a", "ab", "tmp", "file", "12345678"] {
            assert_eq!(undone(hash(name.as_bytes())), word(name.as_bytes(), 0));
        }
    }

    #[test]
    fn a_word_ends_in_zeros() {
        let bytes = b"abcdefghijklmnopqrst";
        for len in 0..=bytes.len() {
            for at in 0..=len + 2 {
                let mut wanted = [0; 8];
                let there = bytes[..len].get(at..).unwrap_or_default();
                let count = there.len().min(8);
                wanted[..count].copy_from_slice(&there[..count]);
                assert_eq!(
                    word(&bytes[..len], at),
                    u64::from_le_bytes(wanted),
                    "{len} {at}"
                );
            }
        }
    }

    #[test]
    fn a_component_has_the_hash_of_its_name() {
        let names = [
            "a",
            "1234567",
            "12345678",
            "123456789",
            "0123456789abcdef",
            "0123456789abcdefg",
        ];
        for name in names {
            for path in [
                name.to_string(),
                format!("/{name}"),
                format!("xy//{name}/z"),
                format!("0123456789/{name}/"),
            ] {
                let at = path.rfind(name).unwrap();
                let padded = [path.as_bytes(), &[0; 8]].concat();
                let found = component(&padded, at);
                let wanted = (hash(name.as_bytes()), at + name.len());
                assert_eq!(found, Some(wanted), "{path}");
                assert_eq!(component(&padded[..at + name.len()], at), None);
            }
        }
        let hashes: std::collections::BTreeSet<_> = (0..10_000)
            .map(|i| hash(format!("file{i:05}").as_bytes()))
            .collect();
        assert_eq!(hashes.len(), 10_000);
        // The lower bits tell them apart, too.
        let low: std::collections::BTreeSet<_> = hashes.iter().map(|hash| hash & 0xffff).collect();
        assert!(low.len() > 8_000, "{}", low.len());
    }
}
