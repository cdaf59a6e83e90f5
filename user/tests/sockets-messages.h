/* Datagrams and packets of unix-domain sockets: a part of `sockets`.
 *
 * Interface: the groups told_of_room, datagrams, packets, many_messages and hostile.
 */
#ifndef SOCKETS_MESSAGES_H
#define SOCKETS_MESSAGES_H

/* --- messages --- */

/* Whether each of many who wait for room at a full receiver is told when one message is taken, at
 * different times of their waiting. */
static void told_of_room(void)
{
    int late = 0;
    for (int round = 0; round < 300; round++) {
        char text[8];
        int to = bound(SOCK_DGRAM, "@room"), from = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0),
            other = socket(AF_UNIX, SOCK_DGRAM, 0);
        struct sockaddr_un name;
        socklen_t length = named(&name, "@room");
        connect(from, (void *)&name, length), connect(other, (void *)&name, length);
        while (send(from, "full", 4, 0) == 4)
            ;
        pid_t child = fork();
        if (child == 0) {
            usleep(round * 7 % 500);
            _exit(recv(to, text, sizeof text, 0) != 4);
        }
        struct pollfd p = {round % 2 ? from : other, POLLOUT, 0};
        late += poll(&p, 1, 2000) != 1;
        waitpid(child, 0, 0);
        close(to), close(from), close(other);
    }
    equal(late, 0, "who polls is told of room");
}

static void datagrams(void)
{
    int a = bound(SOCK_DGRAM, "@da"), b = bound(SOCK_DGRAM, "db"), c = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un to_a, to_b, from;
    socklen_t la = named(&to_a, "@da"), lb = named(&to_b, "db"), length = sizeof from;
    char text[64] = {0};
    equal(polled(a), POLLOUT, "nothing there");
    equal(sendto(b, "hello", 5, 0, (void *)&to_a, la), 5, "a message to a name");
    equal(polled(a), POLLIN | POLLOUT, "something");
    equal(recvfrom(a, text, 64, 0, (void *)&from, &length) == 5 && strcmp(from.sun_path, to_b.sun_path) == 0,
          1, "and from whom");
    equal(sendto(c, "who", 3, 0, (void *)&to_b, lb), 3, "from nobody");
    length = sizeof from;
    equal(recvfrom(b, text, 64, 0, (void *)&from, &length) == 3 && length == 0, 1, "from nobody it is");
    sendto(c, "one", 3, 0, (void *)&to_a, la), sendto(c, "", 0, 0, (void *)&to_a, la),
        sendto(c, "three", 5, 0, (void *)&to_a, la);
    int left;
    equal(ioctl(a, FIONREAD, &left) == 0 && left == 3, 1, "the first one's length");
    equal(recv(a, text, 2, 0), 2, "the rest of a message is lost");
    equal(recv(a, text, 64, 0), 0, "an empty one");
    equal(recv(a, text, 2, MSG_TRUNC | MSG_PEEK), 5, "the length of a longer one");
    struct iovec pieces[2] = {{text, 2}, {text + 10, 2}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    equal(recvmsg(a, &message, 0) == 4 && message.msg_flags == MSG_TRUNC && text[10] == 'r', 1,
          "in pieces, and not whole");
    fails(recv(a, text, 64, MSG_DONTWAIT), EAGAIN, "no more");
    fails(send(c, "x", 1, 0), ENOTCONN, "to nobody");
    fails(sendto(c, "x", 1, 0, (void *)&to_a, 1), EINVAL, "no address");
    fails(listen(a, 1), EOPNOTSUPP, "nobody comes");
    fails(accept(a, 0, 0), EOPNOTSUPP, "not even when asked");
    equal(connect(c, (void *)&to_a, la), 0, "always to the same");
    length = sizeof from;
    equal(getpeername(c, (void *)&from, &length) == 0 && length == la, 1, "whose name is known");
    equal(write(c, "x", 1) == 1 && read(a, text, 64) == 1, 1, "by write and read");
    equal(sendto(c, "y", 1, 0, (void *)&to_b, lb) == 1 && recv(b, text, 64, 0) == 1, 1, "to others too");
    /* Full. */
    fcntl(c, F_SETFL, O_NONBLOCK);
    int sent = 0;
    while (sent < 100 && send(c, "full", 4, 0) == 4)
        sent++;
    equal(errno == EAGAIN && sent >= 10 && sent <= 12, 1, "ten wait, and one more");
    equal(polled(c), 0, "no more can be sent");
    fails(sendto(b, "x", 1, MSG_DONTWAIT, (void *)&to_a, la), EAGAIN, "by nobody");
    struct pollfd p = {c, POLLOUT, 0};
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        usleep(3000);
        recv(a, text, 64, 0);
        _exit(0);
    }
    equal(poll(&p, 1, 5000) == 1 && p.revents == POLLOUT, 1, "poll waits for room");
    waitpid(child, 0, 0);
    while (recv(a, text, 64, MSG_DONTWAIT) > 0)
        ;
    /* Both have chosen each other. */
    connect(b, (void *)&to_a, la);
    connect(a, (void *)&to_b, lb);
    fails(write(c, "x", 1), EPERM, "who has chosen another takes nothing");
    equal(write(b, "ok", 2) == 2 && read(a, text, 64) == 2, 1, "but from that one");
    from.sun_family = AF_UNSPEC;
    equal(connect(a, (void *)&from, 2), 0, "the choice is taken back");
    equal(write(c, "x", 1) == 1 && read(a, text, 64) == 1, 1, "then from all");
    /* Another choice. */
    connect(a, (void *)&to_b, lb);
    equal(write(b, "old", 3) == 3 && connect(a, (void *)&to_b, lb) == 0 &&
              recv(a, text, 64, MSG_DONTWAIT) == 3,
          1, "the same choice again changes nothing");
    int d = bound(SOCK_DGRAM, "@dd");
    struct sockaddr_un to_d;
    socklen_t ld = named(&to_d, "@dd");
    write(b, "old", 3);
    equal(connect(a, (void *)&to_d, ld), 0, "another choice");
    fails(recv(a, text, 64, MSG_DONTWAIT), EAGAIN, "what the former one sent is gone");
    fails(write(b, "x", 1), ECONNRESET, "which that one is told");
    fails(write(b, "x", 1), EPERM, "and sends no more");
    connect(d, (void *)&to_a, la);
    equal(write(d, "new", 3) == 3 && recv(a, text, 64, MSG_DONTWAIT) == 3 && memcmp(text, "new", 3) == 0, 1,
          "the new one does");
    close(d);
    connect(a, (void *)&from, 2);
    close(a);
    fails(write(c, "x", 1), ECONNREFUSED, "one that has gone");
    fails(write(c, "x", 1), ENOTCONN, "is no choice");
    fails(sendto(c, "x", 1, 0, (void *)&to_a, la), ECONNREFUSED, "nor a name");
    fails(connect(c, (void *)&to_a, la), ECONNREFUSED, "to choose");
    static char large[300000];
    fails(sendto(c, large, sizeof large, 0, (void *)&to_b, lb), EMSGSIZE, "too large a message");
    connect(b, (void *)&from, 2);
    shutdown(b, SHUT_RD);
    fails(sendto(c, "x", 1, 0, (void *)&to_b, lb), EPIPE, "to who reads no more");
    equal(recv(b, text, 1, 0), 0, "who is told the end");
    close(b), close(c);
    unlink(to_b.sun_path);
    /* A pair. */
    int s[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
    sent = 0;
    while (sent < 5000 && send(s[0], "x", 1, MSG_DONTWAIT) == 1)
        sent++;
    equal(errno == EAGAIN && sent > 50, 1, "a pair has more room");
    equal(polled(s[0]) & POLLOUT, 0, "but no end of it");
    int came = 0;
    while (recv(s[1], text, 64, MSG_DONTWAIT) == 1)
        came++;
    equal(came, sent, "all come");
    write(s[1], "last", 4);
    close(s[1]);
    equal(read(s[0], text, 64), 4, "what was sent last");
    fails(write(s[0], "x", 1), ECONNREFUSED, "nobody is there");
    equal(polled(s[0]), POLLOUT, "which poll does not see");
    close(s[0]);
}

static void packets(void)
{
    int s[2];
    char text[64];
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s);
    write(s[0], "one", 3), write(s[0], "two two", 7);
    equal(read(s[1], text, 64) == 3 && read(s[1], text, 3) == 3, 1, "messages have borders");
    fails(recv(s[1], text, 64, MSG_DONTWAIT), EAGAIN, "and the rest of one is lost");
    write(s[1], "back", 4);
    struct iovec piece = {text, 2};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    equal(recvmsg(s[0], &message, MSG_TRUNC) == 4 && message.msg_flags == MSG_TRUNC, 1, "its length is told");
    shutdown(s[0], SHUT_WR);
    equal(read(s[1], text, 64), 0, "the end");
    equal(polled(s[1]), POLLIN | POLLOUT | POLLRDHUP, "as poll sees it");
    fails(send(s[0], "x", 1, MSG_NOSIGNAL), EPIPE, "no more is sent");
    equal(write(s[1], "y", 1) == 1 && read(s[0], text, 64) == 1, 1, "but the other way");
    write(s[1], "unread", 6);
    close(s[0]);
    equal(polled(s[1]), POLLIN | POLLOUT | POLLRDHUP | POLLHUP | POLLERR, "closed with something unread");
    fails(read(s[1], text, 64), ECONNRESET, "which is told");
    equal(read(s[1], text, 64), 0, "once");
    close(s[1]);
    int fd = listener(SOCK_SEQPACKET, "@packets", 2), end = reached(SOCK_SEQPACKET, "@packets");
    write(end, "early", 5);
    int got = accept(fd, 0, 0);
    equal(read(got, text, 64) == 5 && write(got, "reply", 5) == 5 && read(end, text, 64) == 5, 1,
          "a connection of packets");
    fails(reached(SOCK_STREAM, "@packets"), ECONNREFUSED, "is none of bytes");
    close(got), close(end), close(fd);
    fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    fails(read(fd, text, 1), ENOTCONN, "one that is not connected");
    fails(write(fd, text, 1), ENOTCONN, "sends nothing");
    close(fd);
}

static void many_messages(void)
{
    int s[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    struct mmsghdr messages[8];
    struct iovec pieces[8];
    char text[8][8], into[8][8];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < 8; i++) {
        sprintf(text[i], "msg%d", i);
        pieces[i] = (struct iovec){text[i], 4};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
    }
    equal(sendmmsg(s[0], messages, 8, 0) == 8 && messages[7].msg_len == 4, 1, "eight messages");
    for (int i = 0; i < 8; i++)
        pieces[i] = (struct iovec){into[i], 4};
    equal(recvmmsg(s[1], messages, 8, 0, 0) == 8 && memcmp(into[7], "msg7", 4) == 0, 1, "come");
    close(s[0]), close(s[1]);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, s);
    for (int i = 0; i < 8; i++)
        pieces[i] = (struct iovec){text[i], 1 + i % 4};
    pieces[5].iov_base = (void *)8;
    equal(sendmmsg(s[0], messages, 8, 0), 5, "five, and one from nowhere");
    fails(sendmmsg(s[0], messages + 5, 1, 0), EFAULT, "which alone is none");
    for (int i = 0; i < 8; i++)
        pieces[i] = (struct iovec){into[i], 8};
    equal(recvmmsg(s[1], messages, 8, MSG_WAITFORONE, 0) == 5 && messages[2].msg_len == 3, 1,
          "five come, and no wait for more");
    fails(recvmmsg(s[1], messages, 8, MSG_DONTWAIT, 0), EAGAIN, "no more");
    struct timespec soon = {0, 1000000};
    write(s[0], "x", 1);
    equal(recvmmsg(s[1], messages, 1, 0, &soon), 1, "within a time");
    struct timespec bad = {0, -1};
    fails(recvmmsg(s[1], messages, 1, MSG_DONTWAIT, &bad), EINVAL, "which is one");
    struct msghdr header = {.msg_iov = pieces, .msg_iovlen = 1025};
    fails(sendmsg(s[0], &header, 0), EMSGSIZE, "too many pieces");
    fails(recvmsg(s[1], &header, MSG_DONTWAIT), EMSGSIZE, "for both");
    header.msg_iov = (void *)8, header.msg_iovlen = 1;
    fails(sendmsg(s[0], &header, 0), EFAULT, "pieces that are nowhere");
    fails(syscall(SYS_sendmsg, s[0], 8, 0), EFAULT, "a message that is nowhere");
    close(s[0]), close(s[1]);
}

/* Control messages as no library makes them. */
static void hostile(void)
{
    static const int kinds[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
    int s[2], before = descriptors();
    char text[8];
    for (int kind = 0; kind < 3; kind++) {
        socketpair(AF_UNIX, kinds[kind] | SOCK_NONBLOCK, 0, s);
        struct control control;
        struct iovec piece = {"x", 1};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control};
        struct cmsghdr *head = &control.head;
        static const struct {
            size_t control, length;
            int level, type, error;
        } cases[] = {
            {16, 16, SOL_SOCKET, SCM_RIGHTS, 0},
            {16, 15, SOL_SOCKET, SCM_RIGHTS, EINVAL},
            {16, 0, SOL_SOCKET, SCM_RIGHTS, EINVAL},
            {16, 17, SOL_SOCKET, SCM_RIGHTS, EINVAL},
            {24, 1 << 20, SOL_SOCKET, SCM_RIGHTS, EINVAL},
            {24, (size_t)-1, SOL_SOCKET, SCM_RIGHTS, EINVAL},
            {24, (size_t)1 << 63, SOL_SOCKET, SCM_RIGHTS, EINVAL},
            {24, 20, SOL_SOCKET, 99, EINVAL},
            {24, 20, 99, SCM_RIGHTS, 0},
            {28, 27, SOL_SOCKET, SCM_CREDENTIALS, EINVAL},
            {40, 29, SOL_SOCKET, SCM_CREDENTIALS, EINVAL},
            {15, 16, SOL_SOCKET, SCM_RIGHTS, 0},
            {24, 19, SOL_SOCKET, SCM_RIGHTS, 0},
        };
        for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
            char name[64];
            memset(&control, 0, sizeof control);
            head->cmsg_len = cases[i].length, head->cmsg_level = cases[i].level,
            head->cmsg_type = cases[i].type;
            message.msg_controllen = cases[i].control;
            errno = 0;
            int result = sendmsg(s[0], &message, 0);
            snprintf(name, sizeof name, "control data of %zu bytes, length %zx", cases[i].control,
                     cases[i].length);
            if (cases[i].error)
                equal(result == -1 ? errno : 0, cases[i].error, name);
            else
                equal(result, 1, name);
        }
        while (recv(s[1], text, 1, 0) > 0)
            ;
        /* Two messages, of which the second is wrong: the first one's descriptors are not lost. */
        memset(&control, 0, sizeof control);
        head->cmsg_len = CMSG_LEN(4), head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(head), &s[0], 4);
        struct cmsghdr *second = (void *)(control.bytes + CMSG_SPACE(4));
        *second = *head, second->cmsg_len = 5;
        message.msg_controllen = CMSG_SPACE(4) + CMSG_SPACE(4);
        fails(sendmsg(s[0], &message, 0), EINVAL, "a second message that is none");
        second->cmsg_len = CMSG_LEN(4);
        memcpy(CMSG_DATA(second), &s[1], 4);
        equal(sendmsg(s[0], &message, 0), 1, "two messages of descriptors");
        equal(receive_rights(s[1], text, 8, 1000, 0) == 1 && got_rights == 2, 1, "come as one");
        close_got();
        message.msg_controllen = (size_t)1 << 40;
        fails(sendmsg(s[0], &message, 0), ENOBUFS, "too much control data");
        message.msg_control = (void *)8, message.msg_controllen = 64;
        fails(sendmsg(s[0], &message, 0), EFAULT, "that is nowhere");
        /* Descriptors for a buffer that is nowhere. */
        send_rights(s[0], "x", s, 2, 0);
        char *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        message.msg_control = page, message.msg_controllen = 256, piece.iov_base = text;
        int got = recvmsg(s[1], &message, 0);
        check(got == 1 || (got == -1 && errno == EFAULT), "descriptors that cannot be told");
        munmap(page, 4096);
        close(s[0]), close(s[1]);
    }
    equal(descriptors(), before, "none is left");
}
#endif
