/* Groups of corners.c: how children are made, waited for and told of their parent's end, and what is asked of
 * the ended. */
#include <linux/sched.h>
#include <sys/resource.h>

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

/* An order to clone3, as long as it may be, and more. */
struct order {
    unsigned long long flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
    unsigned long long set_tid, set_tid_size, cgroup, beyond[4];
};

/* The errno of clone3 by `order` with `size` bytes; 0 if it made a child, which is waited for. */
static int refusal(struct order order, size_t size)
{
    long child = syscall(SYS_clone3, &order, size);
    if (child == 0)
        _exit(0);
    int error = child < 0 ? errno : 0;
    if (child > 0)
        waitpid(child, NULL, __WALL);
    return error;
}

static void orders_to_clone(void)
{
    static char stack[16384];
    const struct order plain = {.exit_signal = SIGCHLD};
    struct order order = plain;
    equal(refusal(plain, 64), 0, "an order of the first length makes a child");
    equal(refusal(plain, 88), 0, "one of the last");
    equal(refusal(plain, sizeof plain), 0, "a longer one with nothing beyond");
    equal(refusal(plain, 63), EINVAL, "a shorter one does not");
    equal(refusal(plain, 4097), E2BIG, "nor one longer than a page");
    order.beyond[3] = 1;
    equal(refusal(order, sizeof order), E2BIG, "nor one with something beyond");
    for (int bit = 34; bit < 64; bit += 7) {
        order = plain;
        order.flags = 1ULL << bit;
        equal(refusal(order, 88), EINVAL, "an unknown flag is refused");
    }
    order = plain;
    order.flags = 0x400000;
    equal(refusal(order, 88), EINVAL, "a flag without meaning too");
    order = plain;
    order.exit_signal = 65;
    equal(refusal(order, 88), EINVAL, "and what is no signal");
    order.exit_signal = 1ULL << 32 | SIGCHLD;
    equal(refusal(order, 88), EINVAL, "nor in its lower half");
    order.exit_signal = 0;
    equal(refusal(order, 88), 0, "no signal is one");
    order = plain;
    order.flags = CLONE_PARENT;
    equal(refusal(order, 88), EINVAL, "a sibling has no signal of its own");
    order.flags = CLONE_THREAD | CLONE_SIGHAND | CLONE_VM | CLONE_FS | CLONE_FILES;
    order.stack = (unsigned long)stack;
    order.stack_size = sizeof stack;
    equal(refusal(order, 88), EINVAL, "nor has a thread");
    order = plain;
    order.stack = (unsigned long)stack;
    equal(refusal(order, 88), EINVAL, "a stack has a size");
    order.stack = ~4095ULL;
    order.stack_size = 4096;
    equal(refusal(order, 88), EINVAL, "and is a user's");
    order = plain;
    order.flags = CLONE_INTO_CGROUP;
    order.cgroup = -1;
    equal(refusal(order, 88), EINVAL, "a control group is a descriptor");
    order.cgroup = 0;
    equal(refusal(order, 80), EINVAL, "which short orders do not have");
    /* The older call does not look. */
    long child = syscall(SYS_clone, 100L, 0L, 0L, 0L, 0L);
    if (child == 0)
        _exit(0);
    check(child > 0, "the older call takes any signal");
    equal(waitpid(child, NULL, __WCLONE), child, "whose child is one of the other kind");
}

static int one_child(int exit_signal)
{
    long child = syscall(SYS_clone, (long)exit_signal, 0L, 0L, 0L, 0L);
    if (child == 0)
        _exit(3);
    return child;
}

/* Waits until `child` has ended, and leaves it. */
static void until_ended(int child)
{
    siginfo_t info;
    waitid(P_PID, child, &info, WEXITED | WNOWAIT | __WALL);
}

static void no_alarm(int number) { (void)number; }

static void kinds_of_waits(void)
{
    siginfo_t info;
    int status;
    struct sigaction action = {.sa_handler = no_alarm};
    sigaction(SIGALRM, &action, NULL);
    int child = one_child(SIGCHLD);
    until_ended(child);
    alarm(5);
    fails(waitid(P_ALL, 0, &info, WSTOPPED), ECHILD, "the ended do not stop any more");
    fails(waitid(P_PID, child, &info, WCONTINUED), ECHILD, "nor go on");
    fails(waitid(P_PID, child, &info, WSTOPPED | WNOHANG), ECHILD, "at once the same");
    equal(waitid(P_PID, child, &info, WSTOPPED | WEXITED), 0, "but they have ended");
    alarm(0);
    child = one_child(SIGCHLD);
    fails(waitpid(child, &status, __WCLONE), ECHILD, "an ordinary child is none of the other kind");
    equal(waitpid(child, &status, __WALL), child, "but one of all");
    int plain = one_child(SIGCHLD), other = one_child(0);
    until_ended(plain);
    until_ended(other);
    fails(waitpid(other, &status, WNOHANG), ECHILD, "a child without a signal is not waited for");
    fails(waitid(P_PID, other, &info, WEXITED | WNOHANG), ECHILD, "by no call");
    equal(waitpid(-1, &status, 0), plain, "any child is an ordinary one");
    fails(waitpid(-1, &status, 0), ECHILD, "of which there is none then");
    equal(waitpid(-1, &status, __WCLONE), other, "any of the other kind is the other");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 3, "with its status");
    other = one_child(SIGUSR1);
    signal(SIGUSR1, SIG_IGN);
    equal(waitpid(other, &status, __WCLONE), other, "another signal makes another kind");
}

static int made, gate[2];

static void *waits_alone(void *unused)
{
    int status;
    (void)unused;
    errno = 0;
    long result = waitpid(made, &status, __WNOTHREAD);
    return (void *)(result < 0 ? -(long)errno : result);
}

static void *makes_and_waits(void *unused)
{
    int own = one_child(SIGCHLD), status;
    (void)unused;
    long result = waitpid(-1, &status, __WNOTHREAD);
    if (result == own)
        result = 1;
    made = one_child(SIGCHLD);
    until_ended(made);
    return (void *)result;
}

static void waits_of_threads(void)
{
    pthread_t thread;
    void *result;
    int status;
    made = one_child(SIGCHLD);
    pthread_create(&thread, NULL, waits_alone, NULL);
    pthread_join(thread, &result);
    equal((long)result, -ECHILD, "a thread alone waits for no other's child");
    int mine = made;
    pthread_create(&thread, NULL, makes_and_waits, NULL);
    pthread_join(thread, &result);
    equal((long)result, 1, "but for its own");
    equal(waitpid(mine, &status, __WNOTHREAD), mine, "as the first does");
    /* A thread that is joined has not quite gone yet. */
    long inherited;
    while ((inherited = waitpid(made, &status, __WNOTHREAD)) == -1 && errno == ECHILD && kill(made, 0) == 0)
        sched_yield();
    equal(inherited, made, "who inherits what an ended thread left");
}

/* The status of a child of a thread that ends before the child: the child asks for SIGKILL, or each of its
 * threads does. */
static int by_thread_of_child;

static void *asks(void *unused)
{
    (void)unused;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)!write(gate[1], "x", 1);
    pause();
    return NULL;
}

static void *maker(void *unused)
{
    char byte;
    (void)unused;
    made = fork();
    if (made == 0) {
        alarm(10);
        signal(SIGALRM, SIG_DFL);
        if (by_thread_of_child) {
            pthread_t thread;
            pthread_create(&thread, NULL, asks, NULL);
        } else {
            asks(NULL);
        }
        for (;;)
            pause();
    }
    (void)!read(gate[0], &byte, 1);
    return NULL;
}

static void *bystander(void *unused)
{
    (void)unused;
    return NULL;
}

static void ends_of_parents(void)
{
    pthread_t thread;
    int status, number = -1;
    (void)!pipe(gate);
    for (by_thread_of_child = 0; by_thread_of_child < 2; by_thread_of_child++) {
        pthread_create(&thread, NULL, maker, NULL);
        pthread_join(thread, NULL);
        waitpid(made, &status, 0);
        equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGKILL,
              by_thread_of_child ? "each thread of a child asks for itself"
                                 : "a child hears of the end of the thread that made it");
    }
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_GET_PDEATHSIG, &number);
        _exit(number);
    }
    waitpid(child, &status, 0);
    equal(WEXITSTATUS(status), 0, "a child has not asked");
    /* The end of another thread than the maker is nothing. */
    char byte;
    int back[2];
    (void)!pipe(back);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!write(gate[1], "x", 1);
        (void)!read(back[0], &byte, 1);
        _exit(9);
    }
    (void)!read(gate[0], &byte, 1);
    pthread_create(&thread, NULL, bystander, NULL);
    pthread_join(thread, NULL);
    (void)!write(back[1], "x", 1);
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 9, "the end of another thread is not told");
    prctl(PR_SET_PDEATHSIG, 0);
    close(gate[0]);
    close(gate[1]);
}

static void asked_of_the_ended(void)
{
    cpu_set_t all;
    struct sched_param param = {0};
    struct timespec interval;
    pid_t child = fork();
    if (child == 0) {
        setpriority(PRIO_PROCESS, 0, 3);
        setpgid(0, 0);
        _exit(0);
    }
    until_ended(child);
    sched_getaffinity(0, sizeof all, &all);
    equal(getpriority(PRIO_PROCESS, child), 3, "the ended have their niceness");
    equal(getpriority(PRIO_PGRP, child), 3, "as groups too");
    equal(setpriority(PRIO_PROCESS, child, 5), 0, "which is changed");
    equal(getpriority(PRIO_PROCESS, child), 5, "and told");
    equal(sched_setaffinity(child, sizeof all, &all), 0, "they are bound to processors");
    equal(sched_getaffinity(child, sizeof all, &all), 0, "which they tell");
    equal(sched_getscheduler(child), SCHED_OTHER, "they have a policy");
    equal(sched_setscheduler(child, SCHED_BATCH, &param), 0, "and get another");
    equal(sched_getscheduler(child), SCHED_BATCH, "which they tell");
    equal(sched_getparam(child, &param), 0, "and its parameters");
    equal(sched_rr_get_interval(child, &interval), 0, "and the length of their turns");
    check(syscall(SYS_ioprio_get, 1, child) >= 0, "and their priority of input and output");
    equal(kill(child, 0), 0, "they are there");
    equal(waitpid(child, NULL, 0), child, "until they are waited for");
    fails(getpriority(PRIO_PROCESS, child), ESRCH, "then no more");
    fails(sched_getscheduler(child), ESRCH, "for no call");
}
