/* Checks the processor's debug registers by ptrace: breakpoints, watchpoints, what is refused, whose they
 * are; passes on Linux and must pass here.
 *
 * Interface: watchpoints [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define REGISTER(number) ((void *)offsetof(struct user, u_debugreg[number]))
#define HWBKPT 4
#define TRACE 2
/* The accesses that a register of DR7 watches. */
#define EXECUTED 0ul
#define WRITTEN 1ul
#define PORTS 2ul
#define ACCESSED 3ul
#define NOTHING 0xffff0ff0ul
#define TOP 0x7ffffffff000ul

static volatile int64_t word, other;
static volatile char bytes[16] __attribute__((aligned(16)));
static int ends[2];

static uint64_t control(int number, uint64_t kind, int length)
{
    static const uint64_t lengths[] = {0, 0, 1, 0, 3, 0, 0, 0, 2};
    return 1ul << (2 * number) | (kind | lengths[length] << 2) << (16 + 4 * number);
}

static long set(pid_t child, int number, uint64_t value)
{
    return ptrace(PTRACE_POKEUSER, child, REGISTER(number), value);
}

static uint64_t get(pid_t child, int number)
{
    errno = 0;
    return ptrace(PTRACE_PEEKUSER, child, REGISTER(number), 0);
}

/* A child that waits for its tracer and then does `what`. */
static pid_t begin(void (*what)(void))
{
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        what();
        _exit(7);
    }
    int status;
    waitpid(child, &status, 0);
    return child;
}

/* Lets it go on, until it stops or ends. */
static int go(pid_t child, int how)
{
    int status = 0;
    ptrace(how, child, 0, 0);
    waitpid(child, &status, __WALL);
    return status;
}

static int code(pid_t child)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    ptrace(PTRACE_GETSIGINFO, child, 0, &info);
    return info.si_signo == SIGTRAP ? info.si_code : -1;
}

static uint64_t rip(pid_t child)
{
    struct user_regs_struct registers;
    memset(&registers, 0, sizeof registers);
    ptrace(PTRACE_GETREGS, child, 0, &registers);
    return registers.rip;
}

static int trapped(int status) { return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP; }

static void write_words(void)
{
    other = 1;
    word = 2;
    other = 3;
    other = word;
}

static void data(void)
{
    pid_t child = begin(write_words);
    equal(get(child, 6), NOTHING, "DR6 says nothing");
    equal(set(child, 0, (uint64_t)&word) | set(child, 7, control(0, WRITTEN, 8)), 0,
          "a word that is written is watched");
    equal(get(child, 0), (uint64_t)&word, "its address is told");
    equal(get(child, 7), control(0, WRITTEN, 8), "and what is watched");
    int status = go(child, PTRACE_CONT);
    check(trapped(status) && code(child) == HWBKPT, "the write stops it, by TRAP_HWBKPT");
    equal(get(child, 6), NOTHING ^ 1, "DR6 says which");
    equal(ptrace(PTRACE_PEEKDATA, child, &word, 0), 2, "after the write");
    status = go(child, PTRACE_CONT);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a read does not");
    child = begin(write_words);
    equal(set(child, 3, (uint64_t)&word) | set(child, 7, control(3, ACCESSED, 8)), 0,
          "the last one watches every access");
    status = go(child, PTRACE_CONT);
    check(trapped(status) && ptrace(PTRACE_PEEKDATA, child, &other, 0) == 1 && get(child, 6) == (NOTHING ^ 8),
          "the write");
    status = go(child, PTRACE_CONT);
    check(trapped(status) && ptrace(PTRACE_PEEKDATA, child, &other, 0) == 3, "the read");
    equal(set(child, 6, 0), 0, "DR6 can be set");
    equal(get(child, 6), 0, "and says that");
    status = go(child, PTRACE_CONT);
    check(WIFEXITED(status), "the end");
}

static void __attribute__((noinline)) passed(void)
{
    __asm__ volatile("" ::: "memory");
    other++;
}

static void pass_thrice(void)
{
    passed();
    passed();
    passed();
    if (other != 3)
        _exit(1);
}

static void execution(void)
{
    pid_t child = begin(pass_thrice);
    set(child, 1, (uint64_t)passed);
    equal(set(child, 7, control(1, EXECUTED, 1)), 0, "an instruction is watched");
    for (int i = 0; i < 3; i++) {
        int status = go(child, PTRACE_CONT);
        check(trapped(status) && code(child) == HWBKPT && rip(child) == (uint64_t)passed &&
                  get(child, 6) == (NOTHING ^ 2),
              "it stops before it");
        equal(ptrace(PTRACE_PEEKDATA, child, &other, 0), i, "which it has not done");
        if (i == 1) {
            status = go(child, PTRACE_SINGLESTEP);
            check(trapped(status) && code(child) == TRACE && rip(child) != (uint64_t)passed,
                  "a step from there is a step");
            check((get(child, 6) ^ NOTHING) & 1 << 14, "DR6 says so");
        }
    }
    int status = go(child, PTRACE_CONT);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "all was done once");
}

static void write_bytes(void)
{
    for (int i = 0; i < 16; i++)
        bytes[i] = i;
}

static void lengths(void)
{
    static const struct {
        int length, at;
    } parts[] = {{1, 3}, {2, 6}, {4, 12}, {8, 8}};
    for (int i = 0; i < 4; i++) {
        int length = parts[i].length, stops = 0, good = 1, status;
        pid_t child = begin(write_bytes);
        set(child, 2, (uint64_t)bytes + parts[i].at);
        set(child, 7, control(2, WRITTEN, length));
        while (trapped(status = go(child, PTRACE_CONT))) {
            good &=
                (char)ptrace(PTRACE_PEEKDATA, child, bytes + parts[i].at + stops, 0) == parts[i].at + stops;
            stops++;
        }
        check(good && stops == length && WIFEXITED(status), "each byte of a part, and no other");
    }
}

static void refused(void)
{
    pid_t child = begin(write_words);
    fails(set(child, 0, TOP), EINVAL, "an address of the kernel's");
    fails(set(child, 0, 0xffffffff80000000), EINVAL, "another");
    fails(set(child, 0, 1ul << 63), EINVAL, "one that is none");
    equal(get(child, 0), 0, "nothing is set");
    fails(set(child, 4, 0), EIO, "there is no DR4");
    fails(set(child, 5, 0), EIO, "nor DR5");
    equal(get(child, 4), 0, "which reads as zero");
    equal(set(child, 0, (uint64_t)bytes + 1), 0, "any address of its own");
    fails(set(child, 7, control(0, WRITTEN, 2)), EINVAL, "two bytes at an odd address");
    fails(set(child, 7, control(0, EXECUTED, 4)), EINVAL, "four bytes of instructions");
    fails(set(child, 7, control(0, PORTS, 1)), EINVAL, "ports");
    equal(get(child, 7), 0, "nothing is watched");
    equal(set(child, 0, (uint64_t)bytes) | set(child, 7, control(0, WRITTEN, 8)), 0,
          "eight bytes that lie well");
    fails(set(child, 0, (uint64_t)bytes + 4), EINVAL, "and may not move to where they do not");
    equal(get(child, 0), (uint64_t)bytes, "they have not");
    equal(set(child, 1, TOP - 8), 0, "the last word of user mode");
    equal(set(child, 7, control(1, WRITTEN, 8)), 0, "can be watched");
    fails(set(child, 1, TOP - 1) | set(child, 7, control(1, WRITTEN, 4)), EINVAL,
          "four bytes that end outside cannot");
    equal(set(child, 7, control(1, WRITTEN, 8) | 1 << 13 | 1 << 8), 0,
          "what makes access to the registers trap is left out");
    int status = go(child, PTRACE_CONT);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "it goes on to its end");
}

static void make_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        word = 5;
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    word = WEXITSTATUS(status);
    _exit(word == 3 ? 7 : 1);
}

static void *write_there(void *unused)
{
    word = 6;
    return unused;
}

static void make_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, write_there, 0);
    pthread_join(thread, 0);
    word = 7;
}

static void execute(void) { execl("/proc/self/exe", "watchpoints", "quiet", (char *)0); }

static void inherited(void)
{
    pid_t child = begin(make_child);
    set(child, 0, (uint64_t)&word);
    set(child, 7, control(0, WRITTEN, 8));
    int status = go(child, PTRACE_CONT);
    while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGCHLD)
        status = go(child, PTRACE_CONT);
    check(trapped(status) && ptrace(PTRACE_PEEKDATA, child, &word, 0) == 3,
          "a child process has none, the parent has still");
    status = go(child, PTRACE_CONT);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child ended well");
    child = begin(make_thread);
    set(child, 0, (uint64_t)&word);
    set(child, 7, control(0, WRITTEN, 8));
    status = go(child, PTRACE_CONT);
    check(trapped(status) && ptrace(PTRACE_PEEKDATA, child, &word, 0) == 7,
          "a thread has none of its maker's");
    kill_child(child);
    child = begin(execute);
    set(child, 0, (uint64_t)bytes);
    set(child, 7, control(0, WRITTEN, 8));
    status = go(child, PTRACE_CONT);
    check(trapped(status), "it executes a program");
    check(get(child, 7) == 0 && get(child, 0) == 0, "which has none");
    kill_child(child);
}

/* Calls that write and read what is watched; gives way; then the write itself. */
static void call(void)
{
    int64_t value = 9;
    write(ends[1], &value, sizeof value);
    read(ends[0], (void *)&word, sizeof word);
    write(ends[1], (void *)&word, sizeof word);
    for (int i = 0; i < 200; i++)
        sched_yield();
    word++;
}

static void calls(void)
{
    if (pipe(ends))
        exit(1);
    pid_t child = begin(call);
    set(child, 0, (uint64_t)&word);
    set(child, 7, control(0, ACCESSED, 8));
    int status = go(child, PTRACE_CONT);
    check(trapped(status) && code(child) == HWBKPT, "it stops");
    long value = ptrace(PTRACE_PEEKDATA, child, &word, 0);
    check(value == 9 || value == 10, "not for what the kernel does on its behalf");
    equal(get(child, 6), NOTHING ^ 1, "DR6");
    while (trapped(status))
        status = go(child, PTRACE_CONT);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 7, "and goes on");
}

/* A deferred watchpoint: the exception of `mov ss` from a watched word comes behind the next instruction,
 * which is a system call. */
static void defer(void)
{
    static volatile uint16_t selector;
    for (int i = 0; i < 100; i++) {
        long result = SYS_getppid;
        __asm__ volatile("mov %%ss, %%ecx\n mov %%cx, %1\n mov %1, %%ss\n syscall"
                         : "+a"(result), "+m"(selector)::"rcx", "r11", "memory");
        if (result <= 0)
            _exit(1);
        result = SYS_read;
        __asm__ volatile("mov %1, %%ss\n syscall"
                         : "+a"(result), "+m"(selector)
                         : "D"(-1), "S"(0), "d"(0)
                         : "rcx", "r11", "memory");
        __asm__ volatile("mov %0, %%ss\n int3" : "+m"(selector)::"memory");
        word = (int64_t)&selector;
    }
}

static void deferred(void)
{
    pid_t child = begin(defer);
    int status, stops = 0;
    set(child, 0, (uint64_t)&word);
    set(child, 7, control(0, WRITTEN, 8));
    while (trapped(status = go(child, PTRACE_CONT))) {
        uint64_t selector = ptrace(PTRACE_PEEKDATA, child, &word, 0);
        if (selector && stops++ == 0) {
            set(child, 1, selector);
            set(child, 7, control(0, WRITTEN, 8) | control(1, ACCESSED, 2));
        }
    }
    check(WIFEXITED(status) && WEXITSTATUS(status) == 7 && stops > 100,
          "stack segments from a watched word, and calls behind them");
}

static volatile int64_t mine[4];

static void compute(void)
{
    for (int i = 0; i < 100000; i++)
        mine[i & 3 ? 1 : 2] += i;
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        mine[0]++;
    }
}

/* Several, each with its own, beside others. */
static void several(void)
{
    pid_t children[4];
    int stops[4] = {0}, living = 4, good = 1;
    for (int i = 0; i < 4; i++) {
        children[i] = begin(compute);
        if (i < 3) {
            set(children[i], i, (uint64_t)&mine[i == 0 ? 0 : 3]);
            set(children[i], 7, control(i, WRITTEN, 8));
        }
    }
    for (int i = 0; i < 4; i++)
        ptrace(PTRACE_CONT, children[i], 0, 0);
    while (living) {
        int status;
        pid_t child = waitpid(-1, &status, 0);
        if (child < 0)
            break;
        if (!WIFSTOPPED(status)) {
            living--;
            good &= WIFEXITED(status) && WEXITSTATUS(status) == 7;
            continue;
        }
        for (int i = 0; i < 4; i++)
            stops[i] += children[i] == child;
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    equal(stops[0], 20, "one stops at each write");
    check(stops[1] + stops[2] + stops[3] == 0, "others do not");
    check(good, "all end");
}

static void go_alone(void)
{
    raise(SIGUSR1);
    word = 1;
}

static void left(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGUSR1, &ignore, 0);
    pid_t child = begin(go_alone);
    set(child, 0, (uint64_t)&word);
    set(child, 7, control(0, WRITTEN, 8));
    int status = 0;
    ptrace(PTRACE_DETACH, child, 0, 0);
    waitpid(child, &status, 0);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP,
          "what is watched stays so when the tracer leaves");
}

static const struct group groups[] = {
    {"data", data},         {"execution", execution}, {"lengths", lengths},
    {"refused", refused},   {"inherited", inherited}, {"calls", calls},
    {"deferred", deferred}, {"several", several},     {"left", left},
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "quiet") == 0)
        return 0;
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
