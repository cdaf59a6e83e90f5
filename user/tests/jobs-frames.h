/* Frames of signals that are edited or hostile, and stacks and jumps that lead nowhere: a part of `jobs`.
 *
 * Interface: the group frames.
 */
#ifndef JOBS_FRAMES_H
#define JOBS_FRAMES_H

static void edit(int number, siginfo_t *info, void *context)
{
    (void)info;
    ucontext_t *where = context;
    where->uc_mcontext.gregs[REG_RIP] += 2;
    where->uc_mcontext.gregs[REG_RAX] = 1234;
    seen = where->uc_mcontext.fpregs ? number : 0;
}

#define IN_CHILD_KILLED(number, code, name)                \
    do {                                                   \
        pid_t tap_child = fork();                          \
        if (tap_child == 0) {                              \
            code;                                          \
            _exit(1);                                      \
        }                                                  \
        check(killed(status_of(tap_child), number), name); \
    } while (0)

static void frames(void)
{
    struct sigaction action = {.sa_sigaction = edit, .sa_flags = SA_SIGINFO};
    sigaction(SIGILL, &action, 0);
    long result;
    __asm__ volatile("ud2" : "=a"(result));
    check(result == 1234 && seen == SIGILL, "a handler edits the registers it returns to");
    signal(SIGILL, SIG_DFL);

    char junk[2048];
    memset(junk, 0xff, sizeof junk);
    IN_CHILD_KILLED(SIGSEGV,
                    __asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall" ::"r"(junk + 8) : "memory"),
                    "a frame of all ones");
    IN_CHILD_KILLED(SIGSEGV, handle(SIGSEGV, 0);
                    __asm__ volatile("xor %%esp, %%esp; push %%rax" :: : "memory"),
                    "no stack for the handler");
    IN_CHILD_KILLED(SIGSEGV, __asm__ volatile("mov $0x7fffffffefff, %%rax; jmp *%%rax" :: : "rax"),
                    "a jump to the end of user memory");
    IN_CHILD_KILLED(SIGSEGV, __asm__ volatile("movabs $0x800000000000, %%rax; jmp *%%rax" :: : "rax"),
                    "a jump into the hole");
    IN_CHILD_KILLED(SIGTRAP,
                    __asm__ volatile("movabs $0xffff800000000000, %%rcx; mov %%rcx, %%rsp; int3" :: : "rcx"),
                    "a trap with a kernel address for a stack");
    IN_CHILD_KILLED(SIGTRAP, __asm__ volatile("pushf; orl $0x100, (%%rsp); popf; nop; nop" :: : "memory"),
                    "the trap flag");
    IN_CHILD_KILLED(
        SIGTRAP,
        __asm__ volatile("pushf; orl $0x100, (%%rsp); popf; mov $39, %%eax; syscall" :: : "memory", "rcx",
                         "r11", "rax"),
        "the trap flag over a system call");
    IN_CHILD_KILLED(SIGSEGV, __asm__ volatile("mov $0x10, %%eax; mov %%eax, %%ss" :: : "rax"),
                    "a kernel selector");
    unsigned short control = 0x37f & ~4;
    IN_CHILD_KILLED(SIGFPE, __asm__ volatile("fldcw %0; fld1; fldz; fdivrp; fwait" ::"m"(control)),
                    "an unmasked division by zero");
}
#endif
