/* The thread that a timer's signal is for: a part of `timers`.
 *
 * Interface: the checks threads, askers and profiles.
 */
#ifndef TIMERS_THREADS_H
#define TIMERS_THREADS_H

/* A thread that does what it is told, one step at a time. */
struct helper {
    pthread_t thread;
    pid_t tid;
    int mask;
    volatile int over, waited;
    sem_t ready, go;
};

static void *help(void *argument)
{
    struct helper *h = argument;
    if (h->mask)
        block(h->mask);
    h->tid = gettid();
    sem_post(&h->ready);
    while (!h->over) {
        while (sem_wait(&h->go))
            ;
        h->waited = h->mask && waits(h->mask);
        sem_post(&h->ready);
    }
    return 0;
}

static void begin(struct helper *h, int mask)
{
    sigset_t all, old;
    h->mask = mask;
    h->over = 0;
    sem_init(&h->ready, 0, 0);
    sem_init(&h->go, 0, 0);
    sigfillset(&all);
    if (!mask)
        sigemptyset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_create(&h->thread, 0, help, h);
    pthread_sigmask(SIG_SETMASK, &old, 0);
    while (sem_wait(&h->ready))
        ;
}

static void step(struct helper *h)
{
    sem_post(&h->go);
    while (sem_wait(&h->ready))
        ;
}

static void end(struct helper *h)
{
    h->over = 1;
    sem_post(&h->go);
    pthread_join(h->thread, 0);
}

#define CROWD 24

static void threads(void)
{
    static struct helper one, crowd[CROWD];
    siginfo_t info;
    begin(&one, 0);
    handle(SIGUSR1);
    block(SIGUSR1);
    block(SIGUSR2);
    timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGUSR1, 0, 0);
    arm(timer, 20 * MS, 0);
    fails(take(SIGUSR2, &info, 100) ? 0 : -1, EAGAIN,
          "a timer's signal does not disturb a thread that blocks it");
    check(runs == 1 && ran_in == one.tid, "one that does not gets it");
    for (int i = 0; i < CROWD; i++)
        begin(crowd + i, SIGUSR1);
    arm(timer, 20 * MS, 0);
    fails(take(SIGUSR2, &info, 100) ? 0 : -1, EAGAIN, "nor in a crowd");
    check(runs == 2 && ran_in == one.tid, "where it is found, too");
    for (int i = 0; i < CROWD; i++)
        end(crowd + i);
    /* Long enough to be there in time on a busy machine. */
    arm(timer, 200 * MS, 0);
    equal(take(SIGUSR1, &info, 2000), SIGUSR1, "who waits for a signal has it before another's handler");
    end(&one);
    timer_delete(timer);
    unblock(SIGUSR1);

    handle(SIGUSR1);
    begin(&one, 0);
    timer = create(CLOCK_MONOTONIC, SIGEV_THREAD_ID, SIGUSR1, 0, one.tid);
    arm(timer, 10 * MS, 0);
    check(ran(1) && ran_in == one.tid, "SIGEV_THREAD_ID: the thread gets it");
    timer_delete(timer);
    end(&one);
    begin(&one, FIRST);
    signal(FIRST, SIG_DFL);
    timer = create(CLOCK_MONOTONIC, SIGEV_THREAD_ID, FIRST, 0, one.tid);
    arm(timer, MS, MS);
    until(nanoseconds() + 20 * MS);
    step(&one);
    check(one.waited, "it waits for the thread,");
    block(FIRST);
    check(!waits(FIRST), "and for nobody else");
    end(&one);
    fails(take(FIRST, &info, 50) ? 0 : -1, EAGAIN, "not after the thread's end either");
    while (syscall(SYS_tgkill, getpid(), one.tid, 0) == 0)
        until(nanoseconds() + MS);
    arm(timer, MS, 0);
    until(nanoseconds() + 5 * MS);
    check(!waits(FIRST), "what expires after that is for nobody");
    arm(timer, 20 * MS, 0);
    fails(take(FIRST, &info, 60) ? 0 : -1, EAGAIN, "and disturbs nobody who waits");
    timer_delete(timer);
    unblock(FIRST);
    unblock(SIGUSR2);
}

static atomic_int over;

static void *asks(void *unused)
{
    sigset_t set;
    (void)unused;
    while (!over)
        sigpending(&set);
    return 0;
}

/* Others look at the same moments for what waits; the thread that waits for a timer's signal has it all
 * the same. */
static void askers(void)
{
    pthread_t others[3];
    siginfo_t info;
    int wrong = 0;
    block(FIRST);
    over = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(others + i, 0, asks, 0);
    timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, FIRST, 0, 0);
    for (int i = 0; i < 2000; i++) {
        arm(timer, MS / 10, 0);
        wrong += take(FIRST, &info, 10000) != FIRST;
    }
    over = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(others[i], 0);
    equal(wrong, 0, "others that look at what waits disturb no wait for it");
    timer_delete(timer);
    unblock(FIRST);
}
/* Samples of CPU time: by thread. */
static atomic_int samples[4];
static _Thread_local int number_of_thread;
static atomic_int enough;

static void count_sample(int signo)
{
    (void)signo;
    samples[number_of_thread]++;
}

static void *use_time(void *number)
{
    number_of_thread = (int)(intptr_t)number;
    while (!enough)
        for (volatile int i = 0; i < 1000; i++)
            ;
    return 0;
}

static int64_t time_used(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000 * MS + now.tv_nsec;
}

/* Two threads use CPU time until there are enough samples; the first sleeps a little again and again. */
static void sampled_threads(const char *what)
{
    char line[100];
    pthread_t thread[2];
    struct timespec little = {0, 20 * MS};
    enough = 0;
    for (int i = 0; i < 4; i++)
        samples[i] = 0;
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&thread[i], 0, use_time, (void *)(i + 1));
    int64_t end = time_used() + 5000 * MS;
    while (samples[0] + samples[1] + samples[2] < 40 && time_used() < end)
        nanosleep(&little, 0);
    enough = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], 0);
    int all = samples[0] + samples[1] + samples[2];
    printf("# %s: sleeper %d, busy %d and %d\n", what, samples[0], samples[1], samples[2]);
    snprintf(line, sizeof line, "%s: samples come", what);
    check(all >= 20, line);
    snprintf(line, sizeof line, "%s: not to a thread that sleeps", what);
    check(samples[0] * 5 <= all, line);
    snprintf(line, sizeof line, "%s: each that uses time has its share", what);
    check(samples[1] * 5 >= all && samples[2] * 5 >= all, line);
}

/* A profiler's signals reach the thread that uses the time. */
static void profiles(void)
{
    struct sigaction action = {.sa_handler = count_sample, .sa_flags = SA_RESTART};
    struct itimerval each = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}};
    struct itimerspec also = {{0, 10 * MS}, {0, 10 * MS}};
    sigevent_t event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
    timer_t timer;
    sigaction(SIGPROF, &action, 0);
    sigaction(SIGVTALRM, &action, 0);
    setitimer(ITIMER_PROF, &each, 0);
    sampled_threads("a profiling timer");
    setitimer(ITIMER_PROF, &none, 0);
    setitimer(ITIMER_VIRTUAL, &each, 0);
    sampled_threads("a virtual timer");
    setitimer(ITIMER_VIRTUAL, &none, 0);
    timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer);
    timer_settime(timer, 0, &also, 0);
    sampled_threads("a timer on the process's clock");
    timer_delete(timer);
    signal(SIGPROF, SIG_DFL);
    signal(SIGVTALRM, SIG_DFL);
}
#endif
