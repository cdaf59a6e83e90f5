/* prctl(PR_SET_SPECULATION_CTRL): what a thread may ask of the processor, and that who asked runs as before.
 *
 * The possible requests depend on the processor and on the kernel's command line; the checks follow what the
 * kernel says of that. Holds on Linux, too.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SPEC_DISABLE_NOEXEC
#define PR_SPEC_DISABLE_NOEXEC (1UL << 4)
#endif
#ifndef PR_SPEC_L1D_FLUSH
#define PR_SPEC_L1D_FLUSH 2
#endif

static int get(unsigned long which) { return prctl(PR_GET_SPECULATION_CTRL, which, 0, 0, 0); }
static int set(unsigned long which, unsigned long how)
{
    return prctl(PR_SET_SPECULATION_CTRL, which, how, 0, 0);
}

/* The result of `body` in a child. */
static int child(int (*body)(void))
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static unsigned long asked_for;
static int told(void) { return get(asked_for); }
static void *told_thread(void *unused)
{
    (void)unused;
    return (void *)(long)get(asked_for);
}

/* Another program says what it finds. */
static int told_after_exec(void)
{
    char which[2] = {'0' + (char)asked_for, 0};
    execl("/proc/self/exe", "speculation", "told", which, (char *)NULL);
    return 99;
}

static int force(void)
{
    if (set(asked_for, PR_SPEC_FORCE_DISABLE) || get(asked_for) != (PR_SPEC_PRCTL | PR_SPEC_FORCE_DISABLE))
        return 1;
    if (set(asked_for, PR_SPEC_ENABLE) != -1 || errno != EPERM)
        return 2;
    if (asked_for == PR_SPEC_STORE_BYPASS && (set(asked_for, PR_SPEC_DISABLE_NOEXEC) != -1 || errno != EPERM))
        return 3;
    if (set(asked_for, PR_SPEC_DISABLE))
        return 4;
    return get(asked_for) == (PR_SPEC_PRCTL | PR_SPEC_FORCE_DISABLE) ? 0 : 5;
}

static void general(void)
{
    fails(get(77), ENODEV, "nobody knows this one");
    fails(set(77, PR_SPEC_ENABLE), ENODEV, "nor can it be set");
    fails(prctl(PR_GET_SPECULATION_CTRL, 0, 1, 0, 0), EINVAL, "get takes no third word");
    fails(prctl(PR_GET_SPECULATION_CTRL, 0, 0, 0, 1), EINVAL, "nor a fifth");
    fails(prctl(PR_SET_SPECULATION_CTRL, 0, PR_SPEC_ENABLE, 1, 0), EINVAL, "set takes no fourth word");
    equal(get(PR_SPEC_L1D_FLUSH), PR_SPEC_FORCE_DISABLE, "nobody flushes the first cache");
    fails(set(PR_SPEC_L1D_FLUSH, PR_SPEC_ENABLE), EPERM, "nor can it be asked for");
}

static void one(unsigned long which, const char *name)
{
    char text[128];
#define NAME(what) (snprintf(text, sizeof text, "%s: %s", name, what), text)
    asked_for = which;
    int at_first = get(which);
    if (!(at_first & PR_SPEC_PRCTL)) {
        check(at_first == PR_SPEC_NOT_AFFECTED || at_first == PR_SPEC_ENABLE || at_first == PR_SPEC_DISABLE,
              NAME("is as it is"));
        if (which == PR_SPEC_STORE_BYPASS) {
            fails(set(which, PR_SPEC_DISABLE), ENXIO, NAME("cannot be asked for"));
        } else if (at_first == PR_SPEC_DISABLE) {
            fails(set(which, PR_SPEC_ENABLE), EPERM, NAME("is so for everybody"));
            equal(set(which, PR_SPEC_DISABLE), 0, NAME("asking for it does no harm"));
        } else {
            fails(set(which, PR_SPEC_DISABLE), EPERM, NAME("cannot be asked for"));
            equal(set(which, PR_SPEC_ENABLE), 0, NAME("asking for nothing does no harm"));
        }
        return;
    }
    equal(at_first, PR_SPEC_PRCTL | PR_SPEC_ENABLE, NAME("nothing is asked for at first"));
    fails(set(which, 64), ERANGE, NAME("there is no such wish"));
    equal(set(which, PR_SPEC_DISABLE), 0, NAME("is asked for"));
    equal(get(which), PR_SPEC_PRCTL | PR_SPEC_DISABLE, NAME("has been asked for"));
    equal(child(told), PR_SPEC_PRCTL | PR_SPEC_DISABLE, NAME("a child inherits it"));
    equal(child(told_after_exec), PR_SPEC_PRCTL | PR_SPEC_DISABLE, NAME("another program, too"));
    pthread_t thread;
    void *found = NULL;
    if (check(pthread_create(&thread, NULL, told_thread, NULL) == 0, NAME("a thread")))
        pthread_join(thread, &found);
    equal((long)found, PR_SPEC_PRCTL | PR_SPEC_DISABLE, NAME("a thread inherits it"));
    equal(child(force), 0, NAME("for ever is for ever"));
    equal(set(which, PR_SPEC_ENABLE), 0, NAME("is taken back"));
    equal(get(which), PR_SPEC_PRCTL | PR_SPEC_ENABLE, NAME("has been taken back"));
    if (which != PR_SPEC_STORE_BYPASS)
        return;
    equal(set(which, PR_SPEC_DISABLE_NOEXEC), 0, NAME("until the next program"));
    equal(get(which), PR_SPEC_PRCTL | PR_SPEC_DISABLE_NOEXEC, NAME("it is so"));
    equal(child(told), PR_SPEC_PRCTL | PR_SPEC_DISABLE_NOEXEC, NAME("in a child, too"));
    equal(child(told_after_exec), PR_SPEC_PRCTL | PR_SPEC_ENABLE, NAME("the next program starts without"));
    equal(set(which, PR_SPEC_ENABLE), 0, NAME("until then it is taken back"));
}

/* Threads of which every other has asked compute, yield to each other and pass bytes through pipes; what
 * they compute is right. */
enum { THREADS = 4, ROUNDS = 2000 };
static int ring[THREADS][2];

static void *turn(void *number)
{
    long own = (long)number;
    if (own % 2 == 0) {
        /* May be impossible here; then it runs as the others do. */
        set(PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE);
        set(PR_SPEC_INDIRECT_BRANCH, PR_SPEC_DISABLE);
    }
    double sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char byte;
        if (own == 0 && (byte = (unsigned char)i, write(ring[1][1], &byte, 1) != 1))
            return (void *)1;
        if (read(ring[own][0], &byte, 1) != 1 || byte != (unsigned char)i)
            return (void *)2;
        if (own != 0 && write(ring[(own + 1) % THREADS][1], &byte, 1) != 1)
            return (void *)3;
        sum += i * 0.5;
        for (int n = 0; n < 3; n++)
            sched_yield();
        if (i % 500 == 499 && own % 2 == 0) {
            set(PR_SPEC_STORE_BYPASS, i % 1000 == 499 ? PR_SPEC_ENABLE : PR_SPEC_DISABLE);
        }
    }
    return (void *)(long)(sum == ROUNDS * (ROUNDS - 1) / 4.0 ? 0 : 4);
}

static void company(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        check(pipe(ring[i]) == 0, "a pipe");
    for (long i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, turn, (void *)i) == 0, "a thread");
    for (int i = 0; i < THREADS; i++) {
        void *result = (void *)99;
        pthread_join(threads[i], &result);
        equal((long)result, 0, "a thread among those that ask runs as before");
    }
}

/* Asks for less of everything and stays: somebody looks at its switch code meanwhile. */
static int hold(void)
{
    if (set(PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE) || set(PR_SPEC_INDIRECT_BRANCH, PR_SPEC_DISABLE))
        return 1;
    close(open("/tmp/asked", O_CREAT | O_WRONLY, 0600));
    for (;;)
        pause();
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "told") == 0)
        return get((unsigned long)atoi(words[2]));
    if (count == 2 && strcmp(words[1], "hold") == 0)
        return hold();
    general();
    one(PR_SPEC_STORE_BYPASS, "store bypass");
    one(PR_SPEC_INDIRECT_BRANCH, "indirect branches");
    company();
    return done();
}
