/* Signals about files (F_SETSIG, leases, O_ASYNC), taken one by one with sigtimedwait.
 *
 * Interface: a program blocks the signals of the set `ours`. next() and next_within() take one of them and
 * keep what came with it in `info`; quiet() says whether none is pending.
 */
#ifndef FILE_SIGNALS_H
#define FILE_SIGNALS_H

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* The signal that is chosen by F_SETSIG. */
#define CHOSEN (SIGRTMIN + 3)

static sigset_t ours;
static siginfo_t info;

/* The next of ours, within so long; -1. */
static inline int next_within(int seconds, long ns)
{
    struct timespec most = {seconds, ns};
    memset(&info, 0, sizeof info);
    int signo;
    do
        signo = sigtimedwait(&ours, &info, &most);
    while (signo == -1 && errno == EINTR);
    return signo;
}

static inline int next(void) { return next_within(20, 0); }

/* Whether none waits: what has been done was told of long ago. Called behind something that is told, where
 * there is such a thing. */
static inline int quiet(void) { return next_within(0, 50000000) == -1; }

#endif
