/* The actors of a sequence: each makes its steps, and looks after each whether it has rights that it should
 * not have.
 *
 * Interface: act() makes the steps of one actor and ends its thread; start() makes a thread or process that
 * does. landing() is where no thread with other rights than its user's may ever come: a program that could
 * lead one there could lead it anywhere.
 */
#ifndef FUZZ_ACT_H
#define FUZZ_ACT_H
#include "fuzz-world.h"
#include <signal.h>
#include <ucontext.h>

#define REPORT "/run/fuzz/report"
enum { STOLEN_USER = 1, STOLEN_FILES, STOLEN_CAPABILITIES, LANDED, LED_ASTRAY };

static void handler(int signal) { (void)signal; }

__asm__(".globl restorer\nrestorer: mov $15, %eax\nsyscall\nhlt\n");

/* Only who has root's rights can write there. */
static void report(int what)
{
    long fd = raw(SYS_open, (long)REPORT, O_WRONLY | O_CREAT | O_APPEND, 0600, 0, 0, 0);
    char text[2] = {'0' + what, '\n'};
    if (fd >= 0)
        raw(SYS_write, fd, (long)text, 2, 0, 0, 0);
}

static void landing(void)
{
    if (raw(SYS_geteuid, 0, 0, 0, 0, 0, 0) == 0 || raw(SYS_getegid, 0, 0, 0, 0, 0, 0) == 0)
        report(LANDED);
}

static void check_rights(const struct actor *me, int step)
{
    int stolen = 0;
    unsigned header[2] = {0x20080522, 0}, data[6] = {0};
    if (raw(SYS_geteuid, 0, 0, 0, 0, 0, 0) == 0)
        stolen = STOLEN_USER;
    else if (raw(SYS_setfsuid, -1, 0, 0, 0, 0, 0) == 0)
        stolen = STOLEN_FILES;
    else if (step % 4 == 0 && raw(SYS_capget, (long)header, (long)data, 0, 0, 0, 0) == 0 &&
             (data[0] | data[1] | data[3] | data[4]))
        stolen = STOLEN_CAPABILITIES;
    if (stolen && !me->share->violation) {
        me->share->violation_step = step;
        me->share->violation = stolen;
        report(stolen);
    }
}

/* Notes what came of a call: which, for what kind of argument, and how it answered. */
static void note(const struct actor *me, const struct step *step, long result)
{
    uint64_t how = result < 0 && result > -4096 ? -result
                   : result == 0                ? 0
                                                : 300 + (63 - __builtin_clzl(result));
    uint64_t kind = step->value[0].form * 64 + step->value[0].which;
    uint64_t command = calls[step->call].kind[1] >= SET ? step->value[1].number & 0xffff : 0;
    if (calls[step->call].kind[0] >= SET)
        command = step->value[0].number & 0xffff;
    uint64_t state = how + (kind << 12) + (command << 24) + ((uint64_t)step->call << 44);
    unsigned at = draw(&state) % OUTCOMES;
    if (!me->common->outcome[at]) {
        me->common->outcome[at] = 1;
        __atomic_fetch_add(&me->share->news, 1, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&me->share->calls, 1, __ATOMIC_RELAXED);
}

static void child_main(struct actor *me) __attribute__((noreturn, used));

/* The call; a child that it makes goes to child_main(me) on the stack that ends at `stack`. */
static long call_kernel(long number, const long *v, struct actor *me, long stack)
{
    long result;
    register long r10 __asm__("r10") = v[3];
    register long r8 __asm__("r8") = v[4];
    register long r9 __asm__("r9") = v[5];
    int forks = number == SYS_clone || number == SYS_fork || number == SYS_vfork || number == 435;
    __asm__ volatile("syscall\n"
                     "test %%rax, %%rax\n"
                     "jnz 1f\n"
                     "test %[forks], %[forks]\n"
                     "jz 1f\n"
                     "mov %[stack], %%rsp\n"
                     "mov %[me], %%rdi\n"
                     "xor %%ebp, %%ebp\n"
                     "cld\n"
                     "call child_main\n"
                     "1:"
                     : "=a"(result)
                     : "a"(number), "D"(v[0]), "S"(v[1]), "d"(v[2]), "r"(r10), "r"(r8),
                       "r"(r9), [forks] "r"(forks), [stack] "r"(stack), [me] "r"(me)
                     : "rcx", "r11", "memory", "cc");
    return result;
}

extern char touch_read[], touch_write[], touch_end[];

/* Reads and writes there; a fault is skipped by the handler. */
__attribute__((noinline)) static long touch(long address, long write)
{
    long result = -EFAULT;
    if (write & 1)
        __asm__ volatile("touch_write: movb $7, (%1)\nmov $0, %0\n" : "+r"(result) : "r"(address) : "memory");
    else
        __asm__ volatile("touch_read: movb (%1), %b0\nmov $0, %0\n" : "+r"(result) : "r"(address) : "memory");
    __asm__ volatile("touch_end:" ::: "memory");
    return result;
}

static void skip_fault(int signal, siginfo_t *info, void *context)
{
    greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    (void)signal, (void)info;
    if (*rip == (long)touch_read || *rip == (long)touch_write)
        *rip = (long)touch_end;
    else
        raw(SYS_exit, 1, 0, 0, 0, 0, 0);
}

static uint64_t frame_seed;

/* Returns to wherever the frame says after a change. */
static void edit_frame(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ucontext_t *u = context;
    greg_t *g = u->uc_mcontext.gregs;
    uint64_t s = frame_seed;
    switch (below(&s, 8)) {
    case 0:
        g[REG_RIP] = (const long[]){0x800000000000L, (long)0x8000000000001000L, 0x7fffffffffff,
                                    (long)0xffffffff80100000L, 0x7ffffffff000L}[below(&s, 5)];
        break;
    case 1:
        g[REG_EFL] = (long)draw(&s);
        break;
    case 2:
        g[REG_CSGSFS] = (long)draw(&s);
        break;
    case 3:
        u->uc_mcontext.fpregs = (void *)edge_number(&s);
        break;
    case 4:
        if (u->uc_mcontext.fpregs)
            ((uint64_t *)u->uc_mcontext.fpregs)[below(&s, 110)] = draw(&s);
        break;
    case 5:
        g[REG_RSP] = (long)edge_number(&s);
        break;
    case 6:
        *(uint64_t *)&u->uc_sigmask = draw(&s);
        break;
    default:
        u->uc_stack.ss_sp = (void *)edge_number(&s), u->uc_stack.ss_size = edge_number(&s),
        u->uc_stack.ss_flags = (int)draw(&s);
    }
}

static long frame(const long *v)
{
    long action[4] = {(long)edit_frame, 0x04000004, (long)restorer, 0}; /* SA_RESTORER, SA_SIGINFO */
    frame_seed = v[0] ^ v[1];
    raw(SYS_rt_sigaction, SIGUSR1, (long)action, 0, 8, 0, 0);
    return raw(SYS_tkill, raw(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGUSR1, 0, 0, 0, 0);
}

static long instruction(long which)
{
    long result = 0;
    switch (which % 10) {
    case 0:
        __asm__ volatile("int3");
        break;
    case 1:
        __asm__ volatile("ud2");
        break;
    case 2:
        __asm__ volatile("hlt");
        break;
    case 3:
        __asm__ volatile("cli");
        break;
    case 4:
        __asm__ volatile("xor %%edx, %%edx\nin %%dx, %%al" ::: "rax", "rdx");
        break;
    case 5:
        __asm__ volatile("int $0x80" : "+a"(result)::"memory");
        break;
    case 6:
        __asm__ volatile("mov %%cr0, %0" : "=r"(result));
        break;
    case 7:
        __asm__ volatile("xor %%ecx, %%ecx\ndiv %%ecx" ::: "rax", "rcx", "rdx");
        break;
    case 8:
        __asm__ volatile("sidt -64(%%rsp)" ::: "memory");
        break;
    default:
        __asm__ volatile("mov %0, %%ds" ::"r"(which));
    }
    return result;
}

/* % is a process, # a descriptor. */
static const char *const texts[] = {"/proc/%/cmdline",
                                    "/proc/%/comm",
                                    "/proc/%/cwd",
                                    "/proc/%/environ",
                                    "/proc/%/exe",
                                    "/proc/%/fd",
                                    "/proc/%/fd/#",
                                    "/proc/%/fdinfo",
                                    "/proc/%/fdinfo/#",
                                    "/proc/%/limits",
                                    "/proc/%/maps",
                                    "/proc/%/mountinfo",
                                    "/proc/%/root",
                                    "/proc/%/stat",
                                    "/proc/%/statm",
                                    "/proc/%/status",
                                    "/proc/%/wchan",
                                    "/proc/%/timers",
                                    "/proc/%/clear_refs",
                                    "/proc/%/map_files",
                                    "/proc/%/ns/mnt",
                                    "/proc/%/task",
                                    "/proc/%/task/%/stat",
                                    "/proc/%",
                                    "/syn/code",
                                    "/syn/code/%",
                                    "/syn/code/%/#",
                                    "/syn/code/%/#/read",
                                    "/syn/code/%/#/write",
                                    "/syn/code/%/#/lseek",
                                    "/syn/code/index",
                                    "/syn/code/classes",
                                    "/syn/code/at",
                                    "/syn/code/self",
                                    "/syn",
                                    "/syn/interrupts",
                                    "/syn/log",
                                    "/syn/memory",
                                    "/syn/mitigations",
                                    "/syn/nosys",
                                    "/syn/probes",
                                    "/syn/probes",
                                    "/syn/quajects",
                                    "/syn/threads",
                                    "/syn/fail",
                                    "/proc",
                                    "/proc/buddyinfo",
                                    "/proc/cpuinfo",
                                    "/proc/devices",
                                    "/proc/filesystems",
                                    "/proc/interrupts",
                                    "/proc/loadavg",
                                    "/proc/meminfo",
                                    "/proc/stat",
                                    "/proc/uptime",
                                    "/proc/sys/kernel",
                                    "/proc/sys/kernel/hostname",
                                    "/proc/sys/kernel/yama/ptrace_scope",
                                    "/proc/sys/kernel/random/boot_id",
                                    "/proc/kmsg",
                                    "/sys/devices/system/cpu/vulnerabilities",
                                    "/sys/devices/system/cpu/vulnerabilities/meltdown",
                                    "/sys/devices/system/cpu",
                                    "/sys"};

static char *put_number(char *at, long number)
{
    char digits[24];
    int count = 0;
    unsigned long left = number < 0 ? 0 : number;
    do
        digits[count++] = '0' + left % 10;
    while (left /= 10);
    while (count)
        *at++ = digits[--count];
    return at;
}

static char *put_text(char *at, const char *pattern, long process, long descriptor)
{
    for (; *pattern; pattern++)
        if (*pattern == '%')
            at = put_number(at, process);
        else if (*pattern == '#')
            at = put_number(at, descriptor);
        else
            *at++ = *pattern;
    *at = 0;
    return at;
}

static long look_at(const long *v)
{
    static const char *const news[] = {"% #\n", "% # off\n", "0\n", "1\n", "off\n", "#", "", "name\n"};
    uint64_t seed = v[0], s = draw(&seed);
    char path[128], block[1024];
    put_text(path, texts[below(&s, sizeof texts / sizeof *texts)], v[1], v[2]);
    long write = below(&s, 4) == 0,
         fd = raw(SYS_open, (long)path, write ? O_RDWR : O_RDONLY | O_NONBLOCK, 0, 0, 0, 0);
    if (fd < 0)
        return fd;
    long result = 0;
    if (write) {
        long length = put_text(block, news[below(&s, sizeof news / sizeof *news)], v[1], v[2]) - block;
        result = raw(SYS_write, fd, (long)block, length, 0, 0, 0);
    }
    for (int i = below(&s, 6); i >= 0; i--) {
        result = raw(SYS_read, fd, (long)block, 1 + below(&s, sizeof block), 0, 0, 0);
        if (result == -EISDIR)
            result = raw(SYS_getdents64, fd, (long)block, sizeof block, 0, 0, 0);
        if (result <= 0)
            break;
    }
    if (below(&s, 4) == 0)
        result = raw(SYS_pread64, fd, (long)block, sizeof block, (long)(edge_number(&s) & 0xffffff), 0, 0);
    if (below(&s, 8))
        raw(SYS_close, fd, 0, 0, 0, 0, 0);
    return result;
}

/* Where `struct user` has a debug register. */
#define DEBUGGED(number) (848 + 8 * (number))

/* Lets a child of one's own that is traced go on from stop to stop. */
static long trace(const struct actor *me, long pid, uint64_t seed)
{
    static const short resume[] = {PTRACE_CONT,   PTRACE_SYSCALL,           PTRACE_SYSCALL, PTRACE_SINGLESTEP,
                                   PTRACE_SYSEMU, PTRACE_SYSEMU_SINGLESTEP, PTRACE_DETACH};
    /* The last change what the child does: one of root's could then make any call, such as to stop
     * everybody. */
    enum { SAFE = 9 };
    static const short looks[] = {PTRACE_PEEKDATA,    PTRACE_PEEKUSER,    PTRACE_GETREGS,    PTRACE_GETREGSET,
                                  PTRACE_GETSIGINFO,  PTRACE_GETEVENTMSG, PTRACE_LISTEN,     PTRACE_INTERRUPT,
                                  PTRACE_PEEKSIGINFO, PTRACE_SETSIGINFO,  PTRACE_SETOPTIONS, PTRACE_POKEDATA,
                                  PTRACE_POKEUSER,    PTRACE_SETREGS,     PTRACE_SETREGSET};
    struct value registers = {STRUCTURE, P_REGISTERS - P_ACTION, 0, 0};
    int status = 0;
    for (int stops = 0; stops < 24; stops++) {
        if (raw(SYS_wait4, pid, (long)&status, 0x40000002, 0, 0, 0) != pid || (status & 0xff) != 0x7f)
            break;
        registers.number = draw(&seed) >> 32;
        struct value where = place(&seed);
        long data = structure_address(me, &registers, 3),
             request = looks[below(&seed, me->privileged ? SAFE : sizeof looks / sizeof *looks)];
        long address = request == PTRACE_GETREGSET || request == PTRACE_SETREGSET ? 1 + (long)below(&seed, 3)
                       : below(&seed, 2) ? place_address(&where)
                                         : 8 * (long)below(&seed, 120);
        if (below(&seed, 3) == 0)
            raw(SYS_ptrace, request, pid, address, data, 0, 0);
        if (below(&seed, 6) == 0) {
            /* Debug registers: an address of a place, and a control that often fits. */
            long debugged = below(&seed, 4),
                 fields = below(&seed, 3) ? 1 + 4 * (long)below(&seed, 4) : (long)below(&seed, 16);
            raw(SYS_ptrace, PTRACE_POKEUSER, pid, DEBUGGED(debugged),
                place_address(&where) & (below(&seed, 4) ? -8l : -1l), 0, 0);
            raw(SYS_ptrace, PTRACE_POKEUSER, pid, DEBUGGED(7),
                below(&seed, 8) ? 1l << 2 * debugged | fields << (16 + 4 * debugged) : (long)draw(&seed), 0,
                0);
        }
        int signal = status >> 8 & 0x7f;
        raw(SYS_ptrace, resume[below(&seed, sizeof resume / sizeof *resume)], pid, 0,
            below(&seed, 3) ? (signal == SIGSTOP || signal == SIGTRAP ? 0 : signal) : (int)below(&seed, 65),
            0, 0);
    }
    return status;
}

static long odd_flags(long flags)
{
    long result = SYS_getppid;
    __asm__ volatile("push %1\npopfq\nsyscall\npush $0x202\npopfq"
                     : "+a"(result)
                     : "r"(flags)
                     : "rcx", "r11", "memory", "cc");
    return result;
}

static void perform(struct actor *me, int at)
{
    const struct step *step = &me->share->sequence.step[at];
    long v[6], number = calls[step->call].number, result;
    for (int i = 0; i < 6; i++)
        v[i] = resolve(me, step, i);
    mark(me->common, at);
    if (number == 40000)
        number = v[0] & 0xffff;
    if (me->privileged && (number == SYS_reboot || number > 450) && number < PSEUDO && number != SYN_CALL)
        return;
    switch (number) {
    case PSEUDO_TOUCH:
        result = touch(v[0], v[1]);
        break;
    case PSEUDO_FRAME:
        result = frame(v);
        break;
    case PSEUDO_INSTRUCTION:
        result = instruction(v[0]);
        break;
    case PSEUDO_FLAGS:
        result = odd_flags(v[0]);
        break;
    case PSEUDO_LOOK:
        result = look_at(v);
        break;
    case PSEUDO_TRACED: {
        static const long none[6];
        long stacks = ARENA + me->index * ARENA_SIZE + CHILD_STACKS;
        me->from = at + 1;
        me->traced = 1;
        result = call_kernel(SYS_fork, none, me, stacks + (1 + me->children++ % CHILDREN) * CHILD_STACK);
        me->traced = 0;
        if (result > 0)
            result = trace(me, result, v[0]);
        break;
    }
    default: {
        long stacks = ARENA + me->index * ARENA_SIZE + CHILD_STACKS;
        me->from = at + 1;
        result = call_kernel(number, v, me, stacks + (1 + me->children++ % CHILDREN) * CHILD_STACK);
    }
    }
    me->share->result[at] = result;
    note(me, step, result);
    if (!me->privileged)
        check_rights(me, at);
}

static void act(struct actor *me)
{
    struct share *share = me->share;
    share->tid[me->index] = raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
    share->pid[me->index] = raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
    for (int at = 0; at < share->sequence.count && at < STEPS; at++) {
        if (share->sequence.step[at].actor != me->index)
            continue;
        share->at[me->index] = at + 1;
        perform(me, at);
    }
    share->finished[me->index] = 1;
    raw(SYS_exit, 0, 0, 0, 0, 0, 0);
    __builtin_trap();
}

/* A child of a step makes a few more steps, whosever they are. */
static void child_main(struct actor *parent)
{
    struct actor me = *parent;
    if (parent->traced) {
        me.traced = 0;
        raw(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0, 0, 0);
        raw(SYS_tkill, raw(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGSTOP, 0, 0, 0, 0);
    }
    if (parent->main) {
        parent->main = 0;
        me.main = 0;
        act(&me);
    }
    if (++me.depth <= 2)
        for (int at = me.from, end = at + 5; at < end && at < me.share->sequence.count && at < STEPS; at++)
            perform(&me, at);
    raw(SYS_exit, 0, 0, 0, 0, 0, 0);
    __builtin_trap();
}

/* Makes a thread or process that acts as `other`; its number. */
static long start(struct actor *other, long flags)
{
    long stack = ARENA + other->index * ARENA_SIZE + CHILD_STACKS + CHILDREN * CHILD_STACK;
    long v[6] = {flags, flags & 0x100 ? stack : 0, 0, 0, 0, 0};
    other->main = 1;
    return call_kernel(SYS_clone, v, other, stack);
}
#endif
