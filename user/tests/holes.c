/* Holes in files: what fallocate() clears, at, about and beyond the end of a file.
 *
 * Interface: no arguments; one line a check (tap.h). Runs on Linux too.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

enum { PUNCH = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, LARGEST = 1 << 15, ROUNDS = 3000 };

static unsigned long long state = 88172645463325252ull;

static unsigned below(unsigned limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

static int file(void)
{
    int fd = memfd_create("holes", 0);
    if (fd < 0)
        exit(!check(0, "a file in memory"));
    return fd;
}

static long size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_size : -1;
}

/* 0 also where the file system has no such operation. */
static int zero_range(int fd, int keep, off_t at, off_t len)
{
    int result = fallocate(fd, FALLOC_FL_ZERO_RANGE | (keep ? FALLOC_FL_KEEP_SIZE : 0), at, len);
    return result < 0 && errno == EOPNOTSUPP ? 0 : result;
}

/* A hole that begins behind the end, in the last page, in the next, and far away. */
static void beyond_the_end(void)
{
    static const off_t places[] = {1, 2, 100, 4095, 4096, 4097, 1 << 20, 1ll << 35};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char name[80], byte = 0;
        int fd = file();
        equal(write(fd, "x", 1), 1, "a file of one byte");
        snprintf(name, sizeof name, "a hole from %lld on", (long long)places[i]);
        equal(fallocate(fd, PUNCH, places[i], 10), 0, name);
        snprintf(name, sizeof name, "zeros from %lld on, the size kept", (long long)places[i]);
        equal(zero_range(fd, 1, places[i], 10), 0, name);
        check(pread(fd, &byte, 1, 0) == 1 && byte == 'x', "the byte is what it was");
        equal(size_of(fd), 1, "the size too");
        close(fd);
    }
    int fd = file();
    equal(fallocate(fd, PUNCH, 100, 10), 0, "a hole in an empty file");
    fails(fallocate(fd, PUNCH, -1, 10), EINVAL, "a hole before the beginning");
    fails(fallocate(fd, PUNCH, 10, 0), EINVAL, "a hole of no length");
    fails(fallocate(fd, PUNCH, 1, 0x7fffffffffffffff), EFBIG, "a hole beyond every offset");
    fails(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP, "a hole that may change the size");
    close(fd);
}

/* Writes, holes and sizes in random order, beside a copy that is a plain array. */
static void beside_a_copy(void)
{
    static unsigned char copy[2 * LARGEST], is[2 * LARGEST];
    long size = 0;
    int fd = file(), round, good = 1;
    for (round = 0; good && round < ROUNDS; round++) {
        unsigned at = below(LARGEST), len = 1 + below(below(2) ? 100 : LARGEST);
        unsigned what = below(4);
        if (below(4) == 0)
            at &= ~4095u;
        if (what == 0) {
            memset(is, 1 + below(255), len);
            good = pwrite(fd, is, len, at) == (ssize_t)len;
            if (at > size)
                memset(copy + size, 0, at - size);
            memcpy(copy + at, is, len);
            size = at + len > size ? at + len : size;
        } else if (what == 1) {
            good = ftruncate(fd, at) == 0;
            if (at > size)
                memset(copy + size, 0, at - size);
            size = at;
        } else if (what == 2) {
            good = fallocate(fd, PUNCH, at, len) == 0;
            for (unsigned i = at; i < at + len && i < size; i++)
                copy[i] = 0;
        } else {
            int result = fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, at, len);
            good = result == 0 || errno == EOPNOTSUPP;
            for (unsigned i = at; result == 0 && i < at + len && i < size; i++)
                copy[i] = 0;
        }
        good =
            good && size_of(fd) == size && pread(fd, is, sizeof is, 0) == size && memcmp(is, copy, size) == 0;
    }
    if (!check(good, "a file is what its copy is"))
        printf("# in round %d\n", round);
    close(fd);
}

int main(void)
{
    beyond_the_end();
    beside_a_copy();
    return done();
}
