/* How late a periodic timer's user-level handler runs while the machine is busy with everything else.
 *
 * Interface: lateness SECONDS [signal|sleep]. A 250-µs timer; with `signal` (the default) its handler is a
 * signal's, with `sleep` a thread's that sleeps until each instant. Beside it processes flood the caches,
 * fork, exec, page and do input and output. Prints `row lateness-KIND NAME UNIT VALUE` lines, a histogram
 * (`hist KIND FROM_NS COUNT`), and `end`. Started as /init on Linux it mounts what it needs first and ends
 * the machine afterwards; the handler asks for real-time priority, which kernels without it may refuse.
 *
 * Source: Hohmuth and Härtig, section 5.1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "first-process.h"

#define PERIOD_NS 250000ull
#define SECOND_NS 1000000000ull
/* The histogram's cells: exact to a microsecond up to 4 ms, then one for all the rest. */
#define CELL_NS 1000
#define CELLS 4096

static const char *self;
static uint64_t start, instants, last, seconds;
static volatile int over;
static uint64_t cells[CELLS + 1], samples, missed, again, early, maximum, sum, worst_at;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND_NS + t.tv_nsec;
}

/* One run of the handler, for the first instant that has not been handled.
 *
 * A run that reads the clock when the next instant has come, too, handles both. If the kernel had set its
 * timer for that one before, as Linux does when it delivers the signal, it sends another signal for it:
 * that run finds nothing due, soon after the instant. A run that comes before its time finds nothing due
 * either, but long after the last instant. */
static void handled(void)
{
    uint64_t t = now(), due = start + (last + 1) * PERIOD_NS;
    if (t < due) {
        if (due - t > PERIOD_NS / 2)
            again++;
        else
            early++;
        return;
    }
    uint64_t late = t - due;
    uint64_t reached = (t - start) / PERIOD_NS;
    missed += reached - last - 1;
    last = reached;
    samples++;
    sum += late;
    cells[late / CELL_NS < CELLS ? late / CELL_NS : CELLS]++;
    if (late > maximum) {
        maximum = late;
        worst_at = t - start;
    }
    if (last >= instants)
        over = 1;
}

static void on_alarm(int signo)
{
    (void)signo;
    if (!over)
        handled();
}

static void by_signal(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, 0);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer)) {
        printf("fail timer_create\n");
        return;
    }
    start = now() + SECOND_NS;
    uint64_t first = start + PERIOD_NS;
    struct itimerspec times = {{0, PERIOD_NS}, {first / SECOND_NS, first % SECOND_NS}};
    timer_settime(timer, TIMER_ABSTIME, &times, 0);
    while (!over)
        pause();
    timer_delete(timer);
}

static void by_sleep(void)
{
    start = now() + SECOND_NS;
    while (!over) {
        uint64_t due = start + (last + 1) * PERIOD_NS;
        struct timespec at = {due / SECOND_NS, due % SECOND_NS};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, 0);
        handled();
    }
}

/* --- the load: each runs until it is killed --- */

static void die_on_failure(int good)
{
    if (!good)
        _exit(1);
}

static void flood(void)
{
    enum { SIZE = 8 << 20 };
    char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    die_on_failure(memory != MAP_FAILED);
    for (;;)
        for (long at = 0; at < SIZE; at += 64)
            memory[at]++;
}

static void forks(void)
{
    enum { SIZE = 1 << 20 };
    char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    die_on_failure(memory != MAP_FAILED);
    memset(memory, 1, SIZE);
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            /* A few pages of its own, by copying. */
            for (long at = 0; at < SIZE / 8; at += 4096)
                memory[at]++;
            _exit(0);
        }
        die_on_failure(child > 0 && waitpid(child, 0, 0) == child);
    }
}

static void execs(void)
{
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            execl(self, "lateness", "nothing", (char *)0);
            _exit(1);
        }
        int status = 1;
        die_on_failure(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
}

static void pages(void)
{
    enum { SIZE = 2 << 20 };
    for (;;) {
        char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        die_on_failure(memory != MAP_FAILED);
        for (long at = 0; at < SIZE; at += 4096)
            memory[at] = 1;
        die_on_failure(mprotect(memory, SIZE / 2, PROT_READ) == 0);
        die_on_failure(munmap(memory, SIZE) == 0);
    }
}

static void files(void)
{
    enum { SIZE = 256 << 10 };
    static char block[SIZE];
    for (;;) {
        int fd = open("/tmp/lateness-file", O_RDWR | O_CREAT | O_TRUNC, 0600);
        die_on_failure(fd >= 0);
        for (int i = 0; i < 4; i++)
            die_on_failure(write(fd, block, SIZE) == SIZE);
        die_on_failure(lseek(fd, 0, SEEK_SET) == 0);
        for (int i = 0; i < 4; i++)
            die_on_failure(read(fd, block, SIZE) == SIZE);
        close(fd);
        die_on_failure(unlink("/tmp/lateness-file") == 0);
    }
}

static void pipes(void)
{
    static char block[16384];
    int ends[2];
    die_on_failure(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        /* When its parent is killed it finds the end. */
        close(ends[1]);
        while (read(ends[0], block, sizeof block) > 0)
            ;
        _exit(0);
    }
    die_on_failure(child > 0);
    close(ends[0]);
    for (long size = 1;; size = size * 7 % (long)sizeof block + 1)
        die_on_failure(write(ends[1], block, size) == size);
}

static const struct {
    const char *name;
    void (*run)(void);
} loads[] = {{"flood", flood}, {"forks", forks}, {"execs", execs},
             {"pages", pages}, {"files", files}, {"pipes", pipes}};
#define LOADS (int)(sizeof loads / sizeof *loads)

static int chosen(const char *list, const char *name) { return !list || strstr(list, name); }

static uint64_t percentile(uint64_t thousandths)
{
    uint64_t below = samples * thousandths / 100000, seen = 0;
    int i;
    /* The last cell has everything beyond: its edge is above the maximum. */
    for (i = 0; i < CELLS; i++)
        if ((seen += cells[i]) > below)
            break;
    uint64_t edge = seen > below ? (uint64_t)(i + 1) * CELL_NS : maximum;
    return edge < maximum ? edge : maximum;
}

static void report(const char *kind)
{
    static const struct {
        const char *name;
        uint64_t thousandths;
    } points[] = {{"median", 50000}, {"p99", 99000}, {"p99.9", 99900}, {"p99.99", 99990}, {"p99.999", 99999}};
    printf("row lateness-%s samples count %lu\n", kind, samples);
    printf("row lateness-%s missed_instants count %lu\n", kind, missed);
    printf("row lateness-%s mean ns %lu\n", kind, samples ? sum / samples : 0);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        printf("row lateness-%s %s ns %lu\n", kind, points[i].name, percentile(points[i].thousandths));
    printf("row lateness-%s maximum ns %lu\n", kind, maximum);
    printf("note lateness-%s worst %lu ns after the start, %lu again, %lu early\n", kind, worst_at, again,
           early);
    /* Cells that double, as the histogram is long. */
    for (uint64_t from = 0, to = 1; from < CELLS; from = to, to *= 2) {
        uint64_t count = 0;
        for (uint64_t i = from; i < to && i < CELLS; i++)
            count += cells[i];
        if (count)
            printf("hist %s %lu %lu\n", kind, from * CELL_NS, count);
    }
    if (cells[CELLS])
        printf("hist %s %lu %lu\n", kind, (uint64_t)CELLS * CELL_NS, cells[CELLS]);
}

int main(int argc, char **argv)
{
    int init = as_init(argv[0]);
    self = argv[0];
    if (argc == 2 && strcmp(argv[1], "nothing") == 0)
        return 0;
    seconds = argc > 1 ? strtoul(argv[1], 0, 10) : 5;
    const char *kind = argc > 2 ? argv[2] : "signal", *list = argc > 3 ? argv[3] : 0;
    instants = seconds * SECOND_NS / PERIOD_NS;
    pid_t children[LOADS];
    fflush(stdout);
    for (int i = 0; i < LOADS; i++)
        if ((children[i] = chosen(list, loads[i].name) ? fork() : 0) == 0 && chosen(list, loads[i].name)) {
            loads[i].run();
            _exit(0);
        }
    struct sched_param param = {.sched_priority = 90};
    if (sched_setscheduler(0, SCHED_FIFO, &param))
        printf("note no real-time priority\n");
    mlockall(MCL_CURRENT | MCL_FUTURE);
    if (strcmp(kind, "sleep") == 0)
        by_sleep();
    else
        by_signal();
    param.sched_priority = 0;
    sched_setscheduler(0, SCHED_OTHER, &param);
    for (int i = 0; i < LOADS; i++)
        if (children[i]) {
            int status;
            kill(children[i], SIGKILL);
            if (waitpid(children[i], &status, 0) == children[i] && !WIFSIGNALED(status))
                printf("fail the load %s ended\n", loads[i].name);
        }
    report(kind);
    printf("end\n");
    fflush(stdout);
    if (init)
        last_words();
    return 0;
}
