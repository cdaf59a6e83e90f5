/* Checks TCP over loopback as Linux has it; passes on Linux (in a network of its own, with `lo` up) and must
 * pass here.
 *
 * Interface: inets [GROUP...] runs all groups, or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "inet.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int tcp(const char *host) { return socket(family(host), SOCK_STREAM, 0); }

static int listener(const char *host, int port, int backlog)
{
    int fd = tcp(host);
    return bind_to(fd, host, port) || listen(fd, backlog) ? -1 : fd;
}

static int reached(const char *host, int port)
{
    int fd = tcp(host);
    if (connect_to(fd, host, port)) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Two connected ends; the first one called. */
static void couple(int s[2])
{
    int l = listener("127.0.0.1", 0, 5);
    s[0] = reached("127.0.0.1", port_of(l));
    s[1] = accept(l, 0, 0);
    close(l);
}

static void nothing(int signo) { (void)signo; }
static atomic_int pipes_broken;
static void count_broken(int signo) { (void)signo, pipes_broken++; }

/* --- connections --- */

static void connections_of(const char *host, const char *any)
{
    char bytes[64] = {0};
    int l = tcp(host);
    equal(get(l, SOL_SOCKET, SO_TYPE), SOCK_STREAM, "a kind");
    equal(get(l, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP, "a protocol");
    equal(get(l, SOL_SOCKET, SO_DOMAIN), family(host), "a family");
    equal(get(l, SOL_SOCKET, SO_ACCEPTCONN), 0, "it does not listen");
    same(own_name(l), text(any, 0), "no name");
    fails(getpeername(l, (void *)bytes, &(socklen_t){16}), ENOTCONN, "no peer");
    fails(read(l, bytes, 1), ENOTCONN, "nothing to read");
    fails(accept(l, 0, 0), EINVAL, "nobody comes");
    equal(polled(l), POLLOUT | POLLHUP, "as poll sees one that is not connected");
    fails(shutdown(tcp(host), SHUT_WR), ENOTCONN, "nothing to shut");
    equal(bind_to(l, host, 0), 0, "a port of the system's choice");
    int port = port_of(l);
    check(port >= 32768 && port <= 60999, "in its range");
    same(own_name(l), text(host, port), "its name");
    fails(bind_to(l, host, 0), EINVAL, "a second name");
    fails(connect_to(tcp(host), host, port), ECONNREFUSED, "nobody listens");
    equal(listen(l, 5), 0, "listens");
    equal(get(l, SOL_SOCKET, SO_ACCEPTCONN), 1, "and says so");
    equal(polled(l), 0, "nobody there");
    fails(connect_to(l, host, port), EISCONN, "who listens connects to nobody");
    int c = tcp(host);
    equal(connect_to(c, host, port), 0, "connects");
    fails(connect_to(c, host, port), EISCONN, "once");
    equal(awaited(l, POLLIN), POLLIN, "somebody there");
    equal(awaited(c, POLLOUT), POLLOUT, "can be written to before it is accepted");
    equal(write(c, "early", 5), 5, "and is");
    struct sockaddr_storage a = {0};
    socklen_t length = sizeof a;
    int s = accept4(l, (void *)&a, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    check(s >= 0, "accepts");
    equal(fcntl(s, F_GETFL), O_RDWR | O_NONBLOCK, "flags");
    equal(fcntl(s, F_GETFD), FD_CLOEXEC, "close on exec");
    equal(length, family(host) == AF_INET ? 16 : 28, "the length of an address");
    same(text_of(&a), own_name(c), "who it is");
    same(own_name(s), text(host, port), "the name of the accepted");
    same(own_name(s), peer_name(c), "one's own is the other's peer");
    same(own_name(c), peer_name(s), "and the reverse");
    check(port_of(c) >= 32768 && port_of(c) <= 60999 && port_of(c) != port, "a port of its own");
    equal(read(s, bytes, 64) == 5 && memcmp(bytes, "early", 5) == 0, 1, "what was written early");
    fails(read(s, bytes, 64), EAGAIN, "nothing more");
    fcntl(s, F_SETFL, 0);
    equal(write(s, "there", 5) == 5 && read(c, bytes, 64) == 5 && memcmp(bytes, "there", 5) == 0, 1, "there");
    equal(write(c, "abc", 3) == 3 && write(c, "def", 3) == 3, 1, "pieces");
    usleep(0);
    equal(recv(s, bytes, 6, MSG_WAITALL) == 6 && memcmp(bytes, "abcdef", 6) == 0, 1, "have no borders");
    equal(polled(s), POLLOUT, "as poll sees a quiet one");
    equal(send(c, "look", 4, 0), 4, "sent");
    equal(recv(s, bytes, 2, MSG_PEEK), 2, "a look");
    int left = -1;
    equal(ioctl(s, FIONREAD, &left) == 0 && left == 4, 1, "takes nothing");
    equal(ioctl(c, TIOCOUTQ, &left) == 0 && left >= 0, 1, "what was not taken is known");
    equal(recv(s, bytes, 64, MSG_TRUNC), 4, "bytes thrown away");
    fails(recv(s, bytes, 64, MSG_DONTWAIT), EAGAIN, "and gone");
    fails(recv(s, bytes, 64, MSG_OOB), EINVAL, "nothing urgent");
    fails(recv(s, bytes, 64, MSG_ERRQUEUE), EAGAIN, "no errors");
    struct sockaddr_storage from = {77};
    length = sizeof from;
    write(c, "x", 1);
    equal(recvfrom(s, bytes, 64, 0, (void *)&from, &length) == 1 && length == 0 && from.ss_family == 77, 1,
          "nobody is said to have sent it");
    struct end e = end_of(host, 9);
    equal(sendto(c, "y", 1, 0, (void *)&e.a, e.length), 1, "where to does not count");
    equal(read(s, bytes, 64), 1, "it came");
    struct stat st;
    equal(fstat(s, &st) == 0 && S_ISSOCK(st.st_mode), 1, "a socket");
    fails(lseek(s, 0, SEEK_SET), ESPIPE, "no offset");
    fails(syscall(SYS_write, s, 8, 5), EFAULT, "from nowhere");
    write(c, "q", 1);
    fails(syscall(SYS_read, s, 8, 5), EFAULT, "to nowhere");
    equal(read(s, bytes, 64) == 1 && bytes[0] == 'q', 1, "takes nothing");
    fails(bind_to(c, host, 0), EINVAL, "no name for one that is connected");
    fails(listen(c, 1), EINVAL, "nor may it listen");
    fails(accept(s, 0, 0), EINVAL, "or accept");
    close(c);
    equal(awaited(s, POLLRDHUP), POLLIN | POLLOUT | POLLRDHUP, "the other end is closed");
    equal(read(s, bytes, 64), 0, "the end");
    same(peer_name(s), text_of(&a), "its name is known as long as this one is open");
    close(s), close(l);
    c = tcp(host);
    fails(connect_to(c, host, port), ECONNREFUSED, "nobody listens any more");
    l = tcp(host);
    set(l, SOL_SOCKET, SO_REUSEADDR, 1);
    int again = bind_to(l, host, 0) == 0 && listen(l, 1) == 0;
    equal(again && connect_to(c, host, port_of(l)) == 0, 1, "who was refused tries again");
    close(c), close(l);
}

static void connections(void)
{
    connections_of("127.0.0.1", "0.0.0.0");
    connections_of("127.8.9.10", "0.0.0.0");
    connections_of("::1", "::");
}

/* --- addresses --- */

static void addresses(void)
{
    char bytes[128] = {0};
    int l = listener("0.0.0.0", 0, 9), port = port_of(l);
    same(own_name(l), text("0.0.0.0", port), "any address");
    int c = tcp("0.0.0.0");
    equal(connect_to(c, "127.0.0.5", port), 0, "any of the net is this host");
    same(own_name(c), text("127.0.0.1", port_of(c)), "from the first one");
    int s = accept(l, 0, 0);
    same(own_name(s), text("127.0.0.5", port), "to which it was");
    close(c), close(s);
    c = tcp("0.0.0.0");
    equal(connect_to(c, "0.0.0.0", port), 0, "no address is this host");
    same(peer_name(c), text("127.0.0.1", port), "by its name");
    close(c), close(accept(l, 0, 0));
    c = tcp("0.0.0.0");
    equal(bind_to(c, "127.0.0.7", 0), 0, "an address for who connects");
    equal(connect_to(c, "127.0.0.1", port), 0, "which he keeps");
    same(own_name(c), text("127.0.0.7", port_of(c)), "his name");
    close(c), close(accept(l, 0, 0));
    c = tcp("::");
    equal(connect_to(c, "::ffff:127.0.0.1", port), 0, "IPv4 from a socket of IPv6");
    same(own_name(c), text("::ffff:127.0.0.1", port_of(c)), "a mapped name");
    same(peer_name(c), text("::ffff:127.0.0.1", port), "and its peer's");
    s = accept(l, 0, 0);
    same(peer_name(s), text("127.0.0.1", port_of(c)), "which is not mapped there");
    close(c), close(s);
    c = tcp("::");
    fails(connect_to(c, "::1", port), ECONNREFUSED, "not by IPv6");
    close(c), close(l);

    l = listener("::", 0, 9), port = port_of(l);
    equal(get(l, IPPROTO_IPV6, IPV6_V6ONLY), 0, "for both families");
    c = reached("127.0.0.1", port);
    check(c >= 0, "one of IPv6 reached by IPv4");
    struct sockaddr_storage a = {0};
    socklen_t length = sizeof a;
    s = accept(l, (void *)&a, &length);
    same(text_of(&a), text("::ffff:127.0.0.1", port_of(c)), "from a mapped address");
    same(own_name(s), text("::ffff:127.0.0.1", port), "at one");
    equal(length, sizeof(struct sockaddr_in6), "of IPv6");
    close(c), close(s);
    c = reached("::1", port);
    s = accept(l, 0, 0);
    same(peer_name(s), text("::1", port_of(c)), "and by IPv6");
    close(c), close(s);
    c = tcp("::");
    equal(connect_to(c, "::", port), 0, "no address of IPv6");
    same(peer_name(c), text("::1", port), "is this host");
    close(c), close(accept(l, 0, 0)), close(l);

    l = tcp("::");
    equal(set(l, IPPROTO_IPV6, IPV6_V6ONLY, 1), 0, "for IPv6 only");
    equal(get(l, IPPROTO_IPV6, IPV6_V6ONLY), 1, "it says");
    fails(bind_to(l, "::ffff:127.0.0.1", 0), EINVAL, "not to a mapped address");
    equal(bind_to(l, "::", 0), 0, "to any");
    fails(set(l, IPPROTO_IPV6, IPV6_V6ONLY, 0), EINVAL, "which it remains");
    listen(l, 1), port = port_of(l);
    fails(connect_to(tcp("127.0.0.1"), "127.0.0.1", port), ECONNREFUSED, "not by IPv4");
    int four = tcp("127.0.0.1");
    equal(bind_to(four, "0.0.0.0", port), 0, "IPv4 may have the same port");
    close(four), close(l);

    int fd = tcp("127.0.0.1");
    fails(bind_to(fd, "10.1.2.3", 0), EADDRNOTAVAIL, "not an address of ours");
    fails(bind_to(fd, "::1", 0), EAFNOSUPPORT, "of another family");
    struct end e = end_of("127.0.0.1", 0);
    fails(bind(fd, (void *)&e.a, 15), EINVAL, "too short");
    fails(bind(fd, (void *)8, 16), EFAULT, "nowhere");
    e.a.ss_family = AF_UNSPEC;
    fails(bind(fd, (void *)&e.a, 16), EAFNOSUPPORT, "of no family");
    fails(connect_to(fd, "10.1.2.3", 80), ENETUNREACH, "a host that cannot be reached");
    fails(connect_to(fd, "255.255.255.255", 80), ENETUNREACH, "everybody");
    fails(connect_to(fd, "224.0.0.1", 80), ENETUNREACH, "a group");
    fails(connect_to(fd, "::1", 80), EAFNOSUPPORT, "a host of another family");
    fails(connect(fd, (void *)&e.a, 1), EINVAL, "no family at all");
    e = end_of("127.0.0.1", 80);
    fails(connect(fd, (void *)&e.a, 15), EINVAL, "an address too short");
    fails(connect_to(fd, "127.0.0.1", 1), ECONNREFUSED, "a port that nobody has");
    memset(&e, 0, sizeof e);
    equal(bind(fd, (void *)&e.a, 16), 0, "any address, of no family");
    same(own_name(fd), text("0.0.0.0", port_of(fd)), "which is IPv4's");
    close(fd);
    fd = tcp("::1");
    fails(bind_to(fd, "127.0.0.1", 0), EINVAL, "IPv4's is too short for IPv6");
    fails(bind_to(fd, "2001:db8::1", 0), EADDRNOTAVAIL, "nobody's");
    fails(connect_to(fd, "2001:db8::1", 80), ENETUNREACH, "a host of IPv6 that cannot be reached");
    fails(connect_to(fd, "::ffff:10.1.2.3", 80), ENETUNREACH, "nor by a mapped address");
    close(fd);

    fails(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT, "a protocol of another kind");
    fails(socket(AF_INET, SOCK_SEQPACKET, 0), ESOCKTNOSUPPORT, "a kind that is not");
    fails(socket(AF_INET, SOCK_STREAM, 999), EINVAL, "no protocol");
    fails(socketpair(AF_INET, SOCK_STREAM, 0, (int *)bytes), EOPNOTSUPP, "no pairs");
    l = listener("127.0.0.1", 0, 1);
    c = reached("127.0.0.1", port_of(l));
    memset(bytes, 0x55, sizeof bytes);
    length = 5;
    equal(getsockname(c, (void *)bytes, &length) == 0 && length == 16 && bytes[4] == 127 && bytes[5] == 0x55,
          1, "as much as there is room for");
    fails(getsockname(c, (void *)8, &length), EFAULT, "to nowhere");
    length = -1;
    fails(getpeername(c, (void *)bytes, &length), EINVAL, "a length below nothing");
    close(c), close(l);
}

/* --- who may have a port --- */

static void ports(void)
{
    int a = tcp("127.0.0.1"), b = tcp("127.0.0.1");
    bind_to(a, "127.0.0.1", 0);
    int port = port_of(a);
    fails(bind_to(b, "127.0.0.1", port), EADDRINUSE, "a port that is taken");
    fails(bind_to(b, "0.0.0.0", port), EADDRINUSE, "at any address too");
    equal(bind_to(b, "127.0.0.2", port), 0, "not at another one");
    close(b);
    b = tcp("::");
    fails(bind_to(b, "::", port), EADDRINUSE, "nor by IPv6 for both");
    equal(bind_to(b, "::1", port), 0, "but by IPv6 alone");
    close(b), b = tcp("127.0.0.1");
    set(b, SOL_SOCKET, SO_REUSEADDR, 1);
    fails(bind_to(b, "127.0.0.1", port), EADDRINUSE, "one who shares with one who does not");
    set(a, SOL_SOCKET, SO_REUSEADDR, 1);
    equal(bind_to(b, "127.0.0.1", port), 0, "two who share");
    equal(listen(a, 1), 0, "one listens");
    fails(listen(b, 1), EADDRINUSE, "but not both");
    close(b), b = tcp("127.0.0.1");
    set(b, SOL_SOCKET, SO_REUSEADDR, 1);
    fails(bind_to(b, "127.0.0.1", port), EADDRINUSE, "nobody shares with one who listens");
    close(a);
    equal(bind_to(b, "127.0.0.1", port), 0, "who has gone");
    close(b);

    if (geteuid() == 0) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            setresgid(1000, 1000, 1000), setresuid(1000, 1000, 1000);
            int fd = tcp("127.0.0.1"), six = tcp("::1");
            int good = bind_to(fd, "127.0.0.1", 80) == -1 && errno == EACCES;
            good &= bind_to(six, "::1", 1023) == -1 && errno == EACCES;
            good &= bind_to(fd, "127.0.0.1", 1024) == 0;
            _exit(!good);
        }
        int status;
        waitpid(child, &status, 0);
        equal(status, 0, "the first ports are not for everybody");
        a = tcp("127.0.0.1");
        equal(bind_to(a, "127.0.0.1", 80), 0, "but for root");
        close(a);
    }

    /* Several who listen at one port. */
    int many[3], got[3] = {0};
    many[0] = tcp("127.0.0.1");
    set(many[0], SOL_SOCKET, SO_REUSEPORT, 1);
    bind_to(many[0], "127.0.0.1", 0), listen(many[0], 64), port = port_of(many[0]);
    int single = tcp("127.0.0.1");
    fails(bind_to(single, "127.0.0.1", port), EADDRINUSE, "not with one who does not share");
    for (int i = 1; i < 3; i++) {
        many[i] = tcp("127.0.0.1");
        set(many[i], SOL_SOCKET, SO_REUSEPORT, 1);
        equal(bind_to(many[i], "127.0.0.1", port) == 0 && listen(many[i], 64) == 0, 1,
              "who shares listens there too");
    }
    if (geteuid() == 0) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            setresgid(1000, 1000, 1000), setresuid(1000, 1000, 1000);
            int fd = tcp("127.0.0.1");
            set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
            _exit(!(bind_to(fd, "127.0.0.1", port) == -1 && errno == EADDRINUSE));
        }
        int status;
        waitpid(child, &status, 0);
        equal(status, 0, "nobody shares with another user");
    }
    for (int i = 0; i < 60; i++) {
        int c = reached("127.0.0.1", port);
        struct pollfd p[3] = {{many[0], POLLIN, 0}, {many[1], POLLIN, 0}, {many[2], POLLIN, 0}};
        poll(p, 3, 5000);
        for (int j = 0; j < 3; j++)
            if (p[j].revents)
                got[j]++, close(accept(many[j], 0, 0));
        close(c);
    }
    equal(got[0] + got[1] + got[2], 60, "each comes to one of them");
    check(got[0] && got[1] && got[2], "and to each some come");
    for (int i = 0; i < 3; i++)
        close(many[i]);
    close(single);

    /* A listener at one address is nearer than one at any. */
    a = tcp("0.0.0.0"), b = tcp("0.0.0.0");
    set(a, SOL_SOCKET, SO_REUSEPORT, 1), set(b, SOL_SOCKET, SO_REUSEPORT, 1);
    bind_to(a, "0.0.0.0", 0), port = port_of(a), listen(a, 4);
    bind_to(b, "127.0.0.3", port), listen(b, 4);
    int c = reached("127.0.0.3", port), d = reached("127.0.0.4", port);
    equal(awaited(b, POLLIN), POLLIN, "who has the address gets it");
    equal(awaited(a, POLLIN), POLLIN, "who has any gets the rest");
    close(accept(a, 0, 0)), close(accept(b, 0, 0));
    equal(polled(a) | polled(b), 0, "one each");
    close(a), close(b), close(c), close(d);
}

/* --- ports at rest --- */

static void rests(void)
{
    int l = tcp("127.0.0.1"), sharing;
    set(l, SOL_SOCKET, SO_REUSEADDR, 1);
    bind_to(l, "127.0.0.1", 0), listen(l, 4);
    int port = port_of(l), c = reached("127.0.0.1", port), s = accept(l, 0, 0), at = port_of(c);
    char byte;
    close(l);
    l = tcp("127.0.0.1");
    fails(bind_to(l, "127.0.0.1", port), EADDRINUSE, "a port that a connection has");
    set(l, SOL_SOCKET, SO_REUSEADDR, 1);
    equal(bind_to(l, "127.0.0.1", port), 0, "may be shared");
    close(l);
    close(s);
    equal(read(c, &byte, 1), 0, "closed by the listener's side");
    close(c);
    l = tcp("127.0.0.1");
    fails(bind_to(l, "127.0.0.1", port), EADDRINUSE, "the port rests");
    set(l, SOL_SOCKET, SO_REUSEADDR, 1);
    equal(bind_to(l, "127.0.0.1", port) == 0 && listen(l, 3) == 0, 1, "for who does not share it");
    sharing = tcp("127.0.0.1");
    equal(bind_to(sharing, "127.0.0.1", at), 0, "who was closed later does not rest");
    close(sharing);

    c = reached("127.0.0.1", port), s = accept(l, 0, 0), at = port_of(c);
    close(c);
    equal(read(s, &byte, 1), 0, "closed by who came");
    close(s);
    sharing = tcp("127.0.0.1");
    fails(bind_to(sharing, "127.0.0.1", at), EADDRINUSE, "his port rests");
    close(l);

    /* Said, and not closed, first. */
    l = tcp("127.0.0.1");
    bind_to(l, "127.0.0.1", 0), listen(l, 4);
    port = port_of(l), c = reached("127.0.0.1", port), s = accept(l, 0, 0), at = port_of(c);
    shutdown(s, SHUT_WR);
    equal(read(c, &byte, 1), 0, "who says first that there is no more");
    close(c);
    equal(read(s, &byte, 1), 0, "though closed last");
    close(s), close(l);
    l = tcp("127.0.0.1");
    set(l, SOL_SOCKET, SO_REUSEADDR, 1);
    fails(bind_to(l, "127.0.0.1", port), EADDRINUSE, "has his port rest, as he did not share it");
    close(l), close(sharing);

    /* Broken connections do not rest. */
    struct linger now = {1, 0};
    l = listener("127.0.0.1", 0, 4);
    port = port_of(l), c = reached("127.0.0.1", port), s = accept(l, 0, 0), at = port_of(c);
    setsockopt(s, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(s), close(l);
    fails(read(c, &byte, 1), ECONNRESET, "a broken connection");
    close(c);
    l = listener("127.0.0.1", port, 4);
    check(l >= 0, "leaves its port at once");
    c = reached("127.0.0.1", port), s = accept(l, 0, 0);
    write(c, "x", 1);
    awaited(s, POLLIN);
    close(s), close(l);
    fails(read(c, &byte, 1), ECONNRESET, "one that is closed with something unread");
    close(c);
    l = listener("127.0.0.1", port, 4);
    check(l >= 0, "does so, too");
    close(l);
}

/* --- the end of a connection --- */

static void endings(void)
{
    int s[2];
    char bytes[64];
    struct linger now = {1, 0}, later = {1, 5};
    signal(SIGPIPE, count_broken);
    pipes_broken = 0;

    couple(s);
    write(s[0], "last", 4);
    equal(shutdown(s[0], SHUT_WR), 0, "says that there is no more");
    equal(awaited(s[1], POLLRDHUP), POLLIN | POLLOUT | POLLRDHUP, "as poll sees the other");
    equal(polled(s[0]), POLLOUT, "and this one");
    equal(read(s[1], bytes, 64), 4, "what came before");
    equal(read(s[1], bytes, 64), 0, "the end");
    equal(read(s[1], bytes, 64), 0, "again");
    equal(write(s[1], "answer", 6), 6, "the other half goes on");
    equal(recv(s[0], bytes, 6, MSG_WAITALL), 6, "and comes");
    fails(write(s[0], "x", 1), EPIPE, "no more is written");
    equal(pipes_broken, 1, "with a signal");
    fails(send(s[0], "x", 1, MSG_NOSIGNAL), EPIPE, "or without");
    equal(pipes_broken, 1, "that is");
    equal(shutdown(s[1], SHUT_WR), 0, "the other half too");
    equal(awaited(s[0], POLLHUP), POLLIN | POLLOUT | POLLRDHUP | POLLHUP, "both are shut");
    equal(read(s[0], bytes, 64), 0, "the end for both");
    fails(getpeername(s[0], (void *)bytes, &(socklen_t){16}), ENOTCONN, "no peer any more");
    close(s[0]), close(s[1]);

    couple(s);
    equal(shutdown(s[0], SHUT_RD), 0, "hears no more");
    equal(polled(s[0]), POLLIN | POLLOUT | POLLRDHUP, "as poll sees it");
    equal(polled(s[1]), POLLOUT, "nobody is told");
    equal(read(s[0], bytes, 64), 0, "reads the end");
    equal(write(s[1], "still", 5), 5, "what is sent all the same");
    equal(awaited(s[0], POLLIN) & POLLIN, POLLIN, "comes");
    equal(recv(s[0], bytes, 5, MSG_WAITALL), 5, "and can be read");
    equal(read(s[0], bytes, 64), 0, "before the end");
    fails(shutdown(s[0], 3), EINVAL, "three ways to shut");
    equal(shutdown(s[0], SHUT_RDWR), 0, "the third");
    equal(awaited(s[1], POLLRDHUP), POLLIN | POLLOUT | POLLRDHUP, "half of which the other sees");
    close(s[0]), close(s[1]);

    /* Closed, and written to. */
    couple(s);
    close(s[1]);
    equal(awaited(s[0], POLLRDHUP), POLLIN | POLLOUT | POLLRDHUP, "closed");
    pipes_broken = 0;
    equal(write(s[0], "x", 1), 1, "who does not know writes");
    equal(awaited(s[0], POLLERR) & (POLLERR | POLLHUP), POLLERR | POLLHUP, "and learns of it");
    fails(write(s[0], "x", 1), EPIPE, "then no more");
    equal(pipes_broken, 1, "with a signal");
    equal(read(s[0], bytes, 64), 0, "but reads the end");
    equal(get(s[0], SOL_SOCKET, SO_ERROR), 0, "the error was told");
    close(s[0]);

    /* Closed with something unread. */
    couple(s);
    write(s[0], "unread", 6);
    awaited(s[1], POLLIN);
    write(s[1], "answer", 6);
    awaited(s[0], POLLIN);
    close(s[1]);
    equal(awaited(s[0], POLLERR), POLLIN | POLLOUT | POLLRDHUP | POLLERR | POLLHUP, "broken");
    equal(read(s[0], bytes, 64), 6, "what came before can be read");
    fails(read(s[0], bytes, 64), ECONNRESET, "then that");
    equal(read(s[0], bytes, 64), 0, "once");
    pipes_broken = 0;
    fails(write(s[0], "x", 1), EPIPE, "and nothing is written");
    equal(pipes_broken, 1, "with a signal");
    fails(getpeername(s[0], (void *)bytes, &(socklen_t){16}), ENOTCONN, "no peer");
    close(s[0]);

    couple(s);
    write(s[0], "unread", 6);
    awaited(s[1], POLLIN);
    close(s[1]);
    pipes_broken = 0;
    awaited(s[0], POLLERR);
    fails(write(s[0], "x", 1), ECONNRESET, "a writer is told");
    equal(pipes_broken, 0, "without a signal");
    fails(write(s[0], "x", 1), EPIPE, "once");
    close(s[0]);

    couple(s);
    setsockopt(s[1], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(s[1]);
    awaited(s[0], POLLERR);
    equal(get(s[0], SOL_SOCKET, SO_ERROR), ECONNRESET, "broken on purpose");
    equal(read(s[0], bytes, 64), 0, "told by an option");
    close(s[0]);

    /* Nothing is asked for. */
    couple(s);
    fails(recv(s[1], bytes, 0, MSG_DONTWAIT), EAGAIN, "there is nothing to take nothing of");
    write(s[0], "x", 1);
    awaited(s[1], POLLIN);
    equal(recv(s[1], bytes, 0, 0), 0, "nothing of a byte");
    equal(read(s[1], bytes, 64), 1, "which is still there");
    close(s[0]);
    close(s[1]);

    /* A peer that has gone hears no gigabyte: the answer comes before that has left. */
    couple(s);
    close(s[1]);
    awaited(s[0], POLLIN);
    static char page[65536];
    struct iovec pieces[1024];
    for (int i = 0; i < 1024; i++)
        pieces[i] = (struct iovec){page, sizeof page};
    ssize_t sent = writev(s[0], pieces, 1024);
    check(sent > 0 && sent <= 16 << 20, "a part of 64 MiB leaves");
    fails(write(s[0], "x", 1), EPIPE, "and nothing after them");
    close(s[0]);

    couple(s);
    setsockopt(s[1], SOL_SOCKET, SO_LINGER, &later, sizeof later);
    socklen_t length = sizeof now;
    equal(getsockopt(s[1], SOL_SOCKET, SO_LINGER, &now, &length) == 0 && now.l_onoff == 1 &&
              now.l_linger == 5,
          1, "time to close");
    write(s[1], "all", 3);
    close(s[1]);
    equal(read(s[0], bytes, 64), 3, "all that was sent comes");
    equal(read(s[0], bytes, 64), 0, "and the end");
    close(s[0]);

    /* After the end was said, broken. */
    couple(s);
    write(s[0], "unread", 6);
    awaited(s[1], POLLIN);
    shutdown(s[1], SHUT_WR);
    equal(read(s[0], bytes, 64), 0, "the end");
    close(s[1]);
    awaited(s[0], POLLERR);
    equal(get(s[0], SOL_SOCKET, SO_ERROR), EPIPE, "and then broken");
    close(s[0]);

    int fd = tcp("127.0.0.1");
    pipes_broken = 0;
    fails(write(fd, "x", 1), EPIPE, "a write of one that is not connected");
    equal(pipes_broken, 1, "signals");
    fails(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE, "or not");
    close(fd);
    signal(SIGPIPE, SIG_DFL);

    /* A listener that is shut. */
    int l = listener("127.0.0.1", 0, 4), port = port_of(l), c = reached("127.0.0.1", port);
    equal(shutdown(l, SHUT_RD), 0, "a listener is shut");
    fails(accept(l, 0, 0), EINVAL, "nobody is accepted");
    awaited(c, POLLERR);
    fails(read(c, bytes, 64), ECONNRESET, "who waited is broken");
    fails(connect_to(tcp("127.0.0.1"), "127.0.0.1", port), ECONNREFUSED, "nobody comes");
    equal(listen(l, 4), 0, "it listens again");
    close(c);
    c = reached("127.0.0.1", port_of(l));
    check(c >= 0, "and who comes");
    int a = accept(l, 0, 0);
    check(a >= 0, "is accepted");
    close(a), close(c), close(l);
    l = listener("127.0.0.1", 0, 4), c = reached("127.0.0.1", port_of(l));
    close(l);
    awaited(c, POLLERR);
    fails(read(c, bytes, 64), ECONNRESET, "a listener that is closed breaks who waits");
    close(c);
}

#include "inets-bytes.h"
#include "inets-options.h"

int main(int argc, char **argv)
{
    signal(SIGALRM, nothing);
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
