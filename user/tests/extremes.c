/* Numbers at their ends: offsets, sizes, counts, times and addresses where arithmetic could overflow; passes
 * on Linux and must pass here.
 *
 * Interface: extremes [GROUP...] runs all groups or those named; TAP on standard output. Everything but
 * `programs` and a few checks that say so is the same for every user.
 *
 * Calls are made by number, so that no C library checks or changes what they are given.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE 4096ul
#define TOP 0x7ffffffff000ul /* the first address that no mapping has */
#define MOST INT64_MAX
#define LEAST INT64_MIN
#define call(number, ...) syscall(SYS_##number, ##__VA_ARGS__)

/* A file in memory of `size` bytes, all 'x'. */
static int file_of(size_t size)
{
    int fd = memfd_create("extremes", 0);
    char byte = 'x';
    while (size-- > 0)
        if (write(fd, &byte, 1) != 1)
            return -1;
    return fd;
}

/* The status of a child that runs `run(argument)` and exits with what that returns. */
static int status_of(int (*run)(long), long argument)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(run(argument));
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static int ended_by(int status, int signal) { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }

static int exited(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

static void offsets(void)
{
    char bytes[64];
    int fd = file_of(16);
    check(fd >= 0, "a file");
    fails(call(pread64, fd, bytes, 1, -1l), EINVAL, "pread before the beginning");
    fails(call(pread64, fd, bytes, 1, LEAST), EINVAL, "pread far before the beginning");
    fails(call(pread64, fd, bytes, 1, MOST), EINVAL, "pread that would end past the last offset");
    equal(call(pread64, fd, bytes, 0, MOST), 0, "pread of nothing at the last offset");
    equal(call(pread64, fd, bytes, 1, MOST - 1), 0, "pread of the last byte that can be");
    fails(call(pwrite64, fd, bytes, 1, -1l), EINVAL, "pwrite before the beginning");
    fails(call(pwrite64, fd, bytes, 2, MOST - 1), EINVAL, "pwrite that would end past the last offset");
    struct iovec piece = {bytes, 8};
    fails(call(preadv, fd, &piece, 1, -1l, -1l), EINVAL, "preadv before the beginning");
    fails(call(preadv, fd, &piece, 1, MOST, 0), EINVAL, "preadv that would end past the last offset");
    fails(call(pwritev, fd, &piece, 1, MOST, 0), EINVAL, "pwritev likewise");
    fails(call(preadv2, fd, &piece, 1, -2l, -1l, 0), EINVAL, "preadv2 before the beginning");

    equal(call(lseek, fd, MOST, SEEK_SET), MOST, "a file's offset may be the last");
    equal(read(fd, bytes, 0), 0, "nothing is read there");
    fails(lseek(fd, 1, SEEK_CUR), EINVAL, "and it goes no further");
    fails(lseek(fd, MOST, SEEK_CUR), EINVAL, "nor twice as far");
    fails(lseek(fd, LEAST, SEEK_CUR), EINVAL, "nor before the beginning");
    equal(lseek(fd, 0, SEEK_CUR), MOST, "and stays where it was");
    fails(lseek(fd, MOST, SEEK_END), EINVAL, "not past the end by the most");
    fails(lseek(fd, LEAST, SEEK_END), EINVAL, "not before the end by the most");
    fails(lseek(fd, MOST, SEEK_DATA), ENXIO, "no data at the last offset");
    fails(lseek(fd, MOST, SEEK_HOLE), ENXIO, "no hole at the last offset");
    fails(lseek(fd, -1, SEEK_DATA), ENXIO, "no data before the beginning");
    fails(lseek(fd, 0, INT_MAX), EINVAL, "no such direction");
    int left = 7;
    equal(ioctl(fd, FIONREAD, &left), 0, "what is left to read is asked there");

    int text = open("/proc/self/status", O_RDONLY);
    equal(lseek(text, MOST, SEEK_SET), MOST, "a text's offset may be the last");
    fails(lseek(text, 1, SEEK_CUR), EINVAL, "and goes no further");
    fails(lseek(text, MOST, SEEK_CUR), EINVAL, "nor twice as far");
    /* Its answer is not the same everywhere. */
    ioctl(text, FIONREAD, &left);
    fails(lseek(text, -1, SEEK_SET), EINVAL, "nor before the beginning");
    equal(lseek(text, 0, SEEK_SET), 0, "back");
    check(read(text, bytes, sizeof bytes) > 0, "a text is read again from its start");
    close(text);

    int dir = open("/proc/self", O_RDONLY | O_DIRECTORY);
    fails(lseek(dir, -1, SEEK_SET), EINVAL, "no offset of a directory before its beginning");
    if (lseek(dir, MOST, SEEK_SET) == MOST) {
        check(lseek(dir, 1, SEEK_CUR) == -1, "a directory's offset does not go past the last");
        check(lseek(dir, MOST, SEEK_CUR) == -1, "nor twice as far");
        check(call(getdents64, dir, bytes, sizeof bytes) <= 0, "no entries at the last offset");
    }
    close(dir);

    fails(call(fallocate, fd, 0, -1l, 1l), EINVAL, "fallocate before the beginning");
    fails(call(fallocate, fd, 0, 0l, 0l), EINVAL, "fallocate of nothing");
    fails(call(fallocate, fd, 0, 0l, -1l), EINVAL, "fallocate of less than nothing");
    fails(call(fallocate, fd, 0, MOST, 1l), EFBIG, "fallocate past the last offset");
    fails(call(fallocate, fd, 0, MOST, MOST), EFBIG, "fallocate by the most from there");
    int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    equal(call(fallocate, fd, punch, 100l, 10l), 0, "a hole behind the end");
    equal(call(fallocate, fd, punch, PAGE * 3, PAGE), 0, "a page's hole behind the end");
    equal(call(fallocate, fd, punch, MOST - PAGE, PAGE), 0, "a hole at the last offset");
    equal(call(fallocate, fd, punch, 8l, MOST - 8), 0, "a hole from the middle to the last offset");
    fails(call(fallocate, fd, punch, 8l, MOST), EFBIG, "a hole past the last offset");
    check(pread(fd, bytes, 64, 0) == 16 && memcmp(bytes, "xxxxxxxx\0\0\0\0\0\0\0\0", 16) == 0,
          "the file is as long as before, and holes only where they were asked for");
    fails(call(ftruncate, fd, -1l), EINVAL, "a negative length");
    fails(call(ftruncate, fd, LEAST), EINVAL, "the most negative length");
    fails(call(truncate, "/proc/self/exe", -1l), EINVAL, "a negative length by path");

    int64_t from = -2, to = 0;
    int other = file_of(0);
    fails(call(copy_file_range, fd, &from, other, &to, 1ul, 0), EINVAL,
          "copy_file_range from before the beginning");
    from = -1;
    fails(call(copy_file_range, fd, &from, other, &to, 1ul, 0), EOVERFLOW,
          "copy_file_range from there to the beginning");
    from = MOST;
    equal(call(copy_file_range, fd, &from, other, &to, 1ul, 0), 0,
          "copy_file_range past the last offset finds nothing");
    from = 0, to = MOST;
    fails(call(copy_file_range, fd, &from, other, &to, 16ul, 0), EFBIG,
          "copy_file_range to past the last offset");
    from = 0, to = -1;
    fails(call(copy_file_range, fd, &from, other, &to, 16ul, 0), EOVERFLOW,
          "copy_file_range to before the beginning");
    from = 0, to = 4;
    fails(call(copy_file_range, fd, &from, fd, &to, 8ul, 0), EINVAL, "copy_file_range onto itself");
    from = 0, to = 0;
    equal(call(copy_file_range, fd, &from, other, &to, SIZE_MAX, 0), 16,
          "copy_file_range of the most copies what there is");
    check(from == 16 && to == 16, "and says where it stopped");
    from = -1;
    fails(call(sendfile, other, fd, &from, 1ul), EINVAL, "sendfile from before the beginning");
    from = 0;
    fails(call(sendfile, other, fd, &from, SIZE_MAX), EINVAL, "sendfile of a negative count");
    from = MOST;
    fails(call(sendfile, other, fd, &from, 8ul), EINVAL, "sendfile past the last offset");
    from = 8;
    equal(call(sendfile, other, fd, &from, (size_t)MOST - 16), 8, "sendfile of the most sends what there is");
    fails(call(fadvise64, fd, 0l, -1l, 0), EINVAL, "advice on a negative length");
    equal(call(fadvise64, fd, MOST, MOST, 0), 0, "advice past the last offset");

    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = MOST, .l_len = MOST};
    fails(fcntl(fd, F_SETLK, &lock), EOVERFLOW, "a lock past the last offset");
    lock.l_start = 0, lock.l_len = LEAST;
    fails(fcntl(fd, F_SETLK, &lock), EINVAL, "a lock that begins before the beginning");
    lock.l_start = LEAST, lock.l_len = LEAST;
    fails(fcntl(fd, F_SETLK, &lock), EINVAL, "a lock far before the beginning");
    close(fd);
    close(other);
}

static void vectors(void)
{
    char bytes[16] = "0123456789abcde";
    int fd = file_of(16);
    struct iovec pieces[3] = {{bytes, 1}, {bytes, SIZE_MAX}, {bytes, 1}};
    fails(call(readv, fd, pieces, 3), EINVAL, "a piece of negative length");
    fails(call(readv, fd, pieces, -1l), EINVAL, "a negative number of pieces");
    fails(call(readv, fd, pieces, IOV_MAX + 1l), EINVAL, "one piece too many");
    equal(call(readv, fd, pieces, 1l << 60), 0, "the number of pieces has 32 bits");
    pieces[1] = (struct iovec){(void *)-1, SIZE_MAX};
    fails(call(writev, fd, pieces, 3), EINVAL, "the same to write, at a bad address");
    pieces[0] = (struct iovec){(void *)-1, 1};
    fails(call(writev, fd, pieces, 3), EINVAL, "a negative length comes before a bad address");
    pieces[0] = (struct iovec){bytes, 1};
    pieces[1] = (struct iovec){(void *)TOP, 2};
    fails(call(writev, fd, pieces, 3), EFAULT, "a piece beyond the last address");
    fails(call(readv, fd, (void *)-16l, 2), EFAULT, "pieces described at the end of all addresses");
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        pieces[i] = (struct iovec){(void *)PAGE, TOP - 2 * PAGE};
    equal(call(writev, null, pieces, 3), 0x7ffff000,
          "three times the address space is cut to the most that a call moves");
    lseek(fd, 0, SEEK_SET);
    fails(call(read, fd, bytes, SIZE_MAX), EFAULT, "a read of a negative count");
    fails(call(write, null, bytes, SIZE_MAX), EFAULT, "a write of a negative count");
    fails(call(pread64, fd, bytes, SIZE_MAX, 0l), EFAULT, "a pread of a negative count");
    fails(call(read, fd, (void *)TOP, 1ul), EFAULT, "a read to the first address that is none");
    fails(call(read, fd, (void *)-1l, 1ul), EFAULT, "a read to the last address of all");
    close(null);
    close(fd);
}

static void counts(void)
{
    struct pollfd none = {.fd = -1};
    equal(call(poll, &none, 1ul << 32, 0), 0, "poll counts in 32 bits");
    fails(call(poll, &none, (unsigned)INT_MAX, 0), EINVAL, "poll of too many");
    fails(call(poll, &none, UINT_MAX, 0), EINVAL, "poll of the most");
    fails(call(poll, (void *)-8l, 2, 0), EFAULT, "poll at the end of all addresses");
    struct timeval now = {0};
    fails(call(select, -1, 0, 0, 0, &now), EINVAL, "select of a negative number");
    equal(call(select, INT_MAX, 0, 0, 0, &now), 0, "select of the most, without sets");
    fails(call(select, 1, (void *)-8l, 0, 0, &now), EFAULT, "select with a set at the end of all addresses");
    fails(call(select, 64, (void *)-4l, 0, 0, &now), EFAULT, "and one across it");
    int epoll = epoll_create1(0);
    struct epoll_event event;
    fails(call(epoll_wait, epoll, &event, 0, 0), EINVAL, "epoll_wait for nothing");
    fails(call(epoll_wait, epoll, &event, -1, 0), EINVAL, "epoll_wait for less than nothing");
    fails(call(epoll_wait, epoll, &event, INT_MAX, 0), EINVAL,
          "epoll_wait for so many that their size overflows");
    equal(call(epoll_wait, epoll, &event, 1000000, 0), 0, "epoll_wait for very many");
    fails(call(epoll_wait, epoll, (void *)-1l, 1, 0), EFAULT, "epoll_wait at the end of all addresses");
    fails(call(epoll_create, INT_MIN), EINVAL, "epoll_create of a negative size");

    gid_t groups[1];
    fails(call(getgroups, -1, groups), EINVAL, "getgroups of a negative number");
    if (geteuid() == 0) {
        fails(call(setgroups, -1, groups), EINVAL, "setgroups of a negative number");
        fails(call(setgroups, 65537, groups), EINVAL, "setgroups of one too many");
        fails(call(sethostname, "x", -1), EINVAL, "a host's name of negative length");
        fails(call(sethostname, "x", 65), EINVAL, "a host's name that is too long");
        fails(call(setdomainname, "x", -1), EINVAL, "a domain's name of negative length");
    }
    char *page = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + PAGE, PAGE);
    equal(call(getrandom, page, 0ul, 0), 0, "no random bytes");
    fails(call(getrandom, (void *)-1l, SIZE_MAX, 0), EFAULT,
          "the most random bytes at the end of all addresses");
    unsigned long mask[32];
    fails(call(sched_getaffinity, 0, 0ul, mask), EINVAL, "a mask of CPUs of no size");
    fails(call(sched_getaffinity, 0, 7ul, mask), EINVAL, "a mask of CPUs of 7 bytes");
    fails(call(sched_getaffinity, 0, 1ul << 32, mask), EINVAL,
          "a mask of CPUs of so many bytes that 32 bits are zero");
    fails(call(sched_get_priority_max, -1), EINVAL, "priorities of no policy");
    fails(call(sched_rr_get_interval, -1, page), EINVAL, "the interval of a negative thread");
    fails(call(getpriority, -1, 0), EINVAL, "the priority of no kind of thing");
    fails(call(getpriority, PRIO_PROCESS, INT_MIN), ESRCH, "the priority of the most negative process");
    struct rlimit limit = {5, 4};
    fails(call(prlimit64, 0, -1, 0, &limit), EINVAL, "a limit of negative number");
    fails(call(prlimit64, 0, RLIMIT_CORE, &limit, 0), EINVAL, "a limit above its maximum");
    equal(call(prlimit64, 0, (1ul << 32) + RLIMIT_CORE, 0, &limit), 0, "a limit's number has 32 bits");
    char text[8];
    fails(call(readlink, "/proc/self/exe", text, 0), EINVAL, "readlink of no size");
    fails(call(readlink, "/proc/self/exe", text, -1), EINVAL, "readlink of a negative size");
    fails(call(readlink, "/proc/self/exe", text, INT_MIN), EINVAL, "readlink of the most negative size");
    fails(call(getcwd, text, 0ul), ERANGE, "getcwd of no size");
    check(call(getcwd, page, SIZE_MAX) > 0, "getcwd of the most");
    fails(call(getdents64, open("/proc", O_RDONLY), page, 0), EINVAL, "getdents of no size");

    int fd = dup(1);
    fails(fcntl(fd, F_DUPFD, -1), EINVAL, "a descriptor above a negative one");
    fails(fcntl(fd, F_DUPFD, INT_MAX), EINVAL, "a descriptor above the last");
    fails(fcntl(fd, F_DUPFD_CLOEXEC, INT_MIN), EINVAL, "a descriptor above the most negative one");
    fails(call(dup2, fd, -1), EBADF, "dup2 to a negative descriptor");
    fails(call(dup3, fd, INT_MAX, 0), EBADF, "dup3 to the last descriptor");
    fails(call(dup3, fd, INT_MIN, 0), EBADF, "dup3 to the most negative descriptor");
    fails(call(close, INT_MIN), EBADF, "close of the most negative descriptor");
    fails(call(close, INT_MAX), EBADF, "close of the last descriptor");
    fails(call(read, -1, text, 1ul), EBADF, "read of a negative descriptor");
    fails(call(fstat, INT_MIN, page), EBADF, "fstat of the most negative descriptor");
    fails(call(close_range, 5u, 4u, 0u), EINVAL, "close_range from behind");
    equal(call(close_range, (unsigned)INT_MAX, UINT_MAX, 0u), 0, "close_range of what cannot be");
    close(fd);

    fails(call(wait4, INT_MIN, 0, WNOHANG, 0), ESRCH, "wait for the most negative group");
    fails(call(kill, INT_MIN, 0), ESRCH, "kill of the most negative group");
    fails(call(kill, INT_MAX, 0), ESRCH, "kill of the last process");
    fails(call(tgkill, INT_MIN, INT_MIN, 0), EINVAL, "tgkill of the most negative thread");
    fails(call(kill, getpid(), 65), EINVAL, "a signal past the last");
    fails(call(kill, getpid(), INT_MIN), EINVAL, "the most negative signal");
    fails(call(setpgid, INT_MIN, 0), EINVAL, "a group for the most negative process");
    fails(call(getpgid, INT_MIN), ESRCH, "the group of the most negative process");
    fails(call(getsid, INT_MAX), ESRCH, "the session of the last process");
    fails(call(set_robust_list, page, 23ul), EINVAL, "a robust list of a wrong length");
    fails(call(set_robust_list, page, SIZE_MAX), EINVAL, "a robust list of the most");
    struct __user_cap_header_struct header = {0, 0};
    fails(call(capget, &header, page), EINVAL, "capabilities of no version");
    equal(header.version, _LINUX_CAPABILITY_VERSION_3, "the version is told");
    header.pid = INT_MAX;
    fails(call(capget, &header, page), ESRCH, "capabilities of the last process");

    uint64_t set = 0;
    fails(call(rt_sigprocmask, SIG_BLOCK, &set, 0, 7ul), EINVAL, "a signal set of 7 bytes");
    fails(call(rt_sigprocmask, SIG_BLOCK, &set, 0, SIZE_MAX), EINVAL, "a signal set of the most");
    fails(call(rt_sigprocmask, INT_MIN, &set, 0, 8ul), EINVAL, "no such change of a mask");
    fails(call(rt_sigpending, &set, 9ul), EINVAL, "pending signals of 9 bytes");
    fails(call(rt_sigaction, 65, 0, 0, 8ul), EINVAL, "the action of a signal past the last");
    fails(call(rt_sigaction, INT_MIN, 0, 0, 8ul), EINVAL, "the action of the most negative signal");
    fails(call(rt_sigaction, SIGUSR1, 0, 0, 16ul), EINVAL, "an action with 16 bytes of mask");
    stack_t stack = {.ss_sp = page, .ss_size = 1};
    fails(call(sigaltstack, &stack, 0), ENOMEM, "a signal stack that is too small");
    stack.ss_flags = 4;
    fails(call(sigaltstack, &stack, 0), EINVAL, "a signal stack with flags that are none");
    fails(call(statx, AT_FDCWD, "/", 0, 1u << 31, page), EINVAL, "statx with the reserved bit");
    mode_t before = call(umask, 0777);
    equal(call(umask, -1), 0777, "a mask of modes");
    equal(call(umask, before), 0777, "has nine bits");
    munmap(page, PAGE);
}

static void nothing(int signal) { (void)signal; }

/* Sleeps as `how` says, which only a signal ends: 0 when it was EINTR. */
static int sleep_long(long how)
{
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, 0);
    struct itimerval soon = {{0, 20000}, {0, 20000}};
    setitimer(ITIMER_REAL, &soon, 0);
    struct timespec most = {MOST, 999999999}, left = {0};
    struct timeval micro = {MOST, 999999};
    uint32_t word = 0;
    struct epoll_event event;
    long done = 0;
    switch (how) {
    case 0:
        done = call(nanosleep, &most, &left);
        if (left.tv_sec < 1000000000)
            return 2;
        break;
    case 1:
        done = call(clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &most, 0);
        break;
    case 2:
        done = call(clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &most, 0);
        break;
    case 3:
        done = call(ppoll, 0, 0, &most, 0, 0);
        break;
    case 4:
        done = call(select, 0, 0, 0, 0, &micro);
        break;
    case 5:
        done = call(pselect6, 0, 0, 0, 0, &most, 0);
        break;
    case 6:
        done = call(futex, &word, FUTEX_WAIT, 0, &most, 0, 0);
        break;
    case 7:
        done = call(futex, &word, FUTEX_WAIT_BITSET, 0, &most, 0, -1);
        break;
    case 8: {
        uint64_t set = 1ul << (SIGUSR1 - 1);
        done = call(rt_sigtimedwait, &set, 0, &most, 8ul);
        break;
    }
    case 9:
        done = call(epoll_wait, epoll_create1(0), &event, 1, INT_MAX);
        break;
    case 10:
        done = call(poll, 0, 0, INT_MAX);
        break;
    case 11:
        done = call(futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &most, 0, -1);
        break;
    }
    return done == -1 && errno == EINTR ? 0 : 1;
}

static void times(void)
{
    static const char *const names[] = {
        "nanosleep",
        "clock_nanosleep to the last instant",
        "clock_nanosleep to the last day",
        "ppoll",
        "select",
        "pselect6",
        "FUTEX_WAIT",
        "FUTEX_WAIT_BITSET to the last instant",
        "sigtimedwait",
        "epoll_wait",
        "poll",
        "FUTEX_WAIT_BITSET to the last day",
    };
    for (long how = 0; how < 12; how++) {
        char name[96];
        snprintf(name, sizeof name, "the longest %s ends by a signal, not before", names[how]);
        check(exited(status_of(sleep_long, how), 0), name);
    }
    static const struct timespec wrong[] = {{-1, 0},   {LEAST, 0},   {0, -1},      {0, 1000000000},
                                            {0, MOST}, {MOST, MOST}, {MOST, LEAST}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char name[96];
        snprintf(name, sizeof name, "no call takes %ld s %ld ns for a time", (long)wrong[i].tv_sec,
                 (long)wrong[i].tv_nsec);
        uint32_t word = 0;
        uint64_t set = 0;
        struct timespec time = wrong[i];
        int all = call(nanosleep, &time, 0) == -1 && errno == EINVAL;
        all &= call(clock_nanosleep, CLOCK_MONOTONIC, 0, &time, 0) == -1 && errno == EINVAL;
        all &= call(ppoll, 0, 0, &time, 0, 0) == -1 && errno == EINVAL;
        all &= call(pselect6, 0, 0, 0, 0, &time, 0) == -1 && errno == EINVAL;
        all &= call(futex, &word, FUTEX_WAIT, 0, &time, 0, 0) == -1 && errno == EINVAL;
        all &= call(rt_sigtimedwait, &set, 0, &time, 8ul) == -1 && errno == EINVAL;
        all &= call(clock_settime, CLOCK_REALTIME, &time) == -1 && errno == EINVAL;
        check(all, name);
    }
    struct timespec day = {MOST, 0};
    fails(call(clock_settime, CLOCK_REALTIME, &day), EINVAL, "nobody sets the clock to the last day");
    struct timeval last_day = {MOST, 0};
    fails(call(settimeofday, &last_day, 0), EINVAL, "nor in microseconds");
    fails(call(clock_gettime, INT_MIN, &day), EINVAL, "the clock of the most negative number");
    fails(call(clock_gettime, INT_MAX, &day), EINVAL, "the clock of the last number");
    fails(call(clock_nanosleep, INT_MIN, 0, &day, 0), EINVAL, "sleeping by it");

    struct itimerval longest = {{MOST, 999999}, {MOST, 999999}}, left;
    equal(call(setitimer, ITIMER_REAL, &longest, 0), 0, "the longest interval");
    equal(call(getitimer, ITIMER_REAL, &left), 0, "is asked for");
    check(left.it_value.tv_sec > 1000000000 && left.it_interval.tv_sec > 1000000000, "and is long");
    struct itimerval bad = {{0, 0}, {0, 1000000}};
    fails(call(setitimer, ITIMER_REAL, &bad, 0), EINVAL, "a million microseconds");
    bad.it_value.tv_usec = LEAST;
    fails(call(setitimer, ITIMER_REAL, &bad, 0), EINVAL, "the least microseconds");
    check(call(alarm, UINT_MAX) != 0, "the longest alarm takes its place");
    equal(call(alarm, 0), UINT_MAX, "and has all its seconds left");
    fails(call(setitimer, 3, &longest, 0), EINVAL, "no such timer");

    int id = -1;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 0};
    fails(call(timer_create, CLOCK_MONOTONIC, &event, &id), EINVAL, "a timer's signal 0");
    event.sigev_signo = 65;
    fails(call(timer_create, CLOCK_MONOTONIC, &event, &id), EINVAL, "a timer's signal past the last");
    event.sigev_signo = INT_MIN;
    fails(call(timer_create, CLOCK_MONOTONIC, &event, &id), EINVAL, "a timer's most negative signal");
    event.sigev_notify = SIGEV_NONE;
    equal(call(timer_create, CLOCK_MONOTONIC, &event, &id), 0, "a timer that tells nobody");
    struct itimerspec at = {{0, 1}, {MOST, 999999999}}, shown;
    equal(call(timer_settime, id, TIMER_ABSTIME, &at, 0), 0,
          "set to the last instant, every nanosecond from there");
    equal(call(timer_gettime, id, &shown), 0, "is asked for");
    check(shown.it_value.tv_sec > 1000000000, "and is far off");
    equal(call(timer_settime, id, 0, &at, &shown), 0, "set to the longest from now");
    at.it_value = (struct timespec){0, 1}, at.it_interval = (struct timespec){MOST, 0};
    equal(call(timer_settime, id, 0, &at, 0), 0, "soon, and again after the longest");
    usleep(1000);
    equal(call(timer_gettime, id, &shown), 0, "asked for after it has expired");
    check(shown.it_value.tv_sec > 1000000000, "it is far off again");
    fails(call(timer_settime, INT_MIN, 0, &at, 0), EINVAL, "the timer of the most negative number");
    fails(call(timer_gettime, INT_MAX, &shown), EINVAL, "the timer of the last number");
    equal(call(timer_delete, id), 0, "deleted");

    int fd = file_of(1);
    struct timespec stamps[2] = {{MOST, 999999999}, {LEAST, 0}};
    equal(call(utimensat, fd, 0, stamps, 0), 0, "the last and the first day for a file");
    struct stat info;
    equal(fstat(fd, &info), 0, "which are asked for");
    char byte;
    equal(pread(fd, &byte, 1, 0), 1, "and it is read");
    stamps[0].tv_nsec = 1000000000;
    fails(call(utimensat, fd, 0, stamps, 0), EINVAL, "a billion nanoseconds");
    stamps[0].tv_nsec = LEAST;
    fails(call(utimensat, fd, 0, stamps, 0), EINVAL, "the least nanoseconds");
    fails(call(utimensat, fd, 0, (void *)-16l, 0), EFAULT, "time stamps at the end of all addresses");
    struct timeval micro[2] = {{0, 1000000}, {0, 0}};
    fails(call(utimes, "/proc/self/exe", micro), EINVAL, "a million microseconds for a file");
    close(fd);
}

static int limited(long unused)
{
    (void)unused;
    struct rlimit limit = {1ul << 40, 1ul << 40};
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 1;
    long done = call(mmap, 0, SIZE_MAX - PAGE + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (done != -1 || errno != ENOMEM)
        return 2;
    done = call(mmap, 0, SIZE_MAX - 64 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return done != -1 || errno != ENOMEM ? 3 : 0;
}

static void memory(void)
{
    /* With a hole behind it, where calls that begin at once stop. */
    char *p = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p + 4 * PAGE, 4 * PAGE);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    fails(call(mmap, 0, 0ul, PROT_READ, flags, -1, 0), EINVAL, "a mapping of nothing");
    fails(call(mmap, 0, SIZE_MAX, PROT_READ, flags, -1, 0), ENOMEM, "a mapping of everything");
    fails(call(mmap, 0, SIZE_MAX - PAGE + 1, PROT_READ, flags, -1, 0), ENOMEM, "but a page");
    fails(call(mmap, 0, TOP, PROT_READ, flags, -1, 0), ENOMEM, "of all that a program may have");
    fails(call(mmap, 0, 1ul << 63, PROT_READ, flags, -1, 0), ENOMEM, "of half of everything");
    fails(call(mmap, TOP - PAGE, 2 * PAGE, PROT_READ, flags | MAP_FIXED, -1, 0), ENOMEM,
          "across the last address");
    fails(call(mmap, -PAGE, PAGE, PROT_READ, flags | MAP_FIXED, -1, 0), ENOMEM,
          "at the end of all addresses");
    fails(call(mmap, -PAGE, 2 * PAGE, PROT_READ, flags | MAP_FIXED, -1, 0), ENOMEM,
          "across the end of all addresses");
    int fd = file_of(1);
    fails(call(mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, fd, 1ul), EINVAL, "of a file from its second byte");
    fails(call(mmap, 0, 2 * PAGE, PROT_READ, MAP_SHARED, fd, -PAGE), EOVERFLOW,
          "of a file from before its beginning");
    check(exited(status_of(limited, 0), 0), "a limit of addresses holds for lengths that overflow");

    fails(call(munmap, p, 0ul), EINVAL, "munmap of nothing");
    fails(call(munmap, p, SIZE_MAX), EINVAL, "munmap of everything");
    fails(call(munmap, p, TOP), EINVAL, "munmap past the last address");
    fails(call(munmap, p + 1, PAGE), EINVAL, "munmap from a page's second byte");
    fails(call(munmap, -PAGE, PAGE), EINVAL, "munmap at the end of all addresses");
    fails(call(munmap, -PAGE, 2 * PAGE), EINVAL, "munmap across it");
    fails(call(mprotect, p, SIZE_MAX, PROT_READ), ENOMEM, "mprotect of everything");
    fails(call(mprotect, p, TOP, PROT_READ), ENOMEM, "mprotect past the last address");
    fails(call(mprotect, -PAGE, PAGE, PROT_READ), ENOMEM, "mprotect at the end of all addresses");
    fails(call(mprotect, p + 1, PAGE, PROT_READ), EINVAL, "mprotect from a page's second byte");
    equal(call(mprotect, p, 0ul, PROT_READ), 0, "mprotect of nothing");
    fails(call(madvise, p, SIZE_MAX, MADV_DONTNEED), EINVAL, "advice on everything");
    fails(call(madvise, p, SIZE_MAX - 2 * PAGE, MADV_DONTNEED), EINVAL, "advice on nearly everything");
    fails(call(madvise, p + 1, PAGE, MADV_DONTNEED), EINVAL, "advice from a page's second byte");
    fails(call(madvise, p, PAGE, INT_MIN), EINVAL, "no such advice");
    unsigned char pages[8];
    fails(call(mincore, p, SIZE_MAX, pages), ENOMEM, "mincore of everything");
    fails(call(mincore, p, TOP, pages), ENOMEM, "mincore past the last address");
    fails(call(mincore, p + 1, PAGE, pages), EINVAL, "mincore from a page's second byte");
    fails(call(mincore, p, PAGE, (void *)-1l), EFAULT, "mincore told at the end of all addresses");
    fails(call(mincore, p, PAGE, (void *)TOP), EFAULT, "or just past the last");
    equal(call(mincore, p, 4 * PAGE - 1, pages), 0, "mincore of a part of a page counts it");
    fails(call(msync, p + 1, PAGE, MS_SYNC), EINVAL, "msync from a page's second byte");
    fails(call(msync, p, SIZE_MAX - 2 * PAGE, MS_SYNC), ENOMEM, "msync of nearly everything");

    fails(call(mremap, p, PAGE, 0ul, 0), EINVAL, "mremap to nothing");
    fails(call(mremap, p, PAGE, SIZE_MAX, MREMAP_MAYMOVE), EINVAL, "mremap to everything");
    fails(call(mremap, p, PAGE, TOP, MREMAP_MAYMOVE), ENOMEM, "mremap to all that a program may have");
    fails(call(mremap, p, SIZE_MAX - 2 * PAGE, PAGE, 0), EINVAL, "mremap of nearly everything");
    fails(call(mremap, p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, -PAGE), EINVAL,
          "mremap to the end of all addresses");
    fails(call(mremap, p, PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, TOP - PAGE), EINVAL,
          "mremap across the last address");
    fails(call(mremap, -PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT,
          "mremap from the end of all addresses");
    check(p[0] == 0 && p[4 * PAGE - 1] == 0, "what was mapped is still there");

    long end = call(brk, 0);
    equal(call(brk, -1l), end, "the heap does not reach the end of all addresses");
    equal(call(brk, TOP), end, "nor the last address");
    equal(call(brk, TOP + PAGE), end, "nor past it");
    equal(call(brk, LEAST), end, "nor the middle");
    equal(call(brk, 1), end, "nor before its start");
    close(fd);
    munmap(p, 4 * PAGE);
}

static void handled(int signal)
{
    (void)signal;
    _exit(7);
}

/* An instruction that is none, with the stack pointer at `sp`. */
static int strange_stack(long sp)
{
    struct sigaction action = {.sa_handler = handled};
    sigaction(SIGILL, &action, 0);
    __asm__ volatile("mov %0, %%rsp; ud2" ::"r"(sp));
    return 1;
}

static int strange_stack_with_vectors(long sp)
{
    __asm__ volatile("pcmpeqd %%xmm7, %%xmm7" ::: "xmm7");
    return strange_stack(sp);
}

/* A handler on a signal stack whose end wraps around to `end`. */
static int wrapped_stack(long end)
{
    struct sigaction action = {.sa_handler = handled, .sa_flags = SA_ONSTACK};
    sigaction(SIGILL, &action, 0);
    stack_t stack = {.ss_sp = (void *)TOP, .ss_size = (size_t)end - TOP};
    if (sigaltstack(&stack, 0) != 0)
        return 1;
    __asm__ volatile("ud2");
    return 1;
}

static long state_at;

static void spoil(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.fpregs = (void *)state_at;
}

/* Comes back from a handler that says its vector state is at `at`. */
static int strange_state(long at)
{
    state_at = at;
    struct sigaction action = {.sa_sigaction = spoil, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    return 7;
}

static int strange_state_with_vectors(long at)
{
    __asm__ volatile("pcmpeqd %%xmm7, %%xmm7" ::: "xmm7");
    return strange_state(at);
}

static int returns_least(long unused)
{
    (void)unused;
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_getppid) : "rcx", "r11", "memory");
    return result == LEAST ? 42 : 1;
}

static void traced(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(returns_least(0));
    int status;
    waitpid(child, &status, 0);
    check(WIFSTOPPED(status), "a traced child stops");
    long peeked = 0;
    struct user_regs_struct registers;
    fails(call(ptrace, PTRACE_PEEKUSER, child, -8l, &peeked), EIO, "a register before the first");
    fails(call(ptrace, PTRACE_PEEKUSER, child, LEAST, &peeked), EIO, "a register far before the first");
    fails(call(ptrace, PTRACE_PEEKUSER, child, 1l, &peeked), EIO, "a register between two");
    fails(call(ptrace, PTRACE_POKEUSER, child, MOST - 7, 0), EIO, "a register behind the last");
    fails(call(ptrace, PTRACE_PEEKDATA, child, -8l, &peeked), EIO, "a word at the end of all addresses");
    fails(call(ptrace, PTRACE_PEEKDATA, child, -4l, &peeked), EIO, "a word across it");
    fails(call(ptrace, PTRACE_PEEKDATA, child, TOP - 4, &peeked), EIO, "a word across the last address");
    fails(call(ptrace, PTRACE_POKEDATA, child, -4l, 0), EIO, "poked there");
    struct iovec set = {(void *)-1l, SIZE_MAX};
    fails(call(ptrace, PTRACE_GETREGSET, child, 1, &set), EINVAL, "a part of a register");
    set.iov_len = -8l;
    fails(call(ptrace, PTRACE_GETREGSET, child, 1, &set), EFAULT,
          "registers told at the end of all addresses");
    fails(call(ptrace, PTRACE_CONT, child, 0, 65l), EIO, "going on with a signal past the last");
    fails(call(ptrace, PTRACE_CONT, child, 0, (long)INT_MIN), EIO, "going on with the most negative signal");
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    waitpid(child, &status, 0);
    while (WIFSTOPPED(status)) {
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        /* At the way in the result is still to come, and says so. */
        if (registers.orig_rax == SYS_getppid && (long)registers.rax != -ENOSYS) {
            registers.rax = LEAST;
            ptrace(PTRACE_SETREGS, child, 0, &registers);
            ptrace(PTRACE_CONT, child, 0, 0);
        } else {
            ptrace(PTRACE_SYSCALL, child, 0, 0);
        }
        waitpid(child, &status, 0);
    }
    check(exited(status, 42), "a tracer makes a call return the least number");
}

static void frames(void)
{
    int all = 1, with_vectors = 1;
    for (long sp = 0; sp <= 1536; sp += 64) {
        all &= ended_by(status_of(strange_stack, sp), SIGSEGV);
        with_vectors &= ended_by(status_of(strange_stack_with_vectors, sp), SIGSEGV);
    }
    check(all, "a handler's frame does not wrap around the end of all addresses");
    check(with_vectors, "nor does one with vector state");
    static const long others[] = {-1, -8, -64, -4096, LEAST, MOST, LEAST + 512, (long)TOP, (long)TOP + 1024};
    all = 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        all &= ended_by(status_of(strange_stack_with_vectors, others[i]), SIGSEGV);
    check(all, "nor is it put where no program's memory is");
    all = 1;
    for (long end = 0; end <= 1536; end += 128)
        all &= ended_by(status_of(wrapped_stack, end), SIGSEGV);
    check(all, "a signal stack that wraps around is none");
    all = with_vectors = 1;
    static const long states[] = {-16,  -64,  -128,  -256,  -448,      -464,          -512,
                                  -576, -832, -1024, LEAST, MOST - 63, (long)TOP - 64};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        all &= ended_by(status_of(strange_state, states[i]), SIGSEGV);
        with_vectors &= ended_by(status_of(strange_state_with_vectors, states[i]), SIGSEGV);
    }
    check(all, "vector state is not taken from around the end of all addresses");
    check(with_vectors, "nor by one that has some");
    traced();
}

static uint32_t place, elsewhere;

static void *waits(void *unused)
{
    while (__atomic_load_n(&place, __ATOMIC_SEQ_CST) == 0)
        call(futex, &place, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    return unused;
}

/* Until so many wait at `place`: moving all to where they are counts them. */
static void until_waiting(int count)
{
    while (call(futex, &place, FUTEX_REQUEUE_PRIVATE, 0, (long)INT_MAX, &place, 0) != count)
        sched_yield();
}

static void futexes(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, waits, 0);
    until_waiting(2);
    equal(call(futex, &place, FUTEX_REQUEUE_PRIVATE, 1, (long)INT_MAX, &elsewhere, 0), 2,
          "one is woken and all others move");
    equal(call(futex, &elsewhere, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0), 1, "as many as there are wake");
    until_waiting(2);
    equal(call(futex, &place, FUTEX_CMP_REQUEUE_PRIVATE, 1, (long)INT_MAX, &elsewhere, 0), 2,
          "the same if the word is as expected");
    equal(call(futex, &elsewhere, FUTEX_REQUEUE_PRIVATE, INT_MAX, (long)INT_MAX, &place, 0), 1,
          "all wake and all others move");
    until_waiting(2);
    fails(call(futex, &place, FUTEX_REQUEUE_PRIVATE, -1, 1l, &elsewhere, 0), EINVAL,
          "fewer than none do not wake");
    fails(call(futex, &place, FUTEX_REQUEUE_PRIVATE, 1, -1l, &elsewhere, 0), EINVAL, "nor move");
    fails(call(futex, &place, FUTEX_REQUEUE_PRIVATE, INT_MIN, (long)INT_MIN, &elsewhere, 0), EINVAL,
          "nor both");
    fails(call(futex, -4l, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0), EFAULT,
          "nobody waits at the end of all addresses");
    fails(call(futex, TOP, FUTEX_WAIT, 0, 0, 0, 0), EFAULT, "nor past the last");
    fails(call(futex, (char *)&place + 1, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0), EINVAL, "nor between two words");
    __atomic_store_n(&place, 1, __ATOMIC_SEQ_CST);
    call(futex, &place, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
}

/* Executes a program of one segment at `address`, which exits with 42. */
static int at_address(long address)
{
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr segment;
        unsigned char code[16];
    } program = {
        {
            .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
            .e_type = ET_DYN,
            .e_machine = EM_X86_64,
            .e_version = EV_CURRENT,
            .e_entry = (uint64_t)address + sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr),
            .e_phoff = sizeof(Elf64_Ehdr),
            .e_ehsize = sizeof(Elf64_Ehdr),
            .e_phentsize = sizeof(Elf64_Phdr),
            .e_phnum = 1,
        },
        {
            .p_type = PT_LOAD,
            .p_flags = PF_R | PF_X,
            .p_vaddr = (uint64_t)address,
            .p_filesz = sizeof program,
            .p_memsz = sizeof program,
            .p_align = PAGE,
        },
        /* mov edi, 42; mov eax, 60; syscall */
        {0xbf, 42, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05},
    };
    int fd = memfd_create("program", MFD_CLOEXEC);
    if (write(fd, &program, sizeof program) != sizeof program)
        return 1;
    char *argv[] = {"program", 0}, *envp[] = {0};
    call(execveat, fd, "", argv, envp, AT_EMPTY_PATH);
    return 2;
}

static void programs(void)
{
    check(exited(status_of(at_address, 0), 42), "a program that may be anywhere");
    check(exited(status_of(at_address, 0x10000), 42), "one that would like to be low");
    check(exited(status_of(at_address, 0x600000000000), 42), "one that would like to be high");
    check(exited(status_of(at_address, TOP - PAGE), 42), "one that would like to be in the last page");
    /* Refused, or ended where that is found too late. */
    int status = status_of(at_address, TOP);
    check(exited(status, 2) || WIFSIGNALED(status), "one past the last address is no program");
    status = status_of(at_address, -PAGE);
    check(exited(status, 2) || WIFSIGNALED(status), "nor is one at the end of all addresses");
}

#define PIECE (2ul << 20)
#define PIECES 1024

/* Reads `count` pieces from `path`, all into the same memory. */
static long long_read(const char *path, char *memory, int count)
{
    struct iovec pieces[PIECES];
    for (int i = 0; i < count; i++)
        pieces[i] = (struct iovec){memory, PIECE};
    int fd = open(path, O_RDONLY);
    long done = call(readv, fd, pieces, count);
    close(fd);
    return done;
}

static double seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* A process is killed in the middle of a call that moves 2 GiB: it does not take the time of the whole
 * call to end. */
static void ends_when_killed(const char *path, const char *name)
{
    enum { SAMPLE = PIECES / 256 };
    char *memory = mmap(0, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double start = seconds();
    long sample = long_read(path, memory, SAMPLE);
    double whole = (seconds() - start) * (PIECES / SAMPLE);
    check(sample == SAMPLE * (long)PIECE, "a part of it is read");
    memset(memory, 0xff, 16);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        long_read(path, memory, PIECES);
        _exit(0);
    }
    volatile uint64_t *first = (volatile uint64_t *)memory;
    while (first[0] == UINT64_MAX && first[1] == UINT64_MAX)
        sched_yield();
    start = seconds();
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    double took = seconds() - start;
    check(ended_by(status, SIGKILL) && took < whole / 4, name);
    printf("# it took %.3f s, the whole would have taken %.1f s\n", took, whole);
    munmap(memory, PIECE);
}

static void killed(void)
{
    ends_when_killed("/dev/urandom", "who reads 2 GiB of random bytes ends when killed");
    ends_when_killed("/dev/zero", "who reads 2 GiB of zeros ends when killed");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"offsets", offsets}, {"vectors", vectors},   {"counts", counts},
        {"times", times},     {"memory", memory},     {"frames", frames},
        {"futexes", futexes}, {"programs", programs}, {"killed", killed},
    };
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
