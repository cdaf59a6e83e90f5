/* Options, waits and permissions of unix-domain sockets: a part of `sockets`.
 *
 * Interface: the groups options, watched, permissions and traffic.
 */
#ifndef SOCKETS_OPTIONS_H
#define SOCKETS_OPTIONS_H

/* --- options, waits --- */

static void options(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), s[2];
    equal(option(fd, SO_TYPE), SOCK_STREAM, "SO_TYPE");
    equal(option(fd, SO_DOMAIN), AF_UNIX, "SO_DOMAIN");
    equal(option(fd, SO_PROTOCOL), 0, "SO_PROTOCOL");
    equal(option(fd, SO_ACCEPTCONN), 0, "SO_ACCEPTCONN");
    equal(option(fd, SO_ERROR), 0, "SO_ERROR");
    equal(option(fd, SO_RCVLOWAT), 1, "SO_RCVLOWAT");
    set_option(fd, SO_SNDBUF, 10000);
    equal(option(fd, SO_SNDBUF), 20000, "SO_SNDBUF is twice what was asked for");
    set_option(fd, SO_SNDBUF, 1);
    check(option(fd, SO_SNDBUF) >= 2048, "but not too small");
    set_option(fd, SO_RCVBUF, 10000);
    equal(option(fd, SO_RCVBUF), 20000, "SO_RCVBUF too");
    static const int switches[] = {SO_REUSEADDR, SO_KEEPALIVE, SO_BROADCAST, SO_DONTROUTE,
                                   SO_OOBINLINE, SO_TIMESTAMP, SO_PASSCRED};
    for (int i = 0; i < 7; i++) {
        int off = option(fd, switches[i]);
        set_option(fd, switches[i], 5);
        int on = option(fd, switches[i]);
        set_option(fd, switches[i], 0);
        equal(off == 0 && on == 1 && option(fd, switches[i]) == 0, 1, "a switch");
    }
    struct linger linger = {1, 7};
    socklen_t length = sizeof linger;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    memset(&linger, 0, sizeof linger);
    equal(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length) == 0 && linger.l_onoff == 1 &&
              linger.l_linger == 7,
          1, "SO_LINGER");
    struct timeval time = {3, 500000};
    length = sizeof time;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    memset(&time, 0, sizeof time);
    equal(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, &length) == 0 && time.tv_sec == 3 &&
              time.tv_usec == 500000,
          1, "SO_RCVTIMEO");
    time.tv_usec = 1000000;
    fails(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time), EDOM, "no time");
    int value;
    length = 2;
    equal(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &length) == 0 && length == 2, 1, "half of an option");
    length = -1;
    fails(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &length), EINVAL, "less than nothing of it");
    length = 4;
    fails(getsockopt(fd, SOL_SOCKET, 12345, &value, &length), ENOPROTOOPT, "no option");
    fails(setsockopt(fd, SOL_SOCKET, 12345, &value, 4), ENOPROTOOPT, "to set");
    fails(setsockopt(fd, SOL_SOCKET, SO_TYPE, &value, 4), ENOPROTOOPT, "nor one that only tells");
    fails(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, 3), EINVAL, "too short");
    fails(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, (void *)8, 4), EFAULT, "from nowhere");
    fails(getsockopt(fd, 6, 1, &value, &length), EOPNOTSUPP, "of another layer");
    fails(setsockopt(fd, 6, 1, &value, 4), EOPNOTSUPP, "for both");
    close(fd);
    /* Waits that end. */
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    char byte, *much = calloc(1, 1 << 20);
    time = (struct timeval){0, 20000};
    setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(s[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    fails(read(s[0], &byte, 1), EAGAIN, "nothing comes in time");
    ssize_t put = write(s[0], much, 1 << 20);
    equal(put > 0 && put < 1 << 20, 1, "not all can be sent in time");
    write(s[1], "x", 1);
    equal(read(s[0], &byte, 1), 1, "what is there comes at once");
    struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    time = (struct timeval){10, 0};
    setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    struct itimerval soon = {{0, 0}, {0, 10000}};
    setitimer(ITIMER_REAL, &soon, 0);
    fails(read(s[0], &byte, 1), EINTR, "a wait with an end is not begun anew");
    time = (struct timeval){0, 0};
    setsockopt(s[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    action.sa_flags = 0;
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &soon, 0);
    fails(read(s[0], &byte, 1), EINTR, "nor any, if the handler says so");
    set_option(s[0], SO_RCVLOWAT, 3);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 3; i++)
            write(s[1], "y", 1), usleep(1000);
        _exit(0);
    }
    char three[8];
    equal(recv(s[0], three, 8, 0), 3, "three at least");
    waitpid(child, 0, 0);
    free(much);
    close(s[0]), close(s[1]);
}

static void watched(void)
{
    int fd = listener(SOCK_STREAM, "@watched", 4), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = fd}, got;
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    equal(epoll_wait(set, &got, 1, 0), 0, "a listener to whom nobody comes");
    int fresh = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    event.data.fd = fresh;
    epoll_ctl(set, EPOLL_CTL_ADD, fresh, &event);
    equal(epoll_wait(set, &got, 1, 0) == 1 && got.data.fd == fresh && got.events == (EPOLLOUT | EPOLLHUP), 1,
          "one that is not connected");
    reach(fresh, "@watched");
    int seen = 0;
    /* The connecting end need not be told that it has connected. */
    while (epoll_wait(set, &got, 1, 0) == 1)
        seen |= got.data.fd == fd && (got.events & EPOLLIN)      ? 1
                : got.data.fd == fresh && got.events == EPOLLOUT ? 0
                                                                 : 4;
    equal(seen, 1, "then somebody has come");
    equal(epoll_wait(set, &got, 1, 0), 0, "each once");
    int end = accept(fd, 0, 0);
    write(end, "x", 1);
    equal(epoll_wait(set, &got, 1, 1000) == 1 && got.data.fd == fresh && got.events == (EPOLLIN | EPOLLOUT),
          1, "something came");
    write(end, "x", 1);
    equal(epoll_wait(set, &got, 1, 1000), 1, "and more");
    int file = end;
    send_rights(end, "r", &file, 1, 0);
    equal(epoll_wait(set, &got, 1, 1000), 1, "and a descriptor");
    shutdown(end, SHUT_WR);
    equal(epoll_wait(set, &got, 1, 1000) == 1 && got.events == (EPOLLIN | EPOLLOUT | EPOLLRDHUP), 1,
          "no more comes");
    char text[16];
    equal(receive_rights(fresh, text, 16, 1000, 0), 3, "all that came");
    close_got();
    close(end);
    equal(epoll_wait(set, &got, 1, 1000) == 1 && got.events == (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP),
          1, "the end");
    close(fresh);
    /* Room. */
    int s[2];
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s);
    event = (struct epoll_event){.events = EPOLLOUT | EPOLLET, .data.fd = s[0]};
    epoll_ctl(set, EPOLL_CTL_ADD, s[0], &event);
    equal(epoll_wait(set, &got, 1, 0), 1, "room");
    static char block[65536];
    while (write(s[0], block, sizeof block) > 0)
        ;
    equal(epoll_wait(set, &got, 1, 0), 0, "no room");
    while (read(s[1], block, sizeof block) > 0)
        ;
    equal(epoll_wait(set, &got, 1, 1000), 1, "room again");
    close(s[0]), close(s[1]);
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, s);
    event = (struct epoll_event){.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = s[0]};
    epoll_ctl(set, EPOLL_CTL_ADD, s[0], &event);
    equal(epoll_wait(set, &got, 1, 0) == 1 && got.events == EPOLLOUT, 1, "datagrams: room");
    write(s[1], "x", 1);
    equal(epoll_wait(set, &got, 1, 1000) == 1 && got.events == (EPOLLIN | EPOLLOUT), 1, "one comes");
    while (write(s[0], "x", 1) > 0)
        ;
    epoll_wait(set, &got, 1, 0);
    while (read(s[1], block, 16) > 0)
        ;
    equal(epoll_wait(set, &got, 1, 1000) == 1 && (got.events & EPOLLOUT), 1, "room again");
    close(s[0]), close(s[1]), close(fd), close(set);
}

/* The rights to reach a name, and to make one. */
static void permissions(void)
{
    if (getuid() != 0)
        return;
    struct sockaddr_un address;
    named(&address, "guarded");
    int fd = listener(SOCK_STREAM, "guarded", 5), status;
    chmod(folder, 0711);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(4321) || setuid(4321))
            _exit(99);
        int wrong = reached(SOCK_STREAM, "guarded") != -1 || errno != EACCES;
        wrong += bound(SOCK_STREAM, "mine") != -1 || errno != EACCES ? 2 : 0;
        _exit(wrong);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "without the right to write nobody reaches it, nor makes another");
    chmod(address.sun_path, 0622);
    child = fork();
    if (child == 0) {
        if (setgid(4321) || setuid(4321))
            _exit(99);
        _exit(reached(SOCK_STREAM, "guarded") < 0);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "with it one does");
    chmod(folder, 01777);
    child = fork();
    if (child == 0) {
        if (setgid(4321) || setuid(4321))
            _exit(99);
        umask(077);
        int wrong = bound(SOCK_STREAM, "mine") < 0;
        struct stat st;
        struct sockaddr_un mine;
        named(&mine, "mine");
        wrong += stat(mine.sun_path, &st) != 0 || (st.st_mode & 0777) != 0700 || st.st_uid != 4321 ? 2 : 0;
        wrong += unlink(address.sun_path) != -1 || errno != EPERM ? 4 : 0;
        wrong += unlink(mine.sun_path) != 0 ? 8 : 0;
        _exit(wrong);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "where all may, each has his own");
    chmod(folder, 0700);
    unlink(address.sun_path);
    close(fd);
}

struct traffic {
    int fd;
    int rights;
};

static void *traffic_out(void *argument)
{
    struct traffic *traffic = argument;
    for (int i = 0; i < 300; i++) {
        if (i % 3 == 0 && send_rights(traffic->fd, "abcdefgh", &traffic->rights, 1, 0) != 8)
            return (void *)1;
        if (i % 3 && write(traffic->fd, "abcdefgh", 8) != 8)
            return (void *)1;
    }
    return 0;
}

/* Bytes and descriptors of several writers to several readers; the sum is right. */
static atomic_int traffic_bytes, traffic_rights;
static void *traffic_in(void *argument)
{
    int fd = (long)argument;
    for (;;) {
        struct control control;
        char text[5];
        struct iovec piece = {text, sizeof text};
        struct msghdr message = {
            .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = 64};
        int count = recvmsg(fd, &message, 0);
        if (count <= 0)
            return (void *)(long)-count;
        traffic_bytes += count;
        for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
            traffic_rights++;
            close(*(int *)CMSG_DATA(head));
        }
    }
}

static void traffic(void)
{
    int s[2], before = descriptors();
    pthread_t out[3], in[3];
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    struct traffic one = {s[0], s[0]};
    traffic_bytes = traffic_rights = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&out[i], 0, traffic_out, &one),
            pthread_create(&in[i], 0, traffic_in, (void *)(long)s[1]);
    void *bad, *any = 0;
    for (int i = 0; i < 3; i++)
        pthread_join(out[i], &bad), any = any ? any : bad;
    shutdown(s[0], SHUT_WR);
    for (int i = 0; i < 3; i++)
        pthread_join(in[i], &bad), any = any ? any : bad;
    equal(!any && traffic_bytes == 3 * 300 * 8 && traffic_rights == 300, 1,
          "900 messages, 300 with a descriptor, three writers, three readers");
    close(s[0]), close(s[1]);
    equal(descriptors(), before, "none is left");
}
#endif
