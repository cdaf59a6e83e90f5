/* Checks calls that give back what was set, and what is refused: scheduling, prctl, names, clocks; passes on
 * Linux and must pass here.
 *
 * Interface: settings runs all, as root; TAP on standard output.
 */
#define _GNU_SOURCE
#include "sched-attr.h"
#include "tap.h"
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define USER 1000

/* The exit status of `run` in a child, as user 1000 if `plain`. */
static int in_child(int (*run)(void), int plain)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (plain && (setgid(USER) || setuid(USER)))
            _exit(99);
        _exit(run());
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int inherits(void)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return CPU_COUNT(&set);
}

static void affinity(void)
{
    cpu_set_t old, one, got;
    CPU_ZERO(&old);
    check(sched_getaffinity(0, sizeof old, &old) == 0 && CPU_COUNT(&old) >= 1, "all processors at first");
    int first = -1;
    for (int i = 0; i < CPU_SETSIZE && first < 0; i++)
        if (CPU_ISSET(i, &old))
            first = i;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    equal(sched_setaffinity(0, sizeof one, &one), 0, "one processor is chosen");
    CPU_ZERO(&got);
    sched_getaffinity(0, sizeof got, &got);
    check(CPU_EQUAL(&got, &one), "and told");
    equal(in_child(inherits, 0), 1, "a child has the choice, too");
    sched_setaffinity(0, sizeof old, &old);
    fails(sched_getaffinity(-1, sizeof got, &got), ESRCH, "of thread -1: none");
    fails(sched_setaffinity(-1, sizeof one, &one), ESRCH, "for thread -1: none");
    fails(syscall(SYS_sched_getaffinity, 0, 4, &got), EINVAL, "a set is of whole words");
    CPU_ZERO(&one);
    fails(sched_setaffinity(0, sizeof one, &one), EINVAL, "no processor is no choice");
    fails(sched_setaffinity(0, sizeof one, (void *)1), EFAULT, "a set is somewhere");
}

static int plain_policies(void)
{
    struct sched_param param = {.sched_priority = 5};
    if (sched_setscheduler(0, SCHED_FIFO, &param) != -1 || errno != EPERM)
        return 1;
    struct rlimit most = {0, 0};
    setrlimit(RLIMIT_NICE, &most);
    param.sched_priority = 0;
    if (sched_setscheduler(0, SCHED_IDLE, &param))
        return 2;
    if (sched_setscheduler(0, SCHED_OTHER, &param) != -1 || errno != EPERM)
        return 3;
    if (setpriority(PRIO_PROCESS, 0, 5) || getpriority(PRIO_PROCESS, 0) != 5)
        return 4;
    if (setpriority(PRIO_PROCESS, 0, 4) != -1 || errno != EACCES)
        return 5;
    if (setpriority(PRIO_PROCESS, getppid(), 4) != -1 || errno != EPERM)
        return 6;
    struct attr attr = {sizeof attr, 6, 0, 0, 0, 10000000, 20000000, 30000000, 0, 0};
    if (syscall(SYS_sched_setattr, 0, &attr, 0) != -1 || errno != EPERM)
        return 7;
    if (syscall(SYS_ioprio_set, 1, getppid(), 2 << 13 | 7) != -1 || errno != EPERM ||
        syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 7))
        return 8;
    if (sched_setscheduler(0, SCHED_IDLE | SCHED_RESET_ON_FORK, &param))
        return 9;
    if (sched_setscheduler(0, SCHED_IDLE, &param) != -1 || errno != EPERM)
        return 10;
    return 0;
}

static int forked(void)
{
    struct sched_param param;
    sched_getparam(0, &param);
    return sched_getscheduler(0) * 10 + param.sched_priority;
}

static void policies(void)
{
    struct sched_param param = {.sched_priority = 7}, got = {0};
    equal(sched_getscheduler(0), SCHED_OTHER, "the ordinary policy at first");
    equal(sched_setscheduler(0, SCHED_RR, &param), 0, "another is set");
    equal(sched_getscheduler(0), SCHED_RR, "and told");
    check(sched_getparam(0, &got) == 0 && got.sched_priority == 7, "with its priority");
    equal(in_child(forked, 0), SCHED_RR * 10 + 7, "a child has both");
    param.sched_priority = 9;
    check(sched_setparam(0, &param) == 0 && sched_getparam(0, &got) == 0 && got.sched_priority == 9,
          "a priority alone");
    param.sched_priority = 0;
    fails(sched_setparam(0, &param), EINVAL, "none is no priority of this policy");
    param.sched_priority = 3;
    equal(sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param), 0,
          "a policy for this thread only");
    equal(sched_getscheduler(0), SCHED_FIFO | SCHED_RESET_ON_FORK, "is told so");
    equal(in_child(forked, 0), SCHED_OTHER * 10, "a child has the ordinary one");
    struct timespec interval;
    check(sched_rr_get_interval(0, &interval) == 0 && interval.tv_sec == 0 && interval.tv_nsec == 0,
          "who is first in has no quantum");
    sched_setscheduler(0, SCHED_RR, &param);
    check(sched_rr_get_interval(0, &interval) == 0 && interval.tv_sec + interval.tv_nsec > 0,
          "who goes round has");
    param.sched_priority = 0;
    equal(sched_setscheduler(0, SCHED_OTHER, &param), 0, "back");
    fails(sched_setscheduler(0, 77, &param), EINVAL, "a policy that is none");
    fails(sched_setscheduler(0, -1, &param), EINVAL, "a negative one");
    fails(sched_setscheduler(0, SCHED_OTHER, 0), EINVAL, "no parameter");
    fails(sched_getscheduler(-1), EINVAL, "of thread -1");
    fails(sched_getparam(0, 0), EINVAL, "a parameter to nowhere");
    struct attr attr;
    memset(&attr, 0xff, sizeof attr);
    equal(syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0), 0, "sched_getattr");
    check(attr.size >= 48 && attr.policy == SCHED_OTHER && attr.nice == 0 && attr.priority == 0 &&
              attr.flags == 0,
          "tells the same");
    attr = (struct attr){.size = ATTR_FIRST, .policy = SCHED_BATCH, .nice = 4};
    equal(syscall(SYS_sched_setattr, 0, &attr, 0), 0, "sched_setattr");
    check(sched_getscheduler(0) == SCHED_BATCH && getpriority(PRIO_PROCESS, 0) == 4,
          "sets policy and niceness");
    attr = (struct attr){.size = ATTR_FIRST, .policy = SCHED_OTHER, .nice = 9, .flags = 0x10};
    equal(syscall(SYS_sched_setattr, 0, &attr, 0), 0, "what is to stay");
    check(sched_getscheduler(0) == SCHED_BATCH && getpriority(PRIO_PROCESS, 0) == 4, "stays, the policy too");
    attr = (struct attr){.size = ATTR_FIRST, .policy = SCHED_OTHER, .nice = 3, .flags = 8};
    equal(syscall(SYS_sched_setattr, 0, &attr, 0), 0, "a niceness alone");
    check(sched_getscheduler(0) == SCHED_BATCH && getpriority(PRIO_PROCESS, 0) == 3, "keeps the policy");
    attr.size = 20;
    fails(syscall(SYS_sched_setattr, 0, &attr, 0), E2BIG, "too small");
    check(attr.size >= 48, "and says how large");
    fails(syscall(SYS_sched_getattr, 0, &attr, 40, 0), EINVAL, "too little room");
    fails(syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 1), EINVAL, "no flags");
    sched_setscheduler(0, SCHED_OTHER, &param);
    setpriority(PRIO_PROCESS, 0, 0);
    equal(sched_get_priority_max(SCHED_FIFO), 99, "highest priority");
    equal(sched_get_priority_min(6), 0, "deadlines have none");
    equal(in_child(plain_policies, 1), 0, "what an ordinary user may");
}

static void *nicer(void *arg)
{
    setpriority(PRIO_PROCESS, syscall(SYS_gettid), 7);
    *(int *)arg = getpriority(PRIO_PROCESS, 0);
    return 0;
}

static void niceness(void)
{
    int theirs = 0;
    pthread_t thread;
    pthread_create(&thread, 0, nicer, &theirs);
    pthread_join(thread, 0);
    check(theirs == 7 && getpriority(PRIO_PROCESS, 0) == 0, "each thread has its niceness");
    check(setpriority(PRIO_PROCESS, 0, -100) == 0 && getpriority(PRIO_PROCESS, 0) == -20, "no less than -20");
    check(setpriority(PRIO_PROCESS, 0, 0) == 0 && getpriority(PRIO_PROCESS, 0) == 0, "root takes it back");
    fails(getpriority(PRIO_PROCESS, 1 << 22), ESRCH, "nobody");
    fails(getpriority(3, 0), EINVAL, "no such kind");
    int prio = syscall(SYS_ioprio_get, 1, 0);
    check(prio == 0 || prio == 4, "no priority of input and output at first");
    equal(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6), 0, "one is set");
    equal(syscall(SYS_ioprio_get, 1, 0), 2 << 13 | 6, "and told");
    fails(syscall(SYS_ioprio_set, 1, 0, 4 << 13), EINVAL, "and four classes");
    fails(syscall(SYS_ioprio_set, 1, 0, 1), EINVAL, "none has no levels");
    fails(syscall(SYS_ioprio_get, 4, 0), EINVAL, "nobody of that kind");
    syscall(SYS_ioprio_set, 1, 0, 0);
}

/* Three processes of a group and a user, of whom each in turn is the one of the least niceness. */
static void of_many(void)
{
    enum { MEMBERS = 3, OWNER = 54321 };
    static const int values[MEMBERS] = {3, 9, 7};
    pid_t member[MEMBERS];
    int wrong = 0;
    for (int i = 0; i < MEMBERS; i++) {
        member[i] = fork();
        if (member[i] == 0) {
            if (setpgid(0, member[0]) || setgid(OWNER) || setuid(OWNER))
                _exit(1);
            raise(SIGSTOP);
            _exit(0);
        }
        int status = 0;
        wrong += waitpid(member[i], &status, WUNTRACED) != member[i] || !WIFSTOPPED(status);
    }
    equal(wrong, 0, "three processes of one group and one user");
    for (int best = 0; best < MEMBERS; best++) {
        for (int i = 0; i < MEMBERS; i++)
            setpriority(PRIO_PROCESS, member[i], values[(i - best + MEMBERS) % MEMBERS]);
        equal(getpriority(PRIO_PGRP, member[0]), 3, "of a group's members, the least niceness is told");
        equal(getpriority(PRIO_USER, OWNER), 3, "and of a user's processes");
    }
    equal(setpriority(PRIO_PGRP, member[0], 5), 0, "a group's niceness is set");
    for (int i = 0; i < MEMBERS; i++) {
        equal(getpriority(PRIO_PROCESS, member[i]), 5, "which each member has");
        kill(member[i], SIGKILL);
    }
    for (int i = 0; i < MEMBERS; i++)
        waitpid(member[i], 0, 0);
}

static int reaped(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int ends[2];
    pipe(ends);
    pid_t middle = fork();
    if (middle == 0) {
        /* Asked for now: the child may come to run when this one has ended. */
        pid_t parent = getpid();
        if (fork() == 0) {
            while (getppid() == parent)
                usleep(1000);
            pid_t now = getppid();
            write(ends[1], &now, sizeof now);
            _exit(5);
        }
        /* This one has ended before its parent does. */
        pid_t zombie = fork();
        if (zombie == 0)
            _exit(6);
        siginfo_t info;
        waitid(P_PID, zombie, &info, WEXITED | WNOWAIT);
        _exit(0);
    }
    int status, sum = 0;
    for (int i = 0; i < 3; i++) {
        if (wait(&status) < 0)
            return 10 + i;
        sum += WEXITSTATUS(status);
    }
    pid_t heir = 0;
    read(ends[0], &heir, sizeof heir);
    if (heir != getpid())
        return 20;
    return sum == 11 && wait(&status) < 0 ? 0 : 21;
}

static int not_inherited(void)
{
    int flag = 9;
    prctl(PR_GET_CHILD_SUBREAPER, &flag);
    return flag;
}

static int plain_prctl(void)
{
    if (prctl(PR_SET_MM, PR_SET_MM_BRK, 0, 0, 0) != -1 || errno != EPERM)
        return 1;
    if (prctl(57, 1, 0, 0, 0) != -1 || errno != EPERM)
        return 2;
    return 0;
}

static int slack(void) { return prctl(PR_GET_TIMERSLACK) / 1000; }

static void options(void)
{
    int flag = 9;
    check(prctl(PR_GET_CHILD_SUBREAPER, &flag) == 0 && flag == 0, "nobody takes orphans at first");
    equal(in_child(reaped, 0), 0, "who says so takes orphans, living and ended");
    prctl(PR_SET_CHILD_SUBREAPER, 7);
    check(prctl(PR_GET_CHILD_SUBREAPER, &flag) == 0 && flag == 1, "and is told so");
    equal(in_child(not_inherited, 0), 0, "a child is not asked to");
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    fails(prctl(PR_GET_CHILD_SUBREAPER, 1), EFAULT, "an address that is none");
    equal(prctl(PR_SET_TIMERSLACK, 70000), 0, "slack is set");
    equal(prctl(PR_GET_TIMERSLACK), 70000, "and told");
    equal(in_child(slack, 0), 70, "inherited");
    prctl(PR_SET_TIMERSLACK, 0);
    equal(prctl(PR_GET_TIMERSLACK), 50000, "and goes back");
    equal(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), 0, "huge pages are not forbidden");
    check(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 && prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1,
          "and then they are");
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    fails(prctl(PR_GET_THP_DISABLE, 1, 0, 0, 0), EINVAL, "what is not used is zero");
    check(prctl(PR_GET_TSC, &flag) == 0 && flag == PR_TSC_ENABLE, "the counter may be read");
    equal(prctl(PR_GET_TIMING, 0, 0, 0, 0), PR_TIMING_STATISTICAL, "time is counted by samples");
    fails(prctl(PR_SET_TIMING, 1, 0, 0, 0), EINVAL, "in no other way");
    equal(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0), PR_MCE_KILL_DEFAULT, "poisoned memory");
    check(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0) == 0 &&
              prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) == PR_MCE_KILL_EARLY,
          "is told early");
    equal(prctl(PR_MCE_KILL, PR_MCE_KILL_CLEAR, 0, 0, 0), 0, "or as others do");
    fails(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, 3, 0, 0), EINVAL, "not in a fourth way");
    fails(prctl(PR_SET_FPEMU, 0), EINVAL, "what other processors have");
    fails(prctl(12345), EINVAL, "what nobody has");
    fails(prctl(PR_SET_PDEATHSIG, 65), EINVAL, "a signal that is none");
    equal(in_child(plain_prctl, 1), 0, "what an ordinary user may not");
}

static int plain_names(void)
{
    if (setdomainname("x", 1) != -1 || errno != EPERM)
        return 1;
    if (sethostname("x", 1) != -1 || errno != EPERM)
        return 2;
    struct timex timex = {.modes = ADJ_TICK, .tick = 10000};
    if (adjtimex(&timex) != -1 || errno != EPERM)
        return 3;
    if (unshare(CLONE_NEWUTS) != -1 || errno != EPERM)
        return 4;
    if (syscall(SYS_reboot, 1, 2, 3, 0) != -1 || errno != EPERM)
        return 5;
    return 0;
}

static void names(void)
{
    struct utsname old, name;
    uname(&old);
    equal(setdomainname("quaject.test", 12), 0, "a domain's name is set");
    check(uname(&name) == 0 && strcmp(name.domainname, "quaject.test") == 0, "and told");
    setdomainname(old.domainname, strlen(old.domainname));
    equal(sethostname("quaject", 7), 0, "a host's name is set");
    check(uname(&name) == 0 && strcmp(name.nodename, "quaject") == 0, "and told");
    sethostname(old.nodename, strlen(old.nodename));
    fails(setdomainname("x", 65), EINVAL, "it has 64 bytes at most");
    fails(setdomainname("x", -1), EINVAL, "and not fewer than none");
    fails(setdomainname((void *)1, 3), EFAULT, "and is somewhere");
    equal(in_child(plain_names, 1), 0, "an ordinary user sets none");
    struct timex timex = {0};
    int state = adjtimex(&timex);
    check(state >= 0 && state <= 5 && timex.tick >= 9000 && timex.tick <= 11000 && timex.tolerance > 0,
          "adjtimex tells");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    check(labs(timex.time.tv_sec - now.tv_sec) <= 1, "the time, too");
    timex.modes = ADJ_TICK;
    timex.tick = 100;
    fails(adjtimex(&timex), EINVAL, "a tick that is far too short");
    static const long odd[] = {-1, 1000000, LONG_MAX, LONG_MIN};
    for (int i = 0; i < 4; i++) {
        struct timex step = {.modes = ADJ_SETOFFSET, .time.tv_usec = odd[i]};
        fails(adjtimex(&step), EINVAL, "a step by microseconds that are more than a second");
    }
    static const long wild[] = {LONG_MAX, LONG_MIN, LONG_MAX / 65536000 + 1, LONG_MIN / 65536000 - 1};
    for (int i = 0; i < 4; i++) {
        struct timex fast = {.modes = ADJ_FREQUENCY, .freq = wild[i]};
        fails(adjtimex(&fast), EINVAL, "a frequency that is nonsense");
    }
    timex.modes = 0;
    fails(syscall(SYS_clock_adjtime, CLOCK_MONOTONIC, &timex), EOPNOTSUPP,
          "the monotonic clock is not adjusted");
    fails(syscall(SYS_clock_adjtime, 77, &timex), EINVAL, "nor one that is none");
    fails(adjtimex((void *)1), EFAULT, "a structure that is nowhere");
    struct rlimit limit = {64, 1ul << 40};
    fails(setrlimit(RLIMIT_NOFILE, &limit), EPERM, "not even root has so many descriptors");
    char buffer[8];
    fails(syscall(SYS_getrandom, buffer, 8, 6), EINVAL, "random from two sources at once");
    fails(syscall(SYS_reboot, 1, 2, 3, 0), EINVAL, "rebooting needs the numbers");
    fails(syscall(SYS_setns, -1, 0), EBADF, "a namespace that is none");
    int self = open("/proc/self/stat", O_RDONLY);
    fails(syscall(SYS_setns, self, 0), EINVAL, "a file that is none");
    close(self);
    fails(unshare(1 << 30 | 1), EINVAL, "unsharing what is not known");
    equal(unshare(CLONE_THREAD), 0, "who is alone shares no threads");
    int kinds = syscall(SYS_sysfs, 3);
    if (kinds == -1 && errno == ENOSYS)
        check(1, "a Linux without sysfs(2)");
    else {
        char kind[64] = "";
        check(kinds > 0 && syscall(SYS_sysfs, 2, 0, kind) == 0 && kind[0],
              "the first kind of file system has a name");
        equal(syscall(SYS_sysfs, 1, kind), 0, "by which it is found");
    }
}

static int plain_zone(void)
{
    struct {
        int west, summer;
    } zone = {0};
    if (syscall(SYS_settimeofday, 0, &zone) != -1 || errno != EPERM)
        return 1;
    return syscall(SYS_settimeofday, 0, 0) != -1 || errno != EPERM ? 2 : 0;
}

static void zones(void)
{
    struct {
        int west, summer;
    } old, zone = {0}, got = {1, 1};
    equal(syscall(SYS_gettimeofday, 0, &old), 0, "the time zone is asked for");
    /* The first zone that is set without a time moves the clock. */
    equal(syscall(SYS_settimeofday, 0, &zone), 0, "it is set");
    zone.west = -330;
    zone.summer = 7;
    time_t before = time(0);
    equal(syscall(SYS_settimeofday, 0, &zone), 0, "and again");
    check(labs(time(0) - before) < 60, "which leaves the clock alone");
    check(syscall(SYS_gettimeofday, 0, &got) == 0 && got.west == -330 && got.summer == 7, "and told");
    zone.west = 15 * 60 + 1;
    fails(syscall(SYS_settimeofday, 0, &zone), EINVAL, "there is none so far west");
    zone.west = -15 * 60 - 1;
    fails(syscall(SYS_settimeofday, 0, &zone), EINVAL, "nor so far east");
    fails(syscall(SYS_settimeofday, 0, 1), EFAULT, "nor one that is nowhere");
    struct {
        long seconds, micro;
    } never = {0, 1000000};
    fails(syscall(SYS_settimeofday, &never, 0), EINVAL, "a time whose second has too many parts");
    equal(in_child(plain_zone, 1), 0, "an ordinary user sets none");
    equal(syscall(SYS_settimeofday, 0, &old), 0, "the old one again");
}

static volatile sig_atomic_t caught, where;

static void on_fault(int number)
{
    char here;
    caught = number;
    where = (intptr_t)&here != 0;
}

static int broken_stack(void)
{
    /* The alternate stack cannot be written: the signal becomes SIGSEGV, whose handler uses the ordinary
     * one. */
    void *area = mmap(0, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = area, .ss_size = 1 << 16};
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK},
                     fault = {.sa_handler = on_fault};
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGSEGV, &fault, 0);
    raise(SIGUSR1);
    return caught == SIGSEGV ? 0 : 1 + caught;
}

static int broken_for_good(void)
{
    void *area = mmap(0, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = area, .ss_size = 1 << 16};
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, 0);
    raise(SIGSEGV);
    return 1;
}

static int old_call(void)
{
    long result = 20;
    __asm__ volatile("int $0x80" : "+a"(result) : : "rcx", "r8", "r9", "r10", "r11", "memory");
    return result == -ENOSYS || result == getpid() ? 0 : 1;
}

static void traps(void)
{
    equal(in_child(broken_stack, 0), 0, "a signal whose stack cannot be written becomes SIGSEGV");
    equal(in_child(broken_for_good, 0), 128 + SIGSEGV, "one that is SIGSEGV itself ends the process");
    equal(in_child(old_call, 0), 0, "a call of 32-bit programs answers");
}

static const struct group groups[] = {
    {"affinity", affinity}, {"policies", policies}, {"niceness", niceness}, {"niceness", of_many},
    {"options", options},   {"names", names},       {"zones", zones},       {"traps", traps},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
