//! An entry of a directory: a name there and the inode that it leads to.
//!
//! *Interface*: [`Dentry`], which never changes; [`hash`] of a name, and [`component`] for following a path.
//! The names of a file system with its entries in a [`sync::Table`], which [`Inode::entries`] shows, are
//! found without a lock ([`super::way`]).

use alloc::sync::Arc;
use sync::table::Hashed;

use super::attr::Kind;
use super::inode::Inode;

/// An entry.
pub struct Dentry {
    hash: u64,
    /// The name.
    pub name: Arc<[u8]>,
    /// Its place in the order of creation.
    pub place: u64,
    /// The kind of file.
    pub kind: Kind,
    /// Its inode.
    pub inode: Arc<dyn Inode>,
}

impl Dentry {
    /// An entry for `inode`.
    pub fn new(name: Arc<[u8]>, place: u64, inode: Arc<dyn Inode>) -> Dentry {
        Dentry {
            hash: hash(&name),
            name,
            place,
            kind: inode.kind(),
            inode,
        }
    }

    /// Whether it is called `name`.
    #[inline]
    pub fn is(&self, name: &[u8]) -> bool {
        *self.name == *name
    }
}

impl Hashed for Dentry {
    #[inline]
    fn hash(&self) -> u64 {
        self.hash
    }
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    // A product's upper bits depend on all of its factors' bits; the lower ones are to do so, too.
    mixed ^ mixed >> 32
}

/// Eight bytes of `path` from `at` on, which is inside; zeros behind its end.
#[inline]
fn word(path: &[u8], at: usize) -> u64 {
    let load = |at: usize| {
        let eight = path.get(at..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*eight))
    };
    if let Some(word) = load(at) {
        return word;
    }
    let beyond = at + 8 - path.len();
    if let Some(word) = path.len().checked_sub(8).and_then(load) {
        return word >> ((8 * beyond as u32) & 63);
    }
    let rest = path.get(at..).unwrap_or_default();
    rest.iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
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

/// The hash of the name in `path` that begins at `at` and ends before a slash or with the path, and where it
/// ends. No byte of the path is zero.
#[inline]
pub fn component(path: &[u8], at: usize) -> (u64, usize) {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const SLASHES: u64 = LOW * b'/' as u64;
    let zeros = |word: u64| word.wrapping_sub(LOW) & !word & LOW << 7;
    let mut hash = 0;
    let mut at = at;
    while at < path.len() {
        let word = word(path, at);
        let ends = zeros(word) | zeros(word ^ SLASHES);
        if ends == 0 {
            hash = mix(hash, word);
            at += 8;
            continue;
        }
        let bits = ends.trailing_zeros() & !7;
        if bits != 0 {
            hash = mix(hash, word & ((1 << bits) - 1));
        }
        at += bits as usize / 8;
        break;
    }
    (hash, at)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let found = component(path.as_bytes(), at);
                assert_eq!(found, (hash(name.as_bytes()), at + name.len()), "{path}");
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
