/* Signals that were left to a thread that does not take them: a part of `jobs`.
 *
 * Interface: the group leftovers.
 */
#ifndef JOBS_LEFTOVERS_H
#define JOBS_LEFTOVERS_H

/* A signal for the process may be left to one thread that then takes it no more: it is for another. */
static volatile int told, turn, over, ready;

static void on_told(int number)
{
    (void)number;
    __atomic_fetch_add(&told, 1, __ATOMIC_SEQ_CST);
}

static void hold(int how, sigset_t *old)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(how, &set, old);
}

/* Some time, another one at each turn. */
static void linger(int step)
{
    for (volatile int i = turn * step % 2003; i > 0; i--)
        ;
}

/* Tells the process once at each turn. */
static void *teller(void *unused)
{
    for (int seen = 0; !over;) {
        if (turn == seen) {
            sched_yield();
            continue;
        }
        seen = turn;
        linger(37);
        kill(getpid(), SIGUSR1);
    }
    return unused;
}

/* Would take it, but is not asked first. */
static void *spare(void *unused)
{
    hold(SIG_UNBLOCK, 0);
    for (ready = 1; !over && ready;)
        usleep(500);
    return unused;
}

/* Waits two or three seconds at most for what is told at this turn. */
static void hear(int before)
{
    time_t end = time(0) + 3;
    while (told == before && time(0) < end)
        sched_yield();
}

static void blocks(void)
{
    int before = told;
    hold(SIG_UNBLOCK, 0);
    turn++;
    linger(53);
    hold(SIG_BLOCK, 0);
    hear(before);
}

static void stops_waiting(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int before = told;
    turn++;
    struct timespec soon = {0, turn * 53 % 2003 * 50};
    if (sigtimedwait(&set, 0, &soon) == SIGUSR1)
        on_told(SIGUSR1);
    hear(before);
}

static void *ender(void *unused)
{
    hold(SIG_UNBLOCK, 0);
    while (!ready)
        sched_yield();
    turn++;
    linger(53);
    syscall(SYS_exit, 0);
    return unused;
}

static void ends(void)
{
    pthread_t first, second;
    int before = told;
    ready = 0;
    pthread_create(&first, 0, ender, 0);
    pthread_create(&second, 0, spare, 0);
    hear(before);
    ready = 0;
    pthread_join(first, 0);
    pthread_join(second, 0);
}

static void leave(void (*way)(void), int turns, const char *name)
{
    sigset_t old;
    pthread_t other[2];
    hold(SIG_BLOCK, &old);
    turn = told = over = 0;
    pthread_create(&other[0], 0, teller, 0);
    if (way != ends)
        pthread_create(&other[1], 0, spare, 0);
    while (turn < turns && told == turn)
        way();
    equal(told, turns, name);
    over = 1;
    pthread_join(other[0], 0);
    if (way != ends)
        pthread_join(other[1], 0);
    pthread_sigmask(SIG_SETMASK, &old, 0);
}

static void pair(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGUSR2);
}

/* Takes one of two, and no other until both have been taken. */
static void *taker(void *unused)
{
    sigset_t both;
    int number;
    pair(&both);
    for (;;) {
        sigwait(&both, &number);
        if (over)
            return unused;
        /* The turn that the signal belongs to: the next may have begun before this thread looks again. */
        int own = turn;
        on_told(number);
        while (told < 2 * own && !over)
            usleep(200);
    }
}

/* Both signals of a pair are left to the same thread, which takes one. */
static void pairs(void)
{
    sigset_t both, old;
    pthread_t other[2];
    struct timespec now = {0, 0};
    pair(&both);
    pthread_sigmask(SIG_BLOCK, &both, &old);
    turn = told = over = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&other[i], 0, taker, 0);
    while (turn < 50 && told == 2 * turn) {
        usleep(2000);
        turn++;
        kill(getpid(), SIGUSR1);
        kill(getpid(), SIGUSR2);
        for (int i = 0; told < 2 * turn && i < 2000; i++)
            usleep(1000);
    }
    equal(told, 100, "one left to a thread that takes another first is another's");
    over = 1;
    for (int i = 0; i < 2; i++)
        pthread_kill(other[i], SIGUSR1);
    for (int i = 0; i < 2; i++)
        pthread_join(other[i], 0);
    while (sigtimedwait(&both, 0, &now) > 0)
        ;
    pthread_sigmask(SIG_SETMASK, &old, 0);
}

static void leftovers(void)
{
    struct sigaction action = {.sa_handler = on_told, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, 0);
    leave(blocks, 2000, "a signal left to a thread that blocks it is another's");
    leave(stops_waiting, 1000, "and one left to a thread that waits no longer");
    leave(ends, 300, "and one left to a thread that ends");
    signal(SIGUSR1, SIG_DFL);
    pairs();
}
#endif
