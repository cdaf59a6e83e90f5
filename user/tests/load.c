/* A mixed load of processes and threads: pipes, files, memory, signals, exec; every result is checked.
 *
 * Interface: load ROUNDS WORKERS. Prints `ok ROUNDS rounds`; any wrong byte is `not ok` and status 1.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what)
{
    printf("not ok %s\n", what);
    fflush(stdout);
    _exit(1);
}

static unsigned char byte_at(long index, int seed) { return index * 31 + (index >> 9) + seed; }

/* Bytes through a chain of three processes. */
static void pipeline(int seed)
{
    enum { COUNT = 20000 };
    int a[2], b[2];
    unsigned char buffer[1500];
    if (pipe(a) || pipe(b))
        fail("pipe");
    pid_t first = fork();
    if (first == 0) {
        for (long at = 0; at < COUNT;) {
            long size = 1 + (at * 7 + seed) % sizeof buffer;
            if (size > COUNT - at)
                size = COUNT - at;
            for (long i = 0; i < size; i++)
                buffer[i] = byte_at(at + i, seed);
            if (write(a[1], buffer, size) != size)
                _exit(1);
            at += size;
        }
        _exit(0);
    }
    pid_t second = fork();
    if (second == 0) {
        close(a[1]);
        long got;
        while ((got = read(a[0], buffer, 1 + seed % 1000)) > 0)
            if (write(b[1], buffer, got) != got)
                _exit(1);
        _exit(got != 0);
    }
    close(a[0]), close(a[1]), close(b[1]);
    long at = 0, got;
    while ((got = read(b[0], buffer, sizeof buffer)) > 0)
        for (long i = 0; i < got; i++, at++)
            if (buffer[i] != byte_at(at, seed))
                fail("a byte in the pipeline");
    close(b[0]);
    int one, two;
    if (at != COUNT || waitpid(first, &one, 0) != first || waitpid(second, &two, 0) != second || one || two)
        fail("the pipeline's end");
}

static void file(int seed)
{
    char name[64];
    unsigned char buffer[3000];
    sprintf(name, "/tmp/load-%d-%d", getpid(), seed);
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        fail("create");
    for (int part = 0; part < 10; part++) {
        for (int i = 0; i < 3000; i++)
            buffer[i] = byte_at(part * 3000 + i, seed);
        if (write(fd, buffer, 3000) != 3000)
            fail("write");
    }
    for (int part = 9; part >= 0; part--) {
        if (pread(fd, buffer, 3000, part * 3000) != 3000)
            fail("pread");
        for (int i = 0; i < 3000; i++)
            if (buffer[i] != byte_at(part * 3000 + i, seed))
                fail("a byte in the file");
    }
    close(fd);
    if (unlink(name))
        fail("unlink");
}

static void memory(int seed)
{
    long size = (1 + seed % 64) * 4096;
    unsigned char *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    for (long i = 0; i < size; i += 64)
        at[i] = byte_at(i, seed);
    pid_t child = fork();
    if (child == 0) {
        for (long i = 0; i < size; i += 64) {
            if (at[i] != byte_at(i, seed))
                _exit(1);
            at[i] = 0;
        }
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status)
        fail("the copy in a child");
    for (long i = 0; i < size; i += 64)
        if (at[i] != byte_at(i, seed))
            fail("a byte after the child's writes");
    munmap(at, size);
}

static volatile sig_atomic_t got;
static void on_signal(int number)
{
    (void)number;
    got++;
}

static void signals(void)
{
    int ready[2];
    char c;
    if (pipe(ready))
        fail("pipe");
    pid_t parent = getpid();
    signal(SIGUSR1, on_signal);
    got = 0;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 20; i++) {
            kill(parent, SIGUSR1);
            if (write(ready[1], "x", 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    close(ready[1]);
    for (;;) {
        long count = read(ready[0], &c, 1);
        if (count == 0)
            break;
    }
    close(ready[0]);
    int status;
    while (waitpid(child, &status, 0) != child)
        ;
    if (status || got == 0)
        fail("signals");
}

static void exec(void)
{
    int status, out[2];
    char text[16] = {0};
    if (pipe(out))
        fail("pipe");
    pid_t child = vfork();
    if (child == 0) {
        dup2(out[1], 1);
        execl("/bin/busybox", "echo", "made", (char *)0);
        _exit(127);
    }
    close(out[1]);
    long count = read(out[0], text, sizeof text - 1);
    close(out[0]);
    if (waitpid(child, &status, 0) != child || status || count != 5 || strcmp(text, "made\n"))
        fail("exec");
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long total;
static void *add(void *unused)
{
    (void)unused;
    double x = 1;
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&mutex);
        total++;
        pthread_mutex_unlock(&mutex);
        x *= 1.001;
    }
    return x > 1 ? 0 : &mutex;
}

static void threads(void)
{
    pthread_t list[3];
    total = 0;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&list[i], 0, add, 0))
            fail("pthread_create");
    for (int i = 0; i < 3; i++)
        pthread_join(list[i], 0);
    if (total != 1500)
        fail("the threads' sum");
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10, workers = argc > 2 ? atoi(argv[2]) : 4, bad = 0, status;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < workers; i++)
            if (fork() == 0) {
                int seed = round * 131 + i * 17;
                pipeline(seed);
                file(seed);
                memory(seed);
                signals();
                exec();
                threads();
                _exit(0);
            }
        for (int i = 0; i < workers; i++)
            if (wait(&status) < 0 || status)
                bad++;
        if (bad) {
            printf("not ok round %d: %d workers failed, last status %x\n", round, bad, status);
            return 1;
        }
    }
    printf("ok %d rounds\n", rounds);
    return 0;
}
