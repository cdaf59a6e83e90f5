/* Steps that test programs share: children and their ends, whether a process sleeps, clocks, waiting.
 *
 * Interface: status_of(child) waits until a child ends or stops; kill_child(child) ends it.
 * sleeps(process) and thread_sleeps(thread) read a state in /proc; until_asleep(process) waits for it.
 * state_in(path) reads a `stat` file of /proc; numbers_in_stat(value, end) reads the fields of this
 * process's; number_in(path, word) finds a number by the word before it. seconds() and nanoseconds() are the
 * monotonic clock, used_by(process) is a process's CPU time, pause_for(seconds) sleeps.
 */
#ifndef PROCESSES_H
#define PROCESSES_H
#include "tap.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static inline int status_of(pid_t child)
{
    int status = -1;
    return waitpid(child, &status, __WALL) == child ? status : -1;
}

static inline void kill_child(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
}

static inline int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static inline double seconds(void) { return nanoseconds() / 1e9; }

/* Sleeps for so many seconds, signals or not. */
static inline void pause_for(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* The processor time of a process, seconds; 0: there is none. */
static inline double used_by(pid_t process)
{
    clockid_t clock;
    struct timespec t = {0};
    if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* The number behind `word` at the beginning of a line, for a text of /proc; -1: there is none. */
static inline long number_in(const char *path, const char *word)
{
    char line[4096];
    long number = -1;
    FILE *text = fopen(path, "r");
    while (text && fgets(line, sizeof line, text))
        if (strncmp(line, word, strlen(word)) == 0)
            number = atol(line + strlen(word));
    if (text)
        fclose(text);
    return number;
}

/* The state in the text of a `stat` in /proc; 0: there is none. */
static inline char state_in(const char *path)
{
    char text[512];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[count > 0 ? count : 0] = 0;
    const char *end = strrchr(text, ')');
    return end && end[1] ? end[2] : 0;
}

/* Numbers of this process's `stat` in /proc, by the number of their field, from the fourth to the one
 * before `end`. */
static inline void numbers_in_stat(long *value, int end)
{
    static char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY);
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    text[count > 0 ? count : 0] = 0;
    memset(value, 0, end * sizeof *value);
    char *at = strrchr(text, ')');
    for (int field = 3; at && field < end; field++) {
        at = strchr(at + 1, ' ');
        value[field] = at ? strtol(at, 0, 10) : 0;
    }
}

static inline int sleeps(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    return state_in(path) == 'S';
}

/* A thread of this process. */
static inline int thread_sleeps(pid_t thread)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    return state_in(path) == 'S';
}

/* Until `process` sleeps: a minute at most, then a check has failed. */
static inline void until_asleep(pid_t process)
{
    for (double end = seconds() + 60; !sleeps(process); sched_yield())
        if (seconds() > end) {
            check(0, "somebody comes to wait");
            return;
        }
}
#endif
