/* Small attacks that random calls do not make, because all must come together: each program does its worst,
 * and what it asserts is an error number, the end of the attacker alone, or that root's things are as they
 * were. Started as user 0. Passes on Linux and must pass here.
 *
 * Interface: adverse [GROUP...]; TAP on standard output. A race is tried for as long as a count says, never
 * by the clock.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

int setgroups(size_t count, const gid_t *groups); /* <grp.h> has a struct group of its own */

enum { USER = 1000, PAGE = 4096 };

/* For ever an ordinary user. */
static void drop(void)
{
    if (setgroups(0, 0) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
        _exit(99);
}

static int mode_of(const char *name)
{
    struct stat now;
    return stat(name, &now) ? -1 : (int)(now.st_mode & 07777);
}

static int file(const char *name, uid_t owner, mode_t mode)
{
    int fd = open(name, O_CREAT | O_TRUNC | O_RDWR, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || fchown(fd, owner, owner) || fchmod(fd, mode))
        check(0, name);
    return fd;
}

/* chown that changes no owner takes the set-id bits away: that is a change of mode, and only the owner's
 * right. */
static void group_chown(void)
{
    static const int modes[] = {04755, 02755, 02745, 06711};
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
        int fd = file("bits", 0, modes[i]);
        pid_t child = fork();
        if (child == 0) {
            drop();
            int refused = chown("bits", -1, -1) == -1 && errno == EPERM && lchown("bits", -1, -1) == -1 &&
                          errno == EPERM;
            _exit(refused && fchown(fd, -1, -1) == -1 && errno == EPERM ? 0 : 1);
        }
        equal(status_of(child), 0, "chown(-1, -1) of a set-id program of root's is refused");
        equal(mode_of("bits"), modes[i], "and it keeps its bits");
        close(fd);
    }
    close(file("bits", 0, 0755));
    pid_t child = fork();
    if (child == 0) {
        drop();
        _exit(chown("bits", -1, -1));
    }
    equal(status_of(child), 0, "without such bits there is nothing to refuse");
    close(file("bits", USER, 06755));
    child = fork();
    if (child == 0) {
        drop();
        _exit(chown("bits", -1, -1));
    }
    equal(status_of(child), 0, "an owner may");
    equal(mode_of("bits"), 0755, "and loses them");
    unlink("bits");
}

/* An owner who sets the set-user-id bit at the moment in which root takes the file over. */
static void group_takeover(void)
{
    int stolen = 0;
    close(file("taken", USER, 0755));
    pid_t child[3];
    for (int i = 0; i < 3; i++)
        if ((child[i] = fork()) == 0) {
            int fd = open("taken", O_RDWR);
            drop();
            for (;;)
                fchmod(fd, 04755);
        }
    for (int i = 0, tries = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 20000 : 2000; i < tries; i++) {
        struct stat now;
        if (chown("taken", USER, USER) || chmod("taken", 0755) || chown("taken", 0, 0) || stat("taken", &now))
            break;
        stolen += now.st_uid == 0 && (now.st_mode & S_ISUID);
    }
    for (int i = 0; i < 3; i++) {
        kill(child[i], SIGKILL);
        status_of(child[i]);
    }
    equal(stolen, 0, "a file that root has taken over is never set-user-id by its owner before");
    unlink("taken");
}

/* The pages that nobody has written to are one frame for all. All that the kernel writes for a program
 * goes to a page of the program's own. */
static void group_zeros(void)
{
    enum { PAGES = 12 };
    char *area = mmap(0, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile long sum = 0;
    for (int i = 0; i < PAGES; i++)
        sum += area[i * PAGE];
    int ends[2], zero = open("/dev/urandom", O_RDONLY),
                 failed = pipe(ends) != 0 || write(ends[1], "0123456789", 10) != 10;
    struct iovec two[2] = {{area + PAGE, 4}, {area + 2 * PAGE, 4}};
    struct pollfd *poll_fd = (void *)(area + 5 * PAGE);
    failed += read(zero, area, 100) != 100 || readv(ends[0], two, 2) != 8 ||
              syscall(SYS_getrandom, area + 3 * PAGE, 64, 0) != 64;
    failed += clock_gettime(CLOCK_MONOTONIC, (void *)(area + 4 * PAGE)) != 0 || poll(poll_fd, 1, 0) < 0;
    failed += syscall(SYS_futex, &sum, 5 /* WAKE_OP */, 0, 0, area + 6 * PAGE, 1 << 12 /* set to 1 */) != 0;
    pid_t child = fork();
    if (child == 0) {
        /* The end of a thread clears this word; its stack is one of these pages, too. */
        syscall(SYS_set_tid_address, area + 7 * PAGE);
        struct {
            void *list;
            long offset;
            void *pending;
        } *head = (void *)(area + 8 * PAGE);
        head->list = area + 9 * PAGE;
        head->offset = 0;
        syscall(SYS_set_robust_list, head, 24);
        stack_t stack = {.ss_sp = area + 10 * PAGE, .ss_size = 2 * PAGE};
        sigaltstack(&stack, 0);
        struct sigaction action = {.sa_handler = SIG_IGN};
        sigaction(SIGUSR1, &action, (void *)(area + 11 * PAGE));
        _exit(0);
    }
    status_of(child);
    equal(failed, 0, "calls that write to pages not yet written to");
    char *fresh = mmap(0, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int wrong = 0;
    for (int i = 0; i < 4 * PAGE; i++)
        wrong += fresh[i] != 0;
    equal(wrong, 0, "another page that nobody has written to is all zeros");
    munmap(fresh, 4 * PAGE);
    munmap(area, (PAGES + 1) * PAGE);
    close(zero), close(ends[0]), close(ends[1]);
}

/* A file of root's that one may read: by no way does a mapping of it become writable. */
static void group_readonly(void)
{
    close(file("public", 0, 0644));
    (void)!truncate("public", 3 * PAGE);
    pid_t child = fork();
    if (child == 0) {
        drop();
        int fd = open("public", O_RDONLY), zero = open("/dev/urandom", O_RDONLY), bad = 0, one = 0;
        char *map = mmap(0, 3 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            _exit(98);
        bad += (mprotect(map, PAGE, PROT_READ | PROT_WRITE) == 0) << 0;
        char *moved = mremap(map + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
        bad += (moved == MAP_FAILED || mprotect(moved, PAGE, PROT_WRITE) == 0) << 1;
        bad += !(read(zero, map, 100) == -1 && errno == EFAULT) << 2;
        bad += !(syscall(SYS_futex, &one, 5, 0, 0, map, 1 << 12) == -1 && errno == EFAULT) << 3;
        bad += !(syscall(SYS_getrandom, map + 8, 8, 0) == -1 && errno == EFAULT) << 4;
        pid_t traced = fork();
        if (traced == 0) {
            ptrace(PTRACE_TRACEME, 0, 0, 0);
            syscall(SYS_set_tid_address, map);
            raise(SIGSTOP);
            _exit(0);
        }
        int status;
        waitpid(traced, &status, WUNTRACED);
        bad += (ptrace(PTRACE_POKEDATA, traced, map, 0x1111L) == 0) << 5;
        bad += (ptrace(PTRACE_POKETEXT, traced, moved, 0x2222L) == 0) << 6;
        ptrace(PTRACE_CONT, traced, 0, 0);
        waitpid(traced, &status, 0);
        _exit(bad);
    }
    equal(status_of(child), 0, "mprotect, mremap, calls and tracers are refused");
    int fd = open("public", O_RDONLY), wrong = 0;
    char block[3 * PAGE];
    wrong += read(fd, block, sizeof block) != sizeof block || block[0] != 'x';
    for (unsigned i = 1; i < sizeof block; i++)
        wrong += block[i] != 0;
    equal(wrong, 0, "and the file is as it was");
    close(fd);
    unlink("public");
}

static int ends[2];
static char *buffer;
static volatile int sleeper_tid;
static volatile long slept, slept_error;

static void *sleep_in_read(void *how)
{
    struct iovec part[2] = {{buffer, 8}, {buffer + PAGE, 8}};
    sleeper_tid = syscall(SYS_gettid);
    slept = how ? readv(ends[0], part, 2) : read(ends[0], buffer, 16);
    slept_error = slept < 0 ? errno : 0;
    return 0;
}

static void until_it_sleeps(void)
{
    while (!sleeper_tid || !thread_sleeps(sleeper_tid))
        sched_yield();
}

/* The buffer of a sleeping read is taken away, or becomes a page that may only be read, or another's. */
static void group_sleeper(void)
{
    for (int way = 0; way < 8; way++) {
        pthread_t thread;
        int kind = way & 3;
        buffer = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sleeper_tid = 0;
        if (pipe(ends) || pthread_create(&thread, 0, sleep_in_read, way & 4 ? buffer : 0))
            check(0, "pipe and thread");
        until_it_sleeps();
        char *moved = 0;
        if (kind == 0)
            munmap(buffer, 2 * PAGE);
        else if (kind == 1)
            mprotect(buffer, 2 * PAGE, PROT_READ);
        else if (kind == 2)
            moved = mremap(buffer, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, buffer + 64 * PAGE);
        else
            mmap(buffer, 2 * PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        equal(write(ends[1], "0123456789abcdef", 16), 16, "the writer writes");
        pthread_join(thread, 0);
        check(slept == -1 && slept_error == EFAULT, "the reader is told EFAULT");
        int wrong = 0;
        if (kind == 1 || kind == 3)
            for (int i = 0; i < 2 * PAGE; i++)
                wrong += buffer[i] != 0;
        if (moved)
            for (int i = 0; i < 2 * PAGE; i++)
                wrong += moved[i] != 0;
        equal(wrong, 0, "and nothing was written");
        munmap(moved ? moved : buffer, 2 * PAGE);
        close(ends[0]), close(ends[1]);
    }
}

static volatile int stop;

/* Moves, shrinks and drops what another thread copies from and to. */
static void *disturb(void *file)
{
    char *other = buffer + 64 * PAGE;
    for (int i = 0; !stop; i++) {
        switch (i % 4) {
        case 0:
            if (mremap(buffer, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other)
                mremap(other, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, buffer);
            break;
        case 1:
            (void)!ftruncate((int)(long)file, (i % 9) * 1000), (void)!ftruncate((int)(long)file, 8 * PAGE);
            break;
        case 2:
            madvise(buffer, 8 * PAGE, MADV_DONTNEED);
            break;
        default:
            mmap(buffer + 2 * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            mmap(buffer, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)(long)file, 0);
        }
    }
    return 0;
}

/* Copies whose memory and files are taken away under them: each gives a count that can be, or an error
 * that can be. */
static void group_moving(void)
{
    int fd = syscall(SYS_memfd_create, "m", 0), null = open("/dev/null", O_WRONLY),
        zero = open("/dev/zero", O_RDONLY), other = file("other", 0, 0600), wrong = 0;
    pthread_t thread;
    (void)!ftruncate(fd, 8 * PAGE);
    buffer = mmap(0, 72 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    stop = 0;
    if (pipe2(ends, O_NONBLOCK) || pthread_create(&thread, 0, disturb, (void *)(long)fd))
        check(0, "thread");
    for (int i = 0; i < 1500; i++) {
        long results[7];
        loff_t from = 0, to = 4096;
        results[0] = write(null, buffer, 8 * PAGE), results[1] = read(zero, buffer, 8 * PAGE),
        results[2] = pwrite(fd, buffer, 8 * PAGE, 0), results[3] = pread(fd, buffer, 8 * PAGE, 0);
        results[4] = write(ends[1], buffer, 4 * PAGE), results[5] = read(ends[0], buffer, 4 * PAGE),
        results[6] = syscall(SYS_copy_file_range, fd, &from, other, &to, 5 * PAGE, 0);
        for (int j = 0; j < 7; j++)
            wrong += results[j] < -1 || results[j] > 8 * PAGE;
    }
    stop = 1;
    pthread_join(thread, 0);
    equal(wrong, 0, "counts and errors that can be");
    munmap(buffer, 72 * PAGE);
    close(fd), close(null), close(zero), close(other), close(ends[0]), close(ends[1]);
    unlink("other");
}

static int spoil;

static void spoil_vectors(int signal, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    unsigned char *state = (void *)u->uc_mcontext.fpregs;
    uint64_t *header = (void *)(state + 512);
    (void)signal, (void)info;
    switch (spoil) {
    case 0:
        *(uint32_t *)(state + 24) = ~0U;
        break; /* MXCSR's reserved bits */
    /* parts that there are not */
    case 1:
        header[0] = ~0UL;
        break;
    case 2:
        header[1] = 1UL << 63;
        break; /* compacted */
    case 3:
        header[1] = ~0UL, header[2] = ~0UL;
        break;
    /* no magic: no extended state */
    case 4:
        *(uint32_t *)(state + 464) = 0;
        break;
    case 5:
        *(uint32_t *)(state + 468) = 1 << 20;
        break; /* its size */
    case 6:
        *(uint64_t *)(state + 472) = ~0UL;
        break; /* its parts */
    case 7:
        u->uc_mcontext.fpregs = (void *)(state + 1);
        break; /* not aligned */
    /* not there, or only its begin */
    case 8:
        u->uc_mcontext.fpregs = (void *)0x7fffffffe000;
        break;
    case 9:
        u->uc_mcontext.fpregs = (void *)0xffff800000000000;
        break; /* the kernel's */
    case 10:
        u->uc_mcontext.fpregs = (void *)0x8000000000000000;
        break;
    case 11:
        u->uc_mcontext.fpregs = mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + PAGE - 512;
        break;
    default:
        memset(state, 0xff, 512 + 64);
    }
}

/* Vector state in a frame that no processor would load: the program's own end, or nothing. */
static void group_vectors(void)
{
    for (spoil = 0; spoil < 13; spoil++) {
        pid_t child = fork();
        if (child == 0) {
            struct sigaction action = {.sa_sigaction = spoil_vectors, .sa_flags = SA_SIGINFO};
            sigaction(SIGUSR1, &action, 0);
            volatile double x = 3;
            raise(SIGUSR1);
            x *= 2;
            _exit(0);
        }
        int status = status_of(child);
        check(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) ||
                  (WIFSIGNALED(status) && WTERMSIG(status) == SIGFPE),
              "a spoiled frame is its maker's end, or harmless");
    }
}

static char long_words[8][3000];
static char *words[12];

static void *flap(void *unused)
{
    for (unsigned i = 0; !stop; i++) {
        long_words[i % 8][i % 2999] = i & 64 ? 0 : 'w';
        words[1 + i % 8] = i & 512 ? 0 : i & 32 ? long_words[i % 8] : (char *)8;
    }
    return unused;
}

/* Arguments that others change while exec counts and copies them. */
static void group_arguments(void)
{
    int wrong = 0;
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            memset(long_words, 'w', sizeof long_words);
            for (int j = 0; j < 8; j++)
                words[1 + j] = long_words[j], long_words[j][2999] = 0;
            words[0] = "true";
            stop = 0;
            pthread_create(&thread, 0, flap, 0);
            for (int tries = 0; tries < 20; tries++)
                execv("/bin/true", words);
            _exit(0);
        }
        wrong += status_of(child) != 0;
    }
    equal(wrong, 0, "the program starts, or the call is refused");
}

static uint32_t *word;

static void *wait_there(void *unused)
{
    sleeper_tid = syscall(SYS_gettid);
    slept = syscall(SYS_futex, word, 0 /* WAIT */, 0, 0, 0, 0);
    return unused;
}

/* A waiter on a file's page that is cut off meanwhile: it can be woken, by a process that has the page's
 * place in the file again. */
static void group_cut(void)
{
    int fd = syscall(SYS_memfd_create, "f", 0);
    pthread_t thread;
    (void)!ftruncate(fd, PAGE);
    word = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sleeper_tid = 0;
    if (pthread_create(&thread, 0, wait_there, 0))
        check(0, "thread");
    until_it_sleeps();
    (void)!ftruncate(fd, 0);
    fails(syscall(SYS_futex, word, 1, 1, 0, 0, 0), EFAULT, "there is no page to wake somebody on");
    (void)!ftruncate(fd, PAGE);
    equal(*word, 0, "a new one is all zeros");
    equal(syscall(SYS_futex, word, 1, 1, 0, 0, 0), 1, "who waits at its place is woken");
    pthread_join(thread, 0);
    equal(slept, 0, "and knows");
    munmap(word, PAGE);
    close(fd);
}

static const struct group groups[] = {
    {"chown", group_chown},       {"takeover", group_takeover},   {"zeros", group_zeros},
    {"readonly", group_readonly}, {"sleeper", group_sleeper},     {"moving", group_moving},
    {"vectors", group_vectors},   {"arguments", group_arguments}, {"cut", group_cut},
};

int main(int argc, char **argv)
{
    if ((mkdir("/tmp/adverse", 0755) && errno != EEXIST) || chdir("/tmp/adverse"))
        return 2;
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
