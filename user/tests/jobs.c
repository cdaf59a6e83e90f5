/* Checks the corners of processes, threads and signals that `calls` leaves out; passes on Linux and must pass
 * here.
 *
 * Interface: jobs [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

extern char **environ;

static volatile int seen;

static void see(int number) { seen = number; }

static void handle(int number, int flags)
{
    struct sigaction action = {.sa_handler = see, .sa_flags = flags};
    sigaction(number, &action, 0);
}

/* The same, within two seconds; else the child is killed, and it is no status. */
static int status_soon(pid_t child)
{
    int status;
    for (int i = 0; i < 2000; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        usleep(1000);
    }
    kill(child, SIGKILL);
    status_of(child);
    return -1;
}

static int exited(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
static int killed(int status, int number) { return WIFSIGNALED(status) && WTERMSIG(status) == number; }

/* One byte from `fd` within two seconds, or 0. */
static char byte_from(int fd)
{
    struct pollfd wanted = {fd, POLLIN, 0};
    char byte = 0;
    if (poll(&wanted, 1, 2000) == 1)
        read(fd, &byte, 1);
    return byte;
}

static int masked(int number)
{
    sigset_t mask;
    sigprocmask(SIG_BLOCK, 0, &mask);
    return sigismember(&mask, number);
}

static void children(void)
{
    int status;
    siginfo_t info;
    sigset_t set, old;
    struct sigaction no_wait = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    sigaction(SIGCHLD, &no_wait, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    fails(waitpid(child, &status, 0), ECHILD, "SA_NOCLDWAIT keeps no zombies");
    signal(SIGCHLD, SIG_IGN);
    child = fork();
    if (child == 0)
        _exit(3);
    fails(waitpid(-1, &status, 0), ECHILD, "nor does ignoring SIGCHLD");

    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &old);
    child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(9);
    }
    equal(sigwaitinfo(&set, &info), SIGCHLD, "sigwaitinfo gives SIGCHLD");
    check(info.si_pid == child && info.si_code == CLD_EXITED && info.si_status == 9,
          "with pid, code and status");
    memset(&info, 0, sizeof info);
    check(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child,
          "WNOWAIT leaves the zombie");
    check(exited(status_of(child), 9), "for the next wait");
    sigprocmask(SIG_SETMASK, &old, 0);
}

/* A stopped member of a group that loses its last link to the session is hung up and continued. */
static void orphans(void)
{
    int pipes[2];
    pipe(pipes);
    pid_t middle = fork();
    if (middle == 0) {
        setpgid(0, 0);
        pid_t last = fork();
        if (last == 0) {
            handle(SIGHUP, 0);
            setpgid(0, 0);
            write(pipes[1], "s", 1);
            raise(SIGSTOP);
            write(pipes[1], seen == SIGHUP ? "h" : "n", 1);
            _exit(0);
        }
        byte_from(pipes[0]);
        int status;
        waitpid(last, &status, WUNTRACED);
        _exit(0);
    }
    status_of(middle);
    equal(byte_from(pipes[0]), 'h', "a group orphaned while stopped is hung up and continued");
    close(pipes[0]);
    close(pipes[1]);

    pid_t child = fork();
    if (child == 0) {
        setsid();
        raise(SIGTSTP);
        _exit(4);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    check(exited(status, 4), "the terminal's stop does nothing to an orphaned group");
}

static void pause_for_ever(void) { pause(); }

/* A process that is stopped, and continued before the stop may have begun, goes on. */
static void runs_on(void)
{
    volatile unsigned long *count = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            ++*count;
    int rounds = 0;
    for (int moved = 1; moved && rounds < 500; rounds += moved) {
        kill(child, SIGSTOP);
        for (volatile int i = rounds * 37 % 3000; i > 0; i--)
            ;
        kill(child, SIGCONT);
        unsigned long before = *count;
        for (int i = 0; *count == before && i < 2000; i++)
            usleep(1000);
        moved = *count != before;
    }
    equal(rounds, 500, "SIGCONT after SIGSTOP is not lost");
    kill(child, SIGKILL);
    status_of(child);
    munmap((void *)count, 4096);
}

static volatile int idle;

static void *runner(void *unused)
{
    while (!idle)
        ;
    return unused;
}

/* A stop that comes while threads are made is theirs, too. */
static void stops_all(void)
{
    pid_t child = fork();
    while (child == 0) {
        pthread_t threads[4];
        idle = 0;
        for (int i = 0; i < 4; i++)
            pthread_create(threads + i, 0, runner, 0);
        idle = 1;
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], 0);
    }
    int rounds = 0, status;
    for (int good = 1; good && rounds < 500; rounds += good) {
        usleep(rounds * 7919 % 2000);
        kill(child, SIGSTOP);
        good = 0;
        for (int i = 0; !good && i < 2000; i++) {
            good = waitpid(child, &status, WUNTRACED | WNOHANG) == child;
            if (!good)
                usleep(1000);
        }
        kill(child, SIGCONT);
    }
    equal(rounds, 500, "a process that makes threads stops");
    kill(child, SIGKILL);
    status_of(child);
}

static void stops(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            pthread_create(threads + i, 0, (void *(*)(void *))pause_for_ever, 0);
        for (;;)
            sched_yield();
    }
    usleep(20000);
    for (int round = 0; round < 3; round++) {
        kill(child, SIGSTOP);
        check(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status), "four threads stop as one");
        kill(child, SIGCONT);
        check(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status), "and go on");
    }
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    kill(child, SIGKILL);
    check(killed(status_of(child), SIGKILL), "SIGKILL ends them while stopped");

    child = fork();
    if (child == 0)
        for (;;)
            pause();
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
    syscall(SYS_tgkill, child, child, SIGKILL);
    check(killed(status_soon(child), SIGKILL), "so it does when sent to one thread");
    runs_on();
    stops_all();

    int begun[2], gate[2];
    pipe(begun);
    pipe(gate);
    child = fork();
    if (child == 0) {
        close(gate[1]);
        if (vfork() == 0) {
            char byte = 'v';
            write(begun[1], &byte, 1);
            read(gate[0], &byte, 1);
            _exit(0);
        }
        _exit(1);
    }
    equal(byte_from(begun[0]), 'v', "a child makes another by vfork");
    syscall(SYS_tgkill, child, child, SIGKILL);
    check(killed(status_soon(child), SIGKILL), "SIGKILL to one thread ends it there");
    close(begun[0]), close(begun[1]), close(gate[0]), close(gate[1]);
}

static void masks(void)
{
    sigset_t blocked, old, none;
    struct timespec second = {1, 0}, short_time = {0, 10000000};
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    handle(SIGUSR1, 0);
    sigprocmask(SIG_BLOCK, &blocked, &old);
    raise(SIGUSR1);
    seen = 0;
    fails(ppoll(0, 0, &second, &none), EINTR, "ppoll lets a pending signal in");
    check(seen == SIGUSR1 && masked(SIGUSR1), "its handler ran, and the mask is back");
    raise(SIGUSR1);
    seen = 0;
    fails(pselect(0, 0, 0, 0, &second, &none), EINTR, "so does pselect");
    check(seen == SIGUSR1 && masked(SIGUSR1), "with the same mask afterwards");
    equal(ppoll(0, 0, &short_time, &none), 0, "without a signal ppoll times out");
    check(masked(SIGUSR1), "and the mask is back, too");
    sigprocmask(SIG_SETMASK, &old, 0);
}

static void parent_death(void)
{
    int pipes[2];
    pipe(pipes);
    seen = 0;
    pid_t middle = fork();
    if (middle == 0) {
        if (fork() == 0) {
            handle(SIGUSR2, 0);
            prctl(PR_SET_PDEATHSIG, SIGUSR2);
            write(pipes[1], "r", 1);
            while (!seen)
                usleep(1000);
            write(pipes[1], "d", 1);
            _exit(0);
        }
        byte_from(pipes[0]);
        _exit(0);
    }
    status_of(middle);
    equal(byte_from(pipes[0]), 'd', "PR_SET_PDEATHSIG tells of the parent's end");
    close(pipes[0]);
    close(pipes[1]);
}

static pthread_mutex_t *shared_lock;

static void *lock_and_end(void *unused)
{
    pthread_mutex_lock(shared_lock);
    return unused;
}

static void robust(void)
{
    shared_lock = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_t *semaphore = (void *)(shared_lock + 8);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(shared_lock, &attributes);

    pthread_t thread;
    pthread_create(&thread, 0, lock_and_end, 0);
    pthread_join(thread, 0);
    equal(pthread_mutex_lock(shared_lock), EOWNERDEAD, "a thread that ends with a robust lock is noticed");
    pthread_mutex_consistent(shared_lock);
    pthread_mutex_unlock(shared_lock);

    pid_t child = fork();
    if (child == 0)
        _exit(pthread_mutex_lock(shared_lock));
    status_of(child);
    equal(pthread_mutex_lock(shared_lock), EOWNERDEAD, "and so is a process");
    pthread_mutex_consistent(shared_lock);
    child = fork();
    if (child == 0)
        _exit(pthread_mutex_lock(shared_lock));
    usleep(20000);
    pthread_mutex_unlock(shared_lock);
    check(exited(status_of(child), 0), "a lock in shared memory wakes the other process");

    sem_init(semaphore, 1, 0);
    child = fork();
    if (child == 0) {
        usleep(20000);
        _exit(sem_post(semaphore));
    }
    equal(sem_wait(semaphore), 0, "and so does a semaphore");
    status_of(child);
    munmap(shared_lock, 4096);
}

static void futexes(void)
{
    uint32_t word = 0, other = 5;
    struct timespec short_time = {0, 5000000};
    fails(syscall(SYS_futex, &word, FUTEX_WAIT, 1, 0), EAGAIN, "a futex that is not as expected");
    fails(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &short_time), ETIMEDOUT, "a futex wait times out");
    fails(syscall(SYS_futex, 1, FUTEX_WAIT, 0, &short_time), EINVAL, "a futex that is not aligned");
    fails(syscall(SYS_futex, 4096, FUTEX_WAIT, 0, &short_time), EFAULT, "a futex that is not there");
    equal(syscall(SYS_futex, &word, FUTEX_WAKE, 1), 0, "nobody to wake");
    fails(syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE, 1, 1, &other, 7), EAGAIN,
          "a requeue that is not as expected");
    int operation = FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 5);
    equal(syscall(SYS_futex, &word, FUTEX_WAKE_OP, 1, 1, &other, operation), 0, "FUTEX_WAKE_OP");
    equal(other, 8, "which adds");
}

static pthread_barrier_t barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long total, meetings;

static void *meet(void *unused)
{
    /* One of those who meet is told so. */
    for (int i = 0; i < 200; i++)
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            __atomic_add_fetch(&meetings, 1, __ATOMIC_SEQ_CST);
    return unused;
}

static void *read_and_write(void *unused)
{
    for (int i = 0; i < 500; i++) {
        pthread_rwlock_wrlock(&rwlock);
        total++;
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_rdlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
    }
    return unused;
}

static void *start_and_exec(void *unused)
{
    usleep(10000);
    execl("/bin/sh", "sh", "-c", "exit 6", (char *)0);
    return unused;
}

static void many(void *(*body)(void *), int count)
{
    pthread_t threads[8];
    for (int i = 0; i < count; i++)
        pthread_create(threads + i, 0, body, 0);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], 0);
}

static void threads(void)
{
    pthread_barrier_init(&barrier, 0, 5);
    many(meet, 5);
    equal(meetings, 200, "five threads meet two hundred times");
    many(read_and_write, 5);
    equal(total, 2500, "five writers and readers");

    pthread_t thread;
    pid_t child = fork();
    if (child == 0) {
        pthread_create(&thread, 0, (void *(*)(void *))pause_for_ever, 0);
        usleep(10000);
        start_and_exec(0);
        _exit(1);
    }
    check(exited(status_of(child), 6), "exec ends the other threads");
    child = fork();
    if (child == 0) {
        pthread_create(&thread, 0, start_and_exec, 0);
        for (;;)
            pause();
    }
    check(exited(status_of(child), 6), "exec from another thread ends the first");
    child = fork();
    if (child == 0) {
        pthread_create(&thread, 0, (void *(*)(void *))pause_for_ever, 0);
        usleep(10000);
        abort();
    }
    check(killed(status_of(child), SIGABRT), "a fatal signal ends all threads");
}

static void fire(union sigval value) { *(volatile int *)value.sival_ptr = 1; }

static void timers(void)
{
    static volatile int fired;
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = fire};
    event.sigev_value.sival_ptr = (void *)&fired;
    struct itimerspec soon = {{0, 0}, {0, 10000000}};
    equal(timer_create(CLOCK_REALTIME, &event, &timer), 0, "a timer that starts a thread");
    timer_settime(timer, 0, &soon, 0);
    for (int i = 0; i < 200 && !fired; i++)
        usleep(5000);
    check(fired, "starts it");
    timer_delete(timer);

    handle(SIGPROF, SA_RESTART);
    seen = 0;
    struct itimerval profile = {{0, 10000}, {0, 10000}}, off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &profile, 0);
    for (volatile long i = 0; i < 400000000 && !seen; i++)
        ;
    equal(seen, SIGPROF, "a timer on CPU time");
    setitimer(ITIMER_PROF, &off, 0);
    signal(SIGPROF, SIG_DFL);
}

static void programs(void)
{
    pid_t child;
    char *words[] = {"sh", "-c", "exit 12", 0};
    equal(posix_spawn(&child, "/bin/sh", 0, 0, words, environ), 0, "posix_spawn");
    check(exited(status_of(child), 12), "runs the program");
    equal(posix_spawn(&child, "/nowhere", 0, 0, words, environ), ENOENT, "and tells when there is none");
    check(exited(system("exit 5"), 5), "system");
    FILE *stream = popen("echo hello", "r");
    char line[16] = "";
    fgets(line, sizeof line, stream);
    check(strcmp(line, "hello\n") == 0, "popen");
    equal(pclose(stream), 0, "pclose");

    uint64_t arguments[11] = {[4] = SIGCHLD};
    long made = syscall(SYS_clone3, arguments, sizeof arguments);
    if (made == 0)
        _exit(8);
    check(made > 0 && exited(status_of(made), 8), "clone3 forks");
    fails(syscall(SYS_clone3, arguments, 8), EINVAL, "clone3 with too little");
    fails(syscall(SYS_clone3, 8, sizeof arguments), EFAULT, "clone3 with a bad pointer");
    /* Nobody chooses a signal for a parent that did not ask for the child: not a brother, */
    handle(SIGUSR1, 0);
    seen = 0;
    pid_t brother = fork();
    if (brother == 0) {
        long second = syscall(SYS_clone, CLONE_PARENT | SIGUSR1, 0, 0, 0, 0);
        if (second == 0)
            _exit(9);
        _exit(second > 0 ? 0 : 1);
    }
    int others = 0, status = -1;
    for (int i = 0; i < 2; i++)
        if (wait(&status) != brother)
            others += exited(status, 9);
    check(others == 1 && seen == 0, "CLONE_PARENT leaves the exit signal as it was");
    /* and not an earlier program. */
    child = fork();
    if (child == 0) {
        int until_exec[2];
        char name[16], byte;
        (void)!pipe2(until_exec, O_CLOEXEC);
        long second = syscall(SYS_clone, SIGUSR1, 0, 0, 0, 0);
        if (second == 0) {
            close(until_exec[1]);
            _exit(read(until_exec[0], &byte, 1));
        }
        sprintf(name, "%ld", second);
        execl("/proc/self/exe", "jobs", "await", name, (char *)0);
        _exit(1);
    }
    check(exited(status_of(child), 6), "a program gets no signal that an earlier one asked for");
    fails(syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0), EINVAL, "a thread that shares nothing");
    fails(syscall(SYS_clone, CLONE_SETTLS | SIGCHLD, 0, 0, 0, 1UL << 63), EPERM,
          "a kernel address for its data");
}

static void edit(int number, siginfo_t *info, void *context)
{
    (void)info;
    ucontext_t *where = context;
    where->uc_mcontext.gregs[REG_RIP] += 2;
    where->uc_mcontext.gregs[REG_RAX] = 1234;
    seen = where->uc_mcontext.fpregs ? number : 0;
}

#define IN_CHILD_KILLED(number, code, name)                \
    do {                                                   \
        pid_t tap_child = fork();                          \
        if (tap_child == 0) {                              \
            code;                                          \
            _exit(1);                                      \
        }                                                  \
        check(killed(status_of(tap_child), number), name); \
    } while (0)

static void frames(void)
{
    struct sigaction action = {.sa_sigaction = edit, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, 0);
    long result;
    __asm__ volatile("ud2" : "=a"(result));
    check(result == 1234 && seen == SIGILL, "a handler edits the registers it returns to");
    signal(SIGILL, SIG_DFL);

    char junk[2048];
    memset(junk, 0xff, sizeof junk);
    IN_CHILD_KILLED(SIGSEGV,
                    __asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall" ::"r"(junk + 8) : "memory"),
                    "a frame of all ones");
    IN_CHILD_KILLED(SIGSEGV, handle(SIGSEGV, 0);
                    __asm__ volatile("xor %%esp, %%esp; push %%rax" :: : "memory"),
                    "no stack for the handler");
    IN_CHILD_KILLED(SIGSEGV, __asm__ volatile("mov $0x7fffffffefff, %%rax; jmp *%%rax" :: : "rax"),
                    "a jump to the end of user memory");
    IN_CHILD_KILLED(SIGSEGV, __asm__ volatile("movabs $0x800000000000, %%rax; jmp *%%rax" :: : "rax"),
                    "a jump into the hole");
    IN_CHILD_KILLED(SIGTRAP,
                    __asm__ volatile("movabs $0xffff800000000000, %%rcx; mov %%rcx, %%rsp; int3" :: : "rcx"),
                    "a trap with a kernel address for a stack");
    IN_CHILD_KILLED(SIGTRAP, __asm__ volatile("pushf; orl $0x100, (%%rsp); popf; nop; nop" :: : "memory"),
                    "the trap flag");
    IN_CHILD_KILLED(
        SIGTRAP,
        __asm__ volatile("pushf; orl $0x100, (%%rsp); popf; mov $39, %%eax; syscall" :: : "memory", "rcx",
                         "r11", "rax"),
        "the trap flag over a system call");
    IN_CHILD_KILLED(SIGSEGV, __asm__ volatile("mov $0x10, %%eax; mov %%eax, %%ss" :: : "rax"),
                    "a kernel selector");
    unsigned short control = 0x37f & ~4;
    IN_CHILD_KILLED(SIGFPE, __asm__ volatile("fldcw %0; fld1; fldz; fdivrp; fwait" ::"m"(control)),
                    "an unmasked division by zero");
}

/* Two processes that only wake each other leave the CPU to one that computes, in every tenth of a second. */
static void fairness(void)
{
    enum { WINDOWS = 20 };
    volatile uint64_t *count = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int there[2], back[2];
    char byte = 0;
    if (count == MAP_FAILED || pipe(there) || pipe(back)) {
        check(0, "what the pair needs");
        return;
    }
    pid_t child[3];
    for (int i = 0; i < 3; i++)
        if ((child[i] = fork()) == 0)
            for (;;) {
                if (i == 0)
                    count[0]++;
                else if (i == 1 && read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
                    count[1]++;
                else if (i == 2 && write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1)
                    count[2]++;
            }
    int starved = 0;
    uint64_t before[2] = {0, 0};
    for (int window = 0; window < WINDOWS; window++) {
        struct timespec tenth = {0, 100000000};
        nanosleep(&tenth, 0);
        for (int i = 0; i < 2; i++) {
            starved += count[i] == before[i];
            before[i] = count[i];
        }
    }
    equal(starved, 0, "tenths of a second in which a process got nothing");
    int ended = 0;
    for (int i = 0; i < 3; i++) {
        int status;
        kill(child[i], SIGKILL);
        ended += waitpid(child[i], &status, 0) == child[i];
    }
    equal(ended, 3, "and all of them end");
    close(there[0]), close(there[1]), close(back[0]), close(back[1]);
}

static void *family(void *number)
{
    for (int i = 0; i < 300; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit((long)number);
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || !exited(status, (long)number))
            return "a child went astray";
    }
    return 0;
}

/* Threads of one process each wait for a child of their own: all are woken for every child, and must look
 * again. */
static void families(void)
{
    pthread_t threads[4];
    void *wrong;
    int good = 1;
    for (long i = 0; i < 4; i++)
        good &= pthread_create(threads + i, 0, family, (void *)(i + 1)) == 0;
    for (int i = 0; i < 4; i++)
        good &= pthread_join(threads[i], &wrong) == 0 && !wrong;
    check(good, "four threads fork and wait, each for its own child");
}

/* A signal for the process may be left to one thread that then takes it no more: it is for another. */
static volatile int told, turn, over, ready;

static void on_told(int number)
{
    (void)number;
    __atomic_fetch_add(&told, 1, __ATOMIC_SEQ_CST);
}

static void hold(int how, sigset_t *old)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(how, &set, old);
}

/* Some time, another one at each turn. */
static void linger(int step)
{
    for (volatile int i = turn * step % 2003; i > 0; i--)
        ;
}

/* Tells the process once at each turn. */
static void *teller(void *unused)
{
    for (int seen = 0; !over;) {
        if (turn == seen) {
            sched_yield();
            continue;
        }
        seen = turn;
        linger(37);
        kill(getpid(), SIGUSR1);
    }
    return unused;
}

/* Would take it, but is not asked first. */
static void *spare(void *unused)
{
    hold(SIG_UNBLOCK, 0);
    for (ready = 1; !over && ready;)
        usleep(500);
    return unused;
}

/* Waits two or three seconds at most for what is told at this turn. */
static void hear(int before)
{
    time_t end = time(0) + 3;
    while (told == before && time(0) < end)
        sched_yield();
}

static void blocks(void)
{
    int before = told;
    hold(SIG_UNBLOCK, 0);
    turn++;
    linger(53);
    hold(SIG_BLOCK, 0);
    hear(before);
}

static void stops_waiting(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int before = told;
    turn++;
    struct timespec soon = {0, turn * 53 % 2003 * 50};
    if (sigtimedwait(&set, 0, &soon) == SIGUSR1)
        on_told(SIGUSR1);
    hear(before);
}

static void *ender(void *unused)
{
    hold(SIG_UNBLOCK, 0);
    while (!ready)
        sched_yield();
    turn++;
    linger(53);
    syscall(SYS_exit, 0);
    return unused;
}

static void ends(void)
{
    pthread_t first, second;
    int before = told;
    ready = 0;
    pthread_create(&first, 0, ender, 0);
    pthread_create(&second, 0, spare, 0);
    hear(before);
    ready = 0;
    pthread_join(first, 0);
    pthread_join(second, 0);
}

static void leave(void (*way)(void), int turns, const char *name)
{
    sigset_t old;
    pthread_t other[2];
    hold(SIG_BLOCK, &old);
    turn = told = over = 0;
    pthread_create(&other[0], 0, teller, 0);
    if (way != ends)
        pthread_create(&other[1], 0, spare, 0);
    while (turn < turns && told == turn)
        way();
    equal(told, turns, name);
    over = 1;
    pthread_join(other[0], 0);
    if (way != ends)
        pthread_join(other[1], 0);
    pthread_sigmask(SIG_SETMASK, &old, 0);
}

static void pair(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGUSR2);
}

/* Takes one of two, and no other until both have been taken. */
static void *taker(void *unused)
{
    sigset_t both;
    int number;
    pair(&both);
    for (;;) {
        sigwait(&both, &number);
        if (over)
            return unused;
        /* The turn that the signal belongs to: the next may have begun before this thread looks again. */
        int own = turn;
        on_told(number);
        while (told < 2 * own && !over)
            usleep(200);
    }
}

/* Both signals of a pair are left to the same thread, which takes one. */
static void pairs(void)
{
    sigset_t both, old;
    pthread_t other[2];
    struct timespec now = {0, 0};
    pair(&both);
    pthread_sigmask(SIG_BLOCK, &both, &old);
    turn = told = over = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&other[i], 0, taker, 0);
    while (turn < 50 && told == 2 * turn) {
        usleep(2000);
        turn++;
        kill(getpid(), SIGUSR1);
        kill(getpid(), SIGUSR2);
        for (int i = 0; told < 2 * turn && i < 2000; i++)
            usleep(1000);
    }
    equal(told, 100, "one left to a thread that takes another first is another's");
    over = 1;
    for (int i = 0; i < 2; i++)
        pthread_kill(other[i], SIGUSR1);
    for (int i = 0; i < 2; i++)
        pthread_join(other[i], 0);
    while (sigtimedwait(&both, 0, &now) > 0)
        ;
    pthread_sigmask(SIG_SETMASK, &old, 0);
}

static void leftovers(void)
{
    struct sigaction action = {.sa_handler = on_told, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, 0);
    leave(blocks, 2000, "a signal left to a thread that blocks it is another's");
    leave(stops_waiting, 1000, "and one left to a thread that waits no longer");
    leave(ends, 300, "and one left to a thread that ends");
    signal(SIGUSR1, SIG_DFL);
    pairs();
}

/* A chain of processes in a group of their own, each of which makes the next and ends; says so on
 * `started`. */
static pid_t begin_chain(int started)
{
    pid_t first = fork();
    if (first)
        return first;
    setpgid(0, 0);
    if (write(started, "!", 1) != 1)
        _exit(2);
    for (;;) {
        pid_t next = fork();
        if (next)
            _exit(next < 0);
    }
}

/* Whether `fd` ends within ten seconds: everybody who had the other end is gone. */
static int ends_soon(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    char rest;
    return poll(&end, 1, 10000) == 1 && read(fd, &rest, 1) == 0;
}

static volatile int *started, *signalled;

/* Makes a child that stays, as soon as the signal has been sent to all. */
static void *late_forker(void *blocked)
{
    sigset_t all;
    sigfillset(&all);
    if (blocked)
        pthread_sigmask(SIG_BLOCK, &all, 0);
    __atomic_add_fetch(started, 1, __ATOMIC_SEQ_CST);
    while (!*signalled)
        ;
    fork();
    for (;;)
        pause();
}

/* A process of two threads in a group of its own, of which one waits and the other is a late forker. */
static pid_t begin_pair(int blocked)
{
    pthread_t thread;
    pid_t pair = fork();
    if (pair)
        return pair;
    setpgid(0, 0);
    pthread_create(&thread, 0, late_forker, blocked ? "blocked" : 0);
    /* From here on this one takes the signal. */
    __atomic_add_fetch(started, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
}

/* The signal ends the whole process, whichever thread takes it, before kill returns. */
static void late_children(void)
{
    int survivors = 0;
    started = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    signalled = started + 1;
    for (int turn = 0; turn < 400 && survivors == 0; turn++) {
        int fds[2];
        if (pipe(fds))
            break;
        *started = *signalled = 0;
        pid_t pair = begin_pair(turn & 1);
        close(fds[1]);
        while (*started < 2)
            sched_yield();
        kill(-pair, SIGTERM);
        *signalled = 1;
        survivors += !ends_soon(fds[0]);
        kill(-pair, SIGKILL);
        close(fds[0]);
        status_of(pair);
    }
    equal(survivors, 0, "a thread makes no child when a signal has ended its process");
}

static volatile pid_t looked_for;
static volatile int without_group;

static void *look_for_groups(void *unused)
{
    while (looked_for)
        without_group += getpgid(looked_for) == 0;
    return unused;
}

/* Children come and go under the eyes of another thread. */
static void groups_of_reaped(void)
{
    pthread_t thread;
    looked_for = getpid();
    pthread_create(&thread, 0, look_for_groups, 0);
    for (int turn = 0; turn < 4000; turn++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        looked_for = child;
        status_of(child);
    }
    looked_for = 0;
    pthread_join(thread, 0);
    equal(without_group, 0, "a process is in a group, or is not there");
}

static void chains(void)
{
    int killed_all = 1, none_left = 1;
    for (int turn = 0; turn < 300 && killed_all && none_left; turn++) {
        int fds[2];
        char first;
        if (pipe(fds))
            break;
        pid_t chain = begin_chain(fds[1]);
        close(fds[1]);
        none_left &= read(fds[0], &first, 1) == 1;
        for (int i = 0; i < turn % 23; i++)
            sched_yield();
        /* There is always somebody in the group. */
        killed_all &= kill(-chain, SIGKILL) == 0;
        none_left &= ends_soon(fds[0]);
        close(fds[0]);
        status_of(chain);
    }
    check(killed_all, "a group whose members make one another is there to be killed");
    check(none_left, "and nobody of it lives on");
    late_children();
    groups_of_reaped();
}

static const struct group groups[] = {
    {"children", children},   {"orphans", orphans},     {"stops", stops},     {"masks", masks},
    {"parent", parent_death}, {"robust", robust},       {"futexes", futexes}, {"threads", threads},
    {"timers", timers},       {"programs", programs},   {"frames", frames},   {"fairness", fairness},
    {"families", families},   {"leftovers", leftovers}, {"chains", chains},
};

/* Started again as `jobs await CHILD`: status 6 when the child's end brought no signal. */
static void await(pid_t child)
{
    int status = -1;
    waitpid(child, &status, __WALL);
    _exit(exited(status, 0) ? 6 : 2);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "await") == 0)
        await(atoi(argv[2]));
    /* Fairness is judged by the clock, so only where time goes by instructions: when it is asked for by
     * name. */
    run_groups(GROUPS(groups), "fairness", argc, argv);
    return done();
}
