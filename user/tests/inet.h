/* Steps that the tests of IP share: addresses as texts, sockets and their names, options.
 *
 * Interface: end_of, text, own_name, peer_name, bind_to, connect_to, polled, awaited, get, set, same.
 */
#ifndef INET_H
#define INET_H
#include "tap.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* An address of either family, and its length. */
struct end {
    struct sockaddr_storage a;
    socklen_t length;
};

static inline struct end end_of(const char *host, int port)
{
    struct end e;
    memset(&e, 0, sizeof e);
    struct sockaddr_in *four = (void *)&e.a;
    struct sockaddr_in6 *six = (void *)&e.a;
    if (strchr(host, ':')) {
        six->sin6_family = AF_INET6, six->sin6_port = htons(port), e.length = sizeof *six;
        inet_pton(AF_INET6, host, &six->sin6_addr);
    } else {
        four->sin_family = AF_INET, four->sin_port = htons(port), e.length = sizeof *four;
        inet_pton(AF_INET, host, &four->sin_addr);
    }
    return e;
}

static inline int port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t length = sizeof a;
    if (getsockname(fd, (void *)&a, &length))
        return -1;
    return ntohs(((struct sockaddr_in *)&a)->sin_port);
}

/* `HOST PORT` of an address. */
static inline const char *text_of(const struct sockaddr_storage *a)
{
    static char text[4][80];
    static int next;
    char host[64] = "?", *at = text[next++ & 3];
    int port = ntohs(((struct sockaddr_in *)a)->sin_port);
    if (a->ss_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)a)->sin_addr, host, sizeof host);
    else if (a->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)a)->sin6_addr, host, sizeof host);
    snprintf(at, 80, "%s %d", host, port);
    return at;
}

static inline const char *own_name(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t length = sizeof a;
    return getsockname(fd, (void *)&a, &length) ? "" : text_of(&a);
}

static inline const char *peer_name(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t length = sizeof a;
    return getpeername(fd, (void *)&a, &length) ? "" : text_of(&a);
}

static inline const char *text(const char *host, int port)
{
    struct end e = end_of(host, port);
    return text_of(&e.a);
}

static inline int bind_to(int fd, const char *host, int port)
{
    struct end e = end_of(host, port);
    return bind(fd, (void *)&e.a, e.length);
}

static inline int connect_to(int fd, const char *host, int port)
{
    struct end e = end_of(host, port);
    return connect(fd, (void *)&e.a, e.length);
}

static inline int family(const char *host) { return strchr(host, ':') ? AF_INET6 : AF_INET; }

static inline int polled(int fd)
{
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP | POLLPRI, 0};
    return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

/* Waits until poll says all of `wanted`; what it says then. */
static inline int awaited(int fd, int wanted)
{
    for (int i = 0; i < 500; i++) {
        struct pollfd p = {fd, wanted, 0};
        poll(&p, 1, 10);
        int now = polled(fd);
        if ((now & wanted) == wanted)
            return now;
    }
    return polled(fd);
}

static inline int get(int fd, int level, int name)
{
    int value = -77;
    socklen_t length = sizeof value;
    return getsockopt(fd, level, name, &value, &length) == 0 ? value : -1000 - errno;
}

static inline int set(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

static inline void same(const char *one, const char *two, const char *name)
{
    if (!tap_report(strcmp(one, two) == 0, name))
        printf("# got %s, expected %s\n", one, two);
}
#endif
