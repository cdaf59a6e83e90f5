/* Makes random system calls with random numbers and pointers from several processes, for a while.
 *
 * Interface: fuzz SECONDS PROCESSES SEED. Each process loses nothing that matters when it dies: the
 * parent starts another. Every other process gives up its privileges first and then makes all calls, those too that could
 * end the experiment: the system has to refuse them. Ends with `ok` when the time is over; the machine has survived then.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t state;

static uint64_t random64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dULL;
}

static char *area;

/* A value that a careless kernel might trust. */
static long value(void)
{
    static const uint64_t edges[] = {0, 1, 2, 3, 4, 7, 8, 4095, 4096, 4097, 0x7ffffffff000, 0x7fffffffffff, 0x800000000000,
                                     0xffff800000000000, 0xffffffff80000000, 0xffffffff80100000, 0xffffffffc0000000,
                                     0xffffffffffffffff, 0xfffffffffffff000, 0x80000000, 0xffffffff, 0x7fffffff,
                                     0x7fffffffffffffff, 0x8000000000000000};
    switch (random64() % 8) {
    case 0:
        return random64();
    case 1:
        return edges[random64() % (sizeof edges / sizeof *edges)];
    case 2:
        return (long)area + random64() % 16384;
    case 3:
        return (long)area + 4096 - random64() % 16;
    case 4:
        return random64() % 16;
    case 5:
        return 1L << random64() % 64;
    case 6:
        return -(long)(random64() % 200);
    default:
        return random64() % 70000;
    }
}

/* The number of a call: Linux's older ones, the newer ones, the native ones, and nonsense. */
static long call(void)
{
    switch (random64() % 32) {
    case 0:
        return 424 + random64() % 40;
    case 1:
        return 0x5359;
    case 2:
    case 3:
        return value();
    default:
        return random64() % 340;
    }
}

/* What would end the calling process and test nothing. */
static int ends_itself(long number)
{
    return number == SYS_exit || number == SYS_exit_group || number == SYS_pause;
}

/* What the privileged may do to the experiment. */
static int ends_the_experiment(long number)
{
    switch (number) {
    case SYS_reboot:
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case SYS_ptrace: /* of any process, the first one too */
    case 0x5359:     /* native: stop a thread, likewise */
    case SYS_prlimit64:
    case SYS_umount2:
    case SYS_mount:
    case SYS_pivot_root:
    case SYS_chroot:
    case SYS_settimeofday:
    case SYS_clock_settime:
    case SYS_ioperm:
    case SYS_iopl:
    case SYS_rename:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_unlink:
    case SYS_unlinkat:
    case SYS_rmdir:
        return 1;
    default:
        return 0;
    }
}

/* What mostly ends the calling process: made seldom, so that others come to pass too. */
static int deadly(long number)
{
    switch (number) {
    case SYS_rt_sigreturn:
    case SYS_arch_prctl:
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case SYS_ptrace:
    case SYS_setrlimit:
    case SYS_prlimit64:
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
        return 1;
    default:
        return 0;
    }
}

static int makes_a_process(long number)
{
    return number == SYS_fork || number == SYS_vfork || number == SYS_clone || number == 435 /* clone3 */;
}

static void ignore(int number) { (void)number; }

static void child(uint64_t seed, int privileged)
{
    char directory[64];
    state = seed | 1;
    /* What it writes by chance must not look like a report. */
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0), dup2(null, 1), dup2(null, 2);
    sprintf(directory, "/tmp/fuzz-%d", getpid());
    if (syscall(SYS_mkdir, directory, 0777) == 0)
        (void)!chdir(directory);
    /* A user of its own, so that it reaches no other. */
    if (!privileged && (chmod(directory, 0777) || setresgid(getpid(), getpid(), getpid()) || setresuid(getpid(), getpid(), getpid())))
        _exit(1);
    struct rlimit small = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &small);
    area = mmap(0, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(area + 4096, 4096);
    mprotect(area + 8192, 4096, PROT_READ);
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGALRM, &action, 0);
    for (int i = 0; i < 2000; i++) {
        long number = call();
        if (ends_itself((int)number) || (privileged && ends_the_experiment((int)number)))
            continue;
        if (deadly((int)number) && random64() % 16)
            continue;
        /* A call that blocks is cut short. */
        alarm(1);
        for (int j = 0; j < 8; j++)
            ((uint64_t *)area)[random64() % 512] = value();
        register long r10 __asm__("r10") = value();
        register long r8 __asm__("r8") = value();
        register long r9 __asm__("r9") = value();
        long result;
        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "a"(number), "D"(value()), "S"(value()), "d"(value()), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
        if (result == 0 && makes_a_process((int)number))
            break;
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 10, processes = argc > 2 ? atoi(argv[2]) : 4;
    uint64_t seed = argc > 3 ? strtoull(argv[3], 0, 0) : 1;
    time_t end = time(0) + seconds;
    long started = 0, died = 0, by[64] = {0};
    pid_t running[64] = {0};
    time_t since[64] = {0};
    signal(SIGCHLD, SIG_DFL);
    while (time(0) < end) {
        for (int i = 0; i < processes && i < 64; i++) {
            if (running[i] == 0) {
                pid_t pid = fork();
                if (pid == 0) {
                    setpgid(0, 0);
                    child(seed * 1000003 + started, started % 2);
                }
                if (pid > 0) {
                    running[i] = pid;
                    since[i] = time(0);
                    started++;
                }
            } else if (time(0) - since[i] > 5) {
                kill(running[i], SIGKILL);
            }
        }
        int status;
        pid_t pid;
        while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
            /* It stopped, or asked by chance to be traced: nobody will let it go. */
            if (WIFSTOPPED(status)) {
                kill(pid, SIGKILL);
                continue;
            }
            for (int i = 0; i < processes; i++)
                if (running[i] == pid) {
                    running[i] = 0;
                    died += WIFSIGNALED(status);
                    if (WIFSIGNALED(status))
                        by[WTERMSIG(status) & 63]++;
                }
        }
        usleep(1000);
    }
    for (int i = 0; i < processes && i < 64; i++)
        if (running[i])
            kill(running[i], SIGKILL);
    pid_t last;
    int status;
    while ((last = waitpid(-1, &status, WUNTRACED)) > 0)
        if (WIFSTOPPED(status))
            kill(last, SIGKILL);
    /* What the children left behind must not look like a leak. */
    (void)!system("rm -rf /tmp/fuzz-* 2>/dev/null");
    for (int i = 1; i < 64; i++)
        if (by[i])
            printf("# %ld by signal %d\n", by[i], i);
    printf("\nok %ld processes, %ld killed by a signal\n", started, died);
    return 0;
}
