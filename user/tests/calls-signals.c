/* Checks masks, nesting, stacks and ends of signals, and waiting for groups of children, more closely than
 * `calls`; passes on Linux and must pass here.
 *
 * Interface: calls-signals [GROUP...] runs all groups or those named; TAP on standard output. (As
 * `calls-signals --state` it tells by its exit status what it has got of signals by exec.)
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* The notes of handlers, in order. */
static volatile int trace[32], traced;
static void note(int what)
{
    if (traced < 32)
        trace[traced] = what;
    traced++;
}

/* Whether it was just this; the notes begin anew. */
static int was(int count, ...)
{
    __builtin_va_list list;
    __builtin_va_start(list, count);
    int good = traced == count;
    for (int i = 0; i < count && i < 32; i++)
        good &= trace[i] == __builtin_va_arg(list, int);
    __builtin_va_end(list);
    if (!good) {
        printf("# notes:");
        for (int i = 0; i < traced && i < 32; i++)
            printf(" %d", trace[i]);
        printf("\n");
    }
    traced = 0;
    return good;
}

static sigset_t set_of(int first, int second)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, first);
    if (second)
        sigaddset(&set, second);
    return set;
}

static int blocked(int number)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, 0, &now);
    return sigismember(&now, number);
}

static void handle(int number, void (*handler)(int), int flags, int mask)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (mask)
        sigaddset(&action.sa_mask, mask);
    sigaction(number, &action, 0);
}

/* Notes its number at the start and its negative at the end; between them it raises what is to be raised. */
static volatile int to_raise, raise_again;
static void nest(int number)
{
    note(number);
    int raised = to_raise;
    to_raise = raise_again;
    raise_again = 0;
    if (raised)
        raise(raised);
    note(-number);
}

static void masks(void)
{
    const int a = SIGUSR1, b = SIGUSR2;
    handle(a, nest, 0, b);
    handle(b, nest, 0, 0);
    to_raise = b;
    raise(a);
    check(was(4, a, -a, b, -b), "sa_mask holds another signal back while a handler runs");
    check(!blocked(a) && !blocked(b), "and no longer");
    handle(a, nest, 0, 0);
    to_raise = b;
    raise(a);
    check(was(4, a, b, -b, -a), "without it the other comes in between");
    to_raise = a;
    raise(a);
    check(was(4, a, -a, a, -a), "a handler's own signal waits");
    sigset_t own = set_of(a, 0);
    sigprocmask(SIG_BLOCK, &own, 0);
    raise(a);
    to_raise = a;
    sigprocmask(SIG_UNBLOCK, &own, 0);
    check(was(4, a, -a, a, -a), "so it does where the first one has waited, too");
    handle(a, nest, SA_NODEFER, 0);
    to_raise = a;
    raise(a);
    check(was(4, a, a, -a, -a), "with SA_NODEFER it does not");
    handle(a, nest, SA_NODEFER, a);
    to_raise = a;
    raise(a);
    check(was(4, a, -a, a, -a), "unless sa_mask names it");
    handle(a, nest, SA_RESETHAND, 0);
    raise(a);
    struct sigaction action;
    sigaction(a, 0, &action);
    check(was(2, a, -a) && action.sa_handler == SIG_DFL, "SA_RESETHAND");
    /* Signals that were blocked before stay so. */
    sigset_t set = set_of(b, 0), old, pending;
    handle(a, nest, 0, 0);
    sigprocmask(SIG_BLOCK, &set, &old);
    to_raise = b;
    raise(a);
    check(was(2, a, -a) && blocked(b), "what was blocked before stays blocked in a handler and after");
    sigpending(&pending);
    check(sigismember(&pending, b) && !sigismember(&pending, a), "and pending");
    set = set_of(b, 0);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    check(was(2, b, -b), "until SIG_UNBLOCK");
    set = set_of(SIGKILL, SIGSTOP);
    sigaddset(&set, SIGURG);
    sigprocmask(SIG_SETMASK, &set, 0);
    check(!blocked(SIGKILL) && !blocked(SIGSTOP) && blocked(SIGURG) && !blocked(b),
          "SIGKILL and SIGSTOP cannot be blocked");
    sigprocmask(SIG_SETMASK, &old, 0);
    check(!blocked(SIGURG), "SIG_SETMASK");
    fails(syscall(SYS_rt_sigprocmask, 99, &set, 0, 8), EINVAL, "an unknown way to change the mask");
    fails(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, 0, 4), EINVAL, "a set of another size");
    uint64_t both = 1ull << (SIGUSR2 - 1), was = 0, now = 0;
    equal(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &both, 0, 8), 0, "a mask that is set");
    both = 1ull << (SIGUSR1 - 1);
    equal(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &both, &both, 8), 0,
          "the new mask lies where the old one goes");
    equal(both, 1ull << (SIGUSR2 - 1), "and the old one is there");
    equal(syscall(SYS_rt_sigprocmask, 99, 0, &was, 8), 0, "who changes nothing may say any way");
    equal(was, 1ull << (SIGUSR1 - 1) | 1ull << (SIGUSR2 - 1), "both are blocked");
    both = ~0ull;
    fails(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &both, 8, 8), EFAULT, "the old mask goes nowhere");
    equal(syscall(SYS_rt_sigprocmask, 0, 0, &now, 8), 0, "the mask is asked for");
    equal(now, ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1)),
          "the new one holds nevertheless, but for two signals");
    fails(syscall(SYS_rt_sigprocmask, SIG_SETMASK, -8l, 0, 8), EFAULT, "a mask in the kernel");
    fails(syscall(SYS_rt_sigprocmask, SIG_SETMASK, 8, &now, 8), EFAULT, "a mask that is nowhere");
    equal(syscall(SYS_rt_sigprocmask, 0, 0, 0, 8), 0, "nothing is asked");
    sigprocmask(SIG_SETMASK, &old, 0);
    handle(a, nest, 0, SIGKILL);
    sigaction(a, 0, &action);
    equal(sigismember(&action.sa_mask, SIGKILL), 0, "nor in sa_mask");
    /* Two that were pending run one within the other, the first to return last. */
    set = set_of(a, b);
    handle(a, nest, 0, 0);
    sigprocmask(SIG_BLOCK, &set, &old);
    raise(b), raise(a);
    sigprocmask(SIG_SETMASK, &old, 0);
    equal(traced, 4, "two that were pending both run");
    traced = 0;
}

/* --- the alternate stack --- */

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

static char *alternate, elsewhere[65536];
static volatile int on_it, stack_error, stack_flags;
static void look_at_stack(int number)
{
    char here;
    stack_t now, other = {.ss_sp = alternate, .ss_size = 65536};
    (void)number;
    on_it = &here >= alternate && &here < alternate + 65536;
    sigaltstack(0, &now);
    stack_flags = now.ss_flags;
    errno = 0;
    stack_error = sigaltstack(&other, 0) ? errno : 0;
}

static void set_another(int number)
{
    stack_t other = {.ss_sp = elsewhere, .ss_size = sizeof elsewhere};
    (void)number;
    stack_error = sigaltstack(&other, 0) ? errno : 0;
}

static void name_another(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_stack.ss_sp = elsewhere;
}

static volatile char *deepest;
static void nested_on_stack(int number)
{
    char here;
    if (number == SIGUSR1) {
        deepest = &here;
        raise(SIGUSR2);
    } else
        on_it = &here >= alternate && &here < deepest;
}

static volatile int endless = 1, overflowed;
static int recurse(int n)
{
    volatile char part[1000];
    part[0] = n;
    return endless ? recurse(n + 1) + part[0] : 0;
}
static void on_overflow(int number)
{
    char here;
    (void)number;
    _exit(&here >= alternate && &here < alternate + 65536 ? 7 : 8);
}

static void stacks(void)
{
    stack_t stack, old;
    alternate = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    equal(sigaltstack(0, &old) || old.ss_flags != SS_DISABLE, 0, "there is none at first");
    stack = (stack_t){.ss_sp = alternate, .ss_size = 100};
    fails(sigaltstack(&stack, 0), ENOMEM, "one that is too small");
    stack = (stack_t){.ss_sp = alternate, .ss_size = 65536, .ss_flags = 99};
    fails(sigaltstack(&stack, 0), EINVAL, "unknown flags");
    stack.ss_flags = SS_ONSTACK | SS_DISABLE;
    fails(sigaltstack(&stack, 0), EINVAL, "on it and none at once");
    stack.ss_flags = 0;
    equal(sigaltstack(&stack, &old) || old.ss_flags != SS_DISABLE, 0, "sigaltstack");
    equal(sigaltstack(0, &old) || old.ss_sp != alternate || old.ss_size != 65536 || old.ss_flags != 0, 0,
          "tells what it was told");
    handle(SIGUSR1, look_at_stack, 0, 0);
    raise(SIGUSR1);
    equal(on_it, 0, "a handler without SA_ONSTACK runs on the ordinary stack");
    equal(stack_flags, 0, "which sigaltstack says");
    equal(stack_error, 0, "and may change the other");
    handle(SIGUSR1, look_at_stack, SA_ONSTACK, 0);
    raise(SIGUSR1);
    equal(on_it, 1, "with it on the alternate one");
    equal(stack_flags, SS_ONSTACK, "which sigaltstack says");
    equal(stack_error, EPERM, "and must not change it");
    stack.ss_flags = (int)SS_AUTODISARM;
    equal(sigaltstack(&stack, 0), 0, "one that disarms itself");
    equal(sigaltstack(0, &old) || old.ss_sp != alternate || old.ss_flags != (int)SS_AUTODISARM, 0, "says so");
    on_it = 0;
    raise(SIGUSR1);
    equal(on_it, 1, "a handler runs on it, too");
    equal(stack_flags, SS_DISABLE, "has none there");
    equal(sigaltstack(&stack, 0), 0, "the same again");
    handle(SIGUSR1, set_another, SA_ONSTACK, 0);
    raise(SIGUSR1);
    equal(stack_error, 0, "it may set another");
    equal(sigaltstack(0, &old) || old.ss_sp != alternate || old.ss_size != 65536 ||
              old.ss_flags != (int)SS_AUTODISARM,
          0, "which is gone when it has returned");
    stack.ss_flags = 0;
    equal(sigaltstack(&stack, 0), 0, "an ordinary one again");
    struct sigaction naming = {.sa_sigaction = name_another, .sa_flags = SA_ONSTACK | SA_SIGINFO};
    sigaction(SIGUSR1, &naming, 0);
    raise(SIGUSR1);
    equal(sigaltstack(0, &old) || old.ss_sp != alternate, 0,
          "a handler on the stack cannot change it by its frame");
    naming.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &naming, 0);
    raise(SIGUSR1);
    equal(sigaltstack(0, &old) || old.ss_sp != elsewhere, 0, "one on the ordinary stack can");
    equal(sigaltstack(&stack, 0), 0, "the first again");
    handle(SIGUSR1, nested_on_stack, SA_ONSTACK, 0);
    handle(SIGUSR2, nested_on_stack, SA_ONSTACK, 0);
    on_it = 0;
    raise(SIGUSR1);
    equal(on_it, 1, "a nested handler goes on below the first");
    int status;
    fflush(stdout);
    if (fork() == 0) {
        handle(SIGSEGV, on_overflow, SA_ONSTACK, 0);
        recurse(0);
    }
    wait(&status);
    equal(status, 7 << 8, "which lets a handler run when the ordinary stack is full, in a child, too");
    stack.ss_flags = SS_DISABLE;
    equal(sigaltstack(&stack, 0), 0, "SS_DISABLE");
    handle(SIGUSR1, look_at_stack, SA_ONSTACK, 0);
    raise(SIGUSR1);
    equal(on_it, 0, "then SA_ONSTACK means the ordinary one");
    munmap(alternate, 65536);
}

/* --- what a handler finds, and what it leaves alone --- */

static volatile long found_flags, found_stack;
static void look_around(int number)
{
    long flags;
    (void)number;
    __asm__ volatile("pushf; pop %0" : "=r"(flags));
    found_flags = flags;
    found_stack = (long)__builtin_frame_address(0);
}

/* A leaf function may keep things below its stack pointer. The direction flag is set meanwhile. */
static long lost_below(void)
{
    long below = 0, wrong = 0, result;
    for (int offset = 8; offset <= 128; offset += 8) {
        __asm__ volatile("sub $4096, %%rsp; mov %3, (%%rsp, %2); std; mov $62, %%eax; syscall; cld; mov "
                         "(%%rsp, %2), %0; add $4096, %%rsp"
                         : "=&r"(below), "=&a"(result)
                         : "r"(-(long)offset), "r"(0x123456789abcdef0 + offset), "D"((long)getpid()),
                           "S"((long)SIGUSR1)
                         : "rcx", "r11", "memory", "cc");
        wrong += below != 0x123456789abcdef0 + offset || result != 0;
    }
    return wrong;
}

static void frames(void)
{
    handle(SIGUSR1, look_around, 0, 0);
    equal(lost_below(), 0, "what lies in the red zone is left alone");
    equal(found_flags & (1 << 10), 0, "the direction flag is clear in a handler");
    equal(found_stack & 15, 0, "whose stack is aligned");
    struct sigaction action = {.sa_handler = look_around, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    alternate = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = alternate, .ss_size = 65536 - 24};
    sigaltstack(&stack, 0);
    raise(SIGUSR1);
    equal(found_stack & 15, 0, "also at the end of a stack that is not");
    handle(SIGUSR1, look_around, 0, 0);
    equal(lost_below(), 0, "the red zone, too, by a handler that does not ask for the stack there is");
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, 0);
    munmap(alternate, 65536);
}

/* --- what queues, and in what order --- */

static volatile int values[8], valued;
static siginfo_t info_seen;
static void keep_value(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    values[valued++ & 7] = info->si_value.sival_int;
    info_seen = *info;
}

static void queues(void)
{
    struct sigaction action = {.sa_sigaction = keep_value, .sa_flags = SA_SIGINFO};
    sigset_t set = set_of(SIGRTMIN, SIGRTMIN + 1), old, pending;
    sigaddset(&set, SIGUSR1);
    sigaction(SIGRTMIN, &action, 0);
    sigaction(SIGRTMIN + 1, &action, 0);
    sigaction(SIGUSR1, &action, 0);
    sigprocmask(SIG_BLOCK, &set, &old);
    for (int i = 0; i < 3; i++)
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 10 + i});
    for (int i = 0; i < 3; i++)
        sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 20 + i});
    sigpending(&pending);
    check(sigismember(&pending, SIGRTMIN) && sigismember(&pending, SIGUSR1) &&
              !sigismember(&pending, SIGRTMIN + 1),
          "what is pending");
    siginfo_t info;
    struct timespec none = {0, 0};
    sigset_t one = set_of(SIGRTMIN, 0);
    equal(sigtimedwait(&one, &info, &none) == SIGRTMIN && info.si_value.sival_int == 10, 1,
          "real-time signals queue, first in, first out");
    equal(info.si_code == SI_QUEUE && info.si_pid == getpid() && info.si_uid == getuid(), 1,
          "with who sent them");
    valued = 0;
    sigprocmask(SIG_SETMASK, &old, 0);
    equal(valued, 3, "the rest come, of ordinary ones one");
    int sum = 0;
    for (int i = 0; i < valued && i < 8; i++)
        sum += values[i];
    equal(sum, 11 + 12 + 20, "the first of those");
    sigprocmask(SIG_BLOCK, &set, 0);
    sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 1});
    signal(SIGRTMIN, SIG_IGN);
    sigpending(&pending);
    equal(sigismember(&pending, SIGRTMIN), 0, "SIG_IGN throws away what is pending");
    sigaction(SIGRTMIN, &action, 0);
    raise(SIGUSR1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        sigpending(&pending);
        _exit(sigismember(&pending, SIGUSR1) || !blocked(SIGUSR1));
    }
    int status;
    waitpid(child, &status, 0);
    equal(status, 0, "a child has the mask, and nothing pending");
    one = set_of(SIGUSR1, 0);
    equal(syscall(SYS_rt_sigtimedwait, &one, &info, 0, 8) == SIGUSR1 && info.si_code == SI_TKILL, 1,
          "raise is tkill");
    sigprocmask(SIG_SETMASK, &old, 0);
    fails(sigqueue(getpid(), 99, (union sigval){0}), EINVAL, "sigqueue of a wrong number");
    info = (siginfo_t){.si_code = SI_USER};
    fails(syscall(SYS_rt_sigqueueinfo, getppid(), SIGURG, &info), EPERM, "one cannot pretend to be kill");
    fails(syscall(SYS_tgkill, getpid(), 0, SIGUSR1), EINVAL, "tgkill of no thread");
    fails(syscall(SYS_tgkill, getpid() + 12345, syscall(SYS_gettid), SIGUSR1), ESRCH, "of another process's");
}

static int pends(int number)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, number);
}

/* SIGCONT and the signals that stop discard each other, of the process and of a thread. */
static void opposites(void)
{
    static const int stoppers[] = {SIGTSTP, SIGTTIN, SIGTTOU};
    sigset_t set = set_of(SIGCONT, SIGTSTP), old;
    sigaddset(&set, SIGTTIN);
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, &old);
    for (int i = 0; i < 3; i++) {
        kill(getpid(), SIGCONT);
        equal(pends(SIGCONT), 1, "SIGCONT is pending while it is blocked");
        raise(stoppers[i]);
        equal(pends(stoppers[i]) - pends(SIGCONT), 1, "a signal that stops takes its place");
        kill(getpid(), SIGCONT);
        equal(pends(SIGCONT) - pends(stoppers[i]), 1, "and SIGCONT that one's");
        raise(SIGCONT);
        kill(getpid(), stoppers[i]);
        equal(pends(stoppers[i]) - pends(SIGCONT), 1, "that which stops discards a thread's, too");
        raise(SIGCONT);
        equal(pends(SIGCONT) - pends(stoppers[i]), 1, "as a thread's SIGCONT does");
    }
    struct timespec none = {0, 0};
    while (sigtimedwait(&set, 0, &none) > 0)
        ;
    sigprocmask(SIG_SETMASK, &old, 0);
}

/* --- what a signal does to a call that waits --- */

/* The child sends `number` again and again until it is killed, so that it cannot come too early. */
static pid_t pester(int number)
{
    fflush(stdout);
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        for (;;) {
            usleep(10000);
            if (getppid() != parent)
                _exit(0);
            kill(parent, number);
        }
    return child;
}

static void stop_pestering(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}

static void nothing(int number) { (void)number; }

static void interrupted(void)
{
    int fd[2];
    char c;
    pipe(fd);
    handle(SIGUSR1, nothing, SA_RESTART, 0);
    pid_t child = pester(SIGUSR1);
    struct pollfd p = {fd[0], POLLIN, 0};
    fails(poll(&p, 1, -1), EINTR, "poll is not restarted, whatever SA_RESTART says");
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd[0], &set);
    fails(select(fd[0] + 1, &set, 0, 0, 0), EINTR, "nor is select");
    struct timespec left = {0, 0}, time = {100, 0};
    fails(nanosleep(&time, &left), EINTR, "nor is nanosleep");
    check(left.tv_sec >= 90 && left.tv_sec < 100, "which tells what was left");
    equal(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left), EINTR, "nor is clock_nanosleep");
    fails(pause(), EINTR, "nor is pause");
    sigset_t never = set_of(SIGUSR2, 0);
    sigprocmask(SIG_BLOCK, &never, 0);
    fails(sigwaitinfo(&never, 0), EINTR, "nor is sigwaitinfo");
    sigprocmask(SIG_UNBLOCK, &never, 0);
    stop_pestering(child);
    handle(SIGUSR1, nothing, 0, 0);
    child = pester(SIGUSR1);
    fails(read(fd[0], &c, 1), EINTR, "without SA_RESTART read is not restarted");
    fails(waitpid(child, 0, 0), EINTR, "nor waitpid");
    stop_pestering(child);
    /* A signal that is ignored interrupts nothing. */
    signal(SIGUSR1, SIG_IGN);
    child = pester(SIGUSR1);
    equal(poll(&p, 1, 100), 0, "an ignored signal interrupts nothing");
    stop_pestering(child);
    /* The mask of a call that waits. */
    sigset_t block = set_of(SIGUSR1, 0), none;
    sigemptyset(&none);
    handle(SIGUSR1, note, 0, 0);
    sigprocmask(SIG_BLOCK, &block, 0);
    traced = 0;
    raise(SIGUSR1);
    equal(poll(&p, 1, 0), 0, "a blocked signal does not disturb poll");
    fails(ppoll(&p, 1, &(struct timespec){10, 0}, &none), EINTR, "with the mask of ppoll it does");
    check(was(1, SIGUSR1), "after its handler");
    equal(blocked(SIGUSR1), 1, "and the mask is as before");
    raise(SIGUSR1);
    FD_SET(fd[0], &set);
    fails(pselect(fd[0] + 1, &set, 0, 0, &(struct timespec){10, 0}, &none), EINTR, "pselect");
    check(was(1, SIGUSR1) && blocked(SIGUSR1), "as well");
    write(fd[1], "x", 1);
    equal(ppoll(&p, 1, 0, &none) == 1 && blocked(SIGUSR1), 1, "when nothing comes the mask is put back, too");
    raise(SIGUSR1);
    fails(sigsuspend(&none), EINTR, "sigsuspend");
    check(was(1, SIGUSR1) && blocked(SIGUSR1), "puts it back after the handler");
    /* Stopped and continued, it waits on, and the mask of before is not forgotten over that. */
    fflush(stdout);
    child = fork();
    if (child == 0) {
        write(fd[1], "r", 1);
        sigsuspend(&none);
        _exit(blocked(SIGUSR1) && traced == 1 ? 0 : 1);
    }
    int status;
    read(fd[0], &c, 1);
    read(fd[0], &c, 1);
    /* More than once: each time it makes the call again, unless the next stop comes first. */
    for (int i = 0; i < 20; i++) {
        while (!sleeps(child))
            usleep(1000);
        kill(child, SIGSTOP);
        waitpid(child, &status, WUNTRACED);
        kill(child, SIGCONT);
        waitpid(child, &status, WCONTINUED);
    }
    while (!sleeps(child))
        usleep(1000);
    kill(child, SIGUSR1);
    waitpid(child, &status, 0);
    equal(status, 0, "a stop in between leaves the mask to be put back");
    sigprocmask(SIG_UNBLOCK, &block, 0);
    close(fd[0]), close(fd[1]);
}

/* --- threads --- */

static volatile pid_t ran_in;
static void where(int number)
{
    (void)number;
    ran_in = syscall(SYS_gettid);
}

static volatile int stop_waiting;
static volatile pid_t helper_id;
static void *wait_until_stopped(void *unused)
{
    helper_id = syscall(SYS_gettid);
    while (!stop_waiting)
        usleep(1000);
    return unused;
}

static void of_threads(void)
{
    pthread_t thread;
    sigset_t set = set_of(SIGUSR1, SIGUSR2), pending;
    handle(SIGUSR1, where, SA_RESTART, 0);
    handle(SIGUSR2, where, SA_RESTART, 0);
    pthread_create(&thread, 0, wait_until_stopped, 0);
    while (!helper_id)
        usleep(1000);
    sigprocmask(SIG_BLOCK, &set, 0);
    ran_in = 0;
    kill(getpid(), SIGUSR1);
    for (int i = 0; i < 5000 && !ran_in; i++)
        usleep(1000);
    equal(ran_in, helper_id, "a process's signal goes to the thread that does not block it");
    raise(SIGUSR2);
    usleep(20000);
    sigpending(&pending);
    check(sigismember(&pending, SIGUSR2) && !sigismember(&pending, SIGUSR1),
          "a thread's own waits for that thread");
    ran_in = 0;
    sigprocmask(SIG_UNBLOCK, &set, 0);
    equal(ran_in, getpid(), "and runs there");
    ran_in = 0;
    syscall(SYS_tgkill, getpid(), helper_id, SIGUSR1);
    for (int i = 0; i < 5000 && !ran_in; i++)
        usleep(1000);
    equal(ran_in, helper_id, "tgkill reaches the thread that it names");
    stop_waiting = 1;
    pthread_join(thread, 0);
}

/* --- exec and fork --- */

enum { USR1_IGNORED = 1, USR2_DEFAULT = 2, URG_BLOCKED = 4, URG_PENDING = 8, NO_STACK = 16 };

static int state(void)
{
    struct sigaction one, two;
    sigset_t pending;
    stack_t stack;
    sigaction(SIGUSR1, 0, &one);
    sigaction(SIGUSR2, 0, &two);
    sigpending(&pending);
    sigaltstack(0, &stack);
    return (one.sa_handler == SIG_IGN ? USR1_IGNORED : 0) | (two.sa_handler == SIG_DFL ? USR2_DEFAULT : 0) |
           (blocked(SIGTERM) ? URG_BLOCKED : 0) | (sigismember(&pending, SIGTERM) ? URG_PENDING : 0) |
           (stack.ss_flags == SS_DISABLE ? NO_STACK : 0);
}

static void inherited(void)
{
    static char stack_memory[65536];
    int status;
    fflush(stdout);
    if (fork() == 0) {
        sigset_t set = set_of(SIGTERM, 0);
        stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory};
        signal(SIGUSR1, SIG_IGN);
        signal(SIGUSR2, nothing);
        sigaltstack(&stack, 0);
        sigprocmask(SIG_BLOCK, &set, 0);
        raise(SIGTERM);
        if (state() != (USR1_IGNORED | URG_BLOCKED | URG_PENDING))
            _exit(99);
        execl("/proc/self/exe", "calls-signals", "--state", (char *)0);
        _exit(98);
    }
    wait(&status);
    equal(status >> 8, USR1_IGNORED | USR2_DEFAULT | URG_BLOCKED | URG_PENDING | NO_STACK,
          "exec keeps what is ignored, blocked and pending, and drops handlers and stack");
}

#include "calls-signals-children.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--state") == 0)
        return state();
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
