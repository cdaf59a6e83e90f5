/* Signals that a thread sends itself, or causes, register by register: what the handler finds in its frame
 * and in its registers, and what is there when it has returned. Passes on Linux and must pass here.
 *
 * Interface: calls-frames [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* rbx, rbp, r8, r9, r10, r12 to r15, xmm7, as `visit` leaves them; the result; the stack pointer before
 * and behind. */
struct after {
    uint64_t kept[10], result, rsp, rsp_after, rdi, rsi, rdx;
};
struct after after;
uint32_t control_after;

/* A call with known values in all registers, and control word 0x9fc0 of the vector unit. */
long visit(long number, long a, long b, long c);
__asm__(
    ".text\n.globl visit\nvisit:\n"
    "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n sub $16, %rsp\n"
    "movl $0x9fc0, (%rsp)\n ldmxcsr (%rsp)\n"
    "mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n"
    "mov $0x1003, %ebx\n mov $0x1005, %ebp\n mov $0x1008, %r8d\n mov $0x1009, %r9d\n mov $0x100a, %r10d\n"
    "mov $0x100c, %r12d\n mov $0x100d, %r13d\n mov $0x100e, %r14d\n movabs $0xfedcba9876543210, %r15\n"
    "movq %r15, %xmm7\n mov %rsp, after+88(%rip)\n"
    ".globl visited\nsyscall\nvisited:\n"
    "mov %rbx, after(%rip)\n mov %rbp, after+8(%rip)\n mov %r8, after+16(%rip)\n mov %r9, after+24(%rip)\n"
    "mov %r10, after+32(%rip)\n mov %r12, after+40(%rip)\n mov %r13, after+48(%rip)\n mov %r14, "
    "after+56(%rip)\n"
    "mov %r15, after+64(%rip)\n movq %xmm7, after+72(%rip)\n mov %rax, after+80(%rip)\n mov %rsp, "
    "after+96(%rip)\n"
    "mov %rdi, after+104(%rip)\n mov %rsi, after+112(%rip)\n mov %rdx, after+120(%rip)\n"
    "stmxcsr control_after(%rip)\n movl $0x1f80, (%rsp)\n ldmxcsr (%rsp)\n"
    "add $16, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");
extern char visited[];

static const uint64_t known[10] = {
    0x1003, 0x1005, 0x1008, 0x1009, 0x100a, 0x100c, 0x100d, 0x100e, 0xfedcba9876543210, 0xfedcba9876543210};

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
    check(r[REG_RBX] == 0x1003 && r[REG_RBP] == 0x1005 && r[REG_R8] == 0x1008 && r[REG_R9] == 0x1009 &&
              r[REG_R10] == 0x100a && r[REG_R12] == 0x100c && r[REG_R13] == 0x100d && r[REG_R14] == 0x100e &&
              (uint64_t)r[REG_R15] == known[8] && (uint64_t)r[REG_RSP] == after.rsp &&
              r[REG_RIP] == (greg_t)visited && r[REG_RAX] == 0 && r[REG_RCX] == (greg_t)visited &&
              r[REG_R11] == r[REG_EFL] && (r[REG_EFL] & 0x200),
          name);
    snprintf(name, sizeof name, "%s: selectors, causes", what);
    check((r[REG_CSGSFS] & 0xffff) == 0x33 && (uint64_t)r[REG_CSGSFS] >> 48 == 0x2b && r[REG_ERR] == 0 &&
              r[REG_TRAPNO] == 0,
          name);
    snprintf(name, sizeof name, "%s: information", what);
    check(told.si_signo == number && told.si_errno == 0 && told.si_code == code && told.si_pid == getpid() &&
              told.si_uid == getuid(),
          name);
    snprintf(name, sizeof name, "%s: stack and mask", what);
    check(found.uc_stack.ss_size == 0 && !sigismember(&found.uc_sigmask, number) && found.uc_link == 0, name);
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
        equal(after.rdi == (uint64_t)getpid() && after.rsi == SIGUSR1 && after.rdx == 0x100, 1,
              "arguments too");
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
static void asking(ucontext_t *u)
{
    (void)u;
    asked();
}
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
                         : "+r"(a), "=r"(b)
                         :
                         : "rcx", "r11", "r8", "r9", "cc");
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

static void send_here(void)
{
    equal(visit(SYS_kill, getpid(), SIGUSR1, 0x100), 0, "kill where the stack has no page yet");
}

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

/* A store of eax at an address, with known values in the other registers. */
void touch(void *at);
__asm__(
    ".text\n.globl touch\ntouch:\n"
    "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n sub $16, %rsp\n"
    "movl $0x9fc0, (%rsp)\n ldmxcsr (%rsp)\n"
    "mov $0x1003, %ebx\n mov $0x1005, %ebp\n mov $0x1008, %r8d\n mov $0x1009, %r9d\n mov $0x100a, %r10d\n"
    "mov $0x100b, %r11d\n mov $0x1001, %ecx\n mov $0x1002, %edx\n mov $0x1006, %esi\n mov $0x1000, %eax\n"
    "mov $0x100c, %r12d\n mov $0x100d, %r13d\n mov $0x100e, %r14d\n movabs $0xfedcba9876543210, %r15\n"
    "movq %r15, %xmm7\n mov %rsp, after+88(%rip)\n std\n stc\n"
    ".globl touching\ntouching: movb %al, (%rdi)\n.globl touched\ntouched:\n"
    "pushf\n cld\n pop flags_after(%rip)\n"
    "mov %rbx, after(%rip)\n mov %rbp, after+8(%rip)\n mov %r8, after+16(%rip)\n mov %r9, after+24(%rip)\n"
    "mov %r10, after+32(%rip)\n mov %r12, after+40(%rip)\n mov %r13, after+48(%rip)\n mov %r14, "
    "after+56(%rip)\n"
    "mov %r15, after+64(%rip)\n movq %xmm7, after+72(%rip)\n mov %rax, after+80(%rip)\n mov %rsp, "
    "after+96(%rip)\n"
    "mov %rdi, after+104(%rip)\n mov %rsi, after+112(%rip)\n mov %rdx, after+120(%rip)\n mov %r11, "
    "r11_after(%rip)\n"
    "stmxcsr control_after(%rip)\n movl $0x1f80, (%rsp)\n ldmxcsr (%rsp)\n"
    "add $16, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");
extern char touching[], touched[];
uint64_t flags_after, r11_after;
static char *page;

static void step_over(ucontext_t *u) { u->uc_mcontext.gregs[REG_RIP] = (greg_t)touched; }

/* A fault of `touch` at `at`, whose handler has run. */
static void struck(const char *what, void *at, int code, int error)
{
    char name[128];
    greg_t *r = found.uc_mcontext.gregs;
    snprintf(name, sizeof name, "%s: the handler runs once, and the program goes on", what);
    check(calls == 1 && !wrong && r11_after == 0x100b && after.result == 0x1000, name);
    restored(what);
    snprintf(name, sizeof name, "%s: the frame has the registers", what);
    check(r[REG_RBX] == 0x1003 && r[REG_RBP] == 0x1005 && r[REG_R8] == 0x1008 && r[REG_R9] == 0x1009 &&
              r[REG_R10] == 0x100a && r[REG_R11] == 0x100b && r[REG_R12] == 0x100c && r[REG_R13] == 0x100d &&
              r[REG_R14] == 0x100e && (uint64_t)r[REG_R15] == known[8] && r[REG_RAX] == 0x1000 &&
              r[REG_RCX] == 0x1001 && r[REG_RDX] == 0x1002 && r[REG_RSI] == 0x1006 &&
              (void *)r[REG_RDI] == at && (uint64_t)r[REG_RSP] == after.rsp && r[REG_RIP] == (greg_t)touching,
          name);
    snprintf(name, sizeof name, "%s: flags, which the handler begins without", what);
    check((r[REG_EFL] & 0x601) == 0x601 && (flags_after & 0x601) == 0x601, name);
    snprintf(name, sizeof name, "%s: cause", what);
    check(r[REG_TRAPNO] == 14 && r[REG_ERR] == error && (void *)r[REG_CR2] == at &&
              (r[REG_CSGSFS] & 0xffff) == 0x33 && (uint64_t)r[REG_CSGSFS] >> 48 == 0x2b,
          name);
    snprintf(name, sizeof name, "%s: information", what);
    check(told.si_signo == SIGSEGV && told.si_errno == 0 && told.si_code == code && told.si_addr == at, name);
    snprintf(name, sizeof name, "%s: mask and vector registers", what);
    check(!sigismember(&found.uc_sigmask, SIGSEGV) && !blocks(SIGSEGV) && control_inside == 0x1f80 &&
              vector_inside == 0,
          name);
}

static void strike(const char *what, void *at, int code, int error)
{
    calls = wrong = 0;
    touch(at);
    struck(what, at, code, error);
}

static void look_at_fault_mask(void) { was_blocked = blocks(SIGSEGV) + 2 * blocks(SIGUSR2); }
static void over_asking(ucontext_t *u) { step_over(u), asked(); }

/* How a child ends that does this. */
static int end_of(void (*work)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        work();
        _exit(7);
    }
    waitpid(child, &status, 0);
    return status;
}
static void touch_page(void) { touch(page); }
static void touch_blocked(void)
{
    sigset_t set;
    sigemptyset(&set), sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, 0);
    touch(page);
}
static void touch_ignored(void) { signal(SIGSEGV, SIG_IGN), touch(page); }
static void touch_in_nowhere(void)
{
    struct sigaction action = {.sa_sigaction = (void *)0xffff800000001000, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    touch(page);
}
/* The stack has no room for a frame: it lies in the first bytes of what may be written. */
static void touch_below_all(void) { on_stack(page + 4096 + 512, touch_page); }
static void touch_twice(void) { have(SIGSEGV, SA_RESETHAND), touch(page), touch(page); }

static void faults(void)
{
    for (int i = 0; i < 20; i++)
        getppid();
    page = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + 4096, 4096, PROT_READ | PROT_WRITE);
    page[4096] = page[0];
    have(SIGSEGV, 0);
    change = step_over;
    for (int round = 0; round < 3; round++)
        strike("a page that is not writable", page, SEGV_ACCERR, 7);
    strike("no page", (void *)8, SEGV_MAPERR, 6);
    equal(WTERMSIG(end_of(touch_blocked)), SIGSEGV, "one that is blocked ends the process");
    equal(WTERMSIG(end_of(touch_ignored)), SIGSEGV, "and one that is ignored");
    equal(WTERMSIG(end_of(touch_in_nowhere)), SIGSEGV, "and one whose handler is nowhere");
    equal(WTERMSIG(end_of(touch_below_all)), SIGSEGV, "and one without room for a frame");
    equal(WTERMSIG(end_of(touch_twice)), SIGSEGV, "and the second one of a handler for one time");
    equal(end_of(touch_page), 7 << 8, "but none of a child with the handler");

    change = over_asking, asked = look_at_fault_mask;
    strike("a mask", page, SEGV_ACCERR, 7);
    equal(was_blocked, 3, "the handler's mask, and its signal");
    have(SIGSEGV, SA_NODEFER);
    strike("SA_NODEFER", page, SEGV_ACCERR, 7);
    equal(was_blocked, 2, "SA_NODEFER: not its signal");
    have(SIGSEGV, 0);

    /* Another signal waits, blocked, for the thread and for the process. */
    sigset_t set;
    have(SIGUSR1, 0);
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, 0);
    kill(getpid(), SIGUSR1), raise(SIGUSR1);
    change = step_over;
    strike("while another waits", page, SEGV_ACCERR, 7);
    equal(sigismember(&found.uc_sigmask, SIGUSR1), 1, "the frame has the mask");
    calls = 0, change = 0;
    sigprocmask(SIG_UNBLOCK, &set, 0);
    equal(calls, 2, "which comes when it is not blocked");
    change = step_over;

    static char space[1 << 16];
    stack_t other = {.ss_sp = space, .ss_size = sizeof space}, none = {.ss_flags = SS_DISABLE};
    sigaltstack(&other, 0);
    have(SIGSEGV, SA_ONSTACK);
    strike("on another stack", page, SEGV_ACCERR, 7);
    equal(found.uc_stack.ss_sp == space && found.uc_stack.ss_size == sizeof space, 1,
          "which the frame names");
    have(SIGSEGV, 0);
    strike("not on it", page, SEGV_ACCERR, 7);
    sigaltstack(&none, 0);
    strike("without it", page, SEGV_ACCERR, 7);
    equal(found.uc_stack.ss_size == 0 && found.uc_stack.ss_flags == SS_DISABLE, 1, "which the frame says");
    change = 0;
}

static void touch_here(void) { touch(page); }

/* The same with a frame that reaches into pages which nobody has touched. */
static void faults_on_fresh_stack(void)
{
    enum { SIZE = 64 << 10 };
    page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    equal(page[0], 0, "a page that is not written");
    have(SIGSEGV, 0);
    change = step_over;
    for (int room = 256; room <= 4096; room += 384) {
        char *stack = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        calls = wrong = 0;
        on_stack(stack + SIZE - 4096 + room, touch_here);
        struck("a fresh stack", page, SEGV_ACCERR, 7);
        munmap(stack, SIZE);
    }
    change = 0;
}

/* Faults of two threads at a time, and while a timer's signals come. */
static void *touch_often(void *count)
{
    for (int i = 0; i < 2000; i++) {
        char *at = page + (i & 63);
        __asm__ volatile("lea 1f(%%rip), %%r8\n movb $1, (%1)\n 1: incl (%0)"
                         :
                         : "r"(count), "r"(at)
                         : "r8", "memory", "cc");
    }
    return 0;
}
static void jump(int number, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (number == SIGSEGV && (char *)info->si_addr - page < 64u)
        r[REG_RIP] = r[REG_R8];
}
static void faults_of_threads(void)
{
    struct sigaction action = {.sa_sigaction = jump, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGALRM, &action, 0);
    page = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    int count[3] = {0};
    pthread_t other[2];
    setitimer(ITIMER_REAL, &often, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&other[i], 0, touch_often, &count[i]);
    touch_often(&count[2]);
    for (int i = 0; i < 2; i++)
        pthread_join(other[i], 0);
    setitimer(ITIMER_REAL, &never, 0);
    equal(count[0] == 2000 && count[1] == 2000 && count[2] == 2000, 1,
          "each fault of each thread has been handled");
    signal(SIGALRM, SIG_DFL);
}

/* Other exceptions. */
static void skip_two(ucontext_t *u) { u->uc_mcontext.gregs[REG_RIP] += 2; }
static void exceptions(void)
{
    have(SIGILL, 0);
    have(SIGFPE, 0);
    change = skip_two;
    for (int round = 0; round < 2; round++) {
        calls = 0;
        __asm__ volatile("ud2");
        equal(calls == 1 && told.si_signo == SIGILL && told.si_code == ILL_ILLOPN &&
                  found.uc_mcontext.gregs[REG_TRAPNO] == 6,
              1, "no instruction");
        __asm__ volatile("xor %%ecx, %%ecx\n mov $1, %%eax\n cdq\n div %%ecx"
                         :
                         :
                         : "eax", "ecx", "edx", "cc");
        equal(calls == 2 && told.si_signo == SIGFPE && told.si_code == FPE_INTDIV &&
                  found.uc_mcontext.gregs[REG_TRAPNO] == 0 &&
                  told.si_addr == (void *)found.uc_mcontext.gregs[REG_RIP],
              1, "a division by zero");
    }
    change = 0;
    signal(SIGILL, SIG_DFL);
    signal(SIGFPE, SIG_DFL);
}

static const struct group groups[] = {
    {"faults", faults},
    {"fault-fresh", faults_on_fresh_stack},
    {"fault-threads", faults_of_threads},
    {"exceptions", exceptions},
    {"plain", plain},
    {"fresh", fresh_stack},
    {"masks", masks},
    {"changes", changes},
    {"nested", nested},
    {"places", at_any_place},
};

int main(int argc, char **argv)
{
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
