/* Checks plain futex waits and wakes of private memory by threads that have made many calls: what a kernel
 * may answer by a shorter way. Passes on Linux and must pass here.
 *
 * Interface: waits-short; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef _Atomic uint32_t word;

/* So many calls, and a thread's first way to make them is over. */
#define SETTLED 40
#define ROUNDS 3000

static word at, ready;
static atomic_int handled;

static long futex(word *word, int op, unsigned value)
{
    return syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void settle(void)
{
    for (int i = 0; i < SETTLED; i++)
        syscall(SYS_getuid);
}

/* Waits until thread `number` sleeps. */
static void until_asleep(int number)
{
    for (;;) {
        char path[64], text[256] = "", *end;
        sprintf(path, "/proc/self/task/%d/stat", number);
        FILE *file = fopen(path, "r");
        if (file && fgets(text, sizeof text, file) && (end = strrchr(text, ')')) && end[2] == 'S') {
            fclose(file);
            return;
        }
        if (file)
            fclose(file);
        sched_yield();
    }
}

struct waiter {
    pthread_t thread;
    atomic_int tid, rounds;
    word *at;
    atomic_long result, error;
};

/* Waits again and again, `rounds` times, each time from when the maker sets `ready`. */
static void *waits(void *argument)
{
    struct waiter *w = argument;
    settle();
    for (int round = 1; round <= w->rounds; round++) {
        while (ready != (uint32_t)round)
            sched_yield();
        w->tid = syscall(SYS_gettid);
        w->result = futex(w->at, FUTEX_WAIT, 7);
        w->error = w->result < 0 ? errno : 0;
        w->tid = -round;
    }
    return NULL;
}

static void begin(struct waiter *w, word *at, int rounds)
{
    *w = (struct waiter){.at = at, .rounds = rounds};
    ready = 0;
    pthread_create(&w->thread, NULL, waits, w);
}

/* Lets it wait for the `round`th time. */
static void sleeps(struct waiter *w, int round)
{
    while (w->tid != 1 - round)
        sched_yield();
    ready = round;
    while (w->tid <= 0)
        sched_yield();
    until_asleep(w->tid);
    /* It may have slept for something else before. */
    usleep(2000);
}

static void answers(void)
{
    settle();
    at = 7;
    fails(futex(&at, FUTEX_WAIT, 8), EAGAIN, "another value: EAGAIN");
    fails(futex((word *)((char *)&at + 1), FUTEX_WAIT, 7), EINVAL, "no multiple of four: EINVAL, to wait");
    fails(futex((word *)((char *)&at + 2), FUTEX_WAKE, 1), EINVAL, "and to wake");
    fails(futex((word *)8, FUTEX_WAIT, 7), EFAULT, "nothing there: EFAULT");
    fails(futex((word *)(1ul << 63), FUTEX_WAIT, 7), EFAULT, "nor there");
    fails(futex((word *)(1ul << 63), FUTEX_WAKE, 7), EFAULT, "to wake, too");
    equal(futex(&at, FUTEX_WAKE, 1), 0, "nobody to wake");
    word *fresh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fails(futex(fresh, FUTEX_WAIT, 1), EAGAIN, "a page that is not there yet reads as zero");
    word *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fails(futex(closed, FUTEX_WAIT, 0), EFAULT, "one that may not be read: EFAULT");
}

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static void act(int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
}

static void signals(void)
{
    struct waiter w;
    at = 7;
    begin(&w, &at, 6);
    for (int round = 1; round <= 2; round++) {
        sleeps(&w, round);
        equal(futex(&at, FUTEX_WAKE, 1), 1, "one is woken");
    }
    act(0);
    sleeps(&w, 3);
    equal(w.error, 0, "it has ended well before");
    pthread_kill(w.thread, SIGUSR1);
    while (w.tid > 0)
        sched_yield();
    check(w.result == -1 && w.error == EINTR && handled == 1, "a handled signal ends the wait: EINTR");
    equal(futex(&at, FUTEX_WAKE, 1), 0, "and nobody stands there any more");
    act(SA_RESTART);
    sleeps(&w, 4);
    pthread_kill(w.thread, SIGUSR1);
    while (handled < 2)
        sched_yield();
    until_asleep(w.tid);
    usleep(2000);
    equal(futex(&at, FUTEX_WAKE, 1), 1, "with SA_RESTART it waits on");
    while (w.tid > 0)
        sched_yield();
    equal(w.result, 0, "until woken");
    /* A signal and a wake-up at once: neither is swallowed. */
    act(0);
    sleeps(&w, 5);
    pthread_kill(w.thread, SIGUSR1);
    long woken = futex(&at, FUTEX_WAKE, 1);
    while (w.tid > 0)
        sched_yield();
    while (handled < 3)
        sched_yield();
    check(woken == 1 ? w.result == 0 : w.error == EINTR, "who was woken says so, with a signal beside it");
    sleeps(&w, 6);
    equal(futex(&at, FUTEX_WAKE, 1), 1, "the last time");
    pthread_join(w.thread, NULL);
}

/* As many as one asks for, and those of this word only. */
static void counts(void)
{
    struct waiter w[5];
    word other = 7;
    at = 7;
    for (int i = 0; i < 5; i++)
        begin(w + i, i < 4 ? &at : &other, 1);
    ready = 1;
    for (int i = 0; i < 5; i++) {
        while (w[i].tid <= 0)
            sched_yield();
        until_asleep(w[i].tid);
    }
    usleep(2000);
    equal(futex(&at, FUTEX_WAKE, 3), 3, "three of four");
    equal(futex(&at, FUTEX_WAKE, 9), 1, "the fourth");
    equal(futex(&other, FUTEX_WAKE, 9), 1, "and the other word's");
    for (int i = 0; i < 5; i++)
        pthread_join(w[i].thread, NULL);
}

static void *passes(void *argument)
{
    uint32_t me = (uintptr_t)argument;
    settle();
    for (int i = 0; i < ROUNDS; i++) {
        while (at != me)
            futex(&at, FUTEX_WAIT, !me);
        at = !me;
        futex(&at, FUTEX_WAKE, 1);
    }
    return NULL;
}

/* No wake-up is lost. */
static void handing(void)
{
    pthread_t other;
    at = 0;
    pthread_create(&other, NULL, passes, (void *)1);
    passes(0);
    pthread_join(other, NULL);
    equal(at, 0, "two threads hand a word to and fro");
}

/* A wait is no hindrance to the end of the process, nor to a stop. */
static void ends(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        struct waiter w;
        at = 7;
        begin(&w, &at, 2);
        sleeps(&w, 1);
        futex(&at, FUTEX_WAKE, 1);
        sleeps(&w, 2);
        kill(getpid(), SIGSTOP);
        /* The call is made again, by a thread that goes on at its own time. */
        until_asleep(w.tid);
        usleep(2000);
        _exit(futex(&at, FUTEX_WAKE, 1) == 1 ? 5 : 6);
    }
    waitpid(child, &status, WUNTRACED);
    check(WIFSTOPPED(status), "a process stops while a thread waits");
    kill(child, SIGCONT);
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 5, "goes on with the wait, and ends");
}

int main(void)
{
    answers();
    signals();
    counts();
    handing();
    ends();
    return done();
}
