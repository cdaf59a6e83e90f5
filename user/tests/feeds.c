/* CPU time follows data: what threads get beside each other that compute, move data, are nice, or cheat.
 *
 * Interface: feeds [GROUP...] runs all groups or those named; TAP on standard output. Each group compares the
 * CPU times of processes that run side by side on a machine with one processor, `several`, which runs only if
 * it is named, on one with four. Linux gives each the same, so that it fails `stream` there.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "loaded-stream.h"
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The CPU time of all of them together. */
static double used(const pid_t *pids, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += used_by(pids[i]);
    return sum;
}

static pid_t begin(void (*body)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    return pid;
}

static void end(const pid_t *pids, int count)
{
    for (int i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < count; i++)
        waitpid(pids[i], 0, 0);
}

/* The shares of `seconds` of CPU time that they use, after `first` seconds; the mean is 1. */
static void shares(const pid_t *pids, int count, double first, double seconds, double *share)
{
    double before[64];
    struct timespec tick = {0, 20000000};
    double began = used(pids, count);
    while (used(pids, count) < began + first)
        nanosleep(&tick, 0);
    for (int i = 0; i < count; i++)
        before[i] = used_by(pids[i]);
    began = used(pids, count);
    while (used(pids, count) < began + seconds)
        nanosleep(&tick, 0);
    double all = used(pids, count) - began;
    for (int i = 0; i < count; i++) {
        share[i] = (used_by(pids[i]) - before[i]) * count / all;
        printf("# %d: %.3f\n", i, share[i]);
    }
}

/* A consumer whose queue is full gets more than threads beside it that only compute; they still get
 * theirs. */
static void stream(void)
{
    double share[4];
    check(pipe(channel) == 0, "a pipe");
    pid_t pids[4] = {begin(consume), begin(produce), begin(spin), begin(spin)};
    close(channel[0]), close(channel[1]);
    shares(pids, 4, 0.2, 1.0, share);
    end(pids, 4);
    check(share[0] > 1.5 * share[2] && share[0] > 1.5 * share[3],
          "a consumer whose queue is full gets more time than others");
    check(share[1] < share[2], "its producer, whose queue is full too, no more than others");
    check(share[2] > 0.4 && share[3] > 0.4, "the others get theirs");
}

static int gate[2];
static void spin_later(void)
{
    char byte;
    if (read(gate[0], &byte, 1) == 1)
        spin();
}

/* A pipeline is alone, then two others begin to compute: 5 ms later its consumer has the share that it
 * keeps. */
static void step(void)
{
    struct timespec alone = {0, 60000000}, settling = {0, 5000000}, then = {0, 20000000};
    double before[4], share[4], sum = 0;
    check(pipe(channel) == 0 && pipe(gate) == 0, "pipes");
    pid_t pids[4] = {begin(consume), begin(produce), begin(spin_later), begin(spin_later)};
    close(channel[0]), close(channel[1]);
    nanosleep(&alone, 0);
    check(write(gate[1], "go", 2) == 2, "two others begin");
    nanosleep(&settling, 0);
    for (int i = 0; i < 4; i++)
        before[i] = used_by(pids[i]);
    nanosleep(&then, 0);
    for (int i = 0; i < 4; i++)
        sum += share[i] = used_by(pids[i]) - before[i];
    for (int i = 0; i < 4; i++)
        printf("# %d: %.3f\n", i, share[i] * 4 / sum);
    check(share[0] > 1.5 * share[2] && share[0] > 1.5 * share[3],
          "5 ms after a step of load a consumer has its share");
    check(share[2] > 0 && share[3] > 0, "beside the others");
    end(pids, 4);
    close(gate[0]), close(gate[1]);
}

static void niceness(void)
{
    double share[3];
    pid_t pids[3] = {begin(spin), begin(spin), begin(spin)};
    setpriority(PRIO_PROCESS, pids[1], 5);
    setpriority(PRIO_PROCESS, pids[2], 19);
    shares(pids, 3, 0.1, 0.6, share);
    check(share[1] < 0.6 * share[0], "a nice process gets less");
    check(share[2] < 0.6 * share[1], "a nicer one still less");
    check(share[2] > 0, "but some");
    setpriority(PRIO_PROCESS, pids[0], 19);
    setpriority(PRIO_PROCESS, pids[1], 19);
    shares(pids, 3, 0.1, 0.6, share);
    check(share[1] > 0.8 && share[1] < 1.2 && share[2] > 0.8 && share[2] < 1.2,
          "with the same niceness each gets the same");
    end(pids, 3);
}

/* Whether so many that compute get the same in `seconds`, but for such a part. */
static int alike(int count, double seconds, double but)
{
    pid_t pids[64];
    double share[64], least = 9, most = 0;
    for (int i = 0; i < count; i++)
        pids[i] = begin(spin);
    shares(pids, count, 0.5, seconds, share);
    end(pids, count);
    for (int i = 0; i < count; i++) {
        least = share[i] < least ? share[i] : least;
        most = share[i] > most ? share[i] : most;
    }
    printf("# least %.3f, most %.3f\n", least, most);
    return least > 1 - but && most < 1 + but;
}

static void equals(void) { check(alike(50, 3.0, 0.05), "fifty that compute get the same"); }

static void several(void)
{
    check(alike(20, 8.0, 0.2), "twenty on four processors get the same");
    check(alike(5, 16.0, 0.25), "five do, one more than the processors");
}

/* Cheats. */
static void feed_oneself(void)
{
    static char block[4096];
    for (;;) {
        if (write(channel[1], block, sizeof block) < 0 || read(channel[0], block, sizeof block) < 0)
            _exit(1);
        compute(1000);
    }
}

static void keep_full(void)
{
    close(channel[1]);
    spin();
}

static void sleep_for_a_tick(void)
{
    struct timespec tick = {0, 1};
    for (;;) {
        compute(10000);
        nanosleep(&tick, 0);
    }
}

static void fork_on(void)
{
    /* It ends, and its child goes on. */
    for (;;) {
        compute(20000);
        pid_t child = fork();
        if (child > 0)
            waitpid(child, 0, 0);
        else if (child == 0)
            _exit(0);
    }
}

/* The share of `cheat` and its children: what three processes beside it leave of the time. */
static double beside(const char *name, void (*cheat)(void))
{
    struct timespec first = {0, 200000000}, then = {0, 800000000};
    pid_t pids[4] = {begin(cheat), begin(spin), begin(spin), begin(spin)};
    nanosleep(&first, 0);
    double began = seconds(), before = used(pids + 1, 3);
    nanosleep(&then, 0);
    double passed = seconds() - began, share = (passed - used(pids + 1, 3) + before) * 4 / passed;
    printf("# %s: %.3f\n", name, share);
    end(pids, 4);
    return share;
}

static void cheats(void)
{
    static char block[4096];
    check(pipe(channel) == 0, "a pipe");
    check(beside("writes to itself", feed_oneself) < 1.2,
          "a process that writes to itself gets no more than its share");
    close(channel[0]), close(channel[1]);
    check(pipe(channel) == 0, "another");
    for (int i = 0; i < 16; i++)
        if (write(channel[1], block, sizeof block) != sizeof block)
            check(0, "filled");
    check(beside("has a full queue", keep_full) < 1.2, "nor one with a full queue that it does not read");
    close(channel[0]), close(channel[1]);
    check(beside("sleeps for a tick", sleep_for_a_tick) < 1.2, "nor one that sleeps for a tick");
    check(beside("forks", fork_on) < 1.2, "nor one that forks");
}

/* How often they have lost the CPU, all of them together. */
static long lost_by(const pid_t *pids, int count)
{
    long sum = 0;
    char path[64];
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "/proc/%d/status", pids[i]);
        sum += number_in(path, "nonvoluntary_ctxt_switches:");
    }
    return sum;
}

/* How often each of these processes loses the CPU in a second of its own time, while they use 0.3 seconds
 * each. */
static double turns(const pid_t *pids, int count)
{
    double began = used(pids, count);
    long before = lost_by(pids, count);
    while (used(pids, count) < began + 0.3 * count)
        pause_for(0.05);
    double each = (lost_by(pids, count) - before) / (used(pids, count) - began);
    printf("# %.0f turns a second\n", each);
    return each;
}

/* Threads that only compute have longer turns, but not beside others that short ones serve. */
static void grain(void)
{
    enum { MANY = 40 };
    pid_t two[2] = {begin(spin), begin(spin)}, many[MANY], stream[2], forks;
    pause_for(0.1);
    check(turns(two, 2) < 800, "two that compute have turns of several quanta");
    check(pipe(channel) == 0, "a pipe");
    stream[0] = begin(consume), stream[1] = begin(produce);
    close(channel[0]), close(channel[1]);
    pause_for(0.1);
    /* While the stream settles they have a longer one now and then. */
    check(turns(two, 2) > 1200, "of one beside a stream");
    end(stream, 2);
    pause_for(0.1);
    check(turns(two, 2) < 800, "of several when it has ended");
    forks = begin(fork_on);
    check(turns(two, 2) > 2000, "of one beside a process that forks");
    end(&forks, 1);
    for (int i = 0; i < MANY; i++)
        many[i] = begin(spin);
    pause_for(0.1);
    check(turns(two, 2) > 2000, "and of one among many");
    end(many, MANY);
    end(two, 2);
}

static const struct group groups[] = {
    {"stream", stream}, {"step", step},       {"niceness", niceness}, {"equals", equals},
    {"cheats", cheats}, {"several", several}, {"grain", grain},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), "several", argc, argv);
    return done();
}
