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

/* --- wrong pointers --- */

static void pointers(void)
{
    char *bad[] = {(char *)0,
                   (char *)1,
                   (char *)0x7ffffffff000,
                   (char *)0x800000000000,
                   (char *)0xffff800000000000,
                   (char *)0xffffffff80100000,
                   (char *)0xffffffffffffffff,
                   (char *)0xffffffffffffff00};
    static const char *const names[] = {"0",
                                        "1",
                                        "the last user page",
                                        "a non-canonical address",
                                        "the kernel's memory",
                                        "the kernel's text",
                                        "-1",
                                        "-256"};
    int fd[2], file = open("p", O_RDWR | O_CREAT, 0600), zero = open("/dev/zero", O_RDWR);
    char name[100], buffer[16];
    pipe(fd);
    write(file, "0123456789", 10);
    for (int i = 0; i < 8; i++) {
        sprintf(name, "write a file from %s", names[i]);
        fails(pwrite(file, bad[i], 8, 0), EFAULT, name);
        sprintf(name, "write a pipe from %s", names[i]);
        fails(write(fd[1], bad[i], 8), EFAULT, name);
        sprintf(name, "read a file into %s", names[i]);
        lseek(file, 0, SEEK_SET);
        fails(read(file, bad[i], 8), EFAULT, name);
        sprintf(name, "read zeros into %s", names[i]);
        fails(read(zero, bad[i], 8), EFAULT, name);
        write(fd[1], "abcdefgh", 8);
        sprintf(name, "read a pipe into %s", names[i]);
        fails(read(fd[0], bad[i], 8), EFAULT, name);
        equal(read(fd[0], buffer, 8), 8, "and its bytes are still there");
        sprintf(name, "open a name at %s", names[i]);
        fails(open(bad[i], O_RDONLY), EFAULT, name);
        sprintf(name, "stat into %s", names[i]);
        fails(syscall(SYS_stat, "/", bad[i]), EFAULT, name);
        sprintf(name, "pipe into %s", names[i]);
        fails(syscall(SYS_pipe, bad[i]), EFAULT, name);
        sprintf(name, "uname into %s", names[i]);
        fails(syscall(SYS_uname, bad[i]), EFAULT, name);
        sprintf(name, "exec of a name at %s", names[i]);
        fails(syscall(SYS_execve, bad[i], 0, 0), EFAULT, name);
    }
    char *read_only = pages(1, PROT_READ), *none = pages(1, PROT_NONE);
    lseek(file, 0, SEEK_SET);
    fails(read(file, read_only, 8), EFAULT, "read a file into read-only memory");
    fails(read(zero, read_only, 8), EFAULT, "read zeros into read-only memory");
    write(fd[1], "abcdefgh", 8);
    fails(read(fd[0], read_only, 8), EFAULT, "read a pipe into read-only memory");
    fails(read(fd[0], none, 8), EFAULT, "read a pipe into inaccessible memory");
    equal(read(fd[0], buffer, 8), 8, "the pipe keeps its bytes");
    fails(write(fd[1], none, 8), EFAULT, "write a pipe from inaccessible memory");
    /* Memory that is there but not yet touched. */
    char *fresh = pages(2, PROT_READ | PROT_WRITE);
    write(fd[1], "abcdefgh", 8);
    equal(read(fd[0], fresh + PAGE - 4, 8), 8, "read into untouched pages");
    check(memcmp(fresh + PAGE - 4, "abcdefgh", 8) == 0, "across their border");
    char *untouched = pages(2, PROT_READ | PROT_WRITE);
    equal(write(fd[1], untouched + PAGE - 4, 8), 8, "write from untouched pages");
    equal(read(fd[0], buffer, 8) == 8 && buffer[0] == 0 && buffer[7] == 0, 1, "they are zeros");
    /* The second page is missing. */
    char *edge = pages(2, PROT_READ | PROT_WRITE);
    munmap(edge + PAGE, PAGE);
    memset(edge, 'e', PAGE);
    lseek(file, 0, SEEK_SET);
    long got = read(file, edge + PAGE - 4, 8);
    check(got == 4 || (got == -1 && errno == EFAULT), "a read that runs into a hole");
    got = write(fd[1], edge + PAGE - 4, 8);
    check(got == 4 || (got == -1 && errno == EFAULT), "a write that runs into a hole");
    strcpy(edge + PAGE - 2, "p");
    equal(access(edge + PAGE - 2, F_OK), 0, "a name up to the last byte of a page");
    memcpy(edge + PAGE - 2, "pp", 2);
    fails(access(edge + PAGE - 2, F_OK), EFAULT, "a name that runs into a hole");
    fails(syscall(SYS_read, file, 1L << 40, -1L), EFAULT, "a count of 2^64 - 1");
    close(fd[0]), close(fd[1]), close(file), close(zero);
    unlink("p");
}

/* --- memory --- */

static sigjmp_buf escape;
static volatile sig_atomic_t fault_signal;
static void *volatile fault_address;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    fault_signal = number;
    fault_address = info->si_addr;
    siglongjmp(escape, 1);
}

/* The signal that an access gives, or 0. */
static int probe(volatile char *at, int write)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, segv, bus;
    sigaction(SIGSEGV, &action, &segv);
    sigaction(SIGBUS, &action, &bus);
    fault_signal = 0;
    if (sigsetjmp(escape, 1) == 0) {
        if (write)
            *at = 1;
        else
            (void)*at;
    }
    sigaction(SIGSEGV, &segv, 0);
    sigaction(SIGBUS, &bus, 0);
    return fault_signal;
}

static void memory(void)
{
    char *at = pages(4, PROT_READ | PROT_WRITE);
    check(at != MAP_FAILED, "mmap");
    check(((long)at & (PAGE - 1)) == 0, "at a page");
    equal(at[0] | at[3 * PAGE], 0, "of zeros");
    memset(at, 5, 4 * PAGE);
    equal(mprotect(at + PAGE, PAGE, PROT_READ), 0, "mprotect");
    equal(probe(at + PAGE, 0), 0, "may be read");
    equal(probe(at + PAGE, 1), SIGSEGV, "not written");
    check(fault_address == at + PAGE, "si_addr tells where");
    equal(at[PAGE], 5, "keeps its contents");
    equal(mprotect(at + PAGE, PAGE, PROT_NONE), 0, "mprotect to nothing");
    equal(probe(at + PAGE, 0), SIGSEGV, "not read either");
    equal(mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE), 0, "and back");
    equal(probe(at + PAGE, 1), 0, "may be written");
    equal(munmap(at + PAGE, PAGE), 0, "munmap in the middle");
    equal(probe(at + PAGE, 0), SIGSEGV, "is gone");
    equal(at[0] + at[2 * PAGE], 10, "the rest is not");
    fails(mprotect(at, 4 * PAGE, PROT_READ), ENOMEM, "mprotect over a hole");
    munmap(at, 4 * PAGE);
    fails(munmap(at + 1, PAGE), EINVAL, "munmap not at a page");
    fails(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EINVAL, "mmap of nothing");
    fails(mmap(0, 1L << 50, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), ENOMEM, "mmap of too much");
    char *fixed = mmap((void *)0x10000000, PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    check(fixed == (char *)0x10000000, "MAP_FIXED");
    fails(mmap(fixed, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), EEXIST,
          "MAP_FIXED_NOREPLACE");
    munmap(fixed, PAGE);
    int fd = open("map", O_RDWR | O_CREAT, 0600);
    ftruncate(fd, 2 * PAGE);
    pwrite(fd, "mapped", 6, PAGE);
    char *shared = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *private = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGE);
    check(shared != MAP_FAILED && private != MAP_FAILED, "mmap of a file");
    check(memcmp(shared + PAGE, "mapped", 6) == 0, "shows its contents");
    check(memcmp(private, "mapped", 6) == 0, "with an offset");
    shared[PAGE] = 'M';
    char c = 0;
    equal(pread(fd, &c, 1, PAGE) == 1 && c == 'M', 1, "a shared write reaches the file");
    private[1] = 'X';
    equal(pread(fd, &c, 1, PAGE + 1) == 1 && c == 'a', 1, "a private write does not");
    equal(ftruncate(fd, PAGE), 0, "truncate a mapped file");
    equal(probe(shared + PAGE, 0), SIGBUS, "beyond its end is SIGBUS");
    munmap(shared, 2 * PAGE), munmap(private, PAGE);
    close(fd);
    unlink("map");
    char *brk_before = sbrk(0);
    check(sbrk(3 * PAGE) == brk_before, "brk up");
    memset(brk_before, 1, 3 * PAGE);
    sbrk(-3 * PAGE);
    check(sbrk(0) == brk_before, "brk down");
    char *common = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *copied = pages(1, PROT_READ | PROT_WRITE);
    *copied = *common = 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        *copied = *common = 2;
        _exit(0);
    }
    waitpid(child, 0, 0);
    equal(*common, 2, "shared memory is shared with a child");
    equal(*copied, 1, "private memory is copied");
    char *moved = mremap(common, PAGE, PAGE, 0);
    check(moved == common, "mremap to the same size");
    char *grown = mremap(copied, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    check(grown != MAP_FAILED && grown[0] == 1 && grown[2 * PAGE] == 0, "mremap to a larger size");
    equal(madvise(grown, PAGE, MADV_DONTNEED), 0, "MADV_DONTNEED");
    equal(grown[0], 0, "gives zeros again");
    /* Execution: what was written runs where that is allowed, and only there. */
    static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};
    char *text = pages(1, PROT_READ | PROT_WRITE);
    memcpy(text, code, sizeof code);
    mprotect(text, PAGE, PROT_READ | PROT_EXEC);
    equal(((int (*)(void))text)(), 42, "code that was written runs");
    mprotect(text, PAGE, PROT_READ);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    sigaction(SIGSEGV, &action, &old);
    fault_signal = 0;
    if (sigsetjmp(escape, 1) == 0)
        ((int (*)(void))text)();
    sigaction(SIGSEGV, &old, 0);
    equal(fault_signal, SIGSEGV, "and not without PROT_EXEC");
    equal(probe((char *)0xffffffff80100000, 0), SIGSEGV, "the kernel's text cannot be read");
    equal(probe((char *)0xffff800000000000, 0), SIGSEGV, "nor its memory");
    equal(probe((char *)0x7ffffffff000, 0), SIGSEGV, "nor the page below the hole");
    equal(probe((char *)0, 1), SIGSEGV, "nor address 0");
}

/* --- processes --- */

static void child_7(void) { _exit(7); }
static void child_kill(void) { kill(getpid(), SIGKILL); }
static volatile long eight = 8;
static void child_segv(void) { *(volatile int *)eight = 1; }
static void child_ill(void) { __asm__ volatile("ud2"); }
static void child_fpe(void)
{
    __asm__ volatile("xor %%edx, %%edx; xor %%ecx, %%ecx; mov $1, %%eax; div %%ecx" ::: "eax", "ecx", "edx");
}
static void child_trap(void) { __asm__ volatile("int3"); }
static void child_hlt(void) { __asm__ volatile("hlt"); }
static void child_cli(void) { __asm__ volatile("cli"); }
static void child_port(void) { __asm__ volatile("outb %%al, $0x80" ::: "memory"); }
static void child_cr3(void) { __asm__ volatile("mov %%cr3, %%rax" ::: "rax"); }
static void child_abort(void) { abort(); }
static void child_stack(void)
{
    volatile char big[64 << 20];
    big[0] = 1;
    (void)big[0];
}
static volatile int endless = 1;
static int recurse(int n)
{
    volatile char part[1000];
    part[0] = n;
    return endless ? recurse(n + 1) + part[0] : 0;
}
static void child_recurse(void) { recurse(0); }
static void child_noncanonical(void) { *(volatile char *)0x8000000000000000 = 1; }
static void child_bad_stack(void) { __asm__ volatile("mov $0x10, %%rsp; push %%rax; syscall" ::: "memory"); }
static void child_bad_sigframe(void)
{
    signal(SIGUSR1, count_signal);
    __asm__ volatile("mov $0x10, %%rsp; mov $39, %%eax; syscall; mov %%eax, %%edi; mov $10, %%esi; mov $62, "
                     "%%eax; syscall; ud2" ::
                         : "memory");
}
static void child_bad_sigreturn(void)
{
    __asm__ volatile("mov $15, %%eax; xor %%esp, %%esp; syscall; ud2" ::: "memory");
}
static void child_int80_range(void) { __asm__ volatile("int $0x90"); }

static void processes(void)
{
    static const struct {
        void (*body)(void);
        int status;
        const char *name;
    } deaths[] = {
        {child_7, 7 << 8, "_exit(7)"},
        {child_kill, SIGKILL, "SIGKILL"},
        {child_segv, SIGSEGV, "a wrong access"},
        {child_ill, SIGILL, "ud2"},
        {child_fpe, SIGFPE, "a division by zero"},
        {child_trap, SIGTRAP, "int3"},
        {child_hlt, SIGSEGV, "hlt"},
        {child_cli, SIGSEGV, "cli"},
        {child_port, SIGSEGV, "a port"},
        {child_cr3, SIGSEGV, "cr3"},
        {child_abort, SIGABRT, "abort"},
        {child_stack, SIGSEGV, "far below the stack"},
        {child_recurse, SIGSEGV, "endless recursion"},
        {child_noncanonical, SIGSEGV, "a non-canonical address"},
        {child_bad_stack, SIGSEGV, "a wrong stack"},
        {child_bad_sigframe, SIGSEGV, "a signal on a wrong stack"},
        {child_bad_sigreturn, SIGSEGV, "sigreturn from nowhere"},
        {child_int80_range, SIGSEGV, "a gate that is not for users"},
    };
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++)
        equal(in_child(deaths[i].body) & ~0x80, deaths[i].status, deaths[i].name);
    int status;
    fails(waitpid(-1, &status, 0), ECHILD, "wait without children");
    fflush(stdout);
    int fd[2];
    pipe(fd);
    pid_t child = fork();
    if (child == 0) {
        char c;
        close(fd[1]);
        read(fd[0], &c, 1);
        _exit(getppid() > 0 ? 3 : 4);
    }
    equal(waitpid(child, &status, WNOHANG), 0, "WNOHANG while it runs");
    fails(waitpid(child + 1000, &status, 0), ECHILD, "wait for another's child");
    close(fd[0]);
    close(fd[1]);
    equal(waitpid(child, &status, 0), child, "waitpid");
    equal(status, 3 << 8, "its status");
    fails(waitpid(child, &status, 0), ECHILD, "wait twice");
    fails(kill(child, 0), ESRCH, "kill of a process that is gone");
    equal(kill(getpid(), 0), 0, "kill with signal 0");
    fails(kill(getpid(), 99), EINVAL, "kill with a wrong signal");
    child = vfork();
    if (child == 0)
        _exit(9);
    equal(waitpid(child, &status, 0) == child && status == 9 << 8, 1, "vfork");
    fails(execl("none", "none", (char *)0), ENOENT, "exec of a missing file");
    fails(execl("/tmp", "tmp", (char *)0), EACCES, "exec of a directory");
    fd[0] = open("text", O_CREAT | O_WRONLY, 0755);
    write(fd[0], "no program", 10);
    close(fd[0]);
    fails(execl("./text", "text", (char *)0), ENOEXEC, "exec of text");
    chmod("text", 0644);
    fails(execl("./text", "text", (char *)0), EACCES, "exec without the right");
    chmod("text", 0755);
    fd[0] = open("text", O_WRONLY | O_TRUNC);
    write(fd[0], "#!/bin/sh\nexit $(($# * 10 + $1))\n", 33);
    close(fd[0]);
    child = fork();
    if (child == 0) {
        execl("./text", "text", "4", "x", (char *)0);
        _exit(1);
    }
    waitpid(child, &status, 0);
    equal(status, 24 << 8, "exec of a script gives it its arguments");
    unlink("text");
    child = fork();
    if (child == 0) {
        setpgid(0, 0);
        raise(SIGSTOP);
        usleep(50000); /* or its end may be all that the parent sees */
        _exit(5);
    }
    equal(waitpid(child, &status, WUNTRACED), child, "WUNTRACED");
    check(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "it has stopped");
    equal(getpgid(child), child, "in its own group");
    kill(-child, SIGCONT);
    equal(waitpid(child, &status, WCONTINUED), child, "WCONTINUED");
    check(WIFCONTINUED(status), "it goes on");
    waitpid(child, &status, 0);
    equal(status, 5 << 8, "and ends");
    child = fork();
    if (child == 0)
        _exit(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid() ? 0 : 1);
    waitpid(child, &status, 0);
    equal(status, 0, "setsid");
    /* An orphan gets a new parent. */
    pipe(fd);
    child = fork();
    if (child == 0) {
        pid_t middle = getpid();
        if (fork() == 0) {
            char gone;
            for (int i = 0; i < 2000 && getppid() == middle; i++)
                usleep(1000);
            gone = getppid() != middle;
            write(fd[1], &gone, 1);
            _exit(0);
        }
        _exit(0);
    }
    waitpid(child, 0, 0);
    char gone = 0;
    equal(read(fd[0], &gone, 1) == 1 && gone, 1, "an orphan gets a new parent");
    close(fd[0]), close(fd[1]);
    struct rusage usage;
    child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info = {0};
    equal(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0, "waitid without reaping");
    check(info.si_pid == child && info.si_code == CLD_EXITED, "tells how it ended");
    equal(wait4(child, &status, 0, &usage), child, "wait4");
    int rightly = 0;
    for (int i = 0; i < 100; i++) {
        child = fork();
        if (child == 0)
            _exit(i);
        rightly += waitpid(child, &status, 0) == child && status == i << 8;
    }
    equal(rightly, 100, "a hundred children, one after the other");
    for (int i = 0; i < 50; i++)
        if (fork() == 0)
            _exit(0);
    int reaped = 0;
    while (wait(0) > 0)
        reaped++;
    equal(reaped, 50, "fifty at once");
}

/* --- signals --- */

static volatile sig_atomic_t order[8], ordered;
static void note(int number) { order[ordered++ & 7] = number; }
static siginfo_t last;
static void keep(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    last = *info;
}
static char *alternate;
static volatile int on_alternate;
static void where(int number)
{
    char here;
    (void)number;
    on_alternate = &here >= alternate && &here < alternate + 65536;
}
static void skip(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RBX] = 4711;
}
static void clobber(int number)
{
    (void)number;
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0; pcmpeqd %%xmm7, %%xmm7; pcmpeqd %%xmm15, %%xmm15" ::
                         : "xmm0", "xmm7", "xmm15");
}

static void signals(void)
{
    signal(SIGUSR1, count_signal);
    counted = 0;
    raise(SIGUSR1);
    equal(counted, 1, "a handler runs");
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    raise(SIGUSR1);
    raise(SIGUSR1);
    equal(counted, 1, "not while it is blocked");
    sigset_t pending;
    sigpending(&pending);
    check(sigismember(&pending, SIGUSR1), "sigpending");
    sigprocmask(SIG_SETMASK, &old, 0);
    equal(counted, 2, "then once");
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGUSR2, &action, 0);
    sigaction(SIGTERM, &action, 0);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(SIGTERM), raise(SIGUSR2), raise(SIGUSR1);
    sigprocmask(SIG_SETMASK, &old, 0);
    equal(ordered, 3, "three that were pending");
    action = (struct sigaction){.sa_sigaction = keep, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    kill(getpid(), SIGUSR1);
    check(last.si_signo == SIGUSR1 && last.si_pid == getpid() && last.si_code == SI_USER,
          "siginfo tells who");
    union sigval value = {.sival_int = 4711};
    equal(sigqueue(getpid(), SIGRTMIN, value), -1 + (signal(SIGRTMIN, SIG_IGN), 1), "sigqueue");
    sigaction(SIGRTMIN, &action, 0);
    sigqueue(getpid(), SIGRTMIN, value);
    equal(last.si_value.sival_int, 4711, "with a value");
    action = (struct sigaction){.sa_handler = count_signal, .sa_flags = SA_RESETHAND};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    sigaction(SIGUSR1, 0, &action);
    check(action.sa_handler == SIG_DFL, "SA_RESETHAND");
    alternate = pages(16, PROT_READ | PROT_WRITE);
    stack_t stack = {.ss_sp = alternate, .ss_size = 65536};
    equal(sigaltstack(&stack, 0), 0, "sigaltstack");
    action = (struct sigaction){.sa_handler = where, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    check(on_alternate, "the handler runs there");
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
    action = (struct sigaction){.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, 0);
    long changed;
    __asm__ volatile("xor %%ebx, %%ebx; ud2" : "=b"(changed));
    equal(changed, 4711, "a handler may change the context");
    signal(SIGILL, SIG_DFL);
    signal(SIGUSR1, clobber);
    uint64_t x0, x7, x15, pid = getpid(), result;
    __asm__ volatile("movq %4, %%xmm0; movq %4, %%xmm7; movq %4, %%xmm15; mov $62, %%eax; mov %5, %%rdi; mov "
                     "$10, %%esi; syscall;"
                     "movq %%xmm0, %0; movq %%xmm7, %1; movq %%xmm15, %2; mov %%rax, %3"
                     : "=&r"(x0), "=&r"(x7), "=&r"(x15), "=&r"(result)
                     : "r"(0x123456789abcdefUL), "r"(pid)
                     : "rax", "rdi", "rsi", "rcx", "r11", "xmm0", "xmm7", "xmm15", "memory");
    check(x0 == 0x123456789abcdef && x7 == x0 && x15 == x0 && result == 0,
          "a handler leaves the vector registers alone");
    signal(SIGUSR1, SIG_IGN);
    equal(kill(getpid(), SIGUSR1), 0, "an ignored signal");
    fails(sigaction(SIGKILL, &action, 0), EINVAL, "SIGKILL cannot be caught");
    signal(SIGCHLD, count_signal);
    counted = 0;
    fflush(stdout);
    if (fork() == 0)
        _exit(0);
    while (wait(0) < 0 && errno == EINTR)
        ;
    equal(counted, 1, "SIGCHLD");
    signal(SIGCHLD, SIG_IGN);
    if (fork() == 0)
        _exit(0);
    equal(wait(0), -1, "children are not kept when SIGCHLD is ignored");
    signal(SIGCHLD, SIG_DFL);
    /* Restart of a blocked call. */
    int fd[2];
    char c = 0;
    pipe(fd);
    action = (struct sigaction){.sa_handler = count_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, 0);
    counted = 0;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(30000);
        kill(parent, SIGUSR1);
        usleep(30000);
        write(fd[1], "r", 1);
        _exit(0);
    }
    equal(read(fd[0], &c, 1) == 1 && c == 'r' && counted == 1, 1, "SA_RESTART goes on reading");
    waitpid(child, 0, 0);
    close(fd[0]), close(fd[1]);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, &old);
    signal(SIGUSR2, note);
    child = fork();
    if (child == 0) {
        usleep(20000);
        kill(parent, SIGUSR2);
        _exit(0);
    }
    ordered = 0;
    sigdelset(&old, SIGUSR2);
    fails(sigsuspend(&old), EINTR, "sigsuspend");
    equal(ordered, 1, "after the handler");
    waitpid(child, 0, 0);
    raise(SIGUSR2);
    struct timespec limit = {1, 0};
    siginfo_t info;
    equal(sigtimedwait(&set, &info, &limit), SIGUSR2, "sigtimedwait");
    limit = (struct timespec){0, 1000000};
    fails(sigtimedwait(&set, &info, &limit), EAGAIN, "and its time runs out");
    limit = (struct timespec){0, 0};
    fails(sigtimedwait(&set, &info, &limit), EAGAIN, "without a time it is a question");
    raise(SIGUSR2);
    equal(sigtimedwait(&set, &info, &limit), SIGUSR2, "and the answer");
    sigprocmask(SIG_SETMASK, &old, 0);
    signal(SIGUSR2, count_signal);
    counted = 0;
    sigset_t other;
    sigemptyset(&other);
    sigaddset(&other, SIGUSR1);
    signal(SIGALRM, count_signal);
    struct itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, 0);
    limit = (struct timespec){60, 0};
    fails(sigtimedwait(&other, &info, &limit), EINTR, "another signal ends it");
    check(counted > 0, "whose handler has run");
    setitimer(ITIMER_REAL, &never, 0);
    signal(SIGALRM, SIG_DFL);
    counted = 0;
    for (int i = 0; i < 1000; i++)
        raise(SIGUSR2);
    equal(counted, 1000, "a thousand signals");
}

/* --- time --- */

static void times(void)
{
    struct timespec t, u;
    equal(clock_gettime(CLOCK_REALTIME, &t), 0, "CLOCK_REALTIME");
    check(t.tv_sec > 1600000000, "is a date of today");
    equal(clock_gettime(CLOCK_MONOTONIC, &t), 0, "CLOCK_MONOTONIC");
    clock_gettime(CLOCK_MONOTONIC, &u);
    check(u.tv_sec > t.tv_sec || (u.tv_sec == t.tv_sec && u.tv_nsec >= t.tv_nsec), "never goes back");
    fails(clock_gettime(9999, &t), EINVAL, "an unknown clock");
    double before = seconds();
    usleep(50000);
    double passed = seconds() - before;
    check(passed >= 0.05 && passed < 2, "usleep takes its time");
    t = (struct timespec){0, 2000000000};
    fails(nanosleep(&t, 0), EINVAL, "nanosleep with wrong nanoseconds");
    before = seconds();
    struct pollfd none;
    equal(poll(&none, 0, 30), 0, "poll of nothing");
    check(seconds() - before >= 0.03, "waits");
    struct timeval v = {0, 30000};
    before = seconds();
    equal(select(0, 0, 0, 0, &v), 0, "select of nothing");
    check(seconds() - before >= 0.03, "waits");
    signal(SIGALRM, count_signal);
    counted = 0;
    struct itimerval every = {{0, 10000}, {0, 10000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, 0);
    for (int i = 0; i < 3; i++)
        pause();
    setitimer(ITIMER_REAL, &off, 0);
    check(counted >= 3, "an interval timer ticks");
    alarm(100);
    equal(alarm(0), 100, "alarm gives what was left");
    struct timeval day;
    equal(gettimeofday(&day, 0), 0, "gettimeofday");
    check(labs(day.tv_sec - time(0)) <= 1, "agrees with time");
    struct timespec cpu;
    equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu), 0, "CPU time");
    for (volatile int i = 0; i < 20000000; i++)
        ;
    struct timespec later;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &later);
    check(later.tv_sec + later.tv_nsec * 1e-9 > cpu.tv_sec + cpu.tv_nsec * 1e-9, "grows");
}

/* --- waiting for several --- */

static void waiting(void)
{
    int fd[2];
    pipe(fd);
    fflush(stdout);
    if (fork() == 0) {
        usleep(30000);
        write(fd[1], "x", 1);
        _exit(0);
    }
    struct pollfd p[2] = {{fd[0], POLLIN, 0}, {-1, POLLIN, 0}};
    equal(poll(p, 2, 5000), 1, "poll wakes");
    equal(p[0].revents, POLLIN, "and says for what");
    wait(0);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd[0], &set);
    struct timeval v = {5, 0};
    equal(select(fd[0] + 1, &set, 0, 0, &v), 1, "select");
    check(FD_ISSET(fd[0], &set), "and says for what");
    p[0].fd = 555;
    equal(poll(p, 1, 0) == 1 && p[0].revents == POLLNVAL, 1, "POLLNVAL");
    close(fd[0]);
    p[0] = (struct pollfd){fd[1], POLLOUT, 0};
    equal(poll(p, 1, 0) == 1 && (p[0].revents & POLLERR), 1, "POLLERR without readers");
    close(fd[1]);
}

/* --- threads --- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long shared_count;
static int turn, turns_taken;
static __thread int own;

static void *add_many(void *argument)
{
    own = (int)(long)argument;
    for (int i = 0; i < 10000; i++) {
        pthread_mutex_lock(&mutex);
        shared_count++;
        pthread_mutex_unlock(&mutex);
    }
    return (void *)(long)own;
}

static void *take_turns(void *argument)
{
    int me = (int)(long)argument;
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        while (turn != me)
            pthread_cond_wait(&condition, &mutex);
        turn = !me;
        turns_taken++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return 0;
}

static void *floating_point(void *argument)
{
    double start = (long)argument, value = start;
    for (int i = 0; i < 200000; i++) {
        value = value * 1.0000001 + 1e-9;
        if (i % 20000 == 0)
            sched_yield();
    }
    double again = start;
    for (int i = 0; i < 200000; i++)
        again = again * 1.0000001 + 1e-9;
    return (void *)(long)(value == again);
}

static void threads(void)
{
    pthread_t list[8];
    int made = 1, rightly = 1;
    for (long i = 0; i < 8; i++)
        made &= pthread_create(&list[i], 0, add_many, (void *)i) == 0;
    check(made, "eight threads");
    for (long i = 0; i < 8; i++) {
        void *result = 0;
        pthread_join(list[i], &result);
        rightly &= result == (void *)i;
    }
    check(rightly, "each has its own thread-local word");
    equal(shared_count, 80000, "and a mutex keeps them apart");
    for (long i = 0; i < 2; i++)
        pthread_create(&list[i], 0, take_turns, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(list[i], 0);
    equal(turns_taken, 400, "a condition variable, four hundred turns");
    rightly = 1;
    for (long i = 0; i < 6; i++)
        pthread_create(&list[i], 0, floating_point, (void *)(i + 1));
    for (long i = 0; i < 6; i++) {
        void *result = 0;
        pthread_join(list[i], &result);
        rightly &= result == (void *)1;
    }
    check(rightly, "floating point is each thread's own");
    check(syscall(SYS_gettid) == getpid(), "the first thread's id is the process's");
}

/* --- the rest --- */

static void system_facts(void)
{
    struct utsname u;
    equal(uname(&u), 0, "uname");
    check(strcmp(u.machine, "x86_64") == 0, "x86_64");
    fails(syscall(999), ENOSYS, "an unknown call");
    fails(syscall(-1L), ENOSYS, "call -1");
    struct sysinfo s;
    equal(sysinfo(&s), 0, "sysinfo");
    check(s.totalram > 0 && s.freeram < s.totalram, "memory");
    /* `as` says whom it has made of us. */
    unsigned user = getenv("TEST_USER") ? atoi(getenv("TEST_USER")) : 0;
    check(getuid() == user && geteuid() == user && getgid() == user && getegid() == user,
          "we are who we should be");
    cpu_set_t set;
    check(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 1, "sched_getaffinity");
    char name[64];
    equal(gethostname(name, sizeof name), 0, "gethostname");
    equal(getpriority(PRIO_PROCESS, 0), 0, "getpriority");
    struct rlimit limit;
    equal(getrlimit(RLIMIT_STACK, &limit), 0, "getrlimit");
    char link[100];
    long length = readlink("/proc/self/exe", link, sizeof link - 1);
    check(length > 0 && link[0] == '/', "/proc/self/exe");
    struct termios t;
    int fd = open("/dev/null", O_RDWR);
    fails(tcgetattr(fd, &t), ENOTTY, "/dev/null is no terminal");
    close(fd);
}

static const struct group groups[] = {
    {"files", files},         {"directories", directories},
    {"pipes", pipes},         {"descriptors", descriptors},
    {"devices", devices},     {"pointers", pointers},
    {"memory", memory},       {"processes", processes},
    {"signals", signals},     {"times", times},
    {"waiting", waiting},     {"threads", threads},
    {"system", system_facts},
};

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
