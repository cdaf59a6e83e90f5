/* Waiting for many things, and handing over between threads: rows of servers and run-times.
 *
 * Interface: `do_*`, for the table of bench.c, and `time_*`, which leave out what only prepares, for that of
 * bench-threads.h.
 */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <linux/futex.h>

#define MANY 100
#define IDLE 10000

/* --- looking at a hundred descriptors --- */

/* As an event loop has them: the reading ends of pipes, of which one in ten has something. */
static int watched[MANY][2];

static void have_watched(void)
{
    for (int i = 0; i < MANY; i++) {
        must(pipe(watched[i]) == 0, "pipe");
        if (i % 10 == 9)
            must(write(watched[i][1], page, 1) == 1, "write");
    }
}

static uint64_t forget_watched(uint64_t spent)
{
    for (int i = 0; i < MANY; i++) {
        close(watched[i][0]);
        close(watched[i][1]);
    }
    return spent;
}

static void select_many(long n)
{
    unsigned long set[16], asked[16] = {0};
    long zero[2];
    int most = 0;
    for (int i = 0; i < MANY; i++) {
        int fd = watched[i][0];
        asked[fd / 64] |= 1ul << fd % 64;
        most = fd >= most ? fd + 1 : most;
    }
    while (n--) {
        memcpy(set, asked, sizeof set);
        zero[0] = zero[1] = 0;
        must(call6(SYS_select, most, (long)set, 0, 0, (long)zero, 0) == MANY / 10, "select");
    }
}

static void poll_many(long n)
{
    struct {
        int fd;
        short events, revents;
    } asked[MANY];
    for (int i = 0; i < MANY; i++) {
        asked[i].fd = watched[i][0];
        asked[i].events = 1;
    }
    while (n--)
        must(call(SYS_poll, (long)asked, MANY, 0) == MANY / 10, "poll");
}

static uint64_t looks(long n, void (*look)(long))
{
    have_watched();
    look(10);
    uint64_t before = instructions();
    look(n);
    return forget_watched(instructions() - before);
}

static uint64_t time_select_100(long n) { return looks(n, select_many); }
static uint64_t time_poll_100(long n) { return looks(n, poll_many); }

/* --- from thread to thread --- */

static int bell, answer, instance;
static volatile int baton;

static void *answers_numbers(void *unused)
{
    uint64_t number;
    (void)unused;
    while (call(SYS_read, bell, (long)&number, 8) == 8 && number == 1)
        call(SYS_write, answer, (long)&number, 8);
    return 0;
}

static void *answers_events(void *unused)
{
    uint64_t number;
    struct epoll_event event;
    (void)unused;
    while (call6(SYS_epoll_wait, instance, (long)&event, 1, -1, 0, 0) == 1 &&
           call(SYS_read, bell, (long)&number, 8) == 8 && number == 1)
        call(SYS_write, answer, (long)&number, 8);
    return 0;
}

static void there_and_back(long n)
{
    uint64_t number = 1;
    while (n--) {
        call(SYS_write, bell, (long)&number, 8);
        call(SYS_read, answer, (long)&number, 8);
    }
}

/* Numbers to the other thread and back: the instructions that it takes once that thread is there, and all
 * descriptors are known to be two threads'. */
static uint64_t numbers(long n, void *(*other)(void *))
{
    pthread_t thread;
    uint64_t last = 2;
    must(pthread_create(&thread, 0, other, 0) == 0, "pthread_create");
    there_and_back(10);
    uint64_t before = instructions();
    there_and_back(n);
    uint64_t spent = instructions() - before;
    call(SYS_write, bell, (long)&last, 8);
    pthread_join(thread, 0);
    return spent;
}

static int counter(void)
{
    int fd = call(SYS_eventfd2, 0, 0, 0);
    must(fd >= 0, "eventfd");
    return fd;
}

static void do_eventfd_handover(long n)
{
    bell = counter();
    answer = counter();
    numbers(n, answers_numbers);
    close(bell);
    close(answer);
}

static void watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    must(epoll_ctl(instance, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

static void do_epoll_wake(long n)
{
    bell = counter();
    answer = counter();
    instance = epoll_create1(0);
    watch(bell);
    numbers(n, answers_events);
    close(instance);
    close(bell);
    close(answer);
}

/* The same beside ten thousand that never have anything. */
static uint64_t time_epoll_wake_10k(long n)
{
    static int idle[IDLE];
    struct rlimit limit = {IDLE + 100, IDLE + 100};
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    bell = counter();
    answer = counter();
    instance = epoll_create1(0);
    for (int i = 0; i < IDLE; i++)
        watch(idle[i] = counter());
    watch(bell);
    uint64_t spent = numbers(n, answers_events);
    for (int i = 0; i < IDLE; i++)
        close(idle[i]);
    close(instance);
    close(bell);
    close(answer);
    return spent;
}

static void *ends_at_once(void *argument) { return argument; }

static void do_pthread_create_join(long n)
{
    pthread_t thread;
    while (n--) {
        must(pthread_create(&thread, 0, ends_at_once, 0) == 0, "pthread_create");
        pthread_join(thread, 0);
    }
}

/* The same in a process that has ten thousand descriptors, once the first thread has come and gone. */
static uint64_t time_pthread_create_join_10k(long n)
{
    static int idle[IDLE];
    struct rlimit limit = {IDLE + 100, IDLE + 100};
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    for (int i = 0; i < IDLE; i++)
        idle[i] = counter();
    do_pthread_create_join(10);
    uint64_t before = instructions();
    do_pthread_create_join(n);
    uint64_t spent = instructions() - before;
    for (int i = 0; i < IDLE; i++)
        close(idle[i]);
    return spent;
}

static void pass(int from, int to)
{
    while (baton != from)
        call6(SYS_futex, (long)&baton, FUTEX_WAIT_PRIVATE, to, 0, 0, 0);
    baton = to;
    call6(SYS_futex, (long)&baton, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static void *passes(void *count)
{
    for (long n = (long)count; n--;)
        pass(1, 0);
    return 0;
}

static void do_futex_handover(long n)
{
    pthread_t thread;
    baton = 0;
    must(pthread_create(&thread, 0, passes, (void *)n) == 0, "pthread_create");
    for (long i = n; i--;)
        pass(0, 1);
    pthread_join(thread, 0);
}
