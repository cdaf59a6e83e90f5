/* Restartable sequences: `rseq`, the numbers of the processor in its area, and what becomes of a sequence
 * that is interrupted.
 *
 * Built with glibc, which registers an area for each thread by itself. Says the same on Linux.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define SIGNATURE 0x53053053u
#define UNREGISTER 1
#define ON_A_CPU "0x53053053"

struct area {
    uint32_t cpu_id_start, cpu_id;
    uint64_t sequence;
    uint32_t flags;
    uint32_t rest[3];
} __attribute__((aligned(32)));

/* The description that `sequence` leads to. */
struct description {
    uint32_t version, flags;
    uint64_t start, length, abort;
} __attribute__((aligned(32)));

static long rseq(volatile void *area, unsigned length, int flags, unsigned signature)
{
    return syscall(SYS_rseq, area, length, flags, signature);
}

/* The C library's area of this thread. */
static volatile struct area *own(void)
{
    return (volatile struct area *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

static int processors(void)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    return CPU_COUNT(&set);
}

static void settle_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        check(0, "a processor is there");
}

static void roam(void)
{
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
}

static unsigned here(void)
{
    unsigned cpu = -1;
    syscall(SYS_getcpu, &cpu, NULL, NULL);
    return cpu;
}

/* Counts `turns` down in a sequence: 1 when it came to the end, 0 when it was aborted. The description is
 * noted no more then: it may be gone when the kernel looks again. */
int spin(volatile struct area *area, struct description *description, long turns);
extern char spin_start[], spin_end[], spin_abort[];
__asm__(".text\n"
        "spin:\n"
        "    movq %rsi, 8(%rdi)\n"
        "spin_start:\n"
        "    decq %rdx\n"
        "    jnz spin_start\n"
        "spin_end:\n"
        "    movq $0, 8(%rdi)\n"
        "    movl $1, %eax\n"
        "    ret\n"
        "    .byte 0x0f, 0xb9, 0x3d\n"
        "    .long " ON_A_CPU "\n"
        "spin_abort:\n"
        "    xorl %eax, %eax\n"
        "    ret\n"
        "    .long 0x12345678\n"
        "stray_abort:\n"
        "    xorl %eax, %eax\n"
        "    ret\n");
extern char stray_abort[];

static struct description spinning(void)
{
    struct description d = {0};
    d.start = (uintptr_t)spin_start;
    d.length = spin_end - spin_start;
    d.abort = (uintptr_t)spin_abort;
    return d;
}

#define LONG (1L << 36)

/* Adds one to the counter of this processor, slowly and by no atomic instruction: 1, or 0 when it was
 * aborted and nothing was added. */
struct counter {
    volatile long value;
    char rest[56];
};
int add(volatile struct area *area, struct description *description, struct counter *counters, long turns);
extern char add_start[], add_end[], add_abort[];
__asm__(".text\n"
        "add:\n"
        "    movq %rsi, 8(%rdi)\n"
        "add_start:\n"
        "    movl 4(%rdi), %eax\n"
        "    shlq $6, %rax\n"
        "    movq (%rdx,%rax), %r8\n"
        "    incq %r8\n"
        "1:  decq %rcx\n"
        "    jnz 1b\n"
        "    movq %r8, (%rdx,%rax)\n"
        "add_end:\n"
        "    movq $0, 8(%rdi)\n"
        "    movl $1, %eax\n"
        "    ret\n"
        "    .byte 0x0f, 0xb9, 0x3d\n"
        "    .long " ON_A_CPU "\n"
        "add_abort:\n"
        "    xorl %eax, %eax\n"
        "    ret\n");

/* Whether the area names the processor that the kernel names; looked at while the thread stayed where it
 * was. */
static int is_true(volatile struct area *area)
{
    for (;;) {
        uint32_t before = area->cpu_id, start = area->cpu_id_start;
        unsigned cpu = here();
        if (area->cpu_id == before)
            return before == cpu && start == cpu;
        /* The number may never be another one without reason. */
        if (area->cpu_id >= 64)
            return 0;
    }
}

static void registering(void)
{
    static struct area mine, other;
    settle_on(0);
    check(__rseq_size >= 20, "the C library has registered its area");
    check(is_true(own()), "whose number is the processor's");
    int cpu = sched_getcpu();
    check(cpu >= 0 && cpu < 64, "and sched_getcpu says so");

    fails(rseq(&mine, 32, 0, SIGNATURE), EINVAL, "a second area is refused");
    fails(rseq(own(), 16, 0, SIGNATURE), EINVAL, "the same with another length");
    fails(rseq(own(), 32, 0, SIGNATURE + 1), EPERM, "the same with another signature");
    fails(rseq(own(), 32, 0, SIGNATURE), EBUSY, "the same once more");
    fails(rseq(own(), 32, 2, SIGNATURE), EINVAL, "an unknown flag");
    fails(rseq(own(), 32, UNREGISTER | 2, SIGNATURE), EINVAL, "an unknown flag beside UNREGISTER");
    fails(rseq(&mine, 32, UNREGISTER, SIGNATURE), EINVAL, "another area is not to be given up");
    fails(rseq(NULL, 32, UNREGISTER, SIGNATURE), EINVAL, "nor none");
    fails(rseq(own(), 64, UNREGISTER, SIGNATURE), EINVAL, "nor by another length");
    fails(rseq(own(), 32, UNREGISTER, SIGNATURE + 1), EPERM, "nor by another signature");
    equal(rseq(own(), 32, UNREGISTER, SIGNATURE), 0, "it is given up");
    equal((int)own()->cpu_id, -1, "and has no number then");
    equal(own()->cpu_id_start, 0, "nor a number to begin with");
    fails(rseq(own(), 32, UNREGISTER, SIGNATURE), EINVAL, "it is not given up twice");

    fails(rseq((char *)&mine + 8, 32, 0, SIGNATURE), EINVAL, "an area that is not aligned");
    fails(rseq(&mine, 31, 0, SIGNATURE), EINVAL, "one that is too short");
    fails(rseq((void *)0xffff888000000000, 32, 0, SIGNATURE), EFAULT, "one of the kernel's");
    mine.cpu_id = mine.cpu_id_start = 99;
    equal(rseq(&mine, 32, 0, 7), 0, "an area is registered");
    check(mine.cpu_id < 64 && mine.cpu_id_start < 64 && is_true(&mine),
          "and has the processor's number at once");
    fails(rseq(&other, 32, 0, 7), EINVAL, "another is refused as long as it is");
    equal(rseq(&mine, 32, UNREGISTER, 7), 0, "it is given up by the signature that it has");
    roam();
    equal(rseq(own(), 32, 0, SIGNATURE), 0, "the C library's is registered again");
}

static void *moves(void *unused)
{
    (void)unused;
    int count = processors(), wrong = 0;
    for (int i = 0; i < 200; i++) {
        settle_on(i % count);
        sched_yield();
        wrong += !is_true(own());
    }
    return (void *)(long)wrong;
}

static void moving(void)
{
    pthread_t threads[4];
    long wrong = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, moves, NULL);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    equal(wrong, 0, "a thread that moves has the new number");
}

/* A thread that was moved while it slept in a read that the kernel makes anew. */
static int gate[2], answer[2];
static volatile pid_t sleeper;
static void *sleeps(void *unused)
{
    (void)unused;
    long wrong = 0;
    char byte;
    sleeper = gettid();
    while (read(gate[0], &byte, 1) == 1)
        wrong += !is_true(own()) || write(answer[1], "", 1) != 1;
    return (void *)wrong;
}

static void moved(void)
{
    pthread_t thread;
    void *wrong;
    int count = processors();
    sleeper = 0;
    check(pipe(gate) == 0 && pipe(answer) == 0, "pipes");
    pthread_create(&thread, NULL, sleeps, NULL);
    while (sleeper == 0)
        sched_yield();
    for (int i = 0; i < 200; i++) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(i % count, &set);
        if (sched_setaffinity(sleeper, sizeof set, &set) != 0)
            check(0, "the sleeper is moved");
        char byte;
        if (write(gate[1], "", 1) != 1 || read(answer[0], &byte, 1) != 1)
            check(0, "the sleeper is woken");
    }
    close(gate[1]);
    pthread_join(thread, &wrong);
    close(gate[0]);
    equal((long)wrong, 0, "one that is moved while it sleeps has the new number when it wakes");
}

static volatile int stop;
static void *busy(void *unused)
{
    (void)unused;
    settle_on(0);
    while (!stop)
        ;
    return NULL;
}

static void preempting(void)
{
    pthread_t threads[128];
    struct description d = spinning();
    int count = 2 * processors();
    settle_on(0);
    stop = 0;
    int ended = 0;
    for (int i = 0; i < 100; i++)
        ended |= spin(own(), &d, 100);
    equal(ended, 1, "a sequence that nobody interrupts comes to its end");
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, busy, NULL);
    int aborted = 0;
    for (int i = 0; i < 5; i++)
        aborted += !spin(own(), &d, LONG);
    equal(aborted, 5, "one that is preempted is aborted");
    equal(own()->sequence, 0, "and is noted no more");
    stop = 1;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    roam();
}

static struct counter counters[64];
#define TIMES 3000
static void *adds(void *unused)
{
    (void)unused;
    struct description d = {0};
    d.start = (uintptr_t)add_start;
    d.length = add_end - add_start;
    d.abort = (uintptr_t)add_abort;
    int count = processors();
    for (int i = 0; i < TIMES; i++) {
        /* One that is aborted has not added: it does so again. */
        for (long turns = 2000; !add(own(), &d, counters, turns);)
            ;
        if (i % 100 == 0) {
            settle_on(i / 100 % count);
            roam();
        }
        if (i % 16 == 0)
            sched_yield();
    }
    return NULL;
}

static void counting(void)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    long sum = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, adds, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 64; i++)
        sum += counters[i].value;
    equal(sum, THREADS * TIMES, "counters of processors that threads share lose nothing");
}

static volatile int handled, handled_at_abort, handled_within, noted;
static void handler(int signo, siginfo_t *info, void *context)
{
    (void)signo, (void)info;
    uintptr_t at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    handled++;
    handled_at_abort += at == (uintptr_t)spin_abort;
    handled_within += at >= (uintptr_t)spin_start && at < (uintptr_t)spin_end;
    noted += own()->sequence != 0;
}

static void ring(int us, int again)
{
    struct itimerval soon = {{0, again}, {0, us}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void handle(int signo)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(signo, &action, NULL);
    handled = handled_at_abort = handled_within = noted = 0;
}

static void signals(void)
{
    struct description d = spinning();
    int finished = 0;
    handle(SIGALRM);
    /* Again and again: one may come before the sequence has begun. */
    ring(3000, 3000);
    while (handled_at_abort < 5)
        finished += spin(own(), &d, LONG);
    ring(0, 0);
    equal(finished, 0, "a signal aborts a sequence");
    equal(handled_within, 0, "whose handler finds it aborted, at the place where it goes on");
    equal(noted, 0, "and noted no more");

    handle(SIGUSR1);
    own()->sequence = (uintptr_t)&d;
    raise(SIGUSR1);
    check(handled == 1 && noted == 0, "a sequence that was left is forgotten at a signal");
    equal(own()->sequence, 0, "and afterwards");
}

/* A thread alone on its processor, in one sequence after the other. */
static volatile struct area *volatile its_area;
static volatile long aborted;
static void *spins(void *cpu)
{
    struct description d = spinning();
    if (cpu)
        settle_on((int)(long)cpu);
    its_area = own();
    while (!stop)
        aborted += !spin(own(), &d, LONG);
    return NULL;
}

#define BARRIER_QUERY 0
#define BARRIER_RSEQ 128
#define BARRIER_REGISTER_RSEQ 256
#define BARRIER_ON_CPU 1

static long barrier(int command, unsigned flags, int cpu)
{
    return syscall(SYS_membarrier, command, flags, cpu);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void barriers(void)
{
    pthread_t thread;
    int several = processors() > 1;
    check((barrier(BARRIER_QUERY, 0, 0) & (BARRIER_RSEQ | BARRIER_REGISTER_RSEQ)) ==
              (BARRIER_RSEQ | BARRIER_REGISTER_RSEQ),
          "barriers for sequences are there");
    fails(barrier(BARRIER_RSEQ, 0, 0), EPERM, "not for who has not registered");
    fails(barrier(BARRIER_REGISTER_RSEQ, 1, 0), EINVAL, "who registers names no processor");
    equal(barrier(BARRIER_REGISTER_RSEQ, 0, 0), 0, "registered");
    fails(barrier(BARRIER_RSEQ, 2, 0), EINVAL, "an unknown flag");
    settle_on(0);
    stop = 0, aborted = 0, its_area = NULL;
    pthread_create(&thread, NULL, spins, (void *)(long)several);
    long rounds = 0, in_time = 0;
    for (int i = 0; i < 40; i++) {
        while (!its_area || !its_area->sequence)
            sched_yield();
        long before = aborted;
        int named = i % 2;
        /* Where the thread is; one that moves meanwhile is aborted by that. */
        equal(barrier(BARRIER_RSEQ, named ? BARRIER_ON_CPU : 0, its_area->cpu_id), 0, "a barrier");
        for (double end = now() + 20; aborted == before && now() < end;)
            sched_yield();
        rounds++;
        in_time += aborted != before;
    }
    equal(in_time, rounds, "a sequence on another processor is aborted by it");
    equal(barrier(BARRIER_RSEQ, BARRIER_ON_CPU, 1 << 20), 0, "a processor that there is not is nobody's");
    stop = 1;
    while (pthread_tryjoin_np(thread, NULL) != 0)
        barrier(BARRIER_RSEQ, 0, 0), sched_yield();
    roam();
}

/* How a child ends that does `what`, by the signal's number. */
static int ends(void (*what)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        handle(SIGUSR1);
        what();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void at_signal(struct description *d)
{
    own()->sequence = (uintptr_t)d;
    raise(SIGUSR1);
}

static void good(void)
{
    struct description d = spinning();
    at_signal(&d);
}

static void stray_signature(void)
{
    struct description d = spinning();
    d.abort = (uintptr_t)stray_abort;
    at_signal(&d);
}

static void abort_within(void)
{
    struct description d = spinning();
    d.abort = d.start + 1;
    at_signal(&d);
}

static void later_version(void)
{
    struct description d = spinning();
    d.version = 1;
    at_signal(&d);
}

static void over_the_end(void)
{
    struct description d = spinning();
    d.length = -d.start + 10;
    at_signal(&d);
}

static void kernel_abort(void)
{
    struct description d = spinning();
    d.abort = 0xffffffff81000000;
    at_signal(&d);
}

static void with_flags(void)
{
    struct description d = spinning();
    d.flags = 8;
    handle(SIGALRM);
    ring(3000, 3000);
    spin(own(), &d, LONG);
}

static void area_flags(void)
{
    struct description d = spinning();
    own()->flags = 8;
    handle(SIGALRM);
    ring(3000, 3000);
    spin(own(), &d, LONG);
}

static void nowhere(void) { at_signal((void *)16); }

static void in_the_kernel(void) { at_signal((void *)0xffff888000000000); }

static void area_gone(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rseq(own(), 32, UNREGISTER, SIGNATURE);
    rseq(page, 32, 0, SIGNATURE);
    munmap(page, 4096);
    raise(SIGUSR1);
}

static void caught(int signo) { _exit(signo == SIGSEGV ? 0 : 1); }

static void segv_caught(void)
{
    signal(SIGSEGV, caught);
    stray_signature();
    abort();
}

/* A process interrupted in the handler, before it ends, meets the description once more and ends by that. */
static int caught_in_time(void)
{
    int end = SIGSEGV;
    for (int tries = 0; tries < 20 && end != 0; tries++)
        end = ends(segv_caught);
    return end;
}

static void segv_by_segv(void)
{
    handle(SIGSEGV);
    struct description d = spinning();
    d.version = 1;
    own()->sequence = (uintptr_t)&d;
    raise(SIGSEGV);
}

static void bad(void)
{
    equal(ends(good), 0, "a description that holds does nothing");
    equal(ends(stray_signature), SIGSEGV, "one without the signature before its end is SIGSEGV");
    equal(ends(abort_within), SIGSEGV, "one that goes on within itself");
    equal(ends(later_version), SIGSEGV, "one of another version");
    equal(ends(over_the_end), SIGSEGV, "one that wraps around");
    equal(ends(kernel_abort), SIGSEGV, "one that goes on in the kernel");
    equal(ends(with_flags), SIGSEGV, "one with flags");
    equal(ends(area_flags), SIGSEGV, "an area with flags");
    equal(ends(nowhere), SIGSEGV, "a description that is nowhere");
    equal(ends(in_the_kernel), SIGSEGV, "or in the kernel");
    equal(ends(area_gone), SIGSEGV, "an area that has gone");
    equal(caught_in_time(), 0, "that can be caught");
    equal(ends(segv_by_segv), SIGSEGV, "unless it comes with itself");
}

/* Children: of a fork, which has its parent's; of another program, which has none. */
static void children(void)
{
    int status = -1, count = processors();
    settle_on(0);
    pid_t child = fork();
    if (child == 0) {
        int wrong = 0;
        for (int i = 0; i < count; i++) {
            settle_on(i);
            wrong += !is_true(own());
        }
        _exit(wrong || rseq(own(), 32, UNREGISTER, SIGNATURE) != 0);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "the child of a fork has its parent's area");
    child = vfork();
    if (child == 0)
        _exit(rseq(own(), 32, UNREGISTER, SIGNATURE) == 0);
    waitpid(child, &status, 0);
    equal(status, 0, "one that shares memory has none");
    check(is_true(own()), "its parent keeps it");
    roam();
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "rseqs", "again", NULL);
        _exit(9);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "another program begins with none");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return __rseq_size < 20 || own()->cpu_id >= (unsigned)processors() || strcmp(argv[1], "again") != 0;
    alarm(240);
    registering();
    moving();
    moved();
    preempting();
    counting();
    signals();
    barriers();
    bad();
    children();
    return done();
}
