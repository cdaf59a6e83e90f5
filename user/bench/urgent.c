/* Runs a program with SCHED_FIFO.
 *
 * Interface: urgent PRIORITY PROGRAM [ARG...]; status 126 when the priority is refused, 127 when there is no
 * such program.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    struct sched_param param = {.sched_priority = atoi(argv[1])};
    if (sched_setscheduler(0, SCHED_FIFO, &param)) {
        perror("urgent");
        return 126;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
