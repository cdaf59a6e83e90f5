/* A clock that is better than the machine's, told in shared memory as receivers do (refclock SHM of chronyd
 * and ntpd, unit 0): 80 parts in a million faster, and 20 milliseconds ahead when it begins.
 *
 * Interface: refclock SECONDS NANOSECONDS feeds a daemon for so long and then says whether the clock of the
 * day has followed, within so much in the last tenth of the time; TAP on standard output. CLOCK_MONOTONIC_RAW
 * is the measure.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <sys/shm.h>
#include <sys/timex.h>

/* "NTP0", by which the daemons find unit 0. */
#define KEY 0x4e545030
#define SECOND 1000000000ll
#define AHEAD 20000000
#define FASTER 80

struct told {
    int mode;
    volatile int count;
    time_t clock_sec;
    int clock_usec;
    time_t here_sec;
    int here_usec;
    int leap, precision, samples;
    volatile int valid;
    unsigned clock_nsec, here_nsec;
    int unused[8];
};

static int64_t at(clockid_t clock)
{
    struct timespec t = {0};
    clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void tell(struct told *to, int64_t clock, int64_t here)
{
    to->count++;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    to->clock_sec = clock / SECOND, to->clock_nsec = clock % SECOND, to->clock_usec = to->clock_nsec / 1000;
    to->here_sec = here / SECOND, to->here_nsec = here % SECOND, to->here_usec = to->here_nsec / 1000;
    to->leap = 0, to->precision = -20, to->samples = 0;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    to->count++;
    to->valid = 1;
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 0;
    int64_t within = argc > 2 ? atoll(argv[2]) : 0;
    int id = shmget(KEY, sizeof(struct told), IPC_CREAT | 0600);
    struct told *to = id < 0 ? (void *)-1 : shmat(id, 0, 0);
    if (to == (void *)-1) {
        check(0, "the place that daemons look at");
        return done();
    }
    to->mode = 1;
    /* At the machine's own rate. */
    struct timex t = {.modes = ADJ_FREQUENCY | ADJ_TICK | ADJ_STATUS, .tick = 10000, .status = STA_UNSYNC};
    check(adjtimex(&t) >= 0, "the clock is let go");
    int64_t began = at(CLOCK_MONOTONIC_RAW), first = at(CLOCK_REALTIME) + AHEAD, worst = 0, last = 0;
    int forward = 1;
    for (int second = 0; second < seconds; second++) {
        int64_t here = at(CLOCK_REALTIME), passed = at(CLOCK_MONOTONIC_RAW) - began;
        int64_t clock = first + passed + passed * FASTER / 1000000;
        tell(to, clock, here);
        forward &= here > last;
        last = here;
        if (second >= seconds - seconds / 10 && llabs(clock - here) > worst)
            worst = llabs(clock - here);
        if (second % (seconds / 10 + 1) == 0)
            printf("# %d s: %lld ns\n", second, (long long)(clock - here));
        pause_for(1);
    }
    t.modes = 0;
    int state = adjtimex(&t);
    printf("# %lld ns at the end, %.3f parts in a million, state %d\n", (long long)worst,
           t.freq / 65536.0 + (t.tick - 10000) * 100, state);
    check(worst < within, "the clock of the day follows");
    check(forward, "it never goes back");
    double rate = t.freq / 65536.0 + (t.tick - 10000) * 100;
    check(rate > FASTER - 8 && rate < FASTER + 8, "its rate is found");
    return done();
}
