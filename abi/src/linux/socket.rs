//! Sockets: families, kinds, flags of messages, options, and the structures that messages are described by.

plain! {
    /// `struct msghdr`.
    pub struct Msghdr {
        pub name: u64,
        pub namelen: i32,
        pub pad0: u32,
        pub iov: u64,
        pub iovlen: u64,
        pub control: u64,
        pub controllen: u64,
        pub flags: i32,
        pub pad1: u32,
    }
    /// `struct mmsghdr`.
    pub struct Mmsghdr {
        pub header: Msghdr,
        pub len: u32,
        pub pad: u32,
    }
    /// `struct cmsghdr`; its data follows.
    pub struct Cmsghdr {
        pub len: u64,
        pub level: i32,
        pub kind: i32,
    }
    /// `struct ucred`.
    pub struct Ucred {
        pub pid: i32,
        pub uid: u32,
        pub gid: u32,
    }
    /// `struct linger`; seconds.
    pub struct Linger {
        pub onoff: i32,
        pub linger: i32,
    }
}

constants! { i32:
    AF_UNSPEC = 0, AF_UNIX = 1, AF_INET = 2, AF_INET6 = 10, AF_NETLINK = 16, AF_PACKET = 17, AF_MAX = 46,
    SOCK_STREAM = 1, SOCK_DGRAM = 2, SOCK_RAW = 3, SOCK_SEQPACKET = 5, SOCK_MAX = 11, SOCK_TYPE_MASK = 0xf,
    SHUT_RD = 0, SHUT_WR = 1, SHUT_RDWR = 2,
    SOL_SOCKET = 1, SCM_RIGHTS = 1, SCM_CREDENTIALS = 2,
    SO_DEBUG = 1, SO_REUSEADDR = 2, SO_TYPE = 3, SO_ERROR = 4, SO_DONTROUTE = 5, SO_BROADCAST = 6, SO_SNDBUF = 7,
    SO_RCVBUF = 8, SO_KEEPALIVE = 9, SO_OOBINLINE = 10, SO_NO_CHECK = 11, SO_PRIORITY = 12, SO_LINGER = 13,
    SO_BSDCOMPAT = 14, SO_REUSEPORT = 15, SO_PASSCRED = 16, SO_PEERCRED = 17, SO_RCVLOWAT = 18, SO_SNDLOWAT = 19,
    SO_RCVTIMEO = 20, SO_SNDTIMEO = 21, SO_BINDTODEVICE = 25, SO_ATTACH_FILTER = 26, SO_DETACH_FILTER = 27,
    SO_PEERNAME = 28, SO_TIMESTAMP = 29, SO_ACCEPTCONN = 30, SO_PEERSEC = 31, SO_SNDBUFFORCE = 32,
    SO_RCVBUFFORCE = 33, SO_PASSSEC = 34, SO_TIMESTAMPNS = 35, SO_MARK = 36, SO_TIMESTAMPING = 37, SO_PROTOCOL = 38,
    SO_DOMAIN = 39, SO_RXQ_OVFL = 40, SO_PEEK_OFF = 42, SO_BUSY_POLL = 46, SO_MEMINFO = 55, SO_INCOMING_CPU = 49,
    SO_COOKIE = 57, SO_PEERGROUPS = 59, SO_PEERPIDFD = 77, SO_ZEROCOPY = 60, SO_BINDTOIFINDEX = 62,
    SOMAXCONN = 4096,
}

constants! { u32:
    SOCK_CLOEXEC = 0o2000000, SOCK_NONBLOCK = 0o4000,
    MSG_OOB = 1, MSG_PEEK = 2, MSG_DONTROUTE = 4, MSG_CTRUNC = 8, MSG_TRUNC = 0x20, MSG_DONTWAIT = 0x40, MSG_EOR = 0x80,
    MSG_WAITALL = 0x100, MSG_CONFIRM = 0x800, MSG_ERRQUEUE = 0x2000, MSG_NOSIGNAL = 0x4000, MSG_MORE = 0x8000,
    MSG_WAITFORONE = 0x10000, MSG_CMSG_CLOEXEC = 0x4000_0000, MSG_CMSG_COMPAT = 0x8000_0000,
}

/// Bytes of the largest address (`struct sockaddr_storage`).
pub const SOCKADDR_MAX: usize = 128;
/// Descriptors that one message may carry.
pub const SCM_MAX_FD: usize = 253;
/// Messages that one `sendmmsg` or `recvmmsg` moves.
pub const UIO_MAXIOV: usize = 1024;
