/* Checks futexes as Linux has them: clocks and errors, locks with priority inheritance, robust ones, requeues
 * to such, waits on several; passes on Linux and must pass here.
 *
 * Interface: futexes [GROUP...] runs all groups, or those named; TAP on standard output. `futexes child
 * ADDRESS...` is what a program finds that exec has begun.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

typedef _Atomic uint32_t word;

struct waitv {
    uint64_t val, address;
    uint32_t flags, reserved;
};

static long futex(word *at, int op, unsigned value, const void *time, word *other, unsigned third)
{
    return syscall(SYS_futex, at, op, value, time, other, third);
}

static int tid(void) { return syscall(SYS_gettid); }

static struct timespec in(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* A thread that makes one call, and how that ended. */
struct caller {
    pthread_t thread;
    word *at, *other;
    int op;
    unsigned value, third;
    const struct timespec *time;
    atomic_int tid;
    long result;
    int error;
    uint32_t seen;
    int unlock, turn;
    /* Keeps the lock until this is not 0, and how its unlocking ended. */
    atomic_int *keep;
    long unlocked;
};

static atomic_int turns;

static void *calls(void *arg)
{
    struct caller *c = arg;
    c->tid = tid();
    c->result = futex(c->at, c->op, c->value, c->time, c->other, c->third);
    c->error = c->result < 0 ? errno : 0;
    c->turn = ++turns;
    word *lock = c->op == FUTEX_WAIT_REQUEUE_PI ? c->other : c->at;
    c->seen = *lock;
    while (c->keep && !*c->keep)
        sched_yield();
    if (c->unlock && c->result == 0)
        c->unlocked = futex(lock, FUTEX_UNLOCK_PI, 0, 0, 0, 0);
    return NULL;
}

/* Begins the call and waits until it sleeps. */
static void begin(struct caller *c)
{
    c->tid = 0;
    pthread_create(&c->thread, NULL, calls, c);
    while (!c->tid || !thread_sleeps(c->tid))
        sched_yield();
    /* It may have slept for something else before. */
    usleep(2000);
}

static void end(struct caller *c) { pthread_join(c->thread, NULL); }

static void on_signal(int number) { (void)number; }

static void errors(void)
{
    static word w = 1;
    struct timespec bad = {0, 1000000000}, none = {0, 0};
    fails(futex(&w, FUTEX_WAIT | FUTEX_CLOCK_REALTIME, 1, &none, 0, 0), ENOSYS, "WAIT knows no clock");
    fails(futex(&w, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1, 0, 0, 0), ENOSYS, "nor WAKE");
    fails(futex(&w, FUTEX_LOCK_PI | FUTEX_CLOCK_REALTIME, 1, 0, 0, 0), ENOSYS, "nor LOCK_PI");
    fails(futex(&w, FUTEX_WAIT, 1, &bad, 0, 0), EINVAL, "no time");
    fails(futex(&w, FUTEX_LOCK_PI, 1, &bad, 0, 0), EINVAL, "for LOCK_PI");
    fails(futex(&w, FUTEX_WAIT, 1, (void *)8, 0, 0), EFAULT, "nowhere");
    equal(futex(&w, FUTEX_WAKE, 1, &bad, 0, 0), 0, "WAKE takes none");
    fails(futex(&w, FUTEX_WAIT_BITSET, 1, 0, 0, 0), EINVAL, "no bit to wait for");
    fails(futex(&w, FUTEX_WAKE_BITSET, 1, 0, 0, 0), EINVAL, "or to wake");
    fails(futex((word *)((char *)&w + 1), FUTEX_LOCK_PI, 0, 0, 0, 0), EINVAL, "unaligned");
    fails(futex((word *)4096, FUTEX_TRYLOCK_PI, 0, 0, 0, 0), EFAULT, "no memory");
    fails(futex((word *)4096, FUTEX_UNLOCK_PI, 0, 0, 0, 0), EFAULT, "no memory to unlock");
    fails(futex(&w, 99, 0, 0, 0, 0), ENOSYS, "no command");
    fails(futex(&w, 2, 0, 0, 0, 0), ENOSYS, "FUTEX_FD is no more");
}

static void owners(void)
{
    static word w;
    struct timespec soon;
    equal(futex(&w, FUTEX_LOCK_PI, 0, 0, 0, 0), 0, "a free lock");
    equal(w, tid(), "is its owner's");
    fails(futex(&w, FUTEX_LOCK_PI, 0, 0, 0, 0), EDEADLK, "once");
    fails(futex(&w, FUTEX_TRYLOCK_PI, 0, 0, 0, 0), EDEADLK, "nor tried");
    equal(futex(&w, FUTEX_UNLOCK_PI, 0, 0, 0, 0), 0, "unlock");
    equal(w, 0, "and it is free");
    fails(futex(&w, FUTEX_UNLOCK_PI, 0, 0, 0, 0), EPERM, "once");
    equal(futex(&w, FUTEX_TRYLOCK_PI, 0, 0, 0, 0), 0, "tried");
    struct caller other = {.at = &w, .op = FUTEX_TRYLOCK_PI};
    other.tid = 0;
    pthread_create(&other.thread, NULL, calls, &other);
    end(&other);
    equal(other.error, EAGAIN, "another tries");
    equal(w, FUTEX_WAITERS | tid(), "and leaves its mark");
    soon = in(CLOCK_REALTIME, 30);
    other = (struct caller){.at = &w, .op = FUTEX_LOCK_PI, .time = &soon};
    pthread_create(&other.thread, NULL, calls, &other);
    end(&other);
    equal(other.error, ETIMEDOUT, "waits until a time");
    soon = in(CLOCK_MONOTONIC, 30);
    other = (struct caller){.at = &w, .op = FUTEX_LOCK_PI2, .time = &soon};
    pthread_create(&other.thread, NULL, calls, &other);
    end(&other);
    equal(other.error, ETIMEDOUT, "of another clock");
    soon = in(CLOCK_REALTIME, 30);
    other = (struct caller){.at = &w, .op = FUTEX_LOCK_PI2 | FUTEX_CLOCK_REALTIME, .time = &soon};
    pthread_create(&other.thread, NULL, calls, &other);
    end(&other);
    equal(other.error, ETIMEDOUT, "of that which is named");
    other = (struct caller){.at = &w, .op = FUTEX_UNLOCK_PI};
    pthread_create(&other.thread, NULL, calls, &other);
    end(&other);
    equal(other.error, EPERM, "only the owner unlocks");
    equal(futex(&w, FUTEX_UNLOCK_PI, 0, 0, 0, 0) == 0 && w == 0, 1, "nobody waits any more");
    w = FUTEX_WAITERS;
    equal(futex(&w, FUTEX_LOCK_PI, 0, 0, 0, 0) == 0 && w == (uint32_t)tid(), 1, "waiters of nobody");
    w = FUTEX_OWNER_DIED;
    equal(futex(&w, FUTEX_LOCK_PI, 0, 0, 0, 0) == 0 && w == (FUTEX_OWNER_DIED | tid()), 1,
          "an owner that died");
    equal(futex(&w, FUTEX_UNLOCK_PI, 0, 0, 0, 0) == 0 && w == 0, 1, "is forgotten");
    w = 0x3ffffff0;
    fails(futex(&w, FUTEX_LOCK_PI, 0, 0, 0, 0), ESRCH, "an owner that is not");
    equal(w, FUTEX_WAITERS | 0x3ffffff0, "is marked all the same");
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    w = child;
    fails(futex(&w, FUTEX_LOCK_PI, 0, 0, 0, 0), ESRCH, "nor one that ended");
    waitpid(child, NULL, 0);
    w = 0;
}

static void handing(void)
{
    static word w;
    struct caller a = {.at = &w, .op = FUTEX_LOCK_PI_PRIVATE}, b = {.at = &w, .op = FUTEX_LOCK_PI_PRIVATE};
    futex(&w, FUTEX_LOCK_PI_PRIVATE, 0, 0, 0, 0);
    begin(&a);
    begin(&b);
    equal(w, FUTEX_WAITERS | tid(), "two wait");
    fails(futex(&w, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0), EINVAL, "nobody wakes them");
    static word elsewhere;
    fails(futex(&w, FUTEX_REQUEUE_PRIVATE, 1, (void *)1, &elsewhere, 0), EINVAL, "or moves them");
    equal(futex(&w, FUTEX_UNLOCK_PI_PRIVATE, 0, 0, 0, 0), 0, "unlock");
    end(&a);
    equal(a.result, 0, "the first has it");
    equal(a.seen, FUTEX_WAITERS | a.tid, "and its number is there");
    /* That thread has ended: the second inherits. */
    end(&b);
    equal(b.result, 0, "the second has it after the first ended");
    equal(b.seen, FUTEX_WAITERS | FUTEX_OWNER_DIED | b.tid, "and can tell");
    w = 0;
    /* The first ends with the lock, the second keeps it: the third has to wait for that one. */
    static atomic_int enough;
    struct caller x = {.at = &w, .op = FUTEX_LOCK_PI_PRIVATE}, y = x, z = x;
    y.unlock = z.unlock = 1;
    y.keep = &enough;
    futex(&w, FUTEX_LOCK_PI_PRIVATE, 0, 0, 0, 0);
    begin(&x), begin(&y), begin(&z);
    futex(&w, FUTEX_UNLOCK_PI_PRIVATE, 0, 0, 0, 0);
    end(&x);
    while (!thread_sleeps(z.tid))
        sched_yield();
    /* It would have been told at once. */
    usleep(2000);
    equal(z.turn, 0, "of two that wait behind one that ended the later waits on");
    enough = 1;
    end(&y), end(&z);
    equal(y.unlocked, 0, "the earlier has the lock, and unlocks it");
    equal(z.result == 0 && z.turn > y.turn, 1, "then the later has it");
    w = 0;
    struct caller c = {.at = &w, .op = FUTEX_LOCK_PI_PRIVATE, .unlock = 1}, d = c, e = c;
    futex(&w, FUTEX_LOCK_PI_PRIVATE, 0, 0, 0, 0);
    begin(&c), begin(&d), begin(&e);
    futex(&w, FUTEX_UNLOCK_PI_PRIVATE, 0, 0, 0, 0);
    end(&c), end(&d), end(&e);
    equal(c.result == 0 && d.result == 0 && e.result == 0, 1, "from one to the next");
    equal(w, 0, "until it is free");
    struct sched_param urgent = {.sched_priority = 5};
    c.tid = d.tid = 0;
    futex(&w, FUTEX_LOCK_PI_PRIVATE, 0, 0, 0, 0);
    begin(&c), begin(&d);
    int ranked = sched_setscheduler(d.tid, SCHED_FIFO, &urgent) == 0;
    futex(&w, FUTEX_UNLOCK_PI_PRIVATE, 0, 0, 0, 0);
    end(&c), end(&d);
    if (ranked)
        check(d.turn < c.turn, "who has the higher priority comes first");
    /* A plain waiter at a lock. */
    w = 1;
    struct caller plain = {.at = &w, .op = FUTEX_WAIT_PRIVATE, .value = 1};
    begin(&plain);
    fails(futex(&w, FUTEX_LOCK_PI_PRIVATE, 0, 0, 0, 0), EINVAL, "who waits without a lock is in the way");
    w = tid();
    fails(futex(&w, FUTEX_UNLOCK_PI_PRIVATE, 0, 0, 0, 0), EINVAL, "of unlocking, too");
    futex(&w, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    end(&plain);
    w = 0;
}

static void signals(void)
{
    static word w;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    futex(&w, FUTEX_LOCK_PI, 0, 0, 0, 0);
    struct caller a = {.at = &w, .op = FUTEX_LOCK_PI, .unlock = 1};
    begin(&a);
    for (int i = 0; i < 3; i++) {
        pthread_kill(a.thread, SIGUSR1);
        usleep(2000);
    }
    futex(&w, FUTEX_UNLOCK_PI, 0, 0, 0, 0);
    end(&a);
    equal(a.result, 0, "a handler does not end the wait");
    static word condition;
    struct caller b = {.at = &condition, .other = &w, .op = FUTEX_WAIT_REQUEUE_PI, .unlock = 1};
    begin(&b);
    futex(&w, FUTEX_LOCK_PI, 0, 0, 0, 0);
    equal(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)0, &w, 0), 1, "moved to the lock");
    usleep(2000);
    pthread_kill(b.thread, SIGUSR1);
    end(&b);
    equal(b.error, EAGAIN, "there a signal ends the wait");
    futex(&w, FUTEX_UNLOCK_PI, 0, 0, 0, 0);
    w = 0;
}

static word first, second;

static void *other_way(void *arg)
{
    _Atomic long *result = arg;
    futex(&second, FUTEX_LOCK_PI, 0, 0, 0, 0);
    atomic_store(result + 1, tid());
    *result = futex(&first, FUTEX_LOCK_PI, 0, 0, 0, 0);
    futex(&first, FUTEX_UNLOCK_PI, 0, 0, 0, 0);
    futex(&second, FUTEX_UNLOCK_PI, 0, 0, 0, 0);
    return NULL;
}

static void circles(void)
{
    static _Atomic long result[2];
    pthread_t thread;
    futex(&first, FUTEX_LOCK_PI, 0, 0, 0, 0);
    pthread_create(&thread, NULL, other_way, (void *)result);
    while (!result[1] || !thread_sleeps(result[1]))
        sched_yield();
    usleep(2000);
    fails(futex(&second, FUTEX_LOCK_PI, 0, 0, 0, 0), EDEADLK, "each would wait for the other");
    equal(futex(&first, FUTEX_UNLOCK_PI, 0, 0, 0, 0), 0, "one gives way");
    pthread_join(thread, NULL);
    equal(result[0], 0, "the other goes on");
    equal(first == 0 && second == 0, 1, "and gives both back");
}

static void requeues(void)
{
    static word condition, lock, other;
    struct caller c[4];
    fails(futex(&condition, FUTEX_WAIT_REQUEUE_PI, 0, 0, &condition, 0), EINVAL, "from a word to itself");
    fails(futex(&condition, FUTEX_WAIT_REQUEUE_PI, 1, 0, &lock, 0), EAGAIN, "another value");
    struct timespec soon = in(CLOCK_MONOTONIC, 20);
    fails(futex(&condition, FUTEX_WAIT_REQUEUE_PI, 0, &soon, &lock, 0), ETIMEDOUT, "nobody comes");
    fails(futex(&condition, FUTEX_CMP_REQUEUE_PI, 2, (void *)1, &lock, 0), EINVAL, "one is woken");
    fails(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &condition, 0), EINVAL, "to itself");
    fails(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &lock, 7), EAGAIN, "another value");
    equal(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &lock, 0), 0, "nobody waits");
    for (int i = 0; i < 4; i++) {
        c[i] = (struct caller){.at = &condition, .other = &lock, .op = FUTEX_WAIT_REQUEUE_PI, .unlock = 1};
        begin(c + i);
    }
    fails(futex(&condition, FUTEX_WAKE, 1, 0, 0, 0), EINVAL, "not to be woken");
    fails(futex(&condition, FUTEX_REQUEUE, 1, (void *)1, &lock, 0), EINVAL, "nor moved");
    fails(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, &other, 0), EINVAL, "nor to another lock");
    equal(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)0, &lock, 0), 1, "a free lock is the first's");
    end(c);
    equal(c[0].result == 0 && (c[0].seen & FUTEX_TID_MASK) == (uint32_t)c[0].tid, 1, "who has it");
    equal(lock & FUTEX_TID_MASK, 0, "and gives it back");
    futex(&lock, FUTEX_LOCK_PI, 0, 0, 0, 0);
    equal(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)INT_MAX, &lock, 0), 3,
          "all others wait for the lock");
    equal(lock, FUTEX_WAITERS | tid(), "which says so");
    equal(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)INT_MAX, &lock, 0), 0, "nobody is left");
    futex(&lock, FUTEX_UNLOCK_PI, 0, 0, 0, 0);
    int good = 0;
    for (int i = 1; i < 4; i++) {
        end(c + i);
        good += c[i].result == 0 && (c[i].seen & FUTEX_TID_MASK) == (uint32_t)c[i].tid;
    }
    equal(good, 3, "each has it in turn");
    equal(lock, 0, "at last it is free");
    soon = in(CLOCK_MONOTONIC, 100);
    c[0] = (struct caller){.at = &condition, .other = &lock, .op = FUTEX_WAIT_REQUEUE_PI, .time = &soon};
    begin(c);
    futex(&lock, FUTEX_LOCK_PI, 0, 0, 0, 0);
    equal(futex(&condition, FUTEX_CMP_REQUEUE_PI, 1, (void *)0, &lock, 0), 1, "one waits for the lock");
    end(c);
    equal(c[0].error, ETIMEDOUT, "until its time");
    equal(futex(&lock, FUTEX_UNLOCK_PI, 0, 0, 0, 0) == 0 && lock == 0, 1, "then nobody");
}

struct robust {
    struct robust_list_head head;
    struct robust_list entry;
    word lock;
};

static void have_robust(struct robust *r, int pi)
{
    r->head.list.next = (void *)((uintptr_t)&r->entry | pi);
    r->entry.next = &r->head.list;
    r->head.futex_offset = (char *)&r->lock - (char *)&r->entry;
    r->head.list_op_pending = NULL;
    syscall(SYS_set_robust_list, &r->head, sizeof r->head);
}

static void *dies_robust(void *arg)
{
    struct robust *r = arg;
    have_robust(r, 1);
    futex(&r->lock, FUTEX_LOCK_PI, 0, 0, 0, 0);
    while (!(r->lock & FUTEX_WAITERS))
        sched_yield();
    usleep(2000);
    syscall(SYS_exit, 0);
    return NULL;
}

static const char *self;

static void robust(void)
{
    struct robust *r = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &attr, dies_robust, r);
    while (!r->lock)
        sched_yield();
    equal(futex(&r->lock, FUTEX_LOCK_PI, 0, 0, 0, 0), 0, "the lock of a thread that ended");
    equal(r->lock & (FUTEX_OWNER_DIED | FUTEX_TID_MASK), FUTEX_OWNER_DIED | tid(), "says so");
    futex(&r->lock, FUTEX_UNLOCK_PI, 0, 0, 0, 0);
    for (int pi = 0; pi < 2; pi++) {
        r->lock = 0;
        pid_t child = fork();
        if (child == 0) {
            have_robust(r, pi);
            futex(&r->lock, FUTEX_LOCK_PI, 0, 0, 0, 0);
            pause();
        }
        while (!r->lock)
            sched_yield();
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        equal(r->lock, FUTEX_OWNER_DIED, "a killed process's");
        equal(futex(&r->lock, FUTEX_LOCK_PI, 0, 0, 0, 0), 0, "can be had");
        equal(r->lock, FUTEX_OWNER_DIED | tid(), "with its mark");
    }
    /* One that has no list: the waiter's kernel knows the owner. */
    r->lock = 0;
    pid_t child = fork();
    if (child == 0) {
        futex(&r->lock, FUTEX_LOCK_PI, 0, 0, 0, 0);
        while (!(r->lock & FUTEX_WAITERS))
            sched_yield();
        usleep(5000);
        _exit(0);
    }
    while (!r->lock)
        sched_yield();
    equal(futex(&r->lock, FUTEX_LOCK_PI, 0, 0, 0, 0), 0, "without a list");
    equal(r->lock, FUTEX_OWNER_DIED | FUTEX_WAITERS | tid(), "the waiter says it");
    waitpid(child, NULL, 0);
    /* Given up, and nobody woken yet. */
    r->lock = 0;
    struct caller plain = {.at = &r->lock, .op = FUTEX_WAIT};
    begin(&plain);
    child = fork();
    if (child == 0) {
        have_robust(r, 0);
        r->head.list.next = &r->head.list;
        r->head.list_op_pending = &r->entry;
        _exit(0);
    }
    end(&plain);
    equal(plain.result, 0, "who was about to unlock wakes one");
    waitpid(child, NULL, 0);
    /* exec ends what the list is for. */
    r->lock = 0;
    child = fork();
    if (child == 0) {
        have_robust(r, 0);
        r->lock = tid();
        execl(self, self, "child", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    equal(r->lock, FUTEX_OWNER_DIED, "exec gives locks up");
    munmap(r, 8192);
}

static long waitv(struct waitv *v, unsigned count, unsigned flags, const struct timespec *time,
                  clockid_t clock)
{
    return syscall(SYS_futex_waitv, v, count, flags, time, clock);
}

static word several_words[128];
static atomic_int waker_stop;

static void *wakes_one(void *which)
{
    word *at = &several_words[(long)which];
    while (!waker_stop) {
        futex(at, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
        usleep(500);
    }
    return NULL;
}

static atomic_long woken_last;

static void *waits_for_two(void *of)
{
    woken_last = -1;
    woken_last = waitv(of, 2, 0, NULL, CLOCK_MONOTONIC);
    return NULL;
}

static void several(void)
{
    struct waitv v[129];
    pthread_t thread;
    struct timespec soon = in(CLOCK_MONOTONIC, 20), past = {1, 0}, bad = {0, -1};
    for (int i = 0; i < 129; i++)
        v[i] = (struct waitv){0, (uintptr_t)&several_words[i % 128], 2 | FUTEX_PRIVATE_FLAG, 0};
    if (waitv(v, 1, 0, &past, CLOCK_MONOTONIC) < 0 && errno == ENOSYS)
        return;
    fails(waitv(v, 3, 0, &soon, CLOCK_MONOTONIC), ETIMEDOUT, "waits for three");
    soon = in(CLOCK_REALTIME, 20);
    fails(waitv(v, 3, 0, &soon, CLOCK_REALTIME), ETIMEDOUT, "by the other clock");
    fails(waitv(v, 128, 0, &past, CLOCK_MONOTONIC), ETIMEDOUT, "128");
    fails(waitv(v, 129, 0, &past, CLOCK_MONOTONIC), EINVAL, "129");
    fails(waitv(v, 0, 0, &past, CLOCK_MONOTONIC), EINVAL, "none");
    fails(waitv(NULL, 1, 0, &past, CLOCK_MONOTONIC), EINVAL, "nowhere");
    fails(waitv((void *)4096, 1, 0, &past, CLOCK_MONOTONIC), EFAULT, "no memory");
    fails(waitv(v, 1, 1, &past, CLOCK_MONOTONIC), EINVAL, "flags");
    fails(waitv(v, 1, 0, &past, CLOCK_BOOTTIME), EINVAL, "another clock");
    fails(waitv(v, 1, 0, &bad, CLOCK_MONOTONIC), EINVAL, "no time");
    fails(waitv(v, 1, 0, (void *)8, CLOCK_MONOTONIC), EFAULT, "time nowhere");
    v[1].flags = FUTEX_PRIVATE_FLAG;
    fails(waitv(v, 2, 0, &past, CLOCK_MONOTONIC), EINVAL, "no size");
    v[1].flags = 2 | 4;
    fails(waitv(v, 2, 0, &past, CLOCK_MONOTONIC), EINVAL, "unknown flags");
    v[1].flags = 2, v[1].reserved = 1;
    fails(waitv(v, 2, 0, &past, CLOCK_MONOTONIC), EINVAL, "reserved");
    v[1].reserved = 0, v[1].val = 1;
    fails(waitv(v, 2, 0, NULL, CLOCK_MONOTONIC), EAGAIN, "another value");
    v[1].val = 0, v[1].flags |= FUTEX_PRIVATE_FLAG;
    for (long which = 0; which < 3; which++) {
        waker_stop = 0;
        pthread_create(&thread, NULL, wakes_one, (void *)which);
        equal(waitv(v, 3, 0, NULL, CLOCK_MONOTONIC), which, "which was woken");
        waker_stop = 1;
        pthread_join(thread, NULL);
    }
    equal(futex(&several_words[0], FUTEX_WAKE_PRIVATE, 9, 0, 0, 0), 0, "nobody is left");
    /* Both by one call; it is made until it finds the thread in both places. */
    int both = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
    do {
        pthread_create(&thread, NULL, waits_for_two, v);
        long woken;
        while ((woken = futex(&several_words[0], FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &several_words[1],
                              both)) == 0)
            sched_yield();
        pthread_join(thread, NULL);
        if (woken == 2)
            break;
    } while (1);
    equal(woken_last, 1, "of two that were woken the last is told");
}

static pthread_mutex_t mutex;
static long counted;

static void *counts(void *unused)
{
    (void)unused;
    for (int i = 0; i < 300; i++) {
        pthread_mutex_lock(&mutex);
        long seen = counted;
        if (i % 16 == 0)
            sched_yield();
        counted = seen + 1;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void mutexes(void)
{
    pthread_mutexattr_t attr;
    pthread_t thread[8];
    pthread_mutexattr_init(&attr);
    equal(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT), 0, "a mutex with inheritance");
    equal(pthread_mutex_init(&mutex, &attr), 0, "is made");
    for (int i = 0; i < 8; i++)
        pthread_create(thread + i, NULL, counts, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    equal(counted, 8 * 300, "and keeps others out");
}

static word apart;

static void *waits_apart(void *op)
{
    struct timespec soon = {0, 300 * 1000 * 1000};
    errno = 0;
    long result = futex(&apart, (int)(intptr_t)op, 0, &soon, NULL, 0);
    return (void *)(result < 0 ? -(long)errno : result);
}

/* How the wait by `waits` ends when it is woken by `wakes`. */
static long ends_of(int waits, int wakes)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, waits_apart, (void *)(intptr_t)waits);
    for (int i = 0; i < 100 && futex(&apart, wakes, 1, NULL, NULL, 0) == 0; i++)
        usleep(1000);
    pthread_join(thread, &result);
    return (long)result;
}

/* A call for private memory does not meet one for memory that may be shared. */
static void keys(void)
{
    const int wait = FUTEX_WAIT, wake = FUTEX_WAKE, own = FUTEX_PRIVATE_FLAG;
    equal(ends_of(wait | own, wake | own), 0, "private calls meet");
    equal(ends_of(wait, wake), 0, "those for shared memory too");
    equal(ends_of(wait | own, wake), -ETIMEDOUT, "a private wait is not woken by the other kind");
    equal(ends_of(wait, wake | own), -ETIMEDOUT, "nor the other way round");
    word *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    equal(futex(shared, FUTEX_WAKE, 1, NULL, NULL, 0), 0, "shared memory without anybody");
    pid_t child = fork();
    if (child == 0) {
        struct timespec soon = {2, 0};
        _exit(futex(shared, FUTEX_WAIT, 0, &soon, NULL, 0) != 0);
    }
    int status;
    while (futex(shared, FUTEX_WAKE, 1, NULL, NULL, 0) == 0)
        usleep(1000);
    waitpid(child, &status, 0);
    equal(status, 0, "is one word for all that have it");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"errors", errors},   {"owners", owners},   {"handing", handing},
        {"signals", signals}, {"circles", circles}, {"requeues", requeues},
        {"robust", robust},   {"several", several}, {"mutexes", mutexes},
        {"keys", keys},
    };
    self = argv[0];
    if (argc == 2 && strcmp(argv[1], "child") == 0)
        return 0;
    run_groups(GROUPS(groups), NULL, argc, argv);
    return done();
}
