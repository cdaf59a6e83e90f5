/* Checks how traced processes stop, go on and end, as Linux has it: PTRACE_SEIZE, INTERRUPT and LISTEN, stops
 * of whole processes, exits, who hears first of an end; passes on Linux and must pass here.
 *
 * Interface: stops [GROUP...] runs all groups, or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "tracing.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEEK_SIGNALS 0x4209
#define ARCH_PRCTL 30
#define SYSEMU 31

/* A child that waits for signals, asleep by the time this returns as far as anybody can see. */
static pid_t sleeper(void)
{
    int ready[2];
    char c;
    if (pipe(ready))
        return -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    read(ready[0], &c, 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    int status;
    while (WIFSTOPPED(status = next(pid)))
        go(pid, 0);
    check(WIFSIGNALED(status), "SIGKILL ends it");
}

static void interrupts(void)
{
    pid_t pid = sleeper();
    fails(trace(PTRACE_SEIZE, pid, 1, 0), EIO, "seized at an address");
    fails(trace(PTRACE_SEIZE, pid, 0, 1 << 30), EIO, "with options that nobody knows");
    equal(trace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXIT | PTRACE_O_TRACESECCOMP), 0, "seized");
    fails(trace(PTRACE_LISTEN, pid, 0, 0), ESRCH, "nobody listens to one that runs");
    equal(trace(PTRACE_INTERRUPT, pid, 0, 0), 0, "interrupted");
    check(stopped_by(next(pid), SIGTRAP, PTRACE_EVENT_STOP), "it stops");
    siginfo_t info;
    equal(trace(PTRACE_GETSIGINFO, pid, 0, (long)&info), 0, "there is information");
    equal(info.si_code, SIGTRAP | PTRACE_EVENT_STOP << 8, "on the event");
    equal(trace(PTRACE_LISTEN, pid, 0, 0), 0, "listened to");
    struct user_regs_struct r;
    fails(trace(PTRACE_GETREGS, pid, 0, (long)&r), ESRCH, "it does not wait for its tracer");
    int status;
    equal(waitpid(pid, &status, WNOHANG | __WALL), 0, "who has nothing to hear");
    equal(trace(PTRACE_INTERRUPT, pid, 0, 0), 0, "interrupted again");
    check(stopped_by(next(pid), SIGTRAP, PTRACE_EVENT_STOP), "it stops again");
    equal(trace(PTRACE_GETREGS, pid, 0, (long)&r), 0, "and waits");
    go(pid, 0);
    kill(pid, SIGTERM);
    check(stopped_by(next(pid), SIGTERM, 0), "a signal");
    fails(trace(PTRACE_LISTEN, pid, 0, 0), EIO, "is no stop to listen at");
    go(pid, SIGTERM);
    check(stopped_by(next(pid), SIGTRAP, PTRACE_EVENT_EXIT), "it is about to end");
    equal(message(pid), SIGTERM, "by that signal");
    equal(trace(PTRACE_GETREGS, pid, 0, (long)&r), 0, "its registers can be seen");
    go(pid, 0);
    status = next(pid);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "it ends");

    pid = sleeper();
    equal(trace(PTRACE_ATTACH, pid, 0, 0), 0, "attached");
    next(pid);
    fails(trace(PTRACE_INTERRUPT, pid, 0, 0), EIO, "one that was not seized is not interrupted");
    fails(trace(PTRACE_LISTEN, pid, 0, 0), EIO, "nor listened to");
    fails(trace(PTRACE_SETOPTIONS, pid, 0, 1 << 30), EINVAL, "no such option");
    equal(trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT | PTRACE_O_TRACESECCOMP), 0, "options");
    end(pid);
}

static void seized_stops(void)
{
    pid_t pid = sleeper();
    trace(PTRACE_SEIZE, pid, 0, 0);
    kill(pid, SIGSTOP);
    check(stopped_by(next(pid), SIGSTOP, 0), "SIGSTOP is a signal first");
    go(pid, SIGSTOP);
    check(stopped_by(next(pid), SIGSTOP, PTRACE_EVENT_STOP), "then a stop of all");
    equal(trace(PTRACE_LISTEN, pid, 0, 0), 0, "at which its tracer listens");
    int status;
    equal(waitpid(pid, &status, WNOHANG | __WALL), 0, "nothing is new");
    kill(pid, SIGCONT);
    check(stopped_by(next(pid), SIGTRAP, PTRACE_EVENT_STOP), "SIGCONT is");
    go(pid, 0);
    check(stopped_by(next(pid), SIGCONT, 0), "and is a signal then");
    go(pid, 0);
    kill(pid, SIGSTOP);
    check(stopped_by(next(pid), SIGSTOP, 0), "SIGSTOP once more");
    go(pid, SIGSTOP);
    check(stopped_by(next(pid), SIGSTOP, PTRACE_EVENT_STOP), "stops");
    go(pid, 0);
    kill(pid, SIGUSR1);
    check(stopped_by(next(pid), SIGUSR1, 0), "its tracer can let it go on all the same");
    equal(trace(PTRACE_DETACH, pid, 0, 0), 0, "let go of");
    equal(waitpid(pid, &status, WUNTRACED), pid, "its parent");
    check(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "hears that it is stopped");
    equal(trace(PTRACE_SEIZE, pid, 0, 0), 0, "seized while it is");
    check(stopped_by(next(pid), SIGSTOP, PTRACE_EVENT_STOP), "it says so");
    end(pid);
}

static void too_late(int signal) { (void)signal; }

/* One that stops itself is seized where it stands and continued at once, as strace begins: whichever comes
 * first, it goes on. With `more`, its tracer asks for a stop as well. How it ended, -1: its tracer waited
 * in vain. */
static int seized_and_continued(int more)
{
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSTOP);
        _exit(7);
    }
    int status, continued = 0;
    if (waitpid(pid, &status, WUNTRACED) != pid || trace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL) ||
        kill(pid, SIGCONT) || (more && trace(PTRACE_INTERRUPT, pid, 0, 0)))
        status = -1;
    else
        while (WIFSTOPPED(status = next(pid)) && status != -1) {
            int signal = WSTOPSIG(status), event = status >> 16;
            continued |= event == 0 && signal == SIGCONT;
            if (event == PTRACE_EVENT_STOP && signal != SIGTRAP)
                trace(PTRACE_LISTEN, pid, 0, 0);
            else
                go(pid, event ? 0 : signal);
        }
    if (status == -1) {
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, __WALL) > 0 || errno == EINTR)
            ;
    }
    return continued ? status : -1;
}

static void continued_at_once(void)
{
    enum { ROUNDS = 1500 };
    struct sigaction act = {.sa_handler = too_late}, old;
    sigaction(SIGALRM, &act, &old);
    for (int more = 0; more < 2; more++) {
        int lost = 0;
        fflush(stdout);
        for (int i = 0; i < ROUNDS && lost == 0; i++) {
            alarm(10);
            lost += seized_and_continued(more) != 7 << 8;
        }
        equal(lost, 0,
              more ? "nor when its tracer asks for a stop meanwhile"
                   : "SIGCONT right after PTRACE_SEIZE of a stopped one is not lost");
    }
    alarm(0);
    sigaction(SIGALRM, &old, NULL);
}

static void stops_twice(void)
{
    raise(SIGSTOP);
    raise(SIGUSR2);
    _exit(3);
}

static void plain_stops(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        trace(PTRACE_TRACEME, 0, 0, 0);
        stops_twice();
    }
    check(stopped_by(next(pid), SIGSTOP, 0), "a signal that stops");
    siginfo_t info;
    equal(trace(PTRACE_GETSIGINFO, pid, 0, (long)&info), 0, "of which there is information");
    go(pid, SIGSTOP);
    check(stopped_by(next(pid), SIGSTOP, 0), "the stop of all looks the same");
    fails(trace(PTRACE_GETSIGINFO, pid, 0, (long)&info), EINVAL, "but that there is none");
    fails(trace(PTRACE_SETSIGINFO, pid, 0, (long)&info), EINVAL, "and none is taken");
    go(pid, 0);
    check(stopped_by(next(pid), SIGUSR2, 0), "it goes on");
    go(pid, 0);
    int status = next(pid);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 3, "to its end");
}

static void *nothing(void *unused) { return unused; }

static void exits(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        alarm(30);
        trace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        pthread_create(&thread, NULL, nothing, NULL);
        pthread_join(thread, NULL);
        _exit(6);
    }
    next(pid);
    trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT | PTRACE_O_TRACECLONE);
    go(pid, 0);
    check(stopped_by(next(pid), SIGTRAP, PTRACE_EVENT_CLONE), "a thread");
    pid_t inner = message(pid);
    check(stopped_by(next(inner), SIGSTOP, 0), "stops at its beginning");
    go(inner, 0);
    check(stopped_by(next(inner), SIGTRAP, PTRACE_EVENT_EXIT), "and at its end");
    equal(message(inner), 0, "with its status");
    struct user_regs_struct r;
    trace(PTRACE_GETREGS, inner, 0, (long)&r);
    equal(r.orig_rax, SYS_exit, "in its last call");
    go(inner, 0);
    int status = -1;
    equal(waitpid(inner, &status, 0), inner,
          "who traces a thread hears of its end without asking for threads");
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "its status");
    go(pid, 0);
    check(stopped_by(next(pid), SIGTRAP, PTRACE_EVENT_EXIT), "the process at its end");
    equal(message(pid), 6 << 8, "with its status");
    go(pid, 0);
    status = next(pid);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 6, "and ends by that");
}

/* A parent whose child is traced by its grandparent: asked by a byte, answers what waitpid says. */
static void ends(void)
{
    int ask[2], answer[2], numbers[2], status;
    char c = 'n';
    pid_t child = -1;
    if (pipe(ask) || pipe(answer) || pipe(numbers))
        return;
    fflush(stdout);
    pid_t parent = fork();
    if (parent == 0) {
        alarm(30);
        pid_t mine = fork();
        if (mine == 0) {
            alarm(30);
            for (;;)
                pause();
        }
        write(numbers[1], &mine, sizeof mine);
        while (read(ask[0], &c, 1) == 1) {
            int got = waitpid(mine, &status, c == 'n' ? WNOHANG : 0);
            int told[2] = {got, status};
            write(answer[1], told, sizeof told);
            if (c == 'l')
                _exit(2);
        }
        _exit(1);
    }
    read(numbers[0], &child, sizeof child);
    equal(trace(PTRACE_SEIZE, child, 0, 0), 0, "a grandchild is seized");
    kill(child, SIGKILL);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    equal(waitid(P_PID, child, &info, WEXITED | WNOWAIT | __WALL), 0,
          "its tracer hears of its end, and leaves that there");
    check(info.si_pid == child && info.si_status == SIGKILL, "what it was");
    int told[2];
    write(ask[1], "n", 1);
    read(answer[0], told, sizeof told);
    equal(told[0], 0, "its parent has a child, of which there is nothing to hear yet");
    equal(waitpid(child, &status, __WALL), child, "its tracer waits for it");
    check(WIFSIGNALED(status), "its end");
    write(ask[1], "l", 1);
    read(answer[0], told, sizeof told);
    check(told[0] == child && WIFSIGNALED(told[1]), "then its parent hears of it");
    waitpid(parent, &status, 0);

    /* A tracer that ends without having waited. */
    fflush(stdout);
    pid_t pid = sleeper();
    int ready[2];
    if (pipe(ready))
        return;
    pid_t tracer = fork();
    if (tracer == 0) {
        siginfo_t seen;
        alarm(30);
        trace(PTRACE_SEIZE, pid, 0, 0);
        kill(pid, SIGKILL);
        waitid(P_PID, pid, &seen, WEXITED | WNOWAIT | __WALL);
        write(ready[1], "x", 1);
        pause();
        _exit(0);
    }
    read(ready[0], &c, 1);
    equal(waitpid(pid, &status, WNOHANG), 0, "a parent waits for a tracer");
    kill(tracer, SIGKILL);
    waitpid(tracer, &status, 0);
    equal(waitpid(pid, &status, 0), pid, "which ends");
    check(WIFSIGNALED(status), "the end of the child");
}

static void peeks(void)
{
    struct {
        uint64_t from;
        uint32_t flags;
        int32_t count;
    } what = {0, 0, 4};
    siginfo_t infos[4];
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t all;
        union sigval value = {.sival_int = 77};
        alarm(30);
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        for (int i = 0; i < 2; i++, value.sival_int++)
            sigqueue(getpid(), SIGRTMIN + i, value);
        syscall(SYS_tgkill, getpid(), getpid(), SIGUSR1);
        trace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(0);
    }
    next(pid);
    equal(trace(PEEK_SIGNALS, pid, (long)&what, (long)infos), 1, "one signal waits for the thread");
    equal(infos[0].si_signo, SIGUSR1, "which one");
    what.flags = 1;
    equal(trace(PEEK_SIGNALS, pid, (long)&what, (long)infos), 2, "two for the process");
    check(infos[0].si_signo == SIGRTMIN && infos[0].si_value.sival_int == 77 &&
              infos[1].si_value.sival_int == 78,
          "what they say");
    what.from = 1;
    equal(trace(PEEK_SIGNALS, pid, (long)&what, (long)infos), 1, "one beyond the first");
    what.from = 1000;
    equal(trace(PEEK_SIGNALS, pid, (long)&what, (long)infos), 0, "none beyond the last");
    what.from = 0;
    fails(trace(PEEK_SIGNALS, pid, (long)&what, 8), EFAULT, "into nowhere");
    what.flags = 2;
    fails(trace(PEEK_SIGNALS, pid, (long)&what, (long)infos), EINVAL, "a flag that nobody knows");
    what.flags = 0;
    what.count = -1;
    fails(trace(PEEK_SIGNALS, pid, (long)&what, (long)infos), EINVAL, "fewer than none");
    fails(trace(PEEK_SIGNALS, pid, 8, (long)infos), EFAULT, "asked from nowhere");
    unsigned long base = 0;
    equal(trace(ARCH_PRCTL, pid, (long)&base, 0x1003), 0, "where its thread's storage is");
    check(base != 0, "somewhere");
    fails(trace(ARCH_PRCTL, pid, -1, 0x1002), EPERM, "not in the kernel's memory");
    struct user_regs_struct r;
    trace(PTRACE_GETREGS, pid, 0, (long)&r);
    equal(r.fs_base, base, "the registers have that, too");
    end(pid);
}

/* A child that stops itself, seen to have stopped by its parent, who does not trace it. */
static pid_t stopped(void)
{
    fflush(stdout);
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        alarm(30);
        raise(SIGSTOP);
        _exit(7);
    }
    if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
        check(0, "a stopped child");
    return pid;
}

/* The new tracer of a process that has stopped may ask it at once. */
static void standing(void)
{
    enum { ROUNDS = 100, DEBUG = offsetof(struct user, u_debugreg) };
    int answered = 0, told = 0, ended = 0, status;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pid = stopped();
        int seized = round % 2;
        struct user_regs_struct r;
        trace(seized ? PTRACE_SEIZE : PTRACE_ATTACH, pid, 0, 0);
        answered +=
            trace(PTRACE_POKEUSER, pid, DEBUG, 2) == 0 && trace(PTRACE_GETREGS, pid, 0, (long)&r) == 0;
        told += waitpid(pid, &status, __WALL | WNOHANG) == pid &&
                stopped_by(status, SIGSTOP, seized ? PTRACE_EVENT_STOP : 0);
        trace(PTRACE_DETACH, pid, 0, 0);
        kill(pid, SIGCONT);
        /* The stop that came with the attachment may still wait. */
        while (waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status))
            kill(pid, SIGCONT);
        ended += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    equal(answered, ROUNDS, "one that has stopped answers who has just begun to trace it");
    equal(told, ROUNDS, "and its stop has been told by then");
    equal(ended, ROUNDS, "let go, it goes on and ends");
    pid_t pid = stopped();
    equal(trace(PTRACE_ATTACH, pid, 0, 0), 0, "attached");
    fails(trace(PTRACE_POKEUSER, pid, DEBUG, (long)0xffff800000000000), EINVAL,
          "no breakpoint in the kernel");
    end(pid);
}

static void fakes(void)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        trace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(syscall(SYS_getppid) == 4242 ? 5 : 6);
    }
    next(pid);
    struct user_regs_struct r;
    do {
        trace(SYSEMU, pid, 0, 0);
        check(stopped_by(next(pid), SIGTRAP, 0), "a call that is not made");
        trace(PTRACE_GETREGS, pid, 0, (long)&r);
    } while (r.orig_rax != SYS_getppid && r.orig_rax != (unsigned long)-1);
    equal((long)r.rax, -ENOSYS, "its result until somebody has another");
    r.rax = 4242;
    trace(PTRACE_SETREGS, pid, 0, (long)&r);
    trace(SYSEMU, pid, 0, 0);
    next(pid);
    trace(PTRACE_GETREGS, pid, 0, (long)&r);
    equal(r.orig_rax, SYS_exit_group, "there is no stop at its end");
    equal(r.rdi, 5, "it was believed");
    end(pid);
}

/* How a call goes is decided at its beginning. */
static void decided(void)
{
    struct user_regs_struct r;
    int status;
    for (int made = 0; made < 2; made++) {
        fflush(stdout);
        pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
            alarm(30);
            trace(PTRACE_TRACEME, 0, 0, 0);
            raise(SIGSTOP);
            _exit(syscall(SYS_getppid) == parent ? 5 : 6);
        }
        next(pid);
        do {
            /* To each beginning: calls before the one that is meant are not to matter. */
            trace(made ? PTRACE_SYSCALL : SYSEMU, pid, 0, 0);
            next(pid);
            trace(PTRACE_GETREGS, pid, 0, (long)&r);
        } while (r.orig_rax != SYS_getppid);
        if (made) {
            trace(SYSEMU, pid, 0, 0);
            next(pid);
            trace(PTRACE_GETREGS, pid, 0, (long)&r);
            equal(r.orig_rax, SYS_exit_group, "a call that has begun has no stop at its end by another way");
            equal(r.rdi, 5, "it was made");
            kill(pid, SIGKILL);
        }
        trace(PTRACE_CONT, pid, 0, 0);
        status = next(pid);
        if (!made)
            check(WIFEXITED(status) && WEXITSTATUS(status) == 6, "what is not made at first is never made");
    }
}

static const struct group all[] = {
    {"interrupts", interrupts}, {"seized", seized_stops}, {"continued", continued_at_once},
    {"plain", plain_stops},     {"exits", exits},         {"ends", ends},
    {"peeks", peeks},           {"standing", standing},   {"fakes", fakes},
    {"decided", decided},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(all), NULL, argc, argv);
    return done();
}
