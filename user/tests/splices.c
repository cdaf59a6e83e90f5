/* Checks moves between pipes, files, sockets and terminals as Linux has them, and the size of a pipe; passes
 * on Linux and must pass here.
 *
 * Interface: splices [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define MIB (1 << 20)
#define NB SPLICE_F_NONBLOCK

static char block[2 * MIB] __attribute__((aligned(PAGE))), back[2 * MIB];
static volatile int rung;

static void ring(int signal)
{
    (void)signal;
    rung++;
}

static int file_with(size_t size)
{
    int fd = memfd_create("splices", 0);
    (void)!write(fd, block, size);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static int left(int fd)
{
    int count = -1;
    ioctl(fd, FIONREAD, &count);
    return count;
}

static long at(int fd) { return lseek(fd, 0, SEEK_CUR); }

/* Fills a pipe whose writing end does not block; how many bytes that took. */
static long fill(int fd)
{
    long total = 0, count;
    while ((count = write(fd, block + total % PAGE, PAGE)) > 0)
        total += count;
    return total;
}

static void drain(int fd)
{
    while (read(fd, back, sizeof back) > 0)
        ;
}

static void sizes(void)
{
    int p[2], other[2], other_end;
    (void)!pipe2(p, O_NONBLOCK);
    equal(fcntl(p[0], F_GETPIPE_SZ), 65536, "the usual size");
    equal(fcntl(p[1], F_GETPIPE_SZ), 65536, "by the other end");
    equal(fill(p[1]), 65536, "it is what fits");
    fails(fcntl(p[1], F_SETPIPE_SZ, PAGE), EBUSY, "what is in it would not fit");
    equal(fcntl(p[1], F_GETPIPE_SZ), 65536, "nothing changed");
    equal(fcntl(p[1], F_SETPIPE_SZ, 2 * 65536), 2 * 65536, "larger with bytes inside");
    equal(left(p[0]), 65536, "which stay");
    equal(fill(p[1]), 65536, "as many more fit");
    equal(read(p[0], back, sizeof back), 2 * 65536, "all are read");
    int same = 1;
    for (long i = 0; i < 2 * 65536; i++)
        same &= back[i] == block[i % PAGE];
    check(same, "in their order");
    fails(read(p[0], back, 1), EAGAIN, "then it is empty");
    static const long rounding[][2] = {{0, PAGE},       {1, PAGE},        {4095, PAGE},
                                       {4096, PAGE},    {4097, 2 * PAGE}, {10000, 4 * PAGE},
                                       {65537, 131072}, {1000000, MIB},   {65536, 65536}};
    for (size_t i = 0; i < sizeof rounding / sizeof *rounding; i++) {
        char name[64];
        snprintf(name, sizeof name, "%ld bytes wanted", rounding[i][0]);
        equal(fcntl(p[i % 2], F_SETPIPE_SZ, rounding[i][0]), rounding[i][1], name);
        equal(fcntl(p[1], F_GETPIPE_SZ), rounding[i][1], "given");
        equal(fill(p[1]), rounding[i][1], "fits");
        struct pollfd look[2] = {{p[0], POLLIN, 0}, {p[1], POLLOUT, 0}};
        equal(poll(look, 2, 0), 1, "full: one end is ready");
        equal(look[0].revents, POLLIN, "to read");
        drain(p[0]);
        equal(poll(look, 2, 0), 1, "empty: one end is ready");
        equal(look[1].revents, POLLOUT, "to write");
    }
    fails(fcntl(p[0], F_SETPIPE_SZ, (1ul << 31) + 1), EINVAL, "too large by far");
    fails(fcntl(p[0], F_SETPIPE_SZ, -1), EINVAL, "nothing at all");
    int file = file_with(1), null = open("/dev/null", O_RDWR), event = eventfd(0, 0), way = open("/", O_PATH);
    fails(fcntl(file, F_GETPIPE_SZ), EBADF, "no pipe");
    fails(fcntl(file, F_SETPIPE_SZ, PAGE), EBADF, "no pipe to size");
    fails(fcntl(null, F_GETPIPE_SZ), EBADF, "a device is none");
    fails(fcntl(event, F_GETPIPE_SZ), EBADF, "a counter is none");
    fails(fcntl(way, F_GETPIPE_SZ), EBADF, "nor a path");
    fails(fcntl(999, F_GETPIPE_SZ), EBADF, "nor nothing");
    close(file), close(null), close(event), close(way);
    /* A sleeper on the old queue finds the new one. */
    (void)!pipe(other);
    pid_t child = fork();
    if (child == 0)
        _exit(read(other[0], back, 10) == 3 && memcmp(back, "new", 3) == 0 ? 0 : 1);
    until_asleep(child);
    equal(fcntl(other[1], F_SETPIPE_SZ, PAGE), PAGE, "smaller under a reader that sleeps");
    equal(write(other[1], "new", 3), 3, "written then");
    equal(status_of(child), 0, "it reads that");
    equal(fcntl(other[1], F_SETFL, O_NONBLOCK), 0, "no waiting");
    equal(fill(other[1]), PAGE, "filled");
    fcntl(other[1], F_SETFL, 0);
    child = fork();
    if (child == 0)
        _exit(write(other[1], "late", 4) == 4 ? 0 : 1);
    until_asleep(child);
    equal(fcntl(other[0], F_SETPIPE_SZ, 2 * PAGE), 2 * PAGE, "larger under a writer that sleeps");
    equal(status_of(child), 0, "it has written");
    equal(left(other[0]), PAGE + 4, "that many are there");
    /* A poller, and an epoll instance, that were there before. */
    drain(other[0] + 0 * fcntl(other[0], F_SETFL, O_NONBLOCK));
    int poller = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN}, got;
    epoll_ctl(poller, EPOLL_CTL_ADD, other[0], &wanted);
    equal(epoll_wait(poller, &got, 1, 0), 0, "nothing to read");
    child = fork();
    if (child == 0) {
        struct pollfd look = {other[0], POLLIN, 0};
        _exit(poll(&look, 1, -1) == 1 ? 0 : 1);
    }
    until_asleep(child);
    equal(fcntl(other[0], F_SETPIPE_SZ, 4 * PAGE), 4 * PAGE, "a size under those who watch");
    equal(epoll_wait(poller, &got, 1, 0), 0, "still nothing");
    equal(write(other[1], "x", 1), 1, "a byte");
    equal(status_of(child), 0, "the poller is told");
    equal(epoll_wait(poller, &got, 1, -1), 1, "and the instance");
    close(poller);
    /* End of file and the broken pipe, as before. */
    int copy = dup(other[1]);
    close(other[1]);
    equal(read(other[0], back, 10), 1, "what is left");
    fails(read(other[0], back, 10), EAGAIN, "the copy holds the pipe");
    close(copy);
    equal(read(other[0], back, 10), 0, "the end");
    close(other[0]);
    signal(SIGPIPE, SIG_IGN);
    (void)!pipe(other);
    fcntl(other[0], F_SETPIPE_SZ, MIB);
    equal(write(other[1], block, 1000000), 1000000, "a megabyte goes in");
    close(other[0]);
    fails(write(other[1], "x", 1), EPIPE, "nobody reads");
    close(other[1]);
    /* A fifo. */
    mkfifo("/tmp/splices.fifo", 0600);
    other_end = open("/tmp/splices.fifo", O_RDWR | O_NONBLOCK);
    equal(fcntl(other_end, F_GETPIPE_SZ), 65536, "a fifo's size");
    int reader = open("/tmp/splices.fifo", O_RDONLY | O_NONBLOCK);
    struct pollfd look = {reader, POLLIN, 0};
    equal(poll(&look, 1, 0) + poll(&look, 1, 0) + poll(&look, 1, 0), 0, "looked at thrice");
    equal(fcntl(other_end, F_SETPIPE_SZ, MIB), MIB, "changed");
    equal(fill(other_end), MIB, "fits");
    equal(poll(&look, 1, 0), 1, "its reader sees");
    equal(read(reader, back, sizeof back), MIB, "and reads");
    close(reader), close(other_end);
    other_end = open("/tmp/splices.fifo", O_RDWR | O_NONBLOCK);
    equal(fcntl(other_end, F_GETPIPE_SZ), 65536, "anew when all have left");
    close(other_end);
    unlink("/tmp/splices.fifo");
    close(p[0]), close(p[1]);
    /* Looks that were made before. */
    (void)!pipe2(p, O_NONBLOCK);
    struct pollfd both[2] = {{p[0], POLLIN, 0}, {p[1], POLLOUT, 0}};
    for (int i = 0; i < 4; i++)
        poll(both, 2, 0);
    fcntl(p[0], F_SETPIPE_SZ, PAGE);
    equal(poll(both, 2, 0), 1, "empty, looked at as before");
    equal(both[1].revents, POLLOUT, "has room");
    fill(p[1]);
    equal(poll(both, 2, 0), 1, "full, looked at as before");
    equal(both[0].revents, POLLIN, "has bytes");
    close(p[0]), close(p[1]);
    (void)!pipe(p);
    equal(fcntl(p[0], F_GETPIPE_SZ), 65536, "the next pipe is as usual");
    /* A pipe between processes whose routines were each one's own. */
    child = fork();
    if (child == 0) {
        close(p[0]);
        unsigned char next = 0;
        for (long i = 0; i < 300000; i++, next++)
            if (write(p[1], &next, 1) != 1)
                _exit(1);
        _exit(0);
    }
    close(p[1]);
    unsigned char expected = 0;
    long total = 0, count, size = 0;
    same = 1;
    while ((count = read(p[0], back, 1 + total % 5000)) > 0) {
        for (long i = 0; i < count; i++)
            same &= (unsigned char)back[i] == expected++;
        total += count;
        if (total / 3000 != size)
            fcntl(p[0], F_SETPIPE_SZ, PAGE << (size = total / 3000) % 6);
    }
    equal(total, 300000, "sized a hundred times while bytes run");
    check(same, "none lost or doubled");
    equal(status_of(child), 0, "who wrote them");
    close(p[0]);
}

/* Whether this capability is effective. */
static int may(int capability)
{
    char line[256];
    unsigned long set = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file))
        sscanf(line, "CapEff: %lx", &set);
    fclose(file);
    return set >> capability & 1;
}

static void bounds(void)
{
    char text[64] = {0};
    int fd = open("/proc/sys/fs/pipe-max-size", O_RDONLY);
    check(read(fd, text, 63) > 0 && atol(text) >= PAGE, "pipe-max-size");
    long most = atol(text);
    close(fd);
    for (int i = 0; i < 2; i++) {
        fd = open(i ? "/proc/sys/fs/pipe-user-pages-hard" : "/proc/sys/fs/pipe-user-pages-soft", O_RDONLY);
        check(read(fd, text, 63) > 0, "pages of a user");
        close(fd);
    }
    pid_t child = fork();
    if (child == 0) {
        int p[2], bad = 0;
        (void)!setgid(1234), (void)!setuid(1234);
        (void)!pipe(p);
        bad |= (fcntl(p[0], F_SETPIPE_SZ, most) != most) << 0;
        bad |= !(fcntl(p[0], F_SETPIPE_SZ, most + 1) == -1 && errno == EPERM) << 1;
        bad |= (fcntl(p[0], F_GETPIPE_SZ) != most) << 2;
        bad |= (fcntl(p[0], F_SETPIPE_SZ, PAGE) != PAGE) << 3;
        /* No more than pipe-user-pages-soft, however many pipes. */
        int refused = 0;
        for (int i = 0; i < 100 && !refused; i++) {
            if (pipe(p) != 0)
                break;
            refused = fcntl(p[0], F_SETPIPE_SZ, most) == -1 && errno == EPERM;
        }
        bad |= !refused << 4;
        _exit(bad);
    }
    if (geteuid() == 0)
        equal(status_of(child) >> 8, 0, "an ordinary user is bounded");
    else
        waitpid(child, NULL, 0);
    if (geteuid() == 0) {
        int p[2];
        (void)!pipe(p);
        /* On Linux only where the superuser has its capabilities. */
        long got = fcntl(p[0], F_SETPIPE_SZ, 2 * most);
        check(got == 2 * most || (got == -1 && errno == EPERM && !may(24)), "the superuser may go beyond");
        close(p[0]), close(p[1]);
        fd = open("/proc/sys/fs/pipe-max-size", O_WRONLY);
        equal(write(fd, "100000", 6), 6, "pipe-max-size set");
        close(fd);
        fd = open("/proc/sys/fs/pipe-max-size", O_RDONLY);
        memset(text, 0, sizeof text);
        (void)!read(fd, text, 63);
        equal(atol(text), 131072, "rounded");
        close(fd);
        fd = open("/proc/sys/fs/pipe-max-size", O_WRONLY);
        fails(write(fd, "x", 1), EINVAL, "no number");
        close(fd);
        snprintf(text, sizeof text, "%ld", most);
        fd = open("/proc/sys/fs/pipe-max-size", O_WRONLY);
        check(write(fd, text, strlen(text)) > 0, "as it was");
        close(fd);
    }
}

static void moves(void)
{
    int p[2], q[2], sock[2];
    (void)!pipe(p), (void)!pipe(q);
    int file = file_with(100000), to = memfd_create("to", 0);
    loff_t off;
    /* File to pipe. */
    equal(splice(file, NULL, p[1], NULL, 1000, 0), 1000, "file to pipe");
    equal(at(file), 1000, "moves the offset");
    equal(left(p[0]), 1000, "they are there");
    off = 5000;
    equal(splice(file, &off, p[1], NULL, 500, 0), 500, "from an offset");
    equal(off, 5500, "which moves");
    equal(at(file), 1000, "the file's own does not");
    off = 99990;
    equal(splice(file, &off, p[1], NULL, 500, 0), 10, "up to the end");
    equal(splice(file, &off, p[1], NULL, 500, 0), 0, "at the end");
    equal(read(p[0], back, sizeof back), 1510, "all of it");
    check(memcmp(back, block, 1000) == 0 && memcmp(back + 1000, block + 5000, 500) == 0 &&
              memcmp(back + 1500, block + 99990, 10) == 0,
          "the same bytes");
    off = 0;
    equal(splice(file, &off, p[1], NULL, 100000, 0), 65536, "no more than fits");
    fails(splice(file, &off, p[1], NULL, 100000, NB), EAGAIN, "full");
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    fails(splice(file, &off, p[1], NULL, 100000, 0), EAGAIN, "full, by the descriptor's flag");
    fcntl(p[1], F_SETFL, 0);
    /* Pipe to file. */
    off = 10;
    equal(splice(p[0], NULL, to, &off, 100, SPLICE_F_MOVE | SPLICE_F_MORE), 100, "pipe to file at an offset");
    equal(off, 110, "which moves");
    equal(at(to), 0, "not its own");
    equal(splice(p[0], NULL, to, NULL, 65536, 0), 65436, "the rest");
    equal(at(to), 65436, "moves its own");
    equal(pread(to, back, 65436, 0), 65436, "read back");
    check(memcmp(back, block + 100, 65436) == 0, "the same");
    fails(splice(p[0], NULL, to, NULL, 1, NB), EAGAIN, "empty");
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    fails(splice(p[0], NULL, to, NULL, 1, 0), EAGAIN, "empty, by the descriptor's flag");
    fcntl(p[0], F_SETFL, 0);
    /* Pipe to pipe. */
    equal(write(p[1], block, 3000), 3000, "written");
    equal(splice(p[0], NULL, q[1], NULL, 1000, 0), 1000, "pipe to pipe");
    equal(splice(p[0], NULL, q[1], NULL, 10000, 0), 2000, "what there is");
    equal(read(q[0], back, sizeof back), 3000, "all");
    check(memcmp(back, block, 3000) == 0, "in order");
    fails(splice(p[0], NULL, q[1], NULL, 1, NB), EAGAIN, "nothing there");
    /* Tee. */
    equal(write(p[1], block, 3000), 3000, "written again");
    equal(tee(p[0], q[1], 1000, 0), 1000, "a part is copied");
    equal(tee(p[0], q[1], 100000, 0), 3000, "and all of it");
    equal(left(p[0]), 3000, "nothing is taken");
    equal(left(q[0]), 4000, "all came");
    equal(read(q[0], back, sizeof back), 4000, "read");
    check(memcmp(back, block, 1000) == 0 && memcmp(back + 1000, block, 3000) == 0, "the same bytes twice");
    drain(p[0] + 0 * fcntl(p[0], F_SETFL, O_NONBLOCK));
    fails(tee(p[0], q[1], 10, 0), EAGAIN, "nothing to copy");
    fcntl(p[0], F_SETFL, 0);
    fails(tee(p[0], q[1], 10, NB), EAGAIN, "nor by its own flag");
    fails(tee(p[0], p[1], 10, 0), EINVAL, "into itself");
    fails(tee(p[0], to, 10, 0), EINVAL, "into a file");
    fails(tee(file, p[1], 10, 0), EINVAL, "from a file");
    fails(tee(p[1], q[1], 10, 0), EBADF, "from a writing end");
    fails(tee(p[0], q[0], 10, 0), EBADF, "into a reading end");
    fails(tee(p[0], q[1], 10, 16), EINVAL, "an unknown flag");
    equal(tee(p[0], q[1], 0, 0), 0, "nothing asked");
    fails(tee(999, q[1], 1, 0), EBADF, "no descriptor");
    /* Errors of splice. */
    off = 0;
    fails(splice(p[0], &off, to, NULL, 1, 0), ESPIPE, "an offset of a pipe");
    fails(splice(file, NULL, p[1], &off, 1, 0), ESPIPE, "of the other");
    fails(splice(file, NULL, to, NULL, 1, 0), EINVAL, "no pipe");
    fails(splice(p[0], NULL, p[1], NULL, 1, 0), EINVAL, "into itself");
    fails(splice(p[1], NULL, to, NULL, 1, 0), EBADF, "a writing end");
    fails(splice(file, NULL, p[0], NULL, 1, 0), EBADF, "a reading end");
    fails(splice(file, NULL, p[1], NULL, 1, 16), EINVAL, "an unknown flag");
    fails(splice(999, NULL, p[1], NULL, 1, 0), EBADF, "no descriptor");
    fails(splice(file, NULL, 999, NULL, 1, 0), EBADF, "none on the other side");
    equal(splice(999, NULL, 999, NULL, 0, 0), 0, "nothing asked");
    fails(syscall(SYS_splice, file, 8, p[1], 0, 1, 0), EFAULT, "a wild offset");
    off = -1;
    fails(splice(file, &off, p[1], NULL, 1, 0), EINVAL, "before the beginning");
    int event = eventfd(1, 0), poller = epoll_create1(0), folder = open("/", O_RDONLY);
    fails(splice(event, NULL, p[1], NULL, 8, 0), EINVAL, "from a counter");
    equal(write(p[1], block, 8), 8, "eight bytes");
    fails(splice(p[0], NULL, event, NULL, 8, 0), EINVAL, "to a counter");
    fails(splice(p[0], NULL, poller, NULL, 8, 0), EINVAL, "to an epoll instance");
    fails(splice(folder, NULL, p[1], NULL, 8, 0), EINVAL, "from a directory");
    int appending = open("/tmp/splices.file", O_CREAT | O_WRONLY | O_APPEND, 0600);
    fails(splice(p[0], NULL, appending, NULL, 8, 0), EINVAL, "to the end of a file");
    close(appending);
    int readonly = open("/tmp/splices.file", O_RDONLY);
    fails(splice(p[0], NULL, readonly, NULL, 8, 0), EBADF, "to what may only be read");
    close(readonly), unlink("/tmp/splices.file");
    equal(left(p[0]), 8, "nothing was lost");
    close(event), close(poller), close(folder);
    /* Devices. */
    int null = open("/dev/null", O_RDWR);
    equal(splice(p[0], NULL, null, NULL, 100, 0), 8, "to the null device");
    close(null);
    /* Sockets. */
    socketpair(AF_UNIX, SOCK_STREAM, 0, sock);
    equal(write(p[1], block, 5000), 5000, "for a socket");
    equal(splice(p[0], NULL, sock[0], NULL, 5000, 0), 5000, "pipe to socket");
    off = 0;
    fails(splice(sock[1], &off, q[1], NULL, 5000, 0), EINVAL, "an offset in a socket");
    long count = 0, got;
    while (count < 5000 && (got = splice(sock[1], NULL, q[1], NULL, 5000, 0)) > 0)
        count += got;
    equal(count, 5000, "socket to pipe");
    equal(read(q[0], back, sizeof back), 5000, "there");
    check(memcmp(back, block, 5000) == 0, "the same");
    /* Bytes that a socket has no room for stay where they were. */
    fcntl(sock[0], F_SETFL, O_NONBLOCK);
    long put = 0, sent = 0, taken = 0;
    for (int full = 0; !full;) {
        while (left(p[0]) + PAGE <= 65536 / 2)
            put += write(p[1], block, PAGE);
        got = splice(p[0], NULL, sock[0], NULL, 65536, 0);
        full = got < 0;
        sent += full ? 0 : got;
    }
    equal(errno, EAGAIN, "a full socket");
    equal(left(p[0]), put - sent, "what it did not take is in the pipe");
    fcntl(sock[0], F_SETFL, 0);
    fcntl(sock[1], F_SETFL, O_NONBLOCK);
    while ((got = read(sock[1], back, sizeof back)) > 0)
        taken += got;
    equal(taken, sent, "what it took comes");
    equal(read(p[0], back, sizeof back), put - sent, "and the rest");
    fails(splice(sock[1], NULL, q[1], NULL, 10, 0), EAGAIN, "no bytes in it");
    pid_t child = fork();
    fcntl(sock[1], F_SETFL, 0);
    if (child == 0) {
        count = splice(sock[1], NULL, q[1], NULL, 100, 0);
        _exit(count == 3 ? 0 : 1);
    }
    until_asleep(child);
    equal(write(sock[0], "abc", 3), 3, "a late message");
    equal(status_of(child), 0, "was waited for");
    equal(read(q[0], back, 100), 3, "and came");
    close(sock[0]);
    equal(splice(sock[1], NULL, q[1], NULL, 10, 0), 0, "end of the socket");
    equal(write(p[1], "x", 1), 1, "for a dead one");
    signal(SIGPIPE, SIG_IGN);
    fails(splice(p[0], NULL, sock[1], NULL, 1, 0), EPIPE, "nobody there");
    close(sock[1]);
    /* Waiting, ends, signals. */
    child = fork();
    if (child == 0) {
        close(p[1]);
        drain(p[0] + 0 * fcntl(p[0], F_SETFL, O_NONBLOCK));
        fcntl(p[0], F_SETFL, 0);
        count = splice(p[0], NULL, to, NULL, 100, 0);
        _exit(count == 4 ? 0 : 1);
    }
    until_asleep(child);
    equal(write(p[1], "late", 4), 4, "late bytes");
    equal(status_of(child), 0, "splice waited for them");
    struct sigaction action = {.sa_handler = ring};
    sigaction(SIGALRM, &action, NULL);
    child = fork();
    if (child == 0) {
        count = splice(p[0], NULL, to, NULL, 100, 0);
        _exit(count == -1 && errno == EINTR && rung == 1 ? 0 : 1);
    }
    until_asleep(child);
    kill(child, SIGALRM);
    equal(status_of(child), 0, "a signal ends the wait");
    close(p[1]);
    equal(splice(p[0], NULL, to, NULL, 100, 0), 0, "no writer: the end");
    equal(splice(p[0], NULL, q[1], NULL, 100, 0), 0, "to a pipe, too");
    equal(tee(p[0], q[1], 100, 0), 0, "and by tee");
    close(p[0]);
    close(q[0]);
    signal(SIGPIPE, ring);
    rung = 0;
    lseek(file, 0, SEEK_SET);
    fails(splice(file, NULL, q[1], NULL, 100, 0), EPIPE, "no reader");
    equal(rung, 1, "a signal says so");
    equal(at(file), 0, "nothing was read");
    (void)!pipe(p);
    equal(write(p[1], "x", 1), 1, "a byte");
    fails(splice(p[0], NULL, q[1], NULL, 100, 0), EPIPE, "no reader of the other pipe");
    fails(tee(p[0], q[1], 100, 0), EPIPE, "nor for tee");
    fails(vmsplice(q[1], &(struct iovec){block, 10}, 1, 0), EPIPE, "nor for vmsplice");
    equal(rung, 4, "told each time");
    signal(SIGPIPE, SIG_DFL);
    close(p[0]), close(p[1]), close(q[1]);
    /* Big counts. */
    (void)!pipe(p);
    lseek(file, 0, SEEK_SET);
    equal(splice(file, NULL, p[1], NULL, 0x80000000ul, 0), 65536, "two gigabytes wanted");
    equal(splice(p[0], NULL, to, NULL, 0x7fffffff, 0), 65536, "and to a file");
    off = LLONG_MAX - 10;
    fails(splice(file, &off, p[1], NULL, 100, 0), EINVAL, "past all offsets");
    fails(splice(file, NULL, p[1], NULL, SIZE_MAX, 0), EINVAL, "a negative count");
    close(p[0]), close(p[1]), close(file), close(to);
}

/* Nobody writes to the one, and nobody reads from the other. */
static void dead_ends(void)
{
    int p[2], q[2];
    signal(SIGPIPE, SIG_IGN);
    pipe(p), pipe(q);
    close(p[1]), close(q[0]);
    fails(splice(p[0], NULL, q[1], NULL, 10, 0), EPIPE, "the end, for nobody");
    fails(tee(p[0], q[1], 10, 0), EPIPE, "nor a copy of it");
    close(p[0]), close(q[1]);
    signal(SIGPIPE, SIG_DFL);
}

static void memory(void)
{
    int p[2];
    (void)!pipe(p);
    struct iovec pieces[3] = {{block, 100}, {block + 1000, 0}, {block + 2000, 200}};
    equal(vmsplice(p[1], pieces, 3, 0), 300, "memory to pipe");
    equal(read(p[0], back, sizeof back), 300, "there");
    check(memcmp(back, block, 100) == 0 && memcmp(back + 100, block + 2000, 200) == 0, "the same");
    equal(vmsplice(p[1], pieces, 0, 0), 0, "no pieces");
    struct iovec none = {block, 0};
    equal(vmsplice(p[1], &none, 1, 0), 0, "an empty one");
    fails(vmsplice(p[1], pieces, 1025, 0), EINVAL, "too many pieces");
    fails(vmsplice(p[1], pieces, 1, 16), EINVAL, "an unknown flag");
    fails(vmsplice(999, pieces, 1, 0), EBADF, "no descriptor");
    fails(syscall(SYS_vmsplice, p[1], 8, 1, 0), EFAULT, "wild pieces");
    struct iovec wild = {(void *)8, 100};
    fails(vmsplice(p[1], &wild, 1, 0), EFAULT, "a wild piece");
    int file = file_with(10);
    fails(vmsplice(file, pieces, 1, 0), EBADF, "no pipe");
    close(file);
    struct iovec big = {block, MIB};
    equal(vmsplice(p[1], &big, 1, 0), 65536, "as much as fits");
    fails(vmsplice(p[1], &big, 1, NB), EAGAIN, "full");
    struct iovec in[2] = {{back, 1000}, {back + 1000, 64536}};
    memset(back, 0, 65536);
    equal(vmsplice(p[0], in, 2, 0), 65536, "pipe to memory");
    check(memcmp(back, block, 65536) == 0, "the same");
    fails(vmsplice(p[0], in, 2, NB), EAGAIN, "empty");
    pid_t child = fork();
    if (child == 0)
        _exit(vmsplice(p[0], in, 1, 0) == 5 ? 0 : 1);
    until_asleep(child);
    equal(write(p[1], "later", 5), 5, "later");
    equal(status_of(child), 0, "vmsplice waits");
    equal(vmsplice(p[1], pieces, 1, SPLICE_F_GIFT), 100, "given away");
    equal(read(p[0], back, 1000), 100, "arrives");
    close(p[1]);
    equal(vmsplice(p[0], in, 2, 0), 0, "the end");
    close(p[0]);
}

static void files(void)
{
    int p[2];
    (void)!pipe(p);
    int from = file_with(200000), to = memfd_create("to", 0);
    off_t off = 100;
    equal(sendfile(to, from, NULL, 1000), 1000, "sendfile");
    equal(at(from), 1000, "moves the one");
    equal(at(to), 1000, "and the other");
    equal(sendfile(to, from, &off, 50), 50, "from an offset");
    equal(off, 150, "that moves");
    equal(at(from), 1000, "the other does not");
    equal(sendfile(p[1], from, &off, 1000), 1000, "to a pipe");
    equal(left(p[0]), 1000, "there");
    off = 199999;
    equal(sendfile(p[1], from, &off, 1000), 1, "up to the end");
    equal(sendfile(p[1], from, &off, 1000), 0, "at the end");
    drain(p[0] + 0 * fcntl(p[0], F_SETFL, O_NONBLOCK));
    fcntl(p[0], F_SETFL, 0);
    struct rlimit was, few;
    getrlimit(RLIMIT_FSIZE, &was);
    few = was;
    few.rlim_cur = 100;
    int little = memfd_create("little", 0);
    off = 0;
    sendfile(p[1], from, &off, 300);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &few);
    equal(splice(p[0], NULL, little, NULL, 300, 0), 100, "a file takes what its limit lets it");
    setrlimit(RLIMIT_FSIZE, &was);
    equal(left(p[0]), 200, "the rest stays in the pipe");
    close(little);
    drain(p[0] + 0 * fcntl(p[0], F_SETFL, O_NONBLOCK));
    fcntl(p[0], F_SETFL, 0);
    off = 0;
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    equal(sendfile(p[1], from, &off, 200000), 65536, "as much as fits a pipe");
    fails(sendfile(p[1], from, &off, 200000), EAGAIN, "full");
    equal(off, 65536, "moved no further");
    off = 0;
    equal(sendfile(to, from, &off, 0x7fffffff), 200000, "two gigabytes wanted");
    off = 0;
    equal(sendfile(to, from, &off, 0), 0, "nothing wanted");
    fails(sendfile(to, p[0], NULL, 10), EINVAL, "from a pipe");
    fails(sendfile(to, p[0], &off, 10), ESPIPE, "from an offset of a pipe");
    fails(sendfile(from, p[1], NULL, 10), EBADF, "from a writing end");
    fails(sendfile(p[0], from, NULL, 10), EBADF, "to a reading end");
    fails(sendfile(999, from, NULL, 10), EBADF, "to nothing");
    off = -1;
    fails(sendfile(to, from, &off, 10), EINVAL, "before the beginning");
    fails(sendfile(to, from, NULL, SIZE_MAX), EINVAL, "a negative count");
    int event = eventfd(0, 0);
    fails(sendfile(event, from, NULL, 8), EINVAL, "to a counter");
    fails(sendfile(to, event, NULL, 8), EINVAL, "from a counter");
    close(event);
    int sock[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, sock);
    off = 7;
    equal(sendfile(sock[0], from, &off, 5000), 5000, "to a socket");
    long total = 0, count;
    while (total < 5000 && (count = read(sock[1], back + total, 5000)) > 0)
        total += count;
    check(memcmp(back, block + 7, 5000) == 0, "the same bytes");
    close(sock[0]), close(sock[1]);
    /* copy_file_range */
    loff_t in = 0, out = 0;
    int target = memfd_create("target", 0);
    equal(copy_file_range(from, &in, target, &out, 100000, 0), 100000, "a range");
    equal(in, 100000, "its source moved");
    equal(out, 100000, "its target moved");
    equal(at(target), 0, "no offset of theirs");
    lseek(from, 100000, SEEK_SET);
    lseek(target, 100000, SEEK_SET);
    equal(copy_file_range(from, NULL, target, NULL, 0x80000000ul, 0), 100000, "two gigabytes wanted");
    equal(pread(target, back, 200000, 0), 200000, "read back");
    check(memcmp(back, block, 200000) == 0, "the same");
    equal(copy_file_range(from, NULL, target, NULL, 10, 0), 0, "at the end");
    fails(copy_file_range(from, NULL, target, NULL, 10, 1), EINVAL, "a flag");
    in = 0, out = 50;
    fails(copy_file_range(from, &in, from, &out, 100, 0), EINVAL, "over itself");
    out = 100;
    equal(copy_file_range(from, &in, from, &out, 100, 0), 100, "beside itself");
    check(in == 100 && out == 200, "both moved");
    in = -1, out = 0;
    check(copy_file_range(from, &in, target, &out, 10, 0) == -1, "before the beginning");
    fails(copy_file_range(from, NULL, p[1], NULL, 10, 0), EINVAL, "to a pipe");
    fails(copy_file_range(p[0], NULL, target, NULL, 10, 0), EINVAL, "from a pipe");
    int folder = open("/", O_RDONLY);
    fails(copy_file_range(folder, NULL, target, NULL, 10, 0), EISDIR, "from a directory");
    close(folder);
    int appending = open("/tmp/splices.file", O_CREAT | O_WRONLY | O_APPEND, 0600);
    fails(copy_file_range(from, NULL, appending, NULL, 10, 0), EBADF, "to the end of a file");
    fails(copy_file_range(appending, NULL, target, NULL, 10, 0), EBADF, "from what may only be written");
    close(appending), unlink("/tmp/splices.file");
    fails(copy_file_range(999, NULL, target, NULL, 10, 0), EBADF, "from nothing");
    fails(syscall(SYS_copy_file_range, from, 8, target, 0, 10, 0), EFAULT, "a wild offset");
    close(target), close(from), close(to), close(p[0]), close(p[1]);
}

/* Several at once: nothing lost, nothing doubled. */
static void crowds(void)
{
    int p[2], q[2], r[2];
    (void)!pipe(p), (void)!pipe(q), (void)!pipe(r);
    pid_t writer = fork();
    if (writer == 0) {
        for (int i = 0; i < 8; i++)
            for (long done = 0, count; done < MIB; done += count)
                if ((count = write(p[1], block + done, MIB - done)) <= 0)
                    _exit(1);
        _exit(0);
    }
    close(p[1]);
    pid_t first = fork();
    if (first == 0) {
        long count, total = 0;
        while ((count = splice(p[0], NULL, q[1], NULL, 100000, 0)) > 0)
            total += count;
        _exit(count == 0 && total == 8 * MIB ? 0 : 1);
    }
    close(p[0]), close(q[1]);
    pid_t second = fork();
    if (second == 0) {
        struct iovec pieces = {back, 65536};
        long count;
        close(r[0]);
        while ((count = vmsplice(q[0], &pieces, 1, 0)) > 0)
            for (long done = 0, more; done < count; done += more)
                if ((more = write(r[1], back + done, count - done)) <= 0)
                    _exit(1);
        _exit(count == 0 ? 0 : 1);
    }
    close(q[0]), close(r[1]);
    int same = 1;
    long total = 0, count;
    while ((count = read(r[0], back, 50000)) > 0) {
        for (long i = 0; i < count; i++)
            same &= back[i] == block[(total + i) % MIB];
        total += count;
    }
    equal(total, 8 * MIB, "eight megabytes through three pipes");
    check(same, "unchanged");
    equal(status_of(writer), 0, "the writer");
    equal(status_of(first), 0, "who splices");
    equal(status_of(second), 0, "who takes memory");
    close(r[0]);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {{"sizes", sizes},         {"bounds", bounds}, {"moves", moves},
                                          {"dead_ends", dead_ends}, {"memory", memory}, {"files", files},
                                          {"crowds", crowds}};
    unsigned random = 1;
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (random = random * 1103515245 + 12345) >> 16;
    run_groups(groups, sizeof groups / sizeof *groups, NULL, argc, argv);
    return done();
}
