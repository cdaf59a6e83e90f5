/* The clock of the day follows a better one: adjtimex, adjtime, leap seconds, atomic time. The battery clock:
 * its date, events and alarm.
 *
 * Interface: clocks [GROUP...] runs all groups or those named; TAP on standard output. It wants user 0, and
 * sets the clock. CLOCK_MONOTONIC_RAW is the measure.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/rtc.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PPM (1 << 16)

static int64_t at(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* How far the clock of the day is ahead of the machine's: the least of a few readings of their difference. */
static int64_t ahead(void) { return at(CLOCK_REALTIME) - at(CLOCK_MONOTONIC_RAW); }

/* Nanoseconds that the clock of the day gains in so many seconds. */
static int64_t gain(double seconds)
{
    int64_t before = ahead();
    pause_for(seconds);
    return ahead() - before;
}

static int adjust(unsigned modes, struct timex *t)
{
    t->modes = modes;
    return adjtimex(t);
}

static int near(int64_t value, int64_t wanted, int64_t off)
{
    if (llabs(value - wanted) > off)
        printf("# %lld instead of %lld\n", (long long)value, (long long)wanted);
    return llabs(value - wanted) <= off;
}

static void rate(void)
{
    struct timex t = {0};
    check(near(gain(1), 0, 2000), "the clock goes as the machine's");
    t.freq = 100 * PPM;
    check(adjust(ADJ_FREQUENCY, &t) >= 0, "a frequency");
    check(near(gain(4), 400000, 4000), "it gains so much");
    t.freq = -200 * PPM;
    adjust(ADJ_FREQUENCY, &t);
    check(near(gain(2), -400000, 4000), "or loses");
    t.freq = 1000 * PPM;
    adjust(ADJ_FREQUENCY, &t);
    adjust(0, &t);
    check(t.freq == 500 * PPM, "by at most half a thousandth");
    t.freq = 0;
    adjust(ADJ_FREQUENCY, &t);
    t.tick = 10010;
    check(adjust(ADJ_TICK, &t) >= 0 && near(gain(1), 1000000, 4000), "a tick changes the rate too");
    t.tick = 10000;
    adjust(ADJ_TICK, &t);
    check(near(gain(1), 0, 2000), "and back");
    t.tick = 8999;
    errno = 0;
    check(adjust(ADJ_TICK, &t) == -1 && errno == EINVAL, "within bounds");
    pid_t pid = fork();
    if (pid == 0) {
        t.freq = 0;
        if (setresuid(1000, 1000, 1000))
            _exit(2);
        int read_only = adjust(0, &t) >= 0;
        errno = 0;
        _exit(read_only && adjust(ADJ_FREQUENCY, &t) == -1 && errno == EPERM ? 0 : 1);
    }
    check(status_of(pid) == 0, "others may look and not touch");
}

static void by_hand(void)
{
    struct timeval by = {0, 1000}, left = {0};
    check(adjtime(&by, 0) == 0, "adjtime");
    check(near(gain(0.5), 250000, 10000), "is made at half a thousandth of the rate");
    check(adjtime(0, &left) == 0 && left.tv_usec > 0 && left.tv_usec < 1000, "the rest is told");
    pause_for(3);
    check(near(gain(1), 0, 2000), "and has an end");
    by.tv_usec = 0, by.tv_sec = 1;
    adjtime(&by, 0);
    by.tv_sec = 0;
    check(adjtime(&by, &left) == 0 && left.tv_sec * 1000000 + left.tv_usec > 998000 &&
              near(gain(2), 0, 510000),
          "another takes its place");
}

/* A better clock runs 80 parts in a million faster than the machine's, and begins 20 ms ahead. It is
   looked at every 16 seconds, with up to 20 microseconds of noise. */
static void followed(void)
{
    struct timex t = {0};
    t.status = STA_PLL | STA_NANO;
    check(adjust(ADJ_STATUS | ADJ_NANO, &t) >= 0, "the loop is asked for");
    t.constant = 2;
    adjust(ADJ_TIMECONST, &t);
    int64_t began = at(CLOCK_MONOTONIC_RAW), first = at(CLOCK_REALTIME) + 20000000, last = 0, worst = 0;
    unsigned seed = 1;
    int forward = 1;
    for (int i = 0; i < 120; i++) {
        int64_t passed = at(CLOCK_MONOTONIC_RAW) - began, now = at(CLOCK_REALTIME);
        forward &= now > last;
        last = now;
        int64_t offset = first + passed + passed * 80 / 1000000 - now;
        if (i >= 100 && llabs(offset) > worst)
            worst = llabs(offset);
        seed = seed * 1103515245 + 12345;
        t.offset = offset + (int)(seed >> 16) % 40001 - 20000;
        adjust(ADJ_OFFSET, &t);
        pause_for(16);
    }
    adjust(0, &t);
    printf("# %lld ns, %.3f parts in a million\n", (long long)worst, t.freq / (double)PPM);
    check(worst < 100000, "the clock follows to a tenth of a millisecond");
    check(near(t.freq, 80 * PPM, 4 * PPM), "its rate is found");
    check(forward, "it never goes back");
    t.freq = 0, t.status = STA_UNSYNC;
    adjust(ADJ_FREQUENCY | ADJ_STATUS, &t);
    check(near(gain(1), 0, 2000), "until it is let go");
}

/* 23:59:57 of a day. */
#define EVE (20000 * 86400ll - 3)

static int begin_eve(int leap)
{
    struct timespec eve = {EVE, 0};
    struct timex t = {0};
    t.status = 0;
    adjust(ADJ_STATUS, &t);
    t.constant = 37;
    adjust(ADJ_TAI, &t);
    t.maxerror = 0;
    adjust(ADJ_MAXERROR, &t);
    clock_settime(CLOCK_REALTIME, &eve);
    t.status = leap;
    return adjust(ADJ_STATUS, &t);
}

static void leaps(void)
{
    struct timex t = {0};
    int seen[6] = {0}, states = 0, steady = 1;
    check(begin_eve(STA_INS) == TIME_INS, "a second is to come twice");
    int64_t began = at(CLOCK_MONOTONIC_RAW), atomic = at(CLOCK_TAI);
    while (at(CLOCK_MONOTONIC_RAW) - began < 5400000000ll) {
        int64_t second = at(CLOCK_REALTIME) / 1000000000 - EVE;
        if (second >= 0 && second < 6)
            seen[second]++;
        states |= 1 << adjust(0, &t);
        int64_t passed = at(CLOCK_MONOTONIC_RAW) - began;
        steady &= llabs(at(CLOCK_TAI) - atomic - passed) < 10000000;
        pause_for(0.1);
    }
    printf("# %d %d %d %d %d\n", seen[0], seen[1], seen[2], seen[3], seen[4]);
    check(seen[2] >= 18 && seen[1] < 12 && seen[3] < 12, "the last second of the day comes twice");
    check(states == (1 << TIME_INS | 1 << TIME_OOP | 1 << TIME_WAIT), "the state says so");
    check(steady && t.tai == 38, "atomic time goes on");
    check(begin_eve(STA_DEL) == TIME_DEL, "a second is to be left out");
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < 35; i++) {
        int64_t second = at(CLOCK_REALTIME) / 1000000000 - EVE;
        if (second >= 0 && second < 6)
            seen[second]++;
        pause_for(0.1);
    }
    check(seen[1] >= 8 && seen[2] <= 1 && seen[3] >= 8, "and is");
    check(adjust(0, &t) == TIME_WAIT, "the state says so");
    t.status = 0;
    check(adjust(ADJ_STATUS, &t) == TIME_OK && t.tai == 36, "and goes back");
}

static time_t date_of(int fd)
{
    struct rtc_time t;
    if (ioctl(fd, RTC_RD_TIME, &t))
        return -1;
    struct tm tm = {.tm_sec = t.tm_sec,
                    .tm_min = t.tm_min,
                    .tm_hour = t.tm_hour,
                    .tm_mday = t.tm_mday,
                    .tm_mon = t.tm_mon,
                    .tm_year = t.tm_year};
    return timegm(&tm);
}

static struct rtc_time as_date(time_t at)
{
    struct tm tm;
    gmtime_r(&at, &tm);
    return (struct rtc_time){.tm_sec = tm.tm_sec,
                             .tm_min = tm.tm_min,
                             .tm_hour = tm.tm_hour,
                             .tm_mday = tm.tm_mday,
                             .tm_mon = tm.tm_mon,
                             .tm_year = tm.tm_year};
}

static int refuses(int fd, unsigned long command, void *argument, int error)
{
    errno = 0;
    return ioctl(fd, command, argument) == -1 && errno == error;
}

/* The next events, and the nanoseconds until they have come. */
static unsigned long event(int fd, int64_t *passed)
{
    unsigned long events = 0;
    int64_t began = at(CLOCK_MONOTONIC_RAW);
    if (read(fd, &events, sizeof events) != sizeof events)
        events = 0;
    *passed = at(CLOCK_MONOTONIC_RAW) - began;
    return events;
}

static void battery(void)
{
    int fd = open("/dev/rtc", O_RDONLY | O_CLOEXEC), steady = 1, follow = 1;
    check(fd >= 0 && llabs(date_of(fd) - time(0)) <= 2, "the battery clock has the date");
    errno = 0;
    check(open("/dev/rtc0", O_RDONLY) == -1 && errno == EBUSY, "one has it at a time");
    int64_t passed;
    unsigned long events;
    check(ioctl(fd, RTC_UIE_ON, 0) == 0, "an event each second");
    event(fd, &passed);
    for (int i = 0; i < 3; i++) {
        time_t before = date_of(fd);
        events = event(fd, &passed);
        steady &= events == (1 << 8 | RTC_IRQF | RTC_UF) && near(passed, 1000000000, 1000000);
        follow &= date_of(fd) == before + 1;
    }
    check(steady && follow, "comes when the date changes");
    pause_for(2.5);
    struct pollfd ready = {fd, POLLIN, 0};
    check(poll(&ready, 1, 0) == 1 && event(fd, &passed) == (2 << 8 | RTC_IRQF | RTC_UF),
          "those that were missed are counted");
    check(ioctl(fd, RTC_UIE_OFF, 0) == 0 && poll(&ready, 1, 1500) == 0, "until it is switched off");
    unsigned long rate = 0;
    check(ioctl(fd, RTC_IRQP_READ, &rate) == 0 && rate == 1024 && ioctl(fd, RTC_IRQP_SET, 32) == 0, "a rate");
    ioctl(fd, RTC_PIE_ON, 0);
    int64_t sum = 0;
    for (int i = 0; i < 16; i++) {
        events = event(fd, &passed);
        steady &= (events & 255) == (RTC_IRQF | RTC_PF);
        sum += passed;
    }
    check(steady && near(sum, 500000000, 1000000), "is that of the periodic events");
    pause_for(0.02);
    ioctl(fd, RTC_UIE_ON, 0);
    ioctl(fd, RTC_UIE_OFF, 0);
    check((event(fd, &passed) & RTC_PF) && near(passed, 11250000, 1000000),
          "which keep their beat while others begin and end");
    ioctl(fd, RTC_PIE_OFF, 0);
    check(refuses(fd, RTC_IRQP_SET, 0, EINVAL) && refuses(fd, RTC_IRQP_SET, (void *)8193, EINVAL),
          "within bounds");
    struct rtc_time date = as_date(date_of(fd) + 2);
    struct rtc_wkalrm wake = {0};
    check(ioctl(fd, RTC_ALM_SET, &date) == 0 && ioctl(fd, RTC_AIE_ON, 0) == 0 &&
              ioctl(fd, RTC_WKALM_RD, &wake) == 0 && wake.enabled && wake.time.tm_sec == date.tm_sec &&
              wake.time.tm_mday == date.tm_mday,
          "an alarm");
    events = event(fd, &passed);
    check(events == (1 << 8 | RTC_IRQF | RTC_AF) && passed > 900000000 && passed < 2100000000 &&
              timegm(&(struct tm){.tm_sec = date.tm_sec,
                                  .tm_min = date.tm_min,
                                  .tm_hour = date.tm_hour,
                                  .tm_mday = date.tm_mday,
                                  .tm_mon = date.tm_mon,
                                  .tm_year = date.tm_year}) == date_of(fd),
          "rings at its time");
    check(ioctl(fd, RTC_WKALM_RD, &wake) == 0 && !wake.enabled, "once");
    wake.enabled = 1;
    wake.time = as_date(date_of(fd));
    check(refuses(fd, RTC_WKALM_SET, &wake, ETIME), "and in the future");
    time_t now = date_of(fd), other = 2000000000;
    struct rtc_time wrong = as_date(now), old = as_date(now - 60ll * 86400 * 365);
    wrong.tm_mon = 12;
    check(refuses(fd, RTC_SET_TIME, &wrong, EINVAL) && refuses(fd, RTC_SET_TIME, &old, EINVAL) &&
              refuses(fd, RTC_ALM_SET, &(struct rtc_time){.tm_hour = 24}, EINVAL),
          "a wrong date");
    wrong.tm_mon = -1;
    check(refuses(fd, RTC_SET_TIME, &wrong, EINVAL) && refuses(fd, RTC_RD_TIME, (void *)8, EFAULT) &&
              refuses(fd, 0x7100, 0, ENOTTY),
          "other wrong calls");
    pid_t pid = fork();
    if (pid == 0) {
        if (setresuid(1000, 1000, 1000))
            _exit(2);
        date = as_date(now);
        _exit(refuses(fd, RTC_SET_TIME, &date, EACCES) && refuses(fd, RTC_IRQP_SET, (void *)128, EACCES) &&
                      date_of(fd) > 0
                  ? 0
                  : 1);
    }
    check(status_of(pid) == 0, "others may look and not touch");
    date = as_date(other);
    check(ioctl(fd, RTC_SET_TIME, &date) == 0 && llabs(date_of(fd) - other) <= 1, "it is set");
    char few[3];
    errno = 0;
    check(read(fd, few, sizeof few) == -1 && errno == EINVAL, "a read of too little");
    close(fd);
    fd = open("/dev/rtc0", O_RDONLY | O_NONBLOCK);
    check(fd >= 0 && llabs(date_of(fd) - other) <= 2, "the chip has kept it");
    errno = 0;
    check(read(fd, &events, sizeof events) == -1 && errno == EAGAIN, "nothing to read, and nobody who waits");
    date = as_date(now);
    ioctl(fd, RTC_SET_TIME, &date);
    close(fd);
}

static const struct group groups[] = {
    {"battery", battery}, {"rate", rate}, {"by_hand", by_hand}, {"followed", followed}, {"leaps", leaps},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
