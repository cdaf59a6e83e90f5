/* Checks unix-domain sockets as Linux has them; passes on Linux and must pass here.
 *
 * Interface: sockets [GROUP...] runs all groups, or those named; TAP on standard output. Files are made in a
 * folder of its own below /tmp.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[64];
static pid_t first;

/* The address of `name`, below the folder of this run, or abstract if it begins with `@`; its length. */
static socklen_t named(struct sockaddr_un *address, const char *name)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (name[0] == '@') {
        int length = snprintf(address->sun_path + 1, 100, "sockets-%d-%s", first, name + 1);
        return offsetof(struct sockaddr_un, sun_path) + 1 + length;
    }
    snprintf(address->sun_path, 100, "%s/%s", folder, name);
    return sizeof *address;
}

static int bound(int type, const char *name)
{
    struct sockaddr_un address;
    socklen_t length = named(&address, name);
    int fd = socket(AF_UNIX, type, 0);
    if (fd < 0 || bind(fd, (void *)&address, length) != 0)
        return -1;
    return fd;
}

static int listener(int type, const char *name, int backlog)
{
    int fd = bound(type, name);
    return fd < 0 || listen(fd, backlog) != 0 ? -1 : fd;
}

static int reach(int fd, const char *name)
{
    struct sockaddr_un address;
    socklen_t length = named(&address, name);
    return connect(fd, (void *)&address, length);
}

static int reached(int type, const char *name)
{
    int fd = socket(AF_UNIX, type, 0);
    if (reach(fd, name) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int polled(int fd)
{
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP | POLLPRI, 0};
    return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

static int option(int fd, int name)
{
    int value = -77;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0 ? value : -1;
}

static int set_option(int fd, int name, int value)
{
    return setsockopt(fd, SOL_SOCKET, name, &value, sizeof value);
}

static void nothing(int signo) { (void)signo; }

static atomic_int pipes_broken;
static void count_broken(int signo) { (void)signo, pipes_broken++; }

/* --- pairs of streams --- */

static void pairs(void)
{
    int s[2];
    char bytes[64] = {0};
    equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0, "a pair");
    equal(fcntl(s[0], F_GETFL), O_RDWR, "both ends read and write");
    equal(write(s[0], "one", 3) == 3 && read(s[1], bytes, 64) == 3 && memcmp(bytes, "one", 3) == 0, 1,
          "there");
    equal(write(s[1], "three", 5) == 5 && read(s[0], bytes, 64) == 5 && memcmp(bytes, "three", 5) == 0, 1,
          "and back");
    equal(write(s[0], "abc", 3) == 3 && write(s[0], "def", 3) == 3 && read(s[1], bytes, 4) == 4 &&
              memcmp(bytes, "abcd", 4) == 0 && read(s[1], bytes, 4) == 2 && memcmp(bytes, "ef", 2) == 0,
          1, "bytes have no borders");
    fails(recv(s[0], bytes, 1, MSG_DONTWAIT), EAGAIN, "nothing there, and no wait");
    equal(send(s[0], "xyz", 3, 0) == 3 && recv(s[1], bytes, 2, MSG_PEEK) == 2 &&
              recv(s[1], bytes, 64, 0) == 3,
          1, "a look takes nothing");
    int left;
    equal(send(s[0], "12345", 5, 0) == 5 && ioctl(s[1], FIONREAD, &left) == 0 && left == 5, 1,
          "what can be read is known");
    equal(ioctl(s[0], TIOCOUTQ, &left) == 0 && left >= 5, 1, "what was not read too");
    recv(s[1], bytes, 64, 0);
    equal(ioctl(s[0], TIOCOUTQ, &left) == 0 && left == 0, 1, "until it is");
    equal(read(s[1], bytes, 0), 0, "a read of nothing");
    equal(write(s[1], bytes, 0), 0, "a write of nothing");
    fails(lseek(s[0], 0, SEEK_SET), ESPIPE, "no offset");
    fails(pread(s[0], bytes, 1, 0), ESPIPE, "nowhere to read at");
    fails(pwrite(s[0], bytes, 1, 0), ESPIPE, "nowhere to write at");
    fails(fsync(s[0]), EINVAL, "nothing to store");
    fails(syscall(SYS_write, s[0], 8, 5), EFAULT, "from nowhere");
    write(s[0], "q", 1);
    fails(syscall(SYS_read, s[1], 8, 5), EFAULT, "to nowhere");
    equal(read(s[1], bytes, 64) == 1 && bytes[0] == 'q', 1, "which takes nothing");
    fails(recv(s[0], bytes, 1, MSG_OOB | MSG_DONTWAIT) == -1 && (errno == EOPNOTSUPP || errno == EINVAL)
              ? (errno = EINVAL, -1)
              : 0,
          EINVAL, "nothing out of band");
    struct stat st;
    equal(fstat(s[0], &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0777 && st.st_size == 0, 1,
          "its kind");
    char path[64], target[64] = {0}, expected[64];
    snprintf(path, 64, "/proc/self/fd/%d", s[0]);
    snprintf(expected, 64, "socket:[%lu]", (unsigned long)st.st_ino);
    readlink(path, target, 63);
    equal(strcmp(target, expected), 0, "its name in /proc");
    fails(open(path, O_RDWR), ENXIO, "which opens nothing");
    close(s[0]), close(s[1]);
    equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s) == 0 &&
              fcntl(s[1], F_GETFL) == (O_RDWR | O_NONBLOCK) && fcntl(s[0], F_GETFD) == FD_CLOEXEC,
          1, "its flags");
    fails(read(s[0], bytes, 1), EAGAIN, "a read that does not wait");
    fcntl(s[0], F_SETFL, 0);
    write(s[1], "w", 1);
    equal(read(s[0], bytes, 1), 1, "one that may");
    close(s[0]), close(s[1]);
    fails(socketpair(AF_UNIX, SOCK_STREAM, 5, s), EPROTONOSUPPORT, "an unknown protocol");
    equal(socketpair(AF_UNIX, SOCK_STREAM, AF_UNIX, s), 0, "the only one");
    close(s[0]), close(s[1]);
    fails(socketpair(AF_UNIX, 4, 0, s), ESOCKTNOSUPPORT, "an unknown kind");
    fails(socket(AF_UNIX, 11, 0), EINVAL, "no kind");
    fails(socket(AF_UNIX, SOCK_STREAM | 0x100000, 0), EINVAL, "an unknown flag");
    fails(socket(-1, SOCK_STREAM, 0), EAFNOSUPPORT, "no family");
    fails(socket(46, SOCK_STREAM, 0), EAFNOSUPPORT, "none either");
    fails(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, 8), EFAULT, "to nowhere");
    fails(send(0, "x", 1, 0), ENOTSOCK, "not a socket");
    fails(send(999, "x", 1, 0), EBADF, "nothing");
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    fails(read(fd, bytes, 1), EINVAL, "a read of one that is not connected");
    fails(write(fd, "x", 1), ENOTCONN, "a write");
    fails(accept(fd, 0, 0), EINVAL, "nobody comes");
    fails(listen(fd, 1), EINVAL, "nor can, without a name");
    equal(polled(fd), POLLOUT | POLLHUP, "as poll sees it");
    equal(shutdown(fd, SHUT_WR), 0, "it can be shut");
    fails(shutdown(fd, 3), EINVAL, "in three ways");
    close(fd);
}

/* Many bytes through a small window, by a child, with a sum over them. */
static void floods(void)
{
    enum { TOTAL = 4 << 20 };
    static unsigned char block[70001];
    int s[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
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
    for (;;) {
        ssize_t got = read(s[0], block, 1 + at * 104729 % sizeof block);
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got; i++, at++)
            wrong += block[i] != (unsigned char)(at * 31 >> 3);
    }
    int status;
    waitpid(child, &status, 0);
    equal(at == TOTAL && wrong == 0 && status == 0, 1, "four mebibytes in pieces of all sizes, in order");
    close(s[0]);
    /* There and back, byte by byte. */
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        unsigned char byte;
        close(s[0]);
        while (read(s[1], &byte, 1) == 1) {
            byte++;
            if (write(s[1], &byte, 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    close(s[1]);
    wrong = 0;
    for (int i = 0; i < 3000; i++) {
        unsigned char byte = i, back = 0;
        wrong += write(s[0], &byte, 1) != 1 || read(s[0], &back, 1) != 1 || back != (unsigned char)(i + 1);
    }
    close(s[0]);
    waitpid(child, &status, 0);
    equal(wrong == 0 && status == 0, 1, "3000 bytes there and back");
    /* A full one. */
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s);
    long total = 0;
    for (ssize_t put; (put = write(s[0], block, 4096)) > 0;)
        total += put;
    equal(errno == EAGAIN && total >= 4096, 1, "a full one takes no more");
    equal(polled(s[0]) & POLLOUT, 0, "and says so");
    equal(polled(s[1]), POLLIN | POLLOUT, "at the other end there is something");
    long taken = 0;
    for (ssize_t got; (got = read(s[1], block, sizeof block)) > 0;)
        taken += got;
    equal(taken, total, "all of it comes out");
    equal(polled(s[0]), POLLOUT, "then there is room");
    close(s[0]), close(s[1]);
}

struct writer {
    int fd;
    unsigned char mark;
};

static void *write_lines(void *argument)
{
    struct writer *writer = argument;
    unsigned char line[100];
    memset(line, writer->mark, sizeof line);
    for (int i = 0; i < 500; i++)
        if (write(writer->fd, line, sizeof line) != sizeof line)
            return (void *)1;
    return 0;
}

/* Writers of one end that are many: what each writes stays together. */
static void many_writers(void)
{
    int s[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    pthread_t threads[4];
    struct writer writers[4];
    for (int i = 0; i < 4; i++) {
        writers[i] = (struct writer){s[0], 'a' + i};
        pthread_create(&threads[i], 0, write_lines, &writers[i]);
    }
    int counts[4] = {0}, mixed = 0;
    for (int i = 0; i < 2000; i++) {
        unsigned char line[100];
        if (recv(s[1], line, 100, MSG_WAITALL) != 100) {
            mixed = 1;
            break;
        }
        for (int j = 1; j < 100; j++)
            mixed |= line[j] != line[0];
        counts[(line[0] - 'a') & 3]++;
    }
    void *bad, *any = 0;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], &bad), any = any ? any : bad;
    equal(mixed == 0 && !any && counts[0] == 500 && counts[3] == 500, 1,
          "2000 lines of four writers, none mixed");
    close(s[0]), close(s[1]);
}

/* Until `pid`, which may be a thread, sleeps. */
static void until_thread_sleeps(pid_t thread)
{
    while (!thread_sleeps(thread))
        sched_yield();
}

static void *send_rest(void *fd)
{
    until_thread_sleeps(getpid());
    return (void *)(long)write((long)fd, "def", 3);
}

static void whole(void)
{
    int s[2];
    char text[16] = {0};
    pthread_t thread;
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    write(s[0], "abc", 3);
    pthread_create(&thread, 0, send_rest, (void *)(long)s[0]);
    equal(recv(s[1], text, 6, MSG_WAITALL) == 6 && memcmp(text, "abcdef", 6) == 0, 1,
          "MSG_WAITALL waits for all");
    pthread_join(thread, 0);
    write(s[0], "abc", 3);
    close(s[0]);
    equal(recv(s[1], text, 6, MSG_WAITALL), 3, "or the end");
    close(s[1]);
}

/* --- the ends of streams --- */

static void ends(void)
{
    int s[2];
    char bytes[16];
    struct sigaction action = {.sa_handler = count_broken};
    sigaction(SIGPIPE, &action, 0);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    write(s[0], "last", 4);
    close(s[0]);
    equal(polled(s[1]), POLLIN | POLLOUT | POLLRDHUP | POLLHUP, "the other end is closed");
    equal(read(s[1], bytes, 2), 2, "what it wrote is there");
    equal(read(s[1], bytes, 16), 2, "all of it");
    equal(read(s[1], bytes, 16), 0, "then comes the end");
    equal(read(s[1], bytes, 16), 0, "and stays");
    pipes_broken = 0;
    fails(write(s[1], "x", 1), EPIPE, "nobody reads");
    equal(pipes_broken, 1, "which a signal tells");
    fails(send(s[1], "x", 1, MSG_NOSIGNAL), EPIPE, "nobody reads, and no signal");
    equal(pipes_broken, 1, "none");
    equal(option(s[1], SO_ERROR), 0, "no error is left");
    close(s[1]);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    write(s[0], "unread", 6);
    write(s[1], "before", 6);
    close(s[1]);
    equal(polled(s[0]), POLLIN | POLLOUT | POLLRDHUP | POLLHUP | POLLERR, "closed with something unread");
    equal(read(s[0], bytes, 16), 6, "what came before");
    fails(read(s[0], bytes, 16), ECONNRESET, "then that it did not arrive");
    equal(read(s[0], bytes, 16), 0, "then the end");
    close(s[0]);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    write(s[0], "unread", 6);
    close(s[1]);
    equal(option(s[0], SO_ERROR), ECONNRESET, "the error by option");
    equal(option(s[0], SO_ERROR), 0, "once");
    equal(read(s[0], bytes, 16), 0, "then the end");
    close(s[0]);
    /* Half closed. */
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    write(s[0], "abc", 3);
    equal(shutdown(s[0], SHUT_WR), 0, "no more is written");
    equal(polled(s[1]), POLLIN | POLLOUT | POLLRDHUP, "which the other end sees");
    equal(polled(s[0]), POLLOUT, "and this one not");
    equal(read(s[1], bytes, 16) == 3 && read(s[1], bytes, 16) == 0, 1, "what there was, then the end");
    equal(write(s[1], "back", 4) == 4 && read(s[0], bytes, 16) == 4, 1, "the other way is open");
    pipes_broken = 0;
    fails(write(s[0], "x", 1), EPIPE, "this one is not");
    equal(pipes_broken, 1, "with a signal");
    equal(shutdown(s[1], SHUT_WR), 0, "the other one too");
    equal(polled(s[0]), POLLIN | POLLOUT | POLLRDHUP | POLLHUP, "both ways are closed");
    close(s[0]), close(s[1]);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    write(s[0], "abc", 3);
    equal(shutdown(s[1], SHUT_RD), 0, "no more is read");
    fails(send(s[0], "x", 1, MSG_NOSIGNAL), EPIPE, "so no more can be sent");
    equal(read(s[1], bytes, 16) == 3 && read(s[1], bytes, 16) == 0, 1, "but for what was there");
    equal(write(s[1], "y", 1), 1, "it still writes");
    close(s[0]), close(s[1]);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    equal(shutdown(s[0], SHUT_RDWR), 0, "all is shut");
    equal(polled(s[0]), POLLIN | POLLOUT | POLLRDHUP | POLLHUP, "at this end");
    equal(polled(s[1]), POLLIN | POLLOUT | POLLRDHUP | POLLHUP, "at that");
    equal(read(s[1], bytes, 1) == 0 && read(s[0], bytes, 1) == 0, 1, "nothing comes");
    close(s[0]), close(s[1]);
    /* Sleepers. */
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(s[1]);
        char byte;
        _exit(read(s[0], &byte, 1) != 0);
    }
    close(s[0]);
    usleep(5000);
    close(s[1]);
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "who waits to read is told of the end");
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        close(s[1]);
        static char much[1 << 20];
        signal(SIGPIPE, SIG_IGN);
        ssize_t put = write(s[0], much, sizeof much);
        _exit(put < 1 || put == sizeof much || write(s[0], much, 1) != -1 || errno != EPIPE);
    }
    close(s[0]);
    read(s[1], bytes, 1);
    close(s[1]);
    waitpid(child, &status, 0);
    equal(status, 0, "and who waits to write");
    action.sa_handler = SIG_DFL;
    sigaction(SIGPIPE, &action, 0);
}

/* --- names and listeners --- */

static void names(void)
{
    struct sockaddr_un address;
    socklen_t length = sizeof address;
    int fd = bound(SOCK_STREAM, "first");
    check(fd >= 0, "a name in the file system");
    struct stat st;
    char path[128];
    snprintf(path, sizeof path, "%s/first", folder);
    equal(stat(path, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0755, 1,
          "is a socket's, less the umask");
    getsockname(fd, (void *)&address, &length);
    equal(length == 2 + strlen(path) + 1 && strcmp(address.sun_path, path) == 0, 1, "its name");
    fails(bound(SOCK_STREAM, "first"), EADDRINUSE, "is taken");
    socklen_t other = named(&address, "second");
    fails(bind(fd, (void *)&address, other), EINVAL, "it has one already");
    fails(open(path, O_RDWR), ENXIO, "it cannot be opened");
    fails(reached(SOCK_STREAM, "first"), ECONNREFUSED, "nobody listens");
    fails(reached(SOCK_STREAM, "nobody"), ENOENT, "no such name");
    fails(reached(SOCK_STREAM, "first/more"), ENOTDIR, "nor below it");
    equal(listen(fd, 5), 0, "somebody listens");
    fails(reached(SOCK_DGRAM, "first"), EPROTOTYPE, "of another kind");
    int end = reached(SOCK_STREAM, "first");
    check(end >= 0, "reached");
    fails(reach(end, "first"), EISCONN, "it is");
    fails(listen(end, 1), EINVAL, "it cannot listen now");
    length = sizeof address;
    equal(getsockname(end, (void *)&address, &length) == 0 && length == 2 && address.sun_family == AF_UNIX, 1,
          "its own name is none");
    length = sizeof address;
    equal(getpeername(end, (void *)&address, &length) == 0 && strcmp(address.sun_path, path) == 0, 1,
          "that of the other end");
    length = sizeof address;
    memset(&address, 7, sizeof address);
    int got = accept4(fd, (void *)&address, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    equal(got >= 0 && length == 2 && address.sun_family == AF_UNIX, 1, "who came has no name");
    equal(fcntl(got, F_GETFD) == FD_CLOEXEC && fcntl(got, F_GETFL) == (O_RDWR | O_NONBLOCK), 1,
          "flags of accept4");
    length = sizeof address;
    equal(getsockname(got, (void *)&address, &length) == 0 && strcmp(address.sun_path, path) == 0, 1,
          "it has the listener's name");
    char bytes[16];
    equal(write(end, "hello", 5) == 5 && read(got, bytes, 16) == 5 && write(got, "you", 3) == 3 &&
              read(end, bytes, 16) == 3,
          1, "both talk");
    close(got), close(end);
    fails(accept4(fd, 0, 0, 1), EINVAL, "an unknown flag");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fails(accept(fd, 0, 0), EAGAIN, "nobody else came");
    fails(reach(fd, "first"), EINVAL, "a listener reaches nobody");
    fails(read(fd, bytes, 1), EINVAL, "nor reads");
    fails(write(fd, bytes, 1), ENOTCONN, "nor writes");
    end = reached(SOCK_STREAM, "first");
    close(fd);
    equal(read(end, bytes, 1) == -1 && errno == ECONNRESET, 1, "a listener that goes resets who waits");
    close(end);
    fails(reached(SOCK_STREAM, "first"), ECONNREFUSED, "what is left is a name");
    fails(bound(SOCK_STREAM, "first"), EADDRINUSE, "that is taken");
    unlink(path);
    fails(reached(SOCK_STREAM, "first"), ENOENT, "until it is removed");
    fd = listener(SOCK_STREAM, "first", 1);
    check(fd >= 0, "then it can be had again");
    char moved[140];
    snprintf(moved, sizeof moved, "%s.moved", path);
    rename(path, moved);
    end = reached(SOCK_STREAM, "first.moved");
    check(end >= 0, "a name that was moved leads there");
    close(end);
    unlink(moved);
    close(fd);
    /* Abstract ones. */
    fd = listener(SOCK_STREAM, "@a", 5);
    check(fd >= 0, "a name of its own");
    length = sizeof address;
    getsockname(fd, (void *)&address, &length);
    struct sockaddr_un same;
    equal(length == named(&same, "@a") && memcmp(&address, &same, length) == 0, 1, "is what it was bound to");
    fails(bound(SOCK_STREAM, "@a"), EADDRINUSE, "and taken");
    int datagrams = bound(SOCK_DGRAM, "@a");
    check(datagrams >= 0, "for its kind");
    close(datagrams);
    end = reached(SOCK_STREAM, "@a");
    check(end >= 0, "reached");
    close(end);
    fails(reached(SOCK_STREAM, "@ab"), ECONNREFUSED, "a longer one is another");
    close(fd);
    fails(reached(SOCK_STREAM, "@a"), ECONNREFUSED, "it goes with its socket");
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    address.sun_family = AF_UNIX;
    equal(bind(fd, (void *)&address, 2), 0, "a name that the system chooses");
    length = sizeof address;
    getsockname(fd, (void *)&address, &length);
    equal(length == 8 && address.sun_path[0] == 0 && strspn(address.sun_path + 1, "0123456789abcdef") >= 5, 1,
          "of five digits");
    equal(bind(fd, (void *)&address, 2), 0, "once");
    close(fd);
    /* Wrong ones. */
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    named(&address, "x");
    fails(bind(fd, (void *)&address, 1), EINVAL, "too short for a family");
    fails(bind(fd, (void *)&address, 111), EINVAL, "too long");
    fails(bind(fd, (void *)&address, 1000), EINVAL, "much too long");
    fails(bind(fd, (void *)&address, -1), EINVAL, "less than nothing");
    fails(bind(fd, (void *)8, 20), EFAULT, "at nowhere");
    address.sun_family = AF_INET;
    fails(bind(fd, (void *)&address, 30), EINVAL, "of another family");
    fails(connect(fd, (void *)&address, 30), EINVAL, "nor reached");
    address.sun_family = AF_UNSPEC;
    fails(connect(fd, (void *)&address, 30), EINVAL, "a stream is not let go");
    named(&address, "nowhere/x");
    fails(bind(fd, (void *)&address, sizeof address), ENOENT, "in no folder");
    fails(getpeername(fd, (void *)&address, &length), ENOTCONN, "no other end");
    length = -1;
    fails(getsockname(fd, (void *)&address, &length), EINVAL, "less than no room");
    length = 1;
    memset(&address, 9, sizeof address);
    equal(getsockname(fd, (void *)&address, &length) == 0 && length == 2 && ((char *)&address)[1] == 9, 1,
          "what there is room for");
    close(fd);
    /* All 108 bytes, without an end. */
    fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    int used = snprintf(address.sun_path, sizeof address.sun_path, "%s/", folder);
    memset(address.sun_path + used, 'n', sizeof address.sun_path - used);
    equal(bind(fd, (void *)&address, sizeof address), 0, "a name of 108 bytes");
    char whole[200];
    struct sockaddr_un *long_one = (void *)whole;
    length = sizeof whole;
    equal(getsockname(fd, (void *)long_one, &length) == 0 && length == 111, 1, "is told with its end");
    memcpy(whole + 110, "", 1);
    unlink(whole + 2);
    close(fd);
    /* Relative to where one stands. */
    char back[256];
    getcwd(back, sizeof back);
    chdir(folder);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, "here");
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    equal(bind(fd, (void *)&address, 7), 0, "a short path, without an end");
    listen(fd, 1);
    chdir(back);
    end = reached(SOCK_STREAM, "here");
    check(end >= 0, "reached from elsewhere");
    length = sizeof address;
    getpeername(end, (void *)&address, &length);
    equal(length == 7 && strcmp(address.sun_path, "here") == 0, 1, "by the name that it was given");
    close(end), close(fd);
    named(&address, "here");
    unlink(address.sun_path);
}

static void *connect_later(void *name) { return (void *)(long)reached(SOCK_STREAM, name); }

static void backlogs(void)
{
    char bytes[4];
    int fd = listener(SOCK_STREAM, "@b", 1), waiting[3];
    equal(option(fd, SO_ACCEPTCONN), 1, "it listens");
    equal(polled(fd), 0, "nobody comes");
    for (int i = 0; i < 2; i++) {
        waiting[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        equal(reach(waiting[i], "@b"), 0, "one may wait, and another");
    }
    equal(polled(fd), POLLIN, "somebody does");
    waiting[2] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    fails(reach(waiting[2], "@b"), EAGAIN, "no third");
    write(waiting[0], "first", 5);
    pthread_t thread;
    pthread_create(&thread, 0, connect_later, "@b");
    int got = accept(fd, 0, 0);
    equal(got >= 0 && recv(got, bytes, 1, 0) == 1 && bytes[0] == 'f', 1,
          "the first one comes first, with what it sent");
    close(got);
    void *end;
    pthread_join(thread, &end);
    check((long)end >= 0, "who waited for room is in");
    equal(listen(fd, 3), 0, "more may wait");
    equal(reach(waiting[2], "@b"), 0, "and do");
    for (int i = 0; i < 3; i++)
        close(accept(fd, 0, 0));
    equal(polled(fd), 0, "all were let in");
    struct timeval soon = {0, 20000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    fails(accept(fd, 0, 0), EAGAIN, "nobody comes in time");
    equal(shutdown(fd, SHUT_RD), 0, "no more are let in");
    fails(reach(waiting[0], "@b") == -1 && (errno == ECONNREFUSED || errno == EISCONN)
              ? (errno = ECONNREFUSED, -1)
              : 0,
          ECONNREFUSED, "nor reach it");
    fails(reached(SOCK_STREAM, "@b"), ECONNREFUSED, "nobody does");
    fails(accept(fd, 0, 0), EINVAL, "nobody is let in");
    close(fd), close((long)end);
    for (int i = 0; i < 3; i++)
        close(waiting[i]);
}

static atomic_int waiter;

static void *connect_in_vain(void *name)
{
    waiter = gettid();
    int fd = reached(SOCK_STREAM, name), error = errno;
    close(fd);
    return (void *)(long)(fd >= 0 ? 0 : error);
}

static void *accept_in_vain(void *fd)
{
    waiter = gettid();
    int got = accept((long)fd, 0, 0), error = errno;
    close(got);
    return (void *)(long)(got >= 0 ? 0 : error);
}

/* Runs `body` in a thread, which sleeps when this returns. */
static pthread_t asleep_in(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    waiter = 0;
    pthread_create(&thread, 0, body, argument);
    while (!waiter)
        sched_yield();
    until_thread_sleeps(waiter);
    return thread;
}

/* A thread that waits at a listener is told that it has gone. */
static void listeners_end(void)
{
    void *told;
    int fd = listener(SOCK_STREAM, "@e", 0), first_in = reached(SOCK_STREAM, "@e");
    pthread_t thread = asleep_in(connect_in_vain, "@e");
    close(fd);
    pthread_join(thread, &told);
    equal((long)told, ECONNREFUSED, "who waits for room hears that the listener is closed");
    close(first_in);
    fd = listener(SOCK_STREAM, "@e", 0);
    thread = asleep_in(accept_in_vain, (void *)(long)fd);
    shutdown(fd, SHUT_RD);
    pthread_join(thread, &told);
    equal((long)told, EINVAL, "who waits to accept hears that it is shut");
    close(fd);
}

enum { RUSHES = 1000, RUSHING = 4 };
static pthread_barrier_t rush;
static atomic_int rushed, rush_here;

static void *rush_in(void *unused)
{
    (void)unused;
    for (int i = 0; i < RUSHES; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        /* Closer together than a barrier lets them go. */
        rush_here++;
        for (int looks = 0; rush_here < (i + 1) * RUSHING; looks++)
            if (looks > 2000)
                sched_yield();
        rushed += reach(fd, "@rush") == 0;
        pthread_barrier_wait(&rush);
        pthread_barrier_wait(&rush);
        close(fd);
    }
    return 0;
}

/* Several at once for one place. */
static void rushes(void)
{
    int fd = listener(SOCK_STREAM, "@rush", 0), wrong = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    rushed = rush_here = 0;
    pthread_t threads[RUSHING];
    pthread_barrier_init(&rush, 0, RUSHING + 1);
    for (int i = 0; i < RUSHING; i++)
        pthread_create(&threads[i], 0, rush_in, 0);
    for (int i = 0; i < RUSHES; i++) {
        pthread_barrier_wait(&rush);
        wrong += rushed != 1;
        rushed = 0;
        for (int got; (got = accept(fd, 0, 0)) >= 0;)
            close(got);
        pthread_barrier_wait(&rush);
    }
    for (int i = 0; i < RUSHING; i++)
        pthread_join(threads[i], 0);
    equal(wrong, 0, "of four at once one gets the only place");
    pthread_barrier_destroy(&rush);
    close(fd);
}

static void *serve(void *listening)
{
    for (int i = 0; i < 200; i++) {
        int fd = accept((long)listening, 0, 0);
        char byte;
        if (fd < 0 || read(fd, &byte, 1) != 1 || write(fd, &byte, 1) != 1)
            return (void *)1;
        close(fd);
    }
    return 0;
}

static void *call(void *wrong)
{
    for (int i = 0; i < 100; i++) {
        int fd = reached(SOCK_STREAM, "@serve");
        char byte = i, back = 0;
        if (fd < 0 || write(fd, &byte, 1) != 1 || read(fd, &back, 1) != 1 || back != byte ||
            read(fd, &back, 1) != 0)
            ++*(int *)wrong;
        close(fd);
    }
    return 0;
}

static void calls(void)
{
    int fd = listener(SOCK_STREAM, "@serve", 2), wrong[4] = {0};
    pthread_t servers[2], callers[4];
    for (int i = 0; i < 2; i++)
        pthread_create(&servers[i], 0, serve, (void *)(long)fd);
    for (int i = 0; i < 4; i++)
        pthread_create(&callers[i], 0, call, &wrong[i]);
    void *bad, *any = 0;
    for (int i = 0; i < 4; i++)
        pthread_join(callers[i], 0);
    for (int i = 0; i < 2; i++)
        pthread_join(servers[i], &bad), any = any ? any : bad;
    equal(!any && wrong[0] + wrong[1] + wrong[2] + wrong[3] == 0, 1,
          "400 connections of four callers to two servers");
    close(fd);
}

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

int main(int argc, char **argv)
{
    static const struct group all[] = {
        {"pairs", pairs},
        {"floods", floods},
        {"many_writers", many_writers},
        {"whole", whole},
        {"ends", ends},
        {"names", names},
        {"backlogs", backlogs},
        {"listeners_end", listeners_end},
        {"rushes", rushes},
        {"calls", calls},
        {"rights", rights},
        {"cycles", cycles},
        {"too_many", too_many},
        {"credentials", credentials},
        {"datagrams", datagrams},
        {"told of room", told_of_room},
        {"packets", packets},
        {"many_messages", many_messages},
        {"hostile", hostile},
        {"options", options},
        {"watched", watched},
        {"permissions", permissions},
        {"traffic", traffic},
    };
    umask(022);
    first = getpid();
    strcpy(folder, "/tmp/sockets-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    run_groups(GROUPS(all), 0, argc, argv);
    rmdir(folder);
    return done();
}
