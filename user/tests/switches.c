/* The cost of a switch between two programs' threads, from the last instruction of one to the first of the
 * next, of a page fault, of a pipe among many, and of a second open.
 *
 * Interface: switches, under `-icount shift=0` on one CPU. The goals of the dissertation's chapter in
 * instructions: 67 within an address space, 90 across, with vector registers in use or not. The parties are
 * made by the native calls, so that they begin without vector registers.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "yield-switches.h"
#include "synthesis.h"
#include "tap.h"
#include "quantum-ends.h"

#define ROUNDS 4000
/* A quantum, nanoseconds. */
#define QUANTUM 400000ul
/* More than a quantum's worth of calls. */
#define ALONE 40000

static struct passage *passage;
static char stacks[2][16384] __attribute__((aligned(64)));
static syn_thread self;
static volatile int vectors, ended, parties;
static volatile uint64_t before, after;
static volatile long held, released;

/* The least that giving way takes a thread that is alone. */
PLAIN static uint64_t alone(long rounds)
{
    uint64_t least = -1ul;
    while (rounds--) {
        uint64_t now = give_way(passage, 0);
        if (now - passage->from < least)
            least = now - passage->from;
    }
    return least;
}

PLAIN static void over(void)
{
    __atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
    syn_resume(self);
}

static void party(long who)
{
    if (vectors)
        pass_vectors(passage, who, who ? 1L << 40 : ROUNDS);
    else
        pass_plain(passage, who, who ? 1L << 40 : ROUNDS);
    if (!who)
        passage->quit = 1;
    over();
}

/* Alone, then with a second one, then alone again. */
static void hermit(long who)
{
    before = alone(100);
    passage->least = -1ul;
    syn_create(party, stacks[1] + sizeof stacks[1], 1, 0, 0);
    pass_plain(passage, who, ROUNDS);
    passage->quit = 1;
    while (!ended)
        give_way(passage, 0);
    after = alone(ALONE);
    over();
}

/* Gives way beside one that uses vector registers, then uses its own for the first time: nothing of the
 * other's is there. */
static void newcomer(long who)
{
    long found;
    pass_plain(passage, who, ROUNDS);
    __asm__ volatile("movq %%xmm7, %0" : "=r"(found) : : "xmm7");
    if (found)
        passage->lost++;
    passage->quit = 1;
    over();
}

static void veteran(long who)
{
    pass_vectors(passage, who, 1L << 40);
    over();
}

PLAIN static long yield(void)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"((long)SYS_sched_yield) : "rcx", "r11", "memory");
    return result;
}

/* Counts how often it comes back. */
static void obedient(long who)
{
    (void)who;
    while (!passage->quit) {
        passage->lost += yield() != 0;
        passage->count++;
    }
    over();
}

/* Suspends one that has just given way: it comes back no more until it is released. */
static void commander(long who)
{
    syn_thread other = syn_create(obedient, stacks[1] + sizeof stacks[1], 1, 0, 0);
    for (long i = 0; i < 100; i++)
        give_way(passage, who);
    syn_suspend(other);
    held = passage->count;
    for (long i = 0; i < 3; i++)
        give_way(passage, who);
    held = passage->count - held;
    syn_resume(other);
    released = passage->count;
    for (long i = 0; i < 100; i++)
        give_way(passage, who);
    released = passage->count - released;
    passage->quit = 1;
    over();
}

/* Begins a thread of this process. */
static void begin(void (*body)(long), long who)
{
    parties++;
    check(syn_create(body, stacks[who] + sizeof stacks[who], who, 0, 0) > 0, "a thread begins");
}

static void wait_for_all(void)
{
    while (ended < parties)
        syn_suspend(0);
}

static void reset(int with_vectors)
{
    self = syn_handle(0);
    vectors = with_vectors;
    ended = parties = 0;
    passage->quit = passage->count = passage->lost = 0;
    passage->least = -1ul;
}

static void measure(int spaces, int with_vectors, uint64_t most)
{
    int status = 0;
    char name[128];
    reset(with_vectors);
    pid_t child = 0;
    if (spaces == 2 && (child = fork()) == 0) {
        self = syn_handle(0);
        parties = 1;
        if (syn_create(party, stacks[1] + sizeof stacks[1], 1, 0, 0) <= 0)
            _exit(1);
        wait_for_all();
        _exit(0);
    }
    if (spaces == 1)
        begin(party, 1);
    begin(party, 0);
    wait_for_all();
    if (child)
        waitpid(child, &status, 0);
    uint64_t own = own_ticks(passage), least = passage->least - own;
    snprintf(name, sizeof name, "%s, %s vector registers: %lu instructions, at most %lu",
             spaces == 1 ? "within a space" : "across spaces", with_vectors ? "with" : "without",
             (unsigned long)least, (unsigned long)most);
    check(status == 0 && passage->count > ROUNDS / 2 && least <= most, name);
    equal(passage->lost, 0, "vector registers are kept");
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ul + t.tv_nsec;
}

/* Timer interrupts since boot; 0 when nothing says. */
static long timer_interrupts(void)
{
    char line[128];
    long count = 0;
    FILE *file = fopen("/syn/interrupts", "r");
    while (file && fgets(line, sizeof line, file))
        if (strstr(line, "timer"))
            sscanf(line, "%*[^:]:%ld", &count);
    if (file)
        fclose(file);
    return count;
}

/* The timer looks less often while nobody uses up a quantum, and at the end of each as soon as somebody
 * does. */
static void ticks(void)
{
    uint64_t from = now_ns(), longest_later = 0, first = 0;
    long before = timer_interrupts(), gaps = 0;
    for (int i = 0; i < 2000; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, 0, 0);
    }
    long spent = (now_ns() - from) / QUANTUM, count = timer_interrupts() - before;
    printf("# %ld timer interrupts in %ld quanta\n", count, spent);
    check(spent > 50 && count > 0 && count < spent / 2, "who gives the CPU up is seldom looked after");
    pid_t child = fork();
    if (child == 0)
        for (;;)
            ;
    /* Two that compute: this one sees when it does not have the CPU. */
    for (uint64_t last = now_ns(); gaps < 20;) {
        uint64_t now = now_ns();
        if (now - last > QUANTUM / 4) {
            if (gaps++ == 0)
                first = now - last;
            else if (now - last > longest_later)
                longest_later = now - last;
        }
        last = now;
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    printf("# the first turn took %lu ns, the longest later one %lu ns\n", (unsigned long)first,
           (unsigned long)longest_later);
    check(first < 5 * QUANTUM, "who begins to compute is found out");
    check(longest_later < QUANTUM + QUANTUM / 4, "and gives way after each quantum");
}

/* The end of a quantum: straight from the timer's interrupt into the other thread. */
static struct turns *turns;

static void computes(long who)
{
    if (vectors)
        __asm__ volatile("movq %0, %%xmm7" : : "r"(who) : "xmm7");
    take_turns(turns, who, 100);
    if (vectors) {
        long kept;
        __asm__ volatile("movq %%xmm7, %0" : "=r"(kept));
        if (kept != who)
            passage->lost++;
    }
    over();
}

static void quantum(int with_vectors, uint64_t most)
{
    char name[128];
    reset(with_vectors);
    memset(turns, 0, sizeof *turns);
    begin(computes, 1);
    begin(computes, 0);
    wait_for_all();
    uint64_t typical = typical_turn(turns), mean = mean_turn(turns);
    printf("# a quantum's end %s vector registers: %lu instructions, %lu in the mean\n",
           with_vectors ? "with" : "without", (unsigned long)typical, (unsigned long)mean);
    snprintf(name, sizeof name, "a quantum's end takes at most %lu instructions", (unsigned long)most);
    check(turns_counted(turns) >= 100 && typical <= most, name);
    snprintf(name, sizeof name, "and in the mean not many more: %lu", (unsigned long)mean);
    check(mean <= 2 * most, name);
    equal(passage->lost, 0, "vector registers are kept");
}

/* The least that the first touch of a page takes: 512 of it are the words of a page of zeros. */
static void faults(void)
{
    enum { PAGES = 256 };
    volatile char *pages = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!check(pages != MAP_FAILED, "memory"))
        return;
    uint64_t least = -1ul;
    for (int page = 0; page < PAGES; page++) {
        uint64_t from = __builtin_ia32_rdtsc();
        pages[page * 4096] = 1;
        uint64_t took = __builtin_ia32_rdtsc() - from;
        if (took < least)
            least = took;
    }
    printf("# a page fault: %lu instructions\n", (unsigned long)least);
    check(least <= 512 + 350, "a page fault goes by the thread's own vector");
    munmap((void *)pages, PAGES * 4096);
}

/* Making a pipe and its code takes as long among many as among few. */
static void crowd(void)
{
    enum { PIPES = 1400, FEW = 200 };
    struct rlimit many = {2 * PIPES + 100, 2 * PIPES + 100};
    uint64_t first = 0, last = 0;
    equal(setrlimit(RLIMIT_NOFILE, &many), 0, "many descriptors");
    for (int i = 0; i < PIPES; i++) {
        int ends[2];
        char byte = 'x';
        uint64_t from = __builtin_ia32_rdtsc();
        if (pipe(ends) || write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) {
            check(0, "a pipe that is used");
            break;
        }
        uint64_t took = __builtin_ia32_rdtsc() - from;
        first += i < FEW ? took : 0;
        last += i >= PIPES - FEW ? took : 0;
    }
    printf("# a pipe, made and used: %lu instructions among few, %lu among %d\n", (unsigned long)first / FEW,
           (unsigned long)last / FEW, PIPES);
    check(last && last < first + first / 4, "its cost does not grow with the number of pipes");
    syscall(SYS_close_range, 3, ~0u, 0);
}

/* The second open of a file that is open is no walk that learns the path: that pays only for paths that
 * are opened often. */
static void second(void)
{
    enum { FILES = 50 };
    uint64_t spent = 0;
    char path[] = "/tmp/second-00";
    for (int i = 0; i < FILES; i++) {
        path[sizeof path - 3] = '0' + i / 10;
        path[sizeof path - 2] = '0' + i % 10;
        close(open(path, O_CREAT | O_RDONLY, 0600));
        int first = open(path, O_RDONLY);
        uint64_t from = __builtin_ia32_rdtsc();
        int again = open(path, O_RDONLY);
        spent += __builtin_ia32_rdtsc() - from;
        check(first >= 0 && again >= 0, "a file is opened twice");
        close(again);
        close(first);
        unlink(path);
    }
    printf("# a second open: %lu instructions\n", (unsigned long)spent / FILES);
    check(spent < 1500 * FILES, "a second open is no walk");
}

int main(void)
{
    passage = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!check(passage != MAP_FAILED, "shared memory"))
        return done();
    /* Two time stamps apart: three instructions and two stores, one into rax, one in place of the call. */
    equal(own_ticks(passage), 7, "the time stamp counts instructions");
    for (int with_vectors = 0; with_vectors < 2; with_vectors++) {
        measure(1, with_vectors, 67);
        measure(2, with_vectors, 90);
    }
    faults();
    turns = mmap(0, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int with_vectors = 0; with_vectors < 2; with_vectors++)
        quantum(with_vectors, 112);
    reset(0);
    begin(veteran, 1);
    begin(newcomer, 0);
    wait_for_all();
    check(passage->count > ROUNDS / 2, "one thread with vector registers beside one without");
    equal(passage->lost, 0, "the one's are kept, and the other finds none of them");
    reset(0);
    begin(commander, 0);
    parties = 2;
    wait_for_all();
    equal(held, 0, "one that is suspended after giving way does not come back");
    check(released > 50, "and does when it is released");
    equal(passage->lost, 0, "giving way succeeds each time");
    reset(0);
    begin(hermit, 0);
    parties = 2;
    wait_for_all();
    check(passage->count > ROUNDS / 2, "a second thread comes and goes");
    equal(after, before, "giving way costs a thread that is alone again what it did before");
    ticks();
    /* Last: what 1,400 pipes were is still put away behind them, between the quanta of others. */
    second();
    crowd();
    return done();
}
