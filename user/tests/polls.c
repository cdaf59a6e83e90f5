/* Checks poll, ppoll, select and pselect6 as Linux has them; passes on Linux and must pass here.
 *
 * Interface: polls [GROUP...] runs all groups, or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "tap.h"
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
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MANY 150

static int pipes[MANY][2];

static void open_many(void)
{
    struct rlimit limit = {1024, 1024};
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < MANY; i++)
        if (pipe(pipes[i]))
            check(0, "pipe");
}

static void close_many(void)
{
    for (int i = 0; i < MANY; i++) {
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
}

static int one(int fd, int events)
{
    struct pollfd p = {fd, events, 0x55};
    return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

/* The same answer from a first look and from later ones, by whichever way those come. */
static void always(int fd, int events, int expected, const char *name)
{
    int wrong = 0;
    for (int i = 0; i < 4; i++)
        wrong += one(fd, events) != expected;
    equal(wrong, 0, name);
}

static void states(void)
{
    int p[2];
    char page[4096] = {0};
    if (pipe2(p, O_NONBLOCK))
        return;
    always(p[0], POLLIN | POLLOUT, 0, "an empty pipe, for its reader");
    always(p[1], POLLIN | POLLOUT, POLLOUT, "and for its writer");
    always(p[1], POLLIN, 0, "who asks for something else");
    always(p[1], POLLOUT | POLLWRNORM, POLLOUT | POLLWRNORM, "and by the other name");
    write(p[1], "x", 1);
    always(p[0], POLLIN, POLLIN, "something in it");
    always(p[0], POLLIN | POLLRDNORM | POLLPRI, POLLIN | POLLRDNORM, "which is not urgent");
    while (write(p[1], page, sizeof page) > 0)
        ;
    always(p[1], POLLOUT, 0, "a full pipe");
    while (read(p[0], page, sizeof page) > 0)
        ;
    always(p[0], POLLIN, 0, "empty again");
    int copy = dup(p[1]);
    close(p[1]);
    always(p[0], POLLIN, 0, "one writer of two is gone");
    write(copy, "x", 1);
    close(copy);
    always(p[0], POLLIN, POLLIN | POLLHUP, "the last one is gone, and left something");
    read(p[0], page, 1);
    always(p[0], POLLIN, POLLHUP, "which was read");
    always(p[0], 0, POLLHUP, "said even if nothing is wanted");
    close(p[0]);
    always(p[0], POLLIN, POLLNVAL, "a closed descriptor");
    if (pipe(p))
        return;
    close(p[0]);
    always(p[1], POLLOUT, POLLOUT | POLLERR, "no reader is left");
    always(p[1], POLLIN, POLLERR, "which is an error");
    close(p[1]);
    int e = eventfd(0, EFD_NONBLOCK);
    uint64_t number = UINT64_MAX - 1;
    always(e, POLLIN | POLLOUT, POLLOUT, "a counter without a count");
    write(e, &number, 8);
    always(e, POLLIN | POLLOUT, POLLIN, "a full one");
    read(e, &number, 8);
    number = 1;
    write(e, &number, 8);
    always(e, POLLIN | POLLOUT, POLLIN | POLLOUT, "one with a little");
    close(e);
    int t = timerfd_create(CLOCK_MONOTONIC, 0);
    always(t, POLLIN | POLLOUT, 0, "a timer that is not set");
    struct itimerspec at = {.it_value.tv_nsec = 1};
    timerfd_settime(t, 0, &at, 0);
    equal(read(t, &number, 8), 8, "it expires");
    always(t, POLLIN, 0, "and was taken");
    timerfd_settime(t, 0, &at, 0);
    struct pollfd timer = {t, POLLIN, 0};
    equal(poll(&timer, 1, -1) == 1 && timer.revents == POLLIN, 1, "it expires again");
    always(t, POLLIN, POLLIN, "and was not taken");
    close(t);
    int file = open("/proc/self/exe", O_RDONLY), path = open("/tmp", O_PATH);
    always(file, POLLIN | POLLOUT, POLLIN | POLLOUT, "a file is ready");
    always(path, POLLIN | POLLOUT, POLLNVAL, "a path is none");
    fd_set set;
    FD_ZERO(&set);
    FD_SET(path, &set);
    struct timeval zero = {0, 0};
    equal(select(path + 1, &set, 0, 0, &zero) == 1 && FD_ISSET(path, &set), 1,
          "for select one that would not wait");
    close(file);
    close(path);
}

static void arrays(void)
{
    static struct pollfd all[2 * MANY];
    open_many();
    for (int i = 0; i < MANY; i++) {
        all[2 * i] = (struct pollfd){pipes[i][0], POLLIN, 0x7777};
        all[2 * i + 1] = (struct pollfd){-1 - i, POLLIN, 0x7777};
    }
    int wrong = 0;
    equal(poll(all, 2 * MANY, 0), 0, "nothing in many pipes");
    for (int i = 0; i < 2 * MANY; i++)
        wrong += all[i].revents != 0;
    equal(wrong, 0, "is said of each");
    for (int round = 0; round < 3; round++) {
        int at = round == 0 ? 0 : round == 1 ? MANY / 2 : MANY - 1;
        write(pipes[at][1], "x", 1);
        for (int i = 0; i < 2 * MANY; i++)
            all[i].revents = 0x7777;
        equal(poll(all, 2 * MANY, -1), 1, "something in one");
        for (int i = 0; i < 2 * MANY; i++)
            wrong += all[i].revents != (i == 2 * at ? POLLIN : 0) || all[i].events != POLLIN;
        equal(wrong, 0, "is said of that one alone");
        char c;
        read(pipes[at][0], &c, 1);
    }
    equal(poll(all, 2 * MANY, 1), 0, "a while without anything");
    for (int i = 0; i < 2 * MANY; i++)
        wrong += all[i].revents != 0;
    equal(wrong, 0, "clears the answers of before");
    fails(poll(all, 2000, 0), EINVAL, "more than there may be descriptors");
    fails(syscall(SYS_poll, 8, 1, 0), EFAULT, "an array nowhere");
    fails(syscall(SYS_poll, -8ul, 2, 0), EFAULT, "nor at the end of everything");
    struct pollfd *constant = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    constant[0] = (struct pollfd){pipes[0][1], POLLOUT, POLLOUT};
    constant[1] = (struct pollfd){pipes[0][0], POLLIN, 0};
    mprotect(constant, 4096, PROT_READ);
    fails(poll(constant, 2, 0), EFAULT, "where nothing can be written");
    for (int i = 0; i < 4; i++)
        fails(poll(constant, 1, 0), EFAULT, "nor for one alone");
    munmap(constant, 4096);
    equal(poll(0, 0, 0), 0, "an array of none");
    equal(syscall(SYS_poll, 8, 0, 0), 0, "wherever it is");
    struct rlimit none = {0, 1024}, many = {1024, 1024};
    setrlimit(RLIMIT_NOFILE, &none);
    fails(poll(all + 1, 1, 0), EINVAL, "one where there may be none");
    setrlimit(RLIMIT_NOFILE, &many);
    struct pollfd ready = {pipes[0][1], POLLOUT, 0};
    always(ready.fd, POLLOUT, POLLOUT, "one that is ready");
    setrlimit(RLIMIT_NOFILE, &none);
    fails(poll(&ready, 1, 0), EINVAL, "and then may not be");
    setrlimit(RLIMIT_NOFILE, &many);
    close_many();
}

static void sets(void)
{
    open_many();
    fd_set in, out, urgent;
    struct timeval zero = {0, 0};
    int most = 0;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_ZERO(&urgent);
    for (int i = 0; i < MANY; i++) {
        FD_SET(pipes[i][0], &in);
        FD_SET(pipes[i][0], &urgent);
        most = pipes[i][1] > most ? pipes[i][1] : most;
    }
    fd_set asked = in;
    equal(select(most + 1, &in, 0, &urgent, &zero), 0, "nothing in many");
    fd_set none;
    FD_ZERO(&none);
    equal(memcmp(&in, &none, sizeof in) || memcmp(&urgent, &none, sizeof in), 0, "no bit is left");
    write(pipes[MANY - 1][1], "x", 1);
    in = asked;
    equal(select(most + 1, &in, 0, 0, 0), 1, "something in the last");
    FD_SET(pipes[MANY - 1][0], &none);
    equal(memcmp(&in, &none, sizeof in), 0, "whose bit is left");
    in = asked;
    for (int i = 0; i < MANY; i++)
        FD_SET(pipes[i][1], &out);
    FD_SET(pipes[0][0], &out);
    fd_set writing = out;
    equal(select(most + 1, &in, &out, 0, &zero), MANY + 1, "readers and writers");
    FD_CLR(pipes[0][0], &writing);
    equal(memcmp(&out, &writing, sizeof out) || memcmp(&in, &none, sizeof in), 0, "each in its set");
    in = asked;
    equal(select(pipes[MANY - 1][0], &in, 0, 0, &zero), 0, "those below a number");
    close(pipes[3][0]);
    in = asked;
    fails(select(most + 1, &in, 0, 0, &zero), EBADF, "a closed one among them");
    equal(memcmp(&in, &asked, sizeof in), 0, "and all bits as they were");
    fails(select(-1, 0, 0, 0, &zero), EINVAL, "less than none");
    fails(syscall(SYS_select, 10, 8, 0, 0, &zero), EFAULT, "a set nowhere");
    struct timeval wrong = {-1, 0};
    fails(syscall(SYS_select, 0, 0, 0, 0, &wrong), EINVAL, "a time before now");
    struct timeval left = {0, 3000};
    FD_ZERO(&in);
    FD_SET(pipes[0][0], &in);
    equal(select(pipes[0][0] + 1, &in, 0, 0, &left), 0, "a while without anything");
    equal(left.tv_sec == 0 && left.tv_usec == 0, 1, "no time is left");
    left.tv_sec = 100;
    FD_SET(pipes[0][1], &out);
    equal(select(pipes[0][1] + 1, 0, &out, 0, &left) > 0 && left.tv_sec >= 98, 1, "and else nearly all");
    close_many();
    /* Many more bits than descriptors that there can be room for: those are not looked at. */
    static unsigned long large[4096 / 64];
    memset(large, 0, sizeof large);
    large[4000 / 64] = 1ul << 4000 % 64;
    equal(syscall(SYS_select, 4096, large, 0, 0, &zero), 0, "a bit beyond the table");
    int p[2];
    if (pipe(p))
        return;
    memset(large, 0, sizeof large);
    large[p[1] / 64] = 1ul << p[1] % 64;
    equal(syscall(SYS_select, 1 << 30, 0, large, 0, &zero), 1, "however large a number is said");
    close(p[0]);
    close(p[1]);
}

/* One word of one set, by either call; the time's two words are as the call has them. */
static long ask(int number, int count, void *in, void *out, long *time)
{
    return syscall(number, count, in, out, 0, time, 0);
}

static void few(int number)
{
    int p[2], file = open("/tmp/polls-few", O_CREAT | O_RDWR, 0600), path = open("/tmp", O_RDONLY | O_PATH);
    if (pipe(p) || file < 0 || path < 0 || p[1] >= 60)
        return;
    unsigned long of_file = 1ul << file, reader = 1ul << p[0], writer = 1ul << p[1], set;
    long zero[2] = {0, 0}, wrong[2] = {0, -1}, later[2] = {100, 0};
    void *read_only = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *none = (void *)8;
    for (int round = 0; round < 4; round++) {
        set = of_file | reader;
        equal(ask(number, 64, &set, 0, zero) == 1 && set == of_file, 1,
              "a file can be read, an empty pipe not");
        set = of_file | reader | writer;
        equal(ask(number, 64, 0, &set, zero) == 2 && set == (of_file | writer), 1,
              "a file and a pipe can be written");
    }
    set = reader;
    equal(ask(number, p[0] + 1, &set, 0, zero) == 0 && set == 0, 1, "nothing in an empty pipe");
    set = of_file | 1ul << 63;
    equal(ask(number, 63, &set, 0, zero) == 1 && set == of_file, 1,
          "those beyond the number are not asked, and not told");
    set = of_file | 1ul << 63;
    fails(ask(number, 64, &set, 0, zero), EBADF, "a closed one");
    equal(set, of_file | 1ul << 63, "leaves the set as it was");
    set = of_file;
    equal(ask(number, 64, &set, 0, 0) == 1 && set == of_file, 1, "what is ready needs no time");
    equal(ask(number, 64, 0, &set, later) == 1 && set == of_file && later[0] >= 98, 1,
          "and leaves nearly all of it");
    set = 0;
    equal(ask(number, 64, &set, 0, zero), 0, "of none");
    equal(ask(number, 64, 0, 0, zero), 0, "without a set");
    equal(ask(number, 0, none, 0, zero), 0, "a set nowhere, if none is asked about");
    set = of_file;
    fails(ask(number, 64, &set, 0, wrong), EINVAL, "a time that is none");
    fails(ask(number, 64, &set, 0, none), EFAULT, "a time nowhere");
    fails(ask(number, 64, none, 0, zero), EFAULT, "a set nowhere");
    equal(ask(number, 64, read_only, 0, zero) == -1 && errno == EFAULT, 1, "a set that cannot be written");
    set = 1ul << path;
    equal(ask(number, 64, &set, 0, zero) == 1 && set == 1ul << path, 1, "a place is always told");
    set = reader | of_file;
    write(p[1], "x", 1);
    equal(ask(number, 64, &set, 0, 0) == 2 && set == (reader | of_file), 1, "a pipe with something");
    close(p[1]);
    read(p[0], &set, 1);
    set = reader;
    equal(ask(number, 64, &set, 0, 0) == 1 && set == reader, 1, "a pipe's end");
    close(p[0]);
    close(file);
    close(path);
    munmap(read_only, 4096);
}

static void sets_of_few(void)
{
    few(SYS_select);
    few(SYS_pselect6);
}

static atomic_int handled;
static void on_signal(int number) { handled += number == SIGUSR1; }

static void signals(void)
{
    int p[2];
    if (pipe(p))
        return;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, 0);
    sigset_t blocked, none, now;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    struct pollfd asked = {p[0], POLLIN, 0x1234};
    struct timespec zero = {0, 0}, minute = {60, 0};
    handled = 0;
    kill(getpid(), SIGUSR1);
    equal(poll(&asked, 1, 0), 0, "a blocked signal does not count");
    asked.revents = 0x1234;
    fails(ppoll(&asked, 1, &zero, &none), EINTR,
          "one that the call lets through does, though it would not wait");
    equal(handled, 1, "its handler ran");
    equal(asked.revents, 0, "and the answer says nothing");
    kill(getpid(), SIGUSR1);
    fails(ppoll(&asked, 1, &minute, &none), EINTR, "also if it would");
    equal(handled == 2 && minute.tv_sec == 59 + (minute.tv_nsec == 0), 1, "and the time left is said");
    fd_set set;
    FD_ZERO(&set);
    FD_SET(p[0], &set);
    kill(getpid(), SIGUSR1);
    fails(pselect(p[0] + 1, &set, 0, 0, &zero, &none), EINTR, "pselect likewise");
    equal(handled == 3 && FD_ISSET(p[0], &set), 1, "and leaves the set");
    write(p[1], "x", 1);
    kill(getpid(), SIGUSR1);
    equal(ppoll(&asked, 1, 0, &none), 1, "what is there counts more");
    equal(handled, 3, "and the signal stays");
    sigprocmask(SIG_SETMASK, 0, &now);
    equal(sigismember(&now, SIGUSR1), 1, "as blocked as before");
    sigprocmask(SIG_SETMASK, &none, 0);
    equal(handled, 4, "until it is not");
    close(p[0]);
    close(p[1]);
}

/* --- sleepers --- */

static int bell[2], answer[2];
static int late[MANY / 10][2];

#define ROUNDS 300

static void *rings(void *unused)
{
    char c;
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        write(pipes[i * 7 % MANY][1], "x", 1);
        if (read(answer[0], &c, 1) != 1)
            return 0;
    }
    return 0;
}

/* One of many at a time rings; who sleeps on all of them finds it, and only it. */
static void sleepers(void)
{
    static struct pollfd all[MANY];
    pthread_t thread;
    open_many();
    if (pipe(answer) || pipe(bell))
        return;
    for (int i = 0; i < MANY; i++)
        all[i] = (struct pollfd){pipes[i][0], POLLIN, 0};
    for (int selecting = 0; selecting < 2; selecting++) {
        int wrong = 0;
        pthread_create(&thread, 0, rings, 0);
        for (int i = 0; i < ROUNDS; i++) {
            int expected = i * 7 % MANY;
            char c;
            if (selecting) {
                fd_set set;
                FD_ZERO(&set);
                for (int j = 0; j < MANY; j++)
                    FD_SET(pipes[j][0], &set);
                wrong +=
                    select(pipes[MANY - 1][1] + 1, &set, 0, 0, 0) != 1 || !FD_ISSET(pipes[expected][0], &set);
            } else {
                wrong += poll(all, MANY, -1) != 1 || all[expected].revents != POLLIN;
            }
            wrong += read(pipes[expected][0], &c, 1) != 1;
            write(answer[1], "x", 1);
        }
        pthread_join(thread, 0);
        equal(wrong, 0,
              selecting ? "select: each of many, one after the other"
                        : "poll: each of many, one after the other");
    }
    close(answer[0]);
    close(answer[1]);
    close(bell[0]);
    close(bell[1]);
    close_many();
}

static void *waits_long(void *fds)
{
    struct pollfd *all = fds;
    return (void *)(long)poll(all, 3, -1);
}

/* State of a thread of this process, as /proc has it. */
static int state_of(int tid)
{
    char path[64], text[256], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    if (fgets(text, sizeof text, f))
        sscanf(strrchr(text, ')') + 2, "%c", &state);
    fclose(f);
    return state;
}

static atomic_int sleeper;

static void *sleeps_in_poll(void *fds)
{
    sleeper = gettid();
    return waits_long(fds);
}

/* Until the other thread sleeps in its call. */
static void let_sleep(void)
{
    while (!sleeper || state_of(sleeper) != 'S')
        sched_yield();
}

/* How often a thread of this process has waited. */
static long waits_of(int tid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    return number_in(path, "voluntary_ctxt_switches:");
}

static void *asks_one(void *fds)
{
    sleeper = gettid();
    return (void *)(long)poll(fds, 1, -1);
}

/* A thread waits for `events` of end 0. Bytes that end `from` writes, and that are read again if it is end
 * 0, bring others only; then its own come. */
static void undisturbed(int ends[2], int events, int from, const char *name)
{
    struct pollfd asked = {ends[0], events, 0};
    pthread_t thread;
    void *result;
    char c;
    sleeper = 0;
    pthread_create(&thread, 0, asks_one, &asked);
    let_sleep();
    long before = waits_of(sleeper);
    for (int i = 0; i < 20; i++) {
        write(ends[from], "x", 1);
        if (from == 0)
            read(ends[1], &c, 1);
        sched_yield();
        let_sleep();
    }
    equal(before > 0 ? waits_of(sleeper) - before : -1, 0, name);
    if (events & POLLIN)
        write(ends[1], "x", 1);
    else
        while (recv(ends[1], &c, 1, MSG_DONTWAIT) == 1)
            ;
    pthread_join(thread, &result);
    equal(result == (void *)1 && asked.revents == events, 1, "and by its own event it is");
}

static void wakes(void)
{
    char block[4096] = {0};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) {
        check(0, "socketpair");
        return;
    }
    undisturbed(ends, POLLIN, 0, "room does not wake a thread that waits for data");
    while (send(ends[0], block, sizeof block, MSG_DONTWAIT) > 0)
        ;
    undisturbed(ends, POLLOUT, 1, "data do not wake a thread that waits for room");
    close(ends[0]);
    close(ends[1]);
}

static void ends(void)
{
    static struct pollfd all[3];
    pthread_t thread;
    void *result;
    int p[2], q[2], e = eventfd(0, 0);
    char c;
    if (pipe(p) || pipe(q))
        return;
    all[0] = (struct pollfd){p[0], POLLIN, 0};
    all[1] = (struct pollfd){q[0], POLLIN, 0};
    all[2] = (struct pollfd){e, POLLIN, 0};
    sleeper = 0;
    pthread_create(&thread, 0, sleeps_in_poll, all);
    let_sleep();
    /* A byte that another takes at once may wake, but is no answer. */
    for (int i = 0; i < 50; i++) {
        write(p[1], "x", 1);
        read(p[0], &c, 1);
    }
    close(q[1]);
    pthread_join(thread, &result);
    equal(result == (void *)1 || all[0].revents, 1, "a writer's end wakes");
    equal(all[1].revents & POLLHUP || all[0].revents, 1, "as a hang-up");
    close(q[0]);
    close(p[0]);
    close(p[1]);
    close(e);
}

static atomic_int stop;
static atomic_long sent, taken;

static void *writes_much(void *index)
{
    uint64_t one = 1;
    long i = (long)index;
    while (!stop) {
        sent++;
        write(late[i][0], &one, 8);
        sched_yield();
    }
    return 0;
}

/* Counters that ring while others look: no event is lost. */
static void races(void)
{
    enum { THREADS = 4, EVENTS = 4000 };
    pthread_t thread[THREADS];
    struct pollfd all[THREADS];
    stop = 0, sent = taken = 0;
    for (long i = 0; i < THREADS; i++) {
        late[i][0] = eventfd(0, EFD_NONBLOCK);
        all[i] = (struct pollfd){late[i][0], POLLIN, 0};
        pthread_create(&thread[i], 0, writes_much, (void *)i);
    }
    int wrong = 0;
    for (int round = 0; round < EVENTS; round++) {
        int found = poll(all, THREADS, -1), said = 0;
        for (int i = 0; i < THREADS; i++) {
            uint64_t number;
            if (!all[i].revents)
                continue;
            said++;
            if (read(all[i].fd, &number, 8) == 8)
                taken += number;
            else
                wrong++;
        }
        wrong += said != found || found < 1;
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], 0);
    for (int i = 0; i < THREADS; i++) {
        uint64_t number;
        if (read(late[i][0], &number, 8) == 8)
            taken += number;
        close(late[i][0]);
    }
    equal(wrong, 0, "what poll says can be read is there");
    equal(sent, taken, "all that was sent was taken");
}

static void *opens_and_closes(void *unused)
{
    (void)unused;
    while (!stop) {
        int p[2];
        if (pipe(p) == 0) {
            write(p[1], "x", 1);
            close(p[0]);
            close(p[1]);
        }
    }
    return 0;
}

/* Descriptors that come and go under the feet of who looks. */
static void moving(void)
{
    pthread_t thread[2];
    stop = 0;
    int first = dup(0);
    close(first);
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], 0, opens_and_closes, 0);
    int wrong = 0;
    for (int round = 0; round < 3000; round++) {
        struct pollfd all[4];
        for (int i = 0; i < 4; i++)
            all[i] = (struct pollfd){first + i, POLLIN, 0};
        int found = poll(all, 4, round % 8 == 0);
        wrong += found < 0;
        struct pollfd alone = {first + round % 4, POLLIN, 0x55};
        found = poll(&alone, 1, 0);
        wrong += found < 0 || found != (alone.revents != 0);
        wrong += (alone.revents & ~(POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0;
        for (int i = 0; i < 4; i++)
            wrong += (all[i].revents & ~(POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0;
        fd_set set;
        FD_ZERO(&set);
        FD_SET(first, &set);
        struct timeval zero = {0, 0};
        wrong += select(first + 1, &set, 0, 0, &zero) < 0 && errno != EBADF;
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], 0);
    equal(wrong, 0, "no answer is out of place");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"states", states},   {"arrays", arrays},     {"sets", sets},   {"few", sets_of_few},
        {"signals", signals}, {"sleepers", sleepers}, {"wakes", wakes}, {"ends", ends},
        {"races", races},     {"moving", moving},
    };
    alarm(120);
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
