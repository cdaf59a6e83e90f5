/* Stops random threads of other processes, and of the kernel, for a while each: the machine must go on.
 *
 * Interface: stopper SECONDS [HOLD_MS]. A load of processes and threads works all the time while threads out
 * of /syn/threads are stopped or suspended natively for HOLD_MS milliseconds (1000 unless given), several at
 * a time. In the end all are let go, and every process of the load must end in order. Prints `ok ...` or `not
 * ok ...`.
 */
#define _GNU_SOURCE
#include "synthesis.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

enum { WORKERS = 6, AT_ONCE = 4, MOST = 512 };

static struct shared {
    volatile long rounds[WORKERS];
    volatile int quit;
} *shared;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void nap(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, 0);
}

static void *adds(void *sum)
{
    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add((long *)sum, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Pipes, files, memory, children, threads: whatever a thread may be in the middle of. */
static int work(int self)
{
    char name[64];
    sprintf(name, "/tmp/stopper-%d", self);
    while (!shared->quit) {
        int ends[2], status;
        char c = 'x';
        long sum = 0;
        pthread_t thread;
        if (pipe(ends))
            return 1;
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 50; i++)
                if (write(ends[1], &c, 1) != 1)
                    _exit(1);
            _exit(0);
        }
        close(ends[1]);
        for (int got = 0; read(ends[0], &c, 1) == 1; got++)
            if (c != 'x')
                return 2;
        close(ends[0]);
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            return 3;
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || write(fd, name, sizeof name) != sizeof name)
            return 4;
        close(fd);
        char *page = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            return 5;
        memset(page, self, 65536);
        munmap(page, 65536);
        if (pthread_create(&thread, 0, adds, &sum) || pthread_join(thread, 0) || sum != 1000)
            return 6;
        shared->rounds[self]++;
    }
    return 0;
}

/* The handles of all threads but this one's; how many. */
static int list(syn_thread *threads)
{
    char line[256];
    int count = 0;
    syn_thread self = syn_handle(0);
    FILE *f = fopen("/syn/threads", "r");
    while (f && count < MOST && fgets(line, sizeof line, f)) {
        char *last = strrchr(line, ' ');
        syn_thread handle = last ? atol(last + 1) : 0;
        if (handle > 0 && handle != self)
            threads[count++] = handle;
    }
    if (f)
        fclose(f);
    return count;
}

int main(int argc, char **argv)
{
    static syn_thread threads[MOST];
    syn_thread held[AT_ONCE];
    double seconds = argc > 1 ? atof(argv[1]) : 10, end;
    long hold_ms = argc > 2 ? atol(argv[2]) : 1000, stops = 0, kernels = 0, sleepers = 0, refused = 0,
         total = 0;
    int bad = 0, status;
    unsigned seed = 1;
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < WORKERS; i++)
        if (fork() == 0)
            _exit(work(i));
    end = now() + seconds;
    while (now() < end) {
        int count = list(threads), taken = 0;
        for (int tries = 0; count && taken < AT_ONCE && tries < 4 * AT_ONCE; tries++) {
            syn_thread thread = threads[rand_r(&seed) % count];
            long result = tries % 2 ? syn_stop(thread) : syn_suspend(thread);
            long state = result == 0 ? syn_state(thread) : 0;
            if (result == 0) {
                held[taken++] = thread;
                stops++;
                kernels += state > 0 && (state & SYN_KERNEL) != 0;
                sleepers += state > 0 && (state & SYN_ASLEEP) != 0;
            } else {
                refused++;
            }
        }
        nap(hold_ms);
        while (taken > 0)
            syn_resume(held[--taken]);
        /* Everybody who is not stopped gets on, and so do those who were. */
        nap(hold_ms / 4 + 1);
    }
    shared->quit = 1;
    for (int i = 0; i < WORKERS; i++)
        if (wait(&status) < 0 || status)
            bad |= status | 1;
    for (int i = 0; i < WORKERS; i++) {
        total += shared->rounds[i];
        if (shared->rounds[i] == 0)
            bad = 1;
    }
    if (bad || stops == 0 || kernels == 0) {
        printf("not ok status %x, %ld stops, %ld of the kernel's threads\n", bad, stops, kernels);
        return 1;
    }
    printf(
        "ok %ld stops (%ld of the kernel's threads, %ld in their sleep), %ld refused, %ld rounds of work\n",
        stops, kernels, sleepers, refused, total);
    return 0;
}
