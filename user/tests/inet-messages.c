/* Checks UDP, ICMP echo, groups and the loopback interface as Linux has them; passes on Linux (as root, in a
 * network of its own, with `lo` up) and must pass here.
 *
 * Interface: inet-messages [GROUP...] runs all groups, or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "inet.h"
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

static int udp(const char *host) { return socket(family(host), SOCK_DGRAM, 0); }

static int bound(const char *host, int port)
{
    int fd = udp(host);
    return bind_to(fd, host, port) ? -1 : fd;
}

static ssize_t send_to(int fd, const char *host, int port, const void *bytes, size_t length)
{
    struct end e = end_of(host, port);
    return sendto(fd, bytes, length, 0, (void *)&e.a, e.length);
}

/* Receives and says from whom. */
static ssize_t receive(int fd, void *bytes, size_t length, const char **from)
{
    struct sockaddr_storage a = {0};
    socklen_t size = sizeof a;
    struct pollfd p = {fd, POLLIN, 0};
    poll(&p, 1, 2000);
    ssize_t got = recvfrom(fd, bytes, length, MSG_DONTWAIT, (void *)&a, &size);
    if (from)
        *from = got < 0 ? "" : text_of(&a);
    return got;
}

static void disconnect(int fd)
{
    struct sockaddr a = {.sa_family = AF_UNSPEC};
    equal(connect(fd, &a, sizeof a), 0, "hears all again");
}

/* --- messages --- */

static void messages_of(const char *host, const char *any)
{
    char bytes[64] = {0};
    const char *from;
    int a = udp(host), b = bound(host, 0), port = port_of(b);
    equal(get(a, SOL_SOCKET, SO_TYPE), SOCK_DGRAM, "a kind");
    equal(get(a, SOL_SOCKET, SO_PROTOCOL), IPPROTO_UDP, "a protocol");
    same(own_name(a), text(any, 0), "no name");
    equal(polled(a), POLLOUT, "as poll sees it");
    fails(listen(a, 1), EOPNOTSUPP, "nobody connects");
    fails(accept(a, 0, 0), EOPNOTSUPP, "or is accepted");
    fails(send(a, "x", 1, 0), EDESTADDRREQ, "to nobody");
    fails(write(a, "x", 1), EDESTADDRREQ, "nor by write");
    equal(send_to(a, host, port, "hello", 5), 5, "a message");
    check(port_of(a) >= 32768 && port_of(a) <= 60999, "gives a port");
    same(own_name(a), text(any, port_of(a)), "at any address");
    equal(awaited(b, POLLIN), POLLIN | POLLOUT, "it came");
    int left = -1;
    equal(ioctl(b, FIONREAD, &left) == 0 && left == 5, 1, "so long");
    equal(receive(b, bytes, 64, &from) == 5 && memcmp(bytes, "hello", 5) == 0, 1, "and whole");
    same(from, text(host[0] == ':' ? "::1" : "127.0.0.1", port_of(a)), "from its sender");
    fails(recv(b, bytes, 64, MSG_DONTWAIT), EAGAIN, "alone");
    equal(send_to(a, host, port, "", 0), 0, "one of nothing");
    equal(awaited(b, POLLIN), POLLIN | POLLOUT, "comes too");
    equal(receive(b, bytes, 64, 0), 0, "as nothing");
    send_to(a, host, port, "first", 5), send_to(a, host, port, "second", 6);
    equal(receive(b, bytes, 2, 0), 2, "cut");
    equal(receive(b, bytes, 64, 0) == 6 && memcmp(bytes, "second", 6) == 0, 1, "and the rest gone");
    send_to(a, host, port, "long one", 8);
    awaited(b, POLLIN);
    equal(recv(b, bytes, 2, MSG_PEEK | MSG_TRUNC), 8, "its whole length");
    struct iovec piece = {bytes, 3};
    struct msghdr h = {.msg_iov = &piece, .msg_iovlen = 1};
    equal(recvmsg(b, &h, 0) == 3 && h.msg_flags == MSG_TRUNC, 1, "said to be cut");
    if (host[0] != ':')
        fails(send(a, "x", 1, MSG_OOB), EOPNOTSUPP, "nothing urgent");
    fails(send_to(a, host, 0, "x", 1), EINVAL, "to no port");
    fails(send_to(a, host, port, (void *)8, 4), EFAULT, "from nowhere");
    static char large[65536];
    fails(send_to(a, host, port, large, 65536), EMSGSIZE, "too long");
    int most = host[0] == ':' ? 65527 : 65507;
    equal(send_to(a, host, port, large, most), most, "as long as may be");
    equal(receive(b, large, sizeof large, 0), most, "comes whole");
    fails(send_to(a, host, port, large, most + 1), EMSGSIZE, "and no longer");
    equal(send_to(a, host, 1, "x", 1), 1, "to a port that nobody has");
    equal(get(a, SOL_SOCKET, SO_ERROR), 0, "which nobody is told");
    fails(shutdown(a, SHUT_RDWR), ENOTCONN, "nothing to shut");
    close(a);

    a = udp(host);
    equal(connect_to(a, host, port), 0, "a peer");
    same(peer_name(a), text(host, port), "is known");
    same(own_name(a), text(host[0] == ':' ? "::1" : "127.0.0.1", port_of(a)), "and gives a name");
    equal(write(a, "by write", 8), 8, "sends without a name");
    equal(receive(b, bytes, 64, &from), 8, "it comes");
    same(from, own_name(a), "from there");
    struct end e = end_of(host, port_of(a));
    equal(sendto(b, "back", 4, 0, (void *)&e.a, e.length) == 4 && read(a, bytes, 64) == 4, 1, "and back");
    int c = bound(host, 0);
    equal(send_to(c, host, port_of(a), "stranger", 8), 8, "a stranger's message");
    sendto(b, "known", 5, 0, (void *)&e.a, e.length);
    equal(receive(a, bytes, 64, 0) == 5 && memcmp(bytes, "known", 5) == 0, 1, "is not heard");
    fails(recv(a, bytes, 64, MSG_DONTWAIT), EAGAIN, "at all");
    equal(send_to(a, host, port_of(c), "elsewhere", 9) == 9 && receive(c, bytes, 64, 0) == 9, 1,
          "but may be sent to");
    equal(connect_to(a, host, port_of(c)), 0, "another peer");
    send_to(c, host, port_of(a), "now", 3);
    equal(receive(a, bytes, 64, 0), 3, "who is heard");
    disconnect(a);
    fails(getpeername(a, (void *)bytes, &(socklen_t){16}), ENOTCONN, "no peer");
    same(own_name(a), text(any, 0), "no name that was chosen");
    fails(write(a, "x", 1), EDESTADDRREQ, "nobody to send to");
    close(a);
    a = bound(any, 0);
    int at = port_of(a);
    close(a), a = bound(any, at);
    connect_to(a, host, port);
    same(own_name(a), text(host[0] == ':' ? "::1" : "127.0.0.1", at), "the address of who has any is known");
    disconnect(a);
    same(own_name(a), text(any, at), "and any again");
    send_to(c, host, at, "all", 3);
    equal(receive(a, bytes, 64, 0), 3, "all are heard again");
    close(a), close(c);

    /* Nobody there. */
    c = bound(host, 0), at = port_of(c), close(c);
    a = udp(host);
    connect_to(a, host, at);
    equal(write(a, "x", 1), 1, "a message to a peer that is not there");
    equal(awaited(a, POLLERR) & POLLERR, POLLERR, "is told");
    fails(write(a, "x", 1), ECONNREFUSED, "by the next");
    equal(write(a, "x", 1), 1, "and the one after is sent");
    awaited(a, POLLERR);
    fails(recv(a, bytes, 64, MSG_DONTWAIT), ECONNREFUSED, "or by what is to be received");
    write(a, "x", 1);
    awaited(a, POLLERR);
    equal(get(a, SOL_SOCKET, SO_ERROR), ECONNREFUSED, "or an option");
    equal(shutdown(a, SHUT_WR), 0, "says no more");
    signal(SIGPIPE, SIG_IGN);
    fails(write(a, "x", 1), EPIPE, "and nothing is sent");
    shutdown(a, SHUT_RD);
    equal(polled(a), POLLIN | POLLOUT | POLLRDHUP | POLLHUP, "as poll sees it");
    equal(read(a, bytes, 1), 0, "nor received");
    close(a), close(b);
}

static void messages(void)
{
    messages_of("127.0.0.1", "0.0.0.0");
    messages_of("::1", "::");
}

/* --- who gets it --- */

static void names(void)
{
    char bytes[64];
    const char *from;
    int any = bound("0.0.0.0", 0), port = port_of(any), s = udp("0.0.0.0");
    int two;
    fails(bind_to(two = udp("0.0.0.0"), "127.0.0.2", port), EADDRINUSE, "a port that is taken");
    set(any, SOL_SOCKET, SO_REUSEADDR, 1), set(two, SOL_SOCKET, SO_REUSEADDR, 1);
    equal(bind_to(two, "127.0.0.2", port), 0, "but shared");
    send_to(s, "127.0.0.2", port, "near", 4), send_to(s, "127.0.0.3", port, "any", 3);
    equal(receive(two, bytes, 64, 0), 4, "who has the address is nearer");
    equal(receive(any, bytes, 64, 0), 3, "than who has any");
    int peer = udp("0.0.0.0"), sender = bound("127.0.0.1", 0);
    set(peer, SOL_SOCKET, SO_REUSEADDR, 1);
    bind_to(peer, "0.0.0.0", port);
    connect_to(peer, "127.0.0.1", port_of(sender));
    send_to(sender, "127.0.0.1", port, "mine", 4);
    equal(receive(peer, bytes, 64, 0), 4, "and who has the peer");
    close(peer), close(two), close(any);

    int six = bound("::", 0);
    port = port_of(six);
    send_to(s, "127.0.0.1", port, "four", 4);
    equal(receive(six, bytes, 64, &from), 4, "IPv6 hears IPv4");
    same(from, text("::ffff:127.0.0.1", port_of(s)), "by a mapped name");
    equal(send_to(six, "::ffff:127.0.0.1", port_of(s), "back", 4), 4, "and answers");
    equal(receive(s, bytes, 64, &from), 4, "to it");
    same(from, text("127.0.0.1", port), "which knows nothing of that");
    equal(send_to(six, "127.0.0.1", port_of(s), "four", 4), 4, "an address of IPv4 will do");
    equal(receive(s, bytes, 64, 0), 4, "for IPv6");
    close(six);
    six = udp("::");
    set(six, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    bind_to(six, "::", 0);
    fails(send_to(six, "::ffff:127.0.0.1", 9, "x", 1), ENETUNREACH, "but not for IPv6 alone");
    close(six);
    fails(send_to(s, "10.1.2.3", 9, "x", 1), ENETUNREACH, "a host that cannot be reached");
    fails(send_to(s, "::1", 9, "x", 1), EAFNOSUPPORT, "of another family");
    fails(bind_to(udp("0.0.0.0"), "10.1.2.3", 0), EADDRNOTAVAIL, "not ours");
    fails(connect_to(s, "10.1.2.3", 9), ENETUNREACH, "nor as a peer");
    fails(send_to(s, "127.255.255.255", 9, "x", 1), EACCES, "to all, without saying so");
    set(s, SOL_SOCKET, SO_BROADCAST, 1);
    equal(send_to(s, "127.255.255.255", 9, "x", 1), 1, "and with");

    /* Shared by several. */
    int many[3], got[3] = {0};
    for (int i = 0; i < 3; i++) {
        many[i] = udp("127.0.0.1");
        set(many[i], SOL_SOCKET, SO_REUSEPORT, 1);
        equal(bind_to(many[i], "127.0.0.1", i ? port : 0), 0, "a port of several");
        port = port_of(many[0]);
    }
    for (int i = 0; i < 60; i++) {
        int fd = bound("127.0.0.1", 0);
        send_to(fd, "127.0.0.1", port, "x", 1);
        struct pollfd p[3] = {{many[0], POLLIN, 0}, {many[1], POLLIN, 0}, {many[2], POLLIN, 0}};
        poll(p, 3, 2000);
        for (int j = 0; j < 3; j++)
            if (p[j].revents)
                got[j] += recv(many[j], bytes, 64, MSG_DONTWAIT) == 1;
        close(fd);
    }
    equal(got[0] + got[1] + got[2], 60, "each message to one of them");
    check(got[0] && got[1] && got[2], "some to each");
    for (int i = 0; i < 3; i++)
        close(many[i]);
    close(s), close(sender);
}

/* --- a full inbox --- */

static void full(void)
{
    char bytes[1024] = {0};
    int a = udp("127.0.0.1"), b = bound("127.0.0.1", 0), port = port_of(b), got = 0;
    set(b, SOL_SOCKET, SO_RCVBUF, 4096);
    for (int i = 0; i < 200; i++) {
        bytes[0] = i;
        if (send_to(a, "127.0.0.1", port, bytes, sizeof bytes) != sizeof bytes)
            got = -1000;
    }
    equal(polled(a) & POLLOUT, POLLOUT, "who sends never waits");
    int first = -1;
    while (recv(b, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        first = first < 0 ? bytes[0] : first, got++;
    check(got > 0 && got < 20, "what finds no room is gone");
    equal(first, 0, "the first ones stay");
    send_to(a, "127.0.0.1", port, "again", 5);
    equal(receive(b, bytes, sizeof bytes, 0), 5, "then there is room again");
    close(a), close(b);
}

/* --- beside the bytes --- */

static int told(struct msghdr *h, int level, int kind, void *data, size_t length)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
        if (c->cmsg_level == level && c->cmsg_type == kind) {
            memcpy(data, CMSG_DATA(c), length);
            return c->cmsg_len == CMSG_LEN(length);
        }
    return 0;
}

static void tellings(void)
{
    char bytes[64], control[512];
    int a = udp("127.0.0.1"), b = bound("0.0.0.0", 0), port = port_of(b), number = 0;
    unsigned char byte = 0;
    struct iovec piece = {bytes, 64};
    struct msghdr h = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    set(b, IPPROTO_IP, IP_PKTINFO, 1), set(b, IPPROTO_IP, IP_RECVTTL, 1), set(b, IPPROTO_IP, IP_RECVTOS, 1);
    set(b, SOL_SOCKET, SO_TIMESTAMP, 1), set(b, IPPROTO_IP, IP_RECVORIGDSTADDR, 1);
    set(a, IPPROTO_IP, IP_TTL, 33), set(a, IPPROTO_IP, IP_TOS, 0x20);
    time_t before = time(0);
    send_to(a, "127.0.0.9", port, "x", 1);
    awaited(b, POLLIN);
    equal(recvmsg(b, &h, 0), 1, "a message with all that");
    struct in_pktinfo info = {0};
    equal(told(&h, IPPROTO_IP, IP_PKTINFO, &info, sizeof info), 1, "where to");
    equal(info.ipi_ifindex == 1 && info.ipi_addr.s_addr == inet_addr("127.0.0.9"), 1, "by which interface");
    equal(told(&h, IPPROTO_IP, IP_TTL, &number, 4) && number == 33, 1, "time to live");
    equal(told(&h, IPPROTO_IP, IP_TOS, &byte, 1) && byte == 0x20, 1, "type of service");
    struct sockaddr_in where = {0};
    equal(told(&h, IPPROTO_IP, IP_RECVORIGDSTADDR, &where, sizeof where) && ntohs(where.sin_port) == port, 1,
          "and port");
    struct timeval when = {0};
    equal(told(&h, SOL_SOCKET, SO_TIMESTAMP, &when, sizeof when) && when.tv_sec >= before &&
              when.tv_sec <= time(0),
          1, "and when");
    h.msg_controllen = 8;
    send_to(a, "127.0.0.9", port, "x", 1);
    awaited(b, POLLIN);
    equal(recvmsg(b, &h, 0) == 1 && (h.msg_flags & MSG_CTRUNC), 1, "no room for that");
    close(a), close(b);
    a = udp("::1"), b = bound("::1", 0), port = port_of(b);
    set(b, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1), set(b, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1),
        set(b, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set(a, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 7), set(a, IPPROTO_IPV6, IPV6_TCLASS, 4);
    send_to(a, "::1", port, "x", 1);
    awaited(b, POLLIN);
    h.msg_controllen = sizeof control;
    equal(recvmsg(b, &h, 0), 1, "one of IPv6");
    struct in6_pktinfo info6 = {0};
    equal(told(&h, IPPROTO_IPV6, IPV6_PKTINFO, &info6, sizeof info6) && info6.ipi6_ifindex == 1 &&
              IN6_IS_ADDR_LOOPBACK(&info6.ipi6_addr),
          1, "where to");
    equal(told(&h, IPPROTO_IPV6, IPV6_HOPLIMIT, &number, 4) && number == 7, 1, "hops");
    equal(told(&h, IPPROTO_IPV6, IPV6_TCLASS, &number, 4) && number == 4, 1, "class");
    close(a), close(b);

    /* Several at once. */
    a = udp("127.0.0.1"), b = bound("127.0.0.1", 0);
    connect_to(a, "127.0.0.1", port_of(b));
    struct mmsghdr many[4] = {0};
    struct iovec pieces[4];
    char texts[4][8];
    for (int i = 0; i < 4; i++) {
        pieces[i] = (struct iovec){texts[i], (size_t)i + 1};
        many[i].msg_hdr.msg_iov = &pieces[i], many[i].msg_hdr.msg_iovlen = 1;
    }
    equal(sendmmsg(a, many, 4, 0), 4, "four at once");
    awaited(b, POLLIN);
    equal(recvmmsg(b, many, 4, MSG_WAITFORONE, 0), 4, "are received at once");
    equal(many[0].msg_len + many[1].msg_len + many[2].msg_len + many[3].msg_len, 10, "each as it was");
    close(a), close(b);
}

/* --- waiting --- */

static void *send_later(void *to)
{
    struct timespec t = {0, 20000000};
    int fd = udp("127.0.0.1");
    nanosleep(&t, 0);
    send_to(fd, "127.0.0.1", *(int *)to, "late", 4);
    close(fd);
    return 0;
}

static void *shut_later(void *fd)
{
    struct timespec t = {0, 20000000};
    nanosleep(&t, 0);
    shutdown(*(int *)fd, SHUT_RDWR);
    return 0;
}

static void waits(void)
{
    char bytes[64];
    int b = bound("127.0.0.1", 0), port = port_of(b);
    pthread_t thread;
    pthread_create(&thread, 0, send_later, &port);
    equal(recv(b, bytes, 64, 0), 4, "a message that is waited for");
    pthread_join(thread, 0);
    struct timeval soon = {0, 20000};
    setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    fails(recv(b, bytes, 64, 0), EAGAIN, "for a time");
    int e = epoll_create1(0), a = udp("127.0.0.1");
    struct epoll_event ev = {EPOLLIN | EPOLLET, {.u32 = 5}}, got[2];
    epoll_ctl(e, EPOLL_CTL_ADD, b, &ev);
    equal(epoll_wait(e, got, 2, 0), 0, "nothing");
    send_to(a, "127.0.0.1", port, "x", 1);
    equal(epoll_wait(e, got, 2, 2000) == 1 && got[0].data.u32 == 5, 1, "something");
    equal(epoll_wait(e, got, 2, 0), 0, "said once");
    send_to(a, "127.0.0.1", port, "y", 1);
    equal(epoll_wait(e, got, 2, 2000), 1, "and again");
    close(e), close(a);
    soon.tv_usec = 0;
    setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    recv(b, bytes, 64, 0), recv(b, bytes, 64, 0);
    pthread_create(&thread, 0, shut_later, &b);
    equal(recv(b, bytes, 64, 0), 0, "who waits is woken by a shutdown, though that is refused");
    pthread_join(thread, 0);
    close(b);
}

/* Of two at one port the one that hears a sender alone gets what that sends. */
static void nearer(void)
{
    char bytes[64];
    int sender = bound("127.0.0.1", 0), a = udp("127.0.0.1"), b = udp("127.0.0.1");
    set(a, SOL_SOCKET, SO_REUSEADDR, 1), set(b, SOL_SOCKET, SO_REUSEADDR, 1);
    bind_to(a, "127.0.0.1", 0);
    int port = port_of(a);
    equal(bind_to(b, "127.0.0.1", port), 0, "two at one port");
    for (int i = 0; i < 2; i++) {
        int chosen = i ? b : a, other = i ? a : b;
        connect_to(chosen, "127.0.0.1", port_of(sender));
        equal(send_to(sender, "127.0.0.1", port, "x", 1), 1, "to both");
        equal(receive(chosen, bytes, 64, 0), 1, "who has chosen the sender gets it");
        fails(recv(other, bytes, 64, MSG_DONTWAIT), EAGAIN, "and not the other");
        disconnect(chosen);
    }
    close(sender), close(a), close(b);
}

/* --- groups --- */

static void groups_of_hosts(void)
{
    char bytes[64];
    int a = udp("0.0.0.0"), b = bound("0.0.0.0", 0), port = port_of(b);
    struct ip_mreq join = {.imr_multiaddr.s_addr = inet_addr("239.1.2.3"),
                           .imr_interface.s_addr = inet_addr("127.0.0.1")};
    fails(send_to(a, "239.1.2.3", port, "x", 1), ENETUNREACH, "no way to a group");
    equal(setsockopt(b, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join), 0, "joins a group");
    fails(setsockopt(b, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join), EADDRINUSE, "once");
    equal(setsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &join.imr_interface, 4), 0, "sends by an interface");
    struct in_addr by = {0};
    socklen_t length = sizeof by;
    equal(getsockopt(a, IPPROTO_IP, IP_MULTICAST_IF, &by, &length) == 0 &&
              by.s_addr == inet_addr("127.0.0.1"),
          1, "which is kept");
    equal(send_to(a, "239.1.2.3", port, "group", 5), 5, "to the group");
    const char *from;
    equal(receive(b, bytes, 64, &from), 5, "which hears it");
    same(from, text("127.0.0.1", port_of(a)), "from this host");
    int c = udp("0.0.0.0");
    set(c, SOL_SOCKET, SO_REUSEPORT, 1), set(b, SOL_SOCKET, SO_REUSEPORT, 1);
    set(c, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    equal(bind_to(c, "0.0.0.0", port), 0, "another at the same port");
    equal(send_to(a, "239.1.2.3", port, "more", 4), 4, "to the group again");
    equal(receive(b, bytes, 64, 0), 4, "who has joined hears it");
    fails(recv(c, bytes, 64, MSG_DONTWAIT), EAGAIN, "who has not, and does not hear all, does not");
    close(c);
    equal(send_to(a, "239.9.9.9", port, "other", 5), 5, "to a group that nobody has joined");
    fails(recv(b, bytes, 64, MSG_DONTWAIT), EAGAIN, "nobody hears");
    equal(setsockopt(b, IPPROTO_IP, IP_DROP_MEMBERSHIP, &join, sizeof join), 0, "leaves it");
    fails(setsockopt(b, IPPROTO_IP, IP_DROP_MEMBERSHIP, &join, sizeof join), EADDRNOTAVAIL, "once");
    equal(send_to(a, "239.1.2.3", port, "group", 5), 5, "to the group");
    fails(recv(b, bytes, 64, MSG_DONTWAIT), EAGAIN, "which has gone");
    join.imr_multiaddr.s_addr = inet_addr("127.0.0.1");
    fails(setsockopt(b, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join), EINVAL, "no group");
    join.imr_multiaddr.s_addr = inet_addr("239.1.2.3"), join.imr_interface.s_addr = inet_addr("10.1.2.3");
    fails(setsockopt(b, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join), ENODEV, "no interface");
    struct ipv6_mreq join6 = {.ipv6mr_interface = 77};
    inet_pton(AF_INET6, "ff02::1:2", &join6.ipv6mr_multiaddr);
    int six = bound("::", 0), index = 1;
    fails(setsockopt(six, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &join6, sizeof join6), ENODEV,
          "nor one of IPv6");
    join6.ipv6mr_interface = 1;
    equal(setsockopt(six, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &join6, sizeof join6), 0, "a group of IPv6");
    equal(setsockopt(six, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof index), 0,
          "and by which interface");
    fails(send_to(six, "ff02::1:2", port_of(six), "six", 3), ENETUNREACH, "to which no way leads");
    close(a), close(b), close(six);
}

/* --- questions --- */

static unsigned short sum(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    unsigned long total = 0;
    for (size_t i = 0; i < length; i++)
        total += i & 1 ? at[i] : at[i] << 8;
    while (total >> 16)
        total = (total & 0xffff) + (total >> 16);
    return htons(~total);
}

static void questions(void)
{
    char bytes[256] = {0};
    struct icmphdr *icmp = (void *)bytes;
    const char *from;
    FILE *range = fopen("/proc/sys/net/ipv4/ping_group_range", "w");
    if (range)
        fputs("0 2147483647", range), fclose(range);
    int fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
    check(fd >= 0, "a socket to ask by");
    equal(get(fd, SOL_SOCKET, SO_PROTOCOL), IPPROTO_ICMP, "its protocol");
    icmp->type = ICMP_ECHO, icmp->un.echo.sequence = htons(7), icmp->un.echo.id = 0x1234;
    memcpy(bytes + 8, "are you there", 13);
    equal(send_to(fd, "127.0.0.1", 0, bytes, 21), 21, "a question");
    int id = port_of(fd);
    check(id != 0, "has a number");
    memset(bytes, 0, sizeof bytes);
    equal(receive(fd, bytes, sizeof bytes, &from), 21, "an answer");
    same(from, text("127.0.0.1", 0), "from whom was asked");
    equal(icmp->type == ICMP_ECHOREPLY && ntohs(icmp->un.echo.id) == id &&
              icmp->un.echo.sequence == htons(7) && memcmp(bytes + 8, "are you there", 13) == 0,
          1, "to the question");
    equal(sum(bytes, 21), 0, "with its sum");
    fails(send_to(fd, "127.0.0.1", 0, bytes, 21), EINVAL, "an answer is no question");
    fails(send_to(fd, "127.0.0.1", 0, bytes, 7), EINVAL, "nor is half of one");
    connect_to(fd, "127.0.0.1", 0);
    icmp->type = ICMP_ECHO;
    equal(write(fd, bytes, 21) == 21 && receive(fd, bytes, sizeof bytes, 0) == 21, 1, "a peer is asked");
    close(fd);
    fd = socket(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6);
    check(fd >= 0, "one of IPv6");
    memset(bytes, 0, sizeof bytes);
    bytes[0] = (char)ICMP6_ECHO_REQUEST, bytes[7] = 3;
    equal(send_to(fd, "::1", 0, bytes, 40), 40, "asks");
    equal(receive(fd, bytes, sizeof bytes, &from) == 40 && (unsigned char)bytes[0] == ICMP6_ECHO_REPLY &&
              bytes[7] == 3,
          1, "and is answered");
    close(fd);

    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    check(raw >= 0, "a raw socket");
    equal(get(raw, SOL_SOCKET, SO_TYPE), SOCK_RAW, "its kind");
    memset(bytes, 0, sizeof bytes);
    icmp->type = ICMP_ECHO, icmp->un.echo.id = htons(99);
    icmp->checksum = sum(bytes, 16);
    equal(send_to(raw, "127.0.0.1", 0, bytes, 16), 16, "asks");
    struct iphdr *ip = (void *)bytes;
    equal(receive(raw, bytes, sizeof bytes, &from), 36, "hears its own question");
    equal(bytes[20] == ICMP_ECHO && ip->version == 4 && ip->protocol == IPPROTO_ICMP && ip->ihl == 5 &&
              ip->saddr == inet_addr("127.0.0.1"),
          1, "with a header");
    equal(receive(raw, bytes, sizeof bytes, &from) == 36 && bytes[20] == ICMP_ECHOREPLY, 1, "and the answer");
    equal(sum(bytes, 20) == 0 && sum(bytes + 20, 16) == 0, 1, "with their sums");
    unsigned filter = ~(1u << ICMP_ECHOREPLY);
    equal(setsockopt(raw, SOL_RAW, 1, &filter, sizeof filter), 0, "hears answers alone");
    memset(bytes, 0, sizeof bytes);
    icmp->type = ICMP_ECHO, icmp->checksum = sum(bytes, 16);
    send_to(raw, "127.0.0.1", 0, bytes, 16);
    equal(receive(raw, bytes, sizeof bytes, 0) == 36 && bytes[20] == ICMP_ECHOREPLY, 1, "from now on");
    memset(bytes, 0, sizeof bytes);
    icmp->type = ICMP_ECHO, icmp->checksum = 77;
    send_to(raw, "127.0.0.1", 0, bytes, 16);
    fails(recv(raw, bytes, sizeof bytes, MSG_DONTWAIT), EAGAIN, "a wrong sum is not answered");
    close(raw);
    fails(socket(AF_INET, SOCK_RAW, 0), EPROTONOSUPPORT, "raw, of no protocol");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setresgid(1000, 1000, 1000), setresuid(1000, 1000, 1000);
        _exit(!(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP) == -1 && errno == EPERM &&
                socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6) == -1 && errno == EPERM));
    }
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "raw sockets are not for everybody");
}

/* --- the interface --- */

static void interfaces(void)
{
    struct ifreq r, all[4];
    int fd = udp("127.0.0.1"), local = socket(AF_UNIX, SOCK_STREAM, 0);
    memset(&r, 0, sizeof r);
    strcpy(r.ifr_name, "lo");
    equal(ioctl(fd, SIOCGIFFLAGS, &r) == 0 &&
              (r.ifr_flags & (IFF_UP | IFF_LOOPBACK | IFF_RUNNING)) == (IFF_UP | IFF_LOOPBACK | IFF_RUNNING),
          1, "it is up");
    equal(ioctl(fd, SIOCGIFADDR, &r) == 0 &&
              ((struct sockaddr_in *)&r.ifr_addr)->sin_addr.s_addr == inet_addr("127.0.0.1"),
          1, "its address");
    equal(ioctl(fd, SIOCGIFNETMASK, &r) == 0 &&
              ((struct sockaddr_in *)&r.ifr_addr)->sin_addr.s_addr == inet_addr("255.0.0.0"),
          1, "its net");
    equal(ioctl(fd, SIOCGIFINDEX, &r) == 0 && r.ifr_ifindex == 1, 1, "its number");
    equal(ioctl(fd, SIOCGIFMTU, &r) == 0 && r.ifr_mtu == 65536, 1, "what goes through");
    equal(ioctl(fd, SIOCGIFHWADDR, &r) == 0 && r.ifr_hwaddr.sa_family == 772, 1, "its hardware");
    equal(ioctl(local, SIOCGIFFLAGS, &r), 0, "asked by a socket of another family");
    memset(&r, 0, sizeof r);
    r.ifr_ifindex = 1;
    equal(ioctl(fd, SIOCGIFNAME, &r) == 0 && strcmp(r.ifr_name, "lo") == 0, 1, "its name");
    r.ifr_ifindex = 99;
    fails(ioctl(fd, SIOCGIFNAME, &r), ENODEV, "no other");
    strcpy(r.ifr_name, "eth9");
    fails(ioctl(fd, SIOCGIFFLAGS, &r), ENODEV, "by name either");
    fails(ioctl(fd, SIOCGIFFLAGS, 8), EFAULT, "nowhere");
    fails(ioctl(fd, 0x12345678, &r), ENOTTY, "no operation");
    struct ifconf c = {.ifc_len = sizeof all};
    c.ifc_req = all;
    equal(ioctl(fd, SIOCGIFCONF, &c) == 0 && c.ifc_len == sizeof *all && strcmp(all[0].ifr_name, "lo") == 0,
          1, "all there are");
    c.ifc_req = 0;
    equal(ioctl(fd, SIOCGIFCONF, &c) == 0 && c.ifc_len == sizeof *all, 1, "and how many");
    equal(if_nametoindex("lo"), 1, "as the library sees it");
    equal(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3), 0, "only by it");
    char name[16] = {0};
    socklen_t length = sizeof name;
    equal(getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, &length) == 0 && strcmp(name, "lo") == 0 &&
              length == 3,
          1, "as is kept");
    fails(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "eth9", 5), ENODEV, "not by another");
    equal(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "", 1), 0, "by all");
    close(fd), close(local);
}

static const struct group groups[] = {
    {"messages", messages},      {"names", names},         {"full", full},
    {"tellings", tellings},      {"waits", waits},         {"nearer", nearer},
    {"groups", groups_of_hosts}, {"questions", questions}, {"interfaces", interfaces},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
