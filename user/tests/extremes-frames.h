/* Stacks and vector state of signals at odd addresses, and numbers given to a tracer: a part of `extremes`.
 *
 * Interface: the group frames.
 */
#ifndef EXTREMES_FRAMES_H
#define EXTREMES_FRAMES_H

static void handled(int signal)
{
    (void)signal;
    _exit(7);
}

/* An instruction that is none, with the stack pointer at `sp`. */
static int strange_stack(long sp)
{
    struct sigaction action = {.sa_handler = handled};
    sigaction(SIGILL, &action, 0);
    __asm__ volatile("mov %0, %%rsp; ud2" ::"r"(sp));
    return 1;
}

static int strange_stack_with_vectors(long sp)
{
    __asm__ volatile("pcmpeqd %%xmm7, %%xmm7" ::: "xmm7");
    return strange_stack(sp);
}

/* A handler on a signal stack whose end wraps around to `end`. */
static int wrapped_stack(long end)
{
    struct sigaction action = {.sa_handler = handled, .sa_flags = SA_ONSTACK};
    sigaction(SIGILL, &action, 0);
    stack_t stack = {.ss_sp = (void *)TOP, .ss_size = (size_t)end - TOP};
    if (sigaltstack(&stack, 0) != 0)
        return 1;
    __asm__ volatile("ud2");
    return 1;
}

static long state_at;

static void spoil(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.fpregs = (void *)state_at;
}

/* Comes back from a handler that says its vector state is at `at`. */
static int strange_state(long at)
{
    state_at = at;
    struct sigaction action = {.sa_sigaction = spoil, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    return 7;
}

static int strange_state_with_vectors(long at)
{
    __asm__ volatile("pcmpeqd %%xmm7, %%xmm7" ::: "xmm7");
    return strange_state(at);
}

static int returns_least(long unused)
{
    (void)unused;
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_getppid) : "rcx", "r11", "memory");
    return result == LEAST ? 42 : 1;
}

static void traced(void)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(returns_least(0));
    int status;
    waitpid(child, &status, 0);
    check(WIFSTOPPED(status), "a traced child stops");
    long peeked = 0;
    struct user_regs_struct registers;
    fails(call(ptrace, PTRACE_PEEKUSER, child, -8l, &peeked), EIO, "a register before the first");
    fails(call(ptrace, PTRACE_PEEKUSER, child, LEAST, &peeked), EIO, "a register far before the first");
    fails(call(ptrace, PTRACE_PEEKUSER, child, 1l, &peeked), EIO, "a register between two");
    fails(call(ptrace, PTRACE_POKEUSER, child, MOST - 7, 0), EIO, "a register behind the last");
    fails(call(ptrace, PTRACE_PEEKDATA, child, -8l, &peeked), EIO, "a word at the end of all addresses");
    fails(call(ptrace, PTRACE_PEEKDATA, child, -4l, &peeked), EIO, "a word across it");
    fails(call(ptrace, PTRACE_PEEKDATA, child, TOP - 4, &peeked), EIO, "a word across the last address");
    fails(call(ptrace, PTRACE_POKEDATA, child, -4l, 0), EIO, "poked there");
    struct iovec set = {(void *)-1l, SIZE_MAX};
    fails(call(ptrace, PTRACE_GETREGSET, child, 1, &set), EINVAL, "a part of a register");
    set.iov_len = -8l;
    fails(call(ptrace, PTRACE_GETREGSET, child, 1, &set), EFAULT,
          "registers told at the end of all addresses");
    fails(call(ptrace, PTRACE_CONT, child, 0, 65l), EIO, "going on with a signal past the last");
    fails(call(ptrace, PTRACE_CONT, child, 0, (long)INT_MIN), EIO, "going on with the most negative signal");
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    waitpid(child, &status, 0);
    while (WIFSTOPPED(status)) {
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        /* At the way in the result is still to come, and says so. */
        if (registers.orig_rax == SYS_getppid && (long)registers.rax != -ENOSYS) {
            registers.rax = LEAST;
            ptrace(PTRACE_SETREGS, child, 0, &registers);
            ptrace(PTRACE_CONT, child, 0, 0);
        } else {
            ptrace(PTRACE_SYSCALL, child, 0, 0);
        }
        waitpid(child, &status, 0);
    }
    check(exited(status, 42), "a tracer makes a call return the least number");
}

static void frames(void)
{
    int all = 1, with_vectors = 1;
    for (long sp = 0; sp <= 1536; sp += 64) {
        all &= ended_by(status_of(strange_stack, sp), SIGSEGV);
        with_vectors &= ended_by(status_of(strange_stack_with_vectors, sp), SIGSEGV);
    }
    check(all, "a handler's frame does not wrap around the end of all addresses");
    check(with_vectors, "nor does one with vector state");
    static const long others[] = {-1, -8, -64, -4096, LEAST, MOST, LEAST + 512, (long)TOP, (long)TOP + 1024};
    all = 1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        all &= ended_by(status_of(strange_stack_with_vectors, others[i]), SIGSEGV);
    check(all, "nor is it put where no program's memory is");
    all = 1;
    for (long end = 0; end <= 1536; end += 128)
        all &= ended_by(status_of(wrapped_stack, end), SIGSEGV);
    check(all, "a signal stack that wraps around is none");
    all = with_vectors = 1;
    static const long states[] = {-16,  -64,  -128,  -256,  -448,      -464,          -512,
                                  -576, -832, -1024, LEAST, MOST - 63, (long)TOP - 64};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        all &= ended_by(status_of(strange_state, states[i]), SIGSEGV);
        with_vectors &= ended_by(status_of(strange_state_with_vectors, states[i]), SIGSEGV);
    }
    check(all, "vector state is not taken from around the end of all addresses");
    check(with_vectors, "nor by one that has some");
    traced();
}
#endif
