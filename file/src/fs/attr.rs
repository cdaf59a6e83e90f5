//! The data of `stat` about a file.
//!
//! *Interface.* [`Attr`] is the kernel's own record; it converts to `struct stat` and `struct statx`.

use abi::linux::{
    DT_BLK, DT_CHR, DT_DIR, DT_FIFO, DT_LNK, DT_REG, DT_SOCK, S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO,
    S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK, STATX_BASIC_STATS, STATX_BTIME, Stat, Statx,
    StatxTimestamp, major, minor,
};

/// A point of wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime {
    /// Seconds since 1970.
    pub sec: i64,
    /// Nanoseconds within the second.
    pub nsec: u32,
}

/// The seven kinds of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    Char,
    /// A block device.
    Block,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl FileKind {
    /// The kind that a mode's type bits name; a mode without type bits is a regular file's.
    pub fn of_mode(mode: u32) -> Option<FileKind> {
        Some(match mode & S_IFMT {
            S_IFREG | 0 => FileKind::Regular,
            S_IFDIR => FileKind::Directory,
            S_IFLNK => FileKind::Symlink,
            S_IFCHR => FileKind::Char,
            S_IFBLK => FileKind::Block,
            S_IFIFO => FileKind::Fifo,
            S_IFSOCK => FileKind::Socket,
            _ => return None,
        })
    }

    /// The type bits of a mode.
    pub const fn mode_bits(self) -> u32 {
        match self {
            FileKind::Regular => S_IFREG,
            FileKind::Directory => S_IFDIR,
            FileKind::Symlink => S_IFLNK,
            FileKind::Char => S_IFCHR,
            FileKind::Block => S_IFBLK,
            FileKind::Fifo => S_IFIFO,
            FileKind::Socket => S_IFSOCK,
        }
    }

    /// The `d_type` of a directory entry.
    pub const fn dirent_type(self) -> u8 {
        match self {
            FileKind::Regular => DT_REG,
            FileKind::Directory => DT_DIR,
            FileKind::Symlink => DT_LNK,
            FileKind::Char => DT_CHR,
            FileKind::Block => DT_BLK,
            FileKind::Fifo => DT_FIFO,
            FileKind::Socket => DT_SOCK,
        }
    }
}

/// A file's attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// Device number of the file system.
    pub dev: u64,
    /// Number of the inode within it.
    pub ino: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Names that the file has.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, of a device node.
    pub rdev: u64,
    /// Length in bytes.
    pub size: u64,
    /// Memory in use, in units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub atime: FileTime,
    /// Last change of contents.
    pub mtime: FileTime,
    /// Last change of contents or attributes.
    pub ctime: FileTime,
    /// Creation.
    pub btime: FileTime,
}

/// The device numbers of sockets, of pipes, and of other files without a name.
pub const SOCKET_DEV: u64 = 8;
/// See [`SOCKET_DEV`].
pub const PIPE_DEV: u64 = 0xc;
/// See [`SOCKET_DEV`].
pub const ANONYMOUS_DEV: u64 = 0xd;

/// Preferred size of a transfer, bytes.
pub(super) const BLOCK_SIZE: u32 = 4096;

impl Attr {
    /// The result of `fstat` for a file without an inode, before its attributes are changed.
    pub fn anonymous() -> Attr {
        Attr {
            dev: ANONYMOUS_DEV,
            ino: 1,
            mode: 0o600,
            nlink: 1,
            ..Attr::default()
        }
    }

    /// The file's kind.
    pub fn kind(&self) -> FileKind {
        FileKind::of_mode(self.mode).unwrap_or(FileKind::Regular)
    }

    /// As `struct stat`.
    #[inline]
    pub fn to_stat(&self) -> Stat {
        Stat {
            dev: self.dev,
            ino: self.ino,
            nlink: u64::from(self.nlink),
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.size as i64,
            blksize: i64::from(BLOCK_SIZE),
            blocks: self.blocks as i64,
            atime: self.atime.sec,
            atime_nsec: i64::from(self.atime.nsec),
            mtime: self.mtime.sec,
            mtime_nsec: i64::from(self.mtime.nsec),
            ctime: self.ctime.sec,
            ctime_nsec: i64::from(self.ctime.nsec),
            ..Stat::default()
        }
    }

    /// As `struct statx`.
    pub fn to_statx(&self) -> Statx {
        let stamp = |t: FileTime| StatxTimestamp {
            sec: t.sec,
            nsec: t.nsec,
            reserved: 0,
        };
        Statx {
            mask: STATX_BASIC_STATS | STATX_BTIME,
            blksize: BLOCK_SIZE,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            mode: self.mode as u16,
            ino: self.ino,
            size: self.size,
            blocks: self.blocks,
            atime: stamp(self.atime),
            btime: stamp(self.btime),
            ctime: stamp(self.ctime),
            mtime: stamp(self.mtime),
            rdev_major: major(self.rdev),
            rdev_minor: minor(self.rdev),
            dev_major: major(self.dev),
            dev_minor: minor(self.dev),
            ..Statx::default()
        }
    }
}

/// Attributes to change; `None` leaves one alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Permission bits (the low twelve).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last read.
    pub atime: Option<FileTime>,
    /// Last change of contents.
    pub mtime: Option<FileTime>,
    /// The file's capabilities go.
    pub strip: bool,
    /// The attributes on which the permission was decided: if they have changed, nothing is done, and the
    /// result is `EAGAIN`.
    pub seen: Option<ModeBits>,
}

/// The attributes that permission depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeBits {
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl ModeBits {
    /// Those of `attr`.
    pub fn of(attr: &Attr) -> ModeBits {
        ModeBits {
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
        }
    }
}
