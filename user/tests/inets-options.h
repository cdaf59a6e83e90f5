/* Options of TCP sockets: a part of `inets`.
 *
 * Interface: the group options.
 */
#ifndef INETS_OPTIONS_H
#define INETS_OPTIONS_H

/* --- options --- */

/* An option that is kept as it is set. */
static void kept(int fd, int level, int name, int first, int value, const char *what)
{
    char text[80];
    snprintf(text, sizeof text, "%s at first", what);
    equal(get(fd, level, name), first, text);
    snprintf(text, sizeof text, "%s is set", what);
    equal(set(fd, level, name, value), 0, text);
    snprintf(text, sizeof text, "%s is kept", what);
    equal(get(fd, level, name), value, text);
}

static void options(void)
{
    int fd = tcp("127.0.0.1"), six = tcp("::1"), s[2];
    char name[64] = {0};
    kept(fd, IPPROTO_TCP, TCP_NODELAY, 0, 1, "no delay");
    kept(fd, IPPROTO_TCP, TCP_CORK, 0, 1, "a cork");
    kept(fd, IPPROTO_TCP, TCP_KEEPIDLE, 7200, 50, "time until a look");
    kept(fd, IPPROTO_TCP, TCP_KEEPINTVL, 75, 5, "time between looks");
    kept(fd, IPPROTO_TCP, TCP_KEEPCNT, 9, 3, "looks");
    kept(fd, IPPROTO_TCP, TCP_SYNCNT, 6, 3, "tries");
    kept(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0, 3000, "patience");
    kept(fd, IPPROTO_TCP, TCP_LINGER2, 60, 30, "time half closed");
    kept(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 0, 1, "fast opening");
    kept(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0, 16384, "a low mark");
    kept(fd, SOL_SOCKET, SO_KEEPALIVE, 0, 1, "looks at all");
    kept(fd, SOL_SOCKET, SO_REUSEADDR, 0, 1, "sharing");
    kept(fd, SOL_SOCKET, SO_REUSEPORT, 0, 1, "sharing of a port");
    kept(fd, SOL_SOCKET, SO_OOBINLINE, 0, 1, "urgent bytes in line");
    kept(fd, SOL_SOCKET, SO_BROADCAST, 0, 1, "sending to all");
    kept(fd, SOL_SOCKET, SO_PRIORITY, 0, 3, "priority");
    kept(fd, IPPROTO_IP, IP_TOS, 0, 0x10, "type of service");
    kept(fd, IPPROTO_IP, IP_TTL, 64, 5, "time to live");
    kept(fd, IPPROTO_IP, IP_PKTINFO, 0, 1, "where to");
    kept(fd, IPPROTO_IP, IP_RECVERR, 0, 1, "errors");
    kept(fd, IPPROTO_IP, IP_RECVTTL, 0, 1, "telling time to live");
    kept(fd, IPPROTO_IP, IP_RECVTOS, 0, 1, "telling type of service");
    kept(fd, IPPROTO_IP, IP_MTU_DISCOVER, 1, 2, "looking for the way's size");
    kept(fd, IPPROTO_IP, IP_FREEBIND, 0, 1, "free names");
    kept(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 0, 1, "no port yet");
    kept(six, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 64, 5, "hops");
    kept(six, IPPROTO_IPV6, IPV6_RECVPKTINFO, 0, 1, "where to, of IPv6");
    kept(six, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 0, 1, "telling hops");
    kept(six, IPPROTO_IPV6, IPV6_TCLASS, 0, 8, "class");
    kept(six, IPPROTO_IPV6, IPV6_RECVTCLASS, 0, 1, "telling class");
    kept(six, IPPROTO_IPV6, IPV6_RECVERR, 0, 1, "errors of IPv6");
    kept(six, IPPROTO_IPV6, IPV6_MTU_DISCOVER, 1, 2, "looking, of IPv6");
    kept(six, IPPROTO_IPV6, IPV6_DONTFRAG, 0, 1, "in one piece");
    fails(set(six, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 3), ENOPROTOOPT, "no groups for TCP");
    kept(six, IPPROTO_IP, IP_TOS, 0, 8, "IPv4's of a socket of IPv6");
    equal(set(six, IPPROTO_IPV6, IPV6_UNICAST_HOPS, -1) == 0 &&
              get(six, IPPROTO_IPV6, IPV6_UNICAST_HOPS) == 64,
          1, "hops as at first");
    equal(set(fd, IPPROTO_IP, IP_TTL, -1) == 0 && get(fd, IPPROTO_IP, IP_TTL) == 64, 1,
          "time to live as at first");
    equal(setsockopt(fd, IPPROTO_IP, IP_TTL, "\7", 1) == 0 && get(fd, IPPROTO_IP, IP_TTL) == 7, 1,
          "a byte is enough for IPv4");
    equal(set(fd, IPPROTO_TCP, TCP_NODELAY, 77) == 0 && get(fd, IPPROTO_TCP, TCP_NODELAY) == 1, 1,
          "on is on");
    fails(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, name, 3), EINVAL, "but not for TCP");
    fails(setsockopt(six, IPPROTO_IPV6, IPV6_RECVPKTINFO, name, 3), EINVAL, "or IPv6");
    fails(set(fd, IPPROTO_IP, IP_TTL, 256), EINVAL, "too long to live");
    fails(set(fd, IPPROTO_IP, IP_TTL, 0), EINVAL, "too short");
    fails(set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 0), EINVAL, "no time until a look");
    fails(set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 32768), EINVAL, "too much of it");
    fails(set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 32768), EINVAL, "between looks");
    fails(set(fd, IPPROTO_TCP, TCP_KEEPCNT, 128), EINVAL, "too many looks");
    fails(set(fd, IPPROTO_TCP, TCP_SYNCNT, 0), EINVAL, "no tries");
    fails(set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, -1), EINVAL, "no patience");
    fails(set(fd, IPPROTO_TCP, TCP_MAXSEG, 50), EINVAL, "segments too short");
    fails(set(fd, IPPROTO_IP, IP_MTU_DISCOVER, 6), EINVAL, "a way to look that is not");
    fails(set(fd, IPPROTO_TCP, 999, 1), ENOPROTOOPT, "no option of TCP");
    fails(set(fd, IPPROTO_IP, 999, 1), ENOPROTOOPT, "of IPv4");
    fails(set(six, IPPROTO_IPV6, 999, 1), ENOPROTOOPT, "of IPv6");
    fails(set(fd, SOL_SOCKET, 999, 1), ENOPROTOOPT, "of sockets");
    fails(set(fd, 999, 1, 1), ENOPROTOOPT, "no level");
    fails(set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1), ENOPROTOOPT, "IPv6's of a socket of IPv4");
    equal(get(fd, IPPROTO_TCP, 999), -1000 - ENOPROTOOPT, "none to get either");
    equal(get(fd, IPPROTO_IP, IP_MTU), -1000 - ENOTCONN, "no way, no size");
    equal(get(fd, IPPROTO_TCP, TCP_MAXSEG), 536, "segments of one that is not connected");
    equal(set(fd, IPPROTO_TCP, TCP_MAXSEG, 1000) == 0 && get(fd, IPPROTO_TCP, TCP_MAXSEG) == 1000, 1,
          "as they are set");
    equal(set(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5) == 0 && get(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) == 7, 1,
          "acceptance deferred, in tries");
    equal(get(fd, IPPROTO_TCP, TCP_QUICKACK), 1, "quick answers");
    equal(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5), 0, "a way to avoid congestion");
    socklen_t length = sizeof name;
    equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && strcmp(name, "cubic") == 0 &&
              length == 16,
          1, "is known");
    fails(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "nonesuch", 8), ENOENT, "one that is not");
    struct tcp_info info;
    length = sizeof info;
    equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_state == TCP_CLOSE, 1,
          "closed");
    couple(s);
    length = sizeof info;
    equal(getsockopt(s[0], IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
              info.tcpi_state == TCP_ESTABLISHED && length == sizeof info,
          1, "established");
    check(info.tcpi_snd_mss > 536 && info.tcpi_rto > 0 && info.tcpi_rtt > 0 && info.tcpi_pmtu >= 65535 &&
              info.tcpi_snd_cwnd > 0,
          "and what it is like");
    length = 8;
    equal(getsockopt(s[0], IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && length == 8, 1,
          "as much as there is room for");
    check(get(s[0], IPPROTO_TCP, TCP_MAXSEG) > 30000, "long segments");
    check(get(s[0], IPPROTO_IP, IP_MTU) >= 65535, "a wide way");
    shutdown(s[0], SHUT_WR);
    awaited(s[1], POLLRDHUP);
    length = sizeof info;
    getsockopt(s[0], IPPROTO_TCP, TCP_INFO, &info, &length);
    check(info.tcpi_state == TCP_FIN_WAIT2 || info.tcpi_state == TCP_FIN_WAIT1, "half closed");
    length = sizeof info;
    getsockopt(s[1], IPPROTO_TCP, TCP_INFO, &info, &length);
    equal(info.tcpi_state, TCP_CLOSE_WAIT, "from the other side");
    close(s[0]), close(s[1]);

    /* The options that are passed on. */
    int l = tcp("127.0.0.1");
    struct linger linger = {1, 9};
    set(l, IPPROTO_TCP, TCP_NODELAY, 1), set(l, SOL_SOCKET, SO_KEEPALIVE, 1),
        set(l, IPPROTO_TCP, TCP_KEEPIDLE, 77);
    setsockopt(l, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    bind_to(l, "127.0.0.1", 0), listen(l, 3);
    length = sizeof info;
    getsockopt(l, IPPROTO_TCP, TCP_INFO, &info, &length);
    equal(info.tcpi_state == TCP_LISTEN && info.tcpi_unacked == 0 && info.tcpi_sacked == 3, 1,
          "listening, for so many");
    int c = reached("127.0.0.1", port_of(l)), a = accept(l, 0, 0);
    equal(get(a, IPPROTO_TCP, TCP_NODELAY) == 1 && get(a, SOL_SOCKET, SO_KEEPALIVE) == 1 &&
              get(a, IPPROTO_TCP, TCP_KEEPIDLE) == 77,
          1, "a connection is as its listener");
    memset(&linger, 0, sizeof linger), length = sizeof linger;
    equal(getsockopt(a, SOL_SOCKET, SO_LINGER, &linger, &length) == 0 && linger.l_onoff == 1 &&
              linger.l_linger == 9,
          1, "in its close too");
    equal(get(a, SOL_SOCKET, SO_ACCEPTCONN), 0, "but does not listen");
    close(a), close(c), close(l), close(fd), close(six);
}

static const struct group groups[] = {
    {"connections", connections}, {"addresses", addresses}, {"ports", ports},       {"rests", rests},
    {"endings", endings},         {"breaks", breaks},       {"patience", patience}, {"floods", floods},
    {"crowds", crowds},           {"watches", watches},     {"options", options},
};
#endif
