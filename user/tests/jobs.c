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
    for (int moved = 1; moved && rounds < repeats(500); rounds += moved) {
        kill(child, SIGSTOP);
        for (volatile int i = rounds * 37 % 3000; i > 0; i--)
            ;
        kill(child, SIGCONT);
        unsigned long before = *count;
        for (int i = 0; *count == before && i < 2000; i++)
            usleep(1000);
        moved = *count != before;
    }
    equal(rounds, repeats(500), "SIGCONT after SIGSTOP is not lost");
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
    for (int good = 1; good && rounds < repeats(500); rounds += good) {
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
    equal(rounds, repeats(500), "a process that makes threads stops");
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

#include "jobs-threads.h"
#include "jobs-programs.h"
#include "jobs-frames.h"

/* Two processes that only wake each other leave the CPU to one that computes, in every tenth of a second. */
static void fairness(void)
{
    const int windows = repeats(20);
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
    for (int window = 0; window < windows; window++) {
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

#include "jobs-leftovers.h"
#include "jobs-chains.h"

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
