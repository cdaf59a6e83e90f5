//! System calls on files, a file a family.
//!
//! *Interface.* Each module's `CALLS`. [`FileCaller`] is what they all start with: the calling process's
//! table, root and identity, and paths in user memory.

pub mod attr;
pub mod dirents;
pub mod fcntl;
pub mod handle;
pub mod io;
pub mod mount;
pub mod namei;
pub mod open;
pub mod open_fastpath;
pub(in crate::call) mod open_frameless;
pub mod splice;
pub mod stat;
pub(super) mod stat_fastpath;
mod stub;
pub mod xattr;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::{AT_EMPTY_PATH, AT_FDCWD, PATH_MAX};
use alloc::sync::Arc;
use codegen::fault_injection::refused;
use smallvec::SmallVec;

use account::Cred;
use file::OpenFile;
use file::fdtable::FdTable;
use file::fs::walk::{WalkContext, WalkTarget, walk};
use file::fs::{Attr, FileKind, FsContext, SetAttr, VfsPath, perm};
use process::Process;

/// The calling process.
pub struct FileCaller {
    /// The process.
    pub process: Arc<Process>,
    /// Its descriptors.
    pub files: Arc<FdTable>,
    /// Its root, working directory and umask.
    pub fs: Arc<FsContext>,
    /// Its identity.
    pub cred: Arc<Cred>,
}

/// The object of a call with `AT_EMPTY_PATH`.
pub enum FileObject {
    /// A file found by its path.
    Place(VfsPath),
    /// An open file.
    Open(Arc<OpenFile>),
}

impl FileObject {
    /// The attributes.
    pub fn attr(&self) -> Attr {
        match self {
            FileObject::Place(place) => place.inode.attr(),
            FileObject::Open(of) => of.file().stat(of),
        }
    }

    /// The place, of what has one.
    pub fn place(&self) -> Option<&VfsPath> {
        match self {
            FileObject::Place(place) => Some(place),
            FileObject::Open(of) => of.place(),
        }
    }

    /// Changes attributes. EAGAIN: those that permission depended on have changed.
    pub fn set_attr(&self, set: &SetAttr) -> Result<()> {
        match self {
            FileObject::Place(place) => place.inode.set_attr(set),
            FileObject::Open(of) => match of.place() {
                Some(place) => place.inode.set_attr(set),
                None => of.file().set_attr(of, set),
            },
        }
    }

    /// Whether `cred` may do `want` (`perm::…`). EACCES.
    pub fn permits(&self, cred: &Cred, want: u32) -> Result<()> {
        match self.place() {
            Some(place) => place.inode.permits(cred, want),
            None => perm::may(cred, &self.attr(), want),
        }
    }
}

impl FileCaller {
    /// The caller of the system call under way.
    pub fn current() -> FileCaller {
        let process = Process::current();
        FileCaller {
            files: process.files.get(),
            fs: process.fs.get(),
            cred: process.cred_here(),
            process,
        }
    }

    /// For walks.
    pub fn view(&self) -> WalkContext<'_> {
        WalkContext::new(self.fs.root(), &self.cred, self.fs.umask())
    }

    /// Where a walk of `path` starts. `EBADF`, `ENOTDIR`.
    pub fn start(&self, dirfd: i32, path: &[u8]) -> Result<VfsPath> {
        if path.first() == Some(&b'/') {
            return Ok(self.fs.root());
        }
        if dirfd == AT_FDCWD {
            return Ok(self.fs.cwd());
        }
        let of = self.files.get(dirfd)?;
        let place = of.place().ok_or(Errno::ENOTDIR)?;
        if place.inode.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        Ok(place.clone())
    }

    /// Walks `path` from `dirfd`.
    pub fn target<'p>(&self, dirfd: i32, path: &'p [u8], follow: bool) -> Result<WalkTarget<'p>> {
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        walk(&self.view(), self.start(dirfd, path)?, path, follow)
    }

    /// The file that `path` names.
    pub fn place(&self, dirfd: i32, path: &[u8], follow: bool) -> Result<VfsPath> {
        self.target(dirfd, path, follow)?.existing()
    }

    /// The file that the path at user address `addr` names.
    pub fn named(&self, dirfd: i32, addr: usize, follow: bool) -> Result<FileObject> {
        Ok(FileObject::Place(self.place(
            dirfd,
            &user_path(addr)?,
            follow,
        )?))
    }

    /// The file that the path at user address `addr` names; with `AT_EMPTY_PATH` in `flags` and no path,
    /// `dirfd` itself.
    pub fn object(&self, dirfd: i32, addr: usize, flags: u32, follow: bool) -> Result<FileObject> {
        let path = if addr == 0 && flags & AT_EMPTY_PATH as u32 != 0 {
            UserPath::new()
        } else {
            user_path(addr)?
        };
        if path.is_empty() && flags & AT_EMPTY_PATH as u32 != 0 {
            return self.itself(dirfd);
        }
        Ok(FileObject::Place(self.place(dirfd, &path, follow)?))
    }

    /// The object of `dirfd` itself.
    pub fn itself(&self, dirfd: i32) -> Result<FileObject> {
        Ok(match dirfd {
            AT_FDCWD => FileObject::Place(self.fs.cwd()),
            dirfd => FileObject::Open(self.files.get(dirfd)?),
        })
    }
}

/// A path copied from user memory; short ones need no heap.
pub type UserPath = SmallVec<[u8; 128]>;

/// The path at user address `addr`, without its NUL. `EFAULT`, `ENAMETOOLONG`, `ENOMEM`.
#[expect(
    clippy::disallowed_methods,
    reason = "room may be refused; a list that begins on the stack"
)]
pub fn user_path(addr: usize) -> Result<UserPath> {
    const WORDS: usize = 8;
    const LOW: u64 = 0x0101_0101_0101_0101;
    let mut path = UserPath::new();
    loop {
        let at = addr.checked_add(path.len()).ok_or(Errno::EFAULT)?;
        // Never into the next page: the path may end in this one, and the next not exist.
        let count = (8 * WORDS).min(PAGE - at % PAGE);
        let mut words = [u64::MAX; WORDS];
        vm::user::copy_in(&mut bytemuck::cast_slice_mut(&mut words)[..count], at)?;
        let nul = words.iter().enumerate().find_map(|(index, word)| {
            let zero = word.wrapping_sub(LOW) & !word & LOW << 7;
            (zero != 0).then(|| index * 8 + zero.trailing_zeros() as usize / 8)
        });
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        if path.capacity() - path.len() < count && (refused() || path.try_reserve(count).is_err()) {
            return Err(Errno::ENOMEM);
        }
        path.extend_from_slice(&bytes[..nul.unwrap_or(count)]);
        if path.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if nul.is_some() {
            return Ok(path);
        }
    }
}

/// A length or offset that must not be negative. `EINVAL`.
fn unsigned(value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| Errno::EINVAL)
}
