//! Tar archives as roots: what `docker export`, `debootstrap` with `tar`, and distributions give.
//!
//! *Interface*: `is_one` tells a tar archive by its first header; `read` adds its files to a root.

use crate::cpio::{Archive, Entry};
use std::io::{Error, ErrorKind, Read, Result};
use tar::{EntryType, Header};

/// Whether `bytes` begin with the header of a tar archive.
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.first_chunk::<512>().is_some_and(|block| {
        let header = Header::from_byte_slice(block);
        header.as_ustar().is_some() || header.as_gnu().is_some()
    })
}

/// Adds every file of the archive. A hard link becomes a file of its own.
///
/// # Errors
/// The archive ends early, or a header makes no sense.
pub fn read(root: &mut Archive, bytes: &[u8]) -> Result<()> {
    for item in tar::Archive::new(bytes).entries()? {
        let mut item = item?;
        let name = String::from_utf8_lossy(&item.path_bytes()).into_owned();
        let name = name.trim_start_matches("./").trim_matches('/').to_owned();
        if name.is_empty() || name == "." {
            continue;
        }
        if name.split('/').any(|part| part == "..") {
            return Err(Error::new(
                ErrorKind::InvalidData,
                format!("{name} leads out of the root"),
            ));
        }
        let header = item.header();
        let target = || {
            let bytes = item.link_name_bytes();
            bytes.ok_or_else(|| {
                Error::new(ErrorKind::InvalidData, format!("{name}: a link to nothing"))
            })
        };
        let permissions = header.mode()? & 0o7777;
        let mut entry = match header.entry_type() {
            EntryType::Directory => Entry::directory(permissions),
            EntryType::Symlink => Entry::link(&*target()?),
            EntryType::Link => {
                let target = target()?;
                let target = String::from_utf8_lossy(&target);
                let linked = root.resolve(target.trim_start_matches("./"));
                linked.cloned().ok_or_else(|| {
                    Error::new(
                        ErrorKind::InvalidData,
                        format!("{name}: a link to {target}, which is not there"),
                    )
                })?
            }
            kind @ (EntryType::Char | EntryType::Block) => {
                let number = (header.device_major()?, header.device_minor()?);
                let number = (number.0.unwrap_or(0), number.1.unwrap_or(0));
                Entry::device(kind.is_block_special(), permissions, number)
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let mut data = Vec::new();
                item.read_to_end(&mut data)?;
                Entry::file(permissions, data)
            }
            // A named pipe has nothing to keep but its name, and the rest are remarks.
            _ => continue,
        };
        let header = item.header();
        if header.entry_type() != EntryType::Link {
            entry.owner = (header.uid()? as u32, header.gid()? as u32);
            entry.mtime = header.mtime()? as u32;
        }
        root.add(&name, entry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::Builder;

    fn sample() -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        let mut put = |kind, name: &str, link: &str, data: &[u8]| {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(0o751);
            header.set_uid(7);
            header.set_gid(8);
            header.set_mtime(9);
            header.set_size(data.len() as u64);
            if link.is_empty() {
                builder.append_data(&mut header, name, data).unwrap();
            } else {
                builder.append_link(&mut header, name, link).unwrap();
            }
        };
        put(EntryType::Directory, "./usr", "", b"");
        put(EntryType::Regular, "./usr/a", "", b"text");
        put(EntryType::Symlink, "./bin", "usr", b"");
        put(EntryType::Link, "./usr/b", "usr/a", b"");
        builder.into_inner().unwrap()
    }

    #[test]
    fn files_links_and_owners_come_over() {
        let bytes = sample();
        assert!(is_one(&bytes));
        let mut root = Archive::default();
        read(&mut root, &bytes).unwrap();
        let file = root.resolve("/bin/a").unwrap();
        assert_eq!(
            (file.mode & 0o7777, file.owner, file.mtime),
            (0o751, (7, 8), 9)
        );
        assert_eq!(root.resolve("/usr/b").unwrap().data, b"text");
        assert!(root.resolve("/usr").unwrap().is_directory());
    }

    #[test]
    fn what_is_broken_is_an_error() {
        let mut bytes = sample();
        assert!(!is_one(b"07070"));
        bytes.truncate(1030);
        assert!(read(&mut Archive::default(), &bytes).is_err());
    }
}
