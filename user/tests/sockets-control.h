/* Control messages of unix-domain sockets: descriptors and credentials; a part of `sockets`.
 *
 * Interface: the groups rights, cycles, too_many and credentials; send_rights and receive_rights pass files.
 */
#ifndef SOCKETS_CONTROL_H
#define SOCKETS_CONTROL_H

/* --- what stands among the bytes --- */

struct control {
    union {
        struct cmsghdr head;
        char bytes[1200];
    };
};

/* Sends `text` with `count` descriptors. */
static int send_rights(int fd, const char *text, const int *files, int count, int flags)
{
    struct control control = {0};
    struct iovec piece = {(void *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (count) {
        control.head.cmsg_len = CMSG_LEN(4 * count), control.head.cmsg_level = SOL_SOCKET,
        control.head.cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(&control.head), files, 4 * count);
        message.msg_control = &control, message.msg_controllen = CMSG_SPACE(4 * count);
    }
    return sendmsg(fd, &message, flags);
}

/* Receives up to `size` bytes into `text`, and descriptors, as many as there is room for; how many bytes. */
static int got_rights, got_flags, got_fds[300];
static struct ucred got_ucred;
static int got_creds;
static int receive_rights(int fd, char *text, int size, int room, int flags)
{
    static struct control control;
    struct iovec piece = {text, size};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room ? &control : 0, .msg_controllen = room};
    int count = recvmsg(fd, &message, flags);
    got_rights = 0, got_creds = 0, got_flags = message.msg_flags;
    if (count < 0)
        return count;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_type == SCM_RIGHTS) {
            got_rights = (head->cmsg_len - CMSG_LEN(0)) / 4;
            memcpy(got_fds, CMSG_DATA(head), 4 * got_rights);
        }
        if (head->cmsg_type == SCM_CREDENTIALS) {
            got_creds = 1;
            memcpy(&got_ucred, CMSG_DATA(head), sizeof got_ucred);
        }
    }
    return count;
}

static void close_got(void)
{
    for (int i = 0; i < got_rights; i++)
        close(got_fds[i]);
}

static int descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 1024; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

static int same_file(int a, int b)
{
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_ino == other.st_ino &&
           one.st_dev == other.st_dev;
}

static void rights_by(int type)
{
    int s[2], p[2], before = descriptors();
    char text[64];
    socketpair(AF_UNIX, type, 0, s);
    pipe(p);
    equal(send_rights(s[0], "x", p, 2, 0), 1, "two descriptors with a byte");
    equal(receive_rights(s[1], text, 64, 1000, 0) == 1 && got_rights == 2 && got_flags == 0, 1,
          "come with it");
    equal(got_fds[0] != p[0] && same_file(got_fds[0], p[0]) && same_file(got_fds[1], p[1]), 1,
          "as others of the same files");
    equal(fcntl(got_fds[0], F_GETFD), 0, "which exec keeps");
    write(got_fds[1], "through", 7);
    equal(read(p[0], text, 64), 7, "they work");
    close_got();
    send_rights(s[0], "x", p, 1, 0);
    close(p[0]), close(p[1]);
    equal(receive_rights(s[1], text, 64, 1000, MSG_CMSG_CLOEXEC) == 1 && got_rights == 1 &&
              fcntl(got_fds[0], F_GETFD) == FD_CLOEXEC,
          1, "one that its sender has closed, for exec to close");
    equal(got_flags & ~MSG_CMSG_CLOEXEC, 0, "no other flag");
    equal(read(got_fds[0], text, 64), 0, "its pipe has no writer");
    close_got();
    /* Nobody takes it. */
    pipe(p);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    send_rights(s[0], "x", &p[1], 1, 0);
    close(p[1]);
    fails(read(p[0], text, 1), EAGAIN, "in flight it is open");
    equal(read(s[1], text, 64), 1, "a plain read takes the byte");
    equal(read(p[0], text, 1), 0, "and lets the descriptor go");
    close(p[0]);
    pipe(p);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    send_rights(s[0], "x", &p[1], 1, 0);
    equal(receive_rights(s[1], text, 64, 0, 0) == 1 && got_flags == MSG_CTRUNC, 1,
          "no room for it: the message says so");
    close(p[1]);
    equal(read(p[0], text, 1), 0, "and it is let go");
    close(p[0]);
    pipe(p);
    int three[3] = {p[0], p[1], p[0]};
    send_rights(s[0], "x", three, 3, 0);
    equal(receive_rights(s[1], text, 64, CMSG_LEN(8), 0) == 1 && got_rights == 2 && got_flags == MSG_CTRUNC,
          1, "room for two of three");
    close_got();
    /* Seen, not taken. */
    send_rights(s[0], "y", p, 1, 0);
    equal(receive_rights(s[1], text, 64, 1000, MSG_PEEK) == 1 && got_rights == 1 &&
              same_file(got_fds[0], p[0]),
          1, "a look gives a descriptor");
    close_got();
    equal(receive_rights(s[1], text, 64, 1000, 0) == 1 && got_rights == 1 && same_file(got_fds[0], p[0]), 1,
          "and the one who takes it another");
    close_got();
    /* A socket through itself. */
    equal(send_rights(s[0], "z", s, 2, 0), 1, "both ends through themselves");
    equal(receive_rights(s[1], text, 64, 1000, 0) == 1 && got_rights == 2, 1, "and out");
    write(got_fds[0], "w", 1);
    equal(recv(s[1], text, 1, MSG_DONTWAIT), 1, "are the same");
    close_got();
    /* Wrong ones. */
    int wrong = 999;
    fails(send_rights(s[0], "x", &wrong, 1, 0), EBADF, "no descriptor");
    int path = open("/", O_PATH);
    equal(send_rights(s[0], "x", &path, 1, 0) == 1 && receive_rights(s[1], text, 64, 1000, 0) == 1 &&
              got_rights == 1 && (fcntl(got_fds[0], F_GETFL) & O_PATH),
          1, "a mere place");
    close_got();
    close(path);
    int many[254];
    for (int i = 0; i < 254; i++)
        many[i] = p[0];
    fails(send_rights(s[0], "x", many, 254, 0), EINVAL, "254 are too many");
    equal(send_rights(s[0], "x", many, 253, 0), 1, "253 are not");
    equal(receive_rights(s[1], text, 64, 1100, 0) == 1 && got_rights == 253, 1, "they all come");
    close_got();
    /* With no room in the table, what fits. */
    struct rlimit old, low;
    getrlimit(RLIMIT_NOFILE, &old);
    low = old, low.rlim_cur = p[1] + 3;
    send_rights(s[0], "x", many, 10, 0);
    setrlimit(RLIMIT_NOFILE, &low);
    equal(receive_rights(s[1], text, 64, 1000, 0) == 1 && got_rights < 10 && got_flags == MSG_CTRUNC, 1,
          "more than the table takes");
    close_got();
    setrlimit(RLIMIT_NOFILE, &old);
    close(p[0]), close(p[1]), close(s[0]), close(s[1]);
    equal(descriptors(), before, "none is left");
}

static void rights(void)
{
    rights_by(SOCK_STREAM);
    rights_by(SOCK_DGRAM);
    rights_by(SOCK_SEQPACKET);
    /* Their position among the bytes of a stream. */
    int s[2];
    char text[64] = {0};
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    int file = s[0];
    write(s[0], "aa", 2);
    send_rights(s[0], "bbb", &file, 1, 0);
    write(s[0], "cc", 2);
    equal(receive_rights(s[1], text, 64, 1000, 0) == 5 && got_rights == 1 && memcmp(text, "aabbb", 5) == 0, 1,
          "a read ends behind what has descriptors");
    close_got();
    equal(receive_rights(s[1], text, 64, 1000, 0) == 2 && got_rights == 0, 1, "and goes on there");
    send_rights(s[0], "ddd", &file, 1, 0);
    write(s[0], "ee", 2);
    equal(receive_rights(s[1], text, 1, 1000, 0) == 1 && got_rights == 1, 1,
          "they come with the first byte of theirs");
    close_got();
    equal(receive_rights(s[1], text, 64, 1000, 0) == 4 && got_rights == 0, 1, "not with the others");
    send_rights(s[0], "1", &file, 1, 0);
    send_rights(s[0], "2", &file, 1, 0);
    equal(receive_rights(s[1], text, 64, 1000, 0) == 1 && got_rights == 1, 1,
          "two messages with descriptors");
    close_got();
    int left;
    equal(ioctl(s[1], FIONREAD, &left) == 0 && left == 1, 1, "one is left to read");
    equal(polled(s[1]) & POLLIN, POLLIN, "as poll says");
    equal(receive_rights(s[1], text, 64, 1000, MSG_WAITALL) == 1 && got_rights == 1, 1,
          "which ends even a wait for all");
    close_got();
    write(s[0], "plain", 5);
    equal(read(s[1], text, 64), 5, "then bytes as before");
    /* Into a program's hands that was stopped in a read. */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(s[1]);
        usleep(3000);
        send_rights(s[0], "late", &file, 1, 0);
        for (int i = 0; i < 100; i++)
            write(s[0], "more", 4);
        _exit(0);
    }
    close(s[0]);
    equal(receive_rights(s[1], text, 4, 1000, 0) == 4 && got_rights == 1, 1, "who waits is woken by it");
    close_got();
    int total = 0;
    for (ssize_t got; (got = read(s[1], text, 7)) > 0;)
        total += got;
    equal(total, 400, "and has what follows");
    waitpid(child, 0, 0);
    close(s[1]);
}

/* Sockets that only each other's messages lead to. */
static void cycles(void)
{
    char byte;
    for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
        int s[2], t[2], p[2];
        pipe(p);
        fcntl(p[0], F_SETFL, O_NONBLOCK);
        /* One in itself, with a pipe's end. */
        socketpair(AF_UNIX, type, 0, s);
        send_rights(s[0], "x", &s[0], 1, 0);
        send_rights(s[0], "x", &s[1], 1, 0);
        send_rights(s[0], "x", &p[1], 1, 0);
        close(s[0]), close(s[1]);
        /* Two in each other. */
        socketpair(AF_UNIX, type, 0, s);
        socketpair(AF_UNIX, type, 0, t);
        send_rights(s[0], "x", t, 2, 0);
        send_rights(t[0], "x", s, 2, 0);
        send_rights(t[0], "x", &p[1], 1, 0);
        close(p[1]);
        close(s[0]), close(s[1]), close(t[0]);
        fails(read(p[0], &byte, 1), EAGAIN, "as long as one of them is held nothing is lost");
        struct msghdr none = {0};
        (void)none;
        close(t[1]);
        /* Where that is done later, it is done some time. */
        int end = -1;
        for (int i = 0; i < 2000 && (end = read(p[0], &byte, 1)) != 0; i++)
            usleep(1000);
        equal(end, 0, "then all of it goes");
        close(p[0]);
    }
    /* A chain, each in the next. */
    int p[2];
    pipe(p);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    int held = p[1], long_enough = 1;
    for (int i = 0; i < 400; i++) {
        int s[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) != 0 || send_rights(s[0], "x", &held, 1, 0) != 1) {
            long_enough = 0;
            break;
        }
        close(held), close(s[0]);
        held = s[1];
    }
    check(long_enough, "400 sockets, each in the next");
    fails(read(p[0], &byte, 1), EAGAIN, "with a pipe's end in the first");
    close(held);
    int end = -1;
    for (int i = 0; i < 2000 && (end = read(p[0], &byte, 1)) != 0; i++)
        usleep(1000);
    equal(end, 0, "all go with the last");
    close(p[0]);
    /* In a connection that nobody accepted. */
    pipe(p);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    int listening = listener(SOCK_STREAM, "@cycle", 1), s = reached(SOCK_STREAM, "@cycle");
    send_rights(s, "x", &listening, 1, 0);
    send_rights(s, "x", &p[1], 1, 0);
    close(listening), close(s), close(p[1]);
    end = -1;
    for (int i = 0; i < 2000 && (end = read(p[0], &byte, 1)) != 0; i++)
        usleep(1000);
    equal(end, 0, "a listener that waits in its own backlog");
    close(p[0]);
}

/* More in flight than one may have open. */
static void too_many(void)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit low = {64, 64};
        setrlimit(RLIMIT_NOFILE, &low);
        if (setgid(4321) || setuid(4321))
            _exit(99);
        int s[2], sent = 0, same[8];
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s);
        for (int i = 0; i < 8; i++)
            same[i] = s[0];
        while (sent < 100 && send_rights(s[0], "x", same, 8, 0) == 1)
            sent++;
        /* 64 are let past, and what comes with the last. */
        _exit(errno == ETOOMANYREFS && sent >= 8 && sent <= 10 ? 0 : sent);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "more descriptors in flight than a user may have open");
}

static int send_creds(int fd, const char *text, pid_t pid, uid_t uid, gid_t gid)
{
    struct control control = {0};
    struct ucred cred = {pid, uid, gid};
    struct iovec piece = {(void *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(sizeof cred)};
    control.head.cmsg_len = CMSG_LEN(sizeof cred), control.head.cmsg_level = SOL_SOCKET,
    control.head.cmsg_type = SCM_CREDENTIALS;
    memcpy(CMSG_DATA(&control.head), &cred, sizeof cred);
    return sendmsg(fd, &message, 0);
}

static int got_from(pid_t pid)
{
    return got_creds && got_ucred.pid == pid && got_ucred.uid == getuid() && got_ucred.gid == getgid();
}

static void credentials(void)
{
    int s[2];
    char text[64];
    struct ucred cred;
    socklen_t length = sizeof cred;
    for (int i = 0; i < 3; i++) {
        socketpair(AF_UNIX, (int[]){SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}[i], 0, s);
        equal(option(s[1], SO_PASSCRED), 0, "nobody asks who sends");
        set_option(s[1], SO_PASSCRED, 1);
        equal(option(s[1], SO_PASSCRED), 1, "somebody does");
        write(s[0], "hi", 2);
        equal(receive_rights(s[1], text, 64, 1000, 0) == 2 && got_from(getpid()), 1, "and is told");
        send(s[0], "hi", 2, 0);
        equal(receive_rights(s[1], text, 64, 10, 0) == 2 && (got_flags & MSG_CTRUNC), 1,
              "without room, that there was none");
        equal(send_creds(s[0], "yo", getpid(), getuid(), getgid()), 2, "one says who one is");
        equal(receive_rights(s[1], text, 64, 1000, 0) == 2 && got_from(getpid()), 1, "which is told");
        length = sizeof cred;
        equal(getsockopt(s[0], SOL_SOCKET, SO_PEERCRED, &cred, &length) == 0 && length == 12 &&
                  cred.pid == getpid() && cred.uid == geteuid(),
              1, "who made the other end");
        close(s[0]), close(s[1]);
    }
    /* Bytes of different senders are not mixed. */
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    set_option(s[1], SO_PASSCRED, 1);
    write(s[0], "a", 1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        write(s[0], "b", 1);
        _exit(0);
    }
    waitpid(child, 0, 0);
    write(s[0], "c", 1);
    write(s[0], "d", 1);
    equal(receive_rights(s[1], text, 64, 1000, 0) == 1 && got_from(getpid()), 1, "one sender's");
    equal(receive_rights(s[1], text, 64, 1000, 0) == 1 && got_creds && got_ucred.pid == child, 1,
          "another's");
    equal(receive_rights(s[1], text, 64, 1000, 0) == 2 && got_from(getpid()), 1,
          "the first one's again, both");
    set_option(s[1], SO_PASSCRED, 0);
    write(s[0], "e", 1);
    equal(receive_rights(s[1], text, 64, 1000, 0) == 1 && !got_creds, 1, "nobody asks any more");
    /* Another one's name. */
    child = fork();
    if (child == 0) {
        if (setgid(4321) || setuid(4321))
            _exit(99);
        int wrong = send_creds(s[0], "x", getpid(), 0, 4321) != -1 || errno != EPERM;
        wrong += send_creds(s[0], "x", getpid(), 4321, 0) != -1 || errno != EPERM;
        wrong += send_creds(s[0], "x", getppid(), 4321, 4321) != -1 || errno != EPERM;
        wrong += send_creds(s[0], "x", getpid(), 4321, 4321) != 1;
        _exit(wrong);
    }
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "only who one is");
    if (getuid() == 0) {
        equal(send_creds(s[0], "x", 1, 5, 6), 1, "the superuser is anybody");
        fails(send_creds(s[0], "x", 0x3fffff, 5, 6), ESRCH, "who is there");
    }
    close(s[0]), close(s[1]);
    /* The two ends: the connected one, and the listener. */
    int fd = listener(SOCK_STREAM, "@who", 5), sent[2];
    if (pipe(sent))
        return;
    child = fork();
    if (child == 0) {
        int end = reached(SOCK_STREAM, "@who");
        struct ucred there;
        socklen_t size = sizeof there;
        int wrong =
            end < 0 || getsockopt(end, SOL_SOCKET, SO_PEERCRED, &there, &size) || there.pid != getppid();
        write(end, "x", 1);
        write(sent[1], "x", 1);
        read(end, text, 1);
        _exit(wrong);
    }
    /* The identity goes along as long as nobody has accepted. */
    read(sent[0], text, 1);
    close(sent[0]), close(sent[1]);
    int got = accept(fd, 0, 0);
    length = sizeof cred;
    equal(getsockopt(got, SOL_SOCKET, SO_PEERCRED, &cred, &length) == 0 && cred.pid == child, 1,
          "who connected");
    set_option(got, SO_PASSCRED, 1);
    equal(receive_rights(got, text, 64, 1000, 0) == 1 && got_creds && got_ucred.pid == child, 1,
          "and sent before it was asked");
    unsigned groups[64];
    length = sizeof groups;
    equal(getsockopt(got, SOL_SOCKET, SO_PEERGROUPS, groups, &length) == 0 &&
              (int)(length / 4) == getgroups(0, 0),
          1, "with which groups");
    close(got);
    waitpid(child, &status, 0);
    equal(status, 0, "it saw who listens");
    length = sizeof cred;
    int fresh = socket(AF_UNIX, SOCK_STREAM, 0);
    equal(getsockopt(fresh, SOL_SOCKET, SO_PEERCRED, &cred, &length) == 0 && cred.pid == 0 &&
              cred.uid == (uid_t)-1,
          1, "nobody at one without an other end");
    length = sizeof groups;
    fails(getsockopt(fresh, SOL_SOCKET, SO_PEERGROUPS, groups, &length), ENODATA, "nor groups");
    close(fresh), close(fd);
}
#endif
