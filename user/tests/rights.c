/* Rights over others: tracing, steering and looking at processes with more rights, and what set-id bits are
 * worth. Started as user 0; most of it is tried as user 1000. Passes on Linux and must pass here; the native
 * calls are tried here only.
 *
 * Interface: rights [GROUP…]; TAP on standard output. `rights as WHAT` is the program with set-id bits that
 * the tests execute.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "synthesis.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

int setgroups(size_t count, const gid_t *groups); /* <grp.h> has a struct group of its own */

enum { USER = 1000, OTHER_GROUP = 50, ROOT = 10, PLAIN = 11, SECURE = 4 };

#define DIRECTORY "/tmp/rights"
#define SUID DIRECTORY "/suid"
#define SGID DIRECTORY "/sgid"
#define NO_GROUP DIRECTORY "/no-group"
#define COPY DIRECTORY "/copy"
#define UNREADABLE DIRECTORY "/unreadable"

static int here; /* on Synthesis */

/* Far from everything else, so that nobody touches it before. */
__asm__(".text\n .skip 400000, 0x90\n .balign 4096\n .globl far_away\n far_away: movl $17, %eax\n ret\n "
        ".skip 400000, 0x90");
int far_away(void);

static int shed(const char *what);

/* The program with set-id bits: tells by its exit status what it is, or waits to be looked at. */
static int as(const char *what)
{
    if (strcmp(what, "who") == 0)
        return (geteuid() == 0 || getegid() == 0 ? ROOT : PLAIN) | (getauxval(AT_SECURE) ? SECURE << 4 : 0);
    if (strcmp(what, "another") == 0)
        return getuid() != 1234 || geteuid() != 1234 || getgid() != 0;
    if (strcmp(what, "dies") == 0) {
        int signal = -1;
        prctl(PR_GET_PDEATHSIG, &signal);
        return signal;
    }
    if (strcmp(what, "dumpable") == 0)
        return prctl(PR_GET_DUMPABLE);
    if (strcmp(what, "stack") == 0) {
        struct rlimit limit;
        getrlimit(RLIMIT_STACK, &limit);
        return limit.rlim_cur == 8 << 20 ? 8 : 9;
    }
    if (strncmp(what, "says ", 5) == 0)
        return write(2, what + 5, strlen(what + 5)) < 0 ? errno : 0;
    if (strcmp(what, "calls") == 0) {
        char c;
        if (write(3, "c", 1) != 1 || read(4, &c, 1) != 1)
            return 1;
        return far_away();
    }
    if (strcmp(what, "waits") == 0) {
        if (write(3, "w", 1) != 1)
            return 1;
        for (;;)
            pause();
    }
    return shed(what);
}

static void install(const char *path, int mode, int uid, int gid)
{
    int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    off_t size = lseek(from, 0, SEEK_END);
    lseek(from, 0, SEEK_SET);
    while (size > 0) {
        ssize_t count = sendfile(to, from, NULL, size);
        if (count <= 0)
            break;
        size -= count;
    }
    fchown(to, uid, gid);
    fchmod(to, mode);
    close(from);
    close(to);
    if (size)
        check(0, path);
}

static void become_user(void)
{
    if (setgroups(0, NULL) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
        _exit(99);
    prctl(PR_SET_DUMPABLE, 1);
}

static int mode_of(const char *path)
{
    struct stat s;
    return stat(path, &s) ? -1 : (int)(s.st_mode & 07777);
}

static const char *of(pid_t pid, const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return path;
}

static int code_of(pid_t child)
{
    int status = status_of(child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
}

/* Runs `body` in a child as user 1000; its checks count here. */
static void as_user(void (*body)(void))
{
    int told[2];
    fflush(stdout);
    if (pipe(told)) {
        check(0, "a pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        become_user();
        body();
        int counts[2] = {tap_count, tap_failed};
        fflush(stdout);
        _exit(write(told[1], counts, sizeof counts) != sizeof counts);
    }
    close(told[1]);
    int counts[2];
    if (read(told[0], counts, sizeof counts) == sizeof counts) {
        tap_count = counts[0];
        tap_failed = counts[1];
    } else {
        check(0, "the user's part ran to its end");
    }
    close(told[0]);
    status_of(child);
}

static void run(const char *path, const char *what)
{
    execl(path, path, "as", what, (char *)NULL);
    _exit(98);
}

/* A child that executes `path` and has arrived there. */
static pid_t waiting(const char *path)
{
    int ready[2];
    char c;
    if (pipe(ready))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ready[1], 3);
        run(path, "waits");
    }
    close(ready[1]);
    if (read(ready[0], &c, 1) != 1)
        check(0, "the program with more rights runs");
    close(ready[0]);
    return child;
}

static void finish(pid_t child)
{
    kill(child, SIGKILL);
    status_of(child);
}

static pid_t running(const char *path)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        run(path, "who");
    return child;
}

/* -- exec ------------------------------------------------------------------------------------------------ */

static pid_t traced_exec(const char *path, const char *what)
{
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        run(path, what);
    }
    int status = status_of(child);
    check(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "a traced child stops at exec");
    return child;
}

static void exec_traced(void)
{
    const int secure = SECURE << 4;
    equal(code_of(running(COPY)), PLAIN, "a program without set-id bits");
    equal(code_of(running(SUID)), ROOT | secure, "a set-uid program has its owner's rights");
    equal(code_of(running(SGID)), ROOT | secure, "a set-gid program has its group's rights");
    equal(code_of(running(NO_GROUP)), PLAIN, "without execution for the group the bit is none");
    const char *paths[] = {SUID, SGID};
    for (int i = 0; i < 2; i++) {
        pid_t child = traced_exec(paths[i], "who");
        struct user_regs_struct r;
        equal(ptrace(PTRACE_GETREGS, child, 0, &r), 0, "whose registers its tracer sees");
        equal(ptrace(PTRACE_SETREGS, child, 0, &r), 0, "and changes");
        ptrace(PTRACE_CONT, child, 0, 0);
        equal(code_of(child) & ~secure, PLAIN, "but it gets no rights");
    }
    pid_t child = traced_exec(COPY, "who");
    ptrace(PTRACE_DETACH, child, 0, 0);
    equal(code_of(child), PLAIN, "a traced child without set-id bits goes on");
}

static void exec_traced_unreadable(void)
{
    pid_t child = traced_exec(UNREADABLE, "dumpable");
    struct user_regs_struct r;
    ptrace(PTRACE_GETREGS, child, 0, &r);
    errno = 0;
    ptrace(PTRACE_PEEKDATA, child, r.rsp, 0);
    equal(errno, EIO, "what cannot be read cannot be read by its tracer");
    ptrace(PTRACE_CONT, child, 0, 0);
    equal(code_of(child), 0, "it is not dumpable");
}

/* A tracer with rights changes nothing. */
static void exec_traced_by_root(void)
{
    int go[2];
    char c;
    if (pipe(go)) {
        check(0, "a pipe");
        return;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        become_user();
        if (read(go[0], &c, 1) != 1)
            _exit(97);
        run(SUID, "who");
    }
    equal(ptrace(PTRACE_SEIZE, child, 0, 0), 0, "root traces");
    write(go[1], "g", 1);
    int code = code_of(child);
    equal(code, ROOT | SECURE << 4, "a set-uid program that root traces has its rights");
    close(go[0]);
    close(go[1]);
}

static void no_new_rights(void)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        run(SUID, "who");
    }
    equal(code_of(child) & ~(SECURE << 4), PLAIN, "none with no_new_privs");
    child = fork();
    if (child == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (fork() == 0)
            _exit(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
        int status;
        wait(&status);
        _exit(WEXITSTATUS(status));
    }
    equal(code_of(child), 1, "which children inherit");
    fails(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), EINVAL, "it cannot be taken back");
    fails(prctl(PR_SET_NO_NEW_PRIVS, 1, 1, 0, 0), EINVAL, "and has no other arguments");
    fails(prctl(PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0), EINVAL, "nor has its question");
}

#define LENT DIRECTORY "/lent"

/* A set-uid program that its caller may write, which is a mistake, but not one that gives the caller its
 * rights. */
static void rewritten(void)
{
    int ready[2], go[2];
    char c;
    if (pipe(ready) || pipe(go)) {
        check(0, "a pipe");
        return;
    }
    int from = open(COPY, O_RDONLY);
    off_t size = lseek(from, 0, SEEK_END);
    char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, from, 0);
    char wanted[] = "\xb8\x11\0\0\0\xc3";
    char *place = memmem(bytes, size, wanted, 6);
    check(bytes != MAP_FAILED && place, "what it is going to do");
    pid_t child = fork();
    if (child == 0) {
        dup2(ready[1], 30);
        dup2(go[0], 4);
        dup2(30, 3);
        run(LENT, "calls");
    }
    close(ready[1]);
    equal(read(ready[0], &c, 1), 1, "a set-uid program that others may write");
    int to = open(LENT, O_WRONLY);
    check(to >= 0 || errno == ETXTBSY, "is written while it runs, or cannot be");
    if (to >= 0) {
        place[1] = 66;
        equal(pwrite(to, place, 6, place - bytes), 6, "other code");
        equal(mode_of(LENT), 0777, "takes the bits away");
        close(to);
    }
    write(go[1], "g", 1);
    equal(code_of(child), 17, "and does what it did");
    close(ready[0]);
    close(go[0]);
    close(go[1]);
    close(from);
}

static void secure_stack(void)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit;
        getrlimit(RLIMIT_STACK, &limit);
        limit.rlim_cur = 16 << 20;
        if (setrlimit(RLIMIT_STACK, &limit))
            _exit(99);
        run(SUID, "stack");
    }
    equal(code_of(child), 8, "a set-uid program's stack is not its caller's to choose");
}

static int directories(void *go)
{
    char c;
    int *ends = go;
    close(ends[1]);
    return read(ends[0], &c, 1) != 0;
}

static char stack[65536] __attribute__((aligned(16)));

/* The program would take the directory it trusts from another process that shares it. */
static void shared_directories(void)
{
    int go[2], told[2];
    if (pipe(go) || pipe(told)) {
        check(0, "a pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        pid_t sharer = clone(directories, stack + sizeof stack, CLONE_FS | SIGCHLD, go);
        write(told[1], &sharer, sizeof sharer);
        fcntl(go[1], F_SETFD, FD_CLOEXEC);
        run(SUID, "who");
    }
    pid_t sharer = 0;
    read(told[0], &sharer, sizeof sharer);
    equal(code_of(child) & ~(SECURE << 4), PLAIN,
          "none for who shares root and directory with another process");
    close(go[1]);
    child = fork();
    if (child == 0) {
        int ends[2];
        if (pipe(ends))
            _exit(97);
        pid_t sharer = clone(directories, stack + sizeof stack, CLONE_FS | SIGCHLD, ends);
        close(ends[1]);
        status_of(sharer);
        run(SUID, "who");
    }
    equal(code_of(child), ROOT | SECURE << 4, "them, when the other has gone");
    close(go[0]);
    close(told[0]);
    close(told[1]);
}

static void death_signal(void)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGUSR1);
        run(COPY, "dies");
    }
    equal(code_of(child), SIGUSR1, "exec keeps the signal of the parent's death");
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGUSR1);
        run(SUID, "dies");
    }
    equal(code_of(child), 0, "that of a set-uid program does not");
}

static void death_signal_of_root(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int signal = -1;
        prctl(PR_SET_PDEATHSIG, SIGUSR1);
        setresuid(-1, USER, -1);
        prctl(PR_GET_PDEATHSIG, &signal);
        _exit(signal);
    }
    equal(code_of(child), 0, "nor does a change of user");
}

#include "rights-tracing.h"
#include "rights-looking.h"
#include "rights-set-id.h"
#include "rights-shedding.h"
#include "rights-deputies.h"
#include "rights-threads.h"

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"exec", exec_group}, {"shedding", shedding_group}, {"trace", trace_group}, {"steer", steer_group},
        {"look", look_group},   {"bits", bits_group},   {"credentials", credentials_group},
        {"deputies", deputies_group}, {"threads", threads_group},
        {"scope", scope_group}, /* the last: nobody traces for ever */
    };
    if (argc == 3 && strcmp(argv[1], "as") == 0)
        return as(argv[2]);
    here = syn_handle(0) > 0;
    umask(022);
    mkdir(DIRECTORY, 0755);
    chmod(DIRECTORY, 0755);
    install(SUID, 04755, 0, 0);
    install(SGID, 02755, 0, 0);
    install(NO_GROUP, 02745, 0, 0);
    install(COPY, 0755, 0, 0);
    install(UNREADABLE, 0711, 0, 0);
    run_groups(GROUPS(groups), NULL, argc, argv);
    return done();
}
