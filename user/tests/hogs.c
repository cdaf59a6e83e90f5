/* Takes each kind of thing until there is no more, and checks that the machine goes on: as user 1000, that
 * root works meanwhile within a second; and that memory comes back.
 *
 * Interface: hogs [root] [KIND...] for all kinds or those named; TAP on standard output. As root only what is
 * so afterwards is checked: nothing is refused to root as long as there is any. tests/kinds.txt says which
 * call makes which kind.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* A hog's report when it has taken all it gets. */
struct told {
    int made, error;
};

/* Ends with its parent, also when that has ended already: nobody would tell it any more. */
static void end_with(pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(7);
}

static void become_user(int user)
{
    pid_t parent = getppid();
    if (setgid(user) || setuid(user))
        _exit(9);
    end_with(parent);
}

static struct told hog_processes(int limit)
{
    struct told told = {0, 0};
    pid_t self = getpid();
    for (; told.made < limit; told.made++) {
        pid_t child = fork();
        if (child == 0) {
            end_with(self);
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

static int take_open(void) { return open("/dev/null", O_RDONLY) < 0 ? -1 : 0; }

static int take_memfd(void) { return memfd_create("hog", 0) < 0 ? -1 : 0; }

/* In several processes, for each may have only so many descriptors. */
static struct told hog_descriptors(int (*take)(void), int limit)
{
    struct told all = {0, 0};
    pid_t self = getpid();
    for (int i = 0; i < 8 && all.error != ENFILE && all.error != ENOSPC && all.error != ENOMEM; i++) {
        int ends[2];
        if (pipe(ends))
            break;
        pid_t child = fork();
        if (child == 0) {
            struct told told = {0, 0};
            struct rlimit most;
            end_with(self);
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
        all.error = errno;
        /* A sign of its own: the end of the pipe comes if it is ended before. */
        close(ends[1]);
        struct told one;
        int tells = child > 0 && read(ends[0], &one, sizeof one) == sizeof one;
        close(ends[0]);
        if (!tells)
            break;
        all.made += one.made;
        all.error = one.error;
    }
    return all;
}

static struct told processes(void) { return hog_processes(20000); }

static struct told pipes(void) { return hog_descriptors(take_pipe, 5000); }

static struct told descriptions(void) { return hog_descriptors(take_open, 5000); }

static struct told memfds(void) { return hog_descriptors(take_memfd, 5000); }

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

#include "hogs-files.h"
#include "hogs-objects.h"
#include "hogs-sockets.h"

static int take_terminal(void)
{
    /* The C library would tell another error. */
    return open("/dev/ptmx", O_RDWR | O_NOCTTY) < 0 ? -1 : 0;
}

static struct told terminals(void) { return hog_descriptors(take_terminal, 5000); }

static int take_text(void)
{
    char byte;
    int fd = open("/proc/self/maps", O_RDONLY);
    return fd < 0 || read(fd, &byte, 1) != 1 ? -1 : 0;
}

static struct told texts(void) { return hog_descriptors(take_text, 5000); }

static int take_timer(void)
{
    timer_t timer;
    return timer_create(CLOCK_MONOTONIC, 0, &timer);
}

static struct told timers(void) { return hog_descriptors(take_timer, 5000); }

static int take_signal(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    return sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1});
}

static struct told signals(void) { return hog_descriptors(take_signal, 100000); }

static struct told locks(void)
{
    struct told told = {0, 0};
    int fd = open("/tmp/hogl", O_CREAT | O_RDWR, 0600);
    for (; told.made < 300000; told.made++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * told.made, .l_len = 1};
        if (fcntl(fd, F_SETLK, &lock))
            break;
    }
    told.error = errno;
    return told;
}

#include "hogs-memory.h"

/* The work of a shell: a process, a pipe, a file, a program. The errno, or 0. */
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

static long free_kib(void)
{
    char text[512] = "";
    int fd = open("/proc/meminfo", O_RDONLY);
    long got = read(fd, text, sizeof text - 1);
    close(fd);
    char *at = got > 0 ? strstr(text, "MemFree:") : 0;
    return at ? strtol(at + 8, 0, 10) : 0;
}

struct kind {
    const char *name;
    struct told (*hog)(void);
    int a, b;
    /* It may also pay with its life: what it takes is its own memory. */
    int pays;
};

static int as_root;

/* Takes away the objects of System V IPC, which outlive a process that ended before it could. */
static void remove_objects(void)
{
    struct msqid_ds letters;
    struct shmid_ds segment;
    struct semid_ds semaphores;
    for (int i = 0, most = msgctl(0, MSG_INFO, &letters); i <= most; i++)
        msgctl(msgctl(i, MSG_STAT, &letters), IPC_RMID, 0);
    for (int i = 0, most = shmctl(0, SHM_INFO, &segment); i <= most; i++)
        shmctl(shmctl(i, SHM_STAT, &segment), IPC_RMID, 0);
    for (int i = 0, most = semctl(0, 0, SEM_INFO, &semaphores); i <= most; i++)
        semctl(semctl(i, 0, SEM_STAT, &semaphores), 0, IPC_RMID);
}

static void clean(void)
{
    remove_objects();
    static const char *const dirs[] = {"/tmp/hogs", "/tmp/hogd", "/tmp/hogn", "/tmp/hogx"};
    unlink("/tmp/hog"), unlink("/tmp/hogl");
    for (int i = 0; i < 4; i++) {
        DIR *dir = opendir(dirs[i]);
        struct dirent *entry;
        while (dir && (entry = readdir(dir)))
            unlinkat(dirfd(dir), entry->d_name, i == 1 ? AT_REMOVEDIR : 0);
        if (dir)
            closedir(dir);
        rmdir(dirs[i]);
    }
}

/* The hog and what it has made: all of its group. */
static void until_ended(pid_t hog)
{
    for (double end = seconds() + 60; kill(-hog, 0) == 0 && seconds() < end; sched_yield())
        ;
}

static void once(const struct kind *kind)
{
    int ends[2], status;
    char text[100];
    struct told told = {0, 0};
    if (pipe(ends)) {
        check(0, "a pipe");
        return;
    }
    pid_t child = fork();
    if (child < 0) {
        check(0, "a process");
        return;
    }
    if (child == 0) {
        setpgid(0, 0);
        if (!as_root)
            become_user(1000);
        told = kind->hog();
        _exit(write(ends[1], &told, sizeof told) != sizeof told || pause());
    }
    close(ends[1]);
    long got = read(ends[0], &told, sizeof told);
    if (!as_root) {
        double start = seconds();
        int error = works();
        double took = seconds() - start;
        sprintf(text, "%s: root works meanwhile", kind->name);
        /* Where programs have all memory as their own, it may be told so. */
        if (!check(error == 0 || (kind->pays && error == ENOMEM), text))
            printf("# %s\n", strerror(error));
        sprintf(text, "%s: within a second", kind->name);
        if (!check(took < 1, text))
            printf("# %.2f s\n", took);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    until_ended(child);
    close(ends[0]);
    clean();
    if (as_root)
        return;
    sprintf(text, "%s: a user gets many, and then an error that says so", kind->name);
    int refused = got == sizeof told && told.made > 20 && (told.error == kind->a || told.error == kind->b);
    if (!check(refused || (kind->pays && got != sizeof told), text))
        printf("# %ld bytes, %d made, errno %d\n", got, told.made, told.error);
}

/* Lets go of all that the kernel keeps because it may be of use again; what is free then. */
static long shrunk_kib(void)
{
    static const char word[] = "shrink";
    int fd = open("/syn/memory", O_WRONLY);
    if (fd < 0 || write(fd, word, sizeof word - 1) != sizeof word - 1)
        check(0, "root lets caches go");
    close(fd);
    return free_kib();
}

/* The free memory when no more comes: a killed process may not be quite gone yet. */
static long level_kib(void)
{
    long most = shrunk_kib();
    for (int same = 0; same < 3; same++) {
        long now = shrunk_kib();
        if (now > most) {
            most = now;
            same = -1;
        }
    }
    return most;
}

/* As comments. */
static void show(const char *path)
{
    char line[200];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        printf("# %s", line);
    if (file)
        fclose(file);
}

/* Twice: what is never given back by design, as headers of quajects that wait for the next use, is there
 * after the first time. */
static void beside(const struct kind *kind)
{
    /* KiB: pages that a CPU keeps ready for itself, and parts of the heap's pages; most where many small
     * things were. */
    enum { TOLERANCE = 512 };
    char text[100];
    once(kind);
    long level = level_kib();
    once(kind);
    double end = seconds() + 10;
    long after = level_kib();
    while (after < level - TOLERANCE && seconds() < end)
        after = level_kib();
    sprintf(text, "%s: memory comes back", kind->name);
    if (!check(after >= level - TOLERANCE, text))
        show("/syn/memory");
    printf("# %s: %ld KiB, then %+ld\n", kind->name, level, after - level);
    sprintf(text, "%s: root works afterwards", kind->name);
    equal(works(), 0, text);
}

static void *computes(void *unused)
{
    (void)unused;
    for (volatile long turns = 0;; turns++)
        ;
}

/* How many threads have ended and keep their stacks. */
static int ended(void)
{
    char line[200];
    int count = 0;
    FILE *file = fopen("/syn/threads", "r");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, " ended ") != 0;
    if (file)
        fclose(file);
    return count;
}

/* Killed threads end at the same time, on a machine that is never idle afterwards: none waits for a next
 * one to end. */
static void remains(void)
{
    int most = 0;
    for (int round = 0; round < 20; round++) {
        int ends[2];
        char byte;
        pthread_t one;
        if (pipe(ends)) {
            check(0, "a pipe");
            return;
        }
        pid_t child = fork();
        if (child == 0) {
            for (int i = 0; i < 60 && pthread_create(&one, 0, computes, 0) == 0; i++)
                ;
            write(ends[1], "", 1);
            computes(0);
        }
        read(ends[0], &byte, 1);
        kill(child, SIGKILL);
        while (waitpid(child, 0, WNOHANG) == 0)
            sched_yield();
        /* The last one of the process may be a moment behind the news of its end. */
        int left = ended();
        for (double end = seconds() + 5; left > 1 && seconds() < end; left = ended())
            ;
        most = left > most ? left : most;
        close(ends[0]);
        close(ends[1]);
    }
    if (!check(most <= 1, "the remains of killed threads wait for no idle moment"))
        printf("# of %d threads\n", most);
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
    static const struct kind all[] = {
        {"processes", processes, EAGAIN, ENOMEM, 0},
        {"threads", threads, EAGAIN, ENOMEM, 0},
        {"tracees", tracees, ENOMEM, ENOMEM, 0},
        {"pipes", pipes, ENFILE, EMFILE, 0},
        {"descriptions", descriptions, ENFILE, EMFILE, 0},
        {"memfds", memfds, ENFILE, ENOSPC, 0},
        {"instances", instances, ENFILE, EMFILE, 0},
        {"counters", counters, ENFILE, EMFILE, 0},
        {"bells", bells, ENFILE, ENOMEM, 0},
        {"sockets", sockets, ENOBUFS, ENFILE, 0},
        {"connections", connections, ENOBUFS, ENFILE, 0},
        {"inboxes", inboxes, ENOBUFS, ENOMEM, 0},
        {"messages", messages, ENOBUFS, ENOMEM, 0},
        {"terminals", terminals, ENOSPC, ENOMEM, 0},
        {"texts", texts, ENFILE, EMFILE, 0},
        {"watches", watches, ENOSPC, ENFILE, 0},
        {"attributes", attributes, ENOSPC, ENOMEM, 0},
        {"segments", segments, ENOSPC, ENOMEM, 0},
        {"semaphores", semaphores, ENOSPC, ENOMEM, 0},
        {"letters", letters, ENOSPC, ENOMEM, 0},
        {"mailboxes", mailboxes, ENFILE, EMFILE, 0},
        {"notices", notices, EMFILE, EMFILE, 0},
        {"marks", marks, ENOSPC, ENOMEM, 0},
        {"timers", timers, EAGAIN, EAGAIN, 0},
        {"signals", signals, EAGAIN, EAGAIN, 0},
        {"locks", locks, ENOLCK, ENOLCK, 0},
        {"file", file, ENOSPC, ENOSPC, 0},
        {"files", files, ENOSPC, ENOSPC, 0},
        {"directories", directories, ENOSPC, ENOSPC, 0},
        {"names", names, ENOSPC, ENOSPC, 0},
        {"mappings", mappings, ENOMEM, ENOMEM, 1},
        {"tables", tables, ENOMEM, ENOMEM, 1},
        {"arguments", arguments, ENOMEM, EAGAIN, 1},
    };
    if (argc > 1 && strcmp(argv[1], "nothing") == 0)
        return 0;
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        return pause();
    as_root = argc > 1 && strcmp(argv[1], "root") == 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int wanted = argc < 2 + as_root;
        for (int j = 1 + as_root; j < argc; j++)
            wanted |= strcmp(argv[j], all[i].name) == 0;
        if (wanted)
            beside(all + i);
    }
    if (!as_root) {
        limit();
        remains();
    }
    return done();
}
