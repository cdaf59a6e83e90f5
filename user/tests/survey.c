/* The machine's rights of programs and the kernel to memory, looked at under load: all page tables are read
 * through.
 *
 * Interface: no arguments, as root; one line a check (tap.h). Checks that need /syn are left out on Linux.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

enum { LOADERS = 3, LOOKS = 12 };

static sigjmp_buf back;

static void on_fault(int signo) { siglongjmp(back, signo); }

/* Makes routines, processes, mappings and threads, and ends them, until it is killed. */
static void *thread(void *nothing) { return nothing; }

static void load(void)
{
    for (;;) {
        int fds[2][2], i;
        char byte = 1;
        pthread_t other;
        for (i = 0; i < 2; i++)
            if (pipe(fds[i]) != 0)
                _exit(1);
        char *pages = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(pages, 1, 1 << 20);
        mprotect(pages, 1 << 19, PROT_READ | PROT_EXEC);
        pid_t child = fork();
        if (child == 0) {
            pages[(1 << 20) - 1] = 2;
            _exit(write(fds[0][1], &byte, 1) != 1);
        }
        read(fds[0][0], &byte, 1);
        waitpid(child, 0, 0);
        pthread_create(&other, 0, thread, 0);
        pthread_join(other, 0);
        munmap(pages, 1 << 20);
        for (i = 0; i < 2; i++)
            close(fds[i][0]), close(fds[i][1]);
    }
}

static void tables(void)
{
    static char text[1 << 16];
    pid_t loaders[LOADERS];
    int cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (access("/syn", F_OK) != 0)
        return;
    for (int i = 0; i < LOADERS; i++)
        if ((loaders[i] = fork()) == 0)
            load();
    for (int i = 0; i < LOOKS; i++) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(i % cpus, &set);
        check(sched_setaffinity(0, sizeof set, &set) == 0, "each processor in turn");
        int fd = open("/syn/rights", O_RDONLY);
        ssize_t length = 0, n;
        while ((n = read(fd, text + length, sizeof text - 1 - length)) > 0)
            length += n;
        text[length] = 0;
        close(fd);
        if (!check(strstr(text, "\n0 faults\n") != 0, "all page tables are as promised"))
            printf("# %.2000s\n", text);
        check(strstr(text, "guards: wp nx smep smap umip\n") != 0, "every guard is on");
    }
    for (int i = 0; i < LOADERS; i++)
        kill(loaders[i], SIGKILL), waitpid(loaders[i], 0, 0);
    if (fork() == 0) {
        int refused =
            setgid(1000) == 0 && setuid(1000) == 0 && open("/syn/rights", O_RDONLY) == -1 && errno == EACCES;
        _exit(refused ? 0 : 1);
    }
    int status;
    wait(&status);
    equal(status, 0, "others than root do not read where the kernel lies");
}

/* Descriptor tables' addresses are the kernel's affair. Linux answers with made-up ones for programs that
 * want them. */
static void registers(void)
{
    struct __attribute__((packed)) {
        unsigned short limit;
        unsigned long base;
    } table = {0, 0};
    volatile unsigned long word = 0;
    int signo;
    if ((signo = sigsetjmp(back, 1)) == 0)
        __asm__ volatile("sidt %0" : "=m"(table));
    check(signo == SIGSEGV || (table.base >> 48 == 0xffff && table.base >= 0xfffffffffffe0000),
          "sidt tells nothing");
    if ((signo = sigsetjmp(back, 1)) == 0)
        __asm__ volatile("sgdt %0" : "=m"(table));
    check(signo == SIGSEGV || (table.base >> 48 == 0xffff && table.base >= 0xfffffffffffe0000),
          "sgdt tells nothing");
    if ((signo = sigsetjmp(back, 1)) == 0)
        __asm__ volatile("str %0" : "=m"(word));
    check(signo == SIGSEGV || word == 0x40, "str tells nothing");
}

/* Data is not executed. */
static void data(void)
{
    static unsigned char code[] = {0xc3};
    int signo = sigsetjmp(back, 1);
    if (signo == 0)
        ((void (*)(void))code)();
    equal(signo, SIGSEGV, "data is not executed");
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 0xc3;
    if ((signo = sigsetjmp(back, 1)) == 0)
        ((void (*)(void))page)();
    equal(signo, SIGSEGV, "nor is an anonymous page");
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    if ((signo = sigsetjmp(back, 1)) == 0)
        ((void (*)(void))page)();
    equal(signo, 0, "until it may be");
    if ((signo = sigsetjmp(back, 1)) == 0)
        *(volatile unsigned char *)page = 1;
    equal(signo, SIGSEGV, "and then it is not written");
}

int main(void)
{
    signal(SIGSEGV, on_fault);
    data();
    registers();
    tables();
    return done();
}
