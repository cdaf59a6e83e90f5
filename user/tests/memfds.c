/* Checks memory that is a file, seals, memory of other processes, what mappings promise; passes on Linux and
 * must pass here.
 *
 * Interface: memfds [GROUP...] runs all groups or those named; TAP on standard output.
 */
#define _GNU_SOURCE
#include "processes.h"
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 32
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static char block[8 * 4096] __attribute__((aligned(4096)));

static int sealable(void)
{
    int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
    (void)!write(fd, block, 6000);
    return fd;
}

static void seals(void)
{
    int fd = memfd_create("plain", 0);
    equal(fcntl(fd, F_GET_SEALS), F_SEAL_SEAL, "an ordinary one cannot be sealed");
    fails(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM, "nor is it");
    close(fd);
    fd = sealable();
    equal(fcntl(fd, F_GET_SEALS), 0, "no seal at first");
    fails(fcntl(fd, F_ADD_SEALS, 64), EINVAL, "no such seal");
    equal(fcntl(fd, F_ADD_SEALS, 0), 0, "none added");
    equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0, "no shorter");
    equal(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK, "said so");
    fails(ftruncate(fd, 100), EPERM, "a shorter size");
    equal(ftruncate(fd, 7000), 0, "a longer one");
    equal(ftruncate(fd, 7000), 0, "the same");
    equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0, "no longer");
    fails(ftruncate(fd, 7001), EPERM, "a longer size");
    equal(pwrite(fd, "xyz", 3, 6997), 3, "up to the end");
    fails(pwrite(fd, "xyz", 3, 6998), EPERM, "beyond it");
    fails(pwrite(fd, "xyz", 3, 7000), EPERM, "at it");
    equal(pwrite(fd, block, 8000, 0), 4096, "whole pages before the end");
    lseek(fd, 6000, SEEK_SET);
    equal(write(fd, "abc", 3), 3, "at the offset");
    lseek(fd, 0, SEEK_END);
    fails(write(fd, "abc", 3), EPERM, "at the end");
    fails(fallocate(fd, 0, 0, 8000), EPERM, "room beyond");
    equal(fallocate(fd, 0, 0, 7000), 0, "room inside");
    equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 100), 0, "a hole");
    /* Writes by a routine that was made before. */
    int other = sealable();
    lseek(other, 0, SEEK_SET);
    for (int i = 0; i < 100; i++)
        (void)!write(other, "x", 1);
    equal(fcntl(other, F_ADD_SEALS, F_SEAL_WRITE), 0, "no writing");
    fails(write(other, "x", 1), EPERM, "a byte");
    fails(write(other, block, 4096), EPERM, "a page");
    fails(pwrite(other, "x", 1, 0), EPERM, "somewhere");
    equal(write(other, "", 0), 0, "nothing");
    equal(lseek(other, 0, SEEK_CUR), 100, "the offset stays");
    fails(fallocate(other, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 100), EPERM, "no hole");
    fails(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0), EPERM,
          "no shared mapping to write");
    char *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, other, 0);
    check(map != MAP_FAILED && (map[0] = 'p') == 'p', "a copy may be written");
    munmap(map, PAGE);
    map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, 0);
    check(map != MAP_FAILED && map[0] == 'x', "it may be read");
    fails(mprotect(map, PAGE, PROT_READ | PROT_WRITE), EACCES, "and never be written");
    munmap(map, PAGE);
    equal(ftruncate(other, 10), 0, "its size may change");
    close(other);
    /* Mappings that may write. */
    other = sealable();
    map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    fails(fcntl(other, F_ADD_SEALS, F_SEAL_WRITE), EBUSY, "somebody may write");
    equal(fcntl(other, F_GET_SEALS), 0, "no seal then");
    munmap(map, PAGE);
    map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, 0);
    fails(fcntl(other, F_ADD_SEALS, F_SEAL_WRITE), EBUSY, "or may come to");
    pid_t child = fork();
    if (child == 0)
        pause();
    munmap(map, PAGE);
    fails(fcntl(other, F_ADD_SEALS, F_SEAL_WRITE), EBUSY, "or a child");
    kill(child, SIGKILL);
    status_of(child);
    map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, other, 0);
    equal(fcntl(other, F_ADD_SEALS, F_SEAL_WRITE), 0, "a copy does not count");
    munmap(map, PAGE);
    close(other);
    /* The seal for later writes. */
    other = sealable();
    map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
    equal(fcntl(other, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0, "no writing from now on");
    map[1] = 'y';
    check(map[1] == 'y', "what is mapped is written");
    fails(pwrite(other, "x", 1, 0), EPERM, "no call writes");
    fails(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0), EPERM, "no new mapping");
    char *again = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, other, 0);
    check(again != MAP_FAILED && again[1] == 'y', "one to read");
    fails(mprotect(again, PAGE, PROT_READ | PROT_WRITE), EACCES, "stays that");
    munmap(again, PAGE), munmap(map, PAGE);
    equal(fcntl(other, F_ADD_SEALS, F_SEAL_SEAL), 0, "no more seals");
    fails(fcntl(other, F_ADD_SEALS, F_SEAL_GROW), EPERM, "none");
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", other);
    int reader = open(path, O_RDONLY);
    fails(fcntl(reader, F_ADD_SEALS, F_SEAL_GROW), EPERM, "nor by who may only read");
    equal(fcntl(reader, F_GET_SEALS), F_SEAL_FUTURE_WRITE | F_SEAL_SEAL, "who sees them");
    close(reader), close(other), close(fd);
    fd = open("/dev/null", O_RDWR);
    fails(fcntl(fd, F_GET_SEALS), EINVAL, "no memory");
    fails(fcntl(fd, F_ADD_SEALS, 1), EINVAL, "nothing to seal");
    close(fd);
    fails(memfd_create("x", 1u << 20), EINVAL, "an unknown flag");
    fd = memfd_create("noexec", MFD_NOEXEC_SEAL);
    if (fd >= 0 || errno != EINVAL) {
        struct stat about;
        fstat(fd, &about);
        equal(about.st_mode & 0777, 0666, "nothing to execute");
        equal(fcntl(fd, F_GET_SEALS), F_SEAL_EXEC, "for ever");
        fails(fchmod(fd, 0777), EPERM, "really");
        equal(fchmod(fd, 0600), 0, "other bits may change");
        close(fd);
    }
    /* A write that begins before the seal ends before it. */
    fd = sealable();
    ftruncate(fd, 0);
    child = fork();
    if (child == 0) {
        unsigned long count = 0;
        while (pwrite(fd, "12345678", 8, count % 4096) == 8)
            count += 8;
        _exit(errno == EPERM ? 0 : 1);
    }
    struct stat about;
    do
        fstat(fd, &about);
    while (about.st_size < 8);
    equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0, "sealed under a writer");
    equal(status_of(child), 0, "who is told");
    close(fd);
}

static void others(void)
{
    static char mine[3 * 4096], copy[3 * 4096];
    for (size_t i = 0; i < sizeof mine; i++)
        mine[i] = (char)(i * 7 + i / 4096);
    char *fixed = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *hole = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(hole, 'h', PAGE);
    munmap(hole + PAGE, PAGE);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    memset(mine, 0, 100);
    struct iovec to[3] = {{copy, 1000}, {copy + 1000, 0}, {copy + 1000, 7000}},
                 from[2] = {{mine, 4000}, {mine + 4000, 4000}};
    equal(process_vm_readv(child, to, 3, from, 2, 0), 8000, "read of a child");
    char first = 0 * 7 + 0;
    check(copy[0] == first && copy[99] == (char)(99 * 7) && memcmp(copy + 100, mine + 100, 7900) == 0,
          "what it has");
    equal(process_vm_writev(child, from, 2, from, 2, 0), 8000, "written");
    equal(process_vm_readv(child, to, 1, from, 1, 0), 1000, "read again");
    check(memcmp(copy, mine, 1000) == 0, "what was written");
    equal(process_vm_readv(getpid(), to, 1, from, 1, 0), 1000, "of oneself");
    equal(process_vm_readv(child, to, 1, from, 0, 0), 0, "nothing there");
    equal(process_vm_readv(child, to, 0, from, 1, 0), 0, "nothing here");
    equal(process_vm_readv(child, NULL, 0, NULL, 0, 0), 0, "nothing at all");
    struct iovec wild = {hole, 2 * PAGE}, local = {copy, sizeof copy}, nowhere = {(void *)8, 100},
                 barred = {fixed, 10};
    equal(process_vm_readv(child, &local, 1, &wild, 1, 0), PAGE, "up to a hole");
    struct iovec two[2] = {{hole, PAGE}, {hole + PAGE, 10}};
    equal(process_vm_readv(child, &local, 1, two, 2, 0), PAGE, "the first piece");
    equal(process_vm_writev(child, &local, 1, two, 2, 0), PAGE, "and written");
    fails(process_vm_readv(child, &local, 1, &nowhere, 1, 0), EFAULT, "nothing there");
    fails(process_vm_writev(child, &local, 1, &barred, 1, 0), EFAULT, "not to be written");
    equal(process_vm_readv(child, &local, 1, &barred, 1, 0), 10, "to be read");
    fails(process_vm_readv(child, &nowhere, 1, from, 1, 0), EFAULT, "nowhere to put it");
    fails(process_vm_readv(child, to, 1, from, 1, 1), EINVAL, "a flag");
    fails(process_vm_readv(child, to, 1025, from, 1, 0), EINVAL, "too many pieces");
    fails(process_vm_readv(child, to, 1, from, 1025, 0), EINVAL, "too many there");
    struct iovec negative = {mine, SIZE_MAX};
    fails(process_vm_readv(child, to, 1, &negative, 1, 0), EINVAL, "a negative length");
    fails(process_vm_readv(child, to, 1, (void *)8, 1, 0), EFAULT, "wild pieces");
    fails(process_vm_readv(0x3fffffff, to, 1, from, 1, 0), ESRCH, "nobody");
    /* kcmp */
#define KCMP(a, b, type, x, y) syscall(SYS_kcmp, (long)(a), (long)(b), (long)(type), (long)(x), (long)(y))
    pid_t me = getpid();
    int fd = open("/dev/null", O_RDWR), same = dup(fd), different = open("/dev/null", O_RDWR);
    if (KCMP(me, me, 1, 0, 0) != -1 || errno != ENOSYS) {
        equal(KCMP(me, me, 0, fd, same), 0, "one description");
        long order = KCMP(me, me, 0, fd, different);
        check(order == 1 || order == 2, "two");
        equal(KCMP(me, me, 0, different, fd), 3 - order, "the other way round");
        equal(KCMP(me, child, 0, 0, 0), 0, "shared with a child");
        fails(KCMP(me, child, 0, fd, fd), EBADF, "which has not that");
        fails(KCMP(me, me, 0, 999, fd), EBADF, "nor I this");
        for (int type = 1; type < 7; type++) {
            equal(KCMP(me, me, type, 0, 0), 0, "myself");
            long other = KCMP(me, child, type, 0, 0);
            check(type < 5 ? other == 1 || other == 2 : other >= 0, "a child has its own");
        }
        fails(KCMP(me, me, 8, 0, 0), EINVAL, "no such thing");
        fails(KCMP(me, 0x3fffffff, 1, 0, 0), ESRCH, "nobody to compare with");
        int poller = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        int ends[2];
        (void)!pipe(ends);
        epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event);
        unsigned slot[3] = {poller, ends[0], 0};
        equal(KCMP(me, me, 7, ends[0], slot), 0, "what is watched");
        check(KCMP(me, me, 7, ends[1], slot) > 0, "what is not");
        slot[2] = 1;
        fails(KCMP(me, me, 7, ends[0], slot), ENOENT, "watched once only");
        /* The file is watched on when its number has become another's, which is watched, too. */
        int keep = dup(ends[0]), first = 0, second = 0;
        dup2(ends[1], ends[0]);
        equal(epoll_ctl(poller, EPOLL_CTL_ADD, ends[0], &event), 0, "another file of the same number");
        for (unsigned which = 0; which < 2; which++) {
            slot[2] = which;
            first += KCMP(me, me, 7, keep, slot) == 0;
            second += KCMP(me, me, 7, ends[1], slot) == 0;
        }
        check(first == 1 && second == 1, "both are found by that number");
        slot[2] = 2;
        fails(KCMP(me, me, 7, keep, slot), ENOENT, "and no third");
        close(keep);
        slot[0] = fd;
        fails(KCMP(me, me, 7, ends[0], slot), EINVAL, "no instance");
        fails(KCMP(me, me, 7, ends[0], 8), EFAULT, "a wild slot");
        close(poller), close(ends[0]), close(ends[1]);
    }
    if (geteuid() == 0) {
        pid_t user = fork();
        if (user == 0) {
            (void)!setgid(1234), (void)!setuid(1234);
            int bad = !(process_vm_readv(child, to, 1, from, 1, 0) == -1 && errno == EPERM);
            bad |= !(process_vm_writev(child, to, 1, from, 1, 0) == -1 && errno == EPERM) << 1;
            bad |= !(KCMP(getpid(), child, 1, 0, 0) == -1 && (errno == EPERM || errno == ENOSYS)) << 2;
            _exit(bad);
        }
        equal(status_of(user), 0, "an ordinary user may not");
    }
    kill(child, SIGKILL);
    siginfo_t info;
    waitid(P_PID, child, &info, WEXITED | WNOWAIT);
    fails(process_vm_readv(child, to, 1, from, 1, 0), ESRCH, "the dead have no memory");
    status_of(child);
    close(fd), close(same), close(different);
}

static void maps(void)
{
    char *big =
        mmap(NULL, 64L << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(big != MAP_FAILED, "64 GiB that need not be there");
    big[0] = big[(64L << 30) - 1] = big[32L << 30] = 1;
    check(big[1] == 0 && big[32L << 30] == 1, "parts of it");
    equal(munmap(big, 64L << 30), 0, "away");
    /* Low addresses. */
    char *low = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    check(low != MAP_FAILED && (uintptr_t)low < 1ul << 31, "low memory");
    munmap(low, PAGE);
    char *hint = (char *)0x50000000;
    low = mmap(hint, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    check(low == hint, "a hint among low addresses");
    char *next = mmap(hint, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    check(next != MAP_FAILED && next != hint && (uintptr_t)next < 1ul << 31, "one that is taken");
    munmap(low, PAGE), munmap(next, PAGE);
    low = mmap((void *)0x200000000, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1,
               0);
    check(low != MAP_FAILED && (uintptr_t)low < 1ul << 31, "one that is not low");
    munmap(low, PAGE);
    /* MREMAP_DONTUNMAP */
    char *old = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(old, 'o', 4 * PAGE);
    char *moved = mremap(old, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    check(moved != MAP_FAILED && moved != old && moved[0] == 'o' && moved[4 * PAGE - 1] == 'o', "pages move");
    check(old[0] == 0 && old[4 * PAGE - 1] == 0, "their place stays, empty");
    old[0] = 'n';
    check(moved[0] == 'o', "the two are apart");
    char *there = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(mremap(moved, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED, there) == there,
          "to a place");
    check(there[0] == 'o' && moved[0] == 0 && moved[2 * PAGE] == 'o', "half of them");
    fails(mremap(old, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL), EINVAL, "not longer");
    fails(mremap(old, 4 * PAGE, 4 * PAGE, MREMAP_DONTUNMAP, NULL), EINVAL, "only if it may move");
    fails(mremap(old, 4 * PAGE, 4 * PAGE, 8), EINVAL, "an unknown flag");
    munmap(there, 4 * PAGE), munmap(old, 4 * PAGE), munmap(moved, 4 * PAGE);
    /* mincore */
    unsigned char found[8];
    char *some = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    some[2 * PAGE] = 1;
    equal(mincore(some, 4 * PAGE, found), 0, "asked");
    check((found[0] & 1) == 0 && (found[1] & 1) == 0 && (found[2] & 1) == 1 && (found[3] & 1) == 0,
          "what was touched is in memory");
    enum { MANY = 3000 };
    static unsigned char which[MANY];
    char *large = mmap(0, MANY * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(large, MANY * PAGE, MADV_NOHUGEPAGE);
    for (int i = 0; i < MANY; i += 1 + i / 7)
        large[i * PAGE] = 1;
    int wrong = mincore(large, MANY * PAGE, which) != 0;
    for (int i = 0, there = 0; i < MANY; i++) {
        wrong += (which[i] & 1) != (i == there);
        there += i == there ? 1 + i / 7 : 0;
    }
    equal(wrong, 0, "of many pages each is told");
    munmap(large, MANY * PAGE);
    fails(mincore(some + 1, PAGE, found), EINVAL, "no page");
    munmap(some + PAGE, PAGE);
    fails(mincore(some, 4 * PAGE, found), ENOMEM, "a hole");
    fails(mincore(some, PAGE, (void *)8), EFAULT, "nowhere to tell");
    munmap(some, 4 * PAGE);
    int fd = memfd_create("core", 0);
    ftruncate(fd, 4 * PAGE);
    (void)!pwrite(fd, "x", 1, PAGE);
    some = mmap(NULL, 4 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    equal(mincore(some, 4 * PAGE, found), 0, "a file asked");
    check((found[0] & 1) == 0 && (found[1] & 1) == 1 && (found[2] & 1) == 0, "what it has");
    fails(msync(some + 1, PAGE, MS_SYNC), EINVAL, "msync of no page");
    fails(msync(some, PAGE, 8), EINVAL, "an unknown flag of msync");
    equal(msync(some, 100, MS_SYNC), 0, "msync");
    munmap(some, 4 * PAGE);
    fails(msync(some, PAGE, MS_SYNC), ENOMEM, "of nothing");
    close(fd);
}

static void barriers(void)
{
#define BARRIER(command, flags) syscall(SYS_membarrier, command, flags, 0)
    long known = BARRIER(0, 0);
    check(known >= 0 && (known & 0x1f) == 0x1f, "what there is");
    pid_t child = fork();
    if (child == 0) {
        int bad = !(BARRIER(8, 0) == -1 && errno == EPERM);
        bad |= (BARRIER(16, 0) != 0) << 1;
        bad |= (BARRIER(8, 0) != 0) << 2;
        bad |= !(BARRIER(32, 0) == -1 && errno == EPERM) << 3;
        bad |= (BARRIER(64, 0) != 0) << 4;
        bad |= (BARRIER(32, 0) != 0) << 5;
        _exit(bad);
    }
    equal(status_of(child), 0, "who has said so may");
    equal(BARRIER(1, 0), 0, "of all");
    equal(BARRIER(2, 0), 0, "of all who have said so");
    equal(BARRIER(4, 0), 0, "who says so");
    fails(BARRIER(0, 1), EINVAL, "a flag");
    fails(BARRIER(1, 2), EINVAL, "another");
    fails(BARRIER(1 << 20, 0), EINVAL, "no such command");
    fails(BARRIER(-1, 0), EINVAL, "nor this");
}

int main(int argc, char **argv)
{
    static const struct group groups[] = {
        {"seals", seals}, {"others", others}, {"maps", maps}, {"barriers", barriers}};
    memset(block, 'b', sizeof block);
    run_groups(groups, sizeof groups / sizeof *groups, NULL, argc, argv);
    return done();
}
