/* Checks who is told when several wait: EPOLLEXCLUSIVE instances of one file, threads in one instance; passes
 * on Linux and must pass here.
 *
 * Interface: epolls-many [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAITERS 4

static struct waiter {
    pthread_t thread;
    int set, told, missed;
    atomic_int tid, woken;
} waiters[WAITERS];

/* Where a waiter that has been told waits until it may go on. */
static pthread_barrier_t gate;

static void add(int set, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0, "ADD");
}

static int ctl(int set, int operation, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(set, operation, fd, &event);
}

/* How many are ready in a set now. */
static int ready(int set)
{
    struct epoll_event got[8];
    return epoll_wait(set, got, 8, 0);
}

/* Until the thread sleeps in a call, or is gone. */
static void sleeps(int tid)
{
    char path[64], line[512];
    for (;;) {
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        FILE *file = fopen(path, "r");
        char *state = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : 0;
        if (file)
            fclose(file);
        if (!state || state[2] == 'S')
            return;
        sched_yield();
    }
}

static void *waits_once(void *argument)
{
    struct waiter *waiter = argument;
    struct epoll_event got;
    waiter->tid = gettid();
    if (epoll_wait(waiter->set, &got, 1, -1) == 1)
        waiter->woken = 1;
    return 0;
}

static void begin(int i, int set, void *(*body)(void *))
{
    struct waiter *waiter = &waiters[i];
    waiter->set = set;
    waiter->tid = waiter->woken = 0;
    pthread_create(&waiter->thread, 0, body, waiter);
    while (!waiter->tid)
        sched_yield();
    sleeps(waiter->tid);
}

static int woken(void)
{
    int count = 0;
    for (int i = 0; i < WAITERS; i++)
        count += waiters[i].woken;
    return count;
}

/* Until so many are woken, and the others sleep. */
static void settled(int count)
{
    while (woken() < count)
        sched_yield();
    for (int i = 0; i < WAITERS; i++)
        if (!waiters[i].woken)
            sleeps(waiters[i].tid);
}

static void end(void)
{
    for (int i = 0; i < WAITERS; i++)
        pthread_join(waiters[i].thread, 0);
}

/* Four instances watch one counter, each with a thread: how many an event wakes. */
static void told(unsigned events, int at_first, const char *what)
{
    int counter = eventfd(0, 0), sets[WAITERS];
    uint64_t one = 1;
    for (int i = 0; i < WAITERS; i++) {
        sets[i] = epoll_create1(0);
        add(sets[i], counter, events);
        begin(i, sets[i], waits_once);
    }
    write(counter, &one, 8);
    settled(at_first);
    equal(woken(), at_first, what);
    while (woken() < WAITERS) {
        int before = woken();
        write(counter, &one, 8);
        settled(before + 1);
        equal(woken(), before + 1, "the next event another");
    }
    end();
    for (int i = 0; i < WAITERS; i++)
        close(sets[i]);
    close(counter);
}

static void exclusive(void)
{
    told(EPOLLIN, WAITERS, "an event wakes all who watch a file");
    told(EPOLLIN | EPOLLEXCLUSIVE, 1, "of those with EPOLLEXCLUSIVE one");
    told(EPOLLIN | EPOLLEXCLUSIVE | EPOLLET, 1, "by edges, too");
}

/* Those without are told in any case. */
static void mixed(void)
{
    int ends[2], sets[WAITERS];
    pipe(ends);
    for (int i = 0; i < WAITERS; i++) {
        sets[i] = epoll_create1(0);
        add(sets[i], ends[0], i < 2 ? EPOLLIN : EPOLLIN | EPOLLEXCLUSIVE);
        begin(i, sets[i], waits_once);
    }
    write(ends[1], "x", 1);
    settled(3);
    equal(woken(), 3, "two without EPOLLEXCLUSIVE and one with it");
    equal(waiters[0].woken && waiters[1].woken, 1, "are woken");
    write(ends[1], "x", 1);
    settled(4);
    equal(woken(), 4, "the other by the next byte, with none read");
    end();
    for (int i = 0; i < WAITERS; i++)
        close(sets[i]);
    close(ends[0]), close(ends[1]);
}

/* Where nobody sleeps the event is kept for whoever looks, and another is told as well. */
static void unattended(void)
{
    int counter = eventfd(0, 0), sets[WAITERS];
    uint64_t one = 1;
    for (int i = 0; i < WAITERS; i++) {
        sets[i] = epoll_create1(0);
        add(sets[i], counter, EPOLLIN | EPOLLET | EPOLLEXCLUSIVE);
    }
    write(counter, &one, 8);
    int all = 0;
    for (int i = 0; i < WAITERS; i++)
        all += ready(sets[i]);
    equal(all, WAITERS, "with no sleeper all are told");
    begin(0, sets[1], waits_once);
    write(counter, &one, 8);
    while (!waiters[0].woken)
        sched_yield();
    equal(waiters[0].woken, 1, "the one with a sleeper is told, whichever comes first");
    pthread_join(waiters[0].thread, 0);
    for (int i = 0; i < WAITERS; i++)
        close(sets[i]);
    close(counter);
}

static void refusals(void)
{
    int counter = eventfd(1, 0), set = epoll_create1(0), inner = epoll_create1(0);
    static const unsigned good[] = {EPOLLIN,  EPOLLOUT, EPOLLIN | EPOLLOUT, EPOLLERR,
                                    EPOLLHUP, EPOLLET,  EPOLLWAKEUP,        0};
    static const unsigned wrong[] = {EPOLLONESHOT, EPOLLPRI,    EPOLLRDHUP,        EPOLLRDNORM,
                                     EPOLLWRNORM,  EPOLLRDBAND, EPOLLIN | EPOLLMSG};
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        equal(ctl(set, EPOLL_CTL_ADD, counter, good[i] | EPOLLEXCLUSIVE), 0,
              "what may stand beside EPOLLEXCLUSIVE");
        fails(ctl(set, EPOLL_CTL_MOD, counter, good[i]), EINVAL, "it is not changed");
        fails(ctl(set, EPOLL_CTL_MOD, counter, good[i] | EPOLLEXCLUSIVE), EINVAL, "not even to itself");
        fails(ctl(set, EPOLL_CTL_ADD, counter, good[i] | EPOLLEXCLUSIVE), EEXIST, "nor added twice");
        equal(ctl(set, EPOLL_CTL_DEL, counter, 0), 0, "but removed");
    }
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        fails(ctl(set, EPOLL_CTL_ADD, counter, wrong[i] | EPOLLEXCLUSIVE), EINVAL, "what may not");
    add(set, counter, EPOLLIN);
    fails(ctl(set, EPOLL_CTL_MOD, counter, EPOLLIN | EPOLLEXCLUSIVE), EINVAL,
          "EPOLLEXCLUSIVE comes with ADD only");
    equal(ready(set), 1, "and what was there still is");
    fails(ctl(set, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLEXCLUSIVE), EINVAL, "an instance is not watched so");
    close(counter), close(set), close(inner);
}

static void *waits_at_gate(void *argument)
{
    struct waiter *waiter = argument;
    struct epoll_event got;
    waiter->tid = gettid();
    while (epoll_wait(waiter->set, &got, 1, -1) == 1) {
        uint64_t number;
        if (read(got.data.fd, &number, 8) != 8) {
            waiter->missed++;
            continue;
        }
        waiter->told++;
        waiter->woken = 1;
        pthread_barrier_wait(&gate);
        if (number > 1)
            break;
        waiter->woken = 0;
        pthread_barrier_wait(&gate);
    }
    return 0;
}

/* One event wakes one of those who wait in an instance, and while that is busy the next wakes another: in
 * each round everyone is told once. */
static void turns(void)
{
    int counter = eventfd(0, EFD_NONBLOCK), set = epoll_create1(0);
    uint64_t one = 1, last = 2;
    add(set, counter, EPOLLIN | EPOLLET);
    pthread_barrier_init(&gate, 0, WAITERS + 1);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i].told = waiters[i].missed = 0;
        begin(i, set, waits_at_gate);
    }
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < WAITERS; i++) {
            write(counter, round < 4 ? &one : &last, 8);
            while (woken() < i + 1)
                sched_yield();
        }
        pthread_barrier_wait(&gate);
        if (round == 4)
            break;
        pthread_barrier_wait(&gate);
        for (int i = 0; i < WAITERS; i++)
            sleeps(waiters[i].tid);
    }
    end();
    for (int i = 0; i < WAITERS; i++) {
        equal(waiters[i].told, 5, "everyone in each round");
        equal(waiters[i].missed, 0, "and nobody for nothing");
    }
    pthread_barrier_destroy(&gate);
    close(counter), close(set);
}

/* One shot stays silent until it is changed, whatever comes, and then tells of it. */
static void mute(void)
{
    int counter = eventfd(0, 0), set = epoll_create1(0);
    uint64_t one = 1;
    add(set, counter, EPOLLIN | EPOLLONESHOT);
    for (int i = 0; i < 3; i++) {
        write(counter, &one, 8);
        equal(ready(set), 1, "one shot");
        write(counter, &one, 8);
        write(counter, &one, 8);
        equal(ready(set), 0, "no other");
        equal(ctl(set, EPOLL_CTL_MOD, counter, EPOLLIN | EPOLLONESHOT), 0, "MOD");
        equal(ready(set), 1, "tells of what is there");
        read(counter, &one, 8), one = 1;
        equal(ctl(set, EPOLL_CTL_MOD, counter, EPOLLIN | EPOLLONESHOT), 0, "MOD of nothing");
        equal(ready(set), 0, "tells nothing");
    }
    close(counter), close(set);
}

/* Many that never have anything, and one that does; then all. */
static void many(void)
{
    enum { MANY = 900 };
    static int idle[MANY], odd[2 * MANY];
    int set = epoll_create1(0), count = 0, got;
    struct epoll_event events[64];
    uint64_t one = 1;
    for (int i = 0; i < MANY; i++) {
        idle[i] = eventfd(0, 0);
        if (idle[i] < 0 || ctl(set, EPOLL_CTL_ADD, idle[i], EPOLLIN | EPOLLET))
            break;
        odd[idle[i]] = i % 2;
        count++;
    }
    equal(count, MANY, "many are watched");
    write(idle[MANY / 2], &one, 8);
    equal(epoll_wait(set, events, 64, -1), 1, "one is told");
    equal(events[0].data.fd, idle[MANY / 2], "the right one");
    for (int i = 0; i < MANY; i += 2)
        equal(ctl(set, EPOLL_CTL_DEL, idle[i], 0), 0, "DEL of every other");
    for (int i = 0; i < MANY; i++)
        write(idle[i], &one, 8);
    count = 0;
    while ((got = epoll_wait(set, events, 64, 0)) > 0)
        for (int i = 0; i < got; i++)
            count += odd[events[i].data.fd];
    equal(count, MANY / 2, "the others are told once");
    for (int i = 0; i < MANY; i++)
        close(idle[i]);
    close(set);
}

/* Processor time that interests in what one counter tells take, EACH in each of `count` instances,
 * seconds. */
static double time_of_interests(int count)
{
    enum { EACH = 50 };
    static int sets[400], counters[EACH];
    struct timespec before, after;
    int added = 0;
    counters[0] = eventfd(0, 0);
    for (int i = 1; i < EACH; i++)
        counters[i] = dup(counters[0]);
    for (int i = 0; i < count; i++)
        sets[i] = epoll_create1(0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    for (int i = 0; i < count * EACH; i++)
        added += ctl(sets[i / EACH], EPOLL_CTL_ADD, counters[i % EACH], EPOLLIN) == 0;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    equal(added, count * EACH, "all are interested");
    for (int i = 0; i < count; i++)
        close(sets[i]);
    for (int i = 0; i < EACH; i++)
        close(counters[i]);
    return after.tv_sec - before.tv_sec + (after.tv_nsec - before.tv_nsec) / 1e9;
}

/* To come behind many costs what it costs to come behind few. */
static void crowd(void)
{
    enum { FEW = 8, TIMES = 40 };
    double few = 1e9, many = 1e9;
    /* The least of several: whatever else the host does takes its time from some of them. */
    for (int i = 0; i < 5; i++) {
        double one = time_of_interests(FEW), other = time_of_interests(TIMES * FEW);
        few = one < few ? one : few;
        many = other < many ? other : many;
    }
    printf("# %.1f ms, %d times as many: %.1f ms\n", few * 1e3, TIMES, many * 1e3);
    check(many < 4 * TIMES * few, "many interests in one thing take no longer each than few");
}

#define MEMBERS 64

static int members[MEMBERS], place;
static atomic_int over, looked, wrong;

/* A set of all members, which are ready. */
static int set_of_all(void)
{
    int set = epoll_create1(0);
    for (int i = 0; i < MEMBERS; i++)
        if (ctl(set, EPOLL_CTL_ADD, members[i], EPOLLIN) != 0)
            wrong++;
    return set;
}

static void *looks(void *timeout)
{
    struct epoll_event got[MEMBERS];
    while (!over) {
        int count = epoll_wait(place, got, MEMBERS, (int)(intptr_t)timeout);
        for (int i = 0; i < count; i++)
            wrong += got[i].events != EPOLLIN || got[i].data.fd < members[0] ||
                     got[i].data.fd > members[MEMBERS - 1];
        wrong += count <= 0;
        looked++;
    }
    return 0;
}

/* Something that can be read: of some kinds each one has code that says so, others are asked. */
static int readable(int kind)
{
    int ends[2] = {-1, -1};
    switch (kind % 4) {
    case 0:
        return eventfd(1, 0);
    case 1:
        ends[0] = epoll_create1(0);
        wrong += ctl(ends[0], EPOLL_CTL_ADD, members[0], EPOLLIN) != 0;
        return ends[0];
    case 2:
        ends[0] = inotify_init1(0);
        wrong += inotify_add_watch(ends[0], "/tmp", IN_DELETE_SELF | IN_ATTRIB) < 0;
        chmod("/tmp", 01777);
        return ends[0];
    default:
        socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
        wrong += write(ends[1], "x", 1) != 1;
        return ends[0];
    }
}

/* The last descriptor of a set goes while others look at its members. */
static void gone(void)
{
    for (int i = 0; i < MEMBERS; i++)
        members[i] = readable(i);
    place = set_of_all();
    pthread_t lookers[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&lookers[i], 0, looks, (void *)(intptr_t)(i - 1));
    for (int round = repeats(4000); round > 0 || looked < 100; round--) {
        int set = set_of_all();
        if (dup2(set, place) != place || close(set) != 0)
            wrong++;
    }
    over = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(lookers[i], 0);
    equal(wrong, 0, "sets go while their members are looked at");
    for (int i = 0; i < MEMBERS; i++)
        close(members[i]);
    close(place);
}

int main(int argc, char **argv)
{
    static const struct group all[] = {
        {"exclusive", exclusive}, {"mixed", mixed}, {"unattended", unattended},
        {"refusals", refusals},   {"turns", turns}, {"mute", mute},
        {"many", many},           {"crowd", crowd},           {"gone", gone},
    };
    run_groups(GROUPS(all), 0, argc, argv);
    return done();
}
