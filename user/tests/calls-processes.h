/* Processes, their ends and signals: a part of `calls`.
 *
 * Interface: the groups processes and signals.
 */
#ifndef CALLS_PROCESSES_H
#define CALLS_PROCESSES_H

/* --- processes --- */

static void child_7(void) { _exit(7); }
static void child_kill(void) { kill(getpid(), SIGKILL); }
static volatile long eight = 8;
static void child_segv(void) { *(volatile int *)eight = 1; }
static void child_ill(void) { __asm__ volatile("ud2"); }
static void child_fpe(void)
{
    __asm__ volatile("xor %%edx, %%edx; xor %%ecx, %%ecx; mov $1, %%eax; div %%ecx" ::: "eax", "ecx", "edx");
}
static void child_trap(void) { __asm__ volatile("int3"); }
static void child_hlt(void) { __asm__ volatile("hlt"); }
static void child_cli(void) { __asm__ volatile("cli"); }
static void child_port(void) { __asm__ volatile("outb %%al, $0x80" ::: "memory"); }
static void child_cr3(void) { __asm__ volatile("mov %%cr3, %%rax" ::: "rax"); }
static void child_abort(void) { abort(); }
static void child_stack(void)
{
    volatile char big[64 << 20];
    big[0] = 1;
    (void)big[0];
}
static volatile int endless = 1;
static int recurse(int n)
{
    volatile char part[1000];
    part[0] = n;
    return endless ? recurse(n + 1) + part[0] : 0;
}
static void child_recurse(void) { recurse(0); }
static void child_noncanonical(void) { *(volatile char *)0x8000000000000000 = 1; }
static void child_bad_stack(void) { __asm__ volatile("mov $0x10, %%rsp; push %%rax; syscall" ::: "memory"); }
static void child_bad_sigframe(void)
{
    signal(SIGUSR1, count_signal);
    __asm__ volatile("mov $0x10, %%rsp; mov $39, %%eax; syscall; mov %%eax, %%edi; mov $10, %%esi; mov $62, "
                     "%%eax; syscall; ud2" ::
                         : "memory");
}
static void child_bad_sigreturn(void)
{
    __asm__ volatile("mov $15, %%eax; xor %%esp, %%esp; syscall; ud2" ::: "memory");
}
static void child_int80_range(void) { __asm__ volatile("int $0x90"); }

static void processes(void)
{
    static const struct {
        void (*body)(void);
        int status;
        const char *name;
    } deaths[] = {
        {child_7, 7 << 8, "_exit(7)"},
        {child_kill, SIGKILL, "SIGKILL"},
        {child_segv, SIGSEGV, "a wrong access"},
        {child_ill, SIGILL, "ud2"},
        {child_fpe, SIGFPE, "a division by zero"},
        {child_trap, SIGTRAP, "int3"},
        {child_hlt, SIGSEGV, "hlt"},
        {child_cli, SIGSEGV, "cli"},
        {child_port, SIGSEGV, "a port"},
        {child_cr3, SIGSEGV, "cr3"},
        {child_abort, SIGABRT, "abort"},
        {child_stack, SIGSEGV, "far below the stack"},
        {child_recurse, SIGSEGV, "endless recursion"},
        {child_noncanonical, SIGSEGV, "a non-canonical address"},
        {child_bad_stack, SIGSEGV, "a wrong stack"},
        {child_bad_sigframe, SIGSEGV, "a signal on a wrong stack"},
        {child_bad_sigreturn, SIGSEGV, "sigreturn from nowhere"},
        {child_int80_range, SIGSEGV, "a gate that is not for users"},
    };
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++)
        equal(in_child(deaths[i].body) & ~0x80, deaths[i].status, deaths[i].name);
    int status;
    fails(waitpid(-1, &status, 0), ECHILD, "wait without children");
    fflush(stdout);
    int fd[2];
    pipe(fd);
    pid_t child = fork();
    if (child == 0) {
        char c;
        close(fd[1]);
        read(fd[0], &c, 1);
        _exit(getppid() > 0 ? 3 : 4);
    }
    equal(waitpid(child, &status, WNOHANG), 0, "WNOHANG while it runs");
    fails(waitpid(child + 1000, &status, 0), ECHILD, "wait for another's child");
    close(fd[0]);
    close(fd[1]);
    equal(waitpid(child, &status, 0), child, "waitpid");
    equal(status, 3 << 8, "its status");
    fails(waitpid(child, &status, 0), ECHILD, "wait twice");
    fails(kill(child, 0), ESRCH, "kill of a process that is gone");
    equal(kill(getpid(), 0), 0, "kill with signal 0");
    fails(kill(getpid(), 99), EINVAL, "kill with a wrong signal");
    child = vfork();
    if (child == 0)
        _exit(9);
    equal(waitpid(child, &status, 0) == child && status == 9 << 8, 1, "vfork");
    fails(execl("none", "none", (char *)0), ENOENT, "exec of a missing file");
    fails(execl("/tmp", "tmp", (char *)0), EACCES, "exec of a directory");
    fd[0] = open("text", O_CREAT | O_WRONLY, 0755);
    write(fd[0], "no program", 10);
    close(fd[0]);
    fails(execl("./text", "text", (char *)0), ENOEXEC, "exec of text");
    chmod("text", 0644);
    fails(execl("./text", "text", (char *)0), EACCES, "exec without the right");
    chmod("text", 0755);
    fd[0] = open("text", O_WRONLY | O_TRUNC);
    write(fd[0], "#!/bin/sh\nexit $(($# * 10 + $1))\n", 33);
    close(fd[0]);
    child = fork();
    if (child == 0) {
        execl("./text", "text", "4", "x", (char *)0);
        _exit(1);
    }
    waitpid(child, &status, 0);
    equal(status, 24 << 8, "exec of a script gives it its arguments");
    unlink("text");
    child = fork();
    if (child == 0) {
        setpgid(0, 0);
        raise(SIGSTOP);
        usleep(50000); /* or its end may be all that the parent sees */
        _exit(5);
    }
    equal(waitpid(child, &status, WUNTRACED), child, "WUNTRACED");
    check(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "it has stopped");
    equal(getpgid(child), child, "in its own group");
    kill(-child, SIGCONT);
    equal(waitpid(child, &status, WCONTINUED), child, "WCONTINUED");
    check(WIFCONTINUED(status), "it goes on");
    waitpid(child, &status, 0);
    equal(status, 5 << 8, "and ends");
    child = fork();
    if (child == 0)
        _exit(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid() ? 0 : 1);
    waitpid(child, &status, 0);
    equal(status, 0, "setsid");
    /* An orphan gets a new parent. */
    pipe(fd);
    child = fork();
    if (child == 0) {
        pid_t middle = getpid();
        if (fork() == 0) {
            char gone;
            for (int i = 0; i < 2000 && getppid() == middle; i++)
                usleep(1000);
            gone = getppid() != middle;
            write(fd[1], &gone, 1);
            _exit(0);
        }
        _exit(0);
    }
    waitpid(child, 0, 0);
    char gone = 0;
    equal(read(fd[0], &gone, 1) == 1 && gone, 1, "an orphan gets a new parent");
    close(fd[0]), close(fd[1]);
    struct rusage usage;
    child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info = {0};
    equal(waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0, "waitid without reaping");
    check(info.si_pid == child && info.si_code == CLD_EXITED, "tells how it ended");
    equal(wait4(child, &status, 0, &usage), child, "wait4");
    int rightly = 0;
    for (int i = 0; i < 100; i++) {
        child = fork();
        if (child == 0)
            _exit(i);
        rightly += waitpid(child, &status, 0) == child && status == i << 8;
    }
    equal(rightly, 100, "a hundred children, one after the other");
    for (int i = 0; i < 50; i++)
        if (fork() == 0)
            _exit(0);
    int reaped = 0;
    while (wait(0) > 0)
        reaped++;
    equal(reaped, 50, "fifty at once");
}

/* --- signals --- */

static volatile sig_atomic_t order[8], ordered;
static void note(int number) { order[ordered++ & 7] = number; }
static siginfo_t last;
static void keep(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    last = *info;
}
static char *alternate;
static volatile int on_alternate;
static void where(int number)
{
    char here;
    (void)number;
    on_alternate = &here >= alternate && &here < alternate + 65536;
}
static void skip(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RBX] = 4711;
}
static void clobber(int number)
{
    (void)number;
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0; pcmpeqd %%xmm7, %%xmm7; pcmpeqd %%xmm15, %%xmm15" ::
                         : "xmm0", "xmm7", "xmm15");
}

static void signals(void)
{
    signal(SIGUSR1, count_signal);
    counted = 0;
    raise(SIGUSR1);
    equal(counted, 1, "a handler runs");
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    raise(SIGUSR1);
    raise(SIGUSR1);
    equal(counted, 1, "not while it is blocked");
    sigset_t pending;
    sigpending(&pending);
    check(sigismember(&pending, SIGUSR1), "sigpending");
    sigprocmask(SIG_SETMASK, &old, 0);
    equal(counted, 2, "then once");
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGUSR1, &action, 0);
    sigaction(SIGUSR2, &action, 0);
    sigaction(SIGTERM, &action, 0);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, 0);
    raise(SIGTERM), raise(SIGUSR2), raise(SIGUSR1);
    sigprocmask(SIG_SETMASK, &old, 0);
    equal(ordered, 3, "three that were pending");
    action = (struct sigaction){.sa_sigaction = keep, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    kill(getpid(), SIGUSR1);
    check(last.si_signo == SIGUSR1 && last.si_pid == getpid() && last.si_code == SI_USER,
          "siginfo tells who");
    union sigval value = {.sival_int = 4711};
    equal(sigqueue(getpid(), SIGRTMIN, value), -1 + (signal(SIGRTMIN, SIG_IGN), 1), "sigqueue");
    sigaction(SIGRTMIN, &action, 0);
    sigqueue(getpid(), SIGRTMIN, value);
    equal(last.si_value.sival_int, 4711, "with a value");
    action = (struct sigaction){.sa_handler = count_signal, .sa_flags = SA_RESETHAND};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    sigaction(SIGUSR1, 0, &action);
    check(action.sa_handler == SIG_DFL, "SA_RESETHAND");
    alternate = pages(16, PROT_READ | PROT_WRITE);
    stack_t stack = {.ss_sp = alternate, .ss_size = 65536};
    equal(sigaltstack(&stack, 0), 0, "sigaltstack");
    action = (struct sigaction){.sa_handler = where, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    check(on_alternate, "the handler runs there");
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
    action = (struct sigaction){.sa_sigaction = skip, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, 0);
    long changed;
    __asm__ volatile("xor %%ebx, %%ebx; ud2" : "=b"(changed));
    equal(changed, 4711, "a handler may change the context");
    signal(SIGILL, SIG_DFL);
    signal(SIGUSR1, clobber);
    uint64_t x0, x7, x15, pid = getpid(), result;
    __asm__ volatile("movq %4, %%xmm0; movq %4, %%xmm7; movq %4, %%xmm15; mov $62, %%eax; mov %5, %%rdi; mov "
                     "$10, %%esi; syscall;"
                     "movq %%xmm0, %0; movq %%xmm7, %1; movq %%xmm15, %2; mov %%rax, %3"
                     : "=&r"(x0), "=&r"(x7), "=&r"(x15), "=&r"(result)
                     : "r"(0x123456789abcdefUL), "r"(pid)
                     : "rax", "rdi", "rsi", "rcx", "r11", "xmm0", "xmm7", "xmm15", "memory");
    check(x0 == 0x123456789abcdef && x7 == x0 && x15 == x0 && result == 0,
          "a handler leaves the vector registers alone");
    signal(SIGUSR1, SIG_IGN);
    equal(kill(getpid(), SIGUSR1), 0, "an ignored signal");
    fails(sigaction(SIGKILL, &action, 0), EINVAL, "SIGKILL cannot be caught");
    signal(SIGCHLD, count_signal);
    counted = 0;
    fflush(stdout);
    if (fork() == 0)
        _exit(0);
    while (wait(0) < 0 && errno == EINTR)
        ;
    equal(counted, 1, "SIGCHLD");
    signal(SIGCHLD, SIG_IGN);
    if (fork() == 0)
        _exit(0);
    equal(wait(0), -1, "children are not kept when SIGCHLD is ignored");
    signal(SIGCHLD, SIG_DFL);
    /* Restart of a blocked call. */
    int fd[2];
    char c = 0;
    pipe(fd);
    action = (struct sigaction){.sa_handler = count_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, 0);
    counted = 0;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(30000);
        kill(parent, SIGUSR1);
        usleep(30000);
        write(fd[1], "r", 1);
        _exit(0);
    }
    equal(read(fd[0], &c, 1) == 1 && c == 'r' && counted == 1, 1, "SA_RESTART goes on reading");
    waitpid(child, 0, 0);
    close(fd[0]), close(fd[1]);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, &old);
    signal(SIGUSR2, note);
    child = fork();
    if (child == 0) {
        usleep(20000);
        kill(parent, SIGUSR2);
        _exit(0);
    }
    ordered = 0;
    sigdelset(&old, SIGUSR2);
    fails(sigsuspend(&old), EINTR, "sigsuspend");
    equal(ordered, 1, "after the handler");
    waitpid(child, 0, 0);
    raise(SIGUSR2);
    struct timespec limit = {1, 0};
    siginfo_t info;
    equal(sigtimedwait(&set, &info, &limit), SIGUSR2, "sigtimedwait");
    limit = (struct timespec){0, 1000000};
    fails(sigtimedwait(&set, &info, &limit), EAGAIN, "and its time runs out");
    limit = (struct timespec){0, 0};
    fails(sigtimedwait(&set, &info, &limit), EAGAIN, "without a time it is a question");
    raise(SIGUSR2);
    equal(sigtimedwait(&set, &info, &limit), SIGUSR2, "and the answer");
    sigprocmask(SIG_SETMASK, &old, 0);
    signal(SIGUSR2, count_signal);
    counted = 0;
    sigset_t other;
    sigemptyset(&other);
    sigaddset(&other, SIGUSR1);
    signal(SIGALRM, count_signal);
    struct itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, 0);
    limit = (struct timespec){60, 0};
    fails(sigtimedwait(&other, &info, &limit), EINTR, "another signal ends it");
    check(counted > 0, "whose handler has run");
    setitimer(ITIMER_REAL, &never, 0);
    signal(SIGALRM, SIG_DFL);
    counted = 0;
    for (int i = 0; i < 1000; i++)
        raise(SIGUSR2);
    equal(counted, 1000, "a thousand signals");
}
#endif
