//! File systems of texts that are written when they are read: `/proc` and `/syn`.
//!
//! *Interface.* A [`Folder`] answers names with [`Item`]s: folders, texts, links. [`TextFs::new`] makes a file system
//! of one. A text is made anew when it is read from its start, so that what one reader sees is of one instant. Nothing is kept
//! between look-ups; an inode's number comes from its path.

use abi::errno::{Errno, Result};
use abi::linux::{DT_DIR, SEEK_CUR, SEEK_END, SEEK_SET, Statfs};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::Ordering;
use sync::Monitor;

use super::attr::{Attr, Kind, SetAttr};
use super::directory::Directory;
use super::inode::{DirEntry, DirSink, How, Inode};
use super::place::{FileSystem, Place};
use crate::file::{File, OpenFile};
use crate::io::IoBuf;

/// Writes a text.
pub type Writer = Arc<dyn Fn(&mut String) -> Result<()> + Send + Sync>;
/// Takes what was written to a text.
pub type Setter = fn(&str) -> Result<()>;

/// What a name stands for.
pub enum Item {
    /// A directory.
    Folder(Arc<dyn Folder>),
    /// A text that anybody may read.
    Text(Writer),
    /// A text that only its owner may read.
    Private(Writer),
    /// A text that root may change.
    Setting(Writer, Setter),
    /// A symbolic link.
    Link(Vec<u8>),
    /// A link that leads to a file whatever its text says.
    Magic(Arc<dyn Magic>),
    /// A file with a behaviour of its own.
    Special(Arc<dyn File>),
}

/// A link that is more than its text.
pub trait Magic: Send + Sync {
    /// The text.
    fn text(&self) -> Result<Vec<u8>>;
    /// Where it leads.
    fn place(&self) -> Result<Place>;
}

/// A text that `write` writes.
pub fn text(write: impl Fn(&mut String) -> Result<()> + Send + Sync + 'static) -> Item {
    Item::Text(Arc::new(write))
}

/// A directory whose content is made when looked at.
pub trait Folder: Send + Sync {
    /// What `name` stands for. `ENOENT`.
    fn get(&self, name: &str) -> Result<Item>;
    /// Calls `each(place, name, kind)` for every name, places ascending; a name keeps its place.
    fn list(&self, each: &mut dyn FnMut(u64, &str, Kind));
    /// User and group that own the directory and what is in it.
    fn owner(&self) -> (u32, u32) {
        (0, 0)
    }
}

/// A folder of fixed names.
pub struct Fixed(pub &'static [Named]);

/// A name, and what it stands for.
pub type Named = (&'static str, fn() -> Item);

impl Folder for Fixed {
    fn get(&self, name: &str) -> Result<Item> {
        let found = self.0.iter().find(|(n, _)| *n == name);
        found.map(|(_, item)| item()).ok_or(Errno::ENOENT)
    }

    fn list(&self, each: &mut dyn FnMut(u64, &str, Kind)) {
        for (place, (name, item)) in self.0.iter().enumerate() {
            each(place as u64, name, item().kind());
        }
    }
}

impl Item {
    /// The kind of file it is.
    pub fn kind(&self) -> Kind {
        match self {
            Item::Folder(_) => Kind::Directory,
            Item::Link(_) | Item::Magic(_) => Kind::Symlink,
            _ => Kind::Regular,
        }
    }

    fn permissions(&self) -> u32 {
        match self {
            Item::Folder(_) => 0o555,
            Item::Text(_) => 0o444,
            Item::Private(_) | Item::Special(_) => 0o400,
            Item::Setting(..) => 0o644,
            Item::Link(_) | Item::Magic(_) => 0o777,
        }
    }
}

/// A file system of texts.
pub struct TextFs {
    kind: &'static str,
    magic: i64,
    root: Arc<Node>,
}

impl TextFs {
    /// A file system with `root` as root, called `kind` in `/proc/mounts`; `magic` is what `statfs` shows.
    pub fn new(kind: &'static str, magic: i64, root: Arc<dyn Folder>) -> Arc<TextFs> {
        let node = Node {
            dev: super::mem::anonymous_dev(),
            ino: 1,
            owner: (0, 0),
            item: Item::Folder(root),
            name: String::new(),
            parent: None,
        };
        Arc::new(TextFs {
            kind,
            magic,
            root: Arc::new(node),
        })
    }
}

impl FileSystem for TextFs {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn root(&self) -> Arc<dyn Inode> {
        self.root.clone()
    }

    fn statfs(&self) -> Statfs {
        Statfs {
            kind: self.magic,
            bsize: 4096,
            frsize: 4096,
            namelen: abi::linux::NAME_MAX as i64,
            ..Statfs::default()
        }
    }
}

/// A name and what it stands for.
struct Node {
    dev: u64,
    ino: u64,
    owner: (u32, u32),
    item: Item,
    name: String,
    parent: Option<Arc<Node>>,
}

/// An inode number for `name` in the directory numbered `above` (FNV-1a).
fn number(above: u64, name: &str) -> u64 {
    let hash = name.bytes().fold(above ^ 0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash & 0x7fff_ffff_ffff).max(2)
}

impl Node {
    fn folder(&self) -> Result<&Arc<dyn Folder>> {
        match &self.item {
            Item::Folder(folder) => Ok(folder),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

impl Inode for Node {
    fn attr(&self) -> Attr {
        let now = super::now();
        let size = match &self.item {
            Item::Magic(_) => 64,
            Item::Link(text) => text.len() as u64,
            _ => 0,
        };
        Attr {
            dev: self.dev,
            ino: self.ino,
            mode: self.item.kind().mode_bits() | self.item.permissions(),
            nlink: if self.item.kind() == Kind::Directory {
                2
            } else {
                1
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

    fn kind(&self) -> Kind {
        self.item.kind()
    }

    fn set_attr(&self, set: &SetAttr) -> Result<()> {
        // Truncation and times on a setting are no news; who may read what is not for sale.
        if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
            Err(Errno::EPERM)
        } else {
            Ok(())
        }
    }

    fn truncate(&self, _size: u64) -> Result<()> {
        match self.item {
            Item::Setting(..) => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn open(self: Arc<Self>, how: How) -> Result<Arc<OpenFile>> {
        match &self.item {
            Item::Folder(_) => Ok(how.finish(Arc::new(Directory))),
            Item::Text(write) | Item::Private(write) => {
                Ok(how.finish(Arc::new(Text::new(write.clone(), None))))
            }
            Item::Setting(write, set) => {
                Ok(how.finish(Arc::new(Text::new(write.clone(), Some(*set)))))
            }
            Item::Special(file) => Ok(how.finish(file.clone())),
            Item::Link(_) | Item::Magic(_) => Err(Errno::ELOOP),
        }
    }

    fn lookup(self: Arc<Self>, name: &[u8]) -> Result<Arc<dyn Inode>> {
        let folder = self.folder()?;
        let name = core::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        let item = folder.get(name)?;
        let owner = match &item {
            Item::Folder(inner) => inner.owner(),
            _ => folder.owner(),
        };
        Ok(Arc::new(Node {
            dev: self.dev,
            ino: number(self.ino, name),
            owner,
            item,
            name: name.into(),
            parent: Some(self),
        }))
    }

    fn parent(&self) -> Option<Arc<dyn Inode>> {
        self.parent.clone().map(|p| p as Arc<dyn Inode>)
    }

    fn name(&self) -> Option<Vec<u8>> {
        self.parent.as_ref().map(|_| self.name.clone().into_bytes())
    }

    fn readlink(&self) -> Result<Vec<u8>> {
        match &self.item {
            Item::Link(text) => Ok(text.clone()),
            Item::Magic(magic) => magic.text(),
            _ => Err(Errno::EINVAL),
        }
    }

    fn follow(&self) -> Option<Result<Place>> {
        match &self.item {
            Item::Magic(magic) => Some(magic.place()),
            _ => None,
        }
    }

    fn readdir(&self, from: u64, sink: &mut dyn DirSink) -> Result<u64> {
        let folder = self.folder()?;
        let above = self.parent.as_ref().map_or(self.ino, |p| p.ino);
        let mut at = from;
        let mut full = false;
        for (place, name, ino) in [(0, ".", self.ino), (1, "..", above)] {
            if place < from || full {
                continue;
            }
            let entry = DirEntry {
                ino,
                next: place + 1,
                kind: DT_DIR,
                name: name.as_bytes(),
            };
            full = !sink.entry(entry);
            if !full {
                at = place + 1;
            }
        }
        folder.list(&mut |place, name, kind| {
            if full || place + 2 < from {
                return;
            }
            let entry = DirEntry {
                ino: number(self.ino, name),
                next: place + 3,
                kind: kind.dirent_type(),
                name: name.as_bytes(),
            };
            full = !sink.entry(entry);
            if !full {
                at = place + 3;
            }
        });
        Ok(at)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// An open text.
struct Text {
    write: Writer,
    set: Option<Setter>,
    made: Monitor<Vec<u8>>,
}

impl Text {
    fn new(write: Writer, set: Option<Setter>) -> Text {
        Text {
            write,
            set,
            made: Monitor::new(Vec::new()),
        }
    }
}

/// The longest setting.
const MAX_SETTING: usize = 256;

impl File for Text {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let _turn = of.turn();
        let at = of.cursor.offset.load(Ordering::Relaxed);
        let count = self.read_at(of, at, buf)?;
        of.cursor.offset.store(at + count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        if offset == 0 {
            let mut fresh = String::new();
            (self.write)(&mut fresh)?;
            *self.made.lock() = fresh.into_bytes();
        }
        let made = self.made.lock();
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(made.len());
        buf.put(&made[from..])
    }

    fn write(&self, _of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let set = self.set.ok_or(Errno::EINVAL)?;
        let mut bytes = [0; MAX_SETTING];
        let count = buf.take(&mut bytes)?;
        if buf.remaining() > 0 {
            return Err(Errno::EINVAL);
        }
        let value = core::str::from_utf8(&bytes[..count]).map_err(|_| Errno::EINVAL)?;
        set(value.trim_end_matches('\n'))?;
        Ok(count)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        let _turn = of.turn();
        let base = match whence as i32 {
            SEEK_SET => 0,
            SEEK_CUR => of.cursor.offset.load(Ordering::Relaxed),
            SEEK_END => self.made.lock().len() as u64,
            _ => return Err(Errno::EINVAL),
        };
        let to = base.checked_add_signed(offset).ok_or(Errno::EINVAL)?;
        of.cursor.offset.store(to, Ordering::Relaxed);
        Ok(to)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
