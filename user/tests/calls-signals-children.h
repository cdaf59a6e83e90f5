/* Waiting for chosen children, and signals to groups and parents: a part of `calls-signals`.
 *
 * Interface: the last groups of `calls-signals`.
 */
#ifndef CALLS_SIGNALS_CHILDREN_H
#define CALLS_SIGNALS_CHILDREN_H

/* --- waiting for children: which --- */

static pid_t child_in_group(pid_t group, int code)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        usleep(1000);
        _exit(code);
    }
    setpgid(child, group < 0 ? child : group);
    return child;
}

static void groups_of_children(void)
{
    int status;
    /* The leader ends last, so that there is a group to join. */
    fflush(stdout);
    int hold[2];
    pipe(hold);
    pid_t leader = fork();
    if (leader == 0) {
        char c;
        close(hold[1]);
        read(hold[0], &c, 1);
        _exit(1);
    }
    setpgid(leader, leader);
    pid_t member = fork();
    if (member == 0) {
        char c;
        close(hold[1]);
        read(hold[0], &c, 1);
        _exit(2);
    }
    setpgid(member, leader);
    pid_t ours = child_in_group(getpgrp(), 3);
    pid_t own = child_in_group(-1, 4);
    siginfo_t info = {0};
    waitid(P_PID, ours, &info, WEXITED | WNOWAIT);
    waitid(P_PID, own, &info, WEXITED | WNOWAIT);
    equal(waitpid(-leader, &status, WNOHANG), 0, "waitpid of a group, of which nobody has ended");
    equal(waitid(P_PGID, leader, (info = (siginfo_t){0}, &info), WEXITED | WNOHANG) == 0 && info.si_pid == 0,
          1, "waitid, too");
    equal(waitpid(0, &status, 0) == ours && status == 3 << 8, 1, "waitpid of the caller's group");
    fails(waitpid(0, &status, 0), ECHILD, "which has no other child");
    equal(waitpid(-own, &status, 0) == own && status == 4 << 8, 1, "of a third group");
    fails(waitpid(-own, &status, 0), ECHILD, "which has no more");
    close(hold[1]), close(hold[0]);
    pid_t first = waitpid(-leader, &status, 0), second = waitpid(-leader, &status, 0);
    equal(first != second && (first == leader || first == member) && (second == leader || second == member),
          1, "of the first, both");
    fails(waitpid(-leader, &status, 0), ECHILD, "and then none");
    fails(waitpid(-1, &status, 0), ECHILD, "none at all");
    fails(waitpid(-1, &status, 0x80), EINVAL, "waitpid with an unknown option");
    fails(waitid(P_PID, 1, &info, 0), EINVAL, "waitid for nothing");
    fails(setpgid(getpid(), 999999), EPERM, "setpgid to a group that is not there");
    fails(setpgid(getpid(), -1), EINVAL, "to a negative one");
    fails(getpgid(999999), ESRCH, "getpgid of nobody");
    /* The answers of waitid. */
    pid_t killed = fork();
    if (killed == 0)
        pause();
    kill(killed, SIGTERM);
    equal(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_pid == killed && info.si_code == CLD_KILLED &&
              info.si_status == SIGTERM,
          1, "waitid of one that was killed");
    killed = fork();
    if (killed == 0)
        pause();
    kill(killed, SIGSTOP);
    equal(waitid(P_PID, killed, &info, WSTOPPED) == 0 && info.si_code == CLD_STOPPED &&
              info.si_status == SIGSTOP,
          1, "of one that stopped");
    equal(waitpid(killed, &status, WUNTRACED | WNOHANG), 0, "a stop is told once");
    kill(killed, SIGKILL);
    waitpid(killed, &status, 0);
    equal(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, 1, "SIGKILL ends a stopped one");
}

/* --- signals to groups, and the parent's --- */

static volatile int told_of;
static siginfo_t of_child;
static void on_child(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    of_child = *info;
    told_of++;
}

static void children(void)
{
    int status, ready[2];
    char c;
    pipe(ready);
    fflush(stdout);
    pid_t group = 0, list[3];
    for (int i = 0; i < 3; i++) {
        list[i] = fork();
        if (list[i] == 0) {
            write(ready[1], "r", 1);
            for (;;)
                pause();
        }
        setpgid(list[i], group);
        group = list[0];
        read(ready[0], &c, 1);
    }
    setpgid(list[2], 0);
    equal(kill(-group, SIGTERM), 0, "kill of a group");
    equal(waitpid(list[0], &status, 0) == list[0] && status == SIGTERM, 1, "reaches the first");
    equal(waitpid(list[1], &status, 0) == list[1] && status == SIGTERM, 1, "and the second");
    equal(waitpid(list[2], &status, WNOHANG), 0, "not one of another group");
    fails(kill(-group, SIGTERM), ESRCH, "the group is gone");
    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_NOCLDSTOP};
    sigaction(SIGCHLD, &action, 0);
    kill(list[2], SIGSTOP);
    waitpid(list[2], &status, WUNTRACED);
    equal(told_of, 0, "SA_NOCLDSTOP: a stop sends no SIGCHLD");
    kill(list[2], SIGKILL);
    while (waitpid(list[2], &status, 0) < 0 && errno == EINTR)
        ;
    equal(told_of, 1, "the end does");
    equal(of_child.si_pid == list[2] && of_child.si_code == CLD_KILLED && of_child.si_status == SIGKILL, 1,
          "and says how");
    action.sa_flags = SA_SIGINFO | SA_NOCLDWAIT;
    sigaction(SIGCHLD, &action, 0);
    if (fork() == 0)
        _exit(0);
    int got;
    while ((got = wait(&status)) < 0 && errno == EINTR)
        ;
    equal(got == -1 && errno == ECHILD, 1, "SA_NOCLDWAIT keeps no children");
    signal(SIGCHLD, SIG_DFL);
    close(ready[0]), close(ready[1]);
}

struct kernel_action {
    unsigned long handler, flags, restorer, mask;
};
static long change(int number, const void *new, void *old, long size)
{
    return syscall(SYS_rt_sigaction, number, new, old, size);
}
static struct kernel_action action_of(unsigned long n)
{
    return (struct kernel_action){0x10000 + n, n % 2 ? SA_RESTART : SA_NODEFER, n * 3, n << 32};
}
static int same_action(const struct kernel_action *one, const struct kernel_action *two)
{
    return memcmp(one, two, sizeof *one) == 0;
}

static volatile int changing = 1;
static void *changes(void *base)
{
    long bad = 0;
    for (unsigned long n = 0; changing; n++) {
        struct kernel_action new = action_of((long)base + n % 1000), old;
        if (change(SIGRTMIN + 5, &new, &old, 8) != 0)
            bad++;
        unsigned long was = old.handler - 0x10000;
        struct kernel_action expected = action_of(was);
        bad += old.handler != 0 && !same_action(&old, &expected);
    }
    return (void *)bad;
}

static void asking(void)
{
    long self = getpid();
    equal(syscall(SYS_kill, self, 0), 0, "kill with signal 0 asks only");
    equal(syscall(SYS_tgkill, self, self, 0), 0, "tgkill, too");
    fails(syscall(SYS_kill, self, 65), EINVAL, "there is no signal 65");
    fails(syscall(SYS_tgkill, self, self, -1), EINVAL, "nor -1");
    fails(syscall(SYS_tgkill, self, self + 1, 0), ESRCH, "nor this thread");
    was(0);
}

static void actions(void)
{
    struct kernel_action one = action_of(1), two = action_of(2), ignore = {(unsigned long)SIG_IGN}, old;
    equal(change(SIGUSR1, &one, &old, 8), 0, "a handler is installed");
    equal(change(SIGUSR1, &two, &old, 8) == 0 && same_action(&old, &one), 1,
          "the one before comes back, every word of it");
    old = two;
    equal(change(SIGUSR1, &old, &old, 8) == 0 && same_action(&old, &two), 1, "in the same place, too");
    equal(change(SIGUSR1, 0, &old, 8) == 0 && same_action(&old, &two), 1, "it can be asked for alone");
    equal(change(SIGUSR1, &one, 0, 8), 0, "and not at all");
    one.mask = ~0UL;
    change(SIGUSR1, &one, 0, 8);
    change(SIGUSR1, 0, &old, 8);
    equal(old.mask, ~(1L << (SIGKILL - 1) | 1L << (SIGSTOP - 1)),
          "the mask keeps no signal that cannot be blocked");
    two.flags = ~0UL;
    change(SIGUSR1, &two, 0, 8);
    change(SIGUSR1, 0, &old, 8);
    equal(old.flags, 0xdc000807, "unknown flags are not kept");
    two = action_of(2);
    change(SIGUSR1, &two, 0, 8);
    fails(change(0, &one, 0, 8), EINVAL, "signal 0");
    fails(change(65, &one, 0, 8), EINVAL, "signal 65");
    fails(change(-1, &one, 0, 8), EINVAL, "signal -1");
    fails(change(SIGKILL, &one, 0, 8), EINVAL, "SIGKILL");
    fails(change(SIGSTOP, &one, 0, 8), EINVAL, "SIGSTOP");
    fails(change(SIGUSR1, &one, 0, 16), EINVAL, "another size");
    fails(change(SIGUSR1, (void *)16, 0, 8), EFAULT, "an action nowhere");
    fails(change(SIGUSR1, (void *)(1UL << 63), 0, 8), EFAULT, "in the kernel's half");
    fails(change(SIGUSR1, (void *)0x7ffffffffff8, 0, 8), EFAULT, "across the end");
    char *pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 8192, 4096);
    struct kernel_action *untouched = (void *)(pages + 64), *across = (void *)(pages + 8192 - 16);
    one.mask = 0;
    equal(change(SIGUSR1, &two, untouched, 8), 0, "the old one to a page that was not there yet");
    equal(change(SIGUSR1, &one, untouched, 8) == 0 && same_action(untouched, &two), 1, "once");
    fails(change(SIGUSR1, &two, across, 8), EFAULT, "the old one to where nothing is");
    fails(change(SIGUSR1, across, 0, 8), EFAULT, "the new one from there");
    change(SIGUSR1, 0, &old, 8);
    equal(same_action(&old, &two), 1,
          "the first of these has changed it, as on Linux, and the other has not");
    /* A pending signal that is ignored now is forgotten. */
    sigset_t set = set_of(SIGUSR1, 0), pending;
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(SIGUSR1);
    change(SIGUSR1, &ignore, 0, 8);
    change(SIGUSR1, &one, 0, 8);
    sigpending(&pending);
    equal(sigismember(&pending, SIGUSR1), 0, "an ignored signal is not pending");
    raise(SIGUSR1);
    sigpending(&pending);
    equal(sigismember(&pending, SIGUSR1), 1, "one that is handled again is");
    change(SIGUSR1, &ignore, 0, 8);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    pthread_t four[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&four[i], 0, changes, (void *)(i * 1000));
    for (long i = 0; i < 200000; i++) {
        change(SIGRTMIN + 5, 0, &old, 8);
        if (old.handler != 0) {
            struct kernel_action expected = action_of(old.handler - 0x10000);
            if (!same_action(&old, &expected))
                break;
        }
    }
    changing = 0;
    long bad = 0;
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(four[i], &result);
        bad += (long)result;
    }
    struct kernel_action expected = action_of(old.handler - 0x10000);
    equal(bad == 0 && same_action(&old, &expected), 1,
          "actions that five threads change and read are always whole");
    munmap(pages, 8192);
}

static void *waits_too(void *unused)
{
    pause();
    return unused;
}

/* The status of a child that waits for SIGUSR1 and SIGUSR2, of which it blocks `blocked` and ignores
 * `ignored`, when it gets SIGUSR1 and then SIGUSR2; it exits with the signal that it gets. */
static int waiter(const int *blocked, int ignored, int threads)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        sigset_t set, held;
        sigemptyset(&set), sigemptyset(&held);
        sigaddset(&set, SIGUSR1), sigaddset(&set, SIGUSR2);
        for (; *blocked; blocked++)
            sigaddset(&held, *blocked);
        sigprocmask(SIG_SETMASK, &held, 0);
        signal(SIGUSR1, SIG_DFL), signal(SIGUSR2, SIG_DFL);
        if (ignored)
            signal(ignored, SIG_IGN);
        pthread_t other;
        for (int i = 0; i < threads; i++)
            pthread_create(&other, 0, waits_too, 0);
        raise(SIGSTOP);
        struct timespec most = {20, 0};
        _exit(sigtimedwait(&set, 0, &most));
    }
    waitpid(child, &status, WUNTRACED);
    kill(child, SIGCONT);
    until_asleep(child);
    kill(child, SIGUSR1);
    kill(child, SIGUSR2);
    waitpid(child, &status, 0);
    return status;
}

/* A thread that waits for a signal without blocking it does not get it, which does what it does to others. */
static void awaited(void)
{
    static const int none[] = {0}, both[] = {SIGUSR1, SIGUSR2, 0}, second[] = {SIGUSR2, 0};
    for (int threads = 0; threads < 2; threads++) {
        equal(waiter(both, 0, threads), SIGUSR1 << 8, "a signal that is blocked is got");
        equal(waiter(none, 0, threads), SIGUSR1, "one that is not ends the process");
        equal(waiter(both, SIGUSR1, threads), SIGUSR1 << 8, "one that is blocked and ignored is got");
        equal(waiter(second, SIGUSR1, threads), SIGUSR2 << 8, "one that is only ignored is not there");
    }
}

static const struct group groups[] = {
    {"masks", masks},        {"stacks", stacks},       {"frames", frames},
    {"queues", queues},      {"opposites", opposites}, {"interrupted", interrupted},
    {"threads", of_threads}, {"inherited", inherited}, {"groups", groups_of_children},
    {"children", children},  {"asking", asking},       {"actions", actions},
    {"awaited", awaited},
};
#endif
