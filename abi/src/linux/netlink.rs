//! Netlink: messages, questions about interfaces, addresses and routes, and about sockets.

plain! {
    /// `struct sockaddr_nl`.
    pub struct SockaddrNl {
        pub family: u16,
        pub pad: u16,
        pub port: u32,
        pub groups: u32,
    }
    /// `struct nlmsghdr`.
    pub struct Nlmsghdr {
        pub length: u32,
        pub kind: u16,
        pub flags: u16,
        pub sequence: u32,
        pub port: u32,
    }
    /// `struct ifinfomsg`.
    pub struct Ifinfomsg {
        pub family: u8,
        pub pad: u8,
        pub kind: u16,
        pub index: i32,
        pub flags: u32,
        pub change: u32,
    }
    /// `struct ifaddrmsg`.
    pub struct Ifaddrmsg {
        pub family: u8,
        pub bits: u8,
        pub flags: u8,
        pub scope: u8,
        pub index: u32,
    }
    /// `struct rtmsg`.
    pub struct Rtmsg {
        pub family: u8,
        pub to_bits: u8,
        pub from_bits: u8,
        pub tos: u8,
        pub table: u8,
        pub protocol: u8,
        pub scope: u8,
        pub kind: u8,
        pub flags: u32,
    }
    /// `struct unix_diag_req`.
    pub struct UnixDiagReq {
        pub family: u8,
        pub protocol: u8,
        pub pad: u16,
        pub states: u32,
        pub ino: u32,
        pub show: u32,
        pub cookie: [u32; 2],
    }
    /// `struct unix_diag_msg`.
    pub struct UnixDiagMsg {
        pub family: u8,
        pub kind: u8,
        pub state: u8,
        pub pad: u8,
        pub ino: u32,
        pub cookie: [u32; 2],
    }
    /// `struct inet_diag_sockid`; ports and addresses as in packets.
    pub struct InetDiagSockid {
        pub sport: [u8; 2],
        pub dport: [u8; 2],
        pub src: [u8; 16],
        pub dst: [u8; 16],
        pub interface: u32,
        pub cookie: [u32; 2],
    }
    /// `struct inet_diag_req_v2`.
    pub struct InetDiagReq {
        pub family: u8,
        pub protocol: u8,
        pub ext: u8,
        pub pad: u8,
        pub states: u32,
        pub id: InetDiagSockid,
    }
    /// `struct inet_diag_msg`.
    pub struct InetDiagMsg {
        pub family: u8,
        pub state: u8,
        pub timer: u8,
        pub retrans: u8,
        pub id: InetDiagSockid,
        pub expires: u32,
        pub rqueue: u32,
        pub wqueue: u32,
        pub uid: u32,
        pub inode: u32,
    }
}

constants! { i32:
    NETLINK_ROUTE = 0, NETLINK_SOCK_DIAG = 4, NETLINK_KOBJECT_UEVENT = 15,
    SOL_NETLINK = 270,
    NETLINK_ADD_MEMBERSHIP = 1, NETLINK_DROP_MEMBERSHIP = 2, NETLINK_PKTINFO = 3, NETLINK_BROADCAST_ERROR = 4,
    NETLINK_NO_ENOBUFS = 5, NETLINK_LIST_MEMBERSHIPS = 9, NETLINK_CAP_ACK = 10, NETLINK_EXT_ACK = 11,
    NETLINK_GET_STRICT_CHK = 12,
}

constants! { u16:
    NLM_F_REQUEST = 1, NLM_F_MULTI = 2, NLM_F_ACK = 4, NLM_F_CAPPED = 0x100, NLM_F_DUMP = 0x300,
    NLMSG_ERROR = 2, NLMSG_DONE = 3, NLMSG_MIN_TYPE = 16, NLA_TYPE_MASK = 0x3fff,
    RTM_NEWLINK = 16, RTM_GETLINK = 18, RTM_SETLINK = 19, RTM_NEWADDR = 20, RTM_GETADDR = 22,
    RTM_NEWROUTE = 24, RTM_GETROUTE = 26, RTM_GETNEIGH = 30, RTM_MAX = 123,
    ARPHRD_LOOPBACK = 772,
    IFLA_ADDRESS = 1, IFLA_BROADCAST = 2, IFLA_IFNAME = 3, IFLA_MTU = 4, IFLA_QDISC = 6, IFLA_TXQLEN = 13,
    IFLA_OPERSTATE = 16, IFLA_LINKMODE = 17, IFLA_GROUP = 27, IFLA_PROMISCUITY = 30, IFLA_CARRIER = 33,
    IFLA_ALT_IFNAME = 53,
    IFA_ADDRESS = 1, IFA_LOCAL = 2, IFA_LABEL = 3, IFA_CACHEINFO = 6, IFA_FLAGS = 8,
    RTA_DST = 1, RTA_OIF = 4, RTA_PRIORITY = 6, RTA_PREFSRC = 7, RTA_TABLE = 15,
    SOCK_DIAG_BY_FAMILY = 20,
    UNIX_DIAG_NAME = 0, UNIX_DIAG_PEER = 2, UNIX_DIAG_RQLEN = 4, UNIX_DIAG_SHUTDOWN = 6,
    INET_DIAG_SHUTDOWN = 8,
}

constants! { u32:
    IFF_UP = 1, IFF_LOOPBACK = 8, IFF_RUNNING = 0x40, IFF_LOWER_UP = 0x10000,
    IFA_F_PERMANENT = 0x80,
    RTNLGRP_MAX = 36, SKNLGRP_MAX = 4,
    UDIAG_SHOW_NAME = 1, UDIAG_SHOW_PEER = 4, UDIAG_SHOW_RQLEN = 16,
}

constants! { u8:
    RT_TABLE_MAIN = 254, RT_TABLE_LOCAL = 255, RTPROT_KERNEL = 2,
    RT_SCOPE_UNIVERSE = 0, RT_SCOPE_LINK = 253, RT_SCOPE_HOST = 254,
    RTN_UNICAST = 1, RTN_LOCAL = 2, RTN_BROADCAST = 3,
    TCP_ESTABLISHED = 1, TCP_CLOSE = 7, TCP_LISTEN = 10,
}
