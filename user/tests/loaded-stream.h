/* A stream beside load, to measure and test the scheduler: a producer, a slower consumer, and loops.
 *
 * Interface: produce() and consume() are the bodies of processes at the two ends of the pipe `channel`;
 * spin() is the body of one that computes for ever. compute(turns) computes for a while. tell(command)
 * writes a command to the kernel's recorder, /syn/trace.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int channel[2];

static inline void compute(long turns)
{
    for (volatile long i = 0; i < turns; i++)
        ;
}

static inline void spin(void)
{
    for (;;)
        compute(1000);
}

static inline void produce(void)
{
    static char block[4096];
    close(channel[0]);
    while (write(channel[1], block, sizeof block) > 0)
        compute(2000);
}

static inline void consume(void)
{
    static char block[4096];
    close(channel[1]);
    while (read(channel[0], block, sizeof block) > 0)
        compute(100000);
}

/* 0 or -1. */
static inline int tell(const char *command)
{
    int fd = open("/syn/trace", O_WRONLY | O_CLOEXEC);
    long count = fd < 0 ? -1 : write(fd, command, strlen(command));
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return count < 0 ? -1 : 0;
}
