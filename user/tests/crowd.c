/* Checks 2,000 processes, 10,000 threads and 10,000 sockets that are there at once: each passes a number on,
 * a shell answers beside them, and memory comes back; passes on Linux (as root) and must pass here.
 *
 * Interface: crowd [twice]; TAP on standard output; the second time no more memory stays away than the first
 * time. For a machine of 1 GiB. The processes are a chain of pipes. The threads are one process's, each with
 * a socket of its own: of 5,000 connections, half of them unix-domain pairs and half TCP over loopback, both
 * ends pass on what comes, the one back to where it came from, the other to the next connection.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 2000, THREADS = 10000, PAIRS = THREADS / 2, STACK = 32 << 10, LAST = -1, PATIENCE = 20 };

static int pairs[PAIRS][2], first_pipe[2], answer_pipe[2], results[2];
static pid_t children[PROCESSES];
static pthread_t threads[THREADS];

static void must(int good, const char *what)
{
    if (!good) {
        check(0, what);
        exit(done());
    }
}

/* The number in /proc/NAME behind `key`, -1 for none. */
static long told(const char *name, const char *key)
{
    char text[4096];
    FILE *file = fopen(name, "r");
    long found = -1;
    while (file && fgets(text, sizeof text, file))
        if (strncmp(text, key, strlen(key)) == 0)
            found = strtol(text + strlen(key), 0, 10);
    if (file)
        fclose(file);
    return found;
}

/* Passes numbers on, each larger by one, until nobody writes any more. */
static void child(int from, int to)
{
    int number;
    while (read(from, &number, sizeof number) == sizeof number) {
        number++;
        if (write(to, &number, sizeof number) != sizeof number)
            _exit(1);
    }
    _exit(0);
}

static void make_processes(void)
{
    int from[2], to[2];
    must(pipe(from) == 0, "a pipe");
    first_pipe[1] = from[1];
    for (int i = 0; i < PROCESSES; i++) {
        must(pipe(to) == 0, "a pipe between processes");
        if ((children[i] = fork()) == 0) {
            /* A child that kept the chain's beginning would never see its end. */
            close(first_pipe[1]);
            close(to[0]);
            child(from[0], to[1]);
        }
        must(children[i] > 0, "fork");
        close(from[0]);
        close(to[1]);
        from[0] = to[0];
    }
    answer_pipe[0] = from[0];
}

static void make_sockets(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (void *)&at, sizeof at) == 0 && listen(listener, 16) == 0, "a listener");
    getsockname(listener, (void *)&at, &length);
    for (int i = 0; i < PAIRS; i++)
        if (i % 2) {
            must(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) == 0, "socketpair");
        } else {
            pairs[i][0] = socket(AF_INET, SOCK_STREAM, 0);
            must(connect(pairs[i][0], (void *)&at, sizeof at) == 0, "connect");
            must((pairs[i][1] = accept(listener, 0, 0)) >= 0, "accept");
        }
    close(listener);
}

/* Thread 2k has the far end of connection k and answers; thread 2k + 1 has the near end and passes the
 * answer on. */
static void *thread(void *argument)
{
    long me = (long)argument;
    int mine = pairs[me / 2][me % 2 == 0];
    int to = me % 2 == 0 ? mine : me + 1 < THREADS ? pairs[me / 2 + 1][0] : results[1];
    for (int number = 0; number != LAST;) {
        if (read(mine, &number, sizeof number) != sizeof number)
            return (void *)1;
        if (number != LAST)
            number++;
        if (write(to, &number, sizeof number) != sizeof number)
            return (void *)1;
    }
    return 0;
}

static void make_threads(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    must(pipe(results) == 0, "a pipe for results");
    for (long i = 0; i < THREADS; i++) {
        errno = pthread_create(&threads[i], &attributes, thread, (void *)i);
        if (errno)
            printf("# thread %ld; free: %ld KiB\n", i, told("/proc/meminfo", "MemFree:"));
        must(errno == 0, "pthread_create");
    }
}

/* The number that comes out when `number` goes in. */
static int passed(int in, int out, int number)
{
    int came = -2;
    if (write(in, &number, sizeof number) != sizeof number || read(out, &came, sizeof came) != sizeof came)
        return -2;
    return came;
}

/* A number that a shell prints. */
static long shell(const char *command)
{
    char text[64] = "";
    FILE *from = popen(command, "r");
    if (!from)
        return -1;
    if (!fgets(text, sizeof text, from))
        text[0] = 0;
    return pclose(from) == 0 ? strtol(text, 0, 10) : -1;
}

static void together(void)
{
    make_processes();
    printf("# with the processes: %ld KiB free\n", told("/proc/meminfo", "MemFree:"));
    make_sockets();
    printf("# and the sockets: %ld KiB\n", told("/proc/meminfo", "MemFree:"));
    make_threads();
    equal(told("/proc/self/status", "Threads:"), THREADS + 1, "so many threads");
    check(shell("set -- /proc/[0-9]*; echo $#") > PROCESSES, "so many processes, as a shell sees them");
    check(pairs[PAIRS - 1][1] > THREADS, "so many sockets");
    printf("# free: %ld KiB\n", told("/proc/meminfo", "MemFree:"));
    for (int round = 0; round < 2; round++) {
        equal(passed(first_pipe[1], answer_pipe[0], round), PROCESSES + round, "through all processes");
        equal(passed(pairs[0][0], results[0], round), THREADS + round, "through all sockets, by all threads");
    }
    equal(shell("echo $((6 * 7))"), 42, "a shell answers");
    equal(passed(pairs[0][0], results[0], LAST), LAST, "the last word passes all threads");
    long bad = 0;
    for (int i = 0; i < THREADS; i++) {
        void *status;
        bad += pthread_join(threads[i], &status) != 0 || status;
    }
    equal(bad, 0, "all threads end well");
    for (int i = 0; i < PAIRS; i++)
        bad += close(pairs[i][0]) + close(pairs[i][1]);
    close(first_pipe[1]);
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        bad += waitpid(children[i], &status, 0) != children[i] || status;
    }
    equal(bad, 0, "all processes end well");
    close(answer_pipe[0]), close(results[0]), close(results[1]);
}

/* The free memory, or less than `enough` even after a while. */
static long comes_back(long enough)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        long kib = told("/proc/meminfo", "MemAvailable:");
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (kib >= enough || now.tv_sec - start.tv_sec > PATIENCE)
            return kib;
        sched_yield();
    }
}

int main(int argc, char **argv)
{
    struct rlimit files = {THREADS + 200, THREADS + 200};
    must(setrlimit(RLIMIT_NOFILE, &files) == 0, "a limit of descriptors");
    long before = told("/proc/meminfo", "MemAvailable:");
    together();
    /* A kernel keeps an eighth at most for the next time, and that does not become more. */
    long after = comes_back(before - before / 8);
    printf("# available: %ld KiB, then %ld\n", before, after);
    check(after >= before - before / 8, "memory comes back");
    if (argc < 2 || strcmp(argv[1], "twice") != 0)
        return done();
    together();
    long again = comes_back(after - before / 64);
    printf("# and then %ld\n", again);
    check(again >= after - before / 64, "as much when all were there once more");
    return done();
}
