/* Limits of a process: the length of its files (RLIMIT_FSIZE), its data (RLIMIT_DATA), its addresses
 * (RLIMIT_AS), its CPU time (RLIMIT_CPU), the memory that it locks (RLIMIT_MEMLOCK); and what a stack that
 * grows, a program that is executed and a child may be.
 *
 * Interface: bounds [GROUP...]; TAP on standard output. As root, and all of it holds on Linux too.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { USER = 61010, PAGE = 4096 };

static volatile sig_atomic_t told;

static void note(int signo) { told += signo == SIGXFSZ || signo == SIGXCPU; }

static void bound(int resource, long soft, long hard)
{
    struct rlimit limit = {soft, hard};
    if (setrlimit(resource, &limit))
        tap_report(0, "setrlimit");
}

/* In a process of its own; what it reports is the parent's. */
static int apart(void (*part)(void))
{
    int status = -1, ends[2], counts[2] = {tap_count, tap_failed};
    if (pipe(ends))
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        part();
        counts[0] = tap_count, counts[1] = tap_failed;
        _exit(write(ends[1], counts, sizeof counts) != sizeof counts);
    }
    close(ends[1]);
    if (read(ends[0], counts, sizeof counts) == sizeof counts)
        tap_count = counts[0], tap_failed = counts[1];
    close(ends[0]);
    waitpid(child, &status, 0);
    return status;
}

static long length(int fd)
{
    struct stat stat;
    return fstat(fd, &stat) ? -1 : stat.st_size;
}

static void file_writes(void)
{
    static char text[10000];
    int ends[2], fd = open("/tmp/bounds", O_CREAT | O_TRUNC | O_RDWR, 0600);
    int end = open("/tmp/bounds", O_WRONLY | O_APPEND);
    signal(SIGXFSZ, note);
    equal(write(fd, text, 6000), 6000, "without a limit");
    bound(RLIMIT_FSIZE, 8000, 9000);
    equal(write(fd, text, 1000), 1000, "below the limit");
    equal(write(fd, text, 0), 0, "nothing");
    equal(write(fd, text, 5000), 1000, "what fits up to the limit");
    equal(told, 0, "without a signal");
    fails(write(fd, text, 1), EFBIG, "at the limit there is no room");
    equal(told, 1, "and SIGXFSZ");
    equal(write(fd, text, 0), 0, "but for nothing");
    fails(write(end, text, 1), EFBIG, "at the end neither");
    fails(pwrite(fd, text, 1, 8000), EFBIG, "pwrite");
    fails(pwrite(fd, text, 1, 100000), EFBIG, "pwrite far behind");
    equal(told, 4, "a signal each time");
    equal(pwrite(fd, text, 100, 7990), 10, "pwrite up to it");
    struct iovec two[2] = {{text, 3}, {text, 9}};
    equal(pwritev(fd, two, 2, 7992), 8, "pwritev up to it");
    equal(lseek(fd, 0, SEEK_SET), 0, "back");
    equal(write(fd, text, 7000), 7000, "what is there may be written again");
    equal(length(fd), 8000, "the file is as long as may be");
    equal(told, 4, "all that without a signal");
    signal(SIGXFSZ, SIG_IGN);
    fails(write(end, text, 1), EFBIG, "a signal that is ignored leaves the error");
    equal(pipe(ends), 0, "a pipe");
    bound(RLIMIT_FSIZE, 0, 9000);
    equal(write(ends[1], text, 100), 100, "has no such limit");
    fails(pwrite(fd, text, 1, 0), EFBIG, "with none at all nothing is written");
    int fresh = open("/tmp/bounds2", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    check(fresh >= 0, "a file is made");
    fails(write(fresh, text, 1), EFBIG, "and stays empty");
    int other = dup(fd);
    lseek(other, 0, SEEK_SET);
    fails(write(other, text, 1), EFBIG, "by another descriptor");
    bound(RLIMIT_FSIZE, 9000, 9000);
    equal(write(fresh, text, 100), 100, "with more of it there is room");
    int memory = memfd_create("bounds", 0);
    equal(write(memory, text, 10000), 9000, "a file without a name too");
    unlink("/tmp/bounds"), unlink("/tmp/bounds2");
}

static void file_lengths(void)
{
    int fd = open("/tmp/bounds", O_CREAT | O_TRUNC | O_RDWR, 0600);
    signal(SIGXFSZ, note);
    equal(ftruncate(fd, 20000), 0, "without a limit");
    bound(RLIMIT_FSIZE, 8000, 9000);
    equal(ftruncate(fd, 10000), 0, "shorter goes, though it is beyond");
    fails(ftruncate(fd, 10001), EFBIG, "longer does not");
    equal(told, 1, "SIGXFSZ");
    fails(truncate("/tmp/bounds", 30000), EFBIG, "truncate");
    equal(told, 2, "a signal again");
    equal(ftruncate(fd, 100), 0, "shorter");
    equal(ftruncate(fd, 8000), 0, "as long as may be");
    fails(ftruncate(fd, 8001), EFBIG, "no more");
    fails(fallocate(fd, 0, 0, 9000), EFBIG, "nor by fallocate");
    equal(told, 4, "with signals");
    equal(fallocate(fd, 0, 0, 8000), 0, "which may go as far");
    unlink("/tmp/bounds");
}

static void file_default(void)
{
    int fd = open("/tmp/bounds", O_CREAT | O_TRUNC | O_RDWR, 0600);
    unlink("/tmp/bounds");
    bound(RLIMIT_FSIZE, 0, 0);
    _exit(write(fd, "x", 1) == 1);
}

static void *writes(void *fd)
{
    static char text[1000];
    while (write(*(int *)fd, text, sizeof text) > 0)
        ;
    return 0;
}

/* The code of a descriptor is the same for all threads; one of them is at it when the limit comes. */
static void file_others(void)
{
    int fd = open("/tmp/bounds", O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0600);
    struct rlimit limit = {100000, 100000};
    signal(SIGXFSZ, SIG_IGN);
    unlink("/tmp/bounds");
    pid_t child = fork();
    if (child == 0) {
        pthread_t two[2];
        for (int i = 0; i < 2; i++)
            pthread_create(two + i, 0, writes, &fd);
        for (int i = 0; i < 2; i++)
            pthread_join(two[i], 0);
        _exit(0);
    }
    equal(prlimit(child, RLIMIT_FSIZE, &limit, 0), 0, "another's limit is set while it writes");
    int status;
    equal(waitpid(child, &status, 0), child, "it ends");
    equal(status, 0, "by itself");
    limit.rlim_cur = length(fd);
    check(limit.rlim_cur >= 100000, "where the file is as long as may be");
    check(length(fd) % 1000 == 0, "written whole");
    equal(write(fd, "xxx", 3), 3, "who has no limit goes on");
}

static void fsize(void)
{
    equal(apart(file_writes), 0, "writes under a limit");
    equal(apart(file_lengths), 0, "lengths under a limit");
    int status = apart(file_default);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ, "SIGXFSZ ends who does not care for it");
    equal(apart(file_others), 0, "beside others");
}

static char *area(long bytes, int prot) { return mmap(0, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

#define REFUSED(call, error, name) check((void *)(call) == MAP_FAILED && errno == (error), name)

/* Without memory of its own. */
static long line(const char *path, const char *name)
{
    static char text[65536];
    long count, length = 0;
    int fd = open(path, O_RDONLY);
    while ((count = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += count;
    close(fd);
    text[length] = 0;
    char *at = strstr(text, name);
    return at ? atol(at + strlen(name)) : -1;
}

static long status(const char *name) { return line("/proc/self/status", name); }

/* The heap's end moved to `to`: 0, or -1 with ENOMEM. Not by the library, whose heap may be elsewhere. */
static int heap_to(const char *to)
{
    char *now = (char *)syscall(SYS_brk, to);
    errno = ENOMEM;
    return now == to ? 0 : -1;
}

static char *heap_end(void) { return (char *)syscall(SYS_brk, 0); }

static void data_part(void)
{
    long now = status("VmData:") << 10;
    check(now > 0, "VmData");
    char *start = heap_end(), *none = area(64 * PAGE, PROT_NONE), *read = area(16 * PAGE, PROT_READ);
    bound(RLIMIT_DATA, now + 8 * PAGE, now + 64 * PAGE);
    REFUSED(area(9 * PAGE, PROT_READ | PROT_WRITE), ENOMEM, "more data than the limit");
    check(area(100 * PAGE, PROT_READ) != MAP_FAILED, "what cannot be written does not count");
    check(mmap(0, 100 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED,
          "nor what is shared");
    char *eight = area(8 * PAGE, PROT_READ | PROT_WRITE);
    check(eight != MAP_FAILED, "as much as the limit");
    equal((status("VmData:") << 10) - now, 8 * PAGE, "and is counted");
    fails(mprotect(none, PAGE, PROT_READ | PROT_WRITE), ENOMEM, "nothing becomes writable any more");
    fails(mprotect(read, PAGE, PROT_READ | PROT_WRITE), ENOMEM, "of whatever was readable either");
    equal(mprotect(eight, 8 * PAGE, PROT_READ), 0, "what is not writable any more");
    equal(status("VmData:") << 10, now, "counts no more");
    equal(mprotect(eight, 8 * PAGE, PROT_READ | PROT_WRITE), 0, "and again");
    equal(munmap(eight, 4 * PAGE), 0, "half of it goes");
    equal(mprotect(none, 4 * PAGE, PROT_READ | PROT_WRITE), 0, "so that there is room");
    REFUSED(mremap(eight + 4 * PAGE, 4 * PAGE, 5 * PAGE, MREMAP_MAYMOVE), ENOMEM,
            "mremap makes no more of it");
    equal(munmap(none, 4 * PAGE), 0, "room again");
    char *moved = mremap(eight + 4 * PAGE, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
    check(moved != MAP_FAILED, "as much as there is");
    equal((long)munmap(moved, 8 * PAGE), 0, "gone");
    equal(status("VmData:") << 10, now, "all of it");
    fails(heap_to(start + 64 * PAGE), ENOMEM, "the heap is data too");
    equal((long)((char *)heap_end() - start), 0, "and has not moved");
}

static void heap_part(void)
{
    char *start = heap_end();
    bound(RLIMIT_DATA, 0, 100 << 20);
    fails(heap_to(start + 4 * PAGE), ENOMEM, "without data the heap does not grow");
    equal(heap_to(start), 0, "nor shrink");
}

static void as_part(void)
{
    long now = status("VmSize:") << 10;
    char *start = heap_end(), *four = area(4 * PAGE, PROT_READ);
    bound(RLIMIT_AS, now + 12 * PAGE, now + 12 * PAGE);
    REFUSED(area(9 * PAGE, PROT_NONE), ENOMEM, "more addresses than the limit");
    REFUSED(mremap(four, 4 * PAGE, 13 * PAGE, MREMAP_MAYMOVE), ENOMEM, "by mremap");
    fails(heap_to(start + 9 * PAGE), ENOMEM, "by the heap");
    char *eight = area(8 * PAGE, PROT_NONE);
    check(eight != MAP_FAILED, "as many as the limit");
    check(mmap(eight, 8 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == eight,
          "in the place of others as many as those");
    REFUSED(mmap(eight - PAGE, 9 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), ENOMEM,
            "and no more");
}

/* The data of the program's file counts beside the heap. */
static void own_data(void)
{
    static volatile char mine[20 * PAGE] = {1};
    enum { MOST = 8 << 20 };
    char *start = heap_end();
    bound(RLIMIT_DATA, MOST, MOST);
    fails(heap_to(start + MOST - 15 * PAGE), ENOMEM, "the heap without the program's own data");
    equal(heap_to(start + MOST / 2), 0, "with it");
    equal(mine[0], 1, "which is there");
}

static void data(void)
{
    equal(apart(data_part), 0, "data under a limit");
    equal(apart(heap_part), 0, "a heap under a limit");
    equal(apart(as_part), 0, "addresses under a limit");
    equal(apart(own_data), 0, "a heap beside data");
}

static void burn_until(int times)
{
    while (told < times)
        ;
}

static double used(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void cpu_soft(void)
{
    struct rlimit limit;
    signal(SIGXCPU, note);
    bound(RLIMIT_CPU, 1, 9);
    burn_until(1);
    double first = used();
    if (!check(first > 0.5 && first < 1.9, "SIGXCPU after a second of its own"))
        printf("# %f s\n", first);
    getrlimit(RLIMIT_CPU, &limit);
    equal(limit.rlim_cur, 2, "the limit is one second more from then on");
    burn_until(2);
    double second = used();
    if (!check(second > 1.5 && second < 2.9, "and tells again"))
        printf("# %f s\n", second);
}

static void cpu_hard(void)
{
    signal(SIGXCPU, SIG_IGN);
    bound(RLIMIT_CPU, 0, 1);
    for (;;)
        ;
}

static void cpu_default(void)
{
    bound(RLIMIT_CPU, 1, 9);
    for (;;)
        ;
}

static void cpu_asleep(void)
{
    signal(SIGXCPU, note);
    bound(RLIMIT_CPU, 1, 2);
    struct timespec time = {1, 200000000};
    nanosleep(&time, 0);
    equal(told, 0, "time asleep does not count");
}

static void ends_by(int status, int signo, const char *name)
{
    if (!check(WIFSIGNALED(status) && WTERMSIG(status) == signo, name))
        printf("# status %#x\n", status);
}

static void cpu(void)
{
    equal(apart(cpu_soft), 0, "time under a limit");
    ends_by(apart(cpu_hard), SIGKILL, "SIGKILL at the second limit");
    ends_by(apart(cpu_default), SIGXCPU, "SIGXCPU ends who does not care for it");
    equal(apart(cpu_asleep), 0, "a sleeper");
}

static int as_user(void) { return setgid(USER) || setuid(USER); }

static long locked(void) { return (status("VmLck:") << 10) / PAGE; }

static void lock_root(void)
{
    bound(RLIMIT_MEMLOCK, 0, 0);
    char *at = area(64 * PAGE, PROT_READ | PROT_WRITE);
    equal(locked(), 0, "nothing is locked at first");
    equal(mlock(at + 10, 2 * PAGE), 0, "who may, may without a limit");
    equal(locked(), 3, "whole pages count");
    equal(mlock(at + 2 * PAGE, 8 * PAGE), 0, "some again");
    equal(locked(), 10, "count once");
    equal(munlock(at + PAGE, 2 * PAGE), 0, "some out of the middle");
    equal(locked(), 8, "count no more");
    fails(madvise(at, PAGE, MADV_DONTNEED), EINVAL, "pages that are locked are not given up");
    fails(msync(at, PAGE, MS_INVALIDATE), EBUSY, "nor made invalid");
    equal(munmap(at, 4 * PAGE), 0, "what goes");
    equal(locked(), 6, "counts no more");
    char *more = mremap(at + 4 * PAGE, 6 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
    check(more != MAP_FAILED, "what grows");
    equal(locked(), 8, "counts more");
    equal(mprotect(more, 4 * PAGE, PROT_READ), 0, "rights");
    equal(locked(), 8, "change nothing");
    pid_t child = fork();
    if (child == 0)
        _exit(locked() != 0);
    int left;
    waitpid(child, &left, 0);
    equal(left, 0, "a child has nothing locked");
    equal(munlockall(), 0, "all are let go");
    equal(locked(), 0, "and none counts");
    equal(line("/proc/self/smaps", "Locked:"), 0, "nor in smaps");
    equal(mlockall(MCL_CURRENT), 0, "all that there is");
    check(line("/proc/self/smaps", "Locked:") > 0, "where all that is there is");
    check(locked() > 60, "counts");
    munlockall();
    fails(mlockall(0), EINVAL, "nothing is no choice");
    fails(mlockall(8), EINVAL, "nor what there is not");
    fails(mlockall(MCL_ONFAULT), EINVAL, "nor that alone");
    fails(syscall(SYS_mlock2, at, PAGE, 2), EINVAL, "mlock2 knows one flag");
    equal(mlock(0, 0), 0, "nothing is locked without an error");
    fails(mlock((void *)-PAGE, 2 * PAGE), EINVAL, "no wrapping round");
    char *hole = area(8 * PAGE, PROT_READ | PROT_WRITE);
    munmap(hole + 4 * PAGE, PAGE);
    fails(mlock(hole, 8 * PAGE), ENOMEM, "a hole");
    equal(locked(), 4, "what is before it is locked");
    fails(munlock(hole, 8 * PAGE), ENOMEM, "a hole again");
    equal(locked(), 0, "what is before it is let go");
    char *none = area(PAGE, PROT_NONE);
    fails(mlock(none, PAGE), ENOMEM, "what nobody may touch cannot be fetched");
}

static void lock_user(void)
{
    bound(RLIMIT_MEMLOCK, 8 * PAGE, 8 * PAGE);
    if (as_user())
        _exit(9);
    char *at = area(64 * PAGE, PROT_READ | PROT_WRITE);
    fails(mlock(at, 9 * PAGE), ENOMEM, "more than the limit");
    equal(locked(), 0, "none of it");
    equal(mlock(at, 8 * PAGE), 0, "as much as the limit");
    equal(mlock(at + PAGE, 4 * PAGE), 0, "some of it again");
    fails(mlock(at + 4 * PAGE, 5 * PAGE), ENOMEM, "one page more");
    equal(locked(), 8, "changes nothing");
    fails(mlockall(MCL_CURRENT), ENOMEM, "all that there is");
    REFUSED(mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0), EAGAIN,
            "a mapping to be locked");
    REFUSED(mremap(at, 8 * PAGE, 9 * PAGE, MREMAP_MAYMOVE), EAGAIN, "one that is grows");
    equal(munlock(at, 4 * PAGE), 0, "half of it");
    char *four = mmap(0, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    check(four != MAP_FAILED, "makes room");
    equal(locked(), 8, "which is taken");
    munmap(four, 4 * PAGE);
    equal(mlockall(MCL_FUTURE), 0, "all that will be");
    check((four = area(4 * PAGE, PROT_READ)) != MAP_FAILED, "is locked");
    equal(locked(), 8, "as it comes");
    REFUSED(area(PAGE, PROT_READ), EAGAIN, "and refused beyond the limit");
    void *start = heap_end();
    fails(heap_to((char *)start + PAGE), ENOMEM, "the heap does not grow");
    equal(munlockall(), 0, "no more of this");
    check(area(PAGE, PROT_READ) != MAP_FAILED, "and it is over");
    equal(locked(), 0, "with all that was");
}

static void lock_none(void)
{
    bound(RLIMIT_MEMLOCK, 0, 0);
    if (as_user())
        _exit(9);
    char *at = area(64 * PAGE, PROT_READ | PROT_WRITE);
    fails(mlock(at, PAGE), EPERM, "who may lock nothing");
    fails(mlock(at, 0), EPERM, "not even nothing");
    fails(mlockall(MCL_CURRENT), EPERM, "nor all");
    fails(mlockall(MCL_FUTURE), EPERM, "nor what will be");
    fails(syscall(SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0), EPERM,
          "nor a mapping");
    equal(munlock(at, PAGE), 0, "may let go");
    equal(munlockall(), 0, "of all");
}

static void memlock(void)
{
    equal(apart(lock_root), 0, "memory locked by root");
    equal(apart(lock_user), 0, "memory locked by a user");
    equal(apart(lock_none), 0, "no memory locked");
}

static void tables(void)
{
    long before = status("VmPTE:");
    enum { TABLES = 20, SPAN = 2 << 20 };
    char *at = area((long)TABLES * SPAN, PROT_READ | PROT_WRITE);
    for (int i = 0; i < TABLES; i++)
        at[(long)i * SPAN] = 1;
    long now = status("VmPTE:");
    check(now - before >= 4 * (TABLES - 1) && now - before <= 4 * (TABLES + 4), "VmPTE counts tables");
    munmap(at, (long)TABLES * SPAN);
    check(status("VmPTE:") - before <= 16, "that are there");
}

/* A kind of limit, what it is, and how deep the stack becomes, in pages. */
static struct {
    int resource;
    long limit;
    int pages, lock, user;
} way;

static int deep(int pages)
{
    volatile char page[PAGE];
    page[0] = (char)pages;
    return pages ? deep(pages - 1) + page[0] : 0;
}

static void go_deep(void)
{
    if (way.lock)
        mlockall(MCL_CURRENT);
    bound(way.resource, way.limit, way.limit);
    if (way.user && as_user())
        _exit(9);
    deep(way.pages);
}

static int depth(int resource, long limit, int lock, int user)
{
    way.resource = resource, way.limit = limit, way.pages = 100, way.lock = lock, way.user = user;
    return apart(go_deep);
}

static void stacks(void)
{
    long now = status("VmSize:") << 10;
    equal(depth(RLIMIT_AS, now + (2 << 20), 0, 0), 0, "a stack grows");
    ends_by(depth(RLIMIT_AS, now + 10 * PAGE, 0, 0), SIGSEGV, "as far as there are addresses");
    equal(depth(RLIMIT_DATA, 0, 0, 0), 0, "it is no data");
    equal(depth(RLIMIT_STACK, 1 << 20, 0, 0), 0, "as long as it may be");
    ends_by(depth(RLIMIT_STACK, 64 << 10, 0, 0), SIGSEGV, "and no longer");
    equal(depth(RLIMIT_MEMLOCK, now + (4 << 20), 1, 1), 0, "one that is locked");
    ends_by(depth(RLIMIT_MEMLOCK, now + 10 * PAGE, 1, 1), SIGSEGV, "as far as may be");
    equal(depth(RLIMIT_MEMLOCK, now + 10 * PAGE, 1, 0), 0, "further for who may");
    equal(depth(RLIMIT_MEMLOCK, 10 * PAGE, 0, 1), 0, "and what is not locked");
}

static char long_word[100000];

static void execute(void)
{
    char *words[] = {"bounds", "nothing", long_word, 0}, *none[] = {0};
    bound(way.resource, way.limit, way.limit);
    execve("/proc/self/exe", words, none);
    _exit(100 + errno);
}

static int program(int resource, long limit)
{
    way.resource = resource, way.limit = limit;
    return apart(execute);
}

static void fork_below(void)
{
    bound(RLIMIT_AS, 16 * PAGE, 16 * PAGE);
    bound(RLIMIT_DATA, PAGE, PAGE);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int left = -1;
    equal(waitpid(child, &left, 0), child, "a child of who has more than may be");
    equal(left, 0, "and its end");
}

static void programs(void)
{
    long most = 64L << 20;
    equal(program(RLIMIT_AS, most), 0, "a program that has room");
    ends_by(program(RLIMIT_AS, 20 * PAGE), SIGSEGV, "one without addresses");
    ends_by(program(RLIMIT_DATA, PAGE), SIGSEGV, "one without data");
    ends_by(program(RLIMIT_DATA, 0), SIGSEGV, "with none at all");
    equal(program(RLIMIT_DATA, most), 0, "with much");
    memset(long_word, 'x', sizeof long_word - 1);
    equal(program(RLIMIT_AS, most), 0, "long words");
    equal(WEXITSTATUS(program(RLIMIT_AS, 16 * PAGE)), 100 + E2BIG, "longer than all addresses");
    equal(apart(fork_below), 0, "fork asks nothing");
}

static siginfo_t sent;

static void keep(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)context;
    sent = *info;
}

/* The sender of signals because of calls that the thread itself makes. */
static void senders(void)
{
    struct sigaction action = {.sa_sigaction = keep, .sa_flags = SA_SIGINFO};
    struct rlimit old, limit;
    int ends[2];
    sigaction(SIGXFSZ, &action, 0);
    sigaction(SIGPIPE, &action, 0);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 4;
    int fd = open("senders", O_RDWR | O_CREAT | O_TRUNC, 0600);
    setrlimit(RLIMIT_FSIZE, &limit);
    equal(write(fd, "abcd", 4), 4, "a file as long as it may be");
    fails(write(fd, "e", 1), EFBIG, "gets no longer");
    setrlimit(RLIMIT_FSIZE, &old);
    check(sent.si_signo == SIGXFSZ && sent.si_code == SI_USER, "SIGXFSZ is as if it had been sent");
    check(sent.si_pid == getpid() && sent.si_uid == getuid(), "by the writer");
    close(fd);
    unlink("senders");
    (void)!pipe(ends);
    close(ends[0]);
    fails(write(ends[1], "x", 1), EPIPE, "a pipe without a reader");
    check(sent.si_signo == SIGPIPE && sent.si_code == SI_USER, "SIGPIPE is as if it had been sent");
    check(sent.si_pid == getpid() && sent.si_uid == getuid(), "by the writer too");
    close(ends[1]);
    signal(SIGXFSZ, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "nothing") == 0)
        return 0;
    static const struct group groups[] = {{"fsize", fsize},      {"data", data},     {"cpu", cpu},
                                          {"memlock", memlock},  {"tables", tables}, {"stacks", stacks},
                                          {"programs", programs}, {"senders", senders}};
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
