/* Checks what Linux promises of record locks, open file description locks and flock; passes on Linux and must
 * pass here.
 *
 * Interface: locks [GROUP...] runs all groups but `crowd` or those named; TAP on standard output. `crowd`
 * asks for more than Linux promises: that 60000 locks on one file are nobody else's business, and that
 * RLIMIT_LOCKS binds.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const path = "/tmp/locks.1", *const other_path = "/tmp/locks.2";

static int lock(int fd, int command, int type, long start, long length)
{
    struct flock wanted = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(fd, command, &wanted);
}

/* The lock that a child of ours would find in its way on these bytes: its type, F_UNLCK for nothing. */
static struct flock seen(int type, long start, long length)
{
    struct flock *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), found;
    *shared = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_RDWR);
        _exit(fcntl(fd, F_GETLK, shared) != 0);
    }
    waitpid(child, 0, 0);
    found = *shared;
    munmap(shared, 4096);
    return found;
}

static int is(struct flock found, int type, long start, long length)
{
    return found.l_type == type && (type == F_UNLCK || (found.l_start == start && found.l_len == length));
}

static int fresh(const char *name)
{
    unlink(name);
    return open(name, O_RDWR | O_CREAT, 0600);
}

static void ranges(void)
{
    int fd = fresh(path);
    equal(lock(fd, F_SETLK, F_WRLCK, 100, 100), 0, "a write lock");
    equal(lock(fd, F_SETLK, F_RDLCK, 140, 20), 0, "part of it becomes a read lock");
    check(is(seen(F_WRLCK, 0, 0), F_WRLCK, 100, 40), "the part before it is still one");
    check(is(seen(F_RDLCK, 140, 20), F_UNLCK, 0, 0), "others may read in between");
    check(is(seen(F_WRLCK, 145, 1), F_RDLCK, 140, 20), "but not write");
    check(is(seen(F_RDLCK, 160, 0), F_WRLCK, 160, 40), "and so is the part behind");
    equal(lock(fd, F_SETLK, F_WRLCK, 140, 20), 0, "made a write lock again");
    check(is(seen(F_RDLCK, 150, 1), F_WRLCK, 100, 100), "it is one with its neighbours");
    equal(lock(fd, F_SETLK, F_WRLCK, 200, 10), 0, "the next bytes");
    check(is(seen(F_RDLCK, 205, 1), F_WRLCK, 100, 110), "join it");
    equal(lock(fd, F_SETLK, F_UNLCK, 120, 10), 0, "a hole");
    check(is(seen(F_WRLCK, 0, 0), F_WRLCK, 100, 20), "leaves the part before it");
    check(is(seen(F_WRLCK, 120, 10), F_UNLCK, 0, 0), "and is one");
    check(is(seen(F_WRLCK, 125, 0), F_WRLCK, 130, 80), "and the part behind");
    equal(lock(fd, F_SETLK, F_WRLCK, 300, 0), 0, "to the end wherever that is");
    check(is(seen(F_RDLCK, 1L << 40, 1), F_WRLCK, 300, 0), "reaches far");
    equal(seen(F_RDLCK, 1000, 1).l_pid, getpid(), "F_GETLK tells whose it is");
    int second = open(path, O_RDONLY);
    fails(lock(second, F_SETLK, F_WRLCK, 0, 1), EBADF, "a write lock needs a file open for writing");
    close(second);
    check(is(seen(F_WRLCK, 0, 0), F_UNLCK, 0, 0), "any close of the file gives up all of them");
    lock(fd, F_SETLK, F_WRLCK, 0, 0);
    close(dup(fd));
    check(is(seen(F_WRLCK, 0, 0), F_UNLCK, 0, 0), "that of a duplicate, too");
    close(fd);
}

/* A child that takes byte `first` of the file, tells so, waits for byte `second`, and exits with what came
 * of it. */
static pid_t waiter(int first, int second, int *told)
{
    int ends[2];
    if (pipe(ends))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_RDWR);
        int failed = lock(fd, F_SETLK, F_WRLCK, first, 1) != 0;
        if (write(ends[1], "x", 1) != 1 || failed)
            _exit(99);
        _exit(lock(fd, F_SETLKW, F_WRLCK, second, 1) ? errno : 0);
    }
    close(ends[1]);
    *told = ends[0];
    return child;
}

static void heard(int told)
{
    char byte;
    if (read(told, &byte, 1) != 1)
        check(0, "a child takes its lock");
    close(told);
}

static int exit_of(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void deadlock(void)
{
    int fd = fresh(path), told[2];
    equal(lock(fd, F_SETLK, F_WRLCK, 0, 1), 0, "the parent has byte 0");
    pid_t one = waiter(1, 0, told);
    heard(told[0]);
    pid_t two = waiter(2, 1, told + 1);
    heard(told[1]);
    until_asleep(one), until_asleep(two);
    fails(lock(fd, F_SETLKW, F_WRLCK, 2, 1), EDEADLK, "who would close a circle of three is refused");
    fails(lock(fd, F_SETLK, F_WRLCK, 2, 1), EAGAIN, "who does not wait is only told that it is taken");
    equal(lock(fd, F_SETLK, F_UNLCK, 0, 1), 0, "byte 0 is free");
    equal(exit_of(one), 0, "the first waiter gets it");
    equal(exit_of(two), 0, "then the second gets its own");
    /* One who has waited and has got it is in nobody's way. */
    lock(fd, F_SETLK, F_WRLCK, 0, 1);
    one = waiter(1, 0, told);
    heard(told[0]);
    until_asleep(one);
    lock(fd, F_SETLK, F_UNLCK, 0, 1);
    equal(lock(fd, F_SETLKW, F_WRLCK, 1, 1), 0, "no circle where the one in the way has been let go");
    equal(exit_of(one), 0, "who ends in order");
    close(fd);
}

static void nothing(int signal) { (void)signal; }

static void waiting(void)
{
    int fd = fresh(path), told;
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, 0);
    pid_t child = waiter(5, 6, &told);
    heard(told);
    exit_of(child);
    check(is(seen(F_WRLCK, 0, 0), F_UNLCK, 0, 0), "locks go with their process");
    lock(fd, F_SETLK, F_WRLCK, 6, 1);
    child = waiter(5, 6, &told);
    heard(told);
    until_asleep(child);
    kill(child, SIGKILL);
    equal(exit_of(child), -1, "one who waits is killed");
    equal(lock(fd, F_SETLK, F_WRLCK, 5, 1), 0, "what it held is free");
    child = fork();
    if (child == 0) {
        struct itimerspec soon = {.it_value.tv_nsec = 20000000, .it_interval.tv_nsec = 20000000};
        timer_t timer;
        timer_create(CLOCK_MONOTONIC, 0, &timer);
        timer_settime(timer, 0, &soon, 0);
        _exit(lock(fd, F_SETLKW, F_RDLCK, 6, 1) == -1 ? errno : 0);
    }
    equal(exit_of(child), EINTR, "a signal ends the wait");
    child = fork();
    if (child == 0)
        _exit(lock(fd, F_SETLKW, F_RDLCK, 6, 1) == -1 ? errno : 0);
    until_asleep(child);
    equal(lock(fd, F_SETLK, F_RDLCK, 6, 1), 0, "a write lock becomes a read lock");
    equal(exit_of(child), 0, "and lets other readers in");
    close(fd);
}

static void descriptions(void)
{
    int fd = fresh(path), second = open(path, O_RDWR);
    equal(lock(fd, F_OFD_SETLK, F_WRLCK, 0, 10), 0, "a description's lock");
    fails(lock(second, F_OFD_SETLK, F_WRLCK, 5, 1), EAGAIN, "is in the way of another of the same process");
    fails(lock(second, F_SETLK, F_RDLCK, 5, 1), EAGAIN, "and of the process itself");
    equal(seen(F_RDLCK, 5, 1).l_pid, -1, "and is no process's");
    int copy = dup(fd);
    close(fd);
    fails(lock(second, F_OFD_SETLK, F_WRLCK, 5, 1), EAGAIN, "it lasts as long as the description");
    close(copy);
    equal(lock(second, F_OFD_SETLK, F_WRLCK, 5, 1), 0, "and no longer");
    close(second);

    fd = open(path, O_RDWR), second = open(path, O_RDWR);
    equal(flock(fd, LOCK_SH), 0, "flock shared");
    equal(flock(second, LOCK_SH), 0, "by two");
    fails(flock(fd, LOCK_EX | LOCK_NB), EAGAIN, "so not exclusive");
    equal(flock(second, LOCK_EX | LOCK_NB), 0, "who failed to make his exclusive has given it up");
    equal(lock(fd, F_SETLK, F_WRLCK, 0, 0), 0, "records do not see it");
    close(second);
    equal(flock(fd, LOCK_EX | LOCK_NB), 0, "the close gave it up");
    equal(flock(fd, LOCK_UN), 0, "and so does LOCK_UN");
    fails(flock(fd, 77), EINVAL, "an operation that is none");
    close(fd);
}

static void *closer(void *arg)
{
    close(*(int *)arg);
    return 0;
}

/* A lock that is taken while another thread closes its descriptor stays with nobody. */
static void closing(void)
{
    int left = 0, strange = 0;
    fresh(path);
    for (int i = 0; i < 300; i++) {
        int fd = open(path, O_RDWR);
        pthread_t thread;
        pthread_create(&thread, 0, closer, &fd);
        int kind = i % 3;
        int failed = kind == 0   ? lock(fd, F_SETLK, F_WRLCK, 0, 0)
                     : kind == 1 ? lock(fd, F_OFD_SETLK, F_WRLCK, 0, 0)
                                 : flock(fd, LOCK_EX);
        strange += failed && errno != EBADF;
        pthread_join(thread, 0);
        fd = open(path, O_RDWR);
        left += flock(fd, LOCK_EX | LOCK_NB) != 0 || lock(fd, F_OFD_SETLK, F_WRLCK, 0, 0) != 0;
        close(fd);
    }
    equal(left, 0, "no lock outlives its file");
    equal(strange, 0, "who comes too late is told EBADF");
}

static void crowd(void)
{
    enum { LOCKS = 60000, SOME = 1000 };
    int fd = fresh(path), other = fresh(other_path), ends[2], failed = 0;
    double start = seconds(), first = 0, last;
    for (int i = 0; i < LOCKS; i++) {
        failed += lock(fd, F_SETLK, F_WRLCK, 2 * (i * 7919L % LOCKS), 1) != 0;
        if (i == SOME)
            first = seconds() - start;
        if (i == LOCKS - SOME)
            start = seconds();
    }
    last = seconds() - start;
    equal(failed, 0, "60000 locks on one file");
    printf("# a thousand: at first %.4f s, at last %.4f s\n", first, last);
    check(last < 40 * first, "the last thousand take no time in proportion to all");
    check(is(seen(F_WRLCK, 2 * 777, 1), F_WRLCK, 2 * 777, 1) &&
              is(seen(F_WRLCK, 2 * 777 + 1, 1), F_UNLCK, 0, 0),
          "each is there");
    if (pipe(ends))
        check(0, "a pipe");
    /* Somebody who always looks at all of them; another file's locks are none of its business. */
    pid_t hog = fork();
    if (hog == 0) {
        fd = open(path, O_RDWR);
        for (int told = 0;; told = 1) {
            struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
            fcntl(fd, F_GETLK, &all);
            lock(fd, F_SETLK, F_RDLCK, 1, 1), lock(fd, F_SETLK, F_UNLCK, 0, 0);
            if (!told && write(ends[1], "x", 1) != 1)
                _exit(1);
        }
    }
    heard(ends[0]);
    double worst = 0;
    for (int i = 0; i < 200; i++) {
        start = seconds();
        failed += lock(other, F_SETLK, F_WRLCK, i, 1) != 0 || lock(other, F_SETLK, F_UNLCK, i, 1) != 0;
        double took = seconds() - start;
        if (took > worst)
            worst = took;
        sched_yield();
    }
    kill(hog, SIGKILL);
    waitpid(hog, 0, 0);
    printf("# the longest on another file: %.4f s\n", worst);
    check(!failed && worst < 0.1, "a lock on another file waits for nobody");
    start = seconds();
    close(fd);
    check(seconds() - start < 1, "they go together");
    equal(lock(other, F_SETLK, F_WRLCK, 0, 0), 0, "and others stay");

    struct rlimit limit = {10, 10};
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_LOCKS, &limit);
        fd = open(path, O_RDWR);
        int i = 0;
        while (i < 50 && lock(fd, F_SETLK, F_WRLCK, 2 * i, 1) == 0)
            i++;
        int refused = errno == ENOLCK && (i == 10 || i == 9);
        _exit(!(refused && lock(fd, F_SETLK, F_UNLCK, 0, 0) == 0 && lock(fd, F_SETLK, F_WRLCK, 0, 0) == 0));
    }
    equal(exit_of(child), 0, "RLIMIT_LOCKS binds");
    close(other);
}

int main(int argc, char **argv)
{
    static const struct group all[] = {
        {"ranges", ranges},   {"deadlock", deadlock}, {"waiting", waiting}, {"descriptions", descriptions},
        {"closing", closing}, {"crowd", crowd},
    };
    run_groups(GROUPS(all), "crowd", argc, argv);
    return done();
}
