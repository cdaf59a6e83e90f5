/* Checks what Linux's system calls promise, one by one; passes on Linux and must pass here.
 *
 * Interface: calls [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096L

static char *pages(int count, int protection)
{
    return mmap(0, count * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Status of a child that runs `body`. */
static int in_child(void (*body)(void))
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status;
}

/* --- files --- */

static void files(void)
{
    char buffer[64];
    struct stat st;
    int fd = open("f", O_RDWR | O_CREAT | O_EXCL, 0640);
    check(fd >= 0, "open creates a file");
    fails(open("f", O_RDWR | O_CREAT | O_EXCL, 0640), EEXIST, "O_EXCL on one that is there");
    equal(write(fd, "hello world", 11), 11, "write");
    equal(lseek(fd, 0, SEEK_CUR), 11, "the offset follows");
    equal(read(fd, buffer, 5), 0, "read at the end gives nothing");
    equal(lseek(fd, -5, SEEK_END), 6, "lseek from the end");
    equal(read(fd, buffer, sizeof buffer), 5, "read what is left");
    check(memcmp(buffer, "world", 5) == 0, "and it is that");
    fails(lseek(fd, -1, SEEK_SET), EINVAL, "lseek below zero");
    fails(lseek(fd, 0, 99), EINVAL, "lseek with a wrong whence");
    equal(pread(fd, buffer, 3, 1), 3, "pread");
    check(memcmp(buffer, "ell", 3) == 0, "pread reads there");
    equal(pwrite(fd, "J", 1, 0), 1, "pwrite");
    equal(lseek(fd, 0, SEEK_CUR), 11, "neither moves the offset");
    fails(pread(fd, buffer, 3, -1), EINVAL, "pread below zero");
    equal(fstat(fd, &st), 0, "fstat");
    equal(st.st_size, 11, "st_size");
    equal(st.st_mode, S_IFREG | 0640, "st_mode");
    equal(st.st_nlink, 1, "st_nlink");
    equal(lseek(fd, 10000, SEEK_SET), 10000, "lseek past the end");
    equal(write(fd, "x", 1), 1, "write there");
    equal(pread(fd, buffer, 2, 9000), 2, "read in the hole");
    check(buffer[0] == 0 && buffer[1] == 0, "the hole is zeros");
    equal(ftruncate(fd, 5), 0, "ftruncate down");
    equal(ftruncate(fd, 20), 0, "ftruncate up");
    equal(pread(fd, buffer, 64, 0), 20, "the size follows");
    check(memcmp(buffer, "Jello\0\0\0", 8) == 0, "what was cut off reads as zeros");
    equal(close(fd), 0, "close");
    fails(close(fd), EBADF, "close twice");
    fails(read(fd, buffer, 1), EBADF, "read of a closed descriptor");
    fails(write(-1, buffer, 1), EBADF, "write to descriptor -1");
    fails(read(1000000, buffer, 1), EBADF, "read of a descriptor far out");
    fd = open("f", O_RDONLY);
    fails(write(fd, "x", 1), EBADF, "write to a read-only descriptor");
    equal(read(fd, buffer, 0), 0, "read of nothing");
    close(fd);
    fd = open("f", O_WRONLY | O_APPEND);
    fails(read(fd, buffer, 1), EBADF, "read of a write-only descriptor");
    equal(write(fd, "end", 3), 3, "append");
    equal(lseek(fd, 0, SEEK_CUR), 23, "at the end");
    close(fd);
    fd = open("f", O_RDWR | O_TRUNC);
    equal(fstat(fd, &st) || st.st_size, 0, "O_TRUNC");
    struct iovec out[3] = {{"one ", 4}, {"two ", 4}, {"three", 5}};
    equal(writev(fd, out, 3), 13, "writev");
    char a[6], b[7];
    struct iovec in[2] = {{a, 6}, {b, 7}};
    lseek(fd, 0, SEEK_SET);
    equal(readv(fd, in, 2), 13, "readv");
    check(memcmp(a, "one tw", 6) == 0 && memcmp(b, "o three", 7) == 0, "scattered rightly");
    close(fd);
    fails(open("none", O_RDONLY), ENOENT, "open of a missing file");
    fails(open("f/x", O_RDONLY), ENOTDIR, "a file is no directory");
    fails(open("", O_RDONLY), ENOENT, "the empty name");
    fails(open("/tmp", O_RDWR), EISDIR, "write to a directory");
    fd = open("/tmp", O_RDONLY);
    fails(read(fd, buffer, 1), EISDIR, "read of a directory");
    close(fd);
    fails(open("f", O_RDONLY | O_DIRECTORY), ENOTDIR, "O_DIRECTORY on a file");
    char name[300];
    memset(name, 'n', sizeof name);
    name[299] = 0;
    fails(open(name, O_RDONLY | O_CREAT, 0600), ENAMETOOLONG, "a name that is too long");
    fd = open("gone", O_RDWR | O_CREAT, 0600);
    write(fd, "still", 5);
    equal(unlink("gone"), 0, "unlink of an open file");
    equal(pread(fd, buffer, 9, 0), 5, "its data live on");
    equal(fstat(fd, &st) || st.st_nlink, 0, "without a name");
    close(fd);
    fails(unlink("gone"), ENOENT, "unlink twice");
    unlink("f");
    umask(027);
    fd = open("masked", O_CREAT | O_WRONLY, 0666);
    equal(fstat(fd, &st) || (st.st_mode & 0777) != 0640, 0, "umask");
    umask(022);
    equal(fchmod(fd, 0751), 0, "fchmod");
    equal(stat("masked", &st) || (st.st_mode & 0777) != 0751, 0, "and stat shows it");
    struct timespec times[2] = {{1000, 0}, {2000, 0}};
    equal(utimensat(AT_FDCWD, "masked", times, 0), 0, "utimensat");
    equal(stat("masked", &st) || st.st_mtime != 2000, 0, "and stat shows it");
    close(fd);
    unlink("masked");
    /* Larger than anything that is handled in one piece. */
    static char big[300000], copy[300000];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = i * 7 + (i >> 8);
    fd = open("big", O_RDWR | O_CREAT, 0600);
    equal(write(fd, big, sizeof big), sizeof big, "a large write");
    lseek(fd, 0, SEEK_SET);
    equal(read(fd, copy, sizeof copy), sizeof copy, "a large read");
    check(memcmp(big, copy, sizeof big) == 0, "unchanged");
    int same = 1;
    lseek(fd, 0, SEEK_SET);
    for (size_t at = 0, step = 1; at < sizeof big; at += step, step = step * 3 % 5003 + 1) {
        long got = read(fd, copy, step);
        same &= got == (long)(at + step <= sizeof big ? step : sizeof big - at) &&
                memcmp(copy, big + at, got) == 0;
    }
    check(same, "reads of every size and alignment");
    same = 1;
    for (size_t at = 0, step = 1; at + step < sizeof big; at += step, step = step * 5 % 4099 + 1) {
        pwrite(fd, big + at, step, at);
        same &= pread(fd, copy, step, at) == (long)step && memcmp(copy, big + at, step) == 0;
    }
    check(same, "writes of every size and alignment");
    close(fd);
    unlink("big");
}

static void directories(void)
{
    char buffer[PATH_MAX], before[PATH_MAX];
    struct stat st, other;
    getcwd(before, sizeof before);
    equal(mkdir("d", 0755), 0, "mkdir");
    fails(mkdir("d", 0755), EEXIST, "mkdir twice");
    equal(mkdir("d/e", 0700), 0, "mkdir below");
    equal(stat("d", &st) || st.st_mode != (S_IFDIR | 0755), 0, "stat of a directory");
    equal(chdir("d/e"), 0, "chdir");
    check(getcwd(buffer, sizeof buffer) && strcmp(buffer + strlen(buffer) - 4, "/d/e") == 0, "getcwd");
    fails(syscall(SYS_getcwd, buffer, 2), ERANGE, "getcwd with little room");
    equal(chdir("../.."), 0, "chdir up");
    getcwd(buffer, sizeof buffer);
    check(strcmp(buffer, before) == 0, "and we are back");
    fails(rmdir("d"), ENOTEMPTY, "rmdir of a full directory");
    equal(rmdir("d/e"), 0, "rmdir");
    fails(chdir("d/e"), ENOENT, "chdir to what was removed");
    int fd = open("d/one", O_CREAT | O_WRONLY, 0600);
    write(fd, "1", 1);
    close(fd);
    fails(rmdir("d/one"), ENOTDIR, "rmdir of a file");
    fails(unlink("d"), EISDIR, "unlink of a directory");
    equal(link("d/one", "d/two"), 0, "link");
    equal(stat("d/one", &st) || stat("d/two", &other) || st.st_ino != other.st_ino || st.st_nlink != 2, 0,
          "is the same file");
    fails(link("d/one", "d/two"), EEXIST, "link onto another");
    equal(symlink("one", "d/link"), 0, "symlink");
    equal(readlink("d/link", buffer, sizeof buffer), 3, "readlink");
    equal(lstat("d/link", &st) || !S_ISLNK(st.st_mode), 0, "lstat sees the link");
    equal(stat("d/link", &st) || !S_ISREG(st.st_mode), 0, "stat follows it");
    fails(open("d/link", O_RDONLY | O_NOFOLLOW), ELOOP, "O_NOFOLLOW");
    symlink("loop", "d/loop");
    fails(open("d/loop", O_RDONLY), ELOOP, "a link to itself");
    fails(readlink("d/one", buffer, 9), EINVAL, "readlink of a file");
    equal(rename("d/two", "d/three"), 0, "rename");
    fails(stat("d/two", &st), ENOENT, "the old name is gone");
    fd = open("d/four", O_CREAT | O_WRONLY, 0600);
    close(fd);
    equal(rename("d/four", "d/three"), 0, "rename onto another");
    equal(stat("d/three", &st) || st.st_size, 0, "replaces it");
    mkdir("d/sub", 0755);
    fails(rename("d", "d/sub/x"), EINVAL, "rename of a directory into itself");
    fails(rename("d/sub", "d/one"), ENOTDIR, "a directory onto a file");
    fails(rename("d/one", "d/sub"), EISDIR, "a file onto a directory");
    int seen = 0, count = 0;
    DIR *dir = opendir("d");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        count++;
        seen |= strcmp(entry->d_name, ".") == 0       ? 1
                : strcmp(entry->d_name, "..") == 0    ? 2
                : strcmp(entry->d_name, "one") == 0   ? 4
                : strcmp(entry->d_name, "three") == 0 ? 8
                : strcmp(entry->d_name, "link") == 0  ? 16
                : strcmp(entry->d_name, "loop") == 0  ? 32
                : strcmp(entry->d_name, "sub") == 0   ? 64
                                                      : 128;
    }
    check(dir && seen == 127 && count == 7, "readdir gives every name once");
    closedir(dir);
    mkdir("many", 0755);
    for (int i = 0; i < 500; i++) {
        sprintf(buffer, "many/file-%03d", i);
        close(open(buffer, O_CREAT | O_WRONLY, 0600));
    }
    count = 0;
    dir = opendir("many");
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] == 'f')
            count += unlinkat(dirfd(dir), entry->d_name, 0) == 0;
    closedir(dir);
    equal(count, 500, "500 names, unlinked while reading");
    equal(rmdir("many"), 0, "leave nothing behind");
    int base = open("d", O_RDONLY | O_DIRECTORY);
    fd = openat(base, "at", O_CREAT | O_WRONLY, 0600);
    check(fd >= 0, "openat");
    equal(fstatat(base, "at", &st, 0), 0, "fstatat");
    equal(faccessat(base, "at", R_OK, 0), 0, "faccessat");
    equal(unlinkat(base, "at", 0), 0, "unlinkat");
    equal(mkdirat(base, "dir", 0700), 0, "mkdirat");
    equal(unlinkat(base, "dir", AT_REMOVEDIR), 0, "unlinkat of a directory");
    equal(fchdir(base), 0, "fchdir");
    chdir(before);
    close(fd);
    close(base);
    fails(access("d/none", F_OK), ENOENT, "access to a missing file");
    unlink("d/one"), unlink("d/three"), unlink("d/link"), unlink("d/loop"), rmdir("d/sub");
    equal(rmdir("d"), 0, "rmdir at the end");
    struct statfs fs;
    equal(statfs("/tmp", &fs), 0, "statfs");
}

/* --- descriptors and pipes --- */

static volatile int counted;
static void count_signal(int number)
{
    (void)number;
    counted++;
}

static void pipes(void)
{
    int fd[2], status;
    char buffer[70000];
    equal(pipe(fd), 0, "pipe");
    equal(write(fd[1], "abc", 3), 3, "write");
    equal(read(fd[0], buffer, 100), 3, "read gives what is there");
    fails(write(fd[0], "x", 1), EBADF, "write to the reading end");
    fails(read(fd[1], buffer, 1), EBADF, "read of the writing end");
    fails(lseek(fd[0], 0, SEEK_SET), ESPIPE, "lseek of a pipe");
    fails(pread(fd[0], buffer, 1, 0), ESPIPE, "pread of a pipe");
    struct stat st;
    equal(fstat(fd[0], &st) || !S_ISFIFO(st.st_mode), 0, "fstat says FIFO");
    write(fd[1], "12345", 5);
    int available = 0;
    equal(ioctl(fd[0], FIONREAD, &available) || available != 5, 0, "FIONREAD");
    read(fd[0], buffer, 5);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    fails(read(fd[0], buffer, 1), EAGAIN, "empty and O_NONBLOCK");
    fcntl(fd[1], F_SETFL, O_NONBLOCK);
    long total = 0, got;
    while ((got = write(fd[1], buffer, 1000)) > 0)
        total += got;
    check(total >= 4096 && errno == EAGAIN, "full and O_NONBLOCK");
    struct pollfd p = {fd[1], POLLOUT, 0};
    equal(poll(&p, 1, 0), 0, "poll: no room");
    p = (struct pollfd){fd[0], POLLIN, 0};
    equal(poll(&p, 1, 0) == 1 && p.revents == POLLIN, 1, "poll: something to read");
    while ((got = read(fd[0], buffer, sizeof buffer)) > 0)
        total -= got;
    equal(total, 0, "as much comes out as went in");
    close(fd[1]);
    equal(read(fd[0], buffer, 1), 0, "end of file without writers");
    equal(poll(&p, 1, 0) == 1 && (p.revents & POLLHUP), 1, "poll: hung up");
    close(fd[0]);

    pipe(fd);
    close(fd[0]);
    signal(SIGPIPE, count_signal);
    counted = 0;
    fails(write(fd[1], "x", 1), EPIPE, "write without readers");
    equal(counted, 1, "and SIGPIPE");
    signal(SIGPIPE, SIG_IGN);
    fails(write(fd[1], "x", 1), EPIPE, "EPIPE though it is ignored");
    signal(SIGPIPE, SIG_DFL);
    close(fd[1]);

    /* More than fits, through every size; the child checks the order. */
    pipe(fd);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(fd[1]);
        unsigned char expected = 0;
        long seen = 0;
        int good = 1;
        for (long size = 1; (got = read(fd[0], buffer, size)) > 0; size = size * 7 % 9973 + 1)
            for (long i = 0; i < got; i++, seen++)
                good &= (unsigned char)buffer[i] == expected++;
        _exit(good && seen == 2000000 ? 0 : 1);
    }
    close(fd[0]);
    unsigned char next = 0;
    for (long left = 2000000, size = 1; left > 0; size = size * 11 % 40009 + 1) {
        long count = size < left ? size : left;
        for (long i = 0; i < count; i++)
            buffer[i] = next++;
        if (write(fd[1], buffer, count) != count)
            break;
        left -= count;
    }
    close(fd[1]);
    waitpid(child, &status, 0);
    equal(status, 0, "two million bytes in order, in pieces of every size");

    /* Two readers and two writers: nothing lost. */
    int results[2];
    pipe(fd);
    pipe(results);
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            close(fd[1]);
            long sum = 0;
            while ((got = read(fd[0], buffer, 777)) > 0)
                for (long j = 0; j < got; j++)
                    sum += buffer[j];
            write(results[1], &sum, sizeof sum);
            _exit(0);
        }
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            memset(buffer, 1 + i, sizeof buffer);
            for (int j = 0; j < 300; j++)
                write(fd[1], buffer, 1 + j * 13 % 1500);
            _exit(0);
        }
    close(fd[1]);
    close(fd[0]);
    long sum = 0, part, expected = 0;
    for (int i = 0; i < 2; i++)
        if (read(results[0], &part, sizeof part) == sizeof part)
            sum += part;
    for (int i = 0; i < 4; i++)
        wait(0);
    for (int j = 0; j < 300; j++)
        expected += 3 * (1 + j * 13 % 1500);
    equal(sum, expected, "two readers, two writers, nothing lost");
    close(results[0]);
    close(results[1]);

    /* Writes of at most PIPE_BUF are not mixed. */
    pipe(fd);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            memset(buffer, 'a' + i, 4096);
            for (int j = 0; j < 50; j++)
                write(fd[1], buffer, 1024);
            _exit(0);
        }
    close(fd[1]);
    int whole = 1;
    long records = 0;
    for (long have = 0; (got = read(fd[0], buffer + have, 1024 - have)) > 0;) {
        have += got;
        if (have == 1024) {
            for (int j = 1; j < 1024; j++)
                whole &= buffer[j] == buffer[0];
            records++;
            have = 0;
        }
    }
    check(whole && records == 200, "writes of at most PIPE_BUF stay whole");
    close(fd[0]);
    for (int i = 0; i < 4; i++)
        wait(0);

    pipe(fd);
    signal(SIGALRM, count_signal);
    struct sigaction interrupting = {.sa_handler = count_signal};
    sigaction(SIGALRM, &interrupting, 0);
    counted = 0;
    struct itimerval soon = {{0, 0}, {0, 30000}};
    setitimer(ITIMER_REAL, &soon, 0);
    fails(read(fd[0], buffer, 1), EINTR, "a signal ends a blocked read");
    equal(counted, 1, "after its handler has run");
    close(fd[0]);
    close(fd[1]);
    equal(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0, "pipe2");
    equal(fcntl(fd[0], F_GETFD), FD_CLOEXEC, "O_CLOEXEC");
    check(fcntl(fd[0], F_GETFL) & O_NONBLOCK, "O_NONBLOCK");
    close(fd[0]);
    close(fd[1]);
}

/* Two processes share a description, and one changes how it is written, again and again. */
static void shared_description(void)
{
    enum { ROUNDS = 20 };
    int go[2], gone[2];
    char c;
    int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (pipe(go) || pipe(gone) || write(fd, "p", 1) != 1)
        return (void)check(0, "a description and two pipes");
    pid_t child = fork();
    if (child == 0) {
        write(fd, "c", 1);
        write(fd, "c", 1);
        for (int round = 0; round < ROUNDS; round++) {
            read(go[0], &c, 1);
            fcntl(fd, F_SETFL, O_RDWR | (round % 2 ? 0 : O_APPEND));
            write(fd, "d", 1);
            for (int more = 0; more < 10; more++) {
                int other = open("other", O_RDWR | O_CREAT, 0600);
                write(other, "x", 1);
                close(other);
            }
            write(gone[1], "k", 1);
        }
        _exit(0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        write(go[1], "g", 1);
        read(gone[0], &c, 1);
        write(fd, "p", 1);
        write(fd, "p", 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    equal(status, 0, "the other process of a shared description");
    equal(lseek(fd, 0, SEEK_END), 3 + 3 * ROUNDS, "F_SETFL of a shared description loses no write");
    close(fd);
    close(go[0]), close(go[1]), close(gone[0]), close(gone[1]);
    unlink("shared");
    unlink("other");
}

static void descriptors(void)
{
    shared_description();
    int fd = open("dup", O_RDWR | O_CREAT, 0600);
    int other = dup(fd);
    check(other > fd, "dup");
    write(fd, "abcdef", 6);
    equal(lseek(other, 0, SEEK_CUR), 6, "shares the offset");
    equal(dup2(fd, 77), 77, "dup2");
    equal(lseek(77, 2, SEEK_SET), 2, "works there");
    equal(lseek(fd, 0, SEEK_CUR), 2, "and is shared");
    equal(dup2(fd, fd), fd, "dup2 onto itself");
    fails(dup2(99, 98), EBADF, "dup2 of a closed one");
    fails(dup3(fd, fd, 0), EINVAL, "dup3 onto itself");
    fails(dup2(fd, 1 << 30), EBADF, "dup2 too far");
    equal(fcntl(fd, F_DUPFD, 50), 50, "F_DUPFD");
    equal(fcntl(fd, F_DUPFD_CLOEXEC, 50), 51, "F_DUPFD_CLOEXEC");
    equal(fcntl(51, F_GETFD), FD_CLOEXEC, "has the flag");
    equal(fcntl(50, F_GETFD), 0, "and the other not");
    fcntl(50, F_SETFD, FD_CLOEXEC);
    equal(fcntl(50, F_GETFD), FD_CLOEXEC, "F_SETFD");
    equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR, "F_GETFL");
    fails(fcntl(fd, 9999), EINVAL, "an unknown fcntl");
    for (int i = 50; i < 52; i++)
        close(i);
    close(77);
    close(other);
    fflush(stdout);
    lseek(fd, 1, SEEK_SET);
    int status;
    if (fork() == 0) {
        char c;
        _exit(read(fd, &c, 1) == 1 && c == 'b' ? 0 : 1);
    }
    wait(&status);
    equal(status, 0, "a child reads on");
    equal(lseek(fd, 0, SEEK_CUR), 2, "and moves our offset");
    close(fd);
    unlink("dup");
    struct rlimit limit, low;
    getrlimit(RLIMIT_NOFILE, &limit);
    low = limit;
    low.rlim_cur = 20;
    equal(setrlimit(RLIMIT_NOFILE, &low), 0, "setrlimit");
    while ((fd = open("/dev/null", O_RDONLY)) >= 0)
        other = fd;
    equal(errno, EMFILE, "EMFILE at the limit");
    equal(other, 19, "which is the last below it");
    setrlimit(RLIMIT_NOFILE, &limit);
    for (fd = 3; fd < 20; fd++)
        close(fd);
    int low_fd = open("/dev/null", O_RDONLY), next = open("/dev/null", O_RDONLY);
    close(low_fd);
    equal(open("/dev/null", O_RDONLY), low_fd, "open gives the lowest free one");
    close(low_fd);
    close(next);
}

static void devices(void)
{
    char buffer[256] = {1};
    int fd = open("/dev/null", O_RDWR);
    equal(write(fd, buffer, 256), 256, "/dev/null takes all");
    equal(read(fd, buffer, 256), 0, "and gives nothing");
    close(fd);
    fd = open("/dev/zero", O_RDWR);
    memset(buffer, 1, sizeof buffer);
    equal(read(fd, buffer, 256), 256, "/dev/zero gives all");
    int zero = 1;
    for (int i = 0; i < 256; i++)
        zero &= buffer[i] == 0;
    check(zero, "that is zeros");
    close(fd);
    fd = open("/dev/full", O_RDWR);
    fails(write(fd, buffer, 1), ENOSPC, "/dev/full is full");
    close(fd);
    fd = open("/dev/urandom", O_RDONLY);
    char first[32], second[32];
    equal(read(fd, first, 32) + read(fd, second, 32), 64, "/dev/urandom");
    check(memcmp(first, second, 32) != 0, "is not the same twice");
    close(fd);
    fd = open("/dev/random", O_RDONLY);
    equal(read(fd, first, 8), 8, "/dev/random");
    close(fd);
    equal(syscall(SYS_getrandom, first, 32, 0), 32, "getrandom");
    struct stat st;
    equal(stat("/dev/null", &st) || !S_ISCHR(st.st_mode) || st.st_rdev != 0x103, 0,
          "/dev/null is character device 1:3");
}

#include "calls-memory.h"
#include "calls-processes.h"
#include "calls-waiting.h"

int main(int argc, char **argv)
{
    char directory[] = "/tmp/calls-XXXXXX";
    if (!mkdtemp(directory) || chdir(directory)) {
        perror(directory);
        return 2;
    }
    run_groups(GROUPS(groups), 0, argc, argv);
    chdir("/");
    rmdir(directory);
    return done();
}
