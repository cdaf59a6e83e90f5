//! AF_INET and AF_INET6: addresses, protocols, options.
//!
//! *Interface*: `SockaddrIn`, `SockaddrIn6` and the numbers of ip(7), ipv6(7), tcp(7).

plain! {
    /// `struct sockaddr_in`; port and address in network order.
    pub struct SockaddrIn {
        pub family: u16,
        pub port: [u8; 2],
        pub address: [u8; 4],
        pub zero: [u8; 8],
    }
    /// `struct sockaddr_in6`; port and address in network order.
    pub struct SockaddrIn6 {
        pub family: u16,
        pub port: [u8; 2],
        pub flow: u32,
        pub address: [u8; 16],
        pub scope: u32,
    }
}

plain! {
    /// `struct in_pktinfo`.
    pub struct InPktinfo {
        pub index: i32,
        pub local: [u8; 4],
        pub address: [u8; 4],
    }
    /// `struct in6_pktinfo`.
    pub struct In6Pktinfo {
        pub address: [u8; 16],
        pub index: i32,
    }
}

constants! { i32:
    IPPROTO_IP = 0, IPPROTO_ICMP = 1, IPPROTO_TCP = 6, IPPROTO_UDP = 17, IPPROTO_IPV6 = 41, IPPROTO_ICMPV6 = 58, IPPROTO_UDPLITE = 136, IPPROTO_RAW = 255,
    IPPROTO_MAX = 263,
}

constants! { i32:
    IP_TOS = 1, IP_TTL = 2, IP_HDRINCL = 3, IP_OPTIONS = 4, IP_ROUTER_ALERT = 5, IP_RECVOPTS = 6, IP_RETOPTS = 7, IP_PKTINFO = 8, IP_MTU_DISCOVER = 10,
    IP_RECVERR = 11, IP_RECVTTL = 12, IP_RECVTOS = 13, IP_MTU = 14, IP_FREEBIND = 15, IP_IPSEC_POLICY = 16, IP_XFRM_POLICY = 17,
    IP_PASSSEC = 18, IP_TRANSPARENT = 19, IP_RECVORIGDSTADDR = 20, IP_MINTTL = 21, IP_NODEFRAG = 22, IP_CHECKSUM = 23,
    IP_BIND_ADDRESS_NO_PORT = 24, IP_RECVFRAGSIZE = 25, IP_RECVERR_RFC4884 = 26, IP_MULTICAST_IF = 32, IP_MULTICAST_TTL = 33,
    IP_MULTICAST_LOOP = 34, IP_ADD_MEMBERSHIP = 35, IP_DROP_MEMBERSHIP = 36, IP_MULTICAST_ALL = 49, IP_UNICAST_IF = 50,
    MCAST_JOIN_GROUP = 42, MCAST_LEAVE_GROUP = 45,

    IPV6_ADDRFORM = 1, IPV6_CHECKSUM = 7, IPV6_FLOWINFO = 11, IPV6_UNICAST_HOPS = 16, IPV6_MULTICAST_IF = 17, IPV6_MULTICAST_HOPS = 18, IPV6_MULTICAST_LOOP = 19,
    IPV6_ADD_MEMBERSHIP = 20, IPV6_DROP_MEMBERSHIP = 21, IPV6_MTU_DISCOVER = 23, IPV6_MTU = 24, IPV6_RECVERR = 25, IPV6_V6ONLY = 26,
    IPV6_MULTICAST_ALL = 29, IPV6_RECVPKTINFO = 49, IPV6_PKTINFO = 50, IPV6_RECVHOPLIMIT = 51, IPV6_HOPLIMIT = 52,
    IPV6_RECVHOPOPTS = 53, IPV6_RECVRTHDR = 56, IPV6_RECVDSTOPTS = 58, IPV6_RECVPATHMTU = 60, IPV6_DONTFRAG = 62,
    IPV6_RECVTCLASS = 66, IPV6_TCLASS = 67, IPV6_AUTOFLOWLABEL = 70, IPV6_ADDR_PREFERENCES = 72, IPV6_MINHOPCOUNT = 73,
    IPV6_RECVORIGDSTADDR = 74, IPV6_TRANSPARENT = 75, IPV6_UNICAST_IF = 76, IPV6_RECVFRAGSIZE = 77, IPV6_FREEBIND = 78,

    TCP_NODELAY = 1, TCP_MAXSEG = 2, TCP_CORK = 3, TCP_KEEPIDLE = 4, TCP_KEEPINTVL = 5, TCP_KEEPCNT = 6, TCP_SYNCNT = 7, TCP_LINGER2 = 8,
    TCP_DEFER_ACCEPT = 9, TCP_WINDOW_CLAMP = 10, TCP_INFO = 11, TCP_QUICKACK = 12, TCP_CONGESTION = 13, TCP_THIN_LINEAR_TIMEOUTS = 16,
    TCP_THIN_DUPACK = 17, TCP_USER_TIMEOUT = 18, TCP_REPAIR = 19, TCP_FASTOPEN = 23, TCP_TIMESTAMP = 24, TCP_NOTSENT_LOWAT = 25,
    TCP_SAVE_SYN = 27, TCP_FASTOPEN_CONNECT = 30, TCP_ULP = 31, TCP_FASTOPEN_NO_COOKIE = 34, TCP_INQ = 36, TCP_TX_DELAY = 37,

    UDPLITE_SEND_CSCOV = 10, UDPLITE_RECV_CSCOV = 11,
    UDP_CORK = 1, UDP_ENCAP = 100, UDP_NO_CHECK6_TX = 101, UDP_NO_CHECK6_RX = 102, UDP_SEGMENT = 103, UDP_GRO = 104,
}

plain! {
    /// `struct tcp_info`, as far as Linux 6.1 has it.
    pub struct TcpInfo {
        pub state: u8,
        pub ca_state: u8,
        pub retransmits: u8,
        pub probes: u8,
        pub backoff: u8,
        pub options: u8,
        pub scales: u8,
        pub flags: u8,
        pub rto: u32,
        pub ato: u32,
        pub snd_mss: u32,
        pub rcv_mss: u32,
        pub unacked: u32,
        pub sacked: u32,
        pub lost: u32,
        pub retrans: u32,
        pub fackets: u32,
        pub last_data_sent: u32,
        pub last_ack_sent: u32,
        pub last_data_recv: u32,
        pub last_ack_recv: u32,
        pub pmtu: u32,
        pub rcv_ssthresh: u32,
        pub rtt: u32,
        pub rttvar: u32,
        pub snd_ssthresh: u32,
        pub snd_cwnd: u32,
        pub advmss: u32,
        pub reordering: u32,
        pub rcv_rtt: u32,
        pub rcv_space: u32,
        pub total_retrans: u32,
        pub pacing_rate: u64,
        pub max_pacing_rate: u64,
        pub bytes_acked: u64,
        pub bytes_received: u64,
        pub segs_out: u32,
        pub segs_in: u32,
        pub notsent_bytes: u32,
        pub min_rtt: u32,
        pub data_segs_in: u32,
        pub data_segs_out: u32,
        pub delivery_rate: u64,
        pub busy_time: u64,
        pub rwnd_limited: u64,
        pub sndbuf_limited: u64,
        pub delivered: u32,
        pub delivered_ce: u32,
        pub bytes_sent: u64,
        pub bytes_retrans: u64,
        pub dsack_dups: u32,
        pub reord_seen: u32,
        pub rcv_ooopack: u32,
        pub snd_wnd: u32,
    }
    /// `struct ip_mreqn`.
    pub struct IpMreqn {
        pub group: [u8; 4],
        pub address: [u8; 4],
        pub index: i32,
    }
    /// `struct ipv6_mreq`.
    pub struct Ipv6Mreq {
        pub group: [u8; 16],
        pub index: i32,
    }
}

plain! {
    /// `struct ifreq`: an interface, and a value of several kinds.
    pub struct Ifreq {
        pub name: [u8; 16],
        pub value: [u8; 24],
    }
    /// `struct ifconf`.
    pub struct Ifconf {
        pub length: i32,
        pub pad: u32,
        pub buffer: u64,
    }
}

constants! { u32:
    SIOCATMARK = 0x8905, SIOCGIFNAME = 0x8910, SIOCGIFCONF = 0x8912, SIOCGIFFLAGS = 0x8913, SIOCSIFFLAGS = 0x8914, SIOCGIFADDR = 0x8915,
    SIOCSIFADDR = 0x8916, SIOCGIFDSTADDR = 0x8917, SIOCGIFBRDADDR = 0x8919, SIOCGIFNETMASK = 0x891b, SIOCSIFNETMASK = 0x891c,
    SIOCGIFMETRIC = 0x891d, SIOCGIFMTU = 0x8921, SIOCSIFMTU = 0x8922, SIOCSIFHWADDR = 0x8924, SIOCGIFHWADDR = 0x8927,
    SIOCGIFINDEX = 0x8933, SIOCGIFTXQLEN = 0x8942, SIOCETHTOOL = 0x8946, SIOCGIFMAP = 0x8970,
}

constants! { i32:
    SOL_RAW = 255, ICMP_FILTER = 1, ICMPV6_FILTER = 1,
}
