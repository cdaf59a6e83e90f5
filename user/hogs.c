/* Checks that one ordinary user cannot take what the superuser needs: as root, beside a child of user 1000 that has taken all it gets.
 *
 * Interface: hogs [GROUP...] runs all groups or those named; TAP on standard output. Passes on Linux as root, as far as its limits are as they come.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a hog tells when it has taken all it gets. */
struct told {
    int made, error;
};

static void become_user(int user)
{
    if (setgid(user) || setuid(user))
        _exit(9);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static struct told hog_processes(int limit)
{
    struct told told = {0, 0};
    for (; told.made < limit; told.made++) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
        if (child < 0)
            break;
    }
    told.error = errno;
    return told;
}

static int take_pipe(void)
{
    int fd[2];
    return pipe(fd);
}

static int take_open(void)
{
    return open("/dev/null", O_RDONLY) < 0 ? -1 : 0;
}

static int take_memfd(void)
{
    return memfd_create("hog", 0) < 0 ? -1 : 0;
}

/* In several processes, for each may have only so many descriptors. */
static struct told hog_descriptors(int (*take)(void), int limit)
{
    int ends[2];
    struct told all = {0, 0};
    if (pipe(ends))
        _exit(8);
    for (int i = 0; i < 8 && all.error != ENFILE && all.error != ENOSPC && all.error != ENOMEM; i++) {
        if (fork() == 0) {
            struct told told = {0, 0};
            struct rlimit most;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            getrlimit(RLIMIT_NOFILE, &most);
            most.rlim_cur = most.rlim_max;
            setrlimit(RLIMIT_NOFILE, &most);
            while (told.made < limit && take() == 0)
                told.made++;
            told.error = errno;
            if (write(ends[1], &told, sizeof told) != sizeof told)
                _exit(1);
            for (;;)
                pause();
        }
        struct told one;
        if (read(ends[0], &one, sizeof one) != sizeof one)
            break;
        all.made += one.made;
        all.error = one.error;
    }
    return all;
}

static struct told processes(void)
{
    return hog_processes(20000);
}

static struct told pipes(void)
{
    return hog_descriptors(take_pipe, 5000);
}

static struct told descriptions(void)
{
    return hog_descriptors(take_open, 5000);
}

static struct told memfds(void)
{
    return hog_descriptors(take_memfd, 5000);
}

static struct told watches(void)
{
    struct told told = {0, 0};
    int fd[2];
    if (pipe(fd))
        _exit(8);
    struct rlimit most;
    getrlimit(RLIMIT_NOFILE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
    for (int i = 0; i < 800; i++)
        if (dup(fd[0]) < 0)
            break;
    for (int instances = 0; instances < 1000 && !told.error; instances++) {
        int poll = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        if (poll < 0)
            told.error = errno;
        for (int i = fd[1] + 1; i < fd[1] + 800 && !told.error; i++)
            if (epoll_ctl(poll, EPOLL_CTL_ADD, i, &event))
                told.error = errno;
            else
                told.made++;
    }
    return told;
}

static struct told file(void)
{
    static char block[65536];
    struct told told = {0, 0};
    int fd = open("/tmp/hog", O_CREAT | O_WRONLY, 0600);
    while (told.made < 1 << 20 && write(fd, block, sizeof block) > 0)
        told.made += 16;
    told.error = errno;
    unlink("/tmp/hog");
    return told;
}

static struct told files(void)
{
    struct told told = {0, 0};
    char name[64];
    mkdir("/tmp/hogs", 0700);
    for (; told.made < 1 << 20; told.made++) {
        sprintf(name, "/tmp/hogs/%d", told.made);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    told.error = errno;
    return told;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* What a shell does: a process, a pipe, a file, a program. The errno, or 0. */
static int works(void)
{
    int fd[2], status = -1;
    if (pipe(fd))
        return errno;
    pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], 1);
        execl("/proc/self/exe", "hogs", "nothing", (char *)0);
        _exit(errno);
    }
    int error = child < 0 ? errno : 0;
    close(fd[1]);
    char text[64];
    if (child > 0) {
        while (read(fd[0], text, sizeof text) > 0)
            ;
        waitpid(child, &status, 0);
        error = WIFEXITED(status) ? WEXITSTATUS(status) : 127;
    }
    close(fd[0]);
    int file = open("/tmp/works", O_CREAT | O_WRONLY, 0600);
    if (file < 0 || write(file, text, 1) != 1)
        error = error ? error : errno;
    close(file);
    unlink("/tmp/works");
    return error;
}

static void beside(const char *name, struct told (*hog)(void), int a, int b)
{
    int ends[2];
    char text[100];
    struct told told = {0, 0};
    if (pipe(ends)) {
        check(0, "a pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        become_user(1000);
        told = hog();
        _exit(write(ends[1], &told, sizeof told) != sizeof told || pause());
    }
    close(ends[1]);
    long got = read(ends[0], &told, sizeof told);
    printf("# %s: %d, then errno %d (%s)\n", name, told.made, told.error, strerror(told.error));
    sprintf(text, "%s: a user gets many, and then an error that says so", name);
    if (!check(got == sizeof told && told.made > 20 && (told.error == a || told.error == b), text))
        printf("# %ld bytes, %d made, errno %d\n", got, told.made, told.error);
    double start = seconds();
    int error = works();
    double took = seconds() - start;
    sprintf(text, "%s: root works meanwhile", name);
    if (!check(error == 0, text))
        printf("# %s\n", strerror(error));
    sprintf(text, "%s: within a second", name);
    if (!check(took < 1, text))
        printf("# %.2f s\n", took);
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    /* Its children end with it: when the last has, nobody has the other end. */
    while (read(ends[0], text, sizeof text) > 0)
        ;
    close(ends[0]);
}

static void limit(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit five = {5, 5};
        become_user(1001);
        setrlimit(RLIMIT_NPROC, &five);
        struct told told = hog_processes(50);
        _exit(told.error == EAGAIN && told.made <= 5 && told.made >= 4 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "RLIMIT_NPROC binds");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        struct told (*hog)(void);
        int a, b;
    } all[] = {
        {"processes", processes, EAGAIN, ENOMEM}, {"pipes", pipes, ENFILE, EMFILE},
        {"descriptions", descriptions, ENFILE, EMFILE}, {"memfds", memfds, ENFILE, ENOSPC},
        {"watches", watches, ENOSPC, ENFILE}, {"file", file, ENOSPC, ENOSPC}, {"files", files, ENOSPC, ENOSPC},
    };
    if (argc > 1 && strcmp(argv[1], "nothing") == 0)
        return 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (argc < 2 || strcmp(argv[1], all[i].name) == 0)
            beside(all[i].name, all[i].hog, all[i].a, all[i].b);
    limit();
    return done();
}
