/* Measures kernel operations in instructions: run it under `-icount shift=0`, where rdtsc counts them.
 *
 * Interface: bench [NAME...] prints one line `row SECTION OP UNIT COUNT` for each operation (all, or those
 * named), and `end`. `bench memory` prints the memory in use only. Started as /init on Linux it mounts what
 * it needs first and ends the machine afterwards. Nothing here knows which kernel it runs on otherwise, but
 * for bench-threads.h, which asks whether the native calls are there. System calls are made directly, so that
 * the C library's own work is in no figure.
 *
 * Source: the dissertation's appendix A (the seven programs; this is our text of them), tables 3.3, 3.5.
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

static void through_pipe(long n, long size)
{
    while (n--) {
        call(SYS_write, ends[1], (long)page, size);
        call(SYS_read, ends[0], (long)page, size);
    }
}

static void do_pipe_1(long n) { through_pipe(n, 1); }
/* A pseudo-terminal: its ends, and its settings. */
static struct termios terminal(int *master, int *slave)
{
    int unlocked = 0;
    struct termios t;
    char name[64];
    *master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    must(ioctl(*master, TIOCSPTLCK, &unlocked) == 0 && ptsname_r(*master, name, sizeof name) == 0, "master");
    *slave = open(name, O_RDWR | O_NOCTTY);
    must(tcgetattr(*slave, &t) == 0, "slave");
    return t;
}

/* A byte typed at a pseudo-terminal's master and read at its slave. */
static void do_pty_1(long n)
{
    static int master = -1, slave = -1;
    if (master < 0) {
        struct termios t = terminal(&master, &slave);
        cfmakeraw(&t);
        tcsetattr(slave, TCSANOW, &t);
    }
    while (n--) {
        call(SYS_write, master, (long)page, 1);
        call(SYS_read, slave, (long)page, 1);
    }
}

/* A byte through a pair of stream sockets. */
static void do_socketpair_1(long n)
{
    static int pair[2] = {-1, -1};
    if (pair[0] < 0)
        must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    while (n--) {
        call(SYS_write, pair[0], (long)page, 1);
        call(SYS_read, pair[1], (long)page, 1);
    }
}

static void do_pipe_1024(long n) { through_pipe(n, KIB); }
static void do_pipe_4096(long n) { through_pipe(n, PAGE); }

static void do_file_loop(long n)
{
    while (n--) {
        call(SYS_lseek, file, 0, SEEK_SET);
        for (int i = 10; i--;)
            call(SYS_write, file, (long)page, KIB);
        call(SYS_lseek, file, 0, SEEK_SET);
        for (int i = 10; i--;)
            call(SYS_read, file, (long)page, KIB);
    }
}

static void do_file_read_1(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--)
        call(SYS_read, file, (long)page, 1);
}

static void do_file_write_1(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--)
        call(SYS_write, file, (long)page, 1);
}

static void do_pread_1(long n)
{
    while (n--)
        call4(SYS_pread64, file, (long)page, 1, 77);
}

static void do_pwrite_1(long n)
{
    while (n--)
        call4(SYS_pwrite64, file, (long)page, 1, 77);
}

static struct iovec segment = {page, 1};

static void do_readv_1(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--)
        call(SYS_readv, file, (long)&segment, 1);
}

static void do_writev_1(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--)
        call(SYS_writev, file, (long)&segment, 1);
}

static void do_file_read_1024(long n)
{
    while (n--) {
        call(SYS_lseek, file, 0, SEEK_SET);
        call(SYS_read, file, (long)page, KIB);
    }
}

enum { LARGE = 64 * KIB };
static char bulk[LARGE];

/* The first `bytes` of a file of LARGE, from the start each time. */
static void from_start(long n, long bytes)
{
    static int large = -1;
    if (large < 0) {
        large = open("/tmp/large", O_RDWR | O_CREAT, 0600);
        must(large >= 0 && write(large, bulk, LARGE) == LARGE, "large");
    }
    while (n--) {
        call(SYS_lseek, large, 0, SEEK_SET);
        call(SYS_read, large, (long)bulk, bytes);
    }
}

static void do_file_read_8192(long n) { from_start(n, 8 * KIB); }
static void do_file_read_65536(long n) { from_start(n, LARGE); }

/* Each change replaces the pipe's reading routine by another one. */
static void do_pipe_nonblock(long n)
{
    for (long flags = 0; n--; flags ^= O_NONBLOCK)
        call(SYS_fcntl, ends[0], F_SETFL, flags ^ O_NONBLOCK);
    call(SYS_fcntl, ends[0], F_SETFL, 0);
}

/* -- guards: an operation while an assumption does not hold, and the events that change one -- */

/* An operation while another process has everything open that the caller has: from the first run, which
 * warms, to the end of the second, which is counted and long enough for that end not to matter. */
static void while_shared(long n, void (*operation)(long))
{
    static pid_t sharer;
    pid_t known = sharer;
    if (!known) {
        fflush(stdout);
        sharer = fork();
        while (sharer == 0)
            pause();
    }
    operation(n);
    if (known) {
        kill(sharer, SIGKILL);
        waitpid(sharer, 0, 0);
        sharer = 0;
    }
}

static void do_shared_read_1(long n) { while_shared(n, do_file_read_1); }
static void do_shared_pipe_1(long n) { while_shared(n, do_pipe_1); }

/* A pipe whose queue was exchanged for a larger one: its routines are reached through a relay. */
static void do_resized_pipe_1(long n)
{
    static int queue[2] = {-1, -1};
    if (queue[0] < 0)
        must(pipe(queue) == 0 && fcntl(queue[0], F_SETPIPE_SZ, 128 * KIB) == 128 * KIB, "resized");
    while (n--) {
        call(SYS_write, queue[1], (long)page, 1);
        call(SYS_read, queue[0], (long)page, 1);
    }
}

/* A second descriptor comes and goes, with two reads between: the description's routines become shared
 * ones, and its own again. */
static void do_dup_read_close(long n)
{
    call(SYS_lseek, file, 0, SEEK_SET);
    while (n--) {
        long second = call(SYS_dup, file, 0, 0);
        call(SYS_read, file, (long)page, 1);
        call(SYS_close, second, 0, 0);
        call(SYS_read, file, (long)page, 1);
    }
}

/* The same without another descriptor. */
static void do_dup_close(long n)
{
    while (n--)
        call(SYS_close, call(SYS_dup, file, 0, 0), 0, 0);
}

/* A terminal's settings change; two routines assume them. */
static void do_tty_settings(long n)
{
    static int master = -1, slave = -1;
    static struct termios t;
    if (master < 0)
        t = terminal(&master, &slave);
    while (n--) {
        t.c_oflag ^= ONLCR;
        tcsetattr(slave, TCSANOW, &t);
    }
}

static void do_lseek(long n)
{
    while (n--)
        call(SYS_lseek, file, 0, SEEK_SET);
}

static void do_null_write_1(long n)
{
    while (n--)
        call(SYS_write, null, (long)page, 1);
}

static void do_null_read_1(long n)
{
    while (n--)
        call(SYS_read, null, (long)page, 1);
}

static void open_close(const char *name, long n)
{
    while (n--)
        call(SYS_close, call(SYS_open, (long)name, O_RDONLY, 0), 0, 0);
}

static void do_null_open_close(long n) { open_close("/dev/null", n); }
static void do_console_open_close(long n) { open_close("/dev/console", n); }
static void do_file_open_close(long n) { open_close("/tmp/bench-file", n); }

static void do_pipe_open_close(long n)
{
    int fd[2];
    while (n--) {
        call(SYS_pipe, (long)fd, 0, 0);
        call(SYS_close, fd[0], 0, 0);
        call(SYS_close, fd[1], 0, 0);
    }
}

/* Asks for one descriptor that is ready. */
static void do_poll_1(long n)
{
    struct {
        int fd;
        short events, revents;
    } asked = {ends[0], 1, 0};
    char c = 0;
    must(write(ends[1], &c, 1) == 1, "write");
    while (n--)
        must(call(SYS_poll, (long)&asked, 1, 0) == 1, "poll");
    must(read(ends[0], &c, 1) == 1, "read");
}

static void do_sched_yield(long n)
{
    while (n--)
        call(SYS_sched_yield, 0, 0, 0);
}

/* The other side of a ping-pong: sends back what it gets, until end of file. */
static int echo(void *unused)
{
    char c;
    (void)unused;
    while (call(SYS_read, ends[0], (long)&c, 1) == 1)
        call(SYS_write, back[1], (long)&c, 1);
    return 0;
}

static void pingpong(long n, int flags)
{
    static char stack[65536] __attribute__((aligned(16)));
    char c = 0;
    int status, keep;
    must(pipe(back) == 0, "pipe");
    int old[2] = {ends[0], ends[1]};
    must(pipe(ends) == 0, "pipe");
    pid_t child;
    if (flags) {
        child = clone(echo, stack + sizeof stack, flags | SIGCHLD, 0);
        keep = ends[0];
    } else {
        fflush(stdout);
        child = fork();
        if (child == 0) {
            close(ends[1]);
            _exit(echo(0));
        }
        keep = -1;
    }
    must(child > 0, "clone");
    while (n--) {
        call(SYS_write, ends[1], (long)&c, 1);
        call(SYS_read, back[0], (long)&c, 1);
    }
    close(ends[1]);
    wait4(child, &status, 0, 0);
    if (keep >= 0)
        close(keep);
    else
        close(ends[0]);
    close(back[0]);
    close(back[1]);
    ends[0] = old[0];
    ends[1] = old[1];
}

static void do_pipe_pingpong(long n) { pingpong(n, 0); }
static void do_pipe_pingpong_threads(long n)
{
    pingpong(n, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND);
}

/* 64 KiB at a time from one process to another, which reads as much at a time. */
static void do_pipe_bulk(long n)
{
    enum { BULK = 1 << 16 };
    static char bulk[BULK];
    int way[2], status;
    must(pipe(way) == 0, "pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(way[1]);
        while (call(SYS_read, way[0], (long)bulk, BULK) > 0)
            ;
        _exit(0);
    }
    must(child > 0, "fork");
    close(way[0]);
    while (n--)
        must(call(SYS_write, way[1], (long)bulk, BULK) == BULK, "write");
    close(way[1]);
    wait4(child, &status, 0, 0);
}

/* A byte there and back between two processes, by a connection to a name. */
static void do_unix_pingpong(long n)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0bench"};
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 6;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), status;
    char c = 0;
    must(bind(listener, (struct sockaddr *)&name, length) == 0 && listen(listener, 1) == 0, "listen");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int end = accept(listener, 0, 0);
        while (call(SYS_read, end, (long)&c, 1) == 1)
            call(SYS_write, end, (long)&c, 1);
        _exit(0);
    }
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    must(child > 0 && connect(end, (struct sockaddr *)&name, length) == 0, "connect");
    while (n--) {
        call(SYS_write, end, (long)&c, 1);
        call(SYS_read, end, (long)&c, 1);
    }
    close(end);
    close(listener);
    wait4(child, &status, 0, 0);
}

static int at_loopback(int kind, struct sockaddr_in *name)
{
    socklen_t length = sizeof *name;
    int fd = socket(AF_INET, kind, 0);
    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(bind(fd, (struct sockaddr *)name, length) == 0 &&
             getsockname(fd, (struct sockaddr *)name, &length) == 0,
         "bind");
    return fd;
}

/* A byte there and back between two processes, by a connection over loopback. */
static void do_tcp_lo_pingpong(long n)
{
    struct sockaddr_in name;
    int listener = at_loopback(SOCK_STREAM, &name), status, on = 1;
    char c = 0;
    must(listen(listener, 1) == 0, "listen");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int end = accept(listener, 0, 0);
        setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        while (call(SYS_read, end, (long)&c, 1) == 1)
            call(SYS_write, end, (long)&c, 1);
        _exit(0);
    }
    int end = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    must(child > 0 && connect(end, (struct sockaddr *)&name, sizeof name) == 0, "connect");
    while (n--) {
        call(SYS_write, end, (long)&c, 1);
        call(SYS_read, end, (long)&c, 1);
    }
    close(end);
    close(listener);
    wait4(child, &status, 0, 0);
}

/* A message of a byte there and back between two processes, by sockets that know each other. */
static void do_udp_lo_pingpong(long n)
{
    struct sockaddr_in here, there;
    int one = at_loopback(SOCK_DGRAM, &here), other = at_loopback(SOCK_DGRAM, &there), status;
    char c = 0;
    must(connect(one, (struct sockaddr *)&there, sizeof there) == 0 &&
             connect(other, (struct sockaddr *)&here, sizeof here) == 0,
         "connect");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        while (call(SYS_read, other, (long)&c, 1) == 1)
            call(SYS_write, other, (long)&c, 1);
        _exit(0);
    }
    must(child > 0, "fork");
    while (n--) {
        call(SYS_write, one, (long)&c, 1);
        call(SYS_read, one, (long)&c, 1);
    }
    call(SYS_write, one, (long)&c, 0);
    wait4(child, &status, 0, 0);
    close(one);
    close(other);
}

/* A connection over loopback, made, accepted and closed at both ends. */
static void do_connect_accept_close(long n)
{
    struct sockaddr_in name;
    int listener = at_loopback(SOCK_STREAM, &name);
    must(listen(listener, 5) == 0, "listen");
    while (n--) {
        int one = socket(AF_INET, SOCK_STREAM, 0);
        must(connect(one, (struct sockaddr *)&name, sizeof name) == 0, "connect");
        int other = accept(listener, 0, 0);
        close(one);
        close(other);
    }
    close(listener);
}

/* Two parties that only yield to each other; with `floating`, both use vector registers. */
static volatile int floating;
static long rounds;

static int yield_party(void *unused)
{
    (void)unused;
    for (long n = rounds; n--;) {
        if (floating)
            __asm__ volatile("addpd %%xmm1, %%xmm0" : : : "xmm0");
        call(SYS_sched_yield, 0, 0, 0);
    }
    return 0;
}

static void yield_pair(long n, int flags, int with_floating)
{
    static char stack[65536] __attribute__((aligned(16)));
    int status;
    pid_t child;
    floating = with_floating;
    rounds = n / 2;
    if (flags) {
        child = clone(yield_party, stack + sizeof stack, flags | SIGCHLD, 0);
    } else {
        fflush(stdout);
        child = fork();
        if (child == 0)
            _exit(yield_party(0));
    }
    must(child > 0, "clone");
    yield_party(0);
    wait4(child, &status, 0, 0);
}

static void do_switch_thread(long n) { yield_pair(n, CLONE_VM, 0); }
static void do_switch_thread_fp(long n) { yield_pair(n, CLONE_VM, 1); }
static void do_switch_process(long n) { yield_pair(n, 0, 0); }
static void do_switch_process_fp(long n) { yield_pair(n, 0, 1); }

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

/* --- appendix A: whole programs --- */

#define CHAOS 500000
static int chaos[CHAOS];

static void program_1(long n)
{
    while (n--)
        for (int pass = 0; pass < 5; pass++) {
            chaos[0] = chaos[1] = 1;
            for (int i = 2; i < CHAOS; i++)
                chaos[i] = chaos[i - chaos[i - 1]] + chaos[i - chaos[i - 2]];
            __asm__ volatile("" : : "r"(chaos) : "memory");
        }
}

static void pipe_program(long size)
{
    int fd[2];
    must(pipe(fd) == 0, "pipe");
    for (int i = 10000; i--;) {
        call(SYS_write, fd[1], (long)page, size);
        call(SYS_read, fd[0], (long)page, size);
    }
    close(fd[0]);
    close(fd[1]);
}

static void program_2(long n)
{
    while (n--)
        pipe_program(1);
}
static void program_3(long n)
{
    while (n--)
        pipe_program(KIB);
}
static void program_4(long n)
{
    while (n--)
        pipe_program(PAGE);
}

static void program_5(long n)
{
    while (n--) {
        int fd = open("/tmp/bench-program", O_RDWR | O_CREAT | O_TRUNC, 0666);
        must(fd >= 0, "create");
        for (int pass = 1000; pass--;) {
            call(SYS_lseek, fd, 0, SEEK_SET);
            for (int i = 10; i--;)
                call(SYS_write, fd, (long)page, KIB);
            call(SYS_lseek, fd, 0, SEEK_SET);
            for (int i = 10; i--;)
                call(SYS_read, fd, (long)page, KIB);
        }
        close(fd);
    }
}

static void program_6(long n)
{
    while (n--)
        open_close("/dev/null", 10000);
}
static void program_7(long n)
{
    while (n--)
        open_close("/dev/console", 10000);
}

#include "bench-waits.h"
#include "bench-files.h"
#include "bench-clock.h"
#include "bench-threads.h"

/* --- table 3.5: a kernel procedure that does next to nothing, a Gauge's `read`: by its user-level stub
 * and in the caller's own code, and by both as a cached procedure. A system without quajects does what the
 * table sets beside it: getpid. Then one byte written to /dev/null in the same ways; there Linux's column
 * is its own call. --- */

/* A procedure of the kernel's by `operation` of `file`, in memory that goes with release(). */
static void *procedure(long file, long operation)
{
    void *code = mmap(0, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(code != MAP_FAILED && syn_stub(file, operation, code, PAGE) > 0, "a stub");
    return code;
}

static void release(void *code, long operation, long file)
{
    if (operation & SYN_STUB_CACHED)
        must(syn_uncache(syn_cache(file, operation & ~SYN_STUB_CACHED)) == 0, "a number");
    munmap(code, PAGE);
    close(file);
}

static long gauge(long *entry)
{
    long gauge = syn_make("Gauge", 0);
    *entry = syn_entry(gauge, "read");
    must(gauge >= 0 && *entry >= 0, "a gauge");
    return gauge;
}

static void call_stub(long n, long how)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry), operation = SYN_STUB_ENTRY + entry + how;
    void *code = procedure(file, operation);
    long (*stub)(long) = (long (*)(long))code;
    while (n--)
        stub(0);
    release(code, operation, file);
}

static void do_kernel_call(long n) { call_stub(n, 0); }
static void do_kernel_call_cached(long n) { call_stub(n, SYN_STUB_CACHED); }

static void do_kernel_call_inline(long n)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry);
    while (n--)
        syn_invoke(file, entry, 0);
    close(file);
}

static void do_kernel_call_cached_inline(long n)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry), number = syn_cache(file, SYN_STUB_ENTRY + entry);
    must(number > 0, "a number");
    while (n--)
        syn_cached(number, 0);
    must(syn_uncache(number) == 0, "it is given back");
    close(file);
}

static void write_stub(long n, long how)
{
    if (!native()) {
        do_null_write_1(n);
        return;
    }
    long file = open("/dev/null", O_WRONLY), operation = SYS_write + how;
    void *code = procedure(file, operation);
    long (*stub)(const void *, long) = (long (*)(const void *, long))code;
    while (n--)
        stub(page, 1);
    release(code, operation, file);
}

static void do_write_stub(long n) { write_stub(n, 0); }
static void do_write_cached(long n) { write_stub(n, SYN_STUB_CACHED); }

static void do_write_cached_inline(long n)
{
    if (!native()) {
        do_null_write_1(n);
        return;
    }
    long file = open("/dev/null", O_WRONLY), number = syn_cache(file, SYS_write);
    must(number > 0, "a number");
    while (n--)
        syn_cached_file(number, (long)page, 1, 0);
    must(syn_uncache(number) == 0, "it is given back");
    close(file);
}

/* Making a stub, and one with its cached procedure, which is given up again. A system without them:
 * getpid. */
static void do_stub_make(long n)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry), operation = SYN_STUB_ENTRY + entry;
    void *code = procedure(file, operation);
    while (n--)
        syn_stub(file, operation, code, PAGE);
    release(code, operation, file);
}

static void do_stub_make_cached(long n)
{
    long entry;
    if (!native()) {
        do_getpid(n);
        return;
    }
    long file = gauge(&entry), operation = SYN_STUB_ENTRY + entry;
    void *code = procedure(file, operation);
    while (n--) {
        syn_stub(file, operation + SYN_STUB_CACHED, code, PAGE);
        syn_uncache(SYN_CACHED);
    }
    release(code, operation, file);
}

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
