/* Connecting without waiting, many bytes, waiting for many: a part of `inets`.
 *
 * Interface: the groups breaks, patience, floods, crowds and watches.
 */
#ifndef INETS_BYTES_H
#define INETS_BYTES_H

/* --- connecting without waiting --- */

static void *end_abruptly(void *fd)
{
    struct linger now = {.l_onoff = 1};
    setsockopt((long)fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close((long)fd);
    return 0;
}

/* The other end breaks the connection while this one looks. */
static void breaks(void)
{
    long ends = 0, others = 0;
    for (int i = 0; i < 300; i++) {
        int s[2];
        char byte;
        ssize_t n;
        pthread_t thread;
        couple(s);
        pthread_create(&thread, 0, end_abruptly, (void *)(long)s[1]);
        while ((n = recv(s[0], &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
            ;
        ends += n == 0;
        others += n > 0 || (n < 0 && errno != ECONNRESET);
        pthread_join(thread, 0);
        close(s[0]);
    }
    equal(ends, 0, "who reads a connection that is broken never finds its end");
    equal(others, 0, "but that it was reset");
}

static void *accept_later(void *fd)
{
    struct timespec t = {0, 50000000};
    nanosleep(&t, 0);
    return (void *)(long)accept(*(int *)fd, 0, 0);
}

static void patience(void)
{
    char bytes[64];
    int l = listener("127.0.0.1", 0, 5), port = port_of(l);
    int c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    fails(connect_to(c, "127.0.0.1", port), EINPROGRESS, "a connection that is not waited for");
    equal(awaited(c, POLLOUT), POLLOUT, "is made");
    equal(get(c, SOL_SOCKET, SO_ERROR), 0, "without an error");
    equal(connect_to(c, "127.0.0.1", port), 0, "as a second call says");
    fails(connect_to(c, "127.0.0.1", port), EISCONN, "and a third");
    fails(read(c, bytes, 1), EAGAIN, "nothing yet");
    int s = accept(l, 0, 0);
    equal(write(s, "x", 1) == 1 && awaited(c, POLLIN) && read(c, bytes, 1) == 1, 1, "it works");
    close(s), close(c);
    fcntl(l, F_SETFL, O_NONBLOCK);
    fails(accept(l, 0, 0), EAGAIN, "nobody there");

    c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    fails(connect_to(c, "127.0.0.1", 1), EINPROGRESS, "nobody listens, which is not waited for");
    equal(awaited(c, POLLERR), POLLIN | POLLOUT | POLLRDHUP | POLLERR | POLLHUP, "as poll sees it");
    equal(get(c, SOL_SOCKET, SO_ERROR), ECONNREFUSED, "it is told");
    equal(get(c, SOL_SOCKET, SO_ERROR), 0, "once");
    fails(connect_to(c, "127.0.0.1", port), ECONNABORTED, "another call only notes it");
    fails(connect_to(c, "127.0.0.1", port), EINPROGRESS, "then it may be tried elsewhere");
    equal(awaited(c, POLLOUT), POLLOUT, "and is connected");
    close(c);
    c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect_to(c, "127.0.0.1", 1);
    awaited(c, POLLERR);
    fails(connect_to(c, "127.0.0.1", 1), ECONNREFUSED, "or told by a second call");
    close(c);
    c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect_to(c, "127.0.0.1", 1);
    awaited(c, POLLERR);
    fails(read(c, bytes, 1), ECONNREFUSED, "or by a read");
    equal(read(c, bytes, 1), 0, "once");
    close(c);
    close(l);

    /* More than have room. */
    l = listener("127.0.0.1", 0, 1), port = port_of(l);
    int one = reached("127.0.0.1", port), two = reached("127.0.0.1", port);
    check(one >= 0 && two >= 0, "one more than was said may wait");
    c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    fails(connect_to(c, "127.0.0.1", port), EINPROGRESS, "another one");
    equal(polled(c), 0, "waits for room");
    fails(connect_to(c, "127.0.0.1", port), EALREADY, "as it says");
    fails(write(c, "x", 1), EAGAIN, "cannot write");
    fails(read(c, bytes, 1), EAGAIN, "or read");
    fails(getpeername(c, (void *)bytes, &(socklen_t){16}), ENOTCONN, "has no peer");
    struct timeval soon = {0, 20000};
    int timed = tcp("127.0.0.1");
    setsockopt(timed, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    fails(connect_to(timed, "127.0.0.1", port), EINPROGRESS, "a wait that ends");
    close(timed);
    int s1 = accept(l, 0, 0), s2 = accept(l, 0, 0);
    same(peer_name(s1), own_name(one), "the first is the first");
    same(peer_name(s2), own_name(two), "the second the second");
    equal(awaited(c, POLLOUT), POLLOUT, "then there is room");
    s = accept(l, 0, 0);
    same(peer_name(s), own_name(c), "for the third");
    close(s), close(s1), close(s2), close(one), close(two), close(c);
    one = reached("127.0.0.1", port), two = reached("127.0.0.1", port);
    pthread_t thread;
    pthread_create(&thread, 0, accept_later, &l);
    c = tcp("127.0.0.1");
    equal(connect_to(c, "127.0.0.1", port), 0, "who waits gets it");
    void *accepted;
    pthread_join(thread, &accepted);
    close((int)(long)accepted);
    close(c), close(one), close(two), close(l);

    /* Times. */
    int t[2];
    couple(t);
    setsockopt(t[0], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    fails(read(t[0], bytes, 1), EAGAIN, "a read that waits for a time");
    setsockopt(t[0], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
    static char block[1 << 16];
    ssize_t sent = 0, step;
    while ((step = write(t[0], block, sizeof block)) > 0)
        sent += step;
    equal(step == -1 && errno == EAGAIN && sent > 0, 1, "a write that does");
    fcntl(t[1], F_SETFL, O_NONBLOCK);
    ssize_t read_all = 0;
    while (read_all < sent &&
           ((step = read(t[1], block, sizeof block)) > 0 || (step < 0 && awaited(t[1], POLLIN))))
        read_all += step > 0 ? step : 0;
    equal(read_all, sent, "all that was written comes");
    close(t[0]), close(t[1]);
}

/* --- many bytes --- */

static void floods(void)
{
    enum { TOTAL = 8 << 20 };
    static unsigned char block[70001];
    int s[2];
    couple(s);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(s[0]);
        unsigned long at = 0;
        while (at < TOTAL) {
            size_t length = 1 + at * 7919 % sizeof block;
            if (length > TOTAL - at)
                length = TOTAL - at;
            for (size_t i = 0; i < length; i++)
                block[i] = (at + i) * 31 >> 3;
            if (write(s[1], block, length) != (ssize_t)length)
                _exit(1);
            at += length;
        }
        _exit(0);
    }
    close(s[1]);
    unsigned long at = 0, wrong = 0;
    ssize_t step;
    while ((step = read(s[0], block, 1 + at * 104729 % sizeof block)) > 0) {
        for (ssize_t i = 0; i < step; i++)
            wrong += block[i] != (unsigned char)((at + i) * 31 >> 3);
        at += step;
    }
    int status;
    waitpid(child, &status, 0);
    equal(at, TOTAL, "all bytes");
    equal(wrong, 0, "as they were sent");
    equal(status, 0, "by the writer's count too");
    close(s[0]);
}

static atomic_int answered;

static void *ask(void *port)
{
    for (int i = 0; i < 100; i++) {
        int fd = reached("127.0.0.1", *(int *)port), back = -1;
        if (fd < 0)
            return (void *)1;
        if (write(fd, &i, sizeof i) != sizeof i || recv(fd, &back, sizeof back, MSG_WAITALL) != sizeof back ||
            back != i + 1)
            return (void *)2;
        close(fd);
        answered++;
    }
    return 0;
}

static void *serve(void *l)
{
    for (;;) {
        int fd = accept(*(int *)l, 0, 0), number;
        if (fd < 0)
            return 0;
        if (recv(fd, &number, sizeof number, MSG_WAITALL) == sizeof number) {
            number++;
            if (write(fd, &number, sizeof number) != sizeof number)
                return (void *)1;
        }
        close(fd);
    }
}

static void crowds(void)
{
    int l = listener("127.0.0.1", 0, 2), port = port_of(l);
    pthread_t askers[4], servers[2];
    void *bad = 0, *result;
    for (int i = 0; i < 2; i++)
        pthread_create(&servers[i], 0, serve, &l);
    for (int i = 0; i < 4; i++)
        pthread_create(&askers[i], 0, ask, &port);
    for (int i = 0; i < 4; i++)
        pthread_join(askers[i], &result), bad = result ? result : bad;
    equal((long)bad, 0, "all were answered");
    equal(answered, 400, "each time");
    shutdown(l, SHUT_RD);
    for (int i = 0; i < 2; i++)
        pthread_join(servers[i], &result), bad = result ? result : bad;
    equal((long)bad, 0, "who waits for others is told that nobody comes");
    close(l);

    /* Many at once. */
    enum { MANY = 300 };
    static int ends[MANY][2];
    int good = 1;
    l = listener("::", 0, 16), port = port_of(l);
    for (int i = 0; i < MANY; i++) {
        ends[i][0] = reached(i & 1 ? "127.0.0.1" : "::1", port);
        ends[i][1] = accept(l, 0, 0);
        good &= ends[i][0] >= 0 && ends[i][1] >= 0 && write(ends[i][i & 1], &i, 4) == 4;
    }
    equal(good, 1, "many are connected");
    for (int i = 0; i < MANY; i++) {
        int got = -1;
        good &= recv(ends[i][~i & 1], &got, 4, MSG_WAITALL) == 4 && got == i;
        close(ends[i][0]), close(ends[i][1]);
    }
    equal(good, 1, "each to its own");
    close(l);
}

/* --- waiting for many --- */

static void watches(void)
{
    int e = epoll_create1(0), l = listener("127.0.0.1", 0, 5);
    struct epoll_event ev = {EPOLLIN | EPOLLET, {.u32 = 1}}, got[4];
    epoll_ctl(e, EPOLL_CTL_ADD, l, &ev);
    equal(epoll_wait(e, got, 4, 0), 0, "nobody");
    int c = reached("127.0.0.1", port_of(l));
    equal(epoll_wait(e, got, 4, 5000) == 1 && got[0].data.u32 == 1, 1, "somebody");
    equal(epoll_wait(e, got, 4, 0), 0, "said once");
    int s = accept(l, 0, 0);
    ev = (struct epoll_event){EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, {.u32 = 2}};
    epoll_ctl(e, EPOLL_CTL_ADD, s, &ev);
    equal(epoll_wait(e, got, 4, 0) == 1 && got[0].events == EPOLLOUT, 1, "can be written");
    write(c, "x", 1);
    equal(epoll_wait(e, got, 4, 5000) == 1 && got[0].events == (EPOLLIN | EPOLLOUT), 1, "something came");
    shutdown(c, SHUT_WR);
    equal(epoll_wait(e, got, 4, 5000) == 1 && got[0].events == (EPOLLIN | EPOLLOUT | EPOLLRDHUP), 1,
          "and the end");
    close(c);
    int n = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    ev = (struct epoll_event){EPOLLIN | EPOLLOUT, {.u32 = 3}};
    epoll_ctl(e, EPOLL_CTL_DEL, s, 0), epoll_ctl(e, EPOLL_CTL_DEL, l, 0);
    epoll_ctl(e, EPOLL_CTL_ADD, n, &ev);
    equal(epoll_wait(e, got, 4, 0) == 1 && got[0].events == (EPOLLOUT | EPOLLHUP), 1,
          "one that is not connected");
    connect_to(n, "127.0.0.1", port_of(l));
    equal(epoll_wait(e, got, 4, 5000) == 1 && (got[0].events & EPOLLOUT), 1, "and now is");
    close(n), close(s), close(l), close(e);
}
#endif
