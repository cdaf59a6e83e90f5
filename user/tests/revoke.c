/* Takes a page away from threads on other CPUs that read it all the time: none may read it afterwards.
 *
 * Interface: revoke ROUNDS. Prints `ok ...`, or `not ok ...` with status 1.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, READERS = 3 };

static volatile char *page;
static atomic_long revoked; /* the round in which the page is gone now, or 0 */
static atomic_long reads, faults, stale;
static atomic_int stop;
static __thread sigjmp_buf back;

static void on_fault(int signal)
{
    (void)signal;
    faults++;
    siglongjmp(back, 1);
}

static void *reader(void *unused)
{
    (void)unused;
    while (!stop) {
        if (sigsetjmp(back, 1)) {
            while (revoked && !stop)
                ;
            continue;
        }
        while (!stop) {
            long before = revoked;
            (void)*page;
            reads++;
            /* The page was gone before the read and still is after it, yet the read succeeded. */
            if (before && revoked == before)
                stale++;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    pthread_t threads[READERS];

    sigaction(SIGSEGV, &action, 0);
    page = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
    for (int i = 0; i < READERS; i++)
        pthread_create(&threads[i], 0, reader, 0);
    for (long round = 1; round <= rounds; round++) {
        void *at = (void *)page;
        int gone = round % 2;
        usleep(50);
        if (gone)
            munmap(at, PAGE);
        else
            mprotect(at, PAGE, PROT_NONE);
        revoked = round;
        for (volatile int i = 0; i < 2000; i++)
            ;
        revoked = 0;
        if (gone)
            mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        else
            mprotect(at, PAGE, PROT_READ | PROT_WRITE);
    }
    stop = 1;
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], 0);
    printf("%s %ld reads, %ld faults, %ld of a page that was gone\n", stale ? "not ok" : "ok", (long)reads,
           (long)faults, (long)stale);
    return stale != 0;
}
