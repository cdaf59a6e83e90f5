/* Checks core files: when there is one, its name, what it holds; passes on Linux and must pass here.
 *
 * Interface: cores runs all, as root, in a directory where it may write; TAP on standard output. `cores crash
 * PATH` leaves a core of three threads.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/procfs.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORD 0x5a5aa5a51234fedcul

static volatile uint64_t mark = WORD, *heap, *shared;
static int ready[2];

static void *waits(void *arg)
{
    write(ready[1], "", 1);
    __asm__ volatile("mov %0, %%r12\n\tmov $34, %%eax\n\tsyscall"
                     :
                     : "r"(WORD + (intptr_t)arg)
                     : "rax", "rcx", "r11", "r12", "memory");
    return 0;
}

static void limit(rlim_t most)
{
    struct rlimit limit = {most, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &limit);
}

/* Ends by a core of three threads. */
static void crash(void)
{
    pthread_t thread[2];
    char byte;
    pipe(ready);
    heap = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    heap[5] = WORD;
    shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[3] = WORD;
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&thread[i], 0, waits, (void *)(i + 1));
    for (int i = 0; i < 2; i++)
        read(ready[0], &byte, 1);
    usleep(50000);
    *(volatile int *)0x10 = 1;
}

static int status_of(void (*run)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status;
}

static void aborts(void)
{
    limit(RLIM_INFINITY);
    abort();
}

static void terminates(void)
{
    limit(RLIM_INFINITY);
    raise(SIGTERM);
}

static void without(void)
{
    limit(0);
    abort();
}

static void secret(void)
{
    limit(RLIM_INFINITY);
    prctl(PR_SET_DUMPABLE, 0);
    abort();
}

static void little(void)
{
    limit(8192);
    abort();
}

static void threads(void)
{
    limit(RLIM_INFINITY);
    crash();
}

static void *sleeps(void *arg) { return pause(), arg; }

static void killed(void)
{
    limit(RLIM_INFINITY);
    pthread_t thread;
    pthread_create(&thread, 0, sleeps, 0);
    kill(getpid(), SIGQUIT);
    for (;;)
        pause();
}

static char *core;
static size_t length;
static Elf64_Phdr *headers;
static int count;

static int load(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st))
        return 0;
    length = st.st_size;
    core = mmap(0, length, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    Elf64_Ehdr *elf = (Elf64_Ehdr *)core;
    if (core == MAP_FAILED || memcmp(elf->e_ident, ELFMAG, SELFMAG) || elf->e_type != ET_CORE ||
        elf->e_machine != EM_X86_64)
        return 0;
    headers = (Elf64_Phdr *)(core + elf->e_phoff);
    count = elf->e_phnum;
    return 1;
}

/* The word that was at `at`, if the core has it. */
static int has(volatile void *at, uint64_t word)
{
    for (int i = 0; i < count; i++) {
        uint64_t offset = (uintptr_t)at - headers[i].p_vaddr;
        if (headers[i].p_type == PT_LOAD && (uintptr_t)at >= headers[i].p_vaddr &&
            offset + 8 <= headers[i].p_filesz && headers[i].p_offset + offset + 8 <= length)
            return *(uint64_t *)(core + headers[i].p_offset + offset) == word;
    }
    return 0;
}

/* The nth note of a kind. */
static Elf64_Nhdr *note(unsigned kind, int nth)
{
    for (int i = 0; i < count; i++)
        if (headers[i].p_type == PT_NOTE)
            for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= headers[i].p_filesz;) {
                Elf64_Nhdr *n = (Elf64_Nhdr *)(core + headers[i].p_offset + at);
                if (n->n_type == kind && nth-- == 0)
                    return n;
                at += sizeof *n + ((n->n_namesz + 3) & ~3) + ((n->n_descsz + 3) & ~3);
            }
    return 0;
}

static void *content(Elf64_Nhdr *n) { return (char *)(n + 1) + ((n->n_namesz + 3) & ~3); }

static void aborts_as_user(void)
{
    (void)!chdir("sticky"), (void)!setgid(1000), (void)!setuid(1000);
    prctl(PR_SET_DUMPABLE, 1);
    aborts();
}

static int exists(const char *path) { return access(path, F_OK) == 0; }

static void set(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY);
    write(fd, text, strlen(text));
    close(fd);
}

static void when(void)
{
    unlink("core");
    int status = status_of(aborts);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && WCOREDUMP(status),
          "abort leaves a core, and the status says so");
    struct stat st;
    check(stat("core", &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0600 && st.st_size > 4096,
          "in a file of the user's own");
    unlink("core");
    status = status_of(terminates);
    check(WTERMSIG(status) == SIGTERM && !WCOREDUMP(status) && !exists("core"), "SIGTERM leaves none");
    status = status_of(without);
    check(WTERMSIG(status) == SIGABRT && !WCOREDUMP(status) && !exists("core"),
          "nobody who may not have one");
    status = status_of(secret);
    check(WTERMSIG(status) == SIGABRT && !WCOREDUMP(status) && !exists("core"), "nobody who is not dumpable");
    status = status_of(little);
    check(WCOREDUMP(status) && stat("core", &st) == 0 && st.st_size <= 8192, "no more than the limit");
    unlink("core");
    status = status_of(killed);
    check(WTERMSIG(status) == SIGQUIT && WCOREDUMP(status) && exists("core"),
          "a process of several threads that another signals");
    unlink("core");
    mkdir("core", 0700);
    status = status_of(aborts);
    check(WTERMSIG(status) == SIGABRT && !WCOREDUMP(status),
          "where there is no room for the name there is none");
    rmdir("core");
    int victim = open("victim", O_CREAT | O_RDWR, 0600);
    symlink("victim", "core");
    status = status_of(aborts);
    check(WCOREDUMP(status) && lstat("core", &st) == 0 && S_ISREG(st.st_mode) && fstat(victim, &st) == 0 &&
              st.st_size == 0,
          "it is written in the place of a link, not through it");
    close(victim), unlink("victim"), unlink("core");
    if (geteuid() == 0) {
        /* Where all may make files and nobody takes away those of others. */
        mkdir("sticky", 0700), chmod("sticky", 01777), chmod(".", 0711);
        victim = open("sticky/core", O_CREAT | O_RDWR, 0666);
        status = status_of(aborts_as_user);
        check(WTERMSIG(status) == SIGABRT && !WCOREDUMP(status) && fstat(victim, &st) == 0 &&
                  st.st_nlink == 1 && st.st_size == 0,
              "nor in the place of another's file that its user may not remove");
        close(victim), unlink("sticky/core"), rmdir("sticky");
    }
    pid_t child = fork();
    if (child == 0)
        aborts();
    siginfo_t info;
    waitid(P_PID, child, &info, WEXITED);
    check(info.si_code == CLD_DUMPED && info.si_status == SIGABRT, "waitid says so, too");
    unlink("core");
    set("/proc/sys/kernel/core_pattern", "c.%e.%s.%%");
    status_of(aborts);
    check(exists("c.cores.6.%") || exists("c.cores-glibc.6.%"), "names are made of a pattern");
    unlink("c.cores.6.%");
    unlink("c.cores-glibc.6.%");
    set("/proc/sys/kernel/core_pattern", "d/%e/up");
    mkdir("d", 0755), mkdir("d/!.", 0755);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, "..");
        aborts();
    }
    waitpid(child, &status, 0);
    check(!exists("up") && exists("d/!./up"), "no name leads to another directory");
    unlink("up"), unlink("d/!./up"), rmdir("d/!."), rmdir("d");
    set("/proc/sys/kernel/core_pattern", "core\nsecond line");
    char pattern[64] = "";
    int text = open("/proc/sys/kernel/core_pattern", O_RDONLY);
    check(read(text, pattern, sizeof pattern - 1) > 0 && strcmp(pattern, "core\n") == 0,
          "a pattern ends with its line");
    close(text);
    set("/proc/sys/kernel/core_pattern", "core");
    set("/proc/sys/kernel/core_uses_pid", "1");
    child = fork();
    if (child == 0)
        aborts();
    waitpid(child, &status, 0);
    char name[32];
    sprintf(name, "core.%d", child);
    check(exists(name), "the process's number, if somebody wants it");
    unlink(name);
    set("/proc/sys/kernel/core_uses_pid", "0");
}

static void what(void)
{
    int status = status_of(threads);
    check(WTERMSIG(status) == SIGSEGV && WCOREDUMP(status), "three threads, and a fault in one");
    if (!check(load("core"), "a core is an ELF file"))
        return;
    check(has(&mark, WORD), "it has data");
    int found = 0, words = 0;
    Elf64_Nhdr *n;
    for (int i = 0; (n = note(NT_PRSTATUS, i)); i++) {
        struct elf_prstatus *s = content(n);
        check(n->n_descsz == sizeof *s, "a thread's state has its size");
        found++;
        words |= s->pr_reg[3] == WORD + 1 ? 1 : s->pr_reg[3] == WORD + 2 ? 2 : 0;
        if (i == 0)
            check(s->pr_cursig == SIGSEGV && s->pr_info.si_signo == SIGSEGV && s->pr_pid > 0 &&
                      s->pr_pgrp == getpgrp(),
                  "the first is that which faulted");
    }
    equal(found, 3, "all threads are there");
    equal(words, 3, "with their registers");
    check((n = note(NT_PRPSINFO, 0)) && n->n_descsz == sizeof(struct elf_prpsinfo), "the process's state");
    if (n) {
        struct elf_prpsinfo *p = content(n);
        check(strncmp(p->pr_fname, "cores", 5) == 0 && strstr(p->pr_psargs, "cores"),
              "its name and arguments");
    }
    check((n = note(NT_SIGINFO, 0)) && ((siginfo_t *)content(n))->si_addr == (void *)0x10,
          "where the fault was");
    check((n = note(NT_AUXV, 0)) && n->n_descsz >= 16, "the auxiliary vector");
    int page = 0;
    for (Elf64_auxv_t *a = n ? content(n) : 0; a && a->a_type != AT_NULL; a++)
        page |= a->a_type == AT_PAGESZ && a->a_un.a_val == 4096;
    check(page, "it knows the size of a page");
    check((n = note(NT_FILE, 0)) && ((uint64_t *)content(n))[0] >= 1 && ((uint64_t *)content(n))[1] == 4096,
          "which files were mapped");
    check((n = note(NT_FPREGSET, 2)) && n->n_descsz == 512, "vector registers of each thread");
    unlink("core");
}

static void filters(void)
{
    char text[32] = "";
    int fd = open("/proc/self/coredump_filter", O_RDWR);
    check(fd >= 0 && read(fd, text, 9) == 9 && strcmp(text, "00000033\n") == 0, "the usual filter");
    pwrite(fd, "0x10", 4, 0);
    check(pread(fd, text, 9, 0) == 9 && strcmp(text, "00000010\n") == 0, "is changed");
    int status = status_of(aborts);
    check(WCOREDUMP(status) && load("core"), "a core by it");
    check(!has(&mark, WORD), "has no private memory");
    pwrite(fd, "0x33", 4, 0);
    close(fd);
    unlink("core");
}

static const struct group groups[] = {{"when", when}, {"what", what}, {"filters", filters}};

int main(int argc, char **argv)
{
    char folder[] = "/tmp/cores-XXXXXX", old[128] = "";
    if (argc == 2 && strcmp(argv[1], "crash") == 0) {
        limit(RLIM_INFINITY);
        crash();
    }
    if (!mkdtemp(folder) || chdir(folder))
        return 1;
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY);
    ssize_t size = read(fd, old, sizeof old - 1);
    close(fd);
    set("/proc/sys/kernel/core_pattern", "core");
    run_groups(GROUPS(groups), 0, argc, argv);
    if (size > 0)
        set("/proc/sys/kernel/core_pattern", old);
    rmdir(folder);
    return done();
}
