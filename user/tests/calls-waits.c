/* Checks futexes, epoll and moved memory more closely than `calls`: who is woken, how many, and who no
 * longer; passes on Linux and must pass here.
 *
 * Interface: calls-waits [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L

static long futex(uint32_t *word, int op, uint32_t value, long timeout, uint32_t *other, uint32_t third)
{
    return syscall(SYS_futex, word, op, value, timeout, other, third);
}

/* --- sleepers on a word, in threads --- */

enum { SLEEPERS = 5 };

struct sleeper {
    pthread_t thread;
    uint32_t *word;
    uint32_t bits;
    int private;
    struct timespec *limit;
    volatile pid_t id;
    volatile int woken, result;
};

static void *sleep_on(void *argument)
{
    struct sleeper *s = argument;
    s->id = syscall(SYS_gettid);
    do
        s->result =
            syscall(SYS_futex, s->word, FUTEX_WAIT_BITSET | s->private, 0, s->limit, 0, s->bits) ? errno : 0;
    while (s->result == EINTR);
    s->woken = 1;
    return 0;
}

static struct sleeper sleepers[SLEEPERS];

/* Returns when all sleep. */
static void put_to_sleep(int first, int count, uint32_t *word, uint32_t bits, int private,
                         struct timespec *limit)
{
    for (int i = first; i < first + count; i++) {
        sleepers[i] = (struct sleeper){.word = word, .bits = bits, .private = private, .limit = limit};
        pthread_create(&sleepers[i].thread, 0, sleep_on, &sleepers[i]);
    }
    for (int i = first; i < first + count; i++)
        while (!sleepers[i].id || !thread_sleeps(sleepers[i].id))
            usleep(500);
}

/* How many have been woken; waits until it is as many as expected, and then a moment for one too many. */
static int woken(int first, int count, int expected)
{
    int now = 0;
    for (int round = 0; round < 3000; round++) {
        now = 0;
        for (int i = first; i < first + count; i++)
            now += sleepers[i].woken;
        if (now >= expected)
            break;
        usleep(1000);
    }
    usleep(3000);
    now = 0;
    for (int i = first; i < first + count; i++)
        now += sleepers[i].woken;
    return now;
}

static void join(int first, int count)
{
    for (int i = first; i < first + count; i++)
        pthread_join(sleepers[i].thread, 0);
}

/* Words that are so far from each other that they are not kept in the same place. */
static uint32_t words[64 * 8] __attribute__((aligned(4096)));

static void futex_of(int private, const char *kind)
{
    char name[100];
    uint32_t *word = &words[0];
#define NAMED(text) (snprintf(name, sizeof name, "%s: %s", kind, text), name)
    fails(futex(word, FUTEX_WAIT | private, 1, 0, 0, 0), EAGAIN, NAMED("a word that is not as expected"));
    fails(futex((uint32_t *)((char *)word + 1), FUTEX_WAIT | private, 0, 0, 0, 0), EINVAL,
          NAMED("a crooked address"));
    fails(futex((uint32_t *)8, FUTEX_WAIT | private, 0, 0, 0, 0), EFAULT, NAMED("a wrong one"));
    fails(futex(word, FUTEX_WAIT | private, 0, (long)&(struct timespec){0, 2000000}, 0, 0), ETIMEDOUT,
          NAMED("a time that runs out"));
    fails(futex(word, FUTEX_WAIT | private, 0, (long)&(struct timespec){0, 2000000000}, 0, 0), EINVAL,
          NAMED("a wrong time"));
    fails(futex(word, FUTEX_WAIT_BITSET | private, 0, 0, 0, 0), EINVAL, NAMED("no bits"));
    equal(futex(word, FUTEX_WAKE | private, 1, 0, 0, 0), 0, NAMED("wake of nobody"));

    put_to_sleep(0, 3, word, ~0u, private, 0);
    equal(futex(word + 1, FUTEX_WAKE | private, 9, 0, 0, 0), 0, NAMED("wake of another word"));
    equal(futex(word, FUTEX_WAKE | private, 1, 0, 0, 0), 1, NAMED("wake of one"));
    equal(woken(0, 3, 1), 1, NAMED("wakes one"));
    equal(futex(word, FUTEX_WAKE | private, 9, 0, 0, 0), 2, NAMED("wake of all"));
    equal(woken(0, 3, 3), 3, NAMED("wakes the rest"));
    join(0, 3);

    put_to_sleep(0, 1, word, 1, private, 0);
    put_to_sleep(1, 1, word, 2, private, 0);
    equal(futex(word, FUTEX_WAKE_BITSET | private, 9, 0, 0, 4), 0, NAMED("wake of bits that nobody has"));
    equal(futex(word, FUTEX_WAKE_BITSET | private, 9, 0, 0, 6), 1, NAMED("of bits that one has"));
    equal(woken(1, 1, 1) == 1 && !sleepers[0].woken, 1, NAMED("wakes that one"));
    equal(futex(word, FUTEX_WAKE | private, 9, 0, 0, 0), 1, NAMED("wake without bits means all"));
    join(0, 2);

    /* Targets in several places, so that source and target lie either way round, and in one. */
    for (int far = 1; far < 64; far += 9) {
        uint32_t *target = word + far * 8;
        put_to_sleep(0, SLEEPERS, word, ~0u, private, 0);
        fails(futex(word, FUTEX_CMP_REQUEUE | private, 1, 9, target, 77), EAGAIN,
              NAMED("requeue of a word that is not as expected"));
        equal(futex(word, FUTEX_CMP_REQUEUE | private, 1, 2, target, 0), 3, NAMED("requeue of one and two"));
        equal(woken(0, SLEEPERS, 1), 1, NAMED("wakes one"));
        equal(futex(target, FUTEX_WAKE | private, 1, 0, 0, 0), 1,
              NAMED("one of those that were moved is woken there"));
        equal(futex(target, FUTEX_WAKE | private, 9, 0, 0, 0), 1, NAMED("and the other, and no more"));
        equal(woken(0, SLEEPERS, 3), 3, NAMED("three are awake"));
        equal(futex(word, FUTEX_WAKE | private, 9, 0, 0, 0), 2, NAMED("the rest has stayed"));
        join(0, SLEEPERS);
    }
    fails(futex(word, FUTEX_CMP_REQUEUE | private, -1, 1, word + 8, 0), EINVAL,
          NAMED("requeue of a negative count"));

    /* One that was moved and then gives up must be gone from where it was moved to. */
    struct timespec soon;
    clock_gettime(CLOCK_MONOTONIC, &soon);
    soon.tv_sec += 1;
    put_to_sleep(0, 1, word, ~0u, private, &soon);
    for (int far = 1; far < 64; far += 9)
        equal(futex(word + (far == 1 ? 0 : (far - 9) * 8), FUTEX_REQUEUE | private, 0, 1, word + far * 8, 0),
              1, NAMED("moved on"));
    join(0, 1);
    equal(sleepers[0].result, ETIMEDOUT, NAMED("one that was moved gives up in time"));
    int left = 0;
    for (int i = 0; i < 64; i++)
        left += futex(word + i * 8, FUTEX_WAKE | private, 9, 0, 0, 0);
    equal(left, 0, NAMED("and is nowhere any more"));

    /* FUTEX_WAKE_OP: word[8] += 3, and if it was above 4, its sleepers, too. */
    uint32_t *second = word + 8;
    put_to_sleep(0, 2, word, ~0u, private, 0);
    put_to_sleep(2, 2, second, ~0u, private, 0);
    uint32_t add = FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_GT, 2);
    equal(futex(word, FUTEX_WAKE_OP | private, 1, 1, second, add), 1,
          NAMED("wake-op whose comparison fails wakes one"));
    equal(*second, 3, NAMED("and adds"));
    equal(futex(word, FUTEX_WAKE_OP | private, 1, 1, second, add), 2,
          NAMED("whose comparison holds wakes one of each"));
    equal(*second, 6, NAMED("and adds"));
    equal(futex(second, FUTEX_WAKE | private, 9, 0, 0, 0), 1, NAMED("one is left of the second"));
    join(0, 4);
    equal(futex(word, FUTEX_WAKE_OP | private, 1, 1, second, FUTEX_OP(FUTEX_OP_ANDN, 2, FUTEX_OP_CMP_EQ, 0)),
          0, NAMED("and-not"));
    equal(*second, 4, NAMED("takes the bit away"));
    *second = 0;
    fails(futex(word, FUTEX_WAKE_OP | private, 1, 1, (uint32_t *)8, add), EFAULT,
          NAMED("wake-op of a wrong address"));
    uint32_t *fixed = mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fails(futex(word, FUTEX_WAKE_OP | private, 1, 1, fixed, add), EFAULT,
          NAMED("of one that cannot be written"));
    munmap(fixed, PAGE);
#undef NAMED
}

static void futexes(void)
{
    futex_of(FUTEX_PRIVATE_FLAG, "private");
    futex_of(0, "shared");
    /* A shared word is one and the same in two processes, wherever it is mapped; a private one is not. */
    int fd = memfd_create("futex", 0);
    ftruncate(fd, PAGE);
    uint32_t *here = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
             *there = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        here[1] = 1;
        _exit(futex(here, FUTEX_WAIT, 0, (long)&(struct timespec){10, 0}, 0, 0) ? errno : 0);
    }
    while (!here[1])
        usleep(500);
    int others = 0, count = 0;
    for (int i = 0; i < 5000 && !count; i++) {
        others += futex(there, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 9, 0, 0, 0);
        others += futex(there, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, 9, 0, 0, ~0u);
        count = futex(there, FUTEX_WAKE, 9, 0, 0, 0);
        if (!count)
            usleep(1000);
    }
    int status;
    waitpid(child, &status, 0);
    equal(count == 1 && status == 0, 1,
          "a word in shared memory is the same in two processes at two addresses");
    equal(others, 0, "and not when it is called private");
    munmap(here, PAGE), munmap(there, PAGE), close(fd);
}

/* --- epoll --- */

static int ready(int set, struct epoll_event *events, int count) { return epoll_wait(set, events, count, 0); }

static void epolls(void)
{
    struct epoll_event event, got[4];
    int a[2], b[2];
    char c;
    pipe(a), pipe(b);
    int set = epoll_create1(EPOLL_CLOEXEC);
    equal(fcntl(set, F_GETFD), FD_CLOEXEC, "epoll_create1 with EPOLL_CLOEXEC");
    fails(epoll_create(0), EINVAL, "epoll_create of nothing");
    event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 0x123456789abcdef};
    equal(epoll_ctl(set, EPOLL_CTL_ADD, a[0], &event), 0, "ADD");
    fails(epoll_ctl(set, EPOLL_CTL_ADD, a[0], &event), EEXIST, "ADD twice");
    fails(epoll_ctl(set, EPOLL_CTL_MOD, b[0], &event), ENOENT, "MOD of one that is not in it");
    fails(epoll_ctl(set, EPOLL_CTL_DEL, b[0], 0), ENOENT, "DEL of one");
    fails(epoll_ctl(set, EPOLL_CTL_ADD, 999, &event), EBADF, "ADD of no file");
    fails(epoll_ctl(set, EPOLL_CTL_ADD, set, &event), EINVAL, "ADD of itself");
    fails(epoll_ctl(a[0], EPOLL_CTL_ADD, b[0], &event), EINVAL, "in what is no set");
    fails(epoll_ctl(set, 99, b[0], &event), EINVAL, "an unknown way");
    int fd = open("/proc/self/exe", O_RDONLY);
    fails(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), EPERM, "ADD of a regular file");
    close(fd);
    equal(ready(set, got, 4), 0, "nothing is ready");
    write(a[1], "x", 1);
    equal(ready(set, got, 4) == 1 && got[0].events == EPOLLIN && got[0].data.u64 == 0x123456789abcdef, 1,
          "one is, with its word");
    equal(ready(set, got, 4), 1, "and still is, until it is read");
    read(a[0], &c, 1);
    equal(ready(set, got, 4), 0, "then no more");
    event.data.u64 = 2;
    epoll_ctl(set, EPOLL_CTL_ADD, b[0], &event);
    event = (struct epoll_event){.events = EPOLLOUT, .data.u64 = 3};
    epoll_ctl(set, EPOLL_CTL_ADD, b[1], &event);
    write(a[1], "x", 1), write(b[1], "x", 1);
    equal(ready(set, got, 4), 3, "three are ready");
    equal(ready(set, got, 2), 2, "no more than asked for");
    equal(epoll_ctl(set, EPOLL_CTL_DEL, b[0], 0), 0, "DEL");
    equal(ready(set, got, 4), 2, "leaves the others");
    int wrong = 0;
    for (int i = 0; i < 2; i++)
        wrong |= got[i].data.u64 == 2;
    equal(wrong, 0, "and takes the right one");
    fails(epoll_ctl(set, EPOLL_CTL_DEL, b[0], 0), ENOENT, "once");
    event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 4};
    equal(epoll_ctl(set, EPOLL_CTL_ADD, b[0], &event), 0, "and it may be added again");
    equal(epoll_ctl(set, EPOLL_CTL_DEL, b[1], 0) || epoll_ctl(set, EPOLL_CTL_DEL, b[0], 0), 0, "DEL of two");
    equal(ready(set, got, 4), 1, "one is left");
    event = (struct epoll_event){.events = EPOLLOUT, .data.u64 = 5};
    equal(epoll_ctl(set, EPOLL_CTL_MOD, a[0], &event) == 0 && ready(set, got, 4) == 0, 1,
          "MOD to what it never is");
    event = (struct epoll_event){.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 6};
    epoll_ctl(set, EPOLL_CTL_MOD, a[0], &event);
    equal(ready(set, got, 4) == 1 && got[0].data.u64 == 6 && got[0].events == EPOLLIN, 1,
          "EPOLLONESHOT tells");
    equal(ready(set, got, 4), 0, "once");
    write(a[1], "y", 1);
    equal(ready(set, got, 4), 0, "even if more comes");
    fails(epoll_ctl(set, EPOLL_CTL_ADD, a[0], &event), EEXIST, "though it is still in the set");
    epoll_ctl(set, EPOLL_CTL_MOD, a[0], &event);
    equal(ready(set, got, 4), 1, "until MOD, once more");
    equal(ready(set, got, 4), 0, "and then no more");
    event.events = EPOLLIN;
    epoll_ctl(set, EPOLL_CTL_MOD, a[0], &event);
    read(a[0], got, sizeof got);
    close(a[1]);
    equal(ready(set, got, 4) == 1 && got[0].events & EPOLLHUP, 1, "EPOLLHUP is told unasked");
    close(a[0]);
    equal(ready(set, got, 4), 0, "a closed file is in it no more");
    /* Nor does the set keep a file open, or take the next one for it. */
    pipe(a);
    event = (struct epoll_event){.events = EPOLLOUT, .data.u64 = 8};
    epoll_ctl(set, EPOLL_CTL_ADD, a[1], &event);
    close(a[1]);
    equal(read(a[0], &c, 1), 0, "the set keeps no pipe open");
    close(a[0]);
    pipe(a);
    equal(ready(set, got, 4), 0, "and does not take the next for it");
    equal(epoll_ctl(set, EPOLL_CTL_ADD, a[1], &event), 0, "whose number may be added");
    equal(ready(set, got, 4), 1, "and is told of");
    close(a[0]), close(a[1]);
    pipe(a);
    epoll_ctl(set, EPOLL_CTL_ADD, a[1], &event);
    close(a[0]), close(a[1]);
    pipe(a);
    equal(epoll_ctl(set, EPOLL_CTL_ADD, a[1], &event), 0, "at once, too");
    close(a[0]), close(a[1]);
    fails(epoll_wait(set, got, 0, 0), EINVAL, "no room for events");
    fails(syscall(SYS_epoll_wait, set, got, -1, 0), EINVAL, "less than that");
    fails(epoll_wait(b[0], got, 1, 0), EINVAL, "no set");
    /* It wakes who waits. */
    event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 7};
    read(b[0], &c, 1);
    epoll_ctl(set, EPOLL_CTL_ADD, b[0], &event);
    equal(epoll_wait(set, got, 4, 20), 0, "its time runs out");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        usleep(20000);
        write(b[1], "z", 1);
        _exit(0);
    }
    equal(epoll_wait(set, got, 4, 10000) == 1 && got[0].data.u64 == 7, 1,
          "what comes while it waits wakes it");
    waitpid(child, 0, 0);
    close(set), close(b[0]), close(b[1]);
}

/* --- poll and select --- */

static int full_pipe[2];
static volatile pid_t writer_id;
static void *write_one(void *unused)
{
    (void)unused;
    writer_id = syscall(SYS_gettid);
    return (void *)(long)(write(full_pipe[1], "x", 1) == -1 ? errno : 0);
}

/* A writer that waits for room is told that there will be none. */
static void last_reader(void)
{
    static char page[4096];
    signal(SIGPIPE, SIG_IGN);
    pipe(full_pipe);
    fcntl(full_pipe[1], F_SETFL, O_NONBLOCK);
    while (write(full_pipe[1], page, sizeof page) > 0)
        ;
    fcntl(full_pipe[1], F_SETFL, 0);
    pthread_t writer;
    pthread_create(&writer, 0, write_one, 0);
    while (!writer_id || !thread_sleeps(writer_id))
        usleep(1000);
    close(full_pipe[0]);
    void *error;
    pthread_join(writer, &error);
    equal((long)error, EPIPE, "the last reader's close wakes who waits for room");
    close(full_pipe[1]);
    signal(SIGPIPE, SIG_DFL);
}

static void polls(void)
{
    int a[2];
    char c;
    pipe(a);
    struct pollfd p[3] = {{a[0], POLLIN, 99}, {-1, POLLIN, 99}, {a[1], POLLOUT, 99}};
    equal(poll(p, 3, 0) == 1 && p[0].revents == 0 && p[1].revents == 0 && p[2].revents == POLLOUT, 1,
          "poll tells of each and clears the rest");
    write(a[1], "x", 1);
    equal(poll(p, 3, -1) == 2 && p[0].revents == POLLIN, 1, "of two");
    p[0].events = 0;
    equal(poll(p, 1, 0), 0, "what was not asked for is not told");
    p[0].events = POLLIN;
    read(a[0], &c, 1);
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(a[0], &in);
    FD_SET(a[1], &out);
    FD_SET(a[0], &out);
    struct timeval none = {0, 0};
    int count = select(a[1] + 1, &in, &out, 0, &none);
    equal(count == 1 && !FD_ISSET(a[0], &in) && FD_ISSET(a[1], &out) && !FD_ISSET(a[0], &out), 1, "select");
    FD_ZERO(&in);
    /* One that the smallest table has: select does not look beyond the table. */
    FD_SET(60, &in);
    fails(select(61, &in, 0, 0, &none), EBADF, "select of a closed one");
    fails(select(-1, 0, 0, 0, &none), EINVAL, "of a negative count");
    fails(select(0, 0, 0, 0, &(struct timeval){-1, 0}), EINVAL, "of a negative time");
    fails(ppoll(p, 1, &(struct timespec){0, -1}, 0), EINVAL, "ppoll of a negative time");
    close(a[1]);
    equal(poll(p, 1, -1) == 1 && p[0].revents == POLLHUP, 1, "POLLHUP is told unasked");
    close(a[0]);
}

/* --- memory that is taken away by mremap --- */

enum { ROUNDS = 120, READERS = 3 };

static sigjmp_buf escape;
static void on_fault(int number)
{
    (void)number;
    siglongjmp(escape, 1);
}

/* The byte there, or -1 when there is nothing. */
static int peek(volatile unsigned char *at)
{
    if (sigsetjmp(escape, 1))
        return -1;
    return *at;
}

static volatile unsigned char *moving;
static atomic_long moved; /* the round in which it has been moved away, or 0 */
static atomic_long stale;
static atomic_int stop;
/* The last round in which each reader has looked. */
static atomic_long looked[READERS];
static __thread sigjmp_buf back;

static void on_gone(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

static void *watch(void *own)
{
    atomic_long *last = own;
    while (!stop) {
        if (sigsetjmp(back, 1)) {
            for (long now; (now = moved) && !stop;)
                *last = now;
            continue;
        }
        while (!stop) {
            long before = moved;
            (void)*moving;
            /* It had been moved before the look and still is, and yet there was something to see. */
            if (before && moved == before) {
                stale++;
                *last = before;
            }
        }
    }
    return own;
}

static void moves(void)
{
    struct sigaction action = {.sa_handler = on_fault}, old;
    unsigned char *area = mmap(0, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                  *far = area + 8 * PAGE;
    sigaction(SIGSEGV, &action, &old);
    mmap(area, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    area[0] = 1, area[PAGE] = 2;
    equal(mremap(area, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, far) == far, 1,
          "mremap to a place that is named");
    equal(peek(area) == -1 && peek(area + PAGE) == -1, 1, "nothing is left where it was");
    equal(peek(far) == 1 && peek(far + PAGE) == 2, 1, "all is where it has been moved to");
    equal(mremap(far, 2 * PAGE, PAGE, 0) == far && peek(far) == 1 && peek(far + PAGE) == -1, 1,
          "made smaller, the end is gone");
    fails(mremap(far, PAGE, 2 * PAGE, MREMAP_FIXED, area) == MAP_FAILED ? -1 : 0, EINVAL,
          "MREMAP_FIXED without MREMAP_MAYMOVE");
    fails(mremap(far + 1, PAGE, PAGE, 0) == MAP_FAILED ? -1 : 0, EINVAL, "a crooked address");
    fails(mremap(far, PAGE, 0, 0) == MAP_FAILED ? -1 : 0, EINVAL, "to nothing");
    munmap(area, 16 * PAGE);
    fails(mremap(area, PAGE, 2 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0, EFAULT, "of nothing");
    area = mmap(0, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(area + PAGE, PAGE, PROT_READ);
    fails(mremap(area, 3 * PAGE, 4 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED ? -1 : 0, EFAULT,
          "of more than one mapping");
    munmap(area, 3 * PAGE);
    int fd = memfd_create("opened for reading", 0);
    char name[40];
    ftruncate(fd, PAGE);
    sprintf(name, "/proc/self/fd/%d", fd);
    int reading = open(name, O_RDONLY);
    unsigned char *file = mmap(0, PAGE, PROT_READ, MAP_SHARED, reading, 0);
    equal(peek(file), 0, "a file that was opened for reading, mapped");
    fails(mprotect(file, PAGE, PROT_READ | PROT_WRITE), EACCES, "is not made writable");
    fails(mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, reading, 0) == MAP_FAILED ? -1 : 0, EACCES,
          "nor mapped so");
    munmap(file, PAGE), close(reading), close(fd);
    unsigned char *top = sbrk(0);
    sbrk(3 * PAGE);
    memset(top, 7, 3 * PAGE);
    sbrk(-2 * PAGE);
    equal(peek(top) == 7 && peek(top + 3 * PAGE - 1) == -1, 1, "when the heap shrinks its end is gone");
    sbrk(2 * PAGE);
    equal(peek(top + 3 * PAGE - 1), 0, "and comes back as zeros");
    sbrk(-3 * PAGE);
    /* A child's pages are its own whatever we move. */
    area = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    area[0] = 3;
    fflush(stdout);
    if (fork() == 0) {
        unsigned char *at = mremap(area, PAGE, 4 * PAGE, MREMAP_MAYMOVE);
        at[0] = 4;
        _exit(at[3 * PAGE] == 0 && (at == area || peek(area) == -1) ? 0 : 1);
    }
    int status;
    wait(&status);
    equal(status == 0 && area[0] == 3, 1, "a child moves its own");
    munmap(area, PAGE);

    /* Memory written after a fork is the writer's alone, at once. */
    int failed = 0, go[2];
    pipe(go);
    area = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 50; i++) {
        *(volatile unsigned char *)area = i;
        pid_t child = fork();
        *(volatile unsigned char *)area = child ? 100 : i;
        if (child == 0) {
            char c;
            _exit(read(go[0], &c, 1) == 1 && *(volatile unsigned char *)area == i ? 0 : 1);
        }
        write(go[1], "g", 1);
        wait(&status);
        failed |= status;
    }
    equal(failed, 0, "what is written after a fork is the writer's alone");
    close(go[0]), close(go[1]);
    munmap(area, PAGE);

    action.sa_handler = on_gone;
    sigaction(SIGSEGV, &action, 0);
    pthread_t list[READERS];
    area = mmap(0, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    far = area + PAGE;
    mmap(area, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    area[0] = 5;
    moving = area;
    for (int i = 0; i < READERS; i++)
        pthread_create(&list[i], 0, watch, &looked[i]);
    int good = 1;
    for (long round = 1; round <= ROUNDS; round++) {
        usleep(50);
        if (round % 3 == 0)
            good &= mremap(area, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, far) == far;
        else if (round % 3 == 1)
            good &= munmap(area, PAGE) == 0;
        else
            good &= mprotect(area, PAGE, PROT_NONE) == 0;
        moved = round;
        for (int i = 0; i < READERS; i++)
            while (looked[i] != round)
                sched_yield();
        moved = 0;
        if (round % 3 == 0)
            good &= mremap(far, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area) == area && area[0] == 5;
        else if (round % 3 == 1) {
            good &= mmap(area, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                         0) == area;
            area[0] = 5;
        } else
            good &= mprotect(area, PAGE, PROT_READ | PROT_WRITE) == 0 && area[0] == 5;
    }
    stop = 1;
    for (int i = 0; i < READERS; i++)
        pthread_join(list[i], 0);
    equal(good, 1, "moved, unmapped, or protected, and back again");
    equal(stale, 0, "and no thread on any CPU sees it where it was");
    sigaction(SIGSEGV, &old, 0);
    munmap(area, 2 * PAGE);
}

static const struct group groups[] = {
    {"futexes", futexes}, {"epoll", epolls}, {"poll", polls}, {"last reader", last_reader}, {"moves", moves}};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
