/* Threads of one process that touch, map, unmap and protect memory at once; every byte is checked.
 *
 * Interface: pages ROUNDS [forks]. With the second word threads also fork, one at a time. Prints `ok ...`, or
 * `not ok ...` with status 1. Nothing here knows which kernel it runs on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, THREADS = 4, COMMON = 16, OWN = 32, FILE_PAGES = 40 };

static long rounds;
static int with_forks;
static unsigned char *common; /* each thread has a byte in each page */
static int file;
static atomic_long touches, forks, changes;
static pthread_barrier_t meeting;
static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER; /* one thread at a time waits for a child */

static void fail(const char *what, long is, long should)
{
    printf("not ok %s: %ld, not %ld\n", what, is, should);
    fflush(stdout);
    _exit(1);
}

static void is(const char *what, long value, long should)
{
    if (value != should)
        fail(what, value, should);
}

static unsigned char of_file(long page) { return page * 7 + 1; }

static unsigned char *map(void *at, long pages, int flags, int from)
{
    unsigned char *got =
        mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, flags | (at ? MAP_FIXED : 0), from, 0);
    if (got == MAP_FAILED)
        fail("mmap", 0, 1);
    changes++;
    return got;
}

/* A child that sees what was there at the fork, and writes over it. */
static void check_fork(unsigned char *own, const unsigned char *should, int me, const unsigned char *mine)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < OWN; i++) {
            if (own[i * PAGE] != should[i])
                _exit(2);
            own[i * PAGE] = 0xee;
        }
        for (int i = 0; i < COMMON; i++) {
            volatile unsigned char *byte = &common[i * PAGE + me];
            if (*byte != mine[i])
                _exit(3);
            *byte = 0xee;
        }
        _exit(0);
    }
    /* Writes that race with the child's, at the same frames. */
    for (int i = 0; i < COMMON; i++)
        is("common after fork", common[i * PAGE + me]++, mine[i]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        fail("fork", child, 1);
    is("status", status, 0);
    forks++;
}

static void *thread(void *argument)
{
    int me = (int)(intptr_t)argument;
    unsigned long random = me + 1;
    unsigned char should[OWN] = {0}, mine[COMMON] = {0};
    /* A page more at both ends: a page that is unmapped leaves a hole in which no other thread's mapping
     * fits. */
    unsigned char *own = map(0, OWN + 2, MAP_PRIVATE | MAP_ANONYMOUS, -1) + PAGE;
    for (long round = 0; round < rounds; round++) {
        random = random * 6364136223846793005ul + 1442695040888963407ul;
        int page = (random >> 33) % OWN, kind = (random >> 48) % 32;
        unsigned char value = random >> 56;
        unsigned char *at = own + page * PAGE;
        if (kind < 12) {
            is("own", *at, should[page]);
            should[page] = *at = value;
        } else if (kind < 24) {
            unsigned char *byte = &common[page % COMMON * PAGE + me];
            is("common", *byte, mine[page % COMMON]);
            mine[page % COMMON] = *byte = value;
        } else if (kind < 26) {
            munmap(at, PAGE);
            map(at, 1, MAP_PRIVATE | MAP_ANONYMOUS, -1);
            should[page] = 0;
        } else if (kind < 28) {
            int count = OWN - page < 20 ? OWN - page : 20;
            map(at, count, MAP_PRIVATE, file);
            for (int i = 0; i < count; i++)
                should[page + i] = of_file(i);
        } else if (kind < 29) {
            mprotect(at, PAGE, PROT_READ);
            is("read-only", *at, should[page]);
            mprotect(at, PAGE, PROT_READ | PROT_WRITE);
            changes += 2;
        } else if (kind < 30) {
            madvise(at, PAGE, MADV_DONTNEED);
            map(at, 1, MAP_PRIVATE | MAP_ANONYMOUS, -1);
            should[page] = 0;
        } else if (kind < 31) {
            /* Much that is fresh, so that tables are made and go. */
            unsigned char *fresh = map(0, 600, MAP_PRIVATE | MAP_ANONYMOUS, -1);
            for (int i = 0; i < 600; i += 50) {
                is("fresh", fresh[i * PAGE], 0);
                fresh[i * PAGE] = 1;
            }
            munmap(fresh, 600 * PAGE);
        } else if (with_forks && round % 4 == me) {
            pthread_mutex_lock(&forking);
            check_fork(own, should, me, mine);
            pthread_mutex_unlock(&forking);
            for (int i = 0; i < COMMON; i++)
                mine[i]++;
        }
        touches++;
    }
    for (int i = 0; i < OWN; i++)
        is("own at the end", own[i * PAGE], should[i]);
    for (int i = 0; i < COMMON; i++)
        is("common at the end", common[i * PAGE + me], mine[i]);
    munmap(own - PAGE, (OWN + 2) * PAGE);
    /* All at each page at once, when it is empty. */
    static unsigned char *fresh;
    for (int again = 0; again < 20; again++) {
        if (pthread_barrier_wait(&meeting) == PTHREAD_BARRIER_SERIAL_THREAD)
            fresh = map(0, COMMON, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        pthread_barrier_wait(&meeting);
        for (int i = 0; i < COMMON; i++)
            fresh[i * PAGE + me] = me + 1;
        pthread_barrier_wait(&meeting);
        for (int i = 0; i < COMMON; i++)
            for (int other = 0; other < THREADS; other++)
                is("met", fresh[i * PAGE + other], other + 1);
        if (pthread_barrier_wait(&meeting) == PTHREAD_BARRIER_SERIAL_THREAD)
            munmap(fresh, COMMON * PAGE);
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    rounds = argc > 1 ? atol(argv[1]) : 1000;
    with_forks = argc > 2;
    file = open("/tmp/pages", O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (long i = 0; i < FILE_PAGES; i++) {
        static unsigned char page[PAGE];
        memset(page, of_file(i), PAGE);
        if (write(file, page, PAGE) != PAGE)
            fail("write", 0, PAGE);
    }
    common = map(0, COMMON, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    pthread_barrier_init(&meeting, 0, THREADS);
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, thread, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    unlink("/tmp/pages");
    printf("ok %ld steps, %ld forks, %ld changes\n", (long)touches, (long)forks, (long)changes);
    return 0;
}
