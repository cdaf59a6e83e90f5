/* Times that are very long, negative or not times at all: a part of `extremes`.
 *
 * Interface: the group times.
 */
#ifndef EXTREMES_TIMES_H
#define EXTREMES_TIMES_H

static void nothing(int signal) { (void)signal; }

/* Sleeps as `how` says, which only a signal ends: 0 when it was EINTR. */
static int sleep_long(long how)
{
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, 0);
    struct itimerval soon = {{0, 20000}, {0, 20000}};
    setitimer(ITIMER_REAL, &soon, 0);
    struct timespec most = {MOST, 999999999}, left = {0};
    struct timeval micro = {MOST, 999999};
    uint32_t word = 0;
    struct epoll_event event;
    long done = 0;
    switch (how) {
    case 0:
        done = call(nanosleep, &most, &left);
        if (left.tv_sec < 1000000000)
            return 2;
        break;
    case 1:
        done = call(clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &most, 0);
        break;
    case 2:
        done = call(clock_nanosleep, CLOCK_REALTIME, TIMER_ABSTIME, &most, 0);
        break;
    case 3:
        done = call(ppoll, 0, 0, &most, 0, 0);
        break;
    case 4:
        done = call(select, 0, 0, 0, 0, &micro);
        break;
    case 5:
        done = call(pselect6, 0, 0, 0, 0, &most, 0);
        break;
    case 6:
        done = call(futex, &word, FUTEX_WAIT, 0, &most, 0, 0);
        break;
    case 7:
        done = call(futex, &word, FUTEX_WAIT_BITSET, 0, &most, 0, -1);
        break;
    case 8: {
        uint64_t set = 1ul << (SIGUSR1 - 1);
        done = call(rt_sigtimedwait, &set, 0, &most, 8ul);
        break;
    }
    case 9:
        done = call(epoll_wait, epoll_create1(0), &event, 1, INT_MAX);
        break;
    case 10:
        done = call(poll, 0, 0, INT_MAX);
        break;
    case 11:
        done = call(futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &most, 0, -1);
        break;
    }
    return done == -1 && errno == EINTR ? 0 : 1;
}

static void times(void)
{
    static const char *const names[] = {
        "nanosleep",
        "clock_nanosleep to the last instant",
        "clock_nanosleep to the last day",
        "ppoll",
        "select",
        "pselect6",
        "FUTEX_WAIT",
        "FUTEX_WAIT_BITSET to the last instant",
        "sigtimedwait",
        "epoll_wait",
        "poll",
        "FUTEX_WAIT_BITSET to the last day",
    };
    for (long how = 0; how < 12; how++) {
        char name[96];
        snprintf(name, sizeof name, "the longest %s ends by a signal, not before", names[how]);
        check(exited(status_of(sleep_long, how), 0), name);
    }
    static const struct timespec wrong[] = {{-1, 0},   {LEAST, 0},   {0, -1},      {0, 1000000000},
                                            {0, MOST}, {MOST, MOST}, {MOST, LEAST}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char name[96];
        snprintf(name, sizeof name, "no call takes %ld s %ld ns for a time", (long)wrong[i].tv_sec,
                 (long)wrong[i].tv_nsec);
        uint32_t word = 0;
        uint64_t set = 0;
        struct timespec time = wrong[i];
        int all = call(nanosleep, &time, 0) == -1 && errno == EINVAL;
        all &= call(clock_nanosleep, CLOCK_MONOTONIC, 0, &time, 0) == -1 && errno == EINVAL;
        all &= call(ppoll, 0, 0, &time, 0, 0) == -1 && errno == EINVAL;
        all &= call(pselect6, 0, 0, 0, 0, &time, 0) == -1 && errno == EINVAL;
        all &= call(futex, &word, FUTEX_WAIT, 0, &time, 0, 0) == -1 && errno == EINVAL;
        all &= call(rt_sigtimedwait, &set, 0, &time, 8ul) == -1 && errno == EINVAL;
        all &= call(clock_settime, CLOCK_REALTIME, &time) == -1 && errno == EINVAL;
        check(all, name);
    }
    struct timespec day = {MOST, 0};
    fails(call(clock_settime, CLOCK_REALTIME, &day), EINVAL, "nobody sets the clock to the last day");
    struct timeval last_day = {MOST, 0};
    fails(call(settimeofday, &last_day, 0), EINVAL, "nor in microseconds");
    fails(call(clock_gettime, INT_MIN, &day), EINVAL, "the clock of the most negative number");
    fails(call(clock_gettime, INT_MAX, &day), EINVAL, "the clock of the last number");
    fails(call(clock_nanosleep, INT_MIN, 0, &day, 0), EINVAL, "sleeping by it");

    struct itimerval longest = {{MOST, 999999}, {MOST, 999999}}, left;
    equal(call(setitimer, ITIMER_REAL, &longest, 0), 0, "the longest interval");
    equal(call(getitimer, ITIMER_REAL, &left), 0, "is asked for");
    check(left.it_value.tv_sec > 1000000000 && left.it_interval.tv_sec > 1000000000, "and is long");
    struct itimerval bad = {{0, 0}, {0, 1000000}};
    fails(call(setitimer, ITIMER_REAL, &bad, 0), EINVAL, "a million microseconds");
    bad.it_value.tv_usec = LEAST;
    fails(call(setitimer, ITIMER_REAL, &bad, 0), EINVAL, "the least microseconds");
    check(call(alarm, UINT_MAX) != 0, "the longest alarm takes its place");
    equal(call(alarm, 0), UINT_MAX, "and has all its seconds left");
    fails(call(setitimer, 3, &longest, 0), EINVAL, "no such timer");

    int id = -1;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = 0};
    fails(call(timer_create, CLOCK_MONOTONIC, &event, &id), EINVAL, "a timer's signal 0");
    event.sigev_signo = 65;
    fails(call(timer_create, CLOCK_MONOTONIC, &event, &id), EINVAL, "a timer's signal past the last");
    event.sigev_signo = INT_MIN;
    fails(call(timer_create, CLOCK_MONOTONIC, &event, &id), EINVAL, "a timer's most negative signal");
    event.sigev_notify = SIGEV_NONE;
    equal(call(timer_create, CLOCK_MONOTONIC, &event, &id), 0, "a timer that tells nobody");
    struct itimerspec at = {{0, 1}, {MOST, 999999999}}, shown;
    equal(call(timer_settime, id, TIMER_ABSTIME, &at, 0), 0,
          "set to the last instant, every nanosecond from there");
    equal(call(timer_gettime, id, &shown), 0, "is asked for");
    check(shown.it_value.tv_sec > 1000000000, "and is far off");
    equal(call(timer_settime, id, 0, &at, &shown), 0, "set to the longest from now");
    at.it_value = (struct timespec){0, 1}, at.it_interval = (struct timespec){MOST, 0};
    equal(call(timer_settime, id, 0, &at, 0), 0, "soon, and again after the longest");
    usleep(1000);
    equal(call(timer_gettime, id, &shown), 0, "asked for after it has expired");
    check(shown.it_value.tv_sec > 1000000000, "it is far off again");
    fails(call(timer_settime, INT_MIN, 0, &at, 0), EINVAL, "the timer of the most negative number");
    fails(call(timer_gettime, INT_MAX, &shown), EINVAL, "the timer of the last number");
    equal(call(timer_delete, id), 0, "deleted");

    int fd = file_of(1);
    struct timespec stamps[2] = {{MOST, 999999999}, {LEAST, 0}};
    equal(call(utimensat, fd, 0, stamps, 0), 0, "the last and the first day for a file");
    struct stat info;
    equal(fstat(fd, &info), 0, "which are asked for");
    char byte;
    equal(pread(fd, &byte, 1, 0), 1, "and it is read");
    stamps[0].tv_nsec = 1000000000;
    fails(call(utimensat, fd, 0, stamps, 0), EINVAL, "a billion nanoseconds");
    stamps[0].tv_nsec = LEAST;
    fails(call(utimensat, fd, 0, stamps, 0), EINVAL, "the least nanoseconds");
    fails(call(utimensat, fd, 0, (void *)-16l, 0), EFAULT, "time stamps at the end of all addresses");
    struct timeval micro[2] = {{0, 1000000}, {0, 0}};
    fails(call(utimes, "/proc/self/exe", micro), EINVAL, "a million microseconds for a file");
    close(fd);
}
#endif
