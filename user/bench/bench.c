/* Measures kernel operations in instructions: run it under `-icount shift=0`, where rdtsc counts them.
 *
 * Interface: bench [NAME...] prints one line `row SECTION OP UNIT COUNT` for each operation (all, or those
 * named), and `end`. `bench memory` prints the memory in use only. Started as /init on Linux it mounts what
 * it needs first and ends the machine afterwards. Nothing here knows which kernel it runs on otherwise, but
 * for bench-threads.h and bench-stubs.h, which ask whether the native calls are there. System calls are made
 * directly, so that the C library's own work is in no figure.
 *
 * Source: the dissertation's appendix A, tables 3.3, 3.5.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "first-process.h"

#define PAGE 4096
#define KIB 1024

/* A system call with three arguments, without the C library around it. */
static inline long call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static inline long call4(long number, long a, long b, long c, long d)
{
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}

static inline long call6(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* Instructions executed since the machine was reset. */
static inline uint64_t instructions(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static char page[PAGE];
static int ends[2], back[2], file = -1, null = -1;
static volatile int signalled;

static void must(int good, const char *what)
{
    if (!good) {
        printf("fail %s\n", what);
        fflush(stdout);
    }
}

/* --- operations: each does `n` of it --- */

static void do_getpid(long n)
{
    while (n--)
        call(SYS_getpid, 0, 0, 0);
}

#include "bench-descriptors.h"
#include "bench-handovers.h"

static void do_fork_exit_wait(long n)
{
    int status;
    while (n--) {
        long child = call(SYS_fork, 0, 0, 0);
        if (child == 0)
            for (;;)
                call(SYS_exit_group, 0, 0, 0);
        call6(SYS_wait4, child, (long)&status, 0, 0, 0, 0);
    }
}

static void do_vfork_exec_wait(long n)
{
    static char *words[] = {"/bin/bench", "nothing", 0}, *none[] = {0};
    int status;
    while (n--) {
        pid_t child = vfork();
        if (child == 0) {
            execve(words[0], words, none);
            _exit(1);
        }
        wait4(child, &status, 0, 0);
    }
}

static char *mapping;

static void do_page_touch(long n)
{
    for (long i = 0; i < n; i++)
        *(volatile char *)(mapping + i * PAGE) = 1;
}

static void on_signal(int number)
{
    (void)number;
    signalled++;
}

static void do_signal_self(long n)
{
    long self = getpid();
    while (n--)
        call(SYS_kill, self, SIGUSR1, 0);
}

static void do_mmap_munmap(long n)
{
    while (n--) {
        long at = call6(SYS_mmap, 0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        call(SYS_munmap, at, PAGE, 0);
    }
}

static __attribute__((noinline)) void nothing(void) { __asm__ volatile(""); }

static void do_c_call(long n)
{
    while (n--)
        nothing();
}

static void do_bad_call(long n)
{
    while (n--)
        call(1000, 0, 0, 0);
}

static void do_bad_read(long n)
{
    while (n--)
        call(SYS_read, -1, (long)page, 1);
}

#include "bench-programs.h"
#include "bench-waits.h"
#include "bench-files.h"
#include "bench-clock.h"
#include "bench-threads.h"
#include "bench-stubs.h"

/* --- the table --- */

static const struct operation {
    const char *section, *name;
    void (*run)(long);
    long count, warm;
} operations[] = {
    {"calls", "getpid", do_getpid, 10000, 100},
    {"calls", "pipe_1", do_pipe_1, 5000, 100},
    {"calls", "pty_1", do_pty_1, 3000, 100},
    {"calls", "socketpair_1", do_socketpair_1, 5000, 100},
    {"calls", "pipe_1024", do_pipe_1024, 2000, 100},
    {"calls", "pipe_4096", do_pipe_4096, 2000, 100},
    {"calls", "file_loop", do_file_loop, 200, 10},
    {"calls", "file_read_1", do_file_read_1, 5000, 100},
    {"calls", "file_write_1", do_file_write_1, 5000, 100},
    {"calls", "file_read_1024", do_file_read_1024, 2000, 100},
    {"calls", "file_read_8192", do_file_read_8192, 1000, 100},
    {"calls", "file_read_65536", do_file_read_65536, 200, 20},
    {"calls", "pipe_nonblock", do_pipe_nonblock, 1000, 100},
    {"calls", "pread_1", do_pread_1, 5000, 100},
    {"calls", "pwrite_1", do_pwrite_1, 5000, 100},
    {"calls", "readv_1", do_readv_1, 5000, 100},
    {"calls", "writev_1", do_writev_1, 5000, 100},
    {"calls", "lseek", do_lseek, 5000, 100},
    {"calls", "null_write_1", do_null_write_1, 5000, 100},
    {"calls", "null_read_1", do_null_read_1, 5000, 100},
    {"calls", "null_open_close", do_null_open_close, 2000, 100},
    {"calls", "console_open_close", do_console_open_close, 2000, 100},
    {"calls", "file_open_close", do_file_open_close, 2000, 100},
    {"calls", "pipe_open_close", do_pipe_open_close, 1000, 100},
    {"calls", "sched_yield", do_sched_yield, 5000, 100},
    {"calls", "pipe_pingpong", do_pipe_pingpong, 3000, 100},
    {"calls", "pipe_bulk", do_pipe_bulk, 500, 20},
    {"calls", "unix_pingpong", do_unix_pingpong, 3000, 100},
    {"calls", "tcp_lo_pingpong", do_tcp_lo_pingpong, 2000, 100},
    {"calls", "udp_lo_pingpong", do_udp_lo_pingpong, 2000, 100},
    {"calls", "connect_accept_close", do_connect_accept_close, 500, 50},
    {"calls", "fork_exit_wait", do_fork_exit_wait, 100, 10},
    {"calls", "vfork_exec_wait", do_vfork_exec_wait, 50, 5},
    {"calls", "page_touch", do_page_touch, 1000, 0},
    {"calls", "signal_self", do_signal_self, 2000, 100},
    {"calls", "mmap_munmap", do_mmap_munmap, 1000, 100},
    {"waits", "eventfd_handover", do_eventfd_handover, 2000, 100},
    {"waits", "poll_1", do_poll_1, 2000, 100},
    {"waits", "epoll_wake", do_epoll_wake, 2000, 100},
    {"waits", "futex_handover", do_futex_handover, 2000, 100},
    {"waits", "pthread_create_join", do_pthread_create_join, 500, 100},
    {"table-3.5", "c_call", do_c_call, 10000, 100},
    {"table-3.5", "kernel_call", do_kernel_call, 5000, 100},
    {"table-3.5", "kernel_call_inline", do_kernel_call_inline, 5000, 100},
    {"table-3.5", "kernel_call_cached", do_kernel_call_cached, 5000, 100},
    {"table-3.5", "kernel_call_cached_inline", do_kernel_call_cached_inline, 5000, 100},
    {"table-3.5", "write_stub", do_write_stub, 5000, 100},
    {"table-3.5", "write_cached", do_write_cached, 5000, 100},
    {"table-3.5", "write_cached_inline", do_write_cached_inline, 5000, 100},
    {"table-3.5", "stub_make", do_stub_make, 1000, 100},
    {"table-3.5", "stub_make_cached", do_stub_make_cached, 500, 100},
    {"table-3.5", "bad_call", do_bad_call, 5000, 100},
    {"table-3.5", "bad_read", do_bad_read, 5000, 100},
    {"table-3.3", "yield_switch_thread", do_switch_thread, 4000, 100},
    {"table-3.3", "yield_switch_thread_fp", do_switch_thread_fp, 4000, 100},
    {"table-3.3", "yield_switch_process", do_switch_process, 4000, 100},
    {"table-3.3", "yield_switch_process_fp", do_switch_process_fp, 4000, 100},
    {"table-3.3", "pipe_pingpong_threads", do_pipe_pingpong_threads, 3000, 100},
    {"appendix-a", "program_1_compute", program_1, 1, 0},
    {"appendix-a", "program_2_pipe_1", program_2, 1, 0},
    {"appendix-a", "program_3_pipe_1024", program_3, 1, 0},
    {"appendix-a", "program_4_pipe_4096", program_4, 1, 0},
    {"appendix-a", "program_5_file", program_5, 1, 0},
    {"appendix-a", "program_6_open_null", program_6, 1, 0},
    {"appendix-a", "program_7_open_console", program_7, 1, 0},
    {"guards", "shared_read_1", do_shared_read_1, 100000, 100},
    {"guards", "shared_pipe_1", do_shared_pipe_1, 100000, 100},
    {"guards", "resized_pipe_1", do_resized_pipe_1, 5000, 100},
    {"guards", "dup_close", do_dup_close, 1000, 100},
    {"guards", "dup_read_close", do_dup_read_close, 1000, 100},
    {"guards", "tty_settings", do_tty_settings, 1000, 100},
};

static int wanted(const char *name, int argc, char **argv)
{
    if (argc < 2)
        return 1;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return 0;
}

/* Whether rdtsc counts instructions: a loop of two instructions a million times. */
static void calibrate(void)
{
    long n = 1000000;
    uint64_t before = instructions();
    __asm__ volatile("1: dec %0; jnz 1b" : "+r"(n) : : "cc");
    printf("row check clock ticks_per_1000_instructions %ld\n", (long)((instructions() - before) / 2000));
}

/* Memory that is not free, in KiB, of the `MEMORY_KIB` that the machine has. */
static void memory(void)
{
    char line[256];
    long total = 0, available = -1;
    const char *machine = getenv("MEMORY_KIB");
    FILE *info = fopen("/proc/meminfo", "r");
    while (info && fgets(line, sizeof line, info)) {
        sscanf(line, "MemTotal: %ld", &total);
        sscanf(line, "MemFree: %ld", &available);
    }
    if (info)
        fclose(info);
    if (machine)
        total = atol(machine);
    if (available >= 0)
        printf("row boot memory_at_prompt KiB %ld\n", total - available);
    fflush(stdout);
}

static void measure(const struct operation *operation)
{
    fflush(stdout);
    if (operation->warm)
        operation->run(operation->warm);
    uint64_t before = instructions();
    operation->run(operation->count);
    uint64_t spent = instructions() - before;
    printf("row %s %s instructions %ld\n", operation->section, operation->name,
           (long)((spent + operation->count / 2) / operation->count));
    fflush(stdout);
}

static void ready(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    must(pipe(ends) == 0, "pipe");
    null = open("/dev/null", O_RDWR);
    must(null >= 0, "/dev/null");
    file = open("/tmp/bench-file", O_RDWR | O_CREAT | O_TRUNC, 0666);
    must(file >= 0, "/tmp/bench-file");
    for (int i = 0; i < 10; i++)
        must(write(file, page, KIB) == KIB, "write");
    mapping = mmap(0, 2000 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(mapping != MAP_FAILED, "mmap");
    must(sigaction(SIGUSR1, &action, 0) == 0, "sigaction");
}

/* The cost of making a routine of each kind, where the kernel says so: a name of one or two words, then
 * live, made and ticks. */
static void generators(void)
{
    FILE *f = fopen("/syn/code/classes", "r");
    char line[128];
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        char name[64];
        unsigned long live, made, ticks;
        size_t length = strcspn(line, "\n");
        line[length] = 0;
        /* Names are padded to 20 columns. */
        if (length < 21 || sscanf(line + 20, "%lu %lu %lu", &live, &made, &ticks) != 3)
            continue;
        memcpy(name, line, 20);
        name[20] = 0;
        for (char *c = name + 19; c >= name && *c == ' '; c--)
            *c = 0;
        for (char *c = name; *c; c++)
            if (*c == ' ')
                *c = '_';
        printf("row generate %s instructions %lu\n", name, ticks);
    }
    fclose(f);
}

int main(int argc, char **argv)
{
    uint64_t first = instructions();
    if (argc == 2 && strcmp(argv[1], "nothing") == 0)
        return 0;
    if (argc == 2 && strcmp(argv[1], "memory") == 0) {
        memory();
        return 0;
    }
    int init = as_init(argv[0]);
    if (wanted("first_instruction", argc, argv))
        printf("row boot first_instruction ns %lu\n", first);
    fflush(stdout);
    if (wanted("memory_at_prompt", argc, argv) && system("/bin/bench memory; :"))
        printf("fail memory\n");
    calibrate();
    ready();
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (wanted(operations[i].name, argc, argv))
            measure(&operations[i]);
    for (size_t i = 0; i < sizeof timed_operations / sizeof *timed_operations; i++)
        if (wanted(timed_operations[i].name, argc, argv))
            measure_timed(&timed_operations[i]);
    generators();
    printf("end\n");
    fflush(stdout);
    if (init)
        last_words();
    return 0;
}
