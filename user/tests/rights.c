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

/* The program with set-id bits: tells by its exit status what it is, or waits to be looked at. */
static int as(const char *what)
{
    if (strcmp(what, "who") == 0)
        return (geteuid() == 0 || getegid() == 0 ? ROOT : PLAIN) | (getauxval(AT_SECURE) ? SECURE << 4 : 0);
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
    return 2;
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

/* -- tracing --------------------------------------------------------------------------------------------- */

static void nobody_traces(pid_t child, const char *whom)
{
    char name[128];
    snprintf(name, sizeof name, "attach to %s", whom);
    fails(ptrace(PTRACE_ATTACH, child, 0, 0), EPERM, name);
    snprintf(name, sizeof name, "seize %s", whom);
    fails(ptrace(PTRACE_SEIZE, child, 0, 0), EPERM, name);
}

static void tracing(void)
{
    pid_t child = waiting(SUID);
    nobody_traces(child, "a set-uid program");
    finish(child);
    child = waiting(SGID);
    nobody_traces(child, "a set-gid program");
    finish(child);
    child = waiting(UNREADABLE);
    nobody_traces(child, "a program that cannot be read");
    finish(child);
    child = waiting(COPY);
    equal(ptrace(PTRACE_SEIZE, child, 0, 0), 0, "an ordinary program is traced");
    finish(child);
    nobody_traces(getpid(), "oneself");
    nobody_traces(getppid(), "root's process");
}

/* In either order, the tracer of a child that executes a set-uid program has it without the rights, or has
 * it not. */
static void attach_against_exec(void)
{
    int rounds = here ? 150 : 500, stolen = 0, seized = 0, odd = 0;
    for (int i = 0; i < rounds; i++) {
        pid_t child = fork();
        if (child == 0)
            run(SUID, "who");
        int got = 0;
        for (int tries = 0; tries < 1 + i % 40 && !got; tries++)
            got = ptrace(PTRACE_SEIZE, child, 0, 0) == 0;
        seized += got;
        int code = code_of(child) & ~(SECURE << 4);
        stolen += got && code != PLAIN;
        odd += code != PLAIN && code != ROOT;
    }
    printf("# %d of %d were traced\n", seized, rounds);
    equal(stolen, 0, "nobody traced gets rights");
    equal(odd, 0, "and all end as they should");
}

enum { RAN_PLAIN = 67, RAN_AS_ROOT = 66 };
static void intruder(void) { _exit(geteuid() == 0 ? RAN_AS_ROOT : RAN_PLAIN); }

/* The program is the same one, at the same addresses: what was sent to the old one would run in the new
 * one. */
static void procedure_against_exec(void)
{
    int sent = 0, stolen = 0, went = 0;
    if (!here)
        return;
    for (int i = 0; i < 200; i++) {
        int ready[2];
        char c;
        if (pipe(ready)) {
            check(0, "a pipe");
            return;
        }
        pid_t child = fork();
        if (child == 0) {
            write(ready[1], "r", 1);
            run(SUID, "who");
        }
        read(ready[0], &c, 1);
        close(ready[0]);
        close(ready[1]);
        syn_thread thread = syn_handle(child);
        long result = -EPERM;
        for (int tries = 0; tries < 1 + i % 20; tries++) {
            syn_setsignal(thread, 3, intruder);
            result = syn_interrupt(thread, intruder);
            sent += result == 0;
        }
        int code = code_of(child);
        stolen += code == RAN_AS_ROOT;
        went += code == RAN_PLAIN;
    }
    printf("# %d sent, %d ran\n", sent, went);
    equal(stolen, 0, "no procedure runs in a program with more rights");
}

/* -- the scope ------------------------------------------------------------------------------------------- */

#define SCOPE "/proc/sys/kernel/yama/ptrace_scope"

static int set_scope(char scope)
{
    int fd = open(SCOPE, O_WRONLY);
    int good = fd >= 0 && write(fd, &scope, 1) == 1;
    int error = errno;
    close(fd);
    errno = error;
    return good ? 0 : -1;
}

static pid_t sibling;

/* A process of user 1000 that is no descendant of who looks at it: `whom` may trace it. */
static pid_t make_sibling(long whom)
{
    int ready[2];
    char c;
    if (pipe(ready))
        return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        become_user();
        if (whom)
            prctl(PR_SET_PTRACER, whom);
        write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    read(ready[0], &c, 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void scope_of_one(void)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    equal(ptrace(PTRACE_SEIZE, child, 0, 0), 0, "scope 1: one's own child");
    finish(child);
    fails(ptrace(PTRACE_SEIZE, sibling, 0, 0), EPERM, "no other process");
    fails(set_scope('0'), EACCES, "nor another scope");
    fails(prctl(PR_SET_PTRACER, 0x3fffffff), EINVAL, "nobody lets itself be traced by who is not");
    check(access(of(sibling, "maps"), R_OK) == 0 && open(of(sibling, "maps"), O_RDONLY) >= 0,
          "to look is no matter of scope");
}
static void scope_allowed(void)
{
    equal(ptrace(PTRACE_SEIZE, sibling, 0, 0), 0, "scope 1: one that lets us");
}
static void scope_of_two(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(ptrace(PTRACE_TRACEME, 0, 0, 0) == -1 && errno == EPERM);
    equal(code_of(child), 1, "scope 2: nor by asking for it");
    child = fork();
    if (child == 0)
        for (;;)
            pause();
    fails(ptrace(PTRACE_SEIZE, child, 0, 0), EPERM, "not even a child");
    finish(child);
}

static void scope_group(void)
{
    if (access(SCOPE, F_OK))
        return;
    equal(set_scope('1'), 0, "scope 1");
    sibling = make_sibling(0);
    as_user(scope_of_one);
    equal(ptrace(PTRACE_SEIZE, sibling, 0, 0), 0, "root traces everybody");
    finish(sibling);
    sibling = make_sibling(-1);
    as_user(scope_allowed);
    finish(sibling);
    sibling = make_sibling(getpid());
    as_user(scope_allowed);
    finish(sibling);
    equal(set_scope('2'), 0, "scope 2");
    as_user(scope_of_two);
    fails(set_scope('4'), EINVAL, "there is no scope 4");
    equal(set_scope('0'), 0, "and back");
    if (!here)
        return;
    equal(set_scope('3'), 0, "scope 3");
    sibling = make_sibling(0);
    fails(ptrace(PTRACE_SEIZE, sibling, 0, 0), EPERM, "nobody traces");
    finish(sibling);
    fails(set_scope('0'), EINVAL, "for ever");
}

/* A child of root's that has become user 1000 by itself, and `further`. */
static pid_t dropped(int how)
{
    int ready[2];
    char c;
    if (pipe(ready))
        return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (setgroups(0, NULL) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
            _exit(99);
        if (how == 1)
            prctl(PR_SET_DUMPABLE, 1);
        if (how == 2) {
            dup2(ready[1], 3);
            run(COPY, "waits");
        }
        write(ready[1], "r", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    read(ready[0], &c, 1);
    close(ready[0]);
    return child;
}

static pid_t the_dropped;
static void trace_dropped(void) { nobody_traces(the_dropped, "a process that was root"); }
static void trace_allowed(void)
{
    equal(ptrace(PTRACE_SEIZE, the_dropped, 0, 0), 0, "one that lets itself, or is another program by now");
}

static void was_root(void)
{
    the_dropped = dropped(0);
    as_user(trace_dropped);
    finish(the_dropped);
    for (int how = 1; how <= 2; how++) {
        the_dropped = dropped(how);
        as_user(trace_allowed);
        finish(the_dropped);
    }
}

static void dumpable(void)
{
    equal(prctl(PR_GET_DUMPABLE), 1, "dumpable");
    fails(prctl(PR_SET_DUMPABLE, 2), EINVAL, "2 is not for programs");
    fails(prctl(PR_SET_DUMPABLE, 3), EINVAL, "nor is 3");
    int ready[2];
    char c;
    if (pipe(ready)) {
        check(0, "a pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_DUMPABLE, 0);
        pid_t further = fork();
        if (further == 0)
            _exit(prctl(PR_GET_DUMPABLE));
        write(ready[1], code_of(further) == 0 ? "i" : "n", 1);
        for (;;)
            pause();
    }
    equal(read(ready[0], &c, 1), 1, "a child that does not want to be seen");
    equal(c, 'i', "its child neither");
    nobody_traces(child, "it");
    finish(child);
    close(ready[0]);
    close(ready[1]);
}
/* -- steering and looking -------------------------------------------------------------------------------- */

static void procedure(void) {}

static void native(void)
{
    if (!here)
        return;
    const char *paths[] = {SUID, SGID, UNREADABLE};
    for (int i = 0; i < 3; i++) {
        pid_t child = waiting(paths[i]);
        syn_thread thread = syn_handle(child);
        equal(syn_interrupt(thread, procedure), -EPERM, "no interrupt for a program with more rights");
        equal(syn_setsignal(thread, 0, procedure), -EPERM, "no procedure");
        equal(syn_signal(thread, 0), -EPERM, "no signal");
        equal(syn_suspend(thread), -EPERM, "no suspension");
        equal(syn_resume(thread), -EPERM, "no resumption");
        equal(syn_stop(thread), -EPERM, "no stop");
        equal(syn_step(thread), -EPERM, "no step");
        equal(syn_notify(thread, 0), -EPERM, "no event");
        equal(syn_destroy(thread), -EPERM, "no end");
        equal(kill(child, 0), 0, "it lives");
        finish(child);
    }
    pid_t child = waiting(COPY);
    equal(syn_destroy(syn_handle(child)), 0, "all that for an ordinary program");
    check(WIFSIGNALED(status_of(child)), "which ends");
}

static void limits(void)
{
    struct rlimit new = {1, 1}, old;
    pid_t child = waiting(SUID);
    fails(prlimit(child, RLIMIT_NOFILE, &new, NULL), EPERM, "no limits for a set-uid program");
    fails(prlimit(child, RLIMIT_NOFILE, NULL, &old), EPERM, "nor a look at them");
    finish(child);
    child = waiting(SGID);
    fails(prlimit(child, RLIMIT_NOFILE, &new, NULL), EPERM, "no limits for a set-gid program");
    finish(child);
    child = waiting(COPY);
    equal(prlimit(child, RLIMIT_NOFILE, &new, &old), 0, "an ordinary program has them");
    finish(child);
}

static void robust_list(void)
{
    void *head;
    size_t length;
    pid_t child = waiting(SUID);
    fails(syscall(SYS_get_robust_list, child, &head, &length), EPERM, "the robust list of a set-uid program");
    finish(child);
    child = waiting(SGID);
    fails(syscall(SYS_get_robust_list, child, &head, &length), EPERM, "of a set-gid program");
    finish(child);
    child = waiting(COPY);
    equal(syscall(SYS_get_robust_list, child, &head, &length), 0, "of an ordinary one");
    finish(child);
}

static void niceness(void)
{
    pid_t child = waiting(SGID);
    equal(setpriority(PRIO_PROCESS, child, 5), 0, "the real user's programs may become nicer");
    finish(child);
    child = waiting(SUID);
    fails(setpriority(PRIO_PROCESS, child, 5), EPERM, "those with more capabilities not");
    finish(child);
    fails(setpriority(PRIO_PROCESS, getppid(), 5), EPERM, "others not");
    fails(setpriority(PRIO_PROCESS, 0, -5), EACCES, "nobody less nice");
    struct sched_param none = {0};
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    fails(sched_setscheduler(getppid(), SCHED_BATCH, &none), EPERM, "no policy for others");
    fails(sched_setaffinity(getppid(), sizeof all, &all), EPERM, "nor processors");
    equal(sched_setaffinity(0, sizeof all, &all), 0, "for oneself");
}

static const char *LINKS[] = {"exe", "cwd", "root", "fd/0"};
static const char *TEXTS[] = {"maps", "environ", "fdinfo/0"};

static void looking(void)
{
    const char *paths[] = {SUID, SGID, UNREADABLE};
    char text[256];
    for (int i = 0; i < 3; i++) {
        pid_t child = waiting(paths[i]);
        for (size_t j = 0; j < sizeof LINKS / sizeof *LINKS; j++) {
            fails(readlink(of(child, LINKS[j]), text, sizeof text), EACCES, LINKS[j]);
            fails(open(of(child, LINKS[j]), O_RDONLY), EACCES, LINKS[j]);
        }
        for (size_t j = 0; j < sizeof TEXTS / sizeof *TEXTS; j++)
            fails(open(of(child, TEXTS[j]), O_RDONLY), EACCES, TEXTS[j]);
        fails(open(of(child, "fd"), O_RDONLY | O_DIRECTORY), EACCES, "fd");
        int status = open(of(child, "status"), O_RDONLY);
        check(status >= 0 && read(status, text, sizeof text) > 0, "its status is everybody's");
        close(status);
        finish(child);
    }
    pid_t child = waiting(COPY);
    for (size_t j = 0; j < sizeof LINKS / sizeof *LINKS; j++)
        check(readlink(of(child, LINKS[j]), text, sizeof text) > 0, LINKS[j]);
    for (size_t j = 0; j < sizeof TEXTS / sizeof *TEXTS; j++) {
        int fd = open(of(child, TEXTS[j]), O_RDONLY);
        check(fd >= 0, TEXTS[j]);
        close(fd);
    }
    finish(child);
}

static int stays(void *nothing)
{
    (void)nothing;
    for (;;)
        pause();
}

/* A file opened before a program gets rights shows nothing of it thereafter, also where another process
 * keeps the memory of before. */
static void looked_before(int kept)
{
    int go[2], ready[2];
    char text[4096], c;
    static char stack[16384];
    if (pipe(go) || pipe(ready)) {
        check(0, "a pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        pid_t companion = kept ? clone(stays, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL) : 0;
        write(ready[1], &companion, sizeof companion);
        if (read(go[0], &c, 1) != 1)
            _exit(1);
        dup2(ready[1], 3);
        setenv("FROM_NOW_ON", "secret", 1);
        run(SUID, "waits");
    }
    pid_t companion = -1;
    read(ready[0], &companion, sizeof companion);
    check(kept ? companion > 0 : companion == 0, kept ? "who shares its memory" : "a child alone");
    int maps = open(of(child, "maps"), O_RDONLY), environ = open(of(child, "environ"), O_RDONLY);
    int info = open(of(child, "fdinfo/3"), O_RDONLY);
    check(maps >= 0 && environ >= 0, "one's own child is seen");
    write(go[1], "g", 1);
    read(ready[0], &c, 1);
    memset(text, 0, sizeof text);
    read(maps, text, sizeof text - 1);
    check(strstr(text, SUID) == NULL && (kept || strstr(text, "[stack]") == NULL), "not what it has become");
    memset(text, 0, sizeof text);
    equal(pread(maps, text, sizeof text - 1, 0) > 0 && strstr(text, SUID) != NULL, 0, "nor from the start");
    memset(text, 0, sizeof text);
    ssize_t length = read(environ, text, sizeof text - 1);
    check((kept || length <= 0) && !memmem(text, sizeof text, "FROM_NOW_ON", 11), "nor its environment");
    if (companion > 0)
        kill(companion, SIGKILL);
    finish(child);
    close(maps);
    close(environ);
    close(info);
    close(go[0]);
    close(go[1]);
    close(ready[0]);
    close(ready[1]);
}

static void looked_before_alone(void) { looked_before(0); }
static void looked_before_kept(void) { looked_before(1); }

static void own(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    char text[64];
    check(open("/proc/self/maps", O_RDONLY) >= 0, "one's own maps, even if not dumpable");
    check(readlink("/proc/self/exe", text, sizeof text) > 0, "one's own program");
    DIR *list = opendir("/proc/self/fd");
    check(list != NULL, "one's own descriptors");
    int count = 0;
    while (list && readdir(list))
        count++;
    check(count > 4, "are listed");
    check(readlink("/proc/self/fd/1", text, sizeof text) > 0, "and lead somewhere");
    prctl(PR_SET_DUMPABLE, 1);
}

/* -- set-id bits ----------------------------------------------------------------------------------------- */

#define FILE_NAME DIRECTORY "/file"

static int served(int *ends, int command)
{
    char c = command;
    return write(ends[1], &c, 1) == 1 && read(ends[0], &c, 1) == 1;
}

static int server[2];

/* Gives the file its bits back, by root. */
static int again(void) { return served(server, 's'); }

static void gone(int result, const char *how)
{
    check(result >= 0, how);
    equal(mode_of(FILE_NAME), 0777, "takes the bits away");
    again();
}

static void rewriting(void)
{
    char page[64] = "x";
    struct iovec part = {page, 2};
    int fd = open(FILE_NAME, O_RDWR), end = open(FILE_NAME, O_WRONLY | O_APPEND), copy = dup(fd);
    equal(mode_of(FILE_NAME), 06777, "a file with both bits");
    for (int i = 0; i < 8; i++)
        gone(pwrite(fd, page, 1, 0) == 1 ? 0 : -1, "pwrite");
    lseek(fd, 0, SEEK_SET);
    for (int i = 0; i < 8; i++)
        gone(write(fd, page, 1), "write of a byte");
    for (int i = 0; i < 8; i++)
        gone(write(fd, page, sizeof page), "write");
    /* Without the bits whatever is fastest is in place; with them it must not serve. */
    for (int i = 0; i < 64; i++) {
        write(fd, page, 1);
        write(end, page, 3);
    }
    again();
    gone(write(fd, page, 1), "write after many");
    gone(write(end, page, 1), "write at the end after many");
    gone(write(copy, page, 5), "write by a copy of the descriptor");
    pid_t child = fork();
    if (child == 0)
        _exit(write(fd, page, 1) != 1);
    gone(code_of(child) ? -1 : 0, "write by a child");
    for (int i = 0; i < 6; i++) {
        int once = open(FILE_NAME, O_WRONLY);
        gone(write(once, page, 1), "write of who has just opened it");
        close(once);
    }
    gone(writev(fd, &part, 1), "writev");
    gone(truncate(FILE_NAME, 5000), "truncate to more");
    gone(truncate(FILE_NAME, 4), "truncate to less");
    gone(ftruncate(fd, 60), "ftruncate");
    gone(fallocate(fd, 0, 0, 9000), "fallocate");
    int emptied = open(FILE_NAME, O_WRONLY | O_TRUNC);
    gone(emptied, "open with O_TRUNC");
    int zero = open(COPY, O_RDONLY);
    off_t start = 0;
    gone(sendfile(fd, zero, &start, 10), "sendfile");
    start = 0;
    gone(copy_file_range(zero, &start, fd, NULL, 10, 0), "copy_file_range");
    equal(read(fd, page, 0), 0, "reading");
    equal(mode_of(FILE_NAME), 06777, "leaves them");
    fails(pwrite(zero, page, 1, 0), EBADF, "a write that may not be");
    equal(mode_of(FILE_NAME), 06777, "leaves them, too");
    close(fd);
    close(end);
    close(copy);
    close(emptied);
    close(zero);
    if (here) {
        /* Linux lets a mapping write what it likes. */
        fd = open(FILE_NAME, O_RDWR);
        char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        gone(map == MAP_FAILED ? -1 : 0, "a shared mapping that can be written");
        close(fd);
    }
}

static void serve(int *ends)
{
    char c;
    while (read(ends[0], &c, 1) == 1) {
        if (c == 's')
            chmod(FILE_NAME, 06777);
        if (write(ends[1], &c, 1) != 1)
            break;
    }
}

static void bits(void)
{
    int there[2], back[2];
    int fd = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
    chmod(FILE_NAME, 06777);
    for (int i = 0; i < 3; i++) {
        equal(write(fd, "x", 1), 1, "root writes");
        equal(mode_of(FILE_NAME), 06777, "and the bits stay");
    }
    equal(ftruncate(fd, 4096), 0, "root makes it longer");
    equal(mode_of(FILE_NAME), 06777, "and the bits stay");
    if (pipe(there) || pipe(back)) {
        check(0, "a pipe");
        return;
    }
    fflush(stdout);
    pid_t root = fork();
    if (root == 0) {
        int ends[2] = {there[0], back[1]};
        close(there[1]);
        close(back[0]);
        serve(ends);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    server[0] = back[0];
    server[1] = there[1];
    as_user(rewriting);
    close(there[1]);
    close(back[0]);
    status_of(root);

    chmod(FILE_NAME, 06777);
    equal(chown(FILE_NAME, 0, OTHER_GROUP), 0, "root gives it to another group");
    equal(mode_of(FILE_NAME), 0777, "the bits go even so");
    chmod(FILE_NAME, 02767);
    equal(chown(FILE_NAME, USER, OTHER_GROUP), 0, "one that the group may not execute");
    equal(mode_of(FILE_NAME), 02767, "keeps the group's bit");
    close(fd);
}

static void foreign_group(void)
{
    int fd = open(DIRECTORY "/foreign/a", O_CREAT | O_WRONLY, 02775);
    equal(mode_of(DIRECTORY "/foreign/a"), 0775,
          "a new file in a foreign group's directory has no set-gid bit");
    close(fd);
    fd = open(DIRECTORY "/foreign/b", O_CREAT | O_WRONLY, 02745);
    equal(mode_of(DIRECTORY "/foreign/b"), 02745, "but one that the group may not execute has");
    close(fd);
    mknod(DIRECTORY "/foreign/c", S_IFREG | 02775, 0);
    equal(mode_of(DIRECTORY "/foreign/c"), 0775, "nor by mknod");
    mkdir(DIRECTORY "/foreign/d", 0775);
    equal(mode_of(DIRECTORY "/foreign/d"), 02775, "a directory inherits it");
    fd = open(DIRECTORY "/foreign", O_TMPFILE | O_WRONLY, 02775);
    struct stat s;
    if (fd >= 0) {
        fstat(fd, &s);
        equal(s.st_mode & 07777, 0775, "nor has a file without a name");
        close(fd);
    }
    fd = open(DIRECTORY "/foreign/e", O_CREAT | O_WRONLY, 0775);
    equal(fchmod(fd, 02775), 0, "chmod");
    equal(mode_of(DIRECTORY "/foreign/e"), 0775, "does not give it either");
    close(fd);
}

static void new_files(void)
{
    umask(0);
    mkdir(DIRECTORY "/foreign", 0777);
    chown(DIRECTORY "/foreign", 0, OTHER_GROUP);
    chmod(DIRECTORY "/foreign", 02777);
    as_user(foreign_group);
    umask(022);
}

static void no_suid_mount(void)
{
    if (!here)
        return;
    mkdir(DIRECTORY "/mount", 0755);
    equal(syscall(SYS_mount, "tmpfs", DIRECTORY "/mount", "tmpfs", 2, "mode=755"), 0,
          "a mount without set-uid programs");
    install(DIRECTORY "/mount/suid", 04755, 0, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        become_user();
        run(DIRECTORY "/mount/suid", "who");
    }
    equal(code_of(child), PLAIN, "has none");
    equal(syscall(SYS_umount2, DIRECTORY "/mount", 2), 0, "umount");
}

/* -- credentials changed by two threads ------------------------------------------------------------------ */

static volatile int changing;

static void *change_users(void *_)
{
    (void)_;
    while (changing)
        syscall(SYS_setresuid, -1, -1, -1);
    return NULL;
}

static void two_changers(void)
{
    pthread_t other;
    changing = 1;
    pthread_create(&other, NULL, change_users, NULL);
    int lost = 0;
    for (int i = 0; i < 20000; i++) {
        gid_t group = 100 + i % 1000, seen[4] = {0};
        syscall(SYS_setgroups, 1, &group);
        if (syscall(SYS_getgroups, 4, seen) != 1 || seen[0] != group)
            lost++;
    }
    changing = 0;
    pthread_join(other, NULL);
    equal(lost, 0, "two threads that change credentials lose nothing");
    syscall(SYS_setgroups, 0, NULL);
}

static void wrong_numbers(void)
{
    fails(setuid(-1), EINVAL, "no user -1");
    fails(setgid(-1), EINVAL, "no group -1");
    equal(setfsuid(-1), 0, "setfsuid(-1) only asks");
    equal(setfsuid(-1), 0, "again");
    gid_t none = -1;
    fails(setgroups(1, &none), EINVAL, "no supplementary group -1");
}

static void exec_group(void)
{
    as_user(exec_traced);
    as_user(exec_traced_unreadable);
    exec_traced_by_root();
    as_user(no_new_rights);
    as_user(shared_directories);
    as_user(secure_stack);
    install(LENT, 06777, 0, 0);
    as_user(rewritten);
    as_user(death_signal);
    death_signal_of_root();
    no_suid_mount();
}

static void trace_group(void)
{
    as_user(tracing);
    as_user(attach_against_exec);
    was_root();
    as_user(dumpable);
}

static void steer_group(void)
{
    as_user(native);
    as_user(procedure_against_exec);
    as_user(limits);
    as_user(robust_list);
    as_user(niceness);
}

static void look_group(void)
{
    as_user(looking);
    as_user(looked_before_alone);
    as_user(looked_before_kept);
    as_user(own);
}

static void bits_group(void)
{
    bits();
    new_files();
}

static void credentials_group(void)
{
    wrong_numbers();
    two_changers();
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"exec", exec_group},   {"trace", trace_group}, {"steer", steer_group},
        {"look", look_group},   {"bits", bits_group},   {"credentials", credentials_group},
        {"scope", scope_group},
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
