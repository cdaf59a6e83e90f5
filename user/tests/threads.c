/* Checks the native thread operations, between threads of one process and of several.
 *
 * Interface: threads; TAP on standard output.
 */
#define _GNU_SOURCE
#include "synthesis.h"
#include "tap.h"
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STACK 65536

/* The memory that two processes share. */
static struct shared {
    volatile long count, called, done, wrong, ready;
    volatile long tid;
} *s;

static char stacks[8][STACK] __attribute__((aligned(64)));
#define STACK_END(n) (stacks[n] + STACK)

static void nap(void)
{
    struct timespec t = {0, 2000000};
    nanosleep(&t, 0);
}

/* Waits for something that must come. */
#define UNTIL(condition)                       \
    ({                                         \
        int tries = 0;                         \
        while (!(condition) && tries++ < 1000) \
            nap();                             \
        (condition) != 0;                      \
    })

/* Whether the counter stands still. */
static int still(void)
{
    long before = s->count;
    for (int i = 0; i < 10; i++)
        nap();
    return s->count == before;
}

static int moves(void)
{
    long before = s->count;
    return UNTIL(s->count != before);
}

static int halted(syn_thread thread) { return UNTIL(syn_state(thread) & SYN_HALTED); }

/* Counts for ever, in a loop of two instructions, with a value of its own in every register. */
__attribute__((naked, noreturn)) static void spin(long unused)
{
    (void)unused;
    __asm__("movl $1, %eax\n movl $2, %ebx\n movl $3, %edx\n movl $4, %esi\n movl $5, %ebp\n movl $6, %r8d\n "
            "movl $7, %r9d\n"
            "movl $8, %r10d\n movl $9, %r11d\n movl $10, %r12d\n movl $11, %r13d\n movl $12, %r14d\n movl "
            "$13, %r15d\n"
            "movl $14, %ecx\n movq %rcx, %xmm0\n movq %rcx, -8(%rsp)\n movq s(%rip), %rdi\n"
            "1: incq (%rdi)\n jmp 1b");
}

/* Counts, and looks whether everything that an interruption might spoil is there. */
__attribute__((naked, noreturn)) static void watch(long unused)
{
    (void)unused;
    __asm__("movq s(%rip), %rdi\n"
            "1: movl $1, %eax\n movl $2, %ebx\n movl $3, %edx\n movl $4, %esi\n movl $5, %ebp\n movl $6, "
            "%r8d\n movl $7, %r9d\n"
            "movl $8, %r10d\n movl $9, %r11d\n movl $10, %r12d\n movl $11, %r13d\n movl $12, %r14d\n movl "
            "$13, %r15d\n"
            "movl $14, %ecx\n movq %rcx, %xmm0\n movq %rcx, -8(%rsp)\n movq %rcx, -120(%rsp)\n stc\n"
            "movl $200, %ecx\n 2: dec %ecx\n jnz 2b\n"
            "jnc 3f\n"
            "cmpl $1, %eax\n jne 3f\n cmpl $2, %ebx\n jne 3f\n cmpl $3, %edx\n jne 3f\n cmpl $4, %esi\n jne "
            "3f\n cmpl $5, %ebp\n jne 3f\n"
            "cmpl $6, %r8d\n jne 3f\n cmpl $7, %r9d\n jne 3f\n cmpl $8, %r10d\n jne 3f\n cmpl $9, %r11d\n "
            "jne 3f\n cmpl $10, %r12d\n jne 3f\n"
            "cmpl $11, %r13d\n jne 3f\n cmpl $12, %r14d\n jne 3f\n cmpl $13, %r15d\n jne 3f\n"
            "movq %xmm0, %rcx\n cmpq $14, %rcx\n jne 3f\n cmpq $14, -8(%rsp)\n jne 3f\n cmpq $14, "
            "-120(%rsp)\n jne 3f\n"
            "incq (%rdi)\n jmp 1b\n"
            "3: movq $1, 24(%rdi)\n jmp 1b");
}
_Static_assert(__builtin_offsetof(struct shared, wrong) == 24, "the watcher knows where");

/* An interrupt procedure that spoils what it can. */
static void procedure(void)
{
    s->called++;
    __asm__ volatile("pxor %%xmm0, %%xmm0\n xor %%ebx, %%ebx\n xor %%r12d, %%r12d\n xor %%eax, %%eax\n xor "
                     "%%ecx, %%ecx\n xor %%edx, %%edx\n"
                     "xor %%esi, %%esi\n xor %%r8d, %%r8d\n xor %%r9d, %%r9d\n xor %%r10d, %%r10d\n xor "
                     "%%r11d, %%r11d\n clc"
                     :
                     :
                     : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "xmm0", "cc");
    syscall(SYS_getppid);
}

/* Gives way once, with a value of its own in every register; whether one is another afterwards. */
__attribute__((naked)) static long gives(long seed)
{
    (void)seed;
    __asm__(
        "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "lea 1(%rdi), %rsi\n lea 2(%rdi), %rdx\n lea 3(%rdi), %r8\n lea 4(%rdi), %r9\n lea 5(%rdi), %r10\n "
        "lea 6(%rdi), %rbx\n"
        "lea 7(%rdi), %rbp\n lea 8(%rdi), %r12\n lea 9(%rdi), %r13\n lea 10(%rdi), %r14\n lea 11(%rdi), "
        "%r15\n"
        "movq %rdi, %xmm7\n mov %rdi, -8(%rsp)\n mov $24, %eax\n syscall\n"
        "sub $1, %rsi\n sub $2, %rdx\n sub $3, %r8\n sub $4, %r9\n sub $5, %r10\n sub $6, %rbx\n"
        "sub $7, %rbp\n sub $8, %r12\n sub $9, %r13\n sub $10, %r14\n sub $11, %r15\n movq %xmm7, %rcx\n mov "
        "-8(%rsp), %r11\n"
        "xor %rdi, %rsi\n xor %rdi, %rdx\n xor %rdi, %r8\n xor %rdi, %r9\n xor %rdi, %r10\n xor %rdi, %rbx\n"
        "xor %rdi, %rbp\n xor %rdi, %r12\n xor %rdi, %r13\n xor %rdi, %r14\n xor %rdi, %r15\n xor %rdi, "
        "%rcx\n xor %rdi, %r11\n"
        "or %rsi, %rax\n or %rdx, %rax\n or %r8, %rax\n or %r9, %rax\n or %r10, %rax\n or %rbx, %rax\n"
        "or %rbp, %rax\n or %r12, %rax\n or %r13, %rax\n or %r14, %rax\n or %r15, %rax\n or %rcx, %rax\n or "
        "%r11, %rax\n"
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret");
}

/* Gives way again and again, and sleeps now and then, so that it is switched out in both ways. */
static void giver(long seed)
{
    for (long n = 0; !s->done; n++) {
        if (gives(seed) != 0)
            s->wrong = 1;
        if (n % 16 == 15)
            nap();
        s->count++;
    }
    s->ready = seed;
}

static void finish(long argument) { s->done = argument; }

static void reset(void) { memset(s, 0, sizeof *s); }

static void life(void)
{
    reset();
    check(syn_handle(0) > 0, "the caller has a handle");
    equal(syn_handle(gettid()), syn_handle(0), "its own by its number");
    equal(syn_handle(999999), -ESRCH, "no such number");
    syn_thread made = syn_create(finish, STACK_END(0), 77, 0, 0);
    check(made > 0, "create");
    check(UNTIL(s->done == 77), "it ran with its argument");
    check(UNTIL(syn_state(made) == -ESRCH), "and ended when it returned");
    equal(syn_resume(made), -ESRCH, "its handle leads nowhere");
    equal(syn_create((void (*)(long))-4096L, STACK_END(0), 0, 0, 0), -EFAULT, "an entry in the kernel");
    equal(syn_create(finish, (void *)64, 0, 0, 0), -EFAULT, "a stack that is none");
    equal(syn_create(finish, STACK_END(0), 0, 0, 64), -EINVAL, "unknown flags");

    s->done = 0;
    made = syn_create(finish, STACK_END(0), 5, 0, SYN_CREATE_SUSPENDED);
    check(halted(made) && s->done == 0, "created suspended");
    equal(syn_resume(made), 0, "resumed");
    check(UNTIL(s->done == 5), "it runs");
}

static void suspension(syn_thread spinner, const char *whose)
{
    printf("# %s\n", whose);
    check(moves(), "it runs");
    for (int i = 0; i < 5; i++) {
        equal(syn_suspend(spinner), 0, "suspend");
        check(halted(spinner), "it comes to rest");
        check(still(), "and rests");
        equal(syn_state(spinner) & (SYN_SUSPENDED | SYN_STOPPING), SYN_SUSPENDED, "its state");
        equal(syn_resume(spinner), 0, "resume");
        check(moves(), "it goes on");
    }
    equal(syn_stop(spinner), 0, "stop");
    check(halted(spinner) && still(), "it has stopped");
    long before = s->count;
    int stepped = 0;
    for (int i = 0; i < 20; i++)
        stepped += syn_step(spinner) == 0 && halted(spinner);
    equal(stepped, 20, "twenty steps");
    equal(s->count - before, 10, "of a loop of two instructions");
    equal(syn_resume(spinner), 0, "resume from the stopped state");
    check(moves(), "goes on");
    equal(syn_step(spinner), -EBUSY, "a running thread is not stepped");
}

static void interruption(syn_thread watcher)
{
    check(moves(), "the watcher runs");
    for (int i = 1; i <= 50; i++) {
        equal(syn_interrupt(watcher, procedure), 0, "interrupt");
        check(UNTIL(s->called == i), "it called the procedure");
    }
    check(moves(), "goes on");
    equal(s->wrong, 0, "with everything as it was");

    equal(syn_suspend(watcher), 0, "suspend");
    check(halted(watcher) && still(), "it rests");
    s->called = 0;
    equal(syn_interrupt(watcher, procedure), 0, "interrupt while suspended");
    check(UNTIL(s->called == 1), "the procedure runs");
    check(still() && halted(watcher), "and the thread is suspended again");
    syn_stop(watcher);
    syn_interrupt(watcher, procedure);
    check(still() && s->called == 1, "a stopped one runs nothing");
    syn_resume(watcher);
    check(UNTIL(s->called == 2) && moves(), "it does when it is resumed");

    equal(syn_signal(watcher, 3), -EINVAL, "a signal without a procedure");
    equal(syn_setsignal(watcher, 3, procedure), 0, "setsignal");
    equal(syn_setsignal(watcher, 32, procedure), -EINVAL, "a number too large");
    equal(syn_setsignal(watcher, 3, (void (*)(void))(1L << 63)), -EFAULT, "a procedure in the kernel");
    for (int i = 3; i < 20; i++) {
        syn_signal(watcher, 3);
        check(UNTIL(s->called == i), "signal");
    }
    equal(s->wrong, 0, "everything as it was");
    syn_stop(watcher);
    halted(watcher);
    int taken = 0;
    while (taken < 100 && syn_signal(watcher, 3) == 0)
        taken++;
    check(taken >= 4 && taken < 100, "pending procedures are bounded");
    equal(syn_signal(watcher, 3), -EAGAIN, "and the rest refused");
    syn_resume(watcher);
    check(UNTIL(s->called == 19 + taken), "all of them run");
}

static int pipe_ends[2];
static void reader(long unused)
{
    char c = 0;
    (void)unused;
    s->ready = 1;
    long got = syn_call(0, 0, 0, 0, 0, 0) > 0 ? read(pipe_ends[0], &c, 1) : -1;
    s->done = got == 1 ? c : -1;
}

static void in_a_call(void)
{
    reset();
    check(pipe(pipe_ends) == 0, "a pipe");
    syn_thread thread = syn_create(reader, STACK_END(1), 0, 0, 0);
    check(UNTIL(s->ready && syn_state(thread) & SYN_ASLEEP), "a reader waits");
    for (int i = 1; i <= 10; i++) {
        syn_interrupt(thread, procedure);
        check(UNTIL(s->called == i), "a procedure in the middle of a call");
    }
    check(UNTIL(syn_state(thread) & SYN_ASLEEP) && s->done == 0, "it waits again");
    syn_stop(thread);
    check(halted(thread), "stopped in a call");
    check(write(pipe_ends[1], "x", 1) == 1, "data come");
    nap();
    equal(s->done, 0, "not for one who is stopped");
    syn_resume(thread);
    check(UNTIL(s->done == 'x'), "but afterwards");
    close(pipe_ends[0]), close(pipe_ends[1]);
}

static void waiter(long unused)
{
    (void)unused;
    for (long event = 1; event < 64; event += 31) {
        syn_wait(event);
        s->count++;
    }
    s->done = 1;
}

static void events(void)
{
    reset();
    syn_thread thread = syn_create(waiter, STACK_END(2), 0, 0, 0);
    syn_notify(thread, 32);
    check(UNTIL(syn_state(thread) & SYN_ASLEEP) && s->count == 0, "another event wakes nobody");
    syn_notify(thread, 1);
    check(UNTIL(s->count == 2), "one that came before counts");
    equal(syn_notify(thread, 64), -EINVAL, "no such event");
    syn_notify(thread, 63);
    check(UNTIL(s->done), "the last");
}

static void sleeper(long rounds)
{
    while (rounds--) {
        syn_suspend(0);
        s->count++;
    }
    s->done = 1;
}

static void self_suspension(void)
{
    reset();
    syn_thread thread = syn_create(sleeper, STACK_END(3), 3, 0, 0);
    check(halted(thread) && s->count == 0, "a thread suspends itself");
    syn_resume(thread);
    check(UNTIL(s->count == 1) && halted(thread), "once for each resume");
    syn_interrupt(thread, procedure);
    check(UNTIL(s->called == 1) && halted(thread) && s->count == 1, "procedures run meanwhile");
    syn_resume(thread);
    check(UNTIL(s->count == 2) && halted(thread), "twice");
    syn_resume(thread);
    check(UNTIL(s->done), "three times");
    reset();
    syn_resume(0);
    equal(syn_suspend(0), 0, "a resume that came before ends it at once");
}

static void quiet(int number) { (void)number; }

static void destruction(void)
{
    reset();
    syn_thread spinner = syn_create(spin, STACK_END(4), 0, 0, 0);
    check(moves(), "a spinner");
    equal(syn_destroy(spinner), 0, "destroy");
    check(UNTIL(syn_state(spinner) == -ESRCH) && still(), "it is gone");
    check(pipe(pipe_ends) == 0, "a pipe");
    syn_thread asleep = syn_create(reader, STACK_END(1), 0, 0, 0);
    check(UNTIL(s->ready && syn_state(asleep) & SYN_ASLEEP), "one that sleeps");
    syn_destroy(asleep);
    check(UNTIL(syn_state(asleep) == -ESRCH), "is gone, too");
    close(pipe_ends[0]), close(pipe_ends[1]);
    for (int how = 0; how < 2; how++) {
        spinner = syn_create(spin, STACK_END(4), 0, 0, 0);
        how ? syn_stop(spinner) : syn_suspend(spinner);
        halted(spinner);
        syn_destroy(spinner);
        check(UNTIL(syn_state(spinner) == -ESRCH), how ? "a stopped one" : "a suspended one");
    }
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        spin(0);
    check(moves(), "another process");
    syn_destroy(syn_handle(child));
    waitpid(child, &status, 0);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "ends with its last thread");
}

static void others(void)
{
    reset();
    pid_t child = fork();
    if (child == 0)
        spin(0);
    suspension(syn_handle(child), "a thread of another process");
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    reset();
    child = fork();
    if (child == 0)
        watch(0);
    printf("# procedures of another process\n");
    interruption(syn_handle(child));
    for (int how = 0; how < 2; how++) {
        how ? syn_stop(syn_handle(child)) : syn_suspend(syn_handle(child));
        halted(syn_handle(child));
        kill(child, SIGKILL);
        check(waitpid(child, 0, 0) == child,
              how ? "SIGKILL ends a stopped process" : "SIGKILL ends a suspended process");
        fflush(stdout);
        if ((child = fork()) == 0)
            spin(0);
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}

/* The first thread of the kernel's own in /syn/threads with this name. */
static syn_thread named(const char *name)
{
    char line[256], found[32];
    syn_thread handle = 0;
    FILE *f = fopen("/syn/threads", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *last = strrchr(line, ' ');
        if (sscanf(line, "%*s %31s", found) == 1 && strcmp(found, name) == 0 && last && !handle)
            handle = atol(last + 1);
    }
    if (f)
        fclose(f);
    return handle;
}

/* The outcome of an attempt to halt `thread`. An attempt that should have been refused is undone, or
 * nobody would be left to tell. */
static long halting(long result, syn_thread thread)
{
    if (result == 0)
        syn_resume(thread);
    return result;
}

static void permission(void)
{
    int status = -1;
    syn_thread parent = syn_handle(0), idle = named("idle0"), kernel = named("signals");
    check(idle > 0 && kernel > 0, "threads of the kernel have handles");
    /* After the first that is not refused the kernel is not what it was. */
    if (!equal(halting(syn_stop(idle), idle), -EPERM, "an idle thread is not stopped") ||
        !equal(syn_interrupt(kernel, procedure), -EPERM, "the kernel's threads run no user's procedures") ||
        !equal(syn_destroy(kernel), -EPERM, "and are not destroyed"))
        _exit(1);
    equal(syn_stop(kernel), 0, "but stopped");
    check(halted(kernel), "they stop");
    equal(syn_resume(kernel), 0, "and go on");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int good = setuid(1000) == 0 && halting(syn_suspend(parent), parent) == -EPERM &&
                   syn_destroy(parent) == -EPERM && halting(syn_stop(kernel), kernel) == -EPERM &&
                   syn_suspend(0x7fffffffffff) == -ESRCH && syn_state(0) >= 0;
        _exit(!good);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "another user may do nothing of it");
    equal(syn_call(99, 0, 0, 0, 0, 0), -ENOSYS, "an unknown operation");
}

static void stray(void)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        ((void (*)(void))0xfffffffffffff000)();
    waitpid(child, &status, 0);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "returning where nobody called is a fault");
}

static void with_signals(void)
{
    reset();
    syn_thread watcher = syn_create(watch, STACK_END(5), 0, 0, 0);
    signal(SIGUSR1, quiet);
    check(moves(), "the watcher runs");
    long taken = 0;
    for (int i = 0; i < 200; i++) {
        taken += syn_interrupt(watcher, procedure) == 0;
        kill(getpid(), SIGUSR1);
        syn_suspend(watcher);
        syn_resume(watcher);
    }
    check(taken > 0, "some procedures are taken");
    check(UNTIL(s->called == taken), "each of them runs, among signals and suspensions");
    check(moves() && !s->wrong, "and the watcher goes on");
    syn_destroy(watcher);
}

static void giving(void)
{
    reset();
    syn_thread first = syn_create(giver, STACK_END(5), 0x1234567800, 0, 0);
    syn_thread second = syn_create(giver, STACK_END(4), 0x4321000000, 0, 0);
    check(moves(), "threads give way to each other");
    long taken = 0;
    for (int i = 0; i < 500; i++) {
        taken += syn_interrupt(first, procedure) == 0;
        syn_suspend(second);
        gives(i);
        syn_resume(second);
        gives(-i);
    }
    check(taken > 0 && UNTIL(s->called == taken), "procedures run meanwhile");
    check(moves() && !s->wrong, "every register is kept");
    s->done = 1;
    check(UNTIL(syn_state(first) == -ESRCH && syn_state(second) == -ESRCH), "they end");
    check(s->ready == 0x1234567800 || s->ready == 0x4321000000, "by their own return");
}

int main(void)
{
    s = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    life();
    reset();
    syn_thread spinner = syn_create(spin, STACK_END(6), 0, 0, 0);
    suspension(spinner, "a thread of this process");
    syn_destroy(spinner);
    reset();
    syn_thread watcher = syn_create(watch, STACK_END(7), 0, 0, 0);
    interruption(watcher);
    syn_destroy(watcher);
    in_a_call();
    events();
    self_suspension();
    destruction();
    others();
    permission();
    stray();
    with_signals();
    giving();
    return done();
}
