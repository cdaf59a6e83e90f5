//! The entries of "new ASCII" cpio archives (`070701`, `070702`), as an initial RAM disk has them.
//!
//! *Interface.* [`entries`] reads one archive after another, with any zeros between them; it ends at the
//! first thing that is neither. Nothing is copied. A truncated or corrupt header ends the sequence with an
//! error; lengths never reach past the input.
//!
//! Source: cpio(5). Written here because the kept crate stops at the first archive's trailer, takes only
//! UTF-8 names and panics on truncated padding.

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
#[path = "cpio/archive.rs"]
mod archive;

#[cfg(test)]
#[path = "cpio/tests.rs"]
mod tests;
