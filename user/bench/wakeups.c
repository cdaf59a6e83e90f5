/* How soon threads run that another wakes, and how long their requests take.
 *
 * Interface: wakeups MESSENGERS WORKERS THINK_US ROUNDS LOCKED MILLISECONDS. Each messenger has so many
 * workers. A worker puts itself on its messenger's list, wakes the messenger and waits; the messenger takes
 * the list, reads the clock once and wakes all that are on it. A request is THINK_US of sleep and then ROUNDS
 * of a product of matrices, where LOCKED is 1 under the mutex of the CPU, so that preemption costs whoever
 * comes next; a turn is from the end of one to the end of the next. After a time to warm up it measures for
 * MILLISECONDS, prints `row wakeups NAME UNIT VALUE` lines, and `end`. Started as /init on Linux it mounts
 * what it needs first and ends the machine afterwards. Nothing here knows which kernel it runs on otherwise.
 *
 * Source: the methodology of schbench's README (Chris Mason); no code of it.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "first-process.h"

#define MESSENGERS_MAX 16
#define WORKERS_MAX 64
#define CPUS_MAX 64
#define SIZE 16
#define WARM_MS 500
/* Of each kind of latency; more is a failure, not a shorter list. */
#define SAMPLES (1 << 18)

/* A word to wait on has one waiter. */
enum { POSTED, WAITING };

struct worker {
    _Alignas(128) atomic_int word;
    struct worker *next;
    struct messenger *messenger;
    /* When the messenger looked at its list. */
    uint64_t woken;
    unsigned long a[SIZE][SIZE], b[SIZE][SIZE], product[SIZE][SIZE];
    pthread_t thread;
};

struct messenger {
    _Alignas(128) atomic_int word;
    _Atomic(struct worker *) list;
    struct worker workers[WORKERS_MAX];
    pthread_t thread;
};

struct latencies {
    const char *name;
    atomic_ulong count;
    uint64_t ns[SAMPLES];
};

static struct messenger messengers[MESSENGERS_MAX];
static struct latencies wakeups = {.name = "wakeup"}, requests = {.name = "request"},
                        turns = {.name = "turn"};
static struct {
    _Alignas(128) pthread_mutex_t mutex;
} locks[CPUS_MAX];
static atomic_int measuring, stopping;
static int workers, rounds, locked;
static long think_us;

static void must(int good, const char *what)
{
    if (!good) {
        printf("fail %s\n", what);
        fflush(stdout);
        _exit(1);
    }
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void pause_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0);
}

static void await(atomic_int *word)
{
    while (atomic_load(word) == WAITING)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, WAITING, 0, 0, 0);
}

static void post(atomic_int *word)
{
    if (atomic_exchange(word, POSTED) == WAITING)
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static void note(struct latencies *all, uint64_t ns)
{
    if (!atomic_load(&measuring))
        return;
    unsigned long at = atomic_fetch_add(&all->count, 1);
    if (at < SAMPLES)
        all->ns[at] = ns;
}

static void multiply(struct worker *me)
{
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            unsigned long sum = 0;
            for (int k = 0; k < SIZE; k++)
                sum += me->a[i][k] * me->b[k][j];
            me->product[i][j] = sum;
        }
    /* Each product is made, also when nobody reads it. */
    __asm__ volatile("" : : : "memory");
}

static void request(struct worker *me)
{
    if (think_us)
        pause_us(think_us);
    /* A worker that moves to another CPU in between has the old one's: as good for the purpose. */
    pthread_mutex_t *lock = locked ? &locks[sched_getcpu() % CPUS_MAX].mutex : 0;
    if (lock)
        pthread_mutex_lock(lock);
    for (int i = 0; i < rounds; i++)
        multiply(me);
    if (lock)
        pthread_mutex_unlock(lock);
}

/* Waits until the messenger has seen it. A messenger looks at its list once more after it has seen that
 * all stop, so a worker that does not see that here is on the list in time. */
static void hand_in(struct worker *me)
{
    struct messenger *to = me->messenger;
    atomic_store(&me->word, WAITING);
    me->next = atomic_load(&to->list);
    while (!atomic_compare_exchange_weak(&to->list, &me->next, me))
        ;
    post(&to->word);
    if (!atomic_load(&stopping))
        await(&me->word);
}

static void *work(void *argument)
{
    struct worker *me = argument;
    uint64_t last = now();
    for (;;) {
        hand_in(me);
        uint64_t begin = now();
        if (atomic_load(&stopping))
            return 0;
        note(&wakeups, begin - me->woken);
        request(me);
        uint64_t end = now();
        note(&requests, end - begin);
        note(&turns, end - last);
        last = end;
    }
}

static void wake_all(struct messenger *me)
{
    struct worker *worker = atomic_exchange(&me->list, 0);
    uint64_t woken = now();
    while (worker) {
        /* Once it is woken it may be on the list again. */
        struct worker *next = worker->next;
        worker->woken = woken;
        post(&worker->word);
        worker = next;
    }
}

static void *message(void *argument)
{
    struct messenger *me = argument;
    for (;;) {
        atomic_store(&me->word, WAITING);
        int last = atomic_load(&stopping);
        wake_all(me);
        if (last)
            return 0;
        await(&me->word);
    }
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void report(struct latencies *all)
{
    static const struct {
        const char *name;
        unsigned thousandths;
    } points[] = {{"p50", 500}, {"p90", 900}, {"p99", 990}, {"p99.9", 999}};
    unsigned long count = all->count;
    must(count > 0 && count <= SAMPLES, "number of samples");
    qsort(all->ns, count, sizeof *all->ns, by_size);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        printf("row wakeups %s_%s ns %lu\n", all->name, points[i].name,
               all->ns[count * points[i].thousandths / 1000]);
    printf("row wakeups %s_maximum ns %lu\n", all->name, all->ns[count - 1]);
}

int main(int argc, char **argv)
{
    int init = as_init(argv[0]);
    must(argc == 7, "words");
    int many = atoi(argv[1]);
    long milliseconds = atol(argv[6]);
    workers = atoi(argv[2]), think_us = atol(argv[3]), rounds = atoi(argv[4]), locked = atoi(argv[5]);
    must(many >= 1 && many <= MESSENGERS_MAX && workers >= 1 && workers <= WORKERS_MAX, "number of threads");
    /* The pages are there before. */
    memset(wakeups.ns, 1, sizeof wakeups.ns);
    memset(requests.ns, 1, sizeof requests.ns);
    memset(turns.ns, 1, sizeof turns.ns);
    for (int i = 0; i < CPUS_MAX; i++)
        pthread_mutex_init(&locks[i].mutex, 0);
    for (int m = 0; m < many; m++)
        for (int w = 0; w < workers; w++) {
            struct worker *worker = &messengers[m].workers[w];
            worker->messenger = &messengers[m];
            for (int i = 0; i < SIZE; i++)
                for (int j = 0; j < SIZE; j++)
                    worker->a[i][j] = i + j, worker->b[i][j] = i - j;
            must(pthread_create(&worker->thread, 0, work, worker) == 0, "a worker");
        }
    for (int m = 0; m < many; m++)
        must(pthread_create(&messengers[m].thread, 0, message, &messengers[m]) == 0, "a messenger");
    pause_us(WARM_MS * 1000);
    uint64_t from = now();
    measuring = 1;
    pause_us(milliseconds * 1000);
    measuring = 0;
    uint64_t spent = now() - from;
    stopping = 1;
    for (int m = 0; m < many; m++) {
        post(&messengers[m].word);
        pthread_join(messengers[m].thread, 0);
        for (int w = 0; w < workers; w++)
            pthread_join(messengers[m].workers[w].thread, 0);
    }
    report(&wakeups);
    report(&requests);
    report(&turns);
    printf("row wakeups requests /s %.2f\n", requests.count * 1e9 / spent);
    printf("end\n");
    fflush(stdout);
    if (init)
        last_words();
    return 0;
}
