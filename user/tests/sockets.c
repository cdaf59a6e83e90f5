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

#include "sockets-names.h"
#include "sockets-control.h"
#include "sockets-messages.h"
#include "sockets-options.h"

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
