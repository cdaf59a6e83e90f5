/* Limits of a user over all its processes: signals that wait (RLIMIT_SIGPENDING), memory of pipes and of
 * large descriptor tables.
 *
 * Interface: limits; TAP on standard output. As root: it takes the part of two users that nobody else is.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { USER = 61000, OTHER = 61001, MOST = 10 };

static int low;

static int value(int signo, pid_t pid) { return sigqueue(pid, signo, (union sigval){.sival_int = 7}); }

/* The numbers in /proc: waiting signals of the user, and the limit. */
static long waiting(long *most)
{
    char line[256];
    long held = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "SigQ: %ld/%ld", &held, most);
    if (status)
        fclose(status);
    return held;
}

static void become(int user)
{
    struct rlimit limit = {MOST, MOST}, files = {4096, 4096};
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    if (setrlimit(RLIMIT_SIGPENDING, &limit) || setrlimit(RLIMIT_NOFILE, &files) || setgid(user) ||
        setuid(user))
        _exit(99);
}

/* In a process of `user`; what it finds wrong, a bit each. */
static int as(int user, int (*part)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        become(user);
        _exit(part());
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int refused(void) { return value(low, getpid()) == -1 && errno == EAGAIN ? 0 : 1; }

static int admitted(void) { return value(low, getpid()) == 0 ? 0 : 1; }

static int no_timer(void)
{
    timer_t timer;
    return timer_create(CLOCK_MONOTONIC, 0, &timer) == -1 && errno == EAGAIN ? 0 : 1;
}

/* A user's process with all that it may have. Others ask meanwhile: `other` by who is another, the rest by
 * its like. */
static void full(void)
{
    int ready[2], go[2];
    char byte = 0;
    if (pipe(ready) || pipe(go))
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        become(USER);
        for (int i = 0; i < MOST; i++)
            byte |= value(low, getpid());
        if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(1);
        _exit(0);
    }
    equal(read(ready[0], &byte, 1) == 1 && byte == 0, 1, "as many as the limit says wait");
    equal(as(USER, refused), 0, "another process of that user may send itself none: EAGAIN");
    equal(as(USER, no_timer), 0, "nor make a timer: EAGAIN");
    equal(as(OTHER, admitted), 0, "another user may");
    fails(value(low, child), EAGAIN, "who sends to it, root too, is bound by whose it is");
    equal(kill(child, low + 1), 0, "kill tells what needs no place, by a real-time signal too");
    equal(value(SIGUSR1, child), 0, "a standard signal arrives without its value");
    equal(write(go[1], "", 1), 1, "the first process may end");
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "and does");
    equal(as(USER, admitted), 0, "what it had is free again");
    for (int i = 0; i < 2; i++)
        close(ready[i]), close(go[i]);
}

static int alone(void)
{
    int pid = getpid(), bad = 0;
    long most = 0;
    timer_t timer;
    siginfo_t info;
    sigset_t rt;
    struct timespec none = {0, 0};
    sigemptyset(&rt);
    sigaddset(&rt, low);
    for (int i = 0; i < MOST; i++)
        bad |= value(low, pid) != 0;
    bad |= (waiting(&most) != MOST || most != MOST) << 1;
    bad |= (value(low, pid) != -1 || errno != EAGAIN) << 2;
    /* One that is taken makes room, for a timer too. */
    bad |= (sigtimedwait(&rt, &info, &none) != low || info.si_value.sival_int != 7) << 3;
    bad |= (timer_create(CLOCK_MONOTONIC, 0, &timer) != 0 || waiting(&most) != MOST) << 4;
    bad |= (value(low, pid) != -1 || errno != EAGAIN) << 5;
    bad |= (timer_delete(timer) != 0 || value(low, pid) != 0) << 6;
    return bad;
}

/* The memory of a user's pipes, two pages each at least, is bounded by an eighth of all, which is told
 * before descriptors are out. */
static int many_pipes(void)
{
    int ends[2];
    long count = 0;
    struct sysinfo info;
    while (pipe(ends) == 0)
        count++;
    int told = errno;
    printf("# %ld pipes\n", count);
    fflush(stdout);
    return sysinfo(&info) || told != ENFILE || count * 2 * 4096 > (long)info.totalram / 8;
}

/* The information about it is lost, and not the signal. */
static int lost(void)
{
    int pid = getpid(), bad = 0;
    siginfo_t info;
    sigset_t two;
    struct timespec none = {0, 0};
    for (int i = 0; i < MOST; i++)
        bad |= value(low, pid) != 0;
    sigemptyset(&two);
    sigaddset(&two, low + 1);
    sigaddset(&two, SIGUSR1);
    bad |= (kill(pid, low + 1) != 0) << 1 | (value(SIGUSR1, pid) != 0) << 2;
    bad |= (sigtimedwait(&two, &info, &none) != SIGUSR1 || info.si_value.sival_int != 0) << 3;
    bad |= (sigtimedwait(&two, &info, &none) != low + 1 || info.si_pid != 0) << 4;
    bad |= (kill(pid, SIGUSR2) != 0) << 5;
    sigaddset(&two, SIGUSR2);
    /* Kill's information about a standard signal has a place in any case. */
    bad |= (sigtimedwait(&two, &info, &none) != SIGUSR2 || info.si_pid != pid) << 6;
    return bad;
}

static int none_left(void)
{
    long most;
    return waiting(&most) != 0;
}

/* Large descriptor tables of a user's processes take an eighth of memory at most: some are refused where
 * memory for all of them is there. */
static void tables(void)
{
    enum { CHILDREN = 8, LAST = 65535 };
    int ends[2], granted = 0, refused = 0;
    pid_t children[CHILDREN];
    if (pipe(ends))
        exit(2);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct rlimit most = {LAST + 1, LAST + 1};
            char error = 1;
            if (setrlimit(RLIMIT_NOFILE, &most) == 0 && setgid(USER) == 0 && setuid(USER) == 0)
                error = dup2(0, LAST) == LAST ? 0 : errno;
            if (write(ends[1], &error, 1) != 1)
                _exit(1);
            for (;;)
                pause();
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        char error;
        if (read(ends[0], &error, 1) != 1)
            break;
        granted += error == 0;
        refused += error == ENOMEM;
    }
    printf("# %d granted, %d refused\n", granted, refused);
    check(granted > 0 && refused > 0 && granted + refused == CHILDREN,
          "large tables take an eighth of memory at most: ENOMEM");
    for (int i = 0; i < CHILDREN; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], 0, 0);
    }
    close(ends[0]), close(ends[1]);
}

int main(void)
{
    low = SIGRTMIN;
    equal(as(USER, alone), 0, "signals with values and timers share one limit");
    equal(as(USER, lost), 0, "beyond it signals arrive, what is known about them does not");
    equal(as(USER, none_left), 0, "nothing is held by who has ended");
    full();
    equal(as(USER, none_left), 0, "nor afterwards");
    equal(as(USER, many_pipes), 0, "pipes take an eighth of memory at most: ENFILE");
    tables();
    return done();
}
