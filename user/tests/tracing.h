/* Steps that the tests of ptrace share.
 *
 * Interface: trace() is the bare call. next(process) waits until a process stops or ends; stopped_by(status,
 * signal, event) says whether it stopped for that; message(process) is the event's number; go(process,
 * signal) lets it run.
 */
#ifndef TRACING_H
#define TRACING_H
#include "processes.h"
#include <sys/ptrace.h>
#include <sys/syscall.h>

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

static inline long trace(long request, pid_t pid, long address, long data)
{
    return syscall(SYS_ptrace, request, pid, address, data);
}

static inline unsigned long message(pid_t pid)
{
    unsigned long told = 0;
    trace(PTRACE_GETEVENTMSG, pid, 0, (long)&told);
    return told;
}

static inline int next(pid_t pid) { return status_of(pid); }

static inline int stopped_by(int status, int signal, int event)
{
    return WIFSTOPPED(status) && status >> 8 == (signal | event << 8);
}

static inline void go(pid_t pid, int signal) { trace(PTRACE_CONT, pid, 0, signal); }
#endif
