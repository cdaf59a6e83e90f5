/* The memory of ended processes comes back soon, also while nothing else happens in the machine than that
 * somebody looks for it.
 *
 * Interface: returns [ROUNDS], 50 without; TAP on standard output. For several processors, and memory of
 * which half is filled in a moment.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds: what does not come by itself does not come in a minute either; on a busy host a processor may
 * be away for one. */
enum { WRITERS = 3, PIPES = 20, PATIENCE = 10 };

static const char name[] = "/tmp/returns";

/* Without opening anything: that could give something back. */
static long free_kib(void)
{
    static int fd = -1;
    char text[512] = "";
    if (fd < 0)
        fd = open("/proc/meminfo", O_RDONLY);
    if (pread(fd, text, sizeof text - 1, 0) <= 0)
        return 0;
    char *at = strstr(text, "MemFree:");
    return at ? strtol(at + 8, 0, 10) : 0;
}

/* At most so much, and not all of the machine where files may have more than half. */
static long room_kib(void)
{
    struct statfs now;
    long room = statfs("/tmp", &now) ? 0 : (long)now.f_bavail * (now.f_bsize / 1024);
    return room < 8192 ? room : 8192;
}

static void fill(int tell, int part, long kib, int removes)
{
    static char block[65536];
    int fd = open(name, O_CREAT | O_WRONLY, 0600), ends[2];
    for (int i = 0; i < PIPES; i++)
        if (pipe(ends))
            _exit(2);
    lseek(fd, part * kib * 1024, SEEK_SET);
    for (long made = 0; made < kib; made += sizeof block / 1024)
        if (write(fd, block, sizeof block) <= 0)
            break;
    if (removes)
        unlink(name);
    _exit(write(tell, "", 1) != 1 || pause());
}

/* The file loses its name by its one writer, which never needs another processor; or before writers are
 * killed, by who kills them, or beside that by somebody else. */
static void once(int round, long kib)
{
    int ends[2], go[2], count = round % 4 ? WRITERS : 1;
    pid_t writers[WRITERS], remover = 0;
    char byte;
    if (pipe(ends) || pipe(go))
        exit(2);
    for (int i = 0; i < count; i++)
        if ((writers[i] = fork()) == 0)
            fill(ends[1], i, kib / count, count == 1);
    if (round % 4 == 3 && (remover = fork()) == 0)
        _exit(read(go[0], &byte, 1) != 1 || unlink(name));
    for (int i = 0; i < count; i++)
        if (read(ends[0], &byte, 1) != 1)
            exit(2);
    if (round % 4 == 2)
        unlink(name);
    if (remover > 0 && write(go[1], "", 1) != 1)
        exit(2);
    for (int i = 0; i < count; i++)
        kill(writers[i], SIGKILL);
    if (round % 4 == 1)
        unlink(name);
    while (wait(0) > 0)
        ;
    close(ends[0]), close(ends[1]), close(go[0]), close(go[1]);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 50, late = 0;
    long kib = room_kib(), least = 0;
    double worst = 0;
    unlink(name);
    /* The memory that stays from the first time is kept for the others. */
    for (int round = 0; round < 4; round++)
        once(round, kib);
    for (double end = seconds() + 1; seconds() < end; sched_yield())
        least = free_kib() > least ? free_kib() : least;
    least -= kib / 4;
    for (int round = 0; round < rounds && !late; round++) {
        once(round, kib);
        double start = seconds(), took;
        while ((took = seconds() - start) < PATIENCE && free_kib() < least)
            sched_yield();
        worst = took > worst ? took : worst;
        if (took >= PATIENCE) {
            printf("# round %d: %ld KiB of %ld\n", round, free_kib(), least);
            late++;
        }
    }
    printf("# the longest took %.3f s\n", worst);
    equal(late, 0, "what was killed has given its memory back soon");
    return done();
}
