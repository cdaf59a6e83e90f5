//! The `newc` cpio archive: the root that the kernel unpacks.
//!
//! *Interface*: `Archive` maps names to entries; `add`, `read`, `write`. Names have no leading
//! slash. `write` puts parents before children and `.synthesis` before everything.
//!
//! Source: the format as `cpio(5)` describes it; what the kernel expects is in `docs/run-contract.md`.

use crate::failure::{Failure, HOST, Result};
use crate::kernel::{PLACES, SYMBOLS};
use std::collections::BTreeMap;

const HEADER: usize = 110;
const MAGICS: [&[u8]; 2] = [b"070701", b"070702"];
const TRAILER: &str = "TRAILER!!!";
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;
const BLOCK: u32 = 0o060_000;
const KIND: u32 = 0o170_000;

/// One file of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Kind and permissions, as in `st_mode`.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Time of last change, in seconds since 1970.
    pub mtime: u32,
    /// Major and minor number of a device node.
    pub device: (u32, u32),
    /// Contents of a file, target of a symbolic link.
    pub data: Vec<u8>,
}

impl Entry {
    fn plain(mode: u32, data: Vec<u8>) -> Self {
        Self {
            mode,
            owner: (0, 0),
            mtime: 0,
            device: (0, 0),
            data,
        }
    }

    /// A directory with these permissions.
    pub fn directory(permissions: u32) -> Self {
        Self::plain(DIRECTORY | permissions, Vec::new())
    }

    /// A regular file with these permissions and contents.
    pub fn file(permissions: u32, data: impl Into<Vec<u8>>) -> Self {
        Self::plain(FILE | permissions, data.into())
    }

    /// A symbolic link to `target`.
    pub fn link(target: impl Into<Vec<u8>>) -> Self {
        Self::plain(LINK | 0o777, target.into())
    }

    /// A device node.
    pub fn device(block: bool, permissions: u32, number: (u32, u32)) -> Self {
        let kind = if block { BLOCK } else { CHARACTER };
        let mut entry = Self::plain(kind | permissions, Vec::new());
        entry.device = number;
        entry
    }

    /// Whether this is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & KIND == FILE
    }

    /// Whether this is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode & KIND == DIRECTORY
    }

    /// Whether this is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.mode & KIND == LINK
    }
}

/// A tree of files.
#[derive(Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    /// Puts an entry in, in place of any of that name; missing parents become directories.
    pub fn add(&mut self, name: &str, entry: Entry) {
        let name = name.trim_matches('/');
        for (slash, _) in name.match_indices('/') {
            let parent = &name[..slash];
            if !self.entries.contains_key(parent) {
                self.entries
                    .insert(parent.to_owned(), Entry::directory(0o755));
            }
        }
        self.entries.insert(name.to_owned(), entry);
    }

    /// Puts an entry in unless there is one of that name.
    pub fn add_missing(&mut self, name: &str, entry: Entry) {
        if !self.entries.contains_key(name) {
            self.add(name, entry);
        }
    }

    /// The entry that a guest path names, following symbolic links.
    pub fn resolve(&self, path: &str) -> Option<&Entry> {
        self.entries.get(&self.followed(path)?)
    }

    /// The name under which a file is put so that the guest finds it at `path`: folders of the path that are
    /// links lead elsewhere.
    pub fn place(&self, path: &str) -> String {
        path.rmatch_indices('/')
            .find_map(|(at, _)| {
                Some(format!(
                    "{}/{}",
                    self.followed(&path[..at])?,
                    &path[at + 1..]
                ))
            })
            .unwrap_or_else(|| path.to_owned())
    }

    /// The name of an entry that exists, after all links.
    fn followed(&self, path: &str) -> Option<String> {
        let mut path = path.to_owned();
        // As many links as Linux follows.
        'links: for _ in 0..40 {
            let mut here = String::new();
            let parts: Vec<_> = path
                .split('/')
                .filter(|part| !part.is_empty() && *part != ".")
                .collect();
            for (index, part) in parts.iter().enumerate() {
                if *part == ".." {
                    here.truncate(here.rfind('/').unwrap_or(0));
                    continue;
                }
                let parent = here.clone();
                if !here.is_empty() {
                    here.push('/');
                }
                here.push_str(part);
                let entry = self.entries.get(&here)?;
                if entry.is_link() {
                    let target = String::from_utf8_lossy(&entry.data);
                    let base = if target.starts_with('/') { "" } else { &parent };
                    path = format!("{base}/{target}/{}", parts[index + 1..].join("/"));
                    continue 'links;
                }
            }
            return self.entries.contains_key(&here).then_some(here);
        }
        None
    }

    /// Adds all entries of a `newc` archive (or several, one after the other).
    ///
    /// # Errors
    /// Host failure when `bytes` is something else or ends early.
    pub fn read(&mut self, bytes: &[u8]) -> Result<()> {
        let broken = |what: &str| Failure::new(HOST, format!("not a newc cpio archive: {what}"));
        let mut at = 0;
        // Names of one file, whose contents stand at the last of them only.
        let mut linked = BTreeMap::<_, Vec<String>>::new();
        while at < bytes.len() {
            // Archives one after the other are separated by zeros.
            if bytes[at] == 0 {
                at += 1;
                continue;
            }
            let header = bytes
                .get(at..at + HEADER)
                .ok_or_else(|| broken("it ends in a header"))?;
            if !MAGICS.contains(&&header[..6]) {
                return Err(broken("wrong magic number"));
            }
            let field = |index: usize| {
                let digits = &header[6 + 8 * index..14 + 8 * index];
                std::str::from_utf8(digits)
                    .ok()
                    .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                    .ok_or_else(|| broken("a header field is not a number"))
            };
            let (size, name_size) = (field(6)? as usize, field(11)? as usize);
            let name_at = at + HEADER;
            let name = bytes
                .get(name_at..name_at + name_size.max(1) - 1)
                .ok_or_else(|| broken("it ends in a name"))?;
            let name = String::from_utf8_lossy(name).into_owned();
            let data_at = (name_at + name_size).next_multiple_of(4);
            let data = bytes
                .get(data_at..data_at + size)
                .ok_or_else(|| broken("it ends in a file"))?;
            at = (data_at + size).next_multiple_of(4);
            let name = name.trim_start_matches("./").trim_matches('/');
            if name == TRAILER || name.is_empty() || name == "." {
                continue;
            }
            let entry = Entry {
                mode: field(1)?,
                owner: (field(2)?, field(3)?),
                mtime: field(5)?,
                device: (field(9)?, field(10)?),
                data: data.to_vec(),
            };
            if field(4)? > 1 && entry.is_file() {
                let names = linked.entry((field(0)?, field(7)?, field(8)?)).or_default();
                names.push(name.to_owned());
                for name in names.iter().filter(|_| !entry.data.is_empty()) {
                    self.add(name, entry.clone());
                }
            }
            self.add(name, entry);
        }
        Ok(())
    }

    /// The archive as bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let first = |name: &str| name == ".synthesis" || name.starts_with(".synthesis/");
        let mut inode = 0;
        // The symbol table leads: a panic must find it before anything else works.
        let ordered = (self.entries.get_key_value(".synthesis").into_iter())
            .chain(self.entries.get_key_value(SYMBOLS))
            .chain(self.entries.get_key_value(PLACES))
            .chain(self.entries.iter().filter(|(name, _)| {
                let led = [".synthesis", SYMBOLS, PLACES];
                first(name) && !led.contains(&name.as_str())
            }))
            .chain(self.entries.iter().filter(|(name, _)| !first(name)));
        for (name, entry) in ordered {
            inode += 1;
            put(&mut out, name, entry, inode);
        }
        put(&mut out, TRAILER, &Entry::plain(0, Vec::new()), 0);
        out
    }
}

fn put(out: &mut Vec<u8>, name: &str, entry: &Entry, inode: u32) {
    let links = if entry.is_directory() { 2 } else { 1 };
    let fields = [
        inode,
        entry.mode,
        entry.owner.0,
        entry.owner.1,
        links,
        entry.mtime,
        entry.data.len() as u32,
        0,
        0,
        entry.device.0,
        entry.device.1,
        name.len() as u32 + 1,
        0,
    ];
    out.extend_from_slice(MAGICS[0]);
    for field in fields {
        out.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(&entry.data);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Archive {
        let mut archive = Archive::default();
        archive.add("bin/sh", Entry::link("busybox"));
        archive.add("bin/busybox", Entry::file(0o755, *b"odd"));
        archive.add("sbin", Entry::link("/bin"));
        archive.add(".synthesis/cmd", Entry::file(0o644, *b"x\0"));
        archive.add(".synthesis/kernel.sym", Entry::file(0o644, *b"s"));
        archive
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut copy = Archive::default();
        copy.read(&sample().write()).unwrap();
        assert_eq!(copy.entries, sample().entries);
    }

    #[test]
    fn each_name_of_a_file_gets_its_contents() {
        let mut bytes = Vec::new();
        for (name, data) in [("a", ""), ("b", ""), ("c", "text")] {
            let from = bytes.len();
            put(&mut bytes, name, &Entry::file(0o644, data), 5);
            // Three names.
            bytes[from + 6 + 8 * 4..][..8].copy_from_slice(b"00000003");
        }
        let mut archive = Archive::default();
        archive.read(&bytes).unwrap();
        for name in ["a", "b", "c"] {
            assert_eq!(archive.resolve(name).unwrap().data, b"text", "{name}");
        }
    }

    #[test]
    fn the_symbol_table_leads_and_parents_precede() {
        let bytes = sample().write();
        let at = |name: &str| {
            bytes
                .windows(name.len())
                .position(|w| w == name.as_bytes())
                .unwrap()
        };
        assert!(at("kernel.sym\0") < at(".synthesis/cmd\0"));
        assert!(at(".synthesis/cmd\0") < at("bin\0"));
        assert!(at("bin\0") < at("bin/busybox\0"));
    }

    #[test]
    fn links_are_followed() {
        let archive = sample();
        assert!(archive.resolve("/sbin/sh").unwrap().is_file());
        assert!(archive.resolve("/bin/../sbin/./busybox").unwrap().is_file());
        assert!(archive.resolve("/bin/none").is_none());
    }

    #[test]
    fn what_is_added_lands_behind_links() {
        let mut archive = sample();
        archive.add("usr/bin", Entry::directory(0o755));
        archive.add("linked", Entry::link("usr/bin"));
        assert_eq!(archive.place("linked/a/b"), "usr/bin/a/b");
        assert_eq!(archive.place("usr/bin/a"), "usr/bin/a");
        assert_eq!(archive.place("none/a"), "none/a");
        assert_eq!(archive.place("a"), "a");
    }

    #[test]
    fn rubbish_is_refused() {
        let mut bytes = sample().write();
        assert!(Archive::default().read(b"hello").is_err());
        bytes.truncate(200);
        assert!(Archive::default().read(&bytes).is_err());
    }
}
