//! `devpts`: a name for each pseudo-terminal whose master is open, and `ptmx`.
//!
//! *Interface*: [`file_system`], of which there is one, shown wherever it is mounted; [`peer`] opens a slave
//! without its name (`TIOCGPTPEER`).
//!
//! Nothing is kept here: names and attributes are the pairs'.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::string::String;
use alloc::sync::Arc;
use sync::{Monitor, Once};

use super::file::TtyFile;
use super::pty::{self, MAJOR};
use super::{PTMX, Tty};
use file::OpenFile;
use file::fs::directory::Directory;
use file::fs::inode::fixed_entries;
use file::fs::mount::{self, FileSystem, anonymous_dev};
use file::fs::ownership::Ownership;
use file::fs::{
    Attr, DirEntry, DirSink, FileKind, Inode, OpenRequest, SetAttr, VfsPath, dev, path_cache,
};
use vm::fallible::{try_arc, try_slice, try_text};

/// The kind that `statfs` shows.
const DEVPTS_MAGIC: i64 = 0x1cd1;
/// Numbers of the inodes of the root and of `ptmx`; the slaves' follow.
const ROOT: u64 = 1;
const MULTIPLEXER: u64 = 2;
const FIRST: u64 = 3;

/// The file system.
struct DevPts {
    dev: u64,
    /// `ptmx`'s attributes (`ptmxmode=000`).
    ptmx: Monitor<Ownership>,
}

static ALL: Once<Arc<DevPts>> = Once::new();

/// The file system.
pub fn file_system() -> Arc<dyn FileSystem> {
    all()
}

fn all() -> Arc<DevPts> {
    let new = || {
        Arc::new(DevPts {
            dev: anonymous_dev(),
            ptmx: Monitor::new(Ownership::new(S_IFCHR, 0, 0)),
        })
    };
    if ALL.get().is_none() {
        // A faster thread has made the same.
        let _same = ALL.set(new());
    }
    ALL.get().cloned().unwrap_or_else(new)
}

impl FileSystem for DevPts {
    fn kind(&self) -> &'static str {
        "devpts"
    }

    fn root(&self) -> Arc<dyn Inode> {
        Arc::new(File {
            fs: all(),
            what: What::Root,
        })
    }

    fn options(&self) -> &'static str {
        ",gid=5,mode=620,ptmxmode=000"
    }

    fn statfs(&self) -> Statfs {
        mount::without_room(DEVPTS_MAGIC)
    }
}

/// One file there.
struct File {
    fs: Arc<DevPts>,
    what: What,
}

enum What {
    Root,
    Ptmx,
    Slave(Arc<Tty>),
}

impl File {
    fn beside(&self, what: What) -> Result<Arc<dyn Inode>> {
        let fs = self.fs.clone();
        Ok(try_arc(File { fs, what })?)
    }

    /// Number, device number, and what may be changed.
    fn node(&self) -> Option<(u64, u64, &Monitor<Ownership>)> {
        match &self.what {
            What::Root => None,
            What::Ptmx => Some((MULTIPLEXER, makedev(PTMX.0, PTMX.1), &self.fs.ptmx)),
            What::Slave(tty) => {
                let pair = tty.pair.as_ref()?;
                let number = u64::from(pair.number());
                Some((FIRST + number, tty.device, &pair.node))
            }
        }
    }
}

impl Inode for File {
    fn attr(&self) -> Attr {
        let Some((ino, rdev, node)) = self.node() else {
            return Ownership::new(S_IFDIR | 0o755, 0, 0).attr(self.id(), 2);
        };
        // Bound: copying or changing a few words.
        let node = *node.lock();
        let gone = matches!(&self.what, What::Slave(tty) if tty.is_gone());
        Attr {
            rdev,
            ..node.attr((self.fs.dev, ino), u32::from(!gone))
        }
    }

    fn id(&self) -> (u64, u64) {
        (self.fs.dev, self.node().map_or(ROOT, |node| node.0))
    }

    fn kind(&self) -> FileKind {
        match self.what {
            What::Root => FileKind::Directory,
            _ => FileKind::Char,
        }
    }

    fn set_attr(&self, set: &SetAttr) -> Result<()> {
        let (_, _, node) = self.node().ok_or(Errno::EPERM)?;
        node.lock().set(set)?;
        if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
            path_cache::changed();
        }
        Ok(())
    }

    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        match &self.what {
            What::Root => Ok(how.finish(Arc::new(Directory))),
            What::Ptmx => dev::open(makedev(PTMX.0, PTMX.1), how),
            What::Slave(tty) => TtyFile::open(tty, how, true),
        }
    }

    fn lookup(self: Arc<Self>, name: &[u8]) -> Result<Arc<dyn Inode>> {
        if !matches!(self.what, What::Root) {
            return Err(Errno::ENOTDIR);
        }
        if name == b"ptmx" {
            return self.beside(What::Ptmx);
        }
        let number = core::str::from_utf8(name).ok().and_then(number);
        let tty = number.and_then(pty::find).ok_or(Errno::ENOENT)?;
        self.beside(What::Slave(tty))
    }

    fn parent(&self) -> Option<Arc<dyn Inode>> {
        match self.what {
            What::Root => None,
            _ => self.beside(What::Root).ok(),
        }
    }

    fn name(&self) -> Option<Arc<[u8]>> {
        match &self.what {
            What::Root => None,
            What::Ptmx => try_slice(b"ptmx").ok(),
            What::Slave(tty) => {
                let number = tty.pair.as_ref()?.number();
                try_slice(name_of(number).ok()?.as_bytes()).ok()
            }
        }
    }

    fn readdir(&self, from: u64, sink: &mut dyn DirSink) -> Result<u64> {
        if !matches!(self.what, What::Root) {
            return Err(Errno::ENOTDIR);
        }
        let fixed: [(&[u8], u64, u8); 3] = [
            (b".", ROOT, DT_DIR),
            (b"..", ROOT, DT_DIR),
            (b"ptmx", MULTIPLEXER, DT_CHR),
        ];
        let mut at = match fixed_entries(&fixed, from, sink) {
            Ok(at) => at,
            Err(full) => return Ok(full),
        };
        loop {
            let number = u32::try_from(at - FIRST).unwrap_or(u32::MAX);
            let Some(number) = pty::named_from(number) else {
                return Ok(at);
            };
            at = FIRST + u64::from(number);
            let name = name_of(number)?;
            let entry = DirEntry {
                ino: at,
                next: at + 1,
                kind: DT_CHR,
                name: name.as_bytes(),
            };
            if !sink.entry(entry) {
                return Ok(at);
            }
            at += 1;
        }
    }
}

/// The name of slave `number`. ENOMEM.
fn name_of(number: u32) -> Result<String> {
    try_text(format_args!("{number}"))
}

/// The number that `name` is, in the one way to write it.
fn number(name: &str) -> Option<u32> {
    let number: u32 = name.parse().ok()?;
    let digits = number.checked_ilog10().map_or(1, |log| log as usize + 1);
    (name.len() == digits).then_some(number)
}

/// Opens the slave of `tty`, whose master is `master`, with `flags`, whatever names and rights there are.
pub(super) fn peer(tty: &Arc<Tty>, master: &OpenFile, flags: u32) -> Result<Arc<OpenFile>> {
    let inode: Arc<dyn Inode> = try_arc(File {
        fs: all(),
        what: What::Slave(tty.clone()),
    })?;
    let place = mounted(master).map(|mount| mount.with_inode(inode));
    TtyFile::open(tty, OpenRequest { flags, place }, false)
}

/// A place of the file system where it is mounted: beside the master's name, or anywhere.
fn mounted(master: &OpenFile) -> Option<VfsPath> {
    if let Some(place) = master.place()
        && place.mount.fs.kind() == "devpts"
    {
        return Some(place.clone());
    }
    let mut from = 0;
    while let Some(mount) = mount::mount_from(from) {
        if mount.fs.kind() == "devpts" {
            let inode = mount.root.clone();
            return Some(VfsPath { mount, inode });
        }
        from = u64::from(mount.id) + 1;
    }
    None
}

/// The character devices `136:*` by another name than `devpts` gives them. ENXIO.
pub(super) fn open_by_number(rdev: u64, how: OpenRequest) -> Result<Arc<OpenFile>> {
    if major(rdev) != MAJOR {
        return Err(Errno::ENXIO);
    }
    let tty = pty::find(minor(rdev)).ok_or(Errno::EIO)?;
    TtyFile::open(&tty, how, true)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_number_has_one_name() {
        assert_eq!(
            ["0", "7", "4095"].map(number),
            [Some(0), Some(7), Some(4095)]
        );
        for none in ["", "00", "07", "+7", "-1", " 7", "4294967296", "x"] {
            assert_eq!(number(none), None, "{none}");
        }
    }
}
