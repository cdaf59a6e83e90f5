/* A reader that sleeps at the terminal is interrupted, goes on after a handler, and is not touched by
 * O_NONBLOCK.
 *
 * Interface: sleepers, on a terminal whose other end types a line after each word in brackets that it sees
 * (the session's suite).
 */
#define _GNU_SOURCE
#include "processes.h"
#include <pthread.h>
#include <sys/syscall.h>

static pid_t reader;

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(1);
}

static void rang(int signal)
{
    (void)signal;
    say("[rang]\n");
}

static void *bell(void *wait_only)
{
    while (!thread_sleeps(reader))
        sched_yield();
    if (!wait_only)
        syscall(SYS_tgkill, getpid(), reader, SIGUSR1);
    else {
        fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
        say("[changed]\n");
    }
    return 0;
}

/* A read while another thread does what `bell` does. */
static long read_beside(void *wait_only, char *line, size_t room)
{
    pthread_t thread;
    pthread_create(&thread, 0, bell, wait_only);
    long count = read(0, line, room);
    int error = errno;
    pthread_join(thread, 0);
    errno = error;
    return count;
}

int main(void)
{
    char line[100];
    struct sigaction action = {.sa_handler = rang};
    reader = gettid();
    sigaction(SIGUSR1, &action, 0);
    say(read_beside(0, line, sizeof line) == -1 && errno == EINTR ? "inter-rupted\n" : "wrong\n");
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, 0);
    long count = read_beside(0, line, sizeof line);
    say(count == 6 && memcmp(line, "first\n", 6) == 0 ? "went-on\n" : "wrong\n");
    count = read_beside(line, line, sizeof line);
    say(count == 7 && memcmp(line, "second\n", 7) == 0 ? "slept-on\n" : "wrong\n");
    say(read(0, line, sizeof line) == -1 && errno == EAGAIN ? "waits-no-more\n" : "wrong\n");
    fcntl(0, F_SETFL, fcntl(0, F_GETFL) & ~O_NONBLOCK);
    return 0;
}
