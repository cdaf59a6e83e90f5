/* Estimates: a thread is told that it will miss a deadline, before it does (synthesis.h, syn_job;
 * docs/feedback.md).
 *
 * Interface: estimates, on a machine with one processor that counts instructions; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include "synthesis.h"

static const int64_t MS = 1000000;
static volatile int64_t told_at;
static volatile int told;
static pid_t other;

static void late(void)
{
    told++;
    told_at = nanoseconds();
}

/* The emergency: the program that is in the way ends. */
static void late_and_helped(void)
{
    late();
    kill(other, SIGKILL);
}

static int64_t used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static long strip(int64_t ns)
{
    for (int64_t until = used() + ns; used() < until;)
        ;
    return syn_strip();
}

static pid_t hog(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            ;
    return pid;
}

/* Twenty strips of a millisecond, and from the sixth on beside another program; the time that is left at
 * the end. */
static int64_t job(int64_t until, int beside, void (*procedure)(void), long *highest)
{
    told = 0, told_at = 0, *highest = 0;
    int64_t deadline = nanoseconds() + until;
    syn_job(20, deadline, procedure);
    long estimate = 0;
    for (int i = 0; i < 20; i++) {
        if (i == 5 && beside)
            other = hog();
        estimate = strip(MS);
        if (estimate > *highest)
            *highest = estimate;
    }
    int64_t left = deadline - nanoseconds();
    equal(estimate, 0, "the last strip ends the job");
    if (beside)
        kill_child(other);
    printf("# %ld us left, told %d times, %ld us before the deadline; highest estimate %ld\n",
           (long)(left / 1000), told, told_at ? (long)((deadline - told_at) / 1000) : 0, *highest);
    if (told_at)
        told_at = deadline - told_at;
    return left;
}

int main(void)
{
    long highest;
    fails(syscall(SYN_CALL, SYN_STRIP), EINVAL, "a strip of no job");
    fails(syscall(SYN_CALL, SYN_JOB, 1, nanoseconds() - 1, late), EINVAL, "a deadline that has passed");
    fails(syscall(SYN_CALL, SYN_JOB, 1, nanoseconds() + MS, 0), EFAULT, "no procedure");
    fails(syscall(SYN_CALL, SYN_JOB, 1, nanoseconds() + MS, -1l), EFAULT, "none of the program's");
    int64_t left = job(40 * MS, 0, late, &highest);
    check(left > 15 * MS && told == 0 && highest < 600, "a job alone has time, and is not told");
    left = job(60 * MS, 1, late, &highest);
    check(left > 0 && told == 0, "nor one that is done in time beside another program");
    left = job(30 * MS, 1, late, &highest);
    check(left < 0 && highest > 1000, "one that would need more than it gets is late");
    check(told == 1 && told_at > 5 * MS, "and is told once, before that");
    left = job(30 * MS, 1, late_and_helped, &highest);
    check(left > 0 && told == 1, "it meets its deadline if it makes room when it is told");

    told = 0;
    int64_t deadline = nanoseconds() + 40 * MS;
    syn_job(2, deadline, late);
    strip(MS);
    pause_for(0.1);
    check(told == 1 && told_at < deadline, "a thread that sleeps is told");
    equal(syn_job(0, 0, 0), 0, "the job is given up");
    fails(syscall(SYN_CALL, SYN_STRIP), EINVAL, "and is no more");
    told = 0;
    syn_job(1000, nanoseconds() + 20 * MS, late);
    syn_job(0, 0, 0);
    pause_for(0.05);
    equal(told, 0, "nobody is told of a job that was given up");
    int good = 1;
    for (int i = 0; i < 20000; i++)
        good &= syn_job(1ul << (i & 63), nanoseconds() + (MS << (i & 15)), late) == 0;
    check(good, "many jobs in turn");
    syn_job(-1ul, INT64_MAX, late);
    check(strip(MS) >= 0, "as much work as can be told");
    pid_t pid = fork();
    if (pid == 0)
        _exit(syscall(SYN_CALL, SYN_STRIP) == -1 && errno == EINVAL ? 0 : 1);
    equal(status_of(pid), 0, "a child has no job");
    for (int i = 0; i < 50; i++) {
        pid = fork();
        if (pid == 0) {
            syn_job(1000, nanoseconds() + 3 * MS, late);
            if (i & 1)
                execl("/bin/true", "true", (char *)0);
            _exit(0);
        }
        good &= status_of(pid) == 0;
    }
    check(good, "the end, and another program, end a job");
    return done();
}
