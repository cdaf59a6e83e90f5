/* Checks descriptors, offsets, appending, pipes' whole writes and locks more closely than `calls`; passes on
 * Linux and must pass here.
 *
 * Interface: calls-files [GROUP...] runs all groups or those named; TAP on standard output. (As `calls-files
 * --open FD...` it exits with the number of those descriptors that are open, with which close-on-exec is
 * looked at.)
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L

/* An empty file that has no name any more. */
static int scratch(int flags)
{
    int fd = open("scratch", flags | O_CREAT | O_TRUNC | O_RDWR, 0600);
    unlink("scratch");
    return fd;
}

static int with_text(const char *text)
{
    int fd = scratch(0);
    long length = strlen(text);
    if (write(fd, text, length) != length)
        check(0, "a file with a text");
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* Whether this is all there is in the file. */
static int holds(int fd, const char *text)
{
    char buffer[256];
    long length = pread(fd, buffer, sizeof buffer, 0);
    return length == (long)strlen(text) && memcmp(buffer, text, length) == 0;
}

static long offset(int fd) { return lseek(fd, 0, SEEK_CUR); }

/* Exit status of a child that runs `body`. */
static int child_of(int (*body)(int), int argument)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(body(argument));
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* --- appending, by every way a write can take --- */

static void appending(void)
{
    char *fresh = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec two[2] = {{"e", 1}, {"f", 1}};
    char byte;
    int fd = scratch(O_APPEND);
    equal(write(fd, "a", 1) + write(fd, "b", 1), 2, "two writes");
    lseek(fd, 0, SEEK_SET);
    equal(write(fd, "c", 1), 1, "a third after lseek to the beginning");
    check(holds(fd, "abc"), "goes to the end");
    equal(offset(fd), 3, "and the offset is there");
    lseek(fd, 1, SEEK_SET);
    equal(writev(fd, two, 2), 2, "writev after lseek");
    check(holds(fd, "abcef"), "goes to the end");
    equal(offset(fd), 5, "and the offset is there");
    equal(pwrite(fd, "g", 1, 0), 1, "pwrite");
    check(holds(fd, "abcefg"), "goes to the end whatever place it names, as on Linux");
    equal(offset(fd), 5, "and leaves the offset alone");
    lseek(fd, 0, SEEK_SET);
    /* The page has never been touched, so that a routine has to give up half-way. */
    equal(write(fd, fresh + PAGE - 1, 2), 2, "a write from pages that are not there yet");
    equal(fstat(fd, &(struct stat){0}) || lseek(fd, 0, SEEK_END) != 8, 0, "goes to the end");
    ftruncate(fd, 1);
    equal(write(fd, "h", 1), 1, "a write after the file became shorter");
    check(holds(fd, "ah"), "goes to the new end");
    lseek(fd, 0, SEEK_SET);
    equal(read(fd, &byte, 1) == 1 && byte == 'a', 1, "reading goes on at the offset");
    equal(write(fd, "i", 1) == 1 && holds(fd, "ahi"), 1, "writing at the end");
    close(fd);

    fd = scratch(0);
    char path[64];
    sprintf(path, "/proc/self/fd/%d", fd);
    int one = open(path, O_WRONLY | O_APPEND), other = open(path, O_WRONLY | O_APPEND);
    check(one >= 0 && other >= 0, "the file opened twice more");
    for (int i = 0; i < 4; i++) {
        write(one, "1", 1);
        write(other, "2", 1);
    }
    check(holds(fd, "12121212"), "two descriptions append by turns");
    equal(fcntl(one, F_SETFL, 0), 0, "O_APPEND taken away");
    equal(fcntl(one, F_GETFL) & O_APPEND, 0, "is seen");
    lseek(one, 0, SEEK_SET);
    equal(write(one, "x", 1) == 1 && holds(fd, "x2121212"), 1, "and writes go to the offset");
    equal(fcntl(one, F_SETFL, O_APPEND), 0, "and given again");
    equal(write(one, "y", 1) == 1 && holds(fd, "x2121212y"), 1, "they go to the end");
    lseek(one, 0, SEEK_SET);
    equal(writev(one, two, 2) == 2 && holds(fd, "x2121212yef"), 1, "writev, too");
    equal(fcntl(one, F_SETFL, O_RDWR) == 0 && (fcntl(one, F_GETFL) & O_ACCMODE) == O_WRONLY, 1,
          "F_SETFL leaves the access mode");
    close(one), close(other), close(fd);
    munmap(fresh, 2 * PAGE);
}

/* --- offsets --- */

static void offsets(void)
{
    char buffer[64];
    off_t at, to;
    int from = with_text("0123456789"), into = with_text("");
    at = 2;
    equal(sendfile(into, from, &at, 3), 3, "sendfile from an offset of its own");
    equal(at, 5, "moves that");
    equal(offset(from), 0, "and not the file's");
    equal(offset(into), 3, "the target's it moves");
    check(holds(into, "234"), "what it sent");
    equal(sendfile(into, from, 0, 4), 4, "sendfile from the file's offset");
    equal(offset(from), 4, "moves that");
    check(holds(into, "2340123"), "and goes on where the target was");
    equal(sendfile(into, from, 0, 100), 6, "as much as there is");
    equal(offset(from), 10, "up to the end");
    equal(sendfile(into, from, 0, 1), 0, "and nothing there");
    at = 100;
    equal(sendfile(into, from, &at, 1) == 0 && at == 100, 1, "nor beyond");
    at = -1;
    fails(sendfile(into, from, &at, 1), EINVAL, "an offset below zero");
    fails(sendfile(from, -1, 0, 1), EBADF, "from no file");
    int append = scratch(O_APPEND);
    fails(sendfile(append, from, 0, 1), EINVAL, "to one that appends");
    close(append);
    int fd[2];
    pipe(fd);
    at = 1;
    equal(sendfile(fd[1], from, &at, 2) == 2 && read(fd[0], buffer, 9) == 2 && memcmp(buffer, "12", 2) == 0,
          1, "to a pipe");
    fails(sendfile(into, fd[0], 0, 1), EINVAL, "not from one");
    close(fd[0]), close(fd[1]);
    close(into);

    into = with_text("..........");
    lseek(from, 1, SEEK_SET);
    at = 3, to = 5;
    equal(copy_file_range(from, &at, into, &to, 2, 0), 2, "copy_file_range with offsets of its own");
    equal(at == 5 && to == 7, 1, "moves both");
    equal(offset(from) == 1 && offset(into) == 0, 1, "and no file's");
    check(holds(into, ".....34..."), "what it copied");
    equal(copy_file_range(from, 0, into, 0, 2, 0), 2, "copy_file_range from and to the files' offsets");
    equal(offset(from) == 3 && offset(into) == 2, 1, "moves both");
    check(holds(into, "12...34..."), "what it copied");
    to = 9;
    equal(copy_file_range(from, 0, into, &to, 100, 0), 7, "up to the end");
    equal(offset(from) == 10 && to == 16 && offset(into) == 2, 1, "moves one of each");
    check(holds(into, "12...34..3456789"), "and makes the target longer");
    at = 9;
    equal(copy_file_range(from, &at, into, 0, 9, 0) == 1 && at == 10 && offset(into) == 3, 1,
          "the other way about");
    equal(copy_file_range(from, 0, into, 0, 9, 0), 0, "nothing at the end");
    fails(copy_file_range(from, 0, into, 0, 1, 1), EINVAL, "unknown flags");
    close(from), close(into);

    from = with_text("0123456789");
    equal(preadv(from, (struct iovec[]){{buffer, 2}, {buffer + 2, 2}}, 2, 3) == 4 &&
              memcmp(buffer, "3456", 4) == 0,
          1, "preadv");
    equal(offset(from), 0, "leaves the offset");
    equal(pwritev(from, (struct iovec[]){{"x", 1}, {"y", 1}}, 2, 8) == 2 && holds(from, "01234567xy"), 1,
          "pwritev");
    equal(offset(from), 0, "leaves the offset");
    equal(readv(from, (struct iovec[]){{buffer, 2}, {buffer + 2, 2}}, 2) == 4 && offset(from) == 4, 1,
          "readv moves it");
    equal(writev(from, (struct iovec[]){{"--", 2}, {"", 0}, {"+", 1}}, 3) == 3 && offset(from) == 7, 1,
          "writev, too");
    check(holds(from, "0123--+7xy"), "to where it was");
    fails(syscall(SYS_readv, from, buffer, -1), EINVAL, "readv of a negative count");
    fails(readv(from, (struct iovec[]){{buffer, 1}, {buffer, -1}}, 2), EINVAL, "of a negative length");
    equal(lseek(from, 3, SEEK_SET) == 3 && lseek(from, 4, SEEK_CUR) == 7 && lseek(from, -7, SEEK_CUR) == 0, 1,
          "lseek back and forth");
    fails(lseek(from, -1, SEEK_CUR), EINVAL, "not below zero");
    fails(lseek(from, -11, SEEK_END), EINVAL, "nor from the end");
    equal(offset(from), 0, "which leaves it where it was");
    equal(lseek(from, 5, SEEK_END) == 15 && read(from, buffer, 5) == 0, 1, "beyond the end there is nothing");
    equal(ftruncate(from, 4) == 0 && offset(from) == 15, 1, "ftruncate leaves the offset");
    equal(write(from, "z", 1) == 1 && lseek(from, 0, SEEK_END) == 16, 1, "writing there leaves a hole");
    equal(pread(from, buffer, 16, 0) == 16 && memcmp(buffer, "0123\0\0\0\0\0\0\0\0\0\0\0z", 16) == 0, 1,
          "of zeros");
    close(from);
}

/* Which bytes there are, and what a descriptor may do by ways that no routine was made for. */
static void ways(void)
{
    char byte;
    int fd = memfd_create("hole", 0);
    pwrite(fd, "x", 1, 1 << 20);
    equal(lseek(fd, 0, SEEK_DATA), 1 << 20, "SEEK_DATA goes over a hole");
    equal(lseek(fd, 0, SEEK_HOLE), 0, "SEEK_HOLE finds it");
    equal(lseek(fd, 1 << 20, SEEK_HOLE), (1 << 20) + 1, "and the end is one");
    fails(lseek(fd, 2 << 20, SEEK_DATA), ENXIO, "beyond which there is nothing");
    char name[40];
    sprintf(name, "/proc/self/fd/%d", fd);
    int reading = open(name, O_RDONLY), writing = open(name, O_WRONLY);
    struct iovec one = {&byte, 1};
    fails(pread(writing, &byte, 1, 0), EBADF, "pread of one opened for writing");
    fails(readv(writing, &one, 1), EBADF, "readv");
    fails(pwrite(reading, &byte, 1, 0), EBADF, "pwrite of one opened for reading");
    fails(writev(reading, &one, 1), EBADF, "writev");
    fails(sendfile(writing, writing, 0, 1), EBADF, "sendfile from one opened for writing");
    fails(sendfile(reading, reading, 0, 1), EBADF, "to one opened for reading");
    fails(ftruncate(reading, 0), EINVAL, "ftruncate");
    fails(fallocate(reading, 0, 0, 1), EBADF, "fallocate");
    struct iovec *many = calloc(1025, sizeof *many);
    fails(writev(writing, many, 1025), EINVAL, "writev of more pieces than there may be");
    equal(writev(writing, many, 1024), 0, "of as many as there may be");
    free(many);
    close(reading);
    equal(dup(writing), reading, "dup gives the lowest that is free");
    close(reading), close(writing);
    static char large[300000];
    memset(large, 1, sizeof large);
    equal(pread(fd, large, sizeof large, 5), sizeof large, "a large read in a hole");
    long nonzero = 0;
    for (size_t i = 0; i < sizeof large; i++)
        nonzero += large[i] != 0;
    equal(nonzero, 0, "gives zeros and nothing else");
    close(fd);
    memset(large, 1, sizeof large);
    fd = open("/dev/zero", O_RDONLY);
    struct iovec pieces[2] = {{large, 100001}, {large + 100001, sizeof large - 100001}};
    equal(readv(fd, pieces, 2), sizeof large, "a large read of /dev/zero");
    for (size_t i = 0; i < sizeof large; i++)
        nonzero += large[i] != 0;
    equal(nonzero, 0, "gives zeros and nothing else");
    close(fd);
}

/* --- close-on-exec --- */

static int open_after_exec(int fd)
{
    char number[12];
    sprintf(number, "%d", fd);
    execl("/proc/self/exe", "calls-files", "--open", number, (char *)0);
    return 99;
}

static int flag_in_child(int fd) { return fcntl(fd, F_GETFD); }

/* Descriptors of the words that are open. */
static int count_open(char **words)
{
    int count = 0;
    for (; *words; words++)
        count += fcntl(atoi(*words), F_GETFD) >= 0;
    return count;
}

static int grandchild(int fd) { return child_of(open_after_exec, fd); }

static int own_table(int fd)
{
    unshare(CLONE_FILES);
    return open_after_exec(fd);
}

static void close_on_exec(void)
{
    int plain = scratch(0), marked = scratch(O_CLOEXEC);
    equal(fcntl(plain, F_GETFD), 0, "open");
    equal(fcntl(marked, F_GETFD), FD_CLOEXEC, "open with O_CLOEXEC");
    equal(child_of(flag_in_child, plain), 0, "a child's is as it was");
    equal(child_of(flag_in_child, marked), FD_CLOEXEC, "with the flag as well");
    equal(child_of(open_after_exec, plain), 1, "open after exec");
    equal(child_of(open_after_exec, marked), 0, "closed after exec");
    equal(child_of(grandchild, marked), 0, "in a grandchild");
    equal(child_of(own_table, marked), 0, "in a table of its own");
    equal(dup2(marked, marked), marked, "dup2 onto itself");
    equal(fcntl(marked, F_GETFD), FD_CLOEXEC, "leaves the flag");
    equal(child_of(open_after_exec, marked), 0, "and it works");
    int copy = dup(marked);
    equal(fcntl(copy, F_GETFD), 0, "dup gives one without the flag");
    equal(child_of(open_after_exec, copy), 1, "that is open after exec");
    equal(dup3(plain, copy, O_CLOEXEC) == copy && fcntl(copy, F_GETFD) == FD_CLOEXEC, 1,
          "dup3 with the flag");
    equal(dup2(plain, copy) == copy && fcntl(copy, F_GETFD) == 0, 1,
          "dup2 onto one with the flag takes it away");
    close(copy);
    copy = fcntl(plain, F_DUPFD_CLOEXEC, 30);
    equal(child_of(open_after_exec, copy), 0, "F_DUPFD_CLOEXEC");
    fcntl(copy, F_SETFD, 0);
    equal(child_of(open_after_exec, copy), 1, "F_SETFD takes the flag away");
    fcntl(copy, F_SETFD, FD_CLOEXEC);
    equal(child_of(open_after_exec, copy), 0, "and gives it again");
    close(copy);
    /* The next descriptor of that number must not get the flag as well. */
    copy = dup(plain);
    equal(fcntl(copy, F_GETFD), 0, "another file gets the number without the flag");
    close(copy);
    equal(child_of(open_after_exec, plain), 1, "the other is open as before");
    close(plain), close(marked);
    fails(fcntl(marked, F_GETFD), EBADF, "F_GETFD of a closed one");
    fails(fcntl(marked, F_SETFD, 0), EBADF, "F_SETFD, too");
}

/* --- pipes that were closed, and made again --- */

static void pipes(void)
{
    int fd[2], lowest = dup(0), wrong = 0;
    struct rlimit limit, few;
    close(lowest);
    for (int i = 0; i < 5; i++) {
        char c = 0;
        wrong += pipe(fd) || fd[0] != lowest || fcntl(fd[0], F_GETFD) != 0 ||
                 fcntl(fd[0], F_GETFL) != O_RDONLY || fcntl(fd[1], F_GETFL) != O_WRONLY;
        wrong += write(fd[1], "x", 1) != 1 || (i % 2 && (read(fd[0], &c, 1) != 1 || c != 'x'));
        close(fd[i % 2]), close(fd[!(i % 2)]);
        wrong += pipe2(fd, O_CLOEXEC | O_NONBLOCK) || fcntl(fd[0], F_GETFD) != 1 ||
                 fcntl(fd[1], F_GETFL) != (O_WRONLY | O_NONBLOCK);
        wrong += read(fd[0], &c, 1) != -1 || errno != EAGAIN;
        close(fd[0]), close(fd[1]);
    }
    equal(wrong, 0, "are empty, and as they were asked for");
    fails(syscall(SYS_pipe, 8), EFAULT, "a pair nowhere");
    fails(syscall(SYS_pipe2, -8l, 0), EFAULT, "nor beyond");
    fails(syscall(SYS_pipe2, fd, 1), EINVAL, "a flag that there is not");
    getrlimit(RLIMIT_NOFILE, &limit);
    few = (struct rlimit){lowest + 1, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    fails(pipe(fd), EMFILE, "room for one end only");
    setrlimit(RLIMIT_NOFILE, &limit);
    equal(pipe(fd) == 0 && fd[0] == lowest && fd[1] == lowest + 1, 1, "and none of them left a descriptor");
    close(fd[0]), close(fd[1]);
}

/* --- named pipes --- */

static void on_alarm(int signo) { (void)signo; }

/* A thread that is interrupted while it waits for the other side is on no side. */
static void interrupted_opens(void)
{
    struct sigaction action = {.sa_handler = on_alarm}, old;
    struct itimerval often = {{0, 5000}, {0, 5000}}, never = {0};
    char c;
    unlink("named");
    check(mkfifo("named", 0600) == 0, "a named pipe");
    sigaction(SIGALRM, &action, &old);
    signal(SIGPIPE, SIG_IGN);
    int reader = open("named", O_RDONLY | O_NONBLOCK);
    setitimer(ITIMER_REAL, &often, 0);
    fails(open("named", O_RDONLY), EINTR, "a second reader is interrupted");
    setitimer(ITIMER_REAL, &never, 0);
    int writer = open("named", O_WRONLY | O_NONBLOCK);
    equal(write(writer, "w", 1), 1, "the first is there");
    close(reader);
    fails(write(writer, "w", 1), EPIPE, "nobody reads when it has gone");
    setitimer(ITIMER_REAL, &often, 0);
    fails(open("named", O_WRONLY), EINTR, "a second writer is interrupted");
    setitimer(ITIMER_REAL, &never, 0);
    reader = open("named", O_RDONLY | O_NONBLOCK);
    while (read(reader, &c, 1) > 0)
        ;
    fails(read(reader, &c, 1), EAGAIN, "the first is there");
    close(writer);
    equal(read(reader, &c, 1), 0, "nobody writes when it has gone");
    close(reader);
    signal(SIGPIPE, SIG_DFL);
    sigaction(SIGALRM, &old, 0);
    unlink("named");
}

/* --- pipes: what is at most PIPE_BUF is written whole or not at all --- */

enum { RECORD = 3001, RECORDS = 60, WRITERS = 3 };

static void whole(void)
{
    static char big[70000], record[RECORD];
    int fd[2], available = 0, before = 0;
    long got, filled = 0;
    pipe2(fd, O_NONBLOCK);
    while ((got = write(fd[1], big, 4096)) > 0)
        filled += got;
    equal(filled % 4096 == 0 && errno == EAGAIN, 1, "full of whole writes");
    equal(read(fd[0], big, 100), 100, "a hundred bytes of room");
    fails(write(fd[1], big, 4096), EAGAIN, "are not enough for 4096");
    ioctl(fd[0], FIONREAD, &available);
    equal(available, filled - 100, "and nothing of them was written");
    equal(poll(&(struct pollfd){fd[1], POLLOUT, 0}, 1, 0), 0, "nor does poll say that there is room");
    while (read(fd[0], big, sizeof big) > 0)
        ;
    equal(write(fd[1], big, 4096), 4096, "once it is empty it takes them");
    close(fd[0]), close(fd[1]);

    /* Writers that wait for room, and a reader that makes only little of it at a time. */
    pipe(fd);
    fflush(stdout);
    for (int i = 0; i < WRITERS; i++)
        if (fork() == 0) {
            memset(record, 'a' + i, RECORD);
            for (int j = 0; j < RECORDS; j++)
                if (write(fd[1], record, RECORD) != RECORD)
                    _exit(1);
            _exit(0);
        }
    close(fd[1]);
    do
        ioctl(fd[0], FIONREAD, &before), sched_yield();
    while (before < 45000);
    int good = 1, inside = 0, last = 0;
    long seen = 0;
    while ((got = read(fd[0], big, 777)) > 0)
        for (long i = 0; i < got; i++, seen++) {
            good &= inside == 0 || big[i] == last;
            last = big[i];
            inside = (inside + 1) % RECORD;
        }
    check(good, "records of several writers do not mix");
    equal(seen, (long)WRITERS * RECORDS * RECORD, "and nothing is lost");
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status;
    equal(failed, 0, "no writer had to write one in parts");
    close(fd[0]);
}

/* --- locks --- */

static int locked_by_other(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &lock) ? errno : 0;
}

/* The error of a child that opens the file anew and asks for a lock on it. */
static int conflict(const char *name)
{
    int fd = open(name, O_RDWR);
    int error = child_of(locked_by_other, fd);
    /* Closing it would give up our own. */
    return error | (fd << 8);
}

static int take_and_keep(int fd) { return locked_by_other(fd); }

static int flock_of(int fd) { return flock(fd, LOCK_EX | LOCK_NB) ? errno : 0; }

static int lock_range(int fd, int type, long from, long length)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = length};
    return fcntl(fd, F_SETLK, &lock);
}

/* Which of the bytes 0 to 9 another process finds locked. */
static int map_of_locks(int fd)
{
    int status = 0, ends[2], map = 0;
    pipe(ends);
    if (fork() == 0) {
        for (int i = 0; i < 10; i++) {
            struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
            fcntl(fd, F_GETLK, &lock);
            if (lock.l_type != F_UNLCK)
                map |= 1 << i;
        }
        write(ends[1], &map, sizeof map);
        _exit(0);
    }
    close(ends[1]);
    read(ends[0], &map, sizeof map);
    close(ends[0]);
    wait(&status);
    return map;
}

static void locks(void)
{
    int status, other;
    int fd = open("lock", O_RDWR | O_CREAT, 0600);
    write(fd, "0123456789", 10);
    equal(lock_range(fd, F_WRLCK, 0, 0), 0, "a lock of the whole file");
    equal((other = conflict("lock")) & 255, EAGAIN, "another process does not get it");
    close(other >> 8);
    equal(child_of(take_and_keep, fd), 0, "closing any descriptor of the file gives it up");
    equal(child_of(take_and_keep, fd), 0, "and who ends gives up his own");
    lock_range(fd, F_WRLCK, 0, 0);
    other = dup(fd);
    equal(child_of(take_and_keep, fd), EAGAIN, "a duplicate does not");
    close(other);
    equal(child_of(take_and_keep, fd), 0, "until it is closed");
    lock_range(fd, F_WRLCK, 0, 0);
    dup2(fd, 40);
    dup2(1, 40);
    equal(child_of(take_and_keep, fd), 0, "by dup2 onto it, too");
    close(40);
    lock_range(fd, F_WRLCK, 2, 3);
    equal(map_of_locks(fd), 0x1c, "a lock of three bytes");
    lock_range(fd, F_UNLCK, 3, 1);
    equal(map_of_locks(fd), 0x14, "opened in the middle");
    lock_range(fd, F_WRLCK, 3, 5);
    equal(map_of_locks(fd), 0xfc, "made longer");
    lock_range(fd, F_RDLCK, 0, 4);
    equal(map_of_locks(fd), 0xff, "a part for reading");
    equal(child_of(locked_by_other, fd), EAGAIN, "is in a writer's way");
    struct flock ask = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 4};
    if (fork() == 0)
        _exit(fcntl(fd, F_SETLK, &ask) ? errno : 0);
    wait(&status);
    equal(status, 0, "not in a reader's");
    pid_t self = getpid();
    if (fork() == 0) {
        struct flock got = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 2};
        fcntl(fd, F_GETLK, &got);
        _exit(got.l_type != F_RDLCK || got.l_pid != self || got.l_start != 0 || got.l_len != 4);
    }
    wait(&status);
    equal(status, 0, "F_GETLK tells whose, what and where");
    ask = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
    equal(fcntl(fd, F_GETLK, &ask) == 0 && ask.l_type == F_UNLCK, 1, "one's own are not in one's way");
    lock_range(fd, F_UNLCK, 0, 0);
    equal(map_of_locks(fd), 0, "all are given up");
    /* Waiting for a lock. */
    int told[2];
    pipe(told);
    lock_range(fd, F_WRLCK, 0, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        write(told[1], "w", 1);
        int got = fcntl(fd, F_SETLKW, &lock);
        write(told[1], "g", 1);
        _exit(got != 0);
    }
    char c;
    read(told[0], &c, 1);
    equal(poll(&(struct pollfd){told[0], POLLIN, 0}, 1, 50), 0, "F_SETLKW waits");
    lock_range(fd, F_UNLCK, 0, 0);
    equal(read(told[0], &c, 1) == 1 && c == 'g', 1, "until the lock is given up");
    waitpid(child, &status, 0);
    equal(status, 0, "and has it then");
    close(told[0]), close(told[1]);
    int reader = open("lock", O_RDONLY);
    fails(lock_range(reader, F_WRLCK, 0, 1), EBADF, "a writer's lock on a descriptor for reading");
    close(reader);

    /* flock belongs to the description. */
    int again = open("lock", O_RDWR);
    equal(flock(fd, LOCK_EX | LOCK_NB), 0, "flock");
    fails(flock(again, LOCK_SH | LOCK_NB), EWOULDBLOCK, "not for another description");
    equal(child_of(flock_of, fd), 0, "but in a child for the same");
    other = dup(fd);
    close(fd);
    fails(flock(again, LOCK_EX | LOCK_NB), EWOULDBLOCK, "closing one of two descriptors keeps it");
    close(other);
    equal(flock(again, LOCK_EX | LOCK_NB), 0, "closing the last gives it up");
    equal(flock(again, LOCK_UN), 0, "LOCK_UN");
    fd = open("lock", O_RDWR);
    equal(flock(fd, LOCK_SH) || flock(again, LOCK_SH | LOCK_NB), 0, "two share it");
    fails(flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK, "neither has it alone");
    close(again);
    equal(flock(fd, LOCK_EX | LOCK_NB), 0, "until the other has gone");
    close(fd);
    unlink("lock");
}

/* --- O_NONBLOCK and others belong to the description, close-on-exec to the descriptor --- */

static void flags(void)
{
    int fd[2];
    char c;
    pipe(fd);
    int copy = dup(fd[0]);
    fcntl(copy, F_SETFL, O_NONBLOCK);
    check(fcntl(fd[0], F_GETFL) & O_NONBLOCK, "O_NONBLOCK by a duplicate");
    fails(read(fd[0], &c, 1), EAGAIN, "holds for the other");
    fcntl(fd[0], F_SETFL, 0);
    equal(fcntl(copy, F_GETFL) & O_NONBLOCK, 0, "and is taken away for both");
    int on = 1;
    equal(ioctl(copy, FIONBIO, &on) == 0 && fcntl(fd[0], F_GETFL) & O_NONBLOCK, 1, "FIONBIO");
    close(copy), close(fd[0]), close(fd[1]);
    int path = open("/tmp", O_PATH);
    struct stat st;
    check(path >= 0 && fstat(path, &st) == 0 && S_ISDIR(st.st_mode), "O_PATH");
    fails(read(path, &c, 1), EBADF, "cannot be read");
    fails(fchmod(path, 0777), EBADF, "nor changed");
    close(path);
    int tmp = open(".", O_TMPFILE | O_RDWR, 0640);
    check(tmp >= 0 && fstat(tmp, &st) == 0 && st.st_nlink == 0 && (st.st_mode & 0777) == 0640, "O_TMPFILE");
    struct stat same = {0};
    check(write(tmp, "12345", 5) == 5 && syscall(SYS_fstat, tmp, &st) == 0 && st.st_size == 5,
          "what was written counts at once");
    check(syscall(SYS_newfstatat, tmp, "", &same, AT_EMPTY_PATH) == 0 && memcmp(&st, &same, sizeof st) == 0,
          "newfstatat of a descriptor says what fstat does");
    check(fchmod(tmp, 0604) == 0 && syscall(SYS_fstat, tmp, &same) == 0 && (same.st_mode & 0777) == 0604 &&
              same.st_size == 5,
          "and what was changed");
    fails(syscall(SYS_newfstatat, tmp, "", &same, 0), ENOENT, "without the flag no path is no file");
    fails(syscall(SYS_newfstatat, tmp, 8, &same, AT_EMPTY_PATH), EFAULT, "a path that is nowhere");
    fails(syscall(SYS_fstat, tmp, 8), EFAULT, "attributes go nowhere");
    fails(syscall(SYS_fstat, tmp, -4096l), EFAULT, "or into the kernel");
    fails(syscall(SYS_fstat, 100000, &same), EBADF, "of no file");
    fails(syscall(SYS_fstat, -1, &same), EBADF, "nor of a descriptor below zero");
    char name[40];
    sprintf(name, "/proc/self/fd/%d", tmp);
    equal(linkat(AT_FDCWD, name, AT_FDCWD, "named", AT_SYMLINK_FOLLOW), 0, "linkat gives it a name");
    equal(stat("named", &st) || st.st_nlink != 1, 0, "and it has one");
    close(tmp);
    unlink("named");
}

static void names(void)
{
    struct stat st;
    char name[40], target[40];
    mode_t before = umask(027);
    equal(mkdir("d", 0777) == 0 && stat("d", &st) == 0 && (st.st_mode & 0777) == 0750, 1,
          "mkdir minds the umask");
    equal(mknod("d/n", S_IFREG | 0666, 0) == 0 && stat("d/n", &st) == 0 && (st.st_mode & 0777) == 0640, 1,
          "mknod, too");
    umask(before);
    fails(rmdir("d/."), EINVAL, "rmdir of .");
    fails(rmdir("d/.."), ENOTEMPTY, "rmdir of ..");
    fails(rmdir("/"), EBUSY, "rmdir of the root");
    fails(unlink("d/n/"), ENOTDIR, "unlink of a file with a slash");
    fails(mkdir("d/n/x", 0777), ENOTDIR, "mkdir below a file");
    fails(mkdir("d/none/x", 0777), ENOENT, "mkdir below nothing");
    fails(link("d", "e"), EPERM, "link of a directory");
    fails(symlink("", "e"), ENOENT, "an empty link");
    symlink("n", "d/l0");
    for (int i = 1; i <= 40; i++) {
        sprintf(name, "d/l%d", i), sprintf(target, "l%d", i - 1);
        symlink(target, name);
    }
    equal(stat("d/l39", &st), 0, "forty links one after the other");
    fails(stat("d/l40", &st), ELOOP, "one more is too many");
    for (int i = 0; i <= 40; i++) {
        sprintf(name, "d/l%d", i);
        unlink(name);
    }
    if (fork() == 0)
        _exit(chdir("d") == 0 && access("n", F_OK) == 0 && umask(077) == before ? 0 : 1);
    int status;
    wait(&status);
    equal(status == 0 && access("n", F_OK) == -1 && umask(before) == before, 1,
          "a child's directory and umask are its own");
    unlink("d/n");
    equal(rmdir("d/"), 0, "rmdir with a slash");
}

static const struct group groups[] = {
    {"appending", appending}, {"offsets", offsets}, {"ways", ways},   {"close-on-exec", close_on_exec},
    {"pipes", pipes},         {"interrupted_opens", interrupted_opens},
    {"whole", whole},             {"locks", locks}, {"flags", flags},
    {"names", names},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--open") == 0)
        return count_open(argv + 2);
    char directory[] = "/tmp/files-XXXXXX";
    if (!mkdtemp(directory) || chdir(directory)) {
        perror(directory);
        return 2;
    }
    run_groups(GROUPS(groups), 0, argc, argv);
    chdir("/");
    check(rmdir(directory) == 0, "nothing is left behind");
    return done();
}
