/* Calls with wrong pointers, and calls for memory: a part of `calls`.
 *
 * Interface: the groups pointers and memory.
 */
#ifndef CALLS_MEMORY_H
#define CALLS_MEMORY_H

/* --- wrong pointers --- */

static void pointers(void)
{
    char *bad[] = {(char *)0,
                   (char *)1,
                   (char *)0x7ffffffff000,
                   (char *)0x800000000000,
                   (char *)0xffff800000000000,
                   (char *)0xffffffff80100000,
                   (char *)0xffffffffffffffff,
                   (char *)0xffffffffffffff00};
    static const char *const names[] = {"0",
                                        "1",
                                        "the last user page",
                                        "a non-canonical address",
                                        "the kernel's memory",
                                        "the kernel's text",
                                        "-1",
                                        "-256"};
    int fd[2], file = open("p", O_RDWR | O_CREAT, 0600), zero = open("/dev/zero", O_RDWR);
    char name[100], buffer[16];
    pipe(fd);
    write(file, "0123456789", 10);
    for (int i = 0; i < 8; i++) {
        sprintf(name, "write a file from %s", names[i]);
        fails(pwrite(file, bad[i], 8, 0), EFAULT, name);
        sprintf(name, "write a pipe from %s", names[i]);
        fails(write(fd[1], bad[i], 8), EFAULT, name);
        sprintf(name, "read a file into %s", names[i]);
        lseek(file, 0, SEEK_SET);
        fails(read(file, bad[i], 8), EFAULT, name);
        sprintf(name, "read zeros into %s", names[i]);
        fails(read(zero, bad[i], 8), EFAULT, name);
        write(fd[1], "abcdefgh", 8);
        sprintf(name, "read a pipe into %s", names[i]);
        fails(read(fd[0], bad[i], 8), EFAULT, name);
        equal(read(fd[0], buffer, 8), 8, "and its bytes are still there");
        sprintf(name, "open a name at %s", names[i]);
        fails(open(bad[i], O_RDONLY), EFAULT, name);
        sprintf(name, "stat into %s", names[i]);
        fails(syscall(SYS_stat, "/", bad[i]), EFAULT, name);
        sprintf(name, "pipe into %s", names[i]);
        fails(syscall(SYS_pipe, bad[i]), EFAULT, name);
        sprintf(name, "uname into %s", names[i]);
        fails(syscall(SYS_uname, bad[i]), EFAULT, name);
        sprintf(name, "exec of a name at %s", names[i]);
        fails(syscall(SYS_execve, bad[i], 0, 0), EFAULT, name);
    }
    char *read_only = pages(1, PROT_READ), *none = pages(1, PROT_NONE);
    lseek(file, 0, SEEK_SET);
    fails(read(file, read_only, 8), EFAULT, "read a file into read-only memory");
    fails(read(zero, read_only, 8), EFAULT, "read zeros into read-only memory");
    write(fd[1], "abcdefgh", 8);
    fails(read(fd[0], read_only, 8), EFAULT, "read a pipe into read-only memory");
    fails(read(fd[0], none, 8), EFAULT, "read a pipe into inaccessible memory");
    equal(read(fd[0], buffer, 8), 8, "the pipe keeps its bytes");
    fails(write(fd[1], none, 8), EFAULT, "write a pipe from inaccessible memory");
    /* Memory that is there but not yet touched. */
    char *fresh = pages(2, PROT_READ | PROT_WRITE);
    write(fd[1], "abcdefgh", 8);
    equal(read(fd[0], fresh + PAGE - 4, 8), 8, "read into untouched pages");
    check(memcmp(fresh + PAGE - 4, "abcdefgh", 8) == 0, "across their border");
    char *untouched = pages(2, PROT_READ | PROT_WRITE);
    equal(write(fd[1], untouched + PAGE - 4, 8), 8, "write from untouched pages");
    equal(read(fd[0], buffer, 8) == 8 && buffer[0] == 0 && buffer[7] == 0, 1, "they are zeros");
    /* The second page is missing. */
    char *edge = pages(2, PROT_READ | PROT_WRITE);
    munmap(edge + PAGE, PAGE);
    memset(edge, 'e', PAGE);
    lseek(file, 0, SEEK_SET);
    long got = read(file, edge + PAGE - 4, 8);
    check(got == 4 || (got == -1 && errno == EFAULT), "a read that runs into a hole");
    got = write(fd[1], edge + PAGE - 4, 8);
    check(got == 4 || (got == -1 && errno == EFAULT), "a write that runs into a hole");
    strcpy(edge + PAGE - 2, "p");
    equal(access(edge + PAGE - 2, F_OK), 0, "a name up to the last byte of a page");
    memcpy(edge + PAGE - 2, "pp", 2);
    fails(access(edge + PAGE - 2, F_OK), EFAULT, "a name that runs into a hole");
    fails(syscall(SYS_read, file, 1L << 40, -1L), EFAULT, "a count of 2^64 - 1");
    close(fd[0]), close(fd[1]), close(file), close(zero);
    unlink("p");
}

/* --- memory --- */

static sigjmp_buf escape;
static volatile sig_atomic_t fault_signal;
static void *volatile fault_address;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    fault_signal = number;
    fault_address = info->si_addr;
    siglongjmp(escape, 1);
}

/* The signal that an access gives, or 0. */
static int probe(volatile char *at, int write)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, segv, bus;
    sigaction(SIGSEGV, &action, &segv);
    sigaction(SIGBUS, &action, &bus);
    fault_signal = 0;
    if (sigsetjmp(escape, 1) == 0) {
        if (write)
            *at = 1;
        else
            (void)*at;
    }
    sigaction(SIGSEGV, &segv, 0);
    sigaction(SIGBUS, &bus, 0);
    return fault_signal;
}

static void memory(void)
{
    char *at = pages(4, PROT_READ | PROT_WRITE);
    check(at != MAP_FAILED, "mmap");
    check(((long)at & (PAGE - 1)) == 0, "at a page");
    equal(at[0] | at[3 * PAGE], 0, "of zeros");
    memset(at, 5, 4 * PAGE);
    equal(mprotect(at + PAGE, PAGE, PROT_READ), 0, "mprotect");
    equal(probe(at + PAGE, 0), 0, "may be read");
    equal(probe(at + PAGE, 1), SIGSEGV, "not written");
    check(fault_address == at + PAGE, "si_addr tells where");
    equal(at[PAGE], 5, "keeps its contents");
    equal(mprotect(at + PAGE, PAGE, PROT_NONE), 0, "mprotect to nothing");
    equal(probe(at + PAGE, 0), SIGSEGV, "not read either");
    equal(mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE), 0, "and back");
    equal(probe(at + PAGE, 1), 0, "may be written");
    equal(munmap(at + PAGE, PAGE), 0, "munmap in the middle");
    equal(probe(at + PAGE, 0), SIGSEGV, "is gone");
    equal(at[0] + at[2 * PAGE], 10, "the rest is not");
    fails(mprotect(at, 4 * PAGE, PROT_READ), ENOMEM, "mprotect over a hole");
    munmap(at, 4 * PAGE);
    fails(munmap(at + 1, PAGE), EINVAL, "munmap not at a page");
    fails(mmap(0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), EINVAL, "mmap of nothing");
    fails(mmap(0, 1L << 50, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), ENOMEM, "mmap of too much");
    char *fixed = mmap((void *)0x10000000, PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    check(fixed == (char *)0x10000000, "MAP_FIXED");
    fails(mmap(fixed, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), EEXIST,
          "MAP_FIXED_NOREPLACE");
    munmap(fixed, PAGE);
    int fd = open("map", O_RDWR | O_CREAT, 0600);
    ftruncate(fd, 2 * PAGE);
    pwrite(fd, "mapped", 6, PAGE);
    char *shared = mmap(0, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char *private = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGE);
    check(shared != MAP_FAILED && private != MAP_FAILED, "mmap of a file");
    check(memcmp(shared + PAGE, "mapped", 6) == 0, "shows its contents");
    check(memcmp(private, "mapped", 6) == 0, "with an offset");
    shared[PAGE] = 'M';
    char c = 0;
    equal(pread(fd, &c, 1, PAGE) == 1 && c == 'M', 1, "a shared write reaches the file");
  private
    [1] = 'X';
    equal(pread(fd, &c, 1, PAGE + 1) == 1 && c == 'a', 1, "a private write does not");
    equal(ftruncate(fd, PAGE), 0, "truncate a mapped file");
    equal(probe(shared + PAGE, 0), SIGBUS, "beyond its end is SIGBUS");
    munmap(shared, 2 * PAGE), munmap(private, PAGE);
    close(fd);
    unlink("map");
    char *brk_before = sbrk(0);
    check(sbrk(3 * PAGE) == brk_before, "brk up");
    memset(brk_before, 1, 3 * PAGE);
    sbrk(-3 * PAGE);
    check(sbrk(0) == brk_before, "brk down");
    char *common = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *copied = pages(1, PROT_READ | PROT_WRITE);
    *copied = *common = 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        *copied = *common = 2;
        _exit(0);
    }
    waitpid(child, 0, 0);
    equal(*common, 2, "shared memory is shared with a child");
    equal(*copied, 1, "private memory is copied");
    char *moved = mremap(common, PAGE, PAGE, 0);
    check(moved == common, "mremap to the same size");
    char *grown = mremap(copied, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    check(grown != MAP_FAILED && grown[0] == 1 && grown[2 * PAGE] == 0, "mremap to a larger size");
    equal(madvise(grown, PAGE, MADV_DONTNEED), 0, "MADV_DONTNEED");
    equal(grown[0], 0, "gives zeros again");
    /* Execution: what was written runs where that is allowed, and only there. */
    static const unsigned char code[] = {0xb8, 42, 0, 0, 0, 0xc3};
    char *text = pages(1, PROT_READ | PROT_WRITE);
    memcpy(text, code, sizeof code);
    mprotect(text, PAGE, PROT_READ | PROT_EXEC);
    equal(((int (*)(void))text)(), 42, "code that was written runs");
    mprotect(text, PAGE, PROT_READ);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    sigaction(SIGSEGV, &action, &old);
    fault_signal = 0;
    if (sigsetjmp(escape, 1) == 0)
        ((int (*)(void))text)();
    sigaction(SIGSEGV, &old, 0);
    equal(fault_signal, SIGSEGV, "and not without PROT_EXEC");
    equal(probe((char *)0xffffffff80100000, 0), SIGSEGV, "the kernel's text cannot be read");
    equal(probe((char *)0xffff800000000000, 0), SIGSEGV, "nor its memory");
    equal(probe((char *)0x7ffffffff000, 0), SIGSEGV, "nor the page below the hole");
    equal(probe((char *)0, 1), SIGSEGV, "nor address 0");
}
#endif
