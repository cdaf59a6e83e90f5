/* Many children and many threads of one process when the n-th question for memory is answered with no: it
 * is told so, or waits, and the machine lives on.
 *
 * Interface: refused-tasks [GROUP...]; reports by TAP. For the superuser, who sets /syn/fail: each step is
 * made with the first question refused, then the second, and so on.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Lists of more are longer than a page of addresses. */
#define MANY 600
/* Questions that one step may ask before those for its list are through. */
#define QUESTIONS 4
#define PAGE 4096L

static const char *self;
static int knob;

/* The counts of the parts, for all processes. */
static struct counts {
    atomic_int begun, stop, signals;
} *counts;

/* From now on the n-th question of this session is refused, and then every so many; with n = 0 none is. */
static void refuse_every(int n, int every)
{
    char text[40];
    int length = n ? sprintf(text, "%d %d %d", n, every, getsid(0)) : sprintf(text, "off");
    if (syscall(SYS_write, knob, text, length) != length)
        _exit(98);
}

static void refuse(int n) { refuse_every(n, 0); }

/* How many were refused since then. */
static int refused(void)
{
    char text[80] = "";
    int asked = 0, no = -1;
    if (pread(knob, text, sizeof text - 1, 0) > 0)
        sscanf(text, "asked %d refused %d", &asked, &no);
    return no;
}

static int machine_lives(void)
{
    pid_t child = fork();
    if (child == 0) {
        char *words[] = {(char *)self, "nothing", 0};
        execv(self, words);
        _exit(99);
    }
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void count_signal(int signo)
{
    (void)signo;
    counts->signals++;
}

static void wait_for(atomic_int *count, int enough)
{
    for (int i = 0; i < 20000 && *count < enough; i++)
        usleep(1000);
}

/* As many children, each in a group of its own if `groups`; that have stopped if `stopped`. */
static void have_children(int groups, int stopped)
{
    for (int i = 0; i < MANY; i++) {
        pid_t child = fork();
        if (child < 0)
            break;
        if (child == 0) {
            if (groups)
                setpgid(0, 0);
            counts->begun++;
            if (stopped)
                raise(SIGSTOP);
            while (!counts->stop)
                pause();
            _exit(0);
        }
    }
    wait_for(&counts->begun, MANY);
}

static pid_t begin(void)
{
    counts->begun = counts->stop = counts->signals = 0;
    return fork();
}

static void end_all(void)
{
    kill(-1, SIGKILL);
    while (wait(0) > 0 || errno == EINTR)
        ;
    for (int i = 0; i < 20000 && kill(-1, 0) == 0; i++)
        usleep(1000);
}

/* The parent of many ends, and its children come to the first process: all that its end asks for is
 * refused. */
static void orphans(int groups, const char *name)
{
    pid_t parent = begin();
    if (parent == 0) {
        setpgid(0, 0);
        have_children(groups, groups);
        refuse_every(1, 1);
        /* By a function whose page is there: no page could come. */
        syscall(SYS_exit_group, counts->begun == MANY ? 3 : 4);
    }
    int status = 0;
    waitpid(parent, &status, 0);
    refuse(0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 3, name);
    check(refused() > 0, "something was refused");
    end_all();
    check(machine_lives(), "the machine lives");
}

static void group_orphans(void) { orphans(0, "one with many children ends whatever is refused"); }

static void group_groups(void)
{
    orphans(1, "one with many stopped children in groups of their own ends whatever is refused");
}

/* Steps that go through all of a user's or a group's processes. None may be refused. */
static long step_user(void) { return getpriority(PRIO_USER, 0); }

static long step_group(void) { return getpriority(PRIO_PGRP, 0); }

static long step_set(void) { return setpriority(PRIO_PGRP, 0, 0); }

static long step_probe(void) { return kill(0, 0); }

static long step_signal(void)
{
    int before = counts->signals;
    long result = kill(0, SIGUSR1);
    wait_for(&counts->signals, before + MANY + 1);
    return counts->signals == before + MANY + 1 ? result : -1;
}

static long step_signal_all(void)
{
    int before = counts->signals;
    long result = kill(-1, SIGUSR1);
    wait_for(&counts->signals, before + MANY);
    return counts->signals >= before + MANY ? result : -1;
}

static const struct step {
    const char *name;
    long (*run)(void);
} steps[] = {
    {"getpriority of all of a user's", step_user},
    {"getpriority of a group", step_group},
    {"setpriority of a group", step_set},
    {"kill of a group with 0", step_probe},
    {"kill of a group", step_signal},
    {"kill of all", step_signal_all},
};

#define STEPS (sizeof steps / sizeof *steps)

static void group_signals(void)
{
    pid_t parent = begin();
    if (parent == 0) {
        setpgid(0, 0);
        have_children(0, 0);
        for (size_t i = 0; i < STEPS; i++) {
            int good = 1;
            for (int n = 1; n <= QUESTIONS; n++) {
                refuse(n);
                good &= steps[i].run() == 0;
                refuse(0);
            }
            check(good, steps[i].name);
        }
        _exit(counts->begun == MANY ? 7 : 8);
    }
    int status = 0;
    waitpid(parent, &status, 0);
    tap_count += STEPS;
    check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "all steps were made, with as many processes");
    end_all();
    check(machine_lives(), "the machine lives");
}

static void *sleeper(void *unused)
{
    counts->begun++;
    while (!counts->stop)
        pause();
    return unused;
}

static void have_threads(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    for (int i = 0; i < MANY && pthread_create(&thread, &attributes, sleeper, 0) == 0; i++)
        ;
    wait_for(&counts->begun, MANY);
}

/* The walk through all threads: the last thing that a process does. */
static void to_list(void)
{
    static char block[8192];
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    while (fd >= 0 && syscall(SYS_getdents64, fd, block, sizeof block) > 0)
        ;
}

static void to_grow(void) { dup2(0, 700); }

static void to_unshare(void) { unshare(CLONE_FILES); }

static void to_exec(void)
{
    char *words[] = {(char *)self, "nothing", 0};
    execv(self, words);
}

static void to_end(void) {}

static const struct end {
    const char *name;
    void (*run)(void);
} ends[] = {
    {"threads in /proc are listed", to_list},
    {"a table of descriptors grows under many threads", to_grow},
    {"many threads unshare their table", to_unshare},
    {"one of many executes a program", to_exec},
    {"many end", to_end},
};

static void group_threads(void)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int good = 1;
        for (int n = 1; n <= QUESTIONS; n++) {
            pid_t parent = begin();
            if (parent == 0) {
                struct rlimit limit = {4096, 4096};
                setrlimit(RLIMIT_NOFILE, &limit);
                have_threads();
                refuse(n);
                ends[i].run();
                _exit(0);
            }
            int status = 0;
            good &= waitpid(parent, &status, 0) == parent;
            refuse(0);
            /* By itself, or killed because a thread could not go on. */
            good &= counts->begun == MANY &&
                    (status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
            if (status)
                printf("# %s, %d: status %x, %d begun\n", ends[i].name, n, status, counts->begun);
        }
        check(good, ends[i].name);
    }
    check(machine_lives(), "the machine lives");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"orphans", group_orphans},
        {"groups", group_groups},
        {"signals", group_signals},
        {"threads", group_threads},
    };
    self = argv[0];
    if (argc == 2 && strcmp(argv[1], "nothing") == 0)
        return 0;
    counts = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    knob = open("/syn/fail", O_RDWR);
    if (counts == MAP_FAILED || knob < 0)
        return 2;
    signal(SIGUSR1, count_signal);
    run_groups(GROUPS(groups), "", argc, argv);
    return done();
}
