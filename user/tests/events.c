/* Checks files of events as Linux has them: eventfd, timerfd; passes on Linux and must pass here.
 *
 * Interface: events [GROUP...] runs all groups but `clock_jumps`, which sets the clock, or those named; TAP
 * on standard output.
 */
#define _GNU_SOURCE
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
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int put(int fd, uint64_t number) { return write(fd, &number, 8); }

/* The number that is read, or -1. */
static int64_t take(int fd)
{
    uint64_t number = 0;
    ssize_t got = read(fd, &number, 8);
    return got == 8 ? (int64_t)number : -1;
}

static int polled(int fd, int events)
{
    struct pollfd p = {fd, events, 0};
    return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

/* --- eventfd --- */

static void counters(void)
{
    int fd = eventfd(3, EFD_NONBLOCK | EFD_CLOEXEC);
    equal(fcntl(fd, F_GETFD), FD_CLOEXEC, "EFD_CLOEXEC");
    equal(polled(fd, POLLIN | POLLOUT), POLLIN | POLLOUT, "a count can be read and added to");
    equal(take(fd), 3, "the count that it began with");
    fails(take(fd), EAGAIN, "is taken once");
    equal(polled(fd, POLLIN | POLLOUT), POLLOUT, "then there is nothing");
    equal(put(fd, 5), 8, "add");
    equal(put(fd, 0), 8, "add nothing");
    equal(put(fd, 1ul << 40), 8, "add more");
    equal(take(fd), (1ul << 40) + 5, "all of it is taken at once");
    fails(put(fd, UINT64_MAX), EINVAL, "the largest number is none");
    equal(put(fd, UINT64_MAX - 1), 8, "the one below is");
    equal(polled(fd, POLLIN | POLLOUT), POLLIN, "then it is full");
    fails(put(fd, 1), EAGAIN, "and takes no more");
    equal(put(fd, 0), 8, "but nothing");
    uint64_t number;
    equal(read(fd, &number, 8) == 8 && number == UINT64_MAX - 1, 1, "a count with the top bit");
    equal(put(fd, 1ul << 63) == 8 && put(fd, (1ul << 63) - 2) == 8, 1, "up to the brim");
    fails(put(fd, 1), EAGAIN, "no further");
    equal(read(fd, &number, 8) == 8 && number == UINT64_MAX - 1, 1, "and empty again");
    char bytes[16] = {7};
    fails(read(fd, bytes, 7), EINVAL, "no room for a number");
    fails(write(fd, bytes, 7), EINVAL, "no number");
    equal(write(fd, bytes, 8) == 8 && read(fd, bytes, 16) == 8 && bytes[0] == 7, 1,
          "more room than a number needs");
    put(fd, 2);
    fails(syscall(SYS_read, fd, 8, 8), EFAULT, "to nowhere");
    equal(take(fd) == 2 || errno == EAGAIN, 1, "which takes the count or not");
    fails(syscall(SYS_write, fd, 8, 8), EFAULT, "from nowhere");
    equal(lseek(fd, 5, SEEK_SET), 0, "it has no offset");
    fails(eventfd(0, 2), EINVAL, "an unknown flag");
    close(fd);
    fd = syscall(SYS_eventfd, 9);
    equal(take(fd), 9, "the old call");
    close(fd);
    fd = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
    equal(take(fd) == 1 && take(fd) == 1, 1, "a semaphore gives one at a time");
    fails(take(fd), EAGAIN, "until there is none");
    close(fd);
}

static int bell, answer;
static atomic_long sum;

static void *echo(void *rounds)
{
    for (long i = 0; i < (long)rounds; i++) {
        sum += take(bell);
        put(answer, 1);
    }
    return 0;
}

static void handover(void)
{
    pthread_t thread;
    bell = eventfd(0, 0), answer = eventfd(0, 0);
    sum = 0;
    pthread_create(&thread, 0, echo, (void *)2000);
    int wrong = 0;
    for (int i = 0; i < 2000; i++) {
        put(bell, i);
        /* Nothing added is no event. */
        if (i == 0)
            put(bell, 1);
        wrong += take(answer) != 1;
    }
    pthread_join(thread, 0);
    equal(wrong == 0 && sum == 1 + 1999 * 2000 / 2, 1, "2000 numbers there and back");
    /* A writer that finds it full waits for room. */
    put(bell, UINT64_MAX - 1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(put(bell, 5) != 8);
    uint64_t number;
    usleep(10000);
    equal(read(bell, &number, 8) == 8 && number == UINT64_MAX - 1, 1, "a full one is emptied");
    equal(take(bell), 5, "and who waited for room adds");
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "in another process");
    close(bell), close(answer);
}

static atomic_int taken;

static void *taker(void *unused)
{
    (void)unused;
    if (take(bell) == 1)
        taken++;
    return 0;
}

static void semaphores(void)
{
    pthread_t threads[4];
    bell = eventfd(0, EFD_SEMAPHORE);
    taken = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, taker, 0);
    usleep(5000);
    put(bell, 3);
    while (taken < 3)
        usleep(100);
    put(bell, 1);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    equal(taken, 4, "four takers, four permits");
    equal(polled(bell, POLLIN), 0, "none left");
    /* Three processes, each of which has taken one before and so may have a shorter way. With four permits
     * one has two. */
    fflush(stdout);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            put(bell, 1);
            _exit(take(bell) != 1 || take(bell) != 1);
        }
    usleep(20000);
    int failed = 0, status;
    for (int i = 0; i < 3; i++) {
        put(bell, 1);
        failed |= wait(&status) < 0 || status != 0;
    }
    equal(failed, 0, "three that wait are served one after the other");
    close(bell);
}

static void nothing(int signo) { (void)signo; }

static void interrupted(void)
{
    int fd = eventfd(0, 0);
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, 0);
    struct itimerval soon = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &soon, 0);
    fails(take(fd), EINTR, "a signal ends the wait");
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}, got;
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    equal(epoll_wait(set, &got, 1, 0), 0, "no edge yet");
    put(fd, 1);
    equal(epoll_wait(set, &got, 1, 0), 1, "an edge");
    put(fd, 1);
    equal(epoll_wait(set, &got, 1, 0), 1, "at each addition");
    equal(epoll_wait(set, &got, 1, 0), 0, "once");
    take(fd);
    close(fd), close(set);
}

static void add_one(int fd) { put(fd, 1); }

static void expire(int fd)
{
    struct itimerspec at_once = {.it_value = {0, 1}};
    timerfd_settime(fd, 0, &at_once, 0);
    struct pollfd p = {fd, POLLIN, 0};
    poll(&p, 1, 10000);
}

/* A descriptor that waits is told to wait no more, and to wait again: at first, and when it has been read so
 * often that it has got code of its own. `fill` gives it something to be read. */
static void changes_its_mind(int fd, void (*fill)(int), const char *what)
{
    struct itimerval soon = {{0, 0}, {0, 20000}}, late = {{0, 0}, {5, 0}}, left;
    for (int often = 0; often < 2; often++) {
        /* One that waits all the same is woken, and may say then that it does not. */
        fcntl(fd, F_SETFL, O_NONBLOCK);
        setitimer(ITIMER_REAL, &late, 0);
        fails(take(fd), EAGAIN, what);
        getitimer(ITIMER_REAL, &left);
        equal(left.it_value.tv_sec || left.it_value.tv_usec, 1, "at once");
        fcntl(fd, F_SETFL, 0);
        setitimer(ITIMER_REAL, &soon, 0);
        fails(take(fd), EINTR, "then it waits again");
        int missed = 0;
        for (int i = 0; i < 100; i++)
            fill(fd), missed += take(fd) != 1;
        equal(missed, 0, "and is read again and again");
    }
}

static void flags(void)
{
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, 0);
    int counter = eventfd(0, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
    changes_its_mind(counter, add_one, "O_NONBLOCK that comes later");
    changes_its_mind(timer, expire, "that of a timer");
    close(counter), close(timer);
    counter = eventfd(0, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    changes_its_mind(counter, add_one, "O_NONBLOCK from the beginning");
    changes_its_mind(timer, expire, "that of a timer");
    close(counter), close(timer);
}

static void *emptier(void *unused)
{
    (void)unused;
    usleep(5000);
    uint64_t number;
    return (void *)read(bell, &number, 8);
}

/* A process that polls a full counter for room is told when there is some. */
static void room(void)
{
    pthread_t thread;
    bell = eventfd(0, 0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET}, got;
    struct pollfd p = {bell, POLLOUT, 0};
    int set = epoll_create1(0);
    put(bell, UINT64_MAX - 1);
    epoll_ctl(set, EPOLL_CTL_ADD, bell, &event);
    equal(epoll_wait(set, &got, 1, 0), 0, "no room, no edge");
    pthread_create(&thread, 0, emptier, 0);
    equal(epoll_wait(set, &got, 1, 5000) == 1 && got.events == EPOLLOUT, 1, "room is an edge");
    pthread_join(thread, 0);
    put(bell, UINT64_MAX - 1);
    pthread_create(&thread, 0, emptier, 0);
    equal(poll(&p, 1, 5000) == 1 && p.revents == POLLOUT, 1, "and ends a poll");
    pthread_join(thread, 0);
    close(set), close(bell);
}

enum { ADDERS = 4, ADDITIONS = 20000 };

static void *adder(void *unused)
{
    (void)unused;
    for (int i = 0; i < ADDITIONS; i++)
        put(bell, 1);
    return 0;
}

/* Several add at a time, and one takes meanwhile. */
static void adders(void)
{
    pthread_t threads[ADDERS];
    bell = eventfd(0, EFD_NONBLOCK);
    for (int i = 0; i < ADDERS; i++)
        pthread_create(&threads[i], 0, adder, 0);
    int64_t all = 0, one;
    for (int i = 0; i < ADDITIONS; i++)
        if ((one = take(bell)) > 0)
            all += one;
    for (int i = 0; i < ADDERS; i++)
        pthread_join(threads[i], 0);
    if ((one = take(bell)) > 0)
        all += one;
    equal(all, ADDERS * ADDITIONS, "no addition is lost");
    close(bell);
}

/* --- timerfd --- */

static int64_t now(int clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

static struct timespec ns(int64_t ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }

static int set(int fd, int flags, int64_t value, int64_t interval)
{
    struct itimerspec new = {ns(interval), ns(value)};
    return timerfd_settime(fd, flags, &new, 0);
}

enum { MS = 1000000 };

static void timers(void)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    equal(fcntl(fd, F_GETFD), FD_CLOEXEC, "TFD_CLOEXEC");
    fails(take(fd), EAGAIN, "not set");
    struct itimerspec is;
    equal(timerfd_gettime(fd, &is) == 0 && is.it_value.tv_sec == 0 && is.it_value.tv_nsec == 0, 1,
          "nothing left of it");
    equal(set(fd, 0, 3600ll * 1000 * MS, 5 * MS), 0, "set for an hour");
    equal(timerfd_gettime(fd, &is) == 0 && is.it_value.tv_sec >= 3598 && is.it_value.tv_sec < 3600, 1,
          "an hour is left");
    equal(is.it_interval.tv_nsec, 5 * MS, "and the interval");
    fails(take(fd), EAGAIN, "nothing yet");
    struct itimerspec new = {{0, 0}, {0, 1}}, old;
    equal(timerfd_settime(fd, 0, &new, &old) == 0 && old.it_value.tv_sec >= 3598 &&
              old.it_interval.tv_nsec == 5 * MS,
          1, "set anew, and told what was before");
    struct pollfd p = {fd, POLLIN, 0};
    equal(poll(&p, 1, 5000) == 1 && p.revents == POLLIN, 1, "it expires");
    equal(take(fd), 1, "once");
    fails(take(fd), EAGAIN, "and no more");
    equal(timerfd_gettime(fd, &is) == 0 && is.it_value.tv_nsec == 0, 1, "nothing is left");
    int64_t start = now(CLOCK_MONOTONIC);
    equal(set(fd, TFD_TIMER_ABSTIME, start - 10 * MS, 2 * MS), 0, "from a moment that is past");
    int64_t times = take(fd), passed = (now(CLOCK_MONOTONIC) - start) / MS;
    equal(times >= 6 && times <= 6 + passed, 1, "all intervals since are counted");
    poll(&p, 1, 5000);
    equal(p.revents == POLLIN && take(fd) >= 1, 1, "and it goes on");
    equal(timerfd_gettime(fd, &is) == 0 && is.it_value.tv_nsec > 0 && is.it_value.tv_nsec <= 2 * MS, 1,
          "what is left is below the interval");
    equal(set(fd, 0, MS, 50 * MS), 0, "one that nobody reads");
    p.revents = 0;
    poll(&p, 1, 5000);
    int64_t expired = now(CLOCK_MONOTONIC);
    while (now(CLOCK_MONOTONIC) < expired + 3 * MS)
        ;
    equal(timerfd_gettime(fd, &is) == 0 && is.it_value.tv_sec == 0 && is.it_value.tv_nsec > 0 &&
              is.it_value.tv_nsec <= 50 * MS,
          1, "goes on meanwhile");
    equal(set(fd, 0, 1, 1), 0, "a nanosecond, again and again");
    poll(&p, 1, 5000);
    equal(take(fd) >= 1, 1, "is counted");
    equal(set(fd, 0, 0, 0), 0, "disarmed");
    fails(take(fd), EAGAIN, "nothing of before is left");
    fails(set(fd, 4, 1, 1), EINVAL, "an unknown flag");
    new.it_value.tv_nsec = 1000000000;
    fails(timerfd_settime(fd, 0, &new, 0), EINVAL, "no time");
    fails(timerfd_settime(0, 0, &(struct itimerspec){{0, 0}, {0, 1}}, 0), EINVAL, "no timer");
    fails(timerfd_settime(999, 0, &(struct itimerspec){{0, 0}, {0, 1}}, 0), EBADF, "nothing");
    fails(syscall(SYS_timerfd_settime, fd, 0, 8, 0), EFAULT, "from nowhere");
    fails(syscall(SYS_timerfd_gettime, fd, 8), EFAULT, "to nowhere");
    fails(timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0), EINVAL, "not on the time of a process");
    fails(timerfd_create(CLOCK_REALTIME, 1), EINVAL, "an unknown flag of create");
    char bytes[8];
    fails(read(fd, bytes, 7), EINVAL, "no room");
    fails(write(fd, bytes, 8), EINVAL, "nothing can be written");
    close(fd);
    /* A reader waits. */
    fd = timerfd_create(CLOCK_REALTIME, 0);
    start = now(CLOCK_MONOTONIC);
    set(fd, 0, 15 * MS, 0);
    equal(take(fd), 1, "a reader waits");
    equal(now(CLOCK_MONOTONIC) - start >= 15 * MS, 1, "long enough");
    set(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, now(CLOCK_REALTIME) + 5 * MS, 0);
    equal(take(fd), 1, "until a moment of the day");
    set(fd, 0, 3 * MS, 3 * MS);
    int64_t all = 0;
    while (all < 5)
        all += take(fd);
    equal(all >= 5, 1, "a repeating one");
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET}, got;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    set(fd, 0, 2 * MS, 0);
    equal(epoll_wait(epoll, &got, 1, 5000), 1, "and one that is watched");
    close(fd), close(epoll);
    /* Set, closed and made again, hundreds of times, each about to ring. */
    for (int i = 0; i < 500; i++) {
        fd = timerfd_create(CLOCK_MONOTONIC, 0);
        set(fd, 0, 1000 * (i % 40), 7 * (i % 3));
        if (i % 5 == 0)
            set(fd, 0, 50000, 0);
        close(fd);
    }
    check(1 == 1 && getpid() > 0, "timers that are closed as they ring");
}

static void clock_jumps(void)
{
    struct timespec day;
    clock_gettime(CLOCK_REALTIME, &day);
    if (geteuid() != 0 || clock_settime(CLOCK_REALTIME, &day) != 0)
        return;
    int fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    set(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, now(CLOCK_REALTIME) + 3600ll * 1000 * MS, 0);
    clock_gettime(CLOCK_REALTIME, &day);
    clock_settime(CLOCK_REALTIME, &day);
    equal(polled(fd, POLLIN), POLLIN, "the clock is set: a timer that watches it is ready");
    fails(take(fd), ECANCELED, "and tells");
    fails(take(fd), EAGAIN, "once");
    clock_gettime(CLOCK_REALTIME, &day);
    clock_settime(CLOCK_REALTIME, &day);
    equal(polled(fd, POLLIN), POLLIN, "the clock is set again");
    equal(set(fd, TFD_TIMER_ABSTIME, now(CLOCK_REALTIME) + 3600ll * 1000 * MS, 0), 0,
          "and the timer, too, which watches it no more");
    fails(take(fd), EAGAIN, "so it tells nothing of the clock");
    fails(set(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, now(CLOCK_REALTIME) + 3600ll * 1000 * MS, 0),
          ECANCELED, "but it is told when it watches again");
    fails(take(fd), EAGAIN, "once");
    struct itimerspec is;
    check(!timerfd_gettime(fd, &is) && is.it_value.tv_sec > 3000, "and is set all the same");
    int other = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    struct pollfd soon = {other, POLLIN, 0};
    set(other, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, now(CLOCK_REALTIME) + 3600ll * 1000 * MS, 0);
    clock_gettime(CLOCK_REALTIME, &day);
    clock_settime(CLOCK_REALTIME, &day);
    equal(set(other, 0, MS, 3600ll * 1000 * MS), 0, "another is set for soon when the clock has been set");
    equal(poll(&soon, 1, 5000), 1, "and expires");
    equal(take(other), 1, "which is all that it tells");
    close(other);
    set(fd, TFD_TIMER_ABSTIME, now(CLOCK_REALTIME) + 3600ll * 1000 * MS, 0);
    clock_gettime(CLOCK_REALTIME, &day);
    day.tv_sec += 7200;
    clock_settime(CLOCK_REALTIME, &day);
    struct pollfd p = {fd, POLLIN, 0};
    equal(poll(&p, 1, 5000) == 1 && take(fd) == 1, 1, "what the clock has jumped over has expired");
    clock_gettime(CLOCK_REALTIME, &day);
    day.tv_sec -= 7200;
    clock_settime(CLOCK_REALTIME, &day);
    close(fd);
}

/* Sets the clock of the day so many seconds on. */
static void jump(int seconds)
{
    struct timespec day;
    clock_gettime(CLOCK_REALTIME, &day);
    day.tv_sec += seconds;
    clock_settime(CLOCK_REALTIME, &day);
}

/* A timer of the day that takes SIGUSR1, an hour from now. */
static timer_t in_an_hour(int flags)
{
    timer_t timer;
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec when = {.it_value.tv_sec = 3600};
    timer_create(CLOCK_REALTIME, &how, &timer);
    if (flags & TIMER_ABSTIME) {
        clock_gettime(CLOCK_REALTIME, &when.it_value);
        when.it_value.tv_sec += 3600;
    }
    timer_settime(timer, flags, &when, NULL);
    return timer;
}

/* A sleep or timer until a moment of the day follows the clock; one over some time does not. */
static void clock_jumps_sleepers(void)
{
    struct timespec day, soon = {.tv_sec = 5}, none = {0};
    clock_gettime(CLOCK_REALTIME, &day);
    if (geteuid() != 0 || clock_settime(CLOCK_REALTIME, &day) != 0)
        return;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    timer_t at = in_an_hour(TIMER_ABSTIME), after = in_an_hour(0);
    jump(7200);
    equal(sigtimedwait(&set, NULL, &soon), SIGUSR1, "a timer's moment that was jumped over has come");
    equal(sigtimedwait(&set, NULL, &none), -1, "after an hour is another thing");
    struct itimerspec left;
    timer_gettime(after, &left);
    check(left.it_value.tv_sec > 3000 && left.it_value.tv_sec <= 3600, "of which all is left");
    jump(-7200);
    timer_delete(at);
    timer_delete(after);
    pid_t child = fork();
    if (child == 0) {
        clock_gettime(CLOCK_REALTIME, &day);
        day.tv_sec += 3600;
        _exit(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &day, NULL));
    }
    char state = 0;
    while (state != 'S') {
        char path[64], text[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", child);
        FILE *file = fopen(path, "r");
        if (file != NULL && fgets(text, sizeof text, file) != NULL && strchr(text, ')') != NULL)
            state = strchr(text, ')')[2];
        if (file != NULL)
            fclose(file);
        sched_yield();
    }
    jump(7200);
    equal(sigtimedwait(&set, NULL, &soon), SIGCHLD, "a sleeper's moment has come");
    kill(child, SIGKILL);
    int status = -1;
    waitpid(child, &status, 0);
    equal(status, 0, "and it goes on");
    jump(-7200);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
    static const struct group all[] = {
        {"counters", counters},
        {"handover", handover},
        {"semaphores", semaphores},
        {"interrupted", interrupted},
        {"flags", flags},
        {"room", room},
        {"adders", adders},
        {"timers", timers},
        {"clock_jumps", clock_jumps},
        {"clock_jumps", clock_jumps_sleepers},
    };
    run_groups(GROUPS(all), "clock_jumps", argc, argv);
    return done();
}
