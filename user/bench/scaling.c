/* Throughput of independent work on several CPUs: pipes, forks, file reads.
 *
 * Interface: scaling WORKERS MILLISECONDS REPEATS [KIND]. For each kind of work as many processes as WORKERS
 * do it, each on its own objects, for so long; prints `sample KIND OPERATIONS_PER_SECOND` for each repeat,
 * and `end`. Started as /init on Linux it mounts what it needs first and ends the machine afterwards. Nothing
 * here knows which kernel it runs on otherwise.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "first-process.h"

#define WORKERS_MAX 64

/* Each worker's count in a cache line of its own, and so is what all look at: no worker disturbs another
 * by counting. */
struct shared {
    _Alignas(128) volatile int ready, go, stop;
    struct {
        _Alignas(128) volatile uint64_t count;
    } worker[WORKERS_MAX];
};
static struct shared *shared;

static void must(int good, const char *what)
{
    if (!good) {
        printf("fail %s\n", what);
        fflush(stdout);
        _exit(1);
    }
}

static void begin(void)
{
    __sync_fetch_and_add(&shared->ready, 1);
    while (!shared->go)
        usleep(1000);
}

static void pipes(int me)
{
    static char block[1024];
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    begin();
    while (!shared->stop) {
        must(write(ends[1], block, sizeof block) == sizeof block, "write");
        must(read(ends[0], block, sizeof block) == sizeof block, "read");
        shared->worker[me].count++;
    }
}

static void forks(int me)
{
    begin();
    while (!shared->stop) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        int status;
        must(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork");
        shared->worker[me].count++;
    }
}

static void reads(int me)
{
    static char block[4096];
    char name[64];
    sprintf(name, "/tmp/scaling-%d", me);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, block, sizeof block) == sizeof block, "file");
    begin();
    while (!shared->stop) {
        must(pread(fd, block, sizeof block, 0) == sizeof block, "pread");
        must(lseek(fd, 0, SEEK_SET) == 0 && read(fd, block, sizeof block) == sizeof block, "read");
        shared->worker[me].count++;
    }
    close(fd);
    unlink(name);
}

static const struct {
    const char *name;
    void (*run)(int me);
} kinds[] = {{"pipes", pipes}, {"forks", forks}, {"reads", reads}};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t total(int workers)
{
    uint64_t sum = 0;
    for (int i = 0; i < workers; i++)
        sum += shared->worker[i].count;
    return sum;
}

static void measure(const char *name, void (*run)(int), int workers, long milliseconds)
{
    memset(shared, 0, sizeof *shared);
    fflush(stdout);
    for (int i = 0; i < workers; i++) {
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0) {
            run(i);
            _exit(0);
        }
    }
    while (shared->ready < workers)
        usleep(1000);
    shared->go = 1;
    /* The time before warms up and spreads the workers over the CPUs. */
    usleep(milliseconds * 100 + 50000);
    uint64_t from = now(), before = total(workers);
    usleep(milliseconds * 1000);
    uint64_t count = total(workers) - before, spent = now() - from;
    shared->stop = 1;
    int good = 1, status;
    for (int i = 0; i < workers; i++)
        good &= wait(&status) > 0 && status == 0;
    must(good, "a worker");
    printf("sample %s %.0f\n", name, count * 1e9 / spent);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int init = as_init(argv[0]);
    const char *only = argc > 4 ? argv[4] : 0;
    int workers = argc > 1 ? atoi(argv[1]) : 1, repeats = argc > 3 ? atoi(argv[3]) : 3;
    long milliseconds = argc > 2 ? atol(argv[2]) : 1000;
    must(workers >= 1 && workers <= WORKERS_MAX, "workers");
    shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED, "mmap");
    for (int repeat = 0; repeat < repeats; repeat++)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (!only || strcmp(only, kinds[i].name) == 0)
                measure(kinds[i].name, kinds[i].run, workers, milliseconds);
    printf("end\n");
    fflush(stdout);
    if (init)
        last_words();
    return 0;
}
