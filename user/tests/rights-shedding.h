/* Leftovers that a program, or only one with more rights, does not inherit: a part of `rights`.
 *
 * Interface: shedding_group; shed(what) is what a program with set-id bits tells of it.
 */
#ifndef RIGHTS_SHEDDING_H
#define RIGHTS_SHEDDING_H
#include <linux/membarrier.h>
#include <sys/personality.h>
#include <sys/time.h>
#include <time.h>

enum { NOTHING = 77 };
#define FLAGS (ADDR_NO_RANDOMIZE | MMAP_PAGE_ZERO | ADDR_COMPAT_LAYOUT | READ_IMPLIES_EXEC | UNAME26)
/* The flags in a byte of the exit status. */
#define TOLD(flags) ((flags) >> 16 & 0xff)

static int shed(const char *what)
{
    if (strcmp(what, "personality") == 0)
        return TOLD(personality(0xffffffff));
    if (strcmp(what, "place") == 0) {
        int here = 0;
        uintptr_t place = (uintptr_t)&here;
        return write(3, &place, sizeof place) != sizeof place;
    }
    if (strcmp(what, "barrier") == 0)
        return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 ? NOTHING : errno;
    if (strcmp(what, "pending") == 0) {
        sigset_t set;
        sigpending(&set);
        return sigismember(&set, SIGUSR1) | sigismember(&set, SIGALRM) << 1;
    }
    return 2;
}

/* The flags that a program of `path` begins with when its caller had all of them. */
static int flags_in(const char *path, int no_new_rights)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        personality(FLAGS);
        if (no_new_rights)
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        run(path, "personality");
    }
    return code_of(child);
}

/* Where the stack of a program without randomization is. */
static uintptr_t place_in(const char *path)
{
    int ends[2];
    uintptr_t place = 0;
    if (pipe(ends))
        return 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        personality(ADDR_NO_RANDOMIZE);
        dup2(ends[1], 3);
        run(path, "place");
    }
    close(ends[1]);
    if (read(ends[0], &place, sizeof place) != sizeof place)
        place = 0;
    close(ends[0]);
    status_of(child);
    return place;
}

static int differ(const char *path)
{
    uintptr_t first = place_in(path);
    for (int i = 0; i < 4; i++)
        if (place_in(path) != first)
            return 1;
    return 0;
}

static void personalities(void)
{
    const int kept = FLAGS & ~READ_IMPLIES_EXEC;
    equal(flags_in(COPY, 0), TOLD(kept), "a program keeps flags of the personality, but for one");
    equal(flags_in(NO_GROUP, 0), TOLD(kept), "so does one whose bit counts for nothing");
    equal(flags_in(SUID, 0), TOLD(UNAME26), "a set-uid program begins without the dangerous ones");
    equal(flags_in(SGID, 0), TOLD(UNAME26), "so does a set-gid program");
    equal(flags_in(SUID, 1), TOLD(kept), "one that gets no rights keeps them");
    pid_t child = fork();
    if (child == 0) {
        personality(FLAGS);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        run(SUID, "personality");
    }
    status_of(child);
    ptrace(PTRACE_CONT, child, 0, 0);
    equal(code_of(child), TOLD(UNAME26), "one that gets none because it is traced does not");
    check(place_in(COPY) != 0 && !differ(COPY), "without randomization the stack is always there");
    check(differ(SUID), "but not a set-uid program's");
}

static void leftovers(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
        run(COPY, "barrier");
    }
    equal(code_of(child), EPERM, "a barrier that the program before has registered for");
    child = fork();
    if (child == 0) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec soon = {.it_value.tv_nsec = 1};
        struct itimerval real = {.it_value.tv_usec = 1};
        timer_t timer;
        sigset_t both, set;
        sigemptyset(&both);
        sigaddset(&both, SIGUSR1);
        sigaddset(&both, SIGALRM);
        sigprocmask(SIG_BLOCK, &both, 0);
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        timer_settime(timer, 0, &soon, 0);
        setitimer(ITIMER_REAL, &real, 0);
        do
            sigpending(&set);
        while (!sigismember(&set, SIGUSR1) || !sigismember(&set, SIGALRM));
        run(COPY, "pending");
    }
    equal(code_of(child), 2, "a signal of a timer that is gone is, too; that of one that stays is not");
}

#define CLOSING 1000

/* Somebody of the same user looks for a descriptor that a program which must not be looked into has, and that
 * closes when it executes one that may. */
static void closed_first(void)
{
    int rounds = repeats(40), seen = 0, secret = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct rlimit limit = {CLOSING + 64, CLOSING + 64};
    for (int i = 0; i < rounds; i++) {
        int ready[2], go[2];
        char c, path[64], target[8];
        if (pipe2(ready, O_CLOEXEC) || pipe2(go, O_CLOEXEC))
            break;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            setrlimit(RLIMIT_NOFILE, &limit);
            for (int fd = 0; fd < CLOSING; fd++)
                fcntl(secret, F_DUPFD_CLOEXEC, 20);
            if (setgroups(0, NULL) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
                _exit(99);
            if (write(ready[1], "r", 1) != 1 || read(go[0], &c, 1) != 1)
                _exit(97);
            dup2(ready[1], 3);
            run(COPY, "waits");
        }
        if (read(ready[0], &c, 1) != 1)
            check(0, "a program with many descriptors");
        fflush(stdout);
        pid_t other = fork();
        if (other == 0) {
            become_user();
            snprintf(path, sizeof path, "/proc/%d/fd/%d", child, CLOSING);
            if (readlink(path, target, sizeof target) >= 0 || write(go[1], "g", 1) != 1)
                _exit(2);
            for (;;)
                if (readlink(path, target, sizeof target) >= 0)
                    _exit(1);
                else if (errno == ENOENT)
                    _exit(0);
        }
        seen += code_of(other) != 0;
        finish(child);
        close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
    }
    equal(seen, 0, "no descriptor is seen that closes by exec");
    close(secret);
}

static void shedding_group(void)
{
    as_user(personalities);
    as_user(leftovers);
    closed_first();
}
#endif
