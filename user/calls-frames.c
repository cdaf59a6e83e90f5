/* Signals that a thread sends itself, register by register: what the handler finds in its frame and in its registers, and what is there when it
 * has returned. Passes on Linux and must pass here.
 *
 * Interface: calls-frames [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "kit.h"
#include <fenv.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* rbx, rbp, r8, r9, r10, r12 to r15, xmm7, as `visit` leaves them; the result; the stack pointer before and behind. */
struct after {
    uint64_t kept[10], result, rsp, rsp_after, rdi, rsi, rdx;
};
struct after after;
uint32_t control_after;

/* A call with known values in all registers, and control word 0x9fc0 of the vector unit. */
long visit(long number, long a, long b, long c);
__asm__(".text\n.globl visit\nvisit:\n"
        "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n sub $16, %rsp\n"
        "movl $0x9fc0, (%rsp)\n ldmxcsr (%rsp)\n"
        "mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n"
        "mov $0x1003, %ebx\n mov $0x1005, %ebp\n mov $0x1008, %r8d\n mov $0x1009, %r9d\n mov $0x100a, %r10d\n"
        "mov $0x100c, %r12d\n mov $0x100d, %r13d\n mov $0x100e, %r14d\n movabs $0xfedcba9876543210, %r15\n"
        "movq %r15, %xmm7\n mov %rsp, after+88(%rip)\n"
        ".globl visited\nsyscall\nvisited:\n"
        "mov %rbx, after(%rip)\n mov %rbp, after+8(%rip)\n mov %r8, after+16(%rip)\n mov %r9, after+24(%rip)\n"
        "mov %r10, after+32(%rip)\n mov %r12, after+40(%rip)\n mov %r13, after+48(%rip)\n mov %r14, after+56(%rip)\n"
        "mov %r15, after+64(%rip)\n movq %xmm7, after+72(%rip)\n mov %rax, after+80(%rip)\n mov %rsp, after+96(%rip)\n"
        "mov %rdi, after+104(%rip)\n mov %rsi, after+112(%rip)\n mov %rdx, after+120(%rip)\n"
        "stmxcsr control_after(%rip)\n movl $0x1f80, (%rsp)\n ldmxcsr (%rsp)\n"
        "add $16, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");
extern char visited[];

static const uint64_t known[10] = {0x1003, 0x1005, 0x1008, 0x1009, 0x100a, 0x100c, 0x100d, 0x100e, 0xfedcba9876543210, 0xfedcba9876543210};

static volatile int calls, wrong;
static siginfo_t told;
static ucontext_t found;
static uint32_t control_inside;
static uint64_t vector_inside;
static void (*change)(ucontext_t *);

static void handler(int number, siginfo_t *info, void *context)
{
    __asm__ volatile("stmxcsr %0\n movq %%xmm7, %1" : "=m"(control_inside), "=m"(vector_inside));
    ucontext_t *u = context;
    calls++;
    told = *info;
    found = *u;
    wrong |= number != info->si_signo;
    /* The program's registers are not the handler's. */
    __asm__ volatile("mov $7, %%r12d\n mov $7, %%r15d\n movq %%r15, %%xmm7" : : : "r12", "r15", "xmm7");
    if (change)
        change(u);
}

static void have(int number, int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(number, &action, 0);
}

/* Everything is as it was before the call. */
static void restored(const char *what)
{
    char name[128];
    int good = after.rsp == after.rsp_after && control_after == 0x9fc0;
    for (int i = 0; i < 10; i++)
        good &= after.kept[i] == known[i];
    snprintf(name, sizeof name, "%s: registers are kept", what);
    check(good, name);
}

static void found_right(const char *what, int number, int code)
{
    char name[128];
    greg_t *r = found.uc_mcontext.gregs;
    snprintf(name, sizeof name, "%s: the frame has the registers", what);
    check(r[REG_RBX] == 0x1003 && r[REG_RBP] == 0x1005 && r[REG_R8] == 0x1008 && r[REG_R9] == 0x1009 && r[REG_R10] == 0x100a &&
              r[REG_R12] == 0x100c && r[REG_R13] == 0x100d && r[REG_R14] == 0x100e && (uint64_t)r[REG_R15] == known[8] &&
              (uint64_t)r[REG_RSP] == after.rsp && r[REG_RIP] == (greg_t)visited && r[REG_RAX] == 0 && r[REG_RCX] == (greg_t)visited &&
              r[REG_R11] == r[REG_EFL] && (r[REG_EFL] & 0x200),
          name);
    snprintf(name, sizeof name, "%s: selectors, causes", what);
    check((r[REG_CSGSFS] & 0xffff) == 0x33 && (uint64_t)r[REG_CSGSFS] >> 48 == 0x2b && r[REG_ERR] == 0 && r[REG_TRAPNO] == 0, name);
    snprintf(name, sizeof name, "%s: information", what);
    check(told.si_signo == number && told.si_errno == 0 && told.si_code == code && told.si_pid == getpid() && told.si_uid == getuid(), name);
    snprintf(name, sizeof name, "%s: stack and mask", what);
    check(found.uc_stack.ss_size == 0 && !sigismember(&found.uc_sigmask, number) &&
              found.uc_link == 0,
          name);
    snprintf(name, sizeof name, "%s: the handler begins with fresh vector registers", what);
    check(control_inside == 0x1f80 && vector_inside == 0, name);
}

static int blocks(int number)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, 0, &now);
    return sigismember(&now, number);
}

static void plain(void)
{
    /* Vector registers in use, and a dispatcher of one's own, before what is to be seen. */
    for (int i = 0; i < 20; i++)
        getppid();
    have(SIGUSR1, 0);
    for (int round = 0; round < 3; round++) {
        calls = wrong = 0;
        equal(visit(SYS_kill, getpid(), SIGUSR1, 0x100), 0, "kill of oneself");
        equal(calls == 1 && !wrong, 1, "the handler runs once");
        restored("kill");
        equal(after.rdi == (uint64_t)getpid() && after.rsi == SIGUSR1 && after.rdx == 0x100, 1, "arguments too");
        found_right("kill", SIGUSR1, SI_USER);
        equal(visit(SYS_tgkill, getpid(), getpid(), SIGUSR1), 0, "tgkill of oneself");
        restored("tgkill");
        found_right("tgkill", SIGUSR1, SI_TKILL);
        equal(visit(SYS_tkill, getpid(), SIGUSR1, 0), 0, "tkill of oneself");
        restored("tkill");
        found_right("tkill", SIGUSR1, SI_TKILL);
        equal(calls, 3, "three handlers");
    }
    equal(blocks(SIGUSR1) || blocks(SIGUSR2), 0, "nothing stays blocked");
}

static void (*asked)(void);
static void asking(ucontext_t *u) { (void)u; asked(); }
static int was_blocked;
static void look_at_mask(void) { was_blocked = blocks(SIGUSR1) + 2 * blocks(SIGUSR2); }

static void masks(void)
{
    have(SIGUSR1, 0);
    change = asking, asked = look_at_mask;
    visit(SYS_kill, getpid(), SIGUSR1, 0);
    equal(was_blocked, 3, "the handler's mask, and its signal");
    equal(blocks(SIGUSR1) + blocks(SIGUSR2), 0, "neither afterwards");
    have(SIGUSR1, SA_NODEFER);
    visit(SYS_kill, getpid(), SIGUSR1, 0);
    equal(was_blocked, 2, "SA_NODEFER: not its signal");
    have(SIGUSR1, SA_RESETHAND);
    visit(SYS_kill, getpid(), SIGUSR1, 0);
    struct sigaction now;
    sigaction(SIGUSR1, 0, &now);
    equal(now.sa_handler == SIG_DFL, 1, "SA_RESETHAND: the action is the default one");
    change = 0;
    have(SIGUSR1, 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    calls = 0;
    equal(visit(SYS_kill, getpid(), SIGUSR1, 0), 0, "kill with a signal that is blocked");
    equal(calls, 0, "waits");
    sigprocmask(SIG_UNBLOCK, &set, 0);
    equal(calls, 1, "and comes when it is not");
    signal(SIGUSR1, SIG_IGN);
    equal(visit(SYS_kill, getpid(), SIGUSR1, 0), 0, "kill with one that is ignored");
    equal(visit(SYS_kill, getpid(), 0, 0), 0, "with none");
    equal(visit(SYS_kill, getpid(), 65, 0), -22, "with one that there is not");
    equal(visit(SYS_kill, getpid(), -1, 0), -22, "with a negative one");
    equal(calls, 1, "none of them handled");
    have(SIGRTMAX, 0);
    visit(SYS_kill, getpid(), SIGRTMAX, 0);
    equal(told.si_signo == SIGRTMAX, 1, "the last of all");
}

static void other_way(ucontext_t *u)
{
    greg_t *r = u->uc_mcontext.gregs;
    r[REG_RBX] = 0x77, r[REG_RAX] = 4711, r[REG_RCX] = 1, r[REG_R11] = 2, r[REG_R8] = 0x88;
    sigaddset(&u->uc_sigmask, SIGUSR2);
    ((uint64_t *)u->uc_mcontext.fpregs->_xmm)[14] = 0x99;
}
static void hostile(ucontext_t *u) { u->uc_mcontext.gregs[REG_EFL] |= 0x3000 | 0x20000 | 0x4000; }

static void changes(void)
{
    have(SIGUSR1, 0);
    change = other_way;
    equal(visit(SYS_kill, getpid(), SIGUSR1, 0), 4711, "a handler changes the result");
    equal(after.kept[0] == 0x77 && after.kept[2] == 0x88 && after.kept[1] == 0x1005, 1, "and registers");
    equal(after.kept[9], 0x99, "and vector registers");
    equal(blocks(SIGUSR2), 1, "and the mask");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, 0);
    change = hostile;
    equal(visit(SYS_kill, getpid(), SIGUSR1, 0), 0, "flags that are not the program's are not taken");
    restored("hostile flags");
    change = 0;
}

/* A handler that sends another signal to itself: frame on frame. */
static void send_other(void) { change = 0, kill(getpid(), SIGUSR2); }

static void nested(void)
{
    have(SIGUSR1, 0);
    have(SIGUSR2, 0);
    have(SIGALRM, 0);
    change = asking, asked = send_other;
    calls = 0;
    visit(SYS_kill, getpid(), SIGALRM, 0);
    equal(calls, 2, "the other one comes when the first has returned, whose mask holds it");
    restored("two in turn");
    signal(SIGALRM, SIG_DFL);
}

/* Registers are kept when the signal comes at any instruction. */
static void at_any_place(void)
{
    have(SIGALRM, 0);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    calls = 0;
    setitimer(ITIMER_REAL, &often, 0);
    uint64_t bad = 0, rounds = 0;
    while (calls < 50 && rounds < 40000000) {
        uint64_t a = rounds * 3 + 1, b = a;
        __asm__ volatile("mov %0, %%rcx\n mov %0, %%r11\n mov %0, %%r8\n mov $100, %%r9d\n"
                         "1: dec %%r9d\n jnz 1b\n"
                         "xor %%rcx, %%r8\n xor %%rcx, %%r11\n or %%r11, %%r8\n mov %%rcx, %0\n mov %%r8, %1"
                         : "+r"(a), "=r"(b) : : "rcx", "r11", "r8", "r9", "cc");
        bad += a != rounds * 3 + 1 || b != 0;
        rounds++;
    }
    setitimer(ITIMER_REAL, &never, 0);
    equal(calls >= 50, 1, "a timer's signals come");
    equal(bad, 0, "and change no register");
    signal(SIGALRM, SIG_DFL);
}

/* Calls a function on another stack. */
void on_stack(void *top, void (*function)(void));
__asm__(".text\n.globl on_stack\non_stack:\n"
        "push %rbp\n mov %rsp, %rbp\n mov %rdi, %rsp\n call *%rsi\n mov %rbp, %rsp\n pop %rbp\n ret\n");

static void send_here(void) { equal(visit(SYS_kill, getpid(), SIGUSR1, 0x100), 0, "kill where the stack has no page yet"); }

/* A frame reaches into pages of the stack that nobody has touched. */
static void fresh_stack(void)
{
    enum { SIZE = 64 << 10 };
    have(SIGUSR1, 0);
    for (int room = 256; room <= 4096; room += 384) {
        char *stack = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        calls = 0;
        /* `visit` and its caller have the page of the top; the frame begins in it or below. */
        on_stack(stack + SIZE - 4096 + room, send_here);
        equal(calls, 1, "the handler runs once");
        restored("a fresh stack");
        found_right("a fresh stack", SIGUSR1, SI_USER);
        munmap(stack, SIZE);
    }
}

static const struct group groups[] = {
    {"plain", plain}, {"fresh", fresh_stack}, {"masks", masks}, {"changes", changes}, {"nested", nested}, {"places", at_any_place},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
