/* Calls on descriptors beyond read, write and lseek, each made often enough to have a routine of its own:
 * pread, pwrite, readv and writev of one segment, recv and send.
 *
 * Interface: positional-io [GROUP...]; reports by TAP. It expects the behaviour of Linux; on Synthesis it
 * also looks whether the routines are there.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Calls after which a routine is there. */
#define WARM 4

static char buffer[8192];
/* Addresses that no program has. */
static void *volatile nowhere_low = (void *)8, *volatile nowhere_high = (void *)-8;

/* A file of `length` bytes, byte n being n modulo 251, opened with `flags`. */
static int file_of(const char *path, int length, int flags)
{
    char bytes[4096];
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int at = 0; at < length;) {
        int count = length - at < 4096 ? length - at : 4096;
        for (int i = 0; i < count; i++)
            bytes[i] = (at + i) % 251;
        if (write(fd, bytes, count) != count)
            return -1;
        at += count;
    }
    close(fd);
    return open(path, flags);
}

static int right(const char *bytes, int at, int count)
{
    for (int i = 0; i < count; i++)
        if (bytes[i] != (char)((at + i) % 251))
            return 0;
    return 1;
}

static long offset(int fd) { return lseek(fd, 0, SEEK_CUR); }

/* Whether the kernel wrote a routine for `call` of `fd`; a kernel that writes none has none to show. */
static int has_routine(int fd, const char *call)
{
    char path[96];
    if (access("/syn/code", F_OK) != 0)
        return 1;
    snprintf(path, sizeof path, "/syn/code/%d/%d/%s", getpid(), fd, call);
    return access(path, F_OK) == 0;
}

/* As the C library's, whose arguments the compiler judges. */
static long vector(long call, int fd, long segments, long count)
{
    return syscall(call, fd, segments, count);
}

static long readv1(int fd, void *to, size_t count) { return readv(fd, &(struct iovec){to, count}, 1); }
static long writev1(int fd, const void *from, size_t count)
{
    return writev(fd, &(struct iovec){(void *)from, count}, 1);
}

static void test_pread(void)
{
    int fd = file_of("pread", 10000, O_RDONLY), good = 1;
    lseek(fd, 77, SEEK_SET);
    for (int i = 0; i < 100; i++)
        good &= pread(fd, buffer, 1, i * 90) == 1 && right(buffer, i * 90, 1);
    check(good, "a byte at a place, again and again");
    check(has_routine(fd, "pread64"), "it has a routine");
    for (int i = 0; i < 100; i++)
        good &= pread(fd, buffer, 8000, i * 11) == 8000 && right(buffer, i * 11, 8000);
    check(good, "of several pages");
    equal(pread(fd, buffer, 8000, 9990), 10, "cut short by the end");
    check(right(buffer, 9990, 10), "the right bytes");
    equal(pread(fd, buffer, 8, 10000), 0, "at the end");
    equal(pread(fd, buffer, 8, LONG_MAX - 8), 0, "far behind it");
    fails(pread(fd, buffer, 8, -1), EINVAL, "below zero");
    fails(pread(fd, buffer, 16, LONG_MAX - 8), EINVAL, "an end that is no offset");
    fails(pread(fd, nowhere_low, 8, 0), EFAULT, "to nowhere");
    fails(pread(fd, nowhere_high, 8, 0), EFAULT, "to the kernel's memory");
    equal(pread(fd, buffer, 0, 5), 0, "of nothing");
    equal(offset(fd), 77, "the offset has not moved");
    int writing = open("pread", O_WRONLY);
    for (int i = 0; i < WARM; i++)
        errno = 0, good &= pread(writing, buffer, 1, 0) == -1 && errno == EBADF;
    check(good, "not of one opened for writing");
    ftruncate(writing, 100);
    equal(pread(fd, buffer, 50, 90), 10, "of a file that has become shorter");
    ftruncate(writing, 300);
    check(pread(fd, buffer, 50, 90) == 50 && right(buffer, 90, 10) && !buffer[10] && !buffer[49],
          "and longer");
    close(writing);
    /* Other descriptors of the same description, and other descriptions. */
    good = 1;
    static const int numbers[] = {63, 64, 100, 4095, 4096, 5000};
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){8192, 8192});
    for (int i = 0; i < 6; i++) {
        good &= dup2(fd, numbers[i]) == numbers[i];
        good &= pread(numbers[i], buffer, 20, 3) == 20 && right(buffer, 3, 20);
    }
    check(good, "by any number");
    close(fd);
    good = 1;
    for (int i = 0; i < 6; i++) {
        good &= pread(numbers[i], buffer, 20, 3) == 20 && right(buffer, 3, 20);
        close(numbers[i]);
        errno = 0;
        good &= pread(numbers[i], buffer, 20, 3) == -1 && errno == EBADF;
    }
    check(good, "until it is closed");
    fails(pread(-1, buffer, 1, 0), EBADF, "of no descriptor");
    fails(pread(INT_MIN, buffer, 1, 0), EBADF, "of the lowest number");
    int other = file_of("other", 10, O_RDONLY);
    equal(other, fd, "another file has its number");
    equal(pread(other, buffer, 20, 3), 7, "and is read");
    close(other);
    int path = open("other", O_PATH);
    for (int i = 0; i < WARM; i++)
        pread(path, buffer, 1, 0);
    fails(pread(path, buffer, 1, 0), EBADF, "not of a place");
    close(path);
}

static void test_pwrite(void)
{
    int fd = file_of("pwrite", 10000, O_RDWR), good = 1;
    for (int i = 0; i < 100; i++) {
        char byte = i;
        good &= pwrite(fd, &byte, 1, i * 90) == 1 && pread(fd, buffer, 1, i * 90) == 1 && buffer[0] == byte;
    }
    check(good, "a byte at a place, again and again");
    check(has_routine(fd, "pwrite64"), "it has a routine");
    memset(buffer, 'x', sizeof buffer);
    equal(pwrite(fd, buffer, 8000, 1000), 8000, "several pages");
    equal(pwrite(fd, buffer, 8000, 5000), 8000, "beyond the end");
    struct stat stat;
    fstat(fd, &stat);
    equal(stat.st_size, 13000, "the file is longer");
    equal(offset(fd), 0, "the offset has not moved");
    fails(pwrite(fd, buffer, 8, -1), EINVAL, "below zero");
    fails(pwrite(fd, nowhere_low, 8, 0), EFAULT, "from nowhere");
    struct timespec before = stat.st_mtim;
    while (nanoseconds() % 50000000 > 1000000)
        ;
    for (double end = seconds() + 10; seconds() < end;) {
        pwrite(fd, "t", 1, 0);
        fstat(fd, &stat);
        if (stat.st_mtim.tv_sec != before.tv_sec || stat.st_mtim.tv_nsec != before.tv_nsec)
            break;
    }
    check(stat.st_mtim.tv_sec != before.tv_sec || stat.st_mtim.tv_nsec != before.tv_nsec,
          "it changes the time of the file");
    /* Linux appends even at a place when the description says so. */
    fcntl(fd, F_SETFL, O_APPEND);
    for (int i = 0; i < WARM; i++)
        good &= pwrite(fd, "a", 1, 0) == 1;
    fstat(fd, &stat);
    check(good && stat.st_size == 13000 + WARM, "with O_APPEND at the end");
    fcntl(fd, F_SETFL, 0);
    good = pwrite(fd, "b", 1, 5) == 1 && pread(fd, buffer, 1, 5) == 1 && buffer[0] == 'b';
    fstat(fd, &stat);
    check(good && stat.st_size == 13000 + WARM, "and without it there");
    /* Bits that a write takes away, unless the superuser writes. */
    fchmod(fd, 06755);
    pwrite(fd, "c", 1, 5);
    fstat(fd, &stat);
    equal(stat.st_mode & 06000, 06000, "the superuser's write leaves the set-id bits");
    pid_t child = fork();
    if (child == 0)
        _exit(setresuid(1000, 1000, 1000) != 0 || pwrite(fd, "d", 1, 5) != 1);
    equal(status_of(child), 0, "a user writes");
    fstat(fd, &stat);
    equal(stat.st_mode & 06000, 0, "that takes the bits away");
    close(fd);
    /* Seals. */
    fd = memfd_create("sealed", MFD_ALLOW_SEALING);
    ftruncate(fd, 100);
    for (int i = 0; i < WARM; i++)
        pwrite(fd, "x", 1, 5);
    equal(pwrite(fd, "y", 1, 5), 1, "into a file in memory");
    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
    fails(pwrite(fd, "z", 1, 5), EPERM, "not when it is sealed");
    fails(writev1(fd, "z", 1), EPERM, "nor writev");
    close(fd);
}

static void test_segments(void)
{
    int fd = file_of("segments", 10000, O_RDWR), good = 1;
    for (int i = 0; i < 100; i++)
        good &= readv1(fd, buffer, 50) == 50 && right(buffer, i * 50, 50) && offset(fd) == (i + 1) * 50;
    check(good, "a file by readv");
    check(has_routine(fd, "readv"), "it has a routine");
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 100; i++)
        good &= writev1(fd, "abc", 3) == 3 && offset(fd) == (i + 1) * 3;
    check(good && pread(fd, buffer, 6, 0) == 6 && memcmp(buffer, "abcabc", 6) == 0, "a file by writev");
    check(has_routine(fd, "writev"), "it has a routine");
    struct iovec two[2] = {{buffer, 2}, {buffer + 2, 3}};
    lseek(fd, 0, SEEK_SET);
    equal(readv(fd, two, 2), 5, "two segments");
    equal(readv(fd, two, 0), 0, "none");
    fails(vector(SYS_readv, fd, (long)two, -1), EINVAL, "a number below zero");
    fails(readv1(fd, buffer, -1), EINVAL, "a length below zero");
    fails(vector(SYS_readv, fd, 8, 1), EFAULT, "a segment nowhere");
    fails(vector(SYS_readv, fd, -16, 1), EFAULT, "a segment in the kernel's memory");
    fails(readv1(fd, (void *)8, 1), EFAULT, "a segment that leads nowhere");
    equal(readv1(fd, 0, 0), 0, "an empty one");
    equal(offset(fd), 5, "none of these has moved the offset");
    /* A child shares the offset. */
    if (fork() == 0) {
        for (int i = 0; i < 10; i++)
            if (readv1(fd, buffer, 10) != 10)
                _exit(1);
        _exit(0);
    }
    int status;
    wait(&status);
    check(status == 0 && offset(fd) == 105, "a child moves the same offset");
    equal(readv1(fd, buffer, 10), 10, "and it goes on from there");
    fcntl(fd, F_SETFL, O_APPEND);
    for (int i = 0; i < WARM; i++)
        good &= writev1(fd, "end", 3) == 3;
    check(good && offset(fd) == 10000 + 3 * WARM, "with O_APPEND at the end");
    close(fd);

    int ends[2];
    pipe(ends);
    for (int i = 0; i < 100; i++)
        good &= writev1(ends[1], "byte", 4) == 4 && readv1(ends[0], buffer, 10) == 4 &&
                memcmp(buffer, "byte", 4) == 0;
    check(good, "a pipe");
    check(has_routine(ends[0], "readv") && has_routine(ends[1], "writev"), "it has routines");
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fails(readv1(ends[0], buffer, 1), EAGAIN, "an empty pipe does not wait if so told");
    fcntl(ends[0], F_SETFL, 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        for (int i = 0; i < WARM; i++)
            if (readv1(ends[0], buffer, 3) != 3 || memcmp(buffer, "now", 3))
                _exit(1);
        _exit(readv1(ends[0], buffer, 3) != 0);
    }
    for (int i = 0; i < WARM; i++) {
        until_asleep(child);
        good &= writev1(ends[1], "now", 3) == 3;
    }
    close(ends[1]);
    equal(status_of(child), 0, "a reader sleeps until there is something, and until the end");
    close(ends[0]);
    pipe(ends);
    for (int i = 0; i < WARM; i++)
        writev1(ends[1], "x", 1);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    fails(writev1(ends[1], "x", 1), EPIPE, "a pipe without a reader");
    close(ends[1]);

    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    for (int i = 0; i < 100; i++)
        good &= writev1(ends[1], "byte", 4) == 4 && readv1(ends[0], buffer, 10) == 4 &&
                memcmp(buffer, "byte", 4) == 0;
    check(good, "a socket");
    check(has_routine(ends[0], "readv") && has_routine(ends[1], "writev"), "it has routines");
    close(ends[0]);
    close(ends[1]);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
    for (int i = 0; i < 20; i++)
        good &= writev1(ends[1], "datagram", 8) == 8 && readv1(ends[0], buffer, 3) == 3 &&
                memcmp(buffer, "dat", 3) == 0;
    check(good, "datagrams");
    close(ends[0]);
    close(ends[1]);
}

static void test_conversations(void)
{
    int ends[2], good = 1;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    for (int i = 0; i < 100; i++) {
        good &= send(ends[1], "byte", 4, i % 2 ? MSG_NOSIGNAL : 0) == 4;
        good &= recv(ends[0], buffer, 10, 0) == 4 && memcmp(buffer, "byte", 4) == 0;
    }
    check(good, "a stream by send and recv");
    check(has_routine(ends[1], "sendto") && has_routine(ends[0], "recvfrom"), "they have routines");
    fails(recv(ends[0], buffer, 4, MSG_DONTWAIT), EAGAIN, "one that is not to wait");
    good = send(ends[1], "abcd", 4, 0) == 4 && recv(ends[0], buffer, 2, MSG_PEEK) == 2 &&
           recv(ends[0], buffer, 8, 0) == 4;
    check(good, "a look takes nothing");
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    send(ends[1], "abcd", 4, 0);
    equal(recvfrom(ends[0], buffer, 8, 0, (struct sockaddr *)&address, &length), 4, "with an address");
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        for (int i = 0; i < WARM; i++)
            if (recv(ends[0], buffer, 3, 0) != 3 || memcmp(buffer, "now", 3))
                _exit(1);
        _exit(recv(ends[0], buffer, 3, 0) != 0);
    }
    for (int i = 0; i < WARM; i++) {
        until_asleep(child);
        good &= send(ends[1], "now", 3, 0) == 3;
    }
    close(ends[1]);
    equal(status_of(child), 0, "a receiver sleeps until there is something, and until the end");
    close(ends[0]);

    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    for (int i = 0; i < WARM; i++)
        send(ends[1], "x", 1, MSG_NOSIGNAL);
    close(ends[0]);
    signal(SIGPIPE, SIG_DFL);
    fails(send(ends[1], "x", 1, MSG_NOSIGNAL), EPIPE, "to nobody, without a signal");
    child = fork();
    if (child == 0) {
        send(ends[1], "x", 1, 0);
        _exit(0);
    }
    int status = status_of(child);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE, "and with one");
    signal(SIGPIPE, SIG_IGN);
    close(ends[1]);

    socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
    for (int i = 0; i < 20; i++)
        good &= send(ends[1], "datagram", 8, 0) == 8 && recv(ends[0], buffer, 3, 0) == 3 &&
                memcmp(buffer, "dat", 3) == 0;
    check(good, "datagrams are cut");
    good = send(ends[1], "", 0, 0) == 0 && send(ends[1], "next", 4, 0) == 4;
    good &= recv(ends[0], buffer, 0, 0) == 0 && recv(ends[0], buffer, 8, 0) == 4;
    check(good, "an empty one is one");
    send(ends[1], "datagram", 8, 0);
    equal(recv(ends[0], buffer, 3, MSG_TRUNC), 8, "how long it was");
    close(ends[0]), close(ends[1]);

    /* One socket's send becomes a message with rights: the routine goes. */
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    for (int i = 0; i < WARM; i++)
        good &= send(ends[1], "x", 1, 0) == 1 && recv(ends[0], buffer, 1, 0) == 1;
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec one = {"r", 1};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &ends[0], sizeof(int));
    good &=
        send(ends[1], "a", 1, 0) == 1 && sendmsg(ends[1], &message, 0) == 1 && send(ends[1], "b", 1, 0) == 1;
    int got = 0;
    while (got < 3) {
        int count = recv(ends[0], buffer + got, 3 - got, 0);
        if (count <= 0)
            break;
        got += count;
    }
    check(good && got == 3 && memcmp(buffer, "arb", 3) == 0,
          "bytes around a message with rights keep their order");
    close(ends[0]), close(ends[1]);
}

/* Somebody watches: what goes by routines is told like everything else. */
static void test_watched(void)
{
    int fd = file_of("watched", 100, O_RDWR);
    for (int i = 0; i < WARM; i++)
        pread(fd, buffer, 1, 0), pwrite(fd, "x", 1, 0), readv1(fd, buffer, 1), writev1(fd, "x", 1);
    int watch = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(watch, "watched", IN_ACCESS | IN_MODIFY);
    static const char *const names[] = {"pread", "pwrite", "readv", "writev"};
    for (int i = 0; i < 4; i++) {
        switch (i) {
        case 0:
            pread(fd, buffer, 1, 0);
            break;
        case 1:
            pwrite(fd, "x", 1, 0);
            break;
        case 2:
            readv1(fd, buffer, 1);
            break;
        case 3:
            writev1(fd, "x", 1);
            break;
        }
        struct inotify_event event = {0};
        check(read(watch, &event, sizeof event) == sizeof event &&
                  event.mask == (i % 2 ? IN_MODIFY : IN_ACCESS),
              names[i]);
    }
    close(watch);
    int good = 1;
    for (int i = 0; i < WARM; i++)
        good &= pread(fd, buffer, 1, 0) == 1 && writev1(fd, "x", 1) == 1;
    check(good, "and nobody any more");
    close(fd);
}

static void test_bounded(void)
{
    int fd = file_of("bounded", 1000, O_RDWR);
    for (int i = 0; i < WARM; i++)
        pwrite(fd, "x", 1, 0), writev1(fd, "x", 1);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
        lseek(fd, 0, SEEK_END);
        int good = 1;
        for (int i = 0; i < WARM; i++)
            errno = 0, good &= writev1(fd, "x", 1) == -1 && errno == EFBIG;
        for (int i = 0; i < WARM; i++)
            errno = 0, good &= pwrite(fd, "x", 1, 1000) == -1 && errno == EFBIG;
        good &= pwrite(fd, "x", 1, 999) == 1;
        _exit(!good);
    }
    equal(status_of(child), 0, "a bound for the length of files holds");
    close(fd);
}

/* Registers other than rax, rcx and r11 are the caller's, whichever way a call goes. */
static int keeps_registers(long number, long a, long b, long c, long d)
{
    long saved[7];
    register long r10 asm("r10") = d, r8 asm("r8") = 0, r9 asm("r9") = 0x9999;
    long rdi = a, rsi = b, rdx = c, result;
    asm volatile("syscall"
                 : "=a"(result), "+D"(rdi), "+S"(rsi), "+d"(rdx), "+r"(r10), "+r"(r8), "+r"(r9)
                 : "0"(number)
                 : "rcx", "r11", "memory");
    saved[0] = rdi, saved[1] = rsi, saved[2] = rdx, saved[3] = r10, saved[4] = r8, saved[5] = r9;
    return saved[0] == a && saved[1] == b && saved[2] == c && saved[3] == d && saved[4] == 0 &&
           saved[5] == 0x9999;
}

static void test_registers(void)
{
    int fd = file_of("registers", 10000, O_RDWR), ends[2], good = 1;
    struct iovec one = {buffer, 3}, nowhere = {(void *)8, 3};
    int pair[2];
    pipe(ends);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int i = 0; i < 3 * WARM; i++) {
        good &= keeps_registers(SYS_pread64, fd, (long)buffer, 5, i);
        good &= keeps_registers(SYS_pwrite64, fd, (long)buffer, 5, i);
        good &= keeps_registers(SYS_pread64, fd, 8, 5, i);
        good &= keeps_registers(SYS_pwrite64, fd, (long)buffer, 5, 9998);
        good &= keeps_registers(SYS_writev, ends[1], (long)&one, 1, 4);
        good &= keeps_registers(SYS_readv, ends[0], (long)&one, 1, 4);
        good &= keeps_registers(SYS_readv, fd, (long)&one, 1, 4);
        good &= keeps_registers(SYS_writev, fd, (long)&nowhere, 1, 4);
        good &= keeps_registers(SYS_readv, fd, (long)&nowhere, 1, 4);
        good &= keeps_registers(SYS_readv, fd, 8, 1, 4);
        good &= keeps_registers(SYS_readv, fd, (long)&one, 0, 4);
        good &= keeps_registers(SYS_readv, -1, (long)&one, 1, 4);
        good &= keeps_registers(SYS_sendto, pair[1], (long)buffer, 3, MSG_NOSIGNAL);
        good &= keeps_registers(SYS_recvfrom, pair[0], (long)buffer, 3, 0);
        good &= keeps_registers(SYS_sendto, pair[1], 8, 3, 0);
        good &= keeps_registers(SYS_recvfrom, pair[0], (long)buffer, 3, MSG_DONTWAIT);
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < WARM; i++)
        good &= keeps_registers(SYS_readv, ends[0], (long)&one, 1, 4);
    check(good, "every other register is as it was");
    close(fd);
    close(ends[0]);
    close(ends[1]);
}

static int shared_fd, stop;

/* Reads what never changes, at places, while others close, open and change flags. */
static void *reader(void *at)
{
    char bytes[64];
    long bad = 0;
    for (int i = (long)at; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i += 7) {
        int place = i % 9000;
        bad += pread(shared_fd, bytes, 40, place) != 40 || !right(bytes, place, 40);
    }
    return (void *)bad;
}

static void test_threads(void)
{
    pthread_t threads[3];
    shared_fd = file_of("threads", 10000, O_RDWR);
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, reader, (void *)i);
    int good = 1;
    for (double end = seconds() + 2; seconds() < end;) {
        int ends[2], other = open("threads", O_RDWR);
        pipe(ends);
        for (int i = 0; i < WARM; i++) {
            good &= pwrite(other, (char[]){(char)(9500 % 251)}, 1, 9500) == 1;
            good &= writev1(ends[1], "x", 1) == 1 && readv1(ends[0], buffer, 1) == 1;
        }
        fcntl(shared_fd, F_SETFL, O_APPEND);
        fcntl(shared_fd, F_SETFL, 0);
        close(other), close(ends[0]), close(ends[1]);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        good &= bad == 0;
    }
    check(good, "several threads at once, descriptors that come and go");
    close(shared_fd);
}

static const struct group groups[] = {
    {"pread", test_pread},         {"pwrite", test_pwrite},
    {"segments", test_segments},   {"conversations", test_conversations},
    {"watched", test_watched},     {"bounded", test_bounded},
    {"registers", test_registers}, {"threads", test_threads},
};

int main(int argc, char **argv)
{
    char directory[] = "/tmp/operationsXXXXXX";
    if (!mkdtemp(directory) || chdir(directory))
        return 99;
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
