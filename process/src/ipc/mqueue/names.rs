//! The file system of message queues: one directory, whose files are the queues.
//!
//! *Interface*: [`file_system`], of which there is one, shown wherever it is mounted; [`description_of`] and
//! [`remove`] are for the calls that know no paths.
//!
//! The list of names is under one monitor, taken before that of a queue's node; a queue is made before it is
//! taken.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::{Monitor, Once};

use super::file::QueueFile;
use super::{PosixQueue, limits};
use account::{Capability, Cred};
use file::OpenFile;
use file::fs::directory::Directory;
use file::fs::inode::fixed_entries;
use file::fs::mount::{self, FileSystem, anonymous_dev};
use file::fs::ownership::Ownership;
use file::fs::perm;
use file::fs::{Attr, DirEntry, DirSink, FileKind, Inode, OpenRequest, SetAttr, now, path_cache};
use vm::fallible::{try_arc, try_insert_at, try_slice};

/// The result of `statfs`.
const MQUEUE_MAGIC: i64 = 0x1980_0202;
/// Number of the directory's inode; the queues' follow.
const ROOT: u64 = 1;
/// The sizes of a directory entry and of a queue.
const ENTRY_SIZE: u64 = 20;
const QUEUE_SIZE: u64 = 80;
/// Places of a directory before its first name.
const FIRST: u64 = 2;

/// The file system.
struct Queues {
    dev: u64,
    root: Monitor<Ownership>,
    named: Monitor<Vec<Named>>,
    next: AtomicU64,
}

/// A queue with its name, in the order of their numbers.
struct Named {
    name: Arc<[u8]>,
    queue: Arc<PosixQueue>,
}

static ALL: Once<Arc<Queues>> = Once::new();

/// The file system.
pub fn file_system() -> Arc<dyn FileSystem> {
    all()
}

fn all() -> Arc<Queues> {
    let new = || {
        Arc::new(Queues {
            dev: anonymous_dev(),
            root: Monitor::new(Ownership::new(S_IFDIR | 0o1777, 0, 0)),
            named: Monitor::new(Vec::new()),
            next: AtomicU64::new(ROOT + 1),
        })
    };
    if ALL.get().is_none() {
        // A faster thread has made the same.
        let _same = ALL.set(new());
    }
    ALL.get().cloned().unwrap_or_else(new)
}

impl FileSystem for Queues {
    fn kind(&self) -> &'static str {
        "mqueue"
    }

    fn root(&self) -> Arc<dyn Inode> {
        Arc::new(File::root(all()))
    }

    fn statfs(&self) -> Statfs {
        mount::without_room(MQUEUE_MAGIC)
    }
}

impl Queues {
    fn find(&self, name: &[u8]) -> Option<Arc<PosixQueue>> {
        // Bound: **global**: **linear** in the queues with names, at most 256 unless root says otherwise.
        let named = self.named.lock();
        let found = named.iter().find(|one| *one.name == *name);
        found.map(|one| one.queue.clone())
    }

    /// Makes a queue. EEXIST, ENOSPC, EMFILE, EINVAL, ENOMEM.
    fn make(
        &self,
        name: &[u8],
        mode: u32,
        cred: &Cred,
        wanted: Option<&MqAttr>,
    ) -> Result<Arc<PosixQueue>> {
        let most = limits::QUEUES.load(Ordering::Relaxed);
        if self.named.lock().len() >= most && !cred.has(Capability::SysResource) {
            return Err(Errno::ENOSPC);
        }
        let ino = self.next.fetch_add(1, Ordering::Relaxed);
        let queue = try_arc(PosixQueue::new(ino, mode, cred, wanted)?)?;
        let new = Named {
            name: try_slice(name)?,
            queue: queue.clone(),
        };
        let mut named = self.named.lock();
        if named.iter().any(|one| *one.name == *name) {
            return Err(Errno::EEXIST);
        }
        let place = named.partition_point(|one| one.queue.ino < ino);
        try_insert_at(&mut named, place, new)?;
        drop(named);
        self.changed();
        Ok(queue)
    }

    fn remove(&self, name: &[u8]) -> Result<()> {
        let mut named = self.named.lock();
        let place = named.iter().position(|one| *one.name == *name);
        let gone = named.remove(place.ok_or(Errno::ENOENT)?);
        drop(named);
        gone.queue.named.store(false, Ordering::Relaxed);
        // Bound: a few words.
        gone.queue.node.lock().ctime = now();
        self.changed();
        Ok(())
    }

    /// Its names are others.
    fn changed(&self) {
        let now = now();
        // Bound: a few words.
        let mut root = self.root.lock();
        (root.atime, root.mtime, root.ctime) = (now, now, now);
        drop(root);
        path_cache::changed();
    }
}

/// One file there: the directory, or a queue.
struct File {
    fs: Arc<Queues>,
    queue: Option<Arc<PosixQueue>>,
}

impl File {
    fn root(fs: Arc<Queues>) -> File {
        File { fs, queue: None }
    }

    fn of(fs: &Arc<Queues>, queue: Arc<PosixQueue>) -> Result<Arc<dyn Inode>> {
        let fs = fs.clone();
        let queue = Some(queue);
        Ok(try_arc(File { fs, queue })?)
    }

    fn node(&self) -> &Monitor<Ownership> {
        match &self.queue {
            Some(queue) => &queue.node,
            None => &self.fs.root,
        }
    }

    fn directory(&self) -> Result<()> {
        match self.queue {
            Some(_) => Err(Errno::ENOTDIR),
            None => Ok(()),
        }
    }
}

impl Inode for File {
    fn attr(&self) -> Attr {
        let (nlink, size) = match &self.queue {
            Some(queue) => (u32::from(queue.named.load(Ordering::Relaxed)), QUEUE_SIZE),
            // Bound: **global**: **linear** in the queues with names, at most 256 unless root says otherwise.
            None => (2, self.fs.named.lock().len() as u64 * ENTRY_SIZE),
        };
        // Bound: a few words.
        let node = *self.node().lock();
        Attr {
            size,
            ..node.attr(self.id(), nlink)
        }
    }

    fn id(&self) -> (u64, u64) {
        let ino = self.queue.as_ref().map_or(ROOT, |queue| queue.ino);
        (self.fs.dev, ino)
    }

    fn kind(&self) -> FileKind {
        match self.queue {
            Some(_) => FileKind::Regular,
            None => FileKind::Directory,
        }
    }

    fn set_attr(&self, set: &SetAttr) -> Result<()> {
        self.node().lock().set(set)?;
        path_cache::changed();
        Ok(())
    }

    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        match &self.queue {
            None => Ok(how.finish(Arc::new(Directory))),
            Some(queue) => Ok(how.finish(try_arc(QueueFile(queue.clone()))?)),
        }
    }

    fn lookup(self: Arc<Self>, name: &[u8]) -> Result<Arc<dyn Inode>> {
        self.directory()?;
        let queue = self.fs.find(name).ok_or(Errno::ENOENT)?;
        File::of(&self.fs, queue)
    }

    fn parent(&self) -> Option<Arc<dyn Inode>> {
        self.queue.as_ref()?;
        Some(try_arc(File::root(self.fs.clone())).ok()?)
    }

    fn name(&self) -> Option<Arc<[u8]>> {
        let queue = self.queue.as_ref()?;
        let named = self.fs.named.lock();
        let found = named.iter().find(|one| one.queue.ino == queue.ino);
        found.map(|one| one.name.clone())
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
        if mode & S_IFMT != S_IFREG {
            return Err(Errno::EPERM);
        }
        let queue = self.fs.make(name, mode & 0o7777 & !umask, cred, None)?;
        File::of(&self.fs, queue)
    }

    fn unlink(&self, name: &[u8]) -> Result<()> {
        self.directory()?;
        self.fs.remove(name)
    }

    fn readdir(&self, from: u64, sink: &mut dyn DirSink) -> Result<u64> {
        self.directory()?;
        let dots: [(&[u8], u64, u8); 2] = [(b".", ROOT, DT_DIR), (b"..", ROOT, DT_DIR)];
        let mut at = match fixed_entries(&dots, from, sink) {
            Ok(at) => at,
            Err(full) => return Ok(full),
        };
        loop {
            // The number of a queue is its place, behind the first two.
            let named = self.fs.named.lock();
            let next = named.partition_point(|one| FIRST + one.queue.ino < at);
            let found = named.get(next);
            let Some((name, ino)) = found.map(|one| (one.name.clone(), one.queue.ino)) else {
                return Ok(at);
            };
            drop(named);
            let entry = DirEntry {
                ino,
                next: FIRST + ino + 1,
                kind: DT_REG,
                name: &name,
            };
            if !sink.entry(entry) {
                return Ok(at);
            }
            at = FIRST + ino + 1;
        }
    }
}

/// A name as these calls take it. EACCES, ENAMETOOLONG.
fn check(name: &[u8]) -> Result<()> {
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
        return Err(Errno::EACCES);
    }
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    Ok(())
}

/// The description of a new queue: its permissions, and the limits of its messages.
pub struct QueueAttr<'a> {
    /// Permissions, without those in the umask.
    pub mode: u32,
    /// Numbers and bytes of messages.
    pub attr: Option<&'a MqAttr>,
}

/// A description of the queue called `name`, for `cred` as `flags` say. EACCES, EEXIST, EINVAL, EMFILE,
/// ENAMETOOLONG, ENOENT, ENOMEM, ENOSPC.
pub fn description_of(
    name: &[u8],
    flags: u32,
    new: &QueueAttr,
    cred: &Cred,
) -> Result<Arc<OpenFile>> {
    check(name)?;
    let fs = all();
    let queue = loop {
        if let Some(queue) = fs.find(name) {
            if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL {
                return Err(Errno::EEXIST);
            }
            let wanted = match flags & O_ACCMODE {
                O_RDONLY => perm::READ,
                O_WRONLY => perm::WRITE,
                O_RDWR => perm::READ | perm::WRITE,
                _ => return Err(Errno::EINVAL),
            };
            let inode = File::of(&fs, queue.clone())?;
            inode.permits(cred, wanted)?;
            break queue;
        }
        if flags & O_CREAT == 0 {
            return Err(Errno::ENOENT);
        }
        File::root(fs.clone()).permits(cred, perm::WRITE | perm::EXEC)?;
        match fs.make(name, new.mode, cred, new.attr) {
            // Another thread was faster.
            Err(Errno::EEXIST) => {}
            made => break made?,
        }
    };
    let inode = File::of(&fs, queue)?;
    inode.clone().open(OpenRequest {
        flags: flags & (O_ACCMODE | O_NONBLOCK),
        place: Some(mount::detached(fs, inode)),
    })
}

/// Removes the name `name` of a queue. EACCES, ENAMETOOLONG, ENOENT, EPERM: another user owns it.
pub fn remove(name: &[u8], cred: &Cred) -> Result<()> {
    check(name)?;
    let fs = all();
    let queue = fs.find(name).ok_or(Errno::ENOENT)?;
    let root = File::root(fs.clone());
    root.permits(cred, perm::WRITE | perm::EXEC)?;
    let (above, queue) = (root.attr(), File::of(&fs, queue)?.attr());
    let sticky = above.mode & S_ISVTX != 0;
    if sticky && cred.fsuid != above.uid && !perm::owns(cred, &queue) {
        return Err(Errno::EPERM);
    }
    fs.remove(name)
}
