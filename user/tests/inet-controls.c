/* Checks what a program says of one message by control messages, as Linux has it: where from, through how
 * many hosts, of which class; passes on Linux (as root, in a network of its own, with `lo` up) and must pass
 * here.
 *
 * Interface: inet-controls [GROUP...] runs all groups, or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "inet.h"
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <sys/uio.h>

static int bound(const char *host)
{
    int fd = socket(family(host), SOCK_DGRAM, 0);
    return bind_to(fd, host, 0) ? -1 : fd;
}

/* Control messages that are being written. */
static union {
    struct cmsghdr head;
    char bytes[512];
} control;
static size_t used;

static void say(int level, int kind, const void *data, size_t length)
{
    struct cmsghdr *c = (void *)(control.bytes + used);
    c->cmsg_level = level, c->cmsg_type = kind, c->cmsg_len = CMSG_LEN(length);
    memcpy(CMSG_DATA(c), data, length);
    used += CMSG_SPACE(length);
}

static void say_number(int level, int kind, int number) { say(level, kind, &number, sizeof number); }

/* A byte does, but for a raw message. */
static size_t length = 1;

/* Sends bytes to `port` of `host` (to the peer, if none) with what was said, which is forgotten. */
static ssize_t put(int fd, const char *host, int port)
{
    struct end e = end_of(host ? host : "::", port);
    struct iovec piece = {"\377\0\0\0\0\0\0\0", length};
    struct msghdr h = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = used};
    if (host)
        h.msg_name = &e.a, h.msg_namelen = e.length;
    used = 0;
    return sendmsg(fd, &h, 0);
}

/* The same with one number. */
static ssize_t with(int fd, const char *host, int port, int level, int kind, int number)
{
    say_number(level, kind, number);
    return put(fd, host, port);
}

/* The values that came with a message, and its sender. */
static int hops, class, classes;
static char from[64];

static void take(int fd)
{
    char byte, room[256];
    struct sockaddr_storage a = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr h = {.msg_name = &a,
                       .msg_namelen = sizeof a,
                       .msg_iov = &piece,
                       .msg_iovlen = 1,
                       .msg_control = room,
                       .msg_controllen = sizeof room};
    awaited(fd, POLLIN);
    hops = class = classes = -1;
    strcpy(from, "nobody");
    if (recvmsg(fd, &h, MSG_DONTWAIT) < 0)
        return;
    strcpy(from, text_of(&a));
    *strchr(from, ' ') = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL)
            memcpy(&hops, CMSG_DATA(c), 4);
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
            class = *CMSG_DATA(c);
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)
            memcpy(&hops, CMSG_DATA(c), 4);
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)
            memcpy(&classes, CMSG_DATA(c), 4);
    }
}

static void four(void)
{
    int a = bound("127.0.0.1"), b = bound("0.0.0.0"), port = port_of(b);
    set(b, IPPROTO_IP, IP_RECVTTL, 1), set(b, IPPROTO_IP, IP_RECVTOS, 1);
    equal(with(a, "127.0.0.1", port, IPPROTO_IP, IP_TTL, 9), 1, "one with little time to live");
    take(b), equal(hops, 9, "has so much");
    put(a, "127.0.0.1", port), take(b), equal(hops, 64, "the next has what others have");
    equal(with(a, "127.0.0.1", port, IPPROTO_IP, IP_TOS, 0x28), 1, "a type of service");
    take(b), equal(class, 0x28, "is told");
    unsigned char byte = 0x10;
    say(IPPROTO_IP, IP_TOS, &byte, 1);
    equal(put(a, "127.0.0.1", port), 1, "as a byte");
    take(b), equal(class, 0x10, "too");
    say_number(IPPROTO_IP, IP_TTL, 3), say_number(IPPROTO_IP, IP_TOS, 8), say_number(IPPROTO_IP, IP_TTL, 5);
    put(a, "127.0.0.1", port), take(b), equal(hops == 5 && class == 8, 1, "both, the last one counts");
    fails(with(a, "127.0.0.1", port, IPPROTO_IP, IP_TTL, 0), EINVAL, "no time to live");
    fails(with(a, "127.0.0.1", port, IPPROTO_IP, IP_TTL, 256), EINVAL, "too much of it");
    fails(with(a, "127.0.0.1", port, IPPROTO_IP, IP_TTL, -1), EINVAL, "less than none");
    say(IPPROTO_IP, IP_TTL, &byte, 1);
    fails(put(a, "127.0.0.1", port), EINVAL, "as a byte");
    fails(with(a, "127.0.0.1", port, IPPROTO_IP, IP_TOS, 256), EINVAL, "no such service");
    fails(with(a, "127.0.0.1", port, IPPROTO_IP, IP_RECVTTL, 1), EINVAL, "nothing that a message has");
    fails(with(a, "127.0.0.1", port, SOL_SOCKET, SO_TYPE, 1), EINVAL, "nor that");
    equal(with(a, "127.0.0.1", port, IPPROTO_TCP, 99, 1), 1, "what other layers mean is theirs");
    equal(with(a, "127.0.0.1", port, IPPROTO_IPV6, IPV6_HOPLIMIT, 99), 1, "as is what the other IP does");
    equal(with(a, "127.0.0.1", port, SOL_SOCKET, SCM_RIGHTS, 12345), 1, "descriptors go nowhere");
    for (int i = 0; i < 3; i++)
        take(b);
    used = 12, equal(put(a, "127.0.0.1", port), 1, "half a header is nothing"), take(b);
    control.head.cmsg_len = 4, used = 24;
    fails(put(a, "127.0.0.1", port), EINVAL, "shorter than its header");
    control.head.cmsg_len = 400, used = 24;
    fails(put(a, "127.0.0.1", port), EINVAL, "longer than all");
    fails(with(a, "127.0.0.1", 0, IPPROTO_IP, IP_TTL, 0), EINVAL, "the port comes first");
    fails(with(a, 0, 0, IPPROTO_IP, IP_TTL, 0), EDESTADDRREQ, "and that there is one");
    close(a), close(b);

    /* Between two that are connected. */
    a = bound("127.0.0.1"), b = bound("127.0.0.1");
    connect_to(a, "127.0.0.1", port_of(b)), connect_to(b, "127.0.0.1", port_of(a));
    equal(send(a, "x", 1, 0) + send(a, "x", 1, 0), 2, "two");
    equal(with(a, 0, 0, IPPROTO_IP, IP_TTL, 11), 1, "and one that is told apart");
    set(b, IPPROTO_IP, IP_TTL, 77);
    set(b, IPPROTO_IP, IP_RECVTTL, 1);
    take(b), equal(hops, 64, "the first");
    take(b), equal(hops, 64, "the second");
    take(b), equal(hops, 11, "and that one");
    close(a), close(b);
}

static void six(void)
{
    int a = bound("::1"), b = bound("::"), port = port_of(b);
    set(b, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1), set(b, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    equal(with(a, "::1", port, IPPROTO_IPV6, IPV6_HOPLIMIT, 9), 1, "one with few hops");
    take(b), equal(hops, 9, "has so many");
    equal(with(a, "::1", port, IPPROTO_IPV6, IPV6_TCLASS, 0x31), 1, "a class");
    take(b), equal(classes == 0x31 && hops == 64, 1, "is told");
    set(a, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 12);
    equal(with(a, "::1", port, IPPROTO_IPV6, IPV6_HOPLIMIT, -1), 1, "what the socket has");
    take(b), equal(hops, 12, "counts then");
    equal(with(a, "::1", port, IPPROTO_IPV6, IPV6_HOPLIMIT, 0), 1, "no hops");
    take(b), equal(hops, 0, "do for this host");
    fails(with(a, "::1", port, IPPROTO_IPV6, IPV6_HOPLIMIT, 256), EINVAL, "too many hops");
    fails(with(a, "::1", port, IPPROTO_IPV6, IPV6_HOPLIMIT, -2), EINVAL, "too few");
    fails(with(a, "::1", port, IPPROTO_IPV6, IPV6_TCLASS, 256), EINVAL, "no such class");
    say(IPPROTO_IPV6, IPV6_TCLASS, "x", 1);
    fails(put(a, "::1", port), EINVAL, "a byte is none");
    fails(with(a, "::1", port, IPPROTO_IPV6, IPV6_DONTFRAG, 2), EINVAL, "neither nor");
    equal(with(a, "::1", port, IPPROTO_IPV6, IPV6_DONTFRAG, 1), 1, "whole or not at all");
    fails(with(a, "::1", port, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1), EINVAL, "nothing that a message has");
    equal(with(a, "::1", port, IPPROTO_IP, IP_TTL, 999), 1, "what the other IP means is its");
    take(b), take(b);
    close(a), close(b);

    /* Of IPv4 on a socket of IPv6. */
    a = socket(AF_INET6, SOCK_DGRAM, 0), b = bound("127.0.0.1"), port = port_of(b);
    set(b, IPPROTO_IP, IP_RECVTTL, 1);
    equal(with(a, "::ffff:127.0.0.1", port, IPPROTO_IP, IP_TTL, 21), 1, "to a host of IPv4");
    take(b), equal(hops, 21, "as one of IPv4");
    equal(with(a, "::ffff:127.0.0.1", port, IPPROTO_IPV6, IPV6_HOPLIMIT, 22), 1, "hops of IPv6");
    take(b), equal(hops, 64, "mean nothing there");
    close(b);
    b = socket(AF_INET6, SOCK_DGRAM, 0), bind_to(b, "::", 0);
    set(b, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1), set(b, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    put(a, "::ffff:127.0.0.1", port_of(b));
    take(b), equal(hops == -1 && classes == -1, 1, "nor is one of IPv4 told of as one of IPv6");
    same(from, "::ffff:127.0.0.1", "though its sender is");
    close(a), close(b);
}

static ssize_t from_four(int fd, const char *host, int port, const char *own, int index)
{
    struct in_pktinfo info = {.ipi_ifindex = index, .ipi_spec_dst.s_addr = inet_addr(own)};
    say(IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    return put(fd, host, port);
}

static ssize_t from_six(int fd, const char *host, int port, const char *own, int index)
{
    struct in6_pktinfo info = {.ipi6_ifindex = index};
    inet_pton(AF_INET6, own, &info.ipi6_addr);
    say(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    return put(fd, host, port);
}

static void sources(void)
{
    int a = bound("0.0.0.0"), b = bound("0.0.0.0"), port = port_of(b);
    equal(from_four(a, "127.0.0.1", port, "127.0.0.7", 0), 1, "from an address of its choice");
    take(b), same(from, "127.0.0.7", "it comes from there");
    equal(from_four(a, "127.0.0.1", port, "0.0.0.0", 1), 1, "by an interface");
    take(b), same(from, "127.0.0.1", "it comes as others do");
    fails(from_four(a, "127.0.0.1", port, "10.1.2.3", 0), ENETUNREACH, "from another's address");
    fails(from_four(a, "127.0.0.1", port, "127.0.0.7", 77), ENODEV, "by no interface");
    fails(from_four(a, "127.0.0.1", port, "10.1.2.3", 77), ENETUNREACH, "neither");
    fails(from_four(a, "127.0.0.1", port, "224.0.0.1", 0), EINVAL, "from a group");
    say(IPPROTO_IP, IP_PKTINFO, &port, 4);
    fails(put(a, "127.0.0.1", port), EINVAL, "too short");
    close(a);
    a = bound("127.0.0.5");
    equal(from_four(a, "127.0.0.1", port, "127.0.0.6", 0), 1, "whatever it is bound to");
    take(b), same(from, "127.0.0.6", "the message's counts");
    equal(from_four(a, "127.0.0.1", port, "0.0.0.0", 0), 1, "from any");
    take(b), same(from, "127.0.0.1", "is from the nearest");
    close(a), close(b);

    a = bound("::"), b = bound("::"), port = port_of(b);
    equal(from_six(a, "::1", port, "::1", 1), 1, "of IPv6");
    take(b), same(from, "::1", "from there");
    equal(from_six(a, "::1", port, "::", 0), 1, "from any");
    take(b), same(from, "::1", "as others do");
    fails(from_six(a, "::1", port, "::2", 0), EINVAL, "from another's");
    fails(from_six(a, "::1", port, "::", 77), ENODEV, "by no interface");
    say(IPPROTO_IPV6, IPV6_PKTINFO, &port, 4);
    fails(put(a, "::1", port), EINVAL, "too short");
    equal(from_six(a, "::ffff:127.0.0.1", port, "::ffff:127.0.0.9", 1), 1, "of IPv4");
    take(b), same(from, "::ffff:127.0.0.9", "from there");
    fails(from_six(a, "::ffff:127.0.0.1", port, "::1", 1), EINVAL, "not from one of IPv6");
    close(a), close(b);
}

/* Streams and questions. */
static void others(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), a = socket(AF_INET, SOCK_STREAM, 0);
    listen(listener, 1);
    connect_to(a, "127.0.0.1", port_of(listener));
    equal(with(a, 0, 0, IPPROTO_IP, IP_TTL, 999), 1, "to a stream it means nothing");
    fails(with(a, 0, 0, SOL_SOCKET, SO_TYPE, 1), EINVAL, "but what is nothing");
    equal(with(a, 0, 0, SOL_SOCKET, SCM_RIGHTS, 12345), 1, "descriptors go nowhere");
    close(a), close(listener);
    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), hears = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    set(hears, IPPROTO_IP, IP_RECVTTL, 1);
    length = 8;
    equal(with(raw, "127.0.0.1", 0, IPPROTO_IP, IP_TTL, 44), 8, "a raw message");
    take(hears), equal(hops, 44, "has it too");
    fails(with(raw, "127.0.0.1", 0, IPPROTO_IP, IP_TTL, 0), EINVAL, "or not");
    close(raw), close(hears);
    length = 1;
}

/* UDP-Lite: as UDP, at ports of its own. */
static void lite(void)
{
    enum { LITE = 136, SENT = 10, TAKEN = 11 };
    for (int six = 0; six < 2; six++) {
        const char *host = six ? "::1" : "127.0.0.1";
        int a = socket(family(host), SOCK_DGRAM, LITE), b = socket(family(host), SOCK_DGRAM, LITE),
            c = socket(family(host), SOCK_DGRAM, 0);
        equal(get(a, SOL_SOCKET, SO_PROTOCOL), LITE, "a protocol");
        equal(bind_to(b, host, 0), 0, "a port");
        equal(bind_to(c, host, port_of(b)), 0, "is another of UDP's");
        equal(put(a, host, port_of(b)), 1, "a message");
        take(b), same(from, host, "comes");
        fails(recv(c, control.bytes, 1, MSG_DONTWAIT), EAGAIN, "to nobody else");
        equal(connect_to(a, host, port_of(b)) + connect_to(b, host, port_of(a)), 0,
              "two that know each other");
        char byte = 0;
        equal(write(a, "y", 1) == 1 && read(b, &byte, 1) == 1 && byte == 'y', 1, "by read and write");
        equal(get(a, LITE, SENT), 0, "sums over all");
        equal(set(a, LITE, SENT, 3), 0, "over too little");
        equal(get(a, LITE, SENT), 8, "is over the header");
        equal(set(a, IPPROTO_UDP, TAKEN, 20), 0, "by the other level");
        equal(get(a, IPPROTO_UDP, TAKEN) == 20 && get(a, LITE, TAKEN) == 20, 1, "too");
        equal(set(a, LITE, SENT, 70000) == 0 && get(a, LITE, SENT) == 65535, 1, "no more than there can be");
        equal(get(a, LITE, UDP_CORK), 0, "as UDP has it");
        fails(set(c, IPPROTO_UDP, SENT, 8), ENOPROTOOPT, "not of UDP");
        close(a), close(b), close(c);
    }
}

static const struct group all[] = {
    {"four", four}, {"six", six}, {"sources", sources}, {"others", others}, {"lite", lite}};

int main(int argc, char **argv)
{
    run_groups(GROUPS(all), NULL, argc, argv);
    return done();
}
