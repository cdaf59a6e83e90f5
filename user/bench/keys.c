/* The cost of a typed key, from its interrupt to the return of the read that waits for it: a terminal in
 * canonical mode, with echo.
 *
 * Interface: keys, under `-icount shift=0` on one CPU, where rdtsc counts instructions. It asks for each key
 * by a line `key?`, and the host types a return then; it prints one line `row clock key_echo instructions
 * COUNT`, the median, and `end`. Nothing is measured by the program that does not happen on Linux on the same
 * serial line. Another process computes meanwhile and notes the time as often as it can, so the last note is
 * the time of the interrupt, but for five instructions.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "first-process.h"

#define KEYS 41
#define WARM 10

static volatile uint64_t *noted;

static inline uint64_t instructions(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

/* The host feeds what is typed once the guest has started; Linux does not say so. */
static void started(void)
{
    iopl(3);
    for (const char *c = "start 0\n"; *c; c++)
        outb(*c, 0xe8);
}

static int by_size(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

int main(int argc, char **argv)
{
    static uint64_t spent[KEYS];
    struct termios t;
    char line[16];
    (void)argc;
    int init = as_init(argv[0]);
    if (init)
        started();
    noted = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (noted == MAP_FAILED || tcgetattr(0, &t) != 0)
        printf("fail terminal\n");
    t.c_lflag |= ICANON | ECHO;
    t.c_iflag |= ICRNL;
    tcsetattr(0, TCSANOW, &t);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            *noted = instructions();
    for (int i = 0; i < WARM + KEYS; i++) {
        printf("key?\n");
        fflush(stdout);
        tcdrain(1);
        long count = read(0, line, sizeof line);
        uint64_t now = instructions();
        if (count != 1 || line[0] != '\n')
            printf("fail key\n");
        if (i >= WARM)
            spent[i - WARM] = now - *noted;
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    qsort(spent, KEYS, sizeof *spent, by_size);
    printf("row clock key_echo instructions %lu\nend\n", (unsigned long)spent[KEYS / 2]);
    fflush(stdout);
    if (init)
        last_words();
    return 0;
}
