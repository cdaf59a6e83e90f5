/* Where and before whom a thread runs: affinity, real-time policies.
 *
 * Interface: policies [GROUP...] runs all groups but `shares`, or those named; TAP on standard output. Passes
 * on Linux too. Groups of affinity have little to say on a machine with one processor; they pass there.
 * Real-time groups want user 0, and `shares` a machine whose processors all run.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Shared between parent and children. */
static volatile struct {
    int cpu;
    long seen[8];
    long turns;
    int order[16];
    int count;
} *told;

static int processors(void) { return sysconf(_SC_NPROCESSORS_ONLN); }

static int allow(pid_t pid, unsigned mask)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < 8; i++)
        if (mask >> i & 1)
            CPU_SET(i, &set);
    return sched_setaffinity(pid, sizeof set, &set);
}

/* The running thread goes where it may run, before the call returns, and stays. */
static void self(void)
{
    int right = 1, stays = 1;
    for (int round = 0; round < 3; round++)
        for (int cpu = 0; cpu < processors(); cpu++) {
            right &= allow(0, 1u << cpu) == 0 && sched_getcpu() == cpu;
            double until = seconds() + 0.01;
            while (seconds() < until)
                stays &= sched_getcpu() == cpu;
            sched_yield();
            stays &= sched_getcpu() == cpu;
            pause_for(0.001);
            stays &= sched_getcpu() == cpu;
        }
    allow(0, 0xff);
    check(right, "a thread runs where it may, at once");
    check(stays, "and stays there");
    errno = 0;
    check(allow(0, 0) == -1 && errno == EINVAL, "it must run somewhere");
    if (processors() < 8) {
        errno = 0;
        check(allow(0, 1u << 7) == -1 && errno == EINVAL, "on a processor that there is");
    }
}

static pid_t spinner(void)
{
    told->cpu = -1;
    pid_t pid = fork();
    if (pid == 0)
        for (;;) {
            int cpu = sched_getcpu();
            told->cpu = cpu;
            told->seen[cpu & 7]++;
        }
    return pid;
}

/* Whether the spinner comes to `cpu` within five seconds. */
static int comes(int cpu)
{
    for (double until = seconds() + 5; seconds() < until;) {
        if (told->cpu == cpu)
            return 1;
        pause_for(0.001);
    }
    return 0;
}

/* Another thread, which computes. */
static void other(void)
{
    int come = 1, stay = 1;
    pid_t pid = spinner();
    for (int cpu = processors() - 1; cpu >= 0; cpu--) {
        allow(pid, 1u << cpu);
        come &= comes(cpu);
        long before[8], elsewhere = 0;
        memcpy(before, (void *)told->seen, sizeof before);
        pause_for(0.03);
        for (int i = 0; i < 8; i++)
            elsewhere += i == cpu ? 0 : told->seen[i] - before[i];
        stay &= elsewhere == 0;
    }
    kill_child(pid);
    check(come, "a thread that computes goes where it is sent");
    check(stay, "and stays there");
}

/* Two that compute on one processor share it, though others are idle. */
static void company(void)
{
    int cpu = processors() - 1;
    pid_t pids[2] = {spinner(), spinner()};
    allow(pids[0], 1u << cpu), allow(pids[1], 1u << cpu);
    pause_for(0.05);
    double began = seconds(), before[2] = {used_by(pids[0]), used_by(pids[1])};
    pause_for(0.4);
    double all = seconds() - began, share[2];
    for (int i = 0; i < 2; i++)
        share[i] = (used_by(pids[i]) - before[i]) / all;
    printf("# %.3f %.3f\n", share[0], share[1]);
    kill_child(pids[0]), kill_child(pids[1]);
    check(share[0] + share[1] < 1.1, "two on one processor have no more than that");
    check(share[0] < 2 * share[1] && share[1] < 2 * share[0], "and share it");
}

static void *here(void *cpu)
{
    *(int *)cpu = sched_getcpu();
    return 0;
}

/* Children and threads begin where their creator may run; so does a program after exec. */
static void inherited(void)
{
    int cpu = processors() - 1, right = 1;
    allow(0, 1u << cpu);
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int first = sched_getcpu();
            pause_for(0.002);
            cpu_set_t set;
            sched_getaffinity(0, sizeof set, &set);
            _exit(first == cpu && sched_getcpu() == cpu && CPU_COUNT(&set) == 1 ? 0 : 1);
        }
        int status = 1;
        waitpid(pid, &status, 0);
        right &= status == 0;
        pthread_t thread;
        int found = -1;
        pthread_create(&thread, 0, here, &found);
        pthread_join(thread, 0);
        right &= found == cpu;
    }
    check(right, "children and threads run where their creator may");
    char line[200] = "", want[40];
    int fd = open("/proc/self/status", O_RDONLY);
    static char text[8192];
    read(fd, text, sizeof text - 1);
    close(fd);
    char *at = strstr(text, "Cpus_allowed_list:");
    if (at)
        sscanf(at, "Cpus_allowed_list:%199s", line);
    snprintf(want, sizeof want, "%d", cpu);
    check(strcmp(line, want) == 0, "/proc says so");
    allow(0, 0xff);
}

/* A sleeping thread wakes where it may run. */
static void asleep(void)
{
    int ask[2], right = 1;
    check(pipe(ask) == 0, "a pipe");
    told->cpu = -1;
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        while (read(ask[0], &byte, 1) == 1)
            told->cpu = sched_getcpu();
        _exit(0);
    }
    for (int i = 0; i < 20; i++) {
        int cpu = i % processors();
        pause_for(0.002);
        allow(pid, 1u << cpu);
        told->cpu = -1;
        write(ask[1], "", 1);
        for (double until = seconds() + 5; told->cpu < 0 && seconds() < until;)
            sched_yield();
        right &= told->cpu == cpu;
    }
    close(ask[0]);
    kill_child(pid);
    close(ask[1]);
    check(right, "a sleeping thread wakes where it may run");
}

/* Threads that are sent about while they work lose nothing. */
static void *worker(void *sum)
{
    for (int i = 0; i < 200; i++) {
        for (volatile int turn = 0; turn < 2000; turn++)
            ;
        (*(long *)sum)++;
        sched_yield();
    }
    return 0;
}

static void about(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    long sums[THREADS] = {0}, all = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, worker, &sums[i]);
    unsigned seed = 1;
    for (int i = 0; i < 200; i++) {
        cpu_set_t set;
        seed = seed * 1103515245 + 12345;
        CPU_ZERO(&set);
        CPU_SET(seed >> 16 & (processors() - 1), &set);
        CPU_SET(seed >> 20 & (processors() - 1), &set);
        pthread_setaffinity_np(threads[i % THREADS], sizeof set, &set);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0), all += sums[i];
    check(all == 200 * THREADS, "threads that are sent about finish");
}

static int policy(pid_t pid, int kind, int priority)
{
    struct sched_param param = {priority};
    return sched_setscheduler(pid, kind, &param);
}

/* The shares of `seconds` that two hogs with these policies get on one processor. */
static void two(int first, int first_priority, int second, int second_priority, double seconds_,
                double *share)
{
    pid_t pids[2];
    double before[2], began;
    for (int i = 0; i < 2; i++) {
        pids[i] = spinner();
        policy(pids[i], i ? second : first, i ? second_priority : first_priority);
    }
    pause_for(0.1);
    for (int i = 0; i < 2; i++)
        before[i] = used_by(pids[i]);
    began = seconds();
    pause_for(seconds_);
    for (int i = 0; i < 2; i++)
        share[i] = used_by(pids[i]) - before[i];
    double all = seconds() - began;
    /* The one that has nothing could not end before the other. */
    kill(pids[0], SIGKILL), kill(pids[1], SIGKILL);
    waitpid(pids[0], 0, 0), waitpid(pids[1], 0, 0);
    share[0] /= all, share[1] /= all;
    printf("# %.3f %.3f\n", share[0], share[1]);
}

/* The groups of policies: on one processor, before all others. */
static void alone_first(void)
{
    allow(0, 1);
    check(policy(0, SCHED_FIFO | SCHED_RESET_ON_FORK, 90) == 0, "a real-time policy");
}

/* Fields 18, 40 and 41 of /proc/PID/stat. */
static void shown(void)
{
    alone_first();
    long value[42];
    numbers_in_stat(value, 42);
    check(value[18] == -91 && value[40] == 90 && value[41] == SCHED_FIFO, "/proc says which");
    policy(0, SCHED_OTHER, 0);
    allow(0, 0xff);
}

static void usual(void)
{
    policy(0, SCHED_OTHER, 0);
    allow(0, 0xff);
}

static void shares(void)
{
    double share[2];
    alone_first();
    two(SCHED_FIFO, 10, SCHED_OTHER, 0, 2, share);
    check(share[0] > 0.85 && share[1] > 0.01 && share[1] < 0.1,
          "a thread with a real-time policy runs before others, which are not forgotten");
    two(SCHED_FIFO, 10, SCHED_FIFO, 11, 1, share);
    check(share[1] > 0.85 && share[0] < 0.05, "the one with the higher priority before the other");
    two(SCHED_RR, 10, SCHED_RR, 10, 2, share);
    check(share[0] > 0.3 && share[1] > 0.3, "of two with the same, which take turns, each has half");
    two(SCHED_FIFO, 10, SCHED_FIFO, 10, 1, share);
    check(share[0] < 0.05 || share[1] < 0.05, "of two that do not, one has all");
    two(SCHED_OTHER, 0, SCHED_IDLE, 0, 1, share);
    check(share[0] > 0.85 && share[1] < 0.1, "an idle one only the rest");
    usual();
}

static int wake[2];

static void note(int who)
{
    int at = told->count;
    told->order[at & 15] = who;
    told->count = at + 1;
}

static pid_t sleeper(int priority)
{
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        policy(0, SCHED_FIFO, priority);
        while (read(wake[0], &byte, 1) == 1)
            note(priority);
        _exit(0);
    }
    until_asleep(pid);
    return pid;
}

/* A thread that wakes a more urgent one gives way at once, to a less urgent one only when it blocks. */
static void wakes(void)
{
    alone_first();
    for (int round = 0; round < 2; round++) {
        int priority = round ? 95 : 20;
        check(pipe(wake) == 0, "a pipe");
        policy(0, SCHED_OTHER, 0);
        pid_t pid = sleeper(priority);
        policy(0, SCHED_FIFO | SCHED_RESET_ON_FORK, 90);
        told->count = 0;
        for (int i = 0; i < 3; i++) {
            note(90);
            write(wake[1], "", 1);
            note(1);
            for (double until = seconds() + 5; told->count < 3 * (i + 1) && seconds() < until;)
                pause_for(0.005);
        }
        int right = told->count == 9;
        for (int i = 0; i < 6; i += 3)
            right &= told->order[i] == 90 && told->order[i + 1] == (round ? priority : 1) &&
                     told->order[i + 2] == (round ? 1 : priority);
        check(right, round ? "a more urgent thread runs before its waker goes on"
                           : "a less urgent one when its waker has blocked");
        kill_child(pid);
        close(wake[0]), close(wake[1]);
    }
    usual();
}

/* A thread that is made more urgent runs at once; sched_yield gives the turn to the next of the same
 * priority. */
static void changes(void)
{
    alone_first();
    told->turns = 0;
    pid_t pid = fork();
    if (pid == 0) {
        while (told->turns++ < 1000000)
            ;
        _exit(0);
    }
    policy(pid, SCHED_FIFO, 95);
    check(told->turns > 1000000, "a thread that is made more urgent runs at once");
    waitpid(pid, 0, 0);
    told->turns = told->count = told->seen[0] = told->seen[1] = 0;
    pid_t two_[2];
    for (int i = 0; i < 2; i++) {
        two_[i] = fork();
        if (two_[i] == 0) {
            policy(0, SCHED_FIFO, 50);
            told->seen[i] = 1;
            while (told->turns == 0)
                sched_yield();
            for (int turn = 0; turn < 4; turn++) {
                note(i);
                sched_yield();
            }
            _exit(0);
        }
    }
    while (!told->seen[0] || !told->seen[1])
        pause_for(0.001);
    told->turns = 1;
    for (int i = 0; i < 2; i++)
        waitpid(two_[i], 0, 0);
    int right = told->count == 8;
    for (int i = 1; i < 8; i++)
        right &= told->order[i] != told->order[i - 1];
    check(right, "sched_yield gives the turn to the next of the same priority");
    usual();
}

/* A child with this policy that computes, and counts if it is urgent. */
static pid_t counter(int kind, int priority)
{
    pid_t pid = fork();
    if (pid == 0) {
        policy(0, kind, priority);
        for (;;)
            if (priority) {
                told->cpu = sched_getcpu();
                told->turns++;
            }
    }
    return pid;
}

/* Whether an urgent thread has counted on from `before` within a second in which this one computes. */
static int counts_on(long before)
{
    for (double until = seconds() + 1; seconds() < until;)
        if (told->turns != before)
            return 1;
    return 0;
}

/* No urgent thread waits behind another while a processor runs usual ones: neither one that is woken by an
 * urgent thread, which computes on, nor one that a more urgent thread has pushed aside. All processors are
 * busy. */
static void beside(void)
{
    pid_t hogs[8], pid;
    int woken = 1, pushed = 1, status, count = processors();
    if (count < 2) {
        check(1, "an urgent thread has nowhere else to go");
        return;
    }
    policy(0, SCHED_FIFO | SCHED_RESET_ON_FORK, 90);
    for (int i = 0; i < count; i++)
        hogs[i] = counter(SCHED_OTHER, 0);
    check(pipe(wake) == 0, "a pipe");
    told->turns = 0;
    pid = fork();
    if (pid == 0) {
        char byte;
        policy(0, SCHED_FIFO, 50);
        while (read(wake[0], &byte, 1) == 1)
            told->turns++;
        _exit(0);
    }
    for (int round = 0; round < 5 * count; round++) {
        int cpu = round % count;
        /* It sleeps where its waker is, and may leave. */
        long before = told->turns;
        allow(pid, 1u << cpu);
        write(wake[1], "", 1);
        while (told->turns == before)
            pause_for(0.001);
        until_asleep(pid);
        allow(pid, 0xff);
        pid_t waker = fork();
        if (waker == 0) {
            allow(0, 1u << cpu);
            policy(0, SCHED_FIFO, 50);
            before = told->turns;
            write(wake[1], "", 1);
            _exit(counts_on(before) ? 0 : 1);
        }
        status = 1;
        waitpid(waker, &status, 0);
        woken &= status == 0;
    }
    kill_child(pid);
    close(wake[0]), close(wake[1]);
    for (int round = 0; round < 10; round++) {
        told->cpu = -1;
        pid = counter(SCHED_FIFO, 50);
        while (told->cpu < 0)
            pause_for(0.001);
        pid_t other = fork();
        if (other == 0) {
            allow(0, 1u << told->cpu);
            policy(0, SCHED_FIFO, 60);
            _exit(counts_on(told->turns) ? 0 : 1);
        }
        status = 1;
        waitpid(other, &status, 0);
        pushed &= status == 0;
        kill_child(pid);
    }
    for (int i = 0; i < count; i++)
        kill_child(hogs[i]);
    usual();
    check(woken, "an urgent thread that is woken by one of its priority runs beside it");
    check(pushed, "one that a more urgent thread has pushed aside goes on elsewhere");
}

static const struct group groups[] = {
    {"self", self},     {"other", other},     {"company", company}, {"inherited", inherited},
    {"asleep", asleep}, {"about", about},     {"shown", shown},     {"shares", shares},
    {"wakes", wakes},   {"changes", changes}, {"beside", beside},
};

int main(int argc, char **argv)
{
    told = mmap(0, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    run_groups(GROUPS(groups), "shares", argc, argv);
    return done();
}
