/* Registers that no program can run with: a program counter that is not canonical or not the user's, by every
 * way it can be set.
 *
 * Interface: no arguments; one line a check (tap.h). Runs on Linux too. The thread gets SIGSEGV, again and
 * again as often as it is suppressed; the machine goes on.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tap.h"

static const struct place {
    unsigned long address;
    int canonical;
    const char *name;
} places[] = {
    {0x8000000000001000, 0, "not canonical"},
    {0x0000800000000000, 0, "the first of the hole"},
    {0xffff7fffffffffff, 0, "the last of the hole"},
    {0x00007ffffffff000, 1, "the last page below the hole"},
    {0xffff800000000000, 1, "the first above the hole"},
    {0xffffffff80100000, 1, "the kernel's"},
};

enum { PLACES = sizeof places / sizeof *places, AGAIN = 20 };

static sigjmp_buf back;
static siginfo_t seen;
static unsigned long at;
static const struct place *place;

static void on_fault(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    seen = *info;
    at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    siglongjmp(back, 1);
}

static void on_usr2(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = place->address;
}

static void handle(int signo, void *handler)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    action.sa_sigaction = handler;
    sigaction(signo, &action, 0);
}

/* The thread is told what its place deserves. */
static void faults(int signo, const char *how)
{
    char name[120];
    snprintf(name, sizeof name, "%s: %s", how, place->name);
    memset(&seen, 0, sizeof seen);
    at = 0;
    if (sigsetjmp(back, 1) == 0) {
        raise(signo);
        check(0, name);
        return;
    }
    if (!check(at == place->address && seen.si_code == (place->canonical ? SEGV_MAPERR : SI_KERNEL) &&
                   (unsigned long)seen.si_addr == (place->canonical ? place->address : 0),
               name))
        printf("# at %lx, code %d, address %p\n", at, seen.si_code, seen.si_addr);
}

static void by_signals(void)
{
    handle(SIGSEGV, on_fault);
    handle(SIGUSR2, on_usr2);
    for (place = places; place < places + PLACES; place++) {
        handle(SIGUSR1, (void *)place->address);
        faults(SIGUSR1, "a handler");
        faults(SIGUSR2, "the return of a handler");
    }
    signal(SIGSEGV, SIG_DFL);
}

static void well(void) { _exit(7); }

/* The tracer lets the thread go on without the signal, as often as it likes. */
static void suppressed(int by_registers)
{
    char name[120];
    struct user_regs_struct regs;
    int status, rounds = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        handle(SIGUSR1, (void *)place->address);
        raise(by_registers ? SIGSTOP : SIGUSR1);
        _exit(1);
    }
    waitpid(child, &status, 0);
    if (by_registers) {
        ptrace(PTRACE_GETREGS, child, 0, &regs);
        regs.rip = place->address;
        ptrace(PTRACE_SETREGS, child, 0, &regs);
        ptrace(PTRACE_CONT, child, 0, 0);
    } else {
        ptrace(PTRACE_CONT, child, 0, SIGUSR1);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSEGV) {
        ptrace(PTRACE_GETREGS, child, 0, &regs);
        if (regs.rip != place->address)
            break;
        if (++rounds == AGAIN) {
            regs.rip = (unsigned long)well;
            regs.rsp &= ~15ul;
            regs.rsp -= 8;
            ptrace(PTRACE_SETREGS, child, 0, &regs);
        }
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    snprintf(name, sizeof name, "%s, suppressed: %s", by_registers ? "registers by the tracer" : "a handler",
             place->name);
    if (!check(rounds == AGAIN && WIFEXITED(status) && WEXITSTATUS(status) == 7, name)) {
        printf("# %d rounds, status %x, at %llx\n", rounds, status, regs.rip);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
}

static void *ignore(void *nothing)
{
    for (;;)
        signal(SIGSEGV, SIG_IGN);
    return nothing;
}

/* Another thread ignores the signal all the time. */
static void ignored(void)
{
    char name[120];
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        handle(SIGUSR1, (void *)place->address);
        pthread_create(&thread, 0, ignore, 0);
        raise(SIGUSR1);
        _exit(1);
    }
    waitpid(child, &status, 0);
    snprintf(name, sizeof name, "a handler, ignored by another: %s", place->name);
    equal(status & 0x7f, SIGSEGV, name);
}

/* A stack pointer may be anything; what is done with it is what faults. */
static void stacks(void)
{
    for (int i = 0; i < 3; i++) {
        char name[120];
        int status = 0;
        unsigned long sp = places[i].address;
        register long r10 __asm__("r10") = 0;
        register long r8 __asm__("r8") = 0;
        long pid;
        __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\t"
                         "mov $39, %%eax\n\tsyscall\n\tmov $24, %%eax\n\tsyscall\n\t"
                         "mov $5, %%edi\n\tmov $60, %%eax\n\tsyscall\n1:"
                         : "=a"(pid)
                         : "a"(SYS_clone), "D"(SIGCHLD), "S"(sp), "d"(0), "r"(r10), "r"(r8)
                         : "rcx", "r11", "memory");
        snprintf(name, sizeof name, "a stack that is %s does not matter to who does not use it",
                 places[i].name);
        check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 5, name);
        __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\tpush %%rax\n\tud2\n1:"
                         : "=a"(pid)
                         : "a"(SYS_clone), "D"(SIGCHLD), "S"(sp), "d"(0), "r"(r10), "r"(r8)
                         : "rcx", "r11", "memory");
        snprintf(name, sizeof name, "a push to it is a fault: %s", places[i].name);
        check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
                  (WTERMSIG(status) == SIGBUS || WTERMSIG(status) == SIGSEGV),
              name);
    }
}

/* A program whose entry is no address. */
static void programs(const char *own)
{
    static char bytes[8 << 20];
    char file[64], name[120];
    int from = open(own, O_RDONLY);
    ssize_t length = read(from, bytes, sizeof bytes);
    close(from);
    check(length > 64, "the program reads itself");
    snprintf(file, sizeof file, "/tmp/rip-%d", getpid());
    for (place = places; place < places + PLACES; place++) {
        int status = 0;
        memcpy(bytes + 24, &place->address, 8);
        int to = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0700);
        int good = write(to, bytes, length) == length;
        close(to);
        pid_t child = vfork();
        if (child == 0) {
            execl(file, file, "entry", (char *)0);
            _exit(1);
        }
        waitpid(child, &status, 0);
        snprintf(name, sizeof name, "a program's entry: %s", place->name);
        /* Refused at once, or begun and ended. */
        int refused = WIFEXITED(status) && WEXITSTATUS(status) == 1;
        if (!check(good && (refused || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)), name))
            printf("# status %x\n", status);
    }
    unlink(file);
}

/* The flags that a returning handler asks for are not given. */
static void on_flags(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info;
    /* All but TF; IOPL, NT, VM and the like among them. */
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] = ~0x100ul & ~0x40000ul;
}

/* The state of the vector registers lies where no memory is. */
static unsigned long state;

static void on_vectors(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info;
    ((ucontext_t *)context)->uc_mcontext.fpregs = (void *)state;
}

static void vectors(void)
{
    static const unsigned long states[] = {-16ul, -64ul, -512ul, 0x7fffffffefc0, 1ul << 47, 1ul << 63, 64};
    handle(SIGSEGV, on_fault);
    handle(SIGUSR1, on_vectors);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        char name[80];
        state = states[i];
        memset(&seen, 0, sizeof seen);
        if (sigsetjmp(back, 1) == 0)
            raise(SIGUSR1);
        snprintf(name, sizeof name, "vector registers from %lx", state);
        equal(seen.si_signo, SIGSEGV, name);
    }
    signal(SIGSEGV, SIG_DFL);
}

static void flags(void)
{
    unsigned long now;
    handle(SIGUSR1, on_flags);
    raise(SIGUSR1);
    __asm__ volatile("pushfq\n\tpopq %0\n\tcld" : "=r"(now));
    equal(now & (3ul << 12 | 1ul << 17 | 3ul << 19), 0, "no right to ports, no virtual mode");
    equal(now & 0x200, 0x200, "interrupts stay on");
    __asm__ volatile("pushfq\n\torq $0x4000, (%%rsp)\n\tpopfq" ::: "cc", "memory");
    for (volatile long i = 0; i < 30000000; i++)
        ;
    for (int i = 0; i < 1000; i++)
        syscall(SYS_getpid);
    kill(getpid(), 0);
    __asm__ volatile("pushfq\n\tmovq (%%rsp), %0\n\tandq $~0x4000, (%%rsp)\n\tpopfq"
                     : "=r"(now)::"cc", "memory");
    equal(now & 0x4000, 0x4000, "the nested-task flag is the program's own affair");
}

/* A far return to these words; the program may not return to any of them. */
static void far_return(unsigned long code, unsigned long stack, unsigned long to, int whole)
{
    if (whole)
        __asm__ volatile("mov %%rsp, %%rax\n push %[stack]\n push %%rax\n push $0x202\n push %[code]\n"
                         "push %[to]\n iretq"
                         :
                         : [code] "r"(code), [stack] "r"(stack), [to] "r"(to)
                         : "rax", "memory");
    else
        __asm__ volatile("push %[code]\n push %[to]\n lretq"
                         :
                         : [code] "r"(code), [to] "r"(to)
                         : "memory");
}

/* Instructions that change the code segment, which the processor refuses. */
static void far_returns(void)
{
    enum { USER_CODE = 0x33, USER_DATA = 0x2b };
    static const struct {
        unsigned long code, stack, to;
        const char *name;
    } all[] = {
        {0x1234, USER_DATA, 0x1000, "a segment that is none"},
        {0x10, 0x18, 0x1000, "the kernel's segments"},
        {USER_CODE, 0x1230, 0x1000, "a stack that is none"},
        {0, 0, 0, "nothing"},
        {USER_DATA, USER_DATA, 0x1000, "a segment of data"},
        {USER_CODE, USER_DATA, 0x8000000000001000, "no address"},
    };
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        char name[120];
        int status;
        snprintf(name, sizeof name, "%s to %s", i % 2 ? "iretq" : "lretq", all[i / 2].name);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            /* A fault that comes again and again would be without an end. */
            struct rlimit limit = {1, 1};
            setrlimit(RLIMIT_CPU, &limit);
            far_return(all[i / 2].code, all[i / 2].stack, all[i / 2].to, i % 2);
            _exit(0);
        }
        waitpid(child, &status, 0);
        equal(WIFSIGNALED(status) ? WTERMSIG(status) : -1, SIGSEGV, name);
    }
}

static unsigned long error_word;

static void on_read(int signo, siginfo_t *info, void *context)
{
    (void)signo;
    seen = *info;
    error_word = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR];
    siglongjmp(back, 1);
}

/* The signal does not say whether the kernel has something at an address: it is always a read that was
 * refused. */
static void probes(void)
{
    volatile unsigned long others = 0, count = 0, probe = 0xffffffff80000000;
    handle(SIGSEGV, on_read);
    for (; probe < 0xffffffffff000000; probe += 0x3ff000, count++)
        if (sigsetjmp(back, 1) == 0)
            others += 1 + *(volatile char *)probe;
        else
            others += error_word != 5 || seen.si_code != SEGV_MAPERR || seen.si_addr != (void *)probe;
    equal(others, 0, "each of the kernel's addresses says the same");
    check(count > 100, "many are asked");
}

int main(int argc, char **argv)
{
    static char other[1 << 16];
    stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    if (argc > 1)
        return 1;
    sigaltstack(&stack, 0);
    by_signals();
    for (place = places; place < places + PLACES; place++) {
        suppressed(0);
        suppressed(1);
        ignored();
    }
    vectors();
    stacks();
    far_returns();
    probes();
    programs(argv[0]);
    flags();
    return done();
}
