/* Groups of processes that are signalled while their members make others: a part of `jobs`.
 *
 * Interface: the group chains.
 */
#ifndef JOBS_CHAINS_H
#define JOBS_CHAINS_H

/* A chain of processes in a group of their own, each of which makes the next and ends; says so on
 * `started`. */
static pid_t begin_chain(int started)
{
    pid_t first = fork();
    if (first)
        return first;
    setpgid(0, 0);
    if (write(started, "!", 1) != 1)
        _exit(2);
    for (;;) {
        pid_t next = fork();
        if (next)
            _exit(next < 0);
    }
}

/* Whether `fd` ends within ten seconds: everybody who had the other end is gone. */
static int ends_soon(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    char rest;
    return poll(&end, 1, 10000) == 1 && read(fd, &rest, 1) == 0;
}

static volatile int *started, *signalled;

/* Makes a child that stays, as soon as the signal has been sent to all. */
static void *late_forker(void *blocked)
{
    sigset_t all;
    sigfillset(&all);
    if (blocked)
        pthread_sigmask(SIG_BLOCK, &all, 0);
    __atomic_add_fetch(started, 1, __ATOMIC_SEQ_CST);
    while (!*signalled)
        ;
    fork();
    for (;;)
        pause();
}

/* A process of two threads in a group of its own, of which one waits and the other is a late forker. */
static pid_t begin_pair(int blocked)
{
    pthread_t thread;
    pid_t pair = fork();
    if (pair)
        return pair;
    setpgid(0, 0);
    pthread_create(&thread, 0, late_forker, blocked ? "blocked" : 0);
    /* From here on this one takes the signal. */
    __atomic_add_fetch(started, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
}

/* The signal ends the whole process, whichever thread takes it, before kill returns. */
static void late_children(void)
{
    int survivors = 0;
    started = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    signalled = started + 1;
    for (int turn = 0; turn < repeats(400) && survivors == 0; turn++) {
        int fds[2];
        if (pipe(fds))
            break;
        *started = *signalled = 0;
        pid_t pair = begin_pair(turn & 1);
        close(fds[1]);
        while (*started < 2)
            sched_yield();
        kill(-pair, SIGTERM);
        *signalled = 1;
        survivors += !ends_soon(fds[0]);
        kill(-pair, SIGKILL);
        close(fds[0]);
        status_of(pair);
    }
    equal(survivors, 0, "a thread makes no child when a signal has ended its process");
}

static volatile pid_t looked_for;
static volatile int without_group;

static void *look_for_groups(void *unused)
{
    while (looked_for)
        without_group += getpgid(looked_for) == 0;
    return unused;
}

/* Children come and go under the eyes of another thread. */
static void groups_of_reaped(void)
{
    pthread_t thread;
    looked_for = getpid();
    pthread_create(&thread, 0, look_for_groups, 0);
    for (int turn = 0; turn < repeats(4000); turn++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        looked_for = child;
        status_of(child);
    }
    looked_for = 0;
    pthread_join(thread, 0);
    equal(without_group, 0, "a process is in a group, or is not there");
}

static void chains(void)
{
    int killed_all = 1, none_left = 1;
    for (int turn = 0; turn < repeats(300) && killed_all && none_left; turn++) {
        int fds[2];
        char first;
        if (pipe(fds))
            break;
        pid_t chain = begin_chain(fds[1]);
        close(fds[1]);
        none_left &= read(fds[0], &first, 1) == 1;
        for (int i = 0; i < turn % 23; i++)
            sched_yield();
        /* There is always somebody in the group. */
        killed_all &= kill(-chain, SIGKILL) == 0;
        none_left &= ends_soon(fds[0]);
        close(fds[0]);
        status_of(chain);
    }
    check(killed_all, "a group whose members make one another is there to be killed");
    check(none_left, "and nobody of it lives on");
    late_children();
    groups_of_reaped();
}
#endif
