/* Measures chains of quajects in instructions, under `-icount shift=0`, where rdtsc counts them.
 *
 * Interface: layers prints one line `row chains OP instructions COUNT` for each chain, and `end`. A chain of
 * the kernel is measured by calls that go along it; the chains that a program makes (docs/native.md) are
 * measured for each byte, by a call that moves many.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "synthesis.h"

static char bytes[4096];

static long call(long number, long a, const void *b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static uint64_t instructions(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static int master, slave, ends[2], file, null, loud;

/* The two ends of a pseudo-terminal: `raw` without any treatment, else as a terminal is at first, but
 * without echo. */
static void terminal(int raw)
{
    int unlocked = 0;
    char name[64];
    struct termios t;
    master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) != 0 || ptsname_r(master, name, sizeof name) != 0)
        printf("fail master\n");
    slave = open(name, O_RDWR | O_NOCTTY);
    if (tcgetattr(slave, &t) != 0)
        printf("fail slave\n");
    if (raw)
        cfmakeraw(&t);
    else
        t.c_lflag &= ~(tcflag_t)ECHO;
    tcsetattr(slave, TCSANOW, &t);
}

/* Each does it once, and gives what the measured part took. */
static uint64_t through(int in, int out, long count, long back)
{
    uint64_t before = instructions();
    call(SYS_write, in, bytes, count);
    uint64_t spent = instructions() - before;
    call(SYS_read, out, bytes, back);
    return spent;
}

static uint64_t write_1(void) { return through(slave, master, 1, 1); }
static uint64_t write_80(void) { return through(slave, master, 80, 160); }
static uint64_t line_8(void) { return through(master, slave, 8, 8); }

static uint64_t both(int in, int out, long count)
{
    uint64_t before = instructions();
    call(SYS_write, in, bytes, count);
    call(SYS_read, out, bytes, count);
    return instructions() - before;
}

static uint64_t key_1(void) { return both(master, slave, 1); }
static uint64_t pipe_1(void) { return both(ends[1], ends[0], 1); }
static uint64_t pipe_4096(void) { return both(ends[1], ends[0], sizeof bytes); }

static uint64_t one(long number, int fd, long count)
{
    uint64_t before = instructions();
    call(number, fd, bytes, count);
    return instructions() - before;
}

static uint64_t file_read_1(void) { return one(SYS_read, file, 1); }
static uint64_t null_write_1(void) { return one(SYS_write, null, 1); }

static uint64_t filtered_1024(void)
{
    lseek(loud, 0, SEEK_SET);
    return one(SYS_write, loud, 1024);
}

enum { MANY = 64 };
static int from, pump, to;
static long put, run;

/* A pump moves bytes from a queue through a monitor and a filter into another queue. */
static uint64_t pump_64(void)
{
    for (int i = 0; i < MANY; i++)
        syn_invoke(from, put, 'a');
    uint64_t before = instructions();
    if (syn_invoke(pump, run, MANY) != MANY)
        printf("fail pump\n");
    return instructions() - before;
}

static uint64_t pump_none(void)
{
    uint64_t before = instructions();
    syn_invoke(pump, run, 0);
    return instructions() - before;
}

static void must(long result)
{
    if (result < 0)
        printf("fail %ld\n", result);
}

static void make_chain(void)
{
    int monitor = (int)syn_make("Monitor", 0), upper = (int)syn_make("Upper", 0);
    from = (int)syn_make("Queue", 128);
    pump = (int)syn_make("Pump", 0);
    to = (int)syn_make("Queue", 65536);
    must(syn_link(upper, "to", to, "Q_put"));
    must(syn_link(monitor, "target", upper, "put"));
    must(syn_link(pump, "output", monitor, "enter"));
    must(syn_link(pump, "input", from, "Q_get"));
    put = syn_entry(from, "Q_put");
    run = syn_entry(pump, "run");
}

static uint64_t nothing(void)
{
    uint64_t before = instructions();
    return instructions() - before;
}

static long mean(uint64_t (*chain)(void), long count)
{
    uint64_t spent = 0;
    for (long n = count / 10; n--;)
        chain();
    for (long n = count; n--;)
        spent += chain();
    return (long)((spent + (uint64_t)count / 2) / (uint64_t)count);
}

static long empty;

static void row(const char *name, uint64_t (*chain)(void), long count)
{
    printf("row chains %s instructions %ld\n", name, mean(chain, count) - empty);
    fflush(stdout);
}

int main(void)
{
    memset(bytes, 'a', sizeof bytes);
    bytes[79] = '\n';
    empty = mean(nothing, 1000);
    terminal(1);
    row("key_1", key_1, 1000);
    terminal(0);
    row("write_1", write_1, 1000);
    row("write_80", write_80, 1000);
    bytes[7] = '\n';
    row("line_8", line_8, 1000);
    if (pipe(ends) != 0)
        printf("fail pipe\n");
    row("pipe_1", pipe_1, 1000);
    row("pipe_4096", pipe_4096, 1000);
    file = open("/tmp/layers", O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(write(file, bytes, sizeof bytes));
    lseek(file, 0, SEEK_SET);
    row("file_read_1", file_read_1, 1000);
    null = open("/dev/null", O_WRONLY);
    row("null_write_1", null_write_1, 1000);
    loud = open("/tmp/layers-loud", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int tap = (int)syn_make("Tap", 0), gauge = (int)syn_make("Gauge", 0);
    must(syn_link(tap, "each", gauge, "count"));
    must(syn_insert(loud, SYN_OUT, (int)syn_make("Upper", 0)));
    must(syn_insert(loud, SYN_OUT, tap));
    must(syn_insert(loud, SYN_OUT, (int)syn_make("Checksum", 0)));
    row("filtered_1024", filtered_1024, 200);
    make_chain();
    printf("row chains pump_1 instructions %ld\n",
           (mean(pump_64, 100) - mean(pump_none, 100) + MANY / 2) / MANY);
    printf("end\n");
    return 0;
}
