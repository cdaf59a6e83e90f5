/* Every question for memory is answered with no, one at a time: each kind of thing that a call makes is made
 * with the first question of it refused, then the second, until none is left. Each time there is an errno
 * that Linux has for it, or it was done without; and what the kernel holds is what it held before.
 *
 * Interface: refused [KIND...] for all kinds or those named; `refused with EVERY PROGRAM ARG...` runs a
 * program of whose questions so many are refused, and says whether the machine lives; `refused everybody`
 * stops whomever it may. TAP on standard output. For the superuser, who sets /syn/fail.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L
/* No kind asks so often. */
#define QUESTIONS 2000
/* The heap's store for the next request moves by so much, KiB. */
#define SLACK 4
#define PLACE "/tmp/refused"
/* More than end at a time. */
#define THREADS 200

static const char *self;
static int knob;

static void set(const char *text)
{
    /* It may be the one that is refused. */
    for (int i = 0; i < 3; i++)
        if (write(knob, text, strlen(text)) == (ssize_t)strlen(text))
            return;
    printf("Bail out! /syn/fail takes nothing\n");
    exit(98);
}

static void refuse(int n)
{
    char text[40];
    sprintf(text, "%d 0 %d", n, getsid(0));
    set(text);
}

/* Ends it; whether something was refused. */
static int was_refused(void)
{
    char text[80] = "";
    int asked = 0, no = 0;
    set("off");
    if (pread(knob, text, sizeof text - 1, 0) <= 0 || sscanf(text, "asked %d refused %d", &asked, &no) != 2)
        exit(97);
    return no;
}

/* The kinds. Each makes something and takes it away again; 0, or the errno of what failed. */

static int pipes(void)
{
    int fd[2];
    char byte = 'x', block[3000] = "";
    if (pipe2(fd, O_NONBLOCK))
        return errno;
    int error = write(fd[1], &byte, 1) == 1 && write(fd[1], block, sizeof block) > 0 &&
                        read(fd[0], block, sizeof block) > 0
                    ? 0
                    : errno;
    int more = dup(fd[0]);
    if (more < 0)
        error = errno;
    close(more);
    close(fd[0]);
    close(fd[1]);
    return error;
}

static int descriptions(void)
{
    static const char *const names[] = {"/dev/null",   "/dev/zero",       "/",
                                        PLACE "/file", "/proc/self/stat", "/syn/memory"};
    char block[64];
    int error = 0;
    for (int i = 0; i < 6; i++) {
        int fd = open(names[i], O_RDONLY);
        if (fd < 0 || (i != 2 && i != 0 && read(fd, block, sizeof block) < 0))
            error = errno;
        if (fd >= 0)
            close(fd);
    }
    return error;
}

static int memfds(void)
{
    int fd = syscall(SYS_memfd_create, "refused", 0);
    if (fd < 0)
        return errno;
    int error = ftruncate(fd, 3 * PAGE) || pwrite(fd, "x", 1, 5 * PAGE) < 0 ? errno : 0;
    char *at = mmap(0, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        error = errno;
    else if (!error) {
        at[0] = at[2 * PAGE] = 1;
    }
    if (at != MAP_FAILED && munmap(at, 6 * PAGE))
        munmap(at, 6 * PAGE), error = errno;
    close(fd);
    return error;
}

static int watches(void)
{
    int fd[2], error = 0, poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN}, came;
    if (poll < 0 || pipe(fd)) {
        error = errno;
        if (poll >= 0)
            close(poll);
        return error;
    }
    if (epoll_ctl(poll, EPOLL_CTL_ADD, fd[0], &event) || epoll_ctl(poll, EPOLL_CTL_ADD, fd[1], &event) ||
        write(fd[1], "x", 1) < 0 || epoll_wait(poll, &came, 1, 0) < 0)
        error = errno;
    close(fd[0]);
    close(fd[1]);
    close(poll);
    return error;
}

static int waits(void)
{
    struct pollfd all[20];
    struct timeval soon = {0, 1};
    fd_set set;
    FD_ZERO(&set);
    for (int i = 0; i < 20; i++)
        all[i] = (struct pollfd){.fd = 0, .events = POLLPRI};
    FD_SET(1, &set);
    int error = poll(all, 20, 1) < 0 ? errno : 0;
    if (select(2, 0, 0, &set, &soon) < 0)
        error = errno;
    int word = 0;
    struct timespec wait = {0, 100000};
    if (syscall(SYS_futex, &word, 0, 0, &wait, 0, 0) < 0 && errno != ETIMEDOUT)
        error = errno;
    nanosleep(&wait, 0);
    return error;
}

static int texts(void)
{
    static const char *const names[] = {"/proc/self/maps",   "/proc/self/status", "/proc/meminfo",
                                        "/proc/cpuinfo",     "/syn/threads",      "/proc/self/fdinfo/0",
                                        "/proc/self/environ"};
    static char block[4096];
    int error = 0;
    for (int i = 0; i < 7; i++) {
        int fd = open(names[i], O_RDONLY);
        if (fd < 0) {
            error = errno;
            continue;
        }
        ssize_t count;
        while ((count = read(fd, block, sizeof block)) > 0)
            ;
        if (count < 0)
            error = errno;
        close(fd);
    }
    if (readlink("/proc/self/exe", block, sizeof block) < 0 ||
        readlink("/proc/self/fd/0", block, sizeof block) < 0)
        error = errno;
    return error;
}

static int listings(void)
{
    static const char *const names[] = {"/proc", "/proc/self/fd", "/proc/self/task", "/syn", "/dev", PLACE};
    static char block[4096];
    int error = 0;
    for (int i = 0; i < 6; i++) {
        int fd = open(names[i], O_RDONLY | O_DIRECTORY);
        if (fd < 0) {
            error = errno;
            continue;
        }
        ssize_t count;
        while ((count = syscall(SYS_getdents64, fd, block, sizeof block)) > 0)
            ;
        if (count < 0)
            error = errno;
        close(fd);
    }
    return error;
}

static int timers(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec when = {{0, 0}, {100, 0}};
    struct itimerval alarm = {{0, 0}, {100, 0}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer))
        return errno;
    int error = timer_settime(timer, 0, &when, 0) ? errno : 0;
    if (setitimer(ITIMER_REAL, &alarm, 0))
        error = errno;
    memset(&alarm, 0, sizeof alarm);
    setitimer(ITIMER_REAL, &alarm, 0);
    timer_delete(timer);
    return error;
}

static void caught(int signo) { (void)signo; }

static int signals(void)
{
    sigset_t set;
    struct timespec none = {0, 0};
    union sigval value = {.sival_int = 3};
    int error = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, 0);
    for (int i = 0; i < 5; i++)
        if (sigqueue(getpid(), SIGRTMIN + 1, value))
            error = errno;
    while (sigtimedwait(&set, 0, &none) > 0)
        ;
    signal(SIGUSR2, caught);
    raise(SIGUSR2);
    return error;
}

static int locks(void)
{
    int error = 0, fd = open(PLACE "/file", O_RDWR);
    if (fd < 0)
        return errno;
    for (int i = 0; i < 40; i++) {
        struct flock lock = {.l_type = F_WRLCK, .l_start = 2 * i, .l_len = 1};
        if (fcntl(fd, F_SETLK, &lock))
            error = errno;
    }
    if (flock(fd, LOCK_EX))
        error = errno;
    close(fd);
    return error;
}

static int contents(void)
{
    static char block[5 * PAGE];
    int error = 0, from = open(PLACE "/file", O_RDONLY),
        fd = open(PLACE "/new", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || from < 0) {
        error = errno;
    } else if (write(fd, block, sizeof block) < 0 || pwrite(fd, "x", 1, 900 * PAGE) < 0 ||
               fallocate(fd, 0, 20 * PAGE, 3 * PAGE) || sendfile(fd, from, 0, 10) < 0 || ftruncate(fd, 100) ||
               lseek(fd, 0, SEEK_SET) < 0 || read(fd, block, 50) < 0 || write(fd, "y", 1) < 0) {
        error = errno;
    }
    if (from >= 0)
        close(from);
    if (fd >= 0)
        close(fd);
    unlink(PLACE "/new");
    return error;
}

static int names(void)
{
    int error = 0;
    if (mkdir(PLACE "/d", 0700) || mkdir(PLACE "/d/e", 0700))
        error = errno;
    if (symlink("file", PLACE "/s") || link(PLACE "/file", PLACE "/l") ||
        mknod(PLACE "/p", S_IFIFO | 0600, 0) || rename(PLACE "/l", PLACE "/m"))
        error = errno;
    struct stat st;
    if (stat(PLACE "/s", &st) && errno != ENOENT)
        error = errno;
    unlink(PLACE "/s");
    unlink(PLACE "/l");
    unlink(PLACE "/m");
    unlink(PLACE "/p");
    rmdir(PLACE "/d/e");
    rmdir(PLACE "/d");
    return error;
}

static int mappings(void)
{
    char *at = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return errno;
    int error = 0;
    at[0] = at[7 * PAGE] = 1;
    for (int i = 1; i < 7; i += 2)
        if (mprotect(at + i * PAGE, PAGE, PROT_READ))
            error = errno;
    if (munmap(at + 4 * PAGE, PAGE))
        error = errno;
    char *moved = mremap(at, PAGE, 200 * PAGE, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED)
        error = errno, moved = at;
    madvise(at + 6 * PAGE, PAGE, MADV_DONTNEED);
    /* Giving back may need a piece more. */
    if (moved != at && munmap(moved, 200 * PAGE))
        munmap(moved, 200 * PAGE), error = errno;
    if (munmap(at, 8 * PAGE))
        munmap(at, 8 * PAGE), error = errno;
    return error;
}

static int tables(void)
{
    int error = 0;
    /* A table of each level for each. */
    for (long i = 0; i < 3; i++) {
        char *at = mmap((char *)(0x100000000000 + (i << 39)), PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == MAP_FAILED) {
            error = errno;
            continue;
        }
        at[0] = 1;
        if (munmap(at, PAGE))
            munmap(at, PAGE), error = errno;
    }
    int fd = open(self, O_RDONLY);
    if (fd < 0)
        return errno;
    char *image = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (image == MAP_FAILED)
        error = errno;
    else {
        image[0]++;
        munmap(image, 4 * PAGE);
    }
    close(fd);
    return error;
}

/* The act of a program that stops the child which fork refused to it. */
static int everybody(void)
{
    kill(-1, SIGSTOP);
    return 0;
}

/* The child's end is told by its status: an errno as its exit status. */
static int ended(pid_t child)
{
    int status = 0;
    if (child < 0)
        return errno;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 2000 + errno;
    /* 127: the program's own loader had no memory. */
    if (WIFEXITED(status))
        return WEXITSTATUS(status) == 127 ? ENOMEM : WEXITSTATUS(status);
    return WTERMSIG(status) == SIGKILL ? ENOMEM : 1000 + status;
}

static int processes(void)
{
    pid_t child = fork();
    if (child == 0) {
        volatile double x = 1.5;
        x *= 3;
        _exit(0);
    }
    return ended(child);
}

static int arguments(void)
{
    char *words[] = {(char *)self, "nothing", "and", "more", 0};
    pid_t child = vfork();
    if (child == 0) {
        execv(self, words);
        _exit(errno);
    }
    return ended(child);
}

static int scripts(void)
{
    char *words[] = {PLACE "/script", 0};
    pid_t child = fork();
    if (child == 0) {
        execv(words[0], words);
        _exit(errno);
    }
    return ended(child);
}

static int grown(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit most = {4096, 4096};
        setrlimit(RLIMIT_NOFILE, &most);
        int error = dup2(0, 900) < 0 ? errno : 0;
        if (unshare(CLONE_FILES))
            error = errno;
        if (open("/dev/null", O_RDONLY) < 0)
            error = errno;
        _exit(error);
    }
    return ended(child);
}

static int settings(void)
{
    pid_t child = fork();
    if (child == 0) {
        gid_t groups[] = {5, 6, 7};
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(0, &cpus);
        int error = syscall(SYS_setgroups, 3, groups) ? errno : 0;
        char path[200];
        if (chdir(PLACE) || !getcwd(path, sizeof path) || sched_setaffinity(0, sizeof cpus, &cpus))
            error = errno;
        if (unshare(CLONE_FS) || chroot("/"))
            error = errno;
        if (setpgid(0, 0) || setresgid(5, 5, 5) || setresuid(1000, 1000, 1000))
            error = errno;
        _exit(error);
    }
    return ended(child);
}

static int sessions(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(setsid() < 0 ? errno : 0);
    return ended(child);
}

static int traced(void)
{
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            _exit(errno);
        raise(SIGSTOP);
        _exit(0);
    }
    if (child < 0)
        return errno;
    int status = 0, error = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFSTOPPED(status))
        return WIFEXITED(status) ? WEXITSTATUS(status) : ENOMEM;
    if (ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD))
        error = errno;
    kill(child, SIGKILL);
    int end = ended(child);
    return error ? error : end == ENOMEM ? 0 : end;
}

static void *thread(void *unused) { return unused; }

static int threads(void)
{
    /* In a process of its own, for the library keeps stacks. */
    pid_t child = fork();
    if (child == 0) {
        pthread_t other;
        int error = pthread_create(&other, 0, thread, 0);
        _exit(error ? error : pthread_join(other, 0));
    }
    return ended(child);
}

/* A shell goes on with the wrong file when it cannot do this, for nobody looks. */
static int redirections(void)
{
    int fd[2];
    if (pipe(fd))
        return errno;
    int error = 0, spare = open("/dev/null", O_RDWR);
    if (spare < 0)
        error = errno;
    else if (dup2(fd[1], spare) != spare || write(spare, "x", 1) != 1)
        error = 1000 + errno;
    close(spare);
    close(fd[0]);
    close(fd[1]);
    return error;
}

static const struct kind {
    const char *name;
    int (*make)(void);
    /* Sweeps at a time: a leak of each becomes visible. */
    int sweeps;
} kinds[] = {
    {"pipes", pipes, 16},
    {"descriptions", descriptions, 8},
    {"memfds", memfds, 8},
    {"watches", watches, 16},
    {"waits", waits, 4},
    {"texts", texts, 2},
    {"listings", listings, 2},
    {"timers", timers, 24},
    {"signals", signals, 8},
    {"locks", locks, 8},
    {"contents", contents, 8},
    {"names", names, 8},
    {"mappings", mappings, 8},
    {"tables", tables, 6},
    {"processes", processes, 3},
    {"arguments", arguments, 2},
    {"scripts", scripts, 1},
    {"grown", grown, 2},
    {"settings", settings, 2},
    {"sessions", sessions, 2},
    {"traced", traced, 2},
    {"threads", threads, 2},
    {"redirections", redirections, 8},
};

#define KINDS (sizeof kinds / sizeof *kinds)

static int is_told(int error)
{
    return error == 0 || error == ENOMEM || error == EAGAIN || error == ENFILE || error == ENOSPC ||
           error == ENOLCK;
}

/* The memory in use, in KiB, and how many routines exist. */
struct used {
    long frames, heap, code, routines;
};

static long number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? atol(at + strlen(name)) : -1;
}

static struct used used(void)
{
    static char text[8192];
    struct used used = {0, 0, 0, 0};
    /* Without what is kept for the next who asks. */
    int let_go = open("/syn/memory", O_WRONLY | O_CLOEXEC);
    if (let_go < 0 || write(let_go, "shrink", 6) != 6)
        exit(93);
    close(let_go);
    for (int i = 0; i < 2000; i++) {
        int fd = open("/syn/memory", O_RDONLY);
        ssize_t length = 0, count;
        while (fd >= 0 && (count = read(fd, text + length, sizeof text - 1 - length)) > 0)
            length += count;
        close(fd);
        text[length] = 0;
        if (strstr(text, "\n0 frees wait"))
            break;
        usleep(2000);
    }
    const char *heap = strstr(text, "\nheap"), *code = strstr(text, "\ngenerated code, memory"),
               *routines = strstr(text, " routines exist");
    if (!heap || !code || !routines)
        exit(96);
    used.heap = number_after(heap, "  in use");
    used.code = number_after(code, "  in use");
    used.frames = number_after(text, "all frames") - number_after(text, "\nfree frames") -
                  number_after(text, "\nheap") - number_after(text, "\ngenerated code, memory") -
                  number_after(text, "\ntables, memory") - number_after(text, "\nkernel stacks");
    while (routines > text && routines[-1] != '\n')
        routines--;
    used.routines = atol(routines);
    return used;
}

/* Makes one with each question refused in turn. Returns how many there are, or 0 when something was not as
 * it should be. */
static int sweep(const struct kind *kind)
{
    for (int n = 1; n < QUESTIONS; n++) {
        refuse(n);
        int error = kind->make();
        int refused = was_refused();
        if (!is_told(error) || (error && !refused)) {
            printf("# %s, question %d: errno %d (%s), %d refused\n", kind->name, n, error, strerror(error),
                   refused);
            return 0;
        }
        if (!refused)
            return n - 1;
    }
    return 0;
}

static int sweeps(const struct kind *kind, int count)
{
    int good = 1;
    for (int i = 0; i < count; i++)
        good &= sweep(kind) > 0;
    return good;
}

static void most_of(struct used *a, struct used b)
{
    a->frames = b.frames > a->frames ? b.frames : a->frames;
    a->heap = b.heap > a->heap ? b.heap : a->heap;
    a->code = b.code > a->code ? b.code : a->code;
    a->routines = b.routines > a->routines ? b.routines : a->routines;
}

static void try_kind(const struct kind *kind)
{
    char text[200];
    int asked = sweep(kind);
    snprintf(text, sizeof text, "%s: each of its questions can be refused", kind->name);
    if (!check(asked > 0, text))
        return;
    printf("# %s: %d questions\n", kind->name, asked);
    int good = sweeps(kind, kind->sweeps);
    struct used early = used();
    for (int i = 0; i < 2; i++) {
        good &= sweeps(kind, 1);
        most_of(&early, used());
    }
    good &= sweeps(kind, 6 * kind->sweeps);
    struct used late = {0, 0, 0, 0};
    int level = 0;
    /* The store for the next request moves up and down; a leak does not. */
    for (int i = 0; i < 6 && !level; i++) {
        late = used();
        level = late.frames <= early.frames + 16 && late.heap <= early.heap + SLACK &&
                late.code <= early.code + 8 && late.routines <= early.routines + 8;
        if (!level)
            good &= sweeps(kind, 1);
    }
    snprintf(text, sizeof text, "%s: again and again", kind->name);
    check(good, text);
    snprintf(text, sizeof text, "%s: what is held stays the same", kind->name);
    if (!check(level, text))
        printf("# frames %ld, then %ld KiB; heap %ld, %ld KiB; code %ld, %ld KiB; routines %ld, %ld\n",
               early.frames, late.frames, early.heap, late.heap, early.code, late.code, early.routines,
               late.routines);
}

static void *meets(void *together)
{
    pthread_barrier_wait(together);
    return 0;
}

static void prepare(void)
{
    mkdir(PLACE, 0700);
    int fd = open(PLACE "/file", O_RDWR | O_CREAT, 0600);
    if (write(fd, "some text", 9) != 9)
        exit(95);
    close(fd);
    fd = open(PLACE "/script", O_WRONLY | O_CREAT, 0700);
    dprintf(fd, "#!%s nothing\n", self);
    close(fd);
    /* Entries of threads stay, as many as there ever were at a time: now more than are ending at a time in
     * any of this. */
    pid_t child = fork();
    if (child == 0) {
        pthread_attr_t small;
        pthread_barrier_t together;
        pthread_t others[THREADS];
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 16384);
        pthread_barrier_init(&together, 0, THREADS + 1);
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&others[i], &small, meets, &together))
                _exit(1);
        pthread_barrier_wait(&together);
        for (int i = 0; i < THREADS; i++)
            pthread_join(others[i], 0);
        _exit(0);
    }
    int status = -1;
    if (waitpid(child, &status, 0) != child || status)
        exit(94);
}

/* A program of whose session's questions every so many is refused. It may fail; whoever starts afterwards
 * may not. */
static int with(char **words)
{
    static char output[65536];
    pid_t child = fork();
    if (child == 0) {
        char text[60];
        int null = open("/dev/null", O_RDWR);
        setsid();
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        sprintf(text, "%s %s %d", words[0], words[0], getsid(0));
        /* A program that kills or stops the child which it did not get means everybody: not who started
         * it. */
        if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
            _exit(99);
        set(text);
        execv(words[1], words + 1);
        _exit(errno == ENOMEM ? 0 : 99);
    }
    int status = 0;
    /* It may wait for ever for what has not come. */
    for (int i = 0; i < 500 && waitpid(child, &status, WNOHANG) == 0; i++) {
        if (i % 100 == 99)
            printf("# it goes on\n"), fflush(stdout);
        usleep(10000);
    }
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    set("off");
    if (pread(knob, output, sizeof output - 1, 0) > 0)
        printf("# %s: status %x, %s", words[1], status, output), fflush(stdout);
    check(WIFSIGNALED(status) || WEXITSTATUS(status) != 99, "the program ran");
    check(arguments() == 0 && processes() == 0 && pipes() == 0, "the machine lives");
    return done();
}

int main(int argc, char **argv)
{
    self = "/proc/self/exe";
    if (argc >= 2 && strcmp(argv[1], "nothing") == 0)
        return 0;
    if (argc >= 2 && strcmp(argv[1], "everybody") == 0)
        return everybody();
    self = argv[0];
    knob = open("/syn/fail", O_RDWR | O_CLOEXEC);
    if (knob < 0)
        return 2;
    prepare();
    if (argc >= 4 && strcmp(argv[1], "with") == 0)
        return with(argv + 2);
    for (size_t i = 0; i < KINDS; i++) {
        int wanted = argc < 2;
        for (int j = 1; j < argc; j++)
            wanted |= strcmp(argv[j], kinds[i].name) == 0;
        if (wanted)
            try_kind(&kinds[i]);
    }
    return done();
}
