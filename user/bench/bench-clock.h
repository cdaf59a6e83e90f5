/* The clock: the end of a quantum, and a timer from its setting to the return of its handler.
 *
 * Interface: `time_*`, for the table of bench-threads.h. The program computes meanwhile, and what it computes
 * is known to the instruction, so the kernel's part is what is left of the time stamps.
 */
#include <sched.h>
#include <time.h>

#include "quantum-ends.h"

/* --- the end of a quantum --- */

static struct turns *turns;

static int other_turns(void *unused)
{
    (void)unused;
    take_turns(turns, 1, TURNS_KEPT);
    return 0;
}

/* Two threads that compute, by the C library's own way without its data: the peer has the same. They are
 * of a process without descriptors: what was written before is no channel of theirs. */
static uint64_t quanta(long n, uint64_t (*each)(struct turns *))
{
    static char stack[65536] __attribute__((aligned(16)));
    int status;
    if (!turns)
        turns = mmap(0, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(turns != MAP_FAILED, "mmap");
    memset(turns, 0, sizeof *turns);
    pid_t process = fork();
    must(process >= 0, "fork");
    if (process == 0) {
        must(syscall(SYS_close_range, 0, ~0u, 0) == 0, "close_range");
        pid_t child =
            clone(other_turns, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, 0);
        must(child > 0, "clone");
        take_turns(turns, 0, n);
        wait4(child, &status, 0, 0);
        _exit(0);
    }
    must(wait4(process, &status, 0, 0) == process && status == 0, "turns");
    return each(turns) * n;
}

static uint64_t time_quantum_switch(long n) { return quanta(n, typical_turn); }
static uint64_t time_quantum_switch_mean(long n) { return quanta(n, mean_turn); }

/* --- a timer --- */

static volatile int fired;

static void on_timer(int number)
{
    (void)number;
    fired = 1;
}

/* Rounds of three instructions until `fired`. */
static long spin(void)
{
    long rounds = 0;
    __asm__ volatile("1: inc %0; cmpl $0, %1; je 1b" : "+r"(rounds) : "m"(fired) : "cc", "memory");
    return rounds;
}

/* Set for soon, fired, and its signal handled, without the time until then. */
static uint64_t time_timer_fire(long n)
{
    struct sigaction action = {.sa_handler = on_timer};
    struct itimerspec soon = {.it_value.tv_nsec = 30000};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    timer_t timer;
    uint64_t spent = 0;
    must(sigaction(SIGUSR2, &action, 0) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer");
    long id = (long)(int)(long)timer;
    for (long i = 0; i < n; i++) {
        fired = 0;
        uint64_t before = instructions();
        call6(SYS_timer_settime, id, 0, (long)&soon, 0, 0, 0);
        long rounds = spin();
        spent += instructions() - before - 3 * rounds;
    }
    timer_delete(timer);
    return spent;
}
