//! Waiting for many descriptors: `poll`, `select`, `epoll`, `eventfd`, `signalfd`, `inotify`.

plain! {
    /// `struct pollfd`.
    pub struct Pollfd {
        pub fd: i32,
        pub events: i16,
        pub revents: i16,
    }
}

plain! {
    /// `struct signalfd_siginfo`.
    pub struct SignalfdSiginfo {
        pub signo: u32,
        pub errno: i32,
        pub code: i32,
        pub pid: u32,
        pub uid: u32,
        pub fd: i32,
        pub tid: u32,
        pub band: u32,
        pub overrun: u32,
        pub trapno: u32,
        pub status: i32,
        pub int: i32,
        pub ptr: u64,
        pub utime: u64,
        pub stime: u64,
        pub addr: u64,
        pub addr_lsb: u16,
        pub pad0: u16,
        pub syscall: i32,
        pub call_addr: u64,
        pub arch: u32,
        pub pad1: [u32; 7],
    }
}

/// `struct epoll_event`; packed on x86-64.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, packed)]
pub struct EpollEvent {
    pub events: u32,
    pub data: u64,
}

plain! {
    /// `struct inotify_event`, before its name.
    pub struct InotifyEvent {
        pub wd: i32,
        pub mask: u32,
        pub cookie: u32,
        pub len: u32,
    }
}

constants! { u32:
    IN_ACCESS = 0x001, IN_MODIFY = 0x002, IN_ATTRIB = 0x004, IN_CLOSE_WRITE = 0x008, IN_CLOSE_NOWRITE = 0x010, IN_OPEN = 0x020,
    IN_MOVED_FROM = 0x040, IN_MOVED_TO = 0x080, IN_CREATE = 0x100, IN_DELETE = 0x200, IN_DELETE_SELF = 0x400, IN_MOVE_SELF = 0x800,
    IN_ALL_EVENTS = 0xfff, IN_UNMOUNT = 0x2000, IN_Q_OVERFLOW = 0x4000, IN_IGNORED = 0x8000,
    IN_ONLYDIR = 1 << 24, IN_DONT_FOLLOW = 1 << 25, IN_EXCL_UNLINK = 1 << 26, IN_MASK_CREATE = 1 << 28, IN_MASK_ADD = 1 << 29,
    IN_ISDIR = 1 << 30, IN_ONESHOT = 1 << 31,
    POLLIN = 0x001, POLLPRI = 0x002, POLLOUT = 0x004, POLLERR = 0x008, POLLHUP = 0x010, POLLNVAL = 0x020,
    POLLRDNORM = 0x040, POLLRDBAND = 0x080, POLLWRNORM = 0x100, POLLWRBAND = 0x200, POLLMSG = 0x400, POLLRDHUP = 0x2000,
    EPOLLIN = POLLIN, EPOLLOUT = POLLOUT, EPOLLERR = POLLERR, EPOLLHUP = POLLHUP,
    EPOLLEXCLUSIVE = 1 << 28, EPOLLWAKEUP = 1 << 29, EPOLLONESHOT = 1 << 30, EPOLLET = 1 << 31,
    EPOLL_CTL_ADD = 1, EPOLL_CTL_DEL = 2, EPOLL_CTL_MOD = 3, EPOLL_CLOEXEC = 0o2000000,
    EFD_SEMAPHORE = 1, EFD_CLOEXEC = 0o2000000, EFD_NONBLOCK = 0o4000,
    TFD_TIMER_ABSTIME = 1, TFD_TIMER_CANCEL_ON_SET = 2,
}

/// Descriptors in an `fd_set`.
pub const FD_SETSIZE: usize = 1024;
