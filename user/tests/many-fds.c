/* Checks descriptor tables of thousands: numbers up to the limit, files of each kind by the ten thousand,
 * fork, exec and close_range of such; passes on Linux (as root) and must pass here.
 *
 * Interface: many-fds [GROUP...] runs all groups, or those named; TAP on standard output. `many count FIRST
 * LAST` prints how many descriptors are open there.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A Linux whose hard limit is lower takes smaller ones. */
#ifndef MOST
#define MOST (1 << 20)
#define COUNT 10000
#endif
#define MIDDLE (MOST / 2)
#define LOW (MOST / 16)

static const char *self;

static int limit(unsigned long soft)
{
    struct rlimit now;
    getrlimit(RLIMIT_NOFILE, &now);
    now.rlim_cur = soft;
    return setrlimit(RLIMIT_NOFILE, &now);
}

static void limits(void)
{
    struct rlimit now, more;
    char text[32] = "";
    int fd = open("/proc/sys/fs/nr_open", O_RDONLY);
    read(fd, text, sizeof text - 1);
    close(fd);
    equal(atol(text), MOST, "nr_open");
    getrlimit(RLIMIT_NOFILE, &now);
    equal(now.rlim_max, MOST, "the hard limit");
    more = (struct rlimit){1024, MOST + 1};
    fails(setrlimit(RLIMIT_NOFILE, &more), EPERM, "none is above nr_open");
    more.rlim_max = RLIM_INFINITY;
    fails(setrlimit(RLIMIT_NOFILE, &more), EPERM, "and none without end");
    more = (struct rlimit){2048, 1024};
    fails(setrlimit(RLIMIT_NOFILE, &more), EINVAL, "nor below itself");
    equal(limit(5000), 0, "5000");
    equal(dup2(0, 4999), 4999, "the last");
    fails(dup2(0, 5000), EBADF, "and one more");
    fails(fcntl(0, F_DUPFD, 5000), EINVAL, "from there");
    fails(fcntl(0, F_DUPFD, 4999), EMFILE, "none is free");
    equal(limit(4999), 0, "4999");
    equal(fcntl(4999, F_GETFD), 0, "what is above stays");
    fails(fcntl(0, F_DUPFD, 4999), EINVAL, "nothing more comes there");
    close(4999);
    equal(limit(MOST), 0, "all");
}

static void last(void)
{
    int fd[2];
    char c = 0;
    limit(MOST);
    pipe(fd);
    equal(dup2(fd[1], MOST - 1), MOST - 1, "the last of all");
    fails(dup2(fd[1], MOST), EBADF, "and one more");
    equal(write(MOST - 1, "x", 1), 1, "it writes");
    fails(read(MOST - 1, &c, 1), EBADF, "and does not read");
    equal(read(fd[0], &c, 1) == 1 && c == 'x', 1, "what arrives");
    fails(lseek(MOST - 1, 0, SEEK_SET), ESPIPE, "nor seeks");
    fails(write(MOST - 2, "x", 1), EBADF, "below it there is nothing");
    fails(write(MOST, "x", 1), EBADF, "above it neither");
    equal(fcntl(fd[0], F_DUPFD, MIDDLE), MIDDLE, "in the middle");
    equal(fcntl(fd[0], F_DUPFD, MIDDLE), MIDDLE + 1, "the next");
    equal(fcntl(fd[0], F_DUPFD, LOW), LOW, "below");
    int next = dup(0);
    equal(next == fd[1] + 1, 1, "the lowest is low");
    close(next);
    if (fork() == 0)
        _exit(write(MOST - 1, "y", 1) != 1 || fcntl(MIDDLE + 1, F_GETFD) != 0 ||
              fcntl(MIDDLE + 2, F_GETFD) != -1);
    equal(wait(&next) > 0 && next == 0, 1, "a child has them");
    equal(read(fd[0], &c, 1) == 1 && c == 'y', 1, "and wrote");
    struct pollfd wanted[] = {{MOST - 1, POLLOUT, 0}, {MOST - 2, POLLIN, 0}, {MIDDLE, POLLIN, 0}};
    equal(poll(wanted, 3, 0), 2, "poll");
    equal(wanted[0].revents == POLLOUT && wanted[1].revents == POLLNVAL && !wanted[2].revents, 1, "of such");
    static unsigned long set[MOST / 64 + 1];
    set[(MOST - 1) / 64] |= 1ul << (MOST - 1) % 64;
    set[MIDDLE / 64] |= 1ul << (MIDDLE) % 64;
    equal(syscall(SYS_select, MOST, NULL, set, NULL, &(struct timeval){0, 0}), 1,
          "select: the pipe's end that writes");
    equal(set[(MOST - 1) / 64] == 1ul << (MOST - 1) % 64 && !set[MIDDLE / 64], 1, "by its bit");
    equal(close_range(MIDDLE, MOST - 1, 0), 0, "close_range");
    fails(fcntl(MIDDLE + 1, F_GETFD), EBADF, "closes the middle");
    fails(write(MOST - 1, "x", 1), EBADF, "and the last");
    equal(fcntl(LOW, F_GETFD), 0, "and no other");
    close(LOW), close(fd[0]), close(fd[1]);
}

/* Opens COUNT descriptors by `make`, which gives two at a time or one. */
static int made[COUNT];

static int many(int (*make)(int *two))
{
    int count = 0, each;
    while (count < COUNT && (each = make(made + count)) > 0)
        count += each;
    return count;
}

static int make_counter(int *two)
{
    two[0] = eventfd(0, EFD_NONBLOCK);
    return two[0] < 0 ? -1 : 1;
}

static int make_pair(int *two) { return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, two) ? -1 : 2; }

static int make_pipe(int *two) { return pipe2(two, O_NONBLOCK) ? -1 : 2; }

static void close_many(int count)
{
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += close(made[i]) != 0;
    equal(wrong, 0, "all are closed");
}

static void counters(void)
{
    limit(MOST);
    int base = dup(0), wrong = 0;
    close(base);
    equal(many(make_counter), COUNT, "ten thousand eventfds");
    for (int i = 0; i < COUNT; i++)
        wrong += made[i] != base + i;
    equal(wrong, 0, "in order");
    for (int i = 0; i < COUNT; i++) {
        uint64_t value = i + 1;
        wrong += write(made[i], &value, 8) != 8;
    }
    for (int i = COUNT; i-- > 0;) {
        uint64_t value = 0;
        wrong += read(made[i], &value, 8) != 8 || value != (uint64_t)i + 1;
    }
    equal(wrong, 0, "each has its own");
    static struct pollfd wanted[COUNT];
    for (int i = 0; i < COUNT; i++)
        wanted[i] = (struct pollfd){made[i], POLLIN, 0};
    equal(poll(wanted, COUNT, 0), 0, "poll: none is ready");
    equal(poll(wanted, COUNT, 20), 0, "nor in a moment");
    uint64_t one = 1;
    write(made[COUNT - 2], &one, 8);
    equal(poll(wanted, COUNT, -1) == 1 && wanted[COUNT - 2].revents == POLLIN, 1, "then one");
    static unsigned long set[COUNT / 64 + 8], answer[COUNT / 64 + 8];
    for (int i = 0; i < COUNT; i++)
        set[made[i] / 64] |= 1ul << made[i] % 64;
    memcpy(answer, set, sizeof set);
    equal(syscall(SYS_select, made[COUNT - 1] + 1, answer, NULL, NULL, NULL), 1, "select: one");
    int bits = 0;
    for (size_t i = 0; i < sizeof answer / 8; i++)
        bits += __builtin_popcountl(answer[i]);
    equal(bits == 1 && answer[made[COUNT - 2] / 64] >> made[COUNT - 2] % 64 & 1, 1, "the same");
    int instance = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    for (int i = 0; i < COUNT; i++) {
        event.data.u32 = i;
        wrong += epoll_ctl(instance, EPOLL_CTL_ADD, made[i], &event) != 0;
    }
    equal(wrong, 0, "an instance that watches all");
    equal(epoll_wait(instance, &event, 1, -1) == 1 && event.data.u32 == COUNT - 2, 1, "tells of the one");
    pid_t child = fork();
    if (child == 0) {
        int bad = 0;
        for (int i = 0; i < COUNT; i++)
            bad += write(made[i], &one, 8) != 8;
        _exit(bad != 0);
    }
    equal(status_of(child), 0, "a child counts all of them up");
    struct epoll_event all[64];
    int seen = 0, got;
    while ((got = epoll_wait(instance, all, 64, 0)) > 0)
        for (int i = 0; i < got; i++) {
            uint64_t value;
            seen += read(made[all[i].data.u32], &value, 8) == 8;
        }
    equal(seen, COUNT, "and each is told once");
    close(instance);
    close_many(COUNT);
    int again = dup(0);
    equal(again, base, "the lowest is free again");
    close(again);
}

static void pairs(void)
{
    limit(MOST);
    int wrong = 0;
    equal(many(make_pair), COUNT, "ten thousand sockets");
    for (int i = 0; i < COUNT; i += 2)
        wrong += write(made[i], &i, sizeof i) != sizeof i;
    for (int i = 0; i < COUNT; i += 2) {
        int got = -1;
        wrong += read(made[i + 1], &got, sizeof got) != sizeof got || got != i;
    }
    equal(wrong, 0, "each pair has its own way");
    close_many(COUNT);
}

static void pipes(void)
{
    limit(MOST);
    int wrong = 0, total = 0;
    /* Ten thousand pipes are twenty thousand descriptors. */
    static int second[COUNT];
    int count = many(make_pipe);
    memcpy(second, made, sizeof second);
    total = count + many(make_pipe);
    equal(total, 2 * COUNT, "ten thousand pipes");
    for (int i = 0; i < COUNT; i += 2)
        wrong +=
            write(made[i + 1], &i, sizeof i) != sizeof i || write(second[i + 1], &i, sizeof i) != sizeof i;
    for (int i = 0; i < COUNT; i += 2) {
        int got[2] = {-1, -1};
        wrong += read(made[i], got, 4) != 4 || read(second[i], got + 1, 4) != 4 || got[0] != i || got[1] != i;
    }
    equal(wrong, 0, "each has its own");
    close_many(COUNT);
    memcpy(made, second, sizeof second);
    close_many(COUNT);
}

/* Every other descriptor is closed by exec. */
static void programs(void)
{
    limit(MOST);
    equal(many(make_counter), COUNT, "ten thousand");
    for (int i = 0; i < COUNT; i += 2)
        fcntl(made[i], F_SETFD, FD_CLOEXEC);
    char first[16], last[16], text[16] = "";
    int fd[2];
    pipe(fd);
    sprintf(first, "%d", made[0]), sprintf(last, "%d", made[COUNT - 1]);
    pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], 1);
        execl(self, self, "count", first, last, NULL);
        _exit(9);
    }
    equal(status_of(child), 0, "a program begins");
    read(fd[0], text, sizeof text - 1);
    equal(atoi(text), COUNT / 2, "with half of them");
    child = fork();
    if (child == 0) {
        dup2(fd[1], 1);
        close_range(made[0], made[COUNT / 2 - 1], CLOSE_RANGE_CLOEXEC);
        execl(self, self, "count", first, last, NULL);
        _exit(9);
    }
    equal(status_of(child), 0, "another");
    read(fd[0], text, sizeof text - 1);
    equal(atoi(text), COUNT / 4, "with the half of the upper half");
    equal(close_range(made[100], made[COUNT - 101], 0), 0, "close_range");
    int left = 0;
    for (int i = 0; i < COUNT; i++)
        left += fcntl(made[i], F_GETFD) >= 0;
    equal(left, 200, "leaves both ends");
    equal(dup(0), made[100], "and the lowest is behind the first");
    close_range(made[0], ~0u, 0);
}

/* Many processes of a user have the largest table: some may be refused, and nobody is ended for want of
 * memory. */
static int largest(void)
{
    int ends[2], refused = 0, other = 0, children = 0;
    pipe(ends);
    if (setgid(1000) || setuid(1000))
        return 1;
    limit(MOST);
    for (; children < 40; children++)
        if (fork() == 0) {
            char error = dup2(0, MOST - 1) == MOST - 1 ? 0 : errno;
            write(ends[1], &error, 1);
            for (;;)
                pause();
        }
    for (int i = 0; i < children; i++) {
        char error = 0;
        read(ends[0], &error, 1);
        refused += error == ENOMEM;
        other += error != 0 && error != ENOMEM;
    }
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    int status, bad = refused == children || other;
    while (wait(&status) > 0)
        bad |= !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM;
    return bad;
}

static void users(void)
{
    for (int round = 0; round < 2; round++) {
        pid_t child = fork();
        if (child == 0) {
            setpgid(0, 0);
            _exit(largest());
        }
        equal(status_of(child), 0, "the largest tables of a user's processes");
    }
    limit(MOST);
    equal(dup2(0, MOST - 1), MOST - 1, "root's is there as before");
    close(MOST - 1);
}

static atomic_int stop, wrong_ends;

/* Opens and closes, and each time the lowest is as low as it was or was another's. */
static void *opener(void *arg)
{
    int mine[64];
    (void)arg;
    while (!stop) {
        for (int i = 0; i < 64; i++)
            mine[i] = eventfd(0, EFD_NONBLOCK);
        for (int i = 0; i < 64; i++) {
            uint64_t value = mine[i] + 1, got = 0;
            if (write(mine[i], &value, 8) != 8 || read(mine[i], &got, 8) != 8 || got != value)
                wrong_ends++;
        }
        for (int i = 0; i < 64; i++)
            if (close(mine[i]))
                wrong_ends++;
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[3];
    limit(MOST);
    int base = dup(0);
    close(base);
    for (int i = 0; i < 3; i++)
        pthread_create(thread + i, NULL, opener, NULL);
    /* The table grows under them, sixteen times as large each time. */
    for (int at = 1000; at < MOST; at *= 4) {
        int fd = fcntl(0, F_DUPFD, at);
        if (fd != at || fcntl(fd, F_GETFD) != 0 || close(fd))
            wrong_ends++;
    }
    equal(many(make_counter), COUNT, "ten thousand beside them");
    int most = 0;
    for (int i = 0; i < COUNT; i++)
        most = made[i] > most ? made[i] : most;
    equal(most < base + COUNT + 3 * 64 + 1, 1, "no number was left out");
    for (int i = 0; i < COUNT; i++)
        if (close(made[i]))
            wrong_ends++;
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    equal(wrong_ends, 0, "nobody's file was another's");
    equal(dup(0), base, "at last all are free");
    close(base);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"limits", limits}, {"last", last},         {"counters", counters}, {"pairs", pairs},
        {"pipes", pipes},   {"programs", programs}, {"users", users},       {"threads", threads},
    };
    self = argv[0];
    if (argc == 4 && strcmp(argv[1], "count") == 0) {
        int open = 0;
        for (int fd = atoi(argv[2]); fd <= atoi(argv[3]); fd++)
            open += fcntl(fd, F_GETFD) >= 0;
        printf("%d\n", open);
        return 0;
    }
    close_range(3, ~0u, 0);
    run_groups(GROUPS(groups), NULL, argc, argv);
    return done();
}
