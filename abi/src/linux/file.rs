//! Files: `stat`, directory entries, open flags, modes, `ioctl`-free file control.

plain! {
    /// `struct stat`; times in seconds and nanoseconds, `blocks` in 512 bytes.
    pub struct Stat {
        pub dev: u64,
        pub ino: u64,
        pub nlink: u64,
        pub mode: u32,
        pub uid: u32,
        pub gid: u32,
        pub pad0: u32,
        pub rdev: u64,
        pub size: i64,
        pub blksize: i64,
        pub blocks: i64,
        pub atime: i64,
        pub atime_nsec: i64,
        pub mtime: i64,
        pub mtime_nsec: i64,
        pub ctime: i64,
        pub ctime_nsec: i64,
        pub unused: [i64; 3],
    }
    /// One time of `struct statx`.
    pub struct StatxTimestamp {
        pub sec: i64,
        pub nsec: u32,
        pub reserved: i32,
    }
    /// `struct statx`.
    pub struct Statx {
        pub mask: u32,
        pub blksize: u32,
        pub attributes: u64,
        pub nlink: u32,
        pub uid: u32,
        pub gid: u32,
        pub mode: u16,
        pub spare0: u16,
        pub ino: u64,
        pub size: u64,
        pub blocks: u64,
        pub attributes_mask: u64,
        pub atime: StatxTimestamp,
        pub btime: StatxTimestamp,
        pub ctime: StatxTimestamp,
        pub mtime: StatxTimestamp,
        pub rdev_major: u32,
        pub rdev_minor: u32,
        pub dev_major: u32,
        pub dev_minor: u32,
        pub mnt_id: u64,
        pub dio_mem_align: u32,
        pub dio_offset_align: u32,
        pub spare3: [u64; 12],
    }
    /// `struct statfs`.
    pub struct Statfs {
        pub kind: i64,
        pub bsize: i64,
        pub blocks: u64,
        pub bfree: u64,
        pub bavail: u64,
        pub files: u64,
        pub ffree: u64,
        pub fsid: [i32; 2],
        pub namelen: i64,
        pub frsize: i64,
        pub flags: i64,
        pub spare: [i64; 4],
    }
    /// `struct ustat`.
    pub struct Ustat {
        pub tfree: i32,
        pub pad: u32,
        pub tinode: u64,
        pub names: [u8; 12],
        pub end: u32,
    }
    /// The fixed head of `struct linux_dirent64`; the name, NUL-terminated,
    /// follows at byte [`DIRENT64_NAME`], and `reclen` is a multiple of 8.
    pub struct Dirent64 {
        pub ino: u64,
        pub off: i64,
        pub reclen_type_pad: [u8; 8],
    }
    /// `struct iovec`.
    pub struct Iovec {
        pub base: u64,
        pub len: u64,
    }
    /// `struct flock`.
    pub struct Flock {
        pub kind: i16,
        pub whence: i16,
        pub pad0: i32,
        pub start: i64,
        pub len: i64,
        pub pid: i32,
        pub pad1: i32,
    }
    /// `struct utimbuf`.
    pub struct Utimbuf {
        pub actime: i64,
        pub modtime: i64,
    }
    /// `struct open_how`.
    pub struct OpenHow {
        pub flags: u64,
        pub mode: u64,
        pub resolve: u64,
    }
}

/// Bytes before the name in a `linux_dirent64`.
pub const DIRENT64_NAME: usize = 19;

constants! { i32:
    AT_FDCWD = -100,
    AT_SYMLINK_NOFOLLOW = 0x100,
    AT_EACCESS = 0x200,
    AT_REMOVEDIR = 0x200,
    AT_SYMLINK_FOLLOW = 0x400,
    AT_NO_AUTOMOUNT = 0x800,
    AT_EMPTY_PATH = 0x1000,
    SEEK_SET = 0, SEEK_CUR = 1, SEEK_END = 2, SEEK_DATA = 3, SEEK_HOLE = 4,
    F_OK = 0, X_OK = 1, W_OK = 2, R_OK = 4,
    F_DUPFD = 0, F_GETFD = 1, F_SETFD = 2, F_GETFL = 3, F_SETFL = 4,
    F_GETLK = 5, F_SETLK = 6, F_SETLKW = 7, F_SETOWN = 8, F_GETOWN = 9,
    F_SETSIG = 10, F_GETSIG = 11, F_DUPFD_CLOEXEC = 1030, F_SETPIPE_SZ = 1031, F_GETPIPE_SZ = 1032,
    F_ADD_SEALS = 1033, F_GET_SEALS = 1034,
    FD_CLOEXEC = 1,
    F_OWNER_TID = 0, F_OWNER_PID = 1, F_OWNER_PGRP = 2,
    LOCK_SH = 1, LOCK_EX = 2, LOCK_NB = 4, LOCK_UN = 8,
    F_RDLCK = 0, F_WRLCK = 1, F_UNLCK = 2,
    IOV_MAX = 1024,
}

constants! { u32:
    F_SEAL_SEAL = 1, F_SEAL_SHRINK = 2, F_SEAL_GROW = 4, F_SEAL_WRITE = 8, F_SEAL_FUTURE_WRITE = 16, F_SEAL_EXEC = 32,
    O_ACCMODE = 0o3, O_RDONLY = 0o0, O_WRONLY = 0o1, O_RDWR = 0o2,
    O_CREAT = 0o100, O_EXCL = 0o200, O_NOCTTY = 0o400, O_TRUNC = 0o1000,
    O_APPEND = 0o2000, O_NONBLOCK = 0o4000, O_DSYNC = 0o10000, O_ASYNC = 0o20000,
    O_DIRECT = 0o40000, O_LARGEFILE = 0o100000, O_DIRECTORY = 0o200000,
    O_NOFOLLOW = 0o400000, O_NOATIME = 0o1000000, O_CLOEXEC = 0o2000000,
    O_SYNC = 0o4010000, O_PATH = 0o10000000, O_TMPFILE = 0o20200000,

    S_IFMT = 0o170000, S_IFSOCK = 0o140000, S_IFLNK = 0o120000, S_IFREG = 0o100000,
    S_IFBLK = 0o060000, S_IFDIR = 0o040000, S_IFCHR = 0o020000, S_IFIFO = 0o010000,
    S_ISUID = 0o4000, S_ISGID = 0o2000, S_ISVTX = 0o1000,

    RENAME_NOREPLACE = 1, RENAME_EXCHANGE = 2, RENAME_WHITEOUT = 4,
    STATX_BASIC_STATS = 0x7ff, STATX_BTIME = 0x800, STATX_MNT_ID = 0x1000,
}

constants! { u64:
    RESOLVE_NO_XDEV = 1, RESOLVE_NO_MAGICLINKS = 2, RESOLVE_NO_SYMLINKS = 4, RESOLVE_BENEATH = 8, RESOLVE_IN_ROOT = 16,
    RESOLVE_CACHED = 32,
    STATX_ATTR_MOUNT_ROOT = 0x2000,
}

constants! { u8:
    DT_UNKNOWN = 0, DT_FIFO = 1, DT_CHR = 2, DT_DIR = 4, DT_BLK = 6, DT_REG = 8, DT_LNK = 10, DT_SOCK = 12,
}

constants! { usize:
    PATH_MAX = 4096,
    NAME_MAX = 255,
    PIPE_BUF = 4096,
}

constants! { i64:
    TMPFS_MAGIC = 0x0102_1994,
    V9FS_MAGIC = 0x0102_1997,
    PROC_SUPER_MAGIC = 0x9fa0,
    PIPEFS_MAGIC = 0x5049_5045, SOCKFS_MAGIC = 0x534f_434b, ANON_INODE_FS_MAGIC = 0x0904_1934,
    RAMFS_MAGIC = 0x8584_58f6_u32 as i64,
}

/// `UTIME_NOW`, `UTIME_OMIT` in `tv_nsec` of `utimensat`.
pub const UTIME_NOW: i64 = (1 << 30) - 1;
/// See [`UTIME_NOW`].
pub const UTIME_OMIT: i64 = (1 << 30) - 2;

/// A device number from its halves, as `makedev` does.
pub const fn makedev(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12) | ((major & !0xfff) << 32)
}

/// The major half of a device number.
pub const fn major(dev: u64) -> u32 {
    (((dev >> 8) & 0xfff) | ((dev >> 32) & !0xfff)) as u32
}

/// The minor half of a device number.
pub const fn minor(dev: u64) -> u32 {
    ((dev & 0xff) | ((dev >> 12) & !0xff)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    #[test]
    fn sizes_are_linux() {
        assert_eq!(size_of::<Stat>(), 144);
        assert_eq!(size_of::<Statx>(), 256);
        assert_eq!(size_of::<Statfs>(), 120);
        assert_eq!(size_of::<Flock>(), 32);
    }

    #[test]
    fn device_numbers() {
        assert_eq!(makedev(5, 1), 0x501);
        let dev = makedev(0x1234, 0x5678);
        assert_eq!((major(dev), minor(dev)), (0x1234, 0x5678));
    }
}
