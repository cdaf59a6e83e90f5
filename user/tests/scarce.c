/* Programs that make the kernel take memory, one kind of object at a time, until it says no: each is refused,
 * waits, or is ended, and the machine lives on.
 *
 * Interface: scarce [GROUP...]; reports by TAP. Each group runs in processes of their own; afterwards another
 * process must start, and the memory must be back.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KIB 1024L
#define MIB (1024 * KIB)
#define PAGE 4096L

static const char *self;

static long free_bytes(void)
{
    struct sysinfo info;
    return sysinfo(&info) ? -1 : (long)info.freeram * info.mem_unit;
}

/* Whether a process can be made and ends well, after some time for those that are ending. */
static int machine_lives(void)
{
    for (int i = 0; i < 500; i++) {
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

/* Runs `part` in `count` processes at once that may be ended for it; then the machine lives, and the
 * memory is back. */
static void endure(const char *name, int count, void (*part)(int))
{
    char text[200];
    long before = free_bytes();
    int refused = 0, killed = 0, other = 0;
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0) {
            setpgid(0, 0);
            part(i);
            _exit(0);
        }
        if (child < 0)
            refused++;
    }
    int status;
    while (wait(&status) > 0 || errno == EINTR) {
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
            killed++;
        else if (status != 0)
            other++, printf("# status %x\n", status);
    }
    printf("# %s: %d refused, %d killed\n", name, refused, killed);
    snprintf(text, sizeof text, "%s: each ends by itself or is killed", name);
    equal(other, 0, text);
    snprintf(text, sizeof text, "%s: another process starts", name);
    check(machine_lives(), text);
    snprintf(text, sizeof text, "%s: the memory is back", name);
    long after = 0;
    for (int i = 0; i < 500; i++) {
        after = free_bytes();
        if (after >= before - 6 * MIB)
            break;
        usleep(10000);
    }
    if (!check(after >= before - 6 * MIB, text))
        printf("# %ld KiB before, %ld KiB after\n", before >> 10, after >> 10);
}

static void many_descriptors(void)
{
    struct rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Descriptors that are not written to: each is an inode and a description. */
static void memfds(int i)
{
    (void)i;
    many_descriptors();
    for (int n = 0; n < 4090; n++)
        if (syscall(SYS_memfd_create, "x", 0) < 0)
            break;
    usleep(300000);
}

static void pipes(int i)
{
    (void)i;
    many_descriptors();
    int ends[2];
    static char block[65536];
    while (pipe2(ends, O_NONBLOCK) == 0)
        if (write(ends[1], block, sizeof block) < 0)
            break;
    usleep(300000);
}

static void epolls(int i)
{
    (void)i;
    many_descriptors();
    int event = eventfd(0, 0), last = event;
    for (int n = 0; n < 4090; n++) {
        int epoll = epoll_create1(0);
        if (epoll < 0)
            break;
        for (int fd = event; fd <= last; fd++) {
            struct epoll_event interest = {.events = EPOLLIN};
            if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &interest) < 0)
                break;
        }
        if (n < 60)
            last = dup(event);
    }
    usleep(300000);
}

static void executes(int i)
{
    (void)i;
    static char *words[] = {0, "sleeps", 0}, *environment[20];
    words[0] = (char *)self;
    for (int n = 0; n < 15; n++) {
        environment[n] = malloc(127 * KIB);
        if (!environment[n])
            return;
        memset(environment[n], 'x', 127 * KIB - 1);
        environment[n][127 * KIB - 1] = 0;
    }
    execve(self, words, environment);
}

static void maps(int i)
{
    (void)i;
    long areas = 360000, made = 0;
    char *at = mmap(0, 2 * areas * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return;
    for (; made < areas; made++)
        if (mprotect(at + 2 * made * PAGE, PAGE, PROT_READ))
            break;
    static char block[65536];
    int fd = open("/proc/self/maps", O_RDONLY);
    long total = 0, got;
    while (fd >= 0 && (got = read(fd, block, sizeof block)) > 0)
        total += got;
    printf("# %ld areas, %ld bytes of maps\n", made, total);
    fflush(stdout);
}

static void texts(int i)
{
    (void)i;
    many_descriptors();
    long areas = 20000;
    char *at = mmap(0, 2 * areas * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (long made = 0; at != MAP_FAILED && made < areas; made++)
        if (mprotect(at + 2 * made * PAGE, PAGE, PROT_READ))
            break;
    for (int n = 0; n < 1000; n++) {
        char byte;
        int fd = open("/proc/self/maps", O_RDONLY);
        if (fd < 0 || read(fd, &byte, 1) != 1)
            break;
    }
    usleep(100000);
}

/* Fills the memory but for the kernel's own reserve and `rest` bytes. */
static void fill(long rest)
{
    long last = free_bytes();
    for (;;) {
        if (last < rest)
            return;
        char *at = mmap(0, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            return;
        for (long n = 0; n < 64 * KIB; n += PAGE)
            at[n] = 1;
        last = free_bytes();
    }
}

/* Calls that keep something or answer much, one after the other, while there is next to no memory. */
static void nearly(int i)
{
    static char block[65536];
    struct sysinfo info;
    sysinfo(&info);
    many_descriptors();
    long reserve = (long)info.totalram / 32;
    fill(reserve + 200 * KIB);
    static const char *const names[] = {"/syn/code",        "/syn/quajects",   "/syn/links",
                                        "/syn/threads",     "/proc/self/maps", "/proc/mounts",
                                        "/proc/self/status"};
    int epoll = epoll_create1(0), event = eventfd(0, 0);
    for (int n = 0; n < 4000; n++) {
        struct epoll_event interest = {.events = EPOLLIN};
        struct timespec now = {0, 0};
        timer_t timer;
        char name[64];
        switch ((n + i) % 8) {
        case 0:
            epoll_ctl(epoll, EPOLL_CTL_ADD, dup(event), &interest);
            break;
        case 1: {
            struct {
                unsigned long flags, mode, resolve;
            } how = {0};
            syscall(SYS_openat2, AT_FDCWD, "/proc/self/status", &how, sizeof how);
            break;
        }
        case 2: {
            int fd = open(names[n / 8 % (sizeof names / sizeof *names)], O_RDONLY);
            if (fd >= 0) {
                while (read(fd, block, sizeof block) > 0)
                    ;
                close(fd);
            }
            break;
        }
        case 3:
            timer_create(CLOCK_MONOTONIC, 0, &timer);
            break;
        case 4:
            snprintf(name, sizeof name, "/tmp/scarce-%d-%d-with-a-longer-name", i, n);
            mkdir(name, 0700);
            break;
        case 5: {
            union sigval value = {.sival_int = n};
            signal(SIGRTMIN, SIG_IGN);
            sigset_t set;
            sigemptyset(&set);
            sigaddset(&set, SIGRTMIN + 1);
            sigprocmask(SIG_BLOCK, &set, 0);
            sigqueue(getpid(), SIGRTMIN + 1, value);
            break;
        }
        case 6: {
            struct flock lock = {.l_type = F_WRLCK, .l_start = 2 * n, .l_len = 1};
            static int file;
            if (!file) {
                snprintf(name, sizeof name, "/tmp/scarce-lock-%d", i);
                file = open(name, O_RDWR | O_CREAT, 0600);
            }
            fcntl(file, F_SETLK, &lock);
            break;
        }
        case 7:
            ppoll((struct pollfd[]){{event, POLLIN, 0}}, 1, &now, 0);
            break;
        }
    }
    for (int n = 0; n < 4000; n++) {
        char name[64];
        snprintf(name, sizeof name, "/tmp/scarce-%d-%d-with-a-longer-name", i, n);
        rmdir(name);
    }
}

static void names(int i)
{
    char name[128];
    long n = 0;
    for (; n < 2000000; n++) {
        snprintf(name, sizeof name, "/tmp/scarce-name-%d-%ld-abcdefghijklmnopqrstuvwxyz", i, n);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (fd < 0)
            break;
        close(fd);
    }
    printf("# %ld names, errno %d\n", n, errno);
    fflush(stdout);
}

static void unlink_names(void)
{
    char name[128];
    for (int i = 0; i < 2; i++)
        for (long n = 0; n < 2000000; n++) {
            snprintf(name, sizeof name, "/tmp/scarce-name-%d-%ld-abcdefghijklmnopqrstuvwxyz", i, n);
            if (unlink(name))
                break;
        }
}

static void *sleeper(void *unused)
{
    pause();
    return unused;
}

static void threads(int i)
{
    (void)i;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    while (pthread_create(&thread, &attributes, sleeper, 0) == 0)
        ;
    usleep(100000);
}

/* A page in each two megabytes: a page table for each. */
static void tables(int i)
{
    (void)i;
    char *at = mmap(0, 64L << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (long n = 0; at != MAP_FAILED && n < 64L << 30; n += 2 * MIB)
        at[n] = 1;
}

/* A process that holds so many bytes, in a file that only it has open or in its memory, and stays. */
static pid_t holder(long bytes, int in_file)
{
    int told[2];
    char c = 0;
    if (pipe(told))
        return -1;
    bytes -= bytes % (64 * KIB);
    pid_t child = fork();
    if (child == 0) {
        static char block[64 * KIB];
        memset(block, 1, sizeof block);
        int fd = in_file ? (int)syscall(SYS_memfd_create, "held", 0) : -1;
        char *at = in_file ? 0 : mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long n = 0; n < bytes; n += sizeof block)
            if (in_file ? write(fd, block, sizeof block) != sizeof block
                        : !memcpy(at + n, block, sizeof block))
                _exit(1);
        write(told[1], "r", 1);
        for (;;)
            pause();
    }
    close(told[1]);
    check(read(told[0], &c, 1) == 1, in_file ? "one that holds a file" : "one that holds less in memory");
    close(told[0]);
    return child;
}

/* When memory is out who holds most ends, also where that is a file that nobody else has. */
static void choice(void)
{
    long all = free_bytes();
    pid_t most = holder(all / 100 * 43, 1), less = holder(all / 100 * 20, 0);
    pid_t grows = fork();
    if (grows == 0) {
        /* No more than the first has, and until that has ended. */
        for (long n = 0; n < all / 100 * 42 && kill(most, 0) == 0; n += 64 * KIB) {
            char *at = mmap(0, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (long i = 0; at != MAP_FAILED && i < 64 * KIB; i += PAGE)
                at[i] = 1;
        }
        _exit(0);
    }
    int status = -1;
    equal(waitpid(grows, &status, 0) == grows && status == 0, 1, "who asks for more is not ended");
    equal(waitpid(most, &status, WNOHANG) == most && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, 1,
          "who holds a large file is");
    equal(waitpid(less, &status, WNOHANG), 0, "who holds less is not");
    kill(most, SIGKILL), kill(less, SIGKILL);
    while (wait(&status) > 0)
        ;
    check(machine_lives(), "choice: another process starts");
}

/* Frames that waited to be of use again have been given back for all that. */
static void given_back(void)
{
    FILE *file = fopen("/syn/memory", "r");
    char line[200];
    long frames = 0, one;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "given back %ld frames", &one) == 1)
            frames += one;
    printf("# %ld frames\n", frames);
    check(frames >= 64, "what was kept without need has been given back");
    if (file)
        fclose(file);
}

static void group_memfds(void) { endure("memory files", 5, memfds); }
static void group_pipes(void) { endure("pipes", 5, pipes); }
static void group_epolls(void) { endure("epoll instances", 5, epolls); }
static void group_executes(void) { endure("environments", 30, executes); }
static void group_maps(void) { endure("areas", 1, maps); }
static void group_texts(void) { endure("open texts", 1, texts); }
static void group_nearly(void) { endure("nearly nothing", 2, nearly); }
static void group_names(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        names(0);
        _exit(0);
    }
    waitpid(child, &status, 0);
    unlink_names();
    check(machine_lives(), "names: another process starts");
}
static void group_threads(void) { endure("threads", 3, threads); }
static void group_tables(void) { endure("page tables", 2, tables); }

/* 
 * So many children that there is no memory for another; each is to end with its parent, and says whether it
 * may. Then the parent is killed. A child that was ended for want of memory answers by its parent.
 */
static void group_families(void)
{
    static char block[65536];
    int answers[2], counts[2], refused = 0, count = 0;
    char answer;
    /* Of nobody's own, so that nobody is ended for it. */
    int file = open("/tmp/ballast", O_CREAT | O_WRONLY | O_TRUNC, 0600);
    while (free_bytes() > 6 * MIB && write(file, block, sizeof block) > 0)
        ;
    close(file);
    if (pipe(answers) || pipe(counts))
        return (void)check(0, "families: pipes");
    pid_t head = fork();
    if (head == 0) {
        pid_t self = getpid(), child;
        while ((child = fork()) > 0)
            count++;
        if (child == 0) {
            answer = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == self ? 'y' : 'n';
            if (write(answers[1], &answer, 1) != 1)
                _exit(1);
        } else {
            if (write(counts[1], &count, sizeof count) != sizeof count)
                _exit(1);
            answer = 'e';
            while (wait(NULL) > 0 && write(answers[1], &answer, 1) == 1)
                ;
        }
        for (;;)
            pause();
    }
    close(answers[1]);
    close(counts[1]);
    check(head > 0 && read(counts[0], &count, sizeof count) == sizeof count && count > 20,
          "families: many children");
    int ended = 0, answered = 0;
    while (answered < count && read(answers[0], &answer, 1) == 1) {
        answered++;
        refused += answer == 'n';
        ended += answer == 'e';
    }
    printf("# %d children, %d of them ended for want of memory\n", count, ended);
    equal(answered, count, "families: each answers or is ended");
    equal(refused, 0, "families: each may say that it ends with its parent");
    kill(head, SIGKILL);
    waitpid(head, 0, 0);
    /* The end of file comes when nobody has the pipe any more. Their memory is on its way back, so the
     * question may be refused at first. */
    struct pollfd ends = {.fd = answers[0], .events = POLLIN};
    int ready;
    ssize_t left = -1;
    do {
        ready = poll(&ends, 1, 10000);
        left = ready == 1 ? read(answers[0], &answer, 1) : -1;
    } while (left > 0 || (ready < 0 && errno == ENOMEM));
    equal(left, 0, "families: the children end with their parent");
    close(answers[0]);
    close(counts[0]);
    unlink("/tmp/ballast");
    check(machine_lives(), "families: another process starts");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"memfds", group_memfds},     {"pipes", group_pipes}, {"epolls", group_epolls},
        {"executes", group_executes}, {"maps", group_maps},   {"texts", group_texts},
        {"nearly", group_nearly},     {"names", group_names}, {"threads", group_threads},
        {"tables", group_tables},     {"choice", choice},     {"given back", given_back},
        {"families", group_families},
    };
    self = argv[0];
    if (argc == 2 && strcmp(argv[1], "nothing") == 0)
        return 0;
    if (argc == 2 && strcmp(argv[1], "sleeps") == 0) {
        usleep(2000000);
        return 0;
    }
    run_groups(GROUPS(groups), "", argc, argv);
    return done();
}
