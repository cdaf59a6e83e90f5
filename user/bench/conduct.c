/* Runs a script as a kernel's first program, for measurements of whole programs.
 *
 * Interface: conduct SCRIPT [ARG...] runs it by /bin/sh and ends with its status. Started as /init on Linux
 * it mounts what programs need first, takes SCRIPT for the words that Linux passed on, and ends the machine
 * afterwards.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "first-process.h"

int main(int argc, char **argv)
{
    int init = as_init(argv[0]);
    if (init) {
        mkdir("/dev/shm", 01777);
        mount("shm", "/dev/shm", "tmpfs", 0, 0);
        mkdir("/sys", 0755);
        mount("sys", "/sys", "sysfs", 0, 0);
        chmod("/tmp", 01777);
        setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
    }
    if (argc < 2)
        return 2;
    argv[0] = "/bin/sh";
    pid_t shell = fork();
    if (shell == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    /* Servers stay behind, and their dead children come to whom is first. */
    int status = 127 << 8;
    for (pid_t ended = 0; shell > 0 && ended != shell; ended = waitpid(-1, &status, 0))
        ;
    if (init)
        last_words();
    return WEXITSTATUS(status);
}
