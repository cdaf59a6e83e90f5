/* Checks epoll instances as Linux has them: levels, edges, one shot, nests, closed descriptors, sleepers;
 * passes on Linux and must pass here.
 *
 * Interface: epolls [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void add(int set, int fd, unsigned events, int word)
{
    struct epoll_event event = {.events = events, .data.fd = word};
    equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0, "ADD");
}

static int change(int set, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(set, EPOLL_CTL_MOD, fd, &event);
}

/* How many are ready now, and the word of the first. */
static int first;
static int ready(int set)
{
    struct epoll_event got[8];
    int count = epoll_wait(set, got, 8, 0);
    first = count > 0 ? got[0].data.fd : -1;
    return count;
}

/* The same by the call that takes its time from memory. */
static int ready_by_pwait2(int set)
{
    struct epoll_event got[8];
    struct timespec none = {0, 0};
    int count = syscall(441, set, got, 8, &none, 0, 8);
    first = count > 0 ? got[0].data.fd : -1;
    return count;
}

static void edges(void)
{
    int a[2], set = epoll_create1(0);
    char c;
    pipe(a);
    write(a[1], "x", 1);
    add(set, a[0], EPOLLIN | EPOLLET, a[0]);
    equal(ready(set), 1, "an edge: what is there when it is added");
    equal(ready(set), 0, "is told once");
    write(a[1], "y", 1);
    equal(ready(set), 1, "more is told again, with nothing read");
    equal(ready(set), 0, "once");
    for (int i = 0; i < 3; i++) {
        write(a[1], "y", 1);
        equal(ready(set) == 1 && ready(set) == 0, 1, "and each time");
        read(a[0], &c, 1);
    }
    read(a[0], &c, 1), read(a[0], &c, 1);
    equal(ready(set), 0, "reading is no edge");
    equal(change(set, a[0], EPOLLIN | EPOLLET), 0, "MOD");
    equal(ready(set), 0, "of what is empty");
    write(a[1], "z", 1);
    equal(change(set, a[0], EPOLLIN | EPOLLET) == 0 && ready(set) == 1, 1, "MOD tells of what is there");
    equal(change(set, a[0], EPOLLIN | EPOLLET) == 0 && ready(set) == 1, 1, "at each MOD");
    close(a[1]);
    equal(ready(set), 1, "the end is an edge");
    equal(ready(set), 0, "and told once");
    close(a[0]), close(set);
    int s[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    set = epoll_create1(0);
    add(set, s[0], EPOLLIN | EPOLLET, s[0]);
    equal(change(set, s[0], EPOLLIN | EPOLLOUT | EPOLLET) == 0 && ready(set) == 1, 1,
          "a wider wish is told of room");
    equal(ready(set), 0, "once");
    write(s[1], "x", 1);
    equal(ready(set) == 1 && ready(set) == 0, 1, "and of what comes");
    equal(change(set, s[0], EPOLLIN | EPOLLET) == 0 && ready(set) == 1, 1, "a narrower one of what is there");
    write(s[0], "y", 1), read(s[1], &c, 1);
    equal(ready(set), 0, "and not of room");
    write(s[1], "x", 1);
    equal(ready(set) == 1 && ready(set) == 0, 1, "but of more");
    close(s[0]), close(s[1]), close(set);
}

/* An event on the other side of a file is no edge; that it ends is told of whatever was asked for. */
static void sides(void)
{
    int s[2], a[2], set = epoll_create1(0);
    char c;
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    write(s[1], "x", 1);
    add(set, s[0], EPOLLIN | EPOLLET, 1);
    equal(ready(set) == 1 && ready(set) == 0, 1, "a socket that has something");
    for (int i = 0; i < 3; i++) {
        write(s[0], "y", 1);
        read(s[1], &c, 1);
        equal(ready(set), 0, "is not told of room");
    }
    close(set);
    set = epoll_create1(0);
    add(set, s[0], EPOLLOUT | EPOLLET, 2);
    equal(ready(set) == 1 && ready(set) == 0, 1, "a socket that has room");
    for (int i = 0; i < 3; i++) {
        write(s[1], "y", 1);
        equal(ready(set), 0, "is not told of what comes");
    }
    add(set, s[1], 0, 3);
    equal(ready(set), 0, "one that asks for nothing has nothing");
    close(s[0]);
    equal(ready(set) == 1 && first == 3, 1, "until the other end goes");
    close(s[1]), close(set);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    set = epoll_create1(0);
    add(set, s[0], EPOLLOUT | EPOLLET, 4);
    equal(ready(set) == 1 && ready(set) == 0, 1, "one that asks for room");
    close(s[1]);
    struct epoll_event got;
    equal(epoll_wait(set, &got, 1, 0) == 1 && got.events == (EPOLLOUT | EPOLLHUP), 1, "is told of the end");
    close(s[0]), close(set);
    for (int end = 0; end < 2; end++) {
        pipe(a);
        set = epoll_create1(0);
        add(set, a[end], 0, 5);
        equal(ready(set), 0, "an end of a pipe that asks for nothing");
        close(a[!end]);
        equal(epoll_wait(set, &got, 1, 0) == 1 && got.events == (end ? EPOLLERR : EPOLLHUP), 1,
              "is told that the other has gone");
        close(a[end]), close(set);
    }
    int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
    equal(grantpt(master) == 0 && unlockpt(master) == 0, 1, "a terminal");
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    set = epoll_create1(0);
    add(set, master, 0, 6), add(set, slave, 0, 7);
    equal(ready(set), 0, "of which both sides ask for nothing");
    close(slave);
    equal(ready(set) == 1 && first == 6, 1, "its master is told that the other has gone");
    close(master), close(set);
}

static void shots_by(int (*look)(int))
{
    int a[2], set = epoll_create1(0);
    pipe(a);
    add(set, a[0], EPOLLIN | EPOLLONESHOT, a[0]);
    write(a[1], "x", 1);
    equal(look(set), 1, "one shot");
    equal(look(set), 0, "is all");
    write(a[1], "x", 1);
    equal(look(set), 0, "and no other");
    close(a[1]);
    equal(look(set), 0, "not even the end");
    equal(change(set, a[0], EPOLLIN | EPOLLONESHOT | EPOLLET) == 0 && look(set) == 1, 1, "until MOD");
    equal(look(set), 0, "once more");
    close(a[0]), close(set);
}

static void shots(void)
{
    shots_by(ready);
    shots_by(ready_by_pwait2);
}

/* With room for one event, each of several that are always ready has its turn, with a mask and without. */
static void turns(void)
{
    int set = epoll_create1(0), pipes[4][2];
    sigset_t none;
    sigemptyset(&none);
    for (int i = 0; i < 4; i++)
        pipe(pipes[i]), add(set, pipes[i][1], EPOLLOUT, i);
    for (int masked = 0; masked < 2; masked++) {
        int seen[4] = {0}, beyond = 0;
        for (int i = 0; i < 40; i++) {
            struct epoll_event got[4] = {{.events = -1}, {.events = -1}, {.events = -1}, {.events = -1}};
            int count = masked ? epoll_pwait(set, got, 1, 0, &none) : epoll_wait(set, got, 1, 0);
            if (count == 1)
                seen[got[0].data.fd & 3]++;
            for (int at = 1; at < 4; at++)
                beyond += got[at].events != (uint32_t)-1;
        }
        equal(seen[0] == 10 && seen[1] == 10 && seen[2] == 10 && seen[3] == 10, 1, "levels take turns");
        equal(beyond, 0, "and nothing is written behind the last that there is room for");
    }
    for (int i = 0; i < 4; i++)
        close(pipes[i][0]), close(pipes[i][1]);
    equal(ready(set), 0, "with all closed nothing is ready");
    close(set);
}

static void rules(void)
{
    int a[2], set = epoll_create1(0), other = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT};
    pipe(a);
    fails(epoll_ctl(set, EPOLL_CTL_ADD, a[0], &event), EINVAL, "EPOLLEXCLUSIVE and EPOLLONESHOT");
    event.events = EPOLLIN | EPOLLEXCLUSIVE;
    fails(epoll_ctl(set, EPOLL_CTL_ADD, other, &event), EINVAL, "EPOLLEXCLUSIVE of an instance");
    equal(epoll_ctl(set, EPOLL_CTL_ADD, a[0], &event), 0, "EPOLLEXCLUSIVE");
    fails(change(set, a[0], EPOLLIN), EINVAL, "MOD of it");
    write(a[1], "x", 1);
    equal(ready(set), 1, "it tells like others");
    equal(epoll_ctl(set, EPOLL_CTL_DEL, a[0], 0), 0, "DEL");
    add(set, a[0], EPOLLIN, 1);
    fails(change(set, a[0], EPOLLIN | EPOLLEXCLUSIVE), EINVAL, "MOD to EPOLLEXCLUSIVE");
    fails(epoll_ctl(set, EPOLL_CTL_ADD, a[1], (void *)8), EFAULT, "an event nowhere");
    fails(epoll_ctl(set, EPOLL_CTL_MOD, 999, (void *)8), EFAULT, "which is seen first");
    int null = open("/dev/null", O_RDWR), here = open("/", O_RDONLY | O_DIRECTORY);
    fails(epoll_ctl(set, EPOLL_CTL_ADD, null, &event), EPERM, "/dev/null cannot be waited for");
    fails(epoll_ctl(set, EPOLL_CTL_ADD, here, &event), EPERM, "nor a directory");
    fails(epoll_ctl(null, EPOLL_CTL_ADD, a[1], &event), EINVAL, "nor is it a set");
    close(null), close(here);
    struct epoll_event got[2];
    fails(syscall(SYS_epoll_wait, set, 8, 1, 0), EFAULT, "events to nowhere");
    equal(ready(set), 1, "and nothing is lost by it");
    struct timespec none = {0, 0}, wrong = {0, 1000000000};
    equal(syscall(441, set, got, 2, &none, 0, 8), 1, "epoll_pwait2");
    fails(syscall(441, set, got, 2, &wrong, 0, 8), EINVAL, "with a wrong time");
    /* The set knows numbers, and files. */
    int twin = dup(a[0]);
    add(set, twin, EPOLLIN, 2);
    equal(ready(set), 2, "two numbers of one file");
    close(a[0]);
    equal(ready(set), 2, "and still both, while the file is open");
    close(twin);
    equal(ready(set), 0, "then none");
    close(a[1]), close(set), close(other);
}

static void nests(void)
{
    int a[2], inner = epoll_create1(0), outer = epoll_create1(0);
    char c;
    pipe(a);
    add(inner, a[0], EPOLLIN, 7);
    add(outer, inner, EPOLLIN, 8);
    equal(ready(outer), 0, "nothing inside");
    write(a[1], "x", 1);
    equal(ready(outer) == 1 && first == 8, 1, "an instance is ready when one in it is");
    struct pollfd p = {outer, POLLIN, 0};
    equal(poll(&p, 1, 0) == 1 && p.revents == POLLIN, 1, "and can be polled");
    read(a[0], &c, 1);
    equal(ready(outer), 0, "and is not any more when that is not");
    equal(poll(&p, 1, 0), 0, "nor by poll");
    struct epoll_event event = {.events = EPOLLIN};
    fails(epoll_ctl(inner, EPOLL_CTL_ADD, outer, &event), ELOOP, "no circle");
    fails(epoll_ctl(outer, EPOLL_CTL_ADD, outer, &event), EINVAL, "not itself");
    equal(epoll_ctl(outer, EPOLL_CTL_DEL, inner, 0), 0, "DEL");
    equal(epoll_ctl(inner, EPOLL_CTL_ADD, outer, &event), 0, "then the other way");
    close(inner), close(outer);
    int tower[7];
    tower[0] = epoll_create1(0);
    add(tower[0], a[0], EPOLLIN, 0);
    int height = 1;
    for (; height < 7; height++) {
        tower[height] = epoll_create1(0);
        if (epoll_ctl(tower[height], EPOLL_CTL_ADD, tower[height - 1], &event))
            break;
    }
    equal(height, 5, "five high");
    write(a[1], "x", 1);
    equal(ready(tower[4]), 1, "and told of at the top");
    for (int i = 0; i <= height && i < 7; i++)
        close(tower[i]);
    int high[3], low[3];
    for (int i = 0; i < 3; i++) {
        high[i] = epoll_create1(0), low[i] = epoll_create1(0);
        if (i > 0)
            add(high[i], high[i - 1], EPOLLIN, i), add(low[i], low[i - 1], EPOLLIN, i);
    }
    fails(epoll_ctl(high[0], EPOLL_CTL_ADD, low[2], &event), ELOOP,
          "nor higher when it is put together in the middle");
    equal(epoll_ctl(high[0], EPOLL_CTL_ADD, low[1], &event), 0, "just so high");
    for (int i = 0; i < 3; i++)
        close(high[i]), close(low[i]);
    close(a[0]), close(a[1]);
}

/* --- sleepers --- */

static int set, in[2];
static atomic_int sleeping, told, ended, ids[2];

static void *sleeper(void *way)
{
    struct epoll_event got[4];
    ids[sleeping++ & 1] = syscall(SYS_gettid);
    int count = epoll_wait(set, got, 4, way ? 60000 : 1000);
    told += count;
    ended++;
    return 0;
}

static void one_of_two(void)
{
    pthread_t threads[2];
    set = epoll_create1(0);
    pipe(in);
    add(set, in[0], EPOLLIN | EPOLLET, 1);
    sleeping = told = ended = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, sleeper, 0);
    while (sleeping < 2)
        usleep(100);
    write(in[1], "x", 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    equal(told, 1, "one edge is told to one of two sleepers");
    close(in[0]), close(in[1]), close(set);
}

static void both(void)
{
    pthread_t threads[2];
    set = epoll_create1(0);
    pipe(in);
    add(set, in[0], EPOLLIN, 1);
    sleeping = told = ended = ids[0] = ids[1] = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, sleeper, &set);
    for (int i = 0; i < 2; i++)
        while (!ids[i] || !thread_sleeps(ids[i]))
            usleep(100);
    double before = seconds();
    write(in[1], "x", 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    equal(told, 2, "a level that stays is told to both");
    equal(seconds() - before < 30, 1, "before their time is over");
    close(in[0]), close(in[1]), close(set);
}

/* The sleeper has most probably gone to sleep 20 ms after it says that it will; what is expected holds in
 * any case. */
static void late(void)
{
    pthread_t thread;
    int later[2];
    set = epoll_create1(0);
    pipe(in), pipe(later);
    add(set, in[0], EPOLLIN, 1);
    sleeping = told = ended = 0;
    pthread_create(&thread, 0, sleeper, &set);
    while (!sleeping)
        usleep(100);
    usleep(20000);
    add(set, later[1], EPOLLOUT, 2);
    pthread_join(thread, 0);
    equal(told, 1, "what is added while one sleeps wakes it");
    equal(change(set, later[1], EPOLLIN), 0, "MOD to what it never is");
    sleeping = told = 0;
    pthread_create(&thread, 0, sleeper, &set);
    while (!sleeping)
        usleep(100);
    usleep(20000);
    change(set, later[1], EPOLLOUT);
    pthread_join(thread, 0);
    equal(told, 1, "as does what is changed");
    close(later[0]), close(later[1]);
    /* A file that is closed while one sleeps is closed. */
    sleeping = told = ended = 0;
    pthread_create(&thread, 0, sleeper, &set);
    while (!sleeping)
        usleep(100);
    usleep(20000);
    int end[2];
    pipe(end);
    add(set, end[1], EPOLLERR, 3);
    close(end[1]);
    struct pollfd p = {end[0], POLLIN, 0};
    equal(poll(&p, 1, 60000) == 1 && p.revents == POLLHUP && !ended, 1, "a sleeper keeps no pipe open");
    int number = end[1];
    close(end[0]);
    pipe(end);
    equal(end[0] == number || end[1] == number, 1, "a number is used again");
    add(set, number, EPOLLIN | EPOLLERR, 4);
    write(in[1], "x", 1);
    pthread_join(thread, 0);
    equal(told, 1, "the sleeper has slept on until there was something");
    close(end[0]), close(end[1]);
    close(in[0]), close(in[1]), close(set);
}

static void *lives(void *until)
{
    char c;
    read(*(int *)until, &c, 1);
    return 0;
}

/* A closed file is not told of, from the close on, in a process of two threads. */
static void closed(void)
{
    pthread_t thread;
    int a[2], until[2], told_of = 0;
    pipe(until);
    pthread_create(&thread, 0, lives, &until[0]);
    int one = epoll_create1(0);
    for (int i = 0; i < 300; i++) {
        struct epoll_event event = {.events = EPOLLOUT};
        pipe(a);
        epoll_ctl(one, EPOLL_CTL_ADD, a[1], &event);
        close(a[1]);
        told_of += ready(one);
        close(a[0]);
    }
    equal(told_of, 0, "nothing that was closed is told of");
    close(until[1]);
    pthread_join(thread, 0);
    close(until[0]), close(one);
}

/* One process writes while another reports: nothing is lost, by edges. */
static void stream(int edge)
{
    enum { PIPES = 8, ROUNDS = 400 };
    int pipes[PIPES][2], here = epoll_create1(0), read_in = 0, wrong = 0;
    for (int i = 0; i < PIPES; i++) {
        pipe2(pipes[i], O_NONBLOCK);
        add(here, pipes[i][0], EPOLLIN | (edge ? EPOLLET : 0), i);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int round = 0; round < ROUNDS; round++)
            for (int i = 0; i < PIPES; i++)
                while (write(pipes[i][1], "12345678", 8) != 8)
                    usleep(100);
        _exit(0);
    }
    while (read_in < PIPES * ROUNDS * 8) {
        struct epoll_event got[3];
        int count = epoll_wait(here, got, 3, 10000);
        if (count <= 0) {
            wrong = 1;
            break;
        }
        for (int i = 0; i < count; i++) {
            char bytes[64];
            ssize_t some;
            do {
                some = read(pipes[got[i].data.fd][0], bytes, sizeof bytes);
                if (some > 0)
                    read_in += some;
            } while (edge && some > 0);
        }
    }
    equal(!wrong && read_in == PIPES * ROUNDS * 8, 1, edge ? "a stream by edges" : "a stream by levels");
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    for (int i = 0; i < PIPES; i++)
        close(pipes[i][0]), close(pipes[i][1]);
    close(here);
}

static void streams(void)
{
    stream(0);
    stream(1);
}

/* A set that is made, filled and closed again and again beside a file that stays leaves nothing there. */
static void churn(void)
{
    int a[2];
    pipe(a);
    for (int i = 0; i < 3000; i++) {
        int one = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        epoll_ctl(one, EPOLL_CTL_ADD, a[0], &event);
        if (i & 1)
            epoll_ctl(one, EPOLL_CTL_DEL, a[0], 0);
        close(one);
    }
    int one = epoll_create1(0);
    add(one, a[0], EPOLLIN, 1);
    write(a[1], "x", 1);
    equal(ready(one), 1, "after 3000 other sets");
    close(one), close(a[0]), close(a[1]);
}

int main(int argc, char **argv)
{
    static const struct group all[] = {
        {"edges", edges}, {"sides", sides},   {"shots", shots},           {"turns", turns},
        {"rules", rules}, {"nests", nests},   {"one_of_two", one_of_two}, {"both", both},
        {"late", late},   {"closed", closed}, {"streams", streams},       {"churn", churn},
    };
    signal(SIGPIPE, SIG_IGN);
    run_groups(GROUPS(all), 0, argc, argv);
    return done();
}
