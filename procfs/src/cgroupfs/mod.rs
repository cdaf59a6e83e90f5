//! cgroupfs (`cgroup2`): each directory is a control group (`process::cgroup`).
//!
//! *Interface.* [`file_system`], of which there is one, shown wherever it is mounted. [`files`] are the texts
//! in each directory; a group's files belong to its maker until their owner changes that.

mod files;
mod open;

use abi::errno::{Errno, Result};
use abi::linux::{DT_DIR, DT_REG, O_ACCMODE, O_WRONLY, S_IFDIR, S_IFMT, S_IFREG, Statfs};
use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::{Monitor, Once};

use account::{Cred, caller};
use file::OpenFile;
use file::fs::directory::Directory;
use file::fs::inode::fixed_entries;
use file::fs::mount::{self, FileSystem, anonymous_dev};
use file::fs::ownership::Ownership;
use file::fs::{Attr, DirEntry, DirSink, FileKind, Inode, OpenRequest, SetAttr, path_cache};
use process::cgroup::{self, Cgroup};
use vm::fallible::{try_arc, try_push, try_slice};

use files::FILES;
pub use files::{controllers, line};
use open::OpenCgroupFile;

/// The result of `statfs`.
const CGROUP2_MAGIC: i64 = 0x6367_7270;
/// Options that Linux knows; they say nothing here.
const OPTIONS: [&str; 4] = [
    "nsdelegate",
    "favordynmods",
    "memory_localevents",
    "memory_recursiveprot",
];
/// Numbers of inodes for each group, as a power of two: its directory's is 1 there, the files' follow.
const PLACES: u32 = 5;
/// Places of a directory before the first file, and before the first group.
const FIRST_FILE: u64 = 2;
const FIRST_GROUP: u64 = 1 << PLACES;
const _: () = assert!(FILES.len() as u64 + FIRST_FILE <= FIRST_GROUP);

struct Groups {
    dev: u64,
    root: Arc<Cgroup>,
}

static ALL: Once<Arc<Groups>> = Once::new();

/// The file system, for a mount with these options. EINVAL, ENOMEM.
pub fn file_system(options: &str) -> Result<Arc<dyn FileSystem>> {
    let mut options = options.split(',').filter(|option| !option.is_empty());
    if options.any(|option| !OPTIONS.contains(&option)) {
        return Err(Errno::EINVAL);
    }
    all().map(|all| all as _)
}

fn all() -> Result<Arc<Groups>> {
    if let Some(all) = ALL.get() {
        return Ok(all.clone());
    }
    if cgroup::root().is_none() {
        cgroup::found(owners(0o555, 0, 0)?)?;
    }
    let root = cgroup::root().ok_or(Errno::ENODEV)?;
    let dev = anonymous_dev();
    // A faster thread has made the same.
    let _same = ALL.set(try_arc(Groups { dev, root })?);
    ALL.get().cloned().ok_or(Errno::ENODEV)
}

/// The owners of a group's files: of its directory with these permissions, then of each file. ENOMEM.
fn owners(permissions: u32, uid: u32, gid: u32) -> Result<Vec<Monitor<Ownership>>> {
    let mut owners = Vec::new();
    let modes = FILES.iter().map(|file| S_IFREG | file.permissions());
    for mode in core::iter::once(S_IFDIR | permissions).chain(modes) {
        try_push(&mut owners, Monitor::new(Ownership::new(mode, uid, gid)))?;
    }
    Ok(owners)
}

impl FileSystem for Groups {
    fn kind(&self) -> &'static str {
        "cgroup2"
    }

    fn root(&self) -> Arc<dyn Inode> {
        Arc::new(Node {
            dev: self.dev,
            group: self.root.clone(),
            file: None,
        })
    }

    fn statfs(&self) -> Statfs {
        mount::without_room(CGROUP2_MAGIC)
    }
}

/// A directory, or a file in it.
struct Node {
    dev: u64,
    group: Arc<Cgroup>,
    file: Option<usize>,
}

impl Node {
    fn beside(&self, group: Arc<Cgroup>, file: Option<usize>) -> Result<Arc<dyn Inode>> {
        let dev = self.dev;
        Ok(try_arc(Node { dev, group, file })?)
    }

    fn owner(&self) -> Option<&Monitor<Ownership>> {
        self.group.owner(self.file.map_or(0, |file| file + 1))
    }

    fn directory(&self) -> Result<()> {
        match self.file {
            Some(_) => Err(Errno::ENOTDIR),
            None => Ok(()),
        }
    }

    /// The number of the file called `name` here.
    fn file_called(&self, name: &[u8]) -> Option<usize> {
        let called =
            |file: &files::CgroupFile| file.name.as_bytes() == name && file.is_in(&self.group);
        FILES.iter().position(called)
    }
}

fn number(group: &Cgroup, file: Option<usize>) -> u64 {
    (u64::from(group.id) << PLACES) + 1 + file.map_or(0, |file| file as u64 + 1)
}

impl Inode for Node {
    fn attr(&self) -> Attr {
        let nlink = match (self.group.is_gone(), self.file) {
            (true, _) => 0,
            (_, Some(_)) => 1,
            (_, None) => 2 + self.group.children(),
        };
        // Bound: a few words.
        let owner = self.owner().map(|owner| *owner.lock());
        owner.map_or_else(Attr::default, |owner| owner.attr(self.id(), nlink))
    }

    fn id(&self) -> (u64, u64) {
        (self.dev, number(&self.group, self.file))
    }

    fn kind(&self) -> FileKind {
        match self.file {
            Some(_) => FileKind::Regular,
            None => FileKind::Directory,
        }
    }

    fn set_attr(&self, set: &SetAttr) -> Result<()> {
        let owner = self.owner().ok_or(Errno::ENOENT)?;
        owner.lock().set(set)?;
        path_cache::changed();
        Ok(())
    }

    fn truncate(&self, _size: u64) -> Result<()> {
        Ok(())
    }

    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        match self.file.and_then(|file| FILES.get(file)) {
            None => Ok(how.finish(Arc::new(Directory))),
            // Nobody's rights help.
            Some(file) if !file.is_shown && how.flags & O_ACCMODE != O_WRONLY => Err(Errno::EACCES),
            Some(file) => {
                let open = OpenCgroupFile::new(self.group.clone(), file)?;
                Ok(how.finish(try_arc(open)?))
            }
        }
    }

    fn lookup(self: Arc<Self>, name: &[u8]) -> Result<Arc<dyn Inode>> {
        self.directory()?;
        if self.group.is_gone() {
            return Err(Errno::ENOENT);
        }
        if let Some(file) = self.file_called(name) {
            return self.beside(self.group.clone(), Some(file));
        }
        let found = self.group.child(name).ok_or(Errno::ENOENT)?;
        self.beside(found, None)
    }

    fn parent(&self) -> Option<Arc<dyn Inode>> {
        let above = match self.file {
            Some(_) => &self.group,
            None => self.group.parent()?,
        };
        self.beside(above.clone(), None).ok()
    }

    fn name(&self) -> Option<Arc<[u8]>> {
        match self.file.and_then(|file| FILES.get(file)) {
            Some(file) => try_slice(file.name.as_bytes()).ok(),
            None if self.group.is_root() || self.group.is_gone() => None,
            None => Some(self.group.name().clone()),
        }
    }

    fn create(
        &self,
        name: &[u8],
        mode: u32,
        umask: u32,
        _rdev: u64,
        cred: &Cred,
    ) -> Result<Arc<dyn Inode>> {
        self.directory()?;
        if mode & S_IFMT != S_IFDIR {
            return Err(Errno::EACCES);
        }
        // It would be two lines of `/proc/PID/cgroup`.
        if name.contains(&b'\n') {
            return Err(Errno::EINVAL);
        }
        if self.file_called(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let owners = owners(mode & 0o7777 & !umask, cred.fsuid, cred.fsgid)?;
        let made = self.group.make(name, owners)?;
        path_cache::changed();
        self.beside(made, None)
    }

    fn rmdir(&self, name: &[u8]) -> Result<()> {
        self.directory()?;
        if self.file_called(name).is_some() {
            return Err(Errno::ENOTDIR);
        }
        self.group.remove(name)?;
        path_cache::changed();
        Ok(())
    }

    fn readdir(&self, from: u64, sink: &mut dyn DirSink) -> Result<u64> {
        self.directory()?;
        let own = number(&self.group, None);
        let above = self.group.parent().map_or(own, |above| number(above, None));
        let dots: [(&[u8], u64, u8); 2] = [(b".", own, DT_DIR), (b"..", above, DT_DIR)];
        let mut at = match fixed_entries(&dots, from, sink) {
            Ok(at) => at,
            Err(full) => return Ok(full),
        };
        for (index, file) in FILES.iter().enumerate() {
            let place = FIRST_FILE + index as u64;
            if place < at || !file.is_in(&self.group) {
                continue;
            }
            let entry = DirEntry {
                ino: number(&self.group, Some(index)),
                next: place + 1,
                kind: DT_REG,
                name: file.name.as_bytes(),
            };
            if !sink.entry(entry) {
                return Ok(place);
            }
            at = place + 1;
        }
        at = at.max(FIRST_GROUP);
        let next = |at: u64| {
            let from = u32::try_from(at - FIRST_GROUP).ok()?;
            self.group.child_from(from)
        };
        while let Some(group) = next(at) {
            let place = FIRST_GROUP + u64::from(group.id);
            let entry = DirEntry {
                ino: number(&group, None),
                next: place + 1,
                kind: DT_DIR,
                name: group.name(),
            };
            if !sink.entry(entry) {
                return Ok(place);
            }
            at = place + 1;
        }
        Ok(at)
    }
}

/// The number of the group whose directory is open as `of`, in which the caller wants to make a process.
/// EBADF, ENOENT, EACCES.
pub fn for_child(of: &OpenFile) -> Result<u32> {
    let inode = of.inode().ok_or(Errno::EBADF)?.clone();
    let node = inode.downcast::<Node>().ok_or(Errno::EBADF)?;
    node.directory().map_err(|_| Errno::EBADF)?;
    let opener = caller::cred();
    node.group.may_begin(|common| {
        files::may_move(&node.group, &opener)?;
        files::may_move(common, &opener)
    })?;
    Ok(node.group.id)
}
