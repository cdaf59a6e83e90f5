/* A process that does nothing but fork and wait, so that its page faults can be counted from outside.
 *
 * Interface: forks COUNT [vfork|spawn]. With the second word another process has lived in its memory first: a
 * child by `vfork`, or by `posix_spawn`.
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int waited(pid_t child)
{
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* `forks` as it is without forks. */
static pid_t spawned(char *self)
{
    char *words[] = {self, "0", 0}, *none[] = {0};
    pid_t child = -1;
    return posix_spawn(&child, self, 0, 0, words, none) ? -1 : child;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 0;
    const char *guest = argc > 2 ? argv[2] : "";
    if (strcmp(guest, "vfork") == 0) {
        pid_t child = vfork();
        if (child == 0)
            _exit(0);
        if (!waited(child))
            return 1;
    }
    if (strcmp(guest, "spawn") == 0 && !waited(spawned(argv[0])))
        return 1;
    while (count--) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (!waited(child))
            return 1;
    }
    return 0;
}
