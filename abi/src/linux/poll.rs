//! Waiting for many descriptors: `poll`, `select`, `epoll`, `eventfd`.

plain! {
    /// `struct pollfd`.
    pub struct Pollfd {
        pub fd: i32,
        pub events: i16,
        pub revents: i16,
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
