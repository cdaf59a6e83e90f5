/* Timers of a whole process: what sleeps, stops, executes or computes meanwhile: a part of `timers`.
 *
 * Interface: the checks whole, cpu_time and many.
 */
#ifndef TIMERS_PROCESSES_H
#define TIMERS_PROCESSES_H

static int killed(int status, int number) { return WIFSIGNALED(status) && WTERMSIG(status) == number; }

static void whole(void)
{
    pid_t child = fork();
    struct itimerval soon = {{0, 0}, {0, 20000}};
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, 0);
        for (;;)
            pause();
    }
    check(killed(status_of(child), SIGALRM), "SIGALRM ends who sleeps");
    child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, 0);
        for (;;)
            ;
    }
    check(killed(status_of(child), SIGALRM), "and who computes");
    child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        setitimer(ITIMER_REAL, &soon, 0);
        execl(self, self, "pause", (char *)0);
        _exit(1);
    }
    check(killed(status_of(child), SIGALRM), "an alarm outlives exec");

    int status;
    child = fork();
    if (child == 0) {
        handle(SIGALRM);
        setitimer(ITIMER_REAL, &soon, 0);
        raise(SIGSTOP);
        _exit(10 + runs);
    }
    waitpid(child, &status, WUNTRACED);
    check(WIFSTOPPED(status), "a process stops before its timer expires,");
    until(nanoseconds() + 60 * MS);
    equal(waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED), 0, "which changes nothing,");
    kill(child, SIGCONT);
    status = status_of(child);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 11, "and gets the signal when it goes on");

    child = fork();
    if (child == 0) {
        timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGCONT, 0, 0);
        /* Again and again: on a busy machine the first one may come before the stop. */
        arm(timer, 20 * MS, 20 * MS);
        raise(SIGSTOP);
        _exit(5);
    }
    do
        waitpid(child, &status, WUNTRACED);
    while (WIFSTOPPED(status));
    check(WIFEXITED(status) && WEXITSTATUS(status) == 5, "a timer's SIGCONT continues a stopped process");
    child = fork();
    if (child == 0) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, 0);
        timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGKILL, 0, 0);
        arm(timer, 20 * MS, 0);
        for (;;)
            sigsuspend(&all);
    }
    check(killed(status_of(child), SIGKILL), "a timer's SIGKILL kills");
    child = fork();
    if (child == 0) {
        timer_t timer = create(CLOCK_MONOTONIC, SIGEV_SIGNAL, SIGSTOP, 0, 0);
        arm(timer, 20 * MS, 0);
        for (;;)
            pause();
    }
    waitpid(child, &status, WUNTRACED);
    check(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "a timer's SIGSTOP stops");
    kill(child, SIGKILL);
    status_of(child);

    handle(SIGALRM);
    /* Once more if the signal came before the child did. */
    enum { TOO_EARLY = 77 };
    do {
        runs = 0;
        setitimer(ITIMER_REAL, &soon, 0);
        child = vfork();
        if (child == 0) {
            if (runs)
                _exit(TOO_EARLY);
            int64_t end = nanoseconds() + 60 * MS;
            while (nanoseconds() < end)
                ;
            _exit(runs);
        }
        status = status_of(child);
    } while (WIFEXITED(status) && WEXITSTATUS(status) == TOO_EARLY);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0 && runs == 1,
          "a vfork parent has it after its child");
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void cpu_time(void)
{
    struct itimerval soon = {{0, 0}, {0, 20000}};
    siginfo_t info;
    handle(SIGPROF);
    block(SIGUSR2);
    int64_t from = cpu_ns();
    setitimer(ITIMER_PROF, &soon, 0);
    int disturbed = take(SIGUSR2, &info, 60) || errno != EAGAIN;
    /* On a busy host computing little may take long. */
    int little = cpu_ns() - from < 10 * MS;
    unblock(SIGUSR2);
    check(!little || !disturbed, "a timer on CPU time disturbs nobody who sleeps");
    check(!little || runs == 0, "and does not expire meanwhile");
    check(ran(1), "but when it computes");
    handle(SIGVTALRM);
    setitimer(ITIMER_VIRTUAL, &soon, 0);
    check(ran(1), "on user time");
    handle(SIGUSR1);
    timer_t timer = create(CLOCK_PROCESS_CPUTIME_ID, SIGEV_SIGNAL, SIGUSR1, 0, 0);
    arm(timer, 5 * MS, 5 * MS);
    check(ran(3), "again and again");
    timer_delete(timer);
}
/* More alarms than any table of a fixed size has places: each process sets some, and all is as before. */
static void many(void)
{
    enum { PROCESSES = 140, EACH = 32, HOURS = 3600 };
    static pid_t setters[PROCESSES];
    struct rlimit before, limit = {3 * PROCESSES * EACH, 3 * PROCESSES * EACH};
    int ends[2], made = 0;
    getrlimit(RLIMIT_SIGPENDING, &before);
    /* Another user has not so many. */
    if (setrlimit(RLIMIT_SIGPENDING, &limit) != 0 || pipe(ends) != 0)
        return;
    for (int i = 0; i < PROCESSES; i++) {
        setters[i] = fork();
        if (setters[i] == 0) {
            unsigned char count = 0;
            struct itimerspec later = {{0, 0}, {HOURS, 0}};
            for (int j = 0; j < EACH; j++) {
                timer_t timer;
                count += timer_create(CLOCK_MONOTONIC, 0, &timer) == 0 &&
                         timer_settime(timer, 0, &later, 0) == 0;
            }
            write(ends[1], &count, 1);
            for (;;)
                pause();
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        unsigned char count = 0;
        read(ends[0], &count, 1);
        made += count;
    }
    equal(made, PROCESSES * EACH, "thousands of timers are set");
    equal(poll(0, 0, 1), 0, "and a thread can still sleep for a time");
    pid_t child = fork();
    struct itimerval soon = {{0, 0}, {0, 20000}};
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        if (setitimer(ITIMER_REAL, &soon, 0) != 0)
            _exit(1);
        for (;;)
            pause();
    }
    check(killed(status_of(child), SIGALRM), "and be told by SIGALRM");
    for (int i = 0; i < PROCESSES; i++)
        kill_child(setters[i]);
    close(ends[0]);
    close(ends[1]);
    setrlimit(RLIMIT_SIGPENDING, &before);
}

#endif
