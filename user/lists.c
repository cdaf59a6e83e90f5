/* Many children and many threads of one process while memory is nearly filled: it is told so, or ended, and the machine lives on.
 *
 * Interface: lists [GROUP...]; reports by TAP. Each group fills the memory from a process of its own, and another must start afterwards.
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
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 640
#define ENOUGH 600
#define KIB 1024L
#define PAGE 4096L

static const char *self;

/* What the parts count, for all processes. */
static struct counts {
    atomic_int begun, stop, signals, filled;
} *counts;

static long free_bytes(void)
{
    struct sysinfo info;
    return sysinfo(&info) ? -1 : (long)info.freeram * info.mem_unit;
}

/* Takes what is left, so that of larger pieces none is there. */
static void fill(void)
{
    char *at = mmap(0, 1L << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    /* What the kernel keeps does not count as free. */
    long most = 64 * KIB;
    for (long n = 0; at != MAP_FAILED && n < 1L << 30 && free_bytes() > most; n += PAGE)
        at[n] = 1;
    counts->filled = 1;
}

static int machine_lives(void)
{
    for (int i = 0; i < 1000; i++) {
        pid_t child = fork();
        if (child == 0) {
            char *words[] = {(char *)self, "nothing", 0};
            execv(self, words);
            _exit(99);
        }
        int status;
        if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
            return 1;
        usleep(10000);
    }
    return 0;
}

/* Goes through lists of processes, threads and descriptors by calls. */
static void look(void)
{
    getpriority(PRIO_USER, 0);
    getpriority(PRIO_PGRP, 0);
    setpriority(PRIO_PGRP, 0, 0);
    kill(0, 0);
    static char block[4096];
    for (int i = 0; i < 2; i++) {
        int fd = open(i ? "/proc/self/task" : "/proc/self/status", O_RDONLY);
        if (fd >= 0 && i == 0)
            while (read(fd, block, sizeof block) > 0)
                ;
        close(fd);
    }
    static struct pollfd all[900];
    for (int i = 0; i < 900; i++)
        all[i] = (struct pollfd){.fd = 0, .events = POLLIN};
    poll(all, 900, 0);
}

static void count_signal(int signo)
{
    (void)signo;
    counts->signals++;
}

/* A process with many children, each in a group of its own if `groups`. */
static void with_children(int groups, int stopped)
{
    signal(SIGUSR1, count_signal);
    pid_t child = 0;
    for (int i = 0; i < MANY; i++) {
        child = fork();
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
    for (int i = 0; i < 5000 && counts->begun < ENOUGH; i++)
        usleep(1000);
    fill();
    look();
}

/* Of `ended`, what is left after some time. */
static void end_of(pid_t parent)
{
    int status = 0;
    check(waitpid(parent, &status, 0) == parent, "the parent ends");
    check(WIFEXITED(status) || WTERMSIG(status) == SIGKILL, "by itself or killed");
    printf("# status %x, %d begun, %d signals\n", status, counts->begun, counts->signals);
    check(counts->begun >= ENOUGH, "it had many");
    check(machine_lives(), "another process starts");
}

static pid_t begin(void)
{
    counts->begun = counts->stop = counts->signals = counts->filled = 0;
    return fork();
}

static void end_all(void)
{
    signal(SIGTERM, SIG_IGN);
    kill(-1, SIGKILL);
    while (wait(0) > 0 || errno == EINTR)
        ;
    for (int i = 0; i < 2000 && kill(-1, 0) == 0; i++)
        usleep(1000);
}

/* The parent ends and its children come to the first process. */
static void group_orphans(void)
{
    pid_t parent = begin();
    if (parent == 0) {
        setpgid(0, 0);
        with_children(0, 0);
        _exit(0);
    }
    end_of(parent);
    end_all();
    check(machine_lives(), "orphans: the machine lives");
}

/* The same with a group for each child that has stopped: each is hung up. */
static void group_groups(void)
{
    pid_t parent = begin();
    if (parent == 0) {
        setpgid(0, 0);
        with_children(1, 1);
        _exit(0);
    }
    end_of(parent);
    end_all();
    check(machine_lives(), "groups: the machine lives");
}

/* A signal to a group and to all, while the memory is full. */
static void group_signals(void)
{
    pid_t parent = begin();
    if (parent == 0) {
        setpgid(0, 0);
        with_children(0, 0);
        int before = counts->signals;
        kill(0, SIGUSR1);
        int all = counts->begun;
        for (int i = 0; i < 5000 && counts->signals < before + all; i++)
            usleep(1000);
        _exit(counts->signals >= before + all ? 7 : 8);
    }
    int status = 0;
    waitpid(parent, &status, 0);
    printf("# status %x, %d begun, %d signals\n", status, counts->begun, counts->signals);
    check((WIFEXITED(status) && WEXITSTATUS(status) == 7) || WIFSIGNALED(status), "each gets its signal once memory is full");
    end_all();
    check(machine_lives(), "signals: the machine lives");
}

static void *sleeper(void *unused)
{
    counts->begun++;
    while (!counts->stop)
        pause();
    return unused;
}

/* Many threads; a table that moves, a look at all, exec's and the end's way through them. */
static void group_threads(void)
{
    pid_t parent = begin();
    if (parent == 0) {
        pthread_attr_t attributes;
        pthread_t thread;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 16384);
        for (int i = 0; i < MANY && pthread_create(&thread, &attributes, sleeper, 0) == 0; i++)
            ;
        for (int i = 0; i < 5000 && counts->begun < ENOUGH; i++)
            usleep(1000);
        fill();
        look();
        struct rlimit limit = {4096, 4096};
        setrlimit(RLIMIT_NOFILE, &limit);
        for (int i = 0; i < 600 && dup(0) >= 0; i++)
            ;
        unshare(CLONE_FILES);
        char *words[] = {(char *)self, "nothing", 0};
        execv(self, words);
        _exit(0);
    }
    end_of(parent);
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
    if (counts == MAP_FAILED)
        return 2;
    run_groups(GROUPS(groups), "", argc, argv);
    return done();
}
