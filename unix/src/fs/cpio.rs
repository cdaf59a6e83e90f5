//! The entries of "new ASCII" cpio archives (`070701`, `070702`), as an initial RAM disk has them.
//!
//! *Interface.* [`entries`] reads one archive after another, with any zeros between them; it ends at the first thing that is neither. Nothing
//! is copied. A truncated or corrupt header ends the sequence with an error; lengths never reach past the input.
//!
//! Source: cpio(5). Written here because the kept crate stops at the first archive's trailer, takes only UTF-8 names
//! and panics on truncated padding.

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Number that hard links share, within one archive.
    pub ino: u32,
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names of the file in the archive.
    pub nlink: u32,
    /// Last change, seconds since 1970.
    pub mtime: u32,
    /// Device number of a device node: major, minor.
    pub rdev: (u32, u32),
    /// Which archive, counted from 0.
    pub archive: u32,
    /// Path, without a leading slash.
    pub name: &'a [u8],
    /// Contents, or the target of a symbolic link.
    pub data: &'a [u8],
}

/// The input is no archive, or ends in the middle of one, at this offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt(pub usize);

const HEADER: usize = 110;
const TRAILER: &[u8] = b"TRAILER!!!";

/// The entries of the archives in `input`.
pub fn entries(input: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, Corrupt>> {
    let mut at = 0;
    let mut archive = 0;
    core::iter::from_fn(move || {
        loop {
            at += input[at..].iter().take_while(|b| **b == 0).count();
            if at >= input.len() {
                return None;
            }
            match entry(input, at, archive) {
                Some((entry, next)) => {
                    at = next;
                    if entry.name != TRAILER {
                        return Some(Ok(entry));
                    }
                    archive += 1;
                }
                None => {
                    let bad = at;
                    at = input.len();
                    return Some(Err(Corrupt(bad)));
                }
            }
        }
    })
}

/// The entry at `at` and the offset of the next.
fn entry(input: &[u8], at: usize, archive: u32) -> Option<(Entry<'_>, usize)> {
    let header = input.get(at..at + HEADER)?;
    if !matches!(&header[..6], b"070701" | b"070702") {
        return None;
    }
    let mut fields = [0u32; 13];
    for (field, digits) in fields.iter_mut().zip(header[6..].chunks_exact(8)) {
        *field = hex(digits)?;
    }
    let [
        ino,
        mode,
        uid,
        gid,
        nlink,
        mtime,
        size,
        _,
        _,
        major,
        minor,
        name_size,
        _,
    ] = fields;
    let name_start = at + HEADER;
    let name_end = name_start.checked_add(name_size as usize)?;
    let name = input.get(name_start..name_end)?.strip_suffix(b"\0")?;
    let data_start = name_end.next_multiple_of(4);
    let data_end = data_start.checked_add(size as usize)?;
    let data = input.get(data_start..data_end)?;
    let entry = Entry {
        ino,
        mode,
        uid,
        gid,
        nlink,
        mtime,
        rdev: (major, minor),
        archive,
        name,
        data,
    };
    // The last entry's padding may be missing.
    Some((entry, data_end.next_multiple_of(4).min(input.len())))
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |value, digit| {
        Some(value << 4 | (*digit as char).to_digit(16)?)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::vec::Vec;

    /// Appends one entry to an archive.
    pub fn add(archive: &mut Vec<u8>, ino: u32, mode: u32, nlink: u32, name: &str, data: &[u8]) {
        let fields = [
            ino,
            mode,
            0,
            0,
            nlink,
            77,
            data.len() as u32,
            0,
            0,
            1,
            3,
            name.len() as u32 + 1,
            0,
        ];
        archive.extend_from_slice(b"070701");
        for field in fields {
            archive.extend_from_slice(std::format!("{field:08x}").as_bytes());
        }
        archive.extend_from_slice(name.as_bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend_from_slice(data);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }

    pub fn end(archive: &mut Vec<u8>) {
        add(archive, 0, 0, 1, "TRAILER!!!", b"");
        archive.resize(archive.len().next_multiple_of(512), 0);
    }

    #[test]
    fn archives_follow_one_another() {
        let mut a = Vec::new();
        add(&mut a, 1, 0o040755, 2, "dir", b"");
        add(&mut a, 2, 0o100644, 1, "dir/f", b"hello");
        end(&mut a);
        add(&mut a, 3, 0o120777, 1, "l", b"dir/f");
        end(&mut a);
        let found: Vec<_> = entries(&a).map(|e| e.unwrap()).collect();
        let names: Vec<_> = found.iter().map(|e| (e.name, e.archive)).collect();
        assert_eq!(names, [(&b"dir"[..], 0), (b"dir/f", 0), (b"l", 1)]);
        assert_eq!(found[1].data, b"hello");
        assert_eq!((found[1].mtime, found[1].rdev), (77, (1, 3)));
    }

    #[test]
    fn truncated_anywhere_never_panics() {
        let mut a = Vec::new();
        add(&mut a, 1, 0o100644, 1, "name", b"some data");
        end(&mut a);
        for len in 0..a.len() {
            let all: Vec<_> = entries(&a[..len]).collect();
            assert!(all.len() <= 2);
        }
        let mut b = a.clone();
        b[6 + 8 * 6] = b'f';
        assert_eq!(entries(&b).next(), Some(Err(Corrupt(0))));
        assert_eq!(entries(b"garbage").next(), Some(Err(Corrupt(0))));
    }
}
