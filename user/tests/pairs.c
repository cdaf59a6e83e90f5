/* A pipeline of two processes on several CPUs: together on one while one is enough for both, on two while it
 * is not, and together again.
 *
 * A producer computes, writes a message into a pipe, and sleeps for the rest of its period; a consumer reads
 * it and computes. Both say where they are.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <sys/mman.h>

static struct shared {
    /* Nanoseconds that each computes for a message, and the producer's period. */
    _Atomic long work, period;
    _Atomic int where[2];
    /* Messages that the consumer has had since it was last on another CPU than its producer, and since it
     * was last on the same. */
    _Atomic long same, apart;
    _Atomic long messages;
} *shared;

static int64_t used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void compute(int64_t ns)
{
    int64_t end = used() + ns;
    while (used() < end)
        ;
}

static void produce(int pipe)
{
    char message = 0;
    int64_t next = nanoseconds();
    for (;;) {
        compute(shared->work);
        shared->where[0] = sched_getcpu();
        if (write(pipe, &message, 1) != 1)
            _exit(1);
        next += shared->period;
        int64_t left = next - nanoseconds();
        if (left > 0)
            pause_for(left / 1e9);
        else
            next = nanoseconds();
    }
}

static void consume(int pipe)
{
    char message;
    while (read(pipe, &message, 1) == 1) {
        compute(shared->work);
        shared->where[1] = sched_getcpu();
        shared->messages++;
        if (shared->where[0] == shared->where[1]) {
            shared->same++;
            shared->apart = 0;
        } else {
            shared->apart++;
            shared->same = 0;
        }
    }
    _exit(0);
}

static void on(pid_t process, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= 0)
        CPU_SET(cpu, &set);
    else
        for (int i = 0; i < 8; i++)
            CPU_SET(i, &set);
    sched_setaffinity(process, sizeof set, &set);
}

/* Waits until so many messages one after the other have come with both together, or apart; 0: that never
 * happened. */
static int until(_Atomic long *count, long messages, const char *what)
{
    double begun = seconds();
    long before = shared->messages;
    while (*count < messages && seconds() < begun + 20)
        pause_for(0.005);
    printf("# %s: after %.0f ms, %ld messages\n", what, (seconds() - begun) * 1e3, shared->messages - before);
    return *count >= messages;
}

int main(void)
{
    int ends[2];
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pipe(ends) != 0)
        return 1;
    shared->work = 100000;
    shared->period = 4000000;
    pid_t consumer = fork();
    if (consumer == 0) {
        close(ends[1]);
        consume(ends[0]);
    }
    pid_t producer = fork();
    if (producer == 0) {
        close(ends[0]);
        produce(ends[1]);
    }
    close(ends[0]);
    close(ends[1]);
    on(producer, 0);
    on(consumer, 1);
    check(until(&shared->apart, 20, "bound"), "each is on the CPU that it is bound to");
    on(producer, -1);
    on(consumer, -1);
    shared->same = 0;
    check(until(&shared->same, 50, "light"), "a light pipeline comes together");
    shared->work = 3000000;
    shared->period = 1000000;
    shared->apart = 0;
    check(until(&shared->apart, 50, "heavy"), "a heavy one has two CPUs");
    long before = shared->messages;
    double begun = seconds();
    pause_for(1);
    printf("# heavy: %.0f messages in a second\n", (shared->messages - before) / (seconds() - begun));
    shared->work = 100000;
    shared->period = 4000000;
    shared->same = 0;
    check(until(&shared->same, 50, "light again"), "and comes together again");
    kill_child(producer);
    kill_child(consumer);
    return done();
}
