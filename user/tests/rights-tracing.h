/* Rights to trace others, and the scope of tracing: a part of `rights`.
 *
 * Interface: tracing and the races against exec; scope_group for a kernel with Yama.
 */
#ifndef RIGHTS_TRACING_H
#define RIGHTS_TRACING_H

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
#endif
