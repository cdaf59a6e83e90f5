/* Checks signals of timers: who gets them, when they wait, what they say; passes on Linux and must pass here.
 *
 * Interface: timers runs all; TAP on standard output. Started again as `timers pause` it sleeps until a
 * signal ends it.
 *
 * An expiration is waited for by the clock where the signal itself is what may not be looked at.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll
#define FIRST SIGRTMIN
#define SECOND (SIGRTMIN + 1)

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static const char *self;

static void until(int64_t ns)
{
    struct timespec at = {ns / (1000 * MS), ns % (1000 * MS)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, 0) == EINTR)
        ;
}

static sigset_t set_of(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    return set;
}

static void block(int number)
{
    sigset_t set = set_of(number);
    pthread_sigmask(SIG_BLOCK, &set, 0);
}

static void unblock(int number)
{
    sigset_t set = set_of(number);
    pthread_sigmask(SIG_UNBLOCK, &set, 0);
}

static int waits(int number)
{
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, number);
}

/* Takes a signal within so many milliseconds: its number, or 0 with errno. */
static int take(int number, siginfo_t *info, int64_t ms)
{
    sigset_t set = set_of(number);
    struct timespec time = {ms / 1000, ms % 1000 * MS};
    int got = sigtimedwait(&set, info, &time);
    return got < 0 ? 0 : got;
}

static timer_t create(int clock, int notify, int signo, int value, pid_t tid)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = signo, .sigev_value.sival_int = value};
    event.sigev_notify_thread_id = tid;
    return timer_create(clock, &event, &timer) == 0 ? timer : 0;
}

static void arm(timer_t timer, int64_t first, int64_t interval)
{
    struct itimerspec times = {{interval / (1000 * MS), interval % (1000 * MS)},
                               {first / (1000 * MS), first % (1000 * MS)}};
    timer_settime(timer, 0, &times, 0);
}

static int64_t left(timer_t timer)
{
    struct itimerspec times;
    timer_gettime(timer, &times);
    return times.it_value.tv_sec * 1000 * MS + times.it_value.tv_nsec;
}

static volatile int runs, codes[8];
static volatile pid_t ran_in;

static void count(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if (runs < 8)
        codes[runs] = info->si_code;
    ran_in = gettid();
    runs++;
}

static void handle(int number)
{
    struct sigaction action = {.sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART};
    runs = 0;
    sigaction(number, &action, 0);
}

/* Whether so many handlers have run within two seconds; looks without calling the kernel for long. */
static int ran(int how_many)
{
    for (int64_t end = nanoseconds() + 2000 * MS; runs < how_many && nanoseconds() < end;)
        for (volatile int i = 0; i < 10000 && runs < how_many; i++)
            ;
    return runs >= how_many;
}

static void blocked(void)
{
    siginfo_t info;
    block(FIRST);
    timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, FIRST, 77, 0);
    int64_t start = nanoseconds();
    arm(timer, 20 * MS, 20 * MS);
    int64_t armed = nanoseconds();
    until(armed + 110 * MS);
    check(waits(FIRST), "a blocked timer's signal waits");
    int64_t to_go = left(timer);
    check(to_go > 0 && to_go <= 20 * MS, "meanwhile the timer tells when it would expire next");
    int64_t before = nanoseconds();
    equal(take(FIRST, &info, 0), FIRST, "it can be taken");
    int64_t after = nanoseconds();
    arm(timer, 0, 0);
    check(info.si_code == SI_TIMER && info.si_value.sival_int == 77,
          "it says that it is a timer's, and the value");
    check(info.si_overrun >= (before - armed) / (20 * MS) - 1 &&
              info.si_overrun <= (after - start) / (20 * MS) - 1,
          "it stands for all expirations until it was taken");
    /* Unless another instant has come since. */
    int another = (nanoseconds() - start) / (20 * MS) != (before - armed) / (20 * MS);
    check(another || !take(FIRST, &info, 0), "a timer has one signal waiting at most");
    take(FIRST, &info, 0);
    arm(timer, 20 * MS, 20 * MS);
    take(FIRST, &info, 2000);
    before = nanoseconds();
    until(before + 50 * MS);
    take(FIRST, &info, 0);
    check(info.si_overrun >= 1 && timer_getoverrun(timer) == info.si_overrun,
          "timer_getoverrun tells the same");
    /* The signal that it still sent before. */
    arm(timer, 0, 0);
    take(FIRST, &info, 0);
    arm(timer, 10 * MS, 0);
    take(FIRST, &info, 2000);
    check(info.si_overrun == 0 && timer_getoverrun(timer) == 0 && left(timer) == 0,
          "a timer that expires once");
    arm(timer, MS, 0);
    until(nanoseconds() + 5 * MS);
    check(left(timer) == 0 && waits(FIRST), "has nothing left while its signal waits");
    handle(FIRST);
    unblock(FIRST);
    equal(runs, 1, "who unblocks the signal gets it before the call returns");
    block(FIRST);
    arm(timer, MS, 0);
    until(nanoseconds() + 5 * MS);
    sigset_t none;
    sigemptyset(&none);
    sigsuspend(&none);
    equal(runs, 2, "sigsuspend ends by one that waits");
    arm(timer, 20 * MS, 0);
    fails(ppoll(0, 0, 0, &none), EINTR, "ppoll by one that comes");
    equal(runs, 3, "and its handler has run");
    timer_delete(timer);

    timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, FIRST, 0, 0);
    arm(timer, MS, 0);
    until(nanoseconds() + 5 * MS);
    char line[128];
    uint64_t shared = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "ShdPnd: %lx", &shared);
    fclose(status);
    check((shared & 1ull << (FIRST - 1)) != 0, "/proc shows it");
    take(FIRST, &info, 0);
    timer_delete(timer);
    unblock(FIRST);
}

static void several(void)
{
    siginfo_t info;
    block(FIRST);
    timer_t one = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, FIRST, 1, 0);
    timer_t two = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, FIRST, 2, 0);
    arm(one, 10 * MS, 0);
    arm(two, MS, 0);
    until(nanoseconds() + 20 * MS);
    union sigval value = {3};
    sigqueue(getpid(), FIRST, value);
    int order = 0;
    for (int i = 0; i < 3; i++)
        order = order * 10 + (take(FIRST, &info, 0) ? info.si_value.sival_int : 0);
    equal(order, 213, "they are taken in the order in which they expired, and before what was sent later");
    timer_delete(one);
    timer_delete(two);
    unblock(FIRST);

    block(SIGUSR1);
    handle(SIGUSR1);
    one = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1, 1, 0);
    two = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1, 2, 0);
    kill(getpid(), SIGUSR1);
    arm(one, MS, 0);
    arm(two, 2 * MS, 0);
    until(nanoseconds() + 10 * MS);
    unblock(SIGUSR1);
    check(runs == 3 && codes[0] == SI_USER && codes[1] == SI_TIMER && codes[2] == SI_TIMER,
          "each timer's waits by itself beside a sent one");
    timer_delete(one);
    timer_delete(two);

    struct itimerval soon = {{0, 300000}, {0, 5000}}, off = {{0, 0}, {0, 0}};
    block(SIGALRM);
    kill(getpid(), SIGALRM);
    setitimer(ITIMER_REAL, &soon, 0);
    until(nanoseconds() + 30 * MS);
    check(take(SIGALRM, &info, 0) && info.si_code == SI_USER, "setitimer's");
    fails(take(SIGALRM, &info, 0) ? 0 : -1, EAGAIN, "does not,");
    equal(take(SIGALRM, &info, 2000), SIGALRM, "and goes on");
    setitimer(ITIMER_REAL, &off, 0);
    unblock(SIGALRM);
}

static void ignored(void)
{
    siginfo_t info;
    timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGALRM, 0, 0);
    signal(SIGALRM, SIG_IGN);
    block(SIGUSR2);
    arm(timer, 5 * MS, 5 * MS);
    fails(take(SIGUSR2, &info, 50) ? 0 : -1, EAGAIN, "an ignored one interrupts nobody");
    handle(SIGALRM);
    check(ran(2), "the timer has gone on, for the handler that comes later");
    block(SIGALRM);
    arm(timer, MS, 500 * MS);
    until(nanoseconds() + 5 * MS);
    check(waits(SIGALRM), "one waits,");
    signal(SIGALRM, SIG_IGN);
    check(!waits(SIGALRM), "is thrown away when it is ignored,");
    handle(SIGALRM);
    unblock(SIGALRM);
    check(ran(1), "and the timer goes on");
    timer_delete(timer);
    unblock(SIGUSR2);
}

static siginfo_t told;
static sigset_t inside;
static volatile int wrong;

static void keep(int number, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    told = *info;
    wrong = number != info->si_signo || interrupted->uc_mcontext.gregs[REG_TRAPNO] != 0 ||
            interrupted->uc_mcontext.gregs[REG_ERR] != 0;
    pthread_sigmask(SIG_BLOCK, 0, &inside);
    runs++;
}

/* A kernel thread sends SIGCONT for the timer's interrupt, and may lose the CPU to the sleeper meanwhile. */
static void sent_by_a_thread(void)
{
    int late = 0;
    block(SIGCONT);
    timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGCONT, 0, 0);
    for (int i = 0; i < 200; i++) {
        struct timespec longer = {0, MS + 50 * i};
        arm(timer, MS, 1);
        nanosleep(&longer, 0);
        late += !waits(SIGCONT);
        arm(timer, 0, 0);
        take(SIGCONT, 0, 0);
    }
    equal(late, 0, "who sleeps as long as a timer finds its signal, whichever it is");
    timer_delete(timer);
    unblock(SIGCONT);
}

/* A handler that begins while its program computes: its information, by every kind of action; the
 * settings. */
static void computing(void)
{
    static const int flags[] = {0, SA_NODEFER, SA_RESETHAND, SA_NODEFER | SA_RESETHAND};
    timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SECOND, -5, 0);
    int all = 1, masks = 1, once = 1;
    for (int i = 0; i < 4; i++) {
        struct sigaction action = {
            .sa_sigaction = keep, .sa_flags = SA_SIGINFO | flags[i], .sa_mask = set_of(SIGUSR1)};
        sigaction(SECOND, &action, 0);
        memset(&told, -1, sizeof told);
        runs = 0;
        arm(timer, MS, 0);
        all &= ran(1) && !wrong && told.si_code == SI_TIMER && told.si_errno == 0 &&
               told.si_value.sival_ptr == (void *)(intptr_t)(uint32_t)-5;
        all &= told.si_timerid == (int)(intptr_t)timer && told.si_overrun == 0 && left(timer) == 0 &&
               timer_getoverrun(timer) == 0;
        masks &= sigismember(&inside, SIGUSR1) && sigismember(&inside, SECOND) == !(flags[i] & SA_NODEFER);
        sigset_t now;
        struct sigaction then;
        pthread_sigmask(SIG_BLOCK, 0, &now);
        sigaction(SECOND, 0, &then);
        masks &= !sigismember(&now, SIGUSR1) && !sigismember(&now, SECOND);
        once &= (then.sa_handler == SIG_DFL) == !!(flags[i] & SA_RESETHAND);
    }
    check(all, "a handler that interrupts a computation is told all of its timer");
    check(masks, "it blocks what its action says, until it returns");
    check(once, "and an action for one time is gone");
    handle(SECOND);
    arm(timer, 1000 * MS, 0);
    arm(timer, MS, 0);
    check(ran(1) && left(timer) == 0, "a timer that is set again for sooner rings sooner");
    arm(timer, MS, 0);
    arm(timer, 0, 0);
    until(nanoseconds() + 5 * MS);
    check(runs == 1 && left(timer) == 0, "one that is disarmed does not");
    arm(timer, 30 * MS, 0);
    arm(timer, 60 * MS, 0);
    int64_t start = nanoseconds();
    check(ran(2) && nanoseconds() - start >= 55 * MS, "and one that is set for later rings later");
    runs = 0;
    arm(timer, MS, 2 * MS);
    check(ran(4), "one with an interval goes on");
    block(SECOND);
    until(nanoseconds() + 5 * MS);
    check(waits(SECOND), "its signal waits while it is blocked;");
    arm(timer, 500 * MS, 0);
    runs = 0;
    unblock(SECOND);
    int64_t rest = left(timer);
    check(runs <= 1 && rest > 400 * MS, "set again meanwhile, the timer does not go on when it is taken");
    timer_delete(timer);
    timer = create(CLOCK_MONOTONIC, SIGEV_NONE, 0, 0, 0);
    arm(timer, 500 * MS, 0);
    rest = left(timer);
    check(rest > 400 * MS && rest <= 500 * MS, "one without a signal is read");
    timer_delete(timer);
}

#include "timers-threads.h"
#include "timers-processes.h"

static void quiet(void)
{
    timer_t timer = create(CLOCK_MONOTONIC, SIGEV_NONE, 0, 0, 0);
    arm(timer, 10 * MS, 0);
    int64_t before = left(timer);
    until(nanoseconds() + 20 * MS);
    check(before > 0 && before <= 10 * MS && left(timer) == 0, "a timer that tells nobody runs down");
    arm(timer, 10 * MS, 10 * MS);
    until(nanoseconds() + 35 * MS);
    int64_t after = left(timer);
    check(after > 0 && after <= 10 * MS && timer_getoverrun(timer) == 0, "or goes on");
    timer_delete(timer);
    fails(timer_getoverrun(timer), EINVAL, "and is gone once it is deleted");
}

static void *nothing(void *argument) { return argument; }

/* Threads and processes that end while timers ring for them. */
static void crowds(void)
{
    handle(SIGUSR1);
    timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1, 0, 0);
    arm(timer, MS / 10, MS / 10);
    int good = 1;
    for (int i = 0; i < 100; i++) {
        pthread_t some[4];
        for (int j = 0; j < 4; j++)
            good &= pthread_create(some + j, 0, nothing, 0) == 0;
        for (int j = 0; j < 4; j++)
            good &= pthread_join(some[j], 0) == 0;
    }
    check(good && runs > 0, "threads come and go while a timer rings");
    runs = 0;
    check(ran(20), "which it goes on to do");
    timer_delete(timer);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (child == 0) {
            timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1, 0, 0);
            arm(timer, MS / 10, MS / 10);
            pthread_t thread;
            pthread_create(&thread, 0, nothing, 0);
            int64_t end = nanoseconds() + i * MS / 100;
            while (nanoseconds() < end)
                ;
            _exit(3);
        }
        int status = status_of(child);
        good &= WIFEXITED(status) && WEXITSTATUS(status) == 3;
    }
    check(good, "processes end while their timers ring");
}

/* Each has stopped and is continued by a timer, all at once; so each has news for one that is just as
 * stopped. */
static void family(void)
{
    enum { GENERATIONS = 60 };
    int64_t when = nanoseconds() + 400 * MS;
    pid_t first = fork();
    if (first == 0) {
        for (int generation = 0;; generation++) {
            /* Again and again: one may stop only when the instant has passed. */
            struct itimerspec at = {.it_value = {.tv_sec = (when - generation) / 1000000000,
                                                 .tv_nsec = (when - generation) % 1000000000},
                                    .it_interval.tv_nsec = 100 * MS};
            pid_t child = generation < GENERATIONS ? fork() : 0;
            int status = 0;
            if (child == 0 && generation < GENERATIONS)
                continue;
            timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGCONT, 0, 0);
            if (timer_settime(timer, TIMER_ABSTIME, &at, 0) != 0)
                _exit(1);
            raise(SIGSTOP);
            if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
                _exit(1);
            _exit(0);
        }
    }
    equal(status_of(first), 0, "a family of stopped processes is continued by its timers");
}

/* Numbers that are no time, and the timer that a signal is of. */
static void numbers(void)
{
    struct itimerval wrong = {{0, 0}, {0, 1000000}};
    fails(setitimer(ITIMER_REAL, &wrong, 0), EINVAL, "a million microseconds");
    wrong.it_value.tv_usec = 1L << 60;
    fails(setitimer(ITIMER_REAL, &wrong, 0), EINVAL, "and many more");
    siginfo_t info;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = FIRST};
    int timers[3], of = -1;
    block(FIRST);
    for (int i = 0; i < 3; i++)
        syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timers[i]);
    struct itimerspec soon = {{0, 0}, {0, MS}};
    syscall(SYS_timer_settime, timers[2], 0, &soon, 0);
    if (take(FIRST, &info, 20000) == FIRST)
        of = info.si_timerid;
    equal(of, timers[2], "a signal says of which timer it is");
    for (int i = 0; i < 3; i++)
        syscall(SYS_timer_delete, timers[i]);
    unblock(FIRST);
}

/* Errors of two calls that programs make often, by their numbers. */
static void refusals(void)
{
    char *none = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *fresh = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct itimerspec soon = {.it_value.tv_sec = 100}, wrong = {.it_value.tv_nsec = 1000000000},
                      early = {.it_interval.tv_sec = -1};
    int id = -1;
    equal(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id), 0, "a timer");
    fails(syscall(SYS_timer_settime, id, 0, 0, 0), EINVAL, "set to nothing");
    fails(syscall(SYS_timer_settime, id, 0, none, 0), EFAULT, "set to what cannot be read");
    fails(syscall(SYS_timer_settime, id, 0, -8l, 0), EFAULT, "set to what is the kernel's");
    fails(syscall(SYS_timer_settime, id, 0, &wrong, 0), EINVAL, "set to too many nanoseconds");
    fails(syscall(SYS_timer_settime, id, 0, &early, 0), EINVAL, "set with a negative interval");
    fails(syscall(SYS_timer_settime, id + 1, 0, &soon, 0), EINVAL, "a timer that there is not");
    fails(syscall(SYS_timer_settime, id, 0, &soon, none), EFAULT, "the former setting cannot be written");
    equal(syscall(SYS_timer_settime, id, 0, &soon, fresh), 0, "into a page that nobody has touched");
    struct itimerspec *shown = (struct itimerspec *)fresh;
    equal(shown->it_value.tv_sec >= 99 && shown->it_interval.tv_sec == 0, 1, "though it had been set");
    equal(syscall(SYS_timer_delete, id), 0, "deleted");
    fails(syscall(SYS_timer_settime, id, 0, &soon, 0), EINVAL, "set when it has been deleted");
    fails(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, none), EFAULT, "a time that cannot be written");
    fails(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, -8l), EFAULT, "or is the kernel's");
    fails(syscall(SYS_clock_gettime, 9999, fresh), EINVAL, "an unknown clock");
    munmap(fresh, 4096);
    fresh = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    equal(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, fresh), 0,
          "a time into a page that nobody has touched");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct timespec *then = (struct timespec *)fresh;
    equal(now.tv_sec - then->tv_sec <= 1 && then->tv_sec <= now.tv_sec && then->tv_nsec < 1000 * MS, 1,
          "which has passed");
    munmap(fresh, 4096);
    munmap(none, 4096);
}

/* A timer whose number cannot be told is not made. A user has few signals left, so that those that stayed
 * would be missed. */
static void not_made(void)
{
    enum { LEFT = 3, TRIES = 10 };
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    struct rlimit old, few;
    int ids[LEFT], efault = 0, made = 0;
    getrlimit(RLIMIT_SIGPENDING, &old);
    few = old;
    few.rlim_cur = number_in("/proc/self/status", "SigQ:") + LEFT;
    equal(setrlimit(RLIMIT_SIGPENDING, &few), 0, "few signals are left");
    for (int i = 0; i < TRIES; i++)
        efault += syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, 8) == -1 && errno == EFAULT;
    equal(efault, TRIES, "a timer's number goes nowhere, again and again");
    while (made < LEFT && syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &ids[made]) == 0)
        made++;
    equal(made, LEFT, "and leaves nothing: as many timers as there are signals left can be made");
    while (made-- > 0)
        syscall(SYS_timer_delete, ids[made]);
    setrlimit(RLIMIT_SIGPENDING, &old);
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 2 && strcmp(argv[1], "pause") == 0)
        for (;;)
            pause();
    numbers();
    refusals();
    not_made();
    blocked();
    sent_by_a_thread();
    computing();
    several();
    ignored();
    threads();
    askers();
    profiles();
    whole();
    cpu_time();
    quiet();
    crowds();
    family();
    many();
    return done();
}
