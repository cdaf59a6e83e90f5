/* SCHED_DEADLINE: admission, budgets in each period, the earliest deadline first.
 *
 * Interface: budgets [GROUP...] runs all groups but `times`, or those named, as user 0; TAP on standard
 * output. `times` wants a machine that counts instructions, with one processor. Linux 6.1 passes `terms`,
 * `room` and `waits`; it loses a part of what it may promise in `rest`, and sees the end of a budget at its
 * next tick.
 */
#define _GNU_SOURCE
#include "sched-attr.h"
#include "processes.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { DEADLINE = 6, ON_FORK = 1, OVERRUN = 4, KEEP_POLICY = 8 };
static const int64_t MS = 1000000;

/* Shared between parent and children. */
static volatile struct {
    int64_t late, work;
    long rounds, signals;
    int order[16], count, ready;
} *told;

static int promise_to(pid_t pid, uint64_t flags, uint64_t runtime, uint64_t deadline, uint64_t period)
{
    struct attr attr = {ATTR_FIRST, DEADLINE, flags, 0, 0, runtime, deadline, period};
    return syscall(SYS_sched_setattr, pid, &attr, 0);
}

static int promise(int64_t runtime, int64_t deadline, int64_t period)
{
    return promise_to(0, ON_FORK, runtime, deadline, period);
}

static int policy(pid_t pid, int kind, int priority)
{
    struct sched_param param = {priority};
    return sched_setscheduler(pid, kind, &param);
}

static int processors(void) { return sysconf(_SC_NPROCESSORS_ONLN); }

static int thread_has(pid_t pid, uint64_t flags, uint64_t runtime, uint64_t deadline, uint64_t period)
{
    struct attr attr;
    memset(&attr, 0xff, sizeof attr);
    return syscall(SYS_sched_getattr, pid, &attr, ATTR_FIRST, 0) == 0 && attr.policy == DEADLINE &&
           attr.flags == flags && attr.nice == 0 && attr.priority == 0 && attr.runtime == runtime &&
           attr.deadline == deadline && attr.period == period;
}

static int has(uint64_t flags, uint64_t runtime, uint64_t deadline, uint64_t period)
{
    return thread_has(0, flags, runtime, deadline, period);
}

static void *nothing(void *arg) { return arg; }

/* Reading back, bad terms, rights, children. */
static void terms(void)
{
    equal(promise_to(0, 0, 10 * MS, 30 * MS, 100 * MS), 0, "a promise");
    check(has(0, 10 * MS, 30 * MS, 100 * MS), "is read back");
    struct sched_param param = {7};
    struct timespec interval = {1, 1};
    check(sched_getscheduler(0) == DEADLINE && sched_getparam(0, &param) == 0 && param.sched_priority == 0,
          "without a priority");
    check(sched_rr_get_interval(0, &interval) == 0 && interval.tv_sec == 0 && interval.tv_nsec == 0,
          "or a turn");
    long value[42];
    numbers_in_stat(value, 42);
    check(value[18] == -101 && value[40] == 0 && value[41] == DEADLINE, "/proc says so");
    fails(fork(), EAGAIN, "it has no children");
    pthread_t thread;
    equal(pthread_create(&thread, 0, nothing, 0), EAGAIN, "and starts no threads");
    equal(promise(10 * MS, 30 * MS, 0), 0, "other terms, with the deadline as the period, for itself alone");
    check(has(ON_FORK, 10 * MS, 30 * MS, 30 * MS), "are read back");
    pid_t pid = fork();
    if (pid == 0)
        _exit(sched_getscheduler(0));
    int status = -1;
    waitpid(pid, &status, 0);
    equal(status, SCHED_OTHER << 8, "a child is an ordinary one then");
    equal(policy(0, SCHED_OTHER, 0), 0, "back");
    pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    fails(promise_to(pid, ON_FORK, 1023, MS, MS), EINVAL, "too short a time");
    equal(promise_to(pid, ON_FORK, 1024, MS, MS), 0, "the shortest");
    fails(promise_to(pid, ON_FORK, 2 * MS, MS, MS), EINVAL, "more than until the deadline");
    fails(promise_to(pid, ON_FORK, MS, 3 * MS, 2 * MS), EINVAL, "a deadline after the period");
    fails(promise_to(pid, ON_FORK, MS, 0, 2 * MS), EINVAL, "no deadline");
    fails(promise_to(pid, ON_FORK, 10000, 99000, 99000), EINVAL, "too short a period");
    equal(promise_to(pid, ON_FORK, 10000, 100000, 100000), 0, "the shortest");
    fails(promise_to(pid, ON_FORK, MS, 10 * MS, 4194304001), EINVAL, "too long a period");
    equal(promise_to(pid, ON_FORK, MS, 10 * MS, 4194304000), 0, "the longest");
    fails(promise_to(pid, ON_FORK, MS, 1ull << 63, 0), EINVAL, "a deadline beyond all times");
    fails(promise_to(pid, ON_FORK, MS, MS, 1ull << 63), EINVAL, "a period beyond all times");
    struct attr attr = {ATTR_FIRST, DEADLINE, ON_FORK, 0, 1, MS, 10 * MS, 10 * MS};
    fails(syscall(SYS_sched_setattr, pid, &attr, 0), EINVAL, "a priority");
    fails(policy(pid, DEADLINE, 0), EINVAL, "a promise without terms");
    param.sched_priority = 0;
    fails(sched_setparam(pid, &param), EINVAL, "terms by sched_setparam");
    check(thread_has(pid, ON_FORK, MS, 10 * MS, 4194304000), "nothing of this has changed anything");
    attr = (struct attr){ATTR_FIRST, 0, KEEP_POLICY, 0, 0, 2 * MS, 10 * MS, 10 * MS};
    check(syscall(SYS_sched_setattr, pid, &attr, 0) == 0 &&
              thread_has(pid, ON_FORK, 2 * MS, 10 * MS, 10 * MS),
          "other terms alone");
    kill_child(pid);
    pid = fork();
    if (pid == 0) {
        if (setuid(1000))
            _exit(1);
        _exit(promise(MS, 10 * MS, 10 * MS) == -1 && errno == EPERM ? 0 : 2);
    }
    waitpid(pid, &status, 0);
    equal(status, 0, "it is a matter of user 0");
    fails(promise_to(999999, 0, MS, 10 * MS, 10 * MS), ESRCH, "to no thread");
}

/* Children that live until the last end of the pipe `to` that writes is closed. */
static void until_closed(pid_t *pids, int count, int to[2])
{
    check(pipe(to) == 0, "a pipe");
    for (int i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            char byte;
            close(to[1]);
            read(to[0], &byte, 1);
            _exit(0);
        }
    }
}

/* The processors promise no more than they have. */
static void room(void)
{
    int count = processors(), to[2], good = 1;
    pid_t pids[9];
    until_closed(pids, count + 1, to);
    for (int i = 0; i < count; i++)
        good &= promise_to(pids[i], 0, 90 * MS, 100 * MS, 100 * MS) == 0;
    check(good, "nine tenths of each processor");
    fails(promise_to(pids[count], 0, 90 * MS, 100 * MS, 100 * MS), EBUSY, "are all that there is");
    for (int i = 0; i < count; i++)
        good &= promise_to(pids[i], 0, 75 * MS, 100 * MS, 100 * MS) == 0;
    check(good && promise_to(pids[count], 0, 15 * MS, 100 * MS, 100 * MS) == 0, "less leaves some for it");
    fails(promise_to(pids[count], 0, 95 * MS, 100 * MS, 100 * MS), EBUSY, "but not so much");
    check(thread_has(pids[count], 0, 15 * MS, 100 * MS, 100 * MS), "it keeps its part");
    equal(policy(pids[count], SCHED_OTHER, 0), 0, "and gives that back");
    pause_for(0.2);
    for (int i = 0; i < count; i++)
        good &= promise_to(pids[i], 0, 90 * MS, 100 * MS, 100 * MS) == 0;
    check(good, "so that the others have it again");
    equal(promise_to(pids[0], 0, 90 * MS, 100 * MS, 100 * MS), 0, "the same again");
    equal(promise_to(pids[0], 0, 50 * MS, 100 * MS, 100 * MS), 0, "less");
    equal(promise_to(pids[0], 0, 80 * MS, 100 * MS, 100 * MS), 0, "and more");
    kill_child(pids[0]);
    pause_for(0.2);
    equal(promise_to(pids[count], 0, 90 * MS, 100 * MS, 100 * MS), 0, "one that has ended leaves its part");
    for (int i = 1; i < count; i++)
        good &=
            policy(pids[i], SCHED_OTHER, 0) == 0 && promise_to(pids[i], 0, 80 * MS, 100 * MS, 100 * MS) == 0;
    check(good, "so does one that is an ordinary thread again");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    if (count > 1) {
        fails(sched_setaffinity(pids[count], sizeof set, &set), EBUSY, "it is not sent elsewhere");
        policy(pids[count], SCHED_OTHER, 0);
        sched_setaffinity(pids[count], sizeof set, &set);
        fails(promise_to(pids[count], 0, MS, 100 * MS, 100 * MS), EPERM,
              "nor one that may not run anywhere admitted");
    }
    close(to[0]), close(to[1]);
    for (int i = 1; i <= count; i++)
        waitpid(pids[i], 0, 0);
}

/* After many changes at random all is free in the end. */
static void rest(void)
{
    int count = processors(), to[2], good = 1;
    pid_t pids[9];
    unsigned seed = 1;
    until_closed(pids, count + 1, to);
    for (int i = 0; i < 2000; i++) {
        seed = seed * 1103515245 + 12345;
        pid_t pid = pids[(seed >> 16) % (count + 1)];
        if (seed >> 24 & 3)
            promise_to(pid, 0, 1024 + (seed >> 8 & 0xffffff), 100 * MS, 100 * MS);
        else
            policy(pid, SCHED_OTHER, 0);
    }
    close(to[0]), close(to[1]);
    for (int i = 0; i <= count; i++)
        waitpid(pids[i], 0, 0);
    pause_for(0.2);
    for (int i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            pause();
            _exit(0);
        }
        good &= promise_to(pids[i], 0, 94 * MS, 100 * MS, 100 * MS) == 0;
    }
    for (int i = 0; i < count; i++)
        kill_child(pids[i]);
    check(good, "all of it is free again");
    pause_for(0.2);
}

/* Threads that have to wait for their period. */
static void waits(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        promise(MS, 2000 * MS, 2000 * MS);
        for (;;)
            ;
    }
    pause_for(0.1);
    double used = used_by(pid);
    check(used < 0.06, "a budget ends");
    pause_for(0.1);
    check(used_by(pid) - used < 0.01, "and the thread waits");
    kill(pid, SIGSTOP), kill(pid, SIGCONT);
    equal(policy(pid, SCHED_OTHER, 0), 0, "an ordinary thread again");
    double until = seconds() + 5;
    while (used_by(pid) - used < 0.05 && seconds() < until)
        pause_for(0.01);
    check(used_by(pid) - used >= 0.05, "it goes on");
    kill_child(pid);
    pid = fork();
    if (pid == 0) {
        promise(MS, 1000 * MS, 1000 * MS);
        for (;;)
            ;
    }
    pause_for(0.1);
    kill(pid, SIGKILL);
    check(status_of(pid) == SIGKILL, "one that waits can be ended");
}

/* A child that uses all that it gets, in user mode or by large calls. */
static pid_t hog(int by_calls)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    static char memory[1 << 20];
    int zero = open("/dev/zero", O_RDONLY);
    for (;;)
        if (by_calls)
            read(zero, memory, sizeof memory);
}

/* The part of a processor that each of `count` children has within a second. */
static void parts(pid_t *pids, int count, double *part)
{
    double before[4];
    pause_for(0.1);
    double began = seconds();
    for (int i = 0; i < count; i++)
        before[i] = used_by(pids[i]);
    pause_for(1);
    for (int i = 0; i < count; i++)
        part[i] = used_by(pids[i]) - before[i];
    double all = seconds() - began;
    for (int i = 0; i < count; i++) {
        part[i] /= all;
        printf("# %.4f\n", part[i]);
        kill(pids[i], SIGKILL);
    }
    for (int i = 0; i < count; i++)
        waitpid(pids[i], 0, 0);
}

static int near(double part, double wanted) { return part > wanted - 0.005 && part < wanted + 0.005; }

static void note(int who)
{
    int at = told->count;
    told->order[at & 15] = who;
    told->count = at + 1;
}

static void count_signal(int signal)
{
    (void)signal;
    told->signals++;
}

/* Works for `work` in each period and gives up the rest; notes by how much a deadline was missed. */
static pid_t periodic(int64_t work, int64_t budget, int64_t period)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    promise(budget, period, period);
    sched_yield();
    int64_t began = nanoseconds();
    for (int round = 0; round < 1000 * MS / period; round++) {
        struct timespec used;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
        int64_t until = used.tv_sec * 1000000000ll + used.tv_nsec + work;
        do
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
        while (used.tv_sec * 1000000000ll + used.tv_nsec < until);
        int64_t late = nanoseconds() - (began + (round + 1) * period);
        if (late > told->late)
            told->late = late;
        __sync_fetch_and_add(&told->rounds, 1);
        sched_yield();
    }
    _exit(0);
}

static void times(void)
{
    double part[4];
    pid_t pids[4];
    pids[0] = hog(0), promise_to(pids[0], 0, 2 * MS, 10 * MS, 10 * MS);
    parts(pids, 1, part);
    check(near(part[0], 0.2), "a thread alone has its budget in each period, and no more");
    pids[0] = hog(1), promise_to(pids[0], 0, 2 * MS, 10 * MS, 10 * MS);
    pids[1] = hog(0), policy(pids[1], SCHED_FIFO, 99);
    parts(pids, 2, part);
    check(near(part[0], 0.2), "also one that works by large calls, beside the highest priority");
    check(part[1] > 0.7, "which has most of the rest");
    pids[0] = hog(0), promise_to(pids[0], 0, 300000, MS, MS);
    pids[1] = hog(0), promise_to(pids[1], 0, 10 * MS, 20 * MS, 40 * MS);
    pids[2] = hog(0), promise_to(pids[2], 0, 30 * MS, 100 * MS, 100 * MS);
    pids[3] = hog(0);
    parts(pids, 4, part);
    check(near(part[0], 0.3) && near(part[1], 0.25) && near(part[2], 0.3), "each of three has its own");
    check(near(part[3], 0.15), "and others the rest");

    told->late = told->rounds = 0;
    pids[0] = periodic(3900000, 4 * MS, 10 * MS), pids[1] = periodic(9800000, 10 * MS, 20 * MS);
    pids[2] = hog(0), policy(pids[2], SCHED_FIFO, 50);
    waitpid(pids[0], 0, 0), waitpid(pids[1], 0, 0);
    kill_child(pids[2]);
    printf("# latest: %ld ns\n", (long)told->late);
    equal(told->rounds, 150, "sched_yield gives up the rest of a period");
    check(told->late <= 0, "nine tenths of a processor, and no deadline is missed");

    int wake[2];
    for (int round = 0; round < 2; round++) {
        check(pipe(wake) == 0, "a pipe");
        pids[0] = fork();
        if (pids[0] == 0) {
            char byte;
            promise(5 * MS, (round ? 50 : 400) * MS, 400 * MS);
            while (read(wake[0], &byte, 1) == 1)
                note(2);
            _exit(0);
        }
        until_asleep(pids[0]);
        promise(50 * MS, 200 * MS, 200 * MS);
        told->count = 0;
        note(1);
        write(wake[1], "", 1);
        note(3);
        pause_for(0.01);
        int right = told->count == 3 && told->order[0] == 1 && told->order[1] == (round ? 2 : 3);
        check(right, round ? "a thread with an earlier deadline runs before its waker goes on"
                           : "with a later one when its waker has blocked");
        policy(0, SCHED_OTHER, 0);
        kill_child(pids[0]);
        close(wake[0]), close(wake[1]);
    }

    told->signals = 0;
    pids[0] = fork();
    if (pids[0] == 0) {
        signal(SIGXCPU, count_signal);
        promise_to(0, OVERRUN, 2 * MS, 10 * MS, 10 * MS);
        check(has(OVERRUN, 2 * MS, 10 * MS, 10 * MS), "to be told of each end of the budget");
        for (;;)
            ;
    }
    pause_for(1);
    kill_child(pids[0]);
    tap_count++;
    check(told->signals > 90 && told->signals < 110, "SIGXCPU says so");
    printf("# %ld signals\n", told->signals);
}

static const struct group groups[] = {
    {"terms", terms}, {"room", room}, {"rest", rest}, {"waits", waits}, {"times", times}};

int main(int argc, char **argv)
{
    told = mmap(0, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run_groups(GROUPS(groups), "times", argc, argv);
    return done();
}
