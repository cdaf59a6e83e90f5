//! Waiting for many descriptors: `poll`, `select`, `epoll`, `eventfd`, `signalfd`.

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

constants! { u32:
    POLLIN = 0x001, POLLPRI = 0x002, POLLOUT = 0x004, POLLERR = 0x008, POLLHUP = 0x010, POLLNVAL = 0x020,
    POLLRDNORM = 0x040, POLLRDBAND = 0x080, POLLWRNORM = 0x100, POLLWRBAND = 0x200, POLLRDHUP = 0x2000,
    EPOLLIN = POLLIN, EPOLLOUT = POLLOUT, EPOLLERR = POLLERR, EPOLLHUP = POLLHUP,
    EPOLLEXCLUSIVE = 1 << 28, EPOLLWAKEUP = 1 << 29, EPOLLONESHOT = 1 << 30, EPOLLET = 1 << 31,
    EPOLL_CTL_ADD = 1, EPOLL_CTL_DEL = 2, EPOLL_CTL_MOD = 3, EPOLL_CLOEXEC = 0o2000000,
    EFD_SEMAPHORE = 1, EFD_CLOEXEC = 0o2000000, EFD_NONBLOCK = 0o4000,
    TFD_TIMER_ABSTIME = 1, TFD_TIMER_CANCEL_ON_SET = 2,
}

/// Descriptors in an `fd_set`.
pub const FD_SETSIZE: usize = 1024;
