/* Advice about memory that shows: what a child has, what is given up, what another's memory may be told; as
 * Linux has it.
 *
 * Interface: madvise [GROUP...]: TAP on standard output.
 */
#define _GNU_SOURCE
#include "tap.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif
#define PAGE 4096L

static char *map(long pages, int flags, int fd)
{
    return mmap(0, pages * PAGE, PROT_READ | PROT_WRITE, flags | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
}

/* The finds of a child in each of `count` pages: its first byte, or '-' where there is nothing. */
static char *in_child(char *at, int count)
{
    static char found[17];
    int ends[2], sink = open("/dev/null", O_WRONLY), status;
    memset(found, 0, sizeof found);
    if (pipe(ends) || sink < 0)
        return "no pipe";
    pid_t child = fork();
    if (child == 0) {
        char copy[16];
        for (int i = 0; i < count; i++) {
            char *page = at + i * PAGE;
            /* The kernel finds out whether it is there. */
            copy[i] = write(ends[1], page, 1) == 1 ? '+' : '-';
        }
        _exit(write(ends[1], copy, count) != count);
    }
    waitpid(child, &status, 0);
    char all[32];
    ssize_t got = read(ends[0], all, sizeof all);
    close(ends[0]), close(ends[1]), close(sink);
    if (got < count || status)
        return "nothing";
    char *marks = all + got - count;
    for (int i = 0, next = 0; i < count; i++) {
        char byte = marks[i] == '+' ? all[next++] : '-';
        found[i] = byte ? byte : '0';
    }
    return found;
}

static void forks(void)
{
    char *p = map(6, MAP_PRIVATE, -1);
    for (int i = 0; i < 6; i++)
        p[i * PAGE] = 'a' + i;
    check(strcmp(in_child(p, 6), "abcdef") == 0, "a child has all");
    equal(madvise(p + PAGE, 2 * PAGE, MADV_DONTFORK), 0, "but for two pages");
    check(strcmp(in_child(p, 6), "a--def") == 0, "they are not there");
    equal(madvise(p + 3 * PAGE, 2 * PAGE, MADV_WIPEONFORK), 0, "and two that are wiped");
    check(strcmp(in_child(p, 6), "a--00f") == 0, "they are zeros");
    check(p[PAGE] == 'b' && p[3 * PAGE] == 'd', "the parent has them still");
    equal(madvise(p + PAGE, PAGE, MADV_DOFORK), 0, "one again");
    check(strcmp(in_child(p, 6), "ab-00f") == 0, "is there");
    equal(madvise(p + 3 * PAGE, PAGE, MADV_KEEPONFORK), 0, "one is kept");
    check(strcmp(in_child(p, 6), "ab-d0f") == 0, "as it is");
    equal(madvise(p + 4 * PAGE, PAGE, MADV_DONTFORK), 0, "wiped and left out");
    check(strcmp(in_child(p, 6), "ab-d-f") == 0, "is left out");
    /* A wish outlasts the fork: a grandchild has what its parent was to have. */
    equal(madvise(p + 4 * PAGE, PAGE, MADV_DOFORK), 0, "in again");
    int status;
    pid_t child = fork();
    if (child == 0) {
        p[4 * PAGE] = 'z';
        _exit(strcmp(in_child(p, 6), "ab-d0f") != 0 || munmap(p + 2 * PAGE, PAGE) != 0 ||
              map(1, MAP_PRIVATE, -1) == MAP_FAILED);
    }
    waitpid(child, &status, 0);
    equal(status, 0, "a child's child has zeros there too");
    munmap(p, 6 * PAGE);
    /* Twice as much as there is, of which a child has nothing. */
    p = map(3, MAP_PRIVATE, -1);
    munmap(p + PAGE, PAGE);
    fails(madvise(p, 3 * PAGE, MADV_DONTFORK), ENOMEM, "a hole");
    p[0] = p[2 * PAGE] = 'x';
    char *there = in_child(p, 3);
    check(there[0] == '-' && there[2] == '-', "what is around it hears");
    fails(madvise(p + 1, PAGE, MADV_DONTFORK), EINVAL, "not a page's beginning");
    munmap(p, 3 * PAGE);
    p = map(2, MAP_SHARED, -1);
    p[0] = 's';
    fails(madvise(p, PAGE, MADV_WIPEONFORK), EINVAL, "shared memory is not wiped");
    equal(madvise(p, PAGE, MADV_KEEPONFORK), 0, "but kept");
    equal(madvise(p, PAGE, MADV_DONTFORK), 0, "and left out");
    check(strcmp(in_child(p, 2), "-0") == 0, "as all memory");
    munmap(p, 2 * PAGE);
    int fd = memfd_create("advices", 0);
    (void)!ftruncate(fd, PAGE);
    p = map(1, MAP_PRIVATE, fd);
    fails(madvise(p, PAGE, MADV_WIPEONFORK), EINVAL, "nor is a file's");
    munmap(p, PAGE);
    close(fd);
}

static void frees(void)
{
    char *p = map(2, MAP_PRIVATE, -1);
    p[0] = 'a', p[PAGE] = 'b';
    equal(madvise(p, PAGE, MADV_FREE), 0, "given up");
    check((p[0] == 'a' || p[0] == 0) && p[PAGE] == 'b', "it may be gone, its neighbour is not");
    p[0] = 'c';
    check(p[0] == 'c', "and written anew");
    equal(mlock(p, PAGE), 0, "locked");
    fails(madvise(p, PAGE, MADV_DONTNEED), EINVAL, "is not given up");
    equal(madvise(p, PAGE, 24 /* MADV_DONTNEED_LOCKED */), 0, "unless it is said so");
    equal(p[0], 0, "then it is gone");
    munmap(p, 2 * PAGE);
    p = map(1, MAP_SHARED, -1);
    fails(madvise(p, PAGE, MADV_FREE), EINVAL, "shared memory is not given up");
    munmap(p, PAGE);
    int fd = memfd_create("advices", 0);
    (void)!ftruncate(fd, PAGE);
    p = map(1, MAP_PRIVATE, fd);
    fails(madvise(p, PAGE, MADV_FREE), EINVAL, "nor is a file's");
    munmap(p, PAGE);
    close(fd);
    fails(madvise(p, PAGE, 77), EINVAL, "no such advice");
}

/* The line of /proc/self/smaps that tells about `at`. */
static char *flags_of(char *at)
{
    static char line[300];
    FILE *file = fopen("/proc/self/smaps", "r");
    unsigned long start, end;
    int here = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            here = start <= (unsigned long)at && (unsigned long)at < end;
        else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            fclose(file);
            return line;
        }
    }
    if (file)
        fclose(file);
    return "";
}

static void flags(void)
{
    char *p = map(1, MAP_PRIVATE, -1);
    check(!strstr(flags_of(p), " dc") && !strstr(flags_of(p), " dd") && !strstr(flags_of(p), " wf"),
          "nothing is wanted");
    madvise(p, PAGE, MADV_DONTFORK), madvise(p, PAGE, MADV_DONTDUMP), madvise(p, PAGE, MADV_WIPEONFORK);
    check(strstr(flags_of(p), " dc") && strstr(flags_of(p), " dd") && strstr(flags_of(p), " wf"),
          "all of it is");
    madvise(p, PAGE, MADV_DOFORK), madvise(p, PAGE, MADV_DODUMP), madvise(p, PAGE, MADV_KEEPONFORK);
    check(!strstr(flags_of(p), " dc") && !strstr(flags_of(p), " dd") && !strstr(flags_of(p), " wf"),
          "and nothing again");
    munmap(p, PAGE);
}

static long process_advice(int fd, const struct iovec *pieces, size_t count, int advice, unsigned flags)
{
    return syscall(440 /* process_madvise */, fd, pieces, count, advice, flags);
}

static void others(void)
{
    char *p = map(3, MAP_PRIVATE, -1);
    struct iovec pieces[2] = {{p, PAGE}, {p + PAGE, PAGE}};
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    int fd = syscall(SYS_pidfd_open, child, 0), own = syscall(SYS_pidfd_open, getpid(), 0), status;
    equal(process_advice(fd, pieces, 2, MADV_COLD, 0), 2 * PAGE, "two pages of a child");
    equal(process_advice(own, pieces, 2, MADV_WILLNEED, 0), 2 * PAGE, "or its own");
    equal(process_advice(fd, pieces, 0, MADV_COLD, 0), 0, "none");
    fails(process_advice(fd, pieces, 2, MADV_COLD, 1), EINVAL, "no flags");
    fails(process_advice(fd, pieces, 2, MADV_DONTNEED, 0), EINVAL, "nothing that would be seen");
    fails(process_advice(-1, pieces, 2, MADV_COLD, 0), EBADF, "nobody");
    fails(process_advice(0, pieces, 2, MADV_COLD, 0), EBADF, "a file is nobody");
    fails(process_advice(fd, (void *)1, 2, MADV_COLD, 0), EFAULT, "pieces that are not there");
    fails(process_advice(fd, pieces, 1025, MADV_COLD, 0), EINVAL, "too many");
    munmap(p + PAGE, PAGE);
    equal(process_advice(own, pieces, 2, MADV_COLD, 0), PAGE, "as far as there is some");
    pieces[0].iov_base = p + PAGE;
    fails(process_advice(own, pieces, 1, MADV_COLD, 0), ENOMEM, "not where there is none");
    pieces[0].iov_base = p + 1;
    fails(process_advice(own, pieces, 1, MADV_COLD, 0), EINVAL, "nor within a page");
    pid_t user = fork();
    if (user == 0) {
        pieces[0].iov_base = p;
        if (setgid(1000) || setuid(1000))
            _exit(9);
        _exit(process_advice(fd, pieces, 1, MADV_COLD, 0) == -1 && errno == EACCES ? 0 : 1);
    }
    waitpid(user, &status, 0);
    equal(WEXITSTATUS(status), 0, "and not without the right to");
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    fails(process_advice(fd, pieces, 1, MADV_COLD, 0), ESRCH, "who has ended has no memory");
    close(fd), close(own);
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"forks", forks}, {"frees", frees}, {"flags", flags}, {"others", others}};
    alarm(60);
    run_groups(groups, sizeof groups / sizeof *groups, 0, argc, argv);
    return done();
}
