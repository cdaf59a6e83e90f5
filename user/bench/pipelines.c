/* Pipelines of the programs of sound: instructions for each block of frames.
 *
 * Interface: pipelines. Prints `row music NAME instructions COUNT` for each pipeline. The time of a short
 * stream is taken off that of a long one, so that starting and ending the programs does not count. Under
 * icount an instruction is a nanosecond.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "first-process.h"

#define SHORT 1
#define LONG 3
#define BLOCKS ((LONG - SHORT) * 44100.0 / 64)

static const struct {
    const char *name, *stages;
} pipelines[] = {
    {"five_that_pass_on", "delay 0 | delay 0 | delay 0 | delay 0 | delay 0"},
    {"five_filters", "delay 5 | echoes 30 | lowpass 3000 | highpass 100 | reverb"},
};

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void run(const char *line)
{
    if (system(line) != 0)
        printf("fail %s\n", line);
}

/* The whole time of a stream of so many seconds. */
static int64_t spent(const char *stages, int seconds)
{
    char line[256];
    snprintf(line, sizeof line, "rhythm 120 --seconds %d >/tmp/song", seconds);
    run(line);
    snprintf(line, sizeof line, "set -o pipefail; </tmp/song %s >/dev/null", stages);
    int64_t before = nanoseconds();
    run(line);
    return nanoseconds() - before;
}

int main(int argc, char **argv)
{
    (void)argc;
    int init = as_init(argv[0]);
    setenv("PATH", "/usr/bin:/bin", 1);
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        const char *stages = pipelines[i].stages;
        /* The first run brings the programs in. */
        spent(stages, SHORT);
        int64_t less = spent(stages, SHORT), more = spent(stages, LONG);
        printf("row music %s instructions %.0f\n", pipelines[i].name, (more - less) / BLOCKS);
        fflush(stdout);
    }
    if (init)
        last_words();
    return 0;
}
