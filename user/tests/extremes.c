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

#include "extremes-files.h"

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

#include "extremes-times.h"
#include "extremes-memory.h"
#include "extremes-frames.h"

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
