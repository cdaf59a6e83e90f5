//! Pseudo file systems, whose files are text that is written when it is read: `/proc`, `/sys` and `/syn`.
//!
//! *Interface.* A [`PseudoDir`] resolves names to [`PseudoEntry`]s: folders, texts, links. [`PseudoFs::new`]
//! makes a file system of one. A text is made piece by piece as it is read ([`TextSource`]), of records that
//! are each consistent at one instant, and again when it is read from its start. Nothing is stored between
//! look-ups; an inode's number comes from its path.

mod seq_file;
mod source;

use abi::errno::{Errno, Result};
use abi::linux::{DT_DIR, Statfs};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;

use super::attr::{Attr, FileKind, ModeBits, SetAttr};
use super::directory::Directory;
use super::inode::{DirEntry, DirSink, Inode, OpenRequest, fixed_entries};
use super::mount::{self, FileSystem, VfsPath};
use super::perm;
use crate::fs::file::{File, OpenFile};
use account::{Cred, caller};
use seq_file::SeqFile;
pub use source::{TextOut, TextPiece, TextSource, records, whole};
use vm::fallible::{try_arc, try_copy, try_slice};

/// Handles a write to a text. The rights are those of the identity that opened the text: the process that
/// writes may have got the descriptor from it, and lends it no rights.
pub type WriteSetting = fn(&Arc<Cred>, &str) -> Result<()>;

/// The object of a name.
pub enum PseudoEntry {
    /// A directory.
    Dir(Arc<dyn PseudoDir>),
    /// A text that every user may read.
    Text(Arc<dyn TextSource>),
    /// A text that only its owner may read.
    Private(Arc<dyn TextSource>),
    /// A text that root may change.
    Setting(Arc<dyn TextSource>, WriteSetting),
    /// A text that only its owner may read and change.
    Control(Arc<dyn TextSource>, WriteSetting),
    /// A text to which every user may write a request: the setter decides by the rights of the opener.
    Request(Arc<dyn TextSource>, WriteSetting),
    /// A symbolic link.
    Link(Vec<u8>),
    /// A link that leads directly to a file, independent of its text.
    MagicLink(Arc<dyn MagicLink>),
    /// A file with a behaviour of its own.
    Special(Arc<dyn File>),
    /// A file whose owner may read and write it, with a behaviour that is made when it is opened.
    File(Arc<dyn PseudoFile>),
}

/// The maker of an opened file's behaviour.
pub trait PseudoFile: Send + Sync {
    /// The behaviour, for a permitted caller of identity `opener`, on which the rights of all later writes
    /// depend ([`WriteSetting`]).
    fn open(&self, opener: &Arc<Cred>) -> Result<Arc<dyn File>>;
    /// Permission bits.
    fn permissions(&self) -> u32 {
        0o600
    }
}

/// A link that is more than its text.
pub trait MagicLink: Send + Sync {
    /// The text.
    fn text(&self) -> Result<Vec<u8>>;
    /// Its target.
    fn place(&self) -> Result<VfsPath>;
    /// Permission bits.
    fn permissions(&self) -> u32 {
        0o777
    }
}

/// The behaviour of an open text, which cannot be written. ENOMEM, and what the source refuses.
pub fn reader(source: &Arc<dyn TextSource>) -> Result<Arc<dyn File>> {
    Ok(try_arc(SeqFile::new(source, None)?)?)
}

/// A text of one record, which `write` writes.
pub fn text(write: impl Fn(&mut TextOut) -> Result<()> + Send + Sync + 'static) -> PseudoEntry {
    PseudoEntry::Text(whole(write))
}

/// A text of many records, which `write` hands on from a place on, as [`TextSource::write`] does.
pub fn long_text(
    write: impl Fn(u64, &mut TextPiece) -> Result<()> + Send + Sync + 'static,
) -> PseudoEntry {
    PseudoEntry::Text(records(write))
}

/// A directory whose content is made when looked at.
pub trait PseudoDir: Send + Sync {
    /// The object of `name`. `ENOENT`.
    fn get(&self, name: &str) -> Result<PseudoEntry>;
    /// Calls `each(place, name, kind)` for every name at place `from` or later, places ascending, until it
    /// answers `false`; a name keeps its place.
    fn list(&self, from: u64, each: EachEntry);
    /// Directories in it, which its number of links tells.
    fn folders(&self) -> usize {
        0
    }
    /// User and group that own the directory.
    fn owner(&self) -> (u32, u32) {
        (0, 0)
    }
    /// User and group of its entries that are not directories.
    fn owner_inside(&self) -> (u32, u32) {
        self.owner()
    }
    /// The process of the directory, for the room that knows processes.
    fn whose(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
    /// Permission bits.
    fn permissions(&self) -> u32 {
        0o555
    }
    /// Whether the caller may search and list it regardless of its permission bits.
    fn is_open_to_caller(&self) -> bool {
        false
    }
}

/// The process whose directory is open, in `/proc`.
pub fn whose<T: Any + Send + Sync>(of: &OpenFile) -> Option<Arc<T>> {
    let node = of.inode()?.clone().downcast::<Node>()?;
    match &node.item {
        PseudoEntry::Dir(folder) => folder.whose()?.downcast().ok(),
        _ => None,
    }
}

/// The callback of [`PseudoDir::list`].
pub type EachEntry<'a> = &'a mut dyn FnMut(u64, &str, FileKind) -> bool;

/// A folder of fixed names.
pub struct FixedDir(pub &'static [FixedEntry]);

/// A name, and its object.
pub type FixedEntry = (&'static str, fn() -> PseudoEntry);

impl PseudoDir for FixedDir {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let found = self.0.iter().find(|(n, _)| *n == name);
        found.map(|(_, item)| item()).ok_or(Errno::ENOENT)
    }

    fn list(&self, from: u64, each: EachEntry) {
        for (place, (name, item)) in (0..).zip(self.0) {
            if place >= from && !each(place, name, item().kind()) {
                return;
            }
        }
    }

    fn folders(&self) -> usize {
        folders_listed(self)
    }
}

/// Directories among the names that `folder` lists, for [`PseudoDir::folders`] of one with few names.
pub fn folders_listed(folder: &dyn PseudoDir) -> usize {
    let mut count = 0;
    folder.list(0, &mut |_, _, kind| {
        count += usize::from(kind == FileKind::Directory);
        true
    });
    count
}

impl PseudoEntry {
    /// The kind of file it is.
    pub fn kind(&self) -> FileKind {
        match self {
            PseudoEntry::Dir(_) => FileKind::Directory,
            PseudoEntry::Link(_) | PseudoEntry::MagicLink(_) => FileKind::Symlink,
            _ => FileKind::Regular,
        }
    }

    fn permissions(&self) -> u32 {
        match self {
            PseudoEntry::Dir(folder) => folder.permissions(),
            PseudoEntry::Text(_) => 0o444,
            PseudoEntry::Private(_) | PseudoEntry::Special(_) => 0o400,
            PseudoEntry::File(opened) => opened.permissions(),
            PseudoEntry::Setting(..) => 0o644,
            PseudoEntry::Control(..) => 0o600,
            PseudoEntry::Request(..) => 0o666,
            PseudoEntry::Link(_) => 0o777,
            PseudoEntry::MagicLink(magic) => magic.permissions(),
        }
    }
}

/// A file system of texts.
pub struct PseudoFs {
    kind: &'static str,
    magic: i64,
    root: Arc<Node>,
}

impl PseudoFs {
    /// A file system with `root` as root, called `kind` in `/proc/mounts`; `magic` is what `statfs` shows.
    pub fn new(kind: &'static str, magic: i64, root: Arc<dyn PseudoDir>) -> Arc<PseudoFs> {
        let node = Node {
            dev: mount::anonymous_dev(),
            ino: 1,
            owner: (0, 0),
            item: PseudoEntry::Dir(root),
            name: Arc::new([]),
            parent: None,
        };
        Arc::new(PseudoFs {
            kind,
            magic,
            root: Arc::new(node),
        })
    }
}

impl FileSystem for PseudoFs {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn root(&self) -> Arc<dyn Inode> {
        self.root.clone()
    }

    fn statfs(&self) -> Statfs {
        mount::without_room(self.magic)
    }
}

/// A name and its object.
struct Node {
    dev: u64,
    ino: u64,
    owner: (u32, u32),
    item: PseudoEntry,
    name: Arc<[u8]>,
    parent: Option<Arc<Node>>,
}

/// The number in a name: digits, no sign, no leading zeros. ENOENT.
pub fn number_in(name: &str) -> Result<i32> {
    let plain = name == "0" || name.starts_with(|first| matches!(first, '1'..='9'));
    let number = name.parse().ok().filter(|_| plain);
    number.ok_or(Errno::ENOENT)
}

/// An inode number for `name` in the directory numbered `above` (FNV-1a).
fn number(above: u64, name: &str) -> u64 {
    let hash = name.bytes().fold(above ^ 0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash & 0x7fff_ffff_ffff).max(2)
}

impl Node {
    fn mode(&self) -> u32 {
        self.item.kind().mode_bits() | self.item.permissions()
    }

    fn folder(&self) -> Result<&Arc<dyn PseudoDir>> {
        match &self.item {
            PseudoEntry::Dir(folder) => Ok(folder),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

impl Inode for Node {
    fn attr(&self) -> Attr {
        let now = super::now();
        let size = match &self.item {
            PseudoEntry::MagicLink(_) => 64,
            PseudoEntry::Link(text) => text.len() as u64,
            _ => 0,
        };
        Attr {
            dev: self.dev,
            ino: self.ino,
            mode: self.mode(),
            nlink: match &self.item {
                PseudoEntry::Dir(folder) => {
                    2_u32.saturating_add(u32::try_from(folder.folders()).unwrap_or(u32::MAX))
                }
                _ => 1,
            },
            uid: self.owner.0,
            gid: self.owner.1,
            size,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            ..Attr::default()
        }
    }

    fn id(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }

    // A walk asks, for which the attributes' links would be counted.
    fn bits(&self) -> ModeBits {
        ModeBits {
            mode: self.mode(),
            uid: self.owner.0,
            gid: self.owner.1,
        }
    }

    fn permits(&self, cred: &Cred, want: u32) -> Result<()> {
        match &self.item {
            PseudoEntry::Dir(folder) if want & perm::WRITE == 0 && folder.is_open_to_caller() => {
                Ok(())
            }
            _ => perm::check(cred, self.bits(), None, want),
        }
    }

    fn kind(&self) -> FileKind {
        self.item.kind()
    }

    fn set_attr(&self, set: &SetAttr) -> Result<()> {
        // Truncation and times of a setting have no effect; its permissions cannot be changed.
        if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
            Err(Errno::EPERM)
        } else {
            Ok(())
        }
    }

    fn truncate(&self, _size: u64) -> Result<()> {
        match self.item {
            PseudoEntry::Setting(..)
            | PseudoEntry::Control(..)
            | PseudoEntry::Request(..)
            | PseudoEntry::File(_) => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        match &self.item {
            PseudoEntry::Dir(_) => Ok(how.finish(Arc::new(Directory))),
            PseudoEntry::Text(source) | PseudoEntry::Private(source) => {
                Ok(how.finish(Arc::new(SeqFile::new(source, None)?)))
            }
            PseudoEntry::Setting(source, set)
            | PseudoEntry::Control(source, set)
            | PseudoEntry::Request(source, set) => Ok(how.finish(Arc::new(SeqFile::new(
                source,
                Some((*set, caller::cred())),
            )?))),
            PseudoEntry::Special(file) => Ok(how.finish(file.clone())),
            PseudoEntry::File(opened) => Ok(how.finish(opened.open(&caller::cred())?)),
            PseudoEntry::Link(_) | PseudoEntry::MagicLink(_) => Err(Errno::ELOOP),
        }
    }

    fn lookup(self: Arc<Self>, name: &[u8]) -> Result<Arc<dyn Inode>> {
        let folder = self.folder()?;
        let name = core::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        let item = folder.get(name)?;
        let owner = match &item {
            PseudoEntry::Dir(inner) => inner.owner(),
            _ => folder.owner_inside(),
        };
        let (ino, name) = (number(self.ino, name), try_slice(name.as_bytes())?);
        try_arc(Node {
            dev: self.dev,
            ino,
            owner,
            item,
            name,
            parent: Some(self),
        })
        .map(|node| node as Arc<dyn Inode>)
    }

    fn parent(&self) -> Option<Arc<dyn Inode>> {
        self.parent.clone().map(|p| p as Arc<dyn Inode>)
    }

    fn name(&self) -> Option<Arc<[u8]>> {
        self.parent.as_ref().map(|_| self.name.clone())
    }

    fn readlink(&self) -> Result<Vec<u8>> {
        match &self.item {
            PseudoEntry::Link(text) => try_copy(text),
            PseudoEntry::MagicLink(magic) => magic.text(),
            _ => Err(Errno::EINVAL),
        }
    }

    fn follow(&self) -> Option<Result<VfsPath>> {
        match &self.item {
            PseudoEntry::MagicLink(magic) => Some(magic.place()),
            _ => None,
        }
    }

    fn readdir(&self, from: u64, sink: &mut dyn DirSink) -> Result<u64> {
        let folder = self.folder()?;
        let above = self.parent.as_ref().map_or(self.ino, |p| p.ino);
        let dots: [(&[u8], u64, u8); 2] = [(b".", self.ino, DT_DIR), (b"..", above, DT_DIR)];
        let mut at = match fixed_entries(&dots, from, sink) {
            Ok(at) => at,
            Err(full) => return Ok(full),
        };
        folder.list(from.saturating_sub(2), &mut |place, name, kind| {
            let entry = DirEntry {
                ino: number(self.ino, name),
                next: place + 3,
                kind: kind.dirent_type(),
                name: name.as_bytes(),
            };
            let taken = sink.entry(entry);
            if taken {
                at = place + 3;
            }
            taken
        });
        Ok(at)
    }
}
