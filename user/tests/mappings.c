/* Checks how many mappings there may be, mappings that grow down, other pages in the same place, and barriers
 * that abort sequences; mappings that are resized and get other rights; passes on Linux and must pass here.
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

/* Which signal a read there brings; 0 for none. */
static int look(volatile char *at)
{
    int signo;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        (void)*at;
        _exit(0);
    }
    waitpid(child, &signo, 0);
    return WIFSIGNALED(signo) ? WTERMSIG(signo) : 0;
}

static char *map_shared(long pages)
{
    return mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Mappings that are resized: of length 0, over several areas, beyond their object. */
static void resized(void)
{
    char *shared = map_shared(8), *at = room(20);
    shared[0] = 5;
    shared[3 * PAGE] = 7;
    char *again = mremap(shared, 0, 8 * PAGE, MREMAP_MAYMOVE);
    check(again != NONE_AT && again[0] == 5, "of a shared mapping of no length there is a second view");
    shared[PAGE] = 6;
    check(again[PAGE] == 6, "of the same pages");
    again = mremap(shared + 3 * PAGE, 0, PAGE, MREMAP_MAYMOVE);
    check(again != NONE_AT && again[0] == 7, "from any page on");
    again = mremap(shared, 0, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at);
    check(again == at && again[PAGE] == 6, "at any place");
    equal(touch(shared), 0, "and the first stays");
    fails(mremap(shared, 0, PAGE, 0), ENOMEM, "there is no room for it in the same place");
    again = mremap(shared, 0, 12 * PAGE, MREMAP_MAYMOVE);
    check(again != NONE_AT && look(again + 7 * PAGE) == 0, "a longer view");
    equal(look(again + 8 * PAGE), SIGBUS, "ends with its object");
    char *private = map(0, 4, PROT_READ | PROT_WRITE, 0);
    fails(mremap(private, 0, PAGE, MREMAP_MAYMOVE), EINVAL, "private memory has no second view");
    fails(mremap(room(2), 0, PAGE, MREMAP_MAYMOVE), EFAULT, "nor has nothing");
    fails(mremap(private, 4 * PAGE, 0, MREMAP_MAYMOVE), EINVAL, "nothing has no length");
    at = map(0, 5, PROT_READ | PROT_WRITE, 0);
    at[0] = 'a';
    mprotect(at + PAGE, PAGE, PROT_READ);
    munmap(at + 3 * PAGE, PAGE);
    check(mremap(at, 5 * PAGE, 5 * PAGE, 0) == at, "several areas keep their length");
    fails(mremap(at, 3 * PAGE, 6 * PAGE, MREMAP_MAYMOVE), EFAULT, "but do not grow");
    char *to = room(8);
    check(mremap(at, 5 * PAGE, PAGE, 0) == at, "they shrink, with a hole between");
    equal(at[0], 'a', "what is left is there");
    equal(touch(at + 4 * PAGE), SIGSEGV, "the rest is not");
    at = map(0, 5, PROT_READ | PROT_WRITE, 0);
    at[0] = 'b';
    mprotect(at + 2 * PAGE, PAGE, PROT_READ);
    check(mremap(at, 5 * PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to && to[0] == 'b',
          "they shrink on the way to another place");
    at = map_shared(1);
    at[0] = 1;
    at = mremap(at, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    check(at != NONE_AT && at[0] == 1, "shared memory grows");
    equal(look(at + PAGE), SIGBUS, "without more pages");
    equal(touch(at + 2 * PAGE), SIGBUS, "to be written either");
}

/* Rights that change before a place where they cannot. */
static void protected(void)
{
    char *at = map(0, 4, PROT_READ | PROT_WRITE, 0);
    munmap(at + 2 * PAGE, PAGE);
    fails(mprotect(at, 4 * PAGE, PROT_READ), ENOMEM, "rights over a hole");
    equal(touch(at + PAGE), SIGSEGV, "change before it");
    equal(touch(at + 3 * PAGE), 0, "and not behind it");
    fails(mprotect(at + 2 * PAGE, 2 * PAGE, PROT_READ), ENOMEM, "a hole at first");
    equal(touch(at + 3 * PAGE), 0, "keeps all from changing");
    int fd = open("/proc/self/exe", O_RDONLY);
    at = map(0, 3, PROT_READ, 0);
    mmap(at + PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    fails(mprotect(at, 3 * PAGE, PROT_READ | PROT_WRITE), EACCES, "rights that a file does not give");
    equal(touch(at), 0, "are given before it");
    equal(touch(at + 2 * PAGE), SIGSEGV, "and not behind it");
    equal(mprotect(at, 0, 0x100), 0, "nothing has any rights");
    fails(mprotect(at + 1, 0, PROT_READ), EINVAL, "at the begin of a page");
    fails(mprotect(at, PAGE, 0x100), EINVAL, "something does not");
    equal(mprotect(at, PAGE, PROT_READ | 8), 0, "a right of old means nothing");
    fails(mprotect(at, -PAGE, PROT_READ), ENOMEM, "there is not so much memory");
    close(fd);
}

static void advised(void)
{
    char *at = map(0, 2, PROT_READ | PROT_WRITE, 0);
    fails(madvise(at, 0, 12345), EINVAL, "advice is looked at even about nothing");
    fails(madvise(at, PAGE, 12345), EINVAL, "and about something");
    equal(madvise(at, 0, MADV_DONTNEED), 0, "known advice about nothing");
    fails(madvise(at + 1, 0, MADV_DONTNEED), EINVAL, "at the begin of a page");
    fails(madvise(at, -1L, MADV_NORMAL), EINVAL, "a length that goes round");
    fails(madvise((char *)0x7ffffffff000, PAGE, MADV_NORMAL), ENOMEM, "there is nothing where no program is");
}

/* A debugger's view of memory to which the program has no rights. */
static void peeked(void)
{
    char byte = 0;
    int fd = open("/proc/self/mem", O_RDWR), file = memfd_create("peeked", 0);
    char *at = map(0, 3, PROT_READ | PROT_WRITE, 0);
    at[0] = 'a';
    mprotect(at, 3 * PAGE, PROT_NONE);
    check(pread(fd, &byte, 1, (long)at) == 1 && byte == 'a', "a page without rights is read");
    check(pread(fd, &byte, 1, (long)at + PAGE) == 1 && byte == 0, "so is one that is not there yet");
    equal(pwrite(fd, "b", 1, (long)at), 1, "it is written");
    check(pread(fd, &byte, 1, (long)at) == 1 && byte == 'b', "and read again");
    equal(touch(at), SIGSEGV, "the program has no rights as before");
    char three[3] = "";
    pwrite(fd, "xyz", 3, (long)at + PAGE - 1);
    check(pread(fd, three, 3, (long)at + PAGE - 1) == 3 && memcmp(three, "xyz", 3) == 0, "over two pages");
    (void)!write(file, "file", 4);
    at = mmap(0, 2 * PAGE, PROT_NONE, MAP_PRIVATE, file, 0);
    check(pread(fd, &byte, 1, (long)at) == 1 && byte == 'f', "a file's page is read");
    fails(pread(fd, &byte, 1, (long)at + PAGE), EIO, "but not one beyond its end");
    at = mmap(0, PAGE, PROT_NONE, MAP_SHARED, file, 0);
    check(pread(fd, &byte, 1, (long)at + 1) == 1 && byte == 'i', "and a shared one");
    fails(pwrite(fd, "b", 1, (long)at), EIO, "which is not written");
    fails(pread(fd, &byte, 1, (long)room(1)), EIO, "nothing is where nothing is");
    fails(pread(fd, three, 3, 0x7ffffffff000 - 1), EIO, "nor around the end of what a program has");
    close(file);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"count", count},       {"grows", grows},         {"shown", shown},     {"written", written},
        {"resized", resized},   {"protected", protected}, {"advised", advised}, {"peeked", peeked},
    };
    run_groups(GROUPS(groups), 0, argc, argv);
    return done();
}
