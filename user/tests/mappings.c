/* Checks how many mappings there may be, mappings that grow down, other pages in the same place, and barriers
 * that abort sequences; passes on Linux and must pass here.
 *
 * Interface: mappings [GROUP...] runs all groups or those named; TAP on standard output. `count` takes the
 * limit as it finds it (65,530).
 */
#define _GNU_SOURCE
#include "processes.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGE 4096L
#define GAP (256 * PAGE)
#define NONE_AT (char *)MAP_FAILED

static sigjmp_buf back;

static void faulted(int signo) { siglongjmp(back, signo); }

/* Which signal a write there brings; 0 for none. */
static int touch(volatile char *at)
{
    static char stack[1 << 16];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = faulted, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, 0);
    sigaction(SIGSEGV, &action, 0);
    sigaction(SIGBUS, &action, 0);
    int signo = sigsetjmp(back, 1);
    if (signo == 0)
        *at = 1;
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    return signo;
}

static char *map(char *at, long pages, int prot, int flags)
{
    return mmap(at, pages * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* A free range of so many pages, in the midst of which nothing is. */
static char *room(long pages)
{
    char *at = map(0, pages, PROT_NONE, 0);
    munmap(at, pages * PAGE);
    return at;
}

static long lines(void)
{
    static char text[1 << 16];
    int fd = open("/proc/self/maps", O_RDONLY);
    long count = 0, got;
    while ((got = read(fd, text, sizeof text)) > 0)
        for (long i = 0; i < got; i++)
            count += text[i] == '\n';
    close(fd);
    return count;
}

/* As many mappings as there may be: pages of `at` with rights by turns. */
static long fill(char *at, long most)
{
    for (long i = 0; i < most; i++)
        if (map(at + i * PAGE, 1, i % 2 ? PROT_READ : PROT_NONE, MAP_FIXED) == NONE_AT)
            return i;
    return most;
}

static void count(void)
{
    char text[32] = "";
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY);
    long got = read(fd, text, sizeof text - 1);
    close(fd);
    long most = got > 0 ? atol(text) : 0;
    if (!check(most > 1000 && most <= 70000, "a limit that can be reached"))
        return;
    lines();
    char *at = room(most + 200), *apart = map(0, 8, PROT_READ | PROT_WRITE, 0);
    long made = fill(at, most + 100);
    errno = 0;
    check(made < most && made > most - 100, "mappings come to an end");
    fails(map(at + made * PAGE, 1, made % 2 ? PROT_READ : PROT_NONE, MAP_FIXED), ENOMEM,
          "there are too many");
    /* The line of the page for time calls is none of the program's own. */
    long shown = lines();
    check(shown == most + 1 || shown == most + 2, "as many as the limit says, and one");
    fails(mprotect(apart + PAGE, PAGE, PROT_READ), ENOMEM, "none may be cut by rights");
    fails(munmap(apart + PAGE, PAGE), ENOMEM, "nor by a hole");
    fails(madvise(apart + PAGE, PAGE, MADV_DONTFORK), EAGAIN, "nor by advice");
    fails(mremap(apart, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE), ENOMEM, "nor moved");
    equal(mprotect(apart, 8 * PAGE, PROT_READ), 0, "one as a whole may change");
    equal(mprotect(apart, 8 * PAGE, PROT_READ | PROT_WRITE), 0, "and again");
    equal(munmap(apart + 7 * PAGE, PAGE), 0, "and lose its end");
    equal(mprotect(at, PAGE, PROT_READ), 0, "two that become one are fewer");
    equal(munmap(at, 12 * PAGE), 0, "so are those that go");
    equal(mprotect(apart + PAGE, PAGE, PROT_READ), 0, "then one is cut");
    equal(munmap(apart + 3 * PAGE, PAGE), 0, "and another");
    equal(munmap(at, (most + 200) * PAGE), 0, "all go");
    munmap(apart, 8 * PAGE);
}

static void grows(void)
{
    char *at = room(1024);
    char *top = at + 1020 * PAGE;
    equal((long)map(top, 2, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_GROWSDOWN), (long)top,
          "a mapping that grows down");
    equal(touch(top - 1), 0, "grows by a page");
    equal(touch(top - 20 * PAGE), 0, "and by many");
    unsigned char found[22];
    equal(mincore(top - 20 * PAGE, 22 * PAGE, found), 0, "what is between is mapped");
    check(found[0] && !found[5] && found[19], "and not used");
    equal(touch(top + 2 * PAGE), SIGSEGV, "it does not grow up");
    equal((long)map(at, 600, PROT_READ | PROT_WRITE, MAP_FIXED), (long)at, "one below");
    char *end = at + 600 * PAGE;
    equal(touch(end + GAP), 0, "it grows to the gap above that");
    equal(touch(end + GAP - 1), SIGSEGV, "and no further");
    equal(touch(end), SIGSEGV, "nor all the way");
    mprotect(at, 600 * PAGE, PROT_NONE);
    equal(touch(end + 10 * PAGE), 0, "what nobody may touch needs no gap");
    equal(touch(end), 0, "none at all");
    munmap(at, 1024 * PAGE);
    at = room(4096);
    top = at + 4090 * PAGE;
    struct rlimit old, less = {100 * PAGE, RLIM_INFINITY};
    getrlimit(RLIMIT_STACK, &old);
    less.rlim_max = old.rlim_max;
    map(top, 2, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_GROWSDOWN);
    setrlimit(RLIMIT_STACK, &less);
    equal(touch(top - 98 * PAGE), 0, "as far as a stack may");
    equal(touch(top - 99 * PAGE), SIGSEGV, "and no further");
    setrlimit(RLIMIT_STACK, &old);
    equal(mprotect(top, PAGE, PROT_READ | PROT_GROWSDOWN), 0, "rights from where it starts");
    equal(touch(top - 50 * PAGE), SIGSEGV, "all of it has them");
    equal(touch(top + PAGE), 0, "but what is above");
    munmap(at, 4096 * PAGE);
    at = map(0, 4, PROT_READ | PROT_WRITE, 0);
    fails(mprotect(at, PAGE, PROT_READ | PROT_GROWSDOWN), EINVAL, "one that does not grow");
    fails(mprotect(at, PAGE, PROT_READ | PROT_GROWSUP), EINVAL, "nor up");
    fails(mprotect(at, PAGE, PROT_READ | PROT_GROWSUP | PROT_GROWSDOWN), EINVAL, "nor both ways");
    munmap(at, 4 * PAGE);
    fails(mmap(0, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0), EINVAL,
          "nothing shared grows");
    int fd = memfd_create("file", 0);
    check(ftruncate(fd, PAGE) == 0, "a file");
    fails(mmap(0, PAGE, PROT_READ, MAP_PRIVATE | MAP_GROWSDOWN, fd, 0), EINVAL, "nor does a file");
    close(fd);
}

static long show(void *at, long pages, int prot, long first, int flags)
{
    return syscall(SYS_remap_file_pages, at, pages * PAGE, prot, first, flags);
}

static void shown(void)
{
    volatile char *seen;
    int fd = memfd_create("file", 0);
    for (int i = 0; i < 8; i++) {
        char byte = 'a' + i;
        if (pwrite(fd, &byte, 1, i * PAGE) != 1)
            check(0, "a file of eight pages");
    }
    check(ftruncate(fd, 8 * PAGE) == 0, "of eight pages");
    char *at = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    equal(show(at + 2 * PAGE, 2, 0, 6, 0), 0, "other pages in their place");
    check(at[0] == 'a' && at[2 * PAGE] == 'g' && at[3 * PAGE] == 'h' && at[4 * PAGE] == 'e', "are seen");
    seen = at;
    seen[2 * PAGE] = 'G';
    check(seen[6 * PAGE] == 'G', "and written");
    equal(show(at, 4, 0, 4, 0), 0, "over several mappings of it");
    check(at[0] == 'e' && at[2 * PAGE] == 'G' && at[3 * PAGE] == 'h', "are others again");
    equal(show(at + PAGE + 7, 1, 0, 3, 0), 0, "the start is rounded down");
    check(at[PAGE] == 'd', "to its page");
    fails(show(at, 1, PROT_READ, 0, 0), EINVAL, "rights are not given");
    fails(show(at, 0, 0, 0, 0), EINVAL, "nothing");
    fails(show(at, 1, 0, -1, 0), EINVAL, "pages that wrap round");
    munmap(at + 5 * PAGE, PAGE);
    fails(show(at + 4 * PAGE, 3, 0, 0, 0), EINVAL, "a hole");
    fails(show(at + 5 * PAGE, 1, 0, 0, 0), EINVAL, "nothing there");
    munmap(at, 8 * PAGE);
    at = mmap(0, 8 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    fails(show(at, 1, 0, 1, 0), EINVAL, "what is private");
    munmap(at, 8 * PAGE);
    at = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    at[0] = '0';
    at[PAGE] = '1';
    equal(show(at, 1, 0, 1, 0), 0, "of no file");
    check(at[0] == '1', "works as well");
    pid_t child = fork();
    if (child == 0) {
        seen = at;
        seen[0] = 'c';
        _exit(seen[PAGE] != 'c');
    }
    equal(status_of(child), 0, "a child has it so");
    check(at[0] == 'c', "and shares it");
    munmap(at, 4 * PAGE);
    close(fd);
}

/* A file's pages that are written in turn, here and there, and behind one that is read: each where it
 * belongs, and none beyond the end. */
static void written(void)
{
    enum { PAGES = 200 };
    static char text[PAGES * PAGE];
    int fd = memfd_create("written", 0);
    for (long i = 0; i < PAGES; i++)
        memset(text + i * PAGE, 'a' + i % 26, PAGE);
    check(write(fd, text, sizeof text) == sizeof text, "a file");
    static const long strides[] = {1, 4, 40, 7};
    for (int i = 0; i < 4; i++) {
        char *at = mmap(0, sizeof text, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        long good = at[5 * PAGE] == text[5 * PAGE];
        for (long page = i; page < PAGES; page += strides[i])
            at[page * PAGE + i] = text[page * PAGE + i] = '0' + i;
        for (long page = 0; page < PAGES; page++)
            good += memcmp(at + page * PAGE, text + page * PAGE, PAGE) == 0;
        equal(good, PAGES + 1, "the pages as they were written");
        equal(munmap(at + 3 * PAGE, 33 * PAGE) == 0 && munmap(at, sizeof text) == 0, 1, "are given back");
    }
    static char found[sizeof text];
    equal(pread(fd, found, sizeof found, 0) == sizeof found && memcmp(found, text, sizeof text) == 0, 1,
          "the file has them");
    char *private = mmap(0, sizeof text, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    char *reader = mmap(0, sizeof text, PROT_READ, MAP_SHARED, fd, 0);
    char *at = mmap(0, sizeof text, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    private[8 * PAGE] = private[9 * PAGE] = 'P';
    check(reader[8 * PAGE] == text[8 * PAGE], "a private page is nobody else's");
    equal(touch(reader + 8 * PAGE), SIGSEGV, "what may be read alone is not written");
    equal(touch(reader + 9 * PAGE), SIGSEGV, "nor its neighbour");
    check(ftruncate(fd, 18 * PAGE) == 0, "a shorter file");
    at[16 * PAGE] = at[17 * PAGE] = 'S';
    equal(touch(at + 18 * PAGE), SIGBUS, "ends where it ends");
    check(reader[17 * PAGE] == 'S' && private[8 * PAGE] == 'P', "each has its own");
    pid_t child = fork();
    if (child == 0) {
        at[15 * PAGE] = 'C';
        _exit(0);
    }
    waitpid(child, 0, 0);
    check(at[15 * PAGE] == 'C' && reader[15 * PAGE] == 'C', "a child writes the same pages");
    munmap(private, sizeof text);
    munmap(reader, sizeof text);
    munmap(at, sizeof text);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"count", count}, {"grows", grows}, {"shown", shown}, {"written", written}};
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
